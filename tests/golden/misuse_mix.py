"""Tensors of two devices in one call."""

import torch
from misuse import DEVICE, c, x
from torch import nn
from torch.nn import functional as F


CALLS = {
    "add": lambda: x(2) + c(2),
    "add_device_scalar_to_cpu": lambda: c(2) + torch.tensor(3.0, device=DEVICE),
    "sub_cpu_scalar_first": lambda: torch.tensor(3.0) - x(2),
    "mul_cpu_1_element_1d": lambda: x(2) * c(1),
    "mm": lambda: torch.mm(x(2, 2), c(2, 2)),
    "bmm": lambda: torch.bmm(x(1, 2, 2), c(1, 2, 2)),
    "matmul_vector": lambda: torch.matmul(x(2, 2), c(2)),
    "dot": lambda: torch.dot(x(2), c(2)),
    "einsum": lambda: torch.einsum("ij,jk->ik", x(2, 2), c(2, 2)),
    "cat": lambda: torch.cat([x(2), c(2)]),
    "stack": lambda: torch.stack([x(2), c(2)]),
    "where": lambda: torch.where(x(2, dtype=torch.bool), c(2), x(2)),
    "where_cpu_condition": lambda: torch.where(c(2, dtype=torch.bool), x(2), x(2)),
    "eq": lambda: x(2) == c(2),
    "lt": lambda: x(2) < c(2),
    "equal": lambda: torch.equal(x(2), c(2)),
    "allclose": lambda: torch.allclose(x(2), c(2)),
    "lerp": lambda: torch.lerp(x(2), x(2), c(2)),
    "addcmul": lambda: torch.addcmul(x(2), x(2), c(2)),
    "add_inplace_on_cpu": lambda: c(2).add_(x(2)),
    "copy_from_cpu": lambda: x(2).copy_(c(2)),
    "copy_to_cpu": lambda: c(2).copy_(x(2)),
    "masked_fill_value": lambda: c(2).masked_fill(
        c(2, dtype=torch.bool), torch.tensor(9.0, device=DEVICE)
    ),
    "out_cpu_add": lambda: torch.add(x(2), x(2), out=c(2)),
    "out_cpu_mm": lambda: torch.mm(x(2, 2), x(2, 2), out=c(2, 2)),
    "out_cpu_sort": lambda: torch.sort(x(2), out=(c(2), c(2, dtype=torch.int64))),
    "index_device_index_on_cpu": lambda: c(4)[torch.tensor([0, 2], device=DEVICE)],
    "index_device_mask_on_cpu": lambda: c(4)[x(4, dtype=torch.bool)],
    "index_put_cpu_scalar": lambda: x(4).index_put_(
        (torch.tensor([0], device=DEVICE),), torch.tensor(9.0)
    ),
    "gather": lambda: torch.gather(x(4), 0, torch.tensor([0, 1])),
    "scatter_src": lambda: x(4).scatter_(0, torch.tensor([0, 1], device=DEVICE), c(2)),
    "index_add_source": lambda: x(4).index_add_(
        0, torch.tensor([0, 1], device=DEVICE), c(2)
    ),
    "take": lambda: torch.take(x(4), torch.tensor([0, 1])),
    "embedding": lambda: F.embedding(torch.tensor([0, 1]), x(4, 2)),
    "embedding_cpu_weight": lambda: F.embedding(
        torch.tensor([0, 1], device=DEVICE), c(4, 2)
    ),
    "linear_cpu_bias": lambda: F.linear(x(2, 2), x(2, 2), c(2)),
    "linear_module_on_cpu": lambda: nn.Linear(2, 2)(x(2, 2)),
    "linear_cpu_input": lambda: nn.Linear(2, 2).to(DEVICE)(c(2, 2)),
    "conv2d_cpu_weight": lambda: F.conv2d(x(1, 1, 4, 4), c(1, 1, 2, 2)),
    "conv2d_cpu_input": lambda: F.conv2d(c(1, 1, 4, 4), x(1, 1, 2, 2)),
    "batch_norm_cpu_stats": lambda: F.batch_norm(
        x(2, 2), torch.zeros(2), torch.ones(2), training=True
    ),
    "layer_norm_cpu_weight": lambda: F.layer_norm(x(2, 2), (2,), c(2), c(2)),
    "nll_loss_cpu_weight": lambda: F.nll_loss(
        x(2, 2), torch.tensor([0, 1], device=DEVICE), c(2)
    ),
    "mse_loss": lambda: F.mse_loss(x(2), c(2)),
    "sdpa": lambda: F.scaled_dot_product_attention(
        x(1, 1, 2, 8), c(1, 1, 2, 8), x(1, 1, 2, 8)
    ),
    "lstm_hidden": lambda: nn.LSTM(2, 2)
    .to(DEVICE)(x(1, 1, 2), (torch.zeros(1, 1, 2), torch.zeros(1, 1, 2)))[0]
    .shape,
    "lstm_input": lambda: nn.LSTM(2, 2).to(DEVICE)(c(1, 1, 2))[0].shape,
    "linalg_solve": lambda: torch.linalg.solve(torch.eye(2, device=DEVICE), c(2, 2)),
    "foreach_add": lambda: torch._foreach_add([x(2)], [c(2)]),
    "foreach_norm_mixed": lambda: [
        str(t.device.type) for t in torch._foreach_norm([x(2), c(2)])
    ].__len__(),
    "assign_grad": lambda: setattr(nn.Parameter(x(2)), "grad", c(2)),
    "backward_cpu_gradient": lambda: (nn.Parameter(x(2)) * 2).backward(c(2)),
    "set_cpu_storage": lambda: x(2).set_(c(2).untyped_storage()),
    "set_cpu_tensor": lambda: x(2).set_(c(2)),
    "modules_on_two_devices": lambda: nn.Sequential(
        nn.Linear(2, 2), nn.Linear(2, 2).to(DEVICE)
    )(c(2, 2)),
    "load_state_dict_across": lambda: str(
        nn.Linear(2, 2).to(DEVICE).load_state_dict(nn.Linear(2, 2).state_dict())
    ),
    "result_type": lambda: torch.result_type(x(2), c(2)),
    "meta_and_device": lambda: x(2) + torch.empty(2, device="meta"),
}
