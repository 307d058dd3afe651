"""What `tito profile` does: count a model on shapes; if it fits, build it, train it if it reads digits, profile it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from tito import ui
from tito.errors import TitoError

Stage = Callable[..., None]
EPOCHS, BATCH, SEED = 20, 64, 0
ROWS = 45  # a table of layers is cut at the depth that keeps it this short


def _quiet(text: str, done: int = 0, total: int | None = None) -> None:
    """Show nothing."""


def find_model(name: str, input_shape: tuple[int, ...] | None = None) -> tuple[Callable[[], Any], tuple[int, ...]]:
    """Return (factory, input shape) of the zoo's model ``name`` or of ``package.module:factory``.

    ``input_shape`` overrules the zoo's; for a factory of one's own it must be given.
    """
    import difflib

    from tinytorch import zoo

    if ":" not in name:
        models = zoo.models()
        if name not in models:
            close = difflib.get_close_matches(name, models, n=2, cutoff=0.4) or list(models)
            raise TitoError(f"there is no model {name!r} in the zoo; there is {', '.join(close)} "
                            "(a model of your own: package.module:factory)")
        factory, shape = models[name]
        return factory, input_shape or shape
    module_name, _, attribute = name.strip().partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise TitoError(f"{name!r} names no factory; want package.module:factory, as Python imports it")
    factory = getattr(importlib.import_module(module_name), attribute)
    if not callable(factory):
        raise TitoError(f"{name} is a {type(factory).__name__}; want a function or class that makes a model")
    if input_shape is None:
        raise TitoError(f"{name}: say what goes in, batch first, like --input-shape 32,784")
    return factory, input_shape


@contextmanager
def guest(name: str) -> Iterator[None]:
    """Run somebody's own model: found from the current folder, its prints on stderr, its faults in one sentence."""
    if ":" not in name:
        yield
        return
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (TitoError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: a model does not decide what this command's exit status is
        if type(error).__module__.startswith("tito."):  # a signal's own
            raise
        raise TitoError(f"{name}: {type(error).__name__}: {error}".rstrip(": ")) from error
    finally:
        if here in sys.path:  # the guest may have changed it, and the folder
            sys.path.remove(here)


def count_model(factory: Callable[[], Any], shape: tuple[int, ...]) -> Any:
    """Build the model under ``shape_only`` and return its ``FlopReport``: no weight is allocated, nothing computed."""
    from tinytorch.core.tensor import shape_only
    from tinytorch.perf.profiling import flop_report

    with shape_only():
        model = factory()
    getattr(model, "eval", lambda: None)()
    return flop_report(model, shape)


def memory_available() -> int:
    """Return the bytes this process may still take: what the machine has free, or less where a container says so."""
    import psutil

    free = psutil.virtual_memory().available
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
        free = free if limit == "max" else min(free, int(limit) - int(used))
    except (OSError, ValueError):
        pass  # no such container
    return free


def memory_needed(report: Any) -> int:
    """Return about how many bytes building and running takes.

    Weights are float32, and the largest layer's are drawn in float64; running touches the widest op's on top of them.
    """
    def largest(cost: Any) -> int:
        return max([cost.own("parameters"), *map(largest, cost.children)])

    return 4 * report.parameters + max(8 * largest(report.by_layer), report.widest_op)


def train_on_digits(model: Any, stage: Stage = _quiet, flat: bool = True) -> dict[str, Any]:
    """Train ``model`` on the shipped digits for a moment; return what came of it on the held-out images.

    Images are rows of 64 pixels, or with ``flat=False`` (1, 8, 8).
    """
    from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
    from tinytorch.core.losses import CrossEntropyLoss
    from tinytorch.core.optimizers import Adam
    from tinytorch.core.training import Trainer

    def dataset(split: str) -> Any:
        images, labels = load_digits(split)
        return TensorDataset(images if flat else images.reshape(-1, 1, 8, 8), labels)

    train, test = dataset("train"), dataset("test")
    loader = DataLoader(train, batch_size=BATCH, shuffle=True, seed=SEED)
    text, total = "training on handwritten digits", EPOCHS * len(loader)
    trainer = Trainer(model, Adam(model.parameters(), lr=0.01), CrossEntropyLoss())
    stage(text, 0, total)
    trainer.fit(loader, EPOCHS, on_batch=lambda progress: stage(text, progress.steps, total))
    found = trainer.evaluate(DataLoader(test, batch_size=BATCH))
    for parameter in model.parameters():
        parameter.grad = None
    return {"images": len(train), "held_out": len(test), "epochs": EPOCHS, "accuracy": found.accuracy}


def profile_model(name: str, batch: int | None = None, iterations: int | None = None, remeasure: bool = False,
                  stage: Stage = _quiet, input_shape: tuple[int, ...] | None = None,
                  count_only: bool = False, details: bool = False) -> dict[str, Any]:
    """Count the model ``name`` and, unless ``count_only`` or too big for this machine, profile a forward pass.

    Returns plain data: ``count`` (None where a run on shapes is not possible); then ``training``, ``limits`` and
    ``profile``, or ``not_run``: why not. ``details`` adds what a report shows beside it: ``training_memory``, and of a
    pass that ran ``ops``, ``memory_timeline`` and ``batch_sizes``.
    """
    with guest(name):
        return _profile_model(name, batch, iterations, remeasure, stage, input_shape, count_only, details)


def _profile_model(name: str, batch: int | None, iterations: int | None, remeasure: bool, stage: Stage,
                   input_shape: tuple[int, ...] | None, count_only: bool, details: bool) -> dict[str, Any]:
    """Do what ``profile_model`` says."""
    from tinytorch import zoo
    from tinytorch.core.autograd import no_grad
    from tinytorch.core.layers import manual_seed

    factory, shape = find_model(name, input_shape)
    shape = (batch or shape[0], *shape[1:])
    stage("counting on shapes")
    try:
        report = count_model(factory, shape)
    except (ValueError, TypeError, IndexError):  # it needs real values; what it then says is said by the real run
        if count_only:
            raise
        report = None
    result = {"model": name, "input_shape": list(shape), "date": time.strftime("%Y-%m-%d %H:%M"),
              "count": report and _plain(report.to_dict())}
    if details and report:
        result["training_memory"] = training_step(factory, shape)
    needed, free = memory_needed(report) if report else 0, memory_available()
    if count_only or needed > free:
        why = "asked only to count" if count_only else (
            f"running it takes about {needed / 2**30:,.1f} GB, and {free / 2**30:,.1f} GB are free")
        return {**result, "not_run": why}
    stage(f"building {name}")
    manual_seed(SEED)
    model = factory()
    digits = factory in zoo.TRAINED_ON_DIGITS
    result["training"] = train_on_digits(model, stage, flat=len(shape) == 2) if digits else None
    getattr(model, "eval", lambda: None)()
    with no_grad():
        return {**result, **_measure(model, shape, digits, iterations, remeasure, stage, details)}


def _measure(model: Any, shape: tuple[int, ...], digits: bool, iterations: int | None, remeasure: bool,
             stage: Stage, details: bool) -> dict[str, Any]:
    """Profile a forward pass on this machine: its limits and the profile, as plain data."""
    import numpy as np

    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.profiling import machine_limits, make_input, profile_forward_pass

    x = make_input(model, shape)
    if digits and shape[1:] in ((64,), (1, 8, 8)):
        from tinytorch.core.dataloader import load_digits

        x = Tensor(np.resize(load_digits("test")[0], shape))
    stage("measuring this machine's limits")
    limits = machine_limits(refresh=remeasure)
    stage("profiling: counting, memory, time")
    profile = profile_forward_pass(model, x, limits=limits, iterations=iterations)
    more = _details(model, x, profile, stage) if details else {}
    return {"profile": _plain(profile), **more,
            "limits": {"peak_gflops": limits.peak_gflops, "dispatch_us": limits.dispatch_us,
                       "bandwidth_gbs": limits.bandwidth(2**30), "bandwidth_by_footprint": _plain(limits.bandwidth_gbs),
                       "source": limits.source}}


def training_step(factory: Callable[[], Any], shape: tuple[int, ...]) -> dict[str, Any] | None:
    """Return what a training step would hold (``training_memory``), None where that cannot be told on shapes."""
    from tinytorch.core.tensor import shape_only
    from tinytorch.perf.profiling import training_memory

    try:
        with shape_only():
            model = factory()
        return _plain(training_memory(model, shape))
    except (ValueError, TypeError, IndexError):
        return None


def _details(model: Any, x: Any, profile: dict[str, Any], stage: Stage) -> dict[str, Any]:
    """Return what a report shows beside the profile: ``ops``, ``memory_timeline``, ``batch_sizes`` or why not."""
    from tinytorch.perf.profiling import profile_batch_sizes

    stage("op by op, and the memory over the pass")
    found = {"ops": op_rows(model, x, 5 if profile["latency_ms"] < 1000 else 1), "memory_timeline": timeline(model, x)}
    stage("batch sizes")
    sizes = batch_sizes(x.shape, profile)
    if len(sizes) == 1:
        why = "a larger batch would take more than half a second, or more than half of the free memory"
        return {**found, "batch_sizes": [], "batch_sizes_why": why}
    try:
        rows = _plain(profile_batch_sizes(model, x.shape, sizes))
    except (ValueError, TypeError, IndexError, MemoryError) as error:
        return {**found, "batch_sizes": [], "batch_sizes_why": str(error) or "not enough memory"}
    return {**found, "batch_sizes": rows}


def batch_sizes(shape: tuple[int, ...], profile: dict[str, Any]) -> tuple[int, ...]:
    """Return the batch sizes to try: those of which a pass should take under half a second and half the free memory.

    The batch that was profiled is among them, and one sample.
    """
    own, free = shape[0], memory_available()
    return tuple(sorted({1, own, *(size for size in (4, 16, 64, 256, 1024) if size <= 32 * own and (
        profile["latency_ms"] * size / own < 500 and profile["peak_memory_mb"] * size / own * 2**20 < free / 2))}))


def op_rows(model: Any, x: Any, passes: int = 5) -> list[dict[str, Any]]:
    """Return a row per op, slowest first: op, calls, ms (median of the passes), share, flops (None: no rule), bytes.

    FLOPs and bytes, temporaries included, are of one pass: they add up to the whole pass's.
    """
    from statistics import median

    from tinytorch.perf.profiling import event_bytes, event_flops, observe_forward

    heard = [observe_forward(model, x) for _ in range(passes)]
    rows: dict[str, dict[str, Any]] = {}
    for event in heard[-1]:
        row = rows.setdefault(event.op.name, {"op": event.op.name, "calls": 0, "flops": 0, "bytes": 0})
        cost = event_flops(event)
        row["calls"] += 1
        row["bytes"] += int(event_bytes(event))
        row["flops"] = None if cost is None or row["flops"] is None else int(row["flops"] + cost)
    for name, row in rows.items():
        row["ms"] = median(sum(e.end_ns - e.start_ns for e in one if e.op.name == name) / 1e6 for one in heard)
    whole = sum(row["ms"] for row in rows.values())
    return sorted(({**row, "share": row["ms"] / whole if whole else 0.0} for row in rows.values()),
                  key=lambda row: -row["ms"])


def timeline(model: Any, x: Any) -> list[list[Any]]:
    """Return [ms, bytes alive over what was before, layer] at the end of every op of one pass of its own."""
    import gc
    import tracemalloc

    from tinytorch.core.tensor import listen
    from tinytorch.perf.profiling import _named_layers, forward_of, observe_forward, untouched

    names, out = _named_layers(model), []

    def hear(event: Any) -> None:
        around = [names[entry.owner][0] for entry in event.scope if entry.owner in names]
        out.append([event.end_ns, tracemalloc.get_traced_memory()[0] - before, around[-1] if around else ""])

    observe_forward(model, x)  # what a first pass allocates for good is no part of the picture
    with untouched(model), listen(hear):
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            start = time.perf_counter_ns()
            forward_of(model)(x)
        finally:
            tracemalloc.stop()
    return [[(end - start) / 1e6, held, name] for end, held, name in out]


def _plain(value: Any) -> Any:
    """Turn a profile into what JSON carries: dicts, lists, numbers, text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value


def tree_rows(cost: dict[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """Return a count's layers as rows with name, type, depth, calls, parameters, flops, contractions, bytes."""
    own = {key: value for key, value in cost.items() if key != "children"} | {"depth": depth}
    return [own] + [row for child in cost["children"] for row in tree_rows(child, depth + 1)]


def upper_levels(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the rows down to the deepest level that keeps the table short (at least one), and how many it cut.

    A share is of time a layer spends itself; what is cut is added to the row that holds it.
    """
    levels = range(max(row["depth"] for row in rows), 0, -1)
    depth = next((d for d in levels if sum(row["depth"] <= d for row in rows) <= ROWS), 1)
    kept: list[dict[str, Any]] = []
    for row in rows:
        if row["depth"] <= depth:
            kept.append(dict(row))
        elif "share" in row:
            kept[-1]["share"] += row["share"]
    return kept, len(rows) - len(kept)


def merge_alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a count's rows with each run of layers alike, such as a GPT's blocks, as one row ``0-11 ..., each``."""
    out: list[dict[str, Any]] = []
    for row in rows:
        alike = [key for key in row if key != "name"]
        if out and all(out[-1].get(key) == row[key] for key in alike):
            out[-1]["name"] = f"{out[-1]['name'].split('-')[0]}-{row['name'].rsplit('.', 1)[-1]}"
        else:
            out.append(dict(row))
    return [row | {"type": f"{row['type']}, each"} if "-" in row["name"] else row for row in out]


def _ms(value: float) -> str:
    """Write milliseconds: four decimals, and one from 100 on."""
    return f"{value:.4f}" if value < 100 else f"{value:,.1f}"


# the columns of the table of layers: what a narrow screen leaves out first comes first
_DROPPED = ("bytes", "GFLOP/s", "bottleneck", "params", "limited by", "ms", "FLOPs")


def layer_columns(rows: list[dict[str, Any]], measured: bool, exact: bool) -> dict[str, list[str]]:
    """Return title -> texts of the rows, without the names."""
    from tinytorch.perf.profiling import short

    def number(value: int) -> str:
        return f"{value:,}" if exact else short(value)

    out = {title: [number(row[key]) for row in rows]
           for title, key in (("params", "parameters"), ("FLOPs", "flops"), ("bytes", "bytes"))}
    if not measured:
        whole = rows[0]["flops"]
        return {**out, "share": [f"{row['flops'] / whole:.0%}" if whole else "-" for row in rows]}
    return {**out, "ms": [_ms(row["latency_ms"]) for row in rows], "share": [f"{row['share']:.0%}" for row in rows],
            "GFLOP/s": [f"{row['gflops_per_second']:.2f}" for row in rows],
            "bottleneck": [row["bottleneck"] for row in rows], "limited by": [row["limited_by"] for row in rows]}


def layer_label(row: dict[str, Any]) -> str:
    """Return a row's label: the last part of its name, its type, and how often it was called."""
    last = row["name"].rsplit(".", 1)[-1]
    own = row["type"] if not row["depth"] or last == row["type"] else f"{last} {row['type']}"
    return own + (f" x{row['calls']}" if row["calls"] > 1 else "")


def _layers_table(rows: list[dict[str, Any]], console: Any, measured: bool) -> Any:
    """Return the rich table of layers. On a narrow screen names are shortened and columns left out, never digits."""
    from rich.table import Table

    names = ["  " * row["depth"] + layer_label(row) for row in rows]
    least = min(max(map(len, names)), console.width // 3)

    def room(columns: dict[str, list[str]]) -> int:
        return least + sum(1 + max(len(title), *map(len, texts)) for title, texts in columns.items())

    largest = max(row[key] for row in rows for key in ("flops", "bytes", "parameters"))
    columns = layer_columns(rows, measured, exact=largest < 10**6)
    if room(columns) > console.width:
        columns = layer_columns(rows, measured, exact=False)
    for title in _DROPPED:
        if room(columns) > console.width:
            columns.pop(title, None)
    space = console.width - room(columns) + least
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("layer", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="left" if title in ("bottleneck", "limited by") else "right", no_wrap=True)
    for name, *cells in zip(names, *columns.values()):
        table.add_row(name if len(name) <= space else f"{name[:space - 1]}…", *cells)
    return table


def draw(result: dict[str, Any]) -> None:
    """Print a profile for a person: what was run, the table layer by layer, the six lines, the verdict."""
    console = ui.console()
    (_draw_count if "not_run" in result else _draw_profile)(result, console)


def _draw_layers(rows: list[dict[str, Any]], console: Any, measured: bool) -> None:
    """Print the table of layers, and what was left out of it."""
    kept, cut = upper_levels(rows)
    console.print(_layers_table(kept if measured else merge_alike(kept), console, measured))
    if cut:
        console.print(f"{cut} deeper layers are in --json")


def _draw_count(result: dict[str, Any], console: Any) -> None:
    """Print what counting found, and why the model was not run."""
    count = result["count"]
    console.print(f"{result['model']} on {tuple(result['input_shape'])}, counted on shapes")
    console.print(f"Not run: {result['not_run']}.\n")
    _draw_layers(tree_rows(count["by_layer"]), console, measured=False)
    per_sample = count["per_sample"]
    console.print(f"\nParameters: {count['parameters']:,} ({4 * count['parameters'] / 2**30:,.4g} GB in float32)")
    console.print(f"FLOPs:      {count['total']:,}" + (f" ({per_sample:,} per sample)" if per_sample else ""))
    console.print(f"            {count['contractions']:,} of them contractions")
    console.print(f"\n{count['convention'][0].upper()}{count['convention'][1:]}")
    _draw_doubts(count["uncounted"], count["never_called"], console)


def _draw_doubts(uncounted: Any, never_called: list[str] | None, console: Any) -> None:
    """Name what the numbers leave out."""
    if uncounted:
        console.print(f"Not counted, for want of a cost rule: {', '.join(uncounted)}")
    if never_called:
        console.print(f"Never called in forward: {', '.join(never_called)}")


def _draw_profile(result: dict[str, Any], console: Any) -> None:
    """Print what was measured."""
    from rich.table import Table

    from tinytorch.perf.profiling import headline

    profile, limits = result["profile"], result["limits"]
    dtypes = ", ".join(profile["latency"]["workload"]["dtypes"])
    console.print(f"{result['model']} on {tuple(result['input_shape'])} {dtypes}, evaluation mode, no gradient")
    if result["training"]:
        done = result["training"]
        console.print(f"trained {done['epochs']} epochs on {done['images']:,} UCI digits: "
                      f"{done['accuracy']:.1%} of {done['held_out']} held-out ones right")
    console.print(f"this machine: {limits['peak_gflops']:.3g} GFLOP/s, {limits['bandwidth_gbs']:.3g} GB/s from memory, "
                  f"{limits['dispatch_us']:.2g} µs to dispatch an op")
    console.print(limits["source"] + "\n")
    _draw_layers(profile["layers"], console, measured=True)
    console.print(f"ms: with the layers inside, a listener at each: {_ms(profile['layers'][0]['latency_ms'])} so, "
                  f"{_ms(profile['latency_ms'])} without; share: of the time a layer spends itself; a multiply-add is "
                  "2 FLOPs")
    console.print()
    lines = Table.grid(padding=(0, 1, 0, 0))
    for line in headline(profile):
        lines.add_row(*line.split(maxsplit=1))
    console.print(lines)
    console.print(f"\n{profile['advice']}")
    for warning in profile["latency"]["warnings"]:
        console.print(f"Doubt: {warning}")
    _draw_doubts(profile["uncounted"], (result["count"] or {}).get("never_called"), console)
