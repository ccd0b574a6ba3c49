"""Programs as people write them are not reported: the bar for false alarms."""

import pytest
import torch
from device_name import NAME, m
from sanitizer_zoo import in_one_process
from sanitizer_zoo.training import capture
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_openreg import sanitizer

pytestmark = in_one_process
CHECKS = "race,memory,init"


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2).to(NAME)


def train_plainly():
    model = encoder()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8, 16, device=NAME)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()


def train_with_amp():
    model = encoder()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler(NAME)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast(NAME, torch.float16):
            loss = model(torch.randn(4, 8, 16, device=NAME)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def train_from_a_loader():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout()).to(NAME)
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.randn(32, 8), torch.randn(32, 8))
    for x, y in DataLoader(data, batch_size=8, pin_memory=True, shuffle=True):
        x, y = (part.to(NAME, non_blocking=True) for part in (x, y))
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def train_with_a_graph():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(NAME)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    x = torch.zeros(4, 8, device=NAME)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    side = m.Stream()
    side.wait_stream(m.current_stream())
    with m.stream(side):
        for _ in range(2):
            step()
    m.current_stream().wait_stream(side)
    graph = capture(step)
    for _ in range(3):
        x.copy_(torch.randn(4, 8))
        graph.replay()
    sum(p.sum() for p in model.parameters()).item()


def train_in_two_streams():
    model, other = nn.Linear(8, 8).to(NAME), nn.Linear(8, 8).to(NAME)
    x, side = torch.randn(4, 8, device=NAME), m.Stream()
    for _ in range(3):
        side.wait_stream(m.current_stream())
        with m.stream(side):
            right = other(x)
        left = model(x)
        m.current_stream().wait_stream(side)
        right.record_stream(m.current_stream())
        (left + right).sum().backward()


def generate():
    """A cache that is filled step by step."""
    lstm, head = nn.LSTM(8, 8, batch_first=True).to(NAME), nn.Linear(8, 5).to(NAME)
    cache = torch.empty(2, 6, 8, device=NAME)
    token, state = torch.zeros(2, 1, 8, device=NAME), None
    with torch.no_grad():
        for i in range(6):
            out, state = lstm(token, state)
            cache[:, i] = out[:, 0]
            choice = head(cache[:, : i + 1].mean(1)).softmax(-1).multinomial(1)
            token = nn.functional.one_hot(choice, 8).float()
    cache.cpu()


@pytest.mark.parametrize(
    "program",
    [
        train_plainly,
        train_with_amp,
        train_from_a_loader,
        train_with_a_graph,
        train_in_two_streams,
        generate,
    ],
    ids=lambda program: program.__name__,
)
def test_a_usual_program_is_not_reported(program):
    with sanitizer.check(CHECKS):
        program()
    with sanitizer.check(CHECKS):  # kernels are queued from the second call on
        program()


IN_RANKS = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_openreg import sanitizer

def make():
    layers = [nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(*layers).to(device)

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 16, device=device)).square().mean().backward()
        optimizer.step()

with sanitizer.check("race,memory,init"):
    train(DistributedDataParallel(make()))
with sanitizer.check("race,memory,init"):
    sharded = make()
    for layer in sharded:
        fully_shard(layer)
    train(fully_shard(sharded))
"""


@pytest.mark.slow
def test_data_parallel_training_is_not_reported(ranks):
    ranks(IN_RANKS, 2)
