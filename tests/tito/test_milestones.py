"""`tito milestone`: scripts that measure, a judge that believes none of them, and the scripts themselves."""

from __future__ import annotations

import ast
import json
import math
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tito import stories
from tito.desk import export
from tito.errors import TitoError
from tito.milestones import find_milestone, judge, milestones, needed, run_milestone, standing
from tito.project import find_root

HERE = find_root(Path(__file__))
OURS = milestones(HERE)

SCRIPT = '''"""Twice 21 is 42.

It always was.
"""

from tinytorch.core.alpha import double
from tito.stories import claim, sheet, tell


def measure():
    row = {"model": "twice", "parameters": 1, "flops": 1, "latency_ms": 0.5, "memory_kb": 2.0}
    return {"twice": double(21), "profile": [row]}


def claims(found):
    return [claim("twice 21", found["twice"], "==", 42)]


def draw(found):
    figure, (panel,) = sheet("Twice", "a line", (1,))
    panel.plot([0, 1], [0, found["twice"]])
    return figure


if __name__ == "__main__":
    tell(__file__)
'''


@pytest.fixture
def script(root):
    """The script of the small checkout's milestone."""
    file = root / "milestones" / "1900_twice.py"
    file.parent.mkdir()
    file.write_text(SCRIPT, encoding="utf-8")
    return file


@pytest.fixture
def twice(root, script):
    return find_milestone(root, "twice")


# ---- finding them, and what they need

def test_the_milestones_of_the_course():
    assert [(one.year, one.name) for one in OURS] == [
        (1957, "perceptron"), (1969, "xor"), (1986, "mlp"), (1998, "cnn"), (2017, "attention"), (2018, "mlperf")]


@pytest.mark.parametrize("text", ["twice", "1900", "1900_twice", "1900-Twice", "1900_twice.py"])
def test_found_by_name_and_by_year(root, script, text):
    assert find_milestone(root, text).script == script


def test_an_unknown_one_gets_one_sentence(root, script):
    with pytest.raises(TitoError, match="no milestone 'twcie': did you mean twice"):
        find_milestone(root, "twcie")
    with pytest.raises(TitoError, match="'zzz': there is twice"):
        find_milestone(root, "zzz")
    script.unlink()
    with pytest.raises(TitoError, match="no milestones in"):
        find_milestone(root, "twice")


def test_what_a_milestone_needs_is_what_it_imports():
    numbers = {one.name: {module.number for module in needed(one)} for one in OURS}
    assert all(14 in each for each in numbers.values())  # measured with the Profiler
    assert 8 in numbers["perceptron"] and 8 not in numbers["xor"]  # the digits
    assert 7 in numbers["mlp"] and 7 not in numbers["perceptron"]  # the Trainer, which `stories.trained` takes
    assert [name for name, each in numbers.items() if 19 in each] == ["mlperf"]
    assert max(max(each) for each in numbers.values()) == 19


def test_imports_of_imports_count(root, script):
    """Beta imports alpha."""
    script.write_text(SCRIPT.replace("core.alpha import double", "core.beta import Fourfold"), encoding="utf-8")
    assert [module.name for module in needed(find_milestone(root, "twice"))] == ["alpha", "beta"]


# ---- the scripts

@pytest.mark.parametrize("milestone", OURS, ids=lambda one: one.label)
def test_a_script_is_short_and_has_its_three_parts(milestone):
    """At most 80 lines of code; it imports the package, NumPy, the standard library and `tito.stories`."""
    text = milestone.script.read_text(encoding="utf-8")
    tree = ast.parse(text)
    prose = {line for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
             for line in range(node.lineno, node.end_lineno + 1)}
    code = [line for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.strip().startswith("#") and number not in prose]
    assert len(code) <= 80
    functions = {node.name: len(node.args.args) for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name: functions.get(name) for name in ("measure", "claims", "draw")} == {
        "measure": 0, "claims": 1, "draw": 1}
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert all(name.startswith("tinytorch.") or name == "tito.stories" or name in sys.stdlib_module_names
               for name in modules)
    title, story = milestone.said
    assert title.endswith(".") and str(milestone.year) in story


@pytest.mark.parametrize("milestone", [
    pytest.param(one, marks=pytest.mark.rotates(place), id=one.label) for place, one in enumerate(OURS)])
def test_every_claim_of_the_course_holds(milestone, tmp_path, tito):
    """On the package as it is: result and picture are kept, the checkout is as before."""
    done = tito("milestone", "run", milestone.name, "--json", "--to", str(tmp_path / "new"), cwd=HERE)
    result = json.loads(done.stdout)
    assert (done.returncode, result["problem"]) == (0, ""), result["claims"]
    assert result["reached"] and len(result["claims"]) >= 5 and all(one["holds"] for one in result["claims"])
    assert json.loads((tmp_path / "new" / f"{milestone.label}.json").read_text(encoding="utf-8")) == result
    picture = (tmp_path / "new" / f"{milestone.label}.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", picture[16:20]) == (900,)
    assert len(picture) > 10_000  # a blank sheet with its title has 5,000


# ---- the judge

ROW = {"model": "m", "parameters": 3, "flops": 4, "latency_ms": 0.1, "memory_kb": 2.5}


def said(came=2, relation=">=", wanted=2, row=ROW):
    return {"found": {"profile": [row]}, "claims": [stories.claim("what", came, relation, wanted)]}


@pytest.mark.parametrize(("came", "relation", "wanted", "holds"), [
    (2, "==", 2, True), (2, ">=", 2, True), (2, "<=", 2, True), (2, ">", 2, False), (2, "<", 2, False),
    (3, ">", 2, True), (1, "<", 2, True), (1, "==", 2, False), (math.nan, "<", 2, False), (math.inf, ">", 2, False),
    (True, "==", 1, False), ("2", "==", "2", False), (None, "==", None, False), (2, "!=", 3, False), (2, "", 2, False)])
def test_a_claim_is_judged_by_its_numbers(came, relation, wanted, holds):
    """Not by what the script says of it; what is no number, or no relation known here, holds nothing."""
    judged = judge(said(came, relation, wanted))
    assert (judged["reached"], judged["claims"][0]["holds"]) == (holds, holds)
    assert judged["problem"] == ("" if holds else "1 of 1 claims does not hold.")
    json.dumps(judged, allow_nan=False)


@pytest.mark.parametrize("key", ["parameters", "flops", "latency_ms", "memory_kb"])
@pytest.mark.parametrize("value", [0, 0.0, -1, None, True, math.nan, math.inf, "3"])
def test_a_profiler_that_measures_nothing_reaches_nothing(key, value):
    judged = judge(said(row={**ROW, key: value}))
    assert not judged["reached"]
    assert judged["problem"] == f"the Profiler measured {key} {value} for m; want a number above 0."
    json.dumps(judged, allow_nan=False)


@pytest.mark.parametrize("reports", [
    {}, {"claims": []}, {**said(), "claims": []}, {**said(), "claims": None}, {**said(), "claims": [1]},
    {**said(), "claims": [{"what": "w", "holds": True}]}, {**said(), "found": None}, {**said(), "found": {}},
    {**said(), "found": {"profile": []}}, {**said(), "found": {"profile": [None]}},
    {**said(), "reached": True, "found": 3}])
def test_who_says_nothing_reaches_nothing(reports):
    judged = judge(reports)
    assert not judged["reached"] and judged["problem"].endswith(".")


def test_all_zeros_reach_nothing_in_a_real_script(monkeypatch):
    """A Profiler whose every verb returns 0, past the door that asks for a right one."""
    from tinytorch.perf.profiling import Profiler

    for verb in ("count_parameters", "count_flops", "measure_latency"):
        monkeypatch.setattr(Profiler, verb, lambda *args, **more: 0)
    monkeypatch.setattr(Profiler, "measure_memory", lambda *args, **more: {"peak_memory_mb": 0.0})
    reports: dict = {}
    stories.run({"milestone": str(find_milestone(HERE, "xor").script)}, reports.update)
    judged = judge(reports)
    assert not judged["reached"]
    assert judged["problem"] == "the Profiler measured parameters 0 for perceptron; want a number above 0."
    assert [one["what"] for one in judged["claims"] if not one["holds"]] == [
        "parameters of a perceptron", "parameters with two hidden units", "FLOPs with two hidden units"]


def test_a_wrong_profiler_in_the_package_is_no_milestone(tmp_path):
    """The package holds a Profiler that counts 0: said before the script runs, and nothing is kept."""
    for name in ("src", "tinytorch", "milestones"):
        shutil.copytree(HERE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    shutil.copy(HERE / "pyproject.toml", tmp_path)
    file = tmp_path / "tinytorch" / "perf" / "profiling.py"
    before = file.read_text(encoding="utf-8")
    for line, says in (
            ("for _verb_name in ('count_parameters', 'count_flops', 'measure_latency'):\n"
             "    setattr(Profiler, _verb_name, lambda *args, **more: 0)", "count_parameters"),
            ("import os; os._exit(0)", "trying it ended the process (exit status 0)")):
        file.write_text(f"{before}\n{line}\n", encoding="utf-8")
        result = run_milestone(find_milestone(tmp_path, "xor"))
        assert not result["reached"] and result["exit_status"] == 2
        assert says in result["problem"] and "tito module resume profiling" in result["problem"]
        assert not (tmp_path / "milestones" / "results").exists()


def test_the_sign_test_is_exact():
    assert stories.sign_test(6, 0) == 2 / 2**6
    assert stories.sign_test(1, 3) == 2 * (4 + 1) / 2**4  # three or four of four, either way
    assert stories.sign_test(2, 2) == stories.sign_test(0, 0) == 1.0


# ---- running one

def test_a_run_keeps_result_and_picture_and_touches_nothing_else(root, twice, tito, snapshot):
    before = snapshot()
    done = tito("milestone", "run", "twice", "--json")
    result, results = json.loads(done.stdout), root / "milestones" / "results"
    assert (done.returncode, result["reached"], result["title"]) == (0, True, "Twice 21 is 42.")
    assert result["claims"] == [{"what": "twice 21", "came": 42, "relation": "==", "wanted": 42, "holds": True}]
    assert result["modules"] == [{"number": 1, "module": "01_alpha", "package": "reference"}]
    new = snapshot()
    assert {name for name in new if name not in before} == {
        "milestones/results/1900_twice.json", "milestones/results/1900_twice.png"}
    assert {name: new[name] for name in before} == before
    assert json.loads((results / "1900_twice.json").read_text(encoding="utf-8")) == result
    rows = json.loads(tito("milestone", "list", "--json").stdout)["milestones"]
    assert [(row["name"], row["state"]) for row in rows] == [("twice", "reached")]


def test_results_are_ignored_by_git():
    done = subprocess.run(["git", "check-ignore", "-q", "milestones/results/1969_xor.json"], cwd=HERE, check=False)
    assert done.returncode == 0 or not (HERE / ".git").exists()


def test_the_list_says_what_the_last_run_was_worth(root, alpha, twice, write_in):
    """It counts for the script and the package it ran on."""
    assert standing(twice)["state"] == "not run"
    run_milestone(twice)
    assert standing(twice)["state"] == "reached"
    write_in(alpha.notebook, double="return x + x", half="return x / 2")
    export(alpha)
    assert standing(twice)["state"] == "reached, changed since"
    assert standing(twice)["modules"][0]["package"] == "yours (exported, not tested)"
    twice.script.write_text(SCRIPT.replace('"==", 42', '"==", 43'), encoding="utf-8")
    run_milestone(twice)
    assert standing(twice)["state"] == "not reached"
    (root / "milestones" / "results" / "1900_twice.json").write_text("[]", encoding="utf-8")
    assert standing(twice)["state"] == "not run"


def test_a_claim_that_does_not_hold_says_what_came(twice, alpha, tito, write_in):
    """With the learner's own double, which is wrong."""
    write_in(alpha.notebook, double="return x * x", half="return x / 2")
    export(alpha)
    done = tito("milestone", "run", "twice")
    assert done.returncode == 1
    assert "On modules 01: yours 01." in done.stdout
    assert "✗ twice 21: 441 (want 42)" in done.stdout
    assert "Not reached: 1 of 1 claims does not hold.\n" in done.stdout
    assert "`tito test alpha` says whether your module 01 is right." in done.stdout


@pytest.mark.parametrize(("line", "problem"), [
    ("raise ValueError('no such digit')", "the script stopped: ValueError: no such digit (milestones/1900_twice.py, "),
    ("half_of_it", "the script stopped: NameError: name 'half_of_it' is not defined (milestones/1900_twice.py"),
    ("raise SystemExit(0)", "the script stopped: SystemExit: 0 (milestones/1900_twice.py, line 11)."),
    ("import os; os._exit(0)", "the script did not come to its end: exit status 0."),
    ("return {1j: 2}", "the script stopped: TypeError: keys must be str, int, float, bool or None, not complex"),
    ("double('a', 1)", "the script stopped: TypeError: double() takes 1 positional argument but 2 were given")])
def test_a_script_that_stops_is_not_reached(root, twice, line, problem):
    twice.script.write_text(SCRIPT.replace("    row = {", f"    {line}\n    row = {{"), encoding="utf-8")
    result = run_milestone(twice)
    assert (result["reached"], result["exit_status"], result["picture"]) == (False, 1, None)
    assert result["problem"].startswith(problem), result["problem"]
    assert not (root / "milestones" / "results" / "1900_twice.png").exists()
    assert json.loads((root / "milestones" / "results" / "1900_twice.json").read_text())["reached"] is False


def test_an_error_in_the_package_is_placed_there(alpha, twice, write_in):
    write_in(alpha.notebook, double="return x + None", half="return x / 2")
    export(alpha)
    assert "(tinytorch/core/alpha.py, line" in run_milestone(twice)["problem"]


def test_a_picture_that_fails_reaches_nothing(twice):
    twice.script.write_text(SCRIPT.replace("panel.plot(", "panel.plt("), encoding="utf-8")
    result = run_milestone(twice)
    assert (result["exit_status"], result["reached"]) == (1, False)
    assert "has no attribute 'plt'" in result["problem"]


def test_time_is_limited(twice):
    twice.script.write_text(SCRIPT.replace("    row = {", "    while True: pass\n    row = {"), encoding="utf-8")
    result = run_milestone(twice, timeout=2)
    assert (result["exit_status"], result["problem"]) == (1, "the script did not come to its end: stopped after 2 s; "
                                                        "--timeout gives it longer.")


# ---- what cannot run

def test_an_unfinished_module_is_named(alpha, twice, tito, write_in):
    write_in(alpha.notebook, half="return x / 2")
    export(alpha)
    done = tito("milestone", "run", "twice")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tito: 1900_twice: it needs module 01_alpha, and the package holds an export of it that is not finished "
        "(double: section 1, cell 1); `tito module resume alpha` goes on, `tito module reset alpha --package` brings "
        "the reference back.\n")


def test_a_missing_module_is_named(alpha, twice, tito):
    alpha.package.unlink()
    done = tito("milestone", "run", "twice", "--json")
    assert done.returncode == 2
    assert "module 01_alpha is missing; `tito module reset alpha --package`" in json.loads(done.stdout)["error"]
    assert "missing 01" in tito("milestone", "list").stdout


def test_results_that_could_not_be_kept_are_no_run(root, twice, tito):
    """A file where the folder should be: said at once."""
    (root / "milestones" / "results").write_text("mine", encoding="utf-8")
    done = tito("milestone", "run", "twice")
    assert done.returncode == 2
    assert "--to" in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert tito("milestone", "run", "twice", "--to", str(root / "elsewhere" / "deep")).returncode == 0
    assert (root / "elsewhere" / "deep" / "1900_twice.png").is_file()


def test_a_script_that_is_no_python_is_one_sentence(script, tito):
    script.write_text("def measure(:\n", encoding="utf-8")
    for words in (["list"], ["run", "twice"]):
        done = tito("milestone", *words)
        assert done.returncode == 2
        assert "milestones/1900_twice.py, line 1: this is not Python" in done.stderr


def test_without_a_name_it_says_where_names_are(tito):
    done = tito("milestone", "run")
    assert done.returncode == 2
    assert "`tito milestone list` has the names" in done.stderr


# ---- how it looks

@pytest.mark.parametrize("columns", [60, 80])
def test_narrow_and_without_colour(script, tito, columns):
    script.write_text(SCRIPT.replace('"twice 21"', '"' + 20 * "many words " + '"').replace(
        "It always was.", 30 * "It always was. "), encoding="utf-8")
    for words in (["list"], ["run", "twice"], ["run", "--help"]):
        done = tito("milestone", *words, COLUMNS=str(columns), PYTHONIOENCODING="ascii", NO_COLOR="1")
        assert done.returncode == 0 and "\x1b" not in done.stdout
        lines = [line for line in done.stdout.splitlines() if not line.startswith(("Picture:", "Result:"))]
        assert max(map(len, lines)) <= columns


def test_a_script_runs_by_itself(root, script):
    """`python milestones/1900_twice.py`, from any folder, does what the command does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(HERE)]), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, str(script)], cwd=root.parent, capture_output=True, text=True, check=False,
                          encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stderr
    assert "Reached, in" in done.stdout
