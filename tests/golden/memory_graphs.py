"""The memory of graphs: private pools, alone and shared."""

import torch
from memory_trace import trace
from observer import Graph


def graphs(t, share):
    m, keep = t.o.m, []
    x = torch.ones(1 << 20, device=t.o.device)
    x.add_(1), t.o.sync()
    yield t.step("static input")

    def capture():
        graph = Graph()
        options = {"pool": keep[0][0].pool()} if share and keep else {}
        with m.graph(graph, **options):
            y = (x * 2 + 1).relu()
        keep.append((graph, y))

    def drop():
        keep[:] = [(graph, None) for graph, _ in keep]

    for number in range(2):
        yield t.step(f"capture {number}", capture)
    yield t.step("replay both", lambda: [graph.replay() for graph, _ in keep] and None)
    yield t.synchronize()
    yield t.empty_cache()
    yield t.step("drop outputs", drop)
    yield t.empty_cache()
    yield t.step("reset graphs", lambda: [graph.reset() for graph, _ in keep] and None)
    yield t.empty_cache()
    del keep[0]
    yield t.step("graphs deleted")  # but for the last one, which a name still held


@trace("graph_private_pools")
def _(t):
    return graphs(t, share=False)


@trace("graph_shared_pool")
def _(t):
    return graphs(t, share=True)
