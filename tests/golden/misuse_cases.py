"""Wrong uses of the device: what is raised, if anything, and when."""

import misuse_broken
import misuse_check
import misuse_generator
import misuse_host
import misuse_index
import misuse_mix
import misuse_size
import misuse_stream
import torch
from misuse import DEVICE, asked, described, m, x
from observer import attempt, case, in_child

for group in (
    misuse_check,
    misuse_generator,
    misuse_host,
    misuse_index,
    misuse_mix,
    misuse_size,
    misuse_stream,
):

    @case("misuse", group.__name__.removeprefix("misuse_"))
    def _(o, calls=group.CALLS):
        m.init()
        yield from asked(calls)


case("misuse", "assert", apart=True)(misuse_broken.asserts)
case("misuse", "sticky")(misuse_broken.sticky)
case("misuse", "surface", apart=True)(misuse_broken.surfaces)


@case("misuse", "fork")
def _(o):
    def forked(call):
        return in_child(lambda: attempt(lambda: described(call())))

    yield "before_init", lambda: forked(lambda: torch.ones(2, device=DEVICE))
    keep = x(4)
    m.synchronize()
    calls = {
        "accelerator_current": lambda: str(torch.accelerator.current_accelerator()),
        "add": lambda: keep + 1,
        "allocate": lambda: torch.empty(2, device=DEVICE),
        "current_device": m.current_device,
        "device_count": lambda: m.device_count() >= 1,
        "get_rng_state": lambda: len(m.get_rng_state()),
        "is_available": m.is_available,
        "is_initialized": m.is_initialized,
        "manual_seed": lambda: m.manual_seed(1),
        "memory_allocated": m.memory_allocated,
        "metadata": lambda: [list(keep.shape), str(keep.device)],
        "pin_memory": lambda: torch.ones(2).pin_memory().is_pinned(),
        "read": keep.cpu,
        "set_device": lambda: m.set_device(0),
        "torch_manual_seed": lambda: bool(torch.manual_seed(1)),
    }
    for label, call in calls.items():
        yield label, lambda call=call: forked(call)
