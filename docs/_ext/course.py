"""The course as its notebooks' headers tell it, for pages that print tables of it: nothing is typed a second time."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from tito.milestones import Milestone, milestones
from tito.project import PACKAGE, Module, find_root, modules, target_owners

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = find_root(Path(__file__))
TIERS = {"Foundation": "#0B3C6F", "Architecture": "#A63C06", "Optimization": "#00604A"}
_LINE = re.compile(r"^Tier: .*?(?=\n\n)", re.MULTILINE | re.DOTALL)  # below the title
_SAYS = re.compile(r"Tier: (\w+).*? · Difficulty (\d) of 4 · About (\d+)(½?) hours.*? · Needs (.*)")


def _needed(text: str) -> list[int]:
    """Return the numbers of "01 to 06 (`tito test …`); 10 tells …": those of clauses that name a test to pass."""
    numbers: set[int] = set()
    for clause in re.split(r"; |\. ", text):
        if "`tito test " in clause:
            for first, last in re.findall(r"\b(\d\d)\b(?: to (\d\d)\b)?", re.sub(r"\([^)]*\)", "", clause)):
                numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def _read(module: Module) -> dict[str, Any]:
    line = _LINE.search(module.source.read_text(encoding="utf-8"))
    said = line and _SAYS.fullmatch(" ".join(line[0].split()))
    if not said:
        raise ValueError(f"{module.source}: below the title must stand a line such as "
                         "'Tier: Foundation · Difficulty 2 of 4 · About 2½ hours · Needs 01 (`tito test tensor`)'")
    tier, difficulty, hours, half, needs = said.groups()
    return {"number": module.number, "name": module.name, "label": module.label, "title": module.title, "tier": tier,
            "difficulty": int(difficulty), "hours": int(hours) + bool(half) / 2, "needs": _needed(needs),
            "needs_text": needs, "target": module.target}


def course() -> list[dict[str, Any]]:
    """Return the modules 01 to 20 in the order of the course, without the bonus notebook, as their headers tell them.

    Keys: number (14); name ("profiling"); label ("14_profiling", the chapter's file name); title ("Profiling"); tier
    ("Foundation", "Architecture", "Optimization"); difficulty (1 to 4); hours (5.5); needs (numbers of the modules to
    have done, [1, 2, 3, 4, 5]); needs_text (the header's own words); target ("tinytorch.perf.profiling").
    """
    return [_read(module) for module in modules(ROOT) if not module.bonus]


def hours_text(hours: float) -> str:
    """Write hours as headers do: 5.5 is "5½"."""
    return (str(int(hours)) if hours >= 1 else "") + ("½" if hours % 1 else "")


def numbers_text(numbers: list[int]) -> str:
    """Write module numbers as headers do: [1, 2, 3, 4, 11] is "01 to 04, 11"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]:02d} to {run[-1]:02d}" if len(run) > 2 else ", ".join(f"{n:02d}" for n in run)
                     for run in runs)


def imports() -> dict[int, set[int]]:
    """Return for each module the numbers of the modules that its package file imports, by hand-written files too."""
    from tito.notebooks.checks import imported_names, reach

    owners, found = target_owners(ROOT), {}
    for module in modules(ROOT):
        if not module.bonus:
            names = [name for _, name in imported_names(ast.parse(module.package.read_text(encoding="utf-8")))]
            reached = {owner for name in names if name.split(".")[0] == PACKAGE for owner in reach(ROOT, name, owners)}
            found[module.number] = {owner.number for owner in reached} - {module.number}
    return found


def tier_table(tier: str) -> str:
    """Return a tier's modules as a Markdown table: number, chapter, hours, difficulty, needs, and the sum of hours."""
    rows = [entry for entry in course() if entry["tier"] == tier]
    lines = ["| module | hours | difficulty | needs |", "|---|---|---|---|"]
    for entry in rows:
        chapter = f"[{entry['number']:02d} {entry['title']}](../chapters/{entry['label']}.ipynb)"
        lines.append(f"| {chapter} | {hours_text(entry['hours'])} | {entry['difficulty']} of 4 | "
                     f"{numbers_text(entry['needs']) or 'nothing'} |")
    total = hours_text(sum(entry["hours"] for entry in rows))
    return "\n".join([*lines, f"| **together** | **{total}** | | |"])


def milestone_tier(milestone: Milestone) -> str:
    """Return the tier whose modules a milestone's own script leans on last, its measuring with Module 14 aside."""
    owners, entries = target_owners(ROOT), course()
    numbers = {owners[".".join(parts[:end])].number for parts in (name.split(".") for name in milestone.imports)
               for end in range(2, len(parts) + 1) if ".".join(parts[:end]) in owners}
    last = max(numbers - {14}, default=1)
    return next(str(entry["tier"]) for entry in entries if entry["number"] == last)


def milestone_table(tier: str) -> str:
    """Return the milestones of a tier as a Markdown table: year, what it shows, the command."""
    lines = ["| year | what it shows | run it |", "|---|---|---|"]
    for milestone in milestones(ROOT):
        if milestone_tier(milestone) == tier:
            lines.append(f"| {milestone.year} | {milestone.said[0]} | `tito milestone run {milestone.name}` |")
    return "\n".join(lines)


def draw_imports(tier: str = "") -> Figure:
    """Draw which module imports which: a dot for each pair, a row for each module (of one tier, or of all)."""
    from matplotlib.figure import Figure

    entries, found = course(), imports()
    rows = [entry for entry in entries if tier in ("", entry["tier"])]
    imported = set().union(*(found[entry["number"]] for entry in rows))
    columns = [entry["number"] for entry in entries
               if entry["number"] in imported or any(row["number"] == entry["number"] for row in rows)]
    figure = Figure(figsize=(1.6 + 0.25 * max(len(columns), 16), 1.3 + 0.26 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for name, colour in TIERS.items():
        dots = [(columns.index(number), place) for place, row in enumerate(rows) for number in found[row["number"]]
                if entries[number - 1]["tier"] == name]
        if dots:
            axes.scatter(*zip(*dots), s=46, color=colour, label=f"imports one of {name}", zorder=3)
    own = [(columns.index(row["number"]), place) for place, row in enumerate(rows)]
    axes.scatter(*zip(*own), s=46, facecolors="none", edgecolors="#777777", label="the module itself", zorder=3)
    axes.set_yticks(range(len(rows)), [f"{row['title']} {row['number']:02d}" for row in rows])
    axes.set_xticks(range(len(columns)), [f"{number:02d}" for number in columns])
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.grid(color="#E4E4E4", zorder=0)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    whose = f"the modules of {tier} import" if tier else "each module imports"
    figure.suptitle(f"What {whose}: only what comes before it", x=0.01, ha="left", fontsize=11)
    figure.legend(loc="outside lower left", ncols=1 if len(columns) < 16 else 2, frameon=False, fontsize=9)
    return figure


def heard(function: Callable[[], Any]) -> list[tuple[int, Any]]:
    """Run something and return (module number, event) for each op that it sends through the door."""
    from tinytorch.core.tensor import Op, listen

    numbers: dict[Op, int] = {}
    for entry in course():  # an op belongs to the first module that has it; later ones import it
        for value in vars(import_module(entry["target"])).values():
            if isinstance(value, Op):
                numbers.setdefault(value, entry["number"])
    events: list[Any] = []
    with listen(events.append):
        function()
    return [(numbers[event.op], event) for event in events]


def op_lines(function: Callable[[], Any]) -> str:
    """Run something and return a line for each op: the module that has it, its name, shapes in and out."""
    return "\n".join(f"{number:02d} {event.op.name:<11} {', '.join(map(str, event.in_shapes))} -> {event.out_shape}"
                     for number, event in heard(function))


def op_counts(function: Callable[[], Any]) -> str:
    """Run something and return how often each op ran, the most frequent first: "3 reshape, 2 matmul"."""
    counts = Counter(event.op.name for _, event in heard(function))
    return fill(", ".join(f"{times} {name}" for name, times in counts.most_common()), 72)


def layer_lines(function: Callable[[], Any], depth: int = 2) -> str:
    """Run a model and return a line for each layer down to a depth: its place, and the shape of what left it last.

    Two layers of one class are two, by the ``owner`` of their scopes.
    """
    shapes: dict[tuple[Any, ...], Any] = {}
    for _, event in heard(function):
        for end in range(1, min(depth, len(event.scope)) + 1):
            shapes[event.scope[:end]] = event.out_shape
    return "\n".join(f"{'  ' * (len(path) - 1) + path[-1].name:<28} {shape}" for path, shape in shapes.items())
