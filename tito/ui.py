"""How `tito` speaks: plain text on any terminal, one JSON object for machines, progress on stderr.

With NO_COLOR set (and not empty) nothing but text is written: no colour, no bold, no moving cursor.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

_SILENCE = 10.0  # seconds between plain lines of a count

timeout_option = click.option("--timeout", type=click.FloatRange(min=1), metavar="SECONDS", help=(
    "Time limit for the cells, and again for the tests (180 and 300)."))
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")

_ASCII = {"✓": "ok", "✗": "x", "·": "-", "…": "...", "→": "->", "←": "<-", "×": "x", "–": "-", "—": "-", "≤": "<=",
          "≥": ">=", "≈": "~", "µ": "u", "²": "2", "─": "-", "━": "=", "│": "|", "█": "#", "’": "'", "“": '"', "”": '"'}


def _ascii_forms(error: UnicodeError) -> tuple[str, int]:
    """Give the ASCII form of what an output encoding lacks ("✓" is "ok"), "?" where there is none."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_ASCII.get(letter, "?") for letter in error.object[error.start:error.end]), error.end


def speak_safely() -> None:
    """Make stdout and stderr write every text, whatever their encoding; missing streams become the null device."""
    codecs.register_error("tito_ascii", _ascii_forms)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (it stays open)
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="tito_ascii")


def print_json(data: Any) -> None:
    """Print ``data`` as the one JSON object of this call, in ASCII so that every encoding carries it."""
    click.echo(json.dumps(data, indent=2, allow_nan=False))


def _plain() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def console(stderr: bool = False) -> Any:
    """Return a rich console that prints text as it stands: no markup, no guessed highlights, no emoji.

    Into a file or a pipe it writes no spaces at the end of a line.
    """
    from rich.console import Console

    class Trimmed(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            with self.capture() as captured:
                super().print(*objects, **options)
            self.file.write(re.sub(r"[ \t]+(?=\n)", "", captured.get()))

    settings: dict[str, Any] = {"stderr": stderr, "markup": False, "highlight": False, "emoji": False}
    if _plain():
        return Trimmed(**settings, color_system=None, force_terminal=False)
    wanted = Console(**settings)
    return wanted if wanted.is_terminal else Trimmed(**settings)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show ``text`` with a spinner on stderr while the body runs; yields a function that changes the text."""
    if _plain() or not sys.stderr.isatty():
        yield lambda text: None
        return
    with console(stderr=True).status(text, spinner="line") as status:
        yield lambda text: status.update(text)


@contextmanager
def stages() -> Iterator[Callable[..., None]]:
    """Show long work on stderr: yields ``stage(text, done=0, total=None)``, a bar per text, nothing where no one looks.

    Where stderr is not a terminal, or with NO_COLOR, each new text is one plain line.
    """
    if _plain() or not sys.stderr.isatty():
        said: set[str] = set()

        def tell(text: str, done: int = 0, total: int | None = None) -> None:
            if text not in said:
                said.add(text)
                click.echo(f"{text} ...", err=True)

        yield tell
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(bar_width=16), TimeElapsedColumn()
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        shown: dict[str, Any] = {}

        def draw(text: str, done: int = 0, total: int | None = None) -> None:
            if text not in shown:
                for task in shown.values():
                    bars.update(task, visible=False)
                shown[text] = bars.add_task(text, total=total)
            bars.update(shown[text], completed=done, total=total)

        yield draw


@contextmanager
def counter(text: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how many of many are done, and about how long the rest takes: yields ``show(done, total)``.

    Where stderr is not a terminal, or with NO_COLOR, there is a plain line every ten seconds, and one at the end.
    """
    if _plain() or not sys.stderr.isatty():
        begun: list[float] = []  # when it began, when it last spoke, how many were done at the beginning

        def tell(done: int, total: int) -> None:
            now = time.monotonic()
            if not begun:
                begun[:] = now, now, done
            elif done == total or now - begun[1] >= _SILENCE:
                rest = (now - begun[0]) / max(done - begun[2], 1) * (total - done)
                click.echo(f"{text} {done} of {total}" + (f", about {_duration(rest)} to go" if rest else ""), err=True)
                begun[1] = now

        yield tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task(text, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else (
        f"{seconds / 3600:.1f} h")
