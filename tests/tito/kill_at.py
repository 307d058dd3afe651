"""Run a function of the desk again and again, and kill it (SIGKILL) at one point after the other.

Called with a checkout, a folder for its copies, and a call such as ``reset(alpha)``. A point is a call that touches a
file of the checkout; the process is killed just before it or just after it. Each run has a copy of its own, named by
its number; the last one is not killed. Prints how many there are.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tito import desk  # noqa: F401  (what is called)
from tito.notebooks import build, read
from tito.project import find_module

POINTS = ("open", "fdopen", "chmod", "replace", "link", "rename", "unlink", "rmdir", "mkdir")


def armed(name: str, root: str, fatal: int, seen: list[int]) -> Callable[..., Any]:
    """Return an ``os`` function that counts its calls in the checkout and ends the process at the fatal one."""
    real = getattr(os, name)

    def call(*args: Any, **options: Any) -> Any:
        mine = name == "fdopen" or any(str(arg).startswith(root) for arg in args[:2])
        seen[0] += mine
        if mine and seen[0] * 2 - 1 == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        number = seen[0]
        try:
            came = real(*args, **options)
            if mine and number * 2 == fatal and name == "fdopen":
                came.write(b"half a")
                came.flush()
            return came
        finally:
            if mine and number * 2 == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    return call


def main(root: Path, copies: Path, call: str) -> int:
    """Kill at the first point, the second, ... until a run ends by itself."""
    read.jupytext()
    build.make(root, [find_module(root, "alpha")])  # all that is slow to import
    for fatal in range(1, 200):
        copy = shutil.copytree(root, copies / str(fatal), symlinks=True)
        child = os.fork()
        if child == 0:
            try:
                alpha = find_module(copy, "alpha")
                seen = [0]
                for name in POINTS:
                    setattr(os, name, armed(name, str(copy), fatal, seen))
                eval(f"desk.{call}", {"desk": desk, "alpha": alpha})
            except BaseException as error:
                print(type(error).__name__, error, file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != -signal.SIGKILL:
            print(fatal)
            return status
    return 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
