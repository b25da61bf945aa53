"""The table of packed formats: numbers of a few bits in blocks with shared scales, with the block layouts of GGUF.

A number is ``scale * quant + offset``. Sixteen neighbours, a group, have one scale and one offset. A quant is a code
less ``zero``, or the level of that code. The texts ``codes``, ``scale`` and ``offset`` are expressions of the group
``g`` of a block, in the common part of Python and OpenCL C: NumPy evaluates them here, and the kernels contain them. A
field of a block is a function of an index there: of sixteen bytes if it has quants, of sixteen bits if it is uint16,
else of one number. ``byte`` makes a byte of a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import CodeType
from typing import Any

import numpy as np

from netcl.core.errors import ArgumentError

__all__ = ["FORMATS", "GROUP", "Field", "Format", "format_of", "unpacked"]

Array = np.ndarray[Any, Any]
GROUP = 16


@dataclass(frozen=True)
class Field:
    """A part of a block: its name, its dtype and the number of its elements in a block."""

    name: str
    dtype: str
    count: int

    @property
    def is_vector(self) -> bool:
        """True if the expressions read sixteen bytes at a time."""
        return self.name.startswith("q") and not self.is_bits

    @property
    def is_bits(self) -> bool:
        """True if the expressions read the sixteen bits of an element."""
        return self.dtype == "uint16"


@dataclass(frozen=True)
class Format:
    """A row of the table. ``stored`` has the fields of a block in the order of GGUF, ``fields`` the parts on a device:
    they differ if scales of six bits become bytes.
    """

    name: str
    type_id: int
    block: int
    stored: tuple[Field, ...]
    codes: str
    scale: str = "d(0)"
    offset: str = ""
    zero: int = 0
    levels: tuple[int, ...] = ()

    @cached_property
    def layout(self) -> np.dtype[Any]:
        """The bytes of a block as a NumPy structure."""
        return np.dtype([(field.name, np.dtype(field.dtype).newbyteorder("<"), field.count) for field in self.stored])

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.layout.itemsize

    @property
    def bits(self) -> float:
        """Bits of a number with its part of the scales."""
        return 8 * self.nbytes / self.block

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The parts on a device."""
        return tuple(
            part
            for field in self.stored
            for part in ((Field("scales", "uint8", 8), Field("mins", "uint8", 8)) if _is_six_bits(field) else (field,))
        )

    @cached_property
    def compiled(self) -> Mapping[str, CodeType]:
        """The expressions as Python's code, by name; without the ones that are empty."""
        texts = {"codes": self.codes, "scale": self.scale, "offset": self.offset}
        return {name: compile(text, f"<{self.name} {name}>", "eval") for name, text in texts.items() if text}

    def parts(self, blocks: Array, rows: int, columns: int) -> list[Array]:
        """Returns the parts (rows, elements) of blocks in GGUF's bytes."""
        whole = np.ascontiguousarray(blocks).view(self.layout)
        across = columns // self.block
        parts: list[Array] = []
        for field in self.stored:
            values = whole[field.name].astype(field.dtype).reshape(-1, field.count)
            parts += _bytes_of_six_bits(values) if _is_six_bits(field) else [values]
        return [part.reshape(rows, across * part.shape[1]) for part in parts]

    def blocks(self, parts: Sequence[Array]) -> Array:
        """Returns the blocks in GGUF's bytes, uint8, of their parts."""
        flat = {field.name: part.reshape(-1, field.count) for field, part in zip(self.fields, parts)}
        whole = np.empty(len(next(iter(flat.values()))), self.layout)
        for field in self.stored:
            is_packed = _is_six_bits(field)
            whole[field.name] = _six_bits_of_bytes(flat["scales"], flat["mins"]) if is_packed else flat[field.name]
        return whole.view(np.uint8)


def _is_six_bits(field: Field) -> bool:
    return field.name == "packed_scales"


def _bytes_of_six_bits(packed: Array) -> list[Array]:
    """Returns eight scales and eight minima of six bits, from twelve bytes: the first four of each have the upper two
    bits of the last four.
    """
    low, mid, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], 1)
    return [scales, np.concatenate([mid & 63, (high >> 4) | (mid >> 6 << 4)], 1)]


def _six_bits_of_bytes(scales: Array, mins: Array) -> Array:
    low, mid = (each[:, :4] | (each[:, 4:] >> 4 << 6) for each in (scales, mins))
    return np.concatenate([low, mid, (scales[:, 4:] & 15) | (mins[:, 4:] << 4)], 1)


_NIBBLE = "(qs(0) >> byte(4 * g)) & byte(15)"
_FIFTH = f"({_NIBBLE}) | (qh(g) << byte(4))"
_OF_FOUR = "(qs(2 * (g >> 2) + (g & 1)) >> byte(4 * ((g >> 1) & 1))) & byte(15)"
_SUPER = ("d(0) * scales(g >> 1)", "-(dmin(0) * mins(g >> 1))")
_D, _M, _QS, _QH = (
    Field("d", "float16", 1), Field("m", "float16", 1), Field("qs", "uint8", 16), Field("qh", "uint16", 2),
)  # fmt: skip
_D_AND_MIN = (_D, Field("dmin", "float16", 1), Field("packed_scales", "uint8", 12))
_LOW, _HIGH = Field("qs", "uint8", 128), Field("qh", "uint8", 32)

FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("Q4_0", 2, 32, (_D, _QS), _NIBBLE, zero=8),
        Format("Q4_1", 3, 32, (_D, _M, _QS), _NIBBLE, offset="m(0)"),
        Format("Q5_0", 6, 32, (_D, _QH, _QS), _FIFTH, zero=16),
        Format("Q5_1", 7, 32, (_D, _M, _QH, _QS), _FIFTH, offset="m(0)"),
        Format("Q8_0", 8, 32, (_D, Field("qs", "int8", 32)), "qs(g)"),
        Format("Q4_K", 12, 256, (*_D_AND_MIN, _LOW), _OF_FOUR, *_SUPER),
        Format("Q5_K", 13, 256, (*_D_AND_MIN, _HIGH, _LOW),
               f"({_OF_FOUR}) | (((qh(g & 1) >> byte(g >> 1)) & byte(1)) << byte(4))", *_SUPER),
        Format("Q6_K", 14, 256, (_LOW, Field("qh", "uint8", 64), Field("scales", "int8", 16), _D),
               "((qs(4 * (g >> 3) + (g & 3)) >> byte(4 * ((g >> 2) & 1))) & byte(15)) "
               "| (((qh(2 * (g >> 3) + (g & 1)) >> byte(2 * ((g >> 1) & 3))) & byte(3)) << byte(4))",
               "d(0) * scales(g)", zero=32),
        Format("IQ4_NL", 20, 32, (_D, _QS), _NIBBLE,
               levels=(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)),
        Format("MXFP4", 39, 32, (Field("e", "uint8", 1), _QS), _NIBBLE, "power(e(0))",
               levels=(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)),
    )
}  # fmt: skip


def format_of(name: str) -> Format:
    """Returns the row of a format; raises ArgumentError for a name without one."""
    if name not in FORMATS:
        raise ArgumentError(f"expected a packed format, one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


# -- unpacking with NumPy ----------------------------------------------------------------------------------------------


def _reader(field: Field, part: Array) -> Callable[[Any], Array]:
    """Returns the function of a field in expressions: (blocks, groups, 16) or (blocks, groups, 1) for its indices."""
    width = GROUP if field.is_vector else 1
    values = part.reshape(-1, field.count // width, width)

    def read(index: Any) -> Array:
        taken: Array = values[:, np.reshape(index, -1)]
        if field.is_bits:
            return (taken >> np.arange(GROUP, dtype=np.uint16) & 1).astype(np.uint8)
        return taken if field.is_vector else taken.astype(np.float32)

    return read


def _power(exponents: Array) -> Array:
    """Returns 2 ** (exponent - 128), half of E8M0, float32; subnormal for the two smallest exponents."""
    e = exponents.astype(np.uint32)
    return np.where(e < 2, np.uint32(1 << 21) << e, (e - 1) << 23).astype(np.uint32).view(np.float32)


@cache
def _groups(count: int) -> Array:
    return np.arange(count).reshape(-1, 1)


def unpacked(name: str, parts: Sequence[Array]) -> Array:
    """Returns the numbers (rows, columns), float32, of parts (rows, elements)."""
    row = FORMATS[name]
    rows = parts[0].shape[0]
    count = row.block // GROUP
    names: dict[str, Any] = {field.name: _reader(field, part) for field, part in zip(row.fields, parts)}
    names |= {"g": _groups(count), "power": _power, "byte": np.uint8}
    results = {key: eval(code, {"__builtins__": {}}, names) for key, code in row.compiled.items()}
    codes = results["codes"]
    quants = np.array(row.levels, np.float32)[codes] if row.levels else codes.astype(np.float32) - np.float32(row.zero)
    values = results["scale"] * quants
    if "offset" in results:
        values = values + results["offset"]
    columns = parts[0].shape[1] // row.fields[0].count * row.block
    return values.reshape(rows, columns)  # type: ignore[no-any-return]
