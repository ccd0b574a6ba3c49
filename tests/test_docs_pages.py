"""The pages as they are read: as plain Markdown on a code host, and built by Sphinx."""

import json
import re
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt
from test_docs import DOCS, name_of, pages, typed


@pytest.fixture(scope="module")
def current():
    """What the command that writes the pages says of them."""
    command = [sys.executable, str(DOCS / "_sync"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_generated_text_is_current(current):
    """`make docs-sync` writes it."""
    assert (current.returncode, current.stdout + current.stderr) == (0, "")


# --- on a code host ---------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_stands_without_sphinx(page):
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    fences = [token.info for token in tokens if token.type == "fence"]
    assert [info for info in fences if not re.fullmatch(r"[a-z]+", info)] == []
    text = "\n".join(
        child.content
        for token in tokens
        for child in token.children or ()
        if child.type == "text"
    )
    # Directives, roles and targets of MyST.
    assert re.findall(r"^:::.*|\{[a-z:]+\}$|^\([a-z-]+\)=$", text, re.M) == []
    # Roles of reStructuredText, of which the docstrings have some.
    assert re.findall(r"(?:^|\s):[a-z:]+$", text, re.M) == []
    assert len(text.split()) > 20


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_is_no_longer_than_a_sitting(page):
    """2500 words, without code and what is made from the code."""
    if page.name == "conformance.md":
        return  # all of it is written by `make conformance`
    fences = re.compile(r"^```.*?^```", re.M | re.S)
    assert len(fences.sub("", typed(page)).split()) < 2500


def test_the_index_lists_every_page_once():
    listed = (DOCS / "index.md").read_text().partition("## All pages")[2]
    names = re.findall(r"^- \[.+\]\((\w+\.md)\)", listed, re.M)
    expected = sorted(page.name for page in DOCS.glob("*.md"))
    assert sorted([*names, "index.md"]) == expected


# --- built ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The guide, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("guide")
    build(folder)
    return folder / "html"


def build(folder):
    command = f"-m sphinx -W -q -b html -d {folder}/doctrees {DOCS} {folder}/html"
    result = subprocess.run(
        [sys.executable, *command.split()], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr


def test_the_sidebar_has_every_page_once(guide):
    page = (guide / "install.html").read_text()
    (sidebar,) = re.findall(r'<div class="sidebar-tree">(.*?)</div>', page, re.S)
    links = re.findall(r'href="([\w.#]+)"', sidebar)
    names = [link.replace("#", "install.html") for link in links]
    assert sorted([*names, "index.html"]) == sorted(
        f"{page.stem}.html" for page in DOCS.glob("*.md")
    )


def index_of(guide):
    index = (guide / "searchindex.js").read_text()
    return json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))


@pytest.fixture(scope="module")
def search_index(guide):
    return index_of(guide)


@pytest.fixture(scope="module")
def search(search_index):
    """Pages that have all words of a query, as the search of the guide finds them."""

    def pages_with(word):
        places = []
        for table in (search_index["terms"], search_index["titleterms"]):
            place = table.get(word, [])
            places += [place] if isinstance(place, int) else place
        return {search_index["docnames"][place] for place in places}

    return lambda query: set.intersection(*map(pages_with, query.split()))


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("randperm", "operators_table"),
        ("stream race", "sanitizer"),
        ("alloc", "memory"),  # the stem of "allocator"
        ("conform", "conformance_kit"),  # of "conformance"
        ("cuda script", "cuda"),
    ],
)
def test_the_search_finds(query, page, search):
    assert page in search(query)


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("stream race", "sanitizer"),
        ("allocator", "memory"),
        ("conformance", "conformance_kit"),
    ],
)
def test_the_search_shows_first(query, page, search_index):
    """Entries of the index come before pages that only have the words (docs/conf.py)."""
    (found,) = search_index["indexentries"][query]
    place, _, is_main = found
    assert (search_index["docnames"][place], is_main) == (page, True)


def test_the_search_keeps_its_entries_when_one_page_is_built_again(guide, search_index):
    (guide / "install.html").unlink()
    build(guide.parent)
    assert index_of(guide)["indexentries"] == search_index["indexentries"]
