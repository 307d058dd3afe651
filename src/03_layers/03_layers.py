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
4. make a layer that behaves differently in training and in evaluation.
"""

# %%
#| default_exp core.layers

# %%
#| export
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
Two recipes are in use everywhere. **Xavier** (Glorot and Bengio, 2010) balances forward and backward: uniform on `(-limit, limit)` with
`limit = sqrt(6 / (fan_in + fan_out))`. **He** (He and others, 2015) allows for ReLU throwing half away: normal with `std = sqrt(2 / fan_in)`.

Randomness comes from one generator that you can seed. Under `shape_only()` no number is drawn: the weight is hollow. Given: the generator, `manual_seed`, and `_weight`, which knows about both.
"""

# %%
#| export
_generator = np.random.default_rng()


def default_generator():
    """Return the generator that initializers and dropout draw from unless they are given one."""
    return _generator


def manual_seed(seed):
    """Start the default generator anew from ``seed``, so that weights and dropout repeat."""
    _generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state


def _weight(shape, draw):
    """Make a trainable float32 tensor from ``draw(shape)``, or a hollow one when only shapes are wanted."""
    if is_shape_only():
        return Tensor(hollow(shape), requires_grad=True)
    return Tensor(draw(shape).astype(np.float32), requires_grad=True)

# %% [markdown]
"""
**Task.** Write `xavier_limit(fan_in, fan_out)` and `he_std(fan_in)`: two numbers. Example: `xavier_limit(2, 4)` is `1.0`; `he_std(8)` is `0.5`.
"""

# %% nbgrader={"grade": false, "grade_id": "initial-scale", "solution": true}
#| export
def xavier_limit(fan_in, fan_out):
    """Half-width of the uniform distribution of Glorot and Bengio (2010): sqrt(6 / (fan_in + fan_out))."""
    ### BEGIN SOLUTION
    return sqrt(6 / (fan_in + fan_out))
    ### END SOLUTION


def he_std(fan_in):
    """Standard deviation of the normal distribution of He and others (2015): sqrt(2 / fan_in)."""
    ### BEGIN SOLUTION
    return sqrt(2 / fan_in)
    ### END SOLUTION

# %%
#| export
def xavier_uniform(fan_in, fan_out, rng=None):
    """Return a trainable (fan_in, fan_out) tensor, uniform within ``xavier_limit``."""
    limit = xavier_limit(fan_in, fan_out)
    return _weight((fan_in, fan_out), lambda shape: (rng or _generator).uniform(-limit, limit, shape))


def he_normal(fan_in, fan_out, rng=None):
    """Return a trainable (fan_in, fan_out) tensor, normal with ``he_std``."""
    return _weight((fan_in, fan_out), lambda shape: (rng or _generator).normal(0, he_std(fan_in), shape))


def zeros(*shape):
    """Return a trainable tensor of zeros: the usual start of a bias."""
    return _weight(shape, np.zeros)

# %% nbgrader={"grade": true, "grade_id": "test-initial-scale", "points": 12, "skill": "initializers"}
from tito.checks import check, check_raises


def test_initial_scale():
    """The two formulas, and that the spread survives ten layers."""
    check("xavier_limit(2, 4)", xavier_limit(2, 4), 1.0, {sqrt(2): "sqrt(6 / fan_in + ...)? the sum of both fans goes below"})
    check("xavier_limit(100, 50)", xavier_limit(100, 50), 0.2)
    check("he_std(8)", he_std(8), 0.5, {0.25: "that is the variance; the standard deviation is its root"})
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    for i in range(10):
        x = np.maximum(x @ he_normal(256, 256, np.random.default_rng(i)).data, 0)
    check("ten ReLU layers keep the spread near 1", bool(0.2 < x.std() < 5), True)


test_initial_scale()

# %% [markdown]
"""
## 2. One op for a whole layer

**Question.** `x @ weight + bias` is two operations. Why make it one?

Because the second pass over the result can reuse the memory of the first, and because it *is* one idea. The op `linear` takes two or three tensors:

```
x: (..., in)     weight: (in, out)     bias: (out,) or absent      result: (..., out)
```

**Task.** Write the shape rule `linear_shape(x, weight, bias=None)`. It must refuse, with a `ValueError` that names what came and what was wanted: an `x` without axes, a last axis that is not `in`, a bias that is not `(out,)`.
Example: `linear_shape((7, 5, 4), (4, 3))` is `(7, 5, 3)`; the message for `((2, 5), (4, 3))` contains `last axis is 5, want 4`.
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
**Task.** Write `linear` itself, on NumPy arrays. Every leading axis is just "more rows". Add the bias only when there is one. The first lines are given: they ask your rule about
shapes that NumPy would not refuse.

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
    """x @ weight + bias: (..., in) @ (in, out) + (out,) -> (..., out); the bias is added in place."""
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

# %% nbgrader={"grade": true, "grade_id": "test-linear-op", "points": 22, "skill": "linear"}
def test_linear_op():
    """Values, leading axes, bias, refusals."""
    w, b = Tensor([[1, 2, 3], [4, 5, 6]]), Tensor([10, 20, 30])
    check("one row", linear(Tensor([[1, 1]]), w, b).data, [[15.0, 27.0, 39.0]], {((5.0, 7.0, 9.0),): "the bias is missing"})
    check("without a bias", linear(Tensor([[1, 1]]), w).data, [[5.0, 7.0, 9.0]])
    check("a vector", linear(Tensor([1, 0]), w, b).data, [11.0, 22.0, 33.0])
    check("leading axes", linear(Tensor(np.ones((7, 5, 2))), w, b).shape, (7, 5, 3))
    check("the rule says the same", linear_shape((7, 5, 2), (2, 3), (3,)), (7, 5, 3))
    check("no rows", linear(Tensor(np.ones((0, 2))), w, b).shape, (0, 3))
    x = Tensor([[1, 1]])
    linear(x, w, b)
    check("inputs are left as they were", [*x.data.ravel().tolist(), *b.data.tolist()], [1.0, 1.0, 10.0, 20.0, 30.0])
    check_raises("wrong features", ValueError, lambda: linear(Tensor(np.ones((2, 5))), w), must_say="last axis is 5, want 2")
    check_raises("a wrong bias", ValueError, lambda: linear_shape((2, 2), (2, 3), (2,)), must_say="want (3,)")
    check_raises("no axis", ValueError, lambda: linear_shape((), (2, 3)))


test_linear_op()

# %% [markdown]
"""
## 3. Finding parameters that nobody registered

**Question.** A model keeps layers as attributes, in lists, in dicts, sometimes twice. How does an optimizer find every weight, once?

We look. A parameter is any `Tensor` reachable from the model by attribute, list or dict. No registration, no base-class magic: an object's attributes are a dict already (`vars(obj)`).

Given: `parts(thing)` answers "what is directly inside?" as `(name, value)` pairs.
"""

# %%
#| export
def parts(thing):
    """Return what is directly inside as (name, value): items of a dict, list or tuple, attributes of an object."""
    if isinstance(thing, dict):
        return [(str(key), value) for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [(str(i), value) for i, value in enumerate(thing)]
    closed = (type, Tensor, np.ndarray, np.random.Generator, FunctionType, MethodType, ModuleType)
    return [] if isinstance(thing, closed) else list(getattr(thing, "__dict__", {}).items())

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
        ("table", "blocks.0.left.weight", "blocks.1.weight", "blocks.2"): "a shared tensor was listed again",
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

`Layer` is given. It is `Scoped` from Module 02, with its scope around every `forward`, so that a listener hears *in which layer* an op ran, whether you call `layer(x)` or `layer.forward(x)`; and with `train()` and `eval()`, which set one flag
all the way down. What is new are two walks. `named_parameters()` is yours. `children()` looks for layers, and for activations, as you looked for tensors, and stops at each one it finds.
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

# %% [markdown]
"""
**Task.** Write `Linear`. `__init__` makes `weight` of shape `(in_features, out_features)` with `xavier_uniform`, and `bias` of zeros, or `None` when `bias=False`. `forward` uses your op.
Sizes must be positive integers: given as `positive`, which refuses `0`, `-3`, `2.5` and `True` with one sentence.
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

# %% nbgrader={"grade": true, "grade_id": "test-linear-layer", "points": 14, "skill": "linear"}
def test_linear_layer():
    """Shapes, parameters, range, refusals."""
    layer = Linear(128, 64)
    check("weight is (in, out)", layer.weight.shape, (128, 64), {(64, 128): "the other way round: ours is (in, out)"})
    check("the bias starts at zero", bool((layer.bias.data == 0).all()), True)
    check("numbers in all", sum(p.size for p in layer.parameters()), 128 * 64 + 64, {8192: "the bias is not found"})
    check("they want gradients", all(p.requires_grad for p in layer.parameters()), True)
    check("the weight is within Xavier's limit", bool(np.abs(layer.weight.data).max() <= xavier_limit(128, 64)), True)
    check("bias=False", [name for name, _ in Linear(4, 3, bias=False).named_parameters()], ["weight"])
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
## 5. Sequential

**Task.** Write `Sequential(*layers)`: keeps them in a list called `layers` and passes `x` from one to the next. `Sequential()` returns what it gets. A single list of layers is accepted too: `Sequential([a, b])`.
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

# %% nbgrader={"grade": true, "grade_id": "test-sequential", "points": 12, "skill": "composition"}
def test_sequential():
    """Order, emptiness, sharing, nesting."""
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
## 6. Dropout: two behaviours in one layer

**Question.** During training, dropout throws away a random part `p` of the numbers so that no neuron can rely on another. What must happen at evaluation, when nothing is thrown away?

The *expected* value must stay the same. So in training the survivors are scaled by `1 / (1 - p)`, and at evaluation the layer does nothing at all.

**Task.** Write `dropout_mask`, an op on arrays: for every element of `a`, `0` with probability `p`, else `1 / (1 - p)`, in the dtype of `a` (with `p = 1` all zero). Draw with `rng.random(a.shape)`, and keep where the draw is `>= p`. Then `Dropout.forward`.
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
        self.p, self.rng = float(p), rng

    def forward(self, x):
        """Return x with some elements dropped in training, x itself in evaluation."""
        ### BEGIN SOLUTION
        if not self.training or self.p == 0:
            return x
        return x * dropout_mask(x, p=self.p, rng=self.rng or default_generator())
        ### END SOLUTION

    def __repr__(self):
        return f"Dropout({self.p})"

# %% nbgrader={"grade": true, "grade_id": "test-dropout", "points": 20, "skill": "dropout"}
def test_dropout():
    """Rate, scale, evaluation, inside Sequential, repeatable."""
    ones = Tensor(np.ones(10_000))
    out = Dropout(0.25, np.random.default_rng(0))(ones).data
    check("survivors are scaled by 4/3", float(out.max()), 4 / 3, {1.0: "the survivors are not scaled", 4.0: "scaled by 1/p"}, rtol=1e-5)
    check("about a quarter is dropped", bool(0.22 < (out == 0).mean() < 0.28), True)
    check("the mean stays near 1", bool(abs(out.mean() - 1) < 0.05), True)
    check("p = 1 drops everything", float(Dropout(1.0)(ones).sum()), 0.0)
    model = Sequential(Linear(4, 4), Dropout(0.9))
    x = Tensor(np.ones((3, 4)))
    check("eval() reaches into Sequential", np.array_equal(model.eval()(x).data, model.layers[0](x).data), True, {False: "dropout is still on"})
    check("eval() returns x itself", Dropout(0.5).eval()(x) is x, True)
    masks = [Dropout(0.5, np.random.default_rng(7))(ones).data for _ in range(2)]
    check("the same seed, the same mask", np.array_equal(*masks), True)
    check_raises("a probability above 1", ValueError, lambda: Dropout(1.5), must_say="0 to 1")


test_dropout()

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

Check the whole module with `tito test layers`. Next: Module 04, how wrong is the network?
"""
