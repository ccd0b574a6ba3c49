"""Graphs of torch.cuda, and what a capture refuses, as PyTorch documents them."""

import gc

import torch
from walk import CHECKS, check, raised, report

cuda = torch.cuda


def captured(body, **options):
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, **options):
        body()
    return graph


@check
def a_replay_does_again_what_was_captured():
    x = torch.full((1000,), 1.0, device="cuda")
    y = {}

    def body():
        z = x
        for _ in range(3):
            z = z + 1
        y["z"] = z

    graph = captured(body)
    graph.replay()
    first = y["z"].sum().item()
    x.fill_(2.0)
    graph.replay()
    return (first, y["z"].sum().item()) == (4000.0, 5000.0)


@check
def nothing_runs_while_it_is_captured():
    x = torch.zeros(2, device="cuda")
    captured(lambda: x.add_(1))
    return x.tolist() == [0.0, 0.0]


@check
def a_capture_knows_that_it_is_one():
    seen = [cuda.is_current_stream_capturing()]
    captured(lambda: seen.append(cuda.is_current_stream_capturing()))
    return seen == [False, True]


@check
def waiting_is_an_error_in_a_capture():
    x = torch.ones(2, device="cuda")
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        graph = cuda.CUDAGraph()
        graph.capture_begin()
        failed = raised(RuntimeError, cuda.synchronize)
        raised(RuntimeError, graph.capture_end)
    cuda.current_stream().wait_stream(side)
    return bool(failed) and x.sum().item() == 2


@check
def an_error_in_a_capture_ends_it():
    def body():
        raise KeyError("mine")

    error = raised(KeyError, lambda: captured(body))
    return "mine" in str(error) and not cuda.is_current_stream_capturing()


@check
def a_capture_that_is_none_is_told():
    graph = cuda.CUDAGraph()
    return bool(raised(RuntimeError, graph.replay)) and bool(
        raised(RuntimeError, graph.capture_end)
    )


@check
def random_numbers_of_a_replay_go_on():
    x = torch.empty(8, device="cuda")
    torch.manual_seed(1)
    eager = [x.uniform_().clone() for _ in range(3)]
    torch.manual_seed(1)
    first = x.uniform_().clone()
    graph = captured(lambda: x.uniform_())
    seen = [first]
    for _ in range(2):
        graph.replay()
        seen.append(x.clone())
    return all(map(torch.equal, eager, seen))


@check
def random_numbers_after_a_replay_go_on():
    x = torch.empty(8, device="cuda")
    torch.manual_seed(1)
    eager = [x.normal_().clone() for _ in range(2)]
    graph = captured(lambda: x.normal_())
    torch.manual_seed(1)
    graph.replay()
    replayed = x.clone()
    return torch.equal(eager[0], replayed) and torch.equal(eager[1], x.normal_())


@check
def a_generator_is_registered_with_a_graph():
    mine = torch.Generator("cuda").manual_seed(2)
    x, graph = torch.empty(4, device="cuda"), cuda.CUDAGraph()
    graph.register_generator_state(mine)
    with cuda.graph(graph):
        x.uniform_(generator=mine)
    mine.manual_seed(2)
    graph.replay()
    first = x.clone()
    graph.replay()
    mine.manual_seed(2)
    return torch.equal(first, torch.empty_like(x).uniform_(generator=mine)) and (
        not torch.equal(first, x)
    )


@check
def graphs_of_one_pool_share_memory():
    kept = {}

    def make(name):
        kept[name] = torch.ones(1 << 20, device="cuda") + 1

    first = captured(lambda: make("a"))
    second = captured(lambda: make("b"), pool=first.pool())
    first.replay(), second.replay()
    return first.pool() == second.pool() and kept["b"].sum().item() == 2 << 20


@check
def memory_of_a_graph_goes_with_it():
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_reserved()
    kept = []
    graph = captured(lambda: kept.append(torch.ones(8 << 20, device="cuda")))
    during = cuda.memory_reserved() - before
    kept.clear()
    graph.reset()
    del graph
    gc.collect()
    cuda.empty_cache()
    return during >= 32 << 20 and cuda.memory_reserved() == before


@check
def a_result_outlives_its_graph():
    kept = []
    graph = captured(lambda: kept.append(torch.full((4,), 5.0, device="cuda")))
    graph.replay()
    cuda.synchronize()
    graph.reset()
    del graph
    return kept[0].tolist() == [5.0] * 4


@check
def an_empty_capture_is_a_warning():
    import warnings

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        captured(lambda: None)
    return str(told[0].message).startswith("The CUDA Graph is empty")


@check
def a_graph_is_captured_again_after_reset():
    x = torch.zeros(3, device="cuda")
    graph = captured(lambda: x.add_(1))
    graph.replay()
    graph.reset()
    with cuda.graph(graph):
        x.add_(10)
    graph.replay()
    return x.tolist() == [11.0] * 3


@check
def side_streams_join_a_capture():
    x, side = torch.zeros(4, device="cuda"), cuda.Stream()

    def body():
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            x.add_(2)
        cuda.current_stream().wait_stream(side)
        x.mul_(3)

    graph = captured(body)
    graph.replay()
    return x.tolist() == [6.0] * 4


@check
def a_kept_graph_is_instantiated_when_it_is_to_be():
    x = torch.zeros(1, device="cuda")
    graph = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(graph):
        x.add_(1)
    graph.instantiate()
    graph.replay()
    return x.item() == 1 and graph.raw_cuda_graph() != 0


@check
def only_a_kept_graph_has_a_handle():
    x = torch.zeros(1, device="cuda")
    graph = captured(lambda: x.add_(1))
    return bool(raised(RuntimeError, graph.raw_cuda_graph))


@check
def a_whole_training_step_is_replayed():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, capturable=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    x, y = torch.randn(8, 4, device="cuda"), torch.randn(8, 1, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(3):
            first = step().detach()
    cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    kept = []

    def body():
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        kept.append(loss)

    graph = captured(body)
    for _ in range(20):
        graph.replay()
    return kept[0].item() < first.item()


@check
def graphed_callables_have_gradients():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).cuda()
    x = torch.randn(3, 4, device="cuda")
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    graphed = cuda.make_graphed_callables(model, (torch.randn(3, 4, device="cuda"),))
    graphed(x).sum().backward()
    return all(
        torch.allclose(e, p.grad)
        for e, p in zip(expected, model.parameters(), strict=True)
    )


report(CHECKS, CHECKS)
