"""Level 10: steps that are recorded once and replayed."""

import torch

from ..check import check
from ..expect import expect, expect_error

PAGE = "graphs.md"
NEEDS = ("graphs",)
WRITE = "`GraphImplInterface` for the device, registered with PyTorch."


def capture(function):
    """A graph of what the function queues in a stream of its own."""
    stream = torch.Stream()
    stream.wait_stream(torch.accelerator.current_stream())
    with stream:
        function()  # once before, as libraries do
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with stream, graph:
        function()
    torch.accelerator.synchronize()
    return graph


@check(call="graph.replay()", write=WRITE, page=PAGE, needs=NEEDS)
def replays_with_new_inputs(device):
    """A replay computes with what its inputs hold now."""
    x = torch.zeros(4, device=device.at())
    out = torch.zeros(4, device=device.at())
    graph = capture(lambda: out.copy_(x * 2 + 1))
    for value in (3.0, -1.0):
        x.fill_(value)
        graph.replay()
        torch.accelerator.synchronize()
        device.expect_close(out, torch.full((4,), 2 * value + 1), f"for {value}")


@check(
    call="with torch.accelerator.Graph(): ...",
    write="Work that is captured does not run.",
    page=PAGE,
    needs=NEEDS,
)
def capture_runs_nothing(device):
    """What is captured does not run until it is replayed."""
    x = torch.zeros(4, device=device.at())
    graph = capture(lambda: x.add_(1))
    device.expect_close(x, torch.ones(4), "after one call and one capture")
    graph.replay()
    graph.replay()
    torch.accelerator.synchronize()
    device.expect_close(x, torch.full((4,), 3.0), "after two replays")


@check(
    call="graph.pool()",
    write="Memory of a capture comes from a pool of its own and is kept with the graph.",
    page=PAGE,
    needs=NEEDS,
)
def memory_of_a_graph_is_kept(device):
    """Other tensors do not take the memory that a graph writes to."""
    x = torch.ones(1 << 16, device=device.at())
    kept = []

    def step():
        kept[:] = [(x * 2).relu() + 1]

    graph = capture(step)
    others = [torch.full((1 << 16,), -5.0, device=device.at()) for _ in range(8)]
    graph.replay()
    torch.accelerator.synchronize()
    device.expect_close(kept[0], torch.full((1 << 16,), 3.0), "the graph's result")
    for other in others:
        device.expect_close(other, torch.full((1 << 16,), -5.0), "another tensor")


@check(
    call="torch.rand() in a graph",
    write="The generator registers with the graph: each replay advances its state.",
    page=PAGE,
    needs=NEEDS,
)
def random_numbers_advance(device):
    """Each replay draws new random numbers."""
    out = torch.zeros(64, device=device.at())
    graph = capture(lambda: out.uniform_())
    drawn = []
    for _ in range(2):
        graph.replay()
        torch.accelerator.synchronize()
        drawn.append(out.cpu())
    expect(not drawn[0].equal(drawn[1]), "two replays draw the same numbers")


@check(
    call="x.item() during capture",
    write="What needs data on the host is refused during capture, and the graph with it.",
    page=PAGE,
    needs=NEEDS,
    own_process=True,
)
def needing_data_is_refused(device):
    """A capture that needs data on the host fails, and the device works on."""
    x = torch.ones(4, device=device.at())
    expect_error(lambda: capture(lambda: x.sum().item()), "item() during capture")
    device.expect_close(x + 1, torch.full((4,), 2.0), "afterwards")
