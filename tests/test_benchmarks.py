"""Every benchmark runs to its end and gives a figure for each of its rows."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
SHORT = {
    "collectives": [
        *("--scale", "0", "--rounds", "1"),
        *("--ranks", "1,2", "--only", "K"),
    ],
    "compiled": ["--scale", "0", "--rounds", "1", "--only", "add"],
    "graphs": ["--scale", "0", "--rounds", "1"],
    "operators": ["--calls", "2", "--rounds", "1"],
    "philox": ["--calls", "1", "--rounds", "1"],
    "profiler": ["--calls", "2", "--rounds", "1"],
    "sanitizer": ["--calls", "1", "--rounds", "1"],
    "side_by_side": ["--scale", "0", "--rounds", "1", "--threads", "1"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory, run_script):
    """Runs a benchmark as `make bench` does, with the smallest settings: what it
    printed, and the figures it wrote."""
    folder = tmp_path_factory.mktemp("benchmarks")

    def run(name, *arguments):
        figures = folder / f"{name}.json"
        result = run_script(
            BENCHMARKS / f"{name}.py",
            *(*SHORT[name], "--json", figures, *arguments),
            timeout=120,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        # Kineto tells of each profile.
        lines = result.stderr.splitlines()
        assert [line for line in lines if not line.startswith("USDT:")] == []
        return result.stdout, json.loads(figures.read_text())

    return run


@pytest.fixture
def load(monkeypatch):
    """Imports a benchmark, as a program finds what lies beside it."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def numbers(figures):
    """All numbers of nested dictionaries."""
    for value in figures.values():
        yield from numbers(value) if isinstance(value, dict) else [value]


def test_every_benchmark_is_run_here():
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == set(SHORT)


def test_operators_gives_a_figure_for_each_call_and_stage(run, load):
    text, figures = run("operators")
    assert all(map(math.isfinite, numbers(figures)))
    assert min(numbers(figures["calls_ns"])) > 0
    assert min(numbers(figures["queue_ns"])) > 0
    printed = [line.split("  ")[0] for line in text.splitlines() if line]
    rows = [call.name for call in load("operators").CALLS]
    assert printed == [
        *("call", *rows, *figures["queue_ns"]),
        *("stage", *figures["stages_ns"]),
    ]


def test_a_stage_is_the_time_beyond_that_of_the_cpu(load):
    operators = load("operators")
    calls = {call.name: {"cpu": 100, "openreg": 150} for call in operators.CALLS}
    calls["cat 5 x 8"] = {"cpu": 200, "openreg": 450}
    calls["rsub 8"]["openreg"] = 180
    queue = {name: 7 for name in ("add 8, from the queue", "synchronize, idle")}
    queue |= {"add 8, queued": 190, "fill_ 8, queued": 60}
    queue |= {"fill_ large, waited for": 900, "fill_ large, CPU": 400}
    found = {name: figure for name, figure, _ in operators.stages(calls, queue)}
    assert found["frame of a call"] == 50
    assert found["one more tensor"] == (250 - 50) / 4
    assert found["tier: boxed"] == 30
    assert found["queue"] == 40
    assert found["wait for the worker"] == 500


def test_profiler_gives_the_cost_of_each_profile(run):
    text, figures = run("profiler")
    *profiles, rows = figures["openreg"]
    assert profiles == ["no profiler", "host", "host and device"]
    assert list(figures["cpu"]) == profiles[:2]
    assert min(figures["cpu"].values()) > 0
    difference = figures["openreg"][profiles[2]] - figures["openreg"][profiles[1]]
    assert figures["openreg"][rows] == pytest.approx(difference)
    assert [line.split("  ")[0] for line in text.splitlines()[1:]] == [*profiles, rows]


def test_philox_gives_a_ratio_for_each_distribution(run):
    text, rows = run("philox")
    assert [line.split()[0] for line in text.splitlines()[1:]] == [*rows]
    assert len(rows) == 6 and min(numbers(rows)) > 0


def test_side_by_side_gives_a_ratio_for_each_row(run):
    text, rows = run("side_by_side")
    *lines, total = text.splitlines()[1:]
    assert len(lines) == len(rows) == 38
    within = 0
    for line, (name, row) in zip(lines, rows.items(), strict=True):
        assert line.startswith(name)
        assert row["ratio"] == pytest.approx(row["device_us"] / row["cpu_us"])
        assert row["within"] == (row["ratio"] <= row["aim"] * 1.05)
        assert line.endswith("ok" if row["within"] else "over")
        within += row["within"]
    assert total == f"{within} of {len(rows)} within 5 % of their aim"


def test_side_by_side_measures_the_rows_that_were_asked_for(run):
    _, rows = run("side_by_side", "--only", "empty")
    assert list(rows) == ["empty 1024", "empty 4 Mi floats"]


def test_side_by_side_tells_of_a_row_that_fails(load, monkeypatch, capsys):
    side_by_side = load("side_by_side")

    def broken(device):
        raise RuntimeError("no such kernel\nand more")

    case = side_by_side.Case("broken", broken, 1, 1.0)
    good = side_by_side.Case("empty 1024", side_by_side.empty(1024), 1, 1.0)
    unknown = side_by_side.Case("unknown", side_by_side.empty(1), 1, 1.0)
    monkeypatch.setattr(side_by_side, "cases", lambda: [case, good, unknown])
    monkeypatch.setattr(sys, "argv", ["side_by_side.py", "--rounds", "1"])
    assert side_by_side.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split(maxsplit=1) == ["broken", "FAILS: no such kernel"]
    assert lines[2].startswith("empty ")
    assert lines[3].split(maxsplit=1) == ["unknown", "FAILS: on the CPU: 'unknown'"]


def test_the_rival_is_a_process_without_the_device(load):
    program = BENCHMARKS / "side_by_side.py"
    with load("measure.rival").Rival(program, threads=1) as cpu:
        assert cpu.seconds("empty 1024", 1) > 0
        libraries = Path(f"/proc/{cpu._process.pid}/maps").read_text()
        assert "libtorch" in libraries
        assert "libopenreg" not in libraries
    assert cpu._process.returncode == 0


@pytest.mark.parametrize(
    "name, count",
    [("graphs", 3), pytest.param("compiled", 1, marks=pytest.mark.slow)],
)
def test_a_table_gives_a_ratio_for_each_row(run, name, count):
    text, rows = run(name)
    lines = text.splitlines()[1:]
    assert len(lines) == len(rows) == count
    for line, (name, row) in zip(lines, rows.items(), strict=True):
        assert line.startswith(name)
        assert row["ratio"] == pytest.approx(row["device_us"] / row["cpu_us"])
        assert line.endswith("ok" if row["within"] else "over")


@pytest.mark.slow
def test_collectives_gives_a_ratio_for_each_row_and_number_of_ranks(run):
    text, rows = run("collectives")
    assert list(rows) == ["1 ranks, all_reduce 1 KiB", "2 ranks, all_reduce 1 KiB"]
    for row in rows.values():
        assert row["ratio"] == pytest.approx(row["device_us"] / row["cpu_us"])
        assert row["memcpy_us"] > 0
    *_, last = text.splitlines()
    assert last.startswith("2 ranks against 1: all_reduce 1 KiB")
    assert last.endswith("times as long")


def test_the_best_round_counts_and_all_take_turns(load, monkeypatch):
    measure = load("measure")
    order, seconds = [], iter([0.5, 4.0, 0.25, 8.0])

    def once(function, calls):
        order.append((function(), calls))
        return next(seconds)

    monkeypatch.setattr(measure, "once", once)
    best = measure.best_of({"a": lambda: "a", "b": lambda: "b"}, calls=3, rounds=2)
    assert best == {"a": 0.25, "b": 4.0}
    assert order == [("a", 3), ("b", 3)] * 2


@pytest.mark.in_threads("the sanitizer is refused there")
def test_sanitizer_gives_a_figure_for_each_set_of_checks(run, load):
    _, figures = run("sanitizer")
    assert list(figures) == list(load("sanitizer").CHECKS)
    assert min(numbers(figures)) > 0
