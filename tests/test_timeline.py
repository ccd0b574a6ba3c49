"""The summary of a trace: how busy streams were, and what they waited for."""

import gzip
import json
import sys

import pytest

from torch_openreg import timeline
from torch_openreg.timeline.__main__ import main


def row(name, cat, start, duration, pid=0, tid=7, **args):
    times = {"ph": "X", "ts": start, "dur": duration}
    return {**times, "name": name, "cat": cat, "pid": pid, "tid": tid, "args": args}


def work(name, start, duration, correlation, cat="kernel", external=None, **where):
    args = {"correlation": correlation, "External id": external or correlation}
    return row(name, cat, start, duration, **where, **args)


def call(start, duration, correlation, name="orLaunchKernel"):
    args = {"pid": 99, "tid": 99, "correlation": correlation}
    return row(name, "privateuse1_runtime", start, duration, **args)


def operator(name, start, duration, external):
    where = {"pid": 99, "tid": 99, "External id": external}
    return row(name, "cpu_op", start, duration, **where)


# A device that runs dry while the host is in aten::item, then waits for a stream.
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    operator("aten::mm", 0, 12, 1),
    call(5, 5, 1),
    work("aten::mm", 10, 100, 1),
    operator("aten::item", 60, 300, 2),
    call(70, 280, 2, "orStreamSynchronize"),
    operator("aten::add", 400, 20, 3),
    call(405, 5, 3),
    work("aten::add", 410, 40, 3),
    call(420, 5, 4),
    work("aten::add", 600, 40, 4, external=3),
    # Another stream copies, half of it beside the first kernel.
    call(2, 2, 5, "orMemcpyAsync"),
    work("Memcpy HtoD (Pinned -> Device)", 60, 100, 5, cat="gpu_memcpy", tid=8),
]


@pytest.fixture
def write(tmp_path):
    def write(content, name="trace.json"):
        path = tmp_path / name
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        path.write_bytes(content)
        return str(path)

    return write


def test_streams_are_busy_and_idle(write):
    first, second = timeline.load(write({"traceEvents": EVENTS})).streams
    assert (first.device, first.stream, len(first.rows)) == (0, 7, 3)
    assert (first.busy, first.idle) == (180, 450)
    assert (second.stream, second.busy, second.idle) == (8, 100, 0)


def test_rows_that_overlap_count_once(write):
    events = [work("a", 0, 10, 1), work("b", 5, 10, 2), work("c", 15, 5, 3)]
    (stream,) = timeline.load(write(events)).streams
    assert (stream.busy, stream.idle) == (20, 0)


def test_a_gap_has_the_call_that_ended_it_and_what_the_host_did_instead(write):
    first, second = timeline.load(write({"traceEvents": EVENTS})).gaps(20)
    assert (first.start, first.end) == (110, 410)
    assert first.call.name == "orLaunchKernel"
    assert first.operator.name == "aten::add"
    assert first.instead.name == "aten::item"
    assert not first.queued_before

    assert second.duration == 150
    assert second.queued_before
    assert second.instead is None


def test_short_gaps_are_left_out(write):
    trace = timeline.load(write({"traceEvents": EVENTS}))
    assert [gap.duration for gap in trace.gaps(200)] == [300]


def test_a_gap_in_a_trace_without_the_host_has_no_cause(write):
    events = [work("a", 0, 10, 1), work("b", 100, 10, 2)]
    (gap,) = timeline.load(write(events)).gaps(20)
    assert (gap.call, gap.operator, gap.instead) == (None, None, None)


def test_a_row_that_began_before_the_gap_can_be_its_cause(write):
    events = [
        work("a", 0, 10, 1),
        operator("before", 0, 4, 9),
        operator("outer", 5, 90, 2),
        operator("inner", 6, 4, 3),
        call(98, 1, 4),
        work("b", 100, 10, 4),
    ]
    (gap,) = timeline.load(write(events)).gaps(20)
    assert gap.instead.name == "outer"


def test_kernels_are_added_up_by_name(write):
    trace = timeline.load(write({"traceEvents": EVENTS}))
    assert trace.kernels() == [("aten::mm", 1, 100), ("aten::add", 2, 80)]


def test_copies_beside_kernels_of_the_same_device_overlap(write):
    trace = timeline.load(write({"traceEvents": EVENTS}))
    assert trace.copies() == (100, 50)
    apart = [
        work("a", 0, 10, 1, pid=0),
        work("copy", 0, 10, 2, cat="gpu_memcpy", pid=1),
    ]
    assert timeline.load(write(apart)).copies() == (10, 0)


def test_a_packed_trace_and_a_plain_list_are_read(write):
    packed = gzip.compress(json.dumps(EVENTS).encode())
    assert len(timeline.load(write(packed, "trace.json.gz")).device_rows) == 4


# --- the command ------------------------------------------------------------------


def test_the_command_prints_a_summary_and_what_to_do_next(write, capsys):
    assert main([write({"traceEvents": EVENTS})]) == 0
    text = capsys.readouterr().out
    assert "device 0, stream 7" in text
    assert "300.0 us" in text
    assert "orLaunchKernel in aten::add" in text
    assert "none: it waited for another stream" in text
    assert "copies: 100.0 us, of which 50.0 us (50 %) beside kernels" in text
    last = text.strip().splitlines()[-1]
    assert last.startswith("Next: stream 7 waited 300.0 us for the host")
    assert "`aten::item`" in last


@pytest.mark.parametrize(
    ("events", "advice"),
    [
        (
            [
                call(0, 1, 1),
                work("copy", 1, 50, 1, cat="gpu_memcpy"),
                work("a", 51, 50, 1),
            ],
            "copies held the device up for 50.0 us",
        ),
        ([work("a", 0, 90, 1), work("b", 95, 5, 2)], "`a` takes 90.0 us"),
        (
            [work("a", 10.0 * i, 1, i) for i in range(1, 9)],
            "fewer and larger operators",
        ),
    ],
)
def test_the_advice_is_about_what_costs_most(events, advice, write, capsys):
    assert main([write(events)]) == 0
    assert advice in capsys.readouterr().out.strip().splitlines()[-1]


def test_how_many_and_how_long_can_be_chosen(write, capsys):
    path = write({"traceEvents": EVENTS})
    assert main([path, "--top", "1", "--gap", "500"]) == 0
    text = capsys.readouterr().out
    assert "gaps: none of 500.0 us or more" in text
    assert "the slowest 1 of 2" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json", "is not JSON"),
        (b"\x1f\x8bbroken", "is not JSON"),
        (b'{"a": 1}', "has no list `traceEvents`"),
        (b"[1, 2]", "has no list `traceEvents`"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}]}', "a row has no time"),
        (b'{"traceEvents": []}', "has no rows of a device: profile with"),
    ],
)
def test_a_file_that_is_not_a_trace_is_refused(content, message, write, capsys):
    path = write(content)
    assert main([path]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"python -m torch_openreg.timeline: {path} ")
    assert message in error


def test_a_file_that_is_not_there_is_refused(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_help_tells_what_the_command_does(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "what it waited for" in text
    assert "--gap MICROSECONDS" in text


def test_tables_are_plain_where_rich_is_missing(write, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.markup", None)
    assert main([write({"traceEvents": EVENTS})]) == 0
    assert "streams\n" in capsys.readouterr().out
