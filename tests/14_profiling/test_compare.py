"""compare: equal first, then shuffled pairs; exact with a clock that is handed in, honest with one that drifts."""

import gc
import json
import random
import tracemalloc
from functools import partial

import numpy as np
import pytest

from tinytorch.core.activations import gelu
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor, listen, shape_only, thread_state
from tinytorch.perf import Profiler, compare, compare_table
from tinytorch.perf.profiling import median_interval, paired_ratio, timed_round, tolerance, worst_element

X = Tensor(np.arange(8.0).reshape(2, 4))


@pytest.fixture(autouse=True)
def written():
    """The bonus is no duty: a learner who has not written its two functions is not told that they fail."""
    try:
        timed_round(int, int, iter(range(8)).__next__, True)
        paired_ratio([(1, 1)] * 6)
    except NotImplementedError:
        pytest.skip("the bonus of section 8 is not written yet")


def taking(clock, *each_ms, function=lambda x: x):
    """Make a model whose calls take these milliseconds; the last one for ever. Its first call is the checked one."""
    todo = [1.0, *each_ms]

    def model(*args):
        clock.advance(todo.pop(0) if len(todo) > 1 else todo[0])
        return function(*args)
    return model


# ---------------------------------------------------------------- exact, with a clock that is handed in


def test_half_the_time_is_a_ratio_of_a_half(clock):
    found = compare(taking(clock, 4.0), taking(clock, 2.0), X, clock=clock, rounds=10, seed=1)
    assert found["ratio"] == pytest.approx(0.5) and found["interval"] == pytest.approx((0.5, 0.5))
    assert (found["verdict"], found["baseline_ms"], found["candidate_ms"]) == ("faster", 4.0, 2.0)
    assert (found["rounds"], found["dropped"], found["block"]) == (10, 0, 1)
    assert found["rounds_ns"] == [[8_000_000, 4_000_000]] * 10  # two passes of 4 ms, two of 2 ms
    assert clock.reads == 10 * 4 * 2  # rounds, turns, two reads a sample
    assert found["outputs_equal"] == "exactly" and found["warnings"] == []


def test_the_other_way_round_is_the_inverse(clock):
    found = compare(taking(clock, 2.0), taking(clock, 4.0), X, clock=clock, rounds=10)
    assert found["ratio"] == pytest.approx(2.0) and found["verdict"] == "slower"


def test_the_interval_and_the_resolution_by_hand(clock):
    # ten rounds; the candidate's two turns take 8 .. 17 ms each, the baseline's 10: ratios 0.8 .. 1.7. The median lies
    # between 1.2 and 1.3, on logarithms at sqrt(1.2 * 1.3); 10 rounds allow j = 2: the second lowest, 0.9, to 1.6.
    each = [float(ms) for ms in range(8, 18) for _ in range(2)]
    found = compare(taking(clock, 10.0), taking(clock, *each), X, clock=clock, rounds=10)
    assert found["ratio"] == pytest.approx((1.2 * 1.3) ** 0.5)
    assert found["interval"] == pytest.approx((0.9, 1.6))
    assert found["resolvable"] == pytest.approx((1.2 * 1.3) ** 0.5 / 0.9)  # the farther end: 1.388, not 1.281
    assert found["verdict"] == "indistinguishable"


def test_both_orders_occur_and_the_seed_repeats_them(clock):
    def orders(seed):
        turns = []
        compare(taking(clock, 1, function=lambda x: turns.append("A") or x),
                taking(clock, 1, function=lambda x: turns.append("B") or x), X, clock=clock, rounds=12, seed=seed)
        text = "".join(turns)[2:]  # the checked runs come first
        return [text[i:i + 4] for i in range(0, 48, 4)]

    assert set(orders(5)) == {"ABBA", "BAAB"}
    assert orders(5) == orders(5) != orders(6)


def test_rounds_without_time_are_dropped(clock):
    zero_first = taking(clock, *[0.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0], function=lambda x: x)
    found = compare(taking(clock, 3.0), zero_first, X, clock=clock, rounds=8)
    assert (found["rounds"], found["dropped"]) == (7, 1)
    assert any("1 round(s)" in said for said in found["warnings"])


def test_a_clock_that_stands_still_gives_no_number(clock):
    found = compare(taking(clock, 0.0), taking(clock, 0.0), X, clock=clock, rounds=8)
    assert (found["ratio"], found["interval"], found["resolvable"]) == (None, None, None)
    assert (found["verdict"], found["rounds"], found["dropped"]) == ("indistinguishable", 0, 8)
    assert any("only 0 round(s)" in said for said in found["warnings"])
    json.dumps(found, allow_nan=False)
    assert "unknown" in compare_table(found)


def test_too_few_rounds_left_give_no_interval(clock):
    found = compare(taking(clock, 3.0), taking(clock, 0.0, 1.5), X, clock=clock, rounds=6)
    assert found["rounds"] == 5 and found["interval"] is None and found["ratio"] == pytest.approx(0.5)
    assert found["verdict"] == "indistinguishable"


def test_ties_are_a_coarse_clock(clock):
    found = compare(taking(clock, 3.0), taking(clock, 3.0), X, clock=clock, rounds=8)
    assert found["verdict"] == "indistinguishable" and found["interval"] == (1.0, 1.0)
    assert found["resolvable"] > 1  # not even a clock of whole nanoseconds sees a difference of nothing
    assert any(said.startswith("clock too coarse: 8 of 8") for said in found["warnings"])


def test_a_ratio_that_drifts_is_said(clock):
    found = compare(taking(clock, 2.0), taking(clock, *[1.0] * 20, 3.0), X, clock=clock, rounds=20)
    assert any(said.startswith("the ratio drifted") for said in found["warnings"])


# ---------------------------------------------------------------- false alarms


class Drifting:
    """A clock on a machine whose speed wanders: the logarithm of a call's time is a first-order autoregression."""

    def __init__(self, seed, keeps=0.95, step=0.05):
        self.random, self.keeps, self.step, self.mood, self.now = random.Random(seed), keeps, step, 0.0, 0

    def __call__(self):
        return self.now

    def work(self, ms):
        self.mood = self.keeps * self.mood + self.random.gauss(0, self.step)
        self.now += round(ms * 1e6 * np.exp(self.mood))


def working(clock, ms):
    """Make a model whose calls take about these milliseconds on that machine."""
    def model(x):
        clock.work(ms)
        return x
    return model


def apart(seed, rounds):
    """Say whether intervals of two runs of one code, one after the other on a drifting machine, do not overlap."""
    clock, intervals = Drifting(seed), []
    for _ in range(2):
        times = []
        for _ in range(2 * rounds):
            start = clock()
            clock.work(1.0)
            times.append(clock() - start)
        intervals.append(median_interval(times))
    return intervals[0][0] > intervals[1][1] or intervals[1][0] > intervals[0][1]


def test_identical_code_on_a_drifting_machine_is_rarely_called_different():
    trials, rounds = 500, 20
    alarms = 0
    for seed in range(trials):
        clock, coin = Drifting(seed), random.Random(10_000 + seed)
        work = partial(clock.work, 1.0)
        took = [timed_round(work, work, clock, coin.random() < 0.5) for _ in range(rounds)]
        low, high = paired_ratio([(sum(a), sum(b)) for a, b in took])[1]
        alarms += not low <= 1 <= high
    # 20 coins: at most 5 heads or at most 5 tails, 2 * 21,700 / 2**20 = 4.1 %; in 500 trials 21 ± 4.4
    assert alarms <= 0.05 * trials + 7
    # and the noise is of the kind that fools whoever times one after the other
    assert sum(apart(seed, rounds) for seed in range(150)) > 0.19 * 150


def test_compare_itself_on_a_drifting_machine():
    verdicts = []
    for seed in range(40):
        clock = Drifting(seed)
        one, same, faster = (working(clock, ms) for ms in (1.0, 1.0, 0.9))
        verdicts.append([compare(one, other, X, clock=clock, rounds=30, seed=seed)["verdict"]
                         for other in (same, faster)])
    assert sum(one != "indistinguishable" for one, _ in verdicts) <= 5  # 5 % of 40 is 2
    assert sum(other == "faster" for _, other in verdicts) >= 38
    assert not any(other == "slower" for _, other in verdicts)


# ---------------------------------------------------------------- equal first


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda x: x.reshape(4, 2), r"shape \(2, 4\) in the baseline and \(4, 2\)"),
    (lambda x: x.astype(np.float64), "dtype float32 in the baseline and float64"),
    (lambda x: (x, x), "want the same structure"),
    (lambda x: x + Tensor([0.0, 0.0, 0.5, 0.0]),
     r"at \[0, 2\]: baseline 2.0, candidate 2.5, difference 0.5, allowed 2.1e-05 \(2 of 8 elements")])
def test_what_is_not_equal_is_refused_before_anything_is_timed(clock, wrong, says):
    with pytest.raises(ValueError, match=says) as caught:
        compare(lambda x: x, wrong, X, clock=clock)
    assert clock.reads == 0 and "\n" not in str(caught.value) and "input 0" in str(caught.value)


def test_every_input_is_checked(clock):
    clipped = lambda x: Tensor(np.minimum(x.data, 6.0))  # noqa: E731
    inputs = [Tensor([1.0, 2.0]), Tensor([5.0, 7.0])]
    with pytest.raises(ValueError, match=r"input 1, output differs most at \[1\]"):
        compare(lambda x: x, clipped, inputs, clock=clock)
    assert compare(lambda x: x, clipped, inputs[:1], clock=taken(clock))["outputs_equal"] == "exactly"


def taken(clock):
    """A clock that steps by a microsecond at each read."""
    def read():
        clock.advance(0.001)
        return clock()
    return read


def test_several_inputs_are_one_pass(clock):
    seen = []
    model = lambda *args: seen.append(len(args)) or args[0]  # noqa: E731
    found = compare(model, model, [X, (X, 3), Tensor(np.zeros((0, 4)))], clock=taken(clock), rounds=6)
    assert seen[:6] == [1, 1, 2, 2, 1, 1]  # each input on both, checked
    assert seen[6:] == [1, 2, 1] * 24
    assert found["workload"]["shapes"] == [[2, 4], [2, 4], [0, 4]] and found["workload"]["inputs"] == 3


@pytest.mark.parametrize(("values", "equal"), [
    (([np.nan, 1.0], [np.nan, 1.0]), True), (([np.inf, 1.0], [np.inf, 1.0]), True), (([np.inf], [-np.inf]), False),
    (([np.inf], [1e30]), False), (([1e30], [np.inf]), False), (([np.nan], [0.0]), False), (([0.0], [np.nan]), False)])
def test_nan_equals_nan_and_an_infinity_itself(clock, values, equal):
    here, there = (Tensor(value) for value in values)
    if equal:
        assert compare(lambda x: here, lambda x: there, X, clock=taken(clock))["outputs_equal"] == "exactly"
    else:
        with pytest.raises(ValueError, match="differs most"):
            compare(lambda x: here, lambda x: there, X, clock=clock)


@pytest.mark.parametrize(("dtype", "off", "fine"), [
    (np.float32, 1e-5, True), (np.float32, 1.3e-5, False), (np.float16, 9e-3, True), (np.float16, 2e-2, False),
    (np.float64, 5e-11, True), (np.float64, 2e-10, False), (np.int64, 1, False), (np.uint8, 1, False)])
def test_tolerances_by_type(clock, dtype, off, fine):
    one = np.ones(3, dtype)
    there = one.copy()
    there[1] += np.asarray(off, dtype)
    call = lambda **more: compare(lambda x: Tensor(one, dtype=dtype), lambda x: Tensor(there, dtype=dtype), X,  # noqa: E731
                                  clock=taken(clock), rounds=6, **more)
    if fine:
        assert call()["outputs_equal"] == "within tolerance"
        assert call()["worst_difference"]["where"] == {"input": 0, "output": "output", "index": [1]}
    else:
        with pytest.raises(ValueError, match="differs most"):
            call()
    assert call(atol=2.0)["outputs_equal"] == "within tolerance"


def test_worst_is_measured_by_what_is_allowed():
    expected = np.array([1000.0, 0.0, 1.0], np.float32)
    worst = worst_element(expected, expected + np.array([0.005, 2e-6, 0], np.float32), *tolerance(expected.dtype))
    assert worst["index"] == [1] and worst["beyond"] == 1  # 2e-6 of 1e-6, not 0.005 of 0.010
    assert worst["rel"] is None  # of nothing
    big = np.array([2**62])
    assert worst_element(big, big + 1, 0.0, 0.0)["abs"] == 1.0  # also where a float cannot tell them apart
    assert worst_element(np.array([0, 255], np.uint8), np.array([255, 255], np.uint8), 0.0, 0.0)["abs"] == 255.0


def test_a_decision_must_stay_the_same(clock):
    here, there = Tensor([[1.0, 1.000001]]), Tensor([[1.000001, 1.0]])
    compare(lambda x: here, lambda x: there, X, clock=taken(clock))
    with pytest.raises(ValueError, match=r"decision is array\(\[1\]\) in the baseline and array\(\[0\]\)"):
        compare(lambda x: here, lambda x: there, X, decision=lambda out: out.data.argmax(-1), clock=clock)
    for decide in (lambda out: out.argmax(axis=-1) * 0, lambda out: "same", lambda out: [1, np.nan], lambda out: None):
        compare(lambda x: here, lambda x: there, X, decision=decide, clock=taken(clock))


class Buffered(Layer):
    """Adds to running statistics, its weight, or fills a cache, when told to."""

    def __init__(self, amount=0.0, into="mean"):
        self.mean, self.weight, self.amount, self.into = np.zeros(2), Tensor([1.0, 1.0]), amount, into

    def forward(self, x):
        if self.into == "cache":
            self.cache = Tensor([self.amount])
        else:
            target = self.mean if self.into == "mean" else self.weight.data
            target += self.amount
        return x


@pytest.mark.parametrize("into", ["mean", "weight", "cache"])
def test_a_change_of_state_must_be_the_same(clock, into):
    quiet, busy = Buffered(0.0), Buffered(0.5, into)
    for pair, who in (((quiet, busy), "candidate"), ((busy, quiet), "baseline")):
        with pytest.raises(ValueError, match=f"only the {who} changes model.{into}"):
            compare(*pair, X, clock=clock)
    if into != "cache":
        with pytest.raises(ValueError, match="state after the run"):
            compare(busy, Buffered(0.25, into), X, clock=clock)
    compare(busy, Buffered(0.5, into), X, clock=taken(clock))
    assert busy.mean.tolist() == [0.0, 0.0] and not hasattr(busy, "cache")
    if into == "mean":
        assert busy.weight.data.tolist() == [1.0, 1.0]


def test_batch_norm_in_train_mode_agrees_with_itself_and_not_with_eval(clock):
    image = Tensor(np.random.default_rng(0).standard_normal((4, 2, 3, 3)))
    one, other = BatchNorm2d(2), BatchNorm2d(2)
    state = one.running_mean.copy()
    assert compare(one, other, image, clock=taken(clock))["workload"]["mode"] == ["train", "train"]
    assert np.array_equal(one.running_mean, state)
    with pytest.raises(ValueError, match="differs most|only the baseline changes"):
        compare(one, other.eval(), image, clock=clock)


@pytest.mark.parametrize("rngs", [(None, None), (np.random.default_rng(1), np.random.default_rng(2))])
def test_dropout_draws_alike_on_both_sides(clock, rngs):
    many = Tensor(np.ones((50, 20)))
    one, other = (Sequential(Dropout(0.5, rng)) for rng in rngs)
    assert compare(one, other, many, clock=taken(clock))["outputs_equal"] == "exactly"


def test_who_writes_into_the_input_is_refused_and_the_input_is_as_before(clock):
    def greedy(x):
        x.data += 0.0 * x.data + 1
        return Tensor(x.data - 1)

    for pair, who in (((lambda x: x, greedy), "candidate"), ((greedy, lambda x: x), "baseline")):
        before = X.data.copy()
        with pytest.raises(ValueError, match=f"the {who} wrote into its input|differs most"):
            compare(*pair, X, clock=clock)
        assert np.array_equal(X.data, before)


@pytest.mark.parametrize("output", [None, 3, "text", (n for n in "lazy"), iter([1]), [X, (n for n in "lazy")]])
def test_what_is_not_computed_is_refused(output):
    with pytest.raises(TypeError, match="the candidate returned a .*want a Tensor"):
        compare(lambda x: x, lambda x: output, X)


def test_outputs_in_containers(clock):
    give = lambda x: {"logits": x, "more": [x + 1, None, 3]}  # noqa: E731
    compare(give, give, X, clock=taken(clock))
    with pytest.raises(ValueError, match=r"output\[more\]\[2\] differs most at \[\]"):
        compare(give, lambda x: {"logits": x, "more": [x + 1, None, 4]}, X, clock=clock)


def test_elements_may_be_missing(clock):
    nothing = Tensor(np.zeros((0, 4)))
    found = compare(lambda x: x, lambda x: x, nothing, clock=taken(clock))
    assert found["worst_difference"] is None and found["outputs_equal"] == "exactly"


# ---------------------------------------------------------------- everything as before


class Fails(Layer):
    """Raises on a given call, counted outside of the model."""

    def __init__(self, calls, at, error):
        self.calls, self.at, self.error, self.weight = calls, at, error, Tensor([1.0], requires_grad=True)

    def forward(self, x):
        self.calls.append(1)
        self.weight.data += 1
        self.weight.data -= 1
        if len(self.calls) >= self.at:
            raise self.error
        return x


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("error", [RuntimeError("half way"), KeyboardInterrupt(), ZeroDivisionError("x")])
def test_a_models_error_passes_through_and_leaves_nothing_behind(clock, at, error):
    model = Fails([], at, error)
    model.weight.grad = grad = Tensor([7.0])
    draws, numpys = random.getstate(), np.random.get_state()[1].copy()
    with pytest.raises(type(error)) as caught:
        compare(lambda x: x, model, X, clock=taken(clock))
    assert caught.value is error
    assert gc.isenabled() and model.weight.grad is grad
    assert random.getstate() == draws and np.array_equal(np.random.get_state()[1], numpys)


def test_ctrl_c_while_reading_the_clock():
    reads = []

    def interrupted():
        reads.append(1)
        if len(reads) == 5:
            raise KeyboardInterrupt
        return len(reads)

    with pytest.raises(KeyboardInterrupt):
        compare(lambda x: x, lambda x: x, X, clock=interrupted)
    assert gc.isenabled()


def test_the_callers_gradient_mode_and_listeners():
    seen, heard = set(), []
    def model(x):
        seen.add((thread_state().grad_enabled, gc.isenabled()))
        return x + 1

    with listen(heard.append):
        found = compare(model, model, X, rounds=6)
    assert heard == [] and (True, False) in seen and found["workload"]["gradient"] == "kept where wanted"
    seen.clear()
    with no_grad():
        assert compare(model, model, X, rounds=6)["workload"]["gradient"] == "no_grad"
    assert {enabled for enabled, _ in seen} == {False}


def test_tracing_is_said_and_goes_on():
    tracemalloc.start()
    try:
        found = compare(lambda x: x, lambda x: x, X, rounds=6)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    assert any("tracemalloc" in said for said in found["warnings"])


# ---------------------------------------------------------------- a real clock


def test_short_calls_go_in_blocks_of_one_size():
    found = compare(Linear(4, 3), Linear(4, 3), X, atol=100.0, rounds=6)
    assert found["block"] > 1 and found["rounds"] + found["dropped"] == 6
    assert found["baseline_ms"] > 0 and found["interval"][0] <= found["ratio"] <= found["interval"][1]
    assert found["resolvable"] > 1
    assert {"blas", "cpu", "numpy", "seed", "stages", "rtol"} <= set(found["workload"])


def test_three_times_the_work_is_slower():
    big = Tensor(np.random.default_rng(0).standard_normal((64, 256)))
    def thrice(x):
        gelu(x), gelu(x)
        return gelu(x)

    for _ in range(4):  # real time: on a machine that does much else, ten rounds may not be enough to tell
        found = compare(gelu, thrice, big, rounds=10)
        if found["verdict"] == "slower":
            break
    assert found["verdict"] == "slower" and found["ratio"] > 2
    json.dumps(found, allow_nan=False)


def test_the_table_fits_a_terminal(clock):
    long = "x" * 300
    found = compare(taking(clock, 123.456789), taking(clock, 98.7654321), X, clock=clock, rounds=8)
    for text in (compare_table(found), compare_table({**found, "warnings": [f"w {long[:70]} and more"]})):
        assert all(len(line) <= 80 for line in text.splitlines())
    assert "faster" in compare_table(found)


def test_a_profiler_remembers_it(clock):
    profiler = Profiler(clock=taken(clock))
    found = profiler.compare(Linear(4, 3), Linear(4, 3), X, atol=100.0, rounds=6)
    assert profiler.measurements["compare Linear"] is found and found["rounds"] == 6


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(("words", "error", "says"), [
    ({"inputs": []}, ValueError, "no inputs"), ({"inputs": np.ones(3)}, TypeError, "ndarray; want a Tensor"),
    ({"inputs": [1.0]}, TypeError, "float; want a Tensor"), ({"inputs": [()]}, TypeError, "tuple; want a Tensor"),
    ({"rounds": 5}, ValueError, "rounds is 5; want at least 6"), ({"rounds": 0}, ValueError, "rounds"),
    ({"rounds": True}, TypeError, "rounds"), ({"rounds": 8.0}, TypeError, "rounds"),
    ({"rtol": -1.0}, ValueError, "rtol is -1"), ({"atol": float("nan")}, ValueError, "atol is NaN"),
    ({"atol": float("inf")}, ValueError, "atol is inf"), ({"rtol": "1"}, TypeError, "rtol is '1'"),
    ({"rtol": True}, TypeError, "rtol"), ({"decision": 3}, TypeError, "decision is 3"),
    ({"seed": -1}, ValueError, "seed"), ({"seed": "a"}, TypeError, "seed"),
    ({"candidate": object()}, ValueError, "no forward"), ({"candidate": Linear}, ValueError, "make an object")])
def test_bad_input_gets_one_sentence(words, error, says):
    with pytest.raises(error, match=says) as caught:
        compare(**{"baseline": lambda x: x, "candidate": lambda x: x, "inputs": X, **words})
    assert "\n" not in str(caught.value)


def test_nothing_is_compared_on_shapes():
    with shape_only(), pytest.raises(ValueError, match="shape-only"):
        compare(lambda x: x, lambda x: x, X)
