"""What many ranks would take: python -m torch_openreg.distributed estimate."""

import json

import pytest
from torch_openreg.distributed import __main__ as command

SCRIPT = """
import sys

import torch
import torch.distributed as dist

dist.init_process_group("cpu:gloo,openreg:occl")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.full((1 << 20,), 1.0 + rank, device="openreg")
dist.all_reduce(x)
mesh = dist.init_device_mesh("openreg", (size // 4, 4))
parts = torch.empty(4 << 20, device="openreg")
for _ in range(3):
    dist.all_gather_single(parts, x, group=mesh.get_group(1))
assert parts.eq(1.0 + rank).all()  # what it gave itself
dist.all_reduce(torch.ones(3))
dist.barrier()
objects = [None] * size
dist.all_gather_object(objects, rank)
dist.batch_isend_irecv([
    dist.P2POp(dist.isend, x, (rank + 4) % size),
    dist.P2POp(dist.irecv, parts[: 1 << 20], (rank - 4) % size),
])
dist.destroy_process_group()
print("script", *sys.argv[1:])
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What the command prints, and its figures, of one rank."""
    folder = tmp_path_factory.mktemp("estimate")
    (folder / "script.py").write_text(SCRIPT)
    figures = folder / "figures.json"

    def run(capfd):
        arguments = [
            str(folder / "script.py"),
            "--devices",
            "16",
            "--json",
            str(figures),
        ]
        arguments += ["--topology", "4x4-ib", "--ranks", "5", "--flag"]
        assert command.main(["estimate", *arguments]) == 0
        return capfd.readouterr().out, json.loads(figures.read_text())

    return run


def test_one_rank_of_sixteen_is_run_and_its_links_are_counted(report, capfd):
    text, figures = report(capfd)
    assert "script --flag" in text
    assert "assumptions" in text and "Next: " in text
    rank = figures["ranks"]["5"]
    x = 4 << 20  # bytes
    assert 5 * x <= rank["allocated"] < 7 * x  # with what eq() makes
    assert rank["allocated"] <= rank["reserved"]
    rows = {(row["call"], row["ranks"]): row for row in rank["traffic"]}
    ring = 2 * x * 15 / 16
    assert rows["all_reduce", 16]["inside"] == pytest.approx(ring)
    assert rows["all_reduce", 16]["between"] == pytest.approx(ring / 4)
    near = rows["all_gather", 4]  # a host has four devices
    assert near["calls"] == 3 and near["between"] == 0
    assert near["inside"] == pytest.approx(3 * 4 * x * 3 / 4)
    assert near["seconds"] == pytest.approx(3 * (2 * 2e-6 + 3 * x / 450e9))
    assert rows["send", 16]["between"] == x


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--devices", "0"], "at least 1, but is 0"),
        (
            ["--devices", "9", "--topology", "nvlink8"],
            "nvlink8 has 1 x 8; take a larger",
        ),
        (
            ["--devices", "4", "--topology", "cable"],
            "neither a cluster, such as nvlink8",
        ),
        (["--devices", "4", "--ranks", "1,4"], "in [0, 4), such as 0,1, but is 1,4"),
        (["--devices", "4", "--ranks", "all"], "but is all"),
        (["--devices", "4"], "there is no script nowhere.py"),
    ],
)
def test_what_cannot_be_estimated_is_refused_with_a_sentence(arguments, words, capsys):
    assert command.main(["estimate", "nowhere.py", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_failing_script_is_reported_with_its_rank(tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit('no data')")
    assert command.main(["estimate", str(script), "--devices", "2"]) == 2
    error = capfd.readouterr().err
    assert "no data" in error and "rank 0 ended with 1" in error
