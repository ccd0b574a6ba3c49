"""Named ranges of a program, and that a profiler shows them."""

import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

nvtx = torch.openreg.nvtx


def ranges(function):
    """(name, start, end) of the annotations that a profiler saw, by start."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        function()
    found = [
        (event.name, event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.is_user_annotation
    ]
    return sorted(found, key=lambda item: item[1])


def test_ranges_nest_and_tell_their_depth():
    def program():
        assert nvtx.range_push("outer") == 0
        assert nvtx.range_push("inner") == 1
        assert nvtx.range_pop() == 1
        assert nvtx.range_pop() == 0

    outer, inner = ranges(program)
    assert (outer[0], inner[0]) == ("outer", "inner")
    assert outer[1] <= inner[1] <= inner[2] <= outer[2]


def test_each_thread_has_a_stack_of_its_own():
    depths = []
    nvtx.range_push("here")
    thread = threading.Thread(
        target=lambda: depths.extend([nvtx.range_push("there"), nvtx.range_pop()])
    )
    thread.start()
    thread.join()
    assert nvtx.range_pop() == 0
    assert depths == [0, 0]


def test_a_range_may_end_on_another_thread():
    def program():
        handle = nvtx.range_start("long")
        nvtx.mark("inside")
        thread = threading.Thread(target=nvtx.range_end, args=(handle,))
        thread.start()
        thread.join()

    assert {name for name, *_ in ranges(program)} == {"long", "inside"}


def test_a_mark_is_a_moment():
    def program():
        nvtx.range_push("outer")
        nvtx.mark("now")
        nvtx.range_pop()

    outer, mark = ranges(program)
    assert mark[0] == "now"
    assert outer[1] <= mark[1] <= mark[2] <= outer[2]


def test_the_context_formats_its_name_and_ends_with_an_exception():
    def program():
        with pytest.raises(KeyError), nvtx.range("step {} of {n}", 1, n=2):
            raise KeyError
        decorated()

    @nvtx.range("decorated")
    def decorated():
        assert nvtx.range_push("inside") == 1
        nvtx.range_pop()

    names = [name for name, *_ in ranges(program)]
    assert names == ["step 1 of 2", "decorated", "inside"]


def test_ranges_that_were_not_begun_cannot_end():
    with pytest.raises(RuntimeError, match="without a range_push"):
        nvtx.range_pop()
    with pytest.raises(RuntimeError, match="range_end.. got 0, which is not a handle"):
        nvtx.range_end(0)
    handle = nvtx.range_start("once")
    nvtx.range_end(handle)
    with pytest.raises(RuntimeError, match=f"got {handle}, .* has ended already"):
        nvtx.range_end(handle)


def test_the_common_ones_are_in_torch_openreg_itself():
    for name in ("mark", "range", "range_pop", "range_push"):
        assert getattr(torch.openreg, name) is getattr(nvtx, name)
