"""`tito module list` and `tito module status`: where each module stands, as the files say."""

from __future__ import annotations

import json
from typing import Any

import click

from tito import ui
from tito.cli import Group
from tito.errors import TitoError


@click.group(cls=Group, invoke_without_command=True, short_help="Say where each module stands.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Say where each module stands, as the files say."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("list", short_help="List the modules.")
@ui.json_option
def list_command(as_json: bool) -> None:
    """List the modules, each with its bonus notebooks: number, name, title, points, and whether you wrote in it."""
    from tito.project import find_root, modules

    root = find_root()
    _show([status(module) for module in modules(root)], as_json)


@command.command("status", short_help="Say more about one module, or all.")
@click.argument("name", required=False)
@ui.json_option
def status_command(name: str | None, as_json: bool) -> None:
    """Say where module NAME stands, or every module: your notebook, and what the package holds."""
    from tito.project import find_module, find_root, modules

    root = find_root()
    _show([status(module) for module in ([find_module(root, name)] if name else modules(root))], as_json, details=True)


def status(module: Any) -> dict[str, Any]:
    """Return where a module stands, read from the disk and nothing else."""
    state, problem = _state(module)
    try:
        title, points = module.title, _points(module)
    except TitoError as error:  # one bad source hides no other module
        title, points, problem = module.name.capitalize(), 0, problem or str(error)
    return {"number": module.number, "name": module.name, "folder": module.folder, "title": title,
            "bonus": module.bonus, "points": points, "state": state, "package": _package(module), "problem": problem}


def _state(module: Any) -> tuple[str, str | None]:
    """Say whether the notebook is untouched, edited, missing or unreadable; an edited twin counts as edited."""
    from tito.grading.submission import read, read_notebook

    try:
        if read_notebook(module.notebook) is None and not module.twin.is_file():
            return "missing", None
        return ("untouched" if read(module).untouched else "edited"), None
    except TitoError as error:
        if not module.notebook.is_file():
            return "missing", str(error)
        return ("edited" if "--source" in str(error) else "unreadable"), str(error)
    except OSError as error:
        return "unreadable", f"{error.filename}: {error.strerror}"


def _points(module: Any) -> int:
    """Add up the points its source gives (the notebook's, where there is no source)."""
    from tito.notebooks.read import grader, load
    from tito.project import read_text

    if not module.source.is_file():
        try:
            return sum(int(grader(cell).get("points", 0)) for cell in load(module.notebook)["cells"])
        except (TitoError, AttributeError, TypeError, ValueError):
            return 0
    points = 0
    for line in read_text(module.source, module.source.relative_to(module.root).as_posix()).splitlines():
        if line.startswith("# %%") and "nbgrader=" in line:
            try:
                data = json.JSONDecoder().raw_decode(line.split("nbgrader=", 1)[1])[0]
                points += int(data.get("points", 0)) if data.get("grade") else 0
            except ValueError:
                continue  # `tito build` says what is wrong with this line
    return points


def _package(module: Any) -> str:
    """Say what the package holds: the reference, the learner's export, an edit by hand, or nothing."""
    from tito.notebooks.export import HEADER, is_edited

    try:
        text = module.package.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, TitoError):
        return "missing"
    if is_edited(text) or not text.startswith(HEADER):
        return "edited by hand"
    return "yours" if text.startswith(f"{HEADER}modules/") else "reference"


def _show(rows: list[dict[str, Any]], as_json: bool, details: bool = False) -> None:
    if as_json:
        ui.print_json({"modules": rows})
        return
    from rich.table import Table

    console = ui.console()
    table = Table.grid(padding=(0, 2, 0, 0))
    for heading in ("#", "module", "title", "points", "your notebook", *(["package"] if details else [])):
        table.add_column(justify="right" if heading == "points" else "left", overflow="fold")
    table.add_row("#", "module", "title", "points", "your notebook", *(["package"] if details else []))
    for row in rows:
        table.add_row(f"{row['number']:02d}", row["name"], row["title"],
                      "bonus" if row["bonus"] else str(row["points"]), row["state"],
                      *([row["package"]] if details else []))
    console.print(table)
    for row in rows:
        if row["problem"]:
            console.print(f"{row['number']:02d}_{row['name']}: {row['problem']}")
