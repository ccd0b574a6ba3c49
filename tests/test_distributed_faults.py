"""Fault plans at collectives."""

import pytest

# Each rank counts its own calls.
PLAN = """
    x = torch.ones(100, device=device)
    plan = torch.openreg.faults.plan({plan!r})
    plan.__enter__()
    dist.all_reduce(x)
    torch.openreg.synchronize()
    assert x.tolist() == [float(size)] * 100
"""


def test_a_dropped_rank_dies_and_the_others_get_an_error(ranks):
    ranks(
        PLAN.format(plan="drop-rank:2@collective:2")
        + """
    try:
        dist.all_reduce(x)
        torch.openreg.synchronize()
    except RuntimeError as error:
        assert "rank 2" in str(error), error
    else:
        raise AssertionError("nobody said that rank 2 is gone")
    plan.__exit__()
    assert plan.fired == {}  # it is the other rank that it happened to
    dist.destroy_process_group()
    """,
        3,
        expect=[0, 0, 137],
    )


def test_a_collective_raises_in_each_rank_and_the_next_works(ranks):
    ranks(
        PLAN.format(plan="error@collective:2")
        + """
    try:
        dist.all_reduce(x)
    except dist.DistBackendError as error:
        assert "error@collective:2" in str(error), error
    else:
        raise AssertionError("it did not raise")
    dist.all_reduce(x)
    torch.openreg.synchronize()
    assert x.tolist() == [float(size * size)] * 100
    assert plan.fired == {"error": 1}
    assert plan.asked["collective"] == 3
    assert "launch" not in plan.asked
    """
    )


@pytest.mark.parametrize("kind", ["slow", "lost"])
def test_a_collective_is_late_or_loses_the_device(ranks, kind):
    late = ":20ms" if kind == "slow" else ""
    ranks(
        PLAN.format(plan=f"{kind}@collective:2{late}")
        + f"""
    begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
    begin.record()
    try:
        dist.all_reduce(x)
        end.record()
        torch.openreg.synchronize()
    except torch.AcceleratorError as error:
        assert {kind!r} == "lost" and "lost@collective:2" in str(error), error
        torch.openreg.reset_device()
    else:
        assert {kind!r} == "slow"
        assert begin.elapsed_time(end) >= 20
    plan.__exit__()
    assert plan.fired == {{{kind!r}: 1}}
    dist.destroy_process_group()
    """
    )
