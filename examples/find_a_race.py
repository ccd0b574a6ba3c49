"""A prefetcher with a bug that no run shows, the report that names it, and the fix.

The next batch is copied in a stream of its own while the model works on this one. Two
things are easily forgotten: the model's stream has to wait for the copy, and the memory
of a batch must not be handed out again while the model still reads it.
"""

import torch
from torch.utils.data import DataLoader, TensorDataset

m = torch.openreg
data = TensorDataset(torch.arange(4096.0).view(64, 64))
model = torch.nn.Linear(64, 1).to("openreg")


# docs:begin prefetch
def prefetch(loader, waits):
    """Batches on the device, each copied while the one before is worked on."""
    side = m.Stream()
    upcoming = None
    for (batch,) in loader:
        current = upcoming
        with m.stream(side):
            upcoming = batch.to("openreg", non_blocking=True)
        if current is not None:
            yield current
        if waits:
            m.current_stream().wait_stream(side)
            upcoming.record_stream(m.current_stream())
    yield upcoming


def train(waits):
    loader = DataLoader(data, batch_size=16, pin_memory=True)
    for batch in prefetch(loader, waits):
        model(batch).mean().backward()


# docs:end prefetch


def main():
    try:
        with m.sanitizer.check():
            train(waits=False)
    except m.sanitizer.SanitizerError as error:
        print(error)
    else:
        raise SystemExit("the bug was not found")

    with m.sanitizer.check():
        train(waits=True)
    print("\nwith the wait and record_stream: nothing to report")


if __name__ == "__main__":
    main()
