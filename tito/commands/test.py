"""`tito test NAME`: grade what the learner wrote."""

from __future__ import annotations

import click

from tito import ui


@click.command(short_help="Grade what you wrote in a module's notebook.")
@click.argument("name")
@click.option("--source", type=click.Choice(["notebook", "twin"]), help="Which to grade, where both were edited.")
@ui.timeout_option
@click.option("--all", "everything", is_flag=True, help="Show every problem, and what the cells printed.")
@ui.json_option
def command(name: str, source: str | None, timeout: float | None, everything: bool, as_json: bool) -> int:
    """Grade what you wrote in the notebook of module NAME ("profiling", "14" or "14_profiling").

    Runs the graded cells, then the module's tests on what the notebook exports. The checkout is not changed.
    A notebook nobody has touched earns 0 points; the package is tested instead. A bonus notebook is checked in the
    same way and gives no points.

    Exit status: 0 all checks and all tests, 1 not yet, 2 could not run.
    """
    from tito.grading import runner, verdict
    from tito.project import find_module, find_root

    module = find_module(find_root(), name)
    with ui.progress(f"{module.label}: reading the notebook") as say:
        result = runner.grade(module, source, timeout, say)
    if as_json:
        ui.print_json(result)
    else:
        verdict.draw(result, everything)
    return int(result["exit_status"])
