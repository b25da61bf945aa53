"""CRC-32 sums of files, by ISA-L if the package isal is installed (extra ``fast``), else by zlib: the same numbers."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["crc32"]


def _fastest() -> Callable[..., int]:
    try:
        found: Callable[..., int] = importlib.import_module("isal.isal_zlib").crc32
    except ImportError:
        return zlib.crc32
    return found


_crc32 = _fastest()


def crc32(data: Any, start: int = 0) -> int:
    """Returns the CRC-32 of bytes that follow bytes with the sum ``start``.

    >>> crc32(b"netcl") == crc32(b"cl", crc32(b"net"))
    True
    """
    return _crc32(data, start)
