"""`tito milestone ...`: what the field could and could not do, year by year, measured on the finished package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tito import ui
from tito.cli import Group
from tito.errors import TitoError

_results = click.option("--to", metavar="FOLDER", help="Where results lie (by default milestones/results).")


@click.group(cls=Group, invoke_without_command=True, short_help="Retell a year, 1957 to 2018, in numbers.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Retell a year of the field on the finished package: what it could and could not do, measured."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _folder(to: str | None) -> Path | None:
    return None if to is None else Path(to).expanduser().absolute()


@command.command("list", short_help="List the milestones and their last runs.")
@_results
@ui.json_option
def list_command(to: str | None, as_json: bool) -> None:
    """List the milestones: what each needs, whose modules the package holds, and how the last run ended."""
    from tito.milestones import milestones, standing
    from tito.project import find_root

    rows = [standing(one, _folder(to)) for one in milestones(find_root())]
    if as_json:
        ui.print_json({"milestones": rows})
    else:
        _table(("year", "milestone", "modules", "package", "last run"), [
            (str(row["year"]), row["name"], f"{len(row['modules'])} up to {row['modules'][-1]['number']:02d}",
             _whose(row), row["state"]) for row in rows])


@command.command("run", short_help="Run one: claims, numbers, a picture.")
@click.argument("milestone", required=False)
@click.option("--timeout", type=click.FloatRange(min=1), metavar="SECONDS", help="Time limit (120).")
@_results
@ui.json_option
def run_command(milestone: str | None, timeout: float | None, to: str | None, as_json: bool) -> int:
    """Run MILESTONE (perceptron, or 1957) in a process of its own, and judge what it claims.

    The numbers come from the Profiler that the package holds, yours once module 14 is complete. Result (JSON) and
    picture (PNG) are kept; the package is not written to.

    Exit status: 0 every claim holds, 1 not (it says what came), 2 could not run.
    """
    from tito.milestones import SECONDS, find_milestone, run_milestone
    from tito.project import find_root

    if milestone is None:
        raise click.UsageError("tito milestone run wants the name of a milestone, as in `tito milestone run xor`; "
                               "`tito milestone list` has the names.")
    found = find_milestone(find_root(), milestone)
    with ui.progress(f"{found.label}: running"):
        result = run_milestone(found, timeout or SECONDS, _folder(to))
    if result["exit_status"] == 2:
        raise TitoError(f"{found.label}: {result['problem']}")
    if as_json:
        ui.print_json(result)
    else:
        _say(result)
    return int(result["exit_status"])


def _say(result: dict[str, Any]) -> None:
    console = ui.console()
    console.print(f"{result['year']} · {result['title']}")
    if result["story"]:
        console.print(f"\n{result['story']}")
    console.print(f"\nOn modules {_spans([one['number'] for one in result['modules']])}: {_whose(result)}.\n")
    if result["claims"]:
        _table((), [("✓" if one["holds"] else "✗", _claim(one)) for one in result["claims"]])
        click.echo()
    rows = (result["found"] or {}).get("profile") or []
    if rows:
        _table(("model", "parameters", "FLOPs", "ms", "KB at peak"), [
            (str(row["model"]), *(_number(row[key]) for key in ("parameters", "flops", "latency_ms", "memory_kb")))
            for row in rows], right=True)
        click.echo()
    console.print(f"Reached, in {result['seconds']} s." if result["reached"] else f"Not reached: {result['problem']}")
    own = [one for one in result["modules"] if one["package"] != "reference"]
    if own and not result["reached"]:
        name = own[0]["module"].partition("_")[2] if len(own) == 1 else "NAME"
        console.print(f"`tito test {name}` says whether your module{'s' * (len(own) > 1)} "
                      f"{_spans([one['number'] for one in own])} {'is' if len(own) == 1 else 'are'} right.")
    click.echo(f"Picture:  {result['picture'] or result['no_picture']}\nResult:   {result['result']}")


def _claim(one: dict[str, Any]) -> str:
    """Write a claim: what came and, unless it is just that, what was wanted."""
    wanted = f" ({_WORDS.get(one['relation'], one['relation'])} {_number(one['wanted'])})"
    return f"{one['what']}: {_number(one['came'])}{'' if one['holds'] and one['relation'] == '==' else wanted}"


_WORDS = {"==": "want", ">=": "at least", "<=": "at most", ">": "above", "<": "below"}


def _number(value: Any) -> str:
    """Write a number: whole ones in full, others with four digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _spans(numbers: list[int]) -> str:
    """Write module numbers: 1-5, 8, 14."""
    known, parts = sorted(set(numbers)), []
    for number in known:
        if number - 1 in known:
            continue
        last = number
        while last + 1 in known:
            last += 1
        parts.append(f"{number:02d}" if last == number else f"{number:02d}-{last:02d}")
    return ", ".join(parts)


def _whose(row: dict[str, Any]) -> str:
    """Say what the package holds of these modules: the reference, or which are something else."""
    said = []
    for word in ("yours", "edited by hand", "missing", "unreadable"):
        numbers = [one["number"] for one in row["modules"] if one["package"].startswith(word)]
        if numbers:
            said.append(f"{word} {_spans(numbers)}")
    return ", ".join(said) or "the reference"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], right: bool = False) -> None:
    from rich.table import Table

    lines = [head, *rows] if head else rows
    table = Table.grid(padding=(0, 2 if head else 1, 0, 0))
    for place in range(max(map(len, lines), default=0)):
        table.add_column(justify="right" if right and place else "left", overflow="fold")
    for row in lines:
        table.add_row(*row)
    ui.console().print(table)
