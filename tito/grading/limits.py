"""Run a job in a child process with a time, memory and output limit; what it reports comes over a private pipe."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

MEMORY = 4 << 30  # bytes of address space: OpenBLAS alone reserves several hundred MB
OUTPUT = 300_000  # bytes kept of what the child prints; the rest is read and dropped
REPORTS = 16_000_000  # bytes kept of what it reports
_WINDOWS = os.name == "nt"
_HERE = Path(__file__).resolve().parents[2]
_START = "from tito.grading import child; child.main()"


@dataclass
class Ended:
    """How a child ended: its exit status (None when it was stopped), its reports, and what it printed."""

    status: int | None = None
    timed_out: bool = False
    reports: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0

    @property
    def how(self) -> str:
        """Say how the process ended, in a few words."""
        if self.timed_out:
            return f"stopped after {self.seconds:.0f} s"
        if self.status is not None and self.status < 0:
            try:
                return f"killed by {signal.Signals(-self.status).name}"
            except ValueError:
                return f"killed by signal {-self.status}"
        return f"exit status {self.status}"


def run(job: Mapping[str, Any], *, timeout: float, root: Path, memory: int = MEMORY,
        environment: Mapping[str, str] | None = None, hear: Callable[[dict[str, Any]], None] | None = None) -> Ended:
    """Run ``job`` in a new process and return how it ended.

    The child works in an empty folder that is deleted afterwards, reads nothing from stdin, and belongs to a
    process group of its own, which is killed when the time is over, when it ends, and when the parent is interrupted;
    it ends itself when the parent is gone.

    Args:
        job: what ``child.main`` is to do; must fit into JSON.
        timeout: seconds of wall-clock time.
        root: the checkout, importable in the child.
        memory: bytes of address space, where the system can limit it.
        environment: variables added to the child's.
        hear: called with each report as it arrives.
    """
    token = secrets.token_hex(16)
    ended, printed = Ended(), bytearray()
    with tempfile.TemporaryDirectory(prefix="tito-", ignore_cleanup_errors=True) as scratch:
        reading, writing = os.pipe()
        handle, options = _handed_on(writing)
        child = None
        begun = time.monotonic()
        try:
            try:
                child = subprocess.Popen(
                    [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, cwd=scratch, env=_environment(root, scratch, environment), **options)
            finally:
                os.close(writing)
            readers = [threading.Thread(target=_collect, args=(child.stdout, printed), daemon=True),
                       threading.Thread(target=_listen, args=(reading, token, ended.reports, hear), daemon=True)]
            for reader in readers:
                reader.start()
            try:
                assert child.stdin is not None
                with child.stdin as stdin:
                    stdin.write(json.dumps({**job, "pipe": handle, "token": token, "memory": memory,
                                            "seconds": timeout, "parent": os.getpid()}).encode())
            except OSError:
                pass  # it ended before it read its job; the exit status says so
            try:
                ended.status = child.wait(timeout)
            except subprocess.TimeoutExpired:
                ended.timed_out = True
        finally:
            ended.seconds = time.monotonic() - begun
            if child is not None:
                _kill(child)
        for reader in readers:
            reader.join(2)  # longer only if a grandchild that left the group holds the pipe open
    ended.output = bytes(printed[:OUTPUT]).decode("utf-8", "replace")
    if len(printed) > OUTPUT:
        ended.output += f"\n[cut: only the first {OUTPUT:,} bytes are kept]\n"
    return ended


def limit_memory(num_bytes: int) -> bool:
    """Limit this process's address space; returns False where the system has no such limit."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = num_bytes if hard == resource.RLIM_INFINITY else min(num_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, AttributeError, ValueError, OSError):  # Windows has no resource module, macOS refuses
        return False
    return True


def limit_processor(seconds: float) -> None:
    """Limit this process's processor time to what so many seconds can need, for code that lets no thread run."""
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        limit, hard = int(seconds * (os.cpu_count() or 1)) + 10, resource.getrlimit(resource.RLIMIT_CPU)[1]
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def end_with_parent(parent: int) -> None:
    """End this process's group as soon as ``parent`` is no longer the parent; Windows cannot tell."""
    if sys.platform == "win32":
        return
    ask, wait, kill, group, name = os.getppid, time.sleep, os.killpg, os.getpgrp(), signal.SIGKILL

    def watch() -> None:
        while ask() == parent:
            wait(0.5)
        kill(group, name)

    if group == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


def _environment(root: Path, scratch: str, more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    roots = dict.fromkeys(str(path) for path in (root, _HERE))
    return {**kept, "PYTHONPATH": os.pathsep.join(roots), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONIOENCODING": "utf-8:backslashreplace", "MPLBACKEND": "Agg", "NO_COLOR": "1", "TMPDIR": scratch,
            "TEMP": scratch, "TMP": scratch, **(more or {})}


def _handed_on(descriptor: int) -> tuple[int, dict[str, Any]]:
    """Return the number by which the child knows ``descriptor``, and the options that hand it on."""
    if sys.platform != "win32":
        return descriptor, {"pass_fds": (descriptor,), "start_new_session": True}
    import msvcrt

    handle = msvcrt.get_osfhandle(descriptor)
    os.set_handle_inheritable(handle, True)
    startup = subprocess.STARTUPINFO()
    startup.lpAttributeList = {"handle_list": [handle]}
    return handle, {"startupinfo": startup, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child and everything it started in its group."""
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(child.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is empty
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _collect(stream: IO[bytes], kept: bytearray) -> None:
    """Read all the child prints, so that it never waits for us, and keep a little more than we may show."""
    while chunk := os.read(stream.fileno(), 65536):
        if len(kept) <= OUTPUT:
            kept += chunk
    stream.close()


def _listen(descriptor: int, token: str, reports: list[dict[str, Any]],
            hear: Callable[[dict[str, Any]], None] | None) -> None:
    """Read reports, one JSON object a line; what does not carry the token is not a report."""
    read = 0
    with open(descriptor, "rb") as pipe:
        for line in pipe:
            read += len(line)
            try:
                report = json.loads(line) if read <= REPORTS else None
            except ValueError:
                continue
            if isinstance(report, dict) and report.pop("token", None) == token:
                reports.append(report)
                if hear is not None:
                    hear(report)
