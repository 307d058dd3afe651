"""The worked case: one chain, three spellings; and the script that says whether it went as claimed."""

import importlib.util
import json
import subprocess
import sys
from functools import wraps
from pathlib import Path

import numpy as np
import pytest

from tinytorch.core.autograd import check_gradient, no_grad
from tinytorch.core.tensor import Tensor, shape_only
from tinytorch.perf.profiling import count_flops

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "worked_case.py"


def load():
    """Import the script, which is no part of the package, from its file."""
    spec = importlib.util.spec_from_file_location("worked_case", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


case = load()
HOW = {"gamma": 1.5, "beta": -0.25, "low": -6.0, "high": 3.0}
COSTS = {case.Primitive: 31_000, case.PerStep: 11_000, case.Fused: 3_000}  # ns on the handed clock


def reference(h, residual):
    """The chain in float64, written down as in the book."""
    y = 1.5 * np.asarray(h, np.float64) - 0.25
    y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))) + residual
    return np.minimum(np.maximum(y, -6), 3)


def pair(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 2, (2, *shape)).astype(np.float32)


class Clock:
    """A clock on which a read takes 1,000 ns and a chain takes what it is told to."""

    def __init__(self, monkeypatch, costs):
        self.now = 0
        for spelling, ns in costs.items():
            monkeypatch.setattr(spelling, "chain", self.taking(ns, spelling.chain))

    def taking(self, ns, chain):
        @wraps(chain)
        def run(*args):
            self.now += ns
            return chain(*args)
        return run

    def __call__(self):
        self.now += 1_000
        return self.now


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Keep measured limits out of the user's cache; one measurement a process is enough."""
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path / "cache"))


def main(monkeypatch, tmp_path, *words, costs=COSTS):
    return case.main(["--rows", "24", "--dim", "8", "--rounds", "6", "--out", str(tmp_path / "traces"), *words],
                     clock=Clock(monkeypatch, costs))


# The ops


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (7, 0, 2), (case.BLOCK,), (case.BLOCK + 1,),
                                   (3, case.BLOCK // 2 + 5)])
def test_fused_is_the_chain(shape):
    h, residual = pair(*shape)
    got = case.fused_chain(Tensor(h), Tensor(residual), **HOW)
    assert (got.shape, got.dtype) == (shape, np.float32)
    np.testing.assert_allclose(got.data, reference(h, residual), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[:, 1:3], np.asfortranarray])
def test_fused_reads_any_layout(view):
    h, residual = (view(a) for a in pair(6, 10))
    before = h.copy()
    np.testing.assert_allclose(case.fused_chain(Tensor(h), Tensor(residual), **HOW).data, reference(h, residual),
                               rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(h, before)


def test_fused_takes_what_the_other_ops_take():
    whole = case.fused_chain(Tensor(np.array([0, 1])), Tensor(np.array([1, 1])), **HOW)  # integers become float32
    assert whole.dtype == np.float32
    h, residual = pair(4)
    double = case.fused_chain(Tensor(h, dtype=np.float64), Tensor(residual), **HOW)
    assert double.dtype == np.float64
    np.testing.assert_allclose(double.data, reference(h, residual), rtol=1e-12)
    assert np.isnan(case.fused_chain(Tensor([np.nan]), Tensor([0.0]), **HOW).data[0])


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 3), (1, 3)), ((4,), (5,))])
def test_fused_stretches_nothing(shapes):
    h, residual = (Tensor(np.zeros(shape)) for shape in shapes)
    with pytest.raises(ValueError, match="fused_chain: h .* with residual .*: want the same shape"):
        case.fused_chain(h, residual, **HOW)
    with shape_only(), pytest.raises(ValueError, match="want the same shape"):
        case.fused_chain(h, residual, **HOW)


def test_gelu_at_known_places():
    """0 and far out are exact; at 1: 0.5 (1 + tanh(0.79788 * 1.044715)) = 0.5 (1 + 0.68238) = 0.84119."""
    got = case.fused_gelu(Tensor([0.0, 1.0, 10.0, -10.0])).data
    np.testing.assert_allclose(got, [0, 0.84119, 10, 0], atol=1e-5)


def test_clamp():
    np.testing.assert_array_equal(case.clamp(Tensor([-9.0, -6.0, 0.5, 3.0, 4.0, np.nan]), low=-6.0, high=3.0).data,
                                  [-6, -6, 0.5, 3, 3, np.nan])


@pytest.mark.parametrize("spelling", case.SPELLINGS)
def test_gradients(spelling):
    """Against differences, on both sides of the upper bound (h = 4 is held there, with any of the residuals)."""
    h, residual = Tensor([[-3.0, -0.4, 0.3], [1.1, 4.0, 0.9]], True), Tensor([[-1.0, 0.5, 1.9], [-0.7, 0.1, 0.2]], True)
    model = spelling(3)
    assert check_gradient(model.chain, h, residual) < 1e-6
    out = model.chain(h, residual)
    out.sum().backward()
    assert out.data[1, 1] == 3
    assert (h.grad.data[1, 1], residual.grad.data[1, 1]) == (0, 0)
    assert residual.grad.data[0, 0] == 1


# What moves


def test_traffic():
    """Floats moved by a chain on N numbers, and the scalars that ops of two inputs read."""
    small = case.Case(5, 4)
    n = 20
    with no_grad():
        moved = {name: case.traffic(model, small.h, small.residual) for name, model in small.models.items()}
    # scale 2, shift 2, gelu 3 products and a sum of two arrays 3 each + 5 ops of one array 2 each = 22, add 3, clamp 2
    assert moved["Primitive"]["bytes"] == 4 * (31 * n + 6)  # gamma, beta, 0.044715, sqrt(2/pi), 0.5, 1
    assert moved["PerStep"]["bytes"] == 4 * ((2 + 2 + 2 + 3 + 2) * n + 2)  # gamma, beta
    assert moved["Fused"]["bytes"] == 4 * (1 + 1 + 1) * n  # h, residual, out
    assert [one["ops"] for one in moved.values()] == [13, 5, 1]
    assert [one["fresh_bytes"] for one in moved.values()] == [13 * 80, 5 * 80, 80]
    assert [one["tanhs"] for one in moved.values()] == [n, n, n]
    assert [one["flops"] for one in moved.values()] == [13 * n] * 3  # the same arithmetic, however it is spelled


def test_a_spelling_is_counted_on_shapes():
    """A row of 4: 2 * 4 * 4 of the linear layer and 13 steps for each of 4 numbers; the residual is a row, too."""
    model, row = case.Fused(4), Tensor(np.zeros((1, 4)))
    assert count_flops(lambda x: model(x, row), (1, 4)) == 32 + 52


def test_the_same_weights_the_same_outputs():
    small = case.Case(40, 16)
    first, *others = ({name: p.data for name, p in model.named_parameters()} for model in small.models.values())
    for other in others:
        for name, weight in first.items():
            np.testing.assert_array_equal(other[name], weight)
            assert not np.shares_memory(other[name], weight)
    with no_grad():
        expected, *outputs = (model(small.x, small.residual).data for model in small.models.values())
    for out in outputs:
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert (expected == 3).any()


# What is explained


def test_account():
    """100 bytes at 4 a ns are 25 ns; 10 tanhs at 0.5 ns are 5; 40 fresh bytes at 0.25 ns are 10; 10 in-cache ns."""
    can = {"bytes_per_ns": 4, "ns_per_tanh": 0.5, "ns_per_fresh_byte": 0.25, "ns_in_cache": {"Fused": 1.0}}
    found = case.account({"bytes": 100, "tanhs": 10, "fresh_bytes": 40}, can, "Fused", 80)
    ms = {name: found[name] * 1e6 for name in ("bytes_ms", "tanh_ms", "faults_ms", "explained_ms", "in_cache_ms")}
    assert ms == pytest.approx({"bytes_ms": 25, "tanh_ms": 5, "faults_ms": 10, "explained_ms": 40, "in_cache_ms": 10})
    assert found["unexplained"] == pytest.approx(0.5)  # 1 - 40 / 80
    assert found["left_after_cache"] == pytest.approx(0.375)  # 1 - 50 / 80


def test_rates():
    """12 float32: streaming moves 3 * 48 bytes in 72 ns; fresh memory takes 24 ns more for 48 bytes."""
    ns = {"streaming": 72, "fresh": 96, "tanh": 6, "gelu": 18, "fused": 30}
    found = case.rates(ns, np.zeros(12, np.float32))
    assert found == {"bytes_per_ns": 2.0, "ns_per_fresh_byte": 0.5, "ns_per_tanh": 0.5,
                     "ns_in_cache": {"Primitive": 0.0, "PerStep": 1.0, "Fused": 2.0}}


# The script


def test_pass(monkeypatch, tmp_path, capsys):
    assert main(monkeypatch, tmp_path) == 0
    said = capsys.readouterr().out
    assert said.endswith("\nPASS\n")
    for words in ("24 x 8 float32, seed 88", "BLAS threads", "last-level cache", "0 on -6.0", "31.1", "11.0", "3.0"):
        assert words in said
    assert sorted(file.name for file in (tmp_path / "traces").iterdir()) == ["fused.json", "perstep.json",
                                                                            "primitive.json"]
    assert all(case.is_trace(file) for file in (tmp_path / "traces").iterdir())


def test_json(monkeypatch, tmp_path, capsys):
    assert main(monkeypatch, tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["verdict"] for row in found["ratios"]] == ["faster"] * 3
    # a chain takes what it is told and one read of the clock: (31 + 1) / (11 + 1), (11 + 1) / (3 + 1), 32 / 4
    assert [row["measured"] for row in found["ratios"]] == pytest.approx([8 / 3, 3, 8])
    n = 24 * 8
    assert [row["from_bytes"] for row in found["ratios"]] == pytest.approx(
        [(31 * n + 6) / (11 * n + 2), (11 * n + 2) / (3 * n), (31 * n + 6) / (3 * n)])
    assert found["failures"] == []
    assert found["outputs"]["on_bounds"]["3.0"] > 0
    assert found["workload"]["tensor_bytes"] == 4 * n


def test_a_wrong_constant_fails(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(case.Fused, "gamma", 1.49)
    assert main(monkeypatch, tmp_path) == 1
    said = capsys.readouterr().out
    assert "FAIL: the outputs differ: " in said
    assert said.endswith("\nFAIL\n")


def test_a_clamp_that_does_nothing_fails(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(case.Spelling, "high", 100.0)
    assert main(monkeypatch, tmp_path) == 1
    assert "FAIL: no output sits on a bound" in capsys.readouterr().out


@pytest.mark.parametrize(("costs", "words"), [
    ((31_000, 11_000, 11_000), "Fused against PerStep is indistinguishable, want faster"),
    ((11_000, 31_000, 3_000), "PerStep against Primitive is slower, want faster")])
def test_another_ranking_fails(monkeypatch, tmp_path, capsys, costs, words):
    assert main(monkeypatch, tmp_path, costs=dict(zip(case.SPELLINGS, costs))) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"traceEvents": []}', '{"traceEvents": [{"ph": "M"}]}',
                                  '{"traceEvents": [{"ph": "X", "ts": NaN}]}', '{"traceEvents": 3}'])
def test_what_is_no_trace(tmp_path, text):
    file = tmp_path / "trace.json"
    file.write_text(text, encoding="utf-8")
    assert not case.is_trace(file)
    assert not case.is_trace(tmp_path / "missing.json")


def test_a_bad_trace_fails(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(case, "is_trace", lambda path: not path.endswith("fused.json"))
    assert main(monkeypatch, tmp_path) == 1
    assert "fused.json is no trace" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--rows", "0"], ["--dim", "-3"], ["--rows", "2.5"], ["--rounds", "5"],
                                   ["--row", "8"], ["8192"], ["--out", str(SCRIPT)]])
def test_what_cannot_run(words, capsys):
    try:
        status = case.main(words)
    except SystemExit as left:
        status = left.code
    assert status == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("could not run: ")
    assert told.err.count("\n") == 1


def test_as_a_command():
    done = subprocess.run([sys.executable, str(SCRIPT), "--rows", "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "could not run: argument --rows: 'none' came; want a whole number of at least 1\n"


def test_last_level_cache_is_a_size_or_unknown():
    size = case.last_level_cache()
    assert size is None or size >= 16 * 1024
