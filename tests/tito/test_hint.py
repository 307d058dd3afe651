"""Hints: found by every name a cell has, plain text, and no solution in them."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tito.errors import TitoError
from tito.notebooks.hints import as_text, find, hint, tasks
from tito.notebooks.read import read_source
from tito.notebooks.release import release_notebook
from tito.project import find_module

HERE = Path(__file__).resolve().parents[2]
HINTS = '''## 1. Twice
<details><summary>Hint 1: idea</summary>
What is <em>twice</em>? See <code>a &lt; b</code> &amp; more.
</details>
<details><summary>Hint 2: approach</summary>
A product.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Three times 5: 15.
</details>
'''


@pytest.fixture
def hinted(alpha):
    """Alpha with hints above its first solution cell."""
    text = alpha.source.read_text(encoding="utf-8")
    assert "## 1. Twice\n" in text
    alpha.source.write_text(text.replace("## 1. Twice\n", HINTS), encoding="utf-8")
    return alpha


@pytest.mark.parametrize("name", [None, "double", "double-check", "test_double", "double()", "1.1",
                                  "section 1, cell 1"])
def test_every_name_of_a_cell(hinted, name):
    """Its grade_id, that of its check, a function, its place; none: the first that is not written."""
    came = hint(hinted, name)
    assert (came["cell"], came["step"], came["steps"], came["title"]) == ("double", 1, 3, "idea")
    assert came["text"] == "What is twice? See `a < b` & more."
    assert came["next"] == "tito hint alpha double --step 2"


def test_a_hint_flows():
    """Where the source's lines end is no place to break; paragraphs, list items and <br> are."""
    assert as_text("It is NumPy's guess and becomes\nfloat32. <code>a\nb</code>") == (
        "It is NumPy's guess and becomes float32. `a b`")
    assert as_text("Two ways:\n- one\n- two\n\nAnd<br>\nmore.") == "Two ways:\n- one\n- two\n\nAnd\nmore."


def test_methods_are_found(root):
    """Alone and with their class."""
    beta = find_module(root, "beta")
    known = tasks(release_notebook(beta), beta)
    assert {find(known, name, beta).cell.name for name in ("Fourfold", "forward", "Fourfold.forward")} == {"fourfold"}


def test_the_command(hinted, tito):
    """Step by step; the last names no next; JSON; exit status 2 for what there is not."""
    for step, said in ((1, "What is twice?"), (2, "A product."), (3, "Three times 5: 15.")):
        done = tito("hint", "alpha", "--step", str(step))
        assert (done.returncode, said in done.stdout) == (0, True)
        assert (f"--step {step + 1}" in done.stdout) == (step < 3)
    assert json.loads(tito("hint", "alpha", "--json").stdout)["cell"] == "double"
    for words, said in ((["dubble"], "did you mean double"), (["7.7"], "the places are 1.1, 2.1"),
                        (["half"], "has no hints; the text above it is in section 2"),
                        (["zzz"], "the cells are double, half")):
        done = tito("hint", "alpha", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert tito("hint", "alpha", "--step", "4").returncode == 2


def test_the_cell_one_is_at(hinted, write_in):
    """The first that is not written; when all are, it says so; a notebook that is gone hinders nobody."""
    write_in(hinted.notebook, double="return 2 * x")
    with pytest.raises(TitoError, match="half of 01_alpha has no hints"):
        hint(hinted)
    write_in(hinted.notebook, half="return x / 2")
    assert "Every part of 01_alpha is written" in hint(hinted)["message"]
    hinted.notebook.write_text("{", encoding="utf-8")
    assert hint(hinted)["cell"] == "double"


def test_markup_becomes_text():
    """Entities after tags, so that a shown tag stays."""
    assert as_text("<b>a</b> &lt;b&gt; <code>x &gt; 1</code><br/>**so**, 2 < 3 > 1") == "a <b> `x > 1`\nso, 2 < 3 > 1"


def solution_lines(source: str, least: int = 20) -> list[str]:
    """Return the lines between a marked cell's solution markers that are longer than ``least``, comments apart."""
    inside, lines = False, []
    for line in textwrap.dedent(source).splitlines():
        if line.strip() in ("### BEGIN SOLUTION", "### END SOLUTION"):
            inside = "BEGIN" in line
        elif inside and len(line.strip()) > least and not line.strip().startswith("#"):
            lines.append(line.strip())
    return lines


def test_solution_lines():
    """Between markers only, without comments."""
    source = "def f():\n    ### BEGIN SOLUTION\n    # a comment that is long enough\n" \
             "    return sum(values) / len(values)\n" \
             "    x = 1\n    ### END SOLUTION\n    after = 'this is not of the solution'\n"
    assert solution_lines(source) == ["return sum(values) / len(values)"]


@pytest.mark.parametrize("name", ["profiling", "tracing"])
def test_module_14_has_three_hints_for_every_cell_and_none_is_a_solution(name):
    """No line of a solution stands in any of its hints."""
    module = find_module(HERE, name)
    known = tasks(release_notebook(module), module)
    marked = {cell["id"]: cell["source"] for cell in read_source(module)["cells"]}
    assert len(known) >= 6
    for task in known:
        assert sorted(task.hints) == [1, 2, 3] and not task.shared_with, task.cell.name
        lines = solution_lines(marked[task.cell.name])
        said = " ".join(" ".join(text for _, text in task.hints.values()).split())
        assert [line for line in lines if " ".join(line.split()) in said] == [], task.cell.name
