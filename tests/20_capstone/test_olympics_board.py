"""The board: the laws of merging, refusals, files, and what is never ranked against what."""

from copy import deepcopy
from functools import cache
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.olympics import (
    EVENTS,
    Budget,
    canonical,
    check_board,
    fingerprint,
    held_out_labels,
    load_json,
    make_report,
    merge,
    merge_files,
    new_board,
    places,
    save_json,
    standings,
    standings_table,
    submit,
)

BUDGET = Budget(max_bytes=60_000)


def a_report(name="a", width=20, cpu="one", scale=1.0, budget=BUDGET, wrong=9):
    """Return a report that holds; its time is ``scale`` times half the start's."""
    guesses = [(label + 1) % 10 if i < wrong else label for i, label in enumerate(held_out_labels())]
    side = {"arrays": [[[64, width], "float32"]], "flops": 128 * width, "predictions": guesses}
    rounds = [[2000 + n, int((1000 + 7 * n) * scale)] for n in range(10)]
    report = make_report(name, [], 0, budget, {"start": side, "final": side, "rounds_ns": rounds, "block": 1})
    return {**report, "environment": {**report["environment"], "cpu": cpu}}


def board_of(*reports, budget=BUDGET):
    return {**new_board(budget), "reports": list(deepcopy(reports))}


@cache
def pool():
    """Return seven reports, three of equal bytes."""
    return tuple(a_report(name, width) for name, width in zip("abcdefg", (10, 20, 20, 20, 30, 40, 300)))


boards = st.lists(st.integers(0, 6), max_size=2).map(lambda chosen: board_of(*[pool()[i] for i in chosen]))


class TestMerge:
    @settings(max_examples=8)
    @given(boards, boards, boards)
    def test_the_laws(self, a, b, c):
        ab = merge(a, b)
        assert canonical(ab) == canonical(merge(b, a))
        assert canonical(merge(ab, c)) == canonical(merge(a, merge(b, c)))
        assert canonical(merge(ab, ab)) == canonical(ab)
        assert {fingerprint(r) for r in ab["reports"]} == {fingerprint(r) for r in a["reports"] + b["reports"]}
        assert len(ab["reports"]) == len({fingerprint(r) for r in ab["reports"]})

    def test_nothing_is_shared_or_changed(self):
        a, b = board_of(*pool()[:2]), board_of(pool()[2])
        before = canonical([a, b])
        both = merge(a, b)
        for report in both["reports"]:
            report["raw"]["rounds_ns"].clear()
        assert canonical([a, b]) == before

    @pytest.mark.parametrize("wrong, words", [
        (lambda: {**new_board(BUDGET), "format": "x"}, "board.format"), (lambda: [], "board is array"),
        (lambda: {**new_board(BUDGET), "reports": {}}, "board.reports"), (lambda: None, "board is null"),
        (lambda: {**new_board(BUDGET), "reports": [3]}, "report 0 of the board"),
        (lambda: {**new_board(BUDGET), "owner": 3}, "owner"), (lambda: new_board(Budget(max_bytes=5)), "one budget"),
        (lambda: {**new_board(BUDGET), "reports": [{**pool()[0], "within_budget": False}]}, "within_budget"),
        (lambda: board_of(pool()[0], a_report(budget=Budget())), "report 1 of the board has the budget"),
    ])
    def test_what_is_refused(self, wrong, words):
        for pair in ((board_of(pool()[0]), wrong()), (wrong(), board_of(pool()[0]))):
            with pytest.raises(ValueError, match=words):
                merge(*pair)

    def test_one_budget_written_in_two_ways_is_one_budget(self):
        whole, point = Budget(max_bytes=60_000, max_loss=0), Budget(max_bytes=60_000.0, max_loss=-0.0)
        a, b = (board_of(a_report(name, budget=one), budget=one) for name, one in (("a", whole), ("b", point)))
        assert canonical(merge(a, b)) == canonical(merge(b, a))
        assert len(merge(a, b)["reports"]) == 2

    def test_the_same_measured_twice_is_two_entries(self):
        twice = merge(board_of(a_report()), board_of(a_report(scale=1.1)))
        assert len(twice["reports"]) == 2


class TestPlaces:
    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=8))
    def test_place_is_one_more_than_those_surely_better(self, rows):
        ranges = [(low, low + width) for low, width in rows]
        got = places(ranges)
        assert got == [1 + sum(high < low for _, high in ranges) for low, _ in ranges]
        assert got == places([(-high, -low) for low, high in ranges], larger=True)
        assert not rows or min(got) == 1

    def test_infinite_ranges(self):
        assert places([(0.0, inf), (1, 2), (0.0, inf)]) == [1, 1, 1]


class TestStandings:
    def test_exact_events_go_across_machines(self):
        board = board_of(a_report("a", 20, "one"), a_report("b", 10, "two"), a_report("c", 20, "two", 2.0))
        rows = standings(board, "bytes")["all machines"]
        assert sorted((row["place"], row["name"], row["low"]) for row in rows) == [
            (1, "b", 2560), (2, "a", 5120), (2, "c", 5120)]  # 64 x 10 and 64 x 20 numbers of 4 bytes
        assert [row["place"] for row in rows] == [1, 2, 2]
        assert list(standings(board, "flops")) == list(standings(board, "accuracy")) == ["all machines"]

    @pytest.mark.parametrize("event", [event for event, (_, _, clocked) in EVENTS.items() if clocked])
    def test_machines_are_never_ranked_against_each_other_in_time(self, event):
        slow = [a_report(f"slow {n}", 20 + n, "one", 1.0 + n) for n in range(3)]
        fast = [a_report(f"fast {n}", 20 + n, "two", 0.1 + n) for n in range(2)]
        found = standings(board_of(*slow, *fast), event)
        assert len(found) == 2
        alone = {**standings(board_of(*slow), event), **standings(board_of(*fast), event)}
        assert found == alone  # what another machine measured changes no place
        assert "not compared" in standings_table(board_of(*slow, *fast), event)
        assert "not compared" not in standings_table(board_of(*slow), event)

    def test_any_part_of_the_environment_is_another_machine(self):
        for key, value in (("cpu", "x"), ("python", "4.0"), ("numpy", "9"), ("blas", "none"), ("blas_threads", 64)):
            one = a_report()
            two = {**one, "environment": {**one["environment"], key: value}}
            assert len(standings(board_of(one, two), "time")) == 2, key

    def test_a_report_that_stands_twice_in_a_file_takes_no_place_from_others(self):
        once, twice = (board_of(*[pool()[i] for i in chosen]) for chosen in ((0, 4), (0, 4, 0, 0)))
        assert standings(twice) == standings(once)
        assert [row["place"] for row in standings(twice)["all machines"]] == [1, 2]

    def test_outside_the_budget_there_is_no_place(self):
        board = board_of(a_report("large", 300), a_report("small", 30))
        rows = standings(board, "bytes")["all machines"]
        assert [(row["name"], row["place"]) for row in rows] == [("small", 1), ("large", None)]
        assert "  -  large" in standings_table(board)

    def test_without_an_interval_nobody_is_beaten(self):
        report = a_report("few", 20)
        raw = {**report["raw"], "rounds_ns": report["raw"]["rounds_ns"][:3]}
        few = make_report("few", [], 0, BUDGET, raw)
        rows = standings(board_of(few), "time")
        assert [(row["low"], row["high"], row["place"]) for rows in rows.values() for row in rows] == [(0.0, inf, 1)]

    def test_an_event_that_is_not_there(self):
        with pytest.raises(ValueError, match="beauty.*bytes"):
            standings(new_board(BUDGET), "beauty")

    def test_an_empty_board(self):
        assert standings(new_board(BUDGET)) == {}
        assert standings_table(new_board(BUDGET)) == ""


class TestFiles:
    def test_handing_in_twice_changes_nothing(self, tmp_path):
        file = tmp_path / "board.json"
        submit(file, pool()[1])
        submit(file, pool()[0], pool()[2])
        first = file.read_bytes()
        submit(file, pool()[2])
        assert file.read_bytes() == first
        assert [report["name"] for report in check_board(load_json(file))["reports"]][0] == "a"

    def test_whoever_merges_with_whom_gets_the_same_file(self, tmp_path):
        parts = []
        for n in range(3):
            parts.append(tmp_path / f"{n}.json")
            submit(parts[-1], pool()[n], pool()[n + 1])
        merge_files(tmp_path / "x.json", *parts)
        merge_files(parts[2], parts[0], parts[1], parts[0])
        assert (tmp_path / "x.json").read_bytes() == parts[2].read_bytes()

    def test_a_refusal_leaves_the_file(self, tmp_path):
        file = tmp_path / "board.json"
        submit(file, pool()[0])
        before = file.read_bytes()
        for wrong, words in ((a_report(budget=Budget()), "budget"), ({**pool()[1], "within_budget": False}, "within"),
                             ({}, "does not hold")):
            with pytest.raises(ValueError, match=words):
                submit(file, wrong)
        with pytest.raises(ValueError, match="at least one"):
            submit(file)
        save_json(tmp_path / "other.json", new_board(Budget()))
        with pytest.raises(ValueError, match="one budget"):
            merge_files(file, tmp_path / "other.json")
        assert file.read_bytes() == before

    def test_no_file_at_all(self, tmp_path):
        with pytest.raises(ValueError, match="at least one file"):
            merge_files(tmp_path / "none.json")
        with pytest.raises(FileNotFoundError):
            merge_files(tmp_path / "board.json", tmp_path / "none.json")
        assert list(tmp_path.iterdir()) == []
