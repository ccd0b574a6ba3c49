"""The command of torch_openreg.launch."""

import argparse
import os
import sys

import torch
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from . import __doc__ as usage

PROG = "python -m torch_openreg.launch"


def make_parser() -> argparse.ArgumentParser:
    parser = run.get_args_parser()
    parser.prog = PROG
    parser.description = usage
    parser.add_argument(
        "--devices",
        type=int,
        help="devices of this machine, each with a rank; OPENREG_DEVICE_COUNT or 2",
    )
    return parser


def check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Ends the process with a sentence if the options cannot be followed."""
    if options.nproc_per_node != parser.get_default("nproc_per_node"):
        parser.error(
            f"--nproc-per-node is {options.nproc_per_node}, but there is a rank for "
            "each device: use --devices instead"
        )
    for name in ("run_path", "virtual_local_rank"):
        if getattr(options, name):
            option = name.replace("_", "-")
            parser.error(f"--{option} is left out here; use torchrun itself for it")
    named = options.module or options.no_python
    if not named and not os.path.isfile(options.training_script):
        parser.error(f"there is no script {options.training_script}")


def set_devices(wanted: int | None, parser: argparse.ArgumentParser) -> int:
    """Gives this process and its ranks their devices; returns how many there are."""
    if wanted is not None:
        os.environ["OPENREG_DEVICE_COUNT"] = str(wanted)
    try:
        torch.openreg.init()
    except RuntimeError as error:
        parser.error(str(error).splitlines()[-1])
    count = torch.openreg.device_count()
    if wanted is not None and count != wanted:
        visible = os.environ["OPENREG_VISIBLE_DEVICES"]
        parser.error(
            f"--devices is {wanted}, but {count} of them can be seen: "
            f"OPENREG_VISIBLE_DEVICES is {visible}"
        )
    return count


def main(arguments: list[str]) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    check(options, parser)
    ranks = set_devices(options.devices, parser)
    options.nproc_per_node = str(ranks)
    # Ranks share the cores, and a thread too many costs more than it computes.
    threads = max(1, len(os.sched_getaffinity(0)) // ranks)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    # The store of ranks that are started again would still have the addresses of those
    # before: torchrun keeps it, unless it is told otherwise.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    if not options.no_python:
        flag = ["-m"] if options.module else []
        script = [*flag, options.training_script]
        options.training_script_args = [*script, *options.training_script_args]
        options.training_script, options.module = f"{__package__}._rank", True
    try:
        run.run(options)
    except ChildFailedError as error:
        print(error, file=sys.stderr)  # which ranks, how they ended, where to look
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
