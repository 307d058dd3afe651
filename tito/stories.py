"""What the scripts in `milestones/` are made with, and what runs one in the child process.

A script has three functions: ``measure()`` returns plain data, ``claims(found)`` says what it claims of that data, and
``draw(found)`` returns a figure. Nothing here judges: `tito/milestones.py` does, in the parent.
"""

from __future__ import annotations

import base64
import json
import math
import os
import runpy
import traceback
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

INK, PALE, GRID = "#222222", "#6B6B6B", "#E4E4E4"
BLUE, YELLOW, RED, SKY, GREEN = "#0B3C6F", "#F0D43A", "#A63C06", "#9CCDEB", "#00604A"


# ---- what a script says

def claim(what: str, came: float, relation: str, wanted: float) -> dict[str, Any]:
    """Claim that ``came relation wanted`` holds; ``relation`` is one of ``== >= <= > <``."""
    return {"what": what, "came": came, "relation": relation, "wanted": wanted}


def profiled(name: str, model: Any, x: Any) -> dict[str, Any]:
    """Measure a model on one input with the package's ``Profiler``: a row of the table that each milestone shows.

    Keys: model; parameters; flops (per sample); latency_ms (the median of 50 calls on x) and memory_kb (the peak of a
    forward pass, parameters included).
    """
    from tinytorch.perf.profiling import Profiler

    profiler = Profiler()
    return {"model": name, "parameters": profiler.count_parameters(model),
            "flops": profiler.count_flops(model, x.shape),
            "latency_ms": profiler.measure_latency(model, x, warmup=5, iterations=50),
            "memory_kb": 1024 * profiler.measure_memory(model, x.shape)["peak_memory_mb"]}


def trained(model: Any, inputs: Any, targets: Any, epochs: int, optimizer: Any, batch: int = 32) -> list[float]:
    """Train a model that tells classes apart, in shuffled batches; return the mean loss of each epoch."""
    from tinytorch.core.dataloader import DataLoader, TensorDataset
    from tinytorch.core.losses import CrossEntropyLoss
    from tinytorch.core.training import Trainer

    loader = DataLoader(TensorDataset(inputs, targets), batch, shuffle=True, seed=0)
    return list(Trainer(model, optimizer, CrossEntropyLoss()).fit(loader, epochs)["loss"])


def answers(model: Any, x: Any) -> Any:
    """Return the class with the largest score for each row of x, an array: no graph is kept."""
    from tinytorch.core.autograd import no_grad

    with no_grad():
        return model(x).argmax(axis=-1).data


def sign_test(ups: int, downs: int) -> float:
    """Return how likely so unequal a split, either way, would be if each were a fair coin's: exact, two-sided."""
    total, most = ups + downs, max(ups, downs)
    return min(1.0, 2 * sum(math.comb(total, k) for k in range(most, total + 1)) / 2 ** total)


# ---- what a script draws

def sheet(title: str, below: str, widths: Sequence[float], tall: float = 3.4, rows: int = 1) -> tuple[Any, list[Any]]:
    """Return (figure, its panels row by row), with a title above and a line in small type below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, tall), dpi=100, layout="constrained")
    figure.suptitle(title, x=0.012, ha="left", fontsize=11, fontweight="bold", color=INK)
    figure.supxlabel(below, x=0.012, ha="left", fontsize=7.5, color=PALE)
    panels = list(figure.subplots(rows, len(widths), width_ratios=list(widths), squeeze=False).flat)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8, color=PALE)
        panel.xaxis.get_major_locator().set_params(integer=True)
    return figure, panels


def image(panel: Any, pixels: Any, **how: Any) -> None:
    """Draw a matrix as an image without axes."""
    panel.imshow(pixels, **how)
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def mosaic(tiles: Any, across: int) -> Any:
    """Return many images of one size (N, H, W) as one, ``across`` in a row, with an empty line around each."""
    import numpy as np

    tiles = np.pad(np.asarray(tiles, float), ((0, -len(tiles) % across), (1, 1), (1, 1)), constant_values=np.nan)
    rows = tiles.reshape(-1, across, *tiles.shape[1:])  # (R, across, H, W)
    return rows.transpose(0, 2, 1, 3).reshape(rows.shape[0] * rows.shape[2], -1)


# ---- running a script

def run(job: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
    """Run ``job["milestone"]``; report what it found and claims, its picture, and an error in plain values."""
    try:
        script = runpy.run_path(job["milestone"])
        found = json.loads(json.dumps(script["measure"]()))  # plain data, or an error here
        report({"found": found, "claims": json.loads(json.dumps(script["claims"](found)))})
        report(_picture(script["draw"], found))
    except BaseException as error:
        report({"error": _described(error)})
    report({"done": True})


def _picture(draw: Callable[[Any], Any], found: Any) -> dict[str, Any]:
    """Draw in our style, whatever the user's is: the PNG's bytes as text, or why there is no picture."""
    try:
        import matplotlib.style
    except ImportError:
        return {"no_picture": 'pictures need matplotlib: pip install "tinytorch[viz]"'}
    page = BytesIO()
    with matplotlib.style.context(["default", {"font.size": 9, "text.color": INK, "axes.labelcolor": INK}]):
        draw(found).savefig(page, format="png", metadata={"Software": None})
    return {"picture": base64.b64encode(page.getvalue()).decode("ascii")}


def _described(error: BaseException) -> dict[str, Any]:
    """Say an error's type and message, and the last line of the script or of the package that it came through."""
    import tinytorch

    ours = Path(tinytorch.__file__).parent
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
              if Path(frame.filename).parent.name == "milestones" or Path(frame.filename).is_relative_to(ours)]
    return {"type": type(error).__name__, "message": str(error)[:2000], "place": list(places[-1]) if places else None}


def tell(script: str) -> None:
    """Do what `tito milestone run` does for this script, from any folder; for the last line of each."""
    from tito.cli import main

    os.chdir(Path(script).resolve().parent)
    main(["milestone", "run", Path(script).stem])
