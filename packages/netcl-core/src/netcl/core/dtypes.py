"""The dtypes of netcl: names, storage in NumPy and OpenCL, promotion, and the bits of bfloat16."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from netcl.core.errors import DTypeError
from netcl.core.process import naming

__all__ = [
    "OBJECTS",
    "SUPPORTED",
    "DType",
    "DTypeLike",
    "c_type",
    "canonical",
    "compute_type",
    "from_bfloat16",
    "integer_range",
    "is_dtype",
    "is_floating",
    "is_integer",
    "is_unsigned",
    "itemsize",
    "kind",
    "numpy_dtype",
    "promote",
    "to_bfloat16",
]

DTypeLike: TypeAlias = "str | npt.DTypeLike"


class _DType(NamedTuple):
    storage: np.dtype[Any]
    c_type: str
    compute_type: str
    kind: int  # 0 bool, 1 integer, 2 floating: a higher kind absorbs a lower one


# bfloat16 has no type in NumPy or OpenCL C: its bits are stored as unsigned 16-bit integers. OpenCL defines no size of
# bool in a buffer.
_TABLE: dict[str, _DType] = {
    "float32": _DType(np.dtype(np.float32), "float", "float", 2),
    "float16": _DType(np.dtype(np.float16), "half", "float", 2),
    "bfloat16": _DType(np.dtype(np.uint16), "ushort", "float", 2),
    "float64": _DType(np.dtype(np.float64), "double", "double", 2),
    "int32": _DType(np.dtype(np.int32), "int", "int", 1),
    "int64": _DType(np.dtype(np.int64), "long", "long", 1),
    "uint8": _DType(np.dtype(np.uint8), "uchar", "int", 1),
    "int8": _DType(np.dtype(np.int8), "char", "int", 1),
    "int16": _DType(np.dtype(np.int16), "short", "int", 1),
    # In uint, since a product of two would overflow int, which C leaves undefined.
    "uint16": _DType(np.dtype(np.uint16), "ushort", "uint", 1),
    "uint32": _DType(np.dtype(np.uint32), "uint", "uint", 1),
    "uint64": _DType(np.dtype(np.uint64), "ulong", "ulong", 1),
    "bool": _DType(np.dtype(np.bool_), "uchar", "int", 0),
}
SUPPORTED: tuple[str, ...] = tuple(_TABLE)
# By canonical name, for calls that are repeated: ``is_floating`` and ``numpy_dtype`` take any spelling.
FLOATING: frozenset[str] = frozenset(name for name, row in _TABLE.items() if row.kind == 2)
STORAGE: dict[str, np.dtype[Any]] = {name: row.storage for name, row in _TABLE.items()}

_ALIASES: dict[object, str] = {
    **{name: name for name in _TABLE},
    **{f"torch.{name}": name for name in _TABLE},  # the texts of PyTorch
    "float": "float32",
    "half": "float16",
    "double": "float64",
    # As a dtype (not as a weak scalar) a Python type is netcl's own default of its kind.
    float: "float32",
    int: "int64",
    bool: "bool",
}
_DEFAULT_OF_KIND = ("bool", "int64", "float32")
_WEAK_KIND: dict[object, int] = {bool: 0, int: 1, float: 2}


def _unsupported(dtype: object) -> DTypeError:
    name = dtype.name if isinstance(dtype, np.dtype) else dtype
    reason = "; there are no complex dtypes" if "complex" in str(name) else ""
    return DTypeError(
        f"unsupported dtype {name!r}{reason}; supported are {', '.join(SUPPORTED)} "
        "(and float = float32, half = float16, double = float64)"
    )


@lru_cache(maxsize=256)
def _canonical_by_numpy(dtype: Any) -> str:
    # NumPy would interpret other strings its own way ("int" = int64, "f" = float32); only netcl's names are accepted.
    if dtype is None or isinstance(dtype, str):
        raise _unsupported(dtype)
    try:
        name: str = np.dtype(dtype).name
    except TypeError:
        raise _unsupported(dtype) from None
    if name not in _TABLE:
        raise _unsupported(dtype)
    return name


def canonical(dtype: DTypeLike) -> str:
    """Returns the canonical name of a dtype given as a name, a NumPy dtype or a type.

    ``float`` is float32, ``half`` float16, ``double`` float64; a NumPy dtype named bfloat16 (ml_dtypes) is bfloat16.
    Raises DTypeError, which names the supported dtypes, for anything else.

    >>> canonical("half"), canonical(np.dtype("float64")), canonical(np.int32)
    ('float16', 'float64', 'int32')
    """
    try:
        return _ALIASES[dtype]
    except KeyError:
        return _canonical_by_numpy(cast(Hashable, dtype))
    except TypeError:
        raise _unsupported(dtype) from None


_default = "float32"


def set_default_dtype(dtype: DTypeLike) -> None:
    """Sets the dtype of tensors that are made of Python floats or of sizes alone; DTypeError if it is not floating."""
    global _default
    name = canonical(dtype)
    if not is_floating(name):
        raise DTypeError(f"set_default_dtype: {name} is not a floating dtype")
    _default = name


def get_default_dtype() -> DType:
    """Returns the dtype of tensors that are made of Python floats or of sizes alone."""
    return OBJECTS[_default]


class DType(str):
    """A dtype as an object, ``nc.float32``: its name, a string, with PyTorch's attributes. ``np.dtype`` takes it.

    Its text is the name; under ``netcl.core.device.use_pytorch_names`` it is PyTorch's, ``torch.float32``.

    >>> OBJECTS["float32"] == "float32", OBJECTS["float32"].is_floating_point
    (True, True)
    """

    __slots__ = ()

    @property
    def _name(self) -> str:
        """The name as a plain string."""
        return str.__str__(self)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return itemsize(self._name)

    @property
    def is_floating_point(self) -> bool:
        """True for floating dtypes."""
        return is_floating(self._name)

    @property
    def is_complex(self) -> bool:
        """False: there are no complex dtypes."""
        return False

    @property
    def is_signed(self) -> bool:
        """True for dtypes with negative numbers."""
        return self != "bool" and not is_unsigned(self._name)

    def __repr__(self) -> str:
        return f"{naming.library}.{self._name}"

    def __str__(self) -> str:
        return f"{naming.library}.{self._name}" if naming.is_foreign() else self._name

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return _object, (self._name,)


def is_dtype(name: object) -> bool:
    """True if ``canonical`` has a name for it; False for selectors of devices.

    >>> is_dtype("half"), is_dtype("gpu")
    (True, False)
    """
    try:
        return name in _ALIASES or _is_dtype_of_numpy(name)
    except TypeError:  # not hashable
        return False


@lru_cache(maxsize=256)
def _is_dtype_of_numpy(name: Any) -> bool:
    try:
        _canonical_by_numpy(name)
    except DTypeError:
        return False
    return True


def numpy_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Returns the NumPy dtype of the storage: uint16 (bit patterns) for bfloat16, else the dtype of that name."""
    return _TABLE[canonical(dtype)].storage


def itemsize(dtype: DTypeLike) -> int:
    """Returns the bytes of one element."""
    return _TABLE[canonical(dtype)].storage.itemsize


def c_type(dtype: DTypeLike) -> str:
    """Returns the OpenCL C type of an element in a buffer: ``ushort`` for bfloat16, ``uchar`` for bool."""
    return _TABLE[canonical(dtype)].c_type


def compute_type(dtype: DTypeLike) -> str:
    """Returns the OpenCL C type of arithmetic on the dtype: ``float`` for the 16-bit floats, ``int`` for int8, int16,
    uint8 and bool, ``uint`` for uint16.
    """
    return _TABLE[canonical(dtype)].compute_type


def is_floating(dtype: DTypeLike) -> bool:
    """True for float16, bfloat16, float32 and float64."""
    return _TABLE[canonical(dtype)].kind == 2


def is_integer(dtype: DTypeLike) -> bool:
    """True for int8 to int64 and uint8 to uint64; False for bool."""
    return _TABLE[canonical(dtype)].kind == 1


def is_unsigned(dtype: DTypeLike) -> bool:
    """True for uint8, uint16, uint32 and uint64."""
    entry = _TABLE[canonical(dtype)]
    return entry.kind == 1 and entry.storage.kind == "u"


def kind(dtype: DTypeLike) -> int:
    """Returns 0 for bool, 1 for integers, 2 for floating dtypes: a higher kind absorbs a lower one."""
    return _TABLE[canonical(dtype)].kind


def integer_range(dtype: DTypeLike) -> tuple[int, int]:
    """Returns the least and the largest number of an integer dtype; raises DTypeError for other dtypes."""
    name = canonical(dtype)
    if _TABLE[name].kind != 1:
        raise DTypeError(f"{name} is no integer dtype")
    limits = np.iinfo(_TABLE[name].storage)
    return int(limits.min), int(limits.max)


def _widest(kind: int, names: set[str]) -> str:
    if kind == 2 and {"float16", "bfloat16"} <= names:
        names = names | {"float32"}
    if kind == 1:
        return _integer_of(names)
    return max(names, key=lambda name: (_TABLE[name].storage.itemsize, name))


def _integer_of(names: set[str]) -> str:
    """Returns the smallest integer dtype that holds the values of all of ``names``."""
    widths = {signed: [itemsize(name) for name in names if is_unsigned(name) != signed] for signed in (True, False)}
    if not widths[True]:
        return f"uint{8 * max(widths[False])}"
    width = max(widths[True] + [2 * size for size in widths[False]])
    if width > 8:
        signed = next(name for name in sorted(names) if not is_unsigned(name))
        raise DTypeError(
            f'no integer dtype holds both uint64 and {signed}; convert one operand: .astype("int64") or '
            '.astype("uint64")'
        )
    return f"int{8 * width}"


@lru_cache(maxsize=4096)
def _promote(dtypes: tuple[Any, ...]) -> str:
    weak_kind = max((_WEAK_KIND[d] for d in dtypes if d in _WEAK_KIND), default=-1)
    strong = {canonical(d) for d in dtypes if d not in _WEAK_KIND}
    kind = max((_TABLE[name].kind for name in strong), default=-1)
    if weak_kind > kind:
        return _DEFAULT_OF_KIND[weak_kind]
    return _widest(kind, {name for name in strong if _TABLE[name].kind == kind})


def promote(*dtypes: DTypeLike) -> str:
    """Returns the result dtype of operands of these dtypes.

    Within a kind (bool, integer, floating) the widest, float32 for float16 with bfloat16, the next wider signed dtype
    for a signed integer with an unsigned one of its width or more; a float with an integer is that float. The Python
    types bool, int and float are weak: they stand for a Python scalar and change the kind at most, to int64 or float32.
    Raises DTypeError for uint64 with a signed integer, which no dtype holds.

    >>> promote("float16", "int64"), promote("float16", "bfloat16"), promote("float16", float), promote("int32", float)
    ('float16', 'float32', 'float16', 'float32')
    >>> promote("uint8", "int8"), promote("uint16", "int32"), promote("uint32", "int16"), promote("uint8", "uint64")
    ('int16', 'int32', 'int64', 'uint64')
    """
    if not dtypes:
        raise DTypeError("promote needs at least one dtype")
    try:
        return _promote(dtypes)
    except DTypeError:
        raise
    except TypeError:
        raise _unsupported(dtypes) from None


def to_bfloat16(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Returns the bfloat16 bit patterns of float32 values, rounded to nearest even; NaN stays NaN with its sign."""
    single = np.asarray(values, dtype=np.float32)
    bits = np.ascontiguousarray(single).reshape(-1).view(np.uint32)
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits  # wraps for negative NaN only, which is replaced below
    rounded >>= np.uint32(16)
    result: npt.NDArray[np.uint16] = rounded.astype(np.uint16)
    nan = np.isnan(single).reshape(-1)
    if nan.any():
        # The rounding term could overflow a NaN's mantissa; keep its top bits and make it quiet.
        result[nan] = ((bits[nan] >> np.uint32(16)) | np.uint32(0x0040)).astype(np.uint16)
    return result.reshape(single.shape)


def from_bfloat16(bits: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Returns the float32 values of bfloat16 bit patterns (uint16); exact, shape kept."""
    patterns = np.asarray(bits, dtype=np.uint16)
    wide = np.ascontiguousarray(patterns).reshape(-1).astype(np.uint32)
    wide <<= np.uint32(16)
    single: npt.NDArray[np.float32] = wide.view(np.float32)
    return single.reshape(patterns.shape)


# Bytes of an element by canonical name.
SIZES: dict[str, int] = {name: row.storage.itemsize for name, row in _TABLE.items()}

# Dtypes by name, and under PyTorch's other names.
OBJECTS = {name: DType(name) for name in SUPPORTED}
OBJECTS.update(
    (other, OBJECTS[name])
    for other, name in (
        ("half", "float16"), ("float", "float32"), ("double", "float64"), ("short", "int16"), ("int", "int32"),
        ("long", "int64"),
    )
)  # fmt: skip


def _object(name: str) -> DType:
    """Returns the DType of a pickle: the one of a supported dtype."""
    return OBJECTS[name] if name in OBJECTS else DType(name)
