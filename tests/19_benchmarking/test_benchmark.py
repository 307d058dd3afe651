"""Benchmark, BenchmarkSuite, tables: exact on a machine whose times are known, plain data, no clock of their own."""

import ast
import gc
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf import benchmarking
from tinytorch.perf.benchmarking import (
    Benchmark,
    BenchmarkSuite,
    accuracy_interval,
    benchmark_table,
    measure_model,
    right_or_wrong,
    span,
)
from tinytorch.perf.profiling import Profiler, environment, percentile

X = Tensor(np.eye(8, 4, dtype=np.float32))  # rows 4 to 7 are zeros
LABELS = np.array([0, 1, 2, 3, 0, 1, 2, 3])


@pytest.fixture(autouse=True)
def young_heap():
    """Each measurement collects garbage first; what the test run itself holds need not be searched each time."""
    gc.freeze()
    yield
    gc.unfreeze()


class Machine:
    """A clock, and layers whose calls take the milliseconds they are given, in turn."""

    def __init__(self):
        self.now = 0

    def taking(self, layer, *each_ms):
        def advance():
            self.now += round(1e6 * each_ms[next(turns) % len(each_ms)])

        turns = iter(range(10**9))
        return Slow(layer, advance)

    def profiler(self):
        return Profiler(clock=lambda: self.now)


class Slow(Layer):
    """A layer that lets time pass on a machine."""

    def __init__(self, layer, advance):
        self.layer, self.advance = layer, advance

    def forward(self, x):
        self.advance()
        return self.layer(x)


def keeping():
    """Four numbers to four scores, unchanged: rows 0 to 3 are right, zeros fall to class 0, so 5 of 8 are."""
    layer = Linear(4, 4)
    layer.weight.data[:], layer.bias.data[:] = np.eye(4), 0
    return layer


def turned():
    """As ``keeping``, but class 1 always scores a half more: zeros fall to 1; the others stay."""
    layer = keeping()
    layer.bias.data[1] = 0.5
    return layer


def test_every_number_on_a_machine_whose_times_are_known():
    machine = Machine()
    models = {"slow": machine.taking(keeping(), 4.0), "fast": machine.taking(turned(), 1.0)}
    slow, fast = Benchmark(models, X, LABELS, may_differ=True, profiler=machine.profiler()).run(2, 8, rounds=10, seed=3)
    assert (slow.name, slow.verdict, slow.ratio) == ("slow", "baseline", 1.0)
    assert (slow.ratio_interval, slow.paired) == (None, None)
    assert (slow.latency_ms, slow.times_ms, slow.latency_interval) == (4.0, [4.0] * 8, (4.0, 4.0))
    assert (slow.parameters, slow.parameter_bytes, slow.flops) == (20, 80, 32)  # 4 x 4 + 4; x 4 bytes; 2 x 4 x 4
    assert (fast.latency_ms, fast.verdict, fast.rounds, fast.seed) == (1.0, "faster", 10, 3)
    assert fast.ratio == pytest.approx(0.25) and fast.ratio_interval == pytest.approx((0.25, 0.25))
    assert fast.outputs_equal == "not asked"
    assert (slow.right, slow.total, slow.accuracy) == (5, 8, 5 / 8)  # row 4, zeros, is class 0: right
    assert slow.accuracy_interval == accuracy_interval(5, 8)
    assert (fast.right, fast.paired["only_first"], fast.paired["only_second"]) == (5, 1, 1)  # row 5 for row 4
    assert fast.paired["p_value"] == 1.0


def test_results_are_strict_json_and_hold_their_samples():
    machine = Machine()
    models = {"a": machine.taking(keeping(), 1.0, 3.0), "b": machine.taking(turned(), 2.0)}
    for one in Benchmark(models, X, LABELS, may_differ=True, profiler=machine.profiler()).run(1, 7, rounds=6):
        plain = one.to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert plain["latency_ms"] == percentile(plain["times_ms"], 50)
        assert plain["workload"]["blas"] == environment()["blas"] and plain["workload"]["mode"] == "eval"


def test_without_labels_there_is_no_accuracy_and_equal_outputs_are_asked_for():
    machine = Machine()
    models = {"a": machine.taking(keeping(), 1.0), "b": machine.taking(keeping(), 1.0)}
    a, b = Benchmark(models, X, profiler=machine.profiler()).run(1, 6, rounds=6)
    assert (a.accuracy, a.right, a.accuracy_interval, b.paired) == (None,) * 4
    assert (b.outputs_equal, b.verdict) == ("exactly", "indistinguishable")
    assert "baseline" in benchmark_table([a, b]) and "%" not in benchmark_table([a, b]).split("\n", 1)[1]


def test_outputs_that_disagree_are_refused_by_name_and_the_tolerance_is_handed_on():
    machine = Machine()
    models = {"a": machine.taking(keeping(), 1.0), "b": machine.taking(turned(), 1.0)}
    with pytest.raises(ValueError, match="b: input 0, output differs most"):
        Benchmark(models, X, profiler=machine.profiler()).run(1, 6, rounds=6)
    within = Benchmark(models, X, atol=0.5, profiler=machine.profiler()).run(1, 6, rounds=6)[1]
    assert within.outputs_equal == "within tolerance"
    with pytest.raises(ValueError, match="b: input 0: the decision"):
        Benchmark(models, X, atol=0.5, decision=lambda out: out.data.argmax(1), profiler=machine.profiler()).run(1, 6)


def test_different_models_must_still_answer_in_the_same_shape():
    models = {"a": Linear(4, 4), "b": Linear(4, 5)}
    with pytest.raises(ValueError, match=r"b: .*shape \(8, 4\) in the baseline and \(8, 5\)"):
        Benchmark(models, X, LABELS, may_differ=True, profiler=Profiler(clock=iter(range(10**6)).__next__)).run(1, 6)


def test_a_drift_of_the_machine_makes_nobody_faster():
    """Each call takes a hundredth longer than the one before; medians taken in turn differ, the pairs do not."""
    machine, calls = Machine(), iter(range(1, 10**6))

    def advance():
        machine.now += 1_000_000 + 10_000 * next(calls)

    models = {"a": Slow(keeping(), advance), "b": Slow(keeping(), advance)}
    a, b = Benchmark(models, X, profiler=machine.profiler()).run(1, 50, rounds=10, seed=0)
    assert b.latency_ms > 1.2 * a.latency_ms
    assert (b.ratio, b.verdict) == (pytest.approx(1.0), "indistinguishable")


def test_a_clock_that_stands_still_gives_no_ratio():
    models = {"a": keeping(), "b": keeping()}
    suite = BenchmarkSuite({"still": Benchmark(models, X, profiler=Profiler(clock=lambda: 0))}).run(1, 6, rounds=6)
    b = suite.cases["still"][1]
    assert (b.ratio, b.ratio_interval, b.verdict, b.latency_ms) == (None, None, "indistinguishable", 0.0)
    assert any("below the clock's resolution" in said for said in b.warnings)
    assert suite.summary() == {"a": 1.0, "b": None}
    assert "? (no interval)" in benchmark_table(suite.cases["still"])
    assert f"! doubts, in each result's warnings: a {len(suite.cases['still'][0].warnings)}, b" in benchmark_table(
        suite.cases["still"])


def test_all_is_in_evaluation_mode_and_models_are_left_as_they_were():
    machine, rng = Machine(), np.random.default_rng(0)
    inner = Sequential(keeping(), Dropout(0.5, rng))
    models = {"a": machine.taking(inner, 1.0), "b": machine.taking(keeping(), 1.0)}
    inner.train()
    before, state = inner.layers[0].weight.data.copy(), rng.bit_generator.state
    a, _ = Benchmark(models, X, LABELS, may_differ=True, profiler=machine.profiler()).run(1, 6, rounds=6)
    assert (a.right, a.workload["mode"], a.workload["gradient"]) == (5, "eval", "no_grad")  # nothing was dropped
    assert inner.training and inner.layers[1].training
    assert np.array_equal(inner.layers[0].weight.data, before) and rng.bit_generator.state == state
    with pytest.raises(ValueError, match="b: "):
        Benchmark({"a": models["a"], "b": Linear(4, 4)}, X, profiler=machine.profiler()).run(1, 6, rounds=6)
    assert inner.training and inner.layers[1].training


def test_a_batch_is_timed_and_all_examples_are_judged():
    machine = Machine()
    one = Benchmark({"a": machine.taking(keeping(), 1.0)}, X, LABELS, batch=3, profiler=machine.profiler()).run(1, 6)[0]
    assert (one.workload["shapes"], one.total, one.flops) == ([[3, 4]], 8, 32)


def test_bytes_are_those_that_are_stored():
    class Mixed(Layer):
        def __init__(self):
            self.q, self.linear = Tensor(np.zeros((4, 4), np.int8)), Linear(4, 4, bias=False)
            self.linear.weight = Tensor(np.eye(4), dtype=np.float64)

        def forward(self, x):
            return self.linear(x.astype(np.float64))

    found = measure_model(Profiler(clock=lambda: 0), Mixed(), X, 1, 6)
    assert (found["parameters"], found["parameter_bytes"]) == (32, 16 * 1 + 16 * 8)
    assert isinstance(found["parameter_bytes"], int) and isinstance(found["peak_bytes"], int)


@pytest.mark.parametrize("make, error, says", [
    (lambda: Benchmark([keeping()], X), TypeError, "models is a list"),
    (lambda: Benchmark({}, X), ValueError, "no models"),
    (lambda: Benchmark({1: keeping()}, X), TypeError, "name is 1"),
    (lambda: Benchmark({"a": keeping()}, np.eye(4)), TypeError, "want a Tensor"),
    (lambda: Benchmark({"a": keeping()}, X, LABELS[:7]), ValueError, r"labels are int64 \(7,\)"),
    (lambda: Benchmark({"a": keeping()}, X, LABELS / 2), ValueError, "labels are float64"),
    (lambda: Benchmark({"a": keeping()}, X, batch=9), ValueError, "batch is 9, and there are 8"),
    (lambda: Benchmark({"a": keeping()}, X, batch=0), ValueError, "batch"),
    (lambda: Benchmark({"a": keeping()}, X, may_differ=True), ValueError, "want labels"),
    (lambda: Benchmark({"a": keeping()}, X, LABELS, may_differ=True, atol=1.0), ValueError, "no rtol, atol"),
    (lambda: Benchmark({"a": None}, X), TypeError, "a is None; want a model"),
    (lambda: Benchmark({"a": Linear}, X), TypeError, "want a model: a Layer"),
    (lambda: Benchmark({"a": keeping()}, X, profiler=5), TypeError, "profiler is 5; want a Profiler"),
    (lambda: Benchmark({"a": keeping()}, X, profiler=Profiler), TypeError, "want a Profiler"),
    (lambda: BenchmarkSuite({}), TypeError, "at least one"),
    (lambda: BenchmarkSuite({"x": 1}), TypeError, "x' is a int"),
    (lambda: BenchmarkSuite({"x": Benchmark({"a": keeping(), "b": keeping()}, X), "y": Benchmark({"b": keeping()}, X)}),
     ValueError, "y has b, x has a, b")])
def test_what_cannot_be_benchmarked_is_refused(make, error, says):
    with pytest.raises(error, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weight, says", [(np.full((4, 4), np.nan), "no finite number"), (np.zeros((4, 4)), None)])
def test_a_score_that_is_nan_decides_nothing(weight, says):
    layer = keeping()
    layer.weight.data[:] = weight
    run = Benchmark({"a": layer}, X, LABELS, profiler=Profiler(clock=lambda: 0)).run
    if says:
        with pytest.raises(ValueError, match=says):
            run(1, 6)
    else:
        assert run(1, 6)[0].right == 2  # all zeros: class 0, which two of eight are


@pytest.mark.parametrize("labels, says", [(LABELS + 9, "from 9 to 12, .* 4 classes"), (LABELS - 1, "from -1 to 2")])
def test_a_label_that_no_score_belongs_to_is_no_wrong_answer(labels, says):
    with pytest.raises(ValueError, match=says):
        Benchmark({"a": keeping()}, X, labels, profiler=Profiler(clock=lambda: 0)).run(1, 6)


def test_scores_are_one_tensor():
    class Two(Layer):
        def forward(self, x):
            return x, x

    with pytest.raises(TypeError, match=r"gave a tuple; want a Tensor of scores \(8, classes\)"):
        Benchmark({"a": Two()}, X, LABELS, profiler=Profiler(clock=lambda: 0)).run(1, 6)


def test_scores_must_be_one_row_for_each_example():
    flat = Sequential(keeping())
    flat.forward = lambda x: Linear(4, 4)(x).reshape(4, 8)
    with pytest.raises(ValueError, match=r"gave \(4, 8\) for 8 labels"):
        Benchmark({"a": flat}, X, LABELS, profiler=Profiler(clock=lambda: 0)).run(1, 6)


@pytest.mark.parametrize("kind", [Tensor, np.asarray, list])
def test_labels_may_be_a_tensor_an_array_or_a_list(kind):
    model = Sequential(Linear(4, 4, bias=False))
    model.layers[0].weight.data[:] = np.eye(4)
    labels = Tensor(LABELS, dtype=np.int64) if kind is Tensor else kind(LABELS)
    assert right_or_wrong(model, X, labels).tolist() == [True] * 5 + [False] * 3  # of zeros the first is the largest


@pytest.mark.parametrize("labels", [LABELS / 2, LABELS.reshape(4, 2), 3])
def test_labels_that_are_no_class_numbers_are_refused(labels):
    with pytest.raises(ValueError, match="labels are .*want whole class numbers"):
        right_or_wrong(keeping(), X, labels)


def test_a_suite_sums_up_by_the_geometric_mean():
    machine = Machine()
    a, b, c = machine.taking(keeping(), 2.0), machine.taking(keeping(), 1.0), machine.taking(keeping(), 16.0)
    profiler = machine.profiler()
    suite = BenchmarkSuite({"b": Benchmark({"base": a, "other": b}, X, profiler=profiler),
                            "c": Benchmark({"base": a, "other": c}, X, batch=1, profiler=profiler)}).run(1, 6, rounds=6)
    assert suite.summary() == pytest.approx({"base": 1.0, "other": 2.0})  # sqrt(0.5 * 8)
    plain = suite.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["environment"] == environment() and list(plain["cases"]) == ["b", "c"]


def test_the_table_has_a_line_for_each_model():
    machine = Machine()
    models = {"a": machine.taking(keeping(), 4.0), "a name that is far too long": machine.taking(turned(), 1.0)}
    bench = Benchmark(models, X, LABELS, may_differ=True, profiler=machine.profiler())
    lines = benchmark_table(bench.run(1, 6, rounds=6))
    head, first, second = lines.split("\n")[:3]
    assert "FLOPs" in head and "62.5% (30.6% to 86.3%)" in first and "0.25 (0.25 to 0.25)" in second
    assert max(map(len, lines.split("\n"))) <= 92


def test_the_table_keeps_large_numbers_and_like_names_apart_and_shows_no_zero():
    one = Benchmark({"a": keeping()}, X, profiler=Profiler(clock=lambda: 0)).run(1, 6)[0]
    gpt2 = {"parameter_bytes": 497_759_232, "flops": 291_648_307_200, "latency_ms": 123_456.0, "verdict": "faster",
            "ratio": 0.0041, "ratio_interval": (0.0039, 0.0043)}
    names = ("quantized-int8-per-tensor", "quantized-int8-per-channel")
    lines = benchmark_table([replace(one, name=name, **gpt2) for name in names]).split("\n")
    assert "  497,759,232  291,648,307,200  123456.0000  0.0041 (0.0039 to 0.0043)" in lines[1]
    assert lines[1].split()[0] != lines[2].split()[0]
    assert benchmark_table([]).split() == benchmark_table([one]).split("\n")[0].split()


def test_an_interval_is_written_with_the_digits_asked_for():
    assert span((0.5, 0.0041)) == "0.50 to 0.0041"
    assert span((0.5, 0.0041), ".3f") == "0.500 to 0.004"
    assert span(None, ".3f") == "no interval"


def test_this_file_reads_no_clock():
    """All times come from module 14: nothing of ``time`` is imported, nor what reads a clock there."""
    tree = ast.parse(Path(benchmarking.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    sources = {getattr(node, "module", None) or name.name for node in imports for name in node.names}
    assert sources.isdisjoint({"time", "timeit", "datetime", "os", "resource", "tracemalloc"})
    assert "tinytorch.perf.profiling" in sources
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    reads = {"perf_counter", "perf_counter_ns", "monotonic", "time_calls", "timed_round", "__import__", "import_module"}
    assert names.isdisjoint(reads) and not [name for name in names if "clock" in name]
