"""A library's own modules for a core and for the library, while an import of its name elsewhere means another one."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable
from importlib.util import resolve_name
from typing import Any

__all__ = ["free_name"]

_own: dict[str, Any] = {}  # modules of the library
_lock = threading.RLock()


def _belongs(name: str, packages: tuple[str, ...]) -> bool:
    return (
        name.startswith(packages) and name.startswith(tuple(f"{package}." for package in packages)) or name in packages
    )


def _taken(library: str) -> dict[str, Any]:
    """Returns the modules of the library in ``sys.modules``, which are taken out of it: all but private ones, which its
    compiled code looks up there.
    """
    names = [name for name in sys.modules if _belongs(name, (library,)) and "._" not in name]
    return {name: sys.modules.pop(name) for name in names}


def free_name(library: str, inside: tuple[str, ...], load: Callable[[], None]) -> bool:
    """Takes a library out of ``sys.modules``, so that its name is free; imports of it by the packages ``inside`` find it
    still. ``load`` makes its compiled code load what it looks up once. Returns True.
    """
    if _own:
        return True
    load()
    _own.update(_taken(library))
    plain = builtins.__import__

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        importer = str((globals or {}).get("__name__", ""))
        if not _belongs(importer, inside):
            return plain(name, globals, locals, fromlist, level)
        whole = resolve_name("." * level + name, globals["__package__"]) if level else name
        if not _belongs(whole, (library,)):
            return plain(name, globals, locals, fromlist, level)
        module = _own.get(whole)
        if module is not None and all(hasattr(module, attribute) for attribute in fromlist or ()):
            return module if fromlist else _own[library]
        with _lock:  # a module of the library that is not loaded yet
            others, finders = _taken(library), sys.meta_path[:]
            sys.modules.update(_own)
            sys.meta_path[:] = [finder for finder in finders if not type(finder).__module__.startswith("netcl.")]
            try:
                return plain(name, globals, locals, fromlist, level)
            finally:
                _own.update(_taken(library))
                sys.modules.update(others)
                sys.meta_path[:] = finders

    builtins.__import__ = imported
    return True
