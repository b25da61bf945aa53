"""Checksums of files: CRC-32, by ISA-L if the package isal is installed (extra ``fast``), else by zlib with the same
numbers; and sums of large arrays, which NumPy computes several times as fast.

Both find accidents. Neither is a signature: a stranger can compute them again.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

# Words in a row of ``array_sum``, and rows that are read twice while they are in a core's cache (512 KiB).
_WORDS, _ROWS = 1024, 64


def _fastest() -> Callable[..., int]:
    try:
        function: Callable[..., int] = importlib.import_module("isal.isal_zlib").crc32
    except ImportError:
        return zlib.crc32
    return function


_crc32 = _fastest()


def crc32(data: Any, start: int = 0) -> int:
    """Returns the CRC-32 of bytes that follow bytes with the sum ``start``.

    >>> crc32(b"netcl") == crc32(b"cl", crc32(b"net"))
    True
    """
    return _crc32(data, start)


def array_sum(data: Any) -> int:
    """Returns the CRC-32 of the sums of ``data``, bytes, as a matrix: of its rows, of its columns, and of the rest.

    The matrix has 1,024 little-endian words of 64 bits in a row; sums are mod 2**64. The rest is the bytes after the
    last whole row, so that the sum of less than 8 KiB is their CRC-32. A changed word, or two exchanged words, change a
    row or a column: only a change of at least four words can pass unseen.

    >>> array_sum(b"netcl") == crc32(b"netcl")
    True
    """
    content = np.frombuffer(data, np.uint8)
    count = len(content) // (8 * _WORDS)
    matrix = content[: 8 * _WORDS * count].view("<u8").reshape(count, _WORDS)
    rows, columns = np.empty(count, "<u8"), np.zeros(_WORDS, "<u8")
    for row in range(0, count, _ROWS):
        block = matrix[row : row + _ROWS]
        np.add.reduce(block, axis=1, out=rows[row : row + _ROWS])
        columns += np.add.reduce(block, axis=0)
    left = content[8 * _WORDS * count :].data
    return crc32(left, crc32(columns.data, crc32(rows.data))) if count else crc32(left)
