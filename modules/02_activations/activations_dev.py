# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "02_activations", "release": "b4546b9cf42f1ee9"}
# ---

# %% [markdown]
"""
# 02 · Activations

Tier: Foundation · Difficulty 1 of 4 · About 1½ hours · Needs 01 (`tito test tensor`)

A network is made of matrix products with something bent in between. This module writes the bends: a handful of functions of one number each,
and softmax, which turns any scores into shares that add up to 1. All of them are short. What makes them worth a module is that the short
formula from the textbook is often *wrong on a computer*: it overflows where the true answer is an ordinary number.

**Build** ReLU, exp, log, sigmoid, tanh, softmax, GELU → **use** them on numbers where the textbook formula breaks → **reflect** on what
each costs and what saturation does to a deep network.

When you are done you can
1. show why a network without activations is a single matrix;
2. say at which number `exp` overflows, and rewrite a formula so that it never gets there;
3. write an activation either as one op or as a composition of ops, and see the difference at the door;
4. recognise a saturated sigmoid, and compute what ten of them leave of a gradient;
5. say what share of a transformer block's memory traffic its activations cause.

Yours: the ops `relu`, `exp`, `log`, `sigmoid`, `tanh`, and the compositions `softmax` and `gelu`. Given and explained: the small classes (`ReLU()`, `Softmax()`) under
which a network holds these functions.

A cell you have not filled says which one it is: `relu: section 1, cell 2` is the function `relu` in the second code cell of section 1.
"""

# %%
#| default_exp core.activations

# %%
#| export
from functools import wraps
from math import pi, sqrt

import numpy as np

from tinytorch.core.tensor import _one_axis, floating, in_floats, op, same_shape, scope, thread_state

# %% [markdown]
"""
## 1. Why bend the line?

**Question.** Two matrix products after each other, `(x @ A) @ B`. Is that a deeper network than one?

No: it is `x @ (A @ B)`, and `A @ B` is one matrix, known in advance. A hundred such layers are one layer that takes a hundred times longer. See it:
"""

# %%
if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x, A, B = rng.standard_normal((2, 4)), rng.standard_normal((4, 8)), rng.standard_normal((8, 3))
    print("largest difference without a bend:", f"{np.abs((x @ A) @ B - x @ (A @ B)).max():.1e}")
    print("largest difference with a bend:   ", f"{np.abs(np.maximum(x @ A, 0) @ B - x @ (A @ B)).max():.1e}")

# %% [markdown]
"""
The cheapest bend that works is the *rectified linear unit*: negative numbers become 0, the others stay.

```
    relu(a)        ╱
                  ╱
    ─────────────┘
          0 ─────┘
```

**Task.** Write the body of the op `relu`. It gets a NumPy array of any shape and dtype and returns a new one of the same shape and dtype; the input must stay as it was. Minus infinity is negative, so it becomes 0. A NaN stays NaN: a broken
number should be seen at the end, not turned into a healthy looking 0.
Example: `relu([-2, 0, 3])` is `[0, 0, 3]`.

<details><summary>Hint 1: idea</summary>
It is the larger of two numbers, one of which is always 0.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.maximum</code> compares element by element and lets NaN win. (Python's <code>max</code> does neither.) To keep the dtype of every input, booleans too, write the zero in it: <code>a.dtype.type(0)</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
"At most 6" for <code>[5, 7]</code>: <code>np.minimum(a, a.dtype.type(6))</code> gives <code>[5, 6]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=same_shape)
def relu(a):
    """Return the larger of a and 0, element by element; NaN stays NaN."""
    raise NotImplementedError("relu: section 1, cell 2")

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import Tensor

    print(relu(Tensor([-2, 0, 3])))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-relu", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "elementwise"}
if __name__ == "__main__":
    from tinytorch.core.tensor import Tensor
    from tito.checks import check


    def test_relu():
        """Values, NaN, dtype, the input untouched."""
        x = Tensor([[-2.0, 0.0, 3.0], [1.5, -0.5, -7.0]])
        check("relu of six numbers", relu(x).data.tolist(), [[0.0, 0.0, 3.0], [1.5, 0.0, 0.0]], {
            ((2.0, 0.0, 3.0), (1.5, 0.5, 7.0)): "that is the absolute value",
            ((-2.0, 0.0, 0.0), (0.0, -0.5, -7.0)): "the smaller of both, not the larger"})
        check("the input is left as it was", x.data.tolist(), [[-2.0, 0.0, 3.0], [1.5, -0.5, -7.0]], {
            ((0.0, 0.0, 3.0), (1.5, 0.0, 0.0)): "zeros were written into the input: make a new array"})
        check("NaN stays NaN", relu(Tensor([np.nan, 1.0])).data.tolist(), [np.nan, 1.0], {(0.0, 1.0): "NaN > 0 is false, so a comparison turns NaN into 0"})
        check("minus infinity becomes 0", relu(Tensor([-np.inf, np.inf])).data.tolist(), [0.0, np.inf], {
            (np.nan, np.inf): "a product: -inf times 0 is NaN; choose the larger number instead"})
        check("int8 stays int8", relu(Tensor(np.array([-3, 3], np.int8))).dtype.name, "int8")
        check("an empty batch", relu(Tensor(np.zeros((0, 4)))).shape, (0, 4))


    test_relu()

# %% [markdown]
"""
**What it means for a real model.** ReLU does one comparison per number. On a processor that adds billions of numbers a second, the comparing is free; reading and writing the numbers is not. Module 14 will
measure that.

## 2. exp and log: where floats end

**Question.** `exp(100)` is an ordinary number for a mathematician. What is it in float32?

A float32 ends near 3.4 · 10³⁸. Everything larger is `inf`. So `exp` has a last number that it can digest, and it is not a large one. Guess it before you run the cell.
"""

# %%
if __name__ == "__main__":
    for dtype in (np.float16, np.float32, np.float64):
        print(f"{np.dtype(dtype).name}: the largest number is {float(np.finfo(dtype).max):.3g}, exp overflows above {float(np.log(np.finfo(dtype).max)):.2f}")
    print(f"exp(100) is about {np.exp(100.0):.1e}")

# %% [markdown]
"""
Networks produce scores like 89 on a bad day; in float16, 12 is enough. The rest of this module is about formulas that do not go there.

**Task.** Write the ops `exp` and `log`. Like NumPy's, except for two things:

- they are *quiet*: `exp(1000)` is `inf`, `log(0)` is `-inf`, `log(-1)` is NaN, none with a warning. (`with np.errstate(over="ignore"):` silences overflow inside the block; the other
  two are called `divide` and `invalid`.)
- integers become float32 first, whatever their width. NumPy would make float16 of int8, and `exp(12)` would be `inf`. Given for you, from Module 01: `in_floats(a)` returns floats of the right type.

The `dtype=floating` in the decorator tells the shape-only run the same thing: floats keep their type, all others become float32.

<details><summary>Hint 1: idea</summary>
One line of NumPy inside one <code>with</code> block, twice.
</details>
<details><summary>Hint 2: approach</summary>
<code>in_floats</code> first, then the NumPy function. <code>np.errstate</code> takes several names at once.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
A quiet arc sine: <code>with np.errstate(invalid="ignore"): return np.arcsin(in_floats(a))</code>. For 2 it gives NaN and says nothing.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "exp-log", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=same_shape, dtype=floating)
def exp(a):
    """Raise e to the power a, element by element; what is too large for the dtype is inf."""
    raise NotImplementedError("exp: section 2, cell 2")


@op(shape=same_shape, dtype=floating)
def log(a):
    """Take the natural logarithm, element by element; of 0 it is -inf, of a negative number NaN."""
    raise NotImplementedError("log: section 2, cell 2")

# %%
if __name__ == "__main__":
    print(exp(Tensor([0.0, 1.0, 88.0, 89.0])), log(Tensor([1.0, 0.0, -1.0])), sep="\n")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-exp-log", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "elementwise"}
if __name__ == "__main__":
    def test_exp_log():
        """Values, edges, types, silence."""
        said = []
        with np.errstate(all="call", under="ignore", call=lambda kind, flag: said.append(kind)):
            check("exp", exp(Tensor([0.0, 1.0, -1.0])).data, [1.0, 2.718281828, 0.367879441], {(1.0, 2.0, 0.5): "that is 2 to the power a"})
            check("exp at the edge of float32", exp(Tensor([88.0, 89.0])).data, [1.6516363e38, np.inf])
            check("log", log(Tensor([1.0, 2.718281828, 10.0])).data, [0.0, 1.0, 2.302585093], {(0.0, 0.4342945, 1.0): "that is the logarithm to base 10"})
            check("log of 0 and of -1", log(Tensor([0.0, -1.0])).data, [-np.inf, np.nan])
        check("what NumPy said to all that", said, [], {
            ("overflow",): "exp needs np.errstate: too large is inf, and no news", ("divide by zero",): "log of 0 is not quiet: np.errstate",
            ("invalid value",): "log of -1 is not quiet: np.errstate", ("divide by zero", "invalid value"): "log needs np.errstate for 0 and for -1"})
        check("log undoes exp", log(exp(Tensor([-3.0, 0.5, 20.0]))).data, [-3.0, 0.5, 20.0])
        check("exp of the int8 number 12", exp(Tensor(np.array([12], np.int8))).data, [162754.7914], {(np.inf,): "int8 became float16, which ends at 65,504"})
        check("int8 becomes float32", exp(Tensor(np.array([1], np.int8))).dtype.name, "float32")
        check("float16 stays float16", log(Tensor(np.ones(2, np.float16))).dtype.name, "float16")


    test_exp_log()

# %% [markdown]
"""
## 3. Sigmoid and tanh: squeezing a line into an interval

**Question.** A score can be any number. How does one turn it into a probability?

The *sigmoid* maps the whole line to the numbers between 0 and 1: `sigmoid(a) = 1 / (1 + e^-a)`. At 0 it is one half; far out on either side it is nearly flat.
The *tanh* does the same for the numbers between -1 and 1: `tanh(a) = 2 · sigmoid(2a) - 1`.

Try the formula as it stands in every textbook:
"""

# %%
if __name__ == "__main__":
    with np.errstate(over="ignore"):
        a = np.array([-100.0, -1.0, 0.0, 1.0, 100.0], np.float32)
        print("e^-a    ", np.exp(-a))
        print("sigmoid ", 1 / (1 + np.exp(-a)))

# %% [markdown]
"""
On the left `e^100` overflowed. (Without the `errstate` NumPy would have warned you.) The result came out as 0 by luck, because 1 / inf is 0, while the true value is 3.7 · 10⁻⁴⁴. There is a way to write the sigmoid with
**no large power at all**. Multiply the fraction by `e^a` above and below:

```
       1             e^a
    ────────    =  ────────
    1 + e^-a       e^a + 1

    for a >= 0 use the left one: e^-a is at most 1
    for a <  0 use the right one: e^a is at most 1
```

Both contain the same small number, `small = e^-|a|`.

**Task.** Write `sigmoid` with `small`, and `tanh` (NumPy has one). Any finite or infinite number may come; no warning may be given and the relative error must be small at the far left too: `sigmoid(-80)` is
1.8 · 10⁻³⁵ and not 0, and in float16, where the textbook formula gives 0 already at -12, `sigmoid(-12)` is 6.1 · 10⁻⁶. Integers become float32.

<details><summary>Hint 1: idea</summary>
The denominator is <code>1 + small</code> on both sides. Only the numerator differs.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.where(a >= 0, left, right)</code> chooses element by element. It computes both sides everywhere, so both must be harmless everywhere; here they are.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
For <code>a = -2</code>: <code>small = e^-2 = 0.1353</code>, so the answer is <code>0.1353 / 1.1353 = 0.1192</code>. For <code>a = 2</code> it is <code>1 / 1.1353 = 0.8808</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "sigmoid-tanh", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=same_shape, dtype=floating)
def sigmoid(a):
    """Squeeze a into the interval from 0 to 1: 1 / (1 + e^-a), computed with e^-|a|, which cannot overflow."""
    raise NotImplementedError("sigmoid: section 3, cell 2")


@op(shape=same_shape, dtype=floating)
def tanh(a):
    """Squeeze a into the interval from -1 to 1: the hyperbolic tangent."""
    raise NotImplementedError("tanh: section 3, cell 2")

# %%
if __name__ == "__main__":
    print(sigmoid(Tensor([-80, -2, 0, 2, 80])), tanh(Tensor([-1, 0, 1])), sep="\n")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-sigmoid-tanh", "locked": true, "points": 24, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "stability"}
if __name__ == "__main__":
    def test_sigmoid_tanh():
        """Values, the far ends, silence, types."""
        check("sigmoid", sigmoid(Tensor([-2.0, 0.0, 2.0])).data.tolist(), [0.119202922, 0.5, 0.880797078], {
            (0.880797078, 0.5, 0.119202922): "the sign in the exponent is wrong"})
        with np.errstate(all="raise", under="ignore"):
            check("sigmoid at the far right", sigmoid(Tensor([100.0, 1e30, np.inf])).data, [1.0, 1.0, 1.0])
            check("sigmoid at the far left", sigmoid(Tensor([-1e30, -np.inf])).data, [0.0, 0.0])
            ratio = sigmoid(Tensor([-80.0])).data / np.exp(np.float32(-80))
            check("sigmoid(-80), as a multiple of e^-80", ratio, [1.0], {(0.0,): "rounded to 0: a difference of two numbers near 1 loses it"}, rtol=1e-4)
            check("sigmoid(-12) in float16", float(sigmoid(Tensor(np.array([-12], np.float16))).data[0]), 6.1393e-06, {
                0.0: "the textbook formula: e^12 overflowed in float16; use the small power e^-|a|"}, rtol=1e-2)
            check("tanh", tanh(Tensor([-1e9, -1.0, 0.0, 0.5])).data, [-1.0, -0.761594156, 0.0, 0.462117157])
        x = Tensor([-3.0, -0.1, 0.7, 4.0])
        check("tanh(a) = 2 sigmoid(2a) - 1", (2 * sigmoid(2 * x) - 1).data, tanh(x).data, rtol=1e-5)
        check("sigmoid of NaN", sigmoid(Tensor([np.nan])).data, [np.nan])
        check("an int8 tensor becomes float32", sigmoid(Tensor(np.array([-128, 127], np.int8))).dtype.name, "float32")
        check("float16 stays float16", (sigmoid(Tensor(np.ones(2, np.float16))).dtype.name, tanh(Tensor(np.ones(2, np.float16))).dtype.name), ("float16", "float16"))


    test_sigmoid_tanh()

# %% [markdown]
"""
**What if** many sigmoids follow each other? The slope of the sigmoid is `s · (1 - s)`, where `s` is its value: at most a quarter, and next to nothing where it is flat. A gradient that travels back through ten layers
is multiplied by ten such slopes.
"""

# %%
if __name__ == "__main__":
    for a in (0.0, 2.0, 5.0, 10.0):
        s = sigmoid(Tensor([a], dtype=np.float64)).item()
        print(f"a = {a:4.0f}: sigmoid {s:.5f}, slope {s * (1 - s):.5f}; ten such slopes leave {(s * (1 - s)) ** 10:.1e} of a gradient")

# %% [markdown]
"""
That is *saturation*, and it is why deep networks turned from sigmoid to ReLU, whose slope is exactly 1 for every positive number.

## 4. Softmax: shares that add up to one

**Question.** A classifier gives three scores, 2, 1 and 0. How sure is it of the first class?

Make every score positive with `exp`, then divide by the sum: `softmax(x)ᵢ = e^xᵢ / Σⱼ e^xⱼ`. The largest score gets the largest share, and the shares add up to 1. Now the same three scores, 88 higher:
"""

# %%
if __name__ == "__main__":
    for scores in ([2.0, 1.0, 0.0], [90.0, 89.0, 88.0]):
        powers = exp(Tensor(scores))
        print(scores, "->", (powers / powers.sum()).data)

# %% [markdown]
"""
NaN: two of the powers were `inf`, and inf / inf is nothing. Yet only *differences* of scores matter: adding `c` to all of them multiplies numerator and denominator by `e^c`. So we may subtract whatever we like. Subtract the largest score:

```
    scores            90   89   88
    minus the largest  0   -1   -2       nothing above 0, so no power above 1
    powers           1.0  0.37 0.14      and the sum is at least 1: no division by 0 either
    shares          0.67  0.24 0.09
```

**Task.** Write `softmax(x, axis=None, dim=None)` for a `Tensor`. It is **not an op**: you compose it from `x.max(axis=..., keepdims=True)`, `-`, `exp`, `.sum(axis=..., keepdims=True)` and `/`, so each step passes the door by itself.
The two lines that read `axis` are given: `dim` is the other word for it, and the last axis is taken when neither is given.

Example: `softmax(Tensor([[0, 0], [0, 0]]))` is one half everywhere; `softmax(x, axis=0)` makes *columns* add up to 1.

<details><summary>Hint 1: idea</summary>
Three lines: shift, powers, shares.
</details>
<details><summary>Hint 2: approach</summary>
<code>keepdims=True</code> leaves the reduced axis as a 1, so that the result broadcasts against <code>x</code> again. The result does not depend on the number subtracted. So
you may <code>.detach()</code> the maximum: the gradient of Module 05 then need not follow it.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Centre the rows of <code>x</code>: <code>x - x.mean(axis=-1, keepdims=True)</code>. For <code>[[1, 3]]</code> the mean is <code>[[2]]</code> and the result <code>[[-1, 1]]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def softmax(x, axis=None, dim=None):
    """Turn scores into shares that add up to 1 along ``axis`` (or ``dim``; the last one when neither is given).

    x: (...) -> same shape. Five ops, so the profile shows five passes. Stable: the largest score of each
    row is subtracted first. A row that holds inf or NaN, or nothing but -inf, gives NaN.
    """
    axis = _one_axis(axis, dim)
    axis = -1 if axis is None else axis
    raise NotImplementedError("softmax: section 4, cell 2")

# %%
if __name__ == "__main__":
    print(softmax(Tensor([[2.0, 1.0, 0.0], [90.0, 89.0, 88.0], [0.0, 0.0, -1e9]])))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-softmax", "locked": true, "points": 30, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "softmax"}
if __name__ == "__main__":
    def test_softmax():
        """Shares, sums, axes, large scores."""
        check("softmax of 2, 1, 0", softmax(Tensor([2.0, 1.0, 0.0])).data.tolist(), [0.665240956, 0.244728471, 0.090030573], {
            (1.0, 0.36787944, 0.13533528): "not divided by the sum", (0.5, 0.25, 0.25): "not exp of the scores"})
        check("88 higher: the same", softmax(Tensor([90.0, 89.0, 88.0])).data.tolist(), [0.665240956, 0.244728471, 0.090030573], {(np.nan, np.nan, 0.0): "overflow: subtract the largest score first"})
        check("far below zero", softmax(Tensor([-1000.0, -1000.0])).data.tolist(), [0.5, 0.5], {(np.nan, np.nan): "all powers are 0: the largest score, not a constant"})
        rows = softmax(Tensor([[0.0, 0.0], [300.0, 0.0]])).data.tolist()
        check("every row has its own maximum", rows, [[0.5, 0.5], [1.0, 0.0]], {
            ((np.nan, np.nan), (1.0, 0.0)): "one maximum for all rows", ((0.5, 1.0), (0.5, 0.0)): "keepdims is missing: the sums of the rows met the columns",
            ((0.3333333, 0.3333333), (0.3333333, 0.0)): "one sum for all rows"})
        columns = softmax(Tensor([[0.0, 1.0], [2.0, 1.0]]), axis=0).data.tolist()
        check("down the columns, axis=0", columns, [[0.119202922, 0.5], [0.880797078, 0.5]], {
            ((0.119202922, 0.880797078), (0.5, 0.5)): "summed along the last axis: axis was not used", ((0.268941421, 0.731058579), (0.731058579, 0.268941421)): "along the last axis: axis was ignored"})
        x = Tensor(np.random.default_rng(0).normal(0, 50, (3, 4, 5)))
        check("the last axis adds up to 1", softmax(x).sum(axis=-1).data, np.ones((3, 4)), rtol=1e-5)
        check("axis=1 adds up to 1", softmax(x, axis=1).sum(axis=1).data, np.ones((3, 5)), rtol=1e-5)
        check("dim= is axis=", np.array_equal(softmax(x, dim=0).data, softmax(x, axis=0).data), True)
        check("a masked score, -inf, has no share", softmax(Tensor([0.0, 0.0, -np.inf])).data, [0.5, 0.5, 0.0])
        check("the shape stays", softmax(Tensor(np.zeros((0, 3)))).shape, (0, 3))


    test_softmax()

# %% [markdown]
"""
**What if** the scores are all multiplied by a number before the softmax? That number is 1 / *temperature*. Small temperatures make it decide, large ones make it hesitate:
"""

# %%
if __name__ == "__main__":
    for temperature in (0.1, 1.0, 10.0):
        print(f"temperature {temperature:4}: {np.round(softmax(Tensor([2.0, 1.0, 0.0]) / temperature).data, 3)}")

# %% [markdown]
"""
## 5. GELU: a smooth ReLU, and what smoothness costs

**Question.** GPT-2 uses neither ReLU nor sigmoid but the *Gaussian error linear unit* (Hendrycks and Gimpel, 2016). It is `x` times the probability that a normal random number is below `x`: about 0 far to the left,
about `x` far to the right, smooth between. The form with tanh is the one GPT-2 was trained with:

```
    gelu(x) = 0.5 · x · (1 + tanh( √(2/π) · (x + 0.044715 · x³) ))
```

**Task.** Write `gelu(x)` for a Tensor, as a composition of ops (`sqrt` and `pi` are Python's, from `math`; `tanh` is yours). Write the cube as products, for a reason the next cell measures.
Example: `gelu(Tensor([1.0]))` is 0.8412.

<details><summary>Hint 1: idea</summary>
First what stands inside the tanh, then the rest.
</details>
<details><summary>Hint 2: approach</summary>
Begin products with the Python number, <code>0.044715 * x * x * x</code>: they are then floats from the start, even when <code>x</code> holds small integers.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
For <code>x = 2</code>: <code>2 + 0.044715 · 8 = 2.35772</code>; times 0.797885 is 1.881188; its tanh is 0.954599; <code>0.5 · 2 · 1.954599 = 1.954599</code>.
</details>
"""

# %%
if __name__ == "__main__":
    from time import perf_counter_ns

    x = Tensor(np.random.default_rng(0).standard_normal(100_000))
    for name, cube in (("x ** 3", lambda: x ** 3), ("x * x * x", lambda: x * x * x)):
        times = []
        for _ in range(7):
            start = perf_counter_ns()
            cube()
            times.append(perf_counter_ns() - start)
        print(f"{name:>9}: {min(times) / 1e6:.3f} ms for 100,000 numbers")

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "gelu", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def gelu(x):
    """Gaussian error linear unit in its tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))).

    A composition of nine ops: NumPy makes nine passes over memory, and the profile shows them.
    Source: Hendrycks and Gimpel, 2016; the form GPT-2 uses.
    """
    raise NotImplementedError("gelu: section 5, cell 2")

# %%
if __name__ == "__main__":
    print(gelu(Tensor([-20.0, -1.0, 0.0, 1.0, 20.0])))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-gelu", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "composition"}
if __name__ == "__main__":
    def test_gelu():
        """Values, both ends, types, and that it is made of ops."""
        from tinytorch.core.tensor import count_ops

        check("gelu", gelu(Tensor([-1.0, 0.0, 1.0])).data.tolist(), [-0.158808009, 0.0, 0.841191991], {
            (-0.16857377, 0.0, 0.83142623): "the cubic term is missing", (-0.17881241, 0.0, 0.84119199): "x squared, not x cubed",
            (-0.11012842, 0.0, 0.88987158): "the factor sqrt(2/pi) is missing", (-0.31761602, 0.0, 1.68238398): "the factor 0.5 is missing",
            (0.34119199, 0.0, 0.34119199): "the 1 + before tanh is missing"}, rtol=1e-5)
        check("far out it is 0 or x", gelu(Tensor([-20.0, 20.0])).data, [0.0, 20.0])
        check("gelu(x) - gelu(-x) = x", (gelu(Tensor([0.3, 2.0])) - gelu(Tensor([-0.3, -2.0]))).data, [0.3, 2.0], rtol=1e-5)
        check("small integers do not wrap around", gelu(Tensor(np.array([100], np.int8))).data, [100.0], rtol=1e-5)
        counts = count_ops(lambda: gelu(Tensor([1.0])))
        check("the one tanh passes the door", counts.get("tanh", 0), 1, {0: "not your tanh op: the door saw none"})
        check("and so do the products", counts.get("multiply", 0) >= 4, True, {False: "the products were not made of ops"})


    test_gelu()

# %% [markdown]
"""
**Shown at the door.** ReLU is one op. GELU is nine, and each of the nine reads its whole input from memory and writes its whole output back:
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import listen

    x = Tensor(np.random.default_rng(0).standard_normal((256, 1024)))
    for function in (lambda x: relu(x), softmax, gelu):
        events = []
        with listen(events.append):
            function(x)
        print(f"{len(events)} ops, {sum(event.num_bytes for event in events) / 1024**2:5.1f} MB moved: {' '.join(event.op.name for event in events)}")

# %% [markdown]
"""
Module 18 will *fuse* such compositions into fewer passes. First, Module 14 must show that it is worth it.

## 6. Activations as things

**Question.** `Sequential(Linear(64, 32), ReLU(), Linear(32, 10))` will be a network. What is `ReLU()`?

An object with a `forward` and no weights. Given: the base class `Scoped`, of everything that has a `forward`. Module 03 will derive `Layer` from it and add weights. Read two things. `__init_subclass__` runs whenever
somebody writes a class that derives from `Scoped`, and wraps its `forward` in a `scope`. So a listener hears *where* an op ran, whether you write `relu(x)` or `relu.forward(x)`. And `train` and `eval` set one flag, here and in
everything inside: some layers (dropout, in Module 03) behave differently in training.
"""

# %%
#| export
def _in_scope(forward):
    """Wrap ``forward`` so that events inside carry its owner; a ``super().forward`` does not open the scope twice."""
    @wraps(forward)
    def run(self, *args, **kwargs):
        path = thread_state().path
        if path and path[-1].owner == id(self):
            return forward(self, *args, **kwargs)
        with scope(type(self).__name__, id(self)):
            return forward(self, *args, **kwargs)
    return run

# %%
#| export
class Scoped:
    """Base of everything with a ``forward``: a call opens a scope, and there is a ``training`` flag.

    Derive from it what has no parameters, such as an activation; derive what has some from ``Layer`` (Module 03).
    """

    training = True

    def __init_subclass__(cls, **kwargs):
        """Put a scope around the ``forward`` of every class that derives from this one."""
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _in_scope(cls.forward)

    def __call__(self, *args, **kwargs):
        """Call ``forward``."""
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """Compute the output; every class writes its own."""
        raise TypeError(f"{type(self).__name__} has no forward of its own; write one")

    def named_parameters(self):
        """Return (name, tensor) for each tensor inside: here none."""
        return []

    def parameters(self):
        """Return the tensors inside, each once."""
        return [tensor for _, tensor in self.named_parameters()]

    def children(self):
        """Return (name, object) for each object with a ``forward`` directly inside: here none."""
        return []

    def train(self, mode=True):
        """Switch this and all below it to training (or, with False, to evaluation); return the object itself."""
        todo, seen = [self], set()
        while todo:
            one = todo.pop()
            if id(one) not in seen:
                seen.add(id(one))
                one.training = bool(mode)
                todo += [child for _, child in one.children()]
        return self

    def eval(self):
        """Switch this and all below it to evaluation; return the object itself."""
        return self.train(False)

    def __repr__(self):
        return f"{type(self).__name__}()"

# %% [markdown]
"""
With that, an activation class is its name and one line:
"""

# %%
#| export
class ReLU(Scoped):
    """The larger of x and 0, element by element, as an object: x (...) -> (...)."""

    def forward(self, x):
        """Return relu(x), same shape."""
        return relu(x)


class Sigmoid(Scoped):
    """1 / (1 + e^-x), element by element, as an object: x (...) -> (...), between 0 and 1."""

    def forward(self, x):
        """Return sigmoid(x), same shape."""
        return sigmoid(x)


class Tanh(Scoped):
    """Hyperbolic tangent, element by element, as an object: x (...) -> (...), between -1 and 1."""

    def forward(self, x):
        """Return tanh(x), same shape."""
        return tanh(x)

# %%
#| export
class GELU(Scoped):
    """Gaussian error linear unit in its tanh form, as an object: x (...) -> (...)."""

    def forward(self, x):
        """Return gelu(x), same shape."""
        return gelu(x)


class Softmax(Scoped):
    """Shares that add up to 1 along ``axis`` (or ``dim``; the last one when neither is given): x (...) -> (...)."""

    def __init__(self, axis=None, dim=None):
        axis = _one_axis(axis, dim)
        self.axis = -1 if axis is None else axis

    def forward(self, x):
        """Return softmax(x) along the axis, same shape."""
        return softmax(x, axis=self.axis)

    def __repr__(self):
        return "Softmax()" if self.axis == -1 else f"Softmax(axis={self.axis})"

# %%
if __name__ == "__main__":
    with listen(lambda event: print(event.op.name, event.out_shape, "in", [entry.name for entry in event.scope])):
        Softmax()(ReLU()(Tensor([[-1.0, 2.0]])))

# %% [markdown]
"""
## 7. What it means for a real model

A block of GPT-2 small applies GELU to 3,072 numbers per token and softmax to 12 heads of attention scores; everything else that is large in it is a matrix product. For 1,024 tokens, which
share of the bytes do the two activations move? Bet, then run; the shapes are real, no number is computed:
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import shape_only


    def traffic(function):
        """Return what ``function`` returns and the bytes that its ops move."""
        events = []
        with listen(events.append):
            out = function()
        return out, sum(event.num_bytes for event in events)


    def hollow_of(*shape):
        """Return a tensor that has a shape and no numbers."""
        return Tensor(np.broadcast_to(np.float32(0), shape))


    my_bet = None  # percent
    with shape_only():
        tokens, heads, scores = hollow_of(1024, 768), hollow_of(12, 1024, 64), hollow_of(12, 1024, 1024)
        projections = 4 * traffic(lambda: tokens @ hollow_of(768, 768))[1]
        attention = traffic(lambda: heads @ hollow_of(12, 64, 1024))[1] + traffic(lambda: scores @ heads)[1]
        wide, up = traffic(lambda: tokens @ hollow_of(768, 3072))
        down = traffic(lambda: wide @ hollow_of(3072, 768))[1]
        bent = {"softmax": traffic(lambda: softmax(scores))[1], "gelu": traffic(lambda: gelu(wide))[1]}
    products = projections + attention + up + down
    print(f"products {products / 1024**2:.0f} MB, " + ", ".join(f"{name} {size / 1024**2:.0f} MB" for name, size in bent.items()))
    print(f"bet {my_bet}, the two activations move {sum(bent.values()) / (products + sum(bent.values())):.0%} of the bytes")

# %% [markdown]
"""
Little arithmetic, and still that share of the traffic: every op of a composition reads and writes everything once more.

**Reflect.** Answer first, then open.

<details><summary>Why does subtracting the maximum not change the softmax, and why the maximum and not the mean?</summary>
A factor <code>e^-c</code> stands above and below and cancels. With the maximum no power exceeds 1, so nothing overflows, and one of them is exactly 1, so the sum cannot be 0. With the mean, a single score 100 above it would still overflow.
</details>
<details><summary>The textbook sigmoid gives 0 at -100 and the true value is 3.7 · 10⁻⁴⁴. Who cares?</summary>
Whoever takes its logarithm: the log of 0 is -inf, and one such number makes the whole loss infinite. Module 04 meets it.
</details>
<details><summary>A unit with ReLU has a negative input for every example. What will training do to it?</summary>
Nothing: the slope is 0, so no gradient reaches its weights and it stays dead. GELU is not quite flat there.
</details>
<details><summary>Sigmoid is one op and softmax five. Could softmax be one op?</summary>
Yes, with <code>@op(shape=same_shape, dtype=floating)</code> around the NumPy lines. Then the profile would show one line, NumPy would still make the same passes, and the gradient would have to be written by hand. We keep what really happens visible.
</details>

`tito test activations` checks the module; once all of it passes, `tito module complete activations` puts what you wrote into the package, and later modules run on your code. Next: Module 03, layers, which own numbers.
"""
