"""Each defect that is seeded into openreg is found by the check that names it."""

import json
from pathlib import Path

import kit.defects_first
import kit.defects_later
import kit.defects_tensors  # noqa: F401
import pytest
import torch  # noqa: F401 (with its backends; the kit imports it without them)
from kit.defects import DEFECTS
from torch_conformance.check import base_id
from torch_conformance.levels import find

TESTS = Path(__file__).parent
# A child of a process that has imported torch already takes half a second.
PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
sys.argv = ["", {name!r}]
import torch, kit.defects, kit.defects_first, kit.defects_later, kit.defects_tensors
kit.defects.main()
"""
SAMPLE = 12  # each twelfth in `make test`


def cases():
    for i, name in enumerate(DEFECTS):
        yield pytest.param(name, marks=[pytest.mark.slow] if i % SAMPLE else [])


@pytest.mark.parametrize("name", cases())
def test_a_defect_is_found_by_its_check(name, run_python):
    code = PROGRAM.format(tests=str(TESTS), name=name)
    check_id, status, message = json.loads(run_python(code).splitlines()[-1])
    assert status == "failed", f"{check_id} passes with the defect {name}"
    assert message


def test_there_are_enough_defects_and_each_has_a_check():
    assert len(DEFECTS) >= 40
    assert [
        name for name, (check_id, _) in DEFECTS.items() if not find(base_id(check_id))
    ] == []
