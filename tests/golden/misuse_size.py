"""Sizes that are wrong or too large, and wrong requests for memory."""

from types import SimpleNamespace

import torch
from misuse import DEVICE, m, octets, x
from torch.nn import functional as F

TIB = 1 << 40
NO_ALLOCATOR = SimpleNamespace(allocator=lambda: None)  # torch.cuda asks it for one

CALLS = {
    "oom_by_broadcast": lambda: torch.ones(1 << 22, 1, device=DEVICE)
    + torch.ones(1, 1 << 20, device=DEVICE),
    "oom_by_resize": lambda: octets(4).resize_(10 * TIB),
    "oom_by_cat": lambda: torch.cat([torch.ones(1, device=DEVICE).expand(1 << 41)] * 2),
    "oom_mm": lambda: torch.mm(
        torch.ones(1 << 21, 1, device=DEVICE), torch.ones(1, 1 << 21, device=DEVICE)
    ),
    "overflow": lambda: torch.empty(1 << 62, device=DEVICE),
    "overflow_shape": lambda: torch.empty(1 << 40, 1 << 40, device=DEVICE),
    "negative_view": lambda: x(4).view(-2),
    "float_size": lambda: torch.empty(1.5, device=DEVICE),
    "python_index_out_of_range": lambda: x(4)[4],
    "select_out_of_range": lambda: x(4).select(0, 7),
    "mm_mismatch": lambda: torch.mm(x(2, 3), x(2, 3)),
    "mm_1d": lambda: torch.mm(x(2), x(2)),
    "cat_mismatch": lambda: torch.cat([x(2, 2), x(3, 3)]),
    "conv_channels": lambda: F.conv2d(x(1, 2, 4, 4), x(1, 3, 2, 2)),
    "inplace_broadcast": lambda: x(1).add_(x(4)),
    "inplace_leaf": lambda: x(2).requires_grad_().add_(1),
    "inplace_overlap": lambda: x(1).expand(4).add_(1),
    "fraction_above_one": lambda: m.set_per_process_memory_fraction(1.5),
    "fraction_int": lambda: m.set_per_process_memory_fraction(1),
    "fraction_string": lambda: m.set_per_process_memory_fraction("half"),
    "allocator_alloc_zero": lambda: type(m.caching_allocator_alloc(0)).__name__,
    "allocator_alloc_bad_stream": lambda: m.caching_allocator_alloc(16, 0, "s"),
    "allocator_delete_bad": lambda: m.caching_allocator_delete(12345),
    "allocator_backend": lambda: m.get_allocator_backend(),
    "oom_message": lambda: octets(10 * TIB),
    "pinned_10tib": lambda: torch.empty(10 * TIB, dtype=torch.uint8, pin_memory=True),
    "swap_allocator_after_init": lambda: m.memory.change_current_allocator(
        NO_ALLOCATOR
    ),
}
