"""CRC-32 sums: zlib's numbers, whichever package computes them. Sums of arrays: the numbers of their formula."""

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


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 8192 * 64, 8192 * 130 + 77])
def test_the_sum_of_an_array_is_that_of_its_rows_and_columns(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    rows, left = divmod(size, 8192)
    words = [int.from_bytes(data[8 * at : 8 * at + 8], "little") for at in range(1024 * rows)]
    sums = [sum(words[1024 * at : 1024 * (at + 1)]) for at in range(rows)]
    sums += [sum(words[at::1024]) for at in range(1024)] if rows else []
    listed = b"".join((number % 2**64).to_bytes(8, "little") for number in sums)
    expected = zlib.crc32(listed + data[size - left :])
    for given in (data, memoryview(data), np.frombuffer(data, np.uint8).data):
        assert checksum.array_sum(given) == expected
    # Not aligned to words.
    assert checksum.array_sum(memoryview(b"x" + data)[1:]) == expected
