"""A module's edge tests as the parent sees them: which there are, how they are dealt out, what is believed of reports.

The tests run in processes that a learner's file shares (``session``). So the parent reads from the test files
themselves which tests must come back, sends along canaries whose results it knows, and believes nothing where those,
or what ``tamper`` saw, say that the process was tampered with.
"""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tito.errors import UNWRITTEN
from tito.grading.limits import Ended
from tito.notebooks.checks import imported_names
from tito.project import PACKAGE, Module, read_text

_STUB = re.compile(f"NotImplementedError: {UNWRITTEN}")
_SKIPS = frozenset(("skip", "skipif", "importorskip", "xfail", "SkipTest"))
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SPLIT_AT = 60_000  # bytes of test files that are worth a second process
_CASE = 400  # bytes of text that take about as long to read as a test case to run
_WORDS = ("shape", "value", "order", "small", "empty", "axis", "sum", "first", "last", "model", "grad", "data", "step")


@dataclass
class TestFile:
    """A test file: its tests by name (``Class::test``), those that may skip themselves, what it imports."""

    path: Path
    node: str
    tests: set[str] = field(default_factory=set)
    may_skip: set[str] = field(default_factory=set)
    cases: int = 0  # how often they run, as far as their parameters are written out
    imports: set[str] = field(default_factory=set)


@dataclass
class Part:
    """What one process is to run: files, and canaries with what must be said of each."""

    files: list[TestFile]
    canaries: dict[str, str]
    must: dict[str, tuple[str, str]]  # name -> state, words of its message

    def job(self, module: Module) -> dict[str, Any]:
        """Return the job of this part."""
        settings = module.root / "pyproject.toml"
        imports = {name for file in [*self.files, *conftests(module)] for name in file.imports}
        return {"tests": [str(file.path) for file in self.files], "canaries": self.canaries,
                "conftests": [str(file.path) for file in conftests(module)], "imports": sorted(imports),
                "module": module.label, "root": str(module.root),
                "settings": str(settings) if settings.is_file() else ""}


def read_file(module: Module, path: Path) -> TestFile:
    """Read from a file's text which tests it holds; one that is no Python holds none, and fails at collection."""
    file = TestFile(path, path.relative_to(module.root).as_posix())
    try:
        tree = ast.parse(read_text(path))
    except (SyntaxError, ValueError):
        return file
    file.imports = {part for node in tree.body for _, name in imported_names(
        node if isinstance(node, (ast.Import, ast.ImportFrom)) else None)
        for part in (name, name.rpartition(".")[0]) if part and name.split(".")[0] != PACKAGE}
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, _DEFS)}
    skipping: set[str] = set(_SKIPS)
    while True:  # a function skips that names a skip, or a function that does (or a fixture: an argument)
        more = {name for name, node in functions.items() if name not in skipping and _names(node) & skipping}
        if not more:
            break
        skipping |= more
    whole = any("autouse" in ast.dump(decorator) for name in skipping & functions.keys()
                for decorator in functions[name].decorator_list) or any(
        _names(node) & _SKIPS for node in tree.body
        if not isinstance(node, (*_DEFS, ast.ClassDef)))
    file.cases = sum(_cases(node) for name, node in functions.items() if name.startswith("test"))
    for node in tree.body:
        if isinstance(node, _DEFS) and node.name.startswith("test"):
            file.tests.add(node.name)
            file.may_skip |= {node.name} if whole or node.name in skipping else set()
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for inner in node.body:
                if isinstance(inner, _DEFS) and inner.name.startswith("test"):
                    name = f"{node.name}::{inner.name}"
                    file.tests.add(name)
                    named = any(_names(decorator) & _SKIPS for decorator in node.decorator_list)
                    file.may_skip |= {name} if whole or named or inner.name in skipping else set()
    return file


def _cases(test: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Guess how many cases a test has: as many as its parameters are written out, ten where they have a name."""
    cases = 1
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and len(decorator.args) > 1 and "parametrize" in _names(decorator.func):
            values = decorator.args[1]
            cases *= len(values.elts) if isinstance(values, (ast.List, ast.Tuple)) else 10
    return cases


def _names(node: ast.AST) -> set[str]:
    """Return all names, attributes and arguments in a tree."""
    return {name for part in ast.walk(node) if (name := getattr(part, "id", None) or getattr(part, "attr", None) or (
        part.arg if isinstance(part, ast.arg) else None))}


def conftests(module: Module) -> list[TestFile]:
    """Return the conftest files that apply to a module's tests."""
    folders = [module.root, module.tests.parent, module.tests]
    return [read_file(module, folder / "conftest.py") for folder in folders if (folder / "conftest.py").is_file()]


def deal(module: Module, processes: int) -> list[Part]:
    """Deal a module's test files out to processes: the largest first, each to the one that has least."""
    files = [read_file(module, path) for path in sorted(module.tests.rglob("test_*.py"))]
    size = {file.node: file.path.stat().st_size + _CASE * file.cases for file in files}
    if sum(size.values()) < _SPLIT_AT:
        processes = 1
    hands: list[list[TestFile]] = [[] for _ in range(max(1, min(processes, len(files))))]
    for file in sorted(files, key=lambda file: (-size[file.node], file.node)):
        min(hands, key=lambda hand: sum(size[other.node] for other in hand)).append(file)
    return [Part(sorted(hand, key=lambda file: file.node), *canaries(files)) for hand in hands]


# ---- canaries ----

def canaries(files: list[TestFile]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Return test files that nobody wrote, name -> text, and what must be said of each of their tests."""
    chance = random.SystemRandom()
    real = {name.rpartition("::")[2] for file in files for name in file.tests}
    words = sorted({word for name in real for word in name.split("_")[1:] if word.isalpha()} | set(_WORDS))
    taken = real | {file.path.stem for file in files}  # two canary files of one name would be one file

    def new_name() -> str:
        while (name := "_".join(["test", *chance.sample(words, 3)])) in taken:
            pass
        taken.add(name)
        return name

    a, b = chance.sample(range(101, 1000), 2)
    bodies = [  # the product is not written anywhere: who says it has run the test
        (f"    found = {a} * {b}\n    assert found == {a * b + chance.randint(1, 99)}\n", "failed", f"{a * b} == "),
        (f"    with pytest.raises(ValueError):\n        int('{a}')\n", "failed", "DID NOT RAISE"),
        (f"    {{}}[{b} * {a + 1}]\n", "failed", f"KeyError: {b * (a + 1)}"),
        (f"    assert {a} + {b} == pytest.approx({a + b + 1})\n", "failed", f"{a + b + 1}"),
        (f"    assert {a} * {b} == {a * b}\n    with pytest.raises(ZeroDivisionError):\n        {a} / 0\n",
         "passed", ""),
    ]
    if any("numpy" in file.imports for file in files):
        bodies.append((f"    np.testing.assert_allclose([{a}.0, {b}.0], [{a}.0, {b}.5])\n", "failed",
                       "Not equal to tolerance"))
    chance.shuffle(bodies)
    must: dict[str, tuple[str, str]] = {}
    texts: dict[str, str] = {}
    for half in (bodies[::2], bodies[1::2]):
        text = "import numpy as np\nimport pytest\n" if any("np." in body for body, _, _ in half) else "import pytest\n"
        for body, state, said in half:
            name = new_name()
            must[name] = state, said
            text += f"\n\ndef {name}():\n{body}"
        texts[f"{new_name()}.py"] = text
    return texts, must


# ---- what is believed ----

def summary(status: int, problem: str | None = None) -> dict[str, Any]:
    """Return the verdict on tests of which none ran."""
    return {"passed": 0, "failed": 0, "unwritten": 0, "skipped": 0, "total": 0, "failures": [], "status": status,
            "problem": problem}


class _Session:
    """What one process reported."""

    def __init__(self, part: Part, ended: Ended):
        self.part, self.ended = part, ended
        self.collected: list[str] | None = None
        self.phases: dict[str, list[tuple[str, str, str]]] = {}
        self.ran: dict[str, list[bool]] = {}
        self.files: dict[str, tuple[str, str]] = {}
        self.tampered: dict[str, None] = {}
        self.status: int | None = None
        self.stopped = self.running = self.reading = ""
        self.looked = False
        for report in ended.reports:
            self.tampered.update(dict.fromkeys(map(str, report.get("tampered", ()))))
            self.looked |= "looked" in report
            if "collected" in report:
                self.collected = [str(name) for name in report["collected"]]
            elif "collecting" in report:
                self.reading = str(report["collecting"])
            elif "file" in report:
                self.files[str(report["file"])] = str(report["state"]), str(report["message"])
            elif "begin" in report:
                self.running = str(report["begin"])
            elif "ran" in report:
                self.ran.setdefault(str(report["ran"]), []).append(report["well"] is True)
            elif "test" in report:
                self.phases.setdefault(str(report["test"]), []).append(
                    (str(report["when"]), str(report["state"]), str(report["message"])))
                if report["when"] == "teardown":
                    self.running = ""
            elif "stopped" in report:
                self.stopped = self.stopped or str(report["stopped"])
            elif "done" in report:
                self.status = int(report["status"])

    def state(self, name: str) -> tuple[str, str]:
        """Return how a test ended: passed, skipped, failed, lost, or forged where pytest reports otherwise."""
        phases = self.phases.get(name, [])
        whens, states = [when for when, _, _ in phases], [state for _, state, _ in phases]
        if len(set(whens)) < len(whens) or set(states) - {"passed", "failed", "skipped"}:
            return "forged", ""
        for _, state, message in phases:
            if state == "failed":
                return "failed", message
        if whens == ["setup", "call", "teardown"] and states == ["passed"] * 3:
            return "passed" if self.ran.get(name) == [True] else "forged", ""  # else its function did not return
        for _, state, message in phases:
            if state == "skipped" and whens[-1] == "teardown":
                return "skipped", message
        return ("forged" if whens not in (["setup"], ["setup", "call"], []) or self.status in (0, 1) and phases
                else "lost"), ""

    def faults(self) -> list[str]:
        """Say why nothing that came from this process is believed."""
        found = list(self.tampered)
        if self.collected and self.status in (0, 1) and not self.looked:
            found.append("the last look at pytest's functions is missing")
        for name, (state, words) in self.part.must.items():
            node = next((node for node in self.collected or () if node.endswith(f"::{name}")), "")
            came, message = self.state(node)
            if came == "lost" and self.status not in (0, 1):
                continue  # it had no time; what is lost is said elsewhere
            if came != state or words not in message:
                found.append(f"a control test that must be reported {state} came back as {came}" + (
                    f" for another reason ({message[:80]})" if came == state else ""))
        strange = [name for name in self.phases if name not in (self.collected or ())]
        found += [f"a report came of {strange[0]}, which was not collected"] if strange else []
        forged = [name for name in self.phases if name not in strange and self.state(name)[0] == "forged"]
        found += [f"the reports of {forged[0]} are not what pytest sends"] if forged else []
        return list(dict.fromkeys(found))

    def ending(self, lost: int, where: str) -> str:
        """Say how a session ended that should have gone on."""
        ended, place = self.ended, (self.running or self.reading).removeprefix(where + "/")
        at = f" in {place}" if self.running else f" while {place} was imported" if self.reading else ""
        how = self.stopped or ended.how
        tests = "" if not lost else ": 1 test did not finish" if lost == 1 else f": {lost} tests did not finish"
        if ended.timed_out:
            return f"the tests were stopped after {ended.seconds:.0f} s{at}: a loop that does not end?{tests[1:]}"
        return f"the tests' process ended early{at} ({how}){tests}"


def judge(parts: list[tuple[Part, Ended]], where: str, stands_in: bool) -> dict[str, Any]:
    """Return the verdict on a module's tests as plain data.

    Args:
        parts: what each process was given, and how it ended.
        where: the tests' folder, relative to the checkout.
        stands_in: whether a learner's file stood in for the package's.
    """
    result = summary(2)
    sessions = [_Session(part, ended) for part, ended in parts]
    problems: list[str] = []
    could_not: list[str] = []
    for session in sessions:
        _count(session, where, result, problems, could_not)
    result["total"] = result["passed"] + result["failed"] + result["skipped"]
    faults = list(dict.fromkeys(fault for session in sessions for fault in session.faults()))
    if faults:
        shown = "; ".join(faults[:3]) + (f"; and {len(faults) - 3} more" if len(faults) > 3 else "")
        result.update(passed=0, skipped=0, unwritten=0, failed=result["total"], status=1,
                      problem=f"none of the tests counts, because the tests' process was tampered with: {shown}")
        return result
    result["problem"] = "; ".join(problems + could_not) or None
    if result["failed"]:
        result["status"] = 1
    elif could_not:
        result["status"] = 1 if stands_in else 2  # the package's own tests run, so the learner's file is the reason
    elif result["total"]:
        result["status"] = 0
    else:
        result["problem"] = f"{where} holds no tests"
    return result


def _count(session: _Session, where: str, result: dict[str, Any], problems: list[str], could_not: list[str]) -> None:
    """Add a session's tests to ``result``, and what is wrong with it to the problems."""
    collected = [name for name in session.collected or () if name.rpartition("::")[2] not in session.part.must]
    may_skip = {f"{file.node}::{name}" for file in session.part.files for name in file.may_skip}
    lost, skipped = [], []
    for name in collected:
        state, message = session.state(name)
        if state == "skipped" and name.partition("[")[0] not in may_skip:
            skipped.append(name)
            state, message = "failed", f"skipped, though the test does not ask for it: {message}"
        if state in ("passed", "skipped"):
            result[state] += 1
            continue
        result["failed"] += 1
        if state == "failed" and _STUB.search(message):
            result["unwritten"] += 1
        elif state == "failed":
            result["failures"].append({"name": name.removeprefix(where + "/"), "message": message})
        else:
            lost.append(name)
    missing = 0
    for file in session.part.files:
        state, message = session.files.get(file.node, ("", ""))
        wanted = {f"{file.node}::{name}" for name in file.tests} - {name.partition("[")[0] for name in collected}
        if state == "failed":
            result["failed"] += 1
            result["unwritten"] += bool(_STUB.search(message))
            if not _STUB.search(message):
                result["failures"].append({"name": file.node.removeprefix(where + "/"), "message": message})
        elif state == "skipped" and wanted <= may_skip:
            result["skipped"] += len(wanted)
        elif session.collected is not None:
            missing += len(wanted)
    result["failed"] += missing
    if missing and session.status in (0, 1):
        problems.append(f"{missing} tests of {where} were not collected")
    if skipped:
        problems.append(f"{len(skipped)} tests were skipped, though they do not ask for it")
    if session.collected is None:
        said = [line.strip() for line in session.ended.output.splitlines() if line.strip()]
        could_not.append(session.ending(sum(len(file.tests) for file in session.part.files), where)
                         if session.ended.timed_out or session.stopped or session.status is None else
                         f"the tests could not run ({session.ended.how}): "
                         f"{said[-1][:300] if said else 'it printed nothing'}")
    elif lost or session.status not in (0, 1):
        problems.append(session.ending(len(lost) + missing, where))
        result["failed"] += not lost and not missing and session.status is None
