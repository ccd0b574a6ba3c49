"""Wrong uses of graphs: step by step, what each says, and what works afterwards."""

import torch
from misuse import DEVICE, described, m, octets, quiet, x
from observer import Graph, attempt

MIB = 1 << 20


class Steps(dict):
    def __call__(self, label, call):
        self[label] = attempt(lambda: described(call()))


def on(stream, call):
    with m.stream(stream):
        return call()


def enter(context):
    with context:
        return None


def capture(body, before=lambda t: None, **options):
    """Captures `body`: what it raised, how the capture ended, what works then."""

    def run():
        t, square, step = x(4), x(2, 2), Steps()
        torch.mm(square, square)
        t.add_(0)
        m.synchronize()
        extra = before(t)
        graph = Graph()

        def record():
            with m.graph(graph, **options):
                step("inside", lambda: quiet(lambda: body(t, extra)))
                step("then a kernel", lambda: quiet(lambda: t.add_(1)))

        step("capture", record)
        step("replay", graph.replay)
        step("synchronize", m.synchronize)
        step("device still works", lambda: t + 1)
        step("capturing afterwards", m.is_current_stream_capturing)
        is_default = m.current_stream() == m.default_stream()
        step("current stream is default", lambda: is_default)
        return step

    return run


def recorded(t):
    event = m.Event()
    event.record()
    return event


def stream(t):
    return m.Stream()


def unjoined(t, side):
    side.wait_stream(m.current_stream())
    on(side, lambda: t.add_(1))


def joined(t, side):
    unjoined(t, side)
    m.current_stream().wait_stream(side)


def exception_leaves_context():
    t, step, graph = x(4), Steps(), Graph()
    m.synchronize()

    def record():
        with m.graph(graph):
            t.add_(1)
            raise KeyError("mine")

    step("capture", record)
    step("replay", graph.replay)
    step("device still works", lambda: t + 1)
    return step


def end_on_other_stream():
    t, step, graph = x(4), Steps(), Graph()
    m.synchronize()
    with m.stream(m.Stream()):
        step("capture_begin", graph.capture_begin)
        step("kernel", lambda: quiet(lambda: t.add_(1)))
    step("capture_end on default", graph.capture_end)
    step("synchronize", m.synchronize)
    return step


def delete_during_capture():
    t, step, graphs = x(4), Steps(), [Graph()]
    m.synchronize()
    with m.stream(m.Stream()):
        step("capture_begin", graphs[0].capture_begin)
        step("kernel", lambda: quiet(lambda: t.add_(1)))
        step("delete", graphs.clear)
        step("kernel afterwards", lambda: quiet(lambda: t.add_(1)))
    step("synchronize", m.synchronize)
    return step


CASES = {
    "alloc_on_unrelated_stream": capture(
        lambda t, s: on(s, lambda: octets(100 * MIB)), stream
    ),
    "cpu_inside": capture(lambda t, e: t.cpu()),
    "delete_during_capture": delete_during_capture,
    "end_on_other_stream": end_on_other_stream,
    "event_record_inside": capture(lambda t, e: e.record(), recorded),
    "event_synchronize_inside": capture(
        lambda t, e: (e.record(), e.synchronize()), recorded
    ),
    "exception_leaves_context": exception_leaves_context,
    "get_rng_state_inside": capture(lambda t, e: m.get_rng_state()),
    "item_inside": capture(lambda t, e: t[0].item()),
    "joined_stream": capture(joined, stream),
    "kernel_on_default_stream": capture(
        lambda t, e: on(m.default_stream(), lambda: t.add_(1))
    ),
    "manual_seed_inside": capture(lambda t, e: m.manual_seed(3)),
    "memory_stats_inside": capture(lambda t, e: m.memory_stats()),
    "mm_inside": capture(
        lambda t, e: torch.mm(*[torch.ones(64, 64, device=DEVICE)] * 2)
    ),
    "nested_capture": capture(lambda t, e: enter(m.graph(Graph()))),
    "new_segment_inside": capture(lambda t, e: octets(100 * MIB)),
    "new_segment_thread_local": capture(
        lambda t, e: octets(100 * MIB), capture_error_mode="thread_local"
    ),
    "nonzero_inside": capture(lambda t, e: t.nonzero()),
    "pageable_copy_in_inside": capture(lambda t, e: torch.ones(4).to(DEVICE)),
    "pinned_alloc_inside": capture(lambda t, e: torch.empty(MIB, pin_memory=True)),
    "pinned_copy_in_inside": capture(
        lambda t, p: t.copy_(p, non_blocking=True),
        lambda t: torch.ones(4).pin_memory(),
    ),
    "plain": capture(lambda t, e: t.mul_(1)),
    "set_device_inside": capture(lambda t, e: m.set_device(0)),
    "stream_query_inside": capture(lambda t, e: m.current_stream().query()),
    "stream_synchronize_inside": capture(lambda t, e: m.current_stream().synchronize()),
    "synchronize_inside": capture(lambda t, e: m.synchronize()),
    "synchronize_inside_relaxed": capture(
        lambda t, e: m.synchronize(), capture_error_mode="relaxed"
    ),
    "unjoined_stream": capture(unjoined, stream),
    "unregistered_generator_inside": capture(
        lambda t, g: torch.rand(4, device=DEVICE, generator=g),
        lambda t: torch.Generator(DEVICE),
    ),
    "wait_uncaptured_event": capture(
        lambda t, e: m.current_stream().wait_event(e), recorded
    ),
}
