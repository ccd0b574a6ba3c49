"""A backend for torch_conformance's own tests: openreg with one thing broken.

BROKEN names what: "crash" and "hang" in synchronize(), "load" when it is imported.
"""

import os
import time
from pathlib import Path

import torch
import torch_openreg

HOW = os.environ["BROKEN"]
if HOW == "load":
    raise RuntimeError("the driver is not installed")


def synchronize(index=None):
    if HOW == "hang":
        print("here it hangs", flush=True)
        if "BROKEN_PID" in os.environ:
            Path(os.environ["BROKEN_PID"]).write_text(str(os.getpid()))
        time.sleep(1000)
    os.abort()


if HOW in ("crash", "hang"):
    torch.accelerator.synchronize = synchronize
__all__ = ["torch_openreg"]
