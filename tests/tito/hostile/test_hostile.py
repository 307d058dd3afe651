"""No submission of the tables beside this file passes that should not, none harms, each gets a verdict that says why.

A sample is an entry of a table: ``cell`` is a cell of the learner's own in front of the first graded one, ``double``
and ``half`` are her answers (a wrong and a right one where nothing is said), ``edit`` changes the notebook, ``raw`` is
the whole file. It earns ``score`` of 100 points (40, which is the right half, where nothing is said), exits with
``exit`` (1), and its verdict holds the words in ``says``. ``ROOT`` and ``HOME`` in it are the checkout and the home.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from tito.errors import TitoError
from tito.grading import runner, verdict

HERE = Path(__file__).parent
TABLES = [file for file in sorted(HERE.glob("*.py")) if not file.name.startswith("test_")]
SAMPLES = [pytest.param(sample, id=f"{file.stem}: {sample['name']}") for file in TABLES
           for sample in runpy.run_path(str(file))["SAMPLES"]]
MARK = "TITO_HOSTILE_SAMPLE"


def test_there_are_enough_samples_and_no_two_of_a_name():
    """At least thirty."""
    assert len({sample.id for sample in SAMPLES}) == len(SAMPLES) >= 30


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_does_not_pass_and_does_not_harm(sample, alpha, root, tmp_path, write_in, monkeypatch, capsys):
    """Points, exit status and words as the table says; not a byte changed, nothing left running or left behind."""
    if sys.platform != sample.get("only", sys.platform):
        pytest.skip(f"only {sample['only']} can limit or refuse this")
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    for folder in (home, scratch):
        folder.mkdir()
    (home / "canary.txt").write_text("as it was\n", encoding="utf-8")
    for name, value in (("HOME", home), ("USERPROFILE", home), ("COLUMNS", 200), (MARK, tmp_path)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    submit(sample, alpha.notebook, write_in, {"ROOT": repr(str(root)), "HOME": repr(str(home))})
    before = everything(tmp_path)
    try:
        result = runner.grade(alpha, timeout=sample.get("seconds", 60))
    except TitoError as error:
        came, status, said = 0, 2, str(error)
        assert len(said.splitlines()) == 1
    else:
        verdict.draw(result)
        came, status, said = result["score"], result["exit_status"], capsys.readouterr().out
    wanted = 0 if "raw" in sample else sample.get("score", 40)
    assert (came, status) == (wanted, sample.get("exit", 1)), said
    for words in [sample["says"]] if isinstance(sample["says"], str) else sample["says"]:
        assert words in " ".join(said.split())
    assert "\x1b" not in said
    assert everything(tmp_path) == before
    assert left_running(str(tmp_path)) == []


def submit(sample: dict[str, Any], notebook: Path, write_in: Any, places: dict[str, str]) -> None:
    """Put a sample into the notebook."""
    if "raw" in sample:
        notebook.write_text(sample["raw"], encoding="utf-8")
        return

    def placed(source: str) -> str:
        for name, path in places.items():
            source = source.replace(name, path)
        return source

    write_in(notebook, double=placed(sample.get("double", "return x")), half=placed(sample.get("half", "return x / 2")))
    nb = json.loads(notebook.read_text(encoding="utf-8"))
    if "cell" in sample:
        place = next(index for index, cell in enumerate(nb["cells"])
                     if cell["metadata"].get("nbgrader", {}).get("grade_id") == "double-check")
        nb["cells"].insert(place, {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [],
                                   "execution_count": None, "source": placed(sample["cell"].strip())})
    sample.get("edit", lambda nb: None)(nb)
    notebook.write_text(json.dumps(nb), encoding="utf-8")


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Read every file below a folder, with its mode; of a folder, its mode."""
    return {path.relative_to(folder).as_posix(): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in folder.rglob("*")}


def left_running(mark: str) -> list[psutil.Process]:
    """Return the processes that were started with this mark in their environment and still run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
