"""Ranks that call something else, do not come, or are killed."""

from pathlib import Path

import pytest

# The error of a call, wherever it is told.
FAILS = """
    import time
    from datetime import timedelta
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
def test_mismatched_calls_raise_with_both_calls_and_touch_nothing(ranks, transport):
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
        fails(lambda: dist.all_reduce(x), "cannot be used any more")
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
    fails(lambda: dist.all_reduce(x), "rank 2")
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


def segments(maps):
    """Memory of devices and groups among the mappings of a process, by its inode."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return set()  # it has ended
    return {tuple(line.split()[3:5]) for line in lines if "memfd:openreg" in line}


def test_ranks_that_are_all_killed_leave_no_segment(ranks, tmp_path):
    ranks(
        """
    import shutil
    x = torch.ones(50_000, device=device)
    dist.all_reduce(x)
    torch.openreg.synchronize()
    shutil.copy("/proc/self/maps", f"{folder}/maps{rank}")
    dist.barrier()
    dist.all_reduce(x)
    os.kill(os.getpid(), signal.SIGKILL)
    """,
        expect=[-9, -9],
    )
    theirs = segments(tmp_path / "maps0") | segments(tmp_path / "maps1")
    assert len(theirs) > 1  # of both devices and the group
    processes = Path("/proc").glob("[0-9]*/maps")
    assert not theirs & set().union(*map(segments, processes))


def test_a_timeout_can_be_extended_until_a_call_has_ended(ranks):
    """As Inductor does after it has found compiled code in its cache on one rank."""
    ranks(
        FAILS
        + """
    join(timeout=timedelta(seconds=20))
    group = dist.new_group(timeout=timedelta(milliseconds=200), backend="occl")
    x = torch.ones(8, device=device)
    occl = group._get_backend(device)
    occl._add_ephemeral_timeout(timedelta(hours=1))
    dist.all_reduce(x, group=group)
    torch.openreg.synchronize()
    if rank == 0:
        occl._add_ephemeral_timeout(timedelta(milliseconds=300))
        start = time.monotonic()
        fails(lambda: dist.all_reduce(x, group=group), "rank 1", "timeout")
        assert time.monotonic() - start >= 0.5
    dist.barrier()
    """,
        joins=False,
    )


def test_a_rank_that_does_not_come_is_named_when_the_timeout_is_over(ranks):
    ranks(
        FAILS
        + """
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


@pytest.mark.parametrize(
    "missing, wait_all_ranks, named",
    [
        ([0], True, "0"),
        ([1, 3], True, "1, 3"),
        pytest.param([1, 3], False, "1", marks=pytest.mark.slow),
    ],
)
def test_a_monitored_barrier_names_those_who_do_not_come(
    ranks, missing, wait_all_ranks, named
):
    ranks(
        FAILS
        + f"""
    barrier = dist.group.WORLD._get_backend(device).monitored_barrier
    dist.barrier()
    if rank not in {missing}:
        named = "{named}" if rank == 0 else "0"
        fails(lambda: barrier(timedelta(seconds=1), {wait_all_ranks}),
              f"no word from rank {{named}} within 1000 ms")
    dist.barrier()
    """,
        4,
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


# --- each collective ----------------------------------------------------------------

CALLS = (
    FAILS
    + """
    def calls(group, n=8, dtype=torch.float32, turned=False):
        x, *parts = (torch.ones(n, dtype=dtype, device=device) for _ in "xab")
        whole = torch.ones(2 * n, dtype=dtype, device=device)
        mine = dist.get_rank(group) ^ turned
        return {
            "all_reduce": lambda: dist.all_reduce(x, group=group),
            "broadcast": lambda: dist.broadcast(x, group_src=1 ^ turned, group=group),
            "reduce": lambda: dist.reduce(x, group_dst=0 ^ turned, group=group),
            "all_gather": lambda: dist.all_gather(parts, x, group=group),
            "gather": lambda: dist.gather(x, parts if mine == 0 else None, group_dst=0 ^ turned, group=group),
            "scatter": lambda: dist.scatter(x, parts if mine == 1 else None, group_src=1 ^ turned, group=group),
            "reduce_scatter": lambda: dist.reduce_scatter_single(x, whole, group=group),
            "all_to_all": lambda: dist.all_to_all_single(whole.clone(), whole, group=group),
            "barrier": lambda: dist.barrier(group=group),
            "recv": lambda: dist.recv(x, group_src=1 ^ turned, group=group),
            "send": lambda: dist.send(x, group_dst=1 ^ turned, group=group),
        }
    kinds = list(calls(dist.group.WORLD))
    collectives = kinds[:-2]  # messages are no part of the order
    def make_groups(**options):
        # Five to spare: if the machine is busy with something else, a kind is tried again.
        return [dist.new_group(backend="occl", **options) for _ in [*kinds, *range(5)]]
    def fails_within(seconds, kind, groups, *words):
        took = [seconds]
        while took[-1] >= seconds:
            assert groups, (kind, took)
            call = calls(groups.pop())[kind]
            torch.openreg.synchronize()  # a device process may have to be started
            start = time.monotonic()
            fails(call, *words)
            took.append(time.monotonic() - start)
"""
)
TRANSPORTS = ["auto", pytest.param("gloo", marks=pytest.mark.slow)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_rank_that_ends_before_any_collective_is_named_within_a_second(
    ranks, transport
):
    ranks(
        CALLS
        + """
    groups = make_groups()
    dist.barrier()
    if rank == 1:
        os._exit(0)
    for kind in kinds:
        fails_within(1, kind, groups, "rank 1")
    """,
        OPENREG_OCCL_TRANSPORT=transport,
        OPENREG_OCCL_BLOCKING_WAIT="1",
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_rank_that_hangs_before_any_collective_is_named_after_the_timeout(
    ranks, transport
):
    ranks(
        CALLS
        + """
    groups = make_groups(timeout=timedelta(milliseconds=200))
    for kind in kinds if rank == 0 else ():
        fails_within(1.2, kind, groups, "rank 1")
    dist.barrier()
    """,
        OPENREG_OCCL_TRANSPORT=transport,
        OPENREG_OCCL_BLOCKING_WAIT="1",
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_both_ranks_report_a_different_collective(ranks, transport):
    ranks(
        CALLS
        + """
    for i, kind in enumerate(collectives):
        group, others = dist.new_group(backend="occl"), collectives[i + 1:] + collectives
        called = others[0] if rank else kind
        fails(calls(group)[called], "rank 0", "rank 1", kind, others[0])
    """,
        OPENREG_OCCL_TRANSPORT=transport,
        OPENREG_OCCL_BLOCKING_WAIT="1",
    )


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_both_ranks_report_a_different_argument(ranks, transport):
    ranks(
        CALLS
        + """
    rooted = ("broadcast", "reduce", "gather", "scatter")
    changes = [({"n": 6}, []), ({"turned": True}, ["root 0", "root 1"])]
    changes += [({"dtype": t}, ["float32", str(t)[6:]]) for t in (torch.float64, torch.int32)]
    for kind in collectives[:-1]:  # a barrier has nothing
        for change, words in changes:
            if "turned" in change and kind not in rooted:
                continue
            group = dist.new_group(backend="occl")
            call = calls(group, **(change if rank == 1 else {}))[kind]
            fails(call, f"rank 0 called {kind}", f"rank 1 called {kind}", *words)
    """,
        OPENREG_OCCL_TRANSPORT=transport,
        OPENREG_OCCL_BLOCKING_WAIT="1",
    )
