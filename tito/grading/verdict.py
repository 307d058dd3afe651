"""Draw a verdict for a person: points (of a bonus: checks) by skill, what to look at first, the tests; one screen."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from tito import ui

SHOWN = 3
_NOT_PYTHON = ("SyntaxError", "IndentationError", "TabError")
_NO_RETURN = "a function gave None back: is its `return` missing?"


def draw(result: dict[str, Any], everything: bool = False) -> None:
    """Print a verdict of ``runner.grade``; ``everything`` lists all problems and what the cells printed."""
    from rich.table import Table

    console = ui.console()
    shown = 10**6 if everything else SHOWN
    if everything and result["output"].strip():
        console.print(_plain(result["output"]).rstrip() + "\n")
    number, _, name = result["module"].partition("_")
    if result["untouched"]:
        gives = "a bonus without points" if result["bonus"] else f"0 of {result['max_score']} points"
        console.print(f"Nothing is written in the notebook of {result['module']} yet: {gives}.")
        console.print(f"If you did write in it, save it and test again; `tito module start {name}` says where it is.")
        for note in result["notes"][:shown]:
            console.print(f"Note: {_plain(note)}")
        console.print("Testing the package itself instead.")
        _tests(console, result["tests"], "Package tests", shown)
        return
    console.print(f"{number} · {result['title']}: your {result['tested']}"
                  f"{' (bonus: checked, no points)' if result['bonus'] else ''}"
                  + ("" if result["notes"] else "\n"))
    for note in result["notes"][:shown]:
        console.print(f"Note: {_plain(note)}")
    _rest(console, len(result["notes"]) - shown)
    rows = _checks(result["cells"]) if result["bonus"] else [
        (row["skill"], row["points"], row["max_points"]) for row in result["skills"]]
    rows.append(("total", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    one = max(len(row[0]) for row in rows) + max(len(f"{row[1]} / {row[2]}") for row in rows) + 8  # and spaces
    beside = 2 if len(rows) > 4 and console.width >= 2 * one else 1
    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(beside):
        table.add_column()
        table.add_column(justify="right")
    down = -(-len(rows) // beside)
    for pair in zip_longest(*(rows[start:start + down] for start in range(0, len(rows), down))):
        table.add_row(*(text for one in pair if one for text in (f"  {one[0]}", f"{one[1]} / {one[2]}")))
    console.print(table)
    unwritten = list(dict.fromkeys(cell["message"] for cell in result["cells"] if cell["state"] == "unwritten"))
    if unwritten:
        console.print(f"Not written yet ({len(unwritten)}): {'' if everything else unwritten[0]}".rstrip()
                      + (", ..." if len(unwritten) > 1 and not everything else ""))
        for message in unwritten if everything else ():
            console.print(f"  {message}")
    problems = [cell for cell in result["cells"] if cell["state"] in ("failed", "error", "timeout", "ended")]
    # cells that earn nothing come last: they mostly fail for want of what comes first; what a note says is said
    problems += [error for error in result["errors"] if error["message"] not in result["notes"][:shown]]
    problems.sort(key=lambda problem: problem["type"] not in _NOT_PYTHON)  # of such a cell nothing ran: others follow
    causes = [problem for problem in problems if not problem["follows"]] or problems
    if causes:
        console.print(f"\n{len(causes)} {'thing' if len(causes) == 1 else 'things'} to look at:")
        for number, problem in enumerate(causes[:shown]):
            _problem(console, problem, name, everything or number == 0)
        _rest(console, len(causes) - shown)
    later = len(problems) - len(causes)
    if later:
        console.print(f"{later} later {'cell' if later == 1 else 'cells'} could not run for want of "
                      f"{'this' if len(causes) == 1 else 'these'}.")
    lost = sum(cell["state"] == "not run" for cell in result["cells"])
    if lost:
        console.print(f"{lost} graded {'cell was' if lost == 1 else 'cells were'} not run"
                      f"{'' if result['bonus'] else ' and earned nothing'}.")
    if not causes:
        console.print()
    _tests(console, result["tests"], "Edge tests", shown if everything or not causes else 0)
    if "exported" not in result:  # `tito module complete` says itself what came of it
        console.print("Not complete yet." if result["exit_status"] else
                      f"All passes. `tito module complete {name}` puts it into the package.")


def _checks(cells: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Count per skill the graded cells that passed, and all of them."""
    skills = dict.fromkeys(cell["skill"] for cell in cells)
    return [(skill, sum(cell["state"] == "passed" for cell in cells if cell["skill"] == skill),
             sum(cell["skill"] == skill for cell in cells)) for skill in skills]


def _problem(console: Any, problem: dict[str, Any], module: str, whole: bool) -> None:
    """Print one thing to look at: the check, expected, got, the likely mistake, the cell; or just what and where."""
    from rich.table import Table

    said = _plain(problem["message"] or "").strip().split("\n")[0]
    if problem["state"] == "error":
        said = f"{_plain(problem['type'])}: {said}"
    if problem.get("expected") is not None:
        said = _plain(problem["check"]) + ("" if whole else f": {_plain(problem['got'])}, "
                                           f"not {_plain(problem['expected'])}")
    console.print(f"- {_plain(problem['where'])}: {said}")
    if not whole:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    likely = problem.get("likely") or (_NO_RETURN if problem["state"] == "error" and
                                       "'NoneType' object" in (problem["message"] or "") else None)
    for part, told in (("expected", problem.get("expected")), ("got", problem.get("got")), ("likely", likely)):
        if told is not None:
            table.add_row(f"  {part}", _plain(told))
    if problem.get("line") and problem["state"] in ("error", "timeout"):
        table.add_row("  line", f"{problem['line']} of {problem.get('raised_in') or problem['where']}")
    if problem.get("waits_for"):
        return  # what to look at is in another module, as it says
    look, section = problem.get("look_at") or problem["where"], problem.get("look_in") or problem["section"]
    named = look.startswith("section ")  # a cell without a grade_id is named by its place
    table.add_row("  look at", _plain(look + (f" ({section if named else 'section ' + section})" if section else "")))
    if problem.get("look_at"):
        table.add_row("  hint", f"tito hint {module} {_plain(look)}")
    console.print(table)


def _tests(console: Any, tests: dict[str, Any], name: str, shown: int) -> None:
    if tests["problem"]:
        console.print(f"{name}: {_plain(tests['problem'])}")
    if not tests["total"]:
        return
    beside = [f"{tests['skipped']} skipped"] if tests["skipped"] else []
    if tests["unwritten"]:
        beside.append(f"{tests['unwritten']} wait for what is not written yet")
    if tests["failures"] and not shown:  # what to look at is said above; these mostly follow from it
        beside.append(f"{len(tests['failures'])} failed: --all shows them")
    said = f" ({', '.join(beside)})" if beside else ""
    console.print(f"{name}: {tests['passed']} of {tests['total']}{said}")
    for failure in tests["failures"][:shown]:
        console.print(f"- {_plain(failure['name'])}")
        lines = [line.strip() for line in _plain(failure["message"]).splitlines() if line.strip()]
        for line in lines[:3]:  # pytest's first line may say only that something differs; what differs comes after
            console.print(f"  {line[:200]}")
    if shown:
        _rest(console, len(tests["failures"]) - shown)


def _rest(console: Any, count: int) -> None:
    if count > 0:
        console.print(f"  and {count} more (--all shows them)")


def _plain(text: Any) -> str:
    """Return text without control characters: what a learner's code says must not steer the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in str(text))
