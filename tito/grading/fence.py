"""A fence around learner's code: what it may read, write and start, and one sentence for what it may not.

It is an audit hook (PEP 578), on before the learner's first line, that cannot be taken off again. It keeps out
accidents and the usual mischief (opening the reference, deleting files, starting programs), also when built-in
functions and modules were replaced. It cannot keep out somebody who works at it: Python in one process has ways past
any hook of its own (memory written by address, functions of C that tell no hook, a race with a link), so a class with
real adversaries grades in a container.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import FunctionType
from typing import Any

from tito.project import PACKAGE, Module, target_owners

_PROCESSES = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
                        "os.startfile/2", "os.system", "pty.spawn", "subprocess.Popen", "_winapi.CreateProcess"})
_NETWORK = frozenset({"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr",
                      "socket.gethostbyname", "socket.sendmsg", "socket.sendto", "socket.sethostname"})
_FOREIGN = frozenset({"ctypes.addressof", "ctypes.call_function", "ctypes.cdata", "ctypes.dlopen", "ctypes.dlsym",
                      "ctypes.dlsym/handle", "ctypes.string_at", "ctypes.wstring_at", "sqlite3.connect"})
_SETTINGS = frozenset({"resource.prlimit", "resource.setrlimit", "winreg.CreateKey", "winreg.DeleteKey",
                       "winreg.DeleteValue", "winreg.SaveKey", "winreg.SetValue"})
_SIGNALS = frozenset({"os.kill", "os.killpg"})
_LISTS = frozenset({"os.listdir", "os.scandir"})
# what changes files, and where in its arguments the number of the open folder stands that the path is relative to
_CHANGES = (("os.chflags", 0), ("os.chmod", 2), ("os.chown", 3), ("os.link", 0), ("os.mkdir", 2), ("os.remove", 1),
            ("os.removexattr", 0), ("os.rename", 0), ("os.rmdir", 1), ("os.setxattr", 0), ("os.symlink", 0),
            ("os.truncate", 0), ("os.utime", 3))
_EVENTS = (_PROCESSES | _NETWORK | _FOREIGN | _SETTINGS | _SIGNALS | _LISTS | {name for name, _ in _CHANGES}
           | {"open", "object.__setattr__", "import", "cpython.PyInterpreterState_New"})
# modules of C that open files, start programs or interpreters and tell no hook; everything does without them
_MODULES = frozenset({"readline", "gnureadline", "_dbm", "_gdbm", "_tkinter", "_posixshmem", "_xxsubinterpreters",
                      "_interpreters", "_testcapi", "_testinternalcapi"})
_LIBRARIES = ("openblas", "bli_", "flexiblas_", "mkl_", "MKL_", "omp_", "kmp_", "dl_iterate_phdr", "_dyld_",
              "EnumProcessModules", "GetModuleFileName", "OpenProcess", "CloseHandle", "CreateToolhelp32Snapshot",
              "Module32")  # parts of the names that threadpoolctl looks up
_UNTOLD = (("os", "chroot"), ("os", "mkfifo"), ("os", "mknod"), ("os", "setns"), ("os", "unshare"),
           ("signal", "pidfd_send_signal"), ("os", "setpriority"), ("os", "sched_setaffinity"),
           ("os", "sched_setparam"), ("os", "sched_setscheduler"),
           *((place, name) for place in ("psutil._psutil_linux", "psutil._psutil_posix", "psutil._psutil_windows")
             for name in ("setpriority", "proc_cpu_affinity_set", "proc_ioprio_set", "proc_io_priority_set",
                          "proc_priority_set", "proc_suspend_or_resume", "proc_kill")))  # no audit event tells of these
_FOLDS = sys.platform in ("darwin", "win32")  # file systems there do not tell SRC/ from src/


def around(module: Module, *, tests: bool = False, stand_ins: Mapping[str, Path] | None = None,
           deny: Iterable[Path] = ()) -> dict[str, Any]:
    """Return the fence for grading ``module`` as plain data that a job can carry.

    Args:
        module: the module under grading; its package file and those of later modules are not to be read.
        tests: whether its tests run, which read ``tests/`` and may start Python, rather than a notebook's cells.
        stand_ins: package module -> file that stands in for it; with none, tests are the package's own.
        deny: folders not to be read, such as the one with everybody's submissions.
    """
    from tito.notebooks.checks import reach

    root, files = module.root, dict(stand_ins or {})
    owners = target_owners(root)
    kept_back = {target: owner for target, owner in owners.items()
                 if owner.order >= module.order and not (tests and not files and owner == module)}
    hidden = [name for target, owner in kept_back.items()
              for name in (target.replace(".", "/") + ".py", owner.source.relative_to(root).as_posix())]
    absent = [target for target, owner in kept_back.items() if target not in files  # what a package imports by itself
              and any(owner in reach(root, str(package).replace("/", "."), owners)
                      for package in list(PurePosixPath(target.replace(".", "/")).parents)[:-1])]
    inside = ["tito", PACKAGE, f"modules/{module.folder}", "pyproject.toml", *(["tests"] if tests else [])]
    return {"root": str(root), "read": [str(root / name) for name in inside] + [str(file) for file in files.values()],
            "hidden": hidden, "absent": absent, "deny": [str(folder) for folder in deny],
            "learner": [str(file) for file in files.values()], "processes": tests}


def install(rules: Mapping[str, Any], parent: int) -> None:
    """Put the fence up, for good: this process works in its scratch folder, and ``parent`` started it.

    The hook's functions live on what is bound to them here, unchangeable values and functions of C: they have no
    globals, no builtins, and nothing of them can be set.
    """
    import signal  # noqa: F401  (this one and the next load what they need while they can)
    import subprocess  # noqa: F401

    import psutil  # noqa: F401

    fold = bound(_folded, sys.platform == "darwin") if _FOLDS else None
    windows = sys.platform == "win32"
    follow = os.path.realpath if windows else bound(_followed, os.getcwd, os.readlink, OSError)
    plain = bound(_plain, type, (str, type(Path()), os.DirEntry), bytes, os.fspath, bytes.decode,
                   sys.getfilesystemencoding(), TypeError)
    real = bound(_real, plain, follow, fold, windows)

    def trees(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(real(str(path)) + "/" for path in paths)

    scratch, (root,) = trees([os.getcwd()]), trees([rules["root"]])
    python = [path for path in trees([sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()])
              if path.startswith(root) and path != root]
    hidden = tuple("/" + (fold(name) if fold else name) for name in rules["hidden"])
    refuse = bound(_refuse, PermissionError, root)
    readable = bound(_check_read, real, refuse, scratch, hidden, trees(rules["deny"]), root,
                      (*trees(rules["read"]), *python), f"/proc/{os.getpid()}/")
    writable = bound(_check_write, None, plain, real, refuse, scratch, os.devnull, isinstance, int,
                      sys.platform == "linux")
    is_folder = bound(_is_folder, os.stat, OSError, ValueError)
    own_child = bound(_is_child, getattr(os, "waitid", None), getattr(os, "P_PID", 0),
                       getattr(os, "WEXITED", 0) | getattr(os, "WNOHANG", 0) | getattr(os, "WNOWAIT", 0), OSError)
    starts = bound(_may_start, sys._getframe, rules["processes"], sys.executable, tuple(rules["learner"]))
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    sys.modules.update(dict.fromkeys(rules["absent"]))  # for importlib: there is no such module
    for name in _MODULES & sys.modules.keys():  # some Pythons load readline when they start
        del sys.modules[name]
    for place, name in _UNTOLD:
        tests_too = name == "mkfifo" and rules["processes"]  # they ask what becomes of a pipe where a file is wanted
        if place in sys.modules and not tests_too:
            _take_away(sys.modules[place], name, refuse)
    if not rules["processes"] and "_posixsubprocess" in sys.modules:
        _take_away(sys.modules["_posixsubprocess"], "fork_exec", refuse)
    decide = bound(
        _decide, _MODULES, ImportError, _LISTS, _PROCESSES, _NETWORK, _FOREIGN, _SETTINGS, _CHANGES, _LIBRARIES, plain,
        readable, writable, is_folder, starts, own_child, refuse, isinstance, int, str, writes, os.getpid(),
        os.getppid, parent, rules["processes"], os.path.dirname(__file__), sys.platform == "darwin")
    sys.addaudithook(bound(_hook, _EVENTS, decide))


def bound(function: Any, *values: Any) -> Any:
    """Return ``function`` with its last parameters bound, and with nothing else to look anything up in."""
    return FunctionType(function.__code__, {"__builtins__": {}}, function.__name__, values)


def _take_away(place: Any, name: str, refuse: Any) -> None:
    """Put a refusal in the place of a function that no audit event tells of."""
    def refused(*arguments: Any, **more: Any) -> None:
        refuse(f"{place.__name__}.{name} is not for graded code", "it reaches beyond the scratch folder")

    for module in (place, sys.modules.get("posix"), sys.modules.get("_" + place.__name__)):
        if hasattr(module, name):
            setattr(module, name, refused)


# ---- the hook: no globals, no builtins below ----

def _hook(event, args, events, decide):  # type: ignore[no-untyped-def]
    """Return at once from what is none of the fence's business: thousands of ``id()`` come by."""
    if event in events:
        decide(event, args)


def _decide(event, args, modules, no_module, lists, processes, network, foreign, settings, changes,  # type: ignore[no-untyped-def]
            libraries, plain, readable, writable, is_folder, starts, own_child, refuse, isinstance_, int_, str_,
            writes, me, parent_now, parent, tests, house, darwin):
    """Refuse what is not allowed."""
    if event == "object.__setattr__":
        if args[1] in ("__code__", "__defaults__", "__kwdefaults__") and args[0].__code__.co_filename.startswith(house):
            refuse("the functions that grade are not to be changed", "they are what keeps grading fair")
    elif event == "import":
        if args[0] in modules:
            raise no_module(f"the fence: {args[0]} is not for graded code; it opens what no fence sees.")
    elif event == "cpython.PyInterpreterState_New":
        refuse("no second interpreter is started by graded code", "no fence is around it")
    elif event == "open":
        path, mode, flags = args
        if isinstance_(path, int_):
            return  # a descriptor: what it belongs to was opened before
        if flags & writes or (mode is not None and ("w" in mode or "a" in mode or "x" in mode or "+" in mode)):
            writable(path, -1)
            return
        text = plain(path)
        inside = readable(text)
        if mode is None:  # by os.open, and no event tells which open folder the path is relative to
            if not inside and is_folder(text):
                refuse(f"{text} is not to be opened", "it is a folder outside the scratch folder")
            if not text.startswith("/") and ".." in text.split("/"):
                refuse(f"{text} is not to be opened", "os.open takes no path that leads up with ..")
    elif event in lists:
        if not isinstance_(args[0], int_):
            readable("." if args[0] is None else args[0])
    elif event in processes:
        if not starts(event, args):
            refuse("no process is started by graded code",
                   "tests may start this Python only" if tests else "graded code does all its work itself")
    elif event in ("os.kill", "os.killpg"):
        if parent_now() == parent and (event == "os.killpg" or (args[0] != me and not (tests and own_child(args[0])))):
            refuse(f"no signal is sent to process {args[0]}", "it is not this one")
    elif event in network:
        refuse("no network for graded code", "what it needs is in the checkout")
    elif event in settings:
        if event != "resource.prlimit" or args[2] is not None:
            refuse("the limits and the settings of the system are not to be changed", "they hold for everybody")
    elif event in foreign:
        if event == "sqlite3.connect":
            refuse("no database for graded code", "it opens files that no fence sees")
        if event == "ctypes.dlopen":
            if args[0] is not None and (not isinstance_(args[0], str_) or readable(args[0])):
                refuse(f"{args[0]} is not to be loaded as a library", "it lies in the scratch folder")
            return
        if event == "ctypes.dlsym" and isinstance_(args[1], str_):
            for part in libraries:
                if part in args[1]:
                    return
        if not (darwin and event == "ctypes.string_at"):  # with it threadpoolctl reads the names of libraries there
            refuse("ctypes calls no foreign functions here", "only the threads of NumPy's library may be set by it")
    elif event == "os.symlink":
        writable(args[1], args[2])
        writable(args[0], args[2], args[1])
    elif event in ("os.rename", "os.link"):
        writable(args[0], args[2])
        writable(args[1], args[3])
    elif event == "os.truncate" and isinstance_(args[0], int_):
        return  # a descriptor: it was opened for writing
    else:
        for name, at in changes:
            if event == name:
                writable(args[0], args[at] if at else -1)


def _followed(path, folder_now, readlink, missing):  # type: ignore[no-untyped-def]
    """Return a path with every link in it followed, whether or not it exists."""
    todo, done, links = path.split("/")[::-1], [], 0
    if not path.startswith("/"):
        todo += folder_now().split("/")[::-1]
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = done[:-1]
            continue
        done.append(name)
        try:
            target = readlink("/" + "/".join(done))
        except missing:
            continue
        links += 1
        if links > 40:
            raise missing(f"{path}: too many links")
        done = [] if target.startswith("/") else done[:-1]
        todo += target.split("/")[::-1]
    return "/" + "/".join(done)


def _plain(path, type_, kinds, bytes_, fspath, decode, encoding, wrong):  # type: ignore[no-untyped-def]
    """Return a path as plain text; a class of one's own might say one thing here and another to the system."""
    if type_(path) is bytes_:
        return decode(path, encoding, "surrogateescape")
    if type_(path) not in kinds:
        raise wrong("the fence: a path is text, bytes or a pathlib.Path in graded code.")
    path = fspath(path)
    return decode(path, encoding, "surrogateescape") if type_(path) is bytes_ else path


def _real(path, plain, follow, fold, windows):  # type: ignore[no-untyped-def]
    """Return where a path really leads, with "/" and, where file systems do not tell letters' case, small letters."""
    real = follow(plain(path))
    if windows:
        real = real.removeprefix("\\\\?\\").replace("\\", "/")
    return (fold(real) if fold else real).rstrip("/")


def _folded(name, darwin):  # type: ignore[no-untyped-def]
    """Return a name as file systems compare it that do not tell large letters from small ones."""
    name = name.casefold()
    return name.removeprefix("/system/volumes/data") if darwin else name


def _refuse(what, why, error, root):  # type: ignore[no-untyped-def]
    raise error(f"the fence: {what.replace(root, '')}; {why}.")


def _check_read(path, real, refuse, scratch, hidden, deny, root, allowed, own):  # type: ignore[no-untyped-def]
    """Refuse what is not to be read; return whether it lies in the scratch folder."""
    place = real(path) + "/"
    if place.startswith(scratch):
        return True
    name = place[:-1]
    folder, cached, stem = name.rpartition("/__pycache__/")
    written = f"{folder}/{stem.partition('.')[0]}.py" if cached else name
    if written.endswith(hidden):
        refuse(f"{name} is not to be read while your work is graded",
               "it holds the module that is graded, or one that comes after it")
    if place.startswith(deny):
        refuse(f"{name} is not to be read while your work is graded", "it is other people's work")
    if place.startswith(root) and place != root and not place.startswith(allowed):
        refuse(f"{name} is not to be read while your work is graded",
               "of the checkout that is the package's earlier modules, tito/ and the module's own folder in modules/")
    if name.startswith("/proc/") and (name.endswith("/mem") or not place.startswith(own) and (
            "/fd/" in name or name.endswith("/environ"))):
        refuse(f"{name} is not to be read while your work is graded", "it is a process's memory, or another process's")
    return False


def _check_write(path, at, beside, plain, real, refuse, scratch, devnull, isinstance_, int_, linux):  # type: ignore[no-untyped-def]
    """Refuse what is not to be written, renamed or deleted: all but the scratch folder and the null device.

    ``at`` is the number of the open folder that the path is relative to, or -1: those folders lie in the scratch
    folder, so a name in it does too. ``beside`` is where a link with this content is to stand.
    """
    text = f"/proc/self/fd/{path}" if linux and isinstance_(path, int_) else plain(path)
    if at != -1 and "/" not in text and text not in ("", ".", ".."):
        return
    if beside is not None and not text.startswith("/"):
        text = f"{plain(beside)}/../{text}"
    place = real(text)
    if (at != -1 and not text.startswith("/")) or not (f"{place}/".startswith(scratch) or text == devnull):
        refuse(f"{place} is not to be written, moved or deleted",
               "graded code writes in its scratch folder, the folder it runs in, and nowhere else")


def _is_folder(path, stat, missing, wrong):  # type: ignore[no-untyped-def]
    """Say whether a path is that of a folder."""
    try:
        return stat(path).st_mode & 0o170000 == 0o040000
    except (missing, wrong):
        return False


def _is_child(number, wait, by_number, how, missing):  # type: ignore[no-untyped-def]
    """Say whether a process was started by this one."""
    try:
        return wait is not None and (wait(by_number, number, how), True)[1]
    except missing:
        return False


def _may_start(event, args, frame_now, allowed, python, learner):  # type: ignore[no-untyped-def]
    """Say whether a process may be started: by tests, this Python, and not from the learner's file."""
    if not allowed or event not in ("subprocess.Popen", "os.posix_spawn", "_winapi.CreateProcess"):
        return False
    frame = frame_now()
    while frame is not None:
        if frame.f_code.co_filename in learner:
            return False
        frame = frame.f_back
    return event == "_winapi.CreateProcess" or args[0] == python
