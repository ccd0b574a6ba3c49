"""Tensors of two devices in one call. What a GPU does with a CPU tensor is in
`golden/misuse_mix.py`; of two GPUs nothing was recorded, but the rules are the same."""

import pytest
import torch


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a.add_(b),
        lambda a, b: torch.add(a, a, out=b),
        lambda a, b: a + b[0],  # not even a number
        lambda a, b: torch.dot(a, b),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: a[b.long()],
        lambda a, b: torch._foreach_add([a], [b]),
    ],
)
def test_two_devices_of_ours_do_not_mix(call):
    a, b = torch.ones(3, device="openreg:0"), torch.ones(3, device="openreg:1")
    with pytest.raises(RuntimeError, match="device"):
        call(a, b)
    assert a.tolist() == b.tolist() == [1, 1, 1]


def test_a_number_of_the_cpu_goes_with_either_device():
    for device in ("openreg:0", "openreg:1"):
        sum = torch.ones(2, device=device) + torch.tensor(2.0)
        assert sum.device == torch.device(device)
        assert sum.tolist() == [3, 3]


def test_work_runs_on_the_device_of_the_tensors_not_on_the_current_one():
    a = torch.arange(3.0, device="openreg:1")
    assert torch.openreg.current_device() == 0
    assert (a * a).sum().device == a.device
    assert torch.openreg.current_device() == 0
