"""Graded cells go to the child without their answers: the wanted values stay here, and here what comes back is judged.

``seal`` cuts out of a released cell's text what its checks want, and the values of known mistakes, as far as they are
constants; each call keeps the number of its site. The child sends what came at each site (``answers``), and
``judge`` finds the first that does not hold, or the site that was never reached.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tito.checks import CheckFailed, Other, compare, plain, raised, show
from tito.grading.answers import CHECK, CHECK_RAISES, decode

DYNAMIC = object()  # stands for what only the child can say
_PARAMETERS = {"check": ("what", "got", "want", "mistakes"),
               "check_raises": ("what", "error", "function", "must_say")}
_NAMES = {"inf": math.inf, "np.inf": np.inf, "np.nan": np.nan}
_CALLS: dict[str, Any] = {"float": float, "np.array": np.array, "np.zeros": np.zeros, "np.ones": np.ones,
                          "np.arange": np.arange}
_OPERATORS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b, ast.UAdd: lambda a: +a, ast.USub: lambda a: -a, ast.Not: lambda a: not a}


@dataclass(frozen=True)
class Site:
    """A call of a check in a graded cell: what of it is known here; ``DYNAMIC`` is what the child must say.

    ``least`` is how often it must answer at least, ``names`` are the names its text uses.
    """

    number: int
    what: str
    least: int
    raises: bool
    names: frozenset[str]
    want: Any = DYNAMIC  # of check_raises: the name of a built-in error
    mistakes: Mapping[int, Any] = field(default_factory=dict)  # place -> (value or DYNAMIC, text)
    rtol: Any = 1e-6
    atol: Any = 1e-9
    must_say: Any = ""

    @property
    def constant(self) -> bool:
        """Say whether the child cannot know what is wanted."""
        return self.want is not DYNAMIC


def seal(source: str, numbers: Iterator[int]) -> tuple[str, list[Site]]:
    """Return a graded cell's text without the answers, and its sites; lines keep their numbers."""
    tree = ast.parse(source)
    text = source.encode()
    starts = list(itertools.accumulate((len(line) for line in text.splitlines(keepends=True)), initial=0))
    edits: list[tuple[int, int, bytes]] = []
    sites: list[Site] = []

    def span(node: Any) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def replace(node: Any, new: str) -> None:
        begin, end = span(node)
        edits.append((begin, end, new.encode() + b"\n" * text.count(b"\n", begin, end)))

    for call, least in _calls(tree, 1):
        site, parts = _read(call, next(numbers), least)
        sites.append(site)
        for node, words in parts:
            replace(node, words)
        replace(call.func, CHECK_RAISES if site.raises else CHECK)
        opened = text.index(b"(", span(call.func)[1]) + 1
        edits.append((opened, opened, b"%d, " % site.number))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text.decode(), sites


def _calls(node: ast.AST, least: int) -> Iterator[tuple[ast.Call, int]]:
    """Find the checks below a node in the order of the text, each with how often it must be reached at least."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _calls(child, least if name in ("test", "iter", "items") else least * _runs(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PARAMETERS:
        yield node, least


def _runs(node: ast.AST) -> int:
    """Say how often what stands in a node runs at least: not at all under an ``if`` or in a loop of unknown length."""
    if isinstance(node, ast.For):
        if isinstance(node.iter, (ast.Tuple, ast.List)):
            return 0 if any(isinstance(one, ast.Starred) for one in node.iter.elts) else len(node.iter.elts)
        if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range":
            bounds = [_constant(bound) for bound in node.iter.args]
            return len(range(*bounds)) if all(type(bound) is int for bound in bounds) else 0
    return 0 if isinstance(node, (ast.For, ast.While, ast.If, ast.IfExp, ast.BoolOp, ast.ExceptHandler, ast.Lambda,
                                  ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) else 1


def _read(call: ast.Call, number: int, least: int) -> tuple[Site, list[tuple[ast.AST, str]]]:
    """Return the site of a call, and what is to stand in the place of which of its parts."""
    assert isinstance(call.func, ast.Name)
    kind = call.func.id
    given: dict[str, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if not any(isinstance(one, ast.Starred) for one in call.args):
        given |= dict(zip(_PARAMETERS[kind], call.args))
    names = frozenset(node.id for node in ast.walk(call) if isinstance(node, ast.Name))
    site: dict[str, Any] = {}
    new: list[tuple[ast.AST, str]] = []
    if kind == "check_raises":
        error, say = given.get("error"), given.get("must_say")
        built_in = getattr(builtins, error.id, None) if isinstance(error, ast.Name) else None
        if isinstance(built_in, type) and issubclass(built_in, BaseException):
            site["want"] = built_in.__name__
        if say is not None:
            site["must_say"] = _constant(say)
            new += [(say, "''")] if type(site["must_say"]) is str else []
    else:
        for name in {"want", "rtol", "atol"} & set(given):
            site[name] = _constant(given[name])
        if site.get("want", DYNAMIC) is not DYNAMIC:
            new.append((given["want"], "None"))
        if isinstance(given.get("mistakes"), ast.Dict):
            site["mistakes"], words = _mistakes(given["mistakes"])  # type: ignore[arg-type]
            new.append((given["mistakes"], words))
    what = given.get("what")
    told = what.value if isinstance(what, ast.Constant) else ast.unparse(what).strip("f'\"") if what else ""
    return Site(number, str(told), least, kind == "check_raises", names, **site), new


def _mistakes(node: ast.Dict) -> tuple[dict[int, Any], str]:
    """Return the known mistakes of a check by their place, and the dict that asks the child for the others."""
    known: dict[int, Any] = {}
    asked: list[str] = []
    for place, (key, value) in enumerate(zip(node.keys, node.values)):
        wrong, text = _constant(key) if key else DYNAMIC, _constant(value)
        if key is None:
            asked.append(f"**{ast.unparse(value)}")
        elif type(text) is not str:
            asked.append(f"{ast.unparse(key)}: {ast.unparse(value)}")
        else:
            known[place] = (wrong, text)
            if wrong is DYNAMIC:
                asked.append(f"{ast.unparse(key)}: {place}")
    return known, "{" + ", ".join(asked) + "}"


def _constant(node: ast.expr) -> Any:
    """Return the value of an expression that is made of constants, ``DYNAMIC`` for any other."""
    try:
        return plain(_value(node))
    except (_NotConstant, ArithmeticError, TypeError, ValueError):
        return DYNAMIC


class _NotConstant(Exception):
    pass


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and node.value is not Ellipsis:
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple([_value(one) for one in node.elts])
    if isinstance(node, ast.List):
        return [_value(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        return {_value(key or node): _value(value) for key, value in zip(node.keys, node.values)}
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in _NAMES:
        return _NAMES[ast.unparse(node)]
    if isinstance(node, ast.Call) and not node.keywords and ast.unparse(node.func) in _CALLS:
        return _CALLS[ast.unparse(node.func)](*[_value(one) for one in node.args])
    raise _NotConstant


def judge(sites: Iterable[Site], answers: Iterable[Mapping[str, Any]]) -> tuple[Site, CheckFailed] | None:
    """Return the first check of a cell that does not hold, and how; None when what came is right as far as it came.

    Raises:
        TypeError: a check wants what cannot be compared.
    """
    by_number = {site.number: site for site in sites}
    for answer in answers:
        site = by_number.get(answer["answer"]) if type(answer.get("answer")) is int else None
        failed = _failure(site, answer) if site else None
        if site and failed:
            return site, failed
    return None


def unreached(sites: Iterable[Site], answers: Iterable[Mapping[str, Any]]) -> Site | None:
    """Return the first site that answered less often than it must."""
    came = [answer.get("answer") for answer in answers]
    return next((site for site in sites if came.count(site.number) < site.least), None)


def _failure(site: Site, answer: Mapping[str, Any]) -> CheckFailed | None:
    what = answer.get("what") or site.what
    if site.raises:
        must_say = answer.get("must_say", "") if site.must_say is DYNAMIC else site.must_say
        wanted = str(answer.get("wanted", "")) if site.want is DYNAMIC else site.want
        if "kinds" not in answer:
            return CheckFailed(what, wanted or "an error", f"no error, but {show(decode(answer.get('came')))}")
        right = answer.get("right") is True if site.want is DYNAMIC else site.want in answer["kinds"]
        return raised(what, wanted, str(must_say), str(answer.get("name")), str(answer.get("message")), right)
    want = decode(answer.get("want")) if site.want is DYNAMIC else site.want
    tolerance: dict[str, Any] = {name: answer.get(name) if value is DYNAMIC else value
                                 for name, value in (("rtol", site.rtol), ("atol", site.atol))}
    known: dict[int, Any] = dict(site.mistakes)
    more: list[tuple[Any, str]] = []
    for wrong, text in answer.get("wrong") or ():
        if type(text) is int and text in known:
            known[text] = (decode(wrong), known[text][1])
        else:
            more.append((decode(wrong), str(text)))
    mistakes = [one for one in (*known.values(), *more) if one[0] is not DYNAMIC and type(one[0]) is not Other]
    return compare(what, decode(answer.get("got")), want, mistakes, **tolerance)
