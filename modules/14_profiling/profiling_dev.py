# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "14_profiling", "release": "b3eca591e223a3c5"}
# ---

# %% [markdown]
"""
# 14 · Profiling

Tier: Optimization (modules 14 to 19) · Difficulty 3 of 4 · About 5½ hours (330 minutes; each section says how many) · Needs 01 to 05 (check with `tito test tensor`, `tito test activations`, `tito test layers`, `tito test losses`, `tito test autograd`); its price list names ops of 09, 11 and 12, for which the package's own will do

You have built a framework. Now build the instrument that says where a model's parameters, operations, bytes and milliseconds go. Everything after this module (quantization, compression, caching,
acceleration) is a promise of the form "this is smaller" or "this is faster", and a promise without an instrument is a rumour.

**Build** a `Profiler` out of small functions, each one idea → **use** it on models you wrote and on a GPT-3 you cannot afford → **reflect** on which number answers which question.

When you are done you can
1. count the parameters of any model, shared ones once;
2. count its FLOPs, by hand and by watching it run on shapes only;
3. say what is held in memory, why, and for how long;
4. time a model with a spread, an interval and a warning, not with one number;
5. name the bottleneck, and say what would move it.

**Yours:** counting, tracing, timing, the verdict: twenty functions, most of them under ten lines. **Given and explained:** brute-force loops to check formulas against, the price list, the base-buffer helper, the guard that leaves a model untouched, the drawing of tables, the sweep that
measures your machine's bandwidth. Given code marked *skip on first reading* is not needed to go on. **Not here:** GPU kernels. The questions are the same there; the clock is harder.

A stub names its section and cell: cells are counted by code cell from each section heading.

**Why it pays.** A training run for ten million dollars that becomes a tenth cheaper pays for a team. Nobody finds that tenth by reading code: the slow part is almost never where one would have looked.

**How measuring grew up.** Counting instructions by hand (1940s); sampling the program counter (`prof`, 1970s); call graphs (`gprof`, 1982); hardware counters (1990s); the roofline, which draws a program and its machine in one
picture (2009); framework profilers that know layers and shapes (2017 on). You will walk through most of that in an afternoon.
"""

# %%
#| default_exp perf.profiling

# %%
#| export
import gc
import json
import os
import random
import sys
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import lru_cache, partial
from math import ceil, comb, floor, inf, prod
from operator import is_
from pathlib import Path
from statistics import fmean, stdev
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from tinytorch.core import activations, attention, embeddings, losses, spatial
from tinytorch.core import tensor as ops
from tinytorch.core.activations import Scoped
from tinytorch.core.autograd import backward, no_grad
from tinytorch.core.layers import (
    Layer,
    Linear,
    default_generator,
    dropout_mask,
    linear,
    named_tensors,
    parts,
    positive,
    slot_names,
)
from tinytorch.core.spatial import pair
from tinytorch.core.tensor import Op, Tensor, hollow, is_heard, listen, matmul_shape, scope, shape_only, thread_state

# %% [markdown]
"""
## 0. Guess first

*10 minutes · 0 points*

**Question.** Three layers see the same input, 64 tokens of 512 numbers: a fully connected layer 512 → 512, self-attention with 8 heads, and a ReLU. Which takes longest? Which holds most memory while it runs? And since attention contains four copies of the fully connected layer: how many times as long as *one* of them does it take?

You have a feeling. Write it down *now*: put your answer in place of each `None`, with how sure you are: 0.5 means a coin, 1.0 means you would bet the house. (A number counts as right within a tenth.) Every guess of this module goes into one log; section 9 opens it and draws how well
your certainty matched the truth. An honest 0.6 beats a proud 0.95.
"""

# %%
if __name__ == "__main__":
    bets = {}


    def guess(question, answer=None, sure=0.5):
        """Log a guess: what you think, and how sure you are (0.5 to 1)."""
        bets[question] = {"answer": answer, "sure": sure, "truth": None}
        print(f"{question}: " + ("not guessed yet" if answer is None else f"{answer!r}, {sure:.0%} sure"))


    def settle(question, truth):
        """Open a logged guess: note the truth beside it and say how it went."""
        bet = bets.setdefault(question, {"answer": None, "sure": 0.5})
        bet["truth"] = truth
        said = "you did not guess" if bet["answer"] is None else f"you said {bet['answer']!r} ({bet['sure']:.0%} sure)"
        print(f"{question}: {said}; it is {truth!r}")


    guess("slowest of linear, attention, relu", None, sure=0.5)
    guess("holds most of linear, attention, relu", None, sure=0.5)
    guess("attention takes how many times as long as one linear", None, sure=0.5)

# %% [markdown]
"""
The three layers. Attention is written with what you have: four `Linear`s, two matrix products, a softmax. Read it once; you will count it by hand in section 2 and catch it in the act in section 3.

```
x (B, T, D) ── query, key, value: (B, T, D) each ── cut into h heads ──▶ (B, h, T, d)
scores = query @ keyᵀ           (B, h, T, d) @ (B, h, d, T) -> (B, h, T, T)
mixed  = softmax(scores) @ value (B, h, T, T) @ (B, h, T, d) -> (B, h, T, d) ──▶ (B, T, D) ── out ──▶ (B, T, D)
```
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.activations import ReLU, gelu, softmax
    from tinytorch.core.layers import Linear, Sequential
    from tinytorch.perf import pictures


    class SelfAttention(Layer):
        """Multi-head self-attention from four Linear layers: (B, T, D) -> (B, T, D)."""

        def __init__(self, dim, heads):
            self.heads = heads
            self.query, self.key, self.value, self.out = (Linear(dim, dim) for _ in range(4))

        def split(self, x):
            B, T, D = x.shape
            return x.reshape(B, T, self.heads, D // self.heads).transpose(0, 2, 1, 3)

        def forward(self, x):
            q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
            scores = q @ k.T * (q.shape[-1] ** -0.5)
            mixed = softmax(scores) @ v
            return self.out(mixed.transpose(0, 2, 1, 3).reshape(*x.shape))


    def show(draw, *data, **more):
        """Draw a picture where there is a page to show it on; a terminal has the numbers printed above."""
        if "IPython" in sys.modules:
            from IPython.display import display

            try:
                display(draw(*data, **more))
            except ImportError as missing:
                print(missing)


    def say(text, values=None, digits=4):
        """Print a text, then a dict as "key value, key value", in lines of at most 96 columns."""
        from textwrap import fill

        told = {key: f"{value:,.{digits}g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
                for key, value in (values or {}).items()}
        print(fill(text + ", ".join(f"{key} {value}" for key, value in told.items()), 96, subsequent_indent="    "))


    contestants = {"linear": Linear(512, 512), "attention": SelfAttention(512, 8), "relu": ReLU()}
    print({name: layer(Tensor(np.zeros((1, 64, 512)))).shape for name, layer in contestants.items()})

# %% [markdown]
"""
**Before anything else: the instrument disturbs.** One forward pass, four times: plain, listened to, and with memory traced. (The fourth, plain again, says how far to trust the first.)
"""

# %%
if __name__ == "__main__":
    from time import perf_counter_ns


    def shortest_us(function, repeats=30):
        """Return the shortest of several runs in microseconds; section 5 does this properly."""
        times = []
        for _ in range(repeats):
            start = perf_counter_ns()
            function()
            times.append(perf_counter_ns() - start)
        return min(times) / 1000


    small = Sequential(Linear(16, 16), ReLU(), Linear(16, 16), ReLU())
    row = Tensor(np.ones((1, 16)))
    watched = {"plain": shortest_us(lambda: small(row))}
    heard = []
    with listen(heard.append):
        watched["listened to"] = shortest_us(lambda: small(row))
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    watched["memory traced"] = shortest_us(lambda: small(row))
    if not already:
        tracemalloc.stop()
    watched["plain again"] = shortest_us(lambda: small(row))
    for how, us in watched.items():
        print(f"{how:>15}: {us:6.1f} µs")

# %% [markdown]
"""
So time, memory and FLOPs will always be **three separate runs**. A number taken while another instrument was on is a number about that instrument.

<details><summary>Why does tracing memory slow small operations most?</summary>
It pays once per allocation, whatever its size. A small operation allocates as often as a large one and has less work to hide the cost behind.
</details>
<details><summary>How expensive may an instrument be?</summary>
It depends on what it is compared with: a microsecond per event is nothing for a product of two large matrices and doubles the time of adding two numbers. So an instrument reports its own cost, and you compare it with what you measured.
</details>
"""

# %% [markdown]
"""
## 1. What is stored

*25 minutes · 8 points*

**Question.** How many numbers does a model own?

In Module 03 you found every `Tensor` of a model by looking. That is nearly the answer. The missing part is the word *own*: two tensors can show the same memory. A language model uses one table twice, to turn tokens into vectors and,
transposed, to turn vectors back into scores for tokens. Two views, one memory:
"""

# %%
if __name__ == "__main__":
    table = Tensor(np.ones((100, 16), np.float32))
    head = table.T
    print(f"two Tensors: {table is not head}; shapes {table.shape} and {head.shape}; same memory: {np.shares_memory(table.data, head.data)}")

# %% [markdown]
"""
Given: `storage(array)` says where an array's numbers lie. A view that shows all of the same memory, in whatever order, has the same storage; the two halves of a split table do not. (A *hollow* array has one, too.)

Two storages may also overlap *in part*: one packed weight and slices of it. That is rare and fiddly, so it is given, too: `shown_twice(storages)` says how many numbers different storages show again (*skip its code on first reading*; it ticks off every number on a list).
"""

# %%
#| export
def storage(array):
    """Return where an array's numbers lie: (first byte, size, bytes of one, steps). A transposed view has the same.

    ``steps`` are (bytes, count) of the axes that move, merged where one goes on where another ends: one for an array
    without gaps, none for a hollow one.
    """
    first, size, width = array.__array_interface__["data"][0], array.size, array.itemsize
    if array.flags.forc:  # one piece without gaps
        return first, size, width, ((width, size),) if size > 1 else ()
    steps: list = []
    for step, count in sorted((abs(step), n) for step, n in zip(array.strides, array.shape) if n > 1 and step):
        if steps and step == steps[-1][0] * steps[-1][1]:
            step, count = steps[-1][0], steps.pop()[1] * count
        steps.append((step, count))
    first += sum(step * (n - 1) for step, n in zip(array.strides, array.shape) if step < 0)  # walks backwards
    return first, size, width, tuple(steps)

# %%
#| export
def shown_twice(storages):
    """Return how many numbers distinct storages show again: 0 unless there is, say, a packed weight and a slice of it.

    ``storages``: what ``storage`` gives, each once. Memories of different item sizes are taken to be apart. Hollow
    arrays have no addresses: where one is as large as all others at its place together, they are its slices.
    """
    again, clusters = 0, {}  # {bytes of one: [end, storages that overlap so far]}
    for one in sorted(storages):
        first, _, width, steps = one
        cluster = clusters.setdefault(width, [first, []])
        if first >= cluster[0]:
            again, cluster[1] = again + _overlap(cluster[1]), []
        cluster[0] = max(cluster[0], first + width + sum([step * (count - 1) for step, count in steps]))
        cluster[1].append(one)
    return again + sum(_overlap(cluster) for _, cluster in clusters.values())


def _overlap(cluster):
    """Return how many numbers the storages of one stretch of memory show more than once."""
    if len(cluster) < 2:
        return 0
    sizes = sorted(size for _, size, _, _ in cluster)
    if not any(steps for *_, steps in cluster):  # hollow
        return sum(sizes[:-1]) if sizes[-1] >= sum(sizes[:-1]) else 0
    width, start = cluster[0][2], cluster[0][0]
    ends = [low - start + sum(step * (count - 1) for step, count in steps) for low, _, _, steps in cluster]
    seen = np.zeros(max(ends) // width + 1, bool)
    for low, _, _, steps in cluster:
        counts, strides = [count for _, count in steps], [step // width for step, _ in steps]
        np.lib.stride_tricks.as_strided(seen[(low - start) // width:], counts, strides)[...] = True
    return sum(sizes) - int(np.count_nonzero(seen))

# %%
if __name__ == "__main__":
    halves = table[:, :8], table[:, 8:]
    print(f"table and its transpose: {storage(table.data) == storage(head.data)}; two halves: {storage(halves[0].data) == storage(halves[1].data)}")
    print("shown again by the halves, beside the table:", shown_twice({storage(a.data) for a in (table, head, *halves)}), "and without it:", shown_twice({storage(a.data) for a in halves}))

# %% [markdown]
"""
Models come in many forms, and not all of them are layers: some have only `parameters()`, some only a `weight` and a `bias`, which may be plain arrays. Given: `weights_of(model)` walks them all and returns
`Tensor`s. A layer's plain arrays are left out: they are *buffers* (running statistics), not parameters. A bare `Tensor` is data, not a model: it has none. The same memory may appear several times; sorting that out is your part.
"""

# %%
#| export
def things_in(model):
    """Return a list of the model and everything reachable from it by attribute, list or dict, each object once."""
    seen, todo = {}, [model]
    while todo:
        thing = todo.pop()
        key = id(thing)
        if key not in seen:
            seen[key] = thing
            todo += [value for _, value in reversed(parts(thing)) if not isinstance(value, (int, float, str, bytes))]
    return list(seen.values())

# %%
#| export
def weights_of(model):
    """Return the model's weights as Tensors; the same memory may come more than once.

    Every Tensor by attribute, list or dict; and, of objects that are no layers, ``parameters()`` and ``weight``
    and ``bias``, plain arrays too. A bare Tensor has none.
    """
    if isinstance(model, Tensor):
        return []
    things = things_in(model)
    return [thing for thing in things if isinstance(thing, Tensor)] + _held_among(things)


def _held_among(things):
    """Return what those of the things hold that are no layers."""
    foreign = [thing for thing in things if not isinstance(thing, (Scoped, Tensor, np.ndarray, type))]
    return [weight for thing in foreign for weight in _held_by(thing)]


def _held_by(thing):
    """Return the weights of an object that is no layer: what ``parameters()`` lists, ``weight`` and ``bias``."""
    listed = getattr(thing, "parameters", None)
    listed = listed() if callable(listed) else ()
    if not hasattr(listed, "__iter__"):
        raise TypeError(f"{type(thing).__name__}.parameters() gave {listed!r}; want Tensors in a list or a dict")
    held = [*(listed.values() if isinstance(listed, dict) else listed)]
    held += [getattr(thing, "weight", None), getattr(thing, "bias", None)]
    held = [Tensor(h, dtype=h.dtype) if isinstance(h, np.ndarray) and h.dtype.kind in "fiub" else h for h in held]
    return [h for h in held if isinstance(h, Tensor)]

# %% [markdown]
"""
**Task.** Write `count_parameters(model, trainable_only=False)`: how many numbers the model owns, each memory counted once however many tensors or layers show it (at the end, take off what `shown_twice` finds among your storages). With `trainable_only` leave out what has
`requires_grad=False`. Returns a Python `int`.

Example: `count_parameters(Linear(10, 5))` is `55`: 50 weights and 5 biases.

<details><summary>Hint 1: idea</summary>
Counting distinct things is a job for a dictionary or a set: the key says what makes two of them the same.
</details>
<details><summary>Hint 2: approach</summary>
One entry per <code>storage(weight.data)</code>, whose value is <code>weight.size</code>; then add up the values, less <code>shown_twice(keys)</code>. Leave a weight out <em>before</em> it enters the dictionary, so that a frozen view of trainable memory does not hide it.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Total length of the distinct words in a text: <code>lengths = {word.lower(): len(word) for word in text}</code>, then <code>sum(lengths.values())</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "count-parameters", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def count_parameters(model, trainable_only=False):
    """Return how many numbers the model owns (a count), each memory once, however many tensors or views share it.

    ``trainable_only`` leaves out frozen weights (``requires_grad=False``). A bare Tensor, or a model without
    parameters, has 0. Example: ``count_parameters(Linear(128, 64))`` is 128 * 64 + 64 = 8,256.

    Raises:
        TypeError: ``parameters()`` of an object that is no layer gives neither a list nor a dict.
    """
    raise NotImplementedError("count_parameters: section 1, cell 7")

# %%
if __name__ == "__main__":
    for layer in (Linear(10, 5), Linear(128, 64), Linear(768, 3072)):
        n = count_parameters(layer)
        print(f"{layer!r:>18}: {n:>9,} parameters, {4 * n:>9,} bytes in float32, {4 * n / 1024**2:.2f} MB of 1024², {4 * n / 1e6:.2f} of 10⁶")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-count-parameters", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "parameters"}
if __name__ == "__main__":
    from tito.checks import check, check_raises


    def test_count_parameters():
        """Bias, several layers, sharing, tied views, freezing, strange models."""
        check("Linear(128, 64)", count_parameters(Linear(128, 64)), 8256, {8192: "the bias is left out", 33_024: "bytes, not numbers: .size, not .nbytes"})
        a, b = Linear(4, 3), Linear(3, 2)
        check("two layers", count_parameters(Sequential(a, ReLU(), b)), 23, {15: "only the first layer was walked", 18: "the biases are left out"})
        check("two layers of one shape", count_parameters(Sequential(Linear(4, 3), ReLU(), Linear(4, 3))), 30, {15: "two weights of one shape were taken for one: want storage(...) as the key"})
        check("a layer used twice", count_parameters(Sequential(a, b, a)), 23, {38: "the shared layer was counted twice"})
        check("a table tied to its transpose", count_parameters([table, table.T]), 1600, {3200: "tied weights were counted twice"})
        check("two halves of one memory", count_parameters({"left": halves[0], "right": halves[1]}), 1600, {
            800: "both halves were taken for the same memory; use storage(), not the base"})
        check("a packed weight and a slice of it", count_parameters([table, halves[0]]), 1600, {2400: "the slice was counted again: take off shown_twice(...)"})
        a.weight.requires_grad = False
        check("trainable only, one weight of 12 frozen", count_parameters(Sequential(a, b), trainable_only=True), 11, {
            23: "frozen weights were counted", 12: "that is the frozen part"})
        trained = Tensor(np.ones((100, 16), np.float32), requires_grad=True)
        frozen_view = Tensor(trained.data.T)
        for pair_of in ([trained, frozen_view], [frozen_view, trained]):
            check("trainable memory with a frozen view of it", count_parameters(pair_of, trainable_only=True), 1600, {
                0: "the frozen view hid it: leave a weight out before it enters the dictionary", 3200: "the memory was counted twice"})
        check("a lone ReLU", count_parameters(ReLU()), 0)
        check("a bare Tensor is data", count_parameters(table), 0, {1600: "a bare Tensor is not a model"})
        check("a Python int comes back", type(count_parameters(b)).__name__, "int", {"int64": "NumPy's number: sum(...) of Python's makes a plain one", "float": "a float: counts are whole"})


    test_count_parameters()

# %% [markdown]
"""
**What it means for a real model.** GPT-2 small: a table of 50,257 tokens, positions for 1,024, 12 blocks of width 768. A block has four projections and two feed-forward layers (`12 D²` weights, `9 D` biases) and two layer norms (`4 D`). The head is the
table, transposed. Guess first: how much smaller does tying the head make the model, in percent?
"""

# %%
if __name__ == "__main__":
    guess("GPT-2 small is smaller by tying its head, percent", None, sure=0.5)

# %%
if __name__ == "__main__":
    V, D, positions, blocks = 50_257, 768, 1_024, 12
    tied = V * D + positions * D + blocks * (12 * D**2 + 13 * D) + 2 * D
    untied = tied + V * D
    print(f"tied {tied:,} parameters, untied {untied:,}")
    settle("GPT-2 small is smaller by tying its head, percent", round(100 * (1 - tied / untied)))

# %% [markdown]
"""
**MB and MiB.** Further up, the weights of `Linear(768, 3072)` were "9.45 MB", as on a data sheet, and "9.01 MB", as in a monitor, because one divides by 1,000,000 and the other by 1024². Everything here called `_mb` divides by 1024².
Bytes come from each array's own type, so int8 weights weigh one byte each:
"""

# %%
if __name__ == "__main__":
    for dtype in (np.float64, np.float32, np.float16, np.int8):
        w = Tensor(np.zeros((3072, 3072), dtype), dtype=dtype)
        print(f"{w.dtype.name:>8}: {w.nbytes:>12,} bytes = {w.nbytes / 1024**2:6.2f} MB (1024²) = {w.nbytes / 1e6:6.2f} (10⁶)")

# %% [markdown]
"""
<details><summary>Reflect: the largest models are served in int8 or int4. Does that change the number of parameters?</summary>
No. The count stays; the bytes shrink by 4 or 8. That is why the two are different functions.
</details>

## 2. What is computed, by hand

*50 minutes · 16 points*

**Question.** How much *work* is `(2, 3) @ (3, 4)`?

Each of the 2 · 4 results is a sum of 3 products: 24 multiplications and 24 additions (the first addition goes to zero, and hardware does both in one step, a *multiply-add*). Whether that is "24" or "48" is a matter of convention, and half the confusion in published tables
comes from it. **Ours: one multiply-add is 2 FLOPs**, printed with every result:

- *FLOPs* is a count: floating-point operations. *FLOP/s* is a speed: how many a second. They differ by one letter and by everything.
- Contractions (matrix products, linear layers, convolutions) cost 2 per multiply-add; the bias rides along free, since the sum has to start *somewhere*.
- Other arithmetic costs 1 per output element, a reduction 1 per input element; moving, viewing and selecting cost 0.
"""

# %%
#| export
#: What a FLOP is here.
CONVENTION = ("one multiply-add is 2 FLOPs, bias free; other arithmetic 1 per output element, "
              "reductions 1 per input element; views, gathers, selections and copies 0")

# %% [markdown]
"""
A closed form you cannot check is a superstition. So beside each formula stands a loop that *does* the computation, one multiply-add at a time, and counts. This one is given; see that its numbers are right *and* that it counts:
"""

# %%
if __name__ == "__main__":
    def matmul_by_loop(a, b):
        """Multiply two matrices with three loops; return the result and the number of multiply-adds."""
        rows, inner, columns = len(a), len(b), len(b[0])
        result, count = [[0.0] * columns for _ in range(rows)], 0
        for i in range(rows):
            for j in range(columns):
                for k in range(inner):
                    result[i][j] += a[i][k] * b[k][j]
                    count += 1
        return result, count


    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
    made, multiply_adds = matmul_by_loop(a, b)
    print(f"right: {np.allclose(made, a @ b)}; {multiply_adds} multiply-adds, {2 * multiply_adds} FLOPs")

# %% [markdown]
"""
Sizes come from people, so they are checked once, here. Given: `sizes` for a shape; and from Module 09 `pair`, for what may be one number or two (a kernel of 3 is a kernel of (3, 3)). A boolean is not an integer.
"""

# %%
#| export
def sizes(what, shape, rank=None):
    """Return ``shape`` as a tuple of positive ints; ``what`` is the name that an error uses.

    Raises:
        TypeError: no tuple or list, or a size that is no integer.
        ValueError: no axis, a size below 1, other than ``rank`` axes (where given), or 2**60 elements and more.
    """
    if not isinstance(shape, (tuple, list)):
        came = "a Tensor; give its .shape" if isinstance(shape, Tensor) else repr(shape)
        raise TypeError(f"{what} is {came}; want a tuple of sizes, like (32, 784)")
    if not shape:
        raise ValueError(f"{what} is empty; want at least one axis, like (32, 784)")
    shape = tuple(positive(f"{what}[{i}]", n) for i, n in enumerate(shape))
    if rank is not None and len(shape) != rank:
        raise ValueError(f"{what} is {shape}; want {rank} axes, not {len(shape)}")
    if prod(shape) >= 2**60:
        raise ValueError(f"{what} is {_short(str(shape), 60)}: more elements than an array can have; want fewer")
    return shape

# %% [markdown]
"""
**Task.** Write `matmul_flops(a_shape, b_shape)`. Leading axes are a stack and broadcast; a one-axis operand is a vector. `matmul_shape` of Module 01 knows the shape of the result and refuses what does not fit.

Example: `matmul_flops((2, 3), (3, 4))` is `48`.

<details><summary>Hint 1: idea</summary>
How many numbers come out, and how many multiply-adds went into each?
</details>
<details><summary>Hint 2: approach</summary>
<code>prod(matmul_shape(a, b))</code> numbers come out. The axis that vanishes is the last one of <code>a</code>, whether <code>a</code> is a vector or a stack.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(5, 2, 7) @ (7, 3)</code>: 5 · 2 · 3 = 30 numbers, 7 multiply-adds each, 2 FLOPs each: 420.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "matmul-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def matmul_flops(a_shape, b_shape):
    """Return the FLOPs of ``a @ b``, 2 per multiply-add: (..., m, k) @ (..., k, n) -> (..., m, n).

    Leading axes broadcast; a one-axis operand is a vector. Example: ``matmul_flops((2, 3), (3, 4))`` is 48.

    Raises:
        TypeError: a shape is no tuple of integers.
        ValueError: the inner sizes differ, the leading axes do not broadcast, or a size is below 1.
    """
    a, b = sizes("a_shape", a_shape), sizes("b_shape", b_shape)
    raise NotImplementedError("matmul_flops: section 2, cell 4")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-matmul-flops", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_matmul_flops():
        """Matrices, stacks, vectors; formula and loop agree."""
        check("(2,3) @ (3,4)", matmul_flops((2, 3), (3, 4)), 48, {
            24: "half: you counted multiply-adds, not FLOPs", 32: "the inner size is the last axis of a, not its first", 64: "the inner size is the last axis of a, not of b",
            40: "one addition less for each number; by convention a multiply-add is 2"})
        check("(2,3,4) @ (2,4,5)", matmul_flops((2, 3, 4), (2, 4, 5)), 240, {480: "the stack was multiplied in twice", 120: "the stack is left out, or is taken for the inner size"})
        check("(2,25,16) @ (2,16,9)", matmul_flops((2, 25, 16), (2, 16, 9)), 14_400, {7200: "half: the stack is left out, or multiply-adds"})
        check("a row (3,) @ (3,4)", matmul_flops((3,), (3, 4)), 24, {72: "the row's only axis was taken for a height, too"})
        check("(2,3) @ a column (3,)", matmul_flops((2, 3), (3,)), 12, {36: "the column's only axis was taken for a width"})
        check("broadcast (8,1,5,4) @ (3,4,2)", matmul_flops((8, 1, 5, 4), (3, 4, 2)), 1920, {640: "the broadcast stack is left out"})
        counted = [(matmul_flops((m, k), (k, n)), 2 * matmul_by_loop(np.ones((m, k)), np.ones((k, n)))[1]) for m, k, n in ((1, 1, 1), (2, 5, 3), (4, 1, 6))]
        check("(1,1) @ (1,1), (2,5) @ (5,3), (4,1) @ (1,6): formula = 2 x loop", counted, [(2, 2), (60, 60), (48, 48)])
        check_raises("inner sizes differ", ValueError, lambda: matmul_flops((2, 3), (2, 3)), must_say="3 and 2")


    test_matmul_flops()

# %% [markdown]
"""
**A linear layer** is a matrix product whose rows are *all* leading axes: 7 sequences of 5 tokens are 35 rows.

**Task.** Write `linear_flops(input_shape, out_features)`: the whole batch, bias free. Example: `linear_flops((1, 128), 64)` is `16_384`.

<details><summary>Hint 1: idea</summary>
Every number of the input meets every column of the weight once.
</details>
<details><summary>Hint 2: approach</summary>
How many numbers has the input, over all its axes? Each is multiplied and added <code>out_features</code> times.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(3, 2, 6)</code> to 4: 36 numbers, 4 multiply-adds each, 2 FLOPs: 288.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "linear-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def linear_flops(input_shape, out_features):
    """Return the FLOPs of a linear layer on the whole input: (..., in) -> (..., out_features); the bias is free.

    Every position counts: all leading axes are rows. Example: ``linear_flops((32, 128), 64)`` is 524,288.

    Raises:
        TypeError: a size is no integer, or ``input_shape`` no tuple.
        ValueError: a size is below 1.
    """
    shape, out_features = sizes("input_shape", input_shape), positive("out_features", out_features)
    raise NotImplementedError("linear_flops: section 2, cell 6")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-linear-flops", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_linear_flops():
        """Factor 2, bias, batch, middle axes."""
        check("(1,128) to 64", linear_flops((1, 128), 64), 16_384, {8192: "half: you counted multiply-adds, not FLOPs", 16_448: "the bias was counted; it rides free"})
        check("(32,128) to 64, the whole batch", linear_flops((32, 128), 64), 524_288, {16_384: "the batch is left out; closed forms take the whole input"})
        check("(5,7,8) to 4", linear_flops((5, 7, 8), 4), 2240, {
            320: "the middle axis was dropped", 1120: "half: multiply-adds", 448: "the batch is left out", 1960: "the features are the last axis, not the second"})
        check("no batch axis: (8,) to 4", linear_flops((8,), 4), 64, {8: "the only axis was taken for the batch"})
        counted = matmul_by_loop(np.ones((10, 3)), np.ones((3, 4)))[1]
        check("(2,5,3) to 4 is (10,3) @ (3,4): formula = 2 x loop", (linear_flops((2, 5, 3), 4), 2 * counted), (240, 240))
        check("GPT-2's feed-forward, 32 x 512 tokens", linear_flops((32, 512, 768), 3072), 77_309_411_328, {0: "counted in 32 bits, in which 18 · 2³² is 0; Python's own whole numbers have no end"})
        check_raises("no features", ValueError, lambda: linear_flops((2, 3), 0), must_say="out_features is 0")


    test_linear_flops()

# %% [markdown]
"""
**A convolution** slides a small window over an image. At every place where the window stops, it computes one number per output channel from all the pixels under the window, in all input channels:

```
image 5 wide, padding 1:   . x x x x x .      kernel 3: positions   [. x x]        stride 2:   [. x x]
                                                                     [x x x] ...                   [x x x]
                                                                                                       [x x .]
a window of k pixels, d apart (dilation), reaches over  d·(k-1) + 1  pixels
stops:  (n + 2·padding - reach) // stride + 1           <- the floor: a stop that does not fit is not made
groups: the channels are cut into g groups that do not see each other; a window looks at C/g channels
```

A loop that really slides, to have something to believe:
"""

# %%
if __name__ == "__main__":
    from itertools import product


    def conv2d_by_loop(image, weight, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
        """Convolve (B, C, H, W) with (O, C/groups, kh, kw) by loops; return the output's shape and the multiply-adds."""
        B, C, H, W = image.shape
        outs, per_group, kh, kw = weight.shape
        padded = np.pad(image, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
        tops = range(0, padded.shape[2] - dilation[0] * (kh - 1), stride[0])
        lefts = range(0, padded.shape[3] - dilation[1] * (kw - 1), stride[1])
        count, out = 0, np.zeros((B, outs, len(tops), len(lefts)))
        for n, o, (i, top), (j, left) in product(range(B), range(outs), enumerate(tops), enumerate(lefts)):
            for c in range(per_group):
                for y in range(kh):
                    for x in range(kw):
                        channel = o // (outs // groups) * per_group + c
                        out[n, o, i, j] += weight[o, c, y, x] * padded[n, channel, top + y * dilation[0], left + x * dilation[1]]
                        count += 1
        return out.shape, count


    print(conv2d_by_loop(np.ones((1, 2, 5, 5)), np.ones((3, 2, 3, 3)), stride=(2, 2), padding=(1, 1)))

# %% [markdown]
"""
**Task.** Write `conv2d_flops(input_shape, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1)`. Checked for you, and ready as pairs (height, width): `kernel`, `stride`, `padding`, `dilation`. Yours: the output's height and width, then the count.

Example: `conv2d_flops((1, 3, 32, 32), 16, 3)` is `777_600`: 30 · 30 stops, 16 channels, 3 · 3 · 3 multiply-adds, 2 FLOPs each.

<details><summary>Hint 1: idea</summary>
As before: how many numbers come out, and how many multiply-adds went into each?
</details>
<details><summary>Hint 2: approach</summary>
Out come <code>batch · out_channels · H' · W'</code>. Into each went <code>(channels // groups) · kh · kw</code>. <code>H'</code> is the stops formula above, and <code>zip</code> walks height and width side by side.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
7 wide, kernel 2, dilation 3, padding 1, stride 2: the window reaches 3·1 + 1 = 4; (7 + 2 - 4) // 2 + 1 = 3 stops.
</details>
"""

# %%
#| export
def _check_convolution(image, out_channels, kernel, padding, dilation, groups, channels):
    """Refuse a window that does not fit into the padded image and groups that do not divide the channels."""
    for n, k, p, d in zip(image, kernel, padding, dilation):
        if d * (k - 1) + 1 > n + 2 * p:
            raise ValueError(f"kernel {kernel} with dilation {dilation} reaches over {d * (k - 1) + 1} pixels; "
                             f"the padded image has {n + 2 * p}")
    if channels % groups or out_channels % groups:
        raise ValueError(f"groups is {groups}; it must divide {channels} input and {out_channels} output channels")

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "conv2d-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def conv2d_flops(input_shape, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1):
    """Return the FLOPs of a 2-D convolution on the whole batch (B, C, H, W); the bias is free.

    Sizes may be one integer or (height, width); padded pixels count, as the hardware multiplies them.
    Example: ``conv2d_flops((1, 3, 32, 32), 16, 3)`` is 777,600.

    Raises:
        TypeError: a size is no integer.
        ValueError: other than four axes, a kernel that reaches over the padded image, or groups that do not divide.
    """
    batch, channels, *image = sizes("input_shape", input_shape, rank=4)
    kernel, stride = pair("kernel_size", kernel_size), pair("stride", stride)
    padding, dilation = pair("padding", padding, least=0), pair("dilation", dilation)
    out_channels, groups = positive("out_channels", out_channels), positive("groups", groups)
    _check_convolution(image, out_channels, kernel, padding, dilation, groups, channels)
    raise NotImplementedError("conv2d_flops: section 2, cell 10")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-conv2d-flops", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_conv2d_flops():
        """Output size, padding, stride, dilation, groups, batch; formula and loop agree."""
        check("3 to 16, k3, on 32x32", conv2d_flops((1, 3, 32, 32), 16, 3), 777_600, {
            884_736: "output size taken as input size / stride", 388_800: "half: multiply-adds, not FLOPs", 777_600 + 14_400: "the bias was counted", 726_624: "one stop too few each way: + 1",
            259_200: "the input channels are left out", 48_600: "the output channels are left out"})
        check("3 to 8, k3, padding 1, on 10x12", conv2d_flops((1, 3, 10, 12), 8, 3, padding=1), 51_840, {34_560: "padding left out", 432: "the image size left out", 25_920: "half: multiply-adds", 42_768: "padding added on one side only", 43_200: "the height was taken for the width", 72_576: "padding left out, and height for width"})
        check("kernel (3,5), stride 2, dilation 2, on 15x17", conv2d_flops((1, 3, 15, 17), 8, (3, 5), 2, 0, 2), 21_600, {
            35_280: "dilation ignored", 14_400: "a window reaches over d·(k-1) + 1 pixels, not d·k", 12_960: "the kernel's height was taken for its width", 10_800: "half: multiply-adds", 20_160: "height and width of the kernel swapped"})
        check("kernel (1,7), stride (2,3), padding (0,3)", conv2d_flops((2, 2, 9, 11), 5, (1, 7), (2, 3), (0, 3)), 5600, {
            5040: "stride axes swapped", 2800: "half: the batch left out, or multiply-adds", 7000: "rounded up: a stop that does not fit is not made", 4480: "padding axes swapped"})
        check("4 to 6, groups 2, k3, on 8x8", conv2d_flops((1, 4, 8, 8), 6, 3, groups=2), 7776, {15_552: "groups ignored", 3888: "divided by groups twice, or multiply-adds"})
        check("ResNet's first layer", conv2d_flops((1, 3, 224, 224), 64, 7, stride=2, padding=3), 236_027_904, {118_013_952: "half: multiply-adds, as many published tables"})
        ways = ({"stride": (2, 1)}, {"padding": (1, 2)}, {"dilation": (2, 1)}, {"groups": 2})
        counted = [(conv2d_flops((2, 4, 6, 5), 2, (3, 2), **how), 2 * conv2d_by_loop(np.ones((2, 4, 6, 5)), np.ones((2, 4 // how.get("groups", 1), 3, 2)), **how)[1]) for how in ways]
        check("(2,4,6,5) with stride (2,1), padding (1,2), dilation (2,1), groups 2: formula = 2 x loop", counted, [(1536, 1536), (9216, 9216), (1536, 1536), (1536, 1536)])
        check_raises("a kernel larger than the image", ValueError, lambda: conv2d_flops((1, 1, 2, 2), 1, 3), must_say="3 pixels")


    test_conv2d_flops()

# %% [markdown]
"""
**What if** you double the stride? The kernel? Guess the factor each time, then run.
"""

# %%
if __name__ == "__main__":
    guess("doubling a convolution's stride multiplies its FLOPs by", None, sure=0.5)
    guess("doubling a convolution's kernel multiplies its FLOPs by", None, sure=0.5)

# %%
if __name__ == "__main__":
    base = conv2d_flops((1, 64, 56, 56), 64, 3, padding=1)
    for label, cost in (("stride 2", conv2d_flops((1, 64, 56, 56), 64, 3, stride=2, padding=1)), ("kernel 6", conv2d_flops((1, 64, 56, 56), 64, 6, padding=1)),
                        ("dilation 2", conv2d_flops((1, 64, 56, 56), 64, 3, padding=2, dilation=2)), ("groups 64", conv2d_flops((1, 64, 56, 56), 64, 3, padding=1, groups=64))):
        print(f"{label:>10}: x {cost / base:.3f}")
        if label in ("stride 2", "kernel 6"):
            settle(f"doubling a convolution's {label.split()[0]} multiplies its FLOPs by", round(cost / base, 2))

# %% [markdown]
"""
**Attention.** Look again at the picture in section 0, with `B` sequences, length `T`, width `D`, `h` heads of `d = D / h` numbers. Four projections, and two products *per head*:

```
query, key, value, out:        4 times (B, T, D) @ (D, D)
scores:   (B, h, T, d) @ (B, h, d, T)          mixed:   (B, h, T, T) @ (B, h, T, d)
```

**Task.** Write `attention_flops(batch, length, embed_dim, heads)`, projections included, softmax and scaling (no contractions) left out. Guess first: does the number of heads change it?

<details><summary>Hint 1: idea</summary>
You have <code>linear_flops</code> and <code>matmul_flops</code>. Nothing new is needed.
</details>
<details><summary>Hint 2: approach</summary>
Write down the shapes of all six contractions. The picture above has them; the first four are alike, the other two are stacks of <code>B·h</code> products.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
B 1, T 3, D 4, h 2: projections 4 · 2·3·4·4 = 384; scores 2 heads · 2·3·3·2 = 72, mixed the same: 528.
</details>
"""

# %%
if __name__ == "__main__":
    guess("with 8 heads, attention costs this many times the FLOPs of 1 head", None, sure=0.5)

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "attention-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def attention_flops(batch, length, embed_dim, heads):
    """Return the contraction FLOPs of multi-head self-attention on (batch, length, embed_dim), projections included.

    The layer is that of Vaswani and others, 2017. Example: ``attention_flops(1, 10, 64, 4)`` is 353,280.

    Raises:
        TypeError: a size is no integer.
        ValueError: a size is below 1, or ``heads`` does not divide ``embed_dim``.
    """
    batch, length, dim = positive("batch", batch), positive("length", length), positive("embed_dim", embed_dim)
    heads = positive("heads", heads)
    if dim % heads:
        raise ValueError(f"embed_dim {dim} cannot be cut into {heads} heads; choose heads that divide it")
    raise NotImplementedError("attention_flops: section 2, cell 15")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-attention-flops", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_attention_flops():
        """Six contractions, heads that do not matter, refusals."""
        check("d64, 4 heads, (1,10,64)", attention_flops(1, 10, 64, 4), 353_280, {
            327_680: "projections only", 340_480: "one of the two products is missed", 189_440: "projections counted as multiply-adds",
            176_640: "half: multiply-adds", 271_360: "the output projection is missed", 25_600: "the projections are left out", 353_280 + 76_800: "heads multiplied in once too often",
            360_960: "each query meets each key: (T, d) @ (d, T)"})
        check("the same for 1, 2, 4, 8 heads", len({attention_flops(1, 10, 64, h) for h in (1, 2, 4, 8)}), 1, {4: "the number of heads must not matter: h · (D/h) = D"})
        check("batch 3 is three times", attention_flops(3, 10, 64, 4), 3 * 353_280, {
            1_008_640: "the batch is left out of the two products", 404_480: "the batch is left out of the projections", 353_280: "the batch is left out"})
        check("twice the length is more than twice", attention_flops(1, 20, 64, 4), 757_760, {706_560: "the products grow with the square of the length"})
        check_raises("64 cannot be cut into 5", ValueError, lambda: attention_flops(1, 10, 64, 5), must_say="5 heads")


    test_attention_flops()

# %%
if __name__ == "__main__":
    settle("with 8 heads, attention costs this many times the FLOPs of 1 head", attention_flops(1, 64, 512, 8) // attention_flops(1, 64, 512, 1))

# %% [markdown]
"""
Why? The projections are `8·B·T·D²`, the two products `4·B·h·T²·d`, and `h·d = D` whatever `h` is: `8·B·T·D² + 4·B·T²·D`.

**What it means for a real model.** With these forms alone you can cost GPT-2 from its configuration: per block attention and two feed-forward layers, and at the end the head, `(T, D) @ (D, V)`. Where is the length at which the *square* term overtakes the projections?
"""

# %%
if __name__ == "__main__":
    def gpt_flops(length, dim, heads, blocks, vocabulary):
        """Cost a GPT from its configuration: contractions of one sequence, the head included."""
        block = attention_flops(1, length, dim, heads) + linear_flops((1, length, dim), 4 * dim) + linear_flops((1, length, 4 * dim), dim)
        return blocks * block + linear_flops((1, length, dim), vocabulary)


    for name, (T, D, h, L) in {"GPT-2 small": (1024, 768, 12, 12), "GPT-2 XL": (1024, 1600, 25, 48), "GPT-3": (2048, 12288, 96, 96)}.items():
        print(f"{name:>12}: {gpt_flops(T, D, h, L, 50_257):>23,} FLOPs for {T} tokens")
    longer = next(T for T in range(64, 10_000, 64) if attention_flops(1, T, 768, 12) > 2 * 4 * linear_flops((1, T, 768), 768))
    print(f"at width 768 the two products overtake the four projections beyond {longer - 64} tokens")

# %% [markdown]
"""
<details><summary>Reflect: a paper says how many GFLOPs ResNet-50 has. Your formulas give twice as many. Who is right?</summary>
Both count the same work; the paper counts multiply-adds. Always ask which, before you compare.
</details>
<details><summary>Why does doubling the number of heads cost nothing, and why does it still take longer on a real machine?</summary>
Twice as many products of half the depth: the same FLOPs. But smaller products use the machine less well, and the table of scores (one per head) is written and read twice as much: bytes, not FLOPs.
</details>

## 3. What is computed, in any model

*50 minutes · 16 points*

**Question.** Closed forms are for layers somebody has a formula for. What about a model you wrote yourself, with a skip connection, attention as a function, a weight used twice?

Every computation of this framework passes one door (Module 01). So: **listen at the door, and price what you hear.** Ten minutes to remember how that goes. First every event of a `Linear(2, 3)`, run on real numbers:
"""

# %%
if __name__ == "__main__":
    layer = Linear(2, 3)
    with listen(lambda event: print(event.op.name, event.in_shapes, "->", event.out_shape, f"{event.num_bytes} bytes")):
        layer(Tensor([[1.0, 2.0]]))

# %% [markdown]
"""
And now the same layer with a *hollow* input, under `shape_only()`. The event is the same, but no number was there to compute with:
"""

# %%
if __name__ == "__main__":
    with shape_only(), listen(lambda event: print(event.op.name, event.in_shapes, "->", event.out_shape, f"{event.num_bytes} bytes")):
        print("strides of the output (0 means: one number stands for all):", layer(Tensor(hollow((1, 2)))).data.strides)

# %% [markdown]
"""
So a layer of any size weighs nothing:
"""

# %%
if __name__ == "__main__":
    with shape_only():
        giant = Linear(1_000_000, 1_000_000)
        with listen(lambda event: print(event.op.name, event.in_shapes, "->", event.out_shape, f"\n{event.num_bytes:,} bytes, if it were real")):
            giant(Tensor(hollow((1, 1_000_000))))

# %% [markdown]
"""
An event says *which* op ran on *which* shapes. What is missing is a price list: a table from op to a **cost rule**, a function of shapes. The table is separate from the ops, so anybody can add a row for a new op without touching it:
`@flops(my_op)` above `rule(out_shape, *in_shapes, **attrs)`. `free(...)` registers a price of 0, on purpose and by name.

Two decisions to notice. An op *without* a rule is never quietly taken for free: its price is unknown, and every report names it. And a second rule for the same op from *another* module is an error; from the same module it replaces the
first, because cells are run again. Given:
"""

# %%
#| export
FLOPS: dict = {}  #: {op: ``rule(out_shape, *in_shapes, **attrs) -> int``}, in FLOPs
CONTRACTIONS: set = set()  #: the ops that multiply and add: linear, matmul, ...


def flops(operation, contraction=False):
    """Register an op's cost rule, in FLOPs: ``@flops(my_op)`` above ``rule(out_shape, *in_shapes, **attrs) -> int``.

    ``contraction`` marks an op that multiplies and adds. A second rule from the same module replaces the first.

    Raises:
        TypeError: ``operation`` is no op.
        ValueError: another module has given this op its rule.
    """
    if not isinstance(operation, Op):
        raise TypeError(f"flops: a {type(operation).__name__} came; want an op")

    def register(rule):
        before = getattr(FLOPS.get(operation), "__module__", rule.__module__)
        if before != rule.__module__:
            raise ValueError(f"{operation.name}: its cost rule is in {before}; {rule.__module__} cannot replace it")
        FLOPS[operation] = rule
        (CONTRACTIONS.add if contraction else CONTRACTIONS.discard)(operation)
        return rule
    return register

# %%
#| export
def _costs_nothing(out_shape, *in_shapes, **attrs):
    """Price what only moves, views or selects: 0."""
    return 0


def free(*operations):
    """Register ops that only move, view or select: they cost 0 FLOPs, and that is known, not forgotten.

    Raises:
        ValueError: an op has a cost rule already.
    """
    for operation in operations:
        if FLOPS.get(operation, _costs_nothing).__name__ != _costs_nothing.__name__:
            raise ValueError(f"{operation.name}: it has a cost rule, in {FLOPS[operation].__module__}")
        flops(operation)(_costs_nothing)


def is_contraction(operation):
    """Say whether an op multiplies and adds (linear, matmul, convolutions): the subtotal papers quote. A bool."""
    return operation in CONTRACTIONS

# %% [markdown]
"""
Given: the rules that price all arithmetic of modules 01 to 05. They receive shapes, which here may contain 0: an empty batch is legal and costs nothing. Two of them you have written before, as `matmul_flops` and `linear_flops`.

| rule | price | for |
|---|---|---|
| `per_output` | 1 per output element | add, multiply, exp, relu, comparisons, … |
| `per_input` | 1 per element of the first input | sums, maxima |
| `matmul_cost`, `linear_cost` | 2 per multiply-add, the bias free | `matmul`, `linear` |
"""

# %%
#| export
def per_output(out_shape, *in_shapes, **attrs):
    """Price elementwise arithmetic in FLOPs: 1 per output element."""
    return prod(out_shape)


def per_input(out_shape, a, *others, **attrs):
    """Price a reduction in FLOPs: 1 per input element."""
    return prod(a)

# %%
#| export
@flops(ops.matmul, contraction=True)
def matmul_cost(out_shape, a, b):
    """Price a matrix product in FLOPs: 2 per multiply-add; a (..., m, k), b (..., k, n)."""
    return 2 * a[-1] * prod(out_shape)


@flops(linear, contraction=True)
def linear_cost(out_shape, x, weight, bias=None):
    """Price a linear layer in FLOPs: 2 per multiply-add, the bias free; x (..., in), weight (in, out)."""
    return 2 * x[-1] * prod(out_shape)

# %% [markdown]
"""
The rest of the price list is bookkeeping: which op goes by which rule. A comparison is arithmetic (a subtraction whose sign is kept); a `where` only selects; a `cast`, a `put`, a `concatenate` only copy. And `event_flops` looks a price up: `None` means *unknown*.
"""

# %%
#| export
for _each in (ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.power, ops.sqrt, ops.maximum,
              ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal,
              activations.exp, activations.log, activations.relu, activations.sigmoid, activations.tanh, dropout_mask):
    flops(_each)(per_output)
for _each in (ops.reduce_sum, ops.reduce_max, ops.argmax):
    flops(_each)(per_input)
free(ops.reshape, ops.transpose, ops.broadcast_to, ops.index, ops.put, ops.concatenate, ops.where, ops.cast,
     losses.pick)

# %% [markdown]
"""
Images and sequences bring a few ops of their own. A convolution multiplies and adds, whichever of its three passes it is: forwards, back to the image, back to the weight. Each pass makes the same products, `C / groups · kh · kw` for every number of
the *output*, and only adds them up along other axes; so one count serves all three. A pooling window looks at each of its elements once. Positions (sines) and causal masks (comparisons) are made, one by one, like any other number.
"""

# %%
#| export
@flops(spatial.conv2d, contraction=True)
def conv2d_cost(out_shape, x, weight, *bias, **how):
    """Price a convolution in FLOPs: 2 per multiply-add, the bias free; weight (out_channels, C/groups, kh, kw)."""
    return 2 * prod(out_shape) * prod(weight[1:])


@flops(spatial.conv2d_input_gradient, contraction=True)
def conv2d_input_gradient_cost(out_shape, g, weight, **how):
    """Price the way back to the image in FLOPs: the products of the forward pass; ``g`` has its output's shape."""
    return conv2d_cost(g, out_shape, weight)


@flops(spatial.conv2d_weight_gradient, contraction=True)
def conv2d_weight_gradient_cost(out_shape, g, x, **how):
    """Price the way back to the weight (``out_shape``) in FLOPs: the products of the forward pass once more."""
    return conv2d_cost(g, x, out_shape)


def pool_cost(out_shape, *in_shapes, kernel, **how):
    """Price pooling in FLOPs: 1 per element of each window, and a window for each element of the output."""
    return prod(out_shape) * prod(kernel)


def pool_back_cost(out_shape, g, *others, kernel, **how):
    """Price the way back through a pooling in FLOPs: the same windows, one for each element of ``g``."""
    return prod(g) * prod(kernel)


for _each in (spatial.max_pool2d, spatial.avg_pool2d, spatial.max_pool2d_pick):
    flops(_each)(pool_cost)
for _each in (spatial.max_pool2d_gradient, spatial.avg_pool2d_gradient):
    flops(_each)(pool_back_cost)
for _each in (embeddings.sinusoids, attention.causal_mask):
    flops(_each)(per_output)

# %%
#| export
def event_flops(event):
    """Return what one ``OpEvent`` cost in FLOPs, or None when its op has no rule: unknown is not zero."""
    rule = FLOPS.get(event.op)
    return None if rule is None else int(rule(event.out_shape, *event.in_shapes, **event.attrs))

# %% [markdown]
"""
Four things about an op its shapes at the door do not tell, and section 6 will ask for them: how much its *temporaries* inside add to the bytes it moves; into how many separate *products* a contraction falls (a stack of 16 small products is not one large one); whether it works in *pieces*, so that one after another fits into the caches; and how many *steps*, NumPy calls of its own, it takes beyond the one that any op makes.

Given, *skip on first reading*: a second, shorter list, `INSIDE`. A convolution, for example, frames its image, copies each window's pixels into a column, and multiplies sample by sample. `event_bytes` adds the temporaries, each written once and read once, to what went in and out. The printed lines below show both; where the two byte counts differ, an op has temporaries.
"""

# %%
#| export
class Inside(NamedTuple):
    """What happens inside an op: counts of temporary elements moved, products, pieces one at a time, steps."""

    elements: int = 0
    products: int = 1
    pieces: int = 1
    steps: int = 0  # small NumPy calls beyond the one that every op makes


def _matmul_inside(out_shape, a, b):
    """Find one product for each place of the stack."""
    return Inside(products=prod(out_shape[:-2]) if len(a) > 1 and len(b) > 1 else 1)


def _conv2d_inside(out_shape, x, weight, *bias, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """Find a convolution's framed image, its columns (kernel rows together or one by one), its sums, its blocks."""
    _, rows, blocks = spatial.plan(x, weight, None, stride, padding, dilation, groups, 4, spatial.out_size)
    images, (kh, kw), height = prod(x[:2]), weight[2:], x[2] + 2 * padding[0]
    framed = images * height * (x[3] + 2 * padding[1]) if any(padding) else 0
    columns = images * kh * kw * prod(out_shape[2:])
    strips = images * kw * height * out_shape[3] if rows < kh else 0
    sums = (kh // rows - 1) * prod(out_shape)
    pieces = max(1, len(blocks))
    steps = pieces * (2 + kh // rows) + any(padding)
    return Inside(2 * (framed + columns + strips + sums), x[0] * groups * kh // rows, pieces, steps)


def _pool_inside(out_shape, *in_shapes, kernel, **how):
    """Find, for each place in a window, what was found so far: read, and written again, a step for each."""
    return Inside(4 * prod(out_shape) * prod(kernel), steps=3 + prod(kernel))

# %%
#| export
#: {op: ``rule(out_shape, *in_shapes, **attrs) -> Inside``}
INSIDE: dict = {
    ops.matmul: _matmul_inside, spatial.conv2d: _conv2d_inside,
    spatial.conv2d_input_gradient: lambda out, g, weight, size, **how: _conv2d_inside(g, out, weight, **how),
    spatial.conv2d_weight_gradient: lambda out, g, x, kernel, **how: _conv2d_inside(g, x, out, **how),
    spatial.max_pool2d: _pool_inside, spatial.avg_pool2d: _pool_inside, spatial.max_pool2d_pick: _pool_inside,
    spatial.max_pool2d_gradient: lambda out, g, *others, **how: _pool_inside(g, **how),
    spatial.avg_pool2d_gradient: lambda out, g, *others, **how: _pool_inside(g, **how),
    activations.sigmoid: lambda out, a: Inside(10 * prod(out)),  # |a|, -|a|, e to it, a choice, 1 + e; each both ways
    dropout_mask: lambda out, a, **how: Inside(6 * prod(out))}  # random numbers in float64, and what was kept


def inside(event):
    """Return the ``Inside`` of the op of an ``OpEvent``: what is known of it; nothing extra where nothing is."""
    rule = INSIDE.get(event.op)
    return Inside() if rule is None else rule(event.out_shape, *event.in_shapes, **event.attrs)


def event_bytes(event):
    """Return the bytes one op (an ``OpEvent``) moves: inputs read, output written, temporaries written and read."""
    elements = prod(event.out_shape) + sum(map(prod, event.in_shapes))
    extra = inside(event).elements
    return event.num_bytes + (extra * event.num_bytes // elements if extra and elements else 0)


def event_footprint(event):
    """Return how many bytes one op has in hand at a time: in, out and temporaries, of one of its pieces."""
    return (event.num_bytes + event_bytes(event)) / 2 / inside(event).pieces

# %%
if __name__ == "__main__":
    with listen(lambda event: print(f"{event.op.name:>10} {str(event.in_shapes):<34} {event_flops(event):>7,} FLOPs, {event_bytes(event):>7,} bytes, {event.num_bytes:>6,} in and out")):
        softmax(Tensor(np.ones((2, 8))))
        filtered = spatial.conv2d(Tensor(np.ones((1, 3, 32, 32))), Tensor(np.ones((16, 3, 3, 3))))
        spatial.max_pool2d(filtered, kernel=(2, 2), stride=(2, 2))
    print("adding (4, 1) and (3,):", per_output((4, 3), (4, 1), (3,)), " adding up (4, 3) along axis 1:", per_input((4,), (4, 3), axis=1))
    print("(2, 5, 3) to 7, with a bias:", linear_cost((2, 5, 7), (2, 5, 3), (3, 7), (7,)), " and from an empty batch:", linear_cost((0, 7), (0, 3), (3, 7)))

# %% [markdown]
"""
**Leaving no trace.** A run on shapes still runs the model's *code*. It may update running statistics, append to a list, count its calls, draw random numbers. Whoever counts must not train. So every run of ours happens inside
`untouched(model)`, which remembers everything that is not weight-sized and puts it back, whether the run succeeded or not. Gradients are put aside for the time being, so that a backward pass inside starts from none. Given (*skip on first reading*; the last cell before the next text shows what it does):
"""

# %%
#| export
def _put_back_dict(known, before):
    if list(known) != list(before) or any(known[key] is not before[key] for key in before):
        known.clear()
        known.update(before)


def _put_back_set(known, before):
    known.clear()
    known.update(before)


def _put_back_deque(known, before):
    if not (len(known) == len(before) and all(map(is_, known, before))):
        known.clear()
        known.extend(before)


def _put_back_slots(thing, before):
    for name in slot_names(type(thing)):
        if name in before and getattr(thing, name, None) is not before[name]:
            object.__setattr__(thing, name, before[name])


def _put_back_array(array, before):
    if not np.array_equal(array, before, equal_nan=array.dtype.kind == "f"):
        array[...] = before


def _put_back_tensor(tensor, data, requires_grad, grad, made_by):
    tensor.data, tensor.requires_grad, tensor.grad, tensor.made_by = data, requires_grad, grad, made_by

# %%
#| export
@lru_cache
def _how_to_put_back(kind):
    """Return, for things of this type, pairs: how to take down their state and how to put it back."""
    rows = [
        (np.random.Generator, lambda g: g.bit_generator.state, lambda g, it: setattr(g.bit_generator, "state", it)),
        (np.random.RandomState, lambda g: g.get_state(), lambda g, state: g.set_state(state)),
        (random.Random, lambda g: g.getstate(), lambda g, state: g.setstate(state)),
        (Tensor, lambda t: (t.data, t.requires_grad, t.grad, t.made_by), lambda t, state: _put_back_tensor(t, *state)),
        (np.ndarray, lambda a: a.copy(), _put_back_array),
        (list, list, lambda items, state: items.__setitem__(slice(None), state)),
        (set, set, _put_back_set),
        (deque, list, _put_back_deque),
        (dict, dict, _put_back_dict),
    ]
    return [(take, put) for base, take, put in rows if issubclass(kind, base)]


def _remember(thing):
    """Return functions that put one thing back as it is now: attributes, items, contents, random state."""
    undo = []
    if not (isinstance(thing, np.ndarray) and not thing.flags.writeable):
        undo += [partial(put, thing, take(thing)) for take, put in _how_to_put_back(type(thing))]
    if hasattr(thing, "__dict__") and parts(thing):
        undo.append(partial(_put_back_dict, vars(thing), dict(vars(thing))))
    if not isinstance(thing, Tensor) and slot_names(type(thing)):
        undo.append(partial(_put_back_slots, thing, dict(parts(thing))))
    return undo

# %%
#| export
_turn = threading.RLock()


@contextmanager
def _taking_turns(longest_s=300):
    """Wait until no other thread measures; ``RuntimeError`` when that does not come about."""
    if not _turn.acquire(timeout=longest_s):
        raise RuntimeError(f"another thread has been measuring for {longest_s} s; a model that measures in a thread of "
                           "its own while it is measured waits for ever: measure one after another")
    try:
        yield
    finally:
        _turn.release()

# %%
#| export
@contextmanager
def untouched(model):
    """Leave the model as it was, whatever happens inside: attributes, lists, running statistics, gradients, randomness.

    ``with untouched(model): ...``. Gradients are put aside (``grad`` is None inside) and come back after. The
    *contents* of weights are not copied: a forward that writes into its own weights is not undone. NumPy's warnings
    about NaN and inf are off inside: what the data holds is the caller's affair, not the instrument's.

    The room is private: no listener outside hears what happens inside, so a model that is measured while it is being
    measured does not count the inner instrument's calls as its own. Threads take turns: two instruments at once would
    spoil each other's numbers, and what each takes down and puts back.

    Raises:
        RuntimeError: another thread has been measuring for 300 seconds.
    """
    with _taking_turns():
        yield from _left_as_it_was(model)


def _left_as_it_was(model):
    """Take down what the model and the room are like, yield once, and put everything back."""
    inside = things_in(model)
    things = {id(thing): thing for thing in (*inside, *_held_among(inside), default_generator())}
    undo = [put_back for thing in things.values() for put_back in _remember(thing)]
    undo += [partial(np.random.set_state, np.random.get_state()), partial(random.setstate, random.getstate())]
    state = thread_state()
    outside = state.private, state.hearers, state.scope_hearers, state.path
    try:
        state.private, state.hearers, state.scope_hearers, state.path = True, (), (), ()
        for thing in things.values():
            if isinstance(thing, Tensor):
                thing.grad = None
        with np.errstate(all="ignore"):
            yield
    finally:
        state.private, state.hearers, state.scope_hearers, state.path = outside
        for put_back in undo:
            put_back()

# %%
if __name__ == "__main__":
    class Restless(Layer):
        """Changes itself on every call: what a guard is for."""

        def __init__(self):
            self.calls, self.log, self.mean = 0, [], np.zeros(2)

        def forward(self, x):
            self.calls += 1
            self.log.append(x.shape)
            self.mean += 1
            return x * float(default_generator().random())


    restless = Restless()
    with untouched(restless):
        restless(Tensor([1.0, 2.0]))
        print("inside:", restless.calls, restless.log, restless.mean)
    print("after: ", restless.calls, restless.log, restless.mean)

# %% [markdown]
"""
Two more things are given. `forward_of(model)` finds what to call, and refuses in one sentence what cannot be run: an object without `forward` (the order in which its layers run would be a guess), a class instead of an object, a forward that returns no
`Tensor`. `Heard` is a notepad for what was heard: events in order, and how often each scope was opened.
"""

# %%
#| export
def forward_of(model):
    """Return a function from input to output of the model; it raises ``TypeError`` when forward returns no Tensor.

    Several Tensors, in a tuple, list or dict, are fine. A bare Tensor lets its input pass.

    Raises:
        ValueError: the model has no forward to run, or is a class.
    """
    kind = type(model).__name__
    if isinstance(model, Tensor):
        return lambda x: x  # a bare Tensor lets its input pass
    if isinstance(model, type):
        raise ValueError(f"the class {model.__name__} came; make an object of it first: {model.__name__}(...)")
    call = model if callable(model) else getattr(model, "forward", None)
    if not callable(call):
        hint = "; wrap its layers: Sequential(*model.layers)" if hasattr(model, "layers") else ""
        raise ValueError(f"a {kind} has no forward, so it cannot be run; only its parameters can be counted{hint}")

    def run(x):
        output = call(x)
        if not isinstance(output, Tensor) and not named_tensors(output):
            what = f"{kind}.forward" if hasattr(model, "forward") else getattr(model, "__name__", kind)
            raise TypeError(f"{what} returned a {type(output).__name__}; want a Tensor")
        return output
    return run

# %%
#| export
class Heard:
    """What was heard of a run: ``events`` in order, ``calls`` by scope path; and its ``output`` and input ``dtype``."""

    def __init__(self):
        self.events, self.calls, self.output, self.dtype = [], {}, None, None

    def op(self, event):
        """Note one ``OpEvent``, at the end of ``events``."""
        self.events.append(event)

    def scope(self, opened, entry, time_ns):
        """Note that a scope was opened; its path is the thread's."""
        if opened:
            path = thread_state().path
            self.calls[path] = self.calls.get(path, 0) + 1

# %% [markdown]
"""
**Task.** Write `run_on_shapes(model, input_shape, dtype=np.float32)`: run the model's forward once on a hollow input of that shape, and return the `Heard`, with its `events`, `calls`, `output` and `dtype` filled in. It must happen inside `untouched(model)`, on shapes only, without keeping a graph
(`no_grad()`), and leave no listener behind.

Example: `[e.op.name for e in run_on_shapes(Linear(2, 3), (5, 2)).events]` is `["linear"]`.

<details><summary>Hint 1: idea</summary>
You wrote <code>count_ops</code> in Module 01: the same, with more to remember.
</details>
<details><summary>Hint 2: approach</summary>
One <code>with</code> line of four context managers; <code>listen(heard.op, heard.scope)</code> must come <em>after</em> <code>shape_only()</code>, which is a room of its own. The hollow input: <code>Tensor(hollow(shape, dtype))</code>, where <code>Tensor</code> must not change the type: <code>dtype=dtype</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>with open(a) as source, open(b, "w") as copy: copy.write(source.read())</code>: several managers in one line, left to right.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "run-on-shapes", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def run_on_shapes(model, input_shape, dtype=np.float32):
    """Run the model's forward once on shapes only; return what was ``Heard``. Nothing is computed or left changed.

    Raises:
        ValueError: the model has no forward; whatever else the model raises passes through.
    """
    heard, run = Heard(), forward_of(model)
    raise NotImplementedError("run_on_shapes: section 3, cell 21")

# %%
if __name__ == "__main__":
    for event in run_on_shapes(Sequential(Linear(4, 3), ReLU(), Linear(3, 2)), (7, 4)).events:
        print(f"{event.op.name:>8} {event.out_shape} {event_flops(event):>4} FLOPs in {' > '.join(s.name for s in event.scope)}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-run-on-shapes", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_run_on_shapes():
        """What is heard, that nothing is computed, that nothing is left behind."""
        heard = run_on_shapes(Sequential(Linear(4, 3), ReLU(), Linear(3, 2)), (7, 4))
        check("ops in order", [e.op.name for e in heard.events], ["linear", "relu", "linear"], {(): "nothing was heard: listen(...) must come after shape_only() and untouched(model)",
                                                                                            ("linear", "relu", "linear", "linear", "relu", "linear"): "the model ran twice"})
        check("the output was kept", heard.output is not None, True, {False: "heard.output is not filled in: it is what run(...) returns"})
        check("the output's shape", heard.output.shape, (7, 2))
        check("scopes opened", sum(heard.calls.values()), 4, {0: "scopes were not listened to: listen(heard.op, heard.scope)"})
        check("nothing was computed: the output holds one number", heard.output.data.strides, (0, 0), {(8, 4): "it was really computed"})
        check("the input is hollow, too: it holds one number", run_on_shapes(lambda x: x, (7, 4)).output.data.strides, (0, 0), {(16, 4): "an input of full size was made; hollow(...) needs none"})
        wide = run_on_shapes(ReLU(), (2,), np.float64)
        check("a float64 run stays one", str(wide.output.dtype), "float64", {"float32": "Tensor(hollow(...)) changed the type: dtype=dtype"})
        check("and the input's type is noted", str(wide.dtype), "float64", {"None": "heard.dtype is not filled in", "<class 'numpy.float64'>": "want np.dtype(dtype)"})
        check("no graph is kept", heard.output.made_by is None, True, {False: "no_grad() is missing"})
        run_on_shapes(restless, (2,))
        check("a restless model is as before", (restless.calls, len(restless.log), float(restless.mean.sum())), (0, 0, 0.0), {(1, 1, 2.0): "untouched(model) is missing"})
        check_raises("a wrong shape is the model's own error", ValueError, lambda: run_on_shapes(Linear(4, 3), (2, 5)), must_say="last axis is 5")
        check("nobody listens any more", (thread_state().shape_only, thread_state().hearers), (False, ()), {(True, ()): "everything still runs on shapes: shape_only() was entered and never left; use with"})


    test_run_on_shapes()

# %% [markdown]
"""
**Per sample.** People quote a model's FLOPs for *one* input. Dividing the whole batch by its size is not always whole (a model may also work on its weights), so we run the model with its first axis set to 1. Some models cannot (a
`reshape(32, -1)` written into them): those run as shaped, and the caller divides. So does a model that *can* run but hides a batch of its own, as `x + table` with a table of 32 rows: the one sample is stretched to 32 rows, and the whole batch would be counted as one. A
shape of one axis has no batch. Given: `one_sample`, which notices, and which tries whole numbers as input where the model asks for an index.
"""

# %%
#| export
def _run_as_wanted(model, shape):
    """Run on shapes with a float input, or with whole numbers where the model uses its input as an index."""
    try:
        return run_on_shapes(model, shape)
    except (IndexError, TypeError, ValueError) as error:
        if "integer" not in str(error):
            raise
    return run_on_shapes(model, shape, np.int64)  # what is wrong now, if anything, is the true reason

# %%
#| export
def stretches(events, batch):
    """Return how many ops stretched a first axis of 1 to ``batch`` (a count): is a batch written into the model?"""
    wide = [event for event in events if batch > 1 and event.out_shape[:1] == (batch,)]
    return sum({1, batch} <= {shape[0] for shape in event.in_shapes if len(shape) == len(event.out_shape)}
               for event in wide)


def one_sample(model, input_shape):
    """Return (events, samples): a run on shapes with the first axis 1 or, where the model cannot, as shaped.

    It cannot where it raises, or where it stretches one sample to the batch that is written into it. With a batch of
    1 there is no second try: what the model raises passes through.
    """
    if len(input_shape) == 1:
        return _run_as_wanted(model, input_shape).events, 1
    batch, refused = input_shape[0], None
    try:
        alone = _run_as_wanted(model, (1, *input_shape[1:])).events
    except Exception as error:
        refused = error  # perhaps this model has its batch size written into it
        if batch == 1:
            raise
    if refused is None and not stretches(alone, batch):
        return alone, 1
    shaped = _run_as_wanted(model, input_shape).events
    if refused is None and stretches(shaped, batch) == stretches(alone, batch):
        return alone, 1  # it stretches something of its own, whatever the batch
    return shaped, batch

# %% [markdown]
"""
**Task.** Write `count_flops(model, input_shape)`: FLOPs per sample, all primitives. Unknown prices add nothing here (the report names them). When `samples` does not divide the total, raise `ValueError` whose message names both numbers, the total and the samples. A bare `Tensor` is
settled for you: one FLOP per element of the shape given.

Example: `count_flops(Sequential(Linear(4, 3), ReLU(), Linear(3, 2)), (7, 4))` is 24 + 3 + 12 = `39`.

<details><summary>Hint 1: idea</summary>
Add up the prices of what was heard; divide by the samples.
</details>
<details><summary>Hint 2: approach</summary>
<code>one_sample</code> gives both. <code>event_flops(event) or 0</code> turns an unknown price into nothing. Use <code>//</code>, and <code>%</code> to see whether it is whole.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Sharing 12 coins among 5: <code>if 12 % 5: raise ValueError("12 coins cannot be shared among 5")</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "count-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def count_flops(model, input_shape):
    """Return the FLOPs of one forward pass **per sample**, found by running the model on shapes only.

    The first axis of ``input_shape`` is the batch (a rank-1 shape has none). Every primitive counts; see
    ``CONVENTION``. A bare Tensor costs one FLOP per element of the shape given. An op without a cost rule adds nothing
    to the number: ``flop_report(...).uncounted`` and ``Profiler.uncounted`` name it. On shapes there are no values: a
    model that decides by ``item()`` or ``bool()`` is refused, but one that reads ``x.data`` itself reads zeros, and
    is counted on the way it takes for zeros; ``profile_forward_pass`` counts the way it takes for your input.

    Raises:
        TypeError: ``input_shape`` is no tuple of integers.
        ValueError: an empty shape, a size below 1, a model without a forward, an input that does not fit, or a model
            with its batch written into it whose FLOPs do not divide evenly among the samples.
    """
    shape = sizes("input_shape", input_shape)
    if isinstance(model, Tensor):
        return prod(shape)
    raise NotImplementedError("count_flops: section 3, cell 26")

# %%
if __name__ == "__main__":
    class Skip(Layer):
        """x + linear(x): a model with a skip connection."""

        def __init__(self):
            self.inner = Linear(10, 10, bias=False)

        def forward(self, x):
            return x + self.inner(x)


    print(f"Linear(128, 64): {count_flops(Linear(128, 64), (32, 128)):,}; skip: {count_flops(Skip(), (1, 10))}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-count-flops", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_count_flops():
        """Per sample, every primitive, any model."""
        check("Linear(128, 64) at batch 32", count_flops(Linear(128, 64), (32, 128)), 16_384, {
            524_288: "the batch is in it: 32 times", 8192: "half: multiply-adds", 16_448: "the bias was counted", 512: "divided by the batch twice"})
        check("a Python int comes back", type(count_flops(Linear(128, 64), (32, 128))).__name__, "int", {"float": "/ makes a float: use //"})
        check("and at batch 1", count_flops(Linear(128, 64), (1, 128)), 16_384, {512: "divided by 32, whatever the batch is"})
        model = Sequential(Linear(4, 3), ReLU(), Linear(3, 2))
        check("24 + 3 + 12", count_flops(model, (7, 4)), 39, {273: "the batch is in it", 36: "the ReLU is missed", 24: "only the first layer"})
        check("every position of (7,5,4) counts", count_flops(Linear(4, 3), (7, 5, 4)), 120, {24: "the middle axis was dropped", 840: "the batch is in it"})
        check("a skip connection", count_flops(Skip(), (1, 10)), 210, {200: "the skip is missed", 10: "only the addition"})
        check("a model used three times in a row", [count_flops(model, (7, 4)) for _ in range(3)], [39, 39, 39], {(39, 78, 117): "what was counted before is still in it"})
        check("no batch axis", count_flops(Linear(8, 4), (8,)), 64, {8: "the only axis was taken for the batch"})
        check("a bare Tensor, (4, 8)", count_flops(Tensor([1.0]), (4, 8)), 32, {8: "for a bare Tensor the whole shape counts"})
        nameless = ops.op(shape=ops.same_shape)(lambda a: a)
        unpriced = type("Unpriced", (Layer,), {"forward": lambda self, x: nameless(x) + x})()
        check("an op without a rule adds nothing (event_flops(event) or 0)", count_flops(unpriced, (4, 10)), 10, {0: "the priced op is missed, too"})
        fixed = type("Fixed", (Layer,), {"forward": lambda self, x: x.reshape(32, -1) * 2.0})()
        check("a batch of 32 written into the model", count_flops(fixed, (32, 6)), 6, {192: "not divided by the samples", 0: "it was not run as shaped"})
        uneven = type("Uneven", (Layer,), {"forward": lambda self, x: x.reshape(32, -1) + Tensor([1.0]) * 2.0})()
        check_raises("a total that cannot be shared", ValueError, lambda: count_flops(uneven, (32, 6)), must_say="32")
        check_raises("no forward", ValueError, lambda: count_flops(object(), (1, 2)), must_say="no forward")


    test_count_flops()

# %% [markdown]
"""
**Where do they go?** Every event carries its *scope*: the path of layers that were open when it ran, such as `Sequential > SelfAttention > Linear`. What belongs to a layer? Every event whose path *starts with* the layer's path. So a layer used by two
parents has two paths and is right in both; a repeated layer adds up; and no arithmetic with leftovers is needed.

**Task.** Write `sum_by_scope(events, amount)`: a dict from path (a tuple) to the sum of `amount(event)` over all events whose `scope` starts with it. The empty path `()` stands for everything. With no events it is `{(): 0}`.

Example: one event of 24 in scope `(A, B)` and one of 3 in scope `(A,)` give `{(): 27, (A,): 27, (A, B): 24}`.

<details><summary>Hint 1: idea</summary>
Do not ask each path for its events; let each event pay into all of its paths.
</details>
<details><summary>Hint 2: approach</summary>
A scope of length n has n + 1 beginnings: <code>scope[:0]</code> up to <code>scope[:n]</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Sizes of folders: the file <code>a/b/c.txt</code> of 5 bytes adds 5 to <code>()</code>, <code>("a",)</code> and <code>("a", "b")</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "sum-by-scope", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def sum_by_scope(events, amount):
    """Return {path: sum of ``amount(event)`` over the events whose scope starts with path}; ``()`` is everything.

    The sums are in the unit of ``amount``: FLOPs with ``event_flops``, bytes with ``event_bytes``.
    """
    raise NotImplementedError("sum_by_scope: section 3, cell 29")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-sum-by-scope", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "flops"}
if __name__ == "__main__":
    def test_sum_by_scope():
        """The example, nested, shared and repeated layers."""
        def cost(event):
            return event_flops(event) or 0

        inner, outer = ops.OpEvent(ops.add, ((24,), (24,)), (24,), 0, {}, ("A", "B"), 0, 0), ops.OpEvent(ops.add, ((3,), (3,)), (3,), 0, {}, ("A",), 0, 0)
        sums = sum_by_scope([inner, outer], cost)
        check("no events: everything is 0", sum_by_scope([], cost).get(()), 0, {None: "with no events it is {(): 0}"})
        check("the example: the paths", tuple(sorted(sums)), ((), ("A",), ("A", "B")), {((), ("A",)): "an event's own scope is missing", (("A",), ("A", "B")): "() is missing",
            ((), ("A",), ("A", "B"), ("B",)): "the beginning was cut off: the paths are scope[:0] up to scope[:n]"})
        check("the example: (A,)", sums.get(("A",)), 27, {3: "own events only: what ran inside (A, B) belongs to (A,), too; or a later event replaced the earlier one", 24: "a later event was left out", 51: "paid in twice"})
        check("the example: everything", sums.get(()), 27, {0: "nothing was paid into ()", 54: "paid into () twice"})
        check("the two the other way round: (A,)", sum_by_scope([outer, inner], cost).get(("A",)), 27, {24: "a later event replaced the earlier one", 3: "own events only: what ran inside (A, B) belongs to (A,), too"})
        shared = Linear(10, 10, bias=False)
        model = Sequential(Sequential(shared), Sequential(shared))
        events = run_on_shapes(model, (1, 10)).events
        sums = sum_by_scope(events, cost)
        check("a shared layer called twice: everything", sums[()], 400, {200: "the shared layer was counted once", 1200: "every level was added up"})
        by_depth = [sorted(value for path, value in sums.items() if len(path) == depth) for depth in range(4)]
        check("a shared layer is right in both parents", tuple(map(tuple, by_depth)), ((400,), (400,), (200, 200), (200, 200)))
        again = sum_by_scope(run_on_shapes(Sequential(shared, shared, shared), (1, 10)).events, cost)
        check("a layer called three times", sorted(again.values()), [600, 600, 600], {(200, 600, 600): "a later call replaced the earlier ones"})
        check("counting events instead", sum_by_scope(events, lambda event: 1)[()], 2, {400: "the prices were added up; `amount` is handed in to be called"})


    test_sum_by_scope()

# %% [markdown]
"""
The report is these sums, arranged and drawn. Given, *skip on first reading* up to the printed report: first the tree. A node's own operations, those in none of its children, are shown as a remainder, so every depth adds up to the total. A layer that shares weights or appears in two places is marked `*`.
"""

# %%
#| export
def rebuilt(cls, plain, **nested):
    """Return a dataclass made of what its ``to_dict`` gave, each of the ``nested`` fields by the function given for it.

    Raises:
        TypeError: no dict, or a field of another type.
        ValueError: a field that is missing, or one too many; the first is named.
    """
    if not isinstance(plain, Mapping):
        raise TypeError(f"{cls.__name__}.from_dict: a {type(plain).__name__} came; want the dict that to_dict() gives")
    wanted = {field.name: field.type for field in fields(cls)}
    for name in sorted({*wanted} ^ {*plain}, key=str):
        raise ValueError(f"{cls.__name__}.from_dict: {name} is {'missing' if name in wanted else 'no field'}; want the "
                         "dict that to_dict() gives")
    made = {}
    for name, kind in wanted.items():
        value = plain[name]
        if name in nested and isinstance(value, (list, tuple, Mapping)):
            value = nested[name](value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"{cls.__name__}.from_dict: {name} is a {type(value).__name__}; want the dict that "
                            "to_dict() gives")
        made[name] = value
    return cls(**made)

# %%
#| export
@dataclass
class LayerCost:
    """One layer's share of a pass: everything that ran while it was open, its children included.

    Attributes:
        name, type: the layer's name in its parent, and its class ("scope" for a labelled region).
        parameters: a count, each memory once.
        flops, contractions: FLOPs of all ops, and of products and convolutions alone.
        bytes: what the ops read and write, see ``event_bytes``.
        calls: how often it ran.
        shared: whether it, or a weight of it, stands in another place, too.
        children: a list of ``LayerCost``, in the order in which they ran.
    """

    name: str
    type: str
    parameters: int
    flops: int
    contractions: int
    bytes: int
    calls: int
    shared: bool
    children: list

    def own(self, field):
        """Return how much of ``field`` ("flops", "parameters", "bytes", "contractions") is in none of the children."""
        return getattr(self, field) - sum(getattr(child, field) for child in self.children)

    def to_dict(self):
        """Return the tree as plain dicts, lists and numbers, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain):
        """Return the tree built again from what ``to_dict`` gave; ``TypeError`` or ``ValueError`` as ``rebuilt``."""
        return rebuilt(cls, plain, children=lambda some: [cls.from_dict(child) for child in some])

# %%
#| export
def _known_flops(event):
    return event_flops(event) or 0


def _contraction_flops(event):
    return _known_flops(event) if is_contraction(event.op) else 0

# %%
#| export
class _Tree:
    """Arranges what was heard into LayerCosts, along the scopes that were opened."""

    def __init__(self, model, heard):
        self.layers = {id(thing): thing for thing in things_in(model) if isinstance(thing, Scoped)}
        self.sums = [sum_by_scope(heard.events, amount)
                     for amount in (_known_flops, _contraction_flops, event_bytes)]
        self.calls, self.inside, self.holders = heard.calls, {}, {}
        for path in heard.calls:
            self.inside.setdefault(path[:-1], []).append(path)
        top = self.inside.get((), [])
        kind = type(model).__name__
        self.root, _ = self.node(top[0] if [p[-1].owner for p in top] == [id(model)] else (), kind, kind, model, model)
        for holders in self.holders.values():
            for cost in holders:
                cost.shared = len(holders) > 1 or cost.shared

    def node(self, path, name, kind, layer, around):
        """Return (LayerCost, weights) at ``path``; ``around`` is the nearest layer that is known."""
        weights = {} if layer is None else {storage(w.data): w.size for w in weights_of(layer)}
        children, own = [], set(weights)
        for child, held in self.children(path, around):
            children.append(child)
            own -= set(held)
        costs = [sums.get(path, 0) for sums in self.sums]
        parameters = sum(weights.values()) - shown_twice(weights)
        cost = LayerCost(name, kind, parameters, *costs, self.calls.get(path, 1), False, children)
        for key in (*own, *([] if layer is None else [id(layer)])):
            self.holders.setdefault(key, []).append(cost)
        return cost, weights

    def children(self, path, around):
        """Yield ``node`` of every scope opened directly inside ``path``, under the name its layer has there."""
        names = {id(child): name for name, child in Layer.children(around)}
        for inner in self.inside.get(path, []):
            name, owner = inner[-1]
            layer = self.layers.get(owner)
            kind = "scope" if owner is None else name
            yield self.node(inner, names.get(owner, name), kind, layer, around if layer is None else layer)

# %% [markdown]
"""
A layer that was never called owns parameters and costs nothing: worth knowing, so it is listed by name. And `tally` adds up a list of events, of this pass or any other:
"""

# %%
#| export
def never_called(model, heard):
    """Return a list of names: the model's layers in which nothing was ``Heard``, outermost only."""
    owners = {entry.owner for path in heard.calls for entry in path}
    silent, seen = [], set()

    def look(name, layer):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        if id(layer) not in owners and not any(id(thing) in owners for thing in things_in(layer)):
            silent.append(name)
            return
        for text, child in Layer.children(layer):
            look(f"{name}.{text}" if name else text, child)

    look("", model)
    return [name for name in silent if name]

# %%
#| export
def tally(events):
    """Add up a list of ``OpEvent``; return a dict.

    Keys:
        total, contractions: FLOPs of all ops, and of products and convolutions alone.
        by_op: FLOPs by op name, the largest first.
        op_calls, uncounted: calls by op name; of ops without a cost rule alone.
        bytes_moved, widest_op: bytes of all ops (``event_bytes``), and the most that one reads and writes.
        num_ops: how many ops ran.
    """
    by_op, op_calls, uncounted = {}, {}, {}
    for event in events:
        name, price = event.op.name, event_flops(event)
        op_calls[name] = op_calls.get(name, 0) + 1
        if price is None:
            uncounted[name] = uncounted.get(name, 0) + 1
        else:
            by_op[name] = by_op.get(name, 0) + price
    return {"total": sum(by_op.values()), "contractions": sum(map(_contraction_flops, events)),
            "by_op": dict(sorted(by_op.items(), key=lambda item: -item[1])), "op_calls": op_calls,
            "uncounted": uncounted, "bytes_moved": sum(map(event_bytes, events)), "num_ops": len(events),
            "widest_op": max((event.num_bytes for event in events), default=0)}

# %%
#| export
@dataclass
class FlopReport:
    """What one forward pass costs, the whole batch as shaped: ``print`` it, read its fields, or take ``to_dict()``.

    Attributes:
        model, input_shape: the model's type, and the shape it was counted for.
        parameters: how many numbers the model owns, each memory once.
        per_sample: FLOPs, as ``count_flops`` has them; None where they do not divide.
        total, contractions: FLOPs of the whole batch; of them those of products and convolutions.
        by_op, op_calls: FLOPs, and calls, by op name.
        uncounted: ops without a cost rule, and how often they ran.
        bytes_moved: bytes that the ops read and write, temporaries inside them included (``event_bytes``; a copy that a
            reshape is forced to make shows only in a real run).
        num_ops: how many ops ran.
        widest_op: the most bytes that one op reads and writes: so much memory the pass needs at least.
        by_layer: a tree of ``LayerCost``.
        never_called: names of the layers nothing passed through.
        convention: what a FLOP is here, ``CONVENTION``.
    """

    model: str
    input_shape: tuple
    parameters: int
    per_sample: int | None
    total: int
    contractions: int
    by_op: dict
    op_calls: dict
    uncounted: dict
    bytes_moved: int
    num_ops: int
    widest_op: int
    by_layer: LayerCost
    never_called: list
    convention: str = CONVENTION

    @property
    def elementwise(self):
        """Return the FLOPs that are no contraction, those of elementwise arithmetic and reductions."""
        return self.total - self.contractions

    def to_dict(self):
        """Return the report as plain dicts, lists and numbers, ready for JSON."""
        return {**asdict(self), "input_shape": list(self.input_shape), "elementwise": self.elementwise}

    @classmethod
    def from_dict(cls, plain):
        """Return the report built from what ``to_dict`` gave, also after a way through JSON; errors as ``rebuilt``."""
        if isinstance(plain, Mapping):
            plain = {name: value for name, value in plain.items() if name != "elementwise"}
        return rebuilt(cls, plain, input_shape=tuple, by_layer=LayerCost.from_dict)

    def __str__(self):
        return flop_table(self)

    def _repr_html_(self):
        return flop_html(self)

# %% [markdown]
"""
The table is drawn last, from the report alone, and fits into 80 columns; a narrower one writes its numbers shorter. It shows as many levels as fit into 40 lines, and what belongs to a layer but to none of the layers shown inside it stands in a line `(own)`. A notebook that ends in a report gets the same rows as HTML:
"""

# %%
#| export
def short(number):
    """Return a count as a text of at most five characters: 950, 12.3K, 4.56M, 1.2G."""
    units = ["", "K", "M", "G", "T", "P"]
    while number >= 999.5 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.3g}{units[0]}"

# %%
#| export
def _rows(cost, levels, depth=0):
    """Return (depth, label, parameters, FLOPs) of a LayerCost and its children, ``levels`` deep, own parts last."""
    label = cost.name + "*" * cost.shared + (f" {cost.type}" if cost.type != cost.name else "")
    rows = [(depth, label + (f" x{cost.calls}" if cost.calls > 1 else ""), cost.parameters, cost.flops)]
    if levels and cost.children:
        rows += [row for child in cost.children for row in _rows(child, levels - 1, depth + 1)]
        parameters, flops = max(0, cost.own("parameters")), cost.own("flops")
        if parameters or flops:
            rows.append((depth + 1, "(own)", parameters, flops))
    return rows


def fitting_rows(report, max_rows):
    """Return the rows of a report, as many levels of layers as fit into ``max_rows``, and the root in any case."""
    depths = [_rows(report.by_layer, levels) for levels in range(9)]
    return next(rows for rows in reversed(depths) if len(rows) <= max_rows or rows is depths[0])


def _share(flops, report):
    return f"{100 * flops / report.total:.1f}" if report.total else "-"

# %%
#| export
def _short(text, width):
    return text if len(text) <= width else text[:width - 2] + ".."


def _number(value, width):
    text = f"{value:,}" if width > 9 else short(value)
    return f"{text if len(text) <= width else format(value, '.6e'):>{width}}"


def _wrap(line, width=80):
    while len(line) > width:
        space = line.rfind(" ", 0, width + 1)
        cut = space if space > 0 else width
        yield line[:cut]
        line = line[cut:].strip()
    yield line

# %%
#| export
def flop_table(report, max_rows=40, width=80):
    """Return a ``FlopReport`` as text: as many levels of layers as fit into ``max_rows`` lines, ``width`` columns wide.

    Below 80 columns (40 at least) numbers are shortened: 12.3K.
    """
    wide, width = width >= 80, max(40, width)
    columns = (15, 19) if wide else (8, 8)
    room = width - sum(columns) - 8
    lines = [_short(f"{report.model} on {report.input_shape}", width),
             f"{'layer':<{room}} {'parameters' if wide else 'params':>{columns[0]}} {'FLOPs':>{columns[1]}} {'%':>5}"]
    for depth, label, *numbers in fitting_rows(report, max_rows):
        text = _short("  " * depth + label, room)
        counts = " ".join(_number(number, column) for number, column in zip(numbers, columns))
        lines.append(f"{text:<{room}} {counts} {_share(numbers[1], report):>5}")
    return "\n".join(part for line in (*lines, *_notes(report)) for part in _wrap(line, width))


def flop_html(report, max_rows=200):
    """Return a ``FlopReport`` as one small HTML table of at most ``max_rows`` layers; names are escaped."""
    from html import escape  # wanted in notebooks only

    cells = ["".join(f'<td style="text-align:{side}">{text}</td>' for side, text in (
                ("left", f'<span style="padding-left:{depth}em">{escape(label)}</span>'),
                ("right", f"{parameters:,}"), ("right", f"{flops:,}"), ("right", _share(flops, report))))
             for depth, label, parameters, flops in fitting_rows(report, max_rows)]
    head = "".join(f"<th>{title}</th>" for title in ("layer", "parameters", "FLOPs", "%"))
    rows = "".join(f"<tr>{row}</tr>" for row in cells)
    notes = "<br>".join(map(escape, _notes(report)))
    return (f"<table><caption>{escape(report.model)} on {report.input_shape}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{notes}</p>")


def _notes(report):
    """Return the lines below the table: subtotals, what is shared, unknown or never called, the convention."""
    sample = "" if report.per_sample is None else f", {report.per_sample:,} per sample"
    yield f"contractions {report.contractions:,}, other {report.elementwise:,}{sample}"
    if _any_shared(report.by_layer):
        yield "* shared: its parameters are in the total once"
    if report.uncounted:
        yield "UNCOUNTED, no cost rule: " + ", ".join(f"{name} x{n}" for name, n in report.uncounted.items())
    if report.never_called:
        yield "never called: " + ", ".join(report.never_called)
    yield f"({report.convention})"


def _any_shared(cost):
    return cost.shared or any(map(_any_shared, cost.children))

# %%
#| export
def flop_report(model, input_shape):
    """Count one forward pass as shaped, on shapes only, and return a ``FlopReport``: total, by op, by layer.

    ``input_shape``: the batch first. Nothing is computed and the model is left as it was.

    Raises:
        TypeError: ``input_shape`` is no tuple of integers.
        ValueError: an empty shape, a size below 1, or a model without a forward; errors of the model itself pass
            through unchanged.
    """
    shape = sizes("input_shape", input_shape)
    if isinstance(model, Tensor):
        return _tensor_report(shape)
    heard = _run_as_wanted(model, shape)
    counted = tally(heard.events)
    per_sample = counted["total"]
    if len(shape) > 1 and shape[0] > 1:
        try:
            per_sample = count_flops(model, shape)
        except Exception:  # it does not divide: the whole batch is what can be said
            per_sample = None
    return FlopReport(type(model).__name__, shape, count_parameters(model), per_sample, **counted,
                      by_layer=_Tree(model, heard).root, never_called=never_called(model, heard))


def _tensor_report(shape):
    size = prod(shape)
    cost = LayerCost("Tensor", "Tensor", 0, size, 0, 0, 1, False, [])
    return FlopReport("Tensor", shape, 0, size, **{**tally([]), "total": size}, by_layer=cost, never_called=[])

# %%
if __name__ == "__main__":
    print(flop_report(Sequential(Linear(64, 32), ReLU(), SelfAttention(32, 4)), (7, 5, 64)))

# %% [markdown]
"""
**A price that is not on the list.** `Swish` below uses an op of its own. What does the report say? Add a rule, and ask again.
"""

# %%
if __name__ == "__main__":
    @ops.op(shape=ops.same_shape)
    def swish(a):
        """a * sigmoid(a), in one op."""
        return a / (1 + np.exp(-a))


    class Swish(Layer):
        """An activation nobody has priced yet."""

        def forward(self, x):
            return swish(x)


    strange = Sequential(Linear(8, 8), Swish())
    print(flop_report(strange, (1, 8)).uncounted, count_flops(strange, (1, 8)))
    flops(swish)(per_output)
    print(flop_report(strange, (1, 8)).uncounted, count_flops(strange, (1, 8)))

# %% [markdown]
"""
**A model you write yourself.** GPT-2 small without its table look-up (which costs nothing) and its layer norms (which are no contractions): twelve blocks of attention and feed-forward, two skips each, and a head. It is built *and* run on shapes only. The
contractions should be what the closed forms of section 2 say, to the last digit, though nobody told the counter any formula for attention:
"""

# %%
if __name__ == "__main__":
    class Block(Layer):
        """Attention and feed-forward, each with a skip: (B, T, D) -> (B, T, D)."""

        def __init__(self, dim, heads):
            self.attention, self.wide, self.narrow = SelfAttention(dim, heads), Linear(dim, 4 * dim), Linear(4 * dim, dim)

        def forward(self, x):
            x = x + self.attention(x)
            return x + self.narrow(gelu(self.wide(x)))


    def gpt(dim, heads, blocks, vocabulary=50_257):
        """Build the contractions of a GPT: blocks and head."""
        return Sequential(*(Block(dim, heads) for _ in range(blocks)), Linear(dim, vocabulary, bias=False))


    computes = any(run_on_shapes(Linear(2, 3), (1, 2)).output.data.strides)  # then GPT-3 would really be computed: leave it out
    for name, (T, D, h, L) in {"GPT-2 small": (1024, 768, 12, 12), "GPT-3": (2048, 12288, 96, 96)}.items():
        if computes:
            print(f"{name}: first let run_on_shapes run on shapes")
            continue
        start = perf_counter_ns()
        with shape_only():
            model = gpt(D, h, L)
        report = flop_report(model, (1, T, D))
        took = (perf_counter_ns() - start) / 1e9
        print(f"{name:>12}: {report.contractions:>23,} FLOPs, counted in {took:.2f} s; its weights would fill {4 * report.parameters / 1024**3:,.1f} GB\n"
              f"{'closed form':>12}: {gpt_flops(T, D, h, L, 50_257):>23,}")

# %% [markdown]
"""
You counted GPT-3 on whatever machine this is, because an op on shapes needs no weights.

<details><summary>Reflect: two models, the same FLOPs, one takes three times as long. Is the count wrong?</summary>
No. FLOPs say how much arithmetic there is, not how well the machine is used while doing it, nor how many bytes had to move. Sections 5 and 6 measure the rest.
</details>
<details><summary>Why is an unknown op not simply taken as 0?</summary>
A report that is silently too small looks exactly like a good model. One that says "swish x12 uncounted" can be completed.
</details>

## 4. What is held

*35 minutes · 12 points*

**Question.** Your model has 10 MB of weights and training it runs out of memory at 2 GB. What is all the rest?

Four kinds of bytes: *parameters* (always there), *activations kept* (what the forward pass leaves behind for the backward pass), *temporaries* (needed for a moment inside an op), and, in training, *gradients* and *optimizer state*. Python can
watch allocations with `tracemalloc`, and NumPy reports its buffers to it at their nominal size:
"""

# %%
if __name__ == "__main__":
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    block = np.zeros(1_000_000, np.float32)
    held, peak = (n - before for n in tracemalloc.get_traced_memory())
    print(f"np.zeros of {block.nbytes:,} bytes traces as {held:,}; peak {peak:,}")
    if not already:
        tracemalloc.stop()

# %% [markdown]
"""
It does *not* see what existed before it started, nor BLAS's own work space, nor memory-mapped files. And it is not the number your system monitor shows: *resident size* also counts Python itself and memory that was freed but not given back, and leaves out pages
nobody has touched:
"""

# %%
if __name__ == "__main__":
    import psutil

    process = psutil.Process()
    rss = process.memory_info().rss
    untouched_block = np.zeros(16_000_000, np.float32)
    print(f"nominal {untouched_block.nbytes / 1024**2:.0f} MB, resident size grew by {(process.memory_info().rss - rss) / 1024**2:.1f} MB")
    untouched_block += 1
    print(f"after writing to it: {(process.memory_info().rss - rss) / 1024**2:.1f} MB")
    del untouched_block, block

# %% [markdown]
"""
**Being a good guest.** Somebody may be tracing already. `start()` then does nothing, and one `stop()` ends it for everybody. And to find *our* peak we must reset the peak, which destroys theirs. Given: two helpers. `_clean_baseline` collects garbage, resets the peak and says where we begin. `_fold_back` restores an
outer peak by asking for a block large enough to reach it and dropping it at once; nobody touches its pages.
"""

# %%
#| export
class Traced(NamedTuple):
    """What ``trace_memory`` saw: the function's result, net growth (may be negative) and peak growth, in bytes."""

    result: object
    growth: int
    peak: int

# %%
#| export
def _clean_baseline():
    """Collect garbage, start a new peak; return the traced size now and the outer peak so far."""
    gc.collect()
    outer_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    return tracemalloc.get_traced_memory()[0], outer_peak

# %%
#| export
def _fold_back(outer_peak):
    """Lift the traced peak to what it was before somebody reset it, by a block nobody touches."""
    now, peak = tracemalloc.get_traced_memory()
    if peak < outer_peak:
        try:
            np.empty(outer_peak - now, np.uint8)
        except MemoryError:
            return

# %% [markdown]
"""
**Task.** Write `trace_memory(function)`: call it, return `Traced(result, growth, peak)`, both in bytes over the baseline (`peak` never below 0). If nobody was tracing, start before and stop after, *also when the function raises*. If somebody was, leave
them tracing, with their peak folded back.

Example: `trace_memory(lambda: np.zeros(1000, np.float32)).growth` is about 4,000.

<details><summary>Hint 1: idea</summary>
<code>try: … finally:</code>. What was it like when I came? That is how I leave it.
</details>
<details><summary>Hint 2: approach</summary>
Remember <code>tracemalloc.is_tracing()</code>. After <code>_clean_baseline()</code> call the function and read <code>get_traced_memory()</code>, a pair (now, peak). In <code>finally</code> either stop or fold back.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>was_on = gc.isenabled(); gc.disable()</code>, then <code>try: work()</code>, then <code>finally: gc.enable() if was_on else None</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "trace-memory", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def trace_memory(function):
    """Call ``function()`` and return ``Traced(result, growth, peak)`` in bytes over a clean baseline.

    A caller's own tracemalloc session goes on, its peak folded back; without one, tracing is off afterwards,
    whatever happens. Seen are Python objects and NumPy buffers; not BLAS work space or mapped files.
    """
    raise NotImplementedError("trace_memory: section 4, cell 6")

# %%
if __name__ == "__main__":
    n = np.ones(250_000, np.float32)
    for label, function in {"n + n": lambda: n + n, "n + n + n": lambda: n + n + n, "n*n + n*n": lambda: n * n + n * n}.items():
        traced = trace_memory(function)
        print(f"{label:>10}: {traced.growth / n.nbytes:.2f} arrays more at the end, {traced.peak / n.nbytes:.2f} at the peak")

# %% [markdown]
"""
Why does `n + n + n` need no second array at its peak? NumPy reuses a large temporary that nobody else holds; in `n*n + n*n` two are alive at once.
"""

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-trace-memory", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "memory"}
if __name__ == "__main__":
    def test_trace_memory():
        """Growth, peak, errors, a caller's own session."""
        def near(count):
            return round(count / 4_000_000, 2)

        n = np.ones(1_000_000, np.float32)
        kept = trace_memory(lambda: n * n + n * n)
        check("n*n + n*n keeps one array", near(kept.growth), 1.0, {2.0: "the peak was taken for the growth", 0.0: "the result was dropped before memory was read, or these are not bytes"})
        check("and peaks at two", near(kept.peak), 2.0, {1.0: "the growth was taken for the peak"})
        check("what the function returned comes back", getattr(kept.result, "shape", None), (1_000_000,), {None: "the result is not in it: Traced(result, growth, peak)"})
        tracemalloc.stop()  # whoever left it on
        check("nothing made, nothing held", near(trace_memory(lambda: None).peak), 0.0)
        check("tracing is off again", tracemalloc.is_tracing(), False, {True: "tracing was left on"})
        check_raises("an error passes through", ZeroDivisionError, lambda: trace_memory(lambda: 1 / 0))
        check("and tracing is off again", tracemalloc.is_tracing(), False, {True: "tracing was left on after an error: finally is missing"})
        tracemalloc.start()
        big = np.ones(4_000_000, np.float32)
        outer_peak = tracemalloc.get_traced_memory()[1]
        del big
        held = np.ones(1_000_000, np.float32)
        inside = trace_memory(lambda: n + n)
        check("inside a session that holds one array already: growth", near(inside.growth), 1.0, {2.0: "the baseline was not subtracted"})
        check("and peak", near(inside.peak), 1.0, {2.0: "the baseline was not subtracted from the peak", 3.0: "the session's own peak is in it: _clean_baseline() starts a new one",
                                                   4.0: "neither baseline nor outer peak were taken out"})
        del held
        check("the session goes on", tracemalloc.is_tracing(), True, {False: "the caller's tracing was ended"})
        check("its peak was folded back", tracemalloc.get_traced_memory()[1] >= outer_peak, True, {False: "the caller's peak was lost"})
        tracemalloc.stop()


    test_trace_memory()

# %% [markdown]
"""
**What is kept, and by whom?** A tensor that will need a gradient remembers what made it (`made_by`): the op and its *inputs*. As long as the output lives, all of them live. That is activation memory: not "input plus output", but every intermediate the
graph can reach.

```
x ──linear──▶ h ──relu──▶ r ──linear──▶ y          y.made_by.inputs = (r, weight, bias)
                                                    r.made_by.inputs = (h,)          h.made_by.inputs = (x, weight, bias)
```

Parameters and the input were there before; they are left out. And views share: a reshaped tensor keeps the *same* buffer. Given: `buffer(array)`, the array that really owns the memory.
"""

# %%
#| export
def buffer(array):
    """Return the array that owns the memory ``array`` shows: itself, or the base of the view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array

# %% [markdown]
"""
**Task.** Write `kept_arrays(output, exclude=())`: the list of buffers alive because `output` is alive, each once: the output's own and those of every tensor its graph reaches, without those of the arrays in `exclude`. Walk with a list of things to do, not by recursion: a graph of 10,000 ops is
deeper than Python's stack.

<details><summary>Hint 1: idea</summary>
Take one tensor, note its buffer, put the tensors it was made from on the list; until the list is empty.
</details>
<details><summary>Hint 2: approach</summary>
A tensor may be reached twice: remember <code>id(tensor)</code>. Buffers go into a dictionary by <code>id(buffer(tensor.data))</code>, so each is there once. <code>tensor.made_by</code> is <code>None</code> for leaves.
</details>
<details><summary>Hint 3: worked example, something else</summary>
All folders below a path: <code>todo = [path]</code>; <code>while todo: folder = todo.pop(); seen.add(folder); todo += subfolders(folder)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "kept-arrays", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def kept_arrays(output, exclude=()):
    """Return a list of the buffers alive because ``output`` (a Tensor, or several in a list or dict) is, each once.

    Its own and those of every tensor in its graph; views share one. Buffers of the arrays in ``exclude``
    (parameters, input) are left out. Their bytes are ``sum(a.nbytes for a in ...)``.
    """
    todo = [tensor for _, tensor in named_tensors(output)]
    raise NotImplementedError("kept_arrays: section 4, cell 10")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-kept-arrays", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "memory"}
if __name__ == "__main__":
    from traceback import walk_stack


    def test_kept_arrays():
        """Intermediates, views, exclusion, deep graphs, no graph."""
        model = Sequential(Linear(16, 32), ReLU(), Linear(32, 4))
        x = Tensor(np.ones((8, 16)))
        y = model(x)
        known = [x.data, *(p.data for p in model.parameters())]
        kept = sum(a.nbytes for a in kept_arrays(y, known))
        check("hidden, rectified, output", kept, 2 * 8 * 32 * 4 + 8 * 4 * 4, {
            8 * 16 * 4 + 8 * 4 * 4: "that is input + output: the intermediates are missing", 2 * 8 * 32 * 4: "the output's own buffer is missing",
            2 * 8 * 32 * 4 + 8 * 4 * 4 + 8 * 16 * 4: "the input was not left out", 8 * 4 * 4: "the graph was not walked", 5392: "`exclude` was not left out"})
        w = Tensor(np.ones((4, 6)), requires_grad=True)
        square = w * w
        views = square.reshape(6, 4).T.reshape(3, 8)[1:]
        check("views share one buffer (and .T.reshape copies)", len(kept_arrays(views, [w.data])), 2, {5: "every view was counted", 1: "the walk stopped at a view: remember id(tensor), not its buffer"})
        check("without a graph only the output itself", len(kept_arrays(Tensor([1.0]))), 1, {0: "a tensor that no op has made holds its buffer all the same"})

        class Watched(tuple):
            """The inputs of one op; notes how deep Python's stack is each time they are read."""

            def __iter__(self):
                reads.append(sum(1 for _ in walk_stack(None)))
                return super().__iter__()

        reads, watched = [], w * w
        watched.made_by = watched.made_by._replace(inputs=Watched(watched.made_by.inputs))
        kept_arrays(watched)
        deep = watched
        for _ in range(100):
            deep = -deep
        check("101 tensors in a row", len(kept_arrays(deep, [w.data])), 101)
        check("for 100 ops, how much deeper in Python's stack", reads[-1] - reads[0], 0, {100: "walk with a list of things to do, not by recursion", 200: "walk with a list of things to do, not by recursion"})
        for _ in range(2899):
            deep = -deep
        check("3,000 ops deep", len(kept_arrays(deep, [w.data])), 3000)
        wide = w * w
        check("reached twice, counted once", len(kept_arrays(wide + wide, [w.data])), 2, {3: "a buffer was counted once per path"})
        check("what is left out may be given as a view", len(kept_arrays(w * w, [w.data.reshape(-1)])), 1, {2: "take id(buffer(array)) of what is excluded, not id(array)"})
        del reads[:]
        doubled = watched
        for _ in range(10):
            doubled = doubled + doubled
        kept_arrays(doubled)
        check("1,024 paths lead to one tensor, walked once", len(reads), 1, {1024: "`seen` is missing: every path was walked"})


    test_kept_arrays()

# %% [markdown]
"""
**Measuring a forward pass.** Given, since every part is yours: `make_input` makes a standard-normal input from a generator of its own (whole numbers where the model asks for an index), and `measure_memory` runs the model once with tracing on. It reports
what it ran: with parameters that want gradients the graph is `kept`; under `no_grad()`, or when everything is frozen, it is `none`, and so are the activations.
"""

# %%
#| export
MB = 1024**2  #: every quantity named _mb is bytes divided by this


def make_input(model, input_shape, dtype=None):
    """Return a standard-normal input from a private generator; zeros of int64 where the model uses it as an index.

    ``input_shape``: the batch first. ``dtype`` None: float32, or whole numbers if a run on shapes asks for them.

    Raises:
        TypeError: ``input_shape`` is no tuple of integers.
        ValueError: an empty shape, or a size below 1.
    """
    shape = sizes("input_shape", input_shape)
    dtype = np.dtype(_wanted_dtype(model, shape) if dtype is None else dtype)
    if dtype.kind != "f":
        return Tensor(np.zeros(shape, dtype))
    return Tensor(np.random.default_rng(0).standard_normal(shape).astype(dtype), dtype=dtype)

# %%
#| export
def _wanted_dtype(model, shape):
    if isinstance(model, Tensor):
        return np.float32
    try:
        return run_on_shapes(model, shape).dtype
    except (IndexError, TypeError, ValueError) as error:
        return np.int64 if "integer" in str(error) else np.float32
    except Exception:  # a model that needs real values cannot run on shapes; the real run will say what is wrong
        return np.float32


def weight_arrays(model):
    """Return a list of the arrays of the model's weights, each storage once."""
    return list({storage(w.data): w.data for w in weights_of(model)}.values())


def _as_if(own, dtype):
    return dtype if dtype is not None and own.kind == "f" else own


def weight_bytes(model, trainable_only=False, dtype=None):
    """Return the bytes of the model's weights in their own types, each once; ``dtype``: as if all floats had it."""
    by_type, dtype = {}, None if dtype is None else np.dtype(dtype)
    for weight in weights_of(model):
        if weight.requires_grad or not trainable_only:
            by_type.setdefault(weight.dtype, {})[storage(weight.data)] = weight.size
    return sum((sum(sizes.values()) - shown_twice(sizes)) * _as_if(own, dtype).itemsize
               for own, sizes in by_type.items())

# %% [markdown]
"""
A number without its circumstances cannot be compared. Given: `workload` writes down beside every result what was measured, in which mode, on what machine.
"""

# %%
#| export
@lru_cache(maxsize=1)
def _cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    import platform

    return named[0] if named else platform.processor() or platform.machine() or "unknown"

# %%
#| export
@lru_cache(maxsize=1)
def _blas():
    """Return what knows the loaded BLAS; found once: to look through all libraries takes long."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")

# %%
#| export
def environment():
    """Return what a measurement depends on beside the model: CPU, Python, NumPy, BLAS and its threads.

    Keys:
        device, cpu: "cpu", and the processor's name.
        python, numpy, blas: versions, as text.
        blas_threads: a count.
    """
    import platform  # here, like other imports inside functions: who only counts need not wait for them

    blas = next(iter(_blas().info()), {})  # its threads now
    return {"device": "cpu", "cpu": _cpu_name(), "python": platform.python_version(), "numpy": np.__version__,
            "blas": f"{blas.get('internal_api', 'unknown')} {blas.get('version') or ''}".strip(),
            "blas_threads": int(blas.get("num_threads", 1))}

# %%
#| export
def workload(model, x, stages="one call of the model", gradient="no_grad", **more):
    """Return a dict that says what was measured, so that nobody compares unlike runs.

    Keys:
        model, mode: type of the model, and "train" or "eval".
        shapes, dtypes: lists, of the inputs.
        gradient: whether a graph was kept: "no_grad" or "kept where wanted".
        stages: what one measured pass was.

    What ``environment`` says follows, and whatever else is handed in as ``more``.
    """
    return {"model": type(model).__name__, "shapes": [list(getattr(x, "shape", ()))],
            "dtypes": [str(getattr(x, "dtype", "unknown"))],
            "mode": "train" if getattr(model, "training", False) else "eval", "gradient": gradient,
            **more, "stages": stages, **environment()}

# %%
#| export
#: What every memory measurement takes for granted.
MEMORY_ASSUMPTIONS = ("bytes come from each array's own dtype", "every buffer counts once, however many views show it",
                      "parameters and input were there before the pass and count as held throughout")
#: What no memory measurement here sees.
MEMORY_OMISSIONS = ("BLAS work space and mapped files, which tracemalloc does not see",
                    "what else the process held before the pass")
#: What is said in addition where tracemalloc cannot see NumPy's buffers.
UNSEEN = "NumPy's buffers: tracemalloc does not see them here, so the peak and what is temporary are too low"


@lru_cache(maxsize=1)
def _sees_buffers():
    """Say whether a NumPy buffer is traced at its size and at most 1 KiB more; found out once, in up to three tries."""
    return any(0 <= trace_memory(lambda: np.zeros(2**16, np.uint8)).growth - 2**16 <= 1024 for _ in range(3))


def measure_memory(model, input_shape, input_tensor=None):
    """Measure one forward pass in the caller's gradient mode and return bytes in MB (1024²), by kind.

    The input is made for ``input_shape``, unless ``input_tensor`` is given.

    Keys:
        parameter_memory_mb, input_mb, output_mb: MB of the weights (each memory once), the input, the output.
        activation_memory_mb: MB that the pass left alive for a backward pass, parameters and input left out.
        temporaries_mb: MB at the peak that were gone afterwards.
        peak_memory_mb: parameters + input + traced growth, MB.
        memory_efficiency: (parameters + input + activations) / peak, a ratio from 0 to 1.
        graph: "kept", or "none" under ``no_grad`` or when all is frozen.
        assumptions, omissions: what was taken for granted, and what was left out.
        workload: what was run.

    Raises:
        TypeError: ``input_tensor`` is no Tensor, or forward returns none.
        ValueError: ``input_tensor`` is empty, ``input_shape`` no shape, or the model has no forward.
    """
    x = make_input(model, input_shape) if input_tensor is None else input_tensor
    if not isinstance(x, Tensor) or not x.size:
        came = "empty" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        kind = ValueError if came == "empty" else TypeError
        raise kind(f"input_tensor is {came}; want a Tensor with numbers in it")
    run, mode = forward_of(model), "kept where wanted" if thread_state().grad_enabled else "no_grad"
    with untouched(model):
        seen = _sees_buffers()
        traced = trace_memory(lambda: run(x))
        outputs = [tensor for _, tensor in named_tensors(traced.result)]
        graph = any(tensor.made_by is not None for tensor in outputs)
        own = [thing for thing in things_in(model) if isinstance(thing, np.ndarray)]
        exclude = [x.data, *own, *weight_arrays(model)]
        kept = sum(a.nbytes for a in kept_arrays(outputs, exclude)) if graph else 0
    parameters = weight_bytes(model)
    peak = parameters + x.nbytes + max(traced.peak, kept)
    return {"parameter_memory_mb": parameters / MB, "activation_memory_mb": kept / MB, "peak_memory_mb": peak / MB,
            "memory_efficiency": (parameters + x.nbytes + kept) / peak, "input_mb": x.nbytes / MB,
            "output_mb": sum(tensor.nbytes for tensor in outputs) / MB,
            "temporaries_mb": max(0, traced.peak - max(0, traced.growth)) / MB, "graph": "kept" if graph else "none",
            "assumptions": list(MEMORY_ASSUMPTIONS), "omissions": list(MEMORY_OMISSIONS) + ([] if seen else [UNSEEN]),
            "workload": workload(model, x, "one forward pass, traced", mode)}

# %%
if __name__ == "__main__":
    mlp = Sequential(Linear(784, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10))
    kept = measure_memory(mlp, (256, 784))
    with no_grad():
        none = measure_memory(mlp, (256, 784))
    for key in kept:
        if key not in ("assumptions", "omissions", "workload"):
            print(f"{key:>22}: {kept[key]:>8} {none[key]:>8}" if key == "graph" else f"{key:>22}: {kept[key]:8.3f} {none[key]:8.3f}")
    print("left out:", *kept["omissions"], sep="\n  ")

# %% [markdown]
"""
**Picture: bytes alive, layer by layer.** The same network, once keeping its graph and once not. Each bar is what is alive after that layer, parameters left out (`=` kept, one sign per 32 KB):
"""

# %%
if __name__ == "__main__":
    for label, mode in (("graph kept", None), ("no_grad", no_grad)):
        x = y = Tensor(np.ones((256, 784)))
        print(label)
        for layer in mlp.layers:
            if mode is None:
                y = layer(y)
            else:
                with mode():
                    y = layer(y)
            alive = sum(a.nbytes for a in kept_arrays(y, [x.data, *weight_arrays(mlp)]))
            print(f"  {layer!r:<18} {alive / MB:5.2f} MB {'=' * (alive // 32_768)}")

# %% [markdown]
"""
That was what is alive *between* layers. A layer made of several ops also has a life inside: read the traced size after each op of attention, without a graph, and you see temporaries come and go. (`show` draws a picture in a notebook; in a terminal it does nothing.)
"""

# %%
if __name__ == "__main__":
    from threadpoolctl import threadpool_limits


    def bytes_over(run):
        """Run once and return (ms, bytes alive, open layers) after each op and after the run, as tracemalloc sees them."""
        points, start, before = [], perf_counter_ns(), tracemalloc.get_traced_memory()[0]

        def note(end_ns, path):
            points.append(((end_ns - start) / 1e6, tracemalloc.get_traced_memory()[0] - before, tuple(entry.name for entry in path)))

        with no_grad(), listen(lambda event: note(event.end_ns, event.scope)):
            result = run()
        note(perf_counter_ns(), ())
        return points, result


    sentence = Tensor(np.ones((1, 64, 512)))
    with threadpool_limits(1, user_api="blas"):  # the picture is drawn over time: no op is to wait for a second thread
        points, mixed = trace_memory(lambda: bytes_over(lambda: contestants["attention"](sentence))).result
    highest = max(points, key=lambda point: point[1])
    say(f"{len(points) - 1} ops; most is alive after op {points.index(highest) + 1}: {highest[1] / MB:.2f} MB, {highest[1] / mixed.nbytes:.1f} times the output; "
        f"when attention has returned, {points[-1][1] / MB:.2f} MB are left")
    show(pictures.memory_chart, points, "self-attention, 8 heads, on (1, 64, 512), traced")

# %% [markdown]
"""
<details><summary>No graph is kept. Why does the curve climb to the very end of the pass, instead of falling after each op?</summary>
<code>SelfAttention.forward</code> gives its steps names, and a name holds its array until the function returns: <code>q</code>, <code>k</code>, <code>v</code>, <code>scores</code> and <code>mixed</code>, then a copy that <code>reshape</code> must make, and the output. Each is as large as the output here (the scores, 8 · 64 · 64 numbers, too). What comes and goes in between are the scores before they were scaled, and the temporaries of softmax.
</details>

**Training.** Add up what one step of training holds. Each trainable parameter has a gradient of its own size; SGD with momentum keeps one more array per parameter, Adam two. Those do not depend on the batch. Input, output and kept activations do.

Given: the sum. Take 132 parameters of 8 bytes, Adam, a batch of 12 inputs of 32 and outputs of 4 float64 numbers, nothing kept between: 1,056 + 1,056 + 2,112 + 0 + 3,072 + 384 bytes; the cell below adds them up. Guess first: a batch of 24 takes how many times that?
"""

# %%
if __name__ == "__main__":
    guess("twice the batch is how many times the memory, small worked case", None, sure=0.5)

# %%
#| export
def training_categories(parameter_bytes, trainable_bytes, state_arrays, activation_bytes, input_bytes, output_bytes):
    """Return what one training step holds, in bytes by category, with ``total_bytes``, their sum.

    Gradients weigh as much as the trainable parameters, optimizer state ``state_arrays`` times as much.
    """
    held = {"parameters": parameter_bytes, "gradients": trainable_bytes,
            "optimizer_state": state_arrays * trainable_bytes, "activations": activation_bytes,
            "input": input_bytes, "output": output_bytes}
    return {**held, "total_bytes": sum(held.values())}

# %%
if __name__ == "__main__":
    for name, arrays in (("sgd", 0), ("momentum", 1), ("adam", 2)):
        say(f"{name:>9}: ", training_categories(132 * 8, 132 * 8, arrays, 0, 12 * 32 * 8, 12 * 4 * 8))

# %% [markdown]
"""
`training_memory` is given, too (*skip on first reading* down to where it is used). It finds the kept activations by a run *on shapes* that keeps its graph, so you can ask whether a model would fit before you own the machine. On shapes every array is hollow, so bytes are nominal, and a view is known by the op that made it:
"""

# %%
#| export
OPTIMIZER_ARRAYS = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}  #: arrays kept per trainable parameter


def _is_view(tensor):
    """Say whether a tensor of a hollow run shares its input's memory, as it would in a real one."""
    node = tensor.made_by
    if node is None or not node.op.view or buffer(tensor.data) is not buffer(node.inputs[0].data):
        return False
    source = node.inputs[0]
    regrouped = [n for n in tensor.shape if n > 1] != [n for n in source.shape if n > 1]
    return not (node.op is ops.reshape and regrouped and _is_transposed(source))


def _is_transposed(tensor):
    """Say whether a transpose made this tensor and moved an axis longer than 1: reshaping it must copy."""
    node = tensor.made_by
    if node is None or node.op is not ops.transpose:
        return False
    order = [axis % tensor.ndim for axis in node.attrs["axes"] if node.inputs[0].shape[axis] > 1]
    return order != sorted(order)

# %%
#| export
def _kept_on_shapes(outputs, exclude):
    """Return the nominal bytes that a hollow graph keeps, outputs included, buffers in ``exclude`` left out."""
    counted, seen, todo = {}, set(), [tensor for tensor in outputs if tensor.made_by is not None]
    while todo:
        tensor = todo.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        node, own = tensor.made_by, id(buffer(tensor.data))
        if own not in exclude and not _is_view(tensor):
            key = own if node is None or not node.op.view else id(tensor)  # a copy made by a view op is new memory
            counted[key] = max(counted.get(key, 0), tensor.nbytes)
        todo += node.inputs if node else ()
    return sum(counted.values())

# %%
#| export
def training_memory(model, input_shape, optimizer="adam", dtype=None):
    """Estimate what one training step holds, in bytes by category, from a run on shapes: nothing is allocated.

    ``input_shape``: the batch first. ``optimizer``: "sgd", "sgd_momentum", "adam" or "adamw". ``dtype`` asks "what if
    all floats had this type?".

    Keys:
        parameters, gradients, optimizer_state: bytes; the latter two of what is trainable.
        activations: bytes kept between input and output until the backward pass.
        input, output: bytes.
        total_bytes: the sum of these six.
        assumptions, omissions: what was taken for granted, and what was left out.

    Raises:
        TypeError: ``input_shape`` is no tuple of integers.
        ValueError: an optimizer that is none of the four, no shape, or a model without a forward.
    """
    if optimizer not in OPTIMIZER_ARRAYS:
        raise ValueError(f"optimizer is {optimizer!r}; want one of {', '.join(OPTIMIZER_ARRAYS)}")
    shape, dtype = sizes("input_shape", input_shape), None if dtype is None else np.dtype(dtype)
    parameters, trainable = weight_bytes(model, dtype=dtype), weight_bytes(model, trainable_only=True, dtype=dtype)
    own = np.result_type(*([w.dtype for w in weights_of(model) if w.dtype.kind == "f"] or [np.float32]))
    came = np.dtype(_wanted_dtype(model, shape))
    came = came if came.kind != "f" else dtype or own
    activations, output = _graph_on_shapes(model, Tensor(hollow(shape, came), dtype=came), dtype)
    arrays = OPTIMIZER_ARRAYS[optimizer]
    held = training_categories(parameters, trainable, arrays, activations, prod(shape) * came.itemsize, output)
    return {**held, "assumptions": [f"{optimizer}: {arrays} arrays per trainable parameter, in its own dtype",
                                    "every input of an op in the graph is kept until backward; views share memory",
                                    f"floats are {dtype or 'as they are'}; the input is {came}"],
            "omissions": ["temporaries inside ops and during backward", "gradients of activations",
                          "Python objects", "BLAS work space", "the data loader"]}

# %%
#| export
def _graph_on_shapes(model, x, dtype):
    """Run on shapes with a graph; return (bytes kept between input and output, bytes of the outputs)."""
    run = forward_of(model)
    with untouched(model), shape_only():
        thread_state().grad_enabled = True
        weights = weights_of(model)
        for weight in weights:
            weight.data = hollow(weight.shape, _as_if(weight.dtype, dtype))
        arrays = [thing for thing in things_in(model) if isinstance(thing, np.ndarray)]
        known = {id(buffer(array)) for array in (x.data, *arrays, *(w.data for w in weights))}
        outputs = [tensor for _, tensor in named_tensors(run(x)) if id(buffer(tensor.data)) not in known]
        in_graph = sum(tensor.nbytes for tensor in outputs if tensor.made_by is not None)
        return max(0, _kept_on_shapes(outputs, known) - in_graph), sum(tensor.nbytes for tensor in outputs)

# %%
if __name__ == "__main__":
    tiny, totals = Linear(32, 4), []
    for batch in (12, 24):
        held = training_memory(tiny, (batch, 32), optimizer="adam", dtype=np.float64)
        say(f"batch {batch}: ", {key: value for key, value in held.items() if isinstance(value, int)})
        totals.append(held["total_bytes"])
    settle("twice the batch is how many times the memory, small worked case", round(totals[1] / totals[0], 2))

# %% [markdown]
"""
Twice the batch is not twice the memory: parameters, gradients and Adam's two arrays did not move. On the back of an envelope: GPT-2 small with 124 million parameters at 4 bytes and 200 MB of activations, Adam (decimal MB, as envelopes have it). And then the same model asked
properly, activations and all, which needs no machine to hold it:
"""

# %%
if __name__ == "__main__":
    envelope = training_categories(496, 496, OPTIMIZER_ARRAYS["adam"], 200, 0, 0)
    print(f"envelope: {envelope['total_bytes']:,} MB, {envelope['total_bytes'] / envelope['parameters']:.2f} times the parameters")
    with shape_only():
        model = gpt(768, 12, 12)
    for batch in (1, 8):
        held = training_memory(model, (batch, 1024, 768))
        say(f"GPT-2 small, batch {batch}, in MB: ", {key.replace("_bytes", ""): round(value / MB) for key, value in held.items() if isinstance(value, int)})

# %% [markdown]
"""
Where the envelope had 200 MB, this framework keeps thousands: it remembers the input of *every* op, and softmax and gelu are written out of many. At batch 8 the rest hardly matters. That is why "how large is the model?" does not answer "will it fit?".

<details><summary>Reflect: training runs out of memory. What helps when activations dominate, what when parameters do?</summary>
Activations: a smaller batch, shorter sequences, <em>checkpointing</em> (keep only every k-th layer's output and run the ones between again during backward: less memory for about a third more arithmetic). Parameters: an optimizer with less state, fewer bytes per number, spreading over machines.
</details>
<details><summary>Parameter memory against activation memory: which one matters when a model only serves requests?</summary>
Nothing is kept under <code>no_grad</code>, so parameters dominate, plus the largest temporaries. In training it is usually the other way round.
</details>
<details><summary>The peak is far above parameters + input + kept activations. What does it say?</summary>
Temporaries: some op, or an expression such as <code>a*a + b*b</code>, needs much for a moment. <code>memory_efficiency</code> is that ratio; fusing or working in place raises it.
</details>
<details><summary>Why is the resident size no good for this section?</summary>
It counts pages, not arrays: freed memory may stay with the process, untouched memory is not there yet, and Python itself is in it. It answers "what does the machine notice?", not "what did this pass hold?".
</details>
"""

# %% [markdown]
"""
## 5. How long

*40 minutes · 16 points*

**Question.** Two people time the same model on the same machine. One says 5.2 ms, the other 14.1 ms. Both read their clock correctly. Who is right?

Look first. One fresh model, sixteen calls, nothing else:
"""

# %%
if __name__ == "__main__":
    def bar(value, largest, width=48):
        """Draw a bar of `value` on a scale that ends at `largest`."""
        return "█" * max(1, round(width * value / largest)) if value and largest else ""


    fresh = Sequential(Linear(784, 128), ReLU(), Linear(128, 10))
    picture = Tensor(np.random.default_rng(0).standard_normal((64, 784)))
    first_times = []
    for _ in range(16):
        start = perf_counter_ns()
        fresh(picture)
        first_times.append((perf_counter_ns() - start) / 1e6)
    for i, ms in enumerate(first_times):
        print(f"call {i + 1:2d} {ms:8.3f} ms {bar(ms, max(first_times))}")
    show(pictures.warmup_curve, first_times, "784-128-10 network on (64, 784), its first calls")

# %% [markdown]
"""
Mostly the first call is the longest, and it takes a few more until the times settle. "Warmup is the just-in-time compiler", people say. NumPy has no such compiler. What there is instead, each shown by itself: the operating system hands out memory only when it is first touched
(*page faults*); the processor keeps what it used a moment ago near by (*caches*); and the BLAS library's threads sleep when nobody multiplies.
"""

# %%
if __name__ == "__main__":
    def once(function):
        """Milliseconds of one call."""
        start = perf_counter_ns()
        function()
        return (perf_counter_ns() - start) / 1e6


    fresh_memory = np.empty(12_000_000, np.float32)
    print(f"pages:   first write {once(lambda: fresh_memory.fill(1)):6.2f} ms, second write {once(lambda: fresh_memory.fill(1)):6.2f} ms")
    near, far = np.ones(60_000, np.float32), np.ones(6_000_000, np.float32)
    far.sum()
    print(f"caches:  after other work {once(near.sum):6.3f} ms, right again {once(near.sum):6.3f} ms")
    square = np.ones((256, 256), np.float32)
    square @ square
    time.sleep(0.05)
    print(f"threads: after a pause {once(lambda: square @ square):6.2f} ms, right again {once(lambda: square @ square):6.2f} ms")

# %% [markdown]
"""
### The clock

A clock has a *resolution*, the smallest step it can show, and an *overhead*, what reading it costs. A call that is shorter than a thousand steps cannot be read to a tenth of a per cent, so short calls are timed in
**blocks**: many calls between two reads. A block's mean is not a latency, though: whatever towered inside it is averaged away. Given: what this clock can do, found out once.
"""

# %%
#| export
class ClockFacts(NamedTuple):
    """What a clock can do, in ns: ``resolution_ns``, its smallest step; ``overhead_ns``, two reads back to back."""

    resolution_ns: int
    overhead_ns: int

# %%
#| export
@lru_cache(maxsize=1)
def clock_facts():
    """Return the ``ClockFacts`` of ``perf_counter_ns`` on this machine (ns), measured at the first call."""
    gaps = []
    for _ in range(2000):
        start = perf_counter_ns()
        gaps.append(perf_counter_ns() - start)
    return ClockFacts(min((gap for gap in gaps if gap > 0), default=1_000_000), sorted(gaps)[1000])

# %%
#| export
def block_size(call_ns):
    """Return a count: how many calls of ``call_ns`` ns between two reads make a thousand clock steps pass."""
    least = 1000 * clock_facts().resolution_ns
    return 1 if call_ns >= least else ceil(least / max(call_ns, 1))

# %%
if __name__ == "__main__":
    print(f"this clock steps by {clock_facts().resolution_ns} ns; calls under {clock_facts().resolution_ns} µs are timed in blocks")
    for call_ns in (5_000, 50_000, 5_000_000):
        print(f"a call of {call_ns:>9,} ns: {block_size(call_ns)} call(s) between two reads")

# %% [markdown]
"""
**How do you test a stopwatch?** You hand it a clock that you control. `HandedClock` stands still until somebody lets time pass. `takes(clock, 3, 5)` is a "model" whose first call takes exactly 3 ms and whose second takes 5 ms.
Every check in this section uses them, so every answer is exact and no check waits.
"""

# %%
if __name__ == "__main__":
    class HandedClock:
        """clock() reads nanoseconds; clock.advance(ms) lets time pass; clock.reads counts the reads."""

        def __init__(self):
            self.now, self.reads = 0, 0

        def __call__(self):
            self.reads += 1
            return self.now

        def advance(self, ms):
            self.now += round(ms * 1e6)


    def takes(clock, *each_ms):
        """Make a model whose calls take these milliseconds, one after another; the last one for ever."""
        todo = list(each_ms)

        def model(x=None):
            clock.advance(todo.pop(0) if len(todo) > 1 else todo[0])
            return x
        return model

# %% [markdown]
"""
**Task.** Write `time_calls(call, warmup, iterations, clock)`: call `call()` `warmup` times without looking at the clock; then `iterations` times, each **between two reads** of `clock()`. Return a list of the
differences, in the clock's own nanoseconds. A sample is exactly two reads: nothing else may stand between them but the call.

Example: with calls that take 9, 2, 3 ms, `time_calls(call, 1, 2, clock)` is `[2_000_000, 3_000_000]`.

<details><summary>Hint 1: idea</summary>
Two loops. The first throws its result away.
</details>
<details><summary>Hint 2: approach</summary>
Read, call, read: <code>start = clock()</code>, the call, and only then the difference.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Reads 100, 160, 200, 290 and no warmup: the samples are 60 and 90. The 40 between 160 and 200 belong to nobody.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "time-calls", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def time_calls(call, warmup, iterations, clock):
    """Call ``warmup`` times unread, then ``iterations`` times between two reads of ``clock``; return a list of ns."""
    raise NotImplementedError("time_calls: section 5, cell 8")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-time-calls", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "latency"}
if __name__ == "__main__":
    def test_time_calls():
        """Exact samples from a handed clock; warmup is left out; two reads a sample."""
        clock = HandedClock()
        samples = time_calls(takes(clock, 49, 12, 5.1, 5.2, 5.0, 5.3, 50.0), 2, 5, clock)
        check("reads of the clock", clock.reads, 10, {14: "the clock was read during warmup: those calls are no samples", 6: "one read a call: then the loop itself is timed too", 0: "another clock was read",
                                                      2: "one read before and one after all calls: no samples, only their sum", 8: "one sample too few", 12: "one sample too many"})
        check("five samples after two warmup calls, ns", samples, [5_100_000, 5_200_000, 5_000_000, 5_300_000, 50_000_000], {
            (49_000_000, 12_000_000, 5_100_000, 5_200_000, 5_000_000): "the warmup calls were kept as samples", (5.1, 5.2, 5.0, 5.3, 50.0): "milliseconds; want the clock's own nanoseconds",
            (12_000_000, 5_100_000, 5_200_000, 5_000_000, 5_300_000): "one warmup call too few", (5_000_000, 5_100_000, 5_200_000, 5_300_000, 50_000_000): "sorted; want the order in which they were taken",
            (-5_100_000, -5_200_000, -5_000_000, -5_300_000, -50_000_000): "start minus end"})
        check("how long all that took", clock.now, 131_600_000)
        check("no iterations, no samples", time_calls(takes(clock, 1), 3, 0, clock), [])


    test_time_calls()

# %% [markdown]
"""
### What to say about a hundred numbers

**Question.** Five calls took 5.1, 5.2, 5.0, 5.3 and 50.0 ms. How long does a call take?
"""

# %%
if __name__ == "__main__":
    five = [5.1, 5.2, 5.0, 5.3, 50.0]
    print(f"mean {fmean(five):.2f} ms, and no call took anything like that\nsorted {sorted(five)}, the middle one is {sorted(five)[2]}")

# %% [markdown]
"""
The mean answers "how long will a million calls take?". The **median** answers "how long does a call take?". The slow ones are not thrown away: they show in the high **percentiles**, where users feel them.

There are nine definitions of a percentile in use. Ours, everywhere in this course, is NumPy's default, *linear*: put the samples in order at positions 0 to n-1; percentile `p` sits at position `p / 100 * (n - 1)`; between two positions, go straight from
one sample to the next. It never leaves the observed range.

**Task.** Write `percentile(samples, p)`; the samples may come in any order and must stay in it. No samples, or a `p` outside 0 to 100: `ValueError`.

<details><summary>Hint 1: idea</summary>
The position's whole part says between which two; its fraction says how far.
</details>
<details><summary>Hint 2: approach</summary>
<code>sorted</code> makes a new list. <code>floor(position)</code> is the lower index; the upper one is one more, but not past the end.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
[10, 20, 40], p = 75: position 1.5, between 20 and 40, half way: 30.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "percentile", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def percentile(samples, p):
    """Return percentile ``p`` (0 to 100), linear between samples: position p/100 * (n-1), as NumPy's default.

    It has the unit of the samples.

    Raises:
        ValueError: ``p`` outside 0 to 100, or no samples.
    """
    raise NotImplementedError("percentile: section 5, cell 11")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-percentile", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "latency"}
if __name__ == "__main__":
    def test_percentile():
        """The median of the five, other percentiles, edges."""
        five = [5.1, 5.2, 5.0, 5.3, 50.0]
        check("median of 5.1, 5.2, 5.0, 5.3, 50.0", percentile(five, 50), 5.2, {14.12: "that is the mean", 5.0: "the samples were not sorted", 5.3: "off by one", 5.1: "off by one", 5.25: "position p/100 * n; want p/100 * (n - 1)", 5.15: "position p/100 * n - 1; want p/100 * (n - 1)"})
        check("percentile 90 of the same", percentile(five, 90), 32.12, {50.0: "rounded up to the next sample, or position p/100 * (n + 1) - 1: another definition", 5.3: "rounded down to a sample",
            27.65: "the middle of the two neighbours; the position's fraction says how far", 23.18: "the two weights are swapped"})
        check("percentile 75 of 10, 20, 40", percentile([40, 10, 20], 75), 30.0, {15.0: "the samples were not sorted", 20.0: "rounded down to a sample", 40.0: "rounded up to a sample"})
        check("percentiles 0 and 100", [percentile(five, 0), percentile(five, 100)], [5.0, 50.0], {(5.0, 5.3): "percentile 100 is the last sample", (5.1, 50.0): "the samples were not sorted"})
        check("one sample", percentile([7.0], 99), 7.0)
        check("the samples stay in their order", five, [5.1, 5.2, 5.0, 5.3, 50.0], {(5.0, 5.1, 5.2, 5.3, 50.0): "sorted in place; use sorted()"})
        check_raises("no samples", ValueError, lambda: percentile([], 50))
        check_raises("percentile 101", ValueError, lambda: percentile(five, 101))


    test_percentile()

# %% [markdown]
"""
**How sure is a median?** Think of a coin. Each sample falls below the *true* median with probability ½, whatever the distribution looks like. So "how many of my n samples lie below it?" is a count of heads in n tosses, and we know all about those:
exactly `comb(n, k)` of the `2**n` outcomes have k heads (`comb` is imported):
"""

# %%
if __name__ == "__main__":
    for k in range(9):
        print(f"{k} heads in 8 tosses: {comb(8, k):2d} of {2**8} outcomes; at most {k}: {sum(comb(8, i) for i in range(k + 1)):3d}")

# %% [markdown]
"""
Now put the samples in order and walk in from both ends. The interval from the j-th lowest to the j-th highest sample misses the true median with a probability of `(comb(n, 0) + … + comb(n, j-1)) / 2**n` **at each end**. We allow one in forty at each end; that makes a 95 % interval.

| n = 8 | at most 0 heads | at most 1 | |
|---|---|---|---|
| outcomes of 256 | 1 | 9 | |
| times 40 | 40 ≤ 256 | 360 > 256 | so j = 1: from the lowest to the highest |
"""

# %% [markdown]
"""
**Task.** Write `median_interval(samples)`: `(low, high)` for the largest `j` that the rule allows, `None` when even j = 1 is not allowed. Compute with whole numbers: `40 * count <= 2**n`.

Example: for 8 samples it is `(min(samples), max(samples))`.

<details><summary>Hint 1: idea</summary>
Count outcomes from the left, one k after another, while the rule holds. How many steps you got is j.
</details>
<details><summary>Hint 2: approach</summary>
Add <code>comb(n, k)</code> for k = 0, 1, … (or step from one to the next: <code>comb(n, k + 1) = comb(n, k) * (n - k) // (k + 1)</code>). With <code>ordered = sorted(samples)</code> the ends are <code>ordered[j - 1]</code> and <code>ordered[n - j]</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
n = 10: counts 1, 11, 56 of 1,024. 40·1 and 40·11 = 440 pass, 40·56 does not: j = 2, from the second lowest to the second highest.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "median-interval", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def median_interval(samples):
    """Return (low, high), an exact 95 % interval of the median from order statistics; None under six samples.

    The binomial's tails hold at most 1/40 each. It assumes independent samples: call it the interval "of this run".
    It has the unit of the samples.
    """
    raise NotImplementedError("median_interval: section 5, cell 14")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-median-interval", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "latency"}
if __name__ == "__main__":
    def test_median_interval():
        """Exact intervals by hand."""
        check("6 samples", median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]), (1.0, 6.0), {(2.0, 5.0): "one step too far in: 40 * 7 > 64", (3.0, 4.0): "the samples were not sorted", None: "40 * 1 <= 64: six samples can say (k starts at 0)",
            (1.0, 5.0): "not symmetric: the ends are j-th lowest and j-th highest", (2.0, 6.0): "not symmetric: the ends are j-th lowest and j-th highest",
            (3.5 - 1.96 * (3.5 / 6) ** 0.5, 3.5 + 1.96 * (3.5 / 6) ** 0.5): "that is the mean's interval, which a single slow call throws off"})
        check("5 samples", median_interval([5.1, 5.2, 5.0, 5.3, 50.0]), None, {(5.0, 50.0): "40 * 1 > 32: five samples cannot say"})
        check("10 samples", median_interval(list(range(1, 11))), (2, 9), {(3, 8): "one step too far in", (1, 10): "a closer interval is allowed"})
        check("100 samples", median_interval(list(range(1, 101))), (40, 61), {(41, 60): "one step too far in", (40, 60): "not symmetric: the ends are j-th lowest and j-th highest", (39, 62): "a closer interval is allowed", (43, 58): "each k was weighed alone: add the counts up"})
        check("1,000 samples", median_interval(list(range(1, 1001))), (469, 532), {(470, 531): "one step too far in", (468, 533): "a closer interval is allowed"})


    test_median_interval()

# %% [markdown]
"""
**From how many samples on** can percentile `p` have such an interval at all? The widest interval runs from the lowest to the highest sample. It misses when *all* samples lie below (probability `(p/100)**n`) or all above (`(1 - p/100)**n`); each must be at most 1/40.

**Guess first:** how many samples does p99 need? People quote it from 100.
"""

# %%
if __name__ == "__main__":
    guess("samples that a p99 needs", None, sure=0.5)

# %%
#| export
def least_samples(p):
    """Return how many samples percentile ``p`` needs to have a two-sided 95 % interval at all, a count.

    Raises:
        ValueError: ``p`` is not strictly between 0 and 100.
    """
    if not 0 < p < 100:
        raise ValueError(f"percentile {p} never has a two-sided interval; want strictly between 0 and 100")
    worst, n = max(p, 100 - p) / 100, 1
    while worst**n > 1 / 40:
        n += 1
    return n

# %%
if __name__ == "__main__":
    print({f"p{p}": least_samples(p) for p in (50, 90, 95, 99)})
    settle("samples that a p99 needs", least_samples(99))
    print("the p99 of 100 samples has no interval: it is nearly the maximum of that run")

# %% [markdown]
"""
Given, too: the same interval for the other percentiles, with a coin that falls on "below" with probability `p / 100` (*skip on first reading*).
"""

# %%
#| export
def percentile_interval(samples, p):
    """Return (low, high), the 95 % interval of percentile ``p`` from order statistics; None with too few samples.

    It has the unit of the samples. ``p``: strictly between 0 and 100, else a ``ValueError``.
    """
    ordered, n, q = sorted(samples), len(samples), p / 100
    if n < least_samples(p):
        return None
    k = np.arange(1, n + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((n - k + 1) / k))])  # log of comb(n, k)
    chance = np.exp(ways + np.arange(n + 1) * np.log(q) + (n - np.arange(n + 1)) * np.log1p(-q))
    at_most = np.cumsum(chance)  # at_most[k]: probability of at most k samples below
    at_least = np.cumsum(chance[::-1])[::-1]
    low = int((at_most <= 1 / 40).sum())  # the low-th lowest
    high = int((at_least > 1 / 40).sum())  # the first position that is passed with at most 1/40
    return ordered[max(low, 1) - 1], ordered[min(high, n) - 1]

# %%
if __name__ == "__main__":
    print("the median's, both ways:", median_interval(range(1, 101)), percentile_interval(range(1, 101), 50))
    print("p90 of 1..100:", percentile_interval(range(1, 101), 90), "  p99 of 1..100:", percentile_interval(range(1, 101), 99))

# %% [markdown]
"""
Given: `summarize(times_ms)`, a dict that says what a list of times says. `std` is that of a sample (divided by n - 1), `iqr` percentile 75 minus percentile 25, `ci95` the median's interval; `unsupported` lists the percentiles that have fewer samples than they need. Such a percentile is
still given, and always marked.
"""

# %%
#| export
def summarize(times_ms):
    """Say what times say; a dict, times in ms.

    Keys:
        mean, median, std, min, max, p50, p95, p99, iqr: ms; std of the sample, 0.0 of a single one.
        ci95: (low, high) of the median, ms; None under six samples.
        unsupported: the percentiles that this many samples cannot support.

    Raises:
        ValueError: no times came.
    """
    summary = {"mean": fmean(times_ms), "median": percentile(times_ms, 50),
               "std": stdev(times_ms) if len(times_ms) > 1 else 0.0, "min": min(times_ms), "max": max(times_ms)}
    for p in (50, 95, 99):
        summary[f"p{p}"] = percentile(times_ms, p)
    summary["iqr"] = percentile(times_ms, 75) - percentile(times_ms, 25)
    summary["ci95"] = median_interval(times_ms)
    summary["unsupported"] = [f"p{p}" for p in (50, 95, 99) if len(times_ms) < least_samples(p)]
    return summary

# %%
if __name__ == "__main__":
    say("five calls: ", summarize(five))
    for n in (71, 72):
        print(f"{n} samples do not support {summarize([float(i) for i in range(n)])['unsupported']}")

# %% [markdown]
"""
### The whole instrument

What is left is care, and it is given. Each line of this list answers something that goes wrong in practice. Read the list, run the two cells below it, and of the code read `quiet`, `_spread_samples` and `_doubts`; the rest *skip on first reading*, down to the cell that prints a table.

- **garbage**: Python's collector may stop the world in the middle of a sample. Collect once before, keep it off, put it back on only if it was on, whatever happens.
- **neighbours**: consecutive samples resemble each other (a noisy second makes thirty slow samples). Samples are spread over a stretch of time; the gaps are filled with *untimed calls*, not with sleep: a machine that dozed off may need a while to wake up (the cell after the next measures yours).
- **doubts travel with the result**: outliers are counted, never dropped; two halves that disagree make it `stable=False`; a spread over 10 % is a warning.
- **what was timed** is written down: a number without its workload cannot be compared with anything.
"""

# %%
if __name__ == "__main__":
    def garbage(n=2000):
        """Make n little circles that only the collector can free."""
        for _ in range(n):
            circle = []
            circle.append(circle)


    for name, switch in (("collector on ", gc.enable), ("collector off", gc.disable)):
        switch()
        slowest = max(once(garbage) for _ in range(60))
        typical = percentile([once(garbage) for _ in range(60)], 50)
        gc.enable()
        print(f"{name}: typical {typical:6.3f} ms, slowest of 60 {slowest:6.3f} ms")
    _ = gc.collect()

# %%
if __name__ == "__main__":
    def rested():
        """Milliseconds of a product right after a nap."""
        time.sleep(0.003)
        return once(lambda: square @ square)


    awake = percentile([once(lambda: square @ square) for _ in range(40)], 50)
    dozed = percentile([rested() for _ in range(40)], 50)
    print(f"one call after another {awake:.3f} ms; each after 3 ms of sleep {dozed:.3f} ms: {dozed / awake:.1f} times as long")

# %%
#| export
@contextmanager
def quiet():
    """Collect garbage once, then keep the collector off inside the ``with`` block; it goes back on if it was on."""
    was_on = gc.isenabled()
    gc.collect()
    try:
        gc.disable()
        yield
    finally:
        if was_on:
            gc.enable()

# %%
#| export
@contextmanager
def gradients(enabled):
    """Remember how tensors are made inside the ``with`` block (True), or do not (False); afterwards it is as before."""
    state = thread_state()
    before, state.grad_enabled = state.grad_enabled, enabled
    try:
        yield
    finally:
        state.grad_enabled = before

# %%
#| export
def whole(what, value, least):
    """Return ``value`` as an int; ``TypeError`` unless an integer (a bool is none), ``ValueError`` below ``least``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} is {value!r}; want an integer of at least {least}")
    if value < least:
        raise ValueError(f"{what} is {value}; want at least {least}")
    return int(value)

# %% [markdown]
"""
**What runs.** `forward_of` from section 3 refuses what gives no Tensor; that includes a model that hands back a *generator*: it has not computed anything yet, so its "latency" would be a lie. The check is made on the first call, which is
reported apart; the calls that count go to the model directly.
"""

# %%
#| export
def _calls_of(model, x):
    """Return two functions that run the model on ``x``: one that checks the output, one that is bare."""
    checked = partial(forward_of(model), x)
    return checked, partial(model if callable(model) else getattr(model, "forward", checked.func), x)

# %%
#| export
def _warm_up(call, warmup, budget_ns=50_000_000):
    """Call ``warmup`` times, then until medians of five stop falling or the budget ends: (calls, settled, last ns)."""
    times, settled, start = [], False, perf_counter_ns()
    while len(times) < warmup or (not settled and perf_counter_ns() - start < budget_ns):
        times += time_calls(call, 0, 1, perf_counter_ns)
        settled = len(times) >= 10 and percentile(times[-5:], 50) >= 0.98 * percentile(times[-10:-5], 50)
    return len(times), settled, percentile(times[-5:], 50)

# %%
#| export
def _spread_samples(call, iterations, block, budget_ns=60_000_000):
    """Take samples of ``block`` calls, spread over the budget; the gaps are filled with untimed calls."""
    def many():
        for _ in range(block):
            call()

    times = []
    for _ in range(iterations):
        start = perf_counter_ns()
        times += time_calls(call if block == 1 else many, 0, 1, perf_counter_ns)
        while perf_counter_ns() - start < budget_ns / iterations:
            call()
    return [ns / block for ns in times]

# %%
#| export
def reading(clock):
    """Return a function that reads a handed clock, in nanoseconds.

    Raises:
        TypeError: no function; and, when it is read, no number of nanoseconds below 2**62.
    """
    if not callable(clock):
        raise TypeError(f"clock is {clock!r}; want a function without arguments that returns nanoseconds")

    def read():
        now = clock()
        if not isinstance(now, (int, float, np.integer, np.floating)) or not abs(now) < 2**62:  # nan is not smaller
            raise TypeError(f"the clock gave {now!r}; want nanoseconds, a number below 2**62")
        return now
    return read

# %%
#| export
def _sample(checked, bare, warmup, iterations, clock):
    """Take the samples: (times in ns, first call in ns, block size, warmup calls, whether warmup settled)."""
    if clock is not None:  # a handed clock: nothing calibrated, nothing in blocks, exactly two reads a sample
        clock = reading(clock)
        first = time_calls(checked, 0, min(warmup, 1), clock)
        times = time_calls(checked, max(warmup - 1, 0), iterations, clock)
        return times, (first or times)[0], 1, warmup, None
    first = time_calls(checked, 0, 1, perf_counter_ns)[0]
    if warmup > 1:
        calls, settled, typical = _warm_up(bare, warmup - 1)
    else:  # the first call is no measure of how long the next ones take: a millisecond of them says how many in a block
        (calls, _, typical), settled = _warm_up(bare, 1, 1_000_000), None
    block = block_size(typical)
    return _spread_samples(bare, iterations, block), first, block, calls + 1, settled

# %% [markdown]
"""
**Doubts.** The lag-1 autocorrelation asks whether a sample resembles the one before it: near 0, no; near 1, the samples hang together and the interval speaks of this run only. Tukey's fences count outliers: *mild* beyond 1.5, *severe* beyond 3 times the iqr outside of the middle half.
"""

# %%
#| export
def _resemblance(times):
    """Return the lag-1 autocorrelation of the samples, 0.0 where it cannot be known."""
    off = np.asarray(times, float) - fmean(times)
    power = float(off @ off)
    return float(off[1:] @ off[:-1]) / power if len(times) > 2 and power > 0 else 0.0

# %%
#| export
def _outliers(times):
    """Count samples beyond Tukey's fences: mild 1.5 to 3 times the iqr outside the middle half, severe beyond."""
    low, high = percentile(times, 25), percentile(times, 75)
    beyond = [max(low - ms, ms - high) for ms in times]
    severe = sum(far > 3 * (high - low) for far in beyond)
    return {"mild": sum(far > 1.5 * (high - low) for far in beyond) - severe, "severe": severe}

# %%
#| export
def _busy():
    """Return a doubt, in a list, when more wants to run than this machine has processors (where that is known)."""
    try:
        load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return []
    return [f"the machine is busy: {load:.1f} programs at a time want its {processors} processors, and a product whose "
            "other BLAS thread waits takes many times as long"] if load > 1.5 * processors else []

# %%
#| export
def _doubts(stats, traced):
    """Return one sentence for each reason to trust these numbers less."""
    median, said = stats["median"], []
    if traced:
        said.append("tracemalloc was tracing: small ops are two to four times slower under it; stop tracing to time")
    if stats["below_resolution"]:
        said.append("the call is below the clock's resolution: too short for this clock")
    if stats["backwards"]:
        said.append(f"the clock ran backwards in {stats['backwards']} sample(s); they count as 0")
    if stats["iqr"] > 0.1 * median:
        said.append(f"spread: the middle half of the samples spans {stats['iqr'] / median:.0%} of the median"
                    if median else "spread: the samples differ although their median is 0")
    if stats["outliers"]["severe"]:
        count = stats["outliers"]["severe"]
        said.append(f"{count} severe outlier(s), up to {stats['max']:.3g} ms; counted, not dropped")
    if stats["samples"] == 1:
        said.append("a single sample says nothing of spread or drift: its std and iqr are no measurements")
    elif not stats["stable"]:
        said.append("not stable: the first and the second half of the run disagree by more than a tenth")
    if stats["lag1"] > 0.5:
        said.append(f"neighbours hang together (lag-1 {stats['lag1']:.2f}): the interval is of this run only")
    if stats["warmup_stable"] is False:
        said.append("the times were still falling when the warmup budget ended")
    return said

# %% [markdown]
"""
And together. The result is a plain dict, which can be written as JSON.
"""

# %%
#| export
def _statistics(times, first, block, warmup_calls, settled, clock):
    """Make the result of the raw samples (ns): what they say, then what speaks against it."""
    ms = [max(t, 0) / 1e6 for t in times]
    stats = summarize(ms)
    halves = [percentile(half, 50) for half in (ms[:len(ms) // 2], ms[len(ms) // 2:]) if half]
    shortest_ms = 0.0 if clock is not None else 100 * clock_facts().resolution_ns / block / 1e6
    if block > 1:
        stats["unsupported"] = [p for p in ("p50", "p95", "p99") if p in stats["unsupported"] or p != "p50"]
    stats |= {"intervals": {f"p{p}": None if f"p{p}" in stats["unsupported"] else percentile_interval(ms, p)
                            for p in (50, 95, 99)},
              "first_call": first / 1e6, "samples": len(ms),
              "samples_are": "calls" if block == 1 else f"means of {block} calls",
              "outliers": _outliers(ms), "lag1": _resemblance(ms), "half_medians": halves,
              "stable": len(halves) == 2 and abs(halves[0] - halves[1]) <= 0.1 * stats["median"],
              "warmup_calls": warmup_calls, "warmup_stable": settled,
              "below_resolution": stats["median"] <= shortest_ms, "backwards": sum(t < 0 for t in times),
              "times_ms": ms}
    return stats

# %%
#| export
def latency_statistics(model, input_tensor, warmup=10, iterations=100, *, clock=None):
    """Time the model's call, without gradients and in its present mode; times in ms, percentiles linear.

    Args:
        model: whatever can be called, or has a ``forward``.
        input_tensor: what it is called with, the whole batch.
        warmup: calls before the first sample, at least; the first call is one of them. Without warmup it is a sample.
        iterations: samples.
        clock: a function that reads nanoseconds. With one, nothing is calibrated and nothing timed in blocks: a sample
            is two reads.

    Keys:
        mean, median, std, min, max, p50, p95, p99, iqr: ms a call.
        ci95: (low, high) of the median, of this run, ms; None under six samples.
        intervals: the same of p50, p95, p99; None where unsupported.
        unsupported: percentiles that this many samples cannot support.
        first_call, times_ms, half_medians: ms of the first call; of each sample; medians of the run's two halves.
        samples, samples_are: how many, and "calls" or "means of k calls".
        outliers: counts of "mild" and "severe" ones by Tukey's fences; they stay in.
        lag1: autocorrelation of neighbours, -1 to 1.
        stable: whether the halves agree within a tenth of the median.
        warmup_calls, warmup_stable: how many, and whether the times had stopped falling (None: not looked at).
        below_resolution, backwards: whether the call is too short for the clock; samples in which it ran backwards.
        warnings: a sentence for each reason to trust these numbers less.
        workload: what was run.

    Raises:
        TypeError: ``warmup`` or ``iterations`` is no integer, a clock that reads no nanoseconds, no Tensor came out.
        ValueError: ``warmup`` below 0, ``iterations`` below 1, no forward, or inside ``shape_only()``.
    """
    warmup, iterations = whole("warmup", warmup, 0), whole("iterations", iterations, 1)
    if thread_state().shape_only:
        raise ValueError("a shape-only run computes nothing that could be timed; measure latency outside of it")
    checked, bare = _calls_of(model, input_tensor)
    traced = tracemalloc.is_tracing()
    with untouched(model), gradients(False), quiet():
        stats = _statistics(*_sample(checked, bare, warmup, iterations, clock), clock)
    stats["warnings"] = _doubts(stats, traced) + (_busy() if clock is None else [])
    if is_heard():
        stats["warnings"].append("somebody listens at the door: the calls timed here are kept from it, but ops in "
                                 "threads that the model starts may be heard, and slower for it")
    stats["workload"] = workload(model, input_tensor, warmup=warmup, iterations=iterations)
    return stats

# %%
#| export
def measure_latency(model, input_tensor, warmup=10, iterations=100, *, clock=None):
    """Return the median milliseconds of one call of the model; see ``latency_statistics`` for everything else.

    Raises:
        TypeError: as ``latency_statistics``.
        ValueError: as ``latency_statistics``.
    """
    return latency_statistics(model, input_tensor, warmup, iterations, clock=clock)["median"]

# %%
if __name__ == "__main__":
    clock = HandedClock()
    exact = latency_statistics(takes(clock, 49, 5.1, 5.2, 5.0, 5.3, 50.0), picture, warmup=1, iterations=5, clock=clock)
    print(f"handed clock: median {exact['median']} ms, mean {exact['mean']:.2f} ms, first call {exact['first_call']} ms, unsupported {exact['unsupported']}")
    print(*exact["warnings"], sep="\n")

# %%
#| export
def _said(warnings):
    """Return warnings as lines of at most 80 columns, each marked with an exclamation mark."""
    from textwrap import fill

    return [fill(text, 80, initial_indent="! ", subsequent_indent="  ") for text in warnings]

# %%
#| export
def latency_table(stats):
    """Return latency statistics (ms) as a few lines of text; what is unsupported is marked with a star."""
    star = {p: "*" if p in stats["unsupported"] else " " for p in ("p50", "p95", "p99")}
    low, high = stats["ci95"] or (None, None)
    interval = "no interval: under 6 samples" if low is None else f"95 % interval {low:.4g} to {high:.4g}, of this run"
    lines = [f"median {stats['median']:10.4g} ms{star['p50']} {interval}",
             f"p95    {stats['p95']:10.4g} ms{star['p95']}", f"p99    {stats['p99']:10.4g} ms{star['p99']}",
             f"mean   {stats['mean']:10.4g} ms   std {stats['std']:.3g}, {stats['min']:.4g} to {stats['max']:.4g}",
             f"first  {stats['first_call']:10.4g} ms   {stats['samples']} samples, {stats['samples_are']}"]
    if "*" in star.values():
        lines.append("* more samples, or single calls, are needed to support this percentile")
    return "\n".join(lines + _said(stats["warnings"]))

# %%
if __name__ == "__main__":
    forty = latency_statistics(fresh, picture, warmup=5, iterations=40)
    print(latency_table(forty))
    show(pictures.latency_histogram, forty)


    def tell_doubts(name, stats):
        """Print the doubts that a measurement carries, if there are any, each in its first words."""
        if stats["warnings"]:
            say(f"  ! {name}: " + "; ".join(doubt.split(":")[0].split(";")[0] for doubt in stats["warnings"]))

# %% [markdown]
"""
**What if** BLAS may use one thread only? Where the machine is yours, a product gets slower. Where others use it too (the doubts above say so), it may get *many times faster*: a product in two threads is ready when the slower thread is, and a thread that waits for its processor waits for milliseconds. If that is what you see, start Python with `OPENBLAS_NUM_THREADS=1` for the rest of this notebook (measured limits are kept for each number of threads), and say so with your results.
"""

# %%
if __name__ == "__main__":
    for threads in (None, 1):
        with threadpool_limits(threads, user_api="blas"):
            timed = latency_statistics(fresh, picture, warmup=2, iterations=15)
        print(f"{timed['workload']['blas_threads']} BLAS thread(s): median {timed['median']:8.4f} ms, slowest {timed['max']:8.4f} ms")

# %% [markdown]
"""
**What if** you time the same code twice? Guess whether the two intervals overlap ("yes" or "no"). Then run the cell a few times.
"""

# %%
if __name__ == "__main__":
    guess("two timings of the same code: do their intervals overlap", None, sure=0.5)

# %%
if __name__ == "__main__":
    runs = [latency_statistics(fresh, picture, warmup=2, iterations=15) for _ in range(2)]
    for run in runs:
        print(f"median {run['median']:.4f} ms, 95 % interval {run['ci95'][0]:.4f} to {run['ci95'][1]:.4f}")
    apart = runs[0]['ci95'][0] > runs[1]['ci95'][1] or runs[1]['ci95'][0] > runs[0]['ci95'][1]
    print("the intervals do not overlap: the same code 'differs'" if apart else "the intervals overlap, this time")
    settle("two timings of the same code: do their intervals overlap", "no" if apart else "yes")

# %% [markdown]
"""
**For a real model.** A service promises "p99 under 200 ms". With 20 test requests the p99 is, within a hair, the slowest request of the afternoon. With 368 you may begin to speak. And the two people from the beginning? Both read their clock rightly; one said a
median, one a mean.
"""

# %% [markdown]
"""
## 6. What limits it

*35 minutes · 12 points*

**Question.** Two functions take a millisecond each. A friend offers you a processor that computes ten times faster. Which of the two gets faster?
"""

# %%
if __name__ == "__main__":
    numbers, answer = np.random.default_rng(0).standard_normal((2, 1_000_000)).astype(np.float32)
    left, right, product = np.random.default_rng(0).standard_normal((3, 192, 192)).astype(np.float32)
    reached, took_ms = {}, {}
    for name, function, flop_count in (("ReLU of 1,000,000", lambda: np.maximum(numbers, 0, out=answer), 1_000_000),
                                       ("192 x 192 product", lambda: np.matmul(left, right, out=product), 2 * 192**3)):
        with threadpool_limits(1, user_api="blas"):  # one thread each, and the best of 60 calls: what can this machine do?
            ms = min(time_calls(function, 3, 60, perf_counter_ns)) / 1e6
        reached[name], took_ms[name] = flop_count / ms / 1e6, ms
        print(f"{name}: {ms:6.3f} ms for {flop_count:>11,} FLOPs: {reached[name]:7.2f} GFLOP/s")
    relu_ms, product_ms = took_ms.values()
    print(f"the product: {reached['192 x 192 product'] / reached['ReLU of 1,000,000']:.0f} times the rate of ReLU, "
          f"{2 * 192**3 / 1e6:.1f} times its FLOPs, {product_ms / relu_ms:.2f} times its time")

# %% [markdown]
"""
Same machine, same minute, and two rates that far apart. ("Fewer FLOPs is faster", people say: look at the last line.) ReLU does not compute slowly; it *waits for memory*. Every function pays two bills at once: it computes at most at the machine's **peak** (GFLOP/s), and it moves bytes at most at the **bandwidth**
(GB/s). The larger bill is its time:

```
time  >=  max( flops / peak ,  bytes / bandwidth )

attainable GFLOP/s
   peak ─────────────────╭────────────────────   compute
                      ╭──╯
                   ╭──╯   slope = bandwidth
                ╭──╯
             ╭──╯        memory
             └───────────┬────────────────────▶  intensity = flops / bytes
                    ridge point = peak / bandwidth
```

This picture is the **roofline** (Williams, Waterman and Patterson, 2009). *Intensity* says how much work a function does with each byte it moves. Left of the ridge point a faster processor buys nothing.

"Memory-bound" does **not** mean "uses much memory": a function that touches 4 kB can be memory-bound, and one that fills 10 GB compute-bound. It means: *for each byte moved there is too little to compute*.

Given: the machine as plain data. `bandwidth_gbs` is a number, or a table from *footprint* (how many bytes the function touches) to GB/s, for small things live in the caches, which are faster than main memory. `dispatch_us` and the other fields come in a moment; of the code below only the first three fields and `bandwidth` matter now.
"""

# %%
#| export
@dataclass(frozen=True)
class MachineLimits:
    """What a machine can do at most.

    Args:
        peak_gflops: of float32 products, 10^9 FLOPs a second.
        bandwidth_gbs: GB/s (10^9 bytes a second), a number or {footprint in bytes: GB/s}.
        dispatch_us: what an op costs beside its work, microseconds.
        transcendental_gops: rate of exp and its like, 10^9 a second; None where it does not matter.
        source: where the numbers come from.
        product_gflops: {FLOPs of one product: GFLOP/s}, what products of a size reach, where that is known.
        spread: how far the median of the peak's timings lay below the best, 0 to 1.
        step_us: microseconds of a small NumPy call inside an op that makes several; None where it does not matter.

    Raises:
        TypeError: what is no number, or a source that is no text.
        ValueError: a rate of 0 or below, what is not finite, a spread above 1, an empty table.
    """

    peak_gflops: float
    bandwidth_gbs: float | Mapping
    dispatch_us: float
    transcendental_gops: float | None = None
    source: str = "handed in"
    product_gflops: Mapping | None = None
    spread: float | None = None
    step_us: float | None = None

    def __post_init__(self):
        rates = self.bandwidth_gbs if isinstance(self.bandwidth_gbs, Mapping) else {0: self.bandwidth_gbs}
        for what, value in (("peak_gflops", self.peak_gflops), *(("bandwidth_gbs", rate) for rate in rates.values()),
                            *(("product_gflops", rate) for rate in (self.product_gflops or {}).values()),
                            ("transcendental_gops", self.transcendental_gops)):
            if value is None and what == "transcendental_gops":
                continue
            if amount(what, value) <= 0:
                raise ValueError(f"{what} is {value}; want more than 0")
        if not rates:
            raise ValueError("bandwidth_gbs is an empty table; want at least one footprint with its GB/s")
        amount("dispatch_us", self.dispatch_us)
        amount("step_us", 0 if self.step_us is None else self.step_us)
        for what, table in (("bandwidth_gbs", rates), ("product_gflops", self.product_gflops or {})):
            for size in table:
                amount(f"a size in the table {what}", size)
        if self.spread is not None and amount("spread", self.spread) > 1:
            raise ValueError(f"spread is {self.spread}; want 0 to 1, or None where it is not known")
        if not isinstance(self.source, str):
            raise TypeError(f"source is {self.source!r}; want text that says where the numbers come from")

    def bandwidth(self, footprint):
        """Return GB/s for a function that touches ``footprint`` bytes: straight lines over log(bytes) in the table."""
        if not isinstance(self.bandwidth_gbs, Mapping):
            return self.bandwidth_gbs
        return between(self.bandwidth_gbs, footprint)

    def product_rate(self, product):
        """Return the GFLOP/s that products of ``product`` FLOPs each reach; the peak where no table says otherwise."""
        return between(self.product_gflops, product) if self.product_gflops and product else self.peak_gflops


def between(table, size):
    """Return the value at ``size`` in {size: value}: straight lines over log(size), the ends' values beyond them."""
    known = sorted(table)
    return float(np.interp(np.log(max(size, 1)), np.log(np.maximum(known, 1)), [table[one] for one in known]))

# %%
#| export
def limits_of(limits):
    """Return ``limits``, or this machine's ``MachineLimits`` where None was given; ``TypeError`` for anything else."""
    if limits is not None and not isinstance(limits, MachineLimits):
        raise TypeError(f"limits is a {type(limits).__name__}; want MachineLimits(peak_gflops, bandwidth_gbs, "
                        "dispatch_us), or None for this machine's")
    return machine_limits() if limits is None else limits

# %%
#| export
def amount(what, value):
    """Return ``value`` if it is a finite number of at least 0; ``what`` is the name that an error uses.

    Raises:
        TypeError: no number (a bool is none).
        ValueError: below 0, NaN, or infinite.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} is {value!r}; want a number")
    if not 0 <= value < 1e300:
        raise ValueError(f"{what} is {value}; want a finite number of at least 0")
    return value

# %% [markdown]
"""
**Task.** Write the body of `roofline(flops, bytes_moved, limits, footprint=None)`, where `bandwidth` is already looked up for you. Return a dict:

| key | what |
|---|---|
| `intensity` | FLOPs per byte (nothing moved: `inf`, or 0.0 when nothing is computed either) |
| `ridge_point` | peak / bandwidth, FLOPs per byte |
| `attainable_gflops` | the roof at this intensity: `min(peak, intensity * bandwidth)` |
| `memory_ms`, `compute_ms` | the two bills, milliseconds |
| `time_floor_ms` | the larger of them |
| `regime` | `"memory"` left of the ridge point, else `"compute"` |

Mind the units: 1 GB/s is 10⁹ bytes in 1,000 ms.

<details><summary>Hint 1: idea</summary>
Six divisions and a comparison; nothing is measured here.
</details>
<details><summary>Hint 2: approach</summary>
<code>bytes / (GB/s * 1e9)</code> is in seconds; times 1,000 in milliseconds: together <code>bytes / bandwidth / 1e6</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
6·10⁶ FLOPs and 2·10⁶ bytes at 100 GFLOP/s and 20 GB/s: intensity 3, ridge 5, attainable 60 GFLOP/s, memory 0.1 ms, compute 0.06 ms: memory.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "roofline", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def roofline(flops, bytes_moved, limits, footprint=None):
    """Put work under the two roofs of a machine.

    Source: Williams, Waterman and Patterson, 2009. ``flops`` and ``bytes_moved`` are of all the work; ``limits`` a
    ``MachineLimits``, None for this machine's; ``footprint``: bytes touched at a time, where it is not all that moved.

    Keys:
        intensity, ridge_point: FLOPs per byte of the work, and where the roofs meet.
        attainable_gflops: the lower roof at this intensity, GFLOP/s.
        memory_ms, compute_ms, time_floor_ms: ms to move the bytes, to do the FLOPs, and the longer of the two.
        regime: "memory" or "compute".

    Raises:
        TypeError: no number, or ``limits`` of another type.
        ValueError: a negative or infinite amount.
    """
    flops, bytes_moved, limits = amount("flops", flops), amount("bytes_moved", bytes_moved), limits_of(limits)
    bandwidth = limits.bandwidth(bytes_moved if footprint is None else footprint)
    raise NotImplementedError("roofline: section 6, cell 5")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-roofline", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "bottleneck"}
if __name__ == "__main__":
    def test_roofline():
        """ReLU on a billion numbers, a product, and a machine that changes."""
        gpu = MachineLimits(peak_gflops=100_000, bandwidth_gbs=900, dispatch_us=5)
        relu = roofline(10**9, 8 * 10**9, gpu)
        check("ReLU on 10⁹ floats: ms to move", relu["memory_ms"], 8.89, {0.00889: "seconds, not milliseconds", 8890.0: "microseconds, not milliseconds", 4.44: "half of the bytes", 8.278: "1 GB/s is 10⁹ bytes a second, not 1024³"}, rtol=1e-3)
        check("ms to compute (10⁹ FLOPs at 10⁵ GFLOP/s)", relu["compute_ms"], 0.01, {0.00001: "seconds, not milliseconds", 10.0: "a fixed peak of 100 GFLOP/s"})
        check("intensity, FLOPs per byte", relu["intensity"], 0.125, {8.0: "the other way round: that is bytes per FLOP"})
        check("ridge point, FLOPs per byte", relu["ridge_point"], 111.111, {0.009: "the other way round", 0.111111: "a fixed peak of 100 GFLOP/s"}, rtol=1e-4)
        check("nothing moved, something computed: intensity", str(roofline(5, 0, gpu)["intensity"]), "inf", {"0.0": "that is infinitely much work for each byte"})
        check("nothing at all: intensity", roofline(0, 0, gpu)["intensity"], 0.0, {1e999: "nothing was computed either: 0.0"})
        check("time floor", relu["time_floor_ms"], 8.89, {8.9: "the two bills are paid at the same time: the larger one, not the sum", 0.01: "the smaller bill is not the floor"}, rtol=1e-4 * 3)
        check("attainable GFLOP/s", relu["attainable_gflops"], 112.5, {100_000.0: "the roof is the lower of the two here"})
        check("per cent of peak", 100 * relu["attainable_gflops"] / gpu.peak_gflops, 0.1125, {100.0: "the roof is the lower of the two here"})
        check("regime", relu["regime"], "memory", {"compute": "the other way round: memory is left of the ridge point"})
        check("a 4,096 product", roofline(2 * 4096**3, 3 * 4096**2 * 4, gpu)["regime"], "compute")
        check("exactly at the ridge point", roofline(5, 1, MachineLimits(100, 20, 5))["regime"], "compute", {"memory": "memory is left of the ridge point, not on it"})
        check("the same on a machine with a slow processor", roofline(10**9, 8 * 10**9, MachineLimits(50, 900, 5))["regime"], "compute", {"memory": "the verdict must move when the machine does"})
        check("nothing at all", roofline(0, 0, gpu)["time_floor_ms"], 0.0)
        caches = MachineLimits(100, {1_000: 400, 1_000_000: 10}, 5)
        check("a megabyte, 1,000 bytes at a time: ms to move", roofline(0, 10**6, caches, 1_000)["memory_ms"], 0.0025, {0.1: "the footprint was ignored: `bandwidth` is looked up for you"})


    test_roofline()

# %% [markdown]
"""
### Your machine

Nobody's data sheet is used: the limits are measured, here. **Peak**: products of square float32 matrices from 16 to 1,024 wide into a ready array; the best of all is the peak, and the rate of each size is kept, for small products never come near it. **Bandwidth**: `np.add` into a ready array, over five footprints from cache to main memory. **Dispatch**: what one op costs on a single
number, when there is nothing to compute. **Transcendentals**: `exp` has a ceiling of its own.

Given, all of it (*skip on first reading* down to the cell that prints your machine), with a small cache so that it happens once per machine: the file lies in your user cache folder (or in the folder that `TINYTORCH_CACHE` names) under a key made of CPU, BLAS, threads and NumPy version.
"""

# %%
#| export
def _best_ns(function, repeats, inner=1):
    """Return the shortest of several timings of ``function``, in ns a call: what the machine can do in peace."""
    best = inf
    for _ in range(repeats):
        start = perf_counter_ns()
        for _ in range(inner):
            function()
        best = min(best, (perf_counter_ns() - start) / inner)
    return best

# %%
#| export
def _timings_ns(function, repeats):
    """Return sorted ns of several calls."""
    return sorted(_best_ns(function, 1) for _ in range(repeats))


def _measure_products(sizes=(16, 32, 64, 128, 256, 512, 1024), budget_ns=400_000_000):
    """Measure float32 products of each size: ({FLOPs of one: best GFLOP/s}, how far the peak's median was below it).

    With all BLAS threads or one, whichever is faster; small products by the stack, so that the call hardly counts.
    """
    from threadpoolctl import threadpool_limits

    found, start, each = {}, perf_counter_ns(), budget_ns // (2 * len(sizes))
    for n in sizes:
        stack = max(1, 128**3 // n**3)
        a, b, out = np.random.default_rng(0).standard_normal((3, stack, n, n)).astype(np.float32)
        product, timings = partial(np.matmul, a, b, out=out), []
        for threads in (None, 1):
            with threadpool_limits(threads, user_api="blas"):
                first = _best_ns(product, 1)
                timings.append(_timings_ns(product, int(max(2, min(24, each // max(first, 1))))))
        best = min(timings)
        rate = 2 * n**3 * stack / max(best[0], 1)
        found[2 * n**3] = (rate, 1 - best[0] / max(best[len(best) // 2], 1))
        if perf_counter_ns() - start > budget_ns:
            break  # a slow machine: the next size would take seconds
    return {size: rate for size, (rate, _) in found.items()}, max(found.values())[1]

# %%
#| export
def _measure_bandwidth(footprints=(96 * 1024, 768 * 1024, 6 * 1024**2, 24 * 1024**2, 96 * 1024**2)):
    """Measure GB/s of ``out = a + b`` at each footprint (bytes of the three arrays together)."""
    found = {}
    for footprint in footprints:
        a, b, out = (np.ones(footprint // 12, np.float32) for _ in range(3))
        np.add(a, b, out=out)
        inner = max(1, 2 * 1024**2 // footprint)
        found[footprint] = footprint / max(_best_ns(lambda a=a, b=b, out=out: np.add(a, b, out=out), 7, inner), 1)
    return found

# %%
#| export
def _measure_transcendentals(n=100_000):
    """Measure how many exponentials a nanosecond brings, in 10^9 a second."""
    a, out = np.random.default_rng(0).standard_normal((2, n)).astype(np.float32)
    return n / max(_best_ns(lambda: np.exp(a, out=out), 7), 1)

# %%
#| export
def _dispatch_costs():
    """Measure microseconds of one op on a single number: (a bare op, the op of a layer and the layer around it)."""
    state, one, layer = thread_state(), Tensor([[1.0]]), Linear(1, 1, rng=np.random.default_rng(0))
    before = state.hearers, state.scope_hearers
    state.hearers = state.scope_hearers = ()  # nobody is to hear, or to slow down, these calls
    try:
        with gradients(False), quiet():
            bare, inside = _best_ns(lambda: ops.add(one, one), 5, 1000), _best_ns(lambda: layer(one), 5, 500)
    finally:
        state.hearers, state.scope_hearers = before
    return bare / 1000, inside / 1000


def _measure_dispatch():
    """Return the mean of both: a model's ops are partly bare, partly in layers of their own."""
    return fmean(_dispatch_costs())


def _measure_step():
    """Measure microseconds of a step inside an op: a pooling of one 3x3 window against an add, over its steps."""
    window, one = Tensor(np.ones((1, 1, 3, 3))), Tensor([[1.0]])
    with untouched(()), gradients(False), quiet():
        pooled = _best_ns(lambda: spatial.max_pool2d(window, kernel=(3, 3), stride=(3, 3)), 5, 200)
        bare = _best_ns(lambda: ops.add(one, one), 5, 1000)
    return max(0.0, pooled - bare) / 1000 / _pool_inside((1, 1, 1, 1), kernel=(3, 3)).steps

# %%
#| export
def _cache_file():
    """Return where limits are kept between runs: ``TINYTORCH_CACHE`` or the platform's user cache folder."""
    if os.environ.get("TINYTORCH_CACHE"):
        folder = Path(os.environ["TINYTORCH_CACHE"])
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tinytorch"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "tinytorch"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinytorch"
    return folder / "machine_limits.json"

# %%
#| export
_CACHED = ("peak_gflops", "dispatch_us", "transcendental_gops", "source", "spread", "step_us")
_CACHED_TABLES = ("bandwidth_gbs", "product_gflops")


def _read_cache():
    """Return the cache's content; a missing, unreadable or spoilt file is an empty one."""
    try:
        content = json.loads(_cache_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: no home folder
        return {}
    return content if isinstance(content, dict) else {}

# %%
#| export
def _from_cache(entry):
    """Return the ``MachineLimits`` of a cache entry, or None when it does not hold all of them."""
    try:
        tables = {name: {int(size): rate for size, rate in entry[name].items()} for name in _CACHED_TABLES}
        return MachineLimits(**tables, **{name: entry[name] for name in _CACHED})
    except (KeyError, TypeError, ValueError, AttributeError):
        return None

# %%
#| export
def _write_cache(key, limits):
    """Put limits into the cache, whole or not at all; a place that cannot be written is left alone."""
    import tempfile

    entry = {name: getattr(limits, name) for name in _CACHED}
    entry |= {name: {str(size): rate for size, rate in getattr(limits, name).items()} for name in _CACHED_TABLES}
    temporary = None
    try:
        file = _cache_file()
        text = json.dumps({**_read_cache(), key: entry}, indent=1, allow_nan=False)
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".tmp", delete=False, encoding="utf-8") as out:
            temporary = out.name
            out.write(text)
        os.replace(temporary, file)
        temporary = None
    except (OSError, ValueError, RuntimeError):
        pass
    finally:  # also when Ctrl-C comes
        if temporary:
            Path(temporary).unlink(missing_ok=True)

# %%
#| export
_known_limits: dict[str, MachineLimits] = {}


def machine_limits(refresh=False):
    """Return this machine's measured ``MachineLimits``: peak GFLOP/s, GB/s by footprint, microseconds of an op.

    Measuring takes about a second, once: the result is kept per process and on disk, under CPU, BLAS, threads and NumPy
    version, in the folder ``TINYTORCH_CACHE`` or the user's cache. ``refresh=True`` measures anew.
    """
    here = environment()
    key = " | ".join(str(here[part]) for part in ("cpu", "blas", "blas_threads", "numpy"))
    if not refresh and key not in _known_limits and (kept := _from_cache(_read_cache().get(key))):
        _known_limits[key] = kept
    if refresh or key not in _known_limits:
        where = f"{here['cpu']}, {here['blas']}, {here['blas_threads']} threads"
        products, spread = _measure_products()
        source = f"measured {time.strftime('%Y-%m-%d')}: {where}; peak: median {spread:.0%} below the best"
        _known_limits[key] = MachineLimits(max(products.values()), _measure_bandwidth(), _measure_dispatch(),
                                           _measure_transcendentals(), source, products, spread, _measure_step())
        _write_cache(key, _known_limits[key])
    return _known_limits[key]

# %%
if __name__ == "__main__":
    here = machine_limits()
    say(here.source)
    print(f"peak {here.peak_gflops:.0f} GFLOP/s, one op costs {here.dispatch_us:.1f} µs, exp {here.transcendental_gops:.1f} · 10⁹ a second")
    for size, rate in here.bandwidth_gbs.items():
        print(f"{size / 1024**2:7.2f} MB {rate:6.1f} GB/s {bar(rate, max(here.bandwidth_gbs.values()), 40)}")
    for size, rate in sorted(here.product_gflops.items()):
        print(f"{round((size / 2) ** (1 / 3)):4d} wide {rate:6.1f} GFLOP/s {bar(rate, here.peak_gflops, 40)}")

# %% [markdown]
"""
Now your own roofline, with three layers on it: a ReLU on a million numbers, a `Linear(512, 512)` on one row, and the same on 256 rows. A point above the roof means that the roof was measured in a bad moment: `machine_limits(refresh=True)` measures it anew. A large product far *below* it means, more often than not, that the machine has other work: a product in two threads waits for the slower one. The doubts say so:
"""

# %%
if __name__ == "__main__":
    on_roof = []
    for name, layer, shape in (("ReLU, 1,000,000", ReLU(), (1000, 1000)), ("Linear, 1 row", Linear(512, 512), (1, 512)), ("Linear, 256 rows", Linear(512, 512), (256, 512))):
        sent, heard = Tensor(np.ones(shape)), []
        with listen(heard.append):
            layer(sent)
        done, moved = sum(event_flops(event) for event in heard), sum(event.num_bytes for event in heard)
        timed = latency_statistics(layer, sent, 3, 15)
        tell_doubts(name, timed)
        ms = timed["median"]
        on_roof.append({"name": name, "type": name, "depth": 0, "flops": done, "bytes": moved, "self_ms": ms})
        under = roofline(done, moved, here)
        print(f"{name:>16}: {under['intensity']:7.2f} FLOPs a byte, {done / ms / 1e6:8.2f} GFLOP/s of {under['attainable_gflops']:6.2f} attainable; nearer roof {under['regime']}")
    show(pictures.roofline_chart, here, on_roof, {"model": "three layers", **environment()})

# %% [markdown]
"""
**The third answer.** Where does *adding two single numbers* lie? It does 1 FLOP and moves 12 bytes: far left, so the ridge point calls it "memory-bound". Would faster memory help?
"""

# %%
if __name__ == "__main__":
    one = Tensor([1.0])
    sum_ms = measure_latency(lambda x: x + x, one, 10, 40)
    floor_ms = roofline(1, 12, here)["time_floor_ms"]
    bare_us, inside_us = _dispatch_costs()
    print(f"measured {sum_ms * 1e6:,.0f} ns; the roofs explain {floor_ms * 1e6:.2f} ns of it")
    say(f"dispatch: a bare op {bare_us * 1e3:,.0f} ns, an op inside a layer of its own {inside_us * 1e3:,.0f} ns; the model below takes their mean for every op")

# %% [markdown]
"""
It is all Python: making the call, checking, wrapping. So the model of time needs one more term, and the verdict a third word:

```
t  =  number of ops * dispatch  +  max( flops / peak ,  bytes / bandwidth )
         overhead                      compute              memory
```

Given: `Work`, what a stretch of computation amounts to, and its three floors in milliseconds. Where the limits know what products of a size reach, contractions are taken at that rate: many small products never come near the peak. And where an op makes several small NumPy calls of its own, as a convolution or a pooling does, each of these *steps* costs, too.
"""

# %%
#| export
class Work(NamedTuple):
    """What some computation amounts to.

    Attributes:
        flops, contractions: FLOPs of all ops; of products and convolutions alone.
        bytes_moved: bytes read and written.
        num_ops, steps: counts of ops, and of NumPy calls inside ops that make several.
        transcendentals: how many values of exp and its like.
        footprint: bytes that the typical op touches; None for all that moved.
        uncounted: names of ops without a cost rule.
        product: FLOPs of the typical single product; None where unknown, large enough for the peak.
    """

    flops: int
    bytes_moved: int
    num_ops: int = 1
    contractions: int = 0
    transcendentals: int = 0
    footprint: float | None = None  # bytes that the typical op touches; None: all that moved
    uncounted: tuple = ()
    product: float | None = None  # FLOPs of the typical single product; None: unknown, large enough for the peak
    steps: int = 0  # NumPy calls inside ops that make several

# %%
#| export
def time_floors(work, limits):
    """Return what each limit alone would need, in ms: {"overhead": ..., "compute": ..., "memory": ...}.

    Contractions are taken at the rate that products of their size reach, where the limits know it.
    """
    roof = roofline(work.flops, work.bytes_moved, limits, work.footprint)
    special = work.transcendentals / limits.transcendental_gops / 1e6 if limits.transcendental_gops else 0.0
    products = work.contractions / limits.product_rate(work.product) / 1e6
    return {"overhead": (work.num_ops * limits.dispatch_us + work.steps * (limits.step_us or 0)) / 1e3,
            "compute": max(roof["compute_ms"], products, special), "memory": roof["memory_ms"]}

# %%
#| export
def advise(limited_by, work, latency_ms, limits):
    """Return one sentence to act on, with the numbers it rests on.

    ``limited_by``: as ``verdict`` has it; ``work``: a ``Work`` that took ``latency_ms`` ms.
    """
    floors = time_floors(work, limits)
    model_ms = floors["overhead"] + max(floors["compute"], floors["memory"])
    share = {name: min(1.0, ms / latency_ms) if latency_ms > 0 else 1.0 for name, ms in floors.items()}
    moved = f"{work.bytes_moved / 1024**2:.3g} MB"
    if limited_by == "overhead":
        each = f"{limits.dispatch_us:.3g} µs"
        steps = f"; steps inside them: {work.steps}, {limits.step_us:.3g} µs" if work.steps and limits.step_us else ""
        return (f"{share['overhead']:.0%} of this call is dispatch (ops: {work.num_ops}, about {each} each{steps}): "
                "a bigger batch or fusion helps")
    if limited_by == "compute":
        return (f"arithmetic explains {share['compute']:.0%} of the time: fewer FLOPs or a smaller data type help, "
                "faster memory does not")
    if limited_by == "memory":
        return (f"moving {moved} explains {share['memory']:.0%} of the time: fewer passes over memory (fusion) or a "
                "smaller data type help, fewer FLOPs do not")
    if limited_by == "mixed":
        first, second = sorted(floors, key=floors.get, reverse=True)[:2]
        return (f"{first} ({share[first]:.0%}) and {second} ({share[second]:.0%}) weigh alike: "
                "improving one alone gains little")
    return (f"measured {latency_ms:.3g} ms, but ops, FLOPs and bytes explain only {model_ms:.3g} ms: look for Python "
            "inside the model, small or strided pieces, or a busy machine")

# %% [markdown]
"""
**Task.** Write `verdict(work, latency_ms, limits)`. It returns a dict with
- `bottleneck`: the `regime` of the roofline: which of the two roofs of *this* machine is the nearer one;
- `limited_by`, which also looks at the measured time:
  `"unexplained"` when `latency_ms` is above **twice** the model `overhead + max(compute, memory)`; else `"mixed"` when the second largest of the three floors is above **half** of the largest; else the name of the largest;
- `overhead_fraction`: the overhead floor divided by the measured time, at most 1.0 (and 1.0 when the time is 0);
- `advice`: from `advise(limited_by, work, latency_ms, limits)`.

<details><summary>Hint 1: idea</summary>
All numbers come from <code>time_floors</code> and <code>roofline</code>. You compare them.
</details>
<details><summary>Hint 2: approach</summary>
<code>sorted(floors, key=floors.get, reverse=True)</code> gives the names, largest first. Pass <code>work.footprint</code> to <code>roofline</code>: small things live in the caches.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Floors 0.02, 1.0, 0.3 ms and measured 1.5: the model says 1.02, 1.5 is below 2.04; 0.3 is below half of 1.0: compute, overhead fraction 0.013.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "verdict", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def verdict(work, latency_ms, limits):
    """Say what limits ``work``, a ``Work``, that took ``latency_ms`` ms.

    Keys:
        bottleneck: "memory" or "compute", by the roofline.
        limited_by: "overhead", "compute", "memory", "mixed" or "unexplained".
        overhead_fraction: share of the time that dispatch explains, 0 to 1.
        advice: a sentence to act on.
    """
    raise NotImplementedError("verdict: section 6, cell 23")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-verdict", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "bottleneck"}
if __name__ == "__main__":
    def test_verdict():
        """It moves with the machine and with the measured time."""
        machine = MachineLimits(peak_gflops=100, bandwidth_gbs=20, dispatch_us=5)
        product, relu, tiny = Work(2 * 10**8, 3 * 10**6), Work(10**6, 8 * 10**6), Work(1, 12)
        check("a product of 2·10⁸ FLOPs in 2.2 ms", verdict(product, 2.2, machine)["limited_by"], "compute", {"unexplained": "above twice the model, not above the model"})
        check("a ReLU on 10⁶ in 0.5 ms", verdict(relu, 0.5, machine)["limited_by"], "memory")
        check("one plus one in 6 µs", verdict(tiny, 0.006, machine)["limited_by"], "overhead", {"memory": "the ridge point alone says so: dispatch is missing", "unexplained": "dispatch is missing from the model"})
        check("its nearer roof is all the same", verdict(tiny, 0.006, machine)["bottleneck"], "memory", {"overhead": "bottleneck knows two roofs only"})
        check("its overhead", verdict(tiny, 0.006, machine)["overhead_fraction"], 5 / 6, {6 / 5: "the other way round", 1.0: "the other way round: the overhead floor over the measured time",
            0.005 / (0.005 + 12 / 20 / 1e6): "over the model's time; the measured time counts"})
        check("its advice", verdict(tiny, 0.006, machine)["advice"], "83% of this call is dispatch (ops: 1, about 5 µs each): a bigger batch or fusion helps", {
            "": "the advice is empty", "moving 1.14e-05 MB explains 0% of the time: fewer passes over memory (fusion) or a smaller data type help, fewer FLOPs do not": "that is the advice for the bottleneck; want limited_by's"})
        check("2·10⁸ FLOPs and 16 MB in 4.6 ms", verdict(Work(2 * 10**8, 16 * 10**6), 4.6, machine)["limited_by"], "unexplained", {
            "compute": "compute and memory overlap: the model takes the larger of the two, not their sum"})
        caches = MachineLimits(100, {1_000: 400, 1_000_000: 10}, 5)
        check("2 MB, but 1,000 bytes at a time, from the cache", verdict(Work(10**6, 2 * 10**6, footprint=1_000), 1.0, caches)["bottleneck"], "compute", {
            "memory": "work.footprint was not passed to roofline"})
        check("the product in 9 ms", verdict(product, 9.0, machine)["limited_by"], "unexplained", {"compute": "the verdict must move when the measured time does"})
        check("400 small ops, 2 ms of each", verdict(Work(2 * 10**8, 0, 400), 4.0, machine)["limited_by"], "mixed", {
            "overhead": "mixed is missing: the second largest is above half of the largest", "compute": "mixed is missing: the second largest is above half of the largest"})
        check("the same in 9 ms", verdict(Work(2 * 10**8, 0, 400), 9.0, machine)["limited_by"], "unexplained", {"mixed": "unexplained comes first: is the time above twice the model?"})
        check("1 ms of memory beside 2 ms of compute", verdict(Work(2 * 10**8, 2 * 10**7), 2.2, machine)["limited_by"], "compute", {"mixed": "exactly half is not above half"})
        check("the ReLU where memory is fast", verdict(relu, 0.012, MachineLimits(100, 2000, 1))["bottleneck"], "compute", {"memory": "the verdict must move when the machine does"})
        slow_products = MachineLimits(100, 20, 5, product_gflops={1_000: 1})
        small = Work(10**6, 8 * 10**6, contractions=10**6, product=1_000)
        check("a thousand small products in 1 ms", verdict(small, 1.0, slow_products)["limited_by"], "compute")
        check("and the nearer of the two roofs", verdict(small, 1.0, slow_products)["bottleneck"], "memory", {"compute": "bottleneck is the regime of roofline, which knows the peak only; not the larger floor"})
        check("an overhead never above 1", verdict(tiny, 0.001, machine)["overhead_fraction"], 1.0, {5.0: "more than all of it"})
        check("a time of 0", verdict(tiny, 0.0, machine)["overhead_fraction"], 1.0, {0.0: "by the task it is 1.0 when the time is 0"})


    test_verdict()

# %%
if __name__ == "__main__":
    for name, work, ms in (("one plus one", Work(1, 12), measure_latency(lambda x: x + x, one, 10, 40)), ("ReLU on 1,000,000", Work(10**6, 8 * 10**6), measure_latency(ReLU(), Tensor(numbers), 3, 15))):
        found = verdict(work, ms, here)
        say(f"{name}: nearer roof {found['bottleneck']}, limited by {found['limited_by']}. {found['advice']}.")

# %% [markdown]
"""
### Before you optimize

**Question.** Attention takes 70 % of the time, and you can make it twice as fast. How much faster is the whole?

**Task.** Write `amdahl_speedup(fraction, speedup)` (Amdahl, 1967): a `fraction` (0 to 1) of the time becomes `speedup` times faster, the rest stays. Return the overall speedup. `speedup` may be `inf`. A fraction outside 0 to 1, or a speedup of 0 or below: `ValueError`. (Given: `real`, which refuses what is no number at all.)

<details><summary>Hint 1: idea</summary>
Let the old time be 1. What is the new time?
</details>
<details><summary>Hint 2: approach</summary>
The part that stays, plus the part that shrinks. If nothing is left at all, the speedup is <code>inf</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Half of the time becomes four times faster: new time 0.5 + 0.125, speedup 1.6.
</details>
"""

# %%
#| export
def real(what, value):
    """Return ``value`` as a float; a whole number beyond every float becomes an infinity.

    Raises:
        TypeError: no number (a bool is none).
        ValueError: NaN.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} is {value!r}; want a number")
    if value != value:
        raise ValueError(f"{what} is NaN; want a number")
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "amdahl", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def amdahl_speedup(fraction, speedup):
    """Return the overall speedup, a ratio, when a ``fraction`` of the time becomes ``speedup`` times faster.

    Source: Amdahl, 1967. With an infinite ``speedup`` the rest of the time is the limit.

    Raises:
        TypeError: no numbers.
        ValueError: a fraction outside 0 to 1, a speedup of 0 or below, or NaN.
    """
    fraction, speedup = real("fraction", fraction), real("speedup", speedup)
    raise NotImplementedError("amdahl_speedup: section 6, cell 27")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-amdahl", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "bottleneck"}
if __name__ == "__main__":
    def test_amdahl():
        """The rest stays."""
        check("70 % twice as fast", amdahl_speedup(0.7, 2), 1.538, {2.0: "the other 30 % did not change", 1.35: "that is the time saved, not the speedup", 0.65: "that is the new time; the speedup is its inverse", 1.1765: "fraction and rest are swapped",
            0.588: "the part takes fraction / speedup, not fraction * speedup", 1.7: "that is the mean of 1 and the speedup; times add up, speeds do not"}, rtol=1e-3)
        check("nothing twice as fast", amdahl_speedup(0.0, 2), 1.0, {2.0: "no part of it became faster"})
        check("90 % infinitely fast", amdahl_speedup(0.9, float("inf")), 10.0, {float("inf"): "the other 10 % did not change", 1 / 0.9: "fraction and rest are swapped", 0.1: "that is the new time; the speedup is its inverse"})
        check("everything infinitely fast", str(amdahl_speedup(1.0, float("inf"))), "inf")
        check_raises("a fraction of 1.5", ValueError, lambda: amdahl_speedup(1.5, 2))
        check_raises("a speedup of 0", ValueError, lambda: amdahl_speedup(0.5, 0))


    test_amdahl()

# %% [markdown]
"""
**For a real model.** Reading a result: *many parameters and few FLOPs*: the time goes into loading weights. *Many FLOPs in each millisecond*: the arithmetic is the limit, and it is well used. *Time out of proportion to FLOPs and bytes*: overhead. And
**FLOPs** is an amount of work while **FLOP/s** is a speed; a model has the first, a machine the second.
"""

# %% [markdown]
"""
## 7. Both passes

*30 minutes · 12 points*

**Question.** You have four instruments now: for parameters, FLOPs, bytes and milliseconds. What does *one* report about a model look like, and which of the numbers belong together?

One trap lies in wait. `count_flops` speaks of one sample, but a stopwatch times the *batch*. A rate is work divided by **the time of that same work**. Divide one sample's FLOPs by the batch's time, and a batch of 64 looks 64 times slower than it is.

Given: `observe` runs something once and hears all its ops; `work_of` adds them up.
"""

# %%
#| export
#: The ops whose values cost as much as exp does, beside what they cost in FLOPs.
TRANSCENDENTALS = {activations.exp, activations.log, activations.sigmoid, activations.tanh}


def observe(function):
    """Call ``function()`` once and return (the list of its ``OpEvent``, what it returned)."""
    events = []
    with listen(events.append):
        output = function()
    return events, output

# %%
#| export
def work_of(events):
    """Return events added up to ``Work``; an op without a cost rule is named under ``uncounted``, not taken as 0."""
    costs = [event_flops(event) for event in events]
    moved = [event_bytes(event) for event in events]
    products = [(cost, cost / max(1, inside(event).products)) for cost, event in zip(costs, events)
                if cost and is_contraction(event.op)]
    return Work(
        flops=sum(cost for cost in costs if cost), bytes_moved=sum(moved), num_ops=len(events),
        contractions=sum(cost for cost, _ in products),
        transcendentals=sum(prod(event.out_shape) for event in events if event.op in TRANSCENDENTALS),
        footprint=typical(zip(moved, map(event_footprint, events))), product=typical(products),
        uncounted=tuple(sorted({event.op.name for cost, event in zip(costs, events) if cost is None})),
        steps=sum(inside(event).steps for event in events))


def typical(weighted):
    """Return the mean of (weight, value) pairs, 0.0 of none: a size that most of the work has, in the values' unit."""
    weighted = list(weighted)
    total = sum(weight for weight, _ in weighted)
    return sum(weight * value for weight, value in weighted) / total if total else 0.0

# %%
if __name__ == "__main__":
    heard, _ = observe(lambda: fresh(picture))
    print(*(f"{event.op.name:>8} in {event.scope[-1].name:<7} {event.in_shapes} -> {event.out_shape}" for event in heard), sep="\n")
    say("work: ", work_of(heard)._asdict())

# %% [markdown]
"""
Given: `rates(work, latency_ms, limits)`, which divides. Mind its units: 10⁹ FLOPs a *second*; bytes in units of 1024² a second; and over *this* machine's peak, not a fixed one. With a time of 0 the rates are 0.0: a clock too coarse is no reason for an infinite speed.
"""

# %%
#| export
def rates(work, latency_ms, limits):
    """Divide work, a ``Work``, by its own time.

    Keys:
        flops, contractions, latency_ms: as they came: FLOPs, and ms.
        gflops_per_second: 10^9 FLOPs a second.
        memory_bandwidth_mbs: MB (1024²) a second.
        computational_efficiency: share of the peak, 0 to 1.
    """
    seconds = latency_ms / 1e3
    gflops = work.flops / seconds / 1e9 if seconds > 0 else 0.0
    return {"flops": work.flops, "contractions": work.contractions, "latency_ms": latency_ms,
            "gflops_per_second": gflops,
            "memory_bandwidth_mbs": work.bytes_moved / 1024**2 / seconds if seconds > 0 else 0.0,
            "computational_efficiency": gflops / limits.peak_gflops}

# %%
if __name__ == "__main__":
    machine = MachineLimits(peak_gflops=50, bandwidth_gbs=20, dispatch_us=5)
    for ms in (0.5, 0.0):
        say("", rates(Work(16_384 * 32, 3 * 1024**2, contractions=500_000), ms, machine))

# %% [markdown]
"""
### Layer by layer

Where in the model do the milliseconds go? Time needs its own runs: an op listener would slow every op down. A *scope* listener is called only when a layer opens or closes, so it disturbs little. A layer's **total** contains the layers inside it, its **self** time does not; the
shares are of self time, and add up to all of it. A parent's self time includes the cost of listening to its children. Each number is the median over a few passes. Given (*skip on first reading*):
"""

# %%
#| export
def _lasting(entry, known):
    """Return what names a layer from one run to the next: its id, or its type for one that a forward makes anew."""
    return entry.owner if entry.owner in known else entry.name


def _layer_path(entries, known):
    """Return the layers among open scopes, outermost first: where in the model an op ran; ``known``: ids that last."""
    return tuple([_lasting(entry, known) for entry in entries if entry.owner is not None])

# %%
#| export
class _LayerTimes:
    """A scope listener that adds up how long each layer was open, in all and without the layers inside it."""

    __slots__ = ("clock", "known", "stack", "found")

    def __init__(self, known, clock=None):
        self.clock, self.known, self.stack, self.found = clock, known, [], {}

    def __call__(self, opened, entry, now):
        """Hear a scope open or close; regions that are no layers belong to the layer around them."""
        if entry.owner is None:
            return
        now = now if self.clock is None else self.clock()
        if opened:
            outer = self.stack[-1][0] if self.stack else ()
            path = (*outer, _lasting(entry, self.known))
            self.found.setdefault(path, [entry.name, 0, 0, 0])
            self.stack.append([path, now, 0])
            return
        path, start, inside = self.stack.pop()
        row, took = self.found[path], now - start
        row[1], row[2], row[3] = row[1] + 1, row[2] + took, row[3] + took - inside
        if self.stack:
            self.stack[-1][2] += took

# %%
#| export
def _as_root(model):
    """Open the scope of the model itself, also for a model that is no ``Layer``."""
    return scope(getattr(model, "__name__", type(model).__name__), id(model))

# %%
#| export
def _affordable(call, clock, budget_ns=400_000_000):
    """Return (warmup, iterations) that fit a budget, judged by one call: 6 to 40, or 3 of a call longer than a second.

    A handed clock gets 2 and 6.
    """
    if clock is not None:
        return 2, 6
    once = max(time_calls(call, 0, 1, perf_counter_ns)[0], 1)
    iterations = max(6 if once < 10**9 else 3, min(40, budget_ns // once))
    return min(5, iterations // 3), int(iterations)

# %%
#| export
def _time_layers(model, run, clock=None):
    """Time each layer over some passes of ``run()``: {path: (name, calls, total ms, self ms)}, medians."""
    heard, known = [], _named_layers(model)
    with untouched(model), gradients(False), quiet():
        warmup, affordable_passes = _affordable(run, clock, 100_000_000)
        for _ in range(warmup):
            run()
        for _ in range(max(3, affordable_passes // 2)):
            heard.append(_LayerTimes(known, clock))
            with listen(None, scopes=heard[-1]), _as_root(model):
                run()
    def typical(path, part):
        return percentile([one.found[path][part] for one in heard if path in one.found], 50) / 1e6

    return {path: (name, calls, typical(path, 2), typical(path, 3))
            for path, (name, calls, _, _) in heard[-1].found.items()}

# %%
#| export
def _named_layers(model):
    """Return {id: (dotted name, layer)} for the model and every layer in it; a shared layer has its first name."""
    found, todo = {id(model): ("", model)}, [("", model)]
    while todo:
        outer, thing = todo.pop()
        for name, layer in Layer.children(thing):
            if id(layer) not in found:
                found[id(layer)] = (f"{outer}.{name}" if outer else name, layer)
                todo.append(found[id(layer)])
    return found

# %%
#| export
def _layer_rows(model, events, times, limits, whole_ms):
    """Return one plain dict per layer, in the order in which they ran; the first row is the whole model.

    Keys: name, type, depth, calls, parameters, flops, contractions, bytes, latency_ms (with the layers inside),
    self_ms, share (of all self time, 0..1), gflops_per_second, bottleneck, limited_by. The model's own row is judged by
    ``whole_ms``, what it takes when nobody listens.
    """
    names, rows = _named_layers(model), []
    all_self = sum(self_ms for _, _, _, self_ms in times.values())
    paths = [_layer_path(event.scope, names) for event in events]
    work_at = [(path[path.index(id(model)):], event) for path, event in zip(paths, events)]
    for path, (kind, calls, total_ms, self_ms) in times.items():
        name, layer = names.get(path[-1], (kind, None))
        work = work_of([event for where, event in work_at if where[:len(path)] == path])
        judged_ms = total_ms if len(path) > 1 else whole_ms
        found = verdict(work, judged_ms, limits)
        rows.append({"name": name or kind, "type": kind, "depth": len(path) - 1, "calls": calls,
                     "parameters": count_parameters(layer) if layer is not None else 0,
                     "flops": work.flops, "contractions": work.contractions, "bytes": work.bytes_moved,
                     "latency_ms": total_ms, "self_ms": self_ms, "share": self_ms / all_self if all_self > 0 else 0.0,
                     "gflops_per_second": rates(work, judged_ms, limits)["gflops_per_second"],
                     "bottleneck": found["bottleneck"], "limited_by": found["limited_by"]})
    return rows

# %% [markdown]
"""
**The forward pass.** Memory, time and FLOPs are three separate runs, because each instrument would disturb the others. Given are the pieces: `observe_forward` (one pass, listened to), `memory_of` (one pass, traced), `time_forward` (the stopwatch; how many iterations is decided by the first call,
so that a slow model is not run forty times), `layers_of` (a few passes under the scope listener).
"""

# %%
#| export
def observe_forward(model, input_tensor):
    """Run the model once, without gradients, and return the list of its ``OpEvent``.

    Raises:
        TypeError: no Tensor comes out.
        ValueError: the model has no forward.
    """
    with untouched(model), gradients(False), _as_root(model):
        return observe(_calls_of(model, input_tensor)[0])[0]

# %%
#| export
def time_forward(model, input_tensor, clock=None, iterations=None):
    """Return ``latency_statistics`` (ms) of the forward pass: as many iterations as are affordable, or asked for."""
    with untouched(model), gradients(False):
        warmup, fitting = _affordable(_calls_of(model, input_tensor)[0], clock)
    return latency_statistics(model, input_tensor, warmup, fitting if iterations is None else iterations, clock=clock)

# %%
#| export
def layers_of(model, input_tensor, events, limits, whole_ms, clock=None):
    """Return the rows of the per-layer table: times (ms) from passes of their own, FLOPs and bytes from ``events``.

    The keys of a row stand in ``profile_forward_pass`` under ``layers``.
    """
    run = _calls_of(model, input_tensor)[1]
    return _layer_rows(model, events, _time_layers(model, run, clock), limits, whole_ms)

# %%
#| export
def flops_of_one(model, input_tensor, flops):
    """Return the FLOPs of one sample: of the pass with its first axis 1, or the batch's share where that cannot run."""
    batch = input_tensor.shape[0] if input_tensor.ndim > 1 else 1
    if batch == 1 or isinstance(model, Tensor):
        return flops
    if batch == 0:  # nothing ran; what a sample would cost, only shapes can say
        return count_flops(model, (1, *input_tensor.shape[1:]))
    try:
        alone = observe_forward(model, Tensor(input_tensor.data[:1], dtype=input_tensor.dtype))
        stretched = stretches(alone, batch)
        if not stretched or stretched == stretches(observe_forward(model, input_tensor), batch):
            return work_of(alone).flops
    except (ValueError, TypeError, IndexError):
        pass  # a batch is written into this model
    return flops // batch if flops % batch == 0 else flops / batch

# %% [markdown]
"""
**Task.** Write `profile_forward_pass`. The frame is there: `limits`, the events, their `work`. Fill in the rest. The report is one dict with

- `parameters`, `flops_per_sample` (from `flops_of_one(model, input_tensor, work.flops)`), `batch_flops` (the same number as `flops`);
- the whole of `memory_of(model, input_tensor)`, of `rates(work, latency_ms, limits)` and of `verdict(work, latency_ms, limits)`, where `latency_ms` is the **median** that `time_forward(model, input_tensor, clock, iterations)` found;
- `is_memory_bound`, `is_compute_bound`: what `bottleneck` says, as two bools;
- `layers` from `layers_of(model, input_tensor, events, limits, latency_ms, clock)`, `latency`: the statistics themselves, `workload`: theirs (the memory pass has one too, but it was not timed), `uncounted`: a list.

`{**a, **b}` joins dicts.

<details><summary>Hint 1: idea</summary>
Measure first (memory, then latency), judge second, and put everything into one dict last.
</details>
<details><summary>Hint 2: approach</summary>
Keep <code>latency = time_forward(...)</code> and take <code>latency["median"]</code> three times: for the rates, for the verdict, for the layers. Keep the verdict too: the two bools come from its <code>bottleneck</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>found = {"winner": "a"}</code>, then <code>{"players": 2, **found, "a_won": found["winner"] == "a"}</code>.
</details>
"""

# %%
#| export
def memory_of(model, input_tensor):
    """Return ``measure_memory`` (MB) of a pass over this input, in the gradient mode that is on."""
    return measure_memory(model, input_tensor.shape, input_tensor)

# %%
#| export
def _as_input(input_tensor):
    """Return the input as a Tensor; ``TypeError`` when it cannot be one."""
    return input_tensor if isinstance(input_tensor, Tensor) else Tensor(input_tensor)

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "profile-forward-pass", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def profile_forward_pass(model, input_tensor, *, limits=None, clock=None, iterations=None):
    """Profile one forward pass as it ran, whole batch: counts, MB, ms, and what limits it. Three separate runs.

    Args:
        model: whatever can be called, or has a ``forward``.
        input_tensor: the batch (B, ...).
        limits: a ``MachineLimits`` instead of this machine's.
        clock: reads nanoseconds, instead of the machine's clock.
        iterations: samples; None for as many as are affordable.

    Keys:
        parameters: a count, each memory once.
        flops, batch_flops: FLOPs of the batch, every primitive, under two names.
        contractions: FLOPs of products and convolutions alone.
        flops_per_sample: FLOPs of one sample.
        latency_ms, latency: median ms; and all of ``latency_statistics``.
        gflops_per_second, memory_bandwidth_mbs: 10^9 FLOPs, and MB (1024²), a second.
        computational_efficiency: share of the peak, 0 to 1.
        parameter_memory_mb, activation_memory_mb, peak_memory_mb, input_mb, output_mb, temporaries_mb: MB.
        memory_efficiency, graph, assumptions, omissions: of ``measure_memory``, as the MB are.
        bottleneck, limited_by, overhead_fraction, advice: of ``verdict``.
        is_memory_bound, is_compute_bound: the bottleneck as two bools.
        layers: a row per layer, the model first: name, type, depth, calls, parameters, flops, contractions, bytes,
            latency_ms (with the layers inside), self_ms, share (of all self time, 0 to 1), gflops_per_second,
            bottleneck, limited_by.
        uncounted: names of ops without a cost rule.
        workload: what was timed.

    Raises:
        TypeError: no numbers came in, no Tensor out, or ``limits`` or ``clock`` is of another kind.
        ValueError: no forward, an empty input, ``iterations`` below 1, or inside ``shape_only()``.
    """
    input_tensor, limits = _as_input(input_tensor), limits_of(limits)
    events = observe_forward(model, input_tensor)
    work = work_of(events)
    if isinstance(model, Tensor):  # by convention a bare Tensor costs one FLOP per element it is given
        work = work._replace(flops=input_tensor.size)
    raise NotImplementedError("profile_forward_pass: section 7, cell 19")

# %% [markdown]
"""
To check it exactly we need a model whose time we control: `Slow` wraps a layer and lets a handed clock pass.
"""

# %%
if __name__ == "__main__":
    class Slow(Layer):
        """A layer that takes exactly `ms` milliseconds of a handed clock, and computes what `inner` computes."""

        def __init__(self, inner, tick, ms):
            self.inner, self.tick, self.ms = inner, tick, ms

        def forward(self, x):
            self.tick(self.ms)
            return self.inner(x)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-profile-forward-pass", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "profiles"}
if __name__ == "__main__":
    def test_profile_forward_pass():
        """The batch's FLOPs over the batch's time; layers; the machine."""
        clock, machine = HandedClock(), MachineLimits(peak_gflops=500, bandwidth_gbs=20, dispatch_us=5)
        model = Sequential(Slow(Linear(256, 128), clock.advance, 1.5), Slow(ReLU(), clock.advance, 0.5))
        got = profile_forward_pass(model, Tensor(np.ones((32, 256))), limits=machine, clock=clock)
        wanted = ("parameters", "flops", "flops_per_sample", "batch_flops", "contractions", "latency_ms", "memory_bandwidth_mbs", "peak_memory_mb", "workload", "bottleneck",
                  "limited_by", "advice", "is_memory_bound", "is_compute_bound", "layers", "latency", "uncounted")
        check("keys that are missing", [key for key in wanted if key not in got], [])
        check("parameters", got["parameters"], 32_896, {32_768: "the bias is left out"})
        check("FLOPs of the batch", got["flops"], 2_097_152 + 4_096, {65_664: "those of one sample"})
        check("contractions", got["contractions"], 2_097_152, {2_101_248: "those are all FLOPs; the sums are no products", 65_536: "those of one sample"})
        check("batch_flops is the same number", got["batch_flops"], 2_101_248, {65_664: "those of one sample"})
        check("nothing is uncounted", got["uncounted"], [])
        check("the workload says how many samples were timed", got["workload"].get("iterations"), 6, {None: "that is the memory pass's; take latency's", 40: "the clock is not handed on to time_forward"})
        check("FLOPs of one sample", got["flops_per_sample"], 65_536 + 128, {2_101_248: "those of the batch"})
        check("latency, ms", got["latency_ms"], 2.0, {0.002: "seconds"})
        check("latency holds the statistics", type(got["latency"]).__name__, "dict", {"float": "all of what time_forward found, not its median only"})
        check("GFLOP/s", got["gflops_per_second"], 2_101_248 / 2e6, {65_664 / 2e6: "one sample's FLOPs over the batch's time: 32x too slow"})
        check("of this machine's peak", got["computational_efficiency"], 2_101_248 / 2e6 / 500, {2_101_248 / 2e6 / 100: "a fixed peak of 100 GFLOP/s"})
        each = [1, 1, 1, 9] * 200
        uneven = profile_forward_pass(Slow(ReLU(), lambda ms: clock.advance(each.pop()), 0), Tensor(np.ones((2, 4))), limits=machine, clock=clock, iterations=8)
        check("calls of 1, 1, 1 and 9 ms, again and again", uneven["latency_ms"], 1.0, {3.0: "that is the mean; take latency[\"median\"]", 9.0: "that is the slowest call"})
        check("iterations asked for", uneven["latency"]["samples"], 8, {6: "iterations is not handed on to time_forward"})
        check("GFLOP/s of the first row, the whole model", got["layers"][0]["gflops_per_second"], 2_101_248 / 2e6, {2_101_248 / 2e3: "layers_of wants the latency in milliseconds"})
        check("the layers' shares", [round(row["share"], 6) for row in got["layers"]], [0.0, 0.75, 0.0, 0.25, 0.0])
        check("limited by", got["limited_by"], "unexplained", {"memory": "the measured time has a say", "mixed": "the measured time has a say, in milliseconds"})
        check("the two bools", [got["is_memory_bound"], got["is_compute_bound"]], [True, False], {
            (False, False): "the two bools are about bottleneck, not limited_by", (False, True): "the two bools are swapped"})
        fast_memory = MachineLimits(peak_gflops=0.5, bandwidth_gbs=2000, dispatch_us=5)
        elsewhere = profile_forward_pass(model, Tensor(np.ones((32, 256))), limits=fast_memory, clock=clock)
        check("on another machine", elsewhere["bottleneck"], "compute", {"memory": "the verdict must move when the machine does"})
        check("the first rows, here and there", [found["layers"][0]["bottleneck"] for found in (got, elsewhere)], ["memory", "compute"], {
            ("compute", "compute"): "limits is not handed on to layers_of", ("memory", "memory"): "limits is not handed on to layers_of"})
        check("memory is in it", 0 < got["memory_efficiency"] <= 1, True)
        unpriced = ops.op(shape=ops.same_shape)(lambda a: a)
        alone = profile_forward_pass(lambda x: unpriced(x) + x, Tensor(np.ones(4)), limits=machine, clock=clock)
        check("an op without a rule is named", alone["uncounted"], ["<lambda>"], {(): "nothing is named: list(work.uncounted)"})
        check("FLOPs of one sample where there is no batch axis", alone["flops_per_sample"], 4, {1: "divided by the first axis; flops_of_one(...) knows better"})


    test_profile_forward_pass()

# %% [markdown]
"""
Given: the table. It is drawn last, from plain rows, by code that measured nothing.
"""

# %%
#| export
def layer_table(profile, width=80):
    """Return the per-layer table of a forward profile as text, at most ``width`` columns (80 or more); times in ms.

    ``ValueError``: not what ``profile_forward_pass`` returned; a backward profile's layers have other columns.
    """
    rows, room = profile.get("layers", [{}]), width - 55
    if not all("share" in row for row in rows):
        raise ValueError("no layers of a forward pass are in it; want what profile_forward_pass returned")
    lines = [f"{'layer':<{room}} params FLOPs bytes        ms share GFLOP/s limited by"]
    for row in rows:
        name = "  " * row["depth"] + (row["name"].rsplit(".", 1)[-1] + " " if row["depth"] else "") + row["type"]
        name += f" x{row['calls']}" if row["calls"] > 1 else ""
        name = name if len(name) < room else name[: room - 2] + "…"
        counts = "".join(f"{short(row[key]):>{wide}}" for key, wide in (("parameters", 7), ("flops", 6), ("bytes", 6)))
        lines.append(f"{name:<{room}}{counts}{row['latency_ms']:>10.4f}{row['share']:>6.0%}"
                     f"{row['gflops_per_second']:>8.2f} {row['limited_by']}")
    return "\n".join(lines)

# %%
if __name__ == "__main__":
    digits = Sequential(Linear(64, 32), ReLU(), Linear(32, 10))
    print(layer_table(profile_forward_pass(digits, Tensor(np.ones((32, 64))))))

# %% [markdown]
"""
**One layer.** Given: the same on an input that is made for it, less the table and the raw samples.
"""

# %%
#| export
def profile_layer(layer, input_shape, *, limits=None, clock=None, iterations=None):
    """Profile one layer on a made input of ``input_shape``, the batch first; return a dict about the whole batch.

    The keys are those of ``profile_forward_pass`` without ``layers`` and ``latency``, and ``layer_type``, the class.

    Raises:
        TypeError: as ``profile_forward_pass``, or ``input_shape`` is no tuple of integers.
        ValueError: as ``profile_forward_pass``, or ``input_shape`` is no shape.
    """
    made = make_input(layer, input_shape)
    profile = profile_forward_pass(layer, made, limits=limits, clock=clock, iterations=iterations)
    return {"layer_type": type(layer).__name__,
            **{key: value for key, value in profile.items() if key not in ("layers", "latency")}}

# %%
if __name__ == "__main__":
    clock = HandedClock()
    exact = profile_layer(Slow(Linear(128, 64), clock.advance, 4.0), (32, 128), limits=machine, clock=clock)
    say("", {key: exact[key] for key in ("layer_type", "parameters", "flops", "flops_per_sample", "latency_ms", "gflops_per_second", "limited_by")})

# %% [markdown]
"""
### The backward pass

**Guess first.** Folklore says: backward costs twice what forward does. For a network 784-128-10 on one image, how many FLOPs are forward *plus* backward, if forward is 203,264?
"""

# %%
if __name__ == "__main__":
    guess("FLOPs of 784-128-10, forward and backward", None, sure=0.5)

# %% [markdown]
"""
Why would it be twice? A layer `y = x @ w` has two gradients to compute, each a product as large as the forward one: `dw = xᵀ @ dy` and `dx = dy @ wᵀ`. But the *first* layer needs no `dx`: nobody wants the gradient of the image. With L equal layers that is 2L - 1 products for L.

We do not need the rule, though: Module 05 made gradients of ops, so the backward pass goes through the same door, and can be *heard*. Given: `both_passes` prepares two functions. `forward()` empties the parameters' gradients, runs the model and returns the loss (the output itself where there is no `loss_fn`).
`back(loss)` runs the backward pass from ones; it does nothing when nothing wants a gradient. (Its code puts every gradient back as it was: *skip on first reading*.)
"""

# %%
#| export
def _leaves(loss):
    """Return {id: tensor} of the tensors in a graph that want a gradient and were not computed."""
    found, todo, seen = {}, [loss], set()
    while todo:
        tensor = todo.pop()
        if tensor.requires_grad and id(tensor) not in seen:
            seen.add(id(tensor))
            if tensor.made_by is None:
                found[id(tensor)] = tensor
            else:
                todo += tensor.made_by.inputs
    return found

# %%
#| export
def both_passes(model, input_tensor, loss_fn=None):
    """Return two functions: ``forward()`` gives the loss (or output), ``back(loss)`` walks back from it, from ones.

    ``back`` returns the gradients of the weights; ``back(loss, use)`` calls ``use()`` while they are in place.
    Whatever tensor they belong to, of the model, of the loss or of neither, has its own gradient back afterwards; the
    passes run on an input of their own, on the same memory.

    Raises:
        TypeError: ``loss_fn`` is no function; from ``forward()``: no Tensor came out.
        ValueError: the model has no forward; from ``forward()``: the loss is no scalar.
    """
    if loss_fn is not None and not callable(loss_fn):
        raise TypeError(f"loss_fn is {loss_fn!r}; want a function from the output to a scalar Tensor, or None")
    x = Tensor(input_tensor.data, requires_grad=input_tensor.requires_grad, dtype=input_tensor.dtype)
    checked, leaves = _calls_of(model, x)[0], {}

    def forward():
        output = checked()
        loss = output if loss_fn is None else loss_fn(output)
        if not isinstance(loss, Tensor):
            what = "model" if loss_fn is None else "loss_fn"
            raise TypeError(f"the {what} returned a {type(loss).__name__}; want one Tensor to walk back from")
        if loss_fn is not None and loss.size != 1:
            raise ValueError(f"loss_fn returned shape {loss.shape}; want a scalar Tensor, for example its mean()")
        return loss

    def back(loss, use=None):
        if not loss.requires_grad:
            return []
        if not leaves:
            leaves.update(_leaves(loss))
        before = [(leaf, leaf.grad) for leaf in leaves.values()]
        try:
            for leaf in leaves.values():
                leaf.grad = None
            backward(loss, gradient=Tensor(np.ones(loss.shape, loss.dtype), dtype=loss.dtype))
            if use is not None:
                use()
            return [leaf.grad for leaf in leaves.values() if leaf is not x]
        finally:
            for leaf, grad in before:
                leaf.grad = grad

    return forward, back

# %% [markdown]
"""
**Task.** Write `count_both_passes(model, input_tensor, loss_fn=None)`: return two `Work`s, that of the forward pass that ran and that of the backward pass that ran. Use `both_passes`, `observe` and `work_of`. Gradients must be on (`gradients(True)`), and model and caller must find everything as it was (`untouched(model)`).

<details><summary>Hint 1: idea</summary>
Observe one function, then the other.
</details>
<details><summary>Hint 2: approach</summary>
<code>observe(forward)</code> gives events and the loss. The second function needs an argument: <code>lambda: back(loss)</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>events, y = observe(lambda: x * 2)</code>, then <code>more, z = observe(lambda: y + 1)</code>: two lists, one op each.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "count-both-passes", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def count_both_passes(model, input_tensor, loss_fn=None):
    """Return (forward ``Work``, backward ``Work``) of the passes that ran; a loss belongs to the forward pass."""
    raise NotImplementedError("count_both_passes: section 7, cell 29")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-count-both-passes", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "profiles"}
if __name__ == "__main__":
    def test_count_both_passes():
        """784-128-10, equal layers, a wanted input, a loss; nothing left behind."""
        mlp = Sequential(Linear(784, 128), ReLU(), Linear(128, 10))
        image = Tensor(np.ones((1, 784)))
        ahead, behind = count_both_passes(mlp, image)
        check("784-128-10 forward, contractions", ahead.contractions, 203_264, {205_824: "that is the backward pass: the two are swapped", 409_088: "both passes were heard as one"})
        check("forward and backward", ahead.contractions + behind.contractions, 409_088, {609_792: "backward = 2 x forward is folklore: the input needs no gradient", 203_264: "the backward pass was not heard",
            406_528: "the forward pass was heard twice, or only the weights' gradients: the one between the layers is missing", 612_352: "a second forward pass was heard with the backward one: walk back from the loss you have"})
        both = count_both_passes(Sequential(Linear(50, 50), Linear(50, 50)), Tensor(np.ones((1, 50))))
        check("two equal layers, backward over forward", both[1].contractions / both[0].contractions, 1.5, {2.0: "the first layer needs no gradient of its input"})
        x = Tensor(np.ones((5, 8)))
        check("Linear(8, 4) on (5, 8), both passes", sum(work.contractions for work in count_both_passes(Linear(8, 4), x)), 640, {320: "the backward pass was not heard", 960: "the input wants no gradient, and gets none"})
        wanted = Tensor(np.ones((5, 8)), requires_grad=True)
        check("if the input wants a gradient", sum(work.contractions for work in count_both_passes(Linear(8, 4), wanted)), 960, {640: "the input's wish for a gradient got lost: hand both_passes the input as it came"})
        check("a loss is part of the forward pass", count_both_passes(Linear(8, 4), x, lambda y: y.sum())[0].flops, 340, {320: "the loss was not heard"})
        with no_grad():
            check("also where the caller has gradients off", count_both_passes(mlp, image)[1].contractions, 205_824, {0: "gradients(True) is missing: no graph, so nothing to walk back"})
        ticking = Restless()
        count_both_passes(ticking, Tensor([1.0, 2.0]))
        check("a restless model is as before", (ticking.calls, len(ticking.log)), (0, 0), {(1, 1): "untouched(model) is missing"})
        check("no gradients left behind", [p.grad is None for p in mlp.parameters()] + [wanted.grad is None], [True, True, True, True, True])


    test_count_both_passes()

# %%
if __name__ == "__main__":
    ahead, behind = count_both_passes(Sequential(Linear(784, 128), ReLU(), Linear(128, 10)), Tensor(np.ones((1, 784))))
    settle("FLOPs of 784-128-10, forward and backward", ahead.contractions + behind.contractions)
    print(f"backward is {behind.contractions / ahead.contractions:.3f} x forward")
    for L in (1, 2, 4, 8):
        ahead, behind = count_both_passes(Sequential(*[Linear(50, 50) for _ in range(L)]), Tensor(np.ones((1, 50))))
        print(f"{L} equal layers: {behind.contractions / ahead.contractions:.3f} x, (2L-1)/L is {(2 * L - 1) / L:.3f}")

# %% [markdown]
"""
Given (*skip on first reading*, down to the printed report): the report on both passes, from your parts. Gradients are weighed where they are, and the peak of both passes together is traced. The optimizer's memory is on top: momentum keeps one array for each gradient, Adam two; or hand in your optimizer, and what it really holds after a step is weighed (the step is
taken on copies, and model and optimizer are as before). `layers` and `by_op` say what each layer and each op cost on the way there and on the way back: an op of the backward pass is heard in the scope of the layer whose forward op it undoes.
"""

# %%
#| export
def _time_both_passes(model, forward, back, clock=None, iterations=None):
    """Time both passes, gradients on: ({"forward": summary, "backward": summary}, warmup calls); a sample is two reads.

    The summaries are those of ``summarize``, with the number of ``samples``.
    """
    read = perf_counter_ns if clock is None else reading(clock)
    times = [], []
    with untouched(model), gradients(True):
        warmup, fitting = _affordable(lambda: back(forward()), clock, 200_000_000)
        with quiet():
            for i in range(warmup + (fitting if iterations is None else whole("iterations", iterations, 1))):
                kept = []
                ahead = time_calls(lambda kept=kept: kept.append(forward()), 0, 1, read)
                behind = time_calls(lambda kept=kept: back(kept[0]), 0, 1, read)
                if i >= warmup:
                    times[0].append(ahead[0])
                    times[1].append(behind[0])
    in_ms = {name: [max(ns, 0) / 1e6 for ns in each] for name, each in zip(("forward", "backward"), times)}
    return {name: {**summarize(each), "samples": len(each)} for name, each in in_ms.items()}, warmup

# %%
#| export
def _memory_of_both(model, forward, back):
    """Run both passes; return (bytes of the weights' gradients, each buffer once; traced peak of both together)."""
    with untouched(model), gradients(True):
        traced = trace_memory(lambda: back(forward()))
        found = {storage(grad.data): grad.nbytes for grad in traced.result if grad is not None}
    return sum(found.values()), traced.peak

# %%
#| export
def optimizer_bytes(optimizer, model=()):
    """Return the bytes of the arrays an optimizer holds now, each memory once; parameters are not its own."""
    known = {storage(weight.data) for weight in weights_of((model, getattr(optimizer, "params", ())))}
    held = [thing.data if isinstance(thing, Tensor) else thing for thing in things_in(optimizer)]
    arrays = {storage(array): array.nbytes for array in held if isinstance(array, np.ndarray)}
    return sum(nbytes for place, nbytes in arrays.items() if place not in known)


def _bytes_after_a_step(optimizer, model, forward, back):
    """Return what the optimizer holds after one step, taken on copies of the weights; everything is as before."""
    if not callable(getattr(optimizer, "step", None)) or not hasattr(optimizer, "params"):
        raise TypeError(f"optimizer is {optimizer!r}; want one of Module 06, such as Adam(model.parameters()); without "
                        "one, optimizer_memory_estimates has the usual ones by name")
    with untouched((model, optimizer)), gradients(True):
        for weight in optimizer.params:
            weight.data = weight.data.copy()
        back(forward(), optimizer.step)
        return optimizer_bytes(optimizer, model)

# %%
#| export
def _layers_of_both(model, forward, back):
    """Return (rows, by_op): what each layer and each op costs forwards and backwards; the first row is the model."""
    known, ahead, behind = _named_layers(model), [], []
    opened = _LayerTimes(known, lambda: 0)
    with untouched(model), gradients(True):
        with listen(ahead.append, scopes=opened), _as_root(model):
            loss = forward()
        with listen(behind.append):
            back(loss)
    rows, passes = [], [("forward", ahead), ("backward", behind)]
    where = {name: [_layer_path(event.scope, known) or (id(model),) for event in events] for name, events in passes}
    for path, (kind, calls, _, _) in opened.found.items():
        name, layer = known.get(path[-1], (kind, None))
        row = {"name": name or kind, "type": kind, "depth": len(path) - 1, "calls": calls,
               "parameters": count_parameters(layer) if layer is not None else 0}
        for side, events in passes:
            work = work_of([event for at, event in zip(where[side], events) if at[:len(path)] == path])
            row |= {f"{side}_flops": work.flops, f"{side}_contractions": work.contractions,
                    f"{side}_bytes": work.bytes_moved}
        rows.append(row)
    return rows, {side: tally(events)["by_op"] for side, events in passes}

# %%
#| export
def _memory_report(model, input_tensor, forward, back, optimizer):
    """Return the memory keys of ``profile_backward_pass``, in MB."""
    with gradients(True):
        memory = memory_of(model, input_tensor)
    gradients_there, peak = _memory_of_both(model, forward, back)
    gradient_mb = gradients_there / MB
    held = {"forward_memory_mb": memory["peak_memory_mb"], "gradient_memory_mb": gradient_mb,
            "total_memory_mb": memory["peak_memory_mb"] + gradient_mb,
            "peak_memory_mb": memory["parameter_memory_mb"] + memory["input_mb"] + peak / MB,
            "optimizer_memory_estimates": {name: arrays * gradient_mb for name, arrays in OPTIMIZER_ARRAYS.items()},
            **{name: memory[name] for name in ("parameter_memory_mb", "activation_memory_mb", "input_mb", "output_mb",
                                               "memory_efficiency", "graph", "omissions")},
            "assumptions": [*memory["assumptions"], "optimizer_memory_estimates: so many arrays like the gradients"]}
    if optimizer is not None:
        held["optimizer_state_mb"] = _bytes_after_a_step(optimizer, model, forward, back) / MB
    return held

# %%
#| export
def profile_backward_pass(model, input_tensor, loss_fn=None, *, optimizer=None, limits=None, clock=None,
                          iterations=None):
    """Profile a forward and a backward pass, measured and counted from the passes that ran.

    Args:
        model: whatever can be called, or has a ``forward``.
        input_tensor: the batch (B, ...).
        loss_fn: from the output to a scalar Tensor; without one the walk starts from ones.
        optimizer: of which the state is measured after a step on copies of the weights.
        limits: a ``MachineLimits`` instead of this machine's.
        clock: reads nanoseconds, instead of the machine's clock.
        iterations: samples; None for as many as are affordable.

    Keys:
        forward_flops, backward_flops, total_flops: FLOPs of the batch, every primitive.
        forward_contractions, backward_contractions, total_contractions: FLOPs of products and convolutions alone.
        forward_latency_ms, backward_latency_ms, total_latency_ms: medians in ms, and their sum.
        total_gflops_per_second, computational_efficiency: 10^9 FLOPs a second; share of the peak, 0 to 1.
        forward_memory_mb, gradient_memory_mb, total_memory_mb: MB: forward peak, gradients of the weights, their sum.
        peak_memory_mb: MB, the traced peak of both passes.
        optimizer_memory_estimates: MB on top, by optimizer: so many arrays like the gradients.
        optimizer_state_mb: MB that the ``optimizer`` holds after a step; only there if one was given.
        parameter_memory_mb, activation_memory_mb, input_mb, output_mb: MB, of ``measure_memory``, gradients on.
        memory_efficiency, graph, assumptions, omissions: likewise.
        bottleneck, limited_by, overhead_fraction, advice: of ``verdict``, for both passes together.
        layers, by_op: FLOPs (and bytes) of each layer and each op, forward and backward.
        latency: {"forward": ..., "backward": ...}, each of ``summarize``, with the number of ``samples``.
        uncounted, workload: names of ops without a cost rule; what was timed.

    Raises:
        TypeError: ``loss_fn``, ``optimizer``, ``limits`` or ``clock`` is of another kind, or no Tensor came out.
        ValueError: the loss is no scalar, no forward, or ``iterations`` below 1.
    """
    input_tensor, limits = _as_input(input_tensor), limits_of(limits)
    ahead, behind = count_both_passes(model, input_tensor, loss_fn)
    forward, back = both_passes(model, input_tensor, loss_fn)
    latency, warmup = _time_both_passes(model, forward, back, clock, iterations)
    forward_ms, backward_ms = (latency[side]["median"] for side in ("forward", "backward"))
    layers, by_op = _layers_of_both(model, forward, back)
    both = together(ahead, behind)
    total = rates(both, forward_ms + backward_ms, limits)
    return {"forward_flops": ahead.flops, "forward_contractions": ahead.contractions, "forward_latency_ms": forward_ms,
            "backward_flops": behind.flops, "backward_contractions": behind.contractions,
            "backward_latency_ms": backward_ms,
            "total_flops": both.flops, "total_contractions": both.contractions,
            "total_latency_ms": forward_ms + backward_ms,
            "total_gflops_per_second": total["gflops_per_second"],
            "computational_efficiency": total["computational_efficiency"],
            **_memory_report(model, input_tensor, forward, back, optimizer),
            **verdict(both, forward_ms + backward_ms, limits), "layers": layers, "by_op": by_op, "latency": latency,
            "uncounted": list(both.uncounted),
            "workload": workload(model, input_tensor, "one forward and one backward pass", "kept where wanted",
                                 warmup=warmup, iterations=latency["forward"]["samples"])}

# %%
#| export
def together(first, second):
    """Return the ``Work`` of ``first`` and ``second``, one after the other: FLOPs, bytes and counts add up."""
    pair_of = first, second
    return Work(first.flops + second.flops, first.bytes_moved + second.bytes_moved, first.num_ops + second.num_ops,
                first.contractions + second.contractions, first.transcendentals + second.transcendentals,
                typical((work.bytes_moved, work.footprint or 0.0) for work in pair_of),
                tuple(sorted({*first.uncounted, *second.uncounted})),
                typical((work.contractions, work.product or 0.0) for work in pair_of), first.steps + second.steps)

# %%
if __name__ == "__main__":
    trained = profile_backward_pass(Sequential(Linear(784, 128), ReLU(), Linear(128, 10)), picture)
    print(f"forward {trained['forward_latency_ms']:.3f} ms, backward {trained['backward_latency_ms']:.3f} ms; {trained['total_gflops_per_second']:.1f} GFLOP/s")
    weights_mb = trained["gradient_memory_mb"]
    with_adam = weights_mb + trained["gradient_memory_mb"] + trained["optimizer_memory_estimates"]["adam"]
    print(f"parameters {weights_mb:.2f} MB; with gradients and Adam {with_adam:.2f} MB: every parameter weighs {with_adam / weights_mb:.0f} times")
    for row in trained["layers"]:
        print(f"{'  ' * row['depth'] + row['type']:<14} forward {row['forward_flops']:>9,} FLOPs, backward {row['backward_flops']:>9,}")

# %% [markdown]
"""
### The face

Given (*skip on first reading*): small tools around your functions, and `Profiler`, a thin face with the same verbs that remembers every result.
"""

# %%
#| export
def headline(profile):
    """Return a list of six lines about a forward profile: Parameters, FLOPs, Latency, Memory, Bottleneck, GFLOP/s."""
    latency, peak_mb, parameter_mb = profile["latency"], profile["peak_memory_mb"], profile["parameter_memory_mb"]
    of_peak = f"{profile['computational_efficiency']:.1%} of this machine's peak"
    unknown = f"; without {', '.join(profile['uncounted'])}: no cost rule" if profile["uncounted"] else ""
    lines = {
        "Parameters": f"{profile['parameters']:,}",
        "FLOPs": f"{profile['flops']:,} ({profile['flops_per_sample']:,} per sample){unknown}",
        "Latency": f"{profile['latency_ms']:.4g} ms (median of {latency['samples']} {latency['samples_are']})",
        "Memory": f"{peak_mb:.4g} MB at the peak, {parameter_mb:.4g} MB of it parameters",
        "Bottleneck": f"{profile['bottleneck']} (limited by {profile['limited_by']})",
        "GFLOP/s": f"{profile['gflops_per_second']:.4g} ({of_peak})",
    }
    return [f"{name + ':':<12}{text}" for name, text in lines.items()]


def quick_profile(model, input_tensor, profiler=None, *, limits=None, clock=None):
    """Print six lines about a forward pass and return its profile, the dict of ``profile_forward_pass``.

    A ``profiler`` lends clock and limits. Errors are those of ``profile_forward_pass``.
    """
    profile = (profiler or Profiler()).profile_forward_pass(model, input_tensor, limits=limits, clock=clock)
    print("\n".join(headline(profile)))
    return profile


def _percentiles(wanted):
    """Return percentiles as a list of numbers from 0 to 100; a sentence otherwise."""
    if not isinstance(wanted, (tuple, list, range, np.ndarray)):
        raise TypeError(f"percentiles is {wanted!r}; want several, like (10, 50, 90)")
    for p in wanted:
        if amount("a percentile", p) > 100:
            raise ValueError(f"a percentile is {p}; want 0 to 100")
    return list(wanted)


def analyze_weight_distribution(model, percentiles=(10, 25, 50, 75, 90)):
    """Describe all weights together; ``{"error": ...}`` when there are none.

    Keys:
        total_weights: a count, each memory once.
        mean, std, min, max: of the weights' values.
        percentile_10, percentile_25, ...: one for each of ``percentiles``, 0 to 100.
        below_threshold_0001, below_threshold_001, below_threshold_01: per cent of the weights with an absolute value
            below 0.001, 0.01 and 0.1.

    Raises:
        TypeError: ``percentiles`` is no list of numbers.
        ValueError: one of them is outside 0 to 100.
    """
    percentiles = _percentiles(percentiles)
    buffers = {storage(weight.data): weight.data for weight in weights_of(model) if weight.size}
    if not buffers:
        return {"error": f"a {type(model).__name__} has no weights"}
    weights = np.concatenate([array.ravel().astype(np.float64) for array in buffers.values()])
    result = {"total_weights": int(weights.size), "mean": float(weights.mean()), "std": float(weights.std()),
              "min": float(weights.min()), "max": float(weights.max())}
    result |= {f"percentile_{p:g}": float(np.percentile(weights, p)) for p in percentiles}
    result |= {f"below_threshold_{name}": float((np.abs(weights) < limit).mean() * 100)
               for name, limit in (("0001", 0.001), ("001", 0.01), ("01", 0.1))}
    return result

# %%
#| export
def resident_bytes():
    """Return the process's resident size in bytes, as the operating system counts it."""
    import psutil

    return psutil.Process().memory_info().rss


class MemoryProfiler:
    """Watches the process's resident size (or another ``probe()`` that returns bytes): not what tracemalloc sees."""

    def __init__(self, probe=resident_bytes):
        self.snapshots, self.probe = [], probe

    def snapshot(self, label):
        """Note the resident size under a label; return the note: a dict of label, rss (MB), timestamp (seconds)."""
        note = {"label": label, "rss": self.probe() / 1024**2, "timestamp": time.time()}
        self.snapshots.append(note)
        return note

    def report(self):
        """Print the timeline in MB, each line with the change since the one before."""
        print("Memory Timeline:")
        for before, now in zip([*self.snapshots[:1], *self.snapshots], self.snapshots):
            print(f"{now['label']:30s}: {now['rss']:8.2f} MB ({now['rss'] - before['rss']:+.2f} MB)")

# %%
#| export
class _Remembering:
    """What a Profiler knows: its clock, its limits, every result, and the closed forms under their old names."""

    def __init__(self, clock=None, limits=None):
        self.clock, self.limits = clock, None if limits is None else limits_of(limits)
        self.measurements, self.operation_counts, self.uncounted, self.elapsed = {}, {}, {}, None
        self._starts = []

    def _keep(self, label, result):
        """Remember a result under a label of its own: ``count_flops Linear``, then ``count_flops Linear #2``."""
        first, number = label, 1
        while label in self.measurements:
            number += 1
            label = f"{first} #{number}"
        self.measurements[label] = result
        return result

    def __enter__(self):
        self._starts.append((self.clock or perf_counter_ns)())
        return self

    def __exit__(self, *exc):
        self.elapsed = ((self.clock or perf_counter_ns)() - self._starts.pop()) / 1e6

    def _count_layer_parameters(self, layer):
        """Count one layer's parameters."""
        return count_parameters(layer)

    def _count_linear_flops(self, layer, input_shape):
        """Count by the closed form, whole batch; works on anything with a ``weight`` (in, out)."""
        return linear_flops(tuple(input_shape), layer.weight.shape[1])

    def _count_conv_flops(self, layer, input_shape):
        """Count by the closed form, whole batch; attributes that are missing are at their defaults."""
        more = {name: getattr(layer, name, usual) for name, usual in
                (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1))}
        return conv2d_flops(tuple(input_shape), layer.out_channels, layer.kernel_size, **more)

    def _count_sequential_flops(self, model, input_shape):
        """Count a chain of layers by running it on shapes, whole batch."""
        return flop_report(model, input_shape).total

# %% [markdown]
"""
A method of the face does three things: it lends the function what the profiler was given (its clock, its limits), calls it, and remembers what came. So a method is *made*, from the function it is the face of: `_verb(function, "clock")`.
"""

# %%
#| export
def _verb(function, *lent):
    """Make a method of a free function: it lends the Profiler's own ``lent`` where none is given, and remembers."""
    from functools import wraps
    from inspect import Parameter, signature

    plan = signature(function)
    first = next(iter(plan.parameters))
    named = first in ("model", "layer")  # then the label says of what

    @wraps(function)
    def method(self, *args, **kwargs):
        call = plan.bind_partial(*args, **kwargs)
        for name in lent:
            if call.arguments.get(name) is None:
                call.arguments[name] = getattr(self, name)
        result = function(*call.args, **call.kwargs)
        of = f" {type(call.arguments[first]).__name__}" if named else ""
        return self._keep(f"{function.__name__}{of}", result)

    shown = [one.replace(default=None) if one.name in lent else one for one in plan.parameters.values()]
    me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = plan.replace(parameters=[me, *shown])
    return method

# %%
#| export
class _Counting(_Remembering):
    """The verbs that count; nothing is timed here."""

    count_parameters = _verb(count_parameters)
    matmul_flops = _verb(matmul_flops)
    linear_flops = _verb(linear_flops)
    conv2d_flops = _verb(conv2d_flops)
    attention_flops = _verb(attention_flops)
    measure_memory = _verb(measure_memory)
    training_memory = _verb(training_memory)
    analyze_weight_distribution = _verb(analyze_weight_distribution)

    def count_flops(self, model, input_shape):
        """Return the model's FLOPs per sample; ``operation_counts``, ``uncounted``: which ops ran, which unpriced."""
        result = count_flops(model, input_shape)
        ran = [] if isinstance(model, Tensor) else one_sample(model, sizes("input_shape", input_shape))[0]
        counted = tally(ran)
        self.operation_counts, self.uncounted = counted["op_calls"], counted["uncounted"]
        return self._keep(f"count_flops {type(model).__name__}", result)

    def flop_report(self, model, input_shape):
        """Return the ``FlopReport`` of a pass of the model as shaped: FLOPs by op and by layer."""
        report = flop_report(model, input_shape)
        self.operation_counts, self.uncounted = report.op_calls, report.uncounted
        return self._keep(f"flop_report {type(model).__name__}", report)

# %%
#| export
class Profiler(_Counting):
    """A thin face over the free functions that remembers what it found in ``measurements``.

    Each method takes, returns and raises what the function of its name does.

    Args:
        clock: reads nanoseconds; handed on to every measurement, unless the call brings its own.
        limits: a ``MachineLimits``, handed on likewise.

    Attributes:
        measurements: results by label: "count_flops Linear", then "count_flops Linear #2".
        elapsed: milliseconds that the block of ``with Profiler() as p: ...`` took.
        operation_counts: how often each op ran in the last count.
        uncounted: which of them have no cost rule, and how often they ran.

    Raises:
        TypeError: ``limits`` is no ``MachineLimits``.
    """

    measure_latency = _verb(measure_latency, "clock")
    latency_statistics = _verb(latency_statistics, "clock")
    profile_layer = _verb(profile_layer, "limits", "clock")
    profile_forward_pass = _verb(profile_forward_pass, "limits", "clock")
    profile_backward_pass = _verb(profile_backward_pass, "limits", "clock")
    roofline = _verb(roofline, "limits")
    amdahl_speedup = _verb(amdahl_speedup)

    def machine_limits(self, refresh=False):
        """Return the ``MachineLimits`` this Profiler judges by: those handed in, or this machine's, measured."""
        mine = machine_limits(refresh) if refresh or self.limits is None else self.limits
        return self._keep("machine_limits", mine)

    def profile_batch_sizes(self, model, input_shape, sizes=(1, 8, 32, 64)):
        """Return a dict for each of several batch sizes; see the function ``profile_batch_sizes``."""
        found = profile_batch_sizes(model, input_shape, sizes, clock=self.clock)
        return self._keep(f"profile_batch_sizes {type(model).__name__}", found)

    def compare(self, baseline, candidate, inputs, rtol=None, atol=None, decision=None, *, rounds=None, seed=None):
        """Say whether the candidate is faster than the baseline, and by how much; see the function ``compare``."""
        found = compare(baseline, candidate, inputs, rtol, atol, decision, clock=self.clock, rounds=rounds, seed=seed)
        return self._keep(f"compare {type(candidate).__name__}", found)

    def quick_profile(self, model, input_tensor, *, limits=None, clock=None):
        """Print six lines about the model's forward pass, return its profile; see the function ``quick_profile``."""
        return quick_profile(model, input_tensor, self, limits=limits, clock=clock)

# %%
if __name__ == "__main__":
    profiler = Profiler()
    _ = quick_profile(Linear(1024, 512), Tensor(np.ones((8, 1024))), profiler)
    print(list(profiler.measurements), f"{profiler.count_parameters(Linear(1024, 512)):,}", f"{profiler.count_flops(Linear(1024, 512), (1, 1024)):,}")

# %% [markdown]
"""
## 8. Is it really faster?

*5 minutes · no points; the bonus, two small functions, 20 minutes more*

**Question.** You changed a line and time both versions, one after the other. The medians differ and their intervals do not even overlap. Is the new one faster? Let us ask a pair of which we *know* the answer: the same code, against itself, forty times.
"""

# %%
if __name__ == "__main__":
    matrices = np.random.default_rng(0).standard_normal((2, 96, 96)).astype(np.float32)
    cried_wolf = 0
    for _ in range(40):
        intervals = [median_interval(time_calls(lambda: matrices[0] @ matrices[1], 2, 20, perf_counter_ns)) for _ in range(2)]
        cried_wolf += intervals[0][0] > intervals[1][1] or intervals[1][0] > intervals[0][1]
    print(f"identical code 'differs' in {cried_wolf} of 40 comparisons; two such intervals should rarely be apart")

# %% [markdown]
"""
Intervals of two runs one after another speak of two *moments* of a machine, and moments differ (frequency, neighbours, caches). What holds is comparing in **pairs**, interleaved at random: A B, B A, B A, A B. What the moment adds, it adds to both. The same pair again, both ways; in the second, the question is whether the interval of the *ratio* leaves out 1:
"""

# %%
if __name__ == "__main__":
    def both_ways(trials=40, rounds=20):
        """Compare a product with itself; return how often it 'differs': one after another, and in shuffled pairs."""
        def once_ns():
            return time_calls(lambda: matrices[0] @ matrices[1], 0, 1, perf_counter_ns)[0]

        alarms = [0, 0]
        for _ in range(trials):
            first, second = (median_interval([once_ns() for _ in range(rounds)]) for _ in range(2))
            alarms[0] += first[0] > second[1] or second[0] > first[1]
            pairs = [{side: once_ns() for side in random.sample("AB", 2)} for _ in range(rounds)]
            low, high = median_interval([pair["A"] / max(pair["B"], 1) for pair in pairs])
            alarms[1] += low > 1 or high < 1
        return alarms


    apart, paired = both_ways()
    print(f"false alarms in 40: one after another {apart}, in pairs {paired}; a 95 % interval may be wrong in about 2 of 40")

# %% [markdown]
"""
How large the first number is depends on how restless your machine is just now; the second does not. Run the cell a few times.

### Equal first

A wrong answer is always fast. So before anything is timed, both must compute the same: same shape, same type, each number within a tolerance `atol + rtol * |expected|`. Given: `worst_element`, which says where two arrays differ most, measured by what is allowed there.
"""

# %%
#| export
def tolerance(dtype, rtol=None, atol=None):
    """Return (rtol, atol) for outputs of ``dtype``: what is given, and by default what rounding explains.

    float16: 1e-2 and 1e-3; float32: 1e-5 and 1e-6; float64: 1e-10 and 1e-12; integers and booleans: 0 and 0.
    """
    usual = {2: (1e-2, 1e-3), 4: (1e-5, 1e-6)}.get(dtype.itemsize, (1e-10, 1e-12)) if dtype.kind == "f" else (0.0, 0.0)
    return usual[0] if rtol is None else rtol, usual[1] if atol is None else atol

# %%
#| export
def worst_element(expected, got, rtol, atol):
    """Return the element where two arrays of one shape differ most, measured by what is allowed; None for no elements.

    Allowed is ``atol + rtol * |expected|``. NaN equals NaN, an infinity equals itself and nothing else.

    Keys:
        index: a list of integers.
        expected, got: the two values.
        abs, rel, allowed: how far apart, the same as a ratio to expected (None where that is 0), and what is allowed.
        beyond: how many elements are not allowed.
    """
    if expected.size == 0:
        return None
    with np.errstate(all="ignore"):
        a, b = expected.astype(np.float64), got.astype(np.float64)
        same, finite = (expected == got) | (np.isnan(a) & np.isnan(b)), np.isfinite(a) & np.isfinite(b)
        apart = np.abs(b - a) if expected.dtype.kind == "f" else np.maximum(np.abs(b - a), 1)  # of whole numbers
        apart = np.where(same, 0.0, np.where(finite, apart, np.inf))
        allowed = np.where(finite, atol + rtol * np.abs(a), 0.0)
        worst = np.unravel_index(np.argmax(np.where(same, 0.0, apart / allowed)), expected.shape)
    off, of = float(apart[worst]), abs(float(a[worst]))
    return {"index": [int(i) for i in worst], "expected": expected[worst].item(), "got": got[worst].item(), "abs": off,
            "rel": off / of if 0 < of < inf else 0.0 if off == 0 else None, "allowed": float(allowed[worst]),
            "beyond": int((apart > allowed).sum())}

# %%
if __name__ == "__main__":
    thirds = np.array([1, 2, 3], np.float32) / 3
    say("rounding: ", worst_element(thirds, thirds + np.array([0, 1e-7, 0], np.float32), *tolerance(thirds.dtype)), digits=8)
    say("a mistake: ", worst_element(thirds, thirds + np.array([0, 0, 0.01], np.float32), *tolerance(thirds.dtype)))

# %% [markdown]
"""
### Your part: a round, and what many rounds say

In a **round** each side is timed twice, in the order A B B A or B A A B; a coin decides which. Whatever grows steadily during the round (a processor that gets warm) weighs on both sides alike, and the coin sees to the rest: were the two sides the same code, swapping their names would change nothing, so the round would favour A with probability ½,
*whatever the machine does meanwhile*. That is a fair coin again, and your `median_interval` knows all about fair coins.

**Task** (bonus). Write `timed_round(a, b, clock, a_first)`: time four calls, each between two reads: A B B A if `a_first`, else B A A B. Return two lists: the two times of `a`, then the two of `b`, in the order in which they were taken. Your `time_calls` reads the clock.

Example: `a` takes 3 and 5 ms, `b` takes 1 and 2: the answer is `([3_000_000, 5_000_000], [1_000_000, 2_000_000])`, in either order.

<details><summary>Hint 1: idea</summary>
A loop over four turns. Each turn belongs to one of the sides and adds one time to that side's list.
</details>
<details><summary>Hint 2: approach</summary>
<code>(a_first, not a_first, not a_first, a_first)</code> says for each turn whether it is the turn of <code>a</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>heads = {True: [], False: []}</code> sorts tosses: <code>for up in tosses: heads[up].append(...)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "timed-round", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def timed_round(a, b, clock, a_first):
    """Time a b b a, or b a a b, each between two reads of ``clock``; return ([two ns of a], [two ns of b])."""
    raise NotImplementedError("timed_round: section 8, cell 6")

# %% [markdown]
"""
**Task** (bonus). Write `paired_ratio(rounds)`, where each round is `(a_ns, b_ns)`, two positive numbers. Take the logarithm of each `b_ns / a_ns`: then twice as fast and twice as slow are equally far from 0. Return `(ratio, interval)`: `exp` of the median of the logarithms, and `exp` of both ends of their
`median_interval`; the interval is `None` where that is `None`. (`np.log` and `np.exp`; make plain floats of them.)

Example: six rounds in which b takes twice as long as a: `(2.0, (2.0, 2.0))`.

<details><summary>Hint 1: idea</summary>
You have both functions: <code>percentile(…, 50)</code> and <code>median_interval</code>. Only what goes in and comes out must be changed.
</details>
<details><summary>Hint 2: approach</summary>
Make the list of logarithms first. An interval that is <code>None</code> has no ends to take <code>exp</code> of.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Ratios ½, 1, 2: the logarithms are about -0.693, 0, 0.693, the median is 0, and exp(0) = 1. Three rounds have no interval.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "paired-ratio", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def paired_ratio(rounds):
    """Return (median ratio b / a, its 95 % interval or None), both taken on logarithms, from rounds of (a_ns, b_ns)."""
    raise NotImplementedError("paired_ratio: section 8, cell 7")

# %%
if __name__ == "__main__":
    def bonus(show):
        """Run a bonus cell; say what is missing if its functions are not written yet."""
        try:
            show()
        except NotImplementedError as missing:
            print(f"bonus, not written yet: {missing}")


    def try_timed_round():
        """Both orders, exact; eight reads."""
        clock = HandedClock()
        sides = [takes(clock, 3, 5, 7, 9), takes(clock, 1, 2, 4, 6)]
        check("A B B A, in ns", timed_round(*sides, clock, True), ([3_000_000, 5_000_000], [1_000_000, 2_000_000]), {
            ((3_000_000,), (1_000_000,)): "each side goes twice"})
        check("B A A B, in ns", timed_round(*sides, clock, False), ([7_000_000, 9_000_000], [4_000_000, 6_000_000]), {
            ((4_000_000, 6_000_000), (7_000_000, 9_000_000)): "the times of a come first, whoever began"})
        check("reads of the clock", clock.reads, 16)
        order = []
        timed_round(lambda: order.append("A"), lambda: order.append("B"), clock, True)
        timed_round(lambda: order.append("A"), lambda: order.append("B"), clock, False)
        check("the order of the turns", "".join(order), "ABBABAAB", {"ABABBABA": "the second half runs backwards: A B B A", "AABBBBAA": "neighbours must be of different sides"})


    def try_paired_ratio():
        """By hand."""
        check("b takes twice as long", paired_ratio([(10, 20)] * 6), (2.0, (2.0, 2.0)), {(0.5, (0.5, 0.5)): "b over a, not a over b"})
        check("plain floats come back", type(paired_ratio([(10, 20)] * 6)[0]).__name__, "float", {"float64": "NumPy's number: float(...) makes a plain one of it"})
        check("three rounds", paired_ratio([(2, 1), (1, 1), (1, 2)]), (1.0, None))
        check("seven rounds, one of them disturbed", paired_ratio([(1, 1)] * 6 + [(1, 100)]), (1.0, (1.0, 100.0)), {
            (100 ** (1 / 7), (1.0, 100.0)): "the mean of the logarithms; take their median"})
        spread = [(8, 8 * 2**k) for k in range(-4, 6)]
        check("ten rounds, 1/16 to 32", paired_ratio(spread), (2**0.5, (1 / 8, 16.0)), {
            (1.5, (1 / 8, 16.0)): "the median of the ratios: take it of their logarithms"})


    bonus(try_timed_round)
    bonus(try_paired_ratio)

# %% [markdown]
"""
### The rest of `compare`, given (*skip on first reading*)

Its care is in the first half. Each model gets the same inputs, and the same random state, so that dropout drops the same elements; whatever one run changed (running statistics, an input, a weight) is compared too and put back.
"""

# %%
#| export
def _cases(inputs):
    """Return a list of argument tuples: a Tensor is one input; of a list or tuple each item is one.

    An item is a Tensor, or a tuple of arguments for a model that takes several: ``[(x, mask)]``.
    """
    items = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if not items:
        raise ValueError("no inputs came; want a Tensor, or a list with at least one")
    for item in items:
        if not isinstance(item, Tensor) and not (isinstance(item, tuple) and item):
            raise TypeError(f"an input is a {type(item).__name__}; want a Tensor, or a tuple of arguments in the list")
    return [item if isinstance(item, tuple) else (item,) for item in items]

# %%
#| export
def _outputs_in(output, who, name="output"):
    """Return {name: array} of an output: a Tensor, or several (and numbers, and None) in tuples, lists or dicts."""
    if isinstance(output, Tensor):
        return {name: output.data.copy()}
    if isinstance(output, (tuple, list, dict)) and (name != "output" or named_tensors(output)):
        return {key: array for part, inner in parts(output) if inner is not None
                for key, array in _outputs_in(inner, who, f"{name}[{part}]").items()}
    if isinstance(output, (bool, int, float, np.number, np.bool_)) and name != "output":
        return {name: np.asarray(output)}
    hint = "; it has computed nothing yet: drain it, and return what it gives" if hasattr(output, "__next__") else ""
    raise TypeError(f"the {who} returned a {type(output).__name__}; want a Tensor, or several in a tuple{hint}")

# %%
#| export
def _arrays_in(thing):
    """Return {dotted name: array} of the Tensors and arrays in a thing, each object once."""
    found, seen, todo = {}, {}, [("", thing)]
    while todo:
        name, value = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (Tensor, np.ndarray)):
            found[name] = value.data if isinstance(value, Tensor) else value
        elif not isinstance(value, (int, float, str, bytes, random.Random)):
            todo += [(f"{name}.{part}" if name else part, inner) for part, inner in reversed(parts(value))]
    return found

# %%
#| export
def _seed_alike(model):
    """Put every source of randomness that the model may use into a state that depends on its place only."""
    default, kinds = default_generator(), (np.random.Generator, np.random.RandomState, random.Random)
    own = [thing for thing in things_in(model) if isinstance(thing, kinds) and thing is not default]
    for place, source in enumerate([default, *own]):
        if isinstance(source, np.random.Generator):
            source.bit_generator.state = type(source.bit_generator)(place).state
        else:
            source.seed(place)
    np.random.seed(0)
    random.seed(0)

# %%
#| export
class _Run(NamedTuple):
    """What one checked run gave: {name: array} of its output, its decision, {name: array} of what it changed."""

    outputs: dict
    decision: object
    changed: dict

# %%
#| export
def _run_alike(who, model, call, args, decision):
    """Run once from a fixed random state and return the ``_Run``; the model and its input are as before."""
    everything = {"model": model, "input": list(args)}
    with untouched(everything):
        before = {name: (array, array.copy()) for name, array in _arrays_in(everything).items()}
        _seed_alike(model)
        try:
            output = call(*args)
            outputs, decided = _outputs_in(output, who), None if decision is None else decision(output)
            after = _arrays_in(everything)
            changed = {name: array.copy() for name, array in after.items()
                       if name not in before or not _as_before(array, before[name][1])}
        finally:
            for array, contents in before.values():
                if array.flags.writeable:
                    _put_back_array(array, contents)
    return _Run(outputs, decided, changed | {name: np.zeros(0) for name in before if name not in after})

# %%
#| export
def _as_before(array, before):
    return array.dtype == before.dtype and np.array_equal(array, before, equal_nan=array.dtype.kind == "f")


def _same_decision(a, b):
    """Say whether two decisions are equal: exactly, arrays and Tensors element by element."""
    a, b = (value.data if isinstance(value, Tensor) else value for value in (a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and _as_before(a, b.astype(a.dtype, copy=False))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same_decision, a, b))
    return bool(a == b) or (a != a and b != b)

# %%
#| export
def _agreement(what, expected, got, rtol, atol):
    """Return the worst elements of two {name: array}, one per name; ``ValueError`` where they do not agree."""
    if list(expected) != list(got):
        raise ValueError(f"{what}: the baseline has {', '.join(expected) or 'nothing'}, the candidate "
                         f"{', '.join(got) or 'nothing'}; want the same structure")
    found = []
    for name, a in expected.items():
        b = got[name]
        for property_of, here, there in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype)):
            if here != there:
                raise ValueError(f"{what}, {name}: {property_of} {here} in the baseline and {there} in the candidate; "
                                 "want the same before anything is timed")
        worst = worst_element(a, b, *tolerance(a.dtype, rtol, atol))
        if worst and worst["beyond"]:
            raise ValueError(
                f"{what}, {name} differs most at {worst['index']}: baseline {worst['expected']!r}, candidate "
                f"{worst['got']!r}, difference {worst['abs']:.4g}, allowed {worst['allowed']:.4g} ({worst['beyond']:,} "
                f"of {a.size:,} elements differ too much); mend the candidate, or give an rtol and atol you can defend")
        found += [{**worst, "name": name}] if worst else []
    return found

# %%
#| export
def _same_changes(what, expected, got):
    """Refuse with a ``ValueError`` two runs that leave their models, or their input, changed in different ways."""
    for who, changed in (("baseline", expected), ("candidate", got)):
        spoilt = [name for name in changed if name.startswith("input.")]
        if spoilt:
            raise ValueError(f"{what}: the {who} wrote into its input ({spoilt[0]}); let it work on a copy")
    odd = sorted(set(expected) ^ set(got))
    if odd:
        who = "baseline" if odd[0] in expected else "candidate"
        raise ValueError(f"{what}: only the {who} changes {odd[0]} when it runs; compare in eval mode, or run it once "
                         "before if this is a cache filled at first use")
    _agreement(f"{what}, state after the run", expected, {name: got[name] for name in expected}, None, None)

# %%
#| export
def _same_results(models, calls, cases, rtol, atol, decision):
    """Return the worst elements over all cases; ``ValueError`` where results, decisions or changes of state differ."""
    worst = []
    for number, args in enumerate(cases):
        what = f"input {number}"
        one, other = (_run_alike(who, model, call, args, decision)
                      for who, model, call in zip(("baseline", "candidate"), models, calls))
        found = _agreement(what, one.outputs, other.outputs, rtol, atol)
        if not _same_decision(one.decision, other.decision):
            raise ValueError(f"{what}: the decision is {_in_words(one.decision)} in the baseline and "
                             f"{_in_words(other.decision)} in the candidate, although all numbers are within tolerance")
        _same_changes(what, one.changed, other.changed)
        worst += [{**element, "input": number} for element in found]
    return worst

# %%
#| export
def _in_words(decision):
    """Return a decision as a few words."""
    return _short(" ".join(repr(decision.data if isinstance(decision, Tensor) else decision).split()), 40)

# %% [markdown]
"""
The second half times. Both sides get blocks of the same size, long enough for the faster of the two. A round in which the clock saw no time pass at all is dropped and counted. And a result says how small a difference it *could* have seen: "indistinguishable" from a run that could not have seen less than 30 % says little.
"""

# %%
#| export
def _passes(call, cases):
    """Return a function that runs one pass: the call on every case."""
    if len(cases) == 1:
        return partial(call, *cases[0])

    def one_pass():
        for args in cases:
            call(*args)
    return one_pass


def _in_blocks(call, block):
    """Return a function that makes ``block`` calls; for a single one the call itself."""
    def many():
        for _ in range(block):
            call()
    return call if block == 1 else many

# %%
#| export
def _plan(passes, rounds, clock):
    """Warm both up; return (calls in a block, rounds): blocks long enough for the faster side, two seconds in all.

    A handed clock is not calibrated: single calls, and 20 rounds.
    """
    if clock is not None:
        return 1, rounds or 20
    typical = [_warm_up(one_pass, 2)[2] for one_pass in passes]
    block = max(map(block_size, typical))
    fitting = 2_000_000_000 // max(int(2 * block * sum(typical)), 1)
    return block, rounds or max(10, min(100, fitting))

# %%
#| export
def _time_rounds(passes, rounds, block, clock, coin):
    """Return (rounds that count, how many were dropped); a round is (ns of the baseline, of the candidate)."""
    sides, kept = [_in_blocks(one_pass, block) for one_pass in passes], []
    for _ in range(rounds):
        took = timed_round(*sides, clock, coin.random() < 0.5)
        if min(map(min, took)) > 0:
            kept.append(tuple(map(sum, took)))
    return kept, rounds - len(kept)

# %%
#| export
def _judgement(kept, step_ns):
    """Return ratio, interval, resolvable and verdict of the rounds that count; None where they cannot say."""
    if not kept:
        return {"ratio": None, "interval": None, "resolvable": None, "verdict": "indistinguishable"}
    ratio, interval = paired_ratio(kept)
    if interval is None:
        return {"ratio": ratio, "interval": None, "resolvable": None, "verdict": "indistinguishable"}
    low, high = interval
    verdict_of = "faster" if high < 1 else "slower" if low > 1 else "indistinguishable"
    coarse = 1 + step_ns / min(map(min, kept))
    return {"ratio": ratio, "interval": interval, "resolvable": max(high / ratio, ratio / low, coarse),
            "verdict": verdict_of}

# %%
#| export
def _pair_doubts(kept, dropped, traced):
    """Return one sentence for each reason to trust a comparison less."""
    said, ties = [], sum(a == b for a, b in kept)
    if traced:
        said.append("tracemalloc was tracing: small ops are two to four times slower under it; stop tracing to time")
    if dropped:
        said.append(f"below the clock's resolution: in {dropped} round(s) no time passed, or it ran backwards; dropped")
    if len(kept) < 6:
        said.append(f"only {len(kept)} round(s) count; an interval needs 6")
    if 10 * ties > len(kept):
        said.append(f"clock too coarse: {ties} of {len(kept)} rounds are exact ties")
    halves = [paired_ratio(half)[1] for half in (kept[:len(kept) // 2], kept[len(kept) // 2:]) if len(half) >= 6]
    if len(halves) == 2 and (halves[0][1] < halves[1][0] or halves[1][1] < halves[0][0]):
        said.append("the ratio drifted: the first and the second half of the rounds do not agree")
    return said

# %%
#| export
def _allowance(what, value):
    """Return a tolerance as a float, None as None; ``ValueError`` unless it is finite and at least 0."""
    if value is not None and not 0 <= real(what, value) < inf:
        raise ValueError(f"{what} is {value}; want a finite number of at least 0")
    return None if value is None else float(value)


def _agreed(worst):
    """Return worst_difference (None: there are no elements) and outputs_equal, in the words of ``compare``."""
    def share(element):
        return element["abs"] / element["allowed"] if element["abs"] else 0.0

    found = max(worst, key=share, default=None)
    exactly = not any(element["abs"] for element in worst)
    return {"worst_difference": found and {
                "abs": found["abs"], "rel": found["rel"], "allowed": found["allowed"],
                "where": {"input": found["input"], "output": found["name"], "index": found["index"]}},
            "outputs_equal": "exactly" if exactly else "within tolerance"}

# %%
#| export
def _pair_workload(models, cases, **more):
    """Write down what was compared: as ``workload``, with a pair of models and all inputs."""
    given = [value for args in cases for value in args if isinstance(value, Tensor)]
    gradient = "kept where wanted" if thread_state().grad_enabled else "no_grad"
    each = [workload(model, None) for model in models]
    return {**each[1], "model": [one["model"] for one in each], "mode": [one["mode"] for one in each],
            "shapes": [list(x.shape) for x in given], "dtypes": [str(x.dtype) for x in given], "inputs": len(cases),
            "gradient": gradient, **more, "stages": "one pass: a call of the model on every input"}

# %%
#| export
def _timed_pairs(models, calls, cases, clock, rounds, seed):
    """Time both sides and return the timed half of what ``compare`` returns."""
    passes = [_passes(call, cases) for call in calls]
    with untouched([*models, cases]), quiet():
        block, rounds = _plan(passes, rounds, clock)
        read = perf_counter_ns if clock is None else reading(clock)
        kept, dropped = _time_rounds(passes, rounds, block, read, random.Random(seed))
    found = _judgement(kept, 1 if clock is not None else clock_facts().resolution_ns)
    for name, times in zip(("baseline_ms", "candidate_ms"), zip(*kept) if kept else ([0], [0])):
        found[name] = percentile(times, 50) / 2 / block / 1e6
    raw = {"rounds": len(kept), "rounds_ns": [list(one) for one in kept], "dropped": dropped, "block": block}
    return found | raw, kept

# %%
#| export
def compare(baseline, candidate, inputs, rtol=None, atol=None, decision=None, *, clock=None, rounds=None, seed=None):
    """Say whether the candidate is faster: results must agree first, then both are timed in shuffled pairs.

    Both run in the caller's gradient mode, in their own train or eval mode and from the same random state.

    Args:
        baseline: a model, or whatever can be called.
        candidate: another one.
        inputs: a Tensor, or a list of Tensors (boundary cases too) or of tuples of arguments, ``[(x, mask)]``; a pass
            is all of them, one after another.
        rtol: how far results may differ, relative; None for what ``tolerance`` says of their type.
        atol: the same, absolute.
        decision: a function of the output whose results must be equal, such as its argmax.
        clock: reads nanoseconds. With one nothing is calibrated: each side runs once for its result, then four passes a
            round, two reads each.
        rounds: 6 or more, by default what fits into two seconds, 10 to 100.
        seed: of the coins that shuffle.

    Keys:
        ratio: candidate's time / baseline's, median.
        interval: (low, high) of it, 95 %, by the sign test on its logarithm.
        resolvable: a ratio beyond it, or below its inverse, would have been seen.
        verdict: "faster", "slower", or "indistinguishable" when the interval holds 1.
        baseline_ms, candidate_ms: medians, ms of one pass.
        rounds, dropped: how many count, and how many do not.
        rounds_ns, block: each round as [baseline, candidate], the ns of two blocks; passes between two reads.
        worst_difference: the worst element (abs, rel, allowed, where); None if there are no elements.
        outputs_equal: "exactly" or "within tolerance".
        warnings, workload: reasons to trust it less; what was compared.

    Raises:
        ValueError: other shapes, types, values, decisions, or changes to the model's Tensors and arrays (what a closure
            holds is not seen); it shows the worst element. Also: no inputs, under 6 rounds, inside ``shape_only()``.
        TypeError: an output that is no Tensor, such as a generator, which has computed nothing yet; or no function
            where one is wanted.
    """
    if thread_state().shape_only:
        raise ValueError("a shape-only run computes nothing that could be compared; call compare outside of it")
    if decision is not None and not callable(decision):
        raise TypeError(f"decision is {decision!r}; want a function of the output, such as its argmax, or None")
    rtol, atol = _allowance("rtol", rtol), _allowance("atol", atol)
    rounds = None if rounds is None else whole("rounds", rounds, 6)
    seed = random.SystemRandom().getrandbits(32) if seed is None else whole("seed", seed, 0)
    cases, models, traced = _cases(inputs), (baseline, candidate), tracemalloc.is_tracing()
    calls = [_calls_of(model, None)[1].func for model in models]
    agreed = _agreed(_same_results(models, calls, cases, rtol, atol, decision))
    found, kept = _timed_pairs(models, calls, cases, clock, rounds, seed)
    return {**found, **agreed, "warnings": _pair_doubts(kept, found["dropped"], traced),
            "workload": _pair_workload(models, cases, seed=seed, rtol=rtol, atol=atol)}

# %%
#| export
def compare_table(found):
    """Return a comparison as a few lines of at most 80 columns: the ratio, its interval, and ms."""
    low, high = found["interval"] or (None, None)
    ratio = "unknown" if found["ratio"] is None else f"{found['ratio']:.4g}"
    interval = "no interval" if low is None else f"95 % interval {low:.4g} to {high:.4g}"
    most = found["worst_difference"]
    equal = f", at most {most['abs']:.3g} apart ({most['allowed']:.3g} allowed)" if most and most["abs"] else ""
    lines = [f"candidate / baseline {ratio}, {interval}: {found['verdict']}",
             f"baseline {found['baseline_ms']:.4g} ms, candidate {found['candidate_ms']:.4g} ms",
             f"{found['rounds']} rounds of 4 blocks of {found['block']} pass(es), shuffled",
             f"results equal {found['outputs_equal']}{equal}"]
    if found["resolvable"] is not None:
        lines.insert(1, f"a ratio of {found['resolvable']:.4g} would have been seen")
    return "\n".join(lines + _said(found["warnings"]))

# %% [markdown]
"""
### What it says

Three spellings of GELU, `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`. The first is Module 02's. The second takes `x` out of the bracket and squares once: the same function, fewer passes over memory. The third is the popular shortcut `x · sigmoid(1.702 x)`. And the first, against itself. Guess the verdicts before you look: "faster", "slower", "indistinguishable" or "refused"?
"""

# %%
if __name__ == "__main__":
    guess("GELU, fewer passes", None, sure=0.5)
    guess("GELU, the same code", None, sure=0.5)
    guess("GELU, shortcut", None, sure=0.5)

# %%
if __name__ == "__main__":
    def gelu_fewer_passes(x):
        """GELU with x taken out of the bracket: one multiplication less for the cube."""
        squared = x * x
        return x * (0.5 * activations.tanh(x * (0.7978845608 + 0.0356774081 * squared)) + 0.5)


    def gelu_shortcut(x):
        """An approximation of GELU by one sigmoid."""
        return x * activations.sigmoid(1.702 * x)


    hidden = Tensor(np.random.default_rng(0).standard_normal((64, 512)))


    def three_verdicts():
        """Compare two spellings, the same code, and a wrong one."""
        with gradients(False):
            for name, other in (("fewer passes", gelu_fewer_passes), ("the same code", activations.gelu), ("shortcut", gelu_shortcut)):
                try:
                    found = compare(activations.gelu, other, [hidden, Tensor([0.0, -20.0, 20.0])], rounds=20)
                    print(compare_table(found))
                    settle(f"GELU, {name}", found["verdict"])
                except ValueError as refused:
                    say(str(refused))
                    settle(f"GELU, {name}", "refused")
                print()


    bonus(three_verdicts)

# %% [markdown]
"""
If your run found the same code "faster" or "slower": that is the one time in twenty (two in forty) which a 95 % interval owes you. Run the cell again; a true difference comes back, a false alarm does not. It is why one comparison out of many proves little, and why a difference that you hope for deserves a second run.

The shortcut may well be the fastest of the three, and for a network that was *trained* with it, it would be right. For this network it is another function: whoever replaces the one by the other must say so, by a tolerance that can be defended or by a `decision` that must stay the same (`decision=lambda out: out.data.argmax(-1)`).

**What if** you let it pass, with `atol=0.03`? And what does `compare` say of a model in train mode with dropout, or with running statistics that only one of the two updates?

**For a real model.** Write both numbers down: the ratio with its interval, and the difference that the run could have seen. "No measurable change" from a run that could not have seen less than 30 % is no result. Nor is "3 % faster" when the interval holds 1.

## 9. Open the bet

*35 minutes · 8 points*

**Question.** In section 0 you bet on three layers. Which takes longest, and which holds most?
"""

# %%
if __name__ == "__main__":
    sentence = Tensor(np.random.default_rng(0).standard_normal((1, 64, 512)))
    opened = {name: profile_forward_pass(layer, sentence, iterations=12) for name, layer in contestants.items()}
    for name, found in opened.items():
        print(f"{name:>9}: {found['latency_ms']:7.3f} ms, {found['flops']:>12,} FLOPs, peak {found['peak_memory_mb']:6.2f} MB, limited by {found['limited_by']}")
        tell_doubts(name, found["latency"])
    settle("slowest of linear, attention, relu", max(opened, key=lambda name: opened[name]["latency_ms"]))
    settle("holds most of linear, attention, relu", max(opened, key=lambda name: opened[name]["peak_memory_mb"]))
    settle("attention takes how many times as long as one linear", round(opened["attention"]["latency_ms"] / opened["linear"]["latency_ms"], 1))
    print(f"by FLOPs it would be {opened['attention']['flops'] / opened['linear']['flops']:.1f} times")

# %% [markdown]
"""
Now something larger in which all three occur: a transformer block.
"""

# %%
if __name__ == "__main__":
    class TinyBlock(Layer):
        """Attention and a feed-forward network, each with a way around it."""

        def __init__(self, width):
            self.attention, self.relu = SelfAttention(width, 4), ReLU()
            self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(x)
            return x + self.down(self.relu(self.up(x)))


    block, tokens = TinyBlock(64), Tensor(np.random.default_rng(0).standard_normal((4, 128, 64)))


    @lru_cache(maxsize=1)
    def profile_of_block():
        """Profile the block once; the cells below share what was found."""
        return profile_forward_pass(block, tokens)


    print(layer_table(profile_of_block()))

# %% [markdown]
"""
**Why "unexplained"?** A row that says so took more than twice what the model explains. The model adds up *all* FLOPs and *all* bytes of a layer and takes the larger bill, products at the rate of their size and the rest at the best rates this machine ever showed. Two things are too simple about that, and both can be measured: the ops run one after another, so each pays its own larger bill; and the ops
listed below do not reach the rates of a large product or a long addition: compare each line with your machine's peak and bandwidth in section 6. A third is no fault of the model: where the median lies far above the best run, the machine had other work.
"""

# %%
if __name__ == "__main__":
    def model_ms(events):
        """Milliseconds that ops, FLOPs and bytes explain when these events are taken as one piece of work."""
        floors = time_floors(work_of(events), here)
        return floors["overhead"] + max(floors["compute"], floors["memory"])


    with gradients(False):
        passes = [observe(lambda: block.attention(tokens))[0] for _ in range(9)]
    timed = latency_statistics(block.attention, tokens, 3, 15)
    print(f"attention: as one piece {model_ms(passes[0]):.3f} ms, op by op {sum(model_ms([event]) for event in passes[0]):.3f} ms; measured {timed['median']:.3f} ms, at best {timed['min']:.3f} ms")
    tell_doubts("attention", timed)
    took_ms = [min(event.end_ns - event.start_ns for event in same_op) / 1e6 for same_op in zip(*passes)]
    print(f"the ops alone, the best of nine passes each: {sum(took_ms):.3f} ms; where they lose most:")
    for ms, event in sorted(zip(took_ms, passes[0]), key=lambda row: model_ms([row[1]]) - row[0])[:5]:
        rate = f"{event_flops(event) / ms / 1e6:6.2f} GFLOP/s, {event.num_bytes / ms / 1e6:6.2f} GB/s"
        print(f"{event.op.name:>10} {' '.join(map(str, event.in_shapes)):<34} {ms:.3f} ms, model {model_ms([event]):.3f} ms: {rate}")

# %% [markdown]
"""
**Three different answers.** Time, FLOPs and bytes of one model, each layer's own part of each. In the picture the bars are aligned and a ribbon joins the same layer from bar to bar: where it widens or narrows, the three answers differ:
"""

# %%
if __name__ == "__main__":
    def own(rows, key):
        """Each layer's own part of a quantity: its total without the layers directly inside it."""
        inside = [sum(other[key] for j, other in enumerate(rows[i + 1:], i + 1) if other["depth"] == row["depth"] + 1
                      and all(between["depth"] > row["depth"] for between in rows[i + 1:j])) for i, row in enumerate(rows)]
        return [row[key] - within for row, within in zip(rows, inside)]


    rows = profile_of_block()["layers"]
    shares = [[value / sum(values) for value in values] for values in ([row["self_ms"] for row in rows], own(rows, "flops"), own(rows, "bytes"))]
    print(f"{'own part of':<24}  time FLOPs bytes")
    for row, *parts_of in zip(rows, *shares):
        print(f"{'  ' * row['depth'] + row['name']:<24}" + "".join(f"{part:>6.0%}" for part in parts_of))
    show(pictures.layer_ribbons, rows, profile_of_block()["latency"]["workload"])

# %% [markdown]
"""
**Amdahl first.** Before you spend a week on attention: what would *twice as fast* buy? And what does a bigger batch buy? Given: `profile_batch_sizes`.
"""

# %%
#| export
def _batch_sizes(sizes):
    """Return the batch sizes as a list of ints, in the order given; one number is a list of one."""
    sizes = list(sizes) if isinstance(sizes, (tuple, list, range, np.ndarray)) else [sizes]
    if not sizes:
        raise ValueError("no batch sizes came; want at least one, like (1, 8, 32, 64)")
    return [whole("a batch size", size, 1) for size in sizes]


def _shape_with_batch(input_shape):
    """Return ``input_shape`` as a tuple of sizes; ``ValueError`` for one axis, which has no batch."""
    shape = sizes("input_shape", input_shape)
    if len(shape) < 2:
        raise ValueError(f"input_shape is {shape}: one axis has no batch; want two or more, the batch first: (1, 64)")
    return shape

# %%
#| export
def profile_batch_sizes(model, input_shape, sizes=(1, 8, 32, 64), *, clock=None):
    """Return a dict per batch size, in the order given, of passes without gradients on made inputs.

    The first axis of ``input_shape`` is the batch and is replaced by each of ``sizes``.

    Keys:
        batch: samples in a pass.
        latency_ms: median ms of a pass.
        throughput: samples a second; 0.0 where the clock could not see the pass, which warnings then say.
        parameter_memory_mb, input_mb, output_mb, peak_memory_mb: MB (1024² bytes).
        warnings, workload: reasons to trust it less; what was run.

    Raises:
        TypeError: a size that is no integer.
        ValueError: a shape of one axis, which has no batch; no sizes, or one below 1.
    """
    rows, wanted = [], _batch_sizes(sizes)
    shape = _shape_with_batch(input_shape)
    for size in wanted:
        x = make_input(model, (size, *shape[1:]))
        with gradients(False):
            memory = memory_of(model, x)
        found = time_forward(model, x, clock)
        ms = found["median"]
        rows.append({"batch": size, "latency_ms": ms, "throughput": size / ms * 1e3 if ms > 0 else 0.0,
                     **{key: memory[key] for key in ("parameter_memory_mb", "input_mb", "output_mb", "peak_memory_mb")},
                     "warnings": found["warnings"], "workload": found["workload"]})
    return rows

# %%
if __name__ == "__main__":
    rows = profile_of_block()["layers"]
    share = sum(row["self_ms"] for row in rows if row["name"].startswith("attention")) / sum(row["self_ms"] for row in rows)
    print(f"attention takes {share:.0%}: twice as fast makes the whole {amdahl_speedup(share, 2):.2f}x, infinitely fast {amdahl_speedup(share, inf):.2f}x\n")
    before, by_batch = None, profile_batch_sizes(digits, (1, 64), (1, 8, 64, 512, 4096))
    for row in by_batch:
        gained = "" if before is None else f"   throughput x {row['throughput'] / before:.1f}"
        print(f"batch {row['batch']:4d} {row['latency_ms']:8.4f} ms {row['throughput']:12,.0f} samples/s {row['peak_memory_mb']:7.3f} MB{gained}")
        tell_doubts(f"batch {row['batch']}", row)
        before = row["throughput"]
    show(pictures.batch_curve, by_batch, {"model": "digits network, 64-32-10", **environment()})

# %% [markdown]
"""
Each step makes the batch eight times as large. Where throughput grows nearly as much, the batch was only sharing the dispatch; where it hardly grows, the sharing is over, and every sample just waits longer. A service measured 5, 12, 35 and 65 ms at batch 1, 8, 32, 64:
"""

# %%
if __name__ == "__main__":
    waits = {1: 5, 8: 12, 32: 35, 64: 65}
    print({n: round(1000 * n / ms) for n, ms in waits.items()}, "samples a second")
    more, later = 64 / waits[64] / (32 / waits[32]) - 1, waits[64] / waits[32] - 1
    print(f"from 32 to 64: throughput {more:+.0%}, latency {later:+.0%}")

# %% [markdown]
"""
### Something you have not seen

Everything so far was shown before it was asked. Now an op that is new. `pairwise_distance(a, b)` takes `a` of shape (n, d) and `b` of shape (m, d), and gives the squared distance of every row of `a` to every row of `b`: (n, m). It is what k-nearest-neighbours spends its life on.
"""

# %%
if __name__ == "__main__":
    def distance_shape(a, b):
        """(n, d), (m, d) -> (n, m)."""
        if len(a) != 2 or len(b) != 2 or a[1] != b[1]:
            raise ValueError(f"{a} and {b}: want (n, d) and (m, d)")
        return a[0], b[0]


    @ops.op(shape=distance_shape)
    def pairwise_distance(a, b):
        """Squared distances of all rows of a to all rows of b."""
        out = np.zeros((len(a), len(b)), a.dtype)
        for k in range(a.shape[1]):
            out += (a[:, k, None] - b[None, :, k]) ** 2
        return out


    def composed_distance(a, b):
        """The same from ops you know: (n, 1, d) - (1, m, d), squared, summed."""
        difference = a.reshape(a.shape[0], 1, a.shape[1]) - b.reshape(1, b.shape[0], b.shape[1])
        return (difference * difference).sum(axis=2)


    a, b = Tensor(np.arange(6.0).reshape(3, 2)), Tensor(np.ones((2, 2)))
    print(pairwise_distance(a, b).data.tolist(), composed_distance(a, b).data.tolist())
    print("without a rule:", work_of(observe(lambda: pairwise_distance(a, b))[0]).uncounted)

# %% [markdown]
"""
**Task.** Write its cost rule. By our conventions a subtraction, a multiplication and an addition into the sum each cost 1. Nothing here is a contraction (`a @ b` does not occur). The rule gets shapes only: `out` is (n, m), `a` is (n, d), `b` is (m, d).
Your rule must agree with what the *composed* version counts.

<details><summary>Hint 1: idea</summary>
How often does the innermost subtraction happen?
</details>
<details><summary>Hint 2: approach</summary>
Three times that, for there are three operations for each triple (row of a, row of b, column).
</details>
<details><summary>Hint 3: worked example, another op</summary>
The sum of |a - b| over d for all pairs with its absolute value free would cost 2·n·m·d: for n = 2, m = 3, d = 5 that is 60.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "distance-cost", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    @flops(pairwise_distance)
    def pairwise_distance_cost(out, a, b):
        """Count 1 for each subtraction, multiplication and addition: shapes (n, m), (n, d), (m, d) -> FLOPs."""
        raise NotImplementedError("pairwise_distance_cost: section 9, cell 10")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-distance-cost", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "transfer"}
if __name__ == "__main__":
    def test_distance_cost():
        """Closed form against the composed version, three shapes."""
        check("3 and 2 rows of 2", pairwise_distance_cost((3, 2), (3, 2), (2, 2)), 36, {12: "one FLOP for each triple; there are three operations", 24: "the additions of the sum are missing", 18: "the output's size times three: the columns are missing", 54: "the columns are the last axis of a, not its first", 30: "one addition less for each sum; by convention a reduction costs 1 per input element"})
        check("5 and 7 rows of 11", pairwise_distance_cost((5, 7), (5, 11), (7, 11)), 1_155, {1_120: "one addition less for each sum: by convention a reduction costs 1 per input element", 735: "the columns are missing"})
        both = []
        for n, m, d in ((4, 3, 2), (10, 20, 30), (1, 1, 1)):
            left, right = Tensor(np.ones((n, d))), Tensor(np.ones((m, d)))
            composed = work_of(observe(lambda left=left, right=right: composed_distance(left, right))[0])
            own_rule = work_of(observe(lambda left=left, right=right: pairwise_distance(left, right))[0])
            both.append((own_rule.flops, composed.flops))
        check("by the rule and composed: 4, 3, 2; 10, 20, 30; 1, 1, 1", both, [(72, 72), (18_000, 18_000), (3, 3)])
        check("nothing is uncounted any more", own_rule.uncounted, ())


    test_distance_cost()

# %% [markdown]
"""
**Task.** Predict, before anything is measured. Write `predict_distance(n, m, d, limits)`: `(flops, bytes_moved, regime)` of the op in float32. It reads both inputs and writes the output, once each; `regime` is what `roofline` says.

<details><summary>Hint 1: idea</summary>
Three arrays move; you know the work from the rule you just wrote.
</details>
<details><summary>Hint 2: approach</summary>
Count elements of (n, d), (m, d) and (n, m); a float32 has 4 bytes.
</details>
<details><summary>Hint 3: worked example, another op</summary>
Adding two (5, 6) arrays moves 3 · 30 · 4 = 360 bytes for 30 FLOPs: a twelfth of a FLOP per byte.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "predict-distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    def predict_distance(n, m, d, limits):
        """Return (flops, bytes_moved, regime) of pairwise_distance on float32 (n, d) and (m, d)."""
        raise NotImplementedError("predict_distance: section 9, cell 12")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-predict-distance", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "transfer"}
if __name__ == "__main__":
    def test_predict_distance():
        """Work, traffic and a verdict that follows from both and from the machine."""
        laptop, slow_memory = MachineLimits(100, 20, 2), MachineLimits(100, 2, 2)
        check("300 to 200 rows of 64", predict_distance(300, 200, 64, laptop), (11_520_000, 368_000, "compute"), {(11_520_000, 92_000, "compute"): "elements, not bytes", (11_520_000, 128_000, "compute"): "the output is written, too",
            (3_840_000, 368_000, "compute"): "one FLOP for each triple; there are three operations", (11_520_000, 736_000, "compute"): "a float32 has 4 bytes, not 8",
            (11_520_000, 30_960_000, "memory"): "each input is read once, not once for each pair"})
        check("the same where memory is slow", predict_distance(300, 200, 64, slow_memory)[2], "memory", {"compute": "the verdict must move when the machine does"})
        check("rows of 2", predict_distance(300, 200, 2, laptop)[2], "memory", {"compute": "few columns: little to compute for each distance that is written"})
        event = observe(lambda: pairwise_distance(Tensor(np.ones((30, 8))), Tensor(np.ones((20, 8)))))[0][0]
        check("what you say moves, and what the door saw", (predict_distance(30, 20, 8, laptop)[1], event.num_bytes), (4000, 4000), {(8000, 4000): "a float32 has 4 bytes, not 8", (1000, 4000): "elements, not bytes"})


    test_predict_distance()

# %% [markdown]
"""
Now measure. Guess first: by what will the verdict find the one op limited: "overhead", "compute", "memory", "mixed" or "unexplained"?
"""

# %%
if __name__ == "__main__":
    guess("pairwise_distance as one op is limited by", None, sure=0.5)

# %%
if __name__ == "__main__":
    rows_a, rows_b = np.random.default_rng(0).standard_normal((2, 250, 64))
    rows_a, rows_b = Tensor(rows_a), Tensor(rows_b)
    for name, function in (("one op", pairwise_distance), ("composed", composed_distance)):
        did = work_of(observe(lambda function=function: function(rows_a, rows_b))[0])
        took = measure_latency(lambda x, function=function: function(x, rows_b), rows_a, 2, 8)
        found = verdict(did, took, here)
        if name == "one op":
            settle("pairwise_distance as one op is limited by", found["limited_by"])
        print(f"{name:>8}: {did.flops:,} FLOPs, {did.bytes_moved / 1024**2:6.1f} MB, {took:6.2f} ms: nearer roof {found['bottleneck']}, limited by {found['limited_by']}")
    say(found["advice"])

# %% [markdown]
"""
The one op *should* be compute-bound: what goes in and comes out is small. If it came out "unexplained", the reason is that inside it NumPy makes several passes over an (n, m) array for each column, traffic that our door cannot see. The prediction describes the op as it *could* be written. The distance between the two is what Module 18 is about.

### Your calibration

Every guess of this notebook was logged with how sure you were. A guess counts as right when it is the truth or within a tenth of it. Someone well calibrated is right in 60 % of the cases where she was 60 % sure; the two columns would then agree. (A dozen guesses prove little; keep the habit.)
"""

# %%
if __name__ == "__main__":
    def was_right(bet):
        """A word must be the same; a number may be a tenth off."""
        said, truth = bet["answer"], bet["truth"]
        return said == truth if isinstance(said, str) or isinstance(truth, str) else abs(said - truth) <= 0.1 * abs(truth)


    closed = [bet for bet in bets.values() if bet["answer"] is not None and bet["truth"] is not None]
    for low, high in ((0.5, 0.6), (0.6, 0.75), (0.75, 0.9), (0.9, 1.01)):
        group = [bet for bet in closed if low <= bet["sure"] < high]
        if group:
            sure, right = fmean(bet["sure"] for bet in group), fmean(was_right(bet) for bet in group)
            print(f"sure {sure:4.0%} {bar(sure, 1, 24):<24}   right {right:4.0%} {bar(right, 1, 24):<24} ({len(group)} guesses)")
    if closed:
        print(f"on average you were {fmean(bet['sure'] for bet in closed):.0%} sure and {fmean(was_right(bet) for bet in closed):.0%} right; "
              f"{len(closed)} guesses prove little, so keep the habit")
    else:
        print("nothing was guessed: write your answers into the cells that begin with guess(...) and run again")

# %% [markdown]
"""
## What it means for a real model

*15 minutes · no points*

**Twelve questions** that come up whenever somebody measures a model. Answer each in a sentence before you open it. The figures in the answers come from this cell:
"""

# %%
if __name__ == "__main__":
    gpu = MachineLimits(peak_gflops=312_000, bandwidth_gbs=1_555, dispatch_us=5)
    step = 3 * gpt_flops(1024, 768, 12, 12, 50_257) * 8  # folklore's forward + backward of GPT-2 small, 1,024 tokens, batch 8
    print(f" 1  a step of {step / 1e12:.2f} TFLOP in 60 ms on 312 TFLOP/s: {step / 0.060 / 1e12:.0f} TFLOP/s, MFU {step / 0.060 / 312e12:.0%}")
    print(f" 2  12 layers keep 10 arrays each: {12 * 10}; a checkpoint each, and one layer open: {12 * 1 + 10}; FLOPs {4 / 3:.2f}x")
    print(f" 3  samples for p50, p95, p99: {least_samples(50)}, {least_samples(95)}, {least_samples(99)}")
    print(f" 4  ridge of that GPU: {roofline(1, 1, gpu)['ridge_point']:.0f} FLOPs per byte; an add does {1 / 12:.2f}, a 4,096 product {2 * 4096**3 / (12 * 4096**2):.0f}")
    print(f" 5  70 % of the time twice as fast: {amdahl_speedup(0.7, 2):.3f}x; infinitely fast: {amdahl_speedup(0.7, inf):.2f}x")
    relu = roofline(10**9, 8 * 10**9, MachineLimits(100_000, 900, 5))
    print(f" 6  ReLU on 10⁹ floats at 900 GB/s and 100 TFLOP/s: {relu['memory_ms']:.2f} ms to move, {relu['compute_ms']:.2f} ms to compute")
    print(f" 7  mean and median of 5.1, 5.2, 5.0, 5.3, 50.0: {fmean(five):.2f} and {percentile(five, 50)}")
    alone_us = min(watched["plain"], watched["plain again"])
    print(f" 8  a small model took {alone_us:.1f} µs alone, {watched['listened to'] / alone_us:.2f}x listened to, {watched['memory traced'] / alone_us:.2f}x traced; two clock reads {clock_facts().overhead_ns / 1e3:.2f} µs")
    print(f" 9  batch 32 to 64 above: {more:+.0%} throughput, {later:+.0%} latency")
    network = linear_flops((1, 64), 32) + linear_flops((1, 32), 10)
    print(f"10  a 64-32-10 network on one sample: {network / gpu.peak_gflops / 1e6 * 1e9:.0f} ps of arithmetic there, {3 * gpu.dispatch_us:.0f} µs of launches")
    envelope = training_categories(496, 496, OPTIMIZER_ARRAYS["adam"], 200, 0, 0)
    print(f"11  GPT-2 small, Adam: {' + '.join(str(n) for n in list(envelope.values())[:4])} = {envelope['total_bytes']:,} MB, {envelope['total_bytes'] / 496:.2f}x its parameters")
    wide = 2 * linear_flops((32, 512, 768), 3072)
    print(f"12  two feed-forward products of {wide:,} FLOPs on 312 TFLOP/s: {wide / 312e12 * 1e3:.3f} ms at the very least")

# %% [markdown]
"""
<details><summary>1. What is MFU, and why not just report FLOP/s?</summary>
Model FLOPs utilization: the FLOPs that the model <em>needs</em>, per second, over the machine's peak. It compares across machines, and recomputation does not flatter it. Line 1 is one such figure.
</details>
<details><summary>2. What does activation checkpointing trade?</summary>
Memory for time. Only some activations are kept; the others are computed again during backward. One extra forward pass, so about 4/3 of the FLOPs, for a fraction of the memory (line 2).
</details>
<details><summary>3. Why is "p99 of 100 samples" not a p99?</summary>
It is nearly the maximum. A two-sided 95 % interval for p99 exists only from the number in line 3 on.
</details>
<details><summary>4. How do you tell a compute-bound from a memory-bound kernel?</summary>
By its intensity against the machine's ridge point (line 4), never by its name and never by how much memory it uses; then check that the measured time lies near the roof you named.
</details>
<details><summary>5. What does Amdahl's law forbid?</summary>
A large gain from a small part. Even an infinitely fast 70 % leaves 30 % standing. Line 5 says what it buys, and what "twice as fast" does.
</details>
<details><summary>6. Why does a faster processor not speed up ReLU?</summary>
It waits for bytes: line 6. Only fewer bytes help: fuse it with its neighbour, or use a smaller data type.
</details>
<details><summary>7. Why median, warmup and no garbage collector, all at once?</summary>
Each removes something that is not the model's: stray slow calls, first-call work, the collector's pauses. What is removed must be reported beside it (first call, outliers, p95).
</details>
<details><summary>8. What does measuring itself cost?</summary>
Reading a clock little, listening to every op more, tracing memory most of all, where ops are small (line 8). Therefore one instrument at a time.
</details>
<details><summary>9. Why does throughput stop growing with the batch?</summary>
The overhead is shared already, and the work per sample stays. From there on a larger batch buys latency (line 9).
</details>
<details><summary>10. When is a CPU faster than a GPU?</summary>
When launching costs more than computing: small models, batch 1 (line 10). The crossover lies where compute time on the CPU exceeds launch and transfer time of the GPU.
</details>
<details><summary>11. Parameters or activations: which fills the memory?</summary>
In inference with small batches the parameters. In training both, with gradients and optimizer state (line 11); activations grow with batch and length, the rest does not.
</details>
<details><summary>12. Why do equal FLOPs not mean equal latency?</summary>
FLOPs give only a floor (line 12). Bytes, dispatch, shapes that use the cores badly, and transcendental functions all sit on top. Fewer FLOPs can be slower.
</details>

**Where you stand.** You can say of any model where its parameters, FLOPs, bytes and milliseconds go, on which machine, how surely, and what to try first. Ten per cent of a ten-million-dollar run is a million; that is what a profiler is for.

`tito test profiling` checks the module; once all of it passes, `tito module complete profiling` puts what you wrote into the package, and later modules run on your code. See a model layer by layer with `tito profile`. Next come the modules that make it smaller and faster; each will be judged with *your* instrument.
"""
