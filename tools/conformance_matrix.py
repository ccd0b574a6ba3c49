"""Writes docs/conformance.md: runs torch_conformance on openreg, on each step of the
ladder, on a new backend and on the one in Python, and builds what is not there.
`make conformance` calls it; with names of backends it runs these, and takes the rest
from the last time.
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
COMMAND = "`make conformance` writes this page; the sample is every fortieth operator."

sys.path.insert(0, str(ROOT / "tests"))  # which build the same packages
from ladder_steps import build, packages  # noqa: E402


def backends():
    """Name -> what makes its folder and the options of torch_conformance."""
    found = {"openreg": lambda: (ROOT, ["--device", "openreg"])}
    for name, (module, arguments) in packages().items():
        found[name] = lambda n=name, m=module, a=arguments: (
            build(n.removeprefix("step "), a),
            ["--module", m, "--config", "vendor.toml"],
        )
    pychip = ROOT / "examples" / "python_backend"
    found["pychip"] = lambda: (pychip, ["--config", "vendor.toml"])
    return found


def run(name, folder, options):
    """The results of one backend."""
    file = RESULTS / f"{name}.json"
    file.unlink(missing_ok=True)
    variables = dict(os.environ)
    if name != "openreg":
        variables |= {"PYTHONPATH": str(folder), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-m", "torch_conformance", *options]
    command += [*OPERATORS, "--jobs", "2", "--json", str(file)]
    subprocess.run(command, cwd=folder, env=variables, stdout=subprocess.DEVNULL)
    return Run.unpacked(file.read_text())


def main(wanted):
    """Runs all backends, or those that are wanted, and writes the page."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    runs = []
    for name, made in backends().items():
        file = RESULTS / f"{name}.json"
        if not wanted or name in wanted or not file.exists():
            print(f"running {name}", file=sys.stderr)
            runs.append((name, run(name, *made())))
        else:
            runs.append((name, Run.unpacked(file.read_text())))
    PAGE.write_text(page(runs, COMMAND))


if __name__ == "__main__":
    main(sys.argv[1:])
