"""What runs in the child process for a module's tests: one session of pytest, watched.

The learner's file is imported into the same process, so what is reported here is believed only together with the
canaries (tests of the parent's that must fail, or pass) and with what ``tamper`` saw.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import re
import tempfile
import types
from collections.abc import Callable
from typing import Any

import pytest

from tito.errors import UNWRITTEN
from tito.grading import fence, tamper
from tito.needs import label_of

_LONGEST = 4000
_MISSING = re.compile(rf"^E .*?({UNWRITTEN})", re.MULTILINE)  # in what pytest says of a failure


class Reporter:
    """A pytest plugin that reports each phase of each test, mixes canaries in, and watches for tampering."""

    def __init__(self, job: dict[str, Any], report: Callable[[dict[str, Any]], None], canaries: list[str]):
        """Keep the function that sends a report; ``canaries`` are the files of the tests that nobody wrote."""
        self.report, self.canaries = report, frozenset(canaries)
        self.files, self.conftests = frozenset(job["tests"]), frozenset(job["conftests"])
        self.chance, self.short = random.SystemRandom(), _short
        self.imports, self.module = job["imports"], job["module"]
        self.pytest_pyfunc_call = pytest.hookimpl(wrapper=True, tryfirst=True)(
            fence.bound(_witness, report, BaseException))

    @pytest.hookimpl(trylast=True)
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        """Remember what decides a test's fate: pytest is there, and nothing that imports the learner's file yet."""
        for name in self.imports:  # what the tests import in any case
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        watch = _own_copy(tamper).Watch()
        early_config.pluginmanager.register(
            _Looks(watch, self.report, self.files | self.conftests | self.canaries), "looks")
        watch.hooks(early_config.pluginmanager, self.conftests)

    def pytest_collectstart(self, collector: Any) -> None:
        """Say which file is being read."""
        self.report({"collecting": collector.nodeid})

    def pytest_collectreport(self, report: Any) -> None:
        """Report a file that cannot be imported, or does not want to be."""
        self.report({"collecting": ""})
        if not report.passed:
            self.report({"file": report.nodeid, "state": report.outcome, "message": self.short(report, self.module)})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Move the canaries to places that nobody can know."""
        canaries = [item for item in items if str(item.path) in self.canaries]
        items[:] = [item for item in items if str(item.path) not in self.canaries]
        for canary in canaries:
            items.insert(self.chance.randint(0, len(items)), canary)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say which test is running."""
        self.report({"begin": nodeid})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Report a phase of a test."""
        self.report({"test": report.nodeid, "when": report.when, "state": report.outcome,
                     "message": self.short(report, self.module)})

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Say that somebody stopped the session."""
        self.report({"stopped": f"{excinfo.typename}: {_text(excinfo.value)}"})

    def pytest_internalerror(self, excinfo: Any) -> None:
        """Say what ended the session."""
        self.report({"stopped": f"{excinfo.typename}: {_text(excinfo.value)}"})


def _own_copy(module: types.ModuleType) -> Any:
    """Return a module as it is when it is fresh, under no name: what is done to the one of that name is not its."""
    spec = module.__spec__
    assert spec is not None and spec.loader is not None
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    return own


class _Looks:
    """Pytest's hooks that look for tampering; they hold the watch where no attribute leads to it."""

    def __init__(self, watch: Any, report: Callable[[dict[str, Any]], None], files: frozenset[str]):
        """Bind the hooks to the functions of ``watch`` as they are now."""
        self.pytest_collection_finish = fence.bound(_collected, report, watch.tests, watch.look, files)
        self.pytest_runtest_logfinish = fence.bound(_test_ended, watch.glance, watch.look)
        self.pytest_sessionfinish = pytest.hookimpl(tryfirst=True)(fence.bound(_session_ends, report, watch.look))


def _collected(session, report, remember, look, files):  # type: ignore[no-untyped-def]
    """Say which tests there are, before any runs."""
    remember(session, files)
    report({"collected": [item.nodeid for item in session.items], "tampered": look()})


def _test_ended(glance, look):  # type: ignore[no-untyped-def]
    """Look at what can be seen at once after every test, at everything now and then."""
    if glance():
        look()


def _session_ends(report, look):  # type: ignore[no-untyped-def]
    """Look at everything a last time, before pytest puts its own patches back."""
    report({"looked": True, "tampered": look()})


def _witness(pyfuncitem, report, everything):  # type: ignore[no-untyped-def]
    """Report whether a test's function returned, whatever pytest makes of it.

    While the function runs, all that stands between it and this is running, too, and cannot be replaced any more.
    """
    name = pyfuncitem.nodeid
    try:
        came = yield
    except everything:
        report({"ran": name, "well": False})
        raise
    report({"ran": name, "well": True})
    return came


def _short(report: Any, module: str) -> str:
    """Return the last word of a failure: the error's own message, or which cell of which module it waits for."""
    if report.passed:
        return ""
    unwritten = _MISSING.search(report.longreprtext)  # also where an assertion failed because of it
    if unwritten:
        files = [place.path for _, place, _ in getattr(report.longrepr, "chain", ()) if place and
                 unwritten[1] in str(place.message)]
        other = label_of(str(files[0])) if files else ""
        if other not in ("", module):
            return f"{other} is not written yet, where this needs it: {unwritten[1]}"
        return f"NotImplementedError: {unwritten[1]}"
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)[:_LONGEST]
    said = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
    lines = [line.removeprefix("E ").strip() for line in str(said).splitlines() if line.startswith("E ")]
    return "\n".join(lines or str(said).splitlines()[-3:])[:_LONGEST]


def run(job: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
    """Run pytest on test files, with the learner's file in place of the package's when there is one."""
    import tito.grading.overlay  # noqa: F401  (installs itself)

    folder = tempfile.mkdtemp()
    canaries = [os.path.join(folder, name) for name in job["canaries"]]
    for file, text in zip(canaries, job.pop("canaries").values()):
        with open(file, "w", encoding="utf-8") as written:
            written.write(text)
    plugin = Reporter(job, report, canaries)
    words = [*canaries, *job["tests"], "-q", "--tb=short", "-p", "no:cacheprovider", f"--rootdir={job['root']}",
             "--continue-on-collection-errors", *(["-c", job["settings"]] if job["settings"] else [])]
    try:
        status = int(pytest.main(words, plugins=[plugin]))
    except BaseException as error:  # a conftest that imports the learner's file lets everything through
        report({"stopped": f"{type(error).__name__}: {_text(error)}"})
        status = 3
    report({"done": True, "status": status})


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    except BaseException as worse:
        return f"(its message could not be read: {type(worse).__name__})"
