"""The pytest plugin of torch_openreg: on with ``pytest --openreg``, inert otherwise.

A package of its own: pytest imports it at every start, also where nobody uses the
device, so it imports neither torch nor torch_openreg.
"""

import pytest

from ._checks import assert_peak_below, no_sync

__all__ = ["assert_peak_below", "no_sync"]

_MARKER = (
    "openreg(memory, devices, profile, faults, schedule): with --openreg, the device that "
    "a test needs: capacity, number and kind of the devices (in a process of its own), "
    "a fault plan, a schedule"
)


def pytest_addoption(parser):
    group = parser.getgroup("openreg", "a PyTorch accelerator made of software")
    group.addoption(
        "--openreg",
        action="store_true",
        help="run tests under schedules, the sanitizer, leak checks and fault plans",
    )
    group.addoption(
        "--openreg-schedules",
        default=None,
        metavar="LIST",
        help="run every test under each of these: auto, async, adversarial",
    )
    group.addoption(
        "--openreg-seed",
        type=int,
        default=0,
        metavar="N",
        help="the seed of the adversarial schedule (default: 0)",
    )
    group.addoption(
        "--openreg-sanitize",
        default="",
        metavar="CHECKS",
        help="what the sanitizer looks for in every test, such as race, or all",
    )
    group.addoption(
        "--openreg-allow-leaks",
        action="store_true",
        help="do not fail tests that leave device memory behind",
    )
    # For the process of one test: the file for its outcome.
    group.addoption("--openreg-child", default=None, help="for internal use")


def pytest_configure(config):
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("openreg"):
        from ._plugin import OpenRegPlugin

        config.pluginmanager.register(OpenRegPlugin(config), "openreg-session")


@pytest.fixture
def openreg_device():
    """The first device: ``openreg:0``, or ``cuda:0`` where it stands in for CUDA."""
    return _devices()[0]


@pytest.fixture
def openreg_devices():
    """All devices, as a list."""
    return _devices()


@pytest.fixture
def openreg_schedule(request):
    """The schedule that the test runs under; ``None`` if only one was chosen."""
    return getattr(request, "param", None)


def _devices():
    import torch

    from torch_openreg._device_name import NAME
    from torch_openreg.openreg import device_count

    devices = [torch.device(NAME, index) for index in range(device_count())]
    if not devices:
        pytest.skip("there is no openreg device: OPENREG_DEVICE_COUNT is 0")
    return devices
