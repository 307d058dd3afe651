"""The reference is whole and says enough: each public name on one page; arguments, units, errors and keys."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tinytorch
import tinytorch.nn
from tinytorch import Tensor
from tinytorch.core.tensor import Op
from tinytorch.perf import benchmarking, profiling
from tinytorch.zoo import digits_mlp

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").glob("*.md"))
PERF = [f"tinytorch.perf.{name}" for name in ("profiling", "tracing", "pictures", "quantization", "compression",
                                              "memoization", "acceleration", "benchmarking")]
LIMITS = profiling.MachineLimits(10.0, 5.0, 1.0)

# a word in a name -> what its docstring then says, one of them
UNITS = {
    "bytes": "bytes|MB", "memory": "bytes|MB", "footprint": "bytes", "mb": "MB", "traffic": "numbers|bytes",
    "flops": "FLOPs", "cost": "FLOPs|microseconds",
    "latency": "ms|milliseconds", "times": "ms|ns", "time": "ms|ns|milliseconds", "ms": "ms|milliseconds",
    "us": "microseconds|µs", "ns": "ns|nanoseconds", "clock": "ns|nanoseconds|clock", "resident": "bytes",
    "speedup": "ratio", "ratio": "ratio", "sparsity": "share", "share": "share", "accuracy": "share|accura",
    "interval": "low, high", "coverage": "share|chance", "limits": "GB/s|MachineLimits", "samples": "samples|ms",
    "tokens": "tokens", "error": "bound|error|longest|off", "percentile": "percentile",
}
# what comes out: said anywhere, or by a first word that names it
RESULTS = re.compile(r"\b(returns?|yields?|gives?)\b|->|^Keys:|"
                     r"\A(Say|Count|Price|Draw|Write|Find|Gradients? of|Compute)\b", re.IGNORECASE | re.MULTILINE)


def public(name):
    """Return a module's public names: ``__all__``, else what is defined in it without an underscore."""
    module = importlib.import_module(name)
    return getattr(module, "__all__", None) or [key for key, value in vars(module).items() if not key.startswith("_")
                                                and getattr(value, "__module__", None) == name]


def documented(pages):
    """Return {(module, name): how often} of what autodoc directives on pages ask for."""
    found, module = Counter(), None
    for page in pages:
        for what, name in re.findall(r"^ *\.\. (currentmodule|auto\w+):: ([\w.]+)", page, re.MULTILINE):
            if what == "currentmodule":
                module = name
            else:
                found[module, name] += 1
    return found


def callables():
    """Yield (full name, thing, docstring) of public functions, classes and their public methods in tinytorch.perf."""
    for module in PERF:
        for name in public(module):
            thing = getattr(importlib.import_module(module), name)
            if not callable(thing):
                continue
            yield f"{module}.{name}", thing, text_of(thing)
            if inspect.isclass(thing):
                own = [base for base in thing.__mro__ if base is thing or base.__name__.startswith("_")]
                for inner, method in (item for base in own for item in vars(base).items()):
                    function = getattr(method, "fget", None) or inspect.unwrap(getattr(method, "__func__", method))
                    if not inner.startswith("_") and inspect.isfunction(function) and function.__name__ == inner:
                        thing_in = method if isinstance(method, property) else function
                        yield f"{module}.{name}.{inner}", thing_in, text_of(function)


def text_of(thing):
    """Return a docstring; of a class with that of its ``__init__``, as the pages show them."""
    said = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    more = vars(thing).get("__init__").__doc__ if inspect.isclass(thing) and "__init__" in vars(thing) else None
    return inspect.cleandoc("\n\n".join(filter(None, [said, more])))


def own_code(thing):
    """Return the nodes of a function, those of functions inside it left out; of a class, of its ``__init__``."""
    function = inspect.unwrap(getattr(thing, "fget" if isinstance(thing, property) else "fn", thing))
    if inspect.isclass(function):
        function = vars(function).get("__post_init__") or vars(function).get("__init__")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (TypeError, OSError):  # what a dataclass wrote
        return None
    inner = {id(node) for top in ast.walk(tree) if top is not tree and isinstance(top, (ast.FunctionDef, ast.Lambda))
             for node in ast.walk(top)}
    return [node for node in ast.walk(tree) if id(node) not in inner]


def raised(nodes):
    """Return the names of the exceptions that code raises itself."""
    called = [node.exc.func for node in nodes if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {one.id for one in called if isinstance(one, ast.Name) and one.id.endswith("Error")}


def faults(name, thing, text):
    """Return one sentence for each thing that a docstring leaves out."""
    if len(text) < 20:
        return [f"{name}: no docstring"]
    found, nodes, short = [], own_code(thing) or [], name.rsplit(".", 1)[-1]
    kind = "class" if inspect.isclass(thing) else "property" if isinstance(thing, property) else "function"
    made = [node for node in nodes if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None]
    if kind == "function" and made and not RESULTS.search(text):
        found.append(f"{name}: does not say what it returns")
    taken = [key for key in inspect.signature(thing.fn if isinstance(thing, Op) else thing).parameters
             if key not in ("self", "cls", "args", "kwargs")] if callable(thing) else []
    words = set(re.findall(r"\w+", text.lower()))
    singular = {word.rstrip("s") for word in words}
    if len(taken) > 1 and not ({key.lower() for key in taken} & words) and not re.search(r"\(.*(\.\.\.|, ).*\)", text) \
            and not {part.rstrip("s") for key in taken for part in key.lower().split("_")} & singular:
        found.append(f"{name}: names none of {', '.join(taken)}")
    for part in short.split("_") if kind != "class" else ():
        if part in UNITS and not re.search(rf"\b({UNITS[part]})", text):
            found.append(f"{name}: no unit; say one of {UNITS[part]}")
    for error in sorted(raised(nodes)):
        if error not in text:
            found.append(f"{name}: does not say that it raises {error}")
    if dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        fields = getattr(thing, "_fields", None) or [field.name for field in dataclasses.fields(thing)]
        silent = [field for field in fields if not re.search(rf"\b{field}\b", text)]
        if silent:
            found.append(f"{name}: does not say what {', '.join(silent)} are")
    return found


def keys_told(text):
    """Return the names under ``Keys:``, or after it in the same paragraph."""
    section = re.search(r"^Keys:(.*?)(?=^\w+:$|^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^ {4}(\w[\w, .]*):", section.group(1), re.MULTILINE) if section else []
    return {key for line in lines for key in re.split(r", *", line) if key != "..."}


def found_by_running():
    """Return {function: what it returned}, small runs of all that return dicts."""
    model, other = digits_mlp(), digits_mlp()
    x = Tensor(np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32))
    quick = {"limits": LIMITS, "iterations": 6}
    marks = np.array([True, False, True, True])
    benchmark = benchmarking.Benchmark({"a": model, "b": other}, x, [1, 2, 3, 4], may_differ=True)
    return {
        profiling.measure_memory: profiling.measure_memory(model, (4, 64)),
        profiling.training_memory: profiling.training_memory(model, (4, 64)),
        profiling.latency_statistics: profiling.latency_statistics(model, x, 1, 6),
        profiling.summarize: profiling.summarize([1.0, 2.0]),
        profiling.roofline: profiling.roofline(100, 100, LIMITS),
        profiling.profile_forward_pass: profiling.profile_forward_pass(model, x, **quick),
        profiling.profile_backward_pass: profiling.profile_backward_pass(model, x, **quick),
        profiling.verdict: profiling.verdict(profiling.Work(100, 100), 1.0, LIMITS),
        profiling.rates: profiling.rates(profiling.Work(100, 100), 1.0, LIMITS),
        profiling.tally: profiling.tally([]),
        profiling.environment: profiling.environment(),
        profiling.analyze_weight_distribution: profiling.analyze_weight_distribution(model, (10, 25)),
        profiling.compare: profiling.compare(model, model, x, rounds=6),
        profiling.profile_batch_sizes: profiling.profile_batch_sizes(model, (4, 64), (1,))[0],
        profiling.worst_element: profiling.worst_element(x.data, x.data, 0.0, 0.0),
        benchmarking.paired_accuracy: benchmarking.paired_accuracy(marks, ~marks),
        benchmarking.measure_model: benchmarking.measure_model(profiling.Profiler(), model, x, 1, 6),
        benchmarking.Benchmark.against_baseline: benchmark.against_baseline("b", 6),
    }


def test_every_public_name_stands_on_one_page():
    """The whole of tinytorch.perf and the zoo; of the core, what tinytorch and tinytorch.nn offer."""
    pages = documented([page.read_text(encoding="utf-8") for page in PAGES])
    assert {name: times for name, times in pages.items() if times > 1} == {}
    wanted = {(module, name) for module in [*PERF, "tinytorch.zoo"] for name in public(module)}
    for face in (tinytorch, tinytorch.nn, importlib.import_module("tinytorch.perf")):
        offered = [getattr(face, name) for name in face.__all__]
        wanted |= {(thing.__module__, thing.__name__) for thing in offered if not inspect.ismodule(thing)}
    assert wanted - set(pages) == set()
    assert [name for name in pages if not hasattr(importlib.import_module(name[0]), name[1])] == []


def test_every_docstring_says_enough():
    """What a callable takes and returns, in which unit, and what it raises."""
    everything = list(callables())
    assert len(everything) > 300  # so they were looked at
    assert [fault for each in everything for fault in faults(*each)] == []


@pytest.mark.filterwarnings("default")
def test_keys_are_what_comes_back():
    """The keys that a docstring lists are those of the dict, no more and no fewer."""
    for function, result in found_by_running().items():
        told = keys_told(inspect.getdoc(function))
        if "optimizer_state_mb" in told:
            told.remove("optimizer_state_mb")  # with an optimizer only
        assert told == set(result), function.__name__


def test_the_check_finds_what_is_missing():
    """Faults that are planted are found, and honest docstrings are left in peace."""
    def says_nothing(x):
        return x

    def no_result_ms(x):
        """Look at a number named x for a while."""
        return x

    def weight_bytes(x):
        """Return how heavy x is, all of it."""
        return x

    def refuses(x):
        """Return x, unless it is bad."""
        if not x:
            raise ValueError("bad")
        return x

    def takes(weights, other):
        """Return what is left in the end."""
        return weights, other

    def inner(x):
        """Return a function of x that is handed on."""
        def later():
            raise ValueError("later")
        return later

    def good_bytes(x):
        """Return the bytes of x.

        Raises:
            ValueError: it is empty.
        """
        if not x:
            raise ValueError("empty")
        return x

    @dataclasses.dataclass
    class Found:
        """What was found: the size, a count."""

        size: int
        weight_mb: float

    def of(thing):
        return [fault.split(": ", 1)[1] for fault in faults(thing.__name__, thing, text_of(thing))]

    assert of(says_nothing) == ["no docstring"]
    assert of(no_result_ms) == ["does not say what it returns", "no unit; say one of ms|milliseconds"]
    assert of(weight_bytes) == ["no unit; say one of bytes|MB"]
    assert of(refuses) == ["does not say that it raises ValueError"]
    assert of(takes) == ["names none of weights, other"]
    assert of(Found) == ["does not say what weight_mb are"]
    assert of(inner) == of(good_bytes) == []
    keys = "Do.\n\nKeys:\n    a, b: two.\n    c: one\n        more: of it.\n\nRaises:\n    E: no."
    assert keys_told(keys) == {"a", "b", "c"}
    twice = "```{eval-rst}\n.. currentmodule:: m\n.. autofunction:: f\n.. autoclass:: C()\n.. autofunction:: f\n```"
    assert documented([twice]) == {("m", "f"): 2, ("m", "C"): 1}
