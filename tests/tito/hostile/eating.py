"""Submissions that use up what others need: processes, memory, output, the disk. All of them are bounded."""

SAMPLES = [
    {"name": "a fork bomb", "says": "the fence: no process is started by graded code", "cell": """
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
"""},
    {"name": "starts programs", "says": "the fence: no process is started by graded code", "cell": """
import subprocess
for _ in range(20):
    subprocess.Popen(["sleep", "20"], start_new_session=True)
"""},
    {"name": "starts a shell", "cell": "import os; os.system('sleep 20 &')",
     "says": "the fence: no process is started by graded code"},
    {"name": "starts workers", "says": "the fence: no process is started by graded code", "cell": """
import multiprocessing
multiprocessing.get_context("fork").Process(target=print).start()
"""},
    {"name": "a memory bomb", "only": "linux", "says": "MemoryError", "cell": """
eaten = [bytes(1 << 30) for _ in range(8)]
"""},
    {"name": "a memory bomb of NumPy's", "only": "linux", "says": "Unable to allocate",
     "cell": "import numpy as np; np.ones(10**10)"},
    {"name": "gigabytes of output", "score": 0, "says": "stopped in this cell: it printed more than 50 MB", "cell": """
for _ in range(2 << 14):
    print("x" * (1 << 16))
"""},
    {"name": "one huge line", "cell": "print('x' * 20_000_000, end='')", "says": "you gave it back as it came"},
    {"name": "no text and commands for the terminal", "says": "you gave it back as it came", "cell": r"""
import os
os.write(1, b"\xff\xfe\x00 \x1b[2J\x1b[31m 100 / 100 \x1b]0;passed\x07")
"""},
    {"name": "commands for the terminal in an error", "says": "ValueError: [2J passed",
     "cell": r"raise ValueError('\x1b[2J passed')"},
    {"name": "a huge file", "only": "linux", "says": "File too large", "cell": """
with open("huge", "wb") as file:
    file.truncate(1 << 33)
"""},
    {"name": "a full folder", "score": 0, "says": "stopped in this cell: it wrote more than 512 MiB into its folder",
     "cell": """
import time
for name in range(8):
    with open(f"large {name}", "wb") as file:
        file.truncate(200 << 20)
time.sleep(20)
"""},
    {"name": "gives itself more", "only": "linux",
     "cell": "import resource; resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
     "says": "the fence: the limits and the settings of the system are not to be changed"},
]
