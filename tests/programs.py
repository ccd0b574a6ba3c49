"""Programs over tensors as data.

A program is a list of steps. Steps name tensors by numbers, counted modulo those
that there are, so every list is a program and hypothesis can shrink it. A machine
(tests/program_machine.py) runs it on openreg, with the waits that it needs and no
others, or on the CPU, where places are mere labels. Both give the same.
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch

DEVICES = (0, 1)
PLACES = ("host", "pinned", *DEVICES)
STREAMS = 3  # of each device, for each thread; the first is the default one
MOST_ELEMENTS = 50_000
DTYPES = ("bool", "uint8", "int64", "bfloat16", "float32", "float64", "complex64")
# The last has more bytes than what is run at once on an idle stream.
SHAPES = ((), (0, 3), (3,), (4, 5), (2, 3, 4), (140, 150))

# --- steps --------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """`stream` is where it runs; `order` is how it waits for other streams."""

    stream: int
    order: str

    ORDERS: ClassVar = ("event", "stream", "host")


@dataclass(frozen=True)
class Create:
    place: str | int
    dtype: str
    shape: tuple
    factor: int
    work: Work


@dataclass(frozen=True)
class Unary:
    source: int
    kind: str
    work: Work

    KINDS: ClassVar = {
        "abs": torch.abs,
        "clone": torch.clone,
        "cumsum": lambda x: x.cumsum(0),
        "exp": lambda x: x.exp(),
        "mean": lambda x: x.mean(-1),
        "neg": torch.neg,
        "nonzero": torch.nonzero,
        "sort": lambda x: x.sort(dim=-1, stable=True).values,
        "sum": torch.sum,
        "tril": torch.tril,
    }


@dataclass(frozen=True)
class View(Unary):
    KINDS: ClassVar = {
        "conj": lambda x: x.conj(),
        "contiguous": lambda x: x.contiguous(),  # copies if it must
        "diagonal": lambda x: x.diagonal(),
        "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape),
        "head": lambda x: x[:2],
        "imag": lambda x: x.conj().imag,  # has the neg bit
        "reshape": lambda x: x.reshape(-1),  # copies if it must
        "select": lambda x: x.select(-1, 0),
        "slice": lambda x: x[..., 1::2],
        "transpose": lambda x: x.transpose(0, -1),
    }


@dataclass(frozen=True)
class Binary:
    first: int
    second: int
    kind: str
    work: Work

    KINDS: ClassVar = {
        "add": torch.add,
        "cat": lambda x, y: torch.cat([x, y]),
        "eq": torch.eq,
        "maximum": torch.maximum,
        "matmul": torch.matmul,
        "mul": torch.mul,
        "sub": functools.partial(torch.sub, alpha=2),
        "where": lambda x, y: torch.where(x.bool(), x, y),
        # Into a tensor that gets its size there.
        "out": lambda x, y: torch.add(x, y, out=torch.empty_like(x).resize_(0)),
    }


@dataclass(frozen=True)
class Change:
    """Writes to the target and may read the source."""

    target: int
    source: int
    kind: str
    work: Work

    KINDS: ClassVar = {
        "add_": lambda x, y: x.add_(y, alpha=3),
        "clamp_": lambda x, y: x.clamp_(-2, 2),
        "fill_": lambda x, y: x.fill_(3),
        "masked_fill_": lambda x, y: x.masked_fill_(y.bool(), 2),
        "mul_": lambda x, y: x.mul_(y),
        "neg_": lambda x, y: x.neg_(),
        "out": lambda x, y: torch.add(y, 1, out=x) if x.shape == y.shape else None,
        "zero_": lambda x, y: x.zero_(),
    }


@dataclass(frozen=True)
class Draw:
    """Random numbers, from the generator of the tensor's device."""

    target: int
    kind: str
    work: Work

    KINDS: ClassVar = {
        "bernoulli_": lambda x, g: x.bernoulli_(0.4, generator=g),
        "exponential_": lambda x, g: x.exponential_(generator=g),
        "normal_": lambda x, g: x.normal_(generator=g),
        "random_": lambda x, g: x.random_(0, 2, generator=g),
        "uniform_": lambda x, g: x.uniform_(generator=g),
    }


@dataclass(frozen=True)
class Move:
    """A copy at another place."""

    source: int
    place: str | int
    dtype: str
    non_blocking: bool
    work: Work


@dataclass(frozen=True)
class Assign:
    """Copies into a tensor, whatever the places of both."""

    target: int
    source: int
    non_blocking: bool
    work: Work


@dataclass(frozen=True)
class Free:
    """Frees a tensor while work on it may be queued."""

    target: int
    how: str

    HOWS: ClassVar = ("record_stream", "wait")
