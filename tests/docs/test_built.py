"""What the build adds to Sphinx: pictures carry their words, errors are not overlooked, a warning is not forgotten."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

EXT = Path(__file__).resolve().parents[2] / "docs" / "_ext"
for _needed in ("myst_nb", "matplotlib", "IPython"):
    pytest.importorskip(_needed, reason="the site is not built: pip install -e '.[dev]' brings what it needs")

from docutils import nodes  # noqa: E402
from docutils.utils import new_document  # noqa: E402

sys.path.insert(0, str(EXT))
import kernels  # noqa: E402
import pictured  # noqa: E402

sys.path.remove(str(EXT))


def figure(title):
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(1, 1))
    drawn.subplots().set(title=title)
    return drawn


@pytest.fixture
def warned(monkeypatch):
    """What is warned of."""
    said = []
    monkeypatch.setattr(pictured.LOGGER, "warning", lambda text, *words, **more: said.append(text % words))
    return said


@pytest.mark.parametrize("title", ["loss of each batch", "µs → n², Größe"])
def test_a_picture_brings_its_words_along(title):
    assert pictured.description(kernels.png(figure(title))) == title


@pytest.mark.parametrize(("title", "faults"), [("a title", []), ("", [
    "a picture without alternative text: give the figure a title"])])
def test_a_picture_without_words_is_warned_of(tmp_path, warned, title, faults):
    (tmp_path / "a.png").write_bytes(kernels.png(figure(title)))
    page = new_document("page")
    page += nodes.image(uri="a.png")
    pictured.describe(SimpleNamespace(srcdir=tmp_path), page)
    assert (page[0]["alt"], warned) == (title, faults)


@pytest.mark.parametrize(("tags", "faults"), [([], ["an error in an output: TypeError: no"]),
                                              (["tag_raises-exception"], [])])
def test_an_error_in_an_output_is_warned_of(tmp_path, warned, tags, faults):
    """But for one that the page wants to show."""
    page = new_document("page")
    cell, output = nodes.container(classes=["cell", *tags]), nodes.container()
    text = "Traceback\nTypeError: no"
    output += nodes.literal_block(text, text, language="ipythontb")
    cell += output
    page += cell
    pictured.describe(SimpleNamespace(srcdir=tmp_path), page)
    assert warned == faults


@pytest.mark.parametrize(("text", "shown", "language"), [
    ("!tito test layers\n!tito hint layers", "$ tito test layers\n$ tito hint layers", "console"),
    ("x = 2\n!tito test layers", "x = 2\n!tito test layers", "ipython3")])
def test_a_cell_of_commands_looks_like_a_terminal(text, shown, language):
    """And no other cell does."""
    page = new_document("page")
    page += nodes.literal_block(text, text, language="ipython3")
    pictured.as_in_a_terminal(SimpleNamespace(), page)
    assert (page[0].astext(), page[0]["language"]) == (shown, language)


def test_a_page_that_was_warned_of_is_read_again(tmp_path):
    """A second build of the same faulty page fails like the first; once mended, it passes."""
    (tmp_path / "conf.py").write_text(f"import sys\nsys.path.insert(0, {str(EXT)!r})\nextensions = ['again']\n")
    page = tmp_path / "index.rst"
    page.write_text("Title\n=====\n\n:ref:`nowhere`\n")
    line = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", tmp_path, tmp_path / "html"]
    said = [subprocess.run(line, capture_output=True, text=True, check=False) for _ in range(2)]
    assert [done.returncode for done in said] == [1, 1]
    assert all("nowhere" in done.stderr for done in said)
    page.write_text("Title\n=====\n\nmended\n")
    assert subprocess.run(line, capture_output=True, check=False).returncode == 0
