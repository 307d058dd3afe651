"""What stands for the checks in a graded cell while it runs in the child: it sends what came, and judges nothing.

``judge`` has cut the wanted values out of the cell's text; a call is known by the number that stands there instead.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tito.checks import Other, message_of, plain, show

CHECK, CHECK_RAISES = "__check__", "__check_raises__"
IN_ALL = 12_000_000  # bytes of answers in one notebook, well below what the parent keeps of all reports
_LONGEST = 4000
_ERRORS = {id(kind): name for name, kind in vars(builtins).items()
           if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__name__ == name}
_bases_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__


def encode(value: Any) -> Any:
    """Return what ``plain`` has read as JSON can hold it: numbers and text as they are, the rest with its kind."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return [kind.__name__, [encode(one) for one in value]]
    if kind is dict:
        return ["dict", [[encode(key), encode(one)] for key, one in value.items()]]
    if kind is complex:
        return ["complex", value.real, value.imag]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, (np.ndarray, np.generic)):
        form = value.shape if isinstance(value, np.ndarray) else None
        return ["numpy", value.dtype.str, form, base64.b64encode(value.tobytes()).decode()]
    return ["other", value.name, value.text] if kind is Other else ["other", kind.__name__, f"<{kind.__name__}>"]


def decode(data: Any) -> Any:
    """Return the plain value that ``encode`` was given; what nobody encoded like this becomes an ``Other``."""
    try:
        return _decoded(data)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return Other("value", f"<unreadable: {type(error).__name__}>")


def _decoded(data: Any) -> Any:
    if not isinstance(data, list):
        return str(data) if isinstance(data, dict) else data
    kind, *rest = data
    if kind == "list":
        return [_decoded(one) for one in rest[0]]
    if kind == "tuple":
        return tuple(_decoded(one) for one in rest[0])
    if kind == "dict":
        return {_decoded(key): _decoded(one) for key, one in rest[0]}
    if kind == "complex":
        return complex(*rest)
    if kind == "bytes":
        return base64.b64decode(rest[0])
    if kind == "numpy":
        dtype, form, text = rest
        array = np.frombuffer(base64.b64decode(text), np.dtype(dtype))
        return plain(array[0] if form is None else array.reshape(form).copy())
    return Other(str(rest[0]), str(rest[1]))


def reporters(report: Callable[[dict[str, Any]], None]) -> dict[str, Callable[..., None]]:
    """Return the two functions that a sealed cell calls."""
    left = [IN_ALL]

    def send(site: int, what: Any, **data: Any) -> None:
        report({"answer": site, "what": what[:_LONGEST] if type(what) is str else "", **data})

    def sendable(value: Any) -> Any:
        data = encode(value)
        left[0] -= _size(data)
        if left[0] < 0:
            return ["other", type(value).__name__, "<too much was checked in this notebook to compare it all>"]
        return data

    def tell(what: Any, said: str) -> None:
        with contextlib.suppress(Exception):
            print(f"{what}: {said}")

    def check(site: int, what: Any, got: Any, want: Any = None, mistakes: Mapping[Any, Any] | None = None, *,
              rtol: Any = None, atol: Any = None) -> None:
        came = plain(got)
        wrong = [[sendable(plain(value)), text] for value, text in (mistakes or {}).items()]
        send(site, what, got=sendable(came), want=sendable(plain(want)), wrong=wrong,
             rtol=sendable(plain(rtol)), atol=sendable(plain(atol)))
        tell(what, show(came))

    def check_raises(site: int, what: Any, error: Any, function: Callable[[], Any], must_say: Any = "") -> None:
        say = plain(must_say)
        try:
            came = plain(function())
        except NotImplementedError:
            raise
        except Exception as caught:
            kind, message = type(caught), message_of(caught)
            bases = _bases_of(kind)
            send(site, what, kinds=[_ERRORS[id(base)] for base in bases if id(base) in _ERRORS], name=_name_of(kind),
                 right=any(base is error for base in bases), wanted=getattr(error, "__name__", ""),
                 message=message[:100 * _LONGEST], must_say=say)
            tell(what, f"{_name_of(kind)}: {show(message)}")
            return
        send(site, what, came=sendable(came))
        tell(what, f"no error, but {show(came)}")

    return {CHECK: check, CHECK_RAISES: check_raises}


def _size(data: Any) -> int:
    if isinstance(data, list):
        return sum(map(_size, data)) + 8
    return len(data) + 8 if isinstance(data, str) else 16
