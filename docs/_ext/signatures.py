"""How entries of the reference read: ops with their own arguments, defaults by name, nothing twice."""

import inspect
import re

from tinytorch.core.tensor import Op

_UNNAMED = [(r"<class '([\w.]+)'>", r"\1"), (r"<(?:built-in )?function (\w+)[^>]*>", r"\1")]


def signature_of(app, what, name, thing, options, signature, returns):
    """Return the (arguments, result) to show."""
    if isinstance(thing, Op):
        signature = str(inspect.signature(thing.fn))  # an op takes what its NumPy function takes, as Tensors
    elif signature == "()" and (hasattr(thing, "_fields") or hasattr(thing, "__dataclass_fields__")):
        signature = ""  # a result: nobody makes one by hand
    for pattern, text in _UNNAMED:
        signature = signature and re.sub(pattern, text, signature)
    return signature, returns


def no_second_copy(app, what, name, thing, options, lines):
    """Shorten, in place, the text of a method that is a free function: its first sentence, and where the rest is."""
    function = getattr(thing, "__wrapped__", None)
    if what == "method" and inspect.isfunction(function) and "." not in function.__qualname__:
        first = lines.index("") if "" in lines else len(lines)
        lines[first:] = ["", f"See the function :py:func:`~{function.__module__}.{function.__name__}`."]


def no_type_in_front(app, what, name, thing, options, lines):
    """Keep Napoleon from reading the words before a property's first colon as its type."""
    if what in ("property", "attribute"):
        lines.insert(0, "")


def several_in_one_line(app, what, name, thing, options, lines):
    """Let ``Attributes:`` have several names in a line, as ``Keys:``; Napoleon would take all but one for types."""
    lines[:] = ["Fields:" if line == "Attributes:" else line for line in lines]


def setup(app):
    """Tell Sphinx; before Napoleon (500) has read a docstring's sections."""
    app.connect("autodoc-process-signature", signature_of)
    app.connect("autodoc-process-docstring", no_second_copy, priority=400)
    app.connect("autodoc-process-docstring", no_type_in_front, priority=400)
    app.connect("autodoc-process-docstring", several_in_one_line, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
