"""DataLoader: workers, pinned batches, and batches made on the device."""

import pytest
import remote as r
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, device):
        self.device = device

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((2,), float(i), device=self.device)


ALL = [[float(i)] * 2 for i in range(8)]


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=["none", "two"])
def test_batches_are_pinned_and_copied(workers):
    torch.ones(1, device="openreg")  # workers are forked from a process that uses it
    rows = []
    for batch in DataLoader(Numbers("cpu"), batch_size=4, pin_memory=True, **workers):
        assert batch.is_pinned()
        rows += batch.to("openreg", non_blocking=True).tolist()
    assert rows == ALL


@pytest.mark.filterwarnings("ignore:pin_memory_device is deprecated")
def test_the_device_to_pin_for_can_be_named():
    loader = DataLoader(
        Numbers("cpu"), batch_size=8, pin_memory=True, pin_memory_device="openreg"
    )
    assert [batch.is_pinned() for batch in loader] == [True]


def test_workers_make_batches_on_the_device():
    loader = DataLoader(
        Numbers("openreg"),
        batch_size=4,
        num_workers=1,
        multiprocessing_context=r.QUICK,
    )
    batches = list(loader)
    assert {str(batch.device) for batch in batches} == {"openreg:0"}
    assert [row for batch in batches for row in batch.tolist()] == ALL


def test_forked_workers_cannot_use_the_device():
    torch.ones(1, device="openreg")
    loader = DataLoader(Numbers("openreg"), num_workers=1)
    with pytest.raises(RuntimeError, match="Cannot re-initialize OpenReg in forked"):
        next(iter(loader))
