"""Tensors that share memory: what counts is the bytes."""

import torch
from device_name import m

from . import now, race, ready


@race
def slices_overlap(ok):
    x, side = ready(100), m.Stream()
    x[:60].add_(1)  # first
    with m.stream(side):
        x[60 if ok else 59 :].mul_(2)  # then


@race
def rows_overlap(ok):
    x, side = ready(8, 16), m.Stream()
    x[:4].add_(1)  # first
    with m.stream(side):
        x[4 if ok else 3 :].mul_(2)  # then


@race
def columns_overlap(ok):
    x, side = ready(8, 16), m.Stream()
    x[:, :8].add_(1)  # first
    with m.stream(side):
        x[:, 8 if ok else 7 :].mul_(2)  # then


@race
def every_other_element(ok):
    x, side = ready(64), m.Stream()
    x[::2].add_(1)  # first
    with m.stream(side):
        x[1 if ok else 0 :: 2].mul_(2)  # then


@race
def planes_of_a_block(ok):
    x, side = ready(4, 5, 6), m.Stream()
    x[:, 1].add_(1)  # first
    with m.stream(side):
        x[:, 2 if ok else 1].mul_(2)  # then


@race
def transposed(ok):
    x, side = ready(8, 16), m.Stream()
    x.t().add_(1)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        x.view(-1).mul_(2)  # then


@race
def diagonal(ok):
    x, side = ready(8, 8), m.Stream()
    x.diagonal().add_(1)  # first
    with m.stream(side):
        x[3, 4:].mul_(2) if ok else x[3, 3:].mul_(2)  # then


@race
def expanded(ok):
    x, side = ready(8, 1), m.Stream()
    with m.stream(side):
        y = x.expand(8, 100) + 1  # first
    if ok:
        now().wait_stream(side)
    x.zero_()  # then
    return y


@race
def chunks(ok):
    x, side = ready(6, 12), m.Stream()
    q, k, v = x.chunk(3, dim=1)
    q.add_(1)  # first
    with m.stream(side):
        (v if ok else q[:, 3:]).mul_(2)  # then


@race
def other_dtype(ok):
    x, side = ready(16), m.Stream()
    x.view(torch.int32)[:8].fill_(0)  # first
    with m.stream(side):
        x.view(torch.int64)[4 if ok else 3].fill_(1)  # then


@race
def unfolded_windows(ok):
    x, side = ready(32), m.Stream()
    windows = x.unfold(0, 4, 2)
    with m.stream(side):
        y = windows[:3].sum()  # first
    x[8 if ok else 7 :].zero_()  # then
    return y


@race
def storage_is_shared(ok):
    x, side = ready(32), m.Stream()
    y = torch.empty(0, device=x.device).set_(x.untyped_storage())
    x.add_(1)  # first
    if ok:
        side.wait_stream(now())
    with m.stream(side):
        return y.view(torch.float32) * 2  # then


@race
def real_part(ok):
    x, side = ready(16, dtype=torch.complex64), m.Stream()
    x.real.zero_()  # first
    with m.stream(side):
        (x.imag if ok else x.real).zero_()  # then


@race
def last_byte(ok):
    x, side = ready(64, dtype=torch.uint8), m.Stream()
    x[:33].zero_()  # first
    with m.stream(side):
        x[33 if ok else 32 : 40].zero_()  # then
