"""Which cell of the learner's to look at, and which errors only follow from another cell's."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tito.errors import NOT_PYTHON, UNWRITTEN
from tito.grading.child import without_magics
from tito.grading.submission import Cell

_UNKNOWN = re.compile(r"name '(\w+)' is not defined")
_STUB = re.compile(rf'raise NotImplementedError\("{UNWRITTEN}"\)')


@lru_cache(maxsize=500)
def parsed(source: str) -> ast.Module | None:
    """Parse a cell, without its notebook magics where they keep it from being Python."""
    for text in (source, without_magics(source)[0]):
        with contextlib.suppress(*NOT_PYTHON):
            return ast.parse(text)
    return None


def find_causes(cells: Sequence[Cell], rows: Sequence[dict[str, Any]]) -> None:
    """Add to each row, one per cell, ``look_at``, the solution cell to look at, and ``follows``.

    ``follows`` says that the cell could not run because a name it uses belongs to a cell that is unwritten, failed its
    check, or has an error of its own, or that it stumbled over the line an earlier one stumbled over, or waits for the
    module that an earlier one waits for. Reads of a row ``state``, ``type``, ``message``, ``line``, ``raised_in``,
    ``waits_for`` (another module that is not written) and ``names``, those that the failed check uses.
    """
    if all(row["state"] == "passed" for row in rows):
        for row in rows:
            row.update(look_at=None, look_in=None, follows=False)
        return
    trees = [(parsed(cell.source), parsed(cell.solution)) for cell in cells]
    defines = [{name for tree in both if tree for name in _defined(tree.body)} for both in trees]
    for index, (cell, row) in enumerate(zip(cells, rows)):
        row.update(look_at=None, look_in=None, follows=False)
        if cell.graded and row["state"] != "passed" and not row.get("waits_for"):
            found = _solution(cells[:index], defines, row)
            row.update(look_at=found and found.label, look_in=found and found.section)
    wrong = {row["look_at"] for row in rows if row["state"] in ("failed", "error", "unwritten")}
    lost: set[str] = set()
    slips = [(row["waits_for"],) if row.get("waits_for") else
             (row["raised_in"], row.get("line"), row["type"], row["message"]) if row["state"] == "error" and
             row["raised_in"] is not None else (index,) for index, row in enumerate(rows)]
    first = {slip: index for index, slip in reversed(list(enumerate(slips)))}
    first |= {slip: index for index, slip in reversed(list(enumerate(slips))) if cells[index].graded}  # it costs points
    for index, (cell, row, (tree, _), names) in enumerate(zip(cells, rows, trees, defines)):
        if row["state"] == "error":
            unknown = _UNKNOWN.match(row["message"] or "") if row["type"] == "NameError" else None
            fenced = (row["message"] or "").startswith("the fence: ")  # that is a reason of its own
            row["follows"] = unknown[1] in lost if unknown else not cell.graded and not fenced and bool(
                lost & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else ())
            row["follows"] |= first[slips[index]] != index
        if row["state"] != "passed" or cell.label in wrong or _STUB.search(cell.source):
            lost |= names
        else:
            lost -= names


def _solution(before: Sequence[Cell], defines: Sequence[set[str]], row: dict[str, Any]) -> Cell | None:
    """Return the cell to look at: where the error was raised, else the last one whose names are used, else the last."""
    unknown = _UNKNOWN.match(row["message"] or "") if row["type"] == "NameError" else None
    names = {unknown[1]} if unknown else set(row.get("names") or ())
    mine = [(cell, own) for cell, own in zip(before, defines) if cell.solution]
    for cell in before:
        if cell.label == row.get("raised_in") and not cell.graded:
            return cell
    return next((cell for cell, own in reversed(mine) if own & names), mine[-1][0] if mine else None)


def _defined(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Find the names that a cell gives to the notebook."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        else:
            yield from (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)
                        and isinstance(inner.ctx, ast.Store))
