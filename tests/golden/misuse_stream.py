"""Wrong uses of streams and events."""

import copy
import pickle

import torch
from misuse import DEVICE, c, m, x


def elapsed(start, end, record):
    for event in (start, end)[:record]:
        event.record()
    m.synchronize()
    return start.elapsed_time(end) >= 0


def timed():
    return m.Event(enable_timing=True)


def enter(context):
    with context:
        return None


CALLS = {
    "elapsed_unrecorded": lambda: elapsed(timed(), timed(), record=0),
    "elapsed_second_unrecorded": lambda: elapsed(timed(), timed(), record=1),
    "query_unrecorded": lambda: m.Event().query(),
    "synchronize_unrecorded": lambda: m.Event().synchronize(),
    "wait_unrecorded": lambda: m.Event().wait(),
    "interprocess_timed": lambda: m.Event(
        enable_timing=True, interprocess=True
    ).record(),
    "event_repr_unrecorded": lambda: repr(m.Event()),
    "event_record_on_none": lambda: m.Event().record(None),
    "event_record_on_string": lambda: m.Event().record("s"),
    "event_bad_keyword": lambda: m.Event(nosuch=True),
    "event_deepcopy": lambda: type(copy.deepcopy(m.Event())).__name__,
    "stream_pickle": lambda: pickle.loads(pickle.dumps(m.Stream())),
    "stream_deepcopy": lambda: type(copy.deepcopy(m.Stream())).__name__,
    "stream_priority_high": lambda: m.Stream(priority=-100).priority,
    "stream_context_of_event": lambda: enter(m.stream(m.Event())),
    "cpu_stream": lambda: torch.Stream(device="cpu"),
    "wait_event_none": lambda: m.Stream().wait_event(None),
    "stream_eq_int": lambda: m.current_stream() == 0,
    "record_stream_string": lambda: x(2).record_stream("s"),
    "record_stream_none": lambda: x(2).record_stream(None),
    "record_stream_of_cpu_tensor": lambda: c(2).record_stream(m.current_stream()),
    "record_stream_of_view": lambda: x(4)[1:].record_stream(m.Stream()),
    "record_stream_of_empty": lambda: torch.empty(0, device=DEVICE).record_stream(
        m.Stream()
    ),
    "external_stream_equals_default": lambda: m.ExternalStream(0) == m.default_stream(),
    "accelerator_set_stream_none": lambda: torch.accelerator.set_stream(None),
    "torch_event_of_cpu": lambda: torch.Event(device="cpu").record(),
    "torch_event_elapsed_untimed": lambda: elapsed(
        torch.Event(DEVICE), torch.Event(DEVICE), record=2
    ),
    "sync_debug_number": lambda: m.set_sync_debug_mode(7),
}
