"""Keeps copies of operands that a recording may read again: replays write in the order of the recording."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from netcl.core.engine.recording import Recording, open_here

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData


class _Copy(NamedTuple):
    storage: ref[Any]
    version: int
    form: Hashable
    copy: TensorData


# By recording and kind, the copies that were made last, oldest first.
_recent: WeakKeyDictionary[Recording, dict[str, list[_Copy]]] = WeakKeyDictionary()


def copied(
    engine: Any, x: TensorData, kind: str, form: Hashable, make: Callable[[], TensorData], most: int
) -> TensorData:
    """Returns ``make()``, a copy of x in a ``form`` of a ``kind``; within a recording one of the ``most`` last copies
    of the kind if it has that form and x has not been written since.
    """
    recording = open_here(engine)
    if recording is None:
        return make()
    storage, recent = x._ready_storage(), _recent.setdefault(recording, {}).setdefault(kind, [])
    for earlier in recent:
        if earlier.storage() is storage and (earlier.version, earlier.form) == (storage.version, form):
            return earlier.copy
    new_copy = make()
    # Copies of a tensor that no longer exists, or was written, give their memory back.
    kept = [
        each for each in recent if (storage_of := each.storage()) is not None and storage_of.version == each.version
    ]
    recent[:] = [*kept[1 - most :], _Copy(ref(storage), storage.version, form, new_copy)]
    return new_copy
