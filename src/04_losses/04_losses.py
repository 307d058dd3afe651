# %%
#| default_exp core.losses

# %%
#| export
import numpy as np

from tinytorch.core.activations import exp, log, relu
from tinytorch.core.layers import Layer
from tinytorch.core.tensor import Tensor, _one_axis, is_shape_only, maximum, op

# %%
#| export
def log_softmax(x, axis=None, dim=None):
    """Return log(softmax(x))."""
    axis = _one_axis(axis, dim)
    axis = -1 if axis is None else axis
    shifted = x - x.max(axis=axis, keepdims=True).detach()
    return shifted - log(exp(shifted).sum(axis=axis, keepdims=True))


def pick_shape(log_probs, targets):
    """Return the shape of ``targets`` (...) picked from ``log_probs`` (..., C), or raise ``ValueError``."""
    if not log_probs or tuple(targets) != tuple(log_probs[:-1]):
        raise ValueError(f"log_probs {log_probs} with targets {targets}: want targets {log_probs[:-1]}")
    return targets


def class_numbers(targets, classes):
    """Return targets as integers."""
    if targets.dtype.kind not in "iuf":
        raise TypeError(f"targets of {targets.dtype}; want class numbers")
    whole = targets == np.floor(targets)
    wrong = targets[~whole | (targets < 0) | (targets >= classes)]
    if wrong.size:
        raise ValueError(f"class {wrong[0]} does not exist; there are {classes}, numbered 0 to {classes - 1}")
    return targets.astype(np.intp)


@op(shape=pick_shape, dtype=lambda log_probs, targets: log_probs)
def pick(log_probs, targets):
    """Take the entry of the target class."""
    if log_probs.shape[:-1] != targets.shape:
        raise ValueError("shape")
    index = class_numbers(targets, log_probs.shape[-1])
    return np.take_along_axis(log_probs, index[..., None], axis=-1)[..., 0]

# %%
#| export
class MSELoss(Layer):
    """Mean of the squared differences."""

    def forward(self, predictions, targets):
        """Return a scalar."""
        error = predictions - targets
        return (error * error).mean()


class CrossEntropyLoss(Layer):
    """Mean of -log p."""

    def forward(self, logits, targets):
        """Return a scalar."""
        return -pick(log_softmax(logits), targets).mean()


class BinaryCrossEntropyLoss(Layer):
    """Binary cross entropy."""

    def __init__(self, from_logits=False):
        self.from_logits = from_logits

    def forward(self, predictions, targets):
        """Return a scalar."""
        if self.from_logits:
            top = relu(predictions).detach()
            return (top + log(exp(predictions - top) + exp(-top)) - predictions * targets).mean()
        tiny = 1e-7
        return -(targets * log(maximum(predictions, tiny)) + (1 - targets) * log(maximum(1 - predictions, tiny))).mean()
