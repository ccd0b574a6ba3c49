"""Writes docs/conformance.md: runs torch_conformance on openreg and on the other
backends of this repository that are built. `make conformance` calls it.
"""

import os
import subprocess
import sys
from pathlib import Path

from torch_conformance.outcome import Run
from torch_conformance.report.matrix import page

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"
OPERATORS = ["--every", "40", "--samples", "2"]


def backends():
    """Name -> (folder, arguments). tests/test_mini_backend.py and tests/test_ladder.py
    leave their builds behind."""
    found = {"openreg": (ROOT, ["--device", "openreg"])}
    mini = ["--device", "mini", "--module", "torch_mini"]
    folders = {"mini": ROOT / "build" / "mini_backend"}
    for folder in sorted((ROOT / "build" / "ladder").glob("*")):
        folders[f"step {folder.name}"] = folder
    for name, folder in folders.items():
        if not list(folder.glob("torch_mini/_C*.so")):
            continue
        config = folder / "vendor.toml"
        found[name] = (folder, mini + (["--config", config] if config.exists() else []))
    return found


def run(name, folder, arguments):
    """The results of one backend."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{name}.json"
    file.unlink(missing_ok=True)
    variables = dict(os.environ)
    if name != "openreg":
        variables |= {"PYTHONPATH": str(folder), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-m", "torch_conformance", *map(str, arguments)]
    command += [*OPERATORS, "--jobs", "2", "--json", str(file)]
    print(f"running {name}", file=sys.stderr)
    subprocess.run(command, cwd=RESULTS, env=variables, stdout=subprocess.DEVNULL)
    return Run.unpacked(file.read_text())


def main():
    """Runs all, or with --keep takes the results of the last time."""
    runs = []
    for name, (folder, arguments) in backends().items():
        file = RESULTS / f"{name}.json"
        if "--keep" in sys.argv and file.exists():
            runs.append((name, Run.unpacked(file.read_text())))
        else:
            runs.append((name, run(name, folder, arguments)))
    command = (
        "`make conformance` writes this page; the sample is every fortieth operator."
    )
    PAGE.write_text(page(runs, command))


if __name__ == "__main__":
    main()
