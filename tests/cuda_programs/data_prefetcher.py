"""The data prefetcher of apex: the next batch is copied and normalized in a stream of its
own while the model works; timed with events."""

import numpy as np
import torch
from torch import nn


def fast_collate(batch):
    targets = torch.tensor([target for _, target in batch], dtype=torch.int64)
    tensor = torch.zeros((len(batch), 3, 8, 8), dtype=torch.uint8)
    tensor = tensor.contiguous(memory_format=torch.channels_last)
    for i, (image, _) in enumerate(batch):
        tensor[i] += torch.from_numpy(image)
    return tensor, targets


MEAN = torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).view(1, 3, 1, 1)
STD = torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).view(1, 3, 1, 1)


class data_prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.mean, self.std = MEAN.cuda(), STD.cuda()
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_input = self.next_input.cuda(non_blocking=True)
            self.next_target = self.next_target.cuda(non_blocking=True)
            self.next_input = self.next_input.float()
            self.next_input = self.next_input.sub_(self.mean).div_(self.std)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        input, target = self.next_input, self.next_target
        if input is not None:
            input.record_stream(torch.cuda.current_stream())
            target.record_stream(torch.cuda.current_stream())
        self.preload()
        return input, target


rng = np.random.default_rng(0)
dataset = [
    (rng.integers(0, 255, (3, 8, 8), dtype=np.uint8), int(rng.integers(0, 5)))
    for _ in range(40)
]
loader = torch.utils.data.DataLoader(
    dataset, batch_size=8, num_workers=1, pin_memory=True, collate_fn=fast_collate
)


def build(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)
    )
    model = model.to(device).to(memory_format=torch.channels_last)
    return model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)


def step(model, optimizer, input, target):
    loss = nn.functional.cross_entropy(model(input), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


model, optimizer = build("cuda")
prefetcher = data_prefetcher(loader)
input, target = prefetcher.next()
losses, events = [], []
while input is not None:
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    losses.append(step(model, optimizer, input, target))
    end.record()
    events.append((start, end))
    input, target = prefetcher.next()
torch.cuda.synchronize()
assert len(losses) == 5 and all(s.elapsed_time(e) > 0 for s, e in events)

model, optimizer = build("cpu")
expected = [
    step(model, optimizer, input.float().sub_(MEAN).div_(STD), target)
    for input, target in loader
]
torch.testing.assert_close(torch.stack(losses).cpu(), torch.stack(expected))
