"""Lightning: its Trainer on one openreg device."""

from pathlib import Path

import lightning
import pytest
import torch
from lightning.fabric.strategies import SingleDeviceStrategy as FabricStrategy
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import DeviceStatsMonitor, ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_openreg import sanitizer
from torch_openreg.contrib.lightning import OpenRegAccelerator, SingleOpenRegStrategy

# Lightning's advice about loaders and folders, and what torch says to Lightning.
ADVICE = "ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning"
pytestmark = [
    pytest.mark.filterwarnings(ADVICE),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* not empty"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
]


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU())
        self.head = nn.Linear(32, 3)
        self.losses, self.dtypes, self.places = [], set(), set()

    def loss(self, batch):
        x, y = batch
        assert x.device == y.device == self.device
        scores = self.head(self.layers(x))
        self.dtypes.add(scores.dtype)
        return nn.functional.cross_entropy(scores, y)

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(batch))

    test_step = validation_step

    def predict_step(self, batch, index):
        found = self.head(self.layers(batch[0]))
        self.places.add(found.device.type)
        return found

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 0.01, foreach=False)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def make_loader(shuffle=False):
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    order = torch.Generator().manual_seed(2)
    data = TensorDataset(x, x.argmax(1) % 3)
    return DataLoader(data, 8, shuffle=shuffle, generator=order)


@pytest.fixture
def make_trainer(tmp_path):
    def make(place, **options):
        if place == "openreg":
            place = {"accelerator": "openreg", "strategy": "single_openreg"}
        elif place == "cpu":
            place = {"accelerator": "cpu"}
        quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary"), False)
        options = {"max_epochs": 2, "devices": 1, "logger": False, **options}
        options = {"enable_checkpointing": False, **quiet, **place, **options}
        return lightning.Trainer(default_root_dir=tmp_path, **options)

    return make


def fit(trainer, shuffle=True, **options):
    model = Classifier()
    trainer.fit(model, make_loader(shuffle), make_loader(), **options)
    return model


# --- training -----------------------------------------------------------------


def test_training_gives_the_losses_of_the_cpu(make_trainer):
    options = {"gradient_clip_val": 0.5, "accumulate_grad_batches": 2}
    there, here = make_trainer("cpu", **options), make_trainer("openreg", **options)
    expected, model = fit(there), fit(here)
    assert here.strategy.root_device == torch.device("openreg:0")
    assert isinstance(here.accelerator, OpenRegAccelerator)
    assert len(model.losses) == 8
    assert model.losses == expected.losses
    measured = {name: value.item() for name, value in here.callback_metrics.items()}
    assert measured == {
        name: value.item() for name, value in there.callback_metrics.items()
    }
    assert set(measured) == {"train_loss", "val_loss"}


def test_the_sanitizer_finds_nothing_in_training(make_trainer):
    with sanitizer.check("race,memory,init"):
        fit(make_trainer("openreg", gradient_clip_val=0.5))


@pytest.mark.parametrize("devices", [[1], "1,"])
def test_the_trainer_chooses_the_device(devices, make_trainer):
    trainer = make_trainer("openreg", devices=devices, max_epochs=1)
    seen = []
    model = Classifier()
    model.on_train_start = lambda: seen.append(
        (model.device, torch.openreg.current_device())
    )
    trainer.fit(model, make_loader())
    assert seen == [(torch.device("openreg:1"), 1)]
    assert trainer.device_ids == [1]


def test_cached_memory_is_given_back_at_the_end(make_trainer):
    trainer, model = make_trainer("openreg"), Classifier()
    reserved = []

    def use_much():
        torch.empty(64 << 20, dtype=torch.uint8, device=model.device)
        reserved.append(torch.openreg.memory_reserved(0))

    model.on_train_start = use_much
    trainer.fit(model, make_loader())
    assert torch.openreg.memory_reserved(0) <= reserved[0] - (64 << 20)


def test_fabric_runs_on_the_device():
    fabric = lightning.Fabric(
        accelerator=OpenRegAccelerator(),
        strategy=FabricStrategy(device="openreg:1"),
        devices=[1],
    )
    model = nn.Linear(3, 1)
    before = model.weight.detach().clone()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 1.0))
    fabric.backward(model(torch.ones(2, 3, device=fabric.device)).sum())
    optimizer.step()
    assert torch.equal(model.weight.cpu(), before - 2)
    assert model.weight.device == torch.device("openreg:1")


def test_validation_and_prediction_give_what_the_cpu_gives(make_trainer):
    results = []
    for place in ("cpu", "openreg"):
        model, trainer = Classifier(), make_trainer(place)
        (validated,) = trainer.validate(model, make_loader(), verbose=False)
        (tested,) = trainer.test(model, make_loader(), verbose=False)
        predicted = torch.cat(trainer.predict(model, make_loader()))
        assert model.places == {place}
        results.append((validated, tested, predicted.tolist()))
    assert results[0] == results[1]


def test_training_goes_on_from_a_checkpoint(make_trainer, tmp_path):
    expected = fit(make_trainer("openreg", max_epochs=3), shuffle=False)
    saving = {
        "enable_checkpointing": True,
        "callbacks": [ModelCheckpoint(tmp_path, save_last=True)],
    }
    begun = fit(make_trainer("openreg", **saving), shuffle=False)
    again = make_trainer("openreg", max_epochs=3, **saving)
    ended = fit(again, shuffle=False, ckpt_path=tmp_path / "last.ckpt")
    assert begun.losses + ended.losses == expected.losses
    assert len(ended.losses) == 4


def test_a_checkpoint_of_the_device_loads_on_the_cpu(make_trainer, tmp_path):
    trainer = make_trainer("openreg")
    model = fit(trainer)
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    loaded = Classifier.load_from_checkpoint(
        tmp_path / "model.ckpt", map_location="cpu"
    )
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value.cpu()), name


def test_the_statistics_of_the_device_are_logged(make_trainer, tmp_path):
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    options = {"callbacks": [DeviceStatsMonitor()], "log_every_n_steps": 1}
    fit(make_trainer("openreg", logger=logger, **options))
    logger.finalize("success")
    table = Path(logger.experiment.metrics_file_path).read_text()
    names = set(table.splitlines()[0].split(","))
    prefix = "DeviceStatsMonitor.on_train_batch_start/allocated_bytes.all."
    assert {prefix + "current", prefix + "peak"} <= names


# --- mixed precision ----------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*CUDA is not available.*")
@pytest.mark.parametrize(
    "precision, dtype", [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)]
)
def test_mixed_precision(precision, dtype, make_trainer):
    full = fit(make_trainer("openreg"))
    trainer = make_trainer("openreg", precision=precision)
    model = fit(trainer)
    assert model.dtypes == {dtype}
    assert trainer.precision_plugin.device == "openreg"
    assert (trainer.scaler is not None) == (precision == "16-mixed")
    assert model.losses == pytest.approx(full.losses, rel=0.05)
    assert model.losses != full.losses


def test_a_precision_plugin_of_the_user_is_kept(make_trainer):
    scaler = torch.amp.GradScaler("openreg", init_scale=4.0, growth_interval=4)
    plugin = MixedPrecision("16-mixed", "openreg", scaler)
    trainer = make_trainer("openreg", plugins=[plugin])
    fit(trainer)
    assert trainer.precision_plugin is plugin
    assert scaler.get_scale() == 16  # 8 steps


def test_a_model_in_true_bf16_gives_the_losses_of_the_cpu(make_trainer):
    there = fit(make_trainer("cpu", precision="bf16-true"))
    here = fit(make_trainer("openreg", precision="bf16-true"))
    assert here.losses == there.losses
    assert here.dtypes == {torch.bfloat16}


# --- misuse -------------------------------------------------------------------


def test_lightning_does_not_silently_train_on_the_cpu(make_trainer):
    trainer = make_trainer({"accelerator": "openreg"})
    with pytest.raises(MisconfigurationException, match="strategy='single_openreg'"):
        fit(trainer)


def test_a_strategy_with_a_device_is_accepted(make_trainer):
    strategy = SingleDeviceStrategy(device="openreg:1")
    trainer = make_trainer({"accelerator": "openreg", "strategy": strategy})
    assert len(fit(trainer).losses) == 8
    assert trainer.strategy.root_device == torch.device("openreg:1")


def test_one_strategy_is_for_one_device(make_trainer):
    with pytest.raises(MisconfigurationException, match="has 2; pass devices=1"):
        make_trainer("openreg", devices="auto")
    assert SingleOpenRegStrategy().parallel_devices == []


@pytest.mark.parametrize(
    "given, indices",
    [(1, [0]), (2, [0, 1]), (-1, [0, 1]), ("-1", [0, 1]), ("2", [0, 1])]
    + [("1,", [1]), ("0, 1", [0, 1]), ([1], [1]), ((1, 0), [1, 0])],
)
def test_devices_are_named_as_cuda_devices_are(given, indices):
    assert OpenRegAccelerator.parse_devices(given) == indices


@pytest.mark.parametrize("given", [0, 3, -2, [2], [-1], [0, 0], [], "3"])
def test_devices_that_do_not_exist_are_refused(given):
    with pytest.raises(MisconfigurationException, match=r"in \[0, 2\)"):
        OpenRegAccelerator.parse_devices(given)
