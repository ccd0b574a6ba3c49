"""Work that waits until a module is imported (torch_openreg/_on_import.py)."""

import importlib.util
import sys

import pytest

from torch_openreg._on_import import on_import


@pytest.fixture
def name(tmp_path, monkeypatch):
    """Of a module that nobody has imported."""
    (tmp_path / "waited_for.py").write_text("loaded = True")
    monkeypatch.syspath_prepend(tmp_path)
    yield "waited_for"
    sys.modules.pop("waited_for", None)


def test_an_action_runs_once_after_the_module_is_loaded(name):
    calls = []
    on_import(name, lambda: calls.append(sys.modules[name].loaded))
    assert calls == []
    importlib.import_module(name)
    importlib.reload(sys.modules[name])
    assert calls == [True]


def test_an_action_runs_at_once_if_the_module_is_there(name):
    importlib.import_module(name)
    calls = []
    on_import(name, lambda: calls.append(1))
    assert calls == [1]


def test_looking_for_a_module_does_not_lose_the_action(name):
    calls = []
    on_import(name, lambda: calls.append(1))
    assert importlib.util.find_spec(name).name == name
    assert calls == []
    importlib.import_module(name)
    assert calls == [1]


def test_a_failing_action_fails_the_import_each_time(name):
    calls = []

    def fail():
        calls.append(1)
        raise ImportError("a name is no more")

    on_import(name, fail)
    for _ in range(2):
        with pytest.raises(ImportError, match="no more"):
            importlib.import_module(name)
    assert calls == [1, 1]
