"""The scaler of gradients: the CPU's numbers, and nothing waits but `step`."""

import pickle

import pytest
import torch
from torch import nn

DEVICES = ["openreg:0", "openreg:1"]
INF, NAN = float("inf"), float("nan")


def scaler_for(device="openreg", **options):
    return torch.amp.GradScaler(device, **{"init_scale": 4.0, **options})


def weight_on(device="openreg", numbers=(1.0, 2.0)):
    return nn.Parameter(torch.tensor(numbers, device=device))


def train(device, make, gradients, **options):
    """After each step with one of the gradients: the scale, how many steps it has
    stood, and the weights."""
    weights = [weight_on(device), weight_on(device, [[3.0]])]
    optimizer, scaler = make(weights), scaler_for(device, **options)
    history = []
    for gradient in gradients:
        optimizer.zero_grad()
        loss = sum((weight * gradient).sum() for weight in weights)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        history.append(
            (
                scaler.get_scale(),
                scaler._get_growth_tracker(),
                [weight.tolist() for weight in weights],
            )
        )
    return history


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adam foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "adam fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adagrad fused": lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_scales_and_weights_are_those_of_the_cpu(make):
    gradients = [1.0, 2.0, INF, 0.5, NAN, NAN, 1.0, 1.0, 1.0, 3.0e38]
    options = {"growth_interval": 2, "growth_factor": 3.0, "backoff_factor": 0.25}
    found = train("openreg", make, gradients, **options)
    assert found == train("cpu", make, gradients, **options)
    scales = [scale for scale, *_ in found]
    assert scales == [4, 12, 3, 3, 0.75, 0.1875, 0.1875, 0.5625, 0.5625, 1.6875]


def test_a_step_with_an_infinite_gradient_is_left_out():
    (first, second) = train("openreg", OPTIMIZERS["adam fused"], [1.0, INF])
    assert second[0] == first[0] / 2
    assert second[2] == first[2]


def test_gradients_are_unscaled_in_place_and_may_be_clipped():
    weight = weight_on()
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), scaler_for()
    scaler.scale((weight * 6).sum()).backward()
    assert weight.grad.tolist() == [24, 24]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [6, 6]
    nn.utils.clip_grad_value_([weight], 0.5)
    scaler.step(optimizer)
    assert weight.tolist() == [0.5, 1.5]


def test_gradients_of_sparse_tensors_are_unscaled():
    table = nn.Embedding(4, 2, sparse=True).to("openreg")
    optimizer, scaler = torch.optim.SGD(table.parameters(), lr=1.0), scaler_for()
    before = table.weight.tolist()
    rows = torch.tensor([1, 1], device="openreg")
    scaler.scale(table(rows).sum()).backward()
    scaler.step(optimizer)
    expected = [[x - 2 if row == 1 else x for x in r] for row, r in enumerate(before)]
    torch.testing.assert_close(table.weight.tolist(), expected)


@pytest.mark.parametrize("bad", [None, *DEVICES])
def test_an_infinite_gradient_on_one_device_keeps_all_from_stepping(bad):
    weights = [weight_on(device) for device in DEVICES]
    optimizer, scaler = torch.optim.SGD(weights, lr=1.0), scaler_for()
    losses = [
        (weight * (INF if device == bad else 1.0)).sum()
        for weight, device in zip(weights, DEVICES, strict=True)
    ]
    for loss in scaler.scale(losses):
        loss.backward()
    scaler.step(optimizer)
    scaler.update()
    expected = [0, 1] if bad is None else [1, 2]
    assert [weight.tolist() for weight in weights] == [expected, expected]
    assert scaler.get_scale() == (4 if bad is None else 2)


def test_optimizers_on_two_devices_step_apart_and_share_the_scale():
    weights = [weight_on(device) for device in DEVICES]
    optimizers = [torch.optim.SGD([weight], lr=1.0) for weight in weights]
    scaler = scaler_for()
    scaler.scale((weights[0] * INF).sum()).backward()
    scaler.scale(weights[1].sum()).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    assert [weight.tolist() for weight in weights] == [[1, 2], [0, 1]]
    assert scaler.get_scale() == 2


def test_a_state_is_saved_and_loaded():
    scaler = scaler_for(growth_interval=5)
    scaler.scale(torch.ones((), device="openreg"))
    scaler.update(32.0)
    for copy in (scaler_for(), pickle.loads(pickle.dumps(scaler))):
        copy.load_state_dict(scaler.state_dict())
        assert copy.state_dict() == scaler.state_dict()
        assert copy.scale(torch.ones((), device="openreg")).tolist() == 32


def test_a_disabled_scaler_does_nothing():
    weight = weight_on()
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), scaler_for(enabled=False)
    loss = weight.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert (weight.tolist(), scaler.get_scale()) == ([0, 1], 1)


# --- order --------------------------------------------------------------------


def prepared(make, size=100_000):
    """A weight with a gradient, and scaler and optimizer that ran before: the first
    call of a kind waits."""
    weight = nn.Parameter(torch.ones(size, device="openreg"))
    optimizer, scaler = make([weight]), scaler_for()
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale((weight * weight.detach()).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    scaler.scale((weight * weight.detach()).sum()).backward()
    torch.openreg.synchronize()
    return weight, optimizer, scaler


def test_unscaling_and_updating_wait_for_nothing(hold):
    weight, optimizer, scaler = prepared(OPTIMIZERS["sgd"])
    scaler.unscale_(optimizer)  # once, for its own operators
    scaler.update()
    weight.grad.fill_(INF)
    gate = hold(torch.openreg.current_stream())
    scaler.unscale_(optimizer)
    scaler.update()
    assert not torch.openreg.current_stream().query()
    gate.open()
    assert scaler.get_scale() == 2


def test_a_fused_step_waits_for_nothing(hold):
    weight, optimizer, scaler = prepared(OPTIMIZERS["adamw fused"])
    before = weight[0].item()
    optimizer.param_groups[0]["lr"] *= 0.5  # no new kind of call
    gate = hold(torch.openreg.current_stream())
    scaler.step(optimizer)
    scaler.update()
    assert not torch.openreg.current_stream().query()
    gate.open()
    assert weight[0].item() < before


# --- misuse -------------------------------------------------------------------


def test_calls_out_of_order_are_refused():
    weight = weight_on()
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), scaler_for()
    with pytest.raises(AssertionError, match="scaler.scale"):
        scaler.update()
    with pytest.raises(AssertionError, match="scaler.scale"):
        scaler.step(optimizer)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    assert weight.tolist() == [0, 1]


def test_half_gradients_are_refused():
    weight = nn.Parameter(torch.ones(2, device="openreg", dtype=torch.float16))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), scaler_for()
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="FP16"):
        scaler.step(optimizer)


@pytest.mark.parametrize("place", [1, 2])
def test_the_check_of_gradients_takes_scalars_only(place):
    arguments = [
        [torch.ones(3, device="openreg")],
        torch.zeros((), device="openreg"),
        torch.ones((), device="openreg"),
    ]
    arguments[place] = torch.ones(2, device="openreg")
    with pytest.raises(RuntimeError, match="must be a 1-element tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_(*arguments)
