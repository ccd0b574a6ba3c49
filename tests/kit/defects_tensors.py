"""Defects of levels 5 and 6: tensors, copies, operators, gradients."""

import torch

from .defects import defect, kernel

# --- tensors --------------------------------------------------------------------


@defect("tensors.empty_makes_tensors")
def every_tensor_is_of_floats():
    @kernel("empty.memory_format")
    def empty(real, size, dtype=None, **options):
        return real(size, dtype=torch.float32, **options)


@defect("tensors.empty_makes_tensors")
def the_default_dtype_is_fixed():
    @kernel("empty.memory_format")
    def empty(real, size, dtype=None, **options):
        return real(size, dtype=dtype or torch.float32, **options)


@defect("tensors.empty_honours_memory_formats")
def memory_formats_are_ignored():
    @kernel("empty.memory_format")
    def empty(real, size, memory_format=None, **options):
        return real(size, **options)


@defect("tensors.empty_strided_keeps_strides")
def strides_are_ignored():
    @kernel("empty_strided")
    def empty_strided(real, size, stride, **options):
        return torch.empty(size, **options)


@defect("tensors.empty_follows_the_device")
def tensors_are_on_the_first_device():
    @kernel("empty.memory_format")
    def empty(real, size, device=None, **options):
        return real(size, device=torch.device("openreg:0"), **options)


@defect("tensors.empty_follows_the_device")
def the_device_of_a_tensor_stays_current():
    @kernel("empty.memory_format")
    def empty(real, size, device=None, **options):
        torch.accelerator.set_device_index(device.index)
        return real(size, device=device, **options)


@defect("tensors.views_have_the_cpus_strides")
def views_lose_their_offset():
    @kernel("as_strided")
    def as_strided(real, self, size, stride, storage_offset=None):
        return real(self, size, stride, 0)


@defect("tensors.writes_through_views")
def fill_ignores_the_offset():
    @kernel("fill_.Scalar")
    def fill(real, self, value):
        real(torch.as_strided(self, self.shape, self.stride(), 0), value)
        return self


@defect("tensors.set_shares_a_storage")
def set_ignores_the_offset():
    @kernel("set_.source_Storage_storage_offset")
    def set_(real, self, source, storage_offset, size, stride=()):
        return real(self, source, 0, size, stride)


@defect("tensors.set_shares_a_storage")
def set_takes_storages_of_the_cpu():
    @kernel("set_.source_Storage")
    def set_(real, self, source):
        return real(self, source.openreg())


@defect("tensors.resize_keeps_the_bytes")
def resize_forgets_the_bytes():
    @kernel("resize_")
    def resize(real, self, size, memory_format=None):
        return real(self, size).zero_()


@defect("tensors.items_reach_python")
def items_are_zero():
    @kernel("_local_scalar_dense")
    def item(real, self):
        return 0


@defect("tensors.factories_fill")
def arange_begins_at_zero():
    @kernel("arange.start_out")
    def arange(real, start, end, step=1, *, out):
        return real(0, end - start, step, out=out)


# --- copies ---------------------------------------------------------------------


def copy_bytes(real, source, target):
    """A copy that takes both sides for packed."""
    return real(
        source.as_strided(source.shape, torch.empty(source.shape).stride()),
        target.as_strided(target.shape, torch.empty(target.shape).stride()),
        False,
    )


@defect("copies.strided_both_ways")
def copies_take_tensors_for_packed():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        if 0 in source.stride() or source.device == target.device:
            return real(source, target, non_blocking)
        copy_bytes(real, source, target)
        return target


@defect("copies.strided_both_ways")
def packed_parts_lose_their_offset():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        packed = source.is_contiguous() and target.is_contiguous()
        if packed and source.device.type == "openreg":
            source = source.as_strided(source.shape, source.stride(), 0)
        return real(source, target, non_blocking)


@defect("copies.clones_keep_strides")
def clones_are_packed():
    @kernel("clone")
    def clone(real, self, memory_format=None):
        return real(self, memory_format=torch.contiguous_format)


@defect("copies.there_and_back")
def copies_to_the_host_go_the_other_way():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        real(*((target, source) if target.is_cpu else (source, target)))
        return target


@defect("copies.converts_dtypes")
def copies_round_where_the_cpu_truncates():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        if source.is_floating_point() and not target.is_floating_point():
            source = source.round()
        return real(source, target, non_blocking)


@defect("copies.there_and_back")
def copies_go_through_half_precision():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        if source.is_cpu and source.dtype == torch.float32:
            source = source.half().float()
        return real(source, target, non_blocking)


@defect("copies.resolves_lazy_bits")
def conjugation_is_lost():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        lost = source.is_conj() and target.is_cpu
        real(source, target, non_blocking)
        if lost:
            torch.view_as_real(target)[..., 1].neg_()
        return target


@defect("copies.nothing_at_all")
def copies_of_nothing_are_refused():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        if source.numel() == 0:
            raise RuntimeError("invalid argument: 0 bytes")
        return real(source, target, non_blocking)


@defect("copies.between_devices")
def peer_copies_do_nothing():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        if source.is_cpu or target.is_cpu or source.device == target.device:
            return real(source, target, non_blocking)
        return target


# --- operators ------------------------------------------------------------------


@defect("fallback.runs_operators")
def add_forgets_alpha():
    @kernel("add.Tensor")
    def add(real, self, other, alpha=1):
        return real(self, other)


@defect("fallback.writes_in_place")
def out_is_taken_for_packed():
    @kernel("sub.out")
    def sub(real, self, other, alpha=1, *, out):
        real(
            self, other, out=out.as_strided(out.shape, torch.empty(out.shape).stride())
        )
        return out


@defect("fallback.takes_lists")
def cat_forgets_the_dimension():
    @kernel("cat")
    def cat(real, tensors, dim=0):
        return real(tensors, 0)


@defect("fallback.gives_several_results")
def topk_gives_the_smallest():
    @kernel("topk")
    def topk(real, self, k, dim=-1, largest=True, sorted=True):
        return real(self, k, dim, False, sorted)


@defect("fallback.mixes_with_numbers")
def numbers_must_be_on_the_device():
    @kernel("add.Tensor")
    def add(real, self, other, alpha=1):
        if other.is_cpu:
            raise RuntimeError("expected all tensors to be on the device")
        return real(self, other, alpha=alpha)


@defect("fallback.indexes")
def a_mask_counts_as_numbers():
    @kernel("index.Tensor")
    def index(real, self, indices):
        return real(self, [i if i is None else i.long() for i in indices])


@defect("fallback.makes_shapes_of_data")
def nonzero_is_padded():
    @kernel("nonzero")
    def nonzero(real, self):
        found = real(self)
        rows = found.new_zeros(self.numel() - len(found), self.dim())
        return torch.cat([found, rows])


@defect("fallback.takes_optional_tensors")
def layer_norm_forgets_its_weight():
    @kernel("native_layer_norm")
    def layer_norm(real, self, shape, weight, bias, eps):
        return real(self, shape, None, bias, eps)


@defect("fallback.has_every_dtype")
def sums_are_of_single_precision():
    @kernel("add.Tensor")
    def add(real, self, other, alpha=1):
        return real(self, other, alpha=alpha).float()


@defect("fallback.draws_from_its_generator")
def the_generator_is_ignored():
    @kernel("uniform_")
    def uniform(real, self, begin=0, end=1, generator=None):
        return real(self, begin, end)


@defect("fallback.each_device_draws_its_own")
def one_device_is_seeded():
    torch.openreg.manual_seed_all = torch.openreg.default_generators[0].manual_seed


@defect("fallback.each_device_draws_its_own")
def devices_share_a_generator():
    @kernel("uniform_")
    def uniform(real, self, begin=0, end=1, generator=None):
        return self.copy_(real(torch.empty_like(self, device="openreg:0"), begin, end))


@defect("fallback.runs_on_each_device")
def products_are_on_the_current_device():
    @kernel("mm")
    def mm(real, self, other):
        return real(self, other).to(torch.device("openreg", 0))


@defect("fallback.numbers_are_random")
def uniform_numbers_are_large():
    @kernel("uniform_")
    def uniform(real, self, begin=0, end=1, generator=None):
        return real(self, begin, end, generator=generator).sqrt_()


# --- gradients ------------------------------------------------------------------


@defect("autograd.runs_backward")
def relu_has_a_wrong_gradient():
    @kernel("threshold_backward")
    def backward(real, grad, self, threshold):
        return grad.clone()


@defect("training.perceptron")
def layer_norm_has_a_wrong_gradient():
    @kernel("native_layer_norm_backward")
    def backward(real, *args):
        x, *rest = real(*args)
        return (x * 2, *rest)


@defect("training.embedding")
def embeddings_have_a_wrong_gradient():
    @kernel("embedding_dense_backward")
    def backward(real, grad, indices, *args):
        return real(grad, torch.zeros_like(indices), *args)


@defect("training.optimizers")
def a_fused_step_is_wrong():
    @kernel("_foreach_addcdiv_.ScalarList")
    def addcdiv(real, self, *args):
        for tensor in self:
            tensor.add_(1)
