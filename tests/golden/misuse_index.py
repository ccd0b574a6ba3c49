"""Devices that do not exist, and other ways to name one."""

import torch
from misuse import DEVICE, FIRST, c, m, no_device, no_index, x


def inside(device):
    with m.device(device):
        return m.current_device()


def under(device):
    with torch.device(device):
        return torch.empty(1)


CALLS = {
    "zeros_bad": lambda: torch.zeros(1, device=no_device()),
    "to_bad": lambda: c(1).to(no_device()),
    "device_to_bad": lambda: x(1).to(no_device()),
    "randn_bad": lambda: torch.randn(1, device=no_device()),
    "context_bad": lambda: under(no_device()),
    "module_context_none": lambda: inside(None),
    "module_context_negative": lambda: inside(-1),
    "module_context_cpu": lambda: inside("cpu"),
    "module_context_string": lambda: inside(FIRST),
    "set_device_negative": lambda: (m.set_device(-1), m.current_device())[1],
    "set_device_cpu": lambda: m.set_device("cpu"),
    "set_device_no_index": lambda: m.set_device(DEVICE),
    "device_word": lambda: torch.device("nosuch"),
    "device_negative": lambda: torch.device(f"{DEVICE}:-1"),
    "device_way_too_large": lambda: torch.device(f"{DEVICE}:99999999999"),
    "device_trailing": lambda: torch.device(f"{DEVICE}:"),
    "device_arg_negative": lambda: torch.device(DEVICE, -2),
    "device_arg_float": lambda: torch.device(DEVICE, 0.5),
    "device_int": lambda: torch.device(0),
    "device_int_bad": lambda: torch.empty(1, device=no_index()),
    "device_upper": lambda: torch.device(DEVICE.upper()),
    "device_eq_without_index": lambda: torch.device(DEVICE) == torch.device(FIRST),
    "tensor_device_has_index": lambda: torch.empty(1, device=DEVICE).device.index,
    "to_unknown": lambda: c(1).to("nosuch"),
    "synchronize_negative": lambda: m.synchronize(-1),
    "default_stream_bad": lambda: m.default_stream(no_index()),
    "stream_bad": lambda: m.Stream(device=no_index()),
    "stream_cpu": lambda: m.Stream(device="cpu"),
    "torch_event_record_bad": lambda: torch.Event(device=no_device()).record(),
    "properties_bad": lambda: m.get_device_properties(no_index()),
    "name_bad": lambda: m.get_device_name(no_index()),
    "peer_access_bad": lambda: m.can_device_access_peer(0, no_index()),
    "peer_access_self": lambda: m.can_device_access_peer(0, 0),
    "memory_stats_bad": lambda: m.memory_stats(no_index()),
    "memory_allocated_bad": lambda: m.memory_allocated(no_index()),
    "memory_allocated_cpu": lambda: m.memory_allocated("cpu"),
    "max_memory_bad": lambda: m.max_memory_allocated(no_index()),
    "reset_peak_bad": lambda: m.reset_peak_memory_stats(no_index()),
    "mem_get_info_bad": lambda: m.mem_get_info(no_index()),
    "memory_summary_bad": lambda: m.memory_summary(no_index()),
    "generator_bad": lambda: torch.Generator(device=no_device()),
    "generator_unknown": lambda: torch.Generator(device="nosuch"),
    "accelerator_stream_bad": lambda: torch.accelerator.current_stream(no_index()),
    "accelerator_sync_cpu": lambda: torch.accelerator.synchronize("cpu"),
    "accelerator_current": lambda: str(torch.accelerator.current_accelerator()),
}
