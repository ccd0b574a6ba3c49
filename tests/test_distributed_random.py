"""Random operators on DTensors: replicas agree, shards differ, ranks stay in step."""

import pytest

SETUP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
import torch.distributed.tensor as dt
import torch.nn.functional as F

def same_everywhere(values):
    values = values.contiguous()
    all_values = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(all_values, values)
    return all(torch.equal(v, values) for v in all_values)
"""


def test_shards_differ_and_ranks_stay_in_step(ranks):
    ranks(
        """
    mesh = init_device_mesh("openreg", (size,))
    torch.manual_seed(rank)  # the first use gives all ranks that of rank 0
    first = dt.randn(6, 5, device_mesh=mesh, placements=[Replicate()])
    assert same_everywhere(first.to_local())
    torch.manual_seed(3)
    alone = torch.randn(6, 5, device=device)
    for attempt in range(2):
        torch.manual_seed(3)
        whole = dt.randn(6, 5, device_mesh=mesh, placements=[Replicate()])
        assert torch.equal(whole.to_local(), alone)
        shards = dt.rand(size * 8, 4, device_mesh=mesh, placements=[Shard(0)])
        full = shards.full_tensor()
        assert same_everywhere(full) and full.flatten().unique().numel() == full.numel()
        assert same_everywhere(torch.rand(3, device=device))
        if attempt:
            assert torch.equal(full, before)
        before = full
    """,
        setup=SETUP,
        OPENREG_DEVICE_COUNT="2",
    )


@pytest.mark.slow
def test_operators_on_shards_draw_their_own_numbers(ranks):
    ranks(
        """
    mesh = init_device_mesh("openreg", (size,))
    torch.manual_seed(5)
    ones = distribute_tensor(torch.ones(64, size * 8, device=device), mesh, [Shard(1)])
    kept = F.dropout(ones, 0.5).full_tensor()
    assert same_everywhere(kept) and 0.3 < (kept == 0).float().mean().item() < 0.7
    assert not torch.equal(kept[:, :8], kept[:, 8:16])
    generator = torch.Generator(device).manual_seed(9)
    drawn = ones.uniform_(generator=generator).full_tensor()
    assert drawn.unique().numel() > drawn.numel() * 0.99
    assert same_everywhere(generator.get_state().to(device))
    replicas = distribute_tensor(torch.ones(6, device=device), mesh, [Replicate()])
    generator.manual_seed(9)
    there = torch.ones(6, device=device).normal_(generator=generator.clone_state())
    here = replicas.normal_(generator=generator).to_local()
    assert torch.equal(here, there)
    assert same_everywhere(torch.rand(3, device=device))
    """,
        setup=SETUP,
        OPENREG_DEVICE_COUNT="2",
    )


@pytest.mark.slow
def test_replicas_of_shards_agree(ranks):
    ranks(
        """
    mesh = init_device_mesh("openreg", (2, 2), mesh_dim_names=("a", "b"))
    torch.manual_seed(1)
    x = dt.rand(8, 3, device_mesh=mesh, placements=[Replicate(), Shard(0)])
    local = x.to_local().contiguous()
    others = [torch.empty_like(local) for _ in range(size)]
    dist.all_gather(others, local)
    for other, values in enumerate(others):
        assert torch.equal(values, local) == (other % 2 == rank % 2)
    double = dt.rand(8, 3, device_mesh=mesh, placements=[Shard(0), Shard(0)])
    full = double.full_tensor()
    assert full.unique().numel() == full.numel()
    """,
        4,
        setup=SETUP,
        OPENREG_DEVICE_COUNT="4",
    )
