"""The steps between the first backend and a whole one: each is built, and does what
docs/ladder.md says of it."""

import difflib
import functools
import json
import os
import sys

import pytest
from ladder_steps import build, levels, render, steps
from other_backends import ROOT, answers, run_in

pytest.importorskip("copier")


@pytest.fixture(autouse=True, scope="module")
def own_template(tmp_path_factory):
    """The template's repository is a cache of the user's: here it is the test's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def changed_lines(before, after):
    """Of two packages, without the pool: it is lifted as it is."""
    count = 0
    for name in (set(before) | set(after)) - {".copier-answers.yml"}:
        if "/pool/" not in name:
            texts = (side.get(name, "").splitlines() for side in (before, after))
            diff = difflib.unified_diff(*texts, n=0, lineterm="")
            count += sum(line[0] in "+-" for line in list(diff)[2:])
    return count


def test_each_step_is_a_few_hundred_lines(tmp_path):
    assert list(steps()) == [1, 2, 3, 4, 5, 6]
    packages = [
        render(arguments, tmp_path / str(step)) for step, arguments in steps().items()
    ]
    pairs = zip(packages, packages[1:], strict=False)
    differences = [changed_lines(*pair) for pair in pairs]
    assert all(40 < lines < 600 for lines in differences), differences


def test_the_first_step_is_the_first_backend(tmp_path):
    made = render(steps()[1], tmp_path / "1")
    example = ROOT / "examples" / "mini_backend"
    for path in [*example.glob("csrc/*"), example / "train.py"]:
        name = path.relative_to(example).as_posix()
        if name != "csrc/parts.h":
            assert made[name] == path.read_text(), name


@pytest.fixture(scope="module")
def built():
    """Builds a step once."""
    return functools.cache(lambda step: build(step, steps()[step]))


# Line -> the beginning of what it gives, since the step. They share what := names.
CASES = {
    1: {
        "torch.ones(2, device='mini:2')": "RuntimeError no mini:2: there are 2 devices",
        "torch.ones(2, device='mini').relu().tolist()": "[1.0, 1.0]",
        "(a := torch.arange(4.).mini().view(2, 2).t().clone()).tolist()": "[[0.0, 2.0]",
        "a.to('mini:1').device, a.to('mini:1').tolist()": "(device(type='mini', index=1), "
        "[[0.0, 2.0]",
        # The fallback would compute it on the CPU.
        "torch.cat([a, torch.ones(2, 2)])": "RuntimeError Expected all tensors to be on",
        "a @ a.to('mini:1')": "RuntimeError Expected all tensors to be on the same device",
        "torch.mul(a, a, out=torch.empty(2, 2))": "RuntimeError Expected all tensors to",
        "torch.Generator('mini:2')": "RuntimeError no mini:2: there are 2 devices",
        "torch.rand(2, generator=torch.Generator(), device='mini')": "RuntimeError mini ta"
        "kes no generator of cpu",
        "(a * torch.tensor(2.)).tolist(), a[torch.tensor([0])].shape": "([[0.0, 4.0]",
    },
    2: {
        "(s := torch.Stream(device='mini')).stream_id > 0": "True",
        "s.__enter__() is s and torch.accelerator.current_stream() == s": "True",
        "torch.accelerator.current_stream('mini:2')": "RuntimeError no mini:2: there are 2",
        "torch.accelerator.synchronize('mini:2')": "RuntimeError no mini:2: there are 2",
        "torch.accelerator.set_stream(torch.mini.default_stream())": "None",
        "torch.mini.default_stream('mini:1').device_index": "1",
        "(e := [torch.Event('mini', enable_timing=True) for _ in range(2)],"
        " e[0].record(), torch.ones(9, device='mini').relu(), e[1].record(),"
        " e[1].synchronize(), e[0].elapsed_time(e[1]) >= 0)[-1]": "True",
        "torch.Event('mini', enable_timing=True).elapsed_time(e[0])": "ValueError",
        "(h := torch.arange(3.).pin_memory()).is_pinned()": "True",
        "h.to('mini', non_blocking=True).tolist()": "[0.0, 1.0, 2.0]",
        "torch.ones(3).is_pinned()": "False",
        "a.record_stream(s)": "None",
        "torch.accelerator.synchronize()": "None",
    },
    3: {
        "(p := torch.ones(1 << 20, device='mini').data_ptr())"
        " == torch.ones(1 << 20, device='mini').data_ptr()": "True",
        # What another stream uses is not handed out before that has run.
        "(b := torch.ones(1 << 20, device='mini'), b.record_stream(s))[1]": "None",
        "torch.accelerator.memory_allocated() >= 4 << 20": "True",
        "torch.accelerator.get_memory_info()[1]": str(16 << 30),
        "torch.empty(1 << 50, device='mini')": "OutOfMemoryError mini out of memory. Tried"
        " to allocate 4503599627370496 bytes on mini:0",
        "torch.accelerator.empty_cache()": "None",
        "torch.accelerator.memory_stats()['num_ooms']": "1",
    },
    4: {
        "torch.sigmoid(torch.zeros(2, device='mini')).tolist()": "[0.5, 0.5]",
        "torch.sigmoid(torch.zeros(2, dtype=torch.half, device='mini'))": "tensor([0.5000",
        "torch.sigmoid(torch.zeros(2, dtype=torch.double, device='mini')).dtype": "torch.fl"
        "oat64",
        "torch.sigmoid(a.t()).equal(torch.sigmoid(a.cpu().t()).mini())": "True",
        "torch.add(a, a.t()[:1], alpha=2).tolist()": "[[0.0, 4.0], [1.0, 5.0]]",
        "a.t().add_(a[:, :1].clone()).tolist()": "[[0.0, 1.0], [3.0, 4.0]]",
        "(a + torch.ones(2, dtype=torch.int).mini()).dtype": "torch.float32",
        "(a + 1).tolist(), (a + torch.tensor(1.)).tolist()": "([[1.0, 4.0], [2.0, 5.0]]",
        "torch.add(a, a, out=torch.empty(0).mini()).tolist()": "[[0.0, 6.0], [2.0, 8.0]]",
        "a + torch.ones(2, 2)": "RuntimeError Expected all tensors to be on the same device",
        "a + a.to('mini:1')": "RuntimeError Expected all tensors to be on the same device",
        "(f := a.flatten(), torch.add(f[:2], f[2:], out=f[1:3]))": "RuntimeError unsupported operation",
        "(torch.empty(0, 3).mini() + 1).shape": "torch.Size([0, 3])",
        "(2 * a).tolist(), (a * 0.5 + 1).tolist()": "([[0.0, 6.0], [2.0, 8.0]], [[1.0, 2.5",
        "(r := torch.mini.get_rng_state(), torch.rand(2).mini(), u := torch.rand(2,"
        " device='mini'), torch.mini.set_rng_state(r), torch.rand(2, device='mini')"
        ".equal(u))[-1]": "True",
        "torch.sigmoid(a, out=torch.empty(2, 2))": "RuntimeError Expected all tensors to",
        "torch.cumsum(a, 0, out=torch.empty(2, 2))": "RuntimeError Expected all tensors to",
        "torch.conv1d(torch.ones(1, 1, 3).mini(), torch.ones(1, 1, 2))": "RuntimeError Expe"
        "cted all tensors to be on the same device",
        "torch.conv1d(torch.ones(1, 1, 3).mini(), torch.ones(1, 1, 2).mini())": "tensor([[["
        "2., 2.]]]",
        "torch.ones(3).mini().cumsum(0).tolist()": "[1.0, 2.0, 3.0]",
        "(c := torch.autocast('mini', torch.bfloat16)).__enter__() is c and (a @ a).dtype,"
        " a.softmax(0).dtype": "(torch.bfloat16, torch.float32)",
        "c.__exit__(None, None, None)": "False",
    },
    5: {},
    6: {
        "(g := torch.accelerator.Graph(), x := torch.ones(2).mini(), y := x * 0,"
        " torch.accelerator.synchronize(), s.__enter__(), g.__enter__(),"
        " y.copy_(torch.add(y, x)), g.__exit__(None, None, None),"
        " g.replay(), g.replay(), s.synchronize(), y.tolist())[-1]": "[2.0, 2.0]",
        "(n := torch.accelerator.Graph()).__enter__()": "None",
        "y.cumsum(0)": "RuntimeError mini: a stream that is being captured cannot be waited",
        "n.__exit__(None, None, None)": "RuntimeError the capture failed",
        "n.replay()": "RuntimeError there is nothing to replay: capture first",
        "(y + 1).tolist()": "[3.0, 3.0]",
        "torch.accelerator.set_stream(torch.mini.default_stream()), n.capture_begin()": "Ru"
        "ntimeError the default stream cannot be captured",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("step", CASES)
def test_a_step_does_what_the_page_says(step, built):
    cases = {
        line: said
        for n, own in CASES.items()
        if n <= step
        for line, said in own.items()
    }
    folder = built(step)
    given = answers(folder, "torch_mini", cases)
    wrong = {
        line: found
        for line, found in given.items()
        if not found.startswith(cases[line])
    }
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("step", CASES)
def test_the_tests_of_the_package_pass(step, built):
    folder = built(step)
    run_in(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert run_in(folder, sys.executable, "train.py").stdout.startswith("mini 0.0697, ")


@pytest.mark.slow
def test_the_process_group_does_all_collectives(built):
    program = ROOT / "tests" / "ladder_ranks.py"
    ranks = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    run_in(built(5), *ranks, "--standalone", program)


FORKED = """
import os, torch, torch_mini
assert not torch.mini._is_in_bad_fork()
x = torch.ones(2, device="mini")
child = os.fork()
if child == 0:
    try:
        x.add_(1)
    except RuntimeError as error:
        os._exit(17 if torch.mini._is_in_bad_fork() and "spawn" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_child_is_asked_to_spawn(built):
    assert run_in(built(6), sys.executable, "-c", FORKED).stdout == "17\n"


CONFORMANCE = ROOT / "conformance"


@pytest.mark.slow
@pytest.mark.skipif(not CONFORMANCE.exists(), reason="torch_conformance is not here")
@pytest.mark.parametrize("step", CASES)
def test_each_step_reaches_the_levels_of_the_page_and_no_others(step, built, tmp_path):
    folder = built(step)
    report = tmp_path / "report.json"
    result = run_in(
        folder,
        *(sys.executable, "-m", "torch_conformance", "--every", "40", "--samples", "2"),
        *("--module", "torch_mini", "--config", "vendor.toml", "--json", report),
        check=False,
        PYTHONPATH=f"{folder}{os.pathsep}{CONFORMANCE}",
    )
    assert json.loads(report.read_text())["reached"] == levels()[step], result.stdout
