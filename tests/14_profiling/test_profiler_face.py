"""The face: the same verbs, remembered; six lines; weights; resident size."""

import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.tensor import Tensor, op, same_shape
from tinytorch.perf import profiling
from tinytorch.perf.profiling import (
    MachineLimits,
    MemoryProfiler,
    Profiler,
    analyze_weight_distribution,
    quick_profile,
)

MACHINE = MachineLimits(peak_gflops=50, bandwidth_gbs=20, dispatch_us=5)


def ones(*shape):
    return Tensor(np.ones(shape, np.float32))


# ---------------------------------------------------------------- Profiler


def test_the_seven_lines_of_a_user():
    profiler, layer = Profiler(), Linear(1024, 512)
    assert profiler.count_parameters(layer) == 524_800
    assert profiler.count_flops(layer, (1, 1024)) == 1_048_576
    assert profiler._count_linear_flops(layer, input_shape=(1, 1024)) == 1_048_576


def test_two_layers_do_not_overwrite_each_other():
    profiler = Profiler()
    for size in (3, 4, 5):
        profiler.count_parameters(Linear(size, 1))
    profiler.count_flops(Linear(3, 1), (1, 3))
    assert list(profiler.measurements.values()) == [4, 5, 6, 6]
    assert list(profiler.measurements) == [
        "count_parameters Linear", "count_parameters Linear #2", "count_parameters Linear #3", "count_flops Linear"]


def test_every_verb_is_remembered_and_gets_clock_and_limits(clock):
    profiler, model, x = Profiler(clock=clock, limits=MACHINE), Linear(4, 3), ones(2, 4)

    def timed(x):
        clock.advance(2)
        return x

    assert profiler.measure_latency(timed, x, 1, 3) == 2.0
    assert profiler.latency_statistics(timed, x, 1, 3)["median"] == 2.0
    assert profiler.profile_forward_pass(timed, x)["latency_ms"] == 2.0
    assert profiler.profile_layer(model, (2, 4))["flops"] == 48
    assert profiler.profile_backward_pass(model, x)["total_contractions"] == 96
    assert profiler.measure_memory(model, (2, 4))["parameter_memory_mb"] == 60 / 1024**2
    assert profiler.flop_report(model, (2, 4)).total == 48
    assert profiler.training_memory(model, (2, 4))["parameters"] == 60
    assert profiler.profile_batch_sizes(timed, (1, 4), (1, 2))[1]["throughput"] == 1000.0
    assert profiler.analyze_weight_distribution(model)["total_weights"] == 15
    assert len(profiler.measurements) == 10
    assert all(label.split()[0] in dir(profiler) for label in profiler.measurements)


VERBS = ("count_parameters", "count_flops", "flop_report", "linear_flops", "conv2d_flops", "attention_flops",
         "matmul_flops", "measure_memory", "measure_latency", "latency_statistics", "machine_limits", "roofline",
         "amdahl_speedup",
         "training_memory", "profile_batch_sizes", "quick_profile", "analyze_weight_distribution", "profile_layer",
         "profile_forward_pass", "profile_backward_pass")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_method_that_explains_itself(verb):
    method, function = getattr(Profiler, verb), getattr(profiling, verb)
    shown = list(inspect.signature(method).parameters)
    assert shown[0] == "self" and method.__doc__ and method.__name__ == verb
    known = [name for name in inspect.signature(function).parameters if name not in ("clock", "profiler", "limits")]
    assert [name for name in known if name not in shown] in ([], ["input_tensor"])
    assert list(inspect.signature(getattr(Profiler(), verb)).parameters) == shown[1:]


def test_closed_forms_and_roofs_are_verbs_too():
    profiler = Profiler(limits=MACHINE)
    assert profiler.matmul_flops((2, 3), (3, 4)) == 48 and profiler.linear_flops((1, 128), 64) == 16_384
    assert profiler.conv2d_flops((1, 4, 8, 8), 6, 3, groups=2) == 7_776
    assert profiler.attention_flops(1, 10, 64, heads=4) == 353_280
    assert profiler.amdahl_speedup(0.5, 2) == pytest.approx(4 / 3) and profiler.machine_limits() is MACHINE
    assert profiler.roofline(10**8, 10**6)["compute_ms"] == pytest.approx(2.0)  # its own 50 GFLOP/s
    other = MachineLimits(100, 20, 5)
    assert profiler.roofline(10**8, 10**6, other)["compute_ms"] == pytest.approx(1.0)
    assert profiler.roofline(10**8, 10**6, limits=other, footprint=10)["compute_ms"] == pytest.approx(1.0)
    assert list(profiler.measurements) == [
        "matmul_flops", "linear_flops", "conv2d_flops", "attention_flops", "amdahl_speedup", "machine_limits",
        "roofline", "roofline #2", "roofline #3"]
    with pytest.raises(TypeError, match="missing a required argument|missing 1 required"):
        profiler.matmul_flops((2, 3))
    assert len(profiler.measurements) == 9


def test_limits_may_come_with_every_call(clock):
    slow, fast = MachineLimits(1, 1000, 1), MachineLimits(1000, 1, 1)
    profiler, model, x = Profiler(clock=clock, limits=slow), Linear(64, 64), ones(64, 64)
    for verb, given in (("profile_forward_pass", x), ("profile_backward_pass", x), ("profile_layer", (64, 64)),
                        ("quick_profile", x)):
        call = getattr(profiler, verb)
        found = call(model, given), call(model, given, limits=fast)
        assert [one["bottleneck"] for one in found] == ["compute", "memory"]
    assert quick_profile(model, x, limits=fast, clock=clock)["bottleneck"] == "memory"
    with pytest.raises(TypeError, match="want MachineLimits"):
        Profiler(limits=100)


def test_the_verdict_follows_the_machine_and_the_time(clock):
    def model(x):
        clock.advance(model.ms)
        return x @ Tensor(np.ones((64, 64), np.float32))

    # 2 * 64^3 = 524,288 FLOPs in 49,152 bytes: 0.52 ms at 1 GFLOP/s, 0.49 ms at 0.1 GB/s, 0.5 ms of dispatch
    slow, narrow, costly = MachineLimits(1, 1000, 1), MachineLimits(1000, 0.1, 1), MachineLimits(1000, 1000, 500)
    for ms, limits, says in ((0.6, slow, "compute"), (0.6, narrow, "memory"), (0.6, costly, "overhead"),
                             (2.0, slow, "unexplained"), (0.8, MachineLimits(1, 0.1, 1), "mixed")):
        model.ms = ms
        assert Profiler(clock=clock).profile_forward_pass(model, ones(64, 64), limits=limits)["limited_by"] == says


def test_an_unpriced_op_is_named_beside_the_count():
    @op(shape=same_shape)
    def unpriced(a):
        """Copy."""
        return a + 0

    profiler = Profiler()
    assert profiler.count_flops(lambda x: unpriced(unpriced(x)) + 1.0, (2, 3)) == 3
    assert profiler.uncounted == {"unpriced": 2} and profiler.operation_counts == {"unpriced": 2, "add": 1}
    assert profiler.count_flops(Linear(3, 2), (2, 3)) == 12 and profiler.uncounted == {}
    profiler.flop_report(unpriced, (2, 3))
    assert profiler.uncounted == {"unpriced": 1}


def test_operation_counts_are_those_of_the_last_count():
    profiler = Profiler()
    profiler.count_flops(Sequential(Linear(4, 3), ReLU(), Linear(3, 2)), (7, 4))
    assert dict(profiler.operation_counts) == {"linear": 2, "relu": 1}
    profiler.flop_report(Linear(4, 3), (7, 4))
    assert dict(profiler.operation_counts) == {"linear": 1}


def test_closed_forms_read_attributes():
    profiler = Profiler()
    assert profiler._count_linear_flops(SimpleNamespace(weight=np.zeros((128, 64))), (32, 128)) == 2 * 128 * 64 * 32
    assert profiler._count_linear_flops(Linear(4, 3), (7, 5, 4)) == 2 * 4 * 3 * 35
    plain = SimpleNamespace(in_channels=3, out_channels=16, kernel_size=3)
    assert profiler._count_conv_flops(plain, (1, 3, 32, 32)) == 777_600
    stem = SimpleNamespace(in_channels=3, out_channels=64, kernel_size=(7, 7), stride=2, padding=3)
    assert profiler._count_conv_flops(stem, (1, 3, 224, 224)) == 236_027_904
    grouped = SimpleNamespace(in_channels=4, out_channels=6, kernel_size=3, groups=2)
    assert profiler._count_conv_flops(grouped, (1, 4, 8, 8)) == 7_776
    model = Sequential(Linear(8, 4), Linear(4, 2))
    assert profiler._count_sequential_flops(model, (32, 8)) == 2 * 32 * (8 * 4 + 4 * 2)
    assert profiler._count_layer_parameters(Linear(10, 5)) == 55


def test_elapsed(clock):
    with Profiler(clock=clock) as profiler:
        clock.advance(12.5)
    assert profiler.elapsed == 12.5
    with profiler:
        clock.advance(1)
        with profiler:
            clock.advance(2)
        assert profiler.elapsed == 2.0
    assert profiler.elapsed == 3.0
    with pytest.raises(RuntimeError, match="mine"), profiler:
        clock.advance(7)
        raise RuntimeError("mine")
    assert profiler.elapsed == 7.0
    with Profiler() as real:
        pass
    assert type(real.elapsed) is float and real.elapsed >= 0


# ---------------------------------------------------------------- quick_profile


def test_quick_profile_prints_six_lines(capsys, clock):
    profiler = Profiler(clock=clock, limits=MACHINE)
    got = quick_profile(Linear(128, 64), ones(32, 128), profiler)
    lines = capsys.readouterr().out.splitlines()
    names = ["Parameters", "FLOPs", "Latency", "Memory", "Bottleneck", "GFLOP/s"]
    assert [line.split(":")[0] for line in lines] == names
    assert "8,256" in lines[0] and "524,288" in lines[1] and all(len(line) <= 80 for line in lines)
    assert got is profiler.measurements["profile_forward_pass Linear"]
    assert got["flops"] == 524_288


def test_quick_profile_without_a_profiler(capsys):
    got = quick_profile(Sequential(), ones(2, 3))
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert (got["parameters"], got["flops"]) == (0, 0)


# ---------------------------------------------------------------- weights


def test_weights_are_described():
    layer = Linear(2, 2)
    layer.weight.data[:] = [[0.0005, -0.005], [0.05, -0.5]]
    layer.bias.data[:] = [1.0, -1.0]
    got = analyze_weight_distribution(layer)
    values = np.array([0.0005, -0.005, 0.05, -0.5, 1.0, -1.0], np.float32).astype(np.float64)
    assert got["total_weights"] == 6
    assert (got["min"], got["max"]) == (-1.0, 1.0)
    assert got["mean"] == pytest.approx(values.mean()) and got["std"] == pytest.approx(values.std())
    assert got["percentile_50"] == pytest.approx(np.percentile(values, 50))
    assert {f"percentile_{p}" for p in (10, 25, 50, 75, 90)} <= set(got)
    below = [got[f"below_threshold_{name}"] for name in ("0001", "001", "01")]
    assert below == pytest.approx([100 / 6, 200 / 6, 300 / 6])  # of absolute values, in per cent
    assert "percentile_99" in analyze_weight_distribution(layer, percentiles=[99])


def test_shared_weights_are_described_once_and_none_are_an_error():
    layer = Linear(4, 3)
    assert analyze_weight_distribution(Sequential(layer, ReLU(), layer))["total_weights"] == 15
    for model in (ReLU(), Sequential(), object()):
        assert list(analyze_weight_distribution(model)) == ["error"]


@pytest.mark.parametrize(("wanted", "kind"), [((101,), ValueError), ((-1,), ValueError), ((float("nan"),), ValueError),
                                              (("a",), TypeError), ((True,), TypeError), (5, TypeError)])
def test_percentiles_that_are_none_are_refused_in_one_sentence(wanted, kind):
    for model in (Linear(2, 2), ReLU()):  # also where there is nothing to describe
        with pytest.raises(kind, match="percentile.*; want"):
            analyze_weight_distribution(model, wanted)


# ---------------------------------------------------------------- resident size


def test_memory_timeline(capsys):
    watch = MemoryProfiler()
    watch.snapshot("before")
    block = np.ones(4_000_000, np.float32)
    watch.snapshot("after 15 MB")
    watch.report()
    assert block.nbytes and [set(note) for note in watch.snapshots] == [{"label", "rss", "timestamp"}] * 2
    assert watch.snapshots[0]["rss"] > 1 and watch.snapshots[0]["timestamp"] <= watch.snapshots[1]["timestamp"]
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "Memory Timeline:"
    for note, line in zip(watch.snapshots, lines, strict=True):
        assert re.fullmatch(r".{30}: +\d+\.\d\d MB \([+-]\d+\.\d\d MB\)", line)
        assert line.startswith(f"{note['label']:30s}: {note['rss']:8.2f} MB")


def test_an_empty_timeline(capsys):
    MemoryProfiler().report()
    assert capsys.readouterr().out == "Memory Timeline:\n"


def test_a_handed_probe_makes_the_timeline_exact(capsys):
    sizes = iter([3 * 2**20, 5 * 2**20, 4.5 * 2**20])
    watch = MemoryProfiler(probe=lambda: next(sizes))
    for label in ("before", "after", "freed"):
        watch.snapshot(label)
    watch.report()
    assert capsys.readouterr().out.splitlines() == [
        "Memory Timeline:", f"{'before':30s}:     3.00 MB (+0.00 MB)", f"{'after':30s}:     5.00 MB (+2.00 MB)",
        f"{'freed':30s}:     4.50 MB (-0.50 MB)"]
