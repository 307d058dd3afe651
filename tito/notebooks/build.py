"""Build every product of the sources, or compare them with what is committed; both make them in memory first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tito.errors import NotebookError, ProjectError
from tito.notebooks.book import Fault, open_book
from tito.notebooks.checks import find_faults, nbdev_faults, project_faults
from tito.notebooks.export import export_text, is_edited, is_generated, sweep, write_atomically
from tito.notebooks.read import Notebook, dumps, load, read_source
from tito.notebooks.release import is_untouched, recorded_hash, released
from tito.notebooks.twin import read_twin, write_twin
from tito.project import PACKAGE, Module, find_module, modules, target_owners


class BuildError(NotebookError):
    """The sources cannot be built as they are; ``faults`` has every reason."""

    def __init__(self, faults: list[Fault]):
        """Say the first fault, and how many more there are."""
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"{faults[0]}{more}")
        self.faults = faults


@dataclass(frozen=True)
class Products:
    """What one source becomes."""

    module: Module
    release: str
    notebook: str
    twin: str
    package: str


@dataclass
class BuildResult:
    """What a build did, as paths relative to the root."""

    modules: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Difference:
    """One file that is not what its source makes it."""

    path: str
    sentence: str

    def __str__(self) -> str:
        """Path and sentence."""
        return f"{self.path}: {self.sentence}"


@dataclass
class CheckResult:
    """What a check found."""

    modules: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


# ---------------------------------------------------------------- making


def make(root: Path, chosen: list[Module], tell: Callable[[str], None] = lambda text: None) -> list[Products]:
    """Make the products of these modules in memory; ``BuildError`` lists every fault of their sources."""
    owners = target_owners(root)
    faults, made = list(project_faults(root)), []
    for module in chosen:
        tell(f"building {module.label}")
        marked = read_source(module)
        book = open_book(marked, module, owners=owners)
        found = find_faults(book)
        faults += found
        if not faults:
            nb = released(book, marked)
            made.append(Products(module, recorded_hash(nb), dumps(nb), write_twin(nb), export_text(marked, module)))
    if faults:
        raise BuildError(faults)
    return made


def sources(root: Path) -> list[Module]:
    """Return the modules that have a source."""
    found = [module for module in modules(root) if module.source.is_file()]
    if not found:
        raise ProjectError(f"There is nothing to build: {root / 'src'} holds no source such as 01_tensor/01_tensor.py.")
    return found


def build(root: Path, names: Iterable[str] = (), tell: Callable[[str], None] = lambda text: None) -> BuildResult:
    """Build all modules, or the named ones. Work of a learner, and files written by hand, are never overwritten."""
    chosen = [find_module(root, name) for name in names] or sources(root)
    made = make(root, chosen, tell)
    for product in made:
        _may_be_replaced(root, product.module)
    result = BuildResult([module.label for module in chosen])
    for product in made:
        module = product.module
        _put(result, module, module.package, product.package)
        _put(result, module, module.notebook, product.notebook)
        _put(result, module, module.twin, product.twin)
    result.orphans = [orphan.path for orphan in orphans(root)]
    return result


def _put(result: BuildResult, module: Module, path: Path, text: str) -> None:
    name = path.relative_to(module.root).as_posix()
    sweep(path)
    old = read_text(path)
    if old == text:
        result.unchanged.append(name)
    elif old is not None and path != module.package and not is_release(path, module):
        result.kept.append(name)
    else:
        write_atomically(path, text)
        result.written.append(name)


def read_text(path: Path) -> str | None:
    """Return a file's text with plain line ends, ``None`` where there is no such file."""
    return path.read_text(encoding="utf-8-sig", errors="replace") if path.is_file() else None


def read_work(path: Path, module: Module) -> Notebook:
    """Read a notebook or a twin."""
    if path.suffix == ".ipynb":
        return load(path)
    return read_twin(path.read_text(encoding="utf-8-sig"), module.name)


def is_release(path: Path, module: Module) -> bool:
    """Say whether a notebook or twin is, cell for cell, a release of ours; one that cannot be read is not."""
    try:
        return is_untouched(read_work(path, module))
    except (NotebookError, UnicodeDecodeError, ValueError, SyntaxError):
        return False


def _may_be_replaced(root: Path, module: Module) -> None:
    """Refuse to lose what somebody wrote into a package file."""
    text, name = read_text(module.package), module.package.relative_to(root).as_posix()
    source = module.source.relative_to(root).as_posix()
    if text and not is_generated(text):
        raise NotebookError(f"this file was written by hand, and {source} would overwrite it; move one of them", name)
    if text and is_edited(text):
        raise NotebookError(f"this generated file was edited by hand; move the change to {source}, delete this "
                            "file and build again", name)


# ---------------------------------------------------------------- comparing


def check(root: Path, names: Iterable[str] = (), tell: Callable[[str], None] = lambda text: None) -> CheckResult:
    """Compare what the sources make with what is there; nothing is written."""
    chosen = [find_module(root, name) for name in names] or sources(root)
    result = CheckResult([module.label for module in chosen])
    for product in make(root, chosen, tell):
        module = product.module
        result.differences += _package_differences(root, product)
        for path, text in ((module.notebook, product.notebook), (module.twin, product.twin)):
            name, old = path.relative_to(root).as_posix(), read_text(path)
            if old == text:
                continue
            if old is None:
                result.differences.append(Difference(name, "is missing; run `tito build`"))
            elif is_release(path, module):
                result.differences.append(Difference(name, "is not what its source makes; run `tito build`"))
            elif _release_of(path, module) == product.release:
                result.differences.append(Difference(name, "holds a learner's work, not the release"))
            else:
                result.differences.append(Difference(
                    name, "holds a learner's work on another release than the source makes"))
    result.differences += orphans(root)
    result.differences += [Difference(fault.file, fault.sentence) for fault in nbdev_faults(root)]
    return result


def _package_differences(root: Path, product: Products) -> Iterator[Difference]:
    path = product.module.package
    name, text = path.relative_to(root).as_posix(), read_text(path)
    source = product.module.source.relative_to(root).as_posix()
    if text == product.package:
        return
    if text is None:
        yield Difference(name, "is missing; run `tito build`")
    elif not is_generated(text):
        yield Difference(name, f"is written by hand where {source} exports to")
    elif is_edited(text):
        yield Difference(name, f"was edited by hand; the file to edit is {source}")
    else:
        yield Difference(name, f"is not what {source} makes; run `tito build`")


def _release_of(path: Path, module: Module) -> str:
    try:
        return recorded_hash(read_work(path, module))
    except (NotebookError, UnicodeDecodeError, ValueError, SyntaxError):
        return ""


def orphans(root: Path) -> Iterator[Difference]:
    """Yield generated files whose source is gone or has another name now."""
    owned: set[Path] = set()
    for module in modules(root):
        if module.source.is_file():
            owned |= {module.notebook, module.twin, module.package}
    package, desks = root / PACKAGE, root / "modules"
    for path in sorted(package.rglob("*.py")) if package.is_dir() else ():
        if path not in owned and is_generated(read_text(path) or ""):
            yield Difference(path.relative_to(root).as_posix(), "was exported from a source that is gone; delete it")
    for path in sorted(desks.glob("*/*_dev.*")) if desks.is_dir() else ():
        if path not in owned and path.suffix in (".ipynb", ".py"):
            yield Difference(path.relative_to(root).as_posix(), "was built from a source that is gone; delete it if "
                                                                "nobody works in it")
