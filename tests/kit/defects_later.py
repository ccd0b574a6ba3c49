"""Defects from level 7 on: operators, streams, memory, files, and the contract."""

import threading

import torch

from .defects import defect, kernel, replace

# --- operators ------------------------------------------------------------------


@defect("operators.values[sinc]")
def sinc_of_zero_is_zero():
    @kernel("sinc")
    def sinc(real, self):
        return real(self).masked_fill(self.abs() < 1, 0)


@defect("operators.out_variants[maximum]")
def maximum_is_taken_for_packed():
    @kernel("maximum.out")
    def maximum(real, self, other, *, out):
        real(
            self, other, out=out.as_strided(out.shape, torch.empty(out.shape).stride())
        )
        return out


@defect("operators.in_place[tanh]")
def tanh_in_place_returns_another():
    @kernel("tanh_")
    def tanh(real, self):
        real(self).add_(1)
        return self


@defect("operators.strided_inputs[exp]")
def exp_takes_its_input_for_packed():
    @kernel("exp")
    def exp(real, self):
        packed = torch.empty(self.shape, device="meta").stride()
        return real(self.as_strided(self.shape, packed))


@defect("operators.results_have_the_cpus_layout[triu]")
def results_are_transposed():
    @kernel("triu")
    def triu(real, self, diagonal=0):
        found = real(self, diagonal)
        if found.dim() < 2:
            return found
        return found.mT.contiguous().mT


@defect("operators.agrees_with_meta[argmax]")
def argmax_gives_small_integers():
    @kernel("argmax")
    def argmax(real, self, dim=None, keepdim=False):
        return real(self, dim, keepdim).int()


@defect("operators.gradients[sigmoid]")
def sigmoid_has_a_wrong_gradient():
    @kernel("sigmoid_backward")
    def backward(real, grad, output):
        return grad * output


@defect("overrideable.convolution")
def convolutions_are_not_overridden():
    @kernel("convolution_overrideable")
    def convolution(real, *args):
        raise NotImplementedError("convolution_overrideable not implemented")


# --- streams --------------------------------------------------------------------


def change(name, **methods):
    """Puts a subclass with other methods in the place of torch.Stream or torch.Event,
    which cannot be changed themselves."""
    setattr(torch, name, type(name, (getattr(torch, name),), methods))


@defect("streams.can_be_made_current")
def streams_are_not_put_back():
    change("Stream", __exit__=lambda self, *error: None)


@defect("streams.waits_for_an_event")
def waiting_for_events_does_nothing():
    change("Stream", wait_event=lambda self, event: None)


@defect("streams.waits_for_an_event")
def events_are_recorded_in_the_default_stream():
    record, default = torch.Event.record, torch.openreg.default_stream()
    change("Event", record=lambda self, stream: record(self, default))


@defect("streams.one_stream_is_in_order")
def items_are_read_early():
    side = torch.Stream(device="openreg")

    @kernel("_local_scalar_dense")
    def item(real, self):
        with side:
            return real(self)


@defect("streams.waits_for_a_stream")
def waiting_for_streams_does_nothing():
    change("Stream", wait_stream=lambda self, stream: None)


@defect("streams.says_when_it_is_done")
def streams_are_always_done():
    change("Stream", query=lambda self: True)


@defect("streams.events_complete")
def events_are_always_done():
    change("Event", query=lambda self: True)


@defect("streams.events_measure_time")
def every_time_is_the_same():
    change("Event", elapsed_time=lambda self, other: 0.5)


@defect("streams.the_device_waits_for_all")
def one_stream_is_waited_for():
    @replace(torch.accelerator, "synchronize")
    def synchronize(real, device=None):
        torch.accelerator.current_stream().synchronize()


# --- memory ---------------------------------------------------------------------


@defect("caching.record_stream_delays_reuse")
def record_stream_is_dropped():
    @kernel("record_stream")
    def record_stream(real, self, stream):
        pass


@defect("caching.blocks_stay_with_their_stream")
def blocks_belong_to_the_default_stream():
    @kernel("empty.memory_format")
    def empty(real, *args, **options):
        with torch.openreg.default_stream():
            return real(*args, **options)


@defect("caching.totals_start_again")
def totals_are_not_reset():
    torch.accelerator.reset_accumulated_memory_stats = lambda *device: None


@defect("caching.allocated_bytes_come_and_go")
def frees_are_not_counted():
    highest = [0]

    @replace(torch.accelerator, "memory_allocated")
    def memory_allocated(real, *device):
        highest[0] = max(highest[0], real(*device))
        return highest[0]


@defect("caching.figures_are_per_device")
def figures_are_of_one_device():
    @replace(torch.accelerator, "memory_allocated")
    def memory_allocated(real, *device):
        return real(0)


@defect("caching.peaks_are_kept")
def the_peak_is_not_reset():
    torch.accelerator.reset_peak_memory_stats = lambda *device: None


@defect("caching.the_cache_can_be_emptied")
def the_cache_is_not_emptied():
    torch.accelerator.empty_cache = lambda: None


@defect("caching.a_freed_block_is_used_again")
def nothing_is_cached():
    kept = []

    @kernel("empty.memory_format")
    def empty(real, *args, **options):
        kept.append(real(*args, **options))
        return kept[-1]


@defect("caching.knows_the_capacity")
def the_capacity_is_unknown():
    torch.accelerator.get_memory_info = lambda *device: (0, 0)


@defect("pinned.copies_are_in_stream_order")
def copies_have_a_stream_of_their_own():
    side = torch.Stream(device="openreg")

    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        if not non_blocking:
            return real(source, target, non_blocking)
        with side:
            return real(source, target, non_blocking)


@defect("pinned.blocking_copies_are_finished")
def copies_never_block():
    @kernel("_copy_from")
    def copy(real, source, target, non_blocking=False):
        return real(source, target, True)


@defect("pinned.tells_pinned_from_other")
def all_memory_is_pinned():
    torch.Tensor.is_pinned = lambda self, *device: True


# --- precision, files -----------------------------------------------------------


@defect("amp.names_its_dtypes")
def autocast_has_no_dtypes():
    torch.openreg.get_amp_supported_dtype = lambda: []


@defect("amp.names_its_dtypes")
def autocast_names_single_precision():
    torch.openreg.get_amp_supported_dtype = lambda: [torch.float32]


@defect("amp.products_are_of_low_precision")
def autocast_casts_nothing():
    torch.set_autocast_enabled = lambda *args: None


@defect("amp.scales_gradients")
def infinite_gradients_are_not_found():
    @kernel("_amp_foreach_non_finite_check_and_unscale_")
    def unscale(real, tensors, found, scale):
        real(tensors, found, scale)
        found.zero_()


@defect("saving.random_states_are_kept")
def the_random_state_is_not_set():
    torch.openreg.set_rng_state = lambda *args, **kwargs: None


@defect("saving.pickles")
def files_name_the_first_device():
    @replace(torch.serialization, "location_tag")
    def location_tag(real, storage):
        return real(storage).replace(":1", ":0")


# --- graphs, compiling, ranks ---------------------------------------------------


@defect("graphs.replays_with_new_inputs")
def replays_do_nothing():
    torch.accelerator.Graph.replay = lambda self: None


@defect("graphs.capture_runs_nothing")
def captures_run_at_once():
    torch.accelerator.Graph.__enter__ = lambda self: None
    torch.accelerator.Graph.__exit__ = lambda self, *error: None


@defect("compiling.dynamo_knows_the_device")
def dynamo_counts_one_device():
    from torch._dynamo.device_interface import get_interface_for_device

    get_interface_for_device("openreg").device_count = staticmethod(lambda: 1)


@defect("distributed.the_device_has_a_backend")
def no_backend_is_registered():
    del torch.distributed.Backend.default_device_backend_map["openreg"]


# --- the contract ---------------------------------------------------------------


@defect("contract.the_module_agrees")
def the_module_names_the_first_device():
    torch.openreg.current_device = lambda: 0


@defect("errors.other_generators_are_refused")
def generators_are_not_compared():
    @kernel("uniform_")
    def uniform(real, self, begin=0, end=1, generator=None):
        return real(self, begin, end)


@defect("contract.every_function_answers")
def the_capability_is_not_told():
    @replace(torch.accelerator, "get_device_capability")
    def capability(real, device=None):
        raise NotImplementedError("Backend doesn't support getting capability")


@defect("errors.the_cpus_tensors_are_refused")
def tensors_of_the_cpu_are_copied():
    @kernel("add.Tensor")
    def add(real, self, other, alpha=1):
        return real(self, other.to(self.device), alpha=alpha)


@defect("errors.other_devices_tensors_are_refused")
def tensors_of_other_devices_are_copied():
    @kernel("mm")
    def mm(real, self, other):
        return real(self, other.to(self.device))


@defect("errors.missing_devices_are_told")
def generators_of_missing_devices():
    real = torch.Generator
    torch.Generator = lambda device="cpu": real(device="openreg:0")


@defect("threads.compute_at_once")
def kernels_share_a_buffer():
    shared, lock = [], threading.Lock()

    @kernel("mm")
    def mm(real, self, other):
        with lock:
            shared.append(real(self, other))
        return shared[0]
