"""Kernels of custom operators that touch what is not theirs, and raw pointers.

The operators have CPU kernels in Python, which get aliases of the device's memory.
"""

import ctypes

import torch
from device_name import NAME, m

from . import N, now, pinned, raw, zoo

out_of_bounds = zoo("out-of-bounds")
use_after_free = zoo("use-after-free")
overwritten = zoo("overwritten")

library = torch.library.Library("sanitizer_zoo", "DEF")
library.define("set_bytes(Tensor(a!) x, int first, int bytes) -> ()")
library.define("make_bytes(int asked, int written) -> Tensor")
ops = torch.ops.sanitizer_zoo


@torch.library.impl(library, "set_bytes", "CPU")
def set_bytes(x, first, bytes):
    ctypes.memset(x.data_ptr() + first, 1, bytes)


@torch.library.impl(library, "make_bytes", "CPU")
def make_bytes(asked, written):
    x = torch.empty(asked, dtype=torch.uint8)
    ctypes.memset(x.data_ptr(), 1, written)
    return x


def some_bytes(count=N):
    return torch.ones(count, dtype=torch.uint8, device=NAME)


@out_of_bounds
def kernel_writes_behind_the_end(ok):
    x = some_bytes()
    ops.set_bytes(x, 0, N if ok else N + 1)  # then
    return x


@out_of_bounds
def kernel_counts_elements_as_bytes(ok):
    x = torch.ones(N, device=NAME)
    ops.set_bytes(x, 0, 4 * N if ok else 4 * N + 64)  # then
    return x


@out_of_bounds
def kernel_writes_before_the_start(ok):
    with m.use_mem_pool(m.MemPool()):  # nobody else's memory lies between the two
        before, x = some_bytes(), some_bytes()
    ops.set_bytes(x, 0 if ok else -1, 8)  # then
    return before, x


@out_of_bounds
def kernel_writes_one_row_too_many(ok):
    x = torch.ones(4, 16, device=NAME)
    for row in range(4 if ok else 5):
        ops.set_bytes(x, 64 * row, 64)  # then
    return x


@out_of_bounds
def memory_that_nobody_used_before(ok):
    x = torch.empty(N, dtype=torch.uint8, device=NAME)
    ops.set_bytes(x, 0, N if ok else N + 4)  # then
    return x


@out_of_bounds
def kernel_of_a_side_stream(ok):
    side, x = m.Stream(), some_bytes(1000)
    side.wait_stream(now())
    with m.stream(side):
        ops.set_bytes(x, 990, 10 if ok else 20)  # then
    now().wait_stream(side)
    return x


@out_of_bounds
def end_of_a_view_is_not_the_end(ok):
    x = some_bytes(1024)
    ops.set_bytes(x[512:], 0, 512 if ok else 520)  # then
    return x


@out_of_bounds
def kernel_of_a_backward_pass(ok):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            grad = grad * 2
            ops.set_bytes(grad, 0, 4 * N if ok else 4 * N + 2)  # then
            return grad

    x = torch.ones(N, device=NAME, requires_grad=True)
    Twice.apply(x).sum().backward()
    return x.grad


@use_after_free
def memory_would_have_been_reused(ok):
    x = torch.ones(N, device=NAME)
    address = x.data_ptr()
    if not ok:
        del x
    y = torch.zeros(N, device=NAME)
    raw(address, 4 * N).fill_(1)  # then
    return y


@use_after_free
def pointer_is_kept_for_the_next_step(ok):
    state = torch.ones(N, device=NAME)
    address = state.data_ptr()
    for _ in range(2):
        new = state * 2
        if ok:
            address = new.data_ptr()
        state = new
        raw(address, 8).add_(1)  # then
    return state


@use_after_free
def resized_memory(ok):
    x = torch.ones(N, device=NAME)
    address = x.data_ptr()
    x.resize_(8 * N).zero_()
    raw(x.data_ptr() if ok else address, 8).zero_()  # then
    return x


@overwritten
def numpy_refills_the_buffer_too_early(ok):
    buffer = pinned()
    array = buffer.numpy()
    x = buffer.to(NAME, non_blocking=True)  # first
    if ok:
        now().synchronize()
    array[:] = 2
    now().synchronize()
    return x


@overwritten
def numpy_refills_the_buffer_before_its_event(ok):
    buffer, side = pinned(), m.Stream()
    with m.stream(side):
        x = buffer.to(NAME, non_blocking=True)  # first
        copied = m.Event()
        copied.record()
    if ok:
        copied.synchronize()
    buffer.numpy()[-1] = 7
    copied.synchronize()
    return x


@overwritten
def pointer_into_a_buffer_that_goes(ok):
    buffer = pinned()
    x = buffer.to(NAME, non_blocking=True)  # first
    if ok:
        now().synchronize()
    ctypes.memset(buffer.data_ptr(), 1, 8)
    del buffer
    return x
