"""A device that is lost in the middle of training, and a program that goes on.

    python examples/lost_device.py

Kernels run in a process of their own; this program kills it, hears of it, takes the
device back into service, loads its checkpoint, and ends with the same weights as a
run that nothing happened to.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

os.environ["OPENREG_EXECUTOR"] = "process"

import torch
from torch import nn
from torch_openreg.device import device_processes

DEVICE_LOST = 46
STEPS = 20


def make():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    network = network.to("openreg")
    return network, torch.optim.Adam(network.parameters(), 0.01)


def batch(step):
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(step))
    return x.to("openreg"), x.sum(1, keepdim=True).to("openreg")


def kill_the_device():
    mine = (p.pid for p in device_processes() if p.driver == os.getpid())
    os.kill(next(mine), signal.SIGKILL)


def save(state, checkpoint):
    """All of it or nothing: the device may be lost while it is written."""
    torch.save(state, checkpoint.with_suffix(".new"))
    checkpoint.with_suffix(".new").replace(checkpoint)


def train(network, optimizer, checkpoint, first=0, disaster=None):
    for step in range(first, STEPS):
        if step == disaster:
            kill_the_device()
        x, y = batch(step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), y)
        loss.backward()
        optimizer.step()
        save((step + 1, network.state_dict(), optimizer.state_dict()), checkpoint)
    return loss.item()


def resume(network, optimizer, checkpoint):
    """Returns the step to go on with."""
    step, weights, state = torch.load(checkpoint)
    network.load_state_dict(weights)
    optimizer.load_state_dict(state)
    return step


def main():
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        quiet = train(*make(), checkpoint)

        network, optimizer = make()
        # docs:begin lost-device
        try:
            train(network, optimizer, checkpoint, disaster=STEPS // 2)
        except torch.AcceleratorError as error:
            if error.error_code != DEVICE_LOST:
                raise
            print(str(error).splitlines()[1].split(";")[0])
        torch.openreg.reset_device()
        step = resume(network, optimizer, checkpoint)
        print(f"going on at step {step} of {STEPS}")
        loss = train(network, optimizer, checkpoint, first=step)
        # docs:end lost-device
    print(f"loss {loss:.6f}, and {quiet:.6f} without the disaster")
    return 0 if loss == quiet else 1


if __name__ == "__main__":
    sys.exit(main())
