"""Copies between any two places, dtypes and layouts, compared with the CPU's."""

import itertools

import warnings

import pytest
import torch

PLACES = ["cpu", "pinned", "openreg:0", "openreg:1"]
PAIRS = [
    pair
    for pair in itertools.product(PLACES, PLACES)
    if any(place.startswith("openreg") for place in pair)
]
DTYPES = [
    torch.bool,
    torch.int8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
SHAPE = (2, 3, 4, 5)

# How a tensor of that shape may lie in memory.
LAYOUTS = {
    "contiguous": lambda make: make(*SHAPE),
    "channels_last": lambda make: (
        make(*SHAPE).contiguous(memory_format=torch.channels_last)
    ),
    "transposed": lambda make: make(5, 4, 3, 2).permute(3, 2, 1, 0),
    "sliced": lambda make: make(4, 3, 4, 11)[::2, :, :, 1::2],
    "offset": lambda make: make(3, 3, 4, 5)[1:],
}
SOURCES = {
    **LAYOUTS,
    "expanded": lambda make: make(3, 1, 5).expand(SHAPE),
}


def put(tensor, place):
    return tensor.pin_memory() if place == "pinned" else tensor.to(place)


def numbers(dtype):
    """Makes tensors of the CPU, with numbers that every dtype can hold."""

    def make(*shape):
        count = torch.Size(shape).numel()
        return (torch.arange(count) % 100).to(dtype).reshape(shape)

    return make


def at(place, layout, dtype):
    """A tensor with its layout made where it is, since a copy may change it."""
    return layout(lambda *shape: put(numbers(dtype)(*shape), place))


def copy(source, target, non_blocking=False):
    target.copy_(source, non_blocking=non_blocking)
    torch.accelerator.synchronize(0)
    torch.accelerator.synchronize(1)
    return target.cpu()


# --- layouts and dtypes -------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("non_blocking", [False, True])
def test_layouts_meet_in_every_combination(source, target, non_blocking):
    for (from_name, given), (to_name, wanted) in itertools.product(
        SOURCES.items(), LAYOUTS.items()
    ):
        x = at(source, given, torch.float32)
        found = copy(x, at(target, wanted, torch.float32).zero_(), non_blocking)
        assert torch.equal(found, x.cpu()), f"{from_name} to {to_name}"


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_dtypes_meet_in_every_combination(source, target):
    contiguous, sliced = LAYOUTS["contiguous"], LAYOUTS["sliced"]
    for given, wanted in itertools.product(DTYPES, DTYPES):
        for layout in (contiguous, sliced):
            x = at(source, layout, given)
            expected = x.cpu().to(wanted)
            found = copy(x, at(target, contiguous, wanted).zero_(), True)
            assert found.dtype == wanted
            assert torch.equal(found, expected), f"{given} to {wanted}"


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_lazy_bits_are_resolved_on_either_side(source, target):
    x = torch.complex(torch.arange(6.0), torch.arange(6.0) + 1).view(2, 3)
    bits = {
        "plain": lambda y: y,
        "conjugate": lambda y: y.conj(),
        "negative": lambda y: y._neg_view(),
        "both": lambda y: y.conj()._neg_view(),
        "transposed": lambda y: y.conj().t().contiguous().t(),
    }
    for given, wanted in itertools.product(bits.values(), bits.values()):
        from_ = given(put(x, source))
        to = wanted(put(torch.zeros_like(x), target))
        expected = wanted(torch.zeros_like(x)).copy_(given(x))
        assert (to.is_conj(), to.is_neg()) == (expected.is_conj(), expected.is_neg())
        assert torch.equal(copy(from_, to).resolve_neg(), expected.resolve_neg())


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_sources_are_broadcast(source, target):
    x = put(torch.arange(3.0), source)
    assert copy(x, put(torch.zeros(2, 3), target)).tolist() == [[0, 1, 2]] * 2
    number = put(torch.tensor(5.0), source)
    assert copy(number, put(torch.zeros(2, 2), target)).tolist() == [[5, 5]] * 2


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_there_may_be_one_element_or_none(source, target, shape):
    x = put(torch.full(shape, 4.0), source)
    assert copy(x, put(torch.zeros(shape), target)).tolist() == x.cpu().tolist()


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_large_copies_are_whole(source, target):
    x = torch.arange(1 << 20, dtype=torch.int32)
    found = copy(put(x, source), put(torch.zeros_like(x), target), True)
    assert torch.equal(found, x)


# --- what the caller keeps ----------------------------------------------------


@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
def test_to_keeps_the_layout_and_the_gradient(device):
    x = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert x.to(device).stride() == x.stride()
    assert x.to(device).cpu().stride() == x.stride()
    assert x.permute(3, 1, 0, 2).to(device).stride() == x.permute(3, 1, 0, 2).stride()

    x.requires_grad_()
    (x.to(device) * 2).sum().backward()
    assert x.grad.device == x.device
    assert torch.equal(x.grad, torch.full_like(x, 2))


def test_to_the_same_place_is_the_same_tensor():
    x = torch.zeros(3, device="openreg:1")
    assert x.to("openreg:1") is x
    assert x.to("openreg:1", copy=True) is not x
    assert x.to("openreg:0").get_device() == 0


def test_a_copy_onto_itself_changes_nothing():
    x = torch.arange(6.0, device="openreg").view(2, 3)
    assert x.copy_(x).tolist() == [[0, 1, 2], [3, 4, 5]]
    square = torch.arange(4.0, device="openreg").view(2, 2)
    expected = torch.arange(4.0).view(2, 2)
    with pytest.raises(RuntimeError) as error:
        expected.t().copy_(expected)
    with pytest.raises(RuntimeError) as ours:
        square.t().copy_(square)
    assert str(ours.value) == str(error.value)


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_copies_that_overlap_are_refused(device):
    x = torch.arange(4.0, device=device)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        x[:1].expand(3).copy_(torch.zeros(3))
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_shapes_that_do_not_fit_are_refused(source, target):
    x = put(torch.zeros(3), target)
    with pytest.raises(RuntimeError, match="must match"):
        x.copy_(put(torch.zeros(2), source))
    with pytest.raises(RuntimeError):
        x.copy_(put(torch.zeros(2, 3), source))


# --- order --------------------------------------------------------------------


def test_a_blocking_copy_to_the_host_is_there_when_it_returns(hold):
    x = torch.zeros(1000, device="openreg")
    for value in range(20):
        x.fill_(value)
        assert torch.empty(1000).copy_(x).tolist() == [value] * 1000


def test_a_non_blocking_copy_from_pinned_memory_is_queued(hold):
    x = torch.zeros(1000, device="openreg")
    source = torch.full((1000,), 3.0).pin_memory()
    stream = torch.openreg.Stream()
    torch.openreg.synchronize()
    with torch.openreg.stream(stream):
        gate = hold(stream)
        x.copy_(source, non_blocking=True)
        assert not stream.query()
        source.fill_(4)  # before the copy, which the gate holds
        gate.open()
        assert x.tolist() == [4.0] * 1000


def test_a_non_blocking_copy_changes_dtypes_in_the_order_of_the_stream(hold):
    x = torch.full((1000,), 2 + 3j, device="openreg")
    y = torch.zeros(1000, device="openreg", dtype=torch.complex128)
    host = torch.zeros(1000, dtype=torch.complex64).pin_memory()
    stream = torch.openreg.Stream()
    torch.openreg.synchronize()
    with torch.openreg.stream(stream):
        gate = hold(stream)
        host.copy_(x, non_blocking=True)
        y.copy_(host.conj(), non_blocking=True)  # of what is not there yet
        gate.open()
        assert y.tolist() == [2 - 3j] * 1000


def test_a_blocking_copy_to_the_host_changes_dtypes_there():
    x = torch.ones(1 << 18, device="openreg")
    host = torch.empty(1 << 18, dtype=torch.float64)
    torch.openreg.reset_peak_memory_stats()
    before = torch.openreg.memory_allocated()
    assert host.copy_(x).sum() == 1 << 18
    assert torch.openreg.max_memory_allocated() == before


def test_a_non_blocking_copy_from_pageable_memory_keeps_what_was_there(hold):
    x = torch.zeros(1000, device="openreg")
    source = torch.full((1000,), 3.0)
    stream = torch.openreg.Stream()
    torch.openreg.synchronize()
    with torch.openreg.stream(stream):
        gate = hold(stream)
        x.copy_(source, non_blocking=True)
        source.fill_(4)
        gate.open()
        assert x.tolist() == [3.0] * 1000


def test_a_copy_between_devices_waits_for_both(hold):
    source = torch.zeros(1000, device="openreg:0")
    target = torch.zeros(1000, device="openreg:1")
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    first, second = torch.openreg.Stream(0), torch.openreg.Stream(1)
    with torch.openreg.stream(first), torch.openreg.stream(second):
        gates = hold(first), hold(second)
        source.fill_(7)
        target.fill_(1)  # queued before the copy, so the copy wins
        target.copy_(source, non_blocking=True)
        source.fill_(9)  # queued after it
        for gate in gates:
            gate.open()
        assert target.tolist() == [7.0] * 1000
        assert source.tolist() == [9.0] * 1000


def test_a_complex_number_is_true_if_any_part_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.tensor([1j, 0j]).openreg().bool().tolist() == [True, False]


def test_sizes_are_looked_at_even_if_there_is_nothing_to_copy():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match"):
        torch.zeros(0, 3).copy_(torch.ones(4, 5, device="openreg"))
    with pytest.raises(RuntimeError):
        torch.zeros(0, 1).copy_(torch.ones(0, 3, device="openreg"))


def test_a_broadcast_part_of_the_destination_is_refused():
    x = torch.arange(3, device="openreg")
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x.copy_(x[1])


def test_odd_strides_of_a_dimension_of_size_one_cross_devices():
    found = torch.arange(3, device="openreg:1").nonzero()  # strides (1, 2)
    there = torch.empty(2, 1, dtype=torch.long, device="openreg:0").copy_(found)
    assert there.tolist() == [[1], [2]]


def test_a_lazily_conjugated_tensor_can_be_recorded():
    stream = torch.openreg.Stream()
    for _ in range(100):
        torch.ones(3, dtype=torch.complex64, device="openreg").conj().record_stream(
            stream
        )


def test_a_lazily_negated_tensor_does_not_become_a_bool_in_place():
    for device in ("cpu", "openreg"):
        negated = torch.tensor([1 + 2j], device=device).conj().imag
        with pytest.raises(NotImplementedError, match="for 'Bool'"):
            torch.zeros(1, dtype=torch.bool, device=device).copy_(negated)
        assert negated.bool().tolist() == [True]


def test_a_complex_tensor_is_not_copied_to_a_part_of_itself():
    for device in ("cpu", "openreg"):
        x = torch.tensor(1 + 2j, device=device)
        with pytest.raises(RuntimeError, match="single memory location"):
            x.imag.copy_(x)
