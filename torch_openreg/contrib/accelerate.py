"""accelerate on openreg: what its lists of devices leave out."""

import os
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator as _Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import get_max_memory

__all__ = ["Accelerator", "join_ranks", "max_memory", "use_fp16"]


# docs:begin accelerate-accelerator
class Accelerator(_Accelerator):
    """accelerate's Accelerator with the device openreg.

    It adds fp16, which accelerate refuses for a device that is not in its list, and
    the devices' random numbers in `save_state` and `load_state`.
    """

    def __init__(self, *, mixed_precision: Any = None, **options: Any):
        shared = AcceleratorState._shared_state  # of all accelerators in a process
        other = shared.get("device", torch.device("openreg"))
        if other.type != "openreg":
            raise ValueError(
                f"there is an accelerator on {other} in this process already, and all "
                "share one device; make the one for openreg first"
            )
        # accelerate's group for CPUs is the one that asks nothing of the device.
        device = join_ranks()
        PartialState(cpu=device.index is not None).device = device
        if mixed_precision is None:
            mixed_precision = shared.get("_mixed_precision") or os.environ.get(
                "ACCELERATE_MIXED_PRECISION"
            )
        if str(mixed_precision).lower() == "fp16":
            had_fp16 = shared.get("_mixed_precision") == "fp16"
            if had_fp16:
                shared["_mixed_precision"] = "bf16"
            try:
                super().__init__(mixed_precision="bf16", **options)
            finally:
                if had_fp16:
                    shared["_mixed_precision"] = "fp16"
            use_fp16(self)
        else:
            super().__init__(mixed_precision=mixed_precision, **options)
        self.register_save_state_pre_hook(self._save_random_states)
        self.register_load_state_pre_hook(self._load_random_states)

    # docs:end accelerate-accelerator

    def _random_states_file(self, folder: str) -> str:
        name = f"openreg_random_states_{self.process_index}.pkl"
        return os.path.join(folder, name)

    def _save_random_states(self, models: Any, weights: Any, folder: str) -> None:
        states = torch.openreg.get_rng_state_all()
        torch.save(states, self._random_states_file(folder))

    def _load_random_states(self, models: Any, folder: str) -> None:
        file = self._random_states_file(folder)
        if os.path.isfile(file):  # else the state was saved on another device
            torch.openreg.set_rng_state_all(torch.load(file))


def join_ranks() -> torch.device:
    """The device of this process. One of several ranks, which torchrun or accelerate
    started, joins the others and has the device with its number."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return torch.device("openreg")
    device = torch.device("openreg", int(os.environ["LOCAL_RANK"]))
    torch.openreg.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,openreg:occl")
    return device


def use_fp16(accelerator: _Accelerator) -> None:
    """Turn an accelerator that was made for bf16 into one for fp16.

    The two differ in the dtype and the scaler; accelerate refuses to make the second
    for a device that is not in its list.
    """
    accelerator.state._mixed_precision = "fp16"
    handler = accelerator.scaler_handler
    options = handler.to_kwargs() if handler is not None else {}
    accelerator.scaler = torch.amp.GradScaler("openreg", **options)


def max_memory() -> dict[int | str, int]:
    """The free bytes of each openreg device and of the host, for the arguments
    `max_memory` of accelerate and transformers, which would find the host alone."""
    devices = range(torch.openreg.device_count())
    free = {index: torch.openreg.mem_get_info(index)[0] for index in devices}
    return {**free, "cpu": get_max_memory()["cpu"]}
