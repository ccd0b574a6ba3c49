"""Collectives among other work of a device: order, futures, memory, graphs, profiles."""

import pytest


@pytest.mark.parametrize("schedule", ["auto", "async", "adversarial"])
def test_a_collective_runs_behind_the_stream_and_the_stream_behind_it(ranks, schedule):
    ranks(
        """
    other = torch.openreg.Stream()
    for round in range(20):
        x = torch.full((1000,), 1.0, device=device)
        with torch.openreg.stream(other):
            other.wait_stream(torch.openreg.default_stream())
            x.mul_(2.0)
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            y = x + 1
        torch.openreg.default_stream().wait_stream(other)
        assert y[::100].tolist() == [2.0 * size + 1] * 10
        x = torch.ones(10, device=device)
        works = [dist.all_reduce(x, async_op=True) for _ in range(3)]
        works[-1].wait()
        assert x.sum().item() == 10 * size**3
        assert all(w.is_completed() for w in works)
    """,
        OPENREG_SCHEDULE=schedule,
    )


def test_a_call_returns_while_its_stream_is_busy_and_wait_does_not_block(ranks):
    ranks(
        """
    import time
    x = torch.ones(4, device=device)
    dist.all_reduce(x)
    torch.openreg.synchronize()
    torch.openreg._sleep(1_000_000_000)
    event = torch.openreg.Event(); event.record()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert not event.query(), "the host has waited"
    assert x.tolist() == [4.0] * 4
    assert work.is_completed() and work.is_success()
    """
    )


# What each kind of call is given, by make(); each is under way until rank 1 comes.
UNDER_WAY = """
    def pair():
        return [make(), make()]
    def messages():
        call = dist.irecv if rank == 0 else dist.isend
        return dist.batch_isend_irecv([dist.P2POp(call, make(), 1 - rank)])
    def coalesced():
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            dist.all_reduce(make()); dist.all_reduce(make())
        return manager
    options = {"async_op": True}
    kinds = {
        "all_reduce": lambda: dist.all_reduce(make(), **options),
        "broadcast": lambda: dist.broadcast(make(), 0, **options),
        "reduce": lambda: dist.reduce(make(), 0, **options),
        "all_gather": lambda: dist.all_gather(pair(), make(), **options),
        "all_gather_single": lambda: dist.all_gather_single(make(2), make(), **options),
        "gather": lambda: dist.gather(make(), None if rank else pair(), **options),
        "scatter": lambda: dist.scatter(make(), None if rank else pair(), **options),
        "reduce_scatter": lambda: dist.reduce_scatter(make(), pair(), **options),
        "reduce_scatter_single": lambda: dist.reduce_scatter_single(make(), make(2), **options),
        "all_to_all": lambda: dist.all_to_all(pair(), pair(), **options),
        "all_to_all_single": lambda: dist.all_to_all_single(make(2), make(2), **options),
        "message": lambda: (dist.isend if rank else dist.irecv)(make(), 1 - rank),
        "messages": messages,
        "coalesced": coalesced,
    }
"""


@pytest.mark.parametrize(
    "transport", ["auto", pytest.param("gloo", marks=pytest.mark.slow)]
)
def test_memory_of_any_call_under_way_is_not_given_to_others(ranks, transport):
    ranks(
        """
    store, mine = connect(), set()
    def make(parts=1):
        tensor = torch.ones(1000 * parts, device=device)
        mine.add(tensor.data_ptr())
        return tensor
    def others():  # as large, and at once on the same stream
        made = [torch.ones(1000 * parts, device=device) for parts in (1, 2) * 5]
        return {tensor.data_ptr() for tensor in made}
"""
        + UNDER_WAY
        + """
    for kind, call in kinds.items():
        mine.clear()
        if rank == 1:
            store.wait([kind])
        call()  # neither its tensors nor its Work are kept
        if rank == 0:
            assert not mine & others(), kind
            store.set(kind, "1")
        torch.openreg.synchronize()
        if rank == 0:
            assert mine & others(), kind  # afterwards it is
    """,
        OPENREG_OCCL_TRANSPORT=transport,
    )


def test_futures_bring_the_results_to_the_stream_that_waits(ranks):
    ranks(
        """
    x = torch.ones(5, device=device)
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda f: f.value()[0] * 2)
    assert doubled.wait().tolist() == [4.0] * 5
    """
    )


def test_a_captured_collective_runs_with_each_replay(ranks):
    ranks(
        """
    x = torch.ones(6, device=device)
    dist.all_reduce(x)  # before: nothing is set up in a capture
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        y = x * 2
        dist.all_reduce(y)
        z = y + 1
    for value in (1.0, 2.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert z.tolist() == [2 * size * value + 1] * 6
    """
    )


def test_a_profile_names_the_collective_its_group_and_its_size(ranks):
    ranks(
        """
    from torch.profiler import ProfilerActivity, profile
    x = torch.ones(100, device=device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        dist.all_reduce(x)
        torch.openreg.synchronize()
    path = os.path.join(folder, f"trace{rank}.json")
    profiler.export_chrome_trace(path)
    events = json.load(open(path))["traceEvents"]
    rows = [e for e in events if e.get("name") == "record_param_comms"]
    assert rows and rows[0]["args"]["In msg nelems"] == 100, rows
    assert rows[0]["args"]["Process Group Name"] == "0"
    kernels = [e for e in events if e.get("cat") == "kernel" and "occl:all_reduce" in e["name"]]
    assert kernels
    """
    )
