"""The transport of one host: processes with a shared buffer in a memory-mapped file, which is removed after
every run.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import numpy as np

from netcl.core import config
from netcl.core.errors import format_bytes
from netcl.distributed.reductions import Array
from netcl.distributed.transports.backoff import Deadline, sleep_with_backoff, yield_processor
from netcl.distributed.transports.segment import (
    SLOT_BYTES,
    SLOTS,
    StagingSegment,
    create_segment,
    open_segment,
    segment_bytes,
)
from netcl.distributed.transports.shared_buffer import ABORT_CODE, ATTACHED, HEAD, RANK_WORDS, SharedBuffer
from netcl.distributed.transports.shared_buffer_group import SharedBufferGroup
from netcl.distributed.transports.shared_folder import PREFIX, is_abandoned, segment_folder, segment_prefix

WINDOW = 1 << 20
_MAGIC = 0x6E6574636C310000
# Further words of the head, after the words of the abort.
_MAGIC_WORD, _SIZE, _WINDOW_BYTES = 2, 3, 4
_WORD = 8
_TEXT = 512
_SPINS, _YIELD_S = 400, 1e-3
_LEAST_SLOT = 1 << 18
_MAIN = threading.main_thread().ident


def _layout(size: int, window: int) -> tuple[int, int, int]:
    """Returns the offsets of the texts and of the windows, and the total number of bytes."""
    texts = _WORD * (HEAD + RANK_WORDS * size)
    windows = -(-(texts + _TEXT * (1 + 3 * size)) // mmap.PAGESIZE) * mmap.PAGESIZE
    return texts, windows, windows + 3 * window * size


class MappedBuffer(SharedBuffer):
    """A shared buffer in the file ``path``, created by ``create``. Ranks poll; the order of writes is x86's: a counter
    is never visible before the data written ahead of it.
    """

    @property
    def spins(self) -> int:
        """A thread other than the main one must not spin: it would keep the main thread from computing."""
        return _SPINS if threading.get_ident() == _MAIN else 1

    def __init__(self, path: str | Path, rank: int) -> None:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            _check_owner(path, os.fstat(descriptor))
            self._memory = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        words = memoryview(self._memory)[: len(self._memory) // _WORD * _WORD].cast("q")
        if len(words) <= HEAD or words[_MAGIC_WORD] != _MAGIC:
            raise RuntimeError(f"{path} is no rendezvous of netcl: a run's file begins otherwise")
        size, window = words[_SIZE], words[_WINDOW_BYTES]
        if size < 1 or window < 1 or not 0 <= rank < size or _layout(size, window)[2] != len(self._memory):
            raise RuntimeError(
                f"{path} is damaged, or of another run: {len(self._memory)} bytes do not hold {size} ranks with "
                f"windows of {window} bytes (this is rank {rank})"
            )
        self._texts, windows, _ = _layout(size, window)
        bytes_ = np.frombuffer(self._memory, np.uint8)
        self._areas = [
            [bytes_[windows + (3 * other + part) * window :][:window] for part in range(3)] for other in range(size)
        ]
        super().__init__(rank, size, window, words)

    def area(self, rank: int, part: int) -> Array:
        return self._areas[rank][part]

    def _put(self, slot: int, text: str) -> None:
        data = text.encode()[: _TEXT - 1] + b"\0"
        start = self._texts + _TEXT * slot
        self._memory[start : start + len(data)] = data

    def _get(self, slot: int) -> str:
        start = self._texts + _TEXT * slot
        return self._memory[start : start + _TEXT].partition(b"\0")[0].decode("utf-8", "replace")

    def post(self, slot: int, text: str) -> None:
        self._put(1 + 3 * self.rank + slot, text)

    def posted(self, rank: int, slot: int) -> str:
        return self._get(1 + 3 * rank + slot)

    def set_reason(self, text: str) -> None:
        self._put(0, text)

    def reason(self) -> str:
        return self._get(0)

    def wake(self) -> None:
        """Does nothing: the other ranks poll."""

    def until(self, ready: Callable[[], bool], deadline: Deadline) -> bool:
        words, alone = self.words, threading.get_ident() == _MAIN
        started = time.monotonic()
        while not ready():
            if words[ABORT_CODE]:
                return True
            if deadline.expired():
                return False
            # At first the others arrive soon; later they compute, and need the processor.
            waited = time.monotonic() - started
            if alone and waited < _YIELD_S:
                yield_processor()
            else:
                sleep_with_backoff(waited)
        return True


def _check_owner(path: str | Path, status: os.stat_result) -> None:
    """Raises RuntimeError if a rendezvous is no regular file, or another user could have written it."""
    if not stat.S_ISREG(status.st_mode):
        raise RuntimeError(f"{path} is no rendezvous of netcl: it is no regular file")
    writable = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    if hasattr(os, "geteuid") and (status.st_uid not in (os.geteuid(), 0) or writable):
        mode = stat.S_IMODE(status.st_mode)
        raise RuntimeError(
            f"{path} is not trusted: it belongs to the user {status.st_uid} and has mode {mode:04o}; a rendezvous is "
            "this user's, with mode 0600"
        )


class SharedGroup(SharedBufferGroup):
    """A rank that is a process of this host."""

    buffer: MappedBuffer

    def _new_segment(self) -> StagingSegment | None:
        slot_bytes = SLOT_BYTES
        while slot_bytes >= _LEAST_SLOT:
            path = create_segment(segment_bytes(self.size, SLOTS, slot_bytes)) if self.rank == 0 else None
            text = b"" if path is None else str(path).encode()
            name = np.frombuffer(text.ljust(_TEXT, b"\0"), np.uint8).copy()
            self._broadcast_range(name if self.rank == 0 else None, name, 0, 0, name.size)
            segment = name.tobytes().rstrip(b"\0").decode()
            try:
                if segment:
                    memory = open_segment(segment)
                    self._barrier()  # all ranks have opened it
                    return StagingSegment(memory, self.size, SLOTS, slot_bytes)
            finally:
                if path is not None:
                    path.unlink(missing_ok=True)
            slot_bytes //= 2
        return None


def create(size: int, window: int = WINDOW) -> Path:
    """Creates the file of a group of ``size`` ranks and returns its path; raises MemoryError if there is not enough
    space.

    Its name contains the id of this process, for ``sweep`` to distinguish files of dead runs.
    """
    _, _, total = _layout(size, window)
    path = segment_folder() / f"{segment_prefix()}{token_hex(4)}"
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags, 0o600), "r+b") as file:  # no moment in which others may open it
            head = np.zeros(HEAD, np.int64)
            head[[_MAGIC_WORD, _SIZE, _WINDOW_BYTES]] = _MAGIC, size, window
            file.write(head.tobytes())
            # A sparse file would end the process with SIGBUS when the memory is exhausted later.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, total)
            else:
                file.write(bytes(total - head.nbytes))
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
            raise
        raise MemoryError(
            f"{format_bytes(total)} of shared memory for {size} ranks do not fit into {path.parent}: {error.strerror}. "
            "Free some there, make it larger, or give --window a smaller size"
        ) from error
    return path


def sweep() -> list[Path]:
    """Removes the files of runs with a dead launcher, and returns their paths."""
    removed = []
    for path in segment_folder().glob(f"{PREFIX}*-*"):
        if is_abandoned(path.name):
            # Another launcher may sweep concurrently; another user's file belongs to that user.
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path)
    return removed


_attached: MappedBuffer | None = None


def attach() -> MappedBuffer:
    """Returns the shared buffer that the launcher assigned to this process; opened once, because its name is removed
    soon after.

    Raises RuntimeError if the launcher did not set this process's rank and rendezvous, or that run is over.
    """
    global _attached
    if _attached is None:
        path, rank = config.get("RENDEZVOUS"), config.get("RANK")
        if path is None or rank is None:
            raise RuntimeError(
                "the transport shared needs a launcher: start the script by python -m netcl.distributed.run -n N"
            )
        try:
            buffer = MappedBuffer(path, rank)
        except FileNotFoundError:
            raise RuntimeError(
                f"the rendezvous {path} is gone: NETCL_RENDEZVOUS is that of a run which is over or has all its ranks"
            ) from None
        if not 0 <= rank < buffer.size:
            raise RuntimeError(f"NETCL_RANK={rank} is no rank of the group at {path}, which has {buffer.size}")
        buffer.set_word(rank, ATTACHED, 1)
        _attached = buffer
    return _attached


def join(timeout: float) -> SharedGroup:
    """Returns this process's rank of the launcher's group."""
    return SharedGroup(attach(), timeout)
