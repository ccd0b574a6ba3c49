"""Ranks that call something else, do not come, or are killed."""

import pytest


# The error of a call, wherever it is told.
FAILS = """
    import time
    def fails(f, *words):
        try:
            work = f()
            if hasattr(work, "wait"):
                work.wait()
            torch.openreg.synchronize()
        except RuntimeError as error:
            for word in words:
                assert word in str(error), error
        else:
            raise AssertionError(f"nothing was raised; expected {words}")
"""


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_calls_that_do_not_match_are_told_with_both_and_touch_nothing(ranks, transport):
    ranks(
        FAILS
        + """
    R = dist.ReduceOp
    x, y = torch.ones(8, device=device), torch.ones(6, device=device)
    pairs = {
        "different collectives": (lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0)),
        "broadcast(float32, root 1": (lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 1)),
        "all_reduce(MAX": (lambda: dist.all_reduce(x), lambda: dist.all_reduce(x, R.MAX)),
        "24 bytes": (lambda: dist.all_reduce(x), lambda: dist.all_reduce(y)),
        "int32": (lambda: dist.all_reduce(x), lambda: dist.all_reduce(x.int())),
        "root 1": (lambda: dist.broadcast(x, 0), lambda: dist.broadcast(x, 1)),
    }
    for number, (words, calls) in enumerate(pairs.items()):
        if number > 0:
            join(f"again{number}")
        fails(calls[rank], "rank 0", "rank 1", words)
        assert x.tolist() == [1.0] * 8 and y.tolist() == [1.0] * 6
        fails(lambda: dist.all_reduce(x), "of no use any more")
        dist.destroy_process_group()
    # The device has not suffered, and another group works.
    join("last")
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 8
    """,
        OPENREG_OCCL_TRANSPORT=transport,
    )


def test_a_message_of_another_size_is_refused(ranks):
    ranks(
        FAILS
        + """
    x = torch.zeros(4 + rank, device=device)
    if rank == 0:
        dist.send(x, 1)
    else:
        fails(lambda: dist.recv(x, 0), "sent 16 bytes", "receives 20")
        assert x.tolist() == [0.0] * 5
    """
    )


def test_a_killed_rank_is_named_and_the_others_go_on_without_it(ranks):
    ranks(
        FAILS
        + """
    x = torch.ones(100, device=device)
    dist.all_reduce(x)
    torch.openreg.synchronize()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    fails(lambda: dist.all_reduce(x), "rank 2")
    assert time.monotonic() - start < 5
    dist.destroy_process_group()
    size = 2
    store = dist.PrefixStore("again", connect())
    dist.init_process_group("occl", store=store, rank=rank, world_size=2)
    x = torch.ones(10, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 10
    """,
        3,
        expect=[0, 0, -9],
    )


def test_a_rank_that_does_not_come_is_named_when_the_timeout_is_over(ranks):
    ranks(
        FAILS
        + """
    from datetime import timedelta
    join(timeout=timedelta(seconds=20))
    group = dist.new_group(timeout=timedelta(milliseconds=300), backend="occl")
    x = torch.ones(3, device=device)
    if rank == 0:
        fails(lambda: dist.all_reduce(x, group=group), "rank 1", "timeout")
    dist.barrier()
    """,
        joins=False,
        OPENREG_OCCL_BLOCKING_WAIT="1",
    )


def test_an_aborted_group_wakes_those_who_wait(ranks):
    ranks(
        FAILS
        + """
    group = dist.new_group(backend="occl")
    backend = group._get_backend(device)
    x = torch.ones(3, device=device)
    if rank == 0:
        work = dist.all_reduce(x, group=group, async_op=True)
        backend.abort()
        fails(lambda: work, "aborted")
        fails(lambda: dist.all_reduce(x, group=group), "aborted")
    dist.barrier()
    """
    )
