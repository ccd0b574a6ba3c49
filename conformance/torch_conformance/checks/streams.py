"""Level 8: streams and events keep the order that a program asks for."""

import time

import torch

from ..check import check
from ..expect import expect, expect_equal, in_threads

PAGE = "streams.md"
STREAMS = ("streams",)


def make_stream(device, index=0):
    """A stream that is not the current one."""
    return torch.Stream(device=device.at(index))


def always(question, tries=5):
    """The answer to a question about time, if it is yes each time: a machine may be too
    busy to tell once."""
    for _ in range(tries):
        answer = question()
        if not answer:
            return answer
    return answer


@check(
    call="torch.Stream(device=NAME)",
    write="`getNewStream()` of the guard; streams may come from a pool.",
    page=PAGE,
    needs=STREAMS,
)
def can_be_made(device):
    """New streams differ from the default one, and know their device."""
    for index in range(device.count):
        stream = make_stream(device, index)
        expect_equal(stream.device, device.at(index), "the device of a stream")
        default = torch.accelerator.current_stream(index)
        expect(stream != default, "a new stream is the default stream")
        expect(stream.stream_id != make_stream(device, index).stream_id, "two are one")


@check(
    call="torch.accelerator.set_stream(s)",
    write="`exchangeStream()` of the guard sets the stream of its device, per thread.",
    page=PAGE,
    needs=STREAMS,
)
def can_be_made_current(device):
    """A stream can be made current, for this thread alone, and put back."""
    default, stream = torch.accelerator.current_stream(), make_stream(device)
    with stream:
        expect(torch.accelerator.current_stream() == stream, "it is not current inside")
        others = in_threads(torch.accelerator.current_stream)[0]
        expect(others == default, "another thread has the stream, too")
    expect(torch.accelerator.current_stream() == default, "it is not put back")
    torch.accelerator.set_stream(stream)
    expect(torch.accelerator.current_stream() == stream, "set_stream() sets nothing")
    torch.accelerator.set_stream(default)


@check(
    call="a kernel after another in one stream",
    write="Work of one stream runs in the order in which it was launched.",
    page=PAGE,
    needs=STREAMS,
)
def one_stream_is_in_order(device):
    """Work in one stream runs in order."""
    with make_stream(device):
        x = torch.zeros(1000, device=device.at())
        device.keep_busy(0.05)
        for _ in range(50):
            x.add_(1).mul_(2).sub_(1)
        expected = torch.zeros(1000)
        for _ in range(50):
            expected.add_(1).mul_(2).sub_(1)
        device.expect_close(x, expected, "the result of 150 operators")
        device.keep_busy(0.05)
        found = x.fill_(7)[500].item()
        expect_equal(found, 7.0, "what item() reads after fill_(7)")


@check(
    call="stream.wait_event(event)",
    write="`record()` and `block()` of the guard: a stream waits for an event without"
    " the host.",
    page=PAGE,
    needs=STREAMS,
)
def waits_for_an_event(device):
    """A stream that waits for an event sees what was done before it."""
    producer, consumer = make_stream(device), make_stream(device)
    x = torch.zeros(1 << 16, device=device.at())
    torch.accelerator.synchronize()
    with producer:
        device.keep_busy()
        x.fill_(7)
        event = torch.Event(device=device.name)
        event.record(producer)
    with consumer:
        consumer.wait_event(event)
        y = x.clone()
    consumer.synchronize()
    device.expect_close(y, torch.full((1 << 16,), 7.0), "what the waiting stream saw")
    torch.accelerator.synchronize()


@check(
    call="stream.wait_stream(other)",
    write="As for events: `wait_stream` records one and waits for it.",
    page=PAGE,
    needs=STREAMS,
)
def waits_for_a_stream(device):
    """A stream that waits for another sees all its work."""
    producer = make_stream(device)
    x = torch.zeros(1 << 16, device=device.at())
    torch.accelerator.synchronize()
    with producer:
        device.keep_busy()
        x.fill_(3)
    consumer = make_stream(device)
    consumer.wait_stream(producer)
    with consumer:
        y = x + 1
    consumer.synchronize()
    device.expect_close(y, torch.full((1 << 16,), 4.0), "what was seen")
    torch.accelerator.synchronize()


@check(
    call="stream.query(), stream.synchronize()",
    write="`queryStream()` and `synchronizeStream()` of the guard.",
    page=PAGE,
    needs=STREAMS,
)
def says_when_it_is_done(device):
    """query() is False while work runs, and True after synchronize()."""
    stream = make_stream(device)

    def is_done():
        with stream:
            device.keep_busy()
            done = stream.query()
        stream.synchronize()
        expect_equal(stream.query(), True, "query() after synchronize()")
        return done

    expect(
        not (device.is_asynchronous and always(is_done)),
        "query() says that a stream is done while its work still runs",
    )


@check(
    call="event.record(), event.query(), event.synchronize()",
    write="`record()`, `queryEvent()` and `synchronizeEvent()` of the guard.",
    page=PAGE,
    needs=STREAMS,
)
def events_complete(device):
    """An event is done when the work before it is, not earlier."""

    def is_done():
        event = torch.Event(device=device.name)
        device.keep_busy()
        event.record()
        done = event.query()
        event.synchronize()
        expect_equal(event.query(), True, "query() after synchronize()")
        return done

    expect(
        not (device.is_asynchronous and always(is_done)),
        "an event is done while work before it still runs",
    )


@check(
    call="Event(enable_timing=True).elapsed_time(other)",
    write="`elapsedTime()` of the guard, in milliseconds.",
    page=PAGE,
    needs=("streams", "timing"),
)
def events_measure_time(device):
    """The time between two events is that of the work between them."""

    def is_wrong():
        begin, end = (
            torch.Event(device=device.name, enable_timing=True) for _ in range(2)
        )
        torch.accelerator.synchronize()
        start = time.perf_counter()
        begin.record()
        device.keep_busy()
        end.record()
        end.synchronize()
        whole = 1000 * (time.perf_counter() - start)
        found = begin.elapsed_time(end)
        right = 0.2 * whole < found <= 1.1 * whole + 5
        return None if right else f"elapsed_time() is {found:.2f} of {whole:.2f} ms"

    wrong = always(is_wrong)
    expect(not wrong, wrong)


@check(
    call="torch.accelerator.synchronize()",
    write="`synchronizeDevice()` waits for all streams, not for the current one.",
    page=PAGE,
    needs=STREAMS,
)
def the_device_waits_for_all(device):
    """Synchronising the device waits for every stream."""
    streams = [make_stream(device) for _ in range(3)]
    for stream in streams:
        with stream:
            device.keep_busy(0.05)
    torch.accelerator.synchronize()
    done = [stream.query() for stream in streams]
    expect_equal(done, [True] * 3, "query() of each stream afterwards")


@check(
    call="x.to('NAME:1').sum().backward()",
    write="Events in the guard: the engine makes one device wait for another.",
    page="autograd.md",
    needs=("devices", "streams"),
)
def gradients_cross_devices(device):
    """A graph over two devices gives gradients on each tensor's own."""
    host, x = device.pair(4)
    _, y = device.pair(4, index=1)
    x.requires_grad_()
    y.requires_grad_()
    (x.to(device.at(1)) * y + x.cpu().to(device.at(1))).sum().backward()
    device.expect_on_device(x.grad, "the gradient of the first", 0)
    device.expect_on_device(y.grad, "the gradient of the second", 1)
    device.expect_close(x.grad, host + 1, "the gradient of the first")
    device.expect_close(y.grad, host, "the gradient of the second")


@check(
    call="backward() of work in a side stream",
    write="The engine runs a backward kernel in the stream of its forward kernel: the"
    " guard's `exchangeStream()` must work on its threads.",
    page="autograd.md",
    needs=STREAMS,
)
def backward_follows_the_stream(device):
    """A backward pass is ordered after work in a side stream."""
    host, x = device.pair(64, 64)
    x.requires_grad_()
    with make_stream(device) as stream:
        stream.wait_stream(torch.accelerator.current_stream())
        device.keep_busy(0.05)
        loss = (x * 3).sum()
    torch.accelerator.current_stream().wait_stream(stream)
    loss.backward()
    device.expect_close(x.grad, torch.full((64, 64), 3.0), "the gradient")
