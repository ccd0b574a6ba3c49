"""The docs say what the code says: markers, paths, names, sessions, variables."""

import ast
import functools
import os
import re
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
    return sorted(DOCS.glob("*.md")) + [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


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


class Include:
    """A literalinclude directive of a page."""

    def __init__(self, page, target, options):
        self.page = page
        self.file = (page.parent / target).resolve()
        self.options = dict(re.findall(r'^:([\w-]+): *"?(.*?)"?$', options, re.M))

    def __repr__(self):
        where = self.options.get("start-after", self.options.get("start-at", ""))
        return f"{self.page.name}:{self.file.name}:{where}"


def includes():
    directive = re.compile(
        r"^```\{literalinclude\} +(\S+)\n((?::.*\n)*)```$", re.MULTILINE
    )
    return [
        Include(page, target, options)
        for page in pages()
        for target, options in directive.findall(page.read_text())
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


def test_every_include_directive_is_understood_here():
    written = sum(page.read_text().count("{literalinclude}") for page in pages())
    assert written == len(includes()) > 0


@pytest.mark.parametrize("include", includes(), ids=repr)
def test_included_code_is_marked_by_one_pair(include):
    begin = include.options.get("start-after", "")
    end = include.options.get("end-before", "")
    if not begin:
        assert include.file.is_file()
        text = include.file.read_text()
        for option in ("start-at", "end-at", "end-before"):
            assert text.count(include.options.get(option, text)) == 1, option
        return
    kind, name = begin.split()
    assert kind == "docs:begin"
    assert end == f"docs:end {name}"
    (begin_file, begin_line), *more_begins = markers().get(("begin", name), [("", 0)])
    (end_file, end_line), *more_ends = markers().get(("end", name), [("", 0)])
    assert begin_file == end_file == include.file
    assert more_begins == more_ends == []
    assert begin_line + 1 < end_line


def test_every_marker_in_the_code_is_used():
    used = {include.options.get("start-after", "") for include in includes()}
    assert {name for _, name in markers()} == {
        marker.split()[1] for marker in used if marker
    }


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
    return fences.sub("", page.read_text())


def quotations(page):
    """What stands in single backticks on a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def quoted_paths(page):
    return [text for text in quotations(page) if looks_like_a_path(text)]


# A page that calls files by their name in a folder.
FOLDERS = {DOCS / "first_backend.md": ROOT / "examples" / "mini_backend"}


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


# --- sessions -----------------------------------------------------------------

OTHER_DEVICES = {"first_backend.md", "python_backend.md"}


def sessions():
    """Page -> its `pycon` blocks, as one text.

    Those of other devices are run beside them: tests/other_backends.py.
    """
    block = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    own = [page for page in pages() if page.name not in OTHER_DEVICES]
    found = {name_of(page): block.findall(page.read_text()) for page in own}
    return {name: "\n".join(blocks) for name, blocks in found.items() if blocks}


WRONG = ">>> 1 + 1\n3\n"


def told(fork_python):
    """Page -> what is wrong with its sessions; "" -> the same for a wrong one."""
    texts = {**sessions(), "": WRONG}
    runs = [f"failures({text!r})" for text in texts.values()]
    return dict(zip(texts, fork_python(runs, SESSION), strict=True))


@pytest.mark.parametrize("page", sessions())
def test_sessions_give_what_the_page_shows(page, fork_python):
    assert told(fork_python)[page] == ""


def test_a_wrong_session_is_found(fork_python):
    assert "Expected:\n    3\nGot:\n    2" in told(fork_python)[""]
