"""The site: hand-written pages and the executed notebooks of ``src/``, drawn by Sphinx with MyST-NB (`make docs`)."""

import logging
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import ground  # noqa: E402

FOLDER = ground.folder()
GROUND = ground.copy(HERE.parent, FOLDER)
RESTORED = ground.restore(GROUND)
DIGEST = ground.digest(GROUND)
ground.settings(GROUND, FOLDER)
sys.path.insert(0, str(GROUND))  # the reference pages, too, show the reference

import tinytorch  # noqa: E402

project = "TinyTorch"
author = copyright = "the authors of TinyTorch"  # noqa: A001
release = version = tinytorch.__version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "again", "chapters",
              "pictured", "signatures"]
exclude_patterns = ["_*", "README.md"]
nitpicky = False

logging.getLogger("traitlets").setLevel(logging.WARNING)  # nbclient tells there of each chapter that it runs
# MyST-NB: everything is run at every build, and a cell that fails fails the build
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_markdown_format = "myst"
nb_number_source_lines = False
nb_code_prompt_show = "Show {type}"
nb_code_prompt_hide = "Hide {type}"
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autoclass_content = "both"
maximum_signature_line_length = 100
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Keys", "params_style"), ("Fields", "params_style")]

html_theme = "furo"
html_title = "TinyTorch"
html_static_path = ["_static"]
html_css_files = ["tinytorch.css"]
html_js_files = ["tinytorch.js"]
html_show_sourcelink = False
html_copy_source = False
highlight_language = "text"  # diagrams; code cells know their own
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"


def setup(app):
    """Called by Sphinx."""
    from sphinx.util.logging import getLogger

    app.add_config_value("made_with", DIGEST, "env")  # where it changes, numbers on pages that did not may change
    if RESTORED:
        getLogger(__name__).info("the pages show the reference, not what these modules hold: %s", ", ".join(RESTORED))
