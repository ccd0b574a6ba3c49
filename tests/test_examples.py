"""Every example runs to its end, and the first one notices a wrong number."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))
QUICKSTART = next(path for path in EXAMPLES if path.name == "quickstart.py")
SHORT = {"quickstart.py": ["--steps", "3"], "compile.py": ["--steps", "6"]}
RANKS = {"distributed.py": ["torch_openreg.launch", "--devices", "4"]}
SHOWN = {
    "compile.py": (
        *("eager", "compiled", "reduce-overhead", "100%", "first step", "ms each"),
        *("kernels, ", "the same losses three times: True"),
    )
}
MARKS = {
    "compile.py": pytest.mark.slow,  # waits for a C++ compiler
    "find_a_race.py": pytest.mark.in_threads("the sanitizer is refused there"),
}


def cases():
    for path in EXAMPLES:
        yield pytest.param(path, marks=MARKS.get(path.name, ()), id=path.name)


@pytest.mark.parametrize("example", cases())
def test_example_succeeds_without_a_terminal(example, run_script):
    start = RANKS.get(example.name, [])
    result = run_script(*start, example, *SHORT.get(example.name, []), timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    if start:
        assert "the same: True" in result.stdout  # stderr: DDP lacks a timer of ours
        return
    for words in SHOWN.get(example.name, ()):
        assert words in result.stdout
    # torch's profiler tells when it starts and stops.
    lines = result.stderr.splitlines()
    assert [line for line in lines if not line.startswith("USDT:")] == []


def test_quickstart_prints_the_same_wherever_kernels_run(run_script):
    here, there = (
        run_script(QUICKSTART, "--steps", "3", OPENREG_EXECUTOR=executor)
        for executor in ("thread", "process")
    )
    assert there.returncode == 0, there.stderr
    assert here.stdout.count("the same: True") == 2
    losses = [
        [line for line in done.stdout.splitlines() if "loss" in line]
        for done in (here, there)
    ]
    assert losses[0] == losses[1]


@pytest.mark.slow  # waits for a C++ compiler
def test_an_operator_of_another_project_runs_on_the_device(run_script, tmp_path):
    binaries = Path(sys.executable).parent
    result = run_script(
        EXAMPLES[0].parent / "extension" / "run.py",
        TORCH_EXTENSIONS_DIR=str(tmp_path),
        PATH=f"{binaries}:{os.environ['PATH']}",
        timeout=300,
    )
    assert result.stdout == "tensor([1.5000, 2.0000], device='openreg:0')\n"


def test_the_recipe_for_ci_passes_under_every_schedule():
    folder = EXAMPLES[0].parent / "testing"
    result = subprocess.run(
        ["bash", "ci.sh", "-p", "no:cacheprovider", "test_model.py"],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("s.") == 3  # the CPU has nothing to overlap


def test_quickstart_fails_when_the_losses_differ(start_python, tmp_path):
    # The generator of the device gets another seed than the CPU's.
    code = f"""
import runpy, sys, torch
seed = torch.manual_seed
def uneven(number):
    generator = seed(number)
    torch.openreg.manual_seed_all(number + 1)
    return generator
torch.manual_seed = uneven
sys.argv = ["quickstart.py", "--steps", "3"]
runpy.run_path({str(QUICKSTART)!r}, run_name="__main__")
"""
    result = start_python(code, tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "is the same: False" in result.stdout


@pytest.mark.in_threads("the sanitizer is refused there")
def test_the_tour_prints_what_the_notebook_shows(run_python):
    notebook = EXAMPLES[0].parent / "tour.ipynb"
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shown = [
        "".join(line for output in cell["outputs"] for line in output["text"])
        for cell in cells
        if cell["cell_type"] == "code"
    ]
    printed = run_python("\nprint('---')\n".join(code)) + "\n"
    assert printed.split("---\n") == shown and len(shown) > 6
