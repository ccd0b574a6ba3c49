"""Networks, compiled for the device, train as they do compiled for the CPU: the same
losses and the same weights, bit by bit."""

import pytest
import torch
from compiled import DEVICE, check_same, compile, move
from networks import NETWORKS, Gpt, generate, words

pytestmark = pytest.mark.filterwarnings("ignore")

QUICK = ("Mlp",)
# PyTorch's formula for group_norm is another one for CPU tensors.
CLOSE = "UNet", "DiffusionBlock"
BREAKS = ("Lstm",)  # Dynamo leaves recurrent modules to eager


def make(name, device):
    torch.manual_seed(0)
    cls, make_batch = NETWORKS[name]
    return cls().to(device), lambda n: move(make_batch(n), device)


def train(name, device, sizes, **options):
    """Losses and weights of a step for each size, and a loss without gradients."""
    net, make_batch = make(name, device)
    fast = compile(net, fullgraph=name not in BREAKS, **options)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    torch.manual_seed(1)
    losses = []
    for size in sizes:
        loss = fast(*make_batch(size))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    net.eval()
    with torch.no_grad():
        losses.append(fast(*make_batch(sizes[0])))
    return losses, list(net.state_dict().values())


def check_training(name, sizes, **options):
    theirs, ours = (train(name, d, sizes, **options) for d in ("cpu", DEVICE))
    check_same(ours[0], theirs[0], "loss", close=name in CLOSE)
    check_same(ours[1], theirs[1], "weight", close=name in CLOSE)


def cases(quick=()):
    for name in NETWORKS:
        marks = () if name in quick else pytest.mark.slow
        yield pytest.param(name, marks=marks, id=name)


def test_there_are_twelve():
    assert len(NETWORKS) == 12


@pytest.mark.parametrize("name", cases(QUICK))
def test_a_network_is_trained(name):
    check_training(name, [4, 4, 4], dynamic=False)


@pytest.mark.parametrize("name", cases())
def test_a_network_is_trained_with_batches_of_all_sizes(name):
    check_training(name, [4, 3, 6], dynamic=True)


@pytest.mark.slow
def test_words_are_sampled_with_a_cache_of_keys_and_values():
    def sample(device):
        torch.manual_seed(0)
        net = Gpt().to(device).eval()
        step = compile(net.logits, dynamic=True, fullgraph=True)
        torch.manual_seed(1)
        with torch.no_grad():
            return generate(step, words(2, 3).to(device), 6)

    check_same(sample(DEVICE), sample("cpu"))
