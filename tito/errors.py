"""What goes wrong for people: every error is one sentence that the command line prints as it stands."""

from __future__ import annotations

# what `ast.parse` raises for text that is no Python, or nested too deep for it
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)

# what the stub of an unwritten part says, as `release` writes it: the name of a function or cell, and its place
UNWRITTEN = r"[\w.<>-]+: section \d+, cell \d+"


class TitoError(Exception):
    """Something could not be done; the message is one sentence for a person (exit status 2)."""


class ProjectError(TitoError):
    """The checkout or the module asked for cannot be found."""


class NotebookError(TitoError):
    """A notebook cannot be built or exported as it is.

    The message begins with the place (file, and line or cell) and says in one sentence what is wrong.
    """

    def __init__(self, sentence: str, file: str = "", cell: str = ""):
        """Keep the parts readable; ``file`` may end in ``:line``, ``cell`` is a grade_id or "cell 7"."""
        self.sentence, self.file, self.cell = sentence, file, cell
        place = ", ".join(part for part in (file, cell) if part)
        super().__init__(f"{place}: {sentence}" if place else sentence)


class ExportError(NotebookError):
    """What a notebook exports is no module that can be imported (exit status 1: it is the work that fails)."""
