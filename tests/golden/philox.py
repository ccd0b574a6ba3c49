"""Makes the draws that were recorded on an NVIDIA H200 and compares them.

OPENREG_RNG=philox OPENREG_DEVICE_PROFILE=h200 python tests/golden/philox.py

prints the table of docs/generator.md, and after it each draw that differs. A number N
compares each Nth draw only; OPENREG_AS=cuda makes them in CUDA's place. philox.json
has, by name and seed, the offset afterwards and a digest of each result, or the error;
for what is not the same in every bit also the first values.
"""

import hashlib
import json
import math
import sys
import warnings
from itertools import islice
from pathlib import Path

import torch
from philox_draws import Draws

DEVICE = torch.accelerator.current_accelerator().type
MODULE = torch.get_device_module(DEVICE)
RECORD = Path(__file__).parent / "philox.json"
DIGITS = {"float64": 53, "complex128": 53, "float16": 11, "bfloat16": 8}


def digest(result):
    bits = result.detach().cpu().contiguous().reshape(-1)
    if result.dtype is not torch.bool:
        bits = bits.view(torch.uint8)
    return hashlib.sha256(bits.numpy().tobytes()).hexdigest()[:16]


def distance(a, b, digits):
    """In units of the last place of the larger one."""
    if a == b:
        return 0.0
    return abs(a - b) / 2.0 ** (math.frexp(max(abs(a), abs(b)))[1] - digits)


def digits_of(name):
    words = name.replace("torch.", "").split()
    return next((DIGITS[word] for word in words if word in DIGITS), 24)


def draw(function, seed):
    """The results, or the message of the error."""
    MODULE.manual_seed(seed)
    try:
        results = function()
    except (RuntimeError, NotImplementedError) as error:
        return str(error)
    return list(results) if isinstance(results, tuple) else [results]


class Comparison:
    """What became of the draws of one kind."""

    def __init__(self):
        self.draws = self.same = self.values = self.equal = 0
        self.worst = 0.0

    def add(self, name, results, recorded, values):
        self.draws += 1
        same = isinstance(results, str) and recorded == [results]
        if not isinstance(results, str):
            offset = MODULE.default_generators[0].get_offset()
            same = recorded == [offset, *map(digest, results)]
            for value, wanted in zip(results[0].reshape(-1).tolist(), values):
                wanted = float.fromhex(wanted)
                self.values += 1
                self.equal += value == wanted
                apart = distance(value, wanted, digits_of(name))
                self.worst = max(self.worst, apart)
        self.same += same
        return same


def compare(every=1):
    """{kind: Comparison}, and the names of the draws that differ."""
    record = json.loads(RECORD.read_text())
    kinds, others = {}, []
    for name, function in islice(Draws(DEVICE), 0, None, every):
        kind = name.split()[0] + (" (float64)" if digits_of(name) == 53 else "")
        for seed in (0, 7):
            key = f"{name}|{seed}"
            if key in record["draws"]:
                row = kinds.setdefault(kind, Comparison())
                values = record["values"].get(key, [])
                results = draw(function, seed)
                if not row.add(name, results, record["draws"][key], values):
                    others.append(key)
    return kinds, others


def table(kinds):
    yield "| draw | recorded | in every bit | values compared | equal | worst |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for kind, row in sorted(kinds.items()):
        cells = [f"`{kind}`", row.draws, row.same]
        if row.values:
            share = f"{row.equal / row.values:.1%}"
            cells += [row.values, share, f"{math.ceil(row.worst)} ulp"]
        else:
            cells += ["", "", ""]
        yield "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found, different = compare(*map(int, sys.argv[1:]))
    print("\n".join(table(found)))
    print(*different, sep="\n", file=sys.stderr)
