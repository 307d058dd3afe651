"""Whole passes: every key, the right counts, exact rates with a clock and limits that are handed in."""

import gc
import json
import tracemalloc

import numpy as np
import pytest

from tinytorch.core.activations import ReLU, softmax
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.tensor import Tensor, listen, op, same_shape, scope, thread_state
from tinytorch.perf.profiling import (
    MachineLimits,
    Work,
    count_both_passes,
    count_flops,
    flop_report,
    layer_table,
    profile_backward_pass,
    profile_batch_sizes,
    profile_forward_pass,
    profile_layer,
    rates,
    short,
)

MACHINE = MachineLimits(peak_gflops=50, bandwidth_gbs=20, dispatch_us=5)
MEMORY = dict.fromkeys(("parameter_memory_mb", "activation_memory_mb", "peak_memory_mb", "memory_efficiency"), float)
VERDICT = {"bottleneck": str, "limited_by": str, "overhead_fraction": float, "advice": str}
LIMITED_BY = {"overhead", "compute", "memory", "mixed", "unexplained"}


class Slow(Layer):
    """Takes milliseconds of a handed clock and computes what ``inner`` computes."""

    def __init__(self, inner, tick, ms):
        self.inner, self.tick, self.ms = inner, tick, ms

    def forward(self, x):
        self.tick(self.ms)
        return self.inner(x)


def still():
    """A clock for tests in which no time needs to pass."""
    return 0


def has(result, keys):
    for key, kind in keys.items():
        assert type(result[key]) is kind, f"{key} is {result[key]!r}; want {kind.__name__}"


def ones(*shape, **more):
    return Tensor(np.ones(shape, np.float32), **more)


# ---------------------------------------------------------------- keys and types


def test_keys_of_a_layers_profile():
    got = profile_layer(Linear(128, 64), (32, 128), limits=MACHINE)
    has(got, {"layer_type": str, "parameters": int, "flops": int, "contractions": int, "latency_ms": float,
              "gflops_per_second": float, **MEMORY, **VERDICT})
    assert (got["layer_type"], got["parameters"], got["flops"]) == ("Linear", 8_256, 2 * 128 * 64 * 32)


def test_a_layers_profile_hands_on_what_it_was_given(clock):
    got = profile_layer(Slow(Linear(128, 64), clock.advance, 4.0), (32, 128), limits=MACHINE, clock=clock, iterations=3)
    assert (got["latency_ms"], got["gflops_per_second"]) == (4.0, pytest.approx(0.131072))
    assert got["computational_efficiency"] == pytest.approx(0.131072 / 50)
    assert got["workload"]["model"] == "Slow" and "layers" not in got and "latency" not in got


def test_rates_divide_work_by_its_own_time():
    work = Work(524_288, 3 * 1024**2, contractions=500_000)
    got = rates(work, 0.5, MACHINE)  # 524,288 FLOPs in half a millisecond: 1.048576e9 a second; 3 MB: 6,000 MB
    assert got == {"flops": 524_288, "contractions": 500_000, "latency_ms": 0.5,
                   "gflops_per_second": pytest.approx(1.048576), "memory_bandwidth_mbs": pytest.approx(6000.0),
                   "computational_efficiency": pytest.approx(1.048576 / 50)}
    nothing = rates(work, 0.0, MACHINE)
    assert nothing["gflops_per_second"] == nothing["memory_bandwidth_mbs"] == nothing["computational_efficiency"] == 0


def test_keys_of_a_forward_profile():
    got = profile_forward_pass(Linear(256, 128), ones(32, 256), limits=MACHINE)
    has(got, {"parameters": int, "flops": int, "flops_per_sample": int, "batch_flops": int, "contractions": int,
              "latency_ms": float, "gflops_per_second": float, "memory_bandwidth_mbs": float,
              "computational_efficiency": float, "is_memory_bound": bool, "is_compute_bound": bool,
              **MEMORY, **VERDICT})
    assert (got["parameters"], got["flops"], got["flops_per_sample"]) == (32_896, 2_097_152, 65_536)
    assert got["batch_flops"] == got["flops"]
    assert got["bottleneck"] in ("memory", "compute") and got["limited_by"] in LIMITED_BY
    assert got["is_memory_bound"] is (got["bottleneck"] == "memory")
    assert got["is_memory_bound"] is not got["is_compute_bound"]
    assert got["gflops_per_second"] == pytest.approx(got["flops"] / got["latency_ms"] / 1e6)
    assert got["computational_efficiency"] == pytest.approx(got["gflops_per_second"] / 50)
    assert got["memory_bandwidth_mbs"] > 0 and 0 < got["memory_efficiency"] <= 1
    json.dumps(got, allow_nan=False)


def test_keys_of_a_backward_profile():
    got = profile_backward_pass(Sequential(Linear(784, 128), ReLU(), Linear(128, 10)), ones(1, 784), limits=MACHINE)
    has(got, {"forward_flops": int, "forward_latency_ms": float, "forward_memory_mb": float, "backward_flops": int,
              "backward_latency_ms": float, "gradient_memory_mb": float, "total_flops": int, "total_latency_ms": float,
              "total_memory_mb": float, "total_gflops_per_second": float, "optimizer_memory_estimates": dict,
              "memory_efficiency": float, "forward_contractions": int, "backward_contractions": int,
              "total_contractions": int, **VERDICT})
    assert got["forward_contractions"] == 203_264 and got["total_contractions"] == 409_088
    assert got["total_flops"] == got["forward_flops"] + got["backward_flops"]
    assert got["total_latency_ms"] == pytest.approx(got["forward_latency_ms"] + got["backward_latency_ms"])
    assert got["total_memory_mb"] == pytest.approx(got["forward_memory_mb"] + got["gradient_memory_mb"])
    gradients = 101_770 * 4 / 1024**2  # as many as parameters, float32
    assert got["gradient_memory_mb"] == pytest.approx(gradients)
    assert got["optimizer_memory_estimates"] == pytest.approx(
        {"sgd": 0.0, "sgd_momentum": gradients, "adam": 2 * gradients, "adamw": 2 * gradients})
    assert got["total_gflops_per_second"] == pytest.approx(got["total_flops"] / got["total_latency_ms"] / 1e6)
    json.dumps(got, allow_nan=False)


# ---------------------------------------------------------------- exact rates


def test_rates_are_of_the_batch_that_was_timed(clock):
    model = Slow(Linear(8, 4), clock.advance, 2.0)
    for batch in (1, 64):
        got = profile_forward_pass(model, ones(batch, 8), limits=MACHINE, clock=clock)
        assert got["latency_ms"] == 2.0
        assert got["flops"] == 64 * batch and got["flops_per_sample"] == 64
        assert got["gflops_per_second"] == pytest.approx(64 * batch / 2e6)
        assert got["limited_by"] == "unexplained"


def test_both_passes_have_times_of_their_own(clock, monkeypatch):
    from tinytorch.perf import profiling

    walk = profiling.backward
    monkeypatch.setattr(profiling, "backward", lambda *a, **k: (clock.advance(3.0), walk(*a, **k)))
    got = profile_backward_pass(Slow(Linear(8, 4), clock.advance, 2.0), ones(5, 8), limits=MACHINE, clock=clock)
    assert (got["forward_latency_ms"], got["backward_latency_ms"], got["total_latency_ms"]) == (2.0, 3.0, 5.0)
    assert [(side, one["samples"], one["max"], one["std"]) for side, one in got["latency"].items()] == [
        ("forward", 6, 2.0, 0.0), ("backward", 6, 3.0, 0.0)]
    assert (got["workload"]["warmup"], got["workload"]["iterations"]) == (2, 6)
    assert got["total_contractions"] == 640


def test_the_verdict_follows_the_machine(clock):
    x, model = ones(64, 64), Linear(64, 64)
    found = [profile_forward_pass(model, x, limits=limits, clock=clock)["bottleneck"] for limits in (
        MachineLimits(1, 1000, 1), MachineLimits(1000, 1, 1))]
    assert found == ["compute", "memory"]
    both = [profile_backward_pass(model, x, limits=limits, clock=clock)["bottleneck"] for limits in (
        MachineLimits(1, 1000, 1), MachineLimits(1000, 1, 1))]
    assert both == ["compute", "memory"]


# ---------------------------------------------------------------- layers


def test_layers_add_up_exactly(clock):
    shared = Slow(Linear(4, 4), clock.advance, 1.0)
    model = Sequential(shared, Sequential(shared, Slow(ReLU(), clock.advance, 2.0)))
    rows = profile_forward_pass(model, ones(3, 4), limits=MACHINE, clock=clock)["layers"]
    assert [(row["name"], row["type"], row["depth"], row["latency_ms"], row["self_ms"]) for row in rows] == [
        ("Sequential", "Sequential", 0, 4.0, 0.0),
        ("layers.0", "Slow", 1, 1.0, 1.0), ("layers.0.inner", "Linear", 2, 0.0, 0.0),
        ("layers.1", "Sequential", 1, 3.0, 0.0),
        ("layers.0", "Slow", 2, 1.0, 1.0), ("layers.0.inner", "Linear", 3, 0.0, 0.0),
        ("layers.1.layers.1", "Slow", 2, 2.0, 2.0), ("layers.1.layers.1.inner", "ReLU", 3, 0.0, 0.0)]
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert rows[0]["flops"] == 2 * (2 * 3 * 4 * 4) + 12 == rows[1]["flops"] + rows[3]["flops"]
    assert (rows[0]["parameters"], rows[1]["parameters"]) == (20, 20)  # a shared layer is counted once in the whole


def test_a_layer_called_three_times_is_one_row(clock):
    class Thrice(Layer):
        def __init__(self):
            self.step = Slow(Linear(4, 4), clock.advance, 1.0)

        def forward(self, x):
            return self.step(self.step(self.step(x)))

    rows = profile_forward_pass(Thrice(), ones(2, 4), limits=MACHINE, clock=clock)["layers"]
    assert (rows[1]["name"], rows[1]["calls"], rows[1]["latency_ms"]) == ("step", 3, 3.0)
    assert "x3" in layer_table({"layers": rows})


@pytest.mark.parametrize("profile", [
    lambda: profile_backward_pass(Linear(4, 2), ones(3, 4), limits=MACHINE, clock=still),
    lambda: profile_layer(Linear(4, 2), (3, 4), limits=MACHINE, clock=still)])
def test_the_table_is_of_a_forward_pass(profile):
    with pytest.raises(ValueError, match="no layers of a forward pass .*want what profile_forward_pass returned"):
        layer_table(profile())


def test_own_ops_belong_to_the_layer_around_them(clock):
    class Skip(Layer):
        def __init__(self):
            self.body = Linear(4, 4, bias=False)

        def forward(self, x):
            with scope("a region, no layer"):
                clock.advance(0.5)
                return x + self.body(x)

    rows = profile_forward_pass(Skip(), ones(1, 4), limits=MACHINE, clock=clock)["layers"]
    assert [(row["type"], row["flops"], row["self_ms"]) for row in rows] == [("Skip", 36, 0.5), ("Linear", 32, 0.0)]


@pytest.mark.parametrize("model", [
    lambda x: softmax(x) * 2.0,
    type("Plain", (), {"forward": lambda self, x: x + 1.0})(),
    type("Holder", (), {"__call__": lambda self, x: self.layers[0](x), "layers": [Linear(4, 2)]})()])
def test_models_that_are_no_layers(model):
    got = profile_forward_pass(model, ones(3, 4), limits=MACHINE, clock=still)
    assert got["flops"] > 0 and got["layers"][0]["flops"] == got["flops"]
    assert got["layers"][0]["depth"] == 0


def test_a_bare_tensor_lets_its_input_pass():
    got = profile_forward_pass(ones(3), ones(4, 8), limits=MACHINE, clock=still)
    assert (got["parameters"], got["flops"], got["flops_per_sample"]) == (0, 32, 32)
    assert profile_backward_pass(ones(3), ones(4, 8), limits=MACHINE, clock=still)["backward_flops"] == 0


def test_the_table_fits_a_narrow_screen():
    deep = Linear(4, 4)
    for _ in range(9):
        deep = Sequential(deep, ReLU())
    table = layer_table(profile_forward_pass(deep, ones(2, 4), limits=MACHINE, clock=still))
    assert len(table.splitlines()) == 1 + 19
    assert all(len(line) <= 80 for line in table.splitlines())


@pytest.mark.parametrize(("number", "text"), [
    (0, "0"), (950, "950"), (999, "999"), (1000, "1K"), (999_999, "1M"), (12_345, "12.3K"), (4_560_000, "4.56M"),
    (734_804_261_732_352, "735T")])
def test_short_numbers(number, text):
    assert short(number) == text


# ---------------------------------------------------------------- backward


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_equal_layers(layers):
    forward, backward = count_both_passes(Sequential(*[Linear(6, 6, bias=False) for _ in range(layers)]), ones(4, 6))
    assert backward.contractions * layers == forward.contractions * (2 * layers - 1)


def test_gradients_of_the_caller_are_kept():
    model, x = Linear(3, 2), ones(4, 3, requires_grad=True)
    mine = model.weight.grad = ones(3, 2)
    x.grad = theirs = ones(4, 3)
    got = profile_backward_pass(model, x, limits=MACHINE, clock=still)
    assert model.weight.grad is mine and model.bias.grad is None and x.grad is theirs
    # 2·4·3·2 each: forward, weight gradient, input gradient; nothing is added to what was there
    assert got["total_contractions"] == 3 * 48


def test_a_loss_is_counted_with_forward():
    x, targets = ones(4, 8), Tensor(np.array([0, 1, 2, 0]))
    plain = profile_backward_pass(Linear(8, 3), x, limits=MACHINE, clock=still)
    loss = CrossEntropyLoss()
    with_loss = profile_backward_pass(Linear(8, 3), x, lambda y: loss(y, targets), limits=MACHINE, clock=still)
    assert with_loss["forward_flops"] > plain["forward_flops"]
    assert with_loss["forward_contractions"] == plain["forward_contractions"]
    assert with_loss["backward_contractions"] == plain["backward_contractions"]


def test_nothing_wants_a_gradient():
    got = profile_backward_pass(ReLU(), ones(2, 3), limits=MACHINE, clock=still)
    assert (got["backward_flops"], got["gradient_memory_mb"]) == (0, 0.0)
    frozen = Linear(3, 2)
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    got = profile_backward_pass(frozen, ones(2, 3), limits=MACHINE, clock=still)
    assert got["backward_flops"] == 0 and got["optimizer_memory_estimates"]["adam"] == 0.0


def test_gradients_are_wanted_even_under_no_grad():
    with no_grad():
        got = profile_backward_pass(Linear(8, 4), ones(5, 8), limits=MACHINE, clock=still)
        assert thread_state().grad_enabled is False
    assert got["total_contractions"] == 640


def test_frozen_and_half_precision_gradients_weigh_their_own():
    model = Sequential(Linear(4, 4, bias=False), Linear(4, 4, bias=False))
    model.layers[0].weight.requires_grad = False
    got = profile_backward_pass(model, ones(2, 4), limits=MACHINE, clock=still)
    assert got["gradient_memory_mb"] == pytest.approx(64 / 1024**2)
    model.layers[1].weight = Tensor(np.ones((4, 4), np.float16), requires_grad=True)
    model.layers[0].weight = Tensor(np.ones((4, 4), np.float16))
    got = profile_backward_pass(model, Tensor(np.ones((2, 4), np.float16)), limits=MACHINE, clock=still)
    assert got["gradient_memory_mb"] == pytest.approx(32 / 1024**2)


@pytest.mark.parametrize(("loss_fn", "error", "words"), [
    (lambda y: y, ValueError, "scalar"), (lambda y: 3.0, TypeError, "loss_fn returned a float"),
    (lambda y: None, TypeError, "NoneType")])
def test_a_loss_that_is_none(loss_fn, error, words):
    with pytest.raises(error, match=words):
        profile_backward_pass(Linear(3, 2), ones(2, 3), loss_fn, limits=MACHINE, clock=still)
    assert thread_state().hearers == () and thread_state().grad_enabled


# ---------------------------------------------------------------- counting agrees


@pytest.mark.parametrize("batch", [1, 7])
def test_the_pass_that_ran_and_the_run_on_shapes_agree(batch):
    model, x = Sequential(Linear(4, 3), ReLU(), Linear(3, 2)), ones(batch, 4)
    got = profile_forward_pass(model, x, limits=MACHINE, clock=still)
    assert got["flops"] == flop_report(model, x.shape).total == 39 * batch
    assert got["flops_per_sample"] == count_flops(model, x.shape) == 39


def test_a_batch_size_written_into_the_model():
    class Fixed(Layer):
        def forward(self, x):
            return x.reshape(8, -1) * 2.0

    got = profile_forward_pass(Fixed(), ones(8, 3), limits=MACHINE, clock=still)
    assert (got["flops"], got["flops_per_sample"]) == (24, 3)


def test_an_op_without_a_rule_is_named():
    @op(shape=same_shape)
    def unheard_of(a):
        return a + 0

    got = profile_forward_pass(lambda x: unheard_of(x) + 1.0, ones(2, 3), limits=MACHINE, clock=still)
    assert got["uncounted"] == ["unheard_of"] and got["flops"] == 6


# ---------------------------------------------------------------- nothing left behind


class Fails(Layer):
    """Raises in the call whose number is given."""

    def __init__(self, at):
        self.linear, self.at, self.seen = Linear(3, 3), at, []

    def forward(self, x):
        self.seen.append(1)
        if len(self.seen) >= self.at:
            raise RuntimeError("half way")
        return self.linear(x)


@pytest.mark.parametrize("function", [profile_forward_pass, profile_backward_pass])
@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize("tracing", [False, True])
def test_after_an_error_everything_is_as_before(function, at, tracing):
    model = Fails(at)
    rng = np.random.get_state()[1].tobytes()
    if tracing:
        tracemalloc.start()
    try:
        with pytest.raises(RuntimeError, match="half way"):
            function(model, ones(2, 3), limits=MACHINE, clock=still)
        assert tracemalloc.is_tracing() is tracing
    finally:
        tracemalloc.stop()
    state = thread_state()
    assert (state.hearers, state.scope_hearers, state.path, state.grad_enabled) == ((), (), (), True)
    assert gc.isenabled() and model.seen == [] and model.linear.weight.grad is None
    assert np.random.get_state()[1].tobytes() == rng


def test_dropout_draws_nothing_for_good():
    model = Sequential(Linear(3, 3), Dropout(0.5, np.random.default_rng(1)))
    before = model.layers[1].rng.bit_generator.state
    for function in (profile_forward_pass, profile_backward_pass):
        function(model, ones(2, 3), limits=MACHINE, clock=still)
    assert model.layers[1].rng.bit_generator.state == before


@pytest.mark.parametrize("output", [None, 3.0, np.ones(2)])
@pytest.mark.parametrize("function", [profile_forward_pass, profile_backward_pass])
def test_a_model_that_returns_no_tensor(function, output):
    with pytest.raises(TypeError, match="want a Tensor"):
        function(lambda x: output, ones(2, 3), limits=MACHINE, clock=still)


def test_profiling_inside_a_listener_and_a_scope(clock):
    heard = []
    with listen(heard.append), scope("outside"):
        got = profile_forward_pass(Slow(Linear(3, 2), clock.advance, 1.0), ones(2, 3), limits=MACHINE, clock=clock)
    assert [row["latency_ms"] for row in got["layers"]] == [1.0, 0.0]
    assert got["layers"][1]["flops"] == 24
    assert heard == []  # the instrument's own passes are nobody else's events
    assert any("listens" in text for text in got["latency"]["warnings"])


def test_batch_sizes(clock):
    rows = profile_batch_sizes(Slow(Linear(4, 3), clock.advance, 5.0), (9, 4), (1, 8), clock=clock)
    assert [(row["batch"], row["latency_ms"], row["throughput"]) for row in rows] == [(1, 5.0, 200.0), (8, 5.0, 1600.0)]
    assert rows[1]["peak_memory_mb"] > rows[0]["peak_memory_mb"]
    for sizes, error in (((0,), ValueError), ((2.5,), TypeError), ((True,), TypeError)):
        with pytest.raises(error, match="batch size"):
            profile_batch_sizes(Linear(4, 3), (1, 4), sizes)


@pytest.mark.parametrize(("dtype", "nbytes"), [(np.float64, 8), (np.float32, 4), (np.float16, 2)])
def test_the_input_weighs_what_it_weighs(dtype, nbytes):
    x = Tensor(np.zeros((256, 64), dtype), dtype=dtype)
    profile = profile_forward_pass(ReLU(), x, limits=MachineLimits(100, 10, 5), clock=still)
    assert profile["input_mb"] == 256 * 64 * nbytes / 1024**2
    assert profile["output_mb"] == profile["input_mb"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_data_are_profiled_in_silence(bad):
    x = np.full((4, 8), bad, np.float32)
    x[0] = -x[0]
    model, limits = Sequential(Linear(8, 4), ReLU()), MachineLimits(100, 10, 5)
    profile = profile_forward_pass(model, Tensor(x), limits=limits, clock=still)
    assert profile["flops"] == 2 * 4 * 8 * 4 + 4 * 4
