"""PackedTexts: a column of a text file as places in its bytes, compared and read as numbers by arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# Bytes of a number that is read by arrays; zeros of this length are before the first byte.
_WIDTH = 16
_LARGEST_WHOLE = np.uint64(1 << 53)
# The spaces of ASCII that str.strip removes, but for the ends of lines.
_SPACES = np.isin(np.arange(256), [9, 11, 12, 28, 29, 30, 31, 32])
_PLACE = np.arange(_WIDTH, dtype=np.int8)
# Of a mask with a bit for each byte of a window: the bits within a length, and the bytes behind the only bit.
_WITHIN = np.array([0xFFFF & (0xFFFF << (_WIDTH - length)) for length in range(_WIDTH + 1)], np.uint16)
_BEHIND = np.full(1 << _WIDTH, -1, np.int8)
_BEHIND[[0, *(1 << place for place in range(_WIDTH))]] = [0, *range(_WIDTH - 1, -1, -1)]
_TENS = 10 ** np.arange(_WIDTH + 1, dtype=np.uint64)


class PackedTexts(Sequence[str]):
    """Texts in ``data``, UTF-8; the bytes of text i are ``starts[i]`` to ``ends[i]``."""

    def __init__(self, data: Bytes, starts: Places, ends: Places) -> None:
        self.data, self.starts, self.ends = data, starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return PackedTexts(self.data, self.starts[index], self.ends[index])
        return self.data[self.starts[index] : self.ends[index]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def take(self, rows: Places) -> PackedTexts:
        """Returns the chosen texts."""
        return PackedTexts(self.data, self.starts[rows], self.ends[rows])

    @cached_property
    def texts(self) -> list[str]:
        """The texts as objects; equal ones of up to eight bytes are one object."""
        if not len(self):
            return []
        lengths = self.ends - self.starts
        if lengths.max() > 8:
            content = self.data.tobytes()
            bounds = zip(self.starts.tolist(), self.ends.tolist())
            return [content[start:end].decode() for start, end in bounds]
        window = self._windows(8)
        window[np.arange(8) < 8 - lengths[:, None]] = 0
        keys, places = np.unique(window.view("<u8").reshape(-1), return_inverse=True)
        words = [key.tobytes().lstrip(b"\0").decode() for key in keys.astype("<u8")]
        return list(map(words.__getitem__, places.reshape(-1).tolist()))

    def among(self, words: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Returns True for each text that is one of ``words``."""
        lengths, first = self.ends - self.starts, self.data[np.minimum(self.starts, len(self.data) - 1)]
        equal = np.zeros(len(self), bool)
        for word in words:
            if not word:
                equal |= lengths == 0
                continue
            spelled = word.encode()
            at = np.flatnonzero((first == spelled[0]) & (lengths == len(spelled)))
            for offset, byte in enumerate(spelled[1:], 1):
                at = at[self.data[self.starts[at] + offset] == byte] if at.size else at
            equal[at] = True
        return equal

    def numbers(self, decimal: str) -> npt.NDArray[np.float64]:
        """Returns what float() gives for a sign, digits and a mark of at most sixteen bytes; NaN for another text.

        A whole number below 2**53 divided by a power of ten up to 10**22 is rounded once (Clinger, 1990).
        """
        lengths = self.ends - self.starts
        window = self._windows(_WIDTH)
        digits, marks = (window - np.uint8(48)) < 10, window == np.uint8(ord(decimal))
        used = _WITHIN[np.minimum(lengths, _WIDTH)]
        of_digits, of_marks = _bits(digits) & used, _bits(marks) & used
        behind = _BEHIND[of_marks]
        first = self.data[np.minimum(self.starts, len(self.data) - 1)]
        signs = (first == 43) | (first == 45)
        others = used & ~(of_digits | of_marks)
        # The sign is the lowest bit within the length.
        good = (others == 0) | (signs & (others == (used & (~used + np.uint16(1)))))
        good &= (of_digits != 0) & (behind >= 0) & (lengths <= _WIDTH)
        window[~digits | (_PLACE[None] < (_WIDTH - np.minimum(lengths, _WIDTH)).astype(np.int8)[:, None])] = 48
        halves = _eight_digits(window.view("<u8"))
        whole = halves[:, 0] * _TENS[8] + halves[:, 1]
        fraction = np.maximum(behind, 0)
        if of_marks.any():
            # The mark counts as a zero: what is before it moves by a place.
            before, after = np.divmod(whole, _TENS[fraction + 1])
            whole = np.where(of_marks != 0, before * _TENS[fraction] + after, whole)
        values = whole.astype(np.float64) / _TENS[fraction].astype(np.float64)
        values = np.where(first == 45, -values, values)
        values[~(good & (whole < _LARGEST_WHOLE))] = np.nan
        return np.asarray(values)

    def _windows(self, width: int) -> Bytes:
        """Returns the last bytes of each text, (rows, width), with those before a shorter one."""
        return np.lib.stride_tricks.sliding_window_view(self.data, width)[self.ends - width]


def _bits(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint16]:
    return np.packbits(flags.reshape(-1), bitorder="little").view("<u2")


def _eight_digits(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns the numbers of eight digits each, the first in the lowest byte, by three multiplications."""
    pairs = words - np.uint64(0x3030303030303030)
    pairs = pairs * np.uint64(10) + (pairs >> np.uint64(8))
    byte = np.uint64(0x000000FF000000FF)
    first, second = (pairs & byte) * np.uint64(0x000F424000000064), (pairs >> np.uint64(16)) & byte
    return np.asarray((first + second * np.uint64(0x0000271000000001)) >> np.uint64(32))


def columns_of(lines: bytes, mark: bytes, width: int) -> list[PackedTexts] | None:
    """Returns the columns of lines without quotes, each with a line feed at its end; None if a line has no ``width``
    cells, or only empty ones. Cells have no spaces around them.
    """
    data = np.frombuffer(b"\0" * _WIDTH + lines, np.uint8)
    line_ends = data == 10
    ends = np.flatnonzero((data == mark[0]) | line_ends)
    rows = int(line_ends.sum())
    if len(ends) != rows * width or not line_ends[ends[width - 1 :: width]].all():
        return None
    starts = np.concatenate([[_WIDTH], ends[:-1] + 1])
    if (ends[width - 1 :: width] - starts[::width] == width - 1).any():
        return None
    if any(space in lines for space in b"\t\v\f\x1c\x1d\x1e\x1f " if space != mark[0]):
        while (at := np.flatnonzero(_SPACES[data[starts]] & (starts < ends))).size:
            starts[at] += 1
        while (at := np.flatnonzero(_SPACES[data[ends - 1]] & (starts < ends))).size:
            ends[at] -= 1
    # The places of a column follow each other in memory.
    places = np.ascontiguousarray(starts.reshape(rows, width).T), np.ascontiguousarray(ends.reshape(rows, width).T)
    return [PackedTexts(data, start, end) for start, end in zip(*places)]
