# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "18_acceleration", "release": "e881a8132ba75dbf"}
# ---

# %% [markdown]
"""
# 18 · Acceleration

Tier: Optimization · Difficulty 3 of 4 · About 3 hours · Needs 14 (`tito test profiling`), whose Profiler measures everything here; 01 to 05 (`tito test tensor`, `tito test activations`, `tito test layers`, `tito test losses`, `tito test autograd`); and 15 for one function,
`replace_layers` (`tito test quantization`). It optimizes layers of 13 (`tito test transformers`).

Quantization, pruning and caching change *what* is computed. This module changes nothing of that: the same numbers come out, the same FLOPs are done, and yet it takes a fraction of the time. What changes is the way through memory.

**Build** a product in four spellings, a cache in eight lines, tiles, GELU in one pass over memory, a chain of two layers in one op, and `fuse`, which rebuilds a model with them → **use** them on a network that reads digits → **reflect** on why fewer bytes do not mean so many times as fast.

When you are done you can
1. find in a profile what is worth accelerating, and what is not although it does all the arithmetic;
2. say why one product beats three loops by so much, step by step, each step measured;
3. count what a cache has to fetch, predict it by a formula, and say what tiles are for;
4. fuse a chain of ops into one, with its gradient, and prove that nothing else changed;
5. predict from bytes what fusing will gain, and explain from the measurement what the prediction missed.

Yours: the spellings of the product, the cache, the traffic of tiles, the tiled product, the pieces, GELU in place, its slope, Linear and GELU in one op, the pairs to fuse. Given and explained: prices and gradient rules, the ops around your loops, `fuse` itself.

A cell you have not filled says which one it is: `gelu_into: section 5, cell 1` is the function `gelu_into` in the first code cell of section 5.
"""

# %%
#| default_exp perf.acceleration

# %%
if __name__ == "__main__":
    from tito.needs import needs_profiler

    needs_profiler()

# %%
#| export
from copy import copy
from functools import cache
from math import ceil, pi, prod, sqrt

import numpy as np

from tinytorch.core.activations import GELU, Scoped, tanh
from tinytorch.core.autograd import linear_vjp, vjp
from tinytorch.core.layers import Layer, Linear, Sequential, linear, linear_shape, positive
from tinytorch.core.tensor import floating, in_floats, matmul_shape, op, same_shape
from tinytorch.core.transformers import MLP
from tinytorch.perf.profiling import INSIDE, TRANSCENDENTALS, Inside, flops, linear_cost, matmul_cost, per_output
from tinytorch.perf.quantization import replace_layers

# %% [markdown]
"""
## 1. Profile first

**Question.** Here is a network for the handwritten digits, trained for about a second: three linear layers, and GELU after two of them. It is too slow. Where would you begin?

**Guess** before you run: which of the five layers takes longest on 1,442 images, and what share of the FLOPs does it do?
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.activations import gelu
    from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
    from tinytorch.core.losses import CrossEntropyLoss
    from tinytorch.core.optimizers import Adam
    from tinytorch.core.tensor import Tensor
    from tinytorch.core.training import Trainer
    from tinytorch.perf.profiling import Profiler, amdahl_speedup, compare_table, layer_table

    my_guess = (None, None)
    images, labels = load_digits("train")
    unseen, answers = load_digits("test")
    rng = np.random.default_rng(0)
    reader = Sequential(Linear(64, 256, rng=rng), GELU(), Linear(256, 256, rng=rng), GELU(), Linear(256, 10, rng=rng))
    trainer = Trainer(reader, Adam(reader.parameters(), lr=1e-3), CrossEntropyLoss())
    trainer.fit(DataLoader(TensorDataset(images, labels), 64, shuffle=True, seed=0), 6)
    reader.eval()
    profiler = Profiler()
    before = profiler.profile_forward_pass(reader, Tensor(images))
    print(layer_table(before))
    in_gelu = [row for row in before["layers"] if row["type"] == "GELU"]
    gelu_share = sum(row["share"] for row in in_gelu)
    print(f"\nboth GELUs: {gelu_share:.0%} of the time, {sum(row['flops'] for row in in_gelu) / before['flops']:.1%} of the FLOPs, {sum(row['bytes'] for row in in_gelu) / sum(row['bytes'] for row in before['layers'][1:]):.0%} of the bytes; your guess: {my_guess}")
    print(f"right on {len(answers)} unseen digits: {(reader(Tensor(unseen)).argmax(axis=-1) == Tensor(answers)).sum().item()}")

# %% [markdown]
"""
(If something else keeps your machine busy while you run this, times and shares here and below swing, and intervals grow wide: run the cell again. Bytes and FLOPs stay.)

The layer without a single parameter, which does hardly any of the arithmetic, takes most of the time. The linear layers do all the FLOPs and are done soon. So there are two questions, and the second is worth more than it looks:

- Why are the linear layers *so fast*? If we knew, we could do the same for the others (sections 2 and 3).
- Why is GELU so slow, and can it be helped (from section 4)?

How much is to be gained in all? Amdahl's law, before any work is done:
"""

# %%
if __name__ == "__main__":
    for times in (2, 4, float("inf")):
        print(f"GELU {times} times as fast: the model {amdahl_speedup(gelu_share, times):.2f} times as fast")

# %% [markdown]
"""
## 2. Three loops, two, one, none

**Question.** A matrix product is three nested loops. Written that way in Python it is slow; everybody knows that. But how slow, and which of the loops costs what?

```
c[i, j] = Σ over p of  a[i, p] · b[p, j]            a (m, k), b (k, n) -> c (m, n)
```

**Task.** Write it three times. NumPy is to take over one loop more each time:

| function | loops in Python | what NumPy does at once |
|---|---|---|
| `by_loops(a, b)` | i, j and p | nothing: one number times one number |
| `by_dots(a, b)` | i and j | the sum over p: `a[i] @ b[:, j]`, one number |
| `by_rows(a, b)` | i | a whole row of c: `a[i] @ b` |

Each takes two arrays, `(m, k)` and `(k, n)`, and returns a new array `(m, n)`. With no loop left it is `a @ b`, and you need not write that.

Example: `[[1, 2]]` and `[[3, 4], [5, 6]]` give `[[13, 16]]`: 1 · 3 + 2 · 5 and 1 · 4 + 2 · 6.

<details><summary>Hint 1: idea</summary>
Make an array of zeros first, and fill in one number, or one row, at a time.
</details>
<details><summary>Hint 2: approach</summary>
<code>c = np.zeros((m, n), a.dtype)</code> with <code>m, k = a.shape</code> and <code>n = b.shape[1]</code>. In the innermost loop <code>c[i, j] += a[i, p] * b[p, j]</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
The sum of each row, by loops: <code>for i in range(m): for p in range(k): s[i] += a[i, p]</code>; with one loop less: <code>for i in range(m): s[i] = a[i].sum()</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "by-loops", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    def by_loops(a, b):
        """Multiply matrices, (m, k) and (k, n) -> (m, n), one number at a time."""
        raise NotImplementedError("by_loops: section 2, cell 1")


    def by_dots(a, b):
        """Multiply matrices, (m, k) and (k, n) -> (m, n), a row times a column at a time."""
        raise NotImplementedError("by_dots: section 2, cell 1")


    def by_rows(a, b):
        """Multiply matrices, (m, k) and (k, n) -> (m, n), a row times a matrix at a time."""
        raise NotImplementedError("by_rows: section 2, cell 1")

# %%
if __name__ == "__main__":
    a, b = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])
    print([how(a, b).tolist() for how in (by_loops, by_dots, by_rows)])

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-by-loops", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "loops"}
if __name__ == "__main__":
    from tito.checks import check


    class Counted(np.ndarray):
        """An array that counts the products asked of NumPy, and notes the largest."""

        products, largest = 0, 0

        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
            plain = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in inputs]
            if out is not None:
                kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, Counted) else x for x in out)
            many = ufunc.__name__ == "multiply" and max(np.size(x) for x in plain) > 1
            if many or ufunc.__name__ in ("matmul", "vecdot", "matvec", "vecmat"):
                Counted.note(*plain)
            found = getattr(ufunc, method)(*plain, **kwargs)
            return found if out is None else out[0]

        def __array_function__(self, function, types, args, kwargs):
            if function in (np.dot, np.inner, np.vdot):
                return self.dot(args[1], args[0])
            if function in (np.einsum, np.tensordot):
                Counted.note(*(x for x in args if isinstance(x, np.ndarray)))
            return super().__array_function__(function, types, args, kwargs)

        def dot(self, other, first=None):
            plain = [np.asarray(self if first is None else first).view(np.ndarray), np.asarray(other).view(np.ndarray)]
            Counted.note(*plain)
            return plain[0].dot(plain[1])

        @staticmethod
        def note(*arrays):
            Counted.products += 1
            Counted.largest = max(Counted.largest, *(x.size for x in arrays))


    def products_of(function, *arrays, **how):
        """Return how many products a call asks of NumPy, and how many numbers the largest of their inputs has."""
        Counted.products = Counted.largest = 0
        function(*(np.asarray(x).view(Counted) for x in arrays), **how)
        return Counted.products, Counted.largest


    def test_by_loops():
        """Values, sizes, and who does the work."""
        a, b = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[1.0, 0, 2, 0], [0, 1, 0, 2], [1, 1, 3, 3]])
        for how in (by_loops, by_dots, by_rows):
            kept = a.copy(), b.copy()
            check(how.__name__, np.asarray(how(a, b)), [[4, 5, 11, 13], [10, 11, 26, 28]], {
                ((3, 3, 9, 9), (6, 6, 18, 18)): "only the last p is left: add to what is there",
                ((1, 0, 2, 0), (4, 0, 8, 0)): "only the first p: the return stands inside a loop"})
            check(f"{how.__name__} leaves its inputs as they were", bool(np.array_equal(a, kept[0]) and np.array_equal(b, kept[1])), True)
            check(f"{how.__name__}: one row, five columns", np.shape(how(np.ones((1, 2)), np.ones((2, 5)))), (1, 5))
            check(f"{how.__name__}: float32 stays", np.asarray(how(a.astype(np.float32), b.astype(np.float32))).dtype.name, "float32", {
                "float64": "np.zeros makes float64 unless it is told otherwise: hand it a.dtype"})
        check("by_loops asks NumPy for products", products_of(by_loops, a, b)[0], 0, {8: "that is by_dots: multiply numbers, not rows", 2: "that is by_rows", 1: "that is the whole product at once"})
        check("by_dots: one for each of 2 x 4 numbers", products_of(by_dots, a, b)[0], 8, {0: "no product of a row and a column: a[i] @ b[:, j]", 2: "that is by_rows", 1: "that is the whole product at once"})
        check("by_rows: one for each of 2 rows", products_of(by_rows, a, b)[0], 2, {0: "no product of a row and a matrix: a[i] @ b", 8: "that is by_dots", 1: "that is the whole product at once"})


    test_by_loops()

# %% [markdown]
"""
Now measure each step. A function becomes an op, so that it passes the door and the Profiler sees it: `op(shape=matmul_shape)(by_loops)`. It gets the price of a product, 2 FLOPs per multiply-add (the same for all: it is the same product), and the traffic that its loops ask for: for each multiply-add two numbers, unless something is kept.
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import matmul


    class Product(Layer):
        """x (m, k) times a fixed matrix (k, n), by whatever way it is handed."""

        def __init__(self, way, matrix):
            self.way, self.matrix = way, matrix

        def forward(self, x):
            return self.way(x, self.matrix)


    asked = {by_loops: lambda m, k, n: 2 * m * n * k, by_dots: lambda m, k, n: 2 * m * n * k, by_rows: lambda m, k, n: m * (k + k * n)}
    ways = []
    for function, numbers in asked.items():
        ways.append(op(shape=matmul_shape)(function))
        flops(ways[-1], contraction=True)(matmul_cost)
        INSIDE[ways[-1]] = lambda out, a, b, numbers=numbers: Inside(numbers(a[0], a[1], b[1]) - prod(a) - prod(b))
    ways.append(matmul)

    n = 24
    x, y = (Tensor(rng.standard_normal((n, n))) for _ in range(2))
    print(f"{n} x {n}, {2 * n**3:,} FLOPs each, peak of this machine {profiler.machine_limits().peak_gflops:.0f} GFLOP/s")
    print("                  ms     GFLOP/s   of peak   bytes asked for   FLOPs per byte")
    for way in ways:
        found = profiler.profile_forward_pass(Product(way, y), x, iterations=3)
        moved = found["layers"][0]["bytes"]
        print(f"{way.name:10} {found['latency_ms']:10.4f} {found['gflops_per_second']:11.4f} {found['computational_efficiency']:9.3%} {moved:17,} {found['flops'] / moved:16.2f}")
    for slow, fast in zip(ways, ways[1:]):
        told = profiler.compare(Product(slow, y), Product(fast, y), x, rtol=1e-4, atol=1e-4, rounds=6)
        print(f"{slow.name:>8} -> {fast.name:8} {1 / told['ratio']:8.1f} times as fast, {told['verdict']}")

# %% [markdown]
"""
(`compare` is given a tolerance of 1e-4 here: four ways to add up 24 products in float32 round in four different orders; each rounding is at most 6e-8 of a sum of size 10 or so.)

Three different things happened on the way down, and people call all of them "vectorizing":

- **three loops → dots**: Python no longer runs for each multiply-add. That is interpreter time, nothing else.
- **dots → rows**: fewer calls, and the matrix is read along its rows, in the order in which it lies in memory, not down its columns.
- **rows → one product**: the same arithmetic, the same language underneath. With so small a matrix it is 23 calls less, again. But take a larger one, and let us pay for the calls:
"""

# %%
if __name__ == "__main__":
    n = 384
    x, y = (Tensor(rng.standard_normal((n, n))) for _ in range(2))
    told = profiler.compare(Product(ways[2], y), Product(matmul, y), x, rtol=1e-4, atol=1e-3, rounds=6)
    calls_ms = (n - 1) * profiler.machine_limits().step_us / 1e3
    print(f"rows {told['baseline_ms']:.2f} ms, one product {told['candidate_ms']:.2f} ms: {1 / told['ratio']:.1f} times as fast ({told['verdict']}); {n - 1} calls cost about {calls_ms:.2f} ms")
    print(f"FLOPs per byte: rows {2 * n**3 / 4 / (n * (n + n * n) + n * n):.2f}, one product {2 * n**3 / 4 / (3 * n * n):.1f}")

# %% [markdown]
"""
The calls do not explain it. FLOPs per byte do. A row times a matrix reads every number of the matrix to use it *once*. The one product reads it, in the best case, once for all. Whoever has the whole problem before him can choose the order in which it is done. That is what the next section is about.
"""

# %% [markdown]
"""
## 3. What a cache fetches, and what tiles are for

**Question.** All four spellings multiply the same pairs. How can the *order* matter?

A processor does not read numbers from memory. It reads **lines**, 64 bytes at a time (8 numbers of float64), and keeps a limited number of them close by, in a cache. When there is no room for a new line, the one that was used longest ago goes. A number whose line is there costs almost nothing; a **miss** costs a trip to memory, during which the processor could have done a great deal of arithmetic.

That is a machine of eight lines of Python.

**Task.** Write `cache_misses(addresses, lines, width=8)`: go through the addresses (whole numbers, one for each number in memory), keep at most `lines` lines of `width` numbers, and return how many had to be fetched. Number `address` lies in line `address // width`. The line to go is the one whose *last use* is longest ago.

Example: addresses `0, 1, 8, 0` with two lines of 8: line 0 is fetched, 1 lies in it, 8 is in line 1 (fetched), 0 is there: 2.

<details><summary>Hint 1: idea</summary>
A dict remembers the order in which keys were put in. Take a key out and put it in again, and it is the newest.
</details>
<details><summary>Hint 2: approach</summary>
<code>if line in kept: del kept[line]</code>, otherwise count, and if it is full, <code>del kept[next(iter(kept))]</code>, the oldest. In both cases put it in at the end.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Two lines of 4; addresses 0, 4, 1, 8, 2: line 0 fetched, line 1 fetched, 1 is there (line 0 is now the newest), line 2 fetched and line 1 goes, 2 is there: 3.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "cache-misses", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    def cache_misses(addresses, lines, width=8):
        """Return how many lines of ``width`` numbers a cache of ``lines`` has to fetch; the least recently used one goes."""
        raise NotImplementedError("cache_misses: section 3, cell 1")

# %%
if __name__ == "__main__":
    print("along the rows of a 64 x 64 matrix:", cache_misses(range(4096), 32), " down its columns:", cache_misses([64 * i + j for j in range(64) for i in range(64)], 32))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-cache-misses", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "tiles"}
if __name__ == "__main__":
    def test_cache_misses():
        """Lines, room, and who goes."""
        check("0 to 15, lines of 8", cache_misses(range(16), 4), 2, {16: "every number was fetched alone: a line brings 8 of them", 14: "those are the hits"})
        check("7 and 8 are in two lines", cache_misses([7, 8, 7, 8], 4), 2, {1: "8 // 8 is line 1", 4: "nothing was kept"})
        check("three lines by turns, room for two", cache_misses([0, 8, 16, 0, 8, 16], 2), 6, {3: "nothing ever goes: there is room for two"})
        check("the same, room for three", cache_misses([0, 8, 16, 0, 8, 16], 3), 3, {6: "room for one too few"})
        check("used again, so it stays", cache_misses([0, 8, 0, 16, 0], 2), 3, {4: "the one that came first went: it must be the one not used for longest", 5: "nothing was kept"})
        check("lines of 4", cache_misses(range(16), 4, width=4), 4, {2: "width is not used"})
        check("a column of 64 x 64 twice, 64 lines", cache_misses([64 * i for i in range(64)] * 2, 64), 64)


    test_cache_misses()

# %% [markdown]
"""
Down the columns of a matrix each number brings seven neighbours that are gone before they are needed: eight times the trips for the same numbers.

A product must read `b` down its columns, or come back to it again and again. The way out: **tiles**. Cut all three matrices into squares of `t` by `t` numbers, small enough that a few fit into the cache, and finish everything that can be done with two squares before the next ones are fetched.

```
for each tile of c (i, j):              ┌───┐       ┌───┬───┬───┐   ┌───┐
    for each p:                         │ c │  +=   │ a │   │   │ @ │ b │
        c[i, j] += a[i, p] @ b[p, j]    └───┘       └───┴───┴───┘   ├───┤
                                                    a row of tiles  │   │  a column of tiles
```

Each number of a tile that was fetched is used `t` times before it goes. How often is a matrix read in all? `a` once for each column of tiles of c, of which there are `ceil(n / t)`; `b` once for each row of tiles, `ceil(m / t)`; and c, which stays in place while its sum grows, is written once.

**Task.** Write `tiled_traffic(m, k, n, tile)`: how many numbers move between memory and cache for a product `(m, k) @ (k, n)` in tiles, read and written together.

Example: `(2, 2) @ (2, 2)` in tiles of 1: a, 4 numbers, read twice, b twice, c written: 8 + 8 + 4 = 20. In tiles of 2: 4 + 4 + 4 = 12.

<details><summary>Hint 1: idea</summary>
Size of each matrix times how often it goes by.
</details>
<details><summary>Hint 2: approach</summary>
<code>ceil</code> is there, from <code>math</code>: the last tile may be a smaller one, and its row of <code>a</code> is read all the same. It is the <em>columns</em> of c that say how often <code>a</code> is read.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(3, 4) @ (4, 5)</code>, tiles of 2: a 12 · 3, b 20 · 2, c 15: 91.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "tiled-traffic", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def tiled_traffic(m, k, n, tile):
    """Return how many numbers (m, k) @ (k, n) in square tiles moves between memory and a cache that holds three tiles.

    Every tile of the product is finished before the next: a is read once for each column of tiles, b for each row.
    """
    positive("tile", tile)
    raise NotImplementedError("tiled_traffic: section 3, cell 4")

# %%
if __name__ == "__main__":
    print([(tile, tiled_traffic(1024, 1024, 1024, tile)) for tile in (1, 16, 64, 1024)])

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-tiled-traffic", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "tiles"}
if __name__ == "__main__":
    def test_tiled_traffic():
        """Each matrix counted; tiles that do not fit; the ends."""
        check("(4, 6) @ (6, 8), tiles of 2: 24 · 4 + 48 · 2 + 32", tiled_traffic(4, 6, 8, 2), 224, {
            272: "a is read for each column of tiles, b for each row: they are exchanged", 192: "the product itself is missing: it is written once",
            256: "the product is counted twice: its tile stays in the cache until it is done", 104: "every matrix once: that is only so with one tile",
            288: "the product is written for each p: its tile stays in the cache until it is done"})
        check("(5, 7) @ (7, 3), tiles of 2: 35 · 2 + 21 · 3 + 15", tiled_traffic(5, 7, 3, 2), 148, {
            92: "the last, smaller tile is left out: round up", 120.0: "there are no half tiles: round up"})
        check("tiles of 1: two numbers for each multiply-add, and the product", tiled_traffic(10, 10, 10, 1), 2100)
        check("one tile for all: 6 + 12 + 8", tiled_traffic(2, 3, 4, 99), 26)


    test_tiled_traffic()

# %% [markdown]
"""
Formula against machine. The next cell lists the addresses that a product of 48 by 48 touches, tile by tile (`a` from 0, `b` behind it; the sum is kept in a register), and lets your cache of 40 lines (320 numbers; a matrix has 2,304) fetch them. **Guess** which tile needs the fewest trips: 8, 16, 24 or 48, which is no tiles at all?
"""

# %%
if __name__ == "__main__":
    def touched(n, tile):
        """Yield the addresses of a and b that an (n, n) product touches, tile by tile, p in the innermost loop."""
        starts = range(0, n, tile)
        for i0, j0, p0 in ((i, j, p) for i in starts for j in starts for p in starts):
            for i in range(i0, i0 + tile):
                for j in range(j0, j0 + tile):
                    for p in range(p0, p0 + tile):
                        yield i * n + p
                        yield n * n + p * n + j


    print("tile   numbers in a tile   trips to memory   by the formula, 8 numbers a trip")
    for tile in (8, 16, 24, 48):
        trips, said = cache_misses(touched(48, tile), lines=40), (tiled_traffic(48, 48, 48, tile) - 48 * 48) // 8
        print(f"{tile:4} {tile * tile:19,} {trips:17,} {said:20,}" + ("" if tile * tile <= 320 else "   a tile of b does not fit"))

# %% [markdown]
"""
While a tile of `b` (and one row of `a` beside it) fits, the formula is right to the last trip, and trips fall as 1 / t. One size too large, and everything it promised is gone: each tile throws out its own beginning before it is done. And 48, the plain loops, fetches more than a line for each of its 48³ multiply-adds. **The best tile is the largest that fits.**

So let us tile. **Task.** Write the inside of `tiled_matmul(a, b, tile=64)`: the arrays `a` (m, k) and `b` (k, n) to a new array (m, n). Go tile by tile as in the picture; each small product is NumPy's `@`. Sizes need not be multiples of the tile: a slice that reaches beyond the end is simply shorter. Given: the shape rule; below it the price, the traffic by your formula, and the gradient (of the product rule, with tiles again).

Example: `[[1, 2, 3]] @ [[1], [1], [1]]` with `tile=2`: 1 + 2 from the first tiles, and 3 from the last: `[[6]]`.

<details><summary>Hint 1: idea</summary>
Three loops, as in section 2, but each of them jumps by <code>tile</code>, and what stands in the middle is a product of two small matrices.
</details>
<details><summary>Hint 2: approach</summary>
<code>range(0, m, tile)</code>; <code>a[i:i + tile, p:p + tile]</code>. A slice of <code>out</code> is a view: <code>+=</code> into it writes <code>out</code>. Zeros of the type <code>np.result_type(a, b)</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
The sum of all tiles of a matrix: <code>total = np.zeros((tile, tile)); for i in range(0, m, tile): for j in range(0, n, tile): total += a[i:i + tile, j:j + tile]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "tiled-matmul", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def tiled_shape(a, b, tile=64):
    """Return (m, n) for a (m, k), b (k, n) and a tile above 0, or raise ``ValueError`` with what is wrong."""
    positive("tile", tile)
    if len(a) != 2 or len(b) != 2:
        raise ValueError(f"{a} @ {b}: want two matrices, (m, k) and (k, n); for stacks take matmul")
    return matmul_shape(a, b)


@op(shape=tiled_shape)
def tiled_matmul(a, b, tile=64):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), in square tiles: for seeing what tiles do, not for speed."""
    (m, n), k = tiled_shape(a.shape, b.shape, tile), a.shape[1]
    raise NotImplementedError("tiled_matmul: section 3, cell 8")

# %%
#| export
@flops(tiled_matmul, contraction=True)
def tiled_matmul_cost(out_shape, a, b, tile=64):
    """Price a product in tiles like any other, in FLOPs: 2 per multiply-add, a (m, k) @ b (k, n)."""
    return matmul_cost(out_shape, a, b)


def tiled_inside(out_shape, a, b, tile=64):
    """Find how often a and b are read again, and one small product, and one sum, for each three tiles."""
    (m, k), n = a, b[1]
    products = max(1, ceil(m / tile) * ceil(n / tile) * ceil(k / tile))
    again = tiled_traffic(m, k, n, tile) - m * k - k * n - m * n
    return Inside(max(0, again), products, products, 2 * products)


INSIDE[tiled_matmul] = tiled_inside


@vjp(tiled_matmul)
def tiled_matmul_vjp(g, out, a, b, tile=64):
    """Gradients of a (m, k) @ b (k, n), from g (m, n), in tiles."""
    return lambda: tiled_matmul(g, b.T, tile=tile), lambda: tiled_matmul(a.T, g, tile=tile)

# %%
if __name__ == "__main__":
    print(tiled_matmul(Tensor([[1.0, 2.0, 3.0]]), Tensor([[1.0], [1.0], [1.0]]), tile=2))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-tiled-matmul", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "tiles"}
if __name__ == "__main__":
    def test_tiled_matmul():
        """Sums over tiles, ragged ends, how many products, types, gradients."""
        a, b = Tensor([[1, 2, 3], [4, 5, 6]]), Tensor([[1, 0], [0, 1], [1, 1]])
        check("(2, 3) @ (3, 2), tiles of 2", tiled_matmul(a, b, tile=2).data, [[4, 5], [10, 11]], {
            ((3, 3), (6, 6)): "only the last p is left: add to what is there", ((1, 2), (4, 5)): "the smaller tile at the end is left out",
            ((0, 0), (0, 0)): "nothing was written into the result: += into a slice of it"})
        rng = np.random.default_rng(0)
        a, b = rng.integers(-9, 10, (5, 7)), rng.integers(-9, 10, (7, 3))
        for tile in (1, 2, 3, 64):
            check(f"(5, 7) @ (7, 3), tiles of {tile}: all of it", bool(np.array_equal(tiled_matmul(Tensor(a), Tensor(b), tile=tile).data, a @ b)), True)
        check("products: 3 · 4 · 2, none larger than a tile of 2 x 2", products_of(tiled_matmul.fn, a, b, tile=2), (24, 4), {
            (1, 35): "the whole product at once", (6, 14): "p is not cut: a and b are cut along both axes"})
        check("float64 stays", tiled_matmul(Tensor(a, dtype=np.float64), Tensor(b, dtype=np.float32)).dtype.name, "float64")
        x, y = Tensor(a, True, dtype=np.float64), Tensor(b, True, dtype=np.float64)
        tiled_matmul(x, y, tile=2).sum().backward()
        check("gradient of a: each row holds the sums of b's rows", bool(np.array_equal(x.grad.data, np.tile(b.sum(1), (5, 1)))), True)


    test_tiled_matmul()

# %% [markdown]
"""
**Bet.** For 256 by 256 the formula says that tiles of 64 move less than a fiftieth of what plain loops move (the first line below). How many times as fast as `a @ b` will `tiled_matmul` be?
"""

# %%
if __name__ == "__main__":
    my_bet = None
    n = 256
    x, y = (Tensor(rng.standard_normal((n, n))) for _ in range(2))
    print(f"plain loops move {tiled_traffic(n, n, n, 1) / tiled_traffic(n, n, n, 64):.1f} times what tiles of 64 do")
    print("tile   numbers moved   NumPy calls   tiled / whole (time)   interval")
    for tile in (16, 64, 256):
        told = profiler.compare(Product(matmul, y), Product(lambda p, q, tile=tile: tiled_matmul(p, q, tile=tile), y), x, rtol=1e-4, atol=1e-3, rounds=6)
        low, high = told["interval"]
        print(f"{tile:4} {tiled_traffic(n, n, n, tile):15,} {2 * ceil(n / tile)**3:13,} {told['ratio']:22.2f}   {low:.2f} to {high:.2f}, {told['verdict']}")
    print("your bet:", my_bet)

# %% [markdown]
"""
It loses, most with the small tiles, and where it no longer does, the tile is the whole matrix. Nothing is wrong with the idea. `a @ b` hands the product to BLAS, and **BLAS has been tiling since 1990**, in three levels: for the two or three caches, and for the registers, in machine code that was written for your processor. (Goto and van de Geijn, 2008, describe it.) Your tiles are tiles of its tiles: they add 2 calls each and save nothing. That is why the linear layers of section 1 were so fast, and why there is nothing to gain there.

Two lessons. *Know what is beneath you before you optimize it.* And: the idea, "finish everything that can be done with what is in the cache", is worth most where nobody has applied it yet. Look at section 1 once more: where is that?
"""

# %% [markdown]
"""
## 4. Nine passes

**Question.** GELU does nine operations on each number. Why should that take longer than the product before it, which does hundreds?

Listen to it:
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import listen
    from tinytorch.perf.profiling import event_bytes

    events, hidden = [], Tensor(rng.standard_normal((1442, 256)))
    with listen(events.append):
        gelu(hidden)
    print(f"{'op':>10}  reads, and writes a new array")
    for event in events:
        print(f"{event.op.name:>10}  {' '.join(str(s) for s in event.in_shapes):32} {event_bytes(event):12,} bytes")
    print(f"{len(events)} passes over memory, {sum(map(event_bytes, events)) / hidden.nbytes:.1f} numbers moved for each number of the result")
    roof = profiler.roofline(9 * hidden.size, sum(map(event_bytes, events)))
    print(f"{roof['intensity']:.2f} FLOPs per byte; the ridge of this machine is at {roof['ridge_point']:.1f}: bound by {roof['regime']}")

# %% [markdown]
"""
Nine ops, nine trips through all of the array: each reads what the one before has just written, and writes a new array of the same size. A product does hundreds of operations with each number it fetches; here it is one for each two or three numbers fetched.

The cure is that of section 3. Take a *piece* of the array that fits into the cache, do all nine operations on it, go to the next piece. From memory each number is read once, and written once:

```
nine passes      whole array → op 1 → whole array → op 2 → whole array → ... → op 9
in pieces        piece 1 → op 1, op 2, ... op 9 → done;  piece 2 → op 1, ... op 9 → done;  ...
```

Doing several steps in one trip through memory is called **fusing** them.

**Task.** Write `in_pieces(out, *inputs, block=BLOCK)`, a generator: it yields a list `[piece of out, piece of the first input, ...]` of flat arrays with `block` numbers each (the last one may be shorter), in order, until all is done. A piece of `out` must be a view: who writes into it writes into `out`. Given: `BLOCK`, and the refusal of arrays that do not match.

Example: `out` and `x` of 10 numbers, `block=4`: three lists, of 4, 4 and 2 numbers.

<details><summary>Hint 1: idea</summary>
Make everything flat first, then cut slices at 0, block, 2 · block, ...
</details>
<details><summary>Hint 2: approach</summary>
<code>array.reshape(-1)</code> is a view where that is possible (for <code>out</code> it is: that was checked). <code>flatten()</code> is always a copy. A function that contains <code>yield</code> is a generator.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Pairs of neighbours: <code>def pairs(row): for i in range(0, len(row), 2): yield [row[i], row[i + 1]]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "in-pieces", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
BLOCK = 32_768  #: numbers in a piece: 128 KiB in float32, so that a few such pieces fit a second-level cache


def in_pieces(out, *inputs, block=BLOCK):
    """Yield [piece of out, piece of each input], flat, ``block`` numbers each; writing a piece of ``out`` writes it.

    ``ValueError`` for inputs of another size, for an ``out`` with gaps, whose pieces would be copies, and for a
    ``block`` below 1.
    """
    if not out.flags.c_contiguous or any(array.size != out.size for array in inputs):
        shapes = ", ".join(str(array.shape) for array in inputs)
        raise ValueError(f"out {out.shape} with {shapes}: want inputs of its size, and an out that lies in one piece")
    positive("block", block)
    raise NotImplementedError("in_pieces: section 4, cell 2")

# %%
if __name__ == "__main__":
    out = np.zeros((2, 5), int)
    for number, (piece, x) in enumerate(in_pieces(out, np.arange(10), block=4)):
        piece[:] = x * 10 + number
    print(out)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-in-pieces", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "fusion"}
if __name__ == "__main__":
    def test_in_pieces():
        """Sizes, order, views, layouts, nothing."""
        out, x = np.zeros((2, 5)), np.arange(10.0).reshape(2, 5)
        check("10 numbers in pieces of 4", [len(piece) for piece, _ in in_pieces(out, x, block=4)], [4, 4, 2], {
            (4, 4): "the rest is left out", (4, 4, 4): "the last piece repeats numbers", (2, 5): "rows, not pieces of block numbers", (5, 5): "rows, not pieces of block numbers"})
        check("what stands in them", [piece.tolist() for _, piece in in_pieces(out, x, block=4)], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        for piece, source in in_pieces(out, x, block=4):
            piece[...] = source + 1
        check("who writes a piece writes out", out, [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], {
            ((0,) * 5, (0,) * 5): "the pieces are copies: flatten() copies, reshape(-1) does not"})
        check("out first, then the inputs in order", [[int(p[0]) for p in pieces] for pieces in in_pieces(np.zeros(2), np.ones(2), np.full(2, 2.0))], [[0, 1, 2]], {((1, 2, 0),): "out comes first"})
        check("an input that lies the other way round is read in its own order", [piece.tolist() for _, piece in in_pieces(np.zeros(6), np.arange(6).reshape(2, 3).T, block=4)], [[0, 3, 1, 4], [2, 5]])
        check("no numbers, no pieces", len(list(in_pieces(np.zeros((0, 3)), np.zeros((0, 3))))), 0)
        check("without block: pieces of 32,768", [len(piece) for (piece,) in in_pieces(np.zeros(40_000))], [32_768, 7_232])


    test_in_pieces()

# %% [markdown]
"""
## 5. GELU in place

**Question.** Pieces alone do not help if each step makes a new array: the allocator hands out fresh memory. Can the nine steps do without any?

```
gelu(x) = 0.5 x (1 + tanh( sqrt(2/π) (x + 0.044715 x³) ))
```

NumPy writes where it is told: `np.multiply(x, x, out=out)`, `np.tanh(out, out=out)`, `out += 1`. With one array to work in, `out`, and `x` that stays, everything can be done, if the formula is turned a little:

```
sqrt(2/π) (x + 0.044715 x³)  =  x · (sqrt(2/π) + sqrt(2/π) · 0.044715 · x²)
```

**Task.** Write `gelu_into(out, x)`: fill `out` with gelu(x), element by element, without making any array; `x` stays as it is; nothing is returned. `ROOT` is sqrt(2/π), `CUBE` is 0.044715. Far out the result is `x`, or 0, for every `x` that the type can hold: x² may become inf, as tanh of that is 1, but 2x must not.

Example: `x = [0, 1, -1]`: `out` becomes `[0, 0.8412, -0.1588]`.

<details><summary>Hint 1: idea</summary>
Build the formula from the inside out; at each step <code>out</code> holds what is done so far. The very last one multiplies by <code>x</code>, which is still there.
</details>
<details><summary>Hint 2: approach</summary>
Eight lines: x², times a constant, plus a constant, times x, tanh, plus 1, times 0.5, times x. The first needs <code>np.multiply(x, x, out=out)</code>, tanh <code>out=out</code>; the others are <code>*=</code> and <code>+=</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
sigmoid(x) = 1 / (1 + e^-x) in place: <code>np.negative(x, out=out); np.exp(out, out=out); out += 1; np.reciprocal(out, out=out)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "gelu-into", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
ROOT, CUBE = sqrt(2 / pi), 0.044715  #: the constants of GELU's tanh form


def gelu_into(out, x):
    """Write 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))) into ``out``, another array of x's shape; make none.

    Source: Hendrycks and Gimpel, 2016.
    """
    raise NotImplementedError("gelu_into: section 5, cell 1")

# %%
if __name__ == "__main__":
    out, x = np.empty(3), np.array([0.0, 1.0, -1.0])
    gelu_into(out, x)
    print(out)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-gelu-into", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "fusion"}
if __name__ == "__main__":
    from tinytorch.perf.profiling import trace_memory


    def test_gelu_into():
        """Values, types, and nothing made on the way."""
        out, x = np.full(4, np.nan), np.array([0.0, 1.0, -1.0, 3.0])
        came = gelu_into(out, x)
        check("gelu of 0, 1, -1, 3", out, [0.0, 0.8411919906082768, -0.15880800939172324, 2.996362607918227], {
            (np.nan,) * 4: "out is as it was: write into it, do not return another",
            (0.0, 0.8413447460685429, -0.15865525393145707, 2.99595030590511): "that is GELU by the error function; the form here is the one with tanh",
            (0.0, 1.6823839812165535, -0.3176160187834466, 5.992725215836454): "the half is missing",
            (0.0, 0.3411919906082767, 0.3411919906082767, 1.496362607918227): "1 + is missing",
            (0.5, 0.8411919906082768, 0.1588080093917233, 0.9987875359727423): "the last factor x is missing",
            (0.0, 0.8898715779628219, -0.1101284220371781, 2.9993353296089067): "sqrt(2/pi) is missing",
            (0.0, 0.8435917537796769, -0.15640824622032307, 2.997766197423318): "sqrt(2/pi) belongs to the cube, too: ROOT · CUBE",
            (0.0, 0.8411919906082768, -0.8411919906082768, 2.7108213975941062): "one factor x inside tanh is missing"}, rtol=1e-6)
        check("nothing is returned", came is None, True)
        check("x stays", x.tolist(), [0.0, 1.0, -1.0, 3.0])
        x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
        out = np.empty_like(x)
        traced = trace_memory(lambda: gelu_into(out, x))
        check("bytes at the peak are fewer than one more array", traced.peak < x.nbytes, True, {
            False: "an array was made on the way: out= and *= write into one that is there"})
        far = np.array([300, -300, 40_000, -60_000], np.float16)
        with np.errstate(over="ignore"):
            gelu_into(half := np.empty_like(far), far)
        check("far out, in float16, which ends at 65,504: x, and 0", half, [300, 0, 40_000, 0], {
            (300, 0, np.inf, 0): "2 · 40,000 is more than float16 holds: halve first, then times x"})
        wide = x.astype(np.float64)
        check("all of it, as Module 02 computes it", bool(np.allclose(out, 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))), rtol=1e-5, atol=1e-6)), True)


    test_gelu_into()

# %% [markdown]
"""
Both together are the fused op: given, because it is one line more than its name. Its price is that of the nine ops, 9 FLOPs for each number: **fusing saves no arithmetic** (turning the formula saved one multiplication, and we do not boast of it: profiles before and after are to be compared). What it saves, the door sees by itself: one op, which reads one array and writes one. `INSIDE` adds what the door cannot see: 8 small NumPy calls for each piece. And it belongs to `TRANSCENDENTALS`, ops whose ceiling is the rate of exp and tanh.
"""

# %%
#| export
@op(shape=same_shape, dtype=floating)
def fused_gelu(a):
    """Return the Gaussian error linear unit, tanh form, in one op: a (...) -> (...), read and written once.

    Same values as ``gelu`` of Module 02, up to rounding, in a fraction of the traffic.
    """
    a = in_floats(a)
    out = np.empty(a.shape, a.dtype)
    with np.errstate(over="ignore"):  # x² may be inf: tanh of it is 1
        for y, x in in_pieces(out, a):
            gelu_into(y, x)
    return out


@flops(fused_gelu)
def fused_gelu_cost(out_shape, a):
    """Price GELU of a as its nine ops are priced, in FLOPs, so that profiles before and after can be compared."""
    return 9 * per_output(out_shape, a)


def pieces_of(shape):
    """Return in how many pieces ``in_pieces`` goes through an array of this shape; one, if there is nothing in it."""
    return max(1, ceil(prod(shape) / BLOCK))


INSIDE[fused_gelu] = lambda out_shape, a: Inside(steps=8 * pieces_of(out_shape) - 1)
TRANSCENDENTALS.add(fused_gelu)


class FusedGELU(Scoped):
    """``fused_gelu`` as an object: x (...) -> (...). It can stand wherever ``GELU`` stands."""

    def forward(self, x):
        """Return fused_gelu(x), same shape."""
        return fused_gelu(x)

# %% [markdown]
"""
**Predict, then measure.** Bytes say: 22 numbers for each number of the result before, 2 now. So it is eleven times as fast, on arrays that memory has to bring. Is it?
"""

# %%
if __name__ == "__main__":
    large, points = Tensor(rng.standard_normal((2048, 1024))), {}
    for name, layer in (("composed", GELU()), ("fused", FusedGELU())):
        found = points[f"GELU, {name}"] = profiler.profile_forward_pass(layer, large, iterations=3)
        moved = found["layers"][0]["bytes"]
        print(f"{name:9} {found['flops']:,} FLOPs, {moved:,} bytes, {found['flops'] / moved:.2f} FLOPs per byte; {found['latency_ms']:.1f} ms; limited by {found['limited_by']}")
    told = profiler.compare(GELU(), FusedGELU(), large, rounds=6)
    print(compare_table(told))
    promised = points["GELU, composed"]["layers"][0]["bytes"] / points["GELU, fused"]["layers"][0]["bytes"]
    print(f"\npredicted by bytes: {promised:.1f} times as fast; measured: {1 / told['ratio']:.1f}")

# %% [markdown]
"""
Much faster, and not eleven times; where the profile says `unexplained`, it means that neither ops nor FLOPs nor bytes account for half of the time. Bytes predict *which* of two is faster; they predict *how much* only while memory is the wall. Fusing has moved the wall. What stands behind it is work inside the cache, and it was there all the time: a tanh for each number, and eight passes over each piece, which are cheap, but not free. `docs/worked-case.md` takes such a measurement apart to the last millisecond. Here is the short way to see it: a single piece never leaves the cache, so time one, and take it as often as there are pieces.
"""

# %%
if __name__ == "__main__":
    piece, count = Tensor(large.data.reshape(-1)[:BLOCK]), large.size // BLOCK
    room = np.empty_like(piece.data)


    def in_one_place(a):
        """Apply GELU to a piece, always into the same array: nothing is fetched from memory."""
        gelu_into(room, a)
        return room


    def tanh_in_one_place(a):
        """Take tanh alone, in the same array, too."""
        return np.tanh(a, out=room)


    steps = [op(shape=same_shape)(function) for function in (in_one_place, tanh_in_one_place)]
    one_piece, its_tanh = (count * profiler.measure_latency(step, piece, warmup=3, iterations=20) for step in steps)
    print(f"{count} times one piece: {one_piece:.1f} ms, tanh alone {its_tanh:.1f} ms of it; the whole array {told['candidate_ms']:.1f} ms")

# %% [markdown]
"""
**What if** the pieces are smaller, or larger? Guess the shape of the curve first:
"""

# %%
if __name__ == "__main__":
    import matplotlib.pyplot as plt


    def gelu_in(block):
        """Return a function that applies GELU in pieces of so many numbers."""
        def run(a):
            out = np.empty(a.shape, a.dtype)
            for y, x in in_pieces(out, a, block=block):
                gelu_into(y, x)
            return out
        return op(shape=same_shape)(run)


    blocks = [2**k for k in range(9, 22, 2)]
    times = [profiler.measure_latency(gelu_in(block), large, warmup=1, iterations=3) for block in blocks]
    for block, ms in zip(blocks, times):
        print(f"{block:10,} numbers, {4 * block / 1024:10,.0f} KiB: {ms:7.1f} ms")
    figure, axes = plt.subplots(figsize=(7, 3))
    axes.plot(blocks, times, "o-")
    axes.axvline(BLOCK, color="grey", linestyle=":", label="BLOCK")
    axes.set(xscale="log", xlabel="numbers in a piece", ylabel="ms", ylim=(0, None), title=f"GELU of {large.size:,} numbers, in pieces")
    axes.legend()
    plt.show()

# %% [markdown]
"""
On the left each piece costs eight calls of NumPy, whatever is in it. On the right a piece no longer fits, and it is passes over memory again, though still without new arrays (how much that costs, and where it begins, is a matter of your machine's caches: with a large last one, the curve hardly rises). In between there is a flat valley: the exact size does not matter, only the right order of magnitude.
"""

# %% [markdown]
"""
## 6. The way back

**Question.** The nine ops knew their gradients. The fused one must be told. And what did the nine keep in memory for it?

An op needs a rule, as in Module 05: the gradient that comes back, `g`, times the slope of gelu at `x`. With `t = tanh(u)` and `u = ROOT (x + CUBE x³)`, the product rule and the chain rule give

```
gelu(x)  = 0.5 x (1 + t)
slope(x) = 0.5 (1 + t)  +  0.5 x (1 - t²) · ROOT (1 + 3 CUBE x²)
```

**Task.** Write `gelu_slope(x)`: an array to a new array of the same shape and type. Temporary arrays are allowed this time. It will be called with one piece at a time, and a temporary as large as a piece stays in the cache, too.

Example: at 0 the slope is 0.5; far to the right 1, far to the left 0.

<details><summary>Hint 1: idea</summary>
One line for <code>t</code>, one for the slope.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.tanh</code>, and Python's operators with <code>ROOT</code> and <code>CUBE</code>. Squares as <code>x * x</code>: a power is slow. The derivative of tanh(u) is 1 - t² times that of u.
</details>
<details><summary>Hint 3: worked example, something else</summary>
f(x) = x · sigmoid(x), with <code>s = 1 / (1 + np.exp(-x))</code>: the slope is <code>s + x * s * (1 - s)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "gelu-slope", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def gelu_slope(x):
    """Return the derivative of GELU's tanh form at an array x (...): a new array of its shape and type."""
    raise NotImplementedError("gelu_slope: section 6, cell 1")

# %% [markdown]
"""
Given: the op that goes back, `g` times the slope, in pieces; and the rules of both ops. The way back passes the door like everything else, so a profile of training sees it. An op that can be passed in both directions twice needs the slope of the slope, too: `gelu_curve`, made of ops, is there for whoever differentiates a gradient. One care is taken for you: far out, x² is inf (in float16 from 256 on), 1 - t² is 0, and their product NaN, where the slope is plainly 1 or 0. So the op looks no further out than `FAR`.
"""

# %%
#| export
FAR = 16.0  #: from here on GELU's slope is 1, or 0, in every type; x² of float16 is inf from 256 on, and 0 · inf is NaN


def both_alike(g, a):
    """Return the shape of both, or raise ``ValueError``: a gradient has the shape of what it belongs to."""
    if g != a:
        raise ValueError(f"g {g} with a {a}: want the same shape")
    return a


@op(shape=both_alike, dtype=floating)
def fused_gelu_gradient(g, a):
    """g times the slope of GELU at a, element by element, in one op: g (...) and a (...) -> (...)."""
    both_alike(g.shape, a.shape)
    g, a = in_floats(g), in_floats(a)
    out = np.empty(a.shape, np.result_type(g, a))
    with np.errstate(over="ignore"):
        for y, upstream, x in in_pieces(out, g, a):
            np.multiply(upstream, gelu_slope(np.clip(x, -FAR, FAR)), out=y)
    return out


def gelu_curve(x):
    """Return the second derivative of GELU's tanh form at x, a Tensor (...) -> (...), made of ops."""
    t, inner = tanh(ROOT * (x + CUBE * x * x * x)), ROOT * (1 + 3 * CUBE * x * x)
    return (1 - t * t) * (inner - x * t * inner * inner + 3 * ROOT * CUBE * x * x)


@vjp(fused_gelu)
def fused_gelu_vjp(g, out, a):
    """Give g times the slope at a; nothing but a was kept."""
    return (lambda: fused_gelu_gradient(g, a),)


@vjp(fused_gelu_gradient)
def fused_gelu_gradient_vjp(gg, out, g, a):
    """Give the slope for g, and the slope's slope for a."""
    return lambda: fused_gelu_gradient(gg, a), lambda: gg * g * gelu_curve(a)


@flops(fused_gelu_gradient)
def fused_gelu_gradient_cost(out_shape, g, a):
    """Price two comparisons, what is written in ``gelu_slope``, and the product with g: 18 FLOPs per element."""
    return 18 * per_output(out_shape, a)


INSIDE[fused_gelu_gradient] = lambda out_shape, g, a: Inside(steps=17 * pieces_of(out_shape) - 1)
TRANSCENDENTALS.add(fused_gelu_gradient)

# %%
if __name__ == "__main__":
    print(gelu_slope(np.array([-10.0, -1.0, 0.0, 1.0, 10.0])))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-gelu-slope", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "gradient"}
if __name__ == "__main__":
    from tinytorch.core.autograd import check_rule


    def test_gelu_slope():
        """Known places, differences, the composed way back."""
        x = np.array([-10.0, -1.0, 0.0, 1.0, 10.0])
        check("slope at -10, -1, 0, 1, 10", np.asarray(gelu_slope(x)), [0.0, -0.08296408384578258, 0.5, 1.0829640838457826, 1.0], {
            (0.0, 0.15880800939, 0.5, 0.84119199061, 1.0): "only the first half of the product rule: x times the slope of (1 + t) is missing",
            (0.0, -0.06389978581, 0.5, 1.06389978581, 1.0): "the slope of x³ is 3 x²: the 3 is missing",
            (0.0, -0.14420837307, 0.5, 1.14420837307, 1.0): "ROOT is missing in the slope of u",
            (0.0, -0.10836804170, 0.5, 1.10836804170, 1.0): "the slope of u, ROOT (1 + 3 CUBE x²), is missing",
            (0.0, 0.40058010263, 0.89894228040, 1.08296408385, 1.0): "the factor x of the second half is missing",
            (0.0, -0.32473617708, 0.5, 1.32473617708, 1.0): "the half of the second half is missing",
            (0.0, -0.15880800939, 0.0, 0.84119199061, 10.0): "that is gelu, not its slope"}, rtol=1e-6, atol=1e-8)
        check("x stays", x.tolist(), [-10.0, -1.0, 0.0, 1.0, 10.0])
        check("the rule agrees with differences", check_rule(fused_gelu, np.linspace(-4, 4, 41)) < 1e-6, True)
        values = np.random.default_rng(0).standard_normal((3, 50)) * 2
        one, other = Tensor(values, True, dtype=np.float64), Tensor(values, True, dtype=np.float64)
        gelu(one).sum().backward()
        fused_gelu(other).sum().backward()
        check("as the nine ops' gradient, to twelve digits", bool(np.allclose(one.grad.data, other.grad.data, rtol=1e-12, atol=1e-12)), True)
        check("float32 stays", np.asarray(gelu_slope(values.astype(np.float32))).dtype.name, "float32")


    test_gelu_slope()

# %% [markdown]
"""
**Bet.** How many arrays of the size of its input does the composed GELU keep alive until the backward pass? And the fused one?
"""

# %%
if __name__ == "__main__":
    my_bet = (None, None)
    below = Linear(256, 256, rng=rng)
    models = [Sequential(below, layer) for layer in (GELU(), FusedGELU())]
    for name, model in zip(("composed", "fused"), models):
        kept = profiler.measure_memory(model, (1442, 256))
        print(f"{name:9} keeps {kept['activation_memory_mb']:.2f} MB, {kept['activation_memory_mb'] * 1024**2 / hidden.nbytes:.1f} arrays (the linear layer's output and the result are two of them)")
    print("your bet:", my_bet)


    def there_and_back(model):
        """Return a function that runs both passes and returns the gradient of the weight."""
        def run(x):
            below.weight.grad = below.bias.grad = None
            model(x).sum().backward()
            return below.weight.grad
        return run


    both_passes = profiler.compare(*map(there_and_back, models), hidden, rtol=1e-4, atol=3e-4, rounds=6)
    print("\nboth passes, fused against composed:", compare_table(both_passes), sep="\n")

# %% [markdown]
"""
(The tolerance: a gradient of the weight adds up 1,442 products, each rounded by at most 6e-8 of a number of size 3 or so: 3e-4 at the very worst. It agrees far better than that.)

Each of the nine ops keeps what its own rule will need. The fused op keeps its input, which the linear layer keeps anyway, and computes the rest again on the way back: more arithmetic, less memory. Nobody planned that; it is the second gift of fusing, and in training it is often the greater one, because memory is what sets the batch size.
"""

# %% [markdown]
"""
## 7. A chain of two layers

**Question.** What feeds GELU is a linear layer. It writes an array only for GELU to read. Can the two be one?

```
linear, then fused_gelu:     x, W → [product] → h (new) → [+ bias] → h → [gelu] → y (new)
linear_gelu:                 x, W → [product] → y (new) → piece by piece: + bias, gelu, back into y
```

The product itself is BLAS's, and cannot be interrupted. But its result can be finished in place, a few rows at a time: the bias goes on while GELU is at it. (Libraries for graphics cards do this inside the product, on each tile while it is still in registers; they call it an *epilogue*.)

**Task.** Write the inside of `linear_gelu(x, weight, bias=None)`: `x (..., in)`, `weight (in, out)`, `bias (out,)` or none → `(..., out)`. Given, before your part: `x` is a matrix `rows (N, in)`, `out (N, out)` holds the product already, `step` is how many rows make a piece, and `scratch (step, out)` is the only other array you need. Go through `out`, `step` rows at a time: put `those rows + bias` into scratch (with no bias, the rows themselves), then GELU of scratch back into the rows.

Example: `x = [[1]]`, `weight = [[1, 0]]`, `bias = [0, 1]`: h = [1, 1], so y = [0.8412, 0.8412].

<details><summary>Hint 1: idea</summary>
A slice of rows is a view. Two lines for each: fill the scratch, then <code>gelu_into</code>.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.add(y, bias, out=h)</code> writes a sum into h. The last slice may have fewer rows than the scratch: <code>h = scratch[:len(y)]</code>. Without a bias add 0.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Softmax of rows in place, 100 at a time: <code>for i in range(0, len(out), 100): y = out[i:i + 100]; y -= y.max(1, keepdims=True); np.exp(y, out=y); y /= y.sum(1, keepdims=True)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "linear-gelu", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def rows_in_a_piece(shape):
    """Return how many whole rows of (..., features) make a piece of about ``BLOCK`` numbers: at least one."""
    return max(1, BLOCK // max(1, shape[-1]))


@op(shape=linear_shape, dtype=floating)
def linear_gelu(x, weight, bias=None):
    """gelu(x @ weight + bias): (..., in) @ (in, out) + (out,) -> (..., out), in one op and one new array."""
    shape = linear_shape(x.shape, weight.shape, None if bias is None else bias.shape)
    arrays = [in_floats(array) for array in (x, weight, bias) if array is not None]
    out = np.empty((prod(shape[:-1]), shape[-1]), np.result_type(*arrays))
    rows = arrays[0].reshape(len(out), x.shape[-1])
    np.matmul(rows, arrays[1], out=out)
    step = rows_in_a_piece(shape)
    scratch = np.empty((min(step, len(out)), shape[-1]), out.dtype)
    with np.errstate(over="ignore"):
        raise NotImplementedError("linear_gelu: section 7, cell 1")
    return out.reshape(shape)

# %%
if __name__ == "__main__":
    print(linear_gelu(Tensor([[1.0]]), Tensor([[1.0, 0.0]]), Tensor([0.0, 1.0])))

# %% [markdown]
"""
Given: price, traffic and gradient. The result is written by the product, then read and written once more: that is what `INSIDE` adds to in and out. Nothing was kept of the way, so the gradient computes the linear part again (once, for all three inputs), and from there on it is the rule of `linear`. `LinearGELU` holds the *same* weights as the layer it is made from.
"""

# %%
#| export
@flops(linear_gelu, contraction=True)
def linear_gelu_cost(out_shape, x, weight, bias=None):
    """Price both, in FLOPs: x @ weight, 2 per multiply-add, and 9 per element for GELU (contractions have both)."""
    return linear_cost(out_shape, x, weight, bias) + 9 * per_output(out_shape, x)


def linear_gelu_inside(out_shape, *in_shapes):
    """Find ``out_shape`` read and written once more, and nine NumPy calls for each piece of rows; an ``Inside``."""
    return Inside(2 * prod(out_shape), steps=9 * ceil(prod(out_shape[:-1]) / rows_in_a_piece(out_shape)))


INSIDE[linear_gelu] = linear_gelu_inside
TRANSCENDENTALS.add(linear_gelu)


@vjp(linear_gelu)
def linear_gelu_vjp(g, out, x, weight, bias=None):
    """Compute the linear part again, then the chain rule from g (..., out): through GELU, then as ``linear``."""
    inputs = (x, weight) if bias is None else (x, weight, bias)

    @cache
    def at_linear():
        return linear_vjp(fused_gelu_gradient(g, linear(*inputs)), None, *inputs)

    return tuple(lambda i=i: at_linear()[i]() for i in range(len(inputs)))


class LinearGELU(Layer):
    """A ``Linear`` and the GELU after it as one op: x (..., in_features) -> (..., out_features).

    ``LinearGELU(linear)`` holds weight and bias of ``linear``, not copies; what is no ``Linear`` is a ``TypeError``.
    """

    def __init__(self, linear):
        if not isinstance(linear, Linear):
            raise TypeError(f"LinearGELU: a {type(linear).__name__} came; want a Linear, whose weights it is to hold")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x):
        """Compute gelu(x @ weight + bias)."""
        return linear_gelu(x, self.weight) if self.bias is None else linear_gelu(x, self.weight, self.bias)

    def __repr__(self):
        without = ", bias=False" if self.bias is None else ""
        return f"LinearGELU({self.in_features}, {self.out_features}{without})"

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-linear-gelu", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "fusion"}
if __name__ == "__main__":
    def test_linear_gelu():
        """Values, bias or none, more rows than a piece, leading axes, the way back."""
        x, weight, bias = Tensor([[1.0], [-1.0]]), Tensor([[1.0, 0.0]]), Tensor([0.0, 1.0])
        check("h = [[1, 1], [-1, 1]]", linear_gelu(x, weight, bias).data, [[0.8411919906, 0.8411919906], [-0.1588080094, 0.8411919906]], {
            ((0.8411919906, 0.0), (-0.1588080094, 0.0)): "the bias is missing", ((1.0, 0.0), (-1.0, 0.0)): "out is as it was: the rows must be written back",
            ((0.8411919906, 1.0), (-0.1588080094, 1.0)): "the bias came after gelu", ((1.0, 1.0), (-1.0, 1.0)): "gelu is missing"}, rtol=1e-5, atol=1e-7)
        check("no bias", linear_gelu(x, weight).data, [[0.8411919906, 0.0], [-0.1588080094, 0.0]], rtol=1e-5, atol=1e-7)
        rng = np.random.default_rng(0)
        layer, many = Linear(3, 4096, rng=rng), Tensor(rng.standard_normal((7, 3, 3)))
        layer.bias.data[:] = rng.standard_normal(4096)
        one, other = gelu(layer(many)), linear_gelu(many, layer.weight, layer.bias)
        check("(7, 3, 3) to 4,096 features: 21 rows, 8 in a piece", other.shape, (7, 3, 4096))
        rows = np.abs(one.data - other.data).reshape(21, 4096).max(axis=1) < 1e-5
        check("rows that are right", int(rows.sum()), 21, {8: "only the first piece is done", 16: "the last, shorter piece is left out"})
        events = []
        with listen(events.append):
            linear_gelu(many, layer.weight, layer.bias)
        check("ops that pass the door", [event.op.name for event in events], ["linear_gelu"])
        x, weight, bias = (Tensor(rng.standard_normal(shape), True, dtype=np.float64) for shape in ((5, 3), (3, 4), (4,)))
        check("the rule agrees with differences", check_rule(linear_gelu, x, weight, bias) < 1e-6, True)


    test_linear_gelu()

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import event_flops

    wide = Linear(512, 1024, rng=rng)
    x = Tensor(rng.standard_normal((1024, 512)))
    chains = {"linear, nine ops": Sequential(wide, GELU()), "two ops": Sequential(wide, FusedGELU()), "one op": LinearGELU(wide)}
    for name, chain in chains.items():
        found = points[name] = profiler.profile_forward_pass(chain, x, iterations=3)
        kept = profiler.measure_memory(chain, x.shape)
        print(f"{name:>18}: {sum(row['bytes'] for row in found['layers'] if row['type'] != 'Sequential') / 1024**2:6.0f} MB moved, {kept['activation_memory_mb']:5.0f} MB kept for the way back, peak {kept['peak_memory_mb']:5.0f} MB, {found['latency_ms']:6.1f} ms")
    told = profiler.compare(chains["two ops"], chains["one op"], x, rounds=6)
    print("\none op against two:", compare_table(told), sep="\n")
    for name in ("two ops", "one op"):
        heard = []
        with listen(heard.append):
            chains[name](x).sum().backward()
        print(f"there and back, {name}: {sum(map(event_flops, heard)) / 1e9:.2f} GFLOPs")

# %% [markdown]
"""
In time, this last step gains little or nothing, and the bytes had said so before: the product's result is written, read and written again in both spellings. What the one op saves is *room*: one array less at the peak, one less kept for the way back. It is paid for by one more product there, as the last two lines say. So it is a choice, not a victory.

**What if** the product, too, were done some rows at a time, so that its result is still in the cache when GELU comes? Then h never goes to memory. But each piece of rows needs *all* of the weight:
"""

# %%
if __name__ == "__main__":
    def chain_by_rows(step):
        """Return an op that does product and GELU for ``step`` rows at a time."""
        def run(x, weight, bias):
            out = np.empty((len(x), weight.shape[1]), x.dtype)
            for start in range(0, len(x), step):
                gelu_into(out[start:start + step], x[start:start + step] @ weight + bias)
            return out
        return op(shape=linear_shape)(run)


    for step in (4, 32, 256, 1024):
        took = profiler.measure_latency(lambda x, step=step: chain_by_rows(step)(x, wide.weight, wide.bias), x, warmup=1, iterations=3)
        print(f"{step:5} rows at a time: weight goes by {len(x) // step:4} times, {len(x) // step * wide.weight.nbytes / 1024**2:6,.0f} MB of it; {took:7.1f} ms")

# %% [markdown]
"""
Section 3 again, seen from the other side: a product with few rows uses each number of the weight a few times only. What is good for GELU (small pieces) is bad for the product (large ones). An op that is to please both must cut both ways at once, *inside* the product, and that takes a compiler.
"""

# %% [markdown]
"""
## 8. A model, rebuilt

**Question.** Nobody wants to write models with fused layers by hand. Can a finished, trained model be turned into one?

`replace_layers(model, change)` of Module 15 makes a copy of a model in which each layer is what `change(layer)` says. A lone GELU is easy: it becomes `FusedGELU()`. A *pair* is not one layer but two neighbours in a list.

**Task.** Write `fuse_pairs(layers)`: a new list in which each `Linear` that is directly followed by a `GELU` has become a `LinearGELU`, and the GELU behind it an empty `Sequential()`, which lets everything pass. So nothing moves up, and every weight keeps its name (`layers.2.weight`): what was saved from the one model loads into the other. All others stay the same objects. A subclass of `Linear` may compute something else: ask `type(layer) is Linear`.

Example: `[Linear, GELU, Linear]` becomes `[LinearGELU, Sequential(), Linear]`.

<details><summary>Hint 1: idea</summary>
Copy the list; then look at each place and the one behind it.
</details>
<details><summary>Hint 2: approach</summary>
Read from the old list, write into the new one: then a pair cannot be spoilt by the pair before it. The last place has none behind it.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Double each number that a 0 follows: <code>new = list(row); for i in range(len(row) - 1): if row[i + 1] == 0: new[i] = 2 * row[i]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "fuse-pairs", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def fuse_pairs(layers):
    """Return layers, as many as came: each Linear with a GELU behind it is a LinearGELU and an empty Sequential."""
    raise NotImplementedError("fuse_pairs: section 8, cell 1")

# %%
if __name__ == "__main__":
    print(fuse_pairs([Linear(4, 3), GELU(), Linear(3, 2), GELU(), GELU()]))

# %% [markdown]
"""
Given: `fuse`. Three kinds of layers are changed: a GELU wherever it stands, a `Sequential` with pairs in it, and the `MLP` of Module 13, whose pair stands in two attributes. A model that calls the *function* `gelu` in a forward of its own is left as it is: what a function does inside cannot be seen from outside.
"""

# %%
#| export
def fused_layer(layer):
    """Return what ``fuse`` puts in the place of a layer: the layer itself where there is nothing to fuse."""
    if type(layer) is GELU:
        return FusedGELU()
    if type(layer) is Sequential:
        new = copy(layer)
        new.layers = fuse_pairs(layer.layers)
        return layer if all(one is old for one, old in zip(new.layers, layer.layers)) else new
    if type(layer) is MLP:
        new = copy(layer)
        new.fc1, new.activation = fuse_pairs([layer.fc1, layer.activation])
        return layer if new.fc1 is layer.fc1 else new
    return layer


def fuse(model):
    """Return a new model that computes the same in fewer passes: each GELU is one op, or one with the Linear before it.

    Changed are GELU layers, pairs in a ``Sequential``, and ``MLP``; calls of the function ``gelu`` are not. Weights
    keep their names, values and ties; the model itself stays as it is. In the place of a pair's Linear stands the whole
    pair: who calls that layer alone (``model.layers[0](x)``) gets GELU of it. A backward pass computes each pair's
    product once more.
    """
    return replace_layers(model, fused_layer)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-fuse", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "model"}
if __name__ == "__main__":
    from tinytorch.core.transformers import TransformerBlock


    def test_fuse():
        """Pairs and no pairs, weights, names, the old model."""
        rng = np.random.default_rng(0)
        layers = [Linear(4, 3, rng=rng), GELU(), GELU(), Linear(3, 3, rng=rng), Linear(3, 2, rng=rng), GELU()]
        new = fuse_pairs(layers)
        check("Linear GELU GELU Linear Linear GELU", [type(layer).__name__ for layer in new], ["LinearGELU", "Sequential", "GELU", "Linear", "LinearGELU", "Sequential"], {
            ("LinearGELU", "GELU", "Linear", "LinearGELU"): "the list has become shorter, and the weights other names: leave an empty Sequential() behind",
            ("LinearGELU", "GELU", "GELU", "Linear", "LinearGELU", "GELU"): "GELU would be applied twice: an empty Sequential() goes in its place",
            ("LinearGELU", "Sequential", "GELU", "Linear", "Linear", "GELU"): "the last pair is left out",
            ("LinearGELU", "Sequential", "GELU", "LinearGELU", "LinearGELU", "Sequential"): "a Linear with no GELU behind it is fused, too"})
        check("the list that came is as it was", [type(layer).__name__ for layer in layers], ["Linear", "GELU", "GELU", "Linear", "Linear", "GELU"], {
            ("LinearGELU", "Sequential", "GELU", "Linear", "LinearGELU", "Sequential"): "the list that came was written into: copy it first"})
        check("who is in no pair is the same object", (new[2] is layers[2], new[3] is layers[3]), (True, True))
        check("the weights are the layer's own", (new[0].weight is layers[0].weight, new[4].bias is layers[4].bias), (True, True))
        check("no layers, one layer", [fuse_pairs([]), len(fuse_pairs([GELU()]))], [[], 1])

        class Shifted(Linear):
            def forward(self, x):
                return super().forward(x) + 1.0

        check("a Linear that computes something else stays", [type(layer).__name__ for layer in fuse_pairs([Shifted(2, 2), GELU()])], ["Shifted", "GELU"], {
            ("LinearGELU", "Sequential"): "a subclass may compute something else: ask for type(layer) is Linear"})
        model, x = Sequential(layers), Tensor(rng.standard_normal((5, 4)))
        fused = fuse(model)
        check("the same numbers", bool(np.allclose(fused(x).data, model(x).data, rtol=1e-5, atol=1e-6)), True)
        check("the same names", list(fused.state_dict()), ["layers.0.weight", "layers.0.bias", "layers.3.weight", "layers.3.bias", "layers.4.weight", "layers.4.bias"])
        block = fuse(TransformerBlock(8, 2, rng=rng))
        check("a transformer block's MLP", (type(block.mlp.fc1).__name__, type(block.mlp.activation).__name__), ("LinearGELU", "Sequential"))


    test_fuse()

# %% [markdown]
"""
## 9. Prove it, and measure again

**Question.** Is the new reader of digits the same as the old one? And what did it all gain?

First the proof. `compare` refuses to time anything before the results agree: shape, type, every number within 1e-5 relative and 1e-6 absolute, and every decision, here the digit that is read. Nothing is approximated, so no looser tolerance is needed; not bit for bit, since the turned formula rounds in other places.
"""

# %%
if __name__ == "__main__":
    fast = fuse(reader)
    told = profiler.compare(reader, fast, Tensor(unseen), decision=lambda scores: scores.argmax(axis=-1), rounds=6)
    worst = told["worst_difference"]
    print(f"355 unseen digits: scores at most {worst['abs']:.2g} apart ({worst['allowed']:.2g} allowed), all decisions equal")
    right = [(model(Tensor(unseen)).argmax(axis=-1) == Tensor(answers)).sum().item() for model in (reader, fast)]
    print(f"right before {right[0]}, after {right[1]}; parameters {profiler.count_parameters(reader):,} and {profiler.count_parameters(fast):,}; FLOPs per digit {profiler.count_flops(reader, (1, 64)):,} and {profiler.count_flops(fast, (1, 64)):,}")

# %% [markdown]
"""
Every decision is the same, so accuracy is the same, exactly, and no interval is needed. Now the gain:
"""

# %%
if __name__ == "__main__":
    after = profiler.profile_forward_pass(fast, Tensor(images))
    print(layer_table(after))
    whole = profiler.compare(reader, fast, Tensor(images), rounds=8)
    print(f"\nbytes {before['layers'][0]['bytes']:,} -> {after['layers'][0]['bytes']:,}")
    print(compare_table(whole))
    low, high = sorted(1 / end for end in whole["interval"])
    print(f"{1 / whole['ratio']:.2f} times as fast ({low:.2f} to {high:.2f}); Amdahl allowed {1 / max(1 - gelu_share, 0.01):.2f} at most")

# %%
if __name__ == "__main__":
    limits = profiler.machine_limits()
    bandwidth = limits.bandwidth(2 * large.nbytes)
    reach = np.logspace(-1.5, 3, 100)
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(reach, np.minimum(limits.peak_gflops, reach * bandwidth), color="black", label="roofs of this machine")
    points["linear"] = profiler.profile_forward_pass(wide, x, iterations=3)
    for name, found in points.items():
        intensity, reached = found["flops"] / found["layers"][0]["bytes"], found["gflops_per_second"]
        roof = min(limits.peak_gflops, intensity * bandwidth)
        axes.plot(intensity, reached, "o", label=f"{name}: {intensity:.3g} FLOPs a byte, {reached:.3g} GFLOP/s, {reached / roof:.0%} of its roof")
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte", ylabel="GFLOP/s", title="Before and after")
    axes.legend(fontsize=7)
    plt.show()

# %% [markdown]
"""
Fusing moves a point to the *right* (more FLOPs per byte), and, as it was under the slanted roof, up. How near it comes to the roof above it stands in the legend. Composed, GELU cannot rise above a roof that low, whoever computes it: memory is a wall for it. Fused, the roof is eleven times as high, and the distance that is left to it has another cause, that of section 5. (A point *above* a roof only says that the machine was busier in the moment when its roofs were measured; `machine_limits(refresh=True)` measures them anew.)

**A small batch.** One digit at a time, the arrays are 1 KiB; everything is in the cache anyway, and bytes are not what it waits for. **Guess**: does fusing help there?
"""

# %%
if __name__ == "__main__":
    single = profiler.compare(reader, fast, Tensor(unseen[:1]), rounds=12)
    counts = []
    for model in (reader, fast):
        heard = []
        with listen(heard.append):
            model(Tensor(unseen[:1]))
        counts.append(len(heard))
    print(f"one digit: {single['baseline_ms'] * 1e3:.0f} µs and {single['candidate_ms'] * 1e3:.0f} µs, {1 / single['ratio']:.2f} times as fast ({single['verdict']}); ops {counts[0]} and {counts[1]}")

# %% [markdown]
"""
It does, and for another reason: far fewer ops, each of which costs its dispatch. The same change, two causes; the profile of the model *as it will run* says which one counts.

**What it means for a real model.** GPT-2 small, 1,024 tokens, on shapes only (nothing is computed, no weight exists): how many of its bytes move for GELU, before and after? What does training keep for it? And what does it make of the FLOPs?
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import shape_only
    from tinytorch.perf.profiling import run_on_shapes
    from tinytorch.zoo import gpt2_small

    with shape_only():
        big = gpt2_small()
        big_fused = fuse(big)
    for name, model in (("as written", big), ("fused", big_fused)):
        heard = run_on_shapes(model, (1, 1024), np.int64).events
        moved, work = sum(map(event_bytes, heard)), sum(event_flops(event) for event in heard)
        print(f"{name:>10}: {len(heard):,} ops, {work:,} FLOPs, {moved / 1e9:.2f} GB moved")
    per_layer = 1024 * 3072 * 4
    print(f"GELU in one layer: {22 * per_layer / 1e6:.0f} MB composed, {2 * per_layer / 1e6:.0f} MB fused; kept for the way back in 12 layers, for each array of (1024, 3072): {12 * per_layer / 1e6:.0f} MB")

# %% [markdown]
"""
**Transfer.** What else in a transformer is a composition of many passes? Layer norm (mean, distance, square, mean, root, division, scale, shift) and the softmax of attention, whose arrays grow with the square of the text. You have the tool for it: write `fused_layer_norm` in pieces of *rows*, and let `compare` judge. Fusing the softmax *with both products around it*, in tiles, so that the table of weights never exists in memory, is FlashAttention (Dao and others, 2022); it is what sections 3 to 7 of this module are, done at once. How much would it save?
"""

# %%
if __name__ == "__main__":
    for name, model, scopes in (("layer norm", big, ("LayerNorm",)), ("attention", big, ("MultiHeadAttention",)), ("GELU", big, ("GELU",))):
        heard = run_on_shapes(model, (1, 1024), np.int64).events
        mine = [event for event in heard if any(scope.name in scopes for scope in event.scope) and event.op.name not in ("linear", "matmul")]
        print(f"{name:>10}: {len(mine) // (25 if name == 'layer norm' else 12):3} ops each, {sum(map(event_bytes, mine)) / 1e9:6.2f} GB, {sum(map(event_bytes, mine)) / sum(map(event_bytes, heard)):.0%} of all bytes")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>"Fusing is faster because it computes less." What is wrong?</summary>
FLOPs are the same to the last one, and the profile says so. It moves less, and calls less. Where neither memory nor calls are the wall, fusing gains nothing.
</details>
<details><summary>Why do tiles lose in <code>tiled_matmul</code> and win in <code>fused_gelu</code>?</summary>
Because of who did it before. Below <code>@</code> somebody had tiled already, better. Between nine ops nobody could: each op sees only its own array.
</details>
<details><summary>Bytes promised eleven times as fast. Which of your numbers says what stood in the way?</summary>
The time of a single piece, which never leaves the cache, times the number of pieces (section 5): what is left is mostly that, a tanh for each number and seven other passes over each piece.
</details>
<details><summary>Is a compiler (XLA, TorchInductor, Triton) able to do better than your pieces?</summary>
Yes: it writes one loop that takes a number through all steps in registers. Your eight passes over a piece become none. You keep the cache from being missed; it does without the cache.
</details>
<details><summary>The fused op computes things again on the way back. When is that a bad bargain?</summary>
When recomputing is dear beside the memory that it saves: for <code>linear_gelu</code> it is a whole product, for <code>fused_gelu</code> a few cheap passes. And when memory is not short.
</details>
<details><summary>What the profile named has become cheaper. What next?</summary>
Profile again. Another row may be the first now; Amdahl's law starts anew, with another model before it.
</details>

`tito test acceleration` checks the module; once all of it passes, `tito module complete acceleration` puts what you wrote into the package, and later modules run on your code. Next: Module 19, in which many models are measured at once, and none is believed after a single number.
"""
