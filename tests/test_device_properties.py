"""Devices: what they are like."""

import pytest
import torch


pytestmark = pytest.mark.usefixtures("as_before")

DEVICES = [0, 1]
NOT_OURS = (ValueError, "Expected an openreg device, but got: cpu")


@pytest.mark.parametrize("index", DEVICES)
def test_properties_are_those_of_the_device(index):
    properties = torch.openreg.get_device_properties(index)
    numbers = (
        "total_memory major minor multi_processor_count warp_size L2_cache_size "
        "max_threads_per_block max_threads_per_multi_processor "
        "regs_per_multiprocessor shared_memory_per_block"
    )
    for name in numbers.split():
        assert type(getattr(properties, name)) is int, name
    assert properties.total_memory == torch.openreg.mem_get_info(index)[1]
    assert properties.name == torch.openreg.get_device_name(index) != ""
    assert torch.openreg.get_device_capability(index) == (
        properties.major,
        properties.minor,
    )
    assert f"name='{properties.name}'" in repr(properties)


def test_properties_cannot_be_changed():
    with pytest.raises(AttributeError):
        torch.openreg.get_device_properties().major = 9


def test_devices_differ_in_their_uuid():
    first, second = (torch.openreg.get_device_properties(i).uuid for i in DEVICES)
    assert first.bytes != second.bytes
    assert len(first.bytes) == 16
    assert str(first).replace("-", "") == bytes(first.bytes).hex()
    assert [len(part) for part in str(first).split("-")] == [8, 4, 4, 4, 12]


@pytest.mark.parametrize(
    "use",
    [
        torch.openreg.get_device_properties,
        torch.openreg.get_device_name,
        torch.openreg.get_device_capability,
        lambda device: torch.openreg.can_device_access_peer(device, 0),
        lambda device: torch.openreg.can_device_access_peer(0, device),
    ],
    ids=["properties", "name", "capability", "device", "peer"],
)
def test_properties_need_a_device_that_exists(use):
    for index in (-1, 2, 300):
        with pytest.raises(AssertionError, match=r"Invalid .*device id"):
            use(index)
    with pytest.raises(NOT_OURS[0], match=NOT_OURS[1]):
        use("cpu")


def test_peers_are_other_devices():
    access = torch.openreg.can_device_access_peer
    assert access(0, 1) is access("openreg:1", "openreg:0") is True
    assert access(0, 0) is False


def test_both_half_types_are_there_for_autocast():
    assert torch.openreg.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert torch.openreg.is_bf16_supported() is True
