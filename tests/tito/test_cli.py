"""`tito module` and `tito export`: what they say and what they write."""

from __future__ import annotations

import json
import os

import pytest

from tito.desk import export
from tito.errors import TitoError
from tito.grading.runner import CELLS_SECONDS, TESTS_SECONDS
from tito.notebooks.build import build
from tito.notebooks.export import export_notebook
from tito.notebooks.read import dumps, load
from tito.notebooks.release import solution_notebook
from tito.notebooks.twin import write_twin
from tito.standing import status

RIGHT = {"double": "return x + x", "half": "return x / 2"}


def test_module_list_says_where_each_module_stands(root, alpha, tito, write_in):
    """Number, name, title, points and state, from the files alone."""
    write_in(alpha.notebook, **RIGHT)
    done = tito("module", "list", "--json")
    rows = json.loads(done.stdout)["modules"]
    assert done.returncode == 0
    columns = ("number", "name", "title", "points", "state", "package")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        (1, "alpha", "Alpha", 100, "edited", "reference"), (2, "beta", "Beta", 100, "untouched", "reference")]
    lines = tito("module", "list").stdout.splitlines()
    assert lines[1].split() == ["01", "alpha", "100", "all", "written,", "not", "tested"]


def test_states_of_a_notebook(alpha):
    """Untouched, edited (also by its twin only), unreadable, missing: never a traceback."""
    text = alpha.notebook.read_text(encoding="utf-8")
    assert status(alpha)["state"] == "untouched"
    twin = alpha.twin.read_text(encoding="utf-8")
    alpha.twin.write_text(twin + "\n# %%\nx = 1\n", encoding="utf-8")
    assert status(alpha)["state"] == "edited"
    alpha.notebook.write_text(text.replace("twice 3", "two times 3"), encoding="utf-8")
    assert status(alpha)["state"] == "edited"
    assert "tito module sync alpha --from notebook" in status(alpha)["problem"]
    for broken in ("", "{", "[]", '{"cells": 1}', "\udc80".encode("utf-8", "surrogatepass")):
        alpha.notebook.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        assert status(alpha)["state"] == "unreadable"
    alpha.notebook.unlink()
    alpha.twin.unlink()
    assert status(alpha)["state"] == "missing"


def test_what_the_package_holds(alpha, write_in):
    """Reference, yours, edited by hand, missing."""
    assert status(alpha)["package"] == "reference"
    write_in(alpha.notebook, **RIGHT)
    export(alpha)
    assert status(alpha)["package"] == "yours (exported, not tested)"
    alpha.package.write_text(alpha.package.read_text(encoding="utf-8") + "x = 1\n", encoding="utf-8")
    assert status(alpha)["package"] == "edited by hand"
    alpha.package.unlink()
    assert status(alpha)["package"] == "missing"


def test_status_of_one_module(tito):
    """By number, folder or name; the package is told too."""
    for name in ("2", "02_beta", "BETA"):
        done = tito("module", "status", name)
        assert done.returncode == 0
        assert done.stdout.splitlines()[1].split() == ["02", "beta", "100", "untouched", "reference"]


def test_export_puts_the_learners_work_into_the_package(alpha, tito, write_in):
    """The header names her notebook, and the message says how to get the reference back."""
    write_in(alpha.notebook, **RIGHT)
    done = tito("export", "alpha")
    text = alpha.package.read_text(encoding="utf-8")
    assert done.returncode == 0
    assert "return x + x" in text
    assert "modules/01_alpha/alpha_dev.ipynb" in text.splitlines()[0]
    assert "tito module reset alpha --package" in " ".join(done.stdout.split())
    assert tito("module", "reset", "alpha", "--package").returncode == 0
    assert "return 2 * x" in alpha.package.read_text(encoding="utf-8")


def test_export_refuses_what_nobody_wrote_in(snapshot, tito):
    """Exit 1, and nothing changes."""
    before = snapshot()
    done = tito("export", "alpha", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["exported"] is False
    assert snapshot() == before


@pytest.mark.parametrize("answer", ["return (", "return x", "return x\n#| exprot\n"])
def test_an_export_that_fails_changes_nothing(alpha, snapshot, tito, write_in, answer):
    """Code that does not parse, an export from nowhere, an edit in the package: byte for byte as before."""
    write_in(alpha.notebook, double=answer)
    if answer == "return x":
        alpha.package.write_text(alpha.package.read_text(encoding="utf-8") + "mine = 1\n", encoding="utf-8")
    before = snapshot()
    done = tito("export", "alpha")
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.strip().splitlines()) == 1
    assert snapshot() == before


@pytest.mark.parametrize(("top", "said"), [
    ("raise KeyError('no')", "KeyError: 'no' (at `raise KeyError('no')`)"), ("total = missing + 1", "NameError"),
    ("import nowhere_at_all", "No module named 'nowhere_at_all'"), ("import os\nos._exit(0)", "ended the process"),
    ("import sys\nsys.exit(0)", "SystemExit"), ("x = 1\nfrom __future__ import annotations", "is not Python"),
    ("return 3", "is not Python")])
def test_what_cannot_be_imported_is_not_exported(alpha, snapshot, tito, write_in, top, said):
    """One sentence that names the error, exit 1, every byte as before; `tito test` says the same."""
    write_in(alpha.notebook, **RIGHT)
    nb = load(alpha.notebook)
    nb["cells"].insert(3, {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "execution_count": None,
                           "source": f"#| export\n{top}"})
    alpha.notebook.write_text(dumps(nb), encoding="utf-8")
    before = snapshot()
    done = tito("export", "alpha", "--json")
    assert (done.returncode, json.loads(done.stdout)["exported"]) == (1, False)
    assert said in done.stderr
    assert "alpha_dev.ipynb" in done.stderr or "01_alpha.py" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    done = tito("test", "alpha", "--json")
    assert done.returncode == 1
    assert said in json.loads(done.stdout)["tests"]["problem"]
    assert snapshot() == before


def test_an_import_that_does_not_end_is_not_exported(alpha, monkeypatch, write_in):
    """The time is limited."""
    monkeypatch.setattr("tito.notebooks.export.IMPORT_SECONDS", 2)
    write_in(alpha.notebook, **RIGHT)
    nb = load(alpha.notebook)
    nb["cells"].append({"cell_type": "code", "id": "own", "metadata": {}, "source": "#| export\nwhile True: pass"})
    before = alpha.package.read_bytes()
    with pytest.raises(TitoError, match="did not end in 2 s"):
        export_notebook(nb, alpha, alpha.package)
    assert alpha.package.read_bytes() == before


@pytest.mark.parametrize("which", ["notebook", "twin"])
def test_a_byte_order_mark_changes_nothing(alpha, tito, write_in, which):
    """Some editors put one in front."""
    if which == "notebook":
        write_in(alpha.notebook, **RIGHT)
    else:
        alpha.twin.write_text(write_twin(solution_notebook(alpha)), encoding="utf-8")
    for file in (getattr(alpha, which), alpha.source):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    done = tito("test", "alpha", "--json")
    assert (done.returncode, json.loads(done.stdout)["score"]) == (0, 100), done.stderr
    assert tito("build", "beta", "alpha").returncode == 0


@pytest.mark.parametrize(("text", "said"), [
    ('{"worksheets": [{"cells": []}], "nbformat": 3, "metadata": {}}', "jupyter nbconvert"),
    ('{"a": 1}', "JSON without cells"), ("[" * 100_000, "nested too deeply"),
    ('{"cells": ' + "[" * 100_000, "nested too deeply"),
    ('{"cells": [{"cell_type": "code", "source": "x = \'\\\\udc80\'"}]}'.replace("\\\\", "\\"), "half a letter")])
def test_a_strange_notebook_is_one_sentence(alpha, tito, text, said):
    """It names the file and the next step, and the list of modules lists the others."""
    alpha.notebook.write_text(text, encoding="utf-8")
    done = tito("test", "alpha")
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert said in done.stderr
    assert "alpha_dev.ipynb" in done.stderr
    done = tito("module", "list", "--json")
    rows = json.loads(done.stdout)["modules"]
    assert (done.returncode, [row["state"] for row in rows]) == (0, ["unreadable", "untouched"])
    alpha.source.unlink()
    assert tito("module", "list").returncode == 0


def test_a_source_that_is_not_utf_8_is_one_sentence(alpha, tito):
    """For the build; the list of modules goes on."""
    alpha.source.write_bytes(alpha.source.read_bytes() + "# Zürich\n".encode("latin-1"))
    for words in (["build"], ["test", "alpha"], ["export", "alpha"]):
        done = tito(*words)
        assert done.returncode == 2
        assert "src/01_alpha/01_alpha.py: this file is not UTF-8 text" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    done = tito("module", "list", "--json")
    assert done.returncode == 0
    assert ["not UTF-8" in (row["problem"] or "") for row in json.loads(done.stdout)["modules"]] == [True, False]


def test_a_build_sweeps_what_a_killed_one_left(alpha, root):
    """Half-written files are deleted once no build can still be writing them; other files stay."""
    old, new, other = (alpha.notebook.parent / name for name in (
        ".alpha_dev.ipynb.x1.tito-tmp", ".alpha_dev.py.x2.tito-tmp", ".alpha_dev.ipynb.mine"))
    for file in (old, new, other):
        file.write_text("half", encoding="utf-8")
        if file != new:
            os.utime(file, (1, 1))
    build(root)
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_export_needs_a_word_where_both_were_edited(alpha, write_in):
    """And takes the one that was named."""
    write_in(alpha.notebook, **RIGHT)
    alpha.twin.write_text(alpha.twin.read_text(encoding="utf-8") + "\n# %%\n#| export\nmine = 1\n", encoding="utf-8")
    with pytest.raises(TitoError, match="--source"):
        export(alpha)
    export(alpha, "twin")
    assert "mine = 1" in alpha.package.read_text(encoding="utf-8")
    export(alpha, "notebook")
    assert "mine = 1" not in alpha.package.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [["test"], ["hint"], ["export"], ["module", "start"], ["module", "complete"]])
def test_without_a_name_it_says_where_names_are(tito, words):
    """One sentence with an example, exit status 2."""
    done = tito(*words)
    assert done.returncode == 2
    assert done.stderr == (f"tito: tito {' '.join(words)} wants the name of a module, as in `tito {' '.join(words)} "
                           "tensor`; `tito module list` has the names.\n")


@pytest.mark.parametrize("words", [["test"], ["export"], ["module", "complete"], ["module", "status"]])
def test_a_broken_notebook_has_the_same_way_back_everywhere(alpha, tito, write_in, words):
    """The newest backup is named by each command that needs the notebook, and the module by its name."""
    write_in(alpha.notebook, **RIGHT)
    assert tito("module", "reset", "alpha").returncode == 0
    alpha.notebook.write_text("{", encoding="utf-8")
    done = tito(*words, "alpha")
    said = " ".join((done.stdout + done.stderr).split())
    assert "modules/01_alpha/alpha_dev.ipynb cannot be used (it is not a notebook: " in said
    assert "`tito module reset alpha --to alpha_dev-1.ipynb` brings back the newest backup" in said
    assert "NAME" not in said


def test_the_printed_limits_are_the_limits(tito):
    """They stand in the help without importing what grades."""
    said = " ".join(tito("test", "--help").stdout.split())
    assert f"({CELLS_SECONDS} and {TESTS_SECONDS})" in said
