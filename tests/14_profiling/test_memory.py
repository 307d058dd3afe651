"""What is held: tracing as a good guest, what a graph keeps, the books of one pass and of training."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import GELU, ReLU, softmax
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, shape_only
from tinytorch.perf import profiling
from tinytorch.perf.profiling import (
    buffer,
    kept_arrays,
    make_input,
    measure_memory,
    trace_memory,
    training_categories,
    training_memory,
    weight_arrays,
)

MB = 1024**2
SLACK = 20_000  # Python's own objects in a traced pass, in bytes


@pytest.fixture
def session():
    """A caller's own tracemalloc session."""
    tracemalloc.start()
    yield
    assert tracemalloc.is_tracing()
    tracemalloc.stop()


class Attention(Layer):
    """One layer with views, copies, constants and two contractions of its own."""

    def __init__(self, dim, heads):
        self.heads, self.inward, self.out = heads, Linear(dim, dim), Linear(dim, dim)

    def forward(self, x):
        B, T, D = x.shape
        q = self.inward(x).reshape(B, T, self.heads, -1).transpose(0, 2, 1, 3)
        mixed = softmax(q @ q.T * 0.5) @ q
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(B, T, D)) + x


# ---------------------------------------------------------------- trace_memory


def test_a_traced_buffer_has_its_nominal_size():
    for n in (0, 1, 1000, 10**7):
        traced = trace_memory(lambda n=n: np.zeros(n, np.uint8))  # not touched, yet counted
        assert n <= traced.growth <= n + 4096 and traced.peak >= traced.growth  # a test runner's thread may allocate
        assert traced.result.nbytes == n


def test_growth_may_be_negative_and_the_peak_may_not():
    held = []

    def fill_and_empty():
        tracemalloc_sees = np.zeros(10**6, np.uint8)
        held.append(tracemalloc_sees)

    tracemalloc.start()
    fill_and_empty()
    traced = trace_memory(held.clear)
    tracemalloc.stop()
    assert traced.growth < -900_000 and 0 <= traced.peak < SLACK


def test_a_callers_session_survives_with_its_peak(session):
    big = np.ones(8 * MB, np.uint8)
    before = tracemalloc.get_traced_memory()[1]
    del big
    traced = trace_memory(lambda: np.ones(MB, np.uint8))
    assert MB <= traced.peak < MB + SLACK  # not the caller's eight
    assert before <= tracemalloc.get_traced_memory()[1] < before + SLACK


def test_a_callers_peak_grows_when_ours_was_higher(session):
    trace_memory(lambda: np.ones(8 * MB, np.uint8).sum())
    assert tracemalloc.get_traced_memory()[1] > 8 * MB


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_errors_leave_tracing_off(error):
    def fail():
        raise error("stop")

    with pytest.raises(error, match="^stop$"):
        trace_memory(fail)
    assert not tracemalloc.is_tracing()


def test_errors_leave_a_callers_session_on(session):
    big = np.ones(8 * MB, np.uint8)
    before = tracemalloc.get_traced_memory()[1]
    del big
    with pytest.raises(ZeroDivisionError):
        trace_memory(lambda: 1 / 0)
    assert tracemalloc.get_traced_memory()[1] >= before


def test_tracing_inside_tracing():
    inner = []
    outer = trace_memory(
        lambda: (np.ones(4 * MB, np.uint8).sum(), inner.append(trace_memory(lambda: np.ones(MB, np.uint8).sum())))
    )
    assert MB <= inner[0].peak < 2 * MB and 4 * MB <= outer.peak < 5 * MB


def test_garbage_of_others_is_not_counted():
    class Loop:
        pass

    gc.disable()
    try:
        loop = Loop()
        loop.me, loop.block = loop, np.zeros(5 * MB, np.uint8)
        del loop
        assert trace_memory(lambda: None).growth > -SLACK
        assert not gc.isenabled()
    finally:
        gc.enable()


# ---------------------------------------------------------------- kept_arrays


def test_buffers_of_views():
    a = np.zeros((4, 6))
    assert buffer(a) is a and buffer(a.T[1:].reshape(2, -1)[0]) is not None
    assert buffer(a.T) is a and buffer(a[1:, ::2]) is a and buffer(np.frombuffer(b"abcd", np.int8)).nbytes == 4


def test_a_slice_keeps_the_whole_buffer():
    w = Tensor(np.ones((100, 10)), requires_grad=True)
    y = (w * w)[:1]
    assert sum(a.nbytes for a in kept_arrays(y, [w.data])) == 100 * 10 * 4


def test_constants_and_several_outputs():
    w = Tensor(np.ones(10), requires_grad=True)
    a, b = w * 2.0, w * w
    assert sorted(x.nbytes for x in kept_arrays([a, {"b": b}], [w.data])) == [4, 40, 40]  # the 2.0 is held as well
    assert kept_arrays(w, [w.data]) == []


def test_a_view_of_an_excluded_array_is_excluded():
    w = Tensor(np.ones((3, 4)), requires_grad=True)
    assert kept_arrays(w.T.reshape(12), [w.data]) != []  # this one had to copy
    assert kept_arrays(w.T, [w.data]) == [] == kept_arrays(w, [w.data.T])


# ---------------------------------------------------------------- measure_memory


def test_keys_and_types():
    result = measure_memory(Linear(3, 4), (2, 3))
    assert set(result) == {
        "parameter_memory_mb",
        "activation_memory_mb",
        "peak_memory_mb",
        "memory_efficiency",
        "input_mb",
        "output_mb",
        "temporaries_mb",
        "graph",
        "assumptions",
        "omissions",
        "workload",
    }
    said = ("graph", "assumptions", "omissions", "workload")
    assert all(type(value) is float for key, value in result.items() if key not in said)
    assert any("dtype" in text for text in result["assumptions"])
    assert any("BLAS" in text for text in result["omissions"])


def test_what_was_traced_is_written_down_with_its_gradient_mode():
    said = measure_memory(Linear(3, 4), (2, 3))["workload"]
    assert (said["model"], said["shapes"], said["dtypes"], said["mode"]) == ("Linear", [[2, 3]], ["float32"], "train")
    assert said["gradient"] == "kept where wanted" and {"numpy", "blas", "blas_threads", "cpu", "python"} <= set(said)
    with no_grad():
        assert measure_memory(Linear(3, 4).eval(), (2, 3))["workload"]["gradient"] == "no_grad"


def test_it_is_said_when_tracemalloc_does_not_see_numpys_buffers(monkeypatch):
    profiling._sees_buffers.cache_clear()
    assert profiling._sees_buffers()  # np.zeros(n) traces as n and at most 1 KiB
    assert profiling.UNSEEN not in measure_memory(Linear(3, 4), (2, 3))["omissions"]
    profiling._sees_buffers.cache_clear()
    monkeypatch.setattr(profiling, "trace_memory", lambda function: profiling.Traced(function(), 300, 300))
    assert measure_memory(Linear(3, 4), (2, 3))["omissions"][-1] == profiling.UNSEEN
    profiling._sees_buffers.cache_clear()


def test_the_books_of_a_training_pass():
    model, n = Sequential(Linear(100, 300), ReLU(), Linear(300, 10)), 200
    result = measure_memory(model, (n, 100))
    assert result["graph"] == "kept"
    assert result["parameter_memory_mb"] * MB == 4 * (100 * 300 + 300 + 300 * 10 + 10)
    assert result["activation_memory_mb"] * MB == 4 * n * (300 + 300 + 10)  # hidden, rectified, output
    assert (result["input_mb"] * MB, result["output_mb"] * MB) == (4 * n * 100, 4 * n * 10)
    peak = sum(result[key] for key in ("parameter_memory_mb", "input_mb", "activation_memory_mb")) * MB
    assert peak <= result["peak_memory_mb"] * MB < peak + SLACK
    assert 0.95 < result["memory_efficiency"] <= 1


def test_nothing_is_kept_for_inference():
    model, n = Sequential(Linear(100, 300), ReLU(), Linear(300, 10)), 200
    with no_grad():
        off = measure_memory(model, (n, 100))
    for parameter in model.parameters():
        parameter.requires_grad = False
    frozen = measure_memory(model, (n, 100))
    for result in (off, frozen):
        assert (result["graph"], result["activation_memory_mb"]) == ("none", 0.0)
        # while the ReLU runs, its input and its output are alive
        assert 2 * 4 * n * 300 <= result["temporaries_mb"] * MB + result["output_mb"] * MB + SLACK
        assert 0 < result["memory_efficiency"] < 0.7


def test_partly_frozen():
    model, n = Sequential(Linear(100, 300), Linear(300, 10)), 200
    for parameter in model.layers[0].parameters():
        parameter.requires_grad = False
    # the second layer still needs its input for its weight's gradient
    assert measure_memory(model, (n, 100))["activation_memory_mb"] * MB == 4 * n * (300 + 10)


class Run(Layer):
    """A layer that runs a function."""

    def __init__(self, run):
        self.run = run

    def forward(self, x):
        return self.run(x)


N = 500_000  # one array of N float32 numbers: 2 MB


@pytest.mark.parametrize(("run", "made"), [
    (lambda x: x * x + x * x, 3),  # two products, and the sum of them
    (lambda x: (x * x).sum(), 1),
    (lambda x: x * 2.0 * 2.0, 2),
    (lambda x: (x * x + x * x) * (x + x), 3)])  # a sum of products, then x + x while it waits, then their product
def test_the_peak_without_a_graph_is_the_sum_by_hand(run, made):
    got = measure_memory(Run(run), (2, N // 2))
    assert got["peak_memory_mb"] * MB == pytest.approx((1 + made) * 4 * N, rel=0.02) and got["graph"] == "none"


@pytest.mark.parametrize(("run", "made"), [
    (lambda x, w: (x * w) * w, 2),  # both products are kept
    (lambda x, w: (x * w) * (x * w) + w, 4),
    (lambda x, w: (x * w).reshape(N).sum(), 1)])
def test_the_peak_with_a_graph_is_the_sum_by_hand(run, made):
    class Scale(Layer):
        def __init__(self):
            self.weight = Tensor(np.ones((2, N // 2)), requires_grad=True)

        def forward(self, x):
            return run(x, self.weight)

    got = measure_memory(Scale(), (2, N // 2))
    assert got["peak_memory_mb"] * MB == pytest.approx((2 + made) * 4 * N, rel=0.02)  # input, weight
    assert got["activation_memory_mb"] * MB == pytest.approx(made * 4 * N, rel=0.001)


@pytest.mark.parametrize("grad", [True, False])
def test_the_peak_of_a_chain_is_the_sum_by_hand(grad):
    n, wide, out = 2_000, 500, 100
    model = Sequential(Linear(50, wide), ReLU(), Linear(wide, wide), ReLU(), Linear(wide, out))
    for parameter in model.parameters():
        parameter.requires_grad = grad
    got = measure_memory(model, (n, 50))
    weights = 4 * (50 * wide + wide + wide * wide + wide + wide * out + out)
    hidden, given, last = 4 * n * wide, 4 * n * 50, 4 * n * out
    # with a graph all four hidden arrays live on; without one, an op's input and output, and no more
    alive = 4 * hidden + last if grad else 2 * hidden
    assert got["peak_memory_mb"] * MB == pytest.approx(weights + given + alive, rel=0.02)
    assert got["parameter_memory_mb"] * MB == weights


@pytest.mark.parametrize(("dtype", "each"), [(np.int8, 1), (np.float16, 2), (np.float32, 4), (np.float64, 8)])
def test_every_type_weighs_what_it_weighs(dtype, each):
    class Held(Layer):
        def __init__(self):
            self.weight = Tensor(np.ones((1000, 1000), dtype), dtype=dtype)

        def forward(self, x):
            return x

    assert measure_memory(Held(), (1, 2))["parameter_memory_mb"] * MB == each * 10**6
    assert training_memory(Held(), (1, 2))["parameters"] == each * 10**6


def test_temporaries_are_seen():
    class Wasteful(Layer):
        def forward(self, x):
            return x * x + x * x

    result = measure_memory(Wasteful(), (1000, 250))
    assert result["graph"] == "none" and 1_000_000 <= result["temporaries_mb"] * MB < 3_000_000
    assert measure_memory(Sequential(), (1000, 250))["temporaries_mb"] * MB < SLACK


def test_bytes_follow_the_dtype():
    class Small:
        weight = np.ones((1000, 1000), np.int8)

        def forward(self, x):
            return x * 1.0

    assert measure_memory(Small(), (1, 2))["parameter_memory_mb"] * MB == 1_000_000
    model = Linear(8, 8)
    for parameter in model.parameters():
        parameter.data = parameter.data.astype(np.float64)
    assert measure_memory(model, (2, 8))["parameter_memory_mb"] * MB == 8 * 72


def test_shared_weights_weigh_once():
    layer = Linear(10, 10)
    assert measure_memory(Sequential(layer, layer), (1, 10))["parameter_memory_mb"] * MB == 440
    assert len(weight_arrays([layer.weight, Tensor(layer.weight.data.T)])) == 1


def test_identity_models_and_buffers():
    class Buffered(Layer):
        def __init__(self):
            self.table, self.scale = np.ones((500, 500), np.float32), Tensor([1.0], requires_grad=True)

        def forward(self, x):
            return x * self.scale * Tensor(self.table)

    result = measure_memory(Buffered(), (500, 500))  # two products are kept; the buffer was there before
    assert result["activation_memory_mb"] == 2 * 1_000_000 / MB and result["memory_efficiency"] <= 1
    for model in (Sequential(), Tensor([1.0])):
        result = measure_memory(model, (10, 10))
        assert (result["activation_memory_mb"], result["parameter_memory_mb"], result["graph"]) == (0.0, 0.0, "none")
        assert 0 < result["memory_efficiency"] <= 1


def test_measuring_inside_a_callers_session(session):
    big = np.ones(8 * MB, np.uint8)
    before = tracemalloc.get_traced_memory()[1]
    del big
    alone = measure_memory(Linear(64, 64), (32, 64))
    assert alone["peak_memory_mb"] < 0.2
    assert tracemalloc.get_traced_memory()[1] >= before
    with pytest.raises(ValueError, match="last axis is 5"):
        measure_memory(Linear(64, 64), (32, 5))


# ---------------------------------------------------------------- training


def test_the_worked_case():
    # 132 parameters of 8 bytes; parameters, gradients and Adam's two arrays: 4 x 1,056; then 12 x 32 in and 12 x 4 out
    held = training_memory(Linear(32, 4), (12, 32), dtype=np.float64)
    assert held["total_bytes"] == 4 * 132 * 8 + 12 * 32 * 8 + 12 * 4 * 8 == 7680
    assert training_memory(Linear(32, 4), (24, 32), "adamw", np.float64)["total_bytes"] == 4224 + 2 * 3456 == 11_136
    real = Linear(32, 4)
    for parameter in real.parameters():
        parameter.data = parameter.data.astype(np.float64)
    assert training_memory(real, (12, 32))["total_bytes"] == 7680  # weights that are float64 already


def test_optimizers():
    model = Linear(10, 10)
    states = {
        name: training_memory(model, (1, 10), name)["optimizer_state"]
        for name in ("sgd", "sgd_momentum", "adam", "adamw")
    }
    assert states == {"sgd": 0, "sgd_momentum": 440, "adam": 880, "adamw": 880}
    with pytest.raises(ValueError, match="optimizer is 'lion'; want one of sgd, sgd_momentum, adam, adamw"):
        training_memory(model, (1, 10), "lion")


def test_the_envelope():
    held = training_categories(496, 496, 2, 200, 0, 0)  # GPT-2 small in decimal MB
    assert held["total_bytes"] == 496 + 200 + 496 + 992 == 2184 and round(2184 / 496, 2) == 4.40


def test_frozen_parameters_have_no_gradient_and_no_state():
    model = Sequential(Linear(10, 20), ReLU(), Linear(20, 5))
    for parameter in model.layers[0].parameters():
        parameter.requires_grad = False
    held = training_memory(model, (4, 10))
    assert (held["parameters"], held["gradients"], held["optimizer_state"]) == (4 * (220 + 105), 420, 840)
    assert held["activations"] == 4 * 4 * 20  # only the input of the second layer
    for parameter in model.layers[2].parameters():
        parameter.requires_grad = False
    assert training_memory(model, (4, 10))["activations"] == 0


def test_categories_add_up_and_are_explained():
    held = training_memory(Attention(8, 2), (3, 5, 8))
    names = ("parameters", "gradients", "optimizer_state", "activations", "input", "output")
    assert held["total_bytes"] == sum(held[name] for name in names) and all(type(held[name]) is int for name in names)
    assert any("adam" in text for text in held["assumptions"]) and "BLAS work space" in held["omissions"]
    half = training_memory(Attention(8, 2), (3, 5, 8), dtype=np.float16)
    assert half["total_bytes"] == held["total_bytes"] / 2 and any("float16" in text for text in half["assumptions"])


@settings(max_examples=12)
@given(st.integers(1, 4), st.integers(1, 5), st.sampled_from([1, 2]), st.integers(1, 3), st.booleans())
def test_kept_on_shapes_is_really_kept(batch, length, heads, head, deep):
    dim = heads * head
    model = Sequential(Linear(dim, dim), Attention(dim, heads), *([GELU(), Attention(dim, heads)] if deep else []))
    shape = (batch, length, dim)
    x = make_input(model, shape)
    y = model(x)
    really = sum(a.nbytes for a in kept_arrays(y, [x.data, y.data, *weight_arrays(model)]))
    assert training_memory(model, shape)["activations"] == really
    assert measure_memory(model, shape)["activation_memory_mb"] * MB == really + y.nbytes


def test_planning_needs_no_memory():
    with shape_only():
        model = Sequential(*(Linear(20_000, 20_000) for _ in range(4)))
    traced = trace_memory(lambda: training_memory(model, (1_000, 20_000)))
    n = 4 * (20_000**2 + 20_000)
    assert traced.result["total_bytes"] == 4 * 4 * n + 5 * 4 * 1_000 * 20_000 and traced.peak < MB


def test_it_works_under_no_grad_too():
    with no_grad():
        held = training_memory(Sequential(Linear(4, 8), ReLU(), Linear(8, 2)), (3, 4))
    assert held["activations"] == 2 * 3 * 8 * 4


def test_weights_are_themselves_again():
    model = Linear(4, 4)
    arrays = [parameter.data for parameter in model.parameters()]
    training_memory(model, (2, 4), dtype=np.float64)
    with pytest.raises(ValueError, match="last axis"):
        training_memory(model, (2, 5), dtype=np.float64)
    assert all(parameter.data is array for parameter, array in zip(model.parameters(), arrays))
