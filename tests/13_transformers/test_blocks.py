"""Layer norm, MLP and block: edges, gradients, masks, dropout, the cost of a block counted by hand."""

import copy
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.attention import padding_mask
from tinytorch.core.autograd import check_gradient
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only
from tinytorch.core.transformers import MLP, LayerNorm, TransformerBlock


def rng(seed=0):
    return np.random.default_rng(seed)


def numbers(layer):
    return sum(p.size for p in layer.parameters())


def in_float64(layer):
    """Cast a layer's weights; each Tensor stays the object it is, so what is tied stays tied."""
    for p in layer.parameters():
        p.data = p.data.astype(np.float64)
    return layer


def contractions(layer, *inputs):
    """Return 2 * (elements of the output) * (inner size), summed over the matrix products that ran."""
    events = []
    with shape_only(), listen(events.append):
        layer(*inputs)
    return sum(2 * prod(e.out_shape) * e.in_shapes[0][-1] for e in events if e.op.name in ("linear", "matmul"))


def norm_with(layer):
    """Return a function of x, weight and bias."""
    def run(x, weight, bias):
        layer.weight, layer.bias = weight, bias
        return layer(x)
    return run


@given(lead=st.lists(st.integers(0, 3), max_size=3), features=st.integers(1, 5), seed=st.integers(0, 99))
def test_layer_norm_has_the_gradient_of_differences(lead, features, seed):
    """Any leading axes, size 0 among them; eps as large as the variances, so that it shows in the gradient."""
    draw = rng(seed)
    x, w, b = (Tensor(draw.standard_normal((*more, features)), dtype=np.float64) for more in (lead, (), ()))
    assert check_gradient(norm_with(LayerNorm(features, eps=0.5)), x, w, b) < 1e-6


@given(lead=st.lists(st.integers(0, 3), max_size=3), features=st.integers(2, 6), seed=st.integers(0, 99))
def test_layer_norm_is_its_formula_and_keeps_float64(lead, features, seed):
    x = rng(seed).standard_normal((*lead, features)) * 3 + 100
    layer = in_float64(LayerNorm(features))
    want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    out = layer(Tensor(x, dtype=np.float64))
    assert out.dtype == np.float64 and out.shape == x.shape
    np.testing.assert_allclose(out.data, want, atol=1e-9)


def test_the_gradient_of_layer_norm_is_blind_to_size_and_offset():
    """Moving x along (1, ..., 1), or, with eps 0, along x - mean, changes nothing, so no gradient points there."""
    x = Tensor(rng().standard_normal((4, 6)), requires_grad=True, dtype=np.float64)
    layer = in_float64(LayerNorm(6, eps=0.0))
    layer(x).backward(Tensor(rng(1).standard_normal((4, 6)), dtype=np.float64))
    centred = x.data - x.data.mean(-1, keepdims=True)
    np.testing.assert_allclose(x.grad.data.sum(-1), 0, atol=1e-12)
    np.testing.assert_allclose((x.grad.data * centred).sum(-1), 0, atol=1e-12)
    assert np.abs(x.grad.data).max() > 0.01


def test_layer_norm_far_from_zero():
    """Centring first keeps the digits: mean of squares minus square of mean would lose them all."""
    x = rng().standard_normal((5, 64))
    far = LayerNorm(64)(Tensor((x + 4096).astype(np.float32))).data
    np.testing.assert_allclose(far, LayerNorm(64)(Tensor(x)).data, atol=2e-3)


def test_layer_norm_walks_through_memory_a_few_times():
    """Subtract, square, divide, scale, shift write arrays of the size of x, two means read one: 5 and 2 are enough.

    Up to 7 may write: another order, or x - mean taken twice, is right too, only slower.
    """
    events = []
    with listen(events.append):
        LayerNorm(8)(Tensor(np.ones((2, 3, 8))))
    assert 4 <= sum(e.out_shape == (2, 3, 8) for e in events) <= 7
    assert 2 <= sum(e.op.name == "reduce_sum" for e in events) <= 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_layer_norm_of_other_types(dtype):
    layer = LayerNorm(4)
    layer.weight.data, layer.bias.data = layer.weight.data.astype(dtype), layer.bias.data.astype(dtype)
    assert layer(Tensor(np.arange(4, dtype=dtype))).dtype == dtype


def test_layer_norm_of_whole_numbers_is_float():
    out = LayerNorm(2)(Tensor(np.array([[1, 3], [10, 20]])))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out.data, [[-1, 1], [-1, 1]], rtol=1e-4)


@pytest.mark.parametrize("shape", [(), (3,), (2, 1), (4, 2, 5)])
def test_layer_norm_names_what_came_and_what_it_wants(shape):
    with pytest.raises(ValueError) as caught:
        LayerNorm(4)(Tensor(np.ones(shape)))
    assert str(shape) in str(caught.value) and "4" in str(caught.value)


@pytest.mark.parametrize("eps", [-1e-5, float("nan"), float("inf")])
def test_layer_norm_wants_an_eps_that_is_one(eps):
    with pytest.raises(ValueError, match="eps"):
        LayerNorm(4, eps=eps)


@pytest.mark.parametrize("build", [
    lambda: LayerNorm(True), lambda: MLP(2.5), lambda: MLP(4, hidden_dim=True), lambda: TransformerBlock(8, 2.0),
    lambda: TransformerBlock(8, 2, mlp_ratio=1.5)])
def test_what_is_no_integer_is_a_type_error(build):
    with pytest.raises(TypeError, match="positive integer"):
        build()


@pytest.mark.parametrize("build", [
    lambda: LayerNorm(0), lambda: MLP(4, hidden_dim=0), lambda: TransformerBlock(8, 2, mlp_ratio=0),
    lambda: TransformerBlock(8, 3), lambda: MLP(4, dropout_prob=1.5)])
def test_impossible_sizes_are_value_errors(build):
    with pytest.raises(ValueError):
        build()


def test_block_by_the_book():
    """d 64: attention 4 (64² + 64), MLP 64 * 256 + 256 + 256 * 64 + 64, norms 2 * 2 * 64; T 10: 24 T d² + 4 T² d."""
    block = TransformerBlock(64, 4)
    assert numbers(block) == 16_640 + 33_088 + 256 == 49_984
    x = Tensor(hollow((1, 10, 64)))
    assert contractions(block, x) == 24 * 10 * 64**2 + 4 * 10**2 * 64 == 1_008_640


def test_block_parameters_have_the_fields_names():
    names = [name for name, _ in TransformerBlock(8, 2).named_parameters()]
    projections = [f"attention.{which}_proj" for which in ("q", "k", "v", "out")]
    parts = ["ln1", *projections, "ln2", "mlp.fc1", "mlp.fc2"]
    assert sorted(names) == sorted(f"{part}.{kind}" for part in parts for kind in ("weight", "bias"))


def test_every_parameter_of_a_block_has_the_gradient_of_differences():
    block = in_float64(TransformerBlock(4, 2, mlp_ratio=2, dropout_prob=0.0, rng=rng()))
    named = block.named_parameters()

    def run(x, *weights):
        for (name, _), weight in zip(named, weights):
            *path, last = name.split(".")
            owner = block
            for step in path:
                owner = getattr(owner, step)
            setattr(owner, last, weight)
        return block(x, is_causal=True)

    x = Tensor(rng(1).standard_normal((2, 3, 4)), dtype=np.float64)
    assert check_gradient(run, x, *[p for _, p in named]) < 1e-5


def test_any_leading_axes():
    block, x = TransformerBlock(6, 3, rng=rng()).eval(), rng(1).standard_normal((2, 3, 4, 6))
    whole = block(Tensor(x)).data
    assert whole.shape == x.shape
    np.testing.assert_allclose(block(Tensor(x[1, 2])).data, whole[1, 2], atol=1e-5)


def test_size_0():
    block = TransformerBlock(6, 3).eval()
    assert block(Tensor(np.zeros((0, 4, 6)))).shape == (0, 4, 6)
    assert MLP(6)(Tensor(np.zeros((2, 0, 6)))).shape == (2, 0, 6)


def test_padding_changes_nothing():
    """Rows of 3 and 5 tokens, padded to 5: the short one comes out as alone."""
    block, x = TransformerBlock(6, 2, rng=rng()).eval(), rng(1).standard_normal((2, 5, 6))
    present = np.array([[True] * 3 + [False] * 2, [True] * 5])
    out = block(Tensor(x), mask=padding_mask(present)).data
    np.testing.assert_allclose(out[0, :3], block(Tensor(x[0, :3])).data, atol=1e-5)
    x[0, 3:] = 1e3
    np.testing.assert_array_equal(block(Tensor(x), mask=padding_mask(present)).data[0, :3], out[0, :3])


def test_a_mask_and_the_causal_one_hold_together():
    block, x = TransformerBlock(6, 2, rng=rng()).eval(), rng(1).standard_normal((5, 6))
    mask = np.ones((5, 5), bool)
    mask[4, 0] = False
    both = block(Tensor(x), mask=mask, is_causal=True).data
    np.testing.assert_allclose(both, block(Tensor(x), mask=mask & np.tri(5, dtype=bool)).data, atol=1e-6)
    added = np.where(mask, 0.0, -np.inf).astype(np.float32)
    np.testing.assert_allclose(both, block(Tensor(x), mask=added, is_causal=True).data, atol=1e-6)


def test_positions_of_an_mlp_are_alone():
    mlp, x = MLP(4, rng=rng()).eval(), rng(1).standard_normal((3, 4))
    np.testing.assert_allclose(mlp(Tensor(x)).data[1], mlp(Tensor(x[1])).data, atol=1e-6)


def test_dropout_acts_in_training_only_and_repeats_from_its_seed():
    x = Tensor(rng(1).standard_normal((4, 5, 6)))
    outs = []
    for _ in range(2):
        block = TransformerBlock(6, 2, dropout_prob=0.5, rng=rng(7))
        outs.append(block(x).data)
    assert (outs[0] == outs[1]).all() and (block(x).data != outs[1]).any()
    block.eval()
    assert (block(x).data == block(x).data).all()


def test_a_block_without_dropout_draws_nothing():
    draw = rng(3)
    block = TransformerBlock(6, 2, dropout_prob=0.0, rng=draw)
    before = draw.bit_generator.state
    block(Tensor(np.ones((2, 6))))
    assert draw.bit_generator.state == before


def test_copies_are_independent():
    block, x = TransformerBlock(6, 2, rng=rng()).eval(), Tensor(rng(1).standard_normal((3, 6)))
    other = copy.deepcopy(block)
    before = block(x).data
    other.ln1.weight.data[:] = 5
    assert (block(x).data == before).all() and (other(x).data != before).any()


def test_shape_only_allocates_nothing():
    with shape_only():
        block = TransformerBlock(12288, 96)
        assert not any(any(p.data.strides) for p in block.parameters() if p.size > 1)
        assert block(Tensor(hollow((1, 2048, 12288))), is_causal=True).shape == (1, 2048, 12288)


def test_a_layer_may_be_exchanged():
    """Whoever wants another bend, or another width, puts it there."""
    block = TransformerBlock(4, 2).eval()
    block.mlp.fc1, block.mlp.fc2 = Linear(4, 7), Linear(7, 4)
    assert block(Tensor(np.ones((2, 4)))).shape == (2, 4)


def test_names():
    assert [repr(layer) for layer in (LayerNorm(4), MLP(4), MLP(4, 3), TransformerBlock(8, 2))] == [
        "LayerNorm(4)", "MLP(4, 16)", "MLP(4, 3)", "TransformerBlock(8, 2)"]
