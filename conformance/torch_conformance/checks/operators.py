"""Level 7: PyTorch's database of operators, on the device and on the CPU."""

import contextlib
import functools
import itertools

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..check import check
from ..expect import Failed, expect

PAGE = "operators_tools.md"
# Operators whose numbers are undefined, or one of several right answers.
WITHOUT_NUMBERS = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "geqrf",
    "linalg.eig",
    "linalg.eigh",
    "linalg.svd",
    "new_empty",
    "new_empty_strided",
    "pca_lowrank",
    "resize_",
    "resize_as_",
    "svd",
    "svd_lowrank",
}
ON_THE_CPU = ("tensor_split",)  # whose tensors of indices stay there
READS_GAPS = ("as_strided", "as_strided_copy", "as_strided_scatter")
FACTORIES = ("arange", "linspace", "logspace")  # samples name no device
TENSOR = torch.Tensor


@functools.cache
def database():
    """Name -> entry. Those of CUDA's run-time compiler are for CUDA alone."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        f"{op.name}.{op.variant_test_name}".rstrip("."): op
        for op in op_db
        if not op.name.startswith("jiterator_")
    }


def every():
    """The names of all operators."""
    return list(database())


def with_out():
    """Those that take `out=`."""
    return [name for name, op in database().items() if op.supports_out]


def with_inplace():
    """Those with a form that changes its first argument."""
    return [name for name, op in database().items() if op.get_inplace()]


def with_gradient():
    """Those that autograd goes through."""
    return [name for name, op in database().items() if op.supports_autograd]


def samples(device, op, dtypes, **options):
    """(dtype, sample) on the CPU, for the dtypes that the device and the CPU have."""
    have = [dtype for dtype in dtypes if dtype in device.dtypes]
    for dtype in have:
        if dtype in op.supported_dtypes("cpu"):
            torch.manual_seed(0)
            grad = options.get("requires_grad", False)
            found = op.sample_inputs_func(op, "cpu", dtype, grad)
            for sample in itertools.islice(found, device.settings.samples):
                yield dtype, sample


def alike(tensor, at):
    """A copy on a device, with the same strides where no two elements overlap."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.is_quantized or 0 in tensor.stride():
        return tensor.clone().to(at)
    options = {"dtype": tensor.dtype, "device": at}
    return torch.empty_strided(tensor.shape, tensor.stride(), **options).copy_(tensor)


def moved(sample, at):
    """The arguments of a sample on a device: (args, kwargs)."""

    def move(value):
        if isinstance(value, TENSOR):
            return alike(value, at).requires_grad_(value.requires_grad)
        if isinstance(value, str | torch.device) and str(value) == "cpu":
            return torch.device(at)
        return value

    return tree_map(move, ([sample.input, *sample.args], dict(sample.kwargs)))


def run(op, sample, at, function=None, **more):
    """(arguments, result) of an operator on a device; the seed is always the same."""
    args, kwargs = moved(sample, at)
    if op.name in ON_THE_CPU:
        args[1:] = sample.args
    if op.name in FACTORIES:
        kwargs["device"] = at
    torch.manual_seed(0)
    return args, (function or op.op)(*args, **kwargs, **more)


def on_the_cpu(op, sample, **options):
    """The same on the CPU; None where the CPU does not do it."""
    try:
        return run(op, sample, torch.device("cpu"), **options)
    except Exception:
        return None


@contextlib.contextmanager
def seeds_from(start):
    """Seeds the CPU; entries of the database that set a seed set another, too."""
    real = torch.manual_seed
    torch.manual_seed = lambda seed: real(seed + start)
    try:
        torch.manual_seed(0)
        yield
    finally:
        torch.manual_seed = real


def is_random(op, sample):
    """Whether another seed gives other numbers, or numbers do not matter."""
    if op.name in WITHOUT_NUMBERS:
        return True
    found = []
    for start in (1, 2):
        with seeds_from(start):
            found.append(on_the_cpu(op, sample))
    if not all(found):
        return False
    leaves = [
        [x for x in tree_leaves(result) if isinstance(x, TENSOR)] for _, result in found
    ]
    return not all(
        left.shape == right.shape and torch.allclose(left, right, equal_nan=True)
        for left, right in zip(*leaves, strict=True)
        if left.layout == torch.strided
    )


def expect_same(device, op, sample, found, expected, what):
    """Compares results leaf by leaf; of random ones dtype and shape alone."""
    left, right = tree_leaves(found), tree_leaves(expected)
    expect(len(left) == len(right), f"{what}: {len(left)} results, not {len(right)}")
    for one, other in zip(left, right, strict=True):
        try:
            expect_same_leaf(device, one, other, what)
        except Failed:
            if not is_random(op, sample):
                raise
            if isinstance(other, TENSOR):
                same = one.shape == other.shape and one.dtype == other.dtype
                expect(same, f"{what} is {one.dtype} {one.shape}, not {other.dtype}")


def expect_same_leaf(device, one, other, what):
    """Compares one result with the CPU's."""
    if not isinstance(other, TENSOR):
        if not isinstance(other, torch.device | float):
            expect(one == other, f"{what} is {one!r}, on the CPU {other!r}")
    elif other.device.type == "cpu" and other.layout == torch.strided:
        if one.device.type == "cpu":  # as on the CPU: some results always are
            expect(torch.allclose(one, other, equal_nan=True), f"{what} differs")
        else:
            plain = other.resolve_conj().resolve_neg()
            device.expect_close(one, plain, what, scale=20)


def told(sample):
    """The shapes of a sample, for messages."""
    shapes = [
        str(list(x.shape)) if isinstance(x, TENSOR) else repr(x)
        for x in tree_leaves((sample.input, sample.args, sample.kwargs))
    ]
    return f"({', '.join(shapes)[:200]})"


def expect_as_on_the_cpu(device, case, sample, which):
    """Compares one call with the CPU's, unless the CPU refuses it."""
    op = database()[case]
    expected = on_the_cpu(op, sample)
    if expected:
        what = f"{case}{told(sample)} {which}"
        found = guarded(what, lambda: run(op, sample, device.at()))
        expect_same(device, op, sample, found[1], expected[1], what)


def guarded(what, function):
    """Runs what works on the CPU, and says so where it does not on the device."""
    try:
        return function()
    except Exception as error:
        raise Failed(f"{what} raises {type(error).__name__}: {error}") from error


@check(
    call="each operator of PyTorch's op database",
    write="The operator's kernel; `torch.library.get_kernel` and docs tell which runs.",
    page=PAGE,
    cases=every,
    seconds=180,
)
def values(device, case):
    """Values, dtypes and shapes are the CPU's, within the tolerance of the dtype."""
    op = database()[case]
    dtypes = (torch.float32, torch.int64, torch.bfloat16, torch.complex64, torch.bool)
    for dtype, sample in samples(device, op, dtypes):
        expect_as_on_the_cpu(device, case, sample, f"of {dtype}")


@check(
    call="op(..., out=tensor) for each operator that has it",
    write="Write into `out` at its strides; resize it only if its shape differs.",
    page=PAGE,
    cases=with_out,
    seconds=180,
)
def out_variants(device, case):
    """`out=` writes to a tensor with strides, and keeps them."""
    op = database()[case]
    for _, sample in samples(device, op, (torch.float32,)):
        expected = on_the_cpu(op, sample)
        if not expected or not isinstance(expected[1], TENSOR):
            continue
        expected = expected[1]
        wide = torch.zeros(*expected.shape, 2, dtype=expected.dtype, device=device.at())
        out = wide[..., 0]
        what = f"{case}{told(sample)} with out="
        beside = torch.zeros(*expected.shape, 2, dtype=expected.dtype)
        host = beside[..., 0]
        if on_the_cpu(op, sample, out=host) is None or beside[..., 1].any():
            continue  # not even the CPU does it
        if not torch.allclose(host, expected, equal_nan=True):
            continue  # nor this: some of its kernels leave `out` as it was
        guarded(what, lambda s=sample, o=out: run(op, s, device.at(), out=o))
        expect(out.stride() == host.stride(), f"{what} changes the strides")
        expect_same(device, op, sample, out, expected, what)
        zeros = torch.zeros(expected.shape, dtype=expected.dtype)
        device.expect_close(wide[..., 1], zeros, f"what lies beside the {what}")


@check(
    call="x.relu_() and each operator's in-place form",
    write="The in-place kernel, or its `out` form with the input as output.",
    page=PAGE,
    cases=with_inplace,
    seconds=180,
)
def in_place(device, case):
    """In-place forms change their argument, at its address."""
    op = database()[case]
    function = op.get_inplace()
    for _, sample in samples(device, op, (torch.float32, torch.complex64)):
        expected = on_the_cpu(op, sample, function=function)
        if not expected or not isinstance(expected[1], TENSOR):
            continue
        what = f"{case}_{told(sample)}"
        call = lambda s=sample: run(op, s, device.at(), function)  # noqa: E731
        args, result = guarded(what, call)
        expect(result is args[0], f"{what} does not return its argument")
        expect_same(device, op, sample, args[0], expected[1], what)


@check(
    call="op(x.t(), y[::2]) for each operator",
    write="Kernels that honour the strides of their inputs, or make them contiguous.",
    page=PAGE,
    cases=every,
    seconds=180,
)
def strided_inputs(device, case):
    """Inputs with other strides give the same numbers."""
    op = database()[case]
    for _, sample in samples(device, op, (torch.float32,)):
        leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
        if any(isinstance(x, TENSOR) and x.layout != torch.strided for x in leaves):
            continue
        if op.name in READS_GAPS:
            continue  # what lies between the elements is anything
        expect_as_on_the_cpu(device, case, sample.noncontiguous(), "of strided inputs")


@check(
    call="x.stride() of each operator's result",
    write="Results with the strides that the CPU's have; the meta function gives them.",
    page=PAGE,
    cases=every,
    seconds=180,
)
def results_have_the_cpus_layout(device, case):
    """Results have the CPU's strides, and share memory with inputs where its do."""
    op = database()[case]

    def layout(arguments, result):
        inputs = [x for x in tree_leaves(arguments) if isinstance(x, TENSOR)]
        owned = {
            x.untyped_storage()._cdata for x in inputs if x.layout == torch.strided
        }
        return [
            (x.stride(), x.untyped_storage()._cdata in owned)
            for x in tree_leaves(result)
            if isinstance(x, TENSOR) and x.layout == torch.strided and x.numel()
        ]

    for _, sample in samples(device, op, (torch.float32,)):
        expected = on_the_cpu(op, sample)
        if expected:
            what = f"{case}{told(sample)}"
            found = guarded(what, lambda s=sample: run(op, s, device.at()))
            left, right = layout(*found), layout(*expected)
            expect(
                left == right or (len(left) != len(right) and is_random(op, sample)),
                f"{what} has (strides, shares memory) {left}, on the CPU {right}",
            )


def shapes(result):
    """Dtype and shape of each tensor of a result."""
    leaves = [x for x in tree_leaves(result) if isinstance(x, TENSOR)]
    return [(x.dtype, list(x.shape)) for x in leaves]


@check(
    call="op on torch.device('meta')",
    write="Shapes and dtypes as the meta function computes them: torch.compile relies"
    " on it.",
    page=PAGE,
    cases=every,
    seconds=180,
)
def agrees_with_meta(device, case):
    """Shapes and dtypes are those that the meta function foretells."""
    op = database()[case]
    for _, sample in samples(device, op, (torch.float32,)):
        try:
            expected = run(op, sample, torch.device("meta"))[1]
        except Exception:
            continue  # depends on data, or has no meta function
        host = on_the_cpu(op, sample)
        if not host or shapes(host[1]) != shapes(expected):
            continue  # not even on the CPU
        what = f"{case}{told(sample)}"
        found = shapes(guarded(what, lambda s=sample: run(op, s, device.at()))[1])
        expect(
            found == shapes(expected),
            f"{what} is {found}, the meta function says {shapes(expected)}",
        )


@check(
    call="backward() through each operator",
    write="The kernel of the operator's backward formula.",
    page=PAGE,
    cases=with_gradient,
    seconds=180,
)
def gradients(device, case):
    """Gradients are the CPU's."""
    op = database()[case]

    def differentiate(arguments, result):
        outputs = [x for x in tree_leaves(result) if isinstance(x, TENSOR)]
        outputs = [x for x in outputs if x.requires_grad and x.numel()]
        inputs = [x for x in tree_leaves(arguments) if isinstance(x, TENSOR)]
        inputs = [x for x in inputs if x.requires_grad and x.is_leaf]
        if not outputs or not inputs:
            return None
        total = sum(x.abs().sum() for x in outputs)
        return torch.autograd.grad(total, inputs, allow_unused=True)

    for _, sample in samples(device, op, (torch.float32,), requires_grad=True):
        expected = on_the_cpu(op, sample)
        if not expected:
            continue
        try:
            expected = differentiate(*expected)
        except Exception:
            continue  # nothing that the CPU differentiates
        if expected:
            what = f"the gradient of {case}{told(sample)}"
            found = guarded(
                what, lambda s=sample: differentiate(*run(op, s, device.at()))
            )
            expect_same(device, op, sample, found, expected, what)
