"""What the cases of misuse share: small tensors, wrong devices, and a description
of values as misuse.json has it."""

import math

import torch

DEVICE = torch.accelerator.current_accelerator().type  # or, in its place, CUDA
m = torch.get_device_module(DEVICE)
FIRST = f"{DEVICE}:0"


def no_index():
    return m.device_count()


def no_device():
    return f"{DEVICE}:{no_index()}"


def c(*shape, dtype=torch.float32):
    """A tensor of the CPU with 1, 2, 3, … in it; for bool every second is true."""
    values = torch.arange(1, math.prod(shape) + 1)
    if dtype == torch.bool:
        values = values % 2 == 1
    return values.to(dtype).reshape(shape)


def x(*shape, dtype=torch.float32):
    """The same on the device."""
    return c(*shape, dtype=dtype).to(DEVICE)


def longs(*values):
    return torch.tensor(values, dtype=torch.int64, device=DEVICE)


def octets(n):
    return torch.empty(n, dtype=torch.uint8, device=DEVICE)


def quiet(function):
    """Calls a function and drops what it returns, so that nobody reads it."""
    function()


def described(value):
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    if isinstance(value, torch.Tensor):
        what = [str(value.dtype), list(value.shape), str(value.device)]
        values = value.detach().cpu().reshape(-1).tolist()
        return {"tensor": what, "values": [described(v) for v in values]}
    if isinstance(value, torch.device | torch.dtype):
        return str(value)
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return {"type": type(value).__name__}


def asked(calls):
    """The pairs that a case consists of."""
    for label, call in calls.items():
        yield label, lambda call=call: described(call())
