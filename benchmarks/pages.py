"""What README shows, and the records behind docs/worked-case.md and docs/two-questions.md: run, keep what was measured.

Run: ``python benchmarks/pages.py`` on a machine with nothing else to do, or with ``profile`` or ``cases`` for one of
the two. *profile* replaces what stands between the marks in README, and its picture. *cases* writes
docs/_data/worked-case.json and docs/_data/two-questions.json; tables, pictures and the numbers in the pages' sentences
are computed from them when the pages are built, by the functions here. The pictures need matplotlib
(``pip install -e '.[viz]'``).
"""

import argparse
import json
import sys
import tempfile
from datetime import date
from pathlib import Path

import numpy as np
import two_questions
import worked_case

from tinytorch.core.autograd import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import profile_forward_pass
from tinytorch.zoo import models

ROOT = Path(__file__).parents[1]
DOCS, DATA = ROOT / "docs", ROOT / "docs" / "_data"
PICTURE, PICTURED = DOCS / "_static" / "profile.svg", "digits_cnn"
BEGIN, END = "<!-- figures: written by benchmarks/pages.py -->\n", "<!-- end of figures -->\n"
PARTS = {"bytes_ms": "bytes", "tanh_ms": "tanh", "faults_ms": "fresh memory", "in_cache_ms": "passes in cache"}
GUESSES = {"from_bytes": "from bytes", "from_explained": "+ tanh + fresh memory", "from_all": "+ passes in cache"}
COLOURS = ("#4477aa", "#ee8866", "#ddcc77", "#77aadd")
STYLE = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}


def put(page: Path, figures: str) -> None:
    """Replace what stands between the marks of a page; ``ValueError`` where a mark is missing."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page.name}: want the marks {BEGIN.strip()} and {END.strip()}, once each")
    before, rest = text.split(BEGIN)
    page.write_text(before + BEGIN + figures + END + rest.split(END)[1], encoding="utf-8", newline="\n")


def keep(name: str, result: dict, folder: Path | None = None) -> Path:
    """Write a result down, without the traces, which were files of that run; return the file."""
    folder = folder or DATA
    folder.mkdir(parents=True, exist_ok=True)
    file, kept = folder / f"{name}.json", {key: value for key, value in result.items() if key != "traces"}
    file.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n", encoding="utf-8", newline="\n")
    return file


def record(name: str, folder: Path | None = None) -> dict:
    """Read what was kept; ``FileNotFoundError`` says how to make it."""
    file = (folder or DATA) / f"{name}.json"
    if not file.is_file():
        raise FileNotFoundError(f"{file.name} is not there; run: python benchmarks/pages.py")
    return json.loads(file.read_text(encoding="utf-8"))


def markdown(rows: list[list[str]], left: tuple[int, ...] = (0,)) -> str:
    """Write a table, its header first: columns of numbers to the right, those named in ``left`` to the left."""
    lines = [rows[0], ["---" if column in left else "---:" for column in range(len(rows[0]))], *rows[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def case_figures(result: dict) -> str:
    """Return the block of figures of the worked case, as Markdown."""
    fenced = "\n".join([*worked_case.banner(result), worked_case.agreement(result)])
    mark = "\n\\* a tensor is smaller than eight times the last-level cache, or that is unknown: the cache may help.\n"
    return (f"```text\n{fenced}\n```\n\n{markdown(worked_case.spelling_rows(result))}\n"
            f"{markdown(worked_case.ratio_rows(result))}{mark if result['workload']['cache_may_help'] else ''}\n"
            f"{worked_case.whole(result)}.\n")


def time_picture(result: dict):
    """Draw where the time of each spelling goes; return the figure."""
    from matplotlib import pyplot as plt

    names = list(result["spellings"])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 3.1), layout="constrained")
        for row, name in enumerate(names):
            one, left = result["spellings"][name], 0.0
            for (part, label), colour in zip(PARTS.items(), COLOURS):
                axes.barh(row, one[part], left=left, color=colour, label=label if row == 0 else None, height=0.55)
                left += one[part]
            axes.plot([one["measured_ms"]] * 2, [row - 0.4, row + 0.4], color="black", lw=2.5,
                      label="measured" if row == 0 else None)
        axes.set(yticks=range(len(names)), yticklabels=names, xlabel="milliseconds for one pass of the chain",
                 title="Where the time of each spelling goes")
        axes.invert_yaxis()
        axes.legend(frameon=False, loc="lower right")
    return figure


def ratio_picture(result: dict):
    """Draw the ratios, predicted and measured; return the figure."""
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 3.3), layout="constrained")
        for place, row in enumerate(result["ratios"]):
            for step, ((key, label), colour) in enumerate(zip(GUESSES.items(), COLOURS)):
                axes.bar(place + 0.2 * step, row[key], 0.18, color=colour, label=label if place == 0 else None)
            low, high = row["interval"]
            axes.bar(place + 0.6, row["measured"], 0.18, color="#333333", label="measured" if place == 0 else None)
            axes.errorbar(place + 0.6, row["measured"], [[row["measured"] - low], [high - row["measured"]]],
                          color="#cc3311", capsize=4)
        axes.set(xticks=[place + 0.3 for place in range(len(result["ratios"]))], ylabel="times as fast",
                 xticklabels=[f"{row['fast']} / {row['slow']}" for row in result["ratios"]],
                 title="How many times as fast, predicted and measured")
        axes.legend(frameon=False, loc="upper left")
    return figure


def measure_profile() -> dict:
    """Profile the pictured model as it answers: in evaluation mode, without a graph."""
    build, shape = models()[PICTURED]
    with no_grad():
        found = profile_forward_pass(build().eval(), Tensor(np.random.default_rng(0).standard_normal(shape)))
    workload = {**found["latency"]["workload"], "model": PICTURED, "date": date.today().isoformat()}
    return {"layers": found["layers"], "workload": workload, "warnings": found["latency"]["warnings"]}


def profile_figures(found: dict, picture: Path) -> str:
    """Draw a profile as three aligned bars, and return the lines that show it in README, with what it says in words."""
    from tinytorch.perf.pictures import layer_ribbons, to_svg

    workload, figure = found["workload"], layer_ribbons(found["layers"], found["workload"])
    picture.write_bytes(to_svg(figure))
    model, threads = workload["model"], workload["blas_threads"]
    where = "a busy machine" if any("is busy" in warning for warning in found["warnings"]) else "one machine"
    alt = (f"A profile of {model}: its time, FLOPs and bytes as three aligned bars, a ribbon joining each layer from "
           f"bar to bar. {figure.texts[0].get_text()}.")
    return (f"![{alt}](docs/_static/{picture.name})\n\n"
            f"*Each bar is the whole network, each piece a layer: where a ribbon changes its width, FLOPs alone "
            f"mislead.\nOne pass over {workload['shapes'][0][0]} inputs, measured {workload['date']} on {where}: "
            f"{workload['cpu']}, {threads} BLAS thread{'' if threads == 1 else 's'}.\n"
            f"`tito profile {model} --html report.html` draws it for yours.*\n")


def write_profile() -> int:
    """Measure and write the picture of README."""
    found = measure_profile()
    for warning in found["warnings"]:
        print(f"doubt: {warning}", file=sys.stderr)
    put(ROOT / "README.md", profile_figures(found, PICTURE))
    print(f"README.md and {PICTURE.relative_to(ROOT)} are written")
    return 0


def write_cases() -> int:
    """Run both cases and keep both records; return 1, keeping nothing, if one did not go as claimed."""
    with tempfile.TemporaryDirectory() as traces:
        result = worked_case.run(8192, 1024, 9, Path(traces))
    failures = result["failures"]
    prompt, new = two_questions.PROMPT, two_questions.NEW
    first = two_questions.middle([two_questions.fresh(prompt, new) for _ in range(two_questions.FRESH)])
    asked = two_questions.answers(prompt, new, two_questions.REPEATS, first)
    if not asked["same_text"]:
        failures = [*failures, "the fresh process gave another text"]
    for failure in failures:
        print(f"FAIL: {failure}", file=sys.stderr)
    if failures:
        return 1
    for name, kept in (("worked-case", result), ("two-questions", asked)):
        load = kept["workload"]["load"]
        if load is None or load > 1.5:
            others = "an unknown number of" if load is None else f"{load:.1f}"
            print(f"doubt: {name}: {others} other processes wanted to run; make the record anew on a quiet machine",
                  file=sys.stderr)
    print(f"{keep('worked-case', result)}\n{keep('two-questions', asked)}")
    return 0


def main() -> int:
    """Write what was asked for; return 1 where a case contradicts itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["profile", "cases"], help="by default both")
    what = parser.parse_args().what
    wanted = [write for name, write in (("profile", write_profile), ("cases", write_cases)) if what in (None, name)]
    return max(write() for write in wanted)


if __name__ == "__main__":
    sys.exit(main())
