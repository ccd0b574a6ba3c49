"""Random numbers in graphs: none at the capture, new ones in each replay."""

import pytest
import torch

m = torch.openreg
DEVICE = "openreg"


def captured(function, *generators):
    graph = m.OpenRegGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with m.graph(graph):
        result = function()
    return graph, result


def state():
    return m.get_rng_state().tolist()


def test_nothing_is_drawn_before_the_first_replay():
    m.manual_seed(5)
    before = state()
    captured(lambda: torch.rand(4, device=DEVICE))
    assert state() == before


def test_replays_draw_what_eager_calls_would():
    graph, x = captured(lambda: torch.rand(4, device=DEVICE).normal_().uniform_())
    m.manual_seed(5)
    replayed = []
    for _ in range(3):
        graph.replay()
        replayed.append(x.tolist())
    after = state()
    m.manual_seed(5)
    eager = [torch.rand(4, device=DEVICE).normal_().uniform_() for _ in range(3)]
    assert replayed == [e.tolist() for e in eager]
    assert state() == after


def test_eager_draws_and_replays_take_turns():
    graph, x = captured(lambda: torch.rand(4, device=DEVICE))
    m.manual_seed(5)
    expected = torch.rand(12, device=DEVICE).tolist()
    m.manual_seed(5)
    first = torch.rand(4, device=DEVICE)
    graph.replay()
    last = torch.rand(4, device=DEVICE)
    assert [*first.tolist(), *x.tolist(), *last.tolist()] == expected


def test_replays_in_other_streams_draw_in_the_order_of_the_program(hold):
    graph, x = captured(lambda: torch.rand(4, device=DEVICE))
    m.manual_seed(5)
    expected = torch.rand(8, device=DEVICE).tolist()
    m.manual_seed(5)
    one, two = m.Stream(), m.Stream()
    gate = hold(one)
    with m.stream(one):
        first = torch.rand(4, device=DEVICE)
    with m.stream(two):
        graph.replay()
    assert not two.query()  # it waits for the draw before it
    gate.open()
    m.synchronize()
    assert [*first.tolist(), *x.tolist()] == expected


def test_forked_streams_draw_in_the_order_of_the_program():
    side = m.Stream()

    def body():
        current = m.current_stream()
        first = torch.rand(4, device=DEVICE)
        side.wait_stream(current)
        with m.stream(side):
            second = torch.rand(4, device=DEVICE)
        third = torch.rand(4, device=DEVICE)
        current.wait_stream(side)
        return first, second, third

    graph, parts = captured(body)
    for _ in range(20):
        m.manual_seed(7)
        graph.replay()
        m.synchronize()
        found = [value for part in parts for value in part.tolist()]
        m.manual_seed(7)
        assert found == torch.rand(12, device=DEVICE).tolist()


def test_a_registered_generator_moves_on_with_each_replay():
    generator = torch.Generator(DEVICE).manual_seed(3)
    graph, x = captured(
        lambda: torch.rand(4, device=DEVICE, generator=generator), generator
    )
    found = []
    for _ in range(2):
        graph.replay()
        found += x.tolist()
    twin = torch.Generator(DEVICE).manual_seed(3)
    assert found == torch.rand(8, device=DEVICE, generator=twin).tolist()


def test_an_unregistered_generator_is_refused_and_the_capture_goes_on():
    generator = torch.Generator(DEVICE)
    x = torch.zeros(4, device=DEVICE)

    def body():
        with pytest.raises(RuntimeError, match="not in capture mode"):
            torch.rand(4, device=DEVICE, generator=generator)
        return x + 1

    graph, y = captured(body)
    graph.replay()
    assert y.tolist() == [1.0] * 4


def test_draws_outside_of_the_capture_are_refused_meanwhile():
    side = m.Stream()

    def body():
        with m.stream(side), pytest.raises(RuntimeError, match="outside graph capture"):
            there.uniform_()
        return torch.zeros(4, device=DEVICE)

    with m.stream(side):
        there = torch.empty(4, device=DEVICE)
    captured(body)
    torch.rand(4, device=DEVICE)


def test_seeds_and_states_are_not_set_inside_of_a_capture():
    m.manual_seed(4)
    kept = m.get_rng_state()
    generator = m.default_generators[0]

    def body():
        m.manual_seed(4)  # is what it is
        assert m.get_rng_state().tolist() == kept.tolist()
        with pytest.raises(RuntimeError, match="same as the original seed"):
            m.manual_seed(5)
        with pytest.raises(RuntimeError, match="Cannot call .*seed"):
            generator.seed()
        with pytest.raises(RuntimeError, match="Cannot call .*set_state"):
            m.set_rng_state(kept)
        return torch.rand(4, device=DEVICE)

    graph, x = captured(body)
    graph.replay()
    m.manual_seed(4)
    assert x.tolist() == torch.rand(4, device=DEVICE).tolist()


def test_a_generator_of_another_device_cannot_be_registered():
    with pytest.raises(RuntimeError, match="device type for generator"):
        m.OpenRegGraph().register_generator_state(torch.Generator())
