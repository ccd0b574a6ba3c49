"""Tensors in several processes have the same memory."""

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import pytest
import remote as r
import torch
import torch.multiprocessing as mp
from remote import allocated, resend
from torch.multiprocessing import reductions


@pytest.fixture(scope="module")
def remote():
    made = r.Remote()
    yield made
    made.close()


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


def test_bytes_that_are_not_a_tensor_are_refused():
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
