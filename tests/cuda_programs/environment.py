"""What programs print and ask before they start."""

import torch

assert torch.cuda.is_available() and torch.version.cuda is not None
assert torch.backends.cuda.is_built() and torch.backends.cudnn.is_available()
assert torch.backends.cudnn.version() > 8000
assert torch.distributed.is_nccl_available()
count = torch.cuda.device_count()
for i in range(count):
    properties = torch.cuda.get_device_properties(i)
    print(i, torch.cuda.get_device_name(i), properties.total_memory // 2**20, "MiB")
    assert properties.multi_processor_count > 0
major, minor = torch.cuda.get_device_capability()
assert (major, minor) >= (7, 0)
assert f"sm_{major}{minor}" in torch.cuda.get_arch_list()
assert torch.cuda.is_initialized()
try:
    torch.cuda.set_device(count)
except RuntimeError as error:
    assert "invalid device" in str(error).lower()
else:
    raise AssertionError(f"there is a device {count}")
device = torch.device("cuda", count - 1)
torch.cuda.set_device(device)
assert torch.cuda.current_device() == count - 1
assert torch.ones(1, device="cuda").device == device
precision = torch.get_float32_matmul_precision()
torch.set_float32_matmul_precision("high")
torch.set_float32_matmul_precision(precision)
cudart = torch.cuda.cudart()
assert cudart.cudaMemGetInfo(0)[1] == torch.cuda.mem_get_info(0)[1]
torch.cuda.check_error(int(cudart.cudaError.success))
assert torch.cuda.nccl.version() >= (2, 0)
assert isinstance(torch.cuda.utilization(), int)
torch.cuda.set_sync_debug_mode("error")
try:
    torch.ones(1, device="cuda").item()
except RuntimeError as error:
    assert "synchronizing CUDA operation" in str(error)
else:
    raise AssertionError("item() did not raise")
torch.cuda.set_sync_debug_mode(0)
