"""Forks: fine before the first use, a clear sentence afterwards."""

from pathlib import Path

import pytest

REFUSED = (
    "RuntimeError: Cannot re-initialize OpenReg in forked subprocess. To use OpenReg "
    "with multiprocessing, you must use the 'spawn' start method"
)
ADD = "(torch.ones(2, device='openreg:1') + 1).tolist()"
ADDED = "[2.0, 2.0]"

USES = {
    "a call of init": "m.init()",
    "work in a stream": "m._sleep(0); m.synchronize()",
    "work queued around torch.openreg": (
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from gate import Gate\n"
        "stream = torch.Stream(device='openreg')\n"
        "gate = Gate(stream); gate.open(); stream.synchronize()"
    ),
    "a tensor": "x = torch.ones(2, device='openreg')",
}


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
def test_a_child_forked_before_the_first_use_has_the_device(before, fork_python):
    assert fork_python([ADD], before) == [ADDED]


def test_parent_and_children_all_use_the_device(fork_python):
    after = f"assert {ADD} == {ADDED}"
    assert fork_python([ADD, ADD], after=after) == [ADDED, ADDED]


def test_a_child_keeps_the_seed_it_was_forked_with(fork_python):
    assert fork_python(["m.initial_seed()"], "m.manual_seed(5)") == ["5"]


# --- afterwards ---------------------------------------------------------------


@pytest.mark.parametrize("use", USES)
def test_a_tensor_in_a_child_is_refused(use, fork_python):
    tensors = [
        "torch.empty(2, device='openreg')",
        "torch.tensor([1.0], device='openreg')",
        "torch.ones(2).to('openreg')",
    ]
    assert fork_python(tensors, USES[use]) == [REFUSED] * 3


NEEDS_DEVICE = [
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
]


@pytest.mark.parametrize("expression", NEEDS_DEVICE)
def test_the_module_refuses_work_in_a_child(expression, fork_python):
    told = fork_python(NEEDS_DEVICE, USES["work in a stream"])
    assert told[NEEDS_DEVICE.index(expression)] == REFUSED


NEEDS_NO_DEVICE = {
    "m._is_in_bad_fork()": "True",
    "m.is_initialized()": "False",
    "m.is_available()": "True",
    "m.device_count()": "2",
    "torch.accelerator.current_accelerator()": "openreg",
    "m.memory_allocated()": "0",
    "m.empty_cache()": "None",
    "m.manual_seed(1)": "None",
    "m.seed_all()": "None",
    "m.set_rng_state(None)": "None",
    "torch.manual_seed(1).initial_seed()": "1",
    "(torch.ones(2) + 1).tolist()": "[2.0, 2.0]",
}


@pytest.mark.parametrize("expression", NEEDS_NO_DEVICE)
def test_what_needs_no_device_works_in_a_child(expression, fork_python):
    told = fork_python(NEEDS_NO_DEVICE, USES["work in a stream"])
    told = dict(zip(NEEDS_NO_DEVICE, told, strict=True))
    assert told[expression] == NEEDS_NO_DEVICE[expression]


def test_a_tensor_of_the_parent_cannot_be_used_in_a_child(fork_python):
    told = fork_python(["x.cpu()", "x + 1", "x.sum().item()"], USES["a tensor"])
    for text in told:
        assert text.startswith("AcceleratorError: OpenReg error: initialization error")


def test_a_tensor_of_the_parent_tells_its_shape_in_a_child(fork_python):
    expression = "(list(x.shape), str(x.device))"
    assert fork_python([expression], USES["a tensor"]) == ["([2], 'openreg:0')"]


def test_a_child_drops_what_it_was_forked_with_in_silence(fork_python):
    before = USES["a tensor"] + "; e = m.Stream().record_event()"
    drop = "globals().pop('x') is globals().pop('e')"
    assert fork_python([drop], before) == ["False"]


def test_the_parent_goes_on_after_a_fork(fork_python):
    after = "assert not m._is_in_bad_fork() and (x + 1).tolist() == [2, 2]"
    assert fork_python(["m._is_in_bad_fork()"], USES["a tensor"], after) == ["True"]


def test_a_child_of_a_child_is_refused_too(fork_python):
    # The grandchild has the pipe, too, and is the one that tells.
    expression = "os._exit(0) if os.fork() else m.init()"
    assert fork_python([expression], USES["a call of init"]) == [REFUSED]
