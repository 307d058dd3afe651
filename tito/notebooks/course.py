"""The course as stock nbgrader wants it: `source/` with solutions between their markers, and how to use it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from tito.errors import TitoError
from tito.notebooks.book import open_book
from tito.notebooks.build import BuildError, sources
from tito.notebooks.checks import find_faults
from tito.notebooks.export import sweep, write_atomically
from tito.notebooks.read import dumps
from tito.notebooks.release import marked_notebook
from tito.project import find_module, read_text, target_owners

MANIFEST = ".tinytorch-release.json"  # what we wrote here, so that nothing else is overwritten

CONFIG = '''"""How nbgrader grades TinyTorch; it reads this file when it is run in this folder."""

c = get_config()  # noqa: F821 (nbgrader provides it)

c.CourseDirectory.course_id = "tinytorch"
c.Execute.kernel_name = "python3"  # of the environment nbgrader runs in, whatever a student's notebook names
c.Execute.timeout = 120  # seconds per cell
'''

README = """# TinyTorch, for nbgrader

Each folder of `source/` is an assignment of 100 points: {assignments}.
The notebooks hold the solutions; what students get has none.

nbgrader and its kernel must be able to import `tinytorch` and `tito`: install TinyTorch where nbgrader is
(`pip install -e '.[notebook,grade]'` in its checkout), and run nbgrader in this folder, from that environment.

    nbgrader generate_assignment {first}
    nbgrader autograde {first}
    nbgrader export

The first writes `release/{first}/`, which students get; the second grades `submitted/<student>/{first}/`; the
third writes the points of all to grades.csv. Students may as well work in TinyTorch's own `modules/`, where a missing
part says its name.

In place of `nbgrader autograde`, run in TinyTorch's checkout

    tito grade path/to/this/folder

For honest work it gives the same points, and runs the edge tests. It says in its table where it had to mend a notebook,
and where nbgrader comes to something else:

- a graded cell was deleted: nbgrader gives nothing for it, `tito grade` puts it back;
- a cell was copied, so that two have one grade_id: `nbgrader autograde` stops, and with it the students who come after;
  `tito grade` counts the last one;
- the cells have lost their metadata: nbgrader finds nothing to grade, `tito grade` knows graded ones by their text;
- a cell calls `exit()`: nbgrader does not grade the notebook, `tito grade` goes on with the next cell;
- a cell does not end: nbgrader interrupts it after 120 s and goes on, `tito grade` stops there.

nbgrader runs what students wrote as you, without limits: grade the work of people you do not trust with `tito grade`.
"""


def release_course(folder: Path, root: Path, names: Sequence[str] = ()) -> dict[str, list[str]]:
    """Write the named modules, or all, into ``folder`` as a course of nbgrader's; return what was done.

    What is there and was not written by this function, or was edited since, stays as it is. Nothing is written unless
    everything can be; killed on the way, the same call completes it.
    """
    texts = _texts(root, names)
    ours = _ours(folder)
    result: dict[str, list[str]] = {"written": [], "unchanged": [], "kept": []}
    for name, text in texts.items():
        file = folder / name
        old = file.read_bytes() if file.is_file() else None
        state = ("written" if not file.exists() else "kept" if old is None else "unchanged" if old == text.encode() else
                 "written" if _hash(old) in ours.get(name, []) else "kept")
        result[state].append(name)
    written = {name: _hash(texts[name].encode()) for name in result["written"]}
    # both hashes, until every file is there: a kill leaves no file of ours that is not known as ours
    _remember(folder, {**ours, **{name: [*ours.get(name, []), hash_] for name, hash_ in written.items()}})
    for name in result["written"]:
        sweep(folder / name)
        write_atomically(folder / name, texts[name])
    _remember(folder, {**ours, **{name: [hash_] for name, hash_ in written.items()}})
    return result


def _texts(root: Path, names: Sequence[str]) -> dict[str, str]:
    """Make every file in memory; a source with a fault is a ``BuildError``."""
    known = sources(root)
    folders = {find_module(root, name).folder for name in names} or {module.folder for module in known}
    chosen = [module for module in known if module.folder in folders]
    assignments = list(dict.fromkeys(module.folder for module in chosen))
    texts = {"nbgrader_config.py": CONFIG,
             "README.md": README.format(assignments=", ".join(assignments), first=assignments[0])}
    faults, owners = [], target_owners(root)
    for module in chosen:
        nb = marked_notebook(module)
        faults += find_faults(open_book(nb, module, owners=owners))
        nb["metadata"]["tinytorch"] = {"module": module.label}  # survives nbgrader, and tells `tito grade` the module
        texts[f"source/{module.folder}/{module.notebook.name}"] = dumps(nb)
    if faults:
        raise BuildError(faults)
    return texts


def _ours(folder: Path) -> dict[str, list[str]]:
    """Return the hashes of what we wrote into ``folder``; refuse one that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise TitoError(f"{folder} is a file; want a folder for the course.")
    manifest = folder / MANIFEST
    if manifest.is_file():
        try:
            return {str(name): [str(hash_) for hash_ in hashes]
                    for name, hashes in json.loads(read_text(manifest))["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TitoError(f"{manifest} cannot be read, so what is in that folder is left alone; name another "
                            "folder.") from None
    other = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    if other:
        raise TitoError(f"{folder} holds something else ({', '.join(other[:3])}{', ...' if other[3:] else ''}); name a "
                        "new folder, or one that `tito release` made.")
    return {}


def _remember(folder: Path, files: dict[str, list[str]]) -> None:
    write_atomically(folder / MANIFEST, json.dumps({"files": files}, indent=1, sort_keys=True) + "\n")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
