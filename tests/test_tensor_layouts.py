"""Sparse, quantized and nested tensors on the device give the CPU's numbers, and
stay on the device in their layout."""

import copy
import io

import pytest
import torch
from layouts import ALL, CHANNELS, DENSE, NESTED, QUANTIZED, SPARSE
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")


def parts(tensor):
    """What a tensor is made of, in tensors and other things."""
    if not isinstance(tensor, torch.Tensor):
        return [tensor]
    if tensor.is_nested:
        return [part for item in tensor.unbind() for part in parts(item)]
    if tensor.layout == torch.sparse_coo:
        made_of = [tensor._indices(), tensor._values(), tensor.is_coalesced()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        made_of = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        made_of = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    elif tensor.is_quantized:
        made_of = [tensor.int_repr(), tensor.dequantize(), tensor.qscheme()]
    else:
        made_of = [tensor]
    return [tensor.shape, tensor.dtype, tensor.layout, *made_of]


def assert_same(found, expected):
    if isinstance(expected, torch.Tensor):
        assert found.device == torch.device("openreg:0")
    for ours, theirs in zip(parts(found), parts(expected), strict=True):
        if isinstance(theirs, torch.Tensor):
            assert ours.device == torch.device("openreg:0")
            assert ours.stride() == theirs.stride()
            assert torch.equal(ours.cpu(), theirs)
        else:
            assert ours == theirs


def check(make, call):
    assert_same(call(make(DENSE.openreg())), call(make(DENSE)))


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_tensors_of_every_layout_are_made_on_the_device(make):
    check(make, lambda x: x)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_they_go_to_the_host_another_device_and_back(make):
    ours, theirs = make(DENSE.openreg()), make(DENSE)
    host = ours.cpu()
    assert host.device.type == "cpu"
    assert_same(host.openreg(), theirs)
    other = ours.to("openreg:1")
    assert other.device == torch.device("openreg:1")
    assert_same(other.to("openreg:0"), theirs)
    assert_same(theirs.openreg(), theirs)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_they_are_saved_cloned_and_printed(make):
    ours, theirs = make(DENSE.openreg()), make(DENSE)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    assert_same(torch.load(file, weights_only=False), theirs)
    for again in (torch.clone, copy.deepcopy):
        try:
            expected = again(theirs)
        except (NotImplementedError, RuntimeError):
            continue  # not for this layout
        assert_same(again(ours), expected)
    assert "openreg:0" in repr(ours)


SPARSE_CALLS = {
    "to_dense": lambda s: s.to_dense(),
    "mul": lambda s: s * 2,
    "neg": lambda s: -s,
    "sqrt": lambda s: s.sqrt(),
    "add": lambda s: s + s,
    "in place": lambda s: s.mul_(3),
    "matmul": lambda s: s @ torch.eye(4, device=s.device),
    "addmm": lambda s: torch.addmm(torch.eye(4, device=s.device), s, s.to_dense()),
    "sum": lambda s: s.sum(),
    "nnz": lambda s: s._nnz(),
    "like": lambda s: torch.zeros_like(s).to_dense(),
    "to coo": lambda s: s.to_sparse(),
}


@pytest.mark.parametrize("call", SPARSE_CALLS.values(), ids=SPARSE_CALLS)
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_operators(layout, call):
    check(SPARSE[layout], call)


COO_CALLS = {
    "coalesce": lambda s: torch.cat([s, s]).coalesce(),
    "transpose": lambda s: s.t().coalesce(),
    "index_select": lambda s: s.index_select(0, torch.tensor([2, 0]).to(s.device)),
    "sparse.sum": lambda s: torch.sparse.sum(s, 0),
    "sparse.softmax": lambda s: torch.sparse.softmax(s, 1),
    "mm": lambda s: torch.sparse.mm(s, s),
    "mask": lambda s: torch.ones(4, 4, device=s.device).sparse_mask(s),
    "dense plus sparse": lambda s: torch.ones(4, 4, device=s.device) + s,
    "to csr": lambda s: s.to_sparse_csr(),
    "resize in place": lambda s: s.sparse_resize_((5, 6), 2, 0),
    "add in place": lambda s: s.add_(s.t()).coalesce(),
    "copy in place": lambda s: torch.zeros_like(s).copy_(s),
}


@pytest.mark.parametrize("call", COO_CALLS.values(), ids=COO_CALLS)
def test_operators_of_coordinate_tensors(call):
    check(SPARSE["coo"], call)


def test_sparse_tensors_are_made_of_indices_and_values():
    for device in ("openreg", torch.device("openreg:0")):
        made = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4, 5], (2, 3))
        ours = torch.sparse_coo_tensor(
            [[0, 1, 1], [2, 0, 0]], [3.0, 4, 5], (2, 3), device=device
        )
        assert_same(ours.coalesce(), made.coalesce())
    other = torch.sparse_coo_tensor([[0]], [1.0], (2,), device="openreg:1")
    assert other.values().device == torch.device("openreg:1")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same"):
        torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1).openreg(), (2,))


def test_sparse_tensors_are_changed_on_a_device_that_is_not_current():
    x = torch.eye(3).to_sparse().to("openreg:1")
    assert x.mul_(2).to_dense().trace() == 6
    assert x.zero_()._nnz() == 0 and x.device == torch.device("openreg:1")


def test_gradients_go_through_sparse_tensors():
    def step(device):
        torch.manual_seed(1)
        table = nn.Embedding(5, 3, sparse=True).to(device)
        table(torch.tensor([1, 2, 1], device=device)).sum().backward()
        torch.optim.SparseAdam(table.parameters()).step()
        values = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
        indices = torch.tensor([[0, 1], [1, 0]], device=device)
        product = torch.sparse.mm(
            torch.sparse_coo_tensor(indices, values, (2, 2)),
            torch.ones(2, 3, device=device),
        )
        product.sum().backward()
        return [table.weight.grad.coalesce(), table.weight.detach(), values.grad]

    for ours, theirs in zip(step("openreg"), step("cpu"), strict=True):
        assert_same(ours, theirs)


QUANTIZED_CALLS = {
    "relu": torch.relu,
    "view": lambda q: q.view(16)[3:],
    "transpose": lambda q: q.t().contiguous(),
    "dequantize": lambda q: q.dequantize(),
    "int_repr": lambda q: q.int_repr(),
    "max": lambda q: q.max(),
    "sort": lambda q: q.sort()[1],
    "eq": lambda q: q == q,
    "cat": lambda q: torch.cat([q, q]),
    "fill": lambda q: q.fill_(1.0),
    "scale": lambda q: (q.q_scale(), q.q_zero_point()),
}


@pytest.mark.parametrize("call", QUANTIZED_CALLS.values(), ids=QUANTIZED_CALLS)
def test_quantized_operators(call):
    check(QUANTIZED["per tensor"], call)


def test_the_scales_of_channels_are_where_the_tensor_is():
    ours = QUANTIZED["per channel"](DENSE.openreg())
    assert ours.q_per_channel_axis() == 0
    for tensor in (ours, ours.to("openreg:1"), ours.cpu()):
        assert tensor.q_per_channel_scales().device == tensor.device
        assert tensor.q_per_channel_scales().cpu().float().equal(CHANNELS["scales"])


OTHER_SCALES = {
    "per tensor": lambda x: torch.quantize_per_tensor(x, 0.5, 7, torch.quint8),
    "per channel": lambda x: torch.quantize_per_channel(
        x, CHANNELS["scales"] * 2, CHANNELS["zeros"] + 1, 0, torch.qint8
    ),
}


@pytest.mark.parametrize("scheme", OTHER_SCALES)
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t()], ids=["whole", "view"])
@pytest.mark.parametrize(
    ("here", "there"),
    [
        *(("openreg", "openreg"), ("openreg", "cpu"), ("cpu", "openreg")),
        ("openreg:1", "openreg:0"),
    ],
)
def test_a_copy_of_a_quantized_tensor_has_its_scale(here, there, view, scheme):
    def copied(to, source):
        x = QUANTIZED[scheme](DENSE).to(to)
        y = view(x).copy_(OTHER_SCALES[scheme](DENSE).to(source))
        return y.cpu().dequantize(), x.cpu().int_repr()

    if scheme == "per channel" and view(DENSE) is not DENSE:
        pytest.skip("PyTorch has no views of such tensors")
    for found, expected in zip(copied(here, there), copied("cpu", "cpu"), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("scheme", OTHER_SCALES)
def test_a_copy_of_numbers_into_a_quantized_tensor_rounds_them(scheme):
    numbers = DENSE * 0.77 + 0.05

    def rounded(to, source):
        x = QUANTIZED[scheme](DENSE).to(to).copy_(numbers.to(source))
        return x.cpu().dequantize()

    for to, source in (("openreg", "openreg"), ("openreg", "cpu"), ("cpu", "openreg")):
        assert torch.equal(rounded(to, source), rounded("cpu", "cpu"))


def test_copies_between_quantized_tensors_that_cannot_be_are_refused():
    x, y = (q(DENSE).to("openreg") for q in OTHER_SCALES.values())
    with pytest.raises(RuntimeError, match="only works with same qscheme"):
        x.copy_(y)
    with pytest.raises(RuntimeError, match="please use dequantize"):
        DENSE.to("openreg").copy_(x)
    with pytest.raises(RuntimeError, match="only works with kFloat as source"):
        x.copy_(DENSE.double().to("openreg"))
    torch.openreg.synchronize()


NESTED_CALLS = {
    "mul": lambda n: n * 2,
    "relu": torch.relu,
    "padded": lambda n: n.to_padded_tensor(-1.0),
    "softmax": lambda n: torch.softmax(n, -1),
    "bmm": lambda n: n @ n.transpose(1, 2),
    "linear": lambda n: nn.functional.linear(n, torch.ones(2, 4, device=n.device)),
    "layer norm": lambda n: nn.LayerNorm(4, device=n.device)(n).detach(),
}


@pytest.mark.parametrize("call", NESTED_CALLS.values(), ids=NESTED_CALLS)
def test_nested_operators(call):
    check(NESTED["nested"], call)


def test_gradients_and_encoders_take_nested_tensors():
    def step(device):
        torch.manual_seed(2)
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
        layer, linear = layer.to(device).eval(), nn.Linear(4, 3).to(device)
        nested = NESTED["nested"](DENSE.to(device))
        with torch.inference_mode():
            encoded = layer(nested).to_padded_tensor(0.0)
        linear(nested).to_padded_tensor(0.0).sum().backward()
        return [encoded, linear.weight.grad]

    for ours, theirs in zip(step("openreg"), step("cpu"), strict=True):
        assert_same(ours, theirs)
