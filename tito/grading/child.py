"""What runs in the child process: a notebook's cells in order, or a module's tests.

Everything used after the learner's first line is captured before it. Nothing here judges: it reports, and the parent
takes a missing report as "not passed".
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import importlib
import json
import linecache
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from tito.grading.limits import end_with_parent, limit_memory, limit_processor

Report = Callable[[dict[str, Any]], None]
_STUB = re.compile(r"[\w.]+: section \d+, cell \d+")
_MISSING = re.compile(rf"^E .*?({_STUB.pattern})", re.MULTILINE)  # in what pytest says of a failure
_LONGEST = 4000
MAGIC = re.compile(r"^(\s*)(%|!|\?)")
_PYTHON_CELLMAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")


def main() -> None:
    """Read the job from stdin, do it, and end at once: no thread or exit handler of the learner's gets a say."""
    leave, flush = os._exit, (sys.stdout.flush, sys.stderr.flush)
    job = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (it stays open)
    sys.path[:] = [entry for entry in sys.path if entry] + job.get("path", [])
    report = _reporter(job)
    end_with_parent(job["parent"])
    limit_processor(job["seconds"])
    report({"memory_limited": limit_memory(job["memory"])})
    (run_cells if "cells" in job else run_import if "import" in job else run_tests)(job, report)
    for stream in flush:
        with contextlib.suppress(OSError, ValueError):
            stream()
    leave(0)


def _reporter(job: dict[str, Any]) -> Report:
    """Return the function that sends one report; a forked copy of this process stays silent."""
    pipe, token = job["pipe"], job["token"]
    if sys.platform == "win32":
        import msvcrt

        pipe = msvcrt.open_osfhandle(pipe, os.O_WRONLY)
    else:
        os.set_inheritable(pipe, False)
    write, dumps, getpid, leave, owner = os.write, json.dumps, os.getpid, os._exit, os.getpid()

    def report(data: dict[str, Any]) -> None:
        if getpid() != owner:
            leave(0)
        line = (dumps({**data, "token": token}) + "\n").encode()
        while line:
            line = line[write(pipe, line):]

    return report


# ---- a notebook's cells ----

def run_cells(job: dict[str, Any], report: Report) -> None:
    """Run each cell in one namespace as Jupyter would: an error in one does not stop the next."""
    cells = job["cells"]
    module = types.ModuleType("__main__")
    module.__dict__.update(display=print, get_ipython=lambda: None)
    files = {f"<{cell['label']}>": index for index, cell in enumerate(cells)}
    names, execute, compile_cell, describe = list(files), exec, _compile, _describe
    checks, mend_builtins, clean_builtins = _checks_code(), vars(builtins).update, dict(vars(builtins))
    give, shared = module.__dict__.__setitem__, _shared_names(cells)
    sys.modules["__main__"] = module
    flush, quiet = sys.stdout.flush, contextlib.suppress
    for index, cell in enumerate(cells):
        report({"begin": index})
        result: dict[str, Any] = {"cell": index, "state": "passed"}
        if cell["refused"]:
            report({**result, "state": "error", "type": "ImportError", "message": cell["refused"]})
            continue
        if cell["graded"]:
            fresh = sys.modules["tito.checks"] = _fresh_checks(checks)
            for name in shared:  # only the first graded cell need import them: nothing else may stand in their place
                give(name, fresh.__dict__[name])
        try:
            code, result["note"] = compile_cell(cell["source"], names[index], plain=cell["graded"])
            try:
                execute(code, module.__dict__)
            finally:
                mend_builtins(clean_builtins)
        except BaseException as error:
            result.update(describe(error, files))
        with quiet(OSError, ValueError):
            flush()
        report(result)
    report({"done": True})


_FUTURE = 0


def _compile(source: str, name: str, plain: bool) -> tuple[Any, str]:
    """Compile a cell; where Python cannot read it for its notebook magics, without their lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        return _compile_python(source, name), ""
    except SyntaxError as error:
        lines = source.split("\n")
        magics = [number for number, line in enumerate(lines) if MAGIC.match(line)]
        if plain or not magics:
            raise
        first = lines[magics[0]].strip()
        if first.startswith("%%") and first.split()[0] not in _PYTHON_CELLMAGICS:
            return compile("", name, "exec"), f"skipped: a {first.split()[0]} cell runs only in Jupyter"
        for number in magics:
            lines[number] = MAGIC.sub(r"\1pass  # \2", lines[number])
        try:
            code = _compile_python("\n".join(lines), name)
        except SyntaxError:
            raise error from None
        return code, f"skipped: {first} runs only in Jupyter"


def _compile_python(source: str, name: str) -> Any:
    """Compile with the ``from __future__`` imports of the cells before, as Jupyter does."""
    global _FUTURE
    code = compile(source, name, "exec", flags=_FUTURE, dont_inherit=True)
    _FUTURE |= code.co_flags & __future__.annotations.compiler_flag
    return code


def _checks_code() -> Any:
    import tito.checks

    assert tito.checks.__file__
    with open(tito.checks.__file__, encoding="utf-8") as file:
        return compile(file.read(), tito.checks.__file__, "exec", dont_inherit=True), tito.checks.__file__


def _shared_names(cells: list[dict[str, Any]]) -> list[str]:
    """Return what graded cells use of ``tito.checks``: the two checks, and what any of them imports from there."""
    import tito.checks

    names = {"check", "check_raises"}
    for cell in cells:
        with contextlib.suppress(SyntaxError, ValueError):
            for node in ast.walk(ast.parse(cell["source"])) if cell["graded"] else ():
                if isinstance(node, ast.ImportFrom) and node.module == "tito.checks":
                    names.update(alias.name for alias in node.names if not alias.asname)
    return sorted(name for name in names if hasattr(tito.checks, name))


def _fresh_checks(code: tuple[Any, str], make: Any = types.ModuleType, execute: Any = exec) -> types.ModuleType:
    """Return ``tito.checks`` as it was before any cell ran."""
    module: types.ModuleType = make("tito.checks")
    module.__file__ = code[1]
    sys.modules["tito.checks"] = module
    execute(code[0], module.__dict__)
    return module


def _describe(error: BaseException, files: dict[str, int]) -> dict[str, Any]:
    """Say in plain values what an error is: not written yet, a failed check, or an error with its place."""
    said: dict[str, Any] = {"state": "error", "type": type(error).__name__, "message": _text(error)}
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, NotImplementedError) and _STUB.fullmatch(_text(cause)):
            return {"state": "unwritten", "type": "NotImplementedError", "message": _text(cause)}
        cause = cause.__cause__ or cause.__context__
    if type(error).__name__ == "CheckFailed":
        said["state"] = "failed"
        for part in ("what", "want", "got", "mistake"):
            value = getattr(error, part, None)
            said[part] = value[:_LONGEST] if isinstance(value, str) else None
    elif isinstance(error, AssertionError):
        said["state"] = "failed"
    if isinstance(error, SyntaxError) and error.filename in files:
        said.update(at=files[error.filename], line=error.lineno, message=error.msg)
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in files:
            said.update(at=files[name], line=trace.tb_lineno)
        trace = trace.tb_next
    return said


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    except BaseException as worse:
        return f"(its message could not be read: {type(worse).__name__})"


# ---- a module's tests ----

class Reporter:
    """A pytest plugin that reports each test once."""

    def __init__(self, report: Report):
        """Keep the function that sends a report."""
        self.report = report

    def pytest_collection_finish(self, session: Any) -> None:
        """Say which tests there are, before any runs."""
        self.report({"collected": [item.nodeid for item in session.items]})

    def pytest_collectreport(self, report: Any) -> None:
        """Report a file that cannot be imported."""
        if report.failed:
            self.report({"test": report.nodeid, "state": "failed", "message": _short(report)})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Report the call, and a set-up or clean-up that failed or skipped."""
        if report.when == "call" or not report.passed:
            self.report({"test": report.nodeid, "state": report.outcome, "message": _short(report)})


def _short(report: Any) -> str:
    """Return the last word of a failure: the error's own message, or which cell it waits for."""
    if report.passed:
        return ""
    unwritten = _MISSING.search(report.longreprtext)  # also where an assertion failed because of it
    if unwritten:
        return f"NotImplementedError: {unwritten[1]}"
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)[:_LONGEST]
    said = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
    lines = [line.removeprefix("E ").strip() for line in str(said).splitlines() if line.startswith("E ")]
    return "\n".join(lines or str(said).splitlines()[-3:])[:_LONGEST]


def run_tests(job: dict[str, Any], report: Report) -> None:
    """Run pytest on the module's tests, with the learner's file in place of the package's when there is one."""
    import pytest

    import tito.grading.overlay  # noqa: F401  (installs itself)

    status = pytest.main([*job["tests"], "-q", "--tb=short", "-p", "no:cacheprovider", f"--rootdir={job['root']}",
                          *(["-c", job["settings"]] if job["settings"] else [])], plugins=[Reporter(report)])
    report({"done": True, "status": int(status)})


# ---- an exported file ----

def run_import(job: dict[str, Any], report: Report) -> None:
    """Import a package module, with the learner's file in its place."""
    import tito.grading.overlay  # noqa: F401  (installs itself)

    describe, load = _describe, importlib.import_module
    try:
        load(job["import"])
    except BaseException as error:
        report({"done": True, "error": describe(error, {job["file"]: 0})})
    else:
        report({"done": True, "error": None})
