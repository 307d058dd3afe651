"""The walk: sums over uses and calls, memory of its own, freeing, order, scopes, threads, refusals."""

import copy
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from tinytorch.core import autograd
from tinytorch.core.activations import ReLU, relu, tanh
from tinytorch.core.autograd import FREED, backward, check_gradient, graph_order, no_grad
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.tensor import Scope, Tensor, concatenate, listen, matmul, scope, shape_only, thread_state


def leaf(*values):
    return Tensor(list(values), requires_grad=True)


# ---- what is collected

def test_every_use_counts():
    x = leaf(3.0)
    y = x * x
    (y * x + y).backward()  # x³ + x²: 3 x² + 2 x
    assert x.grad.item() == 33.0


def test_calls_add_up_and_clearing_starts_anew():
    x = leaf(1.0, 2.0)
    for expected in ([2.0, 4.0], [4.0, 8.0], [6.0, 12.0]):
        (x * x).sum().backward()
        assert x.grad.data.tolist() == expected
    x.grad = None
    (x * 5.0).sum().backward()
    assert x.grad.data.tolist() == [5.0, 5.0]


def test_an_earlier_gradient_in_other_hands_does_not_change():
    x = leaf(1.0)
    (x * 2.0).backward()
    mine = x.grad
    (x * 2.0).backward()
    assert (mine.item(), x.grad.item()) == (2.0, 4.0)


def test_leaves_alone_keep_a_gradient():
    x, data = leaf(2.0), Tensor([4.0])
    middle = x * data
    out = middle * middle
    out.backward()
    assert x.grad.item() == 64.0  # 2 · 8 · 4
    assert (middle.grad, out.grad, data.grad) == (None, None, None)


def test_a_leaf_by_itself():
    x = leaf(7.0)
    x.backward()
    x.backward([0.5])
    assert x.grad.item() == 1.5


def test_backward_is_a_method():
    assert Tensor.backward is backward


def test_a_gradient_is_a_tensor_that_wants_none():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert type(x.grad) is Tensor
    assert (x.grad.requires_grad, x.grad.made_by, x.grad.shape) == (False, None, (2,))


def test_two_results_share_their_leaves():
    x = leaf(3.0)
    a, b = x * 2.0, x * 10.0
    a.backward()
    b.backward()
    assert x.grad.item() == 12.0


def test_a_detached_branch_is_a_constant():
    x = leaf(3.0)
    (x * x.detach()).backward()
    assert x.grad.item() == 3.0


# ---- memory of its own

def share(*tensors):
    return any(np.shares_memory(a.data, b.data) for i, a in enumerate(tensors) for b in tensors[i + 1:])


@pytest.mark.parametrize("function", [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: (a + b).reshape(4),
    lambda a, b: concatenate(a, b).reshape(2, 4),
    lambda a, b: (a + b).T, lambda a, b: a.T + b.T, lambda a, b: (a + b).sum(), lambda a, b: a * b,
    lambda a, b: a[:] + b[:], lambda a, b: a.astype(np.float32) + b.astype(np.float64), lambda a, b: a + b + a + b,
], ids=["add", "subtract", "reshape", "concatenate", "transpose", "both transposed", "sum", "multiply", "index", "cast",
        "twice"])
def test_gradients_share_no_memory(function):
    a, b = Tensor(np.ones((2, 2)), requires_grad=True), Tensor(np.ones((2, 2)), requires_grad=True)
    out = function(a, b)
    given = np.ones(out.shape, out.dtype)
    out.backward(Tensor(given, dtype=out.dtype))
    assert not share(a, b, a.grad, b.grad, Tensor(given, dtype=out.dtype))
    before = b.grad.data.copy()
    a.grad.data *= 0  # an optimizer that scales in place
    assert np.array_equal(b.grad.data, before)


def test_the_gradient_given_to_a_leaf_is_copied():
    x, given = leaf(1.0, 2.0), np.array([5.0, 6.0], np.float32)
    x.backward(given)
    given[:] = 0
    assert x.grad.data.tolist() == [5.0, 6.0]


def test_a_rule_that_hands_back_an_input_or_one_tensor_twice():
    from tinytorch.core.autograd import VJP, vjp
    from tinytorch.core.tensor import broadcast_shape, op

    @op(shape=broadcast_shape)
    def product(a, b):
        return a * b

    @op(shape=broadcast_shape)
    def total(a, b):
        return a + b

    @vjp(total)
    def total_rule(g, out, a, b):
        both = g * 1.0
        return lambda: both, lambda: both

    vjp(product)(lambda g, out, a, b: (lambda: b, lambda: a))
    try:
        a, b = leaf(2.0), leaf(3.0)
        product(a, b).backward()
        assert not share(a, b, a.grad, b.grad)
        a.grad = b.grad = None
        total(a, b).backward()
        assert not share(a, b, a.grad, b.grad)
    finally:
        del VJP[product], VJP[total]


# ---- freeing

def test_the_graph_is_cut_everywhere():
    x = leaf(2.0)
    a = x * 3.0
    b = a + 1.0
    b.backward()
    assert a.made_by is FREED and b.made_by is FREED and x.made_by is None


def test_intermediates_die_during_the_walk():
    x, made, alive = leaf(*[0.5] * 10), [], []
    y = x
    for _ in range(5):
        y = tanh(y)
        made.append(weakref.ref(y))
    loss = y.sum()
    del y
    gc.disable()
    try:
        with listen(lambda event: alive.append(sum(ref() is not None for ref in made))):
            loss.backward()
    finally:
        gc.enable()
    assert alive[0] == 5
    assert alive[-1] <= 2  # the last op works for the first tanh; the one before it may not be let go of yet
    assert alive == sorted(alive, reverse=True)
    assert [ref() for ref in made] == [None] * 5


def test_a_second_walk_is_refused_and_changes_nothing():
    x = leaf(2.0)
    shared = x * x
    first, second = shared * 1.0, shared * 2.0
    first.backward()
    for again in (first, second, shared):
        with pytest.raises(RuntimeError, match="walked before and is freed"):
            again.backward()
    assert x.grad.item() == 4.0


def test_a_graph_that_is_never_walked_dies_without_recursion():
    y = leaf(1.0)
    for _ in range(30_000):
        y = y + 1.0
    del y


def test_a_chain_far_longer_than_the_recursion_limit():
    x = leaf(1.0)
    y = x
    for _ in range(10_000):
        y = y * 1.0
    assert sys.getrecursionlimit() < 10_000
    y.backward()
    assert x.grad.item() == 1.0


def test_a_thousand_doublings_of_paths():
    x = Tensor([1.0], True, np.float64)
    y = x
    for _ in range(1000):
        y = (y + y) * 0.5  # 2 to the 1000 paths
    y.backward()
    assert x.grad.item() == 1.0


# ---- order

def test_order_has_each_once_and_sources_first():
    x, w = leaf(1.0), leaf(2.0)
    a = x * w
    b = a + x
    c = a * b + 1.0
    order = graph_order(c)
    place = {id(t): i for i, t in enumerate(order)}
    assert len(place) == len(order) == 6  # x, w, a, b, a * b, c
    for t in order:
        assert all(place[id(s)] < place[id(t)] for s in (t.made_by.inputs if t.made_by else ()) if s.requires_grad)
    assert order[-1] is c


def test_what_wants_no_gradient_costs_nothing():
    x, data = leaf(1.0), Tensor([2.0])
    assert len(graph_order(x * data + data * data)) == 3  # the sum, the product, x


# ---- seeds and refusals

@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_number_needs_no_gradient(shape):
    x = Tensor(np.full(shape, 3.0), requires_grad=True)
    (x * x).backward()
    assert x.grad.shape == shape and x.grad.item() == 6.0


@pytest.mark.parametrize("shape", [(2,), (0,), (1, 2)])
def test_more_numbers_or_none_need_one(shape):
    out = Tensor(np.ones(shape), requires_grad=True) * 2.0
    with pytest.raises(ValueError) as error:
        out.backward()
    assert str(shape) in str(error.value)


@pytest.mark.parametrize("given", [np.ones(3), np.ones((1, 2)), 1.0, [[1.0], [1.0]]])
def test_a_gradient_of_another_shape_is_refused(given):
    x = leaf(1.0, 2.0)
    out = x * 2.0
    with pytest.raises(ValueError, match=r"want \(2,\)"):
        out.backward(given)
    assert x.grad is None
    out.backward(np.ones(2))  # and nothing was broken by the attempt
    assert x.grad.data.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("given", [Tensor([1.0, 10.0]), np.array([1.0, 10.0]), [1, 10], np.array([1, 10])])
def test_a_gradient_may_be_a_tensor_an_array_or_a_list(given):
    x = leaf(1.0, 2.0)
    (x * 2.0).backward(gradient=given)
    assert x.grad.data.tolist() == [2.0, 20.0] and x.grad.dtype == np.float32


def test_a_float64_gradient_keeps_its_digits():
    x, third = Tensor([1.0], True, np.float64), np.array([1 / 3])
    (x * 1.0).backward(third)
    assert x.grad.item() == 1 / 3


def test_nobody_wants_a_gradient():
    with pytest.raises(ValueError, match="requires_grad=True"):
        (Tensor([1.0]) * 2.0).backward()
    with no_grad():
        out = leaf(1.0) * 2.0
    with pytest.raises(ValueError, match="no_grad"):
        out.backward()


def test_no_rule_is_an_error_before_anything_moves():
    from tinytorch.core.tensor import op

    @op(shape=lambda a: a)
    def mystery(a):
        return a * 2

    x, w = leaf(1.0), leaf(1.0)
    out = mystery(x) + w
    with pytest.raises(ValueError, match=r"mystery: no gradient rule; write one under @vjp\(mystery\)"):
        out.backward()
    assert (x.grad, w.grad, thread_state().path) == (None, None, ())
    assert out.made_by is not FREED


def test_nothing_flows_through_ops_without_gradient():
    x = leaf(1.0, 2.0)
    ((x > 1.5) * x + x.argmax()).sum().backward()
    assert x.grad.data.tolist() == [0.0, 1.0]


def test_dropout_passes_where_it_kept_and_costs_one_product():
    x, layer, heard = leaf(*[1.0] * 100), Dropout(0.5, np.random.default_rng(0)), []
    out = layer(x)
    with listen(heard.append):
        out.backward(np.ones(100))
    assert np.array_equal(x.grad.data, out.data)  # 0 or 2, as forward
    assert [event.op.name for event in heard] == ["multiply"]


# ---- what a listener hears

def test_events_are_below_backward_and_in_their_layer():
    model, heard = Sequential(Linear(4, 8), ReLU(), Linear(8, 3)), []
    loss = CrossEntropyLoss()(model(Tensor(np.ones((5, 4)))), Tensor(np.array([0, 1, 2, 0, 1])))
    with listen(heard.append), scope("step"):
        loss.backward()
    assert {event.scope[:2] for event in heard} == {(Scope("step"), Scope("backward"))}
    first, act, last = model.layers
    products = [(event.scope[-1].owner, event.in_shapes) for event in heard if event.op is matmul]
    assert products == [(id(last), ((5, 3), (3, 8))), (id(last), ((8, 5), (5, 3))), (id(first), ((4, 5), (5, 8)))]
    assert {event.op.name for event in heard if event.scope[-1].owner == id(act)} >= {"greater", "where"}
    assert all(event.scope[2].owner in (id(model), None) or event.scope[2].name == "CrossEntropyLoss"
               for event in heard if len(event.scope) > 2)


def test_scope_listeners_hear_backward_open_and_close():
    heard, layer = [], Linear(2, 2)
    out = layer(leaf(1.0, 1.0))
    with listen(None, scopes=lambda opened, entry, time_ns: heard.append((opened, entry.name))):
        out.backward([1.0, 1.0])
    assert heard == [(True, "backward"), (False, "backward")]


def test_a_backward_pass_of_two_layers_needs_three_products():
    """784-128-10: 2 · (784 · 128 + 128 · 10) forward; the same for the weights; 2 · 1,280 for the middle."""
    model, events = Sequential(Linear(784, 128), ReLU(), Linear(128, 10)), []
    with listen(events.append):
        out = model(Tensor(np.ones((1, 784))))
        out.backward(np.ones((1, 10)))

    def flops(op_wanted):
        return sum(2 * e.in_shapes[0][0] * e.in_shapes[0][1] * e.in_shapes[1][1] for e in events if e.op is op_wanted)

    assert flops(linear) == 203_264
    assert flops(linear) + flops(matmul) == 409_088


@pytest.mark.parametrize(("wants", "flops"), [(False, 640), (True, 960)])
def test_linear_forward_and_backward(wants, flops):
    """Linear(8, 4) on (5, 8): 2 · 5 · 8 · 4 = 320 each way."""
    events, x = [], Tensor(np.ones((5, 8)), requires_grad=wants)
    with listen(events.append):
        Linear(8, 4)(x).backward(np.ones((5, 4)))
    assert sum(2 * e.in_shapes[0][0] * e.in_shapes[0][1] * e.in_shapes[1][1]
               for e in events if e.op in (linear, matmul)) == flops


def test_a_frozen_layer_gets_no_gradient_and_costs_none():
    frozen, head, events = Linear(4, 4), Linear(4, 2), []
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    out = head(relu(frozen(Tensor(np.ones((3, 4))))))
    with listen(events.append):
        out.backward(np.ones((3, 2)))
    assert [p.grad for p in frozen.parameters()] == [None, None]
    assert sum(e.op is matmul for e in events) == 1  # the head's weight alone


def test_a_tied_weight_gets_both_uses():
    class Tied(Layer):
        def __init__(self):
            self.weight = Tensor(np.arange(6.0).reshape(3, 2) / 10, requires_grad=True)

        def forward(self, x):
            return (x @ self.weight) @ self.weight.T

    model = Tied()
    w = model.weight.data
    model(Tensor(np.ones((1, 3)))).backward(np.ones((1, 3)))
    x = g = np.ones((1, 3))
    expected = x.T @ (g @ w) + g.T @ (x @ w)  # as the first factor, and as the second
    np.testing.assert_allclose(model.weight.grad.data, expected, rtol=1e-6)


def test_the_walk_is_not_remembered():
    x = leaf(2.0)
    with listen(lambda event: seen.append(thread_state().grad_enabled)):
        seen = []
        (x * x).backward()
    assert seen[1:] and not any(seen[1:])  # the first is the forward product
    assert thread_state().grad_enabled


def test_an_error_in_a_rule_leaves_the_thread_as_it_was(monkeypatch):
    def broken(g, out, a):
        raise ZeroDivisionError("inside a rule")

    monkeypatch.setitem(autograd.VJP, tanh, broken)
    out = tanh(leaf(1.0))
    with pytest.raises(ZeroDivisionError), scope("outside"):
        out.backward()
    assert (thread_state().path, thread_state().grad_enabled) == ((), True)


def test_backward_on_shapes_takes_no_memory():
    with shape_only():
        model = Sequential(Linear(100_000, 100_000), ReLU(), Linear(100_000, 10))
        model(Tensor(np.ones((1, 100_000)))).sum().backward()
        assert [p.grad.shape for p in model.parameters()] == [p.shape for p in model.parameters()]


# ---- no_grad

def test_no_grad_nests_and_survives_errors():
    x = leaf(1.0)
    with no_grad():
        with pytest.raises(KeyError), no_grad():
            raise KeyError
        assert not (x * 2.0).requires_grad
    assert (x * 2.0).requires_grad


def test_no_grad_above_a_function():
    @no_grad()
    def evaluate(x, depth=2):
        """Say it."""
        return evaluate(x, depth - 1) if depth else x * 2.0

    assert not evaluate(leaf(1.0)).requires_grad
    assert not evaluate(leaf(1.0)).requires_grad
    assert (evaluate.__name__, evaluate.__doc__) == ("evaluate", "Say it.")
    assert thread_state().grad_enabled


def test_threads_do_not_disturb_each_other():
    inside, done, results = threading.Event(), threading.Event(), {}

    def without():
        with no_grad():
            inside.set()
            done.wait(5)
            results["without"] = (leaf(1.0) * 2.0).requires_grad

    def walks(number):
        x = leaf(float(number))
        for _ in range(50):
            (x * x).sum().backward()
        results[number] = x.grad.item()

    waiting = threading.Thread(target=without)
    waiting.start()
    assert inside.wait(5)
    workers = [threading.Thread(target=walks, args=(n,)) for n in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(10)
    assert (leaf(1.0) * 2.0).requires_grad
    done.set()
    waiting.join(5)
    assert results == {"without": False, 1: 100.0, 2: 200.0, 3: 300.0}  # 50 times 2 n


# ---- check_gradient

def test_check_gradient_returns_the_largest_difference():
    assert 0 <= check_gradient(lambda a, b: (a * b).sum(), [1.0, 2.0], [3.0, 4.0]) < 1e-7
    assert check_gradient(lambda a: a * 2.0, np.zeros((0, 3), np.float32)) == 0.0


def test_check_gradient_names_the_place(monkeypatch):
    monkeypatch.setitem(autograd.VJP, tanh, lambda g, out, a: (lambda: g * (1.0 - out),))
    with pytest.raises(ValueError, match=r"argument 1 at \(0, 0\): yours .*, expected .* by differences"):
        check_gradient(lambda a, b: a + tanh(b), [1.0], [[0.5, 2.0]])


def test_check_gradient_sees_a_gradient_that_does_not_arrive():
    with pytest.raises(ValueError, match="yours 0, expected"):
        check_gradient(lambda a: Tensor(a.data, dtype=np.float64) * a.detach() + a * 0.0, [3.0])


def test_check_gradient_leaves_everything_as_it_was():
    layer, x = Linear(3, 2), leaf(1.0, 2.0, 3.0)
    layer.weight.grad = kept = Tensor(np.ones((3, 2)))
    before = layer.weight.data.copy()
    check_gradient(layer, x)
    assert layer.weight.grad is kept and layer.bias.grad is None and x.grad is None
    assert np.array_equal(layer.weight.data, before)


def test_check_gradient_passes_whole_numbers_on():
    targets = Tensor(np.array([1, 0]))
    assert check_gradient(CrossEntropyLoss(), [[1.0, 2.0], [3.0, 5.0]], targets) < 1e-7


@pytest.mark.parametrize("function", [lambda a: a.astype(np.float32), lambda a: a.argmax(), lambda a: 3.0])
def test_check_gradient_refuses_what_differences_cannot_see(function):
    with pytest.raises((ValueError, TypeError), match="float64|want a Tensor"):
        check_gradient(function, [1.0, 2.0])


def test_a_weight_tied_by_a_transposed_view_trains_step_after_step():
    """y = (x w) wᵀ with w = 3, x = 2: dy/dw = 2 x w = 12, again after every step, in a copy of the pair too."""
    weight = Tensor([[3.0]], requires_grad=True)
    tied = (weight, weight.T)
    for w, view in (tied, copy.deepcopy(tied)):
        for _ in range(2):
            w.grad = None
            ((Tensor([[2.0]]) @ w) @ view).sum().backward()
            assert w.grad.item() == 12.0
        w.data[...] = 1.0  # an optimizer writes in place
        assert view.item() == 1.0


def test_only_a_view_of_a_leaf_stays():
    x = Tensor([[1.0, 2.0]], requires_grad=True)
    middle = x * 2.0
    view = middle.T
    view.sum().backward()
    assert middle.made_by is FREED and view.made_by is FREED
