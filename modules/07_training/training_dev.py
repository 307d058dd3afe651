# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "07_training", "release": "ffbcbd01691d50bf"}
# ---

# %% [markdown]
"""
# 07 · Training

Tier: Foundation · Difficulty 2 of 4 · About 2 hours · Needs 01 to 06 (`tito test tensor`, `tito test activations`, `tito test layers`,
`tito test losses`, `tito test autograd`, `tito test optimizers`)

Layers, loss, gradients, optimizer: all parts lie on the table. This module puts them into a loop. The loop is six lines long, and nearly every line has a
classic mistake that raises no error: training goes on, only worse. You will meet each of them, with the number it produces.

**Build** the step, an honest evaluation, a schedule, clipping, the `Trainer` → **use** it to teach a network to read handwritten
digits, in under a second → **reflect** on what the two curves of training say.

When you are done you can
1. put the parts of a training step in the right order, and say what goes wrong in the others;
2. evaluate without touching the model, and average over batches of different size;
3. lower the rate along a half cosine and show what that buys;
4. clip gradients by their joint length without changing their direction;
5. train a network on real data and read its curves.

Yours: the step, the evaluation, the schedule, the clipping, and the trainer's loop. Given and explained: switching a model's mode and back, and the small records that a trainer hands out.

A cell you have not filled says which one it is: `fresh_gradients: section 1, cell 2` is the function `fresh_gradients` in the second code cell of section 1.
"""

# %%
#| default_exp core.training

# %%
#| export
from contextlib import contextmanager
from math import cos, isfinite, pi
from typing import NamedTuple

import numpy as np

from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import parts, positive
from tinytorch.core.optimizers import nonnegative
from tinytorch.core.tensor import Tensor, scope, sqrt

# %% [markdown]
"""
## 1. One step

**Question.** Four verbs: *forget* the old gradients, *forward*, *backward*, *step*. In how many orders can they be put, and how many are right?

They go round in a circle, so let each order begin with *forget*; six are left. No model is needed to try them all: a weight on a slope, in plain numbers. *forward* notes where the weight is, *backward* adds the slope at the noted
place to the gradient, *step* walks against the gradient, *forget* sets it to zero. The best weight is 2.
"""

# %%
if __name__ == "__main__":
    from itertools import permutations


    def eight_rounds(verbs):
        """Go through the verbs eight times from w = 0; return w after each round."""
        w, noted, gradient, path = 0.0, None, 0.0, []
        for _ in range(8):
            for verb in verbs:
                if verb == "forget":
                    gradient = 0.0
                elif verb == "forward":
                    noted = w
                elif verb == "backward" and noted is not None:
                    gradient += 5 * (noted - 2)
                elif verb == "step":
                    w -= 0.1 * gradient
            path.append(w)
        return path


    for order in [("forget", *rest) for rest in permutations(("forward", "backward", "step"))] + [("forward", "backward", "step")]:
        print(f"{', '.join(order):>33}: {' '.join(f'{w:5.2f}' for w in eight_rounds(order))}")

# %% [markdown]
"""
Two of the six are right, and they are the same circle but for one thing: *forget* may stand on either side of *forward*. Three never move, because the gradient is forgotten before anybody has used it. One walks with the slope of the round before, and
swings. The last line never forgets, and swings wider. None of the wrong ones raises an error.

**Task.** Write `fresh_gradients(model, optimizer, loss_fn, x, y)`: everything up to, but without, the optimizer's step. Afterwards each parameter holds the gradient of *this* batch alone. Return the loss as a Python number.

A loss that is NaN or infinite must stop training **before** the backward pass, with a `ValueError`: a step taken with it would turn every weight into NaN. The message must have the value (`nan` or `inf`) in it; the words are yours, for example
`the loss is nan; look at the data, then try a lower rate`. (`isfinite` is imported.)

<details><summary>Hint 1: idea</summary>
Forget, forward, look, backward.
</details>
<details><summary>Hint 2: approach</summary>
<code>loss_fn(model(x), y)</code> is a Tensor with one element; <code>.item()</code> makes it a number. The optimizer knows how to forget.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>w = 2</code>, <code>x = 1</code> and <code>3</code>, targets 0: the loss is (4 + 36) / 2 = 20, its gradient (2 · 2 · 1 + 2 · 6 · 3) / 2 = 20.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "fresh-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def fresh_gradients(model, optimizer, loss_fn, x, y):
    """Give every parameter the gradient of this batch alone and return the loss, a float; no step is taken.

    Raises ``ValueError`` when the loss is not finite, before anything flows back.
    """
    raise NotImplementedError("fresh_gradients: section 1, cell 2")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-fresh-gradients", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "step"}
if __name__ == "__main__":
    from tinytorch.core.layers import Linear
    from tinytorch.core.losses import MSELoss
    from tinytorch.core.optimizers import SGD
    from tito.checks import check, check_raises


    def one_weight(value, lr=0.01):
        """Return a model with one weight, and an SGD optimizer for it."""
        layer = Linear(1, 1, bias=False)
        layer.weight.data[...] = value
        return layer, SGD(layer.parameters(), lr=lr)


    def test_fresh_gradients():
        """The loss, the gradient of this batch alone, no step, NaN stops."""
        model, optimizer = one_weight(2.0)
        x, y = Tensor([[1.0], [3.0]]), Tensor([[0.0], [0.0]])
        loss = fresh_gradients(model, optimizer, MSELoss(), x, y)
        check("the loss is a Python number", (type(loss).__name__, float(loss)), ("float", 20.0), {("Tensor", 20.0): "the Tensor came: use item()"})
        check("the gradient", model.weight.grad.item(), 20.0)
        fresh_gradients(model, optimizer, MSELoss(), x, y)
        check("a second time: the same", model.weight.grad.item(), 20.0, {40.0: "the old gradient was not forgotten"})
        check("no step was taken", model.weight.item(), 2.0, {1.8: "the optimizer's step does not belong here"})
        nan = Tensor([[float("nan")], [1.0]])
        check_raises("NaN data", ValueError, lambda: fresh_gradients(model, optimizer, MSELoss(), nan, y), must_say="nan")
        check("and nothing flowed back", model.weight.grad is None, True, {False: "backward ran before the loss was looked at"})


    test_fresh_gradients()

# %% [markdown]
"""
**What it means for a real model.** The largest training runs are watched for exactly this: a loss that jumps or turns NaN stops the run, and it goes on from an earlier checkpoint.

## 2. How good is it?

**Question.** Two batches: three examples with a loss of 1 each, and a last one, alone, with a loss of 25. What is the average loss?
"""

# %%
if __name__ == "__main__":
    print("average of the batch averages:", (1 + 25) / 2)
    print("average over the examples:    ", (3 * 1 + 1 * 25) / 4)

# %% [markdown]
"""
The last batch of a data set is usually a small one, so the first answer is usually wrong. Weigh every batch with its number of targets.

An evaluation must also leave no trace. It runs in evaluation mode (dropout off) and under `no_grad()` (nothing is remembered, so it needs far less memory). Afterwards every layer is in the mode it had before: some may have been in
evaluation mode on purpose. Given:
"""

# %%
#| export
def with_mode(model):
    """Return every object in ``model`` that has a ``training`` flag, the model itself included, each once."""
    found, seen, todo = [], {}, [model]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (str, int, float)):
            continue
        seen[id(one)] = one
        if hasattr(one, "training") and hasattr(one, "__dict__"):
            found.append(one)
        todo += [value for _, value in parts(one)]
    return found


@contextmanager
def in_mode(model, training):
    """Put all of ``model`` in training mode (False: evaluation mode) inside the block, then back as it was."""
    before = [(one, vars(one).get("training")) for one in with_mode(model)]
    try:
        for one, _ in before:
            one.training = training
        yield
    finally:
        for one, mode in before:
            if mode is None:
                vars(one).pop("training", None)
            else:
                one.training = mode

# %% [markdown]
"""
Two more given pieces. `pairs` reads a *loader*: anything that can be looped over and yields pairs (inputs, targets); a list of pairs will do, and Module 08 builds a better one. `right_answers` counts where the largest score is at the target class;
for targets that are no classes it answers `None`.
"""

# %%
#| export
def pairs(loader):
    """Yield the batches of ``loader`` as (inputs, targets), both Tensors; ``ValueError`` when there are none."""
    empty = True
    for batch in loader:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise TypeError(f"the loader gave a {type(batch).__name__}; want pairs (inputs, targets)")
        empty = False
        yield tuple(part if isinstance(part, Tensor) else Tensor(part) for part in batch)
    if empty:
        raise ValueError("the loader gave no batch; is the dataset empty, or an iterator that was read before?")


def right_answers(output, y):
    """Return how many targets have the largest score, or None without class numbers: output (..., C), y (...)."""
    if y.dtype.kind not in "iu" or output.ndim != y.ndim + 1:
        return None
    return (output.argmax(axis=-1) == y).sum().item()


class Evaluation(NamedTuple):
    """What ``evaluate`` found: the mean loss, and the share of right answers (None when there are no classes)."""

    loss: float
    accuracy: float | None

# %% [markdown]
"""
**Task.** Write `evaluate(model, loss_fn, loader)`: it returns an `Evaluation`. A batch weighs as much as it has targets, `y.size`. When `right_answers` says `None`, so does the accuracy.

<details><summary>Hint 1: idea</summary>
Three sums: loss times weight, weights, right answers. Divide at the end.
</details>
<details><summary>Hint 2: approach</summary>
<code>with in_mode(model, False), no_grad():</code> around <code>for x, y in pairs(loader):</code>. Compute the output once; both the loss and the answers need it.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Batches of 2 and 1 with losses 3 and 6: (2 · 3 + 1 · 6) / 3 = 4.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def evaluate(model, loss_fn, loader):
    """Return mean loss and accuracy over all targets, in evaluation mode and without a graph; leave no trace."""
    raise NotImplementedError("evaluate: section 2, cell 4")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-evaluate", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "evaluation"}
if __name__ == "__main__":
    from tinytorch.core.layers import Dropout, Sequential
    from tinytorch.core.losses import CrossEntropyLoss


    def test_evaluate():
        """Weighted averages, mode, no graph, no trace."""
        as_it_is = Sequential()
        uneven = [(Tensor([[1.0], [1.0], [1.0]]), Tensor([[0.0]] * 3)), (Tensor([[5.0]]), Tensor([[0.0]]))]
        found = evaluate(as_it_is, MSELoss(), uneven)
        check("losses 1, 1, 1 and 25", found.loss, 7.0, {13.0: "batches of different size count the same", 28.0: "not divided by the number of targets"})
        check("no classes, no accuracy", found.accuracy, None)
        scores = Tensor([[2.0, 1.0], [0.0, 3.0], [5.0, 4.0]])
        classes = [(scores, np.array([0, 1, 1])), (scores[0:1], np.array([0]))]
        check("three of four right", evaluate(as_it_is, CrossEntropyLoss(), classes).accuracy, 0.75, {0.8333333: "batches of different size count the same", 3: "a count, not a share"})
        model, seen = Sequential(Linear(1, 1), Dropout(0.9), Dropout(0.9)), []
        model.layers[2].eval()

        def watching(output, y):
            seen.append(([one.training for one in (model, *model.layers)], output.requires_grad))
            return MSELoss()(output, y)

        evaluate(model, watching, uneven)
        check("all in evaluation mode, no graph", seen[0], ([False] * 4, False), {((True, True, True, False), False): "the mode was not switched",
                                                                              ((False,) * 4, True): "no_grad is missing"})
        check("modes as before", [one.training for one in (model, *model.layers)], [True, True, True, False], {(True,) * 4: "a layer that was in evaluation mode is so no more"})
        check("no gradients were made", [p.grad is None for p in model.parameters()], [True, True])
        check_raises("an empty loader", ValueError, lambda: evaluate(model, MSELoss(), []), must_say="no batch")


    test_evaluate()

# %% [markdown]
"""
**What if** dropout stays on while you evaluate? Then the model does not even agree with itself:
"""

# %%
if __name__ == "__main__":
    model = Sequential(Linear(8, 8), Dropout(0.5), Linear(8, 1))
    batch = [(Tensor(np.ones((4, 8))), Tensor(np.zeros((4, 1))))]
    print("dropout on: ", [round(MSELoss()(model(batch[0][0]), batch[0][1]).item(), 3) for _ in range(4)])
    print("evaluate(): ", [round(evaluate(model, MSELoss(), batch).loss, 3) for _ in range(4)])

# %% [markdown]
"""
## 3. A rate that falls

**Question.** A large rate is fast, a small one ends nearer to the minimum. Must we choose?

Gradients of a batch are noisy: they point downhill only on average. With a constant rate the weight ends in a random walk around the minimum, the wider the larger the rate. Here is a bowl `w² / 2` with noisy slopes, in plain Python:
"""

# %%
if __name__ == "__main__":
    def noisy_walk(rate, steps=400):
        """Walk down w²/2 from w = 5 with noise on every slope; return the mean of w² over the last 40 steps of 200 walks."""
        rng, w, tail = np.random.default_rng(0), np.full(200, 5.0), []
        for step in range(steps):
            w = w - rate(step) * (w + rng.standard_normal(200))
            tail.append((w**2).mean())
        return np.mean(tail[-40:])


    for name, rate in (("constant 0.3", lambda step: 0.3), ("constant 0.003", lambda step: 0.003), ("falling 0.3 to 0", lambda step: 0.3 * (1 + cos(pi * step / 400)) / 2)):
        print(f"{name:>17}: mean square distance at the end {noisy_walk(rate):.4f}")

# %% [markdown]
"""
First fast, then fine. The usual curve is a half cosine (Loshchilov and Hutter, 2017): flat at both ends.

```
max_lr ──╮                       at step s of S:
          ╲                      share = s / S, at most 1
           ╲                     lr = min_lr + (max_lr - min_lr) · (1 + cos(π · share)) / 2
            ╲
             ╰── min_lr
        0     steps     S
```

A schedule is a plain function of the step number. It remembers nothing, so a run that goes on later needs only its step number.

**Task.** Write `CosineSchedule.__call__(step)`. After `total_steps` the rate stays at `min_lr`.

<details><summary>Hint 1: idea</summary>
The formula, with the share held at 1.
</details>
<details><summary>Hint 2: approach</summary>
<code>min(step / total, 1.0)</code>. Without it the cosine climbs again.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
From 1 to 0 in 6 steps; at step 2 the share is 1/3, its cosine 0.5, the rate 0.75.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "cosine-schedule", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class CosineSchedule:
    """The rate as a function of the step: a half cosine from ``max_lr`` to ``min_lr`` in ``total_steps``, then flat.

    Source: Loshchilov and Hutter, SGDR, 2017 (without restarts).
    """

    def __init__(self, max_lr, min_lr, total_steps):
        self.max_lr, self.min_lr = nonnegative("max_lr", max_lr), nonnegative("min_lr", min_lr)
        self.total_steps = positive("total_steps", total_steps)
        if self.min_lr > self.max_lr:
            raise ValueError(f"min_lr {min_lr} is above max_lr {max_lr}; want it below")

    def __call__(self, step):
        """Return the rate for a step; the first one is step 0."""
        raise NotImplementedError("CosineSchedule.__call__: section 3, cell 2")

# %%
if __name__ == "__main__":
    schedule = CosineSchedule(0.1, 0.01, 20)
    for step in range(0, 24, 2):
        print(f"step {step:2}: {schedule(step):.4f} {'▪' * round(400 * schedule(step))}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-cosine-schedule", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "schedule"}
if __name__ == "__main__":
    def test_cosine_schedule():
        """Both ends, the middle, a quarter, after the end."""
        schedule = CosineSchedule(0.1, 0.01, 8)
        check("step 0", schedule(0), 0.1, {0.01: "it begins at the low end"})
        check("half way", schedule(4), 0.055, {0.045: "min_lr was not added", 0.05: "min_lr is ignored"})
        check("a quarter of the way", schedule(2), 0.0868198, {0.0775: "a straight line, not a cosine"}, rtol=1e-5)
        check("step 8", schedule(8), 0.01, {0.1: "a whole cosine; half of one is wanted"})
        check("step 12", schedule(12), 0.01, {0.055: "it climbs again after the end"})
        check("asked again, out of order", schedule(2), 0.0868198, rtol=1e-5)
        check("from 1 to 0", CosineSchedule(1.0, 0.0, 6)(2), 0.75)


    test_cosine_schedule()

# %% [markdown]
"""
## 4. When one batch shouts

**Question.** A single broken batch has a gradient a thousand times the usual. What does it do?

One step with it undoes hours. The remedy is to limit the *length* of the gradient, taken over all parameters together:

```
norm = √( sum of the squares of all elements of all gradients )
if norm > max_norm:   every gradient is multiplied by the same number, max_norm / norm
```

The same number for all: then the direction stays what it was, and only the step gets shorter.

**Task.** Write `grad_norm(params)`, a Python number (0.0 when there are no gradients). Square and add in float64: in float32 the square of 10²⁰ is already infinite. Then `clip_grad_norm(params, max_norm)`: it returns the norm *before* clipping. A norm that is not
finite is a `ValueError` with the value (`nan` or `inf`) in its message, for example `clip_grad_norm: the norm is nan; look at the loss and the rate`, and the gradients stay as they are. The scaling, too, runs without a graph and is heard in the scope `clip`:
put it inside `with no_grad(), scope("clip"):`, as you see it around the body of `grad_norm`, so that a profile shows what clipping costs.

<details><summary>Hint 1: idea</summary>
Sum over parameters first, then one root: not a sum of roots.
</details>
<details><summary>Hint 2: approach</summary>
<code>g = p.grad.astype(np.float64)</code>; <code>(g * g).sum().item()</code> is a number. Parameters without a gradient are passed over. A clipped gradient is a new Tensor: <code>p.grad = p.grad * factor</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Gradients (2, 3) and (6): 4 + 9 + 36 = 49, norm 7; to a norm of 3.5 everything is halved.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "clip-grad-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def grad_norm(params):
    """Return the length of all gradients taken together, a float: the root of the sum of all squares, in float64."""
    with no_grad(), scope("clip"):
        raise NotImplementedError("grad_norm: section 4, cell 1")


def clip_grad_norm(params, max_norm):
    """Scale all gradients by one number so that together they are at most ``max_norm`` long; return the length before.

    The scaling is heard in ``scope("clip")`` and not remembered. Raises ``ValueError`` for a length that is not finite;
    the gradients are then untouched.
    """
    params = list(params)
    if not nonnegative("max_norm", max_norm):
        raise ValueError("max_norm is 0; want a number above 0")
    raise NotImplementedError("clip_grad_norm: section 4, cell 1")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-clip-grad-norm", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "clipping"}
if __name__ == "__main__":
    from tinytorch.core.tensor import listen


    def test_clip_grad_norm():
        """The norm, the common factor, what is left alone, broken gradients."""
        def with_gradients(*gradients):
            params = [Tensor(np.zeros(np.shape(g)), requires_grad=True) for g in gradients]
            for p, g in zip(params, gradients):
                p.grad = Tensor(g)
            return [*params, Tensor([1.0], requires_grad=True)]

        params = with_gradients([3.0, 4.0], [12.0])
        check("gradients (3, 4), (12) and none", grad_norm(params), 13.0, {17.0: "the norms were added; add the squares", 169.0: "the root is missing", 12.0: "the largest of them"})
        check("clipping returns the norm before", clip_grad_norm(params, 6.5), 13.0, {6.5: "that is the norm after"})
        check("all were halved", [p.grad.data.tolist() for p in params[:2]], ([1.5, 2.0], [6.0]), {
            ((3.0, 4.0), (6.5,)): "each was clipped on its own: the direction changed", ((3.0, 4.0), (12.0,)): "nothing was clipped"})
        shouting, scopes = with_gradients([30.0, 40.0]), []
        with listen(lambda event: scopes.append(event.scope[-1].name if event.scope else "no scope")):
            clip_grad_norm(shouting, 1.0)
        check("heard in scope", sorted(set(scopes)), ["clip"], {("clip", "no scope"): "the scaling stands outside of scope(\"clip\")"})
        check("no graph grows on the gradients", shouting[0].grad.made_by is None, True)
        check("short enough: left alone", (clip_grad_norm(params, 100.0), params[1].grad.item()), (6.5, 6.0), {(6.5, 92.307693): "short gradients were stretched"})
        check("no gradients", grad_norm([Tensor([1.0], requires_grad=True)]), 0.0)
        check("large ones", grad_norm(with_gradients([3e20, 4e20])), 5e20, {float("inf"): "squared in float32"})
        broken = with_gradients([1.0, float("nan")])
        check_raises("NaN", ValueError, lambda: clip_grad_norm(broken, 1.0), must_say="nan")
        check("its gradients are untouched", broken[0].grad.data, [1.0, float("nan")])


    test_clip_grad_norm()

# %% [markdown]
"""
Fifty good batches, one broken one (a target of 3,000 instead of 2), ten good ones again. The right weight is 2:
"""

# %%
if __name__ == "__main__":
    good, broken = (Tensor([[1.0]]), Tensor([[2.0]])), (Tensor([[1.0]]), Tensor([[3000.0]]))
    for limit in (None, 1.0):
        model, optimizer = one_weight(0.0, lr=0.1)
        path = []
        for x, y in [good] * 50 + [broken] + [good] * 10:
            fresh_gradients(model, optimizer, MSELoss(), x, y)
            if limit:
                clip_grad_norm(optimizer.params, limit)
            optimizer.step()
            path.append(model.weight.item())
        print(f"clip {limit}: before {path[49]:.2f}, after the broken batch {path[50]:.2f}, ten good ones later {path[-1]:.2f}")

# %% [markdown]
"""
## 5. The Trainer

**Question.** What must be remembered between two batches, apart from the model and the optimizer?

Only counts: how many steps, how many epochs. All the rest is assembled from what you have.

**Task.** Write two methods of `Trainer`.

- `train_batch(x, y)`, one step: set the optimizer's rate to what the scheduler says for `self.steps` (if there is a scheduler), compute fresh gradients, clip (if `grad_clip_norm` is given), step, count. Return the loss and the norm (`None` when not clipping).
- `train_epoch(loader, on_batch=None)`: in training mode, all batches. After each one call `on_batch(Progress(...))`, if there is an `on_batch`. At the end count the epoch and return the mean loss, weighed as in `evaluate`.

The trainer prints nothing. Who wants a progress bar hands in a callback.

<details><summary>Hint 1: idea</summary>
<code>train_batch</code> is five lines, one per verb. <code>train_epoch</code> is <code>evaluate</code> with another middle.
</details>
<details><summary>Hint 2: approach</summary>
<code>with in_mode(self.model, True):</code> and <code>for batch, (x, y) in enumerate(pairs(loader)):</code>. <code>self.progress(batch, loader, loss, norm)</code> makes the record for the callback.
</details>
<details><summary>Hint 3: worked example, something else</summary>
A rate from a schedule: <code>optimizer.lr = float(schedule(steps))</code>, <em>before</em> the step, so that step 0 uses <code>schedule(0)</code>.
</details>
"""

# %%
#| export
class Progress(NamedTuple):
    """What ``on_batch`` hears after a batch; ``batches`` is the loader's length, or None when it has none."""

    epoch: int
    batch: int
    batches: int | None
    steps: int
    loss: float
    lr: float
    grad_norm: float | None

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "trainer", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class Trainer:
    """The training loop: ``Trainer(model, optimizer, loss_fn).fit(loader, epochs)``; it prints nothing.

    ``scheduler`` maps the step number to a rate, ``grad_clip_norm`` limits the gradient's length. ``steps`` and
    ``epochs`` count what was done; ``history`` has one entry per epoch of ``fit`` under each of its names.
    """

    def __init__(self, model, optimizer, loss_fn, scheduler=None, grad_clip_norm=None):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        for name, given in (("model", model), ("loss_fn", loss_fn), ("scheduler", scheduler)):
            if not callable(given) and not (name == "scheduler" and given is None):
                raise TypeError(f"Trainer: {name} is a {type(given).__name__}; want something to call")
        if grad_clip_norm is not None and nonnegative("grad_clip_norm", grad_clip_norm) == 0:
            raise ValueError("Trainer: grad_clip_norm is 0; want a number above 0, or None for no clipping")
        self.scheduler, self.grad_clip_norm = scheduler, grad_clip_norm
        self.steps, self.epochs = 0, 0
        self.history = {"loss": [], "lr": [], "validation_loss": [], "validation_accuracy": []}

    def train_batch(self, x, y):
        """Take one step; return the loss before it and the gradient's norm (None without clipping)."""
        raise NotImplementedError("Trainer.train_batch: section 5, cell 2")

    def train_epoch(self, loader, on_batch=None):
        """Train on every batch once, in training mode; return the mean loss, taken before each step."""
        raise NotImplementedError("Trainer.train_epoch: section 5, cell 2")

    def progress(self, batch, loader, loss, norm):
        """Return the record for the callback."""
        batches = len(loader) if hasattr(loader, "__len__") else None
        return Progress(self.epochs, batch, batches, self.steps, loss, self.optimizer.lr, norm)

    def fit(self, loader, epochs, on_batch=None, *, validation=None):
        """Train for so many epochs, evaluating on ``validation`` (a loader) after each; return the history."""
        for _ in range(positive("epochs", epochs)):
            loss = self.train_epoch(loader, on_batch)
            found = Evaluation(None, None) if validation is None else self.evaluate(validation)
            for name, value in zip(self.history, (loss, self.optimizer.lr, found.loss, found.accuracy)):
                self.history[name].append(value)
        return self.history

    def evaluate(self, loader):
        """Return mean loss and accuracy, see ``evaluate``."""
        return evaluate(self.model, self.loss_fn, loader)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-trainer", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "loop"}
if __name__ == "__main__":
    def test_trainer():
        """One step by hand, rates, clipping, callback, averages, mode."""
        x, y = Tensor([[1.0], [3.0]]), Tensor([[0.0], [0.0]])
        model, optimizer = one_weight(2.0, lr=0.01)
        trainer = Trainer(model, optimizer, MSELoss())
        check("one step: the loss before it, no norm", trainer.train_batch(x, y), (20.0, None), {(16.2, None): "that is the loss after the step"})
        check("2 - 0.01 · 20", model.weight.item(), 1.8, {2.0: "the optimizer's step is missing"}, rtol=1e-5)
        check("counted", trainer.steps, 1, {0: "the step was not counted"})
        model, optimizer = one_weight(2.0)
        heard, rates, modes = [], CosineSchedule(0.1, 0.0, 4), []
        model.eval()

        def loss_fn(output, target):
            modes.append(model.training)
            return MSELoss()(output, target)

        trainer = Trainer(model, optimizer, loss_fn, rates, grad_clip_norm=0.5)
        batches = [(x, y), (Tensor([[1.0]]), Tensor([[0.0]]))]
        history = trainer.fit(batches, 2, heard.append)
        check("rates of the four steps", [p.lr for p in heard], [rates(i) for i in range(4)], {
            (0.01,) * 4: "the schedule is not asked", tuple(rates(i) for i in (1, 2, 3, 4)): "asked after counting: step 0 uses schedule(0)"})
        check("norm before clipping, in the first step", heard[0].grad_norm, 20.0, {None: "no clipping"}, rtol=1e-5)
        check("clipped to 0.5: the losses of the first epoch", [p.loss for p in heard[:2]], [20.0, 1.95**2], rtol=1e-5)
        check("its mean, over three targets", history["loss"][0], (2 * 20.0 + 1.95**2) / 3, {(20.0 + 1.95**2) / 2: "batches of different size count the same"}, rtol=1e-5)
        check("places", [(p.epoch, p.batch, p.batches, p.steps) for p in heard], [(0, 0, 2, 1), (0, 1, 2, 2), (1, 0, 2, 3), (1, 1, 2, 4)], {
            ((0, 0, 2, 1), (0, 1, 2, 2), (0, 0, 2, 3), (0, 1, 2, 4)): "the epoch was not counted"})
        check("in training mode, and back", (modes, model.training), ([True] * 4, False))


    test_trainer()

# %% [markdown]
"""
## 6. It reads

**Question.** How long does it take to teach a network of 2,410 numbers to read handwritten digits? Write down a time and an accuracy.

The data is real: 1,797 pictures of 8 by 8 pixels, shipped with the package (Module 08 tells where they come from and what a fair split is). 355 of them, drawn at random, are held out. The next cell trains your trainer on the rest. It
is graded, so it begins with its own ingredients.
"""

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-digits", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "digits"}
if __name__ == "__main__":
    from importlib.resources import files
    from time import perf_counter

    from tinytorch.core.activations import ReLU
    from tinytorch.core.optimizers import Adam


    def digit_batches(size=32, seed=0):
        """Return shuffled batches of training digits, and one batch of 355 others that are held out."""
        with files("tinytorch.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
            images, labels = arrays["images"], arrays["labels"]
        order = np.random.default_rng(seed).permutation(len(labels))
        cuts = [order[:355], *np.split(order[355:], range(size, len(order) - 355, size))]
        test, *train = [(Tensor(images[cut].reshape(len(cut), 64) / 16), Tensor(labels[cut])) for cut in cuts]
        return train, [test]


    def digits_trainer(train, epochs, lr=0.01, seed=0):
        """Return a trainer for a fresh 64-32-10 network with Adam, its rate falling to 0 in so many epochs."""
        rng = np.random.default_rng(seed)
        model = Sequential(Linear(64, 32, rng=rng), ReLU(), Linear(32, 10, rng=rng))
        return Trainer(model, Adam(model.parameters(), lr=lr), CrossEntropyLoss(), CosineSchedule(lr, 0.0, epochs * len(train)))


    def test_digits():
        """Nothing learned reads one in ten; fifteen epochs read more than 94 % of pictures never seen."""
        train, test = digit_batches()
        trainer = digits_trainer(train, epochs=15)
        check("untrained: it guesses", bool(trainer.evaluate(test).accuracy < 0.3), True)
        start = perf_counter()
        trainer.fit(train, epochs=15)
        print(f"  trained in {perf_counter() - start:.2f} s")
        found = trainer.evaluate(test)
        print(f"  held-out pictures read rightly: {found.accuracy:.1%}")
        check("above 94 %", bool(found.accuracy > 0.94), True)
        check("steps", trainer.steps, 15 * 46)


    test_digits()

# %% [markdown]
"""
Now watch it, epoch by epoch, on both sides of the split. Which of the two curves do you expect to be lower? Will they meet?
"""

# %%
if __name__ == "__main__":
    train, test = digit_batches()
    trainer = digits_trainer(train, epochs=15)
    history = trainer.fit(train, 15, validation=test)
    print("epoch   rate     loss on training (█) and held-out (░) pictures        held-out accuracy")
    for i, (loss, rate, held, accuracy) in enumerate(zip(*history.values())):
        print(f"{i + 1:5}  {rate:.4f}  {loss:6.3f} {'█' * round(30 * min(loss, 1))}")
        print(f"{'':15} {held:6.3f} {'░' * round(30 * min(held, 1)):32}  {accuracy:26.1%}")

# %% [markdown]
"""
In the first epochs the held-out curve is *lower*. Is the network better on pictures that it has never seen? No: the training loss of an epoch is averaged while the weights are still improving, the held-out loss is measured at its end. Later the gap
turns round, and stays: that is what the network knows by heart.

Which of the pictures does it get wrong?
"""

# %%
if __name__ == "__main__":
    x, y = test[0]
    with no_grad():
        answers = trainer.model(x).data.argmax(axis=-1)
    wrong = np.flatnonzero(answers != y.data)[:6]
    for row in range(8):
        print("   ".join("".join(" .:-=+*#@"[int(ink * 8)] * 2 for ink in x.data[i].reshape(8, 8)[row]) for i in wrong))
    print("   ".join(f"is {y.data[i]}, read as {answers[i]}".ljust(16) for i in wrong))

# %% [markdown]
"""
**What if** the rate is wrong? Same network, same data, five epochs each. This module has used 0.01 throughout. Guess the best one before you run.
"""

# %%
if __name__ == "__main__":
    found = {}
    for lr in (0.0001, 0.001, 0.01, 0.1, 1.0):
        trainer = digits_trainer(train, epochs=5, lr=lr)
        loss, found[lr] = trainer.fit(train, 5)["loss"][-1], trainer.evaluate(test).accuracy
        print(f"lr {lr:<6}: loss {loss:7.3f}, held-out accuracy {found[lr]:6.1%}")
    print(f"best here: {max(found, key=found.get)}, ahead of 0.01 by {max(found.values()) - found[0.01]:.1%}: {round(355 * (max(found.values()) - found[0.01]))} pictures of 355")

# %% [markdown]
"""
Surprised? The rate that was used all the time is beaten by one ten times as large: in five epochs the small one does not get far enough. But ten times more again, and nothing is learned. The best rate lies close to the cliff, and no formula says
where the cliff is. So should the rate have been 0.1 all along? Give both fifteen epochs:
"""

# %%
if __name__ == "__main__":
    large = digits_trainer(train, epochs=15, lr=0.1)
    loss, accuracy = large.fit(train, 15)["loss"][-1], large.evaluate(test).accuracy
    print(f"lr 0.01: loss {history['loss'][-1]:.3f}, held-out accuracy {history['validation_accuracy'][-1]:.1%}")
    print(f"lr 0.1 : loss {loss:.3f}, held-out accuracy {accuracy:.1%}")

# %% [markdown]
"""
The lead is gone, though the loss on the training pictures is much lower with 0.1: it is not what we wanted to know. And a lead of a picture or three on one split is an anecdote, not a result.
"""

# %% [markdown]
"""
## 7. What it means for a real model

The loop of a large language model is this loop. More machines share a batch, checkpoints are written, the schedule begins with a short climb; the verbs and their order are yours.

A progress bar is a callback. This one shows every fiftieth step:
"""

# %%
if __name__ == "__main__":
    def every_fifty(progress):
        if progress.steps % 50 == 0:
            print(f"step {progress.steps:3}  rate {progress.lr:.4f}  loss {progress.loss:.3f}")


    digits_trainer(train, epochs=4).fit(train, 4, every_fifty)

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Why is the rate of a schedule given by the step and not by the epoch?</summary>
An epoch is as long as the data happens to be. By steps the curve is smooth, and it is the same for a run that stops in the middle of an epoch.
</details>
<details><summary>Your batch of 64 does not fit into memory. You compute two batches of 32, and add up their gradients. What must you not forget?</summary>
Each loss is already a mean over its 32. The sum of two means is twice the mean over 64: halve it, or the rate has secretly doubled.
</details>
<details><summary>Held-out accuracy is 97.5 %. You try fifty rates and report the best. Is the number honest?</summary>
No. Choosing by the held-out set is training on it, slowly. Choose on a third set, and look at the test once.
</details>
<details><summary>Is clipping with Adam of any use, if Adam divides by the size of the gradient anyway?</summary>
Yes. One huge gradient enters <code>v</code> with its square and makes the steps of that weight tiny for hundreds of steps. Clipping keeps it out.
</details>
<details><summary>Where does the time of one step go: forward, backward, optimizer?</summary>
Module 14 measures it. Write down a guess now.
</details>

`tito test training` checks the module; `tito export training` puts what you wrote into the package, and later modules run on your code. Next: Module 08, where the batches come from.
"""
