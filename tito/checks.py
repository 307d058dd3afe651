"""What graded cells and their readers share: one comparison that names the likely mistake.

A passing check prints one line with the value, so that passing also teaches. A failing one raises
``CheckFailed`` with what was expected, what came, and the known mistake that gives exactly that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class CheckFailed(AssertionError):
    """A graded check did not hold. The message has the check, expected, got and the likely mistake."""

    def __init__(self, what: str, want: str, got: str, mistake: str | None = None):
        """Compose the message from its parts; the parts stay readable as attributes."""
        self.what, self.want, self.got, self.mistake = what, want, got, mistake
        lines = [what, f"  expected  {want}", f"  got       {got}"]
        if mistake:
            lines.append(f"  likely    {mistake}")
        super().__init__("\n".join(lines))


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
    """Say whether two plain values agree: numbers and arrays within tolerance, everything else exactly.

    A bool is not a number here, an integer wanted must come as a whole number, and arrays must have the
    wanted shape. Nothing is taken from ``got.__eq__`` unless ``got`` is a plain Python value or an array.
    """
    import numpy as np

    if isinstance(want, bool) or want is None or isinstance(want, (str, bytes)):
        return isinstance(got, (bool, np.bool_) if isinstance(want, bool) else type(want)) and bool(want == got)
    if isinstance(want, (int, float, complex, np.number)):
        if isinstance(got, (bool, np.bool_)) or not isinstance(got, (int, float, complex, np.number)):
            return False
        if isinstance(want, int):
            return bool(got == want)
        try:
            return bool(np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True))
        except (TypeError, OverflowError):  # a whole number beyond every float
            return False
    if isinstance(want, Mapping):
        return isinstance(got, dict) and set(got) == set(want) and all(
            same(got[k], want[k], rtol, atol) for k in want)
    mixed = isinstance(want, list) and (
        any(isinstance(w, (tuple, str, bytes, Mapping, type(None))) for w in want)
        or len({len(w) if isinstance(w, list) else -1 for w in want}) > 1)
    if isinstance(want, tuple) or mixed:
        return isinstance(got, (tuple, list)) and len(got) == len(want) and all(
            same(g, w, rtol, atol) for g, w in zip(got, want))
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
    raise TypeError(f"check: cannot compare with a {type(want).__name__}; want a number, text, bytes, bool, None, "
                    "tuple, dict, list or array")


def _lists(value: Any) -> Any:
    return [_lists(inner) for inner in value] if isinstance(value, tuple) else value


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
    if same(got, want, rtol, atol):
        print(f"✓ {what}: {show(got)}")
        return
    listed = isinstance(want, list) or hasattr(want, "tolist")  # a dict's key cannot be a list: a tuple stands for it
    mistake = next((text for wrong, text in (mistakes or {}).items() if same(
        got, _lists(wrong) if listed and isinstance(wrong, tuple) else wrong, rtol, atol)), None)
    shown_got, shown_want = show(got), show(want)
    if shown_got == shown_want:  # rounded alike, or of two types
        shown_got, shown_want = show(got, digits=17), show(want, digits=17)
    if shown_got == shown_want:
        shown_got += f" ({type(got).__name__}, not {type(want).__name__})"
    raise CheckFailed(what, shown_want, shown_got, mistake)


def check_raises(what: str, error: type[Exception], function: Callable[[], Any], must_say: str = "") -> None:
    """Call ``function``: it must raise ``error``, and the message must contain ``must_say``."""
    try:
        came = function()
    except NotImplementedError:
        raise
    except error as caught:
        if must_say.lower() not in str(caught).lower():
            raise CheckFailed(what, f"{error.__name__} that says {must_say!r}", f"{str(caught)!r}") from None
        print(f"✓ {what}: {type(caught).__name__}: {show(str(caught))}")
        return
    except Exception as caught:
        raise CheckFailed(what, error.__name__, f"{type(caught).__name__}: {caught}") from caught
    raise CheckFailed(what, error.__name__, f"no error, but {show(came)}")
