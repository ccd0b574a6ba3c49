# torchrun --nproc-per-node 2
"""Training as torchvision's references do it: DDP with SyncBatchNorm, channels_last,
warm-up, an average of the weights, figures of all ranks and a checkpoint."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group(backend="nccl", init_method="env://")
dist.barrier()
torch.backends.cudnn.benchmark = True


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n

    def synchronize_between_processes(self):
        t = torch.tensor([self.count, self.total], dtype=torch.float64, device="cuda")
        dist.barrier()
        dist.all_reduce(t)
        self.count, self.total = int(t[0].item()), t[1].item()

    @property
    def global_avg(self):
        return self.total / self.count


class ExponentialMovingAverage(torch.optim.swa_utils.AveragedModel):
    def __init__(self, model, decay, device):
        def average(ema, new, _):
            return decay * ema + (1 - decay) * new

        super().__init__(model, device, average, use_buffers=True)


def accuracy(output, target, topk=(1, 5)):
    with torch.inference_mode():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target[None])
        return [correct[:k].flatten().sum(dtype=torch.float32).item() for k in topk]


def build():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).to(memory_format=torch.channels_last)


def parts_of(model, device):
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    warmup = LinearLR(optimizer, start_factor=0.1, total_iters=1)
    cosine = CosineAnnealingLR(optimizer, T_max=2)
    scheduler = SequentialLR(optimizer, [warmup, cosine], milestones=[1])
    return optimizer, scheduler, ExponentialMovingAverage(model, 0.9, device)


criterion = nn.CrossEntropyLoss(label_smoothing=0.1)


def step(model, parts, image, target):
    loss = criterion(model(image), target)
    parts[0].zero_grad()
    loss.backward()
    parts[0].step()
    return loss.item()


torch.manual_seed(1)
dataset = TensorDataset(torch.randn(32, 3, 8, 8), torch.randint(0, 10, (32,)))
sampler = DistributedSampler(dataset, shuffle=False)
loader = DataLoader(dataset, 4, sampler=sampler, num_workers=1, pin_memory=True)

model = nn.SyncBatchNorm.convert_sync_batchnorm(build().to("cuda"))
parts = parts_of(model, "cuda")
ddp = nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
averages = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    meter = SmoothedValue()
    for image, target in loader:
        image = image.to("cuda", non_blocking=True)
        target = target.to("cuda", non_blocking=True)
        meter.update(step(ddp, parts, image, target), image.shape[0])
        parts[2].update_parameters(model)
    parts[1].step()
    meter.synchronize_between_processes()
    averages.append(meter.global_avg)
acc1, acc5 = accuracy(ddp(image), target)
assert 0 <= acc1 <= acc5 <= 4

path = os.path.join(tempfile.gettempdir(), f"checkpoint_{os.environ['MASTER_PORT']}")
if dist.get_rank() == 0:
    torch.save({"model": model.state_dict(), "ema": parts[2].state_dict()}, path)
dist.barrier()
checkpoint = torch.load(path, map_location="cpu")
dist.barrier()

# The same batches on the CPU, in one process.
reference = build()
twins = parts_of(reference, "cpu")
order = [[rank * 1 + 2 * i for i in range(16)] for rank in (0, 1)]
expected = []
for _ in range(2):
    meter = SmoothedValue()
    for i in range(0, 16, 4):
        rows = order[0][i : i + 4] + order[1][i : i + 4]
        image, target = dataset[rows]
        meter.update(step(reference, twins, image, target), len(rows))
        twins[2].update_parameters(reference)
    twins[1].step()
    expected.append(meter.global_avg)
torch.testing.assert_close(averages, expected, rtol=1e-4, atol=1e-4)
for name, value in twins[2].state_dict().items():
    torch.testing.assert_close(checkpoint["ema"][name], value, rtol=1e-3, atol=1e-4)
if dist.get_rank() == 0:
    os.remove(path)
dist.destroy_process_group()
