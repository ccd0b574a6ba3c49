"""docs/libraries.md: each block of Python on it does what the page says."""

import re
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

PAGE = Path(__file__).resolve().parents[2] / "docs" / "libraries.md"


def blocks():
    """Section -> its block of Python; "#" is the text above the sections."""
    quoted = re.compile(r"^<!-- code .*?^<!-- end -->$", re.M | re.S)
    sections = re.split(r"^## ", quoted.sub("", PAGE.read_text()), flags=re.M)
    found = {
        text.split()[0]: re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        for text in sections
    }
    return {name: code for name, (code,) in found.items()}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the block of a section; returns the names that there are afterwards."""
    monkeypatch.chdir(tmp_path)

    def run(section):
        model = torch.nn.Linear(8, 2)
        data = TensorDataset(torch.randn(16, 8))
        names = {
            "model": model,
            "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
            "loader": DataLoader(data, batch_size=4),
        }
        exec(compile(blocks()[section], PAGE.name, "exec"), names)
        return names

    return run


def test_the_blocks_are_those_tested_here():
    assert sorted(blocks()) == ["#", "Lightning", "accelerate", "transformers"]


def test_the_first_example_trains_on_the_device(run):
    names = run("#")
    assert names["loss"].device.type == "openreg"
    assert names["model"].weight.grad is not None


def test_accelerate_prepares_for_the_device(run):
    names = run("accelerate")
    assert names["accelerator"].scaler is not None
    assert names["model"].weight.device.type == "openreg"
    (x,) = next(iter(names["loader"]))
    assert x.device.type == "openreg"
    names["accelerator"].backward(names["model"](x).sum())
    names["optimizer"].step()


def test_transformers_takes_bfloat16_on_the_device(run):
    names = run("transformers")
    assert names["arguments"].device.type == "openreg"
    assert names["trainer"].model.weight.device.type == "openreg"


@pytest.mark.filterwarnings("ignore:.*tensorboardX:UserWarning")
def test_lightning_takes_the_device_that_is_named(run):
    trainer = run("Lightning")["trainer"]
    assert trainer.strategy.root_device == torch.device("openreg:1")
    assert trainer.precision == "bf16-mixed"
