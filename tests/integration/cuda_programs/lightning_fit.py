"""Lightning's Trainer with accelerator="gpu" and 16-bit precision."""

import tempfile
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        self.losses = []

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        self.losses.append((loss.item(), str(x.device)))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


x = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
loader = DataLoader(TensorDataset(x, x.argmax(1) % 3), batch_size=8)


def fit(**options):
    model = Classifier()
    trainer = L.Trainer(
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tempfile.mkdtemp(),
        **options,
    )
    trainer.fit(model, loader)
    losses, devices = zip(*model.losses)
    return torch.tensor(losses), set(devices)


expected, _ = fit(accelerator="cpu")
losses, devices = fit(accelerator="gpu", devices=1)
assert devices == {"cuda:0"}
torch.testing.assert_close(losses, expected)
losses, devices = fit(accelerator="auto", devices=[1], precision="16-mixed")
assert devices == {"cuda:1"}
torch.testing.assert_close(losses, expected, rtol=0.02, atol=0.02)
