"""Tensors in several processes: the same memory, for as long as anyone uses it."""

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import pytest
import remote as r
import torch
import torch.multiprocessing as mp
from gate import Gate
from torch.multiprocessing import reductions


@pytest.fixture(scope="module")
def remote():
    made = r.Remote()
    yield made
    made.close()


def allocated():
    return r.figures()["allocated"][0]


def resend(tensor):
    return ForkingPickler.loads(ForkingPickler.dumps(tensor))


# --- what arrives -------------------------------------------------------------


def test_both_processes_have_the_same_memory(remote):
    x = torch.arange(5.0, device="openreg")
    remote(r.keep, "x", x)
    assert remote(r.read, "x").tolist() == [0, 1, 2, 3, 4]
    remote(r.add, x[1:3], 10)
    assert x.tolist() == [0, 11, 12, 3, 4]
    x.zero_()
    torch.openreg.synchronize()
    assert remote(r.read, "x").tolist() == [0] * 5
    remote(r.drop, "x")


def describe(tensor):
    values = tensor.to_dense() if tensor.layout != torch.strided else tensor
    return (
        type(tensor),
        tensor.device,
        tensor.dtype,
        tensor.layout,
        tensor.shape,
        tensor.stride() if tensor.layout == torch.strided else None,
        tensor.requires_grad,
        values.detach().cpu().tolist(),
    )


TENSORS = {
    "a slice": lambda: torch.arange(12.0, device="openreg").view(3, 4).t()[1:, 1:],
    "no dimension": lambda: torch.tensor(7, device="openreg"),
    "no elements": lambda: torch.empty(0, 3, device="openreg:1"),
    "an empty view": lambda: torch.ones(4, device="openreg")[2:2],
    "the other device": lambda: torch.ones(3, device="openreg:1"),
    "bfloat16": lambda: torch.ones(3, device="openreg", dtype=torch.bfloat16),
    "bool": lambda: torch.tensor([True, False], device="openreg"),
    "a leaf": lambda: torch.ones(3, device="openreg", requires_grad=True),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(3, device="openreg")),
    "a parameter of integers": lambda: torch.nn.Parameter(
        torch.ones(3, device="openreg", dtype=torch.long), requires_grad=False
    ),
    "a block of its own": lambda: torch.ones(3 << 20, device="openreg")[-3:],
    "sparse": lambda: torch.eye(3, device="openreg").to_sparse(),
    "compressed": lambda: torch.eye(3, device="openreg").to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_arrives_as_it_was(name, remote):
    tensor = TENSORS[name]()
    assert remote(describe, tensor) == describe(tensor)


def same_storage(first, second):
    return first.untyped_storage()._cdata == second.untyped_storage()._cdata


def test_views_of_one_storage_stay_views_of_one(remote):
    x = torch.arange(6.0, device="openreg")
    assert remote(same_storage, x[:2], x[4:])
    assert not remote(same_storage, x, x.clone())
    remote(r.keep, "first", x[:2])
    remote(r.keep, "again", x[1:])
    assert remote(kept_share_a_storage, "first", "again")
    remote(r.drop, "first")
    remote(r.drop, "again")


def kept_share_a_storage(first, second):
    return same_storage(r.kept(first), r.kept(second))


def test_a_model_is_trained_by_the_other_process(remote):
    model = torch.nn.Linear(2, 1, bias=False).to("openreg").share_memory()
    with torch.no_grad():
        model.weight.fill_(1)
    remote(train, model.weight)
    assert model.weight.tolist() == [[-1.0, -1.0]]


def train(weight):
    weight.grad = torch.full_like(weight, 2.0)
    torch.optim.SGD([weight], lr=1).step()
    torch.openreg.synchronize()


def test_reduce_tensor_gives_what_plain_pickle_takes(remote):
    # As libraries do that have a channel of their own.
    x = torch.zeros(3, device="openreg")
    rebuild, args = reductions.reduce_tensor(x)
    assert rebuild.__name__ == "rebuild_openreg_tensor"
    remote(rebuild_and_add, pickle.dumps((rebuild, args)))
    assert x.tolist() == [5, 5, 5]


def rebuild_and_add(message):
    rebuild, args = pickle.loads(message)
    r.add(rebuild(*args), 5)


def test_a_pool_takes_and_returns_tensors():
    with r.SPAWN.Pool(1) as pool:
        x = torch.ones(3, device="openreg")
        pool.apply(r.add, (x, 1))
        assert x.tolist() == [2, 2, 2]
        results = pool.map(r.make, [2, 3])
        assert [y.tolist() for y in results] == [[1, 1], [1, 1, 1]]
        assert {str(y.device) for y in results} == {"openreg:0"}
        del results


def test_what_is_sent_is_complete(remote, hold):
    x = torch.full((3,), -1.0, device="openreg")
    x.add_(1)  # the first time an operator waits
    gate = hold(torch.openreg.current_stream())
    x.add_(1)
    sender = threading.Thread(target=remote.send, args=(torch.Tensor.tolist, x))
    sender.start()
    assert not remote.here.poll(0.05)
    gate.open()
    sender.join()
    assert remote.receive() == [1, 1, 1]


def test_threads_send_at_the_same_time():
    before = allocated()
    x = [torch.full((3,), float(i), device="openreg") for i in range(50)]
    failures = []

    def send(tensors):
        for i, tensor in enumerate(tensors):
            if resend(tensor).tolist() != [i] * 3:
                failures.append(i)

    threads = [threading.Thread(target=send, args=(x,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    del x, thread, threads
    assert allocated() == before


# --- refusals -----------------------------------------------------------------


def test_a_tensor_with_history_is_refused(remote):
    x = torch.ones(2, device="openreg", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf"):
        remote(r.keep, "x", x)


def test_a_received_tensor_is_not_sent_on_but_its_clone_is(remote):
    received = remote(r.make, 3)
    with pytest.raises(RuntimeError, match="Attempted to send OpenReg tensor received"):
        remote(r.keep, "x", received)
    assert remote(torch.Tensor.tolist, received.clone()) == [1, 1, 1]


def test_a_received_tensor_cannot_be_resized(remote):
    received = remote(r.make, 3)
    with pytest.raises(RuntimeError, match="not resizable"):
        received.resize_(1000)
    assert received.tolist() == [1, 1, 1]


def test_a_storage_is_not_sent_alone():
    storage = torch.ones(2, device="openreg").untyped_storage()
    with pytest.raises(RuntimeError, match="Cannot pickle OpenReg storage; try"):
        ForkingPickler.dumps(storage)


def test_bytes_that_are_no_tensor_are_refused():
    rebuild, args = reductions.reduce_tensor(torch.ones(2, device="openreg"))
    message = args[3]
    with pytest.raises(RuntimeError, match=f"of size {len(message)}, but got 3"):
        rebuild(*args[:3], b"abc", args[4])
    other = bytearray(message)
    other[90] ^= 1  # of what names the ledger
    with pytest.raises(RuntimeError, match="has ended|cannot be seen"):
        rebuild(*args[:3], bytes(other), args[4])
    rebuild(*args)  # so that it is not on its way for ever


def test_a_forked_child_can_neither_send_nor_receive(fork_python):
    before = (
        "from multiprocessing.reduction import ForkingPickler as F\n"
        "x = torch.ones(2, device='openreg'); message = F.dumps(x)"
    )
    for told in fork_python(["F.loads(message)", "F.dumps(x)"], before):
        assert told.startswith("RuntimeError: Cannot re-initialize OpenReg in forked")


# --- how long it lasts --------------------------------------------------------


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


# --- what needs no sending ----------------------------------------------------


def test_device_memory_is_always_shared():
    x = torch.ones(2, device="openreg")
    pointer = x.data_ptr()
    assert x.is_shared() and x.untyped_storage().is_shared()
    assert x.share_memory_() is x and x.data_ptr() == pointer
    assert not torch.ones(2).is_shared()
    assert torch.ones(2).share_memory_().is_shared()


def test_tensors_of_the_cpu_are_sent_as_before(remote):
    x = torch.ones(3)
    remote(add_on_the_cpu, x)
    assert x.tolist() == [2, 2, 2]
    assert mp.reductions.reduce_tensor(x)[0] is reductions.rebuild_tensor


def add_on_the_cpu(tensor):
    tensor += 1
