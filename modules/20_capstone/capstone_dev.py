# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "20_capstone", "release": "1c972d3302fd0741"}
# ---

# %% [markdown]
"""
# 20 · Capstone

Tier: Optimization · Difficulty 3 of 4 · About 3 hours · Needs 14 to 19 (`tito test profiling`, `tito test quantization`, `tito test compression`, `tito test memoization`, `tito test acceleration`, `tito test benchmarking`)

You can make a model smaller, you can make it faster, and you can measure both. What is left is to do it all at once, under a budget, and to write it down so that somebody who does not trust you can check it. This module is a small Olympic game: everybody starts from the same trained model, takes
the steps of Modules 15, 16 and 18 in an order of their own, and hands in a report. A report that does not hold does not get on the board.

**Build** a budget with three answers, the evidence, a report, its check, a board that merges, the whole pipeline → **use** them to fit a digit reader into a fifth of its bytes → **reflect** on what a report can prove, and what it cannot.

When you are done you can
1. judge a measured model against a budget, and say when the measurement is too coarse for a verdict;
2. chain optimizations, and tell by evidence which of them earned its place;
3. keep raw samples in place of conclusions, and compute every conclusion from them again;
4. write a check that finds a changed number, and name what it can never find;
5. merge results of many people, in any order, twice or once, and get the same file;
6. rank what was measured on different machines without comparing what cannot be compared.

| Yours | Given and explained |
|---|---|
| the three answers of a budget, applying the steps | the start line: data, model, training; the steps' names |
| what is seen of a model, what its rounds say, changed decisions | rounds: Module 14's `compare` keeps them |
| every result from raw samples; comparing what is said with what follows | the schema, and what reads it |
| fingerprint, merge, places | files: strict, whole or not at all; tables |
| the measured half of the pipeline | its frame |

A cell you have not filled says which one it is: `apply_steps: section 3, cell 3` is the function `apply_steps` in the third code cell of section 3.
"""

# %%
#| default_exp olympics

# %%
#| export
import hashlib
import json
import os
import re
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import inf, prod
from pathlib import Path
from uuid import uuid4

import numpy as np

from tinytorch.core.activations import GELU
from tinytorch.core.autograd import no_grad
from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import Trainer, in_mode
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.benchmarking import Benchmark, accuracy_interval, difference_interval
from tinytorch.perf.compression import distill, low_rank, magnitude_prune, structured_prune
from tinytorch.perf.profiling import Profiler, environment, median_interval, paired_ratio, percentile, weight_arrays
from tinytorch.perf.quantization import quantize_model

# %%
if __name__ == "__main__":
    from tito.needs import needs_profiler

    needs_profiler()

# %% [markdown]
"""
## 1. The start line, and what the profile names

**Question.** A model of three layers reads digits: `Linear(64, 256)`, GELU, `Linear(256, 10)`. It is to become cheaper. Where would you begin?

**Guess** before you run: which of the three holds most bytes of parameters, which computes most, which *moves* most bytes when all 355 held-out digits go through at once?

Given is the start line. Everybody who hands in a report starts from this model: the seed decides its first weights and the order of the batches, so the same seed gives the same model.
"""

# %%
#| export
@dataclass(frozen=True)
class Task:
    """Where every entry starts: a trained model, the digits it was trained on, and digits it has never seen."""

    model: Layer
    loader: DataLoader
    images: Tensor  # (N, 64), held out
    labels: np.ndarray  # (N,)
    seed: int


def prepare(seed=0, epochs=8):
    """Load the digits and train the model that every entry starts from: 64-256-10 with GELU; the seed decides all."""
    rng = np.random.default_rng(seed)
    model = Sequential(Linear(64, 256, rng=rng), GELU(), Linear(256, 10, rng=rng))
    loader = DataLoader(TensorDataset(*map(Tensor, load_digits("train"))), 32, shuffle=True, seed=seed)
    Trainer(model, Adam(model.parameters(), lr=0.003), CrossEntropyLoss()).fit(loader, epochs)
    images, labels = load_digits("test")
    return Task(model.eval(), loader, Tensor(images), labels, seed)

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import layer_table

    my_guess = {"holds most": None, "computes most": None, "moves most": None}
    task = prepare()
    profiler = Profiler()
    profile = profiler.profile_forward_pass(task.model, task.images)
    print(layer_table(profile))
    layers = profile["layers"][1:]
    for what, key in (("holds most", "parameters"), ("computes most", "flops"), ("moves most", "bytes"), ("takes longest", "self_ms")):
        most = max(layers, key=lambda row: row[key])
        print(f"{what:>14}: {most['name']:>2} {most['type']:7} {most[key] / sum(row[key] for row in layers):4.0%}   your guess: {my_guess.get(what)}")

# %% [markdown]
"""
Two different layers, or three. The first `Linear` holds nearly all parameters and does nearly all arithmetic. GELU has no parameters at all and does a twentieth of the arithmetic, but it moves nine tenths of the bytes, because it is composed of nine small ops that each write an array of `(355, 256)`. Where the milliseconds are depends on your machine, and is in the last line.

So the profile names one thing for each wish:

| wish | what the profile names | who can help |
|---|---|---|
| fewer bytes of parameters | the first `Linear` | fewer bits for each (15), fewer units (16) |
| fewer FLOPs | the first `Linear` | fewer units (16) |
| fewer bytes moved | GELU | fewer passes (18), and fewer units |

One of the modules is missing: what Module 17 keeps is for models that write one token after another. It has its turn in section 9.
"""

# %% [markdown]
"""
## 2. A budget has three answers

**Question.** The budget says: at least 97 % of digits must be read correctly. Your model reads 346 of the 355 held-out digits, that is 97.5 %. Is the budget kept?

The budget is about digits that nobody has seen yet. The 355 are a sample of them. Module 19 says what a sample says:
"""

# %%
if __name__ == "__main__":
    for right in (355, 352, 346, 340, 330):
        low, high = accuracy_interval(right, 355)
        print(f"{right} of 355: {right / 355:.1%}, with 95 % confidence {low:.1%} to {high:.1%}")
    total = 355
    while accuracy_interval(round(total * 346 / 355), total)[0] < 0.97:
        total += 355
    print(f"with the same share right, at least 97 % is certain from {total:,} digits on")

# %% [markdown]
"""
346 right might be a model of 96 %, and it might be one of 98 %. "97.5 is more than 97" compares a limit with a *sample*. A budget has three answers:

```
                     limit
  low ──── high        │                      kept: all of the range is allowed
               low ────┼──── high             undecided: measure more
                       │   low ──── high      broken: none of it is
```

The same holds for time, which is known as an interval, too. What is counted (bytes, FLOPs) has a range without width, `low == high`, and is never undecided.

**Task.** Write `limit_verdict(low, high, limit, at_most=True)`. It returns `"kept"`, `"broken"` or `"undecided"`. With `at_most=True` the limit is the largest value that is allowed; with `False` it is the smallest. The limit itself is allowed.

Example: the range 3 to 5. At most 5: kept. At most 4: undecided. At most 2: broken. At least 4: undecided.

<details><summary>Hint 1: idea</summary>
Kept needs the <em>worst</em> end of the range to be allowed. Broken needs the <em>best</em> end not to be.
</details>
<details><summary>Hint 2: approach</summary>
For "at most", the worst end is <code>high</code>. For "at least" it is <code>low</code>. Or turn "at least" into "at most" by a minus sign in front of all three numbers; the ends then change places.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Range 0.5 to 0.8, at least 0.5: the worst end is 0.5, and it is allowed: kept. At least 0.9: even 0.8 is not enough: broken.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "limit-verdict", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def limit_verdict(low, high, limit, at_most=True):
    """Judge a quantity that is known to lie in [low, high]: "kept", "broken" or "undecided".

    ``at_most``: the limit is the largest allowed value, else the smallest; the limit itself is allowed.
    """
    raise NotImplementedError("limit_verdict: section 2, cell 2")

# %%
if __name__ == "__main__":
    for right in (355, 352, 346, 340, 330):
        print(f"{right} of 355, at least 97 %: {limit_verdict(*accuracy_interval(right, 355), 0.97, at_most=False)}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-limit-verdict", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "budget"}
if __name__ == "__main__":
    from tito.checks import check, check_raises


    def test_limit_verdict():
        """Three answers, both directions, the limit itself."""
        most = [limit_verdict(1, 9, 10), limit_verdict(9, 12, 10), limit_verdict(11, 12, 10)]
        check("at most 10: 1 to 9, 9 to 12, 11 to 12", most, ["kept", "undecided", "broken"], {
            ("kept", "broken", "broken"): "what might be allowed is not broken: it is undecided", ("kept", "kept", "broken"): "the best end is allowed; kept needs the worst end to be, too",
            ("broken", "undecided", "kept"): "that is at least 10: with at_most=True a small value is good", ("undecided", "undecided", "broken"): "all of 1 to 9 is at most 10"})
        least = [limit_verdict(1, 9, 10, at_most=False), limit_verdict(9, 12, 10, at_most=False), limit_verdict(11, 12, 10, at_most=False)]
        check("at least 10: the same three", least, ["broken", "undecided", "kept"], {
            ("kept", "undecided", "broken"): "at_most=False is not looked at", ("broken", "kept", "kept"): "the best end is allowed; kept needs the worst end to be, too",
            ("broken", "broken", "kept"): "what might be allowed is not broken: it is undecided"})
        exact = [limit_verdict(n, n, 10, at_most) for at_most in (True, False) for n in (9, 10, 11)]
        check("9, 10 and 11, exactly known: at most 10, at least 10", exact, ["kept", "kept", "broken", "broken", "kept", "kept"], {
            ("kept", "undecided", "broken", "broken", "undecided", "kept"): "the limit itself is allowed: kept", ("kept", "broken", "broken", "broken", "broken", "kept"): "the limit itself is allowed: kept"})
        edge = [limit_verdict(9, 10, 10), limit_verdict(10, 11, 10), limit_verdict(9, 10, 10, False), limit_verdict(10, 11, 10, False)]
        check("ranges that end at the limit", edge, ["kept", "undecided", "undecided", "kept"], {
            ("kept", "broken", "broken", "kept"): "a range that touches the limit has one allowed value in it: undecided", ("undecided", "undecided", "undecided", "undecided"): "the limit itself is allowed"})
        check("nothing known", [limit_verdict(0.0, np.inf, 1.0), limit_verdict(0.0, 1.0, 0.5, False)], ["undecided", "undecided"])


    test_limit_verdict()

# %% [markdown]
"""
Given is `Budget`: five limits, each of which may be left out, and `judge`, which asks your function for each of them. Two of them are about being right. `min_accuracy` is about the final model alone. `max_loss` is about how much was *lost on the way*, on the very same digits; section 5 shows how much sharper that is.
"""

# %%
#| export
@dataclass(frozen=True)
class Budget:
    """What a model may cost; None is no limit.

    max_bytes: of all parameters. max_flops: of one sample. max_ratio: time over the start model's, on one machine.
    min_accuracy: on the held-out digits, 0 to 1. max_loss: of accuracy against the start model on the same digits, 0 to
    1. Raises ``ValueError`` or ``TypeError`` for what is no such number.
    """

    max_bytes: int | None = None
    max_flops: int | None = None
    max_ratio: float | None = None
    min_accuracy: float | None = None
    max_loss: float | None = None

    def __post_init__(self):
        for name, value in asdict(self).items():
            if value is None:
                continue
            if type(value) not in (int, float):
                raise TypeError(f"Budget: {name} is {value!r}; want a number, or None for no limit")
            most = 1 if name in ("min_accuracy", "max_loss") else 2**53
            if not 0 <= value <= most:
                raise ValueError(f"Budget: {name} is {value}; want 0 to {most:,}, or None for no limit")

    def judge(self, results):
        """Return {limit: "kept", "broken" or "undecided"} for the limits that are set; see ``results_of``."""
        final, (worse, better) = results["final"], results["decisions"]["interval"]
        known = {"max_bytes": (final["bytes"],) * 2, "max_flops": (final["flops"],) * 2,
                 "max_ratio": results["speed"]["interval"] or (0.0, inf),
                 "min_accuracy": final["accuracy_interval"], "max_loss": (-better, -worse)}
        return {name: limit_verdict(*known[name], limit, name != "min_accuracy")
                for name, limit in asdict(self).items() if limit is not None}

# %% [markdown]
"""
## 3. Steps, in an order

**Question.** Prune, then quantize; or quantize, then prune? Are there two orders, or one order and one mistake?

An entry is a list of steps, and a step is plain data, a name and its settings: `[["prune", 0.5], ["distill", 4], ["quantize"]]`. Somebody else can read it, and take the same steps again. Given is the table that turns names into functions, and a decorator that fills it, as for cost rules in Module 14:
"""

# %%
#| export
STEPS: dict = {}  # name: function of (model, task, *settings) that returns a new model


def step(name):
    """Put a function of (model, task, *settings) under ``name`` into STEPS, so that an entry can ask for it."""
    def register(function):
        STEPS[name] = function
        return function
    return register

# %% [markdown]
"""
And these are the steps. Each gets the model so far, the task (for its training digits, and for the start model as a teacher) and its settings, and returns a **new** model:
"""

# %%
#| export
@step("prune")
def prune_step(model, task, fraction):
    """Take out hidden units, Module 16: really smaller arrays."""
    return structured_prune(model, fraction)


@step("mask")
def mask_step(model, task, fraction):
    """Set the smallest weights to zero, Module 16: nothing gets smaller."""
    return magnitude_prune(model, fraction)


@step("low_rank")
def low_rank_step(model, task, rank):
    """Replace matrices by two thin ones, Module 16."""
    return low_rank(model, rank)


@step("distill")
def distill_step(model, task, epochs):
    """Train on, with the start model's scores as the teacher, Module 16; ``ValueError`` where nothing can be."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("distill: no weight of the model wants a gradient (int8 has none); distill, then quantize")
    loader = DataLoader(task.loader.dataset, 32, shuffle=True, seed=task.seed)  # of its own: it begins at epoch 0
    return distill(model, task.model, loader, epochs)


@step("fuse")
def fuse_step(model, task):
    """Make GELU one pass over memory, Module 18: the same results but for rounding."""
    return fuse(model)


@step("quantize")
def quantize_step(model, task):
    """Store weights in int8, one scale for each channel, Module 15."""
    return quantize_model(model)

# %% [markdown]
"""
**Task.** Write `apply_steps(steps, task)`. The first step works on a **copy** of `task.model`: a step that writes in place must not move the start line, which everybody shares. Each step works on what the one before returned. No step at all gives the copy. A name that is not in `STEPS` is a `ValueError` that has the name in it, and says what there is.

Example: with `["prune", 0.5]` the call is `STEPS["prune"](model, task, 0.5)`.

<details><summary>Hint 1: idea</summary>
A loop in which <code>model</code> becomes what the step makes of it.
</details>
<details><summary>Hint 2: approach</summary>
<code>for name, *settings in steps:</code> takes a list apart: the first item, and the rest as a list. <code>deepcopy</code> is imported.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Steps on numbers: start 5, <code>["add", 2]</code>, <code>["times", 3]</code>: 5, 7, 21. In the other order: 5, 15, 17.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "apply-steps", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def apply_steps(steps, task):
    """Take steps ``[[name, *settings], ...]`` one after another, each on the model before it; return the last model.

    The first works on a copy of ``task.model``, which is left alone. Raises ``ValueError`` for a name not in STEPS.
    """
    raise NotImplementedError("apply_steps: section 3, cell 3")

# %%
if __name__ == "__main__":
    for steps in ([], [["fuse"], ["quantize"]], [["quantize"], ["fuse"]], [["low_rank", 8], ["prune", 0.5]], [["prune", 0.5], ["low_rank", 8]], [["prune", 0.5], ["quantize"]], [["quantize"], ["prune", 0.5]]):
        try:
            model = apply_steps(steps, task)
            print(f"{str(steps):38} {sum(array.nbytes for array in weight_arrays(model)):6,} bytes in", *[array.shape for array in weight_arrays(model)])
        except ValueError as error:
            print(f"{str(steps):38} {error}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-apply-steps", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "pipeline"}
if __name__ == "__main__":
    def test_apply_steps():
        """Order, settings, the start line, an unknown name."""
        def adding(model, task, number):
            model.layers[0].bias.data += number  # in place, as a step should not
            return model

        def scaling(model, task, by, also=0):
            new = deepcopy(model)
            new.layers[0].bias.data[:] = model.layers[0].bias.data * by + also + task.seed
            return new

        toy = Task(Sequential(Linear(2, 1)), None, None, None, 0)
        STEPS.update({"test: add": adding, "test: scale": scaling})
        check("start 0, add 3, times 2", apply_steps([["test: add", 3], ["test: scale", 2]], toy).layers[0].bias.data, [6.0], {
            (0.0,): "what a step returns is dropped, or only the start is handed on", (3.0,): "the first step only", (9.0,): "the start line has moved: work on a copy of task.model"})
        check("the start line", toy.model.layers[0].bias.data, [0.0], {(3.0,): "a step wrote into task.model: let the first one work on a copy"})
        check("times 2, add 3", apply_steps([["test: scale", 2], ["test: add", 3]], toy).layers[0].bias.data, [3.0], {(6.0,): "in the wrong order"})
        check("two settings", apply_steps([["test: add", 3], ["test: scale", 2, 1]], toy).layers[0].bias.data, [7.0], {(6.0,): "only one setting is handed on"})
        nothing = apply_steps([], toy)
        check("no step: a copy", (nothing is toy.model, nothing.layers[0].bias.data.tolist()), (False, [0.0]), {
            (True, (0.0,)): "that is the start model itself: whoever gets it may write into it"})
        steps = [["test: add", 3]]
        apply_steps(steps, toy)
        check("the list of steps is left as it was", str(steps), "[['test: add', 3]]", {"[[3]]": "a pop took the name out of the caller's list", "[]": "a pop emptied the caller's list"})
        check_raises("a step that is not there", ValueError, lambda: apply_steps([["shrink", 2]], toy), must_say="shrink")
        del STEPS["test: add"], STEPS["test: scale"]


    test_apply_steps()

# %% [markdown]
"""
Look at the pairs above: the same two steps, in two orders.

- *Fuse, quantize* leaves the large matrix in float32. Fusing made one layer of `Linear` and GELU, and a step that looks for a `Linear` no longer finds it. The other way round, both find what they look for.
- *Low rank, prune* and *prune, low rank* are two different models: after the first, the thin space between two factors is itself a row of hidden units, and units are taken out of it, too.
- *Quantize, prune* is refused, in a sentence: integers with a scale for each column are no plain matrix any more.

A step looks for a form, and leaves another one. So there are as many orders as there are, and the next sections are about telling which was good: not by taste.
"""

# %% [markdown]
"""
## 4. Evidence

**Question.** "Four times smaller, twice as fast, 97.5 % right." What would you ask to see before you believed it?

Not more adjectives: the samples. From now on the rule is: **what was observed is kept; what was concluded is computed from it, and can be computed again.** Of a model, three things can be seen without a clock:

```
arrays        [[64, 256], "float32"], [[256], "float32"], ...     shape and type of each of its weights
flops         40192                                               of one sample
predictions   4, 0, 9, ... 355 of them                            the class it decided for, picture by picture
```

From the arrays follow the number of parameters and the bytes; from the predictions follows the accuracy, and more.

**Task.** Write `observed(model, images)`, which returns a dict with these three keys, all **plain data** (dicts, lists, whole numbers, texts), so that it can be written as JSON.

- `arrays`: `weight_arrays(model)` from Module 14 returns them, each memory once. `array.dtype.name` is the type as a text.
- `flops`: ask the Profiler, for one image: `count_flops` with the shape `(1, D)`, where images are `(N, D)`.
- `predictions`: the place of the largest score of each image; `.tolist()` of an array gives Python's own numbers.

All of it in evaluation mode and without a graph: a model that is still in training mode drops, and counts what it drops. `in_mode(model, False)` (Module 07) switches a model over inside a `with`, and back afterwards.

Example: `Linear(2, 3)` on four images gives the arrays `[[[2, 3], "float32"], [[3], "float32"]]`, 12 FLOPs, and four class numbers.

<details><summary>Hint 1: idea</summary>
Nothing here is computed by you: it is asked of the model, of its weights and of the Profiler.
</details>
<details><summary>Hint 2: approach</summary>
<code>with in_mode(model, False), no_grad():</code> around everything. One forward pass, then <code>argmax(axis=-1)</code>. A shape is a tuple; JSON has lists: <code>list(array.shape)</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Scores <code>[[0.1, 2.0, 0.3], [5.0, 1.0, 1.0]]</code> are the predictions <code>[1, 0]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "observed", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def observed(model, images):
    """Return what is seen of a model without a clock, as plain data; images (N, D).

    Keys: arrays, [[shape, dtype name], ...] of its weights, each memory once; flops of one sample; predictions, N class
    numbers, made in evaluation mode.
    """
    raise NotImplementedError("observed: section 4, cell 1")

# %%
if __name__ == "__main__":
    seen = observed(task.model, task.images)
    print("arrays", seen["arrays"], "\nflops", seen["flops"], "\npredictions", seen["predictions"][:20], "...")
    print(f"{sum(prod(shape) * np.dtype(kind).itemsize for shape, kind in seen['arrays'])} bytes from the arrays;",
          f"{profiler.measure_memory(task.model, (1, 64))['parameter_memory_mb'] * 1024**2:.0f} by the Profiler")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-observed", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "evidence"}
if __name__ == "__main__":
    from tinytorch.core.activations import ReLU
    from tinytorch.core.layers import Dropout


    def test_observed():
        """A shared layer, dropout, modes, plain data."""
        shared = Linear(3, 3)
        shared.weight.data[:], shared.bias.data[:] = np.eye(3), 0
        model = Sequential(shared, ReLU(), shared, Dropout(1.0))  # in training it drops everything
        images = Tensor([[0, 0, 5], [0, 5, 0], [0, 0, 1], [7, 0, 0]])
        seen = observed(model, images)
        check("keys", sorted(seen), ["arrays", "flops", "predictions"])
        check("arrays of a layer used twice", json.dumps(seen["arrays"]), '[[[3, 3], "float32"], [[3], "float32"]]', {
            '[[[3, 3], "float32"], [[3], "float32"], [[3, 3], "float32"], [[3], "float32"]]': "a memory that is shared counts once: weight_arrays", '[[9, "float32"], [3, "float32"]]': "want the shape, not the size"})
        check("flops of one sample: 18 + 3 + 18", seen["flops"], 39, {
            45: "counted in training mode: dropout is in it", 156: "of all four images: the shape of one is (1, 3)", 36: "contractions only: count_flops counts every primitive"})
        check("predictions", seen["predictions"], [2, 1, 2, 0], {
            (0, 0, 0, 0): "in training mode, dropout has dropped everything: evaluate in evaluation mode", (3, 1, 0): "along the wrong axis: want one class for each image"})
        check("plain data", type(seen["predictions"]).__name__ + " of " + type(seen["predictions"][0]).__name__, "list of int", {
            "list of int64": "NumPy's own numbers, which JSON has not: .tolist()", "ndarray of int64": "an array, which JSON has not: .tolist()"})
        check("the model is in training mode, as it was", (model.training, model.layers[3].training), (True, True), {
            (False, False): "the mode was switched, and not back: use in_mode in a with", (False, True): "the mode was switched, and not back: use in_mode in a with"})
        shared.weight.data = np.eye(3, dtype=np.float16)
        check("a type of its own", observed(model, images)["arrays"][0][1], "float16", {"float32": "the type is the array's own"})


    test_observed()

# %% [markdown]
"""
Now time. The raw times are the **rounds** of `compare`, and it keeps them: `rounds_ns` has `[ns of the baseline, ns of the candidate]` for each round, measured side by side, two blocks of each, and `block` says how many passes a block is.
"""

# %%
if __name__ == "__main__":
    small, large = Sequential(Linear(64, 16), Linear(16, 10)).eval(), Sequential(Linear(64, 1024), Linear(1024, 10)).eval()
    with no_grad():
        found = profiler.compare(large, small, task.images, atol=Benchmark.DIFFERENT, rounds=8, seed=0)
    print(f"blocks of {found['block']} pass(es); baseline and candidate, µs:", [[round(ns / 1000) for ns in pair] for pair in found["rounds_ns"]])
    print(f"ratio {found['ratio']:.4f}, interval {found['interval']}, {found['verdict']}")

# %% [markdown]
"""
(`Benchmark.DIFFERENT` is Module 19's tolerance for models that are *not* meant to give equal outputs. What is meant to be equal is compared without it, in section 9.)

How do many rounds become one ratio? **Guess** which of these four is hurt least, when the machine is busy in some rounds, and once *very* busy, while the candidate was running. In truth the candidate takes 0.9 of the time:
"""

# %%
if __name__ == "__main__":
    from statistics import fmean

    busy = [[100, 90], [300, 270], [101, 91], [100, 90], [310, 279], [300, 270], [99, 9000], [305, 275], [100, 90]]
    baselines, candidates = [pair[0] for pair in busy], [pair[1] for pair in busy]
    print(f"sum over sum           {sum(candidates) / sum(baselines):.3f}")
    print(f"median over median     {percentile(candidates, 50) / percentile(baselines, 50):.3f}")
    print(f"mean of the ratios     {fmean(b / a for a, b in busy):.3f}")
    print(f"median of the ratios   {percentile([b / a for a, b in busy], 50):.3f}")

# %% [markdown]
"""
Sums and means belong to the one bad round. Two separate medians forget who ran beside whom: here the middle baseline comes from a quiet moment and the middle candidate from a busy one. The median of the *ratios* compares within each round first.

**Task.** Write `speed_results(rounds)`, which makes of rounds what `compare` makes of them, as a dict:

- `ratio`: the median of candidate over baseline. Module 14 takes it on logarithms, so that half and double are equally far from 1: `paired_ratio(rounds)` returns `(ratio, interval)`.
- `interval`: as a **list** of two numbers; `None`, with fewer than six rounds, stays `None`.
- `verdict`: `"faster"` when the whole interval is below 1, `"slower"` when it is above, else `"indistinguishable"`: when 1 is in it, also as an end, or when there is none.

Example: six rounds of `[4, 2]`: ratio 0.5, interval `[0.5, 0.5]`, `"faster"`. Five of them: `None`, `"indistinguishable"`.

<details><summary>Hint 1: idea</summary>
The numbers come from one call. Yours is the verdict, and the case without an interval.
</details>
<details><summary>Hint 2: approach</summary>
Without an interval nothing is known: as if it went from 0 to infinity. <code>low, high = interval or (0.0, inf)</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Interval 1.1 to 1.4: above 1, slower. 0.7 to 1.0: 1 is an end, indistinguishable.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "speed", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def speed_results(rounds):
    """Return ratio, its 95 % interval (None under six rounds) and verdict, as ``compare`` has them, from its rounds.

    rounds: [[ns of the baseline, ns of the candidate], ...]; the ratio is candidate over baseline.
    """
    raise NotImplementedError("speed_results: section 4, cell 6")

# %%
if __name__ == "__main__":
    print("computed again:", speed_results(found["rounds_ns"]))
    print("the busy rounds:", speed_results(busy))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-speed", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "evidence"}
if __name__ == "__main__":
    def test_speed():
        """One ratio of many rounds, ends of the interval, few rounds, against compare."""
        got = speed_results([[100, 90], [300, 270], [100, 90], [100, 90], [310, 279], [300, 270], [99, 9000], [300, 270], [100, 90]])
        check("keys", sorted(got), ["interval", "ratio", "verdict"])
        check("busy rounds, in truth 0.9", got["ratio"], 0.9, {
            10449 / 1709: "sum over sum: one round decides", 2.7: "median over median: take the ratio within each round first", 10 / 9: "upside down: candidate over baseline",
            (8 * 0.9 + 9000 / 99) / 9: "the mean of the ratios: one round decides"})
        check("its interval", got["interval"], [0.9, 0.9])
        check("half and double are equally far from 1", speed_results([[1, 2], [2, 1]])["ratio"], 1.0, {1.25: "between two ratios take the middle of their logarithms"})
        check("a list, so that JSON gives back the same", type(got["interval"]).__name__, "list")
        verdicts = [speed_results([[100, ns] for ns in times])["verdict"] for times in ([90, 91, 92, 93, 94, 95], [101, 102, 103, 104, 105, 106], [95, 96, 97, 103, 104, 105])]
        check("all below 1, all above, both", verdicts, ["faster", "slower", "indistinguishable"], {
            ("slower", "faster", "indistinguishable"): "a ratio below 1 is less time: faster", ("faster", "slower", "slower"): "the interval decides, not the ratio", ("faster", "slower", "faster"): "the interval decides, not the ratio"})
        ends = [speed_results([[100, ns] for ns in times])["verdict"] for times in ([95, 96, 97, 98, 99, 100], [100, 101, 102, 103, 104, 105])]
        check("1 is an end", ends, ["indistinguishable", "indistinguishable"], {("faster", "slower"): "an interval that has 1 as its end has 1 in it"})
        few = speed_results([[4, 2]] * 5)
        check("five rounds", (few["ratio"], few["interval"], few["verdict"]), (0.5, None, "indistinguishable"), {(0.5, None, "faster"): "without an interval there is no verdict"})
        ticks = iter(np.random.default_rng(0).integers(1, 100, 1000).cumsum().tolist())
        found = Profiler(clock=lambda: next(ticks)).compare(Linear(2, 2), Linear(2, 2), Tensor(np.ones((1, 2))), atol=Benchmark.DIFFERENT, rounds=9, seed=3)
        again = speed_results(found["rounds_ns"])
        check("what compare found, from its rounds", abs(again["ratio"] / found["ratio"] - 1) < 1e-12 and again["verdict"] == found["verdict"], True)


    test_speed()

# %% [markdown]
"""
## 5. Results are computed

**Question.** Two models read the same 355 digits. The first gets 346 right, the second 340. Their intervals overlap widely. So nothing can be said?
"""

# %%
if __name__ == "__main__":
    for right in (346, 340):
        print(f"{right} of 355: {accuracy_interval(right, 355)[0]:.1%} to {accuracy_interval(right, 355)[1]:.1%}")
    for won, lost in ((0, 6), (10, 16), (40, 46)):
        low, high = difference_interval(lost, won, 355)
        print(f"{won} won and {lost} lost: the accuracy changed by {(won - lost) / 355:.1%}, with 95 % confidence by {low:+.1%} to {high:+.1%}")

# %% [markdown]
"""
Quite a lot can be said, if the predictions were kept. The same six digits fewer mean something else when they are the *only* decisions that changed than when 86 changed. Two separate intervals carry the uncertainty of all 355 digits, twice; a difference on the **same** digits carries only that of the digits on which the two disagree. Accuracies alone have thrown that away.

**Task.** Two functions, both of evidence alone: no model, no clock.

`side_results(side, labels, passes_ns)` gets what `observed` returned, the right classes, and the times of this side, nanoseconds of one pass each. It returns a dict:

| key | is |
|---|---|
| `parameters` | how many numbers the arrays hold |
| `bytes` | what they take, each in its own type: `np.dtype("int8").itemsize` is 1 |
| `flops` | as observed |
| `right`, `accuracy` | how many predictions are the label, and which share |
| `accuracy_interval` | `accuracy_interval(right, total)`, as a list |
| `ms` | the median, `percentile(values, 50)`, in milliseconds |
| `ms_interval` | `median_interval(values)`, as a list; `None` stays `None` |

`changed_decisions(before, after, labels)` counts what became of each picture: `same` (the two predictions are equal), `won` (wrong before, right after), `lost` (right before, wrong after), `other` (wrong before, differently wrong after).

Example: before 1, 2, 3, after 1, 7, 9, labels 1, 7, 8: same 1, won 1, lost 0, other 1.

<details><summary>Hint 1: idea</summary>
A shape's numbers are <code>prod(shape)</code>, and <code>prod([])</code> is 1: a single number has no axes.
</details>
<details><summary>Hint 2: approach</summary>
Make the list of milliseconds first: <code>ns / 1e6</code> for each. <code>sum(guess == label for ...)</code> counts. In <code>changed_decisions</code>, ask in this order: equal? then: new right? then: old right?
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Arrays <code>[[4, 5], "float32"]</code> and <code>[[5], "float64"]</code>: 25 parameters, 20 · 4 + 5 · 8 = 120 bytes. Times of 2,000,000 and 4,000,000 ns: 2 and 4 ms, median 3 ms.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "results", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def side_results(side, labels, passes_ns):
    """Return what follows from the evidence on one model; passes_ns: its times, ns of one pass each.

    Keys: parameters, bytes, flops, right, accuracy, accuracy_interval, ms (the median), ms_interval (or None).
    """
    raise NotImplementedError("side_results: section 5, cell 2")


def changed_decisions(before, after, labels):
    """Count, picture by picture, what became of the decisions: {"same", "won", "lost", "other"}, together all N.

    won: wrong before and right after; lost: right before and wrong after; other: two different wrong answers.
    """
    raise NotImplementedError("changed_decisions: section 5, cell 2")

# %%
if __name__ == "__main__":
    half = Sequential(Linear(64, 256), GELU(), Linear(256, 10)).eval()  # not trained at all
    sides = [observed(task.model, task.images), observed(half, task.images)]
    print(side_results(sides[0], task.labels.tolist(), [410_000, 390_000, 400_000]))  # times made up, the rest observed
    print(changed_decisions(sides[0]["predictions"], sides[1]["predictions"], task.labels.tolist()))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-results", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "results"}
if __name__ == "__main__":
    def test_results():
        """Types of two sizes, a number without axes, medians, every fate of a decision."""
        side = {"arrays": [[[3, 2], "float32"], [[2], "int8"], [[], "float64"]], "flops": 77, "predictions": [1, 2, 3, 4]}
        got = side_results(side, [1, 2, 0, 4], [1_000_000, 50_000_000, 3_000_000])
        check("keys", sorted(got), ["accuracy", "accuracy_interval", "bytes", "flops", "ms", "ms_interval", "parameters", "right"])
        check("parameters: 6 + 2 + 1", got["parameters"], 9, {8: "a shape without axes is one number: prod([]) is 1", 3: "arrays are counted, not what they hold"})
        check("bytes: 6 of 4, 2 of 1, 1 of 8", got["bytes"], 34, {36: "4 bytes for every number: each type has its own size", 9: "numbers, not bytes", 26: "a shape without axes is one number", 272: "bits"})
        check("flops, right, accuracy", (got["flops"], got["right"], got["accuracy"]), (77, 3, 0.75), {
            (77, 3, 75.0): "a share, not percent", (77, 1, 0.25): "the wrong ones are counted"})
        check("its interval", np.round(got["accuracy_interval"], 4), [0.3006, 0.9544], {(0.0456, 0.6994): "right first, then total"})
        check("median of 1, 50 and 3 ms", got["ms"], 3.0, {
            18.0: "that is the mean: one slow round moves it", 3e6: "nanoseconds", 0.003: "seconds", 50.0: "the middle one of an unsorted list"})
        check("three samples have no interval", got["ms_interval"], None)
        times = [1_000_000 * n for n in (5, 1, 4, 2, 6, 3)]
        six = side_results(side, [1, 2, 0, 4], times)
        check("six samples have one", six["ms_interval"], [1.0, 6.0])
        check("lists, not tuples, so that JSON gives back the same", type(six["ms_interval"]).__name__ + " " + type(six["accuracy_interval"]).__name__, "list list")
        check("the times are left as they were", times[:3], [5_000_000, 1_000_000, 4_000_000])
        fates = changed_decisions([1, 1, 2, 1, 2, 2, 3], [1, 1, 1, 2, 3, 2, 4], [1, 1, 1, 1, 1, 1, 1])
        check("what became of seven decisions", fates, {"same": 3, "won": 1, "lost": 1, "other": 2})
        check("both wrong in the same way", changed_decisions([5, 5], [5, 6], [0, 0]), {"same": 1, "won": 0, "lost": 0, "other": 1})
        check("only lost", [changed_decisions([1, 2], [0, 2], [1, 2])[kind] for kind in ("same", "won", "lost", "other")], [1, 0, 1, 0], {
            (1, 1, 0, 0): "won and lost the wrong way round", (2, 0, 0, 0): "the labels alone are compared", (1, 0, 0, 1): "right before and wrong after is lost"})


    test_results()

# %% [markdown]
"""
Given is the rest: `results_of(raw, labels)` puts all together. A round is two blocks, so one pass took the round over 2 and over `block`. `make_report` writes it down: who, which steps, on which machine, under which budget, the raw evidence, what follows from it, and the verdicts. The labels are *not* in it: they come from the package, so nobody can bring labels that fit.
"""

# %%
#| export
def results_of(raw, labels):
    """Return everything that follows from raw evidence: of both sides, their speed, the changed decisions."""
    labels, rounds = [int(label) for label in labels], raw["rounds_ns"]
    start, final = ([pair[which] / 2 / raw["block"] for pair in rounds] for which in (0, 1))  # ns of one pass
    counts = changed_decisions(raw["start"]["predictions"], raw["final"]["predictions"], labels)
    change = {"difference": (counts["won"] - counts["lost"]) / len(labels),  # of accuracy, with its interval
              "interval": list(difference_interval(counts["lost"], counts["won"], len(labels)))}
    return {"start": side_results(raw["start"], labels, start), "final": side_results(raw["final"], labels, final),
            "speed": speed_results(rounds), "decisions": {**counts, **change}}

# %% [markdown]
"""
## 6. A report that can be checked

**Question.** Somebody sends you a report with `"bytes": 19000`. Which lies can you find without running anything?
"""

# %%
#| export
FORMAT, BOARD_FORMAT, VERSION = "tinytorch olympics report", "tinytorch olympics board", 1


@lru_cache(maxsize=1)
def held_out_labels():
    """Return the labels that every report is judged by, whole numbers: a report does not bring its own."""
    return tuple(load_digits("test")[1].tolist())


def make_report(name, steps, seed, budget, raw, warnings=()):
    """Return a report as plain data: who, how, where; the budget; raw evidence; what follows from it; the verdicts."""
    results = results_of(raw, held_out_labels())
    verdicts = budget.judge(results)
    return {"format": FORMAT, "version": VERSION, "name": name, "steps": [list(one) for one in steps], "seed": seed,
            "environment": environment(), "budget": asdict(budget), "raw": raw, "results": results,
            "verdicts": verdicts, "within_budget": all(verdict == "kept" for verdict in verdicts.values()),
            "warnings": list(warnings)}

# %% [markdown]
"""
First the form. A schema says which keys there must be, of which type, within which bounds. Ours is a JSON Schema (draft 2020-12), so programs of other people can read it, too. Given, and to be skipped on first reading: the schema, and `violations`, which checks data against those keywords that we use, in one sentence for each place.
"""

# %%
#| export
def record(**properties):
    """Return the schema of an object that has exactly these properties."""
    return {"type": "object", "properties": properties, "required": sorted(properties), "additionalProperties": False}


# no line breaks, control or direction marks, half characters: what stands in a table must not draw rows of its own
ONE_LINE = {"pattern": r"^[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]*(?![\s\S])"}
TEXT, COUNT = {"type": "string", "minLength": 1, **ONE_LINE}, {"type": "integer", "minimum": 0, "maximum": 2**53}
NUMBER = {"type": "number", "minimum": -1e300, "maximum": 1e300}
MAYBE = {"type": ["number", "null"], "minimum": 0, "maximum": 2**53}
LABEL = {"type": "integer", "minimum": 0, "maximum": 9}
RANGE = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}
MAYBE_RANGE = {**RANGE, "type": ["array", "null"]}
TIME = {"type": "integer", "minimum": 1, "maximum": 2**53}


def fixed(*items):
    """Return the schema of a list with exactly these items."""
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}

# %%
#| export
_SIDE = record(
    arrays={"type": "array", "items": fixed({"type": "array", "items": COUNT, "maxItems": 64}, {"enum": [
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
        "float64"]})},
    flops=COUNT, predictions={"type": "array", "items": LABEL, "minItems": 355, "maxItems": 355})
_SIDE_RESULTS = record(parameters=COUNT, bytes=COUNT, flops=COUNT, right=COUNT, accuracy=NUMBER,
                       accuracy_interval=RANGE, ms=NUMBER, ms_interval=MAYBE_RANGE)
_SETTING = {"type": ["string", "number", "boolean", "null"], **ONE_LINE}
_VERDICT = {"enum": ["kept", "broken", "undecided"]}
_LIMITS = {"max_bytes": MAYBE, "max_flops": MAYBE, "max_ratio": MAYBE, "min_accuracy": {**MAYBE, "maximum": 1},
           "max_loss": {**MAYBE, "maximum": 1}}

SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", **record(
    format={"const": FORMAT}, version={"const": VERSION}, name={**TEXT, "maxLength": 80}, seed=COUNT,
    steps={"type": "array", "items": {"type": "array", "prefixItems": [TEXT], "items": _SETTING, "minItems": 1}},
    environment=record(device={"const": "cpu"}, cpu=TEXT, python=TEXT, numpy=TEXT, blas=TEXT, blas_threads=COUNT),
    budget=record(**_LIMITS),
    raw=record(start=_SIDE, final=_SIDE, block={**COUNT, "minimum": 1},
               rounds_ns={"type": "array", "items": fixed(TIME, TIME), "minItems": 1}),
    results=record(start=_SIDE_RESULTS, final=_SIDE_RESULTS,
                   speed=record(ratio=NUMBER, interval=MAYBE_RANGE,
                                verdict={"enum": ["faster", "slower", "indistinguishable"]}),
                   decisions=record(same=COUNT, won=COUNT, lost=COUNT, other=COUNT, difference=NUMBER,
                                    interval=RANGE)),
    verdicts={**record(**dict.fromkeys(_LIMITS, _VERDICT)), "required": []}, within_budget={"type": "boolean"},
    warnings={"type": "array", "items": {"type": "string", **ONE_LINE}})}

# %%
#| export
KINDS = {bool: ("boolean",), int: ("integer", "number"), float: ("number",), str: ("string",), list: ("array",),
         dict: ("object",), type(None): ("null",)}  # an integer is a number, too; a boolean is neither


def shown(value):
    """Return a value as a text of at most 80 characters, for a sentence about it."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number too long to be written"
    return text if len(text) <= 80 else f"{text[:77]}..."


def misfit(value, schema):
    """Return what is wrong with a value itself, whatever is inside it, in a few words; None when nothing is."""
    kinds = KINDS.get(type(value)) or (f"{type(value).__name__}, which JSON has not",)
    wanted = schema.get("type", kinds)
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if kinds[0] not in wanted and kinds[-1] not in wanted:
        return f"is {kinds[0]}; want {' or '.join(wanted)}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and not any(type(value) is type(one) and value == one for one in allowed):
        return f"is {shown(value)}; want {' or '.join(map(repr, allowed))}"
    if "number" in kinds:
        least, most = schema.get("minimum", -inf), schema.get("maximum", inf)
        if not (least <= value <= most and -inf < value < inf):
            return f"is {shown(value)}; want a finite number from {least} to {most}"
    if "string" in kinds or "array" in kinds:
        low, high = (schema.get(end + ("Length" if "string" in kinds else "Items")) for end in ("min", "max"))
        if not (low or 0) <= len(value) <= (inf if high is None else high):
            return f"has length {len(value)}; want {low or 0} to {'any' if high is None else high}"
    if "string" in kinds and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"is {shown(value)}; want one line, of whole characters that can be seen"
    return None


def violations(value, schema, where="report"):
    """Return one sentence for each place where plain data breaks a schema; understood are the keywords in SCHEMA.

    Stricter than JSON Schema in one thing: 3.0 is no integer here, since in Python it is none.
    """
    wrong = misfit(value, schema)
    if wrong:
        return [f"{where} {wrong}"]
    found = []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{where} has no {key!r}; want it" for key in schema.get("required", ()) if key not in value]
        found += [f"{where} has {shown(key)}, which nobody knows; leave it out" for key in value
                  if key not in known and not others]
        for key in value:
            found += violations(value[key], known[key], f"{where}.{key}") if key in known else []
    elif isinstance(value, list):
        places = [*schema.get("prefixItems", ()), *([schema["items"]] * len(value) if "items" in schema else ())]
        for number, (inner, one) in enumerate(zip(value, places)):
            found += violations(inner, one, f"{where}[{number}]")
    return found

# %%
if __name__ == "__main__":
    for wrong in ({"low": 1}, {"low": 1, "high": "2"}, {"low": -1, "high": 2.5, "hihg": 3}):
        print(wrong, *violations(wrong, record(low=COUNT, high=COUNT), "range"), sep="\n   ")

# %% [markdown]
"""
Then the content. Whatever was concluded is computed again from the raw evidence, and what the report says is compared with that, place by place. One wrong place is one sentence, and it says where.

**Task.** Write `differences(said, found, where="results")`, a list of sentences, empty when all agrees. Both are plain data.

- Two dicts with the **same keys**: compare value by value; the place is `f"{where}.{key}"`.
- Two lists of the **same length**: item by item; the place is `f"{where}[{i}]"`.
- A float that was found: within a relative `1e-9` (another machine may round a logarithm differently), and a number was said.
- Everything else must be equal, **and of the same type**: in Python `True == 1` and `1 == 1.0`, in a report they are different things.
- What does not agree is one sentence, beginning with the place: `f"{where}: the report says {said!r}, computed again it is {found!r}"`.

Example: `differences({"a": [1, 2]}, {"a": [1, 5]}, "x")` is `["x.a[1]: the report says 2, computed again it is 5"]`.

<details><summary>Hint 1: idea</summary>
The function calls itself for what is inside, with a longer <code>where</code>, and strings the lists together.
</details>
<details><summary>Hint 2: approach</summary>
Three questions in this order, each with a <code>return</code>: both dicts with equal sets of keys? both lists of equal length? equal? What falls through all three is the one sentence. So different keys, different lengths and different types need no case of their own.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Said <code>{"b": 1}</code>, found <code>{"c": 1}</code>: the keys differ, so this is one sentence about the whole dict. Said <code>[[1], [2]]</code>, found <code>[[1], [3]]</code>: one sentence, about <code>[1][0]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "differences", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def differences(said, found, where="results"):
    """Return one sentence for each place where what is said is not what was found; [] when all agrees.

    Plain data: dicts key by key, lists item by item, floats within a relative 1e-9, everything else exactly.
    """
    raise NotImplementedError("differences: section 6, cell 6")

# %%
if __name__ == "__main__":
    print(*differences({"bytes": 19_000, "ms": [0.5, 0.7], "ok": 1}, {"bytes": 19_210, "ms": [0.5, 0.7 + 1e-15], "ok": True}), sep="\n")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-differences", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "check"}
if __name__ == "__main__":
    def test_differences():
        """Nested places, rounding, types, keys, lengths, NaN."""
        same = {"a": [1, 2.5, None, "x", [True, {}]], "b": {"c": []}}
        check("the same", differences(same, deepcopy(same)), [])
        check("one place", differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 5}]}, "x"), ["x.a[1].b: the report says 2, computed again it is 5"], {
            ("x.a[1].b: the report says 5, computed again it is 2",): "said and found have changed places", ("x: the report says {'a': [1, {'b': 2}]}, computed again it is {'a': [1, {'b': 5}]}",): "say the place itself: go into dicts and lists", (): "it was not found"})
        check("three places", [line.split(":")[0] for line in differences({"a": 1, "b": [1, 2], "c": "p"}, {"a": 2, "b": [9, 2], "c": "q"}, "r")], ["r.a", "r.b[0]", "r.c"], {
            ("r.a",): "it stops at the first"})
        check("rounded otherwise", differences([0.1 + 0.2, 1e-30], [0.3, 1e-30 * (1 + 1e-12)]), [], {
            ("results[0]: the report says 0.30000000000000004, computed again it is 0.3", "results[1]: the report says 1e-30, computed again it is 1.000000000001e-30"): "floats may differ by a relative 1e-9"})
        check("more than that", [line.split(":")[0] for line in differences([1.00001, 1e-12, 0.0], [1.0, 2e-12, 1e-300], "x")], ["x[0]", "x[1]", "x[2]"], {
            ("x[0]",): "an absolute tolerance hides small numbers: relative to what was found", (): "that is more than a relative 1e-9"})
        check("a whole number where a float was found", (differences([2], [2.0]), len(differences([2.0], [2]))), ([], 1))
        check("True is not 1", [len(differences(said, found)) for said, found in ((True, 1), (1, True), (True, 1.0), (0, False), (None, 0), ("1", 1))], [1, 1, 1, 1, 1, 1], {
            (0, 0, 0, 0, 1, 1): "in Python True == 1: compare the types, too", (0, 0, 1, 0, 1, 1): "in Python True == 1: compare the types, too", (1, 1, 0, 1, 1, 1): "True passes as a float: type(said) in (int, float)"})
        check("NaN, infinity", [len(differences(said, 1.0)) for said in (float("nan"), float("inf"))], [1, 1], {(0, 1): "a comparison with NaN is never true: ask what is close, not what is far", (0, 0): "ask what is close, not what is far"})
        check("keys and lengths", [len(differences(said, {"a": [1, 2]})) for said in ({"a": [1]}, {"a": [1, 2, 3]}, {}, {"a": [1, 2], "b": 0}, [1, 2], None)], [1, 1, 1, 1, 1, 1], {
            (0, 0, 1, 1, 1, 1): "the shorter list decides: lengths must be equal", (1, 1, 1, 0, 1, 1): "a key too many was not noticed", (0, 0, 1, 0, 1, 1): "a key and an item too many were not noticed"})


    test_differences()

# %% [markdown]
"""
With it, the check of a whole report is short, and given. The schema comes first: nothing is computed from data of the wrong form.
"""

# %%
#| export
def check_report(report):
    """Return one sentence for each thing that does not hold; [] when the report follows from its own raw evidence.

    First the schema; where that holds, results, verdicts and ``within_budget`` are computed again. It cannot see
    whether the samples were ever taken: for what needs no clock, ``replay`` can.
    """
    broken = violations(report, SCHEMA)
    if broken:
        return broken
    results = results_of(report["raw"], held_out_labels())
    verdicts = Budget(**report["budget"]).judge(results)
    within = all(verdict == "kept" for verdict in verdicts.values())
    return [*differences(report["results"], results), *differences(report["verdicts"], verdicts, "verdicts"),
            *differences(report["within_budget"], within, "within_budget")]

# %% [markdown]
"""
**Be the liar.** A report of nothing at all: no step, so the final model is the start model. Then somebody improves it.
"""

# %%
if __name__ == "__main__":
    raw = {"start": sides[0], "final": deepcopy(sides[0]), "block": 1, "rounds_ns": [[801_000 + 900 * n, 799_000 + 1200 * n] for n in range(8)]}
    honest = make_report("nothing", [], 0, Budget(max_bytes=40_000, min_accuracy=0.9), raw)
    print("honest:", check_report(honest), honest["verdicts"])


    def lie(change):
        """Return a copy of the honest report in which ``change`` was at work."""
        report = deepcopy(honest)
        change(report)
        return report


    lies = {
        "fewer bytes": lambda report: report["results"]["final"].update(bytes=19_210),
        "a verdict": lambda report: report["verdicts"].update(max_bytes="kept"),
        "a budget that fits afterwards": lambda report: report["budget"].update(max_bytes=80_000),
        "a row of samples": lambda report: report["raw"]["rounds_ns"].append([800_000, 200_000]),
        "one decision": lambda report: report["raw"]["final"]["predictions"].__setitem__(0, (report["raw"]["final"]["predictions"][0] + 1) % 10),
        "a key nobody knows": lambda report: report.update(certified=True),
        "a number that is none": lambda report: report["results"]["speed"].update(ratio=float("nan")),
    }
    for what, change in lies.items():
        print(f"{what}:", *check_report(lie(change))[:2], sep="\n   ")

# %% [markdown]
"""
Every one of them is found, since a change in one place no longer follows from the others.

**Now a better liar.** Change the *evidence*, and conclude honestly from it:
"""

# %%
if __name__ == "__main__":
    invented = deepcopy(honest["raw"])
    invented["final"]["arrays"] = [[shape, "int8"] for shape, _ in invented["final"]["arrays"]]
    invented["rounds_ns"] = [[baseline, candidate // 2] for baseline, candidate in invented["rounds_ns"]]
    clever = make_report("nothing", [], 0, Budget(**honest["budget"]), invented)
    print("found:", check_report(clever), " within the budget:", clever["within_budget"], " speed:", clever["results"]["speed"]["verdict"])

# %% [markdown]
"""
Nothing is found, and nothing can be: **a check proves that the conclusions follow from the samples, not that the samples were ever taken.** Against that helps only doing it again. What needs no clock can be repeated by anyone, because an entry names its seed and its steps: `replay`, in section 9, does it, and catches this one. Times cannot be repeated elsewhere at all. That is why benchmarks that matter are run by those who publish them.
"""

# %% [markdown]
"""
## 7. Files, whole or not at all

**Question.** What can happen to a report between two machines?

Given, and short. Three things go wrong with files of results. The program stops half way, and half a file is left: so the text goes into a file of another name, which takes the old one's place when it is complete. `NaN` is written, which is no JSON, and another program stops at it: so it is refused on both ways. The same data is written with its keys in another order, or 2.0 as 2, and looks like other data: so there is one **canonical** text, keys sorted, without spaces, whole numbers without a point.
"""

# %%
#| export
def _whole(value):
    """Return plain data in which a float that is a whole number is an integer: JSON does not tell 2.0 from 2."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value


def canonical(value):
    """Return plain data as one text, the same whatever the order of keys was; ``ValueError`` for NaN and infinity."""
    return json.dumps(_whole(value), sort_keys=True, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def save_json(path, value):
    """Write plain data to ``path``, whole or not at all: an old file stays until the new one is on the disk."""
    text, target = canonical(value), Path(os.path.realpath(os.fsdecode(path)))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    part = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _once(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return found


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


def load_json(path):
    """Read plain data; ``ValueError`` for what strict JSON does not allow: NaN, infinity, a key twice, half a file."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}; take it from whoever wrote it again") from None

# %%
#| export
def sound(report, what="the report"):
    """Return the report; ``ValueError`` with the first sentence of ``check_report`` when it does not hold."""
    broken = check_report(report)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise ValueError(f"{what} does not hold: {broken[0]}{more}; make it again with run")
    return report


def save_report(path, report):
    """Write a report that holds to a file."""
    save_json(path, sound(report))


def load_report(path):
    """Read a report that holds from a file."""
    return sound(load_json(path), f"the report in {path}")

# %%
if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder) / "honest.json"
        save_report(file, honest)
        print(f"{file.stat().st_size:,} bytes; read again, the same: {load_report(file) == honest}")
        for text in ('{"a": NaN}', '{"a": 1, "a": 2}', '{"a": 1'):
            file.write_text(text, encoding="utf-8")
            try:
                load_report(file)
            except ValueError as error:
                print(str(error).replace(str(file), file.name))
        try:
            save_report(file, lie(lies["fewer bytes"]))
        except ValueError as error:
            print(error)
        print("and the file is as it was:", file.read_text(encoding="utf-8"))

# %% [markdown]
"""
## 8. A board that merges

**Question.** Five people keep a board each, send each other files, and merge what they get, in any order, some of it twice. What must hold so that in the end all five have the same file?

Three things, and they have names:

| | | so that |
|---|---|---|
| commutative | `merge(a, b) = merge(b, a)` | nobody has to be first |
| associative | `merge(merge(a, b), c) = merge(a, merge(b, c))` | it does not matter who met whom |
| idempotent | `merge(a, a) = a` | a file that comes twice does no harm |

The union of sets has all three. So let a board be a **set** of reports. For that, one must be able to say whether two reports are the same; and to write a set into a file, its items must stand in an order that depends on nothing but themselves.

**Task.** Write `fingerprint(report)`: the SHA-256 of its canonical text (`canonical(report)`, encoded as UTF-8), as hexadecimal digits. `hashlib` is imported: `hashlib.sha256(some_bytes).hexdigest()`. Then write `merge(first, second)`: a new board, like `first` but with the reports of both, each once, ordered by the bytes of the final model (`report["results"]["final"]["bytes"]`), and by fingerprint where those are equal.
Given are its refusals. Neither board is changed, and the new one shares nothing with them (`deepcopy`): who writes into the merged board must not write into yours.

Example: boards with the reports A, B and B, C, of 500, 100 and 300 bytes, merge into B, C, A.

<details><summary>Hint 1: idea</summary>
A dict with fingerprints as keys holds each report once, whatever comes twice.
</details>
<details><summary>Hint 2: approach</summary>
<code>{fingerprint(report): report for report in [...]}</code>, then sort the keys by a tuple <code>(bytes, fingerprint)</code>. <code>{**first, "reports": [...]}</code> is a new dict with one value replaced.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Words in place of reports, their length in place of bytes: "tee", "saft" and "saft", "rum" merge into "rum", "tee", "saft": three letters first, and of equal ones the alphabet decides.
</details>
"""

# %%
#| export
def new_board(budget):
    """Return an empty board for reports with this budget, plain data."""
    return {"format": BOARD_FORMAT, "version": VERSION, "budget": asdict(budget), "reports": []}


def check_board(board):
    """Return the board; ``ValueError`` unless it is one and each of its reports holds and has its budget."""
    kinds = {"format": {"const": BOARD_FORMAT}, "version": {"const": VERSION}, "budget": SCHEMA["properties"]["budget"],
             "reports": {"type": "array"}}
    broken = violations(board, record(**kinds), "board")
    if broken:
        raise ValueError(f"{broken[0]}; take the board from whoever wrote it again")
    for number, report in enumerate(board["reports"]):
        sound(report, f"report {number} of the board")
        if report["budget"] != board["budget"]:
            raise ValueError(f"report {number} of the board has the budget {report['budget']}, the board "
                             f"{board['budget']}; one board is for one budget")
    return board

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "merge", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def fingerprint(report):
    """Return 64 hexadecimal digits that stand for all of a report: the SHA-256 of its canonical text in UTF-8."""
    raise NotImplementedError("fingerprint: section 8, cell 2")


def merge(first, second):
    """Return a new board with the reports of both, each once, by bytes and then by fingerprint; neither is changed.

    ``ValueError`` when the budgets differ, or a board or report does not hold.
    """
    for board in (first, second):
        check_board(board)
    if first["budget"] != second["budget"]:
        raise ValueError(f"the boards have the budgets {first['budget']} and {second['budget']}; want one budget")
    raise NotImplementedError("merge: section 8, cell 2")

# %%
if __name__ == "__main__":
    def made_up(name, width, cpu="a processor", scale=1.0, budget=Budget(max_bytes=60_000), wrong=9):
        """Return a report that holds, of a model that nobody trained: for trying out boards."""
        labels = held_out_labels()
        guesses = [(label + 1) % 10 if i < wrong else label for i, label in enumerate(labels)]
        side = {"arrays": [[[64, width], "float32"]], "flops": 128 * width, "predictions": guesses}
        rounds = [[2_000_000 + n, int((1_000_000 + 7000 * n) * scale)] for n in range(10)]
        report = make_report(name, [["prune", 0.5]], 0, budget, {"start": side, "final": side, "rounds_ns": rounds, "block": 1})
        return {**report, "environment": {**report["environment"], "cpu": cpu}}


    def board_of(*reports):
        """Return a board of reports as they are handed in, in any order."""
        return {**new_board(Budget(**reports[0]["budget"])), "reports": list(reports)}


    ada, bob, cleo = made_up("ada", 200), made_up("bob", 40), made_up("cleo", 120)
    board = merge(board_of(ada, bob), board_of(bob, cleo))
    print([(report["name"], report["results"]["final"]["bytes"], fingerprint(report)[:8]) for report in board["reports"]])

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-merge", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "board"}
if __name__ == "__main__":
    def names(board):
        """Return the names on a board, in its order."""
        return [report["name"] for report in board["reports"]]


    def test_merge():
        """Fingerprints; once, in order, in any order of merging; nothing shared; refusals."""
        check("fingerprint of {'b': 1, 'a': 'é'}", fingerprint({"b": 1, "a": "é"})[:16], "aa58fba8483623be", {
            "763b30b943411fdf": "the keys as they came: want the canonical text", "799d49d45db67c58": "with spaces: want the canonical text", "6d9eb45284090145": "escapes in place of é: want the canonical text"})
        check("whatever the order of the keys", fingerprint({"b": 1, "a": {"d": 2, "c": 3}}) == fingerprint({"a": {"c": 3, "d": 2}, "b": 1}), True)
        check("64 digits", (len(fingerprint([])), type(fingerprint([])).__name__), (64, "str"), {(32, "bytes"): "want hexadecimal digits, as a text"})
        one, two, three, twin = (made_up(*given) for given in (("one", 30), ("two", 10), ("three", 20), ("twin", 20)))
        left, right = board_of(one, two), board_of(two, three)
        before = canonical([left, right])
        both = merge(left, right)
        check("each once, by bytes", names(both), ["two", "three", "one"], {
            ("two", "two", "three", "one"): "what stands on both boards is one report", ("one", "two", "three"): "not ordered by the bytes of the final model", ("one", "three", "two"): "the smallest comes first", ("two", "three"): "those of the second board only", ("two", "one"): "those of the first board only"})
        check("a board", sorted(both), ["budget", "format", "reports", "version"])
        check("commutative", canonical(merge(right, left)) == canonical(both), True)
        ties = [merge(board_of(three, twin), board_of(two)), merge(board_of(two), board_of(twin, three)), merge(merge(board_of(twin), board_of(two)), board_of(three))]
        check("equal bytes: three ways, one board", len({canonical(tied) for tied in ties}), 1, {
            2: "of two reports with equal bytes the one that came first stands first: let the fingerprint decide", 3: "of two reports with equal bytes the one that came first stands first: let the fingerprint decide"})
        check("associative", canonical(merge(merge(left, right), board_of(twin))) == canonical(merge(left, merge(right, board_of(twin)))), True)
        check("idempotent", canonical(merge(both, both)) == canonical(both), True)
        again = merge(board_of(one), board_of({**one, "name": "one again"}))
        check("two entries that differ in the name", sorted(names(again)), ["one", "one again"], {("one",): "they are not the same entry: the fingerprint is of all of the report"})
        both["reports"][0]["name"] = "spoilt"
        check("the boards merged are left as they were", canonical([left, right]) == before, True, {False: "changed, or shared with the new board: deepcopy what you take"})
        check("nothing and nothing", names(merge(new_board(Budget(max_bytes=1)), new_board(Budget(max_bytes=1)))), [])
        check_raises("two budgets", ValueError, lambda: merge(left, new_board(Budget(max_bytes=1))), must_say="one budget")
        check_raises("a report that does not hold", ValueError, lambda: merge(left, board_of({**three, "within_budget": False})), must_say="within_budget")


    test_merge()

# %% [markdown]
"""
A board in a file is `submit(path, report)` away, and `merge_files(mine, yours, hers)` merges files into the first; both are given.

**Who is ahead?** Bytes are exact: fewer is better, equal shares a place, as in sport. Times have intervals, and two intervals that overlap are a difference that these measurements could not see. So let those two share a place, too? **Guess** what happens with three:

```
A   ├──────┤
B        ├──────┤
C             ├──────┤
```

A and B cannot be told apart, B and C cannot be told apart, and A is better than C *for certain*. "Cannot be told apart" is not handed on from one to the next as "equal" is, so there are no groups to share a place. What can be counted for each is this: how many are better **for certain**, their whole range on the better side of mine?

**Task.** Write `places(ranges, larger=False)`: for each `(low, high)`, 1 + how many others are better for certain. Smaller is better, unless `larger`. Ranges that touch in one point are not certain.

Example: exact values 5, 7, 7, 9 are `(5, 5)` and so on: places 1, 2, 2, 4. A, B, C of the picture: 1, 1, 2.

<details><summary>Hint 1: idea</summary>
For certain better than mine: its worst end is better than my best end.
</details>
<details><summary>Hint 2: approach</summary>
Smaller is better: count the ranges whose <code>high</code> is below my <code>low</code>. A range never counts itself, so it need not be left out. For larger, turn all ranges round by a minus sign, ends changed.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
(1, 4), (3, 5), (6, 7), larger is better: nobody is above (6, 7): 1. Above (3, 5) is (6, 7): 2. Above (1, 4) is (6, 7) only, since (3, 5) overlaps: 2.
</details>
"""

# %%
#| export
def submit(path, *reports):
    """Put reports on the board in the file ``path``, which is made where there is none; return the board.

    Two that write at the same moment: the later file wins. Nothing breaks, and merging again brings back the rest.
    """
    if not reports:
        raise ValueError("no report came; want at least one")
    new = {**new_board(Budget(**sound(reports[0])["budget"])), "reports": list(reports)}
    board = merge(load_json(path), new) if Path(path).exists() else merge(new, new)
    save_json(path, board)
    return board


def merge_files(target, *others):
    """Merge boards in files into the file ``target``, which is made where there is none; return the board."""
    files = [Path(one) for one in ((target,) if Path(target).exists() else ()) + others]
    if not files:
        raise ValueError(f"there is no board {target}, and no other came; want at least one file")
    board = load_json(files[0])
    for file in files:
        board = merge(board, load_json(file))
    save_json(target, board)
    return board

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "places", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def places(ranges, larger=False):
    """Return each one's place: 1 + how many are better for certain; ranges: [(low, high), ...], a value lies in it.

    Better is smaller, or ``larger``; for certain: the two ranges do not touch.
    """
    raise NotImplementedError("places: section 8, cell 6")

# %%
if __name__ == "__main__":
    print("the picture:", places([(0, 7), (5, 12), (10, 17)]))
    counts = [346, 345, 343, 340, 336, 330]
    print("six accuracies on 355 digits:", [f"{right / 355:.1%}" for right in counts], "places", places([accuracy_interval(right, 355) for right in counts], larger=True))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-places", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "board"}
if __name__ == "__main__":
    def test_places():
        """Exact values, intervals, both directions, touching."""
        check("5, 7, 7, 9, exactly", places([(5, 5), (7, 7), (7, 7), (9, 9)]), [1, 2, 2, 4], {
            (1, 2, 2, 3): "two on place 2 leave no place 3: count those that are better", (1, 2, 3, 4): "equal ones share a place", (2, 4, 4, 5): "a range counts itself: touching is not certain", (0, 1, 1, 3): "the best has place 1", (4, 2, 2, 1): "smaller is better"})
        check("in any order", places([(9, 9), (7, 7), (5, 5), (7, 7)]), [4, 2, 1, 2], {(1, 2, 2, 4): "places in the order of the ranges given"})
        check("A, B, C", places([(0, 7), (5, 12), (10, 17)]), [1, 1, 2], {
            (1, 1, 1): "A is better than C for certain", (1, 2, 3): "ranked by the middle, or by one end: overlapping ranges cannot be told apart", (1, 1, 3): "B is not better than C for certain"})
        check("larger is better", places([(1, 4), (3, 5), (6, 7)], larger=True), [2, 2, 1], {(1, 1, 3): "larger is not looked at", (3, 2, 1): "ranked by one end: overlapping ranges cannot be told apart"})
        check("touching", places([(1, 2), (2, 3)]) + places([(1, 2), (2, 3)], larger=True), [1, 1, 1, 1], {(1, 2, 2, 1): "ranges that touch in one point are not certain"})
        check("nothing known of one", places([(1, 2), (0, np.inf), (3, 4)]), [1, 1, 2])
        check("nobody", places([]), [])
        given = [(3, 4), (1, 2)]
        places(given, larger=True)
        check("the ranges are left as they were", given, [(3, 4), (1, 2)])


    test_places()

# %% [markdown]
"""
Six accuracies from 97.5 % down to 93.0 %, and a certain difference only between the first and the last. On 355 digits, a ranking by accuracy is mostly noise, and now the board says so.

Given are `standings` and `standings_table`. Bytes and FLOPs come out the same everywhere, so they are ranked across all machines. Times, and ratios of times, are ranked **for each machine by itself**: there is no common clock, and half of a slow machine's time may be more than all of a fast one's. What a machine is, is read from the report: processor, versions, threads. Two of one kind look like one, so run what you want to compare on one and the same.
"""

# %%
#| export
EVENTS = {  # what can be ranked: how to find its range in results, whether larger is better, whether a clock was used
    "bytes": (lambda results: (results["final"]["bytes"],) * 2, False, False),
    "flops": (lambda results: (results["final"]["flops"],) * 2, False, False),
    "accuracy": (lambda results: tuple(results["final"]["accuracy_interval"]), True, False),
    "time": (lambda results: tuple(results["final"]["ms_interval"] or (0.0, inf)), False, True),
    "ratio": (lambda results: tuple(results["speed"]["interval"] or (0.0, inf)), False, True)}


def machine_of(report):
    """Return the machine of a report in one line: times of two reports are comparable only if it is the same.

    It is what the report says of its environment: two machines of one kind, with the same versions, look like one.
    """
    where = report["environment"]
    return (f"{where['cpu']}, Python {where['python']}, NumPy {where['numpy']}, {where['blas']}, "
            f"{where['blas_threads']} BLAS thread(s)")


def standings(board, event="bytes"):
    """Return the ranking of an event: {heading: [{place, name, low, high, fingerprint}, ...]}, best first.

    What needs no clock is ranked across all machines, under one heading. "time" and "ratio" have a heading for each
    machine, and no place compares two of them. A report outside the budget, or undecided, has the place None.
    """
    if event not in EVENTS:
        raise ValueError(f"there is no event {event!r}; want one of {', '.join(EVENTS)}")
    range_of, larger, clocked = EVENTS[event]
    found: dict = {}
    once = {fingerprint(report): report for report in check_board(board)["reports"]}  # a file may hold one twice
    for report in once.values():
        found.setdefault(machine_of(report) if clocked else "all machines", []).append(report)
    return {heading: _ranked(found[heading], range_of, larger) for heading in sorted(found)}


def _ranked(reports, range_of, larger):
    within = [report for report in reports if report["within_budget"]]
    rows = []
    for report, place in zip(within, places([range_of(report["results"]) for report in within], larger)):
        rows.append((place, report))
    rows += [(None, report) for report in reports if not report["within_budget"]]
    plain = [{"place": place, "name": report["name"], **dict(zip(("low", "high"), range_of(report["results"]))),
              "fingerprint": fingerprint(report)} for place, report in rows]
    return sorted(plain, key=lambda row: (row["place"] or inf, -row["high"] if larger else row["low"],
                                          row["fingerprint"]))


def standings_table(board, event="bytes"):
    """Return the ranking of an event as text; where a clock was used, it says that machines are not compared."""
    lines, found = [], standings(board, event)
    for heading, rows in found.items():
        lines.append(f"{event}, {heading}")
        for row in rows:
            ends = (row["low"], row["high"])
            low, high = (f"{end:,.4g}" if isinstance(end, float) else f"{end:,}" for end in ends)
            place = "  -" if row["place"] is None else f"{row['place']:3}"
            lines.append(f"{place}  {row['name']:28.28}  {low if low == high else f'{low} to {high}'}")
    if EVENTS[event][2] and len(found) > 1:
        lines.append("times of different machines are not compared: each has places of its own")
    return "\n".join(lines)

# %%
if __name__ == "__main__":
    board = merge(board_of(ada, bob, cleo), board_of(made_up("dora", 150, cpu="another processor", scale=0.4), made_up("emil", 300)))
    for event in ("bytes", "time"):
        print(standings_table(board, event), end="\n\n")

# %% [markdown]
"""
Dora's time is the shortest number on the board, and she is first on a list of her own. Emil's model is larger than the budget allows, so he is on the board, and has no place.
"""

# %% [markdown]
"""
## 9. The whole chain

**Question.** Which chain keeps the budget, and can somebody else see that it does?

Everything is there. One function is missing between a list of steps and a report: the one that measures.

**Task.** Write `measured(start, final, images, rounds=20, clock=None, seed=0)`. Return two things: the evidence, a dict with `start` and `final` (what `observed` says of each), `rounds_ns` and `block`, and the list of warnings that `compare` gave.

- Compare `start` (the baseline) with `final` on `images`, both in evaluation mode and without a graph, with these `rounds` and this `seed`, by a `Profiler(clock=clock)`. They are different models, so `atol=Benchmark.DIFFERENT`: that an output moved is allowed here, and what it does to decisions is in the predictions.
- `rounds_ns` and `block` are in its result, and so are the warnings.

Example: `rounds=6` gives six pairs in `rounds_ns`.

<details><summary>Hint 1: idea</summary>
Two calls of <code>observed</code>, one of <code>compare</code>.
</details>
<details><summary>Hint 2: approach</summary>
<code>with in_mode(start, False), in_mode(final, False), no_grad():</code> around the comparison. Its result has the key <code>"warnings"</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>return {"start": ..., "final": ..., "rounds_ns": ..., "block": ...}, found["warnings"]</code> is a pair: a dict, then a list.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "measured", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def measured(start, final, images, *, rounds=20, clock=None, seed=0):
    """Measure two models and return (raw evidence, warnings of the comparison); images (N, D) are one pass.

    Keys of the evidence: start and final (see ``observed``), rounds_ns and block (see ``compare``; so is ``clock``).
    """
    raise NotImplementedError("measured: section 9, cell 1")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-measured", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "pipeline"}
if __name__ == "__main__":
    from tinytorch.core.tensor import thread_state

    calls = []  # (in training mode?, with a graph?) of each pass through a Taking


    class Taking(Layer):
        """Hands on what it is given, and takes so many nanoseconds of a clock made of a list."""

        def __init__(self, ns, now):
            self.ns, self.now = ns, now

        def forward(self, x):
            self.now[0] += self.ns
            calls.append((self.training, thread_state().grad_enabled))
            return x


    def test_measured():
        """With a clock that the models themselves move: evidence of both sides, whose time is whose, modes."""
        rng, now = np.random.default_rng(0), [0]
        start = Sequential(Linear(3, 5, rng=rng), Dropout(0.5, rng=rng), Linear(5, 2, rng=rng), Taking(100, now))  # in training mode
        final = Sequential(Linear(3, 2, rng=rng), Taking(10, now))  # in training mode, too
        calls.clear()
        evidence, said = measured(start, final, Tensor(rng.standard_normal((7, 3))), rounds=6, clock=lambda: now[0], seed=5)
        check("evidence", sorted(evidence), ["block", "final", "rounds_ns", "start"])
        check("flops of one sample, start and final", (evidence["start"]["flops"], evidence["final"]["flops"]), (50, 12), {(12, 50): "start and final have changed places"})
        check("so many predictions", [len(evidence[side]["predictions"]) for side in ("start", "final")], [7, 7])
        check("six rounds: start takes 100 a pass, final 10", evidence["rounds_ns"], [[200, 20]] * 6, {
            ((20, 200),) * 6: "the baseline is start: compare(start, final, ...)", ((200, 20),) * 20: "rounds is not handed on"})
        check("one pass in a block, by a clock that is handed in", evidence["block"], 1)
        check("what compare warned of, in a list", said, [])
        check("a pass in training mode? one with a graph?", [any(call[way] for call in calls) for way in (0, 1)], [False, False], {
            (False, True): "what is timed keeps a graph: put no_grad() around the comparison, too",
            (True, False): "what is timed is in training mode: in_mode(..., False) of both models around the comparison",
            (True, True): "neither mode is set for what is timed: in_mode of both models and no_grad() around the comparison"})
        check("start is in training mode, as it was", start.training and start.layers[1].training, True, {False: "switched over, and not back: use in_mode in a with"})


    test_measured()

# %%
#| export
def run(name, steps, budget, task=None, *, rounds=20, clock=None):
    """Go the whole way and return the report: load and train (or take ``task``), optimize, prove, measure, judge."""
    steps = [list(one) if isinstance(one, tuple) else one for one in steps]
    broken = [line for key, value in (("name", name), ("steps", steps))
              for line in violations(value, SCHEMA["properties"][key], f"report.{key}")]
    if broken:  # said before anything is trained
        raise ValueError(f"{broken[0]}; a step is a list, a name and its settings: [['prune', 0.5], ['fuse']]")
    if not isinstance(budget, Budget):
        raise TypeError(f"the budget is a {type(budget).__name__}; want a Budget; without limits it is Budget()")
    task = prepare() if task is None else task
    final = apply_steps(steps, task)
    raw, warnings = measured(task.model, final, task.images, rounds=rounds, clock=clock, seed=task.seed)
    return sound(make_report(name, steps, task.seed, budget, raw, warnings))


def replay(report):
    """Train and optimize again as a report says and return one sentence for each thing that comes out differently.

    Only what needs no clock. On another machine, sums may be rounded otherwise and a close decision may flip.
    """
    task = prepare(sound(report)["seed"])
    again = {"start": task.model, "final": apply_steps(report["steps"], task)}
    return [line for side, model in again.items()
            for line in differences(report["raw"][side], observed(model, task.images), f"raw.{side}")]

# %% [markdown]
"""
`run(name, steps, budget, task)` goes the whole way: load and train, or take the task that is there; optimize; prove; measure; judge; report. First, what is **exact** is proved to be exact, with Module 14's own tolerance and the decision beside it. `"fuse"` promises the same results but for rounding:
"""

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import compare_table

    with no_grad():
        exact = profiler.compare(task.model, apply_steps([["fuse"]], task), task.images, decision=lambda scores: scores.argmax(axis=-1), rounds=8)
    print(compare_table(exact))

# %% [markdown]
"""
The other steps lose something. For them no tolerance is defended; what counts is the decisions, and the budget. Here it is: about a fifth of the bytes, half of the FLOPs, six tenths of the time, and at most three of a hundred digits lost, *for certain*.

**Bet** before you run. Which of these keeps it: pruning three quarters of the units? Pruning, and training on afterwards? The same two the other way round? Zeroing nine tenths of the weights? int8?
"""

# %%
if __name__ == "__main__":
    my_bet = None
    BUDGET = Budget(max_bytes=16_000, max_flops=20_500, max_ratio=0.6, max_loss=0.03)
    recipes = {
        "int8": [["quantize"]], "int8, fused": [["quantize"], ["fuse"]], "mask 0.9": [["mask", 0.9]],
        "rank 8, distill": [["low_rank", 8], ["distill", 4]],
        "prune 0.75": [["prune", 0.75]], "distill, prune": [["distill", 4], ["prune", 0.75]], "prune, distill": [["prune", 0.75], ["distill", 4]],
        "prune, distill, int8, fused": [["prune", 0.75], ["distill", 4], ["quantize"], ["fuse"]],
        "prune 0.8, distill, fused": [["prune", 0.8], ["distill", 6], ["fuse"]],
        "prune 0.95, distill, fused": [["prune", 0.95], ["distill", 8], ["fuse"]],
    }
    reports = {name: run(name, steps, BUDGET, task, rounds=10) for name, steps in recipes.items()}
    start = next(iter(reports.values()))["results"]["start"]
    print(f"{'the start model':28} {start['bytes']:6,} bytes {start['flops']:6,} FLOPs  {start['right']} right\n")
    for name, report in reports.items():
        final, speed, moved = (report["results"][key] for key in ("final", "speed", "decisions"))
        print(f"{name:28} {final['bytes']:6,} bytes {final['flops']:6,} FLOPs  {final['right']} right (+{moved['won']} -{moved['lost']})  time x {speed['ratio']:.2f}")
        print(" " * 28, ", ".join(f"{limit[4:]} {verdict}" for limit, verdict in report["verdicts"].items()))

# %% [markdown]
"""
Read the verdicts, not the numbers, and go through your bet:

- **int8** leaves a good quarter of the bytes and hardly touches a decision, and it takes *more* FLOPs than before: the weights have to be turned into floats each time. In NumPy it saves memory, not time.
- **Zeroing** nine tenths of the weights makes nothing smaller and nothing faster, and loses about a hundred digits.
- **Pruning** alone ruins the model. Training on *afterwards* brings nearly all of it back; training on *before* brings next to nothing, because there was nothing to repair yet.
- **In a chain**, each step does what the profile named: units out (bytes and FLOPs), the loss repaired, int8 (bytes), one pass in place of nine (time).
- **Undecided** is not a failure of the model. It is a failure of the evidence: more digits, or more rounds, could turn it into either.

No single number ranks these. Module 19 has the word for what is left when everything that is beaten in every respect is taken away. And the picture shows what the verdicts were made of: each range against its limit. Where the machine was busy, the ranges of time are wide, and the answer is honest about it.
"""

# %%
if __name__ == "__main__":
    import matplotlib.pyplot as plt

    from tinytorch.perf.benchmarking import pareto_front

    points = [{"name": name, "bytes": report["results"]["final"]["bytes"], "right": report["results"]["final"]["right"]} for name, report in reports.items()]
    front = pareto_front(points, smaller=("bytes",), larger=("right",))
    print("not beaten in bytes and digits:", *[point["name"] for point in front], sep="\n   ")
    colours = {"kept": "tab:green", "undecided": "tab:orange", "broken": "tab:red"}
    panels = {"max_bytes": ("bytes of parameters", lambda results: (results["final"]["bytes"],) * 2),
              "max_loss": ("share of digits lost", lambda results: tuple(-end for end in results["decisions"]["interval"][::-1])),
              "max_ratio": ("time, start = 1", lambda results: tuple(results["speed"]["interval"] or (0.01, 100)))}
    fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
    for ax, (limit, (title, range_of)) in zip(axes, panels.items()):
        for place, report in enumerate(reports.values()):
            ends = range_of(report["results"])
            ax.plot(ends, [place] * 2, "-o" if ends[0] == ends[1] else "-|", color=colours[report["verdicts"][limit]], linewidth=3)
        ax.axvline(getattr(BUDGET, limit), color="black", linestyle=":")
        ax.set(xlabel=title, yticks=range(len(reports)), xscale="log" if limit == "max_ratio" else "linear")
    axes[0].set_yticklabels(reports)
    axes[0].invert_yaxis()
    fig.suptitle("dotted: the limit; green: kept, orange: undecided, red: broken")
    plt.show()

# %% [markdown]
"""
Now put them on a board, in a file, in two parts, merged twice; and let the clever liar of section 6 try again:
"""

# %%
if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        mine, yours = Path(folder) / "mine.json", Path(folder) / "yours.json"
        submit(mine, *list(reports.values())[:7])
        submit(yours, *list(reports.values())[4:])
        merge_files(mine, yours)
        board = merge_files(mine, yours, mine)
        print(f"{len(board['reports'])} reports, {mine.stat().st_size:,} bytes\n")
    for event in ("bytes", "accuracy", "ratio"):
        print(standings_table(board, event), end="\n\n")
    print("the clever liar, replayed:", *replay(clever)[:2], sep="\n   ")
    best = min(reports.values(), key=lambda report: report["results"]["final"]["bytes"])
    print(f"{best['name']!r}, replayed, comes out otherwise in {len(replay(best))} places")

# %% [markdown]
"""
`replay` trained the start model again, took the steps again, and looked. It cannot look at times. That limit is not of this program: whoever was not there can check what follows, repeat what is exact, and must trust, or measure for himself, the rest.

## 10. Another model, another currency

**Question.** The same chain for a GPT. What takes the place of a decision, and what of a FLOP?

A GPT's decisions are **tokens**, and its currency is FLOPs *for each token*. So this is where Module 17 comes in: with a cache, a token is computed once. It is exact, so all tokens must be the same:
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.transformers import GPT
    from tinytorch.perf.memoization import generate, token_flops

    gpt = GPT(65, 64, 2, 4, max_seq_len=64, rng=np.random.default_rng(0)).eval()
    written = gpt.generate([1, 2, 3], 60, temperature=0)
    changed = {"cache": (gpt, generate), "cache, fused": (fuse(gpt), generate), "cache, int8, fused": (fuse(quantize_model(gpt)), generate)}
    for name, (model, write) in changed.items():
        again = write(model, [1, 2, 3], 60, temperature=0)
        print(f"{name:20} {sum(a == b for a, b in zip(written, again)) - 3} of 60 tokens as before, {sum(array.nbytes for array in weight_arrays(model)):9,} bytes")
    print("FLOPs for token 64, read again and cached:", token_flops(gpt, 64))

# %% [markdown]
"""
**Transfer.** GPT-2 small keeps its parameters in float32. Its `Linear` layers go to int8, one byte for four. **Guess:** how many times smaller does the whole model get? And what does one token cost after 1,023 others, with and without a cache? Nothing below is computed: the models are built on shapes.
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import shape_only

    my_guess = None
    with shape_only():
        large = GPT(50257, 768, 12, 12)
        before, after = (sum(array.nbytes for array in weight_arrays(model)) for model in (large, quantize_model(large)))
        plain, cached = token_flops(large, 1024)
    table = large.token_embedding.weight.nbytes
    print(f"bytes {before:,} -> {after:,}: {before / after:.2f} times smaller; your guess: {my_guess}")
    print(f"of the bytes that are left, {table / after:.0%} are the table of the words, {table:,} bytes, in float32 as before")
    print(f"FLOPs of token 1,024: {plain:,} -> {cached:,}: {plain / cached:,.0f} times fewer")

# %% [markdown]
"""
Only half as large, not a quarter: the table of words is no `Linear`, so nobody touched it, and now it is most of what is left. A step helps where the profile pointed, and afterwards the profile points elsewhere. **Profile again.**

**Yours to go on with.** Write a step of your own (`@step("half")`, say, that stores weights as float16), make an entry with it, and hand it in. Whoever replays your report needs the step, too: a name stands for code, and the code must be there.

**Reflect.** Answer first, then open.

<details><summary>The same entry was measured twice on one machine, and both reports are on the board. Is that an error?</summary>
No: they are two measurements, with two fingerprints. Bytes and decisions agree, times differ a little. To keep only the better of the two would be to rank by luck; to keep only the later one needs a rule for "later" that two machines agree on.
</details>
<details><summary>Why does a budget of <code>max_loss</code> decide more often than <code>min_accuracy</code>, with the same 355 digits?</summary>
It is about the digits on which the two models disagree, and mostly these are few. All others, right or wrong, are the same for both and cancel.
</details>
<details><summary>Ten recipes were tried on the same 355 held-out digits, and the best was chosen. What is wrong with its accuracy?</summary>
It was chosen <em>because</em> it did well on these digits, so on others it will do a little worse on average. Choose on one held-out part, report on another that nobody has looked at.
</details>
<details><summary>Why is a ratio of times not ranked across machines, although the clock's speed cancels in it?</summary>
The clock cancels, the machine does not. Where the cache is larger, or <code>tanh</code> slower, another part of the model takes most of the time, and another step helps.
</details>
<details><summary>Could the sum of the places in all events be the overall winner?</summary>
It can be computed, but it answers no question anybody has. A budget says what must hold, the event says what is wanted most; places with shared ranks do not add up.
</details>
<details><summary>Two people <code>submit</code> to one file at the same moment. What happens, and why is nothing broken?</summary>
Both read, both merge, both write a whole file; the later one replaces the earlier. One entry is missing, no file is half written. Since merging is idempotent, handing it in again is harmless: retrying needs no thought. A board that counts ("plus one") could not do that.
</details>

`tito test capstone` checks the module; once all of it passes, `tito module complete capstone` puts what you wrote into the package. It is the last one. You have a framework, an instrument that says where its time and memory go, five ways to spend less of both, and a habit: profile, change, prove, measure, and write down how you know.
"""
