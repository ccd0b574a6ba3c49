"""The types of PyTorch's first years: ``torch.openreg.FloatTensor``, ``FloatStorage``.

A tensor type is a name for a dtype on this device: it makes tensors, its instances
are all tensors with both, and ``Tensor.type()`` takes it. New code says
``torch.tensor(..., dtype=..., device=...)``.
"""

from typing import Any, NoReturn

import torch
from torch._utils import classproperty
from torch.storage import _LegacyStorage, _warn_typed_storage_removal

from torch_openreg import _C
from torch_openreg._device_name import A_NAME, IS_CUDA, NAME

from ._lazy import _lazy_init


class _TensorType(type):
    """The class of the tensor types."""

    dtype: torch.dtype
    layout: torch.layout
    is_openreg = not IS_CUDA
    is_cuda = IS_CUDA

    def __new__(
        cls,
        name: str,
        dtype: torch.dtype,
        layout: torch.layout = torch.strided,
    ) -> "_TensorType":
        sparse = layout is torch.sparse_coo
        module = f"torch.{NAME}.sparse" if sparse else f"torch.{NAME}"
        members = {
            "__doc__": f"A {dtype} tensor on {A_NAME} device.",
            "__module__": module,
            "__qualname__": name,
            "dtype": dtype,
            "layout": layout,
            "is_sparse": sparse,
        }
        # Tensor.type() knows a class by the name that C sees, with its module.
        made = super().__new__(cls, f"{module}.{name}", (), members)
        torch._tensor_classes.add(made)
        return made

    def __init__(cls, *arguments: Any) -> None:
        pass

    @property
    def __name__(cls) -> str:
        return cls.__qualname__

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        _lazy_init()
        sparse = cls.layout is torch.sparse_coo
        return _C._legacyTensor(sparse, cls.dtype, args, kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == NAME
            and instance.dtype == cls.dtype
            and instance.layout == cls.layout
        )


BFloat16Tensor = _TensorType("BFloat16Tensor", torch.bfloat16)
BoolTensor = _TensorType("BoolTensor", torch.bool)
ByteTensor = _TensorType("ByteTensor", torch.uint8)
CharTensor = _TensorType("CharTensor", torch.int8)
DoubleTensor = _TensorType("DoubleTensor", torch.float64)
FloatTensor = _TensorType("FloatTensor", torch.float32)
HalfTensor = _TensorType("HalfTensor", torch.float16)
IntTensor = _TensorType("IntTensor", torch.int32)
LongTensor = _TensorType("LongTensor", torch.int64)
ShortTensor = _TensorType("ShortTensor", torch.int16)


class _OpenRegLegacyStorage(_LegacyStorage):
    """What is not for memory of a device."""

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _warn_typed_storage_removal()
        raise RuntimeError("from_buffer: Not available for OpenReg storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("_new_with_weak_ptr: Not available for OpenReg storage")

    @classmethod
    def _new_shared_filename(
        cls,
        manager: Any,
        obj: Any,
        size: int,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> NoReturn:
        raise RuntimeError("_new_shared_filename: Not available for OpenReg storage")


def _storage_type(name: str, of: torch.dtype) -> type[_OpenRegLegacyStorage]:
    def dtype(cls: type) -> torch.dtype:
        _warn_typed_storage_removal()
        return of

    members = {
        "__doc__": f"A storage of {of} on an openreg device.",
        "__module__": "torch.openreg",  # from which torch takes the device
        "dtype": classproperty(dtype),
        "_dtype": classproperty(lambda cls: of),
    }
    made = type(_OpenRegLegacyStorage)(name, (_OpenRegLegacyStorage,), members)
    torch._storage_classes.add(made)
    return made


BFloat16Storage = _storage_type("BFloat16Storage", torch.bfloat16)
BoolStorage = _storage_type("BoolStorage", torch.bool)
ByteStorage = _storage_type("ByteStorage", torch.uint8)
CharStorage = _storage_type("CharStorage", torch.int8)
ComplexDoubleStorage = _storage_type("ComplexDoubleStorage", torch.complex128)
ComplexFloatStorage = _storage_type("ComplexFloatStorage", torch.complex64)
DoubleStorage = _storage_type("DoubleStorage", torch.float64)
FloatStorage = _storage_type("FloatStorage", torch.float32)
HalfStorage = _storage_type("HalfStorage", torch.float16)
IntStorage = _storage_type("IntStorage", torch.int32)
LongStorage = _storage_type("LongStorage", torch.int64)
ShortStorage = _storage_type("ShortStorage", torch.int16)
