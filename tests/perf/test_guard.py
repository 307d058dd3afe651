"""Instruments inside instruments, tensors that belong to nobody: what is found is right, what is left as before."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

from tinytorch.core.activations import ReLU, Sigmoid
from tinytorch.core.layers import Layer, Linear
from tinytorch.core.tensor import Tensor, is_heard, listen, op, same_shape, shape_only
from tinytorch.perf.profiling import (
    MachineLimits,
    Profiler,
    count_flops,
    count_parameters,
    latency_statistics,
    measure_latency,
    profile_backward_pass,
    profile_forward_pass,
    profile_layer,
    quick_profile,
    roofline,
    untouched,
)

MACHINE = MachineLimits(peak_gflops=50, bandwidth_gbs=20, dispatch_us=5)


class Nosy(Layer):
    """Times its own layer in every forward pass."""

    def __init__(self):
        self.inner = Linear(8, 4)

    def forward(self, x):
        measure_latency(self.inner, x, warmup=1, iterations=2, clock=int)  # real ones: test_timing_inside_timing
        return self.inner(x)


def test_profiling_inside_profiling_counts_the_model_alone():
    x = Tensor(np.ones((1, 8)))
    found = profile_forward_pass(Nosy(), x, limits=MACHINE, iterations=2)["flops"]
    assert found == 2 * 8 * 4  # the passes of the inner stopwatch are not the model's


def test_a_listener_outside_hears_the_model_but_not_the_instrument():
    heard, nosy = [], Nosy()
    with listen(heard.append):
        nosy(Tensor(np.ones((1, 8))))
    assert [event.op.name for event in heard] == ["linear"]


def test_those_who_listen_to_all_threads_do_not_hear_the_instrument_nor_slow_it():
    heard, told, x, layer = [], [], Tensor(np.ones((1, 8))), Linear(8, 4)

    class Asking(Layer):
        def forward(self, x):
            asked.append(is_heard())
            return layer(x)

    asked: list[bool] = []
    with listen(heard.append, lambda *entry: told.append(entry), all_threads=True):
        stats = latency_statistics(Asking(), x, warmup=1, iterations=2)
        count_flops(layer, (1, 8))
        profile_backward_pass(layer, x, limits=MACHINE, iterations=2)
    assert (heard, told) == ([], [])
    assert set(asked) == {False}
    assert any("somebody listens" in said for said in stats["warnings"])
    assert not any("listens" in said for said in latency_statistics(layer, x, 1, 2)["warnings"])


def test_a_run_inside_a_guard_is_heard_from_inside():
    heard, layer = [], Linear(8, 4)
    with untouched(layer), listen(heard.append, all_threads=True):
        layer(Tensor(np.ones((1, 8))))
    assert [event.op.name for event in heard] == ["linear"]


@pytest.mark.parametrize("kind", ["a function", "a bound method", "a loss with weights"])
def test_gradients_of_whatever_tensor_come_back(kind):
    weight, layer = Tensor(np.ones((8, 4)), requires_grad=True), Linear(8, 4)
    mine = weight.grad = Tensor(np.full((8, 4), 7.0))
    x, loss_fn = Tensor(np.ones((2, 8))), None
    model = {"a function": lambda x: x @ weight, "a bound method": layer.forward, "a loss with weights": layer}[kind]
    if kind == "a loss with weights":
        def loss_fn(output):
            return (output @ weight.T).sum()
    profile = profile_backward_pass(model, x, loss_fn, limits=MACHINE, iterations=2)
    assert weight.grad is mine
    assert (mine.data == 7).all()
    assert all(p.grad is None for p in layer.parameters())
    own = {"a function": 32, "a bound method": 36, "a loss with weights": 36 + 32}[kind]  # 8 x 4 weights, 4 biases
    assert profile["gradient_memory_mb"] == own * 4 / 1024**2


def test_the_face_counts_what_the_function_counts():
    class Fixed(Layer):
        def forward(self, x):
            return (x * 2.0).reshape(1, 8)

    assert count_flops(Fixed(), (5, 8)) == Profiler().count_flops(Fixed(), (5, 8)) == 8
    profiler = Profiler()
    profiler.count_flops(Fixed(), (5, 8))
    assert profiler.operation_counts == {"multiply": 1, "reshape": 1}


def test_a_large_list_of_numbers_is_no_tree_of_things():
    layer = Linear(2, 2)
    layer.history = list(map(float, range(200_000)))
    assert count_flops(layer, (1, 2)) == 8
    assert len(layer.history) == 200_000


def test_layers_made_inside_forward_have_their_own_rows():
    class Fresh(Layer):
        def __init__(self):
            self.fc = Linear(8, 4)

        def forward(self, x):
            return Sigmoid()(ReLU()(self.fc(x)))

    rows = profile_forward_pass(Fresh(), Tensor(np.ones((2, 8))), limits=MACHINE, clock=int)["layers"]
    # 2 rows of 8 -> 4: 2 * 2 * 8 * 4; an activation costs 1 for each of 2 * 4 elements
    assert {row["type"]: row["flops"] for row in rows} == {"Fresh": 144, "Linear": 128, "ReLU": 8, "Sigmoid": 8}


def test_an_op_without_a_cost_is_named_in_the_headline(capsys):
    @op(shape=same_shape)
    def mystery(a):
        return a * 2

    class Strange(Layer):
        def forward(self, x):
            return mystery(x) + 1.0

    quick_profile(Strange(), Tensor(np.ones((2, 4))), Profiler(limits=MACHINE, clock=int))
    assert "8 (4 per sample); without mystery: no cost rule" in capsys.readouterr().out


def test_every_measurement_carries_its_workload():
    x = Tensor(np.ones((2, 8)))
    for found in (profile_forward_pass(Linear(8, 4), x, limits=MACHINE, iterations=2),
                  profile_backward_pass(Linear(8, 4), x, limits=MACHINE, iterations=2),
                  profile_layer(Linear(8, 4), (2, 8), limits=MACHINE, iterations=2)):
        said = found["workload"]
        assert said["iterations"] == 2 and said["warmup"] >= 0  # of the timed run
        assert (said["shapes"], said["dtypes"], said["mode"]) == ([[2, 8]], ["float32"], "train")
        assert {"numpy", "blas", "blas_threads", "cpu", "python", "gradient", "stages"} <= set(said)


def test_limits_of_another_kind_are_refused_in_one_sentence():
    x = Tensor(np.ones((2, 8)))
    for call in (lambda: profile_forward_pass(Linear(8, 4), x, limits=(1, 2, 3)), lambda: roofline(1, 1, "fast"),
                 lambda: profile_backward_pass(Linear(8, 4), x, limits=5)):
        with pytest.raises(TypeError, match="want MachineLimits"):
            call()


def test_nothing_is_timed_in_a_shape_only_run():
    with shape_only(), pytest.raises(ValueError, match="shape-only"):
        measure_latency(Linear(8, 4), Tensor(np.ones((1, 8))))


def test_a_clock_that_runs_backwards_is_clamped_and_said():
    ticks = iter([0, 5, 10, 4, 20, 26, 30, 37])  # two reads a sample: 5, -6, 6, 7 ns
    stats = latency_statistics(Linear(8, 4), Tensor(np.ones((1, 8))), 0, 4, clock=lambda: next(ticks))
    assert stats["times_ms"] == [5e-6, 0.0, 6e-6, 7e-6]
    assert any("backwards in 1 sample" in said for said in stats["warnings"])


def test_slots_and_deques_are_counted_and_put_back():
    class Slotted:
        __slots__ = ("layer", "seen", "calls")

        def __init__(self):
            self.layer, self.seen, self.calls = Linear(2, 3), deque([1, 2], maxlen=2), 0

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape)
            return self.layer(x)

    model = Slotted()
    assert count_parameters(model) == 2 * 3 + 3 and count_flops(model, (1, 2)) == 2 * 2 * 3
    profile_forward_pass(model, Tensor(np.ones((1, 2))), limits=MACHINE, clock=lambda: 0)
    assert model.calls == 0 and list(model.seen) == [1, 2]


def test_a_frozen_thing_inside_a_model_is_no_obstacle():
    @dataclass(frozen=True)
    class Settings:
        __slots__ = ("width",)
        width: int

    model = Linear(2, 3)
    model.settings = Settings(7)
    assert count_flops(model, (1, 2)) == 12 and model.settings.width == 7
