"""A notebook seen cell by cell, with what the checks and the stubs need to know about each cell."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from tito.errors import NOT_PYTHON, NotebookError
from tito.notebooks.read import CellDict, Notebook, grader, source_lines
from tito.project import Module

POINTS = 100
EXPORT = re.compile(r"#\| exporti?\s*$")
DEFAULT_EXP = re.compile(r"#\| default_exp\s+(\S+)\s*$")
BEGIN = re.compile(r"^(\s*)### BEGIN SOLUTION\s*$")
END = re.compile(r"^\s*### END SOLUTION\s*$")
SCAFFOLDING = re.compile(r"^\s*#+ ?((BEGIN|END) (SOLUTION|HIDDEN TESTS)|YOUR CODE HERE)\s*$", re.IGNORECASE)
_HEADING = re.compile(r"^## +(?:(\d+)\.)?", re.MULTILINE)


def is_exported(source: str) -> bool:
    """Say whether nbdev exports a code cell with this source."""
    return bool(EXPORT.match(source.split("\n", 1)[0]))


@dataclass(frozen=True)
class Region:
    """One stretch between solution markers; lines count from 1 and are those of the markers."""

    begin: int
    end: int
    indent: str


def solution_regions(source: str) -> list[Region]:
    """Return the regions between solution markers; ``ValueError`` says what is wrong with the markers."""
    found: list[Region] = []
    opened: tuple[int, str] | None = None
    for number, line in enumerate(source.split("\n"), 1):
        begin = BEGIN.match(line)
        if begin and opened:
            raise ValueError("a second BEGIN SOLUTION comes before END SOLUTION")
        if begin:
            opened = number, begin[1]
        elif END.match(line):
            if not opened:
                raise ValueError("END SOLUTION comes without a BEGIN SOLUTION")
            found.append(Region(opened[0], number, opened[1]))
            opened = None
        elif re.search(r"#\s*(BEGIN|END) SOLUTION", line, re.IGNORECASE):
            raise ValueError(f"{line.strip()!r} is not a marker; write `### BEGIN SOLUTION` and `### END SOLUTION`")
    if opened:
        raise ValueError("BEGIN SOLUTION has no END SOLUTION")
    return found


# what a string needs to go on in the next line: three quotes, a backslash at the end, an f-string's open brace
_GOES_ON = re.compile(r"\"\"\"|'''|\\\n|[fFtT][rR]?[\"'].*\{[^}\n]*\n")


@lru_cache(maxsize=1000)
def inside_strings(source: str) -> frozenset[int]:
    """Return the lines (from 1) that begin inside a string; indenting those would change the string."""
    inner: set[int] = set()
    starts: list[int] = []
    if not _GOES_ON.search(source):  # to tokenize takes a hundred times as long
        return frozenset()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = tokenize.tok_name[token.type]
            if kind == "FSTRING_START":
                starts.append(token.start[0])
            elif kind == "FSTRING_END":
                inner.update(range(starts.pop() + 1, token.end[0] + 1))
            elif kind == "STRING":
                inner.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        return frozenset()
    return frozenset(inner)


@dataclass(frozen=True)
class Cell:
    """One cell: where it stands and what it is."""

    index: int
    data: CellDict
    line: int | None
    section: int
    place: int

    @property
    def source(self) -> str:
        """The cell's text."""
        return str(self.data["source"])

    @property
    def is_code(self) -> bool:
        """Whether it is a code cell."""
        return bool(self.data["cell_type"] == "code")

    @property
    def exported(self) -> bool:
        """Whether nbdev exports it."""
        return self.is_code and is_exported(self.source)

    @property
    def graded(self) -> bool:
        """Whether it checks what the learner wrote, for points or (in a bonus notebook) for none."""
        return bool(grader(self.data).get("grade"))

    @property
    def solution(self) -> bool:
        """Whether the learner writes in it."""
        return bool(grader(self.data).get("solution"))

    @property
    def name(self) -> str:
        """What people call it: its ``grade_id``, or "cell 7"."""
        return str(grader(self.data).get("grade_id") or f"cell {self.index}")

    @cached_property
    def tree(self) -> ast.Module | None:
        """The parsed code, or ``None`` where it does not parse or is no code."""
        if not self.is_code:
            return None
        try:
            return ast.parse(self.source)
        except NOT_PYTHON:
            return None

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the parsed code; none where it does not parse or is no code."""
        return list(ast.walk(self.tree)) if self.tree else []

    def enclosing(self, line: int) -> list[ast.AST]:
        """Return the classes and functions around a line of this cell, outermost first."""
        found: list[ast.AST] = []
        for node in self.nodes:
            if (isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                    and node.lineno < line <= (node.end_lineno or 0)):
                found.append(node)
        return sorted(found, key=lambda node: node.lineno)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a notebook, in one sentence, and where."""

    file: str
    cell: str
    sentence: str
    line: int | None = None

    @property
    def error(self) -> NotebookError:
        """The fault as an exception."""
        return NotebookError(self.sentence, f"{self.file}:{self.line}" if self.line else self.file, self.cell)

    def __str__(self) -> str:
        """Place and sentence."""
        return str(self.error)


@dataclass(frozen=True)
class Book:
    """A module's notebook as a list of cells, and the owners of all export targets."""

    module: Module
    file: str
    cells: list[Cell]
    owners: dict[str, Module] = field(default_factory=dict)

    @property
    def code(self) -> list[Cell]:
        """The code cells."""
        return [cell for cell in self.cells if cell.is_code]

    @property
    def exported(self) -> list[Cell]:
        """The cells nbdev exports."""
        return [cell for cell in self.cells if cell.exported]

    @property
    def graded(self) -> list[Cell]:
        """The cells that give points."""
        return [cell for cell in self.cells if cell.graded]

    @property
    def part_of_one(self) -> Fault | None:
        """The fault of a notebook that is not a whole one: its points are not 100, or a bonus one checks nothing."""
        if self.module.bonus:
            return None if self.graded else self.fault(
                None, "a bonus notebook needs graded cells (of 0 points), or nothing says when it is complete")
        points = [grader(cell.data).get("points") for cell in self.graded]
        total = sum(one for one in points if isinstance(one, (int, float)))
        return None if total == POINTS else self.fault(
            None, f"the points of this notebook add up to {total:g}, not {POINTS}")

    def fault(self, cell: Cell | None, sentence: str, line: int = 1) -> Fault:
        """Return a fault at a cell (and a line of it)."""
        if cell is None:
            return Fault(self.file, "", sentence)
        return Fault(self.file, cell.name, sentence, cell.line + line - 1 if cell.line else None)


def _cells(nb: Notebook, lines: list[int | None]) -> Iterator[Cell]:
    section = place = 0
    for index, (data, line) in enumerate(zip(nb["cells"], lines), 1):
        if data["cell_type"] == "markdown":
            for heading in _HEADING.finditer(data["source"]):
                section, place = int(heading[1] or 0), 0
        elif data["cell_type"] == "code":
            place += 1
        yield Cell(index, data, line, section, place)


def open_book(nb: Notebook, module: Module, file: str | None = None, owners: dict[str, Module] | None = None) -> Book:
    """Look at a notebook cell by cell; ``file`` is the source unless said otherwise."""
    own = module.source.relative_to(module.root).as_posix()
    lines: list[int | None] = [None] * len(nb["cells"])
    if file is None:
        lines = source_lines(module, len(nb["cells"]))
    return Book(module, file or own, list(_cells(nb, lines)), owners or {})
