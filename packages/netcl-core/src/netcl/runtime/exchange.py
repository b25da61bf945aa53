"""Inputs and results of captured steps without copies: a replay gives its launches the buffers of the tensors that it
was called with, and of fresh results, as arguments.

A copy of a small tensor is a launch: a driver of a CPU takes 3 to 10 microseconds for it and wakes its threads once
more. A copy of a large one is a pass over memory. Whether the launches may use another buffer is known only of steps
with all launches from logged calls. An input is read in place if nothing writes into its captured tensor and the given
tensor is none that the step writes; a result is written in place if it is a tensor of the arena that no other result or
gradient shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from netcl.core.tensor import Tensor

Setters = list[Callable[[Any], None]]
_SPARE = 4


class Exchange:
    """The captured ``inputs`` and ``results`` with buffers that a replay exchanges; ``written`` are the storages from
    outside that the step writes, ``kept`` the storages of its tensors that live on as gradients.
    """

    def __init__(
        self,
        recording: Any,
        inputs: Iterable[Tensor],
        results: Iterable[Tensor],
        written: Iterable[Any],
        kept: Iterable[Tensor],
    ) -> None:
        self._recording = recording
        results = list(results)
        self._written = {buffer.int_ptr for buffer in (storage.buffer for storage in written) if buffer is not None}
        addresses = [tensor.buffer.int_ptr for tensor in (*results, *kept)]
        once = {address for address in addresses if addresses.count(address) == 1}
        self._inputs: dict[int, Setters] = {}
        for tensor in inputs:
            address = tensor.buffer.int_ptr
            if address not in self._written and address not in addresses:
                self._inputs.update(self._with_setters(tensor))
        arenas = [tensor for tensor in results if tensor.buffer.int_ptr in once and self._is_arenas(tensor)]
        self._results = [
            (tensor, _larger(tensor), setters) for tensor in arenas for setters in self._with_setters(tensor).values()
        ]

    def _with_setters(self, tensor: Tensor) -> dict[int, Setters]:
        """Returns the functions that replace the tensor's buffer in the launches, by the tensor's identity, if any."""
        setters = self._recording.exchange(tensor.buffer)
        return {} if setters is None else {id(tensor): setters}

    def _is_arenas(self, tensor: Tensor) -> bool:
        """True if the tensor's buffer is the arena's, and at most ``_SPARE`` times as large as a fresh one."""
        handle: Any = tensor.pool_handle
        if handle is None or handle.pool is not self._recording.pool:
            return False
        engine: Any = tensor.engine
        return bool(handle.bucket_size <= _SPARE * engine.pool.bucket_for(tensor.nbytes))

    def read(self, static: Tensor, value: Tensor) -> bool:
        """Has the launches read ``value`` in the place of the captured ``static``; False if ``static``, which they read
        then, must become a copy.
        """
        setters = self._inputs.get(id(static))
        if setters is None:
            return False
        buffer = value.buffer
        handle: Any = value.pool_handle
        own = buffer.int_ptr in self._written or (handle is not None and handle.pool is self._recording.pool)
        for put in setters:
            put(static.buffer if own else buffer)
        return not own

    def fresh(self) -> Mapping[int, Tensor]:
        """Returns new tensors that the launches write in the place of the results, by the identity of these."""
        made: dict[int, Tensor] = {}
        for tensor, size, setters in self._results:
            other = made[id(tensor)] = _fresh(tensor, size)
            for put in setters:
                put(other._storage.buffer)
        return made


def _larger(tensor: Tensor) -> int | None:
    """Returns the size of a tensor's buffer in the arena, where larger ones may have been before; None if a new one has
    that size.
    """
    engine: Any = tensor.engine
    handle: Any = tensor.pool_handle
    return None if handle.bucket_size <= engine.pool.bucket_for(tensor.nbytes) else handle.bucket_size


def _fresh(tensor: Tensor, size: int | None) -> Tensor:
    """Returns a new tensor like ``tensor``, with a buffer of ``size`` if that is not None."""
    engine: Any = tensor.engine
    if size is None:
        return engine.empty(tensor.shape, tensor.dtype)  # type: ignore[no-any-return]
    whole = engine.empty((size,), "uint8")
    return Tensor._wrap(engine, tensor.shape, tensor.dtype, whole.buffer, None, whole.pool_handle)
