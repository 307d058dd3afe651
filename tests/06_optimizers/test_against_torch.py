"""The numbers of PyTorch 2.13.0: one float32 parameter, three gradients, its value after each step.

Made with ``torch.optim`` on ``[[1, -2], [0.5, 3]]``, gradients below, printed to seven decimals.
"""

import numpy as np
import pytest

from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.core.tensor import Tensor

START = [[1.0, -2.0], [0.5, 3.0]]
GRADIENTS = [[[0.1, -0.2], [0.0, 4.0]], [[-0.3, 0.2], [1e-4, -1.0]], [[0.5, 0.5], [2.0, 0.25]]]

TORCH_2_13 = [
    (SGD, {"lr": 0.1}, [
        [0.99, -1.98, 0.5, 2.5999999], [1.02, -2.0, 0.49999, 2.6999998], [0.97, -2.05, 0.29999, 2.6749997]]),
    (SGD, {"lr": 0.1, "momentum": 0.9}, [
        [0.99, -1.98, 0.5, 2.5999999], [1.011, -1.982, 0.49999, 2.3399999],
        [0.9799001, -2.0337999, 0.299981, 2.0809999]]),
    (SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}, [
        [0.989, -1.978, 0.4995, 2.5969999], [1.008111, -1.976222, 0.4985405, 2.3317029],
        [0.9743028, -2.0226457, 0.2971784, 2.065604]]),
    (Adam, {"lr": 0.01}, [
        [0.99, -1.99, 0.5, 2.99], [0.9949419, -1.9905263, 0.4925597, 2.9853053],
        [0.9915832, -1.9962877, 0.4861712, 2.9812961]]),
    (Adam, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 0.001, "weight_decay": 0.1}, [
        [0.9900498, -1.9900249, 0.4901961, 2.9900024], [0.99118, -1.9836999, 0.4804017, 2.9850035],
        [0.9852409, -1.98436, 0.4732487, 2.9804661]]),
    (AdamW, {"lr": 0.01}, [
        [0.9899, -1.9898, 0.49995, 2.9897001], [0.9947429, -1.9901273, 0.4924597, 2.9847064],
        [0.9912847, -1.9956896, 0.486022, 2.9803987]]),
    (AdamW, {"lr": 0.01, "weight_decay": 0.1}, [
        [0.989, -1.988, 0.4995, 2.987], [0.9929529, -1.9865384, 0.4915602, 2.9793184],
        [0.9886013, -1.9903133, 0.4846802, 2.9723299]]),
]


@pytest.mark.parametrize(("kind", "settings", "values"), TORCH_2_13, ids=lambda v: getattr(v, "__name__", None))
def test_three_steps(kind, settings, values):
    p = Tensor(START, requires_grad=True)
    optimizer = kind([p], **settings)
    for gradient, want in zip(GRADIENTS, values):
        p.grad = Tensor(gradient)
        optimizer.step()
        np.testing.assert_allclose(p.data.ravel(), want, rtol=2e-6, atol=1e-7)
