"""Context parallelism: attention over a sequence that ranks share out."""

import pytest

SETUP = """
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.experimental import _attention, context_parallel

def attention(tensors, causal):
    for tensor in tensors:
        tensor.requires_grad_()
    out = F.scaled_dot_product_attention(*tensors, is_causal=causal)
    out.square().sum().backward()
    results = [out.detach(), *(tensor.grad for tensor in tensors)]
    for tensor in tensors:
        tensor.requires_grad_(False)
    return results

def check(device, causal, within=2e-5):
    mesh = init_device_mesh("openreg", (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(2, 3, 24, 8, generator=generator) for _ in range(3)]
    expected = attention([x.clone() for x in inputs], causal)
    inputs = [x.to(device) for x in inputs]
    _attention._cp_options.enable_load_balance = causal
    with context_parallel(mesh, buffers=inputs, buffer_seq_dims=[2] * 3):
        parts = attention(inputs, causal)
        assert parts[0].shape == (2, 3, 24 // mesh.size(), 8)
        found = _attention.context_parallel_unshard(mesh, parts, [2] * 4)
    for here, there in zip(found, expected, strict=True):
        torch.testing.assert_close(here.cpu(), there, rtol=within, atol=within)
"""


@pytest.mark.parametrize(
    "size, causal",
    [
        (2, True),
        pytest.param(2, False, marks=pytest.mark.slow),
        pytest.param(4, True, marks=pytest.mark.slow),
    ],
)
def test_attention_and_its_gradients_are_those_of_the_whole_sequence(
    ranks, size, causal
):
    body = f"check(device, {causal})"
    ranks(body, size, setup=SETUP, OPENREG_DEVICE_COUNT=str(size))


@pytest.mark.slow
def test_other_placements_are_refused_with_a_sentence(ranks):
    ranks(
        """
    mesh = init_device_mesh("openreg", (size,))
    x = distribute_tensor(torch.ones(2, 2, 8, 4, device=device), mesh, [Shard(1)])
    from torch_openreg.distributed import _context
    try:
        _context._forward(_context._FORWARD, (x, x, x), {})
    except NotImplementedError as error:
        assert "Shard(dim=2)" in str(error), error
    else:
        raise AssertionError("taken")
    """,
        setup=SETUP,
        OPENREG_DEVICE_COUNT="2",
    )
