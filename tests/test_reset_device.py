"""What a tensor held when its device was reset is lost, and never a wrong number."""

import pytest

# The Python function and the C one are the same reset.
RESETS = {
    "torch": "def reset(): torch.openreg.reset_device()",
    "C": """
import ctypes, pathlib, torch_openreg
folder = pathlib.Path(torch_openreg.__file__).parent
reset = ctypes.CDLL(folder / "lib" / "libopenreg.so").orDeviceReset
""",
}
BEFORE = """
import torch
x = torch.ones(64, device="openreg")
y = torch.ones(64, device="openreg:1")
view = x[8:]
reset()

def told(call):
    try:
        call()
    except torch.AcceleratorError as error:
        return error.error_code, "older than the last reset of device 0" in str(error)
"""


@pytest.fixture(params=["thread", "process"])
def executor(request):
    return request.param


@pytest.fixture(params=RESETS)
def run(run_python, executor, request):
    def run(code):
        code = RESETS[request.param] + BEFORE + code
        return run_python(code, OPENREG_EXECUTOR=executor)

    return run


USES = [
    "x.tolist()",
    "x.cpu()",
    "x.to('openreg:1')",
    "x + 1",
    "x.add_(1)",
    "x.clone()",
    "view.sum()",
    "torch.zeros(64, device='openreg').copy_(x)",
    "torch.stack([torch.zeros(64, device='openreg'), x])",
    "torch.linalg.norm(x)",
    "x[0].item()",
    "x.resize_(1000)",
    # Half of it would still be lost.
    "view.copy_(torch.ones(56))",
    "view.zero_()",
    "view.fill_(2)",
    "x[::2].zero_()",
]


def test_a_lost_tensor_raises(run):
    code = f"""
for use in {USES!r}:
    if told(lambda: eval(use)) != (46, True):
        print(use)
"""
    assert run(code) == ""


@pytest.mark.parametrize(
    "fill", ["copy_(torch.ones(64) * 3)", "fill_(3)", "zero_().add_(3)"]
)
def test_a_lost_tensor_can_be_read_once_overwritten(run, fill):
    assert run(f"print(x.{fill}.sum().item(), view.sum().item())") == "192.0 168.0"


def test_tensors_of_other_devices_and_new_ones_are_not_lost(run):
    code = """
del x, view
again = torch.ones(64, device="openreg")  # at the same place
print(again.sum().item(), y.sum().item())
"""
    assert run(code) == "64.0 64.0"


def test_a_model_goes_on_from_its_checkpoint(run):
    code = """
net = torch.nn.Linear(4, 2).to("openreg")
state = {name: value.cpu() for name, value in net.state_dict().items()}
net(torch.ones(3, 4, device="openreg")).sum().backward()
reset()
print(told(lambda: net(torch.ones(3, 4, device="openreg"))))
net.load_state_dict(state)
net.zero_grad()
print(torch.equal(net.weight.cpu(), state["weight"]))
net(torch.ones(3, 4, device="openreg")).sum().backward()
print(net.weight.grad.sum().item())
"""
    assert run(code) == "(46, True)\nTrue\n24.0"


def test_memory_without_the_cache_is_lost_too(run):
    code = """
torch.openreg.caching_allocator_enable(False)
z = torch.ones(64, device="openreg")
reset()
print(told(z.sum))
del z
print(torch.ones(64, device="openreg").sum().item())
"""
    assert run(code) == "(46, True)\n64.0"


def test_a_failed_device_is_as_new(run):
    code = """
try:
    torch.ones(4, device="openreg")[torch.tensor([9], device="openreg")]
    torch.openreg.synchronize()
except torch.AcceleratorError as error:
    print(error.error_code)
reset()
print(torch.ones(4, device="openreg").sum().item())
"""
    assert run(code) == "710\n4.0"
