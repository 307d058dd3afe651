"""Notice that the process which runs the tests was tampered with, and name what was replaced.

A learner's file and pytest share one process, so nothing can be hidden from it; but what decides a test's fate can be
remembered before the file is imported and looked at again: the functions and classes of pytest, builtins, NumPy's
testing and their like, with their code; pytest's hooks; the collected tests. What stands in its place is compared by
identity, so new names (a module imported late) and undone patches (a test's ``monkeypatch``) are no alarm.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

# watched with all their loaded modules
_PACKAGES = frozenset((
    "_pytest", "pytest", "pluggy", "hypothesis", "_hypothesis_pytestplugin", "tito", "unittest", "json", "builtins",
    "operator", "_operator", "math", "ast", "types", "functools", "inspect", "traceback", "linecache", "importlib",
    "_frozen_importlib", "_frozen_importlib_external", "copy", "re", "contextlib", "dataclasses", "itertools",
    "collections", "pathlib", "io", "os", "posixpath", "ntpath", "tokenize", "random", "time", "threading", "gc",
    "tracemalloc", "atexit", "sys"))
_MODULES = frozenset(("numpy", "numpy.linalg", "numpy.random", "numpy.testing", "numpy.testing._private.utils"))
_CLOSED = frozenset(("_pytest", "pytest", "pluggy", "tito"))  # a new name here that builtins has, too, takes its place
_LOOKS = 4  # how often, on average, everything is looked at between two tests
_NUMBERS = (int, float)
_NUMBERED = frozenset(("numpy", "math", "builtins"))  # whose numbers are remembered, too; those of classes always are
_BASES: tuple[type, ...] = (object, int, float, complex, str, tuple, list, dict)
_ABSENT = object()
_Read = Callable[[Any, Any], Any]


class Watch:
    """What decides a test's fate, as it was when this was made."""

    def __init__(self) -> None:
        """Remember the watched modules that are loaded, the import system's order, and the classes there are."""
        self._names: list[tuple[str, _Read, str, Any]] = []  # where, how to look a name up, the name, what stood there
        self._code: dict[int, tuple[str, types.FunctionType, Any, Any, Any]] = {}
        self._closed: list[tuple[str, Any, frozenset[str], int]] = []  # namespaces that are not to grow
        self._hooks: list[tuple[str, Any, frozenset[int]]] = []
        self._tests: list[tuple[Any, frozenset[str], list[types.CodeType]]] = []
        self._conftests: frozenset[str] = frozenset()
        self._session, self._order = None, ()
        self._tracing = sys.gettrace(), sys.getprofile()
        self._finders = tuple(sys.meta_path)
        self._found: dict[str, None] = {}
        for name, module in list(sys.modules.items()):
            if name in _MODULES or name.partition(".")[0] in _PACKAGES:
                self._module(name, module)
        self._classes = {id(kind): kind for kind in _classes(object)}

    # ---- remembering ----

    def _module(self, name: str, module: types.ModuleType, with_data: bool = False) -> None:
        self._names.append(("sys.modules", sys.modules.get, name, module))
        names, top = vars(module), name.partition(".")[0]
        if top in _CLOSED:
            self._closed.append((name, names, frozenset(names), -1))
        for key, value in list(names.items()):
            special = key.startswith(("__", "@")) and key not in ("__import__", "__build_class__")
            if special or key.endswith("hook"):  # those of sys and threading are pytest's to change
                continue
            if with_data or callable(value) or (type(value) in _NUMBERS and top in _NUMBERED):
                self._names.append((name, names.get, key, value))
            self._functions(f"{name}.{key}", value)
            if isinstance(value, type) and value.__module__ == name:
                self._class(f"{name}.{key}", value)

    def _class(self, label: str, kind: type) -> None:
        names = _namespace(kind)
        if any(isinstance(value, types.FunctionType) for value in names.values()):  # else it has none in Python
            self._closed.append((label, names, frozenset(names), len(names)))
        for key, value in list(names.items()):
            if key not in ("__dict__", "__weakref__", "__doc__", "__annotations__") and (
                    callable(value) or hasattr(type(value), "__get__") or type(value) in _NUMBERS):
                self._names.append((label, names.get, key, value))
                self._functions(f"{label}.{key}", value)

    def _functions(self, label: str, value: Any) -> None:
        for function in _inside(value):
            if id(function) not in self._code:
                words = function.__kwdefaults__
                self._code[id(function)] = label, function, function.__code__, function.__defaults__, words
                if words:
                    self._names += [(label, words.get, key, default) for key, default in words.items()]

    def hooks(self, manager: Any, conftests: frozenset[str]) -> None:
        """Remember pytest's hooks; ``conftests`` are the files that may add to them."""
        self._conftests = conftests
        relay = vars(manager.hook)
        self._names += [("pytest's plugin manager", vars(manager).get, key, vars(manager)[key])
                        for key in ("hook", "_inner_hookexec")]
        for name, caller in relay.items():
            self._names.append(("pytest's hook", relay.get, name, caller))
            for hook in caller.get_hookimpls():
                self._names.append((f"pytest's hook {name}", _reader(hook), "function", hook.function))
                self._functions(f"pytest's hook {name}", hook.function)
            self._hooks.append((name, caller, frozenset(map(id, caller.get_hookimpls()))))

    def tests(self, session: Any, files: frozenset[str]) -> None:
        """Remember the collected tests, and all names of the modules they stand in."""
        self._session, self._order = session, tuple(session.items)
        for name, module in list(sys.modules.items()):
            if getattr(module, "__file__", None) in files:
                self._module(name, module, with_data=True)
        for item in session.items:
            inner = getattr(getattr(item.obj, "hypothesis", None), "inner_test", None)  # what @given calls
            self._functions(item.nodeid, inner)
            self._tests.append((item, frozenset(vars(item)), [function.__code__ for function in _inside(item.obj)]))

    # ---- looking again ----

    def look(self) -> list[str]:
        """Return all that was ever seen replaced, removed or added since it was remembered."""
        found = self._found
        for where, read, name, value in self._names:
            came = read(name, _ABSENT)
            if came is not value and not _same_plain(came, value):
                found[f"{where}.{name} was {'removed' if came is _ABSENT else 'replaced'}"] = None
        for label, function, code, defaults, words in self._code.values():
            if function.__code__ is not code:
                found[f"{label} was rewritten"] = None
            elif function.__defaults__ is not defaults or function.__kwdefaults__ is not words:
                found[f"the defaults of {label} were changed"] = None
        own = vars(builtins).keys()
        for label, names, known, count in self._closed:
            if len(names) == count:
                continue
            for key in (names.keys() if count >= 0 else names.keys() & own) - known:
                if callable(names[key]) or hasattr(type(names[key]), "__set__"):
                    found[f"{label}.{key} was added"] = None
        for name, caller, known_hooks in self._hooks:
            self._look_at_hook(name, caller.get_hookimpls(), known_hooks)
        for item, known_names, codes in self._tests:
            own_names = vars(item)
            test = own_names.get("_obj")
            if test is not None and [function.__code__ for function in _inside(test)] != codes:
                found[f"{item.nodeid} was replaced"] = None
            for key in own_names.keys() - known_names:
                if callable(getattr(type(item), key, None)):
                    found[f"{key} of {item.nodeid} was replaced"] = None
        if self._session is not None and [*map(id, self._session.items)] != [*map(id, self._order)]:
            found["the list of collected tests was changed"] = None
        if (sys.gettrace(), sys.getprofile()) != self._tracing:
            found["a trace or profile function was set and left"] = None
        if [*map(id, sys.meta_path[:len(self._finders)])] != [*map(id, self._finders)]:
            found["sys.meta_path was changed"] = None
        self._look_at_classes(_classes(object))
        return list(found)

    def glance(self) -> bool:
        """Look at new classes and hooks, cheap enough for every test; say whether to look at everything now."""
        new: list[type] = []
        kind: type
        for base in _BASES:
            for kind in reversed(type.__subclasses__(base)):  # the newest come last
                if id(kind) in self._classes:
                    break
                new.append(kind)
        self._look_at_classes(new)
        for name, caller, known_hooks in self._hooks:  # one that is there for a single test is seen before it acts
            self._look_at_hook(name, caller.get_hookimpls(), known_hooks)
        return random.SystemRandom().randrange(len(self._order) + 1) < _LOOKS

    def _look_at_hook(self, name: str, hooks: list[Any], known: frozenset[int]) -> None:
        here = frozenset(map(id, hooks))
        if known - here:
            self._found[f"pytest's hook {name} was removed"] = None
        for hook in hooks:
            if id(hook) not in known:
                function = getattr(hook.function, "__func__", hook.function)
                of_conftest = getattr(function, "__globals__", {}).get("__file__") in self._conftests
                if id(function) not in self._code and not of_conftest:
                    self._found[f"a function of {getattr(function, '__module__', None)} was hooked into pytest's "
                                f"{name}"] = None

    def _look_at_classes(self, kinds: list[type]) -> None:
        """Find objects equal to everything: they make any test's ``==`` true."""
        for kind in kinds:
            if id(kind) in self._classes:
                continue
            self._classes[id(kind)] = kind
            equal = getattr(kind, "__eq__", None)
            by_numpy = any(name in _namespace(base) for base in type.__dict__["__mro__"].__get__(kind)[:-1]
                           for name in ("__array_function__", "__array_ufunc__") if base.__module__ != "numpy")
            own = isinstance(equal, types.FunctionType) and id(equal) not in self._code
            if (own or by_numpy) and _equals_everything(kind, by_numpy):
                self._found[f"objects of {kind.__module__}.{kind.__qualname__} are equal to everything"] = None


def _namespace(kind: type) -> Any:
    return type.__dict__["__dict__"].__get__(kind)  # a live view, whatever the metaclass says


def _reader(thing: Any) -> _Read:
    return lambda name, absent: getattr(thing, name, absent)


def _same_plain(a: Any, b: Any) -> bool:
    return type(a) is type(b) and type(a) in (int, float, str) and (a == b or (a != a and b != b))


def _inside(value: Any) -> Iterator[types.FunctionType]:
    """Yield the functions of Python in a function, method, property or decorated function."""
    value = getattr(value, "__func__", value) if isinstance(
        value, (staticmethod, classmethod, types.MethodType)) else value
    parts = ((value.fget, value.fset) if isinstance(value, property) else (value.func,) if isinstance(
        value, (functools.cached_property, functools.partial)) else (value,))
    for part in parts:
        for _ in range(5):  # what a decorator wrapped
            if isinstance(part, types.FunctionType):
                yield part
                part = part.__dict__.get("__wrapped__")
            else:  # NumPy's dispatched functions are not Python's
                part = getattr(part, "_implementation", None) if type(part).__module__ == "numpy" else None


def _classes(base: type) -> list[type]:
    """Return all classes derived from ``base``."""
    found: dict[int, type] = {}
    todo, kind = [base], base
    while todo:
        for kind in type.__subclasses__(todo.pop()):
            if id(kind) not in found:
                found[id(kind)] = kind
                todo.append(kind)
    return list(found.values())


def _equals_everything(kind: type, by_numpy: bool) -> bool:
    """Say whether an object of this class claims to equal two numbers that nobody computed."""
    for thing in _some(kind):
        answers = []
        for _ in range(2):
            number = random.SystemRandom().uniform(-1, 1) * 10.0 ** random.SystemRandom().randrange(7)
            try:
                answers.append(bool(thing == number))
            except Exception:
                if not by_numpy:
                    break
            if by_numpy:
                import numpy as np

                try:
                    answers.append(bool(np.all(np.isclose(thing, number))))
                except Exception:
                    continue
        if len(answers) >= 2 and (all(answers) or (by_numpy and all(answers[1::2]))):
            return True
    return False


def _some(kind: type) -> Iterator[Any]:
    """Yield an object of the class: a bare one, then one that is there."""
    base: Any = next((base for base in _BASES[1:] if issubclass(kind, base)), object)
    bare: list[Any] = []
    with contextlib.suppress(Exception):
        bare.append(base.__new__(kind))
    yield from bare
    yield from [thing for thing in gc.get_referrers(kind) if type(thing) is kind][:1]
