"""Tensors that are more than sizes and strides over a storage: makers by name, each
of which takes a dense tensor."""

import torch

DENSE = torch.tensor([[1.0, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 0], [0, 0, 0, 5]])
SPARSE = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 2)),
}
CHANNELS = {"scales": torch.tensor([0.1, 0.2, 0.3, 0.4]), "zeros": torch.arange(4)}
QUANTIZED = {
    "per tensor": lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8),
    "per channel": lambda x: torch.quantize_per_channel(
        x, *(part.to(x.device) for part in CHANNELS.values()), 0, torch.qint8
    ),
    "float zero points": lambda x: torch.quantize_per_channel(
        x, *(part.float().to(x.device) for part in CHANNELS.values()), 0, torch.quint8
    ),
}
NESTED = {
    "nested": lambda x: torch.nested.as_nested_tensor([x[:2], x[1:]]),
    "jagged": lambda x: torch.nested.as_nested_tensor(
        [x[:2], x[1:]], layout=torch.jagged
    ),
}
ALL = {**SPARSE, **QUANTIZED, **NESTED}
