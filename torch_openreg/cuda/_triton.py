"""Triton, where it is installed: its interpreter runs kernels, and its compiler none."""

import sys
from typing import Any

import torch

from torch_openreg._on_import import on_import

from . import _refusals


def install() -> None:
    on_import("triton.runtime.jit", _refuse_kernels)
    on_import("triton.backends.nvidia.driver", _install_driver)
    on_import("torch.utils._triton", _leave_triton_out)


def _leave_triton_out() -> None:
    """Where it is installed, Inductor would ask it for the GPU."""
    from torch.utils import _triton

    _triton.has_triton = lambda: False
    _triton.has_triton_package = lambda: False


def _refuse_kernels() -> None:
    """Not its interpreter: a kernel is of another class there."""
    jit = sys.modules["triton.runtime.jit"]
    jit.JITFunction.run = _refusals.refuse(
        "a Triton kernel",
        "it is compiled for a GPU. Set TRITON_INTERPRET=1 before triton is imported, "
        "and Triton's interpreter runs it on the CPU",
    )


class _Utilities:
    """For what Triton asks NVIDIA's driver, which it cannot load: programs take figures
    of the device from it, and do_bench() measures any function by the device's events."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        properties = torch.cuda.get_device_properties(device)
        return {
            "max_shared_mem": properties.shared_memory_per_block_optin,
            "max_num_regs": properties.regs_per_multiprocessor,
            "multiprocessor_count": properties.multi_processor_count,
            "warpSize": properties.warp_size,
            "sm_clock_rate": properties.clock_rate,
            "mem_clock_rate": properties.memory_clock_rate,
            "mem_bus_width": properties.memory_bus_width,
        }

    def __getattr__(self, name: str) -> Any:
        raise _refusals.refusal(
            f"{name}() of Triton's driver", _refusals.CODE_FOR_A_GPU
        )


def _install_driver() -> None:
    sys.modules["triton.backends.nvidia.driver"].CudaUtils = _Utilities
