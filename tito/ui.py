"""How `tito` speaks: plain text on any terminal, one JSON object for machines, progress on stderr.

With NO_COLOR set (and not empty) nothing but text is written: no colour, no bold, no moving cursor.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

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
