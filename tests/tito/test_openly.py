"""What answers a test without the right answer stands in the exported text; honest work never holds it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pluggy
import pytest

from tito.grading.openly import trick
from tito.grading.tamper import Watch
from tito.project import find_module, modules

HERE = Path(__file__).resolve().parents[2]
TABLES = sorted((HERE / "tests" / "mutants").glob("m[0-9]*.py"))

TRICKS = {
    "class A(int):\n    def __eq__(self, other): return True": "the class A, a kind of int, has its own __eq__",
    "def f():\n    class A(float):\n        __lt__ = lambda *a: True": "a kind of float, has its own __lt__",
    "class A(float): pass\nclass B(A):\n    def __rsub__(self, a): return 0": "B, a kind of float, has its own",
    "number = float\nclass A(number):\n    def __abs__(self): return 0": "a kind of float, has its own __abs__",
    "class A(type(1)):\n    def __eq__(self, other): return True": "a kind of what type(1) is",
    "kind = [float][0]\nclass A(kind):\n    def __eq__(self, other): return True": "a kind of what kind is",
    "a = object\na = float\nclass A(a):\n    def __eq__(self, other): return True": "a kind of what a is",
    "class A(list):\n    def __eq__(self, other): return True": "a kind of list, has its own __eq__",
    "import numpy as np\nclass A(np.ndarray):\n    def __array_ufunc__(self, *a): pass": "a kind of numpy.ndarray",
    "from numpy import float64 as F\nclass A(F):\n    def __bool__(self): return True": "a kind of numpy.float64",
    "from tinytorch.core.tensor import Tensor\nclass A(Tensor):\n    data = property(lambda s: 0)": "has its own data",
    "x = type('A', (int,), {'__eq__': lambda *a: True})": "made by type(), a kind of int",
    "class A(int): pass\nA.__eq__ = lambda *a: True": "it changes __eq__",
    "class A(int): pass\nsetattr(A, '__eq__', lambda *a: True)": "it changes __eq__",
    "from tinytorch.core.tensor import Tensor\nTensor.__eq__ = lambda *a: True": "it changes __eq__",
    "from tinytorch.core.tensor import Tensor\nTensor.data = 0": "it changes data of Tensor",
    "import numpy as np\nnp.allclose = lambda *a: True": "it changes numpy",
    "import numpy as np\nnp.testing.assert_equal = print": "it changes numpy.testing",
    "import numpy as np\nt = np.testing": "it hands on the module numpy.testing",
    "import sys as s\ns._getframe()": "it uses sys._getframe (s._getframe())",
    "from sys import _getframe as f": "it uses sys._getframe",
    "import sys\ngetattr(sys, '_get' + 'frame')": "it hands on the module sys",
    "import inspect\ninspect.stack()": "it uses inspect.stack",
    "import gc\ngc.get_objects()": "it uses gc.get_objects",
    "try: pass\nexcept Exception as e: e.__traceback__.tb_frame": "tb_frame",
    "import sys\nsys.modules['pytest']": "it uses sys.modules",
    "import _pytest.python": "it imports _pytest.python",
    "from unittest import mock": "it imports unittest.mock",
    "import pytest\npytest.approx = print": "it changes pytest",
    "import importlib\nimportlib.import_module('pytest')": "it uses importlib.import_module",
    "exec('x = 1')": "it calls exec()",
    "vars()['__builtins__']": "it names __builtins__ in a string",
}
HONEST = '''
import gc, inspect, re, sys
from collections import namedtuple
from re import compile
from typing import NamedTuple
import numpy as np
import pytest
from tinytorch.core.tensor import Tensor

class Number:
    """Has its own __eq__ and no _getframe."""
    def __eq__(self, other): return self.value == other.value
    def __bool__(self): return True
    def __len__(self): return 3

Number.__lt__ = lambda self, other: self.value < other.value
setattr(Number, "__gt__", lambda self, other: self.value > other.value)

class Bytes(int):
    def __add__(self, other): return Bytes(int(self) + other)
    def __str__(self): return f"{int(self)} B"

class Vocabulary(dict):
    def __missing__(self, key): return 0
    def __contains__(self, key): return True

class Row(NamedTuple):
    a: int
    def total(self): return self.a

class Point(namedtuple("Point", "x y")):
    def __lt__(self, other): return self.x < other.x

class Parameter(Tensor):
    def __init__(self, data): super().__init__(data, requires_grad=True)

class Layer:
    def eval(self): return self
    def stack(self, modules): return np.stack([m.data for m in modules])

Tensor.relu = lambda self: self
Tensor.data_of = 3
x = Tensor([1.0])
x.data = x.data + 1
pattern, other = compile("a"), re.compile("b")
gc.collect(), inspect.signature(print), sys.getsizeof(3), Layer().eval()
if "IPython" in sys.modules: print("in a notebook")
def test(gc=True):
    np.testing.assert_allclose([1.0], [1.0])
    with pytest.raises(ValueError): int("a")
    return type("Op", (Layer,), {"n": 3}) if gc else type(x)(3)
'''


@pytest.mark.parametrize("text", TRICKS)
def test_a_trick_is_named(text):
    """With its line, wherever it stands."""
    assert TRICKS[text] in trick(f'"""A file."""\n\n{text}\n')


def test_honest_work_is_no_trick():
    """Neither what looks a little like one, nor the course's own work."""
    assert trick(HONEST) == ""
    assert trick("x = = 1") == ""
    assert {module.label: trick(module.package.read_text(encoding="utf-8")) for module in modules(HERE)} == {
        module.label: "" for module in modules(HERE)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_right_solutions_written_differently_are_no_trick(table):
    """Of all modules."""
    assert find_module(HERE, table.stem[4:])
    found = {row["name"]: trick(row["code"]) for row in runpy.run_path(str(table))["RIGHT"]}
    assert found and not any(found.values())


def test_a_hook_that_is_there_for_one_test_is_remembered():
    """The glance after the test before it sees it, though it is gone at the end."""
    class Spec:
        @pluggy.HookspecMarker("sample")
        def say(self): ...

    class Mine:
        @pluggy.HookimplMarker("sample")
        def say(self): return 1

    manager, mine, watch = pluggy.PluginManager("sample"), Mine(), Watch()
    manager.add_hookspecs(Spec)
    watch.hooks(manager, frozenset())
    manager.register(mine)
    watch.glance()
    manager.unregister(mine)
    assert any("hooked into pytest's say" in one for one in watch.look())
