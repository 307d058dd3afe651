"""The grades of a class: as a spreadsheet, as JSON, and in a few lines for people."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from tito.grading.job import GRADED

Grades = dict[str, Any]
_SHOWN = 5
_MISTAKES = 3


def write(grades: Grades, out: Path) -> None:
    """Write ``grades.csv`` and ``grades.json``, each whole or not at all."""
    from tito.notebooks.export import write_atomically

    write_atomically(out / "grades.json", json.dumps(grades, indent=1) + "\n")
    write_atomically(out / "grades.csv", "\ufeff" + as_csv(grades))  # the mark tells spreadsheets that it is UTF-8


def as_csv(grades: Grades) -> str:
    """Return one line per submission, with a column for each skill (of several modules: "module: skill")."""
    several = len(grades["modules"]) > 1
    skills = list(dict.fromkeys((row["module"], skill["skill"]) for row in grades["submissions"]
                                for skill in row["skills"]))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_safe(word) for word in (
        "student", "file", "module", "status", "points", "most",
        *(f"{module}: {skill}" if several else skill for module, skill in skills),
        "tests passed", "tests", "complete", "message", "notes", "seconds"))
    for row in grades["submissions"]:
        points = {(row["module"], skill["skill"]): skill["points"] for skill in row["skills"]}
        complete = "" if row["complete"] is None else "yes" if row["complete"] else "no"
        lines.writerow(_safe(value) for value in (
            row["student"], row["file"], row["module"], row["status"], row["points"], row["most"],
            *(points.get(skill) for skill in skills), row["tests_passed"], row["tests_total"], complete,
            row["message"], "; ".join(row["notes"]), row["seconds"]))
    return text.getvalue()


def _safe(value: Any) -> Any:
    """Return a cell that a spreadsheet shows and does not run: what begins like a formula gets a quote in front."""
    if isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@", "|", "%")) or (
            isinstance(value, str) and value[:1] in ("\t", "\r", "\n")):
        return f"'{value}"
    return value


def summary(grades: Grades) -> list[dict[str, Any]]:
    """Return how the class did, module by module: skills, and the most frequent mistakes."""
    found = []
    for module in grades["modules"]:
        rows = [row for row in grades["submissions"] if row["module"] == module]
        graded = [row for row in rows if row["status"] == GRADED]
        skills: dict[str, dict[str, Any]] = {}
        mistakes: Counter[tuple[str, str]] = Counter()
        for row in graded:
            for came in row["skills"]:
                skill = skills.setdefault(came["skill"], {
                    "skill": came["skill"], "max_points": came["max_points"], "points": 0, "all_of_it": 0})
                skill["points"] += came["points"]
                passed = [cell["state"] == "passed" for cell in row["cells"] if cell["skill"] == came["skill"]]
                skill["all_of_it"] += bool(passed) and all(passed)  # not by points: a bonus notebook has none
            mistakes.update({(cell["grade_id"], cell["likely"]) for cell in row["cells"] if cell["likely"]})
        for skill in skills.values():
            skill["mean_points"] = round(skill.pop("points") / len(graded), 1)
        found.append({
            "module": module, "bonus": any(row["bonus"] for row in rows), "submissions": len(rows),
            "graded": len(graded), "complete": sum(row["complete"] is True for row in graded),
            "tested": any(row["tests_total"] is not None for row in graded),
            "most": max((row["most"] for row in graded), default=None),
            "mean_points": round(sum(row["points"] for row in graded) / len(graded), 1) if graded else None,
            "skills": list(skills.values()),
            "mistakes": [{"cell": cell, "mistake": mistake, "submissions": count}
                         for (cell, mistake), count in sorted(mistakes.items(), key=lambda item: (-item[1], item[0]))]})
    return found


def draw(grades: Grades, out: Path) -> None:
    """Print the summary for a person, who may have 60 columns."""
    from rich.table import Table

    from tito import ui

    console = ui.console()
    for module in grades["summary"]:
        graded = module["graded"]
        console.print(f"{module['module']}: {_many(module['submissions'], 'submission')}, {graded} graded")
        if graded:
            table = Table.grid(padding=(0, 3, 0, 0))
            for _ in range(4):
                table.add_column(justify="left" if not table.columns else "right", overflow="fold")
            table.add_row("  skill", "mean", "of", "have all of it")
            for skill in module["skills"]:
                table.add_row(f"  {skill['skill']}", f"{skill['mean_points']:.1f}", str(skill["max_points"]),
                              f"{skill['all_of_it']} ({skill['all_of_it'] / graded:.0%})")
            table.add_row("  total", f"{module['mean_points']:.1f}", str(module["most"]),
                          f"{module['complete']} complete" if module["tested"] else "")
            console.print(table)
        if module["mistakes"]:
            console.print("  most frequent mistakes:")
            beside = Table.grid(padding=(0, 1, 0, 0))
            for mistake in module["mistakes"][:_MISTAKES]:
                beside.add_row(f"  {mistake['submissions']} x", f"{mistake['mistake']} ({mistake['cell']})")
            console.print(beside)
        console.print("")
    refused = [row for row in grades["submissions"] if row["status"] != GRADED]
    if refused:
        console.print(f"{_many(len(refused), 'submission')} could not be graded:")
        for row in refused[:_SHOWN]:
            console.print(_plain(f"- {row['file']}: {row['message']}"))
        if len(refused) > _SHOWN:
            console.print(f"  and {len(refused) - _SHOWN} more, in the table")
        console.print("")
    if grades["without"]:
        some = ", ".join(grades["without"][:_SHOWN]) + (", ..." if len(grades["without"]) > _SHOWN else "")
        console.print(_plain(f"{_many(len(grades['without']), 'folder')} without a submission: {some}\n"))
    console.print(f"The table is {out / 'grades.csv'}; all of it is in grades.json beside it.")


def _many(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
