"""`tito grade DIR`: grade what a class handed in."""

from __future__ import annotations

from pathlib import Path

import click

from tito import ui
from tito.errors import TitoError


@click.command(short_help="Grade a folder of submissions.")
@click.argument("folder", metavar="DIR")
@click.option("--module", "name", metavar="NAME", help="Take this module's files; also those that do not say theirs.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Submissions at a time (by default one a core).")
@click.option("--out", metavar="FOLDER", help="Where the grades go (by default beside DIR: DIR-grades).")
@ui.timeout_option
@click.option("--no-tests", is_flag=True, help="Give points only; do not run the module's tests.")
@click.option("--again", is_flag=True, help="Grade all of them anew.")
@click.option("--workers", metavar="ADDRESS", help="Let a Dask cluster grade: its scheduler's address, tcp://host:port.")
@ui.json_option
def command(folder: str, name: str | None, jobs: int | None, out: str | None, timeout: float | None, no_tests: bool,
            again: bool, workers: str | None, as_json: bool) -> int:
    """Grade the submissions in DIR into grades.csv and grades.json.

    DIR holds a folder per student, or a file per student (ana.ipynb, ana_profiling_dev.ipynb), or is nbgrader's course
    or its submitted/. Each file is graded by this checkout, as `tito test` grades, with the same limits.

    Every result is on the disk before the next one: after a stop, the same command goes on from there, and grades only
    what is new or changed.

    Exit status: 0 all graded, 1 some could not be, 2 could not run.
    """
    from tito.grading import batch, gradebook
    from tito.grading.job import GRADED
    from tito.grading.limits import cores
    from tito.project import find_module, find_root

    root = find_root()
    place = Path(folder).resolve()
    if not place.is_dir():
        raise TitoError(f"{folder} is no folder; want the one that holds the submissions.")
    goal = Path(out).resolve() if out else place.parent / f"{place.name}-grades"
    reached = (0, 0)
    try:
        with ui.counter("submissions") as show:
            def count(done: int, total: int) -> None:
                nonlocal reached
                reached = done, total
                show(done, total)

            grades = batch.grade_folder(
                place, root, goal, only=find_module(root, name) if name else None, jobs=jobs or cores(),
                timeout=timeout, tests=not no_tests, again=again, workers=workers, count=count)
    except BaseException as stop:
        if reached[1] and not isinstance(stop, Exception):
            click.echo(f"{reached[0]} of {reached[1]} are done and kept in {goal}; the same command "
                       f"{'without --again ' if again else ''}goes on from there.", err=True)
        raise
    grades["summary"] = gradebook.summary(grades)
    gradebook.write(grades, goal)
    if as_json:
        ui.print_json(grades)
    else:
        gradebook.draw(grades, goal)
    return int(any(row["status"] != GRADED for row in grades["submissions"]))
