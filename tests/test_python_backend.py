"""examples/python_backend: a backend without C++, and what it can do."""

import sys

import pytest
from other_backends import ROOT, answers, run_in, session_failures, sessions

EXAMPLE = ROOT / "examples" / "python_backend"
PAGE = ROOT / "docs" / "python_backend.md"

# Line -> the beginning of what it gives. They share what := names.
CASES = {
    "torch.accelerator.current_accelerator()": "pychip",
    "(x := torch.arange(6.).pychip()).device": "pychip:0",
    "x.view(2, 3).t()[1:].relu()": "tensor([[1., 4.],",
    # A view shares the storage, a resized tensor keeps its numbers.
    "(v := x.view(2, 3)[1]).untyped_storage()._cdata"
    " == x.untyped_storage()._cdata": "True",
    "v.fill_(9) is v and x.tolist()": "[0.0, 1.0, 2.0, 9.0, 9.0, 9.0]",
    "x.resize_(2, 4).shape, x[0].tolist()": "(torch.Size([2, 4]), [0.0, 1.0, 2.0, 9.",
    "torch.add(v, v, out=(o := torch.empty(0).pychip())) is o and o": "tensor([18., 18.",
    "(s := torch.empty(0).pychip()).set_(v) is s and s.add_(1) is s and v": "tensor([10.,",
    "torch.zeros(4).pychip().set_(v.untyped_storage(), 3, (3,))": "tensor([10., 10.",
    # Lists, several results, results that are no tensors.
    "torch.cat([v, v]).split(4)[1].tolist()": "[10.0, 10.0]",
    "torch._foreach_add([v, v], 1)[1]": "tensor([11., 11., 11.]",
    "v.max().item(), bool(v.equal(v))": "(10.0, True)",
    "torch.tensor([3, 1]).pychip().sort()[1].device": "pychip:0",
    # Lazy conjugation and negation.
    "(c := torch.tensor([1 + 2j]).pychip()).conj().cpu()": "tensor([1.-2.j])",
    "c.conj() + 1": "tensor([2.-2.j], device='pychip:0')",
    "torch.ops.aten.alias(c.conj())": "tensor([1.-2.j]",
    "c.conj().imag + 0": "tensor([-2.], device='pychip:0')",
    # Random numbers are the CPU's.
    "(torch.manual_seed(3), torch.rand(2, device='pychip'))[1].tolist() =="
    " (torch.manual_seed(3), torch.rand(2))[1].tolist()": "True",
    # Files and copies.
    "(f := __import__('io').BytesIO(), torch.save({'x': x, 'v': v}, f), f.seek(0))[2]": "0",
    "(y := torch.load(f))['v'].untyped_storage()._cdata"
    " == y['x'].untyped_storage()._cdata": "True",
    "y['v'].fill_(5).device, y['x'][0].tolist()": "(device(type='pychip', index=0), [0.0,"
    " 1.0, 2.0, 5.0])",
    "(f.seek(0), torch.load(f, map_location='cpu')['v'])[1]": "tensor([10., 10., 10.])",
    "(d := __import__('copy').deepcopy(x)).fill_(0) is d and x[0, 1]": "tensor(1.",
    # Errors.
    "torch.ones(2, device='pychip:1')": "RuntimeError no pychip:1: there is 1 device",
    "torch.cat([x, torch.ones(2, 4)])": "RuntimeError Expected all tensors to be on the"
    " same device",
    "torch.linalg.inv(torch.zeros(2, 2).pychip())": "_LinAlgError linalg.inv: The diag",
    "v + torch.tensor(1.0)": "tensor([11., 11., 11.], device='pychip:0')",
    "torch.Generator('pychip')": "NotImplementedError",
}


@pytest.fixture(scope="module")
def given():
    return answers(EXAMPLE, "torch_pychip", CASES)


@pytest.mark.parametrize("line", CASES)
def test_each_line_gives_the_expected_answer(line, given):
    assert given[line].startswith(CASES[line])


def test_sessions_give_what_the_page_shows():
    assert session_failures(EXAMPLE, sessions(PAGE.read_text())) == ""


def test_it_trains_as_the_cpu_does():
    found = run_in(EXAMPLE, sys.executable, "-W", "error", "train.py").stdout
    assert found.startswith("pychip 0.0697, cpu 0.0697\nwithout a kernel: ")


FREED = """
import gc, torch, torch_pychip, weakref
x = torch.zeros(4, device="pychip")
memory = weakref.ref(x.view(2, 2).untyped_storage().memory)
del x
gc.collect()
print(memory())
"""


def test_memory_goes_with_its_last_tensor():
    assert run_in(EXAMPLE, sys.executable, "-c", FREED).stdout == "None\n"


def test_the_example_stays_small():
    lines = (EXAMPLE / "torch_pychip.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.startswith("#")]
    assert 0 < len(code) < 150
