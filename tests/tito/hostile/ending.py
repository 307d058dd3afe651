"""Submissions that end too early, or never."""

SAMPLES = [
    {"name": "leaves by os._exit before anything is graded", "cell": "import os; os._exit(0)",
     "score": 0, "says": "the notebook ended the process here (exit status 0)"},
    {"name": "leaves by os._exit when it is called", "double": "import os; os._exit(0)",
     "score": 0, "says": "the notebook ended the process here (exit status 0)"},
    {"name": "leaves by sys.exit", "cell": "import sys; sys.exit(0)", "says": "SystemExit: 0"},
    {"name": "raises what nobody catches", "cell": "raise KeyboardInterrupt('enough')",
     "says": "KeyboardInterrupt: enough"},
    {"name": "hopes for the exit", "says": ["double(21)", "you gave it back as it came"], "cell": """
import atexit, os
atexit.register(os._exit, 0)
atexit.register(print, "passed: 100 of 100 points")
"""},
    {"name": "kills itself", "cell": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
     "score": 0, "says": "the notebook ended the process here (killed by SIGKILL)"},
    {"name": "ends in a crash of Python", "cell": "import os; os.abort()",
     "score": 0, "says": "the notebook ended the process here (killed by SIGABRT)"},
    {"name": "loops", "double": "while True: pass", "score": 0, "seconds": 4, "says": "a loop that does not end?"},
    {"name": "loops and catches everything", "score": 0, "seconds": 4, "says": "a loop that does not end?", "cell": """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        while True: pass
    except BaseException: pass
"""},
    {"name": "loops inside a function of C, where no thread gets a turn", "cell": "any(iter(int, 1))",
     "score": 0, "seconds": 4, "says": "a loop that does not end?"},
    {"name": "waits", "cell": "import threading; threading.Event().wait(3600)",
     "score": 0, "seconds": 4, "says": "still running"},
    {"name": "leaves threads running", "says": "you gave it back as it came", "cell": """
import threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(600,)).start()
"""},
]
