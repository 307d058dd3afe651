"""The face: the same verbs, remembered; six lines; weights; resident size."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.tensor import Tensor
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
