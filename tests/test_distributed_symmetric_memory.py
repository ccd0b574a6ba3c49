"""torch.distributed._symmetric_memory: ranks that reach each other's memory."""

import pytest

SETUP = """
import torch.distributed._symmetric_memory as symmetric
"""


@pytest.mark.parametrize(
    "threads, executor",
    [
        (False, "thread"),
        pytest.param(True, "thread", marks=pytest.mark.slow),
        pytest.param(False, "process", marks=pytest.mark.slow),
    ],
)
def test_ranks_read_and_write_each_others_memory_between_signals(
    threads, executor, ranks
):
    ranks(
        """
    x = symmetric.empty(5, dtype=torch.float32, device=device).fill_(float(rank))
    memory = symmetric.rendezvous(x, dist.group.WORLD)
    assert (memory.rank, memory.world_size) == (rank, size)
    assert symmetric.rendezvous(x, dist.group.WORLD).buffer_ptrs == memory.buffer_ptrs
    memory.barrier()
    right = (rank + 1) % size
    theirs = memory.get_buffer(right, (5,), torch.float32)
    assert theirs.device == device and (theirs + 1).tolist() == [right + 1.0] * 5
    memory.barrier(channel=1)
    theirs.add_(10)
    memory.put_signal(dst_rank=right)
    memory.wait_signal(src_rank=(rank - 1) % size)
    assert x.tolist() == [rank + 10.0] * 5
    for round in range(50):  # a stream waits, and the host does not
        memory.barrier(channel=2)
    torch.openreg.synchronize()
    """,
        3,
        setup=SETUP,
        threads=threads,
        OPENREG_DEVICE_COUNT="3",
        OPENREG_EXECUTOR=executor,
    )


def test_a_kernel_that_runs_at_once_reaches_the_memory_of_anothers_device(ranks):
    # A rank has memory of one device only, and has not used it.
    ranks(
        """
    x = symmetric.empty(5, dtype=torch.float32, device=device)
    memory = symmetric.rendezvous(x, dist.group.WORLD)
    torch.openreg.synchronize()
    memory.get_buffer((rank + 1) % size, (5,), torch.float32).fill_(rank)
    torch.openreg.synchronize()
    dist.barrier()
    assert x.tolist() == [(rank - 1) % size] * 5
    """,
        3,
        setup=SETUP,
        OPENREG_DEVICE_COUNT="3",
    )


def test_unsupported_requests_are_refused_with_a_message(ranks):
    ranks(
        """
    def fails(call, words):
        try:
            call()
        except Exception as error:
            assert words in str(error), error
        else:
            raise AssertionError("taken: " + words)
    x = symmetric.empty(4, dtype=torch.float32, device=device)
    memory = symmetric.rendezvous(x, dist.group.WORLD)
    fails(lambda: memory.put_signal(dst_rank=5), "in [0, 2), but got 5")
    fails(lambda: memory.barrier(channel=10**6), "channel must be in [0, ")
    fails(lambda: symmetric.rendezvous(torch.ones(3, device=device), dist.group.WORLD),
          "_symmetric_memory.empty()")
    memory.wait_signal(src_rank=1 - rank, timeout_ms=50)
    fails(torch.openreg.synchronize, "waited in vain for 50 ms")
    y = symmetric.empty(100 * (1 + rank), dtype=torch.float32, device=device)
    fails(lambda: symmetric.rendezvous(y, dist.group.WORLD), "of the same size in all ranks")
    """,
        setup=SETUP,
        OPENREG_DEVICE_COUNT="2",
    )
