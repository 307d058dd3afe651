"""`tito export NAME`: put what the learner wrote into the package."""

from __future__ import annotations

import click

from tito import ui
from tito.errors import ExportError


@click.command(short_help="Put what you wrote into the package.")
@click.argument("name")
@click.option("--source", type=click.Choice(["notebook", "twin"]), help="Which to export, where both were edited.")
@ui.json_option
def command(name: str, source: str | None, as_json: bool) -> int:
    """Put what you wrote in the notebook of module NAME into the package, all of it or nothing.

    `tito module complete NAME` does so once everything passes, and marks the module as complete.
    `tito module reset NAME --package` puts the reference back.

    Exit status: 0 exported, 1 nothing is written yet or what is cannot be imported, 2 could not export.
    """
    from tito.desk import export
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
        ui.console().print(result["message"])
    return 0 if result["exported"] else 1
