"""How requests are rounded, split, reused and joined again."""

import functools

from memory_trace import KIB, MIB, trace


def each(numbers, size):
    return {f"t{n}": size(n) for n in numbers}


def names(numbers):
    return [f"t{n}" for n in numbers]


@trace("zero_bytes")
def _(t):
    return t.alloc(a=0), t.free("a")


@trace("small_segment_odd")
def _(t):
    return (
        t.alloc(**each(range(4), lambda n: 700 * KIB)),
        t.free("t1"),
        t.alloc(u=300 * KIB, v=300 * KIB),
    )


@trace("boundary_10mib")
def _(t):
    return (
        t.alloc(a=10 * MIB - 1, b=10 * MIB, c=10 * MIB + 1),
        t.free("a", "b", "c"),
        t.empty_cache(),
    )


@trace("round_2mib")
def _(t):
    return t.alloc(**each(range(10, 15), lambda n: n * MIB + 1)), t.empty_cache()


@trace("large_sizes")
def _(t):
    return (
        t.alloc(a=100 * MIB, b=300 * MIB, c=33 * MIB + 3),
        t.free("b"),
        t.alloc(d=200 * MIB),
        t.free("a", "c", "d"),
        t.empty_cache(),
    )


@trace("split_large")
def _(t):
    return (
        t.alloc(a=40 * MIB),
        t.free("a"),
        t.alloc(b=10 * MIB, c=10 * MIB, d=20 * MIB),
        t.free("c", "b", "d"),
        t.empty_cache(),
    )


@trace("split_remainder_large")
def _(t):
    sizes = {"a": 12 * MIB, "b": 11 * MIB, "c": 11 * MIB - 512, "d": 11 * MIB + 512}
    for name, size in sizes.items():
        yield t.alloc(**{name: size})
        yield t.free(name)


@trace("split_remainder_small")
def _(t):
    return (
        t.alloc(a=2 * MIB - 512),
        t.free("a"),
        t.alloc(b=MIB, c=MIB - 512, d=512),
        t.free("b", "c", "d"),
    )


@trace("best_fit_prefers_smallest")
def _(t):
    return (
        t.alloc(**each((64, 128, 256, 512), lambda n: n * KIB)),
        t.free("t256", "t64", "t512", "t128"),
        t.alloc(x=100 * KIB, y=200 * KIB, z=60 * KIB),
    )


@trace("coalesce_middle_last")
def _(t):
    return (
        t.alloc(a=4 * MIB, b=4 * MIB, c=4 * MIB),
        t.free("a", "c", "b"),
        t.empty_cache(),
    )


@trace("empty_cache_keeps_split")
def _(t):
    return (
        t.alloc(a=4 * MIB, b=4 * MIB),
        t.free("a"),
        t.empty_cache(),
        t.free("b"),
        t.empty_cache(),
    )


@trace("fragmented_small")
def _(t):
    return (
        t.alloc(**each(range(24), lambda n: 100 * KIB)),
        t.free(*names(range(0, 24, 2))),
        t.empty_cache(),
        t.alloc(x=150 * KIB, y=90 * KIB),
        t.free(*names(range(1, 24, 2))),
        t.empty_cache(),
    )


@trace("ladder")
def _(t):
    return (
        t.alloc(**each(range(18), lambda n: 3**n)),
        t.free(*names(reversed(range(18)))),
        t.empty_cache(),
    )


# --- random sequences ---------------------------------------------------------


def numbers_from(seed):
    """The generator that the record was made with."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        yield seed >> 33


class Random:
    def __init__(self, t, seed, streams, top):
        self.t = t
        self.streams = streams
        self.top = top
        self.numbers = numbers_from(seed)
        self.live = []
        self.done = 0

    def below(self, bound):
        return next(self.numbers) % bound

    def allocate_or_free(self):
        if self.live and self.below(5) < 2:
            self.t.drop(self.live.pop(self.below(len(self.live))))
        else:
            least = 1 << self.below(self.top)
            size = least + self.below(least)
            stream = self.below(self.streams) if self.streams > 1 else None
            name = f"t{self.done}"
            self.t.make(name, size, stream)
            self.live.append(name)
        self.done += 1
        if self.done % 97 == 0:
            self.t.o.m.empty_cache()

    def allocate_and_free(self, count):
        for _ in range(count):
            self.allocate_or_free()


def random(t, seed, count, streams, top):
    """`count` operations, with a look at the figures after every 20."""
    program = Random(t, seed, streams, top)
    for done in range(20, count + 1, 20):
        yield t.step(f"step {done}", lambda: program.allocate_and_free(20))
    for name in program.live[:-1]:
        t.drop(name)
    yield t.free(program.live[-1])
    yield t.empty_cache()


for seed, count, streams, top in [
    (1, 300, 1, 26),
    (2, 300, 1, 20),
    (3, 200, 1, 28),
    (4, 300, 3, 24),
]:
    trace(f"random_{seed}")(
        functools.partial(random, seed=seed, count=count, streams=streams, top=top)
    )
