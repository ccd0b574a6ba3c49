"""torchmetrics: states on the device, values of the CPU."""

import copy
import pickle

import pytest
import torch
from device_name import NAME, m
import torchmetrics
from torchmetrics import aggregation, classification, regression, retrieval, text

CLASSES, BATCHES, SIZE = 5, 3, 32


def scores():
    shape = (BATCHES, SIZE, CLASSES)
    return torch.randn(shape).softmax(-1), torch.randint(0, CLASSES, shape[:2])


def yes_or_no():
    return torch.rand(BATCHES, SIZE), torch.randint(0, 2, (BATCHES, SIZE))


def numbers():
    return torch.randn(BATCHES, SIZE), torch.randn(BATCHES, SIZE)


def rankings():
    wanted = torch.randint(0, 2, (BATCHES, SIZE))
    return (
        torch.rand(BATCHES, SIZE),
        wanted,
        torch.arange(SIZE).expand(BATCHES, SIZE) // 8,
    )


def words():
    shape = (BATCHES, 2, SIZE)
    return torch.randn(*shape, CLASSES), torch.randint(0, CLASSES, shape)


def values():
    return (torch.randn(BATCHES, SIZE),)


MULTI = {"num_classes": CLASSES}
METRICS = {
    "accuracy": (classification.MulticlassAccuracy, MULTI, scores),
    "F1": (classification.MulticlassF1Score, {**MULTI, "average": None}, scores),
    "top 2": (classification.MulticlassAccuracy, {**MULTI, "top_k": 2}, scores),
    "confusion": (classification.MulticlassConfusionMatrix, MULTI, scores),
    "calibration": (classification.MulticlassCalibrationError, MULTI, scores),
    "AUROC": (classification.MulticlassAUROC, MULTI, scores),
    "binned AUROC": (classification.BinaryAUROC, {"thresholds": 20}, yes_or_no),
    "precision": (classification.BinaryAveragePrecision, {}, yes_or_no),
    "curve": (classification.BinaryPrecisionRecallCurve, {}, yes_or_no),
    "kappa": (classification.MulticlassCohenKappa, MULTI, scores),
    "squared error": (regression.MeanSquaredError, {}, numbers),
    "R2": (regression.R2Score, {}, numbers),
    "Pearson": (regression.PearsonCorrCoef, {}, numbers),
    "Spearman": (regression.SpearmanCorrCoef, {}, numbers),
    "MAP": (retrieval.RetrievalMAP, {}, rankings),
    "nDCG": (retrieval.RetrievalNormalizedDCG, {}, rankings),
    "perplexity": (text.Perplexity, {}, words),
    "mean": (aggregation.MeanMetric, {}, values),
    "sum": (aggregation.SumMetric, {}, values),
    "all": (aggregation.CatMetric, {}, values),
}


def flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def states(metric):
    """All tensors of a metric's state, also those in lists."""
    found = [getattr(metric, name) for name in metric._defaults]
    return [tensor for value in found for tensor in flat(value)]


def run(metric, data, device):
    """The value of each batch and of all, and the metric."""
    metric = metric.to(device)
    found = []
    for batch in zip(*data, strict=True):
        found.append(flat(metric(*(part.to(device) for part in batch))))
    found.append(flat(metric.compute()))
    return found, metric


@pytest.mark.filterwarnings("ignore:Metric .* will save all:UserWarning")
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_the_value_of_the_cpu(name):
    kind, options, make = METRICS[name]
    data = make()
    expected, _ = run(kind(**options), data, "cpu")
    found, metric = run(kind(**options), data, f"{NAME}:1")
    assert {t.device for t in states(metric)} == {torch.device(f"{NAME}:1")}
    assert len(found) == BATCHES + 1
    for there, here in zip(expected, found, strict=True):
        for one, other in zip(there, here, strict=True):
            assert other.device == torch.device(f"{NAME}:1")
            assert torch.equal(other.cpu(), one)


def test_updates_do_not_wait_for_the_device(hold):
    """A stream that stands still does not keep the host from the next batch."""
    metric = regression.MeanSquaredError().to(NAME)
    x, y = (torch.randn(1 << 20, device=NAME) for _ in range(2))
    metric.update(x, y)  # operators learn their dtypes
    metric.reset()
    m.synchronize()
    stream = m.current_stream()
    gate = hold(stream)
    for _ in range(3):
        metric.update(x, y)
    assert not stream.query()
    gate.open()
    expected = regression.MeanSquaredError()
    expected.update(x.cpu(), y.cpu())
    assert metric.compute().item() == pytest.approx(expected.compute().item())


def test_a_state_moves_between_devices():
    data = scores()
    _, metric = run(classification.MulticlassAccuracy(CLASSES), data, NAME)
    value = metric.compute().item()
    for device in ("cpu", f"{NAME}:1"):
        metric = metric.to(device)
        assert metric.device == torch.device(device)
        metric._computed = None
        assert metric.compute().item() == value
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert other.compute().item() == value
    metric.reset()
    assert {t.device for t in states(metric)} == {torch.device(f"{NAME}:1")}
    assert metric.update_count == 0


def test_a_saved_state_is_loaded(tmp_path):
    metric = classification.MulticlassAccuracy(CLASSES)
    metric.persistent(True)
    _, metric = run(metric, scores(), NAME)
    torch.save(metric.state_dict(), tmp_path / "state")
    other = classification.MulticlassAccuracy(CLASSES).to(NAME)
    other.load_state_dict(torch.load(tmp_path / "state"))
    assert metric.tp.sum() > 0
    for name in metric.state_dict():
        assert torch.equal(getattr(other, name), getattr(metric, name)), name


def test_metrics_in_a_collection_share_their_state():
    data = scores()
    found = []
    for device in ("cpu", NAME):
        metrics = torchmetrics.MetricCollection(
            {
                "accuracy": classification.MulticlassAccuracy(CLASSES),
                "recall": classification.MulticlassRecall(CLASSES),
                "rank": classification.MulticlassAUROC(CLASSES),
            }
        ).to(device)
        for batch in zip(*data, strict=True):
            metrics.update(*(part.to(device) for part in batch))
        assert ["accuracy", "recall"] in metrics.compute_groups.values()
        found.append({name: value.item() for name, value in metrics.compute().items()})
    assert found[0] == found[1]


def test_a_list_of_states_waits_in_the_host_memory():
    metric = aggregation.CatMetric(compute_on_cpu=True).to(NAME)
    metric.update(torch.arange(4.0, device=NAME))
    assert {t.device.type for t in states(metric)} == {"cpu"}
    assert metric.compute().tolist() == [0, 1, 2, 3]
