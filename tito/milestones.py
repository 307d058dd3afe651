"""Milestones: short scripts in `milestones/` that retell a year of the field on the finished package, and their judge.

A script measures; this file runs it in a child process with limits, judges what it claims, and keeps result and
picture. It returns data; `tito/commands/milestone.py` shows them.
"""

from __future__ import annotations

import ast
import base64
import difflib
import hashlib
import json
import math
import operator
import os
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from tito.errors import UNWRITTEN, ProjectError, TitoError
from tito.project import PACKAGE, Module, read_text, target_owners

FOLDER, RESULTS = "milestones", "results"
SECONDS = 120.0
PROFILER = f"{PACKAGE}.perf.profiling"
RELATIONS = {"==": operator.eq, ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
MEASURED = ("parameters", "flops", "latency_ms", "memory_kb")  # what each model's row must have, above 0
_SCRIPT = re.compile(r"(\d{4})_([a-z][a-z0-9_]*)\.py")


@dataclass(frozen=True)
class Milestone:
    """One script: ``milestones/YEAR_name.py``."""

    year: int
    name: str
    script: Path

    @property
    def root(self) -> Path:
        """The checkout."""
        return self.script.parent.parent

    @property
    def label(self) -> str:
        """The script's name without its ending."""
        return self.script.stem

    @property
    def said(self) -> tuple[str, str]:
        """What the script's docstring says: its first line, and the story."""
        title, _, story = (ast.get_docstring(self._tree) or self.name).partition("\n")
        return title, " ".join(story.split())

    @property
    def _tree(self) -> ast.Module:
        where = f"{FOLDER}/{self.script.name}"
        try:
            return ast.parse(read_text(self.script, where))
        except SyntaxError as error:
            raise ProjectError(f"{where}, line {error.lineno}: this is not Python ({error.msg}).") from None

    @property
    def imports(self) -> list[str]:
        """What the script imports of the package, and what the functions import that it takes from ``stories``."""
        from tito import stories
        from tito.notebooks.checks import imported_names

        theirs = {node.name: node for node in ast.parse(read_text(Path(stories.__file__))).body
                  if isinstance(node, ast.FunctionDef)}
        names = [name for _, name in imported_names(self._tree)]
        for name in list(names):
            if name.startswith(f"{stories.__name__}."):
                names += [inner for _, inner in imported_names(theirs.get(name.rpartition(".")[2]))]
        return [str(name) for name in names if name.split(".")[0] == PACKAGE]


def milestones(root: Path) -> list[Milestone]:
    """Return the milestones of a checkout, the oldest first."""
    found = [(named, file) for file in sorted(root.joinpath(FOLDER).glob("*.py"))
             if (named := _SCRIPT.fullmatch(file.name))]
    return [Milestone(int(named[1]), named[2], file) for named, file in found]


def find_milestone(root: Path, text: str) -> Milestone:
    """Return the milestone a person means by ``text``: "xor", "1969" or "1969_xor"."""
    known = milestones(root)
    asked = text.strip().lower().replace("-", "_").removesuffix(".py")
    for one in known:
        if asked in (one.name, str(one.year), one.label):
            return one
    if not known:
        raise ProjectError(f"There are no milestones in {root}: {FOLDER}/ holds no script such as 1957_perceptron.py.")
    names = [one.name for one in known]
    close = difflib.get_close_matches(re.sub(r"^\d+_", "", asked), names, n=2, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}?" if close else f"there is {', '.join(names)}."
    raise ProjectError(f"There is no milestone {text.strip()!r}: {meant}")


# ---- what it needs

@lru_cache(maxsize=64)
def _package_imports(text: str) -> list[str]:
    from tito.notebooks.checks import imported_names

    return sorted({name for _, name in imported_names(ast.parse(text)) if name.split(".")[0] == PACKAGE})


def needed(milestone: Milestone) -> list[Module]:
    """Return the modules a milestone runs on, in the order of the course: what it imports, and what that imports."""
    from tito.notebooks.checks import reach

    owners = target_owners(milestone.root)
    found: set[Module] = set()
    todo = list(milestone.imports)
    while todo:
        for module in reach(milestone.root, todo.pop(), owners) - found:
            found.add(module)
            try:
                todo += _package_imports(module.package.read_text(encoding="utf-8"))
            except (OSError, ValueError, SyntaxError):
                continue  # the run says what is wrong with that file
    return sorted(found, key=lambda module: module.order)


def standing(milestone: Milestone, results: Path | None = None) -> dict[str, Any]:
    """Return what a milestone is, which modules it runs on and whose they are, and how its last run ended."""
    from tito.standing import package_state

    modules = needed(milestone)
    held: list[dict[str, Any]] = [{"number": module.number, "module": module.label,
                                   "package": package_state(module, None)} for module in modules]
    title, story = milestone.said
    return {"year": milestone.year, "name": milestone.name, "title": title, "story": story,
            "script": f"{FOLDER}/{milestone.script.name}", "modules": held,
            **_last_run(milestone, modules, _place(milestone, results)[0])}


def _place(milestone: Milestone, results: Path | None) -> tuple[Path, Path]:
    """Return where the result and the picture of a milestone lie."""
    folder = milestone.root / FOLDER / RESULTS if results is None else results
    return folder / f"{milestone.label}.json", folder / f"{milestone.label}.png"


def _last_run(milestone: Milestone, modules: list[Module], file: Path) -> dict[str, Any]:
    try:
        last = json.loads(file.read_text(encoding="utf-8"))
        state, date = "reached" if last["reached"] is True else "not reached", str(last["date"])
        if last["code"] != _code(milestone, modules):
            state += ", changed since"
    except (OSError, ValueError, TypeError, KeyError):
        return {"state": "not run", "date": None}
    return {"state": state, "date": date}


def _code(milestone: Milestone, modules: list[Module]) -> str:
    """Return a hash of the script and of the package's files it runs on."""
    digest = hashlib.sha256(milestone.script.read_bytes())
    for module in modules:
        digest.update(module.package.read_bytes() if module.package.is_file() else b"missing")
    return digest.hexdigest()[:16]


# ---- running it

def run_milestone(milestone: Milestone, timeout: float = SECONDS, results: Path | None = None) -> dict[str, Any]:
    """Run a milestone in a child process, judge what it claims, keep result and picture; return the result.

    ``exit_status``: 0 every claim holds; 1 one does not, or the script stopped before the end (``problem`` says how);
    2 it cannot run: a module it needs is missing or not finished (``problem`` names it; nothing is kept).
    """
    from tito.grading import limits
    from tito.needs import checkout_fault
    from tito.notebooks.export import write_atomically

    about = standing(milestone, results)
    json_file, picture = _place(milestone, results)
    _check_place(json_file.parent)
    modules = needed(milestone)
    result: dict[str, Any] = {**{key: about[key] for key in ("year", "name", "title", "story", "script", "modules")},
                              "date": time.strftime("%Y-%m-%d %H:%M"), "code": _code(milestone, modules)}
    absent = next((one for one in about["modules"] if one["package"] in ("missing", "unreadable")), None)
    if absent:
        name = absent["module"].partition("_")[2]
        return {**result, "reached": False, "exit_status": 2, "problem": (
            f"the package's file of module {absent['module']} is {absent['package']}; `tito module reset {name} "
            "--package` puts the reference there.")}
    if any(name.startswith(PROFILER) for name in milestone.imports) and (unready := checkout_fault(milestone.root)):
        return {**result, "reached": False, "exit_status": 2, "problem": unready}
    ended = limits.run({"milestone": str(milestone.script)}, timeout=timeout, root=milestone.root)
    said: dict[str, Any] = {}
    for report in ended.reports:
        said.update(report)
    result.update(judge(said), seconds=round(ended.seconds, 1), picture=None)
    unfinished = _unready(said, modules)
    if unfinished:
        return {**result, "reached": False, "exit_status": 2, "problem": unfinished}
    if not said.get("done"):
        more = "; --timeout gives it longer" if ended.timed_out else ""
        result.update(reached=False, problem=f"the script did not come to its end: {ended.how}{more}.")
    elif "error" in said:
        result.update(reached=False, problem=f"the script stopped: {_error(said['error'], milestone.root)}.")
    result["exit_status"] = 0 if result["reached"] else 1
    if "picture" in said:
        write_atomically(picture, base64.b64decode(said["picture"]))
        result["picture"] = str(picture)
    else:
        result["no_picture"] = said.get("no_picture", "the script did not get as far as its picture")
        picture.unlink(missing_ok=True)  # one of an earlier run would not belong to this result
    result["result"] = str(json_file)
    write_atomically(json_file, json.dumps(result, indent=2, allow_nan=False) + "\n")
    return result


def _check_place(folder: Path) -> None:
    """Raise a sentence where results cannot be written, before a run that would be lost."""
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise TitoError(f"results cannot be written into {folder}; name another folder with --to.")


def _unready(said: dict[str, Any], modules: list[Module]) -> str:
    """Say what is not finished of what the milestone needs, "" for nothing."""
    error = said.get("error") or {}
    message = error.get("message", "")
    if error.get("type") == "NotImplementedError" and re.fullmatch(UNWRITTEN, message):
        file = Path(error["place"][0]) if error["place"] else None
        owner = next((module for module in modules if module.package == file), None)
        if owner is not None:
            return (f"it needs module {owner.label}, and the package holds an export of it that is not finished "
                    f"({message}); `tito module resume {owner.name}` goes on, `tito module reset {owner.name} "
                    "--package` brings the reference back.")
    return ""


def _error(error: dict[str, Any], root: Path) -> str:
    where = ""
    if error["place"]:
        file, line = error["place"]
        inside = Path(file)
        where = f" ({inside.relative_to(root) if inside.is_relative_to(root) else inside}, line {line})"
    return f"{error['type']}: {' '.join(error['message'].split())}".rstrip(": .") + where


# ---- judging it

def judge(said: dict[str, Any]) -> dict[str, Any]:
    """Judge what a script reported: each claim anew, from its numbers, and that its measurements are measurements.

    A profiler that answers 0 reaches nothing, whatever is claimed: each model's row in ``found["profile"]`` must have
    numbers above 0. ``reached`` is True only where something is claimed and all of it holds.
    """
    found = said.get("found")
    claims = [{**one, "holds": _holds(one)} for one in _claims(said.get("claims"))]
    failed = [one for one in claims if not one["holds"]]
    problem = _no_measurement(found) if claims else "the script claims nothing, so nothing is shown."
    if not problem and failed:
        problem = f"{len(failed)} of {len(claims)} claims {'does' if len(failed) == 1 else 'do'} not hold."
    return {"found": _finite(found), "claims": _finite(claims), "reached": not problem, "problem": problem}


def _claims(said: Any) -> list[dict[str, Any]]:
    """Return the claims, none where one of them is no claim."""
    keys, listed = {"what", "came", "relation", "wanted"}, said if isinstance(said, list) else []
    return listed if all(isinstance(one, dict) and keys <= one.keys() for one in listed) else []


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _holds(one: dict[str, Any]) -> bool:
    came, wanted, relation = one["came"], one["wanted"], RELATIONS.get(one["relation"])
    return bool(relation and _is_number(came) and _is_number(wanted) and relation(came, wanted))


def _no_measurement(found: Any) -> str:
    """Say which measurement is none, "" where all are finite numbers above 0."""
    rows = found.get("profile") if isinstance(found, dict) else None
    if not rows or not isinstance(rows, list):
        return "the script profiled no model."
    for row in rows:
        for key in MEASURED:
            value = row.get(key) if isinstance(row, dict) else None
            if not (_is_number(value) and value > 0):
                name = row.get("model", "a model") if isinstance(row, dict) else "a model"
                return f"the Profiler measured {key} {value} for {name}; want a number above 0."
    return ""


def _finite(data: Any) -> Any:
    """Return plain data with None in place of numbers that JSON does not have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
