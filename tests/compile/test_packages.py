"""AOTInductor: compiled here, run in another process."""

import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

RUN = """
import torch
m = torch.openreg
model = torch._inductor.aoti_load_package({path!r})
for case, expected in torch.load({cases!r}):
    for device in ("openreg:0", "openreg:1"):
        result, mean = model(case.to(device))
        assert str(result.device) == device and str(mean.device) == "cpu", result.device
        assert torch.equal(result.cpu(), expected), device
        assert torch.allclose(mean, result.mean(0).cpu())
print(sorted(name for name in m.fallback_report() if "package" in name))
try:
    model(torch.ones(2, 16))
except RuntimeError as error:
    print(error)
"""


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
        self.register_buffer("scale", torch.arange(4.0))

    def forward(self, x):
        y = self.layers(x) * self.scale
        return y, y.mean(0).cpu()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture
def package(model, tmp_path):
    """The path of a package of the model on the device, of any batch size."""
    x = torch.randn(8, 16, device="openreg")
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(
        model.to("openreg"), (x,), dynamic_shapes={"x": {0: batch}}
    )
    path = str(tmp_path / "model.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    assert next(iter(program.state_dict.values())).device.type == "openreg"
    return path


def test_a_package_runs_in_another_process(model, package, run_python, tmp_path):
    model.to("cpu")
    compiled = torch.compile(model, dynamic=True)
    cases = []
    with torch.no_grad():
        for batch in (2, 8, 33):
            x = torch.randn(batch, 16)
            cases.append((x, compiled(x)[0]))
    torch.save(cases, tmp_path / "cases.pt")
    code = RUN.format(path=package, cases=str(tmp_path / "cases.pt"))
    fallbacks, error = run_python(code).splitlines()
    assert "openreg_package::run" in fallbacks
    assert error.startswith("this package was compiled for openreg, but an input is on")
