"""Time: exact with a clock that is handed in, honest without one, and nothing left changed."""

import gc
import json
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, listen, thread_state
from tinytorch.perf.profiling import (
    amdahl_speedup,
    latency_statistics,
    latency_table,
    least_samples,
    measure_latency,
    median_interval,
    percentile,
    percentile_interval,
    profile_batch_sizes,
    summarize,
    time_calls,
)

X = Tensor(np.ones((2, 4)))


def takes(clock, *each_ms):
    """Make a model whose calls take these milliseconds; the last one for ever."""
    todo = list(each_ms)

    def model(x):
        clock.advance(todo.pop(0) if len(todo) > 1 else todo[0])
        return x
    return model


# ---------------------------------------------------------------- statistics


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.floats(0, 100))
def test_percentile_is_numpys_default(samples, p):
    assert percentile(samples, p) == pytest.approx(np.percentile(samples, p), rel=1e-9, abs=1e-9)
    assert min(samples) <= percentile(samples, p) <= max(samples)


def test_the_interval_is_exact_up_to_thousands_of_samples():
    for n in (6, 7, 50, 367, 2000):
        low, high = median_interval(range(1, n + 1))
        tail = sum(math.comb(n, k) for k in range(low))  # at most low - 1 heads
        assert 40 * tail <= 2**n < 40 * (tail + math.comb(n, low))
        assert low + high == n + 1


def test_interval_of_other_percentiles():
    assert percentile_interval(range(1, 101), 50) == median_interval(range(1, 101)) == (40, 61)
    assert percentile_interval(range(367), 99) is None
    low, high = percentile_interval(range(368), 99)
    assert low < 364 < high == 367  # 0.99 * 367 = 363.3; the upper end is the highest of the 368
    low, high = percentile_interval(range(1, 101), 10)
    mirrored = percentile_interval(range(1, 101), 90)
    assert (101 - high, 101 - low) == mirrored


@pytest.mark.parametrize(("p", "n"), [(50, 6), (90, 36), (95, 72), (99, 368), (10, 36)])
def test_least_samples_from_the_binomial(p, n):
    worst = max(p, 100 - p) / 100
    assert least_samples(p) == n
    assert worst**n <= 0.025 < worst ** (n - 1)


@pytest.mark.parametrize("p", [0, 100, -1, 101])
def test_the_ends_have_no_interval(p):
    with pytest.raises(ValueError, match="between 0 and 100"):
        least_samples(p)


def test_equal_times_have_no_spread():
    got = summarize([3.0] * 400)
    assert (got["std"], got["iqr"], got["ci95"], got["unsupported"]) == (0.0, 0.0, (3.0, 3.0), [])


@pytest.mark.parametrize(("n", "unsupported"), [(5, ["p50", "p95", "p99"]), (6, ["p95", "p99"]), (71, ["p95", "p99"]),
                                                (72, ["p99"]), (367, ["p99"]), (368, [])])
def test_a_percentile_is_supported_from_its_least_number_on(n, unsupported):
    assert summarize([float(i) for i in range(n)])["unsupported"] == unsupported


# ---------------------------------------------------------------- a clock that is handed in


def test_a_sample_is_two_reads_and_warmup_is_left_out(clock):
    stats = latency_statistics(takes(clock, 49, 12, 5.1, 5.2, 5.0, 5.3, 50.0), X, warmup=2, iterations=5, clock=clock)
    assert clock.reads == 12  # ten for the samples, two for the first call
    assert stats["times_ms"] == [5.1, 5.2, 5.0, 5.3, 50.0]
    assert (stats["median"], stats["first_call"], stats["warmup_calls"]) == (5.2, 49.0, 2)
    assert stats["mean"] == pytest.approx(14.12)
    assert (stats["min"], stats["max"]) == (5.0, 50.0)
    assert stats["samples"] == 5 and type(stats["samples"]) is int
    assert stats["samples_are"] == "calls"
    assert stats["ci95"] is None and stats["unsupported"] == ["p50", "p95", "p99"]
    assert stats["outliers"] == {"mild": 0, "severe": 1}
    assert any("outlier" in text for text in stats["warnings"])


def test_without_warmup_the_first_call_is_a_sample(clock):
    stats = latency_statistics(takes(clock, 9, 2, 3), X, warmup=0, iterations=3, clock=clock)
    assert clock.reads == 6
    assert stats["times_ms"] == [9.0, 2.0, 3.0] and stats["first_call"] == 9.0


def test_measure_latency_is_the_median_in_milliseconds(clock):
    got = measure_latency(takes(clock, 99, 1, 2, 30), X, warmup=1, iterations=3, clock=clock)
    assert got == 2.0 and type(got) is float


def test_many_samples_support_every_percentile(clock):
    model = takes(clock, *[1 + i % 7 / 100 for i in range(400)])
    stats = latency_statistics(model, X, warmup=0, iterations=400, clock=clock)
    assert stats["unsupported"] == []
    assert all(stats["intervals"].values())
    assert stats["stable"] is True and stats["warnings"] == []


def test_drift_is_not_stable(clock):
    stats = latency_statistics(takes(clock, *([1.0] * 10 + [2.0] * 10)), X, warmup=0, iterations=20, clock=clock)
    assert stats["half_medians"] == [1.0, 2.0]
    assert stats["stable"] is False
    assert stats["lag1"] > 0.8
    assert any("not stable" in text for text in stats["warnings"])
    assert any("hang together" in text for text in stats["warnings"])


def test_spread_above_a_tenth_is_a_warning(clock):
    noisy = latency_statistics(takes(clock, *[1.0, 1.3] * 20), X, warmup=0, iterations=40, clock=clock)
    assert any(text.startswith("spread") for text in noisy["warnings"])


def test_a_clock_that_stands_still_is_flagged(clock):
    stats = latency_statistics(takes(clock, 0), X, warmup=1, iterations=8, clock=clock)
    assert (stats["median"], stats["std"], stats["below_resolution"]) == (0.0, 0.0, True)
    assert any("resolution" in text for text in stats["warnings"])


def test_the_table_marks_what_is_unsupported(clock):
    stats = latency_statistics(takes(clock, 5), X, warmup=1, iterations=20, clock=clock)
    lines = {line.split()[0]: line for line in latency_table(stats).splitlines()}
    assert "ms*" in lines["p95"] and "ms*" in lines["p99"] and "ms*" not in lines["median"]
    assert all(len(line) <= 80 for line in latency_table(stats).splitlines())
    doubted = latency_table({**stats, "warnings": ["a doubt of many words " * 9]}).splitlines()
    assert sum(line.startswith("! ") for line in doubted) == 1 and max(map(len, doubted)) <= 80


def test_plain_data(clock):
    stats = latency_statistics(takes(clock, 5), X, warmup=1, iterations=8, clock=clock)
    assert type(stats) is dict and stats["median"] == 5.0
    assert json.loads(json.dumps(stats, allow_nan=False))["samples"] == 8
    workload = stats["workload"]
    assert workload["shapes"] == [[2, 4]] and workload["dtypes"] == ["float32"] and workload["device"] == "cpu"
    assert {"warmup", "iterations", "mode", "gradient", "stages"} <= set(workload)
    assert {"numpy", "blas", "blas_threads", "cpu", "python"} <= set(workload)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_samples_say_little_and_say_so(clock, n):
    stats = latency_statistics(takes(clock, 5, *[5.0] * n), X, warmup=1, iterations=n, clock=clock)
    assert (stats["samples"], stats["median"], stats["p99"], stats["ci95"]) == (n, 5.0, 5.0, None)
    assert stats["unsupported"] == ["p50", "p95", "p99"] and set(stats["intervals"].values()) == {None}
    assert stats["stable"] is (n > 1)
    assert [said[:15] for said in stats["warnings"]] == (["a single sample"] if n == 1 else [])
    assert "no interval" in latency_table(stats)


def test_ctrl_c_while_reading_the_clock_leaves_everything_as_it_was():
    model = Sequential(Linear(4, 4), Dropout(0.5, np.random.default_rng(3)))
    before, heard, reads = model.layers[1].rng.bit_generator.state, [], []

    def interrupted():
        reads.append(1)
        if len(reads) == 6:
            raise KeyboardInterrupt
        return len(reads)

    with listen(heard.append), pytest.raises(KeyboardInterrupt):
        latency_statistics(model, X, 1, 9, clock=interrupted)
    assert gc.isenabled() and heard == [] and thread_state().grad_enabled and thread_state().path == ()
    assert model.layers[1].rng.bit_generator.state == before and not tracemalloc.is_tracing()


# ---------------------------------------------------------------- a real clock


def test_short_calls_are_timed_in_blocks():
    stats = latency_statistics(Linear(4, 3), X, warmup=3, iterations=20)
    assert stats["samples"] == 20 == len(stats["times_ms"])
    assert stats["samples_are"].startswith("means of ")
    assert {"p95", "p99"} <= set(stats["unsupported"])
    assert 0 < stats["min"] <= stats["median"] <= stats["max"]
    assert stats["first_call"] > 0 and stats["warmup_calls"] >= 3
    assert isinstance(stats["warmup_stable"], bool) and isinstance(stats["stable"], bool)


def test_a_slow_first_call_does_not_decide_how_many_go_into_a_block():
    once = []

    def model(x):
        if not once:
            once.append(time.sleep(0.02))
        return x

    stats = latency_statistics(model, X, warmup=0, iterations=6)
    assert stats["first_call"] >= 20 and stats["samples_are"].startswith("means of ")
    assert not stats["below_resolution"]
    assert stats["warmup_calls"] >= 2 and stats["warmup_stable"] is None  # one was slow, the others say how slow


def test_the_present_mode_is_timed_without_gradients():
    seen = []

    class Spy(Layer):
        def forward(self, x):
            seen.append((self.training, thread_state().grad_enabled))
            return x

    assert latency_statistics(Spy().eval(), X, 1, 1)["workload"]["mode"] == "eval"
    assert set(seen) == {(False, False)}
    assert latency_statistics(Spy(), X, 1, 1)["workload"]["gradient"] == "no_grad"
    assert thread_state().grad_enabled is True


def test_tracing_gives_a_warning_and_goes_on():
    tracemalloc.start()
    try:
        stats = latency_statistics(Linear(4, 3), X, 1, 6)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    assert any("tracemalloc" in text for text in stats["warnings"])


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was(on):
    states = []

    def model(x):
        states.append(gc.isenabled())
        return x

    (gc.enable if on else gc.disable)()
    try:
        latency_statistics(model, X, 1, 3)
        assert gc.isenabled() is on
    finally:
        gc.enable()
    assert not any(states)


def test_random_state_and_buffers_are_as_before():
    model = Sequential(Linear(4, 4), Dropout(0.5, np.random.default_rng(3)))
    before = model.layers[1].rng.bit_generator.state
    weight = model.layers[0].weight.data.copy()
    latency_statistics(model, X, 2, 5)
    assert model.layers[1].rng.bit_generator.state == before
    assert np.array_equal(model.layers[0].weight.data, weight)


class Raises(Layer):
    """Fails on its third call."""

    def __init__(self, error):
        self.error, self.calls = error, 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 2:
            raise self.error
        return x


@pytest.mark.parametrize("error", [RuntimeError("half way"), KeyboardInterrupt(), ZeroDivisionError("x")])
def test_a_models_error_passes_through_unchanged(error):
    model = Raises(error)
    with pytest.raises(type(error)) as caught:
        latency_statistics(model, X, 5, 5)
    assert caught.value is error
    assert gc.isenabled() and model.calls == 0


# ---------------------------------------------------------------- batch sizes, and what an optimization buys


def test_throughput_of_a_service(clock):
    waits = {1: 5.0, 8: 12.0, 32: 35.0, 64: 65.0}

    def model(x):
        clock.advance(waits[x.shape[0]])
        return x + 1

    rows = profile_batch_sizes(model, (1, 4), (64, 1, 8, 32), clock=clock)
    assert [(row["batch"], row["latency_ms"], round(row["throughput"])) for row in rows] == [
        (64, 65.0, 985), (1, 5.0, 200), (8, 12.0, 667), (32, 35.0, 914)]  # in the order asked for
    assert rows[0]["input_mb"] * 1024**2 == 64 * 4 * 4 and rows[0]["peak_memory_mb"] >= rows[0]["output_mb"]
    assert rows[0]["workload"]["shapes"] == [[64, 4]]
    assert rows[0]["throughput"] / rows[3]["throughput"] == pytest.approx(1.077, abs=1e-3)  # 8 % more
    assert rows[0]["latency_ms"] / rows[3]["latency_ms"] == pytest.approx(1.857, abs=1e-3)  # for 86 % more waiting


def test_a_time_that_no_clock_saw_has_no_throughput_and_says_so(clock):
    row, = profile_batch_sizes(lambda x: x, (1, 4), 3, clock=clock)
    assert (row["batch"], row["throughput"]) == (3, 0.0)
    assert any("below the clock's resolution" in said for said in row["warnings"])


@pytest.mark.parametrize(("shape", "sizes", "error"), [
    ((1, 4), (), ValueError), ((1, 4), (0,), ValueError), ((1, 4), (-1, 2), ValueError), ((1, 4), (1.5,), TypeError),
    ((1, 4), True, TypeError), ((1, 4), "8", TypeError), ((1, 4), None, TypeError), ((4,), (1,), ValueError),
    (4, (1,), TypeError), ((), (1,), ValueError), ((1, 0), (1,), ValueError)])
def test_bad_batch_sizes_are_refused_before_anything_runs(shape, sizes, error):
    ran = []
    with pytest.raises(error, match="want") as caught:
        profile_batch_sizes(lambda x: ran.append(1) or x, shape, sizes)
    assert not ran and "\n" not in str(caught.value)


@pytest.mark.parametrize(("fraction", "speedup", "error"), [
    (float("nan"), 2, ValueError), (0.5, float("nan"), ValueError), (True, 2, TypeError), (0.5, True, TypeError),
    ("0.5", 2, TypeError), (0.5, None, TypeError), (0.5, np.bool_(True), TypeError), (-0.1, 2, ValueError),
    (1.1, 2, ValueError), (0.5, -1, ValueError), (0.5, 0, ValueError), (0.5, -math.inf, ValueError)])
def test_amdahl_refuses_what_is_no_share_or_no_speedup(fraction, speedup, error):
    with pytest.raises(error) as caught:
        amdahl_speedup(fraction, speedup)
    assert "\n" not in str(caught.value)


def test_amdahl_at_its_edges():
    assert amdahl_speedup(np.float32(0.5), np.int64(4)) == pytest.approx(1.6)  # 1 / (0.5 + 0.125)
    assert amdahl_speedup(1, 10**400) == math.inf  # nothing is left, as far as a float can tell
    assert amdahl_speedup(0.5, 0.5) == pytest.approx(1 / 1.5)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(("words", "error"), [
    ({"iterations": 0}, ValueError), ({"iterations": -3}, ValueError), ({"warmup": -1}, ValueError),
    ({"iterations": 2.0}, TypeError), ({"warmup": 1.5}, TypeError), ({"iterations": True}, TypeError),
    ({"warmup": False}, TypeError), ({"iterations": "5"}, TypeError), ({"iterations": None}, TypeError)])
def test_bad_counts_are_refused_in_one_sentence(words, error):
    for function in (measure_latency, latency_statistics):
        with pytest.raises(error, match=next(iter(words))) as caught:
            function(Linear(4, 3), X, **words)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("output", [None, 3, "text", (n for n in "lazy"), iter([1])])
def test_no_result_no_latency(output):
    with pytest.raises(TypeError, match="want a Tensor"):
        measure_latency(lambda x: output, X, 1, 2)


def test_what_cannot_be_run_is_refused():
    with pytest.raises(ValueError, match="no forward"):
        measure_latency(object(), X, 1, 2)


def test_wrong_features_are_the_models_own_error():
    with pytest.raises(ValueError, match="last axis is 4, want 5"):
        measure_latency(Linear(5, 3), X, 1, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_strange_numbers_take_time_like_others(value):
    assert measure_latency(lambda x: x + 1.0, Tensor(np.full((2, 4), value)), 1, 3) > 0


def test_timing_inside_timing():
    inner = []

    def model(x):
        inner.append(measure_latency(Linear(4, 3), x, 1, 2))
        return x

    outer = measure_latency(model, X, 1, 2)
    assert outer > min(inner) > 0
    assert gc.isenabled()


def test_time_calls_counts_calls():
    calls = []
    assert len(time_calls(lambda: calls.append(1), 3, 4, iter(range(8)).__next__)) == 4
    assert len(calls) == 7


@pytest.mark.parametrize("load, said", [(3.1, True), (2.9, False)])
def test_a_busy_machine_is_a_doubt(load, said, monkeypatch, clock):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1}, raising=False)
    model, x = Linear(2, 2), Tensor(np.ones((1, 2)))
    assert any("machine is busy" in text for text in latency_statistics(model, x, 1, 2)["warnings"]) is said
    assert not any("busy" in text for text in latency_statistics(model, x, 1, 2, clock=clock)["warnings"])
