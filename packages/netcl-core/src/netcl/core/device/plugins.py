"""Finds devices that other distributions add by an entry point of the group ``netcl.backends``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import metadata  # takes longer to import than a first op on NumPy, so this module is loaded by name
from typing import Any

from netcl.core import config
from netcl.core.device.selectors import OWN_NAMES

GROUP = "netcl.backends"
# A backend with the devices on which it computes: (name, factory(queue), handles).
Found = tuple[str, Callable[[Any], Any], Sequence[Any]]

_lock = threading.RLock()
_found: dict[str, Found] | None = None
_problems: dict[str, str] = {}


def find() -> dict[str, Found]:
    """Returns the backends of all installed distributions by name; the entry points are loaded at the first call. One
    that raises, or has no ``devices()``, is left out with a warning in the log, and is in ``problems()``.
    """
    global _found
    with _lock:
        if _found is None:
            _found = {}
            for entry in metadata.entry_points(group=GROUP):
                _load(entry)
        return _found


def problems() -> dict[str, str]:
    """Returns the reason for each name of a backend that could not be loaded."""
    find()
    return dict(_problems)


def add(name: str, factory: Callable[[Any], Any]) -> None:
    """Adds a backend with the devices of ``factory.devices()``, in place of an earlier one of the name. Raises
    ValueError for a name of netcl's own, TypeError if the devices are no DeviceHandles of this backend.
    """
    if name in OWN_NAMES:
        raise ValueError(f"{name!r} is a selector of netcl; give the backend another name")
    handles = list(getattr(factory, "devices", tuple)())
    for handle in handles:
        if getattr(handle, "backend", None) != name or getattr(handle.queue, "backend", None) != name:
            raise TypeError(f"devices() returned {handle!r}; its handle and queue must have backend={name!r}")
    with _lock:
        find()[name] = (name, factory, handles)


def _load(entry: metadata.EntryPoint) -> None:
    origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a distribution"
    if _found and entry.name in _found:
        _problems[entry.name] = f"{origin} has a second backend of this name"
    else:
        try:
            add(entry.name, entry.load())
            return
        except Exception as error:  # noqa: BLE001
            _problems[entry.name] = f"{origin}, {entry.value}: {type(error).__name__}: {error}"
    config.get_logger().warning("the backend %r is left out: %s", entry.name, _problems[entry.name])
