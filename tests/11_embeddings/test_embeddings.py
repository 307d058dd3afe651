"""Embeddings: any shape of tokens, strange ones, gradients, types, runs on shapes, positions of both kinds."""

import copy
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.core.autograd import check_gradient, find_rule, without_gradient
from tinytorch.core.embeddings import (
    Embedding,
    PositionalEncoding,
    SinusoidalEncoding,
    frequencies,
    normal_weight,
    one_hot,
    sinusoids,
    token_ids,
)
from tinytorch.core.layers import default_generator, manual_seed
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only

few = settings(max_examples=50, deadline=None)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.fixture(autouse=True)
def same_default_generator():
    """Tests draw from the default generator; leave it as it was."""
    before = default_generator().bit_generator.state
    yield
    default_generator().bit_generator.state = before


# --- one-hot and the lookup agree


@few
@given(shapes, st.integers(1, 6), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_lookup_is_a_product_with_one_hot_rows(shape, vocab_size, dim, rng):
    ids = np.random.default_rng(rng.randint(0, 99)).integers(0, vocab_size, shape)
    table = Embedding(vocab_size, dim)
    out = table(Tensor(ids))
    assert out.shape == (*shape, dim)
    assert out.dtype == np.float32
    assert np.array_equal(out.data, table.weight.data[ids])
    if shape:
        assert np.array_equal((one_hot(Tensor(ids), vocab_size) @ table.weight).data, out.data)
    assert np.array_equal(one_hot(Tensor(ids), vocab_size).data, np.eye(vocab_size, dtype=np.float32)[ids])


def test_a_token_outside_has_no_place():
    assert one_hot(Tensor([-1, 3, 1.5]), 3).data.tolist() == [[0.0] * 3] * 3


# --- which tokens pass


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float16, np.float32, np.float64])
def test_whole_numbers_of_any_type(dtype):
    table = Embedding(5, 2)
    ids = Tensor(np.array([[4, 0], [1, 4]], dtype), dtype=dtype)
    assert np.array_equal(table(ids).data, table.weight.data[[[4, 0], [1, 4]]])
    assert token_ids(ids, 5).dtype.kind in "iu"


def test_lists_and_arrays_are_tokens_too():
    table = Embedding(5, 2)
    for tokens in ([1, 2], np.array([1, 2]), (1, 2)):
        assert table(tokens).shape == (2, 2)


@pytest.mark.parametrize("token, named", [(5, "5"), (-1, "-1"), (0.25, "0.25"), (np.nan, "nan"), (np.inf, "inf"),
                                          (-np.inf, "-inf"), (2.0**70, "1.18.*e\\+21"), (-0.5, "-0.5")])
def test_strange_tokens_are_named(token, named):
    with pytest.raises(ValueError, match=rf"(?=.*{named}).*\b5\b"):
        Embedding(5, 2)(Tensor(np.array([[0, 1], [4, token]], np.float32)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_first_id_above_is_refused_in_every_width(dtype):
    with pytest.raises(ValueError, match=r"\b5\b(?!\.\d)"):
        Embedding(5, 2)(Tensor(np.array([0, 5, 6], dtype)))


@pytest.mark.parametrize("tokens", [Tensor(np.array([True, False])), np.ones((2, 2), bool), Tensor([True], dtype=bool)])
def test_booleans_are_no_tokens(tokens):
    with pytest.raises(TypeError, match="booleans"):
        Embedding(5, 2)(tokens)


def test_a_refused_token_leaves_everything_as_it_was():
    table = Embedding(5, 2)
    tokens = Tensor([1, 9])
    with pytest.raises(ValueError):
        table(tokens)
    assert table.weight.grad is None
    assert tokens.data.tolist() == [1, 9]


# --- gradients


@few
@given(shapes, st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
def test_gradient_of_the_lookup(shape, vocab_size, dim, rng):
    ids = np.random.default_rng(rng.randint(0, 99)).integers(0, vocab_size, shape)
    table = Embedding(vocab_size, dim)

    def look(weight):
        table.weight = weight
        return table(Tensor(ids))

    assert check_gradient(look, table.weight) < 1e-6


def test_a_token_that_comes_twice_receives_twice():
    table = Embedding(4, 2)
    table(Tensor([2, 0, 2])).backward(np.array([[1, 1], [5, 5], [20, 20]]))
    assert table.weight.grad.data.tolist() == [[5, 5], [0, 0], [21, 21], [0, 0]]  # 1 + 20
    table(Tensor([2])).sum().backward()
    assert table.weight.grad.data[2].tolist() == [22, 22]  # gradients add up until they are cleared


def test_a_tied_head_receives_from_both_sides():
    """x @ table.T: the table is used as input and as output; its gradient is the sum of both."""
    table = Embedding(3, 2)

    def logits(weight):
        table.weight = weight
        return table(Tensor([0, 2])) @ table.weight.T

    assert check_gradient(logits, table.weight) < 1e-6


def test_a_frozen_table_remembers_nothing():
    table = Embedding(4, 2)
    table.weight.requires_grad = False
    assert table(Tensor([1])).made_by is None


# --- building


def test_the_start_is_normal_with_the_given_spread():
    weight = Embedding(400, 200).weight.data  # 80,000 draws: the spread is known to a quarter of a percent
    assert weight.dtype == np.float32
    assert abs(weight.std() - 0.02) < 4 * 0.02 / np.sqrt(2 * 80_000)
    assert abs(weight.mean()) < 4 * 0.02 / np.sqrt(80_000)
    assert (np.abs(weight) > 0.06).mean() == pytest.approx(0.0027, abs=0.001)  # three spreads away
    assert normal_weight(1000, std=1.0).data.std() > 0.9


def test_seeds_repeat():
    manual_seed(3)
    a = Embedding(5, 4).weight.data.tolist()
    manual_seed(3)
    assert Embedding(5, 4).weight.data.tolist() == a
    assert PositionalEncoding(5, 4, np.random.default_rng(1)).weight.data.tolist() == PositionalEncoding(
        5, 4, rng=np.random.default_rng(1)).weight.data.tolist()


@pytest.mark.parametrize("layer", [Embedding, PositionalEncoding, SinusoidalEncoding])
@pytest.mark.parametrize("sizes, kind", [((0, 3), ValueError), ((3, 0), ValueError), ((-1, 3), ValueError),
                                         ((True, 3), TypeError), ((3, 2.0), TypeError), ((3, None), TypeError)])
def test_impossible_sizes(layer, sizes, kind):
    with pytest.raises(kind, match="want a positive integer"):
        layer(*sizes)


def test_arguments_are_kept_by_name():
    assert vars(SinusoidalEncoding(np.int64(7), 4)) == {"max_seq_len": 7, "embed_dim": 4}
    assert (Embedding(7, 4).vocab_size, Embedding(7, 4).embed_dim) == (7, 4)
    assert (PositionalEncoding(7, 4).max_seq_len, PositionalEncoding(7, 4).embed_dim) == (7, 4)
    assert [repr(one) for one in (Embedding(7, 4), PositionalEncoding(7, 4), SinusoidalEncoding(7, 4))] == [
        "Embedding(7, 4)", "PositionalEncoding(7, 4)", "SinusoidalEncoding(7, 4)"]


def test_a_copy_has_a_table_of_its_own():
    table = Embedding(3, 2)
    other = copy.deepcopy(table)
    other.weight.data[:] = 7
    assert not (table.weight.data == 7).any()


# --- runs on shapes


def test_a_table_of_gpt3s_size_allocates_nothing():
    tracemalloc.start()
    with shape_only():
        table, places = Embedding(50257, 12288), PositionalEncoding(2048, 12288)
        out = places(table(Tensor(np.zeros((1, 2048), np.int64))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out.shape == (1, 2048, 12288)
    assert table.weight.size == 617_558_016  # 50,257 * 12,288
    assert table.weight.requires_grad
    assert peak < 2_000_000  # the table would take 2.5 GB


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 3), (0, 3)])
def test_hollow_tokens_pass_by_their_type(shape):
    table = Embedding(5, 4)
    events = []
    with shape_only(), listen(events.append):
        assert table(Tensor(hollow(shape, np.int64))).shape == (*shape, 4)
        assert table(Tensor(hollow(shape, np.int64)).reshape(*shape, 1)).shape == (*shape, 1, 4)
        for strange in (Tensor(hollow(shape)), Tensor(hollow(shape)).reshape(*shape, 1)):
            with pytest.raises(TypeError, match="integer"):
                table(strange)
        with pytest.raises(TypeError, match="booleans"):
            table(Tensor(hollow(shape, bool)))
    assert {event.op.name for event in events} == {"index", "reshape"}


def test_tokens_made_in_forward_have_values_even_then():
    table = Embedding(5, 4)
    with shape_only():
        assert table(Tensor([0, 1, 2])).shape == (3, 4)
        with pytest.raises(ValueError, match=r"\b9\b"):
            table(Tensor([0, 9]))


def test_shape_only_draws_nothing():
    before = default_generator().bit_generator.state
    with shape_only():
        Embedding(5, 4), PositionalEncoding(5, 4), SinusoidalEncoding(5, 4)
    assert default_generator().bit_generator.state == before


# --- positions


@few
@given(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3), st.integers(0, 5), st.integers(1, 4),
       st.sampled_from([np.float16, np.float32, np.float64]))
def test_positions_are_added_to_the_last_two_axes(lead, length, dim, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((*lead, length, dim)).astype(dtype)
    learned, fixed = PositionalEncoding(5, dim), SinusoidalEncoding(5, dim)
    out = learned(Tensor(x, dtype=dtype))
    assert np.array_equal(out.data, x + learned.weight.data[:length])
    out = fixed(Tensor(x, dtype=dtype))
    assert out.dtype == dtype
    assert np.array_equal(out.data, x + sinusoids(length=length, embed_dim=dim, dtype=dtype).data)
    with shape_only():
        for layer in (learned, fixed):
            hollow_out = layer(Tensor(hollow(x.shape, dtype), dtype=dtype))
            assert hollow_out.shape == x.shape
            assert hollow_out.dtype == layer(Tensor(np.ones(x.shape, dtype), dtype=dtype)).dtype


@pytest.mark.parametrize("layer", [PositionalEncoding(6, 4), SinusoidalEncoding(6, 4)])
@pytest.mark.parametrize("shape, said", [((7, 4), "length 7 is above max_seq_len 6"), ((2, 9, 4), "length 9"),
                                         ((3, 5), "embed_dim 4"), ((2, 3, 1), "embed_dim 4"), ((4,), "embed_dim 4"),
                                         ((), "embed_dim 4")])
def test_sequences_that_do_not_fit(layer, shape, said):
    with pytest.raises(ValueError, match=said):
        layer(Tensor(np.zeros(shape)))
    with shape_only(), pytest.raises(ValueError, match=said):
        layer(Tensor(hollow(shape)))


def test_gradients_of_learned_positions():
    places, rng = PositionalEncoding(5, 3), np.random.default_rng(0)

    def add(x, weight):
        places.weight = weight
        return places(x)

    assert check_gradient(add, Tensor(rng.standard_normal((2, 4, 3)), requires_grad=True), places.weight) < 1e-6


def test_gradients_pass_fixed_positions():
    x = Tensor(np.random.default_rng(0).standard_normal((2, 4, 3)), requires_grad=True)
    assert check_gradient(SinusoidalEncoding(5, 3), x) < 1e-6
    assert find_rule(sinusoids) is without_gradient


# --- sinusoids


@few
@given(st.integers(0, 60), st.integers(1, 9), st.sampled_from([np.float16, np.float32, np.float64]))
def test_the_table_is_the_formula(length, dim, dtype):
    table = sinusoids(length=length, embed_dim=dim, dtype=dtype)
    assert (table.shape, table.dtype) == ((length, dim), dtype)
    for t in range(length):
        for column in range(dim):
            angle = t / 10000 ** ((column - column % 2) / dim)
            want = np.cos(angle) if column % 2 else np.sin(angle)
            assert table.data[t, column] == pytest.approx(want, abs=2 * float(np.finfo(dtype).eps) + 1e-14)
    with shape_only():
        again = sinusoids(length=length, embed_dim=dim, dtype=dtype)
    assert (again.shape, again.dtype) == (table.shape, table.dtype)


def test_a_shift_is_one_rotation_for_all_places():
    table, shift = sinusoids(length=500, embed_dim=6, dtype=np.float64).data, 17
    angle = shift * frequencies(6)
    sine, cosine = table[:-shift, 0::2], table[:-shift, 1::2]
    assert np.allclose(table[shift:, 0::2], sine * np.cos(angle) + cosine * np.sin(angle), atol=1e-12)
    assert np.allclose(table[shift:, 1::2], cosine * np.cos(angle) - sine * np.sin(angle), atol=1e-12)


def test_the_table_comes_from_an_op_and_costs_nothing_on_shapes():
    events = []
    with listen(events.append):
        SinusoidalEncoding(4, 2)(Tensor(np.zeros((3, 2))))
    assert [(event.op.name, event.in_shapes, event.out_shape) for event in events] == [
        ("sinusoids", (), (3, 2)), ("add", ((3, 2), (3, 2)), (3, 2))]
    tracemalloc.start()
    with shape_only():
        assert sinusoids(length=10**6, embed_dim=10**4).shape == (10**6, 10**4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("sizes", [(-1, 4), (3, 0), (3, -2)])
def test_impossible_tables(sizes):
    with pytest.raises(ValueError, match=r"sinusoids: length .*, embed_dim .*: want"):
        sinusoids(length=sizes[0], embed_dim=sizes[1])
    with shape_only(), pytest.raises(ValueError, match="sinusoids: length"):
        sinusoids(length=sizes[0], embed_dim=sizes[1])


# --- order


def test_without_positions_a_mean_is_a_bag_of_words():
    rng = np.random.default_rng(0)
    table, places = Embedding(9, 4, rng), PositionalEncoding(9, 4, rng)
    order, other = Tensor([3, 5, 7, 5]), Tensor([5, 7, 5, 3])
    assert np.allclose(table(order).mean(axis=0).data, table(other).mean(axis=0).data, atol=1e-8)
    seen = [(places(table(tokens)) ** 2).mean(axis=0).data for tokens in (order, other)]
    assert not np.allclose(*seen, atol=1e-5)
