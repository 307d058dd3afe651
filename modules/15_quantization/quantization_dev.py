# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "15_quantization", "release": "d36ca130221c4780"}
# ---

# %% [markdown]
"""
# 15 · Quantization

Tier: Optimization · Difficulty 3 of 4 · About 2½ hours · Needs 01 to 08 (`tito test tensor`, `tito test activations`, `tito test layers`, `tito test losses`, `tito test autograd`, `tito test optimizers`, `tito test training`, `tito test dataloader`) and the Profiler of 14
(`tito test profiling`)

A weight of a trained model is a float32: four bytes, which can tell more than four billion numbers apart. Does the model need to tell them apart? This module gives every weight one byte, proves how far the answers can move, counts how many of them do, and weighs the result. And it measures whether
that makes anything faster. You may bet.

**Build** `quantize`, `dequantize`, the range and its step, `QuantizedLinear`, arithmetic in whole numbers, `quantize_model` → **use** them on a model that reads digits → **reflect** on what four times smaller means for a model of 700 GB.

When you are done you can
1. map floats to 256 whole numbers and back, with an error that you can bound before you look;
2. say why 0 must be hit exactly, and why each channel wants a step of its own;
3. store a layer in int8 so that a profiler, which believes nobody, sees it;
4. compute a layer in whole numbers only, and show that it is the same layer;
5. say what became smaller, what did not become faster, and why.

Yours: both directions of the map, the step and the zero point, quantizing with one step or one for each channel, the layer that keeps int8, the product in integers, the observer of ranges, `quantize_model`, the bound on the error. Given and explained: what refuses NaN and wrong shapes, prices of the new ops,
`replace_layers`, and the training run.

A cell you have not filled says which one it is: `quantize_int8: section 4, cell 2` is the function `quantize_int8` in the second code cell of section 4.
"""

# %%
#| default_exp perf.quantization

# %%
#| export
from copy import deepcopy
from math import prod

import numpy as np

from tinytorch.core.activations import Scoped
from tinytorch.core.autograd import no_grad, no_gradient
from tinytorch.core.layers import Layer, Linear, linear, linear_shape, parts
from tinytorch.core.tensor import Tensor, broadcast_shape, is_shape_only, maximum, normalize_axes, op
from tinytorch.core.training import in_mode
from tinytorch.perf.profiling import INSIDE, Inside, flops, per_output, things_in

# %%
if __name__ == "__main__":
    from tito.needs import needs_profiler

    needs_profiler()

# %% [markdown]
"""
## 1. Profile first

**Question.** Here is a model that reads digits. Somebody wants it on a device with little memory. What takes the room?

Not a question for opinions: train it (a second or so), and ask your Profiler.
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.activations import ReLU
    from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
    from tinytorch.core.layers import Sequential
    from tinytorch.core.losses import CrossEntropyLoss
    from tinytorch.core.optimizers import Adam
    from tinytorch.core.training import Trainer

    rng = np.random.default_rng(0)
    model = Sequential(Linear(64, 256, rng=rng), ReLU(), Linear(256, 256, rng=rng), ReLU(), Linear(256, 10, rng=rng))
    train_images, train_labels = load_digits("train")
    images, labels = load_digits("test")
    trainer = Trainer(model, Adam(model.parameters(), lr=0.003), CrossEntropyLoss())
    trainer.fit(DataLoader(TensorDataset(train_images, train_labels), 64, shuffle=True, seed=0), epochs=8)
    model.eval()


    def right(model, x=images, y=labels):
        """Return how many of the held-out digits the model reads rightly."""
        with no_grad():
            return int((model(Tensor(x)).data.argmax(axis=1) == y).sum())


    print(f"{right(model)} of {len(labels)} held-out digits read rightly")

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import Profiler

    profiler = Profiler()
    one = Tensor(images[:1])
    with no_grad():
        profile = profiler.profile_forward_pass(model, one, iterations=20)
        memory = profiler.measure_memory(model, (1, 64), one)
    print(f"{profile['parameters']:,} parameters, {profile['batch_flops']:,} FLOPs for one digit")
    for kind in ("parameter_memory_mb", "input_mb", "output_mb", "temporaries_mb", "peak_memory_mb"):
        print(f"{kind:>20} {memory[kind] * 2**20:10,.0f} bytes")
    print(f"weights' share of the peak: {memory['parameter_memory_mb'] / memory['peak_memory_mb']:.1%}")
    for row in profile["layers"]:
        if row["parameters"] and row["depth"]:
            print(f"{row['name']:>10}: {row['flops']:8,} FLOPs, {row['bytes']:8,} bytes moved, {row['flops'] / row['bytes']:.2f} FLOPs for each byte")
    limits = profiler.machine_limits()
    print(f"this machine could do {limits.peak_gflops / limits.bandwidth(profile['parameters'] * 4):.1f} FLOPs in the time of each byte")

# %% [markdown]
"""
The profile names it twice. **Held:** almost everything is weights. **Moved:** for one digit, each weight is fetched (4 bytes) and used once (2 FLOPs), half a FLOP for each byte. The last line says how many it could do while it waits for that byte. So it is the bytes of the weights that are worth optimizing, and nothing else here.

What are these weights like?
"""

# %%
if __name__ == "__main__":
    import matplotlib.pyplot as plt

    weights = [layer.weight.data for layer in model.layers if isinstance(layer, Linear)]
    fig, axes = plt.subplots(1, 3, figsize=(9, 2.2), sharey=True, layout="constrained")
    for axis, weight in zip(axes, weights):
        axis.hist(weight.ravel(), bins=np.linspace(weight.min(), weight.max(), 65))
        axis.set(title=f"{weight.shape}: {weight.min():.2f} to {weight.max():.2f}", yscale="log", xlabel="weight")
    axes[0].set_ylabel("how many")
    plt.show()
    print("different numbers among", f"{weights[1].size:,} weights of the second layer:", f"{len(np.unique(weights[1])):,}")

# %% [markdown]
"""
Nearly every weight is a number of its own, and all of them lie between -1 and 1. **Bet** before you go on: if each layer's weights may take only so many different values, evenly spaced from the smallest to the largest, how many digits are still read rightly?
"""

# %%
if __name__ == "__main__":
    my_bet = {256: None, 16: None, 4: None, 2: None}  # different values -> right answers; opened in section 8

# %% [markdown]
"""
## 2. 256 numbers

**Question.** An int8 is a whole number from -128 to 127. How does it stand for 0.1734?

By counting steps. Choose how long a step is, the **scale** `s`, and which whole number stands for 0, the **zero point** `z`. Then

```
q = z + (x / s, rounded)        cut off at -128 and 127          a float becomes a whole number
x̂ = s · (q - z)                                                  and comes back, nearly
```

With `s = 0.5` and `z = 3`:

```
x     -65.5   ...   -1.0   -0.5    0.0    0.5    1.0   ...   62.0      1000
q      -128   ...      1      2      3      4      5   ...    127       127   saturates: the nearest there is
```

A number between two marks goes to the nearer one, so it moves by **half a step at most**. That is the whole loss, and it is known before anything is computed.

Both directions are ops, so that a profiler hears them. What you write is the NumPy function inside: it receives arrays. Given: the shape rule (the scale and the zero point may be single numbers, or stretch to `x`, but must not make it larger), a refusal of steps that are not longer than 0 and of zero points that are none of the 256 numbers, and `as_int8`, which makes int8 out of whole floats and
refuses NaN: no int8 stands for it, and NumPy would make some number of it without a word.

**Task.** Write the insides of

- `quantize(x, scale, zero_point)`: floats → int8 by the first line. `np.rint` rounds to the nearest whole number, `np.clip(a, first, last)` cuts off; end with `as_int8(...)`;
- `dequantize(q, scale, zero_point)`: int8 → float32 by the second line. Beware: int8 minus int8 is int8, and 127 - (-128) does not fit into one. Go to `np.float32` first: `q.astype(np.float32)`. If you then work in place (`out -= ...`), there is only one array of floats at a time; section 9 will notice.

Example: `scale = 0.5`, `zero_point = 3`: -0.3 is -0.6 steps, rounded -1, so 2. Back: 0.5 · (2 - 3) = -0.5. It moved by 0.2, less than 0.25.

<details><summary>Hint 1: idea</summary>
Each is its formula, left to right. In the first, only the order matters: round, shift, cut off.
</details>
<details><summary>Hint 2: approach</summary>
What is cut off are the numbers <em>after</em> the zero point was added: those are the ones that have to fit. <code>FIRST</code> and <code>LAST</code> are their limits.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>scale = 2, zero_point = -10</code>. 7.1 is 3.55 steps, rounded 4, so -6; back 2 · (-6 + 10) = 8. And 500 is 250 steps, 240, cut off at 127; back 2 · 137 = 274: far off, because 500 was outside of the range.
</details>
"""

# %%
#| export
FIRST, LAST = -128, 127  #: the ends of int8


def affine_shape(x, scale, zero_point):
    """Return the shape of x, the rule of both ops; ``ValueError`` unless scale and zero point stretch to it."""
    for name, shape in (("scale", scale), ("zero_point", zero_point)):
        try:
            fits = broadcast_shape(x, shape) == tuple(x)
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{name} {shape} with x {x}: want a shape that stretches to x's, and makes it no larger")
    return x


def above_zero(scale):
    """Refuse a scale that is no length of a step with a ``ValueError``."""
    good = (scale > 0) & np.isfinite(scale)
    if not good.all():
        raise ValueError(f"a scale is {scale[~good].flat[0]:g}; want steps longer than 0, and finite")


def one_of_256(zero_point):
    """Refuse a zero point for which no int8 stands with a ``ValueError``: 0 would not come back as 0."""
    good = np.isin(zero_point, np.arange(FIRST, LAST + 1)) if zero_point.dtype != np.int8 else np.True_
    if not good.all():
        raise ValueError(f"a zero point is {zero_point[~good].flat[0]:g}; want whole numbers from {FIRST} to {LAST}")


def as_int8(steps):
    """Return ``steps``, whole numbers from -128 to 127, as int8; ``ValueError`` for NaN, which no int8 stands for."""
    if np.isnan(steps).any():
        raise ValueError("NaN came, and no int8 stands for it; look where it was made")
    return steps.astype(np.int8)

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "quantize", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=affine_shape, dtype=np.int8)
def quantize(x, scale, zero_point):
    """Count in steps: x (...) -> int8 (...), x / scale rounded, plus zero_point, cut off at -128 and 127.

    scale (float32) and zero_point (int8) are single numbers or stretch to x. NaN is a ``ValueError``.
    Source: Jacob and others, 2018.
    """
    affine_shape(x.shape, scale.shape, zero_point.shape)
    above_zero(scale)
    one_of_256(zero_point)
    with np.errstate(over="ignore"):  # too many steps for a float: infinitely many, cut off like others
        raise NotImplementedError("quantize: section 2, cell 2")


@op(shape=affine_shape, dtype=np.float32)
def dequantize(q, scale, zero_point):
    """Go back: int8 q (...) -> float32 (...), scale · (q - zero_point); other types are a ``TypeError``."""
    affine_shape(q.shape, scale.shape, zero_point.shape)
    if q.dtype != np.int8:
        raise TypeError(f"q is {q.dtype}; want int8, as quantize makes it")
    above_zero(scale)
    one_of_256(zero_point)
    raise NotImplementedError("dequantize: section 2, cell 2")

# %%
if __name__ == "__main__":
    numbers = Tensor([-65.5, -1.0, -0.3, 0.0, 0.1734, 0.9, 62.0, 1000.0])
    steps = quantize(numbers, 0.5, 3)
    back = dequantize(steps, 0.5, 3)
    for x, q, came in zip(numbers.data, steps.data, back.data):
        print(f"{x:9.4f} -> {q:4d} -> {came:7.2f}   moved by {abs(came - x):8.4f}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-quantize", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "steps"}
if __name__ == "__main__":
    from tito.checks import check


    def test_quantize():
        """Rounding, shifting, cutting off, and the way back."""
        x = Tensor([-1.0, -0.3, 0.0, 0.24, 0.26, 1.0, 1000.0, -1000.0])
        q = quantize(x, 0.5, 3)
        check("scale 0.5, zero point 3", q.data, [1, 2, 3, 3, 4, 5, 127, -128], {
            (1, 3, 3, 3, 3, 5, 127, -128): "cut towards 0, not rounded: np.rint", (1, 2, 3, 3, 3, 5, 127, -128): "rounded down: want the nearest, np.rint",
            (-2, -1, 0, 0, 1, 2, 127, -128): "the zero point is left out", (-5, -4, -3, -3, -2, -1, 127, -128): "the zero point is subtracted: 0 must land on it",
            (3, 3, 3, 3, 3, 3, 127, -128): "multiplied by the scale: how many steps is x / scale", (1, 2, 3, 3, 4, 5, -45, 51): "not cut off: 2,003 does not fit into int8, and wraps around",
            (1, 2, 3, 3, 4, 5, -126, -125): "cut off before the zero point was added", (1, 2, 3, 3, 4, 5, -1, 0): "cut off at 0 and 255: int8 goes from -128 to 127",
            (1, 2, 3, 3, 4, 5, 127, -127): "cut off at -127: int8 goes down to -128"})
        check("in int8, one byte each", (q.dtype.name, q.nbytes), ("int8", 8))
        back = dequantize(Tensor(np.array([-128, 0, 127], np.int8)), 0.5, 3)
        check("and back", back.data, [-65.5, -1.5, 62.0], {
            (62.5, -1.5, 62.0): "-128 - 3 was computed in int8, where it is 125: go to float32 first", (-64.0, 0.0, 63.5): "the zero point is left out",
            (-62.5, 1.5, 65.0): "the zero point is added: on the way back it comes off", (-67.0, -3.0, 60.5): "first take the zero point off, then multiply",
            (-262.0, -6.0, 248.0): "divided by the scale: on the way back multiply"})
        check("in float32", back.dtype.name, "float32")
        columns = quantize(Tensor([[1.0, 1.0], [-1.0, 4.0]]), Tensor([0.5, 2.0]), Tensor(np.array([0, 10], np.int8)))
        check("a step for each column: halves go to the even number", columns.data, [[2, 10], [-2, 12]])
        many = np.linspace(-60, 60, 999, dtype=np.float32)
        moved = np.abs(dequantize(quantize(Tensor(many), 0.5, 3), 0.5, 3).data - many)
        check("999 numbers, none moves by more than half a step, 0.25", bool(moved.max() <= 0.25), True)
        check("and some move by nearly that", bool(moved.max() > 0.24), True)


    test_quantize()

# %% [markdown]
"""
Given: what a new op owes the rest of the framework. No gradient passes it (rounding is flat nearly everywhere: its slope is 0, and at the jumps there is none). It costs one FLOP for each output element, as every elementwise op does. And since NumPy takes several passes, each of which reads and writes
a whole array of floats, `INSIDE` says so; without it the roofline would promise a speed that nobody gets. (*Skip on first reading.* `Inside` counts in elements of the op's mean width: here one byte in and four out, or the other way round, so 2.5.)
"""

# %%
#| export
no_gradient(quantize, dequantize)
for _each in (quantize, dequantize):
    flops(_each)(per_output)


def _passes(num_bytes):
    """Return an ``INSIDE`` rule: so many bytes for each element, of an op between int8 and float32."""
    return lambda out_shape, *in_shapes: Inside(elements=2 * num_bytes * prod(out_shape) // 5, steps=3)


INSIDE[quantize] = _passes(32)  # steps, rounded, shifted, cut off: each written and read in float32
INSIDE[dequantize] = _passes(16)  # in float32, and without the zero point: each written and read

# %% [markdown]
"""
## 3. How long is a step, and where is 0?

**Question.** The weights of a layer go from -0.6 to 0.9. Which scale, which zero point?

256 marks have **255 steps** between them. The first mark should fall on the lowest number, the last on the highest:

```
scale      = (high - low) / 255
zero point : 0 lies -low above the lowest number, which is -low / scale steps, counted from -128
```

So the zero point is *itself* a quantized number: what `-low` gives, if -128 stands for 0. You have the op for that.

One thing comes first. **0 must be hit exactly.** It is no number like others: a ReLU makes it, padding is made of it, a pruned weight is it, and 0 times anything is to be nothing. If 0 came back as 0.003, thousands of nothings would add up to something. `s · (q - z)` is exactly 0 where `q = z`, so all it
takes is that `z` is one of the 256: the range must *hold* 0. If all numbers are positive, take `low = 0`; if all are negative, `high = 0`.

And where there is no range (`low = high = 0`), a step of 0 would be divided by. Any other will do: `TINY` is the smallest that float32 still holds in full precision. `maximum(step, TINY)` costs nobody else anything.

**Task.** Write `affine_parameters(low, high)` → `(scale, zero_point)`, for single numbers or Tensors of one shape. Given is the line that makes Tensors of both and refuses what is no range. You may use `maximum(a, 0.0)`, minus signs, arithmetic, and `quantize`. There is no `minimum`, and no need of one.

Example: `low = -1, high = 4.1`: 5.1 / 255 = 0.02; 1 / 0.02 = 50 steps above -128: the zero point is -78.

<details><summary>Hint 1: idea</summary>
Mend the range, then write down the two lines of the box.
</details>
<details><summary>Hint 2: approach</summary>
The smaller of a and b is <code>-maximum(-a, -b)</code>. The zero point: <code>quantize</code> of how much, with which scale, counted from where?
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>low = 1, high = 5.1</code>: the range becomes 0 to 5.1, the scale 0.02, and 0 lies 0 steps above the lowest: zero point -128. For <code>low = -5.1, high = -1</code>: -5.1 to 0, 255 steps above -128, that is 127.
</details>
"""

# %%
#| export
TINY = float(np.finfo(np.float32).tiny)  #: the smallest float32 in full precision


def checked_range(low, high):
    """Return low and high as float32 Tensors; ``ValueError`` unless low <= high, both finite and their distance too."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (Tensor(value, dtype=np.float32).detach() for value in (low, high))
        wide = high.data - low.data
    if not is_shape_only() and not (np.isfinite(wide) & (wide >= 0)).all():
        at = np.argmin(np.isfinite(wide) & (wide >= 0))
        a, b = (np.broadcast_to(value.data, wide.shape).flat[at] for value in (low, high))
        raise ValueError(f"a range from {a:g} to {b:g}; want two finite numbers, the lower first")
    return low, high

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "affine-parameters", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def affine_parameters(low, high):
    """Return (scale float32, zero_point int8) of the range low to high, extended to hold 0; Tensors of its shape.

    The 256 values of int8 are spread evenly; 0.0 is one of them, exactly. What lies in the range comes back from
    ``dequantize`` within half a step. ``ValueError``: not finite, or the higher first.
    """
    low, high = checked_range(low, high)
    raise NotImplementedError("affine_parameters: section 3, cell 2")

# %%
if __name__ == "__main__":
    for low, high in ((-1.0, 4.1), (-0.6, 0.9), (2.0, 5.1), (0.0, 0.0)):
        scale, zero_point = affine_parameters(low, high)
        zero = dequantize(quantize(Tensor(0.0), scale, zero_point), scale, zero_point)
        print(f"{low:4} to {high:3}: scale {scale.item():8.3g}, zero point {zero_point.item():4d}; 0 comes back as {zero.item()}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-affine-parameters", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "range"}
if __name__ == "__main__":
    def test_affine_parameters():
        """The example, ranges on one side of 0, no range at all, one for each column."""
        scale, zero_point = affine_parameters(-1.0, 4.1)
        check("scale of -1 to 4.1", scale.item(), 0.02, {
            5.1 / 256: "256 marks have 255 steps between them", 8.2 / 255: "that is for a range from -4.1 to 4.1", 4.1 / 127: "that is for a range from -4.1 to 4.1",
            3.1 / 255: "high + low: the width is high - low", 50.0: "the other way round: width over steps"})
        check("zero point of -1 to 4.1", zero_point.item(), -78, {
            50: "counted from 0: the lowest number stands at -128", 77: "low and high have changed places: 0 lies -low above the lowest number", -128: "0 lies -low / scale steps above the lowest number, not at it",
            127: "0 lies -low / scale steps above the lowest number: is it -low, and not low?"})
        check("types", (scale.dtype.name, zero_point.dtype.name), ("float32", "int8"))
        scale, zero_point = affine_parameters(1.0, 2.55)
        check("1 to 2.55 must hold 0", (scale.item(), zero_point.item()), (0.01, -128), {
            (1.55 / 255, -128): "0 is not in the range, so nothing stands for it: low is 0 at most", (2.55 / 255, 127): "low and high have changed places"})
        scale, zero_point = affine_parameters(-2.55, -1.0)
        check("-2.55 to -1 must hold 0", (scale.item(), zero_point.item()), (0.01, 127), {
            (1.55 / 255, 127): "0 is not in the range, so nothing stands for it: high is 0 at least"})
        scale, zero_point = affine_parameters(0.0, 0.0)
        check("no range: the step is a number above 0", bool(0 < scale.item() < np.inf), True, {False: "a step of 0 will be divided by: maximum(..., TINY)"})
        scale, zero_point = affine_parameters(Tensor([-1.0, 0.5]), Tensor([1.55, 2.55]))
        check("a range for each column: scales", scale.data, [0.01, 0.01])
        check("a range for each column: zero points", zero_point.data, [-28, -128])
        rng, moved, zeros = np.random.default_rng(0), [], []
        for low, high in np.sort(rng.normal(0, 3, (200, 2))):
            scale, zero_point = affine_parameters(low, high)
            x = Tensor(np.append(rng.uniform(low, high, 50), [low, high, 0.0]).astype(np.float32))
            back = dequantize(quantize(x, scale, zero_point), scale, zero_point).data
            moved.append(np.abs(back - x.data).max() / scale.item())
            zeros.append(back[-1])
        check("200 ranges: 0 comes back as", set(map(float, zeros)) == {0.0}, True, {False: "0 comes back as something else: the zero point must be a whole number of the 256"})
        check("200 ranges: nothing moves by more than half a step", bool(max(moved) < 0.5001), True, {False: "something moves by more: is a part of the range cut off?"})


    test_affine_parameters()

# %% [markdown]
"""
**What if** there is one weight that is far from all the others? Put it there, and look at the step:
"""

# %%
if __name__ == "__main__":
    weight = Tensor(weights[1].copy())
    for outlier in (None, 5.0, 50.0, 500.0):
        if outlier:
            weight.data[0, 0] = outlier
        scale, zero_point = affine_parameters(weight.data.min(), weight.data.max())
        marks = np.unique(quantize(weight, scale, zero_point).data)
        print(f"largest weight {weight.data.max():8.3f}: step {scale.item():.5f}, {len(marks):3d} of 256 marks in use")

# %% [markdown]
"""
One weight in 65,536 takes the marks away from all the others. In the last line two marks are left in use: one for that weight, and 0 for everything else.

## 4. One step for all, or one for each channel

**Question.** Can one outlier be kept from spoiling the rest?

In a `Linear` with a weight `(in, out)`, column `j` makes output `j`, and no other column has anything to do with it. So every column, every **channel**, may have a scale and a zero point of its own. It costs 5 bytes for each column, and an outlier spoils one column only.

**Task.** Write `quantize_int8(x, axis=None)` → `(q, scale, zero_point)`, three Tensors. With `axis=None` there is one step for the whole tensor. With an `axis`, there is one for each place on *that* axis: lows and highs are taken along **all the others** (`others`, given), and `keepdims=True` leaves these
as size 1, so that scale and zero point stretch to `x`:

```
x (64, 10), axis=None:   low, high, scale, zero_point  ()            q (64, 10)
x (64, 10), axis=1:      low, high, scale, zero_point  (1, 10)       q (64, 10)
```

`x.max(axis=others, keepdims=True)` is there; a `min` is not: the lowest of x is minus the highest of -x. Given: `x` is made a Tensor of floats that remembers no gradient, and `others` is None without an axis.

Example: `[[-1, 0], [4.1, 0.3]]` with `axis=1`: the columns have steps of 5.1 / 255 and 0.3 / 255, and both use the whole range: `[[-128, -128], [127, 127]]`.

<details><summary>Hint 1: idea</summary>
A low and a high; their parameters; the op. Three lines, whatever the axis.
</details>
<details><summary>Hint 2: approach</summary>
<code>keepdims</code> may be True in both cases if you do not mind a scale of shape (1, 1); the task says <code>()</code>, so it is True exactly if there is an axis.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>x</code> of (2, 3, 4) with <code>axis=1</code>: others (0, 2), low and high (1, 3, 1): three steps, each from the 8 numbers of one middle place.
</details>
"""

# %%
#| export
def floats_of(x):
    """Return x as a Tensor of floats without a gradient; ``TypeError`` for whole numbers, ``ValueError`` for none."""
    x = (x if isinstance(x, Tensor) else Tensor(x)).detach()
    if x.dtype.kind != "f":
        raise TypeError(f"x is {x.dtype}; want floats to quantize")
    if not x.size:
        raise ValueError(f"x {x.shape} is empty, and has no range; want at least one number")
    return x


def other_axes(rank, axis):
    """Return all of ``rank`` axes but ``axis``, None for None; ``ValueError`` when it does not exist."""
    if axis is None:
        return None
    (kept,) = normalize_axes(rank, axis)
    return tuple(i for i in range(rank) if i != kept)

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "quantize-int8", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def quantize_int8(x, axis=None):
    """Quantize floats by their own range: x (...) -> (q int8 (...), scale float32, zero_point int8).

    One scale and zero point, of shape (), for all of x; with an ``axis``, one for each place on it, in a shape that
    stretches to x. No element moves by more than half a step. ``ValueError``: NaN, infinities, an empty x.
    """
    x = floats_of(x)
    others = other_axes(x.ndim, axis)
    raise NotImplementedError("quantize_int8: section 4, cell 2")


def dequantize_int8(q, scale, zero_point):
    """Undo ``quantize_int8``, up to half a step: int8 q (...) -> float32 (...)."""
    return dequantize(q, scale, zero_point)

# %%
if __name__ == "__main__":
    x = Tensor([[-1.0, 0.0], [4.1, 0.3]])
    for axis in (None, 1):
        q, scale, zero_point = quantize_int8(x, axis)
        print(f"axis {axis}: q {q.data.tolist()}, scale {scale.shape}, zero point {zero_point.data.tolist()}, back {dequantize_int8(q, scale, zero_point).data.astype(float).round(4).tolist()}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-quantize-int8", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "range"}
if __name__ == "__main__":
    def test_quantize_int8():
        """One step for all, one for each column, stacks, the bound."""
        x = Tensor([[-1.0, 0.0], [4.1, 0.3]], requires_grad=True)
        q, scale, zero_point = quantize_int8(x)
        check("one step for all", q.data, [[-128, -78], [127, -63]], {
            ((-128, -128), (127, 127)): "without an axis there is one step for all", ((-128, -128), (127, -109)): "the lowest is taken for 0: minus the highest of -x"})
        check("its scale, its shape", (scale.item(), scale.shape, zero_point.shape), (0.02, (), ()), {
            (0.02, (1, 1), (1, 1)): "without an axis nothing is kept: keepdims only with one"})
        q, scale, zero_point = quantize_int8(x, axis=1)
        check("one for each column", q.data, [[-128, -128], [127, 127]], {
            ((-128, 127), (127, -109)): "one for each row: reduce along the other axes, so that axis 1 is left", ((-128, -78), (127, -63)): "one step for all: the axis is not used"})
        check("its scales, their shape", (scale.data, scale.shape), ([[0.02, 0.3 / 255]], (1, 2)))
        check("one for each row", quantize_int8(x, axis=0)[0].data, [[-128, 127], [127, -109]])
        stack = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
        q, scale, zero_point = quantize_int8(stack, axis=-2)
        check("a stack, an axis counted from the end", (q.shape, scale.shape, zero_point.shape), ((2, 3, 4), (1, 3, 1), (1, 3, 1)))
        moved = np.abs(dequantize_int8(q, scale, zero_point).data - stack) / scale.data
        check("nothing moves by more than half of its own step", bool(moved.max() < 0.5001), True)
        check("types", (q.dtype.name, scale.dtype.name, zero_point.dtype.name, q.nbytes), ("int8", "float32", "int8", 24))
        check("x is as it was", x.data, [[-1.0, 0.0], [4.1, 0.3]])


    test_quantize_int8()

# %% [markdown]
"""
How much finer are the steps of single columns? And here is a model that computes **the same function** as yours with other weights: a ReLU lets a positive factor pass, `relu(c · x) = c · relu(x)`, so one hidden unit may be scaled up on its way in and down on its way out. Training may well end at
weights like these. **Guess** what one step for all does to it:
"""

# %%
if __name__ == "__main__":
    def with_weights(model, change, factor=1.0, unit=0):
        """Return a copy of the model whose weights went through ``change``, with one hidden unit scaled up and down first."""
        new = deepcopy(model)
        first, second = new.layers[0], new.layers[2]
        first.weight.data[:, unit] *= factor
        first.bias.data[unit] *= factor
        second.weight.data[unit] /= factor
        for layer in new.layers:
            if isinstance(layer, Linear):
                layer.weight.data = change(layer.weight).data
        return new


    for factor in (1.0, 1000.0):
        print(f"one unit scaled by {factor:g}: as it is {right(with_weights(model, lambda weight: weight, factor))},", *[
            f"{name} {right(with_weights(model, lambda weight, axis=axis: dequantize_int8(*quantize_int8(weight, axis)), factor))}" for name, axis in (("one step for all", None), ("one for each column", 1))], f"of {len(labels)}")

# %% [markdown]
"""
With ordinary weights both do well. With one large column, one step for all leaves a model that guesses, and a step for each column does not notice. (Why not a step for each row? Row `i` belongs to input `i`, and every output adds up over all rows: a step that changes from term to term cannot be taken out of the sum. Section 6 will want to.)

## 5. A layer that keeps int8

**Question.** Above, the weights went to int8 *and came back*. How many bytes did that save?

None: what was stored is float32 again, only with 256 different values in it. Much that is called "4x smaller" in a table is of this kind. The saving begins when the layer **keeps** the int8 array, and nothing else, and goes back to floats only while it computes.

**Task.** Write `QuantizedLinear(linear, per_channel=True)`, made from a `Linear`:

- `__init__`: keep `weight` (int8, `(in, out)`), `scale` and `zero_point`, with a step for each column if `per_channel`, else one. Keep these two in one axis (`.reshape(-1)`: `(out,)` or `(1,)`), which stretches to the weight as well, and to an output of any number of axes. Given: sizes and the bias, which
stays float32 (there is one number in it where the weight has a column).
- `forward(x)`: `x @ dequantized weight + bias`, with the op `linear(x, weight)` or `linear(x, weight, bias)`. Keep no float weight on `self`.

All three are Tensors on `self`, so your Profiler finds and weighs them, scales included.

Example: `QuantizedLinear(Linear(256, 128))` holds 256 · 128 bytes of weight, 128 · 4 of bias, 128 · 4 of scale, 128 of zero points: 33,920 in place of 131,584.

<details><summary>Hint 1: idea</summary>
Everything is written already: one call when the layer is made, one each time it is used.
</details>
<details><summary>Hint 2: approach</summary>
<code>quantize_int8(linear.weight, axis=...)</code> gives the three Tensors. Outputs are axis 1 of the weight. A bias of None is left out of the call.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
A (3, 2) weight without a bias: 6 bytes of weight, 2 · 4 of scale, 2 of zero points: 16 bytes; the float layer had 24. With <code>per_channel=False</code>: 6 + 4 + 1 = 11.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "quantized-linear", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class QuantizedLinear(Layer):
    """A ``Linear`` whose weight is stored in int8: x (..., in_features) -> (..., out_features), computed in float32.

    ``weight`` (in, out) int8, ``scale`` and ``zero_point`` (out,), or (1,) without ``per_channel``; the bias stays as
    it was. The float weight exists only during a call. For inference: nothing in it is trained. ``TypeError``: what is
    no ``Linear`` came.
    """

    def __init__(self, linear, per_channel=True):
        """Quantize the weight of ``linear``, which is not changed; its bias is shared."""
        if not isinstance(linear, Linear):
            raise TypeError(f"a {type(linear).__name__} came; want a Linear to quantize")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.per_channel = bool(per_channel)
        self.bias = None if linear.bias is None else linear.bias.detach()
        raise NotImplementedError("QuantizedLinear.__init__: section 5, cell 1")

    def forward(self, x):
        """Compute x @ weight + bias with the weight back in float32: (..., in_features) -> (..., out_features)."""
        raise NotImplementedError("QuantizedLinear.forward: section 5, cell 1")

    def __repr__(self):
        how = "" if self.per_channel else ", per_channel=False"
        return f"{type(self).__name__}({self.in_features}, {self.out_features}{how})"

# %%
if __name__ == "__main__":
    plain = Linear(256, 128, rng=rng)
    layer = QuantizedLinear(plain)
    x = Tensor(rng.standard_normal((4, 256)).astype(np.float32))
    for one in (plain, layer):
        print(f"{one!r:26}", f"{profiler.measure_memory(one, (4, 256))['parameter_memory_mb'] * 2**20:8,.0f} bytes:", ", ".join(f"{name} {p.dtype} {p.shape}" for name, p in one.named_parameters()))
    print("largest difference of their outputs:", f"{np.abs(plain(x).data - layer(x).data).max():.4f}", "of", f"{np.abs(plain(x).data).max():.2f}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-quantized-linear", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "layer"}
if __name__ == "__main__":
    from tinytorch.core.tensor import listen
    from tinytorch.perf.profiling import count_parameters, measure_memory


    def small_linear():
        """Return a Linear(2, 2) with the weight of the example in section 4, and the bias 1, 2."""
        small = Linear(2, 2)
        small.weight.data[:], small.bias.data[:] = [[-1.0, 0.0], [4.1, 0.3]], [1.0, 2.0]
        return small


    def test_quantized_linear():
        """What it holds, in bytes that the Profiler finds; what it computes."""
        small = small_linear()
        layer = QuantizedLinear(small)
        check("the weight is stored as", layer.weight.dtype.name, "int8", {
            "float32": "whole or not, these numbers take four bytes each: keep what quantize made, and go back in forward"})
        check("the weight", layer.weight.data, [[-128, -128], [127, 127]], {((-128, -78), (127, -63)): "one step for all: per_channel asks for one for each column",
            ((-128, 127), (127, -109)): "one for each row: outputs are axis 1"})
        check("scales and zero points", (layer.scale.data, layer.zero_point.data), ([0.02, 0.3 / 255], [-78, -128]))
        for per_channel, want in ((True, 33_920), (False, 33_285)):
            size = measure_memory(QuantizedLinear(Linear(256, 128), per_channel), (1, 256))["parameter_memory_mb"] * 2**20
            check(f"bytes of Linear(256, 128), per_channel={per_channel}, found by the Profiler", round(size), want, {
                132_224: "the weight is stored as float32: 4x smaller in name only", 131_589: "the weight is stored as float32: 4x smaller in name only", 131_584: "the float weight is kept, and nothing else",
                164_992: "int8 is kept, and the float weight as well", 164_357: "int8 is kept, and the float weight as well", 165_504: "int8 is kept, and the Linear as well", 164_869: "int8 is kept, and the Linear as well",
                33_280: "scale and zero point are not Tensors on self: nobody finds or saves them", 33_920: "per_channel is not used", 33_285: "per_channel is not used"})
        got = layer(Tensor([[1.0, 1.0], [0.0, 2.0]]))
        check("two inputs", got.data, [[4.1, 2.3], [9.2, 2.6]], {
            ((3.1, 0.3), (8.2, 0.6)): "the bias is left out", ((0.0, 1.0), (255.0, 256.0)): "multiplied by the int8 numbers themselves: dequantize first"}, rtol=1e-5)
        events = []
        with listen(events.append):
            layer(Tensor([[[1.0, 1.0]]]))
        check("of both ops, a call needs", [event.op.name for event in events if event.op in (quantize, dequantize)], ["dequantize"], {
            (): "a float weight must be kept somewhere: go back in forward", ("quantize", "dequantize"): "quantized again at every call: that belongs into __init__"})
        check("no float weight is left behind by the call", sorted(p.dtype.name for p in layer.parameters()), ["float32", "float32", "int8", "int8"])
        bare = QuantizedLinear(Linear(3, 5, bias=False))
        check("without a bias, one vector", bare(Tensor([1.0, 2.0, 3.0])).shape, (5,))
        check("nothing is trained", count_parameters(layer, trainable_only=True), 0)
        check("the Linear is as it was", (small.weight.dtype.name, small.weight.data), ("float32", [[-1.0, 0.0], [4.1, 0.3]]))


    test_quantized_linear()

# %% [markdown]
"""
**What it means for a real model.** How close to 4 does one come? The weight shrinks to a quarter; bias, scale and zero point are 9 bytes for each output where there were 4. The larger the layer, the less that matters:
"""

# %%
if __name__ == "__main__":
    for size in (8, 64, 256, 1024, 4096):
        print(f"Linear({size}, {size}): {4 * (size * size + size) / (size * size + 9 * size):.3f} times smaller")

# %% [markdown]
"""
## 6. In whole numbers only

**Question.** That layer stores bytes and computes with floats. Can it compute with the bytes?

Quantize the input too, with a scale and a zero point of its own. Then both factors of each product are a step times a whole number, and the steps, since they are the same for all terms of the sum, come out of it:

```
Σ over i of  x[i] · W[i, j]   ≈   Σ  sx · (qx[i] - zx) · sj · (qw[i, j] - zj)   =   sx · sj · Σ (qx[i] - zx) · (qw[i, j] - zj)
                                                                                              └───────── whole numbers ──────┘
```

That is why a step for each *column* is possible, and one for each *row* is not. Inside the sum there are only whole numbers, so the sum is **exact**: no rounding, no order of summation. It needs room, though. A factor is at most 255, a product 65,025, far too much for int8. The sum is held in **int32**, which
reaches 2,147,483,647: 33,025 products of the largest kind. Longer sums are refused rather than allowed to wrap around.

**Task.** Write the inside of the op `integer_linear(x, x_zero_point, weight, weight_zero_point)`: arrays of int8, `(..., in)` and `(in, out)` → int32 `(..., out)`, the sum on the right. Go to `np.int32` *before* the zero points come off; `np.subtract(a, b, dtype=np.int32)` does both in one pass.

Then write `IntegerLinear.forward(x)`: quantize `x` with `self.input_scale` and `self.input_zero_point`, call the op, multiply the sum by both steps (`self.input_scale * self.scale`, one number for each output), add the bias if there is one. `__init__` is given: it takes the range of the inputs, low to high, and
makes scale and zero point of it.

Example: `qx = [127]`, `zx = -128`, `qw = [[127]]`, `zw = -128`: 255 · 255 = 65,025.

<details><summary>Hint 1: idea</summary>
The op: take both zero points off, then one <code>@</code>. The layer: four steps, an op each.
</details>
<details><summary>Hint 2: approach</summary>
The product of the steps has shape (out,) or (1,), and stretches over the sums.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Steps 0.1 and 0.5, zero points 0 and 10. x = 0.7 is 7; w = 2 is 14. Sum: 7 · (14 - 10) = 28, times 0.05: 1.4 = 0.7 · 2.
</details>
"""

# %%
#| export
LONGEST = (2**31 - 1) // 255**2  #: so many products of 255 by 255 fit into int32: 33,025


def integer_linear_shape(x, x_zero_point, weight, weight_zero_point):
    """Return (..., out) for x (..., in) and weight (in, out); ``ValueError`` where int32 could overflow."""
    shape = linear_shape(x, weight)
    if weight[0] > LONGEST:
        raise ValueError(f"{weight[0]:,} products of int8 could overflow int32; {LONGEST:,} fit: quantize this layer's "
                         "weights only")
    affine_shape(x, (), x_zero_point)
    affine_shape(weight, (), weight_zero_point)
    return shape


def both_int8(x, weight):
    """Refuse factors ``x`` and ``weight`` that are not int8 with a ``TypeError``."""
    for name, array in (("x", x), ("weight", weight)):
        if array.dtype != np.int8:
            raise TypeError(f"{name} is {array.dtype}; want int8, as quantize makes it")

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "integer-linear", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
@op(shape=integer_linear_shape, dtype=np.int32)
def integer_linear(x, x_zero_point, weight, weight_zero_point):
    """Multiply and add in whole numbers, exactly: int8 (..., in) and (in, out), zero points off -> int32 (..., out).

    ``TypeError``: factors that are not int8. ``ValueError``: more than ``LONGEST`` products, or another zero point.
    """
    integer_linear_shape(x.shape, x_zero_point.shape, weight.shape, weight_zero_point.shape)
    both_int8(x, weight)
    for zero_point in (x_zero_point, weight_zero_point):
        one_of_256(zero_point)
    raise NotImplementedError("integer_linear: section 6, cell 2")


class IntegerLinear(QuantizedLinear):
    """A ``QuantizedLinear`` that multiplies in whole numbers, int8 by int8 into int32: x (..., in) -> (..., out).

    Its input is quantized, too. Inputs outside of the range it was made for are cut off at its ends. ``ValueError``: no
    range of two finite numbers, or so many inputs that int32 could overflow.
    """

    def __init__(self, linear, low, high, per_channel=True):
        """Quantize the weight of ``linear``, for inputs from ``low`` to ``high``, two single numbers."""
        super().__init__(linear, per_channel)
        integer_linear_shape((self.in_features,), (), self.weight.shape, self.zero_point.shape)
        self.input_scale, self.input_zero_point = affine_parameters(low, high)
        if self.input_scale.shape != ():
            raise ValueError(f"a range of shape {self.input_scale.shape} came for the inputs; want one low and one "
                             "high: a step that changes from input to input cannot be taken out of the sum")

    def forward(self, x):
        """Compute x @ weight + bias in whole numbers; only the sums are scaled back to float32."""
        raise NotImplementedError("IntegerLinear.forward: section 6, cell 2")

# %%
if __name__ == "__main__":
    x = Tensor(rng.uniform(0, 1, (4, 256)).astype(np.float32))
    layer = IntegerLinear(plain, 0.0, 1.0)
    q = quantize(x, layer.input_scale, layer.input_zero_point)
    total = integer_linear(q, layer.input_zero_point, layer.weight, layer.zero_point)
    by_python = sum((int(a) + 128) * (int(b) - int(layer.zero_point.data[0])) for a, b in zip(q.data[0], layer.weight.data[:, 0]))
    print("first sum by Python's own integers", by_python, "and by the op", total.data[0, 0])
    for name, change in (("the layer's own steps", lambda t: t), ("powers of two", lambda t: Tensor(np.exp2(np.rint(np.log2(t.data)))))):
        x_step, w_step = change(layer.input_scale), change(layer.scale)
        in_floats = linear(dequantize(q, x_step, layer.input_zero_point), dequantize(layer.weight, w_step, layer.zero_point))
        print(f"whole numbers against the same ones dequantized, {name}: largest difference {np.abs((total * (x_step * w_step)).data - in_floats.data).max():.1g}")

# %% [markdown]
"""
The two ways are one and the same sum. What differs in the first line is the rounding of *floats*, which the whole numbers do not have; with steps that are powers of two floats do not round here either, and nothing differs at all.
"""

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-integer-linear", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "integers"}
if __name__ == "__main__":
    from tito.checks import check_raises


    def test_integer_linear():
        """Products that do not fit into int8, sums that do not fit into float32, the layer around them."""
        largest = Tensor(np.array([[127]], np.int8))
        check("255 · 255", integer_linear(largest, -128, largest, -128).item(), 65_025, {
            16_129: "the zero points are left out", 1: "computed in int8, where 127 + 128 is -1: go to int32 first", -511: "held in int16: 65,025 does not fit", 128: "the zero points come off both factors", 32_385: "a zero point comes off one factor only"})
        x, w = Tensor(np.full((1, 999), 127, np.int8)), Tensor(np.full((999, 1), 127, np.int8))
        check("999 of them, exactly", integer_linear(x, -128, w, -128).item(), 64_959_975, {64_959_976: "summed in float32, which has no odd numbers up there: int32"})
        rng = np.random.default_rng(0)
        x, w, zero_points = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 5, 30), (30, 4), 4))
        got = integer_linear(Tensor(x), 7, Tensor(w), Tensor(zero_points))
        want = (x.astype(int) - 7) @ (w.astype(int) - zero_points)
        check("a zero point for each column", (got.shape, got.dtype.name, np.array_equal(got.data, want)), ((2, 5, 4), "int32", True))
        layer = IntegerLinear(small_linear(), 0.0, 2.55)
        got = layer(Tensor([[1.0, 2.0], [0.0, 0.0], [100.0, 100.0]]))
        check("the layer: 7.2 + 1 and 0.6 + 2; nothing; cut off at 2.55", got.data, [[8.2, 2.6], [1.0, 2.0], [8.905, 2.765]], {
            ((7.2, 0.6), (0.0, 0.0), (7.905, 0.765)): "the bias is left out", ((721.0, 62.0), (1.0, 2.0), (791.5, 78.5)): "the input's step is left out",
            ((361.0, 512.0), (1.0, 2.0), (396.25, 652.25)): "the weight's step is left out", ((36_001.0, 51_002.0), (1.0, 2.0), (39_526.0, 65_027.0)): "both steps are left out",
            ((8.2, 2.6), (1.0, 2.0), (311.0, 32.0)): "the input is not cut off: was it quantized at all?"}, rtol=1e-5)
        events = []
        with listen(events.append):
            layer(Tensor([[1.0, 2.0]]))
        names = [event.op.name for event in events]
        check("ops that see the weight", [name for name in names if name in ("linear", "dequantize", "matmul", "integer_linear")], ["integer_linear"], {
            ("dequantize", "linear"): "the weight went back to float: want whole numbers", ("dequantize", "dequantize", "linear"): "both went back to float: want whole numbers"})
        bare = IntegerLinear(Linear(3, 5, bias=False), -1.0, 1.0, per_channel=False)
        check("without a bias, one vector", (bare(Tensor([1.0, -1.0, 0.5])).shape, bare.weight.dtype.name), ((5,), "int8"))
        check("the answer is in", layer(Tensor([[1.0, 2.0]])).dtype.name, "float32", {"int32": "the sums were not scaled back"})
        check_raises("NaN is not quietly made a number", ValueError, lambda: layer(Tensor([[np.nan, 0.0]])), "NaN")


    test_integer_linear()

# %% [markdown]
"""
Given: what the new op owes the framework. Its products count like others, 2 FLOPs each (although nothing floats). Inside, both factors are widened to int32: four bytes written, and read again, for each number that was loaded as one. Remember that when the clock comes.
"""

# %%
#| export
no_gradient(integer_linear)


@flops(integer_linear, contraction=True)
def integer_linear_cost(out_shape, x, x_zero_point, weight, weight_zero_point):
    """Price a linear layer in whole numbers, in FLOPs: 2 per multiply-add, like any other; x (..., in)."""
    return 2 * x[-1] * prod(out_shape)


def _integer_linear_inside(out_shape, x, x_zero_point, weight, weight_zero_point):
    """Find both factors in int32 without their zero points, written and read: 8 bytes for each of their numbers."""
    factors, out = prod(x) + prod(weight), prod(out_shape)
    width = (factors + 4 * out) / (factors + out) if factors + out else 1.0  # of an element, on average
    return Inside(elements=int(8 * factors / width), steps=2)


INSIDE[integer_linear] = _integer_linear_inside

# %% [markdown]
"""
## 7. A whole model

**Question.** The range of a weight is there to be looked at. The range of an *input* is not: it depends on what will come. Where does it come from?

From examples. **Calibration** runs a few batches through the float model and notes, in front of every layer, the lowest and the highest number that went in. It needs something that stands in front of the layer, notes, and lets everything pass.

**Task.** Write `RangeObserver.forward(x)`: bring `self.low` and `self.high` up to date (Python floats; they start at infinity and minus infinity: nothing seen) and return what the layer makes of `x`. `x.max().item()` is a Python float. Take `np.minimum` and `np.maximum`: Python's own `min` may lose a NaN
on the way, and a NaN during calibration must not pass in silence. Given: `quantized`, which makes the layer that belongs there: in integers if a range was seen, with only its weight in int8 otherwise.

Example: a batch from -1 to 0.5, then one from 0 to 3: low -1, high 3.

<details><summary>Hint 1: idea</summary>
Two running records, like the highest and the lowest temperature of a year.
</details>
<details><summary>Hint 2: approach</summary>
The lowest of x is minus the highest of -x. <code>float(np.minimum(record, new))</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Records 0.2 and 0.9; a batch from 0.1 to 0.5 comes: 0.1 and 0.9.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "range-observer", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class RangeObserver(Layer):
    """Stands in front of a ``Linear`` and notes what goes in: ``low`` to ``high``, over all calls so far."""

    def __init__(self, layer):
        """Observe the inputs of ``layer``; nothing has been seen yet."""
        self.layer, self.low, self.high = layer, np.inf, -np.inf

    def forward(self, x):
        """Note the range of x, and return what the layer makes of it: (..., in) -> (..., out)."""
        raise NotImplementedError("RangeObserver.forward: section 7, cell 1")

    def quantized(self, per_channel=True):
        """Return the ``IntegerLinear`` for what was seen, or a ``QuantizedLinear``; ``per_channel`` as for those."""
        if self.low == np.inf:
            return QuantizedLinear(self.layer, per_channel)
        return IntegerLinear(self.layer, self.low, self.high, per_channel)

# %%
if __name__ == "__main__":
    observer = RangeObserver(model.layers[2])
    for start in range(0, 128, 32):
        observer(model.layers[1](model.layers[0](Tensor(train_images[start:start + 32]))))
        print(f"after {start + 32:3d} digits the second layer's inputs went from {observer.low:.2f} to {observer.high:.3f}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-range-observer", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "model"}
if __name__ == "__main__":
    def test_range_observer():
        """Records over batches, what passes, NaN."""
        small = small_linear()
        observer = RangeObserver(small)
        outputs = [observer(Tensor(batch)) for batch in ([[-1.0, 0.5]], [[0.0, 3.0]], [[1.0, 2.0], [1.5, 1.0]])]
        check("three batches", (observer.low, observer.high), (-1.0, 3.0), {
            (1.0, 2.0): "the last batch replaced what was seen before", (-1.0, 0.5): "only the first batch is noted", (0.0, 3.0): "the lowest is taken for 0: minus the highest of -x",
            (-3.0, 3.0): "the largest size on both sides: note the lowest and the highest"})
        check("the layer's own output passes", outputs[1].data, [[13.3, 2.9]], {((0.0, 3.0),): "the input came out: return what the layer makes of it"}, rtol=1e-5)
        check("Python floats: no parameters", (type(observer.low).__name__, count_parameters(observer)), ("float", 6), {
            ("Tensor", 8): "Tensors on self are parameters: .item()", ("float64", 6): "float(...) makes a Python float of NumPy's"})
        check("quantized as it is", (type(RangeObserver(small).quantized()).__name__, type(observer.quantized()).__name__), ("QuantizedLinear", "IntegerLinear"))
        observer(Tensor([[np.nan, 0.0]]))
        check_raises("a NaN that was seen is not forgotten", ValueError, observer.quantized, "nan")


    test_range_observer()

# %% [markdown]
"""
Now put such layers into a model, without touching the model. Given: `replace_layers(model, change)`, which later modules use, too. You say what becomes of each layer: a function that gets a layer and returns the same one, or another. What comes back is a *copy* of the model, in which each layer
is what your function said, wherever it was held: in an attribute, a list, a dict. A layer that two places share is replaced once, and shared again; tied weights stay tied.

The trick is worth a look. `deepcopy` keeps a table of what it has copied already, so that it copies nothing twice: `{id of the old one: the new one}`. `replace_layers` writes into that table *before* it begins: "this layer's copy is that one there". So `deepcopy` itself does all the walking.
"""

# %%
#| export
def changed_layers(model, change):
    """Return (layer, other) for each layer in the model for which ``change(layer)`` gives another, each once.

    ``TypeError``: ``change`` gave what is no layer.
    """
    found = []
    for layer in [thing for thing in things_in(model) if isinstance(thing, Scoped)]:
        other = change(layer)
        if not isinstance(other, Scoped):
            raise TypeError(f"change gave a {type(other).__name__} for {layer!r}; want a layer, or the same one")
        if other is not layer:
            found.append((layer, other))
    return found


def replace_layers(model, change):
    """Return a copy of the model in which each layer is what ``change(layer)`` gives; the model stays as it is.

    ``change`` sees every layer and activation inside, the model itself too, each once, and returns it or another one
    (anything else is a ``TypeError``); what it returns is not looked into again, and may hold the old layer. A layer is
    replaced wherever it is held (attribute, list, dict), once for all who share it, and in its own mode (training or
    evaluation). The copy is a deep one: it shares no memory with the model, and weights that were tied are tied in it.
    """
    changed = changed_layers(model, change)
    made = {id(other): object.__new__(type(other)) for _, other in changed}  # the new ones, empty as yet
    copies = {**made, **{id(layer): made[id(other)] for layer, other in changed}}  # {id of the old: the new one}
    new = deepcopy(model, copies)
    for other in {id(other): other for _, other in changed}.values():
        old = [id(layer) for layer, one in changed if one is other]
        for key in old:  # whom the other one holds by this name is the old layer, copied
            copies.pop(key)
            copies.update({key: made[key]} if key in made else {})
        for name, value in parts(other):
            object.__setattr__(made[id(other)], name, deepcopy(value, copies))
        copies.update(dict.fromkeys(old, made[id(other)]))
    known = {id(thing) for thing in things_in(model)}  # what another layer took over keeps its own mode
    for layer, other in changed:
        for thing in things_in(other):
            if isinstance(thing, Scoped) and id(thing) not in known:
                copies[id(thing)].training = layer.training
    return new

# %%
if __name__ == "__main__":
    watched = replace_layers(model, lambda layer: RangeObserver(layer) if isinstance(layer, Linear) else layer)
    print([type(layer).__name__ for layer in watched.layers], "made from", [type(layer).__name__ for layer in model.layers])

# %% [markdown]
"""
**Task.** Write `quantize_model(model, calibration=None, per_channel=True)` → a new model:

1. a copy in which every `Linear` stands behind a `RangeObserver` (`type(layer) is Linear`: a class derived from it may compute something else, and is left alone);
2. every batch of the calibration goes through that copy once, in evaluation mode and without a graph: `with in_mode(watched, False), no_grad():`. Given is `as_batches`, a list of Tensors; without calibration it is empty;
3. a copy of *that* in which every `RangeObserver` is what its `quantized(per_channel)` gives.

Without calibration nothing is seen, and the layers become `QuantizedLinear`: you need no second way.

Example: `Linear, ReLU, Linear` becomes `IntegerLinear, ReLU, IntegerLinear` with calibration, `QuantizedLinear, ReLU, QuantizedLinear` without.

<details><summary>Hint 1: idea</summary>
<code>replace_layers</code>, a loop, <code>replace_layers</code>.
</details>
<details><summary>Hint 2: approach</summary>
What a function returns for layers that are not meant: the layer itself. The last line works on the watched copy, not on the model.
</details>
<details><summary>Hint 3: worked example, something else</summary>
A copy without dropout: <code>replace_layers(model, lambda layer: Sequential() if isinstance(layer, Dropout) else layer)</code>. An empty <code>Sequential</code> lets its input pass.
</details>
"""

# %%
#| export
def as_batches(calibration):
    """Return ``calibration`` as a list of Tensors: of None none, of a Tensor one; ``TypeError`` for other things."""
    batches = [] if calibration is None else [calibration] if isinstance(calibration, Tensor) else list(calibration)
    for batch in batches:
        if not isinstance(batch, Tensor):
            raise TypeError(f"calibration: a batch is a {type(batch).__name__}; want Tensors, inputs without labels")
    return batches

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "quantize-model", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def quantize_model(model, calibration=None, per_channel=True):
    """Return a copy of the model whose ``Linear`` layers keep int8 weights; the model stays as it is.

    Args:
        model: a layer, or whatever holds some.
        calibration: a Tensor, or batches of inputs, that show the range of every layer's input; a layer that they reach
            computes in integers (``IntegerLinear``), any other in floats (``QuantizedLinear``).
        per_channel: a step for each output.

    What is no ``Linear``, such as an embedding, keeps its weights; a ``Linear`` that was tied to it has int8 of its own
    then. Layers must be called: a forward that reads ``layer.weight`` itself would read int8 steps.

    Raises:
        TypeError: a batch that is no Tensor.
        ValueError: weights or inputs that are not finite, or so many inputs to a layer that int32 could overflow.
    """
    batches = as_batches(calibration)
    raise NotImplementedError("quantize_model: section 7, cell 7")

# %%
if __name__ == "__main__":
    calibration = [Tensor(train_images[start:start + 100]) for start in range(0, 500, 100)]
    stored, integer = quantize_model(model), quantize_model(model, calibration)
    for name, one in (("float32", model), ("int8 stored", stored), ("int8 computed", integer)):
        print(f"{name:>14}: {right(one)} of {len(labels)}  {one}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-quantize-model", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "model"}
if __name__ == "__main__":
    from tinytorch.core.layers import Dropout


    def kinds(model):
        """Return the names of the classes in a Sequential."""
        return [type(layer).__name__ for layer in model.layers]


    def test_quantize_model():
        """With and without calibration; the model stays as it was."""
        small = Sequential(small_linear(), Dropout(1.0), ReLU(), small_linear())
        check("without calibration", kinds(quantize_model(small)), ["QuantizedLinear", "Dropout", "ReLU", "QuantizedLinear"], {
            ("RangeObserver", "Dropout", "ReLU", "RangeObserver"): "the observers are still there: replace them in turn", ("Linear", "Dropout", "ReLU", "Linear"): "the last copy was made of the model, not of the watched one"})
        batches = [Tensor([[0.0, 0.0], [0.5, 2.55]]), Tensor([[1.0, 2.0]])]
        new = quantize_model(small, batches)
        check("with calibration", kinds(new), ["IntegerLinear", "Dropout", "ReLU", "IntegerLinear"], {("QuantizedLinear", "Dropout", "ReLU", "QuantizedLinear"): "no batch went through the watched copy"})
        check("range of the first input: 2.55 / 255", new.layers[0].input_scale.item(), 0.01, {2 / 255: "only the last batch was seen"}, rtol=1e-5)
        # 0.5 · -1 + 2.55 · 4.1 + 1 = 10.955 is the largest number that reaches the second layer
        check("of the second: 10.955 / 255", new.layers[3].input_scale.item(), 10.955 / 255, {
            float(np.finfo(np.float32).tiny): "dropout was at work: calibrate in evaluation mode", 9.2 / 255: "only the last batch was seen"}, rtol=1e-4)
        check("the modes are as before", (small.training, new.training, new.layers[0].training), (True, True, True), {(True, False, False): "the copy was left in evaluation mode: in_mode puts it back",
            (False, True, True): "the model was left in evaluation mode", (False, False, False): "the model was left in evaluation mode"})
        check("the model is as it was", (kinds(small), small.layers[0].weight.dtype.name), (["Linear", "Dropout", "ReLU", "Linear"], "float32"), {
            (("RangeObserver", "Dropout", "ReLU", "RangeObserver"), "float32"): "the model itself was changed"})
        check("per_channel=False: shapes of the scales", [layer.scale.shape for layer in quantize_model(small, batches, per_channel=False).layers if isinstance(layer, QuantizedLinear)], [(1,), (1,)], {
            ((2,), (2,)): "per_channel is not handed on"})
        tied = Linear(2, 2)
        new = quantize_model(Sequential(tied, ReLU(), tied), batches)
        check("a layer in two places stays one", new.layers[0] is new.layers[2], True)


    test_quantize_model()

# %% [markdown]
"""
## 8. Do the outputs still agree?

**Question.** As many digits are right. Is that proof enough?

It is evidence about 355 digits. More can be known, about *every* input, since each weight moved by half a step at most. Say that the input of a layer is already off by at most `e` (one number, or one for each feature). Write `x̂ = x + e'` and `Ŵ = W + E` with `|e'| ≤ e` and `|E[i, j]| ≤ s[j] / 2`:

```
x̂ Ŵ - x W   =   e' W  +  x̂ E            so output j is off by at most

error[j]   ≤   Σ over i of  e[i] · |W[i, j]|   +   Σ over i of (|x[i]| + e[i]) · s[j] / 2
               └ what came, carried on ┘           └ what this layer adds ────────────┘
```

A ReLU brings two numbers no further apart. So the bound can be carried from layer to layer, up to the logits.

**Task.** Write `error_bound(x, weight, scale, error=0.0)` with NumPy: `x (..., in)`, `weight (in, out)` the *float* weight, `scale (out,)` or `(1,)` → the bound, `(..., out)`. `error` is a number or stretches to `x`.

Example: `x = [1, -2]`, steps 0.02, `error = 0`: (1 + 2) · 0.01 = 0.03.

<details><summary>Hint 1: idea</summary>
The last box, with two matrix products or with a product and a sum. Only sizes count: errors may conspire.
</details>
<details><summary>Hint 2: approach</summary>
<code>error = np.broadcast_to(error, x.shape)</code> makes the number an array. The second part is the same for all outputs, up to the step: a sum over the last axis with <code>keepdims=True</code>, times <code>scale / 2</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>x = [3]</code>, <code>W = [[-2]]</code>, step 0.1, error 0.5: 0.5 · 2 + (3 + 0.5) · 0.05 = 1.175.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "error-bound", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def error_bound(x, weight, scale, error=0.0):
    """Bound how far a quantized layer's output may be off: x (..., in), weight (in, out), scale (out,) -> (..., out).

    ``weight`` is the float one, ``error`` (a number, or one that stretches to x) how far the input may be off already.
    Holds for every rounding of the weight, and every error of the input, of at most these sizes.
    """
    raise NotImplementedError("error_bound: section 8, cell 1")

# %%
if __name__ == "__main__":
    def logit_bound(model, quantized, x):
        """Carry the bound through both hidden layers to the logits of each digit."""
        error = 0.0
        for layer, small in zip(model.layers, quantized.layers):
            if isinstance(layer, Linear):
                if isinstance(small, IntegerLinear):  # its input is rounded, too
                    error = error + small.input_scale.data / 2
                error = error_bound(x, layer.weight.data, small.scale.data, error)
            with no_grad():
                x = layer(Tensor(x)).data  # a ReLU hands the error on as it is
        return error


    logits = model(Tensor(images)).data
    best, second = np.sort(logits, axis=1)[:, [-1, -2]].T
    for name, one in (("int8 stored", stored), ("int8 computed", integer)):
        moved, bound = np.abs(one(Tensor(images)).data - logits), logit_bound(model, one, images)
        print(f"{name:>14}: logits moved by {moved.max():.3f} at most, bound {bound.max():.2f}; never beyond its own bound: {bool((moved <= bound).all())}; the logits themselves reach {np.abs(logits).max():.1f}")
        print(f"{'':>14}  answers that the bound alone proves to stay: {int((best - second > 2 * bound.max(axis=1)).sum())} of {len(labels)}; that the largest move leaves as they are: {int((best - second > 2 * moved.max()).sum())}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-error-bound", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "proof"}
if __name__ == "__main__":
    def test_error_bound():
        """By hand, then against the worst roundings there are."""
        x, weight, scale = np.array([[1.0, -2.0]]), np.array([[-1.0, 0.0], [4.1, 0.3]]), np.array([0.02, 0.0002])
        check("an exact input", error_bound(x, weight, scale), [[0.03, 0.0003]], {
            ((-0.01, -0.0001),): "signs cancel: errors need not, take |x|", ((0.06, 0.0006),): "a whole step: rounding moves by half", ((0.01, 0.0001),): "signs cancel: errors need not, take |x|"})
        # 0.1 · 5.1 + (1.1 + 2.1) · 0.01 and 0.1 · 0.3 + (1.1 + 2.1) · 0.0001
        check("an input that is off by 0.1", error_bound(x, weight, scale, 0.1), [[0.542, 0.03032]], {
            ((0.54, 0.0303),): "the layer rounds what came, its error included: |x| + error", ((0.032, 0.00032),): "what came is not carried on: error @ |weight|", ((0.342, 0.03032),): "the weights' signs cancel: take |weight|",
            ((0.03, 0.0003),): "the error is not used"})
        check("an error for each feature", error_bound(x, weight, scale, np.array([0.0, 0.1])), [[0.441, 0.03031]])
        check("one step for all, three inputs", error_bound(np.zeros((3, 2)), weight, np.array([0.02])).shape, (3, 2))
        worst = (x + 0.1 * np.sign(x)) @ (weight + 0.5 * scale * np.sign(x).T) - x @ weight
        bound = error_bound(x, weight, scale, 0.1)
        check("the worst rounding is no worse", bool((np.abs(worst) <= bound + 1e-12).all()), True)


    test_error_bound()

# %% [markdown]
"""
The bound holds, for every input there is (in whole numbers: every input within the calibrated ranges), and it is far from what happens: it allows *every* rounding to conspire, while real ones go up and down and mostly cancel. An answer stays if the logits of the best and the second class move by less than half of the gap between them. By the bound, that is
sure for next to none; by what was seen, for nearly all. Both numbers are worth having: one is a promise, and expensive; the other is evidence, from the digits that were looked at.

Now the decisions, and the bet of section 1. What is known about the accuracy itself? With 355 digits, one digit is 100 / 355 points, and the standard error of a share p is `sqrt(p (1 - p) / 355)`. But the *same* digits were read by both models, so what counts is on how many they differ: only those can make a difference.
"""

# %%
if __name__ == "__main__":
    answers = logits.argmax(axis=1)
    p = right(model) / len(labels)
    print(f"float32: {right(model)} right, {p:.1%}, standard error {np.sqrt(p * (1 - p) / len(labels)):.1%}")
    for name, one in (("int8 stored", stored), ("int8 computed", integer), ("the same, one step for all", quantize_model(model, calibration, per_channel=False))):
        came = one(Tensor(images)).data.argmax(axis=1)
        gained, lost = (int(((answers == labels) != (came == labels))[came_right].sum()) for came_right in (came == labels, came != labels))
        print(f"{name:>26}: {right(one)} right, {int((came != answers).sum())} answers differ: {gained} now right, {lost} now wrong")

# %% [markdown]
"""
And has anything come that calibration had not seen? What lies outside of a layer's range is cut off, and then the bound says nothing:
"""

# %%
if __name__ == "__main__":
    x = Tensor(images)
    for layer, small in zip(model.layers, integer.layers):
        if isinstance(small, IntegerLinear):
            low, high = (dequantize(Tensor(np.int8(end)), small.input_scale, small.input_zero_point).item() for end in (FIRST, LAST))
            step = small.input_scale.item()
            print(f"{small!r:23} made for {low:.2f} to {high:.2f}; {int(((x.data < low - step / 2) | (x.data > high + step / 2)).sum())} of {x.size:,} inputs are outside")
        x = layer(x)

# %% [markdown]
"""
Now the bet of section 1: fewer and fewer values for each weight, biases and arithmetic as they were.
"""

# %%
if __name__ == "__main__":
    def evenly(weight, values, axis=None):
        """Round a weight to so many evenly spaced values of its range (held to 0, as always)."""
        low, high = np.minimum(weight.min(axis=axis, keepdims=True), 0), np.maximum(weight.max(axis=axis, keepdims=True), 0)
        step = (high - low) / (values - 1)
        zero = np.rint(-low / step)
        return step * (np.clip(np.rint(weight / step) + zero, 0, values - 1) - zero)


    counts = [256, 64, 32, 16, 8, 4, 3, 2]
    curves = {name: [right(with_weights(model, lambda weight, values=values, axis=axis: Tensor(evenly(weight.data, values, axis)))) for values in counts] for name, axis in (("one step for all", None), ("one for each column", 0))}
    fig, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
    for name, found in curves.items():
        axis.plot(counts, found, "o-", label=name)
    axis.axhline(right(model), color="gray", linestyle=":", label="float32")
    axis.set(xscale="log", xlabel="different values of a weight", ylabel=f"right, of {len(labels)}", xticks=counts, xticklabels=counts)
    axis.minorticks_off()
    axis.legend()
    plt.show()
    for name, found in curves.items():
        print(f"{name:>19}:", *[f"{values} values {count}," for values, count in zip(counts, found)], "your bet:", my_bet)

# %% [markdown]
"""
Sixteen values, half a byte, would have done for this model. Then it goes quickly: two values are too few to read anything. (Which of the two curves is the higher one at four values is chance: give the training of section 1 another seed, and look.) (Nothing here was trained *for* few values. A model that feels the rounding while it learns gets along with much less.)

## 9. Measure again

**Question.** Four times fewer bytes to fetch, whole numbers instead of floats. **Bet**: how many times faster?
"""

# %%
if __name__ == "__main__":
    my_bet = None  # times faster than float32, for one digit

# %% [markdown]
"""
First the sizes. The same verbs as in section 1, on three models:
"""

# %%
if __name__ == "__main__":
    rows = {}
    with no_grad():
        for name, one in (("float32", model), ("int8 stored", stored), ("int8 computed", integer)):
            memory = profiler.measure_memory(one, (1, 64), Tensor(images[:1]))
            rows[name] = memory["parameter_memory_mb"]
            print(f"{name:>14}: weights {memory['parameter_memory_mb'] * 2**20:9,.0f} bytes ({rows['float32'] / rows[name]:.2f} times fewer), peak {memory['peak_memory_mb'] * 2**20:9,.0f}, FLOPs {profiler.count_flops(one, (1, 64)):,}")

# %% [markdown]
"""
The weights are what the table says, nearly four times smaller. Read on, though: the **peak** is no smaller at all. One layer at a time, the float weight (or its int32 copy) comes to life for the length of a call. And the **FLOPs went up**: undoing the map is work that the float model did not have.

Then the time. `compare` refuses models whose results differ, and these do. A tolerance has to be *argued for*. What matters is the answer, so here is the argument: as long as no logit moves by half of the smallest gap between best and second among these digits, no answer can change. That half gap is the tolerance, and
`decision` lets `compare` see for itself that no answer did. Both sides get one core: NumPy's integer product has never more, and BLAS shall not win, or lose, by its threads.
"""

# %%
if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    from tinytorch.perf.profiling import compare_table

    for batch in (1, 64):
        x = Tensor(images[:batch])
        for name, one in (("int8 stored", stored), ("int8 computed", integer)):
            with no_grad(), threadpool_limits(1, user_api="blas"):
                half_gap = float((best - second)[:batch].min() / 2)
                found = profiler.compare(model, one, x, rtol=0, atol=half_gap, decision=lambda output: output.data.argmax(axis=1), rounds=12, seed=0)
            print(f"{name}, batch {batch}: takes {found['ratio']:.1f} times as long as float32 ({found['verdict']})")
    print(compare_table(found))
    print("your bet:", my_bet)

# %% [markdown]
"""
(Where it says "indistinguishable", this run could not tell, as on a busy machine; run the cell again.)

**Slower.** "int8 is faster" is a sentence about *hardware*: processors and GPUs with instructions that multiply bytes, four times as many in a register, and libraries that use them. NumPy has neither. Its float product is handed to BLAS; its integer product is a plain loop, on numbers that first had to be
widened. And "stored" does all of the old work, after an extra walk over the weights. Where does the time go? The profile of the large layer knows:
"""

# %%
if __name__ == "__main__":
    middle = {"float32": model.layers[2], "int8 stored": stored.layers[2], "int8 computed": integer.layers[2]}
    with no_grad():
        for name, layer in middle.items():
            found = profiler.profile_layer(layer, (1, 256), iterations=20)
            print(f"{name:>14}: {found['latency_ms']:.4f} ms, {found['flops']:,} FLOPs, limited by {found['limited_by']}")

# %% [markdown]
"""
Storing int8 is a second pass over the weights, and memory limits it. For the layer in whole numbers the profile may say "unexplained": it takes more than twice as long as its bytes and FLOPs need on this machine, whose peak was measured with float products by BLAS. NumPy's loop of whole numbers comes nowhere near it.

What was bought is memory, at the price of time. Whether that is a good bargain depends on what is short. On a device where the float model does not fit, it is the only one.

**What it means for a real model.** Your `quantize_model` runs on shapes only, too. So GPT-2 and GPT-3 can be quantized here, without a single weight:
"""

# %%
if __name__ == "__main__":
    from tinytorch import zoo
    from tinytorch.core.tensor import shape_only
    from tinytorch.perf.profiling import weight_bytes

    for factory in (zoo.gpt2_small, zoo.gpt2_xl, zoo.gpt3):
        with shape_only():
            large = factory()
            small = quantize_model(large)
            before, after = weight_bytes(large), weight_bytes(small)
            table = weight_bytes(large.token_embedding)
        print(f"{factory.__name__:>10}: {before / 1e9:7.2f} GB -> {after / 1e9:7.2f} GB, {before / after:.2f} times smaller; the token table alone is {table / 1e9:.2f} GB")

# %% [markdown]
"""
GPT-2 small becomes hardly more than two times smaller. **Why?** It has no `Linear` for its token table, 50,257 rows of 768 numbers, almost a third of the model, which stays float32. In GPT-3 the table is a small part, and the factor is nearly 4. When somebody quotes a factor, ask what was left out.

For each token that it writes, a model reads all of its weights once. So the time for a token cannot be less than bytes over bandwidth, and *that* shrinks with the bytes, if the hardware can multiply what it reads. For a memory that delivers 2,000 GB a second (a number to change):
"""

# %%
if __name__ == "__main__":
    gigabytes_per_second = 2000
    with shape_only():
        large = zoo.gpt3()
        sizes = {"float32": weight_bytes(large), "int8": weight_bytes(quantize_model(large))}
    for name, size in sizes.items():
        print(f"GPT-3 in {name:>7}: {size / 1e9:6.1f} GB, at least {size / 1e9 / gigabytes_per_second * 1e3:5.1f} ms for each token")
    widest = max(layer.in_features for block in large.blocks for layer in (block.mlp.fc1, block.mlp.fc2))
    print(f"longest sum in GPT-3: {widest:,} products; in int32 {LONGEST:,} are sure to fit")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Why is the zero point a whole number and not simply the float <code>low</code>?</summary>
With <code>x̂ = low + s · q</code>, the number 0 would come back as whatever mark is nearest to it. ReLU's zeros, padding and pruned weights would all become some small number, always the same one, and in a sum of thousands it does not cancel.
</details>
<details><summary>Where do the products with zero points go in a fast kernel, which may not subtract from every byte?</summary>
Multiply out: Σ (qx - zx)(qw - zw) = Σ qx qw - zw Σ qx - zx Σ qw + n zx zw. The first sum is bytes times bytes; Σ qw is known when the layer is made; Σ qx is one number for each row of the input. With zw = 0 (a range that is symmetric) one of them is gone, and that is why libraries like symmetric weights.
</details>
<details><summary>The range was calibrated on clean digits. Then a photograph comes, ten times as bright. What happens?</summary>
Everything above the range is cut off at its end. No error, no NaN: wrong numbers. The stored variant, which computes in floats, does not have this weakness.
</details>
<details><summary>Would it help to leave out the highest 0.1 % of what calibration saw?</summary>
It may. The step gets finer for all the others, and a few are cut off. Whether that wins depends on how far out those few lie, and on how much they mean; it has to be measured. For a ReLU's outputs the largest are often the ones that decide.
</details>
<details><summary>Can a quantized model be trained on?</summary>
Not like this: a small step of gradient descent moves no weight to the next mark, and rounding has slope 0. One keeps float weights, rounds them in the forward pass, and lets the gradient pass the rounding as if it were not there (the straight-through estimator of Bengio and others, 2013). The bytes are saved afterwards.
</details>
<details><summary>Why did quantizing the input hardly cost anything here?</summary>
The digits come in 17 grey levels, 0 to 16 sixteenths: 256 marks are more than there ever was. Hidden numbers are rounded, each by half a step at most, and these errors are as likely up as down.
</details>
<details><summary>A paper says "4-bit weights, no loss". What do you ask?</summary>
Loss on which data, with how many examples, and how many answers differ rather than how many are right? One step for how many weights? What stayed in float? Bytes measured, or computed from bits? And is the peak meant, or the file?
</details>

`tito test quantization` checks the module; once all of it passes, `tito module complete quantization` puts what you wrote into the package, and later modules run on your code. Next: Module 16, which makes a model smaller by leaving parts of it out.
"""
