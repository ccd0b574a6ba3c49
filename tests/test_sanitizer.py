"""The sanitizer's ways in and out: switches, reports, suppressions, the command."""

import json
import threading

import pytest
import torch
from device_name import NAME, m
from sanitizer_zoo import in_one_process, raw
from sanitizer_zoo.training import capture

from torch_openreg import sanitizer

pytestmark = in_one_process
N = 64


def race():
    """A bug: the two additions are in no order."""
    x = torch.ones(N, device=NAME)
    m.synchronize()
    side = m.Stream()
    x.add_(1)
    with m.stream(side):
        return x + 1


def found(run, checks=sanitizer.DEFAULT, **options):
    """What a function is reported for."""
    try:
        with sanitizer.check(checks, **options):
            run()
    except sanitizer.SanitizerError as error:
        return error.findings
    return []


# --- switches -----------------------------------------------------------------


def test_nothing_is_looked_for_until_it_is_enabled():
    assert sanitizer.enabled_checks() == ()
    race()
    sanitizer.enable("race", quiet=True)
    try:
        assert sanitizer.enabled_checks() == ("race",)
        assert sanitizer.findings() == []
        race()
        with pytest.raises(RuntimeError, match=r"on already; call disable\(\) first"):
            sanitizer.enable()
    finally:
        sanitizer.disable()
    assert [f.kind for f in sanitizer.findings()] == ["race"]
    race()
    assert len(sanitizer.findings()) == 1


@pytest.mark.parametrize("checks", ["rac", "race,,init", "", []])
def test_an_unknown_check_is_refused(checks):
    with pytest.raises(ValueError, match="expected checks out of race, memory"):
        sanitizer.enable(checks)
    assert sanitizer.enabled_checks() == ()


def test_a_check_inside_of_another_raises_for_its_own_findings():
    with pytest.raises(sanitizer.SanitizerError):
        with sanitizer.check("race"):
            race()
            with sanitizer.check("race"):
                torch.ones(2, device=NAME)
            assert sanitizer.enabled_checks() == ("race",)


def test_an_exception_of_the_block_comes_through():
    with pytest.raises(KeyError), sanitizer.check():
        race()
        raise KeyError("mine")
    assert sanitizer.enabled_checks() == ()


def test_the_sanitizer_refuses_device_processes(run_python):
    code = "import torch; torch.openreg.sanitizer.enable('race')"
    result = run_python(code, check=False, OPENREG_EXECUTOR="process")
    assert "does not work with OPENREG_EXECUTOR=process" in result.stderr


# --- reports ------------------------------------------------------------------


def test_a_report_names_both_places_the_streams_the_bytes_and_the_way_out():
    def run():
        x = torch.ones(4, N, device=NAME)
        m.synchronize()
        side = m.Stream()
        with m.stream(side):
            x[1].add_(1)
        x[1:3].mul_(2)

    (finding,) = found(run)
    text = str(finding)
    assert "aten::add_ writes in stream `side` of" in text
    assert f"aten::mul_ writes in the default stream of {NAME}:0" in text
    assert "x[1].add_(1)" in text and "x[1:3].mul_(2)" in text
    assert f"bytes [{4 * N}, {8 * N})" in finding.memory
    assert finding.tensor == "x"
    assert "wait_stream" in finding.advice
    assert finding.earlier.frame.line + 1 == finding.later.frame.line


def test_one_missing_order_is_one_finding():
    def run():
        x, y = (torch.ones(N, device=NAME) for _ in range(2))
        side = m.Stream()
        with m.stream(side):
            for _ in range(3):
                z = x + y
        return z

    assert len(found(run)) == 1


def test_the_same_place_in_a_loop_is_one_finding_with_a_count():
    def run():
        x, side = torch.ones(N, device=NAME), m.Stream()
        for _ in range(3):
            x.add_(1)
            with m.stream(side):
                y = x + 1
            m.current_stream().wait_stream(side)
        return y

    (finding,) = found(run)
    assert finding.count == 3


def test_a_backward_pass_is_reported_with_its_node_and_its_forward_line():
    w = torch.ones(N, device=NAME, requires_grad=True)
    m.synchronize()

    def run():
        y = w * w
        side = m.Stream()
        side.wait_stream(m.current_stream())
        with m.stream(side):
            w.data.add_(1)
        y.backward(torch.ones_like(y))

    (finding,) = found(run)
    assert finding.later.node == "MulBackward0"
    assert "y = w * w" in [frame.code for frame in finding.later.forward]
    assert "for MulBackward0 of a backward pass" in str(finding)


def test_findings_are_written_as_json_with_a_page_for_each(tmp_path):
    assert len(found(race)) == 1
    report = tmp_path / "report.json"
    sanitizer.save(report)
    (finding,) = json.loads(report.read_text())["findings"]
    assert finding["kind"] == "race"
    assert finding["earlier"]["operator"] == "aten::add_"
    assert finding["later"]["frames"][0]["file"] == __file__
    page = (tmp_path / finding["page"]).read_text()
    assert page.count("<rect") == 2 and "missing" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_findings_of_threads_are_collected():
    def run():
        thread = threading.Thread(target=race)
        thread.start()
        thread.join()

    assert [f.kind for f in found(run)] == ["race"]


# --- suppressions -------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("race:aten::add*", 0),
        ("race:*/test_sanitizer.py  # known", 0),
        ("race:race", 0),
        ("init:race", 1),
        ("race:aten::mul", 1),
    ],
)
def test_suppressions_name_operators_files_and_functions(tmp_path, line, left):
    file = tmp_path / "suppressions"
    file.write_text(f"# ours\n\n{line}\n")
    assert len(found(race, suppressions=file)) == left


def test_a_bad_suppression_is_refused_with_its_place(tmp_path):
    file = tmp_path / "suppressions"
    file.write_text("race:x\nnoise:y\n")
    with pytest.raises(ValueError, match="suppressions:2: expected a kind of finding"):
        sanitizer.enable("race", suppressions=file)
    assert sanitizer.enabled_checks() == ()


# --- memory -------------------------------------------------------------------


def test_work_on_freed_memory_is_found():
    def run():
        x = torch.ones(N, device=NAME)
        address = x.data_ptr()
        del x
        raw(address, 4).zero_()

    (finding,) = found(run, "memory")
    assert finding.kind == "use-after-free"
    assert finding.allocated and finding.freed
    assert finding.freed[0].line == finding.allocated[0].line + 2


def test_work_behind_the_end_of_an_allocation_is_found():
    def run():
        x = torch.ones(N, dtype=torch.uint8, device=NAME)
        raw(x.data_ptr(), N + 8).fill_(1)

    (finding,) = found(run, "memory")
    assert finding.kind == "out-of-bounds"
    assert (finding.first_byte, finding.last_byte) == (N, N + 8)


def test_memory_of_live_tensors_is_fine():
    def run():
        x = torch.ones(N, device=NAME)
        address = x.data_ptr()
        raw(address, 4 * N).zero_()
        del x
        torch.ones(N, device=NAME).sum()

    assert found(run, "memory") == []


# --- init ---------------------------------------------------------------------


def empty(*shape):
    return torch.empty(*shape, device=NAME)


UNWRITTEN = {
    "kernel": lambda: empty(N) + 1,
    "in place": lambda: empty(N).add_(1),
    "to the host": lambda: empty(N).cpu(),
    "number": lambda: empty(1).item(),
    "through a copy": lambda: empty(N).clone().sum(),
    "through a view": lambda: empty(4, N)[1:3].sum(),
    "part": lambda: torch.cat([empty(N)])[3:].sum(),
    "other layout": lambda: empty(4, N).t().contiguous().sum(),
    "other dtype": lambda: empty(N).half().sum(),
    "condition": lambda: bool(empty(1) > 0),
    "half written": lambda: half_written().sum(),
}


def half_written():
    x = empty(N)
    x[: N // 2] = 1
    return x


def rows():
    x = empty(1100, 4)
    x[:, :2] = 1
    x[:, 2:] = 2
    return x


WRITTEN = {
    "filled": lambda: empty(N).fill_(1).sum(),
    "zeros": lambda: torch.zeros(N, device=NAME).sum().item(),
    "random": lambda: empty(N).normal_().sum(),
    "copied to": lambda: empty(N).copy_(torch.ones(N)).sum(),
    "written half is read": lambda: half_written()[: N // 2].sum(),
    "rows": lambda: rows().sum(),
    "only moved": lambda: empty(N).clone().to(torch.half).view(2, -1).contiguous(),
    "beta": lambda: torch.addmm(
        empty(4, 4), *(torch.ones(4, 4, device=NAME) for _ in range(2)), beta=0
    ),
    "out": lambda: torch.add(*(torch.ones(4, device=NAME),) * 2, out=empty(4)).sum(),
    "memory that was written before": lambda: [
        torch.ones(N, device=NAME).sum() for _ in range(3)
    ],
}


@pytest.mark.parametrize("case", UNWRITTEN)
def test_a_result_that_depends_on_unwritten_memory_is_found_once(case):
    assert [f.kind for f in found(UNWRITTEN[case], "init")] == ["uninitialized"]


@pytest.mark.parametrize("case", WRITTEN)
def test_written_memory_is_not_reported(case):
    assert found(WRITTEN[case], "init") == []


# --- leak ---------------------------------------------------------------------

kept = []


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("device-memory", lambda: torch.ones(N, device=NAME)),
        ("pinned-memory", lambda: torch.ones(N).pin_memory()),
        ("event", lambda: m.Event()),
    ],
)
def test_what_is_left_is_reported_with_where_it_was_made(kind, make):
    (finding,) = found(lambda: kept.append(make()), "leak")
    kept.clear()
    assert finding.kind == kind
    assert any(frame.file == __file__ for frame in finding.allocated)
    assert found(lambda: str(type(make())), "leak") == []


def test_a_graph_that_is_left_is_reported_with_the_memory_it_keeps():
    def run():
        x = torch.ones(N, device=NAME)
        kept.append(capture(lambda: kept.append(x + 1)))

    kinds = {finding.kind for finding in found(run, "leak")}
    kept.clear()
    assert kinds == {"graph", "device-memory"}
    assert found(lambda: str(capture(torch.ones(N, device=NAME).neg_)), "leak") == []


# --- the command --------------------------------------------------------------

PROGRAM = """
import sys, torch
from torch import openreg as m
print("arguments", sys.argv[1:])
x = torch.ones(8, device="openreg")
side = m.Stream()
if "right" in sys.argv:
    side.wait_stream(m.current_stream())
with m.stream(side):
    y = x + 1
m.synchronize()
"""


def test_the_command_says_what_it_found_and_exits_with_86(run_script, tmp_path):
    program, report = tmp_path / "program.py", tmp_path / "report.json"
    program.write_text(PROGRAM)
    wrong = run_script("torch_openreg.sanitize", "--report", report, program, "-v")
    assert wrong.returncode == 86
    assert "arguments ['-v']" in wrong.stdout
    assert f'File "{program}", line 10' in wrong.stderr
    assert "openreg sanitizer: 1 finding\n" in wrong.stderr
    assert len(json.loads(report.read_text())["findings"]) == 1

    right = run_script("torch_openreg.sanitize", "--report", report, program, "right")
    assert (right.returncode, right.stderr) == (0, "")
    assert json.loads(report.read_text())["findings"] == []


def test_the_environment_turns_it_on_and_a_bad_value_stops_the_program(run_python):
    result = run_python("import torch", check=False, OPENREG_SANITIZE="speed")
    assert result.returncode != 0
    assert "OPENREG_SANITIZE=speed: expected checks out of" in result.stderr
