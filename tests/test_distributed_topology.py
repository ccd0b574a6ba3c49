"""Collectives that take as long as the links of a cluster would."""

import pytest

# Links so slow that what this machine itself takes does not matter.
SLOW = "nvlink8,bandwidth=4MB/s,latency=10ms"

TIMED = """
    def milliseconds(call):
        call()  # what is made once
        begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)
"""


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_a_collective_takes_at_least_the_time_of_its_links(ranks, transport):
    ranks(
        TIMED
        + """
    x = torch.ones(10_000, device=device)  # 10 ms of the link
    parts = torch.ones(20_000, device=device)
    # Steps of latency, and bytes that pass.
    assert milliseconds(lambda: dist.all_reduce(x)) >= 2 * 10 + 10
    assert milliseconds(lambda: dist.broadcast(x, 0)) >= 10 + 10
    assert milliseconds(lambda: dist.all_gather_single(parts, x)) >= 10 + 10
    assert milliseconds(lambda: dist.reduce_scatter_single(x, parts)) >= 10 + 10
    assert milliseconds(lambda: dist.all_to_all_single(parts.clone(), parts)) >= 10 + 10
    backend = dist.group.WORLD._get_backend(device)  # c10d asks Gloo, if it is there
    assert milliseconds(lambda: backend.barrier().wait()) >= 2 * 10
    if rank == 0:
        assert milliseconds(lambda: dist.send(x, 1)) >= 10 + 10
    else:
        milliseconds(lambda: dist.recv(x, 0))
    # Time changes, numbers do not.
    x = torch.full((3,), 1.0 + rank, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [3.0] * 3
    """,
        OPENREG_TOPOLOGY=SLOW,
        OPENREG_OCCL_TRANSPORT=transport,
    )


def test_ranks_of_other_hosts_are_farther_away(ranks):
    ranks(
        TIMED
        + """
    x = torch.ones(1000, device=device)
    near, far = dist.new_group([0, 1]), dist.new_group([0, 2])
    if rank in (0, 1):
        dist.all_reduce(x, group=near)
    if rank in (0, 2):
        assert milliseconds(lambda: dist.all_reduce(x, group=far)) >= 2 * 40
    """,
        3,
        OPENREG_TOPOLOGY="2x2-ib,latency=1us,host_latency=40ms",
    )


def test_the_timeline_shows_what_runs_beside_a_collective(ranks):
    ranks(
        """
    from torch.profiler import ProfilerActivity, profile
    x, y = torch.ones(10_000, device=device), torch.ones(1000, device=device)
    dist.all_reduce(x)
    torch.openreg.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        work = dist.all_reduce(x, async_op=True)
        y.add_(1)
        work.wait()
        x.mul_(2)
        torch.openreg.synchronize()
    rows = [e for e in prof.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
    def row(name):
        return next(e.time_range for e in rows if name in e.name)
    links = row("occl:all_reduce")
    assert links.end - links.start >= 30_000, rows
    assert row("add").end < links.end <= row("mul").start
    """,
        OPENREG_TOPOLOGY=SLOW,
    )


def test_time_of_links_is_not_spent_on_a_processor_and_ends_with_the_group(ranks):
    ranks(
        """
    import time
    x = torch.ones(3, device=device)
    before = time.process_time(), time.monotonic()
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed() and time.monotonic() - before[1] < 0.5:
        time.sleep(0.1)  # so that this thread takes no time either
    assert time.process_time() - before[0] < 0.3
    assert not work.is_completed()
    dist.group.WORLD._get_backend(device).abort()
    assert time.monotonic() - before[1] < 15, "20 s of latency were waited for"
    """,
        OPENREG_TOPOLOGY="nvlink8,latency=10s",
    )


@pytest.mark.parametrize(
    "topology, words",
    [
        ("ethernet", "neither a cluster, such as nvlink8"),
        ("nvlink1", "1 x 1 devices, but rank 1 needs one"),
    ],
)
def test_a_bad_topology_is_refused_with_a_sentence(ranks, topology, words):
    ranks(
        f"""
    try:
        join()
    except ValueError as error:
        assert {words!r} in str(error), error
    else:
        raise AssertionError("it was taken")
    """,
        joins=False,
        backend="occl",
        OPENREG_TOPOLOGY=topology,
    )
