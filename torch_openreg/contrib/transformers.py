"""transformers on openreg: its Trainer with the device, half precision and resume."""

import functools
import os
from typing import Any

import torch
import transformers
from accelerate import PartialState

from .accelerate import join_ranks, use_fp16

__all__ = ["Trainer", "TrainingArguments"]


# docs:begin transformers-trainer
class TrainingArguments(transformers.TrainingArguments):
    """transformers' TrainingArguments with the device openreg, unless `use_cpu`."""

    @functools.cached_property
    def _setup_devices(self) -> torch.device:
        if self.use_cpu:
            return super()._setup_devices
        device = join_ranks()
        self.use_cpu = device.index is not None  # the group's kind, see Accelerator
        try:
            super()._setup_devices  # noqa: B018
        finally:
            self.use_cpu = False
        PartialState().device = device
        return device

    def _validate_args(self) -> None:
        # transformers accepts `bf16` for the CPU and for a fixed list of devices.
        use_cpu, self.use_cpu = self.use_cpu, True
        try:
            super()._validate_args()
        finally:
            self.use_cpu = use_cpu


class Trainer(transformers.Trainer):
    """transformers' Trainer with fp16, and with the devices' random numbers in its
    checkpoints: without them dropout would draw others after a resume."""

    def _has_fp16(self) -> bool:
        arguments = self.args
        return (
            arguments.mixed_precision == "fp16" and arguments.device.type == "openreg"
        )

    def _build_accelerator_args(self, **options: Any) -> dict[str, Any]:
        found = super()._build_accelerator_args(**options)
        return {**found, "mixed_precision": "bf16"} if self._has_fp16() else found

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        if self._has_fp16():
            use_fp16(self.accelerator)

    # docs:end transformers-trainer

    def _random_states_file(self, folder: str) -> str:
        name = f"openreg_rng_state_{self.args.process_index}.pth"
        return os.path.join(folder, name)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        states = torch.openreg.get_rng_state_all()
        torch.save(states, self._random_states_file(output_dir))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        super()._load_rng_state(checkpoint)
        if checkpoint is None:
            return
        file = self._random_states_file(checkpoint)
        if os.path.isfile(file):  # else the checkpoint is of another device
            torch.openreg.set_rng_state_all(torch.load(file))
