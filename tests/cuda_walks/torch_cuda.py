"""Every public name of torch.cuda, called as a program would."""

import warnings

import torch
import torch.cuda.comm
import torch.cuda.gds
import torch.cuda.nccl
import torch.cuda.tunable
from walk import report, within

cuda = torch.cuda
keep = torch.ones(1000, device="cuda")
side = cuda.Stream()


# --- what takes more than an expression ---------------------------------------


def replayed(graph):
    x = torch.ones(2, device="cuda")
    with cuda.graph(graph, pool=cuda.graph_pool_handle()):
        x.add_(1)
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append(x[0].item())
    return seen == [2.0, 3.0]


def milliseconds():
    start, end = (cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    cuda._sleep(100_000)
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def raw(size):
    before = cuda.memory_allocated()
    address = cuda.caching_allocator_alloc(size)
    taken = cuda.memory_allocated() - before
    cuda.caching_allocator_delete(address)
    return taken == size and cuda.memory_allocated() == before


def drawn_again(get, set_):
    state = get()
    first = torch.rand(3, device="cuda")
    set_(state)
    return torch.equal(first, torch.rand(3, device="cuda"))


def seeded(seed):
    seed(7)
    return cuda.initial_seed() == 7


def graphed():
    model = torch.nn.Linear(4, 4).cuda()
    x = torch.randn(2, 4, device="cuda")
    expected = model(x).detach().clone()
    sample = torch.randn(2, 4, device="cuda")
    return torch.allclose(cuda.make_graphed_callables(model, (sample,))(x), expected)


def pooled():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        x = torch.ones(1 << 20, device="cuda")
    (segment,) = pool.snapshot()
    return segment["address"] == x.data_ptr()


def moved():
    cuda.set_device(1)
    index = cuda.current_device()
    cuda.set_device(0)
    return index == 1


def moved_stream():
    cuda.set_stream(side)
    found = cuda.current_stream()
    cuda.set_stream(cuda.default_stream())
    return found == side


def limited():
    cuda.set_per_process_memory_fraction(0.5)
    try:
        torch.empty(12 << 30, dtype=torch.uint8, device="cuda")
    except cuda.OutOfMemoryError:
        return cuda.get_per_process_memory_fraction() == 0.5
    finally:
        cuda.set_per_process_memory_fraction(1.0)


def warned():
    cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        keep.sum().item()
    mode = cuda.get_sync_debug_mode()
    cuda.set_sync_debug_mode("default")
    return mode == 1 and "synchroniz" in str(told[0].message)


def reset(call, figure):
    torch.empty(1 << 20, device="cuda")
    call()
    return (
        cuda.memory_stats()[figure]
        == cuda.memory_stats()[figure.replace("peak", "current")]
    )


def ranges():
    handle = cuda.nvtx.range_start("a")
    cuda.nvtx.range_end(handle)
    cuda.nvtx.mark("b")
    return cuda.nvtx.range_push("c") == 0 and cuda.nvtx.range_pop() == 0


# --- what works ---------------------------------------------------------------

WORKS = {
    "cuda.CUDAGraph": lambda: replayed(cuda.CUDAGraph()),
    "cuda.CudaError": lambda: "invalid" in str(cuda.CudaError(1)),
    "cuda.DeferredCudaCallError": lambda: issubclass(
        cuda.DeferredCudaCallError, Exception
    ),
    "cuda.Event": lambda: milliseconds() > 0,
    "cuda.ExternalStream": lambda: cuda.ExternalStream(side.cuda_stream) == side,
    "cuda.MemPool": pooled,
    "cuda.Stream": lambda: side.query() and side.priority == 0,
    "cuda.StreamContext": lambda: (
        within(cuda.StreamContext(side), cuda.current_stream) == side
    ),
    "cuda.amp": lambda: cuda.amp.GradScaler().get_scale() == 65536,
    "cuda.caching_allocator_alloc": lambda: raw(1024),
    "cuda.caching_allocator_delete": lambda: raw(512),
    "cuda.caching_allocator_disabled": lambda: within(
        cuda.memory.caching_allocator_disabled(),
        lambda: not torch._C._cuda_cudaCachingAllocator_is_enabled(),
    ),
    "cuda.can_device_access_peer": lambda: cuda.can_device_access_peer(0, 1),
    "cuda.check_error": lambda: cuda.check_error(0) is None,
    "cuda.clock_rate": lambda: cuda.clock_rate() > 0,
    "cuda.comm": lambda: [
        x.device.index for x in cuda.comm.scatter(torch.arange(4.0), [0, 1])
    ]
    == [0, 1],
    "cuda.cudaStatus": lambda: cuda.cudaStatus.SUCCESS == 0,
    "cuda.cudart": lambda: cuda.cudart().cudaMemGetInfo(0) == cuda.mem_get_info(0),
    "cuda.current_device": lambda: cuda.current_device() == 0,
    "cuda.current_stream": lambda: cuda.current_stream(1).device_index == 1,
    "cuda.default_generators": lambda: len(cuda.default_generators) == 2,
    "cuda.default_stream": lambda: cuda.default_stream(1) == cuda.current_stream(1),
    "cuda.device": lambda: within(cuda.device(1), cuda.current_device) == 1,
    "cuda.device_count": lambda: cuda.device_count() == 2,
    "cuda.device_memory_used": lambda: cuda.device_memory_used() > 0,
    "cuda.device_of": lambda: (
        within(cuda.device_of(torch.ones(1, device="cuda:1")), cuda.current_device) == 1
    ),
    "cuda.get_allocator_backend": lambda: cuda.get_allocator_backend() == "native",
    "cuda.get_arch_list": lambda: cuda.get_arch_list() == ["sm_80"],
    "cuda.get_device_capability": lambda: cuda.get_device_capability() == (8, 0),
    "cuda.get_device_name": lambda: cuda.get_device_name(1) != "",
    "cuda.get_device_properties": lambda: (
        cuda.get_device_properties("cuda:1").total_memory == cuda.mem_get_info(1)[1]
    ),
    "cuda.get_gencode_flags": lambda: (
        cuda.get_gencode_flags() == "-gencode compute=compute_80,code=sm_80"
    ),
    "cuda.get_per_process_memory_fraction": limited,
    "cuda.get_rng_state": lambda: drawn_again(cuda.get_rng_state, cuda.set_rng_state),
    "cuda.get_rng_state_all": lambda: drawn_again(
        cuda.get_rng_state_all, cuda.set_rng_state_all
    ),
    "cuda.get_stream_from_external": lambda: (
        cuda.get_stream_from_external(side.cuda_stream) == side
    ),
    "cuda.get_sync_debug_mode": warned,
    "cuda.graph": lambda: replayed(cuda.CUDAGraph(keep_graph=True)),
    "cuda.graph_pool_handle": lambda: len(cuda.graph_pool_handle()) == 2,
    "cuda.graphs": lambda: cuda.graphs.CUDAGraph is cuda.CUDAGraph,
    "cuda.has_half": lambda: cuda.has_half,
    "cuda.has_magma": lambda: isinstance(cuda.has_magma, bool),
    "cuda.host_memory_stats": lambda: (
        "active_bytes.current" in cuda.host_memory_stats()
    ),
    "cuda.host_memory_stats_as_nested_dict": lambda: (
        "active_bytes" in cuda.host_memory_stats_as_nested_dict()
    ),
    "cuda.initial_seed": lambda: seeded(cuda.manual_seed),
    "cuda.is_current_stream_capturing": lambda: (
        not cuda.is_current_stream_capturing()
    ),
    "cuda.list_gpu_processes": lambda: "GPU:0" in cuda.list_gpu_processes(),
    "cuda.make_graphed_callables": graphed,
    "cuda.manual_seed": lambda: seeded(cuda.manual_seed),
    "cuda.manual_seed_all": lambda: seeded(cuda.manual_seed_all),
    "cuda.max_memory_allocated": lambda: (
        cuda.max_memory_allocated() >= cuda.memory_allocated()
    ),
    "cuda.max_memory_cached": lambda: (
        cuda.max_memory_cached() == cuda.max_memory_reserved()
    ),
    "cuda.max_memory_reserved": lambda: (
        cuda.max_memory_reserved() >= cuda.memory_reserved()
    ),
    "cuda.mem_get_info": lambda: 0 < cuda.mem_get_info()[0] < cuda.mem_get_info()[1],
    "cuda.memory": lambda: cuda.memory.memory_stats is cuda.memory_stats,
    "cuda.memory_allocated": lambda: cuda.memory_allocated() >= keep.nbytes,
    "cuda.memory_cached": lambda: cuda.memory_cached() == cuda.memory_reserved(),
    "cuda.memory_reserved": lambda: cuda.memory_reserved() > 0,
    "cuda.memory_snapshot": lambda: cuda.memory_snapshot()[0]["total_size"] > 0,
    "cuda.memory_stats": lambda: "num_ooms" in cuda.memory_stats(),
    "cuda.memory_stats_as_nested_dict": lambda: (
        "all" in cuda.memory_stats_as_nested_dict()["active"]
    ),
    "cuda.memory_summary": lambda: "CUDA memory summary" in cuda.memory_summary(),
    "cuda.memory_usage": lambda: 0 <= cuda.memory_usage() <= 100,
    "cuda.nccl": lambda: cuda.nccl.is_available([keep]) and cuda.nccl.version()[0] > 1,
    "cuda.nvtx": ranges,
    "cuda.profiler": lambda: within(cuda.profiler.profile(), lambda: True),
    "cuda.random": lambda: cuda.random.manual_seed is cuda.manual_seed,
    "cuda.reset_accumulated_memory_stats": lambda: (
        cuda.reset_accumulated_memory_stats() is None
        and cuda.memory_stats()["allocation.all.freed"] == 0
    ),
    "cuda.reset_max_memory_allocated": lambda: reset(
        cuda.reset_max_memory_allocated, "allocated_bytes.all.peak"
    ),
    "cuda.reset_max_memory_cached": lambda: reset(
        cuda.reset_max_memory_cached, "reserved_bytes.all.peak"
    ),
    "cuda.reset_peak_memory_stats": lambda: reset(
        cuda.reset_peak_memory_stats, "allocated_bytes.all.peak"
    ),
    "cuda.set_device": moved,
    "cuda.set_per_process_memory_fraction": limited,
    "cuda.set_rng_state": lambda: drawn_again(cuda.get_rng_state, cuda.set_rng_state),
    "cuda.set_rng_state_all": lambda: drawn_again(
        cuda.get_rng_state_all, cuda.set_rng_state_all
    ),
    "cuda.set_stream": moved_stream,
    "cuda.set_sync_debug_mode": warned,
    "cuda.sparse": lambda: (
        torch.eye(2, device="cuda").to_sparse().type()
        == "torch.cuda.sparse.FloatTensor"
    ),
    "cuda.stream": lambda: within(cuda.stream(side), cuda.current_stream) == side,
    "cuda.streams": lambda: cuda.streams.Stream is cuda.Stream,
    "cuda.synchronize": lambda: cuda.synchronize("cuda:1") is None,
    "cuda.tunable.enable": lambda: cuda.tunable.enable(False) is None,
    "cuda.use_mem_pool": pooled,
    "cuda.utilization": lambda: 0 <= cuda.utilization() <= 100,
}


def make(kind):
    """One of torch.cuda.FloatTensor, FloatStorage and their kind."""
    made = getattr(cuda, kind)(2)
    return made.device.type == "cuda" and made.dtype == getattr(cuda, kind).dtype


def is_none(name):
    return getattr(cuda, name)() is None


def is_true(name):
    return getattr(cuda, name)()


for check, names in {
    make: [name for name in cuda.__all__ if name.endswith(("Tensor", "Storage"))],
    is_none: """caching_allocator_enable empty_cache init ipc_collect
        reset_accumulated_host_memory_stats reset_peak_host_memory_stats seed
        seed_all""".split(),
    is_true: """is_available is_bf16_supported is_initialized
        is_tf32_supported""".split(),
}.items():
    WORKS.update(
        (f"cuda.{name}", lambda name=name, check=check: check(name)) for name in names
    )


# --- what is refused ----------------------------------------------------------

REFUSED = {
    "cuda.GreenContext": lambda: cuda.GreenContext.create(num_sms=8),
    "cuda.current_blas_handle": cuda.current_blas_handle,
    "cuda.current_solver_handle": cuda.current_solver_handle,
    "cuda.gds": lambda: cuda.gds.gds_register_buffer(keep.untyped_storage()),
    "cuda.gds.GdsFile": lambda: cuda.gds.GdsFile(__file__, 0),
    "cuda.jiterator": lambda: cuda.jiterator._create_jit_fn(
        "template <typename T> T f(T x) { return x; }"
    )(keep),
    "cuda.nvtx._device_range_start": lambda: cuda.nvtx._device_range_start("a"),
    "cuda.power_draw": cuda.power_draw,
    "cuda.temperature": cuda.temperature,
    "cuda.tunable": lambda: cuda.tunable.enable(True),
}
# With a library of their own: tests/test_pluggable_allocator.py.
ELSEWHERE = {"cuda.CUDAPluggableAllocator", "cuda.change_current_allocator"}

names = {name for part in (cuda, cuda.memory, cuda.graphs) for name in part.__all__}
report({f"cuda.{name}" for name in names} - ELSEWHERE, WORKS, REFUSED)
