"""Budget, evidence, results, the schema and the check: edges, every changed number, files that fail half way."""

import json
import os
from copy import deepcopy
from math import inf, nan

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.olympics import (
    SCHEMA,
    Budget,
    canonical,
    changed_decisions,
    check_report,
    differences,
    fingerprint,
    held_out_labels,
    limit_verdict,
    load_json,
    load_report,
    make_report,
    observed,
    results_of,
    save_json,
    save_report,
    speed_results,
    violations,
)
from tinytorch.perf.benchmarking import Benchmark
from tinytorch.perf.profiling import Profiler, weight_bytes

BUDGET = Budget(max_bytes=10_000, min_accuracy=0.9)


def a_report(budget=BUDGET, rounds=8):
    """Return a report that holds: 64 x 20 float32 before, int8 after; 5 digits wrong before, other 9 after."""
    labels = held_out_labels()
    wrong = [[(label + 1) % 10 if at <= i < at + n else label for i, label in enumerate(labels)]
             for at, n in ((0, 5), (3, 9))]
    raw = {"start": {"arrays": [[[64, 20], "float32"]], "flops": 2560, "predictions": wrong[0]},
           "final": {"arrays": [[[64, 20], "int8"], [[20], "float32"]], "flops": 2600, "predictions": wrong[1]},
           "block": 2, "rounds_ns": [[4_000_000 + 1000 * n, 2_000_000 + 3000 * n] for n in range(rounds)]}
    return make_report("a report", [["prune", 0.5], ["quantize"]], 3, budget, raw, ["one doubt"])


def leaves(value, path=()):
    """Yield (path, value) of everything inside that has no inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path, value
    for key, one in inner or ():
        yield from leaves(one, (*path, key))


def put(report, path, value):
    """Return a copy of a report with another value at a path."""
    report = deepcopy(report)
    inside = report
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return report


def other(value):
    """Return a value of the same type that is not this one."""
    words = {"kept": "broken", "broken": "kept", "faster": "slower", "same": "other"}
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return words.get(value, value + "x")
    return None if value is None else value + 1 if isinstance(value, int) else value * 1.001 + 1e-6


class TestBudget:
    @pytest.mark.parametrize("limits, error, word", [
        ({"max_bytes": "9"}, TypeError, "max_bytes"), ({"max_bytes": True}, TypeError, "max_bytes"),
        ({"max_flops": -1}, ValueError, "max_flops"), ({"max_ratio": nan}, ValueError, "max_ratio"),
        ({"max_ratio": inf}, ValueError, "max_ratio"), ({"min_accuracy": 97}, ValueError, "0 to 1"),
        ({"max_loss": 1.5}, ValueError, "max_loss"), ({"max_bytes": np.int64(9)}, TypeError, "max_bytes"),
    ])
    def test_what_is_no_limit(self, limits, error, word):
        with pytest.raises(error, match=word):
            Budget(**limits)

    def test_only_limits_that_are_set_are_judged(self):
        report = a_report()
        assert Budget().judge(report["results"]) == {}
        # 64 * 20 * 1 + 20 * 4 = 1,360 bytes
        assert Budget(max_bytes=1360, max_flops=2599).judge(report["results"]) == {
            "max_bytes": "kept", "max_flops": "broken"}

    def test_time_is_undecided_without_an_interval(self):
        results = a_report(rounds=5)["results"]
        assert results["speed"]["interval"] is None
        assert Budget(max_ratio=1.0).judge(results) == {"max_ratio": "undecided"}
        assert Budget(max_ratio=1.0).judge(a_report(rounds=6)["results"]) == {"max_ratio": "kept"}

    def test_loss_is_judged_on_pairs(self):
        results = a_report()["results"]
        # wrong before 0..4, after 3..11: 0, 1, 2 won, 5..11 lost
        assert results["decisions"] == {"same": 345, "won": 3, "lost": 7, "other": 0, "difference": -4 / 355,
                                        "interval": results["decisions"]["interval"]}
        low, high = results["decisions"]["interval"]
        assert low < -4 / 355 < high
        for limit, want in ((-low + 1e-9, "kept"), (4 / 355, "undecided")):
            assert Budget(max_loss=limit).judge(results) == {"max_loss": want}

    @given(st.floats(-10, 10), st.floats(0, 5), st.floats(-10, 10))
    def test_at_least_is_at_most_from_the_other_side(self, low, width, limit):
        high = low + width
        assert limit_verdict(low, high, limit, False) == limit_verdict(-high, -low, -limit)
        if width == 0:
            assert limit_verdict(low, high, limit) == ("kept" if low <= limit else "broken")


class TestEvidence:
    def test_bytes_are_the_profilers(self):
        model = Linear(5, 3)
        model.weight = Tensor(np.zeros((5, 3), np.int8))
        seen = observed(model, Tensor(np.zeros((2, 5), np.float32)))
        side = results_of({"start": seen, "final": seen, "rounds_ns": [[1, 1]], "block": 1}, [0, 0])["start"]
        assert side["bytes"] == weight_bytes(model) == 15 * 1 + 3 * 4
        assert seen["predictions"] == [0, 0]

    @pytest.mark.parametrize("seed", range(2))
    def test_speed_is_what_compare_found(self, seed):
        ticks = iter(np.random.default_rng(seed).integers(0, 3, 1000).cumsum().tolist())  # often no time passes
        models = Linear(2, 2), Linear(2, 2)
        found = Profiler(clock=lambda: next(ticks)).compare(
            *models, Tensor(np.ones((1, 2))), atol=Benchmark.DIFFERENT, rounds=60, seed=seed)
        assert found["dropped"] > 0
        again = speed_results(found["rounds_ns"])
        assert (again["ratio"], again["verdict"]) == (pytest.approx(found["ratio"], rel=1e-12), found["verdict"])
        assert again["interval"] == pytest.approx(list(found["interval"]), rel=1e-12)

    def test_a_pass_is_a_round_over_two_blocks(self):
        results = a_report()["results"]  # 8 rounds of 4.000 to 4.007 ms, two blocks of two passes
        assert results["start"]["ms"] == pytest.approx((4.0 + 0.0035) / 4)
        assert results["final"]["ms"] == pytest.approx((2.0 + 0.0105) / 4)

    @settings(max_examples=40)
    @given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=20))
    def test_every_decision_has_one_fate(self, rows):
        before, after, labels = ([row[i] for row in rows] for i in range(3))
        fates = changed_decisions(before, after, labels)
        assert sum(fates.values()) == len(rows)
        right = [sum(a == b for a, b in zip(guesses, labels)) for guesses in (before, after)]
        assert right[1] - right[0] == fates["won"] - fates["lost"]


class TestCheck:
    def test_an_honest_report_holds_also_after_a_journey(self):
        report = a_report()
        assert check_report(report) == []
        assert json.loads(canonical(report)) == report
        assert report["within_budget"] is True

    def test_a_name_may_be_in_any_script(self):
        for name in ("Ada Lovelace", "größe", "模型", "🙂", "a" * 80):
            assert check_report(put(a_report(), ("name",), name)) == []
        for kind in ("uint16", "uint32", "uint64"):
            assert np.dtype(kind).name in str(SCHEMA)

    def test_a_journey_through_a_program_that_writes_whole_numbers_without_a_point_changes_no_fingerprint(self):
        report = put(a_report(Budget(max_bytes=1e4, max_ratio=1.0)), ("steps", 0, 1), 1.0)

        def travelled(value):  # as JSON.stringify(JSON.parse(...)) has it: 2.0 comes back as 2
            if isinstance(value, dict):
                return {key: travelled(one) for key, one in value.items()}
            return [*map(travelled, value)] if isinstance(value, list) else (
                int(value) if isinstance(value, float) and value == int(value) else value)

        back = travelled(report)
        assert json.dumps(back) != json.dumps(report)
        assert check_report(back) == check_report(report) == []
        assert fingerprint(back) == fingerprint(report)
        assert canonical([2.0, -0.0, 0.5, 1e300, 2**60, True]) == "[2,0,0.5,1e+300,1152921504606846976,true]"

    def test_every_changed_conclusion_is_found_where_it_is(self):
        report = a_report()
        for path, value in leaves({key: report[key] for key in ("results", "verdicts", "within_budget")}):
            said = check_report(put(report, path, other(value)))
            assert said, path
            assert ".".join(str(key) for key in path[:1]) in said[0], (path, said)

    def test_every_missing_key_is_found(self):
        report = a_report()
        for path, _ in leaves({key: report[key] for key in report if key != "raw"}):
            if isinstance(path[-1], str):
                short = deepcopy(report)
                inside = short
                for key in path[:-1]:
                    inside = inside[key]
                del inside[path[-1]]
                assert check_report(short), path

    @pytest.mark.parametrize("path, value, words", [
        (("results", "final", "bytes"), 1360.5, "integer"), (("results", "speed", "ratio"), nan, "finite"),
        (("results", "speed", "ratio"), -inf, "finite"), (("results", "speed", "ratio"), 10**400, "1e+300"),
        (("seed",), 10**5000, "too long"), (("raw", "final", "arrays", 0, 0), [2**53] * 65, "length 65"),
        (("format",), "x" * 10**6, "xxx..."), (("budget", "max_bytes"), 1e17, "0 to 9007199254740992"),
        (("name",), "a\n  1  b", "one line"), (("name",), "\x1b[2J", "one line"), (("name",), "a\n", "one line"),
        (("name",), "\ud800", "one line"), (("name",), "\u202ea", "one line"),
        (("environment", "cpu"), "a\rb", "one line"),
        (("environment", "device"), "gpu", "want 'cpu'"), (("steps", 0, 0), 3, "want string"),
        (("steps", 0, 1), "\udfff", "one line"), (("warnings", 0), "a\u2028b", "one line"),
        (("verdicts", "max_beauty"), "kept", "nobody knows"),
        (("version",), 2, "want 1"), (("version",), True, "want 1"), (("format",), "other", "want"),
        (("name",), "", "length 0"), (("name",), "x" * 81, "length 81"), (("steps",), [[]], "length 0"),
        (("raw", "rounds_ns"), [], "length 0"), (("raw", "rounds_ns", 0), [5], "length 1"),
        (("raw", "block"), 0, "from 1"),
        (("raw", "rounds_ns", 0, 1), 0, "from 1"), (("raw", "final", "predictions", 7), 10, "0 to 9"),
        (("raw", "final", "predictions", 7), True, "boolean"), (("raw", "final", "predictions"), [1] * 354, "354"),
        (("raw", "final", "arrays", 0, 1), "float4", "float4"), (("raw", "final", "arrays", 0, 0, 0), -64, "-64"),
        (("budget", "min_accuracy"), 1.5, "0 to 1"), (("environment",), None, "null"),
        (("environment", "cpu"), np.float64(2), "JSON has not"), (("verdicts", "max_bytes"), "fine", "want"),
        (("steps", 0), ("prune", 0.5), "JSON has not"), (("extra",), 1, "nobody knows"),
    ], ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "")
    def test_the_form_comes_first(self, path, value, words):
        said = check_report(put(a_report(), path, value))
        assert any(words in line and path[0] in line for line in said), said
        assert max(map(len, said)) < 300, said

    @pytest.mark.parametrize("nothing", [None, 3, [], "report", {}])
    def test_what_is_no_report(self, nothing):
        assert check_report(nothing)

    def test_the_schema_is_one_that_others_read(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        assert jsonschema.Draft202012Validator(SCHEMA).is_valid(a_report())
        schema, report = deepcopy(SCHEMA), a_report()
        for side in ("start", "final"):  # 355 predictions make the other judge slow: here, none need be there
            schema["properties"]["raw"]["properties"][side]["properties"]["predictions"].pop("minItems", None)
            report["raw"][side]["predictions"] = [3]
        judge = jsonschema.Draft202012Validator(schema)
        assert judge.is_valid(report)
        strange = [None, True, -1, "x", "", [], {}, 0.5, 10**20, [1, 2, 3]]
        paths = [path for path, _ in leaves(report) if "rounds_ns" not in path and "start" not in path]  # as final
        paths += [path[:-1] for path in paths if len(path) > 1] + [("raw", "rounds_ns", 0, 0), ("new",)]
        for place, path in enumerate(dict.fromkeys(paths)):
            for value in strange[place % 3::3]:  # a third of them at each place
                changed = put(report, path, value)
                assert judge.is_valid(changed) == (not violations(changed, schema)), (path, value)

    def test_samples_that_were_changed_no_longer_fit(self):
        report = a_report()
        for path, value in ((("raw", "final", "arrays", 0, 1), "float16"), (("raw", "final", "flops"), 1),
                            (("raw", "rounds_ns", 3, 1), 9_000_000), (("raw", "final", "predictions", 300),
                                                                     (held_out_labels()[300] + 1) % 10)):
            assert any(line.startswith("results") for line in check_report(put(report, path, value))), path

    plain = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1000, 1000, width=16)
                         | st.text(max_size=3),
                         lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner,
                                                                                    max_size=3), max_leaves=8)

    @settings(max_examples=40)
    @given(plain, plain)
    def test_no_difference_is_equality(self, one, two):
        assert differences(deepcopy(one), one) == []
        assert differences(json.loads(canonical(one)), one) == []
        if one != two:
            assert differences(one, two)


class TestFiles:
    def test_there_and_back(self, tmp_path):
        report = a_report()
        save_report(tmp_path / "größe.json", report)
        assert load_report(tmp_path / "größe.json") == report
        assert [file.name for file in tmp_path.iterdir()] == ["größe.json"]

    def test_what_does_not_hold_is_neither_written_nor_read(self, tmp_path):
        wrong = put(a_report(), ("results", "final", "bytes"), 1)
        with pytest.raises(ValueError, match=r"results.final.bytes: the report says 1, computed again it is 1360"):
            save_report(tmp_path / "a.json", wrong)
        assert list(tmp_path.iterdir()) == []
        save_json(tmp_path / "a.json", wrong)
        with pytest.raises(ValueError, match=r"a.json does not hold: results.final.bytes"):
            load_report(tmp_path / "a.json")

    @pytest.mark.parametrize("text, words", [
        (b'{"a": NaN}', "NaN"), (b'{"a": -Infinity}', "Infinity"), (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c'"),
        (b'{"a": ', "JSON"), (b"", "JSON"), (b'"\xff"', "utf-8"), (b"[" * 100_000, "JSON"), (b"[1] x", "JSON"),
    ])
    def test_what_is_no_strict_json(self, tmp_path, text, words):
        file = tmp_path / "a.json"
        file.write_bytes(text)
        with pytest.raises(ValueError, match=words):
            load_json(file)

    def test_a_number_too_large_for_a_float_is_not_let_in(self, tmp_path):
        file = tmp_path / "a.json"
        text = canonical(put(a_report(), ("results", "speed", "ratio"), "here"))
        file.write_text(text.replace('"ratio":"here"', '"ratio":1e999'), encoding="utf-8")
        with pytest.raises(ValueError, match="ratio is inf"):
            load_report(file)

    def test_a_failure_half_way_leaves_the_old_file(self, tmp_path, monkeypatch):
        file = tmp_path / "a.json"
        save_json(file, [1])

        def full(descriptor):
            raise OSError("no space left")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            save_json(file, [2])
        assert load_json(file) == [1]
        assert [one.name for one in tmp_path.iterdir()] == ["a.json"]

    @pytest.mark.parametrize("value", [nan, [inf], {"a": -inf}])
    def test_what_json_has_not_is_not_written(self, tmp_path, value):
        with pytest.raises(ValueError, match="JSON"):
            save_json(tmp_path / "a.json", value)
        assert list(tmp_path.iterdir()) == []

    def test_no_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="make it first"):
            save_json(tmp_path / "none" / "a.json", 1)

    def test_a_link_stays_one(self, tmp_path):
        (tmp_path / "real").mkdir()
        link = tmp_path / "link.json"
        link.symlink_to(tmp_path / "real" / "a.json")
        save_json(link, [1])
        assert link.is_symlink()
        assert load_json(tmp_path / "real" / "a.json") == [1]
