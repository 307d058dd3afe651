# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 04 · Losses

Tier: Foundation · Difficulty 2 of 4 · About 1½ hours · Needs 01 to 03 (`tito test tensor`, `tito test activations`, `tito test layers`)

A loss says in one number how wrong a network is. Training does nothing but make that number smaller, so whatever the loss gets wrong, the
network learns. Two kinds of mistake are easy to make here and hard to see: shapes that fit by accident, and a logarithm of zero.

**Build** mean squared error, log-softmax, `pick`, cross entropy for many classes and for two → **use** them on predictions that are sure and wrong →
**reflect** on why frameworks want *logits* and not probabilities.

When you are done you can
1. spot the broadcast that turns a regression loss into nonsense without any error;
2. compute the logarithm of a softmax for scores of any size;
3. write an op that checks its input and names what is wrong with it;
4. say what loss an untrained classifier must have, and use it as a test;
5. write the loss of a yes-or-no question from logits, exact for every score.

Yours: `matching`, `MSELoss`, `log_softmax`, `pick` and its shape rule, cross entropy for many classes and for two. Given and explained: what checks class numbers and probabilities.

A cell you have not filled says which one it is: `matching: section 1, cell 2` is the function `matching` in the second code cell of section 1.
"""

# %%
#| default_exp core.losses

# %%
#| export
import numpy as np

from tinytorch.core.activations import exp, log, relu
from tinytorch.core.layers import Layer
from tinytorch.core.tensor import Tensor, _one_axis, is_shape_only, maximum, op

# %% [markdown]
"""
## 1. Mean squared error, and a silent trap

**Question.** Three houses, three predicted prices, three true prices. All predictions are exactly right. Can the mean squared error be anything but 0?
"""

# %%
predictions = Tensor([[1.0], [2.0], [3.0]])  # what Linear(…, 1) returns: (3, 1)
prices = Tensor([1.0, 2.0, 3.0])             # what a column of a table is: (3,)
error = predictions - prices
print("mean squared error:", (error * error).mean().item(), "  shape of the difference:", error.shape)

# %% [markdown]
"""
`(3, 1)` and `(3,)` broadcast to `(3, 3)`: every prediction was compared with every price. Nothing failed. Training on this number teaches the network to predict the *average* price for every house. So our losses refuse
shapes that are not equal.

**Task.** Write `matching(loss, predictions, targets)`. It returns both as Tensors (the first line, given), or raises a `ValueError` whose message contains the name `loss` (a string)

- when the shapes differ; it names both, as in `MSELoss: predictions (3, 1) with targets (3,): want equal shapes; reshape one of them`;
- when they are equal but there is nothing in them: an average of no numbers does not exist.

Then write `MSELoss.forward`: the mean over all elements of (prediction - target)², a tensor of shape `()`.
Example: predictions 1 and 4, targets 1 and 2: (0 + 4) / 2 = 2.

<details><summary>Hint 1: idea</summary>
Compare two tuples. <code>size</code> is the number of elements.
</details>
<details><summary>Hint 2: approach</summary>
A product of the difference with itself is cheaper than a power. <code>.mean()</code> without an axis takes everything.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Mean absolute value of a tensor <code>d</code>: <code>maximum(d, -d).mean()</code>. For <code>[-3, 1]</code> it is 2.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "mse", "solution": true}
#| export
def matching(loss, predictions, targets):
    """Return predictions and targets as Tensors; ``ValueError`` unless of one shape and not empty."""
    predictions, targets = [x if isinstance(x, Tensor) else Tensor(x) for x in (predictions, targets)]
    ### BEGIN SOLUTION
    if predictions.shape != targets.shape:
        raise ValueError(f"{loss}: predictions {predictions.shape} with targets {targets.shape}: want equal shapes; "
                         "reshape one of them")
    if predictions.size == 0:
        raise ValueError(f"{loss}: shape {predictions.shape} holds no elements to average; give at least one")
    ### END SOLUTION
    return predictions, targets


class MSELoss(Layer):
    """Mean squared error: predictions (...) and targets of the same shape -> a scalar tensor."""

    def forward(self, predictions, targets):
        """Return the mean over all elements of (prediction - target)²; ``ValueError`` unless the shapes are equal."""
        predictions, targets = matching("MSELoss", predictions, targets)
        ### BEGIN SOLUTION
        error = predictions - targets
        return (error * error).mean()
        ### END SOLUTION

# %%
print(MSELoss()(predictions.reshape(-1), prices))

# %% nbgrader={"grade": true, "grade_id": "test-mse", "points": 20, "skill": "regression"}
from tito.checks import check, check_raises


def test_mse():
    """Values, the trap, emptiness."""
    loss = MSELoss()
    check("predictions 1 and 5, targets 1 and 2", loss(Tensor([1.0, 5.0]), Tensor([1.0, 2.0])).item(), 4.5, {
        9.0: "the sum, not the mean", 1.5: "the absolute error, not its square", 2.25: "half of it: no 1/2 stands in the formula, or the mean was squared",
        2.1213203: "the root of it"})
    check("two axes", loss(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[0.0, 2.0], [3.0, 7.0]])).item(), 2.5, {5.0: "averaged over the rows only"})
    check("the result has no axes", loss(Tensor([1.0, 4.0]), Tensor([1.0, 2.0])).shape, ())
    check("an array of targets", loss(Tensor([1.0, 4.0]), np.array([1, 2])).item(), 2.0)
    column, row = Tensor(np.ones((3, 1))), Tensor(np.ones(3))
    for shape in ("(3, 1)", "(3,)"):
        check_raises(f"(3, 1) against (3,), naming {shape}", ValueError, lambda: loss(column, row), must_say=shape)
    check_raises("the message names the loss", ValueError, lambda: loss(row, Tensor([1.0])), must_say="MSELoss")
    check_raises("nothing to average", ValueError, lambda: loss(Tensor(np.ones((0, 2))), Tensor(np.ones((0, 2)))))


test_mse()

# %% [markdown]
"""
## 2. The logarithm of a softmax

**Question.** A classifier is to be punished for giving the true class a small share. How small a share is twice as bad as another?

The usual answer is the logarithm: the loss is `-log(share)`. Then a share of 1 costs nothing, and each share has its price, down to a millionth and below. So let us take `log(softmax(scores))`, with the stable softmax of Module 02:
"""

# %%
from tinytorch.core.activations import softmax

print("cost of a share:", *[f"{share:g} costs {np.log(1 / share):.2f}," for share in (1, 0.5, 0.1, 1e-6)], "...")
for scores in ([2.0, 1.0, 0.0], [200.0, 100.0, 0.0]):
    print(scores, "->", log(softmax(Tensor(scores))).data)

# %% [markdown]
"""
The second answer should be 0, -100, -200. The third class has a share of e⁻²⁰⁰, below the smallest float32: it became 0, its logarithm `-inf`, and the loss would be infinite. The share of the second class,
e⁻¹⁰⁰, only just exists, with a digit or two, and its logarithm is off in the second decimal. Do not compute the share at all.
Take the logarithm of the formula on paper:

```
    log( e^xᵢ / Σ e^xⱼ )  =  xᵢ - log Σ e^xⱼ
```

and shift by the largest score, as before, so that no power exceeds 1 and the sum is at least 1. This is the *log-sum-exp trick*.

**Task.** Write `log_softmax(x, axis=None, dim=None)` as a composition of ops.
Example: for `[0, 0]` both entries are `-log 2 = -0.6931`.

<details><summary>Hint 1: idea</summary>
Two lines. The first is the same as the first half of softmax.
</details>
<details><summary>Hint 2: approach</summary>
<code>shifted</code> first (with <code>keepdims=True</code>, and <code>.detach()</code> as before). Then subtract from it the logarithm of a sum.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Scores 5 and 4: shifted 0 and -1; powers 1 and 0.3679; log of their sum 0.3133; result -0.3133 and -1.3133.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "log-softmax", "solution": true}
#| export
def log_softmax(x, axis=None, dim=None):
    """Return log(softmax(x)) along ``axis`` (or ``dim``; the last one when neither is given), for scores of any size.

    x: (...) -> same shape. Computed as x - max - log(sum(exp(x - max))): no share is made, so none is rounded to 0.
    """
    axis = _one_axis(axis, dim)
    axis = -1 if axis is None else axis
    ### BEGIN SOLUTION
    shifted = x - x.max(axis=axis, keepdims=True).detach()
    return shifted - log(exp(shifted).sum(axis=axis, keepdims=True))
    ### END SOLUTION

# %%
print(log_softmax(Tensor([[2.0, 1.0, 0.0], [200.0, 100.0, 0.0]])))

# %% nbgrader={"grade": true, "grade_id": "test-log-softmax", "points": 22, "skill": "stability"}
def test_log_softmax():
    """Values, huge scores, axes."""
    check("log_softmax of 2, 1, 0", log_softmax(Tensor([2.0, 1.0, 0.0])).data.tolist(), [-0.407605964, -1.407605964, -2.407605964], {
        (0.665240956, 0.244728471, 0.090030573): "that is the softmax itself", (2.0, 1.0, 0.0): "nothing was subtracted",
        (0.0, -1.0, -2.0): "only the largest was subtracted, not the logarithm of the sum"})
    check("scores 100 apart", log_softmax(Tensor([200.0, 100.0, 0.0])).data.tolist(), [0.0, -100.0, -200.0], {
        (0.0, -99.98309326, -np.inf): "the logarithm of a share that was rounded to 0",
        (-np.inf, -np.inf, -np.inf): "a power overflowed: subtract the largest score first"})
    check("far below zero", log_softmax(Tensor([-1000.0, -1000.0])).data, [-0.693147181, -0.693147181])
    columns = log_softmax(Tensor([[0.0, 1.0], [2.0, 1.0]]), axis=0).data.tolist()
    check("down the columns, axis=0", columns, [[-2.126928011, -0.693147181], [-0.126928011, -0.693147181]], {
        ((-2.126928011, -0.126928011), (-0.693147181, -0.693147181)): "summed along the last axis: axis was not used",
        ((-1.313261688, -0.313261688), (-0.313261688, -1.313261688)): "along the last axis: axis was ignored"})
    x = Tensor(np.random.default_rng(0).normal(0, 30, (3, 4, 5)))
    check("its exp adds up to 1", exp(log_softmax(x)).sum(axis=-1).data, np.ones((3, 4)), rtol=1e-4)
    check("axis=0 too", exp(log_softmax(x, axis=0)).sum(axis=0).data, np.ones((4, 5)), rtol=1e-4)
    check("dim= is axis=", np.array_equal(log_softmax(x, dim=1).data, log_softmax(x, axis=1).data), True)


test_log_softmax()

# %% [markdown]
"""
## 3. An op that picks

**Question.** From a table of log-probabilities, how do we take the one entry per row that belongs to the true class?

```
    log_probs (3 rows, C = 4)          targets        pick
    -1.2   -0.9   -2.3   -1.6             1           -0.9
    -0.1   -3.0   -4.4   -3.9             0           -0.1
    -2.0   -1.8   -1.1   -0.9             3           -0.9
```

The classes lie along the **last** axis; whatever axes come before belong to both: `log_probs (..., C)`, `targets (...)`, result `(...)`. For text that is `(B, T, C)` and `(B, T)`.

A common mistake is to hand in *one-hot rows* of shape `(..., C)` instead of class numbers. The shape rule can catch it.

**Task.** Write the shape rule `pick_shape(log_probs, targets)`: two tuples come, the shape of `targets` goes out. Unless the shape of `targets` is that of `log_probs` without its last axis: `ValueError` whose message names both shapes and the one wanted,
such as `log_probs (3, 4) with targets (3, 1): want targets (3,)`. A `log_probs` without axes has no classes: `ValueError` too.
Example: `pick_shape((3, 4), (3,))` is `(3,)`.

<details><summary>Hint 1: idea</summary>
Two tuples are equal or they are not; only one of them must lose its end first.
</details>
<details><summary>Hint 2: approach</summary>
<code>log_probs[:-1]</code> is the shape wanted. For <code>()</code> it is <code>()</code> again, so that case needs a line of its own.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>(8, 20, 100)</code>: 8 texts of 20 tokens, 100 classes. Targets <code>(8, 20)</code> fit; <code>(8, 20, 1)</code>, <code>(160,)</code> and <code>(8, 20, 100)</code> do not.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "pick-shape", "solution": true}
#| export
def pick_shape(log_probs, targets):
    """Return the shape of ``targets`` (...) for ``log_probs`` (..., C), or raise ``ValueError``."""
    ### BEGIN SOLUTION
    if not log_probs:
        raise ValueError("log_probs (): want an axis of classes, (..., C)")
    if tuple(targets) != tuple(log_probs[:-1]):
        hint = "; class numbers, not one-hot rows" if tuple(targets) == tuple(log_probs) else ""
        raise ValueError(f"log_probs {log_probs} with targets {targets}: want targets {log_probs[:-1]}{hint}")
    return targets
    ### END SOLUTION

# %% [markdown]
"""
What must the op refuse that the shapes do not show? A class number of 10 when there are 10 classes (they are numbered 0 to 9), a negative one (NumPy would count from the end, silently), and 2.5. Given: `class_numbers`, which checks all of
that and returns integers. `Tensor([0, 2])` holds floats, as every list does, so whole floats are welcome.
"""

# %%
#| export
def class_numbers(targets, classes):
    """Return an array of class numbers as integers.

    Raises ``ValueError`` naming the first number that is not a whole one from 0 to ``classes`` - 1, and
    ``TypeError`` for booleans.
    """
    if targets.dtype.kind == "b":
        raise TypeError("targets are booleans; want class numbers: 0, 1, 2 and so on")
    wrong = (targets < 0) | (targets >= classes) | (targets != np.floor(targets))
    if wrong.any():
        raise ValueError(f"target {targets[wrong].flat[0]} is no class: there are {classes} classes, "
                         "numbered from 0; give whole numbers below that")
    return targets.astype(np.intp)

# %% [markdown]
"""
**Task.** Write the body of `pick`. Both arguments are NumPy arrays. The first two lines are given: the shape rule is called here as well, because NumPy would stretch a wrong shape in silence.

<details><summary>Hint 1: idea</summary>
NumPy has a function that takes, along an axis, the entries that an index array names.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.take_along_axis(log_probs, index, axis=-1)</code> wants as many axes in <code>index</code> as in <code>log_probs</code>. Add one of size 1 at the end (<code>index[..., None]</code>), and take it away from the result (<code>[..., 0]</code>).
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
One entry per <em>column</em> of <code>[[1, 2], [3, 4]]</code>, rows 1 and 0: <code>np.take_along_axis(a, np.array([1, 0])[None, :], axis=0)[0]</code> is <code>[3, 2]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "pick", "solution": true}
#| export
@op(shape=pick_shape, dtype=lambda log_probs, targets: log_probs)
def pick(log_probs, targets):
    """Take the entry of the target class: log_probs (..., C), targets (...) of whole numbers -> (...)."""
    pick_shape(log_probs.shape, targets.shape)
    index = class_numbers(targets, log_probs.shape[-1])
    ### BEGIN SOLUTION
    return np.take_along_axis(log_probs, index[..., None], axis=-1)[..., 0]
    ### END SOLUTION

# %%
table = Tensor([[-1.2, -0.9, -2.3, -1.6], [-0.1, -3.0, -4.4, -3.9], [-2.0, -1.8, -1.1, -0.9]])
print(pick(table, Tensor([1, 0, 3])))

# %% nbgrader={"grade": true, "grade_id": "test-pick", "points": 20, "skill": "picking"}
def test_pick():
    """Entries, leading axes, types, refusals."""
    table = Tensor([[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]])
    check("one entry per row", pick(table, np.array([2, 0])).data.tolist(), [12.0, 20.0], {
        ((12.0,), (20.0,)): "an axis of length 1 is left over", ((12.0, 10.0), (22.0, 20.0)): "every row gave both entries: indexing a[:, targets] is a table, not a pick"})
    check("the rule", (pick_shape((3, 4), (3,)), pick_shape((4,), ()), pick_shape((2, 5, 7), (2, 5))), ((3,), (), (2, 5)))
    check("a text: (B, T, C) with (B, T)", pick(Tensor(np.arange(24.0).reshape(2, 3, 4)), np.array([[0, 1, 2], [3, 0, 0]])).data, [[0.0, 5.0, 10.0], [15.0, 16.0, 20.0]])
    check("no rows", pick(Tensor(np.ones((0, 3))), np.zeros(0, int)).shape, (0,))
    check("the type is that of the log_probs", pick(Tensor(np.ones((2, 3), np.float16)), np.array([0, 1])).dtype.name, "float16")
    for shape in ("(2, 3)", "(2, 1)", "(2,)"):
        check_raises(f"targets (2, 1), naming {shape}", ValueError, lambda: pick(table, np.array([[2], [0]])), must_say=shape)
    check_raises("one-hot rows", ValueError, lambda: pick_shape((2, 3), (2, 3)), must_say="(2,)")
    check_raises("no axis of classes", ValueError, lambda: pick_shape((), ()))
    check_raises("class 3 of 3", ValueError, lambda: pick(table, np.array([2, 3])), must_say="target 3")


test_pick()

# %% [markdown]
"""
## 4. Cross entropy

**Question.** You have made a classifier for ten digits and not trained it. What is its loss?

It knows nothing, so every class gets about the same share, a tenth, and the loss is `-log(1/10)`. If a fresh network starts far from that, something is wrong before the first step. Compute it for three numbers of classes; the last is the vocabulary of GPT-2:
"""

# %%
for classes in (2, 10, 50_257):
    print(f"{classes:>6,} classes, no idea: loss {np.log(classes):.4f}")

# %% [markdown]
"""
**Task.** Write `CrossEntropyLoss.forward(logits, targets)`: the mean over all targets of `-log(share of the target class)`. The raw scores that come are called *logits*; no softmax may have been applied before.
You have everything: `log_softmax`, `pick`, `.mean()`. The conversion of the logits and the refusal of an empty batch are given.

Example: equal logits for 4 classes give log 4 = 1.3863 whatever the target is.

<details><summary>Hint 1: idea</summary>
One line: three functions and a minus sign.
</details>
<details><summary>Hint 2: approach</summary>
From inside out: logarithms of shares, the one of the target, the mean over all targets, the sign.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Logits 5 and 4, target 1: log-softmax is -0.3133 and -1.3133, picked -1.3133, the loss 1.3133.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "cross-entropy", "solution": true}
#| export
class CrossEntropyLoss(Layer):
    """Cross entropy of raw scores: logits (..., C), class numbers (...) -> a scalar tensor, the mean over targets.

    Do not apply softmax before: the loss does it, in a form that cannot overflow.
    """

    def forward(self, logits, targets):
        """Return the mean of -log(share of the target class).

        Raises ``ValueError`` for shapes that do not fit, for class numbers that do not exist and for an empty batch.
        """
        logits = logits if isinstance(logits, Tensor) else Tensor(logits)
        if np.size(targets) == 0:
            raise ValueError(f"CrossEntropyLoss: targets {np.shape(targets)} hold nothing to average; give one or more")
        ### BEGIN SOLUTION
        return -pick(log_softmax(logits), targets).mean()
        ### END SOLUTION

# %%
print(CrossEntropyLoss()(Tensor([[0, 0, 0, 0]]), Tensor([2])))

# %% nbgrader={"grade": true, "grade_id": "test-cross-entropy", "points": 18, "skill": "cross-entropy"}
def test_cross_entropy():
    """Values, extremes, leading axes, refusals."""
    loss = CrossEntropyLoss()
    logits = Tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    check("two rows", loss(logits, np.array([0, 1])).item(), 2.710490, {
        -2.710490: "the sign is missing", 5.420980: "the sum, not the mean", 1.168597: "softmax was applied to the logits first", -1.0: "log_softmax is missing", -0.335945: "the logarithm is missing"}, rtol=1e-5)
    check("no idea among 10 classes", loss(Tensor(np.zeros((4, 10))), np.array([0, 3, 9, 9])).item(), 2.302585093)
    check("sure and right", loss(Tensor([[1000.0, 0.0]]), np.array([0])).item(), 0.0)
    check("sure and wrong: large, not infinite", loss(Tensor([[1000.0, 0.0]]), np.array([1])).item(), 1000.0, {np.inf: "the logarithm of a share of 0"})
    check("a text: (B, T, C)", loss(Tensor(np.zeros((2, 5, 8))), np.zeros((2, 5), int)).item(), 2.079441542)
    check("the result has no axes", loss(logits, np.array([0, 1])).shape, ())
    check_raises("class 3 of 3", ValueError, lambda: loss(logits, np.array([0, 3])), must_say="3 classes")
    check_raises("an empty batch", ValueError, lambda: loss(Tensor(np.zeros((0, 3))), np.zeros(0, int)))


test_cross_entropy()

# %% [markdown]
"""
**What if** somebody applies softmax before a loss that wants logits? Nothing fails; the loss is only never small. Look at a network that is sure and right:
"""

# %%
sure = Tensor([[12.0, 0.0, 0.0]])
print("from logits:         ", CrossEntropyLoss()(sure, [0]).item())
print("softmax applied first:", CrossEntropyLoss()(softmax(sure), [0]).item())

# %% [markdown]
"""
## 5. Two classes

**Question.** With two classes, one number is enough: the probability `p` of "yes". The targets `t` are 1 (yes) or 0 (no). What is the loss?

```
    loss = -( t · log(p) + (1 - t) · log(1 - p) )          binary cross entropy
```

For `t = 1` only the first term is left, for `t = 0` only the second. Two ways to get there exist, and our loss knows both.

**From probabilities** (the default). A `p` of exactly 0 or 1 comes out of a saturated sigmoid more often than one thinks, and `0 · log(0)` is NaN. So no logarithm may see less than `TINY`:
`maximum(p, TINY)` in the first one, `maximum(1 - p, TINY)` in the second. Sure and wrong then costs at most `-log(TINY)`.

**From logits** (`from_logits=True`). `p = sigmoid(z)` is the share of `z` among the two scores `z` and 0. So the loss is a log-sum-exp again:

```
    loss = log(e^z + e^0) - z · t        shifted by top = max(z, 0):   top + log( e^(z - top) + e^(-top) ) - z · t
```

Exact for every `z`, no clipping, and a gradient that does not die where the sigmoid is flat. Prefer it. Why the shift? Here is the left formula as it stands. For large `z` its logarithm should come out as `z`:
"""

# %%
z = Tensor([-20.0, 0.0, 20.0, 88.0, 89.0, 200.0])
print("logits            ", z.data)
print("log(e^z + 1)      ", log(exp(z) + 1).data)

# %% [markdown]
"""
**Task.** Write the two formulas as functions of Tensors of the same shape, without the mean: `binary_from_probabilities(p, t)` and `binary_from_logits(z, t)`, both returning one loss per element. The class that calls them, checks shapes and
ranges, and takes the mean, is given below them.

Example: `p = 0.8`: for `t = 1` the loss is 0.2231, for `t = 0` it is 1.6094. The logit of 0.8 is 1.3863.

<details><summary>Hint 1: idea</summary>
Both are the lines of mathematics above, written with <code>log</code>, <code>exp</code>, <code>relu</code> and <code>maximum</code>.
</details>
<details><summary>Hint 2: approach</summary>
<code>relu(z)</code> is <code>max(z, 0)</code>. The result does not depend on the shift, so <code>.detach()</code> it, as in softmax.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>z = 2, t = 0</code>: top 2, powers <code>e^0 = 1</code> and <code>e^-2 = 0.1353</code>, loss <code>2 + log(1.1353) - 0 = 2.1269</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "binary", "solution": true}
#| export
TINY = 1e-7  # the smallest probability a logarithm sees: 1 - TINY still differs from 1 in float32


def binary_from_probabilities(p, t):
    """Return -(t log p + (1 - t) log(1 - p)) for each element, no logarithm seeing less than ``TINY``."""
    ### BEGIN SOLUTION
    return -(t * log(maximum(p, TINY)) + (1 - t) * log(maximum(1 - p, TINY)))
    ### END SOLUTION


def binary_from_logits(z, t):
    """Return log(e^z + 1) - z t for each element, shifted so that no power exceeds 1."""
    ### BEGIN SOLUTION
    top = relu(z).detach()
    return top + log(exp(z - top) + exp(-top)) - z * t
    ### END SOLUTION

# %%
#| export
def _within_0_and_1(what, x):
    """Raise ``ValueError`` when a number in ``x`` is no probability; NaN passes, a shape-only run has no numbers."""
    if not is_shape_only() and ((x.data < 0) | (x.data > 1)).any():
        raise ValueError(f"BinaryCrossEntropyLoss: {what} from {x.data.min():.4g} to {x.data.max():.4g}; want "
                         "probabilities, 0 to 1 (raw scores: BinaryCrossEntropyLoss(from_logits=True))")


class BinaryCrossEntropyLoss(Layer):
    """Cross entropy of two classes: predictions (...) and targets 0 to 1 of the same shape -> a scalar, the mean.

    Predictions are probabilities, and those nearer than 1e-7 to 0 or 1 are clipped there; with ``from_logits=True``
    they are raw scores, and the result is exact for every score.
    """

    def __init__(self, from_logits=False):
        self.from_logits = bool(from_logits)

    def forward(self, predictions, targets):
        """Return the mean loss; ``ValueError`` unless shapes are equal and probabilities lie within 0 and 1."""
        predictions, targets = matching("BinaryCrossEntropyLoss", predictions, targets)
        _within_0_and_1("targets", targets)
        if targets.dtype.kind != "f":
            targets = targets.astype(np.float32 if predictions.dtype.kind != "f" else predictions.dtype)
        if self.from_logits:
            return binary_from_logits(predictions, targets).mean()
        _within_0_and_1("predictions", predictions)
        return binary_from_probabilities(predictions, targets).mean()

# %%
print(BinaryCrossEntropyLoss()(Tensor([0.8, 0.3]), Tensor([1, 0])))

# %% nbgrader={"grade": true, "grade_id": "test-binary", "points": 20, "skill": "cross-entropy"}
def test_binary():
    """Values, saturation, logits, refusals."""
    loss, from_logits = BinaryCrossEntropyLoss(), BinaryCrossEntropyLoss(from_logits=True)
    check("p = 0.8 and 0.3", loss(Tensor([0.8, 0.3]), Tensor([1.0, 0.0])).item(), 0.289909, {
        -0.289909: "the sign is missing", 0.111572: "the second term is missing", 1.406691: "the targets are swapped"}, rtol=1e-4)
    check("sure and wrong: large, not infinite", loss(Tensor([0.0, 1.0]), Tensor([1.0, 0.0])).item(), 16.1181, {np.inf: "log(0)"}, rtol=1e-3)
    check("sure and right", loss(Tensor([0.0, 1.0]), Tensor([0.0, 1.0])).item(), 0.0, {np.nan: "0 times log(0) is NaN"}, atol=1e-6)
    check("logits of 0.8 and 0.3", from_logits(Tensor([1.386294361, -0.84729786]), Tensor([1.0, 0.0])).item(), 0.289909, {
        -0.403238: "the shift was not added back", 1.676203: "z t is taken away, not added", 0.983056: "z t is missing"}, rtol=1e-4)
    check("one loss per logit", binary_from_logits(Tensor([2.0, 0.0]), Tensor([0.0, 1.0])).data.tolist(), [2.126928, 0.693147], rtol=1e-5)
    check("logits of 1000", binary_from_logits(Tensor([1000.0, -1000.0, 1000.0]), Tensor([1.0, 1.0, 0.0])).data.tolist(), [0.0, 1000.0, 1000.0], {
        (np.inf, 1000.0, np.inf): "a power overflowed: shift by max(z, 0)"})
    check_raises("(2, 1) against (2,)", ValueError, lambda: loss(Tensor([[0.5], [0.5]]), Tensor([1.0, 0.0])), must_say="(2, 1)")


test_binary()

# %% [markdown]
"""
**What if** the sigmoid is saturated? Here are a score of -30, the true answer "yes", and both ways:
"""

# %%
from tinytorch.core.activations import sigmoid

z, yes = Tensor([-30.0]), Tensor([1.0])
print("through a probability:", BinaryCrossEntropyLoss()(sigmoid(z), yes).item())
print("from the logit:       ", BinaryCrossEntropyLoss(from_logits=True)(z, yes).item())

# %% [markdown]
"""
The first is stuck at the clip. Whether the score is -30 or -300 makes no difference to it, so the network is not told in which direction to go.

## 6. What it means for a real model

A language model with 50,257 tokens in its vocabulary makes a row of 50,257 logits for every position. For 8 texts of 1,024 tokens, what do the logits and their log-softmax weigh? Guess, then run; nothing is computed:
"""

# %%
from tinytorch.core.tensor import hollow, listen, shape_only

with shape_only():
    with listen(lambda event: print(f"{event.op.name:>10} -> {event.out_shape}, {np.prod(event.out_shape) * 4 / 1024**2:8,.1f} MB")):
        CrossEntropyLoss()(Tensor(hollow((8, 1024, 50_257))), Tensor(hollow((8, 1024), np.int64)))

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Why does the loss want logits and not probabilities?</summary>
A share below 10⁻⁴⁵ is 0 in float32 and cannot be taken back. The logit still holds it: subtract first, never exponentiate and take the logarithm again.
</details>
<details><summary>A fresh network for 10 classes has a loss of 9. What do you look at first?</summary>
The expected value is log 10 = 2.30. A loss of 9 means very unequal logits from the start: weights drawn too large, or inputs that were not scaled.
</details>
<details><summary>Why is the loss a mean and not a sum?</summary>
So that its size, and that of the gradients, does not depend on the batch size; a learning rate then survives a change of batch size.
</details>
<details><summary>The log-softmax makes a row of 50,257 numbers and <code>pick</code> keeps one. What is wasted?</summary>
Memory and the time to write it. Real frameworks fuse the two so that the table never exists. Ours keeps the steps apart, and the profile of Module 14 shows what that costs.
</details>

`tito test losses` checks the module; once all of it passes, `tito module complete losses` puts what you wrote into the package, and later modules run on your code. Next: Module 05, in which direction should each weight move?
"""
