"""Level 6: autograd needs nothing of a backend but operators that are right."""

import torch

from ..check import check
from ..expect import expect_equal, expect_error, in_threads

PAGE = "autograd.md"
NOTHING = "Nothing: operators of level 5 that are right are enough."


def gradients(function, *inputs):
    """The gradients of the sum of what the function gives."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    function(*leaves).sum().backward()
    return [leaf.grad for leaf in leaves]


def expect_same_gradients(device, function, *shapes):
    """Fails unless the device's gradients are the CPU's."""
    pairs = [device.pair(*shape, seed=i) for i, shape in enumerate(shapes)]
    found = gradients(function, *(x for _, x in pairs))
    expected = gradients(function, *(host for host, _ in pairs))
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        device.expect_close(one, other, f"gradient {i}", scale=10)


@check(
    call="loss.backward()",
    write="`hasPrimaryContext()` of the hooks, which the engine asks for each device, and"
    " a guard that works on the engine's threads.",
    page=PAGE,
)
def runs_backward(device):
    """Gradients are the CPU's, on the device."""
    expect_same_gradients(
        device,
        lambda x, w, b: ((x @ w + b).relu() * 3 + x.sum()).mean(),
        (5, 4),
        (4, 3),
        (3,),
    )


@check(call="x[1:].t().expand(...)", write=NOTHING, page=PAGE)
def goes_through_views(device):
    """Gradients go through views, indexing and in-place changes."""

    def function(x):
        y = x * 2
        y[1:].mul_(3)
        return (
            y.t()[:, ::2].expand(2, 6, 2)
            * y.gather(0, torch.zeros_like(x).long()).sum()
        )

    expect_same_gradients(device, function, (4, 6))


@check(call="torch.autograd.grad(..., create_graph=True)", write=NOTHING, page=PAGE)
def differentiates_twice(device):
    """Gradients of gradients are the CPU's."""

    def function(x):
        (grad,) = torch.autograd.grad((x**3).sum().sin(), x, create_graph=True)
        return grad.square()

    expect_same_gradients(device, function, (5,))


@check(call="loss.backward() twice", write=NOTHING, page=PAGE)
def adds_gradients_up(device):
    """A second backward pass adds to the gradients, in place."""
    host, x = device.pair(4)
    x.requires_grad_()
    (x * 3).sum().backward()
    address = x.grad.data_ptr()
    (x * 3).sum().backward()
    device.expect_close(x.grad, torch.full((4,), 6.0), "the sum of two gradients")
    expect_equal(x.grad.data_ptr(), address, "the address of the gradient")


@check(call="torch.autograd.Function", write=NOTHING, page=PAGE)
def runs_own_functions(device):
    """Functions with a backward pass of their own work, hooks too."""

    class Halve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            device.expect_on_device(ctx.saved_tensors[0], "a saved tensor")
            return grad / 2

    _, x = device.pair(3)
    x.requires_grad_()
    seen = []
    x.register_hook(lambda grad: seen.append(grad.device.type))
    Halve.apply(x).sum().backward()
    device.expect_close(x.grad, torch.full((3,), 0.5), "the gradient")
    expect_equal(seen, [device.name], "the devices that the hook saw")


@check(call="with torch.no_grad(), torch.inference_mode()", write=NOTHING, page=PAGE)
def can_be_switched_off(device):
    """Without gradients nothing is recorded; inference tensors work."""
    _, x = device.pair(3)
    x.requires_grad_()
    with torch.no_grad():
        expect_equal((x * 2).requires_grad, False, "requires_grad under no_grad")
    with torch.inference_mode():
        y = x * 2
        expect_equal(y.is_inference(), True, "is_inference()")
    device.expect_close(y, x.detach().cpu() * 2, "an inference tensor")


@check(call="x.exp() changed in place, then backward()", write=NOTHING, page=PAGE)
def finds_saved_tensors_changed(device):
    """A saved tensor that was changed in place is found."""
    _, x = device.pair(3)
    y = x.requires_grad_().exp()
    y.mul_(2)
    expect_error(lambda: y.sum().backward(), "backward() after a change in place")


@check(
    call="loss.backward() on several threads",
    write="Locks where kernels share state; the current device per thread.",
    page=PAGE,
)
def runs_on_threads(device):
    """Threads run backward passes at the same time."""
    host, x = device.pair(20, 20)
    expected = gradients(lambda t: (t @ t).tanh(), host)[0]
    found = in_threads(lambda: gradients(lambda t: (t @ t).tanh(), x)[0], 4)
    for one in found:
        device.expect_close(one, expected, "a thread's gradient", scale=10)


@check(
    call="torch.autograd.gradcheck(f, x)",
    write="Look at the operator that gradcheck names.",
    page=PAGE,
    needs=("float64",),
)
def agrees_with_differences(device):
    """Gradients agree with differences, in double precision."""
    _, x = device.pair(3, 3, dtype=torch.float64)
    x.requires_grad_()
    function = lambda t: (t @ t.t()).softmax(0).log() * t.sigmoid()  # noqa: E731
    torch.autograd.gradcheck(function, x)


@check(call="torch.func.grad, torch.func.vmap", write=NOTHING, page=PAGE)
def transforms_functions(device):
    """vmap and func.grad work."""
    host, x = device.pair(4, 3)
    function = torch.func.vmap(torch.func.grad(lambda row: (row**2).sum().sin()))
    device.expect_close(function(x), function(host), "the gradients", scale=10)
