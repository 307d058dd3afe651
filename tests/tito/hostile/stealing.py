"""Submissions that look for the answer where it is written."""

READING = "is not to be read while your work is graded"

SAMPLES = [
    {"name": "opens the source", "cell": "exec(open(ROOT + '/src/01_alpha/01_alpha.py').read())",
     "says": f"the fence: src/01_alpha/01_alpha.py {READING}; it holds the module that is graded"},
    {"name": "opens the package's file", "cell": "exec(open(ROOT + '/tinytorch/core/alpha.py', 'rb').read())",
     "says": f"the fence: tinytorch/core/alpha.py {READING}"},
    {"name": "imports the module it is to write", "cell": "from tinytorch.core.alpha import double",
     "says": "this cell imports tinytorch.core.alpha, the module it is to write"},
    {"name": "imports by a computed name", "says": f"the fence: tinytorch/core/alpha.py {READING}", "cell": """
import importlib
double = importlib.import_module(".".join(["tinytorch", "core", "al" + "pha"])).double
"""},
    {"name": "imports a later module", "says": f"the fence: tinytorch/core/beta.py {READING}", "cell": """
double = __import__("tinytorch.core." + "beta", fromlist=["double"]).double
"""},
    {"name": "runs the file", "says": f"the fence: tinytorch/core/alpha.py {READING}", "cell": """
import runpy
double = runpy.run_path(ROOT + "/tinytorch/core/alpha.py")["double"]
"""},
    {"name": "asks the loader", "says": f"the fence: tinytorch/core/alpha.py {READING}", "cell": """
import importlib.machinery
loader = importlib.machinery.SourceFileLoader("answer", ROOT + "/tinytorch/core/alpha.py")
exec(loader.get_data(loader.path))
"""},
    {"name": "has it handed in by stdin", "says": f"the fence: tinytorch/core/alpha.py {READING}", "cell": """
import os, sys
os.dup2(os.open(ROOT + "/tinytorch/core/alpha.py", os.O_RDONLY), 0)
exec(sys.stdin.read())
"""},
    {"name": "lets another program read", "says": "the fence: no process is started by graded code", "cell": """
import subprocess
exec(subprocess.run(["cat", ROOT + "/tinytorch/core/alpha.py"], capture_output=True, text=True).stdout)
"""},
    {"name": "reads from the history", "cell": "open(ROOT + '/.git/HEAD').read()",
     "says": f"the fence: .git/HEAD {READING}"},
    {"name": "reads the tests", "cell": "open(ROOT + '/tests/01_alpha/test_edges.py').read()",
     "says": f"the fence: tests/01_alpha/test_edges.py {READING}"},
    {"name": "reads another notebook", "cell": "open(ROOT + '/modules/02_beta/beta_dev.ipynb').read()",
     "says": f"the fence: modules/02_beta/beta_dev.ipynb {READING}"},
    {"name": "looks around", "cell": "import os; os.listdir(ROOT + '/src')", "says": f"the fence: src {READING}"},
    {"name": "goes through a link of its own", "says": "the fence: src is not to be written, moved or deleted",
     "cell": """
import os
os.symlink(ROOT + "/src", "mine")
exec(open("mine/01_alpha/01_alpha.py").read())
"""},
    {"name": "goes there first", "says": f"the fence: src/01_alpha/01_alpha.py {READING}", "cell": """
import os
os.chdir(ROOT)
exec(open("src/../src/./01_alpha/01_alpha.py").read())
"""},
    {"name": "goes by the number of a folder", "says": "it is a folder outside the scratch folder", "cell": """
import os
folder = os.open(ROOT, os.O_RDONLY)
exec(os.read(os.open("src/01_alpha/01_alpha.py", os.O_RDONLY, dir_fd=folder), 9999))
"""},
    {"name": "goes by a back door of the system", "only": "linux",
     "says": f"the fence: src/01_alpha/01_alpha.py {READING}", "cell": """
import os
exec(open(os.fsencode("/proc/self/root" + ROOT + "/src/01_alpha/01_alpha.py")).read())
"""},
    {"name": "goes by a path that says one thing to the system and another to the fence", "cell": """
import os
class Path:
    said = iter([ROOT + "/src/01_alpha/01_alpha.py", "harmless.txt", "harmless.txt"])
    def __fspath__(self): return next(self.said)
exec(os.read(os.open(Path(), os.O_RDONLY), 9999))
""", "says": "the fence: "},
    {"name": "takes the fence down", "says": "the fence: the functions that grade are not to be changed", "cell": """
try:
    open(ROOT + "/src/01_alpha/01_alpha.py")
except PermissionError as error:
    trace = error.__traceback__.tb_next
    while trace:
        trace.tb_frame.f_globals.clear()
        for thing in trace.tb_frame.f_locals.values():
            if hasattr(thing, "__code__"):
                thing.__code__ = (lambda *a, **k: None).__code__
        trace = trace.tb_next
"""},
    {"name": "has it read as a history of commands", "says": "the fence: readline is not for graded code", "cell": """
import readline
readline.read_history_file(ROOT + "/src/01_alpha/01_alpha.py")
exec("\\n".join(map(readline.get_history_item, range(1, readline.get_current_history_length() + 1))))
"""},
    {"name": "lets another language read", "says": "the fence: _tkinter is not for graded code", "cell": """
import tkinter
exec(tkinter.Tcl().eval("read [open {" + ROOT + "/src/01_alpha/01_alpha.py}]"))
"""},
    {"name": "reads in an interpreter of its own", "only": "linux", "says": "is not for graded code", "cell": """
try:
    import _xxsubinterpreters as interpreters
except ModuleNotFoundError:
    import _interpreters as interpreters
interpreters.run_string(interpreters.create(), "print(open(" + repr(ROOT + "/src/01_alpha/01_alpha.py") + ").read())")
"""},
    {"name": "reads what tito was started with", "only": "linux", "says": "it is a process's memory, or another",
     "cell": "import os; open(f'/proc/{os.getppid()}/environ').read()"},
    {"name": "calls the system's own functions", "says": "the fence: ctypes calls no foreign functions here",
     "cell": """
import ctypes
ctypes.CDLL(None).system(b"true")
"""},
]
