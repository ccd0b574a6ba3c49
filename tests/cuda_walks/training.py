"""Optimizers, mixed precision, tensor types and files on CUDA, as PyTorch documents them."""

import copy
import io
import warnings

import torch
from torch.nn import functional as F
from walk import CHECKS, check, raised, report

cuda = torch.cuda


# --- optimizers ---------------------------------------------------------------


def trained(make, steps=4):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh()).cuda()
    optimizer = make(model.parameters())
    x = torch.randn(7, 6, device="cuda")
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def agree(kind, **others):
    plain = trained(lambda p: kind(p, lr=0.05, foreach=False))
    other = trained(lambda p: kind(p, lr=0.05, **others))
    return all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(plain, other, strict=True)
    )


OPTIMIZERS = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"]
OPTIMIZERS += ["ASGD", "RMSprop", "Rprop", "SGD"]
for name in OPTIMIZERS:
    kind = getattr(torch.optim, name)
    CHECKS[f"{name}_with_foreach"] = lambda kind=kind: agree(kind, foreach=True)
for name in ("Adam", "AdamW", "SGD", "Adagrad"):
    kind = getattr(torch.optim, name)
    CHECKS[f"{name}_fused"] = lambda kind=kind: agree(kind, fused=True)
for name in OPTIMIZERS[:-1]:
    kind = getattr(torch.optim, name)
    CHECKS[f"{name}_capturable"] = lambda kind=kind: agree(kind, capturable=True)
del CHECKS["Adagrad_capturable"]


@check
def a_state_of_an_optimizer_moves_with_its_parameters():
    p = torch.nn.Parameter(torch.ones(3, device="cuda"))
    first = torch.optim.Adam([p], fused=True)
    p.grad = torch.ones_like(p)
    first.step()
    second = torch.optim.Adam([p])
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    state = second.state[p]
    return state["exp_avg"].is_cuda and state["step"].item() == 1


# --- mixed precision ----------------------------------------------------------


@check
def products_are_cast_and_sums_are_not():
    x = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda"):
        return (x @ x).dtype is torch.float16 and x.sum().dtype is torch.float32


@check
def autocast_takes_bfloat16():
    x = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inner = F.linear(x, x)
        with torch.autocast("cuda", enabled=False):
            outer = F.linear(x, x)
    return (inner.dtype, outer.dtype) == (torch.bfloat16, torch.float32)


@check
def functions_are_cast_as_they_ask():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        y = Double.apply(x)
    y.sum().backward()
    return y.dtype is torch.float32 and x.grad.tolist() == [2.0, 2.0]


@check
def an_infinite_gradient_skips_a_step():
    p = torch.nn.Parameter(torch.ones(2, device="cuda"))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = cuda.amp.GradScaler(init_scale=8.0)
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return p.tolist() == [1.0, 1.0] and scaler.get_scale() == 4.0


@check
def gradients_are_unscaled_before_they_are_clipped():
    p = torch.nn.Parameter(torch.ones(2, device="cuda"))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = cuda.amp.GradScaler(init_scale=128.0)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_([p], 1.0)
    twice = raised(RuntimeError, lambda: scaler.unscale_(optimizer))
    return bool(twice) and abs(norm.item() - 2**0.5) < 1e-6


# --- kinds of tensors ---------------------------------------------------------


@check
def types_are_converted():
    x = torch.randn(5)
    back = x.cuda().double().cpu().float()
    return (
        x.float().cuda().type() == "torch.cuda.FloatTensor"
        and x.type(cuda.HalfTensor).is_cuda
        and torch.equal(back, x)
        and isinstance(x.cuda(), cuda.FloatTensor)
    )


@check
def numbers_mix_with_the_host_only_as_scalars():
    x = torch.ones(2, device="cuda")
    zero_dim = (x + torch.tensor(2.0)).tolist()
    vector = raised(RuntimeError, lambda: x + torch.ones(2))
    product = raised(RuntimeError, lambda: x[None] @ torch.ones(2, 2))
    return zero_dim == [3.0, 3.0] and bool(vector and product)


@check
def indices_of_the_host_index_the_device():
    x = torch.arange(6.0, device="cuda").view(2, 3)
    mixed = raised(RuntimeError, lambda: torch.arange(3)[torch.tensor([0]).cuda()])
    return x[torch.tensor([1])].tolist() == [[3.0, 4.0, 5.0]] and bool(mixed)


@check
def half_sums_do_not_overflow_on_the_way():
    x = torch.zeros(10, device="cuda", dtype=torch.float16)
    ones = torch.ones(65504, device="cuda", dtype=torch.float16)
    large = torch.full((70000,), 0.5, device="cuda", dtype=torch.float16)
    return (
        x.sum().item() == 0
        and ones.sum().item() == 65504
        and ones.sum(dtype=torch.float32).item() == 65504
        and large.mean().item() == 0.5
    )


@check
def a_tiny_norm_is_not_zero():
    x = torch.full((25,), 4.0e-8, device="cuda").half()
    return x.norm().item() > 0 and x.norm(dtype=torch.float32).dtype is torch.float32


@check
def bincounts_and_uniques_are_the_cpus():
    x = torch.randint(0, 100, (10000,))
    there = x.cuda()
    return torch.equal(there.bincount().cpu(), x.bincount()) and torch.equal(
        there.unique(return_counts=True)[1].cpu(), x.unique(return_counts=True)[1]
    )


@check
def sparse_products_are_the_dense_ones():
    dense = torch.randn(5, 5).relu().cuda()
    x = torch.randn(5, 2, device="cuda")
    coo = torch.allclose(torch.sparse.mm(dense.to_sparse(), x), dense @ x, atol=1e-5)
    return coo and torch.allclose(dense.to_sparse_csr() @ x, dense @ x, atol=1e-5)


@check
def an_assertion_holds_or_fails_late():
    torch._assert_async(torch.tensor(1, device="cuda"))
    cuda.synchronize()
    return True


@check
def backwards_run_in_the_streams_of_their_forwards():
    side = cuda.Stream()
    x = torch.randn(3, device="cuda", requires_grad=True)
    side.wait_stream(cuda.current_stream())
    seen = []
    with cuda.stream(side):
        y = x * 2
        y.register_hook(lambda gradient: seen.append(cuda.current_stream()))
        y.sum().backward()
    cuda.current_stream().wait_stream(side)
    return x.grad.tolist() == [2.0] * 3 and seen == [side]


# --- switches -----------------------------------------------------------------


@check
def switches_of_products_are_kept():
    matmul = torch.backends.cuda.matmul
    names = "allow_tf32", "allow_fp16_reduced_precision_reduction"
    names += ("allow_bf16_reduced_precision_reduction",)
    kept = []
    for name in names:
        before = getattr(matmul, name)
        setattr(matmul, name, not before)
        kept.append(getattr(matmul, name) is not before)
        setattr(matmul, name, before)
    return all(kept) and bool(raised(AttributeError, lambda: matmul.no_such_switch))


@check
def precision_and_tf32_are_one_switch():
    before = torch.get_float32_matmul_precision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_float32_matmul_precision("high")
        on = torch.backends.cuda.matmul.allow_tf32
        torch.set_float32_matmul_precision("highest")
        off = torch.backends.cuda.matmul.allow_tf32
        torch.set_float32_matmul_precision(before)
    return on and not off


@check
def flags_of_cudnn_hold_for_a_while():
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    with cudnn.flags(benchmark=True, deterministic=True):
        inside = cudnn.benchmark, cudnn.deterministic
    return inside == (True, True) and (cudnn.benchmark, cudnn.deterministic) == before


# --- files --------------------------------------------------------------------


@check
def storages_are_shared_in_a_file():
    x = torch.arange(8.0, device="cuda")
    file = io.BytesIO()
    torch.save({"whole": x, "part": x[2:4], "host": x.cpu()}, file)
    file.seek(0)
    read = torch.load(file)
    read["whole"].zero_()
    devices = [read[name].device.type for name in ("whole", "part", "host")]
    return devices == ["cuda", "cuda", "cpu"] and read["part"].tolist() == [0.0, 0.0]


@check
def places_of_a_file_are_mapped():
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), file)
    places = "cpu", {"cuda:0": "cpu"}, lambda storage, place: storage, "meta"
    seen = []
    for place in places:
        file.seek(0)
        seen.append(torch.load(file, map_location=place).device.type)
    return seen == ["cpu", "cpu", "cpu", "meta"]


report(CHECKS, CHECKS)
