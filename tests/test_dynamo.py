"""Dynamo, the front half of torch.compile, knows the device; and the backend "openreg"
runs what it captures."""

import pytest
import torch
from torch import nn
from torch._dynamo.device_interface import get_interface_for_device
from torch._dynamo.exc import Unsupported
from torch.utils.checkpoint import checkpoint
from twins import DEVICE, check, numbers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="openreg", fullgraph=True, **options)


# --- the device interface -----------------------------------------------------


def test_importing_torch_does_not_import_dynamo(run_python):
    code = "import sys, torch, torch_openreg\n"
    code += (
        "print([m for m in ('torch._dynamo', 'torch._inductor') if m in sys.modules])"
    )
    assert run_python(code) == "[]"


@pytest.mark.parametrize("name", ["openreg", "openreg:0", "openreg:1"])
def test_the_device_has_an_interface(name):
    interface = get_interface_for_device(name)
    assert interface is get_interface_for_device(torch.device("openreg"))
    assert interface.is_available() and interface.device_count() == 2
    assert not interface.is_triton_capable()


def test_a_package_that_comes_after_dynamo_is_known_too(run_python):
    code = """
import torch._dynamo.device_interface as interfaces
import torch_openreg
print(interfaces.get_interface_for_device("openreg").device_count())
"""
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "2"


def test_the_interface_tells_what_the_device_tells(as_before):
    interface = get_interface_for_device("openreg")
    stream = torch.openreg.Stream(1)
    interface.set_stream(stream)
    assert interface.current_device() == 1
    assert interface.current_stream() == stream
    assert interface.get_raw_stream(1) == stream.openreg_stream
    assert interface.exchange_device(0) == 1
    default = torch.openreg.default_stream(1)
    place = (default.stream_id, default.device_index, default.device_type)
    interface._set_stream_by_id(*place)
    assert torch.openreg.current_stream(1) == default
    major, minor = torch.openreg.get_device_capability()
    assert interface.get_compute_capability() == major * 10 + minor
    interface.synchronize()


def test_a_process_that_compiles_asks_no_device():
    worker = get_interface_for_device("openreg").Worker
    properties = worker.get_device_properties("openreg:1")
    assert properties.name == torch.openreg.get_device_name(1)
    worker.set_device(1)
    try:
        assert worker.current_device() == 1
    finally:
        torch._dynamo.device_interface.caching_worker_current_devices.clear()
    assert worker.current_device() == torch.openreg.current_device()


# --- functions of torch.openreg inside compiled ones ---------------------------


def test_questions_about_the_device_do_not_break_the_graph():
    def function(x):
        if torch.openreg.is_available() and torch.openreg.is_bf16_supported():
            x = x + torch.openreg.device_count()
        return x * torch.openreg.get_device_capability(0)[0]

    x = torch.ones(3, device=DEVICE)
    assert torch.equal(compiled(function)(x), function(x))


def test_a_change_of_the_current_device_is_noticed():
    x = torch.ones(1, device=DEVICE)
    function = compiled(lambda x: x + torch.openreg.current_device())
    assert function(x).item() == 1
    with torch.openreg.device(1):
        assert function(x).item() == 2
    assert function(x).item() == 1


@pytest.mark.parametrize(
    "device", [1, "openreg:1", torch.device("openreg", 1)], ids=repr
)
@pytest.mark.parametrize("backend", ["eager", "openreg"])
def test_a_context_of_a_device_is_traced(device, backend):
    def function(x):
        with torch.openreg.device(device):
            y = x * 2 + torch.openreg.current_device()
            z = torch.ones(3, device="openreg:1")
        return y + z + torch.openreg.current_device()

    x = torch.ones(3, device="openreg:1")
    fast = torch.compile(function, backend=backend, fullgraph=True)
    assert fast(x).tolist() == function(x).tolist() == [4, 4, 4]
    assert torch.openreg.current_device() == 0
    with torch.openreg.device(1):
        assert fast(x).tolist() == function(x).tolist() == [5, 5, 5]


@pytest.mark.parametrize("device", [None, "openreg", -1])
def test_a_context_without_a_device_keeps_the_current_one(device):
    def function(x):
        with torch.openreg.device(device):
            x = x + 1
            torch._dynamo.graph_break()  # the rest is compiled with the index
            return x + torch.openreg.current_device()

    fast = torch.compile(function, backend="openreg")
    for index in (0, 1, 0):
        with torch.openreg.device(index):
            assert fast(torch.zeros(1)).item() == index + 1


def ones(x):
    return torch.ones(2, device="openreg")


def moved(x):
    return x.to("openreg")


def ones_in_a_body(x):
    return checkpoint(ones, x, use_reentrant=False)


@pytest.mark.parametrize("make", [ones, moved, ones_in_a_body])
def test_a_tensor_is_made_on_the_device_of_its_context(make):
    """AOTAutograd and the cache of fake tensors would forget which one that is."""

    def function(x):
        with torch.openreg.device(1):
            return make(x)

    x = torch.ones(2)
    torch.compile(ones, backend="openreg")(x)
    assert torch.compile(function, backend="openreg")(x).device.index == 1
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match="Name the device .* device='openreg:1'"):
        compiled(function)(x)
    assert torch.openreg.current_device() == 0


def test_after_a_break_the_device_is_that_of_the_context():
    def function(x):
        with torch.openreg.device(1):
            y = x + 1
            torch._dynamo.graph_break()
            stream = torch.openreg.current_stream()
            return y, torch.ones(1, device="openreg"), stream.device_index

    y, ones, index = torch.compile(function, backend="openreg")(torch.ones(1))
    assert y.item() == 2 and ones.device.index == index == 1
    assert torch.openreg.current_device() == 0


def test_a_context_knows_the_stream_of_its_device(hold):
    side = torch.openreg.Stream(1)

    def function(x):
        with torch.openreg.device(1):
            torch.openreg.current_stream().wait_stream(side)
        return x + 1

    x = torch.ones(1, device="openreg:1")
    with pytest.raises(Unsupported, match="current stream of one device only"):
        compiled(function)(x)
    fast = torch.compile(function, backend="openreg")
    assert fast(x).item() == 2
    gate = hold(side)
    y = fast(x)
    assert not torch.openreg.current_stream(1).query()  # it waits for the side stream
    gate.open()
    assert y.item() == 2


def changes_for_good(x):
    torch.openreg.set_device(1)
    return torch.ones(1, device="openreg")


def takes_the_device_of_a_tensor(x):
    with torch.openreg.device_of(x):
        return torch.ones(1, device="openreg")


@pytest.mark.parametrize("function", [changes_for_good, takes_the_device_of_a_tensor])
@pytest.mark.filterwarnings("error")
def test_other_changes_of_the_device_break_the_graph_with_a_way_out(
    function, as_before
):
    x = torch.ones(1, device="openreg:1")
    assert torch.compile(function, backend="openreg")(x).device.index == 1
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match="change it outside of what is compiled"):
        compiled(function)(x)


def test_no_break_warns_of_names_of_cpp(run_python):
    code = """
import warnings
import torch

def function(x):
    with torch.openreg.device(None):
        return torch.ones(1, device="openreg")

with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    torch.compile(function, backend="eager")(torch.ones(1))
print(*(w.message for w in warned if "torch_openreg" in str(w.message)))
"""
    assert run_python(code) == ""


@pytest.mark.parametrize("enter", [lambda s: s, torch.openreg.stream])
def test_compiled_code_changes_its_stream(enter, hold):
    side = torch.openreg.Stream()

    def function(x):
        side.wait_stream(torch.openreg.current_stream())
        with enter(side):
            y = x * 2
        torch.openreg.current_stream(0).wait_stream(side)
        return y + 1

    fast = compiled(function)
    x = torch.ones(3, device=DEVICE)
    assert fast(x).tolist() == [3, 3, 3]
    gate = hold(side)
    y = fast(x)
    assert not torch.openreg.current_stream().query()  # it waits for the side stream
    gate.open()
    assert y.tolist() == [3, 3, 3]


def test_compiled_code_waits_for_the_device():
    def function(x):
        y = x + 1
        torch.openreg.synchronize()
        torch.openreg.synchronize("openreg:0")
        return y

    assert compiled(function)(torch.ones(2, device=DEVICE)).tolist() == [2, 2]


def test_compiled_code_waits_for_the_current_device():
    waits = []

    def record(module, inputs):
        calls = module.graph.find_nodes(
            op="call_function", target=torch.ops.streams.synchronize_device
        )
        waits.extend(call.args for call in calls)
        return module

    @torch.compile(backend=record, fullgraph=True)
    def function(x):
        torch.openreg.synchronize()
        return x + 1

    for index in (0, 1):
        with torch.openreg.device(index):
            function(torch.ones(2, device=DEVICE))
    assert waits == [("openreg", 0), ("openreg", 1)]


# --- the backend "openreg" ------------------------------------------------------


def test_the_backend_is_listed():
    assert "openreg" in torch._dynamo.list_backends()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 2))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layers(x) * self.calls


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_net_is_trained(dynamic):
    def case(device):
        net = Net().to(device)
        fast = compiled(net, dynamic=dynamic)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        losses = []
        for rows in (4, 4, 6):
            loss = fast(numbers(rows, 3, device=device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return losses, list(net.state_dict().values())

    check(case)


def test_random_numbers_are_those_of_the_device():
    layer = nn.Dropout(0.5)
    x = torch.ones(64, device=DEVICE)
    torch.manual_seed(7)
    eager = layer(x)
    torch.manual_seed(7)
    assert torch.equal(compiled(layer)(x), eager)


def test_control_flow_and_unbacked_sizes_run():
    def function(x):
        large = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return large, x.nonzero() + 1, x[1:, ::2]

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(lambda device: compiled(function)(numbers(4, 3, device=device)))


def test_memory_is_freed_after_its_last_use():
    def function(x):
        for _ in range(8):
            x = x + 1
        return x

    size = 1 << 20
    fast = compiled(function)
    fast(torch.zeros(size // 4, device=DEVICE))
    torch.openreg.reset_peak_memory_stats()
    before = torch.openreg.memory_allocated()
    fast(torch.zeros(size // 4, device=DEVICE))
    assert torch.openreg.max_memory_allocated() - before <= 3 * size


def test_graphs_can_be_looked_at_and_taken_apart():
    graphs = []
    table = torch._decomp.get_decompositions([torch.ops.aten.gelu])
    options = {"on_graph": graphs.append, "decompositions": table}
    x = numbers(4, device=DEVICE).requires_grad_()
    compiled(nn.functional.gelu, options=options)(x).sum().backward()
    assert len(graphs) == 2  # forward and backward
    calls = {node.target for graph in graphs for node in graph.graph.nodes}
    assert torch.ops.aten.erf.default in calls
    assert torch.ops.aten.gelu.default not in calls


def test_an_unknown_option_is_refused():
    with pytest.raises(Exception, match=r"unknown options \['speed'\].*'on_graph'"):
        compiled(torch.sin, options={"speed": 2})(torch.ones(1, device=DEVICE))
