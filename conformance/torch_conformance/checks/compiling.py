"""Level 11: torch.compile."""

import torch
from torch import nn

from ..check import check
from ..expect import expect_equal

PAGE = "compile.md"
WRITE = (
    "A `DeviceInterface` for Dynamo, registered with `register_interface_for_device`,"
    " and for Inductor a scheduling and a wrapper class."
)


def expect_compiled(device, function, *shapes, backend, **options):
    """Fails unless the compiled function gives what it gives on the CPU."""
    torch._dynamo.reset()
    pairs = [device.pair(*shape, seed=i) for i, shape in enumerate(shapes)]
    compiled = torch.compile(function, backend=backend, **options)
    found = compiled(*(x for _, x in pairs))
    expected = function(*(host for host, _ in pairs))
    device.expect_close(found, expected, f"with backend {backend}", scale=20)
    return compiled


def step(x, y):
    """Something to compile."""
    return (x @ y).relu().sum(1) * torch.sin(x[:, 0])


@check(
    call='torch.compile(f, backend="eager")',
    write="A `DeviceInterface` for Dynamo, registered with"
    " `register_interface_for_device`.",
    page=PAGE,
    needs=("compile",),
    seconds=120,
)
def dynamo_captures(device):
    """Dynamo captures functions on the device, in one graph."""
    expect_compiled(device, step, (4, 5), (5, 3), backend="eager", fullgraph=True)


@check(
    call='torch.compile(f, backend="aot_eager")',
    write="Meta functions that agree with the kernels (level 7).",
    page=PAGE,
    needs=("compile",),
    seconds=120,
)
def aot_autograd_traces(device):
    """Forward and backward pass are traced ahead of time."""
    torch._dynamo.reset()
    host, x = device.pair(4, 5)
    for one in (host, x):
        one.requires_grad_()
    torch.compile(lambda t: t.tanh().sum(), backend="aot_eager")(x).backward()
    host.tanh().sum().backward()
    device.expect_close(x.grad, host.grad, "the gradient", scale=10)


@check(
    call="torch.compile(f)",
    write=WRITE,
    page=PAGE,
    needs=("compile", "inductor"),
    seconds=300,
)
def inductor_generates(device):
    """The default backend generates code for the device."""
    expect_compiled(device, step, (4, 5), (5, 3), backend="inductor")


@check(
    call="torch.compile(module) in a training",
    write=WRITE,
    page=PAGE,
    needs=("compile", "inductor"),
    seconds=300,
)
def inductor_trains(device):
    """A compiled module has the CPU's gradients."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2))
    there = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)).to(device.at())
    there.load_state_dict(module.state_dict())
    host, x = device.pair(5, 6)
    module(host).square().mean().backward()
    torch.compile(there)(x).square().mean().backward()
    device.expect_close(there[0].weight.grad, module[0].weight.grad, scale=20)


@check(
    call="torch.compile(f, dynamic=True)",
    write=WRITE,
    page=PAGE,
    needs=("compile", "inductor"),
    seconds=300,
)
def shapes_may_change(device):
    """One compiled function serves several shapes."""
    compiled = expect_compiled(
        device, lambda x: x.exp().sum(0), (4, 3), backend="inductor", dynamic=True
    )
    host, x = device.pair(9, 3)
    device.expect_close(compiled(x), host.exp().sum(0), "another shape", scale=20)


@check(
    call="torch._dynamo.device_interface.get_interface_for_device(NAME)",
    write="`register_interface_for_device(NAME, YourInterface)`.",
    page=PAGE,
    needs=("compile",),
)
def dynamo_knows_the_device(device):
    """Dynamo's interface counts the devices and names the current one."""
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device(device.name)
    expect_equal(interface.device_count(), device.count, "device_count()")
    expect_equal(interface.current_device(), 0, "current_device()")
    expect_equal(interface.is_available(), True, "is_available()")
