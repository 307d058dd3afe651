"""Scores, masks, weights and their mix: edges, refusals, gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.attention import (
    as_mask,
    attention_scores,
    attention_weights,
    causal_mask,
    mask_scores,
    padding_mask,
    safe_softmax,
    scaled_dot_product_attention,
)
from tinytorch.core.autograd import VJP, check_gradient
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only

NO = -np.inf


def double(rng, *shape):
    """Return a float64 Tensor of normal numbers."""
    return Tensor(rng.standard_normal(shape), dtype=np.float64)


def by_hand(query, key, value, allowed=True, extra=0.0):
    """Attention in plain float64 NumPy; a row without keys gives zeros."""
    powers = np.exp(query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]) + extra) * allowed
    total = powers.sum(-1, keepdims=True)
    return (powers / np.where(total == 0, 1, total)) @ value


def every_mask(rng, queries, keys):
    """Return name -> mask for stacks (2, 3): boolean, additive, both kinds of stretching, an empty row among them."""
    table = rng.random((queries, keys)) > 0.4
    table[0] = False
    extra = rng.standard_normal((queries, keys))
    extra[-1, 0] = NO
    return {
        "none": None,
        "boolean": table,
        "boolean by key": Tensor(np.arange(keys) != 0),
        "padding": rng.random((2, 1, 1, keys)) > 0.3,
        "boolean for each head": Tensor(rng.random((3, queries, keys)) > 0.5),
        "additive": Tensor(extra, dtype=np.float64),
        "additive, nothing allowed": np.full((2, 3, queries, keys), NO),
    }


class TestCausalMask:
    @given(st.integers(0, 6), st.integers(0, 6))
    def test_it_is_the_definition(self, queries, keys):
        mask = causal_mask(queries=queries, keys=keys)
        assert (mask.shape, mask.dtype) == ((queries, keys), np.bool_)
        assert all(mask.data[i, j] == (j <= i + keys - queries) for i in range(queries) for j in range(keys))

    def test_it_is_an_op_without_inputs(self):
        events = []
        with listen(events.append):
            causal_mask(queries=2, keys=3)
        assert [(e.op, e.in_shapes, e.out_shape, e.num_bytes, e.attrs) for e in events] == [
            (causal_mask, (), (2, 3), 6, {"queries": 2, "keys": 3})]
        assert VJP[causal_mask](None, None, queries=2, keys=3) == ()

    def test_on_shapes_only_it_is_hollow(self):
        with shape_only():
            mask = causal_mask(queries=10**6, keys=10**6)
        assert mask.shape == (10**6, 10**6) and not any(mask.data.strides)

    @pytest.mark.parametrize("queries", [-1, 2.5, True, None])
    def test_what_is_no_size_is_refused(self, queries):
        for how in (lambda: causal_mask(queries=queries, keys=3), lambda: causal_mask(queries=3, keys=queries)):
            with pytest.raises(ValueError, match=f"causal_mask: .*{queries}"):
                how()
            with shape_only(), pytest.raises(ValueError, match=f"causal_mask: .*{queries}"):
                how()


class TestRefusals:
    @pytest.mark.parametrize("mask", [
        np.ones((2, 2), int), [[1, 0], [1, 1]], np.ones((2, 2), np.uint8), Tensor(np.array(1))])
    def test_whole_numbers(self, mask):
        with pytest.raises(TypeError, match="boolean .* or float"):
            mask_scores(Tensor(np.zeros((2, 2))), mask)

    @pytest.mark.parametrize("shape", [(5, 4), (4, 6), (2, 4, 5), (7, 3, 4, 5), (1, 3, 3, 4, 5), (1, 1, 3, 4, 5), (0,)])
    @pytest.mark.parametrize("kind", [bool, float])
    def test_a_mask_that_does_not_fit(self, shape, kind):
        for is_causal in (False, True):
            with pytest.raises(ValueError, match="mask .* with scores") as error:
                mask_scores(Tensor(np.zeros((1, 3, 4, 5))), np.zeros(shape, kind), is_causal)
            assert str(shape) in str(error.value) and "(1, 3, 4, 5)" in str(error.value)

    def test_they_hold_on_shapes_only(self):
        with shape_only(), pytest.raises(ValueError, match=r"mask \(2, 3\) with scores \(4, 5\)"):
            mask_scores(Tensor(hollow((4, 5))), Tensor(hollow((2, 3), np.bool_)))

    @pytest.mark.parametrize("shapes", [((4,), (5, 4)), ((5, 4), (4,)), ((2, 5, 4), (2, 5, 3))])
    def test_queries_and_keys_that_do_not_meet(self, shapes):
        with pytest.raises(ValueError, match="query .* with key") as error:
            attention_scores(*(Tensor(np.zeros(shape)) for shape in shapes))
        assert all(str(shape) in str(error.value) for shape in shapes)

    def test_values_of_another_length(self):
        with pytest.raises(ValueError, match=r"\(2, 5\) @ \(4, 3\)"):
            scaled_dot_product_attention(*(Tensor(np.zeros(shape)) for shape in ((2, 8), (5, 8), (4, 3))))

    def test_lists_of_booleans_are_masks(self):
        assert as_mask([[True, False]]).dtype == bool
        assert as_mask([[0.0, NO]]).dtype == np.float64


class TestWeights:
    @settings(max_examples=30)
    @given(st.data())
    def test_values_over_shapes(self, data):
        lead = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
        queries, keys, d, dv = (data.draw(st.integers(low, 4)) for low in (0, 0, 1, 0))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        q, k, v = (rng.standard_normal((*lead, *shape)) for shape in ((queries, d), (keys, d), (keys, dv)))
        is_causal = data.draw(st.booleans())
        allowed = np.tri(queries, keys, keys - queries, dtype=bool) if is_causal else np.ones((queries, keys), bool)
        mask = None
        if data.draw(st.booleans()):
            mask = rng.random((*lead, 1, keys)) > 0.5
            allowed = allowed & mask
        out = scaled_dot_product_attention(*(Tensor(a, dtype=np.float64) for a in (q, k, v)), mask, is_causal)
        assert (out.shape, out.dtype) == ((*lead, queries, dv), np.float64)
        assert np.allclose(out.data, by_hand(q, k, v, allowed), rtol=1e-10, atol=1e-12)
        with shape_only():
            shadow = scaled_dot_product_attention(*(Tensor(a, dtype=np.float64) for a in (q, k, v)), mask, is_causal)
        assert (shadow.shape, shadow.dtype) == (out.shape, out.dtype)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("mask_dtype", [bool, np.float16, np.float32, np.float64])
    def test_the_type_of_the_query_stays_whatever_the_mask_is(self, dtype, mask_dtype):
        q = Tensor(np.ones((3, 4)), dtype=dtype)
        for is_causal in (False, True):
            mask = Tensor(np.ones((3, 3)), dtype=mask_dtype)
            assert scaled_dot_product_attention(q, q, q, mask, is_causal).dtype == dtype

    def test_leading_axes_stretch(self):
        rng = np.random.default_rng(0)
        q, k, v = rng.standard_normal((5, 1, 3, 4)), rng.standard_normal((2, 6, 4)), rng.standard_normal((6, 3))
        out = scaled_dot_product_attention(*(Tensor(a, dtype=np.float64) for a in (q, k, v)))
        assert out.shape == (5, 2, 3, 3)
        assert np.allclose(out.data, by_hand(q, k, v))

    @pytest.mark.parametrize("size", [1e4, -1e4, 1e30])
    def test_large_scores(self, size):
        scores = Tensor([[size, size, -abs(size) * 2], [0.0, 0.0, NO]])
        assert safe_softmax(scores).data.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]

    def test_float16_at_its_limit(self):
        scores = Tensor(np.array([[60_000, -60_000, NO], [NO, NO, NO]], np.float16))
        with np.errstate(over="ignore"):  # the difference is more than float16 can say: -inf, and that is right
            assert safe_softmax(scores).data.tolist() == [[1, 0, 0], [0, 0, 0]]

    def test_nan_is_not_hidden(self):
        assert np.isnan(safe_softmax(Tensor([[0.0, np.nan]])).data).any()

    def test_no_keys(self):
        out = scaled_dot_product_attention(*(Tensor(np.zeros(shape)) for shape in ((2, 3, 4), (2, 0, 4), (2, 0, 5))))
        assert out.data.tolist() == np.zeros((2, 3, 5)).tolist()

    def test_rows_add_up_to_one_or_nothing(self):
        rng = np.random.default_rng(1)
        for name, mask in every_mask(rng, 4, 5).items():
            for is_causal in (False, True):
                weights = attention_weights(double(rng, 2, 3, 4, 6), double(rng, 2, 3, 5, 6), mask, is_causal)
                totals = weights.data.sum(-1)
                assert np.all((np.abs(totals - 1) < 1e-12) | (totals == 0)), name

    def test_an_additive_mask_of_zeros_and_inf_is_a_boolean_one(self):
        rng = np.random.default_rng(2)
        q, k, v = (Tensor(rng.standard_normal((2, 4, 6)).astype(np.float32)) for _ in range(3))
        allowed = rng.random((4, 4)) > 0.5
        for is_causal in (False, True):
            one = scaled_dot_product_attention(q, k, v, allowed, is_causal)
            other = scaled_dot_product_attention(q, k, v, np.where(allowed, 0.0, NO), is_causal)
            assert np.array_equal(one.data, other.data)

    def test_permuted_keys_change_nothing_and_permuted_queries_permute(self):
        rng = np.random.default_rng(3)
        q, k, v = rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
        p, r = rng.permutation(5), rng.permutation(3)
        one = scaled_dot_product_attention(*(Tensor(a, dtype=np.float64) for a in (q, k, v))).data
        other = scaled_dot_product_attention(*(Tensor(a, dtype=np.float64) for a in (q[r], k[p], v[p]))).data
        assert np.allclose(other, one[r])


class TestWhatIsHidden:
    """Bit for bit: neither the value nor anybody's gradient depends on it."""

    @pytest.mark.parametrize("kind", ["boolean", "additive"])
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_hidden_keys_contribute_exactly_nothing(self, kind, is_causal):
        rng = np.random.default_rng(4)
        present = np.array([[1, 1, 1, 0, 0, 1, 0], [1] * 7, [0] * 7], bool)
        mask = present[:, None] if kind == "boolean" else np.where(present, 0.0, NO)[:, None]
        q, k, v, g = (rng.standard_normal((3, 7, 8)).astype(np.float32) for _ in range(4))

        def run(k, v):
            tensors = [Tensor(a, requires_grad=True) for a in (q, k, v)]
            out = scaled_dot_product_attention(*tensors, mask, is_causal)
            out.backward(g)
            return out.data, [t.grad.data for t in tensors]

        out, gradients = run(k, v)
        other_k, other_v = (np.where(present[..., None], a, np.float32(1e6)) for a in (k, v))
        other_out, other_gradients = run(other_k, other_v)
        assert out.tobytes() == other_out.tobytes()
        assert all(np.array_equal(a, b) for a, b in zip(gradients, other_gradients))
        assert not gradients[1][~present].any() and not gradients[2][~present].any()
        assert not out[2].any() and not any(gradient[2].any() for gradient in gradients)

    @pytest.mark.parametrize("queries", [6, 3, 8])
    def test_the_future_contributes_exactly_nothing(self, queries):
        rng = np.random.default_rng(5)
        q = Tensor(rng.standard_normal((2, queries, 4)))
        k, v = (rng.standard_normal((2, 6, 4)).astype(np.float32) for _ in range(2))
        before = scaled_dot_product_attention(q, Tensor(k), Tensor(v), is_causal=True).data
        for t in range(6):  # everything after place t changes; queries up to t must not notice
            changed_k, changed_v = k.copy(), v.copy()
            changed_k[:, t + 1:], changed_v[:, t + 1:] = 50.0, -50.0
            after = scaled_dot_product_attention(q, Tensor(changed_k), Tensor(changed_v), is_causal=True).data
            upto = max(0, t + 1 + queries - 6)
            assert before[:, :upto].tobytes() == after[:, :upto].tobytes()
            assert t == 5 or not np.array_equal(before[:, upto:], after[:, upto:])
        assert not before[:, : max(0, queries - 6)].any()


class TestGradients:
    @pytest.mark.parametrize("name", list(every_mask(np.random.default_rng(0), 2, 2)))
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_every_kind_of_mask(self, name, is_causal):
        rng = np.random.default_rng(6)
        mask = every_mask(rng, 4, 3)[name]
        inputs = double(rng, 2, 3, 4, 5), double(rng, 2, 3, 3, 5), double(rng, 2, 3, 3, 2)
        assert check_gradient(lambda q, k, v: scaled_dot_product_attention(q, k, v, mask, is_causal), *inputs) < 1e-6

    @pytest.mark.parametrize("is_causal", [False, True])
    def test_the_mask_can_be_learned(self, is_causal):
        rng = np.random.default_rng(7)
        bias = rng.standard_normal((3, 4))
        bias[1, 1] = 0.0
        inputs = double(rng, 2, 3, 5), double(rng, 2, 4, 5), double(rng, 2, 4, 2), Tensor(bias, dtype=np.float64)
        found = check_gradient(lambda q, k, v, m: scaled_dot_product_attention(q, k, v, m, is_causal), *inputs)
        assert found < 1e-6

    @pytest.mark.parametrize("lead", [(), (2,), (2, 1, 2), (0,), (2, 0)])
    def test_leading_axes(self, lead):
        rng = np.random.default_rng(8)
        inputs = double(rng, *lead, 2, 3), double(rng, *lead, 4, 3), double(rng, *lead, 4, 2)
        found = check_gradient(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True), *inputs)
        assert found < 1e-6

    def test_stretched_leading_axes(self):
        rng = np.random.default_rng(9)
        inputs = double(rng, 2, 1, 3, 4), double(rng, 3, 2, 4), double(rng, 2, 3)
        assert check_gradient(scaled_dot_product_attention, *inputs) < 1e-6


class TestPasses:
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_the_scores_are_passed_over_no_more_than_needed(self, is_causal):
        q = Tensor(np.zeros((2, 3, 40, 8)))
        for mask, extra in ((None, 0), (np.ones((2, 1, 1, 40), bool), 1), (np.zeros((2, 1, 1, 40)), 1)):
            events = []
            with listen(events.append):
                scaled_dot_product_attention(q, q, q, mask, is_causal)
            large = [e.op.name for e in events if e.out_shape == (2, 3, 40, 40)]
            assert len(large) == 4 + max(extra, is_causal), large  # product, subtract, exp, divide; one for all masks


def test_padding_masks_from_tokens():
    tokens = Tensor(np.array([[[4, 2, 0]], [[7, 0, 0]]]))  # (2, 1, 3)
    mask = padding_mask(tokens != 0)
    assert (mask.shape, mask.dtype) == ((2, 1, 1, 1, 3), np.bool_)
    with shape_only():
        assert padding_mask(Tensor(hollow((2, 3), np.int64)) != 0).shape == (2, 1, 1, 3)
    with pytest.raises(TypeError, match="boolean"):
        padding_mask(tokens)
