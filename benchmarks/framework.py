"""What the framework costs over bare NumPy, as ratios: linear, transformer block, convolution; and a training step.

Run: ``python benchmarks/framework.py``. Ours and the floor take turns in every round, so that the machine's mood hits
them alike; a ratio is the median over rounds of ours / floor in that round. Promised with one BLAS thread; two threads
are printed for information, since where the threads land makes those times jump between two levels.
"""

import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from math import pi, sqrt
from statistics import median
from time import perf_counter_ns

import numpy as np
from threadpoolctl import threadpool_limits

from tinytorch import zoo
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import Trainer
from tinytorch.core.transformers import TransformerBlock

ROUNDS, BLOCK_MS = 41, 20
RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    """Return standard-normal float32."""
    return RNG.standard_normal(shape, dtype=np.float32)


def per_call_us(function: Callable[[], object], calls: int) -> float:
    """Return microseconds per call over one block of calls."""
    start = perf_counter_ns()
    for _ in range(calls):
        function()
    return (perf_counter_ns() - start) / calls / 1_000


def compare(ours: Callable[[], object], floor: Callable[[], object]) -> tuple[float, float, float]:
    """Return (ours µs, floor µs, ratio): medians over rounds in which the two take turns."""
    for function in (ours, floor) * 2:
        function()
    calls = max(1, int(BLOCK_MS * 1_000 / per_call_us(floor, 3)))
    rounds = [(per_call_us(ours, calls), per_call_us(floor, calls)) for _ in range(ROUNDS)]
    return median(r[0] for r in rounds), median(r[1] for r in rounds), median(r[0] / r[1] for r in rounds)


def linear() -> tuple[Callable, Callable]:
    """Return Linear(1024, 1024) on 64 rows, and x @ w + b."""
    layer, x = Linear(1024, 1024), Tensor(random(64, 1024))
    w, b, bare = layer.weight.data, layer.bias.data, x.data
    return lambda: layer(x), lambda: bare @ w + b


def block() -> tuple[Callable, Callable]:
    """Return a transformer block (d 256, 8 heads, T 128, batch 8), and the same arithmetic by hand."""
    layer, x = TransformerBlock(256, 8).eval(), Tensor(random(8, 128, 256))
    return lambda: layer(x), lambda: block_by_hand(layer, x.data)


def block_by_hand(layer: TransformerBlock, x: np.ndarray) -> np.ndarray:
    """Return what the block computes, in bare NumPy: pre-norm attention and MLP with the tanh form of GELU."""
    batch, length, dim = x.shape
    heads = layer.attention.num_heads

    def dense(one, x):
        return x.reshape(-1, x.shape[-1]) @ one.weight.data + one.bias.data

    def norm(one, x):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(one.eps)) * one.weight.data + one.bias.data

    def split(x):
        return x.reshape(batch, length, heads, dim // heads).transpose(0, 2, 1, 3)

    h = norm(layer.ln1, x)
    projections = layer.attention.q_proj, layer.attention.k_proj, layer.attention.v_proj
    q, k, v = (split(dense(one, h)) for one in projections)
    scores = q * np.float32(1 / sqrt(dim // heads)) @ k.swapaxes(-1, -2)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (powers / powers.sum(-1, keepdims=True)) @ v
    x = x + dense(layer.attention.out_proj, mixed.transpose(0, 2, 1, 3).reshape(x.shape)).reshape(x.shape)
    h = dense(layer.mlp.fc1, norm(layer.ln2, x))
    h = np.float32(0.5) * h * (1 + np.tanh(np.float32(sqrt(2 / pi)) * (h + np.float32(0.044715) * h * h * h)))
    return x + dense(layer.mlp.fc2, h).reshape(x.shape)


def convolution(backward: bool) -> tuple[Callable, Callable]:
    """Return Conv2d(64, 64, 3, padding=1) on (8, 64, 28, 28), and the bare matmuls of the unfolded sizes: 1 or 3."""
    layer, x = Conv2d(64, 64, 3, padding=1), Tensor(random(8, 64, 28, 28), requires_grad=backward)
    weight, columns, g = random(64, 576), random(8, 576, 784), random(8, 64, 784)
    if not backward:
        return lambda: layer(x), lambda: [weight @ one for one in columns]

    def both() -> None:
        for tensor in (x, layer.weight, layer.bias):
            tensor.grad = None
        layer(x).backward(seed)

    def three() -> None:
        for one, back in zip(columns, g):
            weight @ one
            weight.T @ back
            back @ one.T

    seed = Tensor(g.reshape(8, 64, 28, 28))
    return both, three


def small_convolution() -> tuple[Callable, Callable]:
    """Return Conv2d(3, 16, 3) on one 3x32x32 image, and the bare matmul of its unfolded sizes."""
    layer, x = Conv2d(3, 16, 3), Tensor(random(1, 3, 32, 32))
    weight, columns = random(16, 27), random(27, 900)
    return lambda: layer(x), lambda: weight @ columns


def step() -> Callable[[], object]:
    """Return a training step of the digits CNN at batch 64."""
    model = zoo.digits_cnn()
    trainer = Trainer(model, Adam(model.parameters(), lr=0.001), CrossEntropyLoss())
    x, y = Tensor(random(64, 1, 8, 8)), Tensor(RNG.integers(0, 10, 64))
    return lambda: trainer.train_batch(x, y)


def torch_step() -> Callable[[], object] | None:
    """Return the same step in PyTorch on the CPU, or None where it is not installed."""
    try:
        import torch
        from torch import nn
    except ImportError:
        return None
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                          nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    optimizer, loss_fn = torch.optim.Adam(model.parameters(), lr=0.001), nn.CrossEntropyLoss()
    x, y = torch.from_numpy(random(64, 1, 8, 8)), torch.from_numpy(RNG.integers(0, 10, 64))

    def run() -> None:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    return run


def traced_peak(function: Callable[[], object]) -> int:
    """Return how far traced memory rises during one call, in bytes."""
    function()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    function()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


def torch_peak(function: Callable[[], object]) -> int:
    """Return the peak of what PyTorch's allocator handed out during one call, in bytes, from its profiler's events."""
    from torch.profiler import ProfilerActivity, profile

    function()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        function()
    held = peak = 0
    for event in found.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


CASES = (("Linear(1024, 1024), 64 rows", linear, 1.05), ("transformer block, d 256, T 128", block, 1.25),
         ("Conv2d 64->64, 28x28, forward", lambda: convolution(False), 1.4),
         ("Conv2d 64->64, 28x28, both passes", lambda: convolution(True), 3.0),
         ("Conv2d 3->16, one 32x32 image", small_convolution, 5.0))


def show_ratios(threads: int) -> None:
    """Print every ratio at so many BLAS threads."""
    print(f"\n{threads} BLAS thread(s){'' if threads == 1 else ', for information'}")
    print(f"{'':<36}{'ours µs':>10}{'floor µs':>10}{'ratio':>8}{'promised':>10}")
    with threadpool_limits(threads):
        for name, make, promised in CASES:
            ours, floor = make()
            backward = name.endswith("both passes")
            with nullcontext() if backward else no_grad():
                found = compare(ours, floor)
            print(f"{name:<36}{found[0]:>10.1f}{found[1]:>10.1f}{found[2]:>7.2f}x{promised:>9.2f}x")


def show_step() -> None:
    """Print time and peak memory of a training step, beside PyTorch's where it is installed."""
    print("\ntraining step of the digits CNN, batch 64, one thread")
    with threadpool_limits(1):
        ours, other = step(), torch_step()
        if other is None:
            ours_us = median(per_call_us(ours, 5) for _ in range(ROUNDS))
            print(f"ours {ours_us:.0f} µs, peak {traced_peak(ours) / 1024:,.0f} KiB; PyTorch is not here, so no ratio")
            return
        ours_us, other_us, ratio = compare(ours, other)
        peak, other_peak = traced_peak(ours), torch_peak(other)
        print(f"ours {ours_us:.0f} µs, PyTorch {other_us:.0f} µs: {ratio:.2f}x")
        print(f"peak ours {peak / 1024:,.0f} KiB, PyTorch {other_peak / 1024:,.0f} KiB: {peak / other_peak:.2f}x")


if __name__ == "__main__":
    for count in (1, 2):
        show_ratios(count)
    show_step()
