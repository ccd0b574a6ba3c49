"""Fault plans: which places fail, and how."""

from torch_openreg import _C

from .._lazy import _lazy_init

KINDS = ("oom", "error", "lost", "slow", "flip", "drop-rank")
SITES = ("alloc", "launch", "copy", "capture", "collective")


class Plan:
    """A fault plan, in force inside its context. Made by :func:`plan`.

    Attributes:
        text: the rules
    """

    def __init__(self, text: str):
        self.text = text
        self._counts: dict[str, int] | None = None
        self._active = False

    def __enter__(self) -> "Plan":
        _lazy_init()
        if _C._faultsPlanned():
            raise RuntimeError(
                "a fault plan is in force already, and only one is allowed at a time: leave "
                "its context, or unset OPENREG_FAULTS"
            )
        _C._setFaultPlan(self.text)
        self._active = True
        self._counts = None
        return self

    def __exit__(self, *_) -> None:
        _C._clearFaultPlan()
        self._active = False
        self._counts = self._read()

    @staticmethod
    def _read() -> dict[str, int]:
        return {name: _C._faultCount(name) for name in KINDS + SITES}

    def _count(self, names: tuple[str, ...]) -> dict[str, int]:
        counts = self._read() if self._active else self._counts
        return {name: counts[name] for name in names if counts and counts[name]}

    @property
    def fired(self) -> dict[str, int]:
        """How many faults of each kind have happened; kinds without one are left out."""
        return self._count(KINDS)

    @property
    def asked(self) -> dict[str, int]:
        """How many places of each site there were, whether one failed or not."""
        return self._count(SITES)

    def __repr__(self) -> str:
        return f"Plan({self.text!r}, fired={self.fired}, asked={self.asked})"


def plan(text: str = "") -> Plan:
    """A context in which places fail as a plan says, on all devices and threads.

    A plan is a list of rules ``KIND@SITE:WHEN``, separated by semicolons:

    ================  ===================================  ===========================
    kind              what happens                         at
    ================  ===================================  ===========================
    ``oom``           the allocation fails                 ``alloc``
    ``error``         the work fails when it runs; a       ``launch``, ``op:NAME``,
                      capture is invalidated; a            ``copy``, ``capture``,
                      collective raises                    ``collective``
    ``lost``          the device is lost until             ``alloc``, ``launch``,
                      ``reset_device()``                   ``op:NAME``, ``copy``,
                                                           ``capture``, ``collective``
    ``slow``          the work starts later; numbers       ``launch``, ``op:NAME``,
                      stay the same                        ``copy``, ``collective``
    ``flip``          a bit of an output is flipped        ``launch``, ``op:NAME``,
                                                           ``copy``
    ``drop-rank:R``   the process of rank R ends           ``collective``
    ================  ===================================  ===========================

    ``WHEN`` is a number, counted from 1 in the context; ``*`` for each; or ``5%``.
    ``slow`` ends with a duration (``slow@copy:*:10ms``), ``:device=1`` limits a rule to a
    device, ``seed=7`` seeds ``flip`` and ``%``. ``kernel-error`` is an alias of
    ``error``. Without rules nothing fails, and the places are counted.

    Raises:
        ValueError: on entry, if the plan is malformed; names the part that is
        RuntimeError: on entry, if a plan is in force already
    """
    return Plan(text)
