"""The command line: names lead to files in `tito/commands/`, which are loaded when they are called."""

from __future__ import annotations

import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from tito import commands, ui
from tito.errors import TitoError

INTERRUPTED = 130
SECTIONS = {"Your loop": ("module", "test", "hint", "export", "profile", "milestone", "doctor"),
            "For instructors": ("grade", "release")}
HOUSE = "For those who build the course"  # whatever is in no section


class _Stopped(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int):
        """Keep the exit status that says so."""
        self.status = 128 + number


@contextmanager
def _stopping() -> Iterator[None]:
    """Clean up on SIGTERM and SIGHUP as on Ctrl-C, unless somebody (nohup) has them ignored."""
    def stop(number: int, frame: Any) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        raise _Stopped(number)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


class Group(click.Group):
    """A click group that answers an unknown name with one sentence and the names close to it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they were written down."""
        return list(self.commands)

    def resolve_command(
            self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command ``args`` begins with."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            meant = f"did you mean {' or '.join(close)}?" if close else f"the commands are {', '.join(known)}."
            raise click.UsageError(f"{ctx.command_path} has no command {name!r}: {meant}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """The group whose commands are the files of `tito/commands/`; a command returns its exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the file names, in the order of the sections."""
        known = {file.name for file in pkgutil.iter_modules(commands.__path__)}
        first = [name for names in SECTIONS.values() for name in names if name in known]
        return first + sorted(known - set(first))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections: a learner's own come first."""
        known = self.list_commands(ctx)
        house = tuple(name for name in known if not any(name in names for names in SECTIONS.values()))
        for title, names in {**SECTIONS, HOUSE: house}.items():
            found = [(name, self.get_command(ctx, name)) for name in names if name in known]
            rows = [(name, command.get_short_help_str(70)) for name, command in found if command is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=10, col_spacing=2)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command's file."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"tito.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, complete_var: str | None = None,
             standalone_mode: bool = True, **extra: Any) -> NoReturn:
        """Run one command line and leave: 0 done, 1 checks failed, 2 could not run, 130 interrupted."""
        ui.speak_safely()
        words = list(sys.argv[1:] if args is None else args)
        try:
            with _stopping():
                status = super().main(words, prog_name or "tito", complete_var, standalone_mode=False, **extra) or 0
            sys.stdout.flush()
        except _Stopped as stopped:
            click.echo("tito: stopped.", err=True)
            status = stopped.status
        except TitoError as error:
            status = _could_not_run(str(error), words)
        except click.MissingParameter as error:
            status = _could_not_run(_missing(error), words)
        except click.ClickException as error:
            status = _could_not_run(error.format_message(), words)
        except (click.Abort, KeyboardInterrupt):
            click.echo("tito: stopped.", err=True)
            status = INTERRUPTED
        except BrokenPipeError:  # the reader (head, less) has gone: nothing to say, and nobody to say it to
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 0
        except ModuleNotFoundError as error:
            status = _could_not_run(f"{error.name} is not installed here; `pip install -e '.[notebook]'` in the "
                                    "checkout installs what learners need.", words)
        except OSError as error:
            status = _could_not_run(_refused(error), words)
        except Exception as error:
            import traceback

            traceback.print_exc()
            status = _could_not_run(f"this should not happen: {type(error).__name__}: {error}", words)
        sys.exit(status)


def _missing(error: click.MissingParameter) -> str:
    """Say what a command wants, and where it is found."""
    command = error.ctx.command_path if error.ctx else "tito"
    wanted = (error.param.name or "").upper() if error.param else "one more word"
    if wanted == "NAME":
        return f"{command} wants the name of a module, as in `{command} tensor`; `tito module list` has the names."
    return f"{command} wants {wanted}; `{command} --help` says more."


def _refused(error: OSError) -> str:
    """Say what the system refused; a file is written under a name of the moment first, which tells nobody anything."""
    from tito.notebooks.export import UNFINISHED

    folder, name = os.path.split(str(error.filename or "the system"))
    if not name.endswith(UNFINISHED):
        return f"{error.filename or 'the system'}: {error.strerror or error}."
    file = os.path.join(folder, name.removesuffix(UNFINISHED).rpartition(".")[0].removeprefix("."))
    return f"{file} cannot be written ({error.strerror}), so it stays as it is; `tito doctor` says what to do."


def _could_not_run(sentence: str, words: list[str]) -> int:
    if "--json" in words:
        ui.print_json({"error": sentence})
    click.echo(f"tito: {' '.join(sentence.split())}", err=True)
    return 2


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def main(ctx: click.Context) -> None:
    """TinyTorch's course tool; begin: `tito module start 1`.

    Exit status: 0 done, 1 checks failed, 2 could not run.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
