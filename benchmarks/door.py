"""What the door costs: one op through it, idle and listened to, as ratios to the same op in bare NumPy.

Run: ``python benchmarks/door.py``. All three are timed in one run, in alternating rounds, so that the machine's mood
hits them alike. Promised on a free core: idle at most 2 µs over the bare call, a listener at most 3 µs more.
"""

import operator
from functools import partial
from statistics import median
from time import perf_counter_ns

import numpy as np
from threadpoolctl import threadpool_limits

from tinytorch.core.tensor import Tensor, listen

CALLS, ROUNDS = 2_000, 101


def per_call_us(function) -> float:
    """Return microseconds per call of ``function`` over one block of calls."""
    start = perf_counter_ns()
    for _ in range(CALLS):
        function()
    return (perf_counter_ns() - start) / CALLS / 1_000


def main() -> None:
    """Time add and matmul at several sizes, three ways each, and print the table."""
    print(f"{'op':>22} {'bare µs':>9} {'idle':>7} {'listened':>9} {'idle +µs':>9} {'listener +µs':>13}")
    for name, shape in (("add", (1,)), ("add", (64, 64)), ("matmul", (1, 1)), ("matmul", (64, 64))):
        a, b = np.random.default_rng(0).random((2, *shape), dtype=np.float32)
        ta, tb = Tensor(a), Tensor(b)
        function = operator.add if name == "add" else operator.matmul
        bare, door = partial(function, a, b), partial(function, ta, tb)
        rounds = []
        for _ in range(ROUNDS):
            plain, idle = per_call_us(bare), per_call_us(door)
            with listen(lambda event: None):
                heard = per_call_us(door)
            rounds.append((plain, idle, heard))
        plain, idle, heard = (median(column) for column in zip(*rounds))
        ratio_idle, ratio_heard = median(r[1] / r[0] for r in rounds), median(r[2] / r[0] for r in rounds)
        print(f"{name + ' ' + str(shape):>22} {plain:>9.2f} {ratio_idle:>6.2f}x {ratio_heard:>8.2f}x "
              f"{idle - plain:>9.2f} {heard - idle:>13.2f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
