# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 07 · Training

Tier: Foundation · Difficulty 2 of 4 · About 3 hours · Needs 01 to 06 (`tito test tensor`, `tito test activations`, `tito test layers`,
`tito test losses`, `tito test autograd`, `tito test optimizers`)

Layers, loss, gradients, optimizer: all parts lie on the table. This module puts them into a loop. The loop is six lines long, and nearly every line has a
classic mistake that raises no error: training goes on, only worse. You will meet each of them, with the number it produces.

**Build** the step, an honest evaluation, a schedule, clipping, the `Trainer`, checkpoints → **use** them to teach a network to read handwritten
digits, in a second or three, and to stop in the middle and go on → **reflect** on what the two curves of training say.

When you are done you can
1. put the parts of a training step in the right order, and say what goes wrong in the others;
2. evaluate without touching the model, and average over batches of different size;
3. lower the rate along a half cosine, and clip gradients by their joint length without changing their direction;
4. train a network on real data and read its curves;
5. save a run and go on later, so that nobody can tell from the numbers that it ever stopped.

| Yours | Given and explained |
|---|---|
| the step, the evaluation, the schedule, the clipping | switching a model's mode and back, reading a loader |
| the trainer's loop | its books: counts, sums, the records that it hands out |
| what belongs to the state of a run, and putting it back | section 7, to be skipped on first reading: the file around that state, the checks before loading, the progress bar |

A cell you have not filled says which one it is: `fresh_gradients: section 1, cell 2` is the function `fresh_gradients` in the second code cell of section 1.
"""

# %%
#| default_exp core.training

# %%
#| export
import json
import os
import shutil
import sys
from contextlib import contextmanager, suppress
from copy import deepcopy
from datetime import timedelta
from itertools import islice
from math import cos, isfinite, pi
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import default_generator, parts, positive
from tinytorch.core.optimizers import nonnegative, parameter_list
from tinytorch.core.tensor import Tensor, scope, sqrt

# %% [markdown]
"""
## 1. One step

**Question.** Four verbs: *forget* the old gradients, *forward*, *backward*, *step*. In how many orders can they be put, and how many are right?

They go round in a circle, so let each order begin with *forget*; six are left. No model is needed to try them all: a weight on a slope, in plain numbers. *forward* notes where the weight is, *backward* adds the slope at the noted
place to the gradient, *step* walks against the gradient, *forget* sets it to zero. The best weight is 2.
"""

# %%
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

# %% nbgrader={"grade": false, "grade_id": "fresh-gradients", "solution": true}
#| export
def fresh_gradients(model, optimizer, loss_fn, x, y):
    """Give every parameter the gradient of this batch alone and return the loss, a float; no step is taken.

    Raises ``ValueError`` when the loss is not finite, before anything flows back.
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    value = loss.item()
    if not isfinite(value):
        raise ValueError(f"the loss is {value}; look at the data, then try a lower rate. No step was taken")
    loss.backward()
    return value
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-fresh-gradients", "points": 14, "skill": "step"}
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
**What if** a batch is too large for the memory? Then it goes through in pieces, whose gradients add up because nobody forgets in between. Guess which of the two sums is the gradient of the whole batch:
"""

# %%
x, y = Tensor([[1.0], [3.0], [2.0], [4.0]]), Tensor([[0.0]] * 4)
model, optimizer = one_weight(2.0)
fresh_gradients(model, optimizer, MSELoss(), x, y)
print("the whole batch of four:                ", model.weight.grad.item())
for name, share in (("two halves, added up:                   ", 1.0), ("two halves, each loss multiplied by 2/4:", 2 / 4)):
    optimizer.zero_grad()
    for half in (slice(0, 2), slice(2, 4)):
        (MSELoss()(model(x[half]), y[half]) * share).backward()
    print(name, model.weight.grad.item())

# %% [markdown]
"""
Each loss is already a mean. The sum of two means is twice the mean over everything, so the rate has secretly doubled, and nothing complains. Each piece counts with its share of the targets.

**What it means for a real model.** The largest training runs are watched for exactly this: a loss that jumps or turns NaN stops the run, and it goes on from an earlier checkpoint.

## 2. How good is it?

**Question.** Two batches: three examples with a loss of 1 each, and a last one, alone, with a loss of 25. What is the average loss?
"""

# %%
print("average of the batch averages:", (1 + 25) / 2)
print("average over the examples:    ", (3 * 1 + 1 * 25) / 4)

# %% [markdown]
"""
The last batch of a data set is usually a small one, so the first answer is usually wrong. Weigh every batch with its number of targets.

An evaluation must also leave no trace. It runs in evaluation mode (dropout off) and under `no_grad()` (nothing is remembered, so it needs far less memory). Afterwards every layer is in the mode it had before: some may have been in
evaluation mode on purpose. Given: `in_mode(model, training)` for a `with` block, and the walk through everything inside an object that it needs (section 7 needs it, too).
"""

# %%
#| export
def reachable(thing, wanted):
    """Return {path: object} for all objects inside ``thing`` that ``wanted`` is true for, each once; cycles allowed."""
    found, seen, todo = {}, {}, [("", thing)]
    while todo:
        path, value = todo.pop()
        if id(value) in seen or isinstance(value, (int, float, str, bytes)):
            continue
        seen[id(value)] = value
        if wanted(value):
            while path in found:
                path += "'"
            found[path] = value
        todo += [(f"{path}.{name}" if path else name, one) for name, one in reversed(parts(value))]
    return found

# %%
#| export
@contextmanager
def in_mode(model, training):
    """Put all of ``model`` in training mode (False: evaluation mode) inside the block, then back as it was."""
    def switchable(one):
        return hasattr(one, "training") and hasattr(one, "__dict__") and not isinstance(one, type)

    before = [(one, vars(one).get("training")) for one in reachable(model, switchable).values()]
    try:
        for one, _ in before:
            if one.training != training:  # what is right already is left alone: other threads may be reading it
                one.training = training
        yield
    finally:
        for one, mode in before:
            if mode is None:  # it had the flag from its class
                vars(one).pop("training", None)
            else:
                one.training = mode

# %% [markdown]
"""
Two more given pieces. `pairs(loader)` reads a *loader*: anything that can be looped over and yields pairs (inputs, targets); a list of pairs will do, and Module 08 builds a better one. (Its second argument is for section 8: a run that goes on in the
middle of an epoch passes over the batches it had.) `right_answers` counts where the largest score is at the target class; for targets that are no classes it answers `None`.
"""

# %%
#| export
def pairs(loader, done=0):
    """Yield the batches of ``loader`` as (inputs, targets), both Tensors; ``ValueError`` when there are none.

    The first ``done`` are passed over; a loader with an attribute ``first_batch`` need not even fetch them.
    """
    count, skip = done, done
    if done and hasattr(loader, "first_batch"):
        loader.first_batch, skip = done, 0
    for batch in islice(loader, skip, None):
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise TypeError(f"the loader gave a {type(batch).__name__}; want pairs (inputs, targets)")
        count += 1
        yield tuple(part if isinstance(part, Tensor) else Tensor(part) for part in batch)
    if not count:
        raise ValueError("the loader gave no batch; is the dataset empty, or an iterator that was read before?")

# %%
#| export
def right_answers(output, y):
    """Return how many targets have the largest score, or None without class numbers: output (..., C), y (...)."""
    if y.dtype.kind not in "iu" or output.ndim != y.ndim + 1:
        return None
    return (output.argmax(axis=-1) == y).sum().item()

# %%
#| export
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

# %% nbgrader={"grade": false, "grade_id": "evaluate", "solution": true}
#| export
def evaluate(model, loss_fn, loader):
    """Return mean loss and accuracy over all targets, in evaluation mode and without a graph; leave no trace."""
    ### BEGIN SOLUTION
    total, count, right = 0.0, 0, 0
    with in_mode(model, False), no_grad():
        for x, y in pairs(loader):
            output = model(x)
            answers = right_answers(output, y)
            total, count = total + loss_fn(output, y).item() * y.size, count + y.size
            right = None if answers is None else right + answers
    return Evaluation(total / count, None if right is None else right / count)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-evaluate", "points": 16, "skill": "evaluation"}
from tinytorch.core.layers import Dropout, Sequential
from tinytorch.core.losses import CrossEntropyLoss


def test_evaluate():
    """Weighted averages, mode, no graph, no trace."""
    as_it_is = Sequential()
    uneven = [(Tensor([[1.0], [1.0], [1.0]]), Tensor([[0.0]] * 3)), (Tensor([[5.0]]), Tensor([[0.0]]))]
    found = evaluate(as_it_is, MSELoss(), uneven)
    check("losses 1, 1, 1 and 25", found.loss, 7.0, {13.0: "batches of different size count the same", 28.0: "not divided by the number of targets"})
    check("no classes, no accuracy", found.accuracy, None)
    rows = [(Tensor([[1.0, 1.0]]), Tensor([[0.0, 0.0]])), (Tensor([[2.0]]), Tensor([[0.0]]))]
    check("one row of two targets, one row of one", evaluate(as_it_is, MSELoss(), rows).loss, 2.0, {2.5: "rows were counted; count targets, y.size"})
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
    check("modes as before", [one.training for one in (model, *model.layers)], [True, True, True, False], {
        (True,) * 4: "a layer that was in evaluation mode is so no more", (False,) * 4: "the model is still in evaluation mode: in_mode(model, False) puts it back"})
    check("no gradients were made", [p.grad is None for p in model.parameters()], [True, True])
    check_raises("an empty loader", ValueError, lambda: evaluate(model, MSELoss(), []), must_say="no batch")


test_evaluate()

# %% [markdown]
"""
**What if** dropout stays on while you evaluate? Then the model does not even agree with itself:
"""

# %%
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

# %% nbgrader={"grade": false, "grade_id": "cosine-schedule", "solution": true}
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
        ### BEGIN SOLUTION
        share = min(step / self.total_steps, 1.0)
        return self.min_lr + (self.max_lr - self.min_lr) * (1 + cos(pi * share)) / 2
        ### END SOLUTION

# %%
schedule = CosineSchedule(0.1, 0.01, 20)
for step in range(0, 24, 2):
    print(f"step {step:2}: {schedule(step):.4f} {'▪' * round(400 * schedule(step))}")

# %% nbgrader={"grade": true, "grade_id": "test-cosine-schedule", "points": 10, "skill": "schedule"}
def test_cosine_schedule():
    """Both ends, the middle, a quarter, after the end."""
    schedule = CosineSchedule(0.1, 0.01, 8)
    check("step 0", schedule(0), 0.1, {0.01: "it begins at the low end", 0.09: "min_lr was not added", 0.19: "the half is missing"})
    check("half way", schedule(4), 0.055, {0.05: "min_lr is ignored", 0.01: "a whole cosine; half of one is wanted"})
    check("a quarter of the way", schedule(2), 0.0868198, {0.0775: "a straight line, not a cosine"}, rtol=1e-5)
    check("step 8", schedule(8), 0.01)
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

# %% nbgrader={"grade": false, "grade_id": "clip-grad-norm", "solution": true}
#| export
def grad_norm(params):
    """Return the length of all gradients taken together, a float: the root of the sum of all squares, in float64."""
    with no_grad(), scope("clip"):
        ### BEGIN SOLUTION
        grads = [p.grad.astype(np.float64) for p in params if p.grad is not None]
        return sqrt(sum(((g * g).sum() for g in grads), Tensor(0.0, dtype=np.float64))).item()
        ### END SOLUTION


def clip_grad_norm(params, max_norm):
    """Scale all gradients by one number so that together they are at most ``max_norm`` long; return the length before.

    The scaling is heard in ``scope("clip")`` and not remembered. Raises ``ValueError`` for a length that is not finite;
    the gradients are then untouched.
    """
    params = parameter_list(params)
    if not nonnegative("max_norm", max_norm):
        raise ValueError("max_norm is 0; want a number above 0")
    ### BEGIN SOLUTION
    norm = grad_norm(params)
    if not isfinite(norm):
        raise ValueError(f"clip_grad_norm: the norm is {norm}; a gradient is not finite, look at the loss and the rate")
    if norm > max_norm:
        with no_grad(), scope("clip"):
            for p in params:
                if p.grad is not None:
                    p.grad = p.grad * (max_norm / norm)
    return norm
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-clip-grad-norm", "points": 14, "skill": "clipping"}
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
    check("clipping returns the norm before", clip_grad_norm(params, 3.25), 13.0, {3.25: "that is the norm after"})
    check("all became a quarter", [p.grad.data.tolist() for p in params[:2]], ([0.75, 1.0], [3.0]), {
        ((1.95, 2.6), (3.25,)): "each was clipped on its own: the direction changed", ((3.0, 3.25), (3.25,)): "every number was cut off by itself: the direction changed",
        ((3.0, 4.0), (12.0,)): "nothing was clipped"}, rtol=1e-5)
    shouting, events = with_gradients([30.0, 40.0]), []
    with listen(events.append):
        grad_norm(shouting)
        quiet = len(events)
        clip_grad_norm(shouting, 1.0)
    scopes = sorted({event.scope[-1].name if event.scope else "no scope" for event in events})
    check("heard in scope", scopes, ["clip"], {("clip", "no scope"): "the scaling stands outside of scope(\"clip\")"})
    check("and the scaling is among what is heard", len(events) > 2 * quiet, True, {False: "the arrays were scaled in place, which nobody hears: multiply Tensors"})
    check("no graph grows on the gradients", shouting[0].grad.made_by is None, True)
    check("short enough: left alone", (clip_grad_norm(params, 100.0), params[1].grad.item()), (3.25, 3.0), {(3.25, 92.307693): "short gradients were stretched"}, rtol=1e-5)
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

Only counts and sums: how many steps and epochs, and for the epoch under way how many batches, their losses, their targets. Keeping these books is given, in the class `Run`. Of its methods you need two:

- `with self.epoch_of(loader) as sums:` opens an epoch and hands you its books, a dict: `sums["batches"]`, `sums["loss"]` and `sums["targets"]`. All three are 0, unless the run goes on in the middle of an epoch (section 8).
- `self.report(x, loader, loss, norm)` makes the record `Progress` for a callback, from the sums as they are.
"""

# %%
#| export
class Progress(NamedTuple):
    """What ``on_batch`` hears after a batch; ``batches`` is the loader's length, or None when it has none."""

    epoch: int  # so many are done; the first is epoch 0
    batch: int
    batches: int | None
    steps: int
    loss: float
    lr: float
    grad_norm: float | None
    mean_loss: float  # of this epoch so far, over its targets
    samples: int  # in this batch
    epochs: int | None  # at the end of this ``fit``; None outside of one

# %%
#| export
class Run:
    """A training run's parts and books; what it does with them stands in ``Trainer``."""

    def __init__(self, model, optimizer, loss_fn, scheduler=None, grad_clip_norm=None):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        for name, given in (("model", model), ("loss_fn", loss_fn), ("scheduler", scheduler)):
            if not callable(given) and not (name == "scheduler" and given is None):
                raise TypeError(f"Trainer: {name} is a {type(given).__name__}; want something to call")
        if not all(hasattr(optimizer, name) for name in ("params", "zero_grad", "step")):
            raise TypeError(f"Trainer: optimizer is a {type(optimizer).__name__}; want one such as SGD or Adam")
        if grad_clip_norm is not None and nonnegative("grad_clip_norm", grad_clip_norm) == 0:
            raise ValueError("Trainer: grad_clip_norm is 0; want a number above 0, or None for no clipping")
        self.scheduler, self.grad_clip_norm = scheduler, grad_clip_norm
        self.steps, self.epochs, self.goal = 0, 0, None
        self.sums = self.begun = None  # the books of the epoch under way; those that this object opened itself
        self.history = {"loss": [], "lr": [], "validation_loss": [], "validation_accuracy": []}

    @contextmanager
    def epoch_of(self, loader):
        """Hand out the books of the epoch that begins, or that a checkpoint was written in; then close them."""
        if self.sums is None or self.sums is self.begun:  # what is left of an epoch that broke off here is forgotten
            self.sums = {"batches": 0, "loss": 0.0, "targets": 0}
        self.sums["loader_epoch"], self.begun = getattr(loader, "epoch", None), self.sums
        yield self.sums
        self.sums = None

    def report(self, x, loader, loss, norm):
        """Return the record for the callback."""
        sums, batches = self.sums, len(loader) if hasattr(loader, "__len__") else None
        return Progress(self.epochs, sums["batches"] - 1, batches, self.steps, loss, self.optimizer.lr, norm,
                        sums["loss"] / max(sums["targets"], 1), x.shape[0] if x.shape else 1, self.goal)

    def evaluate(self, loader):
        """Return mean loss and accuracy, see ``evaluate``."""
        return evaluate(self.model, self.loss_fn, loader)

    def save_checkpoint(self, path, loader=None):
        """Write everything that the run needs to go on, see ``save_checkpoint``."""
        save_checkpoint(path, self, loader)

    def load_checkpoint(self, path, loader=None):
        """Go back to what a checkpoint holds, see ``load_checkpoint``."""
        load_checkpoint(path, self, loader)

# %% [markdown]
"""
**Task.** Write two methods of `Trainer`.

- `train_batch(x, y)`, one step: set the optimizer's rate to what the scheduler says for `self.steps` (if there is a scheduler), compute fresh gradients, clip those of `self.optimizer.params` (if `grad_clip_norm` is given), step, count. Return the loss and the norm (`None` when not clipping).
- `train_epoch(loader, on_batch=None)`: with the epoch's books open and in training mode, all batches that are still to do: `pairs(loader, sums["batches"])`. For each, train, then add to the three sums; a batch weighs as much as it has targets, as in `evaluate`.
  Then call `on_batch(self.report(...))`, if there is an `on_batch`. At the end, when the books are closed, count the epoch and return the mean loss over its targets.

The trainer prints nothing by itself. Who wants a progress bar hands in a callback (section 9).

<details><summary>Hint 1: idea</summary>
<code>train_batch</code> is five lines, one per verb. <code>train_epoch</code> is <code>evaluate</code> with another middle.
</details>
<details><summary>Hint 2: approach</summary>
<code>with self.epoch_of(loader) as sums, in_mode(self.model, True):</code> and inside <code>for x, y in pairs(loader, sums["batches"]):</code>. The dict is still yours after the block: only the trainer has let go of it.
</details>
<details><summary>Hint 3: worked example, something else</summary>
A rate from a schedule: <code>optimizer.lr = float(schedule(steps))</code>, <em>before</em> the step, so that step 0 uses <code>schedule(0)</code>. Sums in a dict: <code>sums["words"] += len(line.split())</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "trainer", "solution": true}
#| export
class Trainer(Run):
    """The training loop: ``Trainer(model, optimizer, loss_fn).fit(loader, epochs)``; it prints nothing by itself.

    ``scheduler`` maps the step number to a rate, ``grad_clip_norm`` limits the gradient's length. ``steps`` and
    ``epochs`` count what was done; ``history`` has one entry per epoch of ``fit`` under each of its names.
    """

    def train_batch(self, x, y):
        """Take one step; return the loss before it and the gradient's norm (None without clipping)."""
        ### BEGIN SOLUTION
        if self.scheduler is not None:
            self.optimizer.lr = float(self.scheduler(self.steps))
        loss = fresh_gradients(self.model, self.optimizer, self.loss_fn, x, y)
        clip = self.grad_clip_norm
        norm = None if clip is None else clip_grad_norm(self.optimizer.params, clip)
        self.optimizer.step()
        self.steps += 1
        return loss, norm
        ### END SOLUTION

    def train_epoch(self, loader, on_batch=None):
        """Train on every batch once, in training mode; return the mean loss, taken before each step."""
        ### BEGIN SOLUTION
        with self.epoch_of(loader) as sums, in_mode(self.model, True):
            for x, y in pairs(loader, sums["batches"]):
                loss, norm = self.train_batch(x, y)
                sums["batches"] += 1
                sums["loss"] += loss * y.size
                sums["targets"] += y.size
                if on_batch is not None:
                    on_batch(self.report(x, loader, loss, norm))
        self.epochs += 1
        return sums["loss"] / sums["targets"]
        ### END SOLUTION

    def fit(self, loader, epochs, on_batch=None, *, validation=None, progress=False, checkpoint=None):
        """Train for so many epochs (more), evaluating on ``validation``, a loader, after each; return the history.

        ``progress=True`` shows a ``ProgressBar``, or give one of your own. ``checkpoint``, a path, is written after
        every epoch. A run of ten epochs goes on after ``load_checkpoint`` with ``fit(loader, 10 - trainer.epochs)``.
        """
        bar = ProgressBar() if progress is True else progress or None
        if bar is not None and not isinstance(bar, ProgressBar):
            raise TypeError(f"fit: progress is a {type(bar).__name__}; want True, False or a ProgressBar")
        path = None if checkpoint is None else file_for(checkpoint)
        calls = [one for one in (bar, on_batch) if one is not None]
        self.goal = self.epochs + positive("epochs", epochs)

        def hear(done):
            for call in calls:
                call(done)

        try:
            for _ in range(self.epochs, self.goal):
                if bar is not None:
                    bar.close()  # the clock of the epoch starts now
                loss = self.train_epoch(loader, hear if calls else None)
                found = Evaluation(None, None)
                try:
                    found = found if validation is None else self.evaluate(validation)
                finally:  # the epoch was trained, whatever becomes of its evaluation
                    for name, value in zip(self.history, (loss, self.optimizer.lr, found.loss, found.accuracy)):
                        self.history[name].append(value)
                if path is not None:
                    self.save_checkpoint(path, loader)
        finally:
            self.goal = None
            if bar is not None:
                bar.close()
        return self.history

# %% nbgrader={"grade": true, "grade_id": "test-trainer", "points": 16, "skill": "loop"}
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
    check("clipped to 0.5: the losses of the first epoch", [p.loss for p in heard[:2]], [20.0, 1.95**2], {
        (20.0, 0.0): "the step was taken with a gradient that was not clipped"}, rtol=1e-5)
    check("its mean, over three targets", history["loss"][0], (2 * 20.0 + 1.95**2) / 3, {
        (20.0 + 1.95**2) / 2: "batches of different size count the same", (20.0 + 1.95**2) / 3: "a loss is already a mean: multiply it by its number of targets",
        (2 * 20.0 + 1.95**2) / 2: "divided by the batches, not by the targets"}, rtol=1e-5)
    check("places", [(p.epoch, p.batch, p.batches, p.steps) for p in heard], [(0, 0, 2, 1), (0, 1, 2, 2), (1, 0, 2, 3), (1, 1, 2, 4)], {
        ((0, 0, 2, 1), (0, 1, 2, 2), (0, 0, 2, 3), (0, 1, 2, 4)): "the epoch was not counted",
        ((0, -1, 2, 1), (0, 0, 2, 2), (1, -1, 2, 3), (1, 0, 2, 4)): "the sums must be right before the callback hears of the batch"})
    check("in training mode, and back", (modes, model.training), ([True] * 4, False), {
        ((False,) * 4, False): "the mode was left as it came: in_mode(self.model, True)", ((True,) * 4, True): "the mode was not put back"})
    model, optimizer = one_weight(2.0)
    trainer, heard = Trainer(model, optimizer, MSELoss()), []
    trainer.sums = {"batches": 1, "loss": 40.0, "targets": 2, "loader_epoch": None}  # as if it had stopped after batch 0
    mean = trainer.train_epoch(batches, heard.append)
    check("going on in the middle of an epoch: the batches trained", [p.batch for p in heard], [1], {(1, 2): "batch 0 was trained again: pass over the batches that are done"})
    check("its mean, over the targets of both batches", mean, (40.0 + 4.0) / 3, {4.0: "the sums began at 0 again", 22.0: "batches count, not targets"}, rtol=1e-5)
    check("the books are closed", trainer.sums, None)
    model, optimizer = one_weight(2.0, lr=0.0)
    rows = [(Tensor([[[1.0], [1.0]]]), Tensor([[[0.0], [0.0]]])), (Tensor([[3.0]]), Tensor([[0.0]]))]
    mean = Trainer(lambda x: model(x), optimizer, MSELoss(), grad_clip_norm=1.0).train_epoch(rows)  # a model may be any function
    check("one row of two targets, one row of one: losses 4 and 36", mean, (2 * 4 + 36) / 3, {20.0: "rows were counted; count targets, y.size"}, rtol=1e-5)


test_trainer()

# %% [markdown]
"""
## 6. It reads

**Question.** How long does it take to teach a network of 2,410 numbers to read handwritten digits? Write down a time and an accuracy.

The data is real: 1,797 pictures of 8 by 8 pixels, shipped with the package (Module 08 tells where they come from and what a fair split is). 355 of them, drawn at random, are held out. The next cell trains your trainer on the rest. It
is graded, so it begins with its own ingredients.
"""

# %% nbgrader={"grade": true, "grade_id": "test-digits", "points": 6, "skill": "digits"}
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
train, test = digit_batches()
trainer = digits_trainer(train, epochs=15)
history = trainer.fit(train, 15, validation=test)
print("epoch    rate    loss: training  held-out    held-out accuracy")
for i, (loss, rate, held, accuracy) in enumerate(zip(*history.values())):
    if i in (0, 1, 2, 4, 9, 14):
        print(f"{i + 1:5}  {rate:.4f}  {loss:14.3f}  {held:8.3f}  {accuracy:19.1%}")

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for name, label, colour in (("loss", "training pictures", "#0072B2"), ("validation_loss", "held-out pictures", "#D55E00")):
    left.semilogy(range(1, 16), history[name], "o-", color=colour, markersize=3, label=label)
left.set(title="loss, on a logarithmic scale", xlabel="epoch")
left.legend(frameon=False)
right.plot(range(1, 16), history["lr"], "o-", color="#009E73", markersize=3)
_ = right.set(title="the rate at the end of the epoch", xlabel="epoch")

# %% [markdown]
"""
In the first epochs the held-out curve is *lower*. Is the network better on pictures that it has never seen? No: the training loss of an epoch is averaged while the weights are still improving, the held-out loss is measured at its end. Later the gap
turns round, and stays: that is what the network knows by heart.

Which of the pictures does it get wrong?
"""

# %%
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
## 7. The engine room: given, skip on first reading

Nothing here is yours to write, and nothing needs to be understood before section 8. Run the cells, go on there, and come back when you want to know how a file is kept safe. Three groups:

| group | functions | what they promise |
|---|---|---|
| finding what training changes | `arrays_of`, `generators_of`, `settings_of`, `place_of` | they hand out the live objects; section 8 uses them by name |
| a file | `packed`, `unpacked`, `file_for`, `save_checkpoint`, `read_state`, `form_of`, `check_fits`, `load_checkpoint` | data only, no code; whole or not at all; a file that does not fit changes nothing |
| a progress bar | `progress_line`, `ProgressBar` | in a terminal one line moves; in a file, a pipe or a notebook every finished epoch is one line |
"""

# %%
#| export
def arrays_of(trainer):
    """Return {name: array}, not copied, of all parameters and buffers that training can change."""
    optimizer = {name: value for name, value in vars(trainer.optimizer).items() if name != "state"}
    inside, found = {"model": trainer.model, "loss_fn": trainer.loss_fn, "optimizer": optimizer}, {}
    for name, one in reachable(inside, lambda one: isinstance(one, (Tensor, np.ndarray))).items():
        array = one.data if isinstance(one, Tensor) else one
        if array.flags.writeable:
            found[name] = array
        elif isinstance(one, Tensor) and one.requires_grad:
            raise ValueError(f"{name} is read-only; was the model built under shape_only()?")
    return found

# %%
#| export
def generators_of(trainer, loader=None):
    """Return {name: generator} of all NumPy generators that training draws from, the default one included."""
    inside = {name: getattr(trainer, name) for name in ("model", "loss_fn", "optimizer", "scheduler")}
    found = reachable({**inside, "loader": loader}, lambda one: isinstance(one, np.random.Generator))
    return {"default": default_generator(), **found}

# %%
#| export
def settings_of(optimizer):
    """Return {name: value} of an optimizer's plain attributes: ``lr``, ``momentum``, ``betas`` and so on."""
    def plain(value):
        if isinstance(value, (tuple, list)):
            return all(map(plain, value))
        return value is None or isinstance(value, (int, float, str, np.generic))

    return {name: value for name, value in vars(optimizer).items() if plain(value)}

# %%
#| export
def place_of(trainer, loader=None):
    """Return a loader's place (to be set again) and recipe (to be compared), or None without a loader."""
    if loader is None:
        return None
    place = {name: getattr(loader, name) for name in ("epoch", "seed") if hasattr(loader, name)}
    if "epoch" in place and trainer.sums is not None and trainer.sums["loader_epoch"] is not None:
        place["epoch"] = trainer.sums["loader_epoch"]  # the epoch under way is the one to begin again
    recipe = {name: getattr(loader, name) for name in ("batch_size", "shuffle", "drop_last") if hasattr(loader, name)}
    return {"place": place, "recipe": {**recipe, "batches": len(loader) if hasattr(loader, "__len__") else None}}

# %% [markdown]
"""
The file is a `.npz`, NumPy's own format: arrays, and one JSON text that says how they belong together. In the text an array is a reference by name.
"""

# %%
#| export
ARRAY, SCALAR, TUPLE = "array()", "scalar()", "tuple()"  # what JSON has not


def packed(value, path, arrays):
    """Return ``value`` as JSON can hold it; its arrays go into the dict ``arrays`` and are referred to by name."""
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        name = path if path.isprintable() and not path.endswith(".npy") else ascii(path)
        while name in arrays:
            name += "'"
        arrays[name] = np.asarray(value)
        return {ARRAY if isinstance(value, np.ndarray) else SCALAR: name}
    if isinstance(value, dict) and all(isinstance(key, str) and not key.endswith("()") for key in value):
        return {key: packed(inner, f"{path}/{key}".lstrip("/"), arrays) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        items = [packed(inner, f"{path}/{i}", arrays) for i, inner in enumerate(value)]
        return items if isinstance(value, list) else {TUPLE: items}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"save_checkpoint: {path} is a {type(value).__name__}; want numbers, text, arrays of these "
                    "(not of Python objects), lists, and dicts with text as keys")

# %%
#| export
def unpacked(text, arrays):
    """Return what ``packed`` was given, from its JSON text."""
    def look(found):  # JSON hands over each dict, the innermost first
        kind, inner = next(iter(found.items()), (None, None))
        if kind in (ARRAY, SCALAR):
            return arrays[inner] if kind == ARRAY else arrays[inner][()]
        return tuple(inner) if kind == TUPLE else found

    return json.loads(text, object_hook=look)

# %% [markdown]
"""
Writing over the old checkpoint would be a mistake: if the power fails half way, neither the old nor the new one is left. So a file beside it is written and then renamed, which the file system does in one piece or not at all.
"""

# %%
#| export
FORMAT, VERSION = "tinytorch checkpoint", 1


def file_for(path):
    """Return the file that is written for ``path``: that one, or what it links to; ``OSError`` without its folder."""
    target = Path(os.path.realpath(os.fsdecode(path)))
    if target.is_dir():
        raise IsADirectoryError(f"save_checkpoint: {target} is a folder; want the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save_checkpoint: there is no folder {target.parent}; make it first")
    return target

# %%
#| export
def save_checkpoint(path, trainer, loader=None):
    """Write everything that a run needs to go on to the file ``path``; with ``loader``, its place as well.

    Going on is exact, bit for bit, from the end of an epoch and from inside ``on_batch`` (a loader without an attribute
    ``first_batch`` is then read again up to there, so reading must not draw random numbers). An old file of that name
    stays whole until the new one is.
    """
    target, arrays = file_for(path), {}
    state = packed(training_state(trainer, loader), "", arrays)
    text = json.dumps({"format": FORMAT, "version": VERSION, "state": state, "order": order_of(trainer)})
    part = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:  # a file of this call's own, whoever else writes here
            np.savez(file, json=np.array(text), **arrays)
            file.flush()
            os.fsync(file.fileno())  # on the disk, not only on its way there
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)

# %%
#| export
def read_state(path):
    """Return (state, names in the optimizer's order) from a file; ``ValueError`` if it is no checkpoint.

    Nothing in the file is ever run.
    """
    with open(os.fsdecode(path), "rb") as file:
        try:
            if file.read(4) != b"PK\x03\x04":
                raise ValueError("it is no .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            whole = unpacked(str(arrays.get("json", "{}")), arrays)
            if (whole.get("format"), whole.get("version")) != (FORMAT, VERSION):
                raise ValueError(f"its format is {whole.get('format')}, version {whole.get('version')}; "
                                 f"this program reads {FORMAT}, version {VERSION}")
            return whole["state"], whole["order"]
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            reason = "it holds pickled objects, and reading those would run them" if "pickle" in reason else reason
            raise ValueError(f"load_checkpoint: {file.name} cannot be read as a checkpoint: {reason}") from error

# %% [markdown]
"""
And a state must *fit*. Half of it restored would be worse than either run, so the form of both states is compared before anything is changed: names, shapes, dtypes, the kind of optimizer, the loader's recipe. What goes wrong all the same, later, is taken back.
"""

# %%
#| export
SUMS, HISTORY = ("batches", "loader_epoch", "loss", "targets"), ("loss", "lr", "validation_loss", "validation_accuracy")


def form_of(state):
    """Return {what: form} of all that two runs must have in common for one to go on as the other."""
    loader = state["loader"] or {"place": {}, "recipe": {}}
    memory = sum(isinstance(memory, dict) for memory in state["memory"])
    return {
        "the loader": "missing" if state["loader"] is None else "given",
        **{f"{name} of the loader": value for name, value in loader["recipe"].items()},
        **{f"the loader's {name}": "known" for name in loader["place"]},
        **{f"array {name}": f"{array.shape} {array.dtype}" for name, array in state["arrays"].items()},
        "the optimizer": f"{state['kind']} of {memory} parameters",
        **{f"the optimizer's {name}": "known" for name in state["settings"]},
        **{f"random generator {name}": inside["bit_generator"] for name, inside in state["generators"].items()},
        **{f"the number of {name}": type(state[name]).__name__ for name in ("steps", "epochs")},
        **{f"the history of {name}": type(state["history"][name]).__name__ for name in HISTORY},
        "the books of an epoch": sorted(SUMS if state["sums"] is None else state["sums"]),
    }

# %%
#| export
def order_of(trainer):
    """Return the names of the optimizer's parameters in its order: what it remembers goes by number."""
    names = {id(one): name for name, one in reachable(trainer.model, lambda one: isinstance(one, Tensor)).items()}
    return [names.get(id(p), "not in the model") for p in trainer.optimizer.params]


def check_memory(trainer, state, order):
    """Raise ``ValueError`` unless what an optimizer remembers belongs to these parameters, and its rate is one."""
    nonnegative("lr", state["settings"]["lr"])
    for ours, theirs in zip(order_of(trainer), order):
        if ours != theirs:
            raise ValueError(f"where the optimizer has {ours} here, it has {theirs} in the checkpoint; "
                             "want the parameters in the same order")
    for name, p, memory in zip(order, trainer.optimizer.params, state["memory"]):
        for what, value in memory.items():
            if isinstance(value, np.ndarray) and (value.shape, value.dtype.kind) != (p.shape, "f"):
                raise ValueError(f"the optimizer's {what} of {name} is {value.shape} {value.dtype}, want {p.shape}")


def check_fits(here, there):
    """Raise ``ValueError``, one sentence, with the first thing in which the forms of two states differ."""
    ours, theirs = form_of(here), form_of(there)
    for name in [*ours, *theirs]:
        a, b = ours.get(name, "missing"), theirs.get(name, "missing")
        if a != b:
            raise ValueError(f"{name} is {a} here, {b} in the checkpoint; want the same model, optimizer and loader")

# %%
#| export
def load_checkpoint(path, trainer, loader=None):
    """Put a trainer, made in the same way as the saved one, and its loader to where ``save_checkpoint`` was called.

    A run that was saved with its loader is loaded with one. Raises ``ValueError``, in one sentence, for a file that
    cannot be read or does not fit; nothing is changed then.
    """
    (state, order), before, sums = read_state(path), training_state(trainer, loader), trainer.sums
    try:
        check_fits(before, state)
        check_memory(trainer, state, order)
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"it is damaged: {error!r}"
        raise ValueError(f"load_checkpoint: {os.fsdecode(path)}: {' '.join(reason.split())}") from error
    try:
        restore_state(trainer, state, loader)
    except Exception as error:  # the damage lies deeper: what was done is taken back
        restore_state(trainer, before, loader)
        trainer.sums = sums  # the very same object: an epoch that broke off here is known by it
        raise ValueError(f"load_checkpoint: {os.fsdecode(path)}: it is damaged: {error!r}") from error

# %% [markdown]
"""
A progress bar is a callback that draws.
"""

# %%
#| export
def progress_line(progress, heard, samples, seconds, finished, width=None):
    """Return one line about an epoch, of which ``heard`` batches with ``samples`` took so many ``seconds``.

    With a ``width`` it has a bar and at most so many letters; the least needed is left out first.
    """
    count, total, loss = progress.batch + 1, progress.batches, progress.mean_loss
    parts = [f"epoch {progress.epoch + 1}" + (f"/{progress.epochs}" if progress.epochs else ""),
             f"{count}/{total}" if total else f"{count} batches",
             f"loss {loss:.4f}" if 1e-3 <= loss < 1e4 else f"loss {loss:.3g}"]
    if finished:
        parts.append(f"{seconds:.2f} s")
    elif total:
        parts.append(f"{timedelta(seconds=int(seconds / heard * (total - count)))} left")
    if seconds > 0:
        parts.append(f"{samples / seconds:,.0f} samples/s")
    if width is None:
        return "  ".join(parts)
    while len(parts) > 1 and len("  ".join(parts)) > width:
        parts.pop()
    space = min(width - len("  ".join(parts)) - 4, 30)
    if total and space >= 5:
        done = min(space * count // total, space)
        parts.insert(1, f"[{'#' * done}{'-' * (space - done)}]")
    return "  ".join(parts)[:width]

# %%
#| export
class ProgressBar:
    """What ``fit(..., progress=True)`` shows: a line that moves in a terminal, elsewhere one line per finished epoch.

    It is a callback, too: ``fit(loader, 5, on_batch=ProgressBar())``. ``clock`` returns seconds; ``stream`` is where
    it writes (None: the standard output of the moment), ``width`` how wide a terminal is (None: as it says).
    """

    def __init__(self, stream=None, clock=perf_counter, width=None):
        self.stream, self.clock, self.width, self.last = stream, clock, width, None
        self.close()

    def close(self):
        """End the line of the epoch under way, if there is one, and start the clock of the next."""
        if self.last is not None:
            self.write(finished=True)
        self.start, self.drawn, self.last, self.heard, self.samples = self.clock(), None, None, 0, 0

    def __call__(self, progress):
        """Hear of a batch, as ``on_batch``."""
        if self.last is not None and progress.epoch != self.last.epoch:
            self.close()
        self.last, self.heard, self.samples = progress, self.heard + 1, self.samples + progress.samples
        self.now = self.clock()
        if progress.batch + 1 == progress.batches:
            self.close()
        elif self.drawn is None or self.now - self.drawn >= 0.1:  # ten times a second is enough for an eye
            self.drawn = self.now
            self.write(finished=False)

    def write(self, finished):
        """Draw the line; where nothing moves, only a finished one."""
        stream = sys.stdout if self.stream is None else self.stream
        if stream is None or getattr(stream, "closed", False):
            return
        moves, room = getattr(stream, "isatty", bool)(), None
        if not (moves or finished):
            return
        if moves:  # the last column stays free: a full line would begin the next one
            room = max((self.width or shutil.get_terminal_size().columns) - 1, 1)
        line = progress_line(self.last, self.heard, self.samples, self.now - self.start, finished, room)
        with suppress(OSError, ValueError):  # closed, or nobody reads: no reason to stop training
            stream.write(("\r" + line.ljust(room) if moves else line) + ("\n" if finished else ""))
            stream.flush()

# %% [markdown]
"""
## 8. Stop, and go on

**Question.** The power fails after epoch 2 of 4. You had saved the weights. What else is gone?

Say a number first: of how many kinds of things must a run keep a copy, to go on as if nothing had happened? Then watch a run that has only its weights:
"""

# %%
def losses_of(trainer, loader, epochs):
    """Train so many epochs; return the loss of every batch."""
    losses = []
    trainer.fit(loader, epochs, lambda progress: losses.append(progress.loss))
    return losses


train, test = digit_batches()
whole = digits_trainer(train, epochs=4, lr=0.03)
first = losses_of(whole, train, 2)
weights = [p.data.copy() for p in whole.model.parameters()]  # all that was saved
rest = losses_of(whole, train, 2)

again = digits_trainer(train, epochs=4, lr=0.03)
for p, saved in zip(again.model.parameters(), weights):
    p.data[...] = saved
resumed = losses_of(again, train, 2)
print("batches 92 to 98, never stopped:", [round(loss, 3) for loss in rest[:7]])
print("batches 92 to 98, weights alone:", [round(loss, 3) for loss in resumed[:7]])
print(f"the first of them equal: {resumed[0] == rest[0]}; the worst of these, against the run that never stopped: {max(b / a for a, b in zip(rest[:7], resumed)):.1f} times")

figure, axes = plt.subplots(figsize=(10, 3.6), layout="constrained")
for label, colour, losses in (("never stopped", "#0072B2", rest), ("went on from the weights alone", "#D55E00", resumed)):
    axes.plot(range(92, 184), losses, color=colour, alpha=0.25, linewidth=1)
    axes.plot(range(96, 180), np.convolve(losses, np.ones(9) / 9, "valid"), color=colour, label=f"{label} (bold: mean of 9)")
axes.plot(range(92), first, color="#999999", alpha=0.5, linewidth=1)
axes.axvline(92, color="black", linewidth=0.8, linestyle=":")
axes.set(title="loss of every batch, after a power cut at batch 92", xlabel="batch", ylim=(0, 1))
_ = axes.legend(frameon=False)

# %% [markdown]
"""
Surprised? The first loss is the same to the last digit: the weights *are* all there. The next ones are not, and within a few batches one of them is more than three times as large. Two things were lost. Adam's memory: with `m` and `v` at zero its first steps have the full length `lr` again
for every weight (Module 06), however small the gradients are by now. And the step number: the schedule began at its top again.

So we take stock. What does training *change*?

| what changes | where it lies | what happens without it |
|---|---|---|
| parameters, and buffers such as running averages | in the model | you know |
| what the optimizer remembers of each parameter | `optimizer.state` | the bump |
| the optimizer's settings | its `lr`, when somebody lowers it | another rate |
| counts, sums and history | the trainer | another place on the schedule |
| random generators | dropout's, the default one | other masks |
| the loader's place | its `epoch` and `seed` | pictures twice, others never |

The schedule is not in the table. It is a function of the step, so it has nothing to lose.

Four of the functions of section 7 look these things up. They hand out the live objects, not copies:

- `arrays_of(trainer)`: a dict, name → array, of all parameters and buffers (`"model.layers.0.weight"`);
- `generators_of(trainer, loader)`: a dict, name → NumPy generator, of all that model, loss, optimizer and loader hold, and `"default"`. What a generator will draw is decided by its `generator.bit_generator.state`, a dict that can be read and set;
- `settings_of(optimizer)`: a dict, name → number, of its settings (`"lr"` and so on);
- `place_of(trainer, loader)`: `None` without a loader, else a dict of two dicts: `"place"` (attribute → value, what must be set to go on) and `"recipe"` (what must be the same, such as the batch size).
"""

# %%
print(list(arrays_of(whole)))
print(list(generators_of(whole)), settings_of(whole.optimizer), place_of(whole, train))

# %% [markdown]
"""
**Task.** Write `training_state(trainer, loader=None)`. It returns a dict with these ten keys:

| key | value |
|---|---|
| `"arrays"` | what `arrays_of` finds |
| `"memory"` | `optimizer.state`, a list with one dict for each parameter |
| `"kind"` | the name of the optimizer's class, `type(optimizer).__name__` |
| `"settings"` | what `settings_of` finds |
| `"generators"` | for each name that `generators_of(trainer, loader)` finds, the generator's *state* |
| `"steps"`, `"epochs"`, `"history"`, `"sums"` | the trainer's attributes of these names (`sums` is `None` between two epochs) |
| `"loader"` | what `place_of` answers |

It must be a photograph, not a window: when training goes on, the returned state stays as it is, down to the last list inside. (`deepcopy` is imported: it copies a dict with everything in it, arrays too.)

<details><summary>Hint 1: idea</summary>
Write the dict down, then copy it as a whole.
</details>
<details><summary>Hint 2: approach</summary>
Nine of the ten values are one call or one attribute. The generators need a comprehension over <code>.items()</code>, from name and generator to name and <code>generator.bit_generator.state</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>shelf = {"a": [1]}; photo = deepcopy(shelf); window = dict(shelf); shelf["a"].append(2)</code>: the photo still has <code>[1]</code>; the window has <code>[1, 2]</code>, for <code>dict</code> copies only the outermost level.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "training-state", "solution": true}
#| export
def training_state(trainer, loader=None):
    """Return a copy of everything that training has changed so far: a dict of arrays and plain values.

    What is not in it: code, the model's structure, modes, ``requires_grad``, gradients, and random numbers drawn from
    elsewhere than NumPy's ``Generator``.
    """
    ### BEGIN SOLUTION
    return deepcopy({
        "arrays": arrays_of(trainer),
        "memory": trainer.optimizer.state,
        "kind": type(trainer.optimizer).__name__,
        "settings": settings_of(trainer.optimizer),
        "generators": {name: one.bit_generator.state for name, one in generators_of(trainer, loader).items()},
        "steps": trainer.steps, "epochs": trainer.epochs, "history": trainer.history, "sums": trainer.sums,
        "loader": place_of(trainer, loader),
    })
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-training-state", "points": 12, "skill": "checkpoints"}
class Turns:
    """A loader with a place: its batches, each epoch in another order, which (seed, epoch) decides."""

    def __init__(self, batches, seed):
        self.batches, self.seed, self.epoch = batches, seed, 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self))
        self.epoch += 1
        yield from (self.batches[i] for i in order)


def small_run(seed=0):
    """Return a trainer and a loader that use all there is: dropout, Adam, a schedule, clipping, an order."""
    rng = np.random.default_rng(7)
    batches = [(Tensor(rng.standard_normal((3, 2))), Tensor(rng.standard_normal((3, 1)))) for _ in range(4)]
    model = Sequential(Linear(2, 5, rng=rng), Dropout(0.5, np.random.default_rng(seed)), Linear(5, 1, rng=rng))
    model.seen = np.zeros(2)  # a buffer
    loader = Turns(batches, seed)
    loader.rng = np.random.default_rng(seed + 1)
    return Trainer(model, Adam(model.parameters(), lr=0.05), MSELoss(), CosineSchedule(0.05, 0.0, 12), 1.0), loader


def test_training_state():
    """Everything is in it, and it is a photograph."""
    trainer, loader = small_run()
    trainer.fit(loader, 1)
    trainer.model.seen[...] = 6.0
    state = training_state(trainer, loader)
    check("its keys", sorted(state), ["arrays", "epochs", "generators", "history", "kind", "loader", "memory", "settings", "steps", "sums"])
    names = ["model.layers.0.weight", "model.layers.0.bias", "model.layers.2.weight", "model.layers.2.bias", "model.seen"]
    check("arrays: parameters and the buffer", sorted(state["arrays"]), sorted(names), {tuple(sorted(names)[:-1]): "the buffer is missing"})
    check("an array is an array", (type(state["arrays"]["model.seen"]).__name__, state["arrays"]["model.seen"].tolist()), ("ndarray", [6.0, 6.0]))
    check("Adam's memory, of each of four parameters", [sorted(memory) for memory in state["memory"]], [["m", "t", "v"]] * 4)
    check("the optimizer's kind, and the rate", (state["kind"], state["settings"].get("lr")), ("Adam", trainer.optimizer.lr))
    check("generators", sorted(state["generators"]), ["default", "loader.rng", "model.layers.1.rng"], {
        ("default", "model.layers.1.rng"): "the loader's own is missing: generators_of(trainer, loader)", ("model.layers.1.rng",): "the default generator is missing"})
    check("a generator's state", state["generators"]["model.layers.1.rng"] == trainer.model.layers[1].rng.bit_generator.state, True)
    check("steps and epochs", (state["steps"], state["epochs"]), (4, 1))
    check("history and sums", (len(state["history"]["loss"]), state["sums"]), (1, None))
    check("the loader's place", (state["loader"] or {}).get("place"), {"epoch": 1, "seed": 0})
    before = {key: repr(value) for key, value in state.items()}
    trainer.fit(loader, 1)
    check("parts that another epoch has changed in the photograph", [key for key, value in state.items() if repr(value) != before[key]], [], {
        ("arrays", "memory", "history"): "a dictionary of the things themselves, which go on: deepcopy", ("history",): "history is a dictionary of lists: copy all levels, deepcopy"})
    check("without a loader", training_state(trainer)["loader"], None)
    inside = []
    trainer.fit(loader, 1, lambda progress: inside.append(training_state(trainer, loader)))
    check("in the middle of an epoch: batches done, and the loader's epoch under way", ((inside[1]["sums"] or {}).get("batches"), inside[1]["loader"]["place"]["epoch"]), (2, 2), {
        (4, 2): "that is a window: the sums went on; copy all levels"})


test_training_state()

# %% [markdown]
"""
**Task.** The way back: `restore_state(trainer, state, loader=None)`. Everything is to be **as it was** when the photograph was taken, and nothing returned.

- Write into the arrays that `arrays_of(trainer)` finds, in place (`array[...] = ...`): the optimizer holds the same tensors, and tied layers hold one.
- Set each generator's `bit_generator.state`, for each generator that `generators_of(trainer, loader)` finds.
- `optimizer.state` is the memory; each setting is an attribute of the optimizer (`setattr(object, name, value)`), and the four of the trainer are attributes of the trainer.
- If there is a loader, each entry of `state["loader"]["place"]` is an attribute of the loader.

The photograph must survive: begin with `state = deepcopy(state)`, or the first step afterwards writes on it.

<details><summary>Hint 1: idea</summary>
Read your <code>training_state</code> from top to bottom, and turn each line around.
</details>
<details><summary>Hint 2: approach</summary>
Four loops over <code>.items()</code>: arrays, generators, settings, place. And <code>for name in ("steps", "epochs", "history", "sums")</code> for the trainer.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>for name, value in {"width": 3, "height": 2}.items(): setattr(box, name, value)</code> does <code>box.width = 3; box.height = 2</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "restore-state", "solution": true}
#| export
def restore_state(trainer, state, loader=None):
    """Put a trainer, and its loader, back to where ``training_state`` was taken; arrays are written in place."""
    ### BEGIN SOLUTION
    state = deepcopy(state)
    for name, array in arrays_of(trainer).items():
        array[...] = state["arrays"][name]
    for name, generator in generators_of(trainer, loader).items():
        generator.bit_generator.state = state["generators"][name]
    trainer.optimizer.state = state["memory"]
    for name, value in state["settings"].items():
        setattr(trainer.optimizer, name, value)
    for name in ("steps", "epochs", "history", "sums"):
        setattr(trainer, name, state[name])
    if loader is not None:
        for name, value in state["loader"]["place"].items():
            setattr(loader, name, value)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-restore-state", "points": 12, "skill": "checkpoints"}
def test_restore_state():
    """Piece by piece, then bit for bit, twice, and from the middle of an epoch."""
    def losses_of(trainer, loader, epochs):
        """Train so many epochs; return the loss of every batch."""
        losses = []
        trainer.fit(loader, epochs, lambda progress: losses.append(progress.loss))
        return losses

    trainer, loader = small_run()
    trainer.fit(loader, 1)
    state = training_state(trainer, loader)
    expected = losses_of(trainer, loader, 2)
    other, turns = small_run(seed=5)  # other random numbers, another order: all of it must be put right
    other.model.seen[...], other.optimizer.lr, other.optimizer.eps, weight = 9.0, 3.0, 2.0, other.model.layers[0].weight.data
    restore_state(other, state, turns)
    check("a weight", other.model.layers[0].weight.data, state["arrays"]["model.layers.0.weight"])
    check("in place: the same array as before", other.model.layers[0].weight.data is weight, True, {False: "p.data was replaced; who shares it does not see it"})
    check("the buffer", other.model.seen, [0.0, 0.0], {(9.0, 9.0): "only parameters were restored"})
    check("Adam counts on", [memory.get("t") for memory in other.optimizer.state], [4] * 4, {(None,) * 4: "the optimizer's memory was not restored"})
    check("the rate", other.optimizer.lr, state["settings"]["lr"], {3.0: "the settings were not restored"})
    check("Adam's eps", other.optimizer.eps, 1e-8, {2.0: "each setting is an attribute of the optimizer, not the rate alone"})
    check("dropout's generator", other.model.layers[1].rng.bit_generator.state == state["generators"]["model.layers.1.rng"], True, {
        False: "the generators were not put back: one.bit_generator.state"})
    check("the loader's generator", turns.rng.bit_generator.state == state["generators"]["loader.rng"], True, {False: "generators_of wants the loader, too"})
    check("steps, epochs, entries in the history", (other.steps, other.epochs, len(other.history["loss"])), (4, 1, 1), {(0, 0, 0): "the trainer's books were not restored"})
    check("the loader's place", (turns.epoch, turns.seed), (1, 0), {(0, 5): "the loader's place was not restored", (1, 5): "the seed decides the order, too"})
    check("the losses from here on, bit for bit", losses_of(other, turns, 2) == expected, True)
    restore_state(other, state, turns)
    check("a second time, from the same state", losses_of(other, turns, 2) == expected, True, {False: "training has written on the photograph: copy it first"})
    inside, middle = [], small_run()
    middle[0].fit(middle[1], 2, lambda progress: inside.append(training_state(*middle)))
    restore_state(other, inside[5], turns)  # after batch 1 of epoch 1
    check("from the middle of epoch 1: the two batches that are left", losses_of(other, turns, 1) == expected[2:4], True, {False: "are the sums restored?"})
    check("and its mean loss is that of the whole epoch", other.history["loss"][1] == middle[0].history["loss"][1], True)


test_restore_state()

# %% [markdown]
"""
**What if** one part is forgotten? Here the run of the beginning gets dropout and an order, stops after two epochs of four, and goes on with one part as a *new* run has it. Which of the five is harmless? Which ones show in the very first loss, and which only in the second?
"""

# %%
def restless(train, lr=0.03, seed=0):
    """Return a trainer with dropout for digits, and a loader with an order; the seed is that of both."""
    rng = np.random.default_rng(1)
    model = Sequential(Linear(64, 32, rng=rng), ReLU(), Dropout(0.2, np.random.default_rng(seed)), Linear(32, 10, rng=rng))
    return Trainer(model, Adam(model.parameters(), lr=lr), CrossEntropyLoss(), CosineSchedule(lr, 0.0, 4 * len(train))), Turns(train, seed)


run = restless(train)
losses_of(*run, 2)
state, fresh = training_state(*run), training_state(*restless(train, seed=9))
expected = losses_of(*run, 2)
for forgotten in ("nothing", "memory", "settings", "generators", "steps", "loader"):
    other = restless(train, seed=9)
    restore_state(other[0], {**state, **({} if forgotten == "nothing" else {forgotten: fresh[forgotten]})}, other[1])
    found = losses_of(*other, 2)
    differ = [i for i, (a, b) in enumerate(zip(expected, found)) if a != b]
    print(f"forgotten: {forgotten:>10}   losses that differ: {len(differ):2} of {len(found)}" + (f", first that of batch {differ[0]}" if differ else ""))

# %% [markdown]
"""
*Settings* are harmless here, because the schedule sets the rate before each step; without one they would not be. Memory and steps show only from the second loss on: the first one comes before any step. And nothing mends itself: once two runs differ, they go on to.

**Into a file.** What is left is to write the state down. The handiest way is a trap: Python's `pickle` stores any object in one line. Look at what it does when it *reads*:
"""

# %%
import pickle


class Present:
    """What it asks for is done when it is unpacked."""

    def __reduce__(self):
        return print, ("I am a function call from the file, and I have just been run.",)


_ = pickle.loads(pickle.dumps(Present()))

# %% [markdown]
"""
It could have been any call: a pickle is a program, and reading it runs it. Weights are passed from hand to hand, so a checkpoint must be *data*: arrays, read with `allow_pickle=False`, and a text. Section 7 has done that, around your two functions:
`save_checkpoint` writes what `training_state` returns, `load_checkpoint` reads it, looks whether it fits, and calls `restore_state`.

Now all of it together. The run of the beginning writes a checkpoint after every epoch. A second one, made in the same way but with other random numbers, loads the file of epoch 2 and does the rest. And in between we look into the file, with NumPy alone:
"""

# %%
from tempfile import TemporaryDirectory

with TemporaryDirectory() as folder:
    path = Path(folder) / "digits.npz"
    run, loader = restless(train)
    run.fit(loader, 2, checkpoint=path)
    expected = losses_of(run, loader, 4 - run.epochs)

    with np.load(path, allow_pickle=False) as file:
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(file.files)} entries, such as {', '.join(file.files[1:8:3])}")
        print(str(file["json"])[:150], "...")

    again, loader = restless(train, seed=9)
    again.load_checkpoint(path, loader)
    print("loaded:", again.epochs, "epochs done,", again.steps, "steps")
    found = losses_of(again, loader, 4 - again.epochs)
    print("losses equal, bit for bit:", found == expected, "· weights too:", all((p.data == q.data).all() for p, q in zip(run.model.parameters(), again.model.parameters())))

    wide = Sequential(Linear(64, 48), ReLU(), Dropout(0.2, np.random.default_rng(0)), Linear(48, 10))
    try:
        Trainer(wide, Adam(wide.parameters()), CrossEntropyLoss()).load_checkpoint(path, loader)
    except ValueError as error:
        print(str(error).replace(folder, "..."))

# %% [markdown]
"""
A program that can be stopped at any time and started again is then four lines, the same ones each time:

```
trainer, loader = build()
if os.path.exists(path):
    trainer.load_checkpoint(path, loader)
if trainer.epochs < 10:
    trainer.fit(loader, 10 - trainer.epochs, checkpoint=path)
```

**What it means for a real model.** Large runs write a checkpoint every few hundred steps, in the middle of the only epoch they have. With Adam it weighs three times the weights. Here, too, it may be written from inside a callback; the sums of the epoch under way are in it.

## 9. What it means for a real model

The loop of a large language model is this loop. More machines share a batch, and the schedule begins with a short climb; the verbs and their order are yours.

What is missing is something to look at while it runs: a callback that draws. In a terminal this one is a line that moves; in a file, a pipe or a notebook, where nothing can move, every finished epoch is one line.
"""

# %%
_ = digits_trainer(train, epochs=4).fit(train, 4, progress=True)

# %% [markdown]
"""
Any function will do. This one shows every fiftieth step:
"""

# %%
def every_fifty(progress):
    if progress.steps % 50 == 0:
        print(f"step {progress.steps:3}  rate {progress.lr:.4f}  loss {progress.loss:.3f}")


_ = digits_trainer(train, epochs=4).fit(train, 4, every_fifty)

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Why is the rate of a schedule given by the step and not by the epoch?</summary>
An epoch is as long as the data happens to be. By steps the curve is smooth, and it is the same for a run that stops in the middle of an epoch.
</details>
<details><summary>Your batch of 64 does not fit into memory. You compute pieces of 32, 16 and 16, and add up their gradients. What must you not forget?</summary>
Each loss is already a mean over its piece. Multiply it by the piece's share, 1/2, 1/4 and 1/4, or the rate has secretly tripled and the small pieces count too much.
</details>
<details><summary>Held-out accuracy is 97.5 %. You try fifty rates and report the best. Is the number honest?</summary>
No. Choosing by the held-out set is training on it, slowly. Choose on a third set, and look at the test once.
</details>
<details><summary>Is clipping with Adam of any use, if Adam divides by the size of the gradient anyway?</summary>
Yes. One huge gradient enters <code>v</code> with its square and makes the steps of that weight small for a long time: a gradient of 1,000 times the usual size raises <code>v</code> by 0.001 · 1,000² = 1,000 times its usual value, and that takes ln 1,000 / 0.001, about 7,000 steps, to fade. Clipping keeps it out.
</details>
<details><summary>Where does the time of one step go: forward, backward, optimizer?</summary>
Module 14 measures it. Write down a guess now.
</details>

`tito test training` checks the module; once all of it passes, `tito module complete training` puts what you wrote into the package, and later modules run on your code. Next: Module 08, where the batches come from.
"""
