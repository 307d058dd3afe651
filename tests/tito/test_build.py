"""From source to notebook, twin and package, on a small checkout of two modules."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tito.errors import NotebookError, ProjectError
from tito.notebooks.book import inside_strings, open_book
from tito.notebooks.build import build, check, make, sources
from tito.notebooks.export import export_notebook, export_text, is_edited, is_generated, write_atomically
from tito.notebooks.read import dumps, load, new_notebook, read_source
from tito.notebooks.release import (
    content_hash,
    cut_solutions,
    is_untouched,
    marked_notebook,
    release_notebook,
    solution_notebook,
)
from tito.notebooks.twin import read_twin, unwrap, wrap, write_twin
from tito.project import find_module, find_root, modules
from tito.standing import stubs

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(root: Path) -> Path:
    """The small checkout with settings that `build --check` has nothing against."""
    (root / "pyproject.toml").write_text(
        '[project]\nname = "tinytorch"\n[tool.nbdev]\nallowed_cell_metadata_keys = ["nbgrader", "tinytorch"]\n'
        'allowed_metadata_keys = ["tinytorch"]\n', encoding="utf-8")
    return root


def cell(nb, name):
    """Return the cell with this id."""
    return next(one for one in nb["cells"] if one["id"] == name)


def solve(path: Path, name: str, old: str, new: str) -> None:
    """Write into a notebook as a learner does."""
    nb = load(path)
    found = cell(nb, name)
    assert old in found["source"]
    found["source"] = found["source"].replace(old, new)
    path.write_text(dumps(nb), encoding="utf-8")


# ---------------------------------------------------------------- the project


def test_the_root_is_found_from_any_folder_inside(root):
    """Upwards, to the pyproject that names tinytorch beside a src folder."""
    assert find_root(root / "src" / "01_alpha") == root.resolve()
    with pytest.raises(ProjectError, match="No TinyTorch checkout here"):
        find_root(root.parent)


@pytest.mark.parametrize("text", ["alpha", "ALPHA", "1", "01", "01_alpha", "alphas", "01_alpha/"])
def test_modules_have_many_names(text, root):
    """Name, number, folder, singular and plural."""
    assert find_module(root, text).folder == "01_alpha"


def test_an_unknown_module_names_close_ones(root):
    """And a number of one module with the name of another is unknown."""
    with pytest.raises(ProjectError, match="no module 'alfa': did you mean alpha"):
        find_module(root, "alfa")
    with pytest.raises(ProjectError, match="no module '02_alpha'"):
        find_module(root, "02_alpha")
    with pytest.raises(ProjectError, match="the modules are 01_alpha, 02_beta"):
        find_module(root, "zzz")


def test_a_module_is_read_from_its_notebook_where_there_is_no_source(root):
    """Target and title then come from the notebook."""
    (root / "src/02_beta/02_beta.py").unlink()
    beta = find_module(root, "beta")
    assert [module.folder for module in modules(root)] == ["01_alpha", "02_beta"]
    assert (beta.target, beta.title, beta.package) == ("tinytorch.core.beta", "Beta", root / "tinytorch/core/beta.py")
    assert release_notebook(beta) == load(beta.notebook)


# ---------------------------------------------------------------- the notebook


def test_ids_and_metadata(alpha):
    """Ids come from grade_id or position; nbgrader's metadata is whole; the skill stands apart."""
    nb = read_source(alpha)
    assert [one["id"] for one in nb["cells"]] == ["alpha-001", "alpha-002", "alpha-003", "double", "alpha-005",
                                                  "double-check", "alpha-007", "half", "half-check"]
    assert cell(nb, "half-check")["metadata"] == {
        "nbgrader": {"schema_version": 3, "cell_type": "code", "grade": True, "grade_id": "half-check", "locked": True,
                     "points": 40, "solution": False, "task": False},
        "tinytorch": {"skill": "halving"}}
    assert cell(nb, "half")["metadata"]["nbgrader"]["locked"] is False


def test_the_notebook_is_valid_and_laid_out_as_jupyter_does(alpha):
    """Opening and saving it changes nothing."""
    nbformat = pytest.importorskip("nbformat")
    text = alpha.notebook.read_text(encoding="utf-8")
    nb = nbformat.reads(text, 4)
    nbformat.validate(nb)
    assert nbformat.writes(nb) + "\n" == text


def test_nbgrader_accepts_the_metadata(alpha):
    """Its own validator reads the notebook."""
    validator = pytest.importorskip("nbgrader.nbgraderformat")
    with alpha.notebook.open(encoding="utf-8") as file:
        validator.read(file, as_version=4)


def test_stubs_are_named(root, alpha):
    """Function or Class.method, the section, the how-manieth code cell in it; the rest stays."""
    assert cell(release_notebook(alpha), "half")["source"] == (
        '#| export\ndef half(x):\n    """Return half of ``x``."""\n'
        '    raise NotImplementedError("half: section 2, cell 1")')
    fourfold = cell(release_notebook(find_module(root, "beta")), "fourfold")["source"]
    assert 'raise NotImplementedError("Fourfold.forward: section 1, cell 1")' in fourfold


@pytest.mark.parametrize("text, name", [("def f(x):\n    {}", "f"), ("class A:\n    def g(self):\n        {}", "A.g"),
                                        ("{}", "a-guess")], ids=["function", "method", "no function"])
def test_every_stub_is_known_as_one(alpha, text, name):
    """Whoever looks for unwritten parts finds what is written here, also the name of a cell with hyphens in it."""
    region = "### BEGIN SOLUTION\n{0}1 + 1\n{0}### END SOLUTION"
    depth = len(text.partition("{}")[0].rpartition("\n")[2])
    nb = new_notebook([{"cell_type": "code", "id": "x", "metadata": {"nbgrader": {
        "grade_id": "a-guess", "solution": True}}, "source": text.format(region.format(" " * depth))}], {})
    nb["cells"][0]["source"] = cut_solutions(open_book(nb, alpha, "here").cells[0])
    assert stubs(nb) == [f"{name}: section 0, cell 1"]


def test_several_regions_in_a_cell(alpha):
    """Each becomes a stub at its own depth; what stands between them stays."""
    text = ("def f(x):\n    y = x + 1\n    ### BEGIN SOLUTION\n    y = 2\n    ### END SOLUTION\n\n\n"
            "class A:\n    def g(self):\n        if True:\n            ### BEGIN SOLUTION\n            # why\n"
            "            return 1\n            ### END SOLUTION\n        return 0")
    nb = new_notebook([{"cell_type": "code", "id": "x", "metadata": {"nbgrader": {"grade_id": "x", "solution": True}},
                        "source": text}], {})
    assert cut_solutions(open_book(nb, alpha, "here").cells[0]) == (
        'def f(x):\n    y = x + 1\n    raise NotImplementedError("f: section 0, cell 1")\n\n\n'
        'class A:\n    def g(self):\n        if True:\n            '
        'raise NotImplementedError("A.g: section 0, cell 1")\n        return 0')


def test_the_three_notebooks(alpha):
    """The learner's has stubs, the teacher's markers, the solved one neither."""
    learner, teacher, solved = (dumps(make_it(alpha)) for make_it in (
        release_notebook, marked_notebook, solution_notebook))
    assert "return x / 2" not in learner and "SOLUTION" not in learner
    assert "### BEGIN SOLUTION" in teacher and "return x / 2" in teacher
    assert "SOLUTION" not in solved and "return x / 2" in solved and "NotImplementedError" not in solved


def test_touched_means_that_a_cell_changed(alpha):
    """Outputs, execution counts and ids are no work; a letter in a cell is."""
    nb = load(alpha.notebook)
    assert is_untouched(nb)
    nb["cells"][4] |= {"execution_count": 3, "outputs": [{"output_type": "stream", "name": "stdout", "text": "6"}]}
    nb["cells"][4]["id"] = "other"
    assert is_untouched(nb)
    nb["cells"][4]["source"] += "#"
    assert not is_untouched(nb)
    del nb["metadata"]["tinytorch"]
    assert not is_untouched(nb)


# ---------------------------------------------------------------- the twin

AWKWARD = ['', 'x = """a\n    b\nc"""', "# only a comment", "for i in range(2):\n\n    print(i)\n\n\nprint(0)",
           "%matplotlib inline\nx = 1", "!ls", "x = (1 +", "print(f'{1}')\ny = 'a' \\\n    'b'", "#| hide\nx = 1",
           'if __name__ == "__main__":\n    x = 1', "#| export\ndef f():\n    return 1", "def g():\n\treturn 1"]
TEXTS = ["plain", "# %% like a cell", 'ends in "', "```\n# x\n```", "two\n\nparts", r"$\frac{1}{2}$ \N",
         'with """ quotes']


def test_notebook_to_twin_and_back_is_lossless():
    """Strings over several lines, magics, broken code, mathematics; and the metadata."""
    made = [{"cell_type": "code", "source": text, "metadata": {}, "execution_count": None, "outputs": []}
            for text in AWKWARD]
    made += [{"cell_type": "markdown", "source": text, "metadata": {"tags": ["a", "b c"]}} for text in TEXTS]
    made += [{"cell_type": "raw", "source": "raw\n\ntext", "metadata": {}}]
    made[0]["metadata"] = {"nbgrader": {"grade": True, "points": 1.5, "grade_id": "ü"}, "jp-hidden": True,
                           "deep": {"a": [1]}}
    for number, one in enumerate(made, 1):
        one["id"] = "ü" if number == 1 else f"some-{number:03d}"
    nb = new_notebook(made, {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                             "language_info": {"name": "python", "version": "3.10.1"},
                             "tinytorch": {"module": "01_some", "release": "0123456789012345"}})
    back = read_twin(write_twin(nb), "some")
    for mine, theirs in zip(nb["cells"], back["cells"], strict=True):
        assert mine == theirs
    assert nb == back
    assert content_hash(nb) == content_hash(back)


@pytest.mark.parametrize("text", AWKWARD)
def test_a_wrapped_cell_still_parses(text):
    """What was Python under the guard is Python, with the same values."""
    try:
        ast.parse(text)
    except SyntaxError:
        return
    wrapped = wrap(text)
    assert unwrap(wrapped) == text
    body = ast.parse(wrapped).body[0].body  # type: ignore[attr-defined]
    assert [ast.dump(node) for node in body if not isinstance(node, ast.Pass)] == [
        ast.dump(node) for node in ast.parse(text).body]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run Python with the small checkout and tito on its path."""
    return subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, encoding="utf-8",
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(cwd), str(HERE)])}, timeout=60,
                          check=False)


def test_importing_a_twin_runs_nothing_and_running_it_runs_all(alpha, root):
    """An import prints nothing, even full of stubs; a run stops at the first stub, or passes every test."""
    where = alpha.twin.parent
    imported = run("-c", "import alpha_dev; print(sorted(n for n in vars(alpha_dev) if n[0] != '_'))", cwd=where)
    assert imported.stdout == "['double', 'half']\n", imported.stderr
    stopped = run("alpha_dev.py", cwd=where)
    assert stopped.returncode == 1 and "double: section 1, cell 1" in stopped.stderr
    alpha.twin.write_text(write_twin(solution_notebook(alpha)), encoding="utf-8")
    passed = run("-X", "utf8", "alpha_dev.py", cwd=where)
    assert passed.stdout == "twice 3 is 6\n✓ double(21): 42\n✓ half(5): 2.5\n", passed.stderr


# ---------------------------------------------------------------- the package


def test_the_package_file(alpha):
    """Header, docstring, ``__all__``, the exported cells without scaffolding; nothing of nbdev's notes."""
    text = alpha.package.read_text(encoding="utf-8")
    header, body = text.split("\n", 1)
    assert header.startswith("# AUTOGENERATED! DO NOT EDIT! File to edit: src/01_alpha/01_alpha.py [")
    assert body == ('"""Module 01: Alpha."""\n\n__all__ = ["double", "half"]\n\n\n'
                    'def double(x):\n    """Return twice ``x``."""\n    return 2 * x\n\n\n'
                    'def half(x):\n    """Return half of ``x``."""\n    return x / 2\n')
    assert is_generated(text) and not is_edited(text)
    assert is_edited(text.replace("2 * x", "x + x"))


def test_docstring_and_future_import(alpha):
    """The first exported cell's docstring goes on top, a future import under it; imports stay absolute."""
    def code(source):
        return {"cell_type": "code", "id": "x", "metadata": {}, "outputs": [], "source": source}

    nb = new_notebook([code("#| default_exp core.alpha"),
                       code('#| export\n"""What it is.\n\nMore.\n"""\n\nfrom __future__ import annotations\n\n'
                            "import math"),
                       code("#| export\nfrom tinytorch.core.tensor import (\n    Tensor,\n    op,\n)"),
                       code("#| export\nLIMIT = 3\n_hidden = 4"), code("#| export\n@op\nclass A:\n    pass"),
                       code("#| exporti\ndef inner(): return '### BEGIN SOLUTION'")], {})
    body = export_text(nb, alpha).split("\n", 1)[1]
    assert body == ('"""What it is.\n\nMore.\n"""\n\nfrom __future__ import annotations\n\nimport math\n\n'
                    '__all__ = ["LIMIT", "A"]\n\n'
                    "from tinytorch.core.tensor import (\n    Tensor,\n    op,\n)\n\nLIMIT = 3\n_hidden = 4\n\n\n"
                    "@op\nclass A:\n    pass\n\n\ndef inner(): return '### BEGIN SOLUTION'\n")


def test_export_of_a_learners_notebook(root, alpha):
    """What she wrote is exported; a failing export leaves the file as it was."""
    solve(alpha.notebook, "half", 'raise NotImplementedError("half: section 2, cell 1")', "return x * 0.5  # mine")
    out = root / "somewhere" / "alpha.py"
    export_notebook(load(alpha.notebook), alpha, out)
    text = out.read_text(encoding="utf-8")
    assert "return x * 0.5  # mine" in text and 'raise NotImplementedError("double: section 1, cell 1")' in text
    assert "File to edit: modules/01_alpha/alpha_dev.ipynb [" in text
    solve(alpha.notebook, "half", "# mine", "+ (")
    with pytest.raises(NotebookError, match="modules/01_alpha/alpha_dev.ipynb, half: this cell is not Python"):
        export_notebook(load(alpha.notebook), alpha, out)
    assert out.read_text(encoding="utf-8") == text
    assert [path.name for path in out.parent.iterdir()] == ["alpha.py"]


def test_a_file_is_replaced_in_one_step(tmp_path, monkeypatch):
    """If the move fails the old file stands, and no temporary one is left."""
    file = tmp_path / "a.txt"
    file.write_text("old", encoding="utf-8")
    monkeypatch.setattr("tito.notebooks.export.os.replace", lambda *names: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_atomically(file, "new")
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("text", ["", "no notebook", "[]", '{"cells": 3}', '{"cells": [{}]}', "\ufeff{}"])
def test_a_broken_notebook_is_one_sentence(text, root, alpha):
    """Half a file, another file, an empty file: the notebook is named, and kept by the build."""
    alpha.notebook.write_text(text, encoding="utf-8")
    with pytest.raises(NotebookError, match="this is not a notebook that can be read"):
        export_notebook(load(alpha.notebook), alpha, root / "mine.py")
    assert build(root).kept == ["modules/01_alpha/alpha_dev.ipynb"]
    assert alpha.notebook.read_text(encoding="utf-8") == text


# ---------------------------------------------------------------- the build


def test_two_builds_are_equal(checkout):
    """The second writes nothing, and the check finds nothing."""
    assert build(checkout).written == []
    result = check(checkout)
    assert (result.differences, result.modules) == ([], ["01_alpha", "02_beta"])
    assert make(checkout, sources(checkout)) == make(checkout, sources(checkout))


def test_a_changed_source_is_a_difference_until_it_is_built(checkout):
    """Notebook, twin and package file are named; a build of another module leaves them so."""
    source = checkout / "src/01_alpha/01_alpha.py"
    source.write_text(source.read_text(encoding="utf-8").replace("Return half", "Give half"), encoding="utf-8")
    changed = ["tinytorch/core/alpha.py", "modules/01_alpha/alpha_dev.ipynb", "modules/01_alpha/alpha_dev.py"]
    assert [one.path for one in check(checkout).differences] == changed
    assert build(checkout, ["beta"]).written == []
    assert build(checkout, ["alpha"]).written == changed
    assert check(checkout).differences == []


@pytest.mark.parametrize("name", ["tinytorch/core/alpha.py", "modules/01_alpha/alpha_dev.ipynb",
                                  "modules/01_alpha/alpha_dev.py"])
def test_a_missing_product_is_a_difference(name, checkout):
    """It is named by the check, and made by the build."""
    (checkout / name).unlink()
    assert [one.path for one in check(checkout).differences] == [name]
    assert build(checkout).written == [name]


def test_work_is_kept(checkout, alpha):
    """The build never overwrites a notebook somebody wrote in; the check says that it is no release."""
    solve(alpha.notebook, "half", "raise NotImplementedError", "return x / 2  #")
    work = alpha.notebook.read_bytes()
    assert build(checkout).kept == ["modules/01_alpha/alpha_dev.ipynb"]
    assert [str(one) for one in check(checkout).differences] == [
        "modules/01_alpha/alpha_dev.ipynb: holds a learner's work, not the release"]
    source = checkout / "src/01_alpha/01_alpha.py"
    source.write_text(source.read_text(encoding="utf-8").replace("Return half", "Give half"), encoding="utf-8")
    assert build(checkout).kept == ["modules/01_alpha/alpha_dev.ipynb"]
    assert alpha.notebook.read_bytes() == work
    assert [str(one) for one in check(checkout).differences] == [
        "modules/01_alpha/alpha_dev.ipynb: holds a learner's work on another release than the source makes"]


def test_work_in_the_twin_is_kept(checkout, alpha):
    """The twin is a desk as well."""
    text = alpha.twin.read_text(encoding="utf-8").replace('raise NotImplementedError("half', 'return x / 2  # ("half')
    alpha.twin.write_text(text, encoding="utf-8")
    assert build(checkout).kept == ["modules/01_alpha/alpha_dev.py"]
    assert [one.path for one in check(checkout).differences] == ["modules/01_alpha/alpha_dev.py"]
    assert alpha.twin.read_text(encoding="utf-8") == text


def test_metadata_changed_by_hand_is_a_difference(checkout, alpha):
    """Other points in the notebook are no learner's work."""
    text = alpha.notebook.read_text(encoding="utf-8")
    alpha.notebook.write_text(text.replace('"points": 60', '"points": 99'), encoding="utf-8")
    assert [one.path for one in check(checkout).differences] == ["modules/01_alpha/alpha_dev.ipynb"]
    build(checkout)
    assert alpha.notebook.read_text(encoding="utf-8") == text


def test_the_command(checkout, tito):
    """0 built, 1 differences, 2 cannot be built; text for people, JSON for machines."""
    done = tito("build", "--check")
    assert (done.returncode, done.stdout) == (0, "Modules checked: 2, differences: 0.\n"), done.stderr
    (checkout / "tinytorch/core/beta.py").unlink()
    done = tito("build", "--check", "--json", cwd=checkout / "src" / "01_alpha")
    assert done.returncode == 1
    assert json.loads(done.stdout)["differences"] == [
        {"path": "tinytorch/core/beta.py", "sentence": "is missing; run `tito build`"}]
    done = tito("build", "2")
    assert (done.returncode, done.stdout.splitlines()) == (
        0, ["✓ tinytorch/core/beta.py", "Modules built: 1, files written: 1, as they were: 2, kept: 0."])
    source = checkout / "src/01_alpha/01_alpha.py"
    source.write_text(source.read_text(encoding="utf-8").replace("return x / 2", "return x /"), encoding="utf-8")
    done = tito("build", "--json")
    assert done.returncode == 2
    assert done.stderr == "tito: src/01_alpha/01_alpha.py:48, half: this cell is not Python: invalid syntax\n"
    assert [fault["line"] for fault in json.loads(done.stdout)["faults"]] == [48]
    assert tito("build", "gamma").returncode == 2


@pytest.mark.parametrize(("source", "inner"), [
    ('a = "x"\nb = "y"', set()), ('a = """x\ny"""', {2}), ("a = '''x\n\ny'''", {2, 3}), ('a = "x\\\ny"', {2}),
    ("a = f'{1}'\nb = {f'{2}': 1}", set()), ('a = rb"""x\ny"""\nb = 1', {2})])
def test_lines_that_begin_inside_a_string(source, inner):
    assert inside_strings(source) == inner


@pytest.mark.skipif(sys.version_info < (3, 12), reason="an f-string may go on in its braces since Python 3.12")
def test_an_f_string_that_goes_on_in_its_braces():
    assert inside_strings("a = f'{\n1}'\nb = 2") == {2}
