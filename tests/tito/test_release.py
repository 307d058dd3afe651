"""`tito release`: a course that stock nbgrader grades to the points that `tito grade` gives."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tito.errors import TitoError
from tito.notebooks import course
from tito.notebooks.build import BuildError
from tito.notebooks.course import MANIFEST, release_course
from tito.notebooks.read import dumps, load

HERE = Path(__file__).resolve().parents[2]
MISSING = [name for name in ("nbgrader", "ipykernel") if importlib.util.find_spec(name) is None]
FILES = ["README.md", "nbgrader_config.py", "source/01_alpha/alpha_dev.ipynb", "source/02_beta/beta_dev.ipynb"]


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file but the manifest."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*"))
            if file.is_file() and file.name != MANIFEST}


def test_what_is_written(root, more, tito, tmp_path):
    """An assignment per folder, the bonus notebook in it; solutions between markers; the README's words are true."""
    done = tito("release", str(tmp_path / "the course"))
    written = files(tmp_path / "the course")
    assert (done.returncode, list(written)) == (0, [*FILES[:3], "source/01_alpha/more_dev.ipynb", FILES[3]])
    nb = load(tmp_path / "the course" / "source" / "01_alpha" / "alpha_dev.ipynb")
    assert nb["metadata"]["tinytorch"] == {"module": "01_alpha"}
    assert sum("### BEGIN SOLUTION" in cell["source"] for cell in nb["cells"]) == 2
    assert b"01_alpha, 02_beta" in written["README.md"]
    assert b"tito grade ." not in written["README.md"]  # it runs in the checkout, not in the course
    compile(written["nbgrader_config.py"], "nbgrader_config.py", "exec")
    done = tito("release", str(tmp_path / "one"), "more", "--json")
    assert json.loads(done.stdout)["written"] == ["nbgrader_config.py", "README.md", "source/01_alpha/alpha_dev.ipynb",
                                                  "source/01_alpha/more_dev.ipynb"]


def test_what_was_edited_is_kept(root, tmp_path):
    """A second release replaces its own files and no others; nbgrader's own folders do not disturb it."""
    folder = tmp_path / "course"
    assert sorted(release_course(folder, root)["written"]) == FILES
    assert sorted(release_course(folder, root)["unchanged"]) == FILES
    config, notebook = folder / "nbgrader_config.py", folder / "source" / "02_beta" / "beta_dev.ipynb"
    config.write_text("mine")
    notebook.unlink()
    (folder / "gradebook.db").write_text("")
    source = root / "src" / "01_alpha" / "01_alpha.py"
    text = source.read_text(encoding="utf-8").replace("Numbers that double.", "They double.")
    source.write_text(text, encoding="utf-8")
    for _ in range(2):
        result = release_course(folder, root)
        assert (result["kept"], config.read_text()) == (["nbgrader_config.py"], "mine")
    assert "They double." in (folder / FILES[2]).read_text(encoding="utf-8")
    assert notebook.is_file()


def test_what_cannot_be_written_is_one_sentence(root, tito, tmp_path, snapshot):
    """A folder that holds something else, a file, a manifest that is broken, a source with a fault: as they were."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    before = snapshot()
    for folder, words in ((tmp_path / "other", "thesis.txt"), (tmp_path / "other" / "thesis.txt", "is a file"),
                          (root, "holds something else")):
        done = tito("release", str(folder))
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert words in done.stderr
    assert files(tmp_path / "other") == {"thesis.txt": b"mine"}
    assert snapshot() == before
    (tmp_path / "other" / "thesis.txt").rename(tmp_path / "other" / MANIFEST)
    with pytest.raises(TitoError, match="cannot be read"):
        release_course(tmp_path / "other", root)
    source = root / "src" / "02_beta" / "02_beta.py"
    source.write_text(source.read_text(encoding="utf-8").replace("### END SOLUTION", ""), encoding="utf-8")
    with pytest.raises(BuildError):
        release_course(tmp_path / "new", root)
    assert not (tmp_path / "new").exists()


def test_killed_on_the_way(root, tmp_path, monkeypatch):
    """After any number of files, also with other sources the next time: the same call completes it."""
    put, source = course.write_atomically, root / "src" / "01_alpha" / "01_alpha.py"
    for number in range(7):
        text = source.read_text(encoding="utf-8")
        source.write_text(text.replace("Numbers that double.", "Numbers that double. Again."), encoding="utf-8")
        left = [number]

        def some(path: Path, text: str, left: list[int] = left) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            put(path, text)

        monkeypatch.setattr(course, "write_atomically", some)
        try:
            release_course(tmp_path / "course", root)
        except KeyboardInterrupt:
            pass
        else:
            assert number > 2
    monkeypatch.setattr(course, "write_atomically", put)
    assert release_course(tmp_path / "course", root)["kept"] == []
    release_course(tmp_path / "fresh", root)
    assert files(tmp_path / "course") == files(tmp_path / "fresh")


# ---- with nbgrader ----

SCORES = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print("SCORES" + json.dumps([
        [submission.student.id, assignment.name, notebook.name, grade.name, grade.auto_score, grade.max_score]
        for assignment in book.assignments for submission in book.assignment_submissions(assignment.name)
        for notebook in submission.notebooks for grade in notebook.grades]))
"""


@pytest.mark.nbgrader
@pytest.mark.rotates(1, 3, 5, 6)  # the other days: the smallest course in tests/tito/test_nbgrader.py
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (the extra `grade`)")
def test_nbgrader_and_tito_give_the_same_points(root, more, tito, write_in, tmp_path):
    """Empty, half right and solved, as nbgrader released them, and as `modules/` does: cell by cell."""
    folder = tmp_path / "course"
    release_course(folder, root, ["alpha"])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "IPYTHONDIR": str(folder / ".ipython"),
                   "PYTHONWARNINGS": "ignore"}
    for name, first in (("PYTHONPATH", f"{root}{os.pathsep}{HERE}"), ("PATH", sysconfig.get_path("scripts"))):
        environment[name] = os.pathsep.join([first, os.environ.get(name, "")]).strip(os.pathsep)
    for name in ("RUNTIME", "DATA", "CONFIG"):
        environment[f"JUPYTER_{name}_DIR"] = str(folder / f".{name}")

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, text=True, encoding="utf-8",
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    run("-m", "nbgrader", "generate_assignment", "01_alpha")
    stock, ours = folder / "release" / "01_alpha", root / "modules" / "01_alpha"
    right = {"double": "return 2 * x", "half": "return x / 2", "quadruple": "return 4 * x", "octuple": "return 8 * x"}
    wrong = {**right, "double": "return x * x"}
    for student, released, given in (("empty", stock, {}), ("half", stock, {"double": "return 2 * x"}),
                                     ("solved", stock, right), ("text", stock, right), ("wrong", ours, wrong)):
        for name in ("alpha_dev.ipynb", "more_dev.ipynb"):
            file = folder / "submitted" / student / "01_alpha" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes((released / name).read_bytes())
            write_in(file, **given)
    text = folder / "submitted" / "text" / "01_alpha" / "alpha_dev.ipynb"  # a slip of the keyboard
    nb = load(text)
    next(cell for cell in nb["cells"] if cell["id"] == "half").update(cell_type="raw")
    text.write_text(dumps(nb), encoding="utf-8")
    assert "### BEGIN SOLUTION" not in (folder / "release" / "01_alpha" / "alpha_dev.ipynb").read_text(encoding="utf-8")
    run("-m", "nbgrader", "autograde", "01_alpha")
    run("-m", "nbgrader", "export", "--to", "stock.csv")
    theirs = {tuple(row[:4]): row[4:] for row in json.loads(run("-c", SCORES).partition("SCORES")[2])}
    done = tito("grade", str(folder), "--no-tests", "--json")
    rows = json.loads(done.stdout)["submissions"]
    assert (done.returncode, len(rows)) == (0, 10), done.stderr
    assert theirs == {(row["student"], "01_alpha", Path(row["file"]).stem, cell["grade_id"]):
                      [cell["points"], cell["max_points"]] for row in rows for cell in row["cells"]}
    total: dict[str, Any] = {}
    for row in rows:
        total[row["student"]] = total.get(row["student"], 0) + row["points"]
    table = csv.DictReader((folder / "stock.csv").read_text(encoding="utf-8").splitlines())
    exported = {row["student_id"]: float(row["score"]) for row in table}
    assert exported == total == {"empty": 0, "half": 60, "solved": 100, "text": 100, "wrong": 40}
    messages = {row["student"]: row["message"] for row in rows if row["file"].endswith("alpha_dev.ipynb")}
    assert messages == {"empty": "double: not written yet", "half": "half: not written yet", "solved": "", "text": "",
                        "wrong": "double: double(21): expected 42, got 441 (you squared it)"}
