"""Profiles for tests, and the rules that an exported trace keeps."""

import importlib.util
import json
from collections import defaultdict
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

ROOT = Path(__file__).parent.parent

HOST, DEVICE = ProfilerActivity.CPU, ProfilerActivity.PrivateUse1
BOTH = [HOST, DEVICE]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALL = "privateuse1_runtime"
METADATA = {
    *("process_name", "process_labels", "process_sort_index"),
    *("thread_name", "thread_sort_index"),
}


def exported(profiler, folder):
    """The events of a profile's Chrome trace."""
    path = folder / "exported.json"
    profiler.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


def of(events, *categories):
    """Those of some categories, by time."""
    found = [event for event in events if event.get("cat") in categories]
    return sorted(found, key=lambda event: event["ts"])


def end(event):
    return event["ts"] + event["dur"]


def names(events):
    return [event["name"] for event in events]


# --- work to be profiled ----------------------------------------------------------


def quickstart():
    path = ROOT / "examples" / "quickstart.py"
    spec = importlib.util.spec_from_file_location("quickstart", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def step_of(network, device="openreg"):
    """A function that makes one training step of a quickstart's network."""
    torch.manual_seed(0)
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    inputs, targets = (t.to(device) for t in network.batch())

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def trace(work, folder, activities=BOTH, **options):
    """The events of a profile of work that has run before."""
    work()
    torch.openreg.synchronize()
    with profile(activities=activities, **options) as profiler:
        work()
    return exported(profiler, folder)


# --- the rules --------------------------------------------------------------------


def check_fields(events):
    """What the trace event format asks of each phase."""
    for event in events:
        assert event["ph"] in "XMisf", event
        assert {"pid", "tid", "name"} <= event.keys(), event
        if event["ph"] == "M":
            assert event["name"] in METADATA, event
            assert event["args"], event
            continue
        assert isinstance(event["ts"], int | float), event
        if event["ph"] == "X":
            assert event["dur"] >= 0, event
        if event["ph"] in "sf":
            assert isinstance(event["id"], int), event


def check_arrows(events):
    """Each arrow begins once and ends later, in a row at either end."""
    rows = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    starts = {}
    arrows = [event for event in events if event["ph"] in "sf"]
    for arrow in arrows:
        lies_in = rows[arrow["pid"], arrow["tid"]]
        assert any(r["ts"] <= arrow["ts"] <= end(r) for r in lies_in), arrow
        if arrow["ph"] == "s":
            assert (arrow["cat"], arrow["id"]) not in starts, arrow
            starts[arrow["cat"], arrow["id"]] = arrow
    for arrow in arrows:
        if arrow["ph"] == "f":
            assert arrow["bp"] == "e", arrow
            assert starts[arrow["cat"], arrow["id"]]["ts"] <= arrow["ts"], arrow


def check_streams(events):
    """A stream does one thing at a time, under a name."""
    streams = defaultdict(list)
    for event in of(events, *WORK):
        streams[event["pid"], event["tid"]].append(event)
        assert event["pid"] == event["args"]["device"]
        assert event["tid"] == event["args"]["stream"]
    named = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    for stream, rows in streams.items():
        assert named[stream] == f"stream {stream[1]} "
        for before, after in zip(rows, rows[1:], strict=False):
            # Times are rounded to nanoseconds.
            assert end(before) <= after["ts"] + 0.002, (before, after)
    return streams


def check_calls(events, queued_before):
    """Work has the call that queued it, under the same number, no later than itself;
    unless, where that may be, it was queued before the trace began."""
    calls = {event["args"]["correlation"]: event for event in of(events, CALL)}
    for event in of(events, *WORK):
        call = calls.get(event["args"]["correlation"])
        assert call["ts"] <= event["ts"] if call else queued_before, event


def check(events, queued_before=False):
    check_fields(events)
    check_arrows(events)
    check_calls(events, queued_before)
    return check_streams(events)
