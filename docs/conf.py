"""How Sphinx builds these pages: ``make docs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "django_jobs"
html_title = "django_jobs"
html_theme = "furo"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True


def setup(app: Sphinx) -> None:
    """Show diagrams as their source, which reads well; code hosts draw them."""
    app.add_lexer("mermaid", TextLexer)
