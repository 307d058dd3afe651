"""Write the figures of docs/worked-case.md and docs/two-questions.md anew: run both, put tables and pictures in place.

Run: ``python benchmarks/pages.py`` on a machine with nothing else to do. What stands between the marks in a page is
replaced, nothing else is touched. The pictures need matplotlib (``pip install -e '.[viz]'``).
"""

import sys
import tempfile
from pathlib import Path

import two_questions
import worked_case

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- figures: written by benchmarks/pages.py -->\n", "<!-- end of figures -->\n"
PARTS = {"bytes_ms": "bytes", "tanh_ms": "tanh", "faults_ms": "fresh memory", "in_cache_ms": "passes in cache"}
COLOURS = ("#4477aa", "#ee8866", "#ddcc77", "#77aadd")


def put(page: Path, figures: str) -> None:
    """Replace what stands between the marks of a page; ``ValueError`` where a mark is missing."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page.name}: want the marks {BEGIN.strip()} and {END.strip()}, once each")
    before, rest = text.split(BEGIN)
    page.write_text(before + BEGIN + figures + END + rest.split(END)[1], encoding="utf-8", newline="\n")


def markdown(rows: list[list[str]]) -> str:
    """Write a table, its header first."""
    lines = [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def case_figures(result: dict) -> str:
    """Return the block of figures of the worked case."""
    fenced = "\n".join([*worked_case.banner(result), worked_case.agreement(result)])
    mark = "\n\\* a tensor is smaller than eight times the last-level cache, or that is unknown: the cache may help.\n"
    return (f"```text\n{fenced}\n```\n\n{markdown(worked_case.spelling_rows(result))}\n"
            f"{markdown(worked_case.ratio_rows(result))}{mark if result['workload']['cache_may_help'] else ''}\n"
            f"{worked_case.whole(result)}.\n")


def draw(result: dict, folder: Path) -> None:
    """Draw where the time of each spelling goes, and the ratios, predicted and measured, as SVG."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "tinytorch", "font.size": 11, "axes.spines.top": False,
                         "axes.spines.right": False})
    names = list(result["spellings"])
    figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
    for row, name in enumerate(names):
        one, left = result["spellings"][name], 0.0
        for (part, label), colour in zip(PARTS.items(), COLOURS):
            axes.barh(row, one[part], left=left, color=colour, label=label if row == 0 else None, height=0.55)
            left += one[part]
        axes.plot([one["measured_ms"]] * 2, [row - 0.4, row + 0.4], color="black", lw=2.5,
                  label="measured" if row == 0 else None)
    axes.set(yticks=range(len(names)), yticklabels=names, xlabel="milliseconds for one pass of the chain")
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(folder / "worked-case-time.svg", metadata={"Date": None})
    plt.close(figure)

    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    guesses = {"from_bytes": "from bytes", "from_explained": "+ tanh + fresh memory", "from_all": "+ passes in cache"}
    for place, row in enumerate(result["ratios"]):
        for step, ((key, label), colour) in enumerate(zip(guesses.items(), COLOURS)):
            axes.bar(place + 0.2 * step, row[key], 0.18, color=colour, label=label if place == 0 else None)
        low, high = row["interval"]
        axes.bar(place + 0.6, row["measured"], 0.18, color="#333333", label="measured" if place == 0 else None)
        axes.errorbar(place + 0.6, row["measured"], [[row["measured"] - low], [high - row["measured"]]],
                      color="#cc3311", capsize=4)
    axes.set(xticks=[place + 0.3 for place in range(len(result["ratios"]))], ylabel="times as fast",
             xticklabels=[f"{row['fast']} / {row['slow']}" for row in result["ratios"]])
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(folder / "worked-case-ratios.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> int:
    """Run both cases and write both pages; return the exit status of the worked case."""
    with tempfile.TemporaryDirectory() as traces:
        result = worked_case.run(8192, 1024, 9, Path(traces))
    for failure in result["failures"]:
        print(f"FAIL: {failure}", file=sys.stderr)
    if result["failures"]:
        return 1
    put(DOCS / "worked-case.md", case_figures(result))
    draw(result, DOCS)
    prompt, new = two_questions.PROMPT, two_questions.NEW
    first = two_questions.middle([two_questions.fresh(prompt, new) for _ in range(two_questions.FRESH)])
    asked = two_questions.answers(prompt, new, two_questions.REPEATS, first)
    put(DOCS / "two-questions.md", f"```text\n{two_questions.report(asked)}\n```\n")
    print("docs/worked-case.md, docs/two-questions.md and two pictures are written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
