"""`python -m torch_openreg.memory`: snapshots drawn, scripts measured."""

import json
import pickle
import sys
from xml.etree import ElementTree

import pytest
import torch
from torch_openreg import memory
from torch_openreg.memory import __main__ as command
from torch_openreg.memory import _page, _text

MIB = 1 << 20


def frame(filename, line=1, name="f"):
    return {"filename": filename, "line": line, "name": name}


TORCHS = frame("/x/lib/python3.11/site-packages/torch/nn/modules/module.py", 9, "to")
CPP = frame("??", 0, "at::empty()")
OWN = frame("/home/me/train.py", 12, "main")
TRAIN = "/home/me/train.py:12 main"


def entry(action, addr=0, size=MIB, *frames):
    return {
        **{"action": action, "addr": addr, "size": size},
        **{"frames": list(frames), "time_us": 5},
    }


def block(size, state="inactive", *frames):
    return {
        **{"size": size, "requested_size": size - 12, "state": state},
        "frames": list(frames),
    }


def snapshot(trace, *blocks):
    """One segment at address 0, with the blocks and the trace of device 0."""
    segment = {
        **{"device": 0, "address": 0, "blocks": list(blocks), "stream": 7},
        **{"total_size": sum(b["size"] for b in blocks), "segment_type": "large"},
    }
    return {"segments": [segment] if blocks else [], "device_traces": [trace]}


@pytest.fixture
def saved(tmp_path):
    def save(what):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(what if isinstance(what, bytes) else pickle.dumps(what))
        return str(path)

    return save


# --- call sites -------------------------------------------------------------------


@pytest.mark.parametrize(
    "frames, place",
    [
        ([CPP, TORCHS, OWN, frame("/home/me/run.py")], TRAIN),
        ([frame("<stdin>", 3, "<module>")], "<stdin>:3 <module>"),
        ([CPP, TORCHS], f"{TORCHS['filename']}:9 to"),
        ([frame(torch.nn.__file__), OWN], TRAIN),
        ([frame(memory.__file__), OWN], TRAIN),
        ([frame("<frozen runpy>")], "(no stack)"),
        ([CPP], "(no stack)"),
        ([CPP, frame("x.cpp", 0, "g::AddmmBackward0::apply(v)")],
         "AddmmBackward0 (backward)"),
        ([frame("??", 0, "torch::autograd::Engine::thread_main()")],
         "autograd engine (backward)"),
    ],
)  # fmt: skip
def test_a_call_site_is_the_innermost_frame_that_is_not_torchs(frames, place):
    trace = [entry("alloc", 0, MIB, *frames)]
    history = memory.History(snapshot(trace), 0)
    assert [site.place for site in history.top(9)] == [place]


def test_call_sites_count_current_and_past_memory():
    other = frame("/home/me/data.py", 3, "load")
    trace = [
        entry("alloc", 0, MIB, OWN),
        entry("alloc", MIB, 3 * MIB, OWN),
        entry("free_requested", 0, MIB),
        entry("free_completed", 0, MIB),
        entry("alloc", 0, MIB, other),
    ]
    history = memory.History(
        snapshot(
            trace,
            block(MIB, "active_allocated", other),
            block(3 * MIB, "active_allocated", OWN),
        ),
        0,
    )
    assert history.top(9) == [
        memory.CallSite(TRAIN, now=3 * MIB, peak=4 * MIB, allocations=2),
        memory.CallSite("/home/me/data.py:3 load", MIB, MIB, 1),
    ]
    assert (history.now, history.peak) == (4 * MIB, 4 * MIB)
    assert history.at_peak == {TRAIN: 4 * MIB}


def test_what_is_older_than_the_history_counts_from_its_start():
    trace = [entry("free_requested", MIB, 2 * MIB), entry("alloc", MIB, 512, OWN)]
    kept = block(MIB, "active_allocated", OWN)
    history = memory.History(snapshot(trace, kept, block(MIB)), 0)
    levels = [step.allocated for step in history.steps([])]
    assert levels == [3 * MIB - 12, MIB - 12, MIB + 500]
    older, train = history.top(2)
    assert (older.place, older.peak, older.now) == (
        "(before the history)", 2 * MIB, 0
    )  # fmt: skip
    assert (train.allocations, train.now) == (1, MIB + 500)


def test_reserved_bytes_follow_the_segments():
    trace = [entry("segment_alloc", 0, 4 * MIB), entry("segment_free", MIB, 2 * MIB)]
    history = memory.History(snapshot(trace, block(4 * MIB)), 0)
    reserved = [step.reserved for step in history.steps([])]
    assert reserved == [2 * MIB, 6 * MIB, 4 * MIB]


# --- the page ---------------------------------------------------------------------


def data(text):
    """What a page holds of its first device, for the pointer to tell."""
    embedded = text.partition('id="data">')[2].partition("</script>")[0]
    return json.loads(embedded)["devices"][0]


def drawings(text):
    """The drawings of a page, as trees, without the prefix of SVG."""
    parts = [part.partition("</svg>")[0] for part in text.split("<svg")[1:]]
    return [
        ElementTree.fromstring(f"<svg{p}</svg>".replace(" xmlns=", " x="))
        for p in parts
    ]


def test_the_page_draws_the_timeline_and_holds_its_data():
    evil = frame("</script><b>.py", 1, "&")
    trace = [entry("alloc", 0, 3 * MIB, OWN), entry("alloc", 4 * MIB, MIB, evil)]
    text = memory.page(snapshot(trace))
    assert "src=" not in text and "href=" not in text  # it needs no network
    device = data(text)
    assert device["sites"] == [TRAIN, "</script><b>.py:1 &"]
    assert device["steps"] == [
        [0, 0, 0, 0, 0],
        [0, 3 * MIB, 0, 3 * MIB, 0],
        [0, 4 * MIB, 0, 3 * MIB, MIB],
    ]
    (timeline,) = drawings(text)
    areas = {area.findtext("title"): area.get("points").split()
             for area in timeline.iter("polygon")}  # fmt: skip
    assert list(areas) == [TRAIN, "</script><b>.py:1 &", "all others"]
    # The last stair of each, from the top of one to the top of the next.
    bottom, top = _page.TOP + _page.HEIGHT, _page.TOP
    quarter = _page.HEIGHT / 4
    assert areas[TRAIN][5:7] == [f"1000.0,{top + quarter}", f"1000.0,{bottom:.1f}"]
    assert areas["</script><b>.py:1 &"][5] == f"1000.0,{top:.1f}"


def test_a_long_timeline_is_thinned_and_keeps_its_peak(monkeypatch):
    monkeypatch.setattr(_page, "STEPS", 10)
    sizes = [7 * MIB if i == 55 else MIB for i in range(100)]
    actions = ("alloc", "free_requested")
    trace = [entry(action, 0, size) for size in sizes for action in actions]
    levels = [step[1] for step in data(memory.page(snapshot(trace)))["steps"]]
    assert len(levels) <= 11
    assert max(levels) == 7 * MIB


def test_the_page_draws_segments_to_scale_with_their_blocks():
    drawn = drawings(
        memory.page(
            snapshot(
                [],
                block(MIB, "active_allocated", TORCHS, OWN),
                block(2 * MIB, "active_pending_free"),
                block(MIB),
            )
        )
    )
    (segments,) = drawn  # there is no history to draw
    blocks = list(segments.iter("rect"))
    width = float(blocks[0].get("width"))
    assert [float(b.get("width")) / width for b in blocks] == pytest.approx([1, 2, 1])
    assert [b.get("fill") for b in blocks] == [
        _page.STATES["active_allocated"][1],
        _page.PENDING[1],
        _page.STATES["inactive"][1],
    ]
    title = blocks[0].findtext("title")
    assert title == f"1.00 MiB, allocated, 1023.99 KiB requested\n{TRAIN}"


def test_narrow_blocks_of_one_state_are_drawn_as_one():
    narrow = [block(512, "active_allocated", OWN) for _ in range(50)]
    (segments,) = drawings(memory.page(snapshot([], *narrow, block(2 * MIB))))
    first, second = (b.findtext("title") for b in segments.iter("rect"))
    assert first == "50 blocks, 25.00 KiB, allocated"
    assert second.startswith("2.00 MiB, free")


# --- report -----------------------------------------------------------------------


def test_report_writes_a_page_and_prints_the_call_sites(saved, tmp_path, capsys):
    path = saved(snapshot([entry("alloc", 0, MIB, OWN)]))
    assert command.main(["report", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("device 0: 1.00 MiB requested by tensors")
    assert lines[1].split("  ")[-1] == "call site"
    assert lines[2].split() == ["1.00", "MiB", "1.00", "MiB", "1", *TRAIN.split()]
    assert lines[-1] == f"wrote {tmp_path / 'snapshot.html'}"
    assert "<svg" in (tmp_path / "snapshot.html").read_text()
    assert command.main(["report", path, "-o", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").exists()


def test_report_reads_a_snapshot_of_the_device(tmp_path, capsys):
    record = torch.openreg.memory._record_memory_history
    record(stacks="python", clear_history=True)
    try:
        kept = torch.empty(5 * MIB, dtype=torch.uint8, device="openreg")
        torch.openreg.memory._dump_snapshot(str(tmp_path / "mine.pickle"))
    finally:
        record(None)
    assert command.main(["report", str(tmp_path / "mine.pickle")]) == 0
    here = f"{__file__}:{sys._getframe().f_code.co_firstlineno + 4} "
    (line,) = [x for x in capsys.readouterr().out.splitlines() if here in x]
    assert line.split()[:5] == ["5.00", "MiB", "5.00", "MiB", "1"]
    assert kept.nbytes == 5 * MIB


@pytest.mark.parametrize(
    "content, cause",
    [
        (b"not a pickle", "it is not a pickle"),
        ({"weights": [1]}, "KeyError: 'segments'"),
        ([1, 2], "is not a memory snapshot"),
        (print, "it has an object of builtins.print"),
        ({"segments": [], "device_traces": [[{"action": "alloc", "size": 1}]]},
         "KeyError: 'addr'"),
    ],
)  # fmt: skip
def test_report_refuses_a_file_that_is_not_a_snapshot(
    saved, tmp_path, capsys, content, cause
):
    assert command.main(["report", saved(content)]) == 2
    told = capsys.readouterr().err
    assert "snapshot.pickle is not a memory snapshot" in told
    assert cause in told
    assert not (tmp_path / "snapshot.html").exists()


def test_report_says_if_there_is_no_file(tmp_path, capsys):
    assert command.main(["report", str(tmp_path / "none.pickle")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_watched_table_is_drawn_with_rich(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    _text.table("sizes", ("size", "where"), [("1 B", "[x].py")], right=1)
    drawn = capsys.readouterr().out
    assert "[x].py" in drawn
    assert "│" in drawn


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (5 << 50, "5120.00 TiB")],
)
def test_sizes_have_units(count, text):
    assert _text.size(count) == text
