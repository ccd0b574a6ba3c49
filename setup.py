"""Builds the C++ libraries with CMake and puts them into the Python package.

pyproject.toml has everything else. CMake works in build/python, whichever way
setup.py is called, so a second build only compiles what changed. MAX_JOBS says
how many compilers run at a time, CMAKE_ARGS adds arguments for CMake.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata, util
from pathlib import Path

# Before anything that older ones do not have.
if sys.version_info < (3, 11):
    sys.exit(
        "Python 3.11 or later is needed, but this is "
        f"{sys.version.split()[0]}: use another interpreter"
    )

import tomllib

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "python"
# Goes beside the packages: what a Python that starts does if OPENREG_AS is set.
HOOK = "torch_openreg.pth"


def find_tool(name):
    """The tool of this Python's environment, even if that is not activated."""
    scripts = sysconfig.get_path("scripts")
    return shutil.which(name, path=scripts) or shutil.which(name)


def torch_folder():
    """Where the pinned torch is; torch itself is not imported, since that would
    load the package that is being built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (needed,) = (d for d in project["dependencies"] if d.startswith("torch=="))
    pin = needed.removeprefix("torch==")
    try:
        found = metadata.version("torch").split("+")[0]
    except metadata.PackageNotFoundError:
        found = "none"
    if found != pin:
        sys.exit(f"torch {pin} is needed, but {found} was found: pip install {needed}")
    return Path(util.find_spec("torch").origin).parent


def run(*command, **options):
    try:
        subprocess.run(command, check=True, **options)
    except subprocess.CalledProcessError:
        # CMake and the compiler have said why; a traceback would bury it.
        sys.exit(f"the C++ build failed in {BUILD}: see the messages above")


class CMakeBuild(build_ext):
    def run(self):
        torch = torch_folder()
        cmake = find_tool("cmake")
        if not cmake:
            sys.exit("cmake was not found: pip install cmake ninja")
        compiler = shlex.split(os.environ.get("CXX", ""))[:1] or ["c++"]
        if not shutil.which(compiler[0]):
            sys.exit(
                f"no C++ compiler: {compiler[0]} was not found; "
                "apt-get install g++, or set CXX"
            )
        self.configure(cmake, torch)
        jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count())
        run(cmake, "--build", BUILD, "--target", "_C", "--parallel", jobs)
        here = ROOT if self.inplace else Path(self.build_lib).resolve()
        run(
            *(cmake, "--install", BUILD, "--prefix", here / "torch_openreg"),
            stdout=subprocess.DEVNULL,
        )
        if not self.inplace:
            shutil.copy(ROOT / HOOK, here)

    def configure(self, cmake, torch):
        command = [cmake, "-S", ROOT, "-B", BUILD]
        ninja = find_tool("ninja")
        if ninja:
            command += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        command += [f"-DPython_EXECUTABLE={sys.executable}"]
        command += [f"-DCMAKE_PREFIX_PATH={torch / 'share' / 'cmake'}"]
        # A cache made for another tree, Python or torch is worth nothing.
        made_for = BUILD / "made_for.txt"
        wanted = "\n".join(map(str, (ROOT, sys.prefix, sys.version, torch, ninja)))
        if not made_for.exists() or made_for.read_text() != wanted:
            command += ["--fresh"]
        run(
            *(*command, *shlex.split(os.environ.get("CMAKE_ARGS", ""))),
            stdout=subprocess.DEVNULL,
        )
        made_for.write_text(wanted)


class CleanBuild(build):
    def run(self):
        # setuptools would put modules deleted since then into the wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class EditableInstall(editable_wheel):
    def run(self):
        # Such a wheel has nothing at its top but what setuptools puts there.
        packages = Path(sysconfig.get_path("purelib"))
        place = packages.relative_to(sysconfig.get_path("data"))
        self.distribution.data_files = [(str(place), [HOOK])]
        # It asks by this name whether there are any, which nothing else has.
        self.distribution.has_data = self.distribution.has_data_files
        super().run()


BUILD.mkdir(parents=True, exist_ok=True)
setup(
    cmdclass={
        "build": CleanBuild,
        "build_ext": CMakeBuild,
        "editable_wheel": EditableInstall,
    },
    ext_modules=[Extension("torch_openreg._C", sources=[])],
    # Not beside the package: a program started in this folder would take it for
    # an installed one and load the backend twice.
    options={"egg_info": {"egg_base": str(BUILD.parent)}},
)
