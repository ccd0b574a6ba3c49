"""DistributedDataParallel on openreg trains as it does on the CPU with Gloo."""

import pytest
from rank_training import compare

SETUP = """
from torch.nn.parallel import DistributedDataParallel as DDP

def wrap(model, device, **options):
    ids = [device] if device.type == "openreg" else None
    return DDP(model, device_ids=ids, **options)
"""

PLAIN = """
def program(device):
    return train(wrap(make(device), device, OPTIONS), device)
"""


@pytest.mark.parametrize(
    "options",
    [
        "",
        pytest.param("static_graph=True", marks=pytest.mark.slow),
        pytest.param(
            "gradient_as_bucket_view=True, bucket_cap_mb=0.002", marks=pytest.mark.slow
        ),
    ],
)
def test_losses_are_those_of_the_cpu(ranks, options):
    told = compare(ranks, PLAIN.replace("OPTIONS", options), setup=SETUP)
    assert told[0][-1] < told[0][0]
    assert told[0] != told[1]  # each has batches of its own


@pytest.mark.slow
def test_four_ranks_train_as_on_the_cpu(ranks):
    compare(ranks, PLAIN.replace("OPTIONS", ""), 4, within=1e-5, setup=SETUP)


@pytest.mark.slow
def test_a_rank_may_leave_parameters_unused(ranks):
    compare(
        ranks,
        """
def program(device):
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 4)
        def forward(self, x):
            return (self.a if rank == 0 else self.b)(x)
    model = wrap(make(device, Branches), device, find_unused_parameters=True)
    return train(model, device)
""",
        setup=SETUP,
    )


@pytest.mark.slow
def test_gradients_accumulate_without_communication_in_no_sync(ranks):
    compare(
        ranks,
        """
def program(device):
    model = wrap(make(device), device)
    optimizer, losses = adam(model), []
    for step in range(20):
        x, y = batch(step, device)
        with model.no_sync() if step % 2 == 0 else open(os.devnull):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses
""",
        setup=SETUP,
    )


@pytest.mark.slow
def test_ranks_with_fewer_batches_join(ranks):
    told = compare(
        ranks,
        """
def program(device):
    model = wrap(make(device), device)
    with model.join():
        losses = train(model, device, steps=5 + 3 * rank)
    return losses + [p.double().sum().item() for p in model.parameters()]
""",
        setup=SETUP,
    )
    assert told[0][5:] == told[1][8:]  # the same parameters


HOOKS = {
    "allreduce": "default_hooks.allreduce_hook, None",
    "fp16": "default_hooks.fp16_compress_hook, None",
    # By another name: DDP has bf16_compress_hook for CUDA and XPU only.
    "bf16": "(lambda s, bucket: default_hooks.bf16_compress_hook(s, bucket)), None",
    "powersgd": "powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, 1, 4)",
    "own": "own, None",
}


@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS)
def test_communication_hooks_get_and_give_futures(ranks, hook):
    program = """
def program(device):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    def own(state, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / size)
    torch.manual_seed(0)
    model = wrap(make(device), device)
    hook, state = reversed((HOOK))
    model.register_comm_hook(hook, state)
    return train(model, device)
"""
    compare(ranks, program.replace("HOOK", HOOKS[hook]), setup=SETUP)


@pytest.mark.slow
def test_buffers_of_batch_norm_are_those_of_rank_0(ranks):
    told = compare(
        ranks,
        """
def program(device):
    class Norm(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    model = wrap(make(device, Norm), device)
    losses = train(model, device)
    model(batch(20, device)[0])  # begins with rank 0's buffers
    dist.broadcast(mean := model.module[1].running_mean.clone(), 0)
    return losses + mean.tolist()
""",
        within=1e-6,
        setup=SETUP,
    )
    assert told[0][20:] == told[1][20:]


@pytest.mark.slow
def test_activations_are_computed_again_in_backward(ranks):
    compare(
        ranks,
        """
def program(device):
    from torch.utils.checkpoint import checkpoint
    class Checkpointed(Net):
        def forward(self, x):
            for layer in self.layers:
                x = x + checkpoint(layer, x, use_reentrant=False)
            return self.head(x)
    return train(wrap(make(device, Checkpointed), device), device)
""",
        setup=SETUP,
    )


@pytest.mark.slow
def test_mixed_precision_with_a_scaler(ranks):
    compare(
        ranks,
        """
def program(device):
    model = wrap(make(device), device)
    optimizer, losses = adam(model), []
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0)
    for step in range(20):
        x, y = batch(step, device)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
""",
        within=2e-2,
        setup=SETUP,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "ours, theirs, within",
    [("openreg", "eager", 1e-5), ("inductor", "inductor", 0.0)],
    ids=["openreg", "inductor"],
)
def test_a_compiled_model_trains_as_on_the_cpu(ranks, ours, theirs, within):
    program = f"""
def program(device):
    backend = "{ours}" if device.type == "openreg" else "{theirs}"
    torch._dynamo.reset()
    model = wrap(make(device), device)
    return train(torch.compile(model, backend=backend), device)
"""
    compare(ranks, program, setup=SETUP, within=within, patience=280, timeout=300)


UNNAMED = """
import torch
from torch import distributed as dist
dist.init_process_group(init_method="file://{file}", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).openreg())
model(torch.ones(1, 2, device="openreg")).sum().backward()
backend = dist.new_group()._get_backend(torch.device("openreg"))
print(model.module.weight.grad.tolist(), backend.name())
"""


def test_a_group_without_a_name_has_the_devices_backend(run_python, tmp_path):
    """c10d says that its default backend is gloo, which it has not."""
    told = run_python(UNNAMED.format(file=tmp_path / "store"))
    assert told == "[[1.0, 1.0], [1.0, 1.0]] occl"
