"""Shared tensors and events when one of the processes ends without a word."""

import os
from multiprocessing.reduction import ForkingPickler

import pytest
import remote as r
import torch
from gate import Gate


@pytest.fixture
def remote():
    made = r.Remote()
    yield made
    made.close()


def dump(*shape):
    return bytes(ForkingPickler.dumps(torch.ones(*shape, device="openreg")))


def process():
    return os.getpid()


def keep_open(message):
    r.keep("kept", ForkingPickler.loads(message))


def test_the_sender_gets_its_memory_back_when_the_receiver_is_killed(remote):
    before = r.figures()["allocated"]
    tensors = [torch.ones(3, device="openreg") for _ in range(20)]
    remote(r.keep, "tensors", tensors)
    remote(r.keep, "again", tensors[:5])
    del tensors
    assert r.figures()["allocated"] == [before[0] + 20 * 512, before[1]]
    remote.kill()
    assert r.figures()["allocated"] == before


def test_what_was_received_outlives_the_sender(remote):
    for device in ("openreg:0", "openreg:1"):
        remote(r.make, 3, device)  # so that there is what stays for good
    before = r.figures()
    x, y = remote(r.make, 3), remote(r.make, 3 << 20, "openreg:1")
    remote.kill()
    x += 1
    y += 2
    assert x.tolist() == [2, 2, 2]
    assert y.sum().item() == 3 * (3 << 20)
    del x, y
    assert r.figures() == before


def test_a_tensor_whose_sender_has_ended_is_refused(remote):
    number = remote(process)
    message = remote(dump, 3)
    remote.kill()
    before = r.figures()
    with pytest.raises(RuntimeError, match=f"process {number}, which sent the tensor"):
        ForkingPickler.loads(message)
    assert r.figures() == before


def test_a_receiver_that_is_killed_takes_nothing_from_the_others(remote):
    other = r.Remote()
    before = r.figures()["allocated"]
    x = torch.arange(3.0, device="openreg")
    remote(r.keep, "x", x)
    other(r.keep, "x", x)
    del x
    remote.kill()
    assert r.figures()["allocated"] != before
    assert other(r.read, "x").tolist() == [0, 1, 2]
    other(r.drop, "x")
    assert r.figures()["allocated"] == before
    other.close()


# --- events -------------------------------------------------------------------


def record_behind_a_gate():
    stream = torch.openreg.Stream()
    event = torch.openreg.Event(interprocess=True)
    r.keep("gate", (Gate(stream), stream))
    event.record(stream)
    r.keep("event", event)
    return event


def open_the_gate():
    r.kept("gate")[0].open()


def test_a_stream_waits_for_the_other_process(remote):
    event = remote(record_behind_a_gate)
    assert isinstance(event, torch.openreg.Event)
    assert event.device == torch.device("openreg:0")
    stream = torch.openreg.Stream()
    stream.wait_event(event)
    assert not event.query() and not stream.query()
    remote(open_the_gate)
    stream.synchronize()
    event.synchronize()
    assert event.query()


def test_the_other_process_waits_for_this_one(remote, hold):
    event = torch.openreg.Event(interprocess=True)
    remote(r.keep, "event", event)
    assert remote(query)
    gate = hold(torch.openreg.current_stream())
    event.record()
    assert not remote(query)
    remote.send(synchronize)
    gate.open()
    remote.receive()
    assert remote(query)


def query():
    return r.kept("event").query()


def synchronize():
    r.kept("event").synchronize()


def test_a_wait_for_a_process_that_ends_raises(remote):
    event = remote(record_behind_a_gate)
    number = remote(process)
    remote.kill()
    for ask in (event.query, event.synchronize):
        with pytest.raises(torch.AcceleratorError, match=f"process {number}, which"):
            ask()
    event.record()
    event.synchronize()
    assert event.query()


# --- an event by itself -------------------------------------------------------


def test_an_event_gives_bytes_that_its_own_process_cannot_open():
    event = torch.openreg.Event(interprocess=True)
    handle = event.ipc_handle()
    assert type(handle) is bytes and len(handle) == 64
    assert event.ipc_handle() == handle
    assert event.device == torch.device("openreg", torch.openreg.current_device())
    with pytest.raises(torch.AcceleratorError, match="invalid device context"):
        torch.openreg.Event.from_ipc_handle(event.device, handle)


def test_an_event_takes_the_device_it_is_first_used_on():
    with torch.openreg.device(1):
        event = torch.openreg.Event(interprocess=True)
        event.ipc_handle()
    assert event.device == torch.device("openreg:1")
    recorded = torch.openreg.Event(interprocess=True)
    recorded.record(torch.openreg.Stream(1))
    assert recorded.device == torch.device("openreg:1")


@pytest.mark.parametrize("use", ["record", "ipc_handle"])
def test_an_event_between_processes_has_no_timing(use):
    event = torch.openreg.Event(enable_timing=True, interprocess=True)
    with pytest.raises(torch.AcceleratorError, match="invalid argument"):
        getattr(event, use)()
    assert event.device is None


def test_an_event_of_one_process_has_no_handle():
    event = torch.openreg.Event()
    event.record()
    with pytest.raises(torch.AcceleratorError, match="orEventInterprocess"):
        event.ipc_handle()


def test_a_handle_of_another_size_is_refused():
    with pytest.raises(RuntimeError, match="of size 64, but got 3"):
        torch.openreg.Event.from_ipc_handle(0, b"abc")
    with pytest.raises(torch.AcceleratorError, match="invalid resource handle"):
        torch.openreg.Event.from_ipc_handle(0, bytes(64))
