"""Wrong uses of streams and events: which class of exception, if any."""

import copy
import pickle

import torch
from observer import case


def elapsed(o, first, second, record):
    events = [o.m.Event(enable_timing=timed) for timed in (first, second)]
    for event, recorded in zip(events, record, strict=True):
        if recorded:
            event.record()
    o.sync()
    return events[0].elapsed_time(events[1]) >= 0


def enter(context):
    with context:
        return None


@case("misuse", "stream")
def _(o):
    m, x = o.m, torch.ones(2, device=o.device)
    stream, event = m.Stream(), m.Event()
    calls = {
        "elapsed_unrecorded": lambda: elapsed(o, True, True, (False, False)),
        "elapsed_second_unrecorded": lambda: elapsed(o, True, True, (True, False)),
        "torch_event_elapsed_untimed": lambda: elapsed(o, False, False, (True, True)),
        "query_unrecorded": lambda: m.Event().query(),
        "synchronize_unrecorded": lambda: m.Event().synchronize(),
        "wait_unrecorded": lambda: m.Event().wait(),
        "event_repr_unrecorded": lambda: repr(m.Event()),
        "event_record_on_none": lambda: m.Event().record(None),
        "event_record_on_string": lambda: m.Event().record("s"),
        "event_bad_keyword": lambda: m.Event(nosuch=True),
        "event_deepcopy": lambda: copy.deepcopy(event),
        "stream_pickle": lambda: pickle.dumps(stream),
        "stream_deepcopy": lambda: copy.deepcopy(stream),
        "stream_priority_high": lambda: m.Stream(priority=-100).priority,
        "stream_context_of_event": lambda: enter(m.stream(event)),
        "wait_event_none": lambda: stream.wait_event(None),
        "stream_eq_int": lambda: m.current_stream() == 0,
        "record_stream_string": lambda: x.record_stream("s"),
        "record_stream_none": lambda: x.record_stream(None),
        "record_stream_of_cpu_tensor": lambda: torch.ones(2).record_stream(stream),
        "record_stream_of_view": lambda: x[1:].record_stream(stream),
        "record_stream_of_empty": lambda: o.bytes(0).record_stream(stream),
        "external_stream_equals_default": lambda: (
            m.ExternalStream(0) == m.default_stream()
        ),
        "accelerator_set_stream_none": lambda: torch.accelerator.set_stream(None),
        "torch_event_of_cpu": lambda: torch.Event(device="cpu").record(),
    }
    yield from calls.items()


@case("misuse", "index")
def _(o):
    m, bad = o.m, o.m.device_count()
    name = f"{o.device}:{bad}"

    def inside(device):
        with m.device(device):
            return m.current_device()

    def under():
        with torch.device(name):
            return torch.empty(1)

    calls = {
        "context_bad": under,
        "default_stream_bad": lambda: m.default_stream(bad),
        "accelerator_stream_bad": lambda: torch.accelerator.current_stream(bad),
        "accelerator_sync_cpu": lambda: torch.accelerator.synchronize("cpu"),
        "generator_bad": lambda: type(torch.Generator(device=name)).__name__,
        "max_memory_bad": lambda: m.max_memory_allocated(bad),
        "mem_get_info_bad": lambda: m.mem_get_info(bad),
        "memory_allocated_bad": lambda: m.memory_allocated(bad),
        "memory_allocated_cpu": lambda: m.memory_allocated("cpu"),
        "memory_stats_bad": lambda: m.memory_stats(bad),
        "module_context_cpu": lambda: enter(m.device("cpu")),
        "module_context_negative": lambda: inside(-1),
        "module_context_none": lambda: inside(None),
        "module_context_string": lambda: inside(f"{o.device}:0"),
        "name_bad": lambda: m.get_device_name(bad),
        "peer_access_bad": lambda: m.can_device_access_peer(0, bad),
        "peer_access_self": lambda: m.can_device_access_peer(0, 0),
        "properties_bad": lambda: m.get_device_properties(bad),
        "reset_peak_bad": lambda: m.reset_peak_memory_stats(bad),
        "set_device_cpu": lambda: m.set_device("cpu"),
        "set_device_negative": lambda: (m.set_device(-1), m.current_device())[1],
        "set_device_no_index": lambda: m.set_device(o.device),
        "stream_bad": lambda: m.Stream(device=bad),
        "stream_cpu": lambda: m.Stream(device="cpu"),
        "synchronize_negative": lambda: m.synchronize(-1),
        "to_bad": lambda: torch.ones(1).to(name),
        "zeros_bad": lambda: torch.zeros(1, device=name),
        "randn_bad": lambda: torch.randn(1, device=name),
    }
    m.init()
    yield from calls.items()


@case("misuse", "generator")
def _(o):
    m, cpu = o.m, torch.Generator("cpu")

    def draw(make, generator):
        return make(4, device=o.device, generator=generator).numel()

    calls = {
        "cpu_generator": lambda: draw(torch.rand, cpu),
        "randperm_cpu_generator": lambda: draw(torch.randperm, cpu),
        "generator_device": lambda: str(torch.Generator(o.device).device),
        "pickle_generator": lambda: type(
            pickle.loads(pickle.dumps(torch.Generator(o.device)))
        ).__name__,
        "seed_float": lambda: m.manual_seed(1.5),
        "seed_negative": lambda: (m.manual_seed(-1), m.initial_seed())[1],
        "seed_string": lambda: m.manual_seed("a"),
        "seed_too_large": lambda: m.manual_seed(1 << 64),
        "set_rng_state_all_short": lambda: m.set_rng_state_all([]),
        "set_rng_state_cpu_device": lambda: m.set_rng_state(m.get_rng_state(), "cpu"),
        "set_rng_state_wrong_size": lambda: m.set_rng_state(
            torch.zeros(3, dtype=torch.uint8)
        ),
        "set_state_on_device": lambda: m.set_rng_state(m.get_rng_state().to(o.device)),
        "set_state_wrong_dtype": lambda: m.set_rng_state(torch.zeros(16)),
    }
    yield from calls.items()
