"""flex_attention on the device.

PyTorch has a list of devices in its Python, and a lowering for the CPU that knows no
gradients. Without gradients, the device takes that lowering; with them, or if more
than the output is asked for, attention is computed densely, by operators that Inductor
compiles and autograd differentiates.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import _math_attention_inner
from torch.nn.attention import flex_attention as module
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from torch_openreg._device_name import NAME

# Have no hook; see docs/compile.md.
PATCHED = ("_validate_device", "flex_attention_hop")


def _validate_device(original: Callable[..., None]) -> Callable[..., None]:
    def validate(query: Any, key: Any, value: Any) -> None:
        if query.device.type != NAME:
            original(query, key, value)

    return validate


class _Indexing(TorchFunctionMode):
    """Makes an operator of ``bias[head]``, where the index is a tensor. PyTorch's mode
    for that calls an autograd function, which Dynamo traces only for kernels that
    differentiate it themselves."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.__getitem__:
            tensor, indices = args[0], tree_leaves(args[1])
            if all(isinstance(index, torch.Tensor | int) for index in indices):
                tensors = [
                    index
                    if isinstance(index, torch.Tensor)
                    else torch.tensor(index, device=tensor.device)
                    for index in indices
                ]
                return torch.ops.aten.index(tensor, tensors)
        return func(*args, **(kwargs or {}))


def _indexing(mod: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with _Indexing():
            return mod(*args)

    return run


def _attend_densely(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., Any],
    block_mask: tuple[Any, ...],
    *others: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The output, and the logarithm of the sum and the maximum of each row's scores,
    to base 2 as kernels give them."""
    batch, groups = query.size(0), query.size(1) // key.size(1)
    key = key.repeat_interleave(groups, 1).expand(batch, -1, -1, -1)
    value = value.repeat_interleave(groups, 1).expand(batch, -1, -1, -1)
    masks = (*block_mask[:-1], _indexing(block_mask[-1]))
    _, scores = _math_attention_inner(
        query, key, value, _indexing(score_mod), masks, *others
    )
    # Of a row that is masked altogether it makes zeros.
    weights = torch.ops.aten._safe_softmax.default(scores, -1)
    output = (weights @ value.to(weights.dtype)).to(query.dtype)
    to_base_2 = 1 / math.log(2)
    return output, scores.logsumexp(-1) * to_base_2, scores.amax(-1) * to_base_2


def _flex_attention_hop(original: Callable[..., Any]) -> Callable[..., Any]:
    def attend(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        score_mod: Callable[..., Any],
        block_mask: tuple[Any, ...],
        scale: float,
        kernel_options: dict[str, Any],
    ) -> Any:
        more = kernel_options["OUTPUT_LOGSUMEXP"] or kernel_options["OUTPUT_MAX"]
        dense = more and query.device.type == NAME
        run = _attend_densely if dense else original
        return run(query, key, value, score_mod, block_mask, scale, kernel_options)

    return attend


def install() -> None:
    missing = [name for name in PATCHED if not hasattr(module, name)]
    if missing:
        raise ImportError(
            f"torch_openreg cannot run flex_attention with torch {torch.__version__}: "
            f"torch.nn.attention.flex_attention has no {', '.join(missing)} any more. "
            "Use the version of torch that this package was built for."
        )
    module._validate_device = _validate_device(module._validate_device)
    module.flex_attention_hop = _flex_attention_hop(module.flex_attention_hop)
