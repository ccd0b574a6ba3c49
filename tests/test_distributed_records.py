"""What groups tell of their calls: results, times, the flight recorder; and settings that
say what happens when one fails."""

import signal

import pytest

HANG = """
    import pickle
    from torch_openreg.distributed import _dump_fr_trace
    x = torch.ones(3, 4, device=device)
"""


def test_the_flight_recorder_tells_of_calls_with_sizes_states_and_stacks(ranks):
    told = ranks(
        HANG
        + """
    dist.all_reduce(x)
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    torch.openreg.synchronize()
    if rank == 0:
        waiting = dist.all_reduce(x.half(), async_op=True)
        dump = pickle.loads(_dump_fr_trace())
        active = pickle.loads(_dump_fr_trace(includeStackTraces=False, onlyActive=True))
        connect().set("told", "1")
        waiting.wait()
    else:
        connect().wait(["told"])
        dist.all_reduce(x.half())
        dump, active = pickle.loads(_dump_fr_trace()), None
    files = [f["filename"] for f in dump["entries"][0].pop("frames")]
    assert any("distributed_c10d" in f for f in files), files
    return dump, active
    """,
        TORCH_FR_BUFFER_SIZE="100",
    )
    for dump, _ in told:
        assert dump["version"] and dump["pg_config"]["0"]["ranks"] == "[0, 1]"
        first, message = dump["entries"][:2]
        assert first["profiling_name"] == "nccl:all_reduce"
        assert first["input_sizes"] == first["output_sizes"] == [[3, 4]]
        assert first["input_dtypes"] == ["Float"] and first["process_group"][0] == "0"
        assert first["collective_seq_id"] == 1 and not first["is_p2p"]
        assert first["state"] == "completed" and first["duration_ms"] > 0
        assert message["is_p2p"] and message["p2p_seq_id"] == 1
    (_, active), _ = told
    assert [e["profiling_name"] for e in active["entries"]] == ["nccl:all_reduce"]
    assert active["entries"][0]["state"] in ("scheduled", "started")
    assert active["entries"][0]["input_dtypes"] == ["Half"]
    names = [dump["entries"][1]["profiling_name"] for dump, _ in told]
    assert names == ["nccl:send 0->1", "nccl:recv 1<-0"]


@pytest.mark.slow
def test_torchfrtrace_reads_what_is_written_when_a_call_fails(ranks, tmp_path):
    ranks(
        HANG
        + """
    dist.all_reduce(x)
    try:
        dist.all_reduce(x) if rank else dist.broadcast(x, 0)
        torch.openreg.synchronize()
    except RuntimeError as error:
        assert "broadcast" in str(error)
    from torch.distributed.flight_recorder import fr_trace
    connect().set(f"done{rank}", "1")
    connect().wait(["done0", "done1"])
    if rank == 0:
        sys.argv = ["torchfrtrace", folder, "--prefix", "trace_"]
        with open(os.path.join(folder, "analysis"), "w") as file:
            sys.stdout = file
            import logging
            logging.basicConfig(stream=file, level=logging.INFO, force=True)
            fr_trace.main()
            sys.stdout = sys.__stdout__
    """,
        TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"),
    )
    told = (tmp_path / "analysis").read_text()
    assert "broadcast" in told and "all_reduce" in told, told


def test_a_result_says_how_a_call_ended(ranks):
    ranks(
        HANG
        + """
    from torch._C._distributed_c10d import WorkResult
    dist.barrier()
    work = dist.all_reduce(x, async_op=True)
    assert WorkResult(work.get_future_result().wait()) == WorkResult.SUCCESS
    work.wait()
    if rank == 0:
        late = dist.all_reduce(x, async_op=True)
        assert WorkResult(late.get_future_result().wait()) == WorkResult.TIMEOUT
        connect().set("told", "1")
    connect().wait(["told"])
    """,
        OPENREG_OCCL_TIMEOUT="1",
    )


def test_wait_itself_waits_and_raises_if_that_is_wanted(ranks):
    ranks(
        HANG
        + """
    dist.all_reduce(x)
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        try:
            work.wait()
        except RuntimeError as error:
            assert "rank 1" in str(error), error
        else:
            raise AssertionError("wait() has not waited")
        connect().set("told", "1")
    connect().wait(["told"])
    """,
        OPENREG_OCCL_TIMEOUT="1",
        OPENREG_OCCL_BLOCKING_WAIT="1",
    )


def test_a_timeout_that_is_not_a_number_is_refused(ranks):
    ranks(
        """
    try:
        join()
    except ValueError as error:
        assert "must be a number of seconds, but is soon" in str(error), error
    else:
        raise AssertionError("it was taken")
    """,
        1,
        joins=False,
        OPENREG_OCCL_TIMEOUT="soon",
    )


def test_a_failure_ends_the_process_if_that_is_wanted(ranks):
    ranks(
        HANG
        + """
    dist.all_reduce(x)
    if rank == 0:
        dist.all_reduce(x)
        connect().wait(["nothing"])  # busy with something else
    os._exit(3)
    """,
        expect=[-signal.SIGABRT, 3],
        OPENREG_OCCL_ASYNC_ERROR_HANDLING="1",
    )


def test_ddp_times_its_steps_on_the_device(ranks):
    ranks(
        """
    model = torch.nn.Linear(64, 64).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    for step in range(12):
        model(torch.randn(8, 64, device=device)).sum().backward()
    told = model._get_ddp_logging_data()
    for what in ("forward_compute_time", "backward_compute_time", "backward_comm_time"):
        assert told[f"avg_{what}"] > 0, told
    """
    )
