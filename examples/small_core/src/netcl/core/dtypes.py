"""The dtypes by name, and promotion: bool, integers, floating; Python numbers change the kind alone."""

import numpy as np

from netcl.core.errors import DTypeError

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATING = ("float16", "float32", "float64")
SUPPORTED = ("bool", *INTEGERS, *FLOATING)
NAMES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "long": "int64"}
TYPES = {float: "float32", int: "int64", bool: "bool"}


class DType(str):
    """A dtype as an object, which equals its name; ``np.dtype`` takes it."""

    @property
    def is_floating_point(self):
        """True for floating dtypes."""
        return self in FLOATING

    @property
    def dtype(self):
        """The NumPy dtype."""
        return np.dtype(str(self))


OBJECTS = {name: DType(name) for name in SUPPORTED}


def canonical(dtype):
    """The name of a dtype given as a name, a type or a NumPy dtype; DTypeError if it is not supported."""
    try:
        name = TYPES.get(dtype) or NAMES.get(dtype) or np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in OBJECTS:
        raise DTypeError(f"there is no dtype {dtype!r}; there are {', '.join(SUPPORTED)}")
    return name


def is_floating(dtype):
    """True for float16, float32 and float64."""
    return canonical(dtype) in FLOATING


def is_integer(dtype):
    """True for integers, False for bool."""
    return canonical(dtype) in INTEGERS


def is_unsigned(dtype):
    """True for uint8."""
    return canonical(dtype) == "uint8"


def kind(dtype):
    """0 for bool, 1 for integers, 2 for floating dtypes."""
    return 2 if is_floating(dtype) else int(is_integer(dtype))


def itemsize(dtype):
    """Bytes of one element."""
    return numpy_dtype(dtype).itemsize


def numpy_dtype(dtype):
    """The NumPy dtype of the storage."""
    return np.dtype(canonical(dtype))


def integer_range(dtype):
    """The least and the largest number of an integer dtype."""
    if not is_integer(dtype):
        raise DTypeError(f"{dtype} is no integer dtype")
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def get_default_dtype():
    """The dtype of tensors made of Python floats."""
    return OBJECTS["float32"]


def promote(*dtypes):
    """The dtype of a result; ``bool``, ``int`` and ``float`` as types stand for Python numbers."""
    strong = [canonical(one) for one in dtypes if one not in TYPES]
    rank = max((kind(one) for one in strong), default=0)
    names = [one for one in strong if kind(one) == rank]
    result = np.result_type(*names).name if names else "bool"
    for weak in (one for one in dtypes if one in TYPES):
        if kind(TYPES[weak]) > kind(result):
            result = TYPES[weak]
    return result


def from_bfloat16(bits):
    """float32 values of bfloat16 bits."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values):
    """bfloat16 bits of float32 values, rounded to nearest even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)
