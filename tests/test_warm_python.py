"""A program that is forked from a warm Python is as good as one that is started."""

import pytest


def test_a_program_has_its_folder_variables_and_outputs(start_python, tmp_path):
    code = """
import os, sys
print(os.getcwd(), os.environ["OPENREG_WARM"], sys.argv, sys.path[0] == "")
print("aside", file=sys.stderr)
sys.exit(3)
"""
    result = start_python(code, tmp_path, OPENREG_WARM="yes")
    assert result.stdout == f"{tmp_path} yes ['-c'] True\n"
    assert (result.returncode, result.stderr) == (3, "aside\n")


def test_nothing_is_left_of_the_program_before(start_python, tmp_path):
    code = """
import torch
print(sorted(name for name in globals() if not name.startswith("__")))
print(torch.openreg.is_initialized(), hasattr(torch, "left"))
torch.openreg.init()
torch.left = True
"""
    for _ in range(2):
        result = start_python(code, tmp_path)
        assert result.stdout == "['torch']\nFalse False\n"


def test_variables_that_are_read_early_are_those_of_the_program(start_python, tmp_path):
    code = "import torch; print(torch.get_num_threads(), hasattr(torch, 'openreg'))"
    one, off = {"OMP_NUM_THREADS": "1"}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert start_python(code, tmp_path, **one).stdout == "1 True\n"
    assert start_python(code, tmp_path, **one, **off).stdout == "1 False\n"


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("raise KeyError('gone')", 1, "KeyError: 'gone'"),
        ("import os; os.abort()", -6, ""),
        ("import atexit; atexit.register(print, 'end'); x = 1", 0, ""),
        ("import sys; sys.exit('enough')", 1, "enough"),
    ],
)
def test_a_program_ends_in_its_own_way(start_python, tmp_path, code, status, words):
    result = start_python(code, tmp_path)
    assert result.returncode == status
    assert words in result.stderr
    assert ("atexit" in code) == (result.stdout == "end\n")
