"""The process group of this process or thread, and the rank, local rank and world size."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from netcl.core import config

if TYPE_CHECKING:
    from netcl.distributed.group import ProcessGroup

_default: ProcessGroup | None = None
# Per group: the name of its transport, or the backend that was asked for; the ranks of the default group that are in
# it, if these are not all.
backends: WeakKeyDictionary[ProcessGroup, str] = WeakKeyDictionary()
members: WeakKeyDictionary[ProcessGroup, tuple[int, ...]] = WeakKeyDictionary()


class _Thread(threading.local):
    group: ProcessGroup | None = None


_thread = _Thread()


def set_default_group(group: ProcessGroup | None) -> None:
    """Makes ``group`` the group of this process."""
    global _default
    _default = group


def default_group() -> ProcessGroup | None:
    """Returns the group of this process, or None."""
    return _default


def current_group() -> ProcessGroup | None:
    """Returns the group of this thread, else of this process, else None."""
    return _thread.group or _default


@contextmanager
def active_group(group: ProcessGroup) -> Iterator[None]:
    """Makes ``group`` the group of this thread inside the block."""
    outer, _thread.group = _thread.group, group
    try:
        yield
    finally:
        _thread.group = outer


def get_rank(group: ProcessGroup | None = None) -> int:
    """Returns the rank of this thread or process in ``group`` (None: the current one); without a group, that set by the
    launcher, or 0.
    """
    group = group or current_group()
    return int(config.get("RANK") or 0) if group is None else group.rank


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Returns the number of ranks of ``group`` (None: the current one).

    Without a group it is that set by the launcher, or 1.
    """
    group = group or current_group()
    return int(config.get("WORLD_SIZE") or 1) if group is None else group.size


def get_local_rank() -> int:
    """Returns the rank among this host's ranks, for example to choose a device; without a group, the launcher's number,
    or 0.
    """
    group = current_group()
    return int(config.get("LOCAL_RANK") or 0) if group is None else group.local_rank
