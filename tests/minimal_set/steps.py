"""What a backend with the minimal set can do: one function per step.

Run by tests/test_mini_backend.py. Without one of the operators of the set a step
fails, or ends the process.
"""

import io
import json
import os
import sys

import torch


def same(found, expected):
    assert found.device.type == "mini", found.device
    assert (found.shape, found.stride()) == (expected.shape, expected.stride())
    assert torch.equal(found.cpu(), expected)


def creation():
    x = torch.empty(2, 3, dtype=torch.int64, device="mini:1")
    assert (x.shape, x.dtype, str(x.device)) == ((2, 3), torch.int64, "mini:1")
    x = torch.empty(1, 2, 3, 4, device="mini", memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.empty_strided((2, 3), (1, 5), device="mini").stride() == (1, 5)


def copies():
    x = torch.arange(6.0).view(2, 3)
    same(x.to("mini"), x)
    same(x.to("mini").to("mini:1"), x)
    same(x.t().to("mini"), x.t())
    same(x.to("mini").to(torch.int32), x.to(torch.int32))


def views():
    x = torch.arange(12.0)
    y = x.to("mini")
    same(y.view(3, 4)[1:, ::2].t(), x.view(3, 4)[1:, ::2].t())
    same(y.view(3, 4).t().reshape(12), x.view(3, 4).t().reshape(12))
    same(y.view(3, 4)[:, ::2].reshape(3, 2, 1), x.view(3, 4)[:, ::2].reshape(3, 2, 1))
    y.view(3, 4)[:, 1].copy_(torch.tensor([7.0, 8.0, 9.0]))
    assert y[:6].tolist() == [0, 7, 2, 3, 4, 8]


def fallback():
    x = torch.ones(3, device="mini")
    assert x.add_(1).tolist() == [2, 2, 2]
    same(torch.linalg.det(torch.eye(2, device="mini") * 3), torch.tensor(9.0))
    pairs = torch.zeros(2, 2, device="mini")
    pairs[:, 1].add_(5)
    assert pairs.tolist() == [[0, 5], [0, 5]]
    out = torch.empty(0, device="mini")
    torch.mul(x, 2, out=out)
    assert out.tolist() == [4, 4, 4]


def printing():
    x = torch.arange(4.0, device="mini")
    assert str(x) == "tensor([0., 1., 2., 3.], device='mini:0')"


def saving():
    x = torch.arange(6.0).to("mini:1")[2:]
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    y = torch.load(file)
    assert y.device == x.device
    same(y, x.cpu())


def windows():
    same(
        torch.arange(8.0).to("mini").unfold(0, 4, 2), torch.arange(8.0).unfold(0, 4, 2)
    )


def complex_numbers():
    x = torch.arange(6.0).view(3, 2)
    z = torch.view_as_complex(x.to("mini"))
    same(z, torch.view_as_complex(x))
    same(torch.view_as_real(z), x)


def conjugates():
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(z.to("mini").conj().cpu(), z.conj())


def negatives():
    x = torch.tensor([1.0, -2.0])
    assert torch.equal(x.to("mini")._neg_view().cpu(), -x)


STEPS = [
    creation,
    copies,
    views,
    fallback,
    printing,
    saving,
    windows,
    complex_numbers,
    conjugates,
    negatives,
]


def first_failure(left_out):
    """The step at which a child without this registration fails, or None."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.environ["LEAVE_OUT"] = left_out
        import torch_mini  # noqa: F401

        for step in STEPS:
            os.write(write, f"{step.__name__}\n".encode())
            try:
                step()
            except Exception as error:
                print(f"without {left_out}: {error}"[:200], file=sys.stderr)
                os._exit(1)
        os.write(write, b"None\n")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        *_, last = told.read().splitlines()
    os.wait()
    return last


if __name__ == "__main__":
    print(json.dumps({name: first_failure(name) for name in sys.argv[1:]}))
