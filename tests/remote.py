"""Another process that uses the device, and does what a test tells it to."""

import gc
import os
import re
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing as mp

SPAWN = mp.get_context("spawn")
# Forked from a process that has imported torch and used nothing: a new process is
# there at once, and is as good as a spawned one.
QUICK = mp.get_context("forkserver")
QUICK.set_forkserver_preload(["torch"])


class Remote:
    """Calls functions in a process of its own: `remote(function, *args)`.

    Arguments and results go through torch.multiprocessing. Exceptions come back
    as RuntimeError with the name of their class in front.
    """

    def __init__(self):
        self.here, there = QUICK.Pipe()
        self.process = QUICK.Process(target=_serve, args=(there,), daemon=True)
        self.process.start()
        there.close()

    def __call__(self, function, *args):
        self.send(function, *args)
        return self.receive()

    def send(self, function, *args):
        self.here.send((function, args))

    def receive(self):
        well, value = self.here.recv()
        if not well:
            raise RuntimeError(value)
        return value

    def kill(self):
        """Ends the process without a chance to clean up."""
        self.process.kill()
        self.process.join()

    def close(self):
        self.process.kill()
        self.process.join()
        self.here.close()


def _serve(connection):
    while True:
        try:
            connection.send((True, _call(*connection.recv())))
        except EOFError:
            return
        except Exception as error:
            connection.send((False, f"{type(error).__name__}: {error}"))


def _call(function, args):
    return function(*args)


# --- functions for either process ---------------------------------------------

KEPT = {}


def keep(name, value):
    KEPT[name] = value


def kept(name):
    return KEPT[name]


def drop(name):
    """Lets a tensor go, and waits until its memory has been given back."""
    del KEPT[name]
    synchronize()


def synchronize():
    for device in (0, 1):
        torch.openreg.synchronize(device)


def read(name):
    return KEPT[name].cpu()


def add(tensor, value):
    tensor += value
    torch.openreg.synchronize(tensor.device)


def make(size, device="openreg"):
    return torch.ones(size, device=device)


def files():
    return len(os.listdir("/proc/self/fd"))


def shared_mappings():
    """How many ranges of memory files are mapped: of devices, ledgers, events."""
    with open("/proc/self/maps") as maps:
        return sum(re.search("memfd:openreg", line) is not None for line in maps)


def figures():
    """What must be as before when all that was shared is gone."""
    gc.collect()  # what earlier tests left in cycles
    synchronize()
    torch.openreg.ipc_collect()
    return {
        "allocated": [torch.openreg.memory_allocated(d) for d in (0, 1)],
        "files": files(),
        "mappings": shared_mappings(),
    }


def allocated():
    """Of device 0, in bytes."""
    return figures()["allocated"][0]


def resend(tensor):
    """What arrives if the tensor is sent to its own process."""
    return ForkingPickler.loads(ForkingPickler.dumps(tensor))
