"""The transport of one host: processes that meet at a board in a file of shared memory, which no run leaves behind."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import numpy as np

from netcl.core import config
from netcl.core.errors import format_bytes
from netcl.distributed.board import ABORT_CODE, ATTACHED, HEAD, RANK_WORDS, Board, BoardGroup
from netcl.distributed.folding import Array
from netcl.distributed.patience import Patience, give_way, nap

__all__ = ["WINDOW", "SharedBoard", "SharedGroup", "attach", "create", "join", "sweep"]

WINDOW = 1 << 20
_MAGIC = 0x6E6574636C310000
# Further words of the head, after those of the abort.
_MAGIC_WORD, _SIZE, _WINDOW_BYTES = 2, 3, 4
_WORD = 8
_TEXT = 512
_PREFIX = "netcl-"
_SPINS, _YIELD_S = 400, 1e-3
_MAIN = threading.main_thread().ident


def _folder() -> Path:
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _layout(size: int, window: int) -> tuple[int, int, int]:
    """Where texts begin, where windows begin, and the number of bytes in all."""
    texts = _WORD * (HEAD + RANK_WORDS * size)
    windows = -(-(texts + _TEXT * (1 + 3 * size)) // mmap.PAGESIZE) * mmap.PAGESIZE
    return texts, windows, windows + 3 * window * size


class SharedBoard(Board):
    """A board in the file ``path``, which ``create`` made. Ranks poll; the order of writes is that of x86, on which a
    counter is never seen before what was written ahead of it.
    """

    @property
    def spins(self) -> int:
        """A thread beside the main one that looped here would keep that from computing."""
        return _SPINS if threading.get_ident() == _MAIN else 1

    def __init__(self, path: str | Path, rank: int) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        words = memoryview(self._memory)[: len(self._memory) // _WORD * _WORD].cast("q")
        if len(words) <= HEAD or words[_MAGIC_WORD] != _MAGIC:
            raise RuntimeError(f"{path} is no rendezvous of netcl: a run's file begins otherwise")
        size, window = words[_SIZE], words[_WINDOW_BYTES]
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
        """Nothing: the others poll."""

    def until(self, ready: Callable[[], bool], patience: Patience) -> bool:
        words, alone = self.words, threading.get_ident() == _MAIN
        started = time.monotonic()
        while not ready():
            if words[ABORT_CODE]:
                return True
            if patience.over():
                return False
            # At first the others are about to come; later they compute, and need the processor.
            waited = time.monotonic() - started
            if alone and waited < _YIELD_S:
                give_way()
            else:
                nap(waited)
        return True


class SharedGroup(BoardGroup):
    """A rank that is a process of this host."""

    board: SharedBoard


def create(size: int, window: int = WINDOW) -> Path:
    """Makes the file of a group of ``size`` ranks and gives its path; MemoryError where there is no room for it.

    Its name holds this process's number, by which ``sweep`` tells a dead run's file from a living one's.
    """
    _, _, total = _layout(size, window)
    path = _folder() / f"{_PREFIX}{os.getpid()}-{token_hex(4)}"
    try:
        with open(path, "xb") as file:
            os.chmod(path, 0o600)
            head = np.zeros(HEAD, np.int64)
            head[[_MAGIC_WORD, _SIZE, _WINDOW_BYTES]] = _MAGIC, size, window
            file.write(head.tobytes())
            # A file that is merely made long would end the process with SIGBUS where the room gives out later.
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
    """Removes the files of runs whose launcher is dead, and says which."""
    removed = []
    for path in _folder().glob(f"{_PREFIX}*-*"):
        number = path.name[len(_PREFIX) :].partition("-")[0]
        if number.isdigit() and not _lives(int(number)):
            # Another launcher may sweep at the same moment; another user's file is theirs.
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path)
    return removed


def _lives(pid: int) -> bool:
    if os.name == "nt":  # os.kill would end the process there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_attached: SharedBoard | None = None


def attach() -> SharedBoard:
    """The board at which the launcher seated this process; opened once, since its file is gone soon after.

    RuntimeError where the launcher did not set this process's rank and rendezvous, or that run is over.
    """
    global _attached
    if _attached is None:
        path, rank = config.get("RENDEZVOUS"), config.get("RANK")
        if path is None or rank is None:
            raise RuntimeError(
                "the transport shared needs a launcher: start the script by python -m netcl.distributed.run -n N"
            )
        try:
            board = SharedBoard(path, rank)
        except FileNotFoundError:
            raise RuntimeError(
                f"the rendezvous {path} is gone: NETCL_RENDEZVOUS is that of a run which is over or has all its ranks"
            ) from None
        if not 0 <= rank < board.size:
            raise RuntimeError(f"NETCL_RANK={rank} is no rank of the group at {path}, which has {board.size}")
        board.set_word(rank, ATTACHED, 1)
        _attached = board
    return _attached


def join(timeout: float) -> SharedGroup:
    """This process's rank of the group that the launcher made."""
    return SharedGroup(attach(), timeout)
