"""The package as others get it: its libraries, its files, its CMake package."""

import importlib.util
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from clean_environment import Environment, run

ROOT = Path(__file__).resolve().parent.parent
# The folder of the sources, if the install is editable; nothing is imported.
PACKAGE = Path(importlib.util.find_spec("torch_openreg").origin).parent
ONE_LINER = (
    "import torch; x = torch.tensor([[1.,2.],[3.,4.]], device='openreg');"
    " print((x + 2).cpu())"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built by this Python, so that CMake's folder serves here too."""
    folder = tmp_path_factory.mktemp("wheel")
    command = ("pip", "wheel", "--no-build-isolation", "--no-deps", "-w", folder)
    run(sys.executable, "-m", *command, ROOT)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    return Environment(tmp_path_factory.mktemp("environment")).install(wheel)


# --- the libraries ------------------------------------------------------------

CHAIN = ["_C", "libtorch_bindings", "libtorch_openreg", "libopenreg"]


def libraries(package):
    (entry,) = package.glob("_C.*.so")
    return [entry, *(package / "lib" / f"{name}.so" for name in CHAIN[1:])]


def dynamic_section(library, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "-d", library))


def test_each_library_needs_only_those_below_it(installed):
    names = [path.name for path in libraries(installed.package)]
    needed = [
        [n for n in dynamic_section(path, "NEEDED") if n in names]
        for path in libraries(installed.package)
    ]
    _, bindings, integration, device = names
    assert needed == [[bindings], [integration], [device], []]


def test_only_the_bindings_need_python(installed):
    needed = [
        any("python" in name for name in dynamic_section(path, "NEEDED"))
        for path in libraries(installed.package)
    ]
    assert needed == [False, True, False, False]


def test_libraries_look_for_others_only_from_where_they_lie(installed):
    for path in libraries(installed.package):
        (runpath,) = dynamic_section(path, "RUNPATH")
        assert all(re.match(r"\$ORIGIN(/|$)", entry) for entry in runpath.split(":")), (
            path,
            runpath,
        )


# --- the files ----------------------------------------------------------------


def test_no_installed_file_knows_where_it_was_built(installed):
    folders = [str(ROOT).encode(), sys.prefix.encode()]
    knowing = [
        path
        for path in installed.package.rglob("*")
        if path.is_file() and any(f in path.read_bytes() for f in folders)
    ]
    assert knowing == []


def test_all_modules_of_the_tree_are_installed(installed):
    tree = ROOT / "torch_openreg"
    modules = {p.relative_to(tree) for s in ("*.py", "*.pyi") for p in tree.rglob(s)}
    assert {p for p in modules if not (installed.package / p).is_file()} == set()
    assert Path("openreg/__init__.py") in modules
    assert not (installed.package / "csrc").exists()


def test_no_installed_file_is_a_link(installed):
    assert [p for p in installed.package.rglob("*") if p.is_symlink()] == []


@pytest.mark.parametrize("install", ["editable", "installed"])
def test_the_folders_for_other_builds_are_there(install, installed):
    package, run_there = PACKAGE, lambda *a: run(sys.executable, *a, cwd="/")
    if install == "installed":
        package, run_there = installed.package, installed.run
    code = (
        "import torch_openreg.utils as u;"
        "print(u.cmake_prefix_path, *u.include_paths(), *u.library_paths())"
    )
    prefix, *includes, libs = map(Path, run_there("-c", code).split())
    assert (prefix / "torch_openreg" / "torch_openreg-config.cmake").is_file()
    assert (libs / "libtorch_openreg.so").is_file()
    for header in ("openreg.h", "torch_openreg/runtime/OpenRegFunctions.h"):
        assert [i for i in includes if (i / header).is_file()] == includes[:1]
    assert {f.is_relative_to(package) for f in (prefix, libs, *includes)} == {True}


# --- use ----------------------------------------------------------------------


def test_the_installed_package_adds_two_tensors(installed):
    code = ONE_LINER + "; import torch_openreg; print(torch_openreg.__file__)"
    *printed, origin = installed.run("-c", code).splitlines()
    assert printed == ["tensor([[3., 4.],", "        [5., 6.]])"]
    assert Path(origin).parent == installed.package


def is_cuda_there(environment):
    """Whether a Python that starts finds CUDA in its place."""
    code = "import torch; print(torch.cuda.is_available())"
    return environment.run("-c", code, OPENREG_AS="cuda") == "True\n"


def test_the_installed_package_stands_in_for_cuda(installed):
    assert is_cuda_there(installed)


def test_uninstalling_leaves_nothing(tmp_path, wheel):
    environment = Environment(tmp_path)
    before = environment.files()
    environment.install(wheel).run("-c", ONE_LINER)
    assert environment.package.is_dir()
    environment.uninstall()
    assert environment.files() == before
    assert not is_cuda_there(environment)


@pytest.mark.slow
def test_an_install_of_the_sources_stands_in_for_cuda(tmp_path):
    """`pip install .`, by this Python, so that CMake's folder serves here too."""
    environment = Environment(tmp_path)
    options = "--ignore-installed", "--no-build-isolation", "--no-deps"
    install = "-m", "pip", "install", *options, "--prefix", tmp_path
    run(sys.executable, *install, ROOT)
    assert environment.package.is_dir()
    assert is_cuda_there(environment)
    environment.uninstall()
    assert not environment.package.exists()
    assert not is_cuda_there(environment)


def test_another_project_finds_the_cmake_package(installed, tmp_path):
    code = "import torch_openreg.utils as u; print(u.cmake_prefix_path)"
    prefix = installed.run("-c", code).strip()
    run(
        *("cmake", "-S", ROOT / "tests" / "install", "-B", tmp_path, "-G", "Ninja"),
        *(f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-Werror"),
    )
    run("cmake", "--build", tmp_path)
    printed = run(tmp_path / "user")
    assert re.fullmatch(r"2 devices, the last is \w+:1\n", printed)


# --- what is handed on ---------------------------------------------------------


def test_the_wheel_is_for_this_python_and_machine_only(wheel):
    """It holds compiled code, so another interpreter must not take it."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    machine = sysconfig.get_platform().replace("-", "_")
    assert wheel.name.endswith(f"-{python}-{python}-{machine}.whl")


def test_the_wheel_says_what_it_needs(installed):
    code = (
        "from importlib.metadata import metadata; m = metadata('torch_openreg');"
        "print(m['Requires-Python'], *m.get_all('Requires-Dist'), m['License-Expression'])"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [project["requires-python"], *project["dependencies"], project["license"]]
    assert installed.run("-c", code).split() == wanted


def test_the_sdist_has_all_that_a_build_needs(tmp_path):
    run(sys.executable, "setup.py", "-q", "sdist", "-d", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        packed = {name.partition("/")[2] for name in files.getnames()}
    needed = ["CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "setup.py"]
    folders = ["cmake", "csrc", "third_party/openreg", "tools", "torch_openreg"]
    folders += ["examples/ladder", "examples/mini_backend"]
    tracked = run("git", "ls-files", *needed, *folders, cwd=ROOT).split()
    assert set(tracked) - packed == set()
    made = [name for name in packed if re.search(r"\.(so|o|pyc)$|/build/", name)]
    assert made == []


# --- versions -----------------------------------------------------------------


def test_the_version_is_written_in_one_place(installed):
    init = (ROOT / "torch_openreg" / "__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    code = "from importlib.metadata import version; print(version('torch_openreg'))"
    assert installed.run("-c", code).split() == [version]
    config = "share/cmake/torch_openreg/torch_openreg-config-version.cmake"
    text = (installed.package / config).read_text()
    assert f'set(PACKAGE_VERSION "{version}")' in text
    for name in ("CMakeLists.txt", "pyproject.toml", "setup.py"):
        assert version not in (ROOT / name).read_text(), name


def test_the_same_torch_is_pinned_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pin,) = (d for d in project["project"]["dependencies"] if "torch" in d)
    assert pin in project["build-system"]["requires"]
    assert pin in (ROOT / "requirements.txt").read_text().splitlines()
    assert metadata.version("torch").split("+")[0] == pin.removeprefix("torch==")


# --- what setup.py says when it cannot build ----------------------------------


@pytest.mark.parametrize(
    ("obstacle", "sentence"),
    [
        (
            "from importlib import metadata; metadata.version = lambda _: '2.12.0+cpu'",
            "torch 2.13.0 is needed, but 2.12.0 was found: pip install torch==2.13.0",
        ),
        (
            "import shutil; shutil.which = lambda *_, **__: None",
            "cmake was not found: pip install cmake ninja",
        ),
        (
            "import os; os.environ['CXX'] = 'no-such-compiler'",
            "no C++ compiler: no-such-compiler was not found;"
            " apt-get install g++, or set CXX",
        ),
        (
            "import sys; sys.version_info = (3, 10); sys.version = '3.10.1 (main)'",
            "Python 3.11 or later is needed, but this is 3.10.1:"
            " use another interpreter",
        ),
    ],
    ids=["torch", "cmake", "compiler", "python"],
)
def test_setup_says_in_a_sentence_what_is_missing(obstacle, sentence):
    code = (
        f"{obstacle}\nimport runpy, sys\n"
        "sys.argv = ['setup.py', '-q', 'build_ext', '--inplace']\n"
        "runpy.run_path('setup.py', run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True
    )
    assert result.returncode == 1
    assert result.stderr.splitlines() == [sentence]


# --- what make says when it cannot set up ---------------------------------------

PYTHON_WITHOUT = """#!/bin/sh
case "$*" in
  *"{part}"*) {answer} ;;
  *"-m venv"*) echo "made an environment" ;;
  *) exec {python} "$@" ;;
esac
"""


@pytest.mark.parametrize(
    ("part", "answer", "sentence"),
    [
        ("import sys;", "exit 1", "Python 3.11 or later is needed"),
        ("ensurepip", "exit 1", "has no venv: apt-get install python3-venv"),
        ("sysconfig", "echo /nowhere", "has no headers (Python.h): apt-get install"),
    ],
    ids=["version", "venv", "headers"],
)
def test_make_says_in_a_sentence_what_python_lacks(part, answer, sentence, tmp_path):
    python = tmp_path / "python"
    python.write_text(
        PYTHON_WITHOUT.format(part=part, answer=answer, python=sys.executable)
    )
    python.chmod(0o755)
    (tmp_path / "requirements.txt").touch()
    command = ["make", "-f", ROOT / "Makefile", ".venv/ready", f"PYTHON={python}"]
    made = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 2
    assert sentence in made.stderr
    assert "made an environment" not in made.stdout
