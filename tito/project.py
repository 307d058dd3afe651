"""Where things are: the checkout's root and its modules, read from the folders and nowhere else."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from tito.errors import ProjectError

PACKAGE = "tinytorch"
_FOLDER = re.compile(r"(\d\d)_([a-z][a-z0-9_]*)")
_NOTEBOOK = re.compile(r"([a-z][a-z0-9_]*)_dev\.ipynb")
_NAMED = re.compile(r"""^\[project\][^\[]*?^name\s*=\s*["']tinytorch["']""", re.MULTILINE | re.DOTALL)
_DEFAULT_EXP = re.compile(r"^#\|\s*default_exp\s+([\w.]+)\s*$", re.MULTILINE)
_TITLE = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)


def read_text(path: Path, where: str = "") -> str:
    """Read a UTF-8 file, with or without a byte-order mark; what is not UTF-8 is a ``ProjectError``."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProjectError(f"{where or path}: this file is not UTF-8 text ({error.reason} at byte {error.start}); save "
                           "it as UTF-8 in your editor.") from None


def is_root(folder: Path) -> bool:
    """Say whether ``folder`` is a TinyTorch checkout: its pyproject names the project and it has ``src/``."""
    project = folder / "pyproject.toml"
    return (folder / "src").is_dir() and project.is_file() and bool(
        _NAMED.search(project.read_text(encoding="utf-8", errors="replace")))


def find_root(start: Path | str | None = None) -> Path:
    """Return the checkout that holds ``start`` (the current folder when not given)."""
    here = Path(start) if start is not None else Path.cwd()
    here = here.resolve()
    for folder in (here, *here.parents):
        if is_root(folder):
            return folder
    raise ProjectError(f"No TinyTorch checkout here: neither {here} nor a folder above it has a pyproject.toml that "
                       "names the project tinytorch and a src/ folder; change into the checkout, or get what it lacks "
                       "again from where it came from.")


@dataclass(frozen=True)
class Module:
    """One notebook of the course: a module, or a bonus notebook in a module's folder, and the files made from it."""

    number: int
    name: str
    folder: str
    root: Path

    @property
    def label(self) -> str:
        """What people call it: ``NN_name``, a module's folder (for a bonus notebook, the name of its source)."""
        return f"{self.number:02d}_{self.name}"

    @property
    def bonus(self) -> bool:
        """Whether it is a second notebook of a folder: it is tested like any other and gives no points."""
        return self.label != self.folder

    @property
    def order(self) -> tuple[int, str]:
        """Where it stands in the course: a folder's bonus notebooks come after its own, before the next folder."""
        return self.number, self.name if self.bonus else ""

    @property
    def source(self) -> Path:
        """The percent notebook that is edited: ``src/NN_name/NN_name.py``, a bonus one's lies beside it."""
        return self.root / "src" / self.folder / f"{self.label}.py"

    @property
    def notebook(self) -> Path:
        """The learner's notebook: ``modules/NN_name/<name>_dev.ipynb``."""
        return self.root / "modules" / self.folder / f"{self.name}_dev.ipynb"

    @property
    def twin(self) -> Path:
        """The learner's notebook as a script: ``modules/NN_name/<name>_dev.py``."""
        return self.notebook.with_suffix(".py")

    @property
    def tests(self) -> Path:
        """The notebook's test folder: ``tests/NN_name``."""
        return self.root / "tests" / self.label

    @property
    def _said(self) -> tuple[str, str]:
        """The text that says target and title: the source, or the notebook's cells where there is no source."""
        if self.source.is_file():
            where = _relative(self.source, self.root)
            return read_text(self.source, where), where
        if self.notebook.is_file():
            try:
                cells = json.loads(self.notebook.read_text(encoding="utf-8-sig"))["cells"]
                return "\n".join("".join(cell["source"]) for cell in cells), _relative(self.notebook, self.root)
            except (ValueError, KeyError, TypeError, RecursionError):
                return "", _relative(self.notebook, self.root)
        return "", _relative(self.source, self.root)

    @property
    def target(self) -> str:
        """The package module it exports to, such as ``tinytorch.perf.profiling``, from ``default_exp``."""
        text, where = self._said
        found = _DEFAULT_EXP.search(text)
        if not found:
            raise ProjectError(f"{where}: no cell says where to export; its first code cell should be "
                               f"`#| default_exp core.{self.name}`; where nobody is writing this file it is damaged: "
                               "get it again from where the checkout came from.")
        return f"{PACKAGE}.{found[1]}"

    @property
    def package(self) -> Path:
        """The generated file of the package."""
        return self.root.joinpath(*self.target.split(".")).with_suffix(".py")

    @property
    def title(self) -> str:
        """The first heading of the notebook, without its number: "Layers"."""
        found = _TITLE.search(self._said[0].split("# %% [markdown]", 1)[-1])
        return re.sub(r"^(Module\s+)?\d+\s*[·:.\-–—]?\s*", "", found[1]) if found else self.name.capitalize()


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def modules(root: Path) -> list[Module]:
    """Return the notebooks of a checkout in the order of the course, bonus ones after their folder's own.

    They are read from ``src/`` and, where that lacks one, ``modules/``. A second ``NN_*.py`` in ``src/NN_name/`` is a
    bonus notebook; so is a second ``*_dev.ipynb`` in ``modules/NN_name/`` where ``src/NN_name/`` holds no source.
    """
    found: dict[str, Module] = {}
    for parent in ("src", "modules"):
        if (root / parent).is_dir():
            for folder in sorted((root / parent).iterdir()):
                named = _FOLDER.fullmatch(folder.name)
                if named and folder.is_dir() and folder.name not in found:
                    module = Module(int(named[1]), named[2], folder.name, root)
                    if module.source.is_file() or module.notebook.is_file():
                        found[folder.name] = module
                    for name in _bonus_names(module):
                        found[f"{folder.name}/{name}"] = Module(module.number, name, folder.name, root)
    return sorted(found.values(), key=lambda module: (module.number, module.folder, module.order))


def target_owners(root: Path) -> dict[str, Module]:
    """Return the module that owns each export target; one that says no target is left out (its build says so)."""
    owners: dict[str, Module] = {}
    for module in modules(root):
        with contextlib.suppress(ProjectError):
            owners.setdefault(module.target, module)
    return owners


def _bonus_names(module: Module) -> set[str]:
    """Return the names of a folder's other notebooks: of its sources, or of what is built where it has none."""
    sources = [_FOLDER.fullmatch(file.stem) for file in module.source.parent.glob("*.py")]
    names = {named[2] for named in sources if named and int(named[1]) == module.number}
    if not names:
        names = {named[1] for file in module.notebook.parent.glob("*_dev.ipynb")
                 if (named := _NOTEBOOK.fullmatch(file.name))}
    return names - {module.name}


def find_module(root: Path, text: str) -> Module:
    """Return the module a person means by ``text``: "profiling", "14", "14_profiling", "transformer(s)".

    A number alone means the folder's own module, not its bonus notebook.
    """
    known = modules(root)
    asked = text.strip().strip("/").lower().replace("-", "_")
    number, _, name = asked.partition("_")
    if not number.isdigit():
        number, name = "", asked
    for module in known:
        names = {module.name, module.name + "s", module.name.removesuffix("s")}
        if (not number or int(number) == module.number) and (name in names or (number and not name)):
            return module
    if not known:
        raise ProjectError(f"There are no modules in {root}: src/ holds no folder such as 01_tensor.")
    close = difflib.get_close_matches(name or asked, [module.name for module in known], n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}?" if close else "the modules are " + ", ".join(
        module.label for module in known) + "."
    raise ProjectError(f"There is no module {text.strip()!r}: {meant}")
