"""The device as Dynamo and Inductor ask for it."""

from torch._dynamo import device_interface
from torch.types import Device

from torch_openreg import _C, openreg
from torch_openreg._C import _OpenRegDeviceProperties


# docs:begin device-interface
class OpenRegInterface(device_interface.DeviceInterface):
    """What Dynamo and Inductor call on a device, under their names for it."""

    device = openreg.device  # type: ignore[assignment]
    Event = openreg.Event  # type: ignore[assignment]
    Stream = openreg.Stream  # type: ignore[assignment]

    class Worker:
        """Answers in the processes that compile, where no device may be started:
        the figures are read before these begin."""

        @staticmethod
        def set_device(device: int) -> None:
            device_interface.caching_worker_current_devices["openreg"] = device

        @staticmethod
        def current_device() -> int:
            chosen = device_interface.caching_worker_current_devices
            if "openreg" in chosen:
                return chosen["openreg"]
            return openreg.current_device()

        @staticmethod
        def get_device_properties(device: Device = None) -> _OpenRegDeviceProperties:
            known = device_interface.caching_worker_device_properties
            if "openreg" not in known:
                known["openreg"] = [
                    openreg.get_device_properties(index)
                    for index in range(openreg.device_count())
                ]
            index = openreg._utils._get_device_index(device, optional=True)
            return known["openreg"][index]

    current_device = staticmethod(openreg.current_device)
    set_device = staticmethod(openreg.set_device)
    exchange_device = staticmethod(openreg._exchange_device)
    maybe_exchange_device = staticmethod(openreg._maybe_exchange_device)
    device_count = staticmethod(openreg.device_count)
    is_available = staticmethod(openreg.is_available)
    stream = staticmethod(openreg.stream)
    current_stream = staticmethod(openreg.current_stream)
    set_stream = staticmethod(openreg.set_stream)
    synchronize = staticmethod(openreg.synchronize)
    get_device_properties = staticmethod(openreg.get_device_properties)
    memory_allocated = staticmethod(openreg.memory_allocated)
    is_bf16_supported = staticmethod(openreg.is_bf16_supported)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The handle of a device's current stream, an ``orStream_t``."""
        return openreg.current_stream(device_idx).openreg_stream

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        _C._setStream(stream_id, device_index, device_type)

    @staticmethod
    def get_compute_capability(device: Device = None) -> int:
        major, minor = openreg.get_device_capability(device)
        return major * 10 + minor


# docs:end device-interface


def register() -> None:
    """Give Dynamo the interface, for the device and for each of its indices."""
    names = ["openreg", *(f"openreg:{i}" for i in range(openreg.device_count()))]
    for name in names:
        device_interface.register_interface_for_device(name, OpenRegInterface)
