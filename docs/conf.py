"""Settings of the guide. `make docs` builds it to docs/_build/html."""

project = "torch_openreg"
author = "the torch_openreg authors"
copyright = author

extensions = ["myst_parser"]
exclude_patterns = ["_build", "requirements.txt"]

# `# Title` and `## Section` can be linked to as page.md#section.
myst_heading_anchors = 3

html_theme = "furo"
html_title = project
html_static_path = ["_static"]

# Code is C++ where a block does not say otherwise.
highlight_language = "cpp"

# Nothing is fetched from elsewhere: the search index is part of the pages.
html_copy_source = False
html_show_sourcelink = False
