"""PyTorch's own modules for this core and for PyTorch, while ``import torch`` of other modules means another library."""

from __future__ import annotations

import builtins
import sys
import threading
from contextlib import suppress
from importlib.util import resolve_name
from typing import Any

import torch

__all__ = ["free_torch_name"]

_INSIDE = ("torch", "netcl.core", "netcl.ops", "netcl_core_kit", "functorch", "torchgen")
_own: dict[str, Any] = {}
_lock = threading.RLock()


def _belongs(name: str, packages: tuple[str, ...]) -> bool:
    return name.startswith(packages) and name.startswith(tuple(f"{one}." for one in packages)) or name in packages


def _taken() -> dict[str, Any]:
    """The modules of PyTorch in ``sys.modules``, which are taken out of it: all but private ones, which its compiled code
    looks up there.
    """
    names = [name for name in sys.modules if _belongs(name, ("torch",)) and "._" not in name]
    return {name: sys.modules.pop(name) for name in names}


def _load_classes() -> None:
    """Makes PyTorch's compiled code load the classes of symbolic numbers and of storages, which it does once."""
    one: Any = object()
    torch.ones(1).set_(torch.ones(1).untyped_storage())
    ones = torch.ones(1)
    for call in (ones.normal_, ones.sum, ones.fill_, lambda value: ones.sum(0, value)):
        with suppress(TypeError):
            call(one)


def free_torch_name() -> bool:
    """Takes PyTorch out of ``sys.modules``, so that the name torch is free; imports of it by PyTorch and by this core
    find it still. Returns True.
    """
    if _own:
        return True
    _load_classes()
    _own.update(_taken())
    plain = builtins.__import__

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        importer = str((globals or {}).get("__name__", ""))
        if not _belongs(importer, _INSIDE):
            return plain(name, globals, locals, fromlist, level)
        whole = resolve_name("." * level + name, globals["__package__"]) if level else name
        if not _belongs(whole, ("torch",)):
            return plain(name, globals, locals, fromlist, level)
        module = _own.get(whole)
        if module is not None and all(hasattr(module, one) for one in fromlist or ()):
            return module if fromlist else _own["torch"]
        with _lock:  # a module of PyTorch that is not loaded yet
            others, finders = _taken(), sys.meta_path[:]
            sys.modules.update(_own)
            sys.meta_path[:] = [one for one in finders if not type(one).__module__.startswith("netcl.")]
            try:
                return plain(name, globals, locals, fromlist, level)
            finally:
                _own.update(_taken())
                sys.modules.update(others)
                sys.meta_path[:] = finders

    builtins.__import__ = imported
    return True
