"""accelerate: training, checkpoints and models that are spread over devices."""

import gc

import accelerate
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_openreg.contrib import accelerate as contrib

PRECISIONS = ["no", "bf16", "fp16"]


@pytest.fixture(autouse=True)
def alone():
    """Accelerators of one process share a state."""
    reset()
    yield
    reset()


def reset():
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def make_model(dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, 3)
    )


def make_loader():
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(x, x.argmax(1) % 3), 4, shuffle=True)


class Run:
    """A training as accelerate's guide has it."""

    def __init__(self, accelerator, dropout=0.0):
        self.accelerator = accelerator
        model = make_model(dropout)
        optimizer = torch.optim.AdamW(model.parameters(), 0.05, foreach=False)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        self.model, self.optimizer, self.loader, self.scheduler = accelerator.prepare(
            model, optimizer, make_loader(), scheduler
        )

    def epoch(self):
        """The losses, and what the norms were before clipping."""
        told = []
        for x, y in self.loader:
            with self.accelerator.accumulate(self.model):
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.accelerator.backward(loss)
                told.append(loss.item())
                if self.accelerator.sync_gradients:
                    parameters = self.model.parameters()
                    norm = self.accelerator.clip_grad_norm_(parameters, 0.1)
                    told.append(norm.item())
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
        return told


def train(accelerator):
    run = Run(accelerator)
    torch.manual_seed(2)
    return run.epoch() + run.epoch(), run


def train_on_cpu(**options):
    told, run = train(accelerate.Accelerator(cpu=True, **options))
    assert run.accelerator.device.type == "cpu"
    reset()
    return told


# --- training -----------------------------------------------------------------


def test_a_variable_puts_an_accelerator_on_the_device(monkeypatch):
    expected = train_on_cpu(gradient_accumulation_steps=2)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "openreg")
    told, run = train(accelerate.Accelerator(gradient_accumulation_steps=2))
    assert run.accelerator.device == torch.device("openreg")
    assert {p.device.type for p in run.model.parameters()} == {"openreg"}
    assert told == expected
    assert len(told) == 2 * (8 + 4)  # every second batch has a norm


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_on_the_device(workers):
    accelerator = contrib.Accelerator()
    x = torch.arange(12.0)
    loader = DataLoader(TensorDataset(x), 4, num_workers=workers, pin_memory=True)
    batches = [batch for (batch,) in accelerator.prepare(loader)]
    assert {batch.device.type for batch in batches} == {"openreg"}
    assert torch.equal(torch.cat(batches).cpu(), x)


def test_accelerators_of_a_process_share_one_device():
    first = accelerate.Accelerator(cpu=True)
    with pytest.raises(ValueError, match="an accelerator on cpu in this process"):
        contrib.Accelerator()
    assert first.device == accelerate.PartialState().device == torch.device("cpu")


def test_results_are_gathered():
    accelerator = contrib.Accelerator()
    run = Run(accelerator)
    with torch.no_grad():
        seen = [accelerator.gather_for_metrics(run.model(x)) for x, _ in run.loader]
    assert torch.cat(seen).shape == (32, 3)
    assert accelerator.reduce(torch.ones(2, device="openreg")).tolist() == [1, 1]


def test_batches_shrink_until_they_fit():
    total = torch.openreg.get_device_properties().total_memory
    torch.openreg.set_per_process_memory_fraction((100 << 20) / total)
    tried = []

    @accelerate.utils.find_executable_batch_size(starting_batch_size=64)
    def run(batch_size):
        tried.append(batch_size)
        return torch.empty(batch_size << 22, dtype=torch.uint8, device="openreg")

    try:
        found = run().nbytes
    finally:
        torch.openreg.set_per_process_memory_fraction(1.0)
    assert found == tried[-1] << 22 <= 100 << 20
    assert len(tried) > 2


# --- mixed precision ----------------------------------------------------------


def by_hand(dtype, scale):
    """The first losses, without accelerate: what `torch.amp` gives."""
    model = make_model().to("openreg")
    optimizer = torch.optim.AdamW(model.parameters(), 0.05, foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    scaler = torch.amp.GradScaler("openreg", enabled=scale)
    torch.manual_seed(2)
    losses = []
    for x, y in make_loader():
        with torch.autocast("openreg", dtype):
            scores = model(x.to("openreg"))
        loss = nn.functional.cross_entropy(scores.float(), y.to("openreg"))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        losses += [loss.item(), norm.item()]
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        optimizer.zero_grad()
    return losses


@pytest.mark.parametrize(
    "precision, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_mixed_precision_is_that_of_torch(precision, dtype):
    run = Run(contrib.Accelerator(mixed_precision=precision))
    torch.manual_seed(2)
    told = run.epoch()
    assert told == by_hand(dtype, scale=precision == "fp16")
    assert run.accelerator.mixed_precision == precision
    assert next(run.model.parameters()).dtype == torch.float32


def test_bf16_needs_no_adapter(on_openreg):
    accelerator = accelerate.Accelerator(mixed_precision="bf16")
    model = accelerator.prepare(nn.Linear(4, 4, bias=False))
    with accelerator.autocast():
        assert model.weight.mm(model.weight).dtype == torch.bfloat16


def test_fp16_skips_a_step_with_an_infinite_gradient():
    scaling = accelerate.utils.GradScalerKwargs(init_scale=1024.0)
    accelerator = contrib.Accelerator(mixed_precision="fp16", kwargs_handlers=[scaling])
    weight = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(weight.parameters(), 1.0)
    weight, optimizer = accelerator.prepare(weight, optimizer)
    before = weight.weight.item()
    accelerator.backward(weight(torch.full((1, 1), 1e4, device="openreg")).sum() * 1e4)
    optimizer.step()
    assert optimizer.step_was_skipped
    assert weight.weight.item() == before
    assert accelerator.scaler.get_scale() == 512


def test_a_second_accelerator_has_the_precision_of_the_first():
    contrib.Accelerator(mixed_precision="fp16")
    second = contrib.Accelerator()
    assert second.mixed_precision == "fp16"
    assert second.scaler.is_enabled()
    with pytest.raises(ValueError, match="already been initialized"):
        contrib.Accelerator(mixed_precision="no")
    assert second.mixed_precision == "fp16"


def test_the_adapter_takes_the_precision_from_the_environment(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    assert contrib.Accelerator().scaler.is_enabled()


# --- checkpoints --------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_resumes_from_a_checkpoint(precision, tmp_path):
    run = Run(contrib.Accelerator(mixed_precision=precision), dropout=0.5)
    run.epoch()
    run.accelerator.save_state(tmp_path)
    expected = run.epoch()

    reset()
    again = Run(contrib.Accelerator(mixed_precision=precision), dropout=0.5)
    torch.openreg.manual_seed_all(5)
    again.accelerator.load_state(tmp_path)
    assert again.epoch() == expected


def test_a_checkpoint_of_another_device_can_be_loaded(tmp_path):
    run = Run(accelerate.Accelerator(cpu=True))
    run.epoch()
    run.accelerator.save_state(tmp_path)
    expected = run.model[0].weight.detach().clone()

    reset()
    again = Run(contrib.Accelerator())
    again.accelerator.load_state(tmp_path)
    assert torch.equal(again.model[0].weight.cpu(), expected)
    assert next(iter(again.optimizer.state.values()))["exp_avg"].is_openreg


# --- big models ---------------------------------------------------------------

LAYER = 64 * 64 * 4  # bytes
ROOM = {0: 3 * LAYER, 1: 2 * LAYER, "cpu": 10 * LAYER}


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def expect_spread(model, expected, x):
    """The model fills the devices in turn, and computes what it did in one place."""
    assert set(model.hf_device_map.values()) == {0, 1, "cpu"}
    places = [layer.weight.device for layer in model.layers]
    assert torch.device("openreg:0") in places and torch.device("openreg:1") in places
    assert torch.device("meta") in places  # what waits in the host's memory
    with torch.no_grad():
        assert torch.equal(model(x).cpu(), expected)


def test_a_model_is_spread_over_devices_and_the_host():
    model, x = Deep(), torch.randn(3, 64)
    with torch.no_grad():
        expected = model(x)
    places = accelerate.infer_auto_device_map(model, max_memory=dict(ROOM))
    model = accelerate.dispatch_model(model, places)
    expect_spread(model, expected, x)


@pytest.mark.parametrize("format", ["torch", "safetensors"])
def test_a_checkpoint_is_spread_while_it_is_loaded(format, tmp_path):
    model, x = Deep(), torch.randn(3, 64)
    with torch.no_grad():
        expected = model(x)
    if format == "torch":
        file = tmp_path / "model.pt"
        torch.save(model.state_dict(), file)
    else:
        accelerate.Accelerator(cpu=True).save_model(model, tmp_path)
        file = tmp_path / "model.safetensors"

    with accelerate.init_empty_weights():
        empty = Deep()
    loaded = accelerate.load_checkpoint_and_dispatch(
        empty, str(file), device_map="sequential", max_memory=dict(ROOM)
    )
    expect_spread(loaded, expected, x)


def test_what_does_not_fit_waits_on_disk(tmp_path):
    model, x = Deep(), torch.randn(3, 64)
    with torch.no_grad():
        expected = model(x)
    room = {0: 3 * LAYER, "cpu": 0}
    places = accelerate.infer_auto_device_map(model, max_memory=room)
    assert set(places.values()) == {0, "disk"}
    model = accelerate.dispatch_model(model, places, offload_dir=tmp_path)
    with torch.no_grad():
        assert torch.equal(model(x).cpu(), expected)


def test_layers_visit_the_device_one_at_a_time():
    model, x = Deep(), torch.randn(3, 64)
    with torch.no_grad():
        expected = model(x)
    model = accelerate.cpu_offload(model, torch.device("openreg"))
    gc.collect()
    before = torch.openreg.memory_allocated()
    torch.openreg.reset_peak_memory_stats()
    with torch.no_grad():
        assert torch.equal(model(x).cpu(), expected)
    assert torch.openreg.memory_allocated() == before
    assert torch.openreg.max_memory_allocated() - before < 2 * LAYER


def test_the_adapter_tells_the_memory_of_all_devices():
    room = contrib.max_memory()
    assert list(room) == [0, 1, "cpu"]
    assert room[1] == torch.openreg.mem_get_info(1)[0]
    taken = torch.empty(64 << 20, dtype=torch.uint8, device="openreg:1")
    assert room[1] - contrib.max_memory()[1] >= taken.nbytes
