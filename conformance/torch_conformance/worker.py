"""The process that runs checks: started by runner.py, one message per check.

Prints nothing of its own: results go through the socket whose number is the first
argument, and what the backend prints goes where the runner looks after a crash.
"""

import faulthandler
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback

import torch

from .check import base_id, case_of
from .device import Device
from .expect import Failed
from .levels import find
from .settings import Settings


def load(settings):
    """Imports the backend, and gives the device that checks get."""
    if settings.module:
        module = importlib.import_module(settings.module)
        if hasattr(module, "__path__") and not getattr(module, "__file__", None):
            raise ImportError(
                f"{settings.module} is the folder {module.__path__[0]} here, and not the"
                " package: run this in another folder"
            )
    return Device(settings)


def describe(error):
    """The sentence of a check; or the error, and the line of the check it came from."""
    if isinstance(error, Failed):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}checks{os.sep}" in frame.filename]
    line = f" in `{own[-1].line}`" if own and own[-1].line else ""
    return f"{type(error).__name__}{line}: {error}"[:3000]


def put_back():
    """Leaves the process to the next check as a new one would be."""
    gc.collect()
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.manual_seed(0)
    if torch.accelerator.is_available():
        torch.accelerator.set_device_index(0)


def run_check(device, check_id):
    """Runs a check in this process: (status, message)."""
    check = find(base_id(check_id))
    arguments = [case_of(check_id)] if "[" in check_id else []
    try:
        missing = device.missing(check.needs)
        if missing:
            return "absent", f"the device has no part {missing!r}"
        check.function(device, *arguments)
    except Exception as error:
        return "failed", describe(error)
    return "passed", ""


def answers(device):
    """Whether the process is as a new one, and the device does the least there is."""
    try:
        put_back()
        return bool(torch.ones(2, device=device.at()).cpu().sum() == 2)
    except Exception:
        return False


def serve(channel, device):
    """Runs the checks that the runner names, until it hangs up."""
    answered = answers(device)
    gc.freeze()  # what was loaded stays: there is less to look through
    with channel.makefile("r") as requests:
        for request in requests:
            check_id = json.loads(request)
            start = time.perf_counter()
            status, message = run_check(device, check_id)
            seconds = time.perf_counter() - start
            healthy = answers(device) or not answered
            reply = {"status": status, "message": message, "seconds": seconds}
            line = json.dumps({**reply, "healthy": healthy}) + "\n"
            channel.sendall(line.encode())


def main():
    """`python -m torch_conformance.worker SOCKET SETTINGS`."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the runner asks where a check hangs
    channel = socket.socket(fileno=int(sys.argv[1]))
    try:
        device = load(Settings.unpacked(sys.argv[2]))
        torch.device(device.name)
        hello = {"ready": True}
    except Exception as error:
        hello = {"ready": False, "message": describe(error)}
    channel.sendall((json.dumps(hello) + "\n").encode())
    if hello["ready"]:
        serve(channel, device)
        # What a broken backend does at the end of a process is a check of its own.
        os._exit(0)


if __name__ == "__main__":
    main()
