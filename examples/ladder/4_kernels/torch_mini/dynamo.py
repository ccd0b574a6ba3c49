"""What the front end of torch.compile asks of the device. It is told when somebody imports
that part of PyTorch, which takes seconds: programs that never do need not wait."""

import importlib.util
import sys

import torch

NAME = "torch._dynamo.device_interface"


def register(module):
    """Tells the front end of the device and of each of its indices."""
    accelerator = torch.accelerator

    class MiniInterface(module.DeviceInterface):
        device = accelerator.device_index
        Event = torch.Event
        Stream = torch.Stream
        current_device = staticmethod(accelerator.current_device_index)
        current_stream = staticmethod(accelerator.current_stream)
        device_count = staticmethod(accelerator.device_count)
        exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
        is_available = staticmethod(accelerator.is_available)
        maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)
        memory_allocated = staticmethod(accelerator.memory_allocated)
        set_device = staticmethod(accelerator.set_device_index)
        set_stream = staticmethod(accelerator.set_stream)
        synchronize = staticmethod(accelerator.synchronize)

        @staticmethod
        def is_bf16_supported(including_emulation=False):
            return True

    module.register_interface_for_device("mini", MiniInterface)
    for index in range(accelerator.device_count()):
        module.register_interface_for_device(f"mini:{index}", MiniInterface)


class Finder:
    """Waits for the import."""

    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)  # the others find it
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def load_and_register(module):
            load(module)
            register(module)

        spec.loader.exec_module = load_and_register
        return spec


if NAME in sys.modules:
    register(sys.modules[NAME])
else:
    sys.meta_path.insert(0, Finder())
