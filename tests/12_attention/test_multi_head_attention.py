"""Heads and the layer around them: shapes, masks, refusals, gradients, what is drawn and what is allocated."""

import numpy as np
import pytest

from tinytorch.core.attention import MultiHeadAttention, join_heads, over_heads, padding_mask, split_heads
from tinytorch.core.autograd import check_gradient
from tinytorch.core.layers import Linear, manual_seed
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only


def layer_in_float64(embed_dim, num_heads, **settings):
    """Return a layer whose parameters are float64, biases too drawn at random."""
    layer, rng = MultiHeadAttention(embed_dim, num_heads, **settings), np.random.default_rng(0)
    for p in layer.parameters():
        p.data = rng.standard_normal(p.shape) / 2
    return layer


def double(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), dtype=np.float64)


class TestHeads:
    @pytest.mark.parametrize("lead", [(), (2,), (3, 0), (2, 1, 3)])
    @pytest.mark.parametrize("heads", [1, 2, 6])
    def test_there_and_back(self, lead, heads):
        x = double(*lead, 5, 6)
        split = split_heads(x, heads)
        assert split.shape == (*lead, heads, 5, 6 // heads)
        for head in range(heads):
            part = x.data[..., head * (6 // heads):(head + 1) * (6 // heads)]
            assert np.array_equal(split.data[..., head, :, :], part)
        assert np.array_equal(join_heads(split).data, x.data)

    @pytest.mark.parametrize("shape, heads", [((4, 6), 4), ((6,), 2), ((2, 3, 5), 2)])
    def test_what_cannot_be_split(self, shape, heads):
        with pytest.raises(ValueError, match=f"{heads} heads") as error:
            split_heads(Tensor(np.zeros(shape)), heads)
        assert str(shape) in str(error.value)

    def test_gradient(self):
        assert check_gradient(lambda x: join_heads(split_heads(x, 2) * 2.0), double(2, 3, 4)) < 1e-6

    @pytest.mark.parametrize("shape, rank, want", [
        ((5, 7), 4, (5, 7)), ((7,), 4, (7,)), ((2, 5, 7), 4, (2, 1, 5, 7)), ((2, 3, 5, 7), 4, (2, 3, 5, 7)),
        ((3, 5, 7), 3, (3, 5, 7)), ((2, 5, 7), 5, (2, 1, 5, 7)), ((4, 2, 5, 7), 5, (4, 2, 1, 5, 7)), ((), 4, ()),
    ])
    def test_the_head_axis_of_a_mask(self, shape, rank, want):
        assert over_heads(np.ones(shape, bool), rank).shape == want


class TestMaking:
    def test_d_model_is_another_name(self):
        layer = MultiHeadAttention(d_model=8, num_heads=2)
        assert (layer.embed_dim, layer.num_heads, repr(layer)) == (8, 2, "MultiHeadAttention(8, 2)")
        for how in (lambda: MultiHeadAttention(8, 2, d_model=8), lambda: MultiHeadAttention(num_heads=2)):
            with pytest.raises(TypeError, match="embed_dim and d_model"):
                how()

    @pytest.mark.parametrize("arguments, error, words", [
        ((64, 5), ValueError, ("64", "5")), ((4, 8), ValueError, ("4", "8")), ((0, 1), ValueError, ("embed_dim", "0")),
        ((8, -2), ValueError, ("num_heads", "-2")), ((8, True), TypeError, ("num_heads", "True")),
        ((8.0, 2), TypeError, ("embed_dim", "8.0")), ((8,), TypeError, ("num_heads", "None")),
    ])
    def test_impossible_sizes(self, arguments, error, words):
        with pytest.raises(error) as caught:
            MultiHeadAttention(*arguments)
        assert all(word in str(caught.value) for word in words)

    @pytest.mark.parametrize("probability", [-0.1, 1.5, True])
    def test_impossible_probabilities(self, probability):
        with pytest.raises(ValueError, match=f"{probability}; want a probability"):
            MultiHeadAttention(8, 2, dropout_prob=probability)

    def test_four_projections_found_by_name(self):
        names = [f"{name}_proj.{part}" for name in ("q", "k", "v", "out") for part in ("weight", "bias")]
        assert sorted(name for name, _ in MultiHeadAttention(8, 2).named_parameters()) == sorted(names)
        assert [name for name, child in MultiHeadAttention(8, 2).children() if isinstance(child, Linear)] == [
            "q_proj", "k_proj", "v_proj", "out_proj"]
        assert all(p.bias is None for _, p in MultiHeadAttention(8, 2, bias=False).children() if isinstance(p, Linear))

    def test_a_seed_repeats_it(self):
        manual_seed(5)
        one = MultiHeadAttention(8, 2)
        manual_seed(5)
        other = MultiHeadAttention(8, 2)
        assert all(np.array_equal(a.data, b.data) for a, b in zip(one.parameters(), other.parameters()))
        assert not np.array_equal(one.q_proj.weight.data, one.k_proj.weight.data)

    @pytest.mark.parametrize("heads", [1, 2, 4, 8])
    def test_heads_cost_nothing(self, heads):
        """4 (64 · 64 + 64) numbers; 8 · 10 · 64² = 327,680 and 4 · 10² · 64 = 25,600 FLOPs in products."""
        layer, events = MultiHeadAttention(64, heads), []
        assert sum(p.size for p in layer.parameters()) == 16_640
        with shape_only(), listen(events.append):
            layer(Tensor(hollow((1, 10, 64))))
        products = [e for e in events if e.op.name in ("linear", "matmul")]
        assert sum(2 * int(np.prod(e.out_shape)) * e.in_shapes[0][-1] for e in products) == 353_280
        assert len(products) == 6

    def test_on_shapes_only_nothing_is_allocated(self):
        with shape_only():
            layer = MultiHeadAttention(12_288, 96)
            assert not any(any(p.data.strides) for p in layer.parameters())
            mask = padding_mask(Tensor(hollow((1, 2048), np.bool_)))
            out = layer(Tensor(hollow((1, 2048, 12_288))), mask=mask, is_causal=True)
        assert out.shape == (1, 2048, 12_288) and not any(out.data.strides)
        assert sum(p.size for p in layer.parameters()) == 4 * (12_288**2 + 12_288)


class TestForward:
    @pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_leading_axes_and_types(self, lead, dtype):
        x = Tensor(np.ones((*lead, 4, 6)), dtype=dtype)
        out = MultiHeadAttention(6, 2)(x, is_causal=True)
        assert (out.shape, out.dtype) == ((*lead, 4, 6), dtype)

    def test_a_stack_is_its_parts(self):
        layer, x, y = layer_in_float64(6, 3), double(2, 3, 4, 6), double(2, 3, 5, 6, seed=1)
        mask = np.random.default_rng(2).random((2, 3, 4, 5)) > 0.4
        whole = layer(x, y, mask=mask)
        for i, j in np.ndindex(2, 3):
            assert np.allclose(whole.data[i, j], layer(x[i, j], y[i, j], mask=mask[i, j]).data)

    def test_one_memory_for_many_texts(self):
        layer, x, y = layer_in_float64(6, 3), double(2, 4, 6), double(5, 6, seed=1)
        whole = layer(x, y)
        assert np.allclose(whole.data[1], layer(x[1], y).data)

    def test_one_text_looks_at_many_memories_each_with_a_mask(self):
        """The memories have the longer shape, and it decides what is the head axis of a mask: here there is none."""
        layer, x, y = layer_in_float64(6, 3), double(4, 6), double(2, 5, 6, seed=1)
        mask = np.random.default_rng(2).random((2, 4, 5)) > 0.4
        whole = layer(x, y, mask=mask)
        for i in range(2):
            assert np.allclose(whole.data[i], layer(x, y[i], mask=mask[i]).data)

    def test_a_mask_with_as_many_axes_as_the_scores_is_taken_head_by_head(self):
        layer, x = layer_in_float64(6, 3), double(3, 4, 6)
        mask = np.random.default_rng(5).random((1, 3, 4, 4)) > 0.4
        whole = layer(x, mask=mask)
        assert np.allclose(whole.data[1], layer(x[1], mask=mask[0]).data)
        assert not np.allclose(whole.data, layer(x, mask=mask[0]).data)  # (3, 4, 4): text by text

    def test_value_is_key_and_key_is_query_unless_given(self):
        layer, x, y = layer_in_float64(6, 3), double(2, 4, 6), double(2, 5, 6, seed=1)
        assert np.array_equal(layer(x).data, layer(x, x, x).data)
        assert np.array_equal(layer(x, y).data, layer(x, y, y).data)

    def test_every_way_to_say_the_same_mask(self):
        layer, x = layer_in_float64(6, 3), double(2, 4, 6)
        table = np.random.default_rng(3).random((4, 4)) > 0.4
        want = layer(x, mask=table).data
        for mask in (Tensor(table), np.stack([table] * 2), table[None, None], np.broadcast_to(table, (2, 3, 4, 4)),
                     np.where(table, 0.0, -np.inf), table.tolist()):
            assert np.array_equal(layer(x, mask=mask).data, want)
        past = np.tri(4, dtype=bool)
        assert np.array_equal(layer(x, mask=past).data, layer(x, is_causal=True).data)
        assert np.array_equal(layer(x, mask=table, is_causal=True).data, layer(x, mask=table & past).data)

    def test_as_many_texts_as_heads(self):
        layer, x = layer_in_float64(6, 3), double(3, 4, 6)
        mask = np.random.default_rng(4).random((3, 4, 4)) > 0.4  # text by text, not head by head
        assert np.allclose(layer(x, mask=mask).data[1], layer(x[1], mask=mask[1]).data)

    def test_padding_does_not_change_what_is_there(self):
        layer, x = layer_in_float64(6, 3), double(1, 3, 6)
        padded = Tensor(np.concatenate([x.data, np.full((1, 2, 6), 7.0)], axis=1), dtype=np.float64)
        out = layer(padded, mask=padding_mask(np.array([[True] * 3 + [False] * 2])))
        assert np.allclose(out.data[:, :3], layer(x).data)

    def test_a_query_without_keys_gets_the_bias_of_the_last_projection(self):
        layer, x = layer_in_float64(6, 3), double(2, 3, 6)
        mask = np.array([[True] * 3, [False] * 3, [True] * 3])
        assert np.allclose(layer(x, mask=mask).data[:, 1], layer.out_proj.bias.data)

    def test_earlier_outputs_do_not_depend_on_later_words(self):
        layer = MultiHeadAttention(16, 4)
        x = np.random.default_rng(5).standard_normal((2, 7, 16)).astype(np.float32)
        before = layer(Tensor(x), is_causal=True).data
        for t in range(6):
            changed = x.copy()
            changed[:, t + 1:] += 3.0
            assert np.array_equal(layer(Tensor(changed), is_causal=True).data[:, : t + 1], before[:, : t + 1])

    @pytest.mark.parametrize("x, how, error, words", [
        ((2, 4, 5), {}, ValueError, ("(2, 4, 5)", "(6, 6)")),
        ((6,), {}, ValueError, ("(6,)", "heads")),
        ((2, 4, 6), {"mask": np.ones((2, 4), bool)}, ValueError, ("(2, 4)", "(2, 3, 4, 4)")),
        ((2, 4, 6), {"mask": np.ones((3, 4, 4), bool)}, ValueError, ("(3, 1, 4, 4)", "(2, 3, 4, 4)")),
        ((2, 4, 6), {"mask": np.ones((4, 4), int)}, TypeError, ("int64", "boolean", "float")),
    ])
    def test_refusals(self, x, how, error, words):
        layer = MultiHeadAttention(6, 3)
        for room in (listen(None), shape_only()):
            with room, pytest.raises(error) as caught:
                layer(Tensor(np.zeros(x)), **how)
            assert all(word in str(caught.value) for word in words)

    def test_keys_and_values_of_unequal_length(self):
        with pytest.raises(ValueError, match="inner sizes 5 and 3 differ"):
            MultiHeadAttention(6, 3)(*(Tensor(np.zeros((n, 6))) for n in (4, 5, 3)))


class TestDropout:
    def test_dropped_weights_are_zero_and_the_rest_doubled(self):
        """One head, values = one-hot and identity projections, so that the output is the weights."""
        layer = MultiHeadAttention(8, 1, bias=False, dropout_prob=0.5, rng=np.random.default_rng(0))
        layer.v_proj.weight.data[...] = layer.out_proj.weight.data[...] = np.eye(8)
        x = Tensor(np.eye(8))
        dropped, whole = layer(x).data, layer.eval()(x).data
        kept = dropped != 0
        assert 0.2 < kept.mean() < 0.8
        assert np.allclose(dropped[kept], 2 * whole[kept]) and np.allclose(whole.sum(-1), 1)

    def test_without_it_nothing_is_drawn_or_computed(self):
        rng = np.random.default_rng(0)
        for layer in (MultiHeadAttention(8, 2, rng=rng), MultiHeadAttention(8, 2, dropout_prob=0.5, rng=rng).eval()):
            state, events = rng.bit_generator.state, []
            with listen(events.append):
                layer(Tensor(np.ones((3, 8))))
            assert rng.bit_generator.state == state
            assert "dropout_mask" not in [e.op.name for e in events]

    def test_on_shapes_only_nothing_is_drawn(self):
        rng = np.random.default_rng(0)
        layer = MultiHeadAttention(8, 2, dropout_prob=0.5, rng=rng)
        state = rng.bit_generator.state
        with shape_only():
            layer(Tensor(hollow((3, 8))))
        assert rng.bit_generator.state == state


class TestGradients:
    @pytest.mark.parametrize("how", [
        {}, {"is_causal": True}, {"mask": np.array([[True, False, True]] * 3)}, {"mask": np.zeros((3, 3), bool)},
        {"mask": np.random.default_rng(0).standard_normal((2, 3, 3)), "is_causal": True},
    ])
    def test_input_and_parameters(self, how):
        layer = layer_in_float64(4, 2)

        def attend(x, *parameters):
            for name, p in zip(("q_proj", "k_proj", "v_proj", "out_proj"), zip(parameters[::2], parameters[1::2])):
                getattr(layer, name).weight, getattr(layer, name).bias = p
            return layer(x, **how)

        parameters = [p for name in ("q_proj", "k_proj", "v_proj", "out_proj")
                      for p in (getattr(layer, name).weight, getattr(layer, name).bias)]
        assert check_gradient(attend, double(2, 3, 4), *parameters) < 1e-6

    @pytest.mark.parametrize("lead", [(), (2, 2), (0,)])
    def test_cross_attention_over_leading_axes(self, lead):
        layer = layer_in_float64(4, 2)
        inputs = double(*lead, 2, 4), double(*lead, 5, 4, seed=1), double(*lead, 5, 4, seed=2)
        assert check_gradient(layer, *inputs) < 1e-6

    def test_padding(self):
        layer, present = layer_in_float64(4, 2), np.array([[True, True, False], [False] * 3])
        assert check_gradient(lambda x: layer(x, mask=padding_mask(present)), double(2, 3, 4)) < 1e-6
