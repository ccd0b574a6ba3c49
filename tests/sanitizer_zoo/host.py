"""Pinned memory: the host and copies that do not block."""

import torch
from device_name import NAME, m
from torch.utils.data import DataLoader, TensorDataset

from . import N, now, pinned, race, ready, record


@race
def buffer_is_refilled_too_early(ok):
    buffer = pinned()
    x = buffer.to(NAME, non_blocking=True)  # first
    if ok:
        now().synchronize()
    buffer.fill_(2)  # then
    return x


@race
def result_is_read_too_early(ok):
    x, buffer = ready(), pinned()
    buffer.copy_(x, non_blocking=True)  # first
    if ok:
        now().synchronize()
    return buffer.sum()  # then


@race
def non_blocking_to_the_cpu(ok):
    x = ready()
    y = x.to("cpu", non_blocking=True)  # first
    if ok:
        m.synchronize()
    return y.mean()  # then


@race
def number_is_read_too_early(ok):
    loss = ready(1)
    y = loss.to("cpu", non_blocking=True)  # first
    if ok:
        record(now()).synchronize()
    return y.item()  # then


@race
def wrong_event(ok):
    x, buffer, side = ready(), pinned(), m.Stream()
    with m.stream(side):
        buffer.copy_(x, non_blocking=True)  # first
    record(side if ok else now()).synchronize()
    return buffer + 1  # then


@race
def event_before_the_copy(ok):
    x, buffer = ready(), pinned()
    event = record(now())
    buffer.copy_(x, non_blocking=True)  # first
    if ok:
        event.record()
    event.synchronize()
    return buffer * 2  # then


@race
def part_of_a_buffer(ok):
    x, buffer = ready(64), pinned(128)
    buffer[:64].copy_(x, non_blocking=True)  # first
    return buffer[64 if ok else 63 :].sum()  # then


@race
def one_buffer_for_all_batches(ok):
    buffers = [pinned() for _ in range(3 if ok else 1)]
    out = []
    for i in range(3):
        buffer = buffers[i % len(buffers)]
        buffer.fill_(i)  # then
        out.append(buffer.to(NAME, non_blocking=True))  # first
    return out


@race
def two_buffers_and_no_event(ok):
    buffers, events = [pinned(), pinned()], [None, None]
    for i in range(4):
        if ok and events[i % 2]:
            events[i % 2].synchronize()
        buffers[i % 2].fill_(i)  # then
        buffers[i % 2].to(NAME, non_blocking=True)  # first
        events[i % 2] = record(now())


@race
def host_copies_into_the_buffer(ok):
    buffer, source = pinned(), torch.zeros(N)
    x = buffer.to(NAME, non_blocking=True)  # first
    if ok:
        m.synchronize()
    buffer.copy_(source)  # then
    return x


@race
def two_copies_from_two_streams(ok):
    x, y, buffer, side = ready(), ready(), pinned(), m.Stream()
    buffer.copy_(x, non_blocking=True)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        buffer.copy_(y, non_blocking=True)  # then


@race
def round_trip_by_the_host(ok):
    x, buffer, side = ready(), pinned(), m.Stream()
    buffer.copy_(x, non_blocking=True)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return buffer.to(NAME, non_blocking=True)  # then


@race
def query_is_no_wait(ok):
    x, buffer = ready(), pinned()
    buffer.copy_(x, non_blocking=True)  # first
    while ok and not now().query():
        pass
    return buffer.max()  # then


@race
def loader_with_a_side_stream(ok):
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=4, pin_memory=True)
    side, total = m.Stream(), torch.zeros((), device=NAME)
    m.synchronize()
    for (batch,) in loader:
        with m.stream(side):
            x = batch.to(NAME, non_blocking=True)  # first
        if ok:
            now().wait_stream(side)
            x.record_stream(now())
        total += x.sum()  # then
    return total


@race
def blocking_copy_of_another_stream(ok):
    x, side = ready(), m.Stream()
    with m.stream(side):
        x.add_(1)  # first
    if ok:
        side.synchronize()
    return x.cpu()  # then


@race
def item_of_another_stream(ok):
    x, side = ready(1), m.Stream()
    with m.stream(side):
        x.add_(1)  # first
    if ok:
        now().wait_stream(side)
    return x.item()  # then
