"""Values that a captured step computes from tensors which it does not write, such as weights in the layout of a kernel.

They are computed at the capture, are no part of a replay, and are computed again by the first replay after one of
their sources was written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.dtypes import itemsize
from netcl.core.engine.recording import open_here, unrecorded

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData


class _Value:
    """A tensor, what computes it, and the writes in place that its sources had then."""

    def __init__(self, tensor: TensorData, storages: Sequence[Any], fill: Callable[[TensorData], None]) -> None:
        self.tensor, self._storages, self._fill = tensor, storages, fill
        self._versions: list[int] = []

    def refresh(self) -> None:
        """Computes the tensor if a source has been written since."""
        versions = [storage.version for storage in self._storages]
        if versions != self._versions:
            self._fill(self.tensor)
            self._versions = versions


class LastingValues:
    """The lasting values of one recording; ``sources`` are tensors from outside, by number, that the step does not
    write.
    """

    def __init__(self, engine: Any, sources: Mapping[int, TensorData]) -> None:
        self._engine = engine
        self.sources: Mapping[int, TensorData] = sources
        self._covered = {id(storage): storage for storage in (x._ready_storage() for x in sources.values())}
        self._values: dict[Hashable, _Value] = {}

    def covers(self, source: TensorData) -> bool:
        """Returns True if ``source`` is one of the sources, or another shape of one."""
        return id(source._ready_storage()) in self._covered

    def value(
        self,
        sources: Sequence[TensorData],
        form: Hashable,
        shape: Sequence[int],
        dtype: str,
        fill: Callable[[TensorData], None],
    ) -> TensorData:
        """Returns the tensor that ``fill`` computes from ``sources``, one for each ``form``."""
        storages = [source._ready_storage() for source in sources]
        key = (form, *map(id, storages))
        if key not in self._values:
            with unrecorded(self._engine):
                tensor = self._engine.empty(shape, dtype, persistent=True)
                value = _Value(tensor, storages, fill)
                value.refresh()
            self._values[key] = value
        return self._values[key].tensor

    def refresh(self) -> None:
        """Computes the values again whose sources have been written."""
        for value in self._values.values():
            value.refresh()

    @property
    def nbytes(self) -> int:
        """The bytes of all values."""
        return sum(value.tensor.size * itemsize(value.tensor.dtype) for value in self._values.values())


def lasting_or_new(
    engine: Any,
    source: TensorData,
    form: Hashable,
    shape: Sequence[int],
    dtype: str,
    fill: Callable[[TensorData], None],
) -> TensorData:
    """Returns a tensor that ``fill`` has computed from ``source``: a lasting value of the recording of this thread if
    ``source`` is one of its sources, else a new tensor of each call.
    """
    recording = open_here(engine)
    if recording is not None and recording.lasting is not None and recording.lasting.covers(source):
        lasting: LastingValues = recording.lasting
        return lasting.value((source,), form, shape, dtype, fill)
    result: TensorData = engine.empty(shape, dtype)
    fill(result)
    return result
