"""torch_conformance: what it refuses of a vendor's file and of the command, in words."""

import re

import pytest
import torch  # noqa: F401 (with its backends; the kit imports it without them)
from torch_conformance.__main__ import main
from torch_conformance.settings import BadSettings, Settings, make


def test_a_vendors_file_is_read(tmp_path):
    file = tmp_path / "vendor.toml"
    file.write_text(
        'device = "chip"\nmodule = "torch_chip"\nabsent = ["streams"]\n'
        "[tolerance]\nfloat32 = [0.5, 0.25]\n"
        '[expected-failures]\n"guard.synchronizes" = "why"\n'
    )
    found = make(config=file, rtol=0.1)
    assert found.device == "chip" and found.absent == ("streams",)
    assert found.tolerance_of("float32") == (0.5, 0.25)
    assert found.tolerance_of("float16") == (0.1, 0.1)
    assert found.tolerance_of("int64") == (0, 0)
    assert Settings.unpacked(found.packed()).expected == found.expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('devise = "x"', "the key 'devise' is not one of absent, device"),
        ('absent = ["stream"]', "the absent part 'stream' is not one of"),
        ('absent = "streams"', "absent is 'streams', not a list of strings"),
        ('[expected-failures]\n"guard.no" = "x"', "the expected failure 'guard.no'"),
        ('[expected-failures]\n"guard.synchronizes[1]" = "x"', "is no check; --list"),
        ("[environment]\nX = 1", "environment is {'X': 1}, not a table of strings"),
        ("[tolerance]\nfloat32 = 3", "the tolerance of float32 is 3, not [rtol, atol]"),
        ('[tolerance]\nfloat32 = ["1", 1]', "float32 is ['1', 1], not [rtol, atol]"),
        ("absent = [", "cannot read"),
        ('device = "\udcff"', "cannot read"),
    ],
)
def test_a_wrong_file_is_refused_in_words(text, words, tmp_path):
    file = tmp_path / "vendor.toml"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(BadSettings, match=re.escape(words)):
        make("chip", config=file)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--device is missing"),
        (["--device", "my-chip"], "--device 'my-chip' is not a name"),
        (["--device", "x", "--rtol", "2"], "--rtol 2.0 is not in [0, 1)"),
        (["--device", "x", "--only", "guard.no"], "there is no check 'guard.no'"),
        (["--device", "x", "--only", "operators.values[no]"], "there is no check"),
        (
            ["--device", "x", "--level", "1", "--only", "guard.synchronizes"],
            "guard.synchronizes: not of level 1 or below",
        ),
        (["--device", "x", "--jobs", "0"], "--jobs 0 is not 1 or more"),
        (["--device", "x", "--seconds", "-1"], "--seconds -1.0 is not 1 or more"),
        (["--device", "x", "--report", "/nowhere/x"], "cannot write /nowhere/x"),
        (["--device", "x", "--compare", "/nowhere"], "cannot read /nowhere"),
    ],
)
def test_a_wrong_command_is_refused_in_words(arguments, words, capsys):
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
