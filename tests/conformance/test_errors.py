"""Calls that PyTorch's database knows to be wrong fail with the CPU's words.

In a process of their own: a wrong index is found on the device, whose assert can be
told and forgotten there. Right calls come first: after them, work is queued.
"""

import json
from pathlib import Path

import pytest

CHILD = f"""
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = {[*map(str, Path(__file__).parents[:2])]!r}
import torch
from comparison import DEVICE, call, words
from database import arguments, name_of, op_db, samples

def learn(op):
    if torch.float32 in op.supported_dtypes("cpu"):
        for sample in samples(op, torch.float32, limit=4):
            call(op.op, arguments(op, sample), DEVICE)
        torch.accelerator.synchronize()

def wrong_calls():
    for op in op_db:
        if op.error_inputs_func:
            learn(op)
            for wrong in op.error_inputs_func(op, "cpu"):
                yield op, arguments(op, wrong.sample_input)

asserts, differences, count = [], [], 0
for op, given in wrong_calls():
    count += 1
    expected = call(op.op, given, "cpu").forward
    for _ in range(2):  # a call may be learnt from
        found = call(op.op, given, DEVICE).forward
        try:
            torch.accelerator.synchronize()
        except torch.AcceleratorError as error:
            asserts.append(op.name)
            if str(expected) not in str(error):
                differences.append([name_of(op), str(error), words(expected)])
        else:
            if words(found) != words(expected):
                differences.append([name_of(op), words(found), words(expected)])
print(json.dumps([count, asserts, differences]))
"""

# Where the device looks at the indices: the error comes from it, not from the call.
ASSERTS = {"gather", "scatter", "scatter_add"}


@pytest.mark.parametrize("schedule", ["auto", "async", "adversarial"])
def test_wrong_arguments_are_reported_as_on_the_cpu(schedule, run_python):
    variables = {"OPENREG_SCHEDULE": schedule, "OPENREG_DEVICE_ASSERT": "raise"}
    told = run_python(CHILD, timeout=500, **variables)
    count, asserts, differences = json.loads(told)
    assert differences == []
    assert count > 500
    assert set(asserts) == ASSERTS
