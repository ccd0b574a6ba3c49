"""Work that is deferred until a module is imported."""

import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


class _Finder:
    """Finds nothing by itself: it lets the others find a module, and adds an action
    to what runs when the module is loaded."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Callable[[], None]]] = {}
        self._local = threading.local()

    def _ask_others(self, name: str) -> ModuleSpec | None:
        self._local.asking = name
        try:
            return importlib.util.find_spec(name)
        finally:
            self._local.asking = None

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in self.actions or getattr(self._local, "asking", None) == name:
            return None
        spec = self._ask_others(name)
        if spec is None or spec.loader is None:
            return None
        loader = spec.loader
        load = loader.exec_module

        # Who only looks for a module, with importlib.util.find_spec(), does not load it.
        def load_and_act(module: Any) -> None:
            load(module)
            waiting = self.actions.get(name, [])
            while (
                waiting
            ):  # if one raises, an import that is tried again gets there too
                waiting[0]()
                waiting.pop(0)
            self.actions.pop(name, None)

        loader.exec_module = load_and_act  # type: ignore[method-assign]
        return spec


_finder = _Finder()


def on_import(name: str, action: Callable[[], None]) -> None:
    """Call `action` once, right after module `name` is loaded; now if it already is.

    For what a large part of PyTorch has to be told, without importing that part for
    programs that never use it.

    Args:
        name: the full name of a module
        action: called without arguments; what it raises, the import raises
    """
    if name in sys.modules:
        action()
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.actions.setdefault(name, []).append(action)
