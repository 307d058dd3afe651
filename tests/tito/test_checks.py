"""`tito.checks`: what is the same, what is not, and what a failed check says."""

import numpy as np
import pytest

from tito.checks import CheckFailed, check, check_raises, same


@pytest.mark.parametrize(("got", "want"), [
    (2, 2), (2.0, 2), (np.int64(2), 2), (1 / 3, 0.333333333), (float("nan"), float("nan")), ("a", "a"), (None, None),
    (True, True), (np.True_, True), ([1, 2], (1, 2)), ({"a": 1.0}, {"a": 1}), ([[1, 2]], np.array([[1, 2]])),
    (np.float32([0.1]), [0.1]), ((), ()), ([(), ("A",)], [(), ("A",)]), (["a", None], ["a", None]),
    (np.zeros((0, 3)), np.zeros((0, 3))), ([[1], [1, 2]], [[1], [1, 2]]), ([1, [2]], [1, [2]]), (b"a", b"a")])
def test_same(got, want):
    """Numbers within tolerance, whole numbers exactly, arrays by shape and value."""
    assert same(got, want)


@pytest.mark.parametrize(("got", "want"), [
    (True, 1), (1, True), ("2", 2), (2.5, 2), (None, 0), (0, None), (10**400, 1.5), ([1, 2, 3], (1, 2)), ({"a": 1}, {}),
    ([[1], [1, 2]], [[1, 2]]), ([1, 2], [[1, 2]]), ([True, False], [1, 0]), ([1, 0], [True, False]), (object(), [1]),
    ([object()], [1]), ([[1], [1, 3]], [[1], [1, 2]]), ("a", b"a"), (b"a", "a"), (float("nan"), 1.0),
    (2**53 + 1, 2**53)])
def test_not_the_same(got, want):
    """And no error, whatever came."""
    assert not same(got, want)


def test_a_value_cannot_say_it_is_equal():
    """`__eq__` of a learner's class is not asked."""
    class Yes:
        def __eq__(self, other):
            return True

        __hash__ = None

    for want in (1, 1.0, "a", True, None, (1,), [1], {"a": 1}):
        assert not same(Yes(), want)


def test_a_failed_check_names_the_mistake(capsys):
    """Expected, got and the mistake that gives exactly that; a passed one prints its value."""
    mistakes = {8192: "half: you counted multiply-adds"}
    with pytest.raises(CheckFailed) as failed:
        check("FLOPs", 8192, 16384, mistakes)
    assert str(failed.value).splitlines() == [
        "FLOPs", "  expected  16,384", "  got       8,192", "  likely    half: you counted multiply-adds"]
    check("FLOPs", 16384, 16384, mistakes)
    assert capsys.readouterr().out == "✓ FLOPs: 16,384\n"
    with pytest.raises(CheckFailed, match="'1'"):
        check("a text", "1", 1)
    with pytest.raises(TypeError, match="cannot compare"):
        check("odd", 1, object())


def test_check_raises(capsys):
    """The right error with the right words; a stub's error passes through."""
    def fail(error):
        raise error

    check_raises("bad input", ValueError, lambda: fail(ValueError("the shape (2, 3)")), "Shape")
    assert "ValueError: " in capsys.readouterr().out
    for error, words in ((ValueError("other"), "shape"), (KeyError("shape"), "shape")):
        with pytest.raises(CheckFailed):
            check_raises("bad input", ValueError, lambda error=error: fail(error), words)
    with pytest.raises(CheckFailed, match="no error"):
        check_raises("bad input", ValueError, lambda: 3)
    with pytest.raises(NotImplementedError):
        check_raises("bad input", ValueError, lambda: fail(NotImplementedError("half: section 1, cell 2")))


def test_a_tuple_names_the_mistake_in_an_array():
    """A mistake's key cannot be a list; a tuple of the same numbers stands for one."""
    with pytest.raises(CheckFailed, match="swapped"):
        check("b - a", np.array([[-9.0, -18.0]]), [[9.0, 18.0]], {((-9.0, -18.0),): "swapped"})


def test_a_mistake_that_is_a_list_of_paths_is_found():
    """A dict's key cannot be a list: a tuple stands for it, also around tuples of different lengths."""
    with pytest.raises(CheckFailed) as caught:
        check("paths", [("A",), ("A", "B")], [(), ("A",), ("A", "B")], {(("A",), ("A", "B")): "() is missing"})
    assert caught.value.mistake == "() is missing"
    with pytest.raises(CheckFailed) as caught:
        check("rows", [[1, 2], [3, 4]], [[1, 3], [2, 4]], {((1, 2), (3, 4)): "not transposed"})
    assert caught.value.mistake == "not transposed"
