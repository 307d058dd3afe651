"""Nothing leans forward: each module's tests pass where every later module is absent.

A bonus notebook is part of its module: it is there when the module is, and its tests need no later one. A file written
by hand, such as the zoo, is there as soon as all is there that it imports.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tito.notebooks.checks import reach
from tito.project import find_root, modules, target_owners

ROOT = find_root(Path(__file__))
MODULES, OWNERS = modules(ROOT), target_owners(ROOT)


def leaning(number):
    """Return the files of the package that are, or need, a module after ``number``, relative to the checkout."""
    files = [file.relative_to(ROOT) for file in (ROOT / "tinytorch").rglob("*.py") if file.name != "__init__.py"]
    return [file for file in files if any(
        owner.number > number for owner in reach(ROOT, ".".join(file.with_suffix("").parts), OWNERS))]


def test_the_zoo_is_there_from_module_13_on():
    assert [number for number in range(1, 15) if Path("tinytorch/zoo.py") not in leaning(number)] == [13, 14]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.label)
def test_the_tests_pass_with_later_modules_absent(module, tmp_path):
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tinytorch", tmp_path / "tinytorch", ignore=ignore)
    shutil.copytree(module.tests, tmp_path / "tests" / module.label, ignore=ignore)
    for file in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    for file in leaning(module.number):
        (tmp_path / file).unlink()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "-q", "-x", "-p", "no:cacheprovider"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": ""}, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert f"{tmp_path}" in subprocess.run(
        [sys.executable, "-c", "import tinytorch; print(tinytorch.__file__)"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True).stdout
