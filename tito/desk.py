"""The learner's desk: begin, go on, hand in, go back. Plain data comes out, and nothing that holds work is ever lost.

Everything is read from the disk: notebook, twin, backups, and the header of the package's file.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tito.errors import NOT_PYTHON, TitoError
from tito.project import PACKAGE, Module, modules, read_text, target_owners
from tito.standing import BACKUPS, KEPT, Desk, backups, look, look_at, package_state, relative, stubs

# ---------------------------------------------------------------- backups


def keep(module: Module, path: Path) -> Path:
    """Keep what lies at ``path`` as a new numbered backup, byte for byte, and return its name.

    A file stays where it is and is copied; what cannot be read (or is a folder) is moved. A backup that already holds
    the same bytes, as after a kill, is not made twice.
    """
    from tito.notebooks.export import sweep, write_atomically

    while True:
        earlier = backups(module, path)
        for file in earlier:
            sweep(file)
        number = int(KEPT.fullmatch(earlier[-1].name)[2]) + 1 if earlier else 1  # type: ignore[index]
        place = module.notebook.parent / BACKUPS / f"{path.stem}-{number}{path.suffix}"
        try:
            data = path.read_bytes()
        except OSError:
            place.parent.mkdir(exist_ok=True)
            os.rename(path, place)
            return place
        same = next((file for file in reversed(earlier) if file.is_file() and file.read_bytes() == data), None)
        if same is not None:
            return same
        try:
            write_atomically(place, data, new=True)
        except FileExistsError:
            continue  # somebody else took this number


def replace(module: Module, path: Path, content: str | bytes) -> Path | None:
    """Write a file of the desk; what held work there is kept, and the backup returned."""
    from tito.notebooks.export import sweep, write_atomically

    sweep(path)
    data = content.encode() if isinstance(content, str) else content
    kept, before = None, _bytes(path)
    while before != data and (file := look_at(module, path)).state != "missing":
        kept = keep(module, path) if file.holds_work else None
        if path.is_dir() and not path.is_symlink():
            path.rmdir()  # it is empty: keep() has moved one that is not
        before, earlier = _bytes(path), before
        if before == earlier or before is None:  # nobody saved it meanwhile
            break
    if before != data:
        write_atomically(path, data)
    return kept


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


# ---------------------------------------------------------------- begin and go on


def _release(module: Module) -> dict[Path, str]:
    """Return the text of notebook and twin as released."""
    from tito.notebooks.read import dumps
    from tito.notebooks.release import release_notebook
    from tito.notebooks.twin import write_twin

    if not module.source.is_file():
        untouched = next((file.notebook for path in (module.notebook, module.twin)
                          if (file := look_at(module, path)).state == "untouched"), None)
        if untouched is None:
            raise TitoError(f"{relative(module, module.source)} is not in this checkout, and no untouched copy of the "
                            "notebook is left to write the release from; get the file again from where the checkout "
                            "came from.")
        return {module.notebook: dumps(untouched), module.twin: write_twin(untouched)}
    nb = release_notebook(module)
    return {module.notebook: dumps(nb), module.twin: write_twin(nb)}


def start(module: Module) -> dict[str, Any]:
    """Write notebook and twin as released, each only where nothing is; say what was there and how to go on."""
    from tito.notebooks.export import sweep, write_atomically

    for path in (module.notebook, module.twin):
        sweep(path)
    before = look(module)
    if before.state == "unreadable":
        raise TitoError(before.problem or "")
    written = []
    lacking = [file.path for file in (before.notebook, before.twin) if file.state == "missing"]
    if lacking:
        try:
            release = _release(module)
        except TitoError:
            if before.state == "missing":
                raise
            release = {}  # there is work to go on with
        for path in release:
            if path in lacking:
                try:
                    write_atomically(path, release[path], new=True)
                    written.append(relative(module, path))
                except FileExistsError:
                    continue  # it appeared meanwhile, so it is not ours to write
    return {**_open(module, look(module)), "found": before.state, "written": written}


def resume(module: Module) -> dict[str, Any]:
    """Say how to go on with what was begun; ``TitoError`` names the way on where there is nothing to open."""
    desk = look(module)
    if desk.state in ("missing", "unreadable"):
        raise TitoError(desk.problem or "")
    return {**_open(module, desk), "found": desk.state, "written": []}


def _open(module: Module, desk: Desk) -> dict[str, Any]:
    from tito.needs import package_fault

    path = module.twin if desk.counts == "twin" else module.notebook
    shown = os.path.relpath(path)
    return {"module": module.label, "title": module.title, "state": desk.state, "counts": desk.counts,
            "notebook": relative(module, module.notebook), "twin": relative(module, module.twin), "path": str(path),
            "open": f"jupyter lab {shlex.quote(shown) if os.name != 'nt' else chr(34) + shown + chr(34)}",
            "prerequisites": prerequisites(module), "needs": package_fault(module), "unwritten": stubs(desk.work),
            "complete": package_state(module, desk.work) == "yours (complete)", "next": _next(module, desk),
            "problem": desk.problem}


def _next(module: Module, desk: Desk) -> str:
    if package_state(module, desk.work) == "yours (complete)":
        later = next((other for other in modules(module.root) if other.order > module.order), None)
        return f"tito module start {later.name}" if later else "tito module list"
    if desk.state == "edited" and desk.counts is None:
        return f"tito module sync {module.name} --from notebook"
    done = "module complete" if desk.state == "edited" and not stubs(desk.work) else "test"
    return f"tito {done} {module.name}"


def prerequisites(module: Module) -> list[dict[str, str]]:
    """Return the earlier modules that this one imports, and what the package holds of each."""
    from tito.notebooks.checks import imported_names, reach

    owners = target_owners(module.root)
    if module.source.is_file():
        texts = [read_text(module.source, relative(module, module.source))]
    else:
        work = look(module).work or {"cells": []}
        texts = [cell["source"] for cell in work["cells"] if cell["cell_type"] == "code"]
    needed: set[Module] = set()
    for text in texts:
        with contextlib.suppress(*NOT_PYTHON):
            for _, name in imported_names(ast.parse(text)):
                if name.split(".")[0] == PACKAGE:
                    needed |= {owner for owner in reach(module.root, name, owners) if owner.order < module.order}
    return [{"module": owner.label, "package": package_state(owner, look(owner).work)}
            for owner in sorted(needed, key=lambda owner: owner.order)]


# ---------------------------------------------------------------- hand in


def export(module: Module, source: str | None = None) -> dict[str, Any]:
    """Export a module's notebook (or its twin) into the package, unless nobody has written in it."""
    from tito.grading.submission import read
    from tito.notebooks.export import export_notebook, refuse_to_lose

    submission = read(module, source)
    file = relative(module, module.package)
    left = stubs(submission.notebook)
    result = {"module": module.label, "source": submission.tested, "file": file, "exported": not submission.untouched,
              "unwritten": left}
    if submission.untouched:
        result["message"] = f"Nothing is written in the notebook of {module.label} yet, so {file} stays as it is."
        return result
    refuse_to_lose(module)
    export_notebook(submission.notebook, module, module.package, file=submission.file)
    said = f"{file} now holds what your {submission.tested} exports"
    if left:
        said += (f", {len(left)} {'part' if len(left) == 1 else 'parts'} of it not written yet (first {left[0]}); "
                 "calling those raises their NotImplementedError")
    result["message"] = f"{said}. `tito module reset {module.name} --package` puts the reference back."
    return result


def complete(module: Module, source: str | None = None, timeout: float | None = None,
             say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Grade a module's notebook; where all of it has run and passed, export exactly what was graded, marked complete.

    The result is the verdict with ``exported`` and ``message`` added; its ``exit_status`` is 0 only for an export.
    """
    from tito.grading import runner
    from tito.grading.submission import read
    from tito.notebooks.export import export_notebook, refuse_to_lose

    refuse_to_lose(module)
    submission = read(module, source)  # once: what an editor saves from now on is neither graded nor exported
    result = runner.grade_submission(submission, timeout, say)
    file, tests = relative(module, module.package), result["tests"]
    result |= {"exported": False, "file": file}
    why = None
    if submission.untouched:
        why = "nothing is written in its notebook yet"
    elif not all(cell["state"] == "passed" for cell in result["cells"]) or not result["cells"]:
        why = "not every graded cell passes yet"
    elif not tests["passed"] and not tests["failed"]:
        why = f"{relative(module, module.tests)} has to run and pass, and no test of it ran"
    elif result["exit_status"] or tests["failed"]:
        why = "not every test passes yet"
    if why:
        result["exit_status"] = result["exit_status"] or 1
        result["message"] = f"{module.label} is not complete: {why}; {file} stays as it is."
        return result
    say(f"{module.label}: exporting")
    refuse_to_lose(module)
    export_notebook(submission.notebook, module, module.package, file=submission.file, complete=True)
    result["exported"] = True
    result["message"] = f"{module.label} is complete: {file} is yours now, and later modules import it."
    result["next"] = _next(module, look(module))
    return result


# ---------------------------------------------------------------- notebook and twin in step


def sync(module: Module, source: str | None = None) -> dict[str, Any]:
    """Write the twin from the notebook ("notebook") or the notebook from the twin ("twin"); what held work is kept.

    Without ``source`` the one that was edited since they were in step is taken.
    """
    from tito.notebooks.read import dumps
    from tito.notebooks.release import content_hash, is_untouched, release_notebook
    from tito.notebooks.twin import exact_twin, read_into

    here = look(module)
    source = source or here.counts
    if source is None:
        raise TitoError(here.problem or "")
    origin, target = (here.notebook, here.twin) if source == "notebook" else (here.twin, here.notebook)
    if origin.notebook is None:
        why = "does not exist" if origin.state == "missing" else f"cannot be used ({origin.why})"
        raise TitoError(f"{relative(module, origin.path)} {why}, so nothing can be written from it; `tito module "
                        f"status {module.name}` says what there is.")
    result: dict[str, Any] = {"module": module.label, "source": source, "written": [], "kept": []}
    if target.notebook is not None and content_hash(target.notebook) == content_hash(origin.notebook):
        return {**result, "message": f"{relative(module, target.path)} already says what {origin.path.name} says."}
    nb = copy.deepcopy(origin.notebook)
    if not is_untouched(nb):
        nb["metadata"]["tinytorch"] = {**_ours(nb), "in_step": content_hash(nb)}
    twin = exact_twin(nb, module.name, relative(module, origin.path))
    if source == "twin":
        old = target.notebook or release_notebook(module)
        text = dumps(read_into(twin, module.name, old))
    else:
        text = twin
    kept = replace(module, target.path, text)
    return {**result, "written": [relative(module, target.path)], **_kept(module, [kept] if kept else []),
            "message": f"{relative(module, target.path)} now says what {origin.path.name} says."}


def _ours(nb: dict[str, Any]) -> dict[str, Any]:
    ours = nb["metadata"].get("tinytorch")
    return ours if isinstance(ours, dict) else {}


# ---------------------------------------------------------------- go back


def reset(module: Module) -> dict[str, Any]:
    """Put notebook and twin back to the release; what held work is kept as a backup first."""
    release = _release(module)
    kept = [made for path in release if (made := replace(module, path, release[path]))]
    return {"module": module.label, "written": [relative(module, path) for path in release], **_kept(module, kept)}


def reset_to(module: Module, name: str) -> dict[str, Any]:
    """Put a backup back in its place; what held work there is kept as a backup first."""
    known = [file for path in (module.notebook, module.twin, module.package) for file in backups(module, path)]
    file = next((file for file in known if file.name == Path(name).name), None)
    if file is None:
        raise TitoError(f"There is no backup {name!r} of {module.label}: " + (
            f"the backups are {', '.join(one.name for one in known)}." if known else
            f"{relative(module, module.notebook.parent / BACKUPS)} holds none."))
    path = next(path for path in (module.notebook, module.twin, module.package) if file in backups(module, path))
    kept = replace(module, path, file.read_bytes())
    return {"module": module.label, "written": [relative(module, path)], **_kept(module, [kept] if kept else [])}


def reset_package(module: Module) -> dict[str, Any]:
    """Put the reference back into the package; what else stood there is kept as a backup, the notebook stays."""
    from tito.notebooks.export import export_text, is_reference, write_atomically
    from tito.notebooks.read import read_source

    if not module.source.is_file():
        raise TitoError(f"{relative(module, module.source)} is not in this checkout, and the reference is made from "
                        f"it; {relative(module, module.package)} stays as it is.")
    text = export_text(read_source(module), module)
    kept = []
    if os.path.lexists(module.package):
        try:
            ours = is_reference(module.package.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            ours = False
        kept = [] if ours else [keep(module, module.package)]
    write_atomically(module.package, text)
    return {"module": module.label, "written": [relative(module, module.package)], **_kept(module, kept)}


def _kept(module: Module, files: list[Path]) -> dict[str, Any]:
    return {"kept": [{"file": relative(module, file), "back": f"tito module reset {module.name} --to {file.name}"}
                     for file in files]}
