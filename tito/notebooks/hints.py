"""The hints that stand above a solution cell, in three steps, as plain text."""

from __future__ import annotations

import ast
import html
import re
from dataclasses import dataclass, field
from typing import Any

from tito.errors import TitoError
from tito.notebooks.book import Cell, open_book
from tito.notebooks.read import Notebook
from tito.project import Module

_HINT = re.compile(r"<details><summary>Hint (\d): ([^<]*)</summary>\s*(.*?)\s*</details>", re.DOTALL)
_PLACE = re.compile(r"(?:section )?(\d+)(?:\.|, cell )(\d+)")


@dataclass
class Task:
    """A solution cell, the graded cells that check it, and its hints: step -> (title, text)."""

    cell: Cell
    names: set[str]
    checks: set[str] = field(default_factory=set)
    hints: dict[int, tuple[str, str]] = field(default_factory=dict)
    shared_with: str = ""

    @property
    def place(self) -> str:
        """Where it stands, as its stub says it."""
        return f"section {self.cell.section}, cell {self.cell.place}"


def as_text(source: str) -> str:
    """Return a hint's Markdown and HTML as plain text, code between backticks."""
    # a line break in a paragraph is where the source's line ended, not where the reader's does
    flowing = re.sub(r"(?<=\S)[ \t]*\n(?=\S)(?![-*|] |\d+\. |```)", " ", source)
    code = re.sub(r"<code>(.*?)</code>", r"`\1`", flowing, flags=re.DOTALL)
    bare = re.sub(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>", "", re.sub(r"<br\s*/?>\s*", "\n", code))
    return html.unescape(re.sub(r"\*\*(\S.*?)\*\*", r"\1", bare)).strip()


def tasks(nb: Notebook, module: Module) -> list[Task]:
    """Return a released notebook's solution cells with their hints.

    A cell that has none of its own shares those of the cell before it, in the same section.
    """
    found: list[Task] = []
    own: dict[int, tuple[str, str]] = {}
    for cell in open_book(nb, module, "").cells:
        if cell.data["cell_type"] == "markdown":
            own.update({int(step): (title, as_text(text)) for step, title, text in _HINT.findall(cell.source)})
        elif cell.solution:
            task = Task(cell, set(_defined(cell)), hints=own)
            before = found[-1] if found else None
            if not own and before and before.cell.section == cell.section:
                task.hints, task.shared_with = before.hints, before.shared_with or before.cell.name
            found.append(task)
            own = {}
        elif cell.graded and found:
            found[-1].checks |= {cell.name, *_defined(cell)}
    return found


def _defined(cell: Cell) -> list[str]:
    """Return the functions, classes and methods of a cell, methods also as ``Class.method``."""
    names = []
    for node in cell.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            around = [one.name for one in cell.enclosing(node.lineno)]  # type: ignore[attr-defined]
            names += [node.name, ".".join([*around, node.name])]
    return names


def find(known: list[Task], asked: str, module: Module) -> Task:
    """Return the task that ``asked`` names: its grade_id, that of its check, a function of it, or its place "3.2"."""
    asked = asked.strip().removesuffix("()")
    place = _PLACE.fullmatch(asked)
    for rank in (lambda task: place and (task.cell.section, task.cell.place) == (int(place[1]), int(place[2])),
                 lambda task: task.cell.name == asked, lambda task: asked in task.checks,
                 lambda task: asked in task.names):
        for task in known:
            if rank(task):
                return task
    import difflib

    names = [task.cell.name for task in known]
    places = [f"{task.cell.section}.{task.cell.place}" for task in known]
    close = difflib.get_close_matches(asked, names, n=3, cutoff=0.5)
    raise TitoError(f"{module.label} has no solution cell {asked!r}: " + (
        f"did you mean {' or '.join(close)}?" if close else
        f"the places are {', '.join(places)}." if place else f"the cells are {', '.join(names)}."))


def hint(module: Module, asked: str | None = None, step: int = 1) -> dict[str, Any]:
    """Return one hint as plain data; without a cell, of the first one that is not written yet."""
    from tito.notebooks.release import release_notebook
    from tito.standing import look, stubs

    work = look(module).work
    try:
        nb = release_notebook(module)
    except TitoError:
        if work is None:
            raise
        nb = work  # no source in this checkout: the learner's notebook has the hints too
    known = tasks(nb, module)
    result: dict[str, Any] = {"module": module.label, "cell": None, "step": step, "steps": 3}
    if asked is None:
        left = None if work is None else {place.partition(": ")[2] for place in stubs(work)}
        task = next((task for task in known if left is None or task.place in left), None)
        if task is None:
            return {**result, "message": f"Every part of {module.label} is written; `tito test {module.name}` says "
                    f"what to look at, and `tito hint {module.name} CELL` gives the hints of one cell."}
    else:
        task = find(known, asked, module)
    if step not in task.hints:
        raise TitoError(f"{task.cell.name} of {module.label} has {len(task.hints) or 'no'} hints"
                        + (f", and no step {step}" if task.hints else "")
                        + f"; the text above it is in section {task.cell.section} of the notebook.")
    title, text = task.hints[step]
    further = step + 1 in task.hints
    return {**result, "cell": task.cell.name, "place": task.place, "steps": len(task.hints), "title": title,
            "text": text, "shared_with": task.shared_with,
            "next": f"tito hint {module.name} {task.cell.name} --step {step + 1}" if further else None}
