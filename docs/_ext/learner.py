"""A learner at the desk, for pages that show what `tito` answers: cells filled in, a known mistake where wanted."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

from tito.notebooks.read import dumps, grader, load
from tito.notebooks.release import release_notebook, solution_notebook
from tito.project import Module, find_module, find_root

_ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
"""


def _cell(nb: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(cell for cell in nb["cells"] if grader(cell).get("grade_id") == name)
    return found


def filled(module: Module, cells: dict[str, tuple[str, str]] | None = None, nb: dict[str, Any] | None = None) -> str:
    """Return a notebook, by default the released one, with the reference's answers in some cells, or in all.

    ``cells`` maps a solution cell to what is to be replaced in its answer, and by what: a mistake, or nothing.
    """
    nb, answers = nb or release_notebook(module), solution_notebook(module)
    for cell in answers["cells"]:
        name = grader(cell).get("grade_id")
        if not grader(cell).get("solution") or (cells is not None and name not in cells):
            continue
        old, new = (cells or {}).get(name, ("", ""))
        if old not in cell["source"]:
            raise ValueError(f"{name} of {module.label} does not hold {old!r}")
        _cell(nb, name)["source"] = cell["source"].replace(old, new) if old else cell["source"]
    return dumps(nb)


def write(name: str, cells: dict[str, tuple[str, str]] | None = None) -> None:
    """Write answers into the notebook of the desk's module ``name``, and leave what else stands in it."""
    module = find_module(find_root(), name)
    module.notebook.write_text(filled(module, cells, load(module.notebook)), encoding="utf-8", newline="\n")


def shown(name: str, cell: str, function: str) -> Any:
    """Return a function of a cell in the desk's notebook, as it stands there, to be shown on the page."""
    from IPython.display import Markdown

    source = _cell(load(find_module(find_root(), name).notebook), cell)["source"]
    node = next(node for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.FunctionDef) and node.name == function)
    lines = source.splitlines()[node.lineno - 1:node.end_lineno]
    return Markdown("\n".join(["```python", *(line[node.col_offset:] for line in lines), "```"]))


def hand_in(folder: str, name: str, students: dict[str, dict[str, tuple[str, str]] | str | None]) -> None:
    """Write a class's notebooks: ``folder/student/<name>_dev.ipynb``, each filled as `filled` says, or a bare text."""
    module = find_module(find_root(), name)
    for student, came in students.items():
        file = Path(folder, student, module.notebook.name)
        file.parent.mkdir(parents=True)
        file.write_text(came if isinstance(came, str) else filled(module, came), encoding="utf-8", newline="\n")


def said(*words: str, folder: str = "", without: str = "", status: bool = False, **environment: str) -> None:
    """Print a `tito` command and what it says, with short names for folders, in lines of 80 letters.

    Args:
        words: what comes after `tito`.
        folder: where it is called (by default the desk).
        without: a module that is as if it were not installed.
        status: whether its exit status is told at the end.
        environment: variables that are set for it.
    """
    start = _ABSENT.format(name=without) if without else "import sys"
    command = [sys.executable, "-c", f"{start}\nsys.argv[0] = 'tito'\nfrom tito.cli import main\nmain()", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          encoding=environment.get("PYTHONIOENCODING", "utf-8"), errors="replace", check=False,
                          cwd=folder or None, env={**os.environ, **environment})
    desk = Path.cwd()
    print(f"$ {' '.join(['tito', *words])}")
    for long, short in ((str(desk), "~/TinyTorch"), (str(desk.parent), "~"), (str(Path.home()), "~")):
        done.stdout = done.stdout.replace(long, short)
    lines = (fill(line, 80, break_long_words=False, break_on_hyphens=False) if len(line) > 80 else line
             for line in done.stdout.rstrip().splitlines())
    print("\n".join(lines) + (f"\nexit status {done.returncode}" if status else ""))
