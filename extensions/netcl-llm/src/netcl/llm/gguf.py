"""GGUF files: ``Gguf`` reads one, memory-mapped, with its splits, and ``write_gguf`` writes one.

A file is from a stranger: every count, length, type and offset is compared with the size of the file and counted on
the reader's budget before anything is allocated. A fault is a CheckpointError that names the file and the part.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from netcl.core import packed
from netcl.core.dtypes import from_bfloat16
from netcl.core.errors import from_here
from netcl.io.atomic import replacing
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.io.reading import Reading, open_regular, reading

__all__ = ["Entry", "Gguf", "write_gguf"]

Array = np.ndarray[Any, Any]
_MAGIC = b"GGUF"
_ALIGNMENT = 32
_MOST_AXES = 4
# Of a file in parts.
_SPLIT = re.compile(r"^(?P<stem>.*)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf$")
_MOST_PARTS = 1000
# Plain types by their numbers: name, NumPy dtype. The packed ones are rows of packed.FORMATS.
_PLAIN = {
    0: ("F32", "<f4"),
    1: ("F16", "<f2"),
    24: ("I8", "<i1"),
    25: ("I16", "<i2"),
    26: ("I32", "<i4"),
    27: ("I64", "<i8"),
    28: ("F64", "<f8"),
    30: ("BF16", "<u2"),
}
# Types that other programs write, for the message.
_OTHERS = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4",
}  # fmt: skip
_PACKED = {row.type_id: row for row in packed.FORMATS.values()}
_TYPES: dict[str, int] = {name: number for number, (name, _) in _PLAIN.items()} | {
    row.name: number for number, row in _PACKED.items()
}
# Types of the values of keys by their numbers.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Bytes that Python takes for a text, a key, and a tensor's entry.
_TEXT_MEMORY, _ENTRY_MEMORY = 64, 600
_TEXT_SECONDS, _ENTRY_SECONDS = 4e-7, 1e-5


@dataclass(frozen=True)
class Entry:
    """A tensor of a file: its name, its shape with the rows first, the name of its type, and its bytes, not copied."""

    name: str
    shape: tuple[int, ...]
    type: str
    data: Array

    @property
    def is_packed(self) -> bool:
        """True if the values are blocks of a format of netcl.core.packed."""
        return self.type in packed.FORMATS

    def array(self) -> Array:
        """Returns the values of a plain type, BF16 as float32."""
        if self.is_packed:
            raise TypeError(f"{self.name} has blocks of {self.type}: write packed(device)")
        values = self.data.view(_PLAIN[_TYPES[self.type]][1])
        return (from_bfloat16(values) if self.type == "BF16" else values).reshape(self.shape)

    def packed(self, device: Any = None) -> packed.PackedTensor:
        """Returns the blocks on a device."""
        if not self.is_packed or len(self.shape) != 2:
            raise TypeError(f"{self.name}: expected a matrix of blocks, got shape {self.shape} of {self.type}")
        return packed.PackedTensor.from_blocks(self.data, self.shape, self.type, device=device)


class Gguf:
    """A GGUF file of version 2 or 3, open for reading, with all its parts if it is one of several.

    ``metadata`` has the values of the keys: numbers, texts, arrays of numbers (NumPy) and lists; ``tensors`` the
    entries by their names. Raises CheckpointError for a file that is damaged, unsupported or beyond ``budget``.
    """

    def __init__(self, path: str | os.PathLike[str], budget: Budget | None = None) -> None:
        self.path: Path = Path(path)
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, Entry] = {}
        for number, part in enumerate(self._parts()):
            file = _File(part, budget)
            self.metadata = {**file.metadata, **self.metadata} if number else file.metadata
            twice = self.tensors.keys() & file.tensors.keys()
            if twice:
                raise CheckpointError(f"has the tensor {min(twice)!r}, as another part has", part)
            self.tensors.update(file.tensors)
        expected = self.metadata.get("split.tensors.count")
        if isinstance(expected, int) and expected != len(self.tensors):
            raise CheckpointError(f"expected {expected} tensors in all parts, got {len(self.tensors)}", self.path)

    def _parts(self) -> list[Path]:
        match = _SPLIT.match(self.path.name)
        if match is None:
            return [self.path]
        parts = int(match["parts"])
        if not 1 <= parts <= _MOST_PARTS:
            raise CheckpointError(f"expected 1 to {_MOST_PARTS} parts, got {parts}", self.path)
        return [
            self.path.with_name(f"{match['stem']}-{part:05d}-of-{match['parts']}.gguf") for part in range(1, parts + 1)
        ]


class _File:
    """One file: keys and entries over its memory map."""

    def __init__(self, path: Path, budget: Budget | None) -> None:
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, Entry] = {}
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            with reading(path, size, budget, "is damaged or no GGUF file") as state:
                if size < 24:
                    raise state.refuse(f"is damaged or no GGUF file (it has {size} bytes)")
                # A copy-on-write map: arrays over a read-only one could not be handed to drivers.
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
                self._bytes = np.frombuffer(self._map, np.uint8)
                self._at, self._size, self._state = 0, size, state
                self._read(state)

    def _read(self, state: Reading) -> None:
        with state.at("the header"):
            if self._take(4) != _MAGIC:
                raise ValueError("it does not begin with GGUF")
            (version,) = self._numbers("I")
            if version not in (2, 3):
                order = ", of a machine with the other order of bytes" if version & 0xFFFF == 0 else ""
                raise ValueError(f"expected version 2 or 3, got {version}{order}")
            tensors, keys = self._numbers("QQ")
            # A key takes 13 bytes at least, a tensor 24.
            self._check(keys * 13 + tensors * 24, f"{keys:,} keys and {tensors:,} tensors")
            state.meter.count(keys + tensors, "keys and tensors")
            state.meter.spend((keys + tensors) * _ENTRY_MEMORY, "keys and tensors")
            state.meter.take((keys + tensors) * _ENTRY_SECONDS, "reading keys and tensors")
        for number in range(keys):
            with state.at(f"key {number}"):
                name = self._text()
            with state.at(f"the key {name[:80]!r}"):
                if name in self.metadata:
                    raise ValueError("it is there twice")
                (kind,) = self._numbers("I")
                self.metadata[name] = self._value(kind, 0)
        alignment = self.metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 20 or alignment % 8:
            raise ValueError(f"expected general.alignment as a multiple of 8 up to 1 MiB, got {alignment!r}")
        places = list(self._places(tensors, state))
        start = -(-self._at // alignment) * alignment
        with state.at("the tensors"):
            end = 0
            for name, _, _, offset, nbytes in sorted(places, key=lambda place: (place[3], place[4])):
                if offset % alignment or offset < end:
                    raise ValueError(f"{name!r} begins at {offset}, inside of another tensor or not aligned")
                end = offset + nbytes
                if start + end > self._size:
                    raise ValueError(f"{name!r} ends at byte {start + end:,} of {self._size:,}")
        for name, shape, kind, offset, nbytes in places:
            data = self._bytes[start + offset : start + offset + nbytes]
            self.tensors[name] = Entry(name, shape, kind, data)

    def _places(self, count: int, state: Reading) -> Iterator[tuple[str, tuple[int, ...], str, int, int]]:
        names = set()
        for number in range(count):
            with state.at(f"tensor {number}"):
                name = self._text()
            with state.at(f"the tensor {name[:80]!r}"):
                if name in names:
                    raise ValueError("it is there twice")
                names.add(name)
                (axes,) = self._numbers("I")
                if not 1 <= axes <= _MOST_AXES:
                    raise ValueError(f"expected 1 to {_MOST_AXES} axes, got {axes}")
                lengths = self._numbers("Q" * axes)
                kind, offset = self._numbers("IQ")
                nbytes = _nbytes(lengths, kind)
                self._check(nbytes, f"shape {lengths[::-1]} of {_name(kind)}", whole=True)
                yield name, lengths[::-1], _name(kind), offset, nbytes

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _NUMBERS:
            number = self._numbers(_NUMBERS[kind])[0]
            return np.float64(number) if _NUMBERS[kind] == "d" else number
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise ValueError(f"expected a type of value from 0 to 12, got {kind}")
        meter = self._state.meter
        meter.check_depth(depth + 1, "an array")
        inner, count = self._numbers("IQ")
        if inner in _NUMBERS:
            dtype = np.dtype(f"<{_NUMBERS[inner]}" if inner != 7 else "?")
            self._check(count * dtype.itemsize, f"{count:,} numbers")
            return np.frombuffer(self._take(count * dtype.itemsize), dtype)
        self._check(count * (8 if inner == _STRING else 12), f"{count:,} values")
        meter.count(count, "values of an array")
        meter.spend(count * _TEXT_MEMORY, "an array")
        meter.take(count * _TEXT_SECONDS, "reading an array")
        return self._texts(count) if inner == _STRING else [self._value(inner, depth + 1) for _ in range(count)]

    def _texts(self, count: int) -> list[str]:
        """Returns the texts of an array; a vocabulary has a hundred thousand."""
        data, at, size, texts = self._map, self._at, self._size, []
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            end = at + 8 + length_at(data, at)[0] if at + 8 <= size else size + 1
            if end > size:
                raise ValueError(f"a text at byte {at:,} ends behind the file, which has {size:,}")
            texts.append(data[at + 8 : end].decode("utf-8", "replace"))
            at = end
        self._state.meter.spend(at - self._at, "texts")
        self._at = at
        return texts

    def _text(self) -> str:
        (length,) = self._numbers("Q")
        self._check(length, f"a text of {length:,} bytes")
        self._state.meter.spend(length, "a text")
        return self._take(length).decode("utf-8", errors="replace")

    def _numbers(self, form: str) -> tuple[Any, ...]:
        """Returns numbers in the notation of ``struct``, each directly behind the one before."""
        layout = struct.Struct(f"<{form}")
        return layout.unpack(self._take(layout.size))

    def _take(self, nbytes: int) -> bytes:
        self._check(nbytes, f"{nbytes:,} bytes")
        self._at += nbytes
        return self._map[self._at - nbytes : self._at]

    def _check(self, nbytes: int, what: str, whole: bool = False) -> None:
        left = self._size - (0 if whole else self._at)
        if nbytes > left:
            raise ValueError(f"{what} at byte {self._at:,}: {nbytes:,} bytes, and the file has {left:,} left")


def _name(kind: int) -> str:
    return _PLAIN[kind][0] if kind in _PLAIN else _PACKED[kind].name


def _nbytes(lengths: tuple[int, ...], kind: int) -> int:
    """Returns the bytes of a tensor; ValueError for a type that netcl lacks, or rows that are no whole blocks."""
    if kind in _PLAIN:
        return prod(lengths) * np.dtype(_PLAIN[kind][1]).itemsize
    if kind not in _PACKED:
        known = ", ".join(sorted(_TYPES))
        raise ValueError(f"its type {_OTHERS.get(kind, kind)} is not one of {known}")
    row = _PACKED[kind]
    if lengths[0] % row.block:
        raise ValueError(f"a row of {lengths[0]} values is no whole number of {row.name} blocks of {row.block}")
    return prod(lengths) // row.block * row.nbytes


# ------------------------------------------------------------------------------------------------------------ writer


@from_here
def write_gguf(
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Entry | Array | packed.PackedTensor],
    alignment: int = _ALIGNMENT,
) -> None:
    """Writes a GGUF file of version 3, atomically.

    ``metadata``: ints as 32 bits where they fit, floats as 32 bits, bools, texts, arrays of NumPy, lists of texts;
    NumPy's numbers keep their types. ``tensors``: arrays, PackedTensors, or entries of another file as they are.
    """
    keys = dict(metadata)
    if alignment != _ALIGNMENT or "general.alignment" in keys:
        keys["general.alignment"] = np.uint32(alignment)
    entries = {name: entry_of(name, value) for name, value in tensors.items()}
    head = [_MAGIC, struct.pack("<IQQ", 3, len(entries), len(keys))]
    head += [_packed_text(name) + _packed_value(name, value) for name, value in keys.items()]
    offset = 0
    for name, entry in entries.items():
        lengths = entry.shape[::-1] or (1,)
        head.append(_packed_text(name) + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths))
        head.append(struct.pack("<IQ", _TYPES[entry.type], offset))
        offset += -(-entry.data.nbytes // alignment) * alignment
    text = b"".join(head)
    text += bytes(-len(text) % alignment)
    with replacing(path, len(text) + offset) as file:
        file.write(text)
        for entry in entries.values():
            file.write(entry.data.data)
            file.write(bytes(-entry.data.nbytes % alignment))


def entry_of(name: str, value: Any) -> Entry:
    """Returns the entry of an array, of a PackedTensor, or of another file."""
    if isinstance(value, Entry):
        return value
    if isinstance(value, packed.PackedTensor):
        return Entry(name, tuple(value.shape), value.format, value.to_blocks().reshape(-1))
    array = np.ascontiguousarray(value)
    for kind, dtype in _PLAIN.values():
        if kind != "BF16" and array.dtype == np.dtype(dtype):
            return Entry(name, array.shape, kind, array.reshape(-1).view(np.uint8))
    raise TypeError(f"{name}: expected float64, float32, float16, whole numbers or blocks, got {array.dtype}")


def _packed_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _packed_value(name: str, value: Any) -> bytes:
    kind, data = _typed(name, value)
    return struct.pack("<I", kind) + data


def _typed(name: str, value: Any) -> tuple[int, bytes]:
    """Returns the number of a value's type and its bytes."""
    if isinstance(value, str):
        return _STRING, _packed_text(value)
    if isinstance(value, (list, tuple)):
        if not value or not isinstance(value[0], (str, list, tuple, np.ndarray)):
            value = np.asarray(value, None if value else np.int32)
            value = value.astype({"int64": "int32", "float64": "float32"}.get(str(value.dtype), value.dtype))
        else:
            kinds, parts = zip(*(_typed(name, item) for item in value))
            return _ARRAY, struct.pack("<IQ", kinds[0], len(parts)) + b"".join(parts)
    if type(value) is bool:
        value = np.bool_(value)
    if type(value) is int:
        small = np.uint32 if 0 <= value < 1 << 32 else np.int32 if -(1 << 31) <= value < 0 else np.int64
        value = small(value)
    if type(value) is float:
        value = np.float32(value)
    for kind, form in _NUMBERS.items():
        dtype = np.dtype("?" if form == "?" else f"<{form}")
        if getattr(value, "dtype", None) == dtype:
            data = np.asarray(value, dtype).tobytes()
            return (_ARRAY, struct.pack("<IQ", kind, value.size) + data) if np.ndim(value) else (kind, data)
    raise TypeError(f"the key {name!r}: expected a number, a text, an array or a list, got {type(value).__name__}")
