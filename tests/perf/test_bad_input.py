"""What every verb does with bad input: one sentence, and everything as it was before the call."""

import gc
import itertools
import random
import threading
import tracemalloc

import numpy as np
import pytest

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, default_generator
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor, thread_state
from tinytorch.perf import profiling as p

LIMITS = p.MachineLimits(100.0, 10.0, 1.0)

# verb name -> call(model, shape); each makes an input of that shape where it wants a tensor
BY_SHAPE = {
    "count_flops": p.count_flops,
    "flop_report": p.flop_report,
    "measure_memory": p.measure_memory,
    "training_memory": p.training_memory,
    "profile_layer": lambda model, shape, **clock: p.profile_layer(model, shape, limits=LIMITS, iterations=1, **clock),
    "profile_batch_sizes": lambda model, shape, **clock: p.profile_batch_sizes(model, shape, (1, 2), **clock),
}
BY_TENSOR = {
    "measure_latency": lambda model, x, **clock: p.measure_latency(model, x, 1, 2, **clock),
    "latency_statistics": lambda model, x, **clock: p.latency_statistics(model, x, 1, 2, **clock),
    "profile_forward_pass": lambda model, x, **clock: p.profile_forward_pass(
        model, x, limits=LIMITS, iterations=1, **clock),
    "profile_backward_pass": lambda model, x, **clock: p.profile_backward_pass(
        model, x, limits=LIMITS, iterations=1, **clock),
    "compare": lambda model, x, **clock: p.compare(model, model, x, **clock),
}
EVERY = {**BY_SHAPE, **{name: (lambda model, shape, call=call, **clock: call(model, Tensor(np.ones(shape)), **clock))
                        for name, call in BY_TENSOR.items()}}
TIMED = {"profile_layer", "profile_batch_sizes", *BY_TENSOR}


def ticking(verb):
    """Return the words that hand a verb a clock, a microsecond later at every read: counting needs no real time."""
    words = {"clock": itertools.count(0, 1000).__next__}
    return {**words, "rounds": 6} if verb == "compare" else words if verb in TIMED else {}


def worn_model():
    """Return a model with everything a careless instrument could change: buffers, gradients, modes, randomness."""
    model = Sequential(Conv2d(1, 2, 3, padding=1), BatchNorm2d(2), ReLU(), Dropout(0.5), _Flat(), Linear(18, 4))
    for parameter in model.parameters():
        parameter.grad = Tensor(np.full(parameter.shape, 0.25))
    model.layers[5].bias.requires_grad = False
    model.layers[2].eval()
    return model


class _Flat(Layer):
    def forward(self, x):
        return x.reshape(x.shape[0], -1)


def everything(model):
    """Return a picture of all that a call must leave alone."""
    parts = model.layers
    state = thread_state()
    return {
        "weights": [w.data.tobytes() for w in model.parameters()],
        "same arrays": [id(w.data) for w in model.parameters()],
        "gradients": [(id(w.grad), w.grad.data.tobytes()) for w in model.parameters()],
        "flags": [w.requires_grad for w in model.parameters()], "mode": [part.training for part in (model, *parts)],
        "running": [parts[1].running_mean.tobytes(), parts[1].running_var.tobytes()],
        "attributes": [sorted(vars(part)) for part in (model, *parts)],
        "generator": str(default_generator().bit_generator.state), "random": random.getstate(),
        "numpy": np.random.get_state()[1].tobytes(), "errors": np.geterr(), "gc": gc.isenabled(),
        "tracing": tracemalloc.is_tracing(),
        "door": (state.grad_enabled, state.shape_only, state.path, state.hearers, state.scope_hearers),
    }


def one_sentence(error):
    """Say whether an error's text is one sentence: one line, not endless, no traceback inside."""
    text = str(error)
    return 0 < len(text) <= 250 and "\n" not in text and "Traceback" not in text


@pytest.mark.parametrize("verb", EVERY)
def test_a_good_call_changes_nothing(verb):
    model = worn_model()
    before = everything(model)
    EVERY[verb](model, (2, 1, 3, 3), **({} if verb == "latency_statistics" else ticking(verb)))  # one in real time
    assert everything(model) == before


@pytest.mark.parametrize("shape, tracing", [
    ((2, 1, 4, 4), False), ((2, 3, 3, 3), False), ((2, 9), False), ((9,), False), ((2, 1, 4, 4), True)])
@pytest.mark.parametrize("verb", EVERY)
def test_wrong_rank_or_features_are_refused_and_nothing_is_changed(verb, shape, tracing):
    model = worn_model()
    if tracing:
        tracemalloc.start()
    try:
        before = everything(model)
        with pytest.raises((ValueError, TypeError, IndexError)) as caught:
            EVERY[verb](model, shape)
        assert everything(model) == before and one_sentence(caught.value)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape, error", [
    ((), ValueError), ((0, 4), ValueError), ((-1, 4), ValueError), ((2, 4.0), TypeError), ((True, 4), TypeError),
    (("2", 4), TypeError), (None, TypeError), (4, TypeError), ("24", TypeError), ({2, 4}, TypeError),
    ((2, None), TypeError)])
@pytest.mark.parametrize("verb", BY_SHAPE)
def test_shapes_that_are_none(verb, shape, error):
    model = Linear(4, 2)
    with pytest.raises(error) as caught:
        BY_SHAPE[verb](model, shape)
    assert one_sentence(caught.value) and model.weight.grad is None


@pytest.mark.parametrize("words, error", [
    ({"iterations": 0}, ValueError), ({"iterations": -3}, ValueError), ({"warmup": -1}, ValueError),
    ({"iterations": 2.0}, TypeError), ({"iterations": True}, TypeError), ({"warmup": "1"}, TypeError),
    ({"iterations": None}, TypeError)])
@pytest.mark.parametrize("verb", [p.measure_latency, p.latency_statistics])
def test_counts_that_are_none(verb, words, error):
    model = worn_model()
    before = everything(model)
    with pytest.raises(error) as caught:
        verb(model, Tensor(np.ones((2, 1, 3, 3))), **words)
    assert everything(model) == before and one_sentence(caught.value)


class Interrupted(Layer):
    """Raises what it is given when it is called for the ``at``-th time, after having made a mess."""

    def __init__(self, error, at):
        self.inner, self.error, self.at, self.calls = worn_model(), error, at, 0

    def forward(self, x):
        self.calls += 1
        self.inner.layers[1].running_mean[...] += 1
        np.random.random()
        out = self.inner(x)
        if self.calls >= self.at:
            raise self.error
        return out


@pytest.mark.parametrize("error", [RuntimeError("half way"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("verb", EVERY)
def test_an_error_half_way_is_the_models_own(verb, at, error):
    """The same object reaches the caller; a run that needs fewer calls than ``at`` simply succeeds."""
    model = Interrupted(error, at)
    before = everything(model.inner)
    try:
        EVERY[verb](model, (2, 1, 3, 3))
        assert at > 1
    except BaseException as caught:
        assert caught is error
    assert everything(model.inner) == before and model.calls == 0


@pytest.mark.parametrize("output", [None, 3.0, np.ones(2), "text", [], [1, 2], (x for x in ())])
@pytest.mark.parametrize("verb", EVERY)
def test_a_model_that_returns_no_tensor(verb, output):
    with pytest.raises(TypeError, match="Tensor") as caught:
        EVERY[verb](lambda x: output, (2, 3))
    assert one_sentence(caught.value)


@pytest.mark.parametrize("model, says", [(Linear, "make an object"), (None, "no forward"), (3, "no forward"),
                                         ("linear", "no forward"), (object(), "no forward")])
@pytest.mark.parametrize("verb", EVERY)
def test_what_is_no_model(verb, model, says):
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        EVERY[verb](model, (2, 3))
    assert one_sentence(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("verb", BY_TENSOR)
def test_strange_numbers_are_the_callers_affair(verb, bad):
    model = worn_model()
    before = everything(model)
    BY_TENSOR[verb](model, Tensor(np.full((2, 1, 3, 3), bad)), **ticking(verb))
    assert everything(model) == before


ON_SHAPES = ("count_flops", "flop_report", "training_memory")


@pytest.mark.parametrize("inside", ["measure_latency", "profile_layer"])
@pytest.mark.parametrize("verb", ON_SHAPES)
def test_nothing_is_timed_inside_a_run_on_shapes(verb, inside):
    with pytest.raises(ValueError, match="shape-only run computes nothing") as caught:
        EVERY[verb](lambda x: EVERY[inside](Linear(2, 2), (1, 2)), (2, 3))
    assert one_sentence(caught.value)


@pytest.mark.parametrize("verb, inside", [(verb, inside) for verb in EVERY for inside in (
    "count_flops", "measure_memory", "measure_latency", "profile_layer") if not (
    verb in ON_SHAPES and inside in ("measure_latency", "profile_layer"))])
def test_profiling_inside_profiling_is_right(verb, inside):
    """A model that profiles something while it is profiled: the outer counts are the model's own.

    Both read clocks that are handed in, all but one; real timings inside real ones are in test_time.py.
    """
    small, really = Linear(2, 2), (verb, inside) == ("profile_forward_pass", "count_flops")

    def nosy(x):
        EVERY[inside](small, (1, 2), **ticking(inside))
        return x + 1.0

    found = EVERY[verb](nosy, (2, 3), **({} if really else ticking(verb)))
    counted = {"count_flops": lambda: found, "flop_report": lambda: found.per_sample,
               "profile_layer": lambda: found["flops_per_sample"],
               "profile_forward_pass": lambda: found["flops_per_sample"]}
    assert counted.get(verb, lambda: 3)() == 3  # x + 1: one for each of 3 elements
    assert EVERY[inside](small, (1, 2), **ticking(inside)) is not None and not tracemalloc.is_tracing()


def test_threads_do_not_disturb_each_other():
    """Eight threads profile models of their own, and all one shared model: the numbers and the gradients are right."""
    shared, found, failed = worn_model(), {}, []
    layers = [Linear(10 + i, 5) for i in range(8)]
    before = everything(shared)

    def work(i):
        try:
            own, x = layers[i], Tensor(np.ones((4, 10 + i)))
            found[i] = (p.count_flops(own, (4, 10 + i)), p.measure_memory(own, (4, 10 + i))["output_mb"],
                        p.profile_forward_pass(own, x, limits=LIMITS, iterations=2, clock=lambda: 0)["flops"],
                        p.profile_backward_pass(own, x, limits=LIMITS, iterations=2, clock=lambda: 0)["backward_flops"])
            p.profile_backward_pass(shared, Tensor(np.ones((2, 1, 3, 3))), limits=LIMITS, iterations=1, clock=lambda: 0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in threads)
    for i in range(8):
        features = 10 + i
        # the weight's gradient costs what the forward pass does, the bias's gradient one for each of 4 * 5 summed
        assert found[i] == (2 * features * 5, 4 * 5 * 4 / 2**20, 4 * 2 * features * 5, 4 * 2 * features * 5 + 4 * 5)
    assert everything(shared) == before


CLOCKED = {
    "latency_statistics": lambda clock: p.latency_statistics(Linear(3, 2), Tensor(np.ones((2, 3))), 1, 2, clock=clock),
    "profile_backward_pass": lambda clock: p.profile_backward_pass(
        Linear(3, 2), Tensor(np.ones((2, 3))), limits=LIMITS, clock=clock, iterations=1),
    "compare": lambda clock: p.compare(ReLU(), ReLU(), Tensor(np.ones((2, 3))), clock=clock,
                                       rounds=6),
}


@pytest.mark.parametrize("verb", CLOCKED)
@pytest.mark.parametrize("clock", [3, "x", lambda: None, lambda: float("nan"), lambda: 10**400, lambda: "1"])
def test_a_clock_that_is_none_gets_one_sentence(verb, clock):
    with pytest.raises(TypeError, match="clock .*want .*nanoseconds") as caught:
        CLOCKED[verb](clock)
    assert "\n" not in str(caught.value)


def test_memory_of_what_is_no_tensor_or_empty():
    with pytest.raises(TypeError, match="input_tensor is a ndarray; want a Tensor"):
        p.measure_memory(Linear(3, 2), (2, 3), np.ones((2, 3)))
    with pytest.raises(ValueError, match="input_tensor is empty"):
        p.measure_memory(lambda x: x, (2, 3), Tensor(np.ones((0, 3))))


@pytest.mark.parametrize("listed", [None, 7])
def test_parameters_that_are_no_list(listed):
    class Odd:
        def parameters(self):
            return listed

    with pytest.raises(TypeError, match=r"Odd.parameters\(\) gave .*; want Tensors in a list"):
        p.count_parameters(Odd())


PLAIN = p.flop_report(Sequential(Linear(3, 4), ReLU()), (2, 3)).to_dict()


@pytest.mark.parametrize(("change", "says"), [
    (None, "a NoneType came"), ([], "a list came"), ({"total": "96"}, "total is a str"),
    ({"total": True}, "total is a bool"),
    ({"model": None}, "model is a NoneType"), ({"uncounted": 3}, "uncounted is a int"),
    ({"more": 1}, "more is no field"),
    ({"by_layer": None}, "by_layer is a NoneType"), ({"by_layer": {}}, "is missing"),
    ({"input_shape": 3}, "input_shape"),
    ({"by_layer": {**PLAIN["by_layer"], "children": [{}]}}, "is missing"),
    ({"by_layer": {**PLAIN["by_layer"], "flops": float("nan")}}, "flops is a float")])
def test_a_report_of_something_else_gets_one_sentence(change, says):
    with pytest.raises((TypeError, ValueError), match=f"from_dict: .*{says}.*want the dict that to_dict"):
        p.FlopReport.from_dict({**PLAIN, **change} if isinstance(change, dict) else change)
    for name in PLAIN.keys() - {"elementwise"}:
        with pytest.raises(ValueError, match=f"{name} is missing"):
            p.FlopReport.from_dict({key: value for key, value in PLAIN.items() if key != name})
    assert p.FlopReport.from_dict(PLAIN).to_dict() == PLAIN


@pytest.mark.parametrize(("limits", "says"), [
    ({"bandwidth_gbs": {"a": 1.0}}, "size in the table bandwidth_gbs is 'a'"), ({"bandwidth_gbs": {-1: 1.0}}, "is -1"),
    ({"product_gflops": {-1: 1.0}}, "size in the table product_gflops is -1"), ({"spread": "x"}, "spread is 'x'"),
    ({"spread": float("nan")}, "spread is nan"), ({"transcendental_gops": 0.0}, "transcendental_gops is 0"),
    ({"peak_gflops": 10**400}, "finite"), ({"dispatch_us": 10**400}, "finite")])
def test_limits_of_no_machine(limits, says):
    with pytest.raises((TypeError, ValueError), match=says):
        p.MachineLimits(**{"peak_gflops": 1.0, "bandwidth_gbs": 1.0, "dispatch_us": 1.0, **limits})
