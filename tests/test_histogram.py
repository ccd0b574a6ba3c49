"""torch.histc of integers, which CUDA has and the CPU has not."""

import pytest
import torch

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def expected(values, bins, low, high):
    """The definition, value by value."""
    if low == high:
        low, high = int(values.min()), int(values.max())
    if low == high:
        low, high = low - 1, high + 1
    found = [0] * bins
    for value in values.flatten().tolist():
        if low <= value <= high:
            found[min((value - low) * bins // (high - low), bins - 1)] += 1
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bins, low, high", [(4, 0, 3), (5, 2, 90), (100, 0, 0)])
def test_integers_are_counted(dtype, bins, low, high):
    values = torch.randint(0, 100, (6, 7), dtype=dtype)
    found = torch.histc(values.to("openreg"), bins, low, high)
    assert found.dtype == dtype
    assert found.tolist() == expected(values, bins, low, high)
    turned = values.to("openreg").t()[::2]
    parts = torch.histc(turned, bins, low, high)
    assert parts.tolist() == expected(values.t()[::2], bins, low, high)


@pytest.mark.parametrize(
    "values, bins, low, high",
    [
        ([3, 3, 3], 2, 0, 0),  # no range: one more on both sides
        ([], 3, 0, 0),
        ([-5, -1, 0, 4], 3, -5, 4),
        ([9, 10, 11], 1, 10, 10),
        ([-(2**63), 0, 2**63 - 1], 4, 0, 0),
    ],
)
def test_values_at_the_edges_are_counted(values, bins, low, high):
    values = torch.tensor(values, dtype=torch.int64)
    found = torch.histc(values.to("openreg"), bins, low, high).tolist()
    assert found == (expected(values, bins, low, high) if len(values) else [0] * bins)
    assert sum(found) == len(values)


def test_integers_are_counted_like_floating_point_numbers():
    values = torch.randint(0, 16, (1000,))
    there = torch.histc(values.float(), 16, 0, 15)
    assert torch.histc(values.to("openreg"), 16, 0, 15).tolist() == there.tolist()
    here = torch.histc(values.float().to("openreg"), 16, 0, 15)
    assert torch.equal(here.cpu(), there)


def test_counting_integers_is_queued(hold):
    values = torch.arange(100_000, device="openreg") % 8
    stream = torch.openreg.current_stream()
    gate = hold(stream)
    found = torch.histc(values, 8, 0, 7)
    assert not stream.query()
    gate.open()
    assert found.tolist() == [12500] * 8


def test_the_output_is_resized_and_cast():
    values = torch.tensor([0, 1, 1, 5], device="openreg")
    out = torch.empty(0, dtype=torch.float32, device="openreg")
    assert torch.histc(values, 2, 0, 1, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    floats = torch.empty(2, device="openreg")
    assert torch.histc(values.float(), 2, 0, 1, out=floats).tolist() == [1.0, 2.0]


def test_wrong_arguments_are_refused():
    values = torch.arange(4, device="openreg")
    with pytest.raises(RuntimeError, match="bins must be > 0, but got 0"):
        torch.histc(values, 0)
    with pytest.raises(
        RuntimeError, match="max must be larger than min, but got min 3"
    ):
        torch.histc(values, 2, 3, 1)
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        torch.histc(values.bool(), 2)
    for out in (torch.empty(2, dtype=torch.int64), torch.empty(2, device="openreg:1")):
        with pytest.raises(RuntimeError, match="same device"):
            torch.histc(values, 2, out=out)
