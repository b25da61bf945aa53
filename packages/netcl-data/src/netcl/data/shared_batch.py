"""SharedBatchRingBuffer: a ring of batch slots in shared memory through which workers pass arrays to the loader."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import fcntl
except ImportError:  # Windows, where a segment ends with the processes that have opened it
    fcntl = None  # type: ignore[assignment]

__all__ = ["SharedBatchRingBuffer"]

_ALIGNMENT = 64
_SHARED_MEMORY_FOLDER = Path("/dev/shm")
_KIND = "batches"

FieldSpecs = Mapping[str, tuple[Sequence[int], npt.DTypeLike]]


class SharedBatchRingBuffer:
    """``K`` slots of one shared-memory segment, each with one array per field.

    ``field_specs``: name -> (shape, dtype), the same for all slots; object dtypes are refused. Fields start at
    multiples of 64 bytes. Ownership of slots is agreed on by messages: there is no locking here.

    The process that creates the ring calls ``close`` and ``unlink``; another process attaches by
    ``SharedBatchRingBuffer.attach(attach_info)`` and calls ``close``. If the creator is killed, Python's resource
    tracker unlinks the segment once the processes that it started have ended; if the tracker is killed too, as with a
    process group, the next process that creates a ring does (Linux).

    Raises:
        ValueError: there is no field, a dtype is object, or K < 1. MemoryError: not enough shared memory.
    """

    _unlinked = False

    def __init__(self, field_specs: FieldSpecs, K: int = 8) -> None:
        self._lay_out(field_specs, K)
        _remove_abandoned()
        self._segment: _Segment | None = _Segment(max(1, self.nbytes))
        self._memory = self._segment.memory

    @classmethod
    def attach(cls, attach_info: Mapping[str, Any]) -> SharedBatchRingBuffer:
        """Returns the ring that another process has created, from its ``attach_info()``."""
        ring = cls.__new__(cls)
        ring._lay_out(attach_info["field_specs"], attach_info["K"])
        # Before 3.13 attaching registers the name too; the tracker is the creator's (workers inherit it) and keeps a
        # set of names, so that the creator's unlink removes both registrations.
        untracked = {"track": False} if sys.version_info >= (3, 13) else {}
        ring._memory = shared_memory.SharedMemory(attach_info["name"], **untracked)
        ring._segment = None
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
        if self._segment is not None and not self._unlinked:
            self._unlinked = True
            self._segment.unlink()


class _Segment:
    """A new segment with all pages allocated: writing to a sparse one kills the process if memory runs out.

    On Linux it is locked (flock) while its creator, or a forked child, is alive, so that the next process that makes a
    segment removes the segments of killed processes. Unlike the number of a process, a lock is right among containers
    that share /dev/shm, and after a restart.
    """

    def __init__(self, nbytes: int) -> None:
        advice = "; give a smaller batch_size or prefetch, enlarge it, or set use_shared_mem=False"
        try:
            self.memory, self._descriptor = self._locked(nbytes)
        except OSError as error:
            raise MemoryError(f"no shared memory of {nbytes} bytes: {error}{advice}") from error
        if self._descriptor is None or not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self._descriptor, 0, nbytes)
        except OSError as error:
            self.memory.close()
            self.unlink()
            folder = _SHARED_MEMORY_FOLDER
            raise MemoryError(f"no shared memory of {nbytes} bytes in {folder}: {error}{advice}") from error

    @staticmethod
    def _locked(nbytes: int) -> tuple[shared_memory.SharedMemory, int | None]:
        while True:
            name = f"netcl-{os.getpid()}-{_KIND}-{secrets.token_hex(6)}"
            memory = shared_memory.SharedMemory(name, create=True, size=nbytes)
            if not _are_listed():
                return memory, None
            path = _SHARED_MEMORY_FOLDER / memory.name.lstrip("/")
            descriptor = None
            try:
                descriptor = os.open(path, os.O_RDWR)
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if path.exists():
                    return memory, descriptor
            except (FileNotFoundError, BlockingIOError):  # another process took it for abandoned before it was locked
                pass
            except OSError:
                memory.close()
                memory.unlink()
                raise
            if descriptor is not None:
                os.close(descriptor)
            memory.close()
            resource_tracker.unregister(memory._name, "shared_memory")  # type: ignore[attr-defined]

    def unlink(self) -> None:
        """Removes the segment, then gives its lock back."""
        self.memory.unlink()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _are_listed() -> bool:
    """Returns True where segments are files of a folder, which is Linux, so that they can be locked."""
    has_locks = fcntl is not None and hasattr(os, "geteuid")
    return has_locks and sys.platform.startswith("linux") and _SHARED_MEMORY_FOLDER.is_dir()


def _remove_abandoned() -> None:
    """Removes the segments of this user's killed processes."""
    if not _are_listed():
        return
    for path in _SHARED_MEMORY_FOLDER.glob(f"netcl-*-{_KIND}-*"):
        with contextlib.suppress(OSError):  # in use, removed by another process, or another user's
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
            finally:
                os.close(descriptor)
