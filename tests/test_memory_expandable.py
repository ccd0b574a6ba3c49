"""Segments that grow: PYTORCH_ALLOC_CONF=expandable_segments:True."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import remote as r
import torch

START = """
import torch
MiB = 1 << 20

def take(size, device="openreg"):
    return torch.empty(int(size * MiB), dtype=torch.uint8, device=device)

def reserved():
    return torch.openreg.memory_reserved() >> 20
"""
GOLDEN = Path(__file__).parent / "golden"
ON = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}


@pytest.fixture
def run(run_python):
    def go(code, **variables):
        return run_python(START + code, **{**ON, **variables}).split()

    return go


def test_the_figures_are_those_of_a_gpu():
    script, record = GOLDEN / "expandable.py", GOLDEN / "expandable.json"
    found = subprocess.run(
        [sys.executable, script, record],
        env={**os.environ, **ON},
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert found.returncode == 0, found.stderr
    seen = json.loads(found.stdout)
    rows = json.loads(record.read_text())["rows"]
    assert len(seen) == len(rows)
    for number, (here, there) in enumerate(zip(seen, rows, strict=True)):
        assert here == there, f"step {number}"


GROWING = """
for size in range(20, 400, 20):
    x = None
    x = take(size)
print(reserved())
"""


def test_an_allocation_that_grows_leaves_no_holes(run):
    assert run(GROWING) == ["380"]
    plain = {"PYTORCH_ALLOC_CONF": ""}
    assert int(run(GROWING, **plain)[0]) > 3000  # each had a segment of its own


def test_it_fits_where_segments_do_not(run):
    code = GROWING.replace("print", "x = None; y = take(390); print")
    assert run(code, OPENREG_DEVICE_MEMORY="420MiB") == ["400"]


def test_it_holds_what_is_written(run):
    code = """
x = take(30).fill_(3)
y = take(50).fill_(4)
del x
torch.openreg.empty_cache()
z = take(30).fill_(5)
print(y.sum().item() // MiB, z.cpu().sum().item() // MiB, reserved())
"""
    assert run(code) == ["200", "150", "82"]  # the sum is a small block


def test_a_snapshot_and_the_history_tell(run):
    code = """
torch.openreg.memory._record_memory_history()
x, y = take(20), take(30)
del x
torch.openreg.empty_cache()
snapshot = torch.openreg.memory._snapshot()
print(snapshot["allocator_settings"]["expandable_segments"])
for segment in snapshot["segments"]:
    print(segment["is_expandable"], segment["total_size"] // MiB)
for entry in snapshot["device_traces"][0]:
    if entry["action"].startswith("segment"):
        print(entry["action"], entry["size"] // MiB)
"""
    found = run(code)
    assert found == ["True", "True", "40", "segment_map", "20", "segment_map", "40"] + [
        "segment_unmap",
        "20",
    ]


def test_a_running_program_turns_it_on_and_off(run):
    code = """
x = take(30)
torch.openreg.memory._set_allocator_settings("expandable_segments:False")
y = take(30)
print(*(s["is_expandable"] for s in torch.openreg.memory_snapshot()))
"""
    assert sorted(run(code)) == ["False", "True"]


def test_graphs_keep_their_memory_in_it(run):
    code = """
x = torch.ones(3 * MiB, device="openreg")
graph = torch.openreg.OpenRegGraph()
with torch.openreg.graph(graph):
    y = x * 2
    z = y + 1
graph.replay()
torch.openreg.empty_cache()
print(z.sum().item() / MiB, {s["is_expandable"] for s in torch.openreg.memory_snapshot()})
"""
    assert run(code) == ["9.0", "{True}"]


def test_too_little_memory_is_an_error_with_figures(run_python):
    code = """
x = take(40)
try:
    take(100)
except torch.OutOfMemoryError as error:
    print(str(error)[:60])
y = take(20)
print(reserved(), torch.openreg.memory_stats()["num_ooms"])
"""
    found = run_python(START + code, OPENREG_DEVICE_MEMORY="100MiB", **ON).splitlines()
    assert "Tried to allocate 100.00 MiB" in found[0]
    assert found[1] == "60 1"


def test_another_process_shares_it():
    remote = r.Remote()
    set_ = torch.openreg.memory._set_allocator_settings
    stream = torch.openreg.Stream()  # whose pool has no other blocks
    set_("expandable_segments:True")
    try:
        with torch.openreg.stream(stream):
            first = torch.ones(25 << 18, device="openreg")
            x = torch.ones(25 << 18, device="openreg")
            segments = torch.openreg.memory_snapshot()
            assert any(segment["is_expandable"] for segment in segments)
            remote(r.add, x[:3], 10)
            assert x[:4].tolist() == [11, 11, 11, 1]
            y = torch.ones(25 << 18, device="openreg")  # it has grown
            remote(r.add, y[:3], 20)
            assert y[:4].tolist() == [21, 21, 21, 1]
            assert x[:4].tolist() == [11, 11, 11, 1] and first.sum() == 25 << 18
    finally:
        set_("expandable_segments:False")
        remote.close()


def test_no_segment_grows_by_default(run):
    code = "x = take(30); print({s['is_expandable'] for s in torch.openreg.memory_snapshot()})"
    assert run(code, PYTORCH_ALLOC_CONF="") == ["{False}"]
