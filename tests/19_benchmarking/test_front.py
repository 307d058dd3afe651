"""The Pareto front: by its definition, for any points; what cannot be placed is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.benchmarking import dominates, pareto_front

KEYS = ("a", "b", "c")
POINTS = st.lists(st.fixed_dictionaries({key: st.integers(-3, 3) for key in KEYS}), max_size=12)


def beats(p, q):
    """Say whether p is nowhere worse than q and somewhere better: a and b small, c large."""
    return p["a"] <= q["a"] and p["b"] <= q["b"] and p["c"] >= q["c"] and any(p[key] != q[key] for key in KEYS)


def front_of(points):
    return pareto_front(points, smaller=("a", "b"), larger=("c",))


@given(POINTS)
def test_the_front_is_what_nobody_beats_in_the_order_given(points):
    assert front_of(points) == [p for p in points if not any(beats(q, p) for q in points)]


@given(POINTS)
def test_a_front_is_its_own_front_and_beats_all_others(points):
    front = front_of(points)
    assert front_of(front) == front
    assert all(p in front or any(beats(q, p) for q in front) for p in points)
    assert bool(front) == bool(points)


@given(POINTS)
def test_the_order_of_the_points_does_not_choose(points):
    def as_set(found):
        return sorted(tuple(point.items()) for point in found)

    assert as_set(front_of(points)) == as_set(front_of(points[::-1]))


def test_nothing_dominates_itself_and_infinity_is_a_number():
    assert not dominates((1.0, 2.0), (1.0, 2.0))
    assert dominates((1.0, 2.0), (float("inf"), 2.0))
    assert front_of([{"a": float("inf"), "b": 0, "c": 0}, {"a": np.float32(1), "b": np.int64(0), "c": 0}])[0]["a"] == 1


def test_points_come_back_as_they_are_and_unchanged():
    points = ({"name": "x", "a": 1, "b": 1, "c": 1, "more": [1]}, {"name": "y", "a": 2, "b": 2, "c": 0})
    assert front_of(points)[0] is points[0] and points[0]["c"] == 1


@pytest.mark.parametrize("point", [{"a": None}, {"a": float("nan")}, {}, {"a": "1"}])
def test_what_cannot_be_placed_is_refused(point):
    with pytest.raises(ValueError, match="a of it is .*want a number"):
        pareto_front([{"a": 1}, {**point, "name": "it"}], smaller=("a",))
    with pytest.raises(ValueError, match="a of point 1"):
        pareto_front([{"a": 1}, point], larger=("a",))


@pytest.mark.parametrize("keys", [{}, {"smaller": "a"}, {"larger": "a"}, {"smaller": 5}])
def test_keys_come_in_tuples(keys):
    with pytest.raises(ValueError, match="want tuples of keys"):
        pareto_front([{"a": 1}], **keys)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.float16, np.float32, int, float])
def test_numpys_numbers_are_negated_as_numbers(kind):
    """-np.int8(-128) is -128 again, and -np.uint8(7) is no uint8: costs are Python's numbers."""
    least, most = (np.iinfo(kind).min, 7) if kind in (np.int8, np.uint8) else (-2, 7)
    points = [{"a": kind(least)}, {"a": kind(most)}]
    assert pareto_front(points, larger=("a",)) == [points[1]]
    assert pareto_front(points, smaller=("a",)) == [points[0]]


def test_a_bool_is_no_quantity():
    with pytest.raises(ValueError, match="a of point 0 is True"):
        pareto_front([{"a": True}], smaller=["a"])


def test_a_point_is_a_dict():
    with pytest.raises(TypeError, match="point 0 is a tuple"):
        pareto_front([(1, 2)], smaller=("a",))
