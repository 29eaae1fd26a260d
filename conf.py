"""How Sphinx makes a site of docs/, the plugins' READMEs and the files beside this one: sphinx-build -W . site"""

from __future__ import annotations

project = "dsh"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/*.md", "plugins/*/README.md"]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "1100px", "body_max_width": "800px"}
html_copy_source = False
html_show_copyright = False
suppress_warnings = ["misc.highlighting_failure"]  # JSON with an ellipsis in it, as it is shown, is none
nitpicky = True
