"""`tito profile MODEL`: where a model's parameters, FLOPs, bytes and milliseconds go, against this machine's limits."""

from __future__ import annotations

import click

from tito import ui
from tito.errors import TitoError


@click.command(short_help="Profile a model: parameters, FLOPs, bytes, time, limits.")
@click.argument("model", default="digits_mlp")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Inputs per pass (by default the model's own).")
@click.option("--iterations", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
              help="Timed passes.")
@click.option("--remeasure", is_flag=True, help="Measure this machine's limits anew.")
@ui.json_option
def command(model: str, batch: int | None, iterations: int, remeasure: bool, as_json: bool) -> int:
    """Profile MODEL (by default digits_mlp) layer by layer.

    A digits model is first trained for a moment on the handwritten digits that TinyTorch ships. Counting, memory and
    time are three separate runs, since each instrument would disturb the others.

    Exit status: 0 done, 2 could not run.
    """
    from tito.profiling import draw, profile_model

    try:
        with ui.stages() as stage:
            result = profile_model(model, batch, iterations, remeasure, stage)
    except NotImplementedError as unwritten:
        raise TitoError(f"the package holds an export that is not finished ({unwritten}); write it and export again, "
                        "or bring the reference back with `tito build`") from unwritten
    if as_json:
        ui.print_json(result)
    else:
        draw(result)
    return 0
