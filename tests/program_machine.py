"""The machine that runs the programs of tests/programs.py, on the device or the CPU."""

import contextlib
import functools
from dataclasses import dataclass, field

import torch
from device_name import NAME, m
from programs import DEVICES, MOST_ELEMENTS, STREAMS, Create


@functools.cache
def streams_of(thread, device):
    side = [m.Stream(device) for _ in range(STREAMS - 1)]
    return [m.default_stream(device), *side]


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
            device: torch.Generator(f"{NAME}:{device}" if real else "cpu")
            for device in DEVICES
        }
        for device, generator in self.generators.items():
            generator.manual_seed(10 * thread + device)

    def run(self, steps):
        """Returns what is left, on the CPU and with its strides, and the errors."""
        self.take(steps)
        found = []
        for slot in self.slots:
            self.host_waits(slot.memory.uses)
            found.append((slot.tensor.cpu(), slot.tensor.stride()))
        return found, self.errors

    def take(self, steps):
        """Takes the steps for which there are tensors."""
        for step in steps:
            if not self.slots and not isinstance(step, Create):
                continue
            try:
                getattr(self, type(step).__name__.lower())(step)
            except torch.AcceleratorError:
                raise
            except (RuntimeError, TypeError, IndexError) as error:
                self.errors.append((step, type(error)))

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
        return f"{NAME}:{place}" if self.real and place in DEVICES else "cpu"

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
        with m.stream(stream):
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
                stack.enter_context(m.stream(stream))
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
