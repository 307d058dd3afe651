"""What counting on shapes costs: a ten-layer MLP of width 20,000, built and counted without its 16 GB of weights.

Run: ``python benchmarks/counting.py``. Prints milliseconds (median of rounds), the peak of traced memory, and both as
ratios: to one call of the same forward's Python code on a width of 1, and to the nominal bytes of the weights.
"""

import tracemalloc
from statistics import median
from time import perf_counter_ns

from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, shape_only
from tinytorch.perf.profiling import count_flops, count_parameters

WIDTH, LAYERS, ROUNDS = 20_000, 10, 31


def mlp(width: int) -> Layer:
    """Return ``LAYERS`` linear layers of ``width``."""
    return Sequential(*(Linear(width, width) for _ in range(LAYERS)))


def count() -> tuple[int, int]:
    """Build the wide model under ``shape_only`` and count it."""
    with shape_only():
        model = mlp(WIDTH)
    return count_parameters(model), count_flops(model, (64, WIDTH))


def ms(function) -> float:
    """Return milliseconds of one call."""
    start = perf_counter_ns()
    function()
    return (perf_counter_ns() - start) / 1e6


def main() -> None:
    """Count, time, trace, print."""
    parameters, flops = count()
    small, x = mlp(1), Tensor([[1.0]])
    rounds = [(ms(count), ms(lambda: small(x))) for _ in range(ROUNDS)]
    tracemalloc.start()
    count()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"{parameters:,} parameters, {flops:,} FLOPs per sample")
    print(f"built and counted in {median(r[0] for r in rounds):.2f} ms: "
          f"{median(r[0] / r[1] for r in rounds):.1f}x a real forward pass of width 1")
    print(f"peak of traced memory {peak / 1024:.0f} KiB: {peak / (4 * parameters):.1e} of the weights' nominal bytes")


if __name__ == "__main__":
    main()
