"""Level 1: the device has a name, a module, and methods with its name."""

import types

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error


@check(
    call="torch.device(NAME)",
    write="`torch.utils.rename_privateuse1_backend(NAME)`, before anything else.",
    page="autoload.md",
)
def has_a_name(device):
    """PyTorch knows the name as a device type, with and without an index."""
    expect_equal(torch.device(device.name).type, device.name, "the type")
    expect_equal(torch.device(device.name).index, None, "the index of a bare name")
    expect_equal(torch.device(f"{device.name}:0").index, 0, "the index of :0")


@check(
    call="torch.get_device_module(NAME)",
    write="`torch._register_device_module(NAME, module)`.",
    page="autoload.md",
)
def has_a_module(device):
    """The device has a module, found by its name and in `torch`."""
    found = torch.get_device_module(device.name)
    expect(
        isinstance(found, types.ModuleType) or hasattr(found, "device_count"),
        f"torch.{device.name} is {found!r}, not a module",
    )
    expect(
        torch.get_device_module(device.at()) is found,
        f"{device.at()} has another module than {device.name}",
    )


@check(
    call="torch.NAME.is_available(), torch.NAME.device_count()",
    write="Two functions of the device module; the count comes from your driver and"
    " is 0, not an error, on a machine without the chip.",
    page="autoload.md",
)
def counts_devices(device):
    """The module says whether there are devices, and how many."""
    available, count = device.module.is_available(), device.module.device_count()
    expect_equal(available, True, "is_available()")
    expect(
        isinstance(count, int) and count > 0,
        f"device_count() is {count!r}, not 1 or more",
    )


@check(
    call="torch.NAME.current_device()",
    write="`current_device` of the device module; `torch.load` and Dynamo call it.",
    page="autoload.md",
)
def module_has_a_current_device(device):
    """The module gives the index of the current device."""
    expect_equal(device.module.current_device(), 0, "current_device()")


@check(
    call="torch.manual_seed()",
    write="`_is_in_bad_fork` of the device module: False, or True in a child of fork()"
    " that cannot use the device.",
    page="autoload.md",
)
def tells_a_bad_fork(device):
    """The module says whether this is a child process that cannot use the device."""
    expect_equal(device.module._is_in_bad_fork(), False, "_is_in_bad_fork()")


@check(
    call="Tensor.NAME(), Tensor.is_NAME",
    write="`torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)`,"
    " after the name and the module.",
    page="autoload.md",
)
def tensors_have_methods(device):
    """Tensors and modules have methods with the device's name."""
    for owner in (torch.Tensor, torch.nn.Module):
        method = getattr(owner, device.name, None)
        expect(callable(method), f"{owner.__name__}.{device.name}() does not exist")
    attribute = f"is_{device.name}"
    expect(hasattr(torch.Tensor, attribute), f"Tensor.{attribute} does not exist")
    expect_equal(getattr(torch.ones(1), attribute), False, f"{attribute} on the CPU")


@check(
    call="UntypedStorage.NAME()",
    write="`for_storage=True` of `generate_methods_for_privateuse1_backend`.",
    page="autoload.md",
)
def storages_have_methods(device):
    """Storages have methods with the device's name."""
    for owner in (torch.UntypedStorage, torch.TypedStorage):
        method = getattr(owner, device.name, None)
        expect(callable(method), f"{owner.__name__}.{device.name}() does not exist")


@check(
    call="import torch",
    write='An entry point in the group "torch.backends" of your package.',
    page="autoload.md",
    needs=("autoload",),
)
def loads_with_torch(device):
    """`import torch` alone loads the backend."""
    code = f"print(torch.device('{device.name}').type)"
    expect_equal(device.expect_python(code), device.name, "the device's type")


@check(
    call="torch.device('nosuchdevice')",
    write="Do not replace `torch.device`, nor catch its errors.",
    page="autoload.md",
)
def leaves_other_names_alone(device):
    """Other names stay what they were: the CPU works, a wrong name is refused."""
    expect_equal(torch.ones(2).device, torch.device("cpu"), "the default device")
    expect_error(lambda: torch.device("nosuchdevice"), 'torch.device("nosuchdevice")')
    expect(
        isinstance(torch, types.ModuleType)
        and torch.device is type(torch.device("cpu")),
        "torch.device is not PyTorch's class",
    )
