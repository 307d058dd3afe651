"""Batch norm: running statistics, both modes, gradients, types, refusals. Flatten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.autograd import check_gradient, no_grad
from tinytorch.core.layers import Sequential
from tinytorch.core.spatial import BatchNorm2d, Conv2d, Flatten
from tinytorch.core.tensor import Tensor, hollow, shape_only

RNG = np.random.default_rng(0)


def test_hand_calculated():
    # channel 0 holds 0, 2, 4, 6: mean 3, variance 5, unbiased 20/3; channel 1 is constant
    norm = BatchNorm2d(2, momentum=0.25)
    x = np.array([[[[0, 2]], [[7, 7]]], [[[4, 6]], [[7, 7]]]], np.float32)
    out = norm(Tensor(x)).data
    np.testing.assert_allclose(out[:, 0].ravel(), np.array([-3, -1, 1, 3]) / np.sqrt(5.00001), rtol=1e-6)
    assert not out[:, 1].any()
    np.testing.assert_allclose(norm.running_mean, [0.75, 1.75])
    np.testing.assert_allclose(norm.running_var, [0.75 + 0.25 * 20 / 3, 0.75])


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(2, 3), st.integers(1, 3), st.booleans())
def test_gradients_are_slopes(batch, channels, height, width, training):
    norm = BatchNorm2d(channels)
    norm.running_var[:] = 3
    norm.train(training)
    x = RNG.standard_normal((batch, channels, height, width))

    def with_weights(x, weight, bias):
        norm.weight, norm.bias = weight, bias
        return norm(x)

    check_gradient(with_weights, x, RNG.standard_normal(channels) + 2, RNG.standard_normal(channels))


def test_running_statistics_find_the_data():
    norm, rng = BatchNorm2d(2), np.random.default_rng(0)
    for _ in range(200):
        norm(Tensor(rng.normal([[[5]], [[-2]]], [[[3]], [[0.5]]], (16, 2, 4, 4))))
    np.testing.assert_allclose(norm.running_mean, [5, -2], atol=0.3)
    np.testing.assert_allclose(norm.running_var, [9, 0.25], rtol=0.1)
    assert norm.running_mean.dtype == norm.running_var.dtype == np.float32
    norm.eval()
    out = norm(Tensor(rng.normal([[[5]], [[-2]]], [[[3]], [[0.5]]], (500, 2, 4, 4)))).data
    np.testing.assert_allclose(out.mean(axis=(0, 2, 3)), 0, atol=0.1)
    np.testing.assert_allclose(out.std(axis=(0, 2, 3)), 1, atol=0.1)


@pytest.mark.parametrize(("momentum", "mean"), [(0, 0.0), (1, 4.0), (0.5, 2.0)])
def test_momentum(momentum, mean):
    norm = BatchNorm2d(1, momentum=momentum)
    norm(Tensor(np.array([3.0, 5.0]).reshape(2, 1, 1, 1)))
    assert norm.running_mean[0] == mean


def test_the_layer_before_needs_no_bias():
    x = Tensor(RNG.standard_normal((4, 3, 6, 6)))
    conv, norm = Conv2d(3, 5, 3), BatchNorm2d(5)
    before = norm(conv(x)).data
    conv.bias.data[:] = [1, -2, 3, 10, -7]
    np.testing.assert_allclose(norm(conv(x)).data, before, atol=1e-4)


def test_the_running_statistics_remember_no_graph_and_move_without_gradients_too():
    norm = BatchNorm2d(1)
    with no_grad():
        norm(Tensor(np.array([2.0, 4.0]).reshape(2, 1, 1, 1)))
    np.testing.assert_allclose(norm.running_mean, [0.3])
    assert isinstance(norm.running_mean, np.ndarray)
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias"]


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_types(dtype):
    norm, x = BatchNorm2d(2), RNG.integers(0, 9, (3, 2, 4, 4)).astype(dtype)
    for mode in (True, False):
        out = norm.train(mode)(Tensor(x, dtype=dtype))
        assert out.dtype == ("float64" if dtype == "float64" else "float32")
        with shape_only():
            assert norm(Tensor(x, dtype=dtype)).dtype == out.dtype


def test_an_empty_batch_in_evaluation():
    assert BatchNorm2d(3).eval()(Tensor(np.zeros((0, 3, 2, 2)))).shape == (0, 3, 2, 2)


@pytest.mark.parametrize(("shape", "words"), [
    ((1, 3, 1, 1), r"x \(1, 3, 1, 1\) has 1 number"), ((0, 3, 2, 2), r"x \(0, 3, 2, 2\) has 0 number"),
    ((2, 4, 2, 2), r"x \(2, 4, 2, 2\); want four axes \(B, 3, H, W\)"), ((2, 3), r"x \(2, 3\)"),
])
def test_shapes_that_are_refused(shape, words):
    norm = BatchNorm2d(3)
    with pytest.raises(ValueError, match=words):
        norm(Tensor(np.ones(shape)))
    with shape_only(), pytest.raises(ValueError, match=words):
        norm(Tensor(hollow(shape)))
    assert not norm.running_mean.any()


@pytest.mark.parametrize(("arguments", "error"), [
    ((0,), ValueError), ((2.0,), TypeError), ((2, 0), ValueError), ((2, -1e-5), ValueError),
    ((2, 1e-5, 1.5), ValueError), ((2, 1e-5, -0.1), ValueError),
])
def test_settings_that_are_refused(arguments, error):
    with pytest.raises(error):
        BatchNorm2d(*arguments)


def test_repr_and_building_on_shapes_only():
    assert repr(BatchNorm2d(8)) == "BatchNorm2d(8)"
    assert repr(BatchNorm2d(8, eps=1e-3, momentum=0.2)) == "BatchNorm2d(8, eps=0.001, momentum=0.2)"
    with shape_only():
        norm = BatchNorm2d(10**9)
        assert not any(a.strides[0] for a in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var))
        assert norm(Tensor(hollow((2, 10**9, 8, 8)))).shape == (2, 10**9, 8, 8)
        assert norm.eval()(Tensor(hollow((2, 10**9, 8, 8)))).shape == (2, 10**9, 8, 8)


def test_eval_reaches_into_a_chain():
    model = Sequential(Conv2d(1, 2, 3), BatchNorm2d(2), Flatten()).eval()
    x = RNG.standard_normal((6, 1, 5, 5))
    np.testing.assert_allclose(model(Tensor(x)).data[:1], model(Tensor(x[:1])).data, rtol=1e-5, atol=1e-6)


def test_flatten():
    x = Tensor(np.arange(24.0).reshape(2, 3, 4), requires_grad=True)
    assert Flatten()(x).shape == (2, 12)
    assert np.shares_memory(Flatten()(x).data, x.data)
    assert Flatten()(Tensor(np.zeros((3, 0, 4)))).shape == (3, 0)
    assert repr(Flatten()) == "Flatten()"
    check_gradient(Flatten(), x)
    with shape_only():
        assert Flatten()(Tensor(hollow((0, 3, 4)))).shape == (0, 12)
    with pytest.raises(ValueError, match="without axes"):
        Flatten()(Tensor(1.0))
