"""Ranks whose kernels run in device processes: OPENREG_EXECUTOR=process."""

import os
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
FILES = ("collectives", "streams", "failures", "data_parallel", "random", "threads")
ELSEWHERE = os.environ.get("OPENREG_EXECUTOR") == "process"


def test_devices_in_processes_of_their_own_share_memory(ranks):
    ranks(
        """
    assert dist.group.WORLD._get_backend(device).transport == "shared memory"
    for count in (10, 100_000):
        x = torch.full((count,), 1.0 + rank, device=device).mul_(2)
        dist.all_reduce(x)
        assert (x + 1).eq(7).all().item()
    model = torch.nn.Linear(4, 4, bias=False).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    model(torch.full((3, 4), 1.0 + rank, device=device)).sum().backward()
    assert model.module.weight.grad.tolist() == [[4.5] * 4] * 4
    """,
        OPENREG_EXECUTOR="process",
        OPENREG_DEVICE_COUNT="2",
    )


@pytest.mark.slow
@pytest.mark.skipif(ELSEWHERE, reason="is such a run itself")
def test_all_that_ranks_do_works_with_devices_in_processes(run_tests):
    files = [HERE / f"test_distributed_{name}.py" for name in FILES]
    run_tests(
        "-p",
        "no:xdist",
        *files,
        HERE / "test_sync_batch_norm.py",
        timeout=900,
        OPENREG_EXECUTOR="process",
    )
