"""CRC-32 sums: zlib's numbers, whichever package computes them."""

from __future__ import annotations

import sys
import types
import zlib

import numpy as np
import pytest

from netcl.io import checksum


@pytest.mark.parametrize("size", [0, 1, 1000, 100_003])
def test_sums_are_those_of_zlib(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    for given in (data, data.tobytes(), memoryview(data)):
        assert checksum.crc32(given) == zlib.crc32(data)
        assert checksum.crc32(given, 0xFFFFFFFF) == zlib.crc32(data, 0xFFFFFFFF)


def test_isal_is_taken_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("isal.isal_zlib")
    module.crc32 = lambda data, start=0: 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isal", types.ModuleType("isal"))
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", module)
    assert checksum._fastest()(b"") == 7
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)  # as if it were not installed
    assert checksum._fastest() is zlib.crc32
