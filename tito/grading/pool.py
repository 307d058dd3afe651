"""Processes on this machine that grade, several submissions at a time; one that dies is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import tito
from tito.grading import limits
from tito.grading.job import Job, Result, grade_one, refused
from tito.grading.runner import CELLS_SECONDS, TESTS_SECONDS

TRIES = 3  # of a submission whose grading ends the process it runs in
_SLACK = 240  # seconds of a job beside the time limits of cells and tests
_WAITING, _PATIENCE = 0.5, 10
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_SERVE = "from tito.grading.pool import serve; serve()"


def serve() -> None:
    """Grade the jobs that come on stdin, one a line; end with everything that still runs when stdin is closed."""
    import signal

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: queue.Queue[str] = queue.Queue()

    def stop(*about: Any) -> None:
        raise SystemExit(0)

    def listen() -> None:
        for job in sys.stdin:
            jobs.put(job)
        os.kill(os.getpid(), signal.SIGTERM)  # the main thread ends its children and deletes their folders

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=listen, daemon=True).start()
    while True:
        answers.write(json.dumps(grade_one(json.loads(jobs.get()))) + "\n")
        answers.flush()


class _Server:
    """A process that serves, and is replaced when it dies."""

    def __init__(self, environment: dict[str, str]):
        """Keep the environment its processes get."""
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None
        self.late = self.over = False

    def start(self, root: str) -> subprocess.Popen[str]:
        """Return the process, a new one if there is none."""
        if self.process is None:
            apart: dict[str, Any] = {"start_new_session": True}  # Ctrl-C reaches us alone
            if sys.platform == "win32":
                apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, encoding="utf-8", cwd=root, env=self.environment, **apart)
        return self.process

    def grade(self, job: Job) -> Result:
        """Have one job graded; a job that ends its process is given to another one, but not for ever."""
        seconds = 2 * (job["timeout"] or CELLS_SECONDS + TESTS_SECONDS) + _SLACK
        for _ in range(TRIES):
            process = self.start(job["root"])
            assert process.stdin is not None
            assert process.stdout is not None
            self.late = False
            clock = threading.Timer(seconds, self._end_late)
            clock.start()
            try:
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except (OSError, ValueError):
                answer = ""
            finally:
                clock.cancel()
            if answer.endswith("\n"):
                result: Result = json.loads(answer)
                return result
            self.end()
            if self.over:
                break
            if self.late:
                return refused(job, f"its grading did not end in {seconds:.0f} s")
        return refused(job, f"this should not happen: its grading ended the process it ran in, {TRIES} times")

    def _end_late(self) -> None:
        self.late = True
        self.kill()

    def hang_up(self) -> None:
        """Start no other process; this one ends, with what it runs, since nobody can speak to it any more."""
        self.over = True
        if self.process is not None:
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.close()  # type: ignore[union-attr]

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self.process.kill()

    def end(self) -> None:
        """Wait for the process to end; one that takes its time is killed."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(OSError, ValueError):
                process.stdin.close()  # type: ignore[union-attr]
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()  # type: ignore[union-attr]


def results(jobs: Iterable[Job], number: int) -> Generator[Result, None, None]:
    """Yield the results of jobs, ``number`` of them graded at a time; closing this ends what still runs."""
    home = str(Path(tito.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))}
    if number > 1:  # jobs side by side share the cores
        share = str(max(1, limits.cores() // number))
        environment = {**dict.fromkeys(_THREADS, share), **environment}
    scratch = Path(tempfile.mkdtemp(prefix="tito-grade-"))
    places = [scratch / str(index) for index in range(number)]
    for place in places:
        place.mkdir()
    servers = [_Server({**environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(place))}) for place in places]
    waiting, lock, over = iter(jobs), threading.Lock(), threading.Event()
    answers: queue.Queue[Result | BaseException | None] = queue.Queue()

    def drive(server: _Server, own: Path) -> None:
        try:
            while not over.is_set():
                with lock:
                    job = next(waiting, None)
                if job is None:
                    break
                others = [str(place) for place in places if place != own]  # where other submissions are being graded
                answers.put(server.grade({**job, "deny": [*job.get("deny", ()), *others]}))
        except BaseException as error:
            answers.put(error)
        finally:
            server.end()
            answers.put(None)

    drivers = [threading.Thread(target=drive, args=pair, daemon=True) for pair in zip(servers, places)]
    for driver in drivers:
        driver.start()
    try:
        left = number
        while left:
            with contextlib.suppress(queue.Empty):
                answer = answers.get(timeout=_WAITING)  # a wait without end cannot be interrupted everywhere
                if isinstance(answer, BaseException):
                    raise answer
                if answer is None:
                    left -= 1
                else:
                    yield answer
    finally:
        over.set()
        for server in servers:
            server.hang_up()
        for server, driver in zip(servers, drivers):
            driver.join(_PATIENCE)
            server.kill()
            driver.join()
        shutil.rmtree(scratch, ignore_errors=True)
