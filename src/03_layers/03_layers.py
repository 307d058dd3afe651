# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 03 · Layers

Tier: Foundation · Difficulty 2 of 4 · About 2 hours · Needs 01 and 02 (`tito test tensor`, `tito test activations`)

A layer is a function with memory: it owns numbers that training will change. This module builds the two things every
framework needs from a layer: *compute with these weights* and *tell me which weights you have*.

**Build** initializers, the `linear` op, `Layer`, `Linear`, `Sequential`, `Dropout` → **use** them to assemble a network for
images of digits → **reflect** on what a parameter is when two layers share one.

When you are done you can
1. choose the scale of initial weights and see what a wrong one does ten layers deep;
2. write a fully connected layer that works for any number of leading axes;
3. find every parameter of a model nobody registered anywhere;
4. make a layer that behaves differently in training and in evaluation;
5. repeat a run from its seed, and say which generator drew which number.

Yours: the scale of the weights and their drawing, `linear` and its shape rule, the parameter walk, `Linear`, `Sequential`, dropout. Given and explained: the base class `Layer`, the generator, what looks one step inside an object.

A cell you have not filled says which one it is: `linear_shape: section 2, cell 1` is the function `linear_shape` in the first code cell of section 2.
"""

# %%
#| default_exp core.layers

# %%
#| export
from collections.abc import Mapping
from functools import cache, lru_cache
from math import prod, sqrt
from types import FunctionType, MethodType, ModuleType

import numpy as np

from tinytorch.core.activations import Scoped
from tinytorch.core.tensor import Tensor, hollow, is_shape_only, op

# %% [markdown]
"""
## 1. Where weights begin

**Question.** All weights start random. Does it matter *how large*?

A layer adds up `fan_in` products. If each weight has variance `v`, the sum has a variance `fan_in · v` times that of the input. Ten layers multiply ten such factors. Look what happens with three
choices of `v`, in plain NumPy:
"""

# %%
rng = np.random.default_rng(0)
for name, std in (("too small", 0.01), ("1/sqrt(fan_in)", 1 / np.sqrt(256)), ("too large", 0.2)):
    x = rng.standard_normal((64, 256))
    for _ in range(10):
        x = x @ (std * rng.standard_normal((256, 256)))
    print(f"{name:>15}: spread after ten layers {x.std():.2g}")

# %% [markdown]
"""
The spread survives when the factor is 1. Two recipes for that are in use everywhere, and you can derive both.

**Xavier** (Glorot and Bengio, 2010). Going forward the factor is `fan_in · v`; the gradient, going backward through the transposed weight, meets the factor `fan_out · v`. Both cannot be 1 unless the fans are equal. So
take the mean of the two fans in their place: its product with `v` is 1. The weights are uniform on `(-limit, limit)`, and a uniform distribution of that width has the variance `limit² / 3`.

**He** (He and others, 2015). ReLU throws the negative half away, and with it half of the mean square that the next layer gets. So `fan_in · v`, halved, must be 1. The weights are normal, with standard deviation `sqrt(v)`.

Randomness comes from one generator that you can seed. Under `shape_only()` no number is drawn: the weight is hollow. Given: the default generator, `generator(rng)`, which is `rng` or, for `None`, the default one; `manual_seed`; and `trainable`, which knows about shapes only.
"""

# %%
#| export
@cache
def default_generator():
    """Return the generator that initializers and dropout draw from unless they are given one: always the same."""
    return np.random.default_rng()


def generator(rng=None):
    """Return ``rng``, a ``numpy.random.Generator``, or the default one for None; ``TypeError`` for what cannot draw."""
    if rng is not None and not callable(getattr(rng, "random", None)):
        raise TypeError(f"rng is {rng!r}; want a generator, np.random.default_rng(seed), or None for the default one")
    return default_generator() if rng is None else rng


def manual_seed(seed):
    """Start the default generator anew from ``seed``, so that weights and dropout repeat."""
    default_generator().bit_generator.state = np.random.default_rng(seed).bit_generator.state


def trainable(shape, draw):
    """Make a trainable float32 tensor from ``draw(shape)``, or a hollow one when only shapes are wanted."""
    if is_shape_only():
        return Tensor(hollow(shape), requires_grad=True)
    return Tensor(draw(shape).astype(np.float32), requires_grad=True)

# %% [markdown]
"""
**Task.** Write `xavier_limit(fan_in, fan_out)` and `he_std(fan_in)`: two numbers (`sqrt` is imported). Example: `xavier_limit(2, 4)` is `1.0`; `he_std(8)` is `0.5`.

<details><summary>Hint 1: idea</summary>
Each recipe is one equation for <code>v</code>. Solve it on paper, then go from the variance to the number that is wanted.
</details>
<details><summary>Hint 2: approach</summary>
Xavier: <code>(fan_in + fan_out) / 2 · v = 1</code> and <code>v = limit² / 3</code>. He: <code>fan_in · v / 2 = 1</code> and <code>std = sqrt(v)</code>.
</details>
<details><summary>Hint 3: worked example, another recipe</summary>
Normal weights and no ReLU (LeCun, 1998): <code>fan_in · v = 1</code>, so <code>v = 1 / fan_in</code> and <code>std = sqrt(1 / fan_in)</code>; for 16 it is 0.25.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "initial-scale", "solution": true}
#| export
def xavier_limit(fan_in, fan_out):
    """Half-width of the uniform distribution of Glorot and Bengio (2010): its variance times the mean fan is 1."""
    ### BEGIN SOLUTION
    return sqrt(6 / (fan_in + fan_out))
    ### END SOLUTION


def he_std(fan_in):
    """Standard deviation of the normal distribution of He and others (2015): half its variance times fan_in is 1."""
    ### BEGIN SOLUTION
    return sqrt(2 / fan_in)
    ### END SOLUTION

# %%
for fan_in, fan_out in ((64, 32), (768, 3072)):
    print(f"{fan_in} -> {fan_out}: limit {xavier_limit(fan_in, fan_out):.4f}, std {he_std(fan_in):.4f}")

# %% nbgrader={"grade": true, "grade_id": "test-initial-scale", "points": 6, "skill": "initializers"}
from tito.checks import check, check_raises


def test_initial_scale():
    """The two numbers, from their equations."""
    check("xavier_limit(2, 4)", xavier_limit(2, 4), 1.0, {
        sqrt(1 / 3): "that is the standard deviation; a uniform distribution reaches sqrt(3) times as far",
        sqrt(1 / 2): "the sum of the fans in place of their mean", 1 / 3: "that is the variance"})
    check("xavier_limit(100, 50)", xavier_limit(100, 50), 0.2)
    check("he_std(8)", he_std(8), 0.5, {
        0.25: "that is the variance; the standard deviation is its root", sqrt(1 / 8): "ReLU's half is forgotten"})
    check("he_std(50)", he_std(50), 0.2)


test_initial_scale()

# %% [markdown]
"""
**Task.** Now draw: `xavier_uniform(fan_in, fan_out, rng=None)` and `he_normal(fan_in, fan_out, rng=None)`, both trainable tensors of shape `(fan_in, fan_out)`. The numbers come from `rng`; `rng=None` means the default generator: `generator(rng)` gives the right one. Draw all
at once, with `rng.uniform(-limit, limit, shape)` and `rng.normal(0, std, shape)`, and let `trainable(shape, draw)` do the drawing, so that a run on shapes only draws nothing.

Example: `zeros`, given in the same cell, is `trainable` with `np.zeros`, a function of a shape.

<details><summary>Hint 1: idea</summary>
<code>trainable</code> wants a function of one shape. Make one that remembers the generator and the scale.
</details>
<details><summary>Hint 2: approach</summary>
A <code>lambda shape: ...</code> inside, after the generator and the limit have been chosen. Drawing first and handing over the numbers would draw under <code>shape_only()</code> too.
</details>
<details><summary>Hint 3: worked example, another distribution</summary>
Exponential weights: <code>trainable((2, 3), lambda shape: rng.exponential(0.1, shape))</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "initial-weights", "solution": true}
#| export
def xavier_uniform(fan_in, fan_out, rng=None):
    """Return a trainable (fan_in, fan_out) tensor, uniform within ``xavier_limit``; ``rng`` draws it."""
    ### BEGIN SOLUTION
    rng, limit = generator(rng), xavier_limit(fan_in, fan_out)
    return trainable((fan_in, fan_out), lambda shape: rng.uniform(-limit, limit, shape))
    ### END SOLUTION


def he_normal(fan_in, fan_out, rng=None):
    """Return a trainable (fan_in, fan_out) tensor, normal with ``he_std``; ``rng`` draws it."""
    ### BEGIN SOLUTION
    rng, std = generator(rng), he_std(fan_in)
    return trainable((fan_in, fan_out), lambda shape: rng.normal(0, std, shape))
    ### END SOLUTION


def zeros(*shape):
    """Return a trainable tensor of zeros: the usual start of a bias."""
    return trainable(shape, np.zeros)

# %%
print(xavier_uniform(2, 4, np.random.default_rng(0)), he_normal(2, 4, np.random.default_rng(0)), sep="\n")

# %% nbgrader={"grade": true, "grade_id": "test-initial-weights", "points": 8, "skill": "initializers"}
def test_initial_weights():
    """Drawn from the generator that is given, and a spread that survives ten layers."""
    drawn = xavier_uniform(2, 4, np.random.default_rng(5)).data
    check("xavier_uniform draws from rng", drawn, [[0.61000585, 0.61588158, 0.03065112, -0.42839724], [-0.8921386, -0.23326224, -0.18305359, -0.90944961]], {
        ((0.80500292, 0.80794079, 0.51532556, 0.28580138), (0.0539307, 0.38336888, 0.40847321, 0.04527519)): "drawn from 0 up: want -limit to limit"}, rtol=1e-5)
    drawn = he_normal(8, 1, np.random.default_rng(5)).data.ravel()
    check("he_normal draws from rng", drawn, [-0.40096571, -0.6621795, -0.12418081, 0.21022262, 0.56802327, 0.0548532, -0.27632366, -0.39239018], {
        (-1.13410228, -1.87292649, -0.35123636, 0.59459937, 1.60661242, 0.15514828, -0.78156133, -1.10984703): "fan_out in place of fan_in"}, rtol=1e-5)
    before = default_generator().bit_generator.state["state"]
    xavier_uniform(2, 4, np.random.default_rng(5)), he_normal(2, 4, np.random.default_rng(5))
    check("the default generator is left alone", default_generator().bit_generator.state["state"] == before, True)
    manual_seed(3)
    first = he_normal(3, 2).data.tolist()
    manual_seed(3)
    check("without rng, a seed repeats the weights", he_normal(3, 2).data.tolist() == first, True, {
        False: "drawn from a generator of its own; generator(rng) gives the one that is seeded"})
    check("weights are trainable", (xavier_uniform(2, 3).requires_grad, he_normal(2, 3).requires_grad), (True, True))
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    for i in range(10):
        x = np.maximum(x @ he_normal(256, 256, np.random.default_rng(i)).data, 0)
    check("ten ReLU layers keep the spread near 1", bool(0.2 < x.std() < 5), True)


test_initial_weights()

# %% [markdown]
"""
**What if** the wrong recipe meets ReLU? Guess what Xavier's weights leave of the spread after 10, 20 and 40 layers, then run.
"""

# %%
for name, draw in (("Xavier", xavier_uniform), ("He", he_normal)):
    x, rng, spreads = np.random.default_rng(0).standard_normal((64, 128)), np.random.default_rng(1), []
    for layer in range(1, 41):
        x = np.maximum(x @ draw(128, 128, rng).data, 0)
        if layer in (10, 20, 40):
            spreads.append(f"{x.std():.2g} after {layer}")
    print(f"{name:>6} with ReLU: {', '.join(spreads)}")

# %% [markdown]
"""
**What it means for a real model.** A factor that is a little wrong in each layer hardly shows after three and decides everything after forty. So the recipe is chosen for the activation that follows.
"""

# %% [markdown]
"""
## 2. One op for a whole layer

**Question.** `x @ weight + bias` is two operations. Why make it one?

Because the second pass over the result can reuse the memory of the first, and because it *is* one idea. The op `linear` takes two or three tensors:

```
x: (..., in)     weight: (in, out)     bias: (out,) or absent      result: (..., out)
```

**Task.** Write the shape rule `linear_shape(x, weight, bias=None)`. It must refuse with a `ValueError`

- a weight that has not exactly two axes; the message names its shape;
- an `x` without axes, or whose last axis is not `in`; the message names the shapes of `x` and `weight`, as in `x (2, 5) with weight (4, 3): the last axis is 5, want 4`;
- a bias that is not `(out,)`; the message names the shape that came and the one wanted, as in `bias (4,) with weight (4, 3): want (3,)`.

Example: `linear_shape((7, 5, 4), (4, 3))` is `(7, 5, 3)`.

<details><summary>Hint 1: idea</summary>
Three questions, each with its own <code>raise</code>, and one line for the answer.
</details>
<details><summary>Hint 2: approach</summary>
Ask about the weight first: afterwards <code>weight[0]</code> and <code>weight[1]</code> exist. An empty tuple is false, so <code>not x</code> finds a missing axis before <code>x[-1]</code> fails. The result keeps <code>x[:-1]</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>x (6, 2, 9)</code>, weight <code>(9, 4)</code>, bias <code>(4,)</code>: 9 meets 9, <code>(4,)</code> is <code>weight[1:]</code>, the result is <code>(6, 2, 4)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "linear-shape", "solution": true}
#| export
def linear_shape(x, weight, bias=None):
    """Return (..., out) for x (..., in), weight (in, out) and a bias (out,) or none, or raise ``ValueError``."""
    ### BEGIN SOLUTION
    if len(weight) != 2:
        raise ValueError(f"weight {weight}: want two axes, (in, out)")
    if not x or x[-1] != weight[0]:
        last = x[-1] if x else "missing"
        raise ValueError(f"x {x} with weight {weight}: the last axis is {last}, want {weight[0]}")
    if bias is not None and tuple(bias) != weight[1:]:
        raise ValueError(f"bias {bias} with weight {weight}: want {weight[1:]}")
    return (*x[:-1], weight[1])
    ### END SOLUTION

# %% [markdown]
"""
**Task.** Write `linear` itself, on NumPy arrays. Every leading axis is just "more rows". Add the bias only when there is one. `out += bias` needs no new memory, but keeps the type of `out`; where the bias is
wider (float64 beside float32, floats beside int8) the result takes the wider type, so write `out + bias` there (or always: it costs one more array). Inputs stay as they were. The first lines are given: they ask your rule about
shapes that NumPy would not refuse.

Example: `linear(Tensor([[1, 1]]), Tensor([[1, 2], [3, 4]]), Tensor([10, 20]))` is `[[14, 26]]`.

<details><summary>Hint 1: idea</summary>
<code>@</code> already treats leading axes as a stack.
</details>
<details><summary>Hint 2: approach</summary>
A stack of small products is slower than one tall one. With more than two axes, flatten all but the last into rows, multiply once, restore the shape.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>x</code> of <code>(6, 2, 9)</code>: flatten to <code>(12, 9)</code>, times <code>(9, 4)</code> gives <code>(12, 4)</code>, shown as <code>(6, 2, 4)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "linear-op", "solution": true}
#| export
@op(shape=linear_shape)
def linear(x, weight, bias=None):
    """x @ weight + bias: (..., in) @ (in, out) + (out,) -> (..., out), in the result type of all."""
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[1:]):
        linear_shape(x.shape, weight.shape, None if bias is None else bias.shape)  # raises; NumPy would stretch them
    ### BEGIN SOLUTION
    if x.ndim > 2:
        out = (x.reshape(prod(x.shape[:-1]), x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[1])
    else:
        out = x @ weight
    if bias is None:
        return out
    if out.dtype == np.result_type(out, bias):
        out += bias
        return out
    return out + bias
    ### END SOLUTION

# %%
print(linear(Tensor([[1, 1]]), Tensor([[1, 2], [3, 4]]), Tensor([10, 20])))

# %% nbgrader={"grade": true, "grade_id": "test-linear-op", "points": 22, "skill": "linear"}
def test_linear_op():
    """Values, leading axes, bias, refusals."""
    w, b = Tensor([[1, 2, 3], [4, 5, 6]]), Tensor([10, 20, 30])
    check("one row", linear(Tensor([[1, 1]]), w, b).data, [[15.0, 27.0, 39.0]], {((5.0, 7.0, 9.0),): "the bias is missing"})
    check("without a bias", linear(Tensor([[1, 1]]), w).data, [[5.0, 7.0, 9.0]])
    check("a vector", linear(Tensor([1, 0]), w, b).data, [11.0, 22.0, 33.0])
    check("leading axes", linear(Tensor(np.ones((7, 5, 2))), w, b).shape, (7, 5, 3))
    check("the rule says the same", linear_shape((7, 5, 2), (2, 3), (3,)), (7, 5, 3), {
        (7, 3): "the axes in the middle were left out", (7, 5, 2): "the weight is (in, out): the last size is the second"})
    check("no rows", linear(Tensor(np.ones((0, 2))), w, b).shape, (0, 3))
    x = Tensor([[1, 1]])
    linear(x, w, b)
    check("inputs are left as they were", [*x.data.ravel().tolist(), *b.data.tolist()], [1.0, 1.0, 10.0, 20.0, 30.0])
    check("a float64 bias is not rounded", linear(x, w, Tensor(b.data, dtype=np.float64)).dtype.name, "float64", {
        "float32": "added in place: the result kept the narrower type"})
    for shape in ("(2, 5)", "(4, 3)"):
        check_raises(f"x (2, 5) with weight (4, 3), naming {shape}", ValueError, lambda: linear_shape((2, 5), (4, 3)), must_say=shape)
    for shape in ("(2,)", "(3,)"):
        check_raises(f"bias (2,) where (3,) is wanted, naming {shape}", ValueError, lambda: linear_shape((7, 4), (4, 3), (2,)), must_say=shape)
    check_raises("no axis", ValueError, lambda: linear_shape((), (2, 3)))
    check_raises("a weight of one axis", ValueError, lambda: linear_shape((2, 4), (4,)))


test_linear_op()

# %% [markdown]
"""
**What if** you leave the stack to NumPy, `x @ weight`, instead of flattening it? The values are the same. Bet on the times: 512 texts of a single token each, 256 features.
"""

# %%
from time import perf_counter_ns

stack, weight = np.ones((512, 1, 256), np.float32), np.ones((256, 256), np.float32)
for name, product in (("a stack of 512 products", lambda: stack @ weight), ("one tall product", lambda: stack.reshape(512, 256) @ weight)):
    times = []
    for _ in range(7):
        start = perf_counter_ns()
        product()
        times.append(perf_counter_ns() - start)
    print(f"{name:>23}: {min(times) / 1e6:.2f} ms")

# %% [markdown]
"""
## 3. Finding parameters that nobody registered

**Question.** A model keeps layers as attributes, in lists, in dicts, sometimes twice. How does an optimizer find every weight, once?

We look. A parameter is any `Tensor` reachable from the model by attribute, list or dict. No registration, no base-class magic: an object's attributes are a dict already (`vars(obj)`).

Given: `parts(thing)` answers "what is directly inside?" as `(name, value)` pairs.
"""

# %%
#| export
@lru_cache(maxsize=1024)
def slot_names(kind):
    """Return the names of the attributes that objects of a class hold in ``__slots__``."""
    declared = [vars(one).get("__slots__", ()) for one in reversed(kind.__mro__)]
    names = [name for slots in declared for name in ((slots,) if isinstance(slots, str) else slots)]
    return tuple([name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__")])


def parts(thing):
    """Return what is directly inside as (name, value): items of a dict, list or tuple, attributes of an object."""
    if isinstance(thing, dict):
        return [(str(key), value) for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [(str(i), value) for i, value in enumerate(thing)]
    closed = (type, Tensor, np.ndarray, np.random.Generator, FunctionType, MethodType, ModuleType)
    if isinstance(thing, closed):
        return []
    slots = [(name, getattr(thing, name)) for name in slot_names(type(thing)) if hasattr(thing, name)]
    return [*slots, *getattr(thing, "__dict__", {}).items()]

# %%
print(parts({"a": 1}), parts([Tensor([1.0])]), sep="\n")

# %% [markdown]
"""
**Task.** Write `named_tensors(thing)`: a list of `(name, tensor)` for every `Tensor` reachable from `thing`, in the order in which they are met, each tensor *object* once.
Names are joined with dots: `"layers.0.weight"`; a bare tensor's name is `""`. Models may contain themselves (a child that knows its parent): do not run in circles.

<details><summary>Hint 1: idea</summary>
It is a walk through a graph: look at a thing, remember that you saw it, go on to its parts.
</details>
<details><summary>Hint 2: approach</summary>
An inner function <code>look(name, value)</code> and a dictionary of things seen, by <code>id</code>. A <code>Tensor</code> is collected and not looked into. (Keep the object in the dictionary, so that its <code>id</code> stays taken.)
</details>
<details><summary>Hint 3: worked example, something else</summary>
All strings in nested lists: <code>def look(v): found.append(v) if isinstance(v, str) else [look(p) for p in v]</code>. Yours also carries a name and a memory.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "named-tensors", "solution": true}
#| export
def named_tensors(thing):
    """Return (name, tensor) for every Tensor reachable by attribute, list or dict; each object once, cycles allowed."""
    ### BEGIN SOLUTION
    found, seen = [], {}

    def look(name, value):
        if id(value) in seen:
            return
        seen[id(value)] = value
        if isinstance(value, Tensor):
            found.append((name, value))
        for part, inner in parts(value):
            look(f"{name}.{part}" if name else part, inner)

    look("", thing)
    return found
    ### END SOLUTION

# %%
tied = Tensor([1.0])
print([name for name, _ in named_tensors({"embedding": tied, "blocks": [Tensor([2.0]), {"bias": Tensor([3.0])}], "head": tied})])

# %% nbgrader={"grade": true, "grade_id": "test-named-tensors", "points": 20, "skill": "parameters"}
def test_named_tensors():
    """Attributes, lists, dicts, sharing, cycles."""
    class Box:
        """Holds whatever is put on it."""

    a, b, inner, box = Tensor([1.0]), Tensor([2.0]), Box(), Box()
    inner.weight = b
    box.table, box.blocks, box.note = a, [{"left": inner}, inner, a], "no tensor"
    names = [name for name, _ in named_tensors(box)]
    check("names in order", names, ["table", "blocks.0.left.weight"], {
        ("table", "blocks.0.left.weight", "blocks.1.weight", "blocks.2"): "shared objects were looked into again",
        ("table", "blocks.0.left.weight", "blocks.2"): "a shared tensor was listed again",
        ("table", "weight"): "the way to it is missing from the name",
        ("table",): "lists or dicts were not looked into"})
    check("the objects themselves", named_tensors(box)[1][1] is b, True)
    inner.parent = box
    check("a model that contains itself", len(named_tensors(box)), 2)
    check("a bare tensor", [name for name, _ in named_tensors(a)], [""])
    check("nothing inside", named_tensors(Box()), [])


test_named_tensors()

# %% [markdown]
"""
## 4. Layer: compute, and be found

**Question.** What must you write to make a layer of your own, and what comes by itself?

A `forward`, and tensors on `self`. The rest comes from the base class. `Layer` is given. It is `Scoped` from Module 02, with its scope around every `forward`, so that a listener hears *in which layer* an op ran, whether you call `layer(x)` or `layer.forward(x)`; and with `train()` and `eval()`, which set one flag
all the way down. What is new are two walks. `named_parameters()` is yours. `children()` looks for layers, and for activations, as you looked for tensors, and stops at each one it finds.

And a layer can hand its numbers to another of the same build: `other.load_state_dict(layer.state_dict())`. The two helpers behind that are given, too. A *state* is a dict from names to arrays; besides parameters it holds what is not trained but
changes, such as a running mean, which is a plain array. Loading writes into the arrays that are there, so a weight that two layers share stays shared; and it writes all or nothing.
"""

# %%
#| export
def state_of(thing):
    """Return {name: array}, not copied, of all Tensors and plain arrays inside, each object once, cycles allowed."""
    found, seen = {}, {}

    def look(name, value):
        if id(value) in seen:
            return
        seen[id(value)] = value
        if isinstance(value, (Tensor, np.ndarray)):
            while name in found:
                name += "'"
            found[name] = value.data if isinstance(value, Tensor) else value
        for part, inner in parts(value):
            look(f"{name}.{part}" if name else part, inner)

    look("", thing)
    return found


def fitting_state(here, state):
    """Return {name: array} of what ``state`` has for each array of ``here``; ``ValueError`` where it does not fit."""
    if not isinstance(state, Mapping):
        raise TypeError(f"load_state_dict: a {type(state).__name__} came; want what state_dict() of such a layer gives")
    missing, strange = [name for name in here if name not in state], [name for name in state if name not in here]
    if missing or strange:
        both = (("missing", missing), ("unexpected", strange))
        differ = "; ".join(f"{what} {', '.join(map(str, names))}" for what, names in both if names)
        raise ValueError(f"load_state_dict: {differ}; want exactly the names of this layer's state_dict()")
    given = {}
    for name, array in here.items():
        value = state[name]
        try:
            value = given[name] = value.data if isinstance(value, Tensor) else np.asarray(value)
        except ValueError:
            raise ValueError(f"load_state_dict: {name} is a ragged list; want an array of {array.shape}") from None
        if value.shape != array.shape:
            raise ValueError(f"load_state_dict: {name} is {value.shape}, want {array.shape}")
        if not np.can_cast(value.dtype, array.dtype, "same_kind"):
            raise ValueError(f"load_state_dict: {name} is {value.dtype}, which does not fit into {array.dtype}")
        if not array.flags.writeable:
            raise ValueError(f"load_state_dict: {name} cannot be written; was the layer built under shape_only()?")
        if value.dtype != array.dtype:
            with np.errstate(over="ignore"):
                given[name] = value.astype(array.dtype)
            if not np.array_equal(np.isfinite(value), np.isfinite(given[name])):
                raise ValueError(f"load_state_dict: {name} has numbers that are too large for {array.dtype}")
    return given

# %% [markdown]
"""
`Layer` itself:
"""

# %%
#| export
class Layer(Scoped):
    """Base of all layers: write ``forward``, put tensors and layers on ``self``, and they are found."""

    def named_parameters(self):
        """Return (name, tensor) for each tensor the layer holds, frozen ones included."""
        return named_tensors(self)

    def children(self):
        """Return (name, layer) for the layers directly inside, through lists, dicts and plain objects."""
        found, seen = [], {id(self): self}

        def look(name, value):
            if id(value) in seen:
                return
            seen[id(value)] = value
            if isinstance(value, Scoped):
                found.append((name, value))
                return
            for part, inner in parts(value):
                look(f"{name}.{part}", inner)

        for name, value in parts(self):
            look(name, value)
        return found

    def state_dict(self):
        """Return {name: array}, copies, of all parameters and buffers; random generators and modes are not in it."""
        return {name: array.copy() for name, array in state_of(self).items()}

    def load_state_dict(self, state):
        """Write the arrays of a ``state_dict`` into this layer's own; what is shared stays shared.

        Strict: a missing, unexpected or unfitting array is a ``ValueError``, and nothing is changed then.
        """
        here, before = state_of(self), self.state_dict()
        given = fitting_state(here, state)
        for name, array in here.items():
            array[...] = given[name]
        for name, array in here.items():
            if not np.array_equal(array, given[name].astype(array.dtype), equal_nan=True):
                self.load_state_dict(before)
                raise ValueError(f"load_state_dict: {name} shares its memory with another tensor here; "
                                 "want the same values for both")

# %% [markdown]
"""
**Task.** Write `Linear`. `__init__` makes `weight` of shape `(in_features, out_features)` with `xavier_uniform`, drawing from `rng`, and `bias` of zeros, or `None` when `bias=False`. `forward` uses your op.
Example: `Linear(3, 2)(x)` for `x` of shape `(7, 3)` has the shape `(7, 2)`, and the layer holds 3 · 2 + 2 = 8 numbers. Sizes must be positive integers: given as `positive`, which refuses `0`, `-3`, `2.5` and `True` with one sentence.

<details><summary>Hint 1: idea</summary>
Nothing is registered: put the tensors on <code>self</code> under those two names, and the walk of section 3 finds them.
</details>
<details><summary>Hint 2: approach</summary>
You have written both makers, <code>xavier_uniform</code> (which takes <code>rng</code>, <code>None</code> included) and met <code>zeros</code>. An op takes tensors only, so in <code>forward</code> a missing bias must not be handed on.
</details>
<details><summary>Hint 3: worked example, another layer</summary>
A scale for each feature: <code>self.scale = zeros(features)</code> in <code>__init__</code>, <code>return x * self.scale</code> in <code>forward</code>.
</details>
"""

# %%
#| export
def positive(what, value):
    """Return ``value`` as an int; ``TypeError`` unless an integer (a bool is not), ``ValueError`` unless above 0."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} is {value!r}; want a positive integer")
    if value < 1:
        raise ValueError(f"{what} is {value}; want a positive integer")
    return int(value)

# %% nbgrader={"grade": false, "grade_id": "linear-layer", "solution": true}
#| export
class Linear(Layer):
    """Fully connected layer: x (..., in_features) -> (..., out_features), with weight (in_features, out_features)."""

    def __init__(self, in_features, out_features, bias=True, rng=None):
        """Draw the weight with ``xavier_uniform``; start the bias at zero, or leave it out with ``bias=False``."""
        self.in_features = positive("in_features", in_features)
        self.out_features = positive("out_features", out_features)
        ### BEGIN SOLUTION
        self.weight = xavier_uniform(self.in_features, self.out_features, rng)
        self.bias = zeros(self.out_features) if bias else None
        ### END SOLUTION

    def forward(self, x):
        """Compute x @ weight + bias: (..., in_features) -> (..., out_features)."""
        ### BEGIN SOLUTION
        return linear(x, self.weight) if self.bias is None else linear(x, self.weight, self.bias)
        ### END SOLUTION

    def __repr__(self):
        return f"Linear({self.in_features}, {self.out_features}" + (")" if self.bias is not None else ", bias=False)")

# %%
layer = Linear(3, 2)
print(layer, [(name, p.shape) for name, p in layer.named_parameters()], layer(Tensor(np.ones((7, 3)))).shape)

# %% nbgrader={"grade": true, "grade_id": "test-linear-layer", "points": 14, "skill": "linear"}
def test_linear_layer():
    """Shapes, parameters, range, refusals."""
    layer = Linear(128, 64)
    check("weight is (in, out)", layer.weight.shape, (128, 64), {(64, 128): "the other way round: ours is (in, out)"})
    check("the bias starts at zero", bool((layer.bias.data == 0).all()), True, {False: "the bias was drawn, like a weight"})
    check("numbers in all", sum(p.size for p in layer.parameters()), 128 * 64 + 64, {8192: "the bias is not found"})
    check("they want gradients", all(p.requires_grad for p in layer.parameters()), True, {
        False: "a parameter that does not want one: zeros and xavier_uniform make trainable tensors"})
    check("the weight is within Xavier's limit", bool(np.abs(layer.weight.data).max() <= xavier_limit(128, 64)), True)
    check("the weight is drawn from rng", Linear(3, 2, rng=np.random.default_rng(0)).weight.data, [
        [0.30006802, -0.50437205], [-1.00567661, -1.0592348], [0.68634071, 0.90430217]], rtol=1e-5)
    check("bias=False", [name for name, _ in Linear(4, 3, bias=False).named_parameters()], ["weight"], {("weight", "bias"): "bias=False was ignored"})
    check("output", layer(Tensor(np.zeros((2, 7, 128)))).shape, (2, 7, 64))
    check("layer(x) is layer.forward(x)", np.array_equal(layer(Tensor(np.ones(128))).data, layer.forward(Tensor(np.ones(128))).data), True)
    check_raises("zero features", ValueError, lambda: Linear(0, 3), must_say="in_features is 0")


test_linear_layer()

# %% [markdown]
"""
**What if** you listen to a layer? The event knows where it happened.
"""

# %%
from tinytorch.core.tensor import listen

with listen(lambda event: print(event.op.name, event.in_shapes, "->", event.out_shape, "in", [s.name for s in event.scope])):
    Linear(2, 3)(Tensor([[1.0, 1.0]]))

# %% [markdown]
"""
**What if** one layer takes over the state of another? And of one that does not fit?
"""

# %%
first, second, x = Linear(2, 3), Linear(2, 3), Tensor([[1.0, 1.0]])
second.load_state_dict(first.state_dict())
print({name: array.shape for name, array in first.state_dict().items()}, "same output:", np.array_equal(first(x).data, second(x).data))
try:
    second.load_state_dict({"weight": np.ones((3, 2)), "bias": np.ones(3)})
except ValueError as error:
    print(error)

# %% [markdown]
"""
## 5. Sequential

**Question.** Is a chain of layers a layer?

Yes, and that is the whole trick: it has a `forward`, and its parameters are found through the list that it keeps. So a chain fits wherever a layer does, in another chain too.

**Task.** Write `Sequential(*layers)`: keeps them in a list called `layers` and passes `x` from one to the next. `Sequential()` returns what it gets. A single list or tuple of layers is accepted too: `Sequential([a, b])` is
`Sequential(a, b)`.

<details><summary>Hint 1: idea</summary>
A loop in which <code>x</code> is replaced by what comes out.
</details>
<details><summary>Hint 2: approach</summary>
<code>layers</code> arrives as a tuple. If it holds one thing and that is a list or tuple, that thing is the layers. Call <code>layer(x)</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Functions from the inside out, <code>f, g, h</code> on 3: <code>for function in (f, g, h): value = function(value)</code>, which is <code>h(g(f(3)))</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "sequential", "solution": true}
#| export
class Sequential(Layer):
    """Layers one after another: ``Sequential(Linear(4, 3), ReLU())`` or ``Sequential([...])``; kept in ``layers``."""

    def __init__(self, *layers):
        """Keep the layers, given one by one or as one list."""
        ### BEGIN SOLUTION
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):
            layers = layers[0]
        self.layers = list(layers)
        ### END SOLUTION

    def forward(self, x):
        """Pass x through every layer in turn."""
        ### BEGIN SOLUTION
        for layer in self.layers:
            x = layer(x)
        return x
        ### END SOLUTION

    def __repr__(self):
        return f"Sequential({', '.join(map(repr, self.layers))})"

# %%
model = Sequential(Linear(4, 3), Linear(3, 2))
print(model, [name for name, _ in model.named_parameters()], model(Tensor(np.ones((5, 4)))).shape, sep="\n")

# %% nbgrader={"grade": true, "grade_id": "test-sequential", "points": 12, "skill": "composition"}
def test_sequential():
    """Order, emptiness, sharing, nesting."""
    class Plus(Layer):
        """Add 1."""

        def forward(self, x):
            return x + 1

    class Times(Layer):
        """Double."""

        def forward(self, x):
            return x * 2

    check("add 1 to 3, then double", Sequential(Plus(), Times())(Tensor([3])).item(), 8.0, {
        7.0: "the last layer came first", 6.0: "only the last layer counts: each takes what the one before returned", 4.0: "the walk ends after the first layer"})
    a, b = Linear(4, 3), Linear(3, 2)
    model = Sequential(a, b)
    x = Tensor(np.ones((5, 4)))
    check("the same as by hand", model(x).data, b(a(x)).data)
    check("four parameters, in order", [name for name, _ in model.named_parameters()],
          ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"])
    check("an empty one returns what it gets", Sequential()(x) is x, True)
    check("a list is accepted", len(Sequential([a, b]).layers), 2, {1: "the list itself became the only layer"})
    shared = Sequential(Linear(4, 4), Sequential(a, b), a)
    check("a layer used twice is counted once", len(shared.parameters()), 6, {8: "the shared layer was counted twice"})
    check("children are the direct ones", [name for name, _ in shared.children()], ["layers.0", "layers.1", "layers.2"])


test_sequential()

# %% [markdown]
"""
**Bet.** `Sequential(a, a)` and `Sequential(a, Linear(4, 4))` both run two layers of 4 by 4. How many numbers does each hold?
"""

# %%
my_bet = (None, None)
a = Linear(4, 4)
twice, two = Sequential(a, a), Sequential(a, Linear(4, 4))
print(f"bet {my_bet}, they hold {sum(p.size for p in twice.parameters())} and {sum(p.size for p in two.parameters())}")
with listen(lambda event: print(event.op.name, event.in_shapes, "in", [s.name for s in event.scope])):
    twice(Tensor(np.ones((1, 4))))

# %% [markdown]
"""
Two computations, one set of weights: the same layer, used twice, is stored, saved and trained once. **What it means for a real model:** a language model that
uses its embedding table again at its head holds one table, and whoever counts it twice gets the model's size wrong (Module 14 computes by how much).

## 6. Dropout: two behaviours in one layer

**Question.** During training, dropout throws away a random part `p` of the numbers so that no neuron can rely on another. What must happen at evaluation, when nothing is thrown away?

The *expected* value must stay the same. So in training the survivors are scaled by `1 / (1 - p)`, and at evaluation the layer does nothing at all.

**Task.** Write `dropout_mask`, an op on arrays: for every element of `a`, `0` with probability `p`, else `1 / (1 - p)`, in the dtype of `a` (with `p = 1` all zero). Draw with `rng.random(a.shape)`, and keep where the draw is `>= p`.

Then `Dropout.forward`. In training it returns `x` times a mask. An op takes tensors by position and everything else by keyword, so call `dropout_mask(x, p=..., rng=...)` with `self.p` and `self.rng`; `self.rng` may be `None`, and
`generator(self.rng)` knows what that means. In evaluation, and with `p = 0` always, it returns `x` itself, the same object: nothing is computed, nothing is drawn.

Example: with `p = 0.75` the mask holds 0 and 4, and about a quarter of it is 4.

<details><summary>Hint 1: idea</summary>
A comparison gives True and False; as numbers they are 1 and 0, so the mask is a comparison times a scale.
</details>
<details><summary>Hint 2: approach</summary>
<code>.astype(a.dtype)</code> for the comparison, <code>a.dtype.type(scale)</code> for the scale, so that float16 stays float16. Mind the division when <code>p</code> is 1. <code>self.training</code> is the flag that <code>train()</code> and <code>eval()</code> set.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Draws 0.1, 0.3, 0.9 with <code>p = 0.2</code>: kept are the second and third, the scale is 1.25, the mask is <code>[0, 1.25, 1.25]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "dropout", "solution": true}
#| export
@op(shape=lambda a, **attrs: a)
def dropout_mask(a, p, rng):
    """Return 0 with probability ``p``, else 1 / (1 - p), for every element of ``a``."""
    ### BEGIN SOLUTION
    scale = 1 / (1 - p) if p < 1 else 0
    return (rng.random(a.shape) >= p).astype(a.dtype) * a.dtype.type(scale)
    ### END SOLUTION


class Dropout(Layer):
    """Zero each element with probability ``p`` in training and scale the rest by 1/(1-p); do nothing in evaluation."""

    def __init__(self, p=0.5, rng=None):
        """Keep ``p`` (0 to 1) and the generator to draw from (None: the default one)."""
        if isinstance(p, bool) or not 0 <= p <= 1:
            raise ValueError(f"p is {p!r}; want a probability from 0 to 1")
        generator(rng)  # refuses now what could not draw later
        self.p, self.rng = float(p), rng

    def forward(self, x):
        """Return x with some elements dropped in training, x itself in evaluation."""
        ### BEGIN SOLUTION
        if not self.training or self.p == 0:
            return x
        return x * dropout_mask(x, p=self.p, rng=generator(self.rng))
        ### END SOLUTION

    def __repr__(self):
        return f"Dropout({self.p})"

# %%
drop = Dropout(0.75, np.random.default_rng(0))
print("training:  ", drop(Tensor(np.ones(8))).data)
print("evaluation:", drop.eval()(Tensor(np.ones(8))).data)

# %% nbgrader={"grade": true, "grade_id": "test-dropout", "points": 18, "skill": "dropout"}
def test_dropout():
    """Rate, scale, evaluation, inside Sequential, repeatable."""
    ones = Tensor(np.ones(10_000))
    out = Dropout(0.25, np.random.default_rng(0))(ones).data
    check("survivors are scaled by 4/3", float(out.max()), 4 / 3, {1.0: "the survivors are not scaled", 4.0: "scaled by 1/p"}, rtol=1e-5)
    check("the share that is dropped", float((out == 0).mean()), 0.25, {0.75: "p is the share that goes, not the one that stays", 0.0: "nothing is dropped"}, atol=0.03)
    check("the mean stays near 1", bool(abs(out.mean() - 1) < 0.05), True)
    check("p = 1 drops everything", float(Dropout(1.0)(ones).sum()), 0.0)
    model = Sequential(Linear(4, 4), Dropout(0.9))
    x = Tensor(np.ones((3, 4)))
    check("eval() reaches into Sequential", np.array_equal(model.eval()(x).data, model.layers[0](x).data), True, {False: "dropout is still on"})
    check("eval() returns x itself", Dropout(0.5).eval()(x) is x, True)
    masks = [Dropout(0.5, np.random.default_rng(7))(ones).data for _ in range(2)]
    check("the same seed, the same mask", np.array_equal(*masks), True, {False: "rng is not used"})
    check("p = 0 returns x itself", Dropout(0)(x) is x, True)
    check_raises("a probability above 1", ValueError, lambda: Dropout(1.5))


test_dropout()

# %% [markdown]
"""
**What if** somebody forgets `eval()` before using a trained network? Ask the same question five times:
"""

# %%
model, x = Sequential(Linear(16, 16), Dropout(0.5), Linear(16, 1)), Tensor(np.ones(16))
print("forgotten:", [round(model(x).sum().item(), 3) for _ in range(5)])
print("eval():   ", [round(model.eval()(x).sum().item(), 3) for _ in range(5)])

# %% [markdown]
"""
## 7. What it means for a real model

The digits network of the following modules is three lines: `Sequential(Linear(64, 32), ReLU(), Linear(32, 10))`. How many parameters? Guess before you run:
"""

# %%
from tinytorch.core.activations import ReLU

model = Sequential(Linear(64, 32), ReLU(), Linear(32, 10))
print(model)
print(f"{sum(p.size for p in model.parameters()):,} parameters, {sum(p.nbytes for p in model.parameters()):,} bytes")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>A model keeps a running mean as a plain NumPy array. Is it a parameter?</summary>
No. Parameters are <code>Tensor</code>s; what is not trained (a <em>buffer</em>) is a plain array, so the walk passes it by.
</details>
<details><summary>Two layers hold the same weight <code>Tensor</code>. How many gradients does it get?</summary>
One, the sum of both uses. The optimizer must then step it once, which is why the walk lists each object once.
</details>
<details><summary>Why is <code>weight</code> shaped (in, out) and not (out, in)?</summary>
So that <code>x @ weight</code> needs no transpose: shapes read from left to right.
</details>

`tito test layers` checks the module; once all of it passes, `tito module complete layers` puts what you wrote into the package, and later modules run on your code. Next: Module 04, how wrong is the network?
"""
