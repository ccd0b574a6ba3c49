"""Settings of the guide. `make docs` builds it to docs/_build/html."""

import re

project = "torch_openreg"
author = "the torch_openreg authors"
copyright = author

# The pages are plain Markdown. What is made from the code is written into them by
# `make docs-sync` (docs/_sync).
extensions = ["myst_parser"]
exclude_patterns = ["_build", "_sync", "requirements.txt"]

# `# Title` and `## Section` can be linked to as page.md#section.
myst_heading_anchors = 3

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_js_files = ["breaks.js", "long_tables.js"]

# Code is C++ where a block does not say otherwise.
highlight_language = "cpp"

# Nothing is fetched from elsewhere: the search index is part of the pages.
html_copy_source = False
html_show_sourcelink = False


def sidebar(text):
    """Tables of contents for Sphinx, from the lists under "All pages"."""
    groups = re.findall(
        r"^\*\*(.+)\*\*\n\n((?:- .*\n)+)", text.partition("## All pages")[2], re.M
    )
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n"
        + "".join(f"{page}\n" for page in re.findall(r"\((\w+)\.md\)", links))
        + "```\n"
        for caption, links in groups
    )


# Page -> what a reader may type into the search to find it, where other pages have the
# same words and would come first.
SEARCHED = {
    "conformance_kit": ["conformance"],
    "first_backend": ["new backend"],
    "memory": ["allocator", "caching allocator", "out of memory", "estimate"],
    "sanitizer": ["stream race", "race"],
}


def index_entries(words):
    """Which the search shows before anything else."""
    return "\n```{index} " + ", ".join(f"!{word}" for word in words) + "\n```\n"


def complete(app, name, source):
    if name == "index":
        source[0] += sidebar(source[0])
    if name in SEARCHED:
        title, text = source[0].split("\n", 1)
        source[0] = f"{title}\n{index_entries(SEARCHED[name])}{text}"


def searched_again(app, env, added, changed, removed):
    """Pages to read although they have not changed: Sphinx forgets the entries of pages
    that it does not read, so the second `make docs` would lose them."""
    return SEARCHED


def setup(app):
    app.connect("source-read", complete)
    app.connect("env-get-outdated", searched_again)
