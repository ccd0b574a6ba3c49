"""Teaches PyTorch's tools about the attention operators of backends."""

import torch
from torch.utils.flop_counter import (
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

_forward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
_backward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward


# docs:begin vmap-rule
# Without a rule vmap makes a loop of an operator, if its results are all tensors.
@torch.library.register_vmap(_forward.default)
def _(info, in_dims, query, key, value, attn_bias=None, *options, **kwargs):
    """Makes the batch a part of the operator's own."""
    batch = info.batch_size
    own = query.size(0 if in_dims[0] is None or in_dims[0] > 0 else 1)

    def fold(tensor, dim):
        tensor = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
        if tensor.dim() == 3:  # a mask of two dimensions, for all of its own
            tensor = tensor[:, None, None]
        return tensor.expand(batch, own, -1, -1, -1).flatten(0, 1)

    inputs = [fold(*given) for given in zip((query, key, value), in_dims)]
    if attn_bias is not None:
        attn_bias = fold(attn_bias, in_dims[3])
    output, logsumexp, *others = _forward(*inputs, attn_bias, *options, **kwargs)
    unfolded = [part.unflatten(0, (batch, own)) for part in (output, logsumexp)]
    return (*unfolded, *others), (0, 0, *[None] * len(others))


# docs:end vmap-rule


# docs:begin flop-formula
@register_flop_formula(_forward)
def _(query, key, value, *others, out_shape=None, **kwargs):
    return sdpa_flop_count(query, key, value)


@register_flop_formula(_backward)
def _(grad_out, query, key, value, *others, out_shape=None, **kwargs):
    return sdpa_backward_flop_count(grad_out, query, key, value)


# docs:end flop-formula


# docs:begin attention-fake
# PyTorch's own function says that a seed and an offset come back, which this device
# does not use, and that gradients have the strides of their inputs. A compiled backward
# pass would expect tensors that do not exist, and view the others in the wrong way.
@torch.library.register_fake(_forward.default)
def _(
    query, key, value, attn_bias=None, dropout_p=0.0, is_causal=False, *_, scale=None
):
    output, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *(query, key, value, dropout_p, is_causal), attn_mask=attn_bias, scale=scale
    )
    longest = query.shape[2], key.shape[2]
    return output, logsumexp, None, None, *longest, None, None, None


@torch.library.register_fake(_backward.default)
def _(
    grad_out, query, key, value, attn_bias, mask, out, logsumexp, *others, scale=None
):
    dropout_p, is_causal = others[4:6]
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    gradients = flash(
        *(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal),
        **{"attn_mask": attn_bias, "scale": scale},
    )
    return *gradients, None


# docs:end attention-fake
