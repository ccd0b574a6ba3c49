"""What the docs tell to type does what they show; what they link to and name is there.

A `console` block is run, in a folder with the files that the page shows under
their name, and its output compared, where `...` stands for anything.
"""

import doctest
import functools
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import (
    DOCS,
    OPENREG,
    OTHER_DEVICES,
    ROOT,
    name_of,
    pages,
    prose,
    quotations,
    shown_files,
    typed,
)

PACKAGE = ROOT / "torch_openreg"


def blocks(page, language):
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, typed(page), re.M | re.S)


# --- consoles -------------------------------------------------------------------


def commands(text):
    """(command, output) of each `$` line of a console block."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)


def consoles():
    return {name_of(page): page for page in pages() if blocks(page, "console")}


def build_example(folder):
    """docs/libopenreg_streams.md removes a line from libopenreg's example, and so does this."""
    text = (OPENREG / "example" / "example.cpp").read_text()
    page = (DOCS / "libopenreg_streams.md").read_text()
    (line,) = re.findall(r"^Remove `(.+?)`, and", page, re.M)
    assert text.count(line) == 1
    (folder / "example.cpp").write_text(text.replace(line, ""))
    library = PACKAGE / "lib"
    subprocess.run(
        ["g++", "-std=c++17", f"-I{OPENREG / 'include'}", "example.cpp"]
        + [f"-L{library}", "-lopenreg", f"-Wl,-rpath,{library}"]
        + ["-o", "openreg_example"],
        cwd=folder,
        check=True,
    )


def run_console(command, folder):
    binaries = Path(sys.executable).parent
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=200,
    )


def console_pages():
    refused = pytest.mark.in_threads("the sanitizer is refused there")
    for page in consoles():
        marks = refused if page == "docs/sanitizer.md" else ()
        yield pytest.param(page, marks=marks)


@pytest.mark.parametrize("page", console_pages())
def test_commands_print_what_the_page_shows(page, tmp_path):
    for name, text in shown_files(consoles()[page]).items():
        (tmp_path / name).write_text(text)
    checker = doctest.OutputChecker()
    for block in blocks(consoles()[page], "console"):
        if "./openreg_example" in block:
            build_example(tmp_path)
        for command, output in commands(block):
            result = run_console(command, tmp_path)
            if not output:
                assert result.returncode == 0, result.stderr
                continue
            printed = result.stdout.strip("\n") + "\n"
            assert checker.check_output(output, printed, doctest.ELLIPSIS), (
                f"{command} printed:\n{printed}{result.stderr}"
            )


def test_every_shown_file_is_used_by_a_command():
    for page in pages():
        typed = "\n".join(blocks(page, "console") + [*shown_files(page).values()])
        assert [name for name in shown_files(page) if name not in typed] == []


def test_a_matter_of_timing_prints_a_line_like_those_on_the_page(tmp_path):
    (block,) = blocks(DOCS / "libopenreg_streams.md", "text")
    ((command, shown), (_, again)) = commands(block)
    build_example(tmp_path)
    printed = run_console(command, tmp_path).stdout
    lines = {re.sub(r"y = \d+", "y = N", line) for line in (printed, shown, again)}
    assert len(lines) == 1 and shown != again


def test_every_kind_of_block_is_known():
    """Each is run, compared, or told to be an exception, by a test of this file; C++
    by one of tests/test_docs_reference.py."""
    for page in pages():
        languages = set(re.findall(r"^```(\S+)", typed(page), re.M))
        known = {"console", "cpp", "pycon", "python", "sh", "text", "toml"}
        assert languages <= known, page.name


def test_a_shown_session_that_is_not_run_says_why():
    """A `$` in a block of plain text: what is timing, or another test's matter."""
    found = {
        command
        for page in pages()
        # tests/test_mini_backend.py types all of the first.
        if page.name not in OTHER_DEVICES
        for block in blocks(page, "text")
        for command, _ in commands(block)
    }
    assert found == {
        # Prints one thing or another: the test above.
        "OPENREG_SCHEDULE=auto ./openreg_example",
        # Needs a checkout of PyTorch; tests/test_pytorch_tests.py has a small one.
        "export TORCH_TEST_DEVICES=$(python -m torch_openreg.testing)",
        "pytest test/test_view_ops.py -k OPENREG",
    }


# --- what a reader types in a shell ---------------------------------------------


def shell_lines():
    return [
        (name_of(page), line.split("#")[0].strip())
        for page in pages()
        for block in blocks(page, "sh")
        for line in block.splitlines()
    ]


@pytest.mark.parametrize(
    ("place", "option"),
    [("https://x.y/whl", "--extra-index-url"), ("/wheels", "--find-links")],
)
def test_make_looks_for_torch_in_the_given_place(place, option):
    command = ["make", "-n", "-B", ".venv/ready", f"TORCH_WHEELS={place}"]
    lines = subprocess.check_output(command, cwd=ROOT, text=True, timeout=60)
    assert f"{option} {place} -r requirements.txt" in lines


def make_targets():
    return set(re.findall(r"^([a-z-]+)(?= |:)", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize(("page", "line"), shell_lines())
def test_shell_commands_name_what_exists(page, line):
    """These take minutes, and CI runs them; their targets, presets and paths exist."""
    presets = json.loads((OPENREG / "CMakePresets.json").read_text())
    known = {preset["name"] for preset in presets["configurePresets"]}
    for command in line.split("&&"):
        words = shlex.split(command)
        while words and re.match("[A-Za-z_]+=", words[0]):
            words.pop(0)  # a variable
        if not words:
            continue
        program, *arguments = words
        if program == "make":
            assert arguments[0] in make_targets()
        elif "--preset" in arguments:
            assert arguments[arguments.index("--preset") + 1] in known
        elif program == "cd":
            assert (ROOT / arguments[0]).is_dir()
        elif program == "source":
            assert arguments == [".venv/bin/activate"]
        elif program == "python" and arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1])
        elif program == "python" and arguments[0] != "train.py":  # the reader's own
            assert (ROOT / arguments[0]).exists()
        else:
            assert program in ("pip", "cmake", "python", ".venv/bin/python")
        for path in (word for word in arguments if word.startswith("tests/")):
            assert (ROOT / path).exists()


def test_every_python_block_is_run_somewhere():
    """Sessions and files with a name are run. The readme's program has a test below;
    tests/integration/test_libraries_page.py runs the other page, with the libraries."""
    found = {
        name_of(page)
        for page in pages()
        if set(blocks(page, "python")) - set(shown_files(page).values())
    }
    assert found == {"README.md", "docs/libraries.md"}


def test_the_program_of_the_readme_runs(run_python):
    (program,) = blocks(ROOT / "README.md", "python")
    loss, allocated = run_python(program).split()
    assert float(loss) < 8 and int(allocated) > 0


# --- links ----------------------------------------------------------------------


@functools.cache
def anchors(page):
    """The anchors of a page, as MyST makes them of its headings."""
    headings = re.findall(r"^#{1,3} (.+)$", page.read_text(), re.M)
    plain = (re.sub(r"[`*]", "", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", prose(page))
    inside = [link for link in links if not link[0].startswith("http")]
    for file, anchor in inside:
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


# --- names ----------------------------------------------------------------------


def all_quotations():
    return {text for page in pages() for text in quotations(page)}


def resolve(name):
    """The object a dotted name stands for; raises if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return functools.reduce(getattr, parts[end:], thing)
    raise ImportError(name)


# A group of entry points, the modules of the examples, and a file.
ELSEWHERE = {
    "torch.backends",
    "torch.mini",
    "torch.mychip",
    "torch.pychip",
    "torch_openreg.pth",
}


def python_names():
    names = (text.split("(")[0] for text in all_quotations())
    pattern = r"(torch|torch_openreg)(\.\w+)+"
    found = {name for name in names if re.fullmatch(pattern, name)} - ELSEWHERE
    # Adapters need the libraries that they adapt; tests/integration has them.
    return sorted(name for name in found if ".contrib." not in name)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # Inductor's
def test_python_names_exist():
    missing = []
    for name in python_names():
        try:
            resolve(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert missing == []
    assert len(python_names()) > 30


def test_cpp_names_exist():
    import torch

    include = Path(torch.__file__).parent / "include"
    headers = [*include.glob("ATen/*.h"), *include.glob("ATen/[acdn]*/**/*.h")]
    sources = [
        *headers,
        *include.glob("c10/**/*.h"),
        include / "torch" / "library.h",
        *(ROOT / "csrc").rglob("*.*"),
        *OPENREG.glob("csrc/*"),
    ]
    text = "".join(path.read_text(errors="ignore") for path in sources)
    names = {t for t in all_quotations() if re.fullmatch(r"(at|c10|torch)(::\w+)+", t)}
    last = {name: name.split("::")[-1] for name in names}
    assert [n for n, word in last.items() if not re.search(rf"\b{word}\b", text)] == []
    assert names


# The parts of the package that read variables of their own.
SETTINGS = [PACKAGE / name for name in ("cuda", "memory", "openreg", "sanitizer")]


def test_environment_variables_exist():
    pattern = r"\b(?:OPENREG|TORCH|PYTORCH)_[A-Z_]+\b"
    named = {name for page in pages() for name in re.findall(pattern, page.read_text())}
    ours = {name for name in named if name.startswith("OPENREG")}
    code = "".join(
        path.read_text()
        for folder in (ROOT / "csrc", OPENREG, *SETTINGS)
        for path in folder.rglob("*.*")
        if path.suffix in (".cpp", ".h", ".py", ".inl") and "build" not in path.parts
    )
    assert {name for name in ours if name not in code and name != "OPENREG_"} == set()
    assert len(ours) > 8
