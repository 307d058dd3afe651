"""Stock nbgrader and our notebooks: nothing for an empty notebook, all 100 points for the reference.

A folder is an assignment; a bonus notebook in it adds checked cells and no points. Three modules are graded each day,
all of them within a week (see `tests/conftest.py`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from tito.notebooks.read import dumps
from tito.notebooks.release import marked_notebook, release_notebook, solution_notebook
from tito.project import Module, find_module, find_root, modules

ROOT = find_root(Path(__file__))
MODULES = [pytest.param(module, id=module.label, marks=pytest.mark.rotates(module.number))
           for module in modules(ROOT) if module.source.is_file()]
MISSING = [name for name in ("nbgrader", "ipykernel") if importlib.util.find_spec(name) is None]
pytestmark = [pytest.mark.nbgrader,
              pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (the extra `grade`)")]

# Runs in a process of its own, without pytest's warnings-as-errors: nbgrader warns a lot.
GRADE = """
import json, sys
from pathlib import Path
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

config = Config()
config.CourseDirectory.root = sys.argv[1]
config.CourseDirectory.course_id = "tinytorch"
config.CourseDirectory.db_url = f"sqlite:///{sys.argv[1]}/gradebook.db"
config.Exchange.root = sys.argv[1] + "/exchange"
config.Execute.timeout = 120
api = NbGraderAPI(config=config)
scores = {}
for assignment in sys.argv[2:]:
    made = api.generate_assignment(assignment)
    if not made["success"]:
        sys.exit(f"generate_assignment {assignment}: {made.get('error')} {made.get('log')}")
    for student in ("empty", "reference"):
        graded = api.autograde(assignment, student)
        if not graded["success"]:
            sys.exit(f"autograde {assignment} {student}: {graded.get('error')} {graded.get('log')}")
        with api.gradebook as book:
            submission = book.find_submission(assignment, student)
            grades = {grade.name: [grade.auto_score, grade.max_score]
                      for notebook in submission.notebooks for grade in notebook.grades}
            scores[f"{assignment} {student}"] = [submission.score, submission.max_score, grades]
        for file in Path("autograded", student, assignment).glob("*.ipynb"):
            scores[f"{student} {file.name}"] = {
                cell["metadata"]["nbgrader"]["grade_id"]: "error" not in [out["output_type"] for out in cell["outputs"]]
                for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]
                if cell["metadata"].get("nbgrader", {}).get("grade")}
print("SCORES" + json.dumps(scores))
"""


def _start(course: Path, chosen: list[Module]) -> subprocess.Popen[str]:
    """Lay out a course with two students' submissions, and let a process grade it; its folders are assignments."""
    assignments = sorted({module.folder for module in chosen})
    paths = os.pathsep.join(map(str, dict.fromkeys([chosen[0].root, ROOT])))
    for module in chosen:
        for folder, notebook in (("source", marked_notebook(module)), ("submitted/empty", release_notebook(module)),
                                 ("submitted/reference", solution_notebook(module))):
            file = course / folder / module.folder / module.notebook.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dumps(notebook), encoding="utf-8")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "IPYTHONDIR": str(course / "ipython")}
    for name, first in (("PYTHONPATH", paths), ("PATH", sysconfig.get_path("scripts"))):  # nbgrader calls alembic
        environment[name] = os.pathsep.join([first, os.environ.get(name, "")]).strip(os.pathsep)
    for name in ("RUNTIME", "DATA", "CONFIG"):
        environment[f"JUPYTER_{name}_DIR"] = str(course / name)
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", GRADE, str(course), *assignments], cwd=course, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")


def _grade(folder: Path, chosen: list[Module]) -> dict[str, Any]:
    """Grade an empty and a solved notebook of these modules, in two processes side by side."""
    running = []
    folders = sorted({module.folder for module in chosen})  # a folder's notebooks are one assignment
    for number in range(2):
        half = [module for module in chosen if module.folder in folders[number::2]]
        (folder / str(number)).mkdir(parents=True)
        running += [_start(folder / str(number), half)] if half else []
    found: dict[str, Any] = {}
    for process in running:
        out, err = process.communicate(timeout=900)
        found |= json.loads(out.rpartition("SCORES")[2]) if process.returncode == 0 else {"error": err[-4000:]}
    return found


@pytest.fixture(scope="session")
def scores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what nbgrader gives the modules whose turn it is; parallel test workers share one grading."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    result = shared / "nbgrader.json"
    try:
        (shared / "nbgrader").mkdir()
    except FileExistsError:
        until = time.monotonic() + 900
        while not result.exists() and time.monotonic() < until:
            time.sleep(0.2)
    else:
        params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")
                  and "scores" in getattr(item, "fixturenames", ())]
        found = _grade(shared / "nbgrader", list(dict.fromkeys(found["module"] for found in params)))
        result.with_suffix(".new").write_text(json.dumps(found), encoding="utf-8")
        result.with_suffix(".new").replace(result)
    read: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    assert "error" not in read, read["error"]
    return read


@pytest.mark.parametrize("module", MODULES)
def test_an_empty_notebook_earns_nothing(module, scores):
    """The release, as it is handed out, fails every check and has 0 of its folder's 100 points."""
    passed = scores[f"empty {module.notebook.name}"]
    assert passed
    assert [name for name, right in passed.items() if right] == []
    score, most, grades = scores[f"{module.folder} empty"]
    assert (score, most) == (0, 100), {name: points for name, (points, _) in grades.items() if points}


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_earns_everything(module, scores):
    """The solved notebook passes every check and has 100 of 100 points."""
    passed = scores[f"reference {module.notebook.name}"]
    assert [name for name, right in passed.items() if not right] == []
    score, most, grades = scores[f"{module.folder} reference"]
    assert (score, most) == (100, 100), {name: pair for name, pair in grades.items() if pair[0] != pair[1]}


@pytest.mark.rotates(0, 2, 4)  # the other days: tests/tito/test_release.py
def test_a_bonus_notebook_adds_checks_and_no_points(root, more, tmp_path):
    """Its cells are graded beside its module's: they fail or pass, and the assignment stays one of 100 points."""
    (tmp_path / "course").mkdir()
    out, err = _start(tmp_path / "course", [find_module(root, "alpha"), more]).communicate(timeout=300)
    found = json.loads(out.rpartition("SCORES")[2] or "{}")
    assert found, err
    for student, points in (("empty", 0), ("reference", 100)):
        score, most, grades = found[f"01_alpha {student}"]
        assert (score, most, grades["quadruple-check"]) == (points, 100, [0, 0])
        assert found[f"{student} more_dev.ipynb"] == dict.fromkeys(["quadruple-check", "octuple-check"], points > 0)
