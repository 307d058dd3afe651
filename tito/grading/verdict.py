"""Draw a verdict for a person: points (of a bonus: checks) by skill, what to look at first, the tests; one screen."""

from __future__ import annotations

from typing import Any

from tito import ui

SHOWN = 3
_NOT_PYTHON = ("SyntaxError", "IndentationError", "TabError")


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
        console.print("Testing the package itself instead.")
        _tests(console, result["tests"], "Package tests", shown)
        return
    console.print(f"{number} · {result['title']}: your {result['tested']}"
                  f"{' (bonus: checked, no points)' if result['bonus'] else ''}\n")
    for note in result["notes"]:
        console.print(f"Note: {_plain(note)}")
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    rows = _checks(result["cells"]) if result["bonus"] else [
        (row["skill"], row["points"], row["max_points"]) for row in result["skills"]]
    for skill, came, most in [*rows, ("total", sum(row[1] for row in rows), sum(row[2] for row in rows))]:
        table.add_row(f"  {skill}", f"{came} / {most}")
    console.print(table)
    unwritten = list(dict.fromkeys(cell["message"] for cell in result["cells"] if cell["state"] == "unwritten"))
    if unwritten:
        console.print(f"\nNot written yet ({len(unwritten)}):")
        for message in unwritten[:shown]:
            console.print(f"  {message}")
        _rest(console, len(unwritten) - shown)
    problems = [cell for cell in result["cells"] if cell["state"] in ("failed", "error", "timeout", "ended")]
    problems += result["errors"]  # cells that earn nothing come last: they mostly fail for want of what comes first
    problems.sort(key=lambda problem: problem["type"] not in _NOT_PYTHON)  # of such a cell nothing ran: others follow
    if problems:
        first = "The first 3 of " if len(problems) > shown else ""
        console.print(f"\n{first}{len(problems)} {'thing' if len(problems) == 1 else 'things'} to look at:")
        for problem in problems[:shown]:
            _problem(console, problem)
        _rest(console, len(problems) - shown)
    lost = sum(cell["state"] == "not run" for cell in result["cells"])
    if lost:
        console.print(f"\n{lost} graded {'cell was' if lost == 1 else 'cells were'} not run"
                      f"{'' if result['bonus'] else ' and earned nothing'}.")
    _tests(console, result["tests"], "Edge tests", shown)
    console.print("\n" + (f"Complete. `tito export {name}` puts it into the package." if result["exit_status"] == 0
                          else "Not complete yet."))


def _checks(cells: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Count per skill the graded cells that passed, and all of them."""
    skills = dict.fromkeys(cell["skill"] for cell in cells)
    return [(skill, sum(cell["state"] == "passed" for cell in cells if cell["skill"] == skill),
             sum(cell["skill"] == skill for cell in cells)) for skill in skills]


def _problem(console: Any, problem: dict[str, Any]) -> None:
    from rich.table import Table

    lines = _plain(problem["message"] or problem["type"] or "").strip().splitlines() or [""]
    if problem["state"] == "error":
        lines[0] = f"{problem['type']}: {lines[0]}"
    console.print(f"- {_plain(problem.get('check') or lines[0])}")
    table = Table.grid(padding=(0, 2, 0, 0))
    for part in ("expected", "got", "likely"):
        if problem.get(part) is not None:
            table.add_row(f"  {part}", _plain(problem[part]))
    named = problem["where"].startswith("section ")  # a cell without a grade_id is named by its place
    section = f" ({problem['section'] if named else 'section ' + problem['section']})" if problem["section"] else ""
    table.add_row("  cell", _plain(problem["where"] + section))
    if problem.get("line") and problem["state"] == "error":
        table.add_row("  line", f"{problem['line']} of {problem.get('raised_in') or problem['where']}")
    console.print(table)


def _tests(console: Any, tests: dict[str, Any], name: str, shown: int) -> None:
    if tests["problem"]:
        console.print(f"\n{name}: {_plain(tests['problem'])}")
    if not tests["total"]:
        return
    beside = [f"{tests['skipped']} skipped"] if tests["skipped"] else []
    if tests["unwritten"]:
        beside.append(f"{tests['unwritten']} wait for what is not written yet")
    said = f" ({', '.join(beside)})" if beside else ""
    console.print(f"\n{name}: {tests['passed']} of {tests['total']}{said}")
    for failure in tests["failures"][:shown]:
        console.print(f"- {_plain(failure['name'])}")
        lines = [line.strip() for line in _plain(failure["message"]).splitlines() if line.strip()]
        for line in lines[:3]:  # pytest's first line may say only that something differs; what differs comes after
            console.print(f"  {line[:200]}")
    _rest(console, len(tests["failures"]) - shown)


def _rest(console: Any, count: int) -> None:
    if count > 0:
        console.print(f"  and {count} more (--all shows them)")


def _plain(text: Any) -> str:
    """Return text without control characters: what a learner's code says must not steer the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in str(text))
