"""What README says is true: its commands exist and run, its links lead somewhere, its picture is a measured profile."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tito.project import find_root

ROOT = find_root(Path(__file__))
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
FENCED = [line for _, body in BLOCKS for line in body.splitlines()]
INLINE = re.findall(r"`((?:make|tito|pip|python)\s[^`]+)`", re.sub(r"^```.*?^```", "", README, flags=re.M | re.DOTALL))
COMMANDS = sorted({" ".join(command.split()) for command in [*FENCED, *INLINE]})


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Return the folder in which this file's commands keep the machine's limits, so that they are measured once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, cache):
    """Keep measured limits out of the user's cache."""
    monkeypatch.setenv("TINYTORCH_CACHE", str(cache))


def starting(word):
    return [command for command in COMMANDS if command.startswith(f"{word} ")]


def call(*words, cwd=ROOT):
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, encoding="utf-8",
                          stdin=subprocess.DEVNULL)


def test_every_command_is_looked_at_below():
    """A block of another kind, or a command of another program, would be looked at by no test."""
    assert {kind for kind, _ in BLOCKS} == {""}
    assert sorted(starting("make") + starting("tito") + starting("pip") + starting("python")) == COMMANDS
    assert {"make profile", "make test", "make docs"} <= set(COMMANDS)


def test_it_is_one_screen():
    assert len(README.splitlines()) <= 60
    assert max(len(line) for line in README.splitlines() if not line.startswith("![")) <= 120


@pytest.mark.parametrize("command", starting("tito"))
def test_tito_lines_run(command, tmp_path):
    """In a copy, since some of them write, and a test must not write into the checkout."""
    away = shutil.ignore_patterns(".*", "build", "__pycache__", "docs", "tests", "*.egg-info", "_backup", "results")
    desk = shutil.copytree(ROOT, tmp_path / "desk", ignore=away)
    done = call(sys.executable, "-m", "tito", *command.split()[1:], cwd=desk)
    fine = (0, 1) if command == "tito doctor" else (0,)  # 1: it found something to say about this environment
    assert done.returncode in fine, done.stdout + done.stderr
    if "--html" in command:
        assert "<html" in (desk / command.split()[-1]).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", starting("make"))
def test_make_lines_name_targets(command):
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE).group(1)
    assert command.split()[1] in targets.split()  # else `make docs` would be content with the folder of that name
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = call("make", "-n", *command.split()[1:])
    assert done.returncode == 0, done.stderr


def test_pip_extras_exist():
    named = re.findall(r"\.\[([\w,]+)\]", " ".join(starting("pip")))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert named
    for extra in ",".join(named).split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


@pytest.mark.parametrize("command", starting("python"))
def test_without_make_the_tests_are_called_alike(command):
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert command.split(maxsplit=1)[1] in recipe


def test_the_python_that_is_asked_for():
    asked = re.search(r"Python ([\d.]+) or newer", README).group(1)
    assert f'requires-python = ">={asked}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_how_to_reach_the_command():
    """`make` puts `tito` where no shell finds it, until the environment is activated."""
    script = re.search(r"`source (\S+)`", README).group(1)
    assert (ROOT / script).is_file()
    assert README.index(script) < README.index("`tito module start")


def test_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("https://")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_modules_are_twenty():
    numbers = {path.name[:2] for path in (ROOT / "src").glob("[0-9][0-9]_*")}
    assert "twenty modules" in README and len(numbers) == 20


@pytest.fixture
def pages(monkeypatch):
    """Import benchmarks/pages.py, which imports the scripts beside it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for name in ("worked_case", "two_questions"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("pages", ROOT / "benchmarks" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_what_the_script_writes(pages, tmp_path):
    """Shares of time and the machine differ from run to run; everything else must be what the script writes now."""
    pytest.importorskip("matplotlib")
    found = pages.measure_profile()
    now = pages.profile_figures(found, tmp_path / pages.PICTURE.name)
    shown = README.split(pages.BEGIN)[1].split(pages.END)[0]

    def lasting(text):
        counted = re.findall(r"(\d+%) of the (FLOPs|bytes)", text) if "layers.3 Conv2d:" in text else []
        return re.sub(r"layers\.[^.]*\.\]|, measured .*?\.\n", "", text, flags=re.DOTALL), counted

    assert lasting(shown)[0] == lasting(now)[0]
    assert lasting(shown)[1] == [("86%", "FLOPs"), ("33%", "bytes")]
    assert re.search(r"measured \d{4}-\d\d-\d\d on (one|a busy) machine: ", shown)
    drawn, again = (file.read_text(encoding="utf-8") for file in (pages.PICTURE, tmp_path / pages.PICTURE.name))
    assert drawn.startswith("<?xml") and re.search(r'<path d="[^"]+" style="fill: #ffffff"/>', drawn)  # its own paper
    size = r'<svg [^>]*viewBox="([^"]+)"'
    assert re.search(size, drawn).group(1) == re.search(size, again).group(1)  # as many layers in the key


def test_a_picture_names_the_machine_and_its_doubt(pages, tmp_path):
    pytest.importorskip("matplotlib")
    layers = [{"name": "", "type": "Sequential", "depth": 0, "self_ms": 0.0, "flops": 8, "bytes": 8},
              {"name": "0", "type": "Linear", "depth": 1, "self_ms": 3.0, "flops": 8, "bytes": 8}]
    workload = {"model": "m", "shapes": [[32, 4]], "cpu": "a CPU", "blas_threads": 2, "date": "2026-01-01"}
    found = {"layers": layers, "workload": workload, "warnings": []}
    text = pages.profile_figures(found, tmp_path / "profile.svg")
    shares = "0 Linear: 100% of the time, 100% of the FLOPs, 100% of the bytes."
    assert f"bar to bar. {shares}](docs/_static/profile.svg)\n" in text
    assert "\nOne pass over 32 inputs, measured 2026-01-01 on one machine: a CPU, 2 BLAS threads.\n" in text
    once = (tmp_path / "profile.svg").read_bytes()
    busy = pages.profile_figures({**found, "warnings": ["the machine is busy: ..."]}, tmp_path / "profile.svg")
    assert "on a busy machine: a CPU" in busy and (tmp_path / "profile.svg").read_bytes() == once
