"""Pictures of what the profiler found. This file is written by hand; no notebook makes it.

Each function takes plain data, the dicts and lists that the profiler returns or their JSON, and returns a matplotlib
``Figure`` that no window and no pyplot holds: it shows itself in a notebook, and ``to_png`` and ``to_svg`` give its
bytes, equal for equal data. ``workload`` says what was measured: a result's own ``workload`` dict, with ``date`` if
you know it, or a line of text; it stands below the picture in small type. Layers whose names differ in numbers
only (``blocks.0.mlp``, ``blocks.1.mlp``, ...) and that do the same work are one: ``blocks.0-11.mlp ×12``.

Errors: ``ImportError`` without matplotlib, ``ValueError`` in one sentence for data that is no picture. Colours stay
apart for colour-blind eyes and in grey print, dark next to light.
"""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from functools import lru_cache, wraps
from io import BytesIO
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np

__all__ = ["batch_curve", "latency_histogram", "layer_ribbons", "memory_chart", "pareto_chart", "roofline_chart",
           "to_png", "to_svg", "warmup_curve"]

INK, PALE, GRID = "#222222", "#6B6B6B", "#E4E4E4"
COLOURS = ("#0B3C6F", "#F0D43A", "#A63C06", "#9CCDEB", "#00604A", "#F5AE52", "#6A2C70", "#E5B8D3")
OTHER = "#B4B4B4"
NAMED = len(COLOURS)  # so many layers have a name and a colour; the smaller ones are "other"
WIDE = 9.0  # inches
_STYLE = {"figure.dpi": 100, "savefig.dpi": 100, "font.family": ["DejaVu Sans"], "font.size": 9, "text.color": INK,
          "axes.edgecolor": PALE, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
          "axes.spines.top": False, "axes.spines.right": False, "axes.formatter.useoffset": False,
          "hatch.linewidth": 0.6, "svg.hashsalt": "tinytorch", "svg.fonttype": "path"}

_NUMBER = r"(?<![^.])[0-9]{1,9}(?=[. ]|$)"  # between dots, in a layer's name

Rows = Sequence[Mapping[str, Any]]


# ---- the sheet: style, title, caption, bytes

@contextmanager
def _style() -> Iterator[None]:
    """Draw by our style, whatever the user's is; afterwards hers is back."""
    try:
        import matplotlib.style
    except ImportError as missing:
        raise ImportError('pictures need matplotlib: pip install "tinytorch[viz]"') from missing
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        yield


def _styled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Run a drawing function in our style."""
    @wraps(draw)
    def drawn(*args: Any, **more: Any) -> Any:
        with _style():
            return draw(*args, **more)
    return drawn


@lru_cache(maxsize=1)
def _sheet() -> type:
    """Return the Figure that shows itself in a notebook although pyplot has never heard of it."""
    from matplotlib.figure import Figure

    class Sheet(Figure):
        """A figure with its title above and its workload below."""

        def _repr_png_(self) -> bytes:
            return to_png(self)

    return Sheet


def _figure(title: str, workload: Any, body: float) -> tuple[Any, Callable[..., Any]]:
    """Return (figure, add): ``add(left, bottom, right, top)`` makes axes, its margins in inches around the body."""
    heading = [line for part in title.split("\n") for line in textwrap.wrap(part, 92) or [""]]
    small = textwrap.wrap(_caption(workload), 172)
    head, foot = 0.16 + 0.21 * len(heading), 0.1 + 0.14 * len(small)
    tall = head + body + foot
    figure = _sheet()(figsize=(WIDE, tall))
    figure.text(0.012, 1 - 0.1 / tall, "\n".join(heading), ha="left", va="top", fontsize=11, fontweight="bold",
                linespacing=1.25)
    figure.text(0.012, 0.07 / tall, "\n".join(small), ha="left", va="bottom", fontsize=7, color=PALE)

    def add(left: float, bottom: float, right: float, top: float) -> Any:
        box = (left / WIDE, (foot + bottom) / tall, 1 - (left + right) / WIDE, (body - bottom - top) / tall)
        return figure.add_axes(box)

    return figure, add


def _caption(workload: Any) -> str:
    """Write a workload in one line: model and shape, modes, machine, versions, date; what is not known is left out."""
    if not isinstance(workload, Mapping):
        return _text(workload or "workload not given", 500)
    get = workload.get
    shapes = get("shapes") or [get("input_shape")]
    what = " ".join(f"({', '.join(map(str, shape))})" for shape in shapes if shape)
    kinds = " ".join(map(str, get("dtypes") or ()))
    threads = get("blas_threads")
    blas = f"{get('blas', 'BLAS')}, {threads} thread{'s' * (threads != 1)}" if threads else get("blas")
    versions = ", ".join(f"{label} {get(key)}" for key, label in (("numpy", "NumPy"), ("python", "Python"))
                         if get(key))
    parts = [f"{get('model', 'model not named')}" + (f" on {what} {kinds}".rstrip() if what else ""), get("date"),
             ", ".join(str(get(key)) for key in ("mode", "gradient") if get(key)), get("stages"), get("cpu"), blas,
             versions]
    return " · ".join(_text(part, 90) for part in parts if part)


def to_png(figure: Any) -> bytes:
    """Return the picture, a figure, as PNG: 900 pixels wide, no date in it, equal bytes for equal data."""
    page = BytesIO()
    with _style():
        figure.savefig(page, format="png", metadata={"Software": None})
    return page.getvalue()


def to_svg(figure: Any) -> bytes:
    """Return the picture, a figure, as SVG with its letters as outlines: the same anywhere, no date in it."""
    page = BytesIO()
    with _style():
        figure.savefig(page, format="svg", metadata={"Date": None, "Creator": None})
    return page.getvalue()


# ---- words and numbers

@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    """Return the letters that the pictures' font has."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def _text(name: Any, most: int = 34) -> str:
    """Make any name safe to draw: one line, letters the font has, no formulas, at most ``most`` letters, end kept."""
    text = " ".join(str(name).split())
    text = "".join(letter if letter.isprintable() and ord(letter) in _glyphs() else "?" for letter in text)
    if len(text) > most:
        text = text[:most // 3] + "…" + text[len(text) - (most - most // 3 - 1):]
    return text.replace("$", r"\$")


def _three(value: float) -> str:
    """Write three significant digits, without an exponent for large numbers."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if "e+" in text else text


def _scaled(value: float, step: int, units: Sequence[str]) -> tuple[float, str]:
    """Return (divisor, unit): the largest unit of which there is at least one."""
    level = 0
    while abs(value) >= step ** (level + 1) * 0.9995 and level + 1 < len(units):
        level += 1
    return step ** level, units[level]


def _time(ms: float) -> str:
    """Write milliseconds in the unit that reads well."""
    by, unit = _scaled(ms * 1e6, 1000, ("ns", "µs", "ms", "s"))
    return f"{_three(ms * 1e6 / by)} {unit}"


def _bytes(count: float) -> str:
    """Write bytes; KB, MB and GB are powers of 1024."""
    by, unit = _scaled(count, 1024, ("bytes", "KB", "MB", "GB", "TB"))
    return f"{_three(count / by)} {unit}"


def _count(count: float) -> str:
    """Write a count with K, M, G, T, P."""
    by, unit = _scaled(count, 1000, ("", "K", "M", "G", "T", "P"))
    return f"{_three(count / by)} {unit}".rstrip()


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0095 or share == 0 else f"{share:.1%}" if share >= 0.0005 else "<0.1%"


def _numbers(what: str, values: Any, least: float = 0.0) -> list[float]:
    """Return numbers of at least ``least`` as floats; ``ValueError`` names the first that is none or cannot be drawn.

    Sizes from 1e-30 to 1e30 can: their products and quotients are floats, too.
    """
    if isinstance(values, (str, Mapping)) or not hasattr(values, "__iter__"):
        raise ValueError(f"{what} is {values!r}; want a list of numbers")
    out = list(values)
    if not out:
        raise ValueError(f"{what} is empty; want at least one number")
    for i, value in enumerate(out):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise ValueError(f"{what}[{i}] is {value!r}; want a finite number")
        if value != 0 and not 1e-30 <= abs(value) <= 1e30:  # nan is in no range
            shown = f"a number of {value.bit_length()} bits" if isinstance(value, int) else repr(value)
            raise ValueError(f"{what}[{i}] is {shown}; want a finite number, 0 or of a size from 1e-30 to 1e30")
        if value < least:
            raise ValueError(f"{what}[{i}] is {value}; want at least {least:g}")
    return [float(value) for value in out]


def _column(what: str, rows: Rows, key: str, source: str) -> list[float]:
    """Return one key of all rows as numbers; ``source`` says where such rows come from."""
    if isinstance(rows, (str, Mapping)) or not hasattr(rows, "__iter__") or not len(rows):
        raise ValueError(f"{what} has no rows; want those of {source}")
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) or key not in row:
            raise ValueError(f"{what}[{i}] has no {key!r}; want the rows of {source}")
    return _numbers(f"{key} of {what}", [row[key] for row in rows])


def _spread(values: Sequence[float]) -> float:
    """Return the largest over the smallest, 1 where one is 0: a log axis would lose it."""
    return max(values) / min(values) if min(values) > 0 else 1.0


def _plain_ticks(axis: Any, write: Callable[[float], str] = _three) -> None:
    """Label an axis in plain numbers; a log axis at 1, 2, 5 where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,), numticks=12))
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


# ---- layers

def _own(rows: Rows, values: Sequence[float]) -> list[float]:
    """Return each layer's own part: its value without the layers directly inside it; rows in the order of the tree."""
    own, open_rows = list(values), list[int]()
    for i, row in enumerate(rows):
        while open_rows and rows[open_rows[-1]]["depth"] >= row["depth"]:
            open_rows.pop()
        if open_rows:
            own[open_rows[-1]] -= values[i]
        open_rows.append(i)
    return [max(0.0, value) for value in own]


def _labels(rows: Rows) -> list[str]:
    """Return what to call each row: its name, its type where that is a number, "own ops" where layers are inside."""
    out = []
    for i, row in enumerate(rows):
        name, kind = str(row.get("name") or "?"), str(row.get("type") or "")
        holds = i + 1 < len(rows) and rows[i + 1]["depth"] > row["depth"]
        label = f"{name} {kind}" if name.rsplit(".", 1)[-1].isdecimal() and kind else name
        out.append(f"{label} (own ops)" if holds else label)
    return out


def _parts(rows: Rows, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the layers' own parts, those alike as one, in order: ``label`` and each key, added up.

    Alike are layers whose names differ in a number only and that do the same work: their FLOPs and bytes are equal.
    """
    source = "profile_forward_pass(...)['layers']"
    _column("rows", rows, "depth", source)
    columns = {key: _column("rows", rows, key, source) for key in keys}
    own = {key: values if key == "self_ms" else _own(rows, values) for key, values in columns.items()}
    found: dict[tuple, list[int]] = {}
    labels = _labels(rows)
    for i, label in enumerate(labels):
        alike = re.sub(_NUMBER, "*", label)
        found.setdefault((alike, *(own[key][i] for key in keys if key != "self_ms")), []).append(i)
    return [{"label": _joined([labels[i] for i in members]), "layers": len(members),
             **{name: sum(own[name][i] for i in members) for name in keys}} for members in found.values()]


def _joined(labels: Sequence[str]) -> str:
    """Return one label for labels that differ in numbers only: ``blocks.0-11.mlp``, ``layers.0,3.body``."""
    def number(column: Sequence[str]) -> str:
        known = sorted(set(map(int, column)))
        if len(known) > 1 and known[-1] - known[0] == len(known) - 1:
            return f"{known[0]}-{known[-1]}"
        return ",".join(map(str, known)) if len(known) <= 3 else f"{known[0]}..{known[-1]}"

    words = re.split(_NUMBER, labels[0])
    numbers = [re.findall(_NUMBER, label) for label in labels]
    mixed = [number(column) for column in zip(*numbers)]
    return "".join(word + (mixed[i] if i < len(mixed) else "") for i, word in enumerate(words))


def _called(part: Mapping[str, Any], most: int = 34) -> str:
    """Return a part's label for the picture."""
    times = f" ×{part['layers']}" if part["layers"] > 1 else ""
    return _text(part["label"], most - len(times)) + times


# ---- time

@_styled
def latency_histogram(stats: Mapping[str, Any], workload: Any = None) -> Any:
    """Draw how many ms the calls took: a histogram, every sample below it, the median with its interval, p95, p99.

    A percentile that this many samples do not support is drawn pale and says so. Reads ``times_ms, median, ci95, p95,
    p99, unsupported, samples_are, workload`` of ``latency_statistics``::

        stats = latency_statistics(model, x)
        latency_histogram(stats)

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: no ``times_ms``, or a number that is not finite.
        ImportError: Matplotlib is not installed.
    """
    if not isinstance(stats, Mapping) or "times_ms" not in stats:
        raise ValueError("stats holds no 'times_ms'; give what latency_statistics returned")
    times = _numbers("times_ms", stats["times_ms"])
    middle = _numbers("median", [stats.get("median", median(times))])[0]
    workload = {**(stats.get("workload") or {}), **workload} if isinstance(workload, Mapping) else (
        workload or stats.get("workload"))
    by, unit = _scaled(middle * 1e6, 1000, ("ns", "µs", "ms", "s"))
    shown, middle = [ms * 1e6 / by for ms in times], middle * 1e6 / by
    interval = [ms * 1e6 / by for ms in _numbers("ci95", stats["ci95"])] if stats.get("ci95") else None
    unsupported = stats.get("unsupported") or ()
    between = f"95 % interval {_three(interval[0])} to {_three(interval[1])} {unit}" if interval else (
        "no interval: under 6 samples" if len(times) < 6 else "no interval given")
    figure, add = _figure(f"Median {_three(middle)} {unit}, {between}", workload, 3.6)
    axes = add(0.75, 0.5, 2.75, 0.12)
    tower = min(times) > 0 and max(shown) > 4 * middle
    low, high = (min(shown), max(shown)) if min(shown) < max(shown) else (0.95 * middle, 1.05 * middle or 1.0)
    many = min(40, max(8, round(2 * math.sqrt(len(times))))) + 1
    axes.set_xscale("log" if tower else "linear")
    counts, _, _ = axes.hist(shown, np.geomspace(low * 0.9999, high * 1.0001, many) if tower
                             else np.linspace(low, high, many), color="#A9C6DE", edgecolor="white", linewidth=0.6)
    tall = max(counts)
    axes.plot(shown, [-0.05 * tall] * len(shown), "|", color=INK, markersize=6, markeredgewidth=0.6, alpha=0.6)
    marks = [("median", middle, "#A63C06", "-", 2.0, "p50" in unsupported)]
    marks += [(key, _numbers(key, [stats[key]])[0] * 1e6 / by, COLOURS[0], dash, 1.3, key in unsupported)
              for key, dash in (("p95", "--"), ("p99", ":")) if stats.get(key) is not None]
    for key, value, colour, dash, thick, doubt in marks:
        note = f"{key} {_three(value)} {unit}" + (f"\nunsupported by {len(times)} samples" if doubt else "")
        axes.axvline(value, color=PALE if doubt else colour, linestyle=dash, linewidth=thick * (0.7 if doubt else 1),
                     alpha=0.75 if doubt else 1, label=note)
    if interval:
        axes.axvspan(*interval, facecolor="#F5AE5288", edgecolor="#A63C06", linewidth=0.7,
                     label=f"{between}\nof the median, this run")
    air = (high / low) ** 0.03 if tower else 0.03 * (high - low)
    axes.set(xlim=(low / air, high * air) if tower else (low - air, high + air), ylim=(-0.1 * tall, 1.06 * tall),
             ylabel="samples", xlabel=f"{unit} a call" + _of_what(stats) + (", logarithmic" if tower else ""))
    axes.yaxis.get_major_locator().set_params(integer=True)
    _plain_ticks(axes.xaxis, _three if tower else lambda value: f"{value:,.4g}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), frameon=False, fontsize=8.5, labelspacing=0.9)
    axes.text(1.045, 0.0, f"{len(times)} samples, a stroke each", transform=axes.transAxes, fontsize=8.5, va="bottom")
    return figure


def _of_what(stats: Mapping[str, Any]) -> str:
    """Say what a sample is where it is not one call."""
    return f" ({stats['samples_are']})" if stats.get("samples_are", "calls") != "calls" else ""


@_styled
def warmup_curve(times_ms: Sequence[float], workload: Any = None) -> Any:
    """Draw the first calls one by one, with the line they settle at: the median of the later half.

    The axis is logarithmic where the first ones tower. Reads a list of milliseconds, the first call first::

        times = [ns / 1e6 for ns in time_calls(lambda: model(x), 0, 40, perf_counter_ns)]
        warmup_curve(times, workload(model, x))

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: no times, or one that is negative or not finite.
        ImportError: Matplotlib is not installed.
    """
    times = _numbers("times_ms", times_ms)
    settled = median(times[len(times) // 2:])
    by, unit = _scaled(max(settled, 1e-6) * 1e6, 1000, ("ns", "µs", "ms", "s"))
    shown = [ms * 1e6 / by for ms in times]
    level, ratio = settled * 1e6 / by, times[0] / settled if settled else 0.0
    later = f"{'the later half of ' if len(times) > 2 else ''}{len(times)} calls"
    title = f"The first call took {_time(times[0])}" + (
        f", {_three(ratio)} times the {_time(settled)} of {later}" if ratio and len(times) > 1 else "")
    figure, add = _figure(title, workload, 3.3)
    axes = add(0.85, 0.5, 1.05, 0.12)
    tower = min(times) > 0 and max(times) > 5 * settled
    axes.set_yscale("log" if tower else "linear")
    axes.axhline(level, color="#A63C06", linewidth=1.4, zorder=1)
    axes.plot(range(1, len(times) + 1), shown, "-", color="#9CCDEB", linewidth=1.2, zorder=2)
    axes.plot(range(1, len(times) + 1), shown, "o", color=COLOURS[0], markersize=4.5 if len(times) <= 60 else 2.5,
              zorder=3)
    axes.annotate(f"settled:\n{_time(settled)}", (1, level), xycoords=("axes fraction", "data"), xytext=(6, 0),
                  textcoords="offset points", va="center", color="#A63C06")
    low, high = min(shown), max(shown)
    axes.set(xlim=(0.4, len(times) + 0.6), xlabel="call, the very first is 1",
             ylabel=f"{unit} a call" + (", logarithmic" if tower else ""),
             ylim=(low / 1.25, high * 1.3) if tower else (0, high * 1.12 or 1.0))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    _plain_ticks(axes.yaxis)
    return figure


# ---- the roofline

def _limits(limits: Any) -> tuple[float, dict[int, float]]:
    """Return (peak GFLOP/s, {footprint in bytes: GB/s}) of a MachineLimits or of its dict, JSON's text keys too."""
    known = asdict(limits) if is_dataclass(limits) and not isinstance(limits, type) else limits
    if not isinstance(known, Mapping) or not {"peak_gflops", "bandwidth_gbs"} <= set(known):
        raise ValueError("limits have no 'peak_gflops' and 'bandwidth_gbs'; give machine_limits() or its dict")
    rates = known["bandwidth_gbs"] if isinstance(known["bandwidth_gbs"], Mapping) else {0: known["bandwidth_gbs"]}
    peak = _numbers("peak_gflops", [known["peak_gflops"]])[0]
    table = {int(size): rate for size, rate in zip(rates, _numbers("bandwidth_gbs", rates.values()))}
    if min(peak, *table.values()) <= 0:
        raise ValueError("limits hold a 0; want peak_gflops and bandwidth_gbs above 0")
    return peak, table


@_styled
def roofline_chart(limits: Any, rows: Rows, workload: Any = None) -> Any:
    """Draw the layers under this machine's roofs (Williams and others, 2009): intensity across, GFLOP/s up.

    A point is a layer's own part, its area its share of the time. Bandwidth depends on how much an op touches: the band
    lies between the best and the worst rate of the table. Reads ``peak_gflops, bandwidth_gbs`` of ``machine_limits()``
    and ``name, type, depth, self_ms, flops, bytes`` of ``profile_forward_pass(...)["layers"]``::

        profile = profile_forward_pass(model, x)
        roofline_chart(machine_limits(), profile["layers"], profile["latency"]["workload"])

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: limits without their rates, or with a rate of 0; no rows, or a row without one of its keys.
        ImportError: Matplotlib is not installed.
    """
    peak, table = _limits(limits)
    parts = _parts(rows, ("self_ms", "flops", "bytes"))
    all_ms = sum(part["self_ms"] for part in parts)
    on = [part for part in parts if min(part["self_ms"], part["flops"], part["bytes"]) > 0]
    for part in on:
        part |= {"x": part["flops"] / part["bytes"], "y": part["flops"] / part["self_ms"] / 1e6,
                 "share": part["self_ms"] / all_ms}
    on.sort(key=lambda part: -part["share"])
    first = on[0] if on else None
    title = "No layer has FLOPs, bytes and time: only the roofs are drawn" if first is None else (
        f"{_called(first, 54)} takes {_percent(first['share'])} of the time, at {_three(first['y'])} of "
        f"{_three(peak)} GFLOP/s")
    figure, add = _figure(title, workload, 4.5)
    axes = add(0.8, 0.55, 3.0, 0.1)
    _draw_roofs(axes, peak, table, [part["x"] for part in on], [part["y"] for part in on])
    shades = [*COLOURS, *[OTHER] * len(on)][:len(on)]
    columns = [[part[key] for part in on[::-1]] for key in ("x", "y", "share")]  # the largest last, so on top
    axes.scatter(*columns[:2], s=[22 + 700 * share for share in columns[2]], zorder=4, linewidth=0.9, edgecolor=INK,
                 color=shades[::-1], alpha=0.9)
    lines = [f"{_called(part, 40)}\n{_percent(part['share'])} of the time, {_three(part['y'])} GFLOP/s"
             for part in on[:NAMED]]
    _label_beside(axes, [(part["x"], part["y"]) for part in on[:NAMED]], lines)
    small, off = on[NAMED:], [part for part in parts if part not in on and part["self_ms"] > 0]
    notes = [f"{len(group)} {text}, {_percent(sum(part['self_ms'] for part in group) / all_ms)} of the time"
             for group, text in ((small, "smaller ones in grey"), (off, "without FLOPs, so not on it")) if group]
    axes.text(1.05, 0.0, "\n".join(notes), transform=axes.transAxes, fontsize=7.5, color=PALE, va="bottom")
    return figure


def _draw_roofs(axes: Any, peak: float, table: Mapping[int, float], xs: Sequence[float], ys: Sequence[float]) -> None:
    """Draw the flat roof, the slanted one (a band where bandwidth is a table) and their labels; set the axes."""
    best, worst = max(table, key=lambda size: table[size]), min(table, key=lambda size: table[size])
    ridges = [peak / table[best], peak / table[worst]]
    left, right = min([*xs, ridges[0]]) / 4, max([*xs, ridges[1]]) * 6
    bottom, top = min([*ys, left * table[worst]]) / 2.5, max([*ys, peak]) * 2.2
    at = np.geomspace(left, right, 400)
    high, low = (np.minimum(peak, at * table[size]) for size in (best, worst))
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top),
             xlabel="arithmetic intensity, FLOPs per byte", ylabel="GFLOP/s")
    axes.fill_between(at, low, high, color="#DDE7EF", linewidth=0, zorder=1)
    for size, rate in table.items():
        outer = size in (best, worst)
        axes.plot(at, np.minimum(peak, at * rate), color=COLOURS[0], linewidth=1.4 if outer else 0.5,
                  linestyle="-" if outer else ":", zorder=2)
    box = axes.get_position()
    across, up = (WIDE * box.width, axes.figure.get_figheight() * box.height)
    slope = (up / math.log(top / bottom)) / (across / math.log(right / left))
    alone = table[best] < 1.25 * table[worst]
    for size, above in ((best, True),) if alone else ((best, True), (worst, False)):
        touching = f", touching {_bytes(size)}" if size else ""
        x = max(left * 1.12, bottom * 1.2 / table[size]) if above else 0.9 * peak / table[size]
        axes.annotate(f"{_three(table[size])} GB/s{touching}", (x, x * table[size]), xytext=(0, 4 if above else -4),
                      textcoords="offset points", rotation=math.degrees(math.atan(slope)), rotation_mode="anchor",
                      ha="left" if above else "right", va="bottom" if above else "top", fontsize=7.5,
                      color=COLOURS[0], zorder=5,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0, "alpha": 0.7})
    axes.annotate(f"peak {_three(peak)} GFLOP/s", (right, peak), xytext=(-3, 4), textcoords="offset points",
                  ha="right", fontsize=8, color=COLOURS[0])
    for axis in (axes.xaxis, axes.yaxis):
        _plain_ticks(axis)


def _label_beside(axes: Any, points: Sequence[tuple[float, float]], lines: Sequence[str]) -> None:
    """Write the labels in a column beside the axes, each as high as its point where there is room, joined by a line."""
    step, lowest = 0.1, 0.12
    wanted = [float(axes.transAxes.inverted().transform(axes.transData.transform(point))[1]) for point in points]
    order = sorted(range(len(points)), key=lambda i: -wanted[i])
    places: dict[int, float] = {}
    above = 1.0 + step
    for nth, i in enumerate(order):
        floor = lowest + step * (len(order) - 1 - nth)
        above = places[i] = max(floor, min(wanted[i], above - step))
    for i, place in places.items():
        axes.annotate(lines[i], points[i], xytext=(1.05, place), textcoords="axes fraction", fontsize=8, va="center",
                      annotation_clip=False, linespacing=1.15,
                      arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": "#9A9A9A", "shrinkB": 0,
                                  "relpos": (0, 0.5)})


# ---- one model as aligned bars

@_styled
def layer_ribbons(rows: Rows, workload: Any = None) -> Any:
    """Draw one model as three aligned bars, time, FLOPs and bytes, a ribbon joining each layer from bar to bar.

    Each bar is the whole, each piece a layer's own part; the smallest layers are "other". Reads ``name, type, depth,
    self_ms, flops, bytes`` of ``profile_forward_pass(...)["layers"]``; where rows are only counted, without
    ``self_ms``, the first bar is ``parameters``::

        profile = profile_forward_pass(model, x)
        layer_ribbons(profile["layers"], profile["latency"]["workload"])

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: no rows, or a row without one of its keys.
        ImportError: Matplotlib is not installed.
    """
    timed = any("self_ms" in row for row in rows if isinstance(row, Mapping)) if rows else True
    first: tuple[str, str, Callable[[float], str]] = (
        ("time", "self_ms", _time) if timed else ("parameters", "parameters", _count))
    bars = [first, ("FLOPs", "flops", _count), ("bytes", "bytes", _bytes)]
    keys = [key for _, key, _ in bars]
    parts = _merge_small(_parts(rows, keys), keys)
    totals = {key: sum(part[key] for part in parts) for key in keys}
    widest = max((part for part in parts if part["letter"] != "…"), key=lambda part: part[keys[0]])
    shares = ", ".join(f"{_percent(widest[key] / totals[key])} of the {title}" for title, key, _ in bars if totals[key])
    tall = 0.22 * len(parts) + 0.25
    figure, add = _figure(f"{_called(widest, 54)}: {shares}" if shares else "Nothing was measured: every bar is empty",
                          workload, 3.3 + tall)
    axes = add(1.15, tall, 0.15, 0.05)
    edges = [np.concatenate([[0], np.cumsum([part[key] for part in parts])]) / (totals[key] or 1) for key in keys]
    for level, (title, key, write) in enumerate(bars):
        axes.text(-0.012, -level, f"{title}\n{write(totals[key])}", ha="right", va="center", linespacing=1.3)
        if not totals[key]:
            axes.barh(-level, 1, left=0, height=0.4, color="white", edgecolor=PALE, linestyle="--")
            axes.text(0.5, -level, f"no {title}", ha="center", va="center", color=PALE)
            continue
        _draw_bar(axes, level, edges[level], parts)
        if level + 1 < len(bars) and totals[keys[level + 1]]:
            _draw_ribbons(axes, level, edges[level], edges[level + 1], parts)
    axes.set(xlim=(0, 1), ylim=(-len(bars) + 0.72, 0.25))
    axes.axis("off")
    _draw_key(add(0.15, 0.02, 0.15, 3.3), parts, bars, totals)
    return figure


def _merge_small(parts: list[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Keep the parts that weigh most in any of the bars, in their order, and colour them; the rest becomes "other"."""
    totals = {key: sum(part[key] for part in parts) or 1 for key in keys}
    weight = [max(part[key] / totals[key] for key in keys) for part in parts]
    ranked = sorted(range(len(parts)), key=lambda i: (-weight[i], i))
    kept = [parts[i] for i in sorted(ranked[:NAMED]) if weight[i] > 0] or [parts[0]]
    for part, letter, colour in zip(kept, "ABCDEFGHIJ", COLOURS):
        part |= {"letter": letter, "colour": colour}
    rest = [parts[i] for i in ranked[NAMED:] if weight[i] > 0]
    if rest:
        smaller = sum(part["layers"] for part in rest)
        label = rest[0]["label"] if smaller == 1 else f"other: {smaller} smaller"
        kept.append({"label": label, "layers": 1, "letter": "…", "colour": OTHER,
                     **{key: sum(part[key] for part in rest) for key in keys}})
    return kept


def _is_dark(colour: str) -> bool:
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 128


def _draw_bar(axes: Any, level: int, edge: Any, parts: list[dict[str, Any]]) -> None:
    """Draw one bar's pieces with their letters, and names where they fit."""
    letters_wide = 110  # about as many letters of this size fit across the axes
    for part, low, high in zip(parts, edge, edge[1:]):
        wide = high - low
        if not wide:
            continue
        axes.barh(-level, wide, left=low, height=0.4, color=part["colour"], edgecolor="white",
                  linewidth=1.0 if wide > 0.01 else 0.3, hatch="////" if part["letter"] == "…" else None)
        name, share = _called(part, 40), _percent(wide)
        text = next((text for text in (f"{part['letter']}  {name}\n{share}", f"{part['letter']}\n{share}",
                                       part["letter"])
                     if max(map(len, text.split("\n"))) + 1.5 < wide * letters_wide), "")
        shade = {"facecolor": part["colour"], "edgecolor": "none", "pad": 1.0} if part["letter"] == "…" else None
        axes.text((low + high) / 2, -level, text, ha="center", va="center", fontsize=8, linespacing=1.3,
                  color="white" if _is_dark(part["colour"]) else INK, bbox=shade if text else None)


def _draw_ribbons(axes: Any, level: int, edge: Any, after: Any, parts: list[dict[str, Any]]) -> None:
    """Join each piece with the same layer's piece in the bar below."""
    bend = np.linspace(0, 1, 40)
    smooth = 3 * bend**2 - 2 * bend**3
    for i, part in enumerate(parts):
        left, right = (edge[j] + (after[j] - edge[j]) * smooth for j in (i, i + 1))
        axes.fill_betweenx(-level - 0.2 - bend * 0.6, left, right, color=part["colour"], alpha=0.35, linewidth=0)


def _draw_key(axes: Any, parts: list[dict[str, Any]], bars: Sequence[Any], totals: Mapping[str, float]) -> None:
    """Write the key: a line a layer with its colour, letter, name and its part of each bar."""
    axes.set(xlim=(0, 1), ylim=(len(parts) - 0.4, -0.95))
    axes.axis("off")
    columns = [0.62, 0.78, 0.94]
    for at, (title, _, _) in zip(columns, bars):
        axes.text(at, -0.75, f"% of {title}", ha="right", va="center", fontsize=8, color=PALE)
    for i, part in enumerate(parts):
        axes.barh(i, 0.018, height=0.72, color=part["colour"], hatch="////" if part["letter"] == "…" else None,
                  edgecolor="white" if part["letter"] == "…" else "none", linewidth=0)
        axes.text(0.028, i, part["letter"], va="center", fontsize=8, fontweight="bold")
        axes.text(0.048, i, _called(part, 52), va="center", fontsize=8)
        for at, (_, key, _) in zip(columns, bars):
            axes.text(at, i, _percent(part[key] / totals[key]) if totals[key] else "-", ha="right", va="center",
                      fontsize=8)


# ---- memory over the pass

def _path(where: Any) -> tuple[str, ...]:
    """Return a layer's path as parts: ("blocks.0", "mlp", "up"); a number belongs to the name before it."""
    parts = str(where or "").split(".") if not isinstance(where, (tuple, list)) else list(map(str, where))
    out: list[str] = []
    for part in filter(None, parts):
        if part.isdecimal() and out and not isinstance(where, (tuple, list)):
            out[-1] += f".{part}"
        else:
            out.append(part)
    return tuple(out)


def _spans(edges: Sequence[float], paths: Sequence[tuple[str, ...]], depth: int) -> list[tuple[float, float, str]]:
    """Return (start, end, name) of each stretch inside one layer, looked at ``depth`` levels deep.

    Op i ran from ``edges[i]`` to ``edges[i + 1]`` in the layer ``paths[i]``.
    """
    out = []
    for _, run in groupby(range(len(paths)), key=lambda i: paths[i][:depth]):
        inside = list(run)
        name = paths[inside[0]][depth - 1] if len(paths[inside[0]]) >= depth else ""
        out.append((edges[inside[0]], edges[inside[-1] + 1], name))
    return out


@_styled
def memory_chart(timeline: Sequence[Sequence[Any]], workload: Any = None) -> Any:
    """Draw the bytes alive over a pass, a step an op, the highest marked, and below them which layer ran when.

    An op lasts from the point before it to its own; what it held only in between, no step shows. Reads a list of
    (milliseconds, bytes alive when an op had ended, the op's layer: "blocks.0.mlp", a tuple of names, or None)::

        with profile(profile_memory=True) as p: model(x)
        memory_chart(p.memory_timeline(), workload(model, x))

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: no points, points that go back in time, or a number that is not finite.
        ImportError: Matplotlib is not installed.
    """
    points = list(timeline) if hasattr(timeline, "__iter__") else []
    if not points or not all(isinstance(point, (list, tuple)) and len(point) == 3 for point in points):
        raise ValueError("timeline holds no (milliseconds, bytes, layer); give a profile's memory_timeline()")
    times = _numbers("milliseconds of the timeline", [point[0] for point in points], -math.inf)
    held = _numbers("bytes of the timeline", [point[1] for point in points], -math.inf)
    if any(after < before for before, after in zip(times, times[1:])):
        raise ValueError("timeline goes back in time; want its points in the order in which they came")
    paths = _without_the_model([_path(point[2]) for point in points])
    edges = [min(0.0, times[0]), *times]
    if edges[-1] == edges[0]:
        edges[-1] += 1e-3
    peak = max(range(len(held)), key=lambda i: held[i])
    where = f", in {_text('.'.join(paths[peak]), 40)}" if paths[peak] else ""
    title = f"At most {_bytes(held[peak])} after an op, {_time(times[peak] - edges[0])} into the pass{where}"
    figure, add = _figure(title, workload, 4.1)
    lanes, above = add(0.85, 0.45, 0.25, 3.0), add(0.85, 1.2, 0.25, 0.15)
    _draw_held(above, edges, held, peak)
    _draw_lanes(lanes, above, edges, paths)
    for axes in (lanes, above):
        axes.set_xlim(edges[0], edges[-1] + 0.004 * (edges[-1] - edges[0]))
    lanes.set_xlabel("ms into the pass; a step is an op, as high as what was alive at its end (reading that slows it)")
    return figure


def _without_the_model(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Leave out the first part of all paths where it is the model itself, which is around everything."""
    heads = {path[:1] for path in paths}
    return [path[1:] for path in paths] if len(heads) == 1 and any(len(path) > 1 for path in paths) else paths


def _draw_held(axes: Any, edges: Sequence[float], held: Sequence[float], peak: int) -> None:
    """Draw the bytes as steps and mark the highest."""
    by, unit = _scaled(max(map(abs, held)), 1024, ("bytes", "KB", "MB", "GB", "TB"))
    shown = [value / by for value in (held[0], *held)]
    axes.fill_between(edges, shown, step="pre", color="#9CCDEB", linewidth=0)
    axes.step(edges, shown, where="pre", color=COLOURS[0], linewidth=1.1)
    low, high = min(0.0, *shown), max(0.0, *shown) or 1.0
    middle = (edges[peak] + edges[peak + 1]) / 2
    late = middle > edges[0] + 0.7 * (edges[-1] - edges[0])
    axes.annotate(f"at most {_bytes(held[peak])}", (middle, shown[peak + 1]), xytext=(-14 if late else 14, 13),
                  textcoords="offset points", ha="right" if late else "left", va="center", color="#A63C06",
                  fontweight="bold", arrowprops={"arrowstyle": "-|>", "color": "#A63C06", "shrinkA": 1, "shrinkB": 0,
                                                 "relpos": (1 if late else 0, 0.5)})
    axes.set(ylim=(low * 1.1, high * 1.2), ylabel=f"{unit} alive")
    axes.tick_params(labelbottom=False)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _draw_lanes(lanes: Any, above: Any, edges: Sequence[float], paths: Sequence[tuple[str, ...]]) -> None:
    """Draw which layer ran when: outer layers in the upper lane, the layers in them in the lower one."""
    depths = [depth for depth in (1, 2) if depth <= max(1, *map(len, paths))]
    letters_wide, whole = 128, edges[-1] - edges[0]
    for depth in depths:
        spans = [span for span in _spans(edges, paths, depth) if span[2] and span[1] > span[0]]
        for nth, (start, stop, name) in enumerate(spans):
            shade = ("#CFCFCF", "#EDEDED")[nth % 2]
            lanes.barh(-depth, stop - start, left=start, height=0.86, color=shade, edgecolor="white", linewidth=0.4)
            room = int((stop - start) / whole * letters_wide)
            if room >= min(12, len(name)):
                lanes.text((start + stop) / 2, -depth, _text(name, room), ha="center", va="center", fontsize=7.5)
            if depth == 1:
                above.axvline(start, color=GRID, linewidth=0.6, zorder=0)
    lanes.set(ylim=(-depths[-1] - 0.5, -0.5), yticks=[-depth for depth in depths],
              yticklabels=["layer", "inside"][:len(depths)])
    lanes.tick_params(axis="y", length=0)
    lanes.spines["left"].set_visible(False)


# ---- batch sizes

@_styled
def batch_curve(rows: Rows, workload: Any = None) -> Any:
    """Draw latency, throughput and peak memory against the batch size, with what perfect sharing would give, dotted.

    Reads ``batch, latency_ms, throughput, peak_memory_mb`` of the rows of ``profile_batch_sizes``::

        rows = profile_batch_sizes(model, (1, 64), (1, 8, 32, 64))
        batch_curve(rows)

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: no rows, a row without one of its keys, or a batch below 1.
        ImportError: Matplotlib is not installed.
    """
    source = "profile_batch_sizes"
    sizes = _column("rows", rows, "batch", source)
    if min(sizes) < 1:
        raise ValueError(f"batch of rows is {min(sizes):g}; want sizes of at least 1")
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    batch = [sizes[i] for i in order]
    columns = {key: [_column("rows", rows, key, source)[i] for i in order]
               for key in ("latency_ms", "throughput", "peak_memory_mb")}
    ms, rate = columns["latency_ms"], columns["throughput"]
    title = f"Batch {batch[0]:,.0f}: {_time(ms[0])}, {_three(rate[0])} samples a second"
    if len(batch) > 1 and min(ms[0], rate[0]) > 0:
        title = (f"From batch {batch[0]:,.0f} to {batch[-1]:,.0f}: throughput ×{_three(rate[-1] / rate[0])}, "
                 f"latency ×{_three(ms[-1] / ms[0])} ({_time(ms[0])} to {_time(ms[-1])})")
    figure, add = _figure(title, workload, 3.0)
    panels = (("latency_ms", "latency, ms", [ms[0]] * len(batch), _three),
              ("throughput", "samples a second", [rate[0] * size / batch[0] for size in batch], _count),
              ("peak_memory_mb", "peak memory, MB", None, _three))
    wide = (WIDE - 0.15) / 3
    for nth, (key, label, perfect, write) in enumerate(panels):
        axes = add(0.1 + nth * wide + 0.5, 0.5, WIDE - 0.1 - (nth + 1) * wide + 0.12, 0.3)
        _draw_panel(axes, batch, columns[key], perfect, write)
        axes.set_title(label, loc="left", fontsize=9)
        axes.set_xlabel("batch size")
    return figure


def _draw_panel(axes: Any, batch: Sequence[float], values: Sequence[float], perfect: Sequence[float] | None,
                write: Callable[[float], str]) -> None:
    """Draw one quantity against the batch; both axes logarithmic where they span much."""
    from matplotlib.ticker import FixedLocator, NullLocator

    wide, log = _spread(batch) >= 8, min(values) > 0 and _spread(batch) >= 8
    axes.set_xscale("log" if wide else "linear")
    axes.set_yscale("log" if log else "linear")
    if perfect and len(batch) > 1 and min(values) > 0:
        axes.plot(batch, perfect, ":", color=PALE, linewidth=1.2)
    axes.plot(batch, values, "o-", color=COLOURS[0], markersize=4.5, linewidth=1.4)
    ends = {0, len(batch) - 1, max(range(len(values)), key=lambda i: values[i])}
    for i in ends if len(batch) > 4 else range(len(batch)):
        axes.annotate(write(values[i]), (batch[i], values[i]), xytext=(0, 6), textcoords="offset points", ha="center",
                      fontsize=7.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8})
    every = [*values, *(perfect or ())]
    if log:
        axes.set_ylim(min(every) / 1.6, max(every) * 2.0)
    else:
        axes.set_ylim(0, max(every) * 1.2 or 1.0)
    axes.set_xlim((batch[0] / 2, batch[-1] * 2) if wide else (batch[0] - 0.6, batch[-1] + 0.6))
    _plain_ticks(axes.yaxis, write)
    shown = sorted(set(batch))
    axes.xaxis.set_major_locator(FixedLocator(shown if len(shown) <= 6 else shown[::-(-len(shown) // 5)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


# ---- several models against each other

@_styled
def pareto_chart(rows: Rows, front: Sequence[str], x: str = "parameter_bytes", y: str = "accuracy",
                 workload: Any = None) -> Any:
    """Draw models in two quantities, those named in ``front`` joined by a staircase; less x and more y is better.

    Reads ``name``, ``x`` and ``y`` of the rows, which are ``ModelResult.to_dict()``, and where they are there the
    intervals ``x_interval`` and ``y_interval``, drawn as bars. At most eight names are written, the front first::

        rows = [one.to_dict() for one in Benchmark(...).run()]
        best = pareto_front(rows, smaller=("parameter_bytes",), larger=("accuracy",))
        pareto_chart(rows, [row["name"] for row in best])

    Returns:
        A Matplotlib figure.

    Raises:
        ValueError: no rows, a row without one of its keys, or a name in ``front`` that is no row's.
        ImportError: Matplotlib is not installed.
    """
    xs, ys = (_column("rows", rows, key, "ModelResult.to_dict()") for key in (x, y))
    names = [row.get("name", "") for row in rows]
    if not set(front) <= set(names):
        raise ValueError(f"front names {', '.join(sorted(set(front) - set(names)))}; want names of the rows")
    best = sorted((i for i, name in enumerate(names) if name in front), key=lambda i: (xs[i], ys[i]))
    title = f"{len(best)} of {len(names)} on the front: {_text(', '.join(_text(names[i], 16) for i in best), 120)}"
    figure, add = _figure(title, workload, 3.6)
    axes = add(0.75, 0.55, 2.3, 0.2)
    log = _spread(xs) >= 8
    axes.set_xscale("log" if log else "linear")
    for way, key, values in (("xerr", x, xs), ("yerr", y, ys)):
        _draw_intervals(axes, way, [row.get(f"{key}_interval") for row in rows], values, xs, ys)
    axes.plot([xs[i] for i in best], [ys[i] for i in best], drawstyle="steps-post", color=COLOURS[2], linewidth=1.4)
    for i, name in enumerate(names):
        mark, colour = ("o", COLOURS[2]) if name in front else ("s", OTHER)
        axes.plot(xs[i], ys[i], mark, color=colour, markersize=6)
    for axis, key in ((axes.xaxis, x), (axes.yaxis, y)):
        _plain_ticks(axis, _writer(key))
        axis.set_label_text(key.replace("_", " "))
    axes.margins(x=0.08, y=0.12)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.get_figure().draw_without_rendering()  # the limits are final
    shown = [*best, *(i for i, name in enumerate(names) if name not in front)][:8]
    _label_beside(axes, [(xs[i], ys[i]) for i in shown],
                  [f"{_text(names[i], 16)}  {_writer(x)(xs[i])}, {_writer(y)(ys[i])}" for i in shown])
    return figure


def _writer(key: str) -> Callable[[float], str]:
    """Return how a quantity is written, by the unit in its name."""
    return {"accuracy": lambda value: f"{value:.1%}", "bytes": _bytes, "ms": _time}.get(key.rsplit("_", 1)[-1], _three)


def _draw_intervals(axes: Any, way: str, intervals: Sequence[Any], values: Sequence[float], xs: Sequence[float],
                    ys: Sequence[float]) -> None:
    """Draw the intervals that are there as thin bars through their points."""
    for interval, value, at, up in zip(intervals, values, xs, ys):
        if interval is not None:
            low, high = _numbers("an interval", interval)
            bars = {way: [[max(value - low, 0.0)], [max(high - value, 0.0)]]}
            axes.errorbar([at], [up], **bars, fmt="none", ecolor=PALE, elinewidth=0.9, capsize=3)
