"""What batch normalization remembers: never what is not finite, and in the type it is kept in."""

import numpy as np
import pytest

from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_batch_is_not_remembered(bad):
    layer = BatchNorm2d(2)
    layer(Tensor(np.random.default_rng(0).standard_normal((4, 2, 3, 3))))
    mean, var = layer.running_mean.copy(), layer.running_var.copy()
    x = np.ones((4, 2, 3, 3), np.float32)
    x[0, 1, 0, 0] = bad
    with np.errstate(invalid="ignore"):
        layer(Tensor(x))
    assert (layer.running_mean == mean).all() and (layer.running_var == var).all()


def test_float64_statistics_stay_float64():
    """(1 - 1/3) / sqrt(1 + 1e-5), to the last digits."""
    layer = BatchNorm2d(1).eval()
    layer.running_mean, layer.running_var = np.array([1 / 3]), np.array([1.0])
    out = layer(Tensor(np.ones((1, 1, 1, 1)), dtype=np.float64)).item()
    assert out == pytest.approx((2 / 3) / np.sqrt(1 + 1e-5), rel=1e-14)
