"""What the tests of libraries share."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is imported

import pytest  # noqa: E402
import torch  # noqa: E402
from device_name import NAME, m  # noqa: E402


@pytest.fixture
def on_openreg(monkeypatch):
    """accelerate and transformers take the device that this names."""
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", NAME)


@pytest.fixture(autouse=True)
def as_seeded():
    """Each test starts from the same random numbers, here and on the devices."""
    torch.manual_seed(0)
    yield
    m.set_device(0)
