"""Uncompressed ZIP archives: written in one pass with checksums computed in the background, and read at member offsets.

``zipfile`` computes the checksum of every byte in the reading or writing thread, which took as long as the file access
itself. Format: PKWARE's APPNOTE 6.3, sections 4.3.7 to 4.3.16, with 64-bit sizes throughout.
"""

from __future__ import annotations

import os
import struct
import zipfile
from typing import Any, BinaryIO

from netcl.io.background import BackgroundWorker
from netcl.io.budget import Meter
from netcl.io.checksum import crc32

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_VERSION = 45  # the first with 64-bit sizes
_UNIX_FILE = (3 << 8 | _VERSION, 0o600 << 16)  # creating system, and file mode
_UTF8 = 0x800
_DATE = 1 << 5 | 1  # 1980-01-01: equal contents give equal files
_ELSEWHERE = 0xFFFFFFFF  # in place of a size that is in the 64-bit part
_CHECKSUM = 14  # offset in the local header


class StoredZipWriter:
    """Writes members to a seekable ``file``; ``close()`` writes checksums and directory. Use it in a ``with`` block."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._members: list[tuple[bytes, int, int]] = []  # name, offset of its header, size
        self._sums: list[int] = []
        self._worker = BackgroundWorker(self._add, "netcl-checksum")

    def __enter__(self) -> StoredZipWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self._worker.__exit__(*raised)

    def _add(self, member: int, data: Any) -> None:
        self._sums[member] = crc32(data, self._sums[member])

    def write(self, name: str, *pieces: Any) -> None:
        """Writes one member from these byte chunks; they must not change before ``close``."""
        encoded, size = name.encode(), sum(memoryview(piece).nbytes for piece in pieces)
        place = self._file.tell()
        wide = struct.pack("<2H2Q", 1, 16, size, size)
        self._file.write(
            _LOCAL.pack(b"PK\3\4", _VERSION, _UTF8, 0, 0, _DATE, 0, _ELSEWHERE, _ELSEWHERE, len(encoded), len(wide))
            + encoded
            + wide
        )
        self._members.append((encoded, place, size))
        self._sums.append(0)
        for piece in pieces:
            self._worker.submit(len(self._sums) - 1, piece)
            self._file.write(piece)

    def close(self) -> None:
        """Writes the checksums into the headers, and the directory."""
        self._worker.wait()
        start = self._file.tell()
        for (_, place, _), total in zip(self._members, self._sums):
            self._file.seek(place + _CHECKSUM)
            self._file.write(struct.pack("<I", total))
        self._file.seek(start)
        version_made_by, mode = _UNIX_FILE
        for (name, place, size), total in zip(self._members, self._sums):
            wide = struct.pack("<2H3Q", 1, 24, size, size, place)
            self._file.write(
                _CENTRAL.pack(
                    b"PK\1\2", version_made_by, _VERSION, _UTF8, 0, 0, _DATE, total, _ELSEWHERE, _ELSEWHERE,
                    len(name), len(wide), 0, 0, 0, mode, _ELSEWHERE,
                )
                + name
                + wide
            )  # fmt: skip
        count, size = len(self._members), self._file.tell() - start
        self._file.write(
            struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, version_made_by, _VERSION, 0, 0, count, count, size, start)
            + struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1)
            + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, _ELSEWHERE, _ELSEWHERE, 0)
        )


# Bytes that zipfile takes for an entry of a directory, and the least that the entry takes in the file.
_ENTRY_MEMORY, _ENTRY_SIZE = 800, 46
# An entry with its name takes twice the least, and each member is found, checked and read.
_ENTRY_SECONDS = 2.5e-5


class _Charged:
    """A binary file that charges reads to a meter as entries of a directory: zipfile reads it at once."""

    def __init__(self, file: BinaryIO, meter: Meter) -> None:
        self._file, self._meter = file, meter
        self._size = file.seek(0, os.SEEK_END)
        self.seek, self.tell = file.seek, file.tell

    def read(self, length: int = -1) -> bytes:
        # A file of the system allocates as many bytes as requested.
        left = max(0, self._size - self.tell())
        length = left if length < 0 else min(length, left)
        entries = length // _ENTRY_SIZE
        self._meter.spend(entries * _ENTRY_MEMORY, "the directory of the archive")
        self._meter.take(entries * _ENTRY_SECONDS, "reading the members of the archive")
        return self._file.read(length)


def members_of(file: BinaryIO, meter: Meter) -> list[zipfile.ZipInfo]:
    """Returns the directory of an archive, and charges its memory and time to ``meter``. Raises BadZipFile."""
    charged: Any = _Charged(file, meter)
    return zipfile.ZipFile(charged).infolist()


def place_of(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Returns the offset of the bytes of an uncompressed member. Raises BadZipFile if its own header differs from the
    directory, or it extends beyond the end of the file.
    """
    file.seek(info.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) != _LOCAL.size:
        raise zipfile.BadZipFile(f"the header of {info.filename!r} is cut short")
    signature, _, flags, method, *_, name_length, extra = _LOCAL.unpack(head)
    name = file.read(name_length)
    place: int = info.header_offset + _LOCAL.size + name_length + extra
    if signature != b"PK\3\4" or method != info.compress_type:
        raise zipfile.BadZipFile(f"{info.filename!r} has no header of its own")
    if name.decode("utf-8" if flags & _UTF8 else "cp437") != info.orig_filename:
        raise zipfile.BadZipFile(f"the directory says {info.orig_filename!r}, the member {name!r}")
    if place + info.file_size > file.seek(0, os.SEEK_END):
        raise zipfile.BadZipFile(f"{info.filename!r} is cut short")
    return place
