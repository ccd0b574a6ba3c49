"""A gate holds a stream, and a test that would hang behind it fails."""

import pytest
import torch
from gate import Gate, end


def test_a_stream_is_held_until_the_gate_is_opened():
    stream = torch.openreg.Stream()
    gate = Gate(stream)
    assert not stream.query()
    gate.open()
    stream.synchronize()
    assert not gate.is_late


def test_a_gate_that_nobody_opens_opens_and_tells():
    stream = torch.openreg.Stream()
    gate = Gate(stream, seconds=0.05)
    stream.synchronize()
    assert gate.is_late
    gate.open()
    assert gate.is_late


def test_a_test_that_waits_for_a_stream_it_holds_fails():
    stream = torch.openreg.Stream()
    gates = [Gate(stream), Gate(stream, seconds=0.05)]
    gates[0].open()
    stream.synchronize()
    with pytest.raises(AssertionError, match="a call waited for a held stream"):
        end(gates)
