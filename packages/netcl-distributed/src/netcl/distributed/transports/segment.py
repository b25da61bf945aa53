"""StagingSegment: memory of the host that the devices of all ranks of a group read and write, divided in slots.

A slot is the room for one piece of an exchange: of each rank its elements, and the sum of the part that it reduces. A
rank reports its progress in words of its own, each the number of the newest piece of the slot that has got so far; a
word is written after the data that it speaks of, in the order of x86.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from secrets import token_hex
from zlib import crc32

import numpy as np

from netcl.distributed.reductions import Array
from netcl.distributed.transports.shared_folder import segment_folder, segment_prefix

# Each slot of a rank has room for this many bytes: pieces in flight hide the latency of a piece.
SLOTS, SLOT_BYTES = 6, 16 << 20

# The words of a rank in a slot: its elements are in the host's memory, its sum is, it has read all sums; then the
# checksum of the piece's signature. They fill a cache line.
SENT, SUMMED, TAKEN, SIGNATURE = range(4)
_WORDS = 8
_TEXT = 256


def _layout(size: int, slots: int, slot_bytes: int) -> tuple[int, int, int]:
    """Returns the offsets of the texts and of the slots, and the bytes of a rank in a slot."""
    texts = 8 * _WORDS * size * slots
    data = -(-(texts + _TEXT * size * slots) // mmap.PAGESIZE) * mmap.PAGESIZE
    part = (slot_bytes // size // mmap.PAGESIZE + 2) * mmap.PAGESIZE  # parts are rounded to lines
    return texts, data, slot_bytes + part


def segment_bytes(size: int, slots: int, slot_bytes: int) -> int:
    """Returns the bytes of a segment for ``size`` ranks, with ``slots`` of ``slot_bytes`` (a multiple of a page)."""
    _, data, each = _layout(size, slots, slot_bytes)
    return data + each * size * slots


class StagingSegment:
    """The memory ``memory`` (an mmap) as slots of ``size`` ranks."""

    def __init__(self, memory: mmap.mmap, size: int, slots: int, slot_bytes: int) -> None:
        self.memory: mmap.mmap = memory
        self.size: int = size
        self.slots: int = slots
        self.slot_bytes: int = slot_bytes
        self._texts, self._data, self._each = _layout(size, slots, slot_bytes)
        self._words = memoryview(memory)[: 8 * _WORDS * size * slots].cast("q")

    def elements(self, rank: int, slot: int) -> int:
        """Returns the offset of a rank's elements in a slot, in bytes."""
        return self._data + (rank * self.slots + slot) * self._each

    def sum(self, rank: int, slot: int) -> int:
        """Returns the offset of the sum that a rank made in a slot, in bytes."""
        return self.elements(rank, slot) + self.slot_bytes

    def _word(self, rank: int, slot: int, which: int) -> int:
        return (rank * self.slots + slot) * _WORDS + which

    def report(self, rank: int, slot: int, which: int, number: int) -> None:
        """Writes that piece ``number`` in a slot has got so far on a rank."""
        self._words[self._word(rank, slot, which)] = number

    def behind(self, slot: int, which: int, number: int) -> list[int]:
        """Returns the ranks that have not yet got so far with piece ``number`` in a slot."""
        words = self._words
        return [rank for rank in range(self.size) if words[self._word(rank, slot, which)] < number]

    def sign(self, rank: int, slot: int, text: str) -> None:
        """Publishes the description of a rank's piece in a slot, which must be the same on all ranks."""
        data = text.encode()[: _TEXT - 1] + b"\0"
        start = self._texts + _TEXT * (rank * self.slots + slot)
        self.memory[start : start + len(data)] = data
        self._words[self._word(rank, slot, SIGNATURE)] = crc32(data)

    def signatures(self, slot: int) -> list[str] | None:
        """Returns the descriptions of all ranks in a slot if they differ, else None."""
        words = self._words
        own = words[self._word(0, slot, SIGNATURE)]
        if all(words[self._word(rank, slot, SIGNATURE)] == own for rank in range(1, self.size)):
            return None
        starts = [self._texts + _TEXT * (rank * self.slots + slot) for rank in range(self.size)]
        return [self.memory[at : at + _TEXT].partition(b"\0")[0].decode("utf-8", "replace") for at in starts]

    def view(self, at: int, nbytes: int) -> Array:
        """Returns ``nbytes`` of the memory from offset ``at`` on, as an array of uint8."""
        return np.frombuffer(self.memory, np.uint8, nbytes, at)

    def close(self) -> None:
        """Releases the words; the memory itself is freed with its last user."""
        self._words.release()


def create_segment(nbytes: int) -> Path | None:
    """Creates a file of ``nbytes`` in shared memory, which only this user can open; None if there is not
    enough space.
    """
    path = segment_folder() / f"{segment_prefix()}{token_hex(4)}"
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b") as file:
            # A sparse file would end the process with SIGBUS when the memory is exhausted later.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, nbytes)
            else:
                file.truncate(nbytes)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return path


def open_segment(path: str | Path) -> mmap.mmap:
    """Maps a file of ``create_segment``; raises OSError if it cannot be opened."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)
