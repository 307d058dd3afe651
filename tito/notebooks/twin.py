"""The twin: a notebook as a Python script that can be imported without running its tests and demos.

Percent format. Cells that are neither exported nor comments stand under ``if __name__ == "__main__":``, so
importing the twin defines what the notebook exports, and running it runs everything in order.
"""

from __future__ import annotations

import ast
import copy
import difflib
import json
import re
from functools import lru_cache

from tito.errors import NOT_PYTHON, NotebookError
from tito.notebooks.book import inside_strings, is_exported
from tito.notebooks.read import CellDict, Notebook, grader, plain_lines, read_percent

GUARD = 'if __name__ == "__main__":'
INDENT = "    "
NOTHING = f"{INDENT}pass  # nothing here runs"
_MAGIC = re.compile(r"^(\s*)([%!])")
_WAS_MAGIC = re.compile(r"^(\s*)# ipython: ")


@lru_cache(maxsize=1000)
def _statements(source: str) -> int | None:
    """Return how many statements a cell has, ``None`` when it does not parse."""
    try:
        return len(ast.parse(source).body)
    except NOT_PYTHON:
        return None


def _hide_magics(source: str) -> str:
    """Make comments of what only Jupyter understands, in a cell that is not Python because of it.

    These are the lines that begin with % or !, and of a cell in another language (``%%bash``) all lines.
    """
    if _statements(source) is not None:
        return source
    hidden = "\n".join(_MAGIC.sub(r"\1# ipython: \2", line) for line in source.split("\n"))
    if source.startswith("%%") and _statements(hidden) is None:
        return "\n".join(f"# ipython: {line}" if line else line for line in source.split("\n"))
    return hidden


def _show_magics(source: str) -> str:
    return "\n".join(_WAS_MAGIC.sub(r"\1", line) for line in source.split("\n"))


def wrap(source: str) -> str:
    """Put a cell's text under the guard."""
    strings = inside_strings(source)
    body = [line if number in strings or not line else INDENT + line
            for number, line in enumerate(source.split("\n"), 1)]
    if _statements(source) == 0:
        body.append(NOTHING)
    return "\n".join([GUARD, *body])


def unwrap(source: str) -> str:
    """Take a cell's text out from under the guard; a text that does not stand under it stays as it is."""
    if source.split("\n", 1)[0].rstrip() != GUARD:
        return source
    strings = inside_strings(source)
    body = [line if number in strings else line.removeprefix(INDENT)
            for number, line in enumerate(source.split("\n"), 1)][1:]
    if body and body[-1] == NOTHING.strip():
        body.pop()
    return "\n".join(body)


def _is_bare(source: str) -> bool:
    """Say whether a code cell may stand unguarded: what is exported, and what holds only directives."""
    return is_exported(source) or all(not line.strip() or line.startswith("#|") for line in source.split("\n"))


def _marker(cell: CellDict) -> str:
    kind = {"markdown": " [markdown]", "raw": " [raw]"}.get(cell["cell_type"], "")
    options = "".join(f" {key}={json.dumps(value, ensure_ascii=False, sort_keys=True)}"
                      for key, value in sorted(cell["metadata"].items()))
    return f"# %%{kind}{options}"


def _text(cell: CellDict) -> str:
    source = plain_lines(cell["source"]).strip("\n")
    if cell["cell_type"] == "code":
        shown = _hide_magics(source)
        return shown if _is_bare(source) else wrap(shown)
    if cell["cell_type"] == "raw" or '"""' in source or source.endswith("\\") or re.search(r"^#\s*%%", source, re.M):
        return "\n".join(f"# {line}".rstrip() if not line else f"# {line}" for line in source.split("\n"))
    return f'{"r" if chr(92) in source else ""}"""\n{source}\n"""'


def write_twin(nb: Notebook) -> str:
    """Return a notebook as its twin's text."""
    head = ["# ---", "# jupyter:", "#   jupytext:", "#     comment_magics: false",
            "#     notebook_metadata_filter: tinytorch",
            "#     text_representation: {extension: .py, format_name: percent}"]
    head += [f"#   {key}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
             for key, value in sorted(nb["metadata"].items()) if key != "jupytext"]
    blocks = ["\n".join([*head, "# ---"])]
    for index, cell in enumerate(nb["cells"], 1):
        if cell["cell_type"] == "code" and re.search(r"^#\s*%%", cell["source"], re.MULTILINE):
            raise NotebookError("a line begins with `# %%`, which would begin a new cell in the .py twin",
                                cell=f"cell {index}")
        blocks.append(f"{_marker(cell)}\n{_text(cell)}".rstrip("\n"))
    return "\n\n".join(blocks) + "\n"


def read_twin(text: str, name: str) -> Notebook:
    """Return the notebook a twin stands for; ``name`` is the module's (for the cells' ids)."""
    try:
        nb = read_percent(text, name)
    except Exception as error:  # what jupytext and YAML raise for a text that is no notebook is their affair
        raise NotebookError(f"this is not a notebook in percent format ({type(error).__name__}: "
                            f"{' '.join(str(error).split())[:80]})", f"{name}_dev.py") from None
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = _show_magics(unwrap(cell["source"]))
    return nb


# ---------------------------------------------------------------- one written from the other


def exact_twin(nb: Notebook, name: str, file: str) -> str:
    """Return a notebook's twin, having read it back; ``NotebookError`` names a cell that would come back changed.

    Args:
        nb: the notebook.
        name: the module's.
        file: what the error calls the notebook.
    """
    try:
        text = write_twin(nb)
    except NotebookError as error:
        raise NotebookError(error.sentence, file, error.cell) from None
    cells, back = nb["cells"], read_twin(text, name)["cells"]
    for number, cell in enumerate(cells):
        came = back[number] if number < len(back) else None
        if came is None or came["cell_type"] != cell["cell_type"] or came["source"].strip() != plain_lines(
                cell["source"]).strip():
            raise NotebookError("this cell would not come back from the .py twin as it is: is a string in it opened "
                                "and not closed, or does it hold an unusual line break?", file, f"cell {number + 1}")
    return text


def read_into(text: str, name: str, old: Notebook) -> Notebook:
    """Return the notebook a twin's text stands for, with what a twin does not hold taken from ``old``.

    A cell whose text did not change is ``old``'s, with its id and outputs; a changed one is known by its ``grade_id``,
    else by its place between cells that did not change, and keeps its id.
    """
    nb = read_twin(text, name)
    try:
        before = read_twin(write_twin(old), name)["cells"]
    except NotebookError:
        before = []
    if len(before) != len(old["cells"]):
        before = old["cells"]
    pairs = _pairs([*map(_key, before)], [*map(_key, nb["cells"])])
    cells: list[CellDict] = []
    for number, cell in enumerate(nb["cells"]):
        place = pairs.get(number)
        if place is not None:
            was = copy.deepcopy(old["cells"][place])
            if _key(before[place])[2] != _key(cell)[2]:
                was["source"] = cell["source"]
                if cell["cell_type"] == "code":
                    was |= {"outputs": [], "execution_count": None}
            if before[place]["metadata"] != cell["metadata"]:
                was["metadata"] = cell["metadata"]
            cell = was
        cells.append(cell)
    _unique_ids(cells, set(pairs))
    return {**copy.deepcopy(old), "cells": cells, "metadata": {
        **old["metadata"], **{key: nb["metadata"][key] for key in ("tinytorch",) if key in nb["metadata"]}}}


def _key(cell: CellDict) -> tuple[str, str, str]:
    return cell["cell_type"], str(grader(cell).get("grade_id") or ""), plain_lines(cell["source"]).strip("\n")


def _pairs(old: list[tuple[str, str, str]], new: list[tuple[str, str, str]]) -> dict[int, int]:
    """Return for each new cell the place of the old one that it is."""
    found: dict[int, int] = {}
    rest: list[tuple[list[int], list[int]]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found |= dict(zip(range(c, d), range(a, b)))
        elif kind == "replace":
            rest.append(([*range(a, b)], [*range(c, d)]))
    free = [place for place in range(len(old)) if place not in found.values()]
    for number in range(len(new)):
        if number not in found and new[number][1]:
            place = next((place for place in free if old[place][:2] == new[number][:2]), None)
            if place is not None:
                found[number] = place
                free.remove(place)
    for places, numbers in rest:
        here = [place for place in places if place in free and not old[place][1]]
        for number in numbers:
            place = next((place for place in here if old[place][0] == new[number][0]), None)
            if number not in found and not new[number][1] and place is not None:
                found[number] = place
                here = here[here.index(place) + 1:]
    return found


def _unique_ids(cells: list[CellDict], kept: set[int]) -> None:
    """Give cells that are new an id of their own."""
    used = {cells[number].get("id") for number in kept}
    for number, cell in enumerate(cells):
        if number not in kept:
            first, again = cell["id"], 2
            while cell["id"] in used:
                cell["id"], again = f"{first}-{again}", again + 1
            used.add(cell["id"])
