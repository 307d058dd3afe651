"""Grade a folder of submissions: plain data in, plain data out, wherever a job runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import tito
from tito.errors import TitoError
from tito.grading import cluster, inbox, journal, pool
from tito.grading.inbox import Entry
from tito.grading.job import GRADED, REFUSED, Job, Result, release_hash
from tito.project import Module, find_module

Count = Callable[[int, int], None]


def grade_folder(folder: Path, root: Path, out: Path, *, only: Module | None = None, jobs: int = 1,
                 timeout: float | None = None, tests: bool = True, again: bool = False,
                 workers: str | None = None, count: Count = lambda done, total: None) -> dict[str, Any]:
    """Grade what a class handed in and return one row per file; results are kept in ``out`` as they come.

    Args:
        folder: the class's folder.
        root: the checkout that grades.
        out: where the journal is.
        only: take this module's files only.
        jobs: how many submissions are graded at a time on this machine.
        timeout: seconds for the cells, and again for the tests.
        tests: whether to run the module's tests.
        again: grade all anew.
        workers: the address of a Dask scheduler whose workers grade instead of this machine.
        count: told how many are done, of how many.
    """
    found, silent = inbox.find(folder, root, only, skip=out)
    if not found:
        raise TitoError(f"{folder} holds no submission: want files such as ana/profiling_dev.ipynb or ana.ipynb.")
    known = {entry.module: find_module(root, entry.module) for entry in found if not entry.problem}
    releases = {label: release_hash(module) for label, module in known.items()}
    options = {"timeout": timeout, "tests": tests}
    needed = (root, tito.__file__, sys.prefix, sys.base_prefix, tempfile.gettempdir())
    around = any(Path(place).resolve().is_relative_to(folder) for place in needed)
    deny = [str(out), *([str(entry.path) for entry in found] if around else [str(folder)])]
    keys: dict[Path, str] = {}

    def job_of(entry: Entry) -> Job | None:
        """Read a file; what cannot be read has a problem instead of a job."""
        if not entry.problem:
            try:
                notebook, twin = entry.read()
            except TitoError as error:
                entry.problem = str(error)
        if entry.problem:
            return None
        asked = {"module": entry.module, "notebook": notebook, "twin": twin, "release": releases[entry.module],
                 **options}
        keys[entry.path] = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return {**asked, "key": keys[entry.path], "root": None if workers else str(root), "deny": deny,
                "processes": 1 if workers or jobs > 1 else None}

    with journal.opened(out / "grades.jsonl", again) as kept:
        entries = {entry.path: entry for entry in found if job_of(entry)}
        missing = {keys[path]: path for path in entries if keys[path] not in kept.results}
        done, failed = len(found) - len(missing), {}
        count(done, len(found))
        todo = (job for path in missing.values() if (job := job_of(entries[path])))  # the texts are read when needed
        results = _sent(todo, jobs, workers)
        with contextlib.closing(results):
            for result in results:
                if result["status"] == "stop":
                    raise TitoError(result["message"])
                key = result.pop("key")
                if result["status"] == GRADED:
                    kept.add(key, result)
                else:  # not kept: the next run tries it again
                    failed[key] = result
                done += 1
                count(done, len(found))
        came = kept.results | failed
        rows = [_row(entry, known.get(entry.module), came.get(keys.get(entry.path, ""), {})) for entry in found]
    return {"folder": str(folder), "modules": sorted(known), "submissions": rows, "without": silent}


def _sent(todo: Iterable[Job], jobs: int, workers: str | None) -> Generator[Result, None, None]:
    """Have the jobs graded, here or on a cluster."""
    return cluster.results(workers, todo) if workers else pool.results(todo, jobs)


def _row(entry: Entry, module: Module | None, result: Result) -> dict[str, Any]:
    if entry.problem or not result:
        result = {"status": REFUSED, "message": entry.problem or "its file changed while it was graded; run this again"}
    nothing: dict[str, Any] = {"points": None, "most": None, "skills": [], "cells": [], "tests_passed": None,
                               "tests_total": None, "complete": None, "notes": [], "seconds": None}
    return {"student": entry.student, "file": entry.file, "module": entry.module or None,
            "bonus": module is not None and module.bonus, **nothing, **result,
            "notes": entry.notes + result.get("notes", [])}
