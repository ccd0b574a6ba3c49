"""Every example runs to its end, and the first one notices a wrong number."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))
QUICKSTART = next(path for path in EXAMPLES if path.name == "quickstart.py")
SHORT = {"quickstart.py": ["--steps", "3"]}
RANKS = {"distributed.py": ["-m", "torch_openreg.launch", "--devices", "4"]}


def run(*command, **variables):
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_succeeds_without_a_terminal(example):
    start = RANKS.get(example.name, [])
    result = run(*start, example, *SHORT.get(example.name, []))
    assert result.returncode == 0, result.stdout + result.stderr
    if start:
        assert "the same: True" in result.stdout  # stderr: DDP lacks a timer of ours
    else:
        assert result.stderr == ""


def test_quickstart_prints_the_same_wherever_kernels_run():
    here, there = (
        run(QUICKSTART, "--steps", "3", OPENREG_EXECUTOR=executor)
        for executor in ("thread", "process")
    )
    assert there.returncode == 0, there.stderr
    assert here.stdout.count("the same: True") == 2
    losses = [
        [line for line in done.stdout.splitlines() if "loss" in line]
        for done in (here, there)
    ]
    assert losses[0] == losses[1]


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


def test_quickstart_fails_when_the_losses_differ():
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
    result = run("-c", code)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "is the same: False" in result.stdout
