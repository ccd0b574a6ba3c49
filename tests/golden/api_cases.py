"""What the device's module offers: members of its classes and kinds of results."""

import inspect
import re
import types

import torch
from observer import NAME, case
from torch._subclasses.fake_tensor import FakeTensorMode


def kind(thing, name):
    """A method or an attribute, without asking the attribute for its value."""
    found = next(vars(c)[name] for c in type(thing).__mro__ if name in vars(c))
    data = (property, types.GetSetDescriptorType, types.MemberDescriptorType)
    return "attribute" if isinstance(found, data) else "method"


def members(thing):
    names = {name for name in dir(thing) if not name.startswith("_")}
    names |= {"__enter__", "__exit__", "_as_parameter_"} & set(dir(thing))
    for name in sorted(names):
        if name in getattr(thing, "__dict__", {}):
            yield name.replace(NAME, "<dev>"), lambda: "attribute"
        else:
            yield (
                name.replace(NAME, "<dev>"),
                lambda name=name: kind(thing, name),
            )


@case("api", "class.Stream")
def _(o):
    yield from members(o.m.Stream())


@case("api", "class.Event")
def _(o):
    yield from members(o.m.Event())


@case("api", "class.Generator")
def _(o):
    yield from members(torch.Generator(o.device))


@case("api", "class.MemPool")
def _(o):
    yield from members(o.m.MemPool())


@case("api", "class.device_context")
def _(o):
    yield from members(o.m.device(0))


@case("api", "class.ExternalStream")
def _(o):
    yield from members(o.m.ExternalStream(getattr(o.m.Stream(), f"{NAME}_stream")))


@case("api", "device_properties")
def _(o):
    properties = o.m.get_device_properties(0)
    for name in dir(properties):
        if not name.startswith("_"):
            yield name, lambda name=name: type(getattr(properties, name)).__name__


@case("api", "device_properties_repr")
def _(o):
    text = repr(o.m.get_device_properties(0))
    text = re.sub(r"name='[^']*'|uuid=[^,]*", "", text)
    yield "repr", lambda: re.sub(r"[\d.]+", "N", text)


def parameters(function):
    """The names and defaults of a function's parameters, without types."""
    found = inspect.signature(function).parameters.values()
    return [str(p.replace(annotation=p.empty)) for p in found]


@case("api", "module.random")
def _(o):
    for name in o.m.random.__all__:
        function = getattr(o.m.random, name)
        yield name, lambda function=function: parameters(function)


@case("api", "module.streams")
def _(o):
    for name in ("Event", "ExternalStream", "Stream"):
        kind = getattr(o.m.streams, name)
        yield name, lambda kind=kind: parameters(kind)


@case("api", "object_attributes_values")
def _(o):
    stream, event = o.m.Stream(), o.m.Event()
    yield "stream.device", lambda: str(stream.device)
    yield "stream.device_index", lambda: stream.device_index
    label = "stream.device_type is an int"
    yield label, lambda: type(stream.device_type).__name__
    yield "stream.priority", lambda: stream.priority
    yield "stream repr", lambda: repr(stream)
    yield "event.device", lambda: str(event.device)
    yield "event repr unrecorded", lambda: repr(event)
    yield "event.event_id", lambda: event.event_id


@case("api", "accelerator")
def _(o):
    def result(name, *arguments):
        got = getattr(torch.accelerator, name)(*arguments)
        if isinstance(got, tuple):
            return [type(value).__name__ for value in got]
        if isinstance(got, dict):
            return {"dict": sorted(got)[:6]}
        return type(got).__name__

    keep = o.bytes(1)  # noqa: F841, so that there are figures
    for name in (
        *("is_available", "device_count", "current_accelerator"),
        *("current_device_index", "current_device_idx", "current_stream"),
        *("synchronize", "empty_cache", "memory_stats", "memory_allocated"),
        *("max_memory_allocated", "memory_reserved", "max_memory_reserved"),
        *("reset_peak_memory_stats", "reset_accumulated_memory_stats"),
        "get_memory_info",
    ):
        yield name, lambda name=name: result(name)
    for name in ("set_device_index", "set_device_idx"):
        yield name, lambda name=name: result(name, 0)


@case("api", "result")
def _(o):
    m, x = o.m, torch.ones(1, device=o.device)
    storage = x.untyped_storage()
    types = ("FloatTensor", "HalfTensor", "LongTensor", "ByteTensor", "FloatStorage")

    def made_by_default(before, after):
        before()
        try:
            return str(torch.empty(1).device)
        finally:
            after()

    def fake():
        with FakeTensorMode():
            return str((torch.empty(2, device=o.device) + 1).device)

    def pinned_batches():
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
        return [batch[0].is_pinned() for batch in loader]

    asked = {
        "is_available": m.is_available,
        "is_initialized": m.is_initialized,
        "init": m.init,
        "device_count": lambda: type(m.device_count()).__name__,
        "get_device_name": lambda: type(m.get_device_name()).__name__,
        "is_bf16_supported": m.is_bf16_supported,
        "memory_stats": lambda: type(m.memory_stats()).__name__,
        "memory_summary": lambda: type(m.memory_summary()).__name__,
        "get_allocator_backend": m.get_allocator_backend,
        "get_device_module": lambda: torch.get_device_module(o.device) is m,
        "get_device_module_default": lambda: torch.get_device_module() is m,
        "tensor_method": lambda: callable(getattr(torch.Tensor, NAME)),
        "module_method": lambda: callable(getattr(torch.nn.Module, NAME)),
        "storage_method": lambda: callable(getattr(torch.UntypedStorage, NAME)),
        "out_of_memory_error": lambda: m.OutOfMemoryError is torch.OutOfMemoryError,
        "accelerator_error": lambda: m.AcceleratorError is torch.AcceleratorError,
        "save_location_tag": lambda: torch.serialization.location_tag(storage),
        "get_arch_list": lambda: type(m.get_arch_list()).__name__,
        "get_sync_debug_mode": m.get_sync_debug_mode,
        "host_memory_stats": lambda: type(m.host_memory_stats()).__name__,
        "memory_snapshot": lambda: type(m.memory_snapshot()).__name__,
        "memory_usage": lambda: type(m.memory_usage()).__name__,
        "utilization": lambda: type(m.utilization()).__name__,
        "power_draw": lambda: type(m.power_draw()).__name__,
        "temperature": lambda: type(m.temperature()).__name__,
        "tensor_types": lambda: [hasattr(m, name) for name in types],
        "isinstance_of_tensor_type": lambda: isinstance(x, m.FloatTensor),
        "set_default_tensor_type": lambda: made_by_default(
            lambda: torch.set_default_tensor_type(m.FloatTensor),
            lambda: torch.set_default_tensor_type(torch.FloatTensor),
        ),
        "cpu_to_device_default_stream_repr": lambda: re.sub(
            r"[0-9a-fx]+>", "N>", repr(m.default_stream())
        ),
        "fake_tensor_device": fake,
        "data_loader_pin": pinned_batches,
    }
    yield from asked.items()
