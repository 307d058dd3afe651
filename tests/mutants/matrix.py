"""The mutation matrix: wrong solutions that must die at a named check, and right ones that must pass.

`python tests/mutants/matrix.py [MODULE ...] [--only TEXT] [--jobs N]` runs the tables beside this file, all of them
unless modules are named. It exits 1 when a mutant lives, dies elsewhere or without its name, or a right solution fails.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import symtable
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tito.grading import overlay, runner
from tito.grading.submission import Submission
from tito.notebooks.export import export_notebook
from tito.notebooks.read import Notebook, grader
from tito.notebooks.release import solution_notebook
from tito.project import Module, find_module, find_root

HERE = Path(__file__).resolve().parent
ROOT = find_root(HERE)
SECONDS = 120.0
_TABLE = re.compile(r"m(\d\d)_(\w+)")


@dataclass(frozen=True)
class Wrong:
    """A wrong solution: ``old`` becomes ``new`` in the solved text of ``cell``, and ``caught`` must fail.

    ``caught`` is "grade_id: what of the check" or "tests: node id under the module's tests"; ``says`` are words of the
    mistake that the verdict must name.
    """

    module: Module
    name: str
    cell: str
    old: str
    new: str
    caught: str
    says: str = ""
    lean: bool = False  # leave out the cells that only show something


@dataclass(frozen=True)
class Right:
    """A right solution written differently: ``code`` is the whole new text of ``cell``."""

    module: Module
    name: str
    cell: str
    code: str


def tables() -> list[Module]:
    """Return the modules that have a table here, in the order of the course."""
    named = (_TABLE.fullmatch(file.stem) for file in HERE.glob("m*.py"))
    return sorted((find_module(ROOT, name[2]) for name in named if name), key=lambda module: module.order)


def entries(module: Module) -> tuple[list[Wrong], list[Right]]:
    """Return a module's wrong and right solutions; two of one name are an error."""
    table = runpy.run_path(str(HERE / f"m{module.label}.py"))
    wrong = [Wrong(module, **row, lean=table.get("LEAN", False)) for row in table["WRONG"]]
    right = [Right(module, **row) for row in table["RIGHT"]]
    names = [entry.name for entry in (*wrong, *right)]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"m{module.label}.py: {', '.join(sorted(twice))}: a name stands for one entry")
    return wrong, right


def solution_cell(nb: Notebook, name: str) -> dict[str, Any]:
    """Return a solution cell by its grade_id."""
    found = [cell for cell in nb["cells"] if grader(cell).get("grade_id") == name and grader(cell).get("solution")]
    if len(found) != 1:
        raise ValueError(f"there is no solution cell {name!r}")
    return found[0]


def mutated(mutant: Wrong) -> Notebook:
    """Return the solved notebook with the one edit in it."""
    nb = solution_notebook(mutant.module)
    cell = solution_cell(nb, mutant.cell)
    if cell["source"].count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: the old text stands {cell['source'].count(mutant.old)} times in "
                         f"{mutant.cell}, not once")
    cell["source"] = cell["source"].replace(mutant.old, mutant.new)
    return nb


def names_of(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds for the cells after it, and those it takes from the cells before it."""
    top = symtable.symtable(source, "cell", "exec")
    scopes, made = [top], {name.get_name() for name in top.get_symbols() if name.is_assigned() or name.is_imported()}
    for scope in scopes:
        scopes += scope.get_children()
    used = {name.get_name() for scope in scopes for name in scope.get_symbols()
            if name.is_referenced() and (scope is top or name.is_global())}
    return made, used - made


def without_shows(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what only shows something: cells in no package and no grade whose names no later one uses."""
    kept, wanted = [], set[str]()
    for cell in reversed(cells):
        if cell["cell_type"] == "code":
            made, used = names_of(cell["source"])
            if not (grader(cell) or cell["source"].startswith("#|") or made & wanted):
                continue
            wanted |= used
        kept.append(cell)
    return kept[::-1]


def rewritten(variants: Iterable[Right]) -> Notebook:
    """Return the solved notebook with these cells written differently, each at most once."""
    variants = list(variants)
    nb = solution_notebook(variants[0].module)
    if len({variant.cell for variant in variants}) < len(variants):
        raise ValueError("two variants of one cell cannot stand in one notebook")
    for variant in variants:
        solution_cell(nb, variant.cell)["source"] = variant.code.strip("\n")
    return nb


def together(variants: list[Right]) -> list[list[Right]]:
    """Deal variants out to as few notebooks as can hold them: one variant of a cell in each."""
    books: list[list[Right]] = []
    for variant in variants:
        for book in books:
            if all(variant.cell != other.cell for other in book):
                book.append(variant)
                break
        else:
            books.append([variant])
    return books


def fault_of(mutant: Wrong) -> str:
    """Run a mutant; return what is wrong with how it died, empty where it died as named."""
    where, _, what = mutant.caught.partition(": ")
    nb = mutated(mutant)
    if where == "tests":
        return _fault_of_test(mutant, nb, what)
    names = [grader(cell).get("grade_id") for cell in nb["cells"]]
    if where not in names:
        raise ValueError(f"there is no check {where!r}; want 'grade_id: what of the check', or 'tests: node id'")
    del nb["cells"][names.index(where) + 1:]  # what comes after has no say in this
    nb["cells"] = without_shows(nb["cells"]) if mutant.lean else nb["cells"]
    result = runner.grade_cells(Submission(mutant.module, "notebook", nb, False), SECONDS)
    cell = next(cell for cell in result["cells"] if cell["grade_id"] == where)
    if cell["state"] == "passed":
        return f"it lives; {where} passes"
    came = cell["check"] or f"{cell['type']}: {cell['message']}"
    if came != what:
        return f"it dies at {came!r} (got {cell['got']}, likely {cell['likely']})"
    if mutant.says.lower() not in (cell["likely"] or "").lower():
        return f"its name is not said: got {cell['got']}, likely {cell['likely']}"
    return ""


def _fault_of_test(mutant: Wrong, nb: Notebook, node: str) -> str:
    """Run one edge test on what a mutant exports: it must fail (that it passes for the reference, the tests say)."""
    module = mutant.module
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / module.package.name
        export_notebook(nb, module, file)
        stands_in = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", **overlay.variable({module.target: file})}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", str(module.tests / node), "-q", "-p", "no:cacheprovider", "-p",
             "tito.grading.overlay", "--tb=line"], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS,
            env={**os.environ, **stands_in})
    if done.returncode == 1:
        return ""
    return "it lives; the test passes" if done.returncode == 0 else f"the test does not run: {done.stdout[-300:]}"


def fault_of_right(variants: list[Right]) -> str:
    """Grade right solutions that stand in one notebook; return what rejects them, empty where nothing does."""
    module, nb = variants[0].module, rewritten(variants)
    result = runner.grade_cells(Submission(module, "notebook", nb, False), SECONDS)
    failed = [f"{cell['grade_id']}: {cell['message']}" for cell in result["cells"] if cell["state"] != "passed"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / module.package.name
        export_notebook(nb, module, file)
        tests = runner.run_tests(module, {module.target: file}, 2 * SECONDS)
    failed += [f"{failure['name']}: {failure['message']}" for failure in tests["failures"]]
    return "; ".join(failed) or tests["problem"] or ""


def main() -> int:
    """Run the tables, say what is not as it should be, and return the exit status."""
    parser = argparse.ArgumentParser(description="Run the mutation matrix.")
    parser.add_argument("modules", nargs="*", help="module names or numbers (all that have a table)")
    parser.add_argument("--only", help="only entries whose name or cell holds this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="entries run side by side")
    options = parser.parse_args()
    chosen = [find_module(ROOT, name) for name in options.modules] or tables()
    faults = tried = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for module in chosen:
            wrong, right = ([entry for entry in part if (options.only or "") in f"{entry.name} {entry.cell}"]
                            for part in entries(module))
            tried += len(wrong) + len(right)
            books = together(right)
            found = [*zip(wrong, pool.map(_safely(fault_of), wrong)),
                     *zip(books, pool.map(_safely(fault_of_right), books))]
            for entry, fault in found:
                if fault:
                    faults += 1
                    name = entry.name if isinstance(entry, Wrong) else " + ".join(one.name for one in entry)
                    print(f"✗ {module.label} {name}: {fault}")
            named = sum(bool(mutant.says) for mutant in wrong)
            print(f"{module.label}: {len(wrong)} wrong solutions ({named} named), {len(right)} right ones", flush=True)
    if not tried:
        parser.error(f"--only {options.only}: no entry has this in its name or cell")
    print(f"faults: {faults}")
    return 1 if faults else 0


def _safely(function: Any) -> Any:
    def run(entry: Any) -> str:
        try:
            return str(function(entry))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return run


if __name__ == "__main__":
    sys.exit(main())
