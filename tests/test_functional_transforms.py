"""torch.func and forward AD give the CPU's bits on the device."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad, functional
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn import functional as F
from twins import DEVICE, check, numbers

pytestmark = pytest.mark.filterwarnings("ignore")


def curve(x):
    return (x.sin() * x.exp()).sum()


def wave(x):
    return x.sin() * x.sum()


def ones(device):
    return torch.ones(4, 3, device=device)


def in_place(x):
    y = x.clone()
    y.add_(1)
    y[0].mul_(2)
    return y


def linear(device):
    torch.manual_seed(1)
    return nn.Linear(3, 2).to(device)


def gradients_of_samples(x):
    model = linear(x.device)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, sample):
        return functional_call(model, parameters, (sample,)).square().mean()

    return vmap(grad(loss), in_dims=(None, 0))(parameters, x)


def ensemble(x):
    models = [linear(x.device) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    skeleton = copy.deepcopy(models[0]).to("meta")

    def call(parameters, buffers):
        return functional_call(skeleton, (parameters, buffers), (x,))

    return vmap(call)(parameters, buffers)


def backward_of_linear_function(x):
    value, function = linearize(torch.sin, x)
    return value, function(torch.ones_like(x))


def backward(x):
    value, function = vjp(torch.sin, x)
    return function(torch.ones_like(value))


TRANSFORMS = {
    "grad": grad(curve),
    "grad and value": grad_and_value(curve),
    "grad of grad": grad(lambda x: grad(curve)(x).sum()),
    "jvp": lambda x: jvp(wave, (x,), (ones(x.device),)),
    # The tangent of the other vector is a zero without memory.
    "jvp of dot": lambda x: jvp(lambda v: v.dot(x[1]), (x[0],), (x[2],)),
    "vjp": backward,
    "jacrev": lambda x: jacrev(wave)(x[0]),
    "jacfwd": lambda x: jacfwd(wave)(x[0]),
    "hessian": lambda x: hessian(curve)(x[0]),
    "linearize": backward_of_linear_function,
    "functionalize": functionalize(in_place),
    "gradients of samples": gradients_of_samples,
    "ensemble": ensemble,
    "vmap": vmap(lambda x: x / x.norm()),
    "vmap of chunks": vmap(lambda x: x.cumsum(0), in_dims=1, chunk_size=2),
    "vmap in place": vmap(in_place),
    "vmap between devices": vmap(lambda x: x.cpu().sin().to(x.device)),
    "vmap of vmap": vmap(vmap(torch.sin, out_dims=0), in_dims=1),
    "batched gradients": lambda x: functional.jacobian(wave, x[0], vectorize=True),
    "functional": lambda x: [
        functional.jacobian(wave, x[0], vectorize=True, strategy="forward-mode"),
        functional.hessian(curve, x[0]),
        functional.vjp(torch.sin, x, ones(x.device)),
        functional.jvp(torch.sin, x, ones(x.device)),
    ],
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_transform_gives_the_cpus_bits(transform):
    check(lambda device: transform(numbers(4, 3, device=device)))


# --- random numbers under vmap ------------------------------------------------

DRAWS = {
    "rand": lambda x: x + torch.rand(3, device=x.device),
    "randn_like": torch.randn_like,
    "dropout": lambda x: F.dropout(x, 0.5),
    "in place": lambda x: torch.empty_like(x).bernoulli_(0.4),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("randomness", ["same", "different", "error"])
def test_vmap_draws_as_requested(draw, randomness):
    def case(device):
        return vmap(draw, randomness=randomness)(numbers(4, 3, device=device))

    if randomness == "error":
        with pytest.raises(RuntimeError, match="called random operation while in"):
            case(DEVICE)
    else:
        check(case)


# --- attention under vmap: the backend's operator has a rule of ours ----------


def attend(**options):
    return lambda *given: F.scaled_dot_product_attention(*given, **options)


SHAPE, BATCH = (2, 4, 5, 8), (3, 2, 4, 5, 8)
ATTENTION = {
    "all": (attend(), (0, 0, 0), [BATCH] * 3),
    "query": (attend(), (0, None, None), [BATCH, SHAPE, SHAPE]),
    "key and value": (
        attend(is_causal=True),
        (None, 2, 4),
        [SHAPE, (2, 4, 3, 5, 8), (2, 4, 5, 8, 3)],
    ),
    "twice": (vmap(attend(scale=0.3)), (0, 0, 0), [(2, *BATCH)] * 3),
    "grouped": (
        attend(enable_gqa=True),
        (0, 0, 0),
        [BATCH, (3, 2, 2, 5, 8), (3, 2, 2, 5, 8)],
    ),
    "gradient": (
        grad(lambda *given: attend()(*given).square().sum(), argnums=(0, 1, 2)),
        (0, 0, 0),
        [BATCH] * 3,
    ),
}
MASKS = {
    "all of it": ((5, 5), None),
    "each": ((3, 5, 5), 0),
    "its own batch": ((2, 1, 5, 5), None),
    "one for its own batch": ((3, 1, 4, 5, 5), 0),
    "heads": ((2, 4, 3, 5, 5), 2),
}
ATTENTION.update(
    (f"mask for {name}", (attend(), (0, 0, 0, dim), [BATCH] * 3 + [shape]))
    for name, (shape, dim) in MASKS.items()
)


@pytest.mark.parametrize("call, dims, shapes", ATTENTION.values(), ids=ATTENTION)
def test_attention_goes_through_vmap(call, dims, shapes):
    def case(device):
        given = [numbers(*shape, device=device) for shape in shapes]
        mapped = vmap(call, in_dims=dims)(*given)
        return mapped if isinstance(mapped, tuple) else mapped.contiguous()

    check(case)


def test_attention_under_vmap_is_one_call():
    q = numbers(*BATCH, device=DEVICE)
    with torch.profiler.profile() as profile:
        vmap(attend())(q, q, q)
    name = "aten::_scaled_dot_product_fused_attention_overrideable"
    calls = {event.key: event.count for event in profile.key_averages()}
    assert calls[name] == 2  # vmap's, and that of the rule


# --- forward AD ---------------------------------------------------------------

FORWARD = {
    "operators": lambda x: (x @ x.t()).tanh().softmax(-1),
    "in place": lambda x: x.clone().mul_(x).add_(1),
    "views": lambda x: x.t()[1:].flatten().cumsum(0),
    "module": lambda x: nn.LayerNorm(3, device=x.device)(x),
    "convolution": lambda x: F.conv1d(x[None], torch.ones(2, 4, 2, device=x.device)),
    "between devices": lambda x: x.cpu().sin().to(x.device),
}


@pytest.mark.parametrize("call", FORWARD.values(), ids=FORWARD)
def test_forward_ad_gives_the_cpus_bits(call):
    def case(device):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(numbers(4, 3, device=device), ones(device))
            return tuple(forward_ad.unpack_dual(call(dual)))

    check(case)


def test_gradients_agree_with_differences():
    x = numbers(3, device=DEVICE).double().requires_grad_()
    options = {"check_batched_grad": True, "check_forward_ad": True}
    assert torch.autograd.gradcheck(wave, (x,), **options)
    assert torch.autograd.gradgradcheck(wave, (x,))


def test_vmap_keeps_devices_apart():
    with pytest.raises(
        RuntimeError, match="on the same device, but found at least two"
    ):
        vmap(lambda x: x + torch.ones(3))(ones(DEVICE))
    with pytest.raises(RuntimeError, match=r"vmap: .*calling \.item\(\)"):
        vmap(lambda x: x.sum().item())(ones(DEVICE))
