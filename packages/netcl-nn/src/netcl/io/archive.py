"""The ``.netcl`` file format: an NPZ of plain arrays and one JSON text, with a hash of the whole content.

Members are uncompressed ``<key>.npy``; ``__netcl_meta__`` is a 0-d string holding JSON with format, version, dtypes and
sha256. bfloat16 is stored as uint16. The hash covers key, dtype, shape and bytes of each array in order, and the JSON
without the hash. Nothing in a file is ever unpickled, and every size in it is checked against the size of the file
before it is used.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from netcl.core.dtypes import SUPPORTED, from_bfloat16, numpy_dtype, to_bfloat16
from netcl.io.atomic import replacing
from netcl.io.budget import Budget
from netcl.io.checksum import crc32
from netcl.io.content_hash import ContentHash
from netcl.io.errors import CheckpointError
from netcl.io.load_into import placeholder
from netcl.io.reading import opened
from netcl.io.stored_zip import StoredZipWriter, members_of, place_of

Array = np.ndarray[Any, Any]
META = "__netcl_meta__"
_CHUNK = 4 << 20
# Of a value in the description, and of a table with one: JSON writes an empty list as three characters.
_VALUE_MEMORY, _TABLE_MEMORY, _VALUE_SECONDS = 64, 232, 4e-7
# dtypes by their names in "dtypes": netcl's, and NumPy's further integers for states of other libraries.
_STORED = {name: numpy_dtype(name) for name in SUPPORTED}
_STORED.update({name: np.dtype(name) for name in ("int8", "int16", "uint16", "uint32", "uint64")})
# The NPY header of version 1 exactly as NumPy writes it, so that nothing in it needs evaluating.
_HEADER_MAX = 4096
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)\{'descr': '(?P<descr>[<>|=]?[a-zA-Z][0-9]*)', "
    rb"'fortran_order': (?P<fortran>True|False), 'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class Entry:
    """An array to write: ``load()`` returns its elements in the storage dtype of ``dtype``."""

    key: str
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], Array]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _STORED[self.dtype].itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.itemsize


def entry_of(key: str, value: Any) -> Entry:
    """Returns the entry of a tensor (read when it is written) or an array."""
    if isinstance(value, np.ndarray):
        if value.dtype.name not in _STORED:
            raise TypeError(f"{key}: expected an array of {', '.join(_STORED)}, got {value.dtype}")
        return Entry(key, value.shape, value.dtype.name, lambda: value)
    if value.dtype == "bfloat16":
        return Entry(key, value.shape, "bfloat16", lambda: to_bfloat16(value.to_host()))
    return Entry(key, value.shape, value.dtype, value.to_host)


def _little(array: Array) -> Array:
    # asarray with order keeps 0-d arrays 0-d.
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _bytes(array: Array) -> Any:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def write_archive(path: str | os.PathLike[str], meta: Mapping[str, Any], entries: Iterable[Entry]) -> None:
    """Writes arrays and ``meta`` (plain values) to exactly ``path``, atomically; one array at a time is on the host.
    Raises CheckpointError.
    """
    listed = list(entries)
    meta = {**meta, "dtypes": {entry.key: entry.dtype for entry in listed}}
    try:
        size = len(json.dumps(meta)) * 4
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"cannot be described as JSON: {error}", path) from error
    # Headers of both formats and the directory at the end: about 400 bytes and twice the name for each array.
    nbytes = sum(entry.nbytes + 400 + 2 * len(entry.key) for entry in listed) + size + 4096
    with replacing(path, nbytes) as file, ContentHash() as digest, StoredZipWriter(file) as archive:
        for entry in listed:
            array = _little(entry.load())
            digest.header(entry.key, array.dtype, array.shape)
            digest.update(_bytes(array))
            _write_member(archive, entry.key, array)
        meta["sha256"] = digest.with_meta(json.loads(json.dumps(meta)))
        _write_member(archive, META, np.array(json.dumps(meta)))
        archive.close()


def _write_member(archive: StoredZipWriter, key: str, array: Array) -> None:
    # np.lib.format.write_array would copy the bytes.
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    archive.write(f"{key}.npy", head.getvalue(), _bytes(array))


class _Member(NamedTuple):
    """An array in the file: the offset of its elements, and the content of its header."""

    place: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    checksum: int  # of header and elements
    head: bytes

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


# The function that reads a format.
_READERS = {"netcl.checkpoint": "load_checkpoint(path, model)", "netcl.single-file": "load_model(path)"}


class Archive:
    """An open file of the format: ``meta`` and ``arrays`` (key -> (shape, dtype)) are checked, values are read by
    ``read(key)``.

    Use it in a ``with`` block, metered by ``budget``. The block raises CheckpointError if the file has another format,
    is damaged, truncated, compressed or pickled, has an unknown dtype or inconsistent sizes, or if reading its contents
    fails.
    """

    def __init__(
        self, path: str | os.PathLike[str], formats: Mapping[str, tuple[int, ...]], budget: Budget | None = None
    ) -> None:
        self.path = path
        self._formats = formats
        self._opened = opened(path, budget, "is damaged or no file of netcl")

    def __enter__(self) -> Archive:
        self._file, self.reading = self._opened.__enter__()
        try:
            self._open(self._formats)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def refuse(self, message: str) -> CheckpointError:
        """Returns the error to raise about this file."""
        return self.reading.refuse(message)

    def _open(self, formats: Mapping[str, tuple[int, ...]]) -> None:
        listed = members_of(self._file, self.reading.meter)
        self._members: dict[str, _Member] = {}
        room = self.reading.size
        for info in listed:
            key = info.filename.removesuffix(".npy")
            if key == info.filename or key in self._members:
                raise self.refuse(f"the member {info.filename!r} is no array or there twice")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                raise self.refuse(f"the member {info.filename!r} is compressed or encrypted")
            room -= info.file_size
            if room < 0:
                raise self.refuse("its members claim more bytes than it has")
            self._members[key] = self._member(info)
        if META not in self._members:
            raise self.refuse(f"has no {META}: it is an archive, but not one of netcl")
        self.meta: dict[str, Any] = self._read_meta(formats)
        dtypes = self.meta.get("dtypes", {})
        self.arrays: dict[str, tuple[tuple[int, ...], str]] = {}
        for key, (_, shape, stored, *_) in self._members.items():
            if key != META:
                dtype = dtypes.get(key, stored.name) if isinstance(dtypes, dict) else None
                if dtype not in _STORED or _STORED[dtype] != stored.newbyteorder("="):
                    raise self.refuse(f"the array {key!r} is stored as {stored} and said to be {dtype!r}")
                self.arrays[key] = (shape, dtype)
        if self.meta["version"] >= 3 and set(dtypes) != set(self.arrays):
            raise self.refuse(f"lacks or adds the arrays {sorted(set(dtypes) ^ set(self.arrays))}")

    def _member(self, info: zipfile.ZipInfo) -> _Member:
        """Returns the member described by an NPY header, checked against its size."""
        place = place_of(self._file, info)
        self._file.seek(place)
        head = self._file.read(min(_HEADER_MAX, info.file_size))
        header = _HEADER.match(head)
        if header is None:
            raise self.refuse(f"the member {info.filename!r} does not begin as an array does")
        dtype = np.dtype(header["descr"].decode())
        shape = tuple(int(size) for size in header["shape"].replace(b",", b" ").split())
        fortran, start = header["fortran"] == b"True", header.end()
        if dtype.hasobject:
            raise self.refuse(f"the member {info.filename!r} holds pickled objects, which are never read")
        if fortran and len(shape) > 1:
            raise self.refuse(f"the member {info.filename!r} is stored by columns")
        if int.from_bytes(header["length"], "little") + 10 != start:
            raise self.refuse(f"the member {info.filename!r} has a header of another length than it says")
        if start + math.prod(shape) * dtype.itemsize != info.file_size:
            raise self.refuse(f"the member {info.filename!r} says shape {shape} of {dtype}, which is not its size")
        return _Member(place + start, shape, dtype, info.CRC, head[:start])

    def _read_meta(self, formats: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        _, shape, dtype, *_ = self._members[META]
        if dtype.kind != "U" or shape != ():
            raise self.refuse(f"{META} is no text but {dtype} of shape {shape}")
        text = str(self.stored(META)[()]) if dtype.itemsize else ""
        values = text.count(",") + text.count("[")
        with self.reading.at("its description"):
            meter, tables = self.reading.meter, text.count("{")
            meter.spend(values * _VALUE_MEMORY + tables * _TABLE_MEMORY, "the description")
            meter.take((values + tables) * _VALUE_SECONDS, "reading the description")
        meta = json.loads(text)
        if not isinstance(meta, dict) or meta.get("format") not in formats:
            stated = meta.get("format") if isinstance(meta, dict) else meta
            reader = f"; read it with netcl.io.{_READERS[stated]}" if stated in _READERS else ""
            raise self.refuse(f"has the format {stated!r}; expected {' or '.join(map(repr, formats))}{reader}")
        if meta.get("version") not in formats[meta["format"]]:
            readable = ", ".join(map(str, formats[meta["format"]]))
            raise self.refuse(
                f"has version {meta.get('version')!r}; this netcl reads {readable}; a newer one may read it"
            )
        return meta

    def check(self) -> None:
        """Reads everything once and compares it with the hash; raises CheckpointError if a bit differs."""
        with ContentHash() as digest:
            rooms = [np.empty(_CHUNK, np.uint8) for _ in range(3)]  # two may be queued while one is filled
            for key in self.arrays:
                member = self._members[key]
                digest.header(key, member.dtype, member.shape)
                for offset in range(0, member.nbytes, _CHUNK):
                    rooms.append(rooms.pop(0))
                    piece = rooms[0][: min(_CHUNK, member.nbytes - offset)]
                    self._fill(key, piece, offset)
                    digest.update(piece.data)
            if not self._hashed:
                for key in self.arrays:
                    self.stored(key)
            self._compare(digest)

    def checked(self) -> Iterator[tuple[str, Array]]:
        """Yields all arrays in the order of the file with their keys, as ``read`` returns them; raises CheckpointError
        after the last one if the hash differs. For readers that publish nothing before the end.

        The memory of each array is reused for the next one.
        """
        room = np.empty(max((self._members[key].nbytes for key in self.arrays), default=0), np.uint8)
        with ContentHash() as digest:
            for key in self.arrays:
                member = self._members[key]
                digest.wait()
                digest.header(key, member.dtype, member.shape)
                raw = room[: member.nbytes]
                for offset in range(0, member.nbytes, _CHUNK):
                    self._fill(key, raw[offset : offset + _CHUNK], offset)
                    digest.update(raw[offset : offset + _CHUNK].data)
                if not self._hashed:
                    self._compare_checksum(key, raw)
                yield key, self._meant(key, raw.view(member.dtype).reshape(member.shape))
            self._compare(digest)

    @property
    def _hashed(self) -> bool:
        """True if the file has a hash of its contents; version 2 has only the checksums of the archive."""
        return bool(self.meta["version"] >= 3)

    def _compare(self, digest: ContentHash) -> None:
        if self._hashed and digest.with_meta(self.meta) != self.meta.get("sha256"):
            raise self.refuse("is damaged: its contents do not have the hash that they were saved with")

    def stored(self, key: str) -> Array:
        """Returns the array as stored (bfloat16 as uint16), checked against the archive's checksum."""
        member = self._members[key]
        raw = np.empty(member.nbytes, np.uint8)
        self._fill(key, raw, 0)
        self._compare_checksum(key, raw)
        return raw.view(member.dtype).reshape(member.shape)

    def _fill(self, key: str, raw: Array, start: int) -> None:
        """Reads the bytes of an array from offset ``start``."""
        with self.reading.at(f"the array {key!r}"):
            self._file.seek(self._members[key].place + start)
            view, filled = memoryview(raw.data), 0
            while filled < len(view):
                count = self._file.readinto(view[filled:])
                if not count:
                    raise EOFError("it ends early")
                filled += count

    def _compare_checksum(self, key: str, raw: Array) -> None:
        member = self._members[key]
        if crc32(raw.data, crc32(member.head)) != member.checksum:
            raise self.refuse(f"is damaged: the array {key!r} does not have the checksum that it was saved with")

    def read(self, key: str) -> Array:
        """Returns the values of an array; bfloat16 as float32."""
        return self._meant(key, self.stored(key))

    def _meant(self, key: str, stored: Array) -> Array:
        return from_bfloat16(stored) if self.arrays[key][1] == "bfloat16" else stored

    def described(self, key: str) -> Array:
        """Returns a placeholder with the shape and dtype of an array, without its values and their memory."""
        shape, dtype = self.arrays[key]
        return placeholder(shape, dtype)
