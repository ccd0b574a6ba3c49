"""A test suite of a model that runs on every device of the machine, or on none.

pytest examples/testing
"""

import pytest
import torch

DEVICES = ["cpu"]
if torch.accelerator.is_available():
    DEVICES.append(torch.accelerator.current_accelerator().type)


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device in turn; what the test left running must have gone well."""
    yield torch.device(request.param)
    if request.param != "cpu":
        torch.accelerator.synchronize()


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )


def test_training_lowers_the_loss(device):
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    data = torch.randn(32, 4, generator=torch.Generator().manual_seed(1)).to(device)
    losses = []
    for _ in range(20):
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_a_batch_is_copied_while_the_last_one_is_used(device):
    """Pinned memory and a side stream, with the waits that a GPU needs."""
    if device.type == "cpu":
        pytest.skip("there is nothing to overlap")
    module = torch.get_device_module(device)
    side, total = module.Stream(), torch.zeros(4, device=device)
    for batch in torch.arange(12.0).view(3, 4):
        with module.stream(side):
            copy = batch.pin_memory().to(device, non_blocking=True)
        module.current_stream().wait_stream(side)
        copy.record_stream(module.current_stream())
        total += copy
    assert total.tolist() == [12, 15, 18, 21]
