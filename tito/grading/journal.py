"""The journal of a grading: one line per result, on the disk before the next begins, so that a kill loses nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tito.errors import TitoError


class Journal:
    """The results of ``grades.jsonl`` by their keys, and the way to add one."""

    def __init__(self, file: IO[bytes], results: dict[str, dict[str, Any]]):
        """Keep the open file and what it holds."""
        self.file, self.results = file, results

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Write one result and wait until it is on the disk; a key that is there stays as it is."""
        if key in self.results:
            return
        self.file.write(_line(key, result))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.results[key] = result


@contextlib.contextmanager
def opened(path: Path, again: bool = False) -> Iterator[Journal]:
    """Open a journal, for this process alone; a last line that was not written to its end is dropped.

    With ``again`` a new one is begun, and the old one kept beside it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise TitoError(f"the grades cannot be written to {path.parent} ({error.strerror}); name another folder with "
                        "--out.") from None
    if again:
        with path.open("a+b") as file:
            _lock(file, path)
        path.replace(path.with_name(f"{path.name}.old"))
    with path.open("a+b") as file:
        _lock(file, path)
        file.seek(0)
        text = file.read()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            file.truncate(whole)
        yield Journal(file, dict(_results(text[:whole])))


def _results(text: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            yield str(entry["key"]), dict(entry["result"])


def _line(key: str, result: dict[str, Any]) -> bytes:
    return json.dumps({"key": key, "result": result}).encode() + b"\n"


def _lock(file: IO[bytes], path: Path) -> None:
    """Hold the file for as long as this process lives, or say who does."""
    file.seek(0)
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise TitoError(f"another `tito grade` is writing in {path.parent}; wait for it, or name another folder with "
                        "--out.") from None
