"""Grade one module: run the learner's cells, then the module's tests on what she exports; return plain data."""

from __future__ import annotations

import ast
import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tito.errors import NotebookError, TitoError
from tito.grading import limits, overlay
from tito.grading.child import MAGIC
from tito.grading.submission import Cell, Submission, mend, read
from tito.project import PACKAGE, Module

CELLS_SECONDS, TESTS_SECONDS = 120, 300
Say = Callable[[str], None]
_UNWRITTEN = re.compile(r"NotImplementedError: [\w.]+: section \d+, cell \d+")


def grade(module: Module, source: str | None = None, timeout: float | None = None,
          say: Say = lambda text: None) -> dict[str, Any]:
    """Return the verdict on a module's notebook (or its twin) as plain data; nothing in the checkout changes.

    An untouched notebook earns nothing and the package is tested instead. ``exit_status`` is 0 when every
    graded cell and the tests pass (for an untouched notebook: when the package's tests pass), 1 otherwise, 2 when the
    tests could not run.

    Args:
        module: the module to grade.
        source: "notebook" or "twin" where both were edited, None to find out.
        timeout: seconds for the cells and again for the tests; by default 120 and 300.
        say: told what is going on.
    """
    submission = read(module, source)
    result = grade_cells(submission, timeout or CELLS_SECONDS, say)
    if submission.untouched:
        say(f"{module.label}: testing the package")
        result["tests"] = run_tests(module, {}, timeout or TESTS_SECONDS)
        result["exit_status"] = result["tests"]["status"]
        return result
    if any(cell["state"] == "timeout" for cell in result["cells"]):
        result["tests"] = _summary(1, "not run, because a cell did not come to its end")
    else:
        say(f"{module.label}: testing what the {submission.tested} exports")
        result["tests"] = _test_export(submission, timeout or TESTS_SECONDS)
    passed = bool(result["cells"]) and all(cell["state"] == "passed" for cell in result["cells"])
    tests = result["tests"]["status"]
    result["exit_status"] = 0 if passed and tests == 0 else 2 if tests == 2 else 1
    return result


def grade_cells(submission: Submission, timeout: float = CELLS_SECONDS, say: Say = lambda text: None) -> dict[str, Any]:
    """Return what the graded cells earn; they are the release's, whatever the notebook made of them."""
    module, untouched = submission.module, submission.untouched
    cells, notes = mend(submission)
    graded: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    output = ""
    if not untouched:
        ended = run_cells(submission, cells, timeout, say)
        graded, errors, more_notes = _judge(cells, ended)
        notes, output = submission.notes + notes + more_notes, ended.output
    return {"module": module.label, "title": module.title, "bonus": module.bonus,
            "tested": "package" if untouched else submission.tested, "untouched": untouched,
            "score": sum(cell["points"] for cell in graded), "max_score": sum(cell.points for cell in cells),
            "skills": _skills(cells, {cell["grade_id"]: cell["points"] for cell in graded}),
            "cells": graded, "errors": errors, "notes": notes, "output": output}


def run_cells(submission: Submission, cells: list[Cell], timeout: float, say: Say = lambda text: None) -> limits.Ended:
    """Run the code cells in a child process."""
    refused = _self_imports(submission.module, cells)
    job = {"cells": [{"source": cell.source, "label": cell.label, "graded": cell.graded, "refused": why}
                     for cell, why in zip(cells, refused)],
           "path": [str(submission.module.notebook.parent)]}

    def hear(report: dict[str, Any]) -> None:
        if "begin" in report:
            say(f"{submission.module.label}: cell {report['begin'] + 1} of {len(cells)}")

    return limits.run(job, timeout=timeout, root=submission.module.root, hear=hear)


def _self_imports(module: Module, cells: list[Cell]) -> list[str]:
    """Say why a learner's cell is not run: it imports the module under grading, or a later one that may hand it on."""
    from tito.notebooks.checks import imported_names, reach
    from tito.notebooks.export import target_owners

    owners = target_owners(module.root)
    said = []
    for cell in cells:
        names = [] if cell.graded else [name for _, name in imported_names(_parsed(cell.source))
                                        if name.split(".")[0] == PACKAGE]
        reached = {owner: name for name in names for owner in reach(module.root, name, owners)}
        later = [name for owner, name in reached.items() if owner.order > module.order]
        said.append(f"this cell imports {module.target}, the module it is to write" if module in reached else
                    f"this cell imports {later[0]}, which comes after the module it is to write" if later else "")
    return said


def _parsed(source: str) -> ast.Module | None:
    """Parse a cell, without its notebook magics where they keep it from being Python."""
    for text in (source, "\n".join(MAGIC.sub(r"\1pass  # \2", line) for line in source.split("\n"))):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(text)
    return None


def run_tests(module: Module, files: dict[str, Path], timeout: float) -> dict[str, Any]:
    """Run pytest on the module's test folder, with ``files`` standing in for package modules."""
    where = module.tests.relative_to(module.root).as_posix()
    if not module.tests.is_dir():
        return _summary(2, f"there is no {where}")
    settings = module.root / "pyproject.toml"
    ended = limits.run(
        {"tests": [str(module.tests)], "root": str(module.root),
         "settings": str(settings) if settings.is_file() else ""},
        timeout=timeout, root=module.root, environment=overlay.variable(files) if files else None)
    result = _summary(2)
    collected: list[str] = []
    states: dict[str, tuple[str, str]] = {}
    status = None
    for report in ended.reports:
        if "collected" in report:
            collected = [str(name) for name in report["collected"]]
        elif "test" in report:
            name, came = str(report["test"]), (str(report["state"]), str(report["message"]))
            if states.get(name, ("passed",))[0] == "passed":
                states[name] = came
        elif "done" in report:
            status = report.get("status")
    lost = [name for name in collected if name not in states]
    for state, message in states.values():
        result[state if state in ("passed", "skipped") else "failed"] += 1
        result["unwritten"] += state == "failed" and bool(_UNWRITTEN.search(message))
    result["failed"] += len(lost)
    result["total"] = len(states) + len(lost)
    if lost:
        result["problem"] = (f"the tests' process ended early ({ended.how}): {len(lost)} of {len(collected)} tests "
                             "did not finish")
    result["failures"] = [{"name": name.removeprefix(where + "/"), "message": message}
                          for name, (state, message) in states.items()
                          if state not in ("passed", "skipped") and not _UNWRITTEN.search(message)]
    if result["failed"]:
        result["status"] = 1
    elif status == 0 and collected:
        result["status"] = 0
    else:
        if files and status not in (0, 5):
            result["status"] = 1  # the package's own tests run, so the learner's file is the reason
        result["problem"] = (f"{where} holds no tests" if status in (0, 5) else
                             f"the tests could not run ({ended.how}): {_last_line(ended.output)}")
    return result


def _summary(status: int, problem: str | None = None) -> dict[str, Any]:
    return {"passed": 0, "failed": 0, "unwritten": 0, "skipped": 0, "total": 0, "failures": [], "status": status,
            "problem": problem}


def _test_export(submission: Submission, timeout: float) -> dict[str, Any]:
    """Export into a folder of its own and test that; an export that is refused fails the tests, with its reason."""
    from tito.notebooks.export import export_notebook

    module = submission.module
    with tempfile.TemporaryDirectory(prefix="tito-export-") as folder:
        file = Path(folder) / module.package.name
        try:
            export_notebook(submission.notebook, module, file)
        except NotebookError as error:
            return _summary(1, f"not run, because the {submission.tested} cannot be exported: {error}")
        if not module.tests.is_dir():  # a module that has no edge tests (yet) is judged by its cells
            return _summary(0)
        return run_tests(module, {module.target: file}, timeout)


def _judge(cells: list[Cell], ended: limits.Ended) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Turn what the child reported into graded results, the learner's own errors, and notes."""
    came = {report["cell"]: report for report in ended.reports if "cell" in report}
    begun = max((report["begin"] for report in ended.reports if "begin" in report), default=-1)
    if not any("begin" in report for report in ended.reports):
        raise TitoError(f"the notebook's process did not start ({ended.how}): {_last_line(ended.output)}")
    graded, errors, notes = [], [], []
    for index, cell in enumerate(cells):
        report = came.get(index)
        if report is None:
            report = _without_report(index, begun, cells, ended)
        if report.get("note"):
            notes.append(f"{cell.label}: {report['note']}")
        place = cells[report["at"]] if isinstance(report.get("at"), int) and 0 <= report["at"] < len(cells) else cell
        said = {"state": report["state"], "type": report.get("type"), "message": report.get("message"),
                "where": place.label, "section": place.section, "line": report.get("line")}
        if cell.graded:
            passed = report["state"] == "passed"
            graded.append({"grade_id": cell.grade_id, "skill": cell.skill, "points": cell.points if passed else 0,
                           "max_points": cell.points, **said, "where": cell.label, "section": cell.section,
                           "raised_in": place.label if place is not cell else None,
                           "check": report.get("what"), "expected": report.get("want"), "got": report.get("got"),
                           "likely": report.get("mistake")})
        elif report["state"] not in ("passed", "unwritten", "not run"):
            errors.append(said)
    if not any(report.get("memory_limited", True) for report in ended.reports):
        notes.append("memory was not limited: this system has no limit for a process's address space")
    return graded, errors, notes


def _without_report(index: int, begun: int, cells: list[Cell], ended: limits.Ended) -> dict[str, Any]:
    culprit = cells[begun].label
    if ended.timed_out:
        if index == begun:
            return {"state": "timeout", "type": "timeout", "message": "this cell was still running after "
                    f"{ended.seconds:.0f} s (all cells together): a loop that does not end?"}
        return {"state": "not run", "type": "timeout", "message": f"not run: the time was over in {culprit}"}
    if index == begun:
        return {"state": "ended", "type": "ended", "message": f"the notebook ended the process here ({ended.how})"}
    return {"state": "not run", "type": "ended", "message": f"not run: the notebook ended the process in {culprit}"}


def _skills(cells: list[Cell], earned: dict[str, int]) -> list[dict[str, Any]]:
    """Add up points per skill, in the notebook's order."""
    skills: dict[str, dict[str, Any]] = {}
    for cell in cells:
        if cell.graded:
            row = skills.setdefault(cell.skill, {"skill": cell.skill, "points": 0, "max_points": 0})
            row["points"] += earned.get(cell.grade_id, 0)
            row["max_points"] += cell.points
    return list(skills.values())


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
