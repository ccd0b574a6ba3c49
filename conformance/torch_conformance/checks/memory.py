"""Level 3: the allocator. There are storages, not yet tensors."""

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error, in_threads

PAGE = "memory.md"
MEGABYTE = 1 << 20


def storage(device, nbytes, index=None):
    """Memory of the device; of the current one without an index."""
    return torch.UntypedStorage(nbytes, device=torch.device(device.name, index))


@check(
    call="torch.UntypedStorage(n, device=NAME)",
    write="An allocator in PyTorch's slot: `REGISTER_ALLOCATOR(DeviceType::PrivateUse1,"
    " &allocator)`.",
    page=PAGE,
)
def gives_memory(device):
    """Memory has the size that was asked for, and an address."""
    for nbytes in (1, 63, 1000, 3 * MEGABYTE):
        found = storage(device, nbytes)
        expect_equal(found.nbytes(), nbytes, "the size of a storage")
        expect(found.data_ptr() != 0, f"{nbytes} bytes are at address 0")


@check(
    call="torch.UntypedStorage(0, device=NAME)",
    write="`allocate(0)` returns a null pointer with the device, and asks no driver.",
    page=PAGE,
)
def gives_nothing_for_nothing(device):
    """A storage of no bytes is legal and knows its device."""
    found = storage(device, 0)
    expect_equal(found.nbytes(), 0, "the size of an empty storage")
    expect_equal(found.device.type, device.name, "its device")


@check(
    call="torch.UntypedStorage(n, device=NAME).device",
    write="The `DataPtr` that `allocate()` returns holds the device it was made on.",
    page=PAGE,
)
def knows_its_device(device):
    """Memory says on which device it is: the current one, or the one asked for."""
    expect_equal(storage(device, 8).device, device.at(0), "the device of a storage")
    for index in range(device.count):
        found = storage(device, 8, index).device
        expect_equal(found, device.at(index), "the device of a storage")


@check(
    call="torch.accelerator.set_device_index(1); torch.UntypedStorage(n, device=NAME)",
    write="`allocate()` asks for the current device, and does not assume 0.",
    page=PAGE,
    needs=("devices",),
)
def follows_the_current_device(device):
    """Without an index memory comes from the current device."""
    with torch.accelerator.device_index(1):
        expect_equal(storage(device, 8).device, device.at(1), "the storage's device")


@check(
    call="UntypedStorage.data_ptr()",
    write="`allocate()` must not hand out memory that is in use.",
    page=PAGE,
)
def blocks_do_not_overlap(device):
    """Living blocks do not overlap."""
    sizes = [1, 100, 512, 4096, MEGABYTE] * 4
    blocks = [storage(device, nbytes) for nbytes in sizes]
    ranges = sorted((b.data_ptr(), b.data_ptr() + b.nbytes()) for b in blocks)
    for (_, end), (begin, _) in zip(ranges, ranges[1:], strict=False):
        expect(end <= begin, f"a block ends at {end:#x}, another begins at {begin:#x}")


@check(
    call="UntypedStorage.data_ptr()",
    write="Round sizes up so that each block begins at a multiple of 64 bytes, which"
    " vectorised kernels rely on.",
    page=PAGE,
)
def blocks_are_aligned(device):
    """Blocks begin at a multiple of 16 bytes."""
    blocks = [storage(device, nbytes) for nbytes in (1, 3, 17, 100, 1000)]
    for block in blocks:
        rest = block.data_ptr() % 16
        expect(rest == 0, f"a block begins {rest} bytes after a multiple of 16")


@check(
    call="del storage",
    write="The deleter of the `DataPtr` gives memory back to the driver or to a cache.",
    page=PAGE,
)
def freed_memory_is_used_again(device):
    """Memory that was freed is handed out again."""
    rounds = 64
    addresses = set()
    for _ in range(rounds):
        block = storage(device, 8 * MEGABYTE)
        addresses.add(block.data_ptr())
        del block
        torch.accelerator.synchronize()
    expect(
        len(addresses) < rounds,
        f"{rounds} blocks, each freed before the next, lie at {rounds} addresses:"
        " the allocator never frees",
    )


@check(
    call="torch.UntypedStorage(1 << 60, device=NAME)",
    write="`TORCH_CHECK_WITH(OutOfMemoryError, ...)` with the size that was asked for.",
    page=PAGE,
)
def says_when_there_is_no_more(device):
    """Too much memory is refused with OutOfMemoryError; less still works."""
    too_much = lambda: storage(device, 1 << 60)  # noqa: E731
    expect_error(too_much, "a storage of 2**60 bytes", torch.OutOfMemoryError)
    expect_equal(storage(device, 64).nbytes(), 64, "the size of a storage afterwards")


@check(
    call="torch.UntypedStorage(n, device='NAME:99')",
    write="The guard checks the index before memory is asked for.",
    page=PAGE,
)
def refuses_a_device_that_is_not_there(device):
    """Memory of a device that does not exist is refused."""
    expect_error(
        lambda: storage(device, 8, device.count), f"memory of {device.at(device.count)}"
    )


@check(
    call="torch.UntypedStorage(n, device=NAME) on several threads",
    write="A lock in the allocator; the deleter runs on any thread.",
    page=PAGE,
)
def serves_threads(device):
    """Threads allocate at once, and free what others allocated."""
    blocks = []

    def work():
        for i in range(200):
            blocks.append(storage(device, 1 + 1000 * (i % 7)))
            if i % 2:
                blocks.pop()

    in_threads(work, 4)
    addresses = {block.data_ptr() for block in blocks}
    expect_equal(len(addresses), len(blocks), "the number of distinct addresses")
