"""torch.openreg._gpu_trace: what happens on the device, told to functions."""

import importlib
import json

import pytest
import torch

NAMES = [
    "event_creation",
    "event_deletion",
    "event_record",
    "event_wait",
    "memory_allocation",
    "memory_deallocation",
    "stream_creation",
    "device_synchronization",
    "stream_synchronization",
    "event_synchronization",
]

# Cannot be turned off again, so it is turned on in a process of its own.
LISTEN = f"""
import functools, gc, json, torch
m = torch.openreg
told = []
for name in {NAMES}:
    register = getattr(m._gpu_trace, f"register_callback_for_{{name}}")
    register(functools.partial(lambda name, *args: told.append([name, *args]), name))

x = torch.ones(3, device="openreg")  # before anybody listens
assert told == []
torch._C._activate_gpu_trace()

def during(body):
    # What was told while it ran.
    gc.collect()
    told.clear()
    result = body()
    return result, list(told)
"""


@pytest.fixture
def told(run_python):
    """Runs a body that sets `answer`, with everything in it told to `told`."""

    def run(body, **options):
        code = LISTEN + body + "\nprint(json.dumps(answer))"
        return json.loads(run_python(code, **options))

    return run


def test_the_functions_are_those_of_cuda():
    cuda = importlib.import_module("torch.cuda._gpu_trace")
    ours = torch.openreg._gpu_trace
    public = [name for name in vars(cuda) if name.startswith("register_")]
    assert sorted(public) == sorted(f"register_callback_for_{n}" for n in NAMES)
    registries = [name for name in vars(cuda) if name.endswith("Callbacks")]
    for name in public + registries:
        assert type(getattr(ours, name)) is type(getattr(cuda, name))
    import torch.openreg._gpu_trace as imported

    assert imported is ours


def test_nothing_is_reported_unless_it_is_turned_on():
    heard = []
    registry = torch.openreg._gpu_trace.MemoryAllocationCallbacks
    registry.add_callback(heard.append)
    try:
        torch.ones(3, device="openreg")
    finally:
        registry.callback_list.remove(heard.append)
    assert heard == []


def test_events_are_reported_from_creation_to_deletion(told):
    answer = told("""
side, event = m.Stream(), m.Event()
def life():
    event.record(side)
    handle, stream = event.openreg_event, side.openreg_stream
    event.wait()
    event.synchronize()
    return handle, stream, m.current_stream().openreg_stream
(handle, side_stream, current), events = during(life)
def end():
    global event
    del event
_, ends = during(end)
answer = [handle, side_stream, current, events, ends]
""")
    handle, side, current, events, ends = answer
    assert events == [
        ["event_creation", handle],
        ["event_record", handle, side],
        ["event_wait", handle, current],
        ["event_synchronization", handle],
    ]
    assert ends == [["event_deletion", handle]]


def test_events_of_pytorch_itself_are_reported(told):
    """A copy between devices is ordered by events that C++ code makes."""
    kinds = told("""
y = torch.empty(3, device="openreg:1")
_, told = during(lambda: y.copy_(x))
answer = [name for name, *_ in told]
""")
    once = ["event_creation", "event_record", "event_wait"]
    assert [kind for kind in kinds if kind in once] == 2 * once
    assert kinds.count("event_deletion") == 2


def test_events_that_processes_share_are_reported(told):
    handle, events = told("""
event = m.Event(interprocess=True)
_, events = during(event.ipc_handle)
answer = [event.openreg_event, events]
""")
    assert events == [["event_creation", handle]]


def test_memory_is_reported_with_its_address(told):
    address, begin, end = told("""
y, begin = during(lambda: torch.empty(1000, device="openreg"))
address = y.data_ptr()
def drop():
    global y
    del y
_, end = during(drop)
answer = [address, begin, end]
""")
    assert begin == [["memory_allocation", address]]
    assert end == [["memory_deallocation", address]]


def test_memory_that_a_kernel_allocates_is_reported(told):
    names = told("""
_, told = during(lambda: x.nonzero())
answer = [name for name, *_ in told]
""")
    assert names.count("memory_allocation") >= 1


def test_streams_are_reported_as_their_pool_is_made(told):
    first, again, handle = told("""
stream, first = during(lambda: m.Stream(priority=-1))
_, again = during(lambda: m.Stream(priority=-1))
answer = [first, again, stream.openreg_stream]
""")
    assert {name for name, _ in first} == {"stream_creation"}
    assert len(first) == len({stream for _, stream in first}) == 32
    assert handle in [stream for _, stream in first]
    assert again == []


@pytest.mark.parametrize(
    "wait",
    [
        "m.synchronize()",
        "m.synchronize(1)",
        "torch.accelerator.synchronize()",
    ],
)
def test_a_wait_for_the_device_is_reported(told, wait):
    assert told(f"_, answer = during(lambda: {wait})") == [["device_synchronization"]]


@pytest.mark.parametrize(
    "wait",
    ["m.current_stream().synchronize()", "x.cpu()", "x[0].item()", "x.nonzero()"],
)
def test_a_wait_for_a_stream_is_reported(told, wait):
    stream, waits = told(f"""
_, waits = during(lambda: {wait})
answer = [m.current_stream().openreg_stream, waits]
""")
    assert [w for w in waits if w[0] == "stream_synchronization"] == [
        ["stream_synchronization", stream]
    ]


def test_a_copy_that_does_not_wait_is_not_reported(told):
    assert (
        told("""
host = torch.empty(3).pin_memory()
m.synchronize()
_, answer = during(lambda: host.copy_(x, non_blocking=True) is None)
""")
        == []
    )


def test_a_function_that_was_taken_out_is_not_called(told):
    answer = told("""
for registry in vars(m._gpu_trace).values():
    if isinstance(registry, m._gpu_trace.CallbackRegistry):
        registry.callback_list.clear()
def all_of_it():
    event = m.Stream(priority=-1).record_event()
    event.wait()
    event.synchronize()
    torch.empty(3, device="openreg")
    m.synchronize()
_, answer = during(all_of_it)
""")
    assert answer == []


def test_a_function_that_raises_does_not_reach_the_program(run_python):
    result = run_python(
        LISTEN
        + """
def fail(pointer):
    raise ValueError("a listener's mistake")
m._gpu_trace.register_callback_for_memory_allocation(fail)
print(torch.ones(3, device="openreg").sum().item())
""",
        check=False,
    )
    assert result.returncode == 0 and result.stdout.strip() == "3.0"
    assert "a listener's mistake" in result.stderr


def test_threads_of_the_device_may_report(told):
    """Memory that queued work holds is freed by the stream's worker."""
    assert told(
        """
side = m.Stream()
def work():
    with m.stream(side):
        for _ in range(50):
            y = torch.ones(1000, device="openreg") * 2
    side.synchronize()
_, told = during(work)
names = [name for name, *_ in told]
answer = names.count("memory_allocation") == names.count("memory_deallocation")
""",
        OPENREG_SCHEDULE="async",
    )
