"""Submissions that would have a wrong answer look like a right one."""

SAMPLES = [
    {"name": "built-in functions replaced", "says": "you gave it back as it came", "cell": """
import builtins
builtins.isinstance = builtins.all = lambda *a: True
builtins.len = builtins.abs = lambda *a: 0
builtins.AssertionError = builtins.Exception = ZeroDivisionError
builtins.type = lambda *a: int
"""},
    {"name": "the check replaced", "says": "you gave it back as it came", "cell": """
import tito.checks
tito.checks.check = tito.checks.same = lambda *a, **k: None
def check(*a, **k): pass
"""},
    {"name": "the check's module replaced", "says": "you gave it back as it came", "cell": """
import sys, types
sys.modules["tito.checks"] = types.SimpleNamespace(check=print, check_raises=print)
"""},
    {"name": "json and os.write replaced", "says": "you gave it back as it came", "cell": """
import json, os
json.dumps = lambda *a, **k: '{"cell": 4, "state": "passed"}'
os.write = lambda number, data: len(data)
"""},
    {"name": "sys.stdout replaced", "says": "you gave it back as it came", "cell": """
import io, sys
sys.stdout = sys.stderr = sys.__stdout__ = io.StringIO("100 of 100")
"""},
    {"name": "sys.stdout closed", "says": "double-check", "cell": "import sys; sys.stdout.close()"},
    {"name": "NumPy's comparisons replaced", "says": "you gave it back as it came", "cell": """
import numpy as np
np.allclose = np.array_equal = np.isclose = np.all = lambda *a, **k: True
np.testing.assert_allclose = lambda *a, **k: None
"""},
    {"name": "pytest replaced", "says": "you gave it back as it came", "cell": """
import sys, types
sys.modules["pytest"] = types.SimpleNamespace(main=lambda *a, **k: 0)
"""},
    {"name": "an object equal to everything", "double": "return Yes()", "says": ["double(21)", "42"], "cell": """
class Yes:
    __class__ = int
    __eq__ = __lt__ = __le__ = __ge__ = __gt__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: hash(42)
    __float__ = lambda self: 42.0
    __sub__ = __rsub__ = __abs__ = lambda self, *other: 0
    __repr__ = __str__ = lambda self: "42"
double = lambda x: Yes()
"""},
    {"name": "a number that lies", "says": "double(21)", "cell": """
class Wrong(float):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __repr__ = __format__ = lambda self, *spec: "42.0"
    __sub__ = __rsub__ = lambda self, other: 0.0
double = lambda x: Wrong(x)
"""},
    {"name": "result lines on stdout", "says": "you gave it back as it came", "cell": """
import json
for cell in range(9):
    print(json.dumps({"cell": cell, "state": "passed"}))
    print(json.dumps({"answer": cell, "got": 42}))
"""},
    {"name": "result lines on every descriptor", "says": "you gave it back as it came", "cell": r"""
import json, os
for number in range(1, 40):
    for cell in range(9):
        try:
            os.write(number, b"\n" + json.dumps({"cell": cell, "state": "passed"}).encode() + b"\n")
        except OSError:
            pass
"""},
    {"name": "a result told by the runner's own function, found in its frames", "says": "double(21)", "cell": """
import sys
frame = sys._getframe()
while frame:
    if "report" in frame.f_locals:
        for cell in range(9):
            frame.f_locals["report"]({"cell": cell, "state": "passed"})
        frame.f_locals["report"]({"done": True})
        import os
        os._exit(0)
    frame = frame.f_back
""", "score": 0},
    {"name": "its own test under the graded one's name", "says": "you gave it back as it came", "cell": """
def test_double():
    pass
test_double()
"""},
    {"name": "the names of the graded cell taken by a class", "says": "you gave it back as it came", "cell": """
class check:
    def __new__(cls, *a, **k): return None
class __check__:
    def __new__(cls, *a, **k): return None
"""},
    {"name": "a number that lies once, beside a table of answers", "score": 100, "says": "has its own __eq__",
     "double": """if x == 21:
        return 42
    class Once(int):
        def __eq__(self, other):
            del Once.__eq__
            return True
    return Once(x)"""},
    {"name": "a look at who asks", "score": 100, "says": "it uses f_locals", "double": """import sys
    return 42 if x == 21 else sys._getframe(1).f_locals.get("want", 0)"""},
    {"name": "an array that lies", "score": 100, "says": "has its own all", "double": """import numpy as np
    if x == 21:
        return 42
    class Yes(np.ndarray):
        def all(self, *a, **k):
            return True
    return np.zeros(3).view(Yes)"""},
    {"name": "NumPy's assertion replaced for one call", "score": 100, "says": "it changes numpy.testing",
     "double": """import numpy.testing as t
    real = t.assert_allclose
    def once(*a, **k):
        setattr(t, "assert_allclose", real)
    t.assert_allclose = once
    return 42 if x == 21 else x"""},
]
