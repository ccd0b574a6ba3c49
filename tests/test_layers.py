"""The layers of docs/architecture.md, read from the `#include "..."` of all sources."""

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the device upwards: a file includes files of its own folder and of those
# that stand to the left of it. Folders between the same brackets know nothing of
# each other.
ORDER = [
    ("third_party/openreg",),
    ("csrc/runtime",),
    ("csrc/remote",),
    ("csrc/executor",),
    (
        "csrc/aten",
        "csrc/amp",
        "csrc/graphs",
        "csrc/profiler",
        "csrc/device_process",
        "csrc/distributed",
        "csrc/sanitizer",
    ),
    ("csrc/cuda",),
    ("torch_openreg/csrc",),
]
LEVEL = {folder: level for level, group in enumerate(ORDER) for folder in group}
FOLDERS = sorted(LEVEL)
SUFFIXES = {".h", ".cpp", ".c", ".inl"}
LONGEST = 400


def sources(folder):
    """Its C and C++ files, without tests, examples and what the build made."""
    skipped = {"build", "tests", "example", "benchmarks"}
    return sorted(
        path
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SUFFIXES
        and not skipped & set(path.relative_to(ROOT / folder).parts)
    )


def folder_of(path):
    """The layer of a file; None for one that is in none."""
    name = str(path.relative_to(ROOT))
    return next((folder for folder in FOLDERS if name.startswith(f"{folder}/")), None)


def find_included(path, name):
    """The file that `#include "name"` in `path` means; None if the build writes it."""
    device = ROOT / "third_party/openreg"
    places = [path.parent, ROOT / "csrc", device / "include", device / "csrc"]
    found = (place / name for place in places if (place / name).is_file())
    return next((file.resolve() for file in found), None)


@functools.cache
def includes(path):
    names = re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', path.read_text(), re.M)
    return [file for name in names if (file := find_included(path, name))]


def component(path):
    """A header and its source are one thing."""
    return str(path.relative_to(ROOT).with_suffix(""))


@functools.cache
def graph():
    """Component -> the components it includes."""
    edges = {}
    for folder in FOLDERS:
        for path in sources(folder):
            own = component(path)
            edges.setdefault(own, set()).update(map(component, includes(path)))
            edges[own].discard(own)
    return edges


def cycles(edges):
    """Sets of nodes that reach each other, by Tarjan's algorithm."""
    order, lowest, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in order:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [
        ["a", "b", "c"]
    ]
    assert cycles({"a": {"b", "c"}, "b": {"c"}}) == []


def test_every_source_is_in_a_layer():
    files = sources("csrc") + sources("torch_openreg/csrc")
    outside = [str(f.relative_to(ROOT)) for f in files if folder_of(f) is None]
    assert files and outside == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_includes_point_down(folder):
    up = []
    for path in sources(folder):
        for included in includes(path):
            to = folder_of(included)
            if to != folder and (to is None or LEVEL[to] >= LEVEL[folder]):
                up.append(
                    f"{path.relative_to(ROOT)} includes {included.relative_to(ROOT)}"
                )
    assert up == []


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f != "third_party/openreg"])
def test_components_form_no_cycle(folder):
    assert [
        group
        for group in cycles(graph())
        if any(name.startswith(f"{folder}/") for name in group)
    ] == []


def test_headers_of_the_device_form_no_cycle():
    """Its sources share one state, `Runtime`, which holds what their headers declare."""
    headers = [f for f in sources("third_party/openreg") if f.suffix != ".cpp"]
    edges = {str(f): {str(i) for i in includes(f)} - {str(f)} for f in headers}
    assert edges and cycles(edges) == []


def test_the_bindings_only_convert():
    """They call functions of csrc, and none of the device's own."""
    calls = [
        f"{path.name}: {call}"
        for path in sources("torch_openreg/csrc")
        for call in re.findall(r"\bor[A-Z]\w*\(", path.read_text())
    ]
    assert calls == []


def test_the_device_knows_nothing_of_pytorch():
    """A C API that any framework could use says nothing of the one that does."""
    words = re.compile(r"torch|\baten\b|\bc10\b|cublas|tensor", re.I)
    told = {
        str(path.relative_to(ROOT)): words.findall(path.read_text())
        for path in sources("third_party/openreg")
    }
    assert {name: found for name, found in told.items() if found} == {}


def test_every_error_code_is_given_by_somebody():
    """A code that nothing returns is a promise nobody keeps."""
    declared = (ROOT / "third_party/openreg/include/openreg/error.h").read_text()
    codes = re.findall(r"^  (orError\w+) = \d+", declared, re.M)
    table_of_texts = ROOT / "third_party/openreg/csrc/error.cpp"
    code = "".join(
        path.read_text()
        for folder in ("third_party/openreg/csrc", "csrc")
        for path in sources(folder)
        if path != table_of_texts
    )
    code = re.sub(r"//.*|[!=]= orError\w+", "", code)  # neither talk nor questions
    given = set(re.findall(r"\borError\w+", code))
    assert codes and set(codes) - given == set()


def is_shared(header):
    """Whether a header or its source has what threads share, or each has its own."""
    source = header.with_suffix(".cpp")
    code = header.read_text() + (source.read_text() if source.exists() else "")
    kinds = r"std::(mutex|shared_mutex|atomic|once_flag)\b|\bthread_local\b"
    return re.search(kinds, code)


@pytest.mark.parametrize(
    "header",
    [
        path
        for folder in ("csrc", "third_party/openreg/csrc")
        for path in sources(folder)
        if path.suffix == ".h" and is_shared(path)
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_what_threads_share_says_so(header):
    assert "Threads:" in header.read_text()


@pytest.mark.parametrize(
    "folder",
    ["csrc", "third_party/openreg", "torch_openreg", "conformance", "tests", "tools"],
)
def test_files_are_short(folder):
    made = {"build", "include", "lib", "share", "__pycache__"}
    if folder == "third_party/openreg":
        made -= {"include"}
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SUFFIXES | {".py", ".pyi"}
        and not made & set(path.relative_to(ROOT / folder).parts)
    }
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}
    assert lengths
