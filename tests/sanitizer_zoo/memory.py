"""Memory that goes back to its stream while another one uses it."""

import torch
from device_name import NAME, m

from . import N, now, race, ready, record, reuse


@reuse
def tensor_is_dropped(ok):
    side, x = m.Stream(), torch.ones(N, device=NAME)
    side.wait_stream(now())
    with m.stream(side):
        y = x * 2  # first
    if ok:
        x.record_stream(side)
    del x
    z = torch.zeros(N, device=NAME)  # then
    return y, z


@reuse
def temporary_of_a_function(ok):
    side = m.Stream()

    def prepare():
        x = torch.ones(N, device=NAME)
        side.wait_stream(now())
        with m.stream(side):
            y = x.exp()  # first
        if ok:
            now().wait_stream(side)
        return y

    y = prepare()
    return y, torch.zeros(N, device=NAME)  # then


@reuse
def record_stream_with_the_wrong_stream(ok):
    side, other, x = m.Stream(), m.Stream(), torch.ones(N, device=NAME)
    side.wait_stream(now())
    with m.stream(side):
        y = x * 2  # first
    x.record_stream(side if ok else other)
    del x
    return y, torch.zeros(N, device=NAME)  # then


@reuse
def memory_of_the_side_stream(ok):
    side = m.Stream()
    with m.stream(side):
        x = torch.ones(N, device=NAME)
    now().wait_stream(side)
    y = x.neg()  # first
    if ok:
        x.record_stream(now())
    del x
    with m.stream(side):
        return y, torch.zeros(N, device=NAME)  # then


@reuse
def view_keeps_nothing_recorded(ok):
    side, x = m.Stream(), torch.ones(4, N, device=NAME)
    side.wait_stream(now())
    with m.stream(side):
        y = x[1].abs()  # first
    if ok:
        x[1].record_stream(side)
    del x
    return y, torch.zeros(4, N, device=NAME)  # then


@reuse
def event_comes_too_early(ok):
    side, x = m.Stream(), torch.ones(N, device=NAME)
    side.wait_stream(now())
    event = record(side)
    with m.stream(side):
        y = x * 2  # first
    if ok:
        event = record(side)
    now().wait_event(event)
    del x
    return y, torch.zeros(N, device=NAME)  # then


@reuse
def list_is_cleared(ok):
    side, batches = m.Stream(), [torch.ones(N, device=NAME) for _ in range(2)]
    side.wait_stream(now())
    with m.stream(side):
        total = torch.stack(batches).sum()  # first
    if ok:
        side.synchronize()
    batches.clear()
    return total, torch.zeros(N, device=NAME)  # then


@reuse
def copy_to_the_host_is_underway(ok):
    side, x = m.Stream(), torch.ones(N, device=NAME)
    buffer = torch.empty(N, pin_memory=True)
    side.wait_stream(now())
    with m.stream(side):
        buffer.copy_(x, non_blocking=True)  # first
    if ok:
        x.record_stream(side)
    del x
    return torch.zeros(N, device=NAME)  # then


@race
def resized_in_another_stream(ok):
    side, x = m.Stream(), ready(N)
    with m.stream(side):
        y = x + 1  # first
    if ok:
        now().wait_stream(side)
    x.resize_(2).zero_()  # then
    return y
