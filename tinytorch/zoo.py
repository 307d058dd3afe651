"""Models to profile by name: ``zoo.models()`` maps each name to its factory and an input shape."""

from collections.abc import Callable

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Layer, Linear, Sequential


def digits_mlp(rng=None) -> Layer:
    """Two fully connected layers for 8x8 digits: x (B, 64) -> logits (B, 10); 64-32-10, 2,410 parameters.

    ``rng`` is a ``numpy.random.Generator`` for the initial weights (None: the default one).
    """
    return Sequential(Linear(64, 32, rng=rng), ReLU(), Linear(32, 10, rng=rng))


TRAINED_ON_DIGITS = {digits_mlp}  # factories whose input is a flattened 8x8 digit


def models() -> dict[str, tuple[Callable[..., Layer], tuple[int, ...]]]:
    """Return name -> (factory, input shape), batch first."""
    return {"digits_mlp": (digits_mlp, (32, 64))}
