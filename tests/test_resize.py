"""Tensors get another size, or another storage: resize_ and set_."""

import pytest
import torch


def arange(n):
    return torch.arange(float(n), device="openreg")


def test_resize_keeps_the_elements_that_both_sizes_have():
    x = arange(6)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(1000).shape == (1000,)
    assert x[:4].tolist() == [0, 1, 2, 3]
    assert x.resize_(6).tolist()[:4] == [0, 1, 2, 3]
    assert x.untyped_storage().nbytes() == 4000  # storages do not shrink


def test_resize_of_a_view_reaches_the_storage_it_shares():
    x = arange(4)
    view = x[1:]
    view.resize_(100)
    assert x.untyped_storage().nbytes() == 404
    assert view[:3].tolist() == [1, 2, 3]
    view[0] = 7
    assert x.tolist() == [0, 7, 2, 3]


def test_resize_takes_a_memory_format():
    x = torch.empty(0, device="openreg")
    x.resize_((1, 2, 3, 4), memory_format=torch.channels_last)
    assert x.stride() == (24, 1, 8, 2)


@pytest.mark.parametrize("sizes", [(-2,), (2, -3), (2**50, 2**50)])
def test_a_refused_resize_changes_nothing(sizes):
    x = arange(3)
    with pytest.raises(RuntimeError):
        x.resize_(sizes)
    with pytest.raises(RuntimeError, match="Unsupported memory format"):
        x.resize_(3, memory_format=torch.preserve_format)
    assert x.tolist() == [0, 1, 2]


def test_resize_without_memory_changes_nothing():
    x = arange(3)
    with pytest.raises(torch.OutOfMemoryError):
        x.resize_(2**40)
    assert x.tolist() == [0, 1, 2]


def test_a_tensor_can_be_set_to_another_storage():
    source = arange(6)
    x = torch.empty(0, device="openreg")
    assert x.set_(source).is_set_to(source)
    assert x.set_(source.untyped_storage()).tolist() == source.tolist()
    x.set_(source.untyped_storage(), 1, (2, 2), (1, 2))
    assert x.tolist() == [[1, 3], [2, 4]]
    x.set_(source.untyped_storage(), 2, (3,))
    assert x.tolist() == [2, 3, 4]
    assert x.set_().shape == (0,)
    assert x.device == source.device


def test_setting_beyond_a_storage_makes_it_larger():
    source = arange(3)
    x = torch.empty(0, device="openreg").set_(source.untyped_storage(), 0, (10,), (1,))
    assert source.untyped_storage().nbytes() == 40
    assert x[:3].tolist() == [0, 1, 2]


def test_wrong_storages_are_refused():
    x = arange(3)
    with pytest.raises(RuntimeError, match="on different device"):
        x.set_(torch.zeros(3).untyped_storage())
    with pytest.raises(RuntimeError, match="on different device"):
        x.set_(torch.zeros(3, device="openreg:1"))
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        x.set_(arange(3).untyped_storage(), -1, (2,), (1,))
    with pytest.raises(RuntimeError):
        x.set_(torch.zeros(3, dtype=torch.int64, device="openreg"))
    assert x.tolist() == [0, 1, 2]
