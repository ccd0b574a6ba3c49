"""FSDP, ZeRO and distributed checkpoints train and save as on the CPU with Gloo."""

import pytest
from rank_training import SETUP, compare

FSDP2 = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy, CPUOffloadPolicy

def shard(model, mesh, **options):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)

def total(model):
    return sum(p.full_tensor().double().sum().item() for p in model.parameters())
"""

FULLY_SHARD = """
def program(device):
    mesh = init_device_mesh(device.type, (size,))
    model = shard(make(device), mesh, OPTIONS)
    return [*train(model, device), total(model)]
"""


@pytest.mark.parametrize(
    "options, within",
    [
        ("", 0.0),
        pytest.param("reshard_after_forward=False", 0.0, marks=pytest.mark.slow),
        pytest.param(
            "mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)",
            1e-2,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["plain", "kept", "bfloat16"],
)
def test_fully_shard_trains_as_on_the_cpu(ranks, options, within):
    program = FULLY_SHARD.replace("OPTIONS", options)
    told = compare(ranks, program, within=within, setup=FSDP2)
    assert told[0][19] < told[0][0]
    assert told[0][-1] == told[1][-1]  # one model


COMPILED = {
    "layers": "[layer.compile() for layer in model.layers]",
    "model": "model.compile()",
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", COMPILED.values(), ids=COMPILED)
def test_a_compiled_sharded_model_trains_with_the_bits_of_the_cpu(ranks, statement):
    program = f"""
def program(device):
    torch._dynamo.reset()
    model = shard(make(device), init_device_mesh(device.type, (size,)))
    {statement}
    return [*train(model, device), total(model)]
"""
    compare(ranks, program, setup=FSDP2, patience=280, timeout=300)


@pytest.mark.slow
def test_fully_shard_prefetches_and_clips(ranks):
    compare(
        ranks,
        """
def program(device):
    mesh = init_device_mesh(device.type, (size,))
    model = shard(make(device), mesh)
    model.layers[0].set_modules_to_forward_prefetch([model.layers[1]])
    model.layers[1].set_modules_to_backward_prefetch([model.layers[0]])
    optimizer, told = adam(model), []
    for step in range(20):
        x, y = batch(step, device)
        model.set_requires_gradient_sync(step % 2 == 1)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if step % 2:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False)
            told.append(norm.full_tensor().item())
            optimizer.step()
            optimizer.zero_grad()
        told.append(loss.item())
    return told
""",
        setup=FSDP2,
        within=1e-6,
    )


@pytest.mark.slow
def test_fully_shard_offloads_to_the_host(ranks):
    (told, _) = ranks(
        """
mesh = init_device_mesh("openreg", (size,))
model = shard(make("cpu"), mesh, offload_policy=CPUOffloadPolicy())
for parameter in model.parameters():
    assert parameter.device.type == "cpu", parameter.device
    assert parameter.to_local().is_pinned()
offloaded = train(model, device)
cpu = torch.device("cpu")
return offloaded, train(shard(make(cpu), init_device_mesh("cpu", (size,))), cpu)
""",
        setup=SETUP + FSDP2,
    )
    assert told[0] == told[1]


@pytest.mark.slow
def test_replicas_of_shards_train_as_on_the_cpu(ranks):
    mesh = '(2, 2), mesh_dim_names=("replicas", "shards")'
    program = FULLY_SHARD.replace("(size,)", mesh).replace("OPTIONS", "")
    compare(ranks, program, 4, within=1e-5, setup=FSDP2)


FSDP1 = """
from torch.distributed.fsdp import (CPUOffload, FullyShardedDataParallel as FSDP,
    MixedPrecision, ShardingStrategy, StateDictType, FullStateDictConfig)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
"""


@pytest.mark.parametrize(
    "options, within",
    [
        ("", 0.0),
        ("sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, use_orig_params=True", 0.0),
        ("sharding_strategy=ShardingStrategy.NO_SHARD", 0.0),
        ("mixed_precision=MixedPrecision(torch.bfloat16, torch.float32)", 1e-2),
    ],
    ids=["full", "gradients", "none", "bfloat16"],
)
@pytest.mark.slow
def test_fsdp1_trains_as_on_the_cpu(ranks, options, within):
    program = """
def program(device):
    import warnings
    warnings.simplefilter("ignore")
    model = FSDP(make(device), device_id=device, auto_wrap_policy=ModuleWrapPolicy([nn.Sequential]),
                 OPTIONS)
    losses = train(model, device)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT,
                              FullStateDictConfig(rank0_only=False)):
        state = model.state_dict()
    return [*losses, sum(t.double().sum().item() for t in state.values())]
"""
    told = compare(
        ranks, program.replace("OPTIONS", options), within=within, setup=FSDP1
    )
    assert told[0][-1] == told[1][-1]


@pytest.mark.slow
def test_fsdp1_offloads_to_the_host(ranks):
    (told, _) = ranks(
        """
import warnings
warnings.simplefilter("ignore")
model = FSDP(make("cpu"), device_id=device, cpu_offload=CPUOffload(True))
assert all(p.device.type == "cpu" for p in model.parameters())
offloaded = train(model, device)
cpu = torch.device("cpu")
return offloaded, train(FSDP(make(cpu), device_id=cpu), cpu)
""",
        setup=SETUP + FSDP1,
    )
    assert told[0] == told[1]


@pytest.mark.slow
def test_an_optimizer_is_shared_out_by_zero(ranks):
    compare(
        ranks,
        """
def program(device):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel as DDP
    model = DDP(make(device))
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, lr=0.01, foreach=False)
    losses = train(model, device, optimizer)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        state = optimizer.state_dict()["state"]
        losses.append(sum(s["exp_avg"].double().sum().item() for s in state.values()))
    return losses
""",
    )


# --- checkpoints ------------------------------------------------------------------

CHECKPOINTS = (
    FSDP2
    + """
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

def prepare(device, shape):
    names = ("replicas", "shards")[-len(shape):]
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    model = shard(make(device), mesh)
    return model, adam(model)

def state_of(model, optimizer):
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}

def load(model, optimizer, folder):
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
"""
)


@pytest.mark.parametrize(
    "how", ["save", pytest.param("async_save", marks=pytest.mark.slow)]
)
def test_training_resumes_from_a_checkpoint(ranks, how):
    program = """
def program(device):
    path = os.path.join(folder, "checkpoint" + device.type)
    model, optimizer = prepare(device, (size,))
    train(model, device, optimizer, steps=5)
    done = dcp.HOW(state_of(model, optimizer), checkpoint_id=path)
    if "HOW" == "async_save":
        done.result()
    expected = train(model, device, optimizer, steps=5)
    model, optimizer = prepare(device, (size,))
    train(model, device, optimizer, steps=1)
    load(model, optimizer, path)
    assert train(model, device, optimizer, steps=5) == expected
    return expected
"""
    compare(ranks, program.replace("HOW", how), setup=CHECKPOINTS)


@pytest.mark.slow
def test_a_checkpoint_of_four_ranks_is_loaded_by_two(ranks, tmp_path):
    totals = []
    for size, steps in ((4, 5), (2, 0)):
        told = ranks(
            f"""
path = os.path.join(folder, "checkpoint")
model, optimizer = prepare(device, (size,))
train(model, device, optimizer, steps=1)
if {steps}:
    train(model, device, optimizer, steps={steps})
    dcp.save(state_of(model, optimizer), checkpoint_id=path)
else:
    load(model, optimizer, path)
moments = sum(s["exp_avg"].full_tensor().double().sum().item()
              for s in optimizer.state.values())
return total(model), moments
""",
            size,
            setup=SETUP + CHECKPOINTS,
        )
        (tmp_path / "store").unlink(missing_ok=True)
        totals.append(told[0])
    assert totals[0] == pytest.approx(totals[1], rel=1e-12)
