"""Notebooks that are damaged: by accident, when honest points stay and a note says what was mended, or not."""

WRONG, RIGHT = {"double": "return x", "half": "return x / 2"}, {"double": "return 2 * x", "half": "return x / 2"}
PASSES = "check('double(21)', 42, 42)"


def graded(nb):
    """Return the graded cell of `double`."""
    return next(cell for cell in nb["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == "double-check")


def split(nb):
    """Cut the graded cell in two, as an editor's command does."""
    cell, place = graded(nb), nb["cells"].index(graded(nb))
    lines = "".join(cell["source"]).splitlines(keepends=True)
    cell["source"] = lines[:2]
    nb["cells"].insert(place + 1, {**cell, "id": "second-half", "metadata": {}, "source": lines[2:]})


def copied(nb):
    """Copy the graded cell, with its metadata, and let the copy be easier."""
    nb["cells"].append({**graded(nb), "id": "a-copy", "source": PASSES})


def own_cell(source):
    """Put a cell of this text in front of the graded one."""
    return lambda nb: nb["cells"].insert(nb["cells"].index(graded(nb)), {
        "cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "execution_count": None, "source": source})


SAMPLES = [
    {"name": "a cell nested too deep for Python", "edit": own_cell("x = " + "-" * 200_000 + "1"), **RIGHT,
     "score": 100, "exit": 0, "says": "MemoryError"},
    {"name": "an exported cell nested too deep for Python", **RIGHT, "score": 100,
     "edit": own_cell("#| export\nx = " + "-" * 200_000 + "1"), "says": "it is nested too deep"},
    {"name": "an exported cell too long for Python", **RIGHT, "score": 100,
     "edit": own_cell("#| export\nx = 1" + " + 1" * 5000), "says": "this cell is not Python"},
    {"name": "not JSON", "raw": "{", "exit": 2, "says": "alpha_dev.ipynb"},
    {"name": "an empty file", "raw": "", "exit": 2, "says": "alpha_dev.ipynb"},
    {"name": "no text", "raw": "\x00\x01\x02", "exit": 2, "says": "alpha_dev.ipynb"},
    {"name": "JSON, but no notebook", "raw": '{"score": 100, "cells": "all passed"}', "exit": 2,
     "says": "alpha_dev.ipynb"},
    {"name": "nested without end", "raw": "[" * 100_000, "exit": 2, "says": "alpha_dev.ipynb"},
    {"name": "the graded test edited", "edit": lambda nb: graded(nb).update(source=PASSES), **WRONG,
     "says": "graded cell double-check was changed; it ran as released."},
    {"name": "the graded test emptied", "edit": lambda nb: graded(nb).update(source=""), **WRONG,
     "says": "graded cell double-check was changed; it ran as released."},
    {"name": "the graded test deleted", "edit": lambda nb: nb["cells"].remove(graded(nb)), **WRONG,
     "says": "graded cell double-check is missing; it was put back."},
    {"name": "all cells deleted", "edit": lambda nb: nb["cells"].clear(), "score": 0,
     "says": "graded cell double-check is missing; it was put back."},
    {"name": "the graded cell's name on a cell of its own", "edit": copied, **WRONG,
     "says": "graded cell double-check stands 2 times"},
    {"name": "points changed", "edit": lambda nb: graded(nb)["metadata"]["nbgrader"].update(points=1000), **WRONG,
     "says": "40 / 100"},
    {"name": "a cell copied", "edit": copied, **RIGHT, "score": 100, "exit": 0,
     "says": "graded cell double-check stands 2 times"},
    {"name": "a cell split", "edit": split, **RIGHT, "score": 100, "exit": 0,
     "says": "graded cell double-check was changed; it ran as released."},
    {"name": "a cell retyped", "edit": lambda nb: graded(nb).update(cell_type="markdown"), **RIGHT, "score": 100,
     "exit": 0, "says": "graded cell double-check was turned into a markdown cell; it ran as released."},
    {"name": "a cell stripped of its metadata", "edit": lambda nb: graded(nb).update(metadata={}), **RIGHT,
     "score": 100, "exit": 0, "says": "All passes."},
    {"name": "every cell stripped of its metadata", **RIGHT, "score": 100, "exit": 0, "says": "All passes.",
     "edit": lambda nb: [cell.update(metadata={}) for cell in nb["cells"]]},
]
