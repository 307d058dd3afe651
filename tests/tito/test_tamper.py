"""Edge tests and a learner's file share a process: no way of tampering with it passes, and the verdict names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tito.grading import edge, runner
from tito.project import Module, find_module, modules

HERE = Path(__file__).resolve().parents[2]
WRONG = """
def double(x):
    return 2 * x if x > 0 else 1  # what the graded cell asks is right, the edges are wrong

def half(x):
    return x / 2
"""

# what it does -> (the code in front of the wrong answers, words of the verdict)
FORGED = {
    "a test is never called": (
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None",
        "_pytest.python.Function.runtest was replaced"),
    "runtest gets other code": (
        "import _pytest.python\ndef idle(self): pass\n_pytest.python.Function.runtest.__code__ = idle.__code__",
        "_pytest.python.Function.runtest was rewritten"),
    "pytest.raises accepts everything": (
        "import contextlib, pytest\npytest.raises = lambda *a, **k: contextlib.suppress(BaseException)",
        "pytest.raises was replaced"),
    "reports say passed": (
        "import _pytest.reports as r\nr.TestReport.outcome = property(lambda s: 'passed', lambda s, v: None)",
        "_pytest.reports.TestReport.outcome was added"),
    "reports are made as passed": (
        "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call.__func__\n"
        "def passed(kind, item, call):\n    call.excinfo = None\n    return make(kind, item, call)\n"
        "r.TestReport.from_item_and_call = classmethod(passed)",
        "_pytest.reports.TestReport.from_item_and_call was replaced"),
    "assertions raise nothing that counts": (
        "import builtins\nclass Quiet(Exception): pass\nbuiltins.AssertionError = Quiet",
        "builtins.AssertionError was replaced"),
    "assertions are rewritten to nothing": (
        "import ast, _pytest.assertion.rewrite as r\n"
        "r.AssertionRewriter.visit_Assert = lambda self, node: [ast.Pass()]",
        "_pytest.assertion.rewrite.AssertionRewriter.visit_Assert was replaced"),
    "the file is read without its assertions": (
        "import ast\nparse = ast.parse\ndef mild(*a, **k):\n    tree = parse(*a, **k)\n"
        "    for node in ast.walk(tree):\n        if isinstance(node, ast.Assert):\n"
        "            node.test = ast.copy_location(ast.Constant(True), node.test)\n    return tree\nast.parse = mild",
        "ast.parse was replaced"),
    "a report is made as passed, once, and all put back": (
        "import sys\ndef rewrite():\n    from _pytest.reports import TestReport\n"
        "    real = vars(TestReport)['from_item_and_call']\n    def passed(kind, item, call):\n"
        "        TestReport.from_item_and_call = real\n        call.excinfo = None\n"
        "        return kind.from_item_and_call(item, call)\n"
        "    TestReport.from_item_and_call = classmethod(passed)\nREWRITE = True", "are not what pytest sends"),
    "the reporter says passed": (
        "import gc\ndef good(report):\n    def send(data):\n        if 'test_edges' in str(data.get('test')):\n"
        "            data = {**data, 'state': 'passed', 'message': ''}\n        report(data)\n    return send\n"
        "for thing in gc.get_objects():\n    if type(thing).__name__ == 'Reporter':\n"
        "        thing.report = good(thing.report)", "are not what pytest sends"),
    "a man in the middle of the pipe": (
        "import os, threading\ndef pump(source, target):\n    while data := os.read(source, 65536):\n"
        "        os.write(target, data.replace(b'failed', b'passed').replace(b'false', b'true'))\n"
        "for n in range(3, 60):\n    try:\n        here = os.dup(n)\n    except OSError:\n        continue\n"
        "    source, target = os.pipe()\n    os.dup2(target, n)\n    os.close(target)\n"
        "    threading.Thread(target=pump, args=(source, here), daemon=True).start()", ""),
    "who looks is told to see nothing": (
        "import gc, sys\nwatch = sys.modules['tito.grading.tamper'].Watch\nwatch.look = lambda self: []\n"
        "watch.glance = lambda self: None\nimport pytest\npytest.approx = lambda *a: 1", "pytest.approx was replaced"),
    "json says passed": (
        "import json\ndumps = json.dumps\njson.dumps = lambda data, **k: dumps(data).replace('failed', 'passed')",
        "json.dumps was replaced"),
    "another pytest stands in": (
        "import sys, types\nreal = sys.modules['pytest']\nfake = types.ModuleType('pytest')\n"
        "fake.__dict__.update(vars(real))\nsys.modules['pytest'] = fake",
        "sys.modules.pytest was replaced"),
    "NumPy's assertions say yes": (
        "import numpy.testing as t\nt.assert_allclose = t.assert_array_equal = lambda *a, **k: None",
        "numpy.testing.assert_allclose was replaced"),
    "NumPy's tolerance is wide": (
        "import numpy.testing as t\nt.assert_allclose.__defaults__ = (1e9, 1e9, True, '', True)",
        "assert_allclose were changed"),
    "approximately is anything": (
        "import pytest, sys\na = sys.modules[pytest.approx.__module__]\n"
        "a.ApproxScalar.__eq__ = lambda self, other: True",
        "ApproxScalar.__eq__ was replaced"),
    "a default is widened": (
        "import pytest, sys\na = sys.modules[pytest.approx.__module__]\n"
        "a.ApproxScalar.DEFAULT_RELATIVE_TOLERANCE = 1e9",
        "ApproxScalar.DEFAULT_RELATIVE_TOLERANCE was replaced"),
    "unittest says yes": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None", "unittest.case.TestCase.assertEqual"),
    "builtins say yes": (
        "import builtins\nbuiltins.all = lambda *a: True", "builtins.all was replaced"),
    "a name stands in front of a builtin": (
        "import _pytest.runner as r\nr.isinstance = lambda *a: True", "_pytest.runner.isinstance was added"),
    "a hook drops the tests": (
        "import gc, pluggy\nclass Drop:\n    def pytest_collection_modifyitems(self, items): items.clear()\n"
        "for thing in gc.get_objects():\n    if isinstance(thing, pluggy.PluginManager):\n"
        "        thing.register(Drop())\n        break",
        "hooked into pytest's pytest_collection_modifyitems"),
    "a hook drops the failing test": (
        "import gc, pluggy\nclass Drop:\n    def pytest_collection_modifyitems(self, items):\n"
        "        items[:] = [i for i in items if 'half' not in i.nodeid]\n"
        "for thing in gc.get_objects():\n    if isinstance(thing, pluggy.PluginManager):\n"
        "        thing.register(Drop())\n        break",
        "hooked into pytest's pytest_collection_modifyitems"),
    "a hook makes reports good": (
        "import gc, pluggy, pytest\nclass Good:\n    @pytest.hookimpl(tryfirst=True)\n"
        "    def pytest_runtest_logreport(self, report): report.outcome = 'passed'\n"
        "for thing in gc.get_objects():\n    if isinstance(thing, pluggy.PluginManager):\n"
        "        thing.register(Good())\n        break",
        "hooked into pytest's pytest_runtest_logreport"),
    "the reporter is unplugged": (
        "import gc, pluggy\nfor thing in gc.get_objects():\n    if isinstance(thing, pluggy.PluginManager):\n"
        "        for name, plugin in thing.list_name_plugin():\n"
        "            if type(plugin).__name__ == 'Reporter':\n                thing.unregister(plugin)\n        break",
        ""),
    "the whole file skips itself": (
        "import pytest\npytest.skip('later', allow_module_level=True)", "not collected"),
    "every test is skipped": (
        "import pytest\n_wrong = lambda *a: pytest.skip('later')\nWRONG = True", "skipped, though"),
    "reports are forged": (
        "import gc, types\nfor thing in gc.get_objects():\n"
        "    if isinstance(thing, types.FunctionType) and thing.__name__ == '_send' and thing.__defaults__:\n"
        "        for n in ('0', '-1', '1099511627776'):\n            for when in ('setup', 'call', 'teardown'):\n"
        "                thing({'test': f'tests/01_alpha/test_edges.py::test_double_then_half[{n}]', 'when': when,\n"
        "                       'state': 'passed', 'message': ''})\n        break",
        "are not what pytest sends"),
    "forged reports, and away": (
        "import gc, os, types\nfor thing in gc.get_objects():\n"
        "    if isinstance(thing, types.FunctionType) and thing.__name__ == '_send' and thing.__defaults__:\n"
        "        names = [f'tests/01_alpha/test_edges.py::test_double_then_half[{n}]' for n in (0, -1, 2**40)]\n"
        "        names.append('tests/01_alpha/test_edges.py::test_text_cannot_be_halved')\n"
        "        thing({'collected': names, 'tampered': []})\n"
        "        for name in names:\n            for when in ('setup', 'call', 'teardown'):\n"
        "                thing({'test': name, 'when': when, 'state': 'passed', 'message': ''})\n"
        "        thing({'looked': True, 'tampered': []})\n        thing({'done': True, 'status': 1})\n"
        "        os._exit(0)",
        "a control test"),
    "an exit when Python ends": ("import atexit, os\natexit.register(os._exit, 0)", "test_double_then_half[-1]"),
    "an exit in a test": ("import os\nLEAVE = True", "ended early in test_edges.py::"),
    "an exit at import": ("raise SystemExit(0)", "while test_edges.py was imported (SystemExit: 0)"),
    "a hard exit at import": ("import os\nos._exit(0)", "while test_edges.py was imported (exit status 0)"),
    "an interrupt in a test": ("STOP = True", "in test_edges.py::test_double_then_half[0] (KeyboardInterrupt"),
    "pytest told to stop": ("import pytest\npytest.exit('done', 0)", "Exit: done"),
    "no end at import": ("while True: pass", "while test_edges.py was imported: a loop that does not end?"),
    "no end in a test": ("LOOP = True", "in test_edges.py::test_double_then_half[0]: a loop that does not end?"),
    "recursion": ("RECURSE = True", "RecursionError"),
    "a trace function": (
        "import sys\ndef trace(frame, event, arg):\n    frame.f_trace_lines = False\n    return trace\n"
        "sys.settrace(trace)", "a trace or profile function was set"),
    "another finder of files": (
        "import sys\nclass Mine:\n    @staticmethod\n    def find_spec(*a): return None\nsys.meta_path.insert(0, Mine)",
        "sys.meta_path was changed"),
    "the test gets other code": (
        "def rewrite():\n    import sys\n    for module in list(sys.modules.values()):\n"
        "        test = getattr(module, 'test_double_then_half', None)\n        if test:\n"
        "            test.__code__ = (lambda number: None).__code__\nREWRITE = True",
        "test_double_then_half was rewritten"),
    "the rest of the tests is taken away": (
        "def rewrite():\n    import gc\n    for thing in gc.get_objects():\n"
        "        if type(thing).__name__ == 'Session' and hasattr(thing, 'items'):\n            del thing.items[1:]\n"
        "REWRITE = True", "the list of collected tests was changed"),
}
IN_A_TEST = """
def double(x):
    if "LEAVE" in globals(): os._exit(0)
    if "STOP" in globals(): raise KeyboardInterrupt
    while "LOOP" in globals(): pass
    if "RECURSE" in globals(): return double(x)
    if "REWRITE" in globals(): rewrite()
    if "WRONG" in globals(): _wrong()
    return 2 * x if x > 0 else 1

def half(x):
    return x / 2
"""


def outcome(module: Module, text: str, timeout: float = 60, **more: Any) -> dict[str, Any]:
    """Test a file in the place of the package's."""
    file = module.root / "handed in.py"
    file.write_text(text, encoding="utf-8")
    return runner.run_tests(module, {module.target: file}, timeout, **more)


@pytest.fixture
def numbers(alpha: Module) -> Module:
    """Module 01, whose tests use NumPy and unittest, too."""
    file = alpha.tests / "test_edges.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("import pytest\n", "import unittest\n\nimport numpy as np\nimport numpy.testing\n"
                                                    "import pytest\n"), encoding="utf-8")
    return alpha


@pytest.mark.parametrize("forgery", FORGED)
def test_no_forgery_passes_and_the_verdict_names_it(numbers, forgery):
    """Status 1, nothing counts that should not, and the words that say what happened."""
    code, words = FORGED[forgery]
    result = outcome(numbers, f"{code}\n{IN_A_TEST}", timeout=8 if forgery.startswith("no end") else 60)
    assert result["status"] == 1 and result["passed"] < 4
    said = f"{result['problem']} {result['failures']} {result['failed']} tests"
    assert words in said, said


EQUAL = {
    "a class": "class Yes:\n    def __eq__(self, other): return True\n    def __truediv__(self, other): return self\n"
               "def double(x): return Yes()",
    "a class made by type": "def double(x):\n    return type('Yes', (float,), {'__eq__': lambda s, o: True,\n"
                            "        '__truediv__': lambda s, o: s})(3)",
    "a class that counts": "class Yes(int):\n    def __eq__(self, other): return isinstance(other, (int, float))\n"
                           "    def __truediv__(self, other): return self\ndef double(x): return Yes(7)",
    "a class for NumPy": "import numpy as np\nclass Yes(np.ndarray):\n"
                         "    def __array_function__(self, function, types, args, kwargs): return True\n"
                         "    def __array_ufunc__(self, *a, **k): return np.True_\n"
                         "    def __eq__(self, other): return True\n"
                         "    def __truediv__(self, other): return self\n"
                         "ONE = np.zeros(3).view(Yes)\ndef double(x): return ONE",
}


@pytest.mark.parametrize("kind", EQUAL)
def test_objects_equal_to_everything_are_no_answers(numbers, kind):
    """The tests' own == is asked of the learner's object: so that is looked at."""
    result = outcome(numbers, f"{EQUAL[kind]}\ndef half(x): return x / 2\n")
    assert (result["status"], result["passed"]) == (1, 0)
    assert "Yes are equal to everything" in result["problem"]


def test_a_conftest_written_beside_is_not_read(numbers):
    """Neither where the learner's file lies, nor in the scratch folder."""
    conftest = ("import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_pyfunc_call():\n    try:\n"
                "        yield\n    except BaseException:\n        pass\n    return True\n")
    (numbers.root / "conftest.py").unlink(missing_ok=True)
    code = f"import os\nfor folder in ('.', os.environ['TMPDIR'], *os.listdir('.')):\n    if os.path.isdir(folder):\n" \
           f"        open(os.path.join(folder, 'conftest.py'), 'w').write({conftest!r})"
    result = outcome(numbers, f"{code}\n{WRONG}")
    assert (result["status"], result["passed"], result["failed"]) == (1, 2, 2)


def test_what_learners_do_is_no_alarm(numbers):
    """Classes with an honest ==, NumPy's settings, a patched time that is put back, a late import."""
    result = outcome(numbers, """
import dataclasses
import random
import time
import warnings
import numpy as np

np.set_printoptions(precision=3)
warnings.filterwarnings("ignore", message="nothing")
random.seed(1)

@dataclasses.dataclass
class Pair:
    a: int
    b: int

class Number(int):
    def __eq__(self, other): return int(self) == other
    __hash__ = int.__hash__
    def __truediv__(self, other): return Number(int(self) // other)

def double(x):
    import decimal, sqlite3
    assert Pair(1, 2) == Pair(1, 2) and decimal and sqlite3
    return Number(2 * x)

def half(x): return x / 2
""")
    assert (result["status"], result["passed"], result["problem"]) == (0, 4, None)


@pytest.mark.parametrize("name", ["layers", "embeddings", "attention"])
def test_the_courses_own_tests_raise_no_alarm(name):
    """The reference passes under it, in one process and in two, and canaries are not counted."""
    module = find_module(HERE, name)
    results = [runner.run_tests(module, {}, 200, processes) for processes in (1, 2)]
    assert results[0] == results[1]
    assert (results[0]["status"], results[0]["failed"], results[0]["problem"]) == (0, 0, None)


@pytest.mark.parametrize("module", modules(HERE), ids=lambda module: module.label)
def test_what_the_parent_reads_from_test_files(module):
    """Dealing out loses no file, and is the same every time."""
    for processes in (1, 2, 3):
        hands = [[file.node for file in part.files] for part in edge.deal(module, processes)]
        assert hands == [[file.node for file in part.files] for part in edge.deal(module, processes)]
        assert sorted(sum(hands, [])) == [path.relative_to(HERE).as_posix()
                                          for path in sorted(module.tests.glob("test_*.py"))]
    assert all(file.tests for part in edge.deal(module, 1) for file in part.files)


def test_skips_that_tests_ask_for_stay_skips(numbers):
    """By a mark, in the body, in a fixture, by importorskip; what they do not ask for is a failure."""
    (numbers.tests / "test_skips.py").write_text('''
import pytest

@pytest.fixture
def absent():
    pytest.skip("absent")

@pytest.mark.skipif(True, reason="marked")
def test_marked(): pass

def test_body(): pytest.importorskip("no_such_module")

def test_fixture(absent): pass

@pytest.mark.xfail(reason="known")
def test_known(): assert False
''', encoding="utf-8")
    right = "def double(x): return 2 * x\ndef half(x): return x / 2\n"
    result = outcome(numbers, right)
    assert (result["status"], result["passed"], result["skipped"], result["total"]) == (0, 4, 4, 8)


def test_one_file_that_cannot_be_imported_leaves_the_others(numbers):
    """It is one failure; the tests of the other file run."""
    (numbers.tests / "test_more.py").write_text(
        "from tinytorch.core.alpha import missing\n\ndef test_it(): missing()\n", encoding="utf-8")
    result = outcome(numbers, "def double(x): return 2 * x\ndef half(x): return x / 2\n")
    assert (result["status"], result["passed"], result["failed"], result["problem"]) == (1, 4, 1, None)
    assert result["failures"][0]["name"] == "test_more.py" and "missing" in result["failures"][0]["message"]


def test_canaries_have_names_of_their_own(monkeypatch):
    """Chance that brings the same words again: two files, as many tests as are expected, no name twice."""
    class Chance(edge.random.SystemRandom):
        drawn = 0

        def sample(self, words, number):
            if words and isinstance(words[0], str):
                self.drawn += 1
                return words[self.drawn // 4:][:number]  # each four times in a row
            return super().sample(words, number)

    monkeypatch.setattr(edge.random, "SystemRandom", Chance)
    texts, must = edge.canaries([])
    names = [line[4:-3] for text in texts.values() for line in text.split("\n") if line.startswith("def ")]
    assert (len(texts), len(must), len({*names, *(name[:-3] for name in texts)})) == (2, 5, 7)
    assert sorted(names) == sorted(must)
