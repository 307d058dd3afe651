"""What is stored, and that looking changes nothing: parameters of any model, the state guard, made inputs."""

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, default_generator, manual_seed
from tinytorch.core.tensor import Tensor, hollow, shape_only, thread_state
from tinytorch.perf.profiling import (
    count_flops,
    count_parameters,
    flop_report,
    forward_of,
    make_input,
    measure_memory,
    storage,
    training_memory,
    untouched,
    weight_bytes,
)


class Holder:
    """A plain object: whatever is given becomes an attribute."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def square(n, bias=True):
    return Linear(n, n, bias=bias)


# ---------------------------------------------------------------- parameters


def test_published_sizes_of_layers():
    assert count_parameters(Linear(128, 64)) == 128 * 64 + 64 == 8256
    assert count_parameters(Linear(768, 3072)) == 768 * 3072 + 3072 == 2_362_368
    assert count_parameters(Linear(10, 5)) == 55
    assert count_parameters(Linear(256, 128)) == 256 * 128 + 128 == 32_896
    assert count_parameters(Sequential(Linear(64, 32), ReLU(), Linear(32, 10))) == 2410


def test_a_layer_shared_by_two_parents():
    shared = square(10, bias=False)
    assert count_parameters(Sequential(Sequential(shared), Sequential(shared))) == 100


def test_three_blocks_sharing_one_relu():
    relu = ReLU()
    blocks = [Sequential(square(4), relu, square(4)) for _ in range(3)]
    assert count_parameters(Sequential(*blocks)) == 3 * 2 * (4 * 4 + 4) == 120


def test_tied_table():
    table = Tensor(np.zeros((100, 16), np.float32), requires_grad=True)
    assert count_parameters([table, Tensor(table.data.T)]) == 1600
    assert count_parameters([table, Tensor(table.data.reshape(16, 100))]) == 1600
    assert count_parameters([table, Tensor(table.data.copy())]) == 3200  # a copy is another memory


def test_a_parameter_that_belongs_to_no_layer():
    class Scaled(Layer):
        def __init__(self):
            self.a, self.b, self.scale = square(2), square(2), Tensor([1.0, 1.0], requires_grad=True)

    assert count_parameters(Scaled()) == 2 * 6 + 2 == 14


def test_nothing_to_count():
    for model in (Sequential(), ReLU(), Tensor(np.zeros((3, 4))), Holder(), [], {}, None, 3, "text", len):
        assert count_parameters(model) == 0


def test_layers_in_lists_and_dicts():
    model = Holder(blocks=[square(2), {"left": square(3)}], pair=(square(1),))
    assert count_parameters(model) == 6 + 12 + 2


@pytest.mark.parametrize(
    "model",
    [
        Holder(weight=Tensor(np.zeros((3, 4))), bias=Tensor(np.zeros(4))),
        Holder(weight=np.zeros((3, 4)), bias=np.zeros(4)),
        Holder(weight=np.zeros((3, 4), np.int8), bias=np.zeros(4)),
        Holder(parameters=lambda: [Tensor(np.zeros((3, 4))), Tensor(np.zeros(4))]),
        Holder(parameters=lambda: {"w": np.zeros((3, 4)), "b": np.zeros(4)}),
        Holder(layers=[Holder(weight=np.zeros((3, 4))), Holder(weight=None, bias=np.zeros(4))]),
        Sequential(Holder(weight=np.zeros(12)), Holder(parameters=lambda: (Tensor(np.zeros(4)) for _ in range(1)))),
    ],
)
def test_models_that_are_no_layers(model):
    assert count_parameters(model) == 3 * 4 + 4


def test_weight_on_the_class_and_in_slots():
    class OnClass:
        weight = Tensor(np.zeros(7))

    class Slots:
        __slots__ = ("weight",)

        def __init__(self):
            self.weight = Tensor(np.zeros(7))

    assert count_parameters(OnClass()) == count_parameters(Slots()) == 7


def test_buffers_of_a_layer_are_no_parameters():
    class Norm(Layer):
        def __init__(self):
            self.weight, self.running_mean = Tensor(np.ones(4), requires_grad=True), np.zeros(4)

    assert count_parameters(Norm()) == 4


def test_trainable_only():
    model = Sequential(square(2), square(2))
    model.layers[0].weight.requires_grad = False
    assert count_parameters(model) == 12
    assert count_parameters(model, trainable_only=True) == 12 - 4
    frozen_view = Tensor(model.layers[1].weight.data.T)  # shows trainable memory
    for order in ([model, frozen_view], [frozen_view, model]):
        assert count_parameters(order, trainable_only=True) == 8


def test_hollow_weights_are_counted_and_stay_apart():
    with shape_only():
        model = Sequential(square(50_000), square(50_000))
    assert count_parameters(model) == 2 * (50_000**2 + 50_000)
    assert type(count_parameters(model)) is int


def test_a_model_that_contains_itself():
    parent = Sequential(square(3))
    parent.layers[0].parent = parent
    assert count_parameters(parent) == 12


def test_storage_tells_memory_apart():
    a = np.zeros((6, 4), np.float32)
    assert storage(a) == storage(a.T) == storage(a.reshape(-1)) == storage(a[::-1])
    assert len({storage(part) for part in (a, a[:3], a[3:], a[:, :2], a[:, 2:])}) == 5
    assert storage(hollow((3, 4))) != storage(hollow((3, 4), np.int8))


def packed():
    """A (4, 12) memory and the three (4, 4) slices of it that attention would call q, k and v."""
    whole = Tensor(np.ones((4, 12), np.float32), requires_grad=True)
    return whole, [Tensor(whole.data[:, i : i + 4], requires_grad=True) for i in (0, 4, 8)]


def test_a_packed_weight_and_its_slices_are_one_memory():
    whole, slices = packed()
    assert count_parameters(slices) == count_parameters([whole, *slices]) == count_parameters([*slices, whole.T]) == 48
    assert count_parameters([whole, slices[0]], trainable_only=True) == 48
    whole.requires_grad = False
    assert count_parameters([whole, *slices], trainable_only=True) == 48 == count_parameters([whole, *slices])
    assert count_parameters([whole, slices[1]], trainable_only=True) == 16
    assert weight_bytes([whole, *slices]) == 48 * 4 and weight_bytes([whole, slices[1]], trainable_only=True) == 64
    assert weight_bytes([whole, *slices], dtype=np.float16) == 96


@given(st.lists(st.tuples(*[st.integers(0, 5), st.integers(1, 6), st.sampled_from([-2, -1, 1, 2, 3])] * 2), max_size=5))
def test_every_number_counts_once_however_it_is_sliced(cuts):
    memory = np.zeros((6, 7), np.float32)
    views = [memory[a : a + n : s if s > 0 else 1, b : b + m : t if t > 0 else 1][:: np.sign(s), :: np.sign(t)]
             for a, n, s, b, m, t in cuts]
    shown = memory.copy()
    for view in views:
        view += 1  # marks in ``memory``
    seen = int((memory != shown).sum())
    assert count_parameters([Tensor(view) for view in views]) == seen


def test_interleaved_and_separate_memories():
    memory = np.zeros(12, np.float32)
    even, odd, third = (Tensor(memory[start::step]) for start, step in ((0, 2), (1, 2), (0, 3)))
    assert count_parameters([even, odd]) == 12
    assert count_parameters([even, third]) == 6 + 4 - 2  # 0 and 6 are in both
    assert count_parameters([even, Tensor(memory[0::2].copy())]) == 12  # a copy is another memory
    assert count_parameters([Tensor(memory.view(np.int8)[:4]), Tensor(np.zeros(3, np.int8))]) == 7


def test_hollow_slices_of_a_hollow_weight():
    with shape_only():
        whole = square(1000).weight
        slices = [whole[:, :250], whole[:, 250:]]
    assert count_parameters([whole, *slices]) == 10**6
    assert count_parameters([whole, slices[1]]) == count_parameters([whole, whole.T]) == 10**6


def test_reports_count_overlapping_weights_once():
    class Packed(Layer):
        def __init__(self):
            self.whole, slices = packed()
            self.q, self.k, self.v = slices

        def forward(self, x):
            return x @ self.q + x @ self.k

    report = flop_report(Packed(), (2, 4))
    assert report.parameters == report.by_layer.parameters == 48
    assert measure_memory(Packed(), (2, 4))["parameter_memory_mb"] == 192 / 1024**2
    assert training_memory(Packed(), (2, 4))["parameters"] == 192


# ---------------------------------------------------------------- the guard


class Restless(Layer):
    """Changes everything about itself that a forward pass can change."""

    def __init__(self, fail=False):
        self.linear, self.fail = square(3), fail
        self.mean, self.calls, self.log, self.table, self.seen = np.zeros(3), 0, [], {"n": 0}, {1}
        self.rng, self.old, self.legacy = np.random.default_rng(1), random.Random(1), np.random.RandomState(1)
        self.drop = Dropout(0.5)

    def forward(self, x):
        self.calls += 1
        self.mean += 1
        self.log.append(self.calls)
        self.table["n"], self.table["new"] = 1, 2
        self.seen.add(2)
        self.fresh = object()
        self.training = False
        self.rng.random(), self.old.random(), self.legacy.rand(), np.random.rand(), random.random()
        default_generator().random()
        self.linear.weight.requires_grad = False
        self.linear.bias.grad = Tensor([9.0])
        self.linear.bias.data = np.zeros(3, np.float32)
        if self.fail:
            raise RuntimeError("half way")
        return self.linear(self.drop(x))


def picture_of(model):
    """Everything about a Restless that must not change."""
    bias = model.linear.bias
    return (
        model.calls,
        model.mean.tolist(),
        list(model.log),
        dict(model.table),
        set(model.seen),
        sorted(vars(model)),
        model.training,
        str(model.rng.bit_generator.state),
        model.old.getstate(),
        model.legacy.get_state()[1].tolist(),
        model.linear.weight.requires_grad,
        id(bias.grad),
        bias.grad.data.tolist(),
        id(bias.data),
        str(default_generator().bit_generator.state),
        np.random.get_state()[1].tolist(),
        random.getstate(),
    )


CALLS = {
    "count_flops": lambda model: count_flops(model, (2, 3)),
    "flop_report": lambda model: flop_report(model, (2, 3)),
    "measure_memory": lambda model: measure_memory(model, (2, 3)),
    "training_memory": lambda model: training_memory(model, (2, 3)),
    "make_input": lambda model: make_input(model, (2, 3)),
    "count_parameters": count_parameters,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fail", [False, True], ids=["well", "raising"])
def test_nothing_is_changed(call, fail):
    model = Restless(fail)
    model.linear.bias.grad = Tensor([1.0, 2.0, 3.0])
    before = picture_of(model)
    if fail and call not in (CALLS["make_input"], CALLS["count_parameters"]):
        with pytest.raises(RuntimeError, match="^half way$"):
            call(model)
    else:
        call(model)
    assert picture_of(model) == before
    assert not tracemalloc.is_tracing()


def test_wrong_features_leave_everything_as_it_was():
    model = Restless()
    model.linear.bias.grad = Tensor([1.0, 2.0, 3.0])
    before = picture_of(model)
    for call in (count_flops, flop_report, measure_memory, training_memory):
        with pytest.raises(ValueError, match="last axis is 5, want 3"):
            call(model, (2, 5))
        assert picture_of(model) == before


def test_gradients_start_from_none_inside_the_guard_and_come_back():
    model = square(2)
    (model(Tensor(np.ones((1, 2)))) * 1.0).sum().backward()
    grads = [p.grad for p in model.parameters()]
    values = [g.data.copy() for g in grads]
    with untouched(model):
        assert [p.grad for p in model.parameters()] == [None, None]
        (model(Tensor(np.ones((1, 2)))) * 5.0).sum().backward()
        assert model.bias.grad.data.tolist() == [5.0, 5.0]
    for parameter, grad, value in zip(model.parameters(), grads, values):
        assert parameter.grad is grad
        assert np.array_equal(grad.data, value)


def test_the_guard_covers_weights_that_only_parameters_lists():
    hidden = Tensor(np.zeros(3), requires_grad=True)
    model = Holder(parameters=lambda: [hidden], forward=lambda x: x * hidden)
    data = hidden.data
    assert training_memory(model, (2, 3))["parameters"] == 12
    assert hidden.data is data


def test_counting_draws_nothing_that_dropout_would():
    manual_seed(3)
    expected = default_generator().random(4).tolist()
    manual_seed(3)
    model = Sequential(square(3), Dropout(0.5))
    manual_seed(3)
    count_flops(model, (2, 3))
    measure_memory(model, (2, 3))
    assert default_generator().random(4).tolist() == expected


# ---------------------------------------------------------------- what can be run


@pytest.mark.parametrize("call", [count_flops, flop_report, measure_memory, training_memory])
@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Holder(weight=np.zeros((3, 4))), "Holder has no forward"),
        (Holder(layers=[Linear(3, 4)]), "wrap its layers: Sequential"),
        (Linear, "the class Linear came"),
        ([Linear(3, 3)], "a list has no forward"),
        (None, "a NoneType has no forward"),
    ],
)
def test_without_forward(call, model, says):
    with pytest.raises(ValueError, match=says):
        call(model, (1, 3))


@pytest.mark.parametrize("call", [count_flops, flop_report, measure_memory, training_memory])
@pytest.mark.parametrize("answer", [None, 3.0, np.zeros(2), []])
def test_forward_that_returns_no_tensor(call, answer):
    def plain(x):
        return answer

    with pytest.raises(TypeError, match="^plain returned a .*; want a Tensor"):
        call(plain, (1, 3))
    with pytest.raises(TypeError, match="Holder.forward returned a .*; want a Tensor"):
        call(Holder(forward=lambda x: answer), (1, 3))


@pytest.mark.parametrize("call", [count_flops, flop_report, measure_memory, training_memory, make_input])
@pytest.mark.parametrize(
    ("shape", "error", "says"),
    [
        ((), ValueError, "empty"),
        ((0, 3), ValueError, r"input_shape\[0\] is 0"),
        ((2, -3), ValueError, r"input_shape\[1\] is -3"),
        ((2, 3.0), TypeError, r"input_shape\[1\] is 3.0"),
        ((True, 3), TypeError, r"input_shape\[0\] is True"),
        (3, TypeError, "input_shape is 3; want a tuple"),
        ("23", TypeError, "input_shape is '23'"),
        (Tensor([[1.0]]), TypeError, "give its .shape"),
    ],
)
def test_bad_shapes(call, shape, error, says):
    with pytest.raises(error, match=says):
        call(Linear(3, 3), shape)
    assert not thread_state().shape_only


def test_any_callable_and_any_forward_can_run():
    w = Tensor(np.ones((3, 2)), requires_grad=True)
    assert count_flops(lambda x: x @ w, (5, 3)) == 12
    assert count_flops(Holder(forward=lambda x: x @ w), (5, 3)) == 12
    assert forward_of(Linear(3, 2))(Tensor([[1.0, 2.0, 3.0]])).shape == (1, 2)


def test_several_outputs():
    model = Holder(forward=lambda x: {"twice": x * 2.0, "more": [x + 1.0]})
    assert count_flops(model, (5, 3)) == 6
    assert measure_memory(model, (5, 3))["output_mb"] == 2 * 60 / 1024**2


# ---------------------------------------------------------------- inputs


def test_made_inputs_are_private_and_repeat():
    model = square(3)
    before = np.random.get_state()[1].tolist(), str(default_generator().bit_generator.state)
    a, b = make_input(model, (50, 3)), make_input(model, [50, 3])
    assert a.shape == (50, 3) and a.dtype == np.float32
    assert np.array_equal(a.data, b.data) and 0.8 < a.data.std() < 1.2
    assert (np.random.get_state()[1].tolist(), str(default_generator().bit_generator.state)) == before
    assert make_input(model, (2, 3), np.float64).dtype == np.float64


def test_whole_numbers_where_the_input_is_an_index():
    table = Tensor(np.ones((10, 4)), requires_grad=True)
    model = Holder(table=table, forward=lambda ids: table[ids.data])
    x = make_input(model, (1, 5))
    assert x.dtype == np.int64 and x.data.max() < 10
    assert count_flops(model, (1, 5)) == 0  # a gather costs nothing
    assert count_parameters(model) == 40
    assert measure_memory(model, (1, 5))["input_mb"] == 5 * 8 / 1024**2
    assert training_memory(model, (1, 5))["input"] == 40
