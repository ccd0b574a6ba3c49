"""Streams of torch.mini: PyTorch's own classes, by the names that programs use."""

import torch

Stream = torch.Stream
Event = torch.Event
current_stream = torch.accelerator.current_stream
set_stream = torch.accelerator.set_stream
synchronize = torch.accelerator.synchronize
_is_in_bad_fork = torch.ops.mini.is_in_bad_fork


def default_stream(device=None):
    """The stream that a device has before a program makes one."""
    index = torch.device(device or "mini").index
    now = current_stream() if index is None else current_stream(index)
    place = {"device_index": now.device_index, "device_type": now.device_type}
    return Stream(stream_id=0, **place)


def stream(stream):
    """A context in which work goes to the stream."""
    return stream
