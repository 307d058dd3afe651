"""A worked case: one chain of five steps spelled three ways. Do the bytes predict the times?

Run: ``python benchmarks/worked_case.py``. A ``Linear`` is followed by scale, shift, GELU (tanh form), residual add and
clamp. *Primitive* composes all of it from the framework's own ops; *PerStep* has one op for each step; *Fused* is one
op that walks memory in pieces that stay in the cache. Exit status 0: PASS; 1: FAIL (outputs differ, the clamp does not
bite, the ranking is not clear, a trace is no JSON); 2: could not run, with one sentence.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from tinytorch.core.activations import gelu, tanh
from tinytorch.core.autograd import no_grad, vjp
from tinytorch.core.layers import Layer, Linear
from tinytorch.core.tensor import Tensor, floating, in_floats, op, same_shape, where
from tinytorch.perf.acceleration import BLOCK, fused_gelu, fused_gelu_gradient, gelu_into, in_pieces
from tinytorch.perf.profiling import compare, environment, flops, machine_limits, observe, work_of
from tinytorch.perf.tracing import profile

SEED, RTOL, ATOL = 88, 1e-5, 1e-6


# The ops: NumPy functions with a shape rule, a price and a gradient ------------------------------------------------

@op(shape=same_shape, dtype=floating)
def clamp(a, low, high):
    """Move what lies below ``low`` to it and what lies above ``high`` to that; NaN stays NaN."""
    return np.clip(in_floats(a), low, high)


def like_residual(h, residual, **how):
    """Return the shape of both, or raise ``ValueError``: the fused op stretches nothing."""
    if h != residual:
        raise ValueError(f"h {h} with residual {residual}: want the same shape")
    return h


@op(shape=like_residual, dtype=floating)
def fused_chain(h, residual, gamma, beta, low, high):
    """clamp(gelu(gamma h + beta) + residual, low, high), h (...) and residual (...) -> (...): one walk over memory."""
    like_residual(h.shape, residual.shape)
    h, residual = in_floats(h), in_floats(residual)
    out = np.empty(h.shape, np.result_type(h, residual))
    scaled = np.empty(min(BLOCK, out.size), out.dtype)
    for y, x, r in in_pieces(out, h, residual):
        s = scaled[:y.size]
        np.multiply(x, gamma, out=s)
        s += beta
        gelu_into(y, s)
        y += r
        np.clip(y, low, high, out=y)
    return out


STEPS = {clamp: 1, fused_chain: 13}  # arithmetic steps per number; gelu is composed of nine
for operation, steps in STEPS.items():
    flops(operation)(lambda out_shape, *in_shapes, steps=steps, **how: steps * prod(out_shape))


def between(g, x, low, high):
    """Let a gradient pass where x lies between the bounds; where it sits on one, nothing moves it."""
    return where(x > low, where(x < high, g, 0.0), 0.0)


@vjp(clamp)
def clamp_vjp(g, out, a, low, high):
    """Give g between the bounds."""
    return (lambda: between(g, a, low, high),)


@vjp(fused_chain)
def fused_chain_vjp(g, out, h, residual, gamma, beta, low, high):
    """Give the chain rule; nothing was kept in between, so the scaled input is computed again."""
    passed = between(g, out, low, high)
    return lambda: gamma * fused_gelu_gradient(passed, gamma * h + beta), lambda: passed


# The three spellings -----------------------------------------------------------------------------------------------

class Spelling(Layer):
    """Linear, then the chain: x (N, dim), residual (N, dim) -> (N, dim). Each spelling writes ``chain``."""

    gamma, beta, low, high = 1.5, -0.25, -6.0, 3.0

    def __init__(self, dim, rng=None):
        self.linear = Linear(dim, dim, rng=rng)

    def forward(self, x, residual):
        """Compute clamp(gelu(gamma linear(x) + beta) + residual, low, high)."""
        return self.chain(self.linear(x), residual)


class Primitive(Spelling):
    """The framework's own ops; GELU alone is nine of them, each a pass over memory."""

    def chain(self, h, residual):
        """Thirteen ops."""
        return clamp(gelu(h * self.gamma + self.beta) + residual, low=self.low, high=self.high)


class PerStep(Spelling):
    """One op for each step."""

    def chain(self, h, residual):
        """Five ops."""
        return clamp(fused_gelu(h * self.gamma + self.beta) + residual, low=self.low, high=self.high)


class Fused(Spelling):
    """One op for all steps."""

    def chain(self, h, residual):
        """One op."""
        return fused_chain(h, residual, gamma=self.gamma, beta=self.beta, low=self.low, high=self.high)


SPELLINGS = (Primitive, PerStep, Fused)


# What the door says of a spelling, and what the machine says of itself ------------------------------------------------

def traffic(model: Spelling, h: Tensor, residual: Tensor) -> dict:
    """Return what one pass of the chain moves, from the door's events: floats per element, fresh outputs, tanhs."""
    events, _ = observe(lambda: model.chain(h, residual))
    work = work_of(events)
    tanhs = sum(event.op in (tanh, fused_gelu, fused_chain) for event in events)  # each takes one tanh of every element
    return {"ops": len(events), "bytes": work.bytes_moved, "flops": work.flops, "tanhs": tanhs * h.size,
            "floats_per_element": work.bytes_moved / h.nbytes, "fresh_bytes": len(events) * h.nbytes}


def last_level_cache() -> int | None:
    """Return the bytes of the largest cache Linux tells of, or None where nothing is told."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text.rstrip("KMG")) * 1024 ** (" KMG".index(text[-1]) if text[-1] in "KMG" else 0))
    return max(sizes, default=None)


def ceilings(x: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return the calls whose times bound a chain on arrays like x; see ``rates``.

    "streaming": ``out = a + b`` into memory that was written before; "fresh": into new memory. The other three stay
    on one piece, which is in the cache: tanh alone, all of GELU, all of the chain.
    """
    other, out, piece = x.copy(), x.copy(), x.reshape(-1)[:BLOCK].copy()
    y, constants = np.empty_like(piece), {name: getattr(Spelling, name) for name in ("gamma", "beta", "low", "high")}
    return {"streaming": lambda: np.add(x, other, out=out), "fresh": lambda: np.add(x, other),
            "tanh": lambda: np.tanh(piece, out=y), "gelu": lambda: fused_gelu.fn(piece),
            "fused": lambda: fused_chain.fn(piece, piece, **constants)}


def rates(ns: dict, x: np.ndarray) -> dict:
    """Turn the times of ``ceilings`` into rates: streaming, fresh memory, tanh, and the other passes of a piece."""
    piece = min(BLOCK, x.size)
    return {"bytes_per_ns": 3 * x.nbytes / max(ns["streaming"], 1),
            "ns_per_fresh_byte": max(ns["fresh"] - ns["streaming"], 0) / x.nbytes,
            "ns_per_tanh": max(ns["tanh"], 1) / piece,
            "ns_in_cache": {"Primitive": 0.0, "PerStep": max(ns["gelu"] - ns["tanh"], 0) / piece,
                            "Fused": max(ns["fused"] - ns["tanh"], 0) / piece}}


def account(moved: dict, can: dict, name: str, ns: float) -> dict:
    """Set a measured time beside what bytes, tanh and fresh outputs explain of it, and what passes in cache add."""
    from_bytes, tanhs = moved["bytes"] / can["bytes_per_ns"], moved["tanhs"] * can["ns_per_tanh"]
    faults, in_cache = moved["fresh_bytes"] * can["ns_per_fresh_byte"], moved["tanhs"] * can["ns_in_cache"][name]
    explained = from_bytes + tanhs + faults
    ms = {"bytes_ms": from_bytes, "tanh_ms": tanhs, "faults_ms": faults, "explained_ms": explained,
          "in_cache_ms": in_cache, "measured_ms": ns}
    return {**moved, **{what: value / 1e6 for what, value in ms.items()},
            "unexplained": 1 - explained / max(ns, 1), "left_after_cache": 1 - (explained + in_cache) / max(ns, 1)}


# The case: same weights, same outputs, times, profiles, prediction --------------------------------------------------

class Case:
    """What is computed: three models with the same weights, their input, residual and the chain's own input."""

    def __init__(self, rows: int, dim: int):
        rng = np.random.default_rng(SEED)
        self.x = Tensor(rng.standard_normal((rows, dim), dtype=np.float32))
        self.residual = Tensor(rng.uniform(-2, 2, (rows, dim)).astype(np.float32))
        self.models = {spelling.__name__: spelling(dim, rng) for spelling in SPELLINGS}
        first, *others = self.models.values()
        for other in others:
            other.load_state_dict(first.state_dict())
        self.h = first.linear(self.x)

    def calls(self) -> dict[str, Callable[[], object]]:
        """Return what is timed in every round: the chains, the whole models, the linear layer, the ceilings."""
        first = next(iter(self.models.values()))
        return {**{name: lambda model=model: model.chain(self.h, self.residual) for name, model in self.models.items()},
                **{f"{name}, whole": lambda model=model: model(self.x, self.residual)
                   for name, model in self.models.items()},
                "linear": lambda: first.linear(self.x), **ceilings(self.h.data)}


def in_rounds(calls: dict, rounds: int, clock: Callable[[], int]) -> dict[str, float]:
    """Return the least ns of each call over rounds in random order: a call unread, then timed ones, up to ten or 50 ms.

    The least, since ceilings and what they are to explain must both be of a machine left in peace.
    """
    times: dict[str, list[int]] = {name: [] for name in calls}
    order = np.random.default_rng(SEED)
    for _ in range(rounds):
        for name in order.permutation(list(calls)):
            calls[name]()
            spent: list[int] = []
            while not spent or (len(spent) < 10 and sum(spent) < 50_000_000):
                start = clock()
                calls[name]()
                spent.append(clock() - start)
            times[name] += spent
    return {name: min(found) for name, found in times.items()}


def load() -> float | None:
    """Return how many processes wanted to run in the last minute, or None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return None


def page_faults(call: Callable[[], object]) -> int | None:
    """Return how many pages one call touched for the first time, or None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def ratios(case: Case, found: dict, rounds: int, clock: Callable[[], int] | None) -> list[dict]:
    """Compare the chains in pairs: how many times as fast, predicted and measured, with its interval.

    ``compare`` refuses outputs that differ: a ``ValueError``.
    """
    rows = []
    for slow, fast in (("Primitive", "PerStep"), ("PerStep", "Fused"), ("Primitive", "Fused")):
        told = compare(case.models[slow].chain, case.models[fast].chain, [(case.h, case.residual)], RTOL, ATOL,
                       clock=clock, rounds=rounds, seed=SEED)
        low, high = told["interval"]
        sums = {name: found[name]["explained_ms"] + found[name]["in_cache_ms"] for name in (slow, fast)}
        rows.append({"slow": slow, "fast": fast, "verdict": told["verdict"], "measured": 1 / told["ratio"],
                     "interval": (1 / high, 1 / low), "worst_difference": told["worst_difference"],
                     "from_bytes": found[slow]["bytes_ms"] / found[fast]["bytes_ms"],
                     "from_explained": found[slow]["explained_ms"] / found[fast]["explained_ms"],
                     "from_all": sums[slow] / sums[fast]})
    return rows


def trace(case: Case, folder: Path) -> dict:
    """Profile each whole model by op and shape; return {name: (table, Chrome trace file)}."""
    traced = {}
    for name, model in case.models.items():
        with profile(record_shapes=True) as p:
            model(case.x, case.residual)
        path = folder / f"{name.lower()}.json"
        p.export_chrome_trace(path)
        traced[name] = (p.key_averages(group_by_input_shape=True).table(sort_by="self_ms", row_limit=15), str(path))
    return traced


def is_trace(path: str) -> bool:
    """Say whether a file is strict JSON with at least one slice in it."""
    def never(constant):
        raise ValueError(constant)

    try:
        events = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=never)["traceEvents"]
        return any(event["ph"] == "X" for event in events)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def run(rows: int, dim: int, rounds: int, folder: Path, clock: Callable[[], int] | None = None) -> dict:
    """Do it all; ``failures`` in the result says what is not as claimed. A clock may be handed in, in ns."""
    busy = load()
    with no_grad():
        case = Case(rows, dim)
        calls, out = case.calls(), case.models["Primitive"].chain(case.h, case.residual).data
        ns = in_rounds(calls, rounds, clock or perf_counter_ns)
        can = rates(ns, case.h.data)
        found = {name: {**account(traffic(model, case.h, case.residual), can, name, ns[name]),
                        "whole_ms": ns[f"{name}, whole"] / 1e6,
                        "page_faults": page_faults(calls[name])}
                 for name, model in case.models.items()}
        failures, pairs = [], []
        try:
            pairs = ratios(case, found, rounds, clock)
        except ValueError as error:
            failures.append(f"the outputs differ: {error}")
        traced = trace(case, folder)
    on_bounds = {str(bound): int((out == bound).sum()) for bound in (Spelling.low, Spelling.high)}
    if not any(on_bounds.values()):
        failures.append("no output sits on a bound: the clamp does nothing")
    failures += [f"{row['fast']} against {row['slow']} is {row['verdict']}, want faster" for row in pairs
                 if row["verdict"] != "faster"]
    failures += [f"{path} is no trace" for _, path in traced.values() if not is_trace(path)]
    cache = last_level_cache()
    return {
        "workload": {"rows": rows, "dim": dim, "dtype": str(out.dtype), "seed": SEED, "rounds": rounds, "load": busy,
                     "tensor_bytes": out.nbytes, "cache_bytes": cache, "date": time.strftime("%Y-%m-%d"),
                     "cache_may_help": cache is None or out.nbytes < 8 * cache},
        "machine": {**environment(), "peak_gflops": machine_limits().peak_gflops,
                    "gemm_gflops": 2 * out.size * dim / max(ns["linear"], 1), "linear_ms": ns["linear"] / 1e6, **can},
        "outputs": {"elements": out.size, "on_bounds": on_bounds,
                    "worst": max((row["worst_difference"]["abs"] for row in pairs), default=None)},
        "spellings": found, "ratios": pairs, "tables": {name: table for name, (table, _) in traced.items()},
        "traces": {name: path for name, (_, path) in traced.items()}, "failures": failures,
    }


# Said -----------------------------------------------------------------------------------------------------------------

def mb(count: float | None) -> str:
    """Write bytes as MB, 1024² each."""
    return "unknown" if count is None else f"{count / 1024**2:,.3g} MB"


def banner(result: dict) -> list[str]:
    """Say on what machine, with what work."""
    here, work = result["machine"], result["workload"]
    mark = "; ratios are marked *: the cache may help" if work["cache_may_help"] else ""
    busy = "unknown" if work["load"] is None else f"{work['load']:.1f}"
    return [f"{here['cpu']} · Python {here['python']} · NumPy {here['numpy']} · {here['blas']}, "
            f"{here['blas_threads']} BLAS threads · {work['date']}",
            f"peak {here['peak_gflops']:.0f} GFLOP/s. In this run: linear {here['gemm_gflops']:.0f} GFLOP/s, "
            f"streaming {here['bytes_per_ns']:.1f} GB/s, {1 / here['ns_per_tanh']:.1f} tanh a ns, "
            f"fresh memory {here['ns_per_fresh_byte'] * 1024**2 / 1e3:.0f} µs per MB",
            f"{work['rows']:,} x {work['dim']:,} {work['dtype']}, seed {work['seed']}, {work['rounds']} rounds; "
            f"load before the run {busy} processes",
            f"a tensor is {mb(work['tensor_bytes'])}, the last-level cache {mb(work['cache_bytes'])}{mark}"]


def spelling_rows(result: dict) -> list[list[str]]:
    """Return the table of times in ms, a header first: one row for each spelling of the chain."""
    head = "chain, ms|ops|floats|pages|bytes|+tanh|+fresh|=|took|left|in cache|left"
    rows = [head.split("|")]
    for name, one in result["spellings"].items():
        pages = "unknown" if one["page_faults"] is None else f"{one['page_faults']:,}"
        parts = [f"{one[f'{what}_ms']:.1f}" for what in ("bytes", "tanh", "faults", "explained", "measured")]
        rows.append([name, str(one["ops"]), f"{one['floats_per_element']:.1f}", pages, *parts,
                     f"{one['unexplained']:.0%}", f"{one['in_cache_ms']:.1f}", f"{one['left_after_cache']:.0%}"])
    return rows


def ratio_rows(result: dict) -> list[list[str]]:
    """Return the table of ratios, a header first: how many times as fast, and how far each prediction is off."""
    mark = "*" if result["workload"]["cache_may_help"] else ""
    head = "times as fast|bytes|off|+tanh+fresh|off|+in cache|off|measured|interval"
    rows = [head.split("|")]
    for row in result["ratios"]:
        guesses = [cell for what in ("bytes", "explained", "all")
                   for cell in (f"{row[f'from_{what}']:.2f}", f"{row[f'from_{what}'] / row['measured'] - 1:+.0%}")]
        low, high = row["interval"]
        rows.append([f"{row['fast']} / {row['slow']}", *guesses, f"{row['measured']:.2f}{mark}",
                     f"{low:.2f} to {high:.2f}"])
    return rows


def in_columns(rows: list[list[str]]) -> str:
    """Set a table in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in
                                                            zip(row[1:], widths[1:]))]).rstrip() for row in rows)


def whole(result: dict) -> str:
    """Say what is left of the gain when the linear layer is timed, too."""
    times = {name: one["whole_ms"] for name, one in result["spellings"].items()}
    return (f"With the linear layer ({result['machine']['linear_ms']:.0f} ms): "
            + ", ".join(f"{name} {ms:.0f} ms" for name, ms in times.items())
            + f"; Fused is then {times['Primitive'] / times['Fused']:.2f} times as fast as Primitive")


def agreement(result: dict) -> str:
    """Say how far the outputs agree, and how many of them the clamp holds."""
    out = result["outputs"]
    held = ", ".join(f"{count:,} on {bound}" for bound, count in out["on_bounds"].items())
    apart = "outputs differ" if out["worst"] is None else f"outputs agree, at most {out['worst']:.2g} apart"
    return f"{apart}; of {out['elements']:,} the clamp holds {held}"


def report(result: dict) -> str:
    """Return the whole account as text."""
    lines = [*banner(result), "", agreement(result), "", in_columns(spelling_rows(result)), "",
             in_columns(ratio_rows(result)), whole(result)]
    for name, table in result["tables"].items():
        lines += ["", f"{name}, by op and shape:", table]
    lines += ["", *(f"trace of {name}: {path}" for name, path in result["traces"].items())]
    return "\n".join([*lines, *(f"FAIL: {failure}" for failure in result["failures"])])


class Parser(argparse.ArgumentParser):
    """Refuses what it cannot read in one sentence."""

    def error(self, message):
        """Say it and leave with status 2."""
        self.exit(2, f"could not run: {message}\n")


def at_least(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` on."""
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} came; want a whole number of at least {least}")
        return int(text)
    return read


def main(argv: list[str] | None = None, clock: Callable[[], int] | None = None) -> int:
    """Run the case; return the exit status."""
    parser = Parser(description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("--rows", type=at_least(1), default=8192, help="rows of the input (8192)")
    parser.add_argument("--dim", type=at_least(1), default=1024, help="features in and out (1024)")
    parser.add_argument("--rounds", type=at_least(6), default=7, help="how often everything is timed (7)")
    parser.add_argument("--out", help="folder for the traces (default: a new temporary one, which is named)")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON instead of tables")
    given = parser.parse_args(argv)
    try:
        folder = Path(given.out or tempfile.mkdtemp(prefix="worked-case-"))
        folder.mkdir(parents=True, exist_ok=True)
        result = run(given.rows, given.dim, given.rounds, folder, clock)
    except (OSError, MemoryError) as error:
        print(f"could not run: {error or 'not enough memory; try fewer --rows'}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=1, allow_nan=False) if given.json else report(result))
    print("FAIL" if result["failures"] else "PASS", file=sys.stderr if given.json else sys.stdout)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
