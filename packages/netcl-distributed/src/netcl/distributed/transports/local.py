"""The transport of one process: one thread per device, with a shared buffer in plain memory."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from netcl.core import config
from netcl.core.device import device
from netcl.core.ops_table import dispatch
from netcl.distributed.current import active_group
from netcl.distributed.reductions import Array
from netcl.distributed.transports.backoff import Deadline
from netcl.distributed.transports.segment import SLOT_BYTES, SLOTS, StagingSegment, segment_bytes
from netcl.distributed.transports.shared_buffer import ABORT_CODE, DONE, FAILED, HEAD, RANK_WORDS, SharedBuffer
from netcl.distributed.transports.shared_buffer_group import SharedBufferGroup

R = TypeVar("R")
_WINDOW = 1 << 20
_LOOK_S = 0.5  # waiting threads are woken; this is only for checking the deadline


class _ThreadState:
    """The state that the threads of one group share."""

    def __init__(self, size: int) -> None:
        self.words: list[int] = [0] * (HEAD + RANK_WORDS * size)
        self.areas: list[list[np.ndarray[Any, Any]]] = (
            [[np.empty(_WINDOW, np.uint8) for _ in range(3)] for _ in range(size)] if size > 1 else []
        )
        self.texts: list[list[str]] = [["", "", ""] for _ in range(size)]
        self.reason = ""
        self.memory: mmap.mmap | None = None  # for exchanges between devices
        self.changed: threading.Condition = threading.Condition()


class _ThreadBuffer(SharedBuffer):
    def __init__(self, state: _ThreadState, rank: int, size: int) -> None:
        super().__init__(rank, size, _WINDOW, state.words)
        self._state = state

    def area(self, rank: int, part: int) -> Array:
        return self._state.areas[rank][part]

    def post(self, slot: int, text: str) -> None:
        self._state.texts[self.rank][slot] = text

    def posted(self, rank: int, slot: int) -> str:
        return self._state.texts[rank][slot]

    def set_reason(self, text: str) -> None:
        self._state.reason = text

    def reason(self) -> str:
        return self._state.reason

    def until(self, ready: Callable[[], bool], deadline: Deadline) -> bool:
        with self._state.changed:
            while not (ready() or self.words[ABORT_CODE]):
                if deadline.expired():
                    return False
                self._state.changed.wait(min(deadline.left, _LOOK_S))
        return True

    def wake(self) -> None:
        with self._state.changed:
            self._state.changed.notify_all()


class LocalGroup(SharedBufferGroup):
    """A rank that is a thread of this process; see ``local_groups``."""

    def __init__(self, state: _ThreadState, rank: int, size: int, timeout: float) -> None:
        self._state = state
        super().__init__(_ThreadBuffer(state, rank, size), timeout)

    def _new_segment(self) -> StagingSegment | None:
        with self._state.changed:
            if self._state.memory is None:
                self._state.memory = mmap.mmap(-1, segment_bytes(self.size, SLOTS, SLOT_BYTES))
        return StagingSegment(self._state.memory, self.size, SLOTS, SLOT_BYTES)

    def _reduce_range(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        if self.size > 1:
            super()._reduce_range(source, out, op, low, high)
        elif out.size:
            out[...] = source[low:high]

    def _concatenate(self, own: Array, counts: Any) -> Array:
        return super()._concatenate(own, counts) if self.size > 1 else own.copy()

    def _broadcast_range(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        if self.size > 1:
            super()._broadcast_range(source, out, root, low, total)
        elif out.size and source is not None:
            out[...] = source[low : low + out.size]

    def fail(self, error: BaseException) -> None:
        """Reports an error of this rank to the other ranks."""
        self.buffer.abort(FAILED, self.rank, f"rank {self.rank} raised {type(error).__name__}: {error}")

    def leave(self) -> None:
        """Reports to the other ranks that this one has ended."""
        self.buffer.set_word(self.rank, DONE, 1)


def local_groups(size: int, timeout: float | None = None) -> list[LocalGroup]:
    """Returns the groups of ``size`` ranks; each is for a thread of its own."""
    if size < 1:
        raise ValueError(f"expected a group of at least one rank, got {size}")
    state = _ThreadState(size)
    limit = float(config.get("DIST_TIMEOUT_S")) if timeout is None else timeout
    return [LocalGroup(state, rank, size, limit) for rank in range(size)]


def run_on_devices(fn: Callable[[LocalGroup], R], devices: Iterable[Any], timeout: float | None = None) -> list[R]:
    """Calls ``fn(group)`` once for each device in parallel, each in a thread with that device active and ``group`` as
    the current group; returns the results in rank order.

    ``devices`` are selectors, handles or queues. If ``fn`` raises on a rank, the others' collectives raise
    RankFailedError, and the first error is raised here.
    """
    handles = list(devices)
    groups = local_groups(len(handles), timeout)
    snapshot = dispatch.snapshot()
    errors: list[BaseException] = []

    def rank(group: LocalGroup, handle: Any) -> R | None:
        try:
            with snapshot.active(), device(handle), active_group(group):
                return fn(group)
        except BaseException as error:  # noqa: BLE001 - raised again once all threads have ended
            errors.append(error)
            group.fail(error)
            return None
        finally:
            group.leave()
            group.close()

    with ThreadPoolExecutor(len(handles), thread_name_prefix="netcl-rank") as pool:
        results = list(pool.map(rank, groups, handles))
    if errors:
        raise errors[0]
    return results  # type: ignore[return-value]
