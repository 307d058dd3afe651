"""The field's usual name for layers, activations and losses; everything here lives in ``tinytorch.core``."""

import sys

from tinytorch.core import activations, layers, losses
from tinytorch.core.activations import GELU, ReLU, Sigmoid, Softmax, Tanh
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.losses import BinaryCrossEntropyLoss, CrossEntropyLoss, MSELoss

__all__ = ["GELU", "BinaryCrossEntropyLoss", "CrossEntropyLoss", "Dropout", "Layer", "Linear", "MSELoss", "ReLU",
           "Sequential", "Sigmoid", "Softmax", "Tanh", "activations", "layers", "losses"]

for _name in ("activations", "layers", "losses"):  # `import tinytorch.nn.layers` finds core.layers
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
