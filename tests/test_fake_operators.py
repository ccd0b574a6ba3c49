"""Operators say what their results look like without data, so that they can be traced,
exported and compiled. PyTorch's op database is in conformance/test_meta.py; this is
about what it leaves out."""

import pytest
import torch
from torch import nn
from torch._decomp import decomposition_table, meta_table
from torch._library.simple_registry import singleton as fake_kernels
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_map_only
from twins import DEVICE, check, numbers

from torch_openreg import ops

pytestmark = pytest.mark.filterwarnings("ignore")

NO_DATA = "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd"

# Tracing never sees these: copy_() is traced in their place.
INSIDE = {"aten::_copy_from", "aten::_copy_from_and_resize"}
# Tracing answers for them from what it knows, or Dynamo replaces them.
ANSWERED = {"aten::is_set_to", "aten::record_stream"}
# PyTorch cannot trace them, on CUDA neither: nn.SyncBatchNorm calls them.
UNKNOWN = {
    "aten::batch_norm_backward_elemt",
    "aten::batch_norm_backward_reduce",
    "aten::batch_norm_elemt",
    "aten::batch_norm_elemt.out",
    "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::batch_norm_stats",
}


def is_traceable(name):
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if any(has(name, key) for key in NO_DATA):
        return True
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    op = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
    return (
        op in decomposition_table
        or op in meta_table
        or op in fake_impls.op_implementations_dict
        or fake_kernels.find(name).fake_impl.kernel is not None
    )


def test_every_operator_written_here_can_be_traced():
    names = {op.name for op in ops.operators(tiers=["by hand", "structured"])}
    assert len(names) > 500
    others = {name for name in names if not is_traceable(name)}
    assert others == INSIDE | ANSWERED | UNKNOWN


def outline(results):
    return [
        (x.shape, x.stride(), x.dtype, x.device) if isinstance(x, torch.Tensor) else x
        for x in tree_leaves(results)
    ]


def check_fake(function, *arguments):
    """What fake tensors tell of the results is what the results are."""
    with FakeTensorMode() as mode:
        fakes = tree_map_only(torch.Tensor, mode.from_tensor, arguments)
        told = outline(function(*fakes))
    assert told == outline(function(*arguments))


# --- operators of our own -------------------------------------------------------

OWN = {
    "openreg::custom_abs": (),
    "openreg::custom_autograd_fn_aliasing": (),
    "openreg::custom_autograd_fn_returns_self": (),
    "aten::openreg_scale": (2.0,),
}


def own(name):
    space, packet = name.split("::")
    return getattr(getattr(torch.ops, space), packet).default, OWN[name]


def test_no_operator_of_our_own_is_forgotten():
    names = torch._C._dispatch_get_all_op_names()
    ours = {n for n in names if n.startswith(("openreg::", "aten::openreg"))}
    assert ours == set(OWN)


@pytest.mark.parametrize("name", OWN)
def test_an_operator_of_our_own_is_traced_and_differentiated(name):
    op, others = own(name)
    x = numbers(4, 3, device=DEVICE).requires_grad_()
    # Its check of autograd's registration knows CPU, CUDA and XPU only.
    utilities = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if "returns_self" in name:  # contradicts its schema, which is what it is there for
        utilities.remove("test_schema")
    torch.library.opcheck(op, (x, *others), test_utils=utilities)


@pytest.mark.parametrize("name", OWN)
def test_an_operator_of_our_own_is_exported(name):
    op, others = own(name)

    class Net(nn.Module):
        def forward(self, x):
            return op(x, *others) + 1

    x = numbers(4, 3, device=DEVICE)
    program = torch.export.export(Net(), (x,)).run_decompositions()
    assert torch.equal(program.module()(x), Net()(x))


# --- attention ------------------------------------------------------------------

ATTENTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": (5, 5)},
    "grouped": {"enable_gqa": True},
    "dropout": {"dropout_p": 0.5},
}


def attend(x, options):
    options = {
        k: torch.zeros(v, device=x.device) if isinstance(v, tuple) else v
        for k, v in options.items()
    }
    return F.scaled_dot_product_attention(x, x * 2, x * 3, **options)


@pytest.mark.parametrize("options", ATTENTIONS.values(), ids=ATTENTIONS)
def test_the_kind_of_attention_is_chosen_without_data(options):
    check_fake(lambda x: attend(x, options), numbers(2, 2, 5, 8, device=DEVICE))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["plain", "causal", "mask", "grouped"])
def test_attention_is_compiled_with_gradients(name, dynamic):
    def case(device):
        torch._dynamo.reset()
        fast = torch.compile(attend, backend="openreg", fullgraph=True, dynamic=dynamic)
        x = numbers(2, 2, 5, 8, device=device).requires_grad_()
        y = fast(x, ATTENTIONS[name])
        y.sin().sum().backward()
        return y, x.grad

    check(case)


def test_gradients_of_attention_look_as_predicted():
    def gradients(x):
        heads = [(x * i).detach().requires_grad_() for i in (1, 2, 3)]
        y = F.scaled_dot_product_attention(*heads)
        return torch.autograd.grad(y.sum(), heads)

    check_fake(gradients, numbers(2, 2, 5, 8, device=DEVICE))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_an_encoder_layer_is_traced(training, padded, batch_first):
    """In evaluation it is one operator, `_transformer_encoder_layer_fwd`."""
    layer = nn.TransformerEncoderLayer(
        *(8, 2, 16), batch_first=batch_first, device=DEVICE
    ).train(training)
    mask = torch.zeros(2, 2, dtype=torch.bool, device=DEVICE) if padded else None
    x = numbers(2, 2, 8, device=DEVICE)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fakes = tree_map_only(torch.Tensor, mode.from_tensor, (x, mask))
        told = outline(layer(fakes[0], src_key_padding_mask=fakes[1]))
    with torch.no_grad():
        assert told == outline(layer(x, src_key_padding_mask=mask))


# --- integer matrix products ------------------------------------------------------


def integers(*shape, dtype, high=7):
    return torch.randint(0, high, shape, dtype=dtype, device=DEVICE)


def int8_product():
    return torch._int_mm, *(integers(32, 32, dtype=torch.int8) for _ in "ab")


def int8_weight():
    x = torch.rand(4, 32, dtype=torch.bfloat16, device=DEVICE)
    scales = torch.rand(16, dtype=torch.bfloat16, device=DEVICE)
    weight = integers(16, 32, dtype=torch.int8)
    return torch.ops.aten._weight_int8pack_mm, x, weight, scales


def int4_weight():
    def product(x, weight, scales):
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(weight, 1)
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, 32, scales)

    x = torch.rand(4, 64, dtype=torch.bfloat16, device=DEVICE)
    scales = torch.rand(2, 64, 2, dtype=torch.bfloat16, device=DEVICE)
    return product, x, integers(64, 64, dtype=torch.int32), scales


def int4_weight_float_input():
    def product(x, weight, scales):
        sizes = (32, 64, 64)
        packed = torch.ops.aten._dyn_quant_pack_4bit_weight(
            weight, scales, None, *sizes
        )
        return torch.ops.aten._dyn_quant_matmul_4bit(x, packed, *sizes)

    x = torch.rand(4, 64, device=DEVICE)
    scales = torch.rand(64, 2, device=DEVICE)
    return product, x, integers(64, 32, dtype=torch.uint8), scales


PRODUCTS = [int8_product, int8_weight, int4_weight, int4_weight_float_input]


@pytest.mark.parametrize("make", PRODUCTS)
def test_a_product_of_small_integers_is_traced(make):
    check_fake(*make())


@pytest.mark.parametrize(
    "backend", ["openreg", pytest.param("inductor", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("make", PRODUCTS)
def test_a_product_of_small_integers_is_compiled(make, backend):
    function, *arguments = make()
    torch._dynamo.reset()
    fast = torch.compile(function, backend=backend, fullgraph=True)
    on_cpu = function(*(x.cpu() for x in arguments))
    assert torch.equal(fast(*arguments).cpu(), on_cpu)
