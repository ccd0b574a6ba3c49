"""examples/mini_backend: it is small, it works, and it has nothing to spare."""

import json
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
from other_backends import answers, environment, run_in, session_failures

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "mini_backend"
BUILD = ROOT / "build" / "mini_backend"
SUPPORT = ROOT / "tests" / "minimal_set"
PAGE = ROOT / "docs" / "minimal_set.md"


def example_files():
    return [*EXAMPLE.glob("*.py"), *EXAMPLE.glob("csrc/*"), *EXAMPLE.glob("*/*.py")]


def run(*arguments, **options):
    flags = f"-include {SUPPORT / 'leave_out.h'}"
    return run_in(BUILD, *arguments, CFLAGS=flags, **options)


# --- the page -------------------------------------------------------------------


def blocks():
    """What docs/first_backend.md has a reader do, in its order: (file of the example
    that is shown, kind, text)."""
    page = (PAGE.parent / "first_backend.md").read_text()
    return re.findall(
        r"^(?:<!-- code \.\./examples/mini_backend/(\S+)[^\n]* -->\n)?"
        r"^```(\S[^\n]*)\n(.*?)^```$",
        page,
        re.M | re.S,
    )


def without_gaps(lines):
    """Without empty lines: those between two pieces of a file are not shown."""
    return [line for line in lines if line]


class Reader:
    """Follows the page in a folder: writes the files, types the commands, and notes
    where something else is printed than the page shows."""

    def __init__(self):
        self.shown = {}  # file of the example -> its lines, so far
        self.surprises = []

    def write_files(self):
        for old in BUILD.glob("csrc/*"):
            if not (EXAMPLE / "csrc" / old.name).exists():
                old.unlink()  # of an earlier version of the example
        for path in example_files():
            name = str(path.relative_to(EXAMPLE))
            lines = self.shown.get(name, [])
            (BUILD / name).unlink(missing_ok=True)
            if without_gaps(lines) == without_gaps(path.read_text().splitlines()):
                shutil.copy2(path, BUILD / name)  # ninja looks at its time
            elif lines:
                (BUILD / name).write_text("\n".join([*lines, ""]))

    def type_command(self, command, output):
        if command.startswith("export "):
            name, value = command.removeprefix("export ").split("=")
            assert environment(BUILD)[name] == value
            return
        self.write_files()
        result = run("bash", "-c", command)
        if output and result.stdout != output:
            self.surprises.append((command, result.stdout))

    def type_session(self, text):
        found = session_failures(BUILD, text)
        if found:
            self.surprises.append((text, found))

    def follow(self):
        for file, kind, text in blocks():
            if file:
                self.shown.setdefault(file, []).extend(text.splitlines())
            elif kind == "pycon":
                self.type_session(text)
            elif kind == "text":
                for command in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
                    self.type_command(*command)
            else:
                pytest.fail(f"who follows {kind}?")


@pytest.fixture(scope="module")
def reader():
    """One who has read the page to its end. A second time the builds are quick."""
    for folder in ("csrc", "torch_mini"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    reader = Reader()
    reader.follow()
    return reader


@pytest.fixture(scope="module")
def mini(reader):
    """Runs Python with the backend that the reader has built."""
    return lambda *arguments, **options: run(sys.executable, *arguments, **options)


def test_the_reader_sees_what_the_page_shows(reader):
    assert reader.surprises == []


def test_the_page_lists_the_files():
    listed = next(text for _, kind, text in blocks() if kind == "text")
    names = [line.split()[0] for line in listed.splitlines()]
    assert sorted(names) == sorted(
        str(path.relative_to(EXAMPLE)) for path in example_files()
    )


def test_the_reader_has_every_file(reader):
    assert sorted(reader.shown) == sorted(
        str(path.relative_to(EXAMPLE)) for path in example_files()
    )


@pytest.mark.parametrize(
    "name", [str(path.relative_to(EXAMPLE)) for path in example_files()]
)
def test_the_page_shows_every_line(name, reader):
    lines = (EXAMPLE / name).read_text().splitlines()
    assert without_gaps(reader.shown[name]) == without_gaps(lines)


def test_the_example_stays_small():
    lines = sum(len(path.read_text().splitlines()) for path in example_files())
    assert 0 < lines < 500


def test_it_trains_as_the_cpu_does(mini):
    loss, again = re.findall(r"\d\.\d+", mini("-W", "error", "train.py").stdout)
    assert loss == again
    assert float(loss) < 1


CASES = {
    "torch.ones(2, device='mini:2')": "RuntimeError no mini:2: there are 2 devices",
    "torch.empty(1 << 60, device='mini')": "OutOfMemoryError mini has no 461168601842",
    "torch.ones(2, device='mini').long().relu()": "RuntimeError relu is for floats, not",
    "torch.accelerator.current_accelerator()": "mini",
    "torch.mini.device('mini:1').__enter__()": "None",
    "torch.ones(1).mini().device": "mini:1",
    "torch.empty(0).mini().set_(torch.ones(4).mini().untyped_storage(), 1, (1, 2))"
    ".tolist()": "[[1.0, 1.0]]",
    "torch.empty(0).mini().set_(torch.ones(4).untyped_storage())": "RuntimeError Attempte"
    "d to set the storage of a tensor on device",
    # The generators: seeded by torch, equal to the CPU's, each device's its own, and with
    # a state.
    "(torch.manual_seed(3), torch.rand(2, device='mini:0'))[1].tolist() =="
    " (torch.manual_seed(3), torch.rand(2))[1].tolist()": "True",
    "(torch.manual_seed(3), torch.randperm(9, device='mini:0'), torch.randperm(9, device="
    "'mini:1'))[2].tolist() == (torch.manual_seed(3), torch.randperm(9))[1].tolist()": "True",
    "(g := torch.Generator('mini').manual_seed(5)).device": "mini:1",
    "(h := g.clone_state()).device": "mini:1",
    "torch.randn(3, generator=g, device='mini').equal("
    "torch.randn(3, generator=h, device='mini'))": "True",
    "torch.randn(3, generator=g, device='mini').equal("
    "torch.randn(3, generator=torch.Generator().manual_seed(5)).mini())": "False",
}


@pytest.fixture(scope="module")
def given(reader):
    return answers(BUILD, "torch_mini", CASES)


@pytest.mark.parametrize("line", CASES)
def test_each_line_gives_the_expected_answer(line, given):
    assert given[line].startswith(CASES[line])


def test_the_host_cannot_read_device_memory(mini):
    code = (
        "import ctypes, torch, torch_mini;"
        "ctypes.string_at(torch.ones(4, device='mini').data_ptr(), 4)"
    )
    assert mini("-c", code, check=False).returncode == -signal.SIGSEGV


# torch calls the entry points of all packages, and there is torch_openreg's.
INSTALLED = """
import importlib.metadata
found = [p for p in importlib.metadata.entry_points(group="torch.backends")
         if p.name == "torch_mini"]
importlib.metadata.entry_points = lambda group: found
"""


@pytest.mark.parametrize("imports", ["import torch", "import torch_mini, torch"])
def test_an_installed_one_is_loaded_by_torch(imports, mini):
    mini("setup.py", "-q", "egg_info")
    code = f"{INSTALLED}\n{imports}\nprint(torch.ones(2, device='mini').device)"
    found = mini("-c", code, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
    assert found.stdout == "mini:0\n"


def test_beside_another_backend_it_is_refused_in_words(mini):
    result = mini("-c", "import torch_openreg, torch_mini", check=False)
    assert result.returncode == 1, result.stderr
    *_, line = result.stderr.splitlines()
    assert line == (
        "RuntimeError: torch_mini cannot load beside 'openreg': "
        "set TORCH_DEVICE_BACKEND_AUTOLOAD=0, and import one backend"
    )


# --- the minimal set ------------------------------------------------------------


# The example's own kernel, and what saves a way through the fallback.
SPARE = {"PrivateUse1 relu", "PrivateUse1 empty.memory_format"}


def registrations():
    """What the example registers, as "key operator", but for what it could spare."""
    source = (EXAMPLE / "csrc" / "operators.cpp").read_text()
    blocks = re.findall(
        r"^TORCH_LIBRARY_IMPL\(\w+, (\w+), m\) \{(.*?)^}", source, re.M | re.S
    )
    names = [
        f"{key} {name or 'fallback'}"
        for key, body in blocks
        for name in re.findall(r'm\.(?:impl\("([\w.]+)"|fallback\()', body)
    ]
    return sorted(set(names) - SPARE)


def rows():
    """Registration -> the step that fails without it, as the page says."""
    row = re.compile(r"^\| `([\w.]+)` \| `(\w+)` \| .* \| (\w[\w ]*?) +\|$", re.M)
    return {
        f"{key} {name}": step.replace(" ", "_")
        for name, key, step in row.findall(PAGE.read_text())
    }


@pytest.fixture(scope="module")
def first_failures(mini):
    found = mini(SUPPORT / "steps.py", "nothing", *SPARE, *registrations()).stdout
    return json.loads(found)


@pytest.mark.parametrize("name", ["nothing", *sorted(SPARE)])
def test_with_the_whole_set_every_step_succeeds(name, first_failures):
    assert first_failures[name] == "None"


def test_the_page_lists_what_the_example_registers():
    assert sorted(rows()) == registrations() != []


@pytest.mark.parametrize("name", registrations())
def test_without_one_the_step_on_the_page_fails(name, first_failures):
    assert first_failures[name] == rows()[name]


# --- the conformance kit --------------------------------------------------------


def test_it_reaches_the_level_that_the_page_says(mini):
    (level,) = re.findall(
        r"level (\d+) of \[", (PAGE.parent / "first_backend.md").read_text()
    )
    command = ["-m", "torch_conformance", "--device", "mini", "--module", "torch_mini"]
    found = mini(*command, "--level", level)
    assert f"mini: level {level}, " in found.stdout
