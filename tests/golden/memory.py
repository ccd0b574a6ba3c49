"""Runs the memory cases on the device, as observer.py does the others.

    python memory.py          {"section/case": {label: outcome}} on standard output

Those of another device run with its OPENREG_DEVICE_PROFILE, which is read once.
memory.json has what the GPU did, and the names of the figures.
"""

import gc
import json
import os

import memory_blocks  # noqa: F401
import memory_graphs  # noqa: F401
import memory_limits  # noqa: F401
import memory_models  # noqa: F401
import memory_use  # noqa: F401
import torch._dynamo  # noqa: F401, or each child imports it, with its first optimizer
from observer import CASES, observe_in_child

PROFILE = "OPENREG_DEVICE_PROFILE"
PLAIN = "sm80"  # what a device in CUDA's place has by itself

if __name__ == "__main__":
    gc.freeze()  # children copy no pages to look for garbage
    profile = os.environ.get(PROFILE, PLAIN)
    runs = {n: run for n, run in CASES.items() if run[2].get(PROFILE, PLAIN) == profile}
    print(json.dumps({name: observe_in_child(*run) for name, run in runs.items()}))
