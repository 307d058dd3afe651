"""What `tito doctor` looks at: one line per check, ok or a problem with what to do. It imports nothing it checks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tito.errors import TitoError
from tito.notebooks.export import UNFINISHED, UNFINISHED_SECONDS
from tito.project import PACKAGE, modules

SECONDS, SCRATCH_SECONDS = 60, 3600  # no run of ours lasts an hour
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:(==|>=)\s*([\d.]+))?\s*"
                          r"(?:;\s*python_version\s*<\s*'([\d.]+)')?")
_INSTALL = "`pip install -e '.[notebook]'` in the checkout installs it"
_ASK = """
import json
said = {}
try:
    import numpy, threadpoolctl
    said["numpy"] = numpy.__version__
    said["blas"] = [[one["internal_api"], one["num_threads"]] for one in threadpoolctl.threadpool_info()
                    if one["user_api"] == "blas"]
except Exception as error:
    said["numpy error"] = f"{type(error).__name__}: {error}".splitlines()[0]
try:
    from tinytorch.perf.profiling import _cache_file
    said["cache"] = str(_cache_file().parent)
except Exception as error:
    said["cache error"] = f"{type(error).__name__}: {error}".splitlines()[0]
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Line:
    """One check: what it is about, whether all is well, what was found, and what to do where it is not."""

    about: str
    ok: bool
    found: str
    todo: str = ""
    installed: bool = False  # it tells the version of something installed


def examine(root: Path, fix: bool = False) -> dict[str, Any]:
    """Return all lines as plain data; with ``fix`` the leftovers of killed runs are deleted, and nothing else."""
    lines: list[Line] = []
    for check in (_python, _dependencies, _kernel, _checkout, _writing, _numpy, _terminal,
                  lambda root: _leftovers(root, fix)):
        try:
            lines += check(root)
        except (OSError, ValueError, TitoError) as error:  # what one check stumbles over hides no other
            name = getattr(check, "__name__", "").strip("_").replace("<lambda>", "leftovers")
            lines.append(Line(name, False, f"could not be checked: {' '.join(str(error).split())}"))
    return {"root": str(root), "ok": all(line.ok for line in lines), "checks": [asdict(line) for line in lines]}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _project(root: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    return project if isinstance(project, dict) else {}


def _python(root: Path) -> Iterator[Line]:
    came = ".".join(map(str, sys.version_info[:3]))
    try:
        wanted = str(_project(root).get("requires-python", ">=3.10")).strip(">= ")
    except ModuleNotFoundError:
        wanted = "3.10"
    yield Line("Python", sys.version_info[:2] >= _numbers(wanted)[:2], f"{came} (wanted: {wanted} or newer)",
               f"make the environment anew with a newer Python: `make PYTHON=python{wanted} clean profile`")


def _dependencies(root: Path) -> Iterator[Line]:
    try:
        project = _project(root)
    except ModuleNotFoundError:
        yield Line("tomli", False, "is not installed, so pyproject.toml cannot be read", _INSTALL)
        return
    wanted = {}
    for text in [*project.get("dependencies", []), *project.get("optional-dependencies", {}).get("notebook", [])]:
        found = _REQUIREMENT.match(text)
        if found and not (found[4] and sys.version_info[:2] >= _numbers(found[4])[:2]):
            wanted[found[1]] = (found[2] or "", found[3] or "")
    for name, (how, least) in wanted.items():
        said = {"==": f"pinned: {least}", ">=": f"wanted: {least} or newer"}.get(how, "any version")
        try:
            came = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Line(name, False, f"is not installed ({said})", _INSTALL)
            continue
        fits = _numbers(came) == _numbers(least) if how == "==" else _numbers(came) >= _numbers(least or "0")
        yield Line(name, fits, f"{came} ({said})", _INSTALL.replace("installs it", "brings the right version"), True)


def _kernel(root: Path) -> Iterator[Line]:
    for name in ("jupyterlab", "ipykernel"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            metadata.version(name)
            continue
        return  # its own line says so
    with contextlib.suppress(ImportError):
        from jupyter_core.paths import jupyter_path

        for folder in jupyter_path("kernels"):
            file = Path(folder, "python3", "kernel.json")
            if file.is_file():
                first = json.loads(file.read_text(encoding="utf-8"))["argv"][0]
                mine = not os.path.isabs(first) or Path(first).parent == Path(sys.executable).parent
                yield Line("kernel", mine, f"Jupyter runs notebooks with {first if not mine else 'this Python'}",
                           f"delete the folder {file.parent}, then Jupyter takes the Python it runs with")
                return
    yield Line("kernel", True, "Jupyter runs notebooks with this Python")


def _checkout(root: Path) -> Iterator[Line]:
    from tito import standing

    known = modules(root)
    with_source = [module for module in known if module.source.is_file()]
    yield Line("src/", bool(with_source), f"{len(with_source)} sources in {root}",
               "get the checkout again: without src/ no reference can be put back")
    package: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    untested = []
    for module in known:
        found = standing.look(module)
        if found.state in ("missing", "unreadable"):
            unreadable[module.name] = found.state
        state = standing.package_state(module, found.work)
        if state in ("missing", "unreadable", "edited by hand"):
            package[module.name] = state
        if not any(module.tests.glob("test_*.py")):
            untested.append(module.label)
    yield Line("package", not package, _named(package) or f"{len(known)} files there, as they were exported",
               f"`tito module reset {next(iter(package), '')} --package` puts the reference there, and keeps what it "
               "replaces as a backup")
    yield Line("notebooks", not unreadable, _named(unreadable) or f"{len(known)} readable",
               f"`tito module status {next(iter(unreadable), '')}` says why, and the way on")
    yield Line("tests", not untested,
               f"missing for {', '.join(untested)}" if untested else f"there for all {len(known)}",
               "get these folders of tests/ again: without them a module cannot be completed")


def _named(states: dict[str, str]) -> str:
    return ", ".join(f"{name} ({state})" for name, state in states.items())


def _writing(root: Path) -> Iterator[Line]:
    for folder in (root / "modules", root / PACKAGE):
        try:
            with tempfile.TemporaryFile(prefix=".doctor.", suffix=UNFINISHED, dir=folder):
                pass
        except OSError as error:
            yield Line(f"{folder.name}/", False, f"cannot be written in: {error.strerror}",
                       f"give yourself the right to write in {folder}")
        else:
            yield Line(f"{folder.name}/", True, "can be written in")


def _numpy(root: Path) -> Iterator[Line]:
    """Ask a process of its own, since this is the one check that has to import."""
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    try:
        done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=SECONDS, cwd=root,
                              stdin=subprocess.DEVNULL, check=False, env={**os.environ, "PYTHONPATH": path})
        said = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired) as error:
        how = f"no answer in {SECONDS} s" if isinstance(error, subprocess.TimeoutExpired) else (
            f"its process ended with status {done.returncode}")
        yield Line("BLAS", False, f"importing NumPy failed: {how}",
                   "install NumPy anew: `pip install --force-reinstall numpy`")
        return
    if "numpy" in said:
        found = ", ".join(f"{name} with {count} thread{'s' * (count != 1)}" for name, count in said["blas"])
        yield Line("BLAS", True, f"NumPy {said['numpy']}: {found or 'no BLAS that can be told'}")
    else:
        yield Line("BLAS", False, said["numpy error"],
                   "install both anew: `pip install --force-reinstall numpy threadpoolctl`")
    if "cache" in said:
        yield Line("cache", True, _where(said["cache"]))
    elif "numpy" in said:
        no_home = "home" in said["cache error"]
        yield Line("cache", no_home, "no home folder: measured limits are not kept between runs (TINYTORCH_CACHE names "
                   "another folder)" if no_home else
                   f"tinytorch.perf.profiling cannot be imported: {said['cache error']}",
                   "`tito module status` says what the package holds")


def _where(folder: str) -> str:
    """Say whether a cache folder can be written; one that cannot be is no problem."""
    place = Path(folder)
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK):
        return f"measured limits are kept in {folder}"
    return (f"{folder} cannot be written, so limits are measured anew each time (TINYTORCH_CACHE names another folder)")


def _terminal(root: Path) -> Iterator[Line]:
    stream = getattr(sys.stdout, "rich_proxied_file", sys.stdout)  # a spinner stands in for stdout while it turns
    encoding = stream.encoding or "ascii"
    try:
        "✓→²".encode(encoding)
        yield Line("terminal", True, f"{encoding} shows every sign")
    except (UnicodeEncodeError, LookupError):
        yield Line("terminal", True, f"{encoding} lacks some signs: they come in ASCII (ok for a tick); PYTHONUTF8=1 "
                                     "shows them all")


def _leftovers(root: Path, fix: bool) -> Iterator[Line]:
    """Look for what killed runs left: half-written files here, scratch folders where temporary ones go."""
    found = [(file, UNFINISHED_SECONDS) for folder in (root / "modules", root / PACKAGE) if folder.is_dir()
             for file in folder.rglob(f".*{UNFINISHED}")]
    found += [(folder, SCRATCH_SECONDS) for pattern in ("tito-????????", "tito-export-????????")
              for folder in Path(tempfile.gettempdir()).glob(pattern) if folder.is_dir() and _is_mine(folder)]
    old = [path for path, age in found if time.time() - path.stat().st_mtime > age]
    if fix:
        for path in old:
            delete: Callable[..., Any] = shutil.rmtree if path.is_dir() else os.unlink
            with contextlib.suppress(OSError):
                delete(path)
    left = [path for path in old if path.exists()]
    said = f"deleted {len(old) - len(left)} temporary files and folders of killed runs" if fix and old else "none"
    yield Line("leftovers", not left, ", ".join(map(str, left[:3])) + (f" and {len(left) - 3} more" if len(left) > 3
               else "") if left else said, "`tito doctor --fix` deletes what killed runs left" if not fix else
               "delete them by hand")


def _is_mine(path: Path) -> bool:
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()
