"""A checkpoint, written on one device and read on others."""

import os
import tempfile

import torch
from torch import nn

path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
torch.manual_seed(0)
model = nn.Linear(4, 4).to("cuda:1")
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(2, 4, device="cuda:1")).sum().backward()
optimizer.step()
torch.save(
    {
        "epoch": 3,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "rng": torch.cuda.get_rng_state_all(),
    },
    path,
)
weight = model.weight.detach().cpu()


def device_of(**options):
    loaded = torch.load(path, **options)["model_state_dict"]["weight"]
    assert torch.equal(loaded.cpu(), weight)
    return str(loaded.device)


assert device_of() == "cuda:1"
assert device_of(map_location="cpu") == "cpu"
assert device_of(map_location=torch.device("cuda")) == "cuda:0"
assert device_of(map_location="cuda:0") == "cuda:0"
assert device_of(map_location={"cuda:1": "cuda:0"}) == "cuda:0"
assert device_of(map_location={"cuda:1": "cpu"}) == "cpu"
assert device_of(map_location=lambda storage, location: storage) == "cpu"
assert device_of(map_location=lambda storage, loc: storage.cuda(0)) == "cuda:0"
assert device_of(mmap=True, map_location="cpu") == "cpu"
with torch.device("cuda"):
    assert device_of(map_location="cuda") == "cuda:0"

checkpoint = torch.load(path, map_location="cuda:0", weights_only=True)
twin = nn.Linear(4, 4).cuda()
twin.load_state_dict(checkpoint["model_state_dict"])
again = torch.optim.Adam(twin.parameters())
again.load_state_dict(checkpoint["optimizer_state_dict"])
assert torch.equal(twin.weight.cpu(), weight)
moment = again.state[twin.weight]["exp_avg"]
assert moment.device == torch.device("cuda:0")
