"""What works with CUDA in CUDA's place: Triton, compiled FSDP, histories of memory."""


def test_triton_is_not_asked_and_its_kernels_are_refused(run_cuda, tmp_path):
    """A package by that name stands for it: only its class of kernels is looked at."""
    jit = tmp_path / "triton" / "runtime" / "jit.py"
    jit.parent.mkdir(parents=True)
    jit.write_text("class JITFunction:\n    def run(self): print('ran')\n")
    code = (
        "from torch.utils._triton import has_triton, has_triton_package\n"
        "print(has_triton(), has_triton_package())\n"
        "from triton.runtime.jit import JITFunction\n"
        "try:\n    JITFunction().run()\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    first, second = run_cuda(code, PYTHONPATH=str(tmp_path)).splitlines()
    assert first == "False False"
    assert "Triton kernel" in second and "TRITON_INTERPRET=1" in second


def test_a_history_of_memory_skips_what_it_is_asked_to_skip(run_cuda):
    code = (
        "torch.cuda.memory._record_memory_history(skip_actions=['free_requested'])\n"
        "torch.empty(8, device='cuda')\n"
        "(trace, _) = torch.cuda.memory._snapshot()['device_traces']\n"
        "print(*sorted({entry['action'] for entry in trace} - {'snapshot'}))\n"
    )
    assert run_cuda(code) == "alloc free_completed segment_alloc"


def test_an_estimated_program_sees_its_own_peaks(run_cuda):
    """The estimate starts the peaks again at the end of each phase."""
    code = (
        "import torch_openreg.memory\n"
        "with torch_openreg.memory.estimate():\n"
        "    torch.empty(64 << 20, dtype=torch.uint8, device='cuda')\n"
        "    torch.nn.ReLU()(torch.ones(1, device='cuda'))\n"
        "    print(torch.cuda.max_memory_allocated() >> 20)\n"
        "    torch.cuda.reset_peak_memory_stats()\n"
        "    print(torch.cuda.max_memory_allocated() >> 20)\n"
    )
    assert run_cuda(code).split() == ["64", "0"]


def test_compiled_programs_free_storages_and_take_them_again(run_cuda):
    code = (
        "x = torch.ones(64, device='cuda')\n"
        "resize = torch.ops.inductor.resize_storage_bytes_\n"
        "resize(x, 0); print(torch.cuda.memory_allocated())\n"
        "resize(x, 256); print(x.fill_(2).sum().item())\n"
    )
    assert run_cuda(code).splitlines() == ["0", "128.0"]


def test_a_history_tells_who_allocated_and_under_which_name(run_cuda):
    code = (
        "cuda = torch.cuda.memory\n"
        "cuda._record_memory_history(global_record_annotations=True)\n"
        "with torch.profiler.record_function('part'):\n"
        "    x = torch.empty(8, device='cuda')\n"
        "print([(a['name'], a['stage'])\n"
        "       for a in cuda._snapshot()['external_annotations']])\n"
        "frames = cuda._allocation_traceback(x.data_ptr())\n"
        "print(any(f['name'] == '<module>' for f in frames))\n"
        "print(cuda._allocation_traceback(x.data_ptr() + 4))\n"
    )
    steps = [("part", "START"), ("part", "END")]
    assert run_cuda(code).splitlines() == [str(steps), "True", "None"]


def test_a_pool_of_memory_for_nccl_can_be_registered(run_cuda):
    code = (
        "import torch.distributed as dist\n"
        "dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)\n"
        "nccl = dist.group.WORLD._get_backend(torch.device('cuda'))\n"
        "pool = torch.cuda.MemPool(nccl.mem_allocator)\n"
        "with torch.cuda.use_mem_pool(pool):\n"
        "    x = torch.ones(8, device='cuda')\n"
        "nccl.register_mem_pool(pool)\n"
        "dist.all_reduce(x); print(x.sum().item(), len(pool.snapshot()))\n"
        "nccl.deregister_mem_pool(pool)\n"
        "dist.destroy_process_group()\n"
    )
    assert run_cuda(code) == "8.0 1"


def test_an_operator_without_a_kernel_can_be_registered_for_cuda(run_cuda):
    code = (
        "x = torch.ones(64, 64, dtype=torch.half, device='cuda')\n"
        "try:\n    torch._cslt_compress(x)\n"
        "except NotImplementedError as error:\n    print(error)\n"
        "impl = torch.library.impl('aten::_cslt_compress', 'cuda')\n"
        "impl(lambda x: x + 1)\n"
        "print(torch._cslt_compress(x).device)\n"
    )
    error, device = run_cuda(code).splitlines()
    assert "aten::_cslt_compress" in error and error.endswith('device itself, "cuda"')
    assert device == "cuda:0"


def test_a_program_may_choose_the_algorithm_of_a_decomposition(run_cuda):
    code = (
        "x = torch.diag(torch.tensor([3.0, 2.0, 1.0])).cuda().requires_grad_()\n"
        "for driver in None, 'gesvd', 'gesvdj', 'gesvda':\n"
        "    values = torch.linalg.svdvals(x, driver=driver)\n"
        "    assert torch.equal(torch.linalg.svd(x, driver=driver).S, values)\n"
        "values.sum().backward(); print(values.tolist(), x.grad.trace().item())\n"
        "try:\n    torch.linalg.svd(x, driver='gels')\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    values, error = run_cuda(code).splitlines()
    assert values == "[3.0, 2.0, 1.0] 3.0"
    assert error.endswith("one of gesvd, gesvdj and gesvda, but it is gels")


def test_a_conditional_node_of_a_graph_is_refused(run_cuda):
    code = (
        "try:\n    torch.cuda.CUDAGraph.get_currently_capturing_graph()\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    assert "a conditional node of a graph cannot work" in run_cuda(code)


def test_a_device_map_of_rpc_is_refused(run_cuda):
    code = (
        "from torch.distributed.rpc import TensorPipeRpcBackendOptions\n"
        "try:\n"
        "    TensorPipeRpcBackendOptions().set_device_map('worker1', {0: 1})\n"
        "except RuntimeError as error:\n    print(error)\n"
        "TensorPipeRpcBackendOptions(devices=['cuda:0']); print('fine')\n"
    )
    error, rest = run_cuda(code).splitlines()
    assert "a device map of torch.distributed.rpc cannot work" in error
    assert rest == "fine"
