"""In deterministic mode new memory has known contents: the CPU's and CUDA's."""

import pytest
import torch
from torch.utils import deterministic
from twins import check


@pytest.fixture
def asked_for():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


FACTORIES = {
    "empty": lambda **given: torch.empty(3, **given),
    "empty_strided": lambda **given: torch.empty_strided((2, 2), (1, 3), **given),
    "empty_permuted": lambda **given: torch.empty_permuted((2, 3), (1, 0), **given),
    "empty_like": lambda **given: torch.empty_like(torch.zeros(2), **given),
    "new_empty": lambda **given: torch.zeros(2).new_empty(3, **given),
    "channels last": lambda **given: torch.empty(
        (1, 2, 2, 2), memory_format=torch.channels_last, **given
    ),
}
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e5m2,
    torch.complex64,
]


def bits(tensor):
    """The memory itself, where not-a-number equals itself."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_new_memory_is_filled(make, asked_for):
    def case(device):
        made = [make(dtype=dtype, device=device) for dtype in DTYPES]
        return [bits(x.contiguous()) for x in made]

    check(case)
    assert make(device="openreg").isnan().all()


def test_a_tensor_that_grows_is_filled_where_it_grew(asked_for):
    def case(device):
        x, y = torch.ones(2, device=device), torch.ones(2, 2, device=device)
        x.resize_(5)
        return bits(x), bits(y.resize_(3)), bits(y.resize_(2, 3))

    check(case)
    grown = torch.ones(2, device="openreg").resize_(3)
    assert grown[:2].tolist() == [1, 1] and grown[2].isnan()


def test_memory_is_not_filled_by_default(asked_for, monkeypatch):
    monkeypatch.setattr(deterministic, "fill_uninitialized_memory", False)
    x = torch.full((1 << 10,), 7.0, device="openreg")
    address = x.data_ptr()
    del x
    again = torch.empty(1 << 10, device="openreg")
    assert again.data_ptr() == address
    assert again.eq(7).all()
