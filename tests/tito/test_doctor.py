"""`tito doctor`: each check can fail, says what to do, and changes nothing that it was not told to."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tito import doctor

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def line(root, monkeypatch, tmp_path):
    """Return what doctor says about one thing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def find(about: str, fix: bool = False) -> dict:
        result = doctor.examine(root, fix)
        assert result["ok"] == all(one["ok"] for one in result["checks"])
        return next(one for one in result["checks"] if one["about"] == about)
    return find


PYPROJECT = '''[project]
name = "tinytorch"
requires-python = ">=3.10"
dependencies = ["numpy>=2.0", "click>=8.1"]
[project.optional-dependencies]
notebook = ["nbdev==3.3.26", "old-one>=2; python_version < '3.8'", "jupyterlab>=4.2"]
'''


def test_all_is_well(root, tito, tmp_path):
    """In this environment, for a checkout that has all it needs: exit status 0."""
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (root / "tests/02_beta").mkdir()
    (root / "tests/02_beta/test_it.py").touch()
    (root / "tinytorch/perf").mkdir()
    (root / "tinytorch/perf/profiling.py").write_text(
        "from pathlib import Path\ndef _cache_file(): return Path('/dev/null/cache/file')\n", encoding="utf-8")
    done = tito("doctor", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout
    for part in ("All is well.", "numpy, click, nbdev, jupyterlab: the versions that are wanted", "NumPy",
                 "limits are measured anew each time"):
        assert part in " ".join(done.stdout.split())
    assert "old-one" not in done.stdout
    assert len(done.stdout.splitlines()) < 24, "one screen"
    result = json.loads(tito("doctor", "--json", TMPDIR=str(tmp_path)).stdout)
    assert "(pinned: 3.3.26)" in next(one["found"] for one in result["checks"] if one["about"] == "nbdev")
    assert result["ok"] and {"about", "ok", "found", "todo", "installed"} == set(result["checks"][0])


def test_versions(root, line, monkeypatch):
    """Missing, too old, not the pinned one."""
    (root / "pyproject.toml").write_text(PYPROJECT.replace(">=8.1", ">=99.1").replace("3.3.26", "3.3.25").replace(
        "numpy>", "not-there-at-all>").replace(">=3.10", ">=3.99"), encoding="utf-8")
    said = {one: line(one) for one in ("click", "nbdev", "not-there-at-all", "Python")}
    assert not any(one["ok"] for one in said.values())
    assert all(one["todo"] for one in said.values())
    assert f"{metadata.version('click')} (wanted: 99.1 or newer)" == said["click"]["found"]


def test_what_is_amiss_keeps_its_own_line(root, tito, tmp_path):
    """The rest of what is installed is told together."""
    (root / "pyproject.toml").write_text(PYPROJECT.replace(">=8.1", ">=99.1"), encoding="utf-8")
    said = tito("doctor", TMPDIR=str(tmp_path)).stdout
    assert "installed" in said and "numpy, nbdev, jupyterlab: the versions" in " ".join(said.split())
    assert re.search(r"✗  click +[\d.]+ \(wanted: 99.1 or newer\)\n +→ ", said), said


def test_the_terminal_is_seen_behind_a_spinner(root, line, monkeypatch):
    """While one turns, rich puts an object without an encoding in the place of stdout."""
    from rich.console import Console
    from rich.file_proxy import FileProxy

    for encoding, said in (("utf-8", "utf-8 shows every sign"), ("ascii", "ascii lacks some signs")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr("sys.stdout", FileProxy(Console(), stream))
        assert line("terminal")["found"].startswith(said)


def test_numpy_missing_is_a_line(root, tito, tmp_path):
    """Not a crash, and exit status 1."""
    (tmp_path / "numpy.py").write_text("raise ImportError('No module named numpy')\n", encoding="utf-8")
    done = tito("doctor", "--json", PYTHONPATH=os.pathsep.join([str(tmp_path), str(HERE)]), TMPDIR=str(tmp_path))
    line = next(one for one in json.loads(done.stdout)["checks"] if one["about"] == "BLAS")
    assert (done.returncode, line["ok"]) == (1, False)
    assert "No module named numpy" in line["found"]
    assert "`pip install --force-reinstall numpy threadpoolctl`" in line["todo"], "pip thinks that it is there"
    (tmp_path / "numpy.py").write_text("import os\nos._exit(3)\n", encoding="utf-8")
    done = tito("doctor", "--json", PYTHONPATH=os.pathsep.join([str(tmp_path), str(HERE)]), TMPDIR=str(tmp_path))
    assert "ended with status 3" in done.stdout


def test_the_checkout(root, alpha, line):
    """A package file edited by hand, one that is gone, a notebook that cannot be read, tests that are gone."""
    for about in ("package", "notebooks", "modules/", "tinytorch/", "src/"):
        assert line(about)["ok"], about
    assert line("tests") | {"todo": ""} == {"about": "tests", "ok": False, "found": "missing for 02_beta", "todo": "",
                                            "installed": False}
    alpha.package.write_text("x = 1\n", encoding="utf-8")
    (root / "tinytorch/core/beta.py").unlink()
    alpha.notebook.write_text("{", encoding="utf-8")
    assert line("package")["found"] == "alpha (edited by hand), beta (missing)"
    assert "tito module reset alpha --package" in line("package")["todo"]
    assert line("notebooks")["found"] == "alpha (unreadable)"
    assert "tito module status alpha" in line("notebooks")["todo"]


@pytest.mark.skipif(os.name == "nt", reason="a folder that is a file")
def test_where_nothing_can_be_written(root, line):
    """Found by trying, so it holds for root too."""
    (root / "modules").rename(root / "elsewhere")
    (root / "modules").symlink_to("/proc")
    assert not line("modules/")["ok"]


def test_leftovers_are_deleted_only_when_asked(root, line, tmp_path):
    """Old ones of ours: not what may still be being written, not other people's files."""
    folder, scratch = root / "modules/01_alpha", tmp_path / "tito-abcd1234"
    old, new, other = (folder / name for name in (".a.ipynb.x1.tito-tmp", ".a.py.x2.tito-tmp", ".a.ipynb.mine"))
    for file in (old, new, other):
        file.write_text("half", encoding="utf-8")
    (scratch / "inner").mkdir(parents=True)
    for path in (old, other, scratch):
        os.utime(path, (1, 1))
    assert not line("leftovers")["ok"]
    assert old.exists() and scratch.exists()
    assert line("leftovers", fix=True)["found"] == "deleted 2 temporary files and folders of killed runs"
    assert [path.exists() for path in (old, scratch, new, other)] == [False, False, True, True]
    assert line("leftovers")["ok"]


def test_a_kernel_of_another_python_is_named(root, line, monkeypatch, tmp_path):
    """Notebooks would run where nothing is installed."""
    assert line("kernel")["ok"]
    file = tmp_path / "kernels/python3/kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"argv": ["/opt/other/bin/python", "-m", "ipykernel_launcher"]}), encoding="utf-8")
    monkeypatch.setattr("jupyter_core.paths.jupyter_path", lambda *parts: [str(tmp_path.joinpath(*parts))])
    said = line("kernel")
    assert not said["ok"]
    assert "/opt/other/bin/python" in said["found"] and str(file.parent) in said["todo"]
    file.write_text(json.dumps({"argv": [sys.executable]}), encoding="utf-8")
    assert line("kernel")["ok"]


def test_a_check_that_stumbles_hides_no_other(root, line):
    """A pyproject that is no TOML."""
    (root / "pyproject.toml").write_text("[project\n", encoding="utf-8")
    assert not line("python")["ok"]
    assert line("terminal")["ok"]
