"""What `tito profile` does: train a digits model for a moment, profile it, draw the result; data first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tito import ui
from tito.errors import TitoError

Stage = Callable[..., None]
EPOCHS, BATCH, SEED = 20, 64, 0


def _quiet(text: str, done: int = 0, total: int | None = None) -> None:
    """Show nothing."""


def train_on_digits(model: Any, stage: Stage = _quiet) -> dict[str, Any]:
    """Train ``model`` on the shipped digits for a moment; return what came of it on the held-out images."""
    from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
    from tinytorch.core.losses import CrossEntropyLoss
    from tinytorch.core.optimizers import Adam
    from tinytorch.core.training import Trainer

    train, test = (TensorDataset(*load_digits(split)) for split in ("train", "test"))
    loader = DataLoader(train, batch_size=BATCH, shuffle=True, seed=SEED)
    text, total = "training on handwritten digits", EPOCHS * len(loader)
    trainer = Trainer(model, Adam(model.parameters(), lr=0.01), CrossEntropyLoss())
    stage(text, 0, total)
    trainer.fit(loader, EPOCHS, on_batch=lambda progress: stage(text, progress.steps, total))
    found = trainer.evaluate(DataLoader(test, batch_size=BATCH))
    for parameter in model.parameters():
        parameter.grad = None
    return {"images": len(train), "held_out": len(test), "epochs": EPOCHS, "accuracy": found.accuracy}


def profile_model(name: str, batch: int | None = None, iterations: int = 100, remeasure: bool = False,
                  stage: Stage = _quiet) -> dict[str, Any]:
    """Profile the zoo's model ``name`` and return plain data: workload, limits, training, the forward profile."""
    import difflib

    import numpy as np

    from tinytorch import zoo
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.profiling import machine_limits, profile_forward_pass

    models = zoo.models()
    if name not in models:
        close = difflib.get_close_matches(name, models, n=2, cutoff=0.4) or list(models)
        raise TitoError(f"there is no model {name!r} in the zoo; there is {', '.join(close)}")
    factory, shape = models[name]
    shape = (batch or shape[0], *shape[1:])
    rng = np.random.default_rng(SEED)
    model = factory(rng)
    trained = None
    images = rng.standard_normal(shape).astype(np.float32)
    if factory in zoo.TRAINED_ON_DIGITS:
        from tinytorch.core.dataloader import load_digits

        trained = train_on_digits(model, stage)
        images = np.resize(load_digits("test")[0], shape)
    model.eval()
    stage("measuring this machine's limits")
    limits = machine_limits(refresh=remeasure)
    stage("profiling: counting, memory, time")
    profile = profile_forward_pass(model, Tensor(images), limits=limits, iterations=iterations)
    return {"model": name, "input_shape": list(shape), "training": trained, "profile": _plain(profile),
            "limits": {"peak_gflops": limits.peak_gflops, "dispatch_us": limits.dispatch_us,
                       "bandwidth_gbs": limits.bandwidth(2**30), "source": limits.source}}


def _plain(value: Any) -> Any:
    """Turn a profile into what JSON carries: dicts, lists, numbers, text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value


def draw(result: dict[str, Any]) -> None:
    """Print a profile for a person: what was run, the table layer by layer, the six lines, the verdict."""
    from rich.table import Table

    from tinytorch.perf.profiling import headline, short

    console, profile, limits = ui.console(), result["profile"], result["limits"]
    shape = tuple(result["input_shape"])
    console.print(f"{result['model']} on {shape}, float32, evaluation mode, no gradient")
    if result["training"]:
        done = result["training"]
        console.print(f"trained {done['epochs']} epochs on {done['images']:,} UCI digits: "
                      f"{done['accuracy']:.1%} of {done['held_out']} held-out ones right")
    console.print(f"this machine: {limits['peak_gflops']:.3g} GFLOP/s, {limits['bandwidth_gbs']:.3g} GB/s from memory, "
                  f"{limits['dispatch_us']:.2g} µs to dispatch an op")
    console.print(limits["source"] + "\n")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    wide, narrow = console.width >= 78, console.width < 56
    table.add_column("layer", overflow="fold", min_width=10)
    for title in ("params", "FLOPs", "bytes", "ms", "share", "GFLOP/s") if wide else ("FLOPs", "ms", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in () if narrow else ("bottleneck", "limited by"):
        table.add_column(title, no_wrap=True)
    for row in profile["layers"]:
        own = f"{row['name'].rsplit('.', 1)[-1]} {row['type']}" if row["depth"] else row["type"]
        name = "  " * row["depth"] + own
        time = [f"{row['latency_ms']:.4f}", f"{row['share']:.0%}"]
        cells = [f"{row['parameters']:,}", f"{row['flops']:,}", f"{row['bytes']:,}", *time,
                 f"{row['gflops_per_second']:.2f}"] if wide else [short(row["flops"]), *time]
        if wide and max(row["flops"], row["bytes"], row["parameters"]) >= 10_000_000:
            cells[:3] = [short(row["parameters"]), short(row["flops"]), short(row["bytes"])]
        table.add_row(name, *cells, *(() if narrow else (row["bottleneck"], row["limited_by"])))
    console.print(table)
    console.print(f"ms: with the layers inside, a listener at each: {profile['layers'][0]['latency_ms']:.4f} so, "
                  f"{profile['latency_ms']:.4f} without; a multiply-add is 2 FLOPs")
    console.print()
    lines = Table.grid(padding=(0, 1, 0, 0))
    for line in headline(profile):
        lines.add_row(*line.split(maxsplit=1))
    console.print(lines)
    console.print(f"\n{profile['advice']}")
    for warning in profile["latency"]["warnings"]:
        console.print(f"Doubt: {warning}")
    if profile["uncounted"]:
        console.print(f"Not counted, for want of a cost rule: {', '.join(profile['uncounted'])}")
