"""Kernels that find bad data: where the error shows, and what works afterwards."""

import ctypes
import os
import re
import tempfile

import torch
from gate import load_libopenreg
from misuse import DEVICE, FIRST, described, longs, m, octets, quiet, x
from observer import attempt
from torch.nn import functional as F


def numbers(*values):
    return torch.tensor(values, device=DEVICE)


# label: (the inputs made of a value, the operator, a good value, a bad one)
BAD_DATA = {
    "assert_async": (lambda v: [numbers(v)], torch._assert_async, 1.0, 0.0),
    "bce_range": (
        lambda v: [numbers(v, v), torch.ones(2, device=DEVICE)],
        F.binary_cross_entropy,
        0.5,
        2.0,
    ),
    "bernoulli_p": (lambda v: [numbers(v, v)], torch.bernoulli, 0.5, 1.5),
    "bincount_negative": (lambda v: [longs(0, v)], torch.bincount, 1, -1),
    "cholesky": (
        lambda v: [v * torch.eye(2, device=DEVICE)],
        torch.linalg.cholesky,
        1.0,
        -1.0,
    ),
    "cross_entropy_negative": (
        lambda v: [x(2, 3), longs(0, v)],
        F.cross_entropy,
        -100,
        -1,
    ),
    "gather": (
        lambda v: [x(4), longs(v)],
        lambda t, i: torch.gather(t, 0, i),
        1,
        99,
    ),
    "index": (lambda v: [x(4), longs(v)], lambda t, i: t[i], 1, 99),
    "index_copy": (
        lambda v: [x(4), longs(v), x(1)],
        lambda t, i, s: t.index_copy_(0, i, s),
        1,
        99,
    ),
    "index_put_accumulate": (
        lambda v: [x(4), longs(v), x(1)],
        lambda t, i, s: t.index_put_((i,), s, accumulate=True),
        1,
        99,
    ),
    "index_select": (
        lambda v: [x(4), longs(0, v)],
        lambda t, i: torch.index_select(t, 0, i),
        1,
        99,
    ),
    "integer_division_by_zero": (
        lambda v: [x(2, dtype=torch.int64), numbers(v, v)],
        lambda a, b: a // b,
        1,
        0,
    ),
    "inverse_singular": (
        lambda v: [v * torch.eye(2, device=DEVICE)],
        torch.linalg.inv,
        1.0,
        0.0,
    ),
    "max_unpool": (
        lambda v: [x(1, 1, 2), longs(0, v).reshape(1, 1, 2)],
        lambda t, i: F.max_unpool1d(t, i, 2),
        2,
        99,
    ),
    "multinomial_negative": (
        lambda v: [numbers(v, 2.0)],
        lambda p: torch.multinomial(p, 1),
        1.0,
        -1.0,
    ),
    "multinomial_replacement_negative": (
        lambda v: [numbers(v, 2.0)],
        lambda p: torch.multinomial(p, 4, True),
        1.0,
        -1.0,
    ),
    "multinomial_zero": (
        lambda v: [numbers(v, v)],
        lambda p: torch.multinomial(p, 1),
        1.0,
        0.0,
    ),
    "nll_loss": (lambda v: [x(2, 3), longs(0, v)], F.nll_loss, 1, -1),
    "one_hot": (lambda v: [longs(0, v)], lambda i: F.one_hot(i, 3), 1, 99),
    "put": (lambda v: [x(4), longs(v), x(1)], torch.Tensor.put_, 1, 99),
    "solve_singular": (
        lambda v: [v * torch.eye(2, device=DEVICE), x(2)],
        torch.linalg.solve,
        1.0,
        0.0,
    ),
    "take": (lambda v: [x(4), longs(v)], torch.take, 1, 99),
}
SCATTER = (
    lambda v: [x(4), longs(v)],
    lambda t, i: t.scatter_(0, i, 1.0),
    1,
    99,
)


def steps(pairs):
    return {label: attempt(lambda ask=ask: described(ask())) for label, ask in pairs}


def bad_data(o, inputs, operator, good, bad):
    """The operator has worked on good data, and the stream is busy when it gets the
    bad: the call itself can only fail if it waits for the device."""
    operator(*inputs(good))
    arguments = inputs(bad)
    o.sync()
    busy = o.busy()
    launch = ("launch", lambda: quiet(lambda: operator(*arguments)))
    outcome = steps([launch, ("host work", lambda: torch.ones(2).sum().item())])
    busy.open()
    return outcome | steps(
        [
            ("synchronize", m.synchronize),
            ("synchronize again", m.synchronize),
            ("new kernel", lambda: quiet(lambda: torch.ones(4, device=DEVICE))),
        ]
    )


def poison():
    torch.gather(x(4), 0, longs(99))


def printed(inputs, operator, good, bad):
    """What the failing kernel prints."""
    with tempfile.TemporaryFile("w+") as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        operator(*inputs(bad))
        synchronize = attempt(m.synchronize)
        os.dup2(stderr, 2)
        log.seek(0)
        lines = [line for line in log if "Assertion" in line]
    shown = [re.sub(r"\d+", "N", line.strip()) for line in lines[:1]]
    return {"sync": synchronize, "lines": shown, "threads": len(lines)}


def full_message():
    x(4)
    poison()
    try:
        m.synchronize()
    except RuntimeError as error:
        kinds = [kind.__name__ for kind in type(error).__mro__[:5]]
        return {
            "lines": str(error).splitlines(),
            "kinds": kinds,
            "code": error.error_code,
        }


def illegal_address():
    good = x(4)
    m.synchronize()

    def touch():
        storage = torch._C._construct_storage_from_data_pointer(
            0x1000, torch.device(FIRST), 4096
        )
        torch.empty(0, device=DEVICE).set_(storage).add_(1.0)

    return steps(
        [
            ("launch", lambda: quiet(touch)),
            ("synchronize", m.synchronize),
            ("read an older tensor", good.cpu),
            ("synchronize again", m.synchronize),
        ]
    )


def asserts(o):
    for label, data in BAD_DATA.items():
        yield label, lambda data=data: bad_data(o, *data)
    for label in ("assert_async", "cross_entropy", "gather", "index", "one_hot"):
        data = BAD_DATA.get(label, BAD_DATA["cross_entropy_negative"])
        yield f"printed_{label}", lambda data=data: printed(*data)
    yield "printed_scatter", lambda: printed(*SCATTER)
    yield "full_message", full_message
    yield "illegal_address", illegal_address


def sticky(o):
    """On one device, of which everything is asked after it broke."""
    good, freed = x(4), [octets(30 << 20)]
    event, side = m.Event(), m.Stream()
    m.synchronize()
    calls = {
        "launch": poison,
        "synchronize": m.synchronize,
        "read an older tensor": good.cpu,
        "item of an older tensor": lambda: good[0].item(),
        "allocation from the cache": lambda: quiet(lambda: octets(16)),
        "allocation of a new segment": lambda: quiet(lambda: octets(256 << 20)),
        "kernel": lambda: quiet(lambda: good.add_(1)),
        "kernel on a new stream": lambda: quiet(
            lambda: o.on(side, lambda: good.add_(1))
        ),
        "copy to the device": lambda: quiet(lambda: torch.ones(4).to(DEVICE)),
        "stream query": lambda: m.current_stream().query(),
        "stream synchronize": lambda: m.current_stream().synchronize(),
        "event record": lambda: quiet(event.record),
        "event query": event.query,
        "new stream": lambda: quiet(m.Stream),
        "mm": lambda: quiet(lambda: torch.mm(x(2, 2), x(2, 2))),
        "pin_memory": lambda: torch.ones(4).pin_memory().is_pinned(),
        "memory_allocated": lambda: m.memory_allocated() > 0,
        "memory_stats": lambda: len(m.memory_stats()) > 10,
        "mem_get_info": lambda: len(m.mem_get_info()),
        "empty_cache": m.empty_cache,
        "get_rng_state": lambda: len(m.get_rng_state()),
        "manual_seed": lambda: m.manual_seed(1),
        "is_available": m.is_available,
        "current_device": m.current_device,
        "set_device": lambda: m.set_device(0),
        "properties": lambda: bool(m.get_device_properties(0).name),
        "repr of an older tensor": lambda: repr(good),
        "metadata of an older tensor": lambda: [
            list(good.shape),
            list(good.stride()),
            good.is_contiguous(),
        ],
        "data_ptr": lambda: good.data_ptr() != 0,
        "cpu tensor": lambda: torch.ones(2) + 1,
        "synchronize later": m.synchronize,
        "free, then empty_cache": lambda: (freed.clear(), m.empty_cache())[1],
    }
    for label, call in calls.items():
        yield label, lambda call=call: described(call())


def fail_and_finish():
    """Returns when the kernel has failed, without hearing of it."""
    poison()
    tasks, streams = ctypes.c_size_t(1), ctypes.c_size_t()
    while tasks.value > 0:
        load_libopenreg().orDeviceGetQueueDepth(
            ctypes.byref(tasks), ctypes.byref(streams), 0
        )


# What is called after a kernel has failed.
SURFACES = {
    "item": lambda keep, event: keep[0].item(),
    "stream_query_after_wait": lambda keep, event: m.current_stream().query(),
    "event_synchronize": lambda keep, event: (event.record(), event.synchronize())[1],
    "kernel_after_wait": lambda keep, event: quiet(lambda: keep.add_(1)),
    "alloc_new_segment_after_wait": lambda keep, event: quiet(
        lambda: octets(256 << 20)
    ),
    "alloc_cached_after_wait": lambda keep, event: quiet(lambda: octets(16)),
    "copy_to_device_after_wait": lambda keep, event: quiet(
        lambda: torch.ones(4).to(DEVICE)
    ),
    "repr": lambda keep, event: repr(keep),
    "bool": lambda keep, event: bool(keep.sum() > 0),
    "stream_wait_event": lambda keep, event: (
        event.record(),
        quiet(lambda: m.Stream().wait_event(event)),
    )[1],
    "elapsed_time": lambda keep, event: (event.record(), event.elapsed_time(event))[1],
}


def surface(call):
    keep, event = x(4), m.Event(enable_timing=True)
    event.record()
    m.synchronize()
    return steps([("launch", fail_and_finish), ("surfaces", lambda: call(keep, event))])


def surfaces(o):
    for label, call in SURFACES.items():
        yield label, lambda call=call: surface(call)
