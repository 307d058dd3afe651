"""Sealed cells: the child never holds an answer, and the parent judges as `tito.checks` does in place."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tito.checks import LARGEST, CheckFailed, Other, check, check_raises, plain, same
from tito.grading import judge, runner
from tito.grading.answers import decode, encode, reporters
from tito.grading.submission import Submission, mend, read
from tito.notebooks.build import build
from tito.notebooks.read import grader
from tito.notebooks.release import release_notebook, solution_notebook
from tito.project import Module, find_module, modules

HERE = Path(__file__).resolve().parents[2]
Point = namedtuple("Point", "x y")


def judged(source: str, **given: Any) -> CheckFailed | None:
    """Run a graded cell sealed, send what it says through JSON, and return what the judge finds."""
    text, sites = judge.seal(source, itertools.count(1))
    sent: list[dict[str, Any]] = []
    exec(text, {"np": np, **given, **reporters(lambda data: sent.append(json.loads(json.dumps(data))))})
    found = judge.judge(sites, sent)
    assert found or judge.unreached(sites, sent) is None
    return found[1] if found else None


def in_place(source: str, **given: Any) -> CheckFailed | None:
    """Run a graded cell as Jupyter does."""
    try:
        exec(source, {"np": np, "check": check, "check_raises": check_raises, **given})
    except CheckFailed as failed:
        return failed
    return None


# ---- sealing ----

@pytest.mark.parametrize(("call", "sealed"), [
    ('check("é", got, 42)', '__check__(1, "é", got, None)'),
    ('check("a", got, 42, {441: "squared", 21: "as it came"})', '__check__(1, "a", got, None, {})'),
    ('check("a", got, want=(1, -2), mistakes={(3, 4): "x"}, rtol=1e-3)',
     '__check__(1, "a", got, want=None, mistakes={}, rtol=1e-3)'),
    ('check(("ä"), ("ö", got), (7))', '__check__(1, ("ä"), ("ö", got), (None))'),
    ('check("a", got, other(3), {1: "one", f(2): "two", **more, 4: text})',
     '__check__(1, "a", got, other(3), {f(2): 1, **more, 4: text})'),
    ('check("a", got, [[0.0, 1.0],\n [2.0, 3.0]] * 2,\n {1:\n "one"})', '__check__(1, "a", got, None\n,\n {}\n)'),
    ('check_raises("a", ValueError, lambda: f(3), must_say="(2, 3)")',
     '''__check_raises__(1, "a", ValueError, lambda: f(3), must_say='')'''),
    ('x.check("a", 1, 2)', 'x.check("a", 1, 2)'),
])
def test_what_is_sent_to_the_child(call, sealed):
    """Constants are gone, all else stands where it stood."""
    assert judge.seal(call, itertools.count(1))[0] == sealed


@pytest.mark.parametrize(("text", "value"), [
    ("128 * 64 + 64", 8256), ("-10 / 6", -10 / 6), ("[[0.5] * 2] * 2", [[0.5, 0.5], [0.5, 0.5]]),
    ("2**53 + 1", 2**53 + 1),
    ('{"a": (1, None)}', {"a": (1, None)}), ("[np.inf, -np.inf]", [math.inf, -math.inf]), ("not True", False),
    ("b'a'", b"a"), ("[3, *more]", judge.DYNAMIC), ("1 / 0", judge.DYNAMIC), ("f(3)", judge.DYNAMIC),
    ("wanted", judge.DYNAMIC), ('f"{x}"', judge.DYNAMIC), ("np.random.default_rng(3)", judge.DYNAMIC)])
def test_constants(text, value):
    """Numbers, text, tuples, lists, dicts and arithmetic; what has a name of its own is the child's to say."""
    _, (site,) = judge.seal(f'check("a", got, {text})', itertools.count(1))
    assert site.want is value if value is judge.DYNAMIC else (site.want, type(site.want)) == (value, type(value))


def test_constant_arrays():
    """An array of constants is one; NaN is a number."""
    _, (one, two, three) = judge.seal('check("a", got, np.array([[1, 2]]))\ncheck("a", got, np.zeros((2, 0)))\n'
                                      'check("a", got, float("nan"))', itertools.count(1))
    assert (one.want.tolist(), two.want.shape, math.isnan(three.want)) == ([[1, 2]], (2, 0), True)


def test_how_often_a_site_must_be_reached():
    """Loops over what stands there, by length; nothing where it may not be reached at all."""
    _, sites = judge.seal("""
for one in (1, 2):
    for two in range(3):
        check("six times", one, two)
for more in found:
    check("perhaps never", more, 1)
if found:
    check("perhaps", 1, 1)
f = lambda: check("who knows", 1, 1)
with quiet():
    check("once", 1, 1)
def test():
    check("once, too", 1, 1)
test()
""", itertools.count(1))
    assert [(site.what, site.least) for site in sites] == [
        ("six times", 6), ("perhaps never", 0), ("perhaps", 0), ("who knows", 0), ("once", 1), ("once, too", 1)]


def test_lines_of_errors_stay_true():
    """An error below a check of several lines names its own line."""
    text, _ = judge.seal('check("ü",\n      1, [1,\n   2, "ß"], {\n  1: "x",\n})\n\n1 / 0\n', itertools.count(1))
    with pytest.raises(ZeroDivisionError) as error:
        exec(text, {"__check__": lambda *args: None})
    assert error.traceback[-1].lineno + 1 == 7


@pytest.mark.parametrize("module", modules(HERE), ids=lambda module: module.label)
def test_every_graded_cell_of_the_course_is_sealed(module):
    """Each has a check whose answer the child cannot know, and is judged by nothing but checks."""
    for cell in release_notebook(module)["cells"]:
        if not grader(cell).get("grade"):
            continue
        text, sites = judge.seal(cell["source"], itertools.count(1))
        name = grader(cell)["grade_id"]
        assert any(site.constant and site.least and not site.raises for site in sites), name
        assert text.count("\n") == cell["source"].count("\n"), name
        tree = ast.parse(text)
        assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Assert, ast.Try))], name
        assert not {"check", "check_raises"} & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}, name


# ---- both ways alike ----

VALUES: list[Any] = [
    42, 42.0, 0.1 + 0.2, np.float32(0.1), np.int64(42), True, np.True_, None, "a", b"a", 1j, math.nan, math.inf,
    10**400, 10**5000, (1, 2), [1, 2], [1, "a", None], {"a": 1.0}, {(1, 2): [3]}, Point(1, 2), Counter("aab"),
    np.arange(3), np.arange(6.0).reshape(2, 3), np.zeros((0, 3)), np.array(["a"]), np.array([True]),
    np.array([1, None]), {1, 2}, object, np.ones(3, np.float16), range(2), [[1], [1, 2]], "\ud800", np.array(3.0),
    np.ma.array([1.0, 2.0])]
WANTS = [
    "42", "0.3", "0.1", "True", "None", "'a'", "b'a'", "1j", "np.nan", "np.inf", "10**400", "(1, 2)", "[1, 2]",
    "[1, 'a', None]", "{'a': 1}", "{(1, 2): [3]}", "{'a': 2, 'b': 1}", "[0, 1, 2]",
    "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]", "['a']", "[True]", "[1.0, 1.0, 1.0]", "[[1], [1, 2]]", "np.zeros((0, 3))",
    "'\\ud800'", "np.array(3.0)", "[1.0, 2.0]"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_judge_says_what_the_check_says(value):
    """The same verdict in the same words, for every kind of value against every kind of answer."""
    for want in WANTS:
        for answer in (want, "wanted"):  # known to the judge, and known to the child only
            source = f'check("it", got, {answer}, {{42: "the answer", (1, 2): "a pair"}}, rtol=1e-5)'
            given = {"got": value, "wanted": eval(want, {"np": np})}
            assert str(judged(source, **given)) == str(in_place(source, **given)), (value, want)
    assert str(judged('check("it", got, got)', got=1)) == "None"


def test_values_survive_the_way():
    """Kind, shape and every bit; a bool stays one, a text of digits stays text."""
    for value in VALUES:
        read_here, came = plain(value), decode(json.loads(json.dumps(encode(plain(value)))))
        if type(read_here) is Other:
            assert (type(came), came.name, came.text) == (Other, read_here.name, read_here.text)
        elif isinstance(read_here, (np.ndarray, np.generic)):
            assert (came.dtype, came.shape, came.tobytes()) == (read_here.dtype, read_here.shape, read_here.tobytes())
            assert type(came) is type(read_here)
        else:
            assert type(came) is type(read_here)
            assert repr(came) == repr(read_here)


@pytest.mark.parametrize("data", [
    ["numpy", "O", [1], "AAAA"], ["numpy", "<f8", [10**9], ""], ["numpy", "<f8"], ["tuple"], {}, [[]], [],
    ["dict", [[["list", []], 1]]], ["complex", "a"], ["bytes", 3]])
def test_what_nobody_encoded_is_no_value(data):
    """A forged answer is wrong, and no error of the judge's."""
    for want in (1, "a", None, (1,), [1.0], {"a": 1}):
        assert not same(decode(data), want)


def test_large_values_are_not_sent():
    """And say so; both ways alike. What has no size in memory but a huge shape is large, too."""
    huge = np.broadcast_to(np.float32(1), (100_000, 100_000))
    for value in (np.zeros(LARGEST), "a" * LARGEST + "b", [0] * LARGEST, huge):
        source = 'check("it", got, 1)'
        assert "too large" in str(judged(source, got=value))
        assert str(judged(source, got=value)) == str(in_place(source, got=value))
    deep: list[Any] = []
    deep.append(deep)
    assert type(judged('check("it", got, 1)', got=deep)) is CheckFailed


def test_dynamic_mistakes_are_named():
    """Those that only the child can compute, among those that only the judge knows."""
    source = 'check("it", got, 1, {2: "two", twice(3): "six", 4: "four", **{8: "eight"}})'
    for value, text in ((2, "two"), (6, "six"), (4, "four"), (8, "eight"), (5, None)):
        assert judged(source, got=value, twice=lambda x: 2 * x).mistake == text


def test_what_cannot_be_compared_is_the_checks_own_fault():
    """As in place, a TypeError."""
    with pytest.raises(TypeError, match="cannot compare"):
        judged('check("it", 1, want)', want=object())


# ---- check_raises ----

def raising(error: BaseException) -> Any:
    """Return a function that raises."""
    def function() -> None:
        raise error
    return function


class Own(ValueError):
    """A learner's own error."""


@pytest.mark.parametrize(("call", "function", "right"), [
    ('check_raises("it", ValueError, f)', raising(ValueError("a")), True),
    ('check_raises("it", ValueError, f)', raising(Own("a")), True),
    ('check_raises("it", ValueError, f)', raising(KeyError("a")), False),
    ('check_raises("it", LookupError, f)', raising(KeyError("a")), True),
    ('check_raises("it", OSError, f)', raising(FileNotFoundError("a")), True),
    ('check_raises("it", IOError, f)', raising(FileNotFoundError("a")), True),
    ('check_raises("it", Own, f)', raising(Own("a")), True),
    ('check_raises("it", Own, f)', raising(ValueError("a")), False),
    ('check_raises("it", ValueError, f)', lambda: 3, False),
    ('check_raises("it", ValueError, f, must_say="Shape (2,)")', raising(ValueError("the shape (2,)")), True),
    ('check_raises("it", ValueError, f, must_say="size")', raising(ValueError("the shape")), False),
    ('for word in ("a", "b"): check_raises(f"says {word}", ValueError, f, must_say=word)', raising(ValueError("b")),
     False),
])
def test_errors(call, function, right):
    """Judged by the classes of the error and the words in its message, both ways alike."""
    assert str(judged(call, f=function, Own=Own)) == str(in_place(call, f=function, Own=Own))
    assert (in_place(call, f=function, Own=Own) is None) == right


def test_an_error_cannot_say_what_it_is():
    """Not by its name, not by its class's ``==``, not by ``__class__`` or ``__instancecheck__``."""
    class Everything(type):
        __hash__ = None

        def __eq__(cls, other):
            return True

        def mro(cls):
            return type.mro(cls)

    class Named(Exception, metaclass=Everything):
        __module__, __qualname__, __name__ = "builtins", "ValueError", "ValueError"
        __class__ = ValueError

    Named.__name__ = "ValueError"
    for way in (judged, in_place):
        assert way('check_raises("it", ValueError, f)', f=raising(Named("a"))) is not None


def test_stubs_stay_unwritten():
    """A NotImplementedError passes through, whatever error is wanted."""
    for way in (judged, in_place):
        with pytest.raises(NotImplementedError):
            way('check_raises("it", RuntimeError, f)', f=raising(NotImplementedError("half: section 1, cell 2")))


# ---- values that lie ----

class Yes:
    """Equal to everything."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash(42)

    __class__ = int  # type: ignore[assignment]
    __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __eq__

    def __len__(self):
        return 1

    def __iter__(self):
        return iter([self])

    def __array__(self, *args, **more):
        return np.array(42)


class YesInt(int):
    """A number equal to everything."""

    __eq__, __hash__ = Yes.__eq__, Yes.__hash__

    def __int__(self):
        return 42

    __index__ = __float__ = __trunc__ = __int__  # type: ignore[assignment]


class YesFloat(float):
    """A float equal to everything."""

    __eq__, __hash__, __float__ = Yes.__eq__, Yes.__hash__, lambda self: 42.0

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__


class YesText(str):
    """A text equal to everything."""

    __eq__, __hash__, __str__ = Yes.__eq__, Yes.__hash__, lambda self: "a"


class YesList(list):
    """A list that shows other things than it has."""

    __eq__ = Yes.__eq__

    def __iter__(self):
        return iter([1, 2])

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return [1, 2][index]


class YesTuple(tuple):
    """A tuple that shows other things than it has."""

    __eq__, __hash__, __iter__, __len__ = Yes.__eq__, Yes.__hash__, lambda self: iter((1, 2)), lambda self: 2


class YesDict(dict):
    """A dict that shows other things than it has."""

    __eq__ = Yes.__eq__

    def __getitem__(self, key):
        return 1

    def keys(self):
        return {"a": 1}.keys()

    def items(self):
        return {"a": 1}.items()

    def __iter__(self):
        return iter("a")

    def __len__(self):
        return 1


class YesArray(np.ndarray):
    """An array that takes part in no comparison but its own."""

    __eq__ = Yes.__eq__  # type: ignore[assignment]

    def __array_ufunc__(self, *args, **more):
        return np.array(True)

    def __array_function__(self, *args, **more):
        return True

    def view(self, *args):
        return np.array([1.0, 2.0])

    @property
    def shape(self):
        return (2,)

    @property
    def dtype(self):
        return np.dtype(float)

    def tobytes(self, *args):
        return np.array([1.0, 2.0]).tobytes()


class YesType(type):
    """Makes classes that say they are others."""

    __mro__ = (int, object)  # type: ignore[assignment]
    __name__ = "int"  # type: ignore[assignment]
    __eq__, __hash__ = Yes.__eq__, lambda cls: hash(int)

    def __instancecheck__(cls, one):
        return True

    def __subclasscheck__(cls, one):
        return True


class YesObject(metaclass=YesType):
    """Says it is an int."""


@pytest.mark.parametrize("liar", [
    Yes(), YesInt(7), YesFloat(7.0), YesText("b"), YesList([3]), YesTuple([3]), YesDict(b=2),
    np.array([7.0]).view(YesArray), YesObject(), [Yes()], (Yes(),), {"a": Yes()}, {Yes(): 1}, np.full(2, Yes(), object),
    type("YesScalar", (np.float64,), {"__eq__": Yes.__eq__})(7),
    type("YesSmall", (np.float32,), {"__eq__": Yes.__eq__})(7),
    type("YesBytes", (bytes,), {"__eq__": Yes.__eq__})(b"b")], ids=lambda liar: type(liar).__name__)
def test_an_object_equal_to_everything_is_equal_to_nothing(liar):
    """It is read for what it is; both ways alike."""
    for want in [*WANTS, "0.0"]:
        for answer in (want, "wanted"):
            source, given = f'check("it", got, {answer})', {"got": liar, "wanted": eval(want, {"np": np})}
            assert judged(source, **given) is not None, want
            assert in_place(source, **given) is not None, want


def test_what_is_made_of_the_right_value_is_right():
    """A subclass of an honest learner's is the value it is made of."""
    for value, want in ((Point(1, 2), "(1, 2)"), (Counter("aab"), "{'a': 2, 'b': 1}"), (YesInt(42), "42"),
                        (YesText("a"), "'a'"), (YesList([1, 2]), "[1, 2]"), (np.ma.array([1.0, 2.0]), "[1.0, 2.0]")):
        source = f'check("it", got, {want})'
        assert judged(source, got=value) is in_place(source, got=value) is None


# ---- a whole notebook ----

RARE = '''    check("half(2 * rare)", half(1975308643974), 987654321987, {
        987654321986: "one less", 987654321988: "one more"})
'''
SEARCH = '''
    import gc, sys, types
    first = 987654321
    told = lambda text: str(first) + "98" in text
    seen, todo = set(), [*gc.get_objects(), *(frame.f_locals for frame in sys._current_frames().values())]
    frame = sys._getframe()
    while frame:
        todo += [frame.f_locals, frame.f_globals, frame.f_code]
        frame = frame.f_back
    hits = set()
    while todo:
        one = todo.pop()
        if type(one) is int and first * 1000 < one - 900 < first * 1000 + 99:
            hits.add(one)
        elif type(one) is str and told(one) or type(one) is bytes and told(one.decode("latin1")):
            hits.add("a text")
        if id(one) in seen or one is seen or one is todo or one is hits:
            continue
        seen.add(id(one))
        if isinstance(one, types.CodeType):
            todo += [*one.co_consts]
        elif isinstance(one, types.FunctionType):
            todo.append(one.__code__)
        if not isinstance(one, (int, float, str, bytes)):
            todo += gc.get_referents(one)
    print("hits:", sorted(map(str, hits)), len(seen) > 10_000)
    return max((hit for hit in hits if hit != "a text"), default=0) if x > 9 else x / 2'''


def rare(root: Path) -> Module:
    """The small checkout's module 01 with a check that wants a rare number."""
    alpha = find_module(root, "alpha")
    text = alpha.source.read_text(encoding="utf-8")
    alpha.source.write_text(text.replace('    check("half(5)"', RARE + '    check("half(5)"'), encoding="utf-8")
    build(root)
    return find_module(root, "alpha")


def test_the_wanted_number_is_not_in_the_childs_memory(root, write_in):
    """Neither in a frame, nor in any object, nor in a text (source, constants, JSON). In place it is found at once."""
    alpha = rare(root)
    write_in(alpha.notebook, double="return 2 * x", half=SEARCH)
    result = runner.grade_cells(read(alpha), 60)
    assert "hits: [] True" in result["output"]
    assert result["cells"][1]["state"] == "failed"
    cells, _ = mend(read(alpha))
    done = subprocess.run([sys.executable, "-c", "\n".join(cell.source for cell in cells)], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(HERE)}, check=False)
    assert "987654321987" in done.stdout.split("hits:")[1].splitlines()[0]


CHEATS = {
    "another function in its name": "import __main__\n    __main__.__check__ = lambda *a, **k: None\n    return x",
    "equal to everything": "return type('Yes', (int,), {'__eq__': lambda a, b: True, '__hash__': int.__hash__})(x)",
    "answers without the token": "import os\n    for fd in range(3, 30):\n        try:\n            os.write(fd, "
                                 "b'{\"answer\": 1, \"what\": \"\", \"got\": 42}\\n')\n        except OSError:\n"
                                 "            pass\n    return x",
    "a comparison of its own": "import tito.checks as c\n    c._same = c.same = lambda *a: True\n    return x",
    "no comparison": "import tito.checks\n    tito.checks.compare = lambda *a: None\n    return x",
    "builtins replaced": "import builtins\n    builtins.isinstance = lambda *a: True\n    return x",
}


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_a_wrong_answer_stays_wrong(alpha, write_in, cheat):
    """Whatever the function does to the process it is called in."""
    write_in(alpha.notebook, double=cheat, half="return x / 2")
    cell = runner.grade_cells(read(alpha), 60)["cells"][0]
    assert (cell["points"], cell["state"] == "passed") == (0, False)


def test_the_notebook_does_not_tell_the_answers(alpha, write_in):
    """It holds the checks as they were released: no cell can read it, nor its twin."""
    for name in ("alpha_dev.ipynb", "alpha_dev.py"):
        write_in(alpha.notebook, double=f"import sys\n    return 42 if open(sys.path[-1] + '/{name}').read() else 1")
        cell = runner.grade_cells(read(alpha), 60)["cells"][0]
        assert (cell["state"], cell["type"]) == ("error", "PermissionError")
        alpha.notebook.unlink()
        build(alpha.root)


LEAVES = """import sys
    def jump(frame, event, arg):
        if event == "line" and frame.f_code.co_name == "test_double":
            frame.f_lineno += 1
            frame.f_trace = None
            sys.settrace(None)
        return jump
    sys._getframe(1).f_trace = jump
    sys.settrace(jump)
    return 2"""


def test_a_test_left_by_a_jump_is_not_passed(root, write_in):
    """Every site must answer: the check that was jumped over is named."""
    alpha = find_module(root, "alpha")
    text = alpha.source.read_text(encoding="utf-8")
    text = text.replace('    check("double(21)"', '    check("double(1)", double(1), 2)\n    check("double(21)"')
    alpha.source.write_text(text.replace("\ntest_double()", "\n    done = True\ntest_double()"), encoding="utf-8")
    build(root)
    write_in(alpha.notebook, double=LEAVES)
    cell = runner.grade_cells(read(alpha), 60)["cells"][0]
    assert (cell["state"], cell["message"]) == ("failed", "the check 'double(21)' was never reached")


@pytest.mark.parametrize("state", ["timeout", "ended", "error"])
def test_a_check_that_failed_comes_before_how_the_cell_ended(state):
    """In place the cell would have stopped there; the child goes on, into a loop without end or an exit."""
    _, sites = judge.seal('check("double(21)", double(21), 42, {441: "you squared it"})', itertools.count(1))
    cell = {"state": state, "type": state, "message": "it ended so"}
    for came, wanted in ((441, "failed"), (42, state)):
        said = runner._judged(cell, sites, [{"answer": 1, "what": "double(21)", "got": came}])
        assert (said["state"], said.get("mistake")) == (wanted, "you squared it" if came == 441 else None)


def test_a_trace_function_of_the_cells_before_is_off(alpha, write_in):
    """So is one for profiling, and those of new threads; an honest answer counts."""
    write_in(alpha.notebook, double="return 2 * x", half="import sys, threading\n    assert sys.gettrace() is None is "
             "sys.getprofile() and threading._trace_hook is None\n    return x / 2")
    nb = json.loads(alpha.notebook.read_text(encoding="utf-8"))
    nb["cells"].insert(0, {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "execution_count": None,
                           "source": "import sys, threading\ndef bad(*a):\n    raise SystemExit\n"
                           "threading.settrace(bad)\nsys.setprofile(lambda *a: None)\nsys.settrace(lambda *a: None)"})
    alpha.notebook.write_text(json.dumps(nb), encoding="utf-8")
    assert runner.grade_cells(read(alpha), 60)["score"] == 100


def test_a_learners_own_checks_are_ordinary_ones(alpha, write_in):
    """In her own cells they compare; calling a graded test again there changes nothing."""
    write_in(alpha.notebook, double="return 2 * x", half="return x / 2")
    nb = json.loads(alpha.notebook.read_text(encoding="utf-8"))
    for text in ('check("mine", double(2), 5)', "test_double()", "from tito.checks import check\ncheck('too', 4, 4)"):
        nb["cells"].append({"cell_type": "code", "id": f"own{len(text)}", "metadata": {}, "outputs": [],
                            "execution_count": None, "source": text})
    alpha.notebook.write_text(json.dumps(nb), encoding="utf-8")
    result = runner.grade_cells(read(alpha), 60)
    assert result["score"] == 100
    assert [error["message"].splitlines()[0] for error in result["errors"]] == ["mine"]
    assert "✓ too: 4" in result["output"]


# ---- the same points both ways ----

RUN = """
import json, sys, traceback
cells, passed = json.load(sys.stdin), []
names = {"__name__": "__main__", "display": print, "get_ipython": lambda: None}
sys.modules["__main__"].__dict__.update(names)
for source in cells:
    try:
        exec(compile(source, "<cell>", "exec", dont_inherit=True), sys.modules["__main__"].__dict__)
        passed.append(True)
    except BaseException:
        passed.append(False)
print("\\n" + json.dumps(passed))
"""


class Swap(ast.NodeTransformer):
    """Puts the wrong operator or number into a solution, once."""

    pairs = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.MatMult: ast.Mult, ast.Pow: ast.Mult,
             ast.Lt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.NotIn: ast.In, ast.In: ast.NotIn}

    def __init__(self, skip: int):
        """Leave out so many places before the one that is changed."""
        self.skip = skip

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Change the node, if it is its turn."""
        kind = self.pairs.get(type(node))
        if kind is not None:
            self.skip -= 1
            return kind() if self.skip == -1 else node
        return super().generic_visit(node)


def half_right(module: Module, turn: int) -> dict[str, Any]:
    """Return the solved notebook with every third solution spoilt: by one operator, or taken out."""
    nb, released = solution_notebook(module), release_notebook(module)
    number = 0
    for cell, stub in zip(nb["cells"], released["cells"]):
        if grader(cell).get("solution"):
            number += 1
            if number % 3 == turn % 3:
                wrong = ast.unparse(Swap(turn // 3).visit(ast.parse(cell["source"])))
                cell["source"] = wrong if number % 4 else stub["source"]
    return nb


@pytest.mark.parametrize("name", ["layers", "autograd"])
@pytest.mark.parametrize("turn", [None, -1, 1, 2, 4, 5])
def test_in_place_gives_the_same_points(name, turn):
    """Solved, empty and half right: each graded cell passes in both ways or in none."""
    module = find_module(HERE, name)
    nb = (solution_notebook(module) if turn is None else release_notebook(module) if turn == -1 else
          half_right(module, turn))
    submission = Submission(module, "notebook", nb, False)
    cells, _ = mend(submission)
    done = subprocess.run([sys.executable, "-c", RUN], input=json.dumps([cell.source for cell in cells]), text=True,
                          capture_output=True, check=True, timeout=100, env={**os.environ, "PYTHONPATH": str(HERE)})
    passed = [right for right, cell in zip(json.loads(done.stdout.splitlines()[-1]), cells) if cell.graded]
    result = runner.grade_cells(submission, 100)
    assert [cell["state"] == "passed" for cell in result["cells"]] == passed
    assert any(passed) or turn == -1
    assert not all(passed) or turn is None
