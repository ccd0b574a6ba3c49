"""Level 4: the generator, and the hooks by which PyTorch finds the device."""

import warnings

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error

PAGE = "generator.md"


@check(
    call="torch.accelerator.current_accelerator()",
    write="Hooks: `at::RegisterPrivateUse1HooksInterface(new MyHooks)`.",
    page="hooks.md",
)
def is_the_accelerator(device):
    """PyTorch takes the device for the accelerator of this machine."""
    found = torch.accelerator.current_accelerator()
    expect_equal(getattr(found, "type", None), device.name, "the accelerator")


@check(
    call="torch.accelerator.is_available()",
    write="`isAvailable()` and `deviceCount()` of the hooks.",
    page="hooks.md",
)
def is_available(device):
    """The accelerator is available."""
    expect_equal(torch.accelerator.is_available(), True, "is_available()")
    found = torch._C._accelerator_hooks_device_count()
    expect_equal(found, device.count, "the hooks' number of devices")


@check(
    call="torch.Generator(device=NAME)",
    write="`getNewGenerator()` of the hooks.",
    page=PAGE,
)
def makes_generators(device):
    """A generator can be made, and says on which device it is."""
    found = torch.Generator(device=device.name).device
    expect_equal(found.type, device.name, "the type of a generator's device")
    for index in range(device.count):
        found = torch.Generator(device=device.at(index)).device
        expect_equal(found, device.at(index), "the device of a generator")


@check(
    call="torch.Generator(NAME) with another device current",
    write="`getNewGenerator(-1)` means the current device.",
    page=PAGE,
    needs=("devices",),
)
def follows_the_current_device(device):
    """Without an index a generator has none either, or that of the current device."""
    with torch.accelerator.device_index(1):
        found = torch.Generator(device.name).device
    expect(
        found in (torch.device(device.name), device.at(1)),
        f"the device of a generator made with device 1 current is {found}",
    )


@check(
    call="Generator.manual_seed(), initial_seed(), seed()",
    write="`set_current_seed()`, `current_seed()` and `seed()` of the generator.",
    page=PAGE,
)
def takes_a_seed(device):
    """A generator keeps its seed; seed() draws another."""
    generator = torch.Generator(device=device.name)
    expect(
        generator.manual_seed(1234) is generator, "manual_seed() does not return itself"
    )
    expect_equal(generator.initial_seed(), 1234, "initial_seed()")
    large = (1 << 63) + 5
    expect_equal(
        generator.manual_seed(large).initial_seed(), large, "a seed over 2**63"
    )
    drawn = {generator.seed() for _ in range(4)}
    expect(len(drawn) > 1, f"seed() always gives {drawn}")
    expect(generator.initial_seed() in drawn, "seed() does not set initial_seed()")


@check(
    call="Generator.get_state(), Generator.set_state()",
    write="`get_state()` returns a byte tensor on the CPU with all that the next number"
    " depends on; `set_state()` takes it, and checks its size.",
    page=PAGE,
)
def has_a_state(device):
    """The state of a generator goes into a byte tensor and back; others are refused."""
    generator = torch.Generator(device=device.name).manual_seed(1)
    state = generator.get_state()
    expect(
        state.dtype == torch.uint8 and state.device.type == "cpu",
        f"the state is {state.dtype} on {state.device}, not bytes on the CPU",
    )
    generator.manual_seed(2)
    expect(
        not generator.get_state().equal(state), "two seeds have the same state of bytes"
    )
    generator.set_state(state)
    expect(generator.get_state().equal(state), "set_state() does not set the state")
    expect_equal(generator.initial_seed(), 1, "the seed that came with the state")
    expect_error(lambda: generator.set_state(state[:3]), "a state of three bytes")
    expect(generator.get_state().equal(state), "a bad state is set in part")


@check(
    call="Generator.clone_state()",
    write="`clone_impl()` copies the state, and not only the device.",
    page=PAGE,
)
def can_be_cloned(device):
    """A clone has the state and the device, and goes its own way."""
    first = torch.Generator(device=device.name).manual_seed(3)
    second = first.clone_state()
    expect_equal(second.device, first.device, "the device of a clone")
    expect(second.get_state().equal(first.get_state()), "the clone has another state")
    second.manual_seed(4)
    expect_equal(first.initial_seed(), 3, "the seed of the first after the clone's")


@check(
    call="torch.manual_seed(n)",
    write="`manual_seed_all` of the device module, which `torch.manual_seed` calls.",
    page=PAGE,
)
def is_seeded_by_torch(device):
    """`torch.manual_seed` reaches the device module."""
    expect(
        callable(getattr(device.module, "manual_seed_all", None)),
        f"torch.{device.name}.manual_seed_all does not exist",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(11)
    texts = [str(w.message) for w in caught]
    expect(not texts, f"torch.manual_seed warns: {texts[:1]}")
