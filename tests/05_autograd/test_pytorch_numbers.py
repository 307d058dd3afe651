"""The same network in PyTorch gives the same gradients: its numbers are kept here; if it is installed, it is asked."""

import numpy as np
import pytest

from tinytorch.core.activations import gelu, log, relu, sigmoid, softmax, tanh
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.tensor import Tensor, concatenate, maximum, sqrt, where

VALUES = {
    "x": [[1.0, 2.0], [-1.0, 0.5], [0.5, -2.0], [2.0, 1.0]],
    "w1": [[0.5, -1.0, 0.25], [1.5, 0.75, -0.5]],
    "b1": [0.1, 0.2, -0.3],
    "w2": [[1.0, -0.5], [0.25, 2.0], [-1.5, 0.5]],
    "b2": [0.05, -0.05],
}
CLASSES = [0, 1, 1, 0]

# PyTorch 2.14.1, float64, CPU: F.cross_entropy(relu(x @ w1 + b1) @ w2 + b2, classes).backward()
LOSS = 0.08414996973452628
GRADIENTS = {
    "x": [[-0.00857572455157, -0.00321589670684], [0.0663102396027, 0.024866339851],
          [-0.0218857835205, 0.043771567041], [-0.00337241436789, -0.0101172431037]],
    "w1": [[-0.0584212359641, 0.052420174908, -0.043771567041],
           [0.00285737368314, -0.0112025694887, 0.175086268164]],
    "b1": [0.0278958802949, -0.0404141605358, -0.087543134082],
    "w2": [[-0.0147566462852, 0.0147566462852], [0.0393742480753, -0.0393742480753],
           [0.0361115428088, -0.0361115428088]],
    "b2": [0.0623688205709, -0.0623688205709],
}


@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_a_small_network_gives_pytorch_s_numbers(dtype, digits):
    t = {name: Tensor(value, True, dtype) for name, value in VALUES.items()}
    loss = CrossEntropyLoss()(relu(t["x"] @ t["w1"] + t["b1"]) @ t["w2"] + t["b2"], Tensor(np.array(CLASSES)))
    loss.backward()
    np.testing.assert_allclose(loss.item(), LOSS, rtol=digits)
    for name, expected in GRADIENTS.items():
        np.testing.assert_allclose(t[name].grad.data, expected, rtol=digits, atol=digits / 10, err_msg=name)


def both(torch):
    """Name -> the same function of two (3, 4) tensors here and in PyTorch."""
    gelu_torch = torch.nn.functional.gelu
    return {
        "softmax": (lambda a, b: softmax(a) * b, lambda a, b: torch.softmax(a, -1) * b),
        "gelu": (lambda a, b: gelu(a) / b, lambda a, b: gelu_torch(a, approximate="tanh") / b),
        "largest": (lambda a, b: a.max(axis=(0, 1)) * b, lambda a, b: a.amax((0, 1)) * b),
        "larger": (lambda a, b: maximum(a, b), torch.maximum),
        "tie": (lambda a, b: maximum(a, a * 1.0) + b, lambda a, b: torch.maximum(a, a * 1.0) + b),
        "relu at 0": (lambda a, b: relu(a - a) + b, lambda a, b: torch.relu(a - a) + b),
        "products": (lambda a, b: (a @ b.T) @ a, lambda a, b: (a @ b.T) @ a),
        "vectors": (lambda a, b: a[0] @ b.T @ a, lambda a, b: a[0] @ b.T @ a),
        "powers": (lambda a, b: (a * a) ** 1.5 + b**0, lambda a, b: (a * a) ** 1.5 + b**0),
        "roots": (lambda a, b: sqrt(a * a + 1.0) * log(b), lambda a, b: torch.sqrt(a * a + 1.0) * torch.log(b)),
        "join": (lambda a, b: concatenate(a, b, axis=-1)[:, ::3], lambda a, b: torch.cat((a, b), -1)[:, [0, 3, 6]]),
        "choose": (lambda a, b: where(a > b, tanh(a), sigmoid(b)),
                   lambda a, b: torch.where(a > b, torch.tanh(a), torch.sigmoid(b))),
        "rows twice": (lambda a, b: a[[0, 0, 2]] * b, lambda a, b: a[[0, 0, 2]] * b),
    }


def test_pytorch_itself_agrees():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((3, 4)), rng.uniform(1, 2, (3, 4))
    for name, (here, there) in both(torch).items():
        ours = [Tensor(a, True, np.float64) for a in arrays]
        theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
        out, wanted = here(*ours), there(*theirs)
        weights = rng.standard_normal(out.shape)
        out.backward(weights)
        wanted.backward(torch.tensor(weights))
        for mine, other in zip(ours, theirs):
            np.testing.assert_allclose(mine.grad.data, other.grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
