# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 05 · Autograd

Tier: Foundation · Difficulty 3 of 4 · About 3 hours · Needs 01 to 04 (`tito test tensor`, `tito test activations`, `tito test layers`,
`tito test losses`)

A network has a million weights and one loss. Which way should each weight move? Asking them one by one takes a million forward passes. Autograd answers all of
them in **one** walk backwards, for about the price of two more forward passes, and often less.

**Build** a gradient rule for every op, then the walk that chains them → **use** it on a whole network → **reflect** on what the walk costs in time and in memory.

When you are done you can
1. check any gradient, of anybody's code, by wiggling;
2. write the gradient rule of an op from its shapes, broadcasting included;
3. walk a graph backwards without recursion, and say why recursion would have failed;
4. say who keeps memory alive between forward and backward, and who lets it go;
5. predict how many matrix products a backward pass needs.

Yours: the differences, the rules that compute, the order of the walk, and the walk. Given and explained: the rule table, the rules of moving ops (indexing, joining, selecting), the tools that check a rule.

A cell you have not filled says which one it is: `differences: section 1, cell 2` is the function `differences` in the second code cell of section 1.
"""

# %%
#| default_exp core.autograd

# %%
#| export
from contextlib import contextmanager
from itertools import accumulate
from math import prod

import numpy as np

from tinytorch.core.activations import exp, log, relu, sigmoid, tanh
from tinytorch.core.layers import dropout_mask, linear
from tinytorch.core.losses import pick
from tinytorch.core.tensor import (
    Node,
    Op,
    Tensor,
    add,
    argmax,
    as_array,
    broadcast_to,
    cast,
    concatenate,
    divide,
    equal,
    greater,
    greater_equal,
    index,
    is_shape_only,
    less,
    less_equal,
    matmul,
    maximum,
    multiply,
    negative,
    normalize_axes,
    not_equal,
    power,
    put,
    reduce_max,
    reduce_shape,
    reduce_sum,
    reshape,
    scope,
    sqrt,
    subtract,
    thread_state,
    transpose,
    where,
)

# %% [markdown]
"""
## 1. A gradient you can see

**Question.** The slope of `f(x) = x³` at 2 is 12, says the formula. How would you find it if there were no formula?

Wiggle: move `x` a little up and a little down, and see how far `f` moves. The size of the wiggle matters. Guess which one is best before you run this.
"""

# %%
def cube(x):
    return x**3


print("wiggle     one side: error   both sides: error")
for eps in (1e-1, 1e-3, 1e-6, 1e-9, 1e-12):
    one_side = (cube(2 + eps) - cube(2)) / eps
    both_sides = (cube(2 + eps) - cube(2 - eps)) / (2 * eps)
    print(f"{eps:6.0e}   {abs(one_side - 12):16.1e}   {abs(both_sides - 12):18.1e}")

# %% [markdown]
"""
Too large a wiggle, and the curve bends; too small, and two nearly equal numbers are subtracted and nothing but rounding is left. Both sides and a wiggle near `1e-6`, in float64, is a good place.
(In float32 nothing works well: seven digits are not enough to subtract.)

Our functions return tensors, not numbers. To get *one* number out of them we take a weighted sum of all outputs, with weights that stand for "how much each output matters".

**Task.** Write `differences(function, x, weights, eps=1e-6)`: for every element of the tensor `x`, change it *in place* in `x.data` by `+eps` and by `-eps`, call `function()` each time, and put it back. The answer is a
float64 array of the shape of `x`: at each place `sum(weights * (above - below)) / (2 * eps)`.

Example: `x = Tensor([2, 3], dtype=np.float64)`, function `lambda: x * x`, weights `[1, 1]`: about `[4, 6]`.

<details><summary>Hint 1: idea</summary>
One element at a time: up, look, down, look, back.
</details>
<details><summary>Hint 2: approach</summary>
<code>for place in np.ndindex(x.shape)</code> gives every position as a tuple, also for a scalar. Keep the old value in a variable. Copy what the function returned (<code>np.array(...)</code>): it may be a view of the very memory that you
change next.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>x = [5.0]</code>, function <code>10 x</code>, weight 3, eps 0.5: above 55, below 45, so 3 · (55 - 45) / (2 · 0.5) = 30.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "differences", "solution": true}
#| export
def differences(function, x, weights, eps=1e-6):
    """Return the slope of ``sum(weights * function())`` at every element of ``x``, by wiggling it by ``eps`` both ways.

    ``x`` is a float64 Tensor that ``function`` reads; it is as before afterwards.
    """
    ### BEGIN SOLUTION
    slopes = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        here = x.data[place]
        x.data[place] = here + eps
        above = np.array(function().data)
        x.data[place] = here - eps
        below = np.array(function().data)
        x.data[place] = here
        slopes[place] = np.sum(weights * (above - below)) / (2 * eps)
    return slopes
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-differences", "points": 8, "skill": "differences"}
from tito.checks import check, check_raises


def test_differences():
    """Slopes, weights, views, the tensor left as it was."""
    x = Tensor([2, 3], dtype=np.float64)
    check("slopes of x²", differences(lambda: x * x, x, np.ones(2)), [4.0, 6.0], {(8.0, 12.0): "divide by 2 eps, not by eps", (2.0, 3.0): "the step is 2 eps, not 4 eps"}, rtol=1e-6)
    check("weights count", differences(lambda: x * x, x, np.array([1.0, 10.0])), [4.0, 60.0], {(4.0, 6.0): "the weights were left out"}, rtol=1e-6)
    check("x is as before", x.data, [2.0, 3.0], {(1.999998, 2.999998): "put the old value back"}, rtol=1e-12)
    m = Tensor(np.arange(6.0).reshape(2, 3), dtype=np.float64)
    check("a view of x", differences(lambda: m.T, m, np.ones((3, 2))), [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], {
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)): "the result is a view of x: copy it", ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)): "the result is a view of x: copy it, both times"}, rtol=1e-6)
    check("x² at 2, a wiggle of 0.5", differences(lambda: x * x, x, np.array([1.0, 0.0]), eps=0.5)[0], 4.0, {
        4.5: "only upwards: (6.25 - 4) / 0.5; go both ways", 3.5: "only downwards: (4 - 2.25) / 0.5; go both ways", 8.0: "divide by 2 eps, not by eps"}, rtol=1e-9)
    s = Tensor(2.0, dtype=np.float64)
    check("a scalar", differences(lambda: s * 3.0, s, 1.0), np.array(3.0), rtol=1e-6)


test_differences()

# %% [markdown]
"""
**What it costs.** Two forward passes for every single number. For the digits network of Module 03 that is already a lot; it is a way to *check*, not to train:
"""

# %%
for name, parameters in (("digits MLP", 64 * 32 + 32 + 32 * 10 + 10), ("GPT-2 small", 124_439_808)):
    print(f"{name}: {2 * parameters:,} forward passes for one gradient")

# %% [markdown]
"""
## 2. Rules

**Question.** `out = a * b`, and far behind it stands a loss `L`. Somebody tells you `g`: how much `L` moves for each element of `out`. How much does `L` move for each element of `a`?

If `a` moves by one, `out` moves by `b`; if `out` moves by one, `L` moves by `g`. So `g * b`. That is all a *gradient rule* does: from `g`, the gradient of the **output**, make the gradient of each
**input**. `g` always has the shape of the output, the answer always has the shape of the input. (Books call it a vector-Jacobian product, hence `vjp`. The Jacobian itself is never built.)

```
          a ──┐                                 g * b ◀──┐
              ├─▶ a * b ─▶ out ─▶ ... ─▶ L               ├── rule ◀── g ◀─ ... ◀─ 1
          b ──┘                                 g * a ◀──┘
```

Three agreements.
- A rule returns **recipes**, one for each input: functions without arguments. Only those that somebody wants are called, so the work stands inside the recipe and never before it. The first layer's input is data and wants no gradient; its recipe, a whole matrix product, then never runs.
- A recipe is **made of ops**, on Tensors. So the backward pass goes through the door of Module 01 like everything else, can be listened to and counted, and runs on shapes only.
- For the same reason a recipe never looks at values: no `if a > 0`.

The table and its decorator are given. In this notebook the rules you write belong to the notebook (Python calls it `__main__`), so running a cell again replaces its rule; somebody else's rule cannot be replaced by accident.
"""

# %%
#| export
VJP: dict = {}  # op -> its gradient rule


def vjp(operation):
    """Register the gradient rule of an op: ``@vjp(multiply)`` above ``rule(g, out, *inputs, **attrs)``.

    The rule returns one *recipe* per input: a function without arguments that computes, out of ops, the gradient
    for that input, or None where there can never be one. A second rule from the same module replaces the first;
    from another module it is a ``ValueError``.
    """
    if not isinstance(operation, Op):
        raise TypeError(f"vjp: a {type(operation).__name__} came; want an op")

    def register(rule):
        before = getattr(VJP.get(operation), "__module__", rule.__module__)
        if before != rule.__module__:
            raise ValueError(f"{operation.name}: its gradient rule is in {before}; {rule.__module__} cannot replace it")
        VJP[operation] = rule
        return rule

    return register

# %% [markdown]
"""
Some ops have no gradient: a comparison jumps from false to true, a position is a whole number, a dropout mask does not depend on the values. They are *listed*, so that "has none" and "was forgotten" are two different things.
"""

# %%
#| export
def without_gradient(g, out, *inputs, **attrs):
    """Return no recipe for any input: the rule of an op that no gradient passes."""
    return (None,) * len(inputs)


def no_gradient(*operations):
    """List ops that no gradient passes, so that a missing rule is never mistaken for one."""
    for operation in operations:
        if VJP.get(operation, without_gradient).__name__ != without_gradient.__name__:
            raise ValueError(f"{operation.name}: it has a gradient rule, in {VJP[operation].__module__}")
        vjp(operation)(without_gradient)


no_gradient(argmax, equal, not_equal, less, less_equal, greater, greater_equal, dropout_mask)

# %% [markdown]
"""
Two helpers: `find_rule` complains by name when a rule is missing, `run_rule` applies a rule to inputs of your choice and calls every recipe.
"""

# %%
#| export
def find_rule(operation):
    """Return the gradient rule of an op; ``ValueError`` that names the op when there is none."""
    if operation not in VJP:
        name = operation.name
        raise ValueError(f"{name}: no gradient rule; write one under @vjp({name}), or list it with no_gradient({name})")
    return VJP[operation]


def run_rule(operation, g, *inputs, **attrs):
    """Run the op forward, then its rule with ``g``; return the gradient for each input (None where there is none)."""
    inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    out = operation(*inputs, **attrs)
    g = g if isinstance(g, Tensor) else Tensor(g, dtype=out.dtype)
    return [recipe and recipe() for recipe in find_rule(operation)(g, out, *inputs, **attrs)[: len(inputs)]]

# %% [markdown]
"""
**Task.** The first rule, the shortest there is: `negative_vjp`, for `out = -a`. When `a` moves by 1, `out` moves by -1. One input, so a tuple with one recipe; the work is done when the recipe is called, not before.

Example: `g = [10, 20]` gives `[-10, -20]`, whatever `a` was.

<details><summary>Hint 1: idea</summary>
A function without arguments, in a tuple. The operators of a Tensor are ops already.
</details>
<details><summary>Hint 2: approach</summary>
A tuple of one needs its comma: <code>return (lambda: ...,)</code>. What stands behind <code>lambda:</code> runs only when somebody calls it.
</details>
<details><summary>Hint 3: worked example, another op</summary>
For <code>out = 3 a</code>, made of <code>a</code> alone: <code>return (lambda: g * 3.0,)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "negative-rule", "solution": true}
#| export
@vjp(negative)
def negative_vjp(g, out, a):
    """Gradient of -a: one input, so one recipe in the tuple."""
    ### BEGIN SOLUTION
    return (lambda: -g,)
    ### END SOLUTION

# %%
print(run_rule(negative, [10.0, 20.0], [1.0, 2.0]))

# %% nbgrader={"grade": true, "grade_id": "test-negative-rule", "points": 2, "skill": "elementwise"}
from tinytorch.core.tensor import listen


def heard_from(operation, *inputs, **attrs):
    """Return the names of the ops that a rule runs before a recipe is called, and of those its recipes run then."""
    inputs, names, before = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs], [], []
    out = operation(*inputs, **attrs)
    g = Tensor(np.ones(out.shape), dtype=out.dtype)
    with listen(lambda event: names.append(event.op.name)):
        recipes = find_rule(operation)(g, out, *inputs, **attrs)
        before, names[:] = list(names), []
        for recipe in recipes[: len(inputs)]:
            recipe()
    return before, names


def test_negative_rule():
    """The value, and when and by what it is computed."""
    check("negative", run_rule(negative, [10.0, 20.0], [1.0, 2.0])[0].data, [-10.0, -20.0], {(10.0, 20.0): "the sign", (-1.0, -2.0): "that is out; the gradient is made of g"})
    before, inside = heard_from(negative, [1.0, 2.0])
    check("ops heard before the recipe is called (the work belongs behind lambda)", before, [])
    check("the recipe is heard at the door", len(inside) > 0, True, {False: "computed with NumPy: a recipe is made of ops, on Tensors"})


test_negative_rule()

# %% [markdown]
"""
And the check. `check_rule` compares a rule with your `differences`, element by element, and names the first place where they disagree. It makes float64 copies of the inputs, and gives every output a random weight, so that a
transposed or summed-up gradient cannot pass by symmetry.
"""

# %%
#| export
def _in_float64(x):
    """Return a float64 copy that wants a gradient; whole numbers and booleans stay what they are."""
    x = x if isinstance(x, Tensor) else Tensor(x)
    return Tensor(np.array(x.data, np.float64), True, np.float64) if x.dtype.kind == "f" else x


def _random_weights(out):
    """Return a weight for every element of an output, the same each time; refuse outputs that are too coarse."""
    if not isinstance(out, Tensor):
        raise TypeError(f"the function gave a {type(out).__name__}; want a Tensor")
    if out.dtype != np.float64:
        raise ValueError(f"the output is {out.dtype}; differences need float64 all the way")
    return np.random.default_rng(0).standard_normal(out.shape)


def _compare(what, yours, expected, tolerance=1e-5):
    """Return the largest difference, or raise ``ValueError`` with the place, yours and the expected value."""
    if yours.shape != expected.shape:
        raise ValueError(f"{what}: the gradient has shape {yours.shape}; want {expected.shape}")
    error = np.abs(yours - expected)
    wrong = np.argwhere(~(error <= tolerance * np.maximum(1, np.abs(expected))))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise ValueError(f"{what} at {place}: yours {yours[place]:.6g}, expected {expected[place]:.6g} by differences")
    return float(error.max(initial=0.0))

# %%
#| export
def check_rule(operation, *inputs, **attrs):
    """Compare an op's gradient rule with differences at ``inputs``; return the largest difference.

    Disagreement is a ``ValueError`` that names the input, the place, yours and the expected value.
    """
    xs, worst = [_in_float64(x) for x in inputs], 0.0
    with no_grad():
        weights = _random_weights(operation(*xs, **attrs))
        for i, dx in enumerate(run_rule(operation, weights, *xs, **attrs)):
            if dx is not None and xs[i].dtype.kind == "f":
                expected = differences(lambda: operation(*xs, **attrs), xs[i], weights)
                worst = max(worst, _compare(f"{operation.name}: input {i}", dx.data, expected))
    return worst


@contextmanager
def no_grad():
    """Compute without remembering how.

    ``with no_grad(): ...``, or ``@no_grad()`` above a function. For this thread only, nestable, and after an error
    as it was before.
    """
    state = thread_state()
    before, state.grad_enabled = state.grad_enabled, False
    try:
        yield
    finally:
        state.grad_enabled = before

# %%
print("largest difference:", check_rule(negative, [1.0, -2.0]))

# %% [markdown]
"""
Not exactly zero: that is the rounding of the differences, not an error of the rule. **Bet** before you run the next cell: if a rule is wrong by one part in a thousand, does the check see it? One in a million?
"""

# %%
right = VJP[negative]
for error in (1e-3, 1e-6):
    VJP[negative] = lambda g, out, a, factor=-1.0 - error: (lambda: g * factor,)
    try:
        print(f"wrong by {error:.0e}: accepted, largest difference {check_rule(negative, [1.0, -2.0]):.1e}")
    except ValueError as found:
        print(f"wrong by {error:.0e}: {found}")
    finally:
        VJP[negative] = right

# %% [markdown]
"""
The check lets 1e-5 pass, to be safe from its own rounding. A wrong formula is rarely that nearly right: what checks by differences find are signs, factors, shapes and forgotten inputs.

## 3. Arithmetic, and who was stretched

**Question.** A bias of shape `(3,)` is added to `(2, 3)` numbers. `g` has shape `(2, 3)`. The gradient of the bias must have shape `(3,)`. Which three numbers?

Look at the first element of the bias: broadcasting used it *twice*, once in each row. When it moves by one, two outputs move by one. So its gradient is the **sum** over both rows. Forward stretches; backward sums over what was stretched.

```
    bias   (3,)  ──stretch──▶  (2, 3)                 g  (2, 3)  ──sum over rows──▶  (3,)
           (2,1) ──stretch──▶  (2, 3)                 g  (2, 3)  ──sum over columns, keep the axis──▶  (2, 1)
```

Here is a rule for `add` that forgets this. The check catches it. (The cell takes its wrong rule away again, so running it a second time does no harm.)
"""

# %%
right = VJP.get(add)  # none yet; later, when you run this cell again, your own
vjp(add)(lambda g, out, a, b: (lambda: g, lambda: g))
try:
    check_rule(add, np.ones((2, 3)), [1.0, 2.0, 3.0])
except ValueError as error:
    print(error)
finally:
    VJP.pop(add)
    if right:
        VJP[add] = right

# %% [markdown]
"""
**Task.** Write `unbroadcast(g, shape)`: sum `g` down to `shape`, the shape of an input that was stretched to `g.shape`. Use the ops `reduce_sum` and `reshape`. When nothing was stretched return `g` itself: no work, no op.

Example: `g` of `(5, 2, 3)` for an input of `(2, 1)`: sum over the axes 0 and 2, then show it as `(2, 1)`.

<details><summary>Hint 1: idea</summary>
Two kinds of axes were stretched: those the input does not have (on the left), and those where it has a 1 and <code>g</code> does not.
</details>
<details><summary>Hint 2: approach</summary>
<code>extra = g.ndim - len(shape)</code> axes are missing on the left: all of <code>range(extra)</code>. Axis <code>i</code> of the input is axis <code>extra + i</code> of <code>g</code>. Collect the axes, sum over them at once, and let
<code>reshape</code> bring back the 1s.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>g (4, 6, 7, 8)</code>, input <code>(6, 1, 8)</code>: extra 1, so axis 0; the 1 stands at input axis 1, that is axis 2 of <code>g</code>. Sum over (0, 2) is <code>(6, 8)</code>, shown as <code>(6, 1, 8)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "unbroadcast", "solution": true}
#| export
def unbroadcast(g, shape):
    """Sum ``g`` over the axes along which an input of ``shape`` was stretched; the result has that shape."""
    ### BEGIN SOLUTION
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    stretched = [extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1]
    return reshape(reduce_sum(g, axis=(*range(extra), *stretched)), shape=shape)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-unbroadcast", "points": 10, "skill": "broadcasting"}
def test_unbroadcast():
    """Missing axes, ones, both, none, size 0."""
    g = Tensor([[1, 2, 3], [10, 20, 30]])
    check("(2,3) down to (3,)", unbroadcast(g, (3,)).data, [11.0, 22.0, 33.0], {(6.0, 60.0): "summed over the wrong axis", (5.5, 11.0, 16.5): "the mean; every use counts in full"})
    check("(2,3) down to (2,1)", unbroadcast(g, (2, 1)).data, [[6.0], [60.0]], {(6.0, 60.0): "the 1 is gone: the shape must be the input's"})
    check("(2,3) down to ()", unbroadcast(g, ()).data, np.array(66.0))
    check("(5,2,3) down to (2,1)", unbroadcast(Tensor(np.ones((5, 2, 3))), (2, 1)).data, [[15.0], [15.0]])
    check("(1,3) down to (3,)", unbroadcast(Tensor([[1, 2, 3]]), (3,)).data, [1.0, 2.0, 3.0])
    check("(0,3) down to (1,3)", unbroadcast(Tensor(np.ones((0, 3))), (1, 3)).data, [[0.0, 0.0, 0.0]])
    heard = []
    with listen(heard.append):
        same = unbroadcast(g, (2, 3))
    check("nothing stretched: g itself, no op", (same is g, len(heard)), (True, 0), {
        (False, 2): "summed over no axis and reshaped to the same shape: return g", (False, 1): "an op for nothing: return g"})


test_unbroadcast()

# %% [markdown]
"""
**Task.** The rules of arithmetic. Of the four with two inputs, every recipe ends in `unbroadcast(..., shape of that input)`; `power` has one tensor, and nothing is stretched. What each needs:

| out | if `a` moves by 1, `out` moves by | if `b` moves by 1, `out` moves by |
|---|---|---|
| `a + b` | 1 | 1 |
| `a - b` | 1 | -1 |
| `a * b` | `b` | `a` |
| `a / b` | `1 / b` | `-a / b²`, which is `-out / b`: the result is at hand, use it |
| `a ** n` | `n · a ** (n - 1)` | (`n` is a plain number) |

One trap: `a ** 0` is 1 everywhere, so its gradient is 0 everywhere. The formula gives `0 · 0 ** -1`, which is NaN where `a` is 0. `exponent` is a plain number, not a tensor, so *here* you may ask `if exponent == 0`.

<details><summary>Hint 1: idea</summary>
Times <code>g</code>, then unbroadcast. Operators on tensors (<code>g * b</code>, <code>-g</code>, <code>a ** 2</code>) are ops.
</details>
<details><summary>Hint 2: approach</summary>
<code>return lambda: ..., lambda: ...</code> is a tuple of two recipes; one recipe needs its comma: <code>return (lambda: ...,)</code>. A gradient of zeros with the right shape and type: <code>g * 0.0</code>.
</details>
<details><summary>Hint 3: worked example, another op</summary>
For <code>a - 3 b</code>: <code>return lambda: unbroadcast(g, a.shape), lambda: unbroadcast(g * -3.0, b.shape)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "arithmetic-rules", "solution": true}
#| export
@vjp(add)
def add_vjp(g, out, a, b):
    """Gradients of a + b."""
    ### BEGIN SOLUTION
    return lambda: unbroadcast(g, a.shape), lambda: unbroadcast(g, b.shape)
    ### END SOLUTION


@vjp(subtract)
def subtract_vjp(g, out, a, b):
    """Gradients of a - b."""
    ### BEGIN SOLUTION
    return lambda: unbroadcast(g, a.shape), lambda: unbroadcast(-g, b.shape)
    ### END SOLUTION


@vjp(multiply)
def multiply_vjp(g, out, a, b):
    """Gradients of a * b."""
    ### BEGIN SOLUTION
    return lambda: unbroadcast(g * b, a.shape), lambda: unbroadcast(g * a, b.shape)
    ### END SOLUTION


@vjp(divide)
def divide_vjp(g, out, a, b):
    """Gradients of a / b; for b by way of the result."""
    ### BEGIN SOLUTION
    return lambda: unbroadcast(g / b, a.shape), lambda: unbroadcast(-g * out / b, b.shape)
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "power-rule", "solution": true}
#| export
@vjp(power)
def power_vjp(g, out, a, exponent):
    """Gradient of a to the power of a number; 0 everywhere when the exponent is 0."""
    ### BEGIN SOLUTION
    if exponent == 0:
        return (lambda: g * 0.0,)
    return (lambda: g * (a ** (exponent - 1) * float(exponent)),)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-arithmetic-rules", "points": 16, "skill": "elementwise"}
def test_arithmetic_rules():
    """Values by hand, then differences over broadcast shapes."""
    a, b, g = Tensor([6, 8]), Tensor([2, 4]), Tensor([1, 10])
    check("multiply, for a", run_rule(multiply, g, a, b)[0].data, [2.0, 40.0], {(6.0, 80.0): "that is the gradient of b: each gets g times the OTHER", (2.0, 4.0): "g was left out"})
    check("subtract, for b", run_rule(subtract, g, a, b)[1].data, [-1.0, -10.0], {(1.0, 10.0): "the sign"})
    check("divide, for a", run_rule(divide, g, a, b)[0].data, [0.5, 2.5])
    check("divide, for b", run_rule(divide, g, a, b)[1].data, [-1.5, -5.0], {(1.5, 5.0): "the sign", (-3.0, -20.0): "divided by b once, not twice"})
    check("power 3", run_rule(power, g, a, exponent=3)[0].data, [108.0, 1920.0], {
        (36.0, 640.0): "the factor n is missing", (648.0, 15360.0): "the exponent goes down by 1", (108.0, 192.0): "g was left out"})
    check("power 0 at 0", run_rule(power, [1.0], [0.0], exponent=0)[0].data, [0.0])
    check("power 1 at 0", run_rule(power, [1.0], [0.0], exponent=1)[0].data, [1.0])
    for rule in (add, subtract, multiply, divide):
        shapes = [dx.shape for dx in run_rule(rule, np.ones((2, 3)), np.ones((2, 1)), np.ones(3))]
        check(f"{rule.name}, (2,1) with (3,): the gradients' shapes", shapes, [(2, 1), (3,)], {
            ((2, 3), (2, 3)): "both are still stretched: unbroadcast", ((2, 3), (3,)): "the first is still stretched: unbroadcast", ((2, 1), (2, 3)): "the second is still stretched: unbroadcast"})
    rng = np.random.default_rng(1)
    for rule in (add, subtract, multiply, divide):
        x, y = Tensor(rng.uniform(1, 2, (2, 1, 3))), Tensor(rng.uniform(1, 2, (4, 1)))
        check(f"{rule.name}, (2,1,3) with (4,1): largest difference", check_rule(rule, x, y), 0.0, atol=1e-6)
        check(f"{rule.name}: ops heard before a recipe is called (the work belongs behind lambda)", heard_from(rule, x, y)[0], [])
    for n in (2, -1, 0.5):
        check(f"power {n}: largest difference", check_rule(power, [1.5, 2.0], exponent=n), 0.0, atol=1e-6)
    heard = {rule.name: len(heard_from(rule, a, b)[1]) for rule in (multiply, divide)}
    check("recipes that compute past the door, and the ops heard from them", {name: n for name, n in heard.items() if n < 2}, {})
    check("power: ops heard before its recipe is called", heard_from(power, a, exponent=3)[0], [])


test_arithmetic_rules()

# %% [markdown]
"""
## 4. Matrix products

**Question.** `out = a @ b` with `a` of `(2, 3)` and `b` of `(3, 4)`. `g` has shape `(2, 4)`. How do you make a `(2, 3)` from `(2, 4)` and `(3, 4)`?

There is only one product that fits: `(2, 4) @ (4, 3)`, that is `g @ b.T`. And for `b`: `(3, 2) @ (2, 4)`, that is `a.T @ g`. The shapes alone nearly prove it; the elements agree: `out[i, j]` contains `a[i, k] · b[k, j]`, so `a[i, k]` collects `g[i, j] · b[k, j]` over all `j`.

Count the work: each of the two costs as many multiply-adds as the forward product. *That* is where "backward costs twice as much as forward" comes from, and you will see below when it is not so.

With more axes than two, leading axes are only more rows: `rows` (given) shows `(..., n)` as `(rows, n)`, so that the weight's gradient is **one** tall product and not a stack of small ones to be summed afterwards.

**Task.** Write `linear_vjp` for `x (..., in)`, `weight (in, out)`, `bias (out,)`. Three recipes, always. (When a layer has no bias, the third one is not called.)
- for `x`: one product, then back to the shape of `x`;
- for `weight`: one product of `rows`;
- for `bias`: it was stretched over all rows.

<details><summary>Hint 1: idea</summary>
Write the shapes of what you have and of what you want; only one product fits.
</details>
<details><summary>Hint 2: approach</summary>
<code>rows(x)</code> is <code>(rows, in)</code>, <code>rows(g)</code> is <code>(rows, out)</code>. <code>.T</code> and <code>@</code> are ops. <code>reshape(t, shape=x.shape)</code>, <code>reduce_sum(t, axis=0)</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>x (5, 7, 4)</code>, <code>weight (4, 9)</code>: <code>rows(g)</code> is <code>(35, 9)</code>. For x: <code>(35, 9) @ (9, 4)</code> is <code>(35, 4)</code>, shown as <code>(5, 7, 4)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "linear-rule", "solution": true}
#| export
def rows(x):
    """Show (..., n) as (rows, n): all leading axes become one."""
    return x if x.ndim == 2 else reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))


@vjp(linear)
def linear_vjp(g, out, x, weight, bias=None):
    """Gradients of x (..., in) @ weight (in, out) + bias (out,), from g (..., out)."""
    ### BEGIN SOLUTION
    return (
        lambda: reshape(rows(g) @ weight.T, shape=x.shape),  # (rows, out) @ (out, in) -> (rows, in)
        lambda: rows(x).T @ rows(g),  # (in, rows) @ (rows, out) -> (in, out)
        lambda: reduce_sum(rows(g), axis=0),  # (rows, out) -> (out,)
    )
    ### END SOLUTION

# %% [markdown]
"""
**`matmul`** in general has two more difficulties: vectors, and leading axes that broadcast. The first is given: `as_matrices` gives a vector its borrowed axis back (in `a`, `b` and `g` alike), and turns a stack times *one* matrix into one tall product.

**Task.** Write `matmul_vjp` with `g2, a2, b2`, which are now matrices or stacks of them: the product, then `unbroadcast` to the shape of `a2` or `b2`, then `reshape` to the shape of `a` or `b` themselves.

<details><summary>Hint 1: idea</summary>
The same two products as at the start of this section. A stack that was stretched is a bias once more: sum over it.
</details>
<details><summary>Hint 2: approach</summary>
<code>.T</code> swaps the last two axes, so it works for stacks too. Write the shapes beside each step: product, after unbroadcast, after reshape.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>a (6, 2, 3)</code>, <code>b (7, 1, 3, 4)</code>, <code>g (7, 6, 2, 4)</code>. For a: <code>(7, 6, 2, 4) @ (7, 1, 4, 3)</code> is <code>(7, 6, 2, 3)</code>; a was stretched over the 7: sum, and <code>(6, 2, 3)</code> is left.
</details>
"""

# %%
#| export
def as_matrices(g, a, b):
    """Return g, a, b of ``a @ b`` as matrices or stacks of them; a stack times one matrix becomes one tall matrix."""
    m, n = a.shape[-2] if a.ndim > 1 else 1, b.shape[-1] if b.ndim > 1 else 1
    stack = g.shape[: max(a.ndim, b.ndim, 2) - 2]
    if g.shape != (*stack, m, n):
        g = reshape(g, shape=(*stack, m, n))
    if a.ndim == 1:
        a = reshape(a, shape=(1, *a.shape))
    if b.ndim == 1:
        b = reshape(b, shape=(*b.shape, 1))
    return (rows(g), rows(a), b) if b.ndim == 2 else (g, a, b)

# %% nbgrader={"grade": false, "grade_id": "matmul-rule", "solution": true}
#| export
@vjp(matmul)
def matmul_vjp(g, out, a, b):
    """Gradients of a @ b, for matrices, stacks of matrices (broadcast) and vectors."""
    g2, a2, b2 = as_matrices(g, a, b)
    ### BEGIN SOLUTION
    return (
        lambda: reshape(unbroadcast(g2 @ b2.T, a2.shape), shape=a.shape),  # (..., m, n) @ (..., n, k) -> (..., m, k)
        lambda: reshape(unbroadcast(a2.T @ g2, b2.shape), shape=b.shape),  # (..., k, m) @ (..., m, n) -> (..., k, n)
    )
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-product-rules", "points": 16, "skill": "products"}
def test_product_rules():
    """By hand, by differences, and by counting products."""
    x, w, g = Tensor([[1, 2]]), Tensor([[1, 2, 3], [4, 5, 6]]), Tensor([[1, 10, 100]])
    dx, dw, db = run_rule(linear, g, x, w, [0.0, 0.0, 0.0])
    check("linear, for x", dx.data, [[321.0, 654.0]])
    check("linear, for the weight", dw.data, [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    check("linear, for the bias", db.data, [1.0, 10.0, 100.0], {((1.0, 10.0, 100.0),): "the bias has one axis"})
    two_rows = run_rule(linear, [[1.0, 10.0], [2.0, 20.0]], [[1.0], [1.0]], [[1.0, 1.0]], [0.0, 0.0])
    check("two rows, for the bias", two_rows[2].data, [3.0, 30.0], {(1.5, 15.0): "the mean over the rows; every row counts in full", (11.0, 22.0): "summed over the wrong axis"})
    check("two rows, for the weight", two_rows[1].data, [[3.0, 30.0]], {((1.5, 15.0),): "the mean over the rows; every row counts in full"})
    check("a stack of five times a stack of one, for the one", run_rule(matmul, np.ones((5, 2, 4)), np.ones((5, 2, 3)), np.ones((1, 3, 4)))[1].shape, (1, 3, 4), {
        (5, 3, 4): "one for each of the five: b was stretched, so sum with unbroadcast"})
    rng = np.random.default_rng(2)

    def normal(*shape):
        return Tensor(rng.standard_normal(shape))

    for shape in ((4,), (3, 4), (2, 3, 4), (0, 4)):
        check(f"linear on {shape}: largest difference", check_rule(linear, normal(*shape), normal(4, 2), normal(2)), 0.0, atol=1e-6)
    check("linear without a bias: largest difference", check_rule(linear, normal(3, 4), normal(4, 2)), 0.0, atol=1e-6)
    for a, b in (((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (5, 3, 1)), ((3,), (2, 3, 4)), ((2, 2, 3), (3,))):
        check(f"{a} @ {b}: largest difference", check_rule(matmul, normal(*a), normal(*b)), 0.0, atol=1e-6)
    for rule, shapes in ((linear, ((3, 4), (4, 2), (2,))), (matmul, ((2, 3), (3, 4)))):
        check(f"{rule.name}: ops heard before a recipe is called (the work belongs behind lambda)", heard_from(rule, *(normal(*s) for s in shapes))[0], [])
    heard = []
    with listen(heard.append):
        run_rule(linear, normal(5, 7, 3), normal(5, 7, 4), normal(4, 3))
    products = [event.in_shapes for event in heard if event.op is matmul]
    check("products behind linear, in all", len(products), 2)
    check("the weight's is one tall product", ((4, 35), (35, 3)) in products, True, {False: "a stack of products, summed afterwards"})


test_product_rules()

# %% [markdown]
"""
## 5. Sums, maxima and views

**Question.** `out = a.sum()`. Each element of `a` goes into the sum once. What is its gradient?

`g`, for all of them. A sum backward is a *stretch*, as a stretch backward was a sum: they are each other's mirror. A view moves nothing, so its gradient moves nothing either: it only shows `g` in the old shape.

The maximum sends all of `g` to the one element that won. If several are equal they share it in equal parts. (PyTorch does so too for a maximum over several axes; any split would be a defensible answer at a tie.)

Given: `kept` shows a gradient with the reduced axes as 1, so that it lines up with `a`: for `a (2, 3)` summed over axis 0, `g (3,)` becomes `(1, 3)`; with axis 1, `(2,)` becomes `(2, 1)`.

**Task.** Five rules.
- `reduce_sum`: `kept`, then stretch with `broadcast_to(..., shape=a.shape)`.
- `reduce_max`: which elements are `equal` to the (kept) result? How many are they? `where(largest, share, 0.0)`.
- `reshape`, `broadcast_to`: one line each.
- `transpose`: `axes` says where each axis came from; you need the way back.

<details><summary>Hint 1: idea</summary>
For each rule ask: which elements of <code>out</code> move when one element of <code>a</code> moves?
</details>
<details><summary>Hint 2: approach</summary>
Counting the equal ones: <code>reduce_sum(largest, axis=axis, keepdims=True)</code> works on booleans. The way back: axis <code>i</code> of <code>a</code> stands in <code>out</code> at the position where <code>axes</code> says <code>i</code>. A recipe of
several lines is an inner <code>def recipe():</code>, returned as <code>(recipe,)</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>axes = (3, 0, 2, 1)</code>: axis 0 of <code>a</code> is at position 1, axis 1 at 3, axis 2 at 2, axis 3 at 0. The way back is <code>(1, 3, 2, 0)</code>.
</details>
"""

# %%
#| export
def kept(g, a, axis):
    """Show the gradient of a reduction of ``a`` with the reduced axes as 1, so that it lines up with ``a``."""
    return reshape(g, shape=reduce_shape(a.shape, axis, keepdims=True))

# %% nbgrader={"grade": false, "grade_id": "reduction-rules", "solution": true}
#| export
@vjp(reduce_sum)
def reduce_sum_vjp(g, out, a, axis=None, keepdims=False):
    """Gradient of a sum along ``axis`` (None: of all)."""
    ### BEGIN SOLUTION
    return (lambda: broadcast_to(kept(g, a, axis), shape=a.shape),)
    ### END SOLUTION


@vjp(reduce_max)
def reduce_max_vjp(g, out, a, axis=None, keepdims=False):
    """Gradient of the largest element along ``axis``: goes to it alone; equal ones share in equal parts."""
    ### BEGIN SOLUTION
    def recipe():
        largest = equal(a, kept(out, a, axis))
        share = kept(g, a, axis) / reduce_sum(largest, axis=axis, keepdims=True)
        return where(largest, share, 0.0)

    return (recipe,)
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "view-rules", "solution": true}
#| export
@vjp(reshape)
def reshape_vjp(g, out, a, shape):
    """Gradient of a reshape: g in the old shape."""
    ### BEGIN SOLUTION
    return (lambda: reshape(g, shape=a.shape),)
    ### END SOLUTION


@vjp(broadcast_to)
def broadcast_to_vjp(g, out, a, shape):
    """Gradient of a stretch."""
    ### BEGIN SOLUTION
    return (lambda: unbroadcast(g, a.shape),)
    ### END SOLUTION


@vjp(transpose)
def transpose_vjp(g, out, a, axes):
    """Gradient of a transpose: the axes of g in the old order. ``axes`` may be negative."""
    order = normalize_axes(a.ndim, tuple(axes))
    ### BEGIN SOLUTION
    return (lambda: transpose(g, axes=tuple(order.index(i) for i in range(a.ndim))),)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-shape-rules", "points": 14, "skill": "shapes"}
def test_shape_rules():
    """Along every axis, kept or not; ties; the way back."""
    m = Tensor([[1, 5, 5], [7, 2, 0]])
    check("sum over axis 0", run_rule(reduce_sum, [1.0, 2.0, 3.0], m, axis=0)[0].data, [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    check("sum over axis 1", run_rule(reduce_sum, [1.0, 2.0], m, axis=1)[0].data, [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    check("the largest of each row; a tie is shared", run_rule(reduce_max, [1.0, 2.0], m, axis=1)[0].data, [[0.0, 0.5, 0.5], [2.0, 0.0, 0.0]],
          {((0.0, 1.0, 1.0), (2.0, 0.0, 0.0)): "at a tie the parts must add up to g", ((1.0, 1.0, 1.0), (2.0, 2.0, 2.0)): "only the largest element gets g",
           ((0.0, 1.0, 0.0), (2.0, 0.0, 0.0)): "at a tie all share, not only the first"})
    check("a row stretched to two", run_rule(broadcast_to, np.ones((2, 3)), [1.0, 2.0, 3.0], shape=(2, 3))[0].data.tolist(), [2.0, 2.0, 2.0], {
        (1.0, 1.0, 1.0): "every copy counts: sum over them", ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)): "still stretched: unbroadcast"})
    check("transpose, the way back", run_rule(transpose, Tensor(np.zeros((4, 2, 3))), np.zeros((2, 3, 4)), axes=(2, 0, 1))[0].shape, (2, 3, 4), {(3, 4, 2): "axes was applied once more, not undone"})
    a = Tensor(np.random.default_rng(3).permutation(24).reshape(2, 3, 4).astype(np.float64))
    for axis in (None, 0, -1, (0, 2)):
        for kept_axes in (False, True):
            worst = max(check_rule(rule, a, axis=axis, keepdims=kept_axes) for rule in (reduce_sum, reduce_max))
            check(f"sum and max, axis {axis}, keepdims {kept_axes}: largest difference", worst, 0.0, atol=1e-6)
    check("reshape: largest difference", check_rule(reshape, a, shape=(4, -1)), 0.0, atol=1e-6)
    check("broadcast_to: largest difference", check_rule(broadcast_to, np.ones((3, 1)), shape=(2, 3, 4)), 0.0, atol=1e-6)
    check("transpose: largest difference", check_rule(transpose, a, axes=(-2, 2, 0)), 0.0, atol=1e-6)
    early = {}
    for rule, attrs in ((reduce_sum, {"axis": 0}), (reduce_max, {"axis": 0}), (reshape, {"shape": (6, 4)}), (broadcast_to, {"shape": (5, 2, 3, 4)}), (transpose, {"axes": (2, 0, 1)})):
        before, inside = heard_from(rule, a, **attrs)
        early |= {rule.name: before} if before else {}
        check(f"{rule.name}: its recipe is heard at the door", len(inside) > 0, True, {False: "computed with NumPy, or before the recipe was called"})
    check("rules that compute before their recipe is called", early, {})


test_shape_rules()

# %% [markdown]
"""
**Activations.** Each element of the output depends on one element of the input, so the rule is `g` times a slope. Often the slope is cheapest from the *result*: the sigmoid's is `s (1 - s)`, where `s` is `out` and no exponential is needed again.

**Task.** Six rules: `relu` (slope 1 above 0, else 0; at 0 we say 0), `sigmoid`, `tanh` (slope `1 - t²`), `exp`, `log`, `sqrt` (slope `1 / (2 √a)`). No `if`: `relu` needs a comparison and `where`. Ops only, as everywhere: the check listens at the door.

<details><summary>Hint 1: idea</summary>
What is the slope at one element? Can it be written with <code>out</code>, which is there already?
</details>
<details><summary>Hint 2: approach</summary>
<code>where(condition, g, 0.0)</code> takes <code>g</code> where the condition holds. The slope of eᵃ is eᵃ. The slope of log a is 1 / a.
</details>
<details><summary>Hint 3: worked example, another op</summary>
<code>out = 1 / a</code> has slope -1 / a², which is -out²: <code>return (lambda: -g * out * out,)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "activation-rules", "solution": true}
#| export
@vjp(relu)
def relu_vjp(g, out, a):
    """Gradient of relu: passes where a is above 0 (at 0 it does not)."""
    ### BEGIN SOLUTION
    return (lambda: where(a > 0.0, g, 0.0),)
    ### END SOLUTION


@vjp(sigmoid)
def sigmoid_vjp(g, out, a):
    """Gradient of the sigmoid, from its result."""
    ### BEGIN SOLUTION
    return (lambda: g * out * (1.0 - out),)
    ### END SOLUTION


@vjp(tanh)
def tanh_vjp(g, out, a):
    """Gradient of tanh, from its result."""
    ### BEGIN SOLUTION
    return (lambda: g * (1.0 - out * out),)
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "exponential-rules", "solution": true}
#| export
@vjp(exp)
def exp_vjp(g, out, a):
    """Gradient of e to the power of a."""
    ### BEGIN SOLUTION
    return (lambda: g * out,)
    ### END SOLUTION


@vjp(log)
def log_vjp(g, out, a):
    """Gradient of the natural logarithm."""
    ### BEGIN SOLUTION
    return (lambda: g / a,)
    ### END SOLUTION


@vjp(sqrt)
def sqrt_vjp(g, out, a):
    """Gradient of the square root, from its result."""
    ### BEGIN SOLUTION
    return (lambda: g / (out * 2.0),)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-activation-rules", "points": 8, "skill": "elementwise"}
def test_activation_rules():
    """By hand and by differences."""
    check("relu", run_rule(relu, [1.0, 2.0, 4.0], [-1.0, 0.0, 3.0])[0].data, [0.0, 0.0, 4.0], {(0.0, 0.0, 3.0): "the slope times a, not times g", (0.0, 2.0, 4.0): "at 0 we say 0"})
    check("sigmoid at 0", run_rule(sigmoid, [4.0], [0.0])[0].data, [1.0], {(2.0,): "s, not s (1 - s)", (0.0,): "the slope is made of the result, not of a"})
    check("tanh where it is 0.5", run_rule(tanh, [4.0], [0.549306144])[0].data.tolist(), [3.0], {
        (2.0,): "1 - t: the square of the result is wanted", (2.793051,): "the slope is made of the result, not of a", (0.75,): "g was left out"}, rtol=1e-5)
    check("exp at 0", run_rule(exp, [4.0], [0.0])[0].data.tolist(), [4.0], {(10.873127,): "out is e to the power of a already", (0.0,): "the slope is made of the result, not of a"}, rtol=1e-5)
    check("log at 4", run_rule(log, [1.0], [4.0])[0].data.tolist(), [0.25], {(4.0,): "1 / a, not a", (0.7213475,): "divided by the result, not by a"})
    check("sqrt at 4", run_rule(sqrt, [1.0], [4.0])[0].data.tolist(), [0.25], {(0.5,): "the half is missing", (1.0,): "half the result, not 1 over twice of it", (0.125,): "the slope is made of the result, not of a"})
    for rule in (relu, sigmoid, tanh, exp, log, sqrt):
        check(f"{rule.name}: largest difference", check_rule(rule, [[0.5, 1.0], [1.5, 3.0]]), 0.0, atol=1e-6)
    for rule in (relu, sigmoid, tanh, exp):
        check(f"{rule.name} below 0: largest difference", check_rule(rule, [-0.5, -2.0]), 0.0, atol=1e-6)
    least = ((relu, 2), (sigmoid, 3), (tanh, 3), (exp, 1), (log, 1), (sqrt, 2))  # no formula needs fewer ops
    heard = {rule.name: heard_from(rule, [1.0, 2.0]) for rule, _ in least}
    check("rules that compute before their recipe is called", {name: before for name, (before, _) in heard.items() if before}, {})
    check("recipes that compute past the door (NumPy), and the ops heard from them", {rule.name: len(heard[rule.name][1]) for rule, n in least if len(heard[rule.name][1]) < n}, {})


test_activation_rules()

# %% [markdown]
"""
**Given: the ops that move and select.** Their rules are mirror images: what `index` takes, `put` puts back, and the other way round; `concatenate` is undone by slicing; `where` and `maximum` send `g` to the side it came from. Read `pick`: the gradient of
"the log-probability of the right class" is zero everywhere but at the right class.
"""

# %%
#| export
@vjp(cast)
def cast_vjp(g, out, a, dtype):
    """Bring g back to the type of a."""
    return (lambda: cast(g, dtype=a.dtype),)


@vjp(where)
def where_vjp(g, out, condition, a, b):
    """Send each element of g to the side it was taken from; the condition has no gradient."""
    return (
        None,
        lambda: unbroadcast(where(condition, g, 0.0), a.shape),
        lambda: unbroadcast(where(condition, 0.0, g), b.shape),
    )


@vjp(maximum)
def maximum_vjp(g, out, a, b):
    """Send each element of g to the larger side; at a tie half to each."""
    def share(larger, smaller):
        return where(equal(a, b), g * 0.5, where(greater(larger, smaller), g, 0.0))

    return lambda: unbroadcast(share(a, b), a.shape), lambda: unbroadcast(share(b, a), b.shape)

# %%
#| export
@vjp(index)
def index_vjp(g, out, a, key):
    """Put g where the elements came from; a place taken twice receives both."""
    parts = [part.data if isinstance(part, Tensor) else part for part in (key if isinstance(key, tuple) else (key,))]
    return (lambda: put(g, key=tuple(parts), shape=a.shape),)


@vjp(put)
def put_vjp(g, out, a, key, shape):
    """Take from g where the elements were put."""
    return (lambda: unbroadcast(index(g, key=key), a.shape),)


@vjp(concatenate)
def concatenate_vjp(g, out, *arrays, axis=0):
    """Cut g into the pieces that were joined."""
    axis = normalize_axes(g.ndim, axis)[0]
    ends = [0, *accumulate(a.shape[axis] for a in arrays)]

    def piece(start, end):
        return lambda: index(g, key=(*[slice(None)] * axis, slice(start, end)))

    return tuple(piece(start, end) for start, end in zip(ends, ends[1:]))


@vjp(pick)
def pick_vjp(g, out, log_probs, targets):
    """Put g at the class that was picked: g (...) -> (..., C)."""
    def recipe():
        count, classes = prod(targets.shape), log_probs.shape[-1]
        key = (np.arange(count), targets.data.reshape(count).astype(np.intp))
        flat = put(reshape(g, shape=(count,)), key=key, shape=(count, classes))
        return reshape(flat, shape=log_probs.shape)

    return recipe, None

# %%
print(run_rule(index, [1.0, 10.0, 100.0], [5.0, 6.0, 7.0], key=[0, 2, 0])[0])
print(run_rule(pick, [1.0, 10.0], np.zeros((2, 3), np.float32), np.array([2, 0]))[0])

# %% [markdown]
"""
**What if** you need an op that nobody has written a rule for? It says so, by name. Write the rule, and check it in the same breath:
"""

# %%
from tinytorch.core.tensor import op


@op(shape=lambda a: a)
def sine(a):
    return np.sin(a)


try:
    check_rule(sine, [0.5])
except ValueError as error:
    print(error)

vjp(sine)(lambda g, out, a: (lambda: g * sine(a + np.pi / 2),))  # the slope of sin is cos, a sine a quarter turn ahead
print("largest difference:", check_rule(sine, [0.5, 1.0, 4.0]))

# %% [markdown]
"""
## 6. The walk

**Question.** Every tensor that wants a gradient remembers in `made_by` which op made it, and from what. The rules go one step back each. In which order must the steps be taken?

```
    x ──▶ a = x * x ──▶ c = a + b ──▶ L          L, then c, then a and b (either first), then x.
    └───▶ b = 3 x   ────┘
```

`x` is used twice (three times, counting `x * x`). It must wait until *all* its uses have reported, and its gradient is the **sum** of what they report. So: never visit a tensor before everything made of it. That is a *topological order*.

The obvious way is a function that calls itself. It works on small graphs, so one ships it. Then somebody trains a recurrent network over a long text:
"""

# %%
def recursive_depth(tensor):
    return 1 + max((recursive_depth(x) for x in tensor.made_by.inputs if x.requires_grad), default=0) if tensor.made_by else 0


for length in (10, 100, 10_000):
    y = Tensor([1.0], requires_grad=True)
    for _ in range(length):
        y = y + 1.0
    try:
        print(f"a chain of {length:,} ops: depth {recursive_depth(y):,}")
    except RecursionError:
        print(f"a chain of {length:,} ops: RecursionError")

# %% [markdown]
"""
Python's own stack holds a thousand calls or so. A list holds as many as you like: so we keep our own stack.

Given: `sources(tensor)` answers "from which inputs was it made, to which a gradient flows?". It is empty for a *leaf*, a tensor that no op made, such as a weight. It also complains about a missing rule, or about a graph that is gone, *before* anything has been changed.
"""

# %%
#| export
FREED = Node(None, (), {}, ())  # type: ignore[arg-type]  # in ``made_by`` where a graph was: walked, and gone


def wants_gradient(x):
    """Say whether a gradient flows into ``x``: it or something below it asked, and its op lets a gradient pass."""
    return x.requires_grad and (x.made_by is None or VJP.get(x.made_by.op) is not without_gradient)


def sources(tensor):
    """Return the inputs of the op that made ``tensor`` that want a gradient; none for a leaf."""
    node = tensor.made_by
    if node is None:
        return []
    if node is FREED:
        raise RuntimeError("backward: this graph was walked before and is freed; compute the result anew")
    find_rule(node.op)
    return [x for x in node.inputs if wants_gradient(x)]


def release(tensor):
    """Cut a walked tensor from what made it, so that memory is given back.

    A view of a leaf stays as it is: it keeps nothing alive, and a tied weight (``head.weight = table.weight.T``) is
    walked at every step.
    """
    node = tensor.made_by
    kept = node.op.view and node.inputs[0].made_by is None and np.may_share_memory(tensor.data, node.inputs[0].data)
    if not kept:
        tensor.made_by = FREED

# %% [markdown]
"""
**Task.** Write `graph_order(tensor)`: the list of all tensors that a gradient reaches from `tensor` (itself and the leaves included), each **once**, every tensor *after* its sources. So `tensor` is the last. Without recursion.

<details><summary>Hint 1: idea</summary>
A tensor may be written down when all its sources are. So each goes on the stack twice: once to look at its sources, and, below them, once more to be written down.
</details>
<details><summary>Hint 2: approach</summary>
Stack of pairs <code>(tensor, finished)</code>. Pop one. Finished: append it to the order. Else, if not seen before: remember it (<code>id</code>), push <code>(tensor, True)</code>, then push all its sources with <code>False</code>. They lie on top, so they are done first.
</details>
<details><summary>Hint 3: worked example, other names</summary>
<code>q</code> made of <code>p</code> and <code>r</code>. Stack: q? → q!, p?, r? → (r popped) q!, p?, r! → r written → p? → p! → p written → q! → q written. Order: r, p, q.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "graph-order", "solution": true}
#| export
def graph_order(tensor):
    """Return every tensor that a gradient reaches from ``tensor``, each once, its sources before it.

    A tensor is known by ``id``. No recursion: a chain of any length works.
    """
    ### BEGIN SOLUTION
    order, seen, stack = [], set(), [(tensor, False)]
    while stack:
        one, finished = stack.pop()
        if finished:
            order.append(one)
        elif id(one) not in seen:
            seen.add(id(one))
            stack.append((one, True))
            stack += [(x, False) for x in sources(one)]
    return order
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-graph-order", "points": 10, "skill": "walk"}
def test_graph_order():
    """Each once, sources first, any length."""
    x = Tensor([2.0], requires_grad=True)
    a = x * x
    b = x * 3.0
    c = a + b
    names = {id(x): "x", id(a): "a", id(b): "b", id(c): "c"}
    order = [names[id(t)] for t in graph_order(c)]
    check("each once", len(order), 4, {6: "x was listed once for each use", 5: "x was listed twice"})
    check("sources first", (order[0], order[-1], set(order[1:3]) == {"a", "b"}), ("x", "c", True), {
        ("c", "x", True): "the other way round: sources come first", ("c", "a", False): "each before its sources: sources come first", ("c", "b", False): "each before its sources: sources come first"})
    check("a leaf alone", len(graph_order(x)), 1)
    check("what wants no gradient is left out", len(graph_order(x + Tensor([1.0]))), 2, {3: "a tensor without requires_grad was walked into"})
    for _ in range(40):
        c = c + c
    check("40 doublings: 2 to the 40 paths, few tensors", len(graph_order(c)), 44)
    for _ in range(10_000):
        c = c + 1.0
    check("a chain of 10,000", len(graph_order(c)), 10_044)


test_graph_order()

# %% [markdown]
"""
Given, for one step of the walk:

- `seed(tensor, gradient)`: the gradient to start from. For a scalar it is 1; a larger tensor has no single slope, so one must be given.
- `pull_back(tensor, g)`: apply the rule of the op that made `tensor` and return pairs `(input, its gradient)`, only for those inputs that want one. It runs in the scope of the *forward* op, below `backward`: so a listener knows for which layer this
  work is done. It gives each gradient the type of its input, refuses a wrong shape by name, and sees to it that what arrives at a leaf is memory of its own: `add` hands the same `g` to both inputs, and an optimizer that scales one in place must not scale the other.
"""

# %%
#| export
def seed(tensor, gradient=None):
    """Return the gradient a walk starts from: ``gradient`` in the tensor's shape and type, or 1 for a single number."""
    if not tensor.requires_grad:
        raise ValueError("backward: this tensor wants no gradient; nothing it was made of has requires_grad=True, "
                         "or it was made under no_grad()")
    if gradient is None and tensor.size != 1:
        raise ValueError(f"backward: the tensor has shape {tensor.shape}; want one number, or a gradient of that shape")
    if gradient is None:
        gradient = np.ones(tensor.shape)
    given = as_array(gradient.data if isinstance(gradient, Tensor) else gradient, tensor.dtype)
    if given.shape != tensor.shape:
        raise ValueError(f"backward: the gradient has shape {given.shape}; want {tensor.shape}")
    return Tensor(given if is_shape_only() else given.copy(), dtype=tensor.dtype)


def fitting(x, dx, borrowed):
    """Return ``dx`` in the type of ``x``, and for a leaf in memory of its own: neither a view nor ``borrowed``."""
    if dx.dtype != x.dtype:
        return cast(dx, dtype=x.dtype)
    shared = dx.data.base is not None or any(dx.data is t.data for t in borrowed)
    if x.made_by is None and shared and not is_shape_only():
        return Tensor(dx.data.copy(), dtype=x.dtype)
    return dx

# %%
#| export
def pull_back(tensor, g):
    """Apply the rule of the op that made ``tensor``: return (input, gradient) for the inputs that want one.

    Its ops are heard in the scope of the forward op, below the scope that is open now.
    """
    state, node = thread_state(), tensor.made_by
    outer, state.path = state.path, (*state.path, *node.scope)
    try:
        recipes, known, found = VJP[node.op](g, tensor, *node.inputs, **node.attrs), [tensor, g, *node.inputs], []
        if len(recipes) < len(node.inputs):
            raise ValueError(f"{node.op.name}: its rule has {len(recipes)} recipes for {len(node.inputs)} inputs")
        for x, recipe in zip(node.inputs, recipes):
            if recipe is not None and wants_gradient(x):
                dx = recipe()
                if dx.shape != x.shape:
                    raise ValueError(f"{node.op.name}: its rule gave {dx.shape} for an input of {x.shape}")
                known.append(fitting(x, dx, known))
                found.append((x, known[-1]))
        return found
    finally:
        state.path = outer

# %% [markdown]
"""
**Task.** Write the walk. `gradients` maps `id(tensor)` to the gradient that has been collected for it so far; it starts with the seed. Take tensors from the **end** of the order (`pop`, so that the list lets go of them). For each:

1. take its gradient out of `gradients` (there may be none: a rule may give nothing to an input);
2. a leaf (`made_by is None`): add the gradient to its `.grad`, or make it its `.grad` when that is `None`;
3. any other: `pull_back`, **add** each gradient to what `gradients` has for that input, and free the node: `release(one)`, given above, puts `FREED` where its `made_by` was.

Step 3 is why the walk gives memory back as it goes: as soon as a node is cut, the arrays that only it kept alive are gone. (Nothing else may keep them: no second list of what was passed.)

<details><summary>Hint 1: idea</summary>
Two kinds of tensors, two branches. Everything is in the three steps above.
</details>
<details><summary>Hint 2: approach</summary>
<code>g = gradients.pop(id(one), None)</code>. Adding: a plain <code>+</code> makes a new tensor, which is what we want; <code>+=</code> on arrays would change somebody else's gradient.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>y = p * p</code> at 5: gradients {y: 1}. pull_back gives (p, 5) and (p, 5): {p: 5}, then {p: 10}. p is a leaf: its grad is 10.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "backward", "solution": true}
#| export
def backward(tensor, gradient=None):
    """Walk back from ``tensor`` and add to the ``.grad`` of every leaf that wants one what it contributed.

    ``gradient`` (a Tensor or array of the tensor's shape) may be left out for a single number: it is 1 then. The
    graph is freed on the way, so its memory is given back during the walk, and a second walk is a
    ``RuntimeError``. The walk itself is not remembered.
    """
    gradients = {id(tensor): seed(tensor, gradient)}
    with scope("backward"), no_grad():
        ### BEGIN SOLUTION
        order = graph_order(tensor)
        while order:
            one = order.pop()
            g = gradients.pop(id(one), None)
            if one.made_by is None:
                if g is not None:
                    one.grad = g if one.grad is None else one.grad + g
            else:
                for x, dx in pull_back(one, g) if g is not None else ():
                    gradients[id(x)] = gradients[id(x)] + dx if id(x) in gradients else dx
                release(one)
        ### END SOLUTION


Tensor.backward = backward  # type: ignore[attr-defined]  # the one thing a later module adds to Tensor

# %% nbgrader={"grade": true, "grade_id": "test-backward", "points": 16, "skill": "walk"}
import weakref


def test_backward():
    """Sums over uses and calls, memory of its own, freeing, refusals."""
    x = Tensor([3.0], requires_grad=True)
    backward(x * x + 2.0 * x)
    check("x² + 2x at 3: three uses, one sum", x.grad and x.grad.item(), 8.0, {
        None: "nothing arrived: the walk begins at the end, and graph_order has it last", 2.0: "the last use overwrote the others", 3.0: "one use overwrote the others", 5.0: "one use of three is missing", 6.0: "the use in 2x is missing"})
    backward(x * 5.0)
    check("a second call adds", x.grad.item(), 13.0, {5.0: "a second call must add to .grad, not replace it"})
    x = Tensor([3.0], requires_grad=True)
    square = x * x
    backward(square * square + square)
    check("a result in the middle that is used three times: x⁴ + x² at 3", x.grad.item(), 114.0, {
        6.0: "one use alone: the last overwrote the others, or the walk went on before they had come"})
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    middle = a + b
    backward(middle, Tensor([1.0, 10.0]))
    check("a gradient that is given", a.grad.data, [1.0, 10.0], {(1.0, 1.0): "the given gradient was ignored"})
    check("a and b do not share memory", np.shares_memory(a.grad.data, b.grad.data), False)
    check("only leaves keep a gradient", middle.grad is None, True)
    check("the graph is freed", middle.made_by is FREED, True, {False: "release each tensor once its gradient was handed on"})
    check_raises("a second walk", RuntimeError, lambda: backward(middle, [1.0, 1.0]), must_say="freed")
    check_raises("two numbers and no gradient", ValueError, lambda: backward(a * 2.0), must_say="(2,)")
    check_raises("nobody wants a gradient", ValueError, lambda: backward(Tensor([1.0])), must_say="requires_grad")
    made, alive, deep = [], [], Tensor([0.5], requires_grad=True)
    for _ in range(5):
        deep = tanh(deep)
        made.append(weakref.ref(deep))
    last = deep * 1.0
    del deep
    with listen(lambda event: alive.append(sum(ref() is not None for ref in made))):
        backward(last)
    check("of five results in the middle, held when the walk ends: at most 2", alive[-1] <= 2, True, {False: "something holds what the walk has passed: pop from the order, cut each node"})
    y = long = Tensor([1.0], requires_grad=True)
    for _ in range(10_000):
        long = long + 1.0
    backward(long)
    check("a chain of 10,000", y.grad.item(), 1.0)


test_backward()

# %% [markdown]
"""
**A whole function at once.** `check_gradient` does for any function what `check_rule` did for one op: it runs your walk, and compares with differences. Given; it is the tool you will reach for whenever you write a layer. Gradients that other tensors in the function had before are left alone.
"""

# %%
#| export
def check_gradient(function, *tensors, eps=1e-6):
    """Compare ``backward`` through ``function(*tensors)`` with central differences; return the largest difference.

    Works on float64 copies of ``tensors`` (whole numbers are passed on as they are) and a random weighting of the
    output. Disagreement is a ``ValueError`` that names the argument, the place, yours and the expected value. At a
    kink (relu at 0, a tie of maxima) the two rightly disagree.
    """
    xs = [_in_float64(x) for x in tensors]
    out = function(*xs)
    weights, leaves = _random_weights(out), [x for x in graph_order(out) if x.made_by is None]
    before, worst = [x.grad for x in leaves], 0.0
    try:
        backward(out, weights)
        yours = [np.zeros(x.shape) if x.grad is None else x.grad.data for x in xs]
    finally:
        for x, grad in zip(leaves, before):
            x.grad = grad
    with no_grad():
        for i, x in enumerate(xs):
            if x.requires_grad:
                expected = differences(lambda: function(*xs), x, weights, eps)
                worst = max(worst, _compare(f"argument {i}", yours[i], expected))
    return worst

# %%
from tinytorch.core.activations import gelu, softmax
from tinytorch.core.losses import CrossEntropyLoss

rng = np.random.default_rng(0)
print("softmax      ", check_gradient(softmax, rng.standard_normal((3, 4)).astype(np.float32)))
print("gelu         ", check_gradient(gelu, rng.standard_normal((3, 4)).astype(np.float32)))
print("cross entropy", check_gradient(lambda x: CrossEntropyLoss()(x, Tensor(np.array([0, 2, 1]))), rng.standard_normal((3, 4)).astype(np.float32)))

# %% [markdown]
"""
Nobody wrote a rule for softmax, gelu or cross entropy. They are compositions, and the walk composes the rules.

## 7. What the walk holds, and what it costs

**Question.** You run a network forward and forget the result's history. Which memory can go? And which cannot, when you want to go backward later?

`multiply`'s rule needs both inputs, `sigmoid`'s its output: so everything in between stays until the walk has passed it. Twenty layers, with a graph and without:
"""

# %%
import tracemalloc


def twenty_layers(x):
    for _ in range(20):
        x = tanh(x)
    return x


def show_memory(title, x):
    tracemalloc.start()
    out = twenty_layers(x).sum()
    print(f"{title:>12}: {tracemalloc.get_traced_memory()[0] / 1024**2:5.2f} MB held after forward, wants a gradient: {out.requires_grad}")
    if out.requires_grad:
        held = []
        with listen(lambda event: held.append(tracemalloc.get_traced_memory()[0])):
            backward(out)
        print(" " * 14 + "MB during the walk: " + "  ".join(f"{bytes_held / 1024**2:.2f}" for bytes_held in held[:: len(held) // 8]))
        print(" " * 14 + f"the peak: {(max(held) - held[0]) / x.nbytes:.0f} arrays above the start, at op {held.index(max(held)) + 1} of {len(held)}; at the last op {held[-1] / 1024**2:.2f}")
    tracemalloc.stop()


block = np.ones((256, 256), np.float32)
show_memory("graph kept", Tensor(block, requires_grad=True))
with no_grad():
    show_memory("no_grad()", Tensor(block, requires_grad=True))

# %% [markdown]
"""
One array of that size is a quarter of a megabyte. With the graph, twenty and a bit; without it, none of those in between. During the walk the memory first *rises*: the gradient and a recipe's intermediate results are arrays too, and
nothing has been passed yet. Then it falls, because each node is cut when it has been passed. So the peak of a training step lies at the start of its backward pass. That is why evaluation runs under `no_grad()`, and why
keeping `losses.append(loss)` instead of `losses.append(loss.item())` fills memory when nobody walks the graph: the number is four bytes, the graph behind it is the network's every activation.

**Question.** A backward pass costs twice the forward pass, people say. Does it? A network 784-128-10, one sample. Guess, then count the products at the door:
"""

# %%
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential

model = Sequential(Linear(784, 128), ReLU(), Linear(128, 10))


def products_of(function):
    found = []
    with listen(lambda event: found.append(event) if event.op in (matmul, linear) else None):
        result = function()
    return result, [(2 * prod(event.in_shapes[0]) * event.in_shapes[1][-1], event) for event in found]


logits, ahead = products_of(lambda: model(Tensor(rng.standard_normal((1, 784)))))
_, back = products_of(lambda: backward(logits, np.ones((1, 10))))
for flops, event in ahead + back:
    print(f"{event.op.name:>6} {str(event.in_shapes[:2]):>22} {flops:>8,} FLOPs   in {' > '.join(s.name for s in event.scope)}")
forward_flops, backward_flops = (sum(flops for flops, _ in found) for found in (ahead, back))
print(f"forward {forward_flops:,}, backward {backward_flops:,}: {backward_flops / forward_flops:.3f} times, together {forward_flops + backward_flops:,}")

# %% [markdown]
"""
Three products, not four: the pixels want no gradient, so the recipe for the first layer's `x`, as dear as its forward pass, never ran. That is what recipes are for. And look at the last column: each product knows for which layer it worked.

**Use it.** With gradients, learning is one line: move every weight a little *against* its gradient.
"""

# %%
from tinytorch.core.layers import manual_seed

manual_seed(0)
model = Sequential(Linear(2, 16), ReLU(), Linear(16, 2))
points = rng.standard_normal((200, 2)).astype(np.float32)
inside = Tensor((np.hypot(*points.T) < 1.0).astype(np.int64))  # is the point within a circle?
for step in range(201):
    loss = CrossEntropyLoss()(model(Tensor(points)), inside)
    if step % 50 == 0:
        print(f"step {step:>3}: loss {loss.item():.3f}")
    loss.backward()
    for parameter in model.parameters():
        parameter.data -= 0.5 * parameter.grad.data
        parameter.grad = None

# %% [markdown]
"""
**What if** you leave out `parameter.grad = None`? Guess first: does it learn faster, slower, or not at all?

## 8. What it means for a real model

**Reflect.** Answer first, then open.

<details><summary>Why does <code>.grad</code> add up over calls instead of starting anew?</summary>
Because a large batch may then be split: four small backward passes add up to the gradient of one large one, in a quarter of the memory. (Divide each loss by four, or the step is four times as long.) The price is that somebody must clear it.
</details>
<details><summary>Where do the activations of a transformer go during training, and what could one do about it?</summary>
They wait in the graph, layer by layer, until the walk comes back: often far more than the weights. One can throw some away and compute them again on the way back (<em>checkpointing</em>): time for memory.
</details>
<details><summary>The rule for <code>relu</code> keeps a float32 input alive. What would be enough?</summary>
One bit an element: was it above zero? Frameworks that care store a mask, or use the output, which the next layer keeps anyway.
</details>
<details><summary>Why not derive rules automatically, by differences?</summary>
Two forward passes per number, and only half of the digits. Differences check; rules compute.
</details>
<details><summary>A layer computes with <code>x.data</code> directly. What does backward say?</summary>
Nothing: the chain is cut there without a word, and the weights before it get no gradient. That is why everything that computes passes the door.
</details>

`tito test autograd` checks the module; once all of it passes, `tito module complete autograd` puts what you wrote into the package, and later modules run on your code. Next: Module 06, better ways of moving the weights than the one line above.
"""
