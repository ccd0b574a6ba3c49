"""Context parallelism: attention whose sequence is divided between ranks.

PyTorch's ring attention knows the attention operators of CUDA. Those of other devices,
`_scaled_dot_product_fused_attention_overrideable` and its backward, go through the same
ring here.
"""

from typing import Any

import torch
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor.experimental._context_parallel import _attention

_FORWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = (
    torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default
)
_SEQUENCE = 2


def _arguments(op: Any, args: tuple, kwargs: dict) -> tuple[Any, dict[str, Any]]:
    """The mesh, and all arguments by name, with the tensors that this rank has."""
    names = [argument.name for argument in op._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    query = given["query"]
    if tuple(query.placements) != (Shard(_SEQUENCE),):
        raise NotImplementedError(
            "context parallelism on openreg needs attention whose sequence alone is "
            f"shared out, (Shard(dim={_SEQUENCE}),), but got {query.placements}"
        )
    local = {
        name: value.to_local() if isinstance(value, DTensor) else value
        for name, value in given.items()
    }
    if local.get("attn_bias") is not None:
        raise NotImplementedError("ring attention takes no attn_bias, just as on CUDA")
    return query.device_mesh, local


def _shared_out(results: tuple, mesh: Any) -> tuple:
    """The tensors among the results as parts of such that all ranks have."""

    def wrap(local: Any) -> Any:
        if not isinstance(local, torch.Tensor):
            return local
        shape = list(local.shape)
        shape[_SEQUENCE] *= mesh.size()
        stride = torch.empty(shape, device="meta").stride()
        meta = TensorMeta(torch.Size(shape), stride, local.dtype)
        spec = DTensorSpec(mesh, (Shard(_SEQUENCE),), meta)
        return DTensor(local, spec, requires_grad=False)

    return tuple(map(wrap, results))


def _forward(op: Any, args: tuple, kwargs: dict) -> tuple:
    mesh, local = _arguments(op, args, kwargs)
    local.pop("return_debug_mask", None)
    local.setdefault("is_causal", False)
    group = mesh.get_group()
    return _shared_out(
        _attention._templated_ring_attention(group, _SEQUENCE, op, **local), mesh
    )


def _backward(op: Any, args: tuple, kwargs: dict) -> tuple:
    mesh, local = _arguments(op, args, kwargs)
    group = mesh.get_group()
    return _shared_out(
        _attention._templated_ring_attention_backward(
            group, _SEQUENCE, op, grad_out_name="grad_out", **local
        ),
        mesh,
    )


def install() -> None:
    _attention.custom_ops[_FORWARD] = _forward
    _attention.custom_ops[_BACKWARD] = _backward
