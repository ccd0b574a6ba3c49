"""Level 5: copies between host and device, with strides, dtypes and lazy bits."""

import copy

import torch

from ..check import check
from ..expect import expect, expect_equal

PAGE = "minimal_set.md"


@check(
    call="x.to(NAME), x.cpu()",
    write="A kernel for `aten::_copy_from`, which all copies end in.",
    page=PAGE,
)
def there_and_back(device):
    """Each dtype goes to the device and comes back unchanged, to the last bit."""
    for dtype in device.dtypes:
        host, x = device.pair(5, 7, dtype=dtype)
        expect(x.cpu().equal(host), f"{dtype} is changed on the way")
        expect_equal(x.to("cpu").device.type, "cpu", "the device of .to('cpu')")


@check(
    call="x.t().to(NAME), x[:, ::2].cpu()",
    write="`_copy_from` honours strides and offsets of both sides; packing on the host is"
    " enough for a start.",
    page=PAGE,
)
def strided_both_ways(device):
    """Tensors with holes and swapped axes are copied right, both ways."""
    host = torch.arange(60.0).view(6, 10)
    x = host.to(device.at())
    views = {
        "transposed": lambda t: t.t(),
        "with holes": lambda t: t[::2, 1::3],
        "expanded": lambda t: t[0].expand(4, 10),
        "a packed part": lambda t: t[2:4],
    }
    for name, view in views.items():
        expect(view(x).cpu().equal(view(host)), f"{name}: the way to the CPU is wrong")
        device.expect_close(view(host).to(device.at()), view(host), f"{name}, there")
    target, expected = torch.zeros(6, 10, device=device.at()), torch.zeros(6, 10)
    for one in (target, expected):
        one[::2, ::2].copy_(host[:3, :5])
        one[1].copy_(host[4])
    device.expect_close(target, expected, "a target with holes, and a row")


@check(
    call="x.to(torch.float16), device.copy_(cpu_of_another_dtype)",
    write="`_copy_from` converts when the dtypes differ.",
    page=PAGE,
)
def converts_dtypes(device):
    """A copy converts between dtypes as the CPU does, on the way or in place."""
    host = torch.tensor([-3.7, 0.0, 1.2, 250.9])
    x = host.to(device.at())
    for dtype in set(device.dtypes) - {torch.uint8}:
        device.expect_close(x.to(dtype), host.to(dtype), f"{dtype} on the device")
        target = torch.empty(4, dtype=dtype, device=device.at())
        device.expect_close(target.copy_(host), host.to(dtype), f"{dtype} on the way")
    back = torch.empty(4, dtype=torch.int32).copy_(x)
    expect(back.equal(host.int()), f"float32 becomes int32 {back.tolist()}")


@check(
    call="y.copy_(x), both on the device",
    write="`_copy_from` from device to device; memory that overlaps itself aside.",
    page=PAGE,
)
def on_the_device(device):
    """Copies on the device, with broadcasting."""
    host, x = device.pair(3, 4)
    y = torch.empty(2, 3, 4, device=device.at())
    device.expect_close(y.copy_(x), host.expand(2, 3, 4), "copy_")
    device.expect_close(x.clone(), host, "clone")
    expect(x.clone().data_ptr() != x.data_ptr(), "clone() shares the memory")
    device.expect_close(x.t().contiguous(), host.t().contiguous(), "contiguous")


@check(
    call="x.to('NAME:1')",
    write="`_copy_from` between two devices: a peer copy, or through the host.",
    page=PAGE,
    needs=("devices",),
)
def between_devices(device):
    """Tensors go from one device to another; the current device stays."""
    host, x = device.pair(5, 3)
    y = x.to(device.at(1))
    device.expect_on_device(y, index=1)
    device.expect_close(y, host, "on the second device")
    device.expect_close(y.t().to(device.at(0)), host.t(), "and back, transposed")
    expect_equal(torch.accelerator.current_device_index(), 0, "the current device")


@check(
    call="x.conj().cpu(), x.imag.cpu()",
    write="Fallthrough kernels for `_copy_from` on the keys Conjugate and Negative.",
    page=PAGE,
    needs=("complex",),
)
def resolves_lazy_bits(device):
    """Lazy conjugates and negatives are copied as what they mean."""
    host, x = device.pair(4, dtype=torch.complex64)
    for name, view in {
        "conj": lambda t: t.conj(),
        "imag of conj": lambda t: t.conj().imag,
    }.items():
        found = view(x).cpu().resolve_conj().resolve_neg()
        expected = view(host).resolve_conj().resolve_neg()
        expect(found.equal(expected), f"{name} is {found}, on the CPU {expected}")
        device.expect_close(view(host).to(device.at()), expected, f"{name}, there")
        into = torch.empty_like(expected).copy_(view(x))
        expect(
            into.equal(expected), f"copy_ of {name} is {into}, on the CPU {expected}"
        )


@check(
    call="x.cpu() of an empty tensor",
    write="`_copy_from` returns early for no elements, and asks no driver for 0 bytes.",
    page=PAGE,
)
def nothing_at_all(device):
    """Tensors without elements, and without dimensions, are copied."""
    for shape in ((0,), (3, 0), ()):
        host = torch.ones(shape)
        x = host.to(device.at())
        expect_equal(tuple(x.cpu().shape), shape, "the shape")
        device.expect_close(x.clone(), host)


@check(
    call="x.to(NAME, non_blocking=True)",
    write="With `non_blocking` from memory that is not pinned, copy before you return.",
    page=PAGE,
)
def non_blocking_is_safe(device):
    """Ordinary host memory may change after a copy that did not block."""
    host = torch.ones(1 << 16)
    x = host.to(device.at(), non_blocking=True)
    host.zero_()
    device.expect_close(x, torch.ones(1 << 16), "what was copied")


@check(
    call="x.clone(), torch.empty_like(x)",
    write="`empty_strided` with the strides PyTorch computes; do not pack.",
    page=PAGE,
)
def clones_keep_strides(device):
    """A clone of a dense tensor keeps its strides, and is independent."""
    host, x = device.pair(3, 4)
    clone = x.t().clone()
    expect_equal(clone.stride(), host.t().clone().stride(), "the strides of a clone")
    clone.zero_()
    device.expect_close(x, host, "the original")


@check(
    call="copy.deepcopy(x)",
    write="Nothing, if storages can be cloned: `UntypedStorage.clone()` is a copy.",
    page=PAGE,
)
def deep_copies_share_what_was_shared(device):
    """Deep copies are new memory, and views of one storage stay views of one."""
    host, x = device.pair(4)
    left, right = copy.deepcopy((x, x[1:3]))
    left.zero_()
    device.expect_close(x, host, "the original")
    device.expect_close(right, torch.zeros(2), "the copy of the view")


@check(
    call="torch.from_numpy(a).to(NAME), x.cpu().numpy()",
    write="Nothing: the CPU stands between.",
    page=PAGE,
)
def numpy_goes_through_the_cpu(device):
    """NumPy reads a device's tensor through the CPU only, and says so."""
    host, x = device.pair(3)
    expect(bool((x.cpu().numpy() == host.numpy()).all()), "the numbers differ")
    try:
        x.numpy()
    except (TypeError, RuntimeError):
        return
    expect(False, "x.numpy() on the device gives something, and not an error")
