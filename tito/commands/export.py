"""`tito export NAME`: put what the learner wrote into the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tito import ui
from tito.errors import ExportError, TitoError


@click.command(short_help="Put what you wrote in a module's notebook into the package.")
@click.argument("name")
@click.option("--source", type=click.Choice(["notebook", "twin"]), help="Which to export, where both were edited.")
@ui.json_option
def command(name: str, source: str | None, as_json: bool) -> int:
    """Put what you wrote in the notebook of module NAME into the package, all of it or nothing.

    `tito build NAME` puts the reference back.

    Exit status: 0 exported, 1 nothing is written yet or what is cannot be imported, 2 could not export.
    """
    from tito.project import find_module, find_root

    try:
        result = export(find_module(find_root(), name), source)
    except ExportError as error:
        if as_json:
            ui.print_json({"exported": False, "error": str(error)})
        click.echo(f"tito: {' '.join(str(error).split())}; nothing was changed.", err=True)
        return 1
    if as_json:
        ui.print_json(result)
    else:
        click.echo(result["message"])
    return 0 if result["exported"] else 1


def export(module: Any, source: str | None = None) -> dict[str, Any]:
    """Export a module's notebook (or its twin) into the package, unless nobody has written in it."""
    from tito.grading.submission import read
    from tito.notebooks.export import export_notebook

    submission = read(module, source)
    file = module.package.relative_to(module.root).as_posix()
    result = {"module": module.label, "source": submission.tested, "file": file, "exported": not submission.untouched}
    if submission.untouched:
        result["message"] = f"Nothing is written in the notebook of {module.label} yet, so {file} stays as it is."
    else:
        _refuse_to_lose(module.package, file)
        export_notebook(submission.notebook, module, module.package)
        result["message"] = (f"{file} now holds what your {submission.tested} exports; "
                             f"`tito build {module.name}` puts the reference back.")
    return result


def _refuse_to_lose(package: Path, file: str) -> None:
    """Raise where the package's file holds what no export wrote."""
    from tito.notebooks.export import is_edited, is_generated

    if package.is_file():
        text = package.read_text(encoding="utf-8", errors="replace")
        if not is_generated(text) or is_edited(text):
            raise TitoError(f"{file} was edited by hand, and an export would overwrite that: move the change into the "
                            "notebook, delete the file and export again.")
