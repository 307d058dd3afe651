# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 09 · Spatial

Tier: Architecture · Difficulty 3 of 4 · About 3 hours · Needs 01 to 08 (`tito test tensor`, `tito test activations`, `tito test layers`, `tito test losses`,
`tito test autograd`, `tito test optimizers`, `tito test training`, `tito test dataloader`)

To the fully connected network of Module 08 a picture is a list of 64 numbers. Shuffle the pixels of all pictures in the same way, and it learns exactly as well: it does not know that two pixels are neighbours. A convolution knows nothing else. It looks
through a small window, asks the same question everywhere, and notes down where the answer was yes.

**Build** the window by loops, the window as a matrix product, `Conv2d`, pooling, batch norm, `Flatten` → **use** them to read digits better than the fully connected network, with fewer weights → **reflect** on what it costs to look at every pixel nine times.

When you are done you can
1. say how large the output of a convolution is, for any kernel, stride, padding and dilation;
2. turn a convolution into one matrix product, and say what that costs in memory, and when it is worth it;
3. show with a number why a convolution needs fewer weights than a linear layer, and what happens when the picture moves;
4. pool a picture so that padding never wins and NaN never hides;
5. say why batch norm answers differently in training and in evaluation, and what it remembers.

Yours: the output size, the convolution by loops, the windows and the columns, the product, `Conv2d`, both poolings, batch norm with its running statistics, `Flatten`. Given and explained: the shape rules, the cutting of a batch into blocks, the gradients.

A cell you have not filled says which one it is: `out_size: section 1, cell 2` is the function `out_size` in the second code cell of section 1.
"""

# %%
#| default_exp core.spatial

# %%
#| export
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from tinytorch.core.autograd import vjp
from tinytorch.core.layers import Layer, generator, he_std, positive, trainable, zeros
from tinytorch.core.tensor import Tensor, floating, in_floats, is_shape_only, op, reduce_sum, sqrt

# %% [markdown]
"""
## 1. How many places does a window have?

**Question.** A window of 3 by 3 pixels slides over a picture of 32 by 32. In how many places can it stop?

Not 32 by 32: at the right edge it would hang out. In one direction, with a picture of 7 pixels:

```
 pixels     0 1 2 3 4 5 6
 stop 0     ■ ■ ■                 kernel 3, stride 1: stops 0 .. 4, so 5 of them
 stop 1       ■ ■ ■
 ...
 stop 4             ■ ■ ■

 stop 0     ■ ■ ■                 stride 2: every second place, 3 of them
 stop 1         ■ ■ ■
 stop 2             ■ ■ ■

 stop 0     ■   ■   ■             dilation 2: holes in the window. It still reads 3 pixels, but reaches over 5
 stop 1       ■   ■   ■           3 of them
 stop 2         ■   ■   ■

          0 0 1 2 3 4 5 6 0       padding 1: a frame of zeros on both sides, so that the window may begin outside. 7 of them
```

Every size may be one number for both directions, or two: (rows, columns). Given is `pair`, which makes two of one and refuses what is no whole number:
"""

# %%
#| export
def pair(what, value, least=1):
    """Return one size as two, or two as they are: ``pair("stride", 2)`` is (2, 2)."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2:
        raise ValueError(f"{what} is {value!r}; want one integer or two")
    for n in both:
        if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, np.integer)):
            raise TypeError(f"{what} is {value!r}; want one integer or two")
        if n < least:
            raise ValueError(f"{what} is {value!r}; want {least} or more")
    return int(both[0]), int(both[1])


def _short(size):
    """Show a pair of equal sizes as one."""
    return size[0] if isinstance(size, tuple) and size[0] == size[1] else size

# %% [markdown]
"""
**Task.** Write `out_size(size, kernel, stride=1, padding=0, dilation=1)`: in how many places the window stops, along one direction. All are whole numbers. A window that reaches over more pixels than the padded picture has is a `ValueError`; the
message names both numbers, as in `kernel 3 with dilation 2 reaches over 5 pixels; the padded image has 4`.

Example: `out_size(7, 3)` is 5, `out_size(7, 3, stride=2)` is 3, `out_size(7, 3, padding=1)` is 7.

<details><summary>Hint 1: idea</summary>
Three questions in turn. Over how many pixels does the window reach? How many pixels are there, frame included? The first stop is free: how many steps of <code>stride</code> fit into what remains?
</details>
<details><summary>Hint 2: approach</summary>
Between the <code>kernel</code> pixels that are read lie <code>kernel - 1</code> gaps of width <code>dilation</code>. The frame is on both sides. <code>//</code> rounds down, and what is left over at the end is not looked at.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
20 pixels, kernel 4, stride 3, padding 2, dilation 2: the window reaches over 3 · 2 + 1 = 7, there are 24 pixels, 17 remain after the first stop, 17 // 3 = 5 steps: 6 stops.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "out-size", "solution": true}
#| export
def out_size(size, kernel, stride=1, padding=0, dilation=1):
    """Return in how many places a window stops along one direction; ``ValueError`` when it does not fit once."""
    ### BEGIN SOLUTION
    reach = dilation * (kernel - 1) + 1
    if reach > size + 2 * padding:
        raise ValueError(f"kernel {kernel} with dilation {dilation} reaches over {reach} pixels; "
                         f"the padded image has {size + 2 * padding}")
    return (size + 2 * padding - reach) // stride + 1
    ### END SOLUTION

# %%
print("7 pixels:", [out_size(7, 3, *how) for how in ((1, 0), (2, 0), (1, 1), (1, 0, 2))], "and ResNet's first layer, 224 pixels:", out_size(224, 7, 2, 3))

# %% nbgrader={"grade": true, "grade_id": "test-out-size", "points": 10, "skill": "sizes"}
from tito.checks import check, check_raises


def test_out_size():
    """Kernel, stride, padding, dilation, and all of them; windows that do not fit."""
    check("3 on 32", out_size(32, 3), 30, {32: "size / stride: the window does not fit at the edge", 29: "the first stop is forgotten"})
    check("3 on 8, stride 2", out_size(8, 3, 2), 3, {3.5: "/ does not round; // does", 4: "size / stride, or rounded up: what is left over at the end is not looked at", 2: "the first stop is forgotten", 6: "the stride is ignored"})
    check("3 on 10, padding 1", out_size(10, 3, padding=1), 10, {9: "the frame is on both sides", 8: "the padding is ignored"})
    check("5 on 17, stride 2, dilation 2", out_size(17, 5, 2, 0, 2), 5, {7: "the dilation is ignored", 4: "the window reaches over 2 · 4 + 1 pixels, not 2 · 5"})
    check("7 on 11, stride 3, padding 3", out_size(11, 7, 3, 3), 4)
    check("a window as large as the image", out_size(5, 5), 1)
    check("5 on 3, padding 1: it fits with the frame", out_size(3, 5, padding=1), 1)
    check("a whole number, as sizes are", type(out_size(9, 3, 2)).__name__, "int", {"float": "/ makes a float; // stays whole"})
    for number in ("5", "4"):
        check_raises(f"reaching over 5 of 4 pixels, naming {number}", ValueError, lambda: out_size(2, 3, padding=1, dilation=2), must_say=number)
    check_raises("3 on 2, stride 2, where rounding towards zero would find one stop", ValueError, lambda: out_size(2, 3, stride=2))


test_out_size()

# %% [markdown]
"""
**What if** you stack 3 by 3 windows without padding? Bet how many layers a picture of 32 pixels survives, then run. With a padding of 1 it would survive any number:
"""

# %%
my_bet = None
size, layers = 32, 0
while size >= 3:
    size, layers = out_size(size, 3), layers + 1
print(f"bet {my_bet}: after {layers} layers {size} pixels are left, and the window fits no more")
print(f"places lost by one such layer: {1 - (out_size(32, 3) / 32) ** 2:.0%} of a picture of 32 x 32, {1 - (out_size(8, 3) / 8) ** 2:.0%} of one of 8 x 8")

# %% [markdown]
"""
## 2. One window, drawn by hand

**Question.** What does the window compute at a place where it stops?

It multiplies each pixel it sees by a weight of its own and adds everything up. That sum is large where the picture looks like the weights. A colour picture has three *channels*; then there is a weight for each pixel of each channel, and all of it goes into the
same sum. One set of weights gives one output channel. For another question, take another set:

```
 x  (C, H, W)      weight  (O, C, kh, kw)      out  (O, H', W')

 out[o, r, c]  =  Σ over channel, i, j of   weight[o, channel, i, j] · x[channel, r · stride + i, c · stride + j]
```

**Task.** Write `conv2d_by_loops(x, weight, stride=1, padding=0)` on NumPy arrays, for one picture: `x` `(C, H, W)`, `weight` `(O, C, kh, kw)`, result `(O, H', W')` in float64. Here `stride` and `padding` are single numbers. Plain loops over `o`, `r` and `c`; it is slow,
and that is all right. `np.pad(x, ((0, 0), (padding, padding), (padding, padding)))` puts the frame on; your `out_size` knows the rest.

Example: a picture `[[1, 2, 3], [4, 5, 6]]` of one channel and the weights `[[1, 0], [0, 10]]`: 1 · 1 + 10 · 5 = 51 and 1 · 2 + 10 · 6 = 62.

<details><summary>Hint 1: idea</summary>
For one output number, cut the window out of the picture. It has the shape of <code>weight[o]</code>.
</details>
<details><summary>Hint 2: approach</summary>
<code>x[:, top : top + kh, left : left + kw]</code> with <code>top = r * stride</code>, all channels at once. Multiplied by <code>weight[o]</code>, element by element, and summed over everything. Start from <code>np.zeros((O, H', W'))</code>.
Once the frame is on, it is part of <code>x</code>: <code>out_size</code> is told of the padding, or gets the larger picture, not both.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Stride 2 on 5 columns with a window of 3: the window at <code>c = 1</code> sees the columns 2, 3, 4, which is <code>x[..., 2:5]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "conv2d-by-loops", "solution": true}
def conv2d_by_loops(x, weight, stride=1, padding=0):
    """One picture, window by window: x (C, H, W), weight (O, C, kh, kw) -> (O, H', W')."""
    ### BEGIN SOLUTION
    (_, height, width), (channels, _, kh, kw) = x.shape, weight.shape
    out = np.zeros((channels, out_size(height, kh, stride, padding), out_size(width, kw, stride, padding)))
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    for o, r, c in product(*map(range, out.shape)):
        top, left = r * stride, c * stride
        out[o, r, c] = (x[:, top : top + kh, left : left + kw] * weight[o]).sum()
    return out
    ### END SOLUTION

# %%
print(conv2d_by_loops(np.array([[[1, 2, 3], [4, 5, 6]]]), np.array([[[[1, 0], [0, 10]]]])))

# %% nbgrader={"grade": true, "grade_id": "test-conv2d-by-loops", "points": 12, "skill": "convolution"}
def test_conv2d_by_loops():
    """One channel, two channels, stride, padding; the window is not turned over."""
    x, weight = np.arange(1, 13).reshape(1, 3, 4), np.array([[[[1, 0], [0, 10]]]])
    check("one channel", conv2d_by_loops(x, weight), [[[61.0, 72.0, 83.0], [105.0, 116.0, 127.0]]], {
        (((16.0, 27.0, 38.0), (60.0, 71.0, 82.0)),): "the window is turned over; ours lies as it is written",
        (((15.25, 18.0, 20.75), (26.25, 29.0, 31.75)),): "the mean of the window, not its sum"})
    check("stride 2", conv2d_by_loops(x, weight, stride=2), [[[61.0, 83.0]]], {(((61.0, 72.0),),): "r and c are multiplied by the stride to find the window"})
    check("padding 1", conv2d_by_loops(x, weight, padding=1)[0, :2], [[10.0, 20.0, 30.0, 40.0, 0.0], [50.0, 61.0, 72.0, 83.0, 4.0]])
    check("padding 1, the last row", conv2d_by_loops(x, weight, padding=1)[0, 3], [0.0, 9.0, 10.0, 11.0, 12.0])
    two = np.stack([x[0], 100 * x[0]])
    weights = np.concatenate([np.concatenate([weight, weight], axis=1), np.ones((1, 2, 2, 2)), np.zeros((1, 2, 2, 2))])
    out = conv2d_by_loops(two, weights)
    check("two channels in, three out", out.shape, (3, 2, 3))
    check("both channels go into one sum", out[0, 0], [6161.0, 7272.0, 8383.0], {(61.0, 72.0, 83.0): "only the first channel is looked at"})
    check("the second set of weights", out[1, 1], [101.0 * (5 + 6 + 9 + 10), 101.0 * 34, 101.0 * 38])
    check("a window of 2 by 3, stride 2, padding 1", conv2d_by_loops(x, np.ones((1, 1, 2, 3)), 2, 1), [[[3.0, 9.0], [30.0, 54.0]]], {
        (((3.0, 9.0), (14.0, 30.0)),): "the rows are not multiplied by the stride"})
    check("halves stay, though the picture is whole", conv2d_by_loops(x[:, :1], weight[:, :, :1] * 0.5), [[[0.5, 1.0, 1.5]]], {(((0.0, 1.0, 1.0),),): "the result has the type of the picture; want float64"})


test_conv2d_by_loops()

# %% [markdown]
"""
Now look at what a window sees. Nobody trained these nine numbers: left column -1, right column +1 means *darker on the right than on the left*. Turned by a quarter it asks about top and bottom. Guess where a handwritten 0 will light up, then run:
"""

# %%
import matplotlib.pyplot as plt

from tinytorch.core.dataloader import load_digits

images, labels = load_digits("train")
images = images.reshape(-1, 1, 8, 8)  # (N, C, H, W): one channel
edge = np.array([[-1.0, 0.0, 1.0]] * 3)
answers = conv2d_by_loops(images[0], np.stack([edge, edge.T])[:, None], padding=1)
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for axis, picture, title in zip(axes, (images[0, 0], edge, *answers), (f"a handwritten {labels[0]}", "the window", "ink begins (red), ends", "the same from the top")):
    limit = np.abs(picture).max()
    axis.imshow(picture, cmap="RdBu_r" if picture.min() < 0 else "Greys", vmin=-limit if picture.min() < 0 else 0, vmax=limit)
    axis.set(title=title, xticks=[], yticks=[])

# %% [markdown]
"""
Two things follow from asking the same question everywhere. **Few weights**: nine, wherever the window stops. And **equivariance**: if the picture moves, the answer moves along, unchanged, as long as nothing is pushed over the edge. Compare it with a linear layer that maps the same 64 pixels to the
same 64 answers; its weights are drawn at random here, once:
"""

# %%
rng = np.random.default_rng(0)
picture, moved = np.zeros((1, 8, 8)), np.zeros((1, 8, 8))
picture[0, 1:6, 1:6], moved[0, 2:7, 2:7] = (rng.random((5, 5)),) * 2  # the same drawing, one pixel down and one to the right
window, matrix = edge[None, None], rng.standard_normal((64, 64))
for name, layer, weights in (("3x3 window", lambda x: conv2d_by_loops(x, window, padding=1)[0], 9), ("linear layer", lambda x: (x.reshape(64) @ matrix).reshape(8, 8), matrix.size)):
    before, after = layer(picture), layer(moved)
    print(f"{name:>12}: {weights:5,} weights; the answer moves along to within {np.abs(after[1:, 1:] - before[:-1, :-1]).max():.1g}")

# %% [markdown]
"""
**What it means for a real model.** A linear layer has to learn what an edge looks like at each of the 64 places separately, from examples that have one just there. The window learns it once.

## 3. Windows without copying, columns with

**Question.** Your loops compute one number at a time. Where is the matrix product in there?

Each output number is the dot product of a window with the weights, both written out as a list. So write *every* window as a column of a matrix, and the whole convolution is one product:

```
 weight, one row per output channel          columns, one per stop
 (O, C·kh·kw)                           @    (C·kh·kw, H'·W')              =   (O, H'·W')
```

First the windows. Here NumPy has something to offer. An array is a block of memory and, for each axis, a number of bytes to walk to the next element: its *strides*. Nothing forbids that two elements of an array are the same bytes. So all windows of a
picture can be an array of six axes that owns no memory at all:

```
 x              (B, C, H, W)               walks of   (batch, channel, row, pixel)   bytes
 windows        (B, C, kh, kw, H', W')     walks of   (batch, channel,  ?,  ?,  ?,  ?)

 windows[b, c, i, j, r, s]   is   x[b, c,  r · stride + i · dilation,  s · stride + j · dilation]
```

In one direction: `x = [5, 6, 7, 8]` in 4-byte floats walks 4 bytes. A window of 2, stride 1, stops 3 times: `windows[j, s] = x[s + j]` has the shape (2, 3) and walks (4, 4). It is `[[5, 6, 7], [6, 7, 8]]`. With stride 2 it stops twice and walks (4, 8): `[[5, 7], [6, 8]]`.

**Task.** Write `windows(x, kernel, stops, stride, dilation)`; the last four are pairs, (rows, columns). `x` has four axes and lies in memory in one piece, padded already. Build the shape and the six strides, and hand them to
`np.ndarray(shape, x.dtype, x, 0, strides)`: an array of that shape over the memory of `x`, from its byte 0. (NumPy refuses strides that would leave that memory; `as_strided`, which you may find elsewhere, does not.)

<details><summary>Hint 1: idea</summary>
How many bytes further is the pixel you see, when <code>i</code> grows by 1? When <code>r</code> grows by 1?
</details>
<details><summary>Hint 2: approach</summary>
<code>batch, channel, row, pixel = x.strides</code>. Growing <code>i</code> by 1 walks <code>dilation[0]</code> rows; growing <code>r</code> by 1 walks <code>stride[0]</code> rows; <code>j</code> and <code>s</code> do the same with pixels.
</details>
<details><summary>Hint 3: worked example, something else</summary>
The transpose of a (2, 3) array of 4-byte floats, whose strides are (12, 4): <code>np.ndarray((3, 2), x.dtype, x, 0, (4, 12))</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "windows", "solution": true}
#| export
def windows(x, kernel, stops, stride, dilation):
    """View x (B, C, H, W), in one piece of memory, as its windows (B, C, kh, kw, H', W'); nothing is copied."""
    ### BEGIN SOLUTION
    batch, channel, row, pixel = x.strides
    steps = (batch, channel, dilation[0] * row, dilation[1] * pixel, stride[0] * row, stride[1] * pixel)
    return np.ndarray((*x.shape[:2], *kernel, *stops), x.dtype, x, 0, steps)
    ### END SOLUTION

# %%
picture = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
seen = windows(picture, (2, 2), (2, 3), (1, 1), (1, 1))
print("the picture:", picture[0, 0].tolist(), "\nits first window, r = s = 0:", seen[0, 0, :, :, 0, 0].tolist(), "and the last:", seen[0, 0, :, :, 1, 2].tolist())

# %% nbgrader={"grade": true, "grade_id": "test-windows", "points": 12, "skill": "columns"}
def test_windows():
    """Element by element, for strides and dilations that differ; no memory of its own."""
    x = np.arange(2 * 3 * 9 * 11, dtype=np.float32).reshape(2, 3, 9, 11)
    found = windows(x, (2, 3), (8, 9), (1, 1), (1, 1))
    check("shape", found.shape, (2, 3, 2, 3, 8, 9), {(2, 3, 8, 9, 2, 3): "the axes of the window come before those of the stops"})
    check("bytes to walk along each axis", found.strides, (1188, 396, 44, 4, 44, 4), {(297, 99, 11, 1, 11, 1): "counted in elements; strides are bytes", (1188, 396, 4, 44, 4, 44): "rows and columns are exchanged"})
    check("one window", found[1, 2, :, :, 4, 5], x[1, 2, 4:6, 5:8], {
        tuple(map(tuple, x[1, 2, 4:7, 5:7].T.tolist())): "rows and columns of the window are exchanged"})
    check("it is a view: the memory is that of x", np.shares_memory(found, x), True)
    check("and it can be written to, as the gradients of section 4 will", found.flags.writeable, True, {False: "this kind of view may only be read; np.ndarray(...) makes one for both"})
    check("stride (1, 2)", windows(x, (2, 3), (4, 3), (1, 2), (1, 1))[0, 0, :, :, 2, 2], x[0, 0, 2:4, 4:7], {
        tuple(map(tuple, x[0, 0, 4:6, 2:5].tolist())): "rows and columns of the stride are exchanged", tuple(map(tuple, x[0, 0, 2:4, 2:5].tolist())): "the stride is left out",
        tuple(map(tuple, x[0, 0, 2:4, 2:7:2].tolist())): "the stride belongs to the stops, the dilation to the window"})
    check("stride (2, 3)", windows(x, (2, 3), (4, 3), (2, 3), (1, 1))[1, 2, :, :, 3, 2], x[1, 2, 6:8, 6:9], {
        tuple(map(tuple, x[1, 2, 3:5, 2:5].tolist())): "the stride is left out"})
    check("dilation (3, 2)", windows(x, (2, 3), (6, 7), (1, 1), (3, 2))[0, 1, :, :, 5, 6], x[0, 1, 5:9:3, 6:11:2], {
        tuple(map(tuple, x[0, 1, 5:7, 6:9].tolist())): "the dilation is left out",
        ((160.0, 163.0, 166.0), (182.0, 185.0, 188.0)): "rows and columns of the dilation are exchanged"})
    both = windows(x, (2, 2), (2, 3), (3, 2), (4, 5))
    check("both at once", both[1, 0, :, :, 1, 2], x[1, 0, 3:8:4, 4:10:5])
    check_raises("one row of stops too many would leave the memory", ValueError, lambda: windows(x, (2, 3), (9, 9), (1, 1), (1, 1)).shape)
    check("int8 walks one byte", windows(np.arange(12, dtype=np.int8).reshape(1, 1, 3, 4), (2, 2), (2, 3), (1, 1), (1, 1))[0, 0, :, :, 1, 2], [[6, 7], [10, 11]])


test_windows()

# %% [markdown]
"""
A view costs nothing, but the product cannot work on it: a matrix walks by *one* number of bytes from row to row, and these windows have three axes to walk along before the columns begin. So now they must be copied, once, into a real matrix. A reshape does exactly that when it cannot
be a view.

One more thing, *groups*: with `groups=2` the first half of the output channels looks at the first half of the input channels only, and the second at the second. It is two convolutions side by side, so two matrices side by side, and an axis for them is all it takes.

**Task.** Write `columns(x, kernel, stops, stride, dilation, groups)`: your windows as matrices, `(B, groups, C/groups · kh · kw, H' · W')`. `groups` divides `C`. `prod` is imported.

Example: a picture of shape (1, 4, 6, 7), kernel (3, 2), 4 by 6 stops: with one group (1, 1, 24, 24), with two (1, 2, 12, 24).

<details><summary>Hint 1: idea</summary>
The order of the axes is right already: channel, i, j, then r, s.
</details>
<details><summary>Hint 2: approach</summary>
One <code>reshape</code> of your <code>windows(...)</code>. Write out all four sizes: a <code>-1</code> cannot be found when the batch is empty.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Windows (5, 6, 2, 2, 3, 4), three groups: (5, 3, 2 · 2 · 2, 12).
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "columns", "solution": true}
#| export
def columns(x, kernel, stops, stride, dilation, groups):
    """Return the windows of x (B, C, H, W) as the columns of matrices (B, groups, C/groups * kh * kw, H' * W')."""
    ### BEGIN SOLUTION
    seen = windows(x, kernel, stops, stride, dilation)
    return seen.reshape(x.shape[0], groups, x.shape[1] // groups * prod(kernel), prod(stops))
    ### END SOLUTION

# %%
print(columns(picture, (2, 2), (2, 3), (1, 1), (1, 1), 1)[0, 0])

# %% nbgrader={"grade": true, "grade_id": "test-columns", "points": 10, "skill": "columns"}
def test_columns():
    """Order, groups, sizes; the product of Module 01 with them is the convolution by loops."""
    x = np.random.default_rng(0).integers(-9, 10, (2, 4, 5, 6)).astype(np.float64)
    weight = np.random.default_rng(1).integers(-9, 10, (6, 4, 3, 2)).astype(np.float64)
    found = columns(x, (3, 2), (3, 5), (1, 1), (1, 1), 1)
    check("shape", found.shape, (2, 1, 24, 15), {(2, 24, 15): "the axis of the groups is missing", (2, 1, 15, 24): "a column per stop, not a row", (1, 2, 24, 15): "batch and groups are exchanged"})
    check("the first column is the first window", found[1, 0, :, 0], x[1, :, :3, :2].ravel())
    check("the last column", found[0, 0, :, -1], x[0, :, 2:, 4:].ravel())
    check("times the weights: the loops' answer", (weight.reshape(6, 24) @ found[1, 0]).reshape(6, 3, 5), conv2d_by_loops(x[1], weight))
    half = columns(x, (3, 2), (3, 5), (1, 1), (1, 1), 2)
    check("two groups", half.shape, (2, 2, 12, 15), {(2, 1, 24, 15): "the groups are ignored"})
    check("the second group looks at channels 2 and 3", half[1, 1, :, 7], x[1, 2:, 1:4, 2:4].ravel(), {
        tuple(x[1, 1::2, 1:4, 2:4].ravel().tolist()): "every second channel went there; the groups are halves"})
    check("stride and dilation", columns(x, (2, 2), (2, 2), (2, 3), (2, 2), 1)[0, 0, :, 3], x[0, :, 2:5:2, 3:6:2].ravel(), {
        tuple(x[0, :, 1:4:2, 1:4:2].ravel().tolist()): "the stride is not handed on", tuple(x[0, :, 2:4, 3:5].ravel().tolist()): "the dilation is not handed on",
        tuple(x[0, :, 2:5:2, 2:6:3].ravel().tolist()): "stride and dilation are exchanged"})
    check("an empty batch", columns(x[:0], (3, 2), (3, 5), (1, 1), (1, 1), 1).shape, (0, 1, 24, 15))


test_columns()

# %% [markdown]
"""
**Bet.** The picture of a middle layer: 64 channels of 28 by 28 pixels, window 3 by 3, padding 1. How many times larger than the picture are its columns? And how much faster is the product than your loops?
"""

# %%
from time import perf_counter

my_bet = (None, None)
x, weight = np.random.default_rng(0).standard_normal((1, 64, 28, 28)).astype(np.float32), np.random.default_rng(1).standard_normal((64, 64, 3, 3)).astype(np.float32)
framed_by_hand = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
runs = []
for _ in range(3):  # the first run warms up; the shortest of three counts
    start = perf_counter()
    found = columns(framed_by_hand, (3, 3), (28, 28), (1, 1), (1, 1), 1)
    answer = weight.reshape(64, 576) @ found[0, 0]
    runs.append(perf_counter() - start)
start = perf_counter()
by_loops = conv2d_by_loops(x[0], weight[:4], padding=1)
seconds = (min(runs), 16 * (perf_counter() - start))
print(f"bet {my_bet}; the columns are {found.nbytes / x.nbytes:.0f} times as large: {x.nbytes:,} bytes, {found.nbytes:,} bytes")
print(f"product {1e3 * seconds[0]:.1f} ms, loops about {1e3 * seconds[1]:.0f} ms (4 of 64 channels timed): {seconds[1] / seconds[0]:.0f} times as long")
print(f"largest difference {np.abs(answer[:4].reshape(4, 28, 28) - by_loops).max():.1e}")

# %% [markdown]
"""
**What it means for a real model.** Nine times the picture, for every picture of the batch, would fill the memory of a training run. So nobody keeps the columns: they are built for one picture, used while they are still in the cache, and built again when a gradient needs them.

## 4. The product

**Question.** Is the copying the price, or is there a way around most of it?

There is. Take windows of height **one**: `columns(x, (1, 3), ...)` with all rows of the picture as stops. That is 3 times the picture, not 9. Its columns run over the places (row, column) in reading order, so a step down by one row is a step of W' columns to the right. The
matrix for kernel row `i` is therefore *a slice of the same columns*:

```
 columns of height 1      [ row 0 | row 1 | row 2 | row 3 | row 4 ]        each W' wide
 for kernel row 0         [ row 0 | row 1 | row 2 ]
 for kernel row 1                 [ row 1 | row 2 | row 3 ]                 the same memory, W' further
 for kernel row 2                         [ row 2 | row 3 | row 4 ]

 out  =  weight[row 0] @ slice 0  +  weight[row 1] @ slice 1  +  weight[row 2] @ slice 2
```

One product became three, which add up. What is saved in copying is paid for in adding, so it depends: with many input channels it pays, for a picture of three colours it does not. The function `rows_at_once` (given) counts the elements either way would move, and chooses. `strips` (given)
returns a list: one matrix for each product. `matrices` (given) cuts the weights to match.
"""

# %%
#| export
def framed(x, padding):
    """Return x (B, C, H, W) in one piece of memory with ``padding`` rows and columns of zeros on either side."""
    rows, sides = padding
    if not rows and not sides:
        return np.ascontiguousarray(x)
    batch, channels, height, width = x.shape
    out = np.zeros((batch, channels, height + 2 * rows, width + 2 * sides), x.dtype)
    out[:, :, rows : rows + height, sides : sides + width] = x
    return out

# %%
#| export
def rows_at_once(x, weight, out):
    """Return how many kernel rows go into one product, all or 1: what moves fewer elements, from the three shapes."""
    (batch, channels, _, _), (_, _, kh, kw), places = x, weight, prod(out[2:])
    together = kh * kw * channels * places
    apart = kw * channels * places + 2 * (kh - 1) * out[1] * places + 2 * prod(weight) // max(1, batch)
    return 1 if apart < together else kh

# %%
#| export
def strips(x, rows, kernel, stops, stride, dilation, groups):
    """Return the columns of a framed x for each product: kh/rows times (B, groups, C/groups * rows * kw, H' * W')."""
    if rows == kernel[0]:
        return [columns(x, kernel, stops, stride, dilation, groups)]
    flat = columns(x, (1, kernel[1]), (x.shape[2], stops[1]), (1, stride[1]), dilation, groups)
    flat = flat.reshape(*flat.shape[:3], x.shape[2], stops[1])
    starts, reach = [i * dilation[0] for i in range(kernel[0])], (stops[0] - 1) * stride[0] + 1
    return [flat[..., i : i + reach : stride[0], :].reshape(*flat.shape[:3], prod(stops)) for i in starts]

# %%
#| export
def matrices(weight, rows, groups):
    """Return weight (O, C/groups, kh, kw) cut for the products: (kh / rows, groups, O/groups, C/groups * rows * kw)."""
    out_channels, channels, kh, kw = weight.shape
    if rows == kh:
        return weight.reshape(1, groups, out_channels // groups, channels * kh * kw)
    cut = weight.reshape(groups, out_channels // groups, channels, kh // rows, rows * kw).transpose(3, 0, 1, 2, 4)
    return cut.reshape(kh // rows, groups, out_channels // groups, channels * rows * kw)

# %%
wide, narrow = (np.zeros((1, channels, 30, 30), np.float32) for channels in (64, 3))
for name, x in (("64 channels", wide), ("3 channels", narrow)):
    rows = rows_at_once(x.shape, (64, x.shape[1], 3, 3), (1, 64, 28, 28))
    cut = strips(x, rows, (3, 3), (28, 28), (1, 1), (1, 1), 1)
    print(f"{name}: {len(cut)} product(s), matrices {cut[0].shape}, sharing memory: {len(cut) > 1 and np.shares_memory(*cut[:2])}")

# %% [markdown]
"""
**Task.** Write `products(weights, cut, bias=None)`, the arithmetic of a convolution on arrays. `weights` and `cut` are what `matrices` and `strips` return, equally long: `weights[i]` is `(groups, O/groups, K)`, `cut[i]` is `(B, groups, K, H' · W')`. Multiply them pair by pair and add everything up, then the `bias`, an array `(O,)`, or
`None`. The result is `(B, groups, O/groups, H' · W')`.

Example: weights `[[[[2]]], [[[10]]]]`, cut `[[[[[1, 2]]]], [[[[3, 4]]]]]`, bias `[100]`: 2 · [1, 2] + 10 · [3, 4] + 100 is [132, 144], in the shape (1, 1, 1, 2). Inputs stay as they were.

<details><summary>Hint 1: idea</summary>
<code>@</code> treats leading axes as stacks, and lines up <code>(groups, O/groups, K)</code> with <code>(B, groups, K, H'·W')</code> by itself.
</details>
<details><summary>Hint 2: approach</summary>
The first product is a new array, so the others may be added to it in place. The bias belongs to the output channels: shown as <code>(groups, O/groups, 1)</code> it stretches over batch and places. Where the bias has another type than the sum, <code>sum + bias</code> takes the wider one, <code>+=</code> does not.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Six output channels in two groups: bias (6,) shown as (2, 3, 1) and a sum of (5, 2, 3, 20): every place of channel 4 gets <code>bias[4]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "products", "solution": true}
#| export
def products(weights, cut, bias=None):
    """Add up (groups, O/groups, K) @ (B, groups, K, H'W') over both lists, and the bias (O,)."""
    ### BEGIN SOLUTION
    total = weights[0] @ cut[0]
    for i in range(1, len(cut)):
        total += weights[i] @ cut[i]
    if bias is None:
        return total
    bias = bias.reshape(*weights[0].shape[:2], 1)
    if bias.dtype != total.dtype:
        return total + bias
    total += bias
    return total
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-products", "points": 12, "skill": "convolution"}
def test_products():
    """Sums of products, groups, bias, types; inputs untouched."""
    one = products(np.array([[[[2.0]]], [[[10.0]]]]), [np.array([[[[1.0, 2.0]]]]), np.array([[[[3.0, 4.0]]]])], np.array([100.0]))
    check("the example", one, [[[[132.0, 144.0]]]], {((((32.0, 44.0),),),): "the bias is missing", ((((102.0, 104.0),),),): "only the first product", ((((232.0, 244.0),),),): "the bias is added once per product", ((((134.0, 148.0),),),): "the first product is added twice"})
    random = np.random.default_rng(0).integers(-9, 10, (3, 2, 3, 4)).astype(np.float64)  # three products, two groups, O = 6, K = 4
    cut = [np.random.default_rng(i).integers(-9, 10, (5, 2, 4, 7)).astype(np.float64) for i in range(3)]
    bias, before = np.arange(6.0) * 1000, [strip.copy() for strip in cut]
    found = products(random, cut, bias)
    check("shape", found.shape, (5, 2, 3, 7))
    plain = sum(random[i, 1, 1] @ cut[i][2, 1] for i in range(3))
    check("group 1, channel 4", found[2, 1, 1], plain + 4000.0, {tuple((plain + 1000.0).tolist()): "every group got the bias of the first", tuple((plain + 3000.0).tolist()): "the bias counts group by group: three of group 0, then three of group 1"})
    check("group 0, channel 2", found[4, 0, 2], sum(random[i, 0, 2] @ cut[i][4, 0] for i in range(3)) + 2000.0)
    check("without a bias", products(random, cut)[0, 1, 2], sum(random[i, 1, 2] @ cut[i][0, 1] for i in range(3)))
    check("inputs are left as they were", all((a == b).all() for a, b in zip(cut, before)) and bool((bias == np.arange(6.0) * 1000).all()), True)
    float32 = [random.astype(np.float32), [strip.astype(np.float32) for strip in cut]]
    check("float32 stays", products(*float32, bias.astype(np.float32)).dtype.name, "float32")
    check("a float64 bias is not rounded", products(*float32, bias).dtype.name, "float64", {"float32": "added in place: the result kept the narrower type"})


test_products()

# %% [markdown]
"""
The rest of the op is plumbing, and given. The shape rule refuses what does not fit, naming the shapes; here your `out_size` speaks. `plan` works out, from shapes alone, how many rows go into a product, and cuts the batch into blocks whose columns stay in the cache: one picture of the middle layer at a time, but 64 digits together. The op goes block by block.
"""

# %%
#| export
def conv2d_shape(x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """Return (B, O, H', W') for x (B, C, H, W), weight (O, C/groups, kh, kw) and bias (O,), or raise ``ValueError``."""
    all_pairs({"stride": stride, "padding": padding, "dilation": dilation})
    what = f"x {x} with weight {weight}"
    if len(x) != 4 or len(weight) != 4 or min(x[1:]) < 1 or min(weight) < 1:
        raise ValueError(f"{what}: want x (B, C, H, W) and weight (O, C/groups, kh, kw), none empty but B")
    if groups < 1 or x[1] != weight[1] * groups or weight[0] % groups:
        raise ValueError(f"{what} and groups {groups}: want {weight[1]} * groups = {x[1]} input channels, "
                         f"and groups that divide {weight[0]} output channels")
    if bias is not None and bias != weight[:1]:
        raise ValueError(f"bias {bias} with weight {weight}: want {weight[:1]}")
    if min(*stride, *dilation) < 1 or min(padding) < 0:
        raise ValueError(f"stride {stride}, padding {padding}, dilation {dilation}: want at least 1, 0 and 1")
    try:
        return *x[:1], *weight[:1], *[out_size(*one) for one in zip(x[2:], weight[2:], stride, padding, dilation)]
    except ValueError as error:
        raise ValueError(f"{what} and padding {padding}: {error}") from None


def all_pairs(sizes):
    """Refuse with a ``TypeError`` what is not a pair: ops are given pairs, layers make them."""
    for name, size in sizes.items():
        if not isinstance(size, tuple) or len(size) != 2:
            raise TypeError(f"{name} is {size!r}; an op wants a pair, as pair({name!r}, ...) makes one")

# %% [markdown]
"""
All this is the same for every batch of a training, so `plan` remembers its answers. (`out_size` is among the things it remembers them by: when you correct yours, the plan is made anew.)
"""

# %%
#| export
@lru_cache(maxsize=1024)
def plan(x, weight, bias, stride, padding, dilation, groups, itemsize, size_rule):
    """Return a convolution's output shape, its kernel rows per product and the blocks of its batch (slices).

    A block is as many samples as have columns of about a megabyte together, so that they stay in the cache.
    """
    shape = conv2d_shape(x, weight, bias, stride, padding, dilation, groups)
    rows = rows_at_once(x, weight, shape)
    step = max(1, 2**20 // (prod(x[1:]) * rows * weight[3] * itemsize))
    return shape, rows, tuple(slice(i, i + step) for i in range(0, x[0], step))


@op(shape=conv2d_shape)
def conv2d(x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """2-D convolution: x (B, C, H, W), weight (O, C/groups, kh, kw), bias (O,) -> (B, O, H', W'); sizes are pairs."""
    shape, rows, blocks = plan(x.shape, weight.shape, None if bias is None else bias.shape, stride, padding, dilation,
                               groups, x.itemsize, out_size)
    cut, how = matrices(weight, rows, groups), (rows, weight.shape[2:], shape[2:], stride, dilation, groups)
    if len(blocks) == 1:
        return products(cut, strips(framed(x, padding), *how), bias).reshape(shape)
    out = np.empty(shape, np.result_type(x, weight, *(() if bias is None else (bias,))))
    for block in blocks:
        found = products(cut, strips(framed(x[block], padding), *how), bias)
        out[block] = found.reshape(found.shape[0], *shape[1:])
    return out

# %%
digits = Tensor(images[:64])
print(conv2d(digits, Tensor(np.stack([edge, edge.T])[:, None]), padding=(1, 1)).shape)
try:
    conv2d(digits, Tensor(np.ones((2, 1, 9, 9))))
except ValueError as refusal:
    print(refusal)

# %% [markdown]
"""
**The gradients**, given. A convolution is linear in the picture, and linear in the weights. So each gradient is a product of the other two of {picture, weights, gradient of the output}, and an op of its own, a contraction as expensive as the convolution itself:

- for the **weights**: which pixel met this weight, and how much did the output there matter? `g @ columns.T`, added up over the batch. The columns are built again; keeping them would cost nine times the picture.
- for the **picture**: `weights.T @ g` is the gradient of the columns, and a pixel gets the sum over all windows in which it was seen. The six-axis view of section 3 again, this time added to.

Being products of two things, they have gradients too, which are the same three ops. Nothing new comes up, however often one differentiates.
"""

# %%
#| export
def _input_gradient_shape(g, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    x = (*g[:1], weight[1] * groups, *size)
    if conv2d_shape(x, weight, None, stride, padding, dilation, groups) != g:
        raise ValueError(f"g {g} with weight {weight}: does not come from an image of {tuple(size)}")
    return x


@op(shape=_input_gradient_shape)
def conv2d_input_gradient(g, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """Gradient of ``conv2d`` for x: g (B, O, H', W'), weight (O, C/groups, kh, kw) -> (B, C, H, W); size is (H, W)."""
    x = _input_gradient_shape(g.shape, weight.shape, size, stride, padding, dilation, groups)
    _, rows, blocks = plan(x, weight.shape, None, stride, padding, dilation, groups, g.itemsize, out_size)
    kernel, stops, (top, left) = weight.shape[2:], g.shape[2:], padding
    cut, out = matrices(weight, rows, groups).swapaxes(2, 3), np.empty(x, np.result_type(g, weight))
    for block in blocks:
        one = g[block].reshape(-1, groups, g.shape[1] // groups, prod(stops))
        frame = np.zeros((len(one), x[1], x[2] + 2 * top, x[3] + 2 * left), out.dtype)
        seen = windows(frame, kernel, stops, stride, dilation)
        for start, matrix in enumerate(cut):  # rows is 1, or all rows are in the one matrix
            back = (matrix @ one).reshape(len(one), x[1], rows, kernel[1], *stops)
            for i, j in product(range(rows), range(kernel[1])):
                seen[:, :, start + i, j] += back[:, :, i, j]
        out[block] = frame[:, :, top : top + x[2], left : left + x[3]]
    return out

# %%
#| export
def _weight_gradient_shape(g, x, kernel, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    weight = (g[1], x[1] // groups, *kernel)
    if conv2d_shape(x, weight, None, stride, padding, dilation, groups) != g:
        raise ValueError(f"g {g} with x {x}: does not come from a kernel of {tuple(kernel)}")
    return weight


@op(shape=_weight_gradient_shape)
def conv2d_weight_gradient(g, x, kernel, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """Gradient of ``conv2d`` for the weight: g (B, O, H', W'), x (B, C, H, W) -> (O, C/groups, kh, kw)."""
    shape = _weight_gradient_shape(g.shape, x.shape, kernel, stride, padding, dilation, groups)
    _, rows, blocks = plan(x.shape, shape, None, stride, padding, dilation, groups, x.itemsize, out_size)
    (out_channels, channels, kh, kw), stops = shape, g.shape[2:]
    sums = np.zeros((kh // rows, groups, out_channels // groups, channels * rows * kw), np.result_type(g, x))
    for block in blocks:
        one = g[block].reshape(-1, groups, out_channels // groups, prod(stops))
        for total, strip in zip(sums, strips(framed(x[block], padding), rows, kernel, stops, stride, dilation, groups)):
            total += (one @ strip.swapaxes(2, 3)).sum(axis=0)
    return sums.reshape(kh // rows, out_channels, channels, rows * kw).transpose(1, 2, 0, 3).reshape(shape)

# %%
#| export
@vjp(conv2d)
def conv2d_vjp(g, out, x, weight, bias=None, **how):
    """Gradients of a convolution for x, weight and bias."""
    return (
        lambda: conv2d_input_gradient(g, weight, size=x.shape[2:], **how),
        lambda: conv2d_weight_gradient(g, x, kernel=weight.shape[2:], **how),
        lambda: reduce_sum(g, axis=(0, 2, 3)),
    )

# %%
#| export
@vjp(conv2d_input_gradient)
def conv2d_input_gradient_vjp(u, out, g, weight, size, **how):
    """Gradients of the input gradient, for g and weight; u has the shape of x."""
    return lambda: conv2d(u, weight, **how), lambda: conv2d_weight_gradient(g, u, kernel=weight.shape[2:], **how)


@vjp(conv2d_weight_gradient)
def conv2d_weight_gradient_vjp(u, out, g, x, kernel, **how):
    """Gradients of the weight gradient, for g and x; u has the shape of the weight."""
    return lambda: conv2d(x, u, **how), lambda: conv2d_input_gradient(g, u, size=x.shape[2:], **how)

# %%
from tinytorch.core.autograd import check_rule

random = np.random.default_rng(0).standard_normal
sample = random((2, 4, 5, 6)), random((6, 2, 3, 2)), random(6)
how = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
print(f"largest difference between the rules and the slopes: {check_rule(conv2d, *sample, **how):.1e}")

# %% [markdown]
"""
## 5. The layer

**Question.** What is left to do for a layer? Weights with the right spread, and names.

How large should they start? One output adds up `C/groups · kh · kw` products: that is the *fan in* of Module 03, and ReLU follows, so it is He's recipe.

**Task.** Write the two missing pieces of `Conv2d`. In `__init__`: `weight`, trainable, `(out_channels, in_channels // groups, kh, kw)`, normal with the standard deviation `he_std(fan_in)`, drawn from `rng` (`generator(rng)` of Module 03: for `None` the default one) in one go with `rng.normal(0, std, shape)`;
and `bias`, `zeros(out_channels)`, or `None` when `bias=False`. Draw through `trainable(shape, draw)` of Module 03, so that a run on shapes only draws nothing. In `forward`: your op; tensors by position (what an op gets by name is a setting, and has no gradient), the four settings by name, and no bias handed on when there is none. Checked and ready as pairs:
`kernel_size`, `stride`, `padding`, `dilation`.

Example: `Conv2d(3, 16, 3)` holds 16 · 3 · 3 · 3 + 16 = 448 numbers, and makes `(5, 16, 30, 30)` of `(5, 3, 32, 32)`.

<details><summary>Hint 1: idea</summary>
It is <code>Linear</code> again: two tensors on <code>self</code>, one call in <code>forward</code>.
</details>
<details><summary>Hint 2: approach</summary>
<code>trainable</code> wants a function of the shape: a <code>lambda shape: ...</code> that remembers the generator and the standard deviation. <code>prod(self.kernel_size)</code> is kh · kw.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
8 input channels, 4 groups, kernel (3, 5): each output looks at 2 channels, the fan in is 2 · 15 = 30, the standard deviation sqrt(2 / 30) = 0.26.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "conv2d-layer", "solution": true}
#| export
class Conv2d(Layer):
    """2-D convolution: x (B, in_channels, H, W) -> (B, out_channels, H', W'); sizes are one integer or (rows, columns).

    ``weight`` is (out_channels, in_channels // groups, kh, kw), normal with ``he_std``; ``bias`` starts at zero.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 rng=None):
        self.in_channels = positive("in_channels", in_channels)
        self.out_channels = positive("out_channels", out_channels)
        self.kernel_size, self.stride = pair("kernel_size", kernel_size), pair("stride", stride)
        self.padding, self.dilation = pair("padding", padding, least=0), pair("dilation", dilation)
        self.groups = positive("groups", groups)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(f"groups is {groups}; it must divide {in_channels} input and {out_channels} output "
                             "channels")
        ### BEGIN SOLUTION
        shape = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        rng, std = generator(rng), he_std(prod(shape[1:]))
        self.weight = trainable(shape, lambda shape: rng.normal(0, std, shape))
        self.bias = zeros(self.out_channels) if bias else None
        ### END SOLUTION

    def forward(self, x):
        """Convolve: (B, in_channels, H, W) -> (B, out_channels, H', W')."""
        ### BEGIN SOLUTION
        given = (x, self.weight) if self.bias is None else (x, self.weight, self.bias)
        return conv2d(*given, stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups)
        ### END SOLUTION

    def __repr__(self):
        usual = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
        more = [f", {name}={_short(vars(self)[name])}" for name, value in usual.items() if vars(self)[name] != value]
        no_bias = "" if self.bias is not None else ", bias=False"
        return f"Conv2d({self.in_channels}, {self.out_channels}, {_short(self.kernel_size)}{''.join(more)}{no_bias})"

# %%
layer = Conv2d(1, 16, 3, padding=1)
print(layer, [(name, p.shape) for name, p in layer.named_parameters()], layer(digits).shape)

# %% nbgrader={"grade": true, "grade_id": "test-conv2d-layer", "points": 10, "skill": "layers"}
from tinytorch.core.tensor import shape_only


def test_conv2d_layer():
    """Parameters, where they come from, every setting reaches the op, refusals."""
    layer = Conv2d(3, 16, 3)
    check("numbers in Conv2d(3, 16, 3)", sum(p.size for p in layer.parameters()), 448, {432: "the bias is not found", 16: "the weight is not found"})
    check("they want gradients, and the bias is 0", (all(p.requires_grad for p in layer.parameters()), float(np.abs(layer.bias.data).max())), (True, 0.0))
    wide = Conv2d(8, 12, (3, 5), groups=4, rng=np.random.default_rng(0))
    check("weight with groups", wide.weight.shape, (12, 2, 3, 5), {(12, 8, 3, 5): "the groups are ignored", (8, 3, 3, 5): "in and out are exchanged"})
    check("output", layer(Tensor(np.ones((5, 3, 32, 32)))).shape, (5, 16, 30, 30))
    want = np.random.default_rng(0).normal(0, np.sqrt(2 / 30), (12, 2, 3, 5))
    check("drawn from rng with the fan in of one output, 30", wide.weight.data[5, 1], want[5, 1], {
        tuple(map(tuple, want[5, 1] / 2)): "the fan in counts all channels; an output looks at those of its group",
        tuple(map(tuple, want[5, 1] * np.sqrt(15))): "the fan in is the channels only; the window counts too"}, rtol=1e-5)
    check("bias=False", [name for name, _ in Conv2d(4, 3, 2, bias=False).named_parameters()], ["weight"])
    how = {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2), "groups": 2}
    layer, x = Conv2d(2, 4, (2, 3), **how), Tensor(np.random.default_rng(1).standard_normal((3, 2, 7, 8)))
    layer.bias.data[:] = [1, 2, 3, 4]
    check("every setting reaches the op", layer(x).shape, (3, 4, 3, 8), {
        (3, 4, 6, 8): "the stride is not handed on", (3, 4, 3, 4): "the padding is not handed on, or one stride serves both directions",
        (3, 4, 3, 10): "the dilation is not handed on", (3, 4, 5, 4): "the padding is exchanged"})
    layer(x).sum().backward()
    check("the gradient reaches the bias: 3 pictures with 3 by 8 places", None if layer.bias.grad is None else layer.bias.grad.data, [72.0] * 4, {None: "hand the bias on by position: what an op gets by name is a setting, and has no gradient"})
    check("the numbers are those of the op", np.array_equal(layer(x).data, conv2d(x, layer.weight, layer.bias, **how).data), True, {False: "is the bias handed on?"})
    check("and without a bias", Conv2d(2, 4, (2, 3), bias=False, **how)(x).shape, (3, 4, 3, 8))
    before = generator().bit_generator.state
    drawn = Conv2d(2, 3, 2).weight.data
    generator().bit_generator.state = before
    check("without rng the default generator draws", np.array_equal(drawn, Conv2d(2, 3, 2).weight.data) and not np.array_equal(drawn, Conv2d(2, 3, 2).weight.data), True, {
        False: "rng=None means the default generator: started anew it repeats, otherwise it goes on"})
    with shape_only():
        check("on shapes only the weight is hollow", not any(Conv2d(3, 16, 3).weight.data.strides), True, {False: "it was drawn all the same: let trainable do the drawing"})
    check_raises("groups that do not divide", ValueError, lambda: Conv2d(4, 6, 3, groups=3), must_say="groups is 3")


test_conv2d_layer()

# %% [markdown]
"""
**Bet.** From 8 by 8 pixels to 16 numbers at each of 64 places: how many weights has `Conv2d(1, 16, 3, padding=1)`, how many a `Linear` layer for the same job? And if the picture had 224 by 224 pixels?
"""

# %%
my_bet = (None, None)
by_window = sum(p.size for p in Conv2d(1, 16, 3, padding=1).parameters())
print("bet", my_bet)
for side in (8, 224):
    pixels = side**2
    by_matrix = pixels * 16 * pixels + 16 * pixels  # the weights of Linear(pixels, 16 * pixels), and its biases
    print(f"{side:3} x {side:3}: Conv2d(1, 16, 3) {by_window}, Linear({pixels}, {16 * pixels}) {by_matrix:,}, in float32 {4 * by_matrix / 1e6:,.1f} MB")

# %% [markdown]
"""
**What it means for a real model.** The weights of a convolution do not depend on the size of the picture, its work does. Few parameters and much arithmetic: the opposite of a linear layer, and Module 14 will show what that means for the machine.

## 6. Pooling

**Question.** After some layers, is it still important *exactly* where the edge was?

Mostly not: here or one pixel further, it is the same digit. Pooling looks through a window, at each channel for itself, and keeps one number: the largest, or the average. The windows lie side by side: the stride is the window's size, unless you say otherwise. Those of
2 by 2 halve the picture in each direction.

Both are computed the same way, and not window by window: for 2 by 2 windows there are four offsets inside a window. For each offset, take *all* pixels at that offset, one from each window, as one strided slice; four passes over large arrays in place of thousands of tiny windows.

```
 windows of 2, stride 2        a b a b a b        offset (0, 0): all a      offset (0, 1): all b
                               c d c d c d        offset (1, 0): all c      offset (1, 1): all d
```

Padding needs care. A frame of zeros would win against a picture of negative numbers. So there is no frame: `offsets` (given) lists, for each offset in reading order, `to`, the stops whose pixel at that offset really exists, and `frm`, these pixels, as keys for the last two axes.
"""

# %%
#| export
def pool_shape(x, kernel, stride=None, padding=(0, 0)):
    """Return (B, C, H', W') for x (B, C, H, W), or raise ``ValueError``; stride None is the kernel's size."""
    stride = kernel if stride is None else stride
    all_pairs({"kernel": kernel, "stride": stride, "padding": padding})
    if len(x) != 4 or min(x[1:]) < 1:
        raise ValueError(f"x {x}: want four axes (B, C, H, W), none empty but B")
    if min(*kernel, *stride) < 1 or min(padding) < 0 or any(2 * p > k for p, k in zip(padding, kernel)):
        raise ValueError(f"x {x}: kernel {kernel}, stride {stride} and padding {padding}; want sizes of 1 or more, and "
                         "a padding of at most half the kernel")
    try:
        return *x[:2], *[out_size(*one) for one in zip(x[2:], kernel, stride, padding)]
    except ValueError as error:
        raise ValueError(f"x {x} with kernel {kernel} and padding {padding}: {error}") from None

# %%
#| export
def meeting(size, stops, offset, stride, padding):
    """Return as two slices which stops have a pixel at ``offset`` of their window, and which pixels these are."""
    first = max(0, -((offset - padding) // stride))
    last = max(first, min(stops, (size - 1 + padding - offset) // stride + 1))
    start = first * stride + offset - padding
    return slice(first, last), slice(start, start + (last - first) * stride, stride)


@lru_cache(maxsize=1024)
def offsets(size, stops, kernel, stride=None, padding=(0, 0)):
    """Return (to, frm) for each offset in a window, in reading order: keys of the output and of the input."""
    each = zip(size, stops, kernel, stride or kernel, padding)
    both = [[meeting(n, stop, i, step, frame) for i in range(width)] for n, stop, width, step, frame in each]
    return [((..., rows[0], sides[0]), (..., rows[1], sides[1])) for rows, sides in product(*both)]

# %%
for to, frm in offsets((5, 4), (2, 2), (2, 2)):
    (r, s), (row, pixel) = to[1:], frm[1:]
    print(f"stops [{r.start}:{r.stop}, {s.start}:{s.stop}] see the pixels [{row.start}:{row.stop}:{row.step}, {pixel.start}:{pixel.stop}:{pixel.step}]")

# %% [markdown]
"""
**Task.** Write the bodies of the ops `max_pool2d` and `avg_pool2d`. Given in both: `shape`, the output's shape, and `places`, the list of `(to, frm)`.

- Max: start from an array full of `lowest(x.dtype)` (given: minus infinity, or the smallest number of the type), which loses against everything, and let each offset's pixels compete. The dtype of `x` stays. NaN must win: a broken number should be seen.
- Average: add up each offset's pixels, in floats (`in_floats(x)` of Module 01), and divide by the size of the *window*, frame included: a pixel outside counts as a zero, and it counts.

Example: `[[1, 2, 5], [3, 4, 6]]` with windows of 2 and stride 1: maxima `[[4, 6]]`, averages `[[2.5, 4.25]]`.

<details><summary>Hint 1: idea</summary>
A loop over <code>places</code> with one line in it: <code>out[to]</code> and <code>x[frm]</code> have the same shape.
</details>
<details><summary>Hint 2: approach</summary>
<code>np.maximum</code> lets NaN win. <code>np.full(shape, value, dtype)</code> and <code>np.zeros(shape, dtype)</code> start. The size of the window is <code>prod(kernel)</code>; dividing in place, <code>out /= n</code>, keeps the type.
</details>
<details><summary>Hint 3: worked example, something else</summary>
The smallest of each window: <code>for to, frm in places: out[to] = np.minimum(out[to], x[frm])</code>, started from plus infinity.
</details>
"""

# %%
#| export
def lowest(dtype):
    """Return what loses against every number of a type: minus infinity, False or the smallest integer."""
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min

# %% nbgrader={"grade": false, "grade_id": "max-pooling", "solution": true}
#| export
@op(shape=pool_shape)
def max_pool2d(x, kernel, stride=None, padding=(0, 0)):
    """Largest number in each window: x (B, C, H, W) -> (B, C, H', W'); NaN wins, padding never. Sizes are pairs."""
    shape = pool_shape(x.shape, kernel, stride, padding)
    places = offsets(x.shape[2:], shape[2:], kernel, stride, padding)
    ### BEGIN SOLUTION
    out = np.full(shape, lowest(x.dtype), x.dtype)
    for to, frm in places:
        out[to] = np.maximum(out[to], x[frm])
    return out
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "avg-pooling", "solution": true}
#| export
@op(shape=pool_shape, dtype=floating)
def avg_pool2d(x, kernel, stride=None, padding=(0, 0)):
    """Average of each window, padding counted as zeros: x (B, C, H, W) -> (B, C, H', W'). Sizes are pairs."""
    shape = pool_shape(x.shape, kernel, stride, padding)
    places = offsets(x.shape[2:], shape[2:], kernel, stride, padding)
    ### BEGIN SOLUTION
    x = in_floats(x)
    out = np.zeros(shape, x.dtype)
    for to, frm in places:
        out[to] += x[frm]
    out /= prod(kernel)
    return out
    ### END SOLUTION

# %%
picture = Tensor([[[[1, 2, 5], [3, 4, 6]]]])
print(max_pool2d(picture, kernel=(2, 2), stride=(1, 1)).data.tolist(), avg_pool2d(picture, kernel=(2, 2), stride=(1, 1)).data.tolist())

# %% nbgrader={"grade": true, "grade_id": "test-pooling", "points": 14, "skill": "pooling"}
def test_pooling():
    """Values, strides, padding that never wins, averages over the whole window, types, NaN."""
    x = Tensor(np.array([[[[1, 2, 5, 0, 9], [3, 4, 6, 7, 9], [-8, 8, 0, 2, 9]]]], np.float32))
    check("maxima of 2 by 2", max_pool2d(x, kernel=(2, 2)).data, [[[[4.0, 7.0]]]], {((((1.0, 0.0),),),): "the smallest number of each window", ((((2.5, 4.5),),),): "that is the average"})
    check("the picture is left as it was", float(x.data.sum()), 57.0)
    check("averages of 2 by 2", avg_pool2d(x, kernel=(2, 2)).data, [[[[2.5, 4.5]]]], {((((10.0, 18.0),),),): "sums, not averages"})
    check("averages of 2 by 2, stride (3, 3)", avg_pool2d(x, kernel=(2, 2), stride=(3, 3)).data, [[[[2.5, 6.25]]]], {((((10 / 9, 25 / 9),),),): "divided by the size of the stride; the window counts"})
    check("maxima of 3 by 2, stride (1, 3)", max_pool2d(x, kernel=(3, 2), stride=(1, 3)).data, [[[[8.0, 9.0]]]])
    negative = Tensor(np.full((2, 3, 4, 6), -5.0))
    check("padding never wins", max_pool2d(negative, kernel=(3, 2), padding=(1, 1)).data[1, 2, 0], [-5.0] * 4, {(0.0,) * 4: "a zero won that is not in the picture"})
    check("averages count the frame: a corner of 3 by 2 holds 2 of 6", avg_pool2d(negative, kernel=(3, 2), padding=(1, 1)).data[1, 2, 0], [-10 / 6, -20 / 6, -20 / 6, -10 / 6], {
        (-5.0,) * 4: "divided by the pixels that exist; the frame counts as zeros", (-10 / 9, -20 / 9, -20 / 9, -10 / 9): "divided by kernel[0] squared", (-2.5, -5.0, -5.0, -2.5): "divided by kernel[1] squared"}, rtol=1e-5)
    small = Tensor(np.array([[[[-128, -7], [-100, -128]]]], np.int8))
    check("int8 stays, and -128 is a number", (max_pool2d(small, kernel=(1, 2)).dtype.name, max_pool2d(small, kernel=(1, 2)).data.tolist()), ("int8", [[[[-7], [-100]]]]))
    large = Tensor(np.array([[[[2**53 + 1, 2**53]]]], np.int64))
    check("whole numbers too large for a float stay exact", int(max_pool2d(large, kernel=(1, 2)).data[0, 0, 0, 0]), 2**53 + 1, {2**53: "on the way they were floats: start from np.full(shape, lowest(x.dtype), x.dtype)"})
    check("one pixel of 9 in a window of 3 by 3, the rest frame", avg_pool2d(Tensor([[[[9.0]]]]), kernel=(3, 3), padding=(1, 1)).item(), 1.0, {9.0: "divided by the pixels that exist; the frame counts as zeros"})
    check("an average of integers", avg_pool2d(small, kernel=(1, 2)).data, [[[[-67.5], [-114.0]]]], {
        ((((60.0,), (14.0,)),),): "added up in int8, where -128 - 7 wraps around", ((((60.5,), (14.0,)),),): "added up in int8, where -128 - 7 wraps around", ((((-67.0,), (-114.0,)),),): "the average is rounded to whole numbers"})
    broken = Tensor([[[[1.0, np.nan], [np.nan, 1.0], [1.0, 2.0]]]])
    check("NaN wins, in its window", max_pool2d(broken, kernel=(1, 2)).data.ravel(), [np.nan, np.nan, 2.0], {(1.0, 1.0, 2.0): "a comparison let NaN pass", (1.0, np.nan, 2.0): "a comparison let NaN pass", (np.nan, 1.0, 2.0): "a comparison let NaN pass", (np.nan,) * 3: "NaN reached windows that do not see it"})
    check("an empty batch", (max_pool2d(Tensor(np.zeros((0, 3, 4, 4))), kernel=(2, 2)).shape, avg_pool2d(Tensor(np.zeros((0, 3, 4, 4))), kernel=(2, 2)).shape), ((0, 3, 2, 2), (0, 3, 2, 2)))
    check("minus infinity alone stays", max_pool2d(Tensor(np.full((1, 1, 2, 2), -np.inf)), kernel=(2, 2)).item(), -np.inf)
    check("the pictures are left as they were", (float(x.data.sum()), float(negative.data.sum())), (57.0, -720.0))
    check("channels and batch stay apart", max_pool2d(Tensor(np.arange(24.0).reshape(2, 3, 2, 2)), kernel=(2, 2)).data.ravel(), np.arange(3.0, 24, 4))


test_pooling()

# %% [markdown]
"""
The gradients, given. An average spreads `g` evenly over its window. A maximum sends all of it to the pixel that won; among equal ones to the first in reading order. The layers are given, too.
"""

# %%
#| export
def _gradient_size(g, size, kernel, stride=None, padding=(0, 0)):
    x = (*g[:2], *size)
    if len(g) != 4 or pool_shape(x, kernel, stride, padding) != g:
        raise ValueError(f"g {g}: does not come from an image of {tuple(size)} with kernel {kernel}")
    return x


@op(shape=_gradient_size)
def avg_pool2d_gradient(g, size, kernel, stride=None, padding=(0, 0)):
    """Gradient of ``avg_pool2d``: g (B, C, H', W') -> (B, C, H, W); size is (H, W)."""
    out = np.zeros(_gradient_size(g.shape, size, kernel, stride, padding), g.dtype)
    share = g / g.dtype.type(prod(kernel))
    for to, frm in offsets(tuple(size), g.shape[2:], kernel, stride, padding):
        out[frm] += share[to]
    return out

# %%
#| export
@vjp(avg_pool2d)
def avg_pool2d_vjp(g, out, x, **how):
    """Spread g evenly over each window."""
    return (lambda: avg_pool2d_gradient(g, size=x.shape[2:], **how),)


@vjp(avg_pool2d_gradient)
def avg_pool2d_gradient_vjp(u, out, g, size, **how):
    """It is linear in g, and turned around it is the average."""
    return (lambda: avg_pool2d(u, **how),)

# %%
#| export
def _same_pool(g, pooled, x, **how):
    if g != pooled or pool_shape(x, **how) != pooled:
        raise ValueError(f"g {g} and pooled {pooled} with x {x}: want both to be {pool_shape(x, **how)}")
    return x


def _picked(u, pooled, x, **how):
    if u != x:
        raise ValueError(f"u {u} with x {x}: want equal shapes")
    _same_pool(pooled, pooled, x, **how)
    return pooled

# %%
#| export
def winners(pooled, x, how):
    """Yield (to, frm, won) for each offset; ``won`` is True once per window: at its first maximum, or its first NaN."""
    free = np.ones(pooled.shape, bool)
    for to, frm in offsets(x.shape[2:], pooled.shape[2:], **how):
        won = ((x[frm] == pooled[to]) | (x[frm] != x[frm])) & free[to]
        free[to] ^= won
        yield to, frm, won

# %%
#| export
@op(shape=_same_pool, dtype=lambda g, pooled, x, **how: g)
def max_pool2d_gradient(g, pooled, x, **how):
    """Gradient of ``max_pool2d``: g and pooled (B, C, H', W'), x (B, C, H, W) -> (B, C, H, W)."""
    out = np.zeros(_same_pool(g.shape, pooled.shape, x.shape, **how), g.dtype)
    for to, frm, won in winners(pooled, x, how):
        out[frm] += np.where(won, g[to], g.dtype.type(0))
    return out


@op(shape=_picked, dtype=lambda u, pooled, x, **how: u)
def max_pool2d_pick(u, pooled, x, **how):
    """Take u (B, C, H, W) where x has the first maximum of each window: -> (B, C, H', W')."""
    out = np.zeros(_picked(u.shape, pooled.shape, x.shape, **how), u.dtype)
    for to, frm, won in winners(pooled, x, how):
        np.copyto(out[to], u[frm], where=won)
    return out

# %%
#| export
@vjp(max_pool2d)
def max_pool2d_vjp(g, out, x, **how):
    """Send g to the first maximum of each window."""
    return (lambda: max_pool2d_gradient(g, out, x, **how),)


@vjp(max_pool2d_gradient)
def max_pool2d_gradient_vjp(u, out, g, pooled, x, **how):
    """It is linear in g; the places do not move."""
    return lambda: max_pool2d_pick(u, pooled, x, **how), None, None


@vjp(max_pool2d_pick)
def max_pool2d_pick_vjp(g, out, u, pooled, x, **how):
    """Put g back to where u was taken from."""
    return lambda: max_pool2d_gradient(g, pooled, x, **how), None, None

# %%
#| export
class _Pool(Layer):
    """What both poolings share: a window, a stride (the window's size unless given) and a padding."""

    def __init__(self, kernel_size, stride=None, padding=0):
        self.kernel_size, self.padding = pair("kernel_size", kernel_size), pair("padding", padding, least=0)
        self.stride = self.kernel_size if stride is None else pair("stride", stride)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size)):
            raise ValueError(f"padding is {padding}; want at most half the kernel_size {kernel_size}")

    def __repr__(self):
        more = "" if self.stride == self.kernel_size else f", stride={_short(self.stride)}"
        more += "" if self.padding == (0, 0) else f", padding={_short(self.padding)}"
        return f"{type(self).__name__}({_short(self.kernel_size)}{more})"

# %%
#| export
class MaxPool2d(_Pool):
    """Largest number in each window: x (B, C, H, W) -> (B, C, H', W'); padding never wins."""

    def forward(self, x):
        """Pool: (B, C, H, W) -> (B, C, H', W')."""
        return max_pool2d(x, kernel=self.kernel_size, stride=self.stride, padding=self.padding)


class AvgPool2d(_Pool):
    """Average of each window: x (B, C, H, W) -> (B, C, H', W'); padding counts as zeros."""

    def forward(self, x):
        """Pool: (B, C, H, W) -> (B, C, H', W')."""
        return avg_pool2d(x, kernel=self.kernel_size, stride=self.stride, padding=self.padding)

# %% [markdown]
"""
**What if** nobody trains anything? Two edge windows, ReLU, and the largest number of each quarter of the picture; then the same picture moved by one pixel. How much of the answer changes, before pooling and after? (More than 100% is possible: an edge that is gone here and new there counts twice.)
"""

# %%
from tinytorch.core.activations import ReLU

zero = images[labels == 0][:50]
before, after = Tensor(zero), Tensor(np.pad(zero, ((0, 0), (0, 0), (0, 0), (1, 0)))[..., :8])  # one pixel to the right
edges = Conv2d(1, 2, 3, padding=1, bias=False)
edges.weight.data[:, 0] = edge, edge.T
for name, layers in (("edges", (edges, ReLU())), ("edges, pooled by 2", (edges, ReLU(), MaxPool2d(2))), ("edges, pooled by 4", (edges, ReLU(), MaxPool2d(4)))):
    a, b = before, after
    for layer in layers:
        a, b = layer(a), layer(b)
    print(f"{name:>19}: {a.size // 50:4} numbers per picture, of which the move changes {np.abs(a.data - b.data).sum() / np.abs(a.data).sum():.0%}")

# %% [markdown]
"""
**What it means for a real model.** Pooling buys a little deafness to position, and makes everything behind it cheaper: half the rows, half the columns, a quarter of the work.

## 7. Batch norm: one layer, two behaviours, a memory

**Question.** Module 03 chose the *first* weights so that numbers keep their spread. Who looks after the spread once training has moved the weights?

Batch norm does (Ioffe and Szegedy, 2015). For each channel it takes mean and variance over the batch, all rows and all columns, subtracts one and divides by the root of the other. So every channel has mean 0 and variance 1, whatever the weights before it do. Then it multiplies by `weight` and adds `bias`,
one number per channel, learned: if another spread is better, the network may have it.

```
 mean, var    over the axes (0, 2, 3) of x (B, C, H, W):   shape (1, C, 1, 1)
 out   =      (x - mean) · weight / sqrt(var + eps)  +  bias          eps = 1e-5: a constant channel must not divide by 0
```

At the door of a shop, one customer comes alone. What is the mean of a batch of one? So the layer *remembers*: in training it keeps running statistics, and in evaluation it uses these in place of the batch's own. After each training batch

```
 running  =  (1 - momentum) · running  +  momentum · found          momentum = 0.1, running starts at mean 0, variance 1
```

One fine point. The variance of `n` numbers around *their own* mean is a little too small; times `n / (n - 1)` it is right on average (*unbiased*). The running variance gets that one; the batch itself is divided by the plain one, as everywhere in the field.

**Task.** Write two methods. `forward(x)`: in training compute `mean` and `var` (plain) with ops, so that the gradient flows through them, and call `self.remember(mean, var, n)` with `n`, the count of numbers per channel; in evaluation take `self.running_mean` and `self.running_var`, arrays `(C,)`. Then the formula.
`remember(mean, var, n)`: update both arrays **in place** (`array[...] = ...`), with the unbiased variance. A batch with NaN or infinities in it must not spoil what was learned: if a new value is not finite (`np.isfinite(new.data).all()` says), leave the array as it was. Under `is_shape_only()` there are no values: then leave both alone, too. The arithmetic goes through ops, on shapes only too, so that Module 14 can count it (make a `Tensor` of the old array, with `dtype=array.dtype`, or float64 statistics would be rounded to float32); only the writing is left out there.
`mean.detach()` is the same numbers without the memory of how they were made.

You may use `x.mean(axis=(0, 2, 3), keepdims=True)`, `Tensor(array)`, `.reshape(...)`, `sqrt`, `.data`, and `self.weight`, `self.bias` `(C,)`, `self.eps`, `self.momentum`, `self.training`. Given is the refusal of wrong shapes, and of a single number per channel.

Example: one channel with the numbers 1, 3, 5, 7: mean 4, variance 5; out about -1.34, -0.45, 0.45, 1.34. Unbiased it is 20 / 3, so the running statistics become 0.4 and 0.9 + 0.67 = 1.57.

<details><summary>Hint 1: idea</summary>
Two ways to a mean and a variance, one formula after it. Bring all four (mean, variance, weight, bias) into the shape (1, C, 1, 1), and they stretch over x.
</details>
<details><summary>Hint 2: approach</summary>
The variance is the mean of <code>centred * centred</code>, where <code>centred = x - mean</code>. Work out <code>weight / sqrt(var + eps)</code> first: that is C numbers, and x is passed over once less. In <code>remember</code> a loop over two pairs (array, found) saves writing it twice; <code>.data.reshape(C)</code> fits a tensor (1, C, 1, 1) to the array.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Running variance 2, found 6 over n = 4 numbers, momentum 0.25: unbiased 6 · 4 / 3 = 8; 0.75 · 2 + 0.25 · 8 = 3.5.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "batch-norm", "solution": true}
#| export
class BatchNorm2d(Layer):
    """Bring each channel of x (B, C, H, W) to mean 0 and variance 1, then scale by ``weight``, shift by ``bias`` (C,).

    Training uses the batch's statistics and updates ``running_mean`` and ``running_var`` (plain arrays, the variance
    unbiased); evaluation uses those. A batch that is not finite is not remembered. Source: Ioffe and Szegedy, 2015.
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        self.num_features, self.eps, self.momentum = positive("num_features", num_features), float(eps), float(momentum)
        if not self.eps > 0 or not 0 <= self.momentum <= 1:
            raise ValueError(f"eps {eps}, momentum {momentum}: want eps above 0 and momentum from 0 to 1")
        self.weight, self.bias = trainable((num_features,), np.ones), zeros(num_features)
        self.running_mean, self.running_var = zeros(num_features).data, trainable((num_features,), np.ones).data

    def remember(self, mean, var, n):
        """Move the running statistics towards the batch's: mean and var (1, C, 1, 1) over n numbers per channel."""
        ### BEGIN SOLUTION
        unbiased = var.detach() * (n / (n - 1))
        for running, found in ((self.running_mean, mean.detach()), (self.running_var, unbiased)):
            found = found.reshape(self.num_features)
            new = Tensor(running, dtype=running.dtype) * (1 - self.momentum) + found * self.momentum
            if not is_shape_only() and np.isfinite(new.data).all():
                running[...] = new.data
        ### END SOLUTION

    def forward(self, x):
        """Normalize each channel: (B, C, H, W) -> (B, C, H, W)."""
        if x.ndim != 4 or x.shape[1] != self.num_features:
            raise ValueError(f"BatchNorm2d: x {x.shape}; want four axes (B, {self.num_features}, H, W)")
        n = x.size // self.num_features  # numbers per channel
        if self.training and n < 2:
            raise ValueError(f"BatchNorm2d: x {x.shape} has {n} number(s) per channel; training needs 2 or more, "
                             "or call eval()")
        ### BEGIN SOLUTION
        shape = (1, self.num_features, 1, 1)
        if self.training:
            mean = x.mean(axis=(0, 2, 3), keepdims=True)
            centred = x - mean
            var = (centred * centred).mean(axis=(0, 2, 3), keepdims=True)
            self.remember(mean, var, n)
        else:
            centred = x - Tensor(self.running_mean, dtype=self.running_mean.dtype).reshape(shape)
            var = Tensor(self.running_var, dtype=self.running_var.dtype).reshape(shape)
        scale = self.weight.reshape(shape) / sqrt(var + self.eps)
        return centred * scale + self.bias.reshape(shape)
        ### END SOLUTION

    def __repr__(self):
        more = "" if self.eps == 1e-5 else f", eps={self.eps}"
        return f"BatchNorm2d({self.num_features}{more}{'' if self.momentum == 0.1 else f', momentum={self.momentum}'})"

# %%
norm = BatchNorm2d(1)
print(norm(Tensor(np.array([1, 3, 5, 7]).reshape(2, 1, 1, 2))).data.ravel().round(3), norm.running_mean, norm.running_var)

# %% nbgrader={"grade": true, "grade_id": "test-batch-norm", "points": 16, "skill": "normalization"}
from tinytorch.core.autograd import check_gradient


def test_batch_norm():
    """Training, running statistics, evaluation, gradients, shapes only."""
    norm = BatchNorm2d(1)
    x = Tensor(np.array([1, 3, 5, 7]).reshape(2, 1, 1, 2))
    out, want = norm(x).data.ravel(), (np.array([-3.0, -1.0, 1.0, 3.0]) / np.sqrt(5 + 1e-5))
    check("training: 1, 3, 5, 7", out, want, {
        tuple(want * np.sqrt(3 / 4)): "divided by the unbiased variance; the batch takes the plain one", (1.0, 3.0, 5.0, 7.0): "the running statistics were used in training",
        tuple((np.array([0.6, 2.6, 4.6, 6.6]) / np.sqrt(0.9 + 2 / 3 + 1e-5)).tolist()): "the running statistics were used in training", tuple((want * np.sqrt(5 / 21)).tolist()): "the mean of x², not of (x - mean)²",
        tuple(want / np.sqrt(5)): "divided by the variance, not by its root"}, rtol=1e-5)
    check("running mean and variance", np.array([norm.running_mean[0], norm.running_var[0]]), [0.4, 0.9 + 2 / 3], {
        (0.4, 1.4): "the running variance takes the unbiased one", (3.6, 0.1 + 6.0): "momentum is the share of the new, not of the old", (0.4, 0.9 + 0.375): "n / (n - 1), not the other way round",
        (0.0, 1.0): "nothing was remembered", (0.4, 1.0): "the variance was not remembered", (0.4, 1.9): "n counts rows and columns too: 4 numbers, not 2 pictures", (4.0, 20 / 3): "the old values are gone; only a tenth of the new is taken"}, rtol=1e-5)
    with np.errstate(all="ignore"):
        nearly = BatchNorm2d(2)(Tensor(np.array([[0, 7], [0.002, 7]]).reshape(2, 2, 1, 1))).data.reshape(2, 2)
        check("a channel that is nearly constant, 0 and 0.002, and one that is", nearly, np.array([[-1.0, 0.0], [1.0, 0.0]]) * 0.001 / np.sqrt(1.1e-5), {
            ((-1.0, np.nan), (1.0, np.nan)): "eps is missing", ((-0.990099, 0.0), (0.990099, 0.0)): "eps belongs under the root"}, rtol=1e-3)
    norm = BatchNorm2d(2, eps=1.0, momentum=0.5)
    for step in range(2):
        out = norm(Tensor(np.array([[0, 10], [4, 30]]).reshape(2, 2, 1, 1) + step)).data.reshape(2, 2)
    check("eps 1: under the root stand 4 + 1 and 100 + 1", out, np.array([[-2, -10], [2, 10]]) / np.sqrt([5, 101]), {((-1.0, -1.0), (1.0, 1.0)): "eps is self.eps"}, rtol=1e-4)
    check("two steps with momentum 0.5", norm.running_mean, [2.0, 15.5], {
        (0.48, 3.9): "momentum is self.momentum", (1.0, 10.0): "only the first batch was remembered", (3.0, 21.0): "the last batch replaced what was known",
        (8.75, 8.75): "the channels were mixed"}, rtol=1e-5)
    check("and the variance, with n / (n - 1) = 2", norm.running_var, [0.25 + 0.25 * 8 + 0.5 * 8, 0.25 + 0.75 * 200], {(0.25 + 0.75 * 4, 0.25 + 0.75 * 100): "n / (n - 1), with the n of this batch"}, rtol=1e-5)
    norm = BatchNorm2d(3)
    norm.weight.data[:], norm.bias.data[:], kept = [1, 2, 3], [10, 20, 30], (norm.running_mean, norm.running_var)
    batch = np.random.default_rng(0).standard_normal((4, 3, 5, 2)) * np.array([1, 5, 9]).reshape(3, 1, 1) + np.array([0, 7, 100]).reshape(3, 1, 1)
    out = norm(Tensor(batch)).data
    check("mean of each channel is its bias", out.mean(axis=(0, 2, 3)), [10.0, 20.0, 30.0], rtol=1e-3)
    check("spread of each channel is its weight", out.std(axis=(0, 2, 3)), [1.0, 2.0, 3.0], rtol=1e-3)
    check("the running arrays are still the same objects", norm.running_mean is kept[0] and norm.running_var is kept[1], True, {False: "they were replaced; write into them"})
    check("and plain arrays, not parameters", (type(norm.running_mean).__name__, len(norm.parameters())), ("ndarray", 2))
    norm.eval()
    want = (batch[:1] - norm.running_mean.reshape(3, 1, 1)) / np.sqrt(norm.running_var.reshape(3, 1, 1) + 1e-5) * np.array([1, 2, 3]).reshape(3, 1, 1) + np.array([10, 20, 30]).reshape(3, 1, 1)
    own = (batch[:1] - batch[:1].mean(axis=(2, 3), keepdims=True)) / np.sqrt(batch[:1].var(axis=(2, 3), keepdims=True) + 1e-5) * np.array([1, 2, 3]).reshape(3, 1, 1) + np.array([10, 20, 30]).reshape(3, 1, 1)
    alone = norm(Tensor(batch[:1])).data
    check("evaluation uses what is remembered", alone[0, :, 4, 1], want[0, :, 4, 1], {tuple(own[0, :, 4, 1].tolist()): "the batch's own statistics were used in evaluation"}, rtol=1e-4)
    check("and the company makes no difference", bool(np.allclose(norm(Tensor(batch)).data[:1], alone, rtol=1e-5)), True, {False: "in evaluation nothing of the batch is used, and nothing is remembered"})
    before = norm.running_mean.tolist(), norm.running_var.tolist()
    norm(Tensor(batch))
    check("evaluation remembers nothing", (norm.running_mean.tolist(), norm.running_var.tolist()) == before, True)
    norm.train()
    check("the gradient flows through mean and variance", check_gradient(norm, Tensor(batch[:2, :, :2])) < 1e-4, True)
    before = norm.running_mean.tolist()
    with shape_only():
        check("on shapes only", norm(Tensor(batch)).shape, (4, 3, 5, 2))
    check("and nothing is remembered there", norm.running_mean.tolist() == before, True)


test_batch_norm()

# %% [markdown]
"""
**Bet.** A digit goes through a batch norm together with 31 other digits, then with 31 copies of itself, in training. Is the answer the same? And in evaluation? The second line is the classic bug: somebody tested a trained network in training mode, and every answer depended on the neighbours.
"""

# %%
my_bet = (None, None)
norm, digit = BatchNorm2d(1), images[:1]
for _ in range(50):
    norm(Tensor(images[:256]))  # remembers digits
for mode in (True, False):
    norm.train(mode)
    company, copies = norm(Tensor(images[:32])).data[0], norm(Tensor(np.repeat(digit, 32, axis=0))).data[0]
    print(f"{'training' if mode else 'evaluation':>10}: the answers differ by up to {np.abs(company - copies).max():.2g}")

# %% [markdown]
"""
**What it means for a real model.** `eval()` before use is not a formality. And in evaluation the whole layer multiplies each channel by one fixed number and adds another, so a program that only runs a finished model can fold it into the convolution before it, and it costs nothing at all.

## 8. Flatten, and a network that sees

**Question.** Behind the last pooling stand 32 channels of 2 by 2 numbers. The scores of ten digits come from a linear layer. What is missing?

One reshape: everything but the batch becomes one axis.

**Task.** Write `Flatten.forward`: `(B, ...)` → `(B, rest)`, where `rest` is the product of all sizes but the first. An empty batch works too, and so does any other empty axis. (A tensor without axes is refused for you.)

Example: `(5, 32, 2, 2)` becomes `(5, 128)`, `(0, 3, 4)` becomes `(0, 12)`.

<details><summary>Hint 1: idea</summary>
<code>x.reshape(...)</code> with two sizes.
</details>
<details><summary>Hint 2: approach</summary>
<code>-1</code> cannot be worked out where an axis is empty. <code>prod</code> can.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>prod((7, 2, 3)[1:])</code> is 6.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "flatten", "solution": true}
#| export
class Flatten(Layer):
    """Make one axis of all but the batch: x (B, ...) -> (B, rest)."""

    def forward(self, x):
        """Reshape: (B, ...) -> (B, rest)."""
        if x.ndim < 1:
            raise ValueError("Flatten: a tensor without axes came; want (B, ...)")
        ### BEGIN SOLUTION
        return x.reshape(x.shape[0], prod(x.shape[1:]))
        ### END SOLUTION

    def __repr__(self):
        return "Flatten()"

# %% nbgrader={"grade": true, "grade_id": "test-flatten", "points": 4, "skill": "layers"}
def test_flatten():
    """Shapes, order, an empty batch, the gradient's way back."""
    x = Tensor(np.arange(30.0).reshape(5, 3, 2), requires_grad=True)
    out = Flatten()(x)
    check("shape", out.shape, (5, 6), {(30,): "the batch must stay"})
    check("order", out.data[1], np.arange(6.0, 12.0))
    check("an empty batch", Flatten()(Tensor(np.zeros((0, 3, 4)))).shape, (0, 12))
    check("pictures without rows", Flatten()(Tensor(np.zeros((3, 0, 4)))).shape, (3, 0))
    check("a batch of numbers", Flatten()(Tensor(np.zeros(7))).shape, (7, 1))
    out.sum().backward()
    check("the gradient finds its way back", x.grad.shape, (5, 3, 2))


test_flatten()

# %% [markdown]
"""
Now all of it together, against the fully connected network of Module 08. Both see the same pictures, in the same order, for the same six epochs. Then a second test, for which nobody trained: the same 355 pictures, each moved one pixel to the left. Bet on all four numbers first:
"""

# %%
from tinytorch.core.dataloader import DataLoader, TensorDataset
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.training import Trainer

my_bet = {"MLP": (None, None), "CNN": (None, None)}
rng = np.random.default_rng(0)
mlp = Sequential(Flatten(), Linear(64, 96, rng=rng), ReLU(), Linear(96, 10, rng=rng))
cnn = Sequential(Conv2d(1, 16, 3, padding=1, rng=rng), ReLU(), MaxPool2d(2), Conv2d(16, 32, 3, padding=1, rng=rng), ReLU(), MaxPool2d(2), Flatten(), Linear(128, 10, rng=rng))
tests, test_labels = load_digits("test")
tests = tests.reshape(-1, 1, 8, 8)
moved = np.pad(tests, ((0, 0), (0, 0), (0, 0), (0, 1)))[..., 1:]
for name, model in (("MLP", mlp), ("CNN", cnn)):
    start = perf_counter()
    trainer = Trainer(model, Adam(model.parameters(), lr=0.005), CrossEntropyLoss())
    trainer.fit(DataLoader(TensorDataset(images, labels), 64, shuffle=True, seed=0), epochs=6)
    seconds = perf_counter() - start
    found = [trainer.evaluate(DataLoader(TensorDataset(one, test_labels), 355)).accuracy for one in (tests, moved)]
    print(f"{name}: {sum(p.size for p in model.parameters()):,} parameters, {seconds:.1f} s; reads {found[0]:.1%}, moved by a pixel {found[1]:.1%}   (bet {my_bet[name]})")

# %% [markdown]
"""
One claim is still open, the first of this notebook: shuffle the pixels of all pictures in the same way, and the fully connected network does not notice. And yours? Each network learns from the start, on pictures that no eye can read, shuffled in three ways. Bet on both averages:
"""

# %%
my_bet = {"MLP": None, "CNN": None}
found = {"MLP": [], "CNN": []}
for seed in range(3):  # three ways to shuffle
    order, rng = np.random.default_rng(seed).permutation(64), np.random.default_rng(0)
    mixed, mixed_tests = (one.reshape(-1, 64)[:, order].reshape(-1, 1, 8, 8) for one in (images, tests))
    blind = {"MLP": Sequential(Flatten(), Linear(64, 96, rng=rng), ReLU(), Linear(96, 10, rng=rng)),
             "CNN": Sequential(Conv2d(1, 16, 3, padding=1, rng=rng), ReLU(), MaxPool2d(2), Conv2d(16, 32, 3, padding=1, rng=rng), ReLU(), MaxPool2d(2), Flatten(), Linear(128, 10, rng=rng))}
    for name, model in blind.items():
        trainer = Trainer(model, Adam(model.parameters(), lr=0.005), CrossEntropyLoss())
        trainer.fit(DataLoader(TensorDataset(mixed, labels), 64, shuffle=True, seed=0), epochs=6)
        found[name].append(trainer.evaluate(DataLoader(TensorDataset(mixed_tests, test_labels), 355)).accuracy)
for name, accuracies in found.items():
    print(f"{name}, pixels shuffled: reads {', '.join(f'{one:.1%}' for one in accuracies)}, on average {np.mean(accuracies):.1%}   (bet {my_bet[name]})")

# %% [markdown]
"""
The windows bet on neighbours that belong together. Where that is so, the bet wins; where it is not, it costs.

What did the network look for, when neighbours were neighbours? Its first sixteen windows, nobody drew these:
"""

# %%
figure, axes = plt.subplots(2, 8, figsize=(10, 2.8), layout="constrained")
figure.suptitle("What the first layer learned to look for: sixteen windows")
limit = np.abs(cnn.layers[0].weight.data).max()
for axis, window in zip(axes.flat, cnn.layers[0].weight.data[:, 0]):
    axis.imshow(window, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axis.set(xticks=[], yticks=[])

# %% [markdown]
"""
## 9. What it means for a real model

Every convolutional network is this chain, longer. The sizes shrink, the channels grow. Follow a picture through the layers of LeNet-5, as it is built today; the original (LeCun and others, 1998) read the cheques of American banks. Nothing is computed, only shapes. Guess first: which layer holds the most weights?
"""

# %%
from tinytorch.core.activations import Tanh
from tinytorch.core.tensor import hollow

with shape_only():
    x, counts = Tensor(hollow((1, 1, 28, 28))), []
    for layer in (Conv2d(1, 6, 5, padding=2), Tanh(), AvgPool2d(2), Conv2d(6, 16, 5), Tanh(), AvgPool2d(2), Flatten(), Linear(400, 120), Tanh(), Linear(120, 84), Tanh(), Linear(84, 10)):
        x = layer(x)
        counts.append(sum(p.size for p in layer.parameters()))
        print(f"{layer!r:>33}  {x.shape!s:<16}  {counts[-1]:7,} parameters")
print(f"{sum(counts):,} parameters in all, {max(counts) / sum(counts):.0%} of them where the pictures are first flattened")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Two 3 by 3 convolutions in a row see as much of the picture as one of 5 by 5. Which is cheaper, with C channels throughout?</summary>
Two need 2 · 9 · C² weights, one needs 25 · C². And between the two there is room for another ReLU. That is the idea of VGG (Simonyan and Zisserman, 2014).
</details>
<details><summary>A 1 by 1 convolution sees no neighbours. What is it good for?</summary>
It mixes the channels at each place: a linear layer, applied to every pixel with the same weights. Its columns are the picture itself, so nothing has to be copied.
</details>
<details><summary>Why does max pooling send the gradient to a single pixel, though a second one was just as large?</summary>
Either would do; at a tie the function has a kink and no slope. What counts is that the gradient is neither lost nor doubled, and that a second run does the same.
</details>
<details><summary>With batch norm after it, does a convolution need its bias?</summary>
No: whatever constant it adds to a channel, the mean takes away again. So networks with batch norm say <code>bias=False</code>.
</details>
<details><summary>You train with batches of 2. What happens to batch norm?</summary>
Mean and variance of few numbers are mostly chance, so every answer is shaken by its one neighbour, and the running statistics fit none of the batches. Layer norm (Module 13) looks at one example alone, and does not care.
</details>

`tito test spatial` checks the module; once all of it passes, `tito module complete spatial` puts what you wrote into the package, and later modules run on your code. Next: Module 10, from text to numbers.
"""
