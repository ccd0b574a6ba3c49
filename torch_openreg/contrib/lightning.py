"""Lightning on openreg: the accelerator "openreg" and its strategies.

Importing this module registers them:

    import torch_openreg.contrib.lightning
    Trainer(accelerator="openreg", strategy="single_openreg", devices=1)
    Trainer(accelerator="openreg", strategy="ddp_openreg", devices=2)
"""

from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry
from lightning.pytorch.plugins import MixedPrecision, Precision
from lightning.pytorch.strategies import (
    DDPStrategy,
    SingleDeviceStrategy,
    StrategyRegistry,
)

__all__ = ["DDPOpenRegStrategy", "OpenRegAccelerator", "SingleOpenRegStrategy"]


# docs:begin lightning-accelerator
class OpenRegAccelerator(Accelerator):
    """For openreg what CUDAAccelerator is for CUDA."""

    def setup_device(self, device: torch.device) -> None:
        # Lightning's own choice of a strategy for a device it does not know.
        if device.type != "openreg":
            raise MisconfigurationException(
                f"the accelerator is openreg, but the strategy is on {device}; pass "
                "strategy='single_openreg' or 'ddp_openreg' to the Trainer"
            )
        torch.openreg.set_device(device)

    def teardown(self) -> None:
        torch.openreg.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return torch.openreg.memory_stats(device)

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """Indices from a count (-1 for all), a list, or either of them as text."""
        count = torch.openreg.device_count()
        if isinstance(devices, str):
            numbers = [int(part) for part in devices.split(",") if part.strip()]
            devices = numbers if "," in devices else numbers[0]
        if isinstance(devices, int):
            devices = list(range(count if devices == -1 else devices))
        wrong = [index for index in devices if not 0 <= index < count]
        if wrong or not devices or len(set(devices)) < len(devices):
            raise MisconfigurationException(
                f"devices {list(devices)} must be different indices in [0, {count}), "
                "and at least one"
            )
        return list(devices)

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("openreg", index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        return torch.openreg.device_count()

    @staticmethod
    def is_available() -> bool:
        return torch.openreg.is_available()

    @staticmethod
    def name() -> str:
        return "openreg"


# docs:end lightning-accelerator


class _OwnPrecision:
    @property
    def precision_plugin(self) -> Precision:
        return super().precision_plugin

    @precision_plugin.setter
    def precision_plugin(self, plugin: Precision | None) -> None:
        # For precision="16-mixed" Lightning makes CUDA's on every device but the CPU.
        if isinstance(plugin, MixedPrecision) and plugin.device == "cuda":
            plugin = MixedPrecision(plugin.precision, "openreg")
        self._precision_plugin = plugin


# docs:begin lightning-strategy
class SingleOpenRegStrategy(_OwnPrecision, SingleDeviceStrategy):
    """One openreg device: the one that the Trainer's argument `devices` names."""

    strategy_name = "single_openreg"

    def __init__(self, **options: Any):
        super().__init__(device="openreg", **options)

    @property
    def parallel_devices(self) -> list[torch.device]:
        return [] if self.root_device.index is None else [self.root_device]

    @parallel_devices.setter
    def parallel_devices(self, devices: list[torch.device]) -> None:
        if len(devices) != 1:
            raise MisconfigurationException(
                f"the strategy {self.strategy_name} is for 1 device, but the Trainer "
                f"has {len(devices)}; pass devices=1 or devices=[index]"
            )
        (self._root_device,) = devices


class DDPOpenRegStrategy(_OwnPrecision, DDPStrategy):
    """DistributedDataParallel with a rank for each openreg device."""

    strategy_name = "ddp_openreg"

    def __init__(self, **options: Any):
        options.setdefault("process_group_backend", "cpu:gloo,openreg:occl")
        super().__init__(**options)

    def determine_ddp_device_ids(self) -> None:
        """None, because Lightning would make a CUDA stream for indices. DDP needs no
        indices: the module is on its device already."""


# docs:end lightning-strategy

AcceleratorRegistry.register("openreg", OpenRegAccelerator)
StrategyRegistry.register("single_openreg", SingleOpenRegStrategy)
StrategyRegistry.register("ddp_openreg", DDPOpenRegStrategy)
