"""A small checkout of two modules, in a path with a space and letters beyond ASCII, to build and grade."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tito.project import Module, find_module

HERE = Path(__file__).resolve().parents[2]

PYPROJECT = """[project]
name = "tinytorch"
version = "0"

[tool.nbdev]
lib_path = "tinytorch"
nbs_path = "modules"
allowed_metadata_keys = ["tinytorch"]
allowed_cell_metadata_keys = ["nbgrader", "tinytorch"]

[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
"""

HEAD = """# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

"""

ALPHA = HEAD + '''# %% [markdown]
"""
# 01 · Alpha
Numbers that double.
"""

# %%
#| default_exp core.alpha

# %% [markdown]
"""
## 1. Twice
"""

# %% nbgrader={"grade": false, "grade_id": "double", "solution": true}
#| export
def double(x):
    """Return twice ``x``."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %%
print("twice 3 is", double(3))

# %% nbgrader={"grade": true, "grade_id": "double-check", "points": 60, "skill": "doubling"}
from tito.checks import check
def test_double():
    """A number doubles."""
    check("double(21)", double(21), 42, {441: "you squared it", 21: "you gave it back as it came"})
test_double()

# %% [markdown]
"""
## 2. Half
"""

# %% nbgrader={"grade": false, "grade_id": "half", "solution": true}
#| export
def half(x):
    """Return half of ``x``."""
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "half-check", "points": 40, "skill": "halving"}
from tito.checks import check
def test_half():
    """Half of a number."""
    check("half(5)", half(5), 2.5, {2: "whole-number division"})
test_half()
'''

BETA = HEAD + '''# %% [markdown]
"""
# 02 · Beta
Four times.
"""

# %%
#| default_exp core.beta

# %%
#| export
from tinytorch.core.alpha import double

# %% [markdown]
"""
## 1. Fourfold
"""

# %% nbgrader={"grade": false, "grade_id": "fourfold", "solution": true}
#| export
class Fourfold:
    """Multiplies by four."""

    def forward(self, x):
        """Return four times ``x``."""
        ### BEGIN SOLUTION
        return double(double(x))
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "fourfold-check", "points": 100, "skill": "fourfold"}
from tito.checks import check
def test_fourfold():
    """Four times a number."""
    check("Fourfold on 3", Fourfold().forward(3), 12, {6: "doubled once"})
test_fourfold()
'''

ALPHA_TESTS = '''"""Edges of alpha."""

import pytest

from tinytorch.core.alpha import double, half


@pytest.mark.parametrize("number", [0, -1, 2**40])
def test_double_then_half(number):
    """Half of twice a number is the number."""
    assert half(double(number)) == number


def test_text_cannot_be_halved():
    """Half of a text is an error."""
    with pytest.raises(TypeError):
        half("a")
'''


MORE = HEAD + '''# %% [markdown]
"""
# 01 · More of alpha
Numbers that grow further.
"""

# %%
#| default_exp core.more

# %%
#| export
from tinytorch.core.alpha import double

# %% [markdown]
"""
## 1. Four and eight times
"""

# %% nbgrader={"grade": false, "grade_id": "quadruple", "solution": true}
#| export
def quadruple(x):
    """Return four times ``x``."""
    ### BEGIN SOLUTION
    return double(double(x))
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "quadruple-check", "points": 0, "skill": "fourfold"}
from tito.checks import check
def test_quadruple():
    """Twice twice."""
    check("quadruple(3)", quadruple(3), 12, {9: "you squared it"})
test_quadruple()

# %% nbgrader={"grade": false, "grade_id": "octuple", "solution": true}
#| export
def octuple(x):
    """Return eight times ``x``."""
    ### BEGIN SOLUTION
    return 2 * quadruple(x)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "octuple-check", "points": 0, "skill": "eightfold"}
from tito.checks import check
def test_octuple():
    """Twice more."""
    check("octuple(3)", octuple(3), 24)
test_octuple()
'''
MORE_TESTS = '''"""Edges of more."""

from tinytorch.core.alpha import half
from tinytorch.core.more import quadruple


def test_nothing_stays_nothing():
    """Four times nothing."""
    assert quadruple(0) == half(0) == 0
'''


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built checkout to copy from."""
    from tito.notebooks.build import build

    root = tmp_path_factory.mktemp("template") / "Zürich tests"
    files = {"pyproject.toml": PYPROJECT, "src/01_alpha/01_alpha.py": ALPHA, "src/02_beta/02_beta.py": BETA,
             "tests/01_alpha/test_edges.py": ALPHA_TESTS, "tinytorch/__init__.py": '"""A package."""\n',
             "tinytorch/core/__init__.py": '"""Its core."""\n'}
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    build(root)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """A checkout of this test's own."""
    return Path(shutil.copytree(template, tmp_path / "Zürich tests"))


@pytest.fixture
def alpha(root: Path) -> Module:
    """Module 01 of the small checkout."""
    return find_module(root, "alpha")


@pytest.fixture
def more(root: Path) -> Module:
    """The small checkout with a bonus notebook in the folder of module 01, built."""
    from tito.notebooks.build import build

    for name, text in (("src/01_alpha/01_more.py", MORE), ("tests/01_more/test_more.py", MORE_TESTS)):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8", newline="\n")
    build(root, ["more"])
    return find_module(root, "more")


@pytest.fixture
def tito(root: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `tito` with these words in a process of its own, in the small checkout unless ``cwd`` says otherwise."""
    def run(*words: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONIOENCODING": "utf-8", **more}
        return subprocess.run([sys.executable, "-m", "tito", *words], cwd=cwd or root, env=environment, text=True,
                              encoding="utf-8", stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
    return run


@pytest.fixture
def write_in() -> Callable[..., None]:
    """Write answers into a notebook: grade_id -> what stands in place of the cell's ``raise NotImplementedError``."""
    def write(file: Path, **answers: str) -> None:
        nb = json.loads(file.read_text(encoding="utf-8"))
        for cell in nb["cells"]:
            answer = answers.get(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
            if answer is not None:
                source = "".join(cell["source"])
                cell["source"] = re.sub(r"raise NotImplementedError.*", lambda stub, answer=answer: answer, source)
        file.write_text(json.dumps(nb), encoding="utf-8")
    return write


@pytest.fixture
def snapshot(root: Path) -> Callable[[], dict[str, bytes]]:
    """Read every file of the small checkout."""
    def read() -> dict[str, bytes]:
        files = (file for file in sorted(root.rglob("*")) if file.is_file())
        return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}
    return read
