"""How Sphinx builds the pages: `make docs`."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Tenure"
copyright = "the Tenure authors"  # noqa: A001 - Sphinx's name for it
release = installed_version("tenure")

extensions = [
    "myst_parser",
    "repository_links",
    "settings_page",
    "figures_page",
    "public_names",
    "commands_page",
    "troubles_page",
]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
smartquotes_action = "q"  # dashes stay: `--packages` is a flag
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` ends at a warning
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures, of which many are of Python, Spark or not public
autodoc_member_order = "bysource"
highlight_language = "none"

html_theme = "furo"
html_title = "Tenure"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]
