"""Runs the memory cases on openreg, as observer.py does the others.

    python memory.py          {"section/case": {label: outcome}} on standard output

memory.json has what the GPU did, and the names of the figures.
"""

import json

import memory_blocks  # noqa: F401
import memory_graphs  # noqa: F401
import memory_limits  # noqa: F401
import memory_models  # noqa: F401
import memory_use  # noqa: F401
from observer import CASES, observe_in_child

if __name__ == "__main__":
    print(json.dumps({name: observe_in_child(*run) for name, run in CASES.items()}))
