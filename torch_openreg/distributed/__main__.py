"""The commands of torch_openreg.distributed."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from torch_openreg.memory._text import size, table

from . import _library

PROG = "python -m torch_openreg.distributed"
USAGE = f"""What ranks of a script would take.

    {PROG} estimate script.py [args] --devices 64
                                        [--topology 8x8-ib] [--ranks 0,63]

`estimate` runs a few ranks, with PyTorch's fake group for the others, and reports
memory per rank, bytes per link and the time of communication."""

# docs:begin estimate-assumptions
ASSUMPTIONS = """assumptions
  - The other ranks send what this rank sends: sizes are right, results are not.
    A program whose steps depend on results may take others.
  - Memory is that of tensors on openreg; another device's kernels need workspaces.
  - A call sends the bytes of a ring in the steps of a tree; all links are free, groups do
    not slow each other down, and adapters of one host share the load (docs/distributed.md).
  - Times are sums over the calls of the whole script, as if none ran beside computation."""
# docs:end estimate-assumptions


class Refused(Exception):
    """A request that cannot be followed; says why."""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog=f"{PROG} estimate",
        usage="%(prog)s [options] script.py [args] [options] [-- more args]",
        description="Runs a few ranks of a script and tells what many would take.",
        epilog="Arguments that this command does not know are passed to the script, and "
        "all that follow a `--`.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--devices", type=int, required=True, help="ranks, each with a device")
    add("--topology", help="as OPENREG_TOPOLOGY; hosts of 8 devices with InfiniBand")
    add("--ranks", help="ranks to run, such as 0,63; the first and the last")
    add("--json", type=Path, help="file to write the figures to")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options, rest = parser.parse_known_args(arguments[:cut])
    command = rest + arguments[cut + 1 :]
    if not command or command[0].startswith("-"):
        parser.error("there must be a script to run")
    return options, command


def pick_topology(options: argparse.Namespace) -> tuple[str, int]:
    """The topology, and how many devices a host has in it."""
    devices = options.devices
    if devices < 1:
        raise Refused(f"--devices must be at least 1, but is {devices}")
    default = f"nvlink{devices}" if devices <= 8 else f"{-(-devices // 8)}x8-ib"
    text = options.topology or os.environ.get("OPENREG_TOPOLOGY") or default
    try:
        hosts, per_host = _library()._check_topology(text)
    except ValueError as error:
        raise Refused(error) from None
    if devices > hosts * per_host:
        raise Refused(
            f"--devices is {devices}, but {text} has {hosts} x {per_host}; "
            f"take a larger one, such as {default}"
        )
    return text, per_host


def pick_ranks(options: argparse.Namespace) -> list[int]:
    if options.ranks is None:
        return sorted({0, options.devices - 1})
    try:
        ranks = [int(rank) for rank in options.ranks.split(",")]
    except ValueError:
        ranks = []
    if not ranks or min(ranks) < 0 or max(ranks) >= options.devices:
        raise Refused(
            f"--ranks must be numbers in [0, {options.devices}), such as 0,1, "
            f"but is {options.ranks}"
        )
    return sorted(set(ranks))


def run_rank(
    rank: int, options: argparse.Namespace, command: list[str], shows: bool
) -> dict:
    """Runs the script as one rank; returns what it used."""
    topology, per_host = pick_topology(options)
    local = min(per_host, options.devices)
    variables = {
        "RANK": rank,
        "WORLD_SIZE": options.devices,
        "LOCAL_RANK": rank % per_host,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": rank // per_host,
        "OPENREG_DEVICE_COUNT": local,
        "OPENREG_TOPOLOGY": topology,
    }
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        ended = subprocess.run(
            [sys.executable, "-m", f"{__package__}._alone", figures, *command],
            env=os.environ | {name: str(value) for name, value in variables.items()},
            stdout=None if shows else subprocess.DEVNULL,
        )
        if ended.returncode != 0 or not figures.exists():
            raise Refused(
                f"rank {rank} ended with {ended.returncode}; what it wrote is above"
            )
        return json.loads(figures.read_text())


def total(figures: dict, key: str) -> float:
    return sum(row[key] for row in figures["traffic"])


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def show(found: dict[int, dict], devices: int, topology: str) -> None:
    table(
        f"{devices} devices, {topology}; {len(found)} of the ranks were run",
        ("rank", "peak memory", "reserved", "inside host", "between", "communication"),
        (
            (
                *(str(rank), size(figures["allocated"]), size(figures["reserved"])),
                *(size(total(figures, key)) for key in ("inside", "between")),
                milliseconds(total(figures, "seconds")),
            )
            for rank, figures in found.items()
        ),
        right=6,
    )
    for rank, figures in found.items():
        table(
            f"rank {rank}: bytes of the busiest device's link and adapter, per group",
            ("calls", "inside host", "between", "time", "ranks", "call and group"),
            (
                (
                    *(str(row["calls"]), size(row["inside"]), size(row["between"])),
                    *(milliseconds(row["seconds"]), str(row["ranks"])),
                    f"{row['call']}, group {row['group']}",
                )
                for row in sorted(figures["traffic"], key=lambda row: -row["seconds"])
            ),
            right=5,
        )


def estimate(arguments: list[str]) -> int:
    options, command = parse(arguments)
    topology, _ = pick_topology(options)
    ranks = pick_ranks(options)
    if not os.path.isfile(command[0]):
        raise Refused(f"there is no script {command[0]}")
    found = {}
    for rank in ranks:
        print(f"rank {rank} of {options.devices} runs", file=sys.stderr)
        found[rank] = run_rank(rank, options, command, shows=rank == ranks[0])
    show(found, options.devices, topology)
    print(ASSUMPTIONS)
    print(
        "Next: run a few ranks with OPENREG_TOPOLOGY and the profiler, to see what of "
        "this overlaps with computation."
    )
    if options.json:
        options.json.write_text(json.dumps({"topology": topology, "ranks": found}))
    return 0


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] == "estimate":
        try:
            return estimate(arguments[1:])
        except Refused as error:
            print(f"{PROG} estimate: {error}", file=sys.stderr)
            return 2
    print(USAGE)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
