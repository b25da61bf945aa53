"""Dtypes: names, objects, NumPy's counterparts, promotion."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from netcl_core_kit.errors import DTypeError

__all__ = [
    "OBJECTS", "SUPPORTED", "DType", "canonical", "from_bfloat16", "get_default_dtype", "integer_range", "is_floating",
    "is_integer", "is_unsigned", "itemsize", "kind", "numpy_dtype", "promote", "to_bfloat16",
]  # fmt: skip

SUPPORTED = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
_BITS = {name: 8 if name == "bool" else int(re.sub(r"\D", "", name)) for name in SUPPORTED}
_KINDS = {name: 0 if name == "bool" else 2 if "float" in name else 1 for name in SUPPORTED}
_OTHER = {
    "float": "float32", "half": "float16", "double": "float64", "int": "int32", "long": "int64", "short": "int16",
    "byte": "uint8", "char": "int8", "bool_": "bool", "uchar": "uint8", "ushort": "uint16", "uint": "uint32",
    "ulong": "uint64",
}  # fmt: skip
_PYTHON: dict[Any, str] = {bool: "bool", int: "int64", float: "float32"}


class DType(str):
    """A dtype as an object: its name, a string, with PyTorch's attributes."""

    __slots__ = ()

    @property
    def is_floating_point(self) -> bool:
        """True for floating dtypes."""
        return _KINDS[self] == 2

    @property
    def is_signed(self) -> bool:
        """True if it has negative numbers."""
        return not self.startswith("uint") and self != "bool"

    @property
    def is_complex(self) -> bool:
        """False: there are no complex dtypes."""
        return False

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return _BITS[self] // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, for ``np.dtype``."""
        return numpy_dtype(self)


OBJECTS = {name: DType(name) for name in SUPPORTED}


def canonical(dtype: Any) -> str:
    """The name of a dtype given as a name, a type, or a dtype of NumPy, or of a library that writes
    it ``library.name``; DTypeError for anything else."""
    if type(dtype) is str and dtype in _KINDS:
        return dtype
    try:
        name = _PYTHON.get(dtype)
    except TypeError:
        name = None
    if name is None:
        name = (
            str(dtype) if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
        )
        name = _OTHER.get(name, name)
        if name not in _KINDS:
            try:
                name = np.dtype(dtype).name
            except TypeError:
                name = ""
    if name not in _KINDS:
        raise DTypeError(f"there is no dtype {dtype!r}; there are {', '.join(SUPPORTED)}")
    return name


def get_default_dtype() -> DType:
    """The dtype of tensors that are made of Python floats or of sizes alone."""
    return OBJECTS["float32"]


def is_floating(dtype: Any) -> bool:
    """True for float16, bfloat16, float32 and float64."""
    return kind(dtype) == 2


def is_integer(dtype: Any) -> bool:
    """True for the integers; False for bool."""
    return kind(dtype) == 1


def is_unsigned(dtype: Any) -> bool:
    """True for uint8, uint16, uint32 and uint64."""
    return canonical(dtype).startswith("uint")


def itemsize(dtype: Any) -> int:
    """The bytes of one element."""
    return _BITS[canonical(dtype)] // 8


def kind(dtype: Any) -> int:
    """0 for bool, 1 for integers, 2 for floating dtypes."""
    found = _KINDS.get(dtype) if type(dtype) is str else None
    return _KINDS[canonical(dtype)] if found is None else found


def integer_range(dtype: Any) -> tuple[int, int]:
    """The least and the largest number of an integer dtype; DTypeError for others."""
    if kind(dtype) != 1:
        raise DTypeError(f"{canonical(dtype)} is no integer dtype")
    limits = np.iinfo(canonical(dtype))
    return int(limits.min), int(limits.max)


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of the storage: uint16 (bit patterns) for bfloat16, else that of the name."""
    name = canonical(dtype)
    return np.dtype("uint16" if name == "bfloat16" else name)


def from_bfloat16(bits: Any) -> Any:
    """The float32 values of bfloat16 bit patterns (uint16)."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: Any) -> Any:
    """The bfloat16 bit patterns (uint16) of float32 values, rounded to nearest even."""
    bits = np.array(values, np.float32, order="C").view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(bits.view(np.float32)), np.uint16(0x7FC0), rounded)


def _pair(a: str, b: str) -> str:
    if a == b:
        return a
    if _KINDS[a] != _KINDS[b]:
        return a if _KINDS[a] > _KINDS[b] else b
    if _KINDS[a] == 2:
        return "float32" if _BITS[a] == _BITS[b] else a if _BITS[a] > _BITS[b] else b
    if a.startswith("u") == b.startswith("u"):
        return a if _BITS[a] > _BITS[b] else b
    signed, unsigned = (b, a) if a.startswith("u") else (a, b)
    if _BITS[signed] > _BITS[unsigned]:
        return signed
    if unsigned == "uint64":
        raise DTypeError(f"no dtype has the numbers of uint64 and {signed}; convert one of them")
    return f"int{_BITS[unsigned] * 2}"


def promote(*dtypes: Any) -> str:
    """The dtype of a result of operands of these dtypes; the Python types bool, int and float are weak."""
    weak = [one for one in dtypes if isinstance(one, type) and one in _PYTHON]
    found: str | None = None
    for one in dtypes:
        if not (isinstance(one, type) and one in _PYTHON):
            name = canonical(one)
            found = name if found is None else _pair(found, name)
    for one in weak:
        name = _PYTHON[one]
        if found is None or _KINDS[name] > _KINDS[found]:
            found = name
    if found is None:
        raise DTypeError("promote takes at least one dtype")
    return found
