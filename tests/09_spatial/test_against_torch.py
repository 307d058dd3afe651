"""The numbers of PyTorch 2.13.0 for convolution, pooling and batch norm: values and gradients of small arrays.

Made with ``torch.nn.functional`` in float32 from the same inputs, printed to seven decimals. Where torch is
installed, it is asked again in float64, with more settings.
"""

import numpy as np
import pytest

from tinytorch.core.spatial import BatchNorm2d, avg_pool2d, conv2d, max_pool2d
from tinytorch.core.tensor import Tensor


def quarters(shape, step, turns, less):
    """Return small multiples of 1/4, exact in every float: (step * i) % turns - less for i = 0, 1, 2, ..."""
    return ((np.arange(np.prod(shape)) * step % turns - less) / 4).reshape(shape)


def close(got, want):
    np.testing.assert_allclose(got.ravel(), want, rtol=2e-6, atol=2e-6)


def test_convolution():
    x, weight = Tensor(quarters((1, 4, 5, 4), 7, 11, 5), True), Tensor(quarters((2, 2, 2, 2), 5, 13, 6), True)
    bias = Tensor([0.5, -1.0], True)
    out = conv2d(x, weight, bias, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
    assert out.shape == (1, 2, 3, 2)
    close(out.data, [-1.5625, 0.25, -1.875, 3.375, -1.8125, 2.75, -1.375, -3.3125, 2.75, -4.5, 2.5, -4.0625])
    out.backward(quarters(out.shape, 3, 7, 3))
    close(x.grad.data, [
        -0.75, 0, 0.75, 0, -1.125, 0.375, -0.1875, 0.0625, 0.75, -0.25, -0.75, 0.25, -0.75, 0.75, -0.125, 0.125,
        0.5, -0.5, -0.5, 0.5, 0.375, 0, -0.5625, 0, 0.1875, -0.0625, 1.125, -0.375, -0.375, 0.125, 0.5625, -0.1875,
        0.125, -0.125, 0.75, -0.75, -0.25, 0.25, 0.375, -0.375, 0.3125, -0.9375, -0.1875, 0.5625, 0, -0.9375, 0, 0,
        0, 0.9375, 0, -0.5625, 0.3125, -0.625, 0, 0, -0.3125, 0.625, 0.1875, -0.375, -0.0625, 0.1875, 0.25, -0.75,
        0, 0.375, 0, -1.125, 0, -0.1875, 0, 0.75, -0.125, 0.25, 0.375, -0.75, 0.0625, -0.125, -0.25, 0.5])
    close(weight.grad.data, [0.875, 1.25, -0.875, 1, -0.1875, 0.875, 0.6875, -0.875,
                             1, 0.375, -0.1875, 0.1875, -0.4375, 1, -0.5625, -0.1875])
    close(bias.grad.data, [-0.25, 0.5])


@pytest.mark.parametrize(("pool", "values", "gradient"), [
    # of the equal 3s, the first in reading order gets the gradient
    (max_pool2d, [3, 3, 3, 3, 3, 4, -1, 4], [0, -0.25, 0, 0, 0.5, 0, 0, 0, 0, 0.25, 0, -1.25]),
    # the frame counts as zeros
    (avg_pool2d, [0.6666667, 1, 1.5, 1, -0.1666667, 0.1666667, -1, 0.1666667], [
        0, -0.0416667, -0.0416667, -0.0416667, 0.2083333, 0.0833333, -0.125, -0.125, 0.125, -0.0833333, -0.2083333,
        -0.2083333]),
], ids=["max", "average"])
def test_pooling(pool, values, gradient):
    x = Tensor([[[[1, 3, 3, 0], [3, 2, -1, -1], [-5, -1, -2, 4]]]], True, np.float32)
    out = pool(x, kernel=(2, 3), stride=(1, 2), padding=(1, 1))
    assert out.shape == (1, 1, 4, 2)
    close(out.data, values)
    out.backward(quarters(out.shape, 3, 7, 3))
    close(x.grad.data, gradient)


BATCHES = [  # training, training, evaluation: x, out, gradients of x, weight and bias, running mean and variance
    ((7, 11, 2), [-1.7128242, 1.5847204, -0.2995908, 1.26808, 1.853616, 2.439152,
                  2.526876, 0.6425648, -1.2417464, 1.560848, 2.146384, 2.73192],
     [-0.8905364, -0.0916304, 1.6726472, 0.2509436, -0.2133025, 0.3471395,
      0.2039254, -1.3293417, 0.434936, -0.3471395, 0.2133025, -0.2509436],
     [0.8898137, 0.219576], [-0.5, 0.75], [0.0541667, 0.075], [0.9760417, 0.9875]),
    ((5, 13, 9), [-1.7012303, 0.3172837, 2.3357978, 2.6504102, 1.9775721, 1.304734,
                  -0.086419, 1.9320949, -1.2975274, 2.1121397, 1.4393016, 2.5158424],
     [-0.6839438, 0.1210298, 0.9260033, 0.3549643, -0.2071312, 0.1727466,
      0.6059595, -1.4149866, 0.4459377, -0.3100202, 0.0698575, -0.0804171],
     [1.1213967, -1.3120342], [-0.5, 0.75], [-0.0554167, 0.0133333], [0.9819791, 0.9922916]),
    ((3, 11, 1), [-0.0445395, 1.0907304, 2.2260005, 1.0028208, 2.0066924, 1.6302406,
                  2.6044238, 3.7396939, 0.7123072, 1.5047567, 1.1283048, 2.1321764],
     [-1.13527, 0, 1.13527, 0.1254839, -0.2509679, 0.2509679,
      0.3784233, -1.13527, 0, -0.3764518, 0.1254839, -0.2509679],
     [-0.2171729, -0.7002004], [-0.5, 0.75], [-0.0554167, 0.0133333], [0.9819791, 0.9922916]),
]


def test_batch_norm():
    norm = BatchNorm2d(2)
    norm.weight.data[:], norm.bias.data[:] = [1.5, -0.5], [0.25, 2.0]
    for step, (numbers, values, x_gradient, weight_gradient, bias_gradient, mean, variance) in enumerate(BATCHES):
        norm.train(step < 2)
        norm.weight.grad = norm.bias.grad = None
        x = Tensor(quarters((2, 2, 1, 3), *numbers), True)
        out = norm(x)
        out.backward(quarters(out.shape, 3, 7, 3))
        for got, want in ((out, values), (x.grad, x_gradient), (norm.weight.grad, weight_gradient),
                          (norm.bias.grad, bias_gradient)):
            close(got.data, want)
        close(norm.running_mean, mean)
        close(norm.running_var, variance)


# --- torch itself, where it is installed


CONVOLUTIONS = [
    {}, {"stride": (2, 3)}, {"padding": (2, 1)}, {"dilation": (2, 1)}, {"groups": 2},
    {"stride": (3, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
]
POOLINGS = [{"kernel": (2, 2)}, {"kernel": (3, 2), "stride": (1, 3)}, {"kernel": (3, 2), "padding": (1, 1)},
            {"kernel": (2, 4), "stride": (3, 1), "padding": (1, 2)}]


def agree(ours, out, theirs, wanted, torch, rtol=1e-10):
    """Compare two results, and after a backward pass with the same g all gradients."""
    assert out.shape == tuple(wanted.shape)
    np.testing.assert_allclose(out.data, wanted.detach().numpy(), rtol=rtol, atol=rtol / 100)
    g = quarters(out.shape, 5, 17, 8)
    out.backward(g)
    wanted.backward(torch.tensor(g))
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine.grad.data, other.grad.numpy(), rtol=rtol, atol=rtol / 100)


def both(torch, *arrays):
    """Return float64 tensors of either kind that want gradients."""
    return [Tensor(a, True, np.float64) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]


@pytest.mark.parametrize("how", CONVOLUTIONS)
@pytest.mark.parametrize("channels", [4, 24])  # with many, each kernel row is a product of its own
def test_torch_convolves_alike(how, channels):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((6, channels // how.get("groups", 1), 3, 2))
    ours, theirs = both(torch, rng.standard_normal((2, channels, 7, 8)), weight, rng.standard_normal(6))
    agree(ours, conv2d(*ours, **how), theirs, torch.nn.functional.conv2d(*theirs, **how), torch)


@pytest.mark.parametrize("how", POOLINGS)
@pytest.mark.parametrize("name", ["max", "avg"])
def test_torch_pools_alike(name, how):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).integers(-3, 3, (2, 3, 7, 8)).astype(float)  # few values, so many ties
    ours, theirs = both(torch, x)
    out = {"max": max_pool2d, "avg": avg_pool2d}[name](*ours, **how)
    there = {"kernel_size" if key == "kernel" else key: value for key, value in how.items()}
    agree(ours, out, theirs, getattr(torch.nn.functional, f"{name}_pool2d")(*theirs, **there), torch)


def test_torch_normalizes_alike():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    norm, other = BatchNorm2d(3, eps=1e-3, momentum=0.3), torch.nn.BatchNorm2d(3, eps=1e-3, momentum=0.3).double()
    for training in (True, True, False):
        ours, theirs = both(torch, rng.standard_normal((4, 3, 2, 5)) * 3 + 1, *rng.uniform(1, 2, (2, 3)))
        norm.weight, norm.bias = ours[1:]
        other.weight, other.bias = map(torch.nn.Parameter, theirs[1:])
        agree(ours, norm.train(training)(ours[0]), [theirs[0], other.weight, other.bias],
              other.train(training)(theirs[0]), torch, 1e-10 if training else 1e-5)  # ours remembers in float32
        np.testing.assert_allclose(norm.running_mean, other.running_mean.numpy(), rtol=1e-5)
        np.testing.assert_allclose(norm.running_var, other.running_var.numpy(), rtol=1e-5)
