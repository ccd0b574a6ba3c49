"""What a profile of device work shows: categories, fields, arrows and rows, not times."""

import json
import re
import tempfile
from pathlib import Path

import torch
from observer import NAME, case, plain
from torch import nn
from torch.profiler import ProfilerActivity, profile

OF_DEVICE = ProfilerActivity.CUDA if NAME == "cuda" else ProfilerActivity.PrivateUse1
BOTH = [ProfilerActivity.CPU, OF_DEVICE]


def training_step(o):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(o.device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    x = torch.randn(32, 64).to(o.device)
    target = torch.zeros(32, dtype=torch.int64).to(o.device)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), target).backward()
        optimizer.step()

    return step


def exported(profiler):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def trace_of(o, work, activities=BOTH, **options):
    """The trace of work that has run before."""
    work()
    o.sync()
    with profile(activities=activities, **options) as profiler:
        work()
        o.sync()
    return exported(profiler)


def by_category(trace):
    found = {}
    for event in trace["traceEvents"]:
        if "cat" in event:
            found.setdefault(plain(event["cat"]), []).append(event)
    return found


def columns(profiler):
    table = profiler.key_averages().table(row_limit=3)
    head = next(line for line in table.split("\n") if "Name" in line)
    return [column for column in re.split(r"\s{2,}", head.strip()) if column]


CATEGORIES = (
    *("<dev>_driver", "<dev>_runtime", "Trace", "ac2g", "cpu_instant_event"),
    *("cpu_op", "fwdbwd", "gpu_memset", "gpu_user_annotation", "kernel", "overhead"),
    "user_annotation",
)


@case("profiler", "training_step")
def _(o):
    trace = trace_of(o, training_step(o), record_shapes=True, profile_memory=True)
    found = by_category(trace)
    for name in CATEGORIES:
        events = found.get(name, [])
        args = {plain(key) for event in events for key in event.get("args", {})}
        fields = {key for event in events for key in event} - {"args"}
        yield f"{name}: args", lambda args=args: sorted(args)
        yield f"{name}: fields", lambda fields=fields: sorted(fields)
        yield (
            f"{name}: phases",
            lambda events=events: sorted({event["ph"] for event in events}),
        )
    yield "other categories", lambda: sorted(set(found) - set(CATEGORIES))
    yield "top level", lambda: sorted(trace)
    yield "device properties", lambda: sorted(trace["deviceProperties"][0])


@case("profiler", "flows")
def _(o):
    found = by_category(trace_of(o, training_step(o)))
    arrows = found["ac2g"]
    starts = {event["id"] for event in arrows if event["ph"] == "s"}
    ends = {event["id"] for event in arrows if event["ph"] == "f"}
    kernels, forward = found["kernel"], found["fwdbwd"]
    calls = {call["args"]["correlation"]: call for call in found["<dev>_runtime"]}
    operators = {event["args"].get("External id") for event in found["cpu_op"]}
    numbers = {kernel["args"]["correlation"] for kernel in kernels}
    yield (
        "flow categories",
        lambda: sorted(c for c, es in found.items() if {e["ph"] for e in es} & {*"sf"}),
    )
    yield "every kernel has an ac2g end", lambda: numbers <= ends
    yield "calls without device work have a start too", lambda: bool(starts - ends)
    yield "every kernel has a runtime call", lambda: numbers <= set(calls)
    yield (
        "every kernel has a cpu operator",
        lambda: {kernel["args"]["External id"] for kernel in kernels} <= operators,
    )
    yield (
        "kernel starts after its call",
        lambda: all(k["ts"] >= calls[k["args"]["correlation"]]["ts"] for k in kernels),
    )
    yield "forward to backward flows", lambda: forward != [] and len(forward) % 2 == 0


@case("profiler", "rows_per_stream")
def _(o):
    a, b = o.m.Stream(), o.m.Stream()
    x, y, z = (torch.ones(1 << 16, device=o.device) for _ in range(3))
    o.sync()

    def work():
        x.add_(1)
        o.on(a, lambda: y.add_(1))
        o.on(b, lambda: z.add_(1))

    trace = trace_of(o, work)
    kernels = by_category(trace)["kernel"]
    rows = {(kernel["pid"], kernel["tid"]) for kernel in kernels}
    named = [event for event in trace["traceEvents"] if event["ph"] == "M"]

    def names(kind, argument, events):
        texts = [e["args"][argument] for e in events if e["name"] == kind]
        return sorted({re.sub(r"\d+", "N", text) for text in texts})

    yield "kernels", lambda: len(kernels)
    yield "rows", lambda: len(rows)
    yield (
        "row is the stream argument",
        lambda: all(kernel["tid"] == kernel["args"]["stream"] for kernel in kernels),
    )
    yield (
        "pid is the device argument",
        lambda: all(kernel["pid"] == kernel["args"]["device"] for kernel in kernels),
    )
    yield (
        "row names",
        lambda: names(
            "thread_name", "name", [e for e in named if (e["pid"], e["tid"]) in rows]
        ),
    )
    yield "process labels", lambda: names("process_labels", "labels", named)
    yield "metadata events", lambda: sorted({event["name"] for event in named})


CALLS = (
    *("DeviceSynchronize", "EventRecordWithFlags", "EventSynchronize", "Free"),
    *("LaunchKernel", "Malloc", "MemcpyAsync", "StreamIsCapturing"),
    *("StreamSynchronize", "StreamWaitEvent"),
)


@case("profiler", "runtime_calls")
def _(o):
    x, stream = torch.ones(4, device=o.device), o.m.Stream()

    def work():
        x.add_(1)
        o.sync()
        event = o.m.Event(enable_timing=True)
        event.record()
        event.synchronize()
        stream.wait_event(event)
        stream.synchronize()
        x.cpu()
        torch.empty(50 << 20, device=o.device)
        o.m.empty_cache()

    found = by_category(trace_of(o, work))
    calls = found["<dev>_runtime"]
    names = {re.sub("^(or|cuda)", "", call["name"]) for call in calls}
    for name in CALLS:
        yield f"<dev>{name}", lambda name=name: name in names
    yield "others", lambda: sorted(names - set(CALLS))
    yield "args", lambda: sorted({key for call in calls for key in call["args"]})
    yield (
        "sync events",
        lambda: sorted({e["name"] for e in found.get("<dev>_sync", [])}),
    )


@case("profiler", "memory_events")
def _(o):
    def work():
        a = torch.empty(1 << 20, device=o.device)
        b = torch.empty(1 << 10)
        del a, b

    trace = trace_of(o, work, profile_memory=True)
    events = [e for e in trace["traceEvents"] if e.get("name") == "[memory]"]
    of_device = [e["args"] for e in events if e["args"]["Device Type"] != 0]
    yield "keys", lambda: sorted({key for e in events for key in e["args"]})
    yield "phases", lambda: sorted({event["ph"] for event in events})
    yield "device bytes", lambda: [args["Bytes"] for args in of_device]
    yield "allocs and frees pair", lambda: sum(args["Bytes"] for args in of_device) == 0
    yield "has reserved", lambda: all("Total Reserved" in args for args in of_device)


@case("profiler", "memory_timeline")
def _(o):
    step = training_step(o)
    step()
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with profile(activities=BOTH, **options) as profiler:
        step()
        o.sync()
    timeline = profiler._memory_profile().timeline
    yield "timeline nonempty", lambda: len(timeline) > 0
    yield (
        "actions",
        lambda: sorted({str(entry[1]).split(".")[-1] for entry in timeline}),
    )
    yield (
        "device keys",
        lambda: sorted({plain(str(e[2][0].device)) for e in timeline}),
    )


@case("profiler", "legacy_profiler")
def _(o):
    x = torch.ones(1 << 16, device=o.device)
    x.add_(1)
    o.sync()
    with torch.autograd.profiler.profile(use_device=o.device) as profiler:
        x.add_(1)
        o.sync()
    adds = [e for e in profiler.function_events if e.name == "aten::add_"]
    yield "columns", lambda: columns(profiler)
    yield "device time", lambda: sum(event.device_time_total for event in adds) > 0


@case("profiler", "activity_of_device_only")
def _(o):
    x = torch.ones(1 << 12, device=o.device)
    trace = trace_of(o, lambda: x.add_(1), activities=BOTH[1:])
    found = by_category(trace)
    for name in ("<dev>_runtime", "Trace", "ac2g", "kernel", "overhead"):
        yield name, lambda name=name: name in found
    known = {"<dev>_runtime", "Trace", "ac2g", "kernel", "overhead"}
    yield "others", lambda: sorted(set(found) - known)


@case("profiler", "supported_activities")
def _(o):
    supported = torch.profiler.supported_activities()
    kinds = ("CPU", "CUDA", "OPENREG", "PrivateUse1")
    yield (
        "all",
        lambda: sorted(plain(str(a)) for a in supported if str(a).endswith(kinds)),
    )
