# %%
#| default_exp core.activations

# %%
#| export
from functools import wraps
from math import pi, sqrt

import numpy as np

from tinytorch.core.tensor import _one_axis, floating, in_floats, op, same_shape, scope, thread_state

# %%
#| export
@op(shape=same_shape, dtype=floating)
def exp(a):
    """e to the power of a; too large a number gives inf."""
    with np.errstate(over="ignore"):
        return np.exp(in_floats(a))


@op(shape=same_shape, dtype=floating)
def log(a):
    """Natural logarithm; of 0 it is -inf, of a negative number NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(in_floats(a))

# %%
#| export
@op(shape=same_shape)
def relu(a):
    """Return the larger of a and 0."""
    return np.maximum(a, a.dtype.type(0))


@op(shape=same_shape, dtype=floating)
def sigmoid(a):
    """1 / (1 + e^-a)."""
    small = np.exp(-np.abs(in_floats(a)))
    return np.where(a >= 0, 1, small) / (1 + small)


@op(shape=same_shape, dtype=floating)
def tanh(a):
    """Hyperbolic tangent."""
    return np.tanh(in_floats(a))

# %%
#| export
def softmax(x, axis=None, dim=None):
    """Turn scores into shares along ``axis``."""
    axis = _one_axis(axis, dim)
    axis = -1 if axis is None else axis
    powers = exp(x - x.max(axis=axis, keepdims=True).detach())
    return powers / powers.sum(axis=axis, keepdims=True)


def gelu(x):
    """Gaussian error linear unit."""
    inner = sqrt(2 / pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + tanh(inner))

# %%
#| export
def _in_scope(forward):
    """Wrap ``forward`` so that events inside carry the object; a ``super().forward`` does not open it twice."""
    @wraps(forward)
    def run(self, *args, **kwargs):
        path = thread_state().path
        if path and path[-1].owner == id(self):
            return forward(self, *args, **kwargs)
        with scope(type(self).__name__, id(self)):
            return forward(self, *args, **kwargs)
    return run


class Scoped:
    """Anything with a ``forward``: calling it opens a scope."""

    training = True

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _in_scope(cls.forward)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """Compute the output; every class writes its own."""
        raise TypeError(f"{type(self).__name__} has no forward of its own; write one")

    def named_parameters(self):
        """Return (name, tensor) for each tensor inside: none here."""
        return []

    def parameters(self):
        """Return the tensors inside, each once."""
        return [tensor for _, tensor in self.named_parameters()]

    def children(self):
        """Return (name, object) for what is directly inside and has a ``forward``: nothing here."""
        return []

    def train(self, mode=True):
        """Switch to training (or, with False, to evaluation), with all below; return the object itself."""
        todo, seen = [self], set()
        while todo:
            one = todo.pop()
            if id(one) not in seen:
                seen.add(id(one))
                one.training = bool(mode)
                todo += [child for _, child in one.children()]
        return self

    def eval(self):
        """Switch to evaluation."""
        return self.train(False)

    def __repr__(self):
        return f"{type(self).__name__}()"

# %%
#| export
class ReLU(Scoped):
    """max(x, 0)."""

    def forward(self, x):
        """Return relu(x)."""
        return relu(x)


class Sigmoid(Scoped):
    """1 / (1 + e^-x)."""

    def forward(self, x):
        """Return sigmoid(x)."""
        return sigmoid(x)


class Tanh(Scoped):
    """Hyperbolic tangent."""

    def forward(self, x):
        """Return tanh(x)."""
        return tanh(x)


class GELU(Scoped):
    """Gaussian error linear unit."""

    def forward(self, x):
        """Return gelu(x)."""
        return gelu(x)


class Softmax(Scoped):
    """Shares."""

    def __init__(self, axis=None, dim=None):
        axis = _one_axis(axis, dim)
        self.axis = -1 if axis is None else axis

    def forward(self, x):
        """Return softmax(x)."""
        return softmax(x, axis=self.axis)
