"""Every optimizer of PyTorch, in every form, gives the CPU's bits on the device."""

import copy
import inspect
import sys

import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler, swa_utils
from torch.optim.optimizer import (
    _default_to_fused_or_foreach,
    _get_capturable_supported_devices,
)
from torch.utils._foreach_utils import (
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
)
from twins import check, numbers

# --- all of them --------------------------------------------------------------

CLASSES = {
    name: value
    for name, value in vars(optim).items()
    if inspect.isclass(value) and value is not optim.Optimizer
}
FORMS = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "capturable": {"capturable": True, "foreach": False},
    "capturable foreach": {"capturable": True, "foreach": True},
    "capturable fused": {"capturable": True, "fused": True},
    "maximize": {"maximize": True, "foreach": True},
    "amsgrad": {"amsgrad": True, "foreach": True},
    "fused amsgrad": {"amsgrad": True, "fused": True},
    "weight decay": {"weight_decay": 0.1, "foreach": True},
    "nesterov": {"nesterov": True, "momentum": 0.9, "fused": True},
    "rate of the device": {
        "lr": torch.tensor(0.05),
        "capturable": True,
        "foreach": True,
    },
}
ALONE = {  # want something else
    "LBFGS": {"lr": 0.5, "line_search_fn": "strong_wolfe"},
    "Muon": {"lr": 0.05},
    "SparseAdam": {"lr": 0.05},
}


def cases():
    for name, optimizer in CLASSES.items():
        if name in ALONE:
            yield pytest.param(optimizer, ALONE[name], id=name)
            continue
        accepted = inspect.signature(optimizer).parameters
        for form, options in FORMS.items():
            if options.keys() <= accepted.keys():
                yield pytest.param(
                    optimizer, {"lr": 0.05, **options}, id=f"{name}-{form}"
                )


def make_model(optimizer):
    if optimizer is optim.SparseAdam:
        return nn.Embedding(5, 3, sparse=True)
    if optimizer is optim.Muon:  # for matrices
        return nn.Sequential(nn.Linear(5, 7, bias=False), nn.Linear(7, 3, bias=False))
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def train(optimizer, options, device, steps=4):
    """Some steps; the parameters and the state of the optimizer."""
    torch.manual_seed(0)
    model = make_model(optimizer).to(device)
    given = numbers(8, 5, device=device)
    if optimizer is optim.SparseAdam:
        given = torch.tensor([1, 3, 1], device=device)
    if isinstance(options["lr"], torch.Tensor):
        options = {**options, "lr": options["lr"].to(device)}
    made = optimizer(model.parameters(), **options)

    def closure():
        made.zero_grad()
        loss = model(given).square().mean()
        loss.backward()
        return loss

    losses = [made.step(closure) for _ in range(steps)]
    state = [
        value.to(device)  # a step counter may be on the host
        for kept in made.state.values()
        for value in kept.values()
        if isinstance(value, torch.Tensor)
    ]
    return losses, list(model.parameters()), state


@pytest.mark.parametrize("optimizer, options", cases())
def test_an_optimizer_gives_the_cpus_bits(optimizer, options, monkeypatch):
    # The CPU computes the capturable form too, but is not in the list of devices.
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.optim."):
            monkeypatch.setattr(
                module,
                "_get_capturable_supported_devices",
                lambda *args, **kwargs: ["cpu", "openreg"],
                raising=False,
            )
    check(lambda device: train(optimizer, options, device))


def test_no_optimizer_is_left_out():
    assert {case.values[0] for case in cases()} == set(CLASSES.values())
    assert set(ALONE) <= CLASSES.keys()


def test_pytorch_counts_the_device_among_those_with_all_forms():
    for supported in (
        _get_foreach_kernels_supported_devices(),
        _get_fused_kernels_supported_devices(),
        _get_capturable_supported_devices(),
    ):
        assert "openreg" in supported


def test_an_accelerator_has_foreach_optimizers_by_default():
    parameter = nn.Parameter(torch.ones(3, device="openreg"))
    fused, foreach = _default_to_fused_or_foreach(
        [parameter], differentiable=False, use_fused=False
    )
    assert (fused, foreach) == (False, True)


@pytest.mark.parametrize("form", ["capturable", "fused"])
def test_the_step_counter_of_these_forms_is_on_the_device(form):
    parameter = nn.Parameter(torch.ones(3, device="openreg:1"))
    adam = optim.Adam([parameter], **{form: True})
    parameter.grad = torch.ones_like(parameter)
    adam.step()
    assert adam.state[parameter]["step"].device == parameter.device


def test_parameters_of_two_devices_are_stepped_in_groups():
    def case(device):
        others = {"cpu": "cpu", "openreg:0": "openreg:1"}
        devices = (device, others[device])
        parameters = [nn.Parameter(numbers(3, device=d)) for d in devices]
        adam = optim.Adam(parameters, foreach=True, lr=0.1)
        for parameter in parameters:
            parameter.grad = parameter.detach().exp()
        adam.step()
        return [parameter.detach().to(device) for parameter in parameters]

    check(case)


def test_the_state_moves_with_load_state_dict():
    losses = {}
    for first, then in (("cpu", "cpu"), ("cpu", "openreg:0"), ("openreg:1", "cpu")):
        model, adam = nn.Linear(3, 2), None
        with torch.no_grad():
            model.weight.copy_(numbers(2, 3, device="cpu"))
            model.bias.zero_()
        state = None
        for device in (first, then):
            model = copy.deepcopy(model).to(device)
            adam = optim.AdamW(model.parameters(), lr=0.1, foreach=True)
            if state:
                adam.load_state_dict(state)
            for _ in range(3):
                adam.zero_grad()
                loss = model(numbers(4, 3, device=device)).square().sum()
                loss.backward()
                adam.step()
            state = adam.state_dict()
        losses[first, then] = loss.item()
    assert len(set(losses.values())) == 1


# --- around them --------------------------------------------------------------

SCHEDULERS = {
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.1),
    "linear": lr_scheduler.LinearLR,
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.5**step),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
}


@pytest.mark.parametrize("on_device", [False, True], ids=["number", "tensor"])
@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
@pytest.mark.filterwarnings("ignore")
def test_schedulers_change_the_rate(make, on_device):
    def case(device):
        rate = torch.tensor(0.1, device=device) if on_device else 0.1
        parameter = nn.Parameter(numbers(3, device=device))
        sgd = optim.SGD([parameter], lr=rate, momentum=0.9, foreach=True)
        scheduler = make(sgd)
        for _ in range(4):
            parameter.grad = parameter.detach().exp()
            sgd.step()
            if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                scheduler.step(parameter.sum())
            else:
                scheduler.step()
        assert isinstance(sgd.param_groups[0]["lr"], torch.Tensor) == on_device
        return parameter

    check(case)


def test_averaged_models_are_averaged_on_the_device():
    def case(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(device)
        averages = swa_utils.get_swa_multi_avg_fn(), swa_utils.get_ema_multi_avg_fn()
        mean, moving = (
            swa_utils.AveragedModel(model, device=device, multi_avg_fn=average)
            for average in averages
        )
        for _ in range(3):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(parameter.sin())
            mean.update_parameters(model)
            moving.update_parameters(model)
        swa_utils.update_bn([numbers(4, 3, device=device)], mean)
        return [*mean.parameters(), *moving.parameters(), *mean.module.buffers()]

    check(case)
