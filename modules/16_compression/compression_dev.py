# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "16_compression", "release": "3e7e3145e1df8a8c"}
# ---

# %% [markdown]
"""
# 16 · Compression

Tier: Optimization · Difficulty 3 of 4 · About 3 hours · Needs 14 (`tito test profiling`), the layers and the training of 01 to 08 (`tito test layers`, `tito test training`), and from 15 one given function, `replace_layers`

A trained model has far more numbers than it needs. That is easy to say and easy to show; what is hard is to *gain* something by it. In this module you take numbers away in four ways, and after each you ask your own Profiler what has become smaller and what has become faster. Once the answer is: nothing.

**Build** magnitude pruning, structured pruning, low-rank factors, distillation → **use** them on a network that reads digits → **reflect** on which of them a computer notices.

When you are done you can
1. remove exactly the asked share of a model's weights, and say why no byte and no millisecond is saved by it;
2. remove whole units, and prove that what is left computes the same as if they had been silenced;
3. replace a matrix by two thin ones, and bound the error before you run anything;
4. say from which rank on two thin matrices are no longer smaller than one;
5. train a small network on a large one's doubts, and see it recognize a digit that it was never shown.

Yours: counting zeros, magnitude pruning, the worth of a unit, cutting units out, the two factors, `low_rank`, the distillation loss and its loop. Given and explained: finding the weights, finding chains of layers, keeping zeros while training.

A cell you have not filled says which one it is: `magnitude_prune: section 2, cell 5` is the function `magnitude_prune` in the fifth code cell of section 2.
"""

# %%
#| default_exp perf.compression

# %%
if __name__ == "__main__":
    from tito.needs import needs_profiler

    needs_profiler()

# %%
#| export
from collections import Counter
from copy import copy, deepcopy

import numpy as np

from tinytorch.core.activations import GELU, ReLU, Sigmoid, Tanh, exp
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, parts, positive
from tinytorch.core.losses import CrossEntropyLoss, log_softmax
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import in_mode, pairs
from tinytorch.perf.profiling import real, storage, things_in, weights_of
from tinytorch.perf.quantization import replace_layers

# %% [markdown]
"""
## 1. Profile first

**Question.** Where are the numbers of a network, and how many of them matter?

First a network to compress. It reads 8 x 8 pictures of digits, and is trained on 1,442 of them; 355 others are held out. The helpers of this cell are used to the end: `network` builds, `train` trains, `right` counts right answers among the 355, and `interval` says how far a share of 355 may be off by chance alone (Wilson,
1927, 95 %). From here on BLAS has one core: then two networks that are compared have the same, whatever else your machine is doing.
"""

# %%
if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
    from tinytorch.core.training import Trainer

    one_core = threadpool_limits(1, user_api="blas")

    images, labels = load_digits("train")
    test_images, test_labels = load_digits("test")
    held_out = Tensor(test_images)  # (355, 64)


    def network(*sizes, seed=0):
        """Linear layers of these sizes with a ReLU between each two."""
        rng, layers = np.random.default_rng(seed), []
        for wide, narrow in zip(sizes, sizes[1:]):
            layers += [Linear(wide, narrow, rng=rng), ReLU()]
        return Sequential(layers[:-1])


    def train(model, epochs, lr=1e-3, data=(images, labels), on_batch=None):
        """Train the model itself, for so many epochs, and return it."""
        loader = DataLoader(TensorDataset(*data), 64, shuffle=True, seed=0)
        Trainer(model, Adam(model.parameters(), lr), CrossEntropyLoss()).fit(loader, epochs, on_batch)
        return model


    def answers(model):
        """The digit that the model sees in each held-out picture."""
        with no_grad():
            return model(held_out).data.argmax(-1)


    def right(model):
        """How many of 355 are right."""
        return int((answers(model) == test_labels).sum())


    def interval(count, total=355, z=1.96):
        """Between which shares the true one lies, with 95 % confidence."""
        p, spread = count / total, z * np.sqrt(count / total * (1 - count / total) / total + (z / total / 2) ** 2)
        return (p + z * z / total / 2 - spread) / (1 + z * z / total), (p + z * z / total / 2 + spread) / (1 + z * z / total)


    model = train(network(64, 256, 128, 10), 12, lr=2e-3)
    print(f"trained on {len(labels):,} digits; {right(model)} of 355 others right; between {interval(right(model))[0]:.1%} and {interval(right(model))[1]:.1%}")

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import Profiler, layer_table

    profiler = Profiler()
    with no_grad():
        print(layer_table(profiler.profile_forward_pass(model, held_out)))
    facts = profiler.analyze_weight_distribution(model)
    print(f"\n{facts['total_weights']:,} weights, mean {facts['mean']:.3f}, std {facts['std']:.3f}, from {facts['min']:.2f} to {facts['max']:.2f}")
    print(f"nearer to 0 than 0.001: {facts['below_threshold_0001']:.1f} %, than 0.01: {facts['below_threshold_001']:.1f} %, than 0.1: {facts['below_threshold_01']:.1f} %")

# %% [markdown]
"""
The profile names the target: the matrix in the middle holds most parameters, most FLOPs and takes most of the time. And the distribution suggests how to hit it: two weights of three are nearer to 0 than 0.1, and the largest are three times that. Can those be left out?

Each attempt in this module has two steps, and it pays to keep them apart:

- **another function**: the answers may change. *How much* must be bounded, or counted on the held-out digits.
- **another form**: the same function with fewer numbers or operations. The answers may not change at all, beyond rounding; `compare` insists on that before it times anything.

**Bet** before you go on: setting 80 % of the weights to zero, how many of the 355 answers are lost, and how much faster is the network?
"""

# %%
if __name__ == "__main__":
    my_bet = {"answers lost": None, "times as fast": None}

# %% [markdown]
"""
## 2. Zeros

**Question.** Which weights can go?

The oldest answer is: the small ones. A weight multiplies what comes in; a small one changes little. To speak about it, first a measure: the **sparsity** of a model, the share of zeros among the numbers of its matrices. (Biases do not count. They are few, many of them start at 0, and nobody prunes them.)

Given: `weight_matrices(model)`, the Tensors with two axes or more, each memory once, and `share`, which refuses what is no share.
"""

# %%
#| export
def weight_matrices(model):
    """Return the model's matrices: float Tensors with two axes or more, each memory once. Biases and gains are none.

    ``ValueError``: there are none.
    """
    found = {storage(w.data): w for w in weights_of(model) if w.ndim >= 2 and w.size and w.dtype.kind == "f"}
    if not found:
        raise ValueError(f"a {type(model).__name__} has no float weights of two axes or more; want a model with some")
    return list(found.values())


def share(fraction, below=None):
    """Return ``fraction``, a share, as a float; ``ValueError`` unless from 0 to 1, and under ``below`` if given."""
    value = real("fraction", fraction)
    if not 0 <= value <= 1 or value == below:
        raise ValueError(f"fraction is {fraction}; want a share from 0 to 1" + (", below 1" if below else ""))
    return float(value)

# %% [markdown]
"""
**Task.** Write `sparsity(model)`: of all numbers in all `matrices`, taken together, the share that is exactly 0. Each of them is a Tensor `w` with `w.data` and `w.size`.

Example: matrices of 6 and 4 numbers, with 1 and 4 zeros: 5 of 10, so 0.5.

<details><summary>Hint 1: idea</summary>
Two sums, one division at the end. A mean of the matrices' shares would let a small matrix count as much as a large one.
</details>
<details><summary>Hint 2: approach</summary>
<code>(w.data == 0).sum()</code> counts the zeros of one matrix.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
100 numbers with 10 zeros and 2 numbers with 2 zeros: 12 / 102 = 0.118, and not (0.1 + 1) / 2 = 0.55.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "sparsity", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def sparsity(model):
    """Return the share of zeros among all numbers of the model's weight matrices, 0.0 to 1.0; biases do not count.

    ``ValueError``: the model has no weight matrices.
    """
    matrices = weight_matrices(model)
    raise NotImplementedError("sparsity: section 2, cell 2")

# %%
if __name__ == "__main__":
    print(f"the trained network: {sparsity(model):.4f}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-sparsity", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "pruning"}
if __name__ == "__main__":
    from tito.checks import check, check_raises


    def given(*matrices):
        """A chain of Linear layers with these weights and biases of 0."""
        layers = []
        for matrix in matrices:
            layer = Linear(*np.shape(matrix))
            layer.weight.data[:] = matrix
            layers.append(layer)
        return Sequential(layers)


    def test_sparsity():
        """All matrices together, biases not, shared ones once."""
        model = given([[0, 1, 2], [3, 0, -4]], [[0], [0], [5]])
        check("4 zeros among 9 numbers", sparsity(model), 4 / 9, {
            8 / 13: "the biases were counted, too", 0.5: "the mean of the matrices' shares: count all numbers together", 5 / 9: "that is the share of what is left",
            400 / 9: "a percentage: want a share, 0 to 1", 4: "the number of zeros: divide by the number of weights", 1 / 3: "only the first matrix", 2 / 3: "only the last matrix"})
        layer = Linear(2, 2)
        layer.weight.data[:] = [[0, 1], [1, 1]]
        check("the same layer twice is one matrix", sparsity(Sequential(layer, layer, given([[0, 0]]).layers[0])), 0.5, {
            0.4: "the shared matrix was counted twice"})
        check("nothing is zero", sparsity(given([[1, -2, 1e-30]])), 0.0, {1 / 3: "small is not zero: compare with == 0"})
        check_raises("a model without matrices", ValueError, lambda: sparsity(ReLU()), "no float weights")


    test_sparsity()

# %% [markdown]
"""
**Task.** Write the middle of `magnitude_prune(model, fraction)`. `pruned` is a copy of the model already, and `matrices` are *its* matrices, so you may write into them (`w.data[flags] = 0`). Of all `n` numbers in all matrices together, exactly `round(fraction * n)` become 0: those nearest to 0.

"Exactly" needs care. Everything below a threshold is *not* it: where many weights have the same size, a threshold takes all of them or none. Rank the sizes and take so many from the start.

Example: matrices `[[3, -1]]` and `[[0.5], [0.25]]`, half of 4 numbers: the sizes are 3, 1, 0.5, 0.25, the two smallest both lie in the second matrix, and `[[3, -1]]`, `[[0], [0]]` are left. (Half of *each* would have taken -1 and 0.25.)

<details><summary>Hint 1: idea</summary>
One long array of all sizes, one long array of flags for what goes, then cut the flags into pieces again, one for each matrix.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.concatenate([... .ravel() for w in matrices])</code>; <code>np.argsort(sizes, kind="stable")</code> gives the places, smallest size first, equal ones in their order. Walk through the matrices with a running <code>start</code>; the piece for <code>w</code> is <code>gone[start : start + w.size].reshape(w.shape)</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Sizes <code>[5, 0, 4, 4, 1, 7]</code>, argsort <code>[1, 4, 2, 3, 0, 5]</code>. Half of 6 is 3: the places 1, 4, 2 go. Of the two fours the first one goes, the other stays.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "magnitude-prune", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def magnitude_prune(model, fraction):
    """Return a copy of the model in which the smallest weights are 0: ``round(fraction * n)`` of all n, exactly.

    All weight matrices are ranked together by absolute value; among equals the first in the model goes first. Biases
    stay; frozen weights are pruned as all others are. Nothing becomes smaller or faster by it: shapes are as before.
    ``ValueError``: a fraction outside 0 to 1, or no weight matrices. Source: Han and others, 2015.
    """
    fraction, pruned = share(fraction), deepcopy(model)
    matrices = weight_matrices(pruned)
    raise NotImplementedError("magnitude_prune: section 2, cell 5")
    return pruned

# %%
if __name__ == "__main__":
    print("fraction   zeros   right of 355   answers that changed")
    for fraction in (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
        pruned = magnitude_prune(model, fraction)
        print(f"{fraction:8}   {sparsity(pruned):.3f}   {right(pruned):12}   {(answers(pruned) != answers(model)).sum():20}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-magnitude-prune", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "pruning"}
if __name__ == "__main__":
    def test_magnitude_prune():
        """Global ranking, exact numbers, ties; the model stays."""
        model = given([[1, -6, 2], [-3, 7, 4]], [[5], [-0.5], [0.25]])
        pruned = magnitude_prune(model, 0.4)
        check("40 % of 9 numbers: 4 go", [float(n) for w in weight_matrices(pruned) for n in w.data.ravel()], [0, -6, 0, -3, 7, 4, 5, 0, 0], {
            (0.0, -6.0, 2.0, -3.0, 7.0, 4.0, 5.0, 0.0, 0.0): "three went: 0.4 * 9 is 3.6, and that is rounded, not cut off",
            (0.0, -6.0, 0.0, -3.0, 7.0, 4.0, 5.0, -0.5, 0.0): "each matrix by itself: rank all of them together",
            (1.0, 0.0, 2.0, 0.0, 7.0, 4.0, 5.0, 0.0, 0.0): "ranked with their signs: -6 is not small, take absolute values",
            (1.0, 0.0, 2.0, -3.0, 0.0, 0.0, 0.0, -0.5, 0.25): "the largest went: the smallest should",
            (1.0, -6.0, 2.0, -3.0, 7.0, 4.0, 5.0, -0.5, 0.25): "nothing became 0: write into w.data"})
        check("the model itself", [float(n) for w in weight_matrices(model) for n in w.data.ravel()], [1, -6, 2, -3, 7, 4, 5, -0.5, 0.25], {
            (0.0, -6.0, 0.0, -3.0, 7.0, 4.0, 5.0, 0.0, 0.0): "it was pruned, too: work on the copy"})
        alike = magnitude_prune(given(np.ones((10, 10))), 0.29)
        check("29 % of a hundred equal numbers", int((weight_matrices(alike)[0].data == 0).sum()), 29, {
            0: "among equals none is below the threshold: take the first 29 of the ranking", 100: "all equals went: take the first 29 of the ranking",
            28: "0.29 * 100 is 28.999...: round it"})
        check("among equals the first go", bool((weight_matrices(alike)[0].data.ravel()[:29] == 0).all()), True, {
            False: "others went: ask for kind=\"stable\""})
        check("none, and all", (sparsity(magnitude_prune(model, 0)), sparsity(magnitude_prune(model, 1))), (0.0, 1.0), {
            (1.0, 1.0): "with fraction 0 everything went: [-0:] is all of a list"})
        check("70 % of 9 numbers: 6 go", sparsity(magnitude_prune(model, 0.7)), 6 / 9, {7 / 9: "0.7 * 9 is 6.3, and that is rounded, not up"})
        check("what was 0 counts among the smallest", sparsity(magnitude_prune(pruned, 0.4)), 4 / 9, {
            6 / 9: "40 % of what was left: want 40 % of all", 8 / 9: "pruned on top of what was 0 already"})
        check_raises("a share above 1", ValueError, lambda: magnitude_prune(model, 40), "from 0 to 1")


    test_magnitude_prune()

# %% [markdown]
"""
Two thirds of all weights are gone, and a handful of answers with them. **First surprise** of this module, and the reason for the whole field.

Training can mend more. But a training step writes into *all* weights, and a zero is a weight like any other. Given: `keep_zeros(model)` remembers where the zeros are, and returns a function that puts them back; `fit` calls it after each step.
"""

# %%
#| export
def keep_zeros(model):
    """Return a function for ``fit(on_batch=...)`` of a Trainer that puts back, after each step, today's zeros."""
    zeros = [(w, w.data == 0) for w in weight_matrices(model)]

    def put_back(progress=None):
        for w, flags in zeros:
            w.data[flags] = 0
    return put_back

# %%
if __name__ == "__main__":
    pruned = magnitude_prune(model, 0.9)
    print(f"90 % pruned:                  {right(pruned)} right, sparsity {sparsity(pruned):.3f}")
    freely = train(deepcopy(pruned), 2)
    print(f"two epochs more, freely:      {right(freely)} right, sparsity {sparsity(freely):.3f}")
    kept = deepcopy(pruned)
    kept = train(kept, 2, on_batch=keep_zeros(kept))
    print(f"two epochs more, zeros kept:  {right(kept)} right, sparsity {sparsity(kept):.3f}")
    with no_grad():
        one = pruned.layers[1](pruned.layers[0](Tensor(images)))
        two = pruned.layers[3](pruned.layers[2](one))
    dead, zeros = [(units.data == 0).all(0) for units in (one, two)], freely.layers[2].weight.data == 0
    print(f"\nunits of the pruned network that answer 0 to every picture: {dead[0].sum()} of 256 and {dead[1].sum()} of 128")
    print(f"trained freely, {zeros.sum():,} zeros are left in the middle matrix, {zeros[dead[0][:, None] | dead[1]].sum():,} of them at those units")

# %% [markdown]
"""
Nine tenths gone, and after two epochs nearly all answers are back. Without `keep_zeros` they are back, too, and so are most of the weights. (The rest never got a gradient. Pruning has taken from some units all that woke them: they answer 0 to every picture, and where ReLU gives 0 nothing is sent back and nothing handed on, so what leads into and out of them stays what it is.)

Now the bet. **Measure again**, with your own instruments: `report` prints what a model holds (by `measure_memory`), what it computes (by `count_flops`) and what it gets right.
"""

# %%
if __name__ == "__main__":
    def report(name, model):
        """One line: parameters, bytes of them as measured, FLOPs of one picture, right answers."""
        kib = profiler.measure_memory(model, held_out.shape)["parameter_memory_mb"] * 1024
        print(f"{name:<34}{profiler.count_parameters(model):>8,} parameters {kib:7.1f} KiB {profiler.count_flops(model, (1, 64)):>9,} FLOPs {right(model):5} right")


    report("as trained", model)
    report("90 % zeros", kept)

# %% [markdown]
"""
Not a byte, not a FLOP. A zero is stored in four bytes like every other float32, and multiplied like every other. And time? `compare` wants equal results, so let it have two networks that compute the same: in one the zeros are zeros, in the other each of them is 10⁻³⁰, a number like any other that is too small to change a sum. **Bet
again**: is the one with the zeros faster?

(What is equal? Each rounding of a float32 is off by at most 2⁻²⁴ of the number, and our longest sums have 256 terms. So `rounding`, 256 · 2⁻²⁴ of the largest output, is about what two orders of adding the same may differ by; no theorem, since where large terms cancel it is them that are rounded, and not their sum. Every comparison of two *forms* in this module gets this tolerance.)
"""

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import compare_table

    rounding = 256 * 2**-24 * float(np.abs(model(held_out).data).max())


    def race(baseline, candidate, x):
        """Compare two forms of one function; equal means: within rounding."""
        with no_grad():
            print(compare_table(profiler.compare(baseline, candidate, x, atol=rounding, rounds=12)))


    no_zero = deepcopy(kept)
    for w in weight_matrices(no_zero):
        w.data[w.data == 0] = 1e-30
    print(f"zeros: {sparsity(no_zero):.2f} in the baseline, {sparsity(kept):.2f} in the candidate")
    race(no_zero, kept, held_out)

# %% [markdown]
"""
Look at the ratio, and at how wide its interval is: a busy machine makes it wide, then run the cell again. It is nowhere near ten times as fast. A processor does not look whether a factor is 0 before it multiplies. **A mask changes the function and leaves the form.** It is half of a compression.

Where could the other half be? Storing only what is not zero, each number with its place. A float32 and a place in 32 bits are 8 bytes for each number kept. And a file can be packed by a program that looks for repetition:
"""

# %%
if __name__ == "__main__":
    import zlib

    print("zeros   as it lies in memory   numbers and places   packed, as a file")
    for fraction in (0.0, 0.5, 0.9):
        pruned = weight_matrices(magnitude_prune(model, fraction))
        whole = sum(w.data.nbytes for w in pruned)
        places = sum(8 * int((w.data != 0).sum()) for w in pruned)
        packed = sum(len(zlib.compress(w.data.tobytes())) for w in pruned)
        print(f"{fraction:5}   {whole:14,} bytes   {places:12,} bytes   {packed:11,} bytes")

# %% [markdown]
"""
Places pay from 50 % zeros on, and the file really is smaller: a mask helps the download. To *compute* with scattered numbers one needs other loops than a matrix product; whether those pay, at which sparsity and on which hardware, would have to be measured.

## 3. Fewer units

**Question.** What would have to go so that the *arrays* are smaller?

Whole columns. A hidden unit of the first layer is a column of its weight, a number in its bias, and a row of the next weight. Without it, all three arrays are smaller, and the product is an ordinary product:

```
x (B, D) @ first (D, H) + bias (H,)  →  ReLU  →  (B, H) @ second (H, E)

keep K of H units:   first[:, kept] (D, K)   bias[kept] (K,)   second[kept] (K, E)
```

Which units? "Those with small weights", one would say after section 2. But here is a network that computes *exactly* the same as ours. Each hidden unit is made `c` times as loud, by its incoming weights and its bias, and the next layer listens `c` times less. ReLU does not mind (relu(c·x) = c·relu(x) for c > 0), and with
powers of two not even the rounding changes. **Guess**: what does magnitude pruning make of it?
"""

# %%
if __name__ == "__main__":
    louder, rng = deepcopy(model), np.random.default_rng(0)
    for first, second in zip(louder.layers[0:4:2], louder.layers[2:5:2]):
        c = np.float32(2) ** rng.integers(-3, 4, first.out_features)
        first.weight.data *= c
        first.bias.data *= c
        second.weight.data /= c[:, None]
    print("outputs equal to the last bit:", np.array_equal(louder(held_out).data, model(held_out).data))
    for fraction in (0.5, 0.7, 0.8):
        print(f"{fraction:.0%} pruned: {right(magnitude_prune(model, fraction))} right, the other one {right(magnitude_prune(louder, fraction))}")

# %% [markdown]
"""
**Second surprise.** The same function to the last bit, and the same recipe destroys one and spares the other. So "a small weight is unimportant" cannot be true as it stands. It *happens* to hold where training has left all units about equally loud. Size is a property of the form, importance one of the function.

A score that does not fall for this: the length of everything that leads *into* the unit, its bias included, **times** the length of everything that leads *out* of it. Make the one `c` times longer and the other `c` times shorter, and the product is what it was: a unit's own loudness cancels.

```
score[j] = sqrt( Σ over d of first[d, j]²  +  bias[j]² )  ·  sqrt( Σ over e of second[j, e]² )
```

**Task.** Write `unit_scores(first, second)` on NumPy arrays: `into` `(D, H)` and `out` `(H, E)` are given, `first.bias` is None or a Tensor `(H,)`. The answer has the shape `(H,)`.

Example: into a unit lead 2 and 1, its bias is 2, out of it lead 3 and 4: sqrt(4 + 1 + 4) · sqrt(9 + 16) = 3 · 5 = 15.

<details><summary>Hint 1: idea</summary>
One sum over the axis that is <em>not</em> the units', for each of the two matrices.
</details>
<details><summary>Hint 2: approach</summary>
Units are the last axis of <code>into</code> and the first of <code>out</code>. The bias has one number for each unit: its square joins the sum under the first root.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Two units, <code>into = [[1, 0], [2, 3]]</code>, bias <code>[2, 4]</code>: 1 + 4 + 4 = 9 and 0 + 9 + 16 = 25, the lengths 3 and 5. <code>out = [[6], [-1]]</code>: lengths 6 and 1. Scores 18 and 5.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "unit-scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def unit_scores(first, second):
    """Return the worth of each hidden unit (H,): the length of all that leads in, times the length of what leads out.

    ``first`` is a Linear (D, H), ``second`` a Linear (H, E). Into unit j lead the column j of the first weight and its
    bias, out of it the row j of the second weight. A unit made c times as loud whose listeners divide by c keeps its
    worth.
    """
    into, out = first.weight.data.astype(np.float64), second.weight.data.astype(np.float64)  # squares need the room
    raise NotImplementedError("unit_scores: section 3, cell 2")

# %%
if __name__ == "__main__":
    scores = unit_scores(*model.layers[0:3:2])
    print(f"first hidden layer, {len(scores)} units: scores from {scores.min():.2f} to {scores.max():.2f}")
    alone = deepcopy(model)
    alone.layers[0].weight.data[:, 0] *= 8
    alone.layers[0].bias.data[0] *= 8
    alone.layers[2].weight.data[0] /= 8
    print("unit 0 eight times as loud, its listeners at an eighth: the same scores:", np.array_equal(unit_scores(*alone.layers[0:3:2]), scores))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-unit-scores", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "structure"}
if __name__ == "__main__":
    def test_unit_scores():
        """The product of two lengths, the bias, no bias, the same for a louder unit."""
        first, second = given([[3, 0, 2], [4, 1, 0], [0, 0, 0]], [[1, 0, 0], [3, 4, 0], [0, 2, 0]]).layers
        first.bias.data[:] = [12, 0, 0]
        check("three units", unit_scores(first, second), [13.0, 5.0, 4.0], {
            (5.0, 5.0, 4.0): "the bias is missing: it leads into the unit, too", (14.0, 6.0, 4.0): "added: the product of the two lengths is wanted",
            (13.0, 1.0, 2.0): "only what leads in", (1.0, 5.0, 2.0): "only what leads out", (17.0, 5.0, 4.0): "the bias was added to the length: its square belongs under the root",
            (157**0.5, 5 * 17**0.5, 0.0): "rows and columns of the first weight have changed places: unit j is its column j",
            (13 * 10**0.5, 20**0.5, 0.0): "rows and columns of the second weight have changed places: unit j is its row j",
            (19.0, 7.0, 4.0): "sums of absolute values: a length is the root of the sum of squares", (169.0, 25.0, 16.0): "squared lengths: take the roots"})
        bare = Linear(2, 3, bias=False)
        bare.weight.data[:] = first.weight.data[:2]
        check("two inputs, without a bias", unit_scores(bare, second), [5.0, 5.0, 4.0])
        square, other = given([[3, 0], [4, 1]], [[1, 0], [0, 2]]).layers
        check("two units", unit_scores(square, other), [5.0, 2.0])
        square.weight.data *= np.float32([4, 0.5])
        other.weight.data /= np.float32([[4], [0.5]])
        check("one unit louder, one softer, nothing computed differently", unit_scores(square, other), [5.0, 2.0], {
            (20.0, 1.0): "only what leads in is seen"})


    test_unit_scores()

# %% [markdown]
"""
**Task.** Write `keep_units(first, second, kept)`: two *new* layers that have only the hidden units with the numbers in `kept`, an array such as `[0, 2]`. Given is `linear_with(layer, weight, bias)`, which makes a `Linear` like `layer` around other arrays (the bias may be None). Three arrays become smaller; the bias of `second` belongs to
*its* outputs, which all stay.

Example: `first` (2, 3), `second` (3, 5), `kept` `[0, 2]`: new layers of (2, 2) and (2, 5).

<details><summary>Hint 1: idea</summary>
A unit is a column in the first weight and a row in the second.
</details>
<details><summary>Hint 2: approach</summary>
<code>array[:, kept]</code> picks columns, <code>array[kept]</code> rows or single numbers. Both layers may be without a bias.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>np.array([[1, 2, 3], [4, 5, 6]])[:, [0, 2]]</code> is <code>[[1, 3], [4, 6]]</code>, and <code>np.array([7, 8, 9])[[0, 2]]</code> is <code>[7, 9]</code>.
</details>
"""

# %%
#| export
ELEMENTWISE = (ReLU, Sigmoid, Tanh, GELU, Dropout)  #: what a unit passes through alone, whatever its neighbours do


def held_once(model):
    """Return the ids of all that is held in exactly one place of the model: by one attribute, or as one item."""
    places = Counter(id(value) for thing in things_in(model) for _, value in parts(thing))
    return {key for key, times in places.items() if times == 1}


def owns_its_weights(layer, once):
    """Say whether a layer is a plain ``Linear`` whose weight and bias nobody else in the model holds."""
    return type(layer) is Linear and id(layer.weight) in once and (layer.bias is None or id(layer.bias) in once)


def hidden_chains(model):
    """Return pairs (first, second): two ``Linear`` with nothing but ``ELEMENTWISE`` between, in one ``Sequential``.

    Left out: layers held in more than one place, tied weights, and whatever is no plain ``Linear``: somebody else
    counts on their units. A model whose own ``forward`` uses single layers of a ``Sequential`` is not seen through.
    """
    once, chains = held_once(model), []
    for thing in things_in(model):
        if isinstance(thing, Sequential) and type(thing).forward is Sequential.forward:
            first = None
            for layer in thing.layers:
                if type(layer) in ELEMENTWISE:
                    continue
                usable = id(layer) in once and owns_its_weights(layer, once)
                chains += [(first, layer)] if usable and first else []
                first = layer if usable else None
    return chains


def linear_with(layer, weight, bias):
    """Return a ``Linear`` like ``layer``, frozen where that is, around weight (in, out) and bias (out,) or None."""
    new, like = copy(layer), layer.weight if layer.bias is None else layer.bias
    new.in_features, new.out_features = weight.shape
    new.weight = Tensor(weight, requires_grad=layer.weight.requires_grad, dtype=weight.dtype)
    new.bias = None if bias is None else Tensor(bias, requires_grad=like.requires_grad, dtype=bias.dtype)
    return new

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "keep-units", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def keep_units(first, second, kept):
    """Return new ``first`` (D, K) and ``second`` (K, E) with only the hidden units numbered in ``kept`` (K,)."""
    raise NotImplementedError("keep_units: section 3, cell 6")

# %% [markdown]
"""
Given: `structured_prune(model, fraction)`, which does it wherever two `Linear` layers follow each other in a `Sequential` with nothing between them but activations that treat each unit alone (`hidden_chains` above finds them: a softmax in between would mix the units, and a layer that is used elsewhere, too, must keep its width). A matrix in the middle
loses rows *and* columns. `replace_layers` is Module 15's: a new model, the old one as it was.
"""

# %%
#| export
def units_to_keep(scores, fraction):
    """Return the numbers of the units to keep, in order: ``round(fraction * n)`` of n go, the lowest; one stays."""
    gone = min(round(fraction * len(scores)), len(scores) - 1)
    return np.sort(np.argsort(scores, kind="stable")[gone:])


def structured_prune(model, fraction):
    """Return a copy of the model with fewer hidden units: in each of ``hidden_chains``, ``round(fraction * n)`` go.

    The arrays are really smaller. At least one unit of a layer stays; inputs and outputs of the model are as before.
    ``ValueError``: there is no chain whose units could go, or ``fraction`` is not from 0 to below 1.
    """
    fraction, chains, smaller = share(fraction, below=1), hidden_chains(model), {}
    if not chains:
        raise ValueError(f"structured_prune: this {type(model).__name__} has no two Linear layers that follow each "
                         "other in one Sequential, an activation between them, held nowhere else; want such a pair")
    for first, second in chains:
        kept = units_to_keep(unit_scores(first, second), fraction)
        pair = smaller.get(id(first), first), smaller.get(id(second), second)
        smaller[id(first)], smaller[id(second)] = keep_units(*pair, kept)
    return replace_layers(model, lambda layer: smaller.get(id(layer), layer))

# %%
if __name__ == "__main__":
    halved = structured_prune(model, 0.5)
    print(model, halved, sep="\n")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-structured-prune", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "structure"}
if __name__ == "__main__":
    def test_structured_prune():
        """Three arrays smaller, the last bias whole, the same function as with silent units; the model stays."""
        first, second = given([[1, 2, 3], [4, 5, 6]], [[1, 10, 0], [2, 20, 0], [3, 30, 0]]).layers
        first.bias.data[:], second.bias.data[:] = [7, 8, 9], [0.5, 0.25, 0.75]
        small = keep_units(first, second, np.array([0, 2]))
        check("sizes", repr(small), "(Linear(2, 2), Linear(2, 3))", {
            "(Linear(2, 3), Linear(3, 3))": "nothing was taken out", "(Linear(2, 2), Linear(3, 3))": "the second layer still expects three units", "(Linear(2, 3), Linear(2, 3))": "the first layer still makes three units"})
        check("the first weight", small[0].weight.data, [[1, 3], [4, 6]], {
            ((1, 2), (4, 5)): "the first two units: keep those numbered in kept"})
        check("its bias", small[0].bias.data, [7, 9], {(7, 8): "the first two: keep those numbered in kept"})
        check("the second weight", small[1].weight.data, [[1, 10, 0], [3, 30, 0]], {((1, 10, 0), (2, 20, 0)): "the first two rows: keep those numbered in kept"})
        check("its bias: of the outputs, which all stay", small[1].bias.data, [0.5, 0.25, 0.75], {(0.5, 0.75): "it was cut, too: its numbers belong to the outputs"})
        check("the given layers", (first.weight.shape, second.weight.shape), ((2, 3), (3, 3)), {
            ((2, 2), (2, 3)): "they were cut themselves: make new ones with linear_with"})
        rng = np.random.default_rng(0)
        model = given(rng.standard_normal((4, 6)), rng.standard_normal((6, 5)), rng.standard_normal((5, 3)))
        model = Sequential(model.layers[0], ReLU(), model.layers[1], Sigmoid(), model.layers[2])
        pruned = structured_prune(model, 0.5)
        check("half of 6 units and of 5 (2.5 is rounded to 2)", repr(pruned), "Sequential(Linear(4, 3), ReLU(), Linear(3, 3), Sigmoid(), Linear(3, 3))")
        silent = deepcopy(model)
        for i, j in ((0, 2), (2, 4)):
            lowest = np.argsort(unit_scores(model.layers[i], model.layers[j]))[: 6 // (2 + i // 2)]
            silent.layers[j].weight.data[lowest] = 0
        x = Tensor(rng.standard_normal((8, 4)).astype(np.float32))
        check("computes what the model does when nobody listens to those units", bool(np.allclose(pruned(x).data, silent(x).data, atol=1e-5)), True, {
            False: "something else: do weight, bias and next weight keep the same units?"})
        check("the model itself", repr(model.layers[0]), "Linear(4, 6)")


    test_structured_prune()

# %% [markdown]
"""
**Prove that it is the same function.** Not the same as before, of course. The same as a *mask*: let the next layer ignore the units that went, by zeros in its weight. That network still has all its arrays. `compare` accepts the pair only because their outputs are equal (two sums of the same numbers, in another order), and then times them:
"""

# %%
if __name__ == "__main__":
    silent = deepcopy(model)
    for i in (0, 2):
        scores = unit_scores(model.layers[i], model.layers[i + 2])
        ignored = np.setdiff1d(np.arange(len(scores)), units_to_keep(scores, 0.5))
        silent.layers[i + 2].weight.data[ignored] = 0
    report("as trained", model)
    report("half of the units silent", silent)
    report("half of the units gone", halved)
    print("\n355 pictures at once:")
    race(silent, halved, held_out)
    print("\none picture:")
    race(silent, halved, held_out[:1])

# %% [markdown]
"""
Here at last the form has changed: fewer bytes, fewer FLOPs, less time. Look at the middle matrix: half of its rows and half of its columns, so a quarter of it is left. And look at the single picture: hardly a gain. Your profile of Module 14 has the reason: the layers' times there are calls of Python and not arithmetic, and five small calls cost
what five larger ones do. **Fewer FLOPs are not faster where FLOPs were not what one waited for.**

The price is in the last column: many answers lost, more than by as many scattered zeros. Again, two epochs of training. And since we are at it: does the score matter? Once more with units chosen by lot.
"""

# %%
if __name__ == "__main__":
    def by_lot(model, fraction, seed=1):
        """Structured pruning with scores drawn at random."""
        smaller, rng = {}, np.random.default_rng(seed)
        for first, second in hidden_chains(model):
            kept = units_to_keep(rng.random(first.out_features), fraction)
            pair = smaller.get(id(first), first), smaller.get(id(second), second)
            smaller[id(first)], smaller[id(second)] = keep_units(*pair, kept)
        return replace_layers(model, lambda layer: smaller.get(id(layer), layer))


    print("fraction   by score: before, after training   by lot: before, after training")
    for fraction in (0.25, 0.5, 0.75):
        scored, drawn = structured_prune(model, fraction), by_lot(model, fraction)
        before = right(scored), right(drawn)
        print(f"{fraction:8}   {before[0]:17} {right(train(scored, 2)):16}   {before[1]:15} {right(train(drawn, 2)):16}")
    low, high = interval(right(model))
    print(f"chance alone makes {355 * low:.0f} to {355 * high:.0f} of a network that gets {right(model)}")

# %% [markdown]
"""
Before training the score shows; after it much of the difference is within what chance does to 355 pictures. That is an uncomfortable finding, and it is known from large networks, too (Liu and others, 2019): often it is the *size* that is found by pruning, less so the particular units. Without the column "by lot" one would have praised the score.

## 4. Thinner matrices

**Question.** Can a matrix be smaller although no unit goes?

A matrix of `(in, out)` numbers in which every column is a mix of the same `r` columns has **rank** `r`. It is a product of two thin ones:

```
W (in, out)  =  A (in, r) @ B (r, out)          in·out numbers  →  r·(in + out)
x @ W        = (x @ A) @ B                      as many multiply-adds as numbers, each time
```

No trained matrix has a small rank. But some are *near* one that has. The singular value decomposition says how near: `W = U · diag(s) · V`, a sum of `n` simple matrices, each a column of U times a row of V times a strength `s`, strengths falling. Keep the first `r`, and you have the nearest matrix of rank `r` there is (Eckart and Young,
1936; Mirsky, 1960, for the longest error). What is left out is what you are off by:

- **longest** = `s[r]`, the first strength left out (numbered from 0): no input of length 1 comes out further off than this;
- **whole** = `sqrt(Σ s[k]²` over all that are left out`)`: the length of all differences together.

So the error is known *before* anything runs. Here are the strengths of our three matrices, and those of a matrix drawn at random:
"""

# %%
if __name__ == "__main__":
    drawn = Linear(256, 128, rng=np.random.default_rng(5))
    for name, layer in (("first", model.layers[0]), ("middle", model.layers[2]), ("last", model.layers[4]), ("random", drawn)):
        s = np.linalg.svd(layer.weight.data, compute_uv=False)
        print(f"{name:>7} {str(layer.weight.shape):>10}:", "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * v / s[0]))] for v in s[:: max(1, len(s) // 32)]), f" first {s[0]:.2f}, median {np.median(s):.2f}, last {s[-1]:.2f}")

# %% [markdown]
"""
Training has raised a few strengths above the flat slope of the random start: what was learned is of low rank, what it was written over is not.

Given: `decomposable(weight)`, which hands a matrix over in float64 and refuses what has no such strengths.
"""

# %%
#| export
def decomposable(weight):
    """Return an array (in, out) in float64; ``ValueError`` unless it has two axes, and floats that are all finite."""
    if weight.ndim != 2 or not weight.size or weight.dtype.kind != "f":
        raise ValueError(f"a weight {weight.shape} of {weight.dtype} has no low rank; want floats, (in, out)")
    if not np.isfinite(weight).all():
        raise ValueError(f"a weight {weight.shape} holds NaN or infinity; want finite numbers, so look at the training")
    return weight.astype(np.float64)

# %% [markdown]
"""
**Task.** Three small functions.

1. `low_rank_factors(weight, rank)`: `u` `(in, n)`, `s` `(n,)`, `vt` `(n, out)` are given, with `weight = u @ diag(s) @ vt`. Make `left` `(in, rank)` and `right` `(rank, out)` from the first `rank` of each. Give each side the *root* of the strength, so that the two are of like size (training them on is easier then).
2. `rank_error(weight, rank)`: the pair (longest, whole) from above; (0.0, 0.0) when nothing is left out.
3. `largest_rank(in_features, out_features)`: the largest `r` with `r · (in + out) < in · out`, a whole number, 0 when there is none. **Smaller, not as small.**

Example: `diag(5, 2, 1)` at rank 1: left and right hold sqrt(5) each, and zeros; longest 2, whole sqrt(2² + 1²) = 2.236. For (6, 3), 18 numbers: rank 1 has 9, rank 2 has 18 and gains nothing, so 1.

<details><summary>Hint 1: idea</summary>
Cut all three at <code>rank</code>; a column of the left side and a row of the right share one strength.
</details>
<details><summary>Hint 2: approach</summary>
<code>u[:, :rank] * root</code> scales columns; rows need <code>root[:, None]</code>. For the error <code>s[rank:]</code> may be empty: <code>max(..., default=0.0)</code>. For the last one: whole-number division <code>//</code> of what is <em>one less</em> than in · out.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Strengths 6, 3, 2, 2 at rank 1: longest 3, whole sqrt(9 + 4 + 4) = 4.123. For (10, 10), 100 numbers: rank 5 has 100, so 4; (99 // 20 = 4).
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "factors", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def low_rank_factors(weight, rank):
    """Return arrays (in, rank) and (rank, out) whose product is the nearest of this rank to ``weight`` (in, out).

    The nearest by the sum of squared differences (Eckart and Young, 1936) and by the longest error (Mirsky, 1960).
    Computed in float64, returned in the type of ``weight``, floats; of a rank above the full one nothing more comes.
    ``ValueError``: a rank below 1, or a weight that is no finite float array of two axes.
    """
    rank = positive("rank", rank)
    u, s, vt = np.linalg.svd(decomposable(weight), full_matrices=False)  # (in, n), (n,), (n, out)
    raise NotImplementedError("low_rank_factors: section 4, cell 3")
    return left.astype(weight.dtype), right.astype(weight.dtype)


def rank_error(weight, rank):
    """Return (longest, whole) for the best approximation of this rank: the next singular value, root of all squared.

    No input of length 1 comes out further off than ``longest``; ``whole`` is the length of all differences together.
    """
    rank, s = positive("rank", rank), np.linalg.svd(decomposable(weight), compute_uv=False)  # strengths, falling
    raise NotImplementedError("rank_error: section 4, cell 3")


def largest_rank(in_features, out_features):
    """Return the largest rank at which two factors hold fewer numbers than (in, out); 0 when there is none."""
    raise NotImplementedError("largest_rank: section 4, cell 3")

# %%
if __name__ == "__main__":
    weight = model.layers[2].weight.data
    print(f"{weight.shape}: thinner is smaller up to rank {largest_rank(*weight.shape)}")
    for rank in (8, 16, 32, 64):
        left, right_factor = low_rank_factors(weight, rank)
        longest, whole = rank_error(weight, rank)
        print(f"rank {rank:2}: {left.size + right_factor.size:6,} of {weight.size:,} numbers; longest {longest:.3f}; whole {whole:.3f}, measured {np.linalg.norm(weight - left @ right_factor):.3f}, {whole / np.linalg.norm(weight):.0%} of the weight's own")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-factors", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "factors"}
if __name__ == "__main__":
    def test_factors():
        """A known decomposition, a turned one, the types, the least gain."""
        weight = np.zeros((4, 3), np.float32)
        weight[[0, 1, 2], [0, 1, 2]] = [4, 3, 1]
        left, right = low_rank_factors(weight, 2)
        check("shapes", (left.shape, right.shape), ((4, 2), (2, 3)))
        product = left @ right
        check("what is on the diagonal of the product", np.diag(product[:3]), [4, 3, 0], {
            (16, 9, 0): "each strength twice: its root belongs on each side", (1, 1, 0): "the strengths are missing", (2, 3**0.5, 0): "the root on one side only",
            (0, 3, 1): "the last ones were kept: the strengths fall, keep the first", (4, 0, 0): "one too few"}, rtol=1e-5, atol=1e-6)
        check("the left side's columns are as long as", np.sqrt((left**2).sum(0)), [2, 3**0.5], {
            (4, 3): "all strength on the left: half of it, by roots, belongs on the right", (1, 1): "all strength on the right: half of it, by roots, belongs on the left"}, rtol=1e-5)
        check("the type of the weight", (left.dtype.name, right.dtype.name), ("float32", "float32"))
        check("left out at rank 1: longest, whole", rank_error(weight, 1), (3.0, 10**0.5), {
            (4.0, 26**0.5): "nothing was kept: the first one is s[0]", (3.0, 10.0): "the squares are summed: take the root", (3.0, 4.0): "the strengths are summed: sum their squares, take the root",
            (1.0, 1.0): "one too many was kept", (4.0, 10**0.5): "longest is the largest of those left out"})
        check("at full rank nothing", rank_error(weight, 3), (0.0, 0.0))
        rng = np.random.default_rng(0)
        full = rng.standard_normal((6, 9))
        left, right = low_rank_factors(full, 4)
        longest, whole = rank_error(full, 4)
        check("any matrix: the whole error is the predicted one", bool(np.isclose(np.linalg.norm(full - left @ right), whole)), True)
        check("and so is the longest", bool(np.isclose(np.linalg.norm(full - left @ right, 2), longest)), True)
        check("from which rank on nothing is gained", [largest_rank(*shape) for shape in ((256, 128), (4, 4), (6, 3), (1, 10), (768, 3072))], [85, 1, 1, 0, 614], {
            (85, 2, 2, 0, 614): "at (4, 4) rank 2 has 16 numbers, as many as before: want fewer", (86, 2, 2, 1, 615): "rounded up: that rank holds more", (85, 2, 2, 1, 614): "rounded: want the last one that holds fewer",
            (384, 8, 9, 11, 3840): "that is in + out", (64, 1, 1, 0, 384): "half the smaller side: count the numbers of both factors"})


    test_factors()

# %% [markdown]
"""
**Prove it, before and after.** One layer at rank 32 against itself. The bound: the rows that come in have a known length, so no output may be further off than `longest` times the longest row. That is the tolerance, an argued one, and `compare` gets it. It is told that the layers differ, and refuses if they differ by more than the theorem allows:
"""

# %%
if __name__ == "__main__":
    layer = model.layers[2]
    with no_grad():
        rows = model.layers[1](model.layers[0](held_out))  # (355, 256): what comes in
    left, right_factor = low_rank_factors(layer.weight.data, 32)
    thin = Sequential(linear_with(layer, left, None), linear_with(layer, right_factor, layer.bias.data))
    bound = rank_error(layer.weight.data, 32)[0] * float(np.linalg.norm(rows.data, axis=1).max())
    with no_grad():
        print(f"no output can be off by more than {bound:.3f}")
        print(compare_table(profiler.compare(layer, thin, rows, rtol=1e-5, atol=bound, rounds=12)))

# %% [markdown]
"""
The theorem speaks of the worst direction there is, and real inputs hardly point there: the bound is safe, not tight, and the line about the results says how far apart they really were. Whether the *answers* survive it cannot say. For that there are the 355 pictures, and the whole network:

**Task.** Write two pieces. `factored(layer, rank)`: the layer as `Sequential` of two `Linear`, made with `linear_with`; the bias, which may be None, belongs to the second, the first has none (why?). And the last line of `low_rank(model, rank)`: a copy of the model in which each layer that becomes *smaller* is its two factors. `limits` has, for the `id` of each layer that may
be replaced, its largest rank; a layer that is not in it must stay. `replace_layers(model, change)` asks `change(layer)` for each layer of the model: return another layer, or the same one.

Example: at rank 20, a layer with limit 51 becomes two; one with limit 9 stays, and so does a ReLU.

<details><summary>Hint 1: idea</summary>
(x A) B + b: a bias between A and B would be one more thing to add, and b is all there was.
</details>
<details><summary>Hint 2: approach</summary>
<code>limits.get(id(layer), 0)</code> is the limit, or 0. A <code>lambda layer: ... if ... else layer</code> is a change.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Every ReLU becomes a Tanh: <code>replace_layers(model, lambda layer: Tanh() if isinstance(layer, ReLU) else layer)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "low-rank", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def factored(layer, rank):
    """Return ``layer``, a Linear (in, out), as two: (in, rank) without a bias, then (rank, out) with its bias."""
    raise NotImplementedError("factored: section 4, cell 7")


def low_rank(model, rank):
    """Return a copy of the model in which each Linear that becomes smaller by it is two of this rank.

    The others stay as they are: those of ``largest_rank`` below ``rank``, tied weights, and what is no plain Linear.
    ``ValueError`` when all of them stay.
    """
    rank, once = positive("rank", rank), held_once(model)
    limits = {id(one): largest_rank(one.in_features, one.out_features)
              for one in things_in(model) if owns_its_weights(one, once)}
    best = max(limits.values(), default=0)
    if rank > best:
        raise ValueError(f"low_rank: with rank {rank} no Linear of this {type(model).__name__} becomes smaller; "
                         + (f"want at most {best}" if best else "nor with any other: want a model with larger ones"))
    raise NotImplementedError("low_rank: section 4, cell 7")

# %%
if __name__ == "__main__":
    for rank in (8, 16, 24, 32, 48):
        report(f"rank {rank}", low_rank(model, rank))
    report("as trained", model)
    try:
        low_rank(model, 100)
    except ValueError as error:
        print(error)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-low-rank", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "factors"}
if __name__ == "__main__":
    def test_low_rank():
        """Which layers, whose bias, how many numbers; the model stays."""
        rng = np.random.default_rng(0)
        weights = rng.standard_normal((8, 3)) @ rng.standard_normal((3, 8)), rng.standard_normal((8, 3))
        model = given(*weights)
        model = Sequential(model.layers[0], ReLU(), model.layers[1])
        model.layers[0].bias.data[:] = np.arange(8)
        thin = low_rank(model, 3)
        check("rank 3: (8, 8) becomes smaller, (8, 3) does not", repr(thin), "Sequential(Sequential(Linear(8, 3, bias=False), Linear(3, 8)), ReLU(), Linear(8, 3))", {
            repr(model): "nothing was replaced: at its limit, too, a layer becomes smaller", "Sequential(Sequential(Linear(8, 3), Linear(3, 8)), ReLU(), Linear(8, 3))": "a bias on both: the first one has none",
            "Sequential(Sequential(Linear(8, 3), Linear(3, 8, bias=False)), ReLU(), Linear(8, 3))": "the bias belongs to the second",
            "Sequential(Sequential(Linear(8, 3, bias=False), Linear(3, 8)), ReLU(), Sequential(Linear(8, 3, bias=False), Linear(3, 3)))": "the last layer is larger now: 33 numbers in place of 24"})
        check("numbers", sum(p.size for p in thin.parameters()), 24 + 24 + 8 + 24 + 3, {80: "the bias of the first layer is lost", 99: "nothing was replaced"})
        check("the bias", thin.layers[0].layers[1].bias.data, [0, 1, 2, 3, 4, 5, 6, 7])
        x = Tensor(rng.standard_normal((5, 8)).astype(np.float32))
        check("a layer without a bias", repr(factored(Linear(8, 8, bias=False), 3)), "Sequential(Linear(8, 3, bias=False), Linear(3, 8, bias=False))")
        check("a matrix that has rank 3 is not changed by it", bool(np.allclose(thin(x).data, model(x).data, rtol=1e-4, atol=1e-4)), True)
        check("at rank 2 both become smaller", repr(low_rank(model, 2)), "Sequential(Sequential(Linear(8, 2, bias=False), Linear(2, 8)), ReLU(), Sequential(Linear(8, 2, bias=False), Linear(2, 3)))")
        check("the model itself", repr(model), "Sequential(Linear(8, 8), ReLU(), Linear(8, 3))")
        check_raises("rank 4 makes nothing smaller", ValueError, lambda: low_rank(model, 4), "at most 3")


    test_low_rank()

# %% [markdown]
"""
At rank 16 or 24 nothing is lost that 355 pictures could show, and without any training, although by its length more than half of the middle matrix has been left out. What was left out was of no use to the answers: the noise that the matrix was born with.

**And the time?** Again two networks that compute the same: one with the thin factors, one with their product written out at full size. Same function, another form:
"""

# %%
if __name__ == "__main__":
    thin = low_rank(model, 16)
    written_out = deepcopy(model)
    for layer in written_out.layers[0:3:2]:
        left, right_factor = low_rank_factors(layer.weight.data, 16)
        layer.weight.data[:] = left @ right_factor
    print("355 pictures at once:")
    race(written_out, thin, held_out)
    print("\none picture:")
    race(written_out, thin, held_out[:1])

# %% [markdown]
"""
The FLOPs fell to a quarter, the time by less, and for a single picture it may well have *grown*: two calls in place of one. The form pays when the arithmetic is what takes the time. Ask the profile first.

## 5. A teacher

**Question.** Why take a large network apart at all? Could a small one not simply learn what the large one knows?

It can learn the *labels*. But the large network knows more than labels. Divide its scores by a **temperature** `T` before the softmax, and see what it thinks of one picture besides the answer:
"""

# %%
if __name__ == "__main__":
    with no_grad():
        logits = model(held_out).data
    doubtful = int(np.argsort(np.sort(logits)[:, -1] - np.sort(logits)[:, -2])[20])
    print(f"picture {doubtful}, a {test_labels[doubtful]}")
    for temperature in (1, 4, 16):
        powers = np.exp((logits[doubtful] - logits[doubtful].max()) / temperature)
        print(f"T = {temperature:2}:", " ".join(f"{digit}: {power:.3f}" for digit, power in enumerate(powers / powers.sum())))

# %% [markdown]
"""
At `T = 1` one answer outshines the others. At higher temperatures one sees a ranking: it *is* this, it is a little like that one, and not at all like a third. **Distillation** (Hinton, Vinyals and Dean, 2015) trains the student on these shares:

```
p = softmax(teacher / T)     q = softmax(student / T)     each row: Σ over classes of p · (log p − log q)  =  KL(p ‖ q)

loss = alpha · T² · (mean of KL over rows)  +  (1 − alpha) · cross entropy of student and labels
```

KL is 0 when both agree and positive otherwise. Why T²? The gradient of the first part with respect to a student's score is `(q − p) / T`, and for large T the difference `q − p` shrinks like `1 / T`, too. With T² both parts pull about equally hard whatever T is.

**Task.** Write `DistillationLoss.forward`. `student` and `teacher` are Tensors `(..., C)`; `log_softmax(x)` gives the logarithms of the shares along the last axis, `exp` goes back. The teacher only teaches: `teacher.detach()`. The other part is `self.hard(student, targets)`, at temperature 1. With `alpha == 1` there may be no
targets: return the first part alone.

Example, T = 1, alpha = 1: a teacher with shares 1/2 and 1/2, a student with 1/4 and 3/4: ½ log 2 + ½ log ⅔ = 0.1438.

<details><summary>Hint 1: idea</summary>
Both logarithms come from the same function; p is the exponential of the first.
</details>
<details><summary>Hint 2: approach</summary>
The sum goes over the last axis, <code>.sum(axis=-1)</code>; what is left, one number for each row, is averaged with <code>.mean()</code>. Divide by the temperature <em>inside</em> <code>log_softmax</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
T = 3, KL of two rows 0.2 and 0.4, cross entropy 1.0, alpha = 0.5: 0.5 · 9 · 0.3 + 0.5 · 1.0 = 1.85.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "distillation-loss", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class DistillationLoss(Layer):
    """How far a student is from its teacher's shares, and from the labels: logits (..., C) -> a scalar tensor.

    alpha * T² * KL(teacher's shares || student's), both softened by T, + (1 - alpha) * cross entropy with the labels;
    means over all rows. No gradient goes to the teacher. At a high T the KL is tiny and T² makes its rounding large: in
    float32 the value is off by about T² * 10⁻⁷, by 0.1 at T = 1000. ``ValueError``: T not above 0, or alpha outside 0
    to 1. Source: Hinton, Vinyals and Dean, 2015.
    """

    def __init__(self, temperature=4.0, alpha=0.9):
        """Keep the temperature T, above 0, and the teacher's part alpha, from 0 to 1."""
        self.temperature, self.alpha = float(real("temperature", temperature)), float(real("alpha", alpha))
        if not 0 < self.temperature < np.inf:
            raise ValueError(f"temperature is {temperature}; want a finite number above 0")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is {alpha}; want the teacher's part, from 0 to 1")
        self.hard = CrossEntropyLoss()

    def forward(self, student_logits, teacher_logits, targets=None):
        """Return the loss; ``targets`` (...) are class numbers, and may be left out when alpha is 1.

        ``ValueError``: logits of two shapes, no rows, or no targets where they are wanted.
        """
        student, teacher = [x if isinstance(x, Tensor) else Tensor(x) for x in (student_logits, teacher_logits)]
        if student.shape != teacher.shape or not student.shape or not student.size:
            raise ValueError(f"DistillationLoss: student {student.shape} with teacher {teacher.shape}; want logits of "
                             "one shape (..., C), and at least one row")
        if targets is None and self.alpha < 1:
            raise ValueError(f"DistillationLoss: no targets came, and alpha is {self.alpha}; give them, or alpha=1")
        raise NotImplementedError("DistillationLoss.forward: section 5, cell 2")

# %%
if __name__ == "__main__":
    print(DistillationLoss(1.0, 1.0)(np.log([[1, 3]]), np.log([[1, 1]])).item())

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-distillation-loss", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "distillation"}
if __name__ == "__main__":
    def test_distillation_loss():
        """By hand: T = 2, shares 3/4 and 1/4 against halves; rows, labels, gradients, large scores."""
        teacher = Tensor([[2 * np.log(3), 0.0]], requires_grad=True, dtype=np.float64)  # at T = 2: log 3, 0
        student = Tensor([[0.0, 0.0]], requires_grad=True, dtype=np.float64)
        kl, ce = 0.75 * np.log(1.5) + 0.25 * np.log(0.5), np.log(2)
        loss = DistillationLoss(2.0, 1.0)(student, teacher)
        check("T² KL", loss.item(), 0.5232481437645478, {
            kl: "T² is missing", 2 * kl: "times T: want T²", kl / 4: "divided by T²", 4 * ce: "cross entropy with the shares: KL also has p log p",
            4 * (0.5 * np.log(2 / 3) + 0.5 * np.log(2)): "the wrong way round: the teacher's shares weigh, KL(p || q)",
            4 * (0.9 * np.log(1.8) + 0.1 * np.log(0.2)): "not softened: divide the scores by T", 2 * kl + 0.0: "times T: want T²", -4 * kl: "the sign: log p - log q",
            4 * (0.75 * np.log(0.75) + 0.25 * np.log(0.25)): "only p log p: subtract p log q"})
        loss.backward()
        check("the student's gradient: T (q - p)", student.grad.data, [[-0.5, 0.5]], {
            ((-1.0, 1.0),): "the student's scores are not softened: divide them by T, too", ((-0.25, 0.25),): "half of it: the mean was taken over the classes as well"})
        check("nothing goes to the teacher", teacher.grad is None, True, {False: "the teacher got a gradient: detach it"})
        two = DistillationLoss(2.0, 1.0)(Tensor([[0.0, 0.0], [4.0, 0.0]], dtype=np.float64), Tensor([[2 * np.log(3), 0.0], [4.0, 0.0]], dtype=np.float64))
        check("two rows, the second agrees", two.item(), 0.2616240718822739, {
            4 * kl: "the sum over rows: want their mean", kl: "the mean over rows and classes: classes are summed"})
        mixed = DistillationLoss(2.0, 0.25)(student, teacher, [1])
        check("a quarter teacher, three quarters labels", mixed.item(), 0.25 * 0.5232481437645478 + 0.75 * 0.6931471805599453, {
            0.75 * 4 * kl + 0.25 * ce: "alpha is the teacher's part, not the labels'", 4 * kl + ce: "both whole: weigh them", 0.25 * 4 * kl + ce: "the labels' part has the weight 1 - alpha",
            0.25 * 4 * kl: "the labels are missing", 4 * (0.25 * kl + 0.75 * ce): "T² belongs to the teacher's part alone"})
        labels_only = DistillationLoss(2.0, 0.0)(Tensor([[2 * np.log(3), 0.0]], dtype=np.float64), teacher, [1])
        check("labels alone, at temperature 1", labels_only.item(), np.log(10), {np.log(4): "the student's scores are softened there, too: labels want temperature 1"})
        check("scores of 10,000", DistillationLoss(2.0, 1.0)(Tensor([[1e4, 0.0]]), Tensor([[1e4, 0.0]])).item(), 0.0, {
            np.nan: "overflow, or log 0: use log_softmax"})
        three = DistillationLoss(2.0, 1.0)(Tensor(np.zeros((2, 1, 2)), dtype=np.float64), Tensor([[[2 * np.log(3), 0.0]], [[0.0, 0.0]]], dtype=np.float64))
        check("two rows along three axes", three.item(), 0.2616240718822739, {kl: "the classes are the last axis: sum over axis=-1"})
        check_raises("no targets, though they count", ValueError, lambda: DistillationLoss(2.0, 0.5)(student, teacher), "targets")


    test_distillation_loss()

# %% [markdown]
"""
**Task.** Write the inside of the loop in `distill`. For each batch: the teacher's `answer`, without a graph (`with no_grad():`, nothing is ever sent back there); the `loss` of the student's output, this answer and the `targets`; and the three lines of every training step: old gradients away, backward, step. Given: copies, modes, the loop, and a look at
the loss afterwards.

<details><summary>Hint 1: idea</summary>
It is the training step of Module 07 with one more input to the loss.
</details>
<details><summary>Hint 2: approach</summary>
<code>optimizer.zero_grad()</code>, <code>loss.backward()</code>, <code>optimizer.step()</code>, in this order. Only <code>teacher(x)</code> belongs under <code>no_grad</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Two networks asked, one trained: <code>with no_grad(): a = first(x)</code>, then <code>b = second(x)</code> outside; <code>((a - b) * (a - b)).mean().backward()</code> reaches only the second.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "distill", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def distill(student, teacher, loader, epochs, temperature=4.0, alpha=0.9, lr=3e-3):
    """Return a copy of the student, trained for so many epochs to answer as the teacher does; both stay as they are.

    ``loader`` gives (inputs, class numbers). The teacher runs in evaluation mode and without a graph, the copy in
    training mode, under Adam with rate ``lr``. ``ValueError`` when the loss is not finite.
    """
    loss_fn, student, epochs = DistillationLoss(temperature, alpha), deepcopy(student), positive("epochs", epochs)
    optimizer = Adam(student.parameters(), lr)
    with in_mode(student, True), in_mode(teacher, False):
        for _ in range(epochs):
            for x, targets in pairs(loader):
                raise NotImplementedError("distill: section 5, cell 5")
                if not np.isfinite(loss.item()):
                    raise ValueError(f"distill: the loss is {loss.item()}; look at the data, then try a lower rate")
    return student

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-distill", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "distillation"}
if __name__ == "__main__":
    from tinytorch.core.tensor import thread_state


    class Watched(Layer):
        """A teacher that writes down how it is called."""

        def __init__(self):
            self.inner, self.seen = given([[2 * np.log(3), 0], [0, 0]]).layers[0], []

        def forward(self, x):
            """Answer, and note whether a graph is kept and whether this is training."""
            self.seen.append((bool(thread_state().grad_enabled), self.training))
            return self.inner(x)


    def test_distill():
        """One step by hand, gradients of one batch alone, teacher and student as they were."""
        student, teacher, batch = given([[0, 0], [0, 0]]).layers[0], Watched(), [(Tensor([[1.0, 0.0]]), [1])]
        once = distill(student, teacher, batch, 1, temperature=2.0, alpha=1.0, lr=0.125)
        check("after one step of Adam", once.weight.data, [[0.125, -0.125], [0, 0]], {
            ((0, 0), (0, 0)): "nothing was learned: is there a step, and the student's copy in the loss?", ((-0.125, 0.125), (0, 0)): "away from the teacher"}, rtol=1e-4)
        check("how the teacher was asked: (graph kept, training)", teacher.seen, [(False, False)], {
            ((True, False),): "with a graph: put teacher(x) under no_grad()", (): "it was not asked"})
        again = distill(student, teacher, batch, 3, temperature=2.0, alpha=1.0, lr=1e-9)
        check("three epochs at a rate of nearly 0: the gradient of the last batch alone", again.weight.grad.data, [[-0.5, 0.5], [0, 0]], {
            ((-1.5, 1.5), (0, 0)): "the earlier batches are still in it: zero_grad() before backward()"}, rtol=1e-4)
        check("labels count with alpha 0: after one step", distill(student, teacher, batch, 1, alpha=0.0, lr=0.125).weight.data, [[-0.125, 0.125], [0, 0]], {
            ((0.125, -0.125), (0, 0)): "the targets are not handed to the loss"}, rtol=1e-4)
        check("the student given, and the teacher's mode", (student.weight.data.any().item(), teacher.training), (False, True))


    test_distill()

# %% [markdown]
"""
A student with 32 hidden units, a twentieth of the teacher's size. Trained on labels, and on the teacher:
"""

# %%
if __name__ == "__main__":
    student = network(64, 32, 10, seed=1)
    by_labels = train(deepcopy(student), 20, lr=3e-3)
    by_teacher = distill(student, model, DataLoader(TensorDataset(images, labels), 64, shuffle=True, seed=0), 20)
    report("the teacher", model)
    report("student, by labels", by_labels)
    report("student, by the teacher", by_teacher)
    print(f"chance alone makes {355 * interval(right(by_labels))[0]:.0f} to {355 * interval(right(by_labels))[1]:.0f} of a network that gets {right(by_labels)}")

# %% [markdown]
"""
A twentieth of the bytes and of the FLOPs, nearly as good; and whether the teacher has helped cannot be told from 355 pictures: the two numbers lie within each other's interval. 1,442 labels are enough for this task. A benefit that is not there should not be reported, so here is a task for which labels are *not* enough.

Take away every picture of a 3. The students never see one. **Guess** how many of the 36 held-out threes each of them recognizes:
"""

# %%
if __name__ == "__main__":
    my_guess = {"by labels": None, "by the teacher": None}
    without = labels != 3
    unseen = test_labels == 3
    by_labels = train(deepcopy(student), 20, lr=3e-3, data=(images[without], labels[without]))
    print(f"by labels:           {(answers(by_labels)[unseen] == 3).sum():2} of {unseen.sum()} threes, {right(by_labels)} of 355 in all")
    loader = DataLoader(TensorDataset(images[without], labels[without]), 64, shuffle=True, seed=0)
    for temperature in (1, 4, 8):
        by_teacher = distill(student, model, loader, 20, temperature, alpha=1.0)
        print(f"by teacher, T = {temperature}:  {(answers(by_teacher)[unseen] == 3).sum():2} of {unseen.sum()} threes, {right(by_teacher)} of 355 in all")

# %% [markdown]
"""
**Third surprise**, and it is Hinton's own: the student recognizes a digit of which it has never seen an example. What a 3 looks like was in the teacher's *doubts* about other digits: this 8 is a little like a 3, and that 5 more so. At `T = 1` those doubts are too small to be heard; a higher temperature makes them audible.

## 6. Side by side

**Question.** What did each way pay, and what did it get?

All of it in one picture: what is held (measured), against what is right. The grey band is what chance makes of the teacher's result.
"""

# %%
if __name__ == "__main__":
    import matplotlib.pyplot as plt


    def held(model):
        """KiB of parameters, as measured."""
        return profiler.measure_memory(model, held_out.shape)["parameter_memory_mb"] * 1024


    curves = {
        "mask": [magnitude_prune(model, f) for f in (0.0, 0.5, 0.8, 0.9, 0.95)],
        "fewer units": [structured_prune(model, f) for f in (0.0, 0.25, 0.5, 0.75)],
        "fewer units, trained 2 epochs more": [train(structured_prune(model, f), 2) for f in (0.25, 0.5, 0.75)],
        "low rank": [low_rank(model, r) for r in (8, 12, 16, 24, 32, 48)],
        "student of 32, 16, 8 units, 10 epochs": [distill(network(64, n, 10, seed=1), model, DataLoader(TensorDataset(images, labels), 64, shuffle=True, seed=0), 10) for n in (32, 16, 8)]}
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    low, high = interval(right(model))
    axes.axhspan(100 * low, 100 * high, color="#dddddd")
    for (name, models), colour, mark in zip(curves.items(), ("#D55E00", "#999999", "#0072B2", "#009E73", "#CC79A7"), "sxo^D"):
        axes.plot([held(one) for one in models], [100 * right(one) / 355 for one in models], mark + "-", color=colour, label=name, markersize=5)
    axes.set(xscale="log", xlabel="KiB of parameters, as measured (logarithmic)", ylabel="right, % of 355", ylim=(40, 101), title="what was paid for it")
    _ = axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(0.86, 0.02))

# %% [markdown]
"""
The mask goes straight down: it pays and gets nothing. The other curves go left.

**What it means for a real model.** GPT-2's widest matrices are 768 x 3,072 and GPT-3's 12,288 x 49,152. Only sizes are needed to say what low rank could gain:
"""

# %%
if __name__ == "__main__":
    for name, wide, wider in (("GPT-2 small", 768, 3072), ("GPT-3", 12288, 49152)):
        limit, half = largest_rank(wide, wider), wide * wider // (2 * (wide + wider))
        print(f"{name:>11}: {wide * wider:13,} numbers; two factors are fewer up to rank {limit:,}, half of it at rank {half:,} ({half / wide:.0%} of all directions)")

# %% [markdown]
"""
**Transfer.** A model of 175 thousand million parameters shall learn a new task. Training all of them takes gradients and Adam's two memories for each. The idea of LoRA (Hu and others, 2021): the *change* that training makes may well be of low rank, even where the matrix is not. So freeze the matrix, and train two thin factors beside it:

```
y = base(x) + (x @ A) @ B          base: Linear (in, out), frozen        A (in, r), drawn small        B (r, out), zeros
```

**Task.** Write `forward` and `merged` of `Adapted`. `forward`: as above, x `(..., in)`; mind the order of the products, since `A @ B` is a whole matrix again. `merged()`: one plain `Linear` that computes the same (`linear_with`, on arrays), since after training nobody wants to pay for the detour.

<details><summary>Hint 1: idea</summary>
x (W + A B) + b = (x W + b) + (x A) B.
</details>
<details><summary>Hint 2: approach</summary>
<code>@</code> between Tensors; <code>.data</code> for arrays; the base's bias may be None.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
W = [[1]], A = [[2]], B = [[3]], no bias: x = 5 gives 5 + (5 · 2) · 3 = 35, and merged is [[7]]: 35.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "adapted", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    from tinytorch.core.layers import xavier_uniform, zeros


    class Adapted(Layer):
        """A frozen Linear and a trainable change of low rank beside it: x (..., in) -> (..., out)."""

        def __init__(self, base, rank, rng=None):
            """Freeze a copy of ``base``; the change starts as nothing at all, because B is zeros."""
            self.base = deepcopy(base)
            for p in self.base.parameters():
                p.requires_grad = False
            self.a = xavier_uniform(base.in_features, rank, rng)  # (in, r)
            self.b = zeros(rank, base.out_features)

        def forward(self, x):
            """Compute base(x) + (x A) B."""
            raise NotImplementedError("Adapted.forward: section 6, cell 3")

        def merged(self):
            """Return one Linear that computes the same."""
            raise NotImplementedError("Adapted.merged: section 6, cell 3")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-adapted", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "transfer"}
if __name__ == "__main__":
    def test_adapted():
        """Values, the order of the products by its price, what is trained, what is left afterwards."""
        layer = given([[1, 0], [0, 2]]).layers[0]
        layer.bias.data[:] = [10, 20]
        adapted = Adapted(layer, 1)
        adapted.a.data[:], adapted.b.data[:] = [[1], [1]], [[3, 5]]
        check("base and change", adapted(Tensor([[1.0, 1.0]])).data, [[17, 32]], {
            ((11, 22),): "the change is missing", ((6, 10),): "the base is missing", ((7, 12),): "the base's bias is missing"})
        check("merged, weight", adapted.merged().weight.data, [[4, 5], [3, 7]], {((1, 0), (0, 2)): "the change is missing", ((3, 5), (3, 5)): "the base is missing"})
        check("merged, bias", adapted.merged().bias.data, [10, 20])
        check("merged, a base without a bias", repr(Adapted(Linear(3, 2, bias=False), 1).merged()), "Linear(3, 2, bias=False)")
        wide = Adapted(Linear(64, 32), 2)
        check("FLOPs: 2·64·32 + 2·64·2 + 2·2·32 + 32", profiler.count_flops(wide, (1, 64)), 4512, {
            16416: "A @ B is a whole matrix again: multiply x by A first", 4096: "the change is missing", 4128: "the change was computed on .data: multiply Tensors"})
        wide(Tensor(np.ones((3, 64)))).sum().backward()
        check("what gets a gradient", (wide.base.weight.grad is None, wide.a.grad is None, wide.b.grad is None), (True, False, False))


    test_adapted()

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import shape_only

    print("rank   trained in GPT-3, two matrices of attention (12,288 x 12,288) in each of 96 layers")
    with shape_only():
        for rank in (1, 4, 8):
            one = Adapted(Linear(12288, 12288, bias=False), rank)
            trained = 2 * 96 * profiler.count_parameters(one, trainable_only=True)
            print(f"{rank:4}   {trained:12,} of 175 thousand million: one in {175e9 / trained:,.0f}")

# %% [markdown]
"""
The paper names 4.7 and 37.7 million, for ranks 1 and 8. You have counted them on your laptop, on shapes.

**Reflect.** Answer first, then open.

<details><summary>A paper says "10x compression" and shows sparsity. What do you ask?</summary>
Compression of what: of the file, of the memory, of the time? On which hardware, with which loops, measured against what? A mask alone compresses none but the file.
</details>
<details><summary>A unit has only zeros leading in, and a bias of 2. Is it useless?</summary>
It gives relu(2) = 2 whatever comes in. Its listeners use that as a part of their bias: add 2 times its row of the next weight to the next bias, and the unit can go without any loss. Cutting it out without that changes every output. Scores that leave the bias out would call it worthless.
</details>
<details><summary>Does our score see through <em>every</em> rescaling?</summary>
No. A unit's own loudness cancels, but that of its neighbours does not: if the units of the <em>next</em> layer are made louder, the rows of the next weight change with them, and not all alike. A score that follows whole paths from input to output would see through that, too. One that measures on data what is lost without the unit needs no argument at all, only time.
</details>
<details><summary>Why must a Softmax not stand between the two layers of a chain?</summary>
It divides by a sum over all units. Take one away and all others change; cutting is then not the same as silencing. ReLU and its like treat every unit alone.
</details>
<details><summary>Low rank first and then int8, or the other way round?</summary>
Low rank needs a decomposition of the matrix as it was trained; rounding adds noise of full rank, which the decomposition would have to carry along. So low rank first, and then its factors in int8 (Module 15).
</details>
<details><summary>The bound of section 4 holds for one layer. What becomes of it in a deep network?</summary>
An error that comes in is passed on, longer by at most the longest stretch of each next matrix (ReLU makes no difference longer), and each layer adds its own. The bounds multiply and soon promise nothing: that is why a whole network is judged on held-out data.
</details>
<details><summary>Does distilling need labels?</summary>
No: with alpha = 1 they are never looked at. Any pictures will do that the teacher has an opinion about, which is why the 3 could be learned without a 3.
</details>

`tito test compression` checks the module; once all of it passes, `tito module complete compression` puts what you wrote into the package, and later modules run on your code. Next: Module 17, which does not make the model smaller but stops it from computing the same thing again.
"""
