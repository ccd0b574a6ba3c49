"""Tools around torch.compile: saved caches, logs and the minifier."""

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.slow

FUNCTION = """
import torch
from torch._dynamo.utils import counters

@torch.compile
def step(x):
    return (x.sin() * 2).softmax(-1)

x = torch.arange(12.0, device="openreg").view(3, 4)
expected = (x.sin() * 2).softmax(-1)
"""


def test_what_was_compiled_is_loaded_in_another_process(run_python, tmp_path):
    saved = tmp_path / "artifacts"
    code = f"""
torch.testing.assert_close(step(x), expected)
data, info = torch.compiler.save_cache_artifacts()
open({str(saved)!r}, "wb").write(data)
print(len(info.inductor_artifacts))
"""
    first = run_python(
        FUNCTION + code, timeout=300, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "a")
    )
    assert first == "1"
    code = f"""
torch.compiler.load_cache_artifacts(open({str(saved)!r}, "rb").read())
torch.testing.assert_close(step(x), expected)
found = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
print(found > 0, counters["inductor"]["fxgraph_cache_miss"])
"""
    second = run_python(
        FUNCTION + code, timeout=300, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "b")
    )
    assert second == "True 0"


def test_code_for_another_number_of_threads_is_not_used(run_python, tmp_path):
    code = """
misses = []
for threads in (1, 2, 1):
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    step(x)
    misses.append(counters["inductor"]["fxgraph_cache_miss"])
print(misses)
"""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    assert run_python(FUNCTION + code, timeout=300, **cache) == "[1, 2, 2]"


def test_two_processes_compile_the_same_at_once(run_python, tmp_path):
    code = """
torch.testing.assert_close(step(x), expected)
print(step(x).tolist())
"""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    with ThreadPoolExecutor() as threads:
        runs = [
            threads.submit(run_python, FUNCTION + code, timeout=300, N=n, **cache)
            for n in "12"  # a program of one environment waits for the one before
        ]
        first, second = (run.result() for run in runs)
    assert first == second


def test_the_code_that_was_written_can_be_read(run_python):
    result = run_python(
        FUNCTION + "step(x)", check=False, timeout=300, TORCH_LOGS="output_code"
    )
    assert result.returncode == 0, result.stderr
    assert "empty_strided_openreg(" in result.stderr
    assert 'extern "C"' in result.stderr


def test_a_failing_graph_is_made_small(run_python, tmp_path):
    folder = tmp_path / "debug"
    code = f"""
import torch, torch._dynamo
from torch._inductor import config
torch._dynamo.config.debug_dir_root = {str(folder)!r}
torch._dynamo.config.repro_after = "aot"
config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
step = torch.compile(lambda x: (x.sin() + 1).relu() * 2)
try:
    step(torch.ones(8, device="openreg"))
except Exception as error:
    print(type(error).__name__)
"""
    run_python(code, timeout=300)
    (launcher,) = folder.rglob("minifier_launcher.py")
    run_python(launcher.read_text(), timeout=300)
    (small,) = tmp_path.rglob("repro.py")
    found = small.read_text()
    assert "aten.relu.default" in found and "device(type='openreg', index=0)" in found
    assert "aten.sin.default" not in found and "aten.mul" not in found
