"""TinyTorch: a mini deep-learning framework on NumPy that people learn ML systems with, by writing it."""

from importlib.util import find_spec

from tinytorch.core.tensor import Tensor

__version__ = "0.1.0"
__all__ = ["Tensor"]

if find_spec("tinytorch.core.autograd"):  # absent only where the course is tested up to module 4
    from tinytorch.core.autograd import no_grad  # importing it also gives Tensor its backward

    __all__ += ["no_grad"]
