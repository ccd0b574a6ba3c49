"""What torch.autocast asks of torch.mini."""

import torch


def get_amp_supported_dtype():
    """The dtypes that autocast may cast to."""
    return [torch.float16, torch.bfloat16]
