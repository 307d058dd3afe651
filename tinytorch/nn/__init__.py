"""The field's usual name for layers, activations and losses; everything here lives in ``tinytorch.core``."""

import sys

from tinytorch.core import activations, attention, embeddings, layers, losses, spatial, transformers
from tinytorch.core.activations import GELU, ReLU, Sigmoid, Softmax, Tanh
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.embeddings import Embedding, PositionalEncoding, SinusoidalEncoding
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.losses import BinaryCrossEntropyLoss, CrossEntropyLoss, MSELoss
from tinytorch.core.spatial import AvgPool2d, BatchNorm2d, Conv2d, Flatten, MaxPool2d
from tinytorch.core.transformers import GPT, MLP, LayerNorm, TransformerBlock

__all__ = ["GELU", "GPT", "MLP", "AvgPool2d", "BatchNorm2d", "BinaryCrossEntropyLoss", "Conv2d", "CrossEntropyLoss",
           "Dropout", "Embedding", "Flatten", "Layer", "LayerNorm", "Linear", "MSELoss", "MaxPool2d",
           "MultiHeadAttention", "PositionalEncoding", "ReLU", "Sequential", "Sigmoid", "SinusoidalEncoding", "Softmax",
           "Tanh", "TransformerBlock", "activations", "attention", "embeddings", "layers", "losses", "spatial",
           "transformers"]

for _name in ("activations", "attention", "embeddings", "layers", "losses", "spatial", "transformers"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]  # `import tinytorch.nn.layers` finds core.layers
