# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 12 · Attention

Tier: Architecture · Difficulty 3 of 4 · About 3 hours · Needs 01 to 05 (`tito test tensor`, `tito test activations`, `tito test layers`, `tito test losses`,
`tito test autograd`) and, for one experiment's meaning, 11 (`tito test embeddings`)

A linear layer treats every word of a sentence alike, and alone. Attention is the layer in which words look at each other: each one decides, from what the others offer, how much to take from whom. It is a dictionary lookup made soft, so that it
can be learned.

**Build** scores, weights, masks, heads, `MultiHeadAttention` → **use** them to see who looks at whom, and who looks where he must not → **reflect** on a layer whose cost grows with the square of the text.

When you are done you can
1. compute attention by hand for three words, and say why the scores are divided by `sqrt(d)`, from a variance that you measured;
2. hide keys with boolean, additive, causal and padding masks, so that what is hidden contributes exactly nothing;
3. show what leaks from the future when the causal mask is missing;
4. split features into heads and join them again, with the shape of every step;
5. say what the number of heads costs, and what twice the text costs.

Yours: attention by loops, the scores and their scale, a softmax that survives a row without keys, the causal mask, the masking, the mix, splitting and joining heads, `MultiHeadAttention`. Given and explained: what refuses wrong masks and wrong sizes.

A cell you have not filled says which one it is: `causal_mask: section 4, cell 1` is the function `causal_mask` in the first code cell of section 4.
"""

# %%
#| default_exp core.attention

# %%
#| export
import numpy as np

from tinytorch.core.activations import exp
from tinytorch.core.autograd import no_gradient
from tinytorch.core.layers import Dropout, Layer, Linear, positive
from tinytorch.core.tensor import Tensor, broadcast_shape, op, where

# %% [markdown]
"""
## 1. Three words

**Question.** "The cat slept because **it** was tired." The word *it* means nothing by itself. Where does its meaning come from?

From another word, and which one depends on the sentence. Every word therefore shows three vectors to the others:

- its **query**: what am I looking for?
- its **key**: what can I be found by?
- its **value**: what do I hand over to whoever found me?

A query and a key that point the same way have a large dot product. That is the whole search engine. Here are three words with keys of two numbers, "I am a noun" and "I am an article", and the word *sat*, which looks for a noun:
"""

# %%
words = ["the", "cat", "sat"]
key = np.array([[0.0, 2.0], [2.0, 0.0], [0.0, 0.0]])
looks_for_a_noun = np.array([2.0, 0.0])
scores = key @ looks_for_a_noun
powers = np.exp(scores)
for word, score, share in zip(words, scores, powers / powers.sum()):
    print(f"'sat' meets {word!r}: score {score:.0f}, share {share:.3f}  {'█' * round(40 * share)}")

# %% [markdown]
"""
The scores become shares by a softmax: positive, and together 1. Then *sat* takes that share of each word's value. With `d` numbers in a query and a key, `dv` in a value, `Tq` queries and `Tk` keys:

```
query (Tq, d)     key (Tk, d)     value (Tk, dv)

score[i, j]   = scale · (query[i] · key[j])                    one number for each pair
weight[i, j]  = exp(score[i, j]) / Σ over j of exp(...)        each row adds up to 1
mixed[i]      = Σ over j of weight[i, j] · value[j]            (Tq, dv): one vector for each query
```

**Task.** Write it once exactly as it stands there, with loops and no Tensors: `attention_by_loops(query, key, value, scale=1.0)` takes three lists of rows (or arrays of two axes) and returns two arrays, the weights `(Tq, Tk)` and the mixed values
`(Tq, dv)`. Subtract the largest score of a row before you call `np.exp`, as in Module 02: the shares stay the same, and a score of 10,000 does not overflow.

Example: one query `[1, 0]`, the keys `[1, 0]` and `[0, 1]`, `scale = log 3`. The scores are log 3 and 0, the powers 3 and 1, the weights 3/4 and 1/4. If the values are `[4, 0, 8]` and `[0, 4, 8]`, the mix is `[3, 1, 8]`.

<details><summary>Hint 1: idea</summary>
Everything happens for one query at a time: one row of scores, one row of weights, one mixed vector.
</details>
<details><summary>Hint 2: approach</summary>
<code>for q in query:</code> make the list of its scores with <code>sum(a * b for a, b in zip(q, k))</code> for each <code>k</code>, take <code>max</code> off, <code>np.exp</code>, divide by the sum. For the mix, loop over the <code>dv</code> places of a value. Collect rows in two lists and return <code>np.array</code> of each.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Scores log 1, log 4, log 5: powers 1, 4, 5, sum 10, weights 0.1, 0.4, 0.5. Values <code>[10]</code>, <code>[0]</code>, <code>[2]</code>: 0.1 · 10 + 0.4 · 0 + 0.5 · 2 = 2.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "attention-by-loops", "solution": true}
def attention_by_loops(query, key, value, scale=1.0):
    """Attention as its formula says: (Tq, d), (Tk, d), (Tk, dv) -> weights (Tq, Tk) and mixed values (Tq, dv)."""
    ### BEGIN SOLUTION
    weights, mixed = [], []
    for q in query:
        scores = [scale * sum(a * b for a, b in zip(q, k)) for k in key]
        powers = [np.exp(score - max(scores)) for score in scores]
        shares = [power / sum(powers) for power in powers]
        weights.append(shares)
        mixed.append([sum(share * v[place] for share, v in zip(shares, value)) for place in range(len(value[0]))])
    return np.array(weights), np.array(mixed)
    ### END SOLUTION

# %%
query = np.array([[0.0, 0.0], [0.0, 2.0], [2.0, 0.0]])  # 'the' looks for nothing, 'cat' for an article, 'sat' for a noun
value = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # 'the', 'cat' and 'sat', each in a place of its own
weights, mixed = attention_by_loops(query, key, value)
print("who looks (down), at whom (across)")
print(f"{'':>6}", *[f"{word:>6}" for word in words])
for word, row in zip(words, weights):
    print(f"{word:>6}", *[f"{share:6.3f}" for share in row])

# %% nbgrader={"grade": true, "grade_id": "test-attention-by-loops", "points": 12, "skill": "attention"}
from tito.checks import check


def test_attention_by_loops():
    """The worked example, other shapes, large scores."""
    weights, mixed = attention_by_loops([[1, 0]], [[1, 0], [0, 1]], [[4, 0, 8], [0, 4, 8]], scale=np.log(3))
    check("weights", np.asarray(weights), [[0.75, 0.25]], {
        ((3.0, 1.0),): "powers, not yet shares: divide by their sum", ((np.log(3), 0.0),): "scores, not yet shares",
        ((1.0, 1 / 3),): "powers, not yet shares: divide by their sum", ((1.0, 1.0),): "divided along the wrong axis: each query's row must add up to 1",
        ((np.e / (np.e + 1), 1 / (np.e + 1)),): "the scale is left out", ((3.0, 1.0, 8.0),): "the weights come first, then the mixed values"})
    check("mixed values", np.asarray(mixed), [[3.0, 1.0, 8.0]])
    query, key, value = ([[0, 0], [2, 1]], [[1, 0], [0, 3], [1, 1], [0, 0]], [[1, 0, 0, 5, 0], [0, 1, 0, 5, 0], [0, 0, 1, 5, 0], [0, 0, 0, 5, 1]])
    weights, mixed = attention_by_loops(query, key, value)
    check("two queries, four keys, values of five", (np.shape(weights), np.shape(mixed)), ((2, 4), (2, 5)))
    check("a query that looks for nothing takes from all alike", np.asarray(weights)[0], [0.25] * 4)
    powers = np.exp([2.0, 3.0, 3.0, 0.0])
    check("the second row", np.asarray(weights)[1], powers / powers.sum())
    share = np.asarray(weights)[1]
    check("and its mix", np.asarray(mixed)[1], [share[0], share[1], share[2], 5.0, share[3]])
    check("scores of 10,000 and 0", np.asarray(attention_by_loops([[100]], [[100], [0]], [[7], [9]])[0]), [[1.0, 0.0]], {
        ((np.nan, 0.0),): "overflow: subtract the largest score of the row first"})


test_attention_by_loops()

# %% [markdown]
"""
**What if** the scale changes? With scale 0 nobody is preferred; with a huge one the best key takes all, and attention is an ordinary dictionary. The scale goes from one to the other, and in between there is a slope to learn by:
"""

# %%
for scale in (0.0, 0.25, 1.0, 4.0):
    row = attention_by_loops(query[2:], key, value, scale)[0][0]
    print(f"scale {scale:4}: 'sat' takes", ", ".join(f"{share:.3f} of {word!r}" for word, share in zip(words, row)))

# %% [markdown]
"""
## 2. Scores, and how large they are

**Question.** Nobody chose a scale yet. Real queries have 64 or 128 numbers. How large is a dot product then?

Draw queries and keys whose numbers have mean 0 and variance 1, and measure. Then let a softmax share them among 16 keys, and look at the largest share:
"""

# %%
rng = np.random.default_rng(0)
print("   d   variance   over sqrt(d)   largest of 16 shares   over sqrt(d)")
for d in (4, 64, 1024):
    q, keys = rng.standard_normal((1000, d)), rng.standard_normal((16, d))
    dots, largest = q @ keys.T, []
    for scale in (1.0, d**-0.5):
        powers = np.exp(scale * dots - (scale * dots).max(1, keepdims=True))
        largest.append((powers / powers.sum(1, keepdims=True)).max(1).mean())
    print(f"{d:4}   {dots.var():8.1f}   {(dots * d**-0.5).var():12.2f}   {largest[0]:20.3f}   {largest[1]:12.3f}")

# %% [markdown]
"""
A dot product adds up `d` products of independent numbers. Each product has variance 1, so the sum has variance `d`: its size grows like `sqrt(d)`. Untouched, a layer of 1,024 numbers starts with nearly all weight on one key, chosen by chance. And there it
stays, because a softmax that has decided hardly moves: the slope of a share `w` with its own score is `w (1 - w)`, and that is almost 0 when `w` is almost 1. Divided by `sqrt(d)`, the variance is 1 whatever `d` is. That is the scale (Vaswani
and others, 2017).

All dot products at once are one matrix product, for any number of leading axes:

```
query (..., Tq, d) @ key.T (..., d, Tk) -> scores (..., Tq, Tk)
```

**Task.** Write `attention_scores(query, key)` on Tensors. `key.T` swaps the last two axes, `@` is the product, a Tensor times a Python number keeps its type. Scale the *query*, not the scores: the query has `Tq · d` numbers, the scores `Tq · Tk`, and
a long text would pay for a whole pass over them. Given is the refusal of shapes that do not fit.

Example: query `[[6, 0, 0, 0]]` and key `[[1, 9, 9, 9]]`, `d = 4`: the score is 6 / 2 = 3.

<details><summary>Hint 1: idea</summary>
One product of a number with the query, one matrix product.
</details>
<details><summary>Hint 2: approach</summary>
<code>d</code> is the last axis, <code>query.shape[-1]</code>; one over its root is <code>d ** -0.5</code>, a Python number.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>d = 9</code>: query (2, 9) times 1/3, then (2, 9) @ (9, 5) -> (2, 5).
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "attention-scores", "solution": true}
#| export
def attention_scores(query, key):
    """Compare every query with every key: (..., Tq, d) and (..., Tk, d) -> (..., Tq, Tk), dot products over sqrt(d)."""
    if query.ndim < 2 or key.ndim < 2 or query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query {query.shape} with key {key.shape}: want (..., Tq, d) and (..., Tk, d)")
    ### BEGIN SOLUTION
    scale = query.shape[-1] ** -0.5
    return (query * scale) @ key.T  # (..., Tq, d) @ (..., d, Tk) -> (..., Tq, Tk)
    ### END SOLUTION

# %%
three = attention_scores(Tensor(query), Tensor(key))  # the three words of section 1, d = 2
print(three)

# %% nbgrader={"grade": true, "grade_id": "test-attention-scores", "points": 12, "skill": "scores"}
from tinytorch.core.tensor import listen


def test_attention_scores():
    """Values, scale, stacks, types, passes."""
    query, key = Tensor([[1, 2, 3, 4], [0, 0, 0, 2]]), Tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, -1]])
    dots = ((10.0, 1.0, -4.0), (2.0, 0.0, -2.0))
    check("scores, d = 4", attention_scores(query, key).data, np.divide(dots, 2), {
        dots: "not scaled: divide by sqrt(d)", tuple(tuple(n * 2 for n in row) for row in dots): "multiplied by sqrt(d): divide", tuple(tuple(n / 4 for n in row) for row in dots): "divided by d, not by its root",
        tuple(tuple(n / np.sqrt(3) for n in row) for row in dots): "that is the root of the number of keys",
        tuple(tuple(n / np.sqrt(2) for n in row) for row in dots): "that is the root of the number of queries",
        ((5.0, 1.0), (0.5, 0.0), (-2.0, -1.0)): "one row for each key: want one row for each query"})
    check("the query is left as it was", query.data, [[1, 2, 3, 4], [0, 0, 0, 2]], {
        ((0.5, 1, 1.5, 2), (0, 0, 0, 1)): "scaled in place: whoever gave the query still needs it"})
    random = np.random.default_rng(0).standard_normal
    q, k = random((2, 3, 5, 16)), random((2, 3, 7, 16))
    events = []
    with listen(events.append):
        scores = attention_scores(Tensor(q), Tensor(k))
    check("a stack of them", scores.shape, (2, 3, 5, 7))
    check("the first score of each", scores.data[:, :, 0, 0], (q @ k.swapaxes(2, 3) / 4)[:, :, 0, 0], rtol=1e-4, atol=1e-5)
    check("the last score of each", scores.data[:, :, 4, 6], (q @ k.swapaxes(2, 3) / 4)[:, :, 4, 6], rtol=1e-4, atol=1e-5)
    check("ops that write an array as large as the scores", [e.op.name for e in events if e.out_shape == (2, 3, 5, 7)], ["matmul"], {
        (): "made outside the ops: nobody who listens hears it, and no gradient comes back; use the Tensors' own @", ("matmul", "multiply"): "the scores are scaled: scale the query", ("matmul", "divide"): "the scores are scaled: scale the query"})
    one = Tensor([[1.0, 0.0]], dtype=np.float64)
    check("float64 stays", attention_scores(one, one).dtype.name, "float64")
    check("and keeps its digits: 1 / sqrt(2)", attention_scores(one, one).data, [[2**-0.5]], {
        ((1 / float(np.float32(2**0.5)),),): "divided by a float32 number: take a Python one, d ** -0.5",
        ((float(np.float32(2**-0.5)),),): "times a float32 number: take a Python one, d ** -0.5"}, rtol=1e-12)


test_attention_scores()

# %% [markdown]
"""
**What it means for a real model.** Scaling costs `T · d` multiplications here and `T · T` there. The same result, other bytes; a text of 1,024 words and `d = 64`:
"""

# %%
T, d = 1024, 64
print(f"pass over the query {2 * T * d * 4:,} bytes, pass over the scores {2 * T * T * 4:,} bytes (read and written): {T / d:.0f} times as many")

# %% [markdown]
"""
## 3. Weights, also where nobody may be looked at

**Question.** To forbid a key, make its score `-inf`: `exp(-inf)` is exactly 0, so the key gets exactly no share. What if *every* key is forbidden?

It happens: a sentence of padding only, a query before the first key. Look what the softmax of Module 02 makes of it:
"""

# %%
from tinytorch.core.activations import softmax

with np.errstate(invalid="ignore"):
    print(softmax(Tensor([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]])).data)

# %% [markdown]
"""
NaN. Two places make it. The largest score of the row is `-inf`, and `-inf - (-inf)` is NaN. Mend that, and the sum of the row is 0: 0 / 0 is NaN, too.

The right answer is a row of zeros: who may look at nothing takes nothing. Why not simply put 0 where a weight is NaN? **Guess** what the gradient of the second row will be, then run:
"""

# %%
with np.errstate(invalid="ignore"):
    rows = Tensor([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]], requires_grad=True)
    weights = softmax(rows)
    mended = where(weights == weights, weights, 0.0)  # only NaN differs from itself
    mended.backward(np.ones((2, 3)))
print("weights\n", mended.data, "\ngradient\n", rows.grad.data, sep="")

# %% [markdown]
"""
The weights look right, and the gradient is NaN: on its way back it passes the places where the NaN was made, and 0 · NaN is NaN. One empty row in one sentence, and after the next step every weight that its gradient reaches is NaN. So the NaN must not be mended; it must never be made.

**Task.** Write `safe_softmax(scores)`: a softmax along the last axis, `(..., Tq, Tk)`, in which

- a row of nothing but `-inf` becomes a row of zeros, with gradient zero;
- every other row is the softmax, and adds up to 1 as exactly as the type allows (no small number added to the sum);
- scores of 10,000 do not overflow.

You may use `exp(x)`, `x.max(axis=-1, keepdims=True)`, `x.sum(axis=-1, keepdims=True)`, `x.detach()` (the same numbers, remembering nothing: the largest score only shifts, and needs no gradient), comparisons such as `x == 0.0`, and
`where(condition, a, b)`, which takes `a` where the condition holds and `b` elsewhere; `a` or `b` may be a number. Both repairs belong on the small arrays of one number per row, `(..., Tq, 1)`. Given is the case of no keys at all.

Example: `[[log 1, log 3, -inf], [-inf, -inf, -inf]]` gives `[[0.25, 0.75, 0], [0, 0, 0]]`.

<details><summary>Hint 1: idea</summary>
Before you subtract the largest, ask whether it is <code>-inf</code>. Before you divide by the sum, ask whether it is 0. In both cases there is a harmless number to put in its place.
</details>
<details><summary>Hint 2: approach</summary>
Subtract 0 in place of <code>-inf</code>: the powers of that row are then exactly 0. Divide by 1 in place of 0: they stay 0.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Averages of rows, some of them empty: <code>count = mask.sum(axis=-1, keepdims=True)</code>, then <code>total / where(count == 0.0, 1.0, count)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "safe-softmax", "solution": true}
#| export
def safe_softmax(scores):
    """Turn scores (..., Tq, Tk) into weights that add up to 1 along the last axis; a row of nothing but -inf gives 0s.

    The largest score of each row is subtracted first, so that no score is too large for ``exp``.
    """
    if scores.shape[-1] == 0:
        return scores  # no keys, no weights
    ### BEGIN SOLUTION
    top = scores.max(axis=-1, keepdims=True).detach()  # (..., Tq, 1)
    powers = exp(scores - where(top == -np.inf, 0.0, top))  # (..., Tq, Tk)
    total = powers.sum(axis=-1, keepdims=True)  # (..., Tq, 1)
    return powers / where(total == 0.0, 1.0, total)
    ### END SOLUTION

# %%
print(safe_softmax(Tensor([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]])).data)

# %% nbgrader={"grade": true, "grade_id": "test-safe-softmax", "points": 16, "skill": "weights"}
def test_safe_softmax():
    """Shares, forbidden keys, empty rows, their gradients."""
    hidden = -np.inf
    rows = Tensor([[np.log(1), np.log(3), hidden], [hidden, hidden, hidden]], requires_grad=True, dtype=np.float64)
    with np.errstate(all="ignore"):
        weights = safe_softmax(rows)
    check("a forbidden key, and a row of them", weights.data, [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]], {
        ((0.25, 0.75, 0.0), (np.nan,) * 3): "the empty row is NaN: look at -inf - (-inf), and at 0 / 0",
        ((0.25, 0.75, 0.0), (1 / 3,) * 3): "the empty row shares what it may not look at",
        ((1.0, 1.0, 0.0), (0.0, 0.0, 0.0)): "the shares are taken along the queries, not along the keys",
        ((0.5, 0.5, 0.0), (0.0, 0.0, 0.0)): "the largest score is taken along the queries, not along the keys"})
    check("a forbidden key's share is exactly 0", float(weights.data[0, 2]), 0.0, rtol=0, atol=0)
    with np.errstate(all="ignore"):
        weights.backward(np.array([[1.0, 0.0, 5.0], [1.0, 2.0, 3.0]]))
    check("gradients: w (g - Σ w g)", rows.grad.data, [[0.1875, -0.1875, 0.0], [0.0, 0.0, 0.0]], {
        ((0.1875, -0.1875, 0.0), (np.nan,) * 3): "the empty row's value is mended, its gradient is NaN: do not make the NaN at all",
        ((0.25, 0.0, 0.0), (0.0, 0.0, 0.0)): "the sum is detached, too: only the largest score may forget where it came from"})
    with np.errstate(all="ignore"):
        check("scores of 10,000", safe_softmax(Tensor([[1e4, 1e4, -1e4]])).data, [[0.5, 0.5, 0.0]], {
            ((np.nan, np.nan, 0.0),): "overflow: subtract the largest score first"})
        check("low scores beside high ones", safe_softmax(Tensor([[-1e4, -1e4, -2e4], [1e4, 1e4, 1e4]])).data, [[0.5, 0.5, 0.0], [1 / 3] * 3], {
            ((0.0, 0.0, 0.0), (1 / 3,) * 3): "the low row vanished: subtract the largest score of each row, not of all"})
    stack = np.random.default_rng(0).standard_normal((2, 3, 4, 5)) * 3
    powers = np.exp(stack)
    got = safe_softmax(Tensor(stack, dtype=np.float64))
    check("a stack is a softmax along the last axis", bool(np.allclose(got.data, powers / powers.sum(-1, keepdims=True), rtol=1e-12, atol=0)), True, {
        False: "not the softmax to twelve digits: something was added to the sum, or another axis was taken"})
    events, scores = [], Tensor(stack.astype(np.float32))
    with listen(events.append):
        got = safe_softmax(scores)
    check("float32 stays", got.dtype.name, "float32")
    with np.errstate(all="ignore"):
        half = safe_softmax(Tensor(np.array([[0, hidden], [hidden, hidden]], np.float16)))
    check("float16 stays, with an empty row", (half.dtype.name, half.data.tolist()), ("float16", [[1.0, 0.0], [0.0, 0.0]]), {
        ("float32", ((1.0, 0.0), (0.0, 0.0))): "where of two Python numbers is a float32 Tensor, and everything it touches becomes one: give it one array of the scores' type",
        ("float16", ((1.0, 0.0), (np.nan, np.nan))): "the small number added to the sum is 0 in float16: add none"})
    check("arrays as large as the scores: differences, powers, weights", sum(e.out_shape == (2, 3, 4, 5) for e in events), 3, {
        0: "made outside the ops: use exp and the Tensors' own operators", 4: "one too many: both repairs belong on the array of one number per row",
        5: "two too many: both repairs belong on the arrays of one number per row"})
    check("the scores are left as they were", np.array_equal(scores.data, stack.astype(np.float32)), True, {False: "written into the caller's array"})


test_safe_softmax()

# %% [markdown]
"""
**What if** you forbid with a large negative number, -1,000,000,000, as many programs do? It works as long as something else may be looked at. Then compare an empty row:
"""

# %%
for forbidden in (-1e9, -np.inf):
    print(f"{forbidden:>6.0e}: empty row {safe_softmax(Tensor([[forbidden] * 4])).data[0].tolist()}")

# %% [markdown]
"""
A number, however low, is a score like any other: among equals it gets a full share, and the mix is the average of everything that was forbidden. `-inf` says what is meant.
"""

# %% [markdown]
"""
## 4. Masks: who may look at whom

**Question.** A language model learns to say the next word. While it learns, the whole sentence lies before it. What keeps it from simply looking at the answer?

A **causal mask**: word `i` may look at word `j` only if `j` is not later. A mask is a table of booleans, one row for each query, one column for each key. **True takes part**:

```
          the   cat   sat                    keys 0 1 2 3, of which the queries are the last two
   the     1     0     0                         query 0:   1 1 1 0
   cat     1     1     0                         query 1:   1 1 1 1
   sat     1     1     1
```

On the right there are more keys than queries: earlier words are remembered, and only the last ones ask (Module 17 lives on that). The queries are the last of the keys: query `i` stands at position `i + keys - queries`. With more queries than keys the first
queries stand before every key, and may look at nothing.

Masks come from an op, so that a run on shapes only makes a hollow one, and a listener hears it. It has no tensor inputs, only two attributes.

**Task.** Write the NumPy function inside `causal_mask(queries, keys)`: a boolean array `(queries, keys)`, True where key `j <= i + keys - queries`. Given: the shape rule, which refuses what is no size, and the line that says that no gradient passes a mask.

Example: `causal_mask(queries=2, keys=4)` is the table on the right.

<details><summary>Hint 1: idea</summary>
A column of the queries' positions compared with a row of the keys' positions gives the whole table at once.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.arange(n)</code> counts from 0 to n - 1; <code>places[:, None]</code> is a column. Compare with <code>&gt;=</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Who sits in the same group of three? <code>groups = np.arange(6) // 3; groups[:, None] == groups</code> is a (6, 6) table.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "causal-mask", "solution": true}
#| export
def causal_shape(queries, keys):
    """Return (queries, keys), or raise ``ValueError`` when one of them is not a size."""
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in (queries, keys)):
        raise ValueError(f"queries {queries!r} and keys {keys!r}: want two sizes, whole numbers from 0")
    return int(queries), int(keys)


@op(shape=causal_shape, dtype=np.bool_)
def causal_mask(queries, keys):
    """Return (queries, keys) booleans: True where a query may look, at keys no later than itself.

    An op without inputs: ``causal_mask(queries=3, keys=3)``. With fewer queries than keys the queries are the last
    ones: query i stands at position i + keys - queries.
    """
    queries, keys = causal_shape(queries, keys)
    ### BEGIN SOLUTION
    places = np.arange(queries) + keys - queries
    return places[:, None] >= np.arange(keys)
    ### END SOLUTION


no_gradient(causal_mask)

# %%
for queries, keys in ((3, 3), (2, 4), (3, 2)):
    print(f"{queries} queries, {keys} keys", causal_mask(queries=queries, keys=keys).data.astype(int).tolist())

# %% nbgrader={"grade": true, "grade_id": "test-causal-mask", "points": 10, "skill": "masks"}
from tinytorch.core.tensor import shape_only


def test_causal_mask():
    """The table, more keys than queries, fewer, none; a run on shapes."""
    check("three words", causal_mask(queries=3, keys=3).data, np.array([[True, False, False], [True, True, False], [True, True, True]]), {
        ((True, True, True), (False, True, True), (False, False, True)): "the wrong way round: True takes part, and the past takes part",
        ((False, False, False), (True, False, False), (True, True, False)): "a word may look at itself",
        ((False, True, True), (False, False, True), (False, False, False)): "True where it is forbidden: True takes part"})
    check("the last two of four", causal_mask(queries=2, keys=4).data, np.array([[True, True, True, False], [True] * 4]), {
        ((True, False, False, False), (True, True, False, False)): "the queries are the last ones, not the first: query i stands at i + keys - queries"})
    check("three queries, two keys", causal_mask(queries=3, keys=2).data, np.array([[False, False], [True, False], [True, True]]))
    check("booleans", causal_mask(queries=2, keys=2).dtype.name, "bool")
    check("no keys", causal_mask(queries=2, keys=0).shape, (2, 0))
    events = []
    with shape_only(), listen(events.append):
        mask = causal_mask(queries=100_000, keys=100_000)
    check("ten thousand million pairs, on shapes only", (mask.shape, mask.dtype.name, len(events)), ((100_000, 100_000), "bool", 1))


test_causal_mask()

# %% [markdown]
"""
There are masks of two kinds, and they may come together. Given: `as_mask` and `fitted_mask`, which turn a mask into a Tensor that is either boolean or in the type of the scores, and refuse the rest. Whole numbers are refused because nobody can tell what
`1` means: "takes part", or "add one to the score"? A mask has a shape that stretches to the scores, and does not make them larger.
"""

# %%
#| export
def as_mask(mask):
    """Return ``mask`` as a Tensor; ``TypeError`` unless boolean (True takes part) or float (added to the scores)."""
    if not isinstance(mask, Tensor):
        array = np.asarray(mask)
        mask = Tensor(array, dtype=array.dtype)
    if mask.dtype.kind not in "bf":
        raise TypeError(f"the mask is {mask.dtype}; want boolean (True takes part) or float (added to the scores)")
    return mask


def fitted_mask(mask, scores):
    """Return ``mask`` as a Tensor that is boolean or in the type of the scores, and whose shape fits theirs."""
    mask = as_mask(mask)
    try:
        fits = broadcast_shape(scores.shape, mask.shape) == scores.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"mask {mask.shape} with scores {scores.shape}: want a shape that stretches to the scores'")
    return mask if mask.dtype in (bool, scores.dtype) else mask.astype(scores.dtype)

# %% [markdown]
"""
**Task.** Write `mask_scores(scores, mask=None, is_causal=False)`. What comes out has the shape of the scores:

| mask | result |
|---|---|
| none | the scores themselves, untouched |
| boolean | the score where the mask is True, `-inf` where it is False |
| float (additive) | `scores + mask` (a mask of 0 and `-inf` forbids; other numbers prefer) |
| `is_causal=True`, alone or with one of these | as above, and `-inf` where `causal_mask` is False too: **both hold** |

The scores are the largest arrays in the layer, so pass over them **once**: bring the mask and the causal table together first (a table is small), then apply the result in one op. The product of two booleans is *and*: `mask * causal`. `where(condition, a, b)` takes a number for `b`.
`mask.dtype == bool` tells the two kinds apart; `np.inf` is infinity.

Example: scores `[[1, 2]]`, mask `[[True, False]]`: `[[1, -inf]]`. With the mask `[[0.5, 0]]`: `[[1.5, 2]]`.

<details><summary>Hint 1: idea</summary>
First make one mask out of at most two. Then there are only three cases left: none, boolean, float.
</details>
<details><summary>Hint 2: approach</summary>
The sizes for <code>causal_mask</code> are the last two of <code>scores.shape</code>. A float mask keeps its numbers where the causal table is True, and is <code>-np.inf</code> elsewhere.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Mask <code>[[0.5, 7]]</code> for two keys, causal for one query and two keys <code>[[True, True]]</code>: together <code>[[0.5, 7]]</code>. For the first of two queries the causal row is <code>[True, False]</code>: together <code>[0.5, -inf]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "mask-scores", "solution": true}
#| export
def mask_scores(scores, mask=None, is_causal=False):
    """Rule out keys: scores (..., Tq, Tk) -> the same shape, -inf where a query may not look.

    mask: boolean (True takes part) or float (added), in a shape that stretches to (..., Tq, Tk); with ``is_causal``
    both hold.
    """
    if mask is not None:
        mask = fitted_mask(mask, scores)
    ### BEGIN SOLUTION
    if is_causal:
        causal = causal_mask(queries=scores.shape[-2], keys=scores.shape[-1])  # (Tq, Tk)
        if mask is not None:  # these are small: the scores are passed over once, below
            causal = mask * causal if mask.dtype == bool else where(causal, mask, -np.inf)
        mask = causal
    if mask is None:
        return scores
    return where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    ### END SOLUTION

# %%
ones = Tensor(np.ones((3, 3)))
print("causal:\n", mask_scores(ones, is_causal=True).data)
print("causal, and the first key is padding:\n", mask_scores(ones, np.array([False, True, True]), is_causal=True).data)

# %% nbgrader={"grade": true, "grade_id": "test-mask-scores", "points": 14, "skill": "masks"}
def test_mask_scores():
    """Each kind, both together, shapes that stretch, one pass."""
    no, scores = -np.inf, Tensor([[1, 2, 3], [4, 5, 6]])
    flags, extra = np.array([[True, False, True], [True, True, False]]), Tensor([[0.5, 0, no], [0, -1, 0]])
    check("no mask: the scores themselves", mask_scores(scores) is scores, True, {
        False: "something else came back: without a mask, and not causal, return what was given"})
    check("boolean", mask_scores(scores, flags).data, [[1, -np.inf, 3], [4, 5, -np.inf]], {
        ((no, 2, no), (no, no, 6)): "the wrong way round: True takes part",
        ((1, 0, 3), (4, 5, 0)): "0 is a score like any other: forbidden is -inf",
        ((1, -1e9, 3), (4, 5, -1e9)): "a number, however low, is a score like any other (section 3): forbidden is -inf",
        ((2, 2, 4), (5, 6, 6)): "the booleans were added"})
    check("the scores given are left as they were", scores.data, [[1, 2, 3], [4, 5, 6]], {
        ((1, no, 3), (4, 5, no)): "written into the caller's array: make a new one"})
    check("additive", mask_scores(scores, extra).data, [[1.5, 2, -np.inf], [4, 4, 6]], {
        ((no, 2, no), (4, no, 6)): "only 0 and -inf were understood: other numbers are added, too", ((0.5, 0, no), (0, -5, 0)): "multiplied: an additive mask is added"})
    check("causal: two queries, three keys", mask_scores(scores, is_causal=True).data, [[1, 2, -np.inf], [4, 5, 6]])
    check("causal and boolean", mask_scores(scores, flags, is_causal=True).data, [[1, -np.inf, -np.inf], [4, 5, -np.inf]], {
        ((1, no, 3), (4, 5, no)): "with a mask given, the causal one is forgotten",
        ((1, 2, no), (4, 5, 6)): "the causal mask has replaced the one that was given",
        ((1, 2, 3), (4, 5, 6)): "either holds; both must"})
    check("causal and additive", mask_scores(scores, Tensor([0.5, 0, 7]), is_causal=True).data, [[1.5, 2, -np.inf], [4.5, 5, 13]], {
        ((1.5, 2, 10), (4.5, 5, 13)): "with an additive mask the causal one is forgotten",
        ((1.5, 2, 3), (4.5, 5, 13)): "the additive mask times the causal one: 0 forbids nothing in a mask that is added; where(causal, mask, -inf)",
        ((1, 2, no), (4, 5, 6)): "the causal mask has replaced the one that was given",
        ((1.5, 2, -1e9), (4.5, 5, 13)): "a number, however low, is a score like any other (section 3): forbidden is -inf"})
    check("float16 stays", mask_scores(Tensor(np.zeros((2, 3), np.float16)), flags, is_causal=True).dtype.name, "float16", {
        "float32": "where of two Python numbers is a float32 Tensor, and everything it touches becomes one: give it the scores"})
    stack = Tensor(np.ones((2, 4, 3, 3)))
    present = np.array([[True, True, False], [True, True, True]]).reshape(2, 1, 1, 3)
    check("padding differs by sentence", (mask_scores(stack, present).data == no).sum(axis=(1, 3)), [[4, 4, 4], [0, 0, 0]])
    for kind, mask in (("boolean", present), ("additive", np.where(present, 0.0, no).astype(np.float32))):
        events = []
        with listen(events.append):
            got = mask_scores(stack, mask, is_causal=True)
        check(f"causal and {kind} padding: forbidden, by query", (got.data == no).sum(axis=(1, 3)), [[8, 4, 4], [8, 4, 0]])
        check(f"causal and {kind}: passes over the scores", sum(e.out_shape == stack.shape for e in events), 1, {
            2: "two passes over the largest array: bring the two masks together first"})


test_mask_scores()

# %% [markdown]
"""
**What if** an additive mask holds other numbers than 0 and `-inf`? The softmax takes powers, and exp(s + m) = exp(s) · exp(m): *adding* m to a score *multiplies* the power by exp(m). Four keys with equal scores:
"""

# %%
equal = Tensor(np.zeros((1, 4)))
for name, extra in (("0 everywhere", [0, 0, 0, 0]), ("log 2 on the first", [np.log(2), 0, 0, 0]), ("-inf on the last", [0, 0, 0, -np.inf]), ("-1 for each word of distance", [-3, -2, -1, 0])):
    print(f"{name:>28}: weights", *[f"{weight:.3f}" for weight in safe_softmax(mask_scores(equal, Tensor([extra]))).data[0]])

# %% [markdown]
"""
So 0 means "as it was", log 2 "twice as welcome", `-inf` "not at all": a boolean mask is the additive one with only 0 and `-inf` in it. The last line is how some models tell near from far, with no positions in the embeddings (Press, Smith and Lewis, 2021).

Now everything is there.

**Task.** Put it together. `attention_weights(query, key, mask=None, is_causal=False)`: scores, mask, softmax, in that order. `scaled_dot_product_attention(query, key, value, mask=None, is_causal=False)`: these weights mix the values:

```
weights (..., Tq, Tk) @ value (..., Tk, dv) -> (..., Tq, dv)
```

Example: with a causal mask the first query can look at the first key only, so its output is the first value.

<details><summary>Hint 1: idea</summary>
Three functions of yours, one inside the other; then one product.
</details>
<details><summary>Hint 2: approach</summary>
Mask <em>before</em> the softmax. A mask applied to the weights afterwards leaves rows that do not add up to 1, and what was forbidden has still counted in the sum.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Scores 0 and log 9, second key forbidden. Before: weights 1 and 0. Afterwards: the softmax says 0.1 and 0.9, the mask leaves 0.1 and 0, and nine tenths of the word are lost.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "attention", "solution": true}
#| export
def attention_weights(query, key, mask=None, is_causal=False):
    """How much each query takes from each key: (..., Tq, d) and (..., Tk, d) -> (..., Tq, Tk); rows add up to 1.

    mask: boolean (True takes part) or float (added to the scores), in a shape that stretches to (..., Tq, Tk);
    ``is_causal`` hides later keys as well. A query that may look at nothing has a row of zeros.
    """
    ### BEGIN SOLUTION
    return safe_softmax(mask_scores(attention_scores(query, key), mask, is_causal))
    ### END SOLUTION


def scaled_dot_product_attention(query, key, value, mask=None, is_causal=False):
    """Mix the values by the attention weights: value (..., Tk, dv) -> (..., Tq, dv); masks as in attention_weights.

    Source: Vaswani and others, 2017. It does not drop weights at random: ``MultiHeadAttention`` does.
    """
    ### BEGIN SOLUTION
    return attention_weights(query, key, mask, is_causal) @ value  # (..., Tq, Tk) @ (..., Tk, dv) -> (..., Tq, dv)
    ### END SOLUTION

# %%
by_loops, _ = attention_by_loops(query, key, value, scale=2**-0.5)
by_matmul = attention_weights(Tensor(query), Tensor(key))
print("by loops:\n", by_loops.round(4), "\nby two matrix products:\n", by_matmul.data.round(4))
print("largest difference:", f"{np.abs(by_loops - by_matmul.data).max():.1g}")

# %% nbgrader={"grade": true, "grade_id": "test-attention", "points": 10, "skill": "attention"}
from tinytorch.core.autograd import check_gradient


def test_attention():
    """Against the formula; the future and the hidden contribute exactly nothing; gradients."""
    random = np.random.default_rng(0).standard_normal
    q, k, v = random((2, 3, 4, 9)), random((2, 3, 5, 9)), random((2, 3, 5, 7))
    powers = np.exp(q @ k.swapaxes(2, 3) / 3)
    powers /= powers.sum(-1, keepdims=True)
    weights = attention_weights(Tensor(q), Tensor(k))
    check("four queries, five keys", weights.shape, (2, 3, 4, 5))
    check("weights of the last query", weights.data[1, 2, 3], powers[1, 2, 3], rtol=1e-4)
    check("weights of all", bool(np.allclose(weights.data, powers, rtol=1e-3)), True)
    mixed = scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v))
    check("mixed values of the last query", mixed.data[1, 2, 3], (powers @ v)[1, 2, 3], {
        tuple((powers @ k)[1, 2, 3]): "that mixes the keys: want the values"}, rtol=1e-3, atol=1e-5)
    four_k, four_v = Tensor(k[:, :, :4]), Tensor(v[:, :, :4])
    share = np.exp(q @ k[:, :, :4].swapaxes(2, 3) / 3)[0, 1, 0]
    share /= share.sum()
    check("causal: the first query's weights", attention_weights(Tensor(q), four_k, is_causal=True).data[0, 1, 0], [1.0, 0.0, 0.0, 0.0], {
        tuple(share): "is_causal is not handed on", (share[0], 0.0, 0.0, 0.0): "masked after the softmax: the row no longer adds up to 1",
        (share[0], -np.inf, -np.inf, -np.inf): "masked after the softmax: first the mask, then the softmax"}, rtol=1e-4)
    first = scaled_dot_product_attention(Tensor(q), four_k, four_v, is_causal=True).data[0, 1, 0]
    check("causal: the first output is the first value", first, v[0, 1, 0], {
        tuple(share @ v[0, 1, :4]): "is_causal is not handed on"}, rtol=1e-4)
    keep = np.array([True, False, True, True, False])
    weights = attention_weights(Tensor(q), Tensor(k), keep)
    check("with two keys hidden, rows still add up to 1", float(weights.data.sum(-1).min()), 1.0, rtol=1e-5)
    before = scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v), keep, is_causal=True).data
    k[:, :, ~keep], v[:, :, ~keep] = 1000.0, -1000.0
    after = scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v), keep, is_causal=True).data
    check("hidden keys and values may be anything: not a bit changes", np.array_equal(before, after), True, {
        False: "the mask does not reach the scores: hand it on in both functions"})
    nothing = scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v), np.zeros((4, 5), bool)).data
    check("nothing to look at: zeros", bool((nothing == 0).all()), True, {
        False: "not zeros: is it your safe_softmax that makes the weights?"})
    small = [Tensor(array) for array in (random((3, 2)), random((4, 2)), random((4, 3)))]
    rows = np.array([[True] * 4, [False] * 4, [True, False, True, True]])
    worst = check_gradient(lambda q, k, v: scaled_dot_product_attention(q, k, v, rows, is_causal=True), *small)
    check("the gradient is right, one query seeing nothing", bool(worst < 1e-6), True)


test_attention()

# %% [markdown]
"""
**Look.** Eight words, each with a random vector, the same word always with the same one; random matrices make queries and keys of them. Left the weights without a mask, in the middle the causal ones, on the right "by" and what follows counts as padding. Grey is a weight of exactly 0. Before you run:
two columns of the left picture will be exactly equal. Which, and why?
"""

# %%
import matplotlib.pyplot as plt

sentence = ["she", "sells", "sea", "shells", "by", "the", "sea", "shore"]
rng = np.random.default_rng(4)
vectors = {word: rng.standard_normal(16) for word in dict.fromkeys(sentence)}
x = Tensor(np.array([vectors[word] for word in sentence]))  # (8, 16)
to_query, to_key = (Tensor(rng.standard_normal((16, 16)) / 3) for _ in range(2))
present = np.arange(8) < 4
pictures = {"no mask": {}, "causal": {"is_causal": True}, "padding after 'shells'": {"mask": present}}
blues = plt.get_cmap("Blues").with_extremes(bad="0.8")  # what is masked out of the array below is drawn grey
fig, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharey=True, layout="constrained")
for ax, (title, how) in zip(axes, pictures.items()):
    weights = attention_weights(x @ to_query, x @ to_key, **how).data
    shown = ax.imshow(np.ma.masked_equal(weights, 0), cmap=blues, vmin=0, vmax=1)
    ax.set(title=title, xlabel="looked at (key)", xticks=range(8), yticks=range(8))
    ax.set_xticklabels(sentence, rotation=60)
    ax.set_yticklabels(sentence)
axes[0].set_ylabel("who looks (query)")
colours = fig.colorbar(shown, ax=axes, label="weight")
unmasked = attention_weights(x @ to_query, x @ to_key).data
print("largest difference between the columns of the two 'sea':", np.abs(unmasked[:, 2] - unmasked[:, 6]).max())

# %% [markdown]
"""
The two columns of "sea": the same vector makes the same key. Their rows are equal, too: *attention does not know where a word stands*. (In the middle picture the rows of the two "sea" differ, because the second may see more.) Look also at the first row in the middle: "she" can only
look at herself, so all her weight is there. And on the right whole *columns* are grey, and no row: padding is hidden as a key, so nobody looks at it, but it still *asks*, and gets an answer that means nothing. Section 7 shows what becomes of it.

## 5. What a mask is worth

**Bet.** Change the last word of a sentence of six. How many of the six outputs change without a mask? With the causal mask?
"""

# %%
my_bet = (None, None)  # without, with
rng = np.random.default_rng(1)
x = rng.standard_normal((6, 16)).astype(np.float32)
changed = x.copy()
changed[-1] = rng.standard_normal(16)


def itself(x, **how):
    return scaled_dot_product_attention(Tensor(x), Tensor(x), Tensor(x), **how).data


for how in ({}, {"is_causal": True}):
    moved = np.abs(itself(x, **how) - itself(changed, **how)).max(axis=-1)
    print(f"{'causal' if how else 'no mask':>8}: {np.count_nonzero(moved)} of 6 outputs move, by {[float(f'{n:.2g}') for n in moved]}")
print("your bet:", my_bet)

# %% [markdown]
"""
Without the mask *every* output knows the last word, so a model trained to say the next word would read it off, reach a loss near 0, and be unable to write a sentence on its own, where there is no next word to read. The zeros in the other line are not small numbers: not
a bit moves.

**Bet.** Shuffle the words of a sentence and attend without a mask. What happens to the outputs?
"""

# %%
order = np.random.default_rng(2).permutation(6)
print("order", order.tolist())
print("outputs of the shuffled = shuffled outputs, up to", f"{np.abs(itself(x[order]) - itself(x)[order]).max():.1g}")
print("the same with a causal mask:", f"{np.abs(itself(x[order], is_causal=True) - itself(x, is_causal=True)[order]).max():.1g}")

# %% [markdown]
"""
The outputs are shuffled with the words, and that is all: "dog bites man" and "man bites dog" are one sentence to it. This is why positions are *added* to the embeddings (Module 11). The causal mask breaks the symmetry a little, since it knows who comes first.

**What if** a mask is written as a list? Module 01's Tensor makes float32 of every Python list, of booleans too:
"""

# %%
four = Tensor(np.zeros((1, 4)))
keys = Tensor(np.zeros((4, 4)))
for name, mask in (("Tensor([True, False, ...])", Tensor([True, False, False, False])), ("np.array([True, False, ...])", np.array([True, False, False, False]))):
    print(f"{name:>29}: weights", *[f"{weight:.3f}" for weight in attention_weights(four, keys, mask).data[0]])

# %% [markdown]
"""
In the first line the mask became 1.0 and 0.0, an *additive* mask, which merely prefers. Nothing is hidden, no error is raised, and the model leaks. Make masks by comparing (`tokens != 0`), from NumPy's booleans, or with `causal_mask`.
"""

# %% [markdown]
"""
## 6. Heads

**Question.** A word wants a noun *and* its article *and* the last verb. One softmax has one favourite. How does a word look for several things?

By doing attention several times side by side, each time with a part of the features: `h` **heads**, each of `dk = D / h` features, with its own queries, keys and weights. Splitting is only another way to read the same numbers:

```
x               (B, T, D)          each word: D features in a row
reshape         (B, T, h, dk)      each word: h pieces of dk features
swap T and h    (B, h, T, dk)      each head: its own T words of dk features
```

After that the heads are a leading axis, and your attention treats leading axes as a stack, so nothing in it has to change. Joining goes the same way back.

**Task.** Write `split_heads(x, num_heads)`: `(..., T, D) -> (..., h, T, dk)`, and `join_heads(x)`: `(..., h, T, dk) -> (..., T, D)`, for any number of leading axes, none included, and for empty ones.

- You may use `x.reshape(*sizes)` and `x.transpose(axes)`; the tuple `axes` names the old axes in their new order.
- Given: `swapped(rank)`, the order in which the axes third and second from the end change places, as in `swapped(4) == (0, 2, 1, 3)`; and a check of the sizes.
- Splitting moves nothing in memory: both steps are views.
- Name every size: in an empty batch a -1 has nothing to be computed from.

Example: one word `[1, 2, 3, 4, 5, 6]` with 3 heads: head 0 gets `[1, 2]`, head 1 `[3, 4]`, head 2 `[5, 6]`.

<details><summary>Hint 1: idea</summary>
A reshape may only cut an axis in two, or glue two neighbours together. T and h must be brought side by side or apart by a transpose, never by a reshape.
</details>
<details><summary>Hint 2: approach</summary>
<code>*x.shape[:-1]</code> hands on all axes but the last. Splitting: reshape, then swap. Joining: swap, then reshape.
</details>
<details><summary>Hint 3: worked example, other shapes</summary>
Pixels in patches: (6, 8) cut into blocks of 2 rows: reshape to (3, 2, 8); patch and row are now two axes, and a transpose to (2, 3, 8) puts "which row of the patch" first.
</details>
"""

# %%
#| export
def swapped(rank):
    """Return the axes of a tensor of ``rank`` axes in order, but with the third and second from the end exchanged."""
    return (*range(rank - 3), rank - 2, rank - 3, rank - 1)

# %% nbgrader={"grade": false, "grade_id": "split-heads", "solution": true}
#| export
def split_heads(x, num_heads):
    """Cut the features into heads: (..., T, D) -> (..., h, T, dk) with dk = D / h."""
    if x.ndim < 2 or x.shape[-1] % num_heads:
        raise ValueError(f"x {x.shape} with {num_heads} heads: want (..., T, D) with D a multiple of {num_heads}")
    ### BEGIN SOLUTION
    x = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (..., T, h, dk)
    return x.transpose(swapped(x.ndim))  # (..., h, T, dk)
    ### END SOLUTION


def join_heads(x):
    """Put the heads side by side again: (..., h, T, dk) -> (..., T, D) with D = h dk."""
    ### BEGIN SOLUTION
    x = x.transpose(swapped(x.ndim))  # (..., T, h, dk)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])  # (..., T, D)
    ### END SOLUTION

# %%
x = Tensor(np.arange(12).reshape(2, 6))  # two words of six features
heads = split_heads(x, 3)
print(x.data, "split into 3 heads:", *heads.data, "and joined:", join_heads(heads).data, sep="\n")

# %% nbgrader={"grade": true, "grade_id": "test-heads", "points": 10, "skill": "heads"}
def test_heads():
    """Which number goes to which head; the way back; leading axes; no copy."""
    x = Tensor(np.arange(12).reshape(2, 6))
    check("two words, three heads", split_heads(x, 3).data, [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]], {
        (((0, 1), (2, 3)), ((4, 5), (6, 7)), ((8, 9), (10, 11))): "reshaped straight to (h, T, dk): that mixes the words; cut the features first, then swap",
        (((0, 3), (6, 9)), ((1, 4), (7, 10)), ((2, 5), (8, 11))): "cut into (dk, h): a head takes neighbouring features",
        (((0, 1, 2), (6, 7, 8)), ((3, 4, 5), (9, 10, 11))): "cut into (dk, h): h comes first, then dk",
        (((0, 1), (2, 3), (4, 5)), ((6, 7), (8, 9), (10, 11))): "cut, and not swapped: the heads must stand before the words",
        (((0, 2, 4), (1, 3, 5)), ((6, 8, 10), (7, 9, 11))): "the wrong two axes changed places: it is words and heads, third and second from the end"})
    check("shapes: five words, four features, two heads", split_heads(Tensor(np.zeros((7, 3, 5, 4))), 2).shape, (7, 3, 2, 5, 2))
    check("joined, two heads of three words", join_heads(Tensor(np.arange(12).reshape(2, 3, 2))).data, [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]], {
        ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)): "glued without swapping back: that mixes the heads' words",
        ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11)): "glued without swapping back: each row holds all words of one head"})
    x = Tensor(np.random.default_rng(0).standard_normal((2, 5, 12)))
    check("there and back", all(np.array_equal(join_heads(split_heads(x, h)).data, x.data) for h in (1, 2, 3, 4, 12)), True)
    check("splitting copies nothing", bool(np.shares_memory(split_heads(x, 4).data, x.data)), True)
    check("no sentence at all", join_heads(split_heads(Tensor(np.zeros((0, 5, 4))), 2)).shape, (0, 5, 4))


test_heads()

# %% [markdown]
"""
**What if** somebody reshapes straight to `(h, T, dk)`? The shape is right, the model trains, and a "head" is a few consecutive *words*:
"""

# %%
names = np.array([[f"{word}{feature}" for feature in range(4)] for word in "abc"])  # three words of four features
print("head 0 by reshape alone:   ", *names.reshape(2, 3, 2)[0].tolist())
print("head 0 cut, then swapped:  ", *names.reshape(3, 2, 2).swapaxes(0, 1)[0].tolist())

# %% [markdown]
"""
## 7. The layer

**Question.** Who makes queries, keys and values?

Three linear layers, learned like all others. A fourth mixes what the heads found. With `D` for `embed_dim`:

```
query (B, Tq, D) ──q_proj──▶ (B, Tq, D) ──split──▶ (B, h, Tq, dk) ┐
key   (B, Tk, D) ──k_proj──▶ (B, Tk, D) ──split──▶ (B, h, Tk, dk) ┼▶ weights (B, h, Tq, Tk) ─▶ @ v (B, h, Tq, dk) ─join─▶ (B, Tq, D) ──out_proj──▶ (B, Tq, D)
value (B, Tk, D) ──v_proj──▶ (B, Tk, D) ──split──▶ (B, h, Tk, dk) ┘
```

If the three inputs are the same text, that is **self-attention**. If queries come from one text and keys and values from another (a translation that looks at the original), it is **cross attention**, and `Tq` may differ from `Tk`.

The scores now have the shape `(B, h, Tq, Tk)`. **How does a mask meet the heads? Count its axes.**

- As many axes as the scores: the mask has a head axis, third from the end (of size 1 if all heads share it). It is taken as it stands.
- Fewer axes: the mask knows nothing of heads, so **all heads share it**. Its last two axes are queries and keys, and the layer puts the head axis in before them.

| the mask says | you have | the layer reads |
|---|---|---|
| who may look at whom, the same in all texts | `(Tq, Tk)` | `(1, 1, Tq, Tk)` |
| who may look at whom, text by text | `(B, Tq, Tk)` | `(B, 1, Tq, Tk)` |
| something of its own for each head | `(1, h, Tq, Tk)` or `(B, h, Tq, Tk)` | as it stands |
| which tokens of each text are no padding | `(B, T)` | `padding_mask` first: `(B, 1, 1, T)` |

Given: `over_heads(mask, rank)`, which is this rule; `rank` is the number of axes of the scores. With two axes or one there is nothing to put in: shapes line up at the right, and NumPy's stretching does it.
"""

# %%
#| export
def over_heads(mask, rank):
    """Return ``mask`` for scores of ``rank`` axes (..., h, Tq, Tk): one with fewer axes is shared by all heads.

    (Tq, Tk) stays as it is; (B, Tq, Tk) becomes (B, 1, Tq, Tk); with ``rank`` axes the mask has a head axis already.
    """
    mask = as_mask(mask)
    if 2 < mask.ndim < rank:
        return mask.reshape(*mask.shape[:-2], 1, *mask.shape[-2:])
    return mask

# %%
for what, shape in (("the same for all", (5, 7)), ("text by text", (2, 5, 7)), ("head by head", (1, 3, 5, 7)), ("all its own", (2, 3, 5, 7))):
    print(f"{what:>16}: {str(shape):>12} becomes {over_heads(np.ones(shape, bool), rank=4).shape}")

# %% [markdown]
"""
Two masks are easily misread. A bare `(B, T)` of tokens has two axes, so it is read as `(Tq, Tk)`; and in a batch a bare `(h, Tq, Tk)` has one axis too few, so it is read text by text. When the sizes differ, both are refused (only a B of 1 stretches, and `(1, T)` then means the right thing). When B happens to equal T, or h, nobody can know: so give
padding through `padding_mask`, and masks for single heads with all their axes.

**Task.** Write `padding_mask(present)`: `(..., T) -> (..., 1, 1, T)`, one reshape. `present` may be a Tensor or an array, boolean or additive; the first line, given, makes a Tensor of it. Example: `padding_mask(tokens != 0)` for `tokens` of shape `(B, T)` that are padded with 0.

<details><summary>Hint 1: idea</summary>
Two axes of size 1 go in just before the last one: one for the heads, one for the queries.
</details>
<details><summary>Hint 2: approach</summary>
<code>*present.shape[:-1]</code>, two ones, <code>present.shape[-1]</code>.
</details>
<details><summary>Hint 3: worked example, another place</summary>
A column vector for each row: <code>x.reshape(*x.shape, 1)</code> makes (B, T, 1) of (B, T).
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "padding-mask", "solution": true}
#| export
def padding_mask(present):
    """Make a mask for all heads and queries out of what is no padding: (..., T), True for a token -> (..., 1, 1, T)."""
    present = as_mask(present)
    ### BEGIN SOLUTION
    return present.reshape(*present.shape[:-1], 1, 1, present.shape[-1])
    ### END SOLUTION

# %%
tokens = Tensor(np.array([[5, 3, 8, 2], [7, 1, 0, 0]]))  # two texts; the second has two words, then padding
print(padding_mask(tokens != 0).shape, padding_mask(tokens != 0).data.astype(int).tolist())

# %% nbgrader={"grade": true, "grade_id": "test-padding-mask", "points": 4, "skill": "masks"}
def test_padding_mask():
    """Shapes, values, kinds."""
    present = np.array([[True, True, True], [True, False, False]])
    check("the type of what comes out", type(padding_mask(present)).__name__, "Tensor", {"ndarray": "NumPy's array: use the Tensor's own reshape"})
    check("two texts of three", padding_mask(present).shape, (2, 1, 1, 3), {
        (1, 1, 2, 3): "the new axes belong between the text and its words", (2, 1, 3): "one axis short: heads and queries both stretch",
        (2, 3, 1, 1): "the words must stay the last axis: they are the keys", (2, 1, 3, 1): "the words must stay the last axis: they are the keys"})
    check("the words stay where they were", padding_mask(Tensor(present)).data[:, 0, 0], present, {
        ((False, False, False), (False, True, True)): "the wrong way round: True takes part"})
    check("one text, no batch", padding_mask(present[0]).shape, (1, 1, 3))
    check("additive stays additive", padding_mask(Tensor([[0.0, -np.inf]])).dtype.name, "float32")


test_padding_mask()

# %% [markdown]
"""
**Task.** Write the core of `MultiHeadAttention`.

In `__init__` (sizes are checked already, and `self.embed_dim` and `self.num_heads` are set) make the four projections `q_proj`, `k_proj`, `v_proj`, `out_proj`, in this order, each `Linear(in_features, out_features, bias, rng)` from `embed_dim` to `embed_dim`.

In `forward`, from left to right through the picture (a missing key or value is filled in already):

1. project query, key and value, and split each into heads;
2. if there is a mask, bring it over the heads. The scores have as many axes as `q` or `k` after splitting, whichever has more: one query text may look at a whole batch of others;
3. make the weights, and **drop** some with `self.dropout(weights)`: it is a `Dropout`, which does nothing in evaluation or with probability 0. What is dropped are weights, not scores and not features: now and then a word may not look at another;
4. mix the values, join the heads, project.

Example: `MultiHeadAttention(8, 2)` on `(5, 3, 8)` gives `(5, 3, 8)`, and holds 4 · (8 · 8 + 8) = 288 numbers.

<details><summary>Hint 1: idea</summary>
Nothing new: four linear layers around functions that you have.
</details>
<details><summary>Hint 2: approach</summary>
<code>scaled_dot_product_attention</code> hides its weights, and you need them, to drop some: <code>attention_weights</code> shows them. <code>x.ndim</code> is the number of axes.
</details>
<details><summary>Hint 3: worked example, shapes with other numbers</summary>
D = 12, 3 heads, query (2, 5, 12), key and value (2, 7, 12): q (2, 3, 5, 4), k and v (2, 3, 7, 4), weights (2, 3, 5, 7), mixed (2, 3, 5, 4), joined (2, 5, 12).
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "multi-head-attention", "solution": true}
#| export
class MultiHeadAttention(Layer):
    """Several attentions side by side, each on its own part of the features: (..., T, embed_dim) -> the same shape.

    Four projections (``q_proj, k_proj, v_proj, out_proj``), each a ``Linear(embed_dim, embed_dim)``. ``d_model=`` is
    another name of ``embed_dim=``. ``dropout_prob`` drops attention weights in training.
    Source: Vaswani and others, 2017.
    """

    def __init__(self, embed_dim=None, num_heads=None, bias=True, dropout_prob=0.0, rng=None, d_model=None):
        """Draw the projections; ``embed_dim`` must be a multiple of ``num_heads``."""
        if (embed_dim is None) == (d_model is None):
            raise TypeError("embed_dim and d_model are two names of one argument; give one of them")
        self.embed_dim = positive("embed_dim", d_model if embed_dim is None else embed_dim)
        self.num_heads = positive("num_heads", num_heads)
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim {self.embed_dim} with num_heads {self.num_heads}: want a multiple of it")
        self.dropout_prob, self.dropout = dropout_prob, Dropout(dropout_prob, rng)
        ### BEGIN SOLUTION
        self.q_proj = Linear(self.embed_dim, self.embed_dim, bias, rng)
        self.k_proj = Linear(self.embed_dim, self.embed_dim, bias, rng)
        self.v_proj = Linear(self.embed_dim, self.embed_dim, bias, rng)
        self.out_proj = Linear(self.embed_dim, self.embed_dim, bias, rng)
        ### END SOLUTION

    def forward(self, query, key=None, value=None, mask=None, is_causal=False):
        """Attend: query (..., Tq, D), key and value (..., Tk, D) -> (..., Tq, D); without a key, to itself.

        mask: boolean (True takes part) or float (added), for scores (..., h, Tq, Tk); one with fewer axes is shared
        by all heads: (Tq, Tk) or (B, Tq, Tk). For (B, T) of tokens that are no padding: ``padding_mask``.
        """
        key = query if key is None else key
        value = key if value is None else value
        ### BEGIN SOLUTION
        q = split_heads(self.q_proj(query), self.num_heads)  # (..., Tq, D) -> (..., h, Tq, dk)
        k = split_heads(self.k_proj(key), self.num_heads)  # (..., h, Tk, dk)
        v = split_heads(self.v_proj(value), self.num_heads)  # (..., h, Tk, dk)
        if mask is not None:
            mask = over_heads(mask, max(q.ndim, k.ndim))
        weights = self.dropout(attention_weights(q, k, mask, is_causal))  # (..., h, Tq, Tk)
        return self.out_proj(join_heads(weights @ v))  # (..., h, Tq, dk) -> (..., Tq, D)
        ### END SOLUTION

    def __repr__(self):
        return f"MultiHeadAttention({self.embed_dim}, {self.num_heads})"

# %%
layer = MultiHeadAttention(8, 2, rng=np.random.default_rng(0))
print(layer, [f"{name} {p.shape}" for name, p in layer.named_parameters()], layer(Tensor(np.ones((5, 3, 8)))).shape, sep="\n")

# %% nbgrader={"grade": true, "grade_id": "test-multi-head-attention", "points": 12, "skill": "layer"}
def test_multi_head_attention():
    """Head by head, cross attention, masks, dropout, parameters."""
    rng = np.random.default_rng(0)
    layer = MultiHeadAttention(12, 3, rng=np.random.default_rng(7))
    check("numbers it holds", sum(p.size for p in layer.parameters()), 4 * (12 * 12 + 12), {
        3 * (12 * 12 + 12): "one projection is missing", 4 * 12 * 12: "the biases are missing",
        312: "q, k and v lead to the features of one head: all heads together make embed_dim"})
    check("bias=False", sum(p.size for p in MultiHeadAttention(12, 3, bias=False).parameters()), 576, {
        588: "one projection does not get bias", 624: "bias is not handed on"})
    drawn = np.random.default_rng(7)
    check("drawn from rng, in order", [np.array_equal(p.weight.data, Linear(12, 12, rng=drawn).weight.data) for p in (
        layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)], [True] * 4, {
            (False,) * 4: "other numbers: is rng handed on to all four, and is q_proj made first?"})
    query, key, value = (rng.standard_normal((2, n, 12)) for n in (5, 7, 7))
    allowed = rng.random((2, 5, 7)) > 0.4

    def by_hand(allowed=1, query=query, key=key, value=value, v_proj=layer.v_proj, root=2, last=layer.out_proj.weight.data):
        q, k, v = (x @ p.weight.data for x, p in ((query, layer.q_proj), (key, layer.k_proj), (value, v_proj)))
        found = np.zeros((2, 5, 12))
        for head in range(3):
            part = slice(4 * head, 4 * head + 4)
            powers = np.exp(q[..., part] @ k[..., part].swapaxes(1, 2) / root) * allowed
            found[..., part] = powers / powers.sum(-1, keepdims=True) @ v[..., part]
        return found @ last

    def compare(what, got, want, **likely):
        """Show the start of one vector and name the mistake; then compare all."""
        check(f"{what}: second text, second query", got.data[1, 1, :4], want[1, 1, :4], {
            tuple(wrong[1, 1, :4]): text for text, wrong in likely.items()}, rtol=1e-3, atol=1e-4)
        check(f"{what}: all of it", bool(np.allclose(got.data, want, atol=1e-4)), True)

    inputs = [Tensor(x) for x in (query, key, value)]
    compare("cross attention, head by head", layer(*inputs), by_hand(), **{
        "the values come from key, not from value": by_hand(value=key), "keys and values have changed places": by_hand(key=value, value=key),
        "the values went through k_proj": by_hand(v_proj=layer.k_proj), "out_proj is missing": by_hand(last=np.eye(12)),
        "the scale is that of all features: a head's has dk of them": by_hand(root=12**0.5), "causal, though nobody asked for it": by_hand(np.tri(5, 7, 2)),
        "the query was added: that comes in Module 13": by_hand() + query})
    compare("a mask for each text", layer(*inputs, mask=allowed), by_hand(allowed), **{"the mask is not handed on": by_hand()})
    present = np.arange(7) < np.array([[7], [3]])
    compare("padding", layer(*inputs, mask=padding_mask(present)), by_hand(present[:, None]), **{"the mask is not handed on": by_hand()})
    compare("causal", layer(*inputs, is_causal=True), by_hand(np.tri(5, 7, 2)), **{"is_causal is not handed on": by_hand()})
    x = Tensor(query)
    check("self-attention", np.array_equal(layer(x).data, layer(x, x, x).data), True)
    check("one text, no batch, a mask for each of three heads", layer(Tensor(query[0]), mask=np.ones((3, 5, 5), bool)).shape, (5, 12))
    check("the other name", MultiHeadAttention(d_model=12, num_heads=3)(x).shape, (2, 5, 12))
    dropping, events = MultiHeadAttention(12, 3, dropout_prob=0.5, rng=rng), []
    with listen(events.append):
        dropping(*inputs)
    check("in training, dropout is on the weights", [e.out_shape for e in events if e.op.name == "dropout_mask"], [(2, 3, 5, 7)], {
        (): "nothing is dropped", ((2, 5, 12),): "dropout is on the output, not on the weights", ((2, 3, 7, 4),): "dropout is on the values, not on the weights",
        ((2, 3, 5, 7), (2, 5, 12)): "dropped twice: the weights, and the output"})
    whole = MultiHeadAttention(12, 3, dropout_prob=1.0)
    check("with every weight dropped only the last bias remains", bool(np.allclose(whole(*inputs).data, whole.out_proj.bias.data)), True, {
        False: "something still comes through: drop the weights, not the scores (a score of 0 is a score like any other)"})
    check("in evaluation nothing is dropped", np.array_equal(dropping.eval()(*inputs).data, dropping(*inputs).data), True)


test_multi_head_attention()

# %% [markdown]
"""
**What if** texts of different length share a batch? Three of them, padded to four words: a full one, one of two words, and an empty one. The last projection gets a bias that you will recognize. **Guess** three things before you run. Does the short text notice that it is padded? What
comes out at its two padded places? And what at the places of the empty text, where *every* key is forbidden?
"""

# %%
rng = np.random.default_rng(3)
layer = MultiHeadAttention(4, 2, rng=rng)
layer.out_proj.bias.data[:] = [1, 2, 3, 4]  # as if it had been learned
batch = np.zeros((3, 4, 4), np.float32)
batch[0], batch[1, :2] = rng.standard_normal((4, 4)), rng.standard_normal((2, 4))
present = np.arange(4) < np.array([[4], [2], [0]])  # (3, 4)
out = layer(Tensor(batch), mask=padding_mask(present)).data
for text, (rows, flags) in enumerate(zip(out, present)):
    for row, flag in zip(rows, flags):
        print(f"text {text}, {'word' if flag else 'padding':>7}:", *[f"{number:6.3f}" for number in row])
alone = layer(Tensor(batch[1, :2])).data
print("the two words alone against padded:", f"{np.abs(alone - out[1, :2]).max():.1g}", " and without the mask:", f"{np.abs(alone - layer(Tensor(batch)).data[1, :2]).max():.1g}")
filled = np.where(present[..., None], batch, np.float32(9))
print("other numbers in the padding: the words' outputs are the same to the bit:", np.array_equal(layer(Tensor(filled), mask=padding_mask(present)).data[present], out[present]))

# %% [markdown]
"""
- **Words** do not notice. Alone, or padded and masked, they get the same; without the mask they do not.
- **Padded places** get numbers, too. They asked, and were answered from the two words. Nobody looks at them, and nothing is wrong as long as the *loss* leaves them out: that is not the mask's business.
- **Where every key is forbidden** the weights are zeros, so the mix is zeros, and `out_proj` adds its bias: 1, 2, 3, 4. Not zero, but a constant, and no NaN.

**What if** the keys come from another text? A translation of three words looks at an original of five, whose last word is padding:
"""

# %%
translation, original = rng.standard_normal((1, 3, 4)), rng.standard_normal((1, 5, 4))
present = np.arange(5)[None] < 4  # (1, 5): about the *original*, since a mask is about keys
looked_at = attention_weights(split_heads(layer.q_proj(Tensor(translation)), 2), split_heads(layer.k_proj(Tensor(original)), 2), padding_mask(present))
print("weights (B, h, Tq, Tk): ", looked_at.shape, "\nhead 0\n", looked_at.data[0, 0].round(3), "\nhead 1\n", looked_at.data[0, 1].round(3), sep="")
print("output:", layer(Tensor(translation), Tensor(original), mask=padding_mask(present)).shape)

# %% [markdown]
"""
One row for each word that asks, one column for each that is asked, and as many outputs as words that ask. The mask speaks of keys, so it is made from the *original*. (`is_causal` makes little sense here: it compares places in one text with places in another.) And the two heads do not
prefer the same words.

The checks of sizes at work, each in one sentence:
"""

# %%
x = Tensor(np.zeros((2, 5, 4)))
attempts = (lambda: MultiHeadAttention(64, 5), lambda: MultiHeadAttention(64, 4, d_model=64), lambda: layer(x, mask=np.ones((5, 5), int)), lambda: layer(x, mask=np.ones((2, 5), bool)))
for attempt in attempts:
    try:
        attempt()
    except (ValueError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
"""
## 8. What it costs

**Bet.** 64 features, a text of 10 words. How do the number of parameters and the multiply-adds change from 1 head to 8?

Listen, and add up: a product of `(m, k)` and `(k, n)` costs `m · k · n` multiply-adds, 2 FLOPs each, and `linear` is such a product, too. The shapes are in the event:
"""

# %%
from math import prod

my_bet = (None, None)
for heads in (1, 2, 4, 8):
    layer, events = MultiHeadAttention(64, heads), []
    with listen(events.append):
        layer(Tensor(np.zeros((1, 10, 64))))
    products = [e for e in events if e.op.name in ("linear", "matmul")]
    flops = [2 * prod(e.out_shape) * e.in_shapes[0][-1] for e in products]  # 2 · (m n, for the whole stack) · k
    print(f"{heads} heads: {sum(p.size for p in layer.parameters()):,} parameters, {sum(flops):,} FLOPs;", *[f"{e.in_shapes[0]} @ {e.in_shapes[1]}" for e in products if e.op.name == "matmul"])
print(f"projections {sum(n for n, e in zip(flops, products) if e.op.name == 'linear'):,}, attention {sum(n for n, e in zip(flops, products) if e.op.name == 'matmul'):,}; your bet: {my_bet}")

# %% [markdown]
"""
Neither moves. `h` heads of `D / h` features: the `h` cancels. Heads are a way of reading the same numbers, so they are free in this currency (not in another: the *weights* are `h` tables of `T · T`).

**What it means for a real model.** Those tables are where attention hurts. GPT-2 small has 12 heads and 768 features. How many bytes do the weights of *one* layer take for *one* text, and when the text doubles? The next cell runs the layer on shapes only: nothing is computed, no such array is made.
"""

# %%
print("    T   bytes of the weights   arrays of that size   FLOPs: scores and mix against projections")
for T in (512, 1024, 1536, 3072):
    events = []
    with shape_only(), listen(events.append):
        MultiHeadAttention(768, 12)(Tensor(np.broadcast_to(np.float32(0), (1, T, 768))), is_causal=True)
    flops = {name: sum(2 * prod(e.out_shape) * e.in_shapes[0][-1] for e in events if e.op.name == name) for name in ("linear", "matmul")}
    tables = [e for e in events if e.out_shape == (1, 12, T, T)]
    print(f"{T:5} {4 * prod(tables[-1].out_shape):22,} {len(tables):21} {flops['matmul'] / flops['linear']:14.2f}    {', '.join(e.op.name for e in tables) if T == 512 else ''}")

# %% [markdown]
"""
Twice the text, four times the bytes; and that is one of five arrays of that size which your layer makes (scores, masked scores, differences, powers, weights), in one layer of twelve. In FLOPs the T² part reaches the projections only at `T = 2 D`, here 1,536 words: **long before attention is
expensive to compute, it is expensive to hold.** So much of what has been invented since (caching keys, Module 17; making fewer passes, Module 18; never writing the table at all) is about bytes, not about arithmetic.

**Reflect.** Answer first, then open.

<details><summary>Why is forbidden <code>-inf</code> before the softmax and not 0 after it?</summary>
After it, the forbidden scores have already counted in the sum: rows no longer add up to 1, and each allowed weight still depends on what was forbidden. The future leaks through the denominator.
</details>
<details><summary>Two texts of 3 and 90 words are in one batch, padded to 90. What is wasted, and what would be wrong without a mask?</summary>
For the short text 87 of 90 queries are computed and thrown away, and of the weights all but 9 of 8,100. Without the mask its three words would take most of their weight from padding, and their outputs would depend on how long the <em>other</em> text is.
</details>
<details><summary>A hidden value is NaN. Is the output NaN?</summary>
Yes: its weight is exactly 0, but 0 · NaN is NaN. "May be anything" means any finite number. Pad with zeros.
</details>
<details><summary>Why not scale by 1/d, so that scores are surely small?</summary>
Their variance would be 1/d: all weights nearly equal, every output nearly the mean of all values, and hardly any slope to get away from that.
</details>
<details><summary>Scores need <code>Wq</code> and <code>Wk</code> only as a product. Why not learn that one matrix?</summary>
The scores of a head are <code>x Wq Wkᵀ xᵀ</code>, and <code>Wq Wkᵀ</code> is a (D, D) matrix of rank dk at most. Two thin matrices hold 2 D dk numbers in place of D² (GPT-2 small: 2 · 768 · 64 in place of 768 · 768), and keys of dk numbers can be computed once and kept.
</details>
<details><summary>In a text without a mask, is the order of the words lost altogether?</summary>
In the outputs of this layer, yes, unless positions were added to its input. With a causal mask a word knows at least how many came before it: a model can learn something about order from that alone.
</details>

`tito test attention` checks the module; once all of it passes, `tito module complete attention` puts what you wrote into the package, and later modules run on your code. Next: Module 13, attention becomes a block, and the blocks become a GPT that writes something.
"""
