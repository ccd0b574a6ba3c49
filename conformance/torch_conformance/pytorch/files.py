"""Which of PyTorch's test files are for any device, and in what order they help most."""

import fnmatch
import re

# What a new backend learns most from, first; the others follow by name.
FIRST = (
    "test_view_ops.py",
    "test_tensor_creation_ops.py",
    "test_indexing.py",
    "test_shape_ops.py",
    "test_type_promotion.py",
    "test_unary_ufuncs.py",
    "test_binary_ufuncs.py",
    "test_reductions.py",
    "test_sort_and_select.py",
    "test_scatter_gather_ops.py",
    "test_linalg.py",
    "test_torch.py",
    "test_nn.py",
    "test_modules.py",
    "test_optim.py",
    "test_ops.py",
    "test_ops_gradients.py",
    "test_autograd.py",
)
# Of other devices, other machines or the build, by the name of the file.
EXCLUDED = {
    "test_cuda*": "calls torch.cuda",
    "test_xpu*": "calls torch.xpu",
    "test_mps*": "calls torch.mps",
    "test_jit*": "needs TorchScript's own runner",
    "test_quantization*": "needs engines of the CPU",
    "test_cpp_extensions*": "builds extensions",
}
# That are made for any device, but hold on the CPU and on CUDA alone.
EXCLUDED_TESTS = {
    "test_sort_and_select.py::*test_stable_sort_against_numpy*": "indexes with tensors"
    " of the CPU on all devices but CUDA",
}
GENERIC = re.compile(r"\binstantiate_device_type_tests\(")


def excluded(name, patterns):
    """The reason why a file or a test is left out; None if it is not."""
    found = (why for pattern, why in patterns.items() if fnmatch.fnmatch(name, pattern))
    return next(found, None)


def find(folder, wanted=()):
    """The test files for any device, in the order to run them."""
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.py"))
    generic = [
        path
        for path in paths
        if GENERIC.search(path.read_text(errors="replace"))
        and not excluded(path.name, EXCLUDED)
        and (not wanted or path.name in wanted)
    ]
    rank = {name: number for number, name in enumerate(FIRST)}
    return sorted(
        generic, key=lambda path: (rank.get(path.name, len(FIRST)), path.name)
    )
