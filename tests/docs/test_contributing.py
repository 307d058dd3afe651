"""The recipes of CONTRIBUTING.md: followed in a copy of the checkout they work; each one left out is asked for by name.

A block's first line names its file and its place there: before or after a notebook's cell (its grade_id), after a
function, first in a table; a ``diff`` names the file alone.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tito.project import find_root

ROOT = find_root(Path(__file__))
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"# (\S+), (before the cell|after the cell|after the function|first in) (\S+)")
COMMANDS = [line for kind, body in FENCE.findall(TEXT) if kind == "console" for line in body.splitlines()]
BUILD = next(line for line in COMMANDS if re.fullmatch(r"\$ tito build( \w+){2,}", line))  # what all recipes touch
IGNORED = shutil.ignore_patterns(".*", "build", "docs", "milestones", "__pycache__", "*.egg-info", "_backup")


@dataclass(frozen=True)
class Block:
    """One edit, and the recipe (the heading) under which it stands."""

    recipe: str
    kind: str
    first: str
    body: str

    @property
    def file(self):
        return re.match(r"# ([^\s,]+)", self.first)[1]

    def applied(self, text):
        """Return a file's text with this edit in it."""
        if self.kind == "diff":
            before, after = (_side(self.body, sign) for sign in "-+")
            assert text.count(before) == 1, (f"CONTRIBUTING.md, {self.recipe}: what its diff takes away stands "
                                             f"{text.count(before)} times in {self.file}, not once; where that file "
                                             f"has changed, change the diff, too:\n{before}")
            return text.replace(before, after)
        _, where, name = PLACE.fullmatch(self.first).groups()
        lines = text.split("\n")
        at, spaced = {"before the cell": _before_cell, "after the cell": _after_cell,
                      "after the function": _after_function, "first in": _first_in}[where](lines, name)
        return "\n".join([*lines[:at], *spaced(self.body), *lines[at:]])


def _side(diff, sign):
    """Return the lines of a diff that stand before ("-") or after ("+") it."""
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line[:1] in (" ", sign))


def _cell(body):
    return [*body.rstrip("\n").split("\n"), ""]


def _marks(lines, name):
    starts = [number for number, line in enumerate(lines) if line.startswith("# %%")]
    own = next(number for number in starts if f'"grade_id": "{name}"' in lines[number])
    return own, next((number for number in starts if number > own), len(lines))


def _before_cell(lines, name):
    return _marks(lines, name)[0], _cell


def _after_cell(lines, name):
    return _marks(lines, name)[1], _cell


def _after_function(lines, name):
    node = next(node for node in ast.parse("\n".join(lines)).body
                if isinstance(node, ast.FunctionDef) and node.name == name)
    return node.end_lineno, lambda body: ["", "", *body.rstrip("\n").split("\n")]


def _first_in(lines, name):
    return next(n for n, line in enumerate(lines) if line.startswith(f"{name} = ")) + 1, lambda body: _cell(body)[:-1]


def blocks():
    found = []
    for section in re.split(r"^#{2,3} ", TEXT, flags=re.MULTILINE):
        for kind, body in FENCE.findall(section):
            if kind in ("python", "diff"):
                first, _, rest = body.partition("\n")
                found.append(Block(section.splitlines()[0], kind, first, rest))
    return found


BLOCKS = blocks()


def follow(folder, leave_out=()):
    """Write the files of all recipes anew, without the blocks that are left out."""
    for name in dict.fromkeys(block.file for block in BLOCKS):
        edits = [block.applied for block in BLOCKS if block.file == name and block not in leave_out]
        text = functools.reduce(lambda text, edit: edit(text), edits, (ROOT / name).read_text(encoding="utf-8"))
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def run(folder, *words):
    """Run a program of this environment there; what it said, and how it ended."""
    words = ["python", "-m", *words] if words[0] in ("tito", "pytest", "ruff") else words
    words = [sys.executable if word == "python" else word for word in words]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8",
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout + done.stderr


def built(folder, *names):
    status, said = run(folder, "tito", "build", *names)
    assert status == 0, said
    return folder


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A copy of the checkout in which all recipes were followed."""
    folder = tmp_path_factory.mktemp("contributing") / "TinyTorch"
    shutil.copytree(ROOT, folder, ignore=IGNORED)
    follow(folder)
    return built(folder, *BUILD.split()[3:])


@pytest.fixture
def without(followed, tmp_path):
    """What makes a copy in which the blocks that match are left out."""
    def make(wanted):
        out = [block for block in BLOCKS if wanted(block)]
        assert out
        folder = tmp_path / "TinyTorch"
        shutil.copytree(followed, folder)
        follow(folder, out)
        return folder
    return make


def test_each_thing_has_its_recipe():
    assert list(dict.fromkeys(block.recipe for block in BLOCKS)) == [
        "An op", "A gradient", "A cost", "A graded cell", "A mutant"]


@pytest.mark.parametrize("line", [line for line in dict.fromkeys(COMMANDS) if line != BUILD])
def test_a_command_works_when_all_recipes_are_followed(followed, line):
    """Long ones are only asked whether they would start, and a check of all modules checks those that were touched."""
    words = shlex.split(line.removeprefix("$ "))
    words = words[1:] if "=" in words[0] else words
    if words[0] == "make":
        if shutil.which("make") is None:
            pytest.skip("make is not installed")
        words.insert(1, "-n")
    elif words[0] == "mypy":
        words = ["python", "-m", "mypy", "--version"]
    elif words[-1] == "--check":
        words += BUILD.split()[3:]
    status, said = run(followed, *words)
    assert status == 0, said
    if "pytest" in words:
        assert re.search(r"\d+ passed", said), said
    if "matrix.py" in line:
        assert "1 wrong solutions (1 named)" in said and "faults: 0" in said
    if "hint" in words:
        assert "one of them is e^0" in said


def test_without_the_op_its_rules_have_nothing_to_import(without):
    folder = built(without(lambda block: block.recipe in ("An op", "A graded cell", "A mutant")), "activations")
    status, said = run(folder, "python", "-c", "import tinytorch")
    assert status == 1 and "cannot import name 'softplus' from 'tinytorch.core.activations'" in said, said


@pytest.mark.parametrize(("recipe", "module", "words"), [
    ("A gradient", "autograd", "softplus has no gradient rule and is not listed with no_gradient"),
    ("A cost", "profiling", "softplus has no cost rule and is not registered as free"),
])
def test_without_a_rule_the_guard_of_ops_asks_for_it(without, recipe, module, words):
    folder = built(without(lambda block: block.recipe == recipe), module)
    status, said = run(folder, "pytest", "tests/guards/test_ops.py", "-q", "-k", "softplus")
    assert status == 1 and words in said and "1 failed" in said, said


def test_without_room_for_its_points_a_graded_cell_makes_more_than_a_hundred(without):
    folder = without(lambda block: block.kind == "diff" and '"points"' in block.body)
    status, said = run(folder, "pytest", "tests/guards/test_notebooks.py", "-q", "-k", "points_make and 02_activations")
    assert status == 1 and "make another sum than 100" in said and "'test-softplus': 4" in said, said
    status, said = run(folder, "tito", "build", "activations")
    assert status == 2 and "add up to 104, not 100" in said, said


def test_a_check_that_is_not_called_is_not_built(followed, tmp_path):
    folder = tmp_path / "TinyTorch"
    shutil.copytree(followed, folder)
    source = folder / "src" / "02_activations" / "02_activations.py"
    source.write_text(source.read_text(encoding="utf-8").replace("\n\n\ntest_softplus()\n", "\n"), encoding="utf-8")
    status, said = run(folder, "tito", "build", "activations")
    assert status == 2 and "does not call its test" in said and "test_softplus()" in said, said


def test_without_a_mutant_the_solution_cell_is_named(without):
    folder = without(lambda block: block.recipe == "A mutant")
    status, said = run(folder, "pytest", "tests/mutants/test_mutants.py", "-q", "-k", "has_a_wrong and 02_activations")
    assert status == 1 and "softplus" in said and "cells without a wrong solution in m02_activations.py" in said, said


def test_without_the_mistake_s_name_the_mutant_dies_unnamed(followed, tmp_path):
    folder = tmp_path / "TinyTorch"
    shutil.copytree(followed, folder)
    source = folder / "src" / "02_activations" / "02_activations.py"
    text, found = re.subn(r", \{\s+\(0\.0, np\.inf\): \"e\^100.*?\}\)", ")", source.read_text(encoding="utf-8"))
    assert found == 1
    source.write_text(text, encoding="utf-8")
    status, said = run(folder, *shlex.split("python tests/mutants/matrix.py activations --only softplus"))
    assert status == 1 and "textbook-softplus: its name is not said" in said, said
