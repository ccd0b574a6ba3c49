"""What the sanitizer found, as objects and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ._places import Stack, own, stack, stream_name, tensor_name


@dataclass(frozen=True)
class Access:
    """One of the two uses of memory that a finding is about."""

    operator: str
    writes: bool
    stream: str
    frames: Stack  # innermost first
    forward: Stack = ()  # where the forward operator was called, in a backward pass
    node: str = ""  # autograd's, in a backward pass
    replayed: Stack = ()  # where the graph was replayed that it is a node of

    @property
    def verb(self) -> str:
        return "writes" if self.writes else "reads"

    @property
    def frame(self) -> Any:
        """The line of the program; None if no Python was being run."""
        return next(iter(own(self.frames or self.forward or self.replayed)), None)

    @property
    def line(self) -> str:
        return f"line {self.frame.line}" if self.frame else self.operator

    def lines(self) -> list[str]:
        text = [f"{self.operator} {self.verb} in {self.stream}"]
        if self.stream == "the host":
            text = [f"the host {self.verb} in {self.operator}"]
        if self.node:
            text[0] += f", for {self.node} of a backward pass"
        text += _stack_lines(self.frames)
        if self.forward:
            text += [
                "  the forward operator was called at",
                *_stack_lines(self.forward),
            ]
        if self.replayed:
            text += ["  captured there, and replayed at", *_stack_lines(self.replayed)]
        return text


def _stack_lines(frames: Stack) -> list[str]:
    lines = []
    for frame in own(frames)[:4]:
        lines.append(f"    {frame}")
        if frame.code:
            lines.append(f"      {frame.code}")
    return lines


@dataclass
class Finding:
    """A bug, with the places that it is made of."""

    kind: str
    check: str
    title: str
    advice: str
    earlier: Access | None
    later: Access | None
    first_byte: int  # within the allocation
    last_byte: int  # the one behind the last
    allocation: int  # its bytes; 0 if it is not known
    tensor: str | None
    allocated: Stack = ()
    freed: Stack = ()
    count: int = 1  # how often it was found
    page: str | None = field(default=None)  # the file with its picture

    @property
    def cause(self) -> tuple[object, ...]:
        """Findings with the same cause are one."""
        places = (self.earlier, self.later)
        return (
            self.kind,
            *((a.operator, a.frame) if a else None for a in places),
            own(self.allocated)[:1] if self.later is None else None,
        )

    @property
    def memory(self) -> str:
        name = f" of `{self.tensor}`" if self.tensor else ""
        whole = f" of {self.allocation}" if self.allocation else ""
        return f"bytes [{self.first_byte}, {self.last_byte}){whole}{name}"

    def __str__(self) -> str:
        lines = [f"openreg sanitizer: {self.kind}: {self.title}"]
        if self.earlier:
            lines += _indented("first: ", self.earlier.lines())
        if self.later:
            lines += _indented("then:  " if self.earlier else "", self.later.lines())
        if self.allocated:
            made = "allocated at" if self.last_byte else "made at"
            lines += _indented("", [made, *_stack_lines(self.allocated)])
        if self.freed:
            lines += _indented("", ["freed at", *_stack_lines(self.freed)])
        if self.last_byte:
            lines.append(f"  memory: {self.memory}")
        return "\n".join([*lines, f"  {self.advice}"])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _indented(label: str, lines: list[str]) -> list[str]:
    return [f"  {label}{lines[0]}", *(f"  {line}" for line in lines[1:])]


# --- from what C++ tells ------------------------------------------------------


def _access(raw: dict[str, Any] | None) -> Access | None:
    if raw is None:
        return None
    replayed = raw["replayed"]
    return Access(
        raw["name"],
        raw["writes"],
        stream_name(raw["device"], raw["stream"]),
        stack(raw["frames"]),
        stack(raw["forward"]),
        raw["node"],
        stack(replayed["frames"]) if replayed else (),
    )


def _place(block: dict[str, Any] | None, which: str) -> Stack:
    return stack(block[which]["frames"]) if block and block[which] else ()


def _race(earlier: Access, later: Access, memory: str) -> tuple[str, str]:
    title = (
        f"{later.operator} {later.verb} {memory}, which {earlier.operator} "
        f"{earlier.verb}, and nothing orders the two"
    )
    if later.stream == "the host":
        return title, (
            f"Wait on the host before {later.line}: {earlier.stream} may not have run "
            f"{earlier.operator} of {earlier.line} yet. Call synchronize() of the "
            "stream, or of an event that is recorded on it after the copy."
        )
    return title, (
        f"Record an event on {earlier.stream} after {earlier.operator} of "
        f"{earlier.line}, and make {later.stream} wait for it before {later.line}: "
        "later.wait_stream(earlier), or event.wait(later)."
    )


def _reuse(earlier: Access, later: Access, memory: str) -> tuple[str, str]:
    return (
        f"{later.operator} {later.verb} {memory}, which were freed while "
        f"{earlier.operator} of another stream may still {earlier.verb[:-1]} them",
        f"Call tensor.record_stream() with {earlier.stream} before the tensor of "
        f"{earlier.line} is freed, or make {later.stream} wait for that stream first.",
    )


def _use_after_free(_: None, later: Access, memory: str) -> tuple[str, str]:
    return (
        f"{later.operator} {later.verb} {memory}, which were freed before the call",
        "Keep the tensor alive until the call that uses its memory, and take the "
        "pointer from it again for each call.",
    )


def _out_of_bounds(_: None, later: Access, memory: str) -> tuple[str, str]:
    side = "before its start" if memory.startswith("bytes [-") else "behind its end"
    return (
        f"{later.operator} {later.verb} {memory}: they lie {side}",
        "Check the sizes and strides that were computed for the call against the "
        "bytes of the tensor.",
    )


def _overwritten(earlier: Access, later: Access | None, memory: str) -> tuple[str, str]:
    writer = f"the host writes in {later.operator}" if later else "changed"
    return (
        f"{earlier.operator} {earlier.verb} {memory}, which {writer} before the host "
        "waited for it",
        f"Wait on the host before the memory is written to: {earlier.stream} may not "
        f"have run {earlier.operator} of {earlier.line} yet. Call synchronize() of the "
        "stream, or of an event that is recorded on it after the copy.",
    )


def _uninitialized(_: None, later: Access, memory: str) -> tuple[str, str]:
    return (
        f"{later.operator} depends on {memory}, which nobody has written",
        "Fill the memory first: zeros() or full() in place of empty(), or the copy "
        "that was meant to come before.",
    )


def make_leak(kind: str, size: int, allocated: Stack) -> Finding:
    """Something that is left at the end."""
    what = {
        "device-memory": f"{size} bytes of device memory",
        "pinned-memory": f"{size} bytes of pinned memory",
        "event": "an event",
        "graph": "a graph",
    }[kind]
    return Finding(
        kind,
        CHECK_OF[kind],
        f"{what} made here is left",
        "Drop the last reference to it: a global, a cache, a list that grows, or a "
        "reference cycle keeps it.",
        None,
        None,
        0,
        size,
        size,
        None,
        allocated,
    )


def _tensor_of(raw: dict[str, Any]) -> str | None:
    """Bytes out of bounds belong to no tensor; they count for the tensor next to them."""
    begin, end, block = raw["begin"], raw["end"], raw["block"]
    if raw["kind"] == "out-of-bounds" and block:
        begin, end = block["begin"], block["end"]
    return tensor_name(begin, end)


def make(raw: dict[str, Any]) -> Finding:
    """A finding from the dictionary that C++ gives, on the thread that it is about."""
    earlier, later = _access(raw["earlier"]), _access(raw["later"])
    block = raw["block"]
    start = block["begin"] if block else raw["begin"]
    finding = Finding(
        raw["kind"],
        CHECK_OF[raw["kind"]],
        "",
        "",
        earlier,
        later,
        raw["begin"] - start,
        raw["end"] - start,
        block["end"] - block["begin"] if block else 0,
        _tensor_of(raw),
        _place(block, "allocated"),
        _place(block, "freed"),
    )
    sentences = _SENTENCES[raw["kind"]]
    finding.title, finding.advice = sentences(earlier, later, finding.memory)
    return finding


_SENTENCES: dict[str, Any] = {
    "race": _race,
    "reuse": _reuse,
    "use-after-free": _use_after_free,
    "out-of-bounds": _out_of_bounds,
    "overwritten": _overwritten,
    "uninitialized": _uninitialized,
}
CHECK_OF = {
    "race": "race",
    "reuse": "race",
    "use-after-free": "memory",
    "out-of-bounds": "memory",
    "overwritten": "memory",
    "uninitialized": "init",
    "device-memory": "leak",
    "pinned-memory": "leak",
    "event": "leak",
    "graph": "leak",
}
