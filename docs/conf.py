"""How Sphinx builds the documentation: `make docs`."""

import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

import gradsurgery

sys.path.append(str(Path(__file__).parent / "_extensions"))

project = "gradsurgery"
author = "the gradsurgery authors"
version = release = gradsurgery.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "docstrings", "mathml"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

copybutton_prompt_is_regexp = True
copybutton_prompt_text = r">>> |\.\.\. "

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 90  # longer ones have a line for each parameter

highlight_language = "none"

html_theme = "furo"
html_title = "gradsurgery"
metadata = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
if repository := metadata.get("urls", {}).get("Repository"):
    html_theme_options = {
        "source_repository": repository,
        "source_branch": "main",
        "source_directory": "docs/",
        "footer_icons": [{"name": "Repository", "url": repository, "html": "Repository", "class": ""}],
    }
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # would need a server: the search itself works from a folder


def add_playground(app: Sphinx, pagename: str, *_: object) -> None:
    """Load the playground's script on its page."""
    if pagename == "choose":
        app.add_js_file("playground.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Connect the hook above."""
    app.connect("html-page-context", add_playground)
