"""Every wrong solution dies at the check that is named for it; every right one passes.

Of every module's table a seventh runs each day, all of it within a week (see `tests/conftest.py`).
"""

import sys
from pathlib import Path

import pytest

from tito.notebooks.read import grader, read_source
from tito.project import modules

sys.path.insert(0, str(Path(__file__).parent))
import matrix  # noqa: E402

sys.path.pop(0)
TABLES = {module: matrix.entries(module) for module in matrix.tables()}


def _entries(which):
    found = []
    for module, table in TABLES.items():
        for entry in which(table):
            first = entry[0] if isinstance(entry, list) else entry
            turn = pytest.mark.rotates(len(found))
            found.append(pytest.param(entry, id=f"{module.label}-{first.name}", marks=turn))
    return found


@pytest.mark.parametrize("mutant", _entries(lambda table: table[0]))
def test_a_wrong_solution_dies_at_its_check(mutant):
    assert matrix.fault_of(mutant) == ""


@pytest.mark.parametrize("variants", _entries(lambda table: matrix.together(table[1])))
def test_right_solutions_pass(variants):
    assert matrix.fault_of_right(variants) == ""


def test_what_only_shows_is_left_out_and_what_is_used_later_stays():
    def code(source, **metadata):
        return {"cell_type": "code", "source": source, "metadata": {"nbgrader": metadata} if metadata else {}}

    kept = [code("#| default_exp x"), code("import math as m\nrate = 2"), code("def twice(n):\n    return rate * n"),
            code("def mine(a):\n    return a", grade_id="mine", solution=True),
            code("low = mine(1)\nprint(low)\n\n\ndef test():\n    n = twice(m.pi)\n    return n, low", grade_id="test")]
    shows = [code("low = 5\nprint(low)"), code("n = [a for a in range(9)]"), code("print(rate)")]
    assert matrix.without_shows([*kept[:3], *shows, *kept[3:]]) == kept


@pytest.mark.parametrize("module", TABLES, ids=lambda module: module.label)
def test_a_table_is_long_enough(module):
    """At least sixty wrong solutions of module 14, two thirds of them named, and ten right ones; five elsewhere."""
    wrong, right = TABLES[module]
    if module.label == "14_profiling":
        assert len(wrong) >= 60
        assert 3 * sum(bool(mutant.says) for mutant in wrong) >= 2 * len(wrong)
        assert len(right) >= 10
    else:
        assert len(wrong) >= 5


def test_a_run_of_nothing_is_no_success(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["matrix.py", "activations", "--only", "no-such-name"])
    with pytest.raises(SystemExit, match="2"):
        matrix.main()
    assert "no entry has this in its name or cell" in capsys.readouterr().err


def test_a_check_that_is_not_there_is_named():
    """And the parts of ``caught`` are told."""
    mutant = TABLES[matrix.find_module(matrix.ROOT, "activations")][0][0]
    with pytest.raises(ValueError, match="there is no check 'test-gone'; want 'grade_id: what of the check'"):
        matrix.fault_of(matrix.Wrong(**{**vars(mutant), "caught": "test-gone: anything"}))


def test_every_module_has_a_table():
    assert matrix.tables() == modules(matrix.ROOT)


@pytest.mark.parametrize("module", TABLES, ids=lambda module: module.label)
def test_every_solution_cell_has_a_wrong_solution(module):
    """What nobody has tried to get wrong, nobody knows to be checked."""
    cells = [grader(cell)["grade_id"] for cell in read_source(module)["cells"] if grader(cell).get("solution")]
    tried = {mutant.cell for mutant in TABLES[module][0]}
    assert [name for name in cells if name not in tried] == [], f"cells without a wrong solution in m{module.label}.py"
