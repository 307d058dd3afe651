"""The loop's edges: averages, modes, clipping, schedules, errors in the middle, the digits."""

from importlib.resources import files
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.optimizers import SGD, Adam
from tinytorch.core.tensor import Tensor, listen, thread_state
from tinytorch.core.training import (
    CosineSchedule,
    Evaluation,
    Trainer,
    clip_grad_norm,
    evaluate,
    fresh_gradients,
    grad_norm,
    in_mode,
)


def one_weight(value, lr=0.01):
    layer = Linear(1, 1, bias=False)
    layer.weight.data[...] = value
    return layer, SGD(layer.parameters(), lr=lr)


def batch(x, y):
    return Tensor(np.reshape(x, (-1, 1))), Tensor(np.reshape(y, (-1, 1)))


class Shaky(Layer):
    """Passes on what comes, but fails at the call with this number."""

    def __init__(self, fails_at):
        self.weight, self.calls, self.fails_at = Tensor([1.0], requires_grad=True), 0, fails_at

    def forward(self, x):
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("the cable came out")
        return x * self.weight


# --- evaluation ---------------------------------------------------------------------------------------------------

def test_sequences_weigh_by_their_targets():
    # (B, T, C) scores with (B, T) classes: 4 of 6 right in the first batch, 0 of 1 in the second
    first = np.zeros((2, 3, 2), np.float32)
    first[..., 0] = 1.0
    loader = [(first, np.array([[0, 0, 1], [0, 0, 1]])), (first[:1, :1], np.array([[1]]))]
    found = evaluate(Sequential(), CrossEntropyLoss(), loader)
    assert found.accuracy == 4 / 7
    right, wrong = np.log(1 + np.exp(-1)), np.log(1 + np.exp(1))  # losses of one target
    assert found.loss == pytest.approx((4 * right + 3 * wrong) / 7)


def test_any_cut_of_the_data_gives_the_same_evaluation():
    rng = np.random.default_rng(0)
    x, y, model = rng.standard_normal((23, 5)), rng.integers(0, 3, 23), Linear(5, 3, rng=rng)
    whole = evaluate(model, CrossEntropyLoss(), [(x, y)])
    for size in (1, 4, 22):
        cut = evaluate(model, CrossEntropyLoss(), [(x[i:i + size], y[i:i + size]) for i in range(0, 23, size)])
        assert cut.accuracy == whole.accuracy
        assert cut.loss == pytest.approx(whole.loss, rel=1e-5)


def test_evaluation_leaves_no_trace():
    model = Sequential(Linear(2, 2), Sequential(Dropout(0.5), ReLU()))
    model.layers[1].layers[0].eval()
    model.layers[0].weight.grad = Tensor(np.ones((2, 2)))
    before = [(one, dict(vars(one))) for one in (model, *model.layers, *model.layers[1].layers)]
    evaluate(model, CrossEntropyLoss(), [(np.ones((3, 2)), np.array([0, 1, 0]))])
    assert [(one, dict(vars(one))) for one, _ in before] == before  # not even a new attribute
    assert model.layers[0].weight.grad.data.tolist() == [[1, 1], [1, 1]]


def test_modes_come_back_after_an_error():
    model = Sequential(Dropout(0.5), Shaky(2))
    data = [batch([1], [1])] * 3
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), MSELoss())
    for run in (lambda: evaluate(model, MSELoss(), data), lambda: trainer.fit(data, 1)):
        model.layers[1].calls = 0
        model.eval()
        model.layers[0].train()
        with pytest.raises(RuntimeError, match="the cable came out"):
            run()
        assert [one.training for one in (model, *model.layers)] == [False, True, False]
        assert thread_state().grad_enabled


def test_modes_reach_through_plain_objects_and_circles():
    class Box:
        """No layer itself."""

    box, model = Box(), Sequential()
    box.inner, model.box, box.back = {"drop": [Dropout(0.5)]}, box, model
    with in_mode(model, False):
        assert not box.inner["drop"][0].training
    assert box.inner["drop"][0].training


def test_a_class_held_by_a_model_is_no_part_of_it():
    model = Sequential(Dropout(0.5))
    model.kind = Dropout
    with in_mode(model, False):
        assert not model.layers[0].training
        assert Dropout(0.5).training
    assert model.layers[0].training


def test_a_model_may_be_a_function():
    assert evaluate(lambda x: x * 2.0, MSELoss(), [batch([1, 2], [2, 4])]) == Evaluation(0.0, None)


# --- one step -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("value", [nan, inf])
def test_a_loss_that_is_not_finite_moves_nothing(value):
    model, optimizer = one_weight(2.0)
    trainer = Trainer(model, optimizer, MSELoss())
    trainer.train_batch(*batch([1], [1]))
    before = model.weight.item()
    with pytest.raises(ValueError, match=str(value)):
        trainer.train_batch(*batch([1, value], [1, 1]))
    assert (model.weight.item(), trainer.steps) == (before, 1)


def test_a_frozen_layer_stays_and_costs_no_gradient():
    model = Sequential(Linear(2, 2), Linear(2, 1))
    for p in model.layers[0].parameters():
        p.requires_grad = False
    frozen = model.layers[0].weight.data.copy()
    optimizer = SGD(model.parameters(), lr=0.1)
    fresh_gradients(model, optimizer, MSELoss(), Tensor(np.ones((3, 2))), Tensor(np.zeros((3, 1))))
    optimizer.step()
    np.testing.assert_array_equal(model.layers[0].weight.data, frozen)
    assert model.layers[0].weight.grad is None


# --- schedule and clipping ----------------------------------------------------------------------------------------

def test_cosine_against_torch():
    # torch 2.13.0: CosineAnnealingLR(SGD(lr=0.1), T_max=8, eta_min=0.01), rates of steps 0 to 8
    torch = [0.1, 0.0965745789630079, 0.08681980515339463, 0.07222075445642905, 0.055, 0.03777924554357096,
             0.023180194846605363, 0.013425421036992097, 0.01]
    schedule = CosineSchedule(0.1, 0.01, 8)
    np.testing.assert_allclose([schedule(i) for i in range(9)], torch, rtol=1e-14)


@given(high=st.floats(1e-6, 10), share=st.floats(0, 1), total=st.integers(1, 1000))
def test_cosine_falls_within_its_bounds(high, share, total):
    schedule = CosineSchedule(high, high * share, total)
    rates = [schedule(step) for step in range(0, total + 3, max(1, total // 20))]
    assert rates[0] == pytest.approx(high)
    assert all(a >= b - 1e-12 for a, b in zip(rates, rates[1:]))
    assert schedule(total) == pytest.approx(high * share, abs=1e-12)


def with_gradients(*arrays, dtype=np.float32):
    params = [Tensor(np.zeros(np.shape(a)), requires_grad=True, dtype=dtype) for a in arrays]
    for p, a in zip(params, arrays):
        p.grad = Tensor(a, dtype=dtype)
    return params


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e3, 1e30]), limit=st.floats(1e-3, 1e3),
       shapes=st.lists(st.sampled_from([(), (3,), (2, 2), (0, 4)]), min_size=1, max_size=4))
def test_clipping_keeps_the_direction(seed, scale, limit, shapes):
    rng = np.random.default_rng(seed)
    params = with_gradients(*[scale * rng.standard_normal(shape) for shape in shapes])
    before = np.concatenate([p.grad.data.ravel() for p in params]).astype(np.float64)
    norm = clip_grad_norm(params, limit)
    after = np.concatenate([p.grad.data.ravel() for p in params]).astype(np.float64)
    assert norm == pytest.approx(np.sqrt((before**2).sum()), rel=1e-12)
    np.testing.assert_allclose(after, before * min(1.0, limit / norm if norm else 1.0), rtol=1e-6, atol=1e-42)


def test_clipping_keeps_the_dtype_and_small_gradients_themselves():
    params = with_gradients([3.0, 4.0], dtype=np.float16)
    gradient = params[0].grad
    assert clip_grad_norm(params, 5.0) == 5.0
    assert params[0].grad is gradient
    clip_grad_norm(params, 1.0)
    assert params[0].grad.dtype == np.float16
    assert params[0].grad.made_by is None


def test_clipping_of_float16_that_overflows_when_squared():
    assert grad_norm(with_gradients([30000.0, 40000.0], dtype=np.float16)) == pytest.approx(50000, rel=1e-3)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_broken_gradients_are_named(value):
    params = with_gradients([1.0], [value])
    with pytest.raises(ValueError, match="nan|inf"):
        clip_grad_norm(params, 1.0)
    assert params[0].grad.item() == 1.0


def test_clipping_is_heard_in_its_scope():
    params, events = with_gradients([3.0, 4.0]), []
    with listen(events.append):
        clip_grad_norm((p for p in params), 1.0)
    assert {event.scope[-1].name for event in events} == {"clip"}


# --- the trainer --------------------------------------------------------------------------------------------------

def test_fit_goes_on_where_it_stopped():
    rates = CosineSchedule(0.1, 0.0, 6)
    data = [batch([1.0], [0.0]), batch([2.0], [1.0])]

    def run(*epochs):
        model, optimizer = one_weight(2.0)
        trainer = Trainer(model, optimizer, MSELoss(), rates)
        for n in epochs:
            history = trainer.fit(data, n)
        return trainer.steps, trainer.epochs, history, model.weight.data.tobytes()

    assert run(3) == run(1, 2) == run(1, 1, 1)
    assert run(3)[:2] == (6, 3)


def test_history_has_an_entry_an_epoch_under_every_name():
    model, optimizer = one_weight(2.0)
    trainer, data = Trainer(model, optimizer, MSELoss()), [batch([1.0], [0.0])]
    trainer.fit(data, 2)
    history = trainer.fit(data, 1, validation=[batch([1.0], [1.0])])
    assert {name: len(values) for name, values in history.items()} == dict.fromkeys(history, 3)
    assert history["validation_loss"][:2] == [None, None]
    assert history["validation_loss"][2] == pytest.approx((model.weight.item() - 1) ** 2)
    assert history["validation_accuracy"] == [None] * 3
    assert history["lr"] == [0.01] * 3


def test_validation_does_not_change_training():
    def run(validation):
        rng = np.random.default_rng(0)
        model = Sequential(Linear(3, 3, rng=rng), Dropout(0.5, rng), Linear(3, 1, rng=rng))
        trainer = Trainer(model, Adam(model.parameters()), MSELoss(), grad_clip_norm=1.0)
        trainer.fit([(np.ones((4, 3)), np.zeros((4, 1)))] * 3, 2, validation=validation)
        return [p.data.tobytes() for p in model.parameters()]

    assert run(None) == run([(np.ones((2, 3)), np.ones((2, 1)))])


def test_the_callback_may_stop_training():
    model, optimizer = one_weight(2.0)
    model.eval()
    trainer = Trainer(model, optimizer, MSELoss())

    def stop(progress):
        if progress.steps == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit([batch([1.0], [0.0])] * 5, 3, stop)
    assert (trainer.steps, trainer.epochs, model.training) == (2, 0, False)
    assert trainer.history["loss"] == []


def test_a_generator_can_be_read_once():
    model, optimizer = one_weight(2.0)
    trainer = Trainer(model, optimizer, MSELoss())
    heard = []
    assert trainer.train_epoch((batch([1.0], [0.0]) for _ in range(2)), heard.append) > 0
    assert [p.batches for p in heard] == [None, None]
    with pytest.raises(ValueError, match="no batch"):
        trainer.fit(iter([batch([1.0], [0.0])]), 2)


def test_nothing_is_printed(capsys):
    model, optimizer = one_weight(2.0)
    Trainer(model, optimizer, MSELoss()).fit([batch([1.0], [0.0])], 2, validation=[batch([1.0], [0.0])])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("act", "error", "words"), [
    (lambda m, o: Trainer(3, o, MSELoss()), TypeError, "model is a int"),
    (lambda m, o: Trainer(m, o, "mse"), TypeError, "loss_fn is a str"),
    (lambda m, o: Trainer(m, o, MSELoss(), scheduler=0.1), TypeError, "scheduler is a float"),
    (lambda m, o: Trainer(m, o, MSELoss(), grad_clip_norm=0), ValueError, "grad_clip_norm is 0"),
    (lambda m, o: Trainer(m, o, MSELoss(), grad_clip_norm=-1), ValueError, "grad_clip_norm is -1"),
    (lambda m, o: Trainer(m, o, MSELoss()).fit([batch([1], [1])], 0), ValueError, "epochs is 0"),
    (lambda m, o: Trainer(m, o, MSELoss()).fit([batch([1], [1])], 1.5), TypeError, "epochs is 1.5"),
    (lambda m, o: Trainer(m, o, MSELoss()).fit([], 1), ValueError, "no batch"),
    (lambda m, o: Trainer(m, o, MSELoss()).fit([Tensor([[1.0]])], 1), TypeError, "want pairs"),
    (lambda m, o: evaluate(m, MSELoss(), [(Tensor([[1.0]]),)]), TypeError, "want pairs"),
    (lambda m, o: clip_grad_norm(m.parameters(), 0), ValueError, "max_norm is 0"),
    (lambda m, o: clip_grad_norm(m.parameters(), nan), ValueError, "max_norm is nan"),
    (lambda m, o: CosineSchedule(0.1, 0.2, 5), ValueError, "above max_lr"),
    (lambda m, o: CosineSchedule(0.1, 0.0, 0), ValueError, "total_steps is 0"),
    (lambda m, o: CosineSchedule(-1, 0.0, 5), ValueError, "max_lr is -1"),
])
def test_refusals(act, error, words):
    with pytest.raises(error, match=words):
        act(*one_weight(2.0))


# --- real data ----------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def digits():
    """The 1,797 digits: batches of 32 for training, 355 drawn at random held out."""
    with files("tinytorch.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        x, y = arrays["images"].reshape(-1, 64) / 16, arrays["labels"]
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:355], order[355:]
    return [(x[train[i:i + 32]], y[train[i:i + 32]]) for i in range(0, len(train), 32)], [(x[test], y[test])]


def train_digits(data, make, seed):
    rng = np.random.default_rng(seed)
    model = Sequential(Linear(64, 32, rng=rng), ReLU(), Linear(32, 10, rng=rng))
    optimizer = make(model.parameters())
    schedule = CosineSchedule(optimizer.lr, 0, 6 * len(data))
    trainer = Trainer(model, optimizer, CrossEntropyLoss(), schedule, grad_clip_norm=5.0)
    trainer.fit(data, 6)
    return trainer


def adam(params):
    return Adam(params, lr=0.01)


def momentum(params):
    return SGD(params, lr=0.1, momentum=0.9)


@pytest.mark.parametrize("make", [adam, momentum])
def test_the_digits_are_learned_and_every_run_is_the_same(digits, make):
    train, test = digits
    first, second = (train_digits(train, make, seed=1) for _ in range(2))
    assert first.evaluate(test).accuracy > 0.94
    assert first.history == second.history
    for p, q in zip(first.model.parameters(), second.model.parameters()):
        np.testing.assert_array_equal(p.data, q.data)
