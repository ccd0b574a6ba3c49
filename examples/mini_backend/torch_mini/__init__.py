"""The device "mini": `import torch_mini`, or `import torch` once it is installed."""

import atexit
import sys
from pathlib import Path


def _autoload():
    """The entry point. `import torch` looks for it, also from the line below."""


import torch  # noqa: E402

if (other := torch._C._get_privateuse1_backend_name()) != "privateuseone":
    way_out = "set TORCH_DEVICE_BACKEND_AUTOLOAD=0, and import one backend"
    raise RuntimeError(f"torch_mini cannot load beside {other!r}: {way_out}")
torch.ops.load_library(Path(__file__).with_name("_C.so"))
torch.utils.rename_privateuse1_backend("mini")
torch._register_device_module("mini", sys.modules[__name__])
torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)

# What torch.manual_seed, torch.load and torch.accelerator ask of torch.mini.
device_count = torch._C._accelerator_hooks_device_count
current_device = torch.accelerator.current_device_index
manual_seed_all = torch.ops.mini.manual_seed_all
_is_in_bad_fork = bool  # False: without streams there are no threads to lose


def is_available():
    return device_count() > 0


def device(device):
    return torch.accelerator.device_index(torch.device(device).index)


atexit.register(torch.ops.mini.settle_autograd)
