"""Binder and Colab: the links' form, and that what they install and open is there."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tito.notebooks.read import load
from tito.project import find_root, modules

ROOT = find_root(Path(__file__))
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import launching  # noqa: E402

sys.path.remove(str(ROOT / "docs" / "_ext"))
tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BINDER = ROOT / ".binder"


@pytest.mark.parametrize(("text", "want"), [
    ('[project]\nname = "x"\n', None),
    ('[project.urls]\nDocumentation = "https://example.org"\n', None),
    ('[other]\nRepository = "https://github.com/a/b"\n', None),
    ('[project.urls]\nRepository = "https://github.com/ana/tiny-torch"\n[tool.x]\n', "ana/tiny-torch"),
    ('[project.urls]\nHomepage = "https://a.org"\nRepository = "https://github.com/a/b.git"  # here\n', "a/b"),
])
def test_the_address_is_read_from_one_place(text, want):
    assert launching.repository(text) == want


def test_what_binder_cannot_open_is_refused():
    with pytest.raises(ValueError, match=r"example\.org.*want https://github\.com/OWNER/NAME"):
        launching.repository('[project.urls]\nRepository = "https://example.org/a/b"\n')


def test_this_checkout_agrees_with_a_real_reader_of_toml():
    address = PROJECT["project"].get("urls", {}).get("Repository")
    assert (launching.here() is None) == (address is None)
    assert address is None or launching.here() in address


@pytest.mark.parametrize("module", modules(ROOT), ids=lambda module: module.label)
def test_links_lead_to_a_notebook_that_is_there(module):
    path = launching.notebook(module)
    assert (ROOT / path).is_file()
    binder = urlsplit(launching.binder("ana/tiny", path))
    assert (binder.netloc, binder.path) == ("mybinder.org", f"/v2/gh/ana/tiny/{launching.BRANCH}")
    assert parse_qs(binder.query) == {"labpath": [path]}
    colab = urlsplit(launching.colab("ana/tiny", path))
    assert colab.netloc == "colab.research.google.com"
    assert unquote(colab.path) == f"/github/ana/tiny/blob/{launching.BRANCH}/{path}"


def test_binder_installs_extras_that_exist():
    lines = [line for line in (BINDER / "requirements.txt").read_text(encoding="utf-8").splitlines()
             if line and not line.startswith("#")]
    assert lines
    for line in lines:
        named = re.fullmatch(r"-e \.\[([\w,]+)\]", line)
        assert named, line
        assert set(named[1].split(",")) <= PROJECT["project"]["optional-dependencies"].keys()


def test_binder_takes_a_python_that_the_project_takes():
    said = re.fullmatch(r"python-(\d+)\.(\d+)\n", (BINDER / "runtime.txt").read_text(encoding="utf-8"))
    least = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["project"]["requires-python"])
    assert tuple(map(int, said.groups())) >= tuple(map(int, least.groups()))


def test_binder_start_hands_on_what_it_was_given():
    if os.name == "nt":
        pytest.skip("a shell script")
    assert os.access(BINDER / "start", os.X_OK)
    ask = "import os; print(os.environ['OPENBLAS_NUM_THREADS'])"
    done = subprocess.run([str(BINDER / "start"), sys.executable, "-c", ask],
                          capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def _imports(source):
    """Return the packages that a cell imports at its top level or inside."""
    kept = "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))
    return {name.name.split(".")[0] for node in ast.walk(ast.parse(kept)) if isinstance(node, ast.Import)
            for name in node.names} | {(node.module or "").split(".")[0] for node in ast.walk(ast.parse(kept))
                                       if isinstance(node, ast.ImportFrom) and not node.level}


@pytest.mark.parametrize("module", modules(ROOT), ids=lambda module: module.label)
def test_colab_has_what_a_notebook_imports(module):
    """The cell for Colab installs the package and its dependencies; Colab itself has matplotlib and IPython."""
    found = set().union(*(_imports(cell["source"]) for cell in load(module.notebook)["cells"]
                          if cell["cell_type"] == "code"))
    installed = {re.match(r"[\w-]+", line)[0] for line in PROJECT["project"]["dependencies"]}
    packaged = {name.split(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]}
    assert found <= installed | packaged | {"matplotlib", "IPython"} | set(sys.stdlib_module_names)


def test_colab_gets_every_package_of_the_checkout():
    there = {path.parent.relative_to(ROOT).as_posix().replace("/", ".")
             for top in ("tinytorch", "tito") for path in (ROOT / top).rglob("__init__.py")}
    assert there == set(PROJECT["tool"]["setuptools"]["packages"])


def test_colab_cell_names_the_project():
    cell = launching.colab_cell("ana/tiny")
    assert cell == f'%pip install --quiet "tinytorch @ git+https://github.com/ana/tiny@{launching.BRANCH}"'
    assert PROJECT["project"]["name"] == "tinytorch"
