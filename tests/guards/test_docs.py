"""What README prints is true: its code runs, its commands exist, its output is the command's."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tito.notebooks.read import dumps
from tito.notebooks.release import solution_notebook
from tito.project import find_module, find_root, modules

ROOT = find_root(Path(__file__))
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, body in BLOCKS if not kind
            for line in body.splitlines() if re.match(r"(make|tito|pip) ", line)]
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))}
SCRIPTS = [line for page in PAGES.values()
           for body in re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
           for line in body.splitlines() if line.startswith("python ")]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Keep measured limits out of the user's cache."""
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path))


def tito(*words):
    return subprocess.run([sys.executable, "-m", "tito", *words], cwd=ROOT, capture_output=True, text=True, check=False,
                          encoding="utf-8", stdin=subprocess.DEVNULL)


def test_python_blocks_run(tmp_path):
    blocks = [body for kind, body in BLOCKS if kind == "python"]
    said = []
    for body in blocks:
        done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "524,800 parameters\n1,048,576 FLOPs per sample\n" in said[0]
    assert "linear" in said[1] and "inference" in said[1] and (tmp_path / "trace.json").stat().st_size > 1000


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("tito ")])
def test_tito_lines_run(line, tmp_path):
    handed_in = tmp_path / "submissions" / "ana" / "layers_dev.ipynb"
    handed_in.parent.mkdir(parents=True)
    handed_in.write_text(dumps(solution_notebook(find_module(ROOT, "layers"))), encoding="utf-8")
    ours = ("submissions", "course", "report.html")
    done = tito(*(str(tmp_path / word) if word in ours else word for word in line.split()[1:]))
    graded = line.startswith(("tito test", "tito module complete"))
    fine = (0, 1) if graded else (0,)  # 1: nothing is written in that notebook, or not all of it
    assert done.returncode in fine, done.stdout + done.stderr


@pytest.mark.parametrize("line", SCRIPTS)
def test_scripts_of_the_pages_are_there(line):
    """A whole run takes a minute and wants the machine for itself; that the script takes these words is checked."""
    words = line.split()[1:]
    done = subprocess.run([sys.executable, *words, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in words[1:]:
        assert not word.startswith("--") or word in done.stdout, word


def test_links_of_the_pages_lead_somewhere():
    links = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    assert PAGES and links
    assert not [(page, link) for page, link in links if not (ROOT / "docs" / link).is_file()]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_make_lines_name_targets(line):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pip_extras_exist():
    named = re.findall(r"\.\[([\w,]+)\]", README)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert named
    for extra in ",".join(named).split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_the_table_lists_the_modules():
    listed = re.findall(r"^\| (\d\d) (\w+) \|", README, re.MULTILINE)
    assert [f"{number}_{name}" for number, name in listed] == [
        module.folder for module in modules(ROOT) if not module.bonus]


def test_the_printed_profile_has_the_lines_of_the_command():
    """Numbers that are measured differ from run to run; everything else must be what the command prints now."""
    printed = re.search(r"<!-- output of: tito profile -->\n```\n(.*?)```", README, re.DOTALL).group(1)
    now = tito("profile").stdout

    def lasting(text):
        lines = [line.split() for line in text.splitlines() if line.strip()]
        start = next(i for i, words in enumerate(lines) if words[0] == "layer")
        end = next(i for i, words in enumerate(lines) if words[0] == "GFLOP/s:")
        table = [words[:5] if words[0].isdigit() else words[:4] for words in lines[start:start + 5]]
        return lines[0], table, [words[0] for words in lines[start:end + 1]]

    assert lasting(printed) == lasting(now)
