"""Reads pickles of plain containers and NumPy arrays, as those of CIFAR, and runs nothing that they name."""

from __future__ import annotations

import io
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_array_pickle"]


_NUMBERS = re.compile(r"[<>|=]?[biuf][1248]")
# The errors that the instructions of a damaged file raise.
_FAULTS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


class _Shape:
    """Stands for ``numpy.ndarray``, which a pickle names as an argument and never calls."""


class _DType:
    """A dtype as a pickle makes it: by a call with its name and a state, of which the first byte order counts."""

    def __init__(self, name: Any, *rest: Any) -> None:
        # NumPy would evaluate other texts as lists of fields.
        if not isinstance(name, str) or _NUMBERS.fullmatch(name) is None:
            raise pickle.UnpicklingError(f"arrays of numbers are read, not of dtype {name!r}")
        self.dtype: np.dtype[Any] = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        self.dtype = self.dtype.newbyteorder(">" if state[1] == ">" else "<" if state[1] == "<" else "|")


class _Array:
    """An array as a pickle makes it: by a call, whose arguments are not used, and a state."""

    def __init__(self, *arguments: Any) -> None:
        self.array: np.ndarray[Any, Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, data = state
        if not isinstance(kind, _DType):
            raise pickle.UnpicklingError("an array needs a dtype")
        # Python 2 wrote bytes as text.
        values = data.encode("latin1") if isinstance(data, str) else bytes(data)
        self.array = np.frombuffer(values, kind.dtype).reshape(shape, order="F" if by_columns else "C").copy()


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


_NAMES: dict[str, Any] = {
    **{f"{module}.multiarray._reconstruct": _Array for module in ("numpy.core", "numpy._core")},
    "numpy.ndarray": _Shape,
    "numpy.dtype": _DType,
    "_codecs.encode": _encoded,
}


class _Reader(pickle._Unpickler):
    """An unpickler that finds the names of NumPy's arrays only, as classes of this module.

    The one in Python: that in C allocates as much memory as the largest number in a damaged file says.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = _NAMES.get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not run")
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def read_array_pickle(path: Path) -> Any:
    """Returns the value of a pickle of dicts, lists, texts, numbers and arrays; texts of Python 2 are read as latin1.

    Raises:
        ValueError: the file is damaged, or names anything else.
    """
    try:
        return _plain(_Reader(io.BytesIO(path.read_bytes()), encoding="latin1").load())
    except _FAULTS as error:
        raise ValueError(f"{path} is no pickle of arrays: {error}") from error
