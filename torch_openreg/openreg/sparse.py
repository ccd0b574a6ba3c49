"""Legacy types of sparse tensors: ``torch.openreg.sparse.FloatTensor`` and others."""

import torch

from ._legacy import _TensorType

BFloat16Tensor = _TensorType("BFloat16Tensor", torch.bfloat16, torch.sparse_coo)
ByteTensor = _TensorType("ByteTensor", torch.uint8, torch.sparse_coo)
CharTensor = _TensorType("CharTensor", torch.int8, torch.sparse_coo)
DoubleTensor = _TensorType("DoubleTensor", torch.float64, torch.sparse_coo)
FloatTensor = _TensorType("FloatTensor", torch.float32, torch.sparse_coo)
HalfTensor = _TensorType("HalfTensor", torch.float16, torch.sparse_coo)
IntTensor = _TensorType("IntTensor", torch.int32, torch.sparse_coo)
LongTensor = _TensorType("LongTensor", torch.int64, torch.sparse_coo)
ShortTensor = _TensorType("ShortTensor", torch.int16, torch.sparse_coo)
