"""Autograd, graphs and collectives."""

import torch
import torch.distributed as dist
from device_name import NAME, m

from . import N, now, race, ready, record

# --- autograd -----------------------------------------------------------------


def parameter():
    weight = torch.nn.Parameter(ready(8, 8))
    m.synchronize()
    return weight


@race
def forward_in_a_side_stream(ok):
    w, side = parameter(), m.Stream()
    with m.stream(side):
        y = w * 2  # first
    if ok:
        now().wait_stream(side)
    return y.sum()  # then


@race
def gradient_is_read_in_a_side_stream(ok):
    w, side = parameter(), m.Stream()
    (w * 2).sum().backward()
    w.grad.add_(1)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return w.grad.norm()  # then


@race
def average_of_weights(ok):
    w, average, side = parameter(), ready(8, 8), m.Stream()
    side.wait_stream(now())
    with m.stream(side), torch.no_grad():
        average.lerp_(w, 0.1)  # first
    if ok:
        now().wait_stream(side)
    with torch.no_grad():
        w.sub_(0.1)  # then


@race
def hook_with_a_side_stream(ok):
    w, side = parameter(), m.Stream()

    def reduce(p):
        side.wait_stream(m.current_stream())
        with m.stream(side):
            p.grad.mul_(0.5)  # first

    w.register_post_accumulate_grad_hook(reduce)
    (w * 2).sum().backward()
    if ok:
        now().wait_stream(side)
    return w.grad.sum()  # then


@race
def hook_of_a_tensor(ok):
    w, side, seen = parameter(), m.Stream(), ready(8, 8)

    def look(grad):
        if ok:
            side.wait_stream(m.current_stream())
        with m.stream(side):
            seen.copy_(grad)  # then
        grad.record_stream(side)

    y = w * 2
    y.register_hook(look)
    y.backward(torch.ones(8, 8, device=NAME))  # first
    now().wait_stream(side)
    return seen


@race
def clipping_meets_the_optimizer(ok):
    w, side = parameter(), m.Stream()
    optimizer = torch.optim.SGD([w], 0.1)
    (w * 2).sum().backward()
    side.wait_stream(now())
    with m.stream(side):
        w.grad.mul_(0.1)  # first
    if ok:
        now().wait_stream(side)
    optimizer.step()  # then


@race
def weights_are_saved_meanwhile(ok):
    w, side = parameter(), m.Stream()
    buffer = torch.empty(8, 8, pin_memory=True)
    with m.stream(side), torch.no_grad():
        buffer.copy_(w, non_blocking=True)  # first
    if ok:
        now().wait_stream(side)
    with torch.no_grad():
        w.add_(1)  # then
    side.synchronize()


# --- graphs -------------------------------------------------------------------


def capture(body):
    graph = m.OpenRegGraph() if NAME == "openreg" else m.CUDAGraph()
    # Streams are handed out in turns of 32: the default one of captures may be the
    # stream that the program took beside it.
    with m.graph(graph, stream=m.Stream()):
        body()
    return graph


@race
def input_of_a_graph_is_overwritten(ok):
    x, y, side = ready(), ready(), m.Stream()
    graph = capture(lambda: y.copy_(x * 2))  # first
    graph.replay()
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        x.zero_()  # then


@race
def output_of_a_graph_is_read(ok):
    x, y, side = ready(), ready(), m.Stream()
    graph = capture(lambda: y.copy_(x * 2))  # first
    graph.replay()
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return y + 1  # then


@race
def graph_in_two_streams(ok):
    x, side = ready(), m.Stream()
    graph = capture(lambda: x.add_(1))  # first and then
    graph.replay()
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        graph.replay()


@race
def replay_comes_too_early(ok):
    x, y, side = ready(), ready(), m.Stream()
    graph = capture(lambda: y.copy_(x * 2))  # then
    with m.stream(side):
        x.fill_(3)  # first
    if ok:
        now().wait_stream(side)
    graph.replay()


@race
def branches_of_a_graph(ok):
    x, side = ready(), m.Stream()

    def body():
        side.wait_stream(m.current_stream())
        with m.stream(side):
            x.add_(1)  # first
        if ok:
            m.current_stream().wait_stream(side)
        x.mul_(2)  # then
        m.current_stream().wait_stream(side)

    capture(body).replay()


@race
def pinned_input_of_a_graph(ok):
    x, buffer = ready(), torch.ones(N).pin_memory()
    graph = capture(lambda: x.copy_(buffer, non_blocking=True))  # first
    graph.replay()
    if ok:
        now().synchronize()
    buffer.fill_(2)  # then


# --- collectives: a group of one rank ------------------------------------------


@race
def reduction_is_not_waited_for(ok):
    x = ready()
    work = dist.all_reduce(x, async_op=True)  # first
    if ok:
        work.wait()
    y = x + 1  # then
    work.wait()
    return y


@race
def broadcast_is_overwritten(ok):
    x = ready()
    work = dist.broadcast(x, 0, async_op=True)  # first
    if ok:
        work.wait()
    x.zero_()  # then
    work.wait()


@race
def gathered_too_early(ok):
    x, out = ready(), ready()
    work = dist.all_gather_single(out, x, async_op=True)  # first
    if ok:
        work.wait()
    y = out.sum()  # then
    work.wait()
    return y


@race
def bucket_is_filled_too_late(ok):
    bucket, side = ready(), m.Stream()
    with m.stream(side):
        bucket.fill_(2)  # first
    if ok:
        now().wait_stream(side)
    dist.all_reduce(bucket)  # then


@race
def wait_in_the_wrong_stream(ok):
    x, side = ready(), m.Stream()
    work = dist.reduce_scatter_single(torch.empty_like(x), x, async_op=True)  # first
    with m.stream(now() if ok else side):
        work.wait()
    x.zero_()  # then
    m.synchronize()


@race
def event_beside_a_collective(ok):
    x = ready()
    event = record(now())
    work = dist.all_reduce(x, async_op=True)  # first
    if ok:
        work.wait()
    event.wait()
    y = x.clone()  # then
    work.wait()
    return y
