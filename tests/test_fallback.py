"""Operators that make the host wait: counted, warned of, refused."""

import pytest
import torch

WAIT = """
import torch, warnings
x = torch.ones(4, device="openreg")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        torch.nonzero(x)
print([str(warning.message).split(" (")[0] for warning in caught])
"""


def test_waiting_operators_are_counted_by_name():
    x = torch.ones(4, device="openreg")
    torch.openreg.reset_fallback_report()
    torch.nonzero(x), torch.nonzero(x), torch.randperm(4, device="openreg")
    report = torch.openreg.fallback_report()
    assert report["aten::nonzero"] == 2
    assert report["aten::randperm.generator_out"] == 1
    assert list(report)[0] == "aten::nonzero"


def test_queued_operators_are_not_counted():
    x = torch.ones(1 << 16, device="openreg")
    (x + 1).relu().sum().item()
    torch.openreg.reset_fallback_report()
    (x + 1).relu().sum().item()
    assert torch.openreg.fallback_report() == {}


def test_a_first_call_that_waits_is_counted_as_one():
    x = torch.ones(1 << 15, 3, device="openreg")
    torch.openreg.reset_fallback_report()
    for _ in range(2):
        torch.nn.functional.hardtanh(x, 0.25, 0.375)
    report = torch.openreg.fallback_report()
    assert report == {"aten::hardtanh (first call of its kind)": 1}


def test_the_variable_warns_of_first_calls_and_never_refuses_them(run_python):
    first = """
import torch, warnings
x = torch.ones(1 << 15, 3, device="openreg")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        torch.nn.functional.hardtanh(x, 0.25, 0.375)
print([str(warning.message).split(" because")[0] for warning in caught])
"""
    assert run_python(first, OPENREG_FALLBACK="error") == "[]"
    assert run_python(first, OPENREG_FALLBACK="warn") == (
        "['aten::hardtanh waits for its stream on openreg,']"
    )


def test_a_reset_forgets_the_counts():
    torch.nonzero(torch.ones(4, device="openreg"))
    torch.openreg.reset_fallback_report()
    assert torch.openreg.fallback_report() == {}


def test_the_variable_makes_the_first_call_of_each_warn(run_python):
    printed = run_python(WAIT, OPENREG_FALLBACK="warn")
    assert printed == (
        "['aten::nonzero waits for its stream on openreg: it has no queued form']"
    )


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("error", "NotImplementedError: aten::nonzero has no queued form"),
        ("maybe", "OPENREG_FALLBACK is 'maybe', but must be allow, warn or error"),
    ],
)
def test_the_variable_makes_calls_fail(run_python, value, error):
    result = run_python(WAIT, check=False, OPENREG_FALLBACK=value)
    assert result.returncode == 1
    assert error in result.stderr
