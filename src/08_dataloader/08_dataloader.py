# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 08 · DataLoader

Tier: Foundation · Difficulty 1 of 4 · About 1½ hours · Needs 01 to 07 (`tito test tensor`, `tito test activations`, `tito test layers`,
`tito test losses`, `tito test autograd`, `tito test optimizers`, `tito test training`)

A training loop asks one thing of its data: *the next batch, please*. Behind that sentence stand three decisions that cost more
models their honesty than any mistake in a layer: what is kept aside for the test, in which order the examples come, and what
happens to the ones left over at the end.

**Build** a split, a dataset, batches, a shuffle that repeats, the `DataLoader` → **use** them to train on 1,797 real
handwritten digits → **reflect** on what a test score really says.

When you are done you can
1. hold out a test set in which every digit is represented, and say what it does *not* test;
2. turn any collection of examples into batches of tensors;
3. shuffle differently in every epoch and still repeat a run exactly;
4. count batches, with and without the incomplete one at the end;
5. say what loading costs, one example at a time and a batch at a time.

Yours: the split, the digits as arrays, the dataset, the batches, their order, and the loader. Given and explained: the file of digits and the code that opens it, the base class
`Dataset`, `stack`, and the loader's settings.

A cell you have not filled says which one it is: `held_out: section 1, cell 4` is the function `held_out` in the fourth code cell of section 1.
"""

# %%
#| default_exp core.dataloader

# %%
#| export
from importlib.resources import files

import numpy as np

from tinytorch.core.layers import default_generator, positive
from tinytorch.core.tensor import Tensor

# %% [markdown]
"""
## 1. The data

**Question.** 1,797 pictures of digits, written by 13 people. Which of them may the network *not* see while it learns?

The pictures are real. E. Alpaydin and C. Kaynak collected them in the 1990s; they have taught three generations of programs to read. Each was scanned at 32 by 32 dots, and every block of 4 by 4 dots became
one pixel: a number from 0 to 16, how many of its dots had ink. The file is part of the package, so nothing is downloaded. Given:
"""

# %%
#| export
def read_digits():
    """Return the shipped file's two arrays: images (1797, 8, 8) with values 0 to 16, and labels (1797,), both uint8."""
    with files("tinytorch.data").joinpath("digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["images"], arrays["labels"]

# %%
images, labels = read_digits()
for row in range(8):
    print("   ".join("".join(" .:-=+*#@"[ink // 2] * 2 for ink in image[row]) for image in images[:5]))
print("labels of the first twenty:", labels[:20])
print("how many of each digit:   ", np.bincount(labels))

# %% [markdown]
"""
Look at the first twenty labels. They come in order: each writer was asked for 0 to 9, again and again, with irregularities in between. So "hold out every tenth picture" is no fair draw. Guess what it does, then look:
"""

# %%
for step in (10, 5):
    print(f"every {step:>2}th picture, how many of each digit:", np.bincount(labels[step - 1 :: step], minlength=10))

# %% [markdown]
"""
So we go digit by digit. Of all the zeros, in the order of the file, every fifth is held out; of all the ones, every fifth; and so on. A split that keeps the shares of the classes is called *stratified*. Ours needs no
random number, so it is the same everywhere and for ever.

**Task.** Write `held_out(labels)`: a boolean array as long as `labels`, `True` at the 5th, 10th, 15th ... occurrence of each digit.

Example: labels `[3, 3, 3, 3, 3, 3]` give `[False, False, False, False, True, False]`.

<details><summary>Hint 1: idea</summary>
For one digit: list the positions where it occurs, take every fifth of them, mark these. Then the next digit.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.flatnonzero(condition)</code> gives the positions; a slice with a step takes every fifth of a list; <code>np.unique(labels)</code> lists the digits that occur.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Every second occurrence of <code>"a"</code> in <code>["a", "b", "a", "a", "a"]</code>: positions <code>[0, 2, 3, 4]</code>, of which <code>[1::2]</code> is <code>[2, 4]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "held-out", "solution": true}
#| export
def held_out(labels):
    """Return a boolean array: True at the 5th, 10th, 15th ... occurrence of each digit."""
    ### BEGIN SOLUTION
    test = np.zeros(len(labels), bool)
    for digit in np.unique(labels):
        test[np.flatnonzero(labels == digit)[4::5]] = True
    return test
    ### END SOLUTION

# %%
print("test set, how many of each digit:", np.bincount(labels[held_out(labels)]))

# %% nbgrader={"grade": true, "grade_id": "test-held-out", "points": 12, "skill": "split"}
from tito.checks import check, check_raises


def test_held_out():
    """Every fifth of each digit, no other."""
    check("six threes", held_out(np.array([3] * 6)), np.array([False] * 4 + [True, False]), {
        (True, False, False, False, False, True): "counting starts at the 1st; the 5th is the first one held out", (False, False, False, False, False, True): "the 6th was held out, which has number 5 when counting from 0"})
    mixed = np.array([0, 1] * 5)
    check("two digits by turns", np.flatnonzero(held_out(mixed)), np.array([8, 9]), {
        (4, 9): "every fifth of the whole file, not of each digit"})
    check("fewer than five", int(held_out(np.array([1, 2, 3])).sum()), 0)
    check("no labels", held_out(np.zeros(0, np.int64)).shape, (0,))
    check("the 1,797 digits", int(held_out(read_digits()[1]).sum()), 355, {359: "every fifth of the whole file, not of each digit"})


test_held_out()

# %% [markdown]
"""
Now the form in which a network wants them. Weights were scaled (Module 03) for inputs of about size 1, so the ink goes from 0..16 to 0..1. A fully connected layer sees a vector, so 8 by 8 becomes 64. And class numbers are int64,
because that is what `CrossEntropyLoss` picks with.

**Task.** Write the rest of `load_digits(split)`. It returns two **arrays**: float32 images of shape `(N, 64)` with values from 0 to 1, and int64 labels `(N,)`; for `"train"` those not held out, for `"test"` those held
out, for `None` all of them, always in the order of the file.

<details><summary>Hint 1: idea</summary>
First convert everything, then choose rows with a boolean array.
</details>
<details><summary>Hint 2: approach</summary>
<code>astype</code> before dividing: a uint8 divided by 16 becomes float64 in NumPy. The rows to keep are those where <code>held_out(labels)</code> equals "the test was asked for".
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>rows[np.array([True, False, True])]</code> are the first and the third; <code>~mask</code> turns a boolean array around.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "load-digits", "solution": true}
#| export
def load_digits(split="train"):
    """Return (images, labels) of the UCI handwritten digits: float32 (N, 64) from 0 to 1, and int64 (N,).

    ``"test"`` is every fifth image of each digit (355), ``"train"`` the other 1,442, ``None`` all 1,797, always in
    the order of the file. Read from the package; nothing is downloaded.
    Source: E. Alpaydin and C. Kaynak, 1998, doi.org/10.24432/C50P49, CC BY 4.0.
    """
    if not (split is None or (isinstance(split, str) and split in ("train", "test"))):
        raise ValueError(f"load_digits: split {split!r} came; want 'train', 'test' or None")
    images, labels = read_digits()
    ### BEGIN SOLUTION
    images, labels = images.reshape(-1, 64).astype(np.float32) / 16, labels.astype(np.int64)
    if split is None:
        return images, labels
    chosen = held_out(labels) == (split == "test")
    return images[chosen], labels[chosen]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-load-digits", "points": 14, "skill": "split"}
def test_load_digits():
    """Shapes, types, range, and no image on both sides."""
    (train, y), (test, z), (everything, w) = load_digits("train"), load_digits("test"), load_digits(None)
    check("training images", train.shape, (1442, 64), {(355, 64): "train and test are swapped", (1797, 64): "nothing is held out"})
    check("test images", test.shape, (355, 64), {(1442, 64): "train and test are swapped"})
    check("all of them", everything.shape, (1797, 64))
    check("types", (train.dtype.name, z.dtype.name), ("float32", "int64"), {
        ("float64", "int64"): "dividing whole numbers made float64: convert first",
        ("float32", "uint8"): "the labels are still uint8"})
    check("smallest and largest value", (float(train.min()), float(train.max())), (0.0, 1.0), {(0.0, 16.0): "not scaled", (0.0, 0.0627451): "divided by 255; these pixels go up to 16"})
    check("the first zero in the test is the fifth in the file", bool((everything[w == 0][4] == test[z == 0][0]).all()), True)
    check("the sum of all labels", (int(y.sum() + z.sum()), int(w.sum())), (8070, 8070))
    check("and in the order of the file", y[:12], np.arange(12) % 10)


test_load_digits()

# %% [markdown]
"""
**What it means for a real model.** A test score is a statement about *a split*. Section 6 takes the same network and another split of the same file, and the score falls.

## 2. A dataset is a length and an answer

**Question.** Images, sentences, a table on disk: what must a collection be able to do so that a loop can train on it?

Two things: say how many examples it has, and hand out example number `i`. That is the whole interface. Given, the base class. Its `batch` does the slow, general thing: ask for every example on its own, then join them (`collate`, which you
write in section 3).
"""

# %%
#| export
class Dataset:
    """Examples by number: write ``__len__`` and ``__getitem__(i)``, which returns one, mostly (input, target)."""

    def __len__(self):
        raise TypeError(f"{type(self).__name__} has no __len__ of its own; write one")

    def __getitem__(self, i):
        raise TypeError(f"{type(self).__name__} has no __getitem__ of its own; write one")

    def batch(self, indices):
        """Return the examples with these numbers as one batch; a class that can do it in one go writes its own."""
        return collate([self[int(i)] for i in indices])

# %% [markdown]
"""
When all examples already lie in tensors, example `i` is row `i` of each:

```
    images (1442, 64)          labels (1442,)
    row 7  ────────────────┐   row 7 ──┐
                           ▼           ▼
    dataset[7]  =  ( Tensor (64,), Tensor () )
    dataset[[7, 2, 9]] = ( Tensor (3, 64), Tensor (3,) )       a batch, by the same line of code
```

Here we index NumPy arrays directly, past the door of Module 01. May we? Choosing which numbers a model *will* compute with is loading, not computing: it has no gradient and no FLOPs, and a profile of the model should not
contain it.

**Task.** Write `TensorDataset`. `__init__` keeps the tensors as a tuple `self.tensors`; it refuses with a `ValueError` when there are none, when one has no axes, or when their first sizes differ; then the message has the shapes
in it, for example `TensorDataset: shapes [(4, 3), (3,)] came; want one first size for all`. `__len__` is the first size.
`__getitem__(key)` returns a **tuple**, also for a single tensor: for each tensor, a new Tensor of `data[key]` with the same dtype.

<details><summary>Hint 1: idea</summary>
One comprehension over <code>self.tensors</code> does the indexing; NumPy understands numbers, slices and lists of numbers alike.
</details>
<details><summary>Hint 2: approach</summary>
Collect the first sizes in a set: there must be exactly one. <code>Tensor(array, dtype=...)</code> keeps a float64 that was chosen on purpose.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Last elements of several lists: <code>tuple(one[-1] for one in lists)</code>. Equal lengths: <code>len({len(one) for one in lists}) == 1</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "tensor-dataset", "solution": true}
#| export
class TensorDataset(Dataset):
    """Examples that lie in tensors: number i is row i of each. ``TensorDataset(images, labels)[i]`` is a tuple."""

    def __init__(self, *tensors):
        """Keep tensors (or arrays) of one length; ``ValueError`` when their first sizes differ."""
        tensors = tuple(Tensor(t) for t in tensors)
        ### BEGIN SOLUTION
        lengths = {t.shape[:1] for t in tensors}
        if len(lengths) != 1 or () in lengths:
            raise ValueError(f"TensorDataset: shapes {[t.shape for t in tensors]} came; want one first size for all")
        self.tensors = tensors
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return len(self.tensors[0])
        ### END SOLUTION

    def __getitem__(self, key):
        ### BEGIN SOLUTION
        return tuple(Tensor(t.data[key], dtype=t.dtype) for t in self.tensors)
        ### END SOLUTION

    def batch(self, indices):
        """Return the rows with these numbers as one batch, by indexing each tensor once."""
        return self[np.asarray(indices)]

# %%
digits = TensorDataset(*load_digits("train"))
print(len(digits), "examples; number 7:", [t.shape for t in digits[7]], "it is a", digits[7][1].item())

# %% nbgrader={"grade": true, "grade_id": "test-tensor-dataset", "points": 18, "skill": "dataset"}
def test_tensor_dataset():
    """Length, rows, several rows, types, refusals."""
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([10, 11, 12, 13])
    data = TensorDataset(Tensor(x), y)
    check("the length", len(data), 4, {2: "that is how many tensors there are, not how many rows"})
    check("example 2 is a tuple of two", (type(data[2]).__name__, len(data[2])), ("tuple", 2), {("tuple", 1): "only the first tensor", ("list", 2): "a list, not a tuple"})
    check("its input and target", (data[2][0].data, data[2][1].item()), (np.array([6.0, 7.0, 8.0]), 12))
    check("several at once", data[[3, 0]][0].data, [[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]])
    check("labels stay int64", data.batch([1, 1])[1].dtype.name, "int64", {"float32": "labels became floats"})
    check("a single tensor still gives a tuple", len(TensorDataset(x)[0]), 1, {3: "the row itself came, not a tuple"})
    check("float64 on purpose stays", TensorDataset(Tensor(x, dtype=np.float64))[0][0].dtype.name, "float64", {"float32": "the dtype was not handed on"})
    check_raises("different lengths", ValueError, lambda: TensorDataset(x, y[:3]), must_say="(3,)")
    check_raises("no tensors", ValueError, lambda: TensorDataset())
    check_raises("a number has no rows", ValueError, lambda: TensorDataset(x, Tensor(3.0)))
    check_raises("row 4 of 4", IndexError, lambda: data[4])


test_tensor_dataset()

# %% [markdown]
"""
**What if** the data lies in no tensor? Then you write the two methods yourself. This one moves each picture sideways by a pixel *while it is being loaded*, so the network sees three times as many pictures and the memory holds one copy:
"""

# %%
class Sideways(Dataset):
    """Every picture three times: moved left, as it was, moved right."""

    def __init__(self, images, labels):
        self.images, self.labels = images.reshape(-1, 8, 8), labels

    def __len__(self):
        return 3 * len(self.labels)

    def __getitem__(self, i):
        number, move = i // 3, i % 3 - 1
        return np.roll(self.images[number], move, axis=1).reshape(64), self.labels[number]


moved = Sideways(*load_digits("train"))
print(len(moved), "examples; number 21 has shape", moved[21][0].shape, "and is a", moved[21][1])

# %% [markdown]
"""
## 3. From examples to a batch

**Question.** Thirty-two separate pictures of shape `(64,)`. What is a *batch* of them?

One tensor with a new axis in front: `(32, 64)`. And because an example is a pair, a batch is a pair too: all inputs stacked, all targets stacked.

```
 [ (x0, y0), (x1, y1), (x2, y2) ]      a list of tuples
   ──▶  ( stack(x0, x1, x2),  stack(y0, y1, y2) )      a tuple of stacks
```

Given: `stack`. It takes numbers, arrays and Tensors, and refuses shapes that differ, because then there *is* no batch.
"""

# %%
#| export
def stack(values):
    """Stack numbers, arrays or Tensors of one shape into a Tensor with a new first axis."""
    arrays = [v.data if isinstance(v, Tensor) else np.asarray(v) for v in values]
    shapes = sorted({a.shape for a in arrays})
    if len(shapes) > 1:
        raise ValueError(f"collate: items of shapes {shapes[0]} and {shapes[1]} are no batch; pad or crop them")
    kept = isinstance(values[0], Tensor)  # a Tensor's dtype was chosen; float64 of Python's numbers was not
    return Tensor(np.stack(arrays), dtype=arrays[0].dtype if kept else None)

# %% [markdown]
"""
**Task.** Write `collate(items)`. If the items are tuples, return a tuple of stacks, one per field; otherwise one stack. Tuples of different lengths are a `ValueError` whose message has the lengths that came in it, for example
`collate: examples of 2 and 3 fields came; want the same number in each`.

Example: `collate([(1.0, 2), (3.0, 4)])` is `(Tensor([1., 3.]), Tensor([2, 4]))`; `collate([5.0, 6.0])` is `Tensor([5., 6.])`.

<details><summary>Hint 1: idea</summary>
A list of pairs is a table with one example per row. You want its columns.
</details>
<details><summary>Hint 2: approach</summary>
<code>zip(*rows)</code> gives columns, but stops at the shortest row without a word: compare the lengths first.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>list(zip(*[("a", 1), ("b", 2), ("c", 3)]))</code> is <code>[("a", "b", "c"), (1, 2, 3)]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "collate", "solution": true}
#| export
def collate(items):
    """Make one batch of a list of examples: a tuple of Tensors if they are tuples, else one Tensor.

    Each Tensor has the examples along a new first axis.
    """
    ### BEGIN SOLUTION
    if not isinstance(items[0], tuple):
        return stack(items)
    sizes = sorted({len(item) for item in items})
    if len(sizes) > 1:
        raise ValueError(f"collate: examples of {sizes[0]} and {sizes[-1]} fields came; want the same number in each")
    return tuple(stack(column) for column in zip(*items))
    ### END SOLUTION

# %%
print([t.shape for t in collate([(np.zeros(64), 3), (np.ones(64), 0), (np.ones(64), 7)])])

# %% nbgrader={"grade": true, "grade_id": "test-collate", "points": 16, "skill": "batches"}
def test_collate():
    """Pairs, single values, types, refusals."""
    numbers = collate([(1.0, 7.0), (3.0, 8.0), (5.0, 9.0)])
    check("three pairs make a pair", (type(numbers).__name__, len(numbers)), ("tuple", 2), {("tuple", 3): "rows were stacked; the columns are wanted", ("list", 2): "a list, not a tuple"})
    batch = collate([(np.array([1.0, 2.0]), 7), (np.array([3.0, 4.0]), 8), (np.array([5.0, 6.0]), 9)])
    check("inputs", batch[0].data, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    check("targets stay whole numbers", (batch[1].data.tolist(), batch[1].dtype.kind), ((7, 8, 9), "i"))
    check("without tuples", collate([5.0, 6.0]).data, [5.0, 6.0])
    check("Tensors are stacked too", collate([(Tensor([1.0]),), (Tensor([2.0]),)])[0].shape, (2, 1))
    check("one example is a batch of one", collate([(np.zeros(4), 1)])[0].shape, (1, 4), {(4,): "the axis of the batch is missing"})
    for length in ("2", "3"):
        check_raises(f"2 and 3 fields; the message has the {length}", ValueError, lambda: collate([(7, 8), (7, 8, 9)]), must_say=length)
    check_raises("different shapes", ValueError, lambda: collate([(np.zeros(2), 0), (np.zeros(3), 1)]), must_say="(3,)")


test_collate()

# %% [markdown]
"""
**What it means for a real model.** Asking one by one is general. Indexing once is fast. Guess the factor before you run the cell:
"""

# %%
from time import perf_counter

numbers, rows = np.arange(256), TensorDataset(np.zeros((1442, 64), np.float32), np.arange(1442))
times = {}
for name, method in (("one by one, then collate", Dataset.batch), ("indexed once", TensorDataset.batch)):
    start = perf_counter()
    for _ in range(20):
        method(rows, numbers)
    times[name] = (perf_counter() - start) / 20
    print(f"{name:>24}: {1e6 * times[name]:7.0f} µs for a batch of 256")
print(f"a factor of {times['one by one, then collate'] / times['indexed once']:.0f}")

# %% [markdown]
"""
## 4. In which order?

**Question.** Shuffling is random. How can a random order be *different in every epoch* and *the same when you run again*?

A generator is not random at all: the same seed gives the same numbers. Three ways to use one, and only one of them is right:

| way | what goes wrong |
|---|---|
| one generator, used up epoch after epoch | to repeat epoch 7 you must first play epochs 0 to 6 |
| a new generator from `seed` in every epoch | every epoch has the same order |
| a new generator from `(seed, epoch)` | nothing: each epoch is a fixed order of its own |

The third makes the order a *function*. A training run that broke off in epoch 7 goes on with epoch 7, exactly.

**Task.** Write `epoch_order(n, shuffle, seed, epoch)`: an array of the numbers 0 to n-1, in order, or shuffled by a generator made from `(seed, epoch)`. NumPy's `default_rng` takes such a pair as it is.

<details><summary>Hint 1: idea</summary>
<code>np.arange</code> for one case; for the other, a generator's method that returns a shuffled range.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.random.default_rng((seed, epoch))</code>, then <code>.permutation(n)</code>. Not <code>seed + epoch</code>: then epoch 1 of seed 0 is epoch 0 of seed 1.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>np.random.default_rng((3, 1)).permutation(4)</code> gives four numbers, the same ones in the same order each time it is run.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "epoch-order", "solution": true}
#| export
def epoch_order(n, shuffle=False, seed=0, epoch=0):
    """Return 0..n-1 in the order in which ``epoch`` visits them; when shuffled, (seed, epoch) alone decide it."""
    ### BEGIN SOLUTION
    return np.random.default_rng((seed, epoch)).permutation(n) if shuffle else np.arange(n)
    ### END SOLUTION

# %%
for epoch in range(3):
    print(f"epoch {epoch}:", epoch_order(10, shuffle=True, seed=0, epoch=epoch))

# %% nbgrader={"grade": true, "grade_id": "test-epoch-order", "points": 16, "skill": "order"}
def test_epoch_order():
    """A permutation, repeatable, different by epoch and by seed, nothing global touched."""
    def order(seed, epoch):
        return epoch_order(100, shuffle=True, seed=seed, epoch=epoch).tolist()

    check("without shuffling", epoch_order(4), np.arange(4))
    check("every example once", sorted(order(0, 0)) == list(range(100)), True, {False: "some examples came twice or never"})
    check("it is not 0, 1, 2 ...", order(0, 0) == list(range(100)), False, {True: "shuffle is not looked at"})
    check("again: the same", order(5, 2) == order(5, 2), True, {False: "the seed is not used"})
    check("another epoch: another order", order(5, 2) == order(5, 3), False, {True: "every epoch has the same order: the epoch is not used"})
    check("another seed: another order", order(5, 2) == order(6, 2), False, {True: "the seed is not used"})
    check("seed 0, epoch 1 against seed 1, epoch 0", order(0, 1) == order(1, 0), False, {True: "seed + epoch: two runs share their orders"})
    before = np.random.get_state()[1].tobytes()
    order(1, 1)
    check("NumPy's global generator is left alone", np.random.get_state()[1].tobytes() == before, True, {False: "np.random.seed and np.random.permutation belong to everybody; np.random.default_rng(...) is yours"})
    check("no examples", epoch_order(0, shuffle=True).shape, (0,))


test_epoch_order()

# %% [markdown]
"""
1,442 examples in batches of 32: forty-five whole batches and two examples left over. They make a small batch of their own, or they are dropped. Dropped examples are not lost: the next epoch has another order and drops others.

**Task.** Write `cut_batches(order, batch_size, drop_last)`: a list of consecutive pieces of the array `order`. Example: ten numbers by 4 are pieces of 4, 4 and 2; with `drop_last` 4 and 4.

<details><summary>Hint 1: idea</summary>
A piece begins at every multiple of the batch size. All that <code>drop_last</code> changes is where the last piece must end.
</details>
<details><summary>Hint 2: approach</summary>
<code>range(0, end, batch_size)</code> gives the starts; a slice that reaches beyond the end of an array simply stops there. <code>n % batch_size</code> is what is left over.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Eleven by 5: starts 0, 5, 10, so pieces of 5, 5 and 1. Left over: 11 % 5 = 1, so with <code>drop_last</code> the starts end before 10.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "cut-batches", "solution": true}
#| export
def cut_batches(order, batch_size, drop_last=False):
    """Return ``order`` cut into consecutive pieces of ``batch_size``; a shorter last one stays unless ``drop_last``."""
    ### BEGIN SOLUTION
    end = len(order) - len(order) % batch_size if drop_last else len(order)
    return [order[start : start + batch_size] for start in range(0, end, batch_size)]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-cut-batches", "points": 10, "skill": "order"}
def test_cut_batches():
    """Whole batches, the rest, the edges."""
    def sizes(n, size, **more):
        return [len(piece) for piece in cut_batches(np.arange(n), size, **more)]

    check("10 by 4", sizes(10, 4), [4, 4, 2], {(4, 4): "the incomplete batch is missing", (5, 5, 2): "neighbours share an example: the end of a slice is not in it", (4,) * 7 + (3, 2, 1): "one step at a time, not a batch at a time"})
    check("10 by 4, drop_last", sizes(10, 4, drop_last=True), [4, 4], {(4, 4, 2): "drop_last is ignored"})
    check("8 by 4, drop_last", sizes(8, 4, drop_last=True), [4, 4], {(4,): "a whole last batch was dropped"})
    check("3 by 4, drop_last", len(sizes(3, 4, drop_last=True)), 0)
    check("none by 4", len(sizes(0, 4)), 0, {1: "an empty batch is no batch"})
    check("in the order that came", cut_batches(np.array([4, 2, 9]), 2)[0], np.array([4, 2]))


test_cut_batches()

# %% [markdown]
"""
## 5. The loader

**Question.** Why is a loader an object, and not a list of batches made in advance?

A list of batches holds a second copy of all the data, in one fixed order. A loader holds nothing but the recipe, and makes each batch when it is asked for.

**Task.** Finish `DataLoader`. `len(loader)` is the number of batches (count, do not cut). Iterating takes the order of `self.epoch`, counts that epoch as begun (`self.epoch += 1`), cuts the order and yields one batch after
another. Given: `__init__`, and `self.fetch(indices)`, which asks the dataset.

One more thing, for a run that goes on in the middle of an epoch (Module 07). It sets `loader.first_batch = 20`: then the *next* loop begins with batch 20 of its epoch and does not fetch the 20 before it; opening and decoding them would be work for nothing,
and might draw random numbers. The loops after that are whole again, so iterating sets `self.first_batch` back to 0. `len(loader)` stays the number of all batches.

A loader without a seed draws one from the framework's own generator, so `manual_seed(0)` at the top of a program makes its orders repeat too.

<details><summary>Hint 1: idea</summary>
Everything is there: <code>epoch_order</code>, <code>cut_batches</code>, <code>fetch</code>. A method with <code>yield</code> in it is an iterator.
</details>
<details><summary>Hint 2: approach</summary>
Whole batches are <code>n // batch_size</code>; there is one more when something is left over and it is not dropped. Count the epoch, and set <code>first_batch</code> back, <em>before</em> the first <code>yield</code>, so that a loop left early counts as well. The pieces are a list: a slice of it leaves out the first ones.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
45 examples by 10: <code>divmod(45, 10)</code> is <code>(4, 5)</code>: five batches, or four with <code>drop_last</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "data-loader", "solution": true}
#| export
class DataLoader:
    """Hand out a dataset in batches: ``for x, y in DataLoader(dataset, 32, shuffle=True, seed=0): ...``.

    The order of an epoch depends on ``(seed, epoch)`` alone; ``epoch`` counts the loops begun and may be set to go on
    where another run stopped, and ``first_batch`` says with which batch the next loop begins, once. A dataset is
    anything with ``len()`` and ``[i]``.
    """

    def __init__(self, dataset, batch_size=32, shuffle=False, seed=None, drop_last=False):
        """Keep the recipe; ``seed=None`` draws one from the default generator (``manual_seed``)."""
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(f"DataLoader: a {type(dataset).__name__} came; want a dataset, with len() and [i]")
        if seed is None:
            seed = int(default_generator().integers(2**32)) if shuffle else 0
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"DataLoader: seed {seed!r} came; want a whole number, 0 or more")
        self.dataset, self.batch_size = dataset, positive("batch_size", batch_size)
        self.shuffle, self.drop_last = bool(shuffle), bool(drop_last)
        self.seed, self.epoch, self.first_batch = int(seed), 0, 0

    def fetch(self, indices):
        """Return the examples with these numbers as one batch."""
        if isinstance(self.dataset, Dataset):
            return self.dataset.batch(indices)
        return collate([self.dataset[int(i)] for i in indices])

    def __len__(self):
        ### BEGIN SOLUTION
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)
        ### END SOLUTION

    def __iter__(self):
        ### BEGIN SOLUTION
        order = epoch_order(len(self.dataset), self.shuffle, self.seed, self.epoch)
        first, self.first_batch = self.first_batch, 0
        self.epoch += 1
        for indices in cut_batches(order, self.batch_size, self.drop_last)[first:]:
            yield self.fetch(indices)
        ### END SOLUTION

# %%
loader = DataLoader(TensorDataset(np.zeros((1442, 64), np.float32), np.arange(1442)), batch_size=32, shuffle=True, seed=0)
shapes = [x.shape for x, _ in loader]
print(len(loader), "batches:", shapes[0], "...", shapes[-1])

# %% nbgrader={"grade": true, "grade_id": "test-data-loader", "points": 14, "skill": "loader"}
def test_data_loader():
    """Counts, contents, epochs, a dataset of another kind, refusals."""
    ten = TensorDataset(np.arange(10), 10 * np.arange(10))

    def targets(loader):
        return [int(v) for _, y in loader for v in y.data]

    check("batches of 4 from ten", len(DataLoader(ten, 4)), 3, {2: "the incomplete batch is not counted"})
    check("with drop_last", len(DataLoader(ten, 4, drop_last=True)), 2, {3: "drop_last is ignored"})
    check("of 5 from ten", len(DataLoader(ten, 5)), 2, {3: "one too many when nothing is left over"})
    check("everything once, in order", targets(DataLoader(ten, 4)), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    loader, again = (DataLoader(ten, 4, shuffle=True, seed=3) for _ in range(2))
    first, second = targets(loader), targets(loader)
    check("shuffled, everything once", sorted(first), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    check("two epochs differ", first == second, False, {True: "the epoch is not counted"})
    check("a second run repeats both", [targets(again), targets(again)] == [first, second], True)
    again.epoch = 0
    check("going back to epoch 0", targets(again) == first, True)
    next(iter(loader))
    check("a loop left early counts", loader.epoch, 3, {2: "the epoch is counted at the end of the loop"})
    loader.epoch, loader.first_batch = 0, 2
    check("beginning with batch 2 of epoch 0: the last two targets of that epoch", targets(loader) == first[8:], True, {False: "the batches before it must be passed over, in the same order"})
    check("the loop after that is whole, and of epoch 1", targets(loader) == second, True, {False: "first_batch holds for one loop; set it back to 0"})
    asked = []

    class Asked(Dataset):
        """Remembers which examples it was asked for."""

        def __len__(self):
            return 10

        def __getitem__(self, i):
            asked.append(i)
            return (i, i)

    late = DataLoader(Asked(), 4)
    late.first_batch = 1
    check("and it still has three batches", len(late), 3, {2: "len() counts all batches"})
    next(iter(late))
    check("examples that were asked for", asked, [4, 5, 6, 7], {tuple(range(8)): "batch 0 was fetched for nothing"})
    check("inputs and targets belong together", all((10 * x.data == y.data).all() for x, y in loader), True)
    check("a plain list of pairs", [x.shape for x, _ in DataLoader([(np.zeros(2), 0)] * 3, 2)], [(2, 2), (1, 2)])
    check_raises("batches of 0", ValueError, lambda: DataLoader(ten, 0), must_say="batch_size is 0")


test_data_loader()

# %% [markdown]
"""
## 6. What it means for a real model

Train the digits network three times. Everything is equal, except for the data: (a) as you built it; (b) unshuffled, with the examples sorted by digit, as data often lies on disk; (c) shuffled, but the test set is the *last 355 pictures* of the
file. Bet first: which of the three is best, and by how much do they differ?
"""

# %%
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.training import Trainer


losses = {}


def accuracy(name, train, test, shuffle):
    """Train 64-32-10 for eight epochs, noting the losses; return the share of test images that it reads rightly."""
    losses[name], rng = [], np.random.default_rng(0)
    model = Sequential(Linear(64, 32, rng=rng), ReLU(), Linear(32, 10, rng=rng))
    trainer = Trainer(model, Adam(model.parameters(), lr=0.01), CrossEntropyLoss())
    trainer.fit(DataLoader(TensorDataset(*train), 32, shuffle=shuffle, seed=0), epochs=8, on_batch=lambda progress: losses[name].append(progress.loss))
    return trainer.evaluate(DataLoader(TensorDataset(*test), 256)).accuracy


(x, y), (x_all, y_all) = load_digits("train"), load_digits(None)
by_digit = np.argsort(y, kind="stable")
print(f"(a) every fifth of each digit held out: {accuracy('a', (x, y), load_digits('test'), True):6.1%}")
print(f"(b) the same, sorted by digit:          {accuracy('b', (x[by_digit], y[by_digit]), load_digits('test'), False):6.1%}")
print(f"(c) the last 355 of the file held out:  {accuracy('c', (x_all[:-355], y_all[:-355]), (x_all[-355:], y_all[-355:]), True):6.1%}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(10, 3.6), layout="constrained")
for name, label, colour in (("b", "(b) sorted by digit", "#D55E00"), ("a", "(a) shuffled", "#0072B2")):
    axes.plot(losses[name][4 * 46:7 * 46], color=colour, linewidth=1.2, label=label)
for epoch in (1, 2):
    axes.axvline(epoch * 46, color="black", linewidth=0.8, linestyle=":")
axes.set(title="loss of every batch in epochs 4, 5 and 6", xlabel="batch")
_ = axes.legend(frameon=False)

# %% [markdown]
"""
The loss of (b) never settles: it falls within the stretch of one digit and jumps at the next. The network saw only zeros for a while, then only ones, and at the end only nines: each stretch overwrote what the one before had taught, and each new digit came as a surprise. (c) is the more honest number. The file follows its writers; its last pages come from hands that
the first pages hardly show. Split by fifths, every hand is on both sides, and the network is tested on people it has met. Neither number is wrong. They answer different questions: *will it read more from these people?* and *will it read
somebody else?*

How much of an epoch goes into loading? (Module 14 measures such things properly; this is a first look.)
"""

# %%
from time import perf_counter

loader = DataLoader(TensorDataset(*load_digits("train")), batch_size=32, shuffle=True, seed=0)
start = perf_counter()
for _ in loader:
    pass
print(f"loading one epoch of {len(loader)} batches: {1e3 * (perf_counter() - start):.2f} ms")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Batch 46 of each epoch has two examples instead of 32. What does that do to training?</summary>
Its gradient is an average over two, so it is noisy, and it moves the weights as far as any other. <code>drop_last=True</code> avoids it; for evaluation never drop: every example must count.
</details>
<details><summary>Is it enough that the seed is written down, for a run to repeat?</summary>
Here nearly: order, initial weights and dropout each come from a seeded generator. Elsewhere, loading with several workers or sums in an order that varies can change the last digits.
</details>
<details><summary>The pixels were scaled by 16, known in advance. What if you scale by the mean and spread of the data?</summary>
Take them from the training set alone, and use the same numbers for the test. Otherwise the test set has told the model something.
</details>
<details><summary>A slice <code>dataset[0:32]</code> shares memory with the dataset, a list of numbers does not. When does it matter?</summary>
When somebody changes a batch in place: through the slice they change the data of all later epochs. Batches of a <code>DataLoader</code> are always copies.
</details>
<details><summary>Big systems load the next batch while the model computes on this one. When is that worth it?</summary>
When loading takes a noticeable share of the step: pictures that must be decoded, files far away. For rows of an array in memory, as here, it is not.
</details>

`tito test dataloader` checks the module; once all of it passes, `tito module complete dataloader` puts what you wrote into the package, and later modules run on your code. You have everything now that trains a network. Next: Module 09, spatial: layers
that know which pixels are neighbours.
"""
