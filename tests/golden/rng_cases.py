"""Random numbers: the state, and which sequences repeat."""

import threading

import torch
from observer import case


def draw(o, n=4, **options):
    return torch.rand(n, device=o.device, **options).tolist()


def shape(state):
    return [str(state.dtype), list(state.shape), str(state.device)]


@case("rng", "state_shape")
def _(o):
    m, make = o.m, lambda: torch.Generator(o.device)
    label = "unseeded default generator has the fixed default seed"
    yield label, lambda: m.initial_seed() == 67280421310721
    yield "module state", lambda: shape(m.get_rng_state())
    yield "generator state", lambda: shape(make().get_state())
    yield "generator device", lambda: str(make().device)
    yield "new generator's seed", lambda: make().initial_seed()
    states = m.get_rng_state_all()
    yield "all states", lambda: [len(states) == m.device_count(), type(states).__name__]
    defaults = m.default_generators
    yield (
        "default_generators",
        lambda: [type(defaults).__name__, len(defaults) == m.device_count()],
    )
    yield "seed() returns", lambda: type(make().seed()).__name__
    g = make()
    yield "manual_seed returns the generator", lambda: g.manual_seed(1) is g
    yield "module manual_seed returns", lambda: m.manual_seed(1)
    yield "initial_seed after", m.initial_seed
    m.seed()
    yield "module seed", lambda: m.initial_seed() != 1
    yield "seed_all", m.seed_all


@case("rng", "lazy_seed")
def _(o):
    o.m.manual_seed(11)
    yield "not initialised by seeding", o.m.is_initialized
    first = draw(o)
    o.m.manual_seed(11)
    yield "seed before initialisation counts", lambda: draw(o) == first


@case("rng", "apart_from_the_cpu")
def _(o):
    torch.manual_seed(3)
    first = torch.rand(4).tolist()
    torch.manual_seed(3)
    draw(o)
    label = "device draws leave the cpu generator alone"
    yield label, lambda: torch.rand(4).tolist() == first
    state = torch.get_rng_state()
    o.m.manual_seed(9)
    label = "device seeding leaves it alone"
    yield label, lambda: torch.equal(state, torch.get_rng_state())


@case("rng", "offsets")
def _(o):
    g = torch.Generator(o.device).manual_seed(1)
    yield "fresh", g.get_offset
    first = draw(o, generator=g)
    yield "after rand(4)", g.get_offset
    again = "set_offset(0) repeats"
    yield again, lambda: (g.set_offset(0), draw(o, generator=g) == first)[1]
    read_back = "set_offset is read back"
    yield read_back, lambda: (g.set_offset(400), g.get_offset())[1]
    g.manual_seed(1)
    yield "seeding clears it", g.get_offset
    yield "unaligned", lambda: g.set_offset(3)
    yield "state holds it", lambda: (g.set_offset(8), g.get_state()[8:].tolist())[1]


@case("rng", "fork_rng")
def _(o):
    def enter(**options):
        with torch.random.fork_rng(**options):
            return None

    def inside():
        with torch.random.fork_rng(devices=[0], device_type=o.device):
            torch.manual_seed(99)
            return draw(o)

    o.m.manual_seed(1)
    first, second = draw(o), draw(o)
    o.m.manual_seed(1)
    draw(o)
    yield "inside differs", lambda: inside() != second
    yield "restored", lambda: draw(o) == second
    yield "a and b differ", lambda: first != second
    yield "default device_type argument", lambda: enter(device_type=o.device)
    yield "disabled", lambda: enter(enabled=False, device_type=o.device)
    yield "unknown device type", lambda: enter(device_type="nosuch")


@case("rng", "streams_and_threads")
def _(o):
    def on(stream):
        o.m.manual_seed(5)
        x = o.on(stream, lambda: torch.rand(1000, device=o.device))
        o.sync()
        return x.tolist()

    streams = [o.m.Stream(), o.m.Stream(), o.m.current_stream()]
    drawn = [on(stream) for stream in streams]
    yield "same seed, other stream", lambda: drawn[0] == drawn[1] == drawn[2]
    o.m.manual_seed(5)
    first, seen = draw(o), []
    o.m.manual_seed(5)
    thread = threading.Thread(target=lambda: seen.append(draw(o)))
    thread.start()
    thread.join()
    yield "generator is shared with threads", lambda: seen == [first]
    yield "and has moved on", lambda: draw(o) != first


@case("rng", "layout_independence")
def _(o):
    def seeded(*size):
        o.m.manual_seed(5)
        return torch.rand(size, device=o.device)

    def halves():
        return torch.cat([seeded(32), torch.rand(32, device=o.device)])

    yield "shape does not matter", lambda: seeded(64).equal(seeded(8, 8).reshape(64))
    yield "prefix of a longer draw", lambda: seeded(64).equal(seeded(1000)[:64])
    yield "two halves equal one draw", lambda: halves().equal(seeded(64))
    many = seeded(100000)
    yield "bounds", lambda: [bool((many >= 0).all()), bool((many < 1).all())]
    yield "mean near a half", lambda: abs(many.mean().item() - 0.5) < 0.01
