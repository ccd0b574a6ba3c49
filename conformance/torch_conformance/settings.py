"""What a vendor says of a chip: the file `vendor.toml`, and options of the command."""

import dataclasses
import json
import tomllib

from .check import PARTS, base_id
from .levels import checks

# (rtol, atol) where the vendor says nothing: those of torch.testing.assert_close.
TOLERANCES = {
    "float64": (1e-7, 1e-7),
    "float32": (1e-5, 1e-5),
    "float16": (1e-3, 1e-3),
    "bfloat16": (1.6e-2, 1e-2),
    "complex64": (1e-5, 1e-5),
    "complex128": (1e-7, 1e-7),
}
KEYS = {
    "device",
    "module",
    "absent",
    "tolerance",
    "expected-failures",
    "environment",
    "pytorch-exclusions",
}


class BadSettings(ValueError):
    """The vendor's file, or an option, says something that cannot be."""


@dataclasses.dataclass
class Settings:
    """Everything that a worker has to know of the device under test."""

    device: str
    module: str | None = None
    absent: tuple = ()
    tolerance: dict = dataclasses.field(default_factory=dict)
    expected: dict = dataclasses.field(default_factory=dict)  # check id -> reason
    environment: dict = dataclasses.field(default_factory=dict)
    exclusions: dict = dataclasses.field(default_factory=dict)  # of PyTorch's tests
    samples: int = 4  # of PyTorch's op database, for each operator
    seconds: float | None = None  # for each check, in place of its own limit

    def tolerance_of(self, dtype):
        """(rtol, atol) for a dtype by its name; (0, 0) where numbers are exact."""
        return tuple(self.tolerance.get(dtype) or TOLERANCES.get(dtype, (0, 0)))

    def packed(self):
        """As text, for the command line of a worker."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def unpacked(cls, text):
        """The settings of packed()."""
        return cls(**json.loads(text))


def one_of(what, name, known):
    """Refuses a name that is not known."""
    if name not in known:
        raise BadSettings(f"{what} {name!r} is not one of {', '.join(sorted(known))}")


def read(path):
    """The tables of a vendor's file, checked."""
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"cannot read {path}: {error}") from error
    for key in found:
        one_of(f"{path}: the key", key, KEYS)
    for part in found.get("absent", []):
        one_of(f"{path}: the absent part", part, PARTS)
    known = {check.id for check in checks()}
    for check_id in found.get("expected-failures", {}):
        one_of(f"{path}: the expected failure", base_id(check_id), known)
    for dtype, pair in found.get("tolerance", {}).items():
        one_of(f"{path}: the dtype", dtype, TOLERANCES)
        if not (isinstance(pair, list) and len(pair) == 2 and min(pair) >= 0):
            raise BadSettings(
                f"{path}: the tolerance of {dtype} is {pair!r}, not [rtol, atol]"
            )
    return found


def make(device=None, module=None, config=None, rtol=None, **options):
    """Settings from the options of the command; they win over the file."""
    file = read(config) if config else {}
    device = device or file.get("device")
    if not device or not device.isidentifier():
        raise BadSettings(
            f"--device {device!r} is not a name of a device, as `mychip` is"
        )
    tolerance = {
        dtype: tuple(pair) for dtype, pair in file.get("tolerance", {}).items()
    }
    if rtol is not None:
        if not 0 <= rtol < 1:
            raise BadSettings(f"--rtol {rtol} is not in [0, 1)")
        tolerance = {
            dtype: (max(rtol, pair[0]), max(rtol, pair[1]))
            for dtype, pair in TOLERANCES.items()
        } | tolerance
    return Settings(
        device=device,
        module=module or file.get("module"),
        absent=tuple(file.get("absent", ())),
        tolerance=tolerance,
        expected=dict(file.get("expected-failures", {})),
        environment=dict(file.get("environment", {})),
        exclusions=dict(file.get("pytorch-exclusions", {})),
        **options,
    )
