"""The fence: what graded code needs works under it, what it does not need is refused, links and odd paths included."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tito.grading import fence, limits

NEEDS = {
    "a file of its own": "open('a.txt', 'w').write('a'); import os; os.rename('a.txt', 'b'); os.remove('b')",
    "temporary files": "import tempfile\nwith tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile(dir=d), "
                       "tempfile.TemporaryFile() as file:\n    file.write(b'a')",
    "a folder deleted": "import os, shutil; os.makedirs('a/b/c'); open('a/b/c/d', 'w').close(); shutil.rmtree('a')",
    "the null device": "import os; open(os.devnull, 'w').write('a'); os.open(os.devnull, os.O_RDWR)",
    "links among its own files": "import os; open('a', 'w').write('a'); os.symlink('a', 'b')\n"
                                 "assert open('b').read() == 'a'",
    "its own source": "import inspect\ndef f(): return 7\nassert 'return 7' in inspect.getsource(f)",
    "an error's text": "import traceback\ntry: 1 / 0\n"
                       "except ZeroDivisionError: assert '1 / 0' in traceback.format_exc()",
    "metadata": "import importlib.metadata as m; assert m.version('numpy'); list(m.distributions())",
    "threads of the BLAS": "import numpy, threadpoolctl as t\nwith t.threadpool_limits(1): assert t.threadpool_info()",
    "psutil": "import psutil; p = psutil.Process(); p.memory_info(); p.parent(); psutil.cpu_freq(); p.open_files()",
    "NumPy's files": "import numpy as np\nnp.savez('a.npz', a=np.ones(3)); assert np.load('a.npz')['a'].sum() == 3\n"
                     "np.memmap('m', float, 'w+', shape=9)[:] = 1; np.ones(2).tofile('t'); np.ones(2).ctypes.data",
    "matplotlib": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('a.png')",
    "an event loop": "import asyncio\nasync def one(): return 1\nassert asyncio.run(one()) == 1",
    "the platform": "import locale, platform; platform.uname().processor; platform.platform(); locale.getlocale()",
    "a profile": "import cProfile; cProfile.run('1 + 1')",
    "a signal to itself": "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                          "os.kill(os.getpid(), signal.SIGINT)",
    "a function changed": "def f(a): return a\n"
                          "f.__defaults__ = (1,); f.__code__ = (lambda a: 2).__code__; assert f() == 2",
}


def run(alpha: Any, source: str, **more: Any) -> str:
    """Run a cell behind the fence of module alpha; return its error, "" for none."""
    job = {"cells": [{"source": source, "label": "cell", "graded": False, "refused": ""}],
           "fence": fence.around(alpha, **more)}
    ended = limits.run(job, timeout=120, root=alpha.root)
    report = next(report for report in ended.reports if "cell" in report)
    return "" if report["state"] == "passed" else f"{report['type']}: {report['message']}"


@pytest.mark.parametrize("need", NEEDS)
def test_what_graded_code_needs(alpha, need):
    """The standard library, NumPy and the course's packages work."""
    if need == "matplotlib":
        pytest.importorskip("matplotlib")
    if need == "links among its own files" and os.name == "nt":
        pytest.skip("links need rights there")
    assert run(alpha, NEEDS[need]) == ""


def test_what_it_may_read(alpha, tmp_path):
    """The package, tito, its own folder, the settings, and what lies outside of the checkout but for what is denied."""
    ours, others = tmp_path / "ours", tmp_path / "submissions"
    for folder in (ours, others):
        folder.mkdir()
        (folder / "notes.txt").write_text("notes", encoding="utf-8")
    source = f"""
root = {str(alpha.root)!r}
for name in ("pyproject.toml", "tinytorch/__init__.py", "modules/01_alpha/alpha_dev.ipynb"):
    assert open(root + "/" + name).read()
assert open({str(ours / "notes.txt")!r}).read() == "notes"
import os
assert "tinytorch" in os.listdir(root)
open({str(others / "notes.txt")!r})
"""
    assert "other people's work" in run(alpha, source, deny=[others])


def test_copies_of_the_reference_are_the_reference(alpha, tmp_path):
    """Installed beside NumPy, in another checkout, or compiled: it is known by its name."""
    copy = tmp_path / "site-packages" / "tinytorch" / "core" / "alpha.py"
    copy.parent.mkdir(parents=True)
    shutil.copy(alpha.package, copy)
    cache = copy.parent / "__pycache__" / "alpha.cpython-399.opt-1.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"")
    for file in (copy, cache):
        assert "it holds the module that is graded" in run(alpha, f"open({str(file)!r}, 'rb')")
    assert run(alpha, f"open({str(copy.with_name('beta.txt'))!r}, 'w')").startswith("PermissionError: the fence")


def test_a_virtual_environment_inside_the_checkout_is_no_secret(alpha):
    """Python and its packages may lie anywhere."""
    for where in {sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)}:
        rules = {**fence.around(alpha), "root": str(Path(where).parent)}
        rules["read"].append(str(Path(fence.__file__).parents[1]))  # in a checkout it may lie beside the environment
        job = {"cells": [{"source": "import wave, colorsys", "label": "cell", "graded": False, "refused": ""}],
               "fence": rules}
        ended = limits.run(job, timeout=60, root=alpha.root)
        assert [report["state"] for report in ended.reports if "cell" in report] == ["passed"]


def test_the_package_can_be_imported_where_it_imports_the_module_that_is_graded(alpha):
    """For it the module is not there, as where the course is tested up to the one before."""
    (alpha.root / "tinytorch/core/__init__.py").write_text(
        "from importlib.util import find_spec\nif find_spec('tinytorch.core.alpha'):\n"
        "    from tinytorch.core.alpha import double\n", encoding="utf-8")
    assert run(alpha, "import tinytorch.core\nassert not hasattr(tinytorch.core, 'double')") == ""
    assert "ModuleNotFoundError" in run(alpha, "__import__('tinytorch.core.' + 'alpha')")
