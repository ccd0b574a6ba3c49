"""What a device tells of itself: how busy, how fast, for which architecture."""

import os

import pytest
import torch

m = torch.openreg
MS = 1_980_000  # cycles


def test_an_idle_device_is_not_busy():
    m.synchronize()
    assert m.utilization() == m.memory_usage() == 0


@pytest.mark.parametrize("ask", [m.utilization, m.memory_usage])
def test_a_device_is_busy_while_it_works_and_another_is_not(ask, hold):
    gate = hold(m.Stream(1))
    while ask(1) == 0 and not gate.is_late:
        pass  # until the stream's worker has begun
    assert ask(1) == 100
    assert ask(0) == 0
    gate.open()
    m.synchronize(1)
    assert ask(1) == 0


def test_asking_lets_other_threads_run(run_python):
    code = """
import threading, torch
m = torch.openreg
m.init()
counted, stop = [0], threading.Event()
def count():
    while not stop.is_set():
        counted[0] += 1
thread = threading.Thread(target=count)
thread.start()
before = counted[0]
for _ in range(5):
    m.utilization()
print(counted[0] > before)
stop.set()
thread.join()
"""
    assert run_python(code) == "True"


def test_memory_in_use_is_what_the_device_has_not_free():
    keep = torch.empty(3 << 20, dtype=torch.uint8, device="openreg:1")
    free, total = m.mem_get_info(1)
    assert m.device_memory_used(1) == total - free >= keep.nbytes


def test_the_one_process_of_a_device_is_listed_with_its_memory():
    m.empty_cache()
    keep = torch.empty(20 << 20, dtype=torch.uint8, device="openreg:1")  # noqa: F841
    title, line = m.list_gpu_processes("openreg:1").splitlines()
    mebibytes = m.device_memory_used(1) / (1 << 20)
    assert title == "GPU:1"
    assert line.split() == [
        *("process", str(os.getpid()), "uses", f"{mebibytes:.3f}"),
        *("MB", "GPU", "memory"),
    ]
    assert m.memory.list_gpu_processes is m.list_gpu_processes


def test_a_device_without_memory_in_use_has_no_process(run_python):
    code = "import torch; print(torch.openreg.list_gpu_processes(1))"
    assert run_python(code) == "GPU:1\nno processes are running"


@pytest.mark.parametrize(
    "ask",
    [
        *(m.utilization, m.memory_usage, m.device_memory_used),
        *(m.list_gpu_processes, m.clock_rate),
    ],
)
def test_figures_need_a_device_that_exists(ask):
    with pytest.raises(AssertionError, match=r"Invalid device id\n2 is not in \[0, 2"):
        ask(2)
    with pytest.raises(ValueError, match="Expected an openreg device"):
        ask("cpu")


def test_the_clock_is_the_one_that_sleep_counts():
    start, end = m.Event(enable_timing=True), m.Event(enable_timing=True)
    start.record()
    m._sleep(5 * m.clock_rate() * 1000)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 5


@pytest.mark.parametrize(
    ("profile", "megahertz", "architecture"), [("h100", 1980, "90"), ("t4", 1590, "75")]
)
def test_a_profile_sets_clock_and_architecture(
    profile, megahertz, architecture, run_python
):
    code = (
        "import torch; m = torch.openreg; "
        "print(m.clock_rate(), *m.get_arch_list(), m.get_gencode_flags())"
    )
    flags = f"-gencode compute=compute_{architecture},code=sm_{architecture}"
    assert (
        run_python(code, OPENREG_DEVICE_PROFILE=profile)
        == f"{megahertz} sm_{architecture} {flags}"
    )


def test_float32_is_multiplied_with_all_its_bits():
    assert m.is_tf32_supported() is False
    x = torch.full((1, 1), 1 + 2.0**-20)
    assert torch.equal((x.to("openreg") @ x.to("openreg")).cpu(), x @ x)
    assert (x @ x).item() != 1
    assert m.has_half is True
    assert m.has_magma is False


def test_properties_have_the_fields_that_cudas_have():
    first, second = (m.get_device_properties(i) for i in (0, 1))
    assert first.clock_rate == MS
    assert first.gcnArchName == first.name
    assert first.pci_bus_id != second.pci_bus_id
    assert first.pci_domain_id == second.pci_domain_id == 0
    assert not first.is_integrated
    assert not first.is_multi_gpu_board
    assert (
        first.shared_memory_per_block
        <= first.shared_memory_per_block_optin
        <= first.shared_memory_per_multiprocessor
    )
    assert first.memory_clock_rate > 0
    assert first.memory_bus_width > 0
    assert f"pci_bus_id={first.pci_bus_id}, pci_device_id=0" in repr(first)
