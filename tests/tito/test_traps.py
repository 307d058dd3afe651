"""Each way to lose or give away something without a word, planted once: the build must say so."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tito.errors import NotebookError
from tito.notebooks import checks
from tito.notebooks.book import open_book
from tito.notebooks.build import BuildError, build, check, make, sources
from tito.notebooks.export import export_notebook
from tito.notebooks.read import load, read_source
from tito.project import Module, find_module, target_owners

KEEP = 'allowed_cell_metadata_keys = ["nbgrader", "tinytorch"]\nallowed_metadata_keys = ["tinytorch"]\n'
CALL = '2: "whole-number division"})\ntest_half()'
CHECK_HALF = 'check("half(5)", half(5), 2.5, {2: "whole-number division"})'
DEMO, HALF = "# %%\nprint(", "#| export\ndef half"
BEGIN, BODY, END = "    ### BEGIN SOLUTION\n", "    return x / 2", "\n    ### END SOLUTION"


def source_of(root: Path, folder: str) -> Path:
    """Where a module is written."""
    return root / "src" / folder / f"{folder}.py"


def plant(root: Path, old: str, new: str, folder: str = "01_alpha") -> None:
    """Put a fault into a source."""
    file = source_of(root, folder)
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def faults(root: Path) -> list[str]:
    """What the build says about the sources."""
    try:
        make(root, sources(root))
    except BuildError as error:
        return [str(fault) for fault in error.faults]
    return []


PLANTED = {
    "syntax error": ("return x / 2", "return x /", "01_alpha.py:48, half: this cell is not Python"),
    "export not first": (HALF, "\nimport math\n#| export\ndef half", "must be the first line"),
    "export without a space": (HALF, "#|export\ndef half", "'#|export' is no directive"),
    "export misspelled": (HALF, "# | exprot\ndef half", "write `#| export`"),
    "export as a comment": (HALF, "#export\ndef half", "is a plain comment"),
    "export in a text cell": ("## 2. Half", "#| export\nHalf", "stands in a text cell"),
    "export elsewhere": (HALF, "#| export core.beta\ndef half", "names a file to export to"),
    "no default_exp": ("#| default_exp core.alpha", "import math", "no cell says where to export"),
    "default_exp late": ("# %%\n#| default_exp", "# %%\nimport math\n\n# %%\n#| default_exp", "the first code cell"),
    "default_exp twice": (DEMO, "# %%\n#| default_exp core.alpha\n\n# %%\nprint(", "a second `#| default_exp`"),
    "default_exp of another name": ("core.alpha", "core.alpa", "does not match 01_alpha"),
    "default_exp that is no name": ("core.alpha", "core/alpha", "is no module name"),
    "star import": (DEMO, "# %%\nfrom math import *\nprint(", "name what is imported"),
    "tito exported": (HALF, "#| export\nfrom tito.checks import check\ndef half", "the course tool"),
    "import forward": (HALF, "#| export\nfrom tinytorch.core.beta import Fourfold\ndef half",
                       "is or needs module 02"),
    "import of itself": (DEMO, "# %%\nfrom tinytorch.core.alpha import double\nprint(", "is or needs itself"),
    "hidden import": (BODY, "    import tinytorch.core.beta as b\n    return x / 2", "module 02"),
    "markers in a given cell": ('"grade_id": "half", "solution": true', '"grade_id": "half", "solution": false',
                                "its solution would be handed out"),
    "no markers": ("    ### BEGIN SOLUTION\n    return x / 2\n    ### END SOLUTION", BODY,
                   "would be replaced whole"),
    "unclosed marker": (BODY + END, BODY, "has no END SOLUTION"),
    "unopened marker": (BEGIN + BODY, BODY, "without a BEGIN SOLUTION"),
    "nested markers": (BODY, BEGIN + BODY, "a second BEGIN SOLUTION"),
    "misspelled marker": (BEGIN + BODY, "    # BEGIN SOLUTION\n    return x / 2",
                          "is not a marker"),
    "empty solution": (BODY + END, END[1:] + "\n" + BODY, "no code between"),
    "solution at top level": (HALF,
                              "#| export\n### BEGIN SOLUTION\nMOST = 1\n### END SOLUTION\ndef half",
                              "stands outside of a function"),
    "stub called on import": (DEMO, "# %%\n#| export\nFOUR = double(2)\n\n# %%\nprint(", "double is called while"),
    "stub as a decorator": (DEMO, "# %%\n#| export\n@double\ndef f():\n    pass\n\n# %%\nprint(",
                            "double is called while"),
    "stub that is not Python": (BEGIN + BODY, "    if x:\n" + BEGIN + "    " + BODY,
                                "with its solution cut out"),
    "duplicate grade_id": ('"grade_id": "half-check"', '"grade_id": "double-check"', "has the grade_id 'double-check'"),
    "bad grade_id": ('"grade_id": "half-check"', '"grade_id": "half check"', "grade_id should be"),
    "points not 100": ('"points": 40', '"points": 41', "add up to 101, not 100"),
    "points of nothing": ('"points": 40', '"points": 0', "a whole number above 0"),
    "points without a grade": ('"grade_id": "half", "solution"', '"grade_id": "half", "points": 3, "solution"',
                               "not graded has points"),
    "no skill": (', "skill": "halving"', "", "names the skill"),
    "unknown key": ('"skill": "halving"', '"skill": "halving", "Points": 2', "knows no key 'Points'"),
    "metadata that is not JSON": (
        'nbgrader={"grade": false, "grade_id": "half"', "nbgrader={'grade': False", "is not JSON"),
    "graded and solved": ('"grade": false, "grade_id": "half", "solution": true',
                          '"grade": true, "grade_id": "half", "points": 1, "skill": "s", "solution": true', "not both"),
    "graded text": ("# %% [markdown]\n\"\"\"\n## 2", '# %% [markdown] nbgrader={"grade": true, "grade_id": "t", '
                    '"points": 1, "skill": "s", "solution": false}\n"""\n## 2', "a text cell cannot"),
    "test never called": (CALL, CALL.replace("\ntest_half()", ""), "does not call its test"),
    "test called among others": (CALL, CALL + "\nprint('done')", "its last line should be test_half()"),
    "no test at all": ("def test_half():", "def half_is_right():", "defines a function test_"),
    "ends in a value": (CALL, CALL.replace("test_half()", "half(8)"), "would take for points"),
    "test returns a value": (CHECK_HALF, CHECK_HALF + "\n    return 4", "returns a value"),
    "test is a generator": (CHECK_HALF, CHECK_HALF + "\n    yield", "runs nothing"),
    "test is async": ("def test_half", "async def test_half", "is async"),
    "test checks nothing": (CHECK_HALF, "half(5)", "checks nothing"),
    "exceptions swallowed": (CHECK_HALF, "try:\n        " + CHECK_HALF + "\n    except Exception:\n        print('no')",
                             "may swallow the failure"),
    "exceptions suppressed": (CHECK_HALF,
                              "import contextlib\n    with contextlib.suppress(Exception):\n        " + CHECK_HALF,
                              "gives its points away"),
    "exceptions suppressed under another name": (
        CHECK_HALF, "from contextlib import suppress as s\n    with s(Exception):\n        " + CHECK_HALF,
        "gives its points away"),
    "exceptions expected": (CHECK_HALF,
                            "import pytest\n    with pytest.raises(Exception):\n        " + CHECK_HALF,
                            "use check_raises"),
    "test returns early": (CHECK_HALF, "if half(2):\n        return\n    " + CHECK_HALF, "before its checks are over"),
    "test replaced": (CALL, CALL.replace("\ntest_half()", "\ntest_half = lambda: None\ntest_half()"),
                      "test_half is bound to something else"),
    "test defined twice": (CALL, CALL.replace("\ntest_half()", "\ndef test_half():\n    check('x', 1, 1)\ntest_half()"),
                           "test_half is bound to something else"),
    "test decorated": ("def test_half", "@staticmethod\ndef test_half", "has a decorator"),
    "check replaced": (CHECK_HALF, "check = print\n    " + CHECK_HALF, "check is bound to something else"),
    "check replaced in a demo": (DEMO, "# %%\ndef check(*all):\n    return None\n\n# %%\nprint(",
                                 "check is bound to something else"),
    "check from elsewhere": ("from tito.checks import check\ndef test_half",
                             "from unittest.mock import Mock as check\ndef test_half", "check is bound to something"),
    "marker in a string": (BODY, '    text = """\n# YOUR CODE HERE\n"""\n    return x / 2', "of a string would be cut"),
    "stderr": (CHECK_HALF, CHECK_HALF + "\n    import sys\n    print(1, file=sys.stderr)", "0 points for it"),
    "warning": (CHECK_HALF, CHECK_HALF + "\n    import warnings\n    warnings.warn('x')", "0 points for it"),
    "graded and exported": ("from tito.checks import check\ndef test_half", "#| export\ndef test_half",
                            "tests do not belong"),
    "test in a demo": (DEMO, "# %%\ndef test_it():\n    assert double(1) == 2\nprint(", "that is not graded"),
    "long string in a demo": (DEMO, '# %%\nprint("""a\nb""")\nprint(', "a string over several lines"),
    "guard in a demo": (DEMO, '# %%\nif __name__ == "__main__":\n    print(1)\n\n# %%\nprint(', "written by the build"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_planted_in_a_source(planted, root):
    """The fault is found, named with its file, and nothing is written."""
    old, new, sentence = PLANTED[planted]
    before = (root / "tinytorch/core/alpha.py").read_bytes()
    plant(root, old, new)
    said = faults(root)
    assert any(sentence in one for one in said), said
    assert all("src/01_alpha/01_alpha.py" in one for one in said)
    with pytest.raises(NotebookError):
        build(root)
    assert (root / "tinytorch/core/alpha.py").read_bytes() == before


def test_nothing_planted(root):
    """The untouched sources have no fault."""
    assert faults(root) == []


def test_a_hand_written_file_hides_no_import(root):
    """Importing a hand-written file counts as importing what it imports."""
    (root / "tinytorch/zoo.py").write_text('"""Models."""\nfrom tinytorch.core import beta\n', encoding="utf-8")
    plant(root, "#| export\ndef half", "#| export\nfrom tinytorch.zoo import beta\ndef half")
    assert any("imports tinytorch.zoo.beta, which is or needs module 02" in one for one in faults(root))


def test_two_files_export_to_one_target(root):
    """The second owner is refused."""
    plant(root, "#| default_exp core.beta", "#| default_exp core.alpha", "02_beta")
    assert any("exports to tinytorch.core.alpha, as src/01_alpha/01_alpha.py does" in one for one in faults(root))


def test_random_cell_ids_and_missing_schema(root, alpha):
    """What jupytext and older nbgraders leave behind is found in a notebook."""
    nb = copy.deepcopy(read_source(alpha))
    assert checks.find_faults(open_book(nb, alpha, owners=target_owners(root))) == []
    nb["cells"][1]["id"] = "4f2a99c1"
    solution = next(cell for cell in nb["cells"] if "nbgrader" in cell["metadata"])
    del solution["metadata"]["nbgrader"]["schema_version"]
    said = [str(fault) for fault in checks.find_faults(open_book(nb, alpha, owners=target_owners(root)))]
    assert len(said) == 2
    assert any("the cell's id is '4f2a99c1'" in one for one in said)
    assert any("schema_version should be 3" in one for one in said)


@pytest.mark.parametrize(("setting", "found"), [
    ("", "it is None"), ('allowed_cell_metadata_keys = "nbgrader"\n', "it is 'nbgrader'"),
    ("allowed_cell_metadata_keys = []\n", "it is []")])
def test_nbdev_would_clean_the_metadata_away(setting, found, root):
    """The setting must be there, and be a list."""
    (root / "pyproject.toml").write_text(f'[project]\nname = "tinytorch"\n[tool.nbdev]\n{setting}', encoding="utf-8")
    said = [str(difference) for difference in check(root).differences]
    assert any("allowed_cell_metadata_keys should be a list" in one and found in one for one in said), said


def keep_metadata(root: Path) -> None:
    """Give the small checkout the settings it needs."""
    (root / "pyproject.toml").write_text(f'[project]\nname = "tinytorch"\n[tool.nbdev]\n{KEEP}', encoding="utf-8")


def test_an_edit_in_the_package_is_not_lost(root):
    """The check names the file to edit, and the build refuses to overwrite the edit."""
    keep_metadata(root)
    file = root / "tinytorch/core/alpha.py"
    file.write_text(file.read_text(encoding="utf-8").replace("x / 2", "x * 0.5"), encoding="utf-8")
    assert [str(one) for one in check(root).differences] == [
        "tinytorch/core/alpha.py: was edited by hand; the file to edit is src/01_alpha/01_alpha.py"]
    with pytest.raises(NotebookError, match="edited by hand; move the change to src/01_alpha/01_alpha.py"):
        build(root)
    assert "x * 0.5" in file.read_text(encoding="utf-8")


def test_a_file_written_by_hand_is_not_overwritten(root):
    """A source that exports onto somebody's own file is refused."""
    file = root / "tinytorch/core/beta.py"
    file.write_text('"""Mine."""\n', encoding="utf-8")
    with pytest.raises(NotebookError, match="written by hand"):
        build(root)
    assert file.read_text(encoding="utf-8") == '"""Mine."""\n'
    assert any("is written by hand" in one.sentence for one in check(root).differences)


def test_a_deleted_source_leaves_orphans(root):
    """Its package file, notebook and twin are named; the build deletes nothing."""
    keep_metadata(root)
    source_of(root, "02_beta").unlink()
    orphans = ["tinytorch/core/beta.py", "modules/02_beta/beta_dev.ipynb", "modules/02_beta/beta_dev.py"]
    assert [one.path for one in check(root).differences] == orphans
    assert build(root).orphans == orphans
    assert all((root / path).is_file() for path in orphans)


LEARNER = {
    "broken cell": ("return", "retrn x +", "not Python"),
    "directive damaged": ("#| export", "#| exprt", "is no directive"),
    "directive moved": ("#| export", "# mine\n#| export", "must be the first line"),
    "exported elsewhere": ("#| export", "#| export core.beta", "names a file"),
    "solution marker in a string": ("return", 'return """\n### BEGIN SOLUTION\n"""', "of a string would be cut"),
    "placeholder in a string": ("return", 'return """\n  # YOUR CODE HERE\n"""', "of a string would be cut"),
    "new cell in a string": ("return", 'return """\n# %% more\n"""', "would begin a new cell"),
}


@pytest.mark.parametrize("planted", LEARNER)
def test_planted_in_a_learners_notebook(planted, root, alpha):
    """A worked-in notebook that would be exported in part is not exported, and the cell is named."""
    old, new, sentence = LEARNER[planted]
    nb = load(alpha.notebook)
    cell = next(cell for cell in nb["cells"] if cell["id"] == "half")
    cell["source"] = cell["source"].replace("raise NotImplementedError", "return", 1).replace(old, new, 1)
    package = root / "mine.py"
    package.write_text("as it was", encoding="utf-8")
    with pytest.raises(NotebookError, match="half: .*" + sentence):
        export_notebook(nb, alpha, package)
    assert package.read_text(encoding="utf-8") == "as it was"


def test_a_learners_default_exp_is_lost(root, alpha):
    """Without it nbdev would export nothing; with another one, elsewhere."""
    nb = load(alpha.notebook)
    nb["cells"][1]["source"] = ""
    with pytest.raises(NotebookError, match="no cell says where to export"):
        export_notebook(nb, alpha, root / "mine.py")
    nb["cells"][1]["source"] = "#| default_exp perf.alpha"
    with pytest.raises(NotebookError, match="should be core.alpha"):
        export_notebook(nb, alpha, root / "mine.py")


def test_every_check_is_on_the_list():
    """The lists hold functions that say what they check."""
    assert len(checks.CHECKS) == len(set(checks.CHECKS)) >= 20
    assert all(one.__doc__ for one in checks.CHECKS + checks.LEARNER_CHECKS)
    assert isinstance(find_module.__doc__, str) and Module.__doc__
