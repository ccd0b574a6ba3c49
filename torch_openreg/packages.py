"""Packages of AOTInductor that were compiled for the device."""

import itertools
import json
import weakref
from typing import Any

import torch

from torch_openreg._device_name import NAME

# The key of the metadata of a package of ours: where its outputs are.
OUTPUT_DEVICES = "openreg_output_devices"

_loaders: "weakref.WeakValueDictionary[int, _Loader]" = weakref.WeakValueDictionary()
_numbers = itertools.count()
# docs:begin package-run
_library = torch.library.Library("openreg_package", "DEF")
_library.define("run(int package, Tensor anchor, Tensor[] inputs) -> Tensor[]")


def _run(package: int, anchor: torch.Tensor, inputs: list[torch.Tensor]) -> Any:
    """The CPU's kernel of the operator. The device runs it as it runs any operator
    without another kernel: in turn, on device memory, and counted as a fallback."""
    return _loaders[package].package.boxed_run([*inputs])


_library.impl("run", _run, "CPU")
# docs:end package-run


class _Loader:
    """A loader whose runs are operators of the device."""

    def __init__(self, package: Any, devices: list[str]) -> None:
        self.package = package
        self._devices = devices
        self._number = next(_numbers)
        _loaders[self._number] = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.package, name)

    def boxed_run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        tensors = [*inputs]
        inputs.clear()
        device = next((x.device for x in tensors), torch.device(NAME))
        if device.type != NAME:
            raise RuntimeError(
                f"this package was compiled for {NAME}, but an input is on {device}; "
                "move the inputs to the device"
            )
        anchor = torch.empty(0, device=device)
        outputs = torch.ops.openreg_package.run(self._number, anchor, tensors)
        return [
            output.cpu() if where == "cpu" else output
            for output, where in zip(outputs, self._devices, strict=True)
        ]


def install() -> None:
    """After torch.export.pt2_archive._package was imported."""
    from torch.export.pt2_archive._package import AOTICompiledModel

    original = AOTICompiledModel.__init__

    def __init__(self: Any, loader: Any) -> None:
        if not isinstance(loader, _Loader):
            devices = loader.get_metadata().get(OUTPUT_DEVICES)
            if devices is not None:
                loader = _Loader(loader, json.loads(devices))
        original(self, loader)

    AOTICompiledModel.__init__ = __init__  # type: ignore[method-assign]
