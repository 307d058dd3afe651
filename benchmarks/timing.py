"""How long is a call? ``measure_latency`` beside the standard library's ``timeit`` on the same callable.

Run: ``python benchmarks/timing.py``. Alternating rounds, the order of the two shuffled, so that the machine's mood hits
both alike; the ratio of each round, its median and the 95 % interval of that median by order statistics. Promised:
within 3 %. Exit status 1 when an interval lies wholly outside of that.
"""

import gc
import random
import sys
import timeit
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from tinytorch.core.autograd import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import measure_latency, median_interval

SIZES = (("10 µs", 48, 60), ("1 ms", 320, 40), ("20 ms", 900, 8))  # name, rows of a square product, samples a side
ROUNDS, PROMISED = 21, 0.03


def timeit_ms(function, repeats: int) -> float:
    """Return the median milliseconds of ``repeats`` timings by ``timeit``, over a stretch of 60 ms if a call is short.

    ``measure_latency`` spreads its samples over as much, after a warmup: on a shared machine a short burst is faster.
    """
    timer = timeit.Timer(function)  # switches the garbage collector off while it runs, as measure_latency does
    gc.collect()
    calls = max(1, round(0.06 / repeats / (min(timer.repeat(5, 3)) / 3)))
    timer.timeit(max(3, calls * repeats // 2))
    return median(timer.repeat(repeats, calls)) / calls * 1e3


def both_ways(n: int, samples: int, how_often: int = ROUNDS) -> list:
    """Time a product of (n, n) matrices both ways in so many shuffled rounds: a list of (timeit's ms, ours)."""
    x = Tensor(np.random.default_rng(0).standard_normal((n, n)))

    def model(t):
        return t @ x

    timers = (lambda: timeit_ms(lambda: model(x), samples),
              lambda: measure_latency(model, x, warmup=3, iterations=samples))
    rounds = []
    with no_grad():
        for _ in range(how_often):
            took = {side: timers[side]() for side in random.sample((0, 1), 2)}
            rounds.append((took[0], took[1]))
    return rounds


def main() -> int:
    """Print one line for each size; return the exit status."""
    kept = 0
    print(f"{'call':>6} {'timeit ms':>10} {'ours ms':>10} {'ratio':>7}   95 % interval of the ratio's median")
    for name, n, samples in SIZES:
        rounds = both_ways(n, samples)
        ratios = [ours / theirs for theirs, ours in rounds]
        low, high = median_interval(ratios)
        kept += low <= 1 + PROMISED and high >= 1 - PROMISED
        theirs, ours = (median(side) for side in zip(*rounds))
        print(f"{name:>6} {theirs:>10.4f} {ours:>10.4f} {median(ratios):>7.4f}   {low:.4f} to {high:.4f}")
    return int(kept < len(SIZES))


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
