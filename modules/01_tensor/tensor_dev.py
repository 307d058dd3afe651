# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "01_tensor", "release": "3e2697124b042828"}
# ---

# %% [markdown]
"""
# 01 · Tensor

Tier: Foundation · Difficulty 2 of 4 · About 2½ hours · Needs nothing before it

Every deep-learning framework begins with one object, a block of numbers with a shape, and one rule about it: *who may
compute with it*. In TinyTorch that rule is strict. Every computation passes through one door. Because it does, you will later
be able to count, time and differentiate **any** model, including models nobody has thought of yet.

**Build** the shape rules and the arithmetic of a tensor → **use** them to watch a computation happen → **reflect** on what
one door buys.

When you are done you can
1. say which dtype a tensor gets and why int8 data must stay int8;
2. predict the shape of any broadcast, matrix product, reduction or view before it is computed;
3. write an operation as a NumPy function plus a shape rule;
4. listen at the door and report what ran;
5. run a computation *on shapes only*, with no numbers and no memory.

Yours: every shape rule, the arithmetic, the products, the views, and the first instrument. Given and explained: the door and the small parts it
stands on (sections 3 and 4 are mostly for reading; the heart, `Op.__call__`, is less than thirty lines), and the operations that only repeat a pattern.

A cell you have not filled says which one it is: `reshape: section 6, cell 2` is the function `reshape` in the second code cell of section 6.
"""

# %%
#| default_exp core.tensor

# %%
#| export
import threading
from contextlib import contextmanager
from copy import deepcopy
from math import prod
from time import perf_counter_ns
from types import FunctionType
from typing import NamedTuple

import numpy as np

# %% [markdown]
"""
## 1. What a tensor holds

**Question.** You write `Tensor([1, 2, 3])`. Is that three integers, three 64-bit floats, or three 32-bit floats?

NumPy says 64-bit integers. Deep learning wants 32-bit floats: half the memory of float64, and precise enough to train. But
data that *already* has a type chosen on purpose must keep it. An int8 weight that quietly becomes float32 weighs four times as much, and
every statement about its memory is then false. Look at the weights of one million numbers:
"""

# %%
if __name__ == "__main__":
    for dtype in (np.float64, np.float32, np.float16, np.int8):
        print(f"{np.dtype(dtype).name:>8}: {np.zeros(1_000_000, dtype).nbytes / 1024**2:5.2f} MB")

# %% [markdown]
"""
**Task.** Write `as_array(data, dtype=None)`: whatever comes in, a NumPy array goes out.

| what comes | what it becomes when `dtype` is `None` |
|---|---|
| a Python number or a (nested) list | float32 |
| a float64 array or float64 NumPy scalar | float32 |
| any other array: int8, int64, bool, float16, float32 | itself, the **same memory**, no copy |
| text, objects, a ragged list | `TypeError` with a one-line message, such as `Tensor: a ragged list came; every row must have the same length` |

When `dtype` is given it wins. Example: `as_array([1, 2]).dtype` is `float32`, `as_array(np.int8([1, 2])).dtype` is `int8`.

<details><summary>Hint 1: idea</summary>
Let NumPy make an array of it first; then decide whether its type was chosen on purpose.
</details>
<details><summary>Hint 2: approach</summary>
Was the data a NumPy array or NumPy scalar (<code>np.ndarray</code>, <code>np.generic</code>) before? If not, its type is NumPy's guess and becomes
float32. float64 is NumPy's default, so it becomes float32 too. <code>array.dtype.kind</code> is one of <code>"f"</code>, <code>"i"</code>,
<code>"u"</code>, <code>"b"</code> for what we accept. A ragged list makes <code>np.asarray</code> raise <code>ValueError</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>np.asarray([True, False])</code> is bool, but it came from a list, so the answer is float32 <code>[1., 0.]</code>. <code>np.asarray("abc").dtype.kind</code> is
<code>"U"</code>: refuse.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "as-array", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def as_array(data, dtype=None):
    """Turn numbers, lists or arrays into an array; share memory unless the type must change.

    Python numbers, lists and float64 become float32; every other NumPy type is kept, so int8 stays one byte.
    Raises ``TypeError`` for text, objects and ragged lists.
    """
    raise NotImplementedError("as_array: section 1, cell 2")

# %%
if __name__ == "__main__":
    for data in (3, [1, 2], np.array([1.0, 2.0]), np.array([1, 2], np.int8)):
        print(f"{type(data).__name__:>8} -> {as_array(data).dtype}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-as-array", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "data"}
if __name__ == "__main__":
    from tito.checks import check, check_raises


    def test_as_array():
        """Types, shared memory, refusals."""
        check("a list of integers", as_array([1, 2, 3]).dtype.name, "float32", {"int64": "NumPy's guess was kept"})
        check("a float64 array", as_array(np.array([1.5])).dtype.name, "float32", {"float64": "float64 was kept"})
        check("an int8 array", as_array(np.array([1, -2], np.int8)).nbytes, 2, {8: "int8 was turned into float32: 4x the bytes"})
        check("a float16 array", as_array(np.ones(3, np.float16)).dtype.name, "float16", {"float32": "float16 was widened"})
        check("dtype=float64 wins", as_array([1, 2], np.float64).dtype.name, "float64")
        shared = np.zeros(4, np.float32)
        check("float32 memory is shared", np.shares_memory(as_array(shared), shared), True, {False: "a copy was made"})
        check_raises("text is refused", TypeError, lambda: as_array("abc"))
        check_raises("a ragged list is refused", TypeError, lambda: as_array([[1, 2], [3]]))


    test_as_array()

# %% [markdown]
"""
**What if** you pass a list of booleans? Guess, then change the cell above and look. For a real model: 7 billion parameters
in int8 weigh a quarter of what they weigh in float32, *if* the framework keeps them int8.
"""

# %%
if __name__ == "__main__":
    for dtype in (np.float32, np.int8):
        print(f"7e9 parameters in {np.dtype(dtype).name}: {7e9 * np.dtype(dtype).itemsize / 1024**3:.1f} GB (1024³)")

# %% [markdown]
"""
## 2. Shapes before numbers

**Question.** Can you know the shape of a result without computing it?

Always, and for free. A *shape rule* is a function from input shapes to the output shape. It needs no arrays. We write the
rules first, as plain functions on tuples, because three things will live on them: error messages that name the sizes, counting
FLOPs of models too large for this machine, and tests that compare prediction with reality.

**Broadcasting** lines shapes up at the *right* and lets a size of 1 stretch:

```
    (8, 1, 6)
       (7, 1)
    ---------
    (8, 7, 6)
```

**Task.** Write `broadcast_shape(*shapes)`: the shape that all of them stretch to. Two sizes fit when they are equal or one of them is 1
(a size of 0 and a 1 give 0). Otherwise raise `ValueError`; its message names both shapes, written as tuples, in words of your own,
such as `(2, 3) and (4,): sizes 3 and 4 do not broadcast`.
Example: `broadcast_shape((4, 1), (3,))` is `(4, 3)`; `broadcast_shape()` is `()`. Do not build arrays.

<details><summary>Hint 1: idea</summary>
Walk from the last axis to the first. A shape that has run out of axes behaves as if it had a 1 there.
</details>
<details><summary>Hint 2: approach</summary>
Start with <code>out = ()</code> and merge one shape after another: pad the shorter with leading ones, then go through the pairs of sizes.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(5, 1, 2)</code> with <code>(3, 1)</code>: pad to <code>(1, 3, 1)</code>; pairs <code>5,1</code> <code>1,3</code> <code>2,1</code>; result <code>(5, 3, 2)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "broadcast-shape", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def broadcast_shape(*shapes):
    """Return the shape that all ``shapes`` broadcast to: aligned at the right, a 1 stretches.

    Raises ``ValueError`` that names both shapes.
    Source: NumPy's broadcasting rules.
    """
    raise NotImplementedError("broadcast_shape: section 2, cell 1")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-broadcast-shape", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "shapes"}
if __name__ == "__main__":
    def test_broadcast_shape():
        """Alignment, stretching, size 0, refusal."""
        check("(2,1) with (2,)", broadcast_shape((2, 1), (2,)), (2, 2), {(2, 1): "aligned at the left, not at the right"})
        check("(8,1,6) with (7,1)", broadcast_shape((8, 1, 6), (7, 1)), (8, 7, 6))
        check("(3,) with (4,1)", broadcast_shape((3,), (4, 1)), (4, 3))
        check("a scalar with (2,3)", broadcast_shape((), (2, 3)), (2, 3))
        check("no shapes at all", broadcast_shape(), ())
        check("three shapes", broadcast_shape((2, 1, 1), (3, 1), (4,)), (2, 3, 4), {
            (3, 4): "the first shape was left out", (2, 3, 1): "the last shape was left out"})
        check("size 0 with 1", broadcast_shape((0, 3), (1, 3)), (0, 3), {(1, 3): "max(0, 1) is not the rule: a 1 takes the other size"})
        for shape in ("(2, 3)", "(4,)"):
            check_raises(f"(2,3) with (4,) is refused, naming {shape}", ValueError, lambda: broadcast_shape((2, 3), (4,)), must_say=shape)


    test_broadcast_shape()

# %% [markdown]
"""
**Matrix product.** `(m, k) @ (k, n)` is `(m, n)`. With more axes, the last two are the matrix and the ones before them broadcast:

```
(8, 1, 5, 4) @ (3, 4, 2):   leading (8, 1) and (3,) broadcast to (8, 3)      (5, 4) @ (4, 2) is (5, 2)
                            result (8, 3, 5, 2)
```

A one-axis operand is a vector: on the left it is a row whose axis vanishes from the result, on the right a column whose axis vanishes.
`(k,) @ (k, n)` is `(n,)`; `(m, k) @ (k,)` is `(m,)`; `(k,) @ (k,)` is `()`.

**Task.** Write `matmul_shape(a, b)`. Inner sizes that differ: `ValueError` whose message names both shapes, such as `(2, 3) @ (4, 5): inner sizes 3 and 4 differ`. A scalar operand: `ValueError` too.

<details><summary>Hint 1: idea</summary>
Turn vectors into matrices, answer for matrices, then take the borrowed axis away again.
</details>
<details><summary>Hint 2: approach</summary>
<code>a2 = (1, *a) if len(a) == 1 else a</code>, and <code>b2 = (*b, 1)</code> for a vector. The result is <code>broadcast_shape(a2[:-2], b2[:-2])</code> followed by rows and columns,
each only when it was not borrowed.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(6,) @ (9, 6, 7)</code>: as <code>(1, 6) @ (9, 6, 7)</code> it is <code>(9, 1, 7)</code>; the borrowed row goes: <code>(9, 7)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "matmul-shape", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def matmul_shape(a, b):
    """Return the shape of ``a @ b``: (..., m, k) @ (..., k, n) -> (..., m, n); leading axes broadcast.

    A one-axis operand is a vector and its axis is contracted away.
    Raises ``ValueError`` on scalars and unequal inner sizes.
    """
    raise NotImplementedError("matmul_shape: section 2, cell 3")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-matmul-shape", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "shapes"}
if __name__ == "__main__":
    def test_matmul_shape():
        """Matrices, batches, vectors, refusals."""
        check("(2,3) @ (3,4)", matmul_shape((2, 3), (3, 4)), (2, 4))
        check("(8,1,5,4) @ (3,4,2)", matmul_shape((8, 1, 5, 4), (3, 4, 2)), (8, 3, 5, 2), {
            (8, 1, 5, 2): "the leading axes of b were left out: they broadcast", (8, 1, 3, 5, 2): "the leading axes were put side by side: they broadcast"})
        check("(3,) @ (3,4)", matmul_shape((3,), (3, 4)), (4,), {(1, 4): "the borrowed row is still there"})
        check("(2,3) @ (3,)", matmul_shape((2, 3), (3,)), (2,), {(2, 1): "the borrowed column is still there"})
        check("(3,) @ (3,)", matmul_shape((3,), (3,)), ())
        check("(5,2,3) @ (3,)", matmul_shape((5, 2, 3), (3,)), (5, 2))
        check("an empty batch", matmul_shape((0, 2, 3), (3, 4)), (0, 2, 4))
        for shape in ("(2, 3)", "(4, 5)"):
            check_raises(f"(2,3) @ (4,5) is refused, naming {shape}", ValueError, lambda: matmul_shape((2, 3), (4, 5)), must_say=shape)
        check_raises("a scalar", ValueError, lambda: matmul_shape((), (3,)))


    test_matmul_shape()

# %% [markdown]
"""
**Reductions** take axes away (or leave them as 1, with `keepdims`). `axis` may be `None` (all of them), an int, or a tuple of ints, and a negative axis counts from the end.

**Task.** Write `reduce_shape(a, axis=None, keepdims=False)`.
Example: `reduce_shape((2, 3, 4), axis=-1)` is `(2, 3)`; with `keepdims=True` it is `(2, 3, 1)`. Given below: `normalize_axes(rank, axis)`. It turns every way of naming axes into a tuple of
numbers from 0, and raises the `ValueError` for an axis that does not exist or comes twice. Call it and no refusal is left to write.

<details><summary>Hint 1: idea</summary>
Go through the sizes together with their numbers; each is kept, dropped, or turned into 1.
</details>
<details><summary>Hint 2: approach</summary>
<code>axes = normalize_axes(len(a), axis)</code> first. Then one <code>tuple(... for i, n in enumerate(a) ...)</code> with <code>keepdims</code> and one without.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(7, 8, 9)</code> over <code>(0, -1)</code>: the axes are 0 and 2; without <code>keepdims</code> <code>(8,)</code> is left, with it <code>(1, 8, 1)</code>.
</details>
"""

# %%
#| export
def normalize_axes(rank, axis):
    """Return ``axis`` (None, int or tuple) as a tuple of axes in 0..rank-1; ``ValueError`` when one does not exist."""
    axes = tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)):
            raise TypeError(f"axis {one!r}: want an integer")
        if not -rank <= one < rank:
            raise ValueError(f"axis {one} does not exist in a tensor of {rank} axes")
    axes = tuple(int(one) % rank for one in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis}: the same axis twice")
    return axes

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "reduce-shape", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def reduce_shape(a, axis=None, keepdims=False):
    """Return the shape of ``a`` after reducing ``axis`` (None: all); with ``keepdims`` a reduced axis stays as 1."""
    raise NotImplementedError("reduce_shape: section 2, cell 6")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-reduce-shape", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "shapes"}
if __name__ == "__main__":
    def test_reduce_shape():
        """All axes, one, several, negative, kept."""
        check("all of (2,3,4)", reduce_shape((2, 3, 4)), (), {(2, 3, 4): "the axes that go were kept", (1, 1, 1): "keepdims is not wanted here"})
        check("axis -1 of (2,3,4)", reduce_shape((2, 3, 4), -1), (2, 3), {
            (2, 3, 4): "nothing went: a negative axis counts from the end", (4,): "the axis that goes was kept"})
        check("axes 0 and 2 of (2,3,4)", reduce_shape((2, 3, 4), (0, 2)), (3,))
        check("axis 1, kept", reduce_shape((2, 3, 4), 1, keepdims=True), (2, 1, 4), {(2, 4): "keepdims was ignored"})
        check("all, kept", reduce_shape((2, 3), None, keepdims=True), (1, 1))
        check_raises("axis 3 of three axes", ValueError, lambda: reduce_shape((2, 3, 4), 3))
        check_raises("the same axis twice", ValueError, lambda: reduce_shape((2, 3, 4), (1, -2)))


    test_reduce_shape()

# %% [markdown]
"""
**Views** show the same numbers in another shape and move nothing. `reshape` keeps the count of elements; one size may be `-1`, "whatever is left over".

**Task.** Write `reshape_shape(a, shape)`. Example: `(2, 3, 4)` to `(4, -1)` is `(4, 6)`. Refuse, with a `ValueError` whose message
names both shapes (such as `(6,) to (4,): 6 elements do not fill that shape`): two `-1`s, any other negative size, a count that does not divide, a count that differs. (`-1` together with a size 0
cannot be worked out: refuse it too.)

<details><summary>Hint 1: idea</summary>
Count the elements that came, and those the known sizes of the new shape make. The two must agree, or, with a <code>-1</code>, one must divide the other.
</details>
<details><summary>Hint 2: approach</summary>
<code>prod</code> from <code>math</code> multiplies; of nothing it is 1, which is right for <code>()</code>. <code>shape.count(-1)</code> says how many are unknown. Beware of dividing by a known product of 0.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(5, 6)</code> to <code>(3, -1, 2)</code>: 30 elements, known sizes make 6, 30 / 6 leaves 5: <code>(3, 5, 2)</code>. To <code>(4, -1)</code>: 30 is not a multiple of 4, refuse.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "reshape-shape", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def reshape_shape(a, shape):
    """Return ``shape`` with a -1 filled in so that it holds as many elements as ``a``, or raise ``ValueError``."""
    raise NotImplementedError("reshape_shape: section 2, cell 8")

# %%
#| export
def transpose_shape(a, axes):
    """Return ``a`` with its axes in the order ``axes``; ``ValueError`` unless each axis is named once."""
    order = normalize_axes(len(a), tuple(axes))
    if len(order) != len(a):
        raise ValueError(f"{a} with axes {tuple(axes)}: every axis must be named once")
    return tuple(a[i] for i in order)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-reshape-shape", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "shapes"}
if __name__ == "__main__":
    def test_reshape_shape():
        """Fill in -1, keep the count, refuse."""
        check("(2,3,4) to (4,-1)", reshape_shape((2, 3, 4), (4, -1)), (4, 6), {(4, -1): "the -1 was not filled in", (4, 24): "the -1 is what is left for it: 24 / 4"})
        check("(6,) to (2,3)", reshape_shape((6,), (2, 3)), (2, 3))
        check("() to (1,1)", reshape_shape((), (1, 1)), (1, 1))
        check("(0,3) to (3,0)", reshape_shape((0, 3), (3, 0)), (3, 0))
        for shape in ("(6,)", "(4,)"):
            check_raises(f"6 into (4,) is refused, naming {shape}", ValueError, lambda: reshape_shape((6,), (4,)), must_say=shape)
        check_raises("6 into (4,-1)", ValueError, lambda: reshape_shape((6,), (4, -1)))
        check_raises("two unknowns", ValueError, lambda: reshape_shape((6,), (-1, -1)))
        check_raises("-1 beside 0", ValueError, lambda: reshape_shape((0, 3), (0, -1)))


    test_reshape_shape()

# %% [markdown]
"""
## 3. The door

**Question.** A framework has hundreds of operations. How can a profiler see *all* of them, and how can it be sure?

If each operation were an ordinary function, the profiler would have to replace every one of them, and it would miss the one you add tomorrow. So we
let operations exist only as objects of one class, `Op`. Calling an `Op` is the only way to compute, and `Op.__call__` is the door:

```
tensors ─▶ Op.__call__ ─▶ function of arrays ─▶ Tensor ─▶ the next op
               │
               └─▶ listeners hear an OpEvent: which op, which shapes, how many bytes, when
```

This section is given. Read it as you would read a short story: five small parts, each used by the next.

**Part 1: the state of a thread.** Is a gradient wanted? Are we running on shapes only? In which scope are we? Who listens? Two threads may answer
differently, so each has its own copy.
"""

# %%
#| export
class _State:
    """What one thread's door knows: gradient mode, shape-only mode, the open scopes, who listens.

    In a ``private`` room, an instrument's, those who listen to all threads hear nothing of this one.
    """

    __slots__ = ("grad_enabled", "shape_only", "private", "path", "hearers", "scope_hearers")

    def __init__(self):
        self.grad_enabled = True
        self.shape_only = self.private = False
        self.path = ()
        self.hearers = ()
        self.scope_hearers = ()


class _Thread(threading.local):
    """One ``_State`` for every thread that asks."""

    def __init__(self):
        self.state = _State()


_thread = _Thread()
_everywhere: tuple[list, list] = ([], [])  # hearers of ops and of scopes, in all threads
_clocks = [perf_counter_ns]  # the first is the door's clock, in nanoseconds; whoever listens may hand in another


def thread_state():
    """Return this thread's door state; its ``grad_enabled`` says whether ops remember how they were made."""
    return _thread.state

# %% [markdown]
"""
**Part 2: events and scopes.** An `OpEvent` is what a listener hears: plain data, no array. A *scope* is a named region; layers will open one around their `forward`, so that
an event knows in which layer it happened.
"""

# %%
#| export
class OpEvent(NamedTuple):
    """One computation that passed the door. Shapes are tuples, times are the door's clock; no array is kept."""

    op: "Op"
    in_shapes: tuple
    out_shape: tuple
    num_bytes: int  # algorithmic traffic: inputs read and output written; 0 where a view moves nothing
    attrs: dict
    scope: tuple
    start_ns: int
    end_ns: int


_new_event = tuple.__new__  # what OpEvent(...) does in the end, in half the time


class Scope(NamedTuple):
    """One open region: its label and, for a layer, the ``id`` of the layer that opened it."""

    name: str
    owner: int | None = None


class scope:
    """Label a region: ``with scope("attention"): ...``; events inside carry it in their ``scope`` path."""

    __slots__ = ("entry",)

    def __init__(self, name, owner=None):
        self.entry = Scope(name, owner)

    def __enter__(self):
        state = _thread.state
        before = state.path
        state.path = (*before, self.entry)
        if state.scope_hearers or _everywhere[1]:
            try:
                _tell_scope(state, True, self.entry)
            except BaseException:
                state.path = before
                raise
        return self

    def __exit__(self, *exc):
        state = _thread.state
        try:
            if state.scope_hearers or _everywhere[1]:
                _tell_scope(state, False, self.entry)
        finally:
            path = state.path
            state.path = path[:-1] if path and path[-1] is self.entry else _without(path, self.entry)


def _without(path, entry):
    """Return the path without the last ``entry``: what was opened later is still open, as in a suspended generator."""
    for i in reversed(range(len(path))):
        if path[i] is entry:
            return path[:i] + path[i + 1:]
    raise ValueError(f"scope {entry.name!r} is not open in this thread; leave it in the thread that entered it")


def _tell_scope(state, opened, entry):
    """Tell whoever hears scopes that one was opened, or closed."""
    now = _clocks[0]()
    for hear in (*state.scope_hearers, *(() if state.private else _everywhere[1])):
        hear(opened, entry, now)

# %% [markdown]
"""
**Bet.** Two scopes are open, and an error leaves both at once. How long is the path inside, and how long afterwards? Write down your numbers, then run.
"""

# %%
if __name__ == "__main__":
    my_bet = (None, None)  # inside, afterwards
    try:
        with scope("block"), scope("attention"):
            inside = thread_state().path
            raise KeyError("half way")
    except KeyError:
        print(f"bet {my_bet}; inside {len(inside)}, afterwards {len(thread_state().path)}: {[entry.name for entry in inside]}")

# %% [markdown]
"""
**Part 3: listening.** `with listen(events.append): ...` hears every op of this thread while the block is open. A listener cannot change a value, so watching a program
cannot change what it computes. Whoever listens may hand in a clock of their own: a test does, and knows every time in advance.
"""

# %%
#| export
def _naming(hear):
    """Return a listener that names the fields of an event, which pass the door as a plain tuple, before ``hear``."""
    return lambda fields: hear(_new_event(OpEvent, fields))


@contextmanager
def listen(hear, scopes=None, all_threads=False, clock=None, bare=False):
    """Call ``hear(event)`` for every op, and ``scopes(opened, entry, time_ns)`` for every scope, inside the block.

    Hears this thread only, or every thread with ``all_threads=True``; what runs in a private room, as a shape-only
    run does, is heard only by those who began to listen inside it. With a ``clock``, a function that reads
    nanoseconds, the door reads that one until the block ends; of several, the one handed in last. A ``bare`` listener
    takes the event's fields as a plain tuple: for one that must be quick.
    """
    state = _thread.state
    if hear is not None and not bare:
        hear = _naming(hear)
    here = state.private or not all_threads
    everywhere = zip(_everywhere, (hear, scopes)) if all_threads else ()
    shared = [(known, call) for known, call in (*everywhere, (_clocks, clock)) if call is not None]
    before = state.hearers, state.scope_hearers
    for known, call in shared:
        known.insert(0, call)
    if here:
        state.hearers = before[0] if hear is None else (*before[0], hear)
        state.scope_hearers = before[1] if scopes is None else (*before[1], scopes)
    try:
        yield
    finally:
        if here:
            state.hearers, state.scope_hearers = before
        for known, call in shared:
            known.remove(call)


def is_heard():
    """Say whether anybody listens to what this thread does now: to its ops or to its scopes."""
    state = _thread.state
    return bool(state.hearers or state.scope_hearers or (any(_everywhere) and not state.private))

# %% [markdown]
"""
**Part 4: hollow arrays.** Can an array have a shape of 20,000 by 20,000 and weigh four bytes? Yes: one number, shown everywhere by giving every axis a stride of 0. Such an array has the
right shape, dtype and size, and no content. Under `shape_only()` every op returns one.
"""

# %%
#| export
def hollow(shape, dtype=np.float32):
    """Return an array of ``shape`` and ``dtype`` that holds a single zero: right in size, a few bytes in memory."""
    array = np.ndarray(shape, dtype, buffer=np.zeros((), dtype), strides=(0,) * len(shape))
    array.flags.writeable = False
    return array


def _is_hollow(array):
    """Say whether an array of several elements holds only one number in memory."""
    return array.size > 1 and not any(array.strides)


@contextmanager
def shape_only():
    """Run ops on shapes only inside the block: nothing is computed, outputs and new weights are hollow.

    The block is a room of its own: outside listeners and scopes do not hear it; what you open inside does.
    """
    state, room = _thread.state, _State()
    room.shape_only, room.private, room.grad_enabled = True, True, state.grad_enabled
    _thread.state = room
    try:
        yield
    finally:
        _thread.state = state


def is_shape_only():
    """Say whether this thread is inside ``shape_only()``."""
    return _thread.state.shape_only

# %%
if __name__ == "__main__":
    big = hollow((20_000, 20_000))
    print(f"shape {big.shape}, nominal {big.nbytes / 1024**3:.1f} GB, really held {big.base.nbytes} bytes, strides {big.strides}")

# %% [markdown]
"""
**Part 5: the door.** Read `__call__` slowly; it is the heart of the framework. Inputs that are not tensors (the `2` in `2 * x`) become tensors of a fitting type. The function runs on the bare arrays, or the shape
rule runs in its place. If a gradient is wanted, the new tensor remembers what made it (Module 05 walks that memory backwards). If somebody listens, an event goes out. When something fails, the shape rule
is asked for the reason, so that the message speaks of shapes and not of NumPy's insides. First its helpers:
"""

# %%
#| export
class Node(NamedTuple):
    """How a tensor was made: the op, its input tensors, its attributes and the scope it ran in."""

    op: "Op"
    inputs: tuple
    attrs: dict
    scope: tuple


_PLAIN = {bool, int, float, str, slice, type, type(None), type(...), np.generic, np.dtype}


def _described(value):
    """Describe an attribute for an event: an array becomes a hollow one, so that no event holds or hands out data."""
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        for one in value:
            if type(one) not in _PLAIN:
                break
        else:  # as nearly always: an axis, a shape, slices
            return value
    if isinstance(value, (tuple, list)):
        return type(value)([_described(one) for one in value])
    if isinstance(value, np.ndarray):
        return hollow(value.shape, value.dtype)
    return value if isinstance(value, tuple(_PLAIN)) else type(value).__name__


def _shows(view, array):
    """Say whether a view shows the memory of ``array``: its base tells at once, and where it does not, NumPy looks."""
    base = view.base
    return base is not None and (base is array or base is array.base) or np.may_share_memory(view, array)

# %%
#| export
class _Behind:
    """What stands behind the door: running on shapes, explaining an error, telling the listeners."""

    def _run_hollow(self, arrays, attrs):
        if self.view and not _copies(**attrs):  # a view of a hollow array is hollow; a transposed weight stays itself
            out = self.fn(*arrays, **attrs)
            return out if out.base is not None else hollow(out.shape, out.dtype)
        shape = self.shape(*[a.shape for a in arrays], **attrs)
        return hollow(shape, self.out_dtype(*[a.dtype for a in arrays], **attrs))

    def out_dtype(self, *dtypes, **attrs):
        """Return the output's dtype: what the op says, else the result type of the floating inputs, else of all."""
        if self.dtype is None:
            return np.result_type(*([d for d in dtypes if d.kind == "f"] or dtypes))
        return np.dtype(self.dtype(*dtypes, **attrs) if isinstance(self.dtype, FunctionType) else self.dtype)

    def _explain(self, error, arrays, attrs):
        kind = next(k for k in (ValueError, TypeError, IndexError) if isinstance(error, k))
        shapes = [a.shape for a in arrays]
        try:
            self.shape(*shapes, **attrs)
        except (ValueError, TypeError, IndexError) as reason:
            return kind(f"{self.name}: {reason}")
        return kind(f"{self.name}: {', '.join(map(str, shapes))}: {error}")

    def _tell(self, state, arrays, data, attrs, start, end):
        shapes, num_bytes = [], data.nbytes
        for array in arrays:
            shapes.append(array.shape)
            num_bytes += array.nbytes
        if self.view:  # some keys and orders force a copy: then the elements are read once and written once
            num_bytes = 0 if _shows(data, arrays[0]) else 2 * data.nbytes
        told = {}
        if attrs:
            for name, value in attrs.items():
                told[name] = value if type(value) in _PLAIN else _described(value)
        fields = self, tuple(shapes), data.shape, num_bytes, told, state.path, start, end  # of an OpEvent
        for hear in state.hearers:
            hear(fields)
        if _everywhere[0] and not state.private:
            for hear in tuple(_everywhere[0]):
                hear(fields)

# %% [markdown]
"""
And now the door itself.
"""

# %%
#| export
class Op(_Behind):
    """One primitive: a NumPy function ``fn(*arrays, **attrs)`` plus a shape rule ``shape(*shapes, **attrs)``.

    ``view`` marks ops that move nothing. ``dtype`` is the output's type, or a function of the
    input types and attributes, where it is not the result type of the floating inputs.
    """

    def __init__(self, fn, shape, view=False, dtype=None):
        self.name, self.fn, self.shape, self.view, self.dtype = fn.__name__, fn, shape, view, dtype
        self.__name__, self.__doc__, self.__module__ = fn.__name__, fn.__doc__, fn.__module__

    def __repr__(self):
        return f"<op {self.name}>"

    def __deepcopy__(self, memo):
        return self  # rules are registered for this very op: a copied model must go on using it

    def __reduce__(self):
        return self.name  # pickled by name, like a function

    def __call__(self, *inputs, **attrs):
        """Compute: the one place where tensors become a tensor."""
        if attrs:
            attrs = _as_attributes(self, attrs)
        state = _thread.state
        arrays, wanted = [], False
        for x in inputs:
            if not isinstance(x, Tensor):
                return self(*_as_tensors(self, inputs), **attrs)
            arrays.append(x.data)
            wanted = wanted or x.requires_grad
        listening = state.hearers or (_everywhere[0] and not state.private)
        start = _clocks[0]() if listening else 0
        try:
            data = self._run_hollow(arrays, attrs) if state.shape_only else self.fn(*arrays, **attrs)
        except (ValueError, TypeError, IndexError) as error:
            raise self._explain(error, arrays, attrs) from error
        if type(data) is not np.ndarray:
            data = np.asarray(data)
        if not arrays or data.dtype is not arrays[0].dtype:  # NumPy makes int64 * float32 float64; here it is float32
            data = data.astype(self.out_dtype(*[a.dtype for a in arrays], **attrs), copy=False)
        out = _new_tensor(Tensor)
        out.data, out.grad, out.made_by, out.requires_grad = data, None, None, False
        if wanted and state.grad_enabled and data.dtype.kind == "f":
            out.requires_grad, out.made_by = True, Node(self, inputs, attrs, state.path)
        if listening:
            self._tell(state, arrays, data, attrs, start, _clocks[0]())
        return out

# %%
#| export
def op(shape, view=False, dtype=None):
    """Make an ``Op`` of the NumPy function below: ``@op(shape=rule)``."""
    return lambda fn: Op(fn, shape, view, dtype)


def floating(*dtypes, **attrs):
    """Return the result type of the floating inputs, float32 if none floats: for ops that leave the integers."""
    return np.result_type(*([d for d in dtypes if d.kind == "f"] or [np.float32]))


def in_floats(a):
    """Return an array of floats: integers and booleans become float32, floats stay as they are, uncopied."""
    return a.astype(floating(a.dtype), copy=False)

# %%
#| export
def _number(x, dtype):
    """Make a Tensor of a Python number; one that does not fit the integers it meets keeps a type of its own."""
    try:
        return Tensor(np.array(x, dtype), dtype=dtype)
    except OverflowError:
        return Tensor(np.asarray(x))

# %%
#| export
def _as_attributes(operation, attrs):
    """Return the attributes, ``dim``, the frameworks' word, as ``axis``; a Tensor is an input, given by position."""
    if "dim" in attrs:
        attrs["axis"] = _one_axis(attrs.get("axis"), attrs.pop("dim"))
    for name, value in attrs.items():
        if isinstance(value, Tensor):
            raise TypeError(f"{operation.name}: {name} is a Tensor; want a number here, or the Tensor by position")
    return attrs

# %%
#| export
def _as_tensors(operation, inputs):
    """Make tensors of numbers and arrays among ``inputs``; a Python number takes the type of its companions."""
    for x in inputs:
        if not isinstance(x, (Tensor, int, float, np.ndarray, np.generic, list)):
            raise TypeError(f"{operation.name}: a {type(x).__name__} came; want Tensors, arrays or numbers")
    types = [x.data.dtype for x in inputs if isinstance(x, Tensor)]
    floats = [d for d in types if d.kind == "f"]
    out = []
    for x in inputs:
        if isinstance(x, Tensor):
            out.append(x)
        elif isinstance(x, (int, float)):  # np.float64, the result of np.sqrt(2), is a Python float too
            like = floats or (types if isinstance(x, int) else []) or [np.float32]
            dtype = like[0] if len(like) == 1 else np.result_type(*like)
            out.append(_number(x, dtype))
        else:
            out.append(Tensor(x))
    return tuple(out)

# %% [markdown]
"""
Follow one call with a pencil: `multiply(x, 2)` with `x` of shape `(3,)`. Which lines run when nobody listens? Which when somebody does? What happens to the `2`?

<details><summary>Answer</summary>
<code>2</code> is no Tensor, so <code>_as_tensors</code> makes it one, with the dtype of <code>x</code>. The arrays are taken out, the function multiplies, the result is wrapped. Without
listeners no clock is read and no event is made: the door then costs little more than the wrapping.
</details>

## 4. The tensor itself

**Question.** If ops do all the computing, what is left for the tensor to do?

To hold, and to hand on. A `Tensor` has four slots: `data`, `requires_grad`, `grad`, `made_by`. Everything else about it, operators and methods, only hands on to ops, a line each. It is given,
in small base classes that one can read at a glance.

**Bet.** Which of the four slots of `Tensor([1]) + 1` are `None`? And of `Tensor([1], requires_grad=True) + 1`? Part 5 of the door knows; put the names down here. Section 5 opens the bet.
"""

# %%
if __name__ == "__main__":
    none_without_gradient, none_with_gradient = [], []  # for example ["data"]

# %%
#| export
class _Operators:
    """Python's operators, each handed on to an op."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's functions must not compute behind the door's back

    def __add__(self, other): return add(self, other)
    def __radd__(self, other): return add(other, self)
    def __sub__(self, other): return subtract(self, other)
    def __rsub__(self, other): return subtract(other, self)
    def __mul__(self, other): return multiply(self, other)
    def __rmul__(self, other): return multiply(other, self)
    def __truediv__(self, other): return divide(self, other)
    def __rtruediv__(self, other): return divide(other, self)
    def __matmul__(self, other): return matmul(self, other)
    def __rmatmul__(self, other): return matmul(other, self)
    def __pow__(self, exponent): return power(self, exponent=exponent)
    def __neg__(self): return negative(self)
    def __eq__(self, other): return equal(self, other)
    def __ne__(self, other): return not_equal(self, other)
    def __lt__(self, other): return less(self, other)
    def __le__(self, other): return less_equal(self, other)
    def __gt__(self, other): return greater(self, other)
    def __ge__(self, other): return greater_equal(self, other)
    __hash__ = object.__hash__

# %%
#| export
def _one_axis(axis, dim):
    """Accept both of the field's words for the same thing: NumPy's ``axis`` and the frameworks' ``dim``."""
    if axis is not None and dim is not None:
        raise TypeError("axis and dim are two names of one argument; give one")
    return axis if dim is None else dim


class _Methods:
    """What one asks of a tensor by name; every answer comes from an op."""

    __slots__ = ()

    def sum(self, axis=None, keepdims=False, dim=None):
        """Add up along ``axis`` (None: everything)."""
        return reduce_sum(self, axis=_one_axis(axis, dim), keepdims=keepdims)

    def mean(self, axis=None, keepdims=False, dim=None):
        """Average along ``axis``: the sum, divided by how many went into it."""
        axis = _one_axis(axis, dim)
        count = prod(self.shape[i] for i in normalize_axes(self.ndim, axis))
        if self.dtype == np.float16:  # a sum of float16 overflows at 65,504
            return self.astype(np.float32).mean(axis, keepdims).astype(np.float16)
        return reduce_sum(self, axis=axis, keepdims=keepdims) / float(count)

    def max(self, axis=None, keepdims=False, dim=None):
        """Return the largest element along ``axis``; NaN wins."""
        return reduce_max(self, axis=_one_axis(axis, dim), keepdims=keepdims)

    def argmax(self, axis=None, dim=None):
        """Return where the largest element is, along one axis (None: in the flattened tensor)."""
        return argmax(self, axis=_one_axis(axis, dim))

    def reshape(self, *shape):
        """Show the same elements as ``shape``; one size may be -1."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        return reshape(self, shape=shape)

    def transpose(self, *axes):
        """Reorder the axes; without arguments reverse them."""
        if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
            axes = tuple(axes[0])
        return transpose(self, axes=axes or tuple(range(self.ndim))[::-1])

    @property
    def T(self):
        """Swap the last two axes (a vector or scalar stays as it is)."""
        order = list(range(self.ndim))
        order[-2:] = order[-2:][::-1]
        return transpose(self, axes=tuple(order))

    def astype(self, dtype):
        """Return the elements as ``dtype``."""
        return cast(self, dtype=np.dtype(dtype))

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Tensor) for k in keys):  # a mask selects by value, positions do not change the shape
            key = tuple((_values(k) if k.dtype == bool else k.data) if isinstance(k, Tensor) else k for k in keys)
        return index(self, key=key)

# %%
#| export
def _values(tensor):
    """Return the tensor's array for somebody who will look at its values; refuse where there are none."""
    if _thread.state.shape_only:
        raise ValueError("a shape-only run has no values; the model must not decide by them")
    return tensor.data


class _Protocols:
    """How a tensor answers Python itself: ``len``, ``for``, ``if``, ``float``, ``print``, ``np.asarray``."""

    __slots__ = ()

    def __len__(self):
        if not self.shape:
            raise TypeError("len: a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __array__(self, dtype=None, copy=None):
        data = _values(self)
        return np.array(data, dtype=dtype, copy=True) if copy else np.asarray(data, dtype=dtype)

    def __deepcopy__(self, memo):
        """Copy the numbers and the graph; a view of another tensor is a view of its copy: what is tied stays tied."""
        new = memo[id(self)] = _new_tensor(Tensor)
        made, new.grad, new.requires_grad = self.made_by, deepcopy(self.grad, memo), self.requires_grad
        new.made_by = deepcopy(made, memo) if made is not None and made.inputs else made
        if made is not None and made.inputs and made.op.view and np.may_share_memory(self.data, made.inputs[0].data):
            new.data = made.op.fn(new.made_by.inputs[0].data, **made.attrs)
        elif _is_hollow(self.data):  # one number in memory, in the copy too
            new.data = np.broadcast_to(np.array(self.data.flat[0]), self.shape)
        else:
            new.data = self.data.copy()
        return new

    def __repr__(self):
        head = f"shape={self.shape}, dtype={self.dtype}" + (", requires_grad=True" if self.requires_grad else "")
        body = "hollow" if _is_hollow(self.data) else np.array2string(self.data, threshold=12)
        return f"Tensor({body}, {head})"

# %%
#| export
class Tensor(_Operators, _Methods, _Protocols):
    """A block of numbers with a shape: ``Tensor(data, requires_grad=False, dtype=None)``.

    ``data`` may be a number, list, array or Tensor; memory is shared unless the type must change (see ``as_array``).
    ``grad`` is a Tensor or None; ``made_by`` is the ``Node`` that made this tensor, kept where a gradient is wanted.
    """

    __slots__ = ("data", "requires_grad", "grad", "made_by", "__weakref__")

    def __init__(self, data, requires_grad=False, dtype=None):
        if isinstance(data, Tensor):
            data, dtype = data.data, dtype or data.dtype
        if _thread.state.shape_only and isinstance(data, np.ndarray) and _is_hollow(data):
            data = hollow(data.shape, dtype or (np.float32 if data.dtype == np.float64 else data.dtype))
        self.data = as_array(data, dtype)
        if requires_grad and self.data.dtype.kind != "f":
            raise TypeError(f"Tensor: {self.data.dtype} cannot have a gradient; give a floating dtype")
        self.requires_grad = bool(requires_grad)
        self.grad = None
        self.made_by = None

    shape = property(lambda self: self.data.shape, doc="Sizes of the axes, a tuple.")
    dtype = property(lambda self: self.data.dtype, doc="NumPy dtype of the elements.")
    ndim = property(lambda self: self.data.ndim, doc="How many axes.")
    size = property(lambda self: self.data.size, doc="How many elements.")
    nbytes = property(lambda self: self.data.nbytes, doc="Bytes the elements occupy: size times the dtype's own width.")

    def numpy(self):
        """Return the array itself (the same memory); ``ValueError`` in a shape-only run, which has no values."""
        return _values(self)

    def detach(self):
        """Return a tensor on the same memory that does not remember how it was made."""
        return Tensor(self.data, dtype=self.data.dtype)

    def item(self):
        """Return the Python number in a one-element tensor; ``ValueError`` otherwise, or when there are no values."""
        data = _values(self)
        if data.size != 1:
            raise ValueError(f"item: the tensor has shape {self.shape}; want exactly one element")
        return data.item()


_new_tensor = Tensor.__new__

# %% [markdown]
"""
## 5. The operations

**Question.** With door, rules and tensor in place, what is left to write for `a + b`?

One line. An op is a NumPy function plus the name of a shape rule:

```python
@op(shape=broadcast_shape)
def add(a, b):
    return a + b          # a and b are NumPy arrays here; the Tensor is made outside
```

**Task.** Write the bodies below. `a` and `b` are arrays, attributes such as `axis` are keywords. An op takes its tensors by position and everything else by keyword.
Division is *quiet*: a number divided by 0 gives `inf` or NaN and no warning. A block that begins with `with np.errstate(divide="ignore", invalid="ignore"):` keeps NumPy silent inside.

Example: `add(Tensor([1, 2]), Tensor([10, 20]))` is `[11, 22]`; `divide(Tensor([1, 0]), 0)` is `[inf, nan]`.

<details><summary>Hint 1: idea</summary>
The door made arrays of the tensors and will make a tensor of your array: each body is what NumPy users would write.
</details>
<details><summary>Hint 2: approach</summary>
One <code>return</code> each. The order of <code>a</code> and <code>b</code> matters in two of the four; the division stands inside the <code>with</code> block.
</details>
<details><summary>Hint 3: worked example, another op</summary>
The remainder of a division, quiet: <code>with np.errstate(invalid="ignore", divide="ignore"): return np.remainder(a, b)</code>. For 7 and 4 it is 3.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "arithmetic", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=broadcast_shape)
def add(a, b):
    """a + b, broadcast."""
    raise NotImplementedError("add: section 5, cell 1")


@op(shape=broadcast_shape)
def subtract(a, b):
    """a - b, broadcast."""
    raise NotImplementedError("subtract: section 5, cell 1")


@op(shape=broadcast_shape)
def multiply(a, b):
    """a * b, broadcast."""
    raise NotImplementedError("multiply: section 5, cell 1")


@op(shape=broadcast_shape, dtype=floating)
def divide(a, b):
    """a / b, broadcast; like NumPy, x/0 is inf."""
    raise NotImplementedError("divide: section 5, cell 1")

# %% [markdown]
"""
The single-operand ones are given, to show the pattern: their shape rule is "the shape that came", `same_shape`. So are the comparisons, whose output type is always bool: `dtype=bool`.
"""

# %%
#| export
def same_shape(a, **attrs):
    """Return the shape that came: the rule of every elementwise op of one tensor."""
    return a


@op(shape=same_shape)
def negative(a):
    """-a."""
    return -a


def _power_dtype(a, exponent):
    whole = isinstance(exponent, (int, np.integer)) and exponent >= 0
    return a if a.kind in "iu" and whole else floating(a)


@op(shape=same_shape, dtype=_power_dtype)
def power(a, exponent):
    """Raise a to a number, the attribute ``exponent``; integers stay integers where it is 0, 1, 2 and so on."""
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float, np.number)):
        raise TypeError(f"the exponent is a {type(exponent).__name__}; want a number")
    a = a.astype(_power_dtype(a.dtype, exponent), copy=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        return a ** (a.dtype.type(exponent) if a.dtype.kind == "f" else int(exponent))


@op(shape=same_shape, dtype=floating)
def sqrt(a):
    """Take the square root; of a negative number it is NaN."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(in_floats(a))


@op(shape=lambda a, dtype: a, dtype=lambda a, dtype: dtype)
def cast(a, dtype):
    """Return the elements as ``dtype``."""
    return a.astype(dtype)

# %%
#| export
equal = op(shape=broadcast_shape, dtype=np.bool_)(np.equal)
not_equal = op(shape=broadcast_shape, dtype=np.bool_)(np.not_equal)
less = op(shape=broadcast_shape, dtype=np.bool_)(np.less)
less_equal = op(shape=broadcast_shape, dtype=np.bool_)(np.less_equal)
greater = op(shape=broadcast_shape, dtype=np.bool_)(np.greater)
greater_equal = op(shape=broadcast_shape, dtype=np.bool_)(np.greater_equal)


@op(shape=broadcast_shape)
def maximum(a, b):
    """Return the larger of a and b, element by element; NaN wins."""
    return np.maximum(a, b)


@op(shape=broadcast_shape)
def where(condition, a, b):
    """Take a where the condition holds and b elsewhere, broadcast."""
    return np.where(condition, a, b)

# %%
if __name__ == "__main__":
    x = Tensor([1, 2, 3])
    print(2 * x + 1, x > 1.5, sep="\n")

# %% [markdown]
"""
And the bet of section 4:
"""

# %%
if __name__ == "__main__":
    for bet, start in ((none_without_gradient, Tensor([1])), (none_with_gradient, Tensor([1], requires_grad=True))):
        total = start + 1
        empty = [slot for slot in ("data", "requires_grad", "grad", "made_by") if getattr(total, slot) is None]
        print(f"bet {bet}, it is {empty}; made by {total.made_by.op if total.made_by else 'nobody'}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-arithmetic", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "operations"}
if __name__ == "__main__":
    def test_arithmetic():
        """Values, types, messages."""
        a, b = Tensor([[1, 2], [3, 4]]), Tensor([10, 20])
        check("a + b", (a + b).data, [[11.0, 22.0], [13.0, 24.0]])
        check("b - a", (b - a).data, [[9.0, 18.0], [7.0, 16.0]], {((-9.0, -18.0), (-7.0, -16.0)): "the sides are swapped"})
        check("a * b", (a * b).data, [[10.0, 40.0], [30.0, 80.0]])
        check("1 / b", (1 / b).data, [0.1, 0.05], {(10.0, 20.0): "the sides are swapped"})
        check("float16 + 1 keeps its type", (Tensor(np.ones(2, np.float16)) + 1).dtype.name, "float16")
        check("an int8 tensor plus 1", (Tensor(np.ones(2, np.int8)) + 1).dtype.name, "int8")
        said = []
        with np.errstate(all="call", call=lambda kind, flag: said.append(kind)):
            check("1 / 0 and 0 / 0", (Tensor([1, 0]) / 0).data, [np.inf, np.nan])
        check("what NumPy said to it", said, [], {("divide by zero", "invalid value"): "np.errstate is missing: x/0 is no news here"})
        check_raises("the door puts the op's name before your sentence", ValueError, lambda: Tensor([1, 2]) + Tensor([1, 2, 3]), must_say="add: ")


    test_arithmetic()

# %% [markdown]
"""
**Matrix product and reductions.** Same pattern, other rules. `keepdims` arrives as a keyword and NumPy understands it.

One trap: NumPy picks a wider type of its own when it adds up small integers. Which one is an accident we do not want, so `reduce_sum` is given, with a dtype rule of its own: floats keep their type,
integers and booleans add up in int64.

**Task.** Write the last line of `matmul` and of `reduce_max`. Example: `matmul(Tensor([[1, 2]]), Tensor([3, 4]))` is `[11]`; `reduce_max(Tensor([[1, 5], [7, 2]]), axis=1)` is `[5, 7]`.

<details><summary>Hint 1: idea</summary>
NumPy has both, with vectors, stacks and axes as your shape rules describe them.
</details>
<details><summary>Hint 2: approach</summary>
Arrays know <code>@</code>. For the other, pass both attributes on by name; a forgotten <code>keepdims</code> is found by the check.
</details>
<details><summary>Hint 3: worked example, another op</summary>
The smallest: <code>np.min(a, axis=axis, keepdims=keepdims)</code>. For <code>[[1, 5], [7, 2]]</code> along axis 0, kept, it is <code>[[1, 2]]</code>.
</details>
"""

# %%
#| export
def _sum_dtype(a, **attrs):
    return a if a.kind == "f" else np.dtype(np.int64)


def _has_axes(a, axis):
    """Refuse an axis of a scalar, as the shape rule does; NumPy would let it pass."""
    if axis is not None and not a.ndim:
        normalize_axes(0, axis)

# %%
#| export
@op(shape=reduce_shape, dtype=_sum_dtype)
def reduce_sum(a, axis=None, keepdims=False):
    """Add up along ``axis``; integers and booleans in int64."""
    _has_axes(a, axis)
    return np.sum(a, axis=axis, keepdims=keepdims, dtype=_sum_dtype(a.dtype))


def _largest_shape(a, axis=None, keepdims=False):
    if 0 in [a[i] for i in normalize_axes(len(a), axis)]:
        raise ValueError(f"{a} along axis {axis}: there is no element to take the largest of")
    return reduce_shape(a, axis, keepdims)


def _argmax_shape(a, axis=None, keepdims=False):
    if isinstance(axis, tuple):
        raise TypeError(f"axis {axis}: argmax goes along one axis, or along none")
    return _largest_shape(a, axis, keepdims)


@op(shape=_argmax_shape, dtype=np.int64)
def argmax(a, axis=None, keepdims=False):
    """Return the position of the largest element along one axis (None: in the flattened tensor)."""
    _has_axes(a, axis)
    return np.argmax(a, axis=axis, keepdims=keepdims)

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "products-and-sums", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=matmul_shape)
def matmul(a, b):
    """Matrix product (..., m, k) @ (..., k, n) -> (..., m, n); vectors as in ``matmul_shape``."""
    raise NotImplementedError("matmul: section 5, cell 9")


@op(shape=_largest_shape)
def reduce_max(a, axis=None, keepdims=False):
    """Return the largest element along ``axis``; NaN wins; an empty axis is a ValueError."""
    _has_axes(a, axis)
    raise NotImplementedError("reduce_max: section 5, cell 9")

# %%
if __name__ == "__main__":
    m = Tensor([[1, 2, 3], [4, 5, 6]])
    print(matmul(m, Tensor([1, 0, 1])), m.sum(axis=0), m.mean(), sep="\n")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-products-and-sums", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "operations"}
if __name__ == "__main__":
    def test_products_and_sums():
        """Products, sums, maxima, messages."""
        m = Tensor([[1, 2, 3], [4, 5, 6]])
        check("a matrix times a vector", (m @ Tensor([1, 0, 1])).data, [4.0, 10.0])
        check("a stack of matrices", matmul(Tensor(np.ones((5, 2, 3))), Tensor(np.ones((5, 3, 4)))).shape, (5, 2, 4), {
            (5, 2, 5, 4): "every matrix with every other, as np.dot does; @ goes pair by pair"})
        check("the largest of each row, kept", m.max(axis=1, keepdims=True).data, [[3.0], [6.0]], {(3.0, 6.0): "keepdims was not passed on", ((4.0, 5.0, 6.0),): "the largest of each column"})
        check("the largest of all", m.max().item(), 6.0)
        check("dim= is axis=", m.max(dim=0).data, [4.0, 5.0, 6.0])
        check_raises("inner sizes differ", ValueError, lambda: m @ m, must_say="matmul: ")


    test_products_and_sums()

# %% [markdown]
"""
## 6. Views: new shape, same memory

**Question.** How long does transposing a gigabyte take?

As long as transposing four numbers: a view only describes the same memory in another order. Ops marked `view=True` move nothing, count as 0 bytes of traffic, and run for real even on hollow arrays.

**Task.** Write `reshape`, `transpose` and `broadcast_to` with the NumPy functions of the same names. The attributes are called `shape` and `axes`. What comes out shows the memory that came in.
Example: `broadcast_to(Tensor([1, 2]), shape=(3, 2))` is `[[1, 2], [1, 2], [1, 2]]`, and still holds two numbers.

<details><summary>Hint 1: idea</summary>
Three functions of NumPy; none of them copies when it need not.
</details>
<details><summary>Hint 2: approach</summary>
First the array, then the attribute. Making an array of zeros or ones of the right shape is not a view, and the numbers are not there.
</details>
<details><summary>Hint 3: worked example, another view</summary>
Swap two axes: <code>np.swapaxes(a, first, second)</code>; for <code>(2, 3, 4)</code> with 0 and 2 the shape is <code>(4, 3, 2)</code>, the memory is the same.
</details>
"""

# %%
#| export
def _view_shape(a, shape):
    if broadcast_shape(a, shape) != tuple(shape):
        raise ValueError(f"{a} does not broadcast to {tuple(shape)}")
    return tuple(shape)


def _index_shape(a, key):
    return hollow(a, np.dtype([]))[key].shape  # elements of 0 bytes: even a copying key costs nothing


def _copies(key=None, **attrs):
    """Say whether a key makes NumPy copy: an array or list in it does, ints and slices do not."""
    return any(isinstance(k, (list, np.ndarray, Tensor)) for k in (key if isinstance(key, tuple) else (key,)))

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "views", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=reshape_shape, view=True)
def reshape(a, shape):
    """Show the same elements as ``shape`` (one size may be -1); copies only where memory order forbids a view."""
    raise NotImplementedError("reshape: section 6, cell 2")


@op(shape=transpose_shape, view=True)
def transpose(a, axes):
    """Return the axes in the order ``axes``."""
    raise NotImplementedError("transpose: section 6, cell 2")


@op(shape=_view_shape, view=True)
def broadcast_to(a, shape):
    """Stretch ``a`` to ``shape`` without copying."""
    raise NotImplementedError("broadcast_to: section 6, cell 2")

# %% [markdown]
"""
Indexing is a view where NumPy makes one (`x[1:3]`) and a copy where it must (`x[[2, 0]]`); an event then reports the bytes. `put` is its counterpart, which Module 05 will need: zeros everywhere, the values added where the key points.
`concatenate` joins tensors along an axis. Given:
"""

# %%
#| export
@op(shape=_index_shape, view=True)
def index(a, key):
    """Return ``a[key]`` for NumPy's keys: ints, slices, ``...``, None, integer or boolean arrays."""
    return a[key]


@op(shape=lambda a, key, shape: tuple(shape))
def put(a, key, shape):
    """Return zeros of ``shape`` with ``a`` added in at ``key``; a place named twice receives both."""
    out = np.zeros(shape, a.dtype)
    if _copies(key):
        np.add.at(out, key, a)
    else:  # ints and slices name no place twice, and plain assignment is far faster
        out[key] = a
    return out


def _joined_shape(*shapes, axis=0):
    axis = normalize_axes(len(shapes[0]), axis)[0]
    if any(s[:axis] + s[axis + 1:] != shapes[0][:axis] + shapes[0][axis + 1:] for s in shapes):
        raise ValueError(f"{' and '.join(map(str, shapes))}: sizes differ off axis {axis}")
    return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1:])


@op(shape=_joined_shape)
def concatenate(*arrays, axis=0):
    """Join tensors along ``axis``; every other size must agree."""
    return np.concatenate(arrays, axis=axis)

# %%
if __name__ == "__main__":
    wide = Tensor(np.zeros((4000, 4000)))
    with listen(lambda event: print(f"{event.op.name:>10}  {event.in_shapes[0]} -> {event.out_shape}  {event.num_bytes:,} bytes moved")):
        wide.T
        wide.reshape(-1)
        wide + 1.0
    for name, x in (("64 MB", wide), ("4 numbers", Tensor(np.zeros((2, 2))))):
        start = perf_counter_ns()
        for _ in range(200):
            x.T
        print(f"transposing {name}: {(perf_counter_ns() - start) / 200 / 1000:.1f} microseconds")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-views", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "operations"}
if __name__ == "__main__":
    def test_views():
        """Same memory, right shape, named refusal."""
        m = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
        check("transpose", m.T.data, [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])
        check("transposing shares memory", np.shares_memory(m.T.data, m.data), True, {False: "a copy was made"})
        check("reshape(3, -1)", m.reshape(3, -1).data, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        check("reshaping shares memory", np.shares_memory(m.reshape(3, 2).data, m.data), True, {False: "a copy was made"})
        check("broadcast_to", broadcast_to(m, shape=(2, 2, 3)).data.tolist(), [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]] * 2, {
            ((((0.0,) * 3,) * 2,) * 2): "the shape is right, the numbers are not those of the input"})
        check("stretching shares memory", np.shares_memory(broadcast_to(m, shape=(2, 2, 3)).data, m.data), True, {False: "a copy was made"})
        check("axes in another order", Tensor(np.zeros((2, 3, 4))).transpose(2, 0, 1).shape, (4, 2, 3), {(4, 3, 2): "axes was ignored: all were turned round"})
        check_raises("six elements into (4, 2)", ValueError, lambda: m.reshape(4, 2), must_say="reshape: ")


    test_views()

# %% [markdown]
"""
## 7. Computing without computing

**Question.** What does a product of two matrices of 100,000 by 100,000 cost? You cannot run it: each matrix weighs 37 GB.

You can run it *on shapes*. Under `shape_only()` every op answers with a hollow array of the shape its rule says. Guess how long the next cell takes.
"""

# %%
if __name__ == "__main__":
    with shape_only():
        huge = Tensor(hollow((100_000, 100_000)))
        start = perf_counter_ns()
        with listen(lambda event: print(event.op.name, event.in_shapes, "->", event.out_shape)):
            result = (huge @ huge).sum(axis=0)
        print(f"{(perf_counter_ns() - start) / 1e6:.2f} ms, nominal size of one matrix {huge.nbytes / 1024**3:.1f} GB")

# %% [markdown]
"""
**Task.** Write your first instrument, `count_ops(function)`: call `function` on shapes only and return a dict from op name to how often it ran. It must leave nothing behind: no listener, no
shape-only mode.

Example: `count_ops(lambda: (Tensor([1, 2]) * 2 + 1).sum())` is `{"multiply": 1, "add": 1, "reduce_sum": 1}`.

<details><summary>Hint 1: idea</summary>
Two context managers and a dictionary.
</details>
<details><summary>Hint 2: approach</summary>
<code>listen</code> takes any function of one event. <code>shape_only()</code> is a room of its own, so listen <em>inside</em> it.
</details>
<details><summary>Hint 3: worked example, something else</summary>
To collect shapes: <code>shapes = []</code>, then <code>with shape_only(), listen(lambda event: shapes.append(event.out_shape)): function()</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "count-ops", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def count_ops(function):
    """Call ``function()`` on shapes only and return how often each op ran, by name."""
    raise NotImplementedError("count_ops: section 7, cell 2")

# %%
if __name__ == "__main__":
    print(count_ops(lambda: (Tensor([1, 2]) * 2 + 1).sum()))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-count-ops", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "listening"}
if __name__ == "__main__":
    def test_count_ops():
        """Counts, sizes nobody can allocate, nothing left behind."""
        def pairs(function):
            return tuple(sorted(count_ops(function).items()))

        check("three ops", pairs(lambda: (Tensor([1, 2]) * 2 + 1).sum()), (("add", 1), ("multiply", 1), ("reduce_sum", 1)), {
            (): "nothing was heard: listen inside shape_only(), which is a room of its own",
            (("add", 2), ("multiply", 2), ("reduce_sum", 2)): "the counts of the cell above are still there: begin with an empty dict"})
        check("the same op three times", pairs(lambda: Tensor([1]) + 1 + 1 + 1), (("add", 3),), {(("add", 1),): "every op was counted once, not every call"})
        check("37 GB matrices", pairs(lambda: Tensor(hollow((100_000, 100_000))) @ Tensor(hollow((100_000, 100_000)))), (("matmul", 1),))
        check("counting again starts at 0", pairs(lambda: Tensor([1]) * 3), (("multiply", 1),))
        check("shape-only mode is over", is_shape_only(), False)
        check("nobody listens any more", thread_state().hearers, ())
        check_raises("an error passes through", ValueError, lambda: count_ops(lambda: Tensor([1, 2]) + Tensor([1, 2, 3])))
        check("and still nobody listens", (is_shape_only(), thread_state().hearers), (False, ()))


    test_count_ops()

# %% [markdown]
"""
## 8. What it means for a real model

A forward pass, of whatever model, is a list of passes through this door. That is all a profiler has to watch. And what does the door itself cost? Adding two numbers is almost free, so here nearly all the time is the door:
"""

# %%
if __name__ == "__main__":
    def microseconds(function, calls=2000):
        """Return the fastest of five runs, per call."""
        best = float("inf")
        for _ in range(5):
            start = perf_counter_ns()
            for _ in range(calls):
                function()
            best = min(best, (perf_counter_ns() - start) / calls / 1000)
        return best


    one = Tensor([1.0])
    big = Tensor(np.ones((300, 300)))
    print(f"one number plus one number: {microseconds(lambda: one.data + one.data):8.2f} microseconds in NumPy, {microseconds(lambda: one + one):8.2f} through the door")
    print(f"300 x 300 matrix product:   {microseconds(lambda: big.data @ big.data, 5):8.2f} microseconds in NumPy, {microseconds(lambda: big @ big, 5):8.2f} through the door")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Why are shapes checked by a rule of ours and not by catching NumPy's error?</summary>
The rule works without data, so it also drives counting; and its message speaks of the op the user wrote. One rule, three uses.
</details>
<details><summary>What does the door cost, and when does that matter?</summary>
The difference in each line above: the same for the small op and the large one. Beside a matrix product it vanishes in the noise; for adding two numbers it is most of the time. Module 14 calls that <em>overhead</em> and measures it.
</details>
<details><summary>Why may a listener not change a value?</summary>
Then a profiled program could compute something other than the unprofiled one, and no measurement could be trusted.
</details>
<details><summary>A layer calls <code>np.exp(x.data)</code> directly. What is lost?</summary>
The op is invisible: no gradient, no FLOPs, no shape-only run. That is why everything that computes must be an <code>Op</code>.
</details>

`tito test tensor` checks the module; once all of it passes, `tito module complete tensor` puts what you wrote into the package, and later modules run on your code. Next: Module 02, the functions that make networks more than one big matrix.
"""
