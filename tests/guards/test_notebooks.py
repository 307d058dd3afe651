"""What every notebook promises: small cells, tests that run, 100 points (a bonus one: 0), a twin that says the same."""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tito.notebooks.book import Book, open_book
from tito.notebooks.checks import find_faults, nbdev_faults
from tito.notebooks.export import strip_scaffolding
from tito.notebooks.read import grader, read_source, skill
from tito.notebooks.release import is_untouched, release_notebook
from tito.notebooks.twin import read_twin, write_twin
from tito.project import Module, find_module, find_root, modules, target_owners

ROOT = find_root(Path(__file__))
MODULES = [module for module in modules(ROOT) if module.source.is_file()]
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.label)


@cache
def book(module: Module) -> Book:
    """The module's source, cell by cell."""
    return open_book(read_source(module), module, owners=target_owners(ROOT))


def test_there_are_modules():
    """The other tests here run once for each."""
    assert MODULES


@each_module
def test_no_trap_is_set(module):
    """None of the checks finds anything."""
    assert [str(fault) for fault in find_faults(book(module))] == []


@each_module
def test_exported_cells_are_small(module):
    """At most 60 lines each, half of them at most 15; the directive, solution markers and blank lines do not count."""
    lengths = {cell.name: sum(1 for line in strip_scaffolding(cell.source).split("\n")[1:] if line.strip())
               for cell in book(module).exported}
    assert {name: length for name, length in lengths.items() if length > 60} == {}
    assert statistics.median(lengths.values()) <= 15


@pytest.mark.parametrize("module", [module for module in MODULES if module.number > 14],
                         ids=lambda module: module.label)
def test_later_modules_have_no_clock_of_their_own(module):
    """After 14, times come from its Profiler: no cell, demo or exported, imports what reads a clock."""
    nodes = [node for cell in book(module).cells for node in cell.nodes]
    froms = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    names = froms | {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert "tinytorch.perf.profiling" in names  # so the cells were looked at
    assert names.isdisjoint({"time", "timeit", "datetime", "resource", "cProfile", "profile"})


@each_module
def test_graded_cells_call_their_test(module):
    """The last line of a graded cell is the call of the test it defines."""
    for cell in book(module).graded:
        assert cell.tree is not None
        last = cell.tree.body[-1]
        tests = [node.name for node in cell.tree.body if isinstance(node, ast.FunctionDef)]
        assert ast.unparse(last) in [f"{name}()" for name in tests if name.startswith("test_")], cell.name


@each_module
def test_points_make_100(module):
    """The points add up to 100, over 3 to 7 skills; a bonus notebook's cells check and give none."""
    graded = book(module).graded
    points = {cell.name: grader(cell.data)["points"] for cell in graded}
    wanted = 0 if module.bonus else 100
    assert sum(points.values()) == wanted, f"{module.source.name}: points of {points} make another sum than {wanted}"
    assert (1 if module.bonus else 3) <= len({skill(cell.data) for cell in graded}) <= 7


@each_module
def test_a_release_has_no_solutions(module):
    """The learner's notebook is a release of ours, without outputs, markers, or anything between them."""
    nb = release_notebook(module)
    assert is_untouched(nb)
    for cell, data in zip(book(module).cells, nb["cells"], strict=True):
        assert "SOLUTION" not in data["source"]
        assert not data.get("outputs") and data.get("execution_count") is None
        assert not cell.solution or "raise NotImplementedError(" in data["source"], cell.name


@each_module
def test_the_twin_says_the_same(module):
    """Notebook to twin and back loses nothing."""
    nb = release_notebook(module)
    assert read_twin(write_twin(nb), module.name) == nb


@each_module
def test_importing_a_twin_full_of_stubs_runs_nothing(module, tmp_path):
    """The twin of the empty notebook can be imported, and prints nothing while it is."""
    twin = tmp_path / module.twin.name
    twin.write_text(write_twin(release_notebook(module)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", f"import {module.name}_dev"], env=environment, capture_output=True,
                          text=True, encoding="utf-8", timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nbdev_keeps_our_metadata():
    """The settings in pyproject.toml let nbdev-clean keep what nbgrader and the build need."""
    assert [str(fault) for fault in nbdev_faults(ROOT)] == []


def test_the_header_of_profiling_adds_up_its_sections():
    """The hours a learner is promised are the sum of what the sections say."""
    text = find_module(ROOT, "profiling").source.read_text(encoding="utf-8")
    promised = int(re.search(r"\((\d+) minutes; each section", text).group(1))
    assert promised == sum(map(int, re.findall(r"^\*(\d+) minutes ·", text, re.MULTILINE)))
