"""How the house is built: imports point backward, a file has one owner, what is generated is up to date."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tito.notebooks.book import open_book
from tito.notebooks.build import check, make, sources
from tito.notebooks.checks import imports_point_backward, project_faults
from tito.notebooks.export import is_generated
from tito.notebooks.read import read_source
from tito.project import find_root, target_owners

ROOT = find_root(Path(__file__))
MODULES = sources(ROOT)

DIGEST = """
import hashlib, sys
from pathlib import Path
from tito.notebooks.build import make, sources
root = Path(sys.argv[1])
for made in make(root, sources(root)):
    print(hashlib.sha256((made.notebook + made.twin + made.package).encode()).hexdigest(), made.module.label)
"""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.label)
def test_imports_point_backward(module):
    """A notebook imports lower-numbered modules only, directly or through hand-written files."""
    book = open_book(read_source(module), module, owners=target_owners(ROOT))
    assert [str(fault) for fault in imports_point_backward(book)] == []


def test_every_file_has_one_owner():
    """No two notebooks share a place in the course, a name or a target."""
    assert [str(fault) for fault in project_faults(ROOT)] == []
    for one in ("order", "name", "target"):
        values = [getattr(module, one) for module in MODULES]
        assert len(values) == len(set(values)), one


def test_generated_and_hand_written_files_stay_apart():
    """Every generated file of the package belongs to a source, and every source's file is generated."""
    generated = {path for path in (ROOT / "tinytorch").rglob("*.py") if is_generated(path.read_text(encoding="utf-8"))}
    assert generated == {module.package for module in MODULES}


def test_the_build_leaves_no_difference():
    """What is committed is what the sources make."""
    assert [str(difference) for difference in check(ROOT).differences] == []


def test_two_builds_are_equal_to_the_byte(tmp_path):
    """A second build, in another process, folder and hash seed, makes the same bytes."""
    here = [f"{hashlib.sha256((made.notebook + made.twin + made.package).encode()).hexdigest()} {made.module.label}"
            for made in make(ROOT, MODULES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", DIGEST, str(ROOT)], cwd=tmp_path, env=environment, check=True,
                           capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert there.stdout.splitlines() == here
