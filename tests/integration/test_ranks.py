"""Two ranks: what libraries compute on openreg with occl is what they do on the CPU."""

import json
import os
import subprocess
import sys

import pytest

COMMON = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

on_cpu, path = sys.argv[1] == "cpu", sys.argv[2]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
data = TensorDataset(x, x.argmax(1) % 3)
told = []

def tell(device):
    assert device.type == ("cpu" if on_cpu else "openreg"), device
    if os.environ["RANK"] == "0":
        with open(path, "w") as file:
            json.dump(told, file)
"""

ACCELERATE = """
if on_cpu:
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
else:
    from torch_openreg.contrib.accelerate import Accelerator
    accelerator = Accelerator()
assert accelerator.num_processes == 2
optimizer = torch.optim.AdamW(model.parameters(), 0.05, foreach=False)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, 4))
for _ in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        told.append(accelerator.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        optimizer.zero_grad()
        told.append(accelerator.gather(loss.detach()).mean().item())
tell(accelerator.device)
accelerator.end_training()
"""

TRANSFORMERS = """
if on_cpu:
    from transformers import Trainer, TrainingArguments
else:
    from torch_openreg.contrib.transformers import Trainer, TrainingArguments

class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = model
    def forward(self, x, labels):
        scores = self.net(x)
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}

rows = [{"x": x, "labels": y} for x, y in data]
arguments = TrainingArguments(
    output_dir=path + ".run", use_cpu=on_cpu, per_device_train_batch_size=4,
    num_train_epochs=3, logging_steps=1, report_to=[], save_strategy="no",
    disable_tqdm=True, optim="adamw_torch", seed=0)
assert arguments.world_size == 2
trainer = Trainer(Wrapped(), arguments, train_dataset=rows)
trainer.train()
told += [log["loss"] for log in trainer.state.log_history if "loss" in log]
tell(trainer.args.device)
"""

LIGHTNING = """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = model
    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        told.append(loss.item())
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.05, foreach=False)

options = {"accelerator": "cpu", "strategy": "ddp"}
if not on_cpu:
    import torch_openreg.contrib.lightning
    options = {"accelerator": "openreg", "strategy": "ddp_openreg"}
trainer = lightning.Trainer(
    **options, devices=2, max_epochs=3, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False)
module = Module()
trainer.fit(module, DataLoader(data, 4, shuffle=False))
assert trainer.world_size == 2
tell(trainer.strategy.root_device)
"""


def told_by(program, launch, device, folder):
    """What the program writes down on its ranks."""
    script, path = folder / "script.py", folder / device
    script.write_text(COMMON + program)
    done = subprocess.run(
        [sys.executable, "-m", *launch, script, device, path],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    "program",
    [ACCELERATE, TRANSFORMERS, LIGHTNING],
    ids=["accelerate", "transformers", "Lightning"],
)
def test_two_ranks_train_as_on_the_cpu(program, tmp_path):
    launch = ["torch_openreg.launch", "--devices", "2"]
    told = [told_by(program, launch, device, tmp_path) for device in ("openreg", "cpu")]
    assert len(told[0]) >= 20
    assert told[0] == pytest.approx(told[1], rel=1e-4, abs=1e-5)


def test_accelerate_launch_starts_ranks(tmp_path):
    launch = ["accelerate.commands.launch", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--multi_gpu"]
    launch += ["--dynamo_backend", "no"]
    told = told_by(ACCELERATE, launch, "openreg", tmp_path)
    assert len(told) >= 20 and told[-1] < told[1]
