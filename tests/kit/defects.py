"""Defects that are seeded into openreg, each with the check that has to find it.

A defect is a function that breaks one thing in this process: a function of the device
module, a call that reaches the guard, a kernel. `python -c` of
tests/test_conformance_defects.py seeds one and runs one check.
"""

import sys
from functools import wraps

import torch

DEFECTS = {}  # name -> (id of the check, function)
LIBRARY = None  # kernels last as long as it


def defect(check_id):
    """Adds a function to DEFECTS."""

    def add(function):
        if DEFECTS.setdefault(function.__name__, (check_id, function))[1] != function:
            raise ValueError(f"two defects are called {function.__name__}")
        return function

    return add


def replace(owner, name):
    """Decorates the function that takes the place of `owner.name`, which it is given
    as its first argument."""
    real = getattr(owner, name)

    def put(function):
        @wraps(function)
        def broken(*args, **kwargs):
            return function(real, *args, **kwargs)

        setattr(owner, name, broken)
        return broken

    return put


def kernel(name):
    """Decorates the function that takes the place of the device's kernel, which it is
    given as its first argument."""
    global LIBRARY
    LIBRARY = LIBRARY or torch.library.Library("aten", "IMPL")
    key = torch._C.DispatchKey.PrivateUse1
    real = torch.library.get_kernel(f"aten::{name}", key)
    keys = torch._C.DispatchKeySet(key)

    def put(function):
        def broken(*args, **kwargs):
            return function(
                lambda *a, **k: real.call_boxed(keys, *a, **k), *args, **kwargs
            )

        LIBRARY.impl(name, broken, "PrivateUse1", allow_override=True)
        return broken

    return put


def seed(name):
    """Breaks one thing; returns the id of the check that finds it."""
    check_id, function = DEFECTS[name]
    function()
    return check_id


def main():
    """Seeds the defect that the arguments name; prints what the check says."""
    import json

    from torch_conformance.device import Device
    from torch_conformance.settings import Settings
    from torch_conformance.worker import run_check

    name = sys.argv[1]
    device = Device(Settings("openreg"))
    check_id = seed(name)
    print(json.dumps([check_id, *run_check(device, check_id)]))
