"""Streams, events, copies and random numbers of torch.cuda, as PyTorch documents them."""

import pickle
import threading

import torch
from walk import CHECKS, check, raised, report, within

cuda = torch.cuda
torch.ones(1, device="cuda")
LONG = 1_000_000_000  # cycles of _sleep(): about a second


# --- streams ------------------------------------------------------------------


@check
def a_stream_is_busy_until_its_work_is_done():
    side = cuda.Stream()
    with cuda.stream(side):
        cuda._sleep(LONG)
        busy = not side.query()
    side.synchronize()
    return busy and side.query()


@check
def the_default_stream_waits_for_no_other():
    side = cuda.Stream()
    with cuda.stream(side):
        cuda._sleep(LONG)
    cuda.current_stream().synchronize()
    busy = not side.query()
    cuda.synchronize()
    return busy and side.query()


@check
def a_stream_waits_for_another():
    side, x = cuda.Stream(), torch.zeros(4, device="cuda")
    with cuda.stream(side):
        side.wait_stream(cuda.default_stream())
        cuda._sleep(LONG)
        x.fill_(7)
    cuda.current_stream().wait_stream(side)
    return (x + 1).tolist() == [8.0] * 4


@check
def contexts_of_streams_nest():
    first, second, seen = cuda.Stream(), cuda.Stream(), []
    with cuda.stream(first):
        with cuda.stream(second):
            seen.append(cuda.current_stream() == second)
        seen.append(cuda.current_stream() == first)
        with cuda.stream(None):
            seen.append(cuda.current_stream() == first)
    return seen == [True] * 3 and cuda.current_stream() == cuda.default_stream()


@check
def a_stream_is_of_one_thread():
    side, seen = cuda.Stream(), []
    with cuda.stream(side):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
        thread.start()
        thread.join()
    return seen == [cuda.default_stream()]


@check
def priorities_have_a_range():
    low, high = cuda.Stream.priority_range()
    return (
        low == 0
        and high < 0
        and cuda.Stream(priority=high).priority == high
        and cuda.Stream(priority=-1).priority == -1
    )


@check
def equal_streams_hash_alike():
    side = cuda.Stream()
    same = cuda.ExternalStream(side.cuda_stream)
    return side == same and len({side, cuda.Stream()}) == 2 and side != 7


@check
def streams_and_events_have_a_text():
    side, event = cuda.Stream(), cuda.Event()
    fresh = repr(event)
    event.record()
    return (
        "torch.cuda.Stream" in repr(side)
        and fresh == "<torch.cuda.Event uninitialized>"
        and repr(event).startswith("<torch.cuda.Event 0x")
    )


@check
def generic_streams_and_events_are_cudas_too():
    stream = torch.Stream("cuda")
    start, end = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    start.record(stream)
    with stream:
        cuda._sleep(1_000_000)
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) > 0 and torch.cuda.Stream(device=0) != stream


# --- events -------------------------------------------------------------------


@check
def an_event_is_done_when_its_work_is():
    event = cuda.Event()
    fresh = event.query()
    cuda._sleep(LONG)
    event.record()
    busy = not event.query()
    event.synchronize()
    return fresh and busy and event.query()


@check
def a_stream_waits_for_an_event():
    side, x = cuda.Stream(), torch.zeros(2, device="cuda")
    cuda._sleep(LONG)
    x.fill_(3)
    event = cuda.current_stream().record_event()
    side.wait_event(event)
    with cuda.stream(side):
        y = x * 2
    side.synchronize()
    return y.tolist() == [6.0, 6.0]


@check
def times_need_two_recorded_events_with_timing():
    plain, timed = cuda.Event(), cuda.Event(enable_timing=True)
    plain.record(), timed.record()
    cuda.synchronize()
    without = raised(ValueError, lambda: timed.elapsed_time(plain))
    fresh = cuda.Event(enable_timing=True)
    unrecorded = raised(ValueError, lambda: timed.elapsed_time(fresh))
    return bool(without and unrecorded)


@check
def a_time_is_about_what_it_took():
    start, end = (cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    cuda._sleep(LONG)
    end.record()
    cuda.synchronize()
    return 20 < start.elapsed_time(end) < 5000 and end.elapsed_time(start) < 0


@check
def an_event_for_processes_has_a_handle():
    shared = cuda.Event(interprocess=True)
    shared.record()
    plain = raised(RuntimeError, lambda: cuda.Event().ipc_handle())
    return len(shared.ipc_handle()) == 64 and bool(plain)


# --- memory and streams -------------------------------------------------------


@check
def memory_of_another_stream_is_kept_for_it():
    side = cuda.Stream()
    x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    address = x.data_ptr()
    with cuda.stream(side):
        cuda._sleep(LONG)
    x.record_stream(side)
    del x
    during = torch.empty(3 << 20, dtype=torch.uint8, device="cuda").data_ptr()
    side.synchronize()
    after = torch.empty(3 << 20, dtype=torch.uint8, device="cuda").data_ptr()
    return during != address and after == address


@check
def memory_of_one_stream_is_not_given_to_another():
    side = cuda.Stream()
    with cuda.stream(side):
        x = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
        address = x.data_ptr()
        del x
    other = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
    with cuda.stream(side):
        same = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
    return other.data_ptr() != address and same.data_ptr() == address


# --- copies -------------------------------------------------------------------


@check
def a_copy_from_pinned_memory_does_not_wait():
    x = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
    cuda._sleep(LONG)
    y = x.to("cuda", non_blocking=True)
    busy = not cuda.current_stream().query()
    return busy and torch.equal(y.cpu(), x)


@check
def a_copy_to_the_host_waits_by_default():
    cuda._sleep(LONG)
    y = torch.ones(8, device="cuda").cpu()
    return cuda.current_stream().query() and y.tolist() == [1.0] * 8


@check
def a_copy_may_change_the_dtype():
    x = torch.arange(100).pin_memory()
    there = x.to("cuda", torch.float16, non_blocking=True)
    back = torch.empty(100, dtype=torch.float64).copy_(there)
    return there.dtype is torch.float16 and torch.equal(back, x.double())


@check
def copies_keep_strides_and_overlap():
    x = torch.randn(4, 6).t()
    there = torch.empty(6, 4, device="cuda").copy_(x)
    part = torch.zeros(6, 8, device="cuda")
    part[:, ::2].copy_(x)
    return torch.equal(there.cpu(), x) and torch.equal(part[:, ::2].cpu(), x)


@check
def pinned_memory_is_used_again_when_its_copy_is_done():
    x = torch.empty(1 << 22).pin_memory()
    address = x.data_ptr()
    cuda._sleep(LONG)
    there = torch.empty_like(x, device="cuda")
    there.copy_(x, non_blocking=True)
    del x
    during = torch.empty(1 << 22).pin_memory()
    cuda.synchronize()
    after = torch.empty(1 << 22).pin_memory()
    return during.data_ptr() != address and after.data_ptr() == address


@check
def pinning_keeps_strides():
    x = torch.arange(10)[1::2]
    pinned = x.pin_memory()
    return pinned.is_pinned() and torch.equal(pinned, x) and not x.is_pinned()


@check
def arrays_come_from_and_go_to_the_host():
    x = torch.ones(3, device="cuda")
    return bool(raised(TypeError, x.numpy)) and x.cpu().numpy().sum() == 3


# --- random numbers -----------------------------------------------------------


@check
def seeds_of_torch_seed_the_device():
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(torch.rand(4, device="cuda"))
    return torch.equal(*draws) and cuda.initial_seed() == 5


@check
def a_state_gives_the_numbers_again():
    state = cuda.get_rng_state()
    first = torch.randn(5, device="cuda")
    cuda.set_rng_state(state)
    return state.dtype is torch.uint8 and torch.equal(
        first, torch.randn(5, device="cuda")
    )


@check
def a_generator_of_ones_own_has_its_own_numbers():
    mine = torch.Generator("cuda").manual_seed(9)
    first = torch.rand(3, device="cuda", generator=mine)
    torch.rand(3, device="cuda")
    mine.manual_seed(9)
    again = torch.rand(3, device="cuda", generator=mine)
    return torch.equal(first, again) and mine.device.type == "cuda"


@check
def a_fork_of_the_state_leaves_it():
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0]):
        torch.rand(2, device="cuda")
    after = torch.rand(2, device="cuda")
    torch.manual_seed(3)
    return torch.equal(after, torch.rand(2, device="cuda"))


@check
def generators_of_other_devices_are_refused():
    cpu = torch.Generator()
    return bool(
        raised(RuntimeError, lambda: torch.rand(2, device="cuda", generator=cpu))
    )


@check
def what_has_no_probability_is_not_drawn():
    draws = torch.tensor([0.0, 1.0, 0.0], device="cuda").multinomial(5, True)
    return draws.tolist() == [1] * 5


# --- devices ------------------------------------------------------------------


@check
def indices_are_checked():
    count = cuda.device_count()
    return all(
        raised((RuntimeError, AssertionError), call)
        for call in (
            lambda: torch.ones(1, device=f"cuda:{count}"),
            lambda: cuda.set_device(count),
            lambda: cuda.get_device_properties(count),
            lambda: torch.device("cuda:-1"),
            lambda: torch.ones(1, device="cuda0"),
        )
    )


@check
def a_device_is_named_in_many_ways():
    named = (None, 0, "cuda", "cuda:0", torch.device("cuda", 0))
    return len({cuda.get_device_name(name) for name in named}) == 1


@check
def only_devices_of_cuda_have_an_index():
    wrong = raised(ValueError, lambda: cuda._utils._get_device_index("cpu", True))
    return "Expected a cuda device" in str(wrong) and (
        within(cuda.device(None), cuda.current_device) == 0
    )


@check
def properties_have_a_uuid_and_a_text():
    properties = cuda.get_device_properties(0)
    return (
        len(str(properties.uuid)) == 36
        and "_CudaDeviceProperties(name=" in repr(properties)
        and properties.major == cuda.get_device_capability()[0]
        and properties.warp_size == 32
    )


@check
def tensors_are_pickled_with_their_device():
    x = torch.arange(3, device="cuda")
    again = pickle.loads(pickle.dumps(x))
    return again.device == x.device and torch.equal(again, x)


report(CHECKS, CHECKS)
