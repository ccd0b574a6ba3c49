"""Streams, threads and operators, pinned memory, and how the figures are shown."""

import functools
import threading

import torch
import torch.nn.functional as F
from memory_trace import KIB, MIB, trace
from observer import case


@trace("pools_per_stream")
def _(t):
    return (
        t.alloc(a=5 * MIB, stream=1),
        t.free("a"),
        t.alloc(b=5 * MIB),
        t.alloc(c=5 * MIB, stream=2),
        t.alloc(d=5 * MIB, stream=1),
        t.free("b", "c", "d"),
        t.empty_cache(),
    )


@trace("three_streams_alternating")
def _(t):
    for i in range(9):
        yield t.alloc(**{f"t{i}": (i + 1) * 300 * KIB}, stream=i % 3)
    yield t.free("t4", "t0", "t8", "t2", "t6")
    for i in range(6):
        yield t.alloc(**{f"u{i}": 700 * KIB}, stream=i % 3)
    yield t.free(*t.tensors)
    yield t.synchronize()
    yield t.empty_cache()


@trace("free_on_side_stream")
def _(t):
    return (
        t.alloc(a=5 * MIB, stream=1),
        t.record_stream("a", 0),
        t.free("a"),
        t.synchronize(),
        t.alloc(b=5 * MIB, stream=1),
        t.alloc(c=5 * MIB),
        t.free("b", "c"),
        t.empty_cache(),
    )


@trace("threads_share_the_cache")
def _(t):
    def make_in_thread():
        thread = threading.Thread(target=t.make, args=("a", 5 * MIB))
        thread.start()
        thread.join()
        return t.tensors["a"]

    return (
        t.step(f"alloc a {5 * MIB}", make_in_thread),
        t.free("a"),
        t.alloc(b=5 * MIB),
        t.free("b"),
    )


@trace("exception_holds_tensor")
def _(t):
    def fail():
        x = t.o.bytes(5 * MIB)
        raise ValueError(x.numel())

    try:
        fail()
    except ValueError as error:
        yield t.step("exception alive")
        held = error
    yield t.step("exception kept in a variable")
    del held
    yield t.step("exception dropped")


@trace("arithmetic_temporaries")
def _(t):
    device, v = t.o.device, t.tensors
    yield t.let("x", "ones", lambda: torch.ones(2 * MIB, device=device))
    yield t.let("y", "y = x + 1", lambda: v["x"] + 1)
    yield t.step("x += y", lambda: v["x"].add_(v["y"]))
    yield t.let("z", "z = x*2+y*3-1", lambda: v["x"] * 2 + v["y"] * 3 - 1)
    yield t.step("reset peak", t.o.m.reset_peak_memory_stats)
    yield t.let(
        "w", "w = (x*2+y*3-1).relu()", lambda: (v["x"] * 2 + v["y"] * 3 - 1).relu()
    )
    yield t.let("b", "broadcast add", lambda: v["x"][:1024, None] + v["y"][None, :1024])
    yield t.let("c", "clone", lambda: v["x"].clone())
    yield t.let("tc", "transpose contiguous", lambda: v["b"].t().contiguous())
    yield t.let("h", "to half", lambda: v["x"].half())
    yield t.let("d", "to float64", lambda: v["x"][:1000].double())
    yield t.let("cat", "cat", lambda: torch.cat([v["x"], v["y"]]))
    yield t.let("st", "stack of rows", lambda: torch.stack(list(v["b"][:16])))
    yield t.let("m", "compare", lambda: v["x"] > 0)
    yield t.let("zl", "zeros_like", lambda: torch.zeros_like(v["x"]))
    yield t.step("to cpu", lambda: v["x"].cpu() is None)
    yield t.let("fc", "from cpu", lambda: torch.ones(1000).to(device))
    yield t.free(*v)
    yield t.empty_cache()


@trace("mm_workspace_none")
def _(t):
    a = torch.ones(256, 256, device=t.o.device)
    yield t.step("operand")
    yield t.let("y", "mm float32", lambda: torch.mm(a, a))
    yield t.let("z", "mm again", lambda: torch.mm(a, a))
    h = a.half()
    yield t.step("half operand")
    yield t.let("h", "mm half", lambda: torch.mm(h, h))
    yield t.let("l", "linear with bias", lambda: F.linear(a, a, a[0]))
    yield t.let("b", "bmm", lambda: torch.bmm(a[None], a[None]))
    on_side = functools.partial(t.o.on, t.stream(1), lambda: torch.mm(a, a))
    yield t.let("s", "mm on another stream", on_side)
    yield t.synchronize()
    yield t.free(*t.tensors)
    yield t.empty_cache()


@case("memory", "pinned_reuse")
def _(o):
    def pinned():
        return torch.empty(4 * MIB, dtype=torch.uint8, pin_memory=True)

    target = o.bytes(4 * MIB)
    first = pinned().data_ptr()
    yield "idle block reused", lambda: pinned().data_ptr() == first
    o.busy()
    target.copy_(pinned(), non_blocking=True)
    other = pinned()
    yield "busy block reused", lambda: other.data_ptr() == first
    o.sync()
    yield "reused when done", lambda: pinned().data_ptr() == first


@case("memory", "stats_keys")
def _(o):
    o.zeros()
    keys = sorted(o.m.memory_stats())
    yield "module", lambda: [k for k in keys if ".all." in k or "pool" not in k]
    yield "count", lambda: len(keys)
    yield (
        "accelerator_equal",
        lambda: dict(torch.accelerator.memory_stats()) == dict(o.m.memory_stats()),
    )
    yield "nested", lambda: sorted(o.m.memory_stats_as_nested_dict())


@case("memory", "summary_text")
def _(o):
    keep = o.bytes(5 * MIB)
    text, short = (
        o.m.memory_summary(abbreviated=few).split("\n") for few in (False, True)
    )
    del keep
    for number, line in enumerate(text[:12], 1):
        yield f"line {number}", lambda line=line: line
    yield "lines", lambda: len(text)
    yield "lines of the short form", lambda: len(short)
    yield "width", lambda: len(text[0])
