"""Pooling against plain loops, at the ends of every type, and its gradients with ties, NaN and padding."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tinytorch.core.autograd import check_gradient, check_rule
from tinytorch.core.spatial import (
    AvgPool2d,
    MaxPool2d,
    avg_pool2d,
    avg_pool2d_gradient,
    max_pool2d,
    max_pool2d_gradient,
    max_pool2d_pick,
    pool_shape,
)
from tinytorch.core.tensor import Tensor, hollow, shape_only

few, fewer = settings(max_examples=80), settings(max_examples=25)


def seen(x, kernel, stride, padding):
    """Yield (place, pixels in the image under the window) for every stop, as the definition says."""
    height, width = x.shape[2:]
    rows, sides = ((n + 2 * p - k) // s + 1 for n, k, s, p in zip((height, width), kernel, stride, padding))
    for b, c, r, s in product(range(len(x)), range(x.shape[1]), range(rows), range(sides)):
        top, left = r * stride[0] - padding[0], s * stride[1] - padding[1]
        inside = x[b, c, max(top, 0):top + kernel[0], max(left, 0):left + kernel[1]]
        yield (b, c, r, s), inside


@st.composite
def poolings(draw, largest=7):
    """Draw x (float64, no ties) and settings that fit."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    image = draw(st.tuples(st.integers(1, largest), st.integers(1, largest)))
    assume(all(k <= n + 2 * p for n, k, p in zip(image, kernel, padding)))
    shape = (draw(st.integers(0, 2)), draw(st.integers(1, 2)), *image)
    x = np.random.default_rng(draw(st.integers(0, 99))).permutation(np.prod(shape)).reshape(shape) - 20.0
    return x, {"kernel": kernel, "stride": stride, "padding": padding}


@few
@given(poolings(), st.booleans())
def test_values_are_those_of_the_plain_loop(drawn, spread):
    x, how = drawn
    given_x = np.repeat(np.repeat(x, 2, axis=1), 2, axis=3)[:, ::2, :, ::2] if spread else x
    largest, average = (f(Tensor(given_x, dtype=np.float64), **how) for f in (max_pool2d, avg_pool2d))
    assert largest.shape == average.shape == pool_shape(x.shape, **how)
    assert largest.dtype == average.dtype == np.float64
    for place, inside in seen(x, **how):
        assert largest.data[place] == inside.max()
        np.testing.assert_allclose(average.data[place], inside.sum() / np.prod(how["kernel"]))
    with shape_only():
        assert max_pool2d(Tensor(x), **how).shape == avg_pool2d(Tensor(x), **how).shape == largest.shape


@fewer
@given(poolings(largest=4))
def test_gradients_are_slopes(drawn):
    x, how = drawn
    for operation in (max_pool2d, avg_pool2d):
        check_rule(operation, x, **how)
        check_gradient(lambda a, f=operation: f(a, **how), x)


@fewer
@given(poolings(largest=4))
def test_gradients_of_the_gradients_are_slopes(drawn):
    x, how = drawn
    pooled = max_pool2d(Tensor(x, dtype=np.float64), **how).data
    g = np.random.default_rng(1).standard_normal(pooled.shape)
    check_rule(avg_pool2d_gradient, g, size=x.shape[2:], **how)
    check_rule(max_pool2d_gradient, g, pooled, x, **how)
    check_rule(max_pool2d_pick, np.random.default_rng(2).standard_normal(x.shape), pooled, x, **how)
    np.testing.assert_array_equal(max_pool2d_pick(Tensor(x, dtype=np.float64), pooled, x, **how).data, pooled)


@few
@given(st.integers(0, 99), st.integers(1, 3), st.integers(0, 1))
def test_a_tie_sends_everything_to_the_first_in_reading_order(seed, stride, padding):
    x = np.random.default_rng(seed).integers(0, 2, (2, 2, 5, 6)).astype(np.float32)
    how = {"kernel": (2, 3), "stride": (stride, stride), "padding": (padding, padding)}
    leaf = Tensor(x, requires_grad=True)
    out = max_pool2d(leaf, **how)
    g = np.arange(1.0, out.size + 1).reshape(out.shape)
    out.backward(g)
    want = np.zeros_like(x)
    for (b, c, r, s), inside in seen(x, **how):
        row, side = np.unravel_index(inside.argmax(), inside.shape)  # the first one
        want[b, c, max(r * stride - padding, 0) + row, max(s * stride - padding, 0) + side] += g[b, c, r, s]
    np.testing.assert_array_equal(leaf.grad.data, want)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_padding_never_wins_at_the_ends_of_every_type(dtype):
    low = -np.inf if dtype.startswith("f") else False if dtype == "bool" else np.iinfo(dtype).min
    x = Tensor(np.full((1, 1, 3, 3), low, dtype), dtype=dtype)
    out = max_pool2d(x, kernel=(2, 2), padding=(1, 1))
    assert out.dtype == dtype
    assert (out.data == low).all()
    assert avg_pool2d(x, kernel=(2, 2)).dtype == (dtype if dtype.startswith("f") else "float32")
    with shape_only():
        assert max_pool2d(x, kernel=(2, 2)).dtype == dtype
        assert avg_pool2d(x, kernel=(2, 2)).dtype == (dtype if dtype.startswith("f") else "float32")


def test_the_gradient_of_minus_infinity_stays_in_the_image():
    x = Tensor(np.full((1, 1, 2, 2), -np.inf, np.float32), requires_grad=True)
    max_pool2d(x, kernel=(2, 2), padding=(1, 1)).sum().backward()  # four windows of one pixel each
    assert x.grad.data.tolist() == [[[[1, 1], [1, 1]]]]


def test_nan_wins_wherever_it_stands_and_gets_the_gradient():
    for place in product(range(2), range(2)):
        x = np.ones((1, 1, 2, 2), np.float32)
        x[0, 0][place] = np.nan
        leaf = Tensor(x, requires_grad=True)
        out = max_pool2d(leaf, kernel=(2, 2))
        assert np.isnan(out.item())
        assert np.isnan(max_pool2d(Tensor(x), kernel=(2, 2), padding=(1, 1)).data).sum() == 1
        out.backward(np.array([[[[3.0]]]]))
        assert np.argwhere(leaf.grad.data[0, 0]).tolist() == [list(place)]
        assert leaf.grad.data.sum() == 3


def test_an_infinite_gradient_goes_to_the_winner_alone():
    x = Tensor([[[[1.0, 2.0]]]], requires_grad=True)
    max_pool2d(x, kernel=(1, 2)).backward(np.array([[[[np.inf]]]]))
    assert x.grad.data.tolist() == [[[[0, np.inf]]]]


def test_pixels_between_the_windows_get_nothing():
    x = Tensor(np.arange(25.0).reshape(1, 1, 5, 5), requires_grad=True)
    avg_pool2d(x, kernel=(2, 2), stride=(3, 3)).sum().backward()
    seen_row, unseen_row = [0.25, 0.25, 0, 0.25, 0.25], [0] * 5
    assert x.grad.data[0, 0].tolist() == [seen_row, seen_row, unseen_row, seen_row, seen_row]


def test_inputs_are_left_as_they_were():
    x = np.arange(16.0, dtype=np.float32).reshape(1, 1, 4, 4)
    for operation in (max_pool2d, avg_pool2d):
        out = operation(Tensor(x), kernel=(1, 1))
        assert not np.shares_memory(out.data, x)
    np.testing.assert_array_equal(x.ravel(), np.arange(16))


@pytest.mark.parametrize("kind", [MaxPool2d, AvgPool2d])
def test_layers(kind):
    layer = kind(2)
    assert (layer.kernel_size, layer.stride, layer.padding) == ((2, 2), (2, 2), (0, 0))
    assert repr(layer) == f"{kind.__name__}(2)"
    assert repr(kind((3, 2), stride=1, padding=1)) == f"{kind.__name__}((3, 2), stride=1, padding=1)"
    assert kind(3, stride=2, padding=1)(Tensor(np.zeros((2, 4, 112, 112)))).shape == (2, 4, 56, 56)
    assert kind(2)(Tensor(np.zeros((0, 4, 7, 5)))).shape == (0, 4, 3, 2)
    assert layer.parameters() == []


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((0,), ValueError, "kernel_size is 0"), ((2, 0), ValueError, "stride is 0"),
    ((2, None, -1), ValueError, "padding is -1"), ((True,), TypeError, "kernel_size is True"),
    ((3, 1, 2), ValueError, "padding is 2; want at most half the kernel_size 3"),
    (((2, 4), 1, (1, 3)), ValueError, r"padding is \(1, 3\)"),
])
def test_settings_that_are_refused(arguments, error, words):
    for kind in (MaxPool2d, AvgPool2d):
        with pytest.raises(error, match=words):
            kind(*arguments)


@pytest.mark.parametrize(("x", "how", "words"), [
    ((1, 1, 2, 5), {"kernel": (3, 3)}, r"x \(1, 1, 2, 5\) with kernel \(3, 3\).*: .*3.*2"),
    ((1, 5, 5), {"kernel": (2, 2)}, r"x \(1, 5, 5\): want four axes"),
    ((1, 1, 5, 0), {"kernel": (2, 2), "padding": (1, 1)}, r"x \(1, 1, 5, 0\)"),
    ((1, 1, 5, 5), {"kernel": (2, 2), "padding": (2, 0)}, r"padding \(2, 0\).*at most half"),
    ((1, 1, 5, 5), {"kernel": (2, 2), "stride": (0, 1)}, r"stride \(0, 1\)"),
])
def test_shapes_that_do_not_fit(x, how, words):
    for operation in (max_pool2d, avg_pool2d):
        with pytest.raises(ValueError, match=f"{operation.name}: .*{words}"):
            operation(Tensor(np.zeros(x)), **how)
        with shape_only(), pytest.raises(ValueError, match=words):
            operation(Tensor(hollow(x)), **how)
    with pytest.raises(TypeError, match="max_pool2d: kernel is 2; an op wants a pair"):
        max_pool2d(Tensor(np.zeros((1, 1, 4, 4))), kernel=2)


def test_gradient_ops_refuse_what_no_pooling_made():
    g, x = np.ones((1, 1, 2, 2)), np.ones((1, 1, 4, 4))
    with pytest.raises(ValueError, match=r"avg_pool2d_gradient: g \(1, 1, 2, 2\)"):
        avg_pool2d_gradient(g, size=(6, 4), kernel=(2, 2))
    with pytest.raises(ValueError, match=r"max_pool2d_gradient: g \(1, 1, 2, 2\)"):
        max_pool2d_gradient(g, g, x, kernel=(3, 3))
    with pytest.raises(ValueError, match=r"max_pool2d_pick: u \(1, 1, 2, 2\)"):
        max_pool2d_pick(g, g, x, kernel=(2, 2))
