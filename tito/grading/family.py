"""The processes that a child has started, wherever they went: found, counted, measured and ended, and no others."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil


class Family:
    """A child and all it started: its group and session, its descendants, and whoever carries its environment.

    Only processes that came after this object are ever looked at, each once, so looking costs next to nothing.
    """

    def __init__(self, scratch: str):
        """Remember who was there before; ``scratch`` is the ``TMPDIR`` of the child, its own."""
        self.scratch, self.members = scratch, dict[int, psutil.Process]()
        self.others = set(psutil.pids())
        self.child = 0

    def begin(self, child: int) -> None:
        """Take in the child itself."""
        self.child = child
        self.others.discard(child)
        self.members[child] = psutil.Process(child)

    def look(self) -> int:
        """Find new members; return how many there are, the child among them."""
        here = set(psutil.pids())
        self.others &= here
        self.members = {pid: process for pid, process in self.members.items() if pid in here}
        new = sorted(here - self.others - self.members.keys())
        for _ in new:  # a parent's number can be the greater one
            found = {pid: process for pid in new if pid not in self.members and (process := self._member(pid))}
            if not found:
                break
            self.members |= found
        self.others.update(pid for pid in new if pid not in self.members)
        return len(self.members)

    def memory(self) -> int:
        """Return the bytes of memory that all of them have in use."""
        total = 0
        for process in self.members.values():
            try:
                total += process.memory_info().rss
            except psutil.Error:  # it has ended
                continue
        return total

    def end(self) -> None:
        """End all of them, and those that they start meanwhile; the child itself is left to be waited for."""
        for _ in range(100):
            alive = [process for process in self.members.values() if _runs(process)]
            for process in alive:
                try:
                    process.kill()  # a number that has gone to another process since is left alone
                except psutil.Error:
                    continue
            if self.child and os.name != "nt":
                with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is empty
                    os.killpg(self.child, signal.SIGKILL)
            self.look()
            if not any(_runs(process) for process in self.members.values()):
                return
            time.sleep(0.01)

    def _member(self, pid: int) -> psutil.Process | None:
        try:
            process = psutil.Process(pid)
            if process.ppid() in self.members or (
                    os.name != "nt" and self.child in (os.getpgid(pid), os.getsid(pid))) or (
                    process.environ().get("TMPDIR") == self.scratch):
                return process
        except (psutil.Error, OSError):  # it has ended, or is another user's
            pass
        return None


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
