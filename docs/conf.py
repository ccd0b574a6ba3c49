"""Settings of the guide. `make docs` builds it to docs/_build/html."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "_ext"))

project = "torch_openreg"
author = "the torch_openreg authors"
copyright = author

# docs/_ext makes tables and the reference from the code and from torch.
extensions = ["myst_parser", "operators_table", "reference", "torch_tables"]
exclude_patterns = ["_build", "_ext", "requirements.txt"]

# `# Title` and `## Section` can be linked to as page.md#section.
myst_heading_anchors = 3

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_js_files = ["breaks.js"]

# Code is C++ where a block does not say otherwise.
highlight_language = "cpp"

# Nothing is fetched from elsewhere: the search index is part of the pages.
html_copy_source = False
html_show_sourcelink = False
