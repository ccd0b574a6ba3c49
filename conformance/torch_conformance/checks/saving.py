"""Level 9: files with tensors of the device, and pickles."""

import copy
import io
import pickle

import torch
from torch import nn

from ..check import check
from ..expect import expect, expect_equal, expect_error

PAGE = "serialization.md"


def saved(value, **options):
    """What torch.load makes of what torch.save writes."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


@check(
    call="torch.save(x), torch.load(file)",
    write="Nothing: PyTorch's tag for the device and the copies of level 5 are enough;"
    " `torch.NAME.device_count` is asked on loading.",
    page=PAGE,
)
def tensors_come_back(device):
    """A tensor is loaded onto its device, with its numbers, strides and flags."""
    for dtype in device.dtypes:
        host, x = device.pair(4, 5, dtype=dtype)
        found = saved(x.t())
        device.expect_on_device(found, "the loaded tensor", 0)
        expect(found.cpu().equal(host.t()), f"{dtype}: the numbers differ")
        expect_equal(found.stride(), x.t().stride(), "the strides")
    leaf = torch.ones(2, device=device.at(), requires_grad=True)
    expect_equal(saved(leaf).requires_grad, True, "requires_grad")


@check(
    call="torch.load(file, map_location='cpu')",
    write="As above.",
    page=PAGE,
)
def files_move_between_devices(device):
    """A file of the device is loaded on the CPU, and one of the CPU on the device."""
    host, x = device.pair(4)
    found = saved(x, map_location="cpu")
    expect_equal(found.device.type, "cpu", "the device")
    expect(found.equal(host), "the numbers differ")
    device.expect_close(saved(host, map_location=device.name), host, "on the device")
    if device.count > 1:
        device.expect_on_device(saved(x, map_location=device.at(1)), index=1)
        device.expect_on_device(saved(x.to(device.at(1))), "one of device 1", 1)


@check(
    call="torch.save([x, x[1:]])",
    write="As above.",
    page=PAGE,
)
def shared_memory_stays_shared(device):
    """Tensors that shared memory do so after loading."""
    _, x = device.pair(4)
    base, view = saved([x, x[1:]])
    base.zero_()
    device.expect_close(view, torch.zeros(3), "the view")


@check(
    call="torch.save(module.state_dict())",
    write="As above.",
    page=PAGE,
)
def states_of_a_training(device):
    """The states of a module and an optimizer come back."""
    module = nn.Linear(3, 2).to(device.at())
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 3, device=device.at())).sum().backward()
    optimizer.step()
    state, steps = saved([module.state_dict(), optimizer.state_dict()])
    again = nn.Linear(3, 2).to(device.at())
    again.load_state_dict(state)
    device.expect_close(again.weight, module.weight.detach().cpu(), "the weight")
    other = torch.optim.Adam(again.parameters())
    other.load_state_dict(steps)
    average = next(iter(other.state.values()))["exp_avg"]
    device.expect_on_device(average, "the optimizer's average")


@check(
    call="pickle.dumps(x), copy.deepcopy(module)",
    write="As above.",
    page=PAGE,
)
def pickles(device):
    """Tensors and modules can be pickled and copied."""
    host, x = device.pair(4)
    device.expect_close(pickle.loads(pickle.dumps(x)), host, "the pickled tensor")
    last = device.count - 1
    y = pickle.loads(pickle.dumps(x.to(device.at(last))))
    device.expect_on_device(y, "the pickled tensor of the last device", last)
    module = nn.Linear(3, 2).to(device.at())
    twin = copy.deepcopy(module)
    device.expect_on_device(twin.weight, "the copy's weight")
    expect(twin.weight.data_ptr() != module.weight.data_ptr(), "the copy shares memory")


@check(
    call="torch.load(file) of a device that is not there",
    write="`torch.NAME.device_count` tells PyTorch which devices there are.",
    page=PAGE,
)
def a_missing_device_is_told(device):
    """A file of a device that this machine does not have is refused in words."""
    _, x = device.pair(4)
    far = device.at(device.count)
    expect_error(lambda: saved(x, map_location=far), f"loading onto {far}")


@check(
    call="torch.NAME.get_rng_state(), torch.random.fork_rng()",
    write="`get_rng_state`, `set_rng_state` and `device_count` of the device module.",
    page="generator.md",
)
def random_states_are_kept(device):
    """fork_rng() puts the device's random numbers back."""
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type=device.name):
        first = torch.rand(4, device=device.at()).cpu()
    second = torch.rand(4, device=device.at()).cpu()
    expect(first.equal(second), "fork_rng() does not put the state back")
    state = device.module.get_rng_state()
    first = torch.rand(4, device=device.at()).cpu()
    device.module.set_rng_state(state)
    expect(
        torch.rand(4, device=device.at()).cpu().equal(first),
        "set_rng_state() does not put the state back",
    )
