"""Shared memory lasts for as long as any process uses it."""

from multiprocessing.reduction import ForkingPickler

import pytest
import remote as r
import torch
from gate import Gate
from remote import allocated, resend


@pytest.fixture(scope="module")
def remote():
    made = r.Remote()
    yield made
    made.close()


def test_memory_stays_until_the_other_process_lets_it_go(remote):
    before = allocated()
    x = torch.arange(3.0, device="openreg")
    remote(r.keep, "x", x)
    del x
    assert allocated() == before + 512
    other = torch.full((3,), 9.0, device="openreg")
    assert remote(r.read, "x").tolist() == [0, 1, 2]
    del other
    remote(r.drop, "x")
    assert allocated() == before


def test_memory_sent_twice_stays_until_both_are_gone(remote):
    before = allocated()
    x = torch.ones(3, device="openreg")
    remote(r.keep, "first", x)
    remote(r.keep, "second", x)
    del x
    remote(r.drop, "first")
    assert allocated() == before + 512
    assert remote(r.read, "second").tolist() == [1, 1, 1]
    remote(r.drop, "second")
    assert allocated() == before


def test_a_storage_that_is_resized_leaves_the_shared_memory_alone(remote):
    before = allocated()
    x = torch.arange(3.0, device="openreg")
    remote(r.keep, "x", x)
    x.resize_(1000).zero_()
    assert remote(r.read, "x").tolist() == [0, 1, 2]
    del x
    remote(r.drop, "x")
    assert allocated() == before


def test_a_tensor_comes_back_to_its_own_process():
    before = allocated()
    x = torch.arange(3.0, device="openreg")
    message = ForkingPickler.dumps(x)
    del x
    assert allocated() == before + 512
    back = ForkingPickler.loads(message)
    assert back.tolist() == [0, 1, 2]
    again = resend(back)
    again.add_(1)
    assert back.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="not resizable"):
        back.resize_(1000)
    del back, again
    assert allocated() == before
    with pytest.raises(RuntimeError, match="received before"):
        ForkingPickler.loads(message)


def test_queued_work_of_the_receiver_keeps_the_memory(remote):
    before = allocated()
    x = torch.arange(3.0, device="openreg")
    remote(read_behind_a_gate, x)
    del x
    assert allocated() == before + 512
    other = torch.full((3,), 9.0, device="openreg")
    assert remote(open_the_gate) == [0, 1, 2]
    del other
    assert allocated() == before


def read_behind_a_gate(tensor):
    tensor.clone()  # the first time an operator waits
    stream, side = torch.openreg.current_stream(), torch.openreg.Stream()
    gate = Gate(side)
    with torch.openreg.stream(side):
        copy = tensor.clone()
    tensor.record_stream(side)
    r.keep("gate", (gate, copy, side, stream))


def open_the_gate():
    gate, copy, side, stream = r.kept("gate")
    gate.open()
    side.synchronize()
    stream.synchronize()
    r.drop("gate")
    return copy.tolist()


def test_an_allocation_that_fails_collects_what_was_let_go(remote):
    x = torch.ones(64 << 20, dtype=torch.uint8, device="openreg")
    torch.openreg.empty_cache()
    total = torch.openreg.mem_get_info()[1]
    limit = (torch.openreg.memory_reserved() + (32 << 20)) / total
    torch.openreg.set_per_process_memory_fraction(limit)
    try:
        remote(r.keep, "x", x)
        del x
        remote(r.drop, "x")
        torch.empty(64 << 20, dtype=torch.uint8, device="openreg")
        remote_holds = torch.empty(64 << 20, dtype=torch.uint8, device="openreg")
        remote(r.keep, "x", remote_holds)
        del remote_holds
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(64 << 20, dtype=torch.uint8, device="openreg")
        remote(r.drop, "x")
    finally:
        torch.openreg.set_per_process_memory_fraction(1.0)
        torch.openreg.ipc_collect()
        torch.openreg.empty_cache()


def exchange(tensors, back, count):
    """Writes into each tensor, and returns the figures before and after."""
    before = r.figures()
    for i in range(count):
        tensor = tensors.get()
        tensor += i
        if i % 10 == 0:
            back.put(tensor.sum().item())
        del tensor
    torch.openreg.synchronize()
    return before, r.figures()


def test_a_thousand_tensors_go_through_a_queue_without_copies_and_leaks():
    count = 1000
    queue, back = r.SPAWN.Queue(), r.SPAWN.Queue()
    started, results = r.SPAWN.Event(), r.SPAWN.Queue()
    child = r.SPAWN.Process(
        target=run_exchange, args=(queue, back, count, started, results), daemon=True
    )
    child.start()
    started.wait()
    queue.put(None)  # starts the thread that feeds the queue
    resend(torch.ones(1, device="openreg"))  # and the ledger
    before = r.figures()
    tensors = []
    for i in range(count):
        size = 3 << 20 if i % 100 == 0 else i % 300 + 1
        tensors.append(torch.zeros(size, device="openreg"))
        queue.put(tensors[-1])
    there_before, there_after = results.get()
    assert [back.get() for _ in range(0, count, 10)] == [
        i * tensors[i].numel() for i in range(0, count, 10)
    ]
    for i, tensor in enumerate(tensors):
        assert tensor[0].item() == tensor[-1].item() == i
    child.join()
    assert there_after == there_before
    del tensors, tensor
    assert r.figures() == before


def run_exchange(queue, back, count, started, results):
    resend(torch.ones(1, device="openreg"))
    started.set()
    queue.get()
    results.put(exchange(queue, back, count))
