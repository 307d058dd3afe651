"""One submission of a class: a job and its result are plain data, wherever it is graded."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import time
from pathlib import Path
from typing import Any

import tito
from tito.errors import NotebookError, TitoError
from tito.grading import runner
from tito.grading.submission import Submission
from tito.notebooks.read import NEXT, loads
from tito.notebooks.release import content_hash, is_untouched
from tito.notebooks.twin import read_twin
from tito.project import Module, find_module, find_root

Job = dict[str, Any]
Result = dict[str, Any]

GRADED, REFUSED = "graded", "could not be graded"
_LONGEST = 300  # letters of a message


def release_hash(module: Module) -> str:
    """Return a hash of all that decides a grade: the module's release and tests, the package, `tito`."""
    ours = Path(tito.__file__).parent
    files = [*ours.rglob("*.py"), *module.root.joinpath("tinytorch").rglob("*.py"), *module.tests.rglob("*.py"),
             module.source if module.source.is_file() else module.notebook, module.root / "pyproject.toml"]
    digest = hashlib.sha256()
    named = {file.relative_to(ours.parent if file.is_relative_to(ours) else module.root).as_posix(): file
             for file in files if file.is_file()}
    for name, file in sorted(named.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:16]


# ---- one job ----

def grade_one(job: Job) -> Result:
    """Grade one submission; whatever happens, the result says it.

    Args:
        job: "module", the texts "notebook" and "twin" (or None), the "release" it is to be graded by, "timeout",
            "tests", "processes" (see ``runner``), "deny" (folders and files the learner's code must not read), "root"
            (None: where `tito` is installed).
    """
    begun = time.monotonic()
    try:
        root = find_root(Path(tito.__file__)) if job["root"] is None else Path(job["root"])
        module = find_module(root, job["module"])
        if release_hash(module) != job["release"]:
            return {"key": job["key"], "status": "stop", "message":
                    "the checkout was changed while it graded; run this again." if job["root"] else
                    f"the worker on {platform.node()} has another state of the course in {root}; bring all workers to "
                    "the state of this checkout."}
        result = _kept(_verdict(module, job))
    except TitoError as error:
        said = error.sentence if isinstance(error, NotebookError) else str(error)
        result = refused(job, said.removesuffix(f"; {NEXT}"))
    except Exception as error:
        result = refused(job, f"this should not happen: {type(error).__name__}: {error}")
    return {"key": job["key"], **result, "seconds": round(time.monotonic() - begun, 1)}


def refused(job: Job, message: str) -> Result:
    """Return the result of a job that could not be done."""
    return {"key": job["key"], "status": REFUSED, "message": line(message)}


def _verdict(module: Module, job: Job) -> dict[str, Any]:
    submission = _submission(module, job["notebook"], job["twin"])
    submission.deny = [Path(place) for place in job["deny"]]
    if submission.untouched or not job["tests"]:
        return runner.grade_cells(submission, job["timeout"] or runner.CELLS_SECONDS)
    return runner.grade_submission(submission, job["timeout"], processes=job["processes"])


def _submission(module: Module, text: str | None, script: str | None) -> Submission:
    """Return what was handed in: the notebook; the script where there is no notebook or nobody wrote in it."""
    nb = None if text is None else loads(text)
    twin = None
    if script is not None:
        with contextlib.nullcontext() if nb is None else contextlib.suppress(TitoError):
            twin = read_twin(script, module.name)
    if nb is None:
        assert twin is not None
        return Submission(module, "twin", twin, is_untouched(twin))
    edited = twin is not None and not is_untouched(twin)
    if edited and is_untouched(nb):
        return Submission(module, "twin", twin, False,  # type: ignore[arg-type]
                          ["the notebook is as released, so the .py file beside it was graded"])
    differ = edited and content_hash(twin) != content_hash(nb)  # type: ignore[arg-type]
    return Submission(module, "notebook", nb, is_untouched(nb),
                      ["the .py file beside the notebook says something else; the notebook counts"] if differ else [])


def _kept(verdict: dict[str, Any]) -> Result:
    """Cut a verdict to what a class's instructor needs."""
    tests, message, notes = verdict.get("tests"), first_look(verdict), verdict["notes"]
    if tests and not tests["total"] and _untested(verdict) not in ("", message):  # or "0 of 0" has no reason
        notes = [*notes, line(_untested(verdict))]
    cells = [{name: cell.get(name) for name in ("grade_id", "skill", "points", "max_points", "state", "likely")}
             for cell in verdict["cells"]]
    return {"status": GRADED, "points": verdict["score"], "most": verdict["max_score"], "skills": verdict["skills"],
            "tests_passed": tests and tests["passed"], "tests_total": tests and tests["total"],
            "complete": False if verdict["untouched"] else tests and verdict["exit_status"] == 0,
            "message": line(message), "notes": notes, "cells": cells}


def first_look(verdict: dict[str, Any]) -> str:
    """Say what to look at first, "" where nothing is wrong."""
    if verdict["untouched"]:
        return "nothing is written in it"
    failed = [cell for cell in verdict["cells"] if cell["state"] in ("failed", "error", "timeout", "ended")]
    said = _worst(failed + verdict["errors"]) if failed else ""
    # a learner's own experiment that raises costs nothing, where no graded cell failed
    return said or _unwritten(verdict["cells"]) or _untested(verdict) or _worst(verdict["errors"])


def _worst(problems: list[dict[str, Any]]) -> str:
    """Say which of these problems comes before the others, "" where there are none."""
    if not problems:
        return ""
    problem = min(problems, key=lambda problem: (
        problem["type"] not in ("SyntaxError", "IndentationError", "TabError"),
        problem["follows"]))  # what follows from another problem comes last
    said = problem["message"] or ""
    if problem.get("check"):
        said = f"{problem['check']}: expected {problem['expected']}, got {problem['got']}"
    elif problem["type"] == "NotImplementedError" and not said.strip():  # nbgrader's way to say it
        said = "not written yet"
    elif problem["state"] == "error":
        said = f"{problem['type']}: {said}"
    likely = f" ({problem['likely']})" if problem.get("likely") else ""
    return f"{problem.get('look_at') or problem['where']}: {said}{likely}"


def _unwritten(cells: list[dict[str, Any]]) -> str:
    unwritten = list(dict.fromkeys(cell["message"] for cell in cells if cell["state"] == "unwritten"))
    more = f", and {len(unwritten) - 1} more" if len(unwritten) > 1 else ""
    return f"not written yet: {unwritten[0]}{more}" if unwritten else ""


def _untested(verdict: dict[str, Any]) -> str:
    tests = verdict.get("tests") or {}
    if tests.get("failures"):
        return f"tests: {tests['failures'][0]['name']}: {tests['failures'][0]['message']}"
    return f"tests: {tests['problem']}" if tests.get("problem") else ""


def line(text: str) -> str:
    """Return text as one line of reasonable length, without control characters."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"
