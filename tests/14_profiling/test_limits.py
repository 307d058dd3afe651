"""Limits of a machine and what they say: exact with limits that are handed in, sane with this machine's own."""

import json
import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.layers import Sequential
from tinytorch.core.spatial import Conv2d, MaxPool2d, conv2d, max_pool2d, rows_at_once
from tinytorch.core.tensor import Tensor, listen, thread_state
from tinytorch.perf import profiling
from tinytorch.perf.profiling import (
    MachineLimits,
    Work,
    amdahl_speedup,
    event_bytes,
    flop_report,
    inside,
    machine_limits,
    observe,
    roofline,
    time_floors,
    together,
    verdict,
    work_of,
)

GPU = MachineLimits(peak_gflops=312_000, bandwidth_gbs=1_555, dispatch_us=5)


# ---------------------------------------------------------------- roofline


def test_the_two_feed_forward_products():
    # 2 products x 2 FLOPs x (32 * 512) rows x 768 x 3072
    flops = 2 * 2 * 32 * 512 * 768 * 3072
    assert flops == 154_618_822_656
    assert roofline(flops, 1, GPU)["compute_ms"] == pytest.approx(0.496, abs=5e-4)


@given(st.integers(0, 10**15), st.integers(1, 10**12))
def test_the_floor_is_what_the_roof_attains(flops, moved):
    got = roofline(flops, moved, GPU)
    assert got["time_floor_ms"] == max(got["memory_ms"], got["compute_ms"])
    assert got["attainable_gflops"] <= GPU.peak_gflops
    assert got["attainable_gflops"] * got["time_floor_ms"] * 1e6 == pytest.approx(flops)
    assert got["regime"] == ("memory" if got["memory_ms"] > got["compute_ms"] else "compute") or math.isclose(
        got["memory_ms"], got["compute_ms"])


def test_nothing_moved_and_nothing_done():
    assert roofline(0, 0, GPU)["intensity"] == 0.0
    moved_nothing = roofline(100, 0, GPU)
    assert (moved_nothing["intensity"], moved_nothing["regime"]) == (math.inf, "compute")
    assert moved_nothing["attainable_gflops"] == GPU.peak_gflops


@pytest.mark.parametrize(("flops", "moved", "error"), [
    (-1, 1, ValueError), (1, -1, ValueError), (math.nan, 1, ValueError), (math.inf, 1, ValueError), ("1", 1, TypeError),
    (True, 1, TypeError)])
def test_strange_amounts_are_refused(flops, moved, error):
    with pytest.raises(error):
        roofline(flops, moved, GPU)


# ---------------------------------------------------------------- the machine as data


def test_bandwidth_is_looked_up_by_footprint():
    machine = MachineLimits(100, {10_000: 60.0, 1_000_000: 20.0}, 1)
    assert machine.bandwidth(1) == machine.bandwidth(10_000) == 60.0
    assert machine.bandwidth(100_000) == pytest.approx(40.0)  # half way in log(bytes)
    assert machine.bandwidth(10**12) == 20.0
    assert roofline(0, 8_000_000, machine)["memory_ms"] == pytest.approx(0.4)
    assert roofline(0, 8_000_000, machine, footprint=10_000)["memory_ms"] == pytest.approx(0.4 / 3)


@pytest.mark.parametrize("words", [
    {"peak_gflops": 0}, {"peak_gflops": -1}, {"bandwidth_gbs": 0}, {"bandwidth_gbs": {}}, {"bandwidth_gbs": {1: -5.0}},
    {"dispatch_us": -1}, {"peak_gflops": math.nan}, {"transcendental_gops": -1.0}])
def test_impossible_machines_are_refused(words):
    with pytest.raises(ValueError, match=next(iter(words))):
        MachineLimits(**{"peak_gflops": 1, "bandwidth_gbs": 1, "dispatch_us": 1, **words})


# ---------------------------------------------------------------- the verdict


MACHINE = MachineLimits(peak_gflops=100, bandwidth_gbs=20, dispatch_us=5)


def test_three_floors():
    floors = time_floors(Work(10**8, 10**7, 30), MACHINE)
    assert floors == pytest.approx({"overhead": 0.15, "compute": 1.0, "memory": 0.5})
    special = MachineLimits(100, 20, 5, transcendental_gops=0.1)
    assert time_floors(Work(10**8, 10**7, 30, transcendentals=10**6), special)["compute"] == pytest.approx(10.0)


@pytest.mark.parametrize(("work", "ms", "limited_by"), [
    (Work(10**9, 10**6), 10.5, "compute"), (Work(10**6, 10**8), 5.2, "memory"), (Work(10, 100, 1000), 6.0, "overhead"),
    (Work(10**8, 16 * 10**6), 1.1, "mixed"), (Work(10**9, 10**6), 30.0, "unexplained"),
    (Work(0, 0, 0), 1.0, "unexplained")])
def test_what_limits(work, ms, limited_by):
    got = verdict(work, ms, MACHINE)
    assert got["limited_by"] == limited_by
    assert got["advice"] and "\n" not in got["advice"]


def test_the_verdict_moves_when_the_machine_does():
    work = Work(10**8, 10**7)
    machines = [MachineLimits(100, 200, 1), MachineLimits(100, 2, 1), MachineLimits(1_000_000, 50_000, 5_000)]
    assert [verdict(work, 1.0, machine)["bottleneck"] for machine in machines] == ["compute", "memory", "memory"]
    limited_by = [verdict(work, ms, machine)["limited_by"] for ms, machine in zip((1.1, 5.5, 5.1), machines)]
    assert limited_by == ["compute", "memory", "overhead"]


def test_the_verdict_moves_when_the_time_does():
    work = Work(10**6, 10**5, 20)  # overhead 0.1 ms
    quick, slow = verdict(work, 0.1, MACHINE), verdict(work, 1.0, MACHINE)
    assert (quick["limited_by"], slow["limited_by"]) == ("overhead", "unexplained")
    assert quick["overhead_fraction"] == pytest.approx(1.0) and slow["overhead_fraction"] == pytest.approx(0.1)
    assert "100%" in quick["advice"]


def test_a_time_of_nothing_is_finite():
    got = verdict(Work(10, 10), 0.0, MACHINE)
    assert got["overhead_fraction"] == 1.0 and got["limited_by"] == "overhead"


def test_amdahl():
    assert amdahl_speedup(0.7, 2) == pytest.approx(1.538, abs=5e-4)
    assert amdahl_speedup(0.5, 0.5) == pytest.approx(1 / 1.5)  # slower parts slow the whole
    for fraction, speedup in ((-0.1, 2), (1.1, 2), (0.5, 0), (0.5, -1), (math.nan, 2)):
        with pytest.raises(ValueError):
            amdahl_speedup(fraction, speedup)


def test_products_are_judged_at_the_rate_of_their_size():
    machine = MachineLimits(100, 20, 5, product_gflops={10**4: 10.0, 10**6: 50.0, 10**8: 100.0})
    assert [machine.product_rate(n) for n in (1, 10**4, 10**5, 10**6, 10**12, None)] == pytest.approx(
        [10, 10, 30, 50, 100, 100])  # half way in log(FLOPs) between 10^4 and 10^6
    # 10^8 FLOPs of products of 10^4 each: 10 ms at 10 GFLOP/s, where the peak alone would say 1 ms
    small, large = (Work(10**8, 10**5, contractions=10**8, product=n) for n in (10**4, 10**8))
    assert [time_floors(work, machine)["compute"] for work in (small, large)] == pytest.approx([10.0, 1.0])
    assert [verdict(work, 11.0, machine)["limited_by"] for work in (small, large)] == ["compute", "unexplained"]
    assert verdict(small, 11.0, machine)["bottleneck"] == verdict(large, 11.0, machine)["bottleneck"] == "compute"
    assert time_floors(small, MACHINE)["compute"] == pytest.approx(1.0)  # limits that know no sizes
    assert roofline(10**8, 10**5, machine)["attainable_gflops"] == 100  # the roof is the one peak


@pytest.mark.parametrize("table", [{10**4: 0.0}, {10**4: -1.0}, {10**4: math.nan}])
def test_impossible_product_rates_are_refused(table):
    with pytest.raises(ValueError, match="product_gflops"):
        MachineLimits(1, 1, 1, product_gflops=table)


# ---------------------------------------------------------------- what happens inside an op


def events_of(function):
    heard = []
    with listen(heard.append):
        function()
    return heard


def conv(image, weight, **how):
    (event,) = events_of(lambda: conv2d(Tensor(np.ones(image)), Tensor(np.ones(weight)), **how))
    return event


def test_a_convolutions_columns_move_too():
    event = conv((2, 3, 6, 5), (4, 3, 3, 2), padding=(1, 0))
    # out (2, 4, 6, 4); framed 2*3*8*5 = 240; kernel rows together: columns 2*3*3*2 * 24 = 864; each written and read
    assert event.out_shape == (2, 4, 6, 4) and rows_at_once((2, 3, 6, 5), (4, 3, 3, 2), event.out_shape) == 3
    assert inside(event) == (2 * (240 + 864), 2, 1, 2 + 1 + 1)  # a frame, too
    assert event_bytes(event) - event.num_bytes == 4 * 2 * (240 + 864)
    assert inside(conv((1, 4, 4, 4), (4, 1, 1, 1), groups=4)) == (2 * 4 * 16, 4, 1, 3)  # one product a group


def test_kernel_rows_one_by_one():
    event = conv((1, 64, 28, 28), (64, 64, 3, 3), padding=(1, 1))
    assert rows_at_once((1, 64, 28, 28), (64, 64, 3, 3), event.out_shape) == 1
    framed, strips, columns, sums = 64 * 30 * 30, 64 * 3 * 30 * 28, 64 * 9 * 784, 2 * 64 * 784
    assert inside(event)[:2] == (2 * (framed + strips + columns + sums), 3)  # three products, one for each kernel row


def test_backward_convolutions_move_as_much_as_the_forward_one():
    x, layer = Tensor(np.ones((2, 4, 6, 6)), requires_grad=True), Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
    (ahead,) = events_of(lambda: layer(x))
    y = layer(x)
    behind = [e for e in events_of(lambda: y.backward(Tensor(np.ones(y.shape)))) if "conv2d" in e.op.name]
    assert len(behind) == 2 and {inside(event) for event in behind} == {inside(ahead)}


def test_a_stack_of_products_is_many_small_ones():
    (event,) = events_of(lambda: Tensor(np.ones((4, 2, 8, 3))) @ Tensor(np.ones((2, 3, 5))))
    assert inside(event) == (0, 8, 1, 0) and event_bytes(event) == event.num_bytes
    assert work_of([event]).product == 2 * 8 * 3 * 5
    (vector,) = events_of(lambda: Tensor(np.ones(3)) @ Tensor(np.ones(3)))
    assert inside(vector).products == 1 and work_of([vector]).product == 6
    (added,) = events_of(lambda: Tensor(np.ones(3)) + 1.0)
    assert work_of([added]).product == 0.0 and inside(added) == (0, 1, 1, 0)


def test_work_and_reports_count_the_same_bytes():
    model, x = Sequential(Conv2d(1, 2, 3), MaxPool2d(2)), Tensor(np.ones((2, 1, 6, 6)))
    report, work = flop_report(model, x.shape), work_of(events_of(lambda: model(x)))
    assert report.bytes_moved == report.by_layer.bytes == work.bytes_moved
    # in 72 + weight 18 + bias 2 + out 64, columns 2*9*16 = 288 both ways; the pool: 64 in, 16 out, 4*16*4 between
    assert report.bytes_moved == 4 * (72 + 18 + 2 + 64 + 2 * 288 + 64 + 16 + 4 * 16 * 4)


# ---------------------------------------------------------------- this machine, and its cache


def test_this_machine(cache_folder, monkeypatch):
    monkeypatch.setattr(profiling, "_known_limits", {})  # other tests of this process may have asked before
    limits = machine_limits()
    assert limits.peak_gflops > 0.1 and limits.dispatch_us > 0 and limits.transcendental_gops > 0
    assert len(limits.bandwidth_gbs) >= 4 and min(limits.bandwidth_gbs.values()) > 0
    assert "measured" in limits.source
    assert machine_limits() is limits  # once per process
    stored = json.loads((cache_folder / "machine_limits.json").read_text(encoding="utf-8"))
    assert len(stored) == 1
    assert max(limits.product_gflops.values()) == limits.peak_gflops  # how many sizes fit, a busy machine decides
    assert 0 <= limits.spread < 1 and f"median {limits.spread:.0%} below the best" in limits.source
    assert "20" in next(iter(stored.values()))["source"]  # the date


@pytest.fixture
def quick(monkeypatch):
    """Measuring costs nothing here and is counted; the process remembers nothing."""
    measured = []
    monkeypatch.setattr(profiling, "_known_limits", {})
    products = {8192: 20.0, 10**8: 100.0}, 0.25
    monkeypatch.setattr(profiling, "_measure_products", lambda: measured.append(1) or products)
    monkeypatch.setattr(profiling, "_measure_bandwidth", lambda: {1000: 50.0, 10**6: 10.0})
    monkeypatch.setattr(profiling, "_measure_dispatch", lambda: 2.0)
    monkeypatch.setattr(profiling, "_measure_transcendentals", lambda: 1.0)
    monkeypatch.setattr(profiling, "_measure_step", lambda: 3.0)
    return measured


def test_the_next_process_reads_the_file(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path / "not there yet" / "Zürich"))
    first = machine_limits()
    monkeypatch.setattr(profiling, "_known_limits", {})
    second = machine_limits()
    assert len(quick) == 1 and second == first and second.bandwidth(1000) == 50.0
    assert machine_limits(refresh=True) == first and len(quick) == 2
    assert [file.name for file in (tmp_path / "not there yet" / "Zürich").iterdir()] == ["machine_limits.json"]


REST = '"dispatch_us": 1, "transcendental_gops": 1, "source": "", "spread": 0, "product_gflops": {"1": 1.0}'


@pytest.mark.parametrize("content", [
    "", "{", "[]", "null", '"text"', "\xff", '{"KEY": 3}', '{"KEY": {}}', '{"KEY": {"peak_gflops": "fast"}}',
    '{"KEY": {"peak_gflops": NaN, "bandwidth_gbs": {"1": 1.0}, REST}}',
    '{"KEY": {"peak_gflops": 1, "bandwidth_gbs": {"x": 1.0}, REST}}',
    '{"KEY": {"peak_gflops": 1, "bandwidth_gbs": {"1": 1.0}, REST, "spread": "wide"}}',
    '{"KEY": {"peak_gflops": 1, "bandwidth_gbs": {"1": 1.0}, REST, "source": 7}}',
    '{"KEY": {"peak_gflops": 1, "bandwidth_gbs": {"1": 1.0}, REST, "transcendental_gops": 0}}'])
def test_a_spoilt_cache_is_measured_anew(content, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path))
    machine_limits()
    key = next(iter(profiling._known_limits))
    monkeypatch.setattr(profiling, "_known_limits", {})
    file = tmp_path / "machine_limits.json"
    file.write_bytes(content.replace("KEY", key).replace("REST", REST).encode("latin-1"))
    assert machine_limits().peak_gflops == 100.0 and len(quick) == 2
    assert json.loads(file.read_text(encoding="utf-8"))[key]["peak_gflops"] == 100.0


def test_another_machines_entry_is_kept(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path))
    (tmp_path / "machine_limits.json").write_text('{"another machine": {"peak_gflops": 1}}', encoding="utf-8")
    machine_limits()
    assert "another machine" in json.loads((tmp_path / "machine_limits.json").read_text(encoding="utf-8"))


def test_a_cache_that_cannot_be_written_is_left_alone(quick, tmp_path, monkeypatch):
    blocked = tmp_path / "a file, no folder"
    blocked.write_text("here", encoding="utf-8")
    monkeypatch.setenv("TINYTORCH_CACHE", str(blocked))
    assert machine_limits().peak_gflops == 100.0
    assert blocked.read_text(encoding="utf-8") == "here"

    def fails(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "replace", fails)
    monkeypatch.setattr(profiling, "_known_limits", {})
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path / "half"))
    assert machine_limits().peak_gflops == 100.0
    assert list((tmp_path / "half").iterdir()) == []  # no leftover


def test_a_file_of_an_older_release_is_measured_anew(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path))
    machine_limits()
    file = tmp_path / "machine_limits.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    (key, entry), = stored.items()
    assert (entry["spread"], entry["product_gflops"]) == (0.25, {"8192": 20.0, str(10**8): 100.0})
    old = {name: value for name, value in entry.items() if name not in ("spread", "product_gflops")}
    file.write_text(json.dumps({key: old}), encoding="utf-8")
    monkeypatch.setattr(profiling, "_known_limits", {})
    assert machine_limits().spread == 0.25 and len(quick) == 2


def test_other_threads_other_key(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path))
    machine_limits()
    here = profiling.environment()
    monkeypatch.setattr(profiling, "environment", lambda: {**here, "blas_threads": here["blas_threads"] + 1})
    machine_limits()
    assert len(quick) == 2 and len(json.loads((tmp_path / "machine_limits.json").read_text(encoding="utf-8"))) == 2


@pytest.mark.parametrize(("platform", "variable"), [("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")])
def test_the_platforms_cache_folder(platform, variable, tmp_path, monkeypatch):
    monkeypatch.delenv("TINYTORCH_CACHE")
    monkeypatch.setattr(profiling.sys, "platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert profiling._cache_file() == tmp_path / "tinytorch" / "machine_limits.json"


def test_measuring_is_not_heard_by_listeners():
    heard = []
    with listen(heard.append):
        assert profiling._measure_dispatch() > 0
    assert heard == [] and thread_state().hearers == ()


def test_steps_inside_an_op_are_overhead():
    """A 2x2 pooling takes 3 + 4 steps: 5 µs for the op and 7 * 3 µs for them are 26 µs; nobody knows of 0 steps."""
    x = Tensor(np.ones((1, 1, 4, 4)))
    work = work_of(observe(lambda: max_pool2d(x, kernel=(2, 2), stride=(2, 2)))[0])
    assert work.steps == 7 and together(work, work).steps == 14
    machine = MachineLimits(100, 20, 5, step_us=3.0)
    assert time_floors(work, machine)["overhead"] == pytest.approx(0.026)
    assert time_floors(work, MACHINE)["overhead"] == pytest.approx(0.005)
    assert verdict(work, 0.030, machine)["limited_by"] == "overhead"
    assert "steps inside them: 7, 3 µs" in verdict(work, 0.030, machine)["advice"]
    assert verdict(work, 0.030, MACHINE)["limited_by"] == "unexplained"


def test_steps_of_a_small_convolution():
    """Columns, a product, its place in the output: 3; kernel rows one by one and a frame: 2 + 3 + 1."""
    plain, framed = conv((1, 1, 5, 5), (1, 1, 3, 3)), conv((1, 1, 5, 5), (1, 1, 3, 3), padding=(1, 1))
    assert [rows_at_once((1, 1, 5, 5), (1, 1, 3, 3), event.out_shape) for event in (plain, framed)] == [3, 1]
    assert [inside(event).steps for event in (plain, framed)] == [3, 6]


def test_a_step_costs_something_here_and_nobody_hears_it():
    heard = []
    with listen(heard.append):
        assert profiling._measure_step() > 0
    assert heard == []
    with pytest.raises(ValueError, match="step_us is -1"):
        MachineLimits(1, 1, 1, step_us=-1)
