"""Which operators autocast treats, and how: as it does for CUDA.

A tensor that only pretends to be on a GPU still goes through the autocast that
PyTorch has for CUDA, so the types it comes out with can be compared on any machine.
"""

import contextlib
import functools
import itertools
import re
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

# The names say whose they are, and PyTorch's lists for other devices omit them.
CUDA_ONLY = {"cudnn_convolution", "cudnn_convolution_transpose"}
# Listed for all devices, but the kernel is CUDA's own.
CUDA_KERNELS = {
    "_scaled_dot_product_flash_attention",
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
}
# What a layer of an LSTM is, in place of the operator that CUDA has for it.
LAYER = {"mkldnn_rnn_layer"}
# Nothing to compare with: PyTorch has no meta function for CUDA's cell, and the
# other asks the GPU's library whether it has a kernel.
CANNOT_PRETEND = {"grid_sampler", "gru_cell"}


def listed(key):
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = torch._C._dispatch_get_all_op_names()
    return {name.removeprefix("aten::") for name in names if has_kernel(name, key)}


@functools.cache
def policies():
    """{operator: policy}, as PyTorch's header lists them."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text().replace("\\\n", " ")
    found = {}
    for line in re.findall(r"^#define AT_FORALL_(\w+\(_\) .*)", text, re.MULTILINE):
        policy, _, entries = line.partition("(_)")
        for entry in re.findall(r'_\((\w+(?:, \w+)?)\)|"([\w.]+)"', entries):
            found["".join(entry).replace(", ", ".")] = policy
    return found


# --- a call of each -----------------------------------------------------------


def x(*shape):
    """Numbers that are in the domain of every operator here."""
    return torch.rand(shape, generator=NUMBERS) * 0.8 + 0.1


NUMBERS = torch.Generator().manual_seed(0)
V, M, B = x(4), x(4, 4), x(4, 4, 4)
ONES, ZEROS = torch.ones(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
GRID = torch.zeros(2, 2, 2, dtype=torch.int64)
IMAGE, KERNEL, BIAS = x(2, 3, 5, 5), x(4, 3, 3, 3), x(4)
LINE, VOLUME = x(2, 3, 5), x(2, 3, 4, 4, 4)
HEADS = x(2, 2, 4, 8)
PLAIN_CONV = [1, 1], [0, 0], [1, 1], False, [0, 0], 1


def cell(gates, *hidden):
    return (
        V[None],
        *hidden,
        x(4 * gates, 4),
        x(4 * gates, 4),
        x(4 * gates),
        x(4 * gates),
    )


# In the order of the header.
CALLS = {
    "_convolution.deprecated": (IMAGE, KERNEL, BIAS, *PLAIN_CONV, *[False] * 3),
    "_convolution": (IMAGE, KERNEL, BIAS, *PLAIN_CONV, *[False] * 4),
    "conv1d": (LINE, x(4, 3, 3)),
    "conv2d": (IMAGE, KERNEL, BIAS),
    "conv3d": (VOLUME, x(4, 3, 3, 3, 3)),
    "conv_tbc": (x(5, 2, 3), x(3, 3, 4), BIAS),
    "conv_transpose1d": (LINE, x(3, 4, 3)),
    "conv_transpose2d.input": (IMAGE, x(3, 4, 3, 3)),
    "conv_transpose3d.input": (VOLUME, x(3, 4, 3, 3, 3)),
    "convolution": (IMAGE, KERNEL, BIAS, *PLAIN_CONV),
    "prelu": (V, x(1)),
    "addmm": (M, M, M),
    "addmv": (V, M, V),
    "addr": (M, V, V),
    "matmul": (M, V),
    "einsum": ("ij,jk->ik", [M, M]),
    "mm": (M, M),
    "mv": (M, V),
    "linalg_vecdot": (M, M),
    "linear": (M, M, V),
    "addbmm": (M, B, B),
    "baddbmm": (B, B, B),
    "bmm": (B, B),
    "chain_matmul": ([M, M, M],),
    "linalg_multi_dot": ([M, M, M],),
    "_thnn_fused_lstm_cell": (x(4, 16), x(4, 16), M, x(16), x(16)),
    "_thnn_fused_gru_cell": (x(4, 12), x(4, 12), M, x(12), x(12)),
    "lstm_cell": cell(4, [V[None], V[None]]),
    "gru_cell": cell(3, V[None]),
    "rnn_tanh_cell": cell(1, V[None]),
    "rnn_relu_cell": cell(1, V[None]),
    "_scaled_dot_product_flash_attention": (HEADS, HEADS, HEADS),
    "scaled_dot_product_attention": (HEADS, HEADS, HEADS),
    **{
        name: (V,)
        for name in "acos asin cosh erfinv exp expm1 log log10 log2 log1p "
        "reciprocal rsqrt sinh tan".split()
    },
    "pow.Tensor_Scalar": (V, 1.5),
    "pow.Tensor_Tensor": (V, V),
    "pow.Scalar": (1.5, V),
    "softplus": (V,),
    "layer_norm": (M, [4], V, V),
    "native_layer_norm": (M, [4], V, V, 1e-5),
    "rms_norm": (M, [4], V),
    "group_norm": (M, 2, V, V),
    "frobenius_norm.dim": (M, [1]),
    "nuclear_norm": (M,),
    "nuclear_norm.dim": (M, [0, 1]),
    "cosine_similarity": (M, M),
    "poisson_nll_loss": (V, V, True, False, 1e-8, 1),
    "cosine_embedding_loss": (M, M, ONES),
    "nll_loss": (M, ZEROS),
    "nll_loss2d": (x(1, 2, 4, 4), torch.zeros(1, 4, 4, dtype=torch.int64)),
    "hinge_embedding_loss": (V, ONES),
    "kl_div": (V, V),
    "l1_loss": (V, V),
    "smooth_l1_loss": (V, V),
    "huber_loss": (V, V),
    "mse_loss": (V, V),
    "margin_ranking_loss": (V, V, V),
    "multilabel_margin_loss": (V, ZEROS),
    "soft_margin_loss": (V, V),
    "triplet_margin_loss": (M, M, M),
    "multi_margin_loss": (M, ZEROS),
    "binary_cross_entropy_with_logits": (V, V),
    "dist": (V, V),
    "pdist": (M,),
    "cdist": (M, M),
    "renorm": (M, 2, 0, 0.5),
    "logsumexp": (M, [1]),
    "upsample_nearest1d": (LINE, [8]),
    "_upsample_nearest_exact1d": (LINE, [8]),
    "upsample_nearest2d": (IMAGE, [8, 8]),
    "_upsample_nearest_exact2d": (IMAGE, [8, 8]),
    "upsample_nearest3d": (VOLUME, [8, 8, 8]),
    "_upsample_nearest_exact3d": (VOLUME, [8, 8, 8]),
    "upsample_linear1d": (LINE, [8], False),
    "upsample_bilinear2d": (IMAGE, [8, 8], False),
    "_upsample_bilinear2d_aa": (IMAGE, [3, 3], False),
    "upsample_trilinear3d": (VOLUME, [8, 8, 8], False),
    "upsample_bicubic2d": (IMAGE, [8, 8], False),
    "_upsample_bicubic2d_aa": (IMAGE, [3, 3], False),
    "prod": (V,),
    "prod.dim_int": (M, 1),
    "softmax.int": (M, 1),
    "log_softmax.int": (M, 1),
    "cumprod": (M, 1),
    "cumsum": (M, 1),
    "linalg_vector_norm": (V,),
    "linalg_matrix_norm": (M, 1),
    "linalg_matrix_norm.str_ord": (M,),
    "sum": (V,),
    "sum.dim_IntList": (M, [1]),
    "norm.Scalar": (V,),
    "norm.ScalarOpt_dim": (M, 2, [1]),
    "addcdiv": (V, V, V),
    "addcmul": (V, V, V),
    "atan2": (V, V),
    "bilinear": (x(2, 3), x(2, 4), x(5, 3, 4), x(5)),
    "cross": (x(2, 3), x(2, 3)),
    "dot": (V, V),
    "vdot": (V, V),
    "grid_sampler": (IMAGE, x(2, 4, 4, 2), 0, 0, False),
    "index_put": (V, [torch.tensor([1])], x(1)),
    "tensordot": (B, B, [0], [0]),
    "scatter_add": (x(2, 2, 2), 0, GRID, x(2, 2, 2)),
}


def call(name, arguments, **options):
    name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")(
        *arguments, **options
    )


def floats_to(arguments, *dtypes):
    """The arguments on the device, the floating point ones in these types by turns."""
    turns = itertools.cycle(dtypes)

    def to(tensor):
        dtype = next(turns) if tensor.is_floating_point() else tensor.dtype
        return tensor.to("openreg", dtype)

    return tree_map_only(torch.Tensor, to, arguments)


def pretended(arguments):
    return tree_map_only(
        torch.Tensor,
        lambda x: torch.empty(x.shape, dtype=x.dtype, device="cuda"),
        arguments,
    )


@contextlib.contextmanager
def autocast_of_cuda(dtype):
    """What `torch.autocast("cuda")` does where there is a GPU."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.clear_autocast_cache()


def types(result):
    return [leaf.dtype for leaf in tree_leaves(result) if torch.is_tensor(leaf)]


def by_hand(name, given, lower):
    """The call that autocast stands for, without it."""
    policy = policies()[name]
    if policy == "LOWER_PRECISION_FP":
        return call(name, floats_to(given, lower))
    if policy == "FP32":
        return call(name, floats_to(given, torch.float32))
    if policy == "PROMOTE":
        widest = torch.float32 if torch.float32 in types(given) else lower
        return call(name, floats_to(given, widest))
    if policy == "DIFFERENT_REDISPATCH_SIGNATURE":
        return torch.norm(*given, dtype=torch.float32)
    return call(name, given, dtype=torch.float32)


# --- the tests ----------------------------------------------------------------


def test_the_operators_are_those_of_cuda():
    assert listed("AutocastPrivateUse1") == listed("AutocastCUDA") - CUDA_ONLY | LAYER


def test_every_operator_is_tried_below():
    assert set(policies()) == set(CALLS)
    others = {"binary_cross_entropy"} | LAYER
    assert listed("AutocastPrivateUse1") == set(CALLS) | others


@pytest.mark.parametrize("lower", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(CALLS.keys() - CUDA_KERNELS))
def test_the_types_are_those_of_cuda_and_the_numbers_those_of_casts(name, lower):
    for dtypes in [(torch.float32,), (lower,), (torch.float32, lower)]:
        given = floats_to(CALLS[name], *dtypes)
        with torch.autocast("openreg", dtype=lower):
            here = call(name, given)
        if name not in CANNOT_PRETEND:
            with FakeTensorMode(), autocast_of_cuda(lower):
                on_cuda = call(name, pretended(given))
            assert types(here) == types(on_cuda)
        torch.testing.assert_close(here, by_hand(name, given, lower), rtol=0, atol=0)


@pytest.mark.parametrize("name", sorted(CUDA_KERNELS))
def test_what_only_cuda_has_a_kernel_for_gets_past_autocast(name):
    with torch.autocast("openreg"), pytest.raises(NotImplementedError, match=name):
        call(name, floats_to(CALLS[name], torch.float32))


def test_binary_cross_entropy_is_refused_as_on_cuda():
    rates = torch.rand(4, device="openreg")
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    operator = torch.ops.aten.binary_cross_entropy.default
    with pytest.raises(RuntimeError, match="unsafe to autocast") as on_cuda:
        operator.redispatch(key, rates, rates)
    with torch.autocast("openreg"), pytest.raises(RuntimeError) as here:
        torch.nn.functional.binary_cross_entropy(rates, rates)
    assert str(here.value) == str(on_cuda.value)
    torch.nn.functional.binary_cross_entropy(rates, rates)  # welcome outside
