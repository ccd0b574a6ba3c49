"""Programs over tensors as data, and a machine that runs them.

A program is a list of steps. Steps name tensors by numbers, counted modulo those
that there are, so every list is a program and hypothesis can shrink it. The
machine runs it on openreg, with the waits that it needs and no others, or on the
CPU, where places are mere labels. Both give the same.
"""

import contextlib
import functools
from dataclasses import dataclass, field
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


# --- the machine --------------------------------------------------------------


@functools.cache
def streams_of(thread, device):
    side = [torch.openreg.Stream(device) for _ in range(STREAMS - 1)]
    return [torch.openreg.default_stream(device), *side]


@dataclass
class Memory:
    """A piece of memory and the uses to wait for: by stream, (stream, event)."""

    place: str | int
    home: object = None  # the stream it was made in
    writes: dict = field(default_factory=dict)
    reads: dict = field(default_factory=dict)

    @property
    def uses(self):
        return [*self.writes.values(), *self.reads.values()]


@dataclass
class Slot:
    tensor: torch.Tensor
    memory: Memory

    @property
    def place(self):
        return self.memory.place

    @property
    def device(self):
        """None for the host."""
        return self.place if self.place in DEVICES else None


def may_be_cast(source, target):
    """Whether C++ says what becomes of a number that does not fit."""
    whole = not (source.is_floating_point or source.is_complex)
    inexact = target.is_floating_point or target.is_complex
    return whole or inexact or target == torch.bool


def same_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


class Machine:
    def __init__(self, real, thread=0):
        self.real, self.thread = real, thread
        self.slots, self.errors = [], []
        self.generators = {
            device: torch.Generator(f"openreg:{device}" if real else "cpu")
            for device in DEVICES
        }
        for device, generator in self.generators.items():
            generator.manual_seed(10 * thread + device)

    def run(self, steps):
        """Returns what is left, on the CPU and with its strides, and the errors."""
        for step in steps:
            if not self.slots and not isinstance(step, Create):
                continue
            try:
                getattr(self, type(step).__name__.lower())(step)
            except torch.AcceleratorError:
                raise
            except (RuntimeError, TypeError, IndexError) as error:
                self.errors.append((step, type(error)))
        found = []
        for slot in self.slots:
            self.host_waits(slot.memory.uses)
            found.append((slot.tensor.cpu(), slot.tensor.stride()))
        return found, self.errors

    # --- the steps

    def create(self, step):
        size, pinned = torch.Size(step.shape), step.place == "pinned"
        options = {"dtype": torch.int64, "device": self.device_of(step.place)}

        def make():
            numbers = torch.arange(size.numel(), **options).mul_(step.factor)
            numbers = numbers.remainder_(11).sub_(5)
            tensor = numbers.to(getattr(torch, step.dtype)).view(size)
            return tensor.pin_memory() if self.real and pinned else tensor

        self.do(step.work, make, step.place)

    def unary(self, step):
        self.compute(step, step.source)

    view = unary

    def binary(self, step):
        self.compute(step, step.first, step.second)

    def compute(self, step, *numbers):
        slots = self.pick(*numbers)
        tensors = [slot.tensor for slot in slots]
        if not is_large(step.kind, tensors):
            function = functools.partial(step.KINDS[step.kind], *tensors)
            place = "host" if slots[0].device is None else slots[0].device
            self.do(step.work, function, place, reads=slots)

    def change(self, step):
        target, source = self.pick(step.target, step.source)

        def function():
            step.KINDS[step.kind](target.tensor, source.tensor)

        if may_be_cast(source.tensor.dtype, target.tensor.dtype):
            self.do(step.work, function, target.place, [source], [target])

    def draw(self, step):
        (target,) = self.pick(step.target)

        def function():
            step.KINDS[step.kind](target.tensor, self.generators[target.device])

        if target.device is not None:
            self.do(step.work, function, target.place, writes=[target])

    def move(self, step):
        source = self.slots[step.source % len(self.slots)]
        dtype = getattr(torch, step.dtype)
        if not may_be_cast(source.tensor.dtype, dtype):
            dtype = source.tensor.dtype

        def function():
            if step.place == "pinned":
                empty = torch.empty_like(
                    source.tensor, dtype=dtype, device="cpu", pin_memory=self.real
                )
                return empty.copy_(source.tensor, non_blocking=step.non_blocking)
            return source.tensor.to(
                self.device_of(step.place), dtype, step.non_blocking, copy=True
            )

        self.copy(step, function, step.place, source)

    def assign(self, step):
        target = self.slots[step.target % len(self.slots)]
        source = self.slots[step.source % len(self.slots)]
        if may_be_cast(source.tensor.dtype, target.tensor.dtype):

            def function():
                target.tensor.copy_(source.tensor, non_blocking=step.non_blocking)

            self.copy(step, function, target.place, source, target)

    def free(self, step):
        slot = self.slots.pop(step.target % len(self.slots))
        memory = slot.memory
        if not self.real or any(other.memory is memory for other in self.slots):
            return
        if slot.device is None:
            # Of pinned memory PyTorch knows that a copy uses it.
            if slot.place == "host":
                self.host_waits(memory.uses)
            return
        for stream, event in memory.uses:
            if stream == memory.home:
                continue
            if step.how == "record_stream":
                slot.tensor.record_stream(stream)
            else:
                memory.home.wait_event(event)

    # --- where and when things run

    def device_of(self, place):
        return f"openreg:{place}" if self.real and place in DEVICES else "cpu"

    def stream(self, device, work):
        return streams_of(self.thread, device)[work.stream % STREAMS]

    def pick(self, *numbers):
        """The tensors of these numbers; all after the first from its device."""
        first = self.slots[numbers[0] % len(self.slots)]
        near = [slot for slot in self.slots if slot.device == first.device]
        return [first, *(near[number % len(near)] for number in numbers[1:])]

    def do(self, work, function, place, reads=(), writes=()):
        """Runs a function at one place, after what it depends on."""
        if not self.real or place not in DEVICES:
            self.depend(None, "host", reads, writes)
            self.keep(function(), place, None, reads)
            return
        stream = self.stream(place, work)
        self.depend(stream, work.order, reads, writes)
        with torch.openreg.stream(stream):
            try:
                self.keep(function(), place, stream, reads)
            finally:
                self.note(stream, reads, writes)

    def copy(self, step, function, place, source, target=None):
        """Runs a copy from `source` to `target` or to new memory at `place`."""
        writes = [] if target is None else [target]
        devices = {where for where in (source.place, place) if where in DEVICES}
        if not self.real or not devices:
            self.do(step.work, function, place, [source], writes)
            return
        order = step.work.order
        streams = {where: self.stream(where, step.work) for where in devices}
        mine = streams.get(source.place) or streams[place]
        other = streams.get(place) or mine
        # The host may take part in a copy that changes dtype or strides.
        for slot in (source, *writes):
            if slot.device is None:
                self.host_waits(slot.memory.uses)
        self.depend(mine, order, [source], [])
        self.depend(other, order, [], writes)
        with contextlib.ExitStack() as stack:
            for stream in streams.values():
                stack.enter_context(torch.openreg.stream(stream))
            try:
                self.keep(function(), place, other, [])
            finally:
                self.note(mine, [source], [])
                self.note(other, [], writes)

    def depend(self, stream, order, reads, writes):
        """Has a stream, or the host if there is none, wait for earlier uses."""
        uses = [use for slot in reads for use in slot.memory.writes.values()]
        uses += [use for slot in writes for use in slot.memory.uses]
        if order == "host":
            self.host_waits(uses)
            return
        for other, event in uses:
            if other == stream:
                continue
            if order == "event":
                stream.wait_event(event)
            else:
                stream.wait_stream(other)

    def host_waits(self, uses):
        for _, event in uses:
            event.synchronize()

    def note(self, stream, reads, writes):
        use = stream, stream.record_event()
        for slot in reads:
            slot.memory.reads[stream] = use
        for slot in writes:
            # It waited for all the others.
            slot.memory.writes, slot.memory.reads = {stream: use}, {}

    def keep(self, tensor, place, stream, sources):
        """Makes a result the newest slot; it may be a view of a source."""
        if tensor is None:
            return
        for slot in sources:
            if same_storage(tensor, slot.tensor):
                self.slots.append(Slot(tensor, slot.memory))
                return
        self.slots.append(Slot(tensor, Memory(place, stream)))
        if stream is not None:
            self.note(stream, [], self.slots[-1:])


def is_large(kind, tensors):
    """Whether the result may have too many elements, or too many dimensions."""
    shapes = [tensor.shape for tensor in tensors]
    if kind == "matmul":
        return any(len(shape) > 2 for shape in shapes)
    if sum(shape.numel() for shape in shapes) > MOST_ELEMENTS:
        return True
    try:
        return torch.broadcast_shapes(*shapes).numel() > MOST_ELEMENTS
    except RuntimeError:
        return False
