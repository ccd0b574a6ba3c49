"""The reference has what the code has: C functions, Python names, variables, tables."""

import importlib.util
import re

import pytest
from test_docs import DOCS, OPENREG, ROOT, name_of, pages, public_names, typed

INCLUDE = OPENREG / "include"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return load(DOCS / "_sync" / "reference.py")


# --- the C API ------------------------------------------------------------------


@pytest.fixture(scope="module")
def c_functions(reference):
    return [
        function
        for header in reference.headers()
        for function in reference.functions(header)
    ]


def test_every_function_that_is_defined_has_an_entry(c_functions):
    defined = set()
    for source in (OPENREG / "csrc").glob("*.cpp"):
        pattern = r"^(?:orError_t|void\*?|const char\*) (or[A-Z]\w+)\("
        defined |= set(re.findall(pattern, source.read_text(), re.M))
    templates = {"orLaunchKernel", "orLaunchKernelEx"}
    assert {function.name for function in c_functions} == defined | templates
    assert len(c_functions) == len(defined | templates)


def test_every_function_is_documented(c_functions):
    """With a comment that ends with a CUDA twin and, in C, tells what comes back."""
    templates = {"orLaunchKernel", "orLaunchKernelEx"}
    for function in c_functions:
        assert function.comment and function.twin, function.name
        returns = re.search(r"^@(retval|return) ", function.comment, re.M)
        nothing = function.name in templates or function.declaration[:5] == "void "
        assert returns or nothing, function.name


def test_the_api_page_has_every_header(reference):
    page = (DOCS / "api.md").read_text()
    listed = re.findall(r"^<!-- c-api (\S+) -->$", page, re.M)
    with_functions = {h.name for h in reference.headers() if reference.functions(h)}
    assert sorted(listed) == sorted(with_functions | {"openreg.h"})


def test_an_entry_has_the_parts_of_the_comment(reference, c_functions):
    (function,) = (f for f in c_functions if f.name == "orMemcpyAsync")
    text = reference.c_markdown(function)
    assert text.startswith("```c\norError_t orMemcpyAsync(\n    void* dst,")
    assert "| `dst` | " in text and "| `orSuccess` | " in text
    assert text.endswith("CUDA twin: `cudaMemcpyAsync`.")


def test_other_names_of_the_api_exist():
    """`orErrorTimeout`, `orStreamDefault` and the like, on any page."""
    headers = "".join(path.read_text() for path in INCLUDE.rglob("*.*"))
    known = set(re.findall(r"\bor[A-Z]\w+", headers))
    used = {
        name for page in pages() for name in re.findall(r"\bor[A-Z]\w+", typed(page))
    }
    assert used - known == set()


# --- torch.openreg ----------------------------------------------------------------


def test_every_name_of_the_device_module_has_an_entry(reference):
    from torch_openreg import openreg

    for name in public_names():
        text = reference.python_markdown(openreg, name)
        assert text.startswith(f"**`{name}")
        assert len(text.splitlines()) > 1, name


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


# --- environment variables ----------------------------------------------------


def test_every_variable_that_is_read_is_explained(reference):
    found = reference.variables()
    for file, pattern in reference.READERS.items():
        read = re.findall(pattern, file.read_text())
        assert read and {v.name for v in found if v.file == file} == set(read)
    assert all(variable.meaning and variable.default for variable in found)


def test_the_environment_is_read_in_known_places(reference):
    reading = re.compile(r"\bgetenv\(|\bget_env\(|environ\b.*OPENREG_")
    folders = (OPENREG / "csrc", ROOT / "csrc", ROOT / "torch_openreg" / "csrc")
    readers = {
        name_of(path)
        for folder in folders
        for path in folder.rglob("*.cpp")
        if reading.search(path.read_text())
    }
    others = {
        "csrc/distributed/FlightRecorder.cpp",  # torch's variables
        "csrc/runtime/OpenRegDeviceType.cpp",  # explained in _device_name.py
    }
    listed = {name_of(file) for file in reference.READERS if file.suffix == ".cpp"}
    assert readers == listed | others


def test_every_variable_that_python_reads_is_explained(reference):
    pattern = re.compile(r'environ(?:\.get\(|\[)"(OPENREG_\w+)"')
    package = (ROOT / "torch_openreg").rglob("*.py")
    read = {name for path in package for name in pattern.findall(path.read_text())}
    assert read - {variable.name for variable in reference.variables()} == set() != read


# --- tables of what torch has ---------------------------------------------------


@pytest.fixture(scope="module")
def torch_tables():
    return load(DOCS / "_sync" / "torch_tables.py")


def test_stubs_are_those_of_the_library(torch_tables):
    found = torch_tables.stubs()
    assert found["ATen/native/UnaryOps.h"]["abs_stub"] == "unary_fn"
    assert not torch_tables.is_exported("no_such_stub")
    # One over several lines, and one whose type has brackets.
    names = {name for names in found.values() for name in names}
    assert {"_fused_sdp_choice_stub", "quantize_tensor_per_tensor_affine_stub"} <= names


def test_an_operator_has_one_kind(torch_tables):
    kinds = {kind: dict(names) for kind, names in torch_tables.kinds().items()}
    assert "matmul" in kinds["composite implicit"]
    assert "add.out" in kinds["structured"] and kinds["structured"]["add.Tensor"]
    assert "as_strided" in kinds["needs a kernel"]
    assert "ones" in kinds["composite explicit"]
    counted = sum(map(len, kinds.values()))
    assert len({name for names in kinds.values() for name in names}) == counted


def test_the_page_about_tools_lists_the_functions_of_the_dispatcher():
    import torch

    page = (DOCS / "operators_tools.md").read_text()
    listed = re.findall(r"`(_dispatch_\w+)`", page.partition("## All of")[2])
    names = [name for name in dir(torch._C) if name.startswith("_dispatch_")]
    assert sorted(listed) == names


# --- generated code -------------------------------------------------------------


def test_typed_code_is_what_the_generator_writes_for_mm():
    generator = load(ROOT / "tools" / "generate_operators.py")
    groups = generator.structured_groups(generator.parse(), skip=set())
    (code,) = (code for root, _, code in groups if root == "mm")
    block = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
    shown = [text for page in pages() for text in block.findall(typed(page))]
    lines = [line for text in shown for line in text.splitlines()]
    assert len(lines) > 5 and set(lines) - set(code) == set()
