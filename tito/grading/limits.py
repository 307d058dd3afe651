"""Run a job in a child process with limits on all it can use; what it reports comes over a private pipe."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
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

from tito.grading.family import Family

MEMORY = 4 << 30  # bytes of address space: OpenBLAS alone reserves several hundred MB
PRINTED = 50_000_000  # bytes it may print
OUTPUT = 300_000  # bytes kept of what the child prints; the rest is read and dropped
PROCESSES = 16  # at once, the child among them
FILE = 256 << 20  # bytes in one file
FILES = 512 << 20  # bytes in its scratch folder
REPORTS = 16_000_000  # bytes kept of what it reports
_HERE = Path(__file__).resolve().parents[2]
_OLD = 24 * 3600  # seconds after which a scratch folder has no owner any more
_START = "from tito.grading import child; child.main()"


@dataclass
class Ended:
    """How a child ended: its exit status (None when it was stopped, which ``stopped`` explains), and what it said."""

    status: int | None = None
    timed_out: bool = False
    stopped: str = ""
    reports: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0

    @property
    def how(self) -> str:
        """Say how the process ended, in a few words."""
        if self.timed_out:
            return f"stopped after {self.seconds:.0f} s"
        if self.stopped:
            return f"stopped: {self.stopped}"
        if self.status is not None and self.status < 0:
            try:
                return f"killed by {signal.Signals(-self.status).name}"
            except ValueError:
                return f"killed by signal {-self.status}"
        return f"exit status {self.status}"


def run(job: Mapping[str, Any], *, timeout: float, root: Path, memory: int = MEMORY,
        environment: Mapping[str, str] | None = None, hear: Callable[[dict[str, Any]], None] | None = None,
        stop: threading.Event | None = None) -> Ended:
    """Run ``job`` in a new process and return how it ended.

    The child works in an empty folder that is deleted afterwards, reads nothing from stdin, and belongs to a
    process group of its own. It is ended with all it started when the time is over, when it uses too much, when it
    ends, and when the parent is interrupted; it ends itself when the parent is gone.

    Args:
        job: what ``child.main`` is to do; must fit into JSON.
        timeout: seconds of wall-clock time.
        root: the checkout, importable in the child.
        memory: bytes of address space, where the system can limit it, and of memory in use by all it started.
        environment: variables added to the child's.
        hear: called with each report as it arrives.
        stop: ends the child when it is set, for a caller that waits in another thread.
    """
    token = secrets.token_hex(16)
    ended, printed = Ended(), Printed()
    _sweep()
    with tempfile.TemporaryDirectory(prefix="tito-", ignore_cleanup_errors=True) as scratch:
        _hand_over_limits(Path(scratch))
        reading, writing = os.pipe()
        handle, options = _handed_on(writing)
        child, family = None, Family(scratch)
        begun = time.monotonic()
        try:
            try:
                child = subprocess.Popen(
                    [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, cwd=scratch, env=_environment(root, scratch, environment), **options)
            finally:
                os.close(writing)
            family.begin(child.pid)
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
            _wait(child, ended, begun + timeout, Watch(family, printed, scratch, memory), stop)
        finally:
            ended.seconds = time.monotonic() - begun
            if child is not None:
                _kill(child, family)
        for reader in readers:
            reader.join(2)  # longer only if somebody that was not found holds the pipe open
        if child.stdout and not readers[0].is_alive():
            child.stdout.close()
    ended.output = bytes(printed.kept[:OUTPUT]).decode("utf-8", "replace")
    if printed.total > OUTPUT:
        ended.output += f"\n[cut: only the first {OUTPUT:,} bytes are kept]\n"
    return ended


@dataclass
class Printed:
    """What the child printed: the beginning, and how much it was."""

    kept: bytearray = field(default_factory=bytearray)
    total: int = 0


@dataclass
class Watch:
    """What a child and all it started use; looking takes a small share of the time, however long it takes."""

    family: Family
    printed: Printed
    scratch: str
    memory: int
    pause: float = 0.1
    files_next: float = 0.0

    def excess(self) -> str:
        """Say what there is too much of, "" for nothing."""
        begun = time.monotonic()
        processes = self.family.look()
        if self.printed.total > PRINTED:
            return f"it printed more than {PRINTED // 10**6} MB"
        if processes > PROCESSES:
            return f"it ran {processes} processes at once, and {PROCESSES} are allowed"
        if self.family.memory() > self.memory:
            return f"it used more than {self.memory / 2**30:.2g} GiB of memory"
        if begun >= self.files_next:
            if _size(self.scratch) > FILES:
                return f"it wrote more than {FILES >> 20} MiB into its folder"
            now = time.monotonic()
            self.files_next = now + max(0.5, 20 * (now - begun))
        else:
            self.pause = max(0.1, 20 * (time.monotonic() - begun))
        return ""


def _wait(child: subprocess.Popen[bytes], ended: Ended, end: float, watch: Watch,
          stop: threading.Event | None) -> None:
    """Wait until the child has ended, its time is over, it uses too much, or it is not wanted any more."""
    while ended.status is None and not ended.timed_out and not ended.stopped and not (stop and stop.is_set()):
        try:
            ended.status = child.wait(max(0.0, min(watch.pause, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            ended.timed_out = time.monotonic() >= end
            ended.stopped = "" if ended.timed_out else watch.excess()


def _size(folder: str) -> int:
    """Return the bytes of the files in a folder; a small one counts as a block of the disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += max(4096, os.lstat(os.path.join(place, name)).st_size)
    return total


def _sweep() -> None:
    """Delete scratch folders of this user that nobody works in any more: `tito` was killed a day ago or earlier."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith("tito-") and entry.is_dir(follow_symlinks=False):
                about = entry.stat(follow_symlinks=False)
                if about.st_uid == os.getuid() and time.time() - about.st_mtime > _OLD:
                    shutil.rmtree(entry.path, ignore_errors=True)


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cached_limits() -> Path:
    """Return where the profiler of module 14 keeps this machine's limits between runs."""
    home = Path(os.path.expanduser("~"))
    if os.environ.get("TINYTORCH_CACHE"):
        folder = Path(os.environ["TINYTORCH_CACHE"])
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "tinytorch"
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches" / "tinytorch"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tinytorch"
    return folder / "machine_limits.json"


def _hand_over_limits(scratch: Path) -> None:
    """Give the child a copy of what was measured before: it writes no cache but its own, and measures nothing again."""
    cache = scratch / ".cache"
    cache.mkdir()
    with contextlib.suppress(OSError):
        shutil.copyfile(cached_limits(), cache / "machine_limits.json")


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


def limit_files() -> None:
    """Limit how large a file this process may write, and leave no memory image of a crash."""
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        for kind, limit in ((resource.RLIMIT_FSIZE, FILE), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(kind)[1]
            if hard == resource.RLIM_INFINITY or limit < hard:
                resource.setrlimit(kind, (limit, limit))


def end_with_parent(parent: int) -> None:
    """End this process and all it started as soon as ``parent`` is no longer the parent; Windows cannot tell."""
    if sys.platform == "win32":
        return
    ask, wait, kill, group, name = os.getppid, time.sleep, os.killpg, os.getpgrp(), signal.SIGKILL

    def watch() -> None:
        while ask() == parent:
            wait(0.5)
        try:
            import psutil

            for process in psutil.Process().children(recursive=True):  # also those that left the group
                process.kill()
        finally:
            kill(group, name)

    if group == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


def _environment(root: Path, scratch: str, more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    roots = dict.fromkeys(str(path) for path in (root, _HERE))
    return {**kept, "PYTHONPATH": os.pathsep.join(roots), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONIOENCODING": "utf-8:backslashreplace", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "MPLBACKEND": "Agg",
            "NO_COLOR": "1", "TMPDIR": scratch, "TEMP": scratch, "TMP": scratch,
            "TINYTORCH_CACHE": os.path.join(scratch, ".cache"), **(more or {})}


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


def _kill(child: subprocess.Popen[bytes], family: Family) -> None:
    """End the child and everything it started."""
    if child.poll() is None:
        child.kill()
    family.end()
    child.wait()


def _collect(stream: IO[bytes], printed: Printed) -> None:
    """Read what the child prints, and keep the beginning; who prints far too much is not read further, and waits."""
    while printed.total <= PRINTED and (chunk := os.read(stream.fileno(), 65536)):
        printed.total += len(chunk)
        if len(printed.kept) <= OUTPUT:
            printed.kept += chunk


def _listen(descriptor: int, token: str, reports: list[dict[str, Any]],
            hear: Callable[[dict[str, Any]], None] | None) -> None:
    """Read reports, one JSON object a line after its signature; what is not signed as the next one is no report."""
    read, secret = 0, signer(token)
    with open(descriptor, "rb") as pipe:
        for line in pipe:
            read += len(line)
            signature, _, text = line.rstrip(b"\n").partition(b" ")
            signed = secret.copy()
            signed.update(b"%d " % len(reports) + text)
            if read <= REPORTS and hmac.compare_digest(signature, signed.hexdigest().encode()):
                report = json.loads(text)
                reports.append(report)
                if hear is not None:
                    hear(report)


def signer(token: str) -> hashlib.blake2b:
    """Return what reports are signed with: a copy takes the report's number and text, and gives its signature."""
    return hashlib.blake2b(digest_size=16, key=token.encode())
