"""Reads and writes NumPy's arrays, numbers and dtypes in pickles: of plain numbers only, which need no code."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np

from netcl.io.pickles import Built, PickleError

Array = np.ndarray[Any, Any]
_PLAIN_DTYPE = re.compile("[?biufc][0-9]{0,2}")


class _Dtype(Built):
    """A pickled NumPy dtype: its code and, set afterwards, its byte order."""

    def __init__(self, code: Any, *rest: Any) -> None:
        if not isinstance(code, str) or not _PLAIN_DTYPE.fullmatch(code):
            raise PickleError("it has a dtype of NumPy that is no plain number's")
        self.dtype = np.dtype(code)

    def build(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


def _scalar(dtype: Any, data: Any) -> Any:
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
        raise PickleError("it is damaged (a number of NumPy has no dtype)")
    return np.frombuffer(data, dtype.dtype, 1)[0].item()


def _reconstruct(kind: Any, shape: Any, code: Any) -> Array:
    """Returns an empty array, which ``build`` fills."""
    if kind != "ndarray":
        raise PickleError("it holds an array of a class of its own")
    return np.empty(0, np.uint8)


def build(array: Array, state: Any) -> None:
    """Fills an array from its pickled state, (version, shape, dtype, True for column order, bytes)."""
    if not isinstance(state, tuple) or len(state) != 5:
        raise PickleError("it is damaged (an array has no values)")
    _, shape, dtype, columns, data = state
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes) or not isinstance(shape, tuple):
        raise PickleError("it is damaged (an array is described by what is none)")
    if any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) * dtype.dtype.itemsize != len(data):
        raise PickleError("it is damaged (the bytes of an array do not fit its shape)")
    fill: Any = array.__setstate__
    fill((1, shape, dtype.dtype, bool(columns), data))


def pickled(array: Array) -> bytes:
    """Returns the instructions of protocol 2 that make an array of plain numbers; raises TypeError for another
    dtype.
    """
    if not _PLAIN_DTYPE.fullmatch(array.dtype.str[1:]):
        raise TypeError(f"an array of {array.dtype} cannot be saved")
    return pickle.dumps(np.asarray(array), 2)[2:-1]


NAMES: dict[str, Any] = {
    "numpy dtype": _Dtype,
    "numpy ndarray": "ndarray",
    **{
        f"numpy.{core}.multiarray {name}": function
        for core in ("core", "_core")
        for name, function in (("scalar", _scalar), ("_reconstruct", _reconstruct))
    },
}
