"""`tito profile MODEL --html FILE`: one page that holds all a profile found, in tables and pictures."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tito.errors import TitoError

STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --quiet: #555; --line: #ccc; --stripe: #f5f5f5;
  --mark: #0b3c6f; --doubt: #a63c06; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --paper: #16181b; --quiet: #aaa; --line: #4a4d52; --stripe: #202327; --mark: #7db3ea;
    --doubt: #f0935a; }
}
body { background: var(--paper); color: var(--ink); margin: 0;
  font: 15px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
p { margin: .5rem 0; max-width: 75ch; overflow-wrap: anywhere; }
.small, figcaption, caption { color: var(--quiet); font-size: .87rem; }
.verdict { font-size: 1.1rem; border-left: 4px solid var(--mark); padding: .2rem 0 .2rem .8rem; }
.doubt { border-left: 4px solid var(--doubt); padding-left: .8rem; }
.wide { overflow-x: auto; }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .87rem; margin: .4rem 0; }
caption { text-align: left; padding-bottom: .3rem; }
caption span { display: inline-block; position: sticky; left: 0; max-width: calc(100vw - 2.5rem); }
th, td { padding: .16rem .7rem .16rem 0; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid var(--quiet); white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--stripe); }
th[scope=row] { font-weight: normal; max-width: 20rem; overflow-wrap: break-word; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; display: block; background: #fff; border-radius: 3px; }
summary { cursor: pointer; margin: .5rem 0; }
@media screen and (max-width: 640px) { figure img { max-width: none; width: 680px; } }
@media print {
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  h2, caption, thead { break-after: avoid; }
  tr, figure { break-inside: avoid; }
  .wide { overflow: visible; }
  table { font-size: 7.5pt; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""

MISSING = 'Missing for want of matplotlib: {}. To have them: pip install "tinytorch[viz]", then run this again.'

Cell = str | tuple[str, float]  # a text, or (text, depth): indented


def place_for(text: str) -> Path:
    """Return the full path of the page to be written; one sentence where it could not be written."""
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        raise TitoError(f"{text} is a folder; name a file in it, such as {path / 'report.html'}")
    if path.exists() and not path.is_file():
        raise TitoError(f"{text} is no ordinary file; name one that may be written")
    if not path.parent.is_dir():
        raise TitoError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if not os.access(path.parent, os.W_OK):
        raise TitoError(f"nothing may be written into {path.parent}; choose another place")
    return path


def write_report(result: dict[str, Any], path: Path) -> None:
    """Write the page of what ``profile_model(..., details=True)`` found: whole, or not at all."""
    from tito.notebooks.export import write_atomically

    text = page(result)
    try:
        write_atomically(path.resolve(), text)
    except OSError as error:
        why = error.strerror or error
        raise TitoError(f"{path} could not be written: {why}; what was there is as it was") from error


def page(result: dict[str, Any]) -> str:
    """Return the page as HTML5, complete in itself."""
    name = _safe(f"Profile of {result['model']} on {_shape(result['input_shape'])}")
    parts = _counted(result) if "not_run" in result else _measured(result)
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{name}</title>\n'
            f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n" + "\n".join(parts)
            + "\n</main>\n</body>\n</html>\n")


# ---- words

def _safe(text: Any) -> str:
    """Escape any text; what UTF-8 or HTML cannot hold becomes a question mark."""
    letters = str(text).encode("utf-8", "replace").decode("utf-8")
    return escape("".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in letters))


def _shape(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _p(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{_safe(text)}</p>' if kind else f"<p>{_safe(text)}</p>"


def _section(title: str, *parts: str) -> str:
    inner = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{_safe(title)}</h2>\n{inner}\n</section>"


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: Sequence[str] = ()) -> str:
    """Return a table; the columns named in ``numbers`` stand flush right, the first column heads its row."""
    kinds = [' class="number"' if title in numbers else "" for title in head]
    titles = "".join(f'<th scope="col"{kind}>{_safe(title)}</th>' for title, kind in zip(head, kinds))
    lines = []
    for first, *others in rows:
        text, depth = first if isinstance(first, tuple) else (first, 0)
        indent = f' style="padding-left: {depth}em"' if depth else ""
        cells = "".join(f"<td{kind}>{_safe(cell)}</td>" for cell, kind in zip(others, kinds[1:]))
        lines.append(f'<tr><th scope="row"{indent}>{_safe(text)}</th>{cells}</tr>')
    caption = _safe(caption)
    return (f'<div class="wide" role="group" tabindex="0" aria-label="{caption}">\n'  # it scrolls where it is too wide
            f"<table>\n<caption><span>{caption}</span></caption>\n<thead><tr>{titles}</tr></thead>\n"
            "<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>\n</div>")


def _pairs(caption: str, pairs: Sequence[tuple[str, str]], heads: tuple[str, str] = ("what", "value")) -> str:
    return _table(caption, heads, pairs)


def _folded(summary: str, inner: str) -> str:
    return f"<details>\n<summary>{_safe(summary)}</summary>\n{inner}\n</details>"


def _size(count: float) -> str:
    """Write bytes with four digits in the unit that reads well, a power of 1024."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count, units = count / 1024, units[1:]
    return f"{count:,.4g} {units[0]}"


def _bytes(count: float) -> str:
    return f"{count:,.0f} ({_size(count)})"


def _share(part: float, whole: float = 1.0) -> str:
    share = part / whole if whole else 0.0
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


# ---- what every page has

def _header(result: dict[str, Any], environment: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the workload: what was counted or measured, when and on what."""
    kinds = " ".join(environment.get("dtypes", ()))  # of a model that only was counted, there are none
    pairs = [("model", result["model"]), ("input", f"{_shape(result['input_shape'])} {kinds}".rstrip()),
             ("date", result["date"])]
    machine = [("processor", environment["cpu"]),
               ("BLAS", f"{environment['blas']}, {environment['blas_threads']} threads"),
               ("versions", f"Python {environment['python']}, NumPy {environment['numpy']}")]
    return pairs + machine


def _conventions(convention: str) -> str:
    return _section(
        "Conventions", _p(f"FLOPs: {convention}."),
        _p("Counts are of the whole batch unless they say per sample. Bytes are what the ops read and write, "
           "temporaries included. KB, MB and GB are powers of 1024. Latencies are in milliseconds (ms). A parameter "
           "is counted once however many layers share it."),
        _p("Counting, memory and time are separate runs: each instrument would disturb the others."))


def _left_out(uncounted: Any, never_called: list[str] | None) -> str:
    """Name what the numbers leave out, also when that is nothing."""
    return _section(
        "What the numbers leave out",
        _p(f"Not counted, for want of a cost rule: {', '.join(uncounted)}." if uncounted else
           "Every op that ran has a cost rule."),
        _p("Whether a layer is never called is not known: this model cannot be run on shapes." if never_called is None
           else f"Never called in forward: {', '.join(never_called)}." if never_called else
           "Every layer was called in forward."))


def _layers(rows: list[dict[str, Any]], measured: bool) -> list[str]:
    """Return the table of layers; of more than ``ROWS``, the upper levels first and the whole one folded."""
    from tito.profiling import ROWS, layer_columns, layer_label, merge_alike, upper_levels

    def table(shown: list[dict[str, Any]], caption: str) -> str:
        columns = layer_columns(shown, measured, exact=True)
        cells = [[(layer_label(row), row["depth"]), *texts] for row, texts in zip(shown, zip(*columns.values()))]
        words = ("bottleneck", "limited by")
        return _table(caption, ("layer", *columns), cells, [title for title in columns if title not in words])

    say = "Layer by layer; a layer's numbers hold those inside it" + (
        ", its share is of the time it spends itself" if measured else "")
    shallow, cut = upper_levels(rows)
    if not cut and len(rows) <= ROWS:
        return [table(rows, say)]
    upper = table(shallow if measured else merge_alike(shallow), f"{say}. {cut:,} deeper layers are in the whole table")
    return [upper, _folded(f"All {len(rows):,} layers", table(rows, say))]


def _training(found: dict[str, Any] | None) -> str:
    """Return what a training step would hold, with what is assumed and left out."""
    if not found:
        return _p("What a training step would hold is not known: this model cannot be run on shapes.", "small")
    held = [(key.replace("_", " "), _bytes(value)) for key, value in found.items() if isinstance(value, (int, float))]
    return (_pairs("A training step with Adam would hold, estimated on shapes", held, ("held", "bytes"))
            + _p(f"Assumed: {'; '.join(found['assumptions'])}.", "small")
            + _p(f"Left out: {'; '.join(found['omissions'])}.", "small"))


def _pictures(wanted: Sequence[tuple[str, str, Callable[[Any], Any]]]) -> tuple[dict[str, str], list[str]]:
    """Draw (title, how to read it, drawing function): {title: figure element or a sentence}, and what is missing."""
    try:
        from tinytorch.perf import pictures

        drawn, missing = {}, []
        for title, reading, draw in wanted:
            try:
                sheet = draw(pictures)
                image = base64.b64encode(pictures.to_svg(sheet)).decode("ascii")
                seen = _safe(f"{title}. {sheet.texts[0].get_text()}".replace("\n", " ").replace(r"\$", "$"))
                drawn[title] = (f'<figure>\n<div class="wide" role="group" tabindex="0" aria-label="{_safe(title)}">'
                                f'<img alt="{seen}" src="data:image/svg+xml;base64,{image}"></div>\n'
                                f"<figcaption>{_safe(reading)}</figcaption>\n</figure>")
            except ValueError as error:
                drawn[title] = _p(f"{title}: no picture, for {error}.", "small")
    except ImportError:
        drawn, missing = {}, [title for title, _, _ in wanted]
    return drawn, missing


def _dotted(cost: dict[str, Any], path: str = "", depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a count's layers as rows, under their full names."""
    name = cost["name"] if not depth else f"{path}.{cost['name']}" if path else cost["name"]
    yield {**{key: value for key, value in cost.items() if key != "children"}, "name": name, "depth": depth}
    for child in cost["children"]:
        yield from _dotted(child, name if depth else "", depth + 1)


RIBBONS = ("Each bar is the whole; a ribbon joins the same layer from bar to bar. Where it widens or narrows, "
           "the answers differ.")


# ---- a model that was only counted

def _counted(result: dict[str, Any]) -> list[str]:
    """Return the parts of the page of a model that was not run."""
    from tinytorch.perf.profiling import environment
    from tito.profiling import tree_rows

    count = result["count"]
    workload = {"model": result["model"], "shapes": [result["input_shape"]], "date": result["date"],
                "stages": "counted on shapes, not run"}
    rows = list(_dotted(count["by_layer"]))
    drawn, missing = _pictures([("Three aligned bars", RIBBONS, lambda draw: draw.layer_ribbons(rows, workload))])
    per_sample = count["per_sample"]
    numbers = [("parameters", f"{count['parameters']:,} ({_size(4 * count['parameters'])} in float32)"),
               ("FLOPs", f"{count['total']:,}" + (f" ({per_sample:,} per sample)" if per_sample else "")),
               ("of them contractions", f"{count['contractions']:,}"),
               ("bytes read and written", _bytes(count["bytes_moved"])), ("ops", f"{count['num_ops']:,}")]
    ops = [[name, f"{calls:,}", f"{count['by_op'][name]:,}" if name in count["by_op"] else "no cost rule",
            _share(count["by_op"].get(name, 0), count["total"])]
           for name, calls in sorted(count["op_calls"].items(), key=lambda item: -count["by_op"].get(item[0], 0))]
    return [
        _p(f"Counted on shapes, not run: {result['not_run']}.", "verdict"),
        _pairs("Workload", _header(result, environment())),
        _p(MISSING.format(", ".join(missing)), "doubt") if missing else "",
        _section("Counts", _pairs("One forward pass", numbers),
                 _p("Nothing was computed and no weight allocated: these numbers follow from the shapes alone, so they "
                    "hold on any machine. How long a pass takes, they do not say.")),
        _section("Layers", *_layers(tree_rows(count["by_layer"]), measured=False),
                 drawn.get("Three aligned bars", "")),
        _section("Ops", _table("By op", ("op", "calls", "FLOPs", "share"), ops, ("calls", "FLOPs", "share"))),
        _section("Memory", _training(result.get("training_memory"))),
        _left_out(count["uncounted"], count["never_called"]), _conventions(count["convention"])]


# ---- a model that was profiled

def _drawings(result: dict[str, Any]) -> list[tuple[str, str, Callable[[Any], Any]]]:
    """Return the pictures of a profile: title, how to read it, and how to draw it."""
    profile, limits = result["profile"], result["limits"]
    workload = {**profile["latency"]["workload"], "model": result["model"], "date": result["date"]}
    roofs = {"peak_gflops": limits["peak_gflops"], "bandwidth_gbs": limits["bandwidth_by_footprint"]}
    band = " The band is where the median lies with 95 % confidence, in this run."
    drawings: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("Roofline", "No layer should be above the roofs. How far it is below them is what could be won; where it is "
         "left of the ridge, only fewer bytes help. The larger a point, the more of the time it takes.",
         lambda draw: draw.roofline_chart(roofs, profile["layers"], workload)),
        ("Three aligned bars", RIBBONS, lambda draw: draw.layer_ribbons(profile["layers"], workload)),
        ("Latency histogram", f"Each stroke is a sample.{band if profile['latency']['ci95'] else ''}",
         lambda draw: draw.latency_histogram(profile["latency"], workload)),
        ("Memory over the pass", "Bytes that NumPy and Python hold over what was held before the pass, read after "
         "each op of one pass of its own; a peak inside an op does not show.",
         lambda draw: draw.memory_chart(result["memory_timeline"], {**workload, "stages": "one traced pass"}))]
    if result["batch_sizes"]:
        made = {**workload, "shapes": [["batch", *result["input_shape"][1:]]]}
        drawings.append(("Batch sizes", "Dotted: what a batch would take if it cost no more than the smallest. Where "
                         "throughput leaves that line, samples only wait longer.",
                         lambda draw: draw.batch_curve(result["batch_sizes"], made)))
    return drawings


def _measured(result: dict[str, Any]) -> list[str]:
    """Return the parts of the page of a model that ran."""
    from tinytorch.perf.profiling import CONVENTION, headline

    profile, limits, count = result["profile"], result["limits"], result["count"] or {}
    latency, environment = profile["latency"], profile["latency"]["workload"]
    drawn, missing = _pictures(_drawings(result))
    lines = [(name.rstrip(":"), text) for name, text in (line.split(maxsplit=1) for line in headline(profile))]
    done = result["training"]
    trained = done and (f"Before that the model was trained {done['epochs']} epochs on {done['images']:,} UCI digits: "
                        f"{done['accuracy']:.1%} of {done['held_out']} held-out ones right.")
    workload = _header(result, environment) + [
        ("mode", f"{environment['mode']}, {environment['gradient']}"),
        ("timed", f"{environment['stages']}, {latency['warmup_calls']} warmup calls, {latency['samples']} samples"),
        ("machine", f"{limits['peak_gflops']:.4g} GFLOP/s, {limits['bandwidth_gbs']:.3g} GB/s from memory, "
         f"{limits['dispatch_us']:.2g} µs to dispatch an op; {limits['source']}")]
    reading = ("Begin with the sentence at the top: it says what this pass waits for. Then find the layers with "
               "the largest share of the time and look at what limits each. A doubt says why to trust a number less.")
    return [
        _p(f"Bottleneck: {profile['bottleneck']}. Limited by: {profile['limited_by']}. "
           f"{profile['advice'][0].upper()}{profile['advice'][1:]}.", "verdict"),
        *(_p(f"Doubt: {warning}.", "doubt") for warning in latency["warnings"]),
        _p(MISSING.format(", ".join(missing)), "doubt") if missing else "",
        _p(reading), _pairs("Workload", workload), _p(trained, "small") if trained else "",
        _section("In six lines", _pairs("One forward pass", lines)),
        _section("Layers", *_layers(profile["layers"], measured=True),
                 _p(f"The ms of a layer are with the layers inside it and with a listener at each: "
                    f"{profile['layers'][0]['latency_ms']:.4g} ms in all so, {profile['latency_ms']:.4g} without.",
                    "small"), drawn.get("Three aligned bars", ""), drawn.get("Roofline", "")),
        _section("Ops", _ops(result["ops"])),
        _section("Time", _latency(latency), drawn.get("Latency histogram", "")),
        _section("Memory", _memory(profile), drawn.get("Memory over the pass", ""),
                 _training(result.get("training_memory"))),
        _section("Batch sizes", _batches(result), drawn.get("Batch sizes", "")),
        _left_out(profile["uncounted"], count.get("never_called")), _conventions(CONVENTION)]


def _ops(rows: list[dict[str, Any]]) -> str:
    """Return the table by op."""
    cells = [[row["op"], f"{row['calls']:,}", f"{row['ms']:.4f}", _share(row["share"]),
              "no cost rule" if row["flops"] is None else f"{row['flops']:,}", f"{row['bytes']:,}",
              f"{row['flops'] / row['ms'] / 1e6:.3f}" if row["ms"] and row["flops"] else "-"] for row in rows]
    head = ("op", "calls", "ms", "share", "FLOPs", "bytes", "GFLOP/s")
    return _table("By op, slowest first; ms are medians of some passes of their own", head, cells, head[1:])


def _latency(stats: dict[str, Any]) -> str:
    """Return the statistics of the latency; what too few samples cannot support is marked."""
    def row(key: str, interval: Any) -> list[str]:
        marked = key in stats["unsupported"] or (key == "median" and "p50" in stats["unsupported"])
        between = f"{interval[0]:.4g} to {interval[1]:.4g}" if interval and not marked else "-"
        return [key + (" *" if marked else ""), f"{stats[key]:.4g}", between]

    cells = [row("median", stats["ci95"]), *(row(key, stats["intervals"][key]) for key in ("p95", "p99")),
             *([key, f"{stats[key]:.4g}", "-"] for key in ("mean", "std", "iqr", "min", "max"))]
    cells.append(["first call", f"{stats['first_call']:.4g}", "-"])
    note = _p("* these samples cannot support this percentile: more of them, or single calls, are needed.", "small")
    far = stats["outliers"]
    return (_table(f"Latency in ms; the {stats['samples']} samples are {stats['samples_are']}",
                   ("statistic", "ms", "95 % interval, of this run"), cells, ("ms",))
            + (note if any(cell[0].endswith("*") for cell in cells) else "")
            + _p(f"Outliers, counted and not dropped: {far['mild']} mild, {far['severe']} severe. Neighbouring samples "
                 f"resemble each other by {stats['lag1']:.2f} (lag-1 autocorrelation). The run is "
                 f"{'stable' if stats['stable'] else 'not stable'}.", "small"))


def _memory(profile: dict[str, Any]) -> str:
    """Return the memory of the forward pass by kind, with what is assumed and left out."""
    kinds = [("parameters", "parameter_memory_mb"), ("input", "input_mb"), ("output", "output_mb"),
             ("activations kept for a backward pass", "activation_memory_mb"),
             ("temporaries at the peak", "temporaries_mb"), ("peak", "peak_memory_mb")]
    graph = "a graph was kept" if profile["graph"] == "kept" else "no graph is kept without gradients"
    return (_pairs(f"One forward pass; {graph}", [(name, _size(profile[key] * 2**20)) for name, key in kinds],
                   ("held", "size"))
            + _p(f"The peak is parameters + input + what was traced on top. {profile['memory_efficiency']:.1%} of it "
                 "are parameters, input and kept activations. Bytes come from each array's own dtype.", "small")
            + _p("Left out: what tracemalloc does not see, such as BLAS work space, mapped files, and memory taken "
                 "before the pass began.", "small"))


def _four(value: float) -> str:
    """Write a number with four digits that count, and never with a power of ten where it is large."""
    return f"{float(f'{value:.4g}'):,.0f}" if value >= 1000 else f"{value:.4g}"


def _batches(result: dict[str, Any]) -> str:
    """Return the table of batch sizes, or why there is none."""
    if not result["batch_sizes"]:
        return _p(f"Not measured: {result['batch_sizes_why']}.")
    cells = [[f"{row['batch']:,}", _four(row["latency_ms"]), _four(row["throughput"]),
              _four(row["peak_memory_mb"])] for row in result["batch_sizes"]]
    head = ("batch", "median latency, ms", "samples a second", "peak memory, MB")
    return _table("One forward pass at each size, on made inputs", head, cells, head[1:])
