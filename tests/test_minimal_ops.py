"""The operators without which there is no tensor: making, viewing, values."""

import re

import numpy as np
import pytest
import torch

DEVICES = ["openreg:0", "openreg:1"]
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


def arange(n, device="openreg", dtype=torch.float32):
    return torch.arange(n, dtype=dtype).to(device)


def same_error(call, kind=RuntimeError):
    """Calls on the CPU and on openreg; both must fail, in the same words."""
    with pytest.raises(kind) as expected:
        call("cpu")
    with pytest.raises(kind) as error:
        call("openreg")
    assert str(error.value) == str(expected.value)


# --- empty, empty_strided, _efficientzerotensor -------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_empty_makes_a_tensor_of_the_dtype_on_the_device(device, dtype):
    x = torch.empty(2, 3, dtype=dtype, device=device)
    assert (x.dtype, x.device, x.shape) == (dtype, torch.device(device), (2, 3))
    assert x.untyped_storage().device == x.device
    assert x.untyped_storage().nbytes() == 6 * dtype.itemsize


def test_without_an_index_a_tensor_is_on_the_current_device():
    with torch.openreg.device(1):
        assert torch.empty(1, device="openreg").get_device() == 1
        assert torch.empty_strided((1,), (1,), device="openreg").get_device() == 1
    assert torch.empty(1, device="openreg").get_device() == 0


@pytest.mark.parametrize(
    ("shape", "format"),
    [
        ((2, 3, 4, 5), torch.channels_last),
        ((2, 3, 4, 5, 6), torch.channels_last_3d),
        ((2, 3), torch.contiguous_format),
    ],
)
def test_memory_formats_give_the_strides_of_the_cpu(shape, format):
    x = torch.empty(shape, device="openreg", memory_format=format)
    assert x.stride() == torch.empty(shape, memory_format=format).stride()
    assert x.is_contiguous(memory_format=format)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)])
def test_tensors_may_be_empty_or_have_no_dimension(shape):
    x = torch.empty(shape, device="openreg")
    assert x.shape == shape
    assert x.fill_(3).cpu().tolist() == torch.full(shape, 3.0).tolist()


def test_impossible_sizes_are_refused_as_on_the_cpu():
    same_error(lambda device: torch.empty(-1, device=device))
    same_error(lambda device: torch.empty(2**50, 2**50, device=device))
    same_error(lambda device: torch.empty_strided((-3,), (1,), device=device))
    same_error(lambda device: torch.empty_strided((3,), (-1,), device=device))
    same_error(lambda device: torch.empty_strided((3, 2), (1,), device=device))


def test_a_layout_of_the_cpu_alone_cannot_be_made():
    with pytest.raises(NotImplementedError):
        torch.empty(3, device="openreg", layout=torch._mkldnn)


def test_device_memory_cannot_be_pinned():
    words = "Only dense CPU tensors can be pinned"
    with pytest.raises(RuntimeError, match=words):
        torch.empty(3, device="openreg", pin_memory=True)
    with pytest.raises(RuntimeError, match=words):
        torch.empty_strided((3,), (1,), device="openreg", pin_memory=True)


def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(torch.AcceleratorError, match=r"device 2 is not in \[0, 2\)"):
        torch.empty(3, device="openreg:2")


def test_empty_strided_takes_any_strides():
    x = torch.empty_strided((3, 2), (1, 5), device="openreg")
    assert x.stride() == (1, 5)
    assert x.untyped_storage().nbytes() == 8 * 4
    assert torch.empty_strided((4,), (0,), device="openreg").stride() == (0,)


def zeros_without_memory():
    return torch._efficientzerotensor((3,), device="openreg")


@pytest.mark.parametrize(
    "use",
    [
        lambda zeros: zeros.cpu(),
        lambda zeros: zeros.clone(),
        lambda zeros: zeros.view(3, 1).view(3),
        lambda zeros: zeros + torch.zeros(3, device="openreg"),
        lambda zeros: zeros * torch.ones(3, device="openreg"),
        lambda zeros: torch.ones(3, device="openreg").copy_(zeros),
        lambda zeros: torch.ones(3, device="openreg:1").copy_(zeros),
        lambda zeros: torch.ones(3).copy_(zeros),
    ],
)
def test_zeros_without_memory_are_zeros_everywhere(use):
    assert use(zeros_without_memory()).tolist() == [0, 0, 0]


def test_zeros_without_memory_take_none_and_cannot_be_changed():
    zeros = zeros_without_memory()
    assert zeros._is_zerotensor()
    assert zeros.data_ptr() == 0
    with pytest.raises(RuntimeError, match="immutable"):
        zeros.add_(1)


# --- views --------------------------------------------------------------------

VIEWS = {
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 1),
    "diagonal": lambda x: x.view(3, 4).diagonal(),
    "expand": lambda x: x.view(12, 1).expand(12, 2),
    "index": lambda x: x[2:9:3],
    "permute": lambda x: x.view(2, 3, 2).permute(2, 0, 1),
    "reshape": lambda x: x.reshape(3, 4),
    "split": lambda x: x.split(5)[1],
    "squeeze": lambda x: x.view(1, 12).squeeze(),
    "t": lambda x: x.view(3, 4).t(),
    "unbind": lambda x: x.view(3, 4).unbind(1)[2],
    "unfold": lambda x: x.unfold(0, 4, 2),
    "view": lambda x: x.view(4, 3),
    "view dtype": lambda x: x.view(torch.int32),
    "view_as_complex": lambda x: torch.view_as_complex(x.view(6, 2)),
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_share_memory_and_look_like_the_cpus(view):
    x, expected = arange(12), view(arange(12, "cpu"))
    found = view(x)
    assert found.shape == expected.shape
    assert found.stride() == expected.stride()
    assert found.storage_offset() == expected.storage_offset()
    assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.equal(found.cpu(), expected)
    x.zero_()
    assert not found.cpu().any()


def test_complex_numbers_are_seen_as_real_ones():
    x = torch.tensor([1 + 2j, 3 - 4j], device="openreg")
    real = torch.view_as_real(x)
    real[0, 1] = 9
    assert x.tolist() == [1 + 9j, 3 - 4j]
    assert x.imag.tolist() == [9, -4]


def test_wrong_views_are_refused_as_on_the_cpu():
    def zeros(device):
        return torch.zeros(2, 3, device=device)

    same_error(lambda device: zeros(device).as_strided((3,), (3,)))
    same_error(lambda device: zeros(device).as_strided((3,), (-1,)))
    same_error(lambda device: zeros(device).as_strided((3,), (1,), -1))
    same_error(lambda device: zeros(device).view(4))
    same_error(lambda device: zeros(device).t().view(6))
    same_error(lambda device: zeros(device).unfold(0, 7, 1))
    same_error(lambda device: zeros(device)[5], IndexError)
    same_error(lambda device: torch.view_as_complex(zeros(device)))
    same_error(lambda device: torch.view_as_real(zeros(device)))


def test_is_set_to_compares_storage_and_shape():
    x = arange(6)
    assert x.is_set_to(x.view(6))
    assert not x.is_set_to(x.view(2, 3))
    assert not x.is_set_to(arange(6))


# --- fill_ and zero_ ----------------------------------------------------------

PLACES = {
    "whole": lambda x: x,
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "steps": lambda x: x[::2, 1::2],
    "transposed": lambda x: x.t()[1:],
    "expanded": lambda x: x[:1].expand(3, 6),
    "number": lambda x: x[2, 3],
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_fill_and_zero_write_to_their_place_only(place, dtype):
    for write in (lambda x: x.fill_(1), lambda x: x.zero_()):
        x, expected = (torch.full((4, 6), 2).to(d, dtype) for d in ("openreg", "cpu"))
        write(place(expected))
        found = write(place(x))
        assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert torch.equal(x.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fill_takes_every_dtype(dtype):
    x, expected = (torch.empty(3, dtype=dtype, device=d) for d in ("openreg", "cpu"))
    assert torch.equal(
        x.fill_(1).cpu().view(torch.uint8), expected.fill_(1).view(torch.uint8)
    )
    assert not x.zero_().cpu().view(torch.uint8).any()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.uint8, 300),
        (torch.int8, -1000),
        (torch.int32, 2**40),
        (torch.int64, 1 + 2j),
        (torch.float32, 1j),
        (torch.float16, 1e30),
    ],
)
def test_a_number_that_does_not_fit_is_refused_and_the_device_stays_well(dtype, value):
    x = torch.ones(3, dtype=dtype, device="openreg")
    with pytest.raises(RuntimeError, match="without overflow"):
        x.fill_(value)
    torch.openreg.synchronize()
    assert x.tolist() == [1, 1, 1]
    same_error(lambda device: torch.ones(3, dtype=dtype, device=device).fill_(value))


def test_fill_takes_a_tensor_of_no_dimension():
    x = torch.zeros(3, device="openreg")
    assert x.fill_(torch.tensor(5.0)).tolist() == [5, 5, 5]
    assert x.fill_(torch.tensor(6.0, device="openreg")).tolist() == [6, 6, 6]
    same_error(lambda d: torch.zeros(3, device=d).fill_(torch.zeros(2, device=d)))


# --- values -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_becomes_a_number(dtype):
    x = torch.ones(1, 1, dtype=dtype, device="openreg:1")
    assert x.item() == 1
    assert type(x.item()) is type(torch.ones(1, dtype=dtype).item())
    assert bool(x)


def test_numbers_are_converted_by_python():
    x = torch.tensor(2.75, device="openreg")
    assert (float(x), int(x), complex(x)) == (2.75, 2, 2.75 + 0j)
    assert [10, 20, 30][torch.tensor(1, device="openreg")] == 20
    assert f"{x:.1f}" == "2.8"
    assert x == 2.75


def test_lazy_bits_are_resolved_in_numbers():
    x = torch.tensor([1 + 2j], device="openreg")
    assert x.conj().item() == 1 - 2j
    assert x.conj().imag.item() == -2


def test_more_or_less_than_one_element_is_not_a_number():
    same_error(lambda device: torch.zeros(2, device=device).item())
    same_error(lambda device: torch.zeros(0, device=device).item())
    same_error(lambda device: bool(torch.zeros(2, device=device)))


def test_lists_come_from_any_tensor():
    x = arange(6).view(2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.t()[::2].tolist() == [[0, 3], [2, 5]]
    assert torch.tensor(3, device="openreg").tolist() == 3


def test_numpy_wants_a_copy_in_host_memory():
    x = arange(3)
    words = re.escape("can't convert openreg:0 device type tensor to numpy")
    for convert in (lambda: x.numpy(), lambda: np.asarray(x), lambda: x.__array__()):
        with pytest.raises(TypeError, match=words):
            convert()
    assert x.numpy(force=True).tolist() == [0, 1, 2]
    assert x.cpu().numpy().tolist() == [0, 1, 2]
    assert torch.from_numpy(np.arange(3)).to("openreg").tolist() == [0, 1, 2]


def test_the_host_may_not_read_device_memory(run_python):
    code = """
import ctypes, torch
x = torch.ones(3, device="openreg")
torch.openreg.synchronize()
ctypes.string_at(x.data_ptr(), 1)
"""
    assert run_python(code, check=False).returncode == -11  # SIGSEGV
