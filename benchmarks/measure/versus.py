"""A table of the device against the CPU, in turns, in one process and with one thread:
with more, threads of the device and of the CPU would be in each other's way."""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from . import Function, best_of

TOLERANCE = 1.05


class Case(NamedTuple):
    name: str
    make: Callable[[str], Function]  # of a device
    calls: int
    aim: float


def measured(case: Case, rounds: int, scale: float) -> dict:
    functions = {"cpu_us": case.make("cpu"), "device_us": case.make("openreg")}
    seconds = best_of(functions, max(1, int(case.calls * scale)), rounds)
    row = {name: 1e6 * figure for name, figure in seconds.items()}
    ratio = row["device_us"] / row["cpu_us"]
    within = ratio <= case.aim * TOLERANCE
    return row | {"ratio": ratio, "aim": case.aim, "within": within}


def main(description: str, cases: Iterable[Case]) -> int:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="of the calls")
    parser.add_argument("--only", default="", help="rows whose names have this in them")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    print(f"{'':32}{'CPU us':>10}{'device us':>11}{'ratio':>7}{'aim':>6}")
    for case in (case for case in cases if options.only in case.name):
        row = rows[case.name] = measured(case, options.rounds, options.scale)
        verdict = "ok" if row["within"] else "over"
        print(
            f"{case.name:32}{row['cpu_us']:10.1f}{row['device_us']:11.1f}"
            f"{row['ratio']:7.2f}{row['aim']:6.2f}  {verdict}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0
