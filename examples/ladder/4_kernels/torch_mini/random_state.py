"""What torch.random.fork_rng and torch.utils.checkpoint ask of torch.mini."""

import torch


def get_rng_state(device="mini"):
    """The state of a device's random numbers; without an index, of the current one's."""
    return torch.ops.mini.get_rng_state(torch.device(device))


def set_rng_state(state, device="mini"):
    """Puts back what get_rng_state() gave."""
    torch.ops.mini.set_rng_state(state, torch.device(device))
