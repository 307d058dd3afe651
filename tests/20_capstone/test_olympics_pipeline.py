"""The chain on the real start model: steps, their measurement with a clock that is handed in, the whole run, replay."""

from copy import deepcopy

import numpy as np
import pytest

from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.olympics import (
    STEPS,
    Budget,
    Task,
    apply_steps,
    check_report,
    make_report,
    measured,
    prepare,
    replay,
    results_of,
    run,
)
from tinytorch.perf.profiling import compare, count_flops, count_parameters, weight_bytes


@pytest.fixture(scope="module")
def task():
    """One epoch of training is enough here."""
    return prepare(epochs=1)


def ticking(seed=0, most=1000):
    """Return a clock that goes on by 1 to ``most`` ns at each read."""
    ticks = iter(np.random.default_rng(seed).integers(1, most, 10_000).cumsum().tolist())
    return lambda: next(ticks)


def test_the_start_line_is_the_same_for_all(task):
    one, two, other = task, prepare(epochs=1), prepare(4, epochs=1)
    assert all(np.array_equal(a.data, b.data) for a, b in zip(one.model.parameters(), two.model.parameters()))
    assert not np.array_equal(one.model.layers[0].weight.data, other.model.layers[0].weight.data)
    assert count_parameters(one.model) == 64 * 256 + 256 + 256 * 10 + 10
    assert one.model.training is False
    assert (one.images.shape, one.labels.shape) == ((355, 64), (355,))


@pytest.mark.parametrize("one", [["prune", 0.5], ["mask", 0.5], ["low_rank", 4], ["distill", 1], ["fuse"],
                                 ["quantize"]], ids=lambda one: one[0])
def test_each_step_gives_a_new_model_and_leaves_the_old(task, one):
    before = {name: array.copy() for name, array in task.model.state_dict().items()}
    new = STEPS[one[0]](task.model, task, *one[1:])
    assert new is not task.model
    assert all(np.array_equal(before[name], array) for name, array in task.model.state_dict().items())
    assert new(task.images).shape == (355, 10)
    assert set(before) == set(task.model.state_dict())


def test_what_each_step_weighs_and_costs(task):
    def costs(*steps):
        model = apply_steps(steps, task)
        return weight_bytes(model), count_flops(model, (1, 64))

    # a Linear: 2 per weight; GELU: 9 per unit
    assert costs() == (4 * 19_210, 2 * 64 * 256 + 9 * 256 + 2 * 256 * 10)
    assert costs(["prune", 0.75]) == (4 * (64 * 64 + 64 + 64 * 10 + 10), 2 * 64 * 64 + 9 * 64 + 2 * 64 * 10)
    assert costs(["mask", 0.9]) == costs() == costs(["fuse"])
    # int8 weights; a float32 bias, a scale and an int8 zero point for each output
    assert costs(["quantize"])[0] == 64 * 256 + 256 * 10 + (4 + 4) * (256 + 10) + count_zero_points(task)
    assert costs(["low_rank", 4])[0] == 4 * (64 * 4 + 4 * 256 + 256 + 256 * 4 + 4 * 10 + 10)


def count_zero_points(task):
    """Return the bytes of the zero points, of whatever type: what is neither weight, bias nor scale."""
    model = apply_steps([["quantize"]], task)
    return sum(layer.zero_point.nbytes for layer in model.layers if hasattr(layer, "zero_point"))


def test_a_step_may_be_a_learners_own(task):
    def half(model, task, share):
        new = deepcopy(model)
        for p in new.parameters():
            p.data = (p.data * share).astype(np.float16)
        return new

    STEPS["test: half"] = half
    try:
        assert weight_bytes(apply_steps([["test: half", 1.0]], task)) == 2 * 19_210
        assert weight_bytes(task.model) == 4 * 19_210
    finally:
        del STEPS["test: half"]


@pytest.mark.parametrize("steps, error, words", [
    ([["shrink"]], ValueError, "'shrink'.*prune"), ([["prune", 2.0]], ValueError, "2"),
    ([["low_rank", 0]], ValueError, "0"), ([["quantize"], ["distill", 1]], ValueError, "distill, then quantize"),
    ([["fuse", 1]], TypeError, "argument"), ([["quantize"], ["prune", 0.5]], ValueError, "structured_prune"),
])
def test_steps_that_cannot_be_taken(task, steps, error, words):
    before = deepcopy(task.model.state_dict())
    with pytest.raises(error, match=words):
        run("x", steps, Budget(), task)
    assert all(np.array_equal(before[name], array) for name, array in task.model.state_dict().items())


class TestMeasured:
    def test_evidence_with_a_clock_that_is_handed_in(self, task):
        final, clock = apply_steps([["prune", 0.5]], task), ticking()
        raw, doubts = measured(task.model, final, task.images, rounds=7, clock=clock, seed=2)
        again, reads = ticking(), np.random.default_rng(0).integers(1, 1000, 10_000).cumsum().tolist()
        with no_grad():
            found = compare(task.model, final, task.images, atol=1e300, clock=again, rounds=7, seed=2)
        assert (raw["rounds_ns"], raw["block"], len(raw["rounds_ns"])) == (found["rounds_ns"], 1, 7)
        assert clock() == again() == reads[56]  # eight reads a round, not one more
        assert doubts == []
        results = results_of(raw, task.labels)
        assert results["final"]["bytes"] == weight_bytes(final)
        assert results["final"]["right"] == int((final(task.images).data.argmax(1) == task.labels).sum())

    def test_what_is_not_finite_has_decided_nothing(self, task):
        broken = deepcopy(task.model)
        broken.layers[2].bias.data[3] = np.nan
        with pytest.raises(ValueError, match="nan"):
            measured(task.model, broken, task.images, rounds=6)

    def test_another_number_of_classes(self, task):
        with pytest.raises(ValueError, match="shape"):
            measured(task.model, Sequential(Linear(64, 9)), task.images, rounds=6)

    def test_an_error_of_the_model_is_its_own(self, task):
        class Raising(Layer):
            def forward(self, x):
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            measured(task.model, Raising(), task.images, rounds=6)

    @pytest.mark.parametrize("rounds, error", [(5, ValueError), (True, TypeError), (6.0, TypeError)])
    def test_rounds(self, task, rounds, error):
        with pytest.raises(error, match="rounds"):
            measured(task.model, task.model, task.images, rounds=rounds)


class TestRun:
    def test_a_report_of_the_whole_way(self, task):
        budget = Budget(max_bytes=12_000, max_flops=20_000, max_loss=0.5)
        report = run("ada", [["prune", 0.5], ["quantize"]], budget, task, rounds=6, clock=ticking())
        assert check_report(report) == []
        assert (report["name"], report["steps"], report["seed"]) == ("ada", [["prune", 0.5], ["quantize"]], 0)
        assert report["verdicts"]["max_bytes"] == "kept"
        assert report["verdicts"]["max_flops"] == "broken"  # turning 128 * 74 weights into floats is counted, too
        assert report["within_budget"] is False

    def test_nothing_done_changes_no_decision(self, task):
        report = run("nothing", [], Budget(max_ratio=1e9), task, rounds=6, clock=ticking())
        assert report["results"]["decisions"]["same"] == 355
        assert report["raw"]["start"] == report["raw"]["final"]
        assert report["within_budget"] is True

    @pytest.mark.parametrize("name, steps, budget, error, words", [
        ("", [], Budget(), ValueError, "report.name"), ("x" * 81, [], Budget(), ValueError, "report.name"),
        (5, [], Budget(), ValueError, "report.name"), ("a\n  1  b", [], Budget(), ValueError, "one line"),
        ("x", ["fuse"], Budget(), ValueError, r"steps\[0\] is string.*a list, a name and its settings"),
        ("x", [[]], Budget(), ValueError, "length 0"), ("x", [[["fuse"]]], Budget(), ValueError, "want string"),
        ("x", [["prune", np.float64(0.5)]], Budget(), ValueError, "float64, which JSON has not"),
        ("x", [], {"max_bytes": 9}, TypeError, "Budget"), ("x", [], None, TypeError, "Budget"),
    ])
    def test_what_no_report_may_hold_is_refused_before_anything_is_trained(self, name, steps, budget, error, words):
        with pytest.raises(error, match=words):
            run(name, steps, budget, "no task, and nobody asks it for a model", rounds=6, clock=ticking())

    def test_steps_may_be_tuples(self, task):
        assert run("x", (("fuse",),), Budget(), task, rounds=6, clock=ticking())["steps"] == [["fuse"]]

    def test_replay_repeats_what_needs_no_clock_and_finds_what_was_never_measured(self):
        report = run("mixed", [["prune", 0.75], ["distill", 1]], Budget(), rounds=6, clock=ticking())
        raw = deepcopy(report["raw"])
        raw["final"]["arrays"][2][1] = "int8"
        was = {side: raw[side]["predictions"][7] for side in ("start", "final")}
        for side in was:
            raw[side]["predictions"][7] = (was[side] + 1) % 10
        clever = make_report("mixed", report["steps"], 0, Budget(), raw)
        assert check_report(clever) == []
        assert replay(clever) == [  # these three lies, and all else comes out again: weights, FLOPs, 708 predictions
            f"raw.start.predictions[7]: the report says {(was['start'] + 1) % 10}, computed again it is {was['start']}",
            "raw.final.arrays[2][1]: the report says 'int8', computed again it is 'float32'",
            f"raw.final.predictions[7]: the report says {(was['final'] + 1) % 10}, computed again it is {was['final']}"]

    def test_a_task_of_ones_own_has_other_digits_and_is_no_entry(self, task):
        fewer = Task(task.model, task.loader, Tensor(task.images.data[:100]), task.labels[:100], 0)
        with pytest.raises(ValueError, match="355"):
            run("fewer", [], Budget(), fewer, rounds=6, clock=ticking())
