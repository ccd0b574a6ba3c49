"""Two streams and a tensor."""

import threading

import torch
from device_name import NAME, m

from . import N, now, race, ready, record


@race
def read_after_write(ok):
    x, side = ready(), m.Stream()
    x.add_(1)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return x * 2  # then


@race
def write_after_read(ok):
    x, side = ready(), m.Stream()
    with m.stream(side):
        y = x * 2  # first
    if ok:
        now().wait_stream(side)
    x.add_(1)  # then
    return y


@race
def write_after_write(ok):
    x, side = ready(), m.Stream()
    x.fill_(1)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        x.fill_(2)  # then


@race
def new_tensor_is_read_elsewhere(ok):
    side = m.Stream()
    x = torch.full((N,), 3.0, device=NAME)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return x.sum()  # then


@race
def event_is_recorded_too_early(ok):
    x, side = ready(), m.Stream()
    event = record(now())
    x.mul_(2)  # first
    if ok:
        event = record(now())
    side.wait_event(event)
    with m.stream(side):
        return x + 1  # then


@race
def event_is_recorded_in_the_wrong_stream(ok):
    x, side, other = ready(), m.Stream(), m.Stream()
    x.mul_(2)  # first
    event = record(now() if ok else other)
    side.wait_event(event)
    with m.stream(side):
        return x + 1  # then


@race
def wrong_stream_waits(ok):
    x, side, other = ready(), m.Stream(), m.Stream()
    x.mul_(2)  # first
    event = record(now())
    event.wait(side if ok else other)
    with m.stream(side):
        return x + 1  # then


@race
def wait_comes_before_the_record(ok):
    x, side, event = ready(), m.Stream(), m.Event()
    if not ok:
        side.wait_event(event)
    x.mul_(2)  # first
    event.record()
    if ok:
        side.wait_event(event)
    with m.stream(side):
        return x + 1  # then


@race
def wait_is_in_the_wrong_direction(ok):
    x, side = ready(), m.Stream()
    x.mul_(2)  # first
    if ok:
        side.wait_stream(now())
    else:
        now().wait_stream(side)
    with m.stream(side):
        return x + 1  # then


@race
def two_side_streams(ok):
    x, a, b = ready(), m.Stream(), m.Stream()
    with m.stream(a):
        x.mul_(2)  # first
    if ok:
        b.wait_stream(a)
    with m.stream(b):
        x.mul_(3)  # then


@race
def chain_lacks_a_link(ok):
    x, a, b = ready(), m.Stream(), m.Stream()
    x.mul_(2)  # first
    a.wait_stream(now())
    if ok:
        b.wait_stream(a)
    with m.stream(b):
        return x + 1  # then


@race
def chain_breaks_later(ok):
    x, a, b = ready(), m.Stream(), m.Stream()
    b.wait_stream(a)  # before a knows of the work
    x.mul_(2)  # first
    a.wait_stream(now())
    if ok:
        b.wait_stream(a)
    with m.stream(b):
        return x + 1  # then


@race
def host_waits_for_the_wrong_stream(ok):
    x, side, other = ready(), m.Stream(), m.Stream()
    with m.stream(side):
        x.mul_(2)  # first
    (side if ok else other).synchronize()
    return x + 1  # then


@race
def host_waits_for_an_old_event(ok):
    x, side = ready(), m.Stream()
    event = record(side)
    with m.stream(side):
        x.mul_(2)  # first
    if ok:
        event.record(side)
    event.synchronize()
    return x + 1  # then


@race
def host_waits_too_early(ok):
    x, side = ready(), m.Stream()
    m.synchronize()
    with m.stream(side):
        x.mul_(2)  # first
    if ok:
        m.synchronize()
    return x + 1  # then


@race
def other_device_is_synchronized(ok):
    x, side = ready(), m.Stream(0)
    with m.stream(side):
        x.mul_(2)  # first
    m.synchronize(0 if ok else 1)
    return x + 1  # then


@race
def second_reader_is_forgotten(ok):
    x, a, b = ready(), m.Stream(), m.Stream()
    with m.stream(a):
        x + 1
    with m.stream(b):
        x + 2  # first
    now().wait_stream(a)
    if ok:
        now().wait_stream(b)
    x.zero_()  # then


@race
def write_through_out(ok):
    x, y, side = ready(), ready(), m.Stream()
    with m.stream(side):
        torch.add(x, 1, out=y)  # first
    if ok:
        now().wait_stream(side)
    return y.sum()  # then


@race
def product_is_read_too_early(ok):
    a, side = ready(16, 16), m.Stream()
    with m.stream(side):
        c = a @ a  # first
    if ok:
        now().wait_stream(side)
    return c + 1  # then


@race
def copy_on_the_device(ok):
    x, y, side = ready(), ready(), m.Stream()
    with m.stream(side):
        y.copy_(x)  # first
    if ok:
        now().wait_stream(side)
    x.zero_()  # then


@race
def foreach_update(ok):
    weights, side = [ready(), ready()], m.Stream()
    with m.stream(side):
        total = weights[1].sum()  # first
    if ok:
        now().wait_stream(side)
    torch._foreach_add_(weights, 1)  # then
    return total


@race
def random_fill(ok):
    x, side = ready(), m.Stream()
    with m.stream(side):
        y = x.exp()  # first
    if ok:
        now().wait_stream(side)
    x.normal_()  # then
    return y


@race
def concatenation(ok):
    x, y, side = ready(), ready(), m.Stream()
    y.add_(1)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return torch.cat([x, y])  # then


@race
def index_put(ok):
    x, side = ready(), m.Stream()
    where = torch.arange(3, device=NAME)
    m.synchronize()
    with m.stream(side):
        y = x.neg()  # first
    if ok:
        now().wait_stream(side)
    x[where] = 5.0  # then
    return y


@race
def loop_without_the_way_back(ok):
    x, side = ready(), m.Stream()
    for _ in range(3):
        x.add_(1)  # then
        side.wait_stream(now())
        with m.stream(side):
            y = x * 2  # first
        if ok:
            now().wait_stream(side)
    return y


@race
def stream_of_a_thread(ok):
    x, done = ready(), []

    def work():
        side = m.Stream()
        with m.stream(side):
            x.add_(1)  # first
        done.append(record(side))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if ok:
        done[0].wait()
    return x * 2  # then


@race
def priority_is_no_order(ok):
    x, urgent = ready(), m.Stream(priority=-1)
    with m.stream(urgent):
        x.add_(1)  # first
    if ok:
        now().wait_stream(urgent)
    return x * 2  # then


@race
def peer_copy_from_another_stream(ok):
    x, side = ready(), m.Stream(0)
    with m.stream(side):
        x.add_(1)  # first
    if ok:
        now().wait_stream(side)
    return x.to(f"{NAME}:1")  # then


@race
def peer_copy_to_another_stream(ok):
    x, y = ready(), ready(device=f"{NAME}:1")
    side = m.Stream(1)
    y.copy_(x)  # first
    if ok:
        side.wait_stream(m.current_stream(1))
    with m.stream(side):
        return y * 2  # then
