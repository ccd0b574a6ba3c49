"""What the tests of libraries share."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is imported

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture
def on_openreg(monkeypatch):
    """accelerate and transformers take the device that this names."""
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "openreg")


@pytest.fixture(autouse=True)
def as_seeded():
    """Each test starts from the same random numbers, here and on the devices."""
    torch.manual_seed(0)
    yield
    torch.openreg.set_device(0)
