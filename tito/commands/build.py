"""`tito build`: make notebooks, twins and package from `src/`, or compare them with what is there."""

from __future__ import annotations

from dataclasses import asdict

import click

from tito import ui


@click.command("build")
@click.argument("names", nargs=-1, metavar="[MODULE]...")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if anything differs from its source.")
@ui.json_option
def command(names: tuple[str, ...], only_check: bool, as_json: bool) -> int:
    """Build the learners' notebooks, their .py twins and the package from src/.

    All modules, or the named ones (layers, 3 or 03_layers). A notebook somebody has worked in is kept.
    """
    from tito.notebooks.build import BuildError, build, check
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
    differences = getattr(result, "differences", [])
    if as_json:
        ui.print_json(asdict(result))
        return 1 if differences else 0
    for difference in differences:
        click.echo(f"✗ {difference}")
    for name in getattr(result, "written", []):
        click.echo(f"✓ {name}")
    for name in result.kept:
        click.echo(f"· {name}: kept, somebody has worked in it")
    for name in getattr(result, "orphans", []):
        click.echo(f"! {name}: its source is gone; delete it if nobody needs it")
    count = f"{len(result.modules)} module{'s' if len(result.modules) != 1 else ''}"
    if only_check:
        click.echo(f"{count} checked, " + (f"{len(differences)} differences." if differences else "no difference."))
    else:
        click.echo(f"{count} built: {len(result.written)} files written, {len(result.unchanged)} as they were, "
                   f"{len(result.kept)} kept.")
    return 1 if differences else 0
