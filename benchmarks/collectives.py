"""Collectives of ranks on one host against Gloo's on CPU tensors, in turns.

    python benchmarks/collectives.py [--ranks 2,4] [--rounds 5] [--scale 1.0]
                                     [--only NAME] [--json FILE]

A ratio is the device's time by Gloo's: lower is better. `aim` is what it is to be, and a
row is "over" if it is more than 5 % above. `memcpy` is how long one copy of as many bytes
takes. The last rows tell how much longer ranks take if they are twice as many.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from measure import best_of
from measure.versus import Case, measured
from torch import nn

KIB, MIB = 1 << 10, 1 << 20
NAMES = {KIB: "1 KiB", 32 * MIB: "32 MiB"}


def collective(name: str, size: int):
    """Makes a call of that many bytes, for either device."""

    def make(device):
        ranks = dist.get_world_size()
        x = torch.ones(max(size // 4, ranks), device=device)
        part = torch.ones(x.numel() // ranks, device=device)
        whole = x[: part.numel() * ranks]
        other = torch.empty_like(whole)
        return {
            "all_reduce": lambda: dist.all_reduce(x),
            "broadcast": lambda: dist.broadcast(x, 0),
            "all_gather": lambda: dist.all_gather_single(whole, part),
            "reduce_scatter": lambda: dist.reduce_scatter_single(part, whole),
            "all_to_all": lambda: dist.all_to_all_single(other, whole),
        }[name]

    return make


def barrier(device):
    group = dist.new_group(backend={"cpu": "gloo", "openreg": "occl"}[device])
    return lambda: dist.barrier(group)


def training(device):
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.randn(64, 512).to(device)

    def run():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return run


SIZES = {  # aims: at how many times Gloo's speed, with 2 ranks and with more
    ("all_reduce", KIB): (15, 30),
    ("all_reduce", 32 * MIB): (7, 7),
    ("all_gather", 32 * MIB): (5, 5),
    ("reduce_scatter", 32 * MIB): (5, 5),
    ("all_to_all", 32 * MIB): (5, 5),
    ("broadcast", 32 * MIB): (5, 5),
}


def cases(ranks: int):
    """Each with the bytes that pass."""
    for (name, size), aims in SIZES.items():
        calls = 100 if size == KIB else 4
        title = f"{ranks} ranks, {name} {NAMES[size]}"
        case = Case(title, collective(name, size), calls, 1 / aims[ranks > 2])
        yield case, size
    yield Case(f"{ranks} ranks, barrier", barrier, 100, 1 / 10), 0
    yield Case(f"{ranks} ranks, DDP step of MLP 512", training, 10, 0.8), 0


def memcpy_us(size: int) -> float:
    if size == 0:
        return 0.0
    x, y = torch.ones(size // 4), torch.empty(size // 4)
    return 1e6 * best_of({"copy": lambda: y.copy_(x)}, 10, 3)["copy"]


def rank_main(rank: int, ranks: int, port: int, options, path: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    torch.openreg.set_device(rank % torch.openreg.device_count())
    dist.init_process_group("cpu:gloo,openreg:occl", rank=rank, world_size=ranks)
    rows = {}
    for case, size in cases(ranks):
        if options.only in case.name:
            row = measured(case, options.rounds, options.scale)
            rows[case.name] = row | {"memcpy_us": memcpy_us(size)}
    dist.destroy_process_group()
    if rank == 0:
        Path(path).write_text(json.dumps(rows))


def run(ranks: int, options) -> dict:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # warnings of each rank
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        torch.multiprocessing.spawn(
            rank_main, (ranks, port, options, path), nprocs=ranks
        )
        return json.loads(Path(path).read_text())


def show(rows: dict) -> None:
    for name, row in rows.items():
        verdict = "ok" if row["within"] else "over"
        print(
            f"{name:34}{row['cpu_us']:11.1f}{row['device_us']:11.1f}"
            f"{row['ratio']:7.3f}{row['aim']:7.3f}{row['memcpy_us']:10.1f}  {verdict}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4", help="how many, one after the other")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the calls")
    parser.add_argument("--only", default="", help="rows whose names have this in them")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    counts = [int(count) for count in options.ranks.split(",")]
    print(
        f"{'':34}{'Gloo us':>11}{'device us':>11}{'ratio':>7}{'aim':>7}{'memcpy us':>10}"
    )
    rows = {}
    for count in counts:
        found = run(count, options)
        show(found)
        rows |= found
    for few, many in zip(counts, counts[1:], strict=False):
        for name in (name for name in rows if name.startswith(f"{few} ranks,")):
            call = name.split(", ", 1)[1]
            times = rows[f"{many} ranks, {call}"]["device_us"] / rows[name]["device_us"]
            print(f"{many} ranks against {few}: {call:30}{times:6.2f} times as long")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
