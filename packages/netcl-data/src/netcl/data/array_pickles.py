"""Reads pickles of plain containers and NumPy arrays, as those of CIFAR, and runs nothing that they name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_array_pickle"]


class _Shape:
    """Stands for ``numpy.ndarray``, which a pickle names as an argument and never calls."""


class _DType:
    """A dtype as a pickle makes it: by a call with its name and a state, of which the first byte order counts."""

    def __init__(self, name: Any, *rest: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(name if isinstance(name, str) else "O")
        if self.dtype.kind not in "biuf":
            raise pickle.UnpicklingError(f"arrays of numbers are read, not of dtype {name!r}")

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


class _Reader(pickle.Unpickler):
    """An unpickler that finds the names of NumPy's arrays only, as classes of this module."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        name = f"{module_name}.{global_name}"
        if name not in _NAMES:
            raise pickle.UnpicklingError(f"it names {name}, which is not run")
        return _NAMES[name]


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
        with open(path, "rb") as file:
            return _plain(_Reader(file, encoding="latin1").load())
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise ValueError(f"{path} is no pickle of arrays: {error}") from error
