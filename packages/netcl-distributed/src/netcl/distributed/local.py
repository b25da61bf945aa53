"""The transport of one process: a thread for each device, which meet at a board in plain memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from netcl.core import config, dispatch
from netcl.core.device import device
from netcl.distributed.board import ABORT_CODE, DONE, FAILED, HEAD, RANK_WORDS, Board, BoardGroup
from netcl.distributed.current import active_group
from netcl.distributed.folding import Array
from netcl.distributed.patience import Patience

__all__ = ["LocalGroup", "local_groups", "run_on_devices"]

R = TypeVar("R")
_WINDOW = 1 << 20
_LOOK_S = 0.5  # a thread that waits is woken; it only looks whether its time is up


class _Room:
    """What the threads of one group share."""

    def __init__(self, size: int) -> None:
        self.words = [0] * (HEAD + RANK_WORDS * size)
        self.areas = [[np.empty(_WINDOW, np.uint8) for _ in range(3)] for _ in range(size)] if size > 1 else []
        self.texts = [["", "", ""] for _ in range(size)]
        self.reason = ""
        self.changed = threading.Condition()


class _ThreadBoard(Board):
    def __init__(self, room: _Room, rank: int, size: int) -> None:
        super().__init__(rank, size, _WINDOW, room.words)
        self._room = room

    def area(self, rank: int, part: int) -> Array:
        return self._room.areas[rank][part]

    def post(self, slot: int, text: str) -> None:
        self._room.texts[self.rank][slot] = text

    def posted(self, rank: int, slot: int) -> str:
        return self._room.texts[rank][slot]

    def set_reason(self, text: str) -> None:
        self._room.reason = text

    def reason(self) -> str:
        return self._room.reason

    def until(self, ready: Callable[[], bool], patience: Patience) -> bool:
        with self._room.changed:
            while not (ready() or self.words[ABORT_CODE]):
                if patience.over():
                    return False
                self._room.changed.wait(min(patience.left, _LOOK_S))
        return True

    def wake(self) -> None:
        with self._room.changed:
            self._room.changed.notify_all()


class LocalGroup(BoardGroup):
    """A rank that is a thread of this process; see ``local_groups``."""

    def __init__(self, room: _Room, rank: int, size: int, timeout: float) -> None:
        super().__init__(_ThreadBoard(room, rank, size), timeout)

    def _fold(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        if self.size > 1:
            super()._fold(source, out, op, low, high)
        elif out.size:
            out[...] = source[low:high]

    def _collect(self, own: Array, counts: Any) -> Array:
        return super()._collect(own, counts) if self.size > 1 else own.copy()

    def _spread(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        if self.size > 1:
            super()._spread(source, out, root, low, total)
        elif out.size and source is not None:
            out[...] = source[low : low + out.size]

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks that this one raised."""
        self.board.abort(FAILED, self.rank, f"rank {self.rank} raised {type(error).__name__}: {error}")

    def leave(self) -> None:
        """Tells the other ranks that this one has ended."""
        self.board.set_word(self.rank, DONE, 1)


def local_groups(size: int, timeout: float | None = None) -> list[LocalGroup]:
    """One group as its ``size`` ranks see it; each is for a thread of its own."""
    if size < 1:
        raise ValueError(f"a group has at least one rank, not {size}")
    room = _Room(size)
    limit = float(config.get("DIST_TIMEOUT_S")) if timeout is None else timeout
    return [LocalGroup(room, rank, size, limit) for rank in range(size)]


def run_on_devices(fn: Callable[[LocalGroup], R], devices: Iterable[Any], timeout: float | None = None) -> list[R]:
    """Calls ``fn(group)`` once for each device, at the same time, each in a thread in which that device is active and
    ``group`` is the group of ``get_rank()`` and of the collectives; returns the results in rank order.

    ``devices`` are selectors, handles or queues. Where ``fn`` raises on a rank, the others' collectives raise
    RankFailedError, and what was raised first is raised here.
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
