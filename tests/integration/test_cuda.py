"""Libraries that look for CUDA, with the device in its place: programs, unchanged. Its
first line says if a program is started by `accelerate launch`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "cuda_programs").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_library_finds_cuda(program, tmp_path):
    variables = {"OPENREG_AS": "cuda", "CUDA_VISIBLE_DEVICES": "0,1"}
    if "trainer" in program.name:  # which takes all it sees
        variables["CUDA_VISIBLE_DEVICES"] = "0"
    ranks = re.match("# accelerate launch (.*)", program.read_text())
    start = ["-m", "accelerate.commands.launch", *ranks[1].split()] if ranks else []
    result = subprocess.run(
        [sys.executable, *start, str(program)],
        cwd=tmp_path,
        env={**os.environ, **variables},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
