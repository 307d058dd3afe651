"""Nothing leans forward: each module's tests pass where every later module is absent.

A bonus notebook is part of its module: it is there when the module is, and its tests need no later one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tito.project import find_root, modules

ROOT = find_root(Path(__file__))
MODULES = modules(ROOT)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.label)
def test_the_tests_pass_with_later_modules_absent(module, tmp_path):
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tinytorch", tmp_path / "tinytorch", ignore=ignore)
    shutil.copytree(module.tests, tmp_path / "tests" / module.label, ignore=ignore)
    for file in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "tinytorch" / "zoo.py").unlink()  # builds on all modules
    for later in MODULES:
        if later.number > module.number:
            (tmp_path / later.package.relative_to(ROOT)).unlink()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "-q", "-x", "-p", "no:cacheprovider"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": ""}, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert f"{tmp_path}" in subprocess.run(
        [sys.executable, "-c", "import tinytorch; print(tinytorch.__file__)"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True).stdout
