"""Level 5: tensors and views, without a copy's or a kernel's help where possible."""

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error

PAGE = "minimal_set.md"


@check(
    call="torch.empty(2, 3, device=NAME)",
    write="A kernel for `aten::empty.memory_format`: `at::detail::empty_generic` with"
    " your allocator, under a guard of the device asked for.",
    page=PAGE,
)
def empty_makes_tensors(device):
    """Tensors of each dtype and shape can be made; without a dtype of the default."""
    for dtype in device.dtypes:
        for shape in ((), (0,), (2, 3), (1, 0, 4)):
            x = torch.empty(shape, dtype=dtype, device=device.at())
            device.expect_on_device(x, "torch.empty", 0)
            expect_equal(x.dtype, dtype, "the dtype")
            expect_equal(tuple(x.shape), shape, "the shape")
            expect(x.is_contiguous(), f"torch.empty{shape} is not contiguous")
        if dtype.is_floating_point:
            torch.set_default_dtype(dtype)
            found = torch.empty(2, device=device.at()).dtype
            expect_equal(found, dtype, "the dtype where the default is another")


@check(
    call="torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)",
    write="`empty.memory_format` honours its memory format.",
    page=PAGE,
)
def empty_honours_memory_formats(device):
    """Channels-last tensors have the CPU's strides."""
    for like in (torch.channels_last, torch.contiguous_format):
        x = torch.empty(2, 3, 4, 5, device=device.at(), memory_format=like)
        expected = torch.empty(2, 3, 4, 5, memory_format=like).stride()
        expect_equal(x.stride(), expected, f"the strides of {like}")


@check(
    call="torch.empty_strided((2, 3), (1, 2), device=NAME)",
    write="A kernel for `aten::empty_strided`, with the strides it is given.",
    page=PAGE,
)
def empty_strided_keeps_strides(device):
    """Strides are those that were asked for, and the storage fits them."""
    for size, stride in (((2, 3), (1, 2)), ((2, 3), (10, 1)), ((4,), (0,)), ((), ())):
        x = torch.empty_strided(size, stride, device=device.at())
        host = torch.empty_strided(size, stride)
        expect_equal(x.stride(), stride, "the strides")
        found, needed = x.untyped_storage().nbytes(), host.untyped_storage().nbytes()
        expect(found >= needed, f"{size} by {stride} has {found} bytes, not {needed}")


@check(
    call="torch.empty(2, device='NAME:1')",
    write="`empty` and `empty_strided` hold a guard of the device they are asked for.",
    page=PAGE,
    needs=("devices",),
)
def empty_follows_the_device(device):
    """Tensors are made on the device asked for; the current one stays."""
    x = torch.empty(2, device=device.at(1))
    device.expect_on_device(x, "torch.empty", 1)
    device.expect_on_device(
        torch.empty_strided((2,), (1,), device=device.at(1)), index=1
    )
    expect_equal(x.untyped_storage().device, device.at(1), "its storage's device")
    expect_equal(torch.accelerator.current_device_index(), 0, "the current device")
    with torch.accelerator.device_index(1):
        device.expect_on_device(torch.empty(2, device=device.name), index=1)


@check(
    call="x.view(), x.t(), x[1:], x.expand(), x.unfold()",
    write="Kernels for `as_strided`, `view`, `unfold`, `view_as_real` and"
    " `view_as_complex`; ATen's own do.",
    page=PAGE,
)
def views_have_the_cpus_strides(device):
    """Views have the CPU's shape, strides and offset, and share the storage."""
    host, x = device.pair(4, 6)
    views = {
        "view": lambda t: t.view(2, 12),
        "t": lambda t: t.t(),
        "slice": lambda t: t[1:, ::2],
        "select": lambda t: t[2],
        "expand": lambda t: t[:, None].expand(4, 3, 6),
        "unfold": lambda t: t.unfold(1, 3, 2),
        "as_strided": lambda t: t.as_strided((3, 2), (5, 1), 2),
        "diagonal": lambda t: t.diagonal(1),
    }
    for name, view in views.items():
        found, expected = view(x), view(host)
        for what in ("shape", "storage_offset", "stride"):
            left, right = getattr(found, what), getattr(expected, what)
            left, right = (left(), right()) if callable(left) else (left, right)
            expect(left == right, f"{what} of {name} is {left}, on the CPU {right}")
        expect(
            found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(),
            f"{name} does not share the storage",
        )
        device.expect_close(found, expected, name)


@check(
    call="torch.view_as_real(x), torch.view_as_complex(x)",
    write="Kernels for `view_as_real` and `view_as_complex`; ATen's own do.",
    page=PAGE,
    needs=("complex",),
)
def complex_views_share_memory(device):
    """A complex tensor can be seen as a real one, and back."""
    host, x = device.pair(3, 2, dtype=torch.complex64)
    device.expect_close(torch.view_as_real(x), torch.view_as_real(host))
    torch.view_as_real(x)[0, 0, 1] = 5.0
    torch.view_as_real(host)[0, 0, 1] = 5.0
    device.expect_close(torch.view_as_complex(torch.view_as_real(x)), host)


@check(
    call="x.t()[1].fill_(7)",
    write="Views are views: kernels write to the tensor they are given, at its offset"
    " and strides.",
    page=PAGE,
)
def writes_through_views(device):
    """What is written to a view is seen in its base, and nowhere else."""
    host, x = device.pair(4, 6)
    for t in (host, x):
        t.t()[1].fill_(7)
        t[2:, 3:].zero_()
        t[::2, ::3].mul_(2)
    device.expect_close(x, host, "the base")


@check(
    call="torch.Tensor.set_(storage, offset, size, stride)",
    write="Kernels for `set_.source_Storage` and `set_.source_Storage_storage_offset`;"
    " `native::checkSetStorage` compares the devices.",
    page=PAGE,
)
def set_shares_a_storage(device):
    """A tensor can be laid over a storage."""
    host, x = device.pair(12)
    y = torch.empty(0, device=device.at())
    y.set_(x.untyped_storage(), 2, (2, 3), (4, 1))
    device.expect_close(y, host.as_strided((2, 3), (4, 1), 2), "set_")
    packed = torch.empty(0, device=device.at()).set_(x.untyped_storage(), 2, (2, 3))
    device.expect_close(packed, host[2:8].view(2, 3), "set_ without strides")
    whole = torch.empty(0, device=device.at()).set_(x.untyped_storage())
    device.expect_close(whole, host, "set_ of a whole storage")
    expect_error(lambda: y.set_(host.untyped_storage()), "set_ of a storage of the CPU")


@check(
    call="x.resize_(100)",
    write="`resizePrivateUse1Bytes()` of the hooks: new memory, the old bytes copied.",
    page="hooks.md",
)
def resize_keeps_the_bytes(device):
    """A tensor that grows keeps what it had, and one that shrinks, too."""
    host, x = device.pair(6)
    x.resize_(1000)
    expect_equal(x.untyped_storage().nbytes() >= 4000, True, "whether the storage grew")
    device.expect_close(x[:6], host, "what was there")
    device.expect_close(x.resize_(2, 3), host.view(2, 3), "what is left")
    x.untyped_storage().resize_(0)
    expect_equal(x.untyped_storage().nbytes(), 0, "the size of an emptied storage")


@check(
    call="x.item(), bool(x), int(x)",
    write="`_local_scalar_dense`, by the fallback or by a copy of one element.",
    page=PAGE,
)
def items_reach_python(device):
    """Single elements become Python numbers, of each dtype."""
    for dtype in device.dtypes:
        found = torch.ones(3, dtype=dtype).to(device.at())[1].item()
        expect(found == 1, f"an element of {dtype} is {found!r}, not 1")
    found = torch.tensor([1.5, -2.5]).to(device.at()).tolist()
    expect_equal(found, [1.5, -2.5], "tolist()")
    expect_equal(bool(torch.tensor(True).to(device.at())), True, "bool()")


@check(
    call="print(x)",
    write="Nothing: printing copies to the CPU and uses operators of the minimal set.",
    page=PAGE,
)
def can_be_printed(device):
    """A tensor prints its numbers and its device."""
    text = repr(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(device.at()))
    for part in ("3., 4.", f"device='{device.name}:0'"):
        expect(part in text, f"{part!r} is not in {text!r}")


@check(
    call="torch.zeros(2, device=NAME), torch.full_like(x, 3)",
    write="`fill_.Scalar` and `zero_`, by the fallback or by kernels.",
    page=PAGE,
)
def factories_fill(device):
    """Factories fill with the CPU's numbers, on the device."""
    at = device.at()
    like = torch.empty(2, 3, device=at)
    cases = {
        "zeros": (torch.zeros(2, 3, device=at), torch.zeros(2, 3)),
        "ones": (torch.ones(4, device=at), torch.ones(4)),
        "full_like": (torch.full_like(like, 3), torch.full((2, 3), 3.0)),
        "arange": (torch.arange(2, 9, device=at), torch.arange(2, 9)),
        "linspace": (torch.linspace(0, 1, 5, device=at), torch.linspace(0, 1, 5)),
        "eye": (torch.eye(3, device=at), torch.eye(3)),
        "tensor": (torch.tensor([1, 2], device=at), torch.tensor([1, 2])),
    }
    for name, (found, expected) in cases.items():
        device.expect_close(found, expected, name)


@check(
    call="with torch.device(NAME): torch.ones(2)",
    write="Nothing: PyTorch's function mode adds `device=`.",
    page=PAGE,
)
def can_be_the_default_device(device):
    """The device can be the default for factories."""
    with torch.device(device.name):
        device.expect_on_device(torch.ones(2), "torch.ones")
    expect_equal(torch.ones(2).device.type, "cpu", "the device afterwards")
