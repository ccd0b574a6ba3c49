"""Metrics of torchmetrics, kept on the device."""

import torch
import torchmetrics

torch.manual_seed(0)
scores, labels = torch.randn(4, 32, 5).softmax(-1), torch.randint(5, (4, 32))


def evaluate(device):
    metrics = torchmetrics.MetricCollection(
        [
            torchmetrics.Accuracy(task="multiclass", num_classes=5),
            torchmetrics.F1Score(task="multiclass", num_classes=5, average="macro"),
            torchmetrics.AUROC(task="multiclass", num_classes=5),
            torchmetrics.ConfusionMatrix(task="multiclass", num_classes=5),
        ]
    ).to(device)
    for batch, label in zip(scores.to(device), labels.to(device)):
        metrics(batch, label)
    result = metrics.compute()
    assert all(value.device.type == device for value in result.values())
    return {name: value.cpu() for name, value in result.items()}


torch.testing.assert_close(evaluate("cuda"), evaluate("cpu"))
