"""`tito profile MODEL`: where a model's parameters, FLOPs, bytes and milliseconds go, against this machine's limits."""

from __future__ import annotations

import click

from tito import ui
from tito.errors import TitoError


class Shape(click.ParamType):
    """Sizes joined by commas, such as ``32,784``."""

    name = "shape"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the sizes as a tuple of positive ints."""
        sizes = str(value).strip("()").rstrip(",").split(",")
        if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
            self.fail(f"{value} came; want sizes above 0 joined by commas, batch first, like 32,784", param, ctx)
        return tuple(map(int, sizes))


@click.command(short_help="Profile a model: counts, bytes, time, limits.")
@click.argument("model", default="digits_mlp")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Inputs per pass (by default the model's own).")
@click.option("--input-shape", type=Shape(), metavar="N,...", help="What goes in, batch first (by default the zoo's).")
@click.option("--iterations", type=click.IntRange(min=1), metavar="N", help="Timed passes (by default what fits).")
@click.option("--count-only", is_flag=True, help="Count on shapes; build and run nothing.")
@click.option("--remeasure", is_flag=True, help="Measure this machine's limits anew.")
@click.option("--html", metavar="FILE", help="Write one page with all tables and pictures.")
@ui.json_option
def command(model: str, batch: int | None, input_shape: tuple[int, ...] | None, iterations: int | None,
            count_only: bool, remeasure: bool, html: str | None, as_json: bool) -> int:
    """Profile MODEL (by default digits_mlp) layer by layer.

    MODEL is a name of the zoo, or package.module:factory. A digits model is first trained for a moment on the
    handwritten digits that TinyTorch ships. Counting, memory and time are three separate runs, since each instrument
    would disturb the others. What does not fit into this machine's memory is counted on shapes only, and says so.
    The page of --html needs no network; its pictures need matplotlib.

    Exit status: 0 done, 2 could not run.
    """
    from tito.profiling import draw, profile_model
    from tito.report import place_for, write_report

    page = None if html is None else place_for(html)
    try:
        with ui.stages() as stage:
            result = profile_model(model, batch, iterations, remeasure, stage, input_shape, count_only,
                                   details=page is not None)
    except NotImplementedError as unwritten:
        raise TitoError(f"the package holds an export that is not finished ({unwritten}); `tito module status` says "
                        "whose, and `tito module reset NAME --package` brings its reference back until you have "
                        "written it.") from unwritten
    except (ValueError, TypeError, IndexError, MemoryError) as error:
        raise TitoError(f"{model}: {error or 'not enough memory'}") from error
    if page is not None:
        write_report(result, page)
    if as_json:
        ui.print_json(result if page is None else {**result, "html": str(page)})
    else:
        draw(result)
        if page is not None:
            click.echo(f"\nThe page is {page}")
    return 0
