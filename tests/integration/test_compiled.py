"""transformers with torch.compile: a decoder that trains, and that generates with a
static cache."""

import pytest
import torch
from device_name import NAME
from test_transformers import WORDS, make_decoder
from torch._dynamo.utils import counters
from transformers import CompileConfig

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()
    counters.clear()


def generate(model, device, **options):
    words = torch.arange(3, 11).view(2, 4).to(device)
    with torch.no_grad():
        return model.generate(
            words, max_new_tokens=8, do_sample=False, **options
        ).tolist()


@pytest.fixture(scope="module")
def expected():
    return generate(make_decoder().eval(), "cpu")


@pytest.mark.parametrize("cache", ["static", None])
def test_a_compiled_decoder_generates_what_the_cpu_does(cache, expected):
    model = make_decoder().eval().to(NAME)
    model.forward = torch.compile(model.forward)
    assert generate(model, NAME, cache_implementation=cache) == expected
    assert counters["stats"]["unique_graphs"] > 0


def test_generate_compiles_and_replays_by_itself(expected):
    """What it compiles is the step from word to word: the cache is made before."""
    model = make_decoder().eval().to(NAME)
    config = CompileConfig(mode="reduce-overhead")
    config._compile_all_devices = True  # its list of devices is CUDA's and XPU's
    options = {"cache_implementation": "static", "compile_config": config}
    assert generate(model, NAME, **options) == expected
    assert counters["inductor"]["cudagraph_replays"] > 0


def test_a_compiled_decoder_trains_with_the_bits_of_the_cpu():
    def losses(device):
        torch._dynamo.reset()
        model = make_decoder().to(device)
        texts = (torch.arange(3, 27).view(4, 6) % WORDS).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model.compile(fullgraph=True)
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(input_ids=texts, labels=texts).loss
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    ours = losses(NAME)
    assert ours == losses("cpu")
    assert ours[-1] < ours[0]
