"""The docs say what the code says: markers, paths, names, sessions, variables."""

import ast
import functools
import os
import re
import sys
from pathlib import Path

import pytest
from other_backends import SESSION

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OPENREG = ROOT / "third_party" / "openreg"
INCLUDE = OPENREG / "include"
CODE_SUFFIXES = {".c", ".cmake", ".cpp", ".h", ".inl", ".py", ".txt"}
GENERATED = {".git", ".venv", "_build", "build", "dist"}
# Copies that the build puts into the package.
INSTALLED = [ROOT / "torch_openreg" / name for name in ("include", "lib", "share")]


def pages():
    others = (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "conformance/README.md",
        "examples/README.md",
    )
    return sorted(DOCS.glob("*.md")) + [ROOT / name for name in others]


@functools.cache
def code_files():
    found = []
    for folder, inside, files in os.walk(ROOT):
        inside[:] = sorted(
            name
            for name in set(inside) - GENERATED
            if Path(folder, name) not in INSTALLED
        )
        found += (Path(folder, name) for name in sorted(files))
    return [
        path
        for path in found
        if path.suffix in CODE_SUFFIXES and path != Path(__file__).resolve()
    ]


def name_of(path):
    return str(path.relative_to(ROOT))


# --- included code ------------------------------------------------------------

SYNC = DOCS / "_sync"
SYNCED = re.compile(
    r"^<!-- (?!end )[a-z-]+(?: [^\n]*)? -->\n.*?^<!-- end -->$", re.M | re.S
)


def typed(page):
    """The text of a page without what `make docs-sync` has written into it."""
    return SYNCED.sub("", page.read_text())


def excerpts():
    sys.path.insert(0, str(SYNC))
    try:
        from code_excerpts import Excerpt
    finally:
        sys.path.remove(str(SYNC))
    comment = re.compile(r"^<!-- code (.*) -->$", re.M)
    return [
        Excerpt(page, words)
        for page in pages()
        for words in comment.findall(page.read_text())
    ]


@functools.cache
def markers():
    """Every marker in the code: (kind, name) -> where it stands."""
    found = {}
    for path in code_files():
        for number, line in enumerate(path.read_text().splitlines()):
            marker = re.search(r"docs:(begin|end) ([\w-]+)", line)
            if marker:
                found.setdefault(marker.groups(), []).append((path, number))
    return found


@pytest.mark.parametrize("excerpt", excerpts(), ids=repr)
def test_quoted_code_is_that_of_the_file(excerpt):
    """Without the package: what changes with a source is seen at once."""
    comment = re.compile(rf"^<!-- code {re.escape(excerpt.words)} -->$", re.M)
    text = excerpt.page.read_text()
    for found in comment.finditer(text):
        assert text[found.end() :].startswith(
            f"\n{excerpt.markdown()}\n<!-- end -->"
        ), "run `make docs-sync`"


def test_a_marker_marks_one_place():
    assert {name: len(places) for name, places in markers().items()} == {
        (kind, name): 1 for name in marked() for kind in ("begin", "end")
    }


def marked():
    return {excerpt.marker for excerpt in excerpts() if excerpt.marker}


# --- paths --------------------------------------------------------------------


def looks_like_a_path(text):
    """`tests/x.py`, `third_party/openreg`, `README.md`; not `a/b` or `1,0`."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", text):
        return False
    first = text.split("/")[0]
    if "/" in text:
        return (ROOT / first).exists() or Path(text).suffix != ""
    return Path(text).suffix in CODE_SUFFIXES | {".md", ".sh", ".svg", ".toml"}


def prose(page):
    """A page without its blocks."""
    fences = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    return fences.sub("", typed(page))


def quotations(page):
    """What stands in single backticks on a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def shown_files(page):
    """Name -> text of the files that a page shows under their name."""
    pattern = r"^`(\w+\.py)`:\n\n```python\n(.*?)^```$"
    return dict(re.findall(pattern, page.read_text(), re.M | re.S))


def quoted_paths(page):
    shown = shown_files(page)
    found = (text for text in quotations(page) if text not in shown)
    return [text for text in found if looks_like_a_path(text)]


# A page that calls files by their name in a folder.
MINI = ROOT / "examples" / "mini_backend"
FOLDERS = {
    DOCS / f"{name}.md": MINI for name in ("first_backend", "ladder", "new_backend")
}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_quoted_paths_exist(page):
    folders = ROOT, FOLDERS.get(page, ROOT)
    missing = [
        path
        for path in quoted_paths(page)
        if not any((folder / path).exists() for folder in folders)
    ]
    assert missing == []


def test_paths_are_told_from_other_quotations():
    assert looks_like_a_path("tests/no_such_file.py")
    assert looks_like_a_path("third_party/gone")
    assert looks_like_a_path("elsewhere/file.cpp")
    assert looks_like_a_path("no_such_file.md")
    assert not looks_like_a_path("orMalloc")
    assert not looks_like_a_path("OPENREG_SEED=1")
    assert not looks_like_a_path("2.5GiB")
    assert not looks_like_a_path("yes/no")
    assert any(quoted_paths(page) for page in pages())


# --- names of the integration ---------------------------------------------------


@functools.cache
def quoted_names():
    """Last parts of the quoted names: "x" for `torch.openreg.x` and `x()`."""
    return {
        text.removesuffix("()").split(".")[-1]
        for page in DOCS.glob("*.md")
        for text in quotations(page)
    }


def public_names():
    tree = ast.parse((ROOT / "torch_openreg/openreg/__init__.py").read_text())
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    return names


def test_every_name_of_the_device_module_is_on_a_page():
    assert sorted(set(public_names()) - quoted_names()) == []


@pytest.mark.parametrize("name", ["Guard", "Hooks", "DeviceAllocator"])
def test_every_method_that_pytorch_calls_is_on_a_page(name):
    header = (ROOT / f"csrc/runtime/OpenReg{name}.h").read_text()
    methods = re.findall(r"(\w+)\([^;{}()]*\)[\w\s]*\boverride\b", header)
    assert len(methods) > 5
    assert sorted(set(methods) - quoted_names()) == []


@pytest.mark.parametrize(
    "header",
    [
        "ATen/detail/AcceleratorHooksInterface.h",
        "ATen/detail/PrivateUse1HooksInterface.h",
        "c10/core/impl/DeviceGuardImplInterface.h",
    ],
)
def test_every_method_that_a_backend_can_have_is_on_a_page(header):
    import torch

    text = (Path(torch.__file__).parent / "include" / header).read_text()
    methods = re.findall(
        r"^ *virtual [^~;{(]*?(\w+)\(|(?<![~\w])(\w+)\([^;{}]*override", text, re.M
    )
    names = {virtual or override for virtual, override in methods}
    assert names and sorted(names - quoted_names()) == []


def test_every_runtime_module_is_on_a_page():
    quoted = {text for page in DOCS.glob("*.md") for text in quotations(page)}
    modules = {name_of(path) for path in (ROOT / "csrc/runtime").rglob("*.h")}
    assert modules - quoted == set() != modules


def test_pages_tell_the_version_of_python_that_is_needed():
    project = (ROOT / "pyproject.toml").read_text()
    (version,) = re.findall(r'^requires-python = ">=(.*)"$', project, re.M)
    told = [
        re.findall(r"Python ([\d.]+) or later", page.read_text()) for page in pages()
    ]
    assert {number for numbers in told for number in numbers} == {version}


# --- pictures -----------------------------------------------------------------


@pytest.mark.parametrize("picture", sorted(DOCS.glob("_static/*.svg")), ids=name_of)
def test_pictures_can_be_read_on_a_phone(picture):
    """Their text is 11 pixels high or more where a page is 345 wide."""
    text = picture.read_text()
    width = int(re.search(r'viewBox="0 0 (\d+) \d+"', text)[1])
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', text)]
    assert min(sizes) * 345 / width >= 11


@pytest.mark.parametrize("picture", sorted(DOCS.glob("_static/*.svg")), ids=name_of)
def test_pictures_have_colours_for_a_dark_page(picture):
    light, dark = set(), set()
    for line in picture.read_text().splitlines():
        rule = re.search(r'\[(fill|stroke)="(#\w+)"\] \{', line)
        if rule:
            dark.add(rule.groups())
        else:
            light |= set(re.findall(r'\b(fill|stroke)="(#\w+)"', line))
    assert dark == light != set()


# --- sessions -----------------------------------------------------------------

OTHER_DEVICES = {"first_backend.md", "new_backend.md", "python_backend.md"}


def sessions():
    """Page -> its `pycon` blocks, as one text.

    Those of other devices are run beside them: tests/other_backends.py.
    """
    block = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    own = [page for page in pages() if page.name not in OTHER_DEVICES]
    found = {name_of(page): block.findall(typed(page)) for page in own}
    return {name: "\n".join(blocks) for name, blocks in found.items() if blocks}


WRONG = ">>> 1 + 1\n3\n"


def told(fork_python):
    """Page -> what is wrong with its sessions; "" -> the same for a wrong one."""
    texts = {**sessions(), "": WRONG}
    runs = [f"failures({text!r})" for text in texts.values()]
    return dict(zip(texts, fork_python(runs, SESSION), strict=True))


def session_pages():
    hidden = pytest.mark.in_threads("the page's race does not show there")
    for page in sessions():
        yield pytest.param(page, marks=hidden if page == "docs/faults.md" else ())


@pytest.mark.parametrize("page", session_pages())
def test_sessions_give_what_the_page_shows(page, fork_python):
    assert told(fork_python)[page] == ""


def test_a_wrong_session_is_found(fork_python):
    assert "Expected:\n    3\nGot:\n    2" in told(fork_python)[""]
