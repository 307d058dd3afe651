"""Pictures say what they show: the text that a figure carries in its file becomes its alternative text on the page.

And an error in an output is an error of the build: IPython prints one that drawing raised, and goes on.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from docutils import nodes
from myst_nb.core.execute.base import ExecutionError
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)


def description(png: bytes) -> str:
    """Return the ``Description`` among the texts of a PNG file (iTXt chunks), empty where it has none."""
    place = 8
    while place + 8 <= len(png):
        length, kind = struct.unpack(">I4s", png[place:place + 8])
        key, _, text = png[place + 8:place + 8 + length].partition(b"\0")
        if (kind, key) == (b"iTXt", b"Description"):
            return text[2:].split(b"\0", 2)[2].decode()  # behind two flags, a language and a translated key
        place += 12 + length
    return ""


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give each picture of a cell its alternative text; warn of one that has none, and of an error nobody expects."""
    for image in doctree.findall(nodes.image):
        path = Path(app.srcdir, image["uri"].lstrip("/"))
        if "alt" not in image and path.suffix == ".png" and path.is_file():
            image["alt"] = description(path.read_bytes())
        if not image.get("alt"):
            LOGGER.warning("a picture without alternative text: give the figure a title", location=image)
    for block in doctree.findall(nodes.literal_block):
        cell = block.parent.parent if block.get("language") == "ipythontb" else None
        if cell is not None and "tag_raises-exception" not in cell.get("classes", ()):
            LOGGER.warning("an error in an output: %s", block.astext().strip().splitlines()[-1], location=block)


def as_in_a_terminal(app: Sphinx, doctree: nodes.document) -> None:
    """Show a cell whose lines all are commands with a terminal's prompt: the ``!`` before them is a notebook's."""
    for block in doctree.findall(nodes.literal_block):
        lines = block.astext().split("\n")
        if block.get("language") == "ipython3" and all(line.startswith("!") for line in lines):
            text = "\n".join(f"$ {line[1:]}" for line in lines)
            block.rawsource, block["language"], block[:] = text, "console", [nodes.Text(text)]


def blame(app: Sphinx, error: Exception | None) -> None:
    """Say what a cell raised that ended the build; the error itself names the page alone."""
    if isinstance(error, ExecutionError) and error.__cause__:
        LOGGER.error("a cell failed:\n%s", re.sub(r"\x1b\[[\d;]*m", "", str(error.__cause__)), location=f"{error}:")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", blame)
    app.connect("doctree-read", describe)
    app.connect("doctree-read", as_in_a_terminal)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
