"""DTensor, tensor, sequence, context and pipeline parallelism as on the CPU with Gloo."""

import pytest
from rank_training import compare

TENSORS = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import (DTensor, Partial, Replicate, Shard,
    distribute_module, distribute_tensor)
import torch.distributed.tensor as dt

def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
"""


@pytest.mark.slow
def test_placements_change_and_operators_follow_them(ranks):
    compare(
        ranks,
        """
def program(device):
    mesh = init_device_mesh(device.type, (size,))
    x = distribute_tensor(numbers(6, 5).to(device), mesh, [Shard(0)])
    w = distribute_tensor(numbers(5, 7, seed=1).to(device), mesh, [Shard(1)])
    told = []
    for placement in (Replicate(), Shard(0), Shard(1)):
        x = x.redistribute(mesh, [placement])
        told += x.to_local().sum().reshape(1).tolist()
    for result in (x @ w, (x @ w).softmax(1), x.sum(0), x.t() + 1, x.max(), x.var(0)):
        told += result.full_tensor().flatten().tolist()
    partial = DTensor.from_local(numbers(4).to(device) * rank, mesh, [Partial()])
    told += partial.redistribute(mesh, [Shard(0)]).to_local().tolist()
    uneven = distribute_tensor(numbers(5, 3).to(device), mesh, [Shard(0)])
    told += uneven.redistribute(mesh, [Shard(1)]).full_tensor().flatten().tolist()
    return told
""",
        setup=TENSORS,
        within=1e-6,
    )


@pytest.mark.slow
def test_gradients_of_a_distributed_module_have_its_placements(ranks):
    compare(
        ranks,
        """
def program(device):
    mesh = init_device_mesh(device.type, (size,))
    model = make(device)
    def place(name, module, mesh):
        for key, parameter in module.named_parameters(recurse=False):
            shares = [Shard(0)] if parameter.dim() == 2 else [Replicate()]
            module.register_parameter(key, nn.Parameter(distribute_tensor(parameter.data, mesh, shares)))
    model = distribute_module(model, mesh, place,
        input_fn=lambda module, inputs, mesh: (DTensor.from_local(inputs[0], mesh, [Replicate()]),),
        output_fn=lambda module, output, mesh: output.full_tensor())
    losses = train(model, device, by=0)
    assert model.head.weight.grad is None and model.head.weight.placements == (Shard(0),)
    return losses
""",
        setup=TENSORS,
        within=1e-5,
    )


TENSOR_PARALLEL = (
    TENSORS
    + """
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
    RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)
"""
)

PLANS = {
    "tensor": """
    for layer in model.layers:
        parallelize_module(layer, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
""",
    "sequence": """
    for layer in model.layers:
        parallelize_module(layer, mesh, {
            "0": SequenceParallel(sequence_dim=0),
            "1": ColwiseParallel(input_layouts=Shard(0)),
            "3": RowwiseParallel(output_layouts=Shard(0)),
        })
    for layer in model.layers:
        layer.register_forward_hook(lambda module, inputs, output:
            DTensor.from_local(output, mesh, [Shard(0)]).full_tensor())
        layer.register_forward_pre_hook(lambda module, inputs:
            DTensor.from_local(inputs[0], mesh, [Replicate()]).redistribute(mesh, [Shard(0)]).to_local())
""",
}


@pytest.mark.parametrize(
    "plan", ["tensor", pytest.param("sequence", marks=pytest.mark.slow)]
)
def test_layers_shared_out_train_as_whole_ones(ranks, plan):
    program = """
def program(device):
    mesh = init_device_mesh(device.type, (size,))
    model = make(device)
PLAN
    whole = train(make(device), device, by=0)
    parts = train(model, device, by=0)
    assert torch.allclose(torch.tensor(whole), torch.tensor(parts), 1e-4, 1e-5), (whole, parts)
    return parts
"""
    told = compare(
        ranks,
        program.replace("PLAN", PLANS[plan]),
        setup=TENSOR_PARALLEL,
        within=1e-5,
    )
    assert told[0] == told[1]


@pytest.mark.slow
def test_a_loss_is_computed_from_shares_of_the_classes(ranks):
    compare(
        ranks,
        """
def program(device):
    mesh = init_device_mesh(device.type, (size,))
    model = make(device)
    parallelize_module(model, mesh, {"head": ColwiseParallel(use_local_output=False)})
    optimizer, losses = adam(model), []
    for step in range(20):
        x, y = batch(step, device, by=0)
        with loss_parallel():
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.full_tensor().item())
    return losses
""",
        setup=TENSOR_PARALLEL,
        within=1e-5,
    )


@pytest.mark.slow
def test_two_dimensions_of_four_ranks(ranks):
    compare(
        ranks,
        """
def program(device):
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(device.type, (2, 2), mesh_dim_names=("data", "tensor"))
    model = make(device)
    for layer in model.layers:
        parallelize_module(layer, mesh["tensor"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    return train(model, device, by=mesh["data"].get_local_rank())
""",
        size=4,
        setup=TENSOR_PARALLEL,
        within=1e-5,
    )


# --- pipelines --------------------------------------------------------------------

PIPELINE = """
def program(device):
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining import schedules
    whole = make(device)
    mine = [STAGES]
    class Part(nn.Module):
        def __init__(self, index):
            super().__init__()
            self.layer = whole.layers[index % 2] if index < 2 else nn.Identity()
            self.head = whole.head if index == COUNT - 1 else nn.Identity()
        def forward(self, x):
            return self.head(x + self.layer(x))
    stages = [PipelineStage(Part(i), i, COUNT, device) for i in mine]
    schedule = schedules.SCHEDULE(stages if COUNT > size else stages[0], 4, loss_fn=F.cross_entropy)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer, told = torch.optim.SGD(parameters, 0.1), []
    for step in range(20):
        x, y = batch(step, device, by=0)
        losses = []
        inputs = [x] if 0 in mine else []
        last = dict(target=y, losses=losses) if COUNT - 1 in mine else {}
        schedule.step(*inputs, **last)
        optimizer.step()
        optimizer.zero_grad()
        told += [loss.item() for loss in losses]
    return told + [p.double().sum().item() for p in parameters]
"""


@pytest.mark.parametrize(
    "schedule, count",
    [
        ("Schedule1F1B", 2),
        pytest.param("ScheduleGPipe", 2, marks=pytest.mark.slow),
        pytest.param("ScheduleInterleaved1F1B", 4, marks=pytest.mark.slow),
    ],
)
def test_a_pipeline_trains_as_on_the_cpu(ranks, schedule, count):
    program = PIPELINE.replace("SCHEDULE", schedule).replace("COUNT", str(count))
    stages = "rank" if count == 2 else "rank, rank + 2"
    compare(ranks, program.replace("STAGES", stages), within=1e-6)
