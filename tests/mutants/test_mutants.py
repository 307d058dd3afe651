"""Every wrong solution dies at the check that is named for it; every right one passes.

Module 14's tables run always, of the other modules' a part that changes with the day (see `tests/conftest.py`).
"""

import sys
from pathlib import Path

import pytest

from tito.project import modules

sys.path.insert(0, str(Path(__file__).parent))
import matrix  # noqa: E402

sys.path.pop(0)
TABLES = {module: matrix.entries(module) for module in matrix.tables()}


def _entries(which):
    found = []
    for module, table in TABLES.items():
        marks = () if module.number == 14 else pytest.mark.rotates(module.number)
        for entry in which(table):
            first = entry[0] if isinstance(entry, list) else entry
            found.append(pytest.param(entry, id=f"{module.label}-{first.name}", marks=marks))
    return found


@pytest.mark.parametrize("mutant", _entries(lambda table: table[0]))
def test_a_wrong_solution_dies_at_its_check(mutant):
    assert matrix.fault_of(mutant) == ""


@pytest.mark.parametrize("variants", _entries(lambda table: matrix.together(table[1])))
def test_right_solutions_pass(variants):
    assert matrix.fault_of_right(variants) == ""


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


def test_every_module_has_a_table():
    assert matrix.tables() == modules(matrix.ROOT)
