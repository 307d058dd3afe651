"""What the site is made with: a copy of the checkout that ends with the build, and nothing of the user's settings.

Kernels import the package from the copy, and it holds the reference where a learner's checkout holds work: so every
checkout makes the same pages, and nothing that a page does is done to the checkout.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

NAMES = ("benchmarks", "milestones", "modules", "scripts", "src", "tests", "tinytorch", "tito", "CONTRIBUTING.md",
         "LICENSE", "Makefile", "README.md", "pyproject.toml", "docs/_data", "docs/_ext", "docs/_kernel")
AWAY = shutil.ignore_patterns(".*", "__pycache__", "_backup", "results")
THEIRS = ("CLICOLOR_FORCE", "FORCE_COLOR", "MATPLOTLIBRC", "MPLBACKEND", "PYTEST_ADDOPTS", "PYTHONSTARTUP",
          "PYTHONWARNINGS", "PY_COLORS")


def folder() -> Path:
    """Make the folder in which the kernels of this build lay what is temporary; it goes when the build does."""
    place = Path(tempfile.mkdtemp(prefix="docs-")).resolve()
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or nothing would be cleared away, and kernels stay
    os.environ["TMPDIR"] = str(place)
    return place


def copy(root: Path, place: Path) -> Path:
    """Copy what the pages need of the checkout."""
    ground = place / "ground"
    (ground / "docs").mkdir(parents=True)
    for name in NAMES:
        if (root / name).is_dir():
            shutil.copytree(root / name, ground / name, ignore=AWAY)
        elif (root / name).is_file():
            shutil.copyfile(root / name, ground / name)
    return ground


def restore(ground: Path) -> list[str]:
    """Make the reference anew where a copy holds something else, and return the modules where it did."""
    from tito.notebooks.build import build, is_release
    from tito.notebooks.export import is_reference
    from tito.project import modules

    others = [module for module in modules(ground) if module.source.is_file() and not (
        module.package.is_file() and is_reference(module.package.read_text(encoding="utf-8", errors="replace"))
        and all(path.is_file() and is_release(path, module) for path in (module.notebook, module.twin)))]
    for module in others:
        for path in (module.package, module.notebook, module.twin):
            path.unlink(missing_ok=True)
    if others:
        build(ground, [module.name for module in others])
    return [module.label for module in others]


def digest(ground: Path) -> str:
    """Return a hash of the copy: where it changes, every page is read and run anew."""
    found = hashlib.sha256()
    for path in sorted(ground.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(str(path.relative_to(ground)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def settings(ground: Path, place: Path) -> None:
    """Set what kernels, and commands that they run, find in their environment."""
    for name in [name for name in os.environ if name in THEIRS or name.startswith(("JUPYTER", "IPYTHON"))]:
        del os.environ[name]
    paths = [str(ground), str(ground / "docs" / "_ext"), os.environ.get("PYTHONPATH")]
    os.environ.update(
        TINYTORCH_ROOT=str(ground), PYTHONPATH=os.pathsep.join(filter(None, paths)),
        PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        IPYTHONDIR=str(ground / "docs" / "_kernel"),  # what kernels start with: profile_default/startup/
        JUPYTER_DATA_DIR=str(place), JUPYTER_CONFIG_DIR=str(place), JUPYTER_RUNTIME_DIR=str(place),
        COLUMNS="80", NO_COLOR="1", PYTHONUTF8="1", PYDEVD_DISABLE_FILE_VALIDATION="1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small products on a busy machine wait for a second thread
