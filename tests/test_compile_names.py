"""What torch.compile says on the device if a PyTorch lacks a name that is replaced
there, or calls something else."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_openreg import _names

SENTENCE = "torch_openreg cannot compile with torch .*: "


def test_a_method_that_pytorch_would_never_call_is_reported():
    with pytest.raises(ImportError, match=rf"{SENTENCE}.*Linear.forwards is no more"):

        @_names.overrides(nn.Linear)
        class Ours(nn.Linear):
            weight_of_ours = 1  # no method

            def reset_parameters(self):
                pass

            def forwards(self, x):
                pass


def test_code_of_another_form_is_reported():
    assert _names.swap("f(x, f(x))", "f(x", "g(x") == "g(x, f(x))"
    with pytest.raises(
        ImportError, match=rf"{SENTENCE}'h\(' in the code .* is no more"
    ):
        _names.swap("f(x)", "h(", "g(")


def test_an_attribute_that_is_read_or_set_is_missed():
    linear = nn.Linear(1, 1)
    _names.require(linear, "weight", "bias")
    with pytest.raises(ImportError, match=rf"{SENTENCE}.*Linear.weights is no more"):
        _names.require(linear, "bias", "weights")


@pytest.mark.filterwarnings("ignore")
def test_all_attributes_that_the_shorter_way_uses_are_asked_for():
    from torch_openreg.inductor import _again

    source = Path(_again.__file__).read_text()
    assert {*re.findall(r"\bmanager\.(\w+)", source)} == {*_again._OF_MANAGER}
    assert {*re.findall(r"\b(?:node|last)\.(\w+)", source)} == {*_again._OF_NODE}


@pytest.mark.filterwarnings("ignore")
def test_tensors_are_not_made_elsewhere_in_silence():
    """Where Inductor writes another call than the one that is replaced."""
    setting = {"test_configs.track_memory_lifecycle": "log"}
    torch._dynamo.reset()
    with (
        torch._inductor.config.patch(setting),
        pytest.raises(Exception, match="'empty_strided_cpu\\(' in the code"),
    ):
        torch.compile(lambda x: x * 3 + 7)(torch.ones(3, device="openreg"))


# Each child misses one of the names, in the order in which they are replaced. A method
# that is there in a base class too is not missed, but overridden.
MISSING = """
import os, sys
import torch._inductor.lowering
from torch_openreg import _names

assert "torch_openreg.inductor" not in sys.modules
original, names = _names.replace, []

def load(missing):
    def replace(owner, name, make):
        names.append(name)
        if len(names) == missing:
            if name in vars(owner):
                delattr(owner, name)
            if hasattr(owner, name):
                print("of a base class", name)
        original(owner, name, make)

    _names.replace = replace
    import torch._inductor.compile_fx
    import torch._inductor.cudagraph_trees

for missing in range(1, 30):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            load(missing)
        except ImportError as error:
            print(error)
        if len(names) < missing:
            print("all there")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_each_name_that_is_replaced_is_missed_when_the_compiler_is_loaded(run_python):
    told = run_python(MISSING, timeout=200).splitlines()
    assert told[-1] == "all there"
    refused = [line for line in told if re.match(f"{SENTENCE}.* is no more. Use", line)]
    inherited = [line.split()[-1] for line in told if line.startswith("of a base")]
    assert inherited == ["__init__", "get_attr", "__init__", "post_compile"]
    assert len({*refused}) == len(refused) == 16
    assert len(told) - told.count("all there") == len(refused) + len(inherited)
