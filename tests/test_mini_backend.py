"""examples/mini_backend: it is small, it works, and it has nothing to spare."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "mini_backend"
BUILD = ROOT / "build" / "mini_backend"
SUPPORT = ROOT / "tests" / "minimal_set"
PAGE = ROOT / "docs" / "minimal_set.md"


def example_files():
    return [*EXAMPLE.glob("*.py"), *EXAMPLE.glob("csrc/*"), *EXAMPLE.glob("*/*.py")]


def run(*arguments, cwd=BUILD, check=True, **variables):
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        # One backend per process, and this one is not openreg.
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **variables},
        capture_output=True,
        text=True,
        timeout=500,
    )
    if check:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def mini():
    """Builds the example, and runs Python with it. The second build is quick."""
    run(
        *("setup.py", "-q", "build", "-b", BUILD, "--build-lib", BUILD / "lib"),
        cwd=EXAMPLE,
        CFLAGS=f"-include {SUPPORT / 'leave_out.h'}",
    )
    return lambda *arguments, **options: run(
        *arguments, **options, PYTHONPATH=str(BUILD / "lib")
    )


def shown_on_the_page(name):
    """What docs/first_backend.md includes of a file, in its order."""
    page = (PAGE.parent / "first_backend.md").read_text()
    lines = (EXAMPLE / name).read_text().splitlines()

    def place(options, option, otherwise):
        words = re.search(rf'^:{option}: "(.*)"$', options, re.M)
        if not words:
            return otherwise
        (found,) = (i for i, line in enumerate(lines) if words[1] in line)
        return found

    include = rf"literalinclude\}} \.\./examples/mini_backend/{name}\n((?::.*\n)*)"
    shown = []
    for options in re.findall(include, page):
        begin = place(options, "start-at", 0)
        end = place(options, "end-before", place(options, "end-at", len(lines) - 1) + 1)
        shown += lines[begin:end]
    return [line for line in shown if line]


@pytest.mark.parametrize(
    "name", [str(path.relative_to(EXAMPLE)) for path in example_files()]
)
def test_the_page_shows_every_line(name):
    lines = (EXAMPLE / name).read_text().splitlines()
    assert shown_on_the_page(name) == [line for line in lines if line]


def test_the_example_stays_small():
    lines = sum(len(path.read_text().splitlines()) for path in example_files())
    assert 0 < lines < 400


def test_it_trains_as_the_cpu_does(mini):
    script = BUILD / "train.py"  # beside the example Python would not find _C.so
    script.write_text((EXAMPLE / "train.py").read_text())
    loss, again = re.findall(r"\d\.\d+", mini("-W", "error", script).stdout)
    assert loss == again
    assert float(loss) < 1


PROGRAM = """
import json, sys, torch, torch_mini

def told(line):
    try:
        return str(eval(line, globals()))
    except RuntimeError as error:
        return f"{type(error).__name__} {error}"

print(json.dumps([told(line) for line in sys.argv[1:]]))
"""
CASES = {
    "torch.ones(2, device='mini:2')": "RuntimeError no mini:2: there are 2 devices",
    "torch.empty(1 << 60, device='mini')": "OutOfMemoryError mini has no 461168601842",
    "torch.ones(2, device='mini').long().relu()": "RuntimeError relu is for floats, not",
    "torch.accelerator.current_accelerator()": "mini",
    "torch.mini.device('mini:1').__enter__()": "None",
    "torch.ones(1).mini().device": "mini:1",
    # The generators: seeded by torch, equal to the CPU's, and with a state.
    "(torch.manual_seed(3), torch.rand(2, device='mini:0'))[1].tolist() =="
    " (torch.manual_seed(3), torch.rand(2))[1].tolist()": "True",
    "(g := torch.Generator('mini').manual_seed(5)).device": "mini:1",
    "(h := g.clone_state()).device": "mini:1",
    "torch.randn(3, generator=g, device='mini').equal("
    "torch.randn(3, generator=h, device='mini'))": "True",
    "torch.randn(3, generator=g, device='mini').equal("
    "torch.randn(3, generator=torch.Generator().manual_seed(5)).mini())": "False",
}


@pytest.fixture(scope="module")
def answers(mini):
    return dict(zip(CASES, json.loads(mini("-c", PROGRAM, *CASES).stdout), strict=True))


@pytest.mark.parametrize("line", CASES)
def test_what_it_answers(line, answers):
    assert answers[line].startswith(CASES[line])


def test_the_host_cannot_read_device_memory(mini):
    code = (
        "import ctypes, torch, torch_mini;"
        "ctypes.string_at(torch.ones(4, device='mini').data_ptr(), 4)"
    )
    assert mini("-c", code, check=False).returncode == -signal.SIGSEGV


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
    row = re.compile(r"^\| `([\w.]+)`(?: \((\w+)\))? +\| .* \| (\w[\w ]*?) +\|$", re.M)
    return {
        f"{key or 'PrivateUse1'} {name}": step.replace(" ", "_")
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
