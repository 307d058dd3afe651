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
import itertools
import json
import linecache
import os
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from tito.errors import UNWRITTEN
from tito.grading import fence
from tito.grading.limits import end_with_parent, limit_files, limit_memory, limit_processor, signer

Report = Callable[[dict[str, Any]], None]
_STUB = re.compile(UNWRITTEN)
_LONGEST = 4000
_MAGICS = (re.compile(r"^(\s*)([%!?].*)$"), re.compile(r"^(\s*)([\w.]+\?{1,2}\s*)$"),
           re.compile(r"^(\s*[\w., ]+=\s*)([%!].*)$"))  # `%time`, `print?`, `files = !ls`
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
    limit_files()
    report({"memory_limited": limit_memory(job["memory"])})
    if job.get("fence"):
        fence.install(job["fence"], job["parent"])
    (run_cells if "cells" in job else run_import if "import" in job else
     run_milestone if "milestone" in job else run_tests)(job, report)
    for stream in flush:
        with contextlib.suppress(OSError, ValueError):
            stream()
    leave(0)


def _reporter(job: dict[str, Any]) -> Report:
    """Return the function that sends one report; a forked copy of this process stays silent."""
    pipe, secret = job.pop("pipe"), signer(job.pop("token"))
    if sys.platform == "win32":
        import msvcrt

        pipe = msvcrt.open_osfhandle(pipe, os.O_WRONLY)
    else:
        os.set_inheritable(pipe, False)
    return fence.bound(_send, _encoder(), secret, itertools.count().__next__, os.write, pipe, os.getpid, os.getpid(),
                       os._exit, threading.Lock())


def _encoder() -> Callable[[Any], str]:
    """Return JSON's encoder, where there is one in C that nobody can change."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.dumps
    quote = json.encoder.encode_basestring_ascii
    encode = make(None, json.JSONEncoder().default, quote, None, ": ", ", ", False, False, True)
    return fence.bound(_encoded, encode, "".join)


def _encoded(data, encode, join):  # type: ignore[no-untyped-def]
    return join(encode(data, 0))


def _send(data, encode, secret, next_number, write, pipe, getpid, owner, leave, one_at_a_time):  # type: ignore[no-untyped-def]
    """Write a report and its signature, which counts along: none can be changed, left out or put in on the way."""
    if getpid() != owner:
        leave(0)
    text = encode(data).encode()
    with one_at_a_time:
        signed = secret.copy()
        signed.update(b"%d " % next_number() + text)
        line = b"\n" + signed.hexdigest().encode() + b" " + text + b"\n"
        while line:
            line = line[write(pipe, line):]


# ---- a notebook's cells ----

def run_cells(job: dict[str, Any], report: Report) -> None:
    """Run each cell in one namespace as Jupyter would: an error in one does not stop the next.

    Graded cells come sealed (``judge.seal``): what they check is sent to the parent, and judged there.
    """
    from tito.grading.answers import reporters

    cells = job["cells"]
    module = types.ModuleType("__main__")
    shell = types.SimpleNamespace(**dict.fromkeys(("magic", "run_line_magic", "run_cell_magic", "system"), _nothing))
    module.__dict__.update(display=print, get_ipython=lambda: shell)
    files = {f"<{cell['label']}>": index for index, cell in enumerate(cells)}
    names, execute, compile_cell, describe = list(files), _execute, _compile, _describe
    mend_builtins, clean_builtins = vars(builtins).update, dict(vars(builtins))
    give, checks, hooks = module.__dict__.update, reporters(report), (
        sys.settrace, sys.setprofile, threading.settrace, threading.setprofile)
    sys.modules["__main__"] = module
    flush, quiet = sys.stdout.flush, contextlib.suppress
    _watch(job["seconds"], files, report)
    for index, cell in enumerate(cells):
        report({"begin": index})
        result: dict[str, Any] = {"cell": index, "state": "passed"}
        if cell["refused"]:
            report({**result, "state": "error", "type": "ImportError", "message": cell["refused"]})
            continue
        if cell["graded"]:
            for hook in hooks:
                hook(None)
            give(checks)  # also where a learner's cell took their names
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


def _watch(seconds: float, files: dict[str, int], report: Report) -> None:
    """Shortly before the time is over, report the line of a cell that is running: it may be an endless loop."""
    main, frames = threading.get_ident(), sys._current_frames

    def tell() -> None:
        frame = frames().get(main)
        while frame is not None and frame.f_code.co_filename not in files:
            frame = frame.f_back
        if frame is not None:
            report({"busy": files[frame.f_code.co_filename], "line": frame.f_lineno})

    timer = threading.Timer(max(seconds / 2, seconds - 2), tell)
    timer.daemon = True
    timer.start()


_FUTURE = 0


def _compile(source: str, name: str, plain: bool) -> tuple[Any, str]:
    """Compile a cell; where Python cannot read it for its notebook magics, without their lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        return _compile_python(source, name), ""
    except SyntaxError as error:
        without, magics = without_magics(source)
        if plain or not magics:
            raise
        first = magics[0].strip()
        if first.startswith("%%") and first.split()[0] not in _PYTHON_CELLMAGICS:
            return compile("", name, "exec"), f"skipped: a {first.split()[0]} cell runs only in Jupyter"
        try:
            code = _compile_python(without, name)
        except SyntaxError:
            raise error from None
        return code, f"skipped: {first} runs only in Jupyter"


def without_magics(source: str) -> tuple[str, list[str]]:
    """Return a cell's text with nothing done in the lines that only Jupyter understands, and these lines."""
    lines, magics = source.split("\n"), []
    for number, line in enumerate(lines):
        found = next(filter(None, (magic.match(line) for magic in _MAGICS)), None)
        if found:
            magics.append(line)
            lines[number] = f"{found[1]}{'None' if found[1].rstrip().endswith('=') else 'pass'}  # {found[2]}"
    return "\n".join(lines), magics


def _compile_python(source: str, name: str) -> Any:
    """Compile as Jupyter does: with the ``from __future__`` imports of the cells before, and ``await`` anywhere."""
    global _FUTURE
    code = compile(source, name, "exec", flags=_FUTURE | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    _FUTURE |= code.co_flags & __future__.annotations.compiler_flag
    return code


def _execute(code: Any, names: dict[str, Any], evaluate: Any = eval) -> None:
    """Run a cell; one that awaits gives a coroutine, which is run to its end."""
    waiting = evaluate(code, names)
    if waiting is not None:
        import asyncio

        asyncio.run(waiting)


def _nothing(*arguments: Any, **more: Any) -> None:
    """Stand for what only Jupyter's shell can do."""


def _describe(error: BaseException, files: dict[str, int]) -> dict[str, Any]:
    """Say in plain values what an error is: not written yet, a failed check, or an error with its place."""
    said: dict[str, Any] = {"state": "error", "type": type(error).__name__, "message": _text(error)}
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, NotImplementedError) and _STUB.fullmatch(_text(cause)):
            return {"state": "unwritten", "type": "NotImplementedError", "message": _text(cause),
                    "of": _module_of(cause, files)}
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, AssertionError):
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


def _module_of(error: BaseException, files: dict[str, int]) -> str | None:
    """Return the name of the module whose function raised an error, ``None`` where that stands in the cells."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename in files:
        return None
    return str(trace.tb_frame.f_globals.get("__name__"))


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    except BaseException as worse:
        return f"(its message could not be read: {type(worse).__name__})"


# ---- a module's tests ----

def run_tests(job: dict[str, Any], report: Report) -> None:
    """Run pytest on test files, with the learner's file in place of the package's when there is one."""
    from tito.grading import session

    session.run(job, report)


# ---- an exported file ----

def run_import(job: dict[str, Any], report: Report) -> None:
    """Import a module, with the learner's file in the package's place, and call the function ``call`` of it, if any."""
    import tito.grading.overlay  # noqa: F401  (installs itself)

    describe, load = _describe, importlib.import_module
    try:
        loaded = load(job["import"])
        if "call" in job:
            getattr(loaded, job["call"])()
    except BaseException as error:
        report({"done": True, "error": describe(error, {job["file"]: 0})})
    else:
        report({"done": True, "error": None})


# ---- a milestone

def run_milestone(job: dict[str, Any], report: Report) -> None:
    """Run a milestone's script on the package."""
    from tito import stories

    stories.run(job, report)
