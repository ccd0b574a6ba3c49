"""Several devices of one process as ranks: a thread, a device and a group for each."""

import pytest
import test_distributed_collectives as collectives

DEVICES = {"OPENREG_DEVICE_COUNT": "3"}


@pytest.fixture
def threads(ranks):
    def run(body, size=3, **options):
        return ranks(body, size, threads=True, **(DEVICES | options))

    return run


def test_every_collective_and_message_moves_as_between_processes(threads):
    test = collectives.test_every_collective_moves_what_gloo_moves
    test(threads, 3, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_reductions_are_those_of_processes(threads, transport):
    reductions = (
        collectives.test_a_reduction_combines_the_ranks_in_order_for_every_dtype,
        collectives.test_large_tensors_are_reduced_in_parts_and_are_the_same_everywhere,
    )
    for test in reductions:
        test(threads, 3, transport)


def test_messages_training_and_groups_work(threads):
    threads(
        """
    assert dist.group.WORLD._get_backend(device).transport == "shared memory"
    x = torch.full((5,), float(rank), device=device)
    works = [dist.isend(x, (rank + 1) % size), dist.irecv(y := x + 7, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert y.tolist() == [float((rank - 1) % size)] * 5
    group = dist.new_group([0, 2])
    if rank != 1:
        dist.all_reduce(x, group=group)
        assert x.tolist() == [2.0] * 5
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4, bias=False).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    model(torch.full((3, 4), 1.0 + rank, device=device)).sum().backward()
    assert model.module.weight.grad.tolist() == [[3.0 * (size + 1) / 2] * 4] * 4
    """
    )


def test_a_group_that_one_thread_aborts_fails_in_all_and_the_devices_go_on(threads):
    threads(
        """
    x = torch.ones(3, device=device)
    dist.all_reduce(x)
    if rank == 1:
        dist.group.WORLD._get_backend(device).abort()
    else:
        try:
            dist.all_reduce(x)
            torch.openreg.synchronize()
        except RuntimeError as error:
            assert "rank 1" in str(error), error
        else:
            raise AssertionError("nobody came")
    dist.destroy_process_group()
    join("again")
    x = torch.ones(3, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [3.0] * 3
    """
    )


def test_threads_may_make_the_first_groups_at_once(threads):
    threads(
        """
    from torch_openreg import distributed as occl
    store = dist.PrefixStore(str(rank), connect())
    gate.wait()
    group = occl.ProcessGroupOCCL(store, 0, 1, occl.ProcessGroupOCCL.Options())
    assert group.size() == 1
    """,
        16,
        joins=False,
        setup="""
import threading
gate = threading.Barrier(size)
sys.setswitchinterval(1e-6)
""",
    )
