# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "13_transformers", "release": "945eb37156e618d2"}
# ---

# %% [markdown]
"""
# 13 · Transformers

Tier: Architecture · Difficulty 3 of 4 · About 3 hours · Needs 01 to 07, 11 and 12 (`tito test tensor`, `tito test activations`, `tito test layers`, `tito test losses`, `tito test autograd`, `tito test optimizers`, `tito test training`,
`tito test embeddings`, `tito test attention`) and, to write at the end, 10 (`tito test tokenization`)

Attention lets words look at each other. One look is not enough: a language model looks, thinks, looks again at what came of it, dozens of times. This module builds the piece that can be stacked like that, stacks it, and lets the stack write.

**Build** `LayerNorm`, `MLP`, `TransformerBlock`, `GPT`, sampling, `generate` → **use** them to count GPT-2 and GPT-3, to train a model that reverses what it is given, and one that writes → **reflect** on what is learned, and what it costs.

When you are done you can
1. keep numbers in range through any depth, and show what happens where you do not;
2. build a block of a transformer in five lines, and say why the norm stands where it stands;
3. say from four numbers how many parameters a GPT has, and where they are;
4. turn scores into a choice, with a temperature that you can explain;
5. train a language model from nothing, make it write, and look inside at how it does what it does.

Yours: layer norm, the MLP, the block, GPT from its embeddings to its head, the count of its parameters, temperature, the draw, the loop that writes, the shift that makes targets of a text. Given and explained: a weight that starts at ones, what refuses wrong sizes and prompts,
the data, and the training runs.

A cell you have not filled says which one it is: `LayerNorm.forward: section 1, cell 3` is the method `forward` of `LayerNorm` in the third code cell of section 1.
"""

# %%
#| default_exp core.transformers

# %%
#| export
import numpy as np

from tinytorch.core.activations import GELU, softmax
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.autograd import no_grad
from tinytorch.core.embeddings import Embedding, PositionalEncoding, token_ids
from tinytorch.core.layers import Dropout, Layer, Linear, generator, positive, trainable, zeros
from tinytorch.core.optimizers import nonnegative
from tinytorch.core.tensor import Tensor, sqrt
from tinytorch.core.training import in_mode

# %% [markdown]
"""
## 1. Numbers in range

**Question.** A deep model adds something to its input, again and again: `x = x + f(x)`. What do 24 such additions do to the size of the numbers? Guess, then run: plain NumPy, with weights whose scale is right for *one* layer.
"""

# %%
if __name__ == "__main__":
    my_bet = None  # the spread after 24 layers, if it starts at 1
    for norm in (False, True):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((64, 128))
        for _ in range(24):
            seen = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) if norm else x
            x = x + np.maximum(seen @ rng.normal(0, np.sqrt(2 / 128), (128, 128)), 0) @ rng.normal(0, np.sqrt(1 / 128), (128, 128))
        print(f"what f sees is {'normalized' if norm else 'x as it is'}: spread {x.std():.3g}" + ("" if norm else f", your bet {my_bet}"))

# %% [markdown]
"""
What `f` adds is as large as what it sees, so `x` grows by a factor in each layer. If `f` sees numbers of a fixed size, it adds a fixed amount, and the growth is slow.

**Layer normalization** does that for each position alone, over its `D` features. It looks at no other position and at no other text, so it means the same in training and in evaluation (unlike the batch norm of Module 09):

```
mean   = average of the D numbers of a position
var    = average of (x - mean)²                         divided by D, not by D - 1
y      = (x - mean) / sqrt(var + eps) · weight + bias   weight (D,) starts at ones, bias (D,) at zeros
```

`eps` stands inside the root: a position whose numbers are all alike has `var = 0`, and must not divide by zero. `weight` and `bias` are learned, so that the model may undo what it does not need.

Given: `ones`, the brother of `zeros` from Module 03, and `check_features`, which refuses a wrong last axis (without it, one feature would stretch to `D`).
"""

# %%
#| export
def ones(*shape):
    """Return a trainable tensor of ones: the usual start of a scale."""
    return trainable(shape, np.ones)


def check_features(x, embed_dim):
    """Raise ``ValueError``, naming both, unless the last axis of ``x`` has ``embed_dim`` features."""
    if not x.shape or x.shape[-1] != embed_dim:
        raise ValueError(f"x {x.shape}: want (..., {embed_dim}), features in the last axis")

# %% [markdown]
"""
**Task.** Write `LayerNorm.forward`: x `(..., D)` → the same shape. Everything is made of ops you have, so that the gradient comes by itself: `x.mean(axis=-1, keepdims=True)` is `(..., 1)`; `+ - * /` broadcast; `sqrt(tensor)` is imported;
`self.eps`, `self.weight`, `self.bias` are there. Compute `x - mean` once and use it twice: each line that makes a new array of the size of `x` is a walk through memory.

Example, with `D = 2` and `eps = 7`: `[0, 6]` has the mean 3 and the variance 9, the root of 9 + 7 is 4, the result is `[-0.75, 0.75]`.

<details><summary>Hint 1: idea</summary>
Three quantities, three lines: the distance from the mean, the mean of its square, the quotient.
</details>
<details><summary>Hint 2: approach</summary>
Without <code>keepdims=True</code> the mean of a <code>(2, 5, 4)</code> is <code>(2, 5)</code>, which does not line up with <code>(2, 5, 4)</code> (or worse, it does, and the wrong way). No <code>.data</code> anywhere: what does not pass through ops has no gradient.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>[1, 1, 4]</code> with <code>eps = 2</code>: mean 2, distances −1, −1, 2, variance (1 + 1 + 4) / 3 = 2, root of 2 + 2 = 2, so <code>[-0.5, -0.5, 1]</code>. With weight <code>[1, 10, 1]</code> and bias <code>[0, 0, 5]</code>: <code>[-0.5, -5, 6]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "layer-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class LayerNorm(Layer):
    """Normalize each position over its features, then scale and shift: x (..., embed_dim) -> the same shape.

    A composition of ops: the variance is the biased one, ``eps`` is added to it inside the root.
    Source: Ba, Kiros and Hinton, 2016.
    """

    def __init__(self, embed_dim, eps=1e-5):
        self.embed_dim, self.eps = positive("embed_dim", embed_dim), nonnegative("eps", eps)
        self.weight, self.bias = ones(self.embed_dim), zeros(self.embed_dim)

    def forward(self, x):
        """Return (x - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the last axis."""
        check_features(x, self.embed_dim)
        raise NotImplementedError("LayerNorm.forward: section 1, cell 3")

    def __repr__(self):
        return f"LayerNorm({self.embed_dim})"

# %%
if __name__ == "__main__":
    print(LayerNorm(2, eps=7.0)(Tensor([0.0, 6.0])).data)
    out = LayerNorm(4)(Tensor([[1.0, 2.0, 3.0, 4.0], [1000.0, 2000.0, 3000.0, 4000.0], [5.0, 5.0, 5.0, 5.0]])).data
    print(out.round(3), "mean and spread of each row:", out.mean(-1).round(3), out.std(-1).round(3), sep="\n")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-layer-norm", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "norm"}
if __name__ == "__main__":
    from tito.checks import check, check_raises

    from tinytorch.core.autograd import check_gradient


    def rows(array):
        """Return an array as a tuple of tuples."""
        return tuple(map(tuple, np.asarray(array, float).tolist()))


    def test_layer_norm():
        """Values, axes, scale and shift, gradients against differences, refusals."""
        x = np.array([[1.0, 3.0, 5.0, 7.0], [0.0, 0.0, 0.0, 8.0]])  # means 4 and 2, variances 5 and 12
        d = x - x.mean(-1, keepdims=True)
        check("eps = 4: roots of 5 + 4 and 12 + 4", LayerNorm(4, eps=4.0)(Tensor(x)).data, [[-1, -1 / 3, 1 / 3, 1], [-0.5, -0.5, -0.5, 1.5]], {
            rows(d / np.sqrt(x.var(-1, ddof=1, keepdims=True) + 4)): "divided by D - 1; layer norm divides by D",
            rows(d / (x.std(-1, keepdims=True) + 4)): "eps stands outside the root", rows(d / x.std(-1, keepdims=True)): "eps is left out",
            rows(d / (x.var(-1, keepdims=True) + 4)): "the root is missing", rows(x / np.sqrt(x.var(-1, keepdims=True) + 4)): "the mean is not taken off",
            rows(d / np.sqrt(x.std(-1, keepdims=True) + 4)): "that is the root of the spread, not of the variance",
            rows((x - x.mean()) / np.sqrt(x.var() + 4)): "mean and variance over everything; want them for each row",
            rows((x - x.mean(0)) / np.sqrt(x.var(0) + 4)): "mean and variance over the rows; want them over the last axis",
            rows(d / np.sqrt(np.abs(d).mean(-1, keepdims=True) + 4)): "that is the mean distance; the variance is the mean of its square"}, rtol=1e-5)
        layer = LayerNorm(3)
        layer.weight.data[:], layer.bias.data[:] = [1, 10, 100], [5, 6, 7]
        got = layer(Tensor([[-1.0, -1.0, -1.0], [2.0, 2.0, 2.0]])).data
        check("numbers all alike give the bias", got, [[5, 6, 7], [5, 6, 7]], {
            rows(np.zeros((2, 3))): "the bias is left out", rows([[5, 60, 700]] * 2): "the bias is added before the weight; want it last"})
        x = np.random.default_rng(0).standard_normal((2, 5, 3)) * 10
        want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        kept = Tensor(x)
        before, got = kept.data.copy(), layer(kept).data
        check("weight and bias, for each feature", got[0, 0], want[0, 0] * [1, 10, 100] + [5, 6, 7], {tuple((want[0, 0] + [5, 6, 7]).tolist()): "the weight is left out"}, rtol=1e-4, atol=1e-4)
        check("in every row", bool(np.allclose(got, want * [1, 10, 100] + [5, 6, 7], rtol=1e-4, atol=1e-4)), True)
        check("x itself is left as it was", bool((kept.data == before).all()), True)
        far = LayerNorm(3)(Tensor((x[0] + 4096).astype(np.float32))).data
        check("far from 0 (where the mean of squares minus the square of the mean has no digits left)", bool(np.allclose(far, want[0], atol=0.01)), True)
        check("float64 stays float64", LayerNorm(3)(Tensor(x, dtype=np.float64)).data, want, rtol=1e-6, atol=1e-6)

        row = Tensor([[1.0, 3.0, 8.0]], requires_grad=True)
        LayerNorm(3)(row).backward([[1.0, 0.0, 0.0]])
        check("gradients of one row add up to 0, since moving all three changes nothing", float(row.grad.data.sum()), 0.0, {
            0.3396831: "the gradient stops at the mean, as if it were a constant"}, atol=1e-5)

        def by_hand(x, weight, bias):
            layer.weight, layer.bias = weight, bias
            return layer(x)

        worst = check_gradient(by_hand, Tensor(x[0]), Tensor([0.5, -1.0, 2.0]), Tensor([1.0, 2.0, 3.0]))
        check("x, weight and bias: the gradient is the slope", worst < 1e-5, True)
        check_raises("one feature does not stretch to four", ValueError, lambda: LayerNorm(4)(Tensor([[1.0]])), must_say="(1, 1)")


    test_layer_norm()

# %% [markdown]
"""
**What if** you scale all features of a position by a thousand, or add a thousand to them? Guess the largest difference in the output, then run.
"""

# %%
if __name__ == "__main__":
    x = Tensor(np.random.default_rng(0).standard_normal((3, 8)))
    norm = LayerNorm(8)
    for name, other in (("x · 1000", x * 1000), ("x + 1000", x + 1000)):
        print(f"{name}: differs by {np.abs(norm(other).data - norm(x).data).max():.1e}")

# %% [markdown]
"""
Size and offset are gone (what remains is rounding: near 1000 a float32 has fewer digits behind the point, and `x · 1000` makes `eps` matter less). What a layer after a norm sees is only the *pattern* of the features.

**What it means for a real model.** Norms hold hardly any parameters (section 5 counts them) and do hardly any arithmetic. They are walks through memory, and Module 18 will find that they cost far more time than their FLOPs suggest.

## 2. Thinking alone

**Question.** Attention mixes what positions offer, by weights that add up to 1. What can a mix *not* do?

It cannot make anything new out of the features: a weighted mean of values is linear in the values. So each position gets time to think by itself: two linear layers with a nonlinearity between them, the same for every position. The hidden layer is wide, by custom four times:

```
x (..., D) ─▶ fc1 ─▶ (..., 4D) ─▶ GELU ─▶ (..., 4D) ─▶ fc2 ─▶ (..., D) ─▶ dropout
```

**Task.** Write `MLP`. In `__init__` make four parts: `fc1` and `fc2` with `Linear(in_features, out_features, rng=rng)`, `activation` with `GELU()`, `dropout` with `Dropout(self.dropout_prob, rng)`; the sizes are in `self.embed_dim` and `self.hidden_dim`. `forward` passes x through them in the order of the picture.

Example: `MLP(3)` has 3 · 12 + 12 + 12 · 3 + 3 = 87 parameters; `MLP(3, hidden_dim=5)` has 38.

<details><summary>Hint 1: idea</summary>
It is a <code>Sequential</code> with names.
</details>
<details><summary>Hint 2: approach</summary>
Each layer is called like a function, <code>self.fc1(x)</code>, from the inside out. Dropout comes last, on what the block is going to add.
</details>
<details><summary>Hint 3: worked example, another layer</summary>
A gate: <code>self.up = Linear(d, 2 * d)</code>, <code>self.down = Linear(2 * d, d)</code>, and <code>return self.down(sigmoid(self.up(x)))</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "mlp", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class MLP(Layer):
    """Two linear layers with GELU between them, each position alone: x (..., embed_dim) -> the same shape.

    ``hidden_dim`` is four times ``embed_dim`` unless it is given; dropout acts on the output.
    """

    def __init__(self, embed_dim, hidden_dim=None, dropout_prob=0.1, rng=None):
        self.embed_dim = positive("embed_dim", embed_dim)
        self.hidden_dim = 4 * self.embed_dim if hidden_dim is None else positive("hidden_dim", hidden_dim)
        self.dropout_prob = dropout_prob
        raise NotImplementedError("MLP.__init__: section 2, cell 1")

    def forward(self, x):
        """Widen, bend, narrow, drop: (..., D) -> (..., hidden) -> (..., D)."""
        raise NotImplementedError("MLP.forward: section 2, cell 1")

    def __repr__(self):
        return f"MLP({self.embed_dim}, {self.hidden_dim})"

# %%
if __name__ == "__main__":
    mlp = MLP(3)
    print(mlp, [(name, p.shape) for name, p in mlp.named_parameters()], mlp(Tensor(np.ones((2, 5, 3)))).shape)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-mlp", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "block"}
if __name__ == "__main__":
    from tinytorch.core.activations import gelu, relu
    from tinytorch.core.layers import linear, manual_seed
    from tinytorch.core.tensor import listen


    def test_mlp():
        """Sizes, the right bend, dropout at the end, randomness from rng."""
        check("parameters of MLP(3)", sum(p.size for p in MLP(3).parameters()), 87, {24: "the hidden layer is as narrow as the input; want four times as wide", 72: "the biases are missing", 75: "fc1 has no bias", 84: "fc2 has no bias"})
        check("MLP(3, 5): the hidden layer", MLP(3, 5).fc1.weight.shape, (3, 5))
        mlp = MLP(3, 7, rng=np.random.default_rng(0)).eval()
        mlp.fc2.bias.data[:] = 1.0
        x = Tensor(np.random.default_rng(1).standard_normal((4, 2, 3)))
        first, second = (mlp.fc1.weight, mlp.fc1.bias), (mlp.fc2.weight, mlp.fc2.bias)
        check("fc2 of gelu of fc1", mlp(x).data[0, 0], linear(gelu(linear(x, *first)), *second).data[0, 0], {
            tuple(linear(relu(linear(x, *first)), *second).data[0, 0].tolist()): "that is ReLU; want GELU",
            tuple(linear(linear(x, *first), *second).data[0, 0].tolist()): "the nonlinearity is missing",
            tuple(gelu(linear(gelu(linear(x, *first)), *second)).data[0, 0].tolist()): "one GELU too many, at the end"}, rtol=1e-5)
        mlp.dropout.p = 1.0
        check("in training, all dropped", mlp.train()(x).data[0, 0], [0.0] * 3, {(1.0,) * 3: "dropout comes before fc2, want it last"})
        check("dropout_prob is handed on", MLP(3, dropout_prob=0.25).dropout.p, 0.25, {0.1: "that is the usual value, not the one that was given"})
        one, other = (MLP(3, rng=np.random.default_rng(2)) for _ in range(2))
        check("rng draws the weights", all(np.array_equal(a.data, b.data) for a, b in zip(one.parameters(), other.parameters())), True, {False: "fc1 or fc2 is made without rng=rng"})
        check("rng draws what is dropped", one.dropout.rng is not None, True, {False: "Dropout is made without rng"})


    test_mlp()

# %% [markdown]
"""
**What if** there were no bend between the two layers? Then 87 parameters do what 12 can do:
"""

# %%
if __name__ == "__main__":
    x, (a, c) = Tensor(np.random.default_rng(0).standard_normal((5, 3))), (mlp.fc1, mlp.fc2)
    one_layer = linear(x, a.weight @ c.weight, a.bias @ c.weight + c.bias)
    print(f"fc2(fc1(x)) and one linear layer differ by {np.abs(c(a(x)).data - one_layer.data).max():.1e}")

# %% [markdown]
"""
## 3. The block

**Question.** Attention and MLP are two layers. What turns them into something that can be stacked 96 times?

Two habits. **Add, do not replace**: a layer's output is added to what came, so a signal, and a gradient, always has a road around every layer. **Normalize what a layer sees**, not what flows on:

```
 x (B, T, D) ──┬──────────────────────────────(+)──┬────────────────────(+)──▶ (B, T, D)
               └─▶ ln1 ─▶ attention ─▶ dropout ─┘   └─▶ ln2 ─▶ mlp ──────┘
```

The road along the top is the **residual stream**. Every layer reads from it and adds to it, nobody overwrites it. (The picture shows *pre-norm*, as in GPT-2. The first transformer normalized after the addition, on the road itself: *post-norm*. You will measure the difference.)

**Task.** Write `TransformerBlock`. In `__init__` make `ln1` and `ln2` with `LayerNorm(embed_dim)`; `attention` with `MultiHeadAttention(embed_dim, num_heads, dropout_prob=..., rng=rng)`; `dropout` with `Dropout(dropout_prob, rng)`; `mlp` with `MLP(embed_dim, hidden_dim, dropout_prob, rng)`, its hidden layer `mlp_ratio` times as wide as
`embed_dim`. All dropouts have the same probability. `forward(x, mask=None, is_causal=False)` follows the picture; the attention is called as `self.attention(normalized, mask=mask, is_causal=is_causal)`. (The MLP drops by itself.)

Example: `TransformerBlock(64, 4)` has 16,640 parameters in the attention, 33,088 in the MLP and 2 · 128 in the norms: 49,984.

<details><summary>Hint 1: idea</summary>
Two lines, one for each plus sign.
</details>
<details><summary>Hint 2: approach</summary>
<code>x = x + ...</code> for the first half. The second half starts from the new <code>x</code>. The norms are two objects: what they learn differs.
</details>
<details><summary>Hint 3: worked example, another block</summary>
A block with one branch only: <code>return x + self.dropout(self.fc(self.norm(x)))</code>. What is normalized is what <code>fc</code> sees; what is added is added to <code>x</code> itself.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "block", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class TransformerBlock(Layer):
    """Attention, then an MLP, each added to what came: x (..., T, embed_dim) -> the same shape.

    Pre-norm, as in GPT-2: each of the two sees its input normalized, what flows on is not.
    Source: Vaswani and others, 2017; Radford and others, 2019.
    """

    def __init__(self, embed_dim, num_heads, mlp_ratio=4, dropout_prob=0.1, rng=None):
        self.embed_dim, self.num_heads = positive("embed_dim", embed_dim), positive("num_heads", num_heads)
        self.mlp_ratio, self.dropout_prob = positive("mlp_ratio", mlp_ratio), dropout_prob
        raise NotImplementedError("TransformerBlock.__init__: section 3, cell 1")

    def forward(self, x, mask=None, is_causal=False):
        """Add what attention finds, then what the MLP makes of it; masks as in ``MultiHeadAttention``."""
        raise NotImplementedError("TransformerBlock.forward: section 3, cell 1")

    def __repr__(self):
        return f"TransformerBlock({self.embed_dim}, {self.num_heads})"

# %%
if __name__ == "__main__":
    block = TransformerBlock(64, 4)
    print(block, f"{sum(p.size for p in block.parameters()):,} parameters", block(Tensor(np.ones((2, 10, 64)))).shape)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-block", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "block"}
if __name__ == "__main__":
    def test_block():
        """Parameters, the road, the order, masks, dropout."""
        check("parameters of TransformerBlock(64, 4)", sum(p.size for p in TransformerBlock(64, 4).parameters()), 49_984, {
            49_856: "one norm for both branches; want two", 49_728: "the norms are missing", 49_984 - 2 * 64 * 192 - 192: "the MLP is as narrow as its input"})
        rng = np.random.default_rng(0)
        block = TransformerBlock(6, 2, mlp_ratio=3, rng=rng).eval()
        check("mlp_ratio=3: the hidden layer", block.mlp.hidden_dim, 18, {24: "mlp_ratio is not handed on", 3: "that is the ratio, not the width"})
        for norm in (block.ln1, block.ln2):
            norm.weight.data[:], norm.bias.data[:] = rng.standard_normal((2, 6))
        x = Tensor(rng.standard_normal((2, 5, 6)))

        def branches(x, **how):
            attended = x + block.attention(block.ln1(x), **how)
            return attended + block.mlp(block.ln2(attended))

        ln1, ln2, attention, mlp = block.ln1, block.ln2, block.attention, block.mlp
        branch, swapped = attention(ln1(x)), x + attention(ln2(x))
        middle = x + branch
        after = ln1(x + attention(x))
        wrong = {"the road is missing: what a branch makes is added to x": mlp(ln2(attention(ln1(x)))), "the norm stands after the addition: that is post-norm": ln2(after + mlp(after)),
                 "the MLP does not see what attention added": middle + mlp(ln2(x)), "the norms are not used": (x + attention(x)) + mlp(x + attention(x)),
                 "what attention added is lost: the MLP's branch starts from the old x": x + mlp(ln2(middle)), "the norm stands on the road": ln1(x) + attention(ln1(x)) + mlp(ln2(ln1(x) + attention(ln1(x)))),
                 "what attention finds replaces x; add it": branch + mlp(ln2(branch)), "what the MLP makes replaces x; add it": mlp(ln2(middle)), "ln1 and ln2 are exchanged": swapped + mlp(ln1(swapped)),
                 "both branches go through ln1": middle + mlp(ln1(middle)), "the MLP comes first": (x + mlp(ln2(x))) + attention(ln1(x + mlp(ln2(x)))), "is_causal is on without being asked": branches(x, is_causal=True)}
        before = x.data.copy()
        got = block(x).data[0, 0]
        check("x itself is left as it was", bool((x.data == before).all()), True, {False: "+= on x.data writes into the input; want x = x + ..."})
        check("the picture, by hand", got, branches(x).data[0, 0], {tuple(out.data[0, 0].tolist()): mistake for mistake, out in wrong.items()}, rtol=1e-4, atol=1e-6)
        check("is_causal reaches the attention", np.allclose(block(x, is_causal=True).data, branches(x, is_causal=True).data, atol=1e-5), True, {False: "is_causal is not handed on"})
        mask = np.tri(5, dtype=bool)[::-1].copy()
        check("a mask reaches the attention", np.allclose(block(x, mask=mask).data, branches(x, mask=mask).data, atol=1e-5), True, {False: "mask is not handed on"})
        block = TransformerBlock(6, 2, dropout_prob=1.0)
        block.attention.out_proj.bias.data[:] = 1.0
        block.mlp.fc2.bias.data[:] = 2.0
        check("dropout_prob=1, in training: x itself", block(x).data[0, 0], x.data[0, 0], {
            tuple((x.data[0, 0] + 1).tolist()): "what attention adds is not dropped", (0.0,) * 6: "the road itself is dropped; want only what is added to it"})
        block = TransformerBlock(6, 2, dropout_prob=0.25)
        masks = []
        with listen(lambda event: masks.append(event.op.name)):
            block(x)
        check("dropouts that drew: weights of the attention, its output, the MLP's", masks.count("dropout_mask"), 3, {4: "what the MLP adds is dropped twice; it drops by itself", 2: "one of the three has no dropout, or not this probability"})
        check("num_heads is handed on", block.attention.num_heads, 2)
        check("every dropout knows its probability", [block.attention.dropout_prob, block.dropout.p, block.mlp.dropout_prob], [0.25] * 3)
        one, other = (TransformerBlock(6, 2, rng=np.random.default_rng(2)) for _ in range(2))
        check("rng draws the weights", all(np.array_equal(a.data, b.data) for a, b in zip(one.parameters(), other.parameters())), True, {False: "the attention or the MLP is made without rng"})
        check("rng draws what is dropped", None not in (one.dropout.rng, one.attention.dropout.rng, one.mlp.dropout.rng), True, {False: "a Dropout, the attention or the MLP is made without rng"})


    test_block()

# %% [markdown]
"""
**What if** the norms stand elsewhere? Three stacks of 24 blocks from the same seed: yours, one that normalizes after each addition (post-norm), one without norms. Left, the spread of the stream on its way up. Right, a gradient of the same size comes in at the top and flows down: how large is it in the weights of each block?
Guess first: which curves explode?
"""

# %%
if __name__ == "__main__":
    import matplotlib.pyplot as plt


    class PostNormBlock(TransformerBlock):
        """The norm stands on the road, after the addition."""

        def forward(self, x):
            x = self.ln1(x + self.attention(x))
            return self.ln2(x + self.mlp(x))


    class NoNormBlock(TransformerBlock):
        """No norm at all."""

        def forward(self, x):
            x = x + self.attention(x)
            return x + self.mlp(x)


    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, kind in (("pre-norm", TransformerBlock), ("post-norm", PostNormBlock), ("no norm", NoNormBlock)):
        rng = np.random.default_rng(0)
        x = Tensor(rng.standard_normal((4, 8, 32)))
        blocks, top, spreads = [kind(32, 4, dropout_prob=0.0, rng=rng) for _ in range(24)], LayerNorm(32), [x.data.std()]
        for block in blocks:
            x = block(x)
            spreads.append(x.data.std())
        x = top(x) if kind is TransformerBlock else x
        x.backward(Tensor(rng.standard_normal(x.shape)))
        sizes = [np.sqrt(np.mean(np.concatenate([p.grad.data.ravel() for p in block.mlp.parameters()]) ** 2)) for block in blocks]
        curves = left.semilogy(spreads, label=name), right.semilogy(range(1, 25), sizes, label=name)
        print(f"{name:>9}: spread after 24 blocks {spreads[-1]:.3g}, gradient in the first block {sizes[0]:.3g}, in the last {sizes[-1]:.3g}")
    settings = left.set(title="the stream on its way up", xlabel="blocks passed", ylabel="spread"), right.set(title="the gradient that arrives", xlabel="block", ylabel="root mean square, MLP weights"), left.legend()

# %% [markdown]
"""
Without norms both explode: numbers upwards, gradients downwards. With norms, wherever they stand, both stay in range. Post-norm pins the stream to 1. Pre-norm lets it grow slowly, so that each new block is a smaller share of it and gets a smaller gradient: at the top post-norm's is several times as large.
That looks harmless. In section 7 both are trained, at one rate, and only one learns.

**What it means for a real model.** The first transformers needed a *warm-up*, thousands of steps in which the rate grows from nearly 0, or they trained badly or not at all. With the norm off the road a warm-up is still the habit, but no longer a condition, and stacks of a hundred blocks train.

## 4. GPT

**Question.** What is missing between a stack of blocks and a language model?

An entrance, and an exit. In come tokens, whole numbers `(B, T)`. Module 11 turns them into vectors and adds positions. Out go scores, one for each word of the vocabulary, at every position: *what comes next?*

```
tokens (B, T) ─▶ token_embedding ─▶ (B, T, D) ─▶ position_embedding ─▶ dropout ─▶ blocks, causal ─▶ ln_f ─▶ (B, T, D) @ (D, V) ─▶ logits (B, T, V)
```

The blocks are causal: position 3 must not see token 4, which it is asked to guess. So one pass through `T` tokens is `T` exercises at once.

The last matrix `(D, V)` asks "how well does this vector fit word v?". There is a table that knows the vector of each word already: the embedding, `(V, D)`. So GPT uses it twice, the second time transposed: `x @ weight.T`. The head is **tied** to the embedding: one `Tensor`, used in two places, with one gradient, the sum of both uses.

**Task.** Write `GPT`. The sizes are on `self` already. In `__init__` make

- `token_embedding`: `Embedding(vocab_size, embed_dim, rng)`; `position_embedding`: `PositionalEncoding(max_seq_len, embed_dim, rng)`, which adds its rows to x `(..., T, D)`, and refuses more than `max_seq_len` of them;
- `dropout`: `Dropout(dropout_prob, rng)`, for the sum of the two;
- `blocks`: a list of `num_layers` blocks, `TransformerBlock(embed_dim, num_heads, dropout_prob=..., rng=rng)`; `ln_f`: a last `LayerNorm(embed_dim)`;
- `head`: `None` when `tie_weights` is true, else `Linear(embed_dim, vocab_size, bias=False, rng=rng)`.

`forward(tokens)` follows the picture: `(..., T)` → `(..., T, V)`. It may not look at the number of axes, so a single text `(T,)` gives `(T, V)`. Given: the method `generate`, which hands over to a function of section 6.

Example: `GPT(11, 8, 2, 2, max_seq_len=6)` has 11 · 8 + 6 · 8 + 2 · 872 + 16 = 1,896 parameters.

<details><summary>Hint 1: idea</summary>
The road from left to right is a sentence of calls; the blocks are a loop in the middle.
</details>
<details><summary>Hint 2: approach</summary>
Blocks in a list comprehension, a new one each time: <code>[block] * n</code> would be one block, n times. In the loop <code>x = block(x, is_causal=True)</code>. At the end look whether <code>self.head</code> is <code>None</code>.
</details>
<details><summary>Hint 3: worked example, a smaller model</summary>
A bag of words with a tied head: <code>x = self.table(tokens)</code>, <code>x = self.norm(x)</code>, <code>return x @ self.table.weight.T</code>, where <code>self.table = Embedding(vocab_size, d)</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "gpt", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
class GPT(Layer):
    """A language model: tokens (..., T) -> logits (..., T, vocab_size), scores for the token that comes next.

    Causal: logits at a position depend on no later token. The head is the token embedding, transposed, unless
    ``tie_weights`` is false; then it is the ``Linear`` layer ``head``.
    Source: Radford and others, 2019 (GPT-2).
    """

    def __init__(self, vocab_size, embed_dim, num_layers, num_heads, max_seq_len=1024, dropout_prob=0.1,
                 tie_weights=True, rng=None):
        self.vocab_size, self.embed_dim = positive("vocab_size", vocab_size), positive("embed_dim", embed_dim)
        self.num_layers, self.num_heads = positive("num_layers", num_layers), positive("num_heads", num_heads)
        self.max_seq_len = positive("max_seq_len", max_seq_len)
        self.dropout_prob, self.tie_weights = dropout_prob, bool(tie_weights)
        raise NotImplementedError("GPT.__init__: section 4, cell 1")

    def forward(self, tokens):
        """Score the next token at every position; more than ``max_seq_len`` positions are a ``ValueError``."""
        raise NotImplementedError("GPT.forward: section 4, cell 1")

    def generate(self, prompt_tokens, max_new_tokens, temperature=1.0, rng=None):
        """Continue a prompt token by token; see the function ``generate``."""
        return generate(self, prompt_tokens, max_new_tokens, temperature, rng)

    def __repr__(self):
        return f"GPT({self.vocab_size}, {self.embed_dim}, {self.num_layers}, {self.num_heads})"

# %%
if __name__ == "__main__":
    model = GPT(11, 8, 2, 2, max_seq_len=6)
    print(model, f"{sum(p.size for p in model.parameters()):,} parameters;", model(Tensor(np.array([[1, 2, 3], [4, 5, 6]]))).shape)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-gpt", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "gpt"}
if __name__ == "__main__":
    def test_gpt():
        """Parameters, the road, causality, the tied head, refusals."""
        def numbers(model):
            return sum(p.size for p in model.parameters())

        check("parameters, tied", numbers(GPT(11, 8, 2, 2, max_seq_len=6)), 1_896, {
            1_984: "the head has a table of its own", 1_024: "one block, listed twice", 1_880: "the last norm is missing", 1_848: "the positions are missing", 10_040: "max_seq_len is not handed on"})
        check("num_layers, num_heads: three blocks of two heads", [block.num_heads for block in GPT(11, 12, 3, 2, 6).blocks], [2, 2, 2], {(3, 3): "the two numbers are exchanged", (2, 2): "there are as many blocks as heads; want num_layers"})
        untied = GPT(11, 8, 2, 2, max_seq_len=6, tie_weights=False)
        check("parameters, not tied", numbers(untied), 1_984, {1_995: "the head has a bias", 1_896: "the head is tied all the same"})
        model = GPT(11, 8, 2, 2, max_seq_len=6, rng=np.random.default_rng(0)).eval()
        rng = np.random.default_rng(1)
        for p in model.parameters():  # weights of training's size, norms that differ
            p.data[...] = rng.normal(0, 0.5, p.shape)
        tokens = Tensor(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]))

        def road(positions=True, norm=True, depth=2, causal=True, often=False):
            x = model.token_embedding(tokens)
            x = model.position_embedding(x) if positions else x
            for block in model.blocks[:depth]:
                x = block(x, is_causal=causal)
                x = model.ln_f(x) if often else x
            return (model.ln_f(x) if norm and not often else x) @ model.token_embedding.weight.T

        wrong = {"positions are not added": road(positions=False), "the last norm is left out": road(norm=False), "only the first block is used": road(depth=1), "the blocks are not causal": road(causal=False),
                 "the last norm stands inside the loop": road(often=True), "shares come out; want the scores, the softmax comes later": softmax(road())}
        logits = model(tokens)
        check("logits (B, T, V)", logits.shape, (2, 5, 11), {(2, 5, 8): "the head is missing"})
        check("the road, by hand", logits.data[0, 0], road().data[0, 0], {tuple(out.data[0, 0].tolist()): mistake for mistake, out in wrong.items()}, rtol=1e-4, atol=1e-5)
        other = tokens.data.copy()
        other[:, 3] = 7
        check("another token at position 3 changes positions", np.abs(model(Tensor(other)).data - logits.data).max((0, 2)) > 1e-6, np.array([False, False, False, True, True]))
        check("a single text (T,)", np.allclose(model(tokens[0]).data, logits.data[0], atol=1e-5), True)
        untied.head.weight.data[:] = 0
        check("without tying, the head is asked", float(np.abs(untied(tokens).data).max()), 0.0)
        check("in training, all dropped: no logits", float(np.abs(GPT(11, 8, 2, 2, 6, dropout_prob=1.0)(tokens).data).max()), 0.0)
        check("every block knows its heads and its dropout", [(block.num_heads, block.dropout_prob) for block in GPT(11, 8, 2, 2, 6, dropout_prob=0.25).blocks], [(2, 0.25)] * 2)
        logits.sum().backward()
        check("the tied head trains every row of the table, those of words that were not read too", (np.abs(model.token_embedding.weight.grad.data) > 0).any(axis=1), np.ones(11, bool))
        one, other = (GPT(11, 8, 2, 2, 6, tie_weights=False, rng=np.random.default_rng(2)) for _ in range(2))
        check("rng draws the weights", all(np.array_equal(a.data, b.data) for a, b in zip(one.parameters(), other.parameters())), True, {False: "a table, a block or the head is made without rng"})
        check("rng draws what is dropped", one.dropout.rng is not None, True, {False: "Dropout is made without rng"})
        for size in ("7", "6"):
            check_raises(f"7 tokens, where 6 are the most: it says {size}", ValueError, lambda: model(Tensor(np.zeros((1, 7), int))), must_say=size)


    test_gpt()

# %% [markdown]
"""
**What if** nothing was learned yet? The logits of a new model are nearly 0, so all words are nearly equally likely, and the cross entropy is nearly log V. That is the number to look for at step 0 of every training, and a quick test that the head and the loss fit together:
"""

# %%
if __name__ == "__main__":
    from math import log

    from tinytorch.core.losses import CrossEntropyLoss

    model, tokens = GPT(50, 32, 2, 4, 16, rng=np.random.default_rng(0)), np.random.default_rng(1).integers(0, 50, (8, 17))
    print(f"loss of a new model {CrossEntropyLoss()(model(Tensor(tokens[:, :-1])), Tensor(tokens[:, 1:])).item():.4f}, log 50 is {log(50):.4f}")

# %% [markdown]
"""
## 5. Where the parameters are

**Question.** GPT-2 small: 50,257 words, 768 features, 12 blocks, 12 heads, 1,024 positions. How many parameters, and where are most of them?

Count them by hand, once. A `Linear(a, b)` has `a·b + b`. A block of width `D` has four projections, an MLP with a hidden layer of `4D`, and two norms of two vectors each.

**Task.** Write `gpt_parameters(vocab_size, embed_dim, num_layers, max_seq_len)`: the number of parameters of a `GPT` with a tied head, from these four numbers alone (no model is built). Heads do not matter: why not?

Example: `gpt_parameters(11, 8, 2, 6)` is 88 + 48 + 2 · 872 + 16 = 1,896.

<details><summary>Hint 1: idea</summary>
Two tables, <code>L</code> equal blocks, one last norm.
</details>
<details><summary>Hint 2: approach</summary>
In a block, collect what has <code>D²</code> (attention: 4 matrices; MLP: 4 + 4 more) and what has <code>D</code> (biases: 4 in the attention, 4 + 1 in the MLP; norms: 2 · 2).
</details>
<details><summary>Hint 3: worked example, another block</summary>
A block with one projection, one norm and an MLP of width <code>2D</code>: D² + D for the projection, 2D for the norm, 4D² + 3D for the MLP: 5 D² + 6 D. For D = 8: 368.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "gpt-parameters", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    def gpt_parameters(vocab_size, embed_dim, num_layers, max_seq_len):
        """Count the parameters of a GPT with a tied head."""
        raise NotImplementedError("gpt_parameters: section 5, cell 1")

# %%
if __name__ == "__main__":
    print(f"GPT-2 small: {gpt_parameters(50257, 768, 12, 1024):,}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-gpt-parameters", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "counting"}
if __name__ == "__main__":
    def test_gpt_parameters():
        """The small example, and three that are known."""
        check("gpt_parameters(11, 8, 2, 6)", gpt_parameters(11, 8, 2, 6), 1_896, {
            1_984: "the head is tied: its table is the embedding", 1_880: "the last norm is left out", 1_848: "the positions are left out", 1_832: "the norms of the blocks are left out",
            1_752: "the MLP's biases count 4D + D, the attention's 4D: some are left out", 1_688: "biases and norms of the blocks are left out", 1_024: "there are two blocks"})
        check("GPT-2 small", gpt_parameters(50257, 768, 12, 1024), 124_439_808)
        check("GPT-2 medium", gpt_parameters(50257, 1024, 24, 1024), 354_823_168)
        check("GPT-3", gpt_parameters(50257, 12288, 96, 2048), 174_604_259_328)


    test_gpt_parameters()

# %% [markdown]
"""
**Bet.** What share of GPT-2 small are its two tables? And of GPT-3? And is there more in attention or in the MLPs?
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.tensor import hollow, shape_only

    my_bet = (None, None)
    sizes = {"GPT-2 small": (50257, 768, 12, 12, 1024), "medium": (50257, 1024, 24, 16, 1024), "large": (50257, 1280, 36, 20, 1024), "XL": (50257, 1600, 48, 25, 1024), "GPT-3": (50257, 12288, 96, 96, 2048)}
    shares = {"tables": [], "attention": [], "MLPs": [], "norms": []}
    for name, size in sizes.items():
        with shape_only():
            names = [(name, p.size) for name, p in GPT(*size).named_parameters()]
        total = sum(n for _, n in names)
        for part, word in zip(shares, ("embedding", "attention", "mlp", "ln")):
            shares[part].append(sum(n for name, n in names if word in name) / total)
        print(f"{name:>11}: {total:>15,} parameters:", ", ".join(f"{part} {values[-1]:.2%}" for part, values in shares.items()))
    print(f"your bet on the tables: {my_bet}")
    figure, axes = plt.subplots(figsize=(10, 2.8), layout="constrained")
    edge = np.zeros(len(sizes))
    for part, values in shares.items():
        bars, edge = axes.barh(list(sizes), values, left=edge, label=part), edge + values
    settings = axes.invert_yaxis(), axes.set(xlabel="share of the parameters", xlim=(0, 1)), axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.2))

# %% [markdown]
"""
A table grows with `D`, a block with `D²`. So the small model is one third vocabulary, and the large one is nothing but blocks, two thirds of them MLP: the part that nobody talks about.

What does tying save? And how long does it take to build GPT-3, here, on this machine?
"""

# %%
if __name__ == "__main__":
    from time import perf_counter

    with shape_only():
        tied, untied = (sum(p.size for p in GPT(50257, 768, 12, 12, tie_weights=tie).parameters()) for tie in (True, False))
    print(f"GPT-2 small: {untied:,} with a head of its own, {tied:,} tied: {1 - tied / untied:.1%} smaller")
    start = perf_counter()
    with shape_only():
        model = GPT(50257, 12288, 96, 96, max_seq_len=2048)
        built, logits = perf_counter(), model(Tensor(hollow((1, 2048), np.int64)))
    print(f"GPT-3: {sum(p.size for p in model.parameters()):,} parameters built in {built - start:.3f} s; logits {logits.shape} after {perf_counter() - built:.3f} s; "
          f"its weights would be {4 * sum(p.size for p in model.parameters()) / 1e9:.0f} GB")

# %% [markdown]
"""
Tying makes GPT-2 small a quarter smaller. And GPT-3 was built in a blink, because under `shape_only()` your layers make hollow weights and your ops compute shapes: nothing is stored, nothing is multiplied, and every size is known. That is how Module 14 will count its FLOPs.

## 6. From scores to words

**Question.** The model gives a score for each word. Which one is written?

Always the best? Then it says the same every time, and soon the same again and again. So draw one, by shares. A **temperature** says how seriously the scores are taken: all are divided by it before the softmax.

```
share of token v = exp(logit[v] / temperature) / Σ exp(logit / temperature)
```

At 1 the shares are the model's own. Above 1 they come closer to each other, below 1 the best gains, and towards 0 it takes all.

**Task.** Write `token_shares(logits, temperature)`: logits `(..., V)`, a Tensor, and a temperature above 0 → the shares, a NumPy array of float64, `(..., V)`. You may use `tensor.astype(np.float64)`, `softmax(tensor)` over the last axis from Module 02, which is stable, and `tensor.numpy()`, the array in a tensor. Change to float64 first: shares of 50,257 words, added up in
float32, miss 1 by more than we like.

Example: logits log 1 and log 3. At temperature 1 the shares are 1/4 and 3/4. At 0.5 the powers are 1² and 3²: 0.1 and 0.9.

<details><summary>Hint 1: idea</summary>
One division, then what you have.
</details>
<details><summary>Hint 2: approach</summary>
Cast, divide, <code>softmax</code>, <code>.numpy()</code>: each takes what the one before gave.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Logits log 1, log 8, log 27 at temperature 3: cube roots 1, 2, 3, shares 1/6, 2/6, 3/6.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "token-shares", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def token_shares(logits, temperature):
    """Return the shares of all tokens at a ``temperature`` above 0: logits (..., V) -> a float64 array (..., V)."""
    raise NotImplementedError("token_shares: section 6, cell 1")

# %%
if __name__ == "__main__":
    for temperature in (0.1, 0.5, 1.0, 2.0, 10.0):
        shares = token_shares(Tensor(np.log([1.0, 2.0, 4.0, 8.0])), temperature)
        print(f"temperature {temperature:4}: shares", "  ".join(f"{share:.3f}" for share in shares), "  best: " + "█" * round(40 * shares[-1]))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-token-shares", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "sampling"}
if __name__ == "__main__":
    def test_token_shares():
        """Three temperatures, the axis, the type, far-apart scores."""
        logits = Tensor(np.log([1.0, 4.0, 16.0]))
        check("temperature 1", np.asarray(token_shares(logits, 1.0)), np.array([1, 4, 16]) / 21)
        check("temperature 2: square roots", np.asarray(token_shares(logits, 2.0)), np.array([1, 2, 4]) / 7, {
            tuple(np.array([1, 16, 256]) / 273): "multiplied by the temperature", tuple(np.array([1, 4, 16]) / 21): "the temperature is ignored",
            tuple(np.exp(np.array([1, 4, 16]) / 42) / np.exp(np.array([1, 4, 16]) / 42).sum()): "the softmax is divided; want the scores divided before it"}, rtol=1e-5)
        check("temperature 0.5: squares", np.asarray(token_shares(logits, 0.5)), np.array([1, 16, 256]) / 273, rtol=1e-5)
        table = token_shares(Tensor(np.log([[[1.0, 1.0, 2.0], [5.0, 3.0, 2.0]]])), 1.0)
        check("each row for itself", np.asarray(table), np.array([[[0.25, 0.25, 0.5], [0.5, 0.3, 0.2]]]), rtol=1e-5)
        shares = token_shares(Tensor(np.random.default_rng(0).standard_normal(50_257)), 1.0)
        check("a float64 array", (type(shares).__name__, shares.dtype.name), ("ndarray", "float64"), {
            ("ndarray", "float32"): "rounded to float32: make float64 of the scores first", ("Tensor", "float64"): "a Tensor came: use numpy()"})
        check("50,257 shares add up to 1", abs(float(shares.sum()) - 1) < 1e-12, True, {False: "rounded to float32 on the way"})
        check("scores of 9,000 and 0", np.asarray(token_shares(Tensor([9000.0, 0.0]), 0.5)), [1.0, 0.0])


    test_token_shares()

# %% [markdown]
"""
Now the draw. Lay the shares end to end on a ruler from 0 to 1, and throw a dart:

```
shares         0.25     0.25         0.5
           |--------|--------|----------------|
           0       0.25     0.5               1        u = 0.37 hits the token in the middle
```

The right ends of the pieces are the running totals, `shares.cumsum(axis=-1)`. The token that is hit is the first whose end lies *above* `u`; so its number is how many ends lie at or below `u`. A token with share 0 has no length and is never hit.

Given: `checked_temperature`, which refuses what is no temperature, and `checked_logits`, which refuses scores to which no shares belong (NaN, +inf, or nothing but −inf), because comparisons with NaN would choose a token without complaint.
"""

# %%
#| export
def checked_temperature(temperature):
    """Return the temperature as a float; ``ValueError`` unless finite and 0 or more. Below 1e-30 it counts as 0."""
    temperature = nonnegative("temperature", temperature)
    return temperature if temperature >= 1e-30 else 0.0


def checked_logits(logits):
    """Return logits (..., V) as a Tensor; ``ValueError`` where a row's largest is no finite number."""
    logits = logits if isinstance(logits, Tensor) else Tensor(logits)
    if not logits.shape or not logits.shape[-1]:
        raise ValueError(f"logits {logits.shape}: want (..., V), a score for each token")
    top = logits.numpy().max(axis=-1)
    if not np.isfinite(top).all():
        raise ValueError(f"the largest logit is {top[~np.isfinite(top)][0]}; want a finite one: look at the training")
    return logits

# %% [markdown]
"""
**Task.** Write two functions.

`draw(shares, rng)`: shares `(..., V)`, an array; one number `u` for each row from `rng.random(shares.shape[:-1])`; returns an integer array `(...)`, the tokens that were hit. Rounding may leave the last total a hair beside 1: multiply `u` by it, and there is always a hit.

`sample(logits, temperature=1.0, rng=None)`: logits `(..., V)` → an integer array `(...)`. At temperature 0 take the token with the largest score (the first of several), `logits.argmax(axis=-1)`, a Tensor of int64, and draw nothing. Otherwise draw from `token_shares`. `rng=None` means the default generator: `generator(rng)`, of Module 03, is the one to draw from.

Example: shares `[0.25, 0.25, 0.5]`: `u = 0` gives 0, `u = 0.25` gives 1, `u = 0.99` gives 2.

<details><summary>Hint 1: idea</summary>
"How many ends are at or below u" is a comparison of a row with a number, and a sum of True and False.
</details>
<details><summary>Hint 2: approach</summary>
The ends are <code>(..., V)</code>, <code>u</code> is <code>(...)</code>: give it a last axis of 1 with <code>u[..., None]</code>. The last total of each row, with its axis kept, is <code>ends[..., -1:]</code>. For one row, <code>u</code> is a float and not an array: <code>np.asarray(u)</code> helps.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Shares 0.1, 0.6, 0.3: ends 0.1, 0.7, 1.0. For <code>u = 0.7</code> two ends (0.1 and 0.7) are at or below it: token 2.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "sample", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def draw(shares, rng):
    """Draw a token from each row of shares: an array (..., V) -> int64 (...), one ``rng.random`` number a row."""
    raise NotImplementedError("draw: section 6, cell 5")


def sample(logits, temperature=1.0, rng=None):
    """Choose a token by each row of scores: logits (..., V) -> int64 array (...).

    Drawn from softmax(logits / temperature); at temperature 0 the largest, the first of several, without drawing.
    """
    logits, temperature = checked_logits(logits), checked_temperature(temperature)
    raise NotImplementedError("sample: section 6, cell 5")

# %%
if __name__ == "__main__":
    logits, rng = Tensor(np.log([[1.0, 2.0, 4.0, 8.0]] * 4000)), np.random.default_rng(0)
    for temperature in (0, 0.5, 1, 2):
        counts = np.bincount(sample(logits, temperature, rng), minlength=4)
        print(f"temperature {temperature:3}: of 4,000 draws", counts, "expected", [0, 0, 0, 4000] if temperature == 0 else (4000 * token_shares(logits[0], temperature)).round().astype(int))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-sample", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "sampling"}
if __name__ == "__main__":
    class Darts:
        """A generator whose numbers are known beforehand."""

        def __init__(self, *numbers):
            self.numbers, self.thrown = numbers, 0

        def random(self, size=None):
            """Return the numbers, in the shape that is wanted."""
            self.thrown += 1
            return np.array(self.numbers).reshape(size) if size else self.numbers[0]


    def test_sample():
        """Darts at known places, frequencies, temperature 0."""
        ruler = np.array([0.25, 0.25, 0.5])
        check("darts at 0, 0.24, 0.25, 0.49, 0.5, 0.99", np.asarray(draw(np.stack([ruler] * 6), Darts(0.0, 0.24, 0.25, 0.49, 0.5, 0.99))), np.array([0, 0, 1, 1, 2, 2]), {
            (0, 0, 0, 1, 1, 2): "the end itself belongs to the next token", (1, 1, 2, 2, 3, 3): "one too far: count the ends at or below u", (2, 2, 2, 2, 2, 2): "the largest share is always taken"})
        check("share 0 is never hit", np.asarray(draw(np.array([[0.0, 0.5, 0.0, 0.5, 0.0]] * 3), Darts(0.0, 0.5, 0.999999))), np.array([1, 3, 3]))
        check("rows of their own", np.asarray(draw(np.array([[0.75, 0.25], [0.25, 0.75]]), Darts(0.5, 0.5))), np.array([0, 1]), {(0, 0): "every row was given the first row's ruler"})
        kept = np.stack([ruler] * 2)
        draw(kept, Darts(0.1, 0.6))
        check("the shares are left as they were", kept, np.stack([ruler] * 2))
        check("one row: no axes are left", np.shape(draw(ruler, Darts(0.3))), ())
        check("leading axes", np.asarray(draw(np.stack([ruler] * 4).reshape(2, 2, 3), Darts(0.1, 0.3, 0.6, 0.1))).tolist(), [[0, 1], [2, 0]])
        check("totals that miss 1", np.asarray(draw(np.array([[0.2, 0.2, 0.5]]), Darts(0.999))), np.array([2]), {(3,): "past the end: multiply u by the last total"})
        logits, dart = Tensor([[0.0, 3.0, 1.0], [2.0, 2.0, 1.0]]), Darts(0.9, 0.9)
        check("temperature 0: the best, the first of two", np.asarray(sample(logits, 0, dart)), np.array([1, 0]))
        check("an array, not a Tensor", isinstance(sample(logits, 0), Tensor), False)
        check("and nothing is drawn", dart.thrown, 0)
        check("temperature 1 by darts", np.asarray(sample(Tensor(np.log([[1.0, 3.0]] * 2)), 1.0, Darts(0.2, 0.3))), np.array([0, 1]))
        check("a high temperature evens out", np.asarray(sample(Tensor(np.log([[1.0, 16.0]] * 2)), 4.0, Darts(0.3, 0.4))), np.array([0, 1]), {(1, 1): "the temperature does not reach the shares"})
        one, other = (sample(Tensor(np.zeros((50, 9))), 1.0, np.random.default_rng(3)).tolist() for _ in range(2))
        check("the same seed, the same tokens", one == other, True)
        repeated = []
        for _ in range(2):
            manual_seed(4)
            repeated.append(sample(Tensor(np.zeros((50, 9)))).tolist())
        check("without rng, the default generator", repeated[0] == repeated[1], True)
        check("which goes on from draw to draw", sample(Tensor(np.zeros((50, 9)))).tolist() != repeated[1], True, {False: "a new generator each time gives the same tokens each time"})
        check_raises("a temperature below 0", ValueError, lambda: sample(logits, -1.0))


    test_sample()

# %% [markdown]
"""
The rest is a loop: read, choose, append, read again. Each new token becomes part of what the model reads next (*autoregressive*). Four things must be right:

- only the scores at the **last** position matter: `logits[..., -1, :]`;
- the model reads at most `model.max_seq_len` tokens: when there are more, it reads the last ones;
- dropout is off and no graph is kept: `in_mode(model, False)` of Module 07 puts a model into evaluation mode inside a `with` block and then *back as it was*, also after an error; `no_grad()` is from Module 05;
- every row of a batch goes its own way.

**Task.** Write `extend(model, ids, count, temperature, rng)`: ids, an integer array `(..., T)` → `(..., T + count)`. The model is called with a Tensor, `model(Tensor(window))`; new tokens come from `sample`; `np.concatenate([ids, new[..., None]], axis=-1)` appends them. `ids` itself stays as it was.

Example: a model of 5 words that always guesses "the next number" makes, at temperature 0, of `[[3]]` with `count=4` the array `[[3, 4, 0, 1, 2]]`.

<details><summary>Hint 1: idea</summary>
One <code>with</code>, one <code>for</code>, three lines inside.
</details>
<details><summary>Hint 2: approach</summary>
<code>with in_mode(model, False), no_grad():</code> around the loop. The window is <code>ids[..., -model.max_seq_len:]</code>, which is all of it as long as it is short.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>max_seq_len = 3</code>, ids <code>[7, 8, 9, 4]</code>: the model reads <code>[8, 9, 4]</code>, and the row that counts is the one behind the 4. If it chooses 6, the next window is <code>[9, 4, 6]</code>.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "extend", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def extend(model, ids, count, temperature=1.0, rng=None):
    """Append ``count`` tokens, each sampled after the model has read those before: ids (..., T) -> (..., T + count).

    Evaluation mode, no graph; at most the last ``model.max_seq_len`` tokens are read.
    """
    raise NotImplementedError("extend: section 6, cell 8")

# %%
if __name__ == "__main__":
    class NextNumber(Layer):
        """A model of five words that guesses the next number and keeps what it read, in which mode."""

        max_seq_len = 3

        def __init__(self):
            self.read, self.modes = [], []

        def forward(self, tokens):
            """Score (token + 1) mod 5 highest: (..., T) -> (..., T, 5)."""
            self.read.append(tokens.data.tolist())
            self.modes.append(self.training)
            return Tensor(np.eye(5)[(tokens.data + 1) % 5] * 50)


    model = NextNumber()
    print(extend(model, np.array([[3]]), 4, 0), "it read", model.read)

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-extend", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "generation"}
if __name__ == "__main__":
    from tinytorch.core.tensor import thread_state


    def test_extend():
        """The last position, the window, the modes, batches, errors."""
        model, ids = NextNumber(), np.array([[3, 1], [0, 4]])
        check("two rows at temperature 0", extend(model, ids, 3, 0), np.array([[3, 1, 2, 3, 4], [0, 4, 0, 1, 2]]), {
            ((3, 1, 4, 4, 2), (0, 4, 1, 1, 0)): "the first position's scores were used; want the last", ((2, 3, 4), (0, 1, 2)): "the prompt is missing in what is returned"})
        check("ids stay as they were", ids, np.array([[3, 1], [0, 4]]))
        check("what it read last", model.read[-1], [[1, 2, 3], [4, 0, 1]], {
            ((3, 1, 2, 3), (0, 4, 0, 1)): "more than max_seq_len tokens", ((3, 1, 2), (0, 4, 0)): "the first tokens, not the last ones", ((3,), (1,)): "only the newest token: the model must read what came before"})
        longer = NextNumber()
        longer.max_seq_len = 5
        extend(longer, ids, 5, 0)
        check("a model that reads five", longer.read[-1][0], [1, 2, 3, 4, 0], {(3, 4, 0): "the window is always 3; want model.max_seq_len"})
        check("while it writes, is it in training?", model.modes, [False] * 3, {(True,) * 3: "it reads in training mode: in_mode(model, False)"})
        check("and afterwards, as before?", model.training, True)
        model.eval()
        extend(model, ids, 1, 0)
        check("a model in evaluation mode stays there", not model.training, True, {False: "it was put into training, where it was not before"})
        check("a single text", extend(NextNumber(), np.array([2]), 2, 0), np.array([2, 3, 4]))
        check("count 0", extend(NextNumber(), np.array([[2, 0]]), 0), np.array([[2, 0]]))

        class Flat(NextNumber):
            def forward(self, tokens):
                self.modes.append(thread_state().grad_enabled)
                return Tensor(np.zeros((*tokens.shape, 5)))

        class Broken(NextNumber):
            def forward(self, tokens):
                raise RuntimeError("half way")

        model = Flat()
        texts = [extend(model, np.array([1]), 30, 1.0, np.random.default_rng(seed)).tolist() for seed in (0, 0, 1)]
        check("the same seed, the same text; another, another", (texts[0] == texts[1], texts[0] == texts[2]), (True, False), {(True, True): "temperature or rng do not reach sample", (False, False): "rng does not reach sample"})
        check("no graph is kept", not any(model.modes), True, {False: "no_grad() is missing"})
        cold = [extend(model, np.array([1]), 5, 0.0, np.random.default_rng(seed)).tolist() for seed in (0, 1)]
        check("the temperature reaches sample: at 0, the first of equals", cold, [[1, 0, 0, 0, 0, 0]] * 2)
        model = Broken()
        check_raises("a model that fails", RuntimeError, lambda: extend(model, ids, 1, 0))
        check("is left in the mode it had", model.training, True, {False: "the mode is not put back after an error"})


    test_extend()

# %% [markdown]
"""
Given: the doorman. `generate` looks at the prompt before anything is computed, lets your loop write, and gives back the kind of thing that came: a list for a list, an array for an array, a Tensor for a Tensor.
"""

# %%
#| export
def prompt_ids(prompt_tokens, vocab_size):
    """Return a prompt, (T,) or (B, T), as an int64 array; ``ValueError`` when it is empty or holds strangers."""
    ids = token_ids(prompt_tokens, vocab_size).numpy()
    if ids.ndim not in (1, 2):
        raise ValueError(f"the prompt is {ids.shape}; want (T,), or (B, T) for a batch")
    if not ids.shape[-1]:
        raise ValueError(f"the prompt {ids.shape} holds no token; give at least one to start from")
    return ids.astype(np.int64)


def generate(model, prompt_tokens, max_new_tokens, temperature=1.0, rng=None):
    """Return the prompt, (T,) or (B, T), followed by ``max_new_tokens`` new tokens in each row.

    A list gives a list, an array an int64 array, a Tensor an int64 Tensor. ``temperature`` 0 takes the most likely
    token each time; otherwise ``rng`` (None: the default generator) draws. Runs in evaluation mode, without a graph,
    on the last ``model.max_seq_len`` tokens.
    """
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, (int, np.integer)):
        raise TypeError(f"max_new_tokens is {max_new_tokens!r}; want a whole number, 0 or more")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; want a whole number, 0 or more")
    temperature = checked_temperature(temperature)
    ids = extend(model, prompt_ids(prompt_tokens, model.vocab_size), int(max_new_tokens), temperature, rng)
    if isinstance(prompt_tokens, Tensor):
        return Tensor(ids)
    return ids if isinstance(prompt_tokens, np.ndarray) else ids.tolist()

# %%
if __name__ == "__main__":
    model = GPT(11, 8, 2, 2, max_seq_len=6, rng=np.random.default_rng(0))
    print("a new model babbles:", model.generate([1, 2, 3], 12, rng=np.random.default_rng(0)))
    print("and at temperature 0:", model.generate([1, 2, 3], 12, temperature=0))

# %% [markdown]
"""
**What it means for a real model.** To write 100 tokens after a prompt of 1,000, this loop reads 1,000 + 1,001 + … tokens, over a hundred thousand, and looks at one row of scores each time. Module 17 keeps what was computed and reads each token once.

## 7. It learns

**Question.** What are the targets of a language model?

The text itself, one place on. At each position the model reads what came so far and guesses the next token, and the next token is there, in the text. Nobody has to label anything.

**Task.** Write `next_token_pairs(tokens)`: `(..., T + 1)`, an array or a Tensor → `(inputs, targets)`, both `(..., T)`: what is read, and what is to be guessed at each place. Both kinds are sliced alike, `tokens[..., a:b]`.

Example: `[[1, 2, 3, 4]]` gives `[[1, 2, 3]]` and `[[2, 3, 4]]`.

<details><summary>Hint 1: idea</summary>
The last token is read by nobody, the first is guessed by nobody.
</details>
<details><summary>Hint 2: approach</summary>
Two slices of the last axis.
</details>
<details><summary>Hint 3: worked example, another task</summary>
Guess the token before: <code>tokens[..., 1:]</code> is read, <code>tokens[..., :-1]</code> is guessed.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "next-token-pairs", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def next_token_pairs(tokens):
    """Return what is read and what is to be guessed there: tokens (..., T + 1) -> inputs (..., T), targets (..., T)."""
    if not tokens.ndim or tokens.shape[-1] < 2:
        raise ValueError(f"tokens {tokens.shape}: want (..., T + 1), at least two tokens, one to read, one to guess")
    raise NotImplementedError("next_token_pairs: section 7, cell 1")

# %%
if __name__ == "__main__":
    print(*next_token_pairs(np.array([[1, 2, 3, 4]])))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-next-token-pairs", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "training"}
if __name__ == "__main__":
    def test_next_token_pairs():
        """The shift, and its direction."""
        inputs, targets = next_token_pairs(np.array([[5, 1, 4, 2], [9, 8, 7, 6]]))
        check("inputs", np.asarray(inputs), np.array([[5, 1, 4], [9, 8, 7]]), {((1, 4, 2), (8, 7, 6)): "the wrong way round: the model would guess what it has read", ((5, 1, 4, 2), (9, 8, 7, 6)): "the last token has no next one",
            ((5, 1), (9, 8)): "one place on, not two", ((5, 1, 4, 2),): "that is the first axis; want the last"})
        check("targets", np.asarray(targets), [[1, 4, 2], [8, 7, 6]], {((5, 1, 4), (9, 8, 7)): "that is what was just read; want what comes next"})
        inputs, targets = next_token_pairs(Tensor(np.arange(4)))
        check("a Tensor of one axis", (inputs.data.tolist(), targets.data.tolist()), ([0, 1, 2], [1, 2, 3]))


    test_next_token_pairs()

# %% [markdown]
"""
Now an exercise for a model: five digits, a sign `=`, and the same digits backwards, `3 1 4 1 5 = 5 1 4 1 3`. The digits are random and cannot be guessed, so the loss looks only at the five answers. There are 100,000 such texts; the model sees 7,680 of them and is examined on a thousand others.

A GPT of **one block with one head** and 32 features. Training takes a second or two, more on a slow machine. Bet: how many of the thousand will be right?
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.optimizers import Adam
    from tinytorch.core.training import CosineSchedule, Trainer

    SIGN = 10  # the token of "="


    def reversals(count, rng, length=5):
        """Return (count, 2 length + 1) tokens: random digits, the sign, the digits backwards."""
        digits = rng.integers(0, 10, (count, length))
        return np.concatenate([digits, np.full((count, 1), SIGN), digits[:, ::-1]], axis=1)


    def answers_only(logits, targets):
        """Cross entropy over the second half, the answers: logits (B, 2n, V), targets (B, 2n)."""
        half = targets.shape[-1] // 2
        return CrossEntropyLoss()(logits[:, half:], targets[:, half:])


    def train(model, texts, rate, batch=64):
        """Train once through the texts, (count, T + 1), and return the loss of every batch."""
        losses, batches = [], [next_token_pairs(texts[i:i + batch]) for i in range(0, len(texts), batch)]
        trainer = Trainer(model, Adam(model.parameters(), rate), answers_only, CosineSchedule(rate, rate / 20, len(batches)), grad_clip_norm=1.0)
        trainer.fit(batches, 1, on_batch=lambda progress: losses.append(progress.loss))
        return losses


    def unseen(count, texts, rng):
        """Return so many reversals that are not among the texts."""
        known = set(map(tuple, texts.tolist()))
        return np.array([text for text in reversals(4 * count, rng, texts.shape[1] // 2).tolist() if tuple(text) not in known][:count])


    my_bet, rng = None, np.random.default_rng(0)
    texts = reversals(7680, rng)
    reverser = GPT(11, 32, 1, 1, max_seq_len=10, dropout_prob=0.0, rng=rng)
    start = perf_counter()
    losses = train(reverser, texts, rate=0.01)
    exam = unseen(1000, texts, rng)
    written = reverser.generate(exam[:, :6], 5, temperature=0)
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.4f} in {len(losses)} steps, {perf_counter() - start:.1f} s; right, all five digits: {(written == exam).all(axis=1).sum()} of 1000, your bet {my_bet}")
    for row in written[:3]:
        print("".join("=" if token == SIGN else str(token) for token in row))

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-learns", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "training"}
if __name__ == "__main__":
    def test_learns():
        """Your parts together: a new model learns to reverse four digits it has not seen."""
        rng = np.random.default_rng(5)
        model, texts = GPT(11, 24, 1, 1, max_seq_len=8, dropout_prob=0.0, rng=rng), reversals(120 * 32, rng, 4)
        before = {name: p.data.copy() for name, p in model.named_parameters()}
        train(model, texts, rate=0.01, batch=32)
        moved = {name: bool((p.data != before[name]).any()) for name, p in model.named_parameters()}
        check("parameters that did not move", [name for name in moved if not moved[name]], [])
        exam = unseen(200, texts, rng)
        right = int((model.generate(exam[:, :5], 4, temperature=0) == exam).all(axis=1).sum())
        print(f"{right} of 200 new texts are right")
        check("at least 190 of them", right >= 190, True)


    test_learns()

# %% [markdown]
"""
Perfect. Is it magic? Look inside: which positions does its one head look at while it writes? The weights are Module 12's, from the queries and keys of the trained block.
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.attention import attention_weights, split_heads

    block, text = reverser.blocks[0], exam[:1, :-1]  # ten tokens are read; the last five positions write the answer
    with no_grad():
        x = block.ln1(reverser.position_embedding(reverser.token_embedding(Tensor(text))))
        queries, keys = (split_heads(project(x), 1) for project in (block.attention.q_proj, block.attention.k_proj))
        weights = attention_weights(queries, keys, is_causal=True).data[0, 0]  # (10, 10)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    curve = left.semilogy(losses), left.axhline(log(10), color="gray", linestyle=":"), left.text(len(losses), log(10) * 1.1, "guessing: log 10", ha="right")
    settings = left.set(title="the loss", ylim=(None, 6), xlabel="step", ylabel="cross entropy of the answers")
    shown, labels = right.imshow(weights, cmap="Blues", vmin=0, vmax=1), ["=" if token == SIGN else str(token) for token in text[0]]
    settings = right.set(title="who looks where, while it writes", xlabel="looked at", ylabel="reads, and writes the next", xticks=range(10), yticks=range(10), xticklabels=labels, yticklabels=labels)
    print("the place that each of the last five positions looks at most:", weights[5:].argmax(axis=1).tolist())

# %% [markdown]
"""
There it is, in the lower half, from the sign in the middle down to the left corner: the **anti-diagonal**. (Right of the diagonal is the future, so the other half cannot be. What the rows above the sign look at means nothing: the loss never asked them for an answer.)
Nobody told it. The sign looks at the last digit, the next position at the one before it, and so on: place `i` found the program "copy from place 9 − i", and wrote it into its queries and keys.

**What if** it gets four digits, or six? A reader who had understood *reversing* would not mind.
"""

# %%
if __name__ == "__main__":
    for digits in ([7, 2, 9, 4], [7, 2, 9, 4, 1], [7, 2, 9, 4, 1, 8]):
        written = reverser.generate([*digits, SIGN], len(digits), temperature=0)
        print("".join("=" if token == SIGN else str(token) for token in written))

# %% [markdown]
"""
It has learned places, not reversing, because places were enough for everything it was shown. (With six digits it meets a second difficulty: the text is longer than the ten tokens it can read.) A perfect score says how it does on texts *like those it was trained on*. A model learns the exercise, not what you meant by it.

**What if** the norms stand on the road? Now both kinds of section 3 are trained, eight blocks deep, on three digits, from one seed, at one rate, without warm-up (some seconds). Guessing has a loss of log 10.
"""

# %%
if __name__ == "__main__":
    class PostNormCausal(TransformerBlock):
        """Post-norm, with the mask handed on."""

        def forward(self, x, is_causal=False):
            x = self.ln1(x + self.attention(x, is_causal=is_causal))
            return self.ln2(x + self.mlp(x))


    for name, kind in (("pre-norm", TransformerBlock), ("post-norm", PostNormCausal)):
        rng = np.random.default_rng(0)
        model = GPT(11, 16, 8, 2, max_seq_len=6, dropout_prob=0.0, rng=rng)
        model.blocks = [kind(16, 2, dropout_prob=0.0, rng=rng) for _ in range(8)]
        losses = train(model, reversals(80 * 16, rng, 3), rate=0.01, batch=16)
        print(f"{name:>9}: loss", "  ".join(f"{loss:.3f}" for loss in losses[::13]), f" last {losses[-1]:.3f}")
    print(f" guessing: {log(10):.3f}")

# %% [markdown]
"""
That is one seed and one rate, and no verdict on post-norm for ever. Try `rate=0.003`: post-norm learns too, though not faster. What it cannot bear is the large rate at the start, and keeping that away is what a warm-up is for.

## 8. It writes

**Question.** Can it write language?

Words in place of digits, and everything else stays. The tokens are the characters of a text (`CharTokenizer` of Module 10), the exercise is to guess the next one, everywhere. `learn_to_write` has nothing new in it: pieces of the text, your `next_token_pairs`, your `GPT`, the `Trainer` of Module 07. It takes any text, so you can hand it your own later.
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.optimizers import AdamW
    from tinytorch.core.tokenization import CharTokenizer


    def pieces(tokenizer, text, length):
        """Return all pieces of so many tokens, in the order of the text: (how many, length)."""
        ids = np.array(tokenizer.encode(text))
        if len(ids) < length:
            raise ValueError(f"the text has {len(ids)} tokens; want {length} or more")
        return np.lib.stride_tricks.sliding_window_view(ids, length)


    def learn_to_write(tokenizer, text, window=32, steps=300, rate=0.015, seed=0):
        """Train a GPT of two blocks on a text, 16 pieces for each step; return it, and the loss of each step."""
        rng, losses, read = np.random.default_rng(seed), [], pieces(tokenizer, text, window + 1)
        model = GPT(tokenizer.vocab_size, 32, 2, 4, max_seq_len=window, dropout_prob=0.0, rng=rng)
        batches = [next_token_pairs(read[chosen]) for chosen in rng.integers(0, len(read), (steps, 16))]
        trainer = Trainer(model, AdamW(model.parameters(), rate), CrossEntropyLoss(), CosineSchedule(rate, rate / 15, steps), grad_clip_norm=1.0)
        trainer.fit(batches, 1, on_batch=lambda progress: losses.append(progress.loss))
        return model, losses


    def loss_on(model, tokenizer, text):
        """Return the cross entropy for each token of a text, guessed piece after piece, without training."""
        inputs, targets = next_token_pairs(pieces(tokenizer, text, model.max_seq_len + 1)[::model.max_seq_len])
        with in_mode(model, False), no_grad():
            return CrossEntropyLoss()(model(Tensor(inputs)), Tensor(targets)).item()

# %% [markdown]
"""
The text is a poem of six lines. **This cell takes five to twenty seconds.**
"""

# %%
if __name__ == "__main__":
    links = ["the loss that the model made.", "the slope that came from", "the step that went against", "the weight that moved with", "the word that hung upon", "the line that ended in"]
    poem = "".join(f"this is {' '.join(links[i::-1])}\n" for i in range(len(links)))
    tokenizer, start = CharTokenizer(poem), perf_counter()
    writer, losses = learn_to_write(tokenizer, poem)
    print(poem)
    print(f"{len(poem)} characters, {tokenizer.vocab_size} different ones; {sum(p.size for p in writer.parameters()):,} parameters; each character was read about {len(losses) * 16 * 32 / len(poem):.0f} times")
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} in {perf_counter() - start:.1f} s; guessing would be log {tokenizer.vocab_size} = {log(tokenizer.vocab_size):.2f}")

# %% [markdown]
"""
It knew no letter, no word and no line. Now let it begin with "this is " and go on, at three temperatures. How much of what it writes stands in the poem?
"""

# %%
if __name__ == "__main__":
    for temperature in (0, 1, 2):
        written = tokenizer.decode(writer.generate(tokenizer.encode("this is "), 180, temperature, np.random.default_rng(3)))
        lines, words = written.split("\n")[:-1], written.split()[:-1]  # whole ones: what is cut off at the end does not count
        print(f"temperature {temperature}: in the poem are {sum(word in poem.split() for word in words)} of {len(words)} words, {sum(line in poem.split(chr(10)) for line in lines)} of {len(lines)} lines\n{written}\n")

# %% [markdown]
"""
At 0 it says the same each time, and recites: what is likely is what stands in the poem. At 1 nearly all words are words, and a line is either one of the poem's or has slipped somewhere. At 2 it babbles: sooner or later a wrong character comes, and after a wrong one the model is in a text it has never seen. Give it other seeds, and temperatures between.

**Honest?** That loss was measured on the very text it had read, some hundred and more times. Bet: what is the loss on lines that have the same words and links, in an order that the poem does not have? And on the poem read backwards, where guessing would give log V?
"""

# %%
if __name__ == "__main__":
    my_bet = (None, None)
    remixed = "".join(f"this is {' '.join(links[i] for i in order)}\n" for order in ([3, 1, 4, 0], [5, 2, 1, 3, 0], [2, 4, 5, 1, 0]))
    for name, text in (("the poem", poem), ("its links in a new order", remixed), ("the poem backwards", poem[::-1])):
        print(f"{name:>24}: loss {loss_on(writer, tokenizer, text):.2f}")
    print(f"guessing: {log(tokenizer.vocab_size):.2f}; your bet {my_bet}")

# %% [markdown]
"""
What it learned carries over to a new order of familiar links, at two or three times the loss. On a strange text it is far *worse* than guessing: it is sure, and wrong. A loss is a statement about a text. Which one has to be said with it, and for a model that is to be of use it must be a text the model has not read.

Where is it sure, and where not? Look at the shares after three beginnings:
"""

# %%
if __name__ == "__main__":
    figure, axes = plt.subplots(1, 3, figsize=(12, 3), sharey=True, layout="constrained")
    letters = [character.replace("\n", "↵").replace(" ", "␣") for character in tokenizer.alphabet]
    for ax, beginning in zip(axes, ("this is th", "this is the ", "the loss that the model mad")):
        with in_mode(writer, False), no_grad():
            last = writer(Tensor(np.array(tokenizer.encode(beginning))))[-1]  # (V,)
        for temperature, width in ((1.0, 0.8), (2.0, 0.35)):
            bars = ax.bar(range(len(letters)), token_shares(last, temperature), width, label=f"temperature {temperature:g}")
        settings = ax.set(title=f"after '{beginning}'", xticks=range(len(letters)), xticklabels=letters)
    settings = axes[0].set_ylabel("share"), axes[0].legend()

# %% [markdown]
"""
Inside a word there is one way to go on, behind `the ` there are several: exactly there the poem branches. Writing is drawing at the forks and following the road between them.

**Your text.** Take one of your own: a diary, a song, a program, five hundred to some ten thousand characters. The last tenth is kept back. Before you run it, bet on two numbers: the loss on what it reads, and on what it does not. Then turn the screws, one at a time: `steps`, `window`, a shorter text, a longer one. Which of them closes the gap between the two?
"""

# %%
if __name__ == "__main__":
    my_text, my_bet = "", (None, None)  # paste a text, or: from pathlib import Path; my_text = Path("mine.txt").read_text(encoding="utf-8")
    if my_text:
        cut = len(my_text) * 9 // 10
        own = CharTokenizer(my_text)
        author, losses = learn_to_write(own, my_text[:cut])
        print(f"{len(my_text):,} characters, {own.vocab_size} different ones; guessing {log(own.vocab_size):.2f}, read {loss_on(author, own, my_text[:cut]):.2f}, not read {loss_on(author, own, my_text[cut:]):.2f}, your bet {my_bet}")
        print(own.decode(author.generate(own.encode(my_text[:16]), 300, 0.7)))

# %% [markdown]
"""
<details><summary>What to expect</summary>
A short text is learned by heart: what was read costs little, what was not costs more and more, the longer you train. More text closes the gap, more steps on the same text widen it. The words it writes come first, then how they follow each other, last of all a sense; for that, a model of this size with 32 characters of memory is too small.
</details>

The prompt may hold only characters that the text has. Outside this notebook, once the module is exported, everything but the three short functions above is imported: `from tinytorch.core.transformers import GPT, next_token_pairs`.

## 9. What it means for a real model

You wrote GPT-2. What its makers had and you have not: a text of 40 GB in place of half a kilobyte, and machines to read it. The code has the same parts, in the same order, and the same number of parameters to the last digit. What does one token cost it? Count the contractions on shapes only:
"""

# %%
if __name__ == "__main__":
    from math import prod


    def contractions(model, tokens):
        """Return the FLOPs of all matrix products in a pass over so many tokens, 2 for each multiply-add."""
        events = []
        with shape_only(), listen(events.append):
            model(Tensor(hollow((1, tokens), np.int64)))
        return sum(2 * prod(e.out_shape) * e.in_shapes[0][-1] for e in events if e.op.name in ("linear", "matmul"))


    with shape_only():
        small = GPT(50257, 768, 12, 12)
    parameters = sum(p.size for p in small.parameters())
    for tokens in (1, 128, 1024):
        flops = contractions(small, tokens)
        print(f"GPT-2 small reads {tokens:5,} tokens: {flops:>15,} FLOPs, {flops / tokens / parameters:.2f} for each token and parameter")

# %% [markdown]
"""
About 2 FLOPs for each parameter and token: every weight is multiplied and added once for every token that is read. (Lookups cost nothing, but the tied table is used as head as well. What comes on top at 1,024 is attention, which grows with the length.) That rule of thumb is how people size a training run on the back of an envelope.

**Reflect.** Answer first, then open.

<details><summary>Why is the norm of a language model over features and not over the batch?</summary>
Texts have different lengths and are padded; a mean over the batch would depend on strangers, and while writing there is a batch of one. Over the features of a position nothing else is needed.
</details>
<details><summary>Why does the number of heads not change the number of parameters?</summary>
Heads share out what the four projections make; they add nothing. Each of the h heads gets D / h of the D features, so the matrices stay D by D.
</details>
<details><summary>Without positions, what can a causal GPT still know about order?</summary>
That later positions see more. The first position sees one token, the second two; from the size of the crowd something about place can be learned. Reversing at fixed places, as here, would be far harder.
</details>
<details><summary>The tied table gets two gradients. From where, and which rows?</summary>
As embedding: only the rows of tokens that were read. As head: all rows, since each is compared with each position. They are added.
</details>
<details><summary>The same prompt, temperature 0, alone and as a row of a batch. Must the texts be equal?</summary>
In exact arithmetic yes: rows do not see each other. In float32 a product of another shape may add in another order; where two tokens are nearly tied, the last digit decides, and from there the texts part.
</details>
<details><summary>What does <code>generate</code> compute that nobody needs?</summary>
At each step the keys and values of all earlier tokens, again, and the scores of all positions but the last. The first is the subject of Module 17.
</details>
<details><summary>The reverser failed on four digits. What would you change?</summary>
The exercise: texts of several lengths. And then it needs more than one look: first find the sign, then count from there. That is what a second block is for.
</details>

`tito test transformers` checks the module; once all of it passes, `tito module complete transformers` puts what you wrote into the package, and later modules run on your code. Next: Module 14, where do its parameters, FLOPs, bytes and milliseconds go?
"""
