"""Losses: extreme scores, shapes that must not fit, types, what the messages name."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.core.activations import sigmoid, softmax
from tinytorch.core.losses import (
    BinaryCrossEntropyLoss,
    CrossEntropyLoss,
    MSELoss,
    binary_from_logits,
    class_numbers,
    log_softmax,
    pick,
    pick_shape,
)
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only, thread_state

few = settings(max_examples=60, deadline=None)
LOSSES = [MSELoss(), CrossEntropyLoss(), BinaryCrossEntropyLoss(), BinaryCrossEntropyLoss(from_logits=True)]


# --- mean squared error


@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[2], LOSSES[3]])
@pytest.mark.parametrize(
    ("a", "b"), [((3, 1), (3,)), ((3,), (3, 1)), ((2, 3), (3,)), ((2, 3), ()), ((4,), (5,)), ((1, 3), (3, 3))]
)
def test_shapes_that_are_not_equal_are_refused(loss, a, b):
    with pytest.raises(ValueError, match=type(loss).__name__) as caught:
        loss(Tensor(np.full(a, 0.5)), Tensor(np.full(b, 0.5)))
    assert str(a) in str(caught.value)
    assert str(b) in str(caught.value)
    with shape_only(), pytest.raises(ValueError, match=type(loss).__name__):
        loss(Tensor(hollow(a)), Tensor(hollow(b)))


@few
@given(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4), st.sampled_from(["float16", "float32", "float64"])
)
def test_mse_is_a_scalar_of_the_predictions_type(shape, dtype):
    x = Tensor(np.full(shape, 3, dtype), dtype=dtype)
    y = Tensor(np.full(shape, 1, np.int8))
    assert (MSELoss()(x, y).shape, MSELoss()(x, y).dtype, MSELoss()(x, y).item()) == ((), np.dtype(dtype), 4)
    with shape_only():
        assert (MSELoss()(x, y).shape, MSELoss()(x, y).dtype) == ((), np.dtype(dtype))


def test_targets_may_be_lists_arrays_or_booleans():
    x = Tensor([1.0, 0.0])
    assert MSELoss()(x, [1, 0]).item() == MSELoss()(x, np.array([True, False])).item() == 0
    assert MSELoss()([1.0, 2.0], [1.0, 4.0]).item() == 2  # (0 + 4) / 2


@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[2], LOSSES[3]])
def test_nothing_to_average_is_an_error(loss):
    with pytest.raises(ValueError, match=type(loss).__name__):
        loss(Tensor(np.zeros((0, 2))), Tensor(np.zeros((0, 2))))


def test_nan_is_not_hidden():
    assert math.isnan(MSELoss()(Tensor([np.nan, 1.0]), Tensor([1.0, 1.0])).item())
    assert math.isnan(CrossEntropyLoss()(Tensor([[np.nan, 1.0]]), [0]).item())
    assert math.isnan(BinaryCrossEntropyLoss()(Tensor([np.nan]), [1]).item())
    assert math.isnan(BinaryCrossEntropyLoss(from_logits=True)(Tensor([np.nan]), [1]).item())


# --- log_softmax


@few
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
def test_log_softmax_against_double_precision(data, shape):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-1e6, 1e6)))
    out = log_softmax(Tensor(x, dtype=np.float64), axis=axis).data
    shifted = x - x.max(axis=axis, keepdims=True)
    np.testing.assert_allclose(out, shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)), rtol=1e-12)
    assert np.isfinite(out).all()
    assert (out <= 0).all()


def test_log_softmax_keeps_types_and_axes():
    x = Tensor(np.arange(6, dtype=np.float16).reshape(2, 3))
    assert log_softmax(x).dtype == np.float16
    np.testing.assert_array_equal(log_softmax(x, dim=0).data, log_softmax(x, axis=-2).data)
    np.testing.assert_allclose(
        np.exp(log_softmax(x.astype(np.float32)).data), softmax(x.astype(np.float32)).data, rtol=1e-6
    )
    with pytest.raises(TypeError, match="give one"):
        log_softmax(x, axis=0, dim=0)


def test_a_masked_score_is_minus_infinity():
    assert log_softmax(Tensor([0.0, -np.inf])).data.tolist() == [0, -np.inf]


# --- pick


@few
@given(
    st.data(),
    hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4),
    st.sampled_from(["float16", "float32", "float64", "int8"]),
    st.sampled_from(["uint8", "int8", "int64", "float32"]),
)
def test_pick_takes_the_named_entry(data, shape, dtype, kind):
    table = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    targets = data.draw(hnp.arrays(np.int64, shape[:-1], elements=st.integers(0, shape[-1] - 1)))
    a, t = Tensor(table, dtype=dtype), Tensor(targets.astype(kind), dtype=kind)
    out = pick(a, t)
    for place in np.ndindex(*shape[:-1]):
        assert out.data[place] == table[(*place, targets[place])]
    with shape_only():
        thin = pick(a, t)
    assert (out.shape, out.dtype) == (thin.shape, thin.dtype) == (pick_shape(shape, shape[:-1]), np.dtype(dtype))


def test_pick_from_tables_that_do_not_lie_side_by_side():
    table = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::-2]  # rows 0, 2; columns 5, 3, 1
    assert pick(Tensor(table), np.array([0, 2])).data.tolist() == [5, 13]


@pytest.mark.parametrize(
    ("table", "targets", "words"),
    [
        ((2, 3), (2, 1), r"(?=.*\(2, 3\))(?=.*\(2, 1\)).*\(2,\)"),
        ((2, 3), (1,), r"(?=.*\(2, 3\))(?=.*\(1,\)).*\(2,\)"),  # NumPy would have stretched it
        ((2, 3), (), r"(?=.*\(2, 3\))(?=.*\(\)).*\(2,\)"),
        ((2, 3), (2, 3), r"(?=.*\(2, 3\)).*\(2,\)"),
        ((4, 2, 3), (2,), r"(?=.*\(4, 2, 3\))(?=.*\(2,\)).*\(4, 2\)"),
        ((), (), ".*"),
    ],
)
def test_wrong_shapes_of_targets_are_refused_with_and_without_numbers(table, targets, words):
    for run in (lambda: pick(Tensor(np.zeros(table)), np.zeros(targets, int)), lambda: pick_shape(table, targets)):
        with pytest.raises(ValueError, match=words):
            run()
    with shape_only(), pytest.raises(ValueError, match=words):
        pick(Tensor(hollow(table)), Tensor(hollow(targets, np.int64)))


@pytest.mark.parametrize(
    ("targets", "word"),
    [
        (np.array([0, 3]), "target 3 "),
        (np.array([-1, 0]), "target -1 "),
        ([0.5, 0], "target 0.5 "),
        ([np.nan, 0], "target nan "),
        ([np.inf, 0], "target inf "),
        (np.array([0, 255], np.uint8), "target 255 "),
    ],
)
def test_a_class_that_does_not_exist_is_named(targets, word):
    with pytest.raises(ValueError, match=f"{word}is no class: there are 3 classes"):
        pick(Tensor(np.zeros((2, 3))), targets)


def test_booleans_are_no_class_numbers():
    with pytest.raises(TypeError, match="targets are booleans; want class numbers"):
        pick(Tensor(np.zeros((2, 3))), np.array([True, False]))


def test_no_classes_means_no_target_exists():
    assert pick(Tensor(np.zeros((0, 0))), np.zeros(0, int)).shape == (0,)
    with pytest.raises(ValueError, match="there are 0 classes"):
        class_numbers(np.array([0]), 0)


# --- cross entropy


def test_cross_entropy_from_its_arithmetic():
    # row 1: log(e^2 + e^1 + e^0) - 1 = 1.407606; row 2: log(e^0 + e^0 + e^0) - 0 = 1.098612; mean 1.253109
    assert math.isclose(CrossEntropyLoss()(Tensor([[2, 1, 0], [0, 0, 0]]), [1, 2]).item(), 1.253109, rel_tol=1e-6)


def test_cross_entropy_of_extreme_scores_is_finite():
    loss = CrossEntropyLoss()
    assert loss(Tensor([[1e30, -1e30]]), [0]).item() == 0
    assert loss(Tensor([[1e30, 0.0]]), [1]).item() == np.float32(1e30)
    assert math.isclose(loss(Tensor([[-1e30, -1e30]]), [1]).item(), math.log(2), rel_tol=1e-6)


def test_cross_entropy_averages_over_every_leading_axis():
    logits = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)
    targets = np.array([[0, 1, 2], [3, 4, 0]])
    flat = CrossEntropyLoss()(Tensor(logits.reshape(6, 5)), targets.ravel()).item()
    assert math.isclose(CrossEntropyLoss()(Tensor(logits), targets).item(), flat, rel_tol=1e-6)
    assert math.isclose(
        CrossEntropyLoss()(Tensor(logits[0, 0]), 0).item(), -log_softmax(Tensor(logits[0, 0])).data[0], rel_tol=1e-6
    )


def test_cross_entropy_refuses_wrong_targets():
    loss = CrossEntropyLoss()
    with pytest.raises(ValueError, match=r"(?=.*\(2, 3\)).*\(2,\)"):
        loss(Tensor(np.zeros((2, 3))), np.zeros((2, 3), int))
    with pytest.raises(ValueError, match=r"targets \(0,\) hold nothing to average"):
        loss(Tensor(np.zeros((0, 3))), [])
    assert thread_state().path == ()


# --- two classes


@given(st.floats(-30, 30), st.sampled_from([0.0, 0.25, 1.0]))
def test_from_logits_is_the_textbook_formula(z, t):
    p = 1 / (1 + math.exp(-z))
    q = 1 / (1 + math.exp(z))
    want = -(t * math.log(p) + (1 - t) * math.log(q))
    got = BinaryCrossEntropyLoss(from_logits=True)(Tensor([z], dtype=np.float64), Tensor([t], dtype=np.float64)).item()
    assert math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-13)


def test_both_ways_agree_where_nothing_is_clipped():
    z = Tensor(np.linspace(-8, 8, 33))
    t = Tensor(np.arange(33) % 2)
    one = BinaryCrossEntropyLoss(from_logits=True)(z, t).item()
    assert math.isclose(BinaryCrossEntropyLoss()(sigmoid(z), t).item(), one, rel_tol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_saturated_probabilities_stay_finite_in_every_type(dtype):
    p = Tensor(np.array([0, 1, 0, 1], dtype), dtype=dtype)
    loss = BinaryCrossEntropyLoss()(p, [0, 1, 1, 0])
    assert loss.dtype == dtype or dtype == "float16"  # float32 targets widen float16
    assert 7 < loss.item() < 9  # half the targets cost -log(1e-7) = 16.1, half nothing


def test_extreme_logits_are_exact_and_quiet():
    z = Tensor([1e30, -1e30, 1e30, -1e30])
    with np.errstate(all="raise", under="ignore"):
        assert binary_from_logits(z, Tensor([1.0, 0.0, 0.0, 1.0])).data.tolist() == [
            0,
            0,
            np.float32(1e30),
            np.float32(1e30),
        ]


def test_targets_may_be_booleans_or_integers():
    p = Tensor([0.5, 0.5])
    for targets in (np.array([True, False]), np.array([1, 0], np.int8), np.array([1, 0]), [1, 0]):
        for loss in (BinaryCrossEntropyLoss()(p, targets), BinaryCrossEntropyLoss(from_logits=True)(p * 0, targets)):
            assert math.isclose(loss.item(), math.log(2), rel_tol=1e-6)
            assert loss.dtype == np.float32


def test_numbers_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"predictions from -0.5 to 3; want probabilities.*from_logits=True"):
        BinaryCrossEntropyLoss()(Tensor([-0.5, 3.0]), [0, 1])
    for from_logits in (False, True):
        with pytest.raises(ValueError, match="targets from 0 to 2; want probabilities"):
            BinaryCrossEntropyLoss(from_logits=from_logits)(Tensor([0.5, 0.5]), [0, 2])


# --- all of them


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_loss_is_heard_under_its_name_and_runs_on_shapes(loss):
    x = Tensor(np.full((2, 3), 0.5))
    targets = [0, 1] if isinstance(loss, CrossEntropyLoss) else np.ones((2, 3))
    events = []
    with listen(events.append):
        real = loss(x, targets)
    assert {event.scope[0].name for event in events} == {type(loss).__name__}
    with shape_only():
        thin = loss(x, targets)
    assert (thin.shape, thin.dtype) == (real.shape, real.dtype) == ((), np.float32)
    assert loss.parameters() == loss.children() == []


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_loss_wants_a_gradient_when_its_input_does(loss):
    x = Tensor(np.full((2, 3), 0.5), requires_grad=True)
    targets = [0, 1] if isinstance(loss, CrossEntropyLoss) else np.ones((2, 3))
    assert loss(x, targets).requires_grad
