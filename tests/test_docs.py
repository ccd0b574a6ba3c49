"""The docs say what the code says: markers, paths, names, sessions, variables."""

import ast
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    if not begin and not end:
        assert include.file.is_file()
        text = include.file.read_text()
        for option in ("start-at", "end-at"):
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


def quotations(page):
    """What stands in single backticks on a page."""
    fences = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", fences.sub("", page.read_text()))


def quoted_paths(page):
    return [text for text in quotations(page) if looks_like_a_path(text)]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_quoted_paths_exist(page):
    missing = [path for path in quoted_paths(page) if not (ROOT / path).exists()]
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


def test_every_runtime_module_is_on_a_page():
    quoted = {text for page in DOCS.glob("*.md") for text in quotations(page)}
    modules = {name_of(path) for path in (ROOT / "csrc/runtime").glob("*.h")}
    assert modules - quoted == set() != modules


# --- sessions -----------------------------------------------------------------

# Runs in a child that was forked before the device was used.
RUN_SESSIONS = """
import doctest

def failures(text):
    parser, report = doctest.DocTestParser(), []
    test = parser.get_doctest(text, {}, "page", None, 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    return "".join(report)
"""


def sessions():
    """Page -> its `pycon` blocks, as one text."""
    block = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = {name_of(page): block.findall(page.read_text()) for page in pages()}
    return {name: "\n".join(blocks) for name, blocks in found.items() if blocks}


WRONG = ">>> 1 + 1\n3\n"


def told(fork_python):
    """Page -> what is wrong with its sessions; "" -> the same for a wrong one."""
    texts = {**sessions(), "": WRONG}
    runs = [f"failures({text!r})" for text in texts.values()]
    return dict(zip(texts, fork_python(runs, RUN_SESSIONS), strict=True))


@pytest.mark.parametrize("page", sessions())
def test_sessions_give_what_the_page_shows(page, fork_python):
    assert told(fork_python)[page] == ""


def test_a_wrong_session_is_found(fork_python):
    assert "Expected:\n    3\nGot:\n    2" in told(fork_python)[""]


def test_the_program_of_the_readme_runs(run_python):
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S
    )
    loss, allocated = run_python(program).split()
    assert float(loss) < 8 and int(allocated) > 0


# --- functions ----------------------------------------------------------------


def strip_comment(text):
    """A doc comment as one text per line, without its asterisks and slashes."""
    lines = (
        re.sub(r"^\s*(/\*\*|\*/|\*|///)\s?", "", line) for line in text.splitlines()
    )
    return "\n".join(lines).removesuffix("*/").strip()


def c_functions():
    """Name -> doc comment ("" if it has none) of every exported function."""
    found = {}
    for header in sorted((INCLUDE / "openreg").glob("*.h")):
        text = re.sub(r"^#define(?:.*\\\n)*.*\n", "", header.read_text(), flags=re.M)
        # A doc comment belongs to a function if nothing stands between them.
        declaration = re.compile(
            r"(?:(/\*\*(?:(?!\*/).)*\*/)\s*)?OPENREG_EXPORT\b[^;{]*?\b(or\w+)\s*\(",
            re.DOTALL,
        )
        functions = declaration.findall(text)
        exports = re.findall(r"\bOPENREG_EXPORT\b", text)
        assert len(functions) == len(exports), header
        for comment, name in functions:
            assert name not in found, name
            found[name] = strip_comment(comment)
    return found


def templates():
    """The same for the launch templates of openreg.inl."""
    text = (INCLUDE / "openreg.inl").read_text()
    declaration = re.compile(
        r"((?:^///.*\n)*)^template <[^>]*>\norError_t (or\w+)\(", re.MULTILINE
    )
    return {name: strip_comment(comment) for comment, name in declaration.findall(text)}


def twin_in_header(comment):
    """What the comment ends with after "CUDA twin:", or None."""
    text = " ".join(comment.split())
    twin = re.search(r"CUDA twin: ((?:(?!CUDA twin:).)+)\.$", text)
    # A comment that goes on after the twin would have another sentence here.
    return twin[1] if twin and ". " not in twin[1] else None


def api_rows():
    row = re.compile(r"^\| `(or\w+)` +\| (.+?) +\| (.+?) +\|$", re.MULTILINE)
    return [
        (name, twin.strip("`"), line) for name, twin, line in row.findall(api_page())
    ]


def api_page():
    return (DOCS / "api.md").read_text()


@pytest.mark.parametrize("name", sorted(c_functions()))
def test_c_function_is_documented(name):
    comment = c_functions()[name]
    assert twin_in_header(comment), "no comment, or it does not end with a CUDA twin"
    assert re.search(r"^@(retval|return) ", comment, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(templates()))
def test_template_is_documented(name):
    assert twin_in_header(templates()[name])


def test_the_api_page_lists_what_the_headers_export():
    headers = sorted({**c_functions(), **templates()})
    assert sorted(name for name, _, _ in api_rows()) == headers
    # Nothing is mentioned outside the rows either.
    assert set(re.findall(r"\bor[A-Z]\w+", api_page())) == set(headers)


def test_the_api_page_agrees_with_the_headers_about_twins():
    comments = {**c_functions(), **templates()}
    stated = {name: twin for name, twin, _ in api_rows()}
    assert stated == {name: twin_in_header(comments[name]) for name in stated}


def test_all_functions_are_found():
    defined = set()
    for source in (OPENREG / "csrc").glob("*.cpp"):
        defined |= set(
            re.findall(
                r"^(?:orError_t|void\*|const char\*) (or[A-Z]\w+)\(",
                source.read_text(),
                re.MULTILINE,
            )
        )
    assert defined == set(c_functions())
    assert len(templates()) == 2


def test_other_names_of_the_api_exist():
    """`orErrorTimeout`, `orStreamDefault` and the like, on any page."""
    headers = "".join(path.read_text() for path in INCLUDE.rglob("*.*"))
    known = set(re.findall(r"\bor[A-Z]\w+", headers))
    used = {
        name
        for page in pages()
        for name in re.findall(r"\bor[A-Z]\w+", page.read_text())
    }
    assert used - known == set()


# --- operators ------------------------------------------------------------------


def first_column(page, heading):
    """The words of a table's first column, by the head of that column."""
    text = (DOCS / page).read_text()
    (table,) = re.findall(rf"^\| {heading} .*\n\|[ :|-]*\n((?:\|.*\n)+)", text, re.M)
    return [row.split("|")[1].strip() for row in table.splitlines()]


def test_the_operators_page_lists_the_tiers():
    from torch_openreg import ops

    listed = first_column("operators.md", "tier")
    assert [*listed, "composite", "other"] == list(ops.ALL_TIERS)


def test_the_table_explains_its_words():
    from torch_openreg import ops

    words = first_column("operators_table.md", "runs")
    assert set(words) == {operator.runs for operator in ops.operators()}


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The guide, built as `make docs` does, where its packages are installed."""
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    folder = tmp_path_factory.mktemp("guide")
    command = f"-m sphinx -W -q -b html -d {folder}/doctrees {DOCS} {folder}/html"
    result = subprocess.run(
        [sys.executable, *command.split()], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return folder / "html"


def test_the_guide_has_a_row_for_each_operator(guide):
    # Other tests may have added operators to this process.
    command = [sys.executable, "-m", "torch_openreg.ops", "--format=json"]
    listed = json.loads(subprocess.check_output(command, timeout=60))
    page = (guide / "operators_table.html").read_text()
    dense = page.split("operators-table")[1]
    rows = re.findall(r"<tr\b.*?</tr>", dense, re.DOTALL)[1:]
    cells = [re.sub(r"<.*?>", "", row).split("\n") for row in rows]
    found = [tuple(filter(None, row)) for row in cells]
    assert found == [(row["name"], row["tier"], row["runs"]) for row in listed]


def test_the_guide_finds_an_operator_by_its_name(guide):
    index = (guide / "searchindex.js").read_text()
    pages = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    place = pages["terms"]["randperm"]
    assert pages["docnames"][place] == "operators_table"


# --- environment variables ----------------------------------------------------


def test_the_table_of_variables_is_what_the_code_reads():
    source = (OPENREG / "csrc" / "config.cpp").read_text()
    read = re.findall(r'Variable(?: \w+)?\("(OPENREG_\w+)"\)', source)
    table = re.findall(
        r"^\| `(OPENREG_\w+)` +\|", (DOCS / "runtime.md").read_text(), re.MULTILINE
    )
    assert sorted(table) == sorted(read) != []


def test_the_environment_is_read_in_one_place():
    readers = [
        name_of(path)
        for path in sorted((OPENREG / "csrc").iterdir())
        if "getenv(" in path.read_text()
    ]
    assert readers == ["third_party/openreg/csrc/config.cpp"]
