"""`tito test`: what a notebook earns, and that no way of ending, hanging or cheating earns anything."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tito.errors import TitoError
from tito.grading import limits, runner
from tito.grading.submission import Submission, read
from tito.notebooks.build import build
from tito.notebooks.read import dumps, load
from tito.notebooks.release import release_notebook, solution_notebook
from tito.notebooks.twin import write_twin
from tito.project import Module, find_module, modules

HERE = Path(__file__).resolve().parents[2]
RIGHT = {"double": "return 2 * x", "half": "return x / 2"}


def cell_of(nb: dict[str, Any], grade_id: str) -> dict[str, Any]:
    """Return the cell with this grade_id."""
    return next(cell for cell in nb["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def states(result: dict[str, Any]) -> dict[str, str]:
    """Return how each graded cell ended."""
    return {cell["grade_id"]: cell["state"] for cell in result["cells"]}


def added(module: Module, source: str, before: str = "double-check") -> None:
    """Put a learner's cell in front of a graded one."""
    nb = load(module.notebook)
    place = nb["cells"].index(cell_of(nb, before))
    nb["cells"].insert(place, {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "execution_count": None,
                               "source": source})
    module.notebook.write_text(dumps(nb), encoding="utf-8")


def earned(module: Module, source: str | None = None, timeout: float = 60) -> dict[str, Any]:
    """Return what the cells earn, without the tests."""
    return runner.grade_cells(read(module, source), timeout)


# ---- honest work ----

def test_untouched_notebook_earns_nothing_and_the_package_is_tested(alpha, tito):
    """0 points, exit status of the package's own tests."""
    done = tito("test", "alpha", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["score"], result["max_score"], result["tested"]) == (0, 0, 100, "package")
    assert result["skills"] == [{"skill": "doubling", "points": 0, "max_points": 60},
                                {"skill": "halving", "points": 0, "max_points": 40}]
    assert (result["tests"]["passed"], result["tests"]["total"]) == (4, 4)
    alpha.package.write_text("def double(x): return x\ndef half(x): return x / 2\n", encoding="utf-8")
    done = tito("test", "1")
    assert done.returncode == 1
    assert "0 of 100 points" in done.stdout
    assert "Package tests: 2 of 4" in done.stdout


def test_right_answers_earn_everything_and_change_nothing(alpha, tito, write_in, snapshot):
    """Full score, edge tests on the export, and not a byte of the checkout changed."""
    write_in(alpha.notebook, **RIGHT)
    before = snapshot()
    done = tito("test", "alpha", cwd=alpha.notebook.parent)
    assert done.returncode == 0, done.stdout
    assert "100 / 100" in done.stdout
    assert "Edge tests: 4 of 4" in done.stdout
    assert snapshot() == before


def test_the_edge_tests_see_the_learners_code(alpha, write_in):
    """The package is right, the notebook is wrong at the edge only: the tests fail, the points stay."""
    write_in(alpha.notebook, double="return 2 * x if x > 0 else 1", half="return x / 2")
    result = runner.grade(alpha)
    assert (result["score"], result["tests"]["passed"], result["exit_status"]) == (100, 2, 1)
    assert [failure["name"] for failure in result["tests"]["failures"]] == [
        "test_edges.py::test_double_then_half[0]", "test_edges.py::test_double_then_half[-1]"]


def test_a_wrong_answer_names_its_mistake(alpha, tito, write_in):
    """Expected, got, the likely mistake and the cell; what is not written is no crash."""
    write_in(alpha.notebook, double="return x * x")
    done = tito("test", "alpha")
    assert done.returncode == 1
    for words in ("0 / 60", "42", "441", "you squared it", "- double-check: double(21)", "double (section 1. Twice)",
                  "tito hint alpha double", "half: section 2, cell 1", "Not complete yet"):
        assert words in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) <= 24


def test_an_error_in_the_learners_function_names_cell_and_line(alpha, write_in):
    """The place is in her cell, not in the graded one."""
    write_in(alpha.notebook, double="return x + y", half="return x / 2")
    cell = earned(alpha)["cells"][0]
    assert (cell["type"], cell["raised_in"], cell["line"]) == ("NameError", "double", 4)


@pytest.mark.parametrize("module", [pytest.param(
    module, id=module.label, marks=pytest.mark.rotates(module.number) if module.number != 14 else ())
    for module in modules(HERE)])
def test_every_module_of_the_course(module):
    """The reference passes every check (100 points, 0 in a bonus notebook), the released notebook none of them.

    Of every module, every day: its chapter runs, checks and all, when the site is built (tests/docs/test_site.py).
    """
    most = 0 if module.bonus else 100
    for nb, right in ((solution_notebook(module), True), (release_notebook(module), False)):
        result = runner.grade_cells(Submission(module, "notebook", nb, False), 300)
        assert result["cells"]
        assert [cell for cell in result["cells"] if (cell["state"] == "passed") != right] == []
        assert (result["score"], result["max_score"]) == (most if right else 0, most)
        assert result["notes"] == []
        assert not (right and result["errors"])


# ---- notebook and twin ----

def test_the_twin_counts_when_only_it_was_edited(alpha, tito):
    """And the verdict says so."""
    twin = solution_notebook(alpha)
    alpha.twin.write_text(write_twin(twin), encoding="utf-8")
    done = tito("test", "alpha")
    assert done.returncode == 0, done.stdout
    assert "your twin" in done.stdout
    assert "is as released, so this is about alpha_dev.py" in " ".join(done.stdout.split())
    alpha.notebook.unlink()
    assert earned(alpha)["score"] == 100


def test_both_edited_and_different_needs_a_word(alpha, tito, write_in):
    """One sentence that names --source; with it, either is graded."""
    write_in(alpha.notebook, double="return 2 * x")
    alpha.twin.write_text(write_twin(solution_notebook(alpha)), encoding="utf-8")
    done = tito("test", "alpha")
    assert done.returncode == 2
    assert "--source" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [earned(alpha, source)["score"] for source in ("notebook", "twin")] == [60, 100]


def test_both_edited_alike_is_no_question(alpha, write_in):
    """The twin of the edited notebook is the same work."""
    write_in(alpha.notebook, **RIGHT)
    alpha.twin.write_text(write_twin(load(alpha.notebook)), encoding="utf-8")
    assert earned(alpha)["score"] == 100


# ---- damaged notebooks ----

@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', '{"cells": 3}', '{"cells": [1]}',
                                  '{"cells": [' + "1, " * 10_000 + "1]}", '{"cells": [{"source": []}]}', "\x00\x01"])
def test_what_is_no_notebook_cannot_be_graded(alpha, tito, text):
    """Exit 2, one sentence that names the file, JSON still one object."""
    alpha.notebook.write_text(text, encoding="utf-8")
    done = tito("test", "alpha", "--json")
    assert done.returncode == 2
    assert "alpha_dev.ipynb" in json.loads(done.stdout)["error"]
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_notebook_says_how_to_get_it_back(alpha, tito):
    """A twin as released does not stand in for it, an edited one does."""
    alpha.notebook.unlink()
    done = tito("test", "alpha")
    assert done.returncode == 2
    assert "modules/01_alpha/alpha_dev.ipynb does not exist; `tito module start alpha`" in done.stderr
    text = alpha.twin.read_text(encoding="utf-8")
    stub = 'raise NotImplementedError("half: section 2, cell 1")'
    alpha.twin.write_text(text.replace(stub, "return x / 2"), encoding="utf-8")
    assert json.loads(tito("test", "alpha", "--json").stdout)["score"] == 40


@pytest.mark.parametrize("cells", ["", '{"cell_type": "code", "source": "x = 1", "metadata": null}'])
def test_a_notebook_without_graded_cells_gets_them_back(alpha, cells):
    """They run, and earn nothing."""
    alpha.notebook.write_text(f'{{"cells": [{cells}]}}', encoding="utf-8")
    result = earned(alpha)
    assert (result["score"], result["max_score"]) == (0, 100)
    assert set(states(result)) == {"double-check", "half-check"}
    assert result["notes"] == ["graded cell double-check is missing; it was put back.",
                               "graded cell half-check is missing; it was put back."]


def test_graded_cells_run_as_released(alpha, write_in):
    """Emptied, deleted, copied, retyped, stripped of metadata: the released cell runs, once, and it is said."""
    write_in(alpha.notebook, double="return x", half="return x / 2")
    right = load(alpha.notebook)

    def grade_with(change: Any) -> tuple[dict[str, str], list[str]]:
        nb = json.loads(json.dumps(right))
        change(nb)
        alpha.notebook.write_text(dumps(nb), encoding="utf-8")
        result = earned(alpha)
        return states(result), result["notes"]

    wanted = {"double-check": "failed", "half-check": "passed"}
    assert grade_with(lambda nb: cell_of(nb, "double-check").update(source="pass")) == (
        wanted, ["graded cell double-check was changed; it ran as released."])
    assert grade_with(lambda nb: cell_of(nb, "half-check").update(cell_type="markdown")) == (
        wanted, ["graded cell half-check was turned into a markdown cell; it ran as released."])
    assert grade_with(lambda nb: nb["cells"].remove(cell_of(nb, "half-check"))) == (
        wanted, ["graded cell half-check is missing; it was put back."])
    assert grade_with(lambda nb: nb["cells"].insert(0, cell_of(nb, "half-check"))) == (
        wanted, ["graded cell half-check stands 2 times in the notebook; only the last one counts, and it ran as "
                 "released."])
    assert grade_with(lambda nb: cell_of(nb, "half-check").update(metadata={})) == (wanted, [])
    assert grade_with(lambda nb: [cell.update(metadata={}) for cell in nb["cells"]]) == (
        wanted, ["the cells have lost their metadata; graded ones were known by their text."])


@pytest.mark.parametrize("kind", ["raw", "markdown"])
def test_a_solution_in_a_text_cell_runs_as_code(alpha, write_in, kind):
    """As nbgrader, which restores the kind of cell, has it; it is said."""
    write_in(alpha.notebook, **RIGHT)
    nb = load(alpha.notebook)
    cell_of(nb, "half").update(cell_type=kind)
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    result = earned(alpha)
    assert states(result) == {"double-check": "passed", "half-check": "passed"}
    assert result["notes"] == [f"solution cell half was turned into a {kind} cell; it ran as code."]


def test_a_deleted_graded_cell_returns_to_its_place(alpha, write_in):
    """After the cells it is about, before what comes later in the notebook and takes its function away."""
    write_in(alpha.notebook, **RIGHT)
    added(alpha, "double = None", before="half")
    nb = load(alpha.notebook)
    nb["cells"].remove(cell_of(nb, "double-check"))
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    assert states(earned(alpha)) == {"double-check": "passed", "half-check": "passed"}


# ---- hostile and unlucky code ----

@pytest.mark.parametrize("ending", ["import os; os._exit(0)", "import os, signal; os.kill(os.getpid(), 9)"])
def test_ending_the_process_earns_nothing(alpha, ending, write_in):
    """Neither the cell that ends it nor the cells after it."""
    write_in(alpha.notebook, double=ending, half="return x / 2")
    result = runner.grade(alpha)
    assert (result["score"], result["exit_status"]) == (0, 1)
    assert "ended the process" in result["errors"][0]["message"]
    assert set(states(result).values()) == {"not run"}
    assert result["tests"]["passed"] == 0


def test_sys_exit_is_an_error_of_its_cell(alpha, write_in):
    """As in Jupyter, the next cell runs."""
    write_in(alpha.notebook, double="import sys; sys.exit(0)", half="return x / 2")
    result = earned(alpha)
    assert states(result) == {"double-check": "error", "half-check": "passed"}
    assert (result["cells"][0]["type"], result["score"]) == ("SystemExit", 40)


def test_an_endless_loop_is_stopped(alpha, write_in):
    """The cell is named, the rest is not run, and the verdict comes soon."""
    write_in(alpha.notebook, double="while True: pass", half="return x / 2")
    begun = time.monotonic()
    result = runner.grade(alpha, timeout=5)
    assert time.monotonic() - begun < 20
    assert (result["score"], result["errors"][0]["state"]) == (0, "timeout")
    assert result["tests"]["passed"] < 4
    assert "a loop that does not end?" in result["tests"]["problem"]


def test_a_flood_of_output_is_cut(alpha, write_in):
    """A megabyte of text is read, cut and forgotten; the score stands."""
    write_in(alpha.notebook, double="print('x' * 1000000); return 2 * x", half="return x / 2")
    result = earned(alpha)
    assert result["score"] == 100
    assert len(result["output"]) < limits.OUTPUT + 200


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's address space")
def test_eating_memory_is_an_error(alpha, write_in):
    """Memory is limited; the notebook sees a MemoryError and goes on."""
    write_in(alpha.notebook, double="return bytearray(8 << 30)", half="return x / 2")
    result = earned(alpha)
    assert (result["cells"][0]["type"], result["score"]) == ("MemoryError", 40)


@pytest.mark.parametrize("cheat", [
    "import tito.checks\ntito.checks.check = lambda *a, **k: None",
    "import sys, types\nsys.modules['tito.checks'] = types.SimpleNamespace(check=lambda *a, **k: None)",
    "import builtins\nbuiltins.AssertionError = builtins.isinstance = None",
    "import json, os\njson.dumps = lambda *a, **k: '{}'\nos.write = lambda *a: 1",
    "import os\nfor fd in range(3, 30):\n    try:\n        os.write(fd, b'{\"cell\": 3, \"state\": \"passed\"}\\n')\n"
    "    except OSError:\n        pass",
    "import os\nif hasattr(os, 'fork'):\n    os.fork()",
    "import sys\nsys.stdout.close()",
    "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,)).start()",
    "import sys\nsys.setrecursionlimit(50)",
    "class Loud(Exception):\n    def __str__(self): raise ValueError\nraise Loud",
])
def test_tampering_changes_no_points(alpha, cheat, write_in):
    """The wrong answer earns nothing, whatever becomes of the right one."""
    write_in(alpha.notebook, double="return x", half="return x / 2")
    added(alpha, cheat)
    result = earned(alpha)
    assert result["cells"][0]["points"] == 0
    assert result["score"] <= 40


@pytest.mark.parametrize("stand_in", ["def check(*a, **k):\n    print(a)", "check = print",
                                      "from builtins import print as check"])
def test_the_learners_own_check_does_not_stand_in(root, stand_in, write_in):
    """Also where only the first graded cell imports it, as the course's notebooks do."""
    alpha = find_module(root, "alpha")
    first, _, second = alpha.source.read_text(encoding="utf-8").rpartition("from tito.checks import check\n")
    alpha.source.write_text(first + second, encoding="utf-8")
    build(root)
    write_in(alpha.notebook, double="return 2 * x", half="return x")
    added(alpha, stand_in, before="half-check")
    assert states(earned(alpha)) == {"double-check": "passed", "half-check": "failed"}


@pytest.mark.parametrize("line", [
    "from tinytorch.core.alpha import double, half",
    "import tinytorch.core.alpha as a\ndouble, half = a.double, a.half",
    "from tinytorch.core import alpha as a\ndouble, half = a.double, a.half",
    "%matplotlib inline\nfrom tinytorch.core.alpha import double, half",
    "def late():\n    from tinytorch.core.alpha import double, half\n    return double, half\ndouble, half = late()",
    "from tinytorch.door import double, half"])
def test_importing_the_reference_is_no_answer(root, alpha, line):
    """The cell is not run, and the reason is said."""
    (root / "tinytorch/door.py").write_text("from tinytorch.core.alpha import double, half\n", encoding="utf-8")
    added(alpha, line)
    added(alpha, line, before="half-check")
    result = earned(alpha)
    assert result["score"] == 0
    assert {error["message"] for error in result["errors"]} == {
        "this cell imports tinytorch.core.alpha, the module it is to write"}


def test_importing_an_earlier_module_is_fine(root, write_in):
    """Module 02 needs 01."""
    beta = find_module(root, "beta")
    write_in(beta.notebook, fourfold="from tinytorch.core.alpha import double as d; return d(d(x))")
    assert earned(beta)["score"] == 100


def test_what_keeps_the_tests_from_running_is_the_learners_failure(alpha, monkeypatch, write_in):
    """With her file among them, tests that cannot run have failed; with the package's own they could not run."""
    write_in(alpha.notebook, **RIGHT)
    alpha.tests.joinpath("conftest.py").write_text("raise TypeError('a function came')\n", encoding="utf-8")
    result = runner.grade(alpha)
    assert (result["score"], result["exit_status"], result["tests"]["status"]) == (100, 1, 1)
    assert "a function came" in result["tests"]["problem"]
    assert runner.run_tests(alpha, {}, 60)["status"] == 2


def test_three_problems_are_shown_and_the_rest_counted(alpha, tito, write_in):
    """One screen; --all shows them."""
    write_in(alpha.notebook, **RIGHT)
    for number in range(5):
        added(alpha, f"missing_{number}")
    done = tito("test", "alpha")
    assert done.stdout.count("NameError") == 3
    assert "and 2 more" in done.stdout
    assert len(earned(alpha)["errors"]) == 5


def test_magics_are_skipped_and_percent_signs_are_not(alpha, write_in):
    """`%matplotlib` is skipped with a note; a line of Python that begins with % runs."""
    write_in(alpha.notebook, **RIGHT)
    added(alpha, "%matplotlib inline\n!ls\nx = 4", before="half")
    added(alpha, "y = (7\n% 4)\nassert (x, y) == (4, 3)", before="half-check")
    added(alpha, "%%bash\nrm -rf nothing", before="half-check")
    result = earned(alpha)
    assert (result["errors"], result["score"]) == ([], 100)
    assert [note.split(": ", 1)[1] for note in result["notes"]] == [
        "skipped: %matplotlib inline runs only in Jupyter", "skipped: a %%bash cell runs only in Jupyter"]


@pytest.mark.parametrize("source", [
    "import asyncio\nawait asyncio.sleep(0)\nx = 4", "x = 4\nprint?", "x = 4\n?len", "x = 4\nfiles = !ls",
    "x = 4\ntaken = %timeit -o 1", "x = 4\nget_ipython().run_line_magic('matplotlib', 'inline')"])
def test_what_jupyter_understands_costs_nothing_else(alpha, write_in, source):
    """The rest of the cell runs, as it does there."""
    write_in(alpha.notebook, **RIGHT)
    added(alpha, source, before="half")
    added(alpha, "assert x == 4", before="half-check")
    result = earned(alpha)
    assert (result["errors"], result["score"]) == ([], 100)


def test_the_namespace_is_a_real_main_module(alpha, write_in):
    """Pickling and inspect see the notebook's functions, and stdin is empty."""
    write_in(alpha.notebook, **RIGHT)
    added(alpha, "import inspect, pickle, sys\nassert pickle.loads(pickle.dumps(double)) is double\n"
                 "assert '2 * x' in inspect.getsource(double)\nassert __name__ == '__main__'\n"
                 "assert sys.stdin.read() == ''\nopen('scratch.txt', 'w').close()")
    result = earned(alpha)
    assert (result["errors"], result["score"]) == ([], 100)


def test_an_export_that_is_refused_is_said(alpha, tito, write_in):
    """The points stand, the tests do not run, the reason is given."""
    write_in(alpha.notebook, **RIGHT)
    added(alpha, "#| export\nfrom os import *", before="half")
    done = tito("test", "alpha")
    assert done.returncode == 1
    assert "cannot be exported" in done.stdout


def test_a_process_that_cannot_start_is_no_verdict(alpha, monkeypatch, write_in):
    """It could not run: that is exit status 2, not 0 points."""
    write_in(alpha.notebook, **RIGHT)
    monkeypatch.setattr(limits, "_START", "raise SystemExit('no')")
    with pytest.raises(TitoError, match="did not start"):
        earned(alpha)


def gone(pid: str) -> bool:
    """Wait until a process has ended (it may be waiting to be collected), at most half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        said = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
        if not said.strip() or said.startswith("Z"):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(("number", "status", "words"), [
    ("SIGINT", 130, "tito: stopped."), ("SIGTERM", 143, "tito: stopped."), ("SIGHUP", 129, "tito: stopped."),
    ("SIGKILL", -9, "")])
def test_what_ends_tito_ends_the_learners_process_too(root, alpha, tmp_path, write_in, number, status, words):
    """One clean line, nothing left running, and no scratch folder where tito can still clean up."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    write_in(alpha.notebook, double="import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")
    process = subprocess.Popen([sys.executable, "-m", "tito", "test", "alpha"], cwd=root, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                               env={**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(scratch)})
    end = time.monotonic() + 30
    pid = ""
    while not pid and time.monotonic() < end:
        time.sleep(0.05)
        pid = "".join(mark.read_text() for mark in scratch.glob("*/pid"))
    process.send_signal(getattr(signal, number))
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (status, words)
    assert pid and gone(pid)
    assert number == "SIGKILL" or list(scratch.iterdir()) == []


def test_overlay_takes_the_modules_place_only_where_told(root):
    """Without the variable nothing changes; a module loaded too early is an error."""
    from tito.grading import overlay

    beta = find_module(root, "beta")
    stand_in = root / "stand in.py"
    stand_in.write_text("HERE = True\n", encoding="utf-8")
    code = f"import tito.grading.overlay, importlib; print(hasattr(importlib.import_module({beta.target!r}), 'HERE'))"
    for variable, answer in ((overlay.variable({beta.target: stand_in}), "True"), ({}, "False")):
        done = subprocess.run([sys.executable, "-c", code], cwd=root, text=True, capture_output=True, check=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(HERE)]), **variable})
        assert done.stdout.strip() == answer


def test_edge_tests_of_unwritten_cells_wait(alpha, write_in):
    """What is not written yet is no failure to look at; it is counted apart."""
    write_in(alpha.notebook, double=RIGHT["double"])
    result = runner.grade(alpha)
    tests = result["tests"]
    assert tests["unwritten"] > 0
    assert tests["unwritten"] + len(tests["failures"]) == tests["failed"]
    assert not any("NotImplementedError" in failure["message"] for failure in tests["failures"])


def test_an_edge_test_that_caught_a_stub_waits_too(alpha, write_in):
    """It fails by an assertion of its own, since what it caught says that a cell is not written yet."""
    (alpha.tests / "test_edges.py").write_text("""
import pytest
from tinytorch.core.alpha import double, half

def test_the_model_s_own_error():  # a NotImplementedError is a RuntimeError
    with pytest.raises(RuntimeError, match="half way"):
        half("a")

def test_what_is_written():
    assert double(2) == 5

def test_what_is_caught():
    try:
        half("a")
    except Exception as error:
        assert isinstance(error, TypeError)
""", encoding="utf-8")
    write_in(alpha.notebook, double=RIGHT["double"])
    tests = runner.grade(alpha)["tests"]
    assert (tests["failed"], tests["unwritten"]) == (3, 2)
    assert [failure["name"] for failure in tests["failures"]] == ["test_edges.py::test_what_is_written"]


def test_a_cell_that_is_not_python_comes_first(alpha, write_in, tito):
    """Nothing of it ran: what fails for want of it is counted, and not listed."""
    write_in(alpha.notebook, double="return 2 *", half="return x")
    said = tito("test", "alpha").stdout
    assert "2 things to look at" in said
    assert said.index("SyntaxError") < said.index("half(5)")
    assert "NameError" not in said
    assert "2 later cells could not run for want of these." in said


def test_what_only_follows_from_another_cell_is_counted(alpha, write_in, tito):
    """Of a demo cell that uses what is unwritten or wrong; not of one that fails by itself."""
    write_in(alpha.notebook, double="return (x,)", half="return x / 2")
    added(alpha, "double(3) + 1", before="half")
    added(alpha, "own = double(4) * 1.5", before="half")
    added(alpha, "own + 1", before="half")
    added(alpha, "half('a')", before="half-check")
    result = earned(alpha)
    assert [(error["type"], error["follows"]) for error in result["errors"]] == [
        ("TypeError", True), ("TypeError", True), ("NameError", True), ("TypeError", False)]
    said = tito("test", "alpha").stdout
    assert "2 things to look at" in said
    assert "3 later cells could not run for want of these." in said


def test_the_cell_to_look_at(alpha, write_in):
    """The last one before the check whose name it uses; where an error was raised in another one, that one."""
    write_in(alpha.notebook, double="return 3 * x", half="return double(x) / 4")
    cells = earned(alpha)["cells"]
    assert [(cell["grade_id"], cell["look_at"], cell["look_in"]) for cell in cells] == [
        ("double-check", "double", "1. Twice"), ("half-check", "half", "2. Half")]
    write_in(alpha.notebook, double="return 2 * x")
    nb = load(alpha.notebook)
    cell_of(nb, "double")["source"] += "\n    return 1 / 0"
    cell_of(nb, "double")["source"] = cell_of(nb, "double")["source"].replace("return 3 * x", "pass")
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    assert [cell["look_at"] for cell in earned(alpha)["cells"]] == ["double", "double"]


def test_a_cell_stopped_by_the_time_limit_says_where(alpha, write_in, tito):
    """The loop's cell and line."""
    write_in(alpha.notebook, double="\n    while x:\n        x += 1", half="return x / 2")
    result = earned(alpha, timeout=3)
    demo = result["errors"][0]
    assert (demo["state"], demo["where"]) == ("timeout", "double")
    assert demo["line"] in (5, 6)
    assert "still running in line" in demo["message"]
    assert states(result) == {"double-check": "not run", "half-check": "not run"}


def test_one_slip_is_one_thing_to_look_at(alpha, write_in, tito):
    """Cells that stumble over the same line of another cell follow from the first; each still earns nothing."""
    write_in(alpha.notebook, **{**RIGHT, "double": "return 2 * y"})
    added(alpha, "double(4)")
    result = runner.grade(alpha)
    assert result["score"] == 40
    slips = [row for row in result["cells"] + result["errors"] if row["message"] == "name 'y' is not defined"]
    assert sorted(row["follows"] for row in slips) == [False] + [True] * (len(slips) - 1)
    assert len(slips) >= 2
    said = tito("test", "alpha").stdout
    assert "1 thing to look at" in said and "hint     tito hint alpha double\n" in said


def test_what_gives_nothing_back(alpha, write_in, tito):
    """None where a value was wanted: the verdict names the likely reason, and counts failed tests in plain words."""
    write_in(alpha.notebook, **{**RIGHT, "double": "print(2 * x)"})
    alpha.source.write_text(alpha.source.read_text(encoding="utf-8").replace(
        'check("double(21)", double(21), 42', 'check("double(21)", double(21).real, 42'), encoding="utf-8")
    said = tito("test", "alpha").stdout
    assert "likely   a function gave None back: is its `return` missing?" in said, said
    assert re.search(r"Edge tests: \d+ of \d+ \(\d+ failed: --all shows them\)\n", said), said


@pytest.mark.parametrize("columns", [60, 80])
def test_a_usual_verdict_fits_on_one_screen(monkeypatch, capsys, columns):
    """Many skills, one of each thing to say, several problems: 24 lines; each part is there."""
    from tito.grading import verdict

    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    failed = {"state": "failed", "type": "CheckFailed", "message": "", "where": "test-flops", "section": "2. Counting",
              "line": None, "follows": False, "raised_in": None, "check": "(1,128) to 64", "expected": "16,384",
              "got": "8,192", "likely": "half: you counted multiply-adds", "look_at": "flops", "look_in": "2. Counting",
              "skill": "a", "points": 0}
    cells = [{**failed, "where": f"test-{number}"} for number in range(5)]
    cells.append({**failed, "state": "unwritten", "message": "half: section 2, cell 1", "expected": None})
    cells.append({**failed, "state": "not run", "message": "", "expected": None})
    error = {"state": "error", "type": "NameError", "message": "name 'flops' is not defined",
             "where": "section 3, cell 4", "section": "3. Later", "line": 3, "follows": True}
    verdict.draw({"module": "14_profiling", "title": "Profiling", "tested": "notebook", "bonus": False,
                  "untouched": False, "notes": ["graded cell test-flops was changed; it ran as released."],
                  "cells": cells, "errors": [error] * 4, "output": "", "exit_status": 1, "score": 0, "max_score": 100,
                  "skills": [{"skill": f"skill {number}", "points": 0, "max_points": 14} for number in range(7)],
                  "tests": {"passed": 1, "total": 9, "skipped": 0, "unwritten": 2, "problem": None,
                            "failures": [{"name": "test_a.py::test_b", "message": "assert 1 == 2"}] * 5}})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= columns
    said = "\n".join(lines)
    for words in ("5 things to look at", "- test-0: (1,128) to 64", "expected  16,384", "got       8,192",
                  "likely    half: you counted", "look at   flops (section 2. Counting)", "and 2 more",
                  "hint      tito hint profiling flops", "- test-2: (1,128) to 64: 8,192, not 16,384",
                  "4 later cells could not run for want of these.", "1 graded cell was not run",
                  "Edge tests: 1 of 9 (2 wait", "half: section 2, cell 1", "skill 6"):
        assert words in said, words
