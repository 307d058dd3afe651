"""Chapters: each module's source becomes a page, its notebook run from top to bottom with the solutions in place.

A learner may read a chapter before filling in the notebook, so solutions and checks are folded: what a check printed is
seen, its code and the answer only on a click.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from course import course, hours_text
from sphinx.application import Sphinx

from tito.notebooks.book import open_book
from tito.notebooks.read import dumps, read_source
from tito.notebooks.release import strip_markers
from tito.project import Module, find_root, modules, target_owners

ROOT = find_root(Path(__file__))


FENCE = re.compile(r"^```(\w*)(\n.*?^```)$", re.MULTILINE | re.DOTALL)
FOLDED = "Show {0}", "Hide {0}"  # what is folded away says so
INDEX = """# Chapters

One chapter for each module: its notebook, run from top to bottom while this site was built, with the solutions in
place. Solutions and checks are folded, so that a chapter can be read before its notebook is filled in.

| chapter | tier | difficulty, of four | hours | exports to |
|---|---|---|---|---|
{rows}

```{{toctree}}
:maxdepth: 1
:hidden:

{pages}
```
"""


def chapter(module: Module) -> dict[str, Any]:
    """Return a module's notebook as a page of the site."""
    nb = read_source(module)
    for cell, data in zip(open_book(nb, module, owners=target_owners(ROOT)).cells, nb["cells"]):
        data["source"] = strip_markers(data["source"])
        if data["cell_type"] == "markdown":  # a drawing is no Python, and is not to be coloured as if it were
            data["source"] = FENCE.sub(lambda fence: f"```{fence[1] or 'text'}{fence[2]}", data["source"])
        if cell.solution or cell.graded:
            show, hide = (text.format("the solution" if cell.solution else "the check") for text in FOLDED)
            data["metadata"].update(tags=["hide-input"], mystnb={"code_prompt_show": show, "code_prompt_hide": hide})
        elif re.fullmatch(r"#\| default_exp \S+", data["source"].strip()):
            data["metadata"]["tags"] = ["remove-cell"]
    return nb


def index() -> str:
    """Return the page that lists the chapters."""
    told = {one["number"]: one for one in course()}
    rows = []
    for module in modules(ROOT):
        one = told[module.number]
        rest = ("a bonus", "", "") if module.bonus else (one["tier"], one["difficulty"], hours_text(one["hours"]))
        place = f"[{module.number:02d} {module.title}]({module.label}.ipynb)"
        rows.append(f"| {place} | {' | '.join(map(str, rest))} | `{module.target}` |")
    return INDEX.format(rows="\n".join(rows), pages="\n".join(module.label for module in modules(ROOT)))


def write(app: Sphinx) -> None:
    """Write the chapters beside the other pages; one that has not changed is left alone, and so not run again."""
    folder = Path(app.srcdir) / "chapters"
    folder.mkdir(exist_ok=True)
    texts = {f"{module.label}.ipynb": dumps(chapter(module)) for module in modules(ROOT)} | {"index.md": index()}
    for stale in {path.name for path in folder.iterdir()} - texts.keys():
        (folder / stale).unlink()
    for name, text in texts.items():
        page = folder / name
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8", newline="\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
