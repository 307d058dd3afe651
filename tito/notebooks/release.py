"""What leaves the workshop: the learner's notebook, the teacher's, and the solved one."""

from __future__ import annotations

import copy
import hashlib

from tito.errors import NotebookError
from tito.notebooks.book import BEGIN, END, Book, Cell, open_book, solution_regions
from tito.notebooks.read import Notebook, load, plain_lines, read_source
from tito.project import Module


def content_hash(nb: Notebook) -> str:
    """Return a short hash of what a person can edit: the cells' kinds and texts."""
    digest = hashlib.sha256()
    for cell in nb["cells"]:
        digest.update(f"{cell['cell_type']}\0{plain_lines(cell['source']).strip()}\0".encode())
    return digest.hexdigest()[:16]


def recorded_hash(nb: Notebook) -> str:
    """Return the hash of the release a notebook came from, empty where none is recorded."""
    ours = nb["metadata"].get("tinytorch")
    return str(ours.get("release", "")) if isinstance(ours, dict) else ""


def is_untouched(nb: Notebook) -> bool:
    """Say whether a notebook is, cell for cell, a release of ours that nobody has written in."""
    return bool(recorded_hash(nb)) and recorded_hash(nb) == content_hash(nb)


def stub_name(cell: Cell, line: int) -> str:
    """Return the name a stub carries: ``function`` or ``Class.method``, or the cell's name outside of both."""
    around = cell.enclosing(line)
    return ".".join(node.name for node in around) or cell.name  # type: ignore[attr-defined]


def cut_solutions(cell: Cell) -> str:
    """Return a cell's text with each solution replaced by a stub that says what is missing and where."""
    try:
        regions = solution_regions(cell.source)
    except ValueError as error:
        raise NotebookError(str(error), cell=cell.name) from None
    lines: list[str | None] = list(cell.source.split("\n"))
    for region in regions:
        inner = [number for number in range(region.begin + 1, region.end)
                 if (lines[number - 1] or "").strip() and not (lines[number - 1] or "").lstrip().startswith("#")]
        name = stub_name(cell, inner[0] if inner else region.begin)
        stub = f'raise NotImplementedError("{name}: section {cell.section}, cell {cell.place}")'
        for number in range(region.begin, region.end + 1):
            lines[number - 1] = None
        lines[region.begin - 1] = region.indent + stub
    return "\n".join(line for line in lines if line is not None)


def strip_markers(source: str) -> str:
    """Return a cell's text without its solution markers."""
    return "\n".join(line for line in source.split("\n") if not (BEGIN.match(line) or END.match(line)))


def released(book: Book, marked: Notebook) -> Notebook:
    """Return the learner's notebook made of a teacher's one."""
    nb = copy.deepcopy(marked)
    for cell, data in zip(book.cells, nb["cells"]):
        if cell.solution:
            data["source"] = cut_solutions(cell)
    nb["metadata"]["tinytorch"] = {"module": book.module.label, "release": content_hash(nb)}
    return nb


def marked_notebook(module: Module) -> Notebook:
    """Return the teacher's notebook: solutions between their markers, as nbgrader's ``source/`` wants it."""
    return read_source(module)


def solution_notebook(module: Module) -> Notebook:
    """Return the notebook with every solution in place and no markers."""
    nb = read_source(module)
    for cell in nb["cells"]:
        cell["source"] = strip_markers(cell["source"])
    nb["metadata"]["tinytorch"] = {"module": module.label}
    return nb


def release_notebook(module: Module) -> Notebook:
    """Return the learner's notebook: solutions cut out, stubs in their place, the release recorded.

    Where the checkout has no source for the module, the untouched notebook in ``modules/`` is the release.
    """
    if not module.source.is_file() and module.notebook.is_file():
        nb = load(module.notebook)
        if is_untouched(nb):
            return nb
    marked = read_source(module)
    book = open_book(marked, module)
    fault = book.part_of_one
    if fault:  # half a source would be half a notebook, and fewer checks would pass it
        raise NotebookError(f"{fault.sentence}; where nobody is writing this file it is damaged: get it again from "
                            "where the checkout came from", fault.file, fault.cell)
    return released(book, marked)
