"""What the profiler costs: recording an op, keeping an event, counting GPT-2 and GPT-3, importing it.

Run: ``python benchmarks/profiler.py``; with ``--check`` the exit status is 1 when a promise is broken. Every ratio is
taken within a round in which the two sides take turns, so that the machine's mood hits both alike, and the medians
over rounds are printed. Times are of the process's CPU, so that the turns of other processes do not count; those of
importing are what ``-X importtime`` shows. What noise remains only ever adds time: a promise counts as broken when
three rounds in four break it. Recording is timed with its whole block, entering and leaving included, because
PyTorch's profiler does most of its work on leaving; what both add before that is printed for information.
"""

import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median
from time import process_time_ns
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tinytorch import zoo
from tinytorch.core.tensor import Tensor, reduce_sum, shape_only
from tinytorch.perf.profiling import count_flops, percentile, run_on_shapes
from tinytorch.perf.tracing import profile

OPS, ROUNDS, IMPORTS = 5_000, 15, 5


class Line(NamedTuple):
    """One row of the table: what was measured, its value in every round, and what is promised of it, if anything."""

    name: str
    values: list[float]
    unit: str
    promised: float | None = None

    def broken(self) -> bool:
        """Say whether three rounds in four break the promise."""
        return self.promised is not None and percentile(self.values, 25) > self.promised


def per_op_us(function: Callable[[], object], watch: Callable[[], AbstractContextManager] | None = None) -> tuple:
    """Return microseconds per op of ``OPS`` calls: of the whole block under the watcher, and of the calls alone."""
    gc.collect()
    start = process_time_ns()
    if watch is None:
        inside = calls_ns(function)
    else:
        with watch():
            inside = calls_ns(function)
    return (process_time_ns() - start) / OPS / 1_000, inside / OPS / 1_000


def calls_ns(function: Callable[[], object]) -> int:
    """Return the nanoseconds of ``OPS`` calls."""
    start = process_time_ns()
    for _ in range(OPS):
        function()
    return process_time_ns() - start


def torch_sides() -> tuple[Callable[[], object], Callable[[], AbstractContextManager]] | None:
    """Return an add of one number in PyTorch and its CPU profiler with shapes, or None where it is not installed."""
    try:
        import torch
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as torch_profile
    except ImportError:
        return None
    torch.set_num_threads(1)
    one = torch.ones(1)
    return lambda: one + one, lambda: torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True)


def recording() -> list[Line]:
    """Time an unobserved op, the same one recorded, and both in PyTorch where it is installed, in turns."""
    one, theirs = Tensor(np.ones(1)), torch_sides()
    ours = {"add": lambda: one + one, "sum": lambda: reduce_sum(one, axis=0)}
    rounds = []
    for _ in range(ROUNDS + 1):
        row = {name: (per_op_us(call)[0], *per_op_us(call, profile)) for name, call in ours.items()}
        if theirs:
            row["torch"] = (per_op_us(theirs[0])[0], *per_op_us(*theirs))
        rounds.append(row)
    del rounds[0]  # the first round warms up

    def added(name: str, which: int) -> list[float]:
        return [row[name][which] - row[name][0] for row in rounds]

    lines = [Line("an unobserved add of one number", [row["add"][0] for row in rounds], "µs"),
             Line("the same, recorded by profile: adds", added("add", 1), "µs", 3.0),
             Line("recorded over unobserved", [row["add"][1] / row["add"][0] for row in rounds], "x"),
             Line("a recorded sum, with attributes: adds", added("sum", 1), "µs", 3.0),
             Line("before leaving the block, the add: adds", added("add", 2), "µs")]
    if not theirs:
        print("PyTorch is not installed: no comparison with its profiler.\n")
        return lines
    ratios = [our / their for our, their in zip(added("add", 1), added("torch", 1))]
    return [*lines, Line("PyTorch's profiler: adds", added("torch", 1), "µs"),
            Line("before leaving the block: adds", added("torch", 2), "µs"),
            Line("ours over PyTorch's", ratios, "x", 0.2)]


def keeping() -> list[Line]:
    """Trace what a profile of ``OPS`` ops holds when its block has ended."""
    one, sizes = Tensor(np.ones(1)), []
    for _ in range(3):
        tracemalloc.start()
        with profile() as kept:
            for _ in range(OPS):
                reduce_sum(one, axis=0)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0] / OPS)
        tracemalloc.stop()
        del kept
    return [Line("an event kept, of an op with attributes", sizes, "bytes", 300)]


def counting() -> list[Line]:
    """Time counting GPT-2 small, and building and counting GPT-3, beside as many ops through the door as they have."""
    with shape_only():
        small = zoo.gpt2_small()

    def large() -> int:
        with shape_only():
            model = zoo.gpt3()
        return count_flops(model, (1, 2048))

    ops = len(run_on_shapes(small, (1, 1024), np.int64).events)
    one, rounds = Tensor(np.ones(1)), []
    for _ in range(ROUNDS):
        gc.collect()
        start = process_time_ns()
        for _ in range(ops):
            one + one
        floor = process_time_ns()
        count_flops(small, (1, 1024))
        counted = process_time_ns()
        large()
        rounds.append(((floor - start) / 1e6, (counted - floor) / 1e6, (process_time_ns() - counted) / 1e6))
    floors, smalls, larges = zip(*rounds)
    return [Line("GPT-2 small, built on shapes: counted in", smalls, "ms", 50),
            Line(f"over its {ops:,} ops as adds of one number", [a / b for a, b in zip(smalls, floors)], "x"),
            Line("GPT-3: built and counted in", larges, "ms", 300)]


def importing() -> list[Line]:
    """Import the profiler after NumPy in fresh processes under ``-X importtime``, compiled files at hand."""
    rounds = []
    with tempfile.TemporaryDirectory() as compiled:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        code = "import numpy; import tinytorch.perf"
        for _ in range(IMPORTS + 1):
            ran = subprocess.run([sys.executable, "-X", "importtime", "-c", code], env=env, capture_output=True,
                                 text=True, encoding="utf-8", check=True)
            table = {parts[2][1:]: int(parts[1]) / 1_000 for line in ran.stderr.splitlines()
                     if len(parts := line.split("|")) == 3 and parts[1].strip().isdigit()}
            rounds.append((table["tinytorch.perf"], table["numpy"]))
    del rounds[0]  # it compiles
    return [Line("import tinytorch.perf, after NumPy", [ours for ours, _ in rounds], "ms", 40),
            Line("over import numpy", [ours / numpys for ours, numpys in rounds], "x")]


def main(check: bool) -> int:
    """Measure, print the table, return the exit status: 1 when checked and a promise is broken."""
    with threadpool_limits(1):
        lines = [*recording(), *keeping(), *counting(), *importing()]
    print(f"{'':<44}{'median':>9}{'best':>9}{'':<7}{'promised':>9}")
    for line in lines:
        promised = "" if line.promised is None else f"{line.promised:g}"
        print(f"{line.name:<44}{median(line.values):>9.2f}{min(line.values):>9.2f} {line.unit:<6}{promised:>9}"
              f"{'  BROKEN' if line.broken() else ''}")
    return int(check and any(line.broken() for line in lines))


if __name__ == "__main__":
    raise SystemExit(main("--check" in sys.argv[1:]))
