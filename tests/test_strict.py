"""OPENREG_STRICT=1: what a GPU was seen to refuse is refused, and nothing else.

tests/golden/strict.json has the record, tests/golden/strict.py runs its cases.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"
RECORD = json.loads((GOLDEN / "strict.json").read_text())
SENTENCES = RECORD["sentences"]
RECORDED = {
    label: [SENTENCES[number] for number in numbers]
    for label, numbers in RECORD["cases"].items()
}
NAMES = [pytest.param("openreg"), pytest.param("cuda", marks=pytest.mark.slow)]
ALERT = "does not have a deterministic implementation"


def run(*command, strict="1", **variables):
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env=os.environ | {"OPENREG_STRICT": strict, "OPENREG_QUIET": "1"} | variables,
        text=True,
        capture_output=True,
        timeout=500,
    )


@functools.cache
def observed(name):
    result = run(GOLDEN / "strict.py", OPENREG_AS=name)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def told(outcome):
    """The result, and each alert of an operator: other warnings are PyTorch's own."""
    result, *warnings = outcome
    alerts = [w.partition(",")[0] for w in warnings if ALERT in w]
    # The CPU's kernel of max_unpool alerts itself, too.
    once = {a for a in alerts if a.startswith("max_unpooling")}
    return result, sorted([a for a in alerts if a not in once] + list(once))


@pytest.mark.parametrize("name", NAMES)
def test_all_cases_end_as_on_the_gpu(name):
    found = observed(name)
    assert found.keys() == RECORDED.keys()
    different = {
        label: {"gpu": told(outcome), "openreg": told(found[label])}
        for label, outcome in RECORDED.items()
        if told(outcome) != told(found[label])
    }
    assert different == {}


def test_the_record_has_both_kinds():
    results = [outcome[0] for outcome in RECORDED.values()]
    assert results.count("ok") > 150 and len(results) - results.count("ok") > 400


def test_refused_attention_says_why():
    why = observed("openreg")["sdpa FLASH_ATTENTION torch.float32"][1:]
    assert why[:4] == [
        "Memory efficient kernel not used because:",
        "Memory Efficient attention has been runtime disabled.",
        "Flash attention kernel not used because:",
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query "
        "dtype: float, Key dtype: float, and Value dtype: float instead.",
    ]


OTHERS = """
import torch
from torch.testing import assert_close

host = torch.ones(2, 2, dtype=torch.int64)
assert (host @ host).tolist() == [[2, 2], [2, 2]]
x = torch.ones(2, 2, device="openreg")
assert (x @ x).tolist() == [[2, 2], [2, 2]]
try:
    host.to("openreg") @ host
except RuntimeError as error:
    assert "same device" in str(error), error
else:
    raise AssertionError("two devices were taken")
out = torch.empty(2, 2, dtype=torch.int64, device="openreg")
for refused in (
    lambda: torch.mm(host.to("openreg"), host.to("openreg"), out=out),
    lambda: out.addmm_(host.to("openreg"), host.to("openreg")),
    lambda: torch.compile(lambda a: a @ a, backend="eager")(host.to("openreg")),
):
    try:
        refused()
    except NotImplementedError as error:
        assert str(error).startswith('"addmm_cuda" not implemented for'), error
    else:
        raise AssertionError("an integer product was taken")
"""


def test_other_devices_dtypes_and_forms_of_an_operator():
    result = run("-c", OTHERS)
    assert result.returncode == 0, result.stderr


def test_without_the_variable_nothing_is_registered():
    for name in ("aten::mm", "aten::put_", "aten::histogram.bin_ct"):
        key = torch._C.DispatchKey.BackendSelect
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    x = torch.ones(2, 2, dtype=torch.int64, device="openreg")
    assert (x @ x).tolist() == [[2, 2], [2, 2]]


def test_a_wrong_value_is_refused():
    result = run("-c", "import torch", strict="yes")
    assert result.returncode != 0
    assert "OPENREG_STRICT is 'yes', but must be 0 or 1" in result.stderr


@pytest.mark.parametrize("backend", ["EFFICIENT_ATTENTION", "CUDNN_ATTENTION"])
def test_one_kernel_stands_in_for_all_of_cudas(backend):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attention

    def result(device, allowed):
        torch.manual_seed(0)
        q = torch.randn(1, 2, 16, 8).to(device).requires_grad_()
        with sdpa_kernel(allowed):
            y = attention(q, q, q)
        y.sum().backward()
        return y.detach().cpu(), q.grad.cpu()

    torch.testing.assert_close(
        result("openreg", getattr(SDPBackend, backend)), result("cpu", SDPBackend.MATH)
    )


def test_autocast_takes_any_type_and_kernels_refuse_it():
    code = """
import torch
x = torch.ones(2, 2, device="openreg")
for dtype in (torch.int8, torch.int32, torch.float64):
    try:
        with torch.autocast("openreg", dtype=dtype):
            print(torch.mm(x, x).dtype)
    except NotImplementedError as error:
        print(error)
half = x.half()
print(torch.matrix_exp(half).dtype)
with torch.autocast("openreg"):
    print(torch.matrix_exp(x).dtype)
    try:
        torch.matrix_exp(half)
    except RuntimeError as error:
        print(error)
"""
    result = run("-c", code)
    assert result.stdout.splitlines() == [
        "\"addmm_cuda\" not implemented for 'Char'",
        "\"addmm_cuda\" not implemented for 'Int'",
        "torch.float64",
        "torch.float16",
        "torch.float32",
        "Index put requires the source and destination dtypes match, got Half for the "
        "destination and Float for the source.",
    ], result.stderr
