"""Level 12: a process group, with two ranks on this machine."""

import os
import subprocess
import sys
import tempfile

import torch.distributed as dist

from ..check import check
from ..expect import Failed, expect

PAGE = "distributed.md"
NEEDS = ("distributed",)
WRITE = (
    "A `c10d::Backend` for the device, with `Backend.register_backend(..., devices=)`."
)

PROGRAM = """
import datetime, sys
import torch.distributed as dist
rank = int(sys.argv[1])
index = rank % torch.accelerator.device_count()
at = torch.device("{device}", index)
torch.accelerator.set_device_index(index)
dist.init_process_group(
    dist.Backend.default_device_backend_map["{device}"], rank=rank, world_size=2, init_method="file://" + sys.argv[2],
    timeout=datetime.timedelta(seconds=60),
)
x = torch.arange(4.0, device=at) + 10 * rank
def same(found, expected):
    assert found.device.type == "{device}", found.device
    assert found.tolist() == expected, (found.tolist(), expected)
{body}
torch.accelerator.synchronize()
dist.barrier()
dist.destroy_process_group()
"""


def expect_backend(device):
    """Fails unless c10d has a default backend for the device."""
    found = dist.Backend.default_device_backend_map
    expect(device.name in found, f"there is no {device.name} in {sorted(found)}")


def run_ranks(device, body):
    """Runs the lines in two ranks, which both have to end well."""
    expect_backend(device)
    text = device.imports + PROGRAM.format(device=device.name, body=body)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", text]
        store = os.path.join(folder, "store")
        ranks = [
            subprocess.Popen(
                [*command, str(rank), store],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            ends = [rank.communicate(timeout=100)[1] for rank in ranks]
        except subprocess.TimeoutExpired:
            raise Failed(f"two ranks hang: {body.strip()}") from None
        finally:
            for rank in ranks:
                rank.kill()
    for number, (rank, text) in enumerate(zip(ranks, ends, strict=True)):
        expect(
            rank.returncode == 0,
            f"rank {number} ends with status {rank.returncode}: {text.strip()[-1000:]}",
        )


@check(
    call="dist.Backend.default_device_backend_map",
    write=WRITE,
    page=PAGE,
    needs=NEEDS,
)
def the_device_has_a_backend(device):
    """c10d knows a default backend for the device."""
    expect_backend(device)


@check(call="dist.all_reduce(x)", write=WRITE, page=PAGE, needs=NEEDS, seconds=120)
def sums_over_ranks(device):
    """all_reduce and reduce add up, in place; barriers pass."""
    run_ranks(
        device,
        "dist.all_reduce(x)\nsame(x, [10, 12, 14, 16])\n"
        "dist.all_reduce(x, op=dist.ReduceOp.MAX)\nsame(x, [10, 12, 14, 16])",
    )


@check(
    call="dist.broadcast(x, 0), dist.all_gather_into_tensor(), reduce_scatter_tensor()",
    write=WRITE,
    page=PAGE,
    needs=NEEDS,
    seconds=120,
)
def gathers_and_scatters(device):
    """Broadcast, gathering and scattering put each part in its place."""
    run_ranks(
        device,
        "whole = torch.zeros(8, device=at)\n"
        "dist.all_gather_into_tensor(whole, x)\n"
        "same(whole, [0, 1, 2, 3, 10, 11, 12, 13])\n"
        "part = torch.zeros(4, device=at)\n"
        "dist.reduce_scatter_tensor(part, whole)\n"
        "same(part, [v * 2 for v in ([0, 1, 2, 3], [10, 11, 12, 13])[rank]])\n"
        "dist.broadcast(x, 0)\nsame(x, [0, 1, 2, 3])",
    )


@check(
    call="dist.send(x, 1), dist.recv(x, 0)",
    write=WRITE,
    page=PAGE,
    needs=NEEDS,
    seconds=120,
)
def sends_and_receives(device):
    """Messages and all-to-all reach the rank they are for."""
    run_ranks(
        device,
        "if rank == 0:\n    dist.send(x, 1)\nelse:\n    dist.recv(x, 0)\n"
        "same(x, [0, 1, 2, 3])\nout = torch.zeros(4, device=at)\n"
        "dist.all_to_all_single(out, x + rank)\n"
        "same(out, ([0, 1, 1, 2], [2, 3, 3, 4])[rank])",
    )


@check(
    call="dist.all_reduce(x, async_op=True)",
    write="`Work.wait()` makes the current stream wait, and returns.",
    page=PAGE,
    needs=NEEDS,
    seconds=120,
)
def works_are_waited_for(device):
    """A collective that is started and waited for is ordered with other work."""
    run_ranks(
        device,
        "y = x * 2\nwork = dist.all_reduce(y, async_op=True)\nwork.wait()\n"
        "same(y + 1, [21, 25, 29, 33])",
    )


@check(
    call="DistributedDataParallel(module)",
    write="The collectives above; DDP's reducer uses streams and events of the guard.",
    page=PAGE,
    needs=NEEDS,
    seconds=120,
)
def trains_in_parallel(device):
    """DistributedDataParallel averages the gradients of the ranks."""
    run_ranks(
        device,
        "from torch.nn.parallel import DistributedDataParallel\n"
        "module = torch.nn.Linear(4, 1, bias=False).to(at)\n"
        "module = DistributedDataParallel(module)\n"
        "module(x[None]).sum().backward()\n"
        "same(module.module.weight.grad[0], [5, 6, 7, 8])",
    )
