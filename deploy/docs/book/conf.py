"""How Sphinx builds the book."""

import re

from sphinx.application import Sphinx

project = "Slipway"
extensions = ["myst_parser"]
html_theme = "pydata_sphinx_theme"
html_title = "Slipway"
html_copy_source = False
highlight_language = "text"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
myst_heading_anchors = 3


def link_files(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Make links to texts outside of the book links to files: they are no pages of it."""
    source[0] = re.sub(r"\]\(((?:\.\./){3,}[^)]*\.md)\)", r"](path:\1)", source[0])


def setup(app: Sphinx) -> None:
    """Register what changes the sources when they are read."""
    app.connect("source-read", link_files)
