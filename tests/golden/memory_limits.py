"""Running out of memory, and the settings of the allocator."""

import re

import torch
from memory_trace import GIB, KIB, MIB, configure, sentences, trace
from observer import case


@trace("oom_flushes_cache_then_succeeds")
def _(t):
    return (
        t.limit(GIB),
        t.alloc(a=512 * MIB),
        t.free("a"),
        t.alloc(b=700 * MIB, c=400 * MIB),
        t.free("b"),
        t.alloc(d=400 * MIB),
        t.free("d"),
        t.empty_cache(),
    )


@trace("oom_plain")
def _(t):
    return (
        t.limit(GIB),
        t.alloc(a=2 * GIB, b=600 * MIB, c=600 * MIB, small=100),
        t.free("b"),
        t.alloc(d=600 * MIB),
    )


@trace("oom_small_pool")
def _(t):
    return (
        t.limit(8 * MIB),
        t.alloc(**{f"t{i}": MIB for i in range(12)}),
        t.free("t0", "t1"),
        t.alloc(u=MIB),
    )


@trace("oom_waits_for_recorded_stream")
def _(t):
    yield t.limit(256 * MIB)
    yield t.alloc(a=200 * MIB)
    t.o.on(t.stream(1), t.o.busy)
    yield t.record_stream("a", 1)
    yield t.free("a")
    yield t.alloc(b=200 * MIB)


@case("memory", "oom_message")
def _(o):
    total = o.m.get_device_properties(0).total_memory
    o.m.set_per_process_memory_fraction((GIB + MIB) / total)
    keep = o.bytes(512 * MIB), o.bytes(100 * MIB)
    try:
        o.bytes(700 * MIB)
    except torch.OutOfMemoryError as error:
        kind, told = type(error).__name__, sentences(error)
    del keep
    yield "kind", lambda: kind
    for number, sentence in enumerate(told, 1):
        if "capacity" in sentence or "process" in sentence:  # sizes of the card
            sentence = re.sub(r"[\d.]+ [GM]iB", "<size>", sentence)
        yield f"sentence {number}", lambda sentence=sentence: sentence


def some_of_each_size(t):
    return (
        t.alloc(a=40 * MIB, b=130 * MIB),
        t.free("a"),
        t.alloc(c=10 * MIB),
        t.free("b"),
        t.alloc(d=100 * MIB, e=3 * MIB + 5, f=700 * KIB, g=1500),
        t.free("c", "d", "e", "f", "g"),
        t.empty_cache(),
    )


for name, settings in {
    "roundup_power2": "roundup_power2_divisions:4",
    "expandable": "expandable_segments:True",
}.items():
    trace(f"settings_{name}", settings)(some_of_each_size)


for name, settings in {
    "unknown_key": "nosuch:1",
    "too_small_split": "max_split_size_mb:1",
    "bad_syntax": "max_split_size_mb",
    "threshold_range": "garbage_collection_threshold:2.0",
}.items():

    @case("memory", f"settings_error_{name}")
    def _(o, settings=settings):
        configure(settings)
        yield "use", o.zeros


@case("memory", "settings_set_at_runtime")
def _(o):
    change = o.m.memory._set_allocator_settings
    yield "set", lambda: change("max_split_size_mb:64")
    yield "alloc", lambda: torch.tensor([1.0, 2.0], device=o.device)
    yield "max_split_size", lambda: o.m.memory_stats()["max_split_size"]
    yield "unknown", lambda: change("nosuch:1")
