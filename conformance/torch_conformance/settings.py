"""What a vendor says of a chip: the file `vendor.toml`, and options of the command."""

import dataclasses
import json
import os
import tomllib

from .check import PARTS
from .levels import is_known

# (rtol, atol) where the vendor says nothing: those of torch.testing.assert_close.
TOLERANCES = {
    "float64": (1e-7, 1e-7),
    "float32": (1e-5, 1e-5),
    "float16": (1e-3, 1e-3),
    "bfloat16": (1.6e-2, 1e-2),
    "complex64": (1e-5, 1e-5),
    "complex128": (1e-7, 1e-7),
}
# Key of the file -> what its value has to be.
KEYS = {
    "device": "a string",
    "module": "a string",
    "absent": "a list of strings",
    "tolerance": "a table",
    "expected-failures": "a table of strings",
    "environment": "a table of strings",
    "pytorch-exclusions": "a table of strings",
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


def has_form(value, form):
    """Whether a value of the file is what KEYS says."""
    if form == "a string":
        return isinstance(value, str)
    if not isinstance(value, list if form.startswith("a list") else dict):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return form == "a table" or all(isinstance(part, str) for part in parts)


def is_tolerance(pair):
    """Whether a value of the file is [rtol, atol]."""
    if not (isinstance(pair, list) and len(pair) == 2):
        return False
    return all(isinstance(n, int | float) and n >= 0 for n in pair)


def read(path):
    """The tables of a vendor's file, checked."""
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise BadSettings(f"cannot read {path}: {error}") from error
    for key, value in found.items():
        one_of(f"{path}: the key", key, KEYS)
        if not has_form(value, KEYS[key]):
            raise BadSettings(f"{path}: {key} is {value!r}, not {KEYS[key]}")
    for part in found.get("absent", []):
        one_of(f"{path}: the absent part", part, PARTS)
    for check_id in found.get("expected-failures", {}):
        if not is_known(check_id):
            raise BadSettings(
                f"{path}: the expected failure {check_id!r} is no check; --list lists"
                " them"
            )
    for dtype, pair in found.get("tolerance", {}).items():
        one_of(f"{path}: the dtype", dtype, TOLERANCES)
        if not is_tolerance(pair):
            raise BadSettings(
                f"{path}: the tolerance of {dtype} is {pair!r}, not [rtol, atol]"
            )
    return found


def check_files(*paths):
    """Refuses a file that could not be written after a run, which may take hours."""
    for path in filter(None, paths):
        place = path if path.exists() else path.parent
        if path.is_dir() or not os.access(place, os.W_OK):
            raise BadSettings(
                f"cannot write {path}: it must be a file in a folder of yours"
            )


def make(device=None, module=None, config=None, rtol=None, **options):
    """Settings from the options of the command; they win over the file."""
    file = read(config) if config else {}
    device = device or file.get("device")
    if not device:
        raise BadSettings("--device is missing: the name of the device, as `mychip`")
    if not device.isidentifier():
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
