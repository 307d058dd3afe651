"""What comes after module 14 measures with the learner's own ``Profiler``: is it written, and are its numbers right?

Every verb that later modules use is tried on a case small enough to be checked by hand, with a clock that is handed in:
a Profiler that gives 0 for everything fails as one with a stub in it does, and either is said in one sentence.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tito.errors import UNWRITTEN

if TYPE_CHECKING:
    from tito.project import Module

PROFILER, TRY_SECONDS = "tinytorch.perf.profiling", 60
_STUB = re.compile(UNWRITTEN)
_FILE = re.compile(r"/(\d\d)_\w+/(?:\d\d_)?(\w+?)(?:_dev)?\.(?:py|ipynb) \[")  # in the header of a generated file
_MS = 1_000_000  # nanoseconds


@dataclass(frozen=True)
class Try:
    """A call, as a person would write it, what it must give, and the arithmetic."""

    call: str
    run: Callable[[], Any]
    want: Any
    why: str


def needs_profiler() -> None:
    """Try the package's ``Profiler``; raise ``ImportError`` with one sentence where later modules cannot use it."""
    fault = profiler_fault()
    if fault:
        raise ImportError(fault)
    print("Module 14's Profiler is ready.")


def profiler_fault() -> str | None:
    """Say in one sentence what keeps the package's ``Profiler`` from being used, and the command that goes on."""
    from tito.checks import same

    faults: list[tuple[str, str]] = []
    _attempt(f"importing {PROFILER}", lambda: importlib.import_module(PROFILER), faults)
    source = None if faults else _attempt("the course's random generator", _generator, faults)
    if source is None:
        return _not_ready(*faults[0])
    state = source.bit_generator.state  # the tries build layers, and those draw their weights
    try:
        tries = _attempt("building the models it is tried on", _tries, faults) or []
        for one in tries:
            before = len(faults)
            came = _attempt(one.call, one.run, faults)
            if len(faults) == before and not same(came, one.want):
                faults.append((f"{one.call} is {_show(came)}; want {_show(one.want)}, {one.why}", "profiling"))
    finally:
        source.bit_generator.state = state
    if not faults:
        return None
    rest = "" if len(faults) == 1 else f" (and {len(faults) - 1} more of {len(tries)} tries fail)"
    return _not_ready(faults[0][0] + rest, faults[0][1])


def _generator() -> Any:
    from tinytorch.core.layers import default_generator

    return default_generator()


_NOT_READY = "Module 14's Profiler is not ready for this: "


def _not_ready(said: str, name: str) -> str:
    return (f"{_NOT_READY}{said}. `tito module resume {name}` goes on there; `tito module complete {name}` then puts "
            "it into the package.")


def package_fault(module: Module) -> str | None:
    """Say what keeps ``module`` from measuring with the Profiler that its checkout's package holds, if anything.

    It is tried behind the fence; for modules that do not come after it, nothing is.
    """
    from tito.grading import fence
    from tito.project import target_owners

    owner = target_owners(module.root).get(PROFILER)
    return checkout_fault(module.root, fence.around(module)) if owner and module.number > owner.number else None


def checkout_fault(root: Path, rules: dict[str, Any] | None = None) -> str | None:
    """Say what keeps the Profiler of a checkout's package from being used, tried in a process of its own.

    Where all of the package up to module 14 is the reference's, nothing is tried. ``rules`` are a fence's.
    """
    from tito.grading import limits
    from tito.project import modules, target_owners

    owner = target_owners(root).get(PROFILER)
    if owner is None or all(_is_reference(one.package) for one in modules(root) if one.order <= owner.order):
        return None
    ended = limits.run({"import": __name__, "call": needs_profiler.__name__, "file": "", "fence": rules},
                       timeout=TRY_SECONDS, root=root)
    last = ended.reports[-1] if ended.reports else {}
    if not last.get("done"):
        why = f"did not end in {TRY_SECONDS} s" if ended.timed_out else f"ended the process ({ended.how})"
        return _not_ready(f"trying it {why}", owner.name)
    error = last["error"]
    if error is None:
        return None
    said = " ".join(str(error["message"]).split())
    if error["type"] == "ImportError" and said.startswith(_NOT_READY):
        return said
    return _not_ready(f"trying it raised {error['type']}{said and ': '}{said}", owner.name)  # Ctrl-C's error, say


def _is_reference(file: Path) -> bool:
    from tito.notebooks.export import is_reference

    with contextlib.suppress(OSError, ValueError):
        return is_reference(file.read_text(encoding="utf-8"))
    return False


def _attempt(what: str, run: Callable[[], Any], faults: list[tuple[str, str]]) -> Any:
    """Call ``run``; what it raises becomes a fault: a sentence, and the name of the module to go on with."""
    try:
        return run()
    except (Exception, SystemExit) as error:
        stub = behind(error)
        if stub is None:
            said, (label, where) = " ".join(str(error).split())[:200], _raised_in(error)
            faults.append((f"{what} raised {type(error).__name__}{said and ': '}{said.rstrip('.')}{where}",
                           label.partition("_")[2] or "profiling"))
        else:
            name, place, module = stub
            where = "" if module in ("", "14_profiling") else f" of {module}"
            faults.append((f"{name}{where} is not written yet ({place})", module.partition("_")[2] or "profiling"))
        return None


def behind(error: BaseException) -> tuple[str, str, str] | None:
    """Return what an error waits for where that is an unwritten part: its name, its place, and its module's label.

    The label is "" for a part that stands in no file of the package, such as in a notebook's cell.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        found = _STUB.fullmatch(str(cause)) if isinstance(cause, NotImplementedError) else None
        if found:
            trace = cause.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            name, _, place = found[0].partition(": ")
            return name, place, label_of(trace.tb_frame.f_code.co_filename) if trace else ""
        cause = cause.__cause__ or cause.__context__
    return None


def _raised_in(error: BaseException) -> tuple[str, str]:
    """Return the label of the module, and the line, that an error came from last in what is not the reference's."""
    label, where = _raised_in(error.__cause__) if error.__cause__ else ("", "")
    trace = None if label else error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        owner = label_of(file)
        if owner and not _is_reference(Path(file)):
            label, where = owner, f" ({owner} in the package, line {trace.tb_lineno})"
        trace = trace.tb_next
    return label, where


def label_of(file: str) -> str:
    """Return the label of the module that a generated file was made from, read from its header; "" for other files."""
    with contextlib.suppress(OSError, ValueError), open(file, encoding="utf-8") as text:
        found = _FILE.search(text.readline())
        if found:
            return f"{found[1]}_{found[2]}"
    return ""


def _tries() -> list[Try]:
    """Return the tries, on models whose numbers are known; the clock moves only where a model moves it."""
    import numpy as np

    from tinytorch.core.activations import ReLU
    from tinytorch.core.layers import Layer, Linear, Sequential
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.profiling import MachineLimits, Profiler, percentile_interval

    now = [0]

    class Waits(Layer):
        """Passes its input on and lets ``ms`` go by, and ``more`` for the square of the calls before."""

        def __init__(self, ms: float, more: float = 0, adds: float = 0):
            self.ms, self.more, self.adds, self.calls = ms, more, adds, 0

        def forward(self, x: Any) -> Any:
            now[0] += round((self.ms + self.calls**2 * self.more) * _MS)
            self.calls += 1
            return x + self.adds

    class Bytes(Layer):
        """Holds twelve whole numbers of one byte each."""

        def __init__(self) -> None:
            self.weight = Tensor(np.zeros((3, 4), np.int8))

        def forward(self, x: Any) -> Any:
            return x

    p = Profiler(clock=lambda: now[0], limits=MachineLimits(peak_gflops=100, bandwidth_gbs=20, dispatch_us=5))
    one, x = Linear(3, 3), Tensor(np.ones((5, 3)))
    model, slow = Sequential(Linear(3, 4), ReLU(), Linear(4, 2)), Sequential(Linear(3, 4), Waits(2))
    spread = Linear(2, 2)
    spread.weight.data[...], spread.bias.data[...] = [[-4, 0], [1, 2]], [3, 4]
    named = "Linear(3, 4), ReLU, Linear(4, 2)"

    def forward(*keys: str) -> list[Any]:
        found = p.profile_forward_pass(slow, x)
        return [found[key] for key in keys]

    def paired(candidate: Any) -> list[Any]:
        found = p.compare(Waits(3), candidate, x, rounds=6, seed=0)
        return [found["ratio"], found["verdict"]]

    def refused(candidate: Any) -> str:
        try:
            p.compare(Waits(3), candidate, x, rounds=6, seed=0)
        except ValueError:
            return "refused"
        return "accepted"

    def latencies() -> list[Any]:
        found = p.latency_statistics(Waits(1, more=1), x, warmup=1, iterations=8)
        return [found["median"], *found["ci95"], len(found["times_ms"]), found["samples_are"]]

    def bytes_of(model: Any, shape: tuple[int, ...]) -> list[Any]:
        found = p.measure_memory(model, shape)
        return [found["parameter_memory_mb"] * 1024**2, found["input_mb"] * 1024**2]

    def weights() -> list[Any]:
        found = p.analyze_weight_distribution(spread)
        return [found[key] for key in ("total_weights", "mean", "percentile_50", "below_threshold_0001")]

    def quick() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return p.quick_profile(model, x)["flops"]

    def batches() -> list[Any]:
        return [[row["batch"], row["latency_ms"], row["throughput"]]
                for row in p.profile_batch_sizes(Waits(2), (1, 3), (1, 8))]

    def both() -> list[Any]:
        found = p.profile_backward_pass(model, x)
        return [found["forward_contractions"], found["backward_contractions"]]

    return [
        Try(f"count_parameters of {named}", lambda: p.count_parameters(model), 26, "3 x 4 + 4 and 4 x 2 + 2"),
        Try("count_parameters of one Linear(3, 3) used twice", lambda: p.count_parameters(Sequential(one, one)), 12,
            "3 x 3 + 3 once"),
        Try("matmul_flops((2, 3), (3, 4))", lambda: p.matmul_flops((2, 3), (3, 4)), 48, "2 x 2 x 3 x 4"),
        Try("linear_flops((5, 7, 8), 4)", lambda: p.linear_flops((5, 7, 8), 4), 2240, "2 x 5 x 7 x 8 x 4"),
        Try("conv2d_flops((1, 3, 10, 12), 8, 3, padding=1)", lambda: p.conv2d_flops((1, 3, 10, 12), 8, 3, padding=1),
            51_840, "2 x 10 x 12 x 8 x 3 x 9"),
        Try("attention_flops(1, 10, 64, 4)", lambda: p.attention_flops(1, 10, 64, 4), 353_280,
            "327,680 of the four projections and 25,600 of scores and mix"),
        Try(f"count_flops of {named}", lambda: p.count_flops(model, (5, 3)), 44, "2 x 3 x 4 + 4 + 2 x 4 x 2 a sample"),
        Try(f"flop_report(...).total of {named} on (5, 3)", lambda: p.flop_report(model, (5, 3)).total, 220,
            "5 samples of 44"),
        Try(f"measure_memory of {named}, bytes of parameters and input", lambda: bytes_of(model, (5, 3)), [104.0, 60.0],
            "4 bytes for each of 26 and of 5 x 3 numbers"),
        Try("measure_memory of 3 x 4 int8 weights, bytes of parameters and input", lambda: bytes_of(Bytes(), (5, 3)),
            [12.0, 60.0], "one byte for each of 12"),
        Try("training_memory with Adam, parameters and optimizer_state",
            lambda: [p.training_memory(model, (5, 3), "adam")[key] for key in ("parameters", "optimizer_state")],
            [104, 208], "Adam keeps two numbers of 4 bytes for each of 26"),
        Try("analyze_weight_distribution of -4, 0, 1, 2, 3, 4 (total, mean, median, % below 0.001)", weights,
            [6, 1.0, 1.5, 100 / 6], "one of six is 0"),
        Try("latency_statistics of calls of 2, 5, 10, ... 65 ms after a warm-up (median, interval, samples, kind)",
            latencies, [21.5, 2.0, 65.0, 8, "calls"],
            "the middle of 17 and 26 (the mean is 26.5); eight samples reach from the lowest to the highest"),
        Try("measure_latency of calls of 2 ms", lambda: p.measure_latency(Waits(2), x, warmup=1, iterations=7), 2.0,
            "every call takes that"),
        Try("percentile_interval of 1 ... 100 at 50", lambda: list(percentile_interval(range(1, 101), 50)), [40, 61],
            "at most 1/40 at each end"),
        Try("roofline(4000, 100) at 100 GFLOP/s and 20 GB/s (intensity, ridge point, regime)",
            lambda: [p.roofline(4000, 100)[key] for key in ("intensity", "ridge_point", "regime")],
            [40.0, 5.0, "compute"], "4000 / 100 lies right of 100 / 20"),
        Try("amdahl_speedup(0.5, 2)", lambda: p.amdahl_speedup(0.5, 2), 4 / 3, "1 / (0.5 + 0.5 / 2)"),
        Try("profile_forward_pass of Linear(3, 4) and 2 ms of waiting (parameters, contractions, latency_ms)",
            lambda: forward("parameters", "contractions", "latency_ms"), [16, 120, 2.0], "2 x 5 x 3 x 4 contractions"),
        Try("profile_layer of Linear(3, 4) on (5, 3) (parameters, contractions)",
            lambda: [p.profile_layer(Linear(3, 4), (5, 3))[key] for key in ("parameters", "contractions")], [16, 120],
            "3 x 4 + 4 and 2 x 5 x 3 x 4"),
        Try(f"quick_profile of {named}, its flops", quick, 220, "5 samples of 44"),
        Try("machine_limits of a Profiler that was handed 100 GFLOP/s", lambda: p.machine_limits().peak_gflops, 100,
            "what was handed in"),
        Try(f"profile_backward_pass of {named} (contractions forward, backward)", both, [200, 280],
            "the second layer twice over for its weight and its input, the first once: 80 + 80 + 120"),
        Try("profile_batch_sizes of 2 ms at batches of 1 and 8 (batch, ms, samples a second)", batches,
            [[1, 2.0, 500.0], [8, 2.0, 4000.0]], "8 / 0.002"),
        Try("compare of 3 ms with 2 ms (ratio, verdict)", lambda: paired(Waits(2)), [2 / 3, "faster"], "2 / 3"),
        Try("compare of 3 ms with 4 ms (ratio, verdict)", lambda: paired(Waits(4)), [4 / 3, "slower"], "4 / 3"),
        Try("compare with a candidate that gives something else", lambda: refused(Waits(2, adds=1)), "refused",
            "results come before speed"),
    ]


def _show(value: Any) -> str:
    from tito.checks import plain, show

    return show(plain(value))
