"""A clean environment for the package: torch and what it needs, and nothing of ours.

    python tests/clean_environment.py dist/*.whl

installs a wheel into one, where no compiler is to be found, trains there under both
names of the device, and uninstalls it.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command, **options):
    """What the command printed; its error output if it failed."""
    # Not the tree by way of a variable: what is tested is what was installed.
    env = {**os.environ, **options.pop("env", {})}
    env.pop("PYTHONPATH", None)
    result = subprocess.run(
        list(map(str, command)), text=True, capture_output=True, env=env, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


class Environment:
    """A virtual environment with all packages of this one, except ours. Its programs
    find no others: neither a compiler nor CMake."""

    def __init__(self, folder):
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        self.package = self.site / "torch_openreg"
        for item in Path(sysconfig.get_path("purelib")).iterdir():
            if "torch_openreg" not in item.name:
                (self.site / item.name).symlink_to(item)

    def install(self, wheel):
        # With its dependencies, which are there: nothing may be fetched.
        self.run("-m", "pip", "install", "--no-index", wheel)
        return self

    def uninstall(self):
        self.run("-m", "pip", "uninstall", "-y", "torch_openreg")

    def run(self, *arguments, **variables):
        env = {"PATH": str(self.python.parent), **variables}
        return run(self.python, *arguments, cwd=self.folder, env=env)

    def files(self):
        return sorted(map(str, self.site.rglob("*")))


def main():
    (wheel,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder))
        before = environment.files()
        environment.install(Path(wheel).resolve())
        print(environment.run(ROOT / "examples" / "quickstart.py", "--steps", 10))
        origin = environment.run("-c", "import torch_openreg as m; print(m.__file__)")
        assert Path(origin.strip()).parent == environment.package, origin
        program = ROOT / "tests" / "cuda_programs" / "training_loop.py"
        environment.run(program, OPENREG_AS="cuda")
        environment.uninstall()
        left = set(environment.files()) - set(before)
        assert not left, left


if __name__ == "__main__":
    main()
