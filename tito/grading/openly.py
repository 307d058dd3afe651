"""Read an exported file for what has no use but to answer a test without the right answer.

A test asks a learner's objects, in a process they share; an object that lies for one comparison and puts all back
leaves nothing for ``tamper`` to find. But its text must say what it does: a number with an ``==`` of its own, a look
at its caller's frame, a hand on pytest. This is read here, in the parent, before anything of it runs; what it finds is
no part of any course work. It reads names as they are imported and follows no value: what hides is ``tamper``'s.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tito.errors import NOT_PYTHON

_Node = ast.expr | ast.stmt
_COMPARISONS = frozenset(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
_EQUAL = frozenset(("__eq__", "__ne__"))
_ASKED = _COMPARISONS | {f"__{name}__" for name in (
    "bool", "len", "contains", "class", "getattribute", "sub", "rsub", "abs", "round", "float", "int", "index",
    "complex", "array", "array_ufunc", "array_function", "array_interface", "array_wrap")}
_OF_ARRAYS = frozenset(("all", "any", "item", "tolist", "std", "var", "sum", "mean", "min", "max", "astype", "shape",
                        "dtype", "ravel", "reshape", "copy", "view", "tobytes", "size", "ndim"))
_OF_TENSORS = frozenset(("data", "item", "__bool__"))
_NUMBERS = frozenset(("int", "float", "complex", "bool", "str", "bytes"))
_HOLDERS = frozenset(("tuple", "list", "dict", "set", "frozenset", "typing.NamedTuple", "collections.OrderedDict",
                      "collections.namedtuple", "collections.defaultdict", "collections.Counter", "collections.deque"))
_NUMPYS = frozenset(("ndarray", "generic", "number", "integer", "floating", "inexact", "bool_", "float16", "float32",
                     "float64", "int8", "int16", "int32", "int64", "uint8", "matrix", "ma.MaskedArray"))
_TESTERS = ("_pytest", "pluggy", "builtins", "unittest.mock")  # not to be imported at all
_CLOSED = frozenset(("sys", "gc", "inspect", "pytest", "unittest", "hypothesis", "numpy.testing"))  # used by name only
_PATHS = frozenset(("sys.modules", "sys.meta_path", "inspect.stack", "inspect.trace", "importlib.import_module",
                    "types.CodeType", "pytest.hookimpl", "pytest.main"))
_NAMES = frozenset(("_getframe", "_current_frames", "currentframe", "getouterframes", "getinnerframes", "get_objects",
                    "get_referrers", "get_referents", "f_back", "f_locals", "f_globals", "f_builtins", "tb_frame",
                    "gi_frame", "cr_frame", "ag_frame", "addaudithook", "walk_stack", "__globals__", "__builtins__",
                    "__subclasses__", "__build_class__"))
_CALLS = frozenset(("exec", "eval", "compile", "__import__"))


def trick(text: str) -> str:
    """Return what the first such thing in an exported file is, with its line; empty where there is none."""
    try:
        tree = ast.parse(text)
    except NOT_PYTHON:
        return ""  # it fails as what it is
    lines = text.split("\n")
    for node, said in sorted(_Reader(tree).found(), key=lambda one: one[0].lineno):
        return f"{said} ({' '.join(lines[node.lineno - 1].split())[:70]})"
    return ""


class _Reader:
    """What an exported file's names stand for."""

    def __init__(self, tree: ast.Module):
        """Note what its imports bind, and which of its classes are numbers, arrays or tensors."""
        self.tree, self.nodes = tree, list(ast.walk(tree))
        self.modules: dict[str, str] = {}
        self.names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.modules[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self.names |= self.modules
        self.own = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.arguments = {node.arg for node in self.nodes if isinstance(node, ast.arg)}
        for node in self.nodes:  # number = float
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and self.path(node.value):
                name, path = node.targets[0].id, self.path(node.value)
                self.names[name] = path if self.names.get(name, path) == path else ""
        self.known = {path.partition(".")[0] for path in self.names.values() if path} | {*self.own, *vars(builtins)}

    def path(self, node: ast.AST | None) -> str:
        """Return the dotted name that an expression stands for, with what its first part was imported as."""
        if isinstance(node, ast.Attribute):
            before = self.path(node.value)
            return f"{before}.{node.attr}" if before else ""
        return self.names.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def forbidden(self, bases: list[ast.expr], seen: frozenset[str] = frozenset()) -> tuple[str, frozenset[str]]:
        """Return the built-in kind that a class with these bases is, and what it must not define then."""
        for base in bases:
            path = self.path(base.value if isinstance(base, ast.Subscript) else base.func if isinstance(
                base, ast.Call) and self.path(base.func) in _HOLDERS else base)
            if path.partition(".")[0] not in self.known:  # what a call or a list gives, a name bound to two things
                return f"what {ast.unparse(base)[:40]} is", _COMPARISONS
            if path in self.own and path not in seen:
                kind, names = self.forbidden(self.own[path].bases, seen | {path})
                if kind:
                    return kind, names
            elif path in _NUMBERS:
                return path, _ASKED
            elif path in _HOLDERS:
                return path, _EQUAL  # an order of its own is what a heap wants
            elif path.startswith("numpy.") and path.removeprefix("numpy.") in _NUMPYS:
                return path, _ASKED | _OF_ARRAYS
            elif path.endswith("tensor.Tensor"):
                return "Tensor", _COMPARISONS | _OF_TENSORS
        return "", frozenset()

    def found(self) -> Iterator[tuple[_Node, str]]:
        """Yield each thing that is not done openly, and what it is."""
        inside = {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute)}
        asked = {id(part) for node in self.nodes if isinstance(node, ast.Compare) for part in node.comparators}
        for node in self.nodes:
            if isinstance(node, ast.ClassDef):
                yield from self._class(node, node.name, node.bases, _defined(node))
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    path = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                    if f"{path}.".startswith(tuple(f"{name}." for name in _TESTERS)):
                        yield node, f"it imports {path}"
                    elif path in _PATHS or alias.name in _NAMES:
                        yield node, f"it uses {path}"
            elif isinstance(node, (ast.Attribute, ast.Name)):
                path = self.path(node)
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                if name in _NAMES or (path in _PATHS and id(node) not in asked):
                    yield node, f"it uses {path or name}"
                elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    yield from self._changed(node, node.value, name)
                elif path in _CLOSED and id(node) not in inside and name not in self.arguments:
                    yield node, f"it hands on the module {path}"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _NAMES:
                yield node, f"it names {node.value} in a string"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from self._call(node, node.func.id)

    def _call(self, node: ast.Call, name: str) -> Iterator[tuple[_Node, str]]:
        if name in _CALLS and name not in self.functions and name not in self.names:
            yield node, f"it calls {name}()"
        elif name in ("setattr", "delattr") and len(node.args) > 1:
            said = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            yield from self._changed(node, node.args[0], str(said))
        elif name == "type" and len(node.args) == 3 and isinstance(node.args[1], ast.Tuple):
            keys = node.args[2].keys if isinstance(node.args[2], ast.Dict) else []
            yield from self._class(node, "made by type()", node.args[1].elts,
                                   frozenset(str(key.value) for key in keys if isinstance(key, ast.Constant)))

    def _class(self, node: _Node, name: str, bases: list[ast.expr], defined: frozenset[str]) -> Iterator[
            tuple[_Node, str]]:
        kind, forbidden = self.forbidden(bases)
        lies = sorted(defined & forbidden)
        if lies:
            yield node, f"the class {name}, a kind of {kind}, has its own {lies[0]}"

    def _changed(self, node: _Node, owner: ast.expr, name: str) -> Iterator[tuple[_Node, str]]:
        """Judge that an attribute of something is set or deleted."""
        path = self.path(owner)
        if path in ("numpy", "numpy.linalg", "math", *_CLOSED - {"sys"}):
            yield node, f"it changes {path}"
        elif name in _COMPARISONS and (path not in self.own or self.forbidden(self.own[path].bases)[0]):
            yield node, f"it changes {name} of a class that is there"
        elif name == "data" and path.endswith("tensor.Tensor"):
            yield node, "it changes data of Tensor"


def _defined(node: ast.ClassDef) -> frozenset[str]:
    """Return the names that a class's body binds."""
    names = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for part in node.body:
        targets = part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(
            part, ast.AnnAssign) and part.value else []
        names |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return frozenset(names)
