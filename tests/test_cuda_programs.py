"""Programs written for CUDA (tests/cuda_programs) run unchanged, and with the name of the
device changed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "cuda_programs"
# Run by `make test`; the others take as long, and need no other part of the device.
SAMPLE = "training_loop", "legacy_api", "checkpoint_map_location"
PROGRAMS = [
    pytest.param(path, id=path.stem, marks=() if path.stem in SAMPLE else MARK)
    for MARK in [pytest.mark.slow]
    for path in sorted(FOLDER.glob("*.py"))
]
# Programs that ask for what has no other name, and so run as CUDA alone.
ONLY_CUDA = {
    "data_parallel": "torch.nn.DataParallel, whose scatter() is CUDA's",
    "ddp_gloo": "Gloo, which PyTorch has for tensors of CUDA",
    "environment": "torch.version.cuda",
    "nvtx_ranges": "torch.cuda.cudart()",
    "process_groups": "the options of NCCL",
}
# What the device calls otherwise than CUDA does.
NAMES = {
    r"cuda(?=_time_total)": "device",
    r"Self CUDA": "Self OPENREG",
    r"ProfilerActivity\.CUDA": "ProfilerActivity.PrivateUse1",
    r"\bCUDAGraph\b": "OpenRegGraph",
    r"\bnccl\b": "occl",
    r"cuda(?=_stream\b|\b)": "openreg",
    r"\bCUDA\b": "OpenReg",
}


def run(program, folder, **environment):
    """Runs it as its first line says: alone or by torchrun."""
    ranks = re.match("# torchrun (.*)", program.read_text())
    torchrun = ["-m", "torch.distributed.run", "--standalone"]
    start = [*torchrun, *ranks[1].split()] if ranks else []
    result = subprocess.run(
        [sys.executable, *start, str(program)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        text=True,
        capture_output=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_for_cuda_runs_unchanged(program, tmp_path):
    run(program, tmp_path, OPENREG_AS="cuda")


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.id not in ONLY_CUDA])
def test_it_runs_under_the_name_of_the_device(program, tmp_path):
    text = program.read_text()
    # PyTorch's own, on any device.
    parts = re.split(r"(torch\.backends\.cu\w+|torch\.cuda\._memory_viz)", text)
    for pattern, name in NAMES.items():
        parts[::2] = [re.sub(pattern, name, part) for part in parts[::2]]
    copy = tmp_path / program.name
    copy.write_text("".join(parts))
    run(copy, tmp_path)
