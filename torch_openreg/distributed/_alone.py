"""One rank of many runs a script; PyTorch's fake group stands for the others.

``python -m torch_openreg.distributed._alone figures.json script.py [args]``, with
torchrun's variables, writes what the rank used.
"""

import json
import os
import runpy
import sys

import torch
from torch import distributed
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeProcessGroup

import torch_openreg.distributed as occl


class _IsFake(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, FakeProcessGroup)


class FakeGloo(metaclass=_IsFake):
    """Makes PyTorch's fake group in place of Gloo's."""

    def __new__(cls, store, rank, size, timeout=None):
        return FakeProcessGroup._create_internal(rank, size)


def rendezvous(*_, **__):
    """A store of this process alone, in place of the one that holds the others' addresses."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    yield distributed.HashStore(), rank, size


def pretend() -> None:
    """Let groups be made without the other ranks."""
    c10d.rendezvous = rendezvous
    # occl asks the first for it.
    for module in (torch._C._distributed_c10d, c10d, distributed):
        module.ProcessGroupGloo = FakeGloo
    FakeProcessGroup._set_sequence_number_for_group = lambda self: None


def figures() -> dict:
    torch.openreg.synchronize()
    devices = range(torch.openreg.device_count())
    return {
        "allocated": sum(map(torch.openreg.max_memory_allocated, devices)),
        "reserved": sum(map(torch.openreg.max_memory_reserved, devices)),
        "traffic": occl._library()._traffic(),
    }


def main(path: str, command: list[str]) -> None:
    pretend()
    torch.openreg.set_device(int(os.environ["LOCAL_RANK"]))
    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
    status: object = 0
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ended:
        status = ended.code
    with open(path, "w", encoding="utf-8") as file:
        json.dump(figures(), file)
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
