"""`tito profile`: the main job, for people and for machines."""

import json
import os
import subprocess
import sys

import pytest

from tinytorch import zoo
from tito.errors import TitoError
from tito.profiling import draw, profile_model, train_on_digits


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Keep measured limits in a folder of the test's own."""
    before = os.environ.get("TINYTORCH_CACHE")
    os.environ["TINYTORCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["TINYTORCH_CACHE"]
    if before is not None:
        os.environ["TINYTORCH_CACHE"] = before


def tito(*words, **more):
    return subprocess.run([sys.executable, "-m", "tito", *words], capture_output=True, text=True, check=False,
                          encoding="utf-8", stdin=subprocess.DEVNULL, env={**os.environ, **more})


def test_json_has_the_workload_the_limits_and_the_layers():
    """Counts are exact: 64*32 + 32 + 32*10 + 10 parameters; 2 FLOPs per multiply-add and 1 per ReLU, 32 rows."""
    done = tito("profile", "--json", "--iterations", "10")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["input_shape"] == [32, 64]
    assert result["profile"]["parameters"] == 2410
    assert result["profile"]["flops"] == 32 * (2 * 64 * 32 + 32 + 2 * 32 * 10)
    layers = result["profile"]["layers"]
    assert [layer["type"] for layer in layers] == ["Sequential", "Linear", "ReLU", "Linear"]
    assert sum(layer["flops"] for layer in layers[1:]) == layers[0]["flops"]
    assert sum(layer["share"] for layer in layers) == pytest.approx(1)
    assert result["limits"]["peak_gflops"] > 0
    assert result["training"]["accuracy"] > 0.94
    assert result["profile"]["latency"]["samples"] == 10


def test_the_default_is_the_digits_mlp_and_stages_are_told():
    done = tito("profile", "--iterations", "5", NO_COLOR="1")
    assert done.returncode == 0
    assert done.stdout.startswith("digits_mlp on (32, 64)")
    for line in ("Parameters:", "FLOPs:", "Latency:", "Memory:", "Bottleneck:", "GFLOP/s:"):
        assert f"\n{line}" in done.stdout
    assert "training on handwritten digits" in done.stderr


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_it_fits_the_screen(columns):
    done = tito("profile", "--iterations", "5", COLUMNS=str(columns))
    table = done.stdout[done.stdout.index("layer "):done.stdout.index("Parameters:")]
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert [line.split()[:2] for line in table.splitlines()[2:5]] == [["0", "Linear"], ["1", "ReLU"], ["2", "Linear"]]


def test_another_batch():
    result = profile_model("digits_mlp", batch=4, iterations=5)
    assert result["profile"]["flops"] == 4 * (2 * 64 * 32 + 32 + 2 * 32 * 10)
    assert result["profile"]["flops_per_sample"] == 2 * 64 * 32 + 32 + 2 * 32 * 10


def test_unknown_models_and_bad_options():
    with pytest.raises(TitoError, match="digits_mlp"):
        profile_model("digit_mlp")
    done = tito("profile", "resnet9000")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert tito("profile", "--batch", "0").returncode == 2


def test_a_digits_model_is_trained_for_real():
    model = zoo.digits_mlp()
    before = [p.data.copy() for p in model.parameters()]
    found = train_on_digits(model)
    assert (found["images"], found["held_out"]) == (1442, 355)  # every fifth of each digit is held out; 1,797 in all
    assert found["accuracy"] > 0.94
    assert all((p.data != old).any() for p, old in zip(model.parameters(), before))
    assert all(p.grad is None for p in model.parameters())


def test_an_op_without_a_cost_is_named(capsys):
    result = profile_model("digits_mlp", iterations=5)
    result["profile"]["uncounted"] = ["swish"]
    draw(result)
    assert "Not counted, for want of a cost rule: swish" in capsys.readouterr().out
