"""`tito doctor`: is everything here that is needed, and is it in order?"""

from __future__ import annotations

from typing import Any

import click

from tito import ui


@click.command("doctor", short_help="Check the environment and the checkout.")
@click.option("--fix", is_flag=True, help="Delete the temporary files that killed runs left; nothing else.")
@ui.json_option
def command(fix: bool, as_json: bool) -> int:
    """Check Python, what is installed, Jupyter's kernel, the checkout, and where things are written.

    One line per check: ok, or the problem and what to do; --json has the versions.

    Exit status: 0 all is well, 1 there is a problem.
    """
    from tito.doctor import examine
    from tito.project import find_root

    root = find_root()
    with ui.progress("looking around"):
        result = examine(root, fix)
    if as_json:
        ui.print_json(result)
        return 0 if result["ok"] else 1
    from rich.table import Table

    console, table = ui.console(), Table.grid(padding=(0, 2, 0, 0))
    for column in ("fold", "fold", "fold"):
        table.add_column(overflow=column)  # type: ignore[arg-type]
    for line in _short(result["checks"]):
        table.add_row("✓" if line["ok"] else "✗", line["about"], line["found"])
        if not line["ok"] and line["todo"]:
            table.add_row("", "", f"→ {line['todo']}")
    console.print(table)
    problems = sum(not line["ok"] for line in result["checks"])
    console.print("\nAll is well." if result["ok"] else f"\n{problems} {'problem' if problems == 1 else 'problems'}.")
    return 0 if result["ok"] else 1


def _short(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tell what is installed as it should be in one line, so that all of it is one screen."""
    well = [line["about"] for line in checks if line["ok"] and line["installed"]]
    together = {"about": "installed", "ok": True, "found": f"{', '.join(well)}: the versions that are wanted"}
    first = next((index for index, line in enumerate(checks) if line["about"] in well), 0)
    rest = [line for line in checks if line["about"] not in well]
    return [*rest[:first], together, *rest[first:]] if well else checks
