"""SharedBatchRingBuffer: a ring of batch slots in shared memory through which workers pass arrays to the loader."""

from __future__ import annotations

import math
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SharedBatchRingBuffer"]

_ALIGNMENT = 64
_SHARED_MEMORY_FOLDER = Path("/dev/shm")

FieldSpecs = Mapping[str, tuple[Sequence[int], npt.DTypeLike]]


class SharedBatchRingBuffer:
    """``K`` slots of one shared-memory segment, each with one array per field.

    ``field_specs``: name -> (shape, dtype), the same for all slots; object dtypes are refused. Fields start at
    multiples of 64 bytes. Ownership of slots is agreed on by messages: there is no locking here.

    The process that creates the ring calls ``close`` and ``unlink``; another process attaches by
    ``SharedBatchRingBuffer.attach(attach_info)`` and calls ``close``. If the creator is killed, Python's resource
    tracker unlinks the segment once the processes that it started have ended.

    Raises:
        ValueError: there is no field, a dtype is object, or K < 1. MemoryError: not enough shared memory.
    """

    def __init__(self, field_specs: FieldSpecs, K: int = 8) -> None:
        self._lay_out(field_specs, K)
        self._memory = _create(max(1, self.nbytes))
        self._owner = True

    @classmethod
    def attach(cls, attach_info: Mapping[str, Any]) -> SharedBatchRingBuffer:
        """Returns the ring that another process has created, from its ``attach_info()``."""
        ring = cls.__new__(cls)
        ring._lay_out(attach_info["field_specs"], attach_info["K"])
        # Before 3.13 attaching registers the name too; the tracker is the creator's (workers inherit it) and keeps a
        # set of names, so that the creator's unlink removes both registrations.
        untracked = {"track": False} if sys.version_info >= (3, 13) else {}
        ring._memory = shared_memory.SharedMemory(attach_info["name"], **untracked)
        ring._owner = False
        return ring

    def _lay_out(self, field_specs: FieldSpecs, K: int) -> None:
        if isinstance(K, bool) or not isinstance(K, (int, np.integer)) or K < 1:
            raise ValueError(f"K, the number of slots, must be a positive int, got {K!r}")
        if not field_specs:
            raise ValueError("field_specs must name at least one field")
        self.K = int(K)
        self.field_specs: dict[str, tuple[tuple[int, ...], str]] = {
            name: (tuple(int(size) for size in shape), np.dtype(dtype).str)
            for name, (shape, dtype) in field_specs.items()
        }
        self._offsets = {}
        offset = 0
        for name, (shape, dtype) in self.field_specs.items():
            if np.dtype(dtype).hasobject or not np.dtype(dtype).itemsize:
                raise ValueError(f"field {name!r} has dtype {dtype}: objects and empty dtypes cannot be shared")
            self._offsets[name] = offset
            offset += -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
        self._slot_bytes = offset

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self._slot_bytes * self.K

    def slot_view(self, slot: int) -> dict[str, npt.NDArray[Any]]:
        """Returns the arrays of slot 0 <= slot < K as views of the shared memory; delete them before ``close``."""
        if not 0 <= slot < self.K:
            raise IndexError(f"slot {slot} is outside of a ring of {self.K}")
        start, buffer = slot * self._slot_bytes, self._memory.buf
        if buffer is None:
            raise ValueError("the ring has been closed")
        # Not np.ndarray(buffer=...): it does not pin the mapping, and close would unmap the memory of a live array.
        return {
            name: np.frombuffer(buffer, dtype, math.prod(shape), start + self._offsets[name]).reshape(shape)
            for name, (shape, dtype) in self.field_specs.items()
        }

    def slot_copy(self, slot: int, count: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """Returns copies of the arrays of a slot; ``count``: only the first rows of each field."""
        return {name: view[:count].copy() if view.ndim else view.copy() for name, view in self.slot_view(slot).items()}

    def attach_info(self) -> dict[str, Any]:
        """Returns the arguments of ``attach``; they can be pickled."""
        return {"name": self._memory.name, "field_specs": self.field_specs, "K": self.K}

    def close(self) -> None:
        """Detaches this process; may be called again. Raises BufferError while a view of a slot is alive."""
        try:
            self._memory.close()
        except BufferError:
            raise BufferError("an array of slot_view is still in use: delete it, or take slot_copy") from None

    def unlink(self) -> None:
        """Returns the segment to the system; for the creator only, may be called again."""
        if self._owner:
            self._owner = False
            self._memory.unlink()


def _create(nbytes: int) -> shared_memory.SharedMemory:
    """Creates a segment with all pages allocated: writing to a sparse one kills the process if memory runs out."""
    advice = "; give a smaller batch_size or prefetch, enlarge it, or set use_shared_mem=False"
    try:
        memory = shared_memory.SharedMemory(f"netcl-{os.getpid()}-{secrets.token_hex(6)}", create=True, size=nbytes)
    except OSError as error:
        raise MemoryError(f"no shared memory of {nbytes} bytes: {error}{advice}") from error
    path = _SHARED_MEMORY_FOLDER / memory.name.lstrip("/")
    try:
        if hasattr(os, "posix_fallocate") and path.exists():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.posix_fallocate(descriptor, 0, nbytes)
            finally:
                os.close(descriptor)
    except OSError as error:
        memory.close()
        memory.unlink()
        raise MemoryError(f"no shared memory of {nbytes} bytes in {_SHARED_MEMORY_FOLDER}: {error}{advice}") from error
    return memory
