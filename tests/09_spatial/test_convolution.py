"""Convolution against plain loops: values, shapes, types, gradients, second derivatives, refusals."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tinytorch.core.autograd import check_gradient, check_rule, no_grad
from tinytorch.core.layers import Linear, Sequential, manual_seed
from tinytorch.core.spatial import (
    AvgPool2d,
    Conv2d,
    Flatten,
    conv2d,
    conv2d_input_gradient,
    conv2d_shape,
    conv2d_weight_gradient,
    out_size,
    pair,
    windows,
)
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only

few, fewer = settings(max_examples=80), settings(max_examples=25)


def by_loops(x, weight, bias, stride, padding, dilation, groups):
    """Return the convolution as its definition says, one output number at a time."""
    (batch, _, height, width), (channels, per_group, kh, kw) = x.shape, weight.shape
    frame = np.zeros((batch, x.shape[1], height + 2 * padding[0], width + 2 * padding[1]))
    frame[:, :, padding[0]:padding[0] + height, padding[1]:padding[1] + width] = x
    rows = (frame.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    sides = (frame.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((batch, channels, rows, sides))
    for b, o, r, s in product(range(batch), range(channels), range(rows), range(sides)):
        first = o // (channels // groups) * per_group
        out[b, o, r, s] = bias[o]
        for c, i, j in product(range(per_group), range(kh), range(kw)):
            place = r * stride[0] + i * dilation[0], s * stride[1] + j * dilation[1]
            out[b, o, r, s] += weight[o, c, i, j] * frame[b, first + c, place[0], place[1]]
    return out


two = st.tuples(st.integers(1, 3), st.integers(1, 3))
settings_of_a_convolution = st.fixed_dictionaries({
    "stride": two, "padding": st.tuples(st.integers(0, 3), st.integers(0, 3)), "dilation": two,
    "groups": st.integers(1, 3)})


@st.composite
def convolutions(draw, fewest=0, largest=6):
    """Draw x, weight, bias (float64) and settings that fit together."""
    how = draw(settings_of_a_convolution)
    kernel, image = draw(two), (draw(st.integers(1, largest)), draw(st.integers(1, largest)))
    for n, k, p, d in zip(image, kernel, how["padding"], how["dilation"]):
        assume(d * (k - 1) + 1 <= n + 2 * p)
    per_group, outs = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((draw(st.integers(fewest, 2)), per_group * how["groups"], *image))
    weight = rng.standard_normal((outs * how["groups"], per_group, *kernel))
    return (x, weight, rng.standard_normal(len(weight))), how


def double(*arrays):
    return [Tensor(a, dtype=np.float64) for a in arrays]


# --- forward


@few
@given(convolutions(), st.booleans())
def test_it_is_the_plain_loop_and_the_shape_rule_knows_its_shape(drawn, spread):
    (x, weight, bias), how = drawn
    given_x = np.repeat(np.repeat(x, 2, axis=1), 2, axis=3)[:, ::2, :, ::2] if spread else x  # not in one piece
    out = conv2d(*double(given_x, weight, bias), **how)
    want = by_loops(x, weight, bias, **how)
    np.testing.assert_allclose(out.data, want, atol=1e-12)
    assert out.dtype == np.float64
    assert out.shape == want.shape == conv2d_shape(x.shape, weight.shape, bias.shape, **how)
    with shape_only():
        thin = conv2d(*double(x, weight, bias), **how)
    assert (thin.shape, thin.dtype) == (out.shape, out.dtype)


@pytest.mark.parametrize("image", [(64, 12, 12), (2, 12, 12), (24, 5, 9)])
@pytest.mark.parametrize("how", [{}, {"padding": (1, 2)}, {"stride": (2, 1)}, {"stride": (1, 2), "dilation": (2, 1)},
                                 {"groups": 2, "padding": (1, 1)}])
def test_one_product_per_kernel_row_is_the_same(image, how):
    """Wide images are multiplied row by row, thin ones at once; more samples than a block holds."""
    how = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, **how}
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, *image)), rng.standard_normal((4, image[0] // how["groups"], 3, 2))
    bias = rng.standard_normal(4)
    two = conv2d(*double(x, weight, bias), **how).data
    np.testing.assert_allclose(two, by_loops(x, weight, bias, **how), atol=1e-10)
    many = np.repeat(x, 150, axis=0)
    out = conv2d(*double(many, weight, bias), **how).data
    np.testing.assert_allclose(out[[0, 149, 150, 299]], two[[0, 0, 1, 1]], atol=1e-10)


def test_hand_calculated():
    # 1·1 + 2·2 + 4·3 + 5·4 = 37, one to the right 47; below 67 and 77
    x, weight = Tensor(np.arange(1, 10).reshape(1, 1, 3, 3)), Tensor([[[[1, 2], [3, 4]]]])
    assert conv2d(x, weight).data.tolist() == [[[[37, 47], [67, 77]]]]
    # corners of the padded image: 4·1; 3·3; 2·7; 1·9
    corners = conv2d(x, weight, padding=(1, 1)).data[0, 0][[0, 0, 3, 3], [0, 3, 0, 3]]
    assert corners.tolist() == [4, 9, 14, 9]
    # dilation 2 sees the corners: 1·1 + 2·3 + 3·7 + 4·9 = 64
    assert conv2d(x, weight, dilation=(2, 2)).item() == 64
    # weight gradient of the sum: each weight meets four pixels; 1+2+4+5, 2+3+5+6, 4+5+7+8, 5+6+8+9
    ones = Tensor(np.ones((1, 1, 2, 2)))
    assert conv2d_weight_gradient(ones, x, kernel=(2, 2)).data.tolist() == [[[[12, 16], [24, 28]]]]
    # input gradient: a corner is seen once, the middle by all four weights
    assert conv2d_input_gradient(ones, weight, size=(3, 3)).data.tolist() == [[[[1, 3, 2], [4, 10, 6], [3, 7, 4]]]]


@pytest.mark.parametrize(("layer", "shape", "out"), [
    (Conv2d(3, 8, (3, 5), stride=2, dilation=2), (1, 3, 15, 17), (1, 8, 6, 5)),
    (Conv2d(2, 5, (1, 7), stride=(2, 3), padding=(0, 3)), (2, 2, 9, 11), (2, 5, 5, 4)),
    (Conv2d(3, 8, 3, padding=1), (1, 3, 10, 12), (1, 8, 10, 12)),
    (Conv2d(4, 6, 3, groups=2), (1, 4, 8, 8), (1, 6, 6, 6)),
    (Conv2d(3, 64, 7, stride=2, padding=3), (1, 3, 224, 224), (1, 64, 112, 112)),
])
def test_output_sizes(layer, shape, out):
    with shape_only():
        assert layer(Tensor(hollow(shape))).shape == out


def test_a_stack_like_lenet():
    model = Sequential(Conv2d(1, 6, 5, padding=2), AvgPool2d(2), Conv2d(6, 16, 5), AvgPool2d(2), Flatten(),
                       Linear(400, 10))
    x, shapes = Tensor(np.zeros((3, 1, 28, 28))), []
    for layer in model.layers:
        x = layer(x)
        shapes.append(x.shape)
    assert shapes == [(3, 6, 28, 28), (3, 6, 14, 14), (3, 16, 10, 10), (3, 16, 5, 5), (3, 400), (3, 10)]
    assert sum(p.size for p in model.parameters()) == 6 * 26 + 16 * 151 + 4010


@pytest.mark.parametrize(("types", "want"), [
    (("float32", "float32", "float32"), "float32"), (("float64", "float64", "float64"), "float64"),
    (("float16", "float16", "float16"), "float16"), (("uint8", "float32", "float32"), "float32"),
    (("int64", "float32", "float32"), "float32"), (("float32", "float32", "float64"), "float64"),
    (("float32", "float64", "float32"), "float64"), (("int8", "int8", "int8"), "int8"),
])
def test_types(types, want):
    x, weight, bias = (np.ones(shape, kind) for shape, kind in zip(((300, 2, 4, 4), (3, 2, 2, 2), (3,)), types))
    tensors = [Tensor(a, dtype=a.dtype) for a in (x, weight, bias)]
    for inputs in (tensors, [Tensor(x[:1], dtype=x.dtype), *tensors[1:]]):
        out = conv2d(*inputs)
        assert out.dtype == want
        assert (out.data == 9).all()
    with shape_only():
        assert conv2d(*tensors).dtype == want


def test_inputs_are_left_as_they_were():
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((2, 3, 5, 5)), rng.standard_normal((4, 3, 3, 3)), rng.standard_normal(4)
    before = [a.copy() for a in arrays]
    out = conv2d(*double(*arrays), padding=(1, 1))
    one = conv2d(*double(arrays[0], np.ones((3, 1, 1, 1))), groups=3)  # 1x1: its columns are a view of x
    for now, then in zip(arrays, before):
        np.testing.assert_array_equal(now, then)
        assert not np.shares_memory(out.data, now)
    assert not np.shares_memory(one.data, arrays[0])


# --- gradients


@fewer
@given(convolutions(fewest=1, largest=4))
def test_gradients_are_slopes(drawn):
    arrays, how = drawn
    check_rule(conv2d, *arrays, **how)
    check_gradient(lambda *inputs: conv2d(*inputs, **how), *arrays)


@fewer
@given(convolutions(largest=4))
def test_gradients_of_the_gradients_are_slopes(drawn):
    (x, weight, bias), how = drawn
    g = np.random.default_rng(1).standard_normal(conv2d_shape(x.shape, weight.shape, **how))
    check_rule(conv2d_input_gradient, g, weight, size=x.shape[2:], **how)
    check_rule(conv2d_weight_gradient, g, x, kernel=weight.shape[2:], **how)


@few
@given(convolutions())
def test_the_three_ops_are_one_form(drawn):
    """g · conv(x, w), x · input_gradient(g, w) and w · weight_gradient(g, x) are the same number; shapes as told."""
    (x, weight, _), how = drawn
    out = conv2d(*double(x, weight), **how)
    g = np.random.default_rng(1).standard_normal(out.shape)
    dx = conv2d_input_gradient(*double(g, weight), size=x.shape[2:], **how)
    dw = conv2d_weight_gradient(*double(g, x), kernel=weight.shape[2:], **how)
    assert (dx.shape, dw.shape) == (x.shape, weight.shape)
    number = (g * out.data).sum()
    np.testing.assert_allclose([(x * dx.data).sum(), (weight * dw.data).sum()], number, atol=1e-9)
    with shape_only():
        assert conv2d_input_gradient(*double(g, weight), size=x.shape[2:], **how).shape == x.shape
        assert conv2d_weight_gradient(*double(g, x), kernel=weight.shape[2:], **how).shape == weight.shape


@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_where_rows_are_multiplied_one_by_one(groups):
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 64, 6, 7)), rng.standard_normal((2, 64 // groups, 3, 3))
    g = rng.standard_normal((2, 2, 6, 7))
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": groups}
    number = (g * by_loops(x, weight, np.zeros(2), **how)).sum()
    dx = conv2d_input_gradient(*double(g, weight), size=(6, 7), **how).data
    dw = conv2d_weight_gradient(*double(g, x), kernel=(3, 3), **how).data
    np.testing.assert_allclose([(x * dx).sum(), (weight * dw).sum()], number, rtol=1e-10)


def test_only_wanted_gradients_are_computed():
    layer, x, names = Conv2d(2, 3, 3), Tensor(np.ones((1, 2, 5, 5))), []
    with listen(lambda event: names.append(event.op.name)):
        layer(x).sum().backward()
    assert "conv2d_weight_gradient" in names
    assert "conv2d_input_gradient" not in names
    assert (layer.weight.grad.data == 9).all()
    assert layer.bias.grad.data.tolist() == [9, 9, 9]


def test_backward_on_an_empty_batch():
    layer, x = Conv2d(2, 4, 3, groups=2), Tensor(np.zeros((0, 2, 5, 5)), requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.shape == x.shape
    assert not layer.weight.grad.data.any()


def test_no_columns_of_the_batch_are_kept():
    """What lives after the forward pass is the output; the columns (9 times the input) never exist at once."""
    layer, x = Conv2d(64, 64, 3, padding=1), Tensor(np.zeros((16, 64, 28, 28), np.float32), requires_grad=True)
    layer(x)
    tracemalloc.start()
    try:
        out = layer(x)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1.1 * out.nbytes
    assert peak < out.nbytes + 9 * x.nbytes / 8
    out.sum().backward()


# --- refusals


@pytest.mark.parametrize(("x", "weight", "how", "words"), [
    ((1, 1, 2, 5), (1, 1, 3, 3), {}, r"x \(1, 1, 2, 5\) with weight \(1, 1, 3, 3\).*: .*3.*2"),
    ((1, 1, 5, 4), (1, 1, 3, 3), {"dilation": (1, 3), "padding": (0, 1)}, r"padding \(0, 1\): .*7.*6"),
    ((1, 3, 5, 5), (4, 2, 3, 3), {}, r"x \(1, 3, 5, 5\) with weight \(4, 2, 3, 3\).*want 2 \* groups = 3"),
    ((1, 4, 5, 5), (3, 2, 3, 3), {"groups": 2}, "groups that divide 3 output channels"),
    ((1, 4, 5, 5), (3, 2, 3, 3), {"groups": 0}, "groups 0"),
    ((4, 5, 5), (3, 4, 3, 3), {}, r"x \(4, 5, 5\).*want x \(B, C, H, W\)"),
    ((1, 4, 5, 5), (4, 3, 3), {}, r"weight \(4, 3, 3\)"),
    ((1, 4, 0, 5), (4, 4, 1, 1), {"padding": (1, 1)}, r"\(1, 4, 0, 5\).*none empty but B"),
    ((1, 4, 5, 5), (4, 4, 3, 3), {"stride": (0, 1)}, r"stride \(0, 1\)"),
    ((1, 4, 5, 5), (4, 4, 3, 3), {"padding": (0, -1)}, r"padding \(0, -1\)"),
])
def test_shapes_that_do_not_fit(x, weight, how, words):
    for context in (no_grad, shape_only):
        with context(), pytest.raises(ValueError, match=f"conv2d: .*{words}"):
            conv2d(Tensor(hollow(x)), Tensor(hollow(weight)), **how)


def test_a_bias_that_does_not_fit():
    with pytest.raises(ValueError, match=r"conv2d: bias \(3,\) with weight \(4, 2, 3, 3\): want \(4,\)"):
        conv2d(Tensor(np.ones((1, 2, 5, 5))), Tensor(np.ones((4, 2, 3, 3))), Tensor(np.ones(3)))


@pytest.mark.parametrize("size", [2, [1, 1], (1, 1, 1)])
def test_an_op_wants_pairs(size):
    with pytest.raises(TypeError, match="conv2d: stride is .*an op wants a pair"):
        conv2d(Tensor(np.ones((1, 2, 5, 5))), Tensor(np.ones((4, 2, 3, 3))), stride=size)


def test_gradient_ops_refuse_what_no_convolution_made():
    g, weight, x = (Tensor(np.ones(shape)) for shape in ((1, 4, 3, 3), (4, 2, 3, 3), (1, 2, 5, 5)))
    with pytest.raises(ValueError, match=r"conv2d_input_gradient: g \(1, 4, 3, 3\).*image of \(6, 5\)"):
        conv2d_input_gradient(g, weight, size=(6, 5))
    with pytest.raises(ValueError, match=r"conv2d_weight_gradient: g \(1, 4, 3, 3\).*kernel of \(2, 3\)"):
        conv2d_weight_gradient(g, x, kernel=(2, 3))


def test_numpy_refuses_windows_outside_the_memory():
    with pytest.raises(ValueError, match=r".+"):
        windows(np.zeros((1, 1, 3, 3)), (2, 2), (3, 3), (1, 1), (1, 1))


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((0, 4, 3), ValueError, "in_channels is 0"), ((4, True, 3), TypeError, "out_channels is True"),
    ((4, 4, 0), ValueError, "kernel_size is 0"), ((4, 4, (3, 3, 3)), ValueError, "kernel_size is .*one integer or two"),
    ((4, 4, 2.5), TypeError, "kernel_size is 2.5"), ((4, 4, 3, 0), ValueError, "stride is 0"),
    ((4, 4, 3, 1, -1), ValueError, "padding is -1"), ((4, 4, 3, 1, 0, True), TypeError, "dilation is True"),
    ((4, 6, 3, 1, 0, 1, 3), ValueError, "groups is 3; it must divide 4 input"),
    ((6, 4, 3, 1, 0, 1, 3), ValueError, "and 4 output"), ((4, 4, 3, 1, 0, 1, 0), ValueError, "groups is 0"),
])
def test_settings_that_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        Conv2d(*arguments)


# --- sizes, and the layer


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 4), st.integers(0, 4), st.integers(1, 3))
def test_out_size_counts_the_stops(size, kernel, stride, padding, dilation):
    starts = range(-padding, size + padding, stride)
    fits = [s for s in starts if s + dilation * (kernel - 1) < size + padding]
    if fits:
        assert out_size(size, kernel, stride, padding, dilation) == len(fits)
    else:
        with pytest.raises(ValueError, match=rf"\b{size + 2 * padding}\b"):
            out_size(size, kernel, stride, padding, dilation)


def test_pair():
    assert pair("stride", 2) == (2, 2)
    assert pair("stride", [2, np.int64(3)]) == (2, 3)
    assert pair("padding", 0, least=0) == (0, 0)
    with pytest.raises(TypeError, match="stride is None; want one integer or two"):
        pair("stride", None)


def test_settings_stand_under_their_names():
    layer = Conv2d(4, 8, 3, stride=2, padding=(1, 0), dilation=2, groups=2, bias=False)
    assert (layer.in_channels, layer.out_channels, layer.groups, layer.bias) == (4, 8, 2, None)
    assert (layer.kernel_size, layer.stride, layer.padding, layer.dilation) == ((3, 3), (2, 2), (1, 0), (2, 2))
    assert repr(layer) == "Conv2d(4, 8, 3, stride=2, padding=(1, 0), dilation=2, groups=2, bias=False)"
    assert repr(Conv2d(1, 2, (3, 5))) == "Conv2d(1, 2, (3, 5))"


def test_built_on_shapes_only_it_allocates_nothing():
    with shape_only():
        layer = Conv2d(4096, 4096, 31)
        assert not any(layer.weight.data.strides)
        assert not any(layer.bias.data.strides)
        assert layer(Tensor(hollow((1, 4096, 31, 31)))).shape == (1, 4096, 1, 1)


def test_the_seed_repeats_the_weights_and_their_spread_is_hes():
    manual_seed(5)
    first = Conv2d(8, 16, 3).weight.data
    manual_seed(5)
    np.testing.assert_array_equal(first, Conv2d(8, 16, 3).weight.data)
    spread = Conv2d(64, 64, 3, rng=np.random.default_rng(0)).weight.data.std()
    np.testing.assert_allclose(spread, np.sqrt(2 / 576), rtol=0.02)
