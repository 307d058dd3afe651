"""Low rank: the theorem, what becomes smaller. Distillation: values and gradients as elsewhere, modes, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import ReLU
from tinytorch.core.autograd import check_gradient
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, default_generator
from tinytorch.core.tensor import Tensor, thread_state
from tinytorch.perf.compression import (
    DistillationLoss,
    distill,
    factored,
    largest_rank,
    low_rank,
    low_rank_factors,
    rank_error,
)
from tinytorch.perf.profiling import Profiler


def drawn(*shape, seed=0):
    """Normal numbers in float64."""
    return np.random.default_rng(seed).standard_normal(shape)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_error_is_what_eckart_and_young_say(rows, columns, rank, seed):
    """Both norms of the difference are the predicted ones, at every rank, also above full rank."""
    weight = drawn(rows, columns, seed=seed)
    left, right = low_rank_factors(weight, rank)
    longest, whole = rank_error(weight, rank)
    assert left.shape[1] == right.shape[0] == min(rank, rows, columns)
    np.testing.assert_allclose(np.linalg.norm(weight - left @ right), whole, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(weight - left @ right, 2), longest, atol=1e-12)


def test_no_other_product_of_that_rank_is_nearer():
    """A hundred steps away from the best one, in any direction: never nearer."""
    weight, rng = drawn(6, 5), np.random.default_rng(1)
    left, right = low_rank_factors(weight, 2)
    _, whole = rank_error(weight, 2)
    for size in np.geomspace(1e-3, 1, 100):
        other = (left + size * rng.standard_normal(left.shape)) @ (right + size * rng.standard_normal(right.shape))
        assert np.linalg.norm(weight - other) >= whole


@given(st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=80, deadline=None)
def test_largest_rank_is_the_last_that_is_smaller(wide, narrow):
    """At it there are fewer numbers, at the next there are not."""
    rank = largest_rank(wide, narrow)
    assert rank * (wide + narrow) < wide * narrow <= (rank + 1) * (wide + narrow)


def test_smaller_by_what_the_formula_says():
    """Rank 2 of (12, 8) and (8, 6): 2*20 + 8 + 2*14 + 6 = 82 numbers, 328 bytes; FLOPs 2*(40 + 28) + 8 for ReLU."""
    model, profiler = Sequential(Linear(12, 8), ReLU(), Linear(8, 6)), Profiler()
    thin = low_rank(model, 2)
    assert profiler.count_parameters(thin) == 82
    assert profiler.measure_memory(thin, (1, 12))["parameter_memory_mb"] * 1024**2 == 328
    assert profiler.count_flops(thin, (1, 12)) == 144
    assert profiler.count_flops(model, (1, 12)) == 2 * (96 + 48) + 8


def test_every_output_is_within_the_bound():
    """Rows of length |x| come out at most |x| * longest off, and some direction comes out exactly that far."""
    layer = Linear(7, 5)
    layer.weight.data, layer.bias.data = drawn(7, 5), drawn(5)
    thin, (longest, _) = factored(layer, 2), rank_error(layer.weight.data, 2)
    x = drawn(200, 7, seed=3)
    off = np.linalg.norm(thin(Tensor(x, dtype=np.float64)).data - layer(Tensor(x, dtype=np.float64)).data, axis=1)
    assert (off <= longest * np.linalg.norm(x, axis=1) * (1 + 1e-12)).all()
    worst = Tensor(np.linalg.svd(layer.weight.data)[0][:, 2][None], dtype=np.float64)  # of length 1
    np.testing.assert_allclose(np.linalg.norm(thin(worst).data - layer(worst).data), longest, rtol=1e-12)


class Twice(Linear):
    """A Linear with a forward of its own: it must not become another layer."""

    def forward(self, x):
        """Return twice what a Linear gives."""
        return super().forward(x) * 2.0


def test_only_plain_layers_that_become_smaller_are_replaced():
    """A subclass, a tied weight and a layer that is too narrow stay; a shared layer is replaced once, for both."""
    shared, tied = Linear(8, 8), Linear(8, 8)
    model = Sequential(shared, Twice(8, 8), tied, shared, Linear(8, 2))
    model.table = tied.weight
    thin = low_rank(model, 2)
    kinds = [type(layer) for layer in thin.layers]
    assert kinds == [Sequential, Twice, Linear, Sequential, Linear]
    assert thin.layers[0] is thin.layers[3] and thin.table is thin.layers[2].weight
    assert type(model.layers[0]) is Linear


def test_a_lone_layer_in_float16_is_factored_in_its_type():
    """NumPy's decomposition does not know float16; the factors come back in it, and in the layer's mode."""
    layer = Linear(8, 8).eval()
    layer.weight.data, layer.bias.data = drawn(8, 8).astype(np.float16), drawn(8).astype(np.float16)
    layer.weight.requires_grad = layer.bias.requires_grad = False
    drawn_before = default_generator().bit_generator.state
    thin = low_rank(layer, 3)
    assert default_generator().bit_generator.state == drawn_before
    assert {p.dtype.name for p in thin.parameters()} == {"float16"}
    assert [p.requires_grad for p in thin.parameters()] == [False, False, False]
    assert not thin.layers[0].training


def test_thin_layers_share_nothing_with_the_model():
    """Writing into all of the new model leaves the old one alone."""
    model = Sequential(Linear(8, 8), ReLU(), Linear(8, 8))
    before = model.state_dict()
    for p in low_rank(model, 2).parameters():
        p.data[...] = 5
    assert all(np.array_equal(array, before[name]) for name, array in model.state_dict().items())


@pytest.mark.parametrize(("rank", "error", "says"), [
    (0, ValueError, "positive integer"), (2.0, TypeError, "positive integer"), (True, TypeError, "positive integer"),
    (4, ValueError, "want at most 3")])
def test_ranks_that_help_nobody_are_refused(rank, error, says):
    """(8, 8): rank 4 has 64 numbers, as many as before."""
    with pytest.raises(error, match=says):
        low_rank(Linear(8, 8), rank)


def test_a_model_without_linear_layers_is_refused():
    """There is no rank to offer."""
    with pytest.raises(ValueError, match="no Linear of this Sequential becomes smaller; nor with any other"):
        low_rank(Sequential(ReLU()), 1)


@pytest.mark.parametrize("function", [low_rank_factors, rank_error])
@pytest.mark.parametrize(("weight", "rank", "error", "says"), [
    (np.eye(3, dtype=int), 1, ValueError, "int64 has no low rank"),
    (np.ones(3), 1, ValueError, "want floats, .in, out."),
    (np.ones((0, 3)), 1, ValueError, "has no low rank"), (np.full((2, 2), np.nan), 1, ValueError, "NaN or infinity"),
    (np.eye(3), 0, ValueError, "rank is 0"), (np.eye(3), -1, ValueError, "rank is -1"),
    (np.eye(3), 1.0, TypeError, "positive integer"), (np.eye(3), True, TypeError, "positive integer")])
def test_what_has_no_factors_is_refused(function, weight, rank, error, says):
    """Factors of whole numbers would be cut off to whole numbers; a rank of -1 would take all but one."""
    with pytest.raises(error, match=says):
        function(weight, rank)


def test_a_model_whose_training_went_astray_is_refused_and_stays():
    """In a sentence, where the decomposition would only say that it did not converge."""
    model = Sequential(Linear(8, 8), ReLU(), Linear(8, 8))
    model.layers[2].weight.data[3, 3] = np.inf
    before = model.state_dict()
    with pytest.raises(ValueError, match="NaN or infinity"):
        low_rank(model, 2)
    assert all(np.array_equal(array, before[name]) for name, array in model.state_dict().items())


def test_layers_without_a_bias_are_factored():
    """Neither of the two has one then: 2*(8 + 8) numbers."""
    thin = low_rank(Linear(8, 8, bias=False), 2)
    assert [layer.bias for layer in thin.layers] == [None, None] and sum(p.size for p in thin.parameters()) == 32


STUDENT, TEACHER = [[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], [[2.0, 1.0, -1.0], [-0.5, 0.0, 4.0]]


def test_loss_and_gradient_as_in_torch():
    """torch 2.13.0: 0.7 * 9 * kl_div(batchmean) + 0.3 * cross_entropy at T = 3."""
    student = Tensor(STUDENT, requires_grad=True, dtype=np.float64)
    loss = DistillationLoss(3.0, 0.7)(student, Tensor(TEACHER, dtype=np.float64), [2, 0])
    loss.backward()
    np.testing.assert_allclose(loss.item(), 3.1825036610287114, rtol=1e-13)
    np.testing.assert_allclose(student.grad.data, [
        [0.06100023955120133, -0.18199616717468853, 0.12099592762348713],
        [-0.04633215246830487, 0.583655165277957, -0.5373230128096521]], rtol=1e-12)


def test_rows_are_all_but_the_last_axis():
    """(2, 3, 4) is what the same six rows of 4 classes are, with their labels."""
    student, teacher, targets = drawn(2, 3, 4), drawn(2, 3, 4, seed=1), np.array([[0, 1, 3], [2, 2, 0]])
    loss = DistillationLoss(2.0, 0.5)
    rows = loss(Tensor(student.reshape(6, 4)), Tensor(teacher.reshape(6, 4)), targets.ravel()).item()
    np.testing.assert_allclose(loss(Tensor(student), Tensor(teacher), targets).item(), rows, rtol=1e-6)


def test_what_is_frozen_in_the_student_is_not_taught():
    """Its first layer stays, number by number, and frozen; the other learns."""
    student = Sequential(Linear(5, 4), ReLU(), Linear(4, 3))
    for p in student.layers[0].parameters():
        p.requires_grad = False
    trained = distill(student, Linear(5, 3), batches(), 2)
    assert [p.requires_grad for p in trained.parameters()] == [False, False, True, True]
    assert np.array_equal(trained.layers[0].weight.data, student.layers[0].weight.data)
    assert not np.array_equal(trained.layers[2].weight.data, student.layers[2].weight.data)


def test_gradient_by_differences():
    """Three axes and labels."""
    teacher = Tensor(drawn(2, 3, 4, seed=5), dtype=np.float64)
    loss = DistillationLoss(2.5, 0.4)
    check_gradient(lambda x: loss(x, teacher, np.array([[0, 1, 3], [2, 2, 0]])), drawn(2, 3, 4))


@given(st.floats(0.1, 50), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_never_negative_and_zero_for_equals(temperature, seed):
    """KL is 0 exactly where both agree up to a constant, and positive elsewhere."""
    a, b = Tensor(drawn(3, 4, seed=seed), dtype=np.float64), Tensor(drawn(3, 4, seed=seed + 1), dtype=np.float64)
    loss = DistillationLoss(temperature, 1.0)
    assert loss(a, b).item() > 0
    assert abs(loss(a, a + 7.0).item()) < 1e-10


def test_at_a_high_temperature_it_is_a_squared_difference():
    """T² KL tends to the mean over rows of Σ (d - mean d)² / (2 C), d the difference of the scores (Hinton, 2.1)."""
    difference = np.array(STUDENT) - np.array(TEACHER)
    want = ((difference - difference.mean(1, keepdims=True)) ** 2).sum(1).mean() / 6
    got = DistillationLoss(1e4, 1.0)(Tensor(STUDENT, dtype=np.float64), Tensor(TEACHER, dtype=np.float64)).item()
    np.testing.assert_allclose(got, want, rtol=1e-3)


@pytest.mark.parametrize(("settings_of", "error", "says"), [
    ((0, 0.5), ValueError, "temperature is 0"), ((-1, 0.5), ValueError, "above 0"),
    ((float("inf"), 0.5), ValueError, "finite"), ((float("nan"), 0.5), ValueError, "NaN"),
    (("hot", 0.5), TypeError, "want a number"), ((1, 1.5), ValueError, "from 0 to 1"),
    ((1, -0.5), ValueError, "alpha")])
def test_settings_that_mean_nothing_are_refused(settings_of, error, says):
    """When the loss is made, not when it is used."""
    with pytest.raises(error, match=says):
        DistillationLoss(*settings_of)


@pytest.mark.parametrize(("student", "teacher"), [((2, 3), (2, 4)), ((2, 3), (3,)), ((), ()), ((0, 3), (0, 3))])
def test_logits_that_do_not_fit_are_refused(student, teacher):
    """Broadcasting would compare one row with all."""
    with pytest.raises(ValueError, match="want logits of one shape"):
        DistillationLoss(2.0, 1.0)(Tensor(np.zeros(student)), Tensor(np.zeros(teacher)))


class Asked(Layer):
    """A teacher with dropout that notes how it was called."""

    def __init__(self, features, classes):
        self.linear, self.dropout, self.calls = Linear(features, classes), Dropout(0.5), []

    def forward(self, x):
        """Answer, and note mode and graph."""
        self.calls.append((self.training, bool(thread_state().grad_enabled)))
        return self.linear(self.dropout(x))


def batches(count=3):
    """A loader of lists: inputs (4, 5) and class numbers."""
    return [(Tensor(drawn(4, 5, seed=n).astype(np.float32)), np.array([0, 1, 2, 0])) for n in range(count)]


def test_the_student_comes_nearer_and_everything_else_stays():
    """The loss falls; the student given, the teacher, their modes and gradients are as before."""
    student, teacher = Linear(5, 3).eval(), Asked(5, 3)
    student.weight.grad = Tensor(np.ones((5, 3)))
    before, taught = student.state_dict(), teacher.state_dict()
    trained = distill(student, teacher, batches(), 20, temperature=2.0, alpha=1.0, lr=0.05)
    assert teacher.calls == [(False, False)] * 60 and teacher.training and not student.training
    assert all(np.array_equal(array, before[name]) for name, array in student.state_dict().items())
    assert all(np.array_equal(array, taught[name]) for name, array in teacher.state_dict().items())
    assert (student.weight.grad.data == 1).all() and teacher.linear.weight.grad is None
    loss, x = DistillationLoss(2.0, 1.0), batches()[0][0]
    answer = teacher.eval()(x)
    assert loss(trained(x), answer).item() < loss(student(x), answer).item() / 4


def test_the_copy_trains_in_training_mode_and_comes_back_in_its_own():
    """Dropout in the student works while it learns."""
    seen = []

    class Student(Linear):
        def forward(self, x):
            seen.append(self.training)
            return super().forward(x)

    student = Student(5, 3).eval()
    assert not distill(student, Linear(5, 3), batches(2), 1).training
    assert seen == [True, True]


@pytest.mark.parametrize(("change", "error", "says"), [
    ({"epochs": 0}, ValueError, "epochs is 0"), ({"loader": []}, ValueError, "no batch"),
    ({"temperature": 0}, ValueError, "temperature"), ({"student": Sequential(ReLU())}, ValueError, "params is empty"),
    ({"student": Linear(5, 4)}, ValueError, "one shape"),
    ({"loader": [(Tensor(np.full((1, 5), np.inf)), np.array([0]))]}, ValueError, "the loss is nan")])
def test_what_cannot_be_taught_is_refused(change, error, says):
    """One sentence each."""
    given_to = {"student": Linear(5, 3), "teacher": Linear(5, 3), "loader": batches(1), "epochs": 1} | change
    with pytest.raises(error, match=says), np.errstate(all="ignore"):
        distill(**given_to)
