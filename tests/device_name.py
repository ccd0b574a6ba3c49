"""The name of the device in this run: openreg, or CUDA's, in whose place it stands."""

import torch

NAME = torch.accelerator.current_accelerator().type
m = torch.get_device_module(NAME)
