"""The zoo: every model built and counted on shapes, to the digit; the small ones run."""

import tracemalloc
from math import prod

import numpy as np
import pytest

from tinytorch import zoo
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import manual_seed
from tinytorch.core.tensor import Tensor, shape_only
from tinytorch.perf.profiling import count_flops, count_parameters, flop_report, make_input

# name: (parameters, contraction FLOPs of one forward pass at batch 1). Parameters and FLOPs as published or, where
# papers give only rounded figures, as the arithmetic below gives them.
KNOWN = {
    "digits_mlp": (64 * 32 + 32 + 32 * 10 + 10, 2 * (64 * 32 + 32 * 10)),
    "digits_cnn": (16 * 9 + 16 + 32 * 16 * 9 + 32 + 128 * 10 + 10,
                   2 * (8 * 8 * 16 * 9 + 4 * 4 * 32 * 16 * 9 + 128 * 10)),
    "lenet5": (61_706, 833_040),
    "vgg16": (138_357_544, 30_940_528_640),
    "resnet18": (11_689_512, 3_628_146_688),
    "resnet50": (25_557_032, 8_178_368_512),
    # patches: 2 * 196 * 768 * 3 * 256; a block at T = 197: 24 T D² + 4 T² D; the head: 2 * 768 * 1000
    "vit_b_16": (86_567_656, 2 * 196 * 768 * 768 + 12 * (24 * 197 * 768**2 + 4 * 197**2 * 768) + 2 * 768 * 1000),
    "bert_base": (109_482_240, 22_348_431_360),
    "gpt2_small": (124_439_808, 291_648_307_200),
    # a block at T = 1024: 24 T D² + 4 T² D; the head: 2 T D V
    "gpt2_medium": (354_823_168, 24 * (24 * 1024**3 + 4 * 1024**3) + 2 * 1024**2 * 50257),
    "gpt2_large": (774_030_080, 36 * (24 * 1024 * 1280**2 + 4 * 1024**2 * 1280) + 2 * 1024 * 1280 * 50257),
    "gpt2_xl": (1_557_611_200, 3_506_703_564_800),
    "gpt3": (174_604_259_328, 734_804_261_732_352),
}


def hollow_model(name):
    with shape_only():
        return zoo.models()[name][0]()


def test_the_zoo_is_what_is_known():
    assert set(zoo.models()) == set(KNOWN)
    assert all(callable(getattr(zoo, name)) for name in KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_parameters_and_contractions(name):
    factory, shape = zoo.models()[name]
    report = flop_report(hollow_model(name), (1, *shape[1:]))
    assert (report.parameters, report.contractions) == KNOWN[name]
    assert report.uncounted == {} and report.never_called == []


@pytest.mark.parametrize("name", KNOWN)
def test_nothing_weight_sized_is_allocated(name):
    """GPT-3 would be 698 GB. Building and counting it stays under 100 MB, the others under 20."""
    shape = zoo.models()[name][1]
    tracemalloc.start()
    try:
        model = hollow_model(name)
        count_parameters(model), count_flops(model, shape)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (100e6 if name == "gpt3" else 20e6)


def test_one_token_of_gpt2():
    """At T = 1 the scores are one number per head: 12 (24 D² + 4 D) + 2 D V."""
    report = flop_report(hollow_model("gpt2_small"), (1, 1))
    assert report.contractions == 12 * (24 * 768**2 + 4 * 768) + 2 * 768 * 50257 == 247_100_928


def test_the_four_branches_of_a_downsampling_block():
    """The first block of stage 2 of ResNet-18: 3x3 with stride 2, 3x3, and a 1x1 shortcut with stride 2, on 56x56."""
    block = zoo.Residual(zoo.Sequential(*zoo._basic(64, 128, 2)), zoo.Sequential(*zoo._conv_norm(64, 128, 1, 2)))
    report = flop_report(block, (1, 64, 56, 56))
    assert report.contractions == 2 * 28 * 28 * 128 * (9 * 64 + 9 * 128 + 64)


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "lenet5", "resnet18"])
def test_small_ones_run(name):
    factory, shape = zoo.models()[name]
    manual_seed(0)
    model = factory().eval()
    with no_grad():
        out = model(make_input(model, (2, *shape[1:])))
    assert out.shape == (2, 1000 if name == "resnet18" else 10) and np.isfinite(out.data).all()


def test_a_small_bert_sees_no_padding():
    manual_seed(0)
    model = zoo.BERT(50, 16, 2, 4, max_seq_len=8).eval()
    tokens, mask = np.array([[3, 4, 5, 0, 0]]), np.array([[True, True, True, False, False]])
    padded = model(Tensor(tokens), present=Tensor(mask)).data
    np.testing.assert_allclose(padded, model(Tensor(tokens[:, :3])).data, atol=1e-6)
    other = tokens.copy()
    other[0, 4] = 9
    assert (model(Tensor(other), present=Tensor(mask)).data == padded).all()
    with pytest.raises(ValueError, match="want the same shape"):
        model(Tensor(tokens), present=Tensor(mask[:, :4]))


def test_a_small_vit_reads_every_patch():
    manual_seed(0)
    model = zoo.ViT(16, 4, 8, 1, 2, classes=5).eval()
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    before = model(Tensor(image)).data
    for row in range(0, 16, 4):
        for column in range(0, 16, 4):
            other = image.copy()
            other[0, :, row:row + 4, column:column + 4] += 1
            assert (model(Tensor(other)).data != before).any()


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (1, 3, 9, 11), (1, 3, 16, 4), (3, 8, 8)])
def test_a_vit_refuses_another_size(shape):
    with pytest.raises(ValueError, match="want .B, 3, 8, 8."):
        zoo.ViT(8, 4, 8, 1, 2, classes=5)(Tensor(np.zeros(shape)))


@pytest.mark.parametrize(("image", "patch", "layers"), [(8, 16, 1), (8, 3, 1), (-8, 4, 1), (8, 4, 0), (8, 4, True)])
def test_an_impossible_vit_is_not_built(image, patch, layers):
    with pytest.raises((ValueError, TypeError), match="want|multiple"):
        zoo.ViT(image, patch, 8, layers, 2)


def test_every_weight_of_a_residual_block_learns():
    manual_seed(0)
    block = zoo.Residual(zoo.Sequential(*zoo._bottleneck(8, 4, 2)), zoo.Sequential(*zoo._conv_norm(8, 16, 1, 2)))
    out = block(Tensor(np.random.default_rng(0).standard_normal((2, 8, 6, 6))))
    (out * out).sum().backward()
    assert out.shape == (2, 16, 3, 3) and len(block.parameters()) == 4 * 3
    assert all(p.grad is not None and prod(p.grad.shape) == p.size and (p.grad.data != 0).any()
               for p in block.parameters())
