# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 11 · Embeddings

Tier: Architecture · Difficulty 2 of 4 · About 2 hours · Needs 01 to 06 (`tito test tensor`, `tito test activations`, `tito test layers`,
`tito test losses`, `tito test autograd`, `tito test optimizers`); 10 tells where token numbers come from

A tokenizer hands you numbers that are only names. A network wants numbers that mean something. Between the two stands a
table: one row of learned numbers for each token. Looking a row up is the cheapest thing a model does, and the table is often its
largest piece.

**Build** one-hot vectors, the refusal of strange ids, `Embedding`, its gradient, learned positions, sinusoids → **use** them to make a model see
order, which it could not → **reflect** on what a table of 38 million numbers costs when five rows of it are used.

When you are done you can
1. show that a lookup is a product with a one-hot matrix, and say what each of the two costs;
2. refuse the ids that NumPy would silently accept;
3. write the gradient of a lookup, where a token that comes twice receives twice;
4. prove that a model without positions reads a bag of words;
5. build the sinusoidal table and say why a step to the right is a rotation.

Yours: `one_hot`, the check of the ids, `Embedding`, the gradient by hand, `PositionalEncoding`, the angles and the table, `SinusoidalEncoding`. Given and explained: the drawing of the
weights, what is done with floats, booleans and runs on shapes, the check of a sequence's shape.

A cell you have not filled says which one it is: `one_hot: section 1, cell 2` is the function `one_hot` in the second code cell of section 1.
"""

# %%
#| default_exp core.embeddings

# %%
#| export
import numpy as np

from tinytorch.core.autograd import no_gradient
from tinytorch.core.layers import Layer, generator, positive
from tinytorch.core.tensor import Tensor, equal, floating, hollow, is_shape_only, op

# %% [markdown]
"""
## 1. A number that is only a name

**Question.** Tokens are numbers already. Why not feed them to a `Linear`?

Because a layer computes with them. To a layer, token 40 is twice token 20, and token 21 is almost token 20. But the numbers are names: 20 may be "tea", 21 "tax" and 40 "coffee".
"""

# %%
from tinytorch.core.layers import Linear

layer = Linear(1, 3, bias=False, rng=np.random.default_rng(0))
for name, token in (("tea", 20), ("tax", 21), ("coffee", 40)):
    print(f"{name:>6}", layer(Tensor([[token]])).data[0].round(2))

# %% [markdown]
"""
All three lie on one line. So give each token a direction of its own: with a vocabulary of `V`, a vector of `V` zeros with a single 1 at the token's place. That is a *one-hot* vector; any two of them are equally far apart.

**Task.** Write `one_hot(tokens, vocab_size)`. `tokens` is a Tensor of any shape `(...)`, the result a float32 Tensor `(..., vocab_size)`. Compute with ops: `equal(a, b)`, imported from 01, compares two tensors, broadcasting, and gives
booleans; it takes arrays too; a Tensor has `.shape`, `.reshape(*shape)` and `.astype(np.float32)`; `np.arange(n)` is the array 0, 1, ..., n-1.

Example: `one_hot(Tensor([2, 0]), 3)` is `[[0, 0, 1], [1, 0, 0]]`. A token outside the vocabulary, such as -1, has no place: all zeros.

<details><summary>Hint 1: idea</summary>
Ask of each place in the vocabulary: is that you? The answers, True and False, are the vector.
</details>
<details><summary>Hint 2: approach</summary>
Give the tokens one more axis at the end, of size 1. Compared with the numbers 0 to V-1 it stretches along that axis.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Which of the ages 7, 30 are above the limits 6, 18, 21: <code>Tensor([7, 30]).reshape(2, 1) &gt; Tensor([6, 18, 21])</code> has the shape (2, 3).
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "one-hot", "solution": true}
#| export
def one_hot(tokens, vocab_size):
    """Return 1.0 at each token's place and 0.0 elsewhere: tokens (...) -> (..., vocab_size), float32.

    A token that is not in the vocabulary has no place: its vector is all zeros.
    """
    ### BEGIN SOLUTION
    column = tokens.reshape(*tokens.shape, 1)
    return equal(column, Tensor(np.arange(vocab_size))).astype(np.float32)
    ### END SOLUTION

# %%
print(one_hot(Tensor([2, 0]), 3))

# %% nbgrader={"grade": true, "grade_id": "test-one-hot", "points": 12, "skill": "one-hot"}
from tito.checks import check, check_raises


def test_one_hot():
    """Values, shapes, type, and what it is for."""
    check("three tokens of four", one_hot(Tensor([3, 0, 3]), 4).data, [[0.0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]], {
        ((0.0, 1, 0), (0, 0, 0), (0, 0, 0), (1, 0, 1)): "the vocabulary is the last axis, not the first",
        ((0.0, 0, 1, 0), (0, 0, 0, 0), (0, 0, 1, 0)): "tokens are counted from 0",
        ((False, False, False, True), (True, False, False, False), (False, False, False, True)): "as numbers, not as booleans"})
    check("any shape", one_hot(Tensor(np.zeros((2, 3, 1), np.int64)), 5).shape, (2, 3, 1, 5))
    check("a single token", one_hot(Tensor(1), 3).data, [0.0, 1, 0])
    check("no tokens", one_hot(Tensor(np.zeros((0, 2), np.int64)), 5).shape, (0, 2, 5))
    for token in (-1, 3):
        check(f"token {token} of 3 has no place", one_hot(Tensor([token]), 3).data, [[0.0, 0, 0]], {((0.0, 0, 1),): "it became the last one: compare, do not index"})
    check("float32", one_hot(Tensor(np.array([1])), 3).dtype.name, "float32")
    weight = Tensor([[1, 2], [30, 40], [500, 600]])
    check("times a matrix: its rows", (one_hot(Tensor([2, 0]), 3) @ weight).data, [[500.0, 600], [1, 2]])


test_one_hot()

# %% [markdown]
"""
## 2. The same row without the product

**Question.** The last line of the check multiplied a one-hot matrix with a weight and got rows of the weight. Did that need any arithmetic?

```
[0 0 1]   [  1   2]   [500 600]
[1 0 0] @ [ 30  40] = [  1   2]      the sum of two zeros and one row is that row
          [500 600]
```

Taking the row is enough: `weight[tokens]`, one row for each token. Same numbers; let a listener say what each way computed:
"""

# %%
from tinytorch.core.tensor import listen

V, T, D = 1000, 5, 16
weight, tokens = Tensor(np.random.default_rng(0).standard_normal((V, D))), Tensor(np.array([7, 3, 999, 3, 0]))


def show(event):
    """Print what an op did, with the FLOPs of a product: 2 for each multiply-add."""
    flops = 2 * T * V * D if event.op.name == "matmul" else event.out_shape[0] * event.out_shape[1] if event.op.name == "equal" else 0
    print(f"  {event.op.name:>8} {event.out_shape}: {flops:>8,} FLOPs, {event.num_bytes:>7,} bytes")


print("one-hot, then a product")
with listen(show):
    product = one_hot(tokens, V) @ weight
print("lookup")
with listen(show):
    rows = weight[tokens]
print("equal:", bool((product.data == rows.data).all()))

# %% [markdown]
"""
The product costs `2·T·V·D` FLOPs and grows with the vocabulary. The lookup costs none, whatever the vocabulary, and moves `T` rows. So an embedding is a `Linear` on one-hot vectors in idea, and a lookup in practice.

**What a lookup must refuse.** A product with one-hot rows could not go wrong in silence; NumPy's indexing can:
"""

# %%
table = np.arange(8.0).reshape(4, 2)
print("table[-1]:                        ", table[-1], "the last row, for a token that does not exist")
print("table[[True, False, True, True]]: ", table[[True, False, True, True]].shape, "the shape of a mask's rows, though four tokens were asked")
print("int(1.7):                         ", int(1.7), "a fraction, cut off in silence")

# %% [markdown]
"""
**And whole floats?** Every Tensor made of Python numbers is float32 (Module 01: weights and gradients want that), so `Tensor([1, 2])` is `[1.0, 2.0]`, and NumPy will not index with it:
"""

# %%
for tokens in (Tensor(np.array([1, 2])), Tensor([1, 2])):
    try:
        print(f"{tokens.dtype}: rows of shape {table[tokens.data].shape}")
    except IndexError as error:
        print(f"{tokens.dtype}: {error}")
for dtype, number in ((np.float32, 2**24), (np.float32, 2**24 + 1), (np.float16, 2_049)):
    print(f"{number:,} written as {dtype.__name__}: {int(dtype(number)):,}")

# %% [markdown]
"""
To refuse whole floats as well would be tedious: whoever writes `Tensor([1, 2])` means tokens 1 and 2. So the rule here is about values, not types: **a whole number is a token, 1.0 as well as 1; 1.7 is not.** Is that safe? float32 holds every whole number up to 16,777,216, and vocabularies have some hundred thousand entries. float16 ends at 2,048: there
token 2,049 has become another one before anybody can look. Ids that are kept belong in an integer array; it also says what they are.

**Task.** Write `refuse_strangers(ids, vocab_size)`. `ids` is a NumPy array of any shape, integers or floats. Where every element is a whole number from 0 to `vocab_size - 1` it returns nothing. Otherwise it raises a `ValueError` whose message
contains the first element that is wrong, as it came (7.0 where floats came), and the vocabulary size, as in `token -1: want whole numbers from 0 to 6, the ids of a vocabulary of 7`. NaN and infinity are strangers too. An empty array is fine.

<details><summary>Hint 1: idea</summary>
Say when an element is right, in one condition on the whole array. Everything else is wrong.
</details>
<details><summary>Hint 2: approach</summary>
Three comparisons joined by <code>&amp;</code>, each in parentheses; <code>np.floor(ids)</code> equals <code>ids</code> for whole numbers. With <code>~</code> you get the mask of the wrong ones; NaN fails every comparison, so it is among them. <code>ids[mask]</code> is one flat array of them.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Scores must lie between 0 and 1: <code>wrong = scores[~((scores &gt;= 0) &amp; (scores &lt;= 1))]</code>, and <code>if wrong.size: raise ValueError(f"score {wrong[0]}: ...")</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "refuse-strangers", "solution": true}
#| export
def refuse_strangers(ids, vocab_size):
    """Raise ``ValueError``, naming the id and the vocabulary, unless all ``ids`` are whole and 0 to vocab_size - 1."""
    ### BEGIN SOLUTION
    wrong = ids[~((ids >= 0) & (ids < vocab_size) & (ids == np.floor(ids)))]
    if wrong.size:
        raise ValueError(f"token {wrong[0]}: want whole numbers from 0 to {vocab_size - 1}, "
                         f"the ids of a vocabulary of {vocab_size}")
    ### END SOLUTION

# %%
print(refuse_strangers(np.array([[0, 6], [3, 3]]), 7))
for ids in ([2, 512, 600], [1.0, 2.5]):
    try:
        refuse_strangers(np.array(ids), 7)
    except ValueError as error:
        print(error)

# %% nbgrader={"grade": true, "grade_id": "test-refuse-strangers", "points": 14, "skill": "checks"}
def test_refuse_strangers():
    """What passes, what does not, and what the message names."""
    refuse_strangers(np.array([3]), 7)
    for what, ids in (("integers", np.array([[0, 6], [3, 3]])), ("whole floats", np.array([0.0, 6.0])), ("none at all", np.zeros((0, 2))),
                      ("one without axes", np.array(5)), ("bytes", np.array([0, 6], np.uint8))):
        check(f"{what} from 0 to 6, vocabulary of 7", refuse_strangers(ids, 7), None)
    for what, ids, name in (("the size itself", [0, 7, 3], "7"), ("far above", [2, 512, 600], "512"), ("below zero", [2, -1], "-1"),
                            ("a fraction", [1.0, 2.5], "2.5"), ("not a number", [np.nan], "nan"), ("infinite", [np.inf], "inf"), ("in the second row", [[1, 2], [3, 77]], "77")):
        check_raises(f"{what}: named", ValueError, lambda ids=ids: refuse_strangers(np.array(ids), 7), must_say=name)
    check_raises("the vocabulary size is named", ValueError, lambda: refuse_strangers(np.array([9000]), 4321), must_say="4321")
    check_raises("without axes", ValueError, lambda: refuse_strangers(np.array(9), 7), must_say="9")


test_refuse_strangers()

# %% [markdown]
"""
**Given: two helpers.** `token_ids(tokens, vocab_size)` returns a Tensor that can index: it calls your check, and casts whole floats to int64. Booleans, which would be a mask, are refused. In a run on shapes (Module 01's `shape_only()`) there are no values to look at: an integer dtype passes, and floats are refused, for nobody could say
whether they are whole.

`normal_weight(*shape, std=0.02, rng=None)` draws a trainable tensor, float32 from the start: a table is large, and drawing it in float64 first would need three times the memory. Why 0.02? It is the scale GPT-2 starts with: small, so that no token
stands out before training. And in a run on shapes the table is hollow.
"""

# %%
#| export
def token_ids(tokens, vocab_size):
    """Return ``tokens`` as a Tensor of whole numbers, fit to index a table of ``vocab_size`` rows.

    Integers of any width pass as they are, whole floats (``Tensor([1, 2])`` is float32) are cast to int64. Booleans
    are a ``TypeError``, other strangers a ``ValueError``. Hollow tokens, in a run on shapes, have no values to look
    at: of an integer dtype they pass, and floats are a ``TypeError``.
    """
    if not isinstance(tokens, Tensor):
        plain = Tensor(tokens)  # refuses text and ragged lists; a list of ints stays whole numbers
        tokens = Tensor(tokens, dtype=np.asarray(tokens).dtype if plain.size else np.int64)
    if tokens.dtype == bool:
        raise TypeError("tokens are booleans; want whole numbers")
    is_float = tokens.dtype.kind == "f"
    if is_shape_only() and (tokens.size <= 1 or not any(tokens.data.strides)):
        if is_float:
            raise TypeError(f"tokens {tokens.shape} are {tokens.dtype} in a run on shapes; want an integer dtype")
        return tokens
    refuse_strangers(tokens.data, vocab_size)
    return tokens.astype(np.int64) if is_float else tokens


def normal_weight(*shape, std=0.02, rng=None):
    """Return a trainable float32 tensor of ``shape``, normal with ``std``; hollow in a run on shapes."""
    if is_shape_only():
        return Tensor(hollow(shape), requires_grad=True)
    draws = generator(rng).standard_normal(shape, dtype=np.float32)
    draws *= np.float32(std)
    return Tensor(draws, requires_grad=True)

# %% [markdown]
"""
**Task.** Write `Embedding`. `__init__` makes `self.weight` with `normal_weight`, of shape `(vocab_size, embed_dim)`, drawing from `rng`. `forward` returns the row of each token, by lookup: tokens `(...)` give `(..., embed_dim)`. A Tensor can be
indexed with a Tensor of whole numbers, `table[ids]`, and that is an op, so a gradient can flow into the table. Strange tokens are refused by `token_ids(tokens, vocab_size)`, which returns the Tensor to index with.

Example: `Embedding(10, 4)(Tensor([[1, 2, 1]]))` has the shape `(1, 3, 4)`, and its first and third row are equal.

<details><summary>Hint 1: idea</summary>
One line each. The table is a tensor on <code>self</code>; nothing is multiplied.
</details>
<details><summary>Hint 2: approach</summary>
Index <code>self.weight</code> itself, not its <code>.data</code>: an array does not remember how it was made. Hand <code>rng</code> on.
</details>
<details><summary>Hint 3: worked example, another layer</summary>
One number for each of seven weekdays: <code>self.mood = normal_weight(7, rng=rng)</code> in <code>__init__</code>, <code>return self.mood[token_ids(days, 7)]</code> in <code>forward</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "embedding", "solution": true}
#| export
class Embedding(Layer):
    """A table with one row of ``embed_dim`` numbers for each token: tokens (...) -> (..., embed_dim).

    Tokens are whole numbers from 0 to vocab_size - 1 in any shape; others are refused, see ``token_ids``.
    """

    def __init__(self, vocab_size, embed_dim, rng=None):
        """Draw ``weight`` (vocab_size, embed_dim) from a normal distribution of standard deviation 0.02."""
        self.vocab_size = positive("vocab_size", vocab_size)
        self.embed_dim = positive("embed_dim", embed_dim)
        ### BEGIN SOLUTION
        self.weight = normal_weight(self.vocab_size, self.embed_dim, rng=rng)
        ### END SOLUTION

    def forward(self, tokens):
        """Look up the row of each token: (...) -> (..., embed_dim)."""
        ### BEGIN SOLUTION
        return self.weight[token_ids(tokens, self.vocab_size)]
        ### END SOLUTION

    def __repr__(self):
        return f"Embedding({self.vocab_size}, {self.embed_dim})"

# %%
embedding = Embedding(10, 4, np.random.default_rng(0))
print(embedding, [(name, p.shape) for name, p in embedding.named_parameters()])
print(embedding(Tensor([[1, 2, 1]])))

# %% nbgrader={"grade": true, "grade_id": "test-embedding", "points": 20, "skill": "lookup"}
def test_embedding():
    """The table, the lookup, what it costs, what it refuses."""
    table = Embedding(7, 3, np.random.default_rng(5))
    check("the weight is (vocab_size, embed_dim)", table.weight.shape, (7, 3), {(3, 7): "the other way round: a row for each token"})
    check("it is drawn from rng", table.weight.data, normal_weight(7, 3, rng=np.random.default_rng(5)).data)
    check("its spread is 0.02", bool(abs(Embedding(500, 40).weight.data.std() - 0.02) < 0.001), True)
    check("it is the only parameter", [(name, p.requires_grad) for name, p in table.named_parameters()], [("weight", True)])
    table.weight.data[:] = [[10 * row + column for column in range(3)] for row in range(7)]
    check("rows of tokens 5, 0, 5", table(Tensor(np.array([5, 0, 5]))).data, [[50.0, 51, 52], [0, 1, 2], [50, 51, 52]], {
        ((40.0, 41, 42), (60, 61, 62), (40, 41, 42)): "the row before: tokens are counted from 0"})
    check("two by two, whole floats", table(Tensor([[1, 6], [0, 2]])).data[..., 2], [[12.0, 62], [2, 22]])
    for shape in ((), (2, 3, 4), (0, 5)):
        check(f"tokens {shape}", table(Tensor(np.zeros(shape, np.int64))).shape, (*shape, 3))
    from tinytorch.core.tensor import listen

    events = []
    with listen(events.append):
        out = table(Tensor(np.array([5, 0, 5])))
    check("what it computed", [event.op.name for event in events], ["index"], {("reshape", "equal", "cast", "matmul"): "the product; want the lookup", (): "it went past the ops: index the Tensor, not its array"})
    out.sum().backward()
    check("the gradient reaches the table", table.weight.grad is not None and table.weight.grad.shape == (7, 3), True)
    for token in (7, -1, 2.5):
        check_raises(f"token {token}", ValueError, lambda token=token: table(Tensor([token])), must_say=str(token))
    check_raises("booleans", TypeError, lambda: table(Tensor([True], dtype=bool)))


test_embedding()

# %% [markdown]
"""
**What if** the vocabulary grows? Guess how the time of each way grows, from 1,000 to 16,000 words, for 64 tokens of 64 numbers.
"""

# %%
from time import perf_counter

from tinytorch.core.autograd import no_grad



def fastest(way, *inputs):
    """Return the shortest of five runs in microseconds."""
    runs = []
    for _ in range(5):
        start = perf_counter()
        way(*inputs)
        runs.append(1e6 * (perf_counter() - start))
    return min(runs)


def by_product(table, tokens):
    """Take the rows the long way."""
    return one_hot(tokens, table.vocab_size) @ table.weight


for V in (1_000, 4_000, 16_000):
    table, tokens = Embedding(V, 64), Tensor(np.random.default_rng(0).integers(0, V, 64))
    with no_grad():
        print(f"vocabulary {V:>6,}: one-hot {fastest(by_product, table, tokens):>8,.0f} µs, lookup {fastest(table, tokens):>4,.0f} µs")

# %% [markdown]
"""
## 3. What the table learns from a sentence

**Question.** A token comes twice in one sentence. Its row was copied to two places, and a gradient comes back to each. What does the row get?

Both, added: a number that was used twice moves the result twice. Writing this down is called a *scatter-add*. For ids 2, 0, 2 and a vocabulary of 4:

```
gradient that comes back, g       gradient of the table
  place 0 (token 2):  1  1           token 0:  5  5
  place 1 (token 0):  5  5           token 1:  0  0
  place 2 (token 2): 20 20           token 2: 21 21     1 + 20
                                     token 3:  0  0
```

**Task.** Write it plainly, in NumPy: `scatter_add(g, ids, vocab_size)` with `ids` an integer array `(N,)` and `g` an array `(N, D)` gives an array `(vocab_size, D)` in the dtype of `g`. A loop over the places is fine: it is an exercise, and the package has the op `put` of Module 01 for it.

<details><summary>Hint 1: idea</summary>
Begin with zeros. Go through the places; each adds its row of <code>g</code> to one row of the result.
</details>
<details><summary>Hint 2: approach</summary>
<code>for place, token in enumerate(ids)</code>. The indexed form without a loop, <code>grad[ids] += g</code>, looks the same and is wrong; the cell below the check shows why.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Counting votes: <code>votes = np.zeros(3)</code>, then <code>for choice in (2, 0, 2): votes[choice] += 1</code>, and <code>votes</code> is 1, 0, 2.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "scatter-add", "solution": true}
def scatter_add(g, ids, vocab_size):
    """Return (vocab_size, D) with row i of g (N, D) added at row ids[i]."""
    ### BEGIN SOLUTION
    grad = np.zeros((vocab_size, g.shape[1]), g.dtype)
    for place, token in enumerate(ids):
        grad[token] += g[place]
    return grad
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-scatter-add", "points": 12, "skill": "gradient"}
def test_scatter_add():
    """By hand, then against the gradient that backward finds, and against the one-hot product."""
    g = np.array([[1.0, 2], [10, 20], [100, 200]])
    check("tokens 3, 0, 3 of 5", scatter_add(g, np.array([3, 0, 3]), 5), [[10.0, 20], [0, 0], [0, 0], [101, 202], [0, 0]], {
        ((10.0, 20), (0, 0), (0, 0), (100, 200), (0, 0)): "the second visit overwrote the first: add",
        ((10.0, 20), (0, 0), (0, 0), (1, 2), (0, 0)): "only the first visit counted",
        ((10.0, 20), (0, 0), (0, 0), (50.5, 101), (0, 0)): "the visits were averaged; they add up",
        ((1.0, 2), (10, 20), (100, 200), (0, 0), (0, 0)): "rows belong to tokens, not to places"})
    check("g is left as it was", g, [[1.0, 2], [10, 20], [100, 200]])
    check("no tokens", scatter_add(np.zeros((0, 2)), np.zeros(0, np.int64), 3), np.zeros((3, 2)))
    check("float32 stays float32", scatter_add(g.astype(np.float32), np.array([0, 1, 1]), 2).dtype.name, "float32", {"float64": "np.zeros makes float64: give it the type of g"})
    rng = np.random.default_rng(0)
    table, ids, g = Embedding(6, 3, rng), rng.integers(0, 6, 20), rng.standard_normal((20, 3)).astype(np.float32)
    table(Tensor(ids)).backward(g)
    check("the largest difference from backward's gradient", float(np.abs(scatter_add(g, ids, 6) - table.weight.grad.data).max()), 0.0, atol=1e-5)
    check("the largest difference from one_hot(ids).T @ g", float(np.abs(scatter_add(g, ids, 6) - (one_hot(Tensor(ids), 6).T @ Tensor(g)).data).max()), 0.0, atol=1e-5)


test_scatter_add()

# %% [markdown]
"""
**What if** you leave the loop to NumPy? Bet on what row 2 holds in each line.
"""

# %%
my_bet = (None, None)
ids, g = np.array([2, 0, 2]), np.array([[1.0, 1], [5, 5], [20, 20]])
indexed, added = np.zeros((4, 2)), np.zeros((4, 2))
indexed[ids] += g
np.add.at(added, ids, g)
print(f"bet {my_bet}; indexed[ids] += g: {indexed[2]}; np.add.at(added, ids, g): {added[2]}")

# %% [markdown]
"""
`grad[ids] += g` reads all rows, adds, and writes all rows back: the second write for token 2 wins, the first is lost. No error, no warning, and a model that learns a little worse from every repeated word.

**How much of the gradient is zero?** The gradient has the shape of the table, however few rows were used. Guess for GPT-2 small (50,257 tokens, 768 numbers each) and a text of 1,024 tokens, all different:
"""

# %%
V, D, T = 50_257, 768, 1_024
print(f"gradient of the table: {V * D * 4 / 1e6:.0f} MB, of which {T * D * 4 / 1e6:.1f} MB are not zero: {100 * T / V:.1f} %")

# %% [markdown]
"""
**And does a row that was not used stay where it is?** With plain SGD yes. Watch Adam: only token 2 in the first step, only token 0 in the second.
"""

# %%
from tinytorch.core.optimizers import SGD, Adam

for make in (SGD, Adam):
    table = Embedding(3, 2, np.random.default_rng(0))
    optimizer = make(table.parameters(), lr=0.1)
    for token in (2, 0):
        before = table.weight.data.copy()
        optimizer.zero_grad()
        table(Tensor([token])).sum().backward()
        optimizer.step()
        moved = np.abs(table.weight.data - before).max(axis=1)
        print(f"{make.__name__:>4}, token {token} seen: rows 0, 1, 2 moved by {moved.round(3)}")

# %% [markdown]
"""
Adam's momentum goes on pushing token 2 while nobody says it. **What it means for a real model:** optimizer state and gradient of a table are as large as the table, in every step, for the few rows that were used. Large systems therefore have optimizers that touch only those
rows, and their results differ a little from the ones you know.

## 4. Where in the sentence?

**Question.** "Dog bites man" and "man bites dog" have the same three rows. Does the model know which is which?

Suppose that it averages what it has read, or, as in the next module, adds it up with weights that depend on the rows alone. Then it cannot know: a sum does not depend on the order.
"""

# %%
table = Embedding(10, 4, np.random.default_rng(0))
dog, bites, man = 3, 5, 7
for sentence in ((dog, bites, man), (man, bites, dog)):
    print(sentence, table(Tensor(sentence)).mean(axis=0).data.round(6))

# %% [markdown]
"""
So give each *place* a row of its own as well, and add it: the row of token 3 at place 0 is then another one than at place 2. The simplest way is a second table, learned like the first.

```
x (..., T, D)    +    weight[:T] (T, D)    =    (..., T, D)       the same rows for every sentence of the batch
```

Given: `check_sequence`, which refuses an `x` that does not end in `(T, embed_dim)` or is longer than the table, and returns `T`.
"""

# %%
#| export
def check_sequence(x, max_seq_len, embed_dim):
    """Return the length T of ``x`` (..., T, embed_dim), or raise ``ValueError`` that names the sizes."""
    if x.ndim < 2 or x.shape[-1] != embed_dim:
        raise ValueError(f"x {x.shape}: want (..., T, embed_dim) with embed_dim {embed_dim}")
    if x.shape[-2] > max_seq_len:
        raise ValueError(f"x {x.shape}: length {x.shape[-2]} is above max_seq_len {max_seq_len}; "
                         "give fewer tokens, or build with a larger max_seq_len")
    return x.shape[-2]

# %% [markdown]
"""
**Task.** Write `PositionalEncoding`. `__init__` makes `self.weight` of shape `(max_seq_len, embed_dim)` with `normal_weight`, from `rng`. `forward` asks `check_sequence(x, max_seq_len, embed_dim)` for the length, and adds that many rows from the top of the table, to every
sentence of the batch. A Tensor can be sliced, `table[:n]`, and the gradient flows through.

Example: with `max_seq_len` 8 and `x` of shape `(2, 3, 4)`, rows 0, 1, 2 are added to both sentences, and rows 3 to 7 are not used.

<details><summary>Hint 1: idea</summary>
Broadcasting lines shapes up at the right: (T, D) fits under (..., T, D) for any number of leading axes.
</details>
<details><summary>Hint 2: approach</summary>
Take the length from <code>check_sequence</code>: it is the last axis but one, and the second axis only when there are three.
</details>
<details><summary>Hint 3: worked example, another layer</summary>
A learned loudness for each place, multiplied: <code>self.gain = normal_weight(max_seq_len, 1, rng=rng)</code>, and <code>return x * self.gain[:length]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "positional-encoding", "solution": true}
#| export
class PositionalEncoding(Layer):
    """Learned positions: one row for each place in the sequence, added: x (..., T, embed_dim) -> same shape.

    A sequence longer than ``max_seq_len`` is a ``ValueError``: for its end there are no rows.
    """

    def __init__(self, max_seq_len, embed_dim, rng=None):
        """Draw ``weight`` (max_seq_len, embed_dim) from a normal distribution of standard deviation 0.02."""
        self.max_seq_len = positive("max_seq_len", max_seq_len)
        self.embed_dim = positive("embed_dim", embed_dim)
        ### BEGIN SOLUTION
        self.weight = normal_weight(self.max_seq_len, self.embed_dim, rng=rng)
        ### END SOLUTION

    def forward(self, x):
        """Add the first T rows to x (..., T, embed_dim)."""
        ### BEGIN SOLUTION
        length = check_sequence(x, self.max_seq_len, self.embed_dim)
        return x + self.weight[:length]
        ### END SOLUTION

    def __repr__(self):
        return f"PositionalEncoding({self.max_seq_len}, {self.embed_dim})"

# %%
positions = PositionalEncoding(8, 4, np.random.default_rng(1))
for sentence in ((dog, bites, man), (man, bites, dog)):
    print(sentence, "dog's row with its place:", positions(table(Tensor(sentence))).data[sentence.index(dog)].round(3))

# %% nbgrader={"grade": true, "grade_id": "test-positional-encoding", "points": 16, "skill": "positions"}
def test_positional_encoding():
    """The table, which rows are added to what, their gradient, refusals."""
    places = PositionalEncoding(8, 4, np.random.default_rng(5))
    check("the weight", [(name, p.shape, p.requires_grad) for name, p in places.named_parameters()], [("weight", (8, 4), True)])
    check("it is drawn from rng", places.weight.data, normal_weight(8, 4, rng=np.random.default_rng(5)).data)
    check("its spread is 0.02", bool(abs(PositionalEncoding(500, 40).weight.data.std() - 0.02) < 0.001), True)
    places.weight.data[:] = np.arange(1, 9)[:, None] * [1, 10, 100, 1000]
    x = np.full((2, 3, 4), 0.5, np.float32)
    check("second sentence, third place", places(Tensor(x)).data[1, 2], [3.5, 30.5, 300.5, 3000.5], {(2.5, 20.5, 200.5, 2000.5): "the second row was added to the whole second sentence: places are the last axis but one",
        (8.5, 80.5, 800.5, 8000.5): "the rows from the end of the table", (1.5, 10.5, 100.5, 1000.5): "the first row was added everywhere", (4.5, 40.5, 400.5, 4000.5): "places are counted from 0", (0.5, 0.5, 0.5, 0.5): "nothing was added", (1.5, 15.0, 150.0, 1500.0): "multiplied; want the sum"})
    check("the whole first sentence", places(Tensor(x)).data[0], 0.5 + np.arange(1, 4)[:, None] * np.array([1, 10, 100, 1000]))
    for shape in ((3, 4), (5, 2, 7, 4), (8, 4), (2, 0, 4)):
        out = places(Tensor(np.zeros(shape))).data
        check(f"x {shape}: shape", out.shape, shape)
        check("  and the last column of the last sentence", out[(-1,) * (len(shape) - 2)][:, 3], 1000.0 * np.arange(1, shape[-2] + 1))
    check("x is left as it was", bool((x == 0.5).all()), True)
    places(Tensor(x)).sum().backward()
    check("gradient of the rows: used by two sentences, or not", places.weight.grad.data[:, 0], [2.0, 2, 2, 0, 0, 0, 0, 0], {(1.0, 1, 1, 0, 0, 0, 0, 0): "each of the two sentences counts"})
    for size in ("9", "8"):
        check_raises(f"nine places where eight have rows, naming {size}", ValueError, lambda: places(Tensor(np.zeros((2, 9, 4)))), must_say=size)
    check_raises("one column where four are wanted", ValueError, lambda: places(Tensor(np.zeros((2, 3, 1)))))


test_positional_encoding()

# %% [markdown]
"""
**What if** you add positions and *then* average? Bet: does the average of "dog bites man" now differ from that of "man bites dog"?
"""

# %%
my_bet = None
for sentence in ((dog, bites, man), (man, bites, dog)):
    print(f"bet {my_bet}", sentence, positions(table(Tensor(sentence))).mean(axis=0).data.round(6))

# %% [markdown]
"""
No difference. The average of sums is the sum of the averages, and both averages are blind to order. Positions help only when something that is not linear sees token and place *together*, before anything is added up. Put a `Linear` and a ReLU there, and let it learn whether token 0 comes before token 1
in a shuffled row of six tokens, with positions and without:
"""

# %%
from itertools import permutations

from tinytorch.core.activations import relu
from tinytorch.core.losses import CrossEntropyLoss



class Reader(Layer):
    """Tokens (B, 6) -> two scores (B, 2): a look at each place, then the average."""

    def __init__(self, with_positions, rng):
        self.table, self.places = Embedding(6, 8, rng), PositionalEncoding(6, 8, rng) if with_positions else None
        self.hidden, self.head = Linear(8, 16, rng=rng), Linear(16, 2, rng=rng)

    def forward(self, tokens):
        """Look up, add places if there are any, look, average, score."""
        x = self.table(tokens)
        x = x if self.places is None else self.places(x)
        return self.head(relu(self.hidden(x)).mean(axis=1))


rows = np.random.default_rng(0).permutation(list(permutations(range(6))))  # all 720 orders
first = ((rows == 0).argmax(axis=1) < (rows == 1).argmax(axis=1)).astype(np.int64)  # does 0 come before 1?
for name in ("without positions", "with positions"):
    model = Reader(name == "with positions", np.random.default_rng(0))
    optimizer = Adam(model.parameters(), lr=0.03)
    for _ in range(150):
        optimizer.zero_grad()
        CrossEntropyLoss()(model(Tensor(rows[:360])), first[:360]).backward()
        optimizer.step()
    right = model(Tensor(rows[360:])).argmax(axis=1).data == first[360:]
    print(f"{name:>17}: {100 * right.mean():.1f} % right on 360 orders it has not seen")

# %% [markdown]
"""
Without positions, every order of the same tokens gives the same answer to the last digit or so, and guessing is all that is left. **What it means for a real model:** attention (Module 12) is also a sum over the sentence. Without positions a language model could not tell "dog bites man"
from "man bites dog", however large.

## 5. Positions without a table

**Question.** A learned table ends: place 1,025 of a table of 1,024 rows does not exist. Can a place be said without learning, for any length?

As on a clock. One hand turns fast and tells seconds, another slowly and tells hours; together they name every moment of the day. Take `D / 2` hands, from fast to slow; each is two columns, the sine and the cosine of its angle. Hand `i` turns, with every place, by

```
w_i = 10000 ** (-2i / D)            i = 0, 1, 2, ...      w_0 = 1, the slowest near 1/10000
table[t, 2i] = sin(t · w_i)         table[t, 2i + 1] = cos(t · w_i)
```

(Vaswani and others, 2017.) When `D` is odd, the last hand has a sine only.

**Task.** Write `frequencies(embed_dim)`: the array of all `w_i` in float64, one for every even column, so `(embed_dim + 1) // 2` of them. And `sinusoids`, an op without tensor inputs, on NumPy: an array `(length, embed_dim)` of type `dtype`. Compute the angles in float64 and let the
assignment into an array of `dtype` round: an angle of a thousand radians in float32 has lost three digits. The shape rule is given, and the line that asks it.

Example: `sinusoids(length=2, embed_dim=4)` is `[[0, 1, 0, 1], [sin 1, cos 1, sin 0.01, cos 0.01]]`.

<details><summary>Hint 1: idea</summary>
All angles at once: a column of places times a row of frequencies. Then fill the even columns and the odd ones.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.arange(0, embed_dim, 2)</code> is 2i for every hand. <code>table[:, 0::2] = ...</code> fills the even columns. There are <code>embed_dim // 2</code> odd ones, one fewer than the even ones when <code>embed_dim</code> is odd.
</details>
<details><summary>Hint 3: worked example, something else</summary>
A multiplication table with every other column negative: <code>products = np.arange(3)[:, None] * np.arange(5)</code>; <code>signed = np.empty((3, 10))</code>; <code>signed[:, 0::2] = products</code>; <code>signed[:, 1::2] = -products</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "sinusoids", "solution": true}
#| export
def frequencies(embed_dim):
    """Return by what angle each pair of columns turns from place to place, 10000 ** (-2i / embed_dim), in float64."""
    ### BEGIN SOLUTION
    return 10000.0 ** (-np.arange(0, embed_dim, 2) / embed_dim)
    ### END SOLUTION


def sinusoids_shape(length, embed_dim, dtype=np.float32):
    """Return (length, embed_dim), or raise ``ValueError`` for sizes that no table has."""
    if length < 0 or embed_dim < 1:
        raise ValueError(f"length {length}, embed_dim {embed_dim}: want at least 0 and at least 1")
    return (length, embed_dim)


@op(shape=sinusoids_shape, dtype=lambda length, embed_dim, dtype=np.float32: dtype)
def sinusoids(length, embed_dim, dtype=np.float32):
    """Return the table (length, embed_dim) of Vaswani and others (2017): sines in even columns, cosines in odd ones.

    The angles are computed in float64, the table is rounded to ``dtype``.
    """
    sinusoids_shape(length, embed_dim)  # raises; NumPy would make a table without columns
    ### BEGIN SOLUTION
    angles = np.arange(length)[:, None] * frequencies(embed_dim)  # (length, pairs)
    table = np.empty((length, embed_dim), dtype)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : embed_dim // 2])
    return table
    ### END SOLUTION


no_gradient(sinusoids)

# %%
print(sinusoids(length=3, embed_dim=4))
print("turns in 1,000 places:", (1000 * frequencies(8) / (2 * np.pi)).round(2))

# %% nbgrader={"grade": true, "grade_id": "test-sinusoids", "points": 18, "skill": "sinusoids"}
def test_sinusoids():
    """Frequencies, columns, odd sizes, types, exactness far out."""
    check("frequencies(4)", frequencies(4), [1.0, 0.01], {(1.0, 0.1): "the exponent is 2i / D, not i / D", (1.0, 100.0): "the sign of the exponent: hands get slower",
          (1.0, 0.1, 0.01, 0.001): "one for each pair of columns, not for each column", (0.0, -0.5): "that is the exponent"}, rtol=1e-9)
    check("frequencies(5)", frequencies(5), [1.0, 10000**-0.4, 10000**-0.8], rtol=1e-9)
    s, c = np.sin, np.cos
    check("place 1 of four columns", sinusoids(length=2, embed_dim=4).data[1], [s(1), c(1), s(0.01), c(0.01)], {
        (s(1), s(0.01), c(1), c(0.01)): "sines and cosines alternate; here all sines come first", (c(1), s(1), c(0.01), s(0.01)): "even columns are sines",
        (s(2), c(2), s(0.02), c(0.02)): "places are counted from 0"}, rtol=1e-5)
    check("place 0", sinusoids(length=1, embed_dim=6).data, [[0.0, 1, 0, 1, 0, 1]])
    check("five columns: the last hand has a sine only", sinusoids(length=3, embed_dim=5).data[2], [s(2), c(2), s(2 * 10000**-0.4), c(2 * 10000**-0.4), s(2 * 10000**-0.8)], rtol=1e-5)
    check("one column", sinusoids(length=2, embed_dim=1).data, [[0.0], [s(1)]], rtol=1e-5)
    check("shapes", (sinusoids(length=7, embed_dim=3).shape, sinusoids(length=0, embed_dim=4).shape), ((7, 3), (0, 4)))
    check("types", [sinusoids(length=2, embed_dim=4, dtype=one).dtype.name for one in (np.float16, np.float32, np.float64)], ["float16", "float32", "float64"])
    check("in float64 nothing is lost", sinusoids(length=50, embed_dim=4, dtype=np.float64).data[49, 2:], [s(0.49), c(0.49)], rtol=1e-12)
    far = [s(20_000 * 10000 ** (-1 / 3)), c(20_000 * 10000 ** (-1 / 3))]
    check("at place 20,000 the error in float32 is below a millionth", bool(np.abs(sinusoids(length=20_001, embed_dim=6).data[-1, 2:4] - far).max() < 1e-6), True, {False: "the angles were rounded to float32 before their sine was taken"})
    places = np.arange(40_000)
    check("no two of 40,000 places look alike", len(np.unique(sinusoids(length=40_000, embed_dim=16).data.round(4), axis=0)), len(places))


test_sinusoids()

# %% [markdown]
"""
**The picture.** Places go down, columns to the right: fast hands at the left, slow ones at the right. Beside it the dot product of place 50's row with every other row: it depends on the distance alone, and falls off to both sides, with ripples.
"""

# %%
import matplotlib.pyplot as plt

table = sinusoids(length=100, embed_dim=64).data
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
image = left.imshow(table, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
left.set(title="sinusoids(length=100, embed_dim=64)", xlabel="column", ylabel="place")
figure.colorbar(image, ax=left)
for place, colour in ((20, "#0072B2"), (50, "#D55E00")):
    right.plot(table @ table[place], color=colour, label=f"with place {place}")
right.set(title="dot product of a place's row with all rows", xlabel="place", ylabel="row · row")
_ = right.legend(frameon=False)

# %% [markdown]
"""
**Why sine *and* cosine?** A hand at the angle `a` that turns on by `b` stands at

```
sin(a + b) =  sin a · cos b + cos a · sin b
cos(a + b) = -sin a · sin b + cos a · cos b
```

That is a matrix of `cos b` and `sin b` times the pair: a rotation, and it does not know `a`. So "three places further" is **one fixed matrix**, the same from every place. Build it and try it from several places at once:
"""

# %%
D, shift = 8, 3
turn = np.zeros((D, D))
for i, w in enumerate(frequencies(D)):
    c, s = np.cos(shift * w), np.sin(shift * w)
    turn[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[c, s], [-s, c]]
table = sinusoids(length=1003, embed_dim=D, dtype=np.float64).data
for place in (0, 10, 999):
    print(f"from place {place:>3} to {place + shift:>4}: largest error {np.abs(turn @ table[place] - table[place + shift]).max():.1e}")
print("a rotation keeps lengths:", np.allclose(turn @ turn.T, np.eye(D)))

# %% [markdown]
"""
A layer can therefore learn "look three places back" once, for all places. Today's large models go one step further and rotate queries and keys themselves inside attention (Su and others, 2021, *rotary* positions), so that only distances remain.

**Task.** Write `SinusoidalEncoding.forward`: as in `PositionalEncoding`, with your table in place of the learned one. Nothing is stored: the table is computed for the length that comes. Its type is that of `x`, so that float16 stays float16 and float64 is exact: `floating(x.dtype)`, imported from 01, is
`x.dtype` for floats and float32 for integers. An op takes attributes by keyword: `sinusoids(length=..., embed_dim=..., dtype=...)`.

<details><summary>Hint 1: idea</summary>
The same two lines as before; another table.
</details>
<details><summary>Hint 2: approach</summary>
<code>check_sequence(x, max_seq_len, embed_dim)</code> gives the length. Ask for a table of just that length.
</details>
<details><summary>Hint 3: worked example, another layer</summary>
A mask of the type of its input: <code>return x * dropout_mask(x, p=0.5, rng=rng)</code>; attributes by keyword, the type follows <code>x</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "sinusoidal-encoding", "solution": true}
#| export
class SinusoidalEncoding(Layer):
    """Fixed positions: the table ``sinusoids`` added, nothing to train: x (..., T, embed_dim) -> same shape and type.

    No table is held: it is computed for the length that comes, up to ``max_seq_len``.
    """

    def __init__(self, max_seq_len, embed_dim):
        """Keep the two sizes."""
        self.max_seq_len = positive("max_seq_len", max_seq_len)
        self.embed_dim = positive("embed_dim", embed_dim)

    def forward(self, x):
        """Add the first T rows of the table, in the floating type of x (..., T, embed_dim)."""
        ### BEGIN SOLUTION
        length = check_sequence(x, self.max_seq_len, self.embed_dim)
        return x + sinusoids(length=length, embed_dim=self.embed_dim, dtype=floating(x.dtype))
        ### END SOLUTION

    def __repr__(self):
        return f"SinusoidalEncoding({self.max_seq_len}, {self.embed_dim})"

# %%
layer = SinusoidalEncoding(10, 4)
print(layer, layer.parameters(), layer(Tensor(np.zeros((1, 2, 4)))), sep="\n")

# %% nbgrader={"grade": true, "grade_id": "test-sinusoidal-encoding", "points": 8, "skill": "sinusoids"}
def test_sinusoidal_encoding():
    """Values, any leading axes, types, no parameters, refusals."""
    layer = SinusoidalEncoding(9, 6)
    want = 0.25 + sinusoids(length=3, embed_dim=6).data
    check("second sentence of three places", layer(Tensor(np.full((2, 3, 6), 0.25))).data[1], want, rtol=1e-5)
    check("without a batch", layer(Tensor(np.full((3, 6), 0.25))).data, want, rtol=1e-5)
    check("no parameters", layer.parameters(), [])
    for dtype in ("float16", "float32", "float64"):
        check(f"{dtype} stays", layer(Tensor(np.zeros((5, 4, 6)), dtype=dtype)).dtype.name, dtype, {"float32": "the table is float32: give it the floating type of x"})
    exact = layer(Tensor(np.zeros((9, 6)), dtype=np.float64)).data[7, 0]
    check("float64 is exact", exact, float(np.sin(7.0)), rtol=1e-14)
    x = Tensor(np.zeros((2, 3, 6)), requires_grad=True)
    layer(x).sum().backward()
    check("the gradient passes on to x", x.grad.data, np.ones((2, 3, 6)))
    for size in ("10", "9"):
        check_raises(f"ten places where nine are allowed, naming {size}", ValueError, lambda: layer(Tensor(np.zeros((10, 6)))), must_say=size)
    check_raises("one column where six are wanted", ValueError, lambda: layer(Tensor(np.zeros((2, 3, 1)))))


test_sinusoidal_encoding()

# %% [markdown]
"""
## 6. What it means for a real model

**Question.** Which part of a language model is its vocabulary? Guess the share for each before you run. Everything is built on shapes only, so that even GPT-3's table takes no memory here.
"""

# %%
import tracemalloc

from tinytorch.core.tensor import shape_only

published = {"GPT-2 small": (50_257, 768, 1_024, 124_439_808), "GPT-2 XL": (50_257, 1_600, 1_024, 1_557_611_200), "GPT-3": (50_257, 12_288, 2_048, 174_604_259_328)}
tracemalloc.start()
with shape_only():
    for name, (V, D, T, total) in published.items():
        table, places = Embedding(V, D), PositionalEncoding(T, D)
        print(f"{name:>11}: tokens {table.weight.size:>11,} ({100 * table.weight.size / total:4.1f} % of {total:,}), places {places.weight.size:>10,}, together {(table.weight.nbytes + places.weight.nbytes) / 1e6:>7,.0f} MB")
print(f"memory it took to say so: {tracemalloc.get_traced_memory()[1] / 1e3:.1f} kB")
tracemalloc.stop()

# %% [markdown]
"""
The smaller the model, the more of it is vocabulary. That is why GPT-2 uses its table twice, as input and, transposed, as output head: with a second table, GPT-2 small would be almost a third larger.

**Reflect.** Answer first, then open.

<details><summary>A lookup costs 0 FLOPs. Does it cost no time?</summary>
It moves rows from memory, each from another place, so caches help little. It is work that no count of FLOPs shows; Module 14 measures it in bytes.
</details>
<details><summary>The vocabulary has 50,257 entries, a nice number would be 50,304. Why do people pad it?</summary>
50,304 is divisible by 128, and the product of the head with the table runs faster on hardware that works in blocks. The 47 extra rows cost memory and are never looked up.
</details>
<details><summary>Should a padding token have a row?</summary>
Yes, every id has one; but it should not count. Attention must mask it (Module 12), and the loss must leave it out. Nothing in the embedding can do that.
</details>
<details><summary>A model with learned positions was trained on 1,024 places. What would happen at place 1,025 if it were not refused?</summary>
There is no row. And rows near the end are seen less often in training than those at the beginning, so even they are worse than they look.
</details>
<details><summary>And with sinusoids?</summary>
The table goes on, but the model has never seen those rows together. That it computes does not mean that it understands.
</details>
<details><summary>Why are positions added and not written beside the token, in columns of their own?</summary>
Columns of their own would make every later layer wider. In hundreds of dimensions two vectors drawn at random are nearly orthogonal, so a layer can read token and place from their sum.
</details>

`tito test embeddings` checks the module; once all of it passes, `tito module complete embeddings` puts what you wrote into the package, and later modules run on your code. Next: Module 12, attention: how do tokens look at each other?
"""
