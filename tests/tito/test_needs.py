"""What later modules need of module 14: unfinished, wrong, or missing parts are named in one sentence."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinytorch.core.layers import default_generator
from tinytorch.perf import profiling
from tito import desk, needs
from tito.grading import overlay, runner, verdict
from tito.notebooks.build import build
from tito.notebooks.export import export_notebook, export_text
from tito.notebooks.read import dumps, grader, load
from tito.notebooks.release import release_notebook, solution_notebook
from tito.project import Module, find_module, find_root, modules

ROOT = find_root(Path(__file__))
SENTENCE = re.compile(r"Module 14's Profiler is not ready for this: .*`tito module resume \w+` goes on there; "
                      r"`tito module complete \w+` then puts it into the package\.")
TRY = "from tito.needs import profiler_fault; print(profiler_fault())"


def said_with(files: dict[str, Path]) -> str:
    """Return what is said in a process where ``files`` stand in for modules of the package."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **overlay.variable(files)}
    done = subprocess.run([sys.executable, "-c", f"import tito.grading.overlay\n{TRY}"], env=environment, text=True,
                          capture_output=True, check=True)
    return done.stdout.strip()


def export(folder: Path, module: Module, *, stubs: tuple[str, ...] = ()) -> dict[str, Path]:
    """Export a module solved but for the cells ``stubs``, as a learner would."""
    nb, released = solution_notebook(module), release_notebook(module)
    for cell, stub in zip(nb["cells"], released["cells"]):
        if grader(cell).get("grade_id") in stubs and grader(cell).get("solution"):
            cell["source"] = stub["source"]
    file = folder / module.package.name
    file.write_text(export_text(nb, module, module.notebook.relative_to(module.root).as_posix()),
                    encoding="utf-8")
    return {module.target: file}


def test_the_reference_is_ready_and_nothing_is_changed(capsys):
    """It says so, and draws no random number that somebody else would have got."""
    before = json.dumps(default_generator().bit_generator.state, default=np.ndarray.tolist)
    needs.needs_profiler()
    assert capsys.readouterr().out == "Module 14's Profiler is ready.\n"
    assert json.dumps(default_generator().bit_generator.state, default=np.ndarray.tolist) == before


def test_a_stub_is_named_with_its_place(tmp_path):
    """The first thing that is not written, where it stands, and how many tries wait for something."""
    said = said_with(export(tmp_path, find_module(ROOT, "profiling"), stubs=("paired-ratio",)))
    place = re.search(r"NotImplementedError\(\"paired_ratio: (section \d+, cell \d+)\"\)",
                      find_module(ROOT, "profiling").twin.read_text(encoding="utf-8"))[1]
    assert SENTENCE.fullmatch(said)
    assert f"paired_ratio is not written yet ({place}) (and 1 more of" in said


def test_a_stub_of_an_earlier_module_is_named_with_that_module(tmp_path):
    """Module 14 is finished; what it is built on is not."""
    said = said_with(export(tmp_path, find_module(ROOT, "activations"), stubs=("relu",)))
    assert SENTENCE.fullmatch(said)
    assert "relu of 02_activations is not written yet (section" in said
    assert "`tito module resume activations` goes on there" in said


def test_a_whole_notebook_of_stubs(tmp_path):
    """All of module 14 unwritten is one sentence, too."""
    nb, module = release_notebook(find_module(ROOT, "profiling")), find_module(ROOT, "profiling")
    file = tmp_path / "profiling.py"
    file.write_text(export_text(nb, module), encoding="utf-8")
    said = said_with({module.target: file})
    assert SENTENCE.fullmatch(said)
    assert "count_parameters is not written yet (section 1, cell" in said


def test_a_file_that_cannot_be_imported(tmp_path):
    """What is no module, or ends what imports it, is said as such; nothing is tried that could not work."""
    file = tmp_path / "profiling.py"
    for line, says in (("from nowhere import Profiler", "ModuleNotFoundError: No module named 'nowhere'."),
                       ("raise RuntimeError('two\\nlines.')", "RuntimeError: two lines."),
                       ("import sys; sys.exit()", "SystemExit.")):
        file.write_text(f"{line}\n", encoding="utf-8")
        said = said_with({"tinytorch.perf.profiling": file})
        assert SENTENCE.fullmatch(said)
        assert f": importing tinytorch.perf.profiling raised {says} `tito" in said


def test_an_error_of_a_learners_own_module_is_named_with_that_module(tmp_path):
    """The tries stumble over a ReLU that is written, and wrong: module 02 is to look at, not the Profiler."""
    files = export(tmp_path, find_module(ROOT, "activations"))
    file, right = files["tinytorch.core.activations"], "return np.maximum(a, a.dtype.type(0))"
    text = file.read_text(encoding="utf-8")
    line = text[:text.index(right)].count("\n") + 1
    file.write_text(text.replace(right, "return a / [][0]"), encoding="utf-8")
    said = said_with(files)
    assert SENTENCE.fullmatch(said)
    assert f"IndexError: relu: (5, 4): list index out of range (02_activations in the package, line {line})" in said
    assert "`tito module resume activations` goes on there" in said


def test_a_profiler_of_zeros(monkeypatch):
    """Every verb gives 0, as one did with which a milestone passed: each try but none fails."""
    for name in dir(profiling.Profiler):
        if not name.startswith("_"):
            monkeypatch.setattr(profiling.Profiler, name, lambda *args, **more: 0)
    monkeypatch.setattr(profiling, "percentile_interval", lambda samples, p: (0, 0))
    said = needs.profiler_fault()
    assert SENTENCE.fullmatch(said)
    tries = len(needs._tries())
    assert f"is 0; want 26, 3 x 4 + 4 and 4 x 2 + 2 (and {tries - 1} more of {tries} tries fail)" in said
    with pytest.raises(ImportError, match="is 0; want 26"):
        needs.needs_profiler()


@pytest.mark.parametrize(("name", "wrong", "says"), [
    ("count_flops", lambda model, shape: 88, "count_flops of Linear(3, 4), ReLU, Linear(4, 2) is 88; want 44"),
    ("roofline", lambda *args, **more: {"intensity": 40, "ridge_point": 5.0, "regime": "memory"}, "want [40.0, 5.0"),
    ("compare", lambda *args, **more: {"ratio": 1.0, "verdict": "indistinguishable"}, "compare of 3 ms with 2 ms"),
    ("measure_latency", lambda *args, **more: 1 / 0, "raised ZeroDivisionError: "),
])
def test_a_wrong_verb_is_named(name, wrong, says, monkeypatch):
    """What came and what is right, of the first one that is wrong."""
    monkeypatch.setattr(profiling.Profiler, name, lambda self, *args, **more: wrong(*args, **more))
    said = needs.profiler_fault()
    assert SENTENCE.fullmatch(said)
    assert says in said


@pytest.mark.parametrize("lie", [lambda found: {"median": found["mean"]},
                                 lambda found: {"times_ms": found["times_ms"][:3]}])
def test_a_latency_that_is_the_mean_or_has_lost_its_samples_is_named(lie, monkeypatch):
    """The times tried are skewed: 2, 5, 10, ... 65 ms have the median 21.5 and the mean 212 / 8 = 26.5."""
    true = profiling.Profiler.latency_statistics

    def lying(self, *args, **more):
        found = true(self, *args, **more)
        return found | lie(found)

    monkeypatch.setattr(profiling.Profiler, "latency_statistics", lying)
    said = needs.profiler_fault()
    assert SENTENCE.fullmatch(said)
    assert "65 ms after a warm-up" in said and "the mean is 26.5" in said


def verbs_used(module: Module) -> set[str]:
    """Return the methods of ``Profiler`` that a later module's source calls by name."""
    called = {node.func.attr for node in ast.walk(ast.parse(module.source.read_text(encoding="utf-8")))
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    return called & {name for name in vars(profiling.Profiler) | vars(profiling.Profiler.__mro__[1])
                     if not name.startswith("_")}


TRIED = {node.attr for node in ast.walk(ast.parse(Path(needs.__file__).read_text(encoding="utf-8")))
         if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "p"}
LATER = [module for module in modules(ROOT) if module.number > 14 and module.source.is_file()]


def test_every_verb_that_later_modules_use_is_tried():
    """A verb that is missing here would be missed by the learner's notebook first."""
    assert {"count_flops", "compare", "roofline"} <= TRIED
    assert not {(module.label, verb) for module in LATER for verb in verbs_used(module) - TRIED}


# ---- another module's stubs while a module is graded, in the small checkout of two modules

def test_a_stub_of_another_module_is_named_with_it(root, alpha, tito, write_in):
    """Beta is written, alpha in the package is not: beta's cells wait for alpha, once, and not for beta."""
    write_in(alpha.notebook, half="return x / 2")
    export_notebook(load(alpha.notebook), alpha, alpha.package)
    beta = find_module(root, "beta")
    write_in(beta.notebook, fourfold="return double(double(x))")
    found = runner.grade(beta)
    cell, = found["cells"]
    assert (cell["state"], cell["waits_for"], cell["points"], cell["look_at"]) == ("error", "01_alpha", 0, None)
    assert re.fullmatch(r"double of 01_alpha is not written yet \(section 1, cell \d\); `tito module resume alpha` "
                        "goes on there", cell["message"])
    said = tito("test", "beta").stdout
    assert "1 thing to look at" in said and "double of 01_alpha is not written yet" in " ".join(said.split())
    assert "Not written yet" not in said and "tito hint" not in said


def test_a_tests_stub_of_another_module_is_named_with_it(root, alpha, write_in):
    """The same in a module's tests: they fail, and do not wait for the module that is graded."""
    write_in(alpha.notebook, half="return x / 2")
    export_notebook(load(alpha.notebook), alpha, alpha.package)
    beta = find_module(root, "beta")
    beta.tests.mkdir()
    (beta.tests / "test_beta.py").write_text(
        "from tinytorch.core.beta import Fourfold\n\n\ndef test_zero():\n    assert Fourfold().forward(0) == 0\n",
        encoding="utf-8")
    write_in(beta.notebook, fourfold="return double(double(x))")
    tests = runner.grade(beta)["tests"]
    assert (tests["unwritten"], tests["failed"]) == (0, 1)
    assert tests["failures"][0]["message"].startswith("01_alpha is not written yet, where this needs it: double: sect")
    write_in(beta.notebook, fourfold=None)
    beta.notebook.write_text(beta.notebook.read_text(encoding="utf-8").replace(
        "return double(double(x))", 'raise NotImplementedError(\\"Fourfold: section 1, cell 2\\")'), encoding="utf-8")
    tests = runner.grade(beta)["tests"]
    assert (tests["unwritten"], tests["failures"]) == (1, [])


# ---- a module after 14 in a checkout whose package holds a learner's Profiler

@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The course with one more module after 14, and the Profiler in its package without ``paired_ratio``."""
    root = tmp_path_factory.mktemp("course") / "checkout"
    ignore = shutil.ignore_patterns("__pycache__", "1[5-9]_*", "2?_*", "_backup")
    for name in ("src", "modules", "tinytorch"):
        shutil.copytree(ROOT / name, root / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "src" / "15_later").mkdir()
    (root / "src" / "15_later" / "15_later.py").write_text(LATER_MODULE, encoding="utf-8")
    build(root, ["later"])
    return root


LATER_MODULE = '''# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 15 · Later
Measures.
"""

# %%
#| default_exp perf.later

# %%
#| export
from tinytorch.core.layers import Linear
from tinytorch.perf.profiling import Profiler

# %%
from tito.needs import needs_profiler
needs_profiler()

# %% [markdown]
"""
## 1. Weigh
"""

# %% nbgrader={"grade": false, "grade_id": "weigh", "solution": true}
#| export
def weigh(layer):
    """Return the parameters of a layer."""
    ### BEGIN SOLUTION
    return Profiler().count_parameters(layer)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "weigh-check", "points": 100, "skill": "weighing"}
from tito.checks import check
def test_weigh():
    """A layer of eight."""
    check("weigh(Linear(3, 2))", weigh(Linear(3, 2)), 8, {0: "nothing counted"})
test_weigh()
'''


def test_the_references_profiler_is_not_tried_again(checkout):
    """All of the package up to module 14 is the reference's, which the course's own tests have tried."""
    later = find_module(checkout, "later")
    assert needs.package_fault(later) is None
    assert needs.package_fault(find_module(checkout, "tensor")) is None


def test_start_and_test_say_that_the_profiler_is_unfinished(checkout, write_in, monkeypatch, capsys):
    """`tito module start` and `tito test` of a later module name the part of module 14, and the way on."""
    later, profiling = find_module(checkout, "later"), find_module(checkout, "profiling")
    before = profiling.package.read_text(encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.chdir(checkout)
        try:
            said = export(profiling.package.parent, profiling, stubs=("paired-ratio", "count-parameters"))
            assert said == {profiling.target: profiling.package}
            opened = desk.start(later)
            assert SENTENCE.fullmatch(opened["needs"])
            assert "count_parameters is not written yet (section 1, cell" in opened["needs"]
            write_in(later.notebook, weigh="return Profiler().count_parameters(layer)")
            found = runner.grade(later)
        finally:
            profiling.package.write_text(before, encoding="utf-8")
    assert found["notes"] == [opened["needs"]]
    cell, = found["cells"]
    assert (cell["state"], cell["waits_for"], found["score"]) == ("error", "14_profiling", 0)
    error, = found["errors"]  # the cell that asks whether the Profiler is ready
    assert (error["type"], error["message"]) == ("ImportError", opened["needs"])
    verdict.draw(found)
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("Module 14's Profiler is not ready") == 1 and "1 thing to look at" in said
    found = runner.grade(later)
    assert (found["score"], found["notes"], found["errors"]) == (100, [], [])


def test_who_has_written_nothing_is_told_too_that_the_profiler_is_unfinished(checkout, capsys):
    """The package's own module is tested, on the learner's Profiler: the note says what to think of that."""
    later, profiling = find_module(checkout, "later"), find_module(checkout, "profiling")
    before, work = profiling.package.read_text(encoding="utf-8"), later.notebook.read_text(encoding="utf-8")
    try:
        export(profiling.package.parent, profiling, stubs=("paired-ratio",))
        later.notebook.write_text(dumps(release_notebook(later)), encoding="utf-8")
        found = runner.grade(later)
    finally:
        profiling.package.write_text(before, encoding="utf-8")
        later.notebook.write_text(work, encoding="utf-8")
    assert found["untouched"] and SENTENCE.fullmatch(*found["notes"])
    verdict.draw(found)
    assert "Note: Module 14's Profiler is not ready for this: paired_ratio is not" in " ".join(
        capsys.readouterr().out.split())


def test_a_profiler_that_does_not_come_back(checkout, monkeypatch):
    """A loop in it is said after the time for it, and whatever ends the process, too."""
    later, profiling = find_module(checkout, "later"), find_module(checkout, "profiling")
    before = profiling.package.read_text(encoding="utf-8")
    monkeypatch.setattr(needs, "TRY_SECONDS", 3)
    try:
        for line, why in (("while True: pass", "trying it did not end in 3 s"),
                          ("import os; os._exit(3)", "ended the process"),
                          ("raise KeyboardInterrupt", "trying it raised KeyboardInterrupt.")):
            profiling.package.write_text(f"{before}\n\n{line}\n", encoding="utf-8")
            said = needs.package_fault(later)
            assert SENTENCE.fullmatch(said) and why in said
    finally:
        profiling.package.write_text(before, encoding="utf-8")
