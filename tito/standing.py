"""Where a module stands: notebook, twin, backups and the package's file as they lie on the disk, and nothing else.

Whatever lies there, this says so, and which way leads on; it changes nothing.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tito.errors import UNWRITTEN, NotebookError, ProjectError, TitoError
from tito.project import Module, read_text

BACKUPS = "_backup"  # nbdev exports every notebook below modules/ but those in folders that begin with _ or .
KEPT = re.compile(r"(.+)-(\d+)(\.\w+)")  # a backup's name, its number, its suffix
STUB = re.compile(rf'raise NotImplementedError\("({UNWRITTEN})"\)')
_BEGIN = re.compile(r"^\s*### BEGIN SOLUTION\s*$", re.MULTILINE)


@dataclass(frozen=True)
class File:
    """A notebook or twin as it lies on the disk: missing, untouched, edited or unreadable (``why`` says how)."""

    path: Path
    state: str
    why: str = ""
    notebook: dict[str, Any] | None = None
    holds_work: bool = False


@dataclass(frozen=True)
class Desk:
    """Where a module's notebook stands: the state of the whole, which file the work is in, what is odd about it."""

    module: Module
    notebook: File
    twin: File
    state: str
    counts: str | None
    problem: str | None

    @property
    def work(self) -> dict[str, Any] | None:
        """The notebook that counts, parsed."""
        return {"notebook": self.notebook.notebook, "twin": self.twin.notebook}.get(self.counts or "")


def look_at(module: Module, path: Path, beside: dict[str, Any] | None = None) -> File:
    """Say what lies where a notebook or a twin belongs; nothing that may lie there is an error.

    A twin that says what the notebook ``beside`` it says is that notebook.
    """
    from tito.notebooks.read import load
    from tito.notebooks.release import is_untouched

    if not os.path.lexists(path):
        return File(path, "missing")
    if path.is_dir():
        return File(path, "unreadable", "a folder stands in its place", holds_work=any(path.iterdir()))
    try:
        if not path.read_bytes().strip():
            return File(path, "unreadable", "it is empty")
        nb = load(path) if path.suffix == ".ipynb" else read_other(module, beside)
        assert nb is not None
    except NotebookError as error:
        said = re.sub(r"^this is not a notebook that can be read \((?:\w+: )?(.*)\)$", r"it is not a notebook: \1",
                      error.sentence.split("; `tito")[0])
        return File(path, "unreadable", said, holds_work=True)
    except ProjectError as error:
        return File(path, "unreadable", str(error).partition(": ")[2].split(";")[0], holds_work=True)
    except OSError as error:
        return File(path, "unreadable", error.strerror or str(error), holds_work=True)
    if is_untouched(nb):
        return File(path, "untouched", notebook=nb)
    return File(path, "edited", notebook=nb, holds_work=True)


def look(module: Module) -> Desk:
    """Say where a module's notebook stands, and the way on where something is odd."""
    notebook = look_at(module, module.notebook)
    twin = look_at(module, module.twin, notebook.notebook)
    where, call = relative(module, module.notebook), f"`tito module {{}} {module.name}{{}}`"
    state = notebook.state
    problem: str | None = None
    source: str | None = "notebook"
    if notebook.state == "unreadable":
        source = None
        problem = f"{where} cannot be used ({notebook.why}); {_ways_back(module, notebook, twin)}."
    elif twin.state == "edited":
        state, source = "edited", counts(notebook.notebook, twin.notebook)
        if source is None:
            problem = (f"{where} and {module.twin.name} were both edited and differ; "
                       f"{call.format('sync', ' --from notebook')} (or --from twin) writes one from the other, and "
                       "keeps what that replaces as a backup.")
        elif source == "twin":
            which = "does not exist" if notebook.state == "missing" else "does not have it"
            problem = (f"Your work is in {module.twin.name}, and {where} {which}; "
                       f"{call.format('sync', ' --from twin')} brings it there.")
    elif notebook.state == "missing":
        source = None
        kept = newest_backup(module, module.notebook)
        problem = f"{where} does not exist; {call.format('start', '')} writes it as released" + (
            f", or {call.format('reset', f' --to {kept.name}')} brings back the newest backup." if kept else ".")
    elif twin.state == "unreadable":
        problem = (f"{relative(module, module.twin)} cannot be used ({twin.why}); "
                   f"{call.format('sync', ' --from notebook')} writes it from the notebook.")
    return Desk(module, notebook, twin, state, source, problem)


def _ways_back(module: Module, notebook: File, twin: File) -> str:
    """Say how to get a notebook that can be used in place of one that cannot."""
    call = f"`tito module {{}} {module.name}{{}}`"
    ways = []
    if twin.state == "edited":
        ways.append(f"{call.format('sync', ' --from twin')} writes it from your {module.twin.name}, which "
                    f"`tito test {module.name} --source twin` grades")
    kept = newest_backup(module, module.notebook)
    if kept:
        ways.append(f"{call.format('reset', f' --to {kept.name}')} brings back the newest backup")
    ways.append(f"{call.format('reset', '')} {'keeps it as a backup and ' if notebook.holds_work else ''}writes the "
                "released one")
    return ", or ".join(ways)


def relative(module: Module, path: Path) -> str:
    """Return a path as people say it: from the checkout's root."""
    return path.relative_to(module.root).as_posix()


def package_state(module: Module, work: dict[str, Any] | None) -> str:
    """Say what the package's file holds; ``work`` is the learner's notebook, to tell an export that is out of date."""
    from tito.notebooks.export import is_complete, is_edited, is_generated, is_reference, says_the_same

    try:
        if not os.path.lexists(module.package):
            return "missing"
        text = module.package.read_text(encoding="utf-8")
    except TitoError:
        return "missing"
    except (OSError, UnicodeDecodeError):
        return "unreadable"
    if not is_generated(text) or is_edited(text):
        return "edited by hand"
    if is_reference(text):
        return "reference"
    changed = work is not None and not says_the_same(work, text)
    if is_complete(text):
        return "complete, notebook changed since" if changed else "yours (complete)"
    return "yours, edited since" if changed else "yours (exported, not tested)"


def stubs(nb: dict[str, Any] | None) -> list[str]:
    """Return what a notebook says is not written yet ("double: section 1, cell 2"), in its order."""
    return [place for cell in (nb or {"cells": []})["cells"] if cell["cell_type"] == "code"
            for place in STUB.findall(cell["source"])]


def status(module: Module) -> dict[str, Any]:
    """Return where a module stands, read from the disk and nothing else."""
    desk = look(module)
    problem = desk.problem
    try:
        title, points, parts = module.title, _points(module), _parts(module)
    except TitoError as error:  # one bad source hides no other module
        title, points, parts, problem = module.name.capitalize(), 0, 0, problem or str(error)
    package = package_state(module, desk.work)
    problem = problem or _damage(module, package, points)
    unwritten = len(stubs(desk.work))
    return {"number": module.number, "name": module.name, "folder": module.folder, "title": title,
            "bonus": module.bonus, "points": points, "state": desk.state, "counts": desk.counts, "package": package,
            "complete": "complete" in package, "written": max(0, parts - unwritten) if desk.work else None,
            "parts": parts, "progress": _progress(desk, package, unwritten, parts), "problem": problem}


def _damage(module: Module, package: str, points: int) -> str | None:
    """Say the way on where the source or the package's file is not what it should be."""
    from tito.notebooks.book import POINTS

    if module.source.is_file() and not module.bonus and points != POINTS:
        return (f"{relative(module, module.source)} gives {points} points, not {POINTS}: where nobody is writing it, "
                "it is damaged; get it again from where the checkout came from.")
    if package in ("missing", "unreadable", "edited by hand"):
        return (f"The package's file of {module.label} is {package}; `tito module reset {module.name} --package` puts "
                f"the reference there{'' if package == 'missing' else ', and keeps what it replaces as a backup'}.")
    return None


def _progress(desk: Desk, package: str, unwritten: int, parts: int) -> str:
    """Say in a few words how far a learner is."""
    if package == "yours (complete)":
        return "complete"
    if package == "complete, notebook changed since":
        return package
    if desk.state != "edited":
        return {"untouched": "not begun"}.get(desk.state, desk.state)
    if desk.counts is None:
        return "two versions"
    if unwritten:
        return f"{max(0, parts - unwritten)} of {parts} written"
    return {"yours, edited since": "exported, edited since",
            "yours (exported, not tested)": "exported, not tested"}.get(package, "all written, not tested")


def _points(module: Module) -> int:
    """Add up the points its source gives (the notebook's, where there is no source)."""
    from tito.notebooks.read import grader, load

    if not module.source.is_file():
        try:
            return sum(int(grader(cell).get("points", 0)) for cell in load(module.notebook)["cells"])
        except (TitoError, AttributeError, TypeError, ValueError):
            return 0
    points = 0
    for line in read_text(module.source, relative(module, module.source)).splitlines():
        if line.startswith("# %%") and "nbgrader=" in line:
            try:
                data = json.JSONDecoder().raw_decode(line.split("nbgrader=", 1)[1])[0]
                points += int(data.get("points", 0)) if data.get("grade") else 0
            except ValueError:
                continue  # `tito build` says what is wrong with this line
    return points


def _parts(module: Module) -> int:
    """Count what there is to write: the source's solutions (the notebook's solution cells, where there is none)."""
    from tito.notebooks.read import grader, load

    if module.source.is_file():
        return len(_BEGIN.findall(read_text(module.source, relative(module, module.source))))
    try:
        return sum(bool(grader(cell).get("solution")) for cell in load(module.notebook)["cells"])
    except TitoError:
        return 0


# ---------------------------------------------------------------- what counts


def read_notebook(path: Path) -> dict[str, Any] | None:
    """Read a learner's notebook, ``None`` where there is no file; what is no notebook is a ``NotebookError``."""
    from tito.notebooks.read import load

    return load(path) if path.exists() else None


def read_other(module: Module, nb: dict[str, Any] | None) -> dict[str, Any] | None:
    """Read the twin, ``None`` where there is none or an empty one; where it says what the notebook says, that."""
    from tito.notebooks.twin import read_twin, write_twin

    if not module.twin.is_file():
        return None
    text = read_text(module.twin, module.twin.relative_to(module.root).as_posix())
    if not text.strip():
        return None
    if nb is not None:
        try:
            if text == write_twin(nb):
                return nb
        except NotebookError:
            pass  # a notebook that has no twin differs from this one
    return read_twin(text, module.name)


def counts(nb: dict[str, Any] | None, twin: dict[str, Any] | None) -> str | None:
    """Say which of the two holds the work, ``None`` where both were edited since they were last in step."""
    from tito.notebooks.release import content_hash, is_untouched

    if nb is None or twin is None:  # a twin as released holds no work that a lost notebook had
        return "twin" if nb is None and twin is not None and not is_untouched(twin) else "notebook"
    if is_untouched(nb) or is_untouched(twin):
        return "notebook" if is_untouched(twin) else "twin"
    mine, other, known = content_hash(nb), content_hash(twin), {in_step(nb), in_step(twin)}
    if mine == other or (other in known and mine not in known):
        return "notebook"
    return "twin" if mine in known and other not in known else None


def in_step(nb: dict[str, Any]) -> str:
    """Return the content hash that notebook and twin had when one was last written from the other, "" if never."""
    ours = nb["metadata"].get("tinytorch")
    return str(ours.get("in_step", "")) if isinstance(ours, dict) else ""


# ---------------------------------------------------------------- backups


def backups(module: Module, path: Path) -> list[Path]:
    """Return the backups of a file, the newest last."""
    found = []
    folder = module.notebook.parent / BACKUPS
    for file in folder.iterdir() if folder.is_dir() else ():
        named = KEPT.fullmatch(file.name)
        if named and named[1] + named[3] == path.name:
            found.append((int(named[2]), file))
    return [file for _, file in sorted(found)]


def newest_backup(module: Module, path: Path) -> Path | None:
    """Return the newest backup of a file, ``None`` where there is none."""
    found = backups(module, path)
    return found[-1] if found else None
