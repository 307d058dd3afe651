"""What graded cells and their readers share: one comparison that names the likely mistake.

A passing check prints one line with the value, so that passing also teaches. A failing one raises
``CheckFailed`` with what was expected, what came, and the known mistake that gives exactly that.

Nothing here asks a learner's object what it is or what it equals: ``plain`` reads it by the methods of the built-in
types, and only what was read is compared and shown. `tito test` compares with the same functions, in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

LARGEST = 4_000_000  # bytes of one value that are read
DEEPEST = 40
_SCALARS = {id(np.dtype(code).type) for code in "bhilqBHILQefdgFDG"}  # ids: a metaclass may say that it equals any
_BUILT_IN: dict[int, type] = {
    id(kind): kind for kind in (np.ndarray, int, float, complex, str, bytes, tuple, list, dict)}
_bases_of = type.__dict__["__mro__"].__get__  # what a class says about itself may be anything
_name_of = type.__dict__["__name__"].__get__


class CheckFailed(AssertionError):
    """A graded check did not hold. The message has the check, expected, got and the likely mistake."""

    def __init__(self, what: str, want: str, got: str, mistake: str | None = None):
        """Compose the message from its parts; the parts stay readable as attributes."""
        self.what, self.want, self.got, self.mistake = what, want, got, mistake
        lines = [what, f"  expected  {want}", f"  got       {got}"]
        if mistake:
            lines.append(f"  likely    {mistake}")
        super().__init__("\n".join(lines))


class Other:
    """What is no plain value: the name of its type and a short text. It equals nothing."""

    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str):
        """Keep what can be shown of it."""
        self.name, self.text = name, text

    def __repr__(self) -> str:
        """Return what can be shown of it."""
        return self.text


def plain(value: Any) -> Any:
    """Return the exact built-in values, NumPy scalars and arrays that a value is made of; ``Other`` where it is none.

    A subclass is read as the built-in it is made of (a named tuple is a tuple), whatever methods of its own it has.
    What is larger than ``LARGEST`` bytes, or nested deeper than ``DEEPEST``, is not read.
    """
    try:
        return _plain(value, [LARGEST], 0)
    except _NotRead as error:
        return Other(_name_of(type(value)), f"<{_name_of(type(value))}, {error} to compare>")


class _NotRead(Exception):
    """Says why a value was not read."""


def _plain(value: Any, left: list[int], depth: int) -> Any:
    kind = type(value)
    _spend(8, left)
    if depth > DEEPEST:
        raise _NotRead("nested too deep")
    if kind is bool or value is None or id(kind) in _SCALARS:
        return value
    if kind is np.bool_:
        return bool(value)
    base = next((_BUILT_IN[id(one)] for one in _bases_of(kind) if id(one) in _BUILT_IN), None)
    if base is np.ndarray:
        array = np.ndarray.view(value, np.ndarray)
        _spend(array.size * array.dtype.itemsize, left)
        return array if array.dtype.kind in "biufcSU" else Other(_name_of(kind), _described(array, kind))
    if base is int:
        number = int.__int__(value)
        if number.bit_length() > 10_000:  # more digits than Python writes
            raise _NotRead("too large")
        return number
    if base is float:
        return float.__float__(value)
    if base is complex:
        return complex.__pos__(value)
    if base is str or base is bytes:
        text = str.__str__(value) if base is str else bytes.__getitem__(value, slice(None))
        _spend(len(text), left)
        return text
    if base is tuple or base is list:
        items = [_plain(one, left, depth + 1) for one in base.__iter__(value)]  # type: ignore[attr-defined]
        return items if base is list else tuple(items)
    if base is dict:
        try:
            return {_plain(key, left, depth + 1): _plain(one, left, depth + 1) for key, one in dict.items(value)}
        except TypeError:  # a key with a hash of its own around what has none
            raise _NotRead("with keys not fit") from None
    return Other(_name_of(kind), _described(value, kind))


def _spend(num_bytes: int, left: list[int]) -> None:
    left[0] -= num_bytes
    if left[0] < 0:
        raise _NotRead("too large")


def _described(value: Any, kind: type) -> str:
    try:
        return " ".join(str.__str__(repr(value)).split())[:200]
    except Exception:
        return f"<{_name_of(kind)}>"


def _inside(value: Any, digits: int, depth: int = 4) -> str:
    """Return a value inside a list or short array as text, floats with so many significant digits."""
    if type(value).__module__ == "numpy" and getattr(value, "size", 99) <= 60:
        value = value.tolist()
    if type(value) in (list, tuple) and depth:
        text = ", ".join(_inside(one, digits, depth - 1) for one in value)
        return f"[{text}]" if type(value) is list else f"({text},)" if len(value) == 1 else f"({text})"
    return repr(float(f"{value:.{digits}g}")) if isinstance(value, float) else " ".join(repr(value).split())


def show(value: Any, limit: int = 160, digits: int = 6) -> str:
    """Return a value as one short line: thousands separated, floats rounded, long arrays cut."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, bytes)):
        text = repr(value)
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:,.{digits}g}"
    else:
        text = _inside(value, digits)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def same(got: Any, want: Any, rtol: float = 1e-6, atol: float = 1e-9) -> bool:
    """Say whether two values agree: numbers and arrays within tolerance, everything else exactly.

    A bool is not a number here, an integer wanted must come as a whole number, and arrays must have the
    wanted shape. Nothing is asked of ``got`` itself: it is read by ``plain``.
    """
    return _same(plain(got), plain(want), rtol, atol)


def _same(got: Any, want: Any, rtol: float, atol: float) -> bool:
    if isinstance(want, bool) or want is None or isinstance(want, (str, bytes)):
        return type(got) is type(want) and got == want
    if isinstance(want, (int, float, complex, np.number)):
        if isinstance(got, bool) or not isinstance(got, (int, float, complex, np.number)):
            return False
        try:
            if isinstance(want, int):
                return bool(got == want)
            return bool(np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True))
        except (TypeError, OverflowError):  # a whole number beyond every float
            return False
    if isinstance(want, dict):
        return isinstance(got, dict) and set(got) == set(want) and all(
            _same(got[k], want[k], rtol, atol) for k in want)
    mixed = isinstance(want, list) and (
        any(isinstance(w, (tuple, str, bytes, dict, type(None))) for w in want)
        or len({len(w) if isinstance(w, list) else -1 for w in want}) > 1)
    if isinstance(want, tuple) or mixed:
        return isinstance(got, (tuple, list)) and len(got) == len(want) and all(
            _same(g, w, rtol, atol) for g, w in zip(got, want))
    if isinstance(want, (np.ndarray, list)):
        if not isinstance(got, (np.ndarray, list, int, float, np.number)):
            return False
        try:
            a, b = np.asarray(got), np.asarray(want)
        except ValueError:  # rows of different length
            return False
        if a.dtype == object or a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b"):
            return False
        if b.dtype.kind in "biuSU":
            return bool(np.array_equal(a, b))
        return bool(np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))
    raise TypeError(f"check: cannot compare with a {kind_name(want)}; want a number, text, bytes, bool, None, "
                    "tuple, dict, list or array")


def kind_name(value: Any) -> str:
    """Return the name of the type that a plain value has, or had."""
    return value.name if isinstance(value, Other) else type(value).__name__


def _lists(value: Any) -> Any:
    return [_lists(inner) for inner in value] if isinstance(value, tuple) else value


def compare(what: str, got: Any, want: Any, mistakes: Iterable[tuple[Any, str]] = (), rtol: float = 1e-6,
            atol: float = 1e-9) -> CheckFailed | None:
    """Return what is wrong with a value that ``plain`` has read, or None; see ``check``."""
    if _same(got, want, rtol, atol):
        return None
    listed = isinstance(want, (list, np.ndarray))  # a dict's key cannot be a list: a tuple stands for it
    mistake = next((text for wrong, text in mistakes for form in (
        (list(wrong), _lists(wrong)) if listed and isinstance(wrong, tuple) else (wrong,)) if _same(
        got, form, rtol, atol)), None)
    shown_got, shown_want = show(got), show(want)
    if shown_got == shown_want:  # rounded alike, or of two types
        shown_got, shown_want = show(got, digits=17), show(want, digits=17)
    if shown_got == shown_want:
        shown_got += f" ({kind_name(got)}, not {kind_name(want)})"
    return CheckFailed(what, shown_want, shown_got, mistake)


def _passed(line: str) -> None:
    """Print the line of a check that holds, also where the output's encoding lacks a sign of it."""
    try:
        print(f"✓ {line}")
    except UnicodeEncodeError:
        print(f"ok {line}".encode("ascii", "replace").decode())


def check(what: str, got: Any, want: Any, mistakes: Mapping[Any, str] | None = None, *,
          rtol: float = 1e-6, atol: float = 1e-9) -> None:
    """Compare ``got`` with ``want``; print one line when they agree, raise ``CheckFailed`` when not.

    Args:
        what: the check in a few words, printed either way.
        got: the learner's value.
        want: the right value, plain: number, text, bytes, bool, None, tuple, dict, list or array.
        mistakes: wrong value -> the mistake that gives exactly that value.
        rtol: relative tolerance for floats.
        atol: absolute tolerance for floats.
    """
    came = plain(got)
    wrong = [(plain(value), text) for value, text in (mistakes or {}).items()]
    failed = compare(what, came, plain(want), wrong, rtol, atol)
    if failed:
        raise failed
    _passed(f"{what}: {show(came)}")


def raised(what: str, wanted: str, must_say: str, name: str, message: str, right: bool) -> CheckFailed | None:
    """Return what is wrong with an error that came, or None; ``right`` says whether it is of the wanted type."""
    if not right:
        return CheckFailed(what, wanted, f"{name}: {message}")
    if must_say.lower() not in message.lower():
        return CheckFailed(what, f"{wanted} that says {must_say!r}", repr(message))
    return None


def message_of(error: BaseException) -> str:
    """Return an error's message as an exact text; what its class makes of it may raise."""
    return str.__str__(str(error))


def check_raises(what: str, error: type[Exception], function: Callable[[], Any], must_say: str = "") -> None:
    """Call ``function``: it must raise ``error``, and the message must contain ``must_say``."""
    try:
        came = function()
    except NotImplementedError:
        raise
    except Exception as caught:
        name, message = _name_of(type(caught)), message_of(caught)
        failed = raised(what, error.__name__, must_say, name, message,
                        any(base is error for base in _bases_of(type(caught))))
        if failed:
            raise failed from caught
        _passed(f"{what}: {name}: {show(message)}")
        return
    raise CheckFailed(what, error.__name__, f"no error, but {show(plain(came))}")
