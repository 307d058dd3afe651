"""Models to profile by name: ``zoo.models()`` maps each name to its factory and an input shape.

Each is its paper's architecture with weights drawn anew: to be counted, timed and trained, not pretrained. Built under
``shape_only()`` none of them allocates its weights.
"""

from collections.abc import Callable

import numpy as np

from tinytorch.core.activations import GELU, ReLU, Scoped, Tanh
from tinytorch.core.attention import MultiHeadAttention, padding_mask
from tinytorch.core.embeddings import Embedding, PositionalEncoding, normal_weight
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, positive
from tinytorch.core.spatial import AvgPool2d, BatchNorm2d, Conv2d, Flatten, MaxPool2d
from tinytorch.core.tensor import Tensor, broadcast_to, concatenate, hollow, is_shape_only
from tinytorch.core.transformers import GPT, LayerNorm, TransformerBlock


def digits_mlp() -> Layer:
    """Two fully connected layers for 8x8 digits: x (B, 64) -> logits (B, 10); 64-32-10, 2,410 parameters."""
    return Sequential(Linear(64, 32), ReLU(), Linear(32, 10))


def digits_cnn() -> Layer:
    """Two convolutions for 8x8 digits: x (B, 1, 8, 8) -> logits (B, 10); 6,090 parameters."""
    return Sequential(Conv2d(1, 16, 3, padding=1), ReLU(), MaxPool2d(2), Conv2d(16, 32, 3, padding=1), ReLU(),
                      MaxPool2d(2), Flatten(), Linear(32 * 2 * 2, 10))


def lenet5() -> Layer:
    """LeNet-5: x (B, 1, 28, 28), padded to 32x32 -> logits (B, 10); 61,706 parameters.

    Source: LeCun and others, 1998, with every map connected to every other and a linear last layer, as is usual now.
    """
    return Sequential(Conv2d(1, 6, 5, padding=2), Tanh(), AvgPool2d(2), Conv2d(6, 16, 5), Tanh(), AvgPool2d(2),
                      Flatten(), Linear(16 * 5 * 5, 120), Tanh(), Linear(120, 84), Tanh(), Linear(84, 10))


def vgg16() -> Layer:
    """VGG-16: x (B, 3, 224, 224) -> logits (B, 1000); 138,357,544 parameters. Source: Simonyan and Zisserman, 2015."""
    layers: list[Scoped] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [Conv2d(channels, width, 3, padding=1), ReLU()]
            channels = width
        layers.append(MaxPool2d(2))
    return Sequential(*layers, Flatten(), Linear(512 * 7 * 7, 4096), ReLU(), Dropout(), Linear(4096, 4096), ReLU(),
                      Dropout(), Linear(4096, 1000))


def _conv_norm(channels: int, out_channels: int, size: int, stride: int = 1) -> list[Scoped]:
    """Return a convolution that keeps the image's size up to the stride, and the norm that makes its bias needless."""
    return [Conv2d(channels, out_channels, size, stride=stride, padding=size // 2, bias=False),
            BatchNorm2d(out_channels)]


class Residual(Layer):
    """relu(body(x) + shortcut(x)), where the shortcut is x itself if the shape stays: x (B, C, H, W)."""

    def __init__(self, body: Layer, shortcut: Layer | None) -> None:
        self.body, self.shortcut, self.relu = body, shortcut, ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add what the body makes of x to x: (B, C, H, W) -> (B, C', H', W')."""
        return self.relu(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


class GlobalAverage(Layer):
    """The mean of each channel: x (B, C, H, W) -> (B, C)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean over height and width."""
        return x.mean(axis=(2, 3))


def _basic(channels: int, width: int, stride: int) -> list[Scoped]:
    """Two 3x3 convolutions, the body of ResNet-18's block."""
    return [*_conv_norm(channels, width, 3, stride), ReLU(), *_conv_norm(width, width, 3)]


def _bottleneck(channels: int, width: int, stride: int) -> list[Scoped]:
    """1x1, 3x3, 1x1: the body of ResNet-50's block; the stride is in the 3x3 convolution (version 1.5)."""
    return [*_conv_norm(channels, width, 1), ReLU(), *_conv_norm(width, width, 3, stride), ReLU(),
            *_conv_norm(width, 4 * width, 1)]


def _resnet(body: Callable[[int, int, int], list[Scoped]], expansion: int, depths: tuple[int, ...]) -> Layer:
    """Stem, four stages of residual blocks, mean over the image, 1,000 classes."""
    layers: list[Scoped] = [*_conv_norm(3, 64, 7, stride=2), ReLU(), MaxPool2d(3, stride=2, padding=1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            same = stride == 1 and channels == expansion * width
            shortcut = None if same else Sequential(*_conv_norm(channels, expansion * width, 1, stride))
            layers.append(Residual(Sequential(*body(channels, width, stride)), shortcut))
            channels = expansion * width
    return Sequential(*layers, GlobalAverage(), Linear(channels, 1000))


def resnet18() -> Layer:
    """ResNet-18: x (B, 3, 224, 224) -> logits (B, 1000); 11,689,512 parameters. Source: He and others, 2016."""
    return _resnet(_basic, 1, (2, 2, 2, 2))


def resnet50() -> Layer:
    """ResNet-50, version 1.5 (stride in the 3x3 convolution): x (B, 3, 224, 224) -> logits (B, 1000); 25,557,032.

    Source: He and others, 2016.
    """
    return _resnet(_bottleneck, 4, (3, 4, 6, 3))


class PostNormBlock(Layer):
    """Transformer block that normalizes after adding: x (B, T, D) -> (B, T, D). Source: Vaswani and others, 2017."""

    def __init__(self, embed_dim: int, num_heads: int, dropout_prob: float = 0.1) -> None:
        self.attention, self.dropout = MultiHeadAttention(embed_dim, num_heads), Dropout(dropout_prob)
        self.ln1, self.ln2 = LayerNorm(embed_dim, eps=1e-12), LayerNorm(embed_dim, eps=1e-12)
        self.mlp = Sequential(Linear(embed_dim, 4 * embed_dim), GELU(), Linear(4 * embed_dim, embed_dim))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention, then the MLP, each added to what came and normalized."""
        x = self.ln1(x + self.dropout(self.attention(x, mask=mask)))
        return self.ln2(x + self.dropout(self.mlp(x)))


class BERT(Layer):
    """Encoder of Devlin and others, 2019: tokens (B, T) -> the first position's pooled vector (B, D).

    Segment 0 is taken for every token. ``present`` (B, T), True where there is a token, leaves padding out.
    """

    def __init__(self, vocab_size: int, embed_dim: int, num_layers: int, num_heads: int, max_seq_len: int = 512,
                 dropout_prob: float = 0.1) -> None:
        self.token_embedding = Embedding(vocab_size, embed_dim)
        self.position_embedding = PositionalEncoding(max_seq_len, embed_dim)
        self.segment_weight = normal_weight(2, embed_dim)
        self.ln, self.dropout = LayerNorm(embed_dim, eps=1e-12), Dropout(dropout_prob)
        self.blocks = [PostNormBlock(embed_dim, num_heads, dropout_prob)
                       for _ in range(positive("num_layers", num_layers))]
        self.pooler = Sequential(Linear(embed_dim, embed_dim), Tanh())

    def forward(self, tokens: Tensor, present: Tensor | None = None) -> Tensor:
        """Embed, normalize, run the blocks, pool the first position: (B, T) -> (B, D)."""
        mask = None
        if present is not None:
            mask = padding_mask(present)  # (B, 1, 1, T)
            if present.shape != tokens.shape:
                raise ValueError(f"tokens {tokens.shape} with present {present.shape}: want the same shape")
        x = self.position_embedding(self.token_embedding(tokens)) + self.segment_weight[0]
        x = self.dropout(self.ln(x))
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.pooler(x[:, 0])


def bert_base() -> Layer:
    """BERT-base, uncased, with its pooler: tokens (B, T) -> (B, 768); 109,482,240 parameters."""
    return BERT(30522, 768, 12, 12)


class ViT(Layer):
    """Vision transformer: x (B, 3, image, image) -> logits (B, classes); the image is a multiple of the patch.

    Source: Dosovitskiy and others, 2021.
    """

    def __init__(self, image: int, patch: int, embed_dim: int, num_layers: int, num_heads: int, classes: int = 1000,
                 dropout_prob: float = 0.0) -> None:
        self.image, patch = positive("image", image), positive("patch", patch)
        if image % patch:
            raise ValueError(f"image {image} is no whole multiple of the patch, {patch}")
        self.patches = Conv2d(3, embed_dim, patch, stride=patch)
        start = hollow((1, 1, embed_dim)) if is_shape_only() else np.zeros((1, 1, embed_dim), np.float32)
        self.class_token = Tensor(start, requires_grad=True)
        self.position_embedding = PositionalEncoding((image // patch) ** 2 + 1, embed_dim)
        self.blocks = [TransformerBlock(embed_dim, num_heads, dropout_prob=dropout_prob)
                       for _ in range(positive("num_layers", num_layers))]
        self.ln, self.head = LayerNorm(embed_dim, eps=1e-6), Linear(embed_dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Cut into patches, put the class token before them, run the blocks, classify by that token."""
        if x.ndim != 4 or x.shape[2:] != (self.image, self.image):
            raise ValueError(f"x {x.shape}: want (B, 3, {self.image}, {self.image}), the size this model was built for")
        x = self.patches(x)  # (B, D, rows, columns)
        batch, dim = x.shape[:2]
        x = x.reshape(batch, dim, x.shape[2] * x.shape[3]).T  # (B, patches, D)
        x = concatenate(broadcast_to(self.class_token, shape=(batch, 1, dim)), x, axis=1)
        x = self.position_embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)[:, 0])


def vit_b_16() -> Layer:
    """ViT-B/16: x (B, 3, 224, 224) -> logits (B, 1000); 86,567,656 parameters."""
    return ViT(224, 16, 768, 12, 12)


def gpt2_small() -> Layer:
    """GPT-2 small, tied head: tokens (B, T) -> logits (B, T, 50257); 124,439,808 parameters.

    Source of all four sizes: Radford and others, 2019.
    """
    return GPT(50257, 768, 12, 12)


def gpt2_medium() -> Layer:
    """GPT-2 medium, tied head; 354,823,168 parameters."""
    return GPT(50257, 1024, 24, 16)


def gpt2_large() -> Layer:
    """GPT-2 large, tied head; 774,030,080 parameters."""
    return GPT(50257, 1280, 36, 20)


def gpt2_xl() -> Layer:
    """GPT-2 XL, tied head; 1,557,611,200 parameters."""
    return GPT(50257, 1600, 48, 25)


def gpt3() -> Layer:
    """GPT-3, tied head, every layer dense: tokens (B, T) -> logits (B, T, 50257); 174,604,259,328 parameters.

    698 GB of weights: build it under ``shape_only()``. Source: Brown and others, 2020.
    """
    return GPT(50257, 12288, 96, 96, max_seq_len=2048)


TRAINED_ON_DIGITS = {digits_mlp, digits_cnn}  # factories whose input is an 8x8 digit


def models() -> dict[str, tuple[Callable[[], Layer], tuple[int, ...]]]:
    """Return name -> (factory, input shape), batch first; the shapes of token models are (batch, length)."""
    image = (1, 3, 224, 224)
    return {
        "digits_mlp": (digits_mlp, (32, 64)), "digits_cnn": (digits_cnn, (32, 1, 8, 8)),
        "lenet5": (lenet5, (1, 1, 28, 28)), "vgg16": (vgg16, image), "resnet18": (resnet18, image),
        "resnet50": (resnet50, image), "vit_b_16": (vit_b_16, image), "bert_base": (bert_base, (1, 128)),
        "gpt2_small": (gpt2_small, (1, 1024)), "gpt2_medium": (gpt2_medium, (1, 1024)),
        "gpt2_large": (gpt2_large, (1, 1024)), "gpt2_xl": (gpt2_xl, (1, 1024)), "gpt3": (gpt3, (1, 2048)),
    }
