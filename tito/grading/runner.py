"""Grade one module: run the learner's cells, then the module's tests on what she exports; return plain data."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tito.errors import NotebookError, TitoError
from tito.grading import edge, fence, limits, overlay
from tito.grading.blame import find_causes, parsed
from tito.grading.submission import Cell, Submission, mend, read
from tito.project import PACKAGE, Module, read_text, target_owners

if TYPE_CHECKING:
    from tito.grading.judge import Site

CELLS_SECONDS, TESTS_SECONDS = 180, 300
Say = Callable[[str], None]
# processes run side by side: the threads of their matrix products would only wait for each other
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
                            "1")


def grade(module: Module, source: str | None = None, timeout: float | None = None,
          say: Say = lambda text: None, processes: int | None = None) -> dict[str, Any]:
    """Return the verdict on a module's notebook (or its twin) as plain data; nothing in the checkout changes.

    An untouched notebook earns nothing and the package is tested instead. ``exit_status`` is 0 when every
    graded cell and the tests pass (for an untouched notebook: when the package's tests pass), 1 otherwise, 2 when the
    tests could not run.

    Args:
        module: the module to grade.
        source: "notebook" or "twin" where both were edited, None to find out.
        timeout: seconds for the cells and again for the tests; by default 120 and 300.
        say: told what is going on.
        processes: how many may run side by side; by default as many as there are cores.
    """
    return grade_submission(read(module, source), timeout, say, processes)


def grade_submission(submission: Submission, timeout: float | None = None, say: Say = lambda text: None,
                     processes: int | None = None) -> dict[str, Any]:
    """Return the verdict on a submission, wherever it came from.

    Cells and tests run side by side, large test folders in two parts; one after the other where ``processes`` is 1,
    as for many submissions that are graded side by side.
    """
    from tito.needs import package_fault

    module, stop = submission.module, threading.Event()
    processes = processes or limits.cores()
    unready = package_fault(module)
    if submission.untouched:
        result = grade_cells(submission, timeout or CELLS_SECONDS, say)
        result["notes"] = [unready] if unready else []
        say(f"{module.label}: testing the package")
        result["tests"] = run_tests(module, {}, timeout or TESTS_SECONDS, processes)
        result["exit_status"] = result["tests"]["status"]
        return result
    if processes == 1:
        result = grade_cells(submission, timeout or CELLS_SECONDS, say)
        say(f"{module.label}: testing what the {submission.tested} exports")
        result["tests"] = _test_export(submission, timeout or TESTS_SECONDS, 1, stop)
    else:
        with _side_by_side(stop) as start:
            tests = start(_test_export, submission, timeout or TESTS_SECONDS, processes, stop)
            result = grade_cells(submission, timeout or CELLS_SECONDS, say)
            say(f"{module.label}: testing what the {submission.tested} exports")
            result["tests"] = tests.result()
    result["notes"] = [*([unready] if unready else []), *result["notes"]]
    passed = bool(result["cells"]) and all(cell["state"] == "passed" for cell in result["cells"])
    status = result["tests"]["status"]
    result["exit_status"] = 0 if passed and status == 0 else 2 if status == 2 else 1
    return result


def grade_cells(submission: Submission, timeout: float = CELLS_SECONDS, say: Say = lambda text: None) -> dict[str, Any]:
    """Return what the graded cells earn; they are the release's, whatever the notebook made of them."""
    module, untouched = submission.module, submission.untouched
    cells, notes = mend(submission)
    graded: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    output = ""
    if not untouched:
        from tito.grading.judge import seal  # NumPy: not where only a verdict of the package is wanted

        numbers = itertools.count(1)
        sealed = [seal(cell.source, numbers) if cell.graded else (cell.source, []) for cell in cells]
        ended = run_cells(submission, cells, [text for text, _ in sealed], timeout, say)
        graded, errors, more_notes = _judge(module, cells, [sites for _, sites in sealed], ended)
        notes, output = submission.notes + notes + more_notes, ended.output
    return {"module": module.label, "title": module.title, "bonus": module.bonus,
            "tested": "package" if untouched else submission.tested, "untouched": untouched,
            "score": sum(cell["points"] for cell in graded), "max_score": sum(cell.points for cell in cells),
            "skills": _skills(cells, {cell["grade_id"]: cell["points"] for cell in graded}),
            "cells": graded, "errors": errors, "notes": notes, "output": output}


def run_cells(submission: Submission, cells: list[Cell], sources: list[str], timeout: float,
              say: Say = lambda text: None) -> limits.Ended:
    """Run the code cells in a child process, with these texts."""
    refused, module = _self_imports(submission.module, cells), submission.module
    rules = fence.around(module, deny=submission.deny)
    # the learner's own files have the checks in them, and what they want
    rules["hidden"] += [file.relative_to(module.root).as_posix() for file in (module.notebook, module.twin)]
    job = {"cells": [{"source": source, "label": cell.label, "graded": cell.graded, "refused": why}
                     for cell, source, why in zip(cells, sources, refused)],
           "path": [str(module.notebook.parent)], "fence": rules}

    def hear(report: dict[str, Any]) -> None:
        if type(report.get("begin")) is int:
            say(f"{submission.module.label}: cell {report['begin'] + 1} of {len(cells)}")

    return limits.run(job, timeout=timeout, root=submission.module.root, hear=hear, environment=_ONE_THREAD)


def _self_imports(module: Module, cells: list[Cell]) -> list[str]:
    """Say why a learner's cell is not run: it imports the module under grading, or a later one that may hand it on."""
    from tito.notebooks.checks import imported_names, reach

    owners = target_owners(module.root)
    said = []
    for cell in cells:
        names = [] if cell.graded else [name for _, name in imported_names(parsed(cell.source))
                                        if name.split(".")[0] == PACKAGE]
        reached = {owner: name for name in names for owner in reach(module.root, name, owners)}
        later = [name for owner, name in reached.items() if owner.order > module.order]
        said.append(f"this cell imports {module.target}, the module it is to write" if module in reached else
                    f"this cell imports {later[0]}, which comes after the module it is to write" if later else "")
    return said


def run_tests(module: Module, files: dict[str, Path], timeout: float, processes: int | None = None,
              stop: threading.Event | None = None, deny: Sequence[Path] = ()) -> dict[str, Any]:
    """Run pytest on the module's test folder, with ``files`` standing in for package modules.

    Args:
        module: the module.
        files: module name -> the file that stands in for it.
        timeout: seconds.
        processes: how many may run side by side; by default two, where there are two cores.
        stop: ends the tests when it is set.
        deny: folders and files that they must not read.
    """
    where = module.tests.relative_to(module.root).as_posix()
    if not module.tests.is_dir():
        return edge.summary(2, f"there is no {where}; get this folder again from where the checkout came from")
    parts = edge.deal(module, min(2, processes or limits.cores()))
    stop = stop or threading.Event()
    around = fence.around(module, tests=True, stand_ins=files, deny=deny)

    def run(part: edge.Part) -> limits.Ended:
        return limits.run({**part.job(module), "fence": around}, timeout=timeout, root=module.root, stop=stop,
                          environment={**_ONE_THREAD, **(overlay.variable(files) if files else {})})

    with _side_by_side(stop) as start:
        ended = [start(run, part) for part in parts[1:]]
        first = run(parts[0])
        return edge.judge(list(zip(parts, [first, *(waiting.result() for waiting in ended)])), where, bool(files))


@contextlib.contextmanager
def _side_by_side(stop: threading.Event) -> Iterator[Callable[..., Future[Any]]]:
    """Run functions in threads; when this one is interrupted they are told to end, and waited for."""
    with ThreadPoolExecutor(4) as pool:
        try:
            yield pool.submit
        except BaseException:
            stop.set()
            raise


def _test_export(submission: Submission, timeout: float, processes: int,
                 stop: threading.Event) -> dict[str, Any]:
    """Export into a folder of its own and test that; an export that is refused fails the tests, with its reason."""
    from tito.grading.openly import trick
    from tito.notebooks.export import export_notebook, try_import

    module = submission.module
    with tempfile.TemporaryDirectory(prefix="tito-export-") as folder:
        made = Path(folder) / module.package.name
        try:
            export_notebook(submission.notebook, module, made, file=submission.file, tried=False)
        except NotebookError as error:
            return edge.summary(1, f"not run, because the {submission.tested} cannot be exported: {error}")
        if not module.tests.is_dir():  # a module that has no edge tests (yet) is judged by its cells
            return edge.summary(0)
        found = trick(read_text(made))
        if found:
            return edge.summary(1, f"not run, because of what course work never does: {found}; write it without")
        result = run_tests(module, {module.target: made}, timeout, processes, stop, submission.deny)
        if not result["passed"]:  # one sentence instead of as many failures as there are files
            try:
                try_import(read_text(made), module, submission.file, submission.deny)
            except NotebookError as error:
                return edge.summary(1, f"not run, because the {submission.tested} cannot be exported: {error}")
        return result


def _judge(module: Module, cells: list[Cell], sites: list[list[Site]],
           ended: limits.Ended) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Turn what the child reported into graded results, the learner's own errors, and notes."""
    if not any("begin" in report for report in ended.reports):
        raise TitoError(f"the notebook's process did not start ({ended.how}): {_last_line(ended.output)}")
    came: dict[int, dict[str, Any]] = {}
    answers: list[list[dict[str, Any]]] = [[] for _ in cells]
    begun, busy, owners = 0, {}, target_owners(module.root)

    def placed(report: dict[str, Any], name: str) -> bool:
        return type(report.get(name)) is int and 0 <= report[name] < len(cells)

    for report in ended.reports:
        if placed(report, "begin"):
            begun = report["begin"]
        elif "answer" in report:
            answers[begun].append(report)
        elif placed(report, "cell"):
            came[report["cell"]] = report
        elif placed(report, "busy"):
            busy = {"at": report["busy"], "line": report.get("line")}
    rows, notes = [], []
    for index, cell in enumerate(cells):
        report = came.get(index) or _without_report(index, begun, busy, cells, ended)
        if cell.graded:
            report = _judged(report, sites[index], answers[index])
        report = _elsewhere(report, module, owners)
        if report.get("note"):
            notes.append(f"{cell.label}: {report['note']}")
        place = cells[report["at"]] if placed(report, "at") else cell
        rows.append({**report, "place": place, "raised_in": place.label if place is not cell else None})
    find_causes(cells, rows)
    graded, errors = [], []
    for cell, row in zip(cells, rows):
        place = cell if cell.graded else row["place"]
        said = {"state": row["state"], "type": row.get("type"), "message": row.get("message"), "where": place.label,
                "section": place.section, "line": row.get("line"), "follows": row["follows"],
                "waits_for": row.get("waits_for")}
        if cell.graded:
            graded.append({"grade_id": cell.grade_id, "skill": cell.skill,
                           "points": cell.points if row["state"] == "passed" else 0, "max_points": cell.points, **said,
                           "raised_in": row["raised_in"], "check": row.get("what"), "expected": row.get("want"),
                           "got": row.get("got"), "likely": row.get("mistake"), "look_at": row["look_at"],
                           "look_in": row["look_in"]})
        elif row["state"] not in ("passed", "unwritten", "not run"):
            errors.append({**said, "look_at": place.label if place.solution else None, "look_in": place.section})
    if not any(report.get("memory_limited", True) for report in ended.reports):
        notes.append("memory was not limited: this system has no limit for a process's address space")
    return graded, errors, notes


def _judged(report: dict[str, Any], sites: list[Site], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how a graded cell ended: by its first check that does not hold, then by its own error."""
    from tito.grading.judge import judge, unreached

    if report["state"] == "not run":
        return report
    try:
        found = judge(sites, answers)
    except TypeError as error:  # the check wants what nothing can be compared with
        return {**report, "state": "error", "type": "TypeError", "message": str(error)}
    missing = None if found or report["state"] != "passed" else unreached(sites, answers)
    if missing:
        return {**report, "state": "failed", "type": "CheckFailed", "what": missing.what, "names": missing.names,
                "message": f"the check {missing.what!r} was never reached"}
    if not found:
        return report
    site, failed = found
    return {"state": "failed", "type": "CheckFailed", "message": str(failed), "what": failed.what, "want": failed.want,
            "got": failed.got, "mistake": failed.mistake, "names": site.names}


def _elsewhere(report: dict[str, Any], module: Module, owners: dict[str, Module]) -> dict[str, Any]:
    """Say of an unwritten part that it is another module's, where the package holds that module unfinished."""
    owner = owners.get(str(report.get("of"))) if report["state"] == "unwritten" else None
    if owner is None or owner == module:
        return report
    name, _, place = report["message"].partition(": ")
    return {**report, "state": "error", "waits_for": owner.label,
            "message": f"{name} of {owner.label} is not written yet ({place}); `tito module resume {owner.name}` goes "
                       "on there"}


def _without_report(index: int, begun: int, busy: dict[str, Any], cells: list[Cell],
                    ended: limits.Ended) -> dict[str, Any]:
    culprit = cells[begun].label
    if ended.timed_out:
        if index == begun:
            line = f" in line {busy['line']} of {cells[busy['at']].label}" if busy else ""
            return {"state": "timeout", "type": "timeout", **busy,
                    "message": f"stopped after {ended.seconds:.0f} s (all cells together), still running{line}: a loop "
                    "that does not end?"}
        return {"state": "not run", "type": "timeout", "message": f"not run: the time was over in {culprit}"}
    if index == begun:
        return {"state": "ended", "type": "ended", "message": f"stopped in this cell: {ended.stopped}" if ended.stopped
                else f"the notebook ended the process here ({ended.how})"}
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
