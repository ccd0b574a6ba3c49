"""Arguments that an operator refuses, or does not support, before it runs."""

import torch
from misuse import DEVICE, c, longs, x
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def flash():
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(*[x(1, 1, 2, 8)] * 3)


def modified():
    y = (x(2).requires_grad_() * 2).exp()
    y.add_(1)
    y.sum().backward()


CALLS = {
    "index_too_many": lambda: x(4)[longs(0), longs(0)],
    "mask_shape": lambda: x(4)[x(3, dtype=torch.bool)],
    "gather_dtype": lambda: torch.gather(x(4), 0, x(2)),
    "gather_int32": lambda: torch.gather(x(4), 0, x(2, dtype=torch.int32)),
    "gather_dims": lambda: torch.gather(x(4), 0, longs(0, 1).reshape(1, 2)),
    "scatter_shape": lambda: x(2, 2).scatter_(
        0, torch.zeros(3, 3, dtype=torch.int64, device=DEVICE), x(3, 3)
    ),
    "scatter_dtype": lambda: x(2).scatter_(0, longs(0), x(1, dtype=torch.float64)),
    "cross_entropy_batch": lambda: F.cross_entropy(x(2, 3), longs(0)),
    "mm_dtypes": lambda: torch.mm(x(2, 2), x(2, 2, dtype=torch.float16)),
    "mm_int64": lambda: torch.mm(
        x(2, 2, dtype=torch.int64), x(2, 2, dtype=torch.int64)
    ),
    "mm_bool": lambda: torch.mm(x(2, 2, dtype=torch.bool), x(2, 2, dtype=torch.bool)),
    "softmax_int": lambda: torch.softmax(x(4, dtype=torch.int64), 0),
    "mean_int": lambda: x(4, dtype=torch.int64).mean(),
    "sort_complex": lambda: torch.sort(x(2, dtype=torch.complex64)),
    "max_complex": lambda: x(2, dtype=torch.complex64).max(),
    "floor_complex": lambda: x(2, dtype=torch.complex64).floor(),
    "sub_bool": lambda: x(2, dtype=torch.bool) - x(2, dtype=torch.bool),
    "neg_bool": lambda: -x(2, dtype=torch.bool),
    "add_float8": lambda: x(2).to(torch.float8_e4m3fn) + x(2).to(torch.float8_e4m3fn),
    "add_uint16": lambda: x(2, dtype=torch.uint16) + x(2, dtype=torch.uint16),
    "add_uint32": lambda: x(2, dtype=torch.uint32) + x(2, dtype=torch.uint32),
    "bitwise_float": lambda: x(2) & x(2),
    "shift_float": lambda: x(2, dtype=torch.bool) << 1,
    "histc_int64": lambda: torch.histc(x(4, dtype=torch.int64), 2),
    "bincount_float": lambda: torch.bincount(x(4)),
    "multinomial_dim": lambda: torch.multinomial(torch.ones((), device=DEVICE), 1),
    "randint_empty": lambda: torch.randint(5, 5, (2,), device=DEVICE),
    "randint_uint8_range": lambda: torch.randint(
        0, 1000, (2,), device=DEVICE, dtype=torch.uint8
    ),
    "normal_negative_std": lambda: torch.normal(0.0, -1.0, (2,), device=DEVICE),
    "uniform_reversed": lambda: torch.empty(2, device=DEVICE).uniform_(2, 1),
    "exponential_rate": lambda: torch.empty(2, device=DEVICE).exponential_(-1.0),
    "bernoulli_scalar_p": lambda: torch.empty(2, device=DEVICE).bernoulli_(1.5),
    "native_dropout_p": lambda: torch.native_dropout(x(2), 1.5, True),
    "linspace_negative": lambda: torch.linspace(0, 1, -1, device=DEVICE),
    "topk_too_many": lambda: torch.topk(x(2), 3),
    "kthvalue": lambda: torch.kthvalue(x(2), 3),
    "max_empty": lambda: torch.empty(0, device=DEVICE).max(),
    "argmax_empty": lambda: torch.empty(0, device=DEVICE).argmax(),
    "median_empty": lambda: torch.empty(0, device=DEVICE).median(),
    "max_pool_kernel": lambda: F.max_pool2d(x(1, 1, 2, 2), 3),
    "avg_pool_int": lambda: F.avg_pool2d(x(1, 1, 4, 4, dtype=torch.int64), 2),
    "batch_norm_one_value": lambda: F.batch_norm(x(1, 2), None, None, training=True),
    "layer_norm_shape": lambda: F.layer_norm(x(2, 2), (3,)),
    "group_norm_groups": lambda: F.group_norm(x(1, 3, 2), 2),
    "pad_reflect": lambda: F.pad(x(1, 1, 2, 2), (3, 3, 3, 3), mode="reflect"),
    "ctc_targets": lambda: F.ctc_loss(
        x(2, 1, 3), x(1, 5, dtype=torch.int64), longs(2), longs(9)
    ),
    "sdpa_dtype": lambda: F.scaled_dot_product_attention(
        x(1, 1, 2, 8), x(1, 1, 2, 8, dtype=torch.float16), x(1, 1, 2, 8)
    ),
    "sdpa_flash_fp32": flash,
    "backward_nonscalar": lambda: (x(2).requires_grad_() * 2).backward(),
    "backward_no_grad": lambda: x(1).backward(),
    "backward_modified": modified,
    "grad_of_int": lambda: x(2, dtype=torch.int64).requires_grad_(),
    "sparse_add_dense_reversed": lambda: x(2, 2).to_sparse() + x(2, 2),
    "sparse_mm_int": lambda: torch.sparse.mm(
        x(2, 2, dtype=torch.int32).to_sparse(), x(2, 2, dtype=torch.int32)
    ),
    "sparse_csr_mm": lambda: x(2, 2).to_sparse_csr() @ x(2, 2),
    "sparse_bad_index": lambda: torch.sparse_coo_tensor(
        longs(9).reshape(1, 1), x(1), (2,), check_invariants=True
    ),
    "sparse_cpu_indices": lambda: torch.sparse_coo_tensor(
        torch.tensor([[0]]), x(1), (2,)
    ).device,
    "sparse_view": lambda: x(2, 2).to_sparse().view(4),
    "sparse_sigmoid": lambda: torch.sigmoid(x(2, 2).to_sparse()),
    "quantize_per_tensor": lambda: torch.quantize_per_tensor(
        x(2), 0.1, 0, torch.quint8
    ).int_repr(),
    "quantized_add": lambda: torch.quantize_per_tensor(x(2), 0.1, 0, torch.quint8) + 1,
    "nested_tensor_mixed": lambda: torch.nested.nested_tensor([x(2), c(2)]).device,
    "nested_tensor_unsupported": lambda: torch.nested.nested_tensor(
        [x(2), x(3)], layout=torch.strided
    ).cumsum(1),
    "view_as_real_of_real": lambda: torch.view_as_real(x(2)),
    "cpu_only_operator": lambda: torch._empty_affine_quantized(
        [2], scale=1.0, zero_point=0, dtype=torch.quint8, device=DEVICE
    ).device,
    "not_implemented_operator": lambda: torch.ops.aten.mkldnn_linear(x(2, 2), x(2, 2)),
}
