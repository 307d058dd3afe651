"""`tito module ...`: begin a module, go on, hand it in, go back, and see where each one stands."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import click

from tito import ui
from tito.cli import Group
from tito.commands.test import command as test_command
from tito.errors import TitoError

_name = click.argument("name")
_source = click.option("--source", type=click.Choice(["notebook", "twin"]), help="Which counts if both were edited.")
_launch = click.option("--open", "launch", is_flag=True, help="Open it in Jupyter.")


@click.group(cls=Group, invoke_without_command=True, short_help="Start, resume, complete or reset a module.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Begin a module, go on, hand it in, go back; and see where each one stands, as the files say."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _module(name: str) -> Any:
    from tito.project import find_module, find_root

    return find_module(find_root(), name)


# ---- begin and go on ----

@command.command("start", short_help="Begin: write the notebook where none is.")
@_name
@_launch
@ui.json_option
def start_command(name: str, launch: bool, as_json: bool) -> int:
    """Begin module NAME: write its notebook and .py twin as released, each only where nothing is.

    A file that is there is never written over. Exit status: 0 ready, 2 could not.
    """
    from tito.desk import start

    module = _module(name)
    with ui.progress(f"{module.label}: looking at what it needs"):
        result = start(module)
    return _opened(result, launch, as_json)


@command.command("resume", short_help="Go on with what you began.")
@_name
@_launch
@ui.json_option
def resume_command(name: str, launch: bool, as_json: bool) -> int:
    """Go on with module NAME: where its notebook is, what is not written yet, and what comes next.

    Exit status: 0 ready, 2 there is no notebook that can be opened (and how to get one).
    """
    from tito.desk import resume

    module = _module(name)
    with ui.progress(f"{module.label}: looking at what it needs"):
        result = resume(module)
    return _opened(result, launch, as_json)


def _opened(result: dict[str, Any], launch: bool, as_json: bool) -> int:
    if launch and not find_spec("jupyterlab"):
        raise TitoError("Jupyter is not installed here; `pip install -e '.[notebook]'` in the checkout installs it.")
    if as_json:
        ui.print_json(result)
    else:
        _say_open(result)
    if launch:
        return subprocess.run([sys.executable, "-m", "jupyterlab", result["path"]], check=False).returncode
    return 0


def _say_open(result: dict[str, Any]) -> None:
    console, number = ui.console(), result["module"].partition("_")[0]
    console.print(f"{number} · {result['title']}")
    twin = result["twin"].rpartition("/")[2]
    if result["written"]:
        console.print(f"Written as released: {' and '.join(result['written'])}.")
    if result["problem"]:
        console.print(result["problem"])
    elif result["state"] == "untouched":
        as_it_was = "" if result["written"] else ", as released"
        console.print(f"{result['notebook']} is ready{as_it_was}: nothing is written in it yet.")
    else:
        left = result["unwritten"]
        console.print(f"Your work is in {twin if result['counts'] == 'twin' else result['notebook']}: " + (
            f"{len(left)} {'part is' if len(left) == 1 else 'parts are'} not written yet, first {left[0]}."
            if left else "it is complete." if result["complete"] else "every part is written."))
    for state in dict.fromkeys(one["package"] for one in result["prerequisites"]):
        names = [one["module"] for one in result["prerequisites"] if one["package"] == state]
        console.print(f"It needs {', '.join(names)}; the package holds: {state}.")
    if result["needs"]:
        console.print(result["needs"])
    click.echo(f"\nOpen it:  {result['open']}\nThen:     {result['next']}")


# ---- hand in ----

command.add_command(test_command, "test")


@command.command("complete", short_help="Hand in: grade, and export once all passes.")
@_name
@_source
@ui.timeout_option
@ui.json_option
def complete_command(name: str, source: str | None, timeout: float | None, as_json: bool) -> int:
    """Hand in module NAME: grade it and, once all of it has run and passed, export it into the package.

    Later modules then import what you wrote. What is exported is exactly what was graded.

    Exit status: 0 complete, 1 not yet (nothing is changed), 2 could not run.
    """
    from tito.desk import complete
    from tito.grading import verdict

    module = _module(name)
    with ui.progress(f"{module.label}: reading the notebook") as say:
        result = complete(module, source, timeout, say)
    if as_json:
        ui.print_json(result)
    else:
        verdict.draw(result)
        ui.console().print(result["message"])
        if result["exported"]:
            click.echo(f"\nThen:  {result['next']}")
    return int(result["exit_status"])


# ---- go back, keep in step ----

@command.command("reset", short_help="Go back to the release; your work is kept aside.")
@_name
@click.option("--package", "only_package", is_flag=True, help="Put the reference back into the package instead.")
@click.option("--to", metavar="BACKUP", help="Put this backup back instead.")
@ui.json_option
def reset_command(name: str, only_package: bool, to: str | None, as_json: bool) -> int:
    """Put notebook and .py twin of module NAME back to the release; what held work is kept as a backup and named.

    With --package the reference goes back into the package, and the notebook stays. Exit status: 0 done, 2 could not.
    """
    from tito import desk

    if only_package and to:
        raise click.UsageError("--package and --to do not go together.")
    module = _module(name)
    result = desk.reset_to(module, to) if to else desk.reset_package(module) if only_package else desk.reset(module)
    if as_json:
        ui.print_json(result)
    else:
        what = f"{to} is back in" if to else "The reference is back in" if only_package else "As released:"
        ui.console().print(f"{what} {' and '.join(result['written'])}.")
        _say_kept(result)
    return 0


@command.command("sync", short_help="Write the .py twin from the notebook, or back.")
@_name
@click.option("--from", "source", type=click.Choice(["notebook", "twin"]), help="Which to take if both were edited.")
@ui.json_option
def sync_command(name: str, source: str | None, as_json: bool) -> int:
    """Write the .py twin of module NAME from its notebook, or the notebook from the twin.

    What that replaces is kept as a backup where it held work. Exit status: 0 in step, 2 could not.
    """
    from tito.desk import sync

    result = sync(_module(name), source)
    if as_json:
        ui.print_json(result)
    else:
        ui.console().print(result["message"])
        _say_kept(result)
    return 0


def _say_kept(result: dict[str, Any]) -> None:
    for one in result["kept"]:
        ui.console().print(f"What was there is kept in {one['file']}; this brings it back:")
        click.echo(f"  {one['back']}")


# ---- where each one stands ----

@command.command("list", short_help="List the modules and how far you are.")
@ui.json_option
def list_command(as_json: bool) -> None:
    """List the modules, each with its bonus notebooks: number, name, points, and how far you are."""
    from tito.project import find_root, modules
    from tito.standing import status

    rows = [status(module) for module in modules(find_root())]
    if as_json:
        ui.print_json({"modules": rows})
    else:
        _table(rows, "progress")


@command.command("status", short_help="Say more about one module, or all.")
@click.argument("name", required=False)
@ui.json_option
def status_command(name: str | None, as_json: bool) -> None:
    """Say where module NAME stands, or every module: your notebook, and what the package holds."""
    from tito.project import find_root, modules
    from tito.standing import status

    rows = [status(module) for module in ([_module(name)] if name else modules(find_root()))]
    if as_json:
        ui.print_json({"modules": rows})
    else:
        _table(rows, "your notebook", "package")


def _table(rows: list[dict[str, Any]], *columns: str) -> None:
    from rich.table import Table

    console = ui.console()
    table = Table.grid(padding=(0, 2, 0, 0))
    for heading in ("#", "module", "points", *columns):
        table.add_column(justify="right" if heading == "points" else "left", overflow="fold")
    table.add_row("#", "module", "points", *columns)
    for row in rows:
        told = {"progress": row["progress"], "your notebook": row["state"], "package": row["package"]}
        table.add_row(f"{row['number']:02d}", row["name"], "bonus" if row["bonus"] else str(row["points"]),
                      *(told[column] for column in columns))
    console.print(table)
    for row in rows:
        if row["problem"]:
            console.print(f"\n{row['number']:02d}_{row['name']}: {row['problem']}")
