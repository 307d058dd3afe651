"""What the learner hands in: her notebook or its twin, with the graded cells put back as they were released."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tito.errors import NotebookError, ProjectError, TitoError
from tito.notebooks.read import CellDict, Notebook, grader, skill
from tito.notebooks.release import is_untouched, release_notebook
from tito.project import Module
from tito.standing import counts, look, read_notebook, read_other

_HEADING = re.compile(r"^## +(\d+\..*?|.*?)\s*$", re.MULTILINE)


@dataclass
class Submission:
    """A notebook to grade: the notebook file's or the twin's; ``untouched`` when nobody wrote in either.

    ``deny`` are folders and files that its code must not read, such as what others handed in.
    """

    module: Module
    tested: str
    notebook: Notebook
    untouched: bool
    notes: list[str] = field(default_factory=list)
    deny: Sequence[Path] = ()

    @property
    def file(self) -> str:
        """What people call the file it was read from: its path from the checkout's root."""
        path = self.module.twin if self.tested == "twin" else self.module.notebook
        return path.relative_to(self.module.root).as_posix()


@dataclass(frozen=True)
class Cell:
    """A code cell to run; ``section`` is its heading, ``label`` its grade_id or its place, unique in the notebook.

    ``solution`` is the whole text of a cell that the release has for the learner to write in, as it was released.
    """

    source: str
    label: str
    section: str
    graded: bool = False
    grade_id: str = ""
    skill: str = ""
    points: int = 0
    solution: str = ""


def read(module: Module, source: str | None = None) -> Submission:
    """Find out what the learner wrote in: the notebook, or else the twin.

    Args:
        module: the module.
        source: "notebook" or "twin" where she wrote in both, ``None`` otherwise.
    """
    where = module.notebook.relative_to(module.root).as_posix()
    twin_where = module.twin.relative_to(module.root).as_posix()
    try:
        nb = None if source == "twin" else read_notebook(module.notebook)
        twin = None if source == "notebook" else read_other(module, nb)
    except (NotebookError, ProjectError):
        problem = look(module).problem  # it knows the ways back: twin, backups, release
        if problem is None:
            raise
        raise TitoError(problem) from None
    chosen = source or counts(nb, twin)
    if chosen is None:
        raise TitoError(f"{where} and {module.twin.name} were both edited and differ: say which one counts with "
                        f"--source notebook or --source twin, or `tito module sync {module.name} --from notebook` (or "
                        "--from twin) writes one from the other.")
    found = nb if chosen == "notebook" else twin
    if found is None:
        raise TitoError(f"{where if chosen == 'notebook' else twin_where} does not exist; `tito module start "
                        f"{module.name}` writes it as released.")
    notes = []
    if chosen == "twin" and source is None:
        state = "does not exist" if nb is None else "is as released" if is_untouched(nb) else "is older"
        notes.append(f"{where} {state}, so this is about {module.twin.name}.")
    return Submission(module, chosen, found, is_untouched(found), notes)


def mend(submission: Submission) -> tuple[list[Cell], list[str]]:
    """Return the code cells to run, graded ones as released, and a note on each graded cell that was not.

    Graded cells are known by ``grade_id``. A changed or retyped one is replaced, of a copied one the last counts,
    a lost one is put after the nearest cell before it in the release that is still there.
    """
    release = release_notebook(submission.module)
    wanted = {grader(cell)["grade_id"]: cell for cell in release["cells"] if grader(cell).get("grade")}
    solutions = {_name(cell): cell["source"] for cell in release["cells"] if grader(cell).get("solution")}
    notes: list[str] = []
    cells = [copy.copy(cell) for cell in submission.notebook["cells"]]
    by_text = {cell["source"].strip(): grade_id for grade_id, cell in wanted.items()}
    places: dict[str, list[int]] = {}
    for index, cell in enumerate(cells):  # some editors lose metadata: then the text says which cell it is
        places.setdefault(_name(cell) or by_text.get(cell["source"].strip(), ""), []).append(index)
    dropped: set[int] = set()
    for index, cell in enumerate(cells):
        if cell["cell_type"] != "code" and _name(cell) in solutions:  # its keyboard shortcut is one letter
            notes.append(f"solution cell {_name(cell)} was turned into a {cell['cell_type']} cell; it ran as code.")
            cells[index] = {**cell, "cell_type": "code"}
    if wanted.keys() & places.keys() and not any(map(_name, cells)):
        notes.append("the cells have lost their metadata; graded ones were known by their text.")
    for grade_id, released in wanted.items():
        here = places.get(grade_id, [])
        if not here:
            continue
        if len(here) > 1:
            notes.append(f"graded cell {grade_id} stands {len(here)} times in the {submission.tested}; only the last "
                         "one counts, and it ran as released.")
            dropped.update(here[:-1])
        came = cells[here[-1]]
        if came["cell_type"] != "code":
            notes.append(f"graded cell {grade_id} was turned into a {came['cell_type']} cell; it ran as released.")
        elif came["source"].strip() != released["source"].strip():
            notes.append(f"graded cell {grade_id} was changed; it ran as released.")
        cells[here[-1]] = released
    order = [(_key(cell), cell) for index, cell in enumerate(cells) if index not in dropped]
    for position, released in enumerate(release["cells"]):
        grade_id = _name(released)
        if grade_id not in wanted or grade_id in places:
            continue
        notes.append(f"graded cell {grade_id} is missing; it was put back.")
        nearest = _nearest(release["cells"][:position], [key for key, _ in order])
        order.insert(nearest + 1, (_key(released), released))
    return _numbered([cell for _, cell in order], set(wanted), solutions), notes


def _nearest(before: list[CellDict], keys: list[str]) -> int:
    """Return the place of the last cell of ``before`` that is among ``keys``."""
    for cell in reversed(before):
        key = _key(cell)
        if key in keys:
            return len(keys) - 1 - keys[::-1].index(key)
    return -1


def _name(cell: CellDict) -> str:
    return str(grader(cell).get("grade_id") or "")


def _key(cell: CellDict) -> str:
    """Say which cell this is: by grade_id, else by its text, which survives editors that renew ids."""
    return _name(cell) or f"{cell['cell_type']}:{cell['source'].strip()}"


def _numbered(cells: list[CellDict], wanted: set[str], solutions: dict[str, str]) -> list[Cell]:
    """Give each code cell its section and a label of its own."""
    found: list[Cell] = []
    used: dict[str, int] = {}
    section, place = "", 0
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for heading in _HEADING.finditer(cell["source"]):
                section, place = heading[1], 0
        if cell["cell_type"] != "code":
            continue
        place += 1
        name = _name(cell)
        number = re.match(r"\d+", section)
        label = name or (f"section {number[0]}, cell {place}" if number else
                         f"cell {place} of {section or 'the beginning'}")
        used[label] = used.get(label, 0) + 1
        if used[label] > 1:
            label = f"{label} (copy {used[label]})"
        data: dict[str, Any] = grader(cell)
        graded = name in wanted and bool(data.get("grade"))
        found.append(Cell(cell["source"], label, section, graded, name if graded else "", skill(cell) if graded else "",
                          int(data.get("points", 0)) if graded else 0, "" if graded else solutions.get(name, "")))
    return found
