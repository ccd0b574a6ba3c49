"""Repeats the recorded steps of a program whose segments grow, and prints what is seen
after each, in the form of expandable.json. The first argument is that file."""

import json
import sys

import torch

MiB = 1 << 20
record = json.loads(open(sys.argv[1]).read())
device = torch.openreg
tensors = {}


def allocate(name, size):
    tensors[name] = torch.empty(size, dtype=torch.uint8, device="openreg")


def limit(mebibytes):
    total = device.get_device_properties(0).total_memory
    device.set_per_process_memory_fraction(min(mebibytes * MiB / total, 1.0))


STEPS = {
    "a": allocate,
    "f": tensors.__delitem__,
    "e": device.empty_cache,
    "l": limit,
    "s": lambda value: device.memory._set_allocator_settings(
        f"expandable_segments:{value}"
    ),
}


def rank(segment):
    blocks = [(block["state"][:8], block["size"]) for block in segment["blocks"]]
    return segment["segment_type"], segment["total_size"], blocks


def told(segment):
    """A segment: its kind, whether it grows, and its blocks in units of 512 bytes."""
    blocks = (
        ("a" if block["state"] == "active_allocated" else "i")
        + str(block["size"] // 512)
        for block in segment["blocks"]
    )
    grows = "+" if segment["is_expandable"] else "="
    return segment["segment_type"][0] + grows + " ".join(blocks)


def seen(step, arguments):
    error = None
    try:
        STEPS[step](*arguments)
    except torch.OutOfMemoryError as failure:
        error = type(failure).__name__
    stats = device.memory_stats()
    segments = sorted(device.memory_snapshot(), key=rank)
    figures = [stats[name] for name in record["figures"]]
    return [step, arguments, error, figures, " | ".join(map(told, segments))]


torch.empty(1, device="openreg")
device.empty_cache()
print(json.dumps([seen(step, arguments) for step, arguments, *_ in record["rows"]]))
