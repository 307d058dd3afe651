"""What grading costs: one large module, a class of a hundred, and asking for help.

Run: ``python benchmarks/grading.py`` (some minutes; ``--check``: exit status 1 when a promise is broken). All of it is
done by `tito` in processes of its own, in a copy of this checkout with solved notebooks. Promised: ``tito test
profiling`` at most 10 s on two cores; a hundred submissions of a module at most 1.2 times (100 / cores) times as long
as a single one, each by ``tito grade``, so both pay for starting it; ``tito --help`` at most 0.25 s, without NumPy.
"""

import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from tito.notebooks.read import dumps
from tito.notebooks.release import solution_notebook
from tito.project import find_module

ROOT = Path(__file__).resolve().parents[1]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
STUDENTS, SINGLES, LARGE, HELP = 100, 5, 3, 11


def tito(root: Path, *words: str) -> tuple[float, subprocess.CompletedProcess]:
    """Run `tito` in a checkout: (seconds, how it ended)."""
    begun = perf_counter()
    done = subprocess.run([sys.executable, "-m", "tito", *words], cwd=root, capture_output=True, text=True,
                          encoding="utf-8", stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"})
    return perf_counter() - begun, done


def checkout(folder: Path) -> Path:
    """Copy what grading needs of this checkout."""
    root = folder / "checkout"
    for name in ("src", "modules", "tests", "tinytorch"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    compileall.compile_dir(root / "tinytorch", quiet=1)  # as it is after the first import
    return root


def large_module(root: Path) -> list[float]:
    """Grade the solved notebook of Module 14, several times."""
    module = find_module(root, "profiling")
    module.notebook.write_text(dumps(solution_notebook(module)), encoding="utf-8")
    seconds = []
    for _ in range(LARGE):
        took, done = tito(root, "test", "profiling", "--json")
        said = json.loads(done.stdout)
        if done.returncode:
            raise SystemExit(f"tito test profiling: {said['score']} points; tests: {said['tests']}")
        seconds.append(took)
    return seconds


def hand_in(root: Path, folder: Path, number: int) -> None:
    """Write a submission of Module 03: solved in this student's words, and every third with a mistake in it."""
    nb = solution_notebook(find_module(root, "layers"))
    solved = [cell for cell in nb["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    for cell in solved:
        cell["source"] += f"\n# written by student {number}"
    if number % 3 == 0:
        wrong = solved[number % len(solved)]
        wrong["source"] += f"\nraise ValueError('student {number} stopped here')"
    place = folder / f"student{number:03}"
    place.mkdir(parents=True)
    (place / "layers_dev.ipynb").write_text(dumps(nb), encoding="utf-8")


def grade(root: Path, folder: Path, jobs: int, count: int) -> float:
    """Grade a folder with `tito grade`: seconds."""
    took, done = tito(root, "grade", str(folder), "--jobs", str(jobs), "--json")
    found = json.loads(done.stdout)["submissions"] if done.stdout.startswith("{") else []
    if done.returncode or len(found) != count:
        raise SystemExit(f"tito grade: exit status {done.returncode}, {len(found)} of {count}; {done.stderr[-300:]}")
    return took


def a_class(root: Path, folder: Path) -> tuple[float, float]:
    """Grade single submissions, then a hundred at once: (median seconds of a single one, seconds of all)."""
    singles = []
    for number in range(SINGLES):
        hand_in(root, folder / f"single{number}", number)
        singles.append(grade(root, folder / f"single{number}", 1, 1))
    for number in range(STUDENTS):
        hand_in(root, folder / "class", number)
    return median(singles), grade(root, folder / "class", CORES, STUDENTS)


def asking_for_help(root: Path) -> tuple[list[float], list[str]]:
    """Run `tito --help`: the seconds, and which heavy packages it imported."""
    seconds = [tito(root, "--help")[0] for _ in range(HELP + 1)][1:]  # the first one compiles
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "tito", "--help"], cwd=root, text=True,
                          capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    return seconds, sorted(imported & {"numpy", "jupytext", "nbformat", "pytest", "tinytorch"})


def main(check: bool) -> int:
    """Measure, print the table, return the exit status: 1 when checked and a promise is broken."""
    broken = False

    def line(name: str, value: float, unit: str, promised: float, more: str = "") -> None:
        nonlocal broken
        broken |= value > promised
        said = "BROKEN" if value > promised else ""
        print(f"{name:<44}{value:>8.2f} {unit:<4}{promised:>8g}  {said:<7}{more}".rstrip(), flush=True)

    print(f"{f'on {CORES} cores':<44}{'median':>8} {'':<4}{'at most':>8}")
    with tempfile.TemporaryDirectory() as name:
        root = checkout(Path(name))
        helped, heavy = asking_for_help(root)
        line("tito --help", median(helped), "s", 0.25, f"best {min(helped):.2f}")
        line("heavy packages it imports", len(heavy), "", 0, ", ".join(heavy))
        large = large_module(root)
        line("tito test profiling", median(large), "s", 10, f"best {min(large):.1f}")
        single, together = a_class(root, Path(name) / "handed in")
        line(f"{STUDENTS} submissions / ({STUDENTS} / cores) single ones", together / (STUDENTS / CORES * single), "x",
             1.2, f"{together:.0f} s, a single one {single:.1f} s")
    return int(check and broken)


if __name__ == "__main__":
    raise SystemExit(main("--check" in sys.argv[1:]))
