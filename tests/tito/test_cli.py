"""`tito module` and `tito export`: what they say and what they write."""

from __future__ import annotations

import json

import pytest

from tito.commands.export import export
from tito.commands.module import status
from tito.errors import TitoError

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
    assert lines[1].split() == ["01", "alpha", "Alpha", "100", "edited"]


def test_states_of_a_notebook(alpha):
    """Untouched, edited (also by its twin only), unreadable, missing: never a traceback."""
    text = alpha.notebook.read_text(encoding="utf-8")
    assert status(alpha)["state"] == "untouched"
    twin = alpha.twin.read_text(encoding="utf-8")
    alpha.twin.write_text(twin + "\n# %%\nx = 1\n", encoding="utf-8")
    assert status(alpha)["state"] == "edited"
    alpha.notebook.write_text(text.replace("twice 3", "two times 3"), encoding="utf-8")
    assert status(alpha)["state"] == "edited"
    assert "--source" in status(alpha)["problem"]
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
    assert status(alpha)["package"] == "yours"
    alpha.package.write_text(alpha.package.read_text(encoding="utf-8") + "x = 1\n", encoding="utf-8")
    assert status(alpha)["package"] == "edited by hand"
    alpha.package.unlink()
    assert status(alpha)["package"] == "missing"


def test_status_of_one_module(tito):
    """By number, folder or name; the package is told too."""
    for name in ("2", "02_beta", "BETA"):
        done = tito("module", "status", name)
        assert done.returncode == 0
        assert done.stdout.splitlines()[1].split() == ["02", "beta", "Beta", "100", "untouched", "reference"]


def test_export_puts_the_learners_work_into_the_package(alpha, tito, write_in):
    """The header names her notebook, and the message says how to get the reference back."""
    write_in(alpha.notebook, **RIGHT)
    done = tito("export", "alpha")
    text = alpha.package.read_text(encoding="utf-8")
    assert done.returncode == 0
    assert "return x + x" in text
    assert "modules/01_alpha/alpha_dev.ipynb" in text.splitlines()[0]
    assert "tito build alpha" in done.stdout
    assert tito("build", "alpha").returncode == 0
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
