"""Limits of a child: each is said, and nothing that it started stays, wherever it went. No fence here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tito.grading import limits
from tito.grading.family import Family

HERE = Path(__file__).resolve().parents[2]
MARK = "TITO_LIMITS_TEST"


def run(source: str, timeout: float = 60, **more: Any) -> limits.Ended:
    """Run one cell, without a fence."""
    job = {"cells": [{"source": source, "label": "cell", "graded": False, "refused": ""}]}
    return limits.run(job, timeout=timeout, root=HERE, **more)


@pytest.fixture
def strays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Count what was started by this test and still runs."""
    monkeypatch.setenv(MARK, str(tmp_path))

    def count() -> int:
        found = 0
        for process in psutil.process_iter():
            try:
                found += process.environ().get(MARK) == str(tmp_path) and process.status() != psutil.STATUS_ZOMBIE
            except psutil.Error:
                continue
        return found
    return count


def test_too_many_processes_are_counted_said_and_ended(strays):
    """Those in the group, and those that left it."""
    ended = run("import subprocess, sys, time\n"
                "sleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
                "all = [subprocess.Popen(sleep, start_new_session=i % 2) for i in range(20)]\ntime.sleep(60)")
    assert ended.how.startswith("stopped: it ran ") and ended.how.endswith("processes at once, and 16 are allowed")
    assert ended.seconds < 50
    assert strays() == 0


@pytest.mark.skipif(os.name == "nt", reason="sessions")
def test_whoever_left_the_group_and_lost_its_parent_is_found(strays):
    """A daemon is known by its environment."""
    ended = run("import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n"
                "    os._exit(0)\nos.wait()\nopen('done', 'w')")
    assert (ended.how, strays()) == ("exit status 0", 0)


def test_nobody_else_is_ended():
    """A process of the same user that was there before, and one that came meanwhile."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleep) as before:
        family = Family("/nowhere")
        with subprocess.Popen(sleep) as child, subprocess.Popen(sleep) as meanwhile:
            family.begin(child.pid)
            assert family.look() == 1
            family.child = 0 if os.name == "nt" or os.getpgid(child.pid) != child.pid else child.pid
            family.end()
            assert child.wait(10) != 0
            assert (before.poll(), meanwhile.poll()) == (None, None)
            meanwhile.kill()
        before.kill()


def test_output_is_limited_however_fast_it_comes():
    """The end is never reached, so nothing depends on who is faster."""
    ended = run(f"import os\nfor _ in range({limits.PRINTED >> 16} + 20): os.write(1, b'x' * (1 << 16))")
    assert ended.how == "stopped: it printed more than 50 MB"
    assert not any("cell" in report for report in ended.reports)
    assert len(ended.output) < limits.OUTPUT + 200


def test_memory_of_all_processes_is_limited_together(strays):
    """Each of them stays below, so no limit of one process's address space stops it."""
    ended = run("import subprocess, sys, time\nfor _ in range(5):\n    subprocess.Popen([sys.executable, '-c', "
                "'import time; a = bytes([1]) * (250 << 20); time.sleep(60)'])\ntime.sleep(60)", memory=1 << 30)
    assert ended.how == "stopped: it used more than 1 GiB of memory"
    assert strays() == 0


def test_files_are_limited_together():
    """Many small ones count by the disk's blocks."""
    ended = run("import time\nfor i in range(4):\n    with open(str(i), 'wb') as file: file.truncate(200 << 20)\n"
                "time.sleep(60)")
    assert ended.how == "stopped: it wrote more than 512 MiB into its folder"


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_what_left_the_group_ends_too_when_tito_is_killed(strays, tmp_path):
    """Nobody is left to end it but the child itself."""
    program = ("from tito.grading import limits; from pathlib import Path; import sys\n"
               "limits.run({'cells': [{'source': sys.argv[2], 'label': 'cell', 'graded': False, 'refused': ''}]},"
               " timeout=100, root=Path(sys.argv[1]))")
    cell = (f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'],"
            f" start_new_session=True)\nopen({str(tmp_path / 'begun')!r}, 'w').close()\ntime.sleep(100)")
    process = subprocess.Popen([sys.executable, "-c", program, str(HERE), cell], env={
        **os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(tmp_path)})
    end = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while strays() and time.monotonic() < end:
        time.sleep(0.1)
    assert strays() == 0


@pytest.mark.skipif(os.name == "nt", reason="owners")
def test_old_scratch_folders_are_swept_and_young_ones_are_not(tmp_path, monkeypatch):
    """What a killed `tito` left behind goes a day later."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("tito-old", "tito-young", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("", encoding="utf-8")
    for name in ("tito-old", "mine"):
        os.utime(tmp_path / name, (0, 0))
    run("pass")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "tito-young"]


def test_the_child_has_a_copy_of_what_was_measured(tmp_path, monkeypatch):
    """It reads and writes that, and the user's own stays as it is; the profiler looks in the same places."""
    profiling = pytest.importorskip("tinytorch.perf.profiling")
    for variables in ({"TINYTORCH_CACHE": str(tmp_path)}, {"XDG_CACHE_HOME": str(tmp_path)}, {}):
        monkeypatch.delenv("TINYTORCH_CACHE", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert limits.cached_limits() == profiling._cache_file()
    monkeypatch.setenv("TINYTORCH_CACHE", str(tmp_path))
    (tmp_path / "machine_limits.json").write_text('{"a": 1}', encoding="utf-8")
    ended = run("import os; file = os.environ['TINYTORCH_CACHE'] + '/machine_limits.json'\n"
                "print(open(file).read()); open(file, 'w').write('b')")
    assert ended.output == '{"a": 1}\n'
    assert (tmp_path / "machine_limits.json").read_text(encoding="utf-8") == '{"a": 1}'
