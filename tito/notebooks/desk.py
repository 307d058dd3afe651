"""The learner's desk: the notebook or its twin, whichever she works in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tito.errors import NotebookError
from tito.notebooks.read import Notebook, load
from tito.notebooks.release import content_hash, is_untouched
from tito.notebooks.twin import read_twin, write_twin
from tito.project import Module


@dataclass(frozen=True)
class Work:
    """What lies on the desk: the notebook, the file it was read from, and whether anybody wrote in it."""

    notebook: Notebook
    path: Path
    untouched: bool


def learner_work(module: Module) -> Work:
    """Return the notebook a learner works in: the ``.ipynb``, or its twin where only that was edited."""
    where = module.notebook.parent.relative_to(module.root).as_posix()
    work = _notebook(module)
    twin = _twin(module, work)
    if work and twin and not work.untouched and not twin.untouched and (
            content_hash(work.notebook) != content_hash(twin.notebook)):
        raise NotebookError(f"both {module.notebook.name} and {module.twin.name} were edited, and they differ; keep the "
                            "one you mean and move the other away", where)
    for found in (work, twin):
        if found and not found.untouched:
            return found
    found = work or twin
    if not found:
        raise NotebookError(f"there is neither {module.notebook.name} nor {module.twin.name} here", where)
    return found


def _notebook(module: Module) -> Work | None:
    if not module.notebook.is_file():
        return None
    nb = load(module.notebook)
    return Work(nb, module.notebook, is_untouched(nb))


def _twin(module: Module, work: Work | None) -> Work | None:
    """Read the twin, unless it says exactly what the untouched notebook says."""
    if not module.twin.is_file():
        return None
    try:
        text = module.twin.read_text(encoding="utf-8")
        if work and work.untouched and text == write_twin(work.notebook):
            return None
        nb = read_twin(text, module.name)
    except UnicodeDecodeError:
        raise NotebookError("this file is not UTF-8 text", module.twin.relative_to(module.root).as_posix()) from None
    return Work(nb, module.twin, is_untouched(nb))
