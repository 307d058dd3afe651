"""`tito release DIR`: write the course for stock nbgrader."""

from __future__ import annotations

from pathlib import Path

import click

from tito import ui


@click.command(short_help="Write the course for nbgrader.")
@click.argument("folder", metavar="DIR")
@click.argument("names", nargs=-1, metavar="[MODULE]...")
@ui.json_option
def command(folder: str, names: tuple[str, ...], as_json: bool) -> int:
    """Write all modules, or the named ones, into DIR as a course that stock nbgrader grades.

    DIR gets source/ (an assignment per module, with solutions), nbgrader_config.py and a README with nbgrader's
    commands. It must be new, or made by this command; what was edited there since is kept.

    Exit status: 0 written, 2 could not write.
    """
    from tito.notebooks.course import release_course
    from tito.project import find_root

    place = Path(folder).resolve()
    with ui.progress("reading src/"):
        result = release_course(place, find_root(), names)
    if as_json:
        ui.print_json({"folder": str(place), **result})
        return 0
    for name in result["written"]:
        click.echo(f"✓ {name}")
    for name in result["kept"]:
        click.echo(f"· {name}: kept, it was edited or is not ours")
    click.echo(f"Files written: {len(result['written'])}, as they were: {len(result['unchanged'])}, kept: "
               f"{len(result['kept'])}. The commands for nbgrader are in {place / 'README.md'}")
    return 0
