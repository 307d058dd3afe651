"""A second notebook of a folder: built, exported and tested like any other, and worth no points."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tito.errors import ProjectError
from tito.grading import runner
from tito.grading.submission import Submission, read
from tito.notebooks.build import BuildError, build, check, make, sources
from tito.notebooks.read import load
from tito.notebooks.release import release_notebook, solution_notebook
from tito.project import Module, find_module, modules

RIGHT = {"quadruple": "return 4 * x", "octuple": "return 8 * x"}


def plant(module: Module, old: str, new: str) -> None:
    """Change a module's source."""
    text = module.source.read_text(encoding="utf-8")
    assert old in text
    module.source.write_text(text.replace(old, new, 1), encoding="utf-8")


def faults(root: Path) -> list[str]:
    """What the build says about the sources."""
    try:
        make(root, sources(root))
    except BuildError as error:
        return [str(fault) for fault in error.faults]
    return []


# ---- where it is ----

def test_it_comes_after_its_folders_own(root, more):
    """In the order of the course, with paths from its own name in the folder of its module."""
    assert [(module.label, module.bonus) for module in modules(root)] == [
        ("01_alpha", False), ("01_more", True), ("02_beta", False)]
    assert (more.number, more.name, more.folder, more.title) == (1, "more", "01_alpha", "More of alpha")
    assert [path.relative_to(root).as_posix() for path in (
        more.source, more.notebook, more.twin, more.package, more.tests)] == [
        "src/01_alpha/01_more.py", "modules/01_alpha/more_dev.ipynb", "modules/01_alpha/more_dev.py",
        "tinytorch/core/more.py", "tests/01_more"]


@pytest.mark.parametrize(("text", "label"), [("more", "01_more"), ("01_more", "01_more"), ("1-More", "01_more"),
                                             ("1", "01_alpha"), ("01", "01_alpha"), ("01_alpha", "01_alpha")])
def test_its_names(root, more, text, label):
    """A number alone still means the module."""
    assert find_module(root, text).label == label


def test_an_unknown_name_is_told_of_it(root, more):
    """By its own name."""
    with pytest.raises(ProjectError, match="the modules are 01_alpha, 01_more, 02_beta"):
        find_module(root, "zzz")


def test_a_bonus_without_source_is_read_from_its_notebook(root, more):
    """Where the folder has no sources; a notebook beside a source is somebody's own."""
    shutil.copy(more.notebook, more.notebook.with_name("mine_dev.ipynb"))
    assert [module.label for module in modules(root)] == ["01_alpha", "01_more", "02_beta"]
    more.notebook.with_name("mine_dev.ipynb").unlink()
    shutil.rmtree(more.source.parent)
    assert [module.label for module in modules(root)] == ["01_alpha", "01_more", "02_beta"]
    assert (more.target, more.title) == ("tinytorch.core.more", "More of alpha")
    assert release_notebook(more) == load(more.notebook)
    assert runner.grade(more)["exit_status"] == 0


# ---- the build ----

def test_it_is_built_and_checked(root, more, tito):
    """Alone by its name, with the others without one; what it lacks is a difference, what it leaves an orphan."""
    assert more.package.read_text(encoding="utf-8").split("\n")[1] == '"""Module 01, bonus: More of alpha."""'
    assert json.loads(tito("build", "more", "--json").stdout)["modules"] == ["01_more"]
    assert json.loads(tito("build", "1", "--json").stdout)["modules"] == ["01_alpha"]
    assert tito("build", "--check").stdout == "Modules checked: 3, differences: 0.\n"
    more.twin.unlink()
    assert [one.path for one in check(root).differences] == ["modules/01_alpha/more_dev.py"]
    build(root)
    more.source.unlink()
    assert [one.path for one in check(root).differences] == [
        "tinytorch/core/more.py", "modules/01_alpha/more_dev.ipynb", "modules/01_alpha/more_dev.py"]


def test_it_may_need_its_module_and_not_the_other_way_round(root, more):
    """Data walks through once, inside a folder too; the next module may need both."""
    plant(find_module(root, "beta"), "from tinytorch.core.alpha import double",
          "from tinytorch.core.alpha import double\nfrom tinytorch.core.more import octuple")
    assert faults(root) == []
    plant(find_module(root, "alpha"), "#| export\ndef half",
          "#| export\nfrom tinytorch.core.more import octuple\ndef half")
    assert [one.partition("half: ")[2] for one in faults(root)] == [
        "module 01 imports tinytorch.core.more.octuple, which is or needs module 01's bonus notebook more; only "
        "lower-numbered modules may be imported"]


@pytest.mark.parametrize(("old", "new", "said"), [
    ("import double\n", "import double\nfrom tinytorch.core.beta import fourfold\n",
     "module 01's bonus notebook more imports tinytorch.core.beta.fourfold, which is or needs module 02"),
    ("import double\n", "import double\nfrom tinytorch.core import more\n", "which is or needs itself"),
    ("#| default_exp core.more", "#| default_exp core.alpha", "the file is called more, as in core.more"),
    ('"points": 0, "skill": "fourfold"', '"points": 5, "skill": "fourfold"', "gives 0 points; this one has 5"),
    ('"points": 0, "skill": "fourfold"', '"skill": "fourfold"', "gives 0 points; this one has None"),
    ("\ntest_octuple()", "", "does not call its test")])
def test_planted_in_its_source(root, more, old, new, said):
    """What holds for a module's source holds for this one, except that it gives no points."""
    plant(more, old, new)
    assert any(said in one for one in faults(root)), faults(root)


def test_it_needs_something_to_check(root, more):
    """Without graded cells every notebook would be complete."""
    text = more.source.read_text(encoding="utf-8")
    plant(more, text[text.index("# %% nbgrader"):], "# %%\n#| export\nmore = double\n")
    assert [one for one in faults(root) if "needs graded cells" in one]


@pytest.mark.parametrize("name", ["02_more.py", "more.py", "01_More.py"])
def test_a_file_that_is_no_source_is_named(root, more, name):
    """It would lie there and never be built."""
    more.source.rename(more.source.with_name(name))
    assert [one for one in faults(root) if one.startswith(f"src/01_alpha/{name}: would not be built")]


# ---- what it earns ----

@pytest.mark.parametrize("release", [True, False])
def test_it_gives_no_points_and_tells_right_from_empty(more, release):
    """Every check of the reference passes, none of the empty notebook."""
    nb = (release_notebook if release else solution_notebook)(more)
    result = runner.grade_cells(Submission(more, "notebook", nb, False), 60)
    assert (result["module"], result["bonus"], result["score"], result["max_score"]) == ("01_more", True, 0, 0)
    assert [cell["state"] for cell in result["cells"]] == ["unwritten" if release else "passed"] * 2


def test_untouched_it_earns_nothing_and_the_package_is_tested(more, tito):
    """And both are said."""
    done = tito("test", "more")
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing is written in the notebook of 01_more yet: a bonus without points.\n"
                                  "If you did write in it, save it and test again; `tito module start more` says")
    assert "Package tests: 1 of 1" in done.stdout
    more.package.write_text("def quadruple(x): return 1\n", encoding="utf-8")
    done = tito("test", "more", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["score"], result["max_score"], result["tested"]) == (1, 0, 0, "package")


def test_complete_means_all_checks_and_all_tests(more, tito, write_in, snapshot):
    """The verdict counts checks per skill instead of points; nothing in the checkout changes."""
    write_in(more.notebook, quadruple=RIGHT["quadruple"])
    done = tito("test", "01_more")
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines()[2:5]] == [
        ["fourfold", "1", "/", "1"], ["eightfold", "0", "/", "1"], ["total", "1", "/", "2"]]
    assert "Not complete yet." in done.stdout and "octuple: section 1, cell 3" in done.stdout
    write_in(more.notebook, **RIGHT)
    before = snapshot()
    done = tito("test", "more")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "01 · More of alpha: your notebook (bonus: checked, no points)"
    assert "Edge tests: 1 of 1" in done.stdout and "`tito module complete more`" in done.stdout
    assert snapshot() == before


def test_right_cells_and_a_wrong_edge_are_not_complete(more, write_in):
    """The tests run on what the bonus notebook exports, with the package's module beneath it."""
    write_in(more.notebook, quadruple="return 4 * x if x else 1", octuple="return 8 * x")
    result = runner.grade(more)
    assert {cell["state"] for cell in result["cells"]} == {"passed"}
    assert (result["tests"]["failed"], result["exit_status"]) == (1, 1)


def test_a_wrong_answer_names_its_mistake(more, tito, write_in):
    """As in any notebook."""
    write_in(more.notebook, quadruple="return x * x", octuple="return 8 * x")
    done = tito("test", "more")
    assert done.returncode == 1
    assert "you squared it" in done.stdout


def test_neither_notebook_of_a_folder_answers_for_itself(root, more):
    """What comes after a module may hand its reference on; what comes before may be used."""
    def refused(name: str, line: str) -> list[str]:
        module = find_module(root, name)
        nb = load(module.notebook)
        nb["cells"].insert(2, {"cell_type": "code", "id": "own", "metadata": {}, "source": line})
        result = runner.grade_cells(Submission(module, "notebook", nb, False), 60)
        return [error["message"] for error in result["errors"]]

    assert refused("more", "from tinytorch.core.alpha import double, half") == []
    assert refused("more", "from tinytorch.core.more import quadruple") == [
        "this cell imports tinytorch.core.more, the module it is to write"]
    for later in ("more", "beta"):
        assert refused("alpha", f"from tinytorch.core.{later} import double") == [
            f"this cell imports tinytorch.core.{later}.double, which comes after the module it is to write"]


# ---- the other commands ----

def test_export(root, more, tito, write_in):
    """Into its own file; the module's stays as it is."""
    alpha = find_module(root, "alpha").package.read_bytes()
    done = tito("export", "more")
    assert (done.returncode, "notebook of 01_more" in done.stdout) == (1, True)
    write_in(more.notebook, **RIGHT)
    assert tito("export", "more").returncode == 0
    text = more.package.read_text(encoding="utf-8")
    assert "return 4 * x" in text and "modules/01_alpha/more_dev.ipynb" in text.splitlines()[0]
    assert find_module(root, "alpha").package.read_bytes() == alpha
    assert (read(more).untouched, tito("test", "more").returncode) == (False, 0)


def test_the_list_shows_it_under_its_module(more, tito):
    """Marked as a bonus; JSON says the same."""
    lines = tito("module", "list").stdout.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["01", "alpha", "100", "not", "begun"], ["01", "more", "bonus", "not", "begun"],
        ["02", "beta", "100", "not", "begun"]]
    rows = json.loads(tito("module", "list", "--json").stdout)["modules"]
    assert [(row["name"], row["bonus"], row["points"]) for row in rows] == [
        ("alpha", False, 100), ("more", True, 0), ("beta", False, 100)]
    done = tito("module", "status", "more")
    assert done.stdout.splitlines()[1].split()[-3:] == ["bonus", "untouched", "reference"]


def test_running_its_twin_runs_its_checks(root, more):
    """Beside the module's twin, which it does not need: it imports the package."""
    import os
    import subprocess

    from tito.notebooks.twin import write_twin

    more.twin.write_text(write_twin(solution_notebook(more)), encoding="utf-8")
    here = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-X", "utf8", "more_dev.py"], cwd=more.twin.parent, capture_output=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(here)])}, check=False)
    assert done.stdout.decode() == "✓ quadruple(3): 12\n✓ octuple(3): 24\n", done.stderr
