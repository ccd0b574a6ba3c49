"""A run that is continued by another process: weights, optimizer, schedule, scaler and
the states of all generators, so that it gives the losses that the first would have."""

import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)

model = nn.Sequential(
    nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 4)
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)
scaler = torch.amp.GradScaler("cuda")
parts = {
    "model": model,
    "optimizer": optimizer,
    "scheduler": scheduler,
    "scaler": scaler,
}


def step():
    x = torch.randn(8, 16, device="cuda") * (1 + random.random())
    y = torch.from_numpy(np.random.randint(0, 4, 8)).cuda()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    return loss.item()


def save(path):
    states = {name: part.state_dict() for name, part in parts.items()}
    states["python"] = random.getstate()
    states["numpy"] = np.random.get_state()
    states["cpu"] = torch.get_rng_state()
    states["cuda"] = torch.cuda.get_rng_state_all()
    torch.save(states, path)


def load(path):
    states = torch.load(path, map_location="cuda", weights_only=False)
    for name, part in parts.items():
        part.load_state_dict(states[name])
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["cpu"].cpu())
    torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])


if len(sys.argv) > 1:
    load(sys.argv[1])
    print(json.dumps([step() for _ in range(4)]))
else:
    for _ in range(4):
        step()
    path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
    save(path)
    expected = [step() for _ in range(4)]
    resumed = subprocess.run(
        [sys.executable, __file__, path], check=True, stdout=subprocess.PIPE
    )
    assert json.loads(resumed.stdout.splitlines()[-1]) == expected
