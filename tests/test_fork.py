"""Forks: fine before the first use, a clear sentence afterwards."""

import pytest

REFUSED = (
    "RuntimeError: Cannot re-initialize OpenReg in forked subprocess. To use OpenReg "
    "with multiprocessing, you must use the 'spawn' start method"
)

# The child tells through a pipe what became of an expression; a child that hangs
# is ended by the alarm, one that dies says nothing.
FORK = """
import os, signal, torch
m = torch.openreg
{before}
read, write = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(30)
    try:
        told = str({expression})
    except Exception as error:
        told = f"{{type(error).__name__}}: {{error}}"
    os.write(write, told.encode())
    os._exit(0)
os.close(write)
print(os.read(read, 1 << 16).decode())
assert os.waitpid(child, 0)[1] == 0
{after}
"""

USES = {
    "a call of init": "m.init()",
    "work in a stream": "m._sleep(0); m.synchronize()",
    # Neither goes through torch.openreg.
    "a generic stream": "torch.Stream(device='openreg').record_event().synchronize()",
    "a tensor": "x = torch.ones(2, device='openreg')",
}


@pytest.fixture
def fork(run_python):
    def run(expression, before="", after=""):
        code = FORK.format(expression=expression, before=before, after=after)
        return run_python(code)

    return run


# --- before the first use -----------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        "",
        "m.is_available(), m.device_count(), m.is_initialized()",
        "torch.manual_seed(1), m.manual_seed(2), m.seed_all(), m.default_generators",
        "torch.accelerator.is_available(), torch.accelerator.current_accelerator()",
        "torch.device('openreg:1'), m.Event(), m.memory_allocated()",
    ],
)
def test_a_child_forked_before_the_first_use_has_the_device(before, fork):
    told = fork("torch.ones(2, device='openreg:1').sum().item()", before)
    assert told == "2.0"


def test_parent_and_child_both_use_the_device(fork):
    told = fork(
        "torch.ones(2, device='openreg').sum().item()",
        after="assert torch.ones(3, device='openreg').sum().item() == 3",
    )
    assert told == "2.0"


def test_a_child_keeps_the_seed_it_was_forked_with(fork):
    assert fork("m.initial_seed()", "m.manual_seed(5)") == "5"


# --- afterwards ---------------------------------------------------------------


@pytest.mark.parametrize("before", USES.values(), ids=USES)
@pytest.mark.parametrize(
    "expression",
    [
        "torch.empty(2, device='openreg')",
        "torch.tensor([1.0], device='openreg')",
        "torch.ones(2).to('openreg')",
    ],
)
def test_a_tensor_in_a_child_is_refused(expression, before, fork):
    assert fork(expression, before) == REFUSED


@pytest.mark.parametrize(
    "expression",
    [
        "m.init()",
        "m._lazy_init()",
        "m.current_device()",
        "m.set_device(0)",
        "m.device(None)",
        "m.device(1).__enter__()",
        "m.synchronize()",
        "m.Stream()",
        "m.ExternalStream(1)",
        "m.current_stream()",
        "m.default_stream()",
        "m._sleep(1)",
        "m.get_rng_state()",
        "m.initial_seed()",
        "m.mem_get_info()",
        "m.get_device_properties()",
        "m.can_device_access_peer(0, 1)",
    ],
)
def test_the_module_refuses_work_in_a_child(expression, fork):
    assert fork(expression, USES["work in a stream"]) == REFUSED


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("m._is_in_bad_fork()", "True"),
        ("m.is_initialized()", "False"),
        ("m.is_available()", "True"),
        ("m.device_count()", "2"),
        ("torch.accelerator.current_accelerator()", "openreg"),
        ("m.memory_allocated()", "0"),
        ("m.empty_cache()", "None"),
        ("m.manual_seed(1)", "None"),
        ("m.seed_all()", "None"),
        ("m.set_rng_state(None)", "None"),
        ("torch.manual_seed(1).initial_seed()", "1"),
        ("(torch.ones(2) + 1).tolist()", "[2.0, 2.0]"),
    ],
)
def test_what_needs_no_device_works_in_a_child(expression, told, fork):
    assert fork(expression, USES["work in a stream"]) == told


@pytest.mark.parametrize("expression", ["x.cpu()", "x + 1", "x.sum().item()"])
def test_a_tensor_of_the_parent_cannot_be_used_in_a_child(expression, fork):
    told = fork(expression, USES["a tensor"])
    assert told.startswith("AcceleratorError: OpenReg error: initialization error")


def test_a_tensor_of_the_parent_tells_its_shape_in_a_child(fork):
    expression = "(list(x.shape), str(x.device))"
    assert fork(expression, USES["a tensor"]) == "([2], 'openreg:0')"


def test_a_child_drops_what_it_was_forked_with_in_silence(fork):
    before = USES["a tensor"] + "; e = m.Stream().record_event()"
    assert fork("[x := None, e := None]", before) == "[None, None]"


def test_the_parent_goes_on_after_a_fork(fork):
    fork(
        "m._is_in_bad_fork()",
        USES["a tensor"],
        after="assert not m._is_in_bad_fork() and (x + 1).sum().item() == 4",
    )


def test_a_child_of_a_child_is_refused_too(fork):
    expression = "os._exit(0) if os.fork() else m.init()"
    # The grandchild holds the pipe's other end, and is the one that tells.
    assert fork(expression, USES["a call of init"]) == REFUSED
