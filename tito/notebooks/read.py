"""Read a source notebook (percent format) into a notebook with fixed cell ids and full nbgrader metadata."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tito.errors import NotebookError
from tito.project import Module, read_text

Notebook = dict[str, Any]
CellDict = dict[str, Any]

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
PERCENT = {"extension": ".py", "format_name": "percent", "comment_magics": False}
MOST_CELLS = 10_000
SCHEMA = 3
NEXT = "`tito module reset NAME` keeps it as a backup and writes the released one"
_LAYOUT = ("cell_marker", "lines_to_next_cell", "lines_to_end_of_cell_marker")  # jupytext's notes on blank lines
_OURS = ("skill",)  # written beside nbgrader's keys in a source, kept apart from them in a notebook


@contextlib.contextmanager
def _without(*names: str) -> Iterator[None]:
    """Let ``import name`` fail for a moment, for optional imports that cost more than they give."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def jupytext() -> ModuleType:
    """Import jupytext, without its parts for a Jupyter server, and the URL grammar that jsonschema would build first.

    They are optional, take most of its time (half a second and 1.5 s) and are used for nothing here.
    """
    with _without("rfc3987_syntax", "jupytext.sync_contentsmanager", "jupytext.async_contentsmanager"):
        return import_module("jupytext")


def plain_lines(text: str) -> str:
    """Return a text with plain line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load(path: Path) -> Notebook:
    """Read an ``.ipynb`` file; each cell's source becomes one string."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotebookError("this notebook does not exist", str(path)) from None
    except UnicodeDecodeError as error:
        raise _unreadable(error, str(path)) from None
    except OSError as error:
        raise NotebookError(f"this notebook cannot be read ({error.strerror}); {NEXT}", str(path)) from None
    return loads(text, str(path))


def loads(text: str, where: str = "") -> Notebook:
    """Read the text of an ``.ipynb`` file; ``where`` is the place that errors name."""
    try:
        nb: Notebook = json.loads(text)
        _old_or_other(nb)
        if len(nb["cells"]) > MOST_CELLS:
            raise ValueError(f"it has {len(nb['cells']):,} cells, and {MOST_CELLS:,} are the most")
        for cell in nb["cells"]:
            cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            cell["cell_type"] = str(cell["cell_type"])
        for part in (nb, *nb["cells"]):
            if not isinstance(part.get("metadata"), dict):
                part["metadata"] = {}
        json.dumps(nb, ensure_ascii=False).encode()
    except RecursionError:
        raise NotebookError(f"this is not a notebook that can be read (nested too deeply); {NEXT}", where) from None
    except UnicodeEncodeError as error:
        raise NotebookError(f"this notebook holds half a letter ({error.object[error.start]!a}), which no file can "
                            f"hold; delete it, or {NEXT}", where) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(error, where) from None
    return nb


def _unreadable(error: Exception, where: str) -> NotebookError:
    return NotebookError(f"this is not a notebook that can be read ({type(error).__name__}: {error}); {NEXT}", where)


def _old_or_other(nb: Any) -> None:
    """Raise ``ValueError`` for what is JSON and no notebook, or one of an old format."""
    if isinstance(nb, dict) and "cells" not in nb:
        if isinstance(nb.get("worksheets"), list) or nb.get("nbformat") in (1, 2, 3):
            raise ValueError("it has the format of before 2015; `jupyter nbconvert --to notebook` brings it up to date")
        raise ValueError("it is JSON without cells")


def dumps(nb: Notebook) -> str:
    """Return a notebook as the text of its file, laid out as Jupyter lays it out."""
    cells = [{**cell, "source": cell["source"].splitlines(keepends=True)} for cell in nb["cells"]]
    return json.dumps({**nb, "cells": cells}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def new_notebook(cells: list[CellDict], metadata: dict[str, Any]) -> Notebook:
    """Return a notebook of these cells."""
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def read_percent(text: str, name: str) -> Notebook:
    """Read percent-format text; ids come from ``grade_id`` or from ``name`` and position."""
    raw = jupytext().reads(text, PERCENT)
    cells: list[CellDict] = []
    for position, came in enumerate(raw.cells, 1):
        metadata = json.loads(json.dumps(came.metadata))
        for key in _LAYOUT:
            metadata.pop(key, None)
        cell: CellDict = {"cell_type": came.cell_type, "id": "", "metadata": metadata, "source": came.source}
        if came.cell_type == "code":
            cell |= {"execution_count": None, "outputs": []}
        cell["id"] = cell_id(cell, name, position)
        cells.append(cell)
    metadata = json.loads(json.dumps(raw.metadata))
    metadata.pop("jupytext", None)
    return new_notebook(cells, metadata)


def grader(cell: CellDict) -> dict[str, Any]:
    """Return a cell's nbgrader metadata, empty where there is none."""
    found = cell["metadata"].get("nbgrader")
    return found if isinstance(found, dict) else {}


def skill(cell: CellDict) -> str:
    """Return the skill a graded cell's points count for."""
    ours = cell["metadata"].get("tinytorch")
    return str(ours.get("skill", "")) if isinstance(ours, dict) else ""


def cell_id(cell: CellDict, name: str, position: int) -> str:
    """Return the id a cell has in every build: its ``grade_id``, or the module's name and its position."""
    found = grader(cell).get("grade_id")
    return found if isinstance(found, str) and found else f"{name}-{position:03d}"


def complete_metadata(cell: CellDict) -> None:
    """Fill in what nbgrader's schema 3 wants, and move the skill to a key of ours (nbgrader allows no others)."""
    short = grader(cell)
    if not short:
        return
    full = {"schema_version": SCHEMA, "cell_type": cell["cell_type"], "grade": False, "solution": False, "task": False}
    full |= {key: value for key, value in short.items() if key not in _OURS}
    full.setdefault("locked", bool(full["grade"]))
    cell["metadata"]["nbgrader"] = full
    ours = {key: short[key] for key in _OURS if key in short}
    if ours:
        cell["metadata"]["tinytorch"] = ours


def read_source(module: Module) -> Notebook:
    """Read a module's source: the notebook with solutions and their markers, as a teacher has it."""
    try:
        text = read_text(module.source, _place(module))
    except FileNotFoundError:
        raise NotebookError("the source of this module does not exist; get it again from where the "
                            "checkout came from", _place(module)) from None
    nb = read_percent(text, module.name)
    for cell in nb["cells"]:
        complete_metadata(cell)
    nb["metadata"] = {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    return nb


def source_lines(module: Module, count: int) -> list[int | None]:
    """Return for each of ``count`` cells the line of the source its text begins on."""
    lines = read_text(module.source, _place(module)).splitlines()
    starts = [number for number, line in enumerate(lines, 1) if re.match(r"#\s*%%(?!%)", line)]
    if len(starts) != count:
        return [None] * count
    texts: list[int | None] = []
    for start in starts:
        while start < len(lines) and not lines[start].strip():
            start += 1
        texts.append(start + 1)
    return texts


def _place(module: Module) -> str:
    return module.source.relative_to(module.root).as_posix()
