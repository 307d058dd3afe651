"""Submissions that would harm: the checkout, the home folder, other processes."""

WRITING = "is not to be written, moved or deleted"

SAMPLES = [
    {"name": "deletes the home folder", "cell": "import shutil; shutil.rmtree(HOME)", "says": "the fence: "},
    {"name": "deletes a file at home", "cell": "import os; os.remove(HOME + '/canary.txt')",
     "says": f"home/canary.txt {WRITING}"},
    {"name": "writes over a file at home", "cell": "open(HOME + '/canary.txt', 'w')",
     "says": f"home/canary.txt {WRITING}"},
    {"name": "tries everything on the home folder", "says": "you gave it back as it came", "cell": """
import os, pathlib, sqlite3
canary = HOME + "/canary.txt"
for harm in [lambda: os.open(canary, os.O_WRONLY | os.O_TRUNC), lambda: os.truncate(canary, 0),
             lambda: os.rename(canary, HOME + "/moved"), lambda: os.replace(canary, "mine"),
             lambda: os.link(canary, "mine"), lambda: os.chmod(canary, 0), lambda: os.utime(canary, (0, 0)),
             lambda: os.fchmod(os.open(canary, os.O_RDONLY), 0), lambda: os.mkdir(HOME + "/new"),
             lambda: os.symlink("canary.txt", HOME + "/link"), lambda: os.mkfifo(HOME + "/pipe"),
             lambda: pathlib.Path(HOME, "new").touch(), lambda: open(HOME.encode() + b"/new", "xb"),
             lambda: open("../" * 20 + canary, "a"), lambda: sqlite3.connect(HOME + "/new"),
             lambda: os.removexattr(canary, "user.x"), lambda: os.open(HOME, os.O_RDWR | getattr(os, "O_TMPFILE", 0))]:
    try:
        harm()
    except (OSError, AttributeError):
        pass
"""},
    {"name": "deletes the checkout", "cell": "import shutil; shutil.rmtree(ROOT, ignore_errors=True)",
     "says": "you gave it back as it came"},
    {"name": "deletes its own notebook", "cell": "import os; os.remove(ROOT + '/modules/01_alpha/alpha_dev.ipynb')",
     "says": f"the fence: modules/01_alpha/alpha_dev.ipynb {WRITING}"},
    {"name": "puts a right module into the package", "says": f"the fence: tinytorch/core/alpha.py {WRITING}",
     "cell": """
open(ROOT + "/tinytorch/core/alpha.py", "w").write("double = lambda x: 2 * x\\nhalf = lambda x: x / 2\\n")
"""},
    {"name": "makes the tests easier", "cell": "open(ROOT + '/tests/01_alpha/conftest.py', 'x')",
     "says": f"the fence: tests/01_alpha/conftest.py {WRITING}"},
    {"name": "writes over a file at home as a history of commands", "says": "the fence: readline", "cell": """
import readline
readline.write_history_file(HOME + "/canary.txt")
"""},
    {"name": "leaves memory that outlives it", "only": "linux", "says": "the fence: _posixshmem", "cell": """
from multiprocessing import shared_memory
shared_memory.SharedMemory(create=True, size=10)
"""},
    {"name": "slows tito down", "only": "linux", "says": "AccessDenied", "cell": """
import os, psutil
psutil.Process(os.getppid()).nice(19)
"""},
    {"name": "stops tito", "says": "the fence: no signal is sent to process", "cell": """
import os, signal
os.kill(os.getppid(), signal.SIGKILL)
"""},
    {"name": "stops everybody", "cell": "import os; os.killpg(os.getpgid(os.getppid()), 9)",
     "says": "the fence: no signal is sent to process"},
    {"name": "calls home", "says": "the fence: no network for graded code", "cell": """
import urllib.request
urllib.request.urlopen("http://127.0.0.1:9/")
"""},
    {"name": "harms when it is imported", "says": f"home/canary.txt {WRITING}", "score": 40, "cell": """
#| export
import os
if __name__ != "__main__":
    os.remove(HOME + "/canary.txt")
"""},
    {"name": "harms when it is tested", "score": 40,
     "double": "import os; os.system('rm -f ' + HOME + '/canary.txt')\n    return 42",
     "says": "the fence: no process is started by graded code"},
]
