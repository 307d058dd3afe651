"""Links that open a module in Binder or Colab, made of one address: `[project.urls] Repository` in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from tito.project import Module, find_root

BRANCH = "main"
ROOT = find_root(Path(__file__))
_SECTION = re.compile(r"^\[project\.urls\]\s*$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"""^Repository\s*=\s*["'](.*)["']\s*(?:#.*)?$""", re.MULTILINE)
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def repository(text: str) -> str | None:
    """Return ``OWNER/NAME`` from the text of a pyproject.toml; ``None`` where it names no repository yet.

    What Binder and Colab cannot open from is a ``ValueError``.
    """
    section = _SECTION.search(text)
    address = _ADDRESS.search(section[1]) if section else None
    if address is None:
        return None
    found = _GITHUB.fullmatch(address[1].strip())
    if not found:
        raise ValueError(f"[project.urls] Repository is {address[1]!r}; want https://github.com/OWNER/NAME")
    return found[1]


def here() -> str | None:
    """Return the repository that this checkout names."""
    return repository((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def notebook(module: Module) -> str:
    """Return a module's notebook as a path in the repository."""
    return module.notebook.relative_to(module.root).as_posix()


def binder(owner_name: str, path: str) -> str:
    """Return the address at which Binder builds the repository and opens a notebook in JupyterLab."""
    return f"https://mybinder.org/v2/gh/{owner_name}/{quote(BRANCH)}?labpath={quote(path, safe='')}"


def colab(owner_name: str, path: str) -> str:
    """Return the address at which Colab opens a notebook of the repository."""
    return f"https://colab.research.google.com/github/{owner_name}/blob/{quote(BRANCH)}/{quote(path)}"


def colab_cell(owner_name: str) -> str:
    """Return the cell to run first in Colab, where nothing of the course is installed."""
    return f'%pip install --quiet "tinytorch @ git+https://github.com/{owner_name}@{BRANCH}"'
