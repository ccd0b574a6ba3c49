"""Defects of the first four levels: module, guard, allocator, generator."""

import torch

from .defects import defect, replace

real_storage = torch.UntypedStorage
kept = []

# --- name and module ------------------------------------------------------------


@defect("naming.has_a_module")
def there_is_no_module():
    del torch.openreg


@defect("naming.counts_devices")
def the_module_cannot_count():
    torch.openreg.device_count = lambda: 0


@defect("naming.module_has_a_current_device")
def the_current_device_has_no_index():
    torch.openreg.current_device = lambda: None


@defect("naming.tells_a_bad_fork")
def nothing_is_said_of_forks():
    del torch.openreg._is_in_bad_fork


@defect("naming.tensors_have_methods")
def tensors_were_given_no_method():
    del torch.Tensor.openreg


@defect("naming.storages_have_methods")
def storages_were_given_no_method():
    del torch.storage._StorageBase.openreg


# --- guard ----------------------------------------------------------------------


@defect("guard.counts_as_the_module")
def the_guard_counts_otherwise():
    torch.accelerator.device_count = lambda: 1


@defect("guard.starts_with_the_first_device")
def the_last_device_is_current_first():
    torch.accelerator.set_device_index(1)


@defect("guard.sets_each_device")
def set_device_does_nothing():
    torch.accelerator.set_device_index = lambda index: None


@defect("guard.puts_the_device_back")
def the_device_is_not_put_back():
    torch.accelerator.device_index.__exit__ = lambda self, *error: None


@defect("guard.puts_the_device_back")
def exchange_gives_the_new_device():
    @replace(torch._C, "_accelerator_exchangeDevice")
    def exchange(real, index):
        real(index)
        return index


@defect("guard.contexts_nest")
def exchange_always_says_zero():
    @replace(torch._C, "_accelerator_exchangeDevice")
    def exchange(real, index):
        real(index)
        return 0


@defect("guard.refuses_a_bad_index")
def a_bad_index_is_ignored():
    @replace(torch.accelerator, "set_device_index")
    def set_device_index(real, index):
        if index < torch.openreg.device_count():
            real(index)


@defect("guard.each_thread_has_its_own")
def threads_share_the_current_device():
    current = [0]
    torch.accelerator.set_device_index = lambda index: current.__setitem__(0, index)
    torch.accelerator.current_device_index = lambda: current[0]


@defect("guard.synchronizes")
def a_guard_method_is_missing():
    @replace(torch.accelerator, "synchronize")
    def synchronize(real, device=None):
        raise NotImplementedError("Backend doesn't support synchronizing all streams")


@defect("guard.has_a_current_stream")
def streams_are_the_first_devices():
    @replace(torch.accelerator, "current_stream")
    def current_stream(real, device=None):
        return real(0)


# --- allocator ------------------------------------------------------------------


@defect("memory.gives_memory")
def sizes_are_rounded_up():
    torch.UntypedStorage = lambda n, device: real_storage(
        -(-n // 512) * 512, device=device
    )


@defect("memory.gives_nothing_for_nothing")
def no_bytes_are_refused():
    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        if nbytes == 0:
            raise RuntimeError("invalid argument: size 0")
        return real(nbytes, device=device)


@defect("memory.knows_its_device")
def memory_is_the_current_devices():
    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        return real(nbytes, device=device.type)


@defect("memory.follows_the_current_device")
def memory_is_always_the_first_devices():
    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        return real(nbytes, device=torch.device(device.type, device.index or 0))


@defect("memory.blocks_do_not_overlap")
def living_memory_is_handed_out():
    blocks = {}

    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        return blocks.setdefault(nbytes, real(nbytes, device=device))


@defect("memory.blocks_are_aligned")
def blocks_are_packed():
    class Packed(real_storage):
        def data_ptr(self):
            return super().data_ptr() + 8

    torch.UntypedStorage = Packed


@defect("memory.freed_memory_is_used_again")
def the_allocator_never_frees():
    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        kept.append(real(nbytes, device=device))
        return real_storage._new_shared(0) if nbytes == 0 else kept[-1]


@defect("memory.says_when_there_is_no_more")
def out_of_memory_is_any_error():
    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        try:
            return real(nbytes, device=device)
        except torch.OutOfMemoryError as error:
            raise RuntimeError("driver error 2") from error


@defect("memory.refuses_a_device_that_is_not_there")
def missing_devices_are_the_first():
    @replace(torch, "UntypedStorage")
    def storage(real, nbytes, device):
        there = device.index is None or device.index < torch.openreg.device_count()
        return real(nbytes, device=device if there else f"{device.type}:0")


# --- generator ------------------------------------------------------------------


@defect("generator.is_the_accelerator")
def the_hooks_are_not_registered():
    torch.accelerator.current_accelerator = lambda *args, **kwargs: None


@defect("generator.is_available")
def the_hooks_count_one_device():
    torch._C._accelerator_hooks_device_count = lambda: 1


@defect("generator.makes_generators")
def generators_are_the_first_devices():
    real = torch.Generator
    torch.Generator = lambda device: real(device="openreg:0")


@defect("generator.takes_a_seed")
def seeds_have_thirty_two_bits():
    class Short(torch.Generator):
        def manual_seed(self, seed):
            super().manual_seed(seed & 0xFFFFFFFF)
            return self

    torch.Generator = Short


@defect("generator.has_a_state")
def the_state_is_not_set():
    class Stateless(torch.Generator):
        def set_state(self, state):
            return self

    torch.Generator = Stateless


@defect("generator.has_a_state")
def states_of_any_size_are_taken():
    class Careless(torch.Generator):
        def set_state(self, state):
            whole = self.get_state()
            whole[: len(state)] = state
            return super().set_state(whole)

    torch.Generator = Careless


@defect("generator.can_be_cloned")
def a_clone_starts_anew():
    class Forgetful(torch.Generator):
        def clone_state(self):
            return torch.Generator(device=self.device)

    torch.Generator = Forgetful


@defect("generator.is_seeded_by_torch")
def torch_does_not_seed_the_device():
    del torch.openreg.manual_seed_all
