"""`tito grade`: a class is graded whole, whatever is among what it handed in and whenever the grading is stopped."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tito.errors import TitoError
from tito.grading import batch, cluster, job, journal, pool
from tito.notebooks.build import build
from tito.notebooks.read import dumps, load
from tito.notebooks.release import release_notebook, solution_notebook
from tito.notebooks.twin import write_twin
from tito.project import find_module

HERE = Path(__file__).resolve().parents[2]
RIGHT = {"double": "return 2 * x", "half": "return x / 2"}
SQUARED = {"double": "return x * x", "half": "return x / 2"}


@pytest.fixture
def hand_in(root, tmp_path, write_in) -> Callable[..., Path]:
    """Put a released notebook with these answers into the class's folder, and return the file."""
    build(root)

    def put(place: str, name: str = "alpha", text: str | None = None, **answers: str) -> Path:
        file = tmp_path / "class" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        notebook = find_module(root, name).notebook
        file.write_text(notebook.read_text(encoding="utf-8") if text is None else text, encoding="utf-8")
        if answers:
            write_in(file, **answers)
        return file

    return put


@pytest.fixture
def grade(tito, tmp_path) -> Callable[..., dict[str, Any]]:
    """Run `tito grade` on the class's folder; returns the grades, with the exit status as "status"."""
    def run(*words: str, **more: str) -> dict[str, Any]:
        done = tito("grade", str(tmp_path / "class"), "--json", *words, **more)
        found: dict[str, Any] = json.loads(done.stdout)
        return {**found, "status": done.returncode, "said": done.stderr}

    return run


def by_student(grades: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows by their students."""
    return {row["student"]: row for row in grades["submissions"]}


def without_seconds(grades: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows without the one thing in them that no two runs share."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in grades["submissions"]]


# ---- a class ----

def test_a_class(hand_in, grade, tito, tmp_path):
    """Points per skill, tests, completeness and what to look at, in both files; the summary names the mistake."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    hand_in("bo/homework/alpha_dev.ipynb", **SQUARED)
    hand_in("cy/alpha_dev.ipynb")
    hand_in("dee/alpha_dev.ipynb", double="return 2 * x")
    (tmp_path / "class" / "eve").mkdir()
    grades = grade()
    rows = by_student(grades)
    assert (grades["status"], grades["without"], list(rows)) == (0, ["eve"], ["ana", "bo", "cy", "dee"])
    assert [(row["points"], row["most"], row["complete"], row["tests_passed"], row["tests_total"])
            for row in rows.values()] == [
                (100, 100, True, 4, 4), (40, 100, False, 2, 4), (0, 100, False, None, None), (60, 100, False, 0, 4)]
    assert rows["bo"]["skills"] == [{"skill": "doubling", "points": 0, "max_points": 60},
                                    {"skill": "halving", "points": 40, "max_points": 40}]
    assert [row["message"] for row in rows.values()] == [
        "", "double: double(21): expected 42, got 441 (you squared it)", "nothing is written in it",
        "not written yet: half: section 2, cell 1"]
    out = tmp_path / "class-grades"
    assert json.loads((out / "grades.json").read_text(encoding="utf-8"))["submissions"] == grades["submissions"]
    table = list(csv.reader(io.StringIO((out / "grades.csv").read_text(encoding="utf-8-sig"))))
    assert table[0] == ["student", "file", "module", "status", "points", "most", "doubling", "halving", "tests passed",
                        "tests", "complete", "message", "notes", "seconds"]
    assert table[2][:-1] == ["bo", "bo/homework/alpha_dev.ipynb", "01_alpha", "graded", "40", "100", "0", "40", "2",
                             "4", "no", rows["bo"]["message"], ""]
    said = tito("grade", str(tmp_path / "class"), COLUMNS="60").stdout
    assert max(map(len, said.splitlines())) <= 60
    for words in ("01_alpha: 4 submissions, 4 graded", "doubling 30.0 60 2 (50%)", "total 50.0 100 1 complete",
                  "1 x you squared it (double-check)", "1 folder without a submission: eve"):
        assert words in " ".join(said.split())


def test_a_bonus_notebook_without_points(more, hand_in, grade):
    """Who has all of a skill is told by its checks: nobody has it for having no points to earn."""
    hand_in("ana/more_dev.ipynb", "more")
    hand_in("bo/more_dev.ipynb", "more", quadruple="return 4 * x", octuple="return x")
    hand_in("cy/more_dev.ipynb", "more", quadruple="return 4 * x", octuple="return 8 * x")
    module, = grade("--no-tests")["summary"]
    assert (module["bonus"], module["most"], module["mean_points"]) == (True, 0, 0)
    assert {skill["skill"]: skill["all_of_it"] for skill in module["skills"]} == {
        "fourfold": 2, "eightfold": 1}


def test_layouts_and_modules(root, hand_in, grade, tmp_path):
    """A folder per student, a file per student, a script, nbgrader's folders; names tell the module, or metadata."""
    hand_in("ana/beta_dev.ipynb", "beta", fourfold="return 4 * x")
    hand_in("bo.ipynb", **RIGHT)
    hand_in("cy_alpha_dev (1).ipynb", **RIGHT)
    hand_in("dee/work.ipynb", **SQUARED)
    nb = load(hand_in("fay/x.ipynb", **RIGHT))
    (tmp_path / "class" / "fay" / "x.ipynb").unlink()
    hand_in("fay/alpha_dev.py", text=write_twin(nb))
    hand_in("gil.py", text=write_twin(nb))
    hand_in("ana/helpers.py", text="print(1)")
    grades = grade("--no-tests")
    assert {(row["student"], row["module"], row["points"], row["complete"]) for row in grades["submissions"]} == {
        ("ana", "02_beta", 100, None), ("bo", "01_alpha", 100, None), ("cy", "01_alpha", 100, None),
        ("dee", "01_alpha", 40, None), ("fay", "01_alpha", 100, None), ("gil", "01_alpha", 100, None)}
    header = (tmp_path / "class-grades" / "grades.csv").read_text(encoding="utf-8-sig").split("\n")[0]
    assert "points,most,01_alpha: doubling,01_alpha: halving,02_beta: fourfold,tests passed" in header
    only = grade("--no-tests", "--module", "beta", "--out", str(tmp_path / "b"))
    assert [row["student"] for row in only["submissions"]] == ["ana"]
    (tmp_path / "class").rename(tmp_path / "some")
    (tmp_path / "class").mkdir()
    (tmp_path / "some").rename(tmp_path / "class" / "submitted")
    assert without_seconds(grade("--no-tests")) == without_seconds(grades)


def test_what_is_no_submission_is_left_alone(hand_in, grade, tmp_path):
    """Checkpoints, hidden files, what other systems leave behind, and the folder of the grades."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    for place in ("ana/.ipynb_checkpoints/alpha_dev-checkpoint.ipynb", "ana/.hidden_alpha_dev.ipynb",
                  "__MACOSX/ana/alpha_dev.ipynb", "ana/~alpha_dev.ipynb", "grades/zoe_alpha_dev.ipynb"):
        hand_in(place)
    grades = grade("--no-tests", "--out", str(tmp_path / "class" / "grades"))
    assert [row["file"] for row in grades["submissions"]] == ["ana/alpha_dev.ipynb"]
    assert grades["without"] == []


def test_one_bad_submission_stops_nothing(root, hand_in, grade, tmp_path):
    """Each is a row that says what is wrong, and the others are graded."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    hand_in("bo/alpha_dev.ipynb", text="this is no JSON")
    hand_in("cy/alpha_dev.ipynb", text="")
    (tmp_path / "class" / "cy" / "alpha_dev.ipynb").write_bytes(b"\xff\xfe{}")
    with hand_in("dee/alpha_dev.ipynb", text="").open("wb") as file:
        file.truncate(200 << 20)
    hand_in("eve/work.ipynb", text='{"cells": [], "metadata": {}, "nbformat": 4}')
    hand_in("fay/beta_dev.ipynb", "alpha", **RIGHT)
    hand_in("gil/alpha_dev.ipynb", text="[" * 200_000)
    grades = grade("--no-tests")
    said = {student: (row["status"], row["message"]) for student, row in by_student(grades).items()}
    assert grades["status"] == 1
    assert said.pop("ana") == ("graded", "")
    assert {status for status, _ in said.values()} == {"could not be graded"}
    for student, words in {"bo": "not a notebook that can be read", "cy": "not UTF-8", "dee": "200 MB",
                           "eve": "--module", "fay": "its name says 02_beta, and inside it is a notebook of 01_alpha",
                           "gil": "not a notebook that can be read"}.items():
        assert words in said[student][1]
    assert {row["points"] for row in grades["submissions"]} == {100, None}
    assert by_student(grade("--no-tests", "--module", "alpha"))["eve"]["points"] == 0


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_links_are_not_followed(hand_in, grade, tmp_path):
    """To a file or to a folder, outside or inside: a row says so."""
    file = hand_in("ana/alpha_dev.ipynb", **RIGHT)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "alpha_dev.ipynb").write_bytes(file.read_bytes())
    (tmp_path / "class" / "bo").mkdir()
    (tmp_path / "class" / "bo" / "alpha_dev.ipynb").symlink_to(outside / "alpha_dev.ipynb")
    (tmp_path / "class" / "cy").symlink_to(outside)
    (tmp_path / "class" / "dee_alpha_dev.ipynb").symlink_to(file)
    os.mkfifo(tmp_path / "class" / "eve_alpha_dev.ipynb")
    rows = by_student(grade("--no-tests"))
    assert {student: row["points"] for student, row in rows.items()} == {
        "ana": 100, "bo": None, "cy": None, "dee": None, "eve": None}
    assert all("links are not followed" in rows[student]["message"] for student in ("bo", "cy", "dee"))


@pytest.mark.parametrize("inside", [False, True], ids=["beside the checkout", "the checkout in it"])
def test_nobody_reads_what_others_handed_in(root, hand_in, tmp_path, inside):
    """Nor the grades; in the cells, when the export is imported, and in the tests."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    folder, out = (tmp_path, tmp_path / "out") if inside else (tmp_path / "class", tmp_path / "class-grades")
    out.mkdir()
    (out / "grades.csv").write_text("secret")
    for student, file in (("bo", tmp_path / "class" / "ana" / "alpha_dev.ipynb"), ("cy", out / "grades.csv")):
        hand_in(f"{student}/alpha_dev.ipynb", double=f"return 2 * len(open({str(file)!r}).read()) and 2 * x",
                half="return x / 2")
    rows = [row for row in batch.grade_folder(folder, root, out, jobs=2, only=find_module(root, "alpha"))["submissions"]
            if "class" in row["file"] or not inside]
    assert [(row["points"], row["tests_passed"]) for row in rows] == [(100, 4), (40, 1), (40, 1)]
    assert all("PermissionError: the fence: " in row["message"] for row in rows[1:])


def test_the_same_student_twice(hand_in, grade):
    """Both are graded, both rows say it."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    hand_in("ana/old/alpha_dev.ipynb", **SQUARED)
    hand_in("ana/beta_dev.ipynb", "beta")
    rows = grade("--no-tests")["submissions"]
    assert [(row["points"], row["notes"]) for row in rows] == [
        (100, ["one of 2 files of ana for 01_alpha"]), (40, ["one of 2 files of ana for 01_alpha"]), (0, [])]


def test_a_script_beside_a_notebook(hand_in, grade):
    """It counts where nobody wrote in the notebook; where both were written in, the notebook does, says a note."""
    right = load(hand_in("x.ipynb", **RIGHT))
    hand_in("x.ipynb").unlink()
    hand_in("ana/alpha_dev.ipynb")
    hand_in("ana/alpha_dev.py", text=write_twin(right))
    hand_in("bo/alpha_dev.ipynb", **SQUARED)
    hand_in("bo/alpha_dev.py", text=write_twin(right))
    hand_in("cy/alpha_dev.ipynb", **RIGHT)
    hand_in("cy/alpha_dev.py", text=write_twin(load(hand_in("cy/alpha_dev.ipynb"))))
    hand_in("cy/alpha_dev.ipynb", **RIGHT)
    hand_in("dee/alpha_dev.ipynb", **RIGHT)
    hand_in("dee/alpha_dev.py", text='"""no end')
    rows = by_student(grade("--no-tests"))
    differ = "the .py file beside the notebook says something else; the notebook counts"
    assert [(row["points"], row["notes"]) for row in rows.values()] == [
        (100, ["the notebook is as released, so the .py file beside it was graded"]),
        (40, [differ]), (100, []), (100, [differ])]


@pytest.mark.skipif(os.name == "nt", reason="such names cannot exist there")
def test_names_of_all_kinds(hand_in, grade, tmp_path):
    """They come back as they are; what begins like a formula is text for a spreadsheet."""
    names = ["=1+1", "+ana", "-bo", "@cy", "Zoë, \"the\" Ω", "two\nlines", " =HYPERLINK(1)", "\t=2", "plain"]
    for name in names:
        hand_in(f"{name}/alpha_dev.ipynb")
    os.mkdir(os.fsencode(tmp_path / "class") + b"/caf\xe9")
    (tmp_path / "class" / os.fsdecode(b"caf\xe9") / "alpha_dev.ipynb").write_text("{}")
    grades = grade("--no-tests")
    assert sorted(by_student(grades)) == sorted([*names, "caf�"])
    table = list(csv.reader(io.StringIO((tmp_path / "class-grades" / "grades.csv").read_text(encoding="utf-8-sig"))))
    assert {row[0] for row in table[1:]} == {"'=1+1", "'+ana", "'-bo", "'@cy", "Zoë, \"the\" Ω", "two\nlines",
                                             "' =HYPERLINK(1)", "'\t=2", "plain", "caf�"}
    assert {row[1][0] for row in table[1:]}.isdisjoint("=+-@\t")


def test_what_cannot_run_is_one_sentence(root, tito, tmp_path):
    """No folder, or nothing in it."""
    (tmp_path / "class").mkdir()
    for folder, words in ((tmp_path / "none", "is no folder"), (tmp_path / "class", "holds no submission")):
        done = tito("grade", str(folder))
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert words in done.stderr
    assert not (tmp_path / "class-grades").exists()


def test_the_message_names_what_costs(hand_in, grade, tito, tmp_path):
    """An experiment that raises is not what costs points or tests; why no test ran is always said."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    experiment = {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": [], "execution_count": None,
                  "source": "1 / 0"}

    def hand_in_with(student: str, exported: str = "#| export", **answers: str) -> None:
        file = hand_in(f"{student}/alpha_dev.ipynb", **answers)
        nb = load(file)
        for cell in nb["cells"]:
            if cell["id"] == "half":
                cell["source"] = cell["source"].replace("#| export", exported, 1)
        nb["cells"].append(experiment)
        file.write_text(dumps(nb), encoding="utf-8")

    hand_in_with("bo", **RIGHT)
    hand_in_with("cy", double="return 2 * x")
    hand_in_with("dee", "# mine\n#| export", **RIGHT)
    hand_in_with("eve", "# mine\n#| export", **SQUARED)
    rows = by_student(grade())
    moved = "tests: not run, because the notebook cannot be exported: "
    assert [(row["points"], row["complete"]) for row in rows.values()] == [
        (100, True), (100, True), (60, False), (100, False), (40, False)]
    assert [row["message"].partition("modules/")[0] for row in rows.values()] == [
        "", "section 2, cell 3: ZeroDivisionError: division by zero", "not written yet: half: section 2, cell 1", moved,
        "double: double(21): expected 42, got 441 (you squared it)"]
    assert [[note.partition("modules/")[0] for note in row["notes"]] for row in rows.values()] == [
        [], [], [], [], [moved]]
    said = tito("grade", str(tmp_path / "class"), "--no-tests").stdout
    assert "total" in said
    assert "complete" not in said


# ---- the journal ----

def test_only_what_is_new_is_graded(root, hand_in, tmp_path):
    """A changed submission replaces its row; a changed checkout, another option or --again grade all anew."""
    out = tmp_path / "class-grades"
    lines = out / "grades.jsonl"

    def graded(**options: Any) -> list[Any]:
        """Return how many were graded, and the points of all."""
        before = lines.read_bytes() if lines.exists() else b""
        rows = batch.grade_folder(tmp_path / "class", root, out, tests=False, **options)["submissions"]
        new = lines.read_bytes().removeprefix(before).count(b"\n")
        return [new, *(row["points"] for row in rows)]

    for student in ("ana", "bo"):
        hand_in(f"{student}/alpha_dev.ipynb", **RIGHT)
    hand_in("cy/alpha_dev.ipynb", **SQUARED)
    assert graded() == [2, 100, 100, 40]  # two students with the same text share a grade
    assert graded() == [0, 100, 100, 40]
    hand_in("cy/alpha_dev.ipynb", double="return 2 * x")
    assert graded() == [1, 100, 100, 60]
    hand_in("cy/alpha_dev.ipynb", **SQUARED)
    assert graded() == [0, 100, 100, 40]
    assert graded(timeout=50) == [2, 100, 100, 40]
    before = lines.read_bytes()
    assert graded(again=True) == [2, 100, 100, 40]
    assert lines.read_bytes().count(b"\n") == 2
    assert lines.with_name("grades.jsonl.old").read_bytes() == before
    with (root / "tests" / "01_alpha" / "test_edges.py").open("a") as file:
        file.write("# one more line\n")
    assert graded() == [2, 100, 100, 40]


def test_a_torn_last_line_is_graded_again(hand_in, grade, tmp_path):
    """And a line that somebody broke; each key is there once."""
    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    hand_in("bo/alpha_dev.ipynb", **SQUARED)
    whole = grade("--no-tests")
    file = tmp_path / "class-grades" / "grades.jsonl"
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[:40])
    assert without_seconds(grade("--no-tests")) == without_seconds(whole)
    assert len({json.loads(line)["key"] for line in file.read_text().splitlines()}) == 2
    file.write_bytes(b"{}\n" + second)
    assert without_seconds(grade("--no-tests")) == without_seconds(whole)


def test_only_one_writes_at_a_time(tmp_path):
    """The second one is told so, and nothing happens to the journal."""
    file = tmp_path / "grades.jsonl"
    with journal.opened(file) as mine:
        mine.add("a", {"points": 1})
        for again in (False, True):
            with pytest.raises(TitoError, match="another `tito grade`"), journal.opened(file, again):
                pass
    with journal.opened(file) as mine:
        assert mine.results == {"a": {"points": 1}}


def start(root: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start `tito grade` in a process group of its own, where Ctrl-C counts: a job in the background ignores it."""
    return subprocess.Popen(
        [sys.executable, "-m", "tito", "grade", str(folder), "--no-tests", "--json", *words], cwd=root, text=True,
        env={**os.environ, "PYTHONPATH": str(HERE)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_killed_at_any_time(root, hand_in, grade, tmp_path):
    """Nothing is lost, nothing is graded twice, and the end is the end of a run that nobody disturbed."""
    students, kills = 24, 0
    for number in range(students):
        hand_in(f"s{number}/alpha_dev.ipynb", double=f"return 2 * x + {number} - {number}", half=f"return x / {number}")
    undisturbed = grade("--no-tests", "--out", str(tmp_path / "undisturbed"))
    file, kept = tmp_path / "class-grades" / "grades.jsonl", []
    moments = random.Random(5)
    while kills < 4 and len(kept) < students // 2:
        kills += 1
        running = start(root, tmp_path / "class")
        had = len(kept)
        until = time.monotonic() + 60
        while time.monotonic() < until and (not file.exists() or file.read_bytes().count(b"\n") <= had):
            time.sleep(0.01)
        time.sleep(moments.random() / 5)
        running.kill()
        running.communicate()
        now = file.read_bytes().split(b"\n")[:-1]
        assert now[:len(kept)] == kept
        assert len(now) > len(kept)
        kept = now
    assert kills > 1 and len(kept) < students  # else nothing was left to finish
    finished = grade("--no-tests")
    lines = file.read_bytes().splitlines()
    assert lines[:len(kept)] == kept
    assert len({json.loads(line)["key"] for line in lines}) == len(lines) == students
    assert without_seconds(finished) == without_seconds(undisturbed)
    assert finished["summary"] == undisturbed["summary"]
    tables = [[row[:-1] for row in csv.reader((folder / "grades.csv").read_text(encoding="utf-8-sig").splitlines())]
              for folder in (tmp_path / "class-grades", tmp_path / "undisturbed")]
    assert tables[0] == tables[1]


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_hand(root, hand_in, tmp_path, number):
    """At once, with a sentence that says how to go on; nothing of the grading goes on without it."""
    import psutil

    hand_in("ana/alpha_dev.ipynb", **RIGHT)
    hand_in("bo/alpha_dev.ipynb", double="import time; time.sleep(60)")
    running = start(root, tmp_path / "class", "--jobs", "1")
    file = tmp_path / "class-grades" / "grades.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (file.exists() and file.read_bytes()):
        time.sleep(0.05)
    time.sleep(2)  # the second one is running
    family = psutil.Process(running.pid).children(recursive=True)
    assert len(family) == 2
    running.send_signal(number)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (128 + number, "")
    assert "1 of 2 are done" in err
    assert "goes on from there" in err
    assert psutil.wait_procs(family, timeout=5)[1] == []
    assert len(file.read_bytes().splitlines()) == 1


# ---- what goes wrong on our side ----

def test_a_crash_of_ours_is_a_row(alpha, root, monkeypatch):
    """It says that it should not happen, and it is no verdict that is kept."""
    monkeypatch.setattr(job, "_verdict", lambda module, asked: 1 / 0)
    asked = {"key": "k", "module": "01_alpha", "release": job.release_hash(alpha), "root": str(root)}
    result = job.grade_one(asked)
    assert (result["status"], result["message"]) == (
        job.REFUSED, "this should not happen: ZeroDivisionError: division by zero")
    assert job.grade_one({**asked, "release": "another"})["status"] == "stop"


def test_a_submission_that_ends_its_process_is_tried_three_times(root, monkeypatch, tmp_path):
    """And is a row then; the next one is graded by a new process."""
    seen = tmp_path / "seen"
    monkeypatch.setattr(pool, "_SERVE", (
        "from tito.grading import pool\nimport os\ndef one(job):\n"
        f"    open({str(seen)!r}, 'a').write(job['key'])\n"
        "    if job['key'] == 'a': os._exit(3)\n"
        "    return {'key': job['key'], 'status': 'graded'}\n"
        "pool.grade_one = one\npool.serve()"))
    jobs = [{"key": key, "root": str(root), "timeout": None} for key in "ab"]
    results = {result["key"]: result for result in pool.results(jobs, 1)}
    assert results["b"] == {"key": "b", "status": "graded"}
    assert results["a"]["message"] == "this should not happen: its grading ended the process it ran in, 3 times"
    assert seen.read_text() == "aaab"


def test_a_grading_that_does_not_end_is_a_row(root, monkeypatch):
    """The clock is ours, not the submission's."""
    monkeypatch.setattr(pool, "_SERVE", "import time; time.sleep(100)")
    monkeypatch.setattr(pool, "_SLACK", -19)
    result, = pool.results([{"key": "a", "root": str(root), "timeout": 10}], 1)
    assert result["message"] == "its grading did not end in 1 s"


def test_jobs_side_by_side_share_the_cores(root, monkeypatch):
    """What a child's BLAS may use is said by its environment."""
    monkeypatch.setattr(pool, "_SERVE", "import json, os, sys\nfor job in sys.stdin: print(json.dumps({'key': "
                                         "json.loads(job)['key'], 'threads': os.environ.get('OPENBLAS_NUM_THREADS')}), "
                                         "flush=True)")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(pool.limits, "cores", lambda: 8)
    jobs = [{"key": "a", "root": str(root), "timeout": None}]
    assert [list(pool.results(jobs, number))[0]["threads"] for number in (1, 3, 20)] == [None, "2", "1"]


# ---- a cluster ----

# Runs in a process of its own, without pytest's warnings-as-errors.
CLUSTER = """
import json, os, sys
import dask
from distributed import LocalCluster
from tito.errors import TitoError
from tito.grading import batch, cluster

def by_key(job):
    if job["key"] == "kills":
        os._exit(1)
    return {"key": job["key"], "status": "graded"}

if __name__ == "__main__":
    folder, root, out = map(batch.Path, sys.argv[1:])
    dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as machines:
        address = machines.scheduler_address
        counts = []
        grades = [batch.grade_folder(folder, root, out, tests=False, workers=address,
                                     count=lambda done, total: counts.append(done)) for _ in range(2)]
        other = batch.release_hash
        batch.release_hash = lambda module: "another"
        try:
            batch.grade_folder(folder, root, out.with_name("other"), tests=False, workers=address)
        except TitoError as error:
            refused = str(error)
        jobs = [{"key": "kills"}, *({"key": str(number)} for number in range(6))]
        killed = {result["key"]: result for result in cluster.results(address, jobs, by_key)}
        # Said before the cluster closes: where its killed workers are just being replaced, Dask's closing may fail.
        print("RESULT" + json.dumps({"grades": grades, "counts": counts, "refused": refused, "killed": killed}),
              flush=True)
"""


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="not installed: distributed")
def test_a_cluster_grades_as_this_machine_does(tmp_path):
    """The same rows, from the same journal; a job that ends its workers is a row; another checkout is a sentence."""
    module = find_module(HERE, "tokenization")
    nb = release_notebook(module)
    for student, made in (("ana", solution_notebook(module)), ("bo", nb)):
        (tmp_path / "class" / student).mkdir(parents=True)
        (tmp_path / "class" / student / module.notebook.name).write_text(dumps(made), encoding="utf-8")
    (tmp_path / "class" / f"cy_{module.notebook.name}").write_text("{}", encoding="utf-8")
    (tmp_path / "cluster.py").write_text(CLUSTER, encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "ignore", "cluster.py", str(tmp_path / "class"), str(HERE),
                           str(tmp_path / "out")], env={**os.environ, "PYTHONPATH": str(HERE)}, cwd=tmp_path, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=170, check=False)
    found = json.loads((done.stdout.partition("RESULT")[2] or "null").partition("\n")[0])
    assert found, done.stderr
    here = batch.grade_folder(tmp_path / "class", HERE, tmp_path / "here", tests=False)
    assert [row["points"] for row in here["submissions"]] == [100, 0, None]
    assert [without_seconds(grades) for grades in found["grades"]] == [without_seconds(here)] * 2
    assert found["counts"] == [0, 1, 2, 3, 2, 3]  # the second time, only what could not be graded
    assert "has another state of the course" in found["refused"]
    statuses = {key: result["status"] for key, result in found["killed"].items()}
    assert statuses == {"kills": job.REFUSED, **{str(number): job.GRADED for number in range(6)}}


def test_no_cluster_is_one_sentence(hand_in, tito, tmp_path, monkeypatch):
    """No scheduler there, and no Dask here."""
    hand_in("ana/alpha_dev.ipynb")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TitoError, match="pip install"):
        list(cluster.results("tcp://127.0.0.1:9", []))
    if importlib.util.find_spec("distributed") is not None:
        done = tito("grade", str(tmp_path / "class"), "--workers", "tcp://127.0.0.1:9")
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert "no Dask scheduler answers at tcp://127.0.0.1:9" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="not installed: distributed")
@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["no address", "a web server"])
def test_what_is_no_scheduler_is_one_sentence(hand_in, tito, tmp_path, answer):
    """What is no address, and the port of the scheduler's dashboard: a sentence, no traceback, and no wait after it."""
    hand_in("ana/alpha_dev.ipynb")
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller = server.accept()[0]
                    caller.sendall(answer)
                    open_.append(caller)

        open_: list[socket.socket] = []
        if answer:
            threading.Thread(target=serve, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}" if answer else "nonsense"
        done = tito("grade", str(tmp_path / "class"), "--workers", address)
        for caller in open_:
            caller.close()
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert f"no Dask scheduler answers at {address}" in done.stderr
