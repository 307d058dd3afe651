"""What a class handed in: the notebooks (or scripts) in a folder, each with its student and its module."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tito.errors import TitoError
from tito.project import Module, modules

LARGEST = 50 << 20  # bytes of a file: a notebook with all its pictures has a few millions
_SKIPPED = re.compile(r"[.~].*|__MACOSX|__pycache__|Thumbs\.db|desktop\.ini", re.IGNORECASE)
_COPY = r"(?: ?\(\d+\)|-Copy\d+)?"  # what browsers and Jupyter append
_TWIN = re.compile(r"^#   tinytorch: (\{.*\})\s*$", re.MULTILINE)


@dataclass
class Entry:
    """One file that was handed in; ``problem`` says why it cannot be graded."""

    student: str
    file: str
    path: Path
    module: str = ""
    problem: str = ""
    twin: Path | None = None
    notes: list[str] = field(default_factory=list)

    def read(self) -> tuple[str | None, str | None]:
        """Return the texts of the notebook and of the script beside it; ``None`` for the one that is not there."""
        if self.path.suffix.lower() == ".py":
            return None, read(self.path)
        return read(self.path), None if self.twin is None else read(self.twin)


def find(folder: Path, root: Path, only: Module | None = None, skip: Path | None = None) -> tuple[
        list[Entry], list[str]]:
    """Return what lies in ``folder``, in the order of course and student, and the folders that hold nothing.

    The student is the folder below ``folder`` (or below its ``submitted/``), or the file's name where there is none.
    The module is told by the file's name and by the notebook itself; where neither tells, it is ``only``.

    Args:
        folder: the class's folder.
        root: the checkout that grades.
        only: take this module's files and leave out those of others.
        skip: a folder to stay out of.
    """
    base = folder / "submitted" if (folder / "submitted").is_dir() else folder
    known = {module.label: module for module in modules(root)}
    found = [_entry(path, base, known, only) for path in _files(base, skip)]
    by_place = {entry.path: entry for entry in found}
    for entry in list(found):
        beside = by_place.get(entry.path.with_suffix(".ipynb"))
        if entry.path.suffix.lower() == ".py" and beside is not None:
            beside.twin = entry.path
            found.remove(entry)
    found = [entry for entry in found if only is None or entry.module in ("", only.label)]
    handed_in = Counter((entry.student, entry.module) for entry in found if entry.module)
    for entry in found:
        times = handed_in[entry.student, entry.module]
        if times > 1:
            entry.notes.append(f"one of {times} files of {entry.student or 'a student who is not named'} for "
                               f"{entry.module}")
    order = list(known)
    found.sort(key=lambda entry: (order.index(entry.module) if entry.module in known else -1, entry.student,
                                  entry.file))
    heard_of = {path.relative_to(base).parts[0] for path in by_place}
    silent = [shown(path.name) for path in sorted(base.iterdir()) if path.is_dir() and path != skip
              and not _SKIPPED.fullmatch(path.name) and path.name not in heard_of]
    return found, silent


def read(path: Path) -> str:
    """Return the text of a file that was handed in; what is no reasonable text file is a ``TitoError``."""
    try:
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            raise TitoError("this is a link, and links are not followed; put the file itself in its place")
        if not stat.S_ISREG(about.st_mode):
            raise TitoError("this is not a file that can be read")
        if about.st_size > LARGEST:
            raise TitoError(f"this file has {about.st_size >> 20} MB, and no more than {LARGEST >> 20} are read")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TitoError(f"this file is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise TitoError(f"this file cannot be read ({error.strerror or error})") from None


def shown(name: str) -> str:
    """Return a file's name as text; what is no letter in it is shown as such."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _files(base: Path, skip: Path | None) -> Iterator[Path]:
    """Yield notebooks, scripts that are notebooks, and links to folders, which nobody follows."""
    for place, folders, names in os.walk(base):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not _SKIPPED.fullmatch(name) and here / name != skip)
        yield from (here / name for name in folders if (here / name).is_symlink())
        for name in sorted(names):
            if not _SKIPPED.fullmatch(name):
                suffix = Path(name).suffix.lower()
                if suffix == ".ipynb" or (suffix == ".py" and _is_twin(here / name)):
                    yield here / name


def _is_twin(path: Path) -> bool:
    """Say whether a script is a notebook's twin: its name or its head says so."""
    if re.fullmatch(rf".+_dev{_COPY}\.py", path.name):
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return bool(_TWIN.search(file.read(4000)))


def _entry(path: Path, base: Path, known: dict[str, Module], only: Module | None) -> Entry:
    """Find out whose a file is and for which module."""
    parts = path.relative_to(base).parts
    by_name, before = _named(path.stem, known)
    entry = Entry(shown(parts[0] if len(parts) > 1 or path.is_dir() else before), shown("/".join(parts)), path, by_name)
    try:
        by_itself = _labelled(read(path), path.suffix.lower())
    except TitoError as error:
        entry.problem = str(error)
        return entry
    if by_name and by_itself and by_name != by_itself:
        entry.problem = f"its name says {by_name}, and inside it is a notebook of {by_itself}"
    elif by_itself and by_itself not in known:
        entry.problem = f"it is a notebook of {by_itself}, which this checkout does not have"
    else:
        entry.module = by_name or by_itself or (only.label if only is not None else "")
        if not entry.module:
            entry.problem = "neither its name nor the notebook says which module it is; --module NAME says it"
    return entry


def _named(stem: str, known: dict[str, Module]) -> tuple[str, str]:
    """Return the module that a file's name ends in, or "", and what comes before it: the student, in a flat folder."""
    for label, module in sorted(known.items(), key=lambda item: -len(item[1].name)):
        match = re.fullmatch(rf"(?:(.*?)[ _.-])?(?:{module.number:02d}_)?{module.name}_dev{_COPY}", stem, re.DOTALL)
        if match:
            return label, match[1] or ""
    return "", stem


def _labelled(text: str, suffix: str) -> str:
    """Return the module that a notebook's metadata name, "" where they name none."""
    try:
        if suffix == ".ipynb":
            ours = json.loads(text)["metadata"]["tinytorch"]
        else:
            head = _TWIN.search(text[:4000])
            ours = json.loads(head[1]) if head else {}
        return str(ours.get("module", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
