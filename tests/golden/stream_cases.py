"""Order, queries and reuse: what streams and events promise."""

import threading
import time

import torch
from observer import case

MiB = 1 << 20
MS = int(1.98e6)  # cycles of _sleep()


@case("streams", "pool_of_streams")
def _(o):
    made = [o.m.Stream() for _ in range(70)]
    high = [o.m.Stream(priority=-1) for _ in range(70)]
    generic = [torch.Stream(device=o.device) for _ in range(70)]
    yield "distinct among 70", lambda: len(set(made))
    yield "repeats after", lambda: made.index(made[0], 1)
    yield "distinct high priority", lambda: len(set(high))
    yield "high not among normal", lambda: not set(high) & set(made)
    yield "torch.Stream pool", lambda: len(set(generic))


@case("streams", "priorities")
def _(o):
    yield "range", lambda: o.m.Stream.priority_range()
    for p in (0, -1, -2, -3, -5, -6, 1):
        yield f"priority {p}", lambda p=p: o.m.Stream(priority=p).priority


# --- asynchrony ---------------------------------------------------------------


@case("streams", "event_query")
def _(o):
    e = o.m.Event()
    yield "before record", e.query
    o.busy()
    e.record()
    yield "while running", e.query
    yield "synchronize waits", lambda: o.waits(e.synchronize)
    yield "after", e.query
    o.busy()
    yield "old record still done", e.query
    e.record()
    yield "recorded again", e.query
    o.sync()
    yield "done again", e.query


@case("streams", "default_does_not_wait_for_side")
def _(o):
    side, x = o.m.Stream(), o.zeros()
    o.on(side, o.busy)
    x.add_(1)
    yield (
        "default finished first",
        lambda: not o.waits(o.m.default_stream().synchronize),
    )
    yield "side still running", lambda: not side.query()


@case("streams", "item_waits_for_its_stream_only")
def _(o):
    side, x = o.m.Stream(), o.zeros()
    o.on(side, o.busy)
    yield "item on default is quick", lambda: not o.waits(x[0].item)
    yield "side still running", lambda: not side.query()
    o.sync()
    o.busy()
    yield "item behind work waits", lambda: o.waits(x[0].item)


@case("streams", "queue_depth")
def _(o):
    """How many launches fit behind running work before the host has to wait."""
    x, n = o.zeros(), 0
    x.add_(1).zero_()  # an operator's first call with new dtypes waits
    busy = o.busy()
    while busy.running and n < 6000:
        x.add_(1)
        n += 1
    yield "host had to wait", lambda: n < 6000
    depth = "launches before waiting (power of two, rounded)"
    yield depth, lambda: 1 << (n - 1).bit_length()
    o.sync()
    yield "all ran", lambda: x[0].item() == n


# --- order across streams -----------------------------------------------------


def race(o, guard):
    """What a stream reads that another is held up from writing."""
    a, b = o.m.Stream(), o.m.Stream()
    x, y = o.zeros(), o.zeros()
    o.on(a, o.busy)
    o.on(a, lambda: x.fill_(7))
    guard(a, b)
    o.on(b, lambda: y.copy_(x))
    b.synchronize()
    got = y[0].item()
    o.sync()
    return got


@case("streams", "order_across_streams")
def _(o):
    def late(a, b):
        e = o.m.Event()
        b.wait_event(e)
        e.record(a)

    def recorded(a, event):
        event.record(a)
        return event

    def by_host(a, b):
        a.synchronize()

    guards = {
        "no guard reads the old value": lambda a, b: None,
        "wait_event": lambda a, b: b.wait_event(recorded(a, o.m.Event())),
        "event.wait": lambda a, b: recorded(a, o.m.Event()).wait(b),
        "wait_stream": lambda a, b: b.wait_stream(a),
        "wait before record waits for nothing": late,
        "record_event returns the event": lambda a, b: b.wait_event(a.record_event()),
        "torch.Event": lambda a, b: b.wait_event(
            a.record_event(torch.Event(device=o.device))
        ),
        "host wait": by_host,
    }
    for label, guard in guards.items():
        yield label, lambda guard=guard: race(o, guard)


@case("streams", "wait_does_not_block_the_host")
def _(o):
    a, b = o.m.Stream(), o.m.Stream()
    o.on(a, o.busy)
    yield "quick", lambda: not o.waits(lambda: b.wait_stream(a))
    yield "b waits", b.query
    o.sync()
    yield "b done", b.query


@case("streams", "wait_captures_the_record_at_the_call")
def _(o):
    a, b, e = o.m.Stream(), o.m.Stream(), o.m.Event()
    e.record(a)
    o.sync()
    b.wait_event(e)
    o.on(a, o.busy)
    e.record(a)
    yield "b free", lambda: not o.waits(b.synchronize)
    yield "a running", lambda: not a.query()


# --- copies -------------------------------------------------------------------


def copy_out(o, target, non_blocking):
    """A copy behind running work: does it wait, and when is its value there?"""
    source = torch.ones(target.shape, device=o.device)
    target.fill_(0)
    o.sync()
    o.busy()
    early = not o.waits(lambda: target.copy_(source, non_blocking=non_blocking))
    at_once = target[-1].item()
    o.sync()
    return {
        "returned_early": early,
        "value_at_return": at_once,
        "after_sync": target[-1].item(),
    }


@case("streams", "copies_from_the_device")
def _(o):
    def to_cpu():
        x = torch.ones(1 << 20, device=o.device)
        o.sync()
        busy = o.busy()
        y = x.to("cpu", non_blocking=True)
        early, pinned = busy.running, y.is_pinned()
        o.sync()
        return {"early": early, "result_pinned": pinned, "value": y[-1].item()}

    def with_a_cast():
        x = torch.full((1000,), 1.5, device=o.device)
        o.busy()
        y = x.to("cpu", torch.float16)
        return [str(y.dtype), y[0].item()]

    for label, n in (("16 B", 4), ("16 MiB", 4 * MiB)):
        for nb in (False, True):
            for kind in ("pageable", "pinned"):
                target = torch.empty(n, pin_memory=kind == "pinned")
                yield (
                    f"{kind} {label} non_blocking={nb}",
                    lambda target=target, nb=nb: copy_out(o, target, nb),
                )
    yield "to(cpu, non_blocking)", to_cpu
    yield "dtype change on the way", with_a_cast


@case("streams", "copy_on_a_side_stream")
def _(o):
    side, x = o.m.Stream(), o.zeros(MiB)
    pinned = torch.ones(MiB).pin_memory()
    o.busy()
    o.on(side, lambda: x.copy_(pinned, non_blocking=True))
    yield "copy overtakes the kernel", lambda: not o.waits(side.synchronize)
    yield "kernel still runs", lambda: not o.m.default_stream().query()


# --- time ---------------------------------------------------------------------


@case("streams", "elapsed_time")
def _(o):
    a, b, c = (o.m.Event(enable_timing=True) for _ in range(3))
    start = time.perf_counter()
    a.record()
    o.m._sleep(100 * MS)
    b.record()
    c.record()
    o.sync()
    host = (time.perf_counter() - start) * 1e3
    time_between = a.elapsed_time(b)
    yield "is a float", lambda: type(time_between).__name__
    yield "near the host's time", lambda: 99 < time_between < 1.1 * host
    yield "small without work", lambda: 0 <= b.elapsed_time(c) < 50
    yield "reversed is negative", lambda: b.elapsed_time(a) < 0
    yield "with itself", lambda: a.elapsed_time(a)
    total = a.elapsed_time(c)
    yield "additive", lambda: abs(time_between + b.elapsed_time(c) - total) < 0.1
    side = o.m.Stream()
    first, last = (o.m.Event(enable_timing=True) for _ in range(2))
    first.record(o.m.Stream())
    o.on(side, lambda: o.m._sleep(20 * MS))
    last.record(side)
    o.sync()
    yield "across streams", lambda: first.elapsed_time(last) > 10


# --- reuse of memory ----------------------------------------------------------


@case("streams", "pointer_reuse")
def _(o):
    def again(record=False, wait=False, other=False, busy=True, n=5 * MiB):
        """Whether memory that was freed comes back with the next allocation."""
        a, b = o.m.Stream(), o.m.Stream()
        x = o.bytes(n)
        pointer = x.data_ptr()
        if busy:
            with o.m.stream(a):
                o.busy()
                x.add_(1)
        if record:
            x.record_stream(a)
        del x
        if wait:
            o.sync()
        y = o.on(b if other else o.m.current_stream(), lambda: o.bytes(n))
        same = y.data_ptr() == pointer
        o.sync()
        return same

    yield "same stream, at once", lambda: again(busy=False)
    yield "used on another stream, not recorded: reused at once", again
    yield "recorded on a busy stream: not reused", lambda: again(record=True)
    yield "recorded, then synchronised: reused", lambda: again(record=True, wait=True)
    yield "recorded on an idle stream", lambda: again(record=True, busy=False)
    label = "asked for from another stream: not reused"
    yield label, lambda: again(busy=False, other=True)
    yield "small blocks, same stream", lambda: again(busy=False, n=1000)
    yield "small blocks, recorded and busy", lambda: again(record=True, n=1000)


@case("streams", "record_stream_many_times")
def _(o):
    stream, x = o.m.Stream(), o.bytes(5 * MiB)
    pointer = x.data_ptr()
    for _ in range(3):
        o.on(stream, o.busy)
        x.record_stream(stream)
    view = x[100:]
    del x
    yield "view alive keeps it", lambda: o.bytes(5 * MiB).data_ptr() != pointer
    del view
    yield "not reused while busy", lambda: o.bytes(5 * MiB).data_ptr() != pointer
    o.sync()
    kept = [o.bytes(5 * MiB) for _ in range(3)]
    yield "reused afterwards", lambda: pointer in [k.data_ptr() for k in kept]


# --- autograd -----------------------------------------------------------------


@case("streams", "backward_streams")
def _(o):
    side, seen = o.m.Stream(), {}

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen["forward"] = o.m.current_stream() == side
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen["backward"] = o.m.current_stream() == side
            seen["thread"] = threading.current_thread() is threading.main_thread()
            return grad * 2

    x = torch.ones(4, device=o.device, requires_grad=True)
    o.sync()
    y = o.on(side, lambda: Double.apply(x).sum())
    side.synchronize()
    y.backward()
    yield "forward on the side stream", lambda: seen["forward"]
    yield "backward on the forward's stream", lambda: seen["backward"]
    yield "backward in the calling thread", lambda: seen["thread"]
    yield "grad", lambda: x.grad
    default = o.m.default_stream()
    yield "current stream afterwards", lambda: o.m.current_stream() == default
