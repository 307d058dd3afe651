"""The twin: a notebook as a Python script that can be imported without running its tests and demos.

Percent format. Cells that are neither exported nor comments stand under ``if __name__ == "__main__":``, so
importing the twin defines what the notebook exports, and running it runs everything in order.
"""

from __future__ import annotations

import ast
import json
import re

from tito.errors import NotebookError
from tito.notebooks.book import inside_strings, is_exported
from tito.notebooks.read import CellDict, Notebook, read_percent

GUARD = 'if __name__ == "__main__":'
INDENT = "    "
NOTHING = f"{INDENT}pass  # nothing here runs"
_MAGIC = re.compile(r"^(\s*)([%!])")
_WAS_MAGIC = re.compile(r"^(\s*)# ipython: ")


def _statements(source: str) -> int | None:
    """Return how many statements a cell has, ``None`` when it does not parse."""
    try:
        return len(ast.parse(source).body)
    except (SyntaxError, ValueError):
        return None


def _hide_magics(source: str) -> str:
    """Make comments of the lines only Jupyter understands, in a cell that is not Python because of them."""
    if _statements(source) is not None:
        return source
    return "\n".join(_MAGIC.sub(r"\1# ipython: \2", line) for line in source.split("\n"))


def _show_magics(source: str) -> str:
    return "\n".join(_WAS_MAGIC.sub(r"\1", line) for line in source.split("\n"))


def wrap(source: str) -> str:
    """Put a cell's text under the guard."""
    strings = inside_strings(source)
    body = [line if number in strings or not line else INDENT + line
            for number, line in enumerate(source.split("\n"), 1)]
    if _statements(source) == 0:
        body.append(NOTHING)
    return "\n".join([GUARD, *body])


def unwrap(source: str) -> str:
    """Take a cell's text out from under the guard; a text that does not stand under it stays as it is."""
    if source.split("\n", 1)[0].rstrip() != GUARD:
        return source
    strings = inside_strings(source)
    body = [line if number in strings else line.removeprefix(INDENT)
            for number, line in enumerate(source.split("\n"), 1)][1:]
    if body and body[-1] == NOTHING.strip():
        body.pop()
    return "\n".join(body)


def _is_bare(source: str) -> bool:
    """Say whether a code cell may stand unguarded: what is exported, and what holds only directives."""
    return is_exported(source) or all(not line.strip() or line.startswith("#|") for line in source.split("\n"))


def _marker(cell: CellDict) -> str:
    kind = {"markdown": " [markdown]", "raw": " [raw]"}.get(cell["cell_type"], "")
    options = "".join(f" {key}={json.dumps(value, ensure_ascii=False, sort_keys=True)}"
                      for key, value in sorted(cell["metadata"].items()))
    return f"# %%{kind}{options}"


def _text(cell: CellDict) -> str:
    source = cell["source"].strip("\n")
    if cell["cell_type"] == "code":
        shown = _hide_magics(source)
        return shown if _is_bare(source) else wrap(shown)
    if cell["cell_type"] == "raw" or '"""' in source or source.endswith("\\") or re.search(r"^#\s*%%", source, re.M):
        return "\n".join(f"# {line}".rstrip() if not line else f"# {line}" for line in source.split("\n"))
    return f'{"r" if chr(92) in source else ""}"""\n{source}\n"""'


def write_twin(nb: Notebook) -> str:
    """Return a notebook as its twin's text."""
    head = ["# ---", "# jupyter:", "#   jupytext:", "#     comment_magics: false",
            "#     notebook_metadata_filter: tinytorch",
            "#     text_representation: {extension: .py, format_name: percent}"]
    head += [f"#   {key}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
             for key, value in sorted(nb["metadata"].items()) if key != "jupytext"]
    blocks = ["\n".join([*head, "# ---"])]
    for index, cell in enumerate(nb["cells"], 1):
        if cell["cell_type"] == "code" and re.search(r"^#\s*%%", cell["source"], re.MULTILINE):
            raise NotebookError("a line begins with `# %%`, which would begin a new cell in the .py twin",
                                cell=f"cell {index}")
        blocks.append(f"{_marker(cell)}\n{_text(cell)}".rstrip("\n"))
    return "\n\n".join(blocks) + "\n"


def read_twin(text: str, name: str) -> Notebook:
    """Return the notebook a twin stands for; ``name`` is the module's (for the cells' ids)."""
    nb = read_percent(text, name)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = _show_magics(unwrap(cell["source"]))
    return nb
