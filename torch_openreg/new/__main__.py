"""The command of torch_openreg.new."""

import argparse
import importlib
import keyword
import re
import sys
from pathlib import Path
from typing import Any

from ._repository import has_version, template_repository

PROG = "python -m torch_openreg.new"
DESCRIPTION = """
Writes a PyTorch backend for a device of your own: a package that builds and trains at
once, on a stand-in for the driver made of the CPU, with a list of what to replace.
"""
EPILOG = """
Without options the package has all parts. Then build it with `pip install
--no-build-isolation -e .` in its folder, and read its PORTING.md.
"""
OPTIONS = {
    "streams": "streams, events and pinned memory",
    "caching": "a caching allocator (needs streams)",
    "kernels": "examples of kernels of the device",
    "autocast": "lists for autocast",
    "graphs": "graphs (need the caching allocator)",
    "process-group": "a process group for torch.distributed",
}
NEEDS = {"caching": "streams", "graphs": "caching"}


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog=PROG, description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("name", nargs="?", help='the device, as in torch.device("mychip")')
    add("--to", type=Path, metavar="FOLDER", help="default: torch_NAME, which is new")
    add("--devices", type=int, default=1, help="devices of the stand-in (1 to 64)")
    for option, text in OPTIONS.items():
        add(f"--{option}", action=argparse.BooleanOptionalAction, help=text)
    add(
        "--update",
        type=Path,
        metavar="FOLDER",
        help="bring a package that was made before up to date, as `copier update` does",
    )
    return parser


def check_name(name: str | None) -> str:
    """The name, or the end of the process with a sentence."""
    if not name:
        raise SystemExit(f"the device needs a name, for instance: {PROG} mychip")
    if not re.fullmatch(r"[a-z][a-z0-9]{1,30}", name) or keyword.iskeyword(name):
        raise SystemExit(
            f"{name!r} cannot be the name of a device: it must have 2 to 31 lower-case "
            "letters and digits, begin with a letter and not be a keyword of Python"
        )
    import torch

    taken = {"meta", "openreg", "privateuseone"}
    if name in taken or hasattr(torch, name) or hasattr(torch.Tensor, name):
        raise SystemExit(
            f"{name!r} cannot be the name of a device: torch.{name} would be something "
            "else; choose another name"
        )
    return name


def answers(options: argparse.Namespace) -> dict[str, Any]:
    """What copier is told, with what options imply for each other."""
    if not 1 <= options.devices <= 64:
        raise SystemExit(f"--devices must be 1 to 64, but got {options.devices}")
    given = {name: getattr(options, name.replace("-", "_")) for name in OPTIONS}
    for name, needed in NEEDS.items():
        if given[needed] is False:
            if given[name]:
                raise SystemExit(f"--{name} needs --{needed}: leave out --no-{needed}")
            given[name] = False
    chosen = {name.replace("-", "_"): on is not False for name, on in given.items()}
    return {"devices": options.devices, **chosen}


def load_copier() -> Any:
    """The library that fills in templates; only this command needs it."""
    try:
        return importlib.import_module("copier")
    except ImportError:
        raise SystemExit("copier was not found: pip install copier") from None


NEXT = """
{folder} has the backend of the device {name!r}. Next:

    cd {folder}  # from the folder above, Python would take it for the module
    pip install --no-build-isolation -e .
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -m torch_conformance \\
        --config vendor.toml --module torch_{name} --level 6

PORTING.md says what to replace when the chip is there.
"""


def update(folder: Path, copier: Any) -> None:
    """Merges what has changed in the template since a package was made."""
    answers = folder / ".copier-answers.yml"
    if not answers.exists():
        raise SystemExit(f"{folder} has no {answers.name}: it was not made by {PROG}")
    made = dict(re.findall(r"^(_\w+): (.*)$", answers.read_text(), re.M))
    repository = template_repository()
    known = has_version(repository, made.get("_commit", ""))
    if made.get("_src_path") != str(repository) or not known:
        raise SystemExit(
            f"{folder} was made from {made.get('_commit')} of {made.get('_src_path')}, "
            f"which {repository} does not have: update it with the account that made it"
        )
    try:
        copier.run_update(str(folder), defaults=True, overwrite=True, quiet=True)
    except copier.errors.UserMessageError as error:
        raise SystemExit(f"{folder} cannot be updated: {error}") from None
    print(f"{folder} is up to date: `git diff` shows what has changed")


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options = make_parser().parse_args(arguments)
    copier = load_copier()
    if options.update:
        update(options.update, copier)
        return
    name = check_name(options.name)
    folder = options.to or Path(f"torch_{name}")
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(
            f"{folder} exists already: remove it, or choose another folder with --to"
        )
    data = {"name": name, **answers(options)}
    copier.run_copy(
        str(template_repository()), str(folder), data=data, defaults=True, quiet=True
    )
    print(NEXT.format(folder=folder, name=name))


if __name__ == "__main__":
    main(sys.argv[1:])
