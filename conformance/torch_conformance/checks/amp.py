"""Level 9: mixed precision."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..check import check
from ..expect import expect, expect_equal

PAGE = "amp.md"
NEEDS = ("autocast",)


def low(device):
    """The dtype that autocast is asked for."""
    found = device.module.get_amp_supported_dtype()
    return torch.bfloat16 if torch.bfloat16 in found else found[0]


@check(
    call="torch.NAME.get_amp_supported_dtype()",
    write="`get_amp_supported_dtype` of the device module: a list of dtypes.",
    page=PAGE,
    needs=NEEDS,
)
def names_its_dtypes(device):
    """The module names the dtypes of autocast, and torch.amp agrees."""
    found = device.module.get_amp_supported_dtype()
    expect(found and all(d.itemsize == 2 for d in found), f"the dtypes are {found}")
    available = torch.amp.is_autocast_available(device.name)
    expect_equal(available, True, "is_autocast_available()")


@check(
    call="with torch.autocast(NAME): x @ y",
    write="Lists of operators for the key AutocastPrivateUse1: in low precision, in"
    " float32, to the widest dtype.",
    page=PAGE,
    needs=NEEDS,
)
def products_are_of_low_precision(device):
    """Products are computed in low precision, and only inside."""
    (a, x), dtype = device.pair(8, 8), low(device)
    with torch.autocast(device.name, dtype=dtype):
        found = x @ x
        expect_equal(found.dtype, dtype, "the dtype of a product")
        linear = nn.functional.linear(x, x)
        expect_equal(linear.dtype, dtype, "the dtype of linear()")
        with torch.autocast(device.name, enabled=False):
            expect_equal((x @ x).dtype, torch.float32, "the dtype when switched off")
    expect_equal((x @ x).dtype, torch.float32, "the dtype afterwards")
    device.expect_close(found, (a.to(dtype) @ a.to(dtype)), "the product", scale=4)


@check(
    call="with torch.autocast(NAME): x.softmax(0)",
    write="The list of operators that run in float32, as softmax and sums do.",
    page=PAGE,
    needs=NEEDS,
)
def sums_are_of_high_precision(device):
    """What needs range or precision is computed in float32."""
    _, x = device.pair(8, 8)
    dtype = low(device)
    with torch.autocast(device.name, dtype=dtype):
        for name, function in {
            "softmax": lambda t: t.softmax(0),
            "exp": lambda t: t.exp(),
            "layer_norm": lambda t: nn.functional.layer_norm(t, (8,)),
            "mse_loss": lambda t: nn.functional.mse_loss(t, t),
        }.items():
            found = function(x.to(dtype)).dtype
            expect_equal(found, torch.float32, f"the dtype of {name}")


@check(
    call="torch.get_autocast_dtype(NAME), torch.is_autocast_enabled(NAME)",
    write="Nothing: PyTorch keeps them for each device type.",
    page=PAGE,
    needs=NEEDS,
)
def the_state_is_the_devices(device):
    """Autocast of the device does not switch that of the CPU on."""
    with torch.autocast(device.name, dtype=low(device)):
        expect_equal(torch.is_autocast_enabled(device.name), True, "on the device")
        expect_equal(torch.is_autocast_enabled("cpu"), False, "on the CPU")
        expect_equal(torch.get_autocast_dtype(device.name), low(device), "the dtype")


@check(
    call="torch.amp.custom_fwd(device_type=NAME)",
    write="Nothing beyond `get_amp_supported_dtype`.",
    page=PAGE,
    needs=NEEDS,
)
def own_functions_are_cast(device):
    """custom_fwd casts the inputs of a function of one's own."""

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=device.name, cast_inputs=torch.float32)
        def forward(ctx, x):
            expect_equal(x.dtype, torch.float32, "the dtype of the input")
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type=device.name)
        def backward(ctx, grad):
            return grad * 2

    _, x = device.pair(4, dtype=low(device))
    x.requires_grad_()
    with torch.autocast(device.name, dtype=low(device)):
        Double.apply(x).sum().backward()
    expect_equal(x.grad.dtype, low(device), "the dtype of the gradient")


@check(
    call="torch.amp.GradScaler(NAME)",
    write="`_amp_foreach_non_finite_check_and_unscale_` and `_amp_update_scale_`.",
    page=PAGE,
    needs=NEEDS,
)
def scales_gradients(device):
    """The scaler unscales gradients, and leaves a step out when one is infinite."""
    weight = torch.ones(3, device=device.at(), requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device.name, init_scale=8.0, growth_interval=100)
    scaler.scale((weight * 0.5).sum()).backward()
    device.expect_close(weight.grad, torch.full((3,), 4.0), "the scaled gradient")
    scaler.step(optimizer)
    scaler.update()
    device.expect_close(weight.detach(), torch.full((3,), 0.5), "the weight")
    weight.grad = torch.full_like(weight, float("inf"))
    scaler.scale((weight * 0).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    device.expect_close(weight.detach(), torch.full((3,), 0.5), "the weight, untouched")
    expect_equal(scaler.get_scale(), 4.0, "the scale after an infinite gradient")


@check(
    call="torch.utils.checkpoint.checkpoint(f, x)",
    write="`get_amp_supported_dtype`, `get_rng_state`, `set_rng_state` and `device` of"
    " the device module: checkpointing restores autocast and random numbers with them.",
    page=PAGE,
    needs=NEEDS,
)
def checkpoints_run_again(device):
    """A checkpointed function is run again with the same random numbers."""
    _, x = device.pair(256)
    x.requires_grad_()

    def function(t):
        return nn.functional.dropout(t * 3, 0.5)

    torch.manual_seed(3)
    out = checkpoint(function, x, use_reentrant=False)
    out.sum().backward()
    expected = (out != 0).float() * 6
    device.expect_close(x.grad, expected.cpu(), "the gradient", scale=10)
