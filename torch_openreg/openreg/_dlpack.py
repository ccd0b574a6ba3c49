"""DLPack for openreg tensors: what ``torch.Tensor`` does for CUDA's only.

PyTorch converts tensors of any backend, as DLPack's "extension device", but asks
for the device by a name that a backend no longer has once it is renamed, and
knows the streams of CUDA alone.
"""

import functools

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType

from ._device import current_device
from .streams import ExternalStream, current_stream, default_stream

_torch_dlpack = torch.Tensor.__dlpack__
_torch_dlpack_device = torch.Tensor.__dlpack_device__


@functools.wraps(_torch_dlpack)
def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    def export():
        return _torch_dlpack(
            self,
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )

    if has_torch_function_unary(self) or self.device.type != "openreg":
        return export()
    if self.device.index != current_device():
        raise BufferError(
            "Can't export tensors on a different OpenReg device index. "
            f"Expected: {self.device.index}. Current device: {current_device()}."
        )
    consumer = _consumer(stream)
    capsule = export()
    if consumer is not None and consumer != current_stream():
        consumer.wait_stream(current_stream())
    return capsule


def _consumer(stream):
    """The stream that will use the tensor; None if it needs no order."""
    if stream is None or type(stream) is int and stream == 1:
        return default_stream()
    if type(stream) is not int or stream == -1:  # no int is refused by torch
        return None
    if stream == 2:
        raise BufferError("per-thread default stream is not supported.")
    if stream == 0:
        raise AssertionError("unsupported stream on OpenReg: 0.")
    return ExternalStream(stream)


@functools.wraps(_torch_dlpack_device)
def __dlpack_device__(self):
    if has_torch_function_unary(self) or self.device.type != "openreg":
        return _torch_dlpack_device(self)
    return DLDeviceType.kDLExtDev, self.device.index


def _install():
    torch.Tensor.__dlpack__ = __dlpack__
    torch.Tensor.__dlpack_device__ = __dlpack_device__
