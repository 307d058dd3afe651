"""The learner's desk: no combination of files leaves anybody stuck, and no work is ever lost."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tito import desk, standing
from tito.errors import NotebookError, TitoError
from tito.grading import runner
from tito.notebooks.export import is_complete
from tito.notebooks.read import dumps, load
from tito.notebooks.release import content_hash, is_untouched, solution_notebook
from tito.notebooks.twin import exact_twin, read_into, write_twin
from tito.project import find_module

HERE = Path(__file__).resolve().parents[2]
RIGHT = {"double": "return x + x", "half": "return x / 2"}
WORK = "'what I found out'"


# ---- the whole matrix ----

def put(path: Path, state: str) -> bytes | None:
    """Bring a notebook or twin into a state; return what of it is work that must not be lost."""
    text = path.read_text(encoding="utf-8")
    path.unlink()
    if state == "missing":
        return None
    if state == "folder":
        path.mkdir()
        path = path / "notes.txt"
        path.write_text(f"{WORK} {path.parent.suffix}", encoding="utf-8")
    elif state == "loop":  # a link to itself: there, and unreadable for everybody, also for root
        path.symlink_to(path.name)
        return path.name.encode()
    elif state == "broken":
        path.write_bytes(b'{"cells": [ "half a save' if path.suffix == ".ipynb" else "# %%\nü = 1\n".encode("latin-1"))
    elif state == "edited":
        stub = 'raise NotImplementedError("double: section 1, cell 1")'
        stub = stub if path.suffix == ".py" else json.dumps(stub)[1:-1]
        assert stub in text
        path.write_text(text.replace(stub, f"return {WORK}, '{path.suffix}'"), encoding="utf-8")
    else:
        path.write_text(text if state == "untouched" else "", encoding="utf-8")
    return None if state in ("untouched", "empty") else path.read_bytes()


def held(root: Path) -> list[bytes]:
    """Return what lies below modules/: the contents of all files, and where links lead."""
    return sorted(os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
                  for file in (root / "modules").rglob("*") if file.is_symlink() or file.is_file())


STATES = ("missing", "untouched", "edited", "empty", "broken", "folder", "loop")
MATRIX = [pair for pair in itertools.product(STATES, STATES) if os.name != "nt" or "loop" not in pair]


def answer(function, *args) -> str:
    """Return the one sentence with which a function of the desk refuses, or which it has to say when it works."""
    try:
        result = function(*args)
    except TitoError as error:
        assert str(error).strip() and "\n" not in str(error)
        return str(error)
    return str(result["problem"] or "")


@pytest.mark.parametrize(("notebook", "twin"), MATRIX)
def test_nobody_is_ever_stuck(root, alpha, notebook, twin):
    """Each command works or says one sentence with the way on; what held work is there afterwards, byte for byte."""
    work = {data for data in (put(alpha.notebook, notebook), put(alpha.twin, twin)) if data is not None}
    before = held(root)
    said = standing.status(alpha)["problem"] or ""
    told = answer(desk.resume, alpha)
    assert told == said
    assert held(root) == before
    usable = notebook in ("untouched", "edited") or (notebook == "missing" and twin == "edited")
    if not usable:  # the sentence names a command that there is
        assert any(f"`tito module {verb} alpha" in told for verb in ("start", "reset", "sync"))
    elif "edited" in (notebook, twin):
        assert ("sync alpha --from twin" in told or "--from twin)" in told) == (twin == "edited")

    told = answer(desk.start, alpha)
    after = held(root)
    assert all(after.count(one) >= before.count(one) for one in before)  # start adds, and changes nothing
    if notebook == "missing":
        assert is_untouched(load(alpha.notebook))
    if notebook in ("empty", "broken", "folder", "loop"):
        assert "`tito module reset alpha`" in told
        assert after == before

    for source in ("notebook", "twin"):  # in a copy: any of them may be used to go on
        other = find_module(Path(shutil.copytree(root, root.parent / source, symlinks=True)), "alpha")
        state = standing.look(other)
        try:
            desk.sync(other, source)
        except TitoError:
            assert getattr(state, source).notebook is None
            assert held(other.root) == after
        else:
            assert work <= set(held(other.root))
            assert standing.status(other)["problem"] is None
            assert desk.resume(other)["state"] == getattr(state, source).state

    desk.reset(alpha)
    assert [standing.look_at(alpha, path).state for path in (alpha.notebook, alpha.twin)] == ["untouched", "untouched"]
    assert work <= set(held(root))
    assert [answer(function, alpha) for function in (standing.status, desk.start, desk.resume)] == ["", "", ""]
    assert desk.reset(alpha)["kept"] == []


# ---- begin and go on ----

def test_start_says_where_it_is_and_what_comes_next(root, tito):
    """The notebook, how to open it (quoted), what it needs and what the package holds of it, the next command."""
    done = tito("module", "start", "beta")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    for part in ("02 · Beta", "modules/02_beta/beta_dev.ipynb is ready, as released", "It needs 01_alpha; the package "
                 "holds: reference.", "jupyter lab modules/02_beta/beta_dev.ipynb", "Then: tito test beta"):
        assert part in said
    result = json.loads(tito("module", "start", "beta", "--json").stdout)
    assert (result["state"], result["written"]) == ("untouched", [])
    assert result["prerequisites"] == [{"module": "01_alpha", "package": "reference"}]
    away = json.loads(tito("module", "start", "beta", "--json", cwd=root / "src").stdout)
    assert away["open"] == "jupyter lab ../modules/02_beta/beta_dev.ipynb"


def test_the_way_to_open_it_can_be_pasted(root, alpha, monkeypatch):
    """From a folder outside, whose way in has a space."""
    import shlex

    monkeypatch.chdir(root.parent)
    assert "'" in desk.start(alpha)["open"]
    assert Path(shlex.split(desk.start(alpha)["open"])[2]).resolve() == alpha.notebook.resolve()


def test_what_is_opened_is_where_the_work_is(alpha, tito):
    """A learner who writes in the twin is shown the twin; after `sync`, the notebook."""
    alpha.twin.write_text(write_twin(solution_notebook(alpha)), encoding="utf-8")
    assert json.loads(tito("module", "resume", "alpha", "--json").stdout)["path"] == str(alpha.twin)
    assert tito("module", "sync", "alpha").returncode == 0
    assert json.loads(tito("module", "resume", "alpha", "--json").stdout)["path"] == str(alpha.notebook)


def test_start_writes_what_was_released(alpha, tito):
    """Each file on its own, byte for byte as `tito build` writes it."""
    before = {path: path.read_bytes() for path in (alpha.notebook, alpha.twin)}
    alpha.notebook.unlink()
    assert tito("module", "resume", "alpha").returncode == 2
    done = tito("module", "start", "alpha")
    assert "Written as released: modules/01_alpha/alpha_dev.ipynb." in " ".join(done.stdout.split())
    shutil.rmtree(alpha.notebook.parent)
    assert tito("module", "start", "alpha").returncode == 0
    assert {path: path.read_bytes() for path in before} == before


def test_start_on_work_writes_nothing(alpha, snapshot, tito, write_in):
    """It says that work is there, what is not written yet, and goes on like resume."""
    write_in(alpha.notebook, double="return x + x")
    before = snapshot()
    first, second = tito("module", "start", "alpha"), tito("module", "resume", "alpha")
    assert first.stdout == second.stdout
    assert "1 part is not written yet, first half: section 2, cell 1." in " ".join(first.stdout.split())
    assert "Then:     tito test alpha" in first.stdout
    write_in(alpha.notebook, half="return x / 2")
    assert "tito module complete alpha" in tito("module", "resume", "alpha").stdout
    write_in(alpha.notebook, half="raise NotImplementedError")
    assert snapshot().keys() == before.keys()


def test_start_never_writes_over_a_file_that_appears_meanwhile(alpha, monkeypatch):
    """Somebody saves between the look and the write."""
    alpha.notebook.unlink()
    release = desk._release

    def slow(module):
        text = release(module)
        alpha.notebook.write_text(WORK, encoding="utf-8")
        return text

    monkeypatch.setattr(desk, "_release", slow)
    desk.start(alpha)
    assert alpha.notebook.read_text(encoding="utf-8") == WORK


def test_open_launches_jupyter_where_it_is(alpha, tito, tmp_path):
    """And says how to install it where it is not."""
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "jupyterlab.py").write_text("import sys\nprint('opened', sys.argv[1])\n", encoding="utf-8")
    done = tito("module", "start", "alpha", "--open", PYTHONPATH=os.pathsep.join([str(fake), str(HERE)]))
    assert done.returncode == 0
    assert f"opened {alpha.notebook}" in done.stdout
    (fake / "jupyterlab.py").unlink()
    (fake / "sitecustomize.py").write_text("import importlib.util as u\nfind = u.find_spec\n"
                                           "u.find_spec = lambda name, *more: name != 'jupyterlab' and find(name)\n")
    done = tito("module", "start", "alpha", "--open", PYTHONPATH=os.pathsep.join([str(fake), str(HERE)]))
    assert done.returncode == 2
    assert "pip install" in done.stderr


def test_without_a_source_the_untouched_file_is_the_release(root, alpha, write_in):
    """The other one is written from it; where neither is left, one sentence."""
    before = alpha.notebook.read_bytes()
    shutil.rmtree(root / "src/01_alpha")
    alpha.twin.unlink()
    desk.start(alpha)
    write_in(alpha.notebook, **RIGHT)
    desk.reset(alpha)
    assert alpha.notebook.read_bytes() == before
    for path in (alpha.notebook, alpha.twin):
        put(path, "edited")
    with pytest.raises(TitoError, match="no untouched copy"):
        desk.reset(alpha)
    with pytest.raises(TitoError, match="src/01_alpha/01_alpha.py is not in this checkout"):
        desk.reset_package(alpha)


@pytest.mark.parametrize("left", [0, 300, 900])
def test_half_a_source_is_no_release(alpha, left):
    """An empty or cut source makes no notebook and grades none: one sentence with the way on, and nothing changes."""
    alpha.source.write_bytes(alpha.source.read_bytes()[:left])
    put(alpha.twin, "missing")
    put(alpha.notebook, "edited")
    before = held(alpha.root)
    for function in (desk.reset, runner.grade):
        with pytest.raises(TitoError, match="src/01_alpha/01_alpha.py: .*get it again"):
            function(alpha)
    assert "get it again" in standing.status(alpha)["problem"]
    assert held(alpha.root) == before


@pytest.mark.parametrize(("left", "state"), [
    (None, "missing"), (b"\xff\x00", "unreadable"), (b"x = 1\n", "edited by hand")])
def test_a_package_file_that_is_gone_or_broken_is_told_the_way_back(alpha, tito, left, state):
    """Status says so, and the command it names puts the reference there."""
    reference = alpha.package.read_bytes()
    alpha.package.unlink()
    if left is not None:
        alpha.package.write_bytes(left)
    said = standing.status(alpha)["problem"]
    assert state in said and "`tito module reset alpha --package`" in said
    assert tito("module", "reset", "alpha", "--package").returncode == 0
    assert alpha.package.read_bytes() == reference
    assert standing.status(alpha)["problem"] is None


# ---- hand in ----

def test_complete_is_what_later_modules_import(root, alpha, tito, write_in):
    """A recognisable variant of alpha is exported with the mark, and beta's tests see it."""
    tests = root / "tests/02_beta/test_it.py"
    tests.parent.mkdir()
    tests.write_text("from tinytorch.core.alpha import double, half\n\n\ndef test_whose():\n"
                     "    assert double.mine and half(3) == 1.5\n", encoding="utf-8")
    assert runner.grade(find_module(root, "beta"))["tests"]["failed"] == 1
    write_in(alpha.notebook, double="return x + x\n\ndouble.mine = True", half="return x / 2")
    done = tito("module", "complete", "alpha")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "01_alpha is complete: tinytorch/core/alpha.py is yours now" in " ".join(done.stdout.split())
    header = alpha.package.read_text(encoding="utf-8").split("\n")[0]
    assert header.endswith(" complete]") and "modules/01_alpha/alpha_dev.ipynb" in header
    assert runner.grade(find_module(root, "beta"))["tests"]["passed"] == 1
    row = standing.status(alpha)
    assert (row["package"], row["complete"], row["progress"]) == ("yours (complete)", True, "complete")
    write_in(alpha.notebook)
    assert standing.status(alpha)["progress"] == "complete"
    text = alpha.notebook.read_text(encoding="utf-8")
    alpha.notebook.write_text(text.replace("return x / 2", "return x * 0.5"), encoding="utf-8")
    assert standing.status(alpha)["progress"] == standing.status(alpha)["package"] == "complete, notebook changed since"
    alpha.notebook.unlink()
    alpha.twin.unlink()
    assert standing.status(alpha)["package"] == "yours (complete)"
    alpha.package.write_text(alpha.package.read_text(encoding="utf-8") + "x = 1\n", encoding="utf-8")
    assert (standing.status(alpha)["package"], standing.status(alpha)["complete"]) == ("edited by hand", False)


@pytest.mark.parametrize(("answers", "said"), [
    ({}, "nothing is written"), ({"double": "return x + x"}, "not every graded cell passes"),
    ({"double": "return x + x", "half": "return float(x) / 2"}, "not every test passes"),
    ({**RIGHT, "half": "return x / 3"}, "not every graded cell passes")])
def test_complete_needs_everything(alpha, snapshot, tito, write_in, answers, said):
    """Exit status 1 with the verdict, and not a byte changes."""
    write_in(alpha.notebook, **answers)
    before = snapshot()
    done = tito("module", "complete", "alpha")
    assert done.returncode == 1
    assert f"01_alpha is not complete: {said}" in " ".join(done.stdout.split())
    assert snapshot() == before


@pytest.mark.parametrize("left", ["nothing", "no tests"])
def test_complete_needs_tests_that_ran(root, alpha, snapshot, tito, write_in, left):
    """Deleting them does not help."""
    write_in(alpha.notebook, **RIGHT)
    for file in (root / "tests/01_alpha").iterdir():
        file.unlink()
    if left == "nothing":
        (root / "tests/01_alpha").rmdir()
    before = snapshot()
    done = tito("module", "complete", "alpha", "--json")
    assert (done.returncode in (1, 2), json.loads(done.stdout)["exported"]) == (True, False)
    assert "tests/01_alpha has to run and pass" in json.loads(done.stdout)["message"]
    assert snapshot() == before


def test_what_is_exported_is_what_was_graded(alpha, monkeypatch, write_in):
    """An editor saves while the tests run."""
    write_in(alpha.notebook, **RIGHT)
    grade = runner.grade_submission

    def slow(*args, **more):
        result = grade(*args, **more)
        write_in(alpha.notebook)
        text = alpha.notebook.read_text(encoding="utf-8")
        alpha.notebook.write_text(text.replace("return x + x", "return 'saved meanwhile'"), encoding="utf-8")
        return result

    monkeypatch.setattr(runner, "grade_submission", slow)
    assert desk.complete(alpha)["exported"]
    text = alpha.package.read_text(encoding="utf-8")
    assert "return x + x" in text and "saved meanwhile" not in text
    assert is_complete(text)
    assert standing.status(alpha)["progress"] == "complete, notebook changed since"


def test_complete_says_what_comes_next(alpha, tito, write_in):
    """The next module's name; nothing where it is not complete."""
    write_in(alpha.notebook, double="return x + x")
    assert "Then:" not in tito("module", "complete", "alpha").stdout
    write_in(alpha.notebook, **RIGHT)
    assert tito("module", "complete", "alpha").stdout.endswith("\nThen:  tito module start beta\n")


def test_a_bonus_notebook_completes_likewise(more, tito, write_in):
    """With its own tests, into its own file."""
    write_in(more.notebook, quadruple="return 4 * x", octuple="return 8 * x")
    assert tito("module", "complete", "more").returncode == 0
    assert standing.status(more)["progress"] == "complete"


def test_complete_takes_the_twin(alpha, tito):
    """And the header names it."""
    alpha.twin.write_text(write_twin(solution_notebook(alpha)), encoding="utf-8")
    assert tito("module", "complete", "alpha").returncode == 0
    assert "modules/01_alpha/alpha_dev.py [" in alpha.package.read_text(encoding="utf-8").split("\n")[0]


def test_an_edit_by_hand_is_neither_overwritten_nor_a_dead_end(alpha, tito, write_in):
    """Export and complete refuse; reset --package keeps it, and then they go on."""
    write_in(alpha.notebook, **RIGHT)
    alpha.package.write_text(f"mine = {WORK}\n", encoding="utf-8")
    for words in (["export"], ["module", "complete"]):
        done = tito(*words, "alpha")
        assert done.returncode == 2
        assert "tito module reset alpha --package" in done.stderr
        assert WORK in alpha.package.read_text(encoding="utf-8")
    notebook = alpha.notebook.read_bytes()
    done = tito("module", "reset", "alpha", "--package")
    assert "modules/01_alpha/_backup/alpha-1.py" in done.stdout
    assert standing.status(alpha)["package"] == "reference"
    assert (alpha.notebook.parent / "_backup/alpha-1.py").read_text(encoding="utf-8") == f"mine = {WORK}\n"
    assert alpha.notebook.read_bytes() == notebook
    assert tito("module", "complete", "alpha").returncode == 0


def test_export_says_what_is_not_written(root, more, tito, write_in):
    """How many stubs go out, and the first; whoever calls one later gets its sentence."""
    write_in(more.notebook, quadruple="return 4 * x")
    done = tito("export", "more")
    said = " ".join(done.stdout.split())
    assert "1 part of it not written yet (first octuple: section 1, cell 3)" in said
    result = json.loads(tito("export", "more", "--json").stdout)
    assert (result["exported"], result["unwritten"]) == (True, ["octuple: section 1, cell 3"])
    run = subprocess.run([sys.executable, "-c", "from tinytorch.core.more import octuple; octuple(1)"], cwd=root,
                         capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(root)})
    assert run.stderr.strip().endswith("NotImplementedError: octuple: section 1, cell 3")
    assert standing.status(more)["package"] == "yours (exported, not tested)"
    write_in(more.notebook, octuple="return 8 * x")
    assert standing.status(more)["package"] == "yours, edited since"


def test_an_error_of_an_edited_twin_names_the_twin(alpha, tito):
    """Not the notebook, which nobody wrote in."""
    text = alpha.twin.read_text(encoding="utf-8")
    text = text.replace("#| export\ndef half", "#| export\nfrom os import *\ndef half")
    alpha.twin.write_text(text, encoding="utf-8")
    for words in (["export"], ["module", "complete"]):
        done = tito(*words, "alpha", "--json")
        assert done.returncode in (1, 2)
        assert "alpha_dev.ipynb" not in json.loads(done.stdout).get("error", "")
    assert "modules/01_alpha/alpha_dev.py" in tito("export", "alpha").stderr


# ---- go back ----

def test_reset_keeps_numbered_backups_it_names(root, alpha, tito, write_in):
    """Never overwritten, brought back by the command that is printed."""
    released = alpha.notebook.read_bytes()
    for number in (1, 2):
        write_in(alpha.notebook, double=f"return {number} * x")
        work = alpha.notebook.read_bytes()
        done = tito("module", "reset", "alpha")
        assert done.returncode == 0
        assert f"modules/01_alpha/_backup/alpha_dev-{number}.ipynb" in done.stdout
        assert (alpha.notebook.parent / f"_backup/alpha_dev-{number}.ipynb").read_bytes() == work
        assert alpha.notebook.read_bytes() == released
    back = done.stdout.splitlines()[-1].split()
    assert back[0] == "tito"
    assert tito(*back[1:]).returncode == 0
    assert alpha.notebook.read_bytes() == work
    done = tito("module", "reset", "alpha", "--to", "alpha_dev-1.ipynb")
    assert "alpha_dev-2.ipynb" in done.stdout  # the same bytes are kept once
    done = tito("module", "reset", "alpha", "--to", "nothing")
    assert done.returncode == 2
    assert "the backups are alpha_dev-1.ipynb, alpha_dev-2.ipynb." in done.stderr


def test_a_lost_notebook_is_told_of_its_backup(alpha, tito, write_in):
    """Missing or broken: status and resume name the newest one."""
    write_in(alpha.notebook, **RIGHT)
    desk.reset(alpha)
    for state in ("broken", "missing"):
        put(alpha.notebook, state)
        assert "`tito module reset alpha --to alpha_dev-1.ipynb`" in standing.status(alpha)["problem"]
        alpha.notebook.write_text("{", encoding="utf-8")
    assert tito("module", "reset", "alpha", "--to", "alpha_dev-1.ipynb").returncode == 0
    assert standing.status(alpha)["progress"] == "all written, not tested"


def test_backups_are_nobody_elses_notebooks(root, more, tito, write_in):
    """No bonus notebook, nothing to build or check, nothing for nbdev, nothing for git."""
    from nbdev.doclinks import nbglob

    from tito.notebooks.build import check
    from tito.project import modules

    alpha = find_module(root, "alpha")
    known, exported = modules(root), [*nbglob(root / "modules")]
    for module in (alpha, more):
        write_in(module.notebook, **RIGHT, quadruple="return 4 * x")
        desk.reset(module)
        module.package.write_text("mine = 1\n", encoding="utf-8")
        desk.reset_package(module)
    assert len([*(root / "modules").rglob("_backup/*")]) == 4
    assert modules(root) == known
    assert [*nbglob(root / "modules")] == exported
    assert check(root).differences == []
    shutil.rmtree(root / "src")
    (root / "src").mkdir()
    assert modules(root) == known
    name = "modules/01_tensor/_backup/tensor_dev-1.ipynb"
    assert subprocess.run(["git", "check-ignore", "-q", name], cwd=HERE, check=False).returncode == 0


def test_reset_keeps_what_an_editor_saves_meanwhile(alpha, monkeypatch, write_in):
    """The file is looked at again before it is replaced."""
    write_in(alpha.notebook, **RIGHT)
    keep, saved = desk.keep, []

    def slow(module, path):
        kept = keep(module, path)
        if not saved:
            saved.append(alpha.notebook.read_bytes().replace(b"return x + x", b"return 'saved meanwhile'"))
            alpha.notebook.write_bytes(saved[0])
        return kept

    monkeypatch.setattr(desk, "keep", slow)
    desk.reset(alpha)
    assert saved[0] in [file.read_bytes() for file in standing.backups(alpha, alpha.notebook)]
    assert standing.status(alpha)["state"] == "untouched"


# ---- notebook and twin in step ----

def test_sync_both_ways(alpha, tito, write_in):
    """The edited one counts without a word; what is replaced and held work is kept; then they are in step."""
    write_in(alpha.notebook, double="return x + x")
    done = tito("module", "sync", "alpha")
    assert done.returncode == 0, done.stderr
    assert "modules/01_alpha/alpha_dev.py now says what alpha_dev.ipynb says." in " ".join(done.stdout.split())
    assert "return x + x" in alpha.twin.read_text(encoding="utf-8")
    assert "already says" in tito("module", "sync", "alpha").stdout
    stub = 'raise NotImplementedError("half: section 2, cell 1")'
    text = alpha.twin.read_text(encoding="utf-8")
    alpha.twin.write_text(text.replace(stub, "return x / 2"), encoding="utf-8")
    assert standing.status(alpha)["counts"] == "twin"
    assert json.loads(tito("test", "alpha", "--json").stdout)["score"] == 100
    work = alpha.notebook.read_bytes()
    result = json.loads(tito("module", "sync", "alpha", "--json").stdout)
    assert (result["source"], result["written"]) == ("twin", ["modules/01_alpha/alpha_dev.ipynb"])
    assert (alpha.root / result["kept"][0]["file"]).read_bytes() == work
    write_in(alpha.notebook)
    assert json.loads(tito("test", "alpha", "--source", "notebook", "--json").stdout)["score"] == 100
    text = alpha.notebook.read_text(encoding="utf-8")
    alpha.notebook.write_text(text.replace("return x + x", "return 2 * x"), encoding="utf-8")
    assert text != alpha.notebook.read_text(encoding="utf-8")
    assert standing.status(alpha)["counts"] == "notebook"  # the twin is as it was when they were in step
    alpha.twin.write_text(alpha.twin.read_text(encoding="utf-8") + "\n# %%\nx = 1\n", encoding="utf-8")
    done = tito("module", "sync", "alpha")
    assert (done.returncode, "--from twin" in done.stderr) == (2, True)
    assert "both edited and differ" in tito("test", "alpha").stderr
    assert tito("module", "sync", "alpha", "--from", "twin").returncode == 0
    assert "x = 1" in alpha.notebook.read_text(encoding="utf-8")


def test_sync_keeps_ids_metadata_and_outputs(alpha, write_in):
    """Of cells whose text did not change; a changed cell keeps its id and loses its outputs, a new one gets an id."""
    write_in(alpha.notebook, **RIGHT)
    nb = load(alpha.notebook)
    for number, cell in enumerate(nb["cells"]):
        if cell["cell_type"] == "code":
            cell |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": [str(number)]}],
                     "execution_count": number}
    nb["cells"].insert(5, {"cell_type": "code", "id": "b7f3", "metadata": {"tags": ["mine"]}, "source": "1 + 1\n",
                           "outputs": [], "execution_count": 3})
    nb["cells"].append({"cell_type": "markdown", "id": "pic", "metadata": {}, "source": "![x](attachment:x.png)",
                        "attachments": {"x.png": {"image/png": "aGk="}}})
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    desk.sync(alpha)
    before = load(alpha.notebook)["cells"]
    text = alpha.twin.read_text(encoding="utf-8").replace("return x + x", "return 2 * x")
    alpha.twin.write_text(text.replace("# %% [markdown]", "# %%\nnew = 1\n\n# %% [markdown]", 1), encoding="utf-8")
    desk.sync(alpha)
    after = load(alpha.notebook)["cells"]
    assert after[0]["source"] == "new = 1"
    changed = [number for number, (old, new) in enumerate(zip(before, after[1:])) if old != new]
    assert [before[number]["id"] for number in changed] == ["double"]
    assert after[changed[0] + 1]["id"] == "double"
    assert (after[changed[0] + 1]["outputs"], after[changed[0] + 1]["execution_count"]) == ([], None)
    assert len({cell["id"] for cell in after}) == len(after)


@pytest.mark.parametrize(("source", "said"), [
    ("x = 1\n# %% and so on", "would begin a new cell"), ("text = \'\'\'\nnever closed", "would not come back")])
def test_sync_refuses_what_the_twin_cannot_hold(alpha, snapshot, source, said):
    """One sentence with the cell, and nothing changes."""
    nb = load(alpha.notebook)
    nb["cells"].insert(3, {"cell_type": "code", "id": "odd", "metadata": {}, "source": source, "outputs": [],
                           "execution_count": None})
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    before = snapshot()
    with pytest.raises(TitoError, match=said) as error:
        desk.sync(alpha)
    assert "alpha_dev.ipynb, cell 4: " in str(error.value)
    assert snapshot() == before


LINES = ("x = 1", "%matplotlib inline", "!ls", "", "   ", "# note", "#| export", "def f():\n    return '\"'",
         "s = '''a\n  b'''",
         "return (", "\\", "r'\\n'", '\"\"\"doc\"\"\"', "$x^2$ `code`", "# %% [markdown]", "é λ", "\tx", "?print",
         "# ---", "#!x",
         "%%bash\nls | grep 'x", "%%time\ny = 2", 'if __name__ == "__main__":', "a\r\nb", "- item", "x?", "'''", "<b>")
METADATA = ({}, {"nbgrader": {"grade": True, "grade_id": "g", "points": 3, "schema_version": 3}}, {"tags": ["a b"]},
            {"name": 'a=b "c" [x]'}, {"deep": {"list": [1, None, {"x": "ü"}]}})


@st.composite
def notebooks(draw):
    """Draw a notebook of odd cells."""
    cells = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["code", "markdown", "raw"]))
        cell = {"cell_type": kind, "id": f"id{draw(st.integers(0, 99))}-{number}",
                "metadata": draw(st.sampled_from(METADATA)),
                "source": "\n".join(draw(st.lists(st.sampled_from(LINES), max_size=4)))}
        if kind == "code":
            cell |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": [str(number)]}],
                     "execution_count": number}
        cells.append(cell)
    return {"cells": cells, "nbformat": 4, "nbformat_minor": 5,
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"},
                         "tinytorch": {"module": "01_alpha", "release": "0"}}}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(notebooks(), st.data())
def test_the_round_trip_is_exact(nb, data):
    """Notebook, twin, notebook: every cell as it was, or a sentence that names one; beside another notebook as well."""
    try:
        text = exact_twin(nb, "alpha", "alpha_dev.ipynb")
    except NotebookError as error:
        sources = [cell["source"] for cell in nb["cells"]]
        assert any(mark in source for mark in ("# %%", "'''", '\"\"\"') for source in sources), error
        assert "alpha_dev.ipynb, cell " in str(error)
        return
    assert read_into(text, "alpha", nb) == nb
    if not nb["cells"]:
        return
    other = json.loads(json.dumps(nb))
    place = data.draw(st.integers(0, len(nb["cells"]) - 1))
    other["cells"][place]["source"] += "\nsomething else"
    back = read_into(text, "alpha", other)
    assert content_hash(back) == content_hash(nb)
    for number, (came, want) in enumerate(zip(back["cells"], nb["cells"])):
        assert (came["cell_type"], came["metadata"]) == (want["cell_type"], want["metadata"])
        if number != place and nb["cells"].count(want) == 1 and len({cell["source"] for cell in nb["cells"]}) == len(
                nb["cells"]) and not want["metadata"].get("nbgrader"):
            assert came == want


def test_a_twin_runs_its_checks_from_any_folder(root, alpha, tmp_path, write_in):
    """Importing it runs none; a check that fails ends with its own message; cells of another language do not matter."""
    write_in(alpha.notebook, **RIGHT)
    nb = load(alpha.notebook)
    nb["cells"].append({"cell_type": "code", "id": "sh", "metadata": {}, "source": "%%bash\nls -l | grep 'x\n\ndone",
                        "outputs": [], "execution_count": None})
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    desk.sync(alpha)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(HERE)])}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-X", "utf8", *words], cwd=tmp_path, capture_output=True, text=True,
                              encoding="utf-8", env=environment, check=False)

    assert run(str(alpha.twin)).stdout.splitlines()[-2:] == ["✓ double(21): 42", "✓ half(5): 2.5"]
    done = run("-c", f"import sys; sys.path.insert(0, {str(alpha.twin.parent)!r})\n"
                     "import alpha_dev; print(alpha_dev.half(3))")
    assert done.stdout == "1.5\n", done.stderr
    done = subprocess.run([sys.executable, str(alpha.twin)], capture_output=True, check=False,
                          env={**environment, "PYTHONIOENCODING": "cp1252"})
    assert done.stdout.split(b"\n")[-3].rstrip() == b"ok double(21): 42"
    text = alpha.twin.read_text(encoding="utf-8")
    alpha.twin.write_text(text.replace("return x + x", "return x * x"), encoding="utf-8")
    done = run(str(alpha.twin))
    assert done.returncode == 1
    assert done.stderr.rstrip().splitlines()[-1].split() == ["likely", "you", "squared", "it"]


# ---- killed ----

def files(root: Path) -> dict[str, bytes]:
    """Return every file of a checkout but compiled ones."""
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(root.rglob("*"))
            if file.is_file() and "__pycache__" not in file.parts}


def whole(root: Path, before: dict[str, bytes], after: dict[str, bytes], work: list[bytes]) -> None:
    """Check that nothing is half written and nothing lost: each file is the old or the new one, the work is there."""
    now = {name: data for name, data in files(root).items() if not name.endswith(".tito-tmp")}
    for name in {*before, *after, *now}:
        assert now.get(name) in (before.get(name), after.get(name)), name
    for one in work:
        assert one in now.values()


CALLS = {"start(alpha)": "missing", "reset(alpha)": "edited", "reset_package(alpha)": "edited",
         "sync(alpha, 'notebook')": "both", "sync(alpha, 'twin')": "both", "export(alpha, 'notebook')": "edited",
         "complete(alpha, 'notebook')": "edited", "reset_to(alpha, 'alpha_dev-1.ipynb')": "kept"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_point(root, alpha, write_in, tmp_path, call):
    """SIGKILL before and after each call that touches a file: whole files, no work lost, the next run goes on."""
    if CALLS[call] == "missing":
        alpha.notebook.unlink()
        alpha.twin.unlink()
    else:
        write_in(alpha.notebook, **RIGHT)
    if CALLS[call] == "both":
        put(alpha.twin, "edited")
    if call.startswith("reset_package"):
        alpha.package.write_text(f"mine = {WORK}\n", encoding="utf-8")
    if CALLS[call] == "kept":
        desk.reset(alpha)
        write_in(alpha.notebook, double=f"return {WORK}")
    before = files(root)
    work = [path.read_bytes() for path in (alpha.notebook, alpha.twin) if standing.look_at(alpha, path).holds_work]
    work += [data for data in (alpha.package.read_bytes(),) if WORK.encode() in data]
    assert bool(work) == (CALLS[call] != "missing")
    killer = [sys.executable, str(HERE / "tests/tito/kill_at.py"), str(root), str(tmp_path / "runs"), call]
    done = subprocess.run(killer, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(HERE)})
    assert done.returncode == 0, done.stderr
    runs = int(done.stdout)
    assert runs > 8  # it was killed often
    after = files(tmp_path / "runs" / str(runs))
    assert after != before
    for number in range(1, runs + 1):
        copy = tmp_path / "runs" / str(number)
        whole(copy, before, after, work)
        if number % 8 == 1 or call in ("start(alpha)", "reset(alpha)"):
            again = find_module(copy, "alpha")
            for left in copy.rglob(".*.tito-tmp"):
                os.utime(left, (1, 1))
            eval(f"desk.{call}", {"desk": desk, "alpha": again})
            assert {name: data for name, data in files(copy).items() if name in after} == after
            assert set(files(copy)) <= set(after) | {"modules/01_alpha/_backup/alpha_dev-2.ipynb"}


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.parametrize("verb", ["export", "complete", "reset", "sync"])
def test_killed_at_any_moment(root, alpha, tito, write_in, verb):
    """The whole command, its own processes too, after delays of all lengths."""
    import random
    import time

    write_in(alpha.notebook, **RIGHT)
    work = [alpha.notebook.read_bytes()]
    before = files(root)
    words = [sys.executable, "-m", "tito", *(["export"] if verb == "export" else ["module", verb]), "alpha"]
    options = {"cwd": root, "env": {**os.environ, "PYTHONPATH": str(HERE)}, "stdin": subprocess.DEVNULL,
               "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    copy = Path(shutil.copytree(root, root.parent / "done"))
    begun = time.monotonic()
    assert subprocess.run(words, check=False, **{**options, "cwd": copy}).returncode == 0
    lasts = time.monotonic() - begun
    after = files(copy)
    for _ in range(4):
        process = subprocess.Popen(words, **options)
        time.sleep(random.uniform(0.3, 1) * lasts)
        process.kill()
        process.wait()
        whole(root, before, after, work)
    assert subprocess.run(words, check=False, **options).returncode == 0
    assert {name: data for name, data in files(root).items() if not name.endswith(".tito-tmp")} == after
