"""`tito hint NAME [CELL]`: the next thought, in three steps."""

from __future__ import annotations

import click

from tito import ui


@click.command("hint", short_help="A hint for the cell you are at, in three steps.")
@click.argument("name")
@click.argument("cell", required=False)
@click.option("--step", type=click.IntRange(1, 3), default=1, help="1 the idea, 2 the approach, 3 a worked example.")
@ui.json_option
def command(name: str, cell: str | None, step: int, as_json: bool) -> int:
    """Show a hint for a cell of module NAME: first the idea; --step 2 the approach; --step 3 a worked example.

    CELL is the grade_id of a cell or of its check, a function's name, or its place such as 3.2 (section 3, cell 2).
    Without it: the first cell that is not written yet.
    """
    from tito.notebooks.hints import hint
    from tito.project import find_module, find_root

    result = hint(find_module(find_root(), name), cell, step)
    if as_json:
        ui.print_json(result)
        return 0
    console = ui.console()
    if result["cell"] is None:
        console.print(result["message"])
        return 0
    console.print(f"{result['cell']} ({result['place']}), hint {step} of {result['steps']}: {result['title']}")
    if result["shared_with"]:
        console.print(f"It has no hints of its own; those of {result['shared_with']} serve here too.")
    console.print(f"\n{result['text']}")
    if result["next"]:
        click.echo(f"\nThe next step:  {result['next']}")
    return 0
