"""What would be lost or given away without a word: each such trap is one small check here.

A check looks at a notebook (a ``Book``) and yields faults. Those marked ``learner=True`` also hold for a notebook
somebody has worked in, before it is exported. ``project_faults`` looks at all notebooks together,
``nbdev_faults`` at nbdev's settings.
"""

from __future__ import annotations

import ast
import difflib
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tito.errors import NOT_PYTHON, NotebookError, ProjectError
from tito.notebooks.book import DEFAULT_EXP, EXPORT, SCAFFOLDING, Book, Cell, Fault, inside_strings, solution_regions
from tito.notebooks.read import SCHEMA, cell_id, grader, skill
from tito.notebooks.release import cut_solutions
from tito.notebooks.twin import GUARD
from tito.project import PACKAGE, Module, modules

Check = Callable[[Book], Iterator[Fault]]
CHECKS: list[Check] = []
LEARNER_CHECKS: list[Check] = []

_DIRECTIVES = ("default_exp", "export", "exporti", "hide", "eval", "echo")
_DIRECTIVE_LIKE = re.compile(r"^\s*#\s*\|\s*([\w-]*)")
_BARE_COMMENT = re.compile(r"^\s*#+\s*(\w+)(?:\s+[\w.]+)?\s*$")
_CANONICAL = re.compile(r"#\| (\w+)\b")
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def check(learner: bool = False) -> Callable[[Check], Check]:
    """Put a check on the list (on the learner's too, if it holds for her notebook)."""
    def add(function: Check) -> Check:
        CHECKS.append(function)
        if learner:
            LEARNER_CHECKS.append(function)
        return function
    return add


# ---------------------------------------------------------------- code


@check()
def code_parses(book: Book) -> Iterator[Fault]:
    """A cell that does not parse is reported at its line in the source."""
    yield from _syntax(book, book.code)


def exported_code_parses(book: Book) -> Iterator[Fault]:
    """A learner's other cells may be broken: they are not exported."""
    yield from _syntax(book, book.exported)


LEARNER_CHECKS.append(exported_code_parses)


def _syntax(book: Book, cells: Iterable[Cell]) -> Iterator[Fault]:
    for cell in cells:
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            at = error.lineno or 1
            where = "" if cell.line else f" (its line {at})"
            yield book.fault(cell, f"this cell is not Python{where}: {error.msg}", at)
        except NOT_PYTHON as error:
            yield book.fault(cell, f"this cell is not Python: {str(error) or 'it is nested too deep'}")


@check(learner=True)
def no_star_import(book: Book) -> Iterator[Fault]:
    """``import *`` hides where a name comes from, and what is exported."""
    for cell, node in _nodes(book.code, ast.ImportFrom):
        if any(alias.name == "*" for alias in node.names):
            yield book.fault(cell, f"`from {node.module} import *`: name what is imported", node.lineno)


# ---------------------------------------------------------------- what nbdev drops in silence


@check(learner=True)
def directives_are_exact(book: Book) -> Iterator[Fault]:
    """Nbdev drops a cell whose directive is misspelled: only ``#| name`` with a known name is one."""
    for cell in book.cells:
        strings = inside_strings(cell.source) if cell.is_code else set()
        lines = cell.source.split("\n") if cell.is_code else cell.source.split("\n")[:1]
        for number, line in enumerate(lines, 1):
            like, bare = _DIRECTIVE_LIKE.match(line), _BARE_COMMENT.match(line)
            if number in strings:
                continue
            if like and not cell.is_code:
                yield book.fault(cell, f"{line.strip()!r} stands in a text cell and would export nothing", number)
            elif like:
                exact = _CANONICAL.match(line)
                if not exact or exact[1] not in _DIRECTIVES:
                    close = difflib.get_close_matches(like[1], _DIRECTIVES, n=1, cutoff=0.5)
                    meant = f"; write `#| {close[0]}`" if close else ""
                    yield book.fault(cell, f"{line.strip()!r} is no directive, so the cell would be dropped in silence"
                                           f"{meant}", number)
            elif bare and cell.is_code and number <= 3 and bare[1] in ("export", "exporti", "exports", "default_exp"):
                yield book.fault(cell, f"{line.strip()!r} is a plain comment, so the cell would be dropped in silence; "
                                       f"write `#| {bare[1]}`", number)


@check(learner=True)
def strings_hold_no_marks(book: Book) -> Iterator[Fault]:
    """A line of a string that reads like a marker would be cut from it, or cut the cell in two."""
    for cell in book.exported:
        strings = inside_strings(cell.source)
        for number, line in enumerate(cell.source.split("\n"), 1):
            if number in strings and SCAFFOLDING.match(line):
                yield book.fault(cell, f"the line {line.strip()!r} of a string would be cut, as a solution marker is; "
                                       "write it another way", number)
            elif re.match(r"#\s*%%", line):
                yield book.fault(cell, f"the line {line.strip()!r} would begin a new cell in the .py twin; indent it "
                                       "or write it another way", number)


@check(learner=True)
def export_comes_first(book: Book) -> Iterator[Fault]:
    """Nbdev drops a cell whose export directive is not its first line."""
    for cell in book.code:
        strings = inside_strings(cell.source)
        for number, line in enumerate(cell.source.split("\n"), 1):
            if number > 1 and number not in strings and re.match(r"\s*#\| (exporti?|default_exp)\b", line):
                yield book.fault(cell, f"{line.strip()!r} must be the first line of its cell, or nothing is exported",
                                 number)


@check(learner=True)
def exports_stay_home(book: Book) -> Iterator[Fault]:
    """No cell exports into another notebook's file."""
    for cell in book.code:
        first = cell.source.split("\n", 1)[0]
        if re.match(r"#\| exporti?\b", first) and not EXPORT.match(first):
            yield book.fault(cell, f"{first.strip()!r} names a file to export to; write `#| export`: one notebook, "
                                   "one file")


@check(learner=True)
def says_where_to_export(book: Book) -> Iterator[Fault]:
    """Without ``default_exp`` in its first code cell a notebook exports nothing; two would export to the last."""
    said = [(cell, found[1]) for cell in book.code
            if (found := DEFAULT_EXP.match(cell.source.split("\n", 1)[0]))]
    wanted = f"core.{book.module.name}"
    if not said:
        yield book.fault(book.code[0] if book.code else None,
                         f"no cell says where to export; the first code cell should be `#| default_exp {wanted}`")
        return
    if len(said) > 1:
        yield book.fault(said[1][0], "a second `#| default_exp`: one notebook exports to one file")
    cell, target = said[0]
    if cell is not book.code[0]:
        yield book.fault(cell, "`#| default_exp` belongs into the first code cell")
    if not re.fullmatch(r"[a-z_]\w*(\.[a-z_]\w*)*", target) or target.split(".")[-1].startswith("__"):
        yield book.fault(cell, f"`#| default_exp {target}` is no module name; write something like {wanted}")
    elif "." in target and target.split(".")[-1] != book.module.name:
        yield book.fault(cell, f"`#| default_exp {target}` does not match {book.module.label}: the file is "
                               f"called {book.module.name}, as in {target.rsplit('.', 1)[0]}.{book.module.name}")


@check()
def exports_something(book: Book) -> Iterator[Fault]:
    """A notebook without exported cells would leave an old package file standing."""
    if not book.exported:
        yield book.fault(None, "no cell is exported; the first line of an exported cell is `#| export`")


@check(learner=True)
def target_matches_source(book: Book) -> Iterator[Fault]:
    """A learner's notebook exports where its module's source does."""
    said = [found[1] for cell in book.code if (found := DEFAULT_EXP.match(cell.source.split("\n", 1)[0]))]
    try:
        wanted = book.module.target.removeprefix(f"{PACKAGE}.")
    except ProjectError:
        return  # says_where_to_export says so
    if said and said[0] != wanted:
        yield book.fault(None, f"`#| default_exp {said[0]}` should be {wanted}, as in the module's source")


# ---------------------------------------------------------------- imports


@check(learner=True)
def imports_point_backward(book: Book) -> Iterator[Fault]:
    """Data walks through once: a notebook imports earlier modules only, and exports no import of tito."""
    mine = book.module
    for cell in book.code:
        for line, name in imported_names(cell.tree):
            if name.split(".")[0] == "tito":
                if cell.exported:
                    yield book.fault(cell, f"an exported cell imports {name}; the package must not need the course "
                                           "tool", line)
            elif name.split(".")[0] == PACKAGE:
                owners = sorted(reach(mine.root, name, book.owners), key=lambda owner: owner.order)
                late = next((owner for owner in owners if owner.order >= mine.order), None)
                if late:
                    which = "itself" if late == mine else _spoken(late)
                    yield book.fault(cell, f"{_spoken(mine)} imports {name}, which is or needs {which}; only "
                                           "lower-numbered modules may be imported", line)


def _spoken(module: Module) -> str:
    return f"module {module.number:02d}" + (f"'s bonus notebook {module.name}" if module.bonus else "")


def imported_names(tree: ast.AST | None) -> Iterator[tuple[int, str]]:
    """Yield (line, name) for each import in a tree; ``from a import b`` yields ``a.b``, which may be a file."""
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def reach(root: Path, name: str, owners: dict[str, Module], seen: frozenset[str] = frozenset()) -> set[Module]:
    """Return the modules that importing ``name`` needs, through hand-written files as well."""
    for known in (name, name.rpartition(".")[0]):
        if known in owners:
            return {owners[known]}
    for known in (name, name.rpartition(".")[0]):
        path = root.joinpath(*known.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file() and known not in seen:
                try:
                    tree = ast.parse(file.read_text(encoding="utf-8"))
                except SyntaxError:
                    return set()
                return set().union(*(reach(root, inner, owners, seen | {known})
                                     for _, inner in imported_names(tree) if inner.split(".")[0] == PACKAGE))
    return set()


# ---------------------------------------------------------------- nbgrader


@check()
def metadata_is_complete(book: Book) -> Iterator[Fault]:
    """Nbgrader refuses cells without ``schema_version`` 3, and keys it does not know."""
    known = {"schema_version", "cell_type", "grade", "grade_id", "locked", "points", "solution", "task"}
    for cell in book.cells:
        meta = cell.data["metadata"]
        if "nbgrader" not in meta and not ({"incorrectly_encoded_metadata"} & set(meta)):
            continue
        if not isinstance(meta.get("nbgrader"), dict):
            yield book.fault(cell, "the nbgrader={...} of this cell is not JSON (true and false, double quotes)")
            continue
        short = meta["nbgrader"]
        if short.get("schema_version") != SCHEMA:
            yield book.fault(cell, f"schema_version should be {SCHEMA}; nbgrader refuses the notebook without it")
        for key in sorted(set(short) - known):
            yield book.fault(cell, f"nbgrader knows no key {key!r}")
        for key in ("grade", "solution", "locked", "task"):
            if not isinstance(short.get(key), bool):
                yield book.fault(cell, f"nbgrader's {key!r} should be true or false")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(short.get("grade_id", ""))):
            yield book.fault(cell, "grade_id should be 1 to 64 letters, digits, - or _")
        if not cell.is_code and (cell.graded or cell.solution):
            yield book.fault(cell, "a text cell cannot be graded or hold a solution here")


@check()
def ids_are_fixed(book: Book) -> Iterator[Fault]:
    """Cell ids come from ``grade_id``, or module and position: random ones would change with every build."""
    for cell in book.cells:
        wanted = cell_id(cell.data, book.module.name, cell.index)
        if cell.data.get("id") != wanted:
            yield book.fault(cell, f"the cell's id is {cell.data.get('id')!r} where every build gives {wanted!r}")


@check()
def grade_ids_are_unique(book: Book) -> Iterator[Fault]:
    """A copied cell has the ``grade_id`` of another; nbgrader then speaks of old metadata."""
    seen: dict[str, Cell] = {}
    for cell in book.cells:
        found = grader(cell.data).get("grade_id")
        if found in seen:
            yield book.fault(cell, f"cell {cell.index} has the grade_id {found!r} of cell {seen[found].index}")
        elif found:
            seen[found] = cell


@check()
def points_add_up(book: Book) -> Iterator[Fault]:
    """Points are whole and positive and make 100, a bonus notebook's are 0; each graded cell belongs to a skill."""
    bonus = book.module.bonus
    for cell in book.graded:
        points = grader(cell.data).get("points")
        whole = points if isinstance(points, int) and not isinstance(points, bool) else -1
        if bonus and whole != 0:
            yield book.fault(cell, f"a graded cell of a bonus notebook gives 0 points; this one has {points!r}")
        if not bonus and whole <= 0:
            yield book.fault(cell, f"a graded cell needs points, a whole number above 0; this one has {points!r}")
        if not skill(cell.data):
            yield book.fault(cell, 'a graded cell names the skill it is for: "skill": "linear"')
    for cell in book.cells:
        if not cell.graded and "points" in grader(cell.data):
            yield book.fault(cell, "a cell that is not graded has points")
    if book.part_of_one:
        yield book.part_of_one


# ---------------------------------------------------------------- solutions


@check()
def solutions_are_marked(book: Book) -> Iterator[Fault]:
    """A solution cell without markers would be replaced whole; markers elsewhere would stay in the notebook."""
    for cell in book.code:
        try:
            regions = solution_regions(cell.source)
        except ValueError as error:
            yield book.fault(cell, str(error))
            continue
        if regions and not cell.solution:
            yield book.fault(cell, 'solution markers stand in a cell that is not marked "solution": true, so its '
                                   "solution would be handed out", regions[0].begin)
        if cell.solution and not regions:
            yield book.fault(cell, "a solution cell without markers would be replaced whole, signature and all")
        if cell.solution and cell.graded:
            yield book.fault(cell, "a cell is graded or holds a solution, not both")
        for region in regions:
            inner = cell.source.split("\n")[region.begin:region.end - 1]
            if not any(line.strip() and not line.lstrip().startswith("#") for line in inner):
                yield book.fault(cell, "there is no code between these solution markers", region.begin)
            elif cell.exported and cell.tree and not _in_function(cell, region.begin, inner):
                yield book.fault(cell, "an exported solution stands outside of a function; its stub would raise when "
                                       "the module is imported", region.begin)


def _in_function(cell: Cell, begin: int, inner: list[str]) -> bool:
    first = next(n for n, line in enumerate(inner, begin + 1) if line.strip() and not line.lstrip().startswith("#"))
    around = cell.enclosing(first)
    return bool(around) and isinstance(around[-1], _FUNCTION)


@check()
def stubs_parse(book: Book) -> Iterator[Fault]:
    """What is left when the solution is cut out must still be Python."""
    for cell in book.code:
        if not cell.solution or cell.tree is None:
            continue
        try:
            ast.parse(cut_solutions(cell))
        except NotebookError:
            continue  # solutions_are_marked says why
        except SyntaxError as error:
            yield book.fault(cell, f"with its solution cut out this cell is not Python: {error.msg}")


@check()
def stubs_are_not_called_on_import(book: Book) -> Iterator[Fault]:
    """An exported cell that calls a stub while it is imported would make the whole module fail."""
    stubs: set[str] = set()
    for cell in book.exported:
        if cell.tree is None or not cell.solution:
            continue
        try:
            regions = solution_regions(cell.source)
        except ValueError:
            continue
        for region in regions:
            around = cell.enclosing(region.begin + 1)
            if around and isinstance(around[-1], _FUNCTION):
                owner = around[0]
                if isinstance(owner, _FUNCTION) or around[-1].name in ("__init__", "__new__", "__post_init__"):
                    stubs.add(owner.name)  # type: ignore[attr-defined]
    for cell in book.exported:
        for node in _run_on_import(cell.tree):
            called = node.func if isinstance(node, ast.Call) else node
            if isinstance(called, ast.Name) and called.id in stubs:
                yield book.fault(cell, f"{called.id} is called while the module is imported; unfilled it would raise",
                                 called.lineno)


def _run_on_import(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Yield the calls and bare decorators that run when a module is imported."""
    for node in ast.iter_child_nodes(tree) if tree else ():
        if isinstance(node, (*_FUNCTION, ast.ClassDef)):
            yield from (entry for entry in node.decorator_list if isinstance(entry, ast.Name))
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, _FUNCTION):
            for outer in (*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)):
                yield from _run_on_import(ast.Expression(outer))
        elif not isinstance(node, ast.Lambda):
            yield from _run_on_import(node)


# ---------------------------------------------------------------- graded cells


@check()
def graded_cells_run_their_test(book: Book) -> Iterator[Fault]:
    """A graded cell that only defines its test gives its points away; so does one that swallows exceptions."""
    for cell in book.graded:
        if cell.tree is None:
            continue
        tests = {node.name: node for node in cell.tree.body
                 if isinstance(node, _FUNCTION) and node.name.startswith("test_")}
        if not tests:
            yield book.fault(cell, "a graded cell defines a function test_... and calls it in its last line")
            continue
        last = cell.tree.body[-1]
        if _called(last) not in tests:
            what = "ends in an expression, whose value nbgrader would take for points" if isinstance(
                last, ast.Expr) else "does not call its test"
            yield book.fault(cell, f"this graded cell {what}; its last line should be {next(iter(tests))}()",
                             last.lineno)
        for name in sorted(set(tests) - {_called(node) for node in cell.tree.body}):
            if name != next(iter(tests)) or _called(last) in tests:
                yield book.fault(cell, f"{name} is defined and never called", tests[name].lineno)
        for name, test in tests.items():
            yield from _test_can_fail(book, cell, name, test)


def _called(node: ast.stmt) -> str:
    """Return the name a statement ``name()`` calls, empty for any other statement."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
        return node.value.func.id
    return ""


def _test_can_fail(book: Book, cell: Cell, name: str,
                   test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Fault]:
    checks = False
    for node in ast.walk(test):
        if isinstance(node, ast.Return) and _owner(test, node) is test:
            yield book.fault(cell, f"{name} returns " + (
                "before its checks are over" if node.value is None else
                "a value, which nbgrader would take for points"), node.lineno)
        if isinstance(node, (ast.Yield, ast.YieldFrom)) and _owner(test, node) is test:
            yield book.fault(cell, f"{name} is a generator: calling it runs nothing", node.lineno)
        checks = checks or isinstance(node, (ast.Assert, ast.Raise)) or (
            isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))
            and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr).startswith(("check", "assert")))
    if isinstance(test, ast.AsyncFunctionDef):
        yield book.fault(cell, f"{name} is async: calling it runs nothing", test.lineno)
    for decorator in test.decorator_list:
        yield book.fault(cell, f"{name} has a decorator, which may call it or not", decorator.lineno)
    if not checks:
        yield book.fault(cell, f"{name} checks nothing", test.lineno)


def _owner(root: ast.AST, target: ast.AST) -> ast.AST:
    """Return the innermost function around a node."""
    owner = root
    for node in ast.walk(root):
        if isinstance(node, (*_FUNCTION, ast.Lambda)) and any(inner is target for inner in ast.walk(node)):
            owner = node
    return owner


@check()
def graded_cells_swallow_nothing(book: Book) -> Iterator[Fault]:
    """A graded cell lets every exception through."""
    for cell in book.graded:
        for node in cell.nodes:
            if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
                yield book.fault(cell, "a graded cell with try/except may swallow the failure; use check_raises",
                                 node.lineno)  # type: ignore[attr-defined]
            elif "suppress" in _said_names(node):
                yield book.fault(cell, "a graded cell that suppresses exceptions gives its points away",
                                 node.lineno)  # type: ignore[attr-defined]
            elif "raises" in _said_names(node):
                yield book.fault(cell, "pytest.raises in a graded cell may swallow the failure; use check_raises",
                                 node.lineno)  # type: ignore[attr-defined]


def _said_names(node: ast.AST) -> list[str]:
    """Return the name a node uses, or those it imports."""
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    return [_last_name(node)] if isinstance(node, (ast.Name, ast.Attribute)) else []


@check()
def tests_and_checks_are_bound_once(book: Book) -> Iterator[Fault]:
    """A test, or a check it uses, that something else takes the name of is not run."""
    for cell in book.code:
        tests: set[str] = set()
        for node in cell.nodes:
            for name in _bound(node):
                if name in ("check", "check_raises") or (cell.graded and name in tests):
                    yield book.fault(cell, f"{name} is bound to something else here", node.lineno)  # type: ignore[attr-defined]
                elif cell.graded and name.startswith("test_"):
                    tests.add(name)


def _bound(node: ast.AST) -> list[str]:
    """Return the names a node binds; an import of a check from ``tito.checks`` binds what it should."""
    if isinstance(node, (*_FUNCTION, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        checks = isinstance(node, ast.ImportFrom) and node.module == "tito.checks"
        return [alias.asname or alias.name for alias in node.names
                if not (checks and alias.asname in (None, alias.name))]
    return []


@check()
def graded_cells_leave_stderr_alone(book: Book) -> Iterator[Fault]:
    """Nbgrader gives 0 points to a cell that wrote to stderr."""
    for cell in book.graded:
        for node in cell.nodes:
            if isinstance(node, (ast.Name, ast.Attribute)) and _last_name(node) in ("stderr", "warn", "warnings"):
                yield book.fault(cell, f"a graded cell must not write to stderr ({_last_name(node)}): nbgrader would "
                                       "give 0 points for it", node.lineno)


def _last_name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


@check()
def graded_cells_are_not_exported(book: Book) -> Iterator[Fault]:
    """A test has no place in the package."""
    for cell in book.graded:
        if cell.exported:
            yield book.fault(cell, "a graded cell is exported; tests do not belong into the package")


@check()
def tests_are_graded(book: Book) -> Iterator[Fault]:
    """A test in a cell that is not graded gives nobody points, and would be lost when the learner edits it."""
    for cell in book.code:
        if cell.graded or cell.tree is None:
            continue
        for node in cell.tree.body:
            if isinstance(node, _FUNCTION) and node.name.startswith("test_"):
                yield book.fault(cell, f"{node.name} stands in a cell that is not graded", node.lineno)


# ---------------------------------------------------------------- the twin


@check()
def twin_keeps_its_strings(book: Book) -> Iterator[Fault]:
    """Cells that are not exported are indented in the twin: no string in them goes over several lines."""
    for cell in book.code:
        if cell.exported or cell.tree is None:
            continue
        for line in sorted(inside_strings(cell.source))[:1]:
            yield book.fault(cell, "a string over several lines in a cell that is not exported; the .py twin would "
                                   "indent it", line)
        if cell.source.startswith(GUARD):
            yield book.fault(cell, f"`{GUARD}` is written by the build, not in the source")


# ---------------------------------------------------------------- all of it


def find_faults(book: Book, checks: Iterable[Check] | None = None) -> list[Fault]:
    """Return all faults of a notebook, in order of place."""
    found: list[Fault] = []
    for one in CHECKS if checks is None else checks:
        try:
            found += one(book)
        except tokenize.TokenError:  # a cell that does not parse is code_parses' business
            continue
    return sorted(dict.fromkeys(found), key=lambda fault: fault.line or 0)


def learner_faults(book: Book) -> list[Fault]:
    """Return what keeps a worked-in notebook from being exported whole."""
    return find_faults(book, LEARNER_CHECKS)


def project_faults(root: Path) -> Iterator[Fault]:
    """Yield what is wrong across notebooks: two that export to one file, a file that would not be built."""
    owners: dict[str, str] = {}
    known = [module for module in modules(root) if module.source.is_file()]
    for stray in sorted({file for module in known for file in module.source.parent.glob("*.py")}
                        - {module.source for module in known}):
        yield Fault(stray.relative_to(root).as_posix(), "", "would not be built: a second notebook of this folder has "
                    f"a name like {stray.parent.name[:3]}extra.py, and other code belongs elsewhere")
    for module in known:
        file = module.source.relative_to(root).as_posix()
        try:
            target = module.target
        except ProjectError:
            continue  # says_where_to_export says so
        if target.lower() in owners:
            yield Fault(file, "", f"exports to {target}, as {owners[target.lower()]} does; one file has one owner")
        owners.setdefault(target.lower(), file)


def nbdev_faults(root: Path) -> Iterator[Fault]:
    """Nbdev deletes nbgrader's metadata unless its settings keep it, as a list (a string would keep letters)."""
    nbdev: dict[str, Any] | None = _toml(root / "pyproject.toml").get("tool", {}).get("nbdev")
    if nbdev is None:
        yield Fault("pyproject.toml", "", "there is no [tool.nbdev]")
        return
    for key, wanted in (("allowed_cell_metadata_keys", "nbgrader"), ("allowed_metadata_keys", "tinytorch")):
        value = nbdev.get(key)
        if not isinstance(value, list) or wanted not in value:
            yield Fault("pyproject.toml", "[tool.nbdev]",
                        f'{key} should be a list with "{wanted}", or nbdev-clean deletes that metadata; '
                        f"it is {value!r}")


def _toml(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    try:
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotebookError(f"this is not TOML: {error}", path.name) from None
    return read


def _nodes(cells: Iterable[Cell], kind: type[ast.ImportFrom]) -> Iterator[tuple[Cell, ast.ImportFrom]]:
    for cell in cells:
        for node in cell.nodes:
            if isinstance(node, kind):
                yield cell, node
