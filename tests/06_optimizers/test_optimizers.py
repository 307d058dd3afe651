"""Steps, states and refusals; the reference is the textbook formula in float64, written out again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.layers import Linear, named_tensors
from tinytorch.core.losses import MSELoss
from tinytorch.core.optimizers import SGD, Adam, AdamW, Optimizer, state_bytes
from tinytorch.core.tensor import Tensor, count_ops, hollow, listen, shape_only

ALL = [lambda p: SGD(p, lr=0.1), lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
       lambda p: Adam(p, weight_decay=0.1), AdamW]
every_kind = pytest.mark.parametrize("make", ALL, ids=["sgd", "momentum", "adam", "adamw"])


def trainable(values, dtype=None):
    return Tensor(values, requires_grad=True, dtype=dtype)


def step_with(optimizer, *gradients):
    for p, g in zip(optimizer.params, gradients):
        p.grad = None if g is None else Tensor(g, dtype=p.dtype)
    optimizer.step()


def textbook(kind, p, gradients, lr, decay, momentum=0.0, betas=(0.9, 0.999), eps=1e-8):
    """Return the parameter after all gradients, in float64."""
    p, m, v = np.array(p, np.float64), 0.0, 0.0
    for t, g in enumerate(np.asarray(gradients, np.float64), 1):
        if kind is AdamW:
            p = p - lr * decay * p
        else:
            g = g + decay * p
        if kind is SGD:
            m = momentum * m + g
            p = p - lr * m
            continue
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from([SGD, Adam, AdamW]), shape=st.sampled_from([(), (1,), (3,), (2, 3), (0, 2), (2, 1, 4)]),
       steps=st.integers(1, 6), lr=st.floats(1e-4, 0.5), decay=st.sampled_from([0.0, 0.01, 0.3]),
       momentum=st.sampled_from([0.0, 0.5, 0.9]), seed=st.integers(0, 99))
def test_any_shape_follows_the_textbook(kind, shape, steps, lr, decay, momentum, seed):
    rng = np.random.default_rng(seed)
    start, gradients = rng.standard_normal(shape), rng.standard_normal((steps, *shape))
    p = trainable(start.copy(), np.float64)
    more = {"momentum": momentum} if kind is SGD else {}
    optimizer = kind([p], lr=lr, weight_decay=decay, **more)
    for g in gradients:
        step_with(optimizer, g)
    assert p.dtype == np.float64
    np.testing.assert_allclose(p.data, textbook(kind, start, gradients, lr, decay, momentum if kind is SGD else 0.0),
                               rtol=1e-10, atol=1e-12)


@every_kind
def test_writes_in_place_whatever_the_memory_layout(make):
    memory = np.zeros((4, 6), np.float32)
    seen = {"transposed": memory.T, "every second column": memory[:, ::2]}
    for name, view in seen.items():
        memory[...] = 1.0
        p = trainable(view)
        assert np.shares_memory(p.data, memory), name
        array = p.data
        step_with(make([p]), np.ones(p.shape))
        assert p.data is array
        assert (p.data != 1.0).all(), name
        assert p.made_by is None
        assert p.requires_grad
    assert (memory[:, 1::2] == 1.0).all()  # the columns between were not touched


@every_kind
def test_keeps_the_dtype(make):
    for dtype in (np.float16, np.float32, np.float64):
        p = trainable([1.0, 2.0], dtype)
        optimizer = make([p])
        step_with(optimizer, [0.5, 0.5])
        assert p.dtype == dtype
        assert {a.dtype for a in optimizer.state_arrays()} <= {np.dtype(dtype)}


@every_kind
def test_passes_over_what_is_not_due(make):
    used, unused, frozen = trainable([1.0]), trainable([1.0]), trainable([1.0])
    frozen.requires_grad = False
    optimizer = make([used, unused, frozen])
    step_with(optimizer, [1.0], None, [1.0])
    assert used.item() != 1.0
    assert (unused.item(), frozen.item()) == (1.0, 1.0)  # no decay either
    assert optimizer.state[1:] == [{}, {}]


def test_steps_of_a_parameter_are_counted_where_it_had_a_gradient():
    # the second parameter's first gradient comes in step 3: for it this is step 1, of length lr
    early, late = trainable([1.0]), trainable([1.0])
    adam = Adam([early, late], lr=0.1)
    step_with(adam, [1.0], None)
    step_with(adam, [1.0], None)
    step_with(adam, [1.0], [123.0])
    assert late.item() == pytest.approx(0.9, rel=1e-5)
    assert [memory["t"] for memory in adam.state] == [3, 1]


def test_a_parameter_given_twice_is_stepped_once():
    p = trainable([1.0])
    step_with(SGD([p, p], lr=0.1), [1.0])
    assert p.item() == pytest.approx(0.9)


def test_a_shared_layer_gets_the_sum_once():
    layer = Linear(1, 1, bias=False)
    layer.weight.data[...] = 2.0
    sgd = SGD([*layer.parameters(), *layer.parameters()], lr=0.1)
    layer(layer(Tensor([[1.0]]))).sum().backward()  # w², gradient 2 w = 4
    sgd.step()
    assert layer.weight.item() == pytest.approx(2.0 - 0.1 * 4.0)


def test_velocity_is_not_the_gradients_memory():
    # in the first step the velocity equals the gradient; changing the gradient later must not change it
    p = trainable([1.0])
    sgd = SGD([p], lr=0.1, momentum=0.9)
    step_with(sgd, [1.0])
    p.grad.data[...] = 100.0
    assert sgd.state[0]["velocity"].tolist() == [1.0]


def test_the_rate_may_change_between_steps():
    p = trainable([1.0])
    sgd = SGD([p], lr=0.1)
    step_with(sgd, [1.0])
    sgd.lr = 0.2
    step_with(sgd, [1.0])
    assert p.item() == pytest.approx(1 - 0.1 - 0.2)


def test_a_rate_of_zero_changes_nothing_but_the_memory():
    p = trainable([1.0, -3.0])
    adamw = AdamW([p], lr=0)
    step_with(adamw, [1.0, 1.0])
    assert p.data.tolist() == [1.0, -3.0]
    assert adamw.state[0]["t"] == 1


@every_kind
def test_two_runs_are_equal_to_the_bit(make):
    def run():
        rng = np.random.default_rng(0)
        layer = Linear(5, 3, rng=rng)
        optimizer = make(layer.parameters())
        for _ in range(20):
            optimizer.zero_grad()
            MSELoss()(layer(Tensor(rng.standard_normal((7, 5)))), Tensor(np.zeros((7, 3)))).backward()
            optimizer.step()
        return b"".join(p.data.tobytes() for p in layer.parameters())

    assert run() == run()


@every_kind
def test_what_is_remembered_is_no_parameter(make):
    layer = Linear(3, 2)
    layer.optimizer = make(layer.parameters())
    step_with(layer.optimizer, np.ones((3, 2)), np.ones(2))
    assert [id(p) for p in layer.parameters()] == [id(layer.weight), id(layer.bias)]
    assert named_tensors(layer.optimizer.state) == []


@every_kind
def test_memory_does_not_grow(make):
    p = trainable(np.ones((8, 8)))
    optimizer = make([p])
    step_with(optimizer, np.ones((8, 8)))
    first = state_bytes(optimizer)
    for _ in range(5):
        step_with(optimizer, np.ones((8, 8)))
    assert state_bytes(optimizer) == first
    assert all(a.base is None or a.base.nbytes == a.nbytes for a in optimizer.state_arrays())  # nothing larger is held


def test_a_step_is_heard_op_by_op_in_its_scope():
    p, events = trainable(np.ones(3)), []
    adam = Adam([p])
    p.grad = Tensor(np.ones(3))
    with listen(events.append):
        adam.step()
    assert {tuple(s.name for s in event.scope) for event in events} == {("optimizer",)}
    assert {event.op.name for event in events} == {"multiply", "add", "divide", "sqrt", "subtract"}


@every_kind
def test_on_shapes_only_a_step_is_counted_and_changes_nothing(make):
    p = trainable([1.0, 2.0])
    optimizer = make([p])
    step_with(optimizer, [0.5, 0.5])
    value, memory = p.data.copy(), [a.copy() for a in optimizer.state_arrays()]
    assert sum(count_ops(optimizer.step).values()) >= 2
    np.testing.assert_array_equal(p.data, value)
    for before, after in zip(memory, optimizer.state_arrays()):
        np.testing.assert_array_equal(before, after)


def test_a_hollow_model_is_refused_with_a_reason():
    with shape_only():
        layer = Linear(4, 4)
    layer.weight.grad = Tensor(hollow((4, 4)))
    with pytest.raises(ValueError, match="read-only"):
        SGD(layer.parameters(), lr=0.1).step()


@every_kind
def test_a_wrong_gradient_is_found_before_anything_moves(make):
    first, second = trainable([1.0]), trainable([1.0, 2.0])
    optimizer = make([first, second])
    first.grad, second.grad = Tensor([1.0]), Tensor([[1.0, 1.0]])
    with pytest.raises(ValueError, match=r"parameter 1 is \(2,\), its gradient \(1, 2\)"):
        optimizer.step()
    assert first.item() == 1.0
    assert optimizer.state == [{}, {}]


def test_zero_grad_forgets_frozen_ones_too():
    p = trainable([1.0])
    p.grad, p.requires_grad = Tensor([1.0]), False
    SGD([p], lr=0.1).zero_grad()
    assert p.grad is None


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda p: SGD([], lr=0.1), ValueError, "params is empty"),
    (lambda p: SGD(p, lr=0.1), TypeError, "want a list of Tensors"),
    (lambda p: SGD(3, lr=0.1), TypeError, "params is a int"),
    (lambda p: SGD([p.data], lr=0.1), TypeError, "params holds a ndarray"),
    (lambda p: SGD([p], lr=-0.1), ValueError, "lr is -0.1"),
    (lambda p: SGD([p], lr=float("nan")), ValueError, "lr is nan"),
    (lambda p: SGD([p], lr=True), TypeError, "lr is True"),
    (lambda p: SGD([p], lr="0.1"), TypeError, "lr is '0.1'"),
    (lambda p: SGD([p], lr=0.1, momentum=-1), ValueError, "momentum is -1"),
    (lambda p: SGD([p], lr=0.1, weight_decay=float("inf")), ValueError, "weight_decay is inf"),
    (lambda p: Adam([p], betas=0.9), ValueError, "betas is 0.9"),
    (lambda p: Adam([p], betas=(0.9,)), ValueError, "want two numbers"),
    (lambda p: Adam([p], betas=(0.9, 1.0)), ValueError, "beta is 1.0"),
    (lambda p: Adam([p], eps=-1e-8), ValueError, "eps is"),
])
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make(trainable([1.0]))


def test_parameters_may_come_from_a_generator():
    layer = Linear(2, 2)
    assert len(SGD((p for p in layer.parameters()), lr=0.1).params) == 2


def test_an_optimizer_of_ones_own():
    class Sign(Optimizer):
        def update(self, p, g, memory):
            return p - self.lr * ((g > 0).astype(p.dtype) - (g < 0).astype(p.dtype)), {}

    p = trainable([1.0, 1.0, 1.0])
    step_with(Sign([p], lr=0.25), [7.0, -0.01, 0.0])
    assert p.data.tolist() == [0.75, 1.25, 1.0]
