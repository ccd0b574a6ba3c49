"""`python -m torch_openreg.new`: what it writes, and that it can be brought up to date.
tests/test_ladder.py builds it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch_openreg.new import _template
from torch_openreg.new.__main__ import main

pytest.importorskip("copier")


@pytest.fixture(autouse=True)
def own_template(tmp_path, monkeypatch):
    """The template is kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and ".git/" not in path.as_posix()
    }


@pytest.fixture
def whole(own_template):
    main(["zephyr", "--devices", "3"])
    return own_template / "torch_zephyr"


def test_the_package_has_the_vendors_names(whole, capsys):
    texts = {name: (whole / name).read_text() for name in names(whole)}
    code = {name: text for name, text in texts.items() if "copier" not in name}
    for name, text in code.items():
        assert not re.search(r"(?<![a-z])mini(?![a-z])|Mini[A-Z]|MINI", text), name
        assert "<@" not in text and "<%" not in text, name
        assert "c10::openreg" not in text and "runtime/pool" not in text, name
    assert "constexpr int kDevices = 3;" in code["csrc/launch.h"]
    assert "class ZephyrStream" in code["csrc/launch.h"]
    assert "namespace zephyr::pool" in code["csrc/pool/BlockPool.h"]
    assert 'rename_privateuse1_backend("zephyr")' in code["torch_zephyr/__init__.py"]
    assert '"torch_zephyr cannot load beside' in code["torch_zephyr/__init__.py"]
    assert 'torch_zephyr = "torch_zephyr:_autoload"' in code["pyproject.toml"]
    assert {"csrc/graph.cpp", "PORTING.md", ".github/workflows/ci.yml"} <= set(code)


def test_the_checklist_names_functions_that_are_there(whole):
    code = "".join(path.read_text() for path in whole.glob("csrc/*.*"))
    list_of = (whole / "PORTING.md").read_text()
    found = re.findall(r"`(k?[zZ]ephyr\w+)", list_of)
    assert len(found) > 10
    assert [name for name in found if name not in code] == []
    places = re.findall(r"((?:`\w+`(?:, | and )?)+) in `(csrc/\w+\.cpp)`", list_of)
    assert len(places) == 3
    for kernels, file in places:
        for kernel in re.findall(r"\w+", kernels.replace(" and ", " ")):
            assert re.search(rf'm\.impl\("{kernel}\b', (whole / file).read_text())


@pytest.mark.parametrize("left_out", [[], ["--no-streams", "--no-kernels"]])
def test_the_python_code_is_formatted(left_out, own_template):
    ruff = shutil.which("ruff", path=Path(sys.executable).parent)
    if not ruff:
        pytest.skip("ruff is not installed")
    main(["mychip", *left_out])
    for command in (["check"], ["format", "--diff"]):
        found = subprocess.run(
            [ruff, *command, "--isolated", "."], capture_output=True, text=True
        )
        assert found.returncode == 0, found.stdout


def test_an_option_that_is_left_out_leaves_nothing(own_template):
    off = ["--no-streams", "--no-kernels", "--no-autocast", "--no-process-group"]
    main(["zephyr", *off])
    folder = own_template / "torch_zephyr"
    assert {path.name for path in folder.glob("csrc/*")} == {
        "driver.h",
        "hooks.h",
        "launch.h",
        "operators.cpp",
        "parts.h",
        "registration.cpp",
        "runtime.h",
    }
    assert {path.name for path in folder.glob("torch_zephyr/*")} == {"__init__.py"}
    text = (folder / "torch_zephyr" / "__init__.py").read_text()
    assert "import distributed" not in text and "from .streams" not in text
    assert "Stream" not in (folder / "PORTING.md").read_text()
    assert '"streams",' in (folder / "vendor.toml").read_text()


@pytest.mark.parametrize("name", ["", "My", "my-chip", "x", "9chip", "class", "a" * 40])
def test_a_bad_name_is_refused(name):
    words = (
        "the device needs a name"
        if not name
        else "must have 2 to 31 lower-case letters"
    )
    with pytest.raises(SystemExit, match=words):
        main([name])


@pytest.mark.parametrize("name", ["cuda", "openreg", "nn", "abs", "meta"])
def test_a_name_that_is_taken_is_refused(name):
    with pytest.raises(SystemExit, match=f"torch.{name} would be something else"):
        main([name])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--no-streams", "--caching"], "--caching needs --streams"),
        (["--no-caching", "--graphs"], "--graphs needs --caching"),
        (["--devices", "0"], "--devices must be 1 to 64, but got 0"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, words):
    with pytest.raises(SystemExit, match=words):
        main(["zephyr", *options])


def test_a_folder_that_is_there_is_left_alone(own_template):
    (own_template / "torch_zephyr").mkdir()
    (own_template / "torch_zephyr" / "mine.txt").touch()
    with pytest.raises(SystemExit, match="torch_zephyr exists already"):
        main(["zephyr"])
    assert names(own_template / "torch_zephyr") == {"mine.txt"}


def test_an_update_brings_changes_and_keeps_those_of_the_vendor(whole, monkeypatch):
    def git(*arguments):
        who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        subprocess.run(["git", "-C", whole, *who, *arguments], check=True)

    driver = whole / "csrc" / "driver.h"
    driver.write_text(driver.read_text() + "// The vendor's line.\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "first")

    def changed(text, original=_template.renamed):
        return original(text).replace("// The device:", "// The newer device:")

    monkeypatch.setattr(_template, "renamed", changed)
    main(["--update", str(whole)])
    assert "// The newer device:" in driver.read_text()
    assert driver.read_text().endswith("// The vendor's line.\n")
    assert "<<<<<<<" not in driver.read_text()


def test_a_package_from_elsewhere_cannot_be_updated(own_template):
    with pytest.raises(SystemExit, match="has no .copier-answers.yml"):
        main(["--update", str(own_template)])


def test_what_stands_in_the_way_of_an_update_is_told(whole, own_template, monkeypatch):
    with pytest.raises(SystemExit, match="only supported in git-tracked"):
        main(["--update", str(whole)])
    shutil.rmtree(own_template / "cache")  # and its versions
    answers = whole / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace("+g", "+gf"))
    with pytest.raises(SystemExit, match="does not have: update it with the account"):
        main(["--update", str(whole)])


def test_without_copier_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "copier", None)
    with pytest.raises(SystemExit, match="pip install copier"):
        main(["zephyr"])


def test_an_installed_package_has_the_sources(tmp_path, monkeypatch):
    """Where there is no checkout beside it."""
    made = dict(_template.template_files())
    for name, folder in _template.sources().items():
        place = {"template": "", "mini_backend": "", "pool": ""}.get(name, "ladder/")
        target = tmp_path / "torch_openreg" / "share" / "new" / f"{place}{name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(folder)
    monkeypatch.setattr(_template, "PACKAGE", tmp_path / "torch_openreg")
    assert dict(_template.template_files()) == made
