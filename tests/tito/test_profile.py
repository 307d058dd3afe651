"""`tito profile`: the main job, for people and for machines."""

import json
import os
import subprocess
import sys

import pytest

from tinytorch import zoo
from tinytorch.core.layers import manual_seed
from tito import profiling
from tito.errors import TitoError
from tito.profiling import draw, memory_available, profile_model, train_on_digits


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


@pytest.mark.parametrize(("factory", "flat", "least"), [(zoo.digits_mlp, True, 0.94), (zoo.digits_cnn, False, 0.97)])
def test_a_digits_model_is_trained_for_real(factory, flat, least):
    manual_seed(0)
    model = factory()
    before = [p.data.copy() for p in model.parameters()]
    found = train_on_digits(model, flat=flat)
    assert (found["images"], found["held_out"]) == (1442, 355)  # every fifth of each digit is held out; 1,797 in all
    assert found["accuracy"] > least
    assert all((p.data != old).any() for p, old in zip(model.parameters(), before))
    assert all(p.grad is None for p in model.parameters())


def test_an_op_without_a_cost_is_named(capsys):
    result = profile_model("digits_mlp", iterations=5)
    result["profile"]["uncounted"] = ["swish"]
    draw(result)
    assert "Not counted, for want of a cost rule: swish" in capsys.readouterr().out


def test_what_does_not_fit_is_counted_and_said(capsys):
    """GPT-3: 174,604,259,328 weights of 4 bytes; on top the widest op, or the largest layer in float64, 4 D² or V D."""
    result = profile_model("gpt3")
    assert "profile" not in result and "training" not in result
    assert result["count"]["parameters"] == 174_604_259_328
    assert result["count"]["contractions"] == 734_804_261_732_352
    largest = 8 * (4 * 12288**2 + 4 * 12288)
    needed = (4 * 174_604_259_328 + max(largest, 8 * 50257 * 12288, result["count"]["widest_op"])) / 1024**3
    assert result["not_run"].startswith(f"running it takes about {needed:,.1f} GB, and ")
    draw(result)
    text = capsys.readouterr().out
    assert "counted on shapes" in text and "Not run: running it takes about" in text
    assert "0-95 TransformerBlock, each" in text and "174,604,259,328" in text
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_what_fits_is_decided_by_what_is_free(monkeypatch):
    """digits_mlp needs 2,410 * 4 bytes of weights and, at 32 rows, x, weight, bias and output of its first layer.

    That is more than its largest layer in float64, 8 * 2,080.
    """
    needed = 4 * 2410 + 4 * (32 * 64 + 64 * 32 + 32 + 32 * 32)
    monkeypatch.setattr(profiling, "memory_available", lambda: needed - 1)
    assert "GB are free" in profile_model("digits_mlp", iterations=3)["not_run"]
    monkeypatch.setattr(profiling, "memory_available", lambda: needed)
    assert "profile" in profile_model("digits_mlp", iterations=3)


def test_free_memory_is_a_plausible_number():
    assert 2**20 < memory_available() < 2**50


@pytest.mark.parametrize("name", sorted(zoo.models()))
def test_every_model_of_the_zoo_is_counted(name):
    result = profile_model(name, count_only=True)
    assert result["not_run"] == "asked only to count"
    assert result["count"]["total"] > 0 and result["count"]["uncounted"] == {}


def test_a_table_is_cut_where_it_gets_long(capsys):
    """ResNet-50 has 172 layers below its 22 rows; their share of the time goes to the row that holds them."""
    rows = [{"name": "a", "depth": 0, "share": 0.1}, *({"name": str(i), "depth": 1, "share": 0.0} for i in range(20)),
            *({"name": "x", "depth": 2, "share": 0.0225} for _ in range(40))]
    kept, cut = profiling.upper_levels(rows)
    assert (len(kept), cut) == (21, 40)
    assert kept[-1]["share"] == pytest.approx(0.9) and rows[20]["share"] == 0.0
    draw(profile_model("resnet50", count_only=True))
    text = capsys.readouterr().out
    assert "8-10 Residual, each" in text and "172 deeper layers are in --json" in text


FACTORIES = """
from tinytorch.core.layers import Layer, Linear
from tinytorch.core.tensor import Tensor

def small():
    return Linear(6, 4)

def needs(width):
    return Linear(width, 4)

def breaks():
    raise RuntimeError("no weights found")

def leaves():
    raise SystemExit(0)

def talks():
    import os
    os.chdir("/")
    print("hello")
    return Linear(6, 4)

def lazy():
    import other
    return other.make()

class Falls(Layer):
    def forward(self, x):
        raise KeyError("no such key")

class Writes(Layer):
    def __init__(self):
        self.inner = Linear(6, 4)
        self.inner.weight.data[...] = 0

    def forward(self, x):
        return self.inner(x)

class Deciding(Layer):
    def __init__(self):
        self.inner = Linear(6, 4)

    def forward(self, x):
        return self.inner(x) if x.sum().item() == x.sum().item() else x

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own in a folder of her own."""
    (tmp_path / "mine.py").write_text(FACTORIES, encoding="utf-8")
    (tmp_path / "other.py").write_text("from mine import small as make\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("name", ["small", "talks", "lazy", "Writes"])
def test_a_factory_of_one_s_own(own, name):
    """6 * 4 + 4 parameters; 2 * 6 * 4 FLOPs for each of 3 rows. What it prints is not in the JSON."""
    done = tito("profile", f"mine:{name}", "--input-shape", "3,6", "--json", "--iterations", "3")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["profile"]["parameters"], result["profile"]["flops"]) == (28, 144)
    assert result["input_shape"] == [3, 6]


def test_a_model_that_decides_by_values_is_profiled_though_not_counted_on_shapes(own):
    """2 * 6 * 4 for each of 3 rows, and twice a sum of 18 numbers."""
    done = tito("profile", "mine:Deciding", "--input-shape", "3,6", "--json", "--iterations", "3")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["count"] is None and result["profile"]["flops"] == 144 + 2 * 18
    assert tito("profile", "mine:Deciding", "--input-shape", "3,6", "--iterations", "3").returncode == 0
    done = tito("profile", "mine:Deciding", "--input-shape", "3,6", "--count-only")
    assert done.returncode == 2 and "no values" in done.stderr


@pytest.mark.parametrize(("words", "says"), [
    (("mine:small",), "--input-shape"), (("mine:none", "--input-shape", "3,6"), "none"),
    (("nowhere:small", "--input-shape", "3,6"), "nowhere"), (("mine:number", "--input-shape", "3,6"), "int"),
    (("mine:breaks", "--input-shape", "3,6"), "no weights found"),
    (("mine:leaves", "--input-shape", "3,6"), "SystemExit"),
    (("mine:Falls", "--input-shape", "3,6"), "no such key"), ((":small", "--input-shape", "3,6"), "package.module"),
    (("../mine:small", "--input-shape", "3,6"), "package.module"), (("mine:needs", "--input-shape", "3,6"), "width"),
    (("mine:small", "--input-shape", "3,7"), "last axis is 7"), (("mine:small", "--input-shape", "3,x"), "3,x"),
    (("mine:small", "--input-shape", "0,6"), "0,6")])
def test_a_factory_that_cannot_be_profiled_gets_one_sentence(own, words, says):
    done = tito("profile", *words)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr
    assert "Traceback" not in done.stderr


def test_counting_and_running_agree():
    """Both are in evaluation mode: no dropout, and a batch norm that takes one value per channel."""
    result = profile_model("resnet18", input_shape=(1, 3, 32, 32), iterations=3)
    assert result["count"]["total"] == result["profile"]["flops"] == 75_313_728


def test_a_sequence_that_is_too_long_is_said_to_be():
    for words in (("--count-only",), ()):
        done = tito("profile", "gpt2_small", "--input-shape", "1,1025", *words)
        assert done.returncode == 2 and "1025" in done.stderr and "1024" in done.stderr


@pytest.mark.parametrize("columns", [20, 30, 40, 50])
def test_no_number_is_ever_cut(columns):
    """On a narrow screen columns are left out, never digits: the model's row ends in its share, 100 per cent."""
    done = tito("profile", "gpt3", "--count-only", COLUMNS=str(columns))
    line = next(line for line in done.stdout.splitlines() if line.startswith("GPT "))
    whole = ["175G", "735T", "3.95T", "100%"]
    assert line.split()[1:] in (whole, [*whole[:2], "100%"], ["735T", "100%"])
