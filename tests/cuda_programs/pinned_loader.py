"""A DataLoader with workers and pinned memory, copies that do not block."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"x": torch.tensor([float(index)]), "y": torch.tensor(index**2)}


if __name__ == "__main__":
    loader = DataLoader(
        Squares(),
        batch_size=16,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=2,
    )
    for _ in range(2):
        total = torch.zeros((), dtype=torch.int64, device="cuda")
        for batch in loader:
            assert batch["x"].is_pinned()
            x = batch["x"].to("cuda", non_blocking=True)
            y = batch["y"].cuda(non_blocking=True)
            assert torch.equal(x.square().squeeze(1).long(), y)
            total += y.sum()
        assert total.item() == sum(i * i for i in range(64))
    host = torch.randn(1000).pin_memory()
    out = torch.empty(1000, pin_memory=True)
    out.copy_(host.cuda(non_blocking=True) * 2, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(out, host * 2)
