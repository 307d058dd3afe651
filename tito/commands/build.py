"""`tito build`: make notebooks, twins and package from `src/`, or compare them with what is there."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tito import ui

if TYPE_CHECKING:
    from tito.notebooks.build import BuildResult, CheckResult


@click.command("build", short_help="Build the notebooks and the package from src/.")
@click.argument("names", nargs=-1, metavar="[MODULE]...")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if anything differs from its source.")
@ui.json_option
def command(names: tuple[str, ...], only_check: bool, as_json: bool) -> int:
    """Build the learners' notebooks, their .py twins and the package from src/.

    All modules, or the named ones (layers, 3 or 03_layers). A notebook somebody has worked in is kept.
    """
    from tito.notebooks.build import BuildError, CheckResult, build, check
    from tito.project import find_root

    root = find_root()
    try:
        with ui.progress("reading src/") as tell:
            result = (check if only_check else build)(root, names, tell)
    except BuildError as error:
        if as_json:
            ui.print_json({"error": str(error), "faults": [asdict(fault) for fault in error.faults]})
        for fault in error.faults:
            click.echo(f"tito: {fault}", err=True)
        return 2
    if as_json:
        ui.print_json(asdict(result))
    elif isinstance(result, CheckResult):
        _say_checked(result)
    else:
        _say_built(result)
    return 1 if isinstance(result, CheckResult) and result.differences else 0


def _say_checked(result: CheckResult) -> None:
    for difference in result.differences:
        click.echo(f"✗ {difference}")
    click.echo(f"Modules checked: {len(result.modules)}, differences: {len(result.differences)}.")


def _say_built(result: BuildResult) -> None:
    for name in result.written:
        click.echo(f"✓ {name}")
    for name in result.kept:
        click.echo(f"· {name}: kept, somebody has worked in it")
    for name in result.orphans:
        click.echo(f"! {name}: its source is gone; delete it if nobody needs it")
    click.echo(f"Modules built: {len(result.modules)}, files written: {len(result.written)}, as they were: "
               f"{len(result.unchanged)}, kept: {len(result.kept)}.")

