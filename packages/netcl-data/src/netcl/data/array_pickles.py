"""Reads pickles of plain containers and NumPy arrays, such as CIFAR's, and runs nothing that they name."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from netcl.data.budget import Budget, Meter
from netcl.data.reading import opened

# The pure Python version, which has no types.
_UNPICKLER: Any = pickle._Unpickler
# An instruction of one byte may make an empty list.
_INSTRUCTION_MEMORY, _INSTRUCTION_SECONDS = 80, 1.2e-6
_AT_ONCE = 1024  # instructions that are charged together
_NUMBERS = re.compile(r"[<>|=]?[biuf][1248]")


class _Shape:
    """Stands for ``numpy.ndarray``, which a pickle names as an argument and never calls."""


class _DType:
    """A dtype as a pickle makes it: by a call with its name and a state; the first byte order counts."""

    def __init__(self, name: Any, *rest: Any) -> None:
        # NumPy would evaluate other texts as lists of fields.
        if not isinstance(name, str) or _NUMBERS.fullmatch(name) is None:
            raise pickle.UnpicklingError(f"expected an array of numbers, got dtype {name!r}")
        self.dtype: np.dtype[Any] = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        self.dtype = self.dtype.newbyteorder(">" if state[1] == ">" else "<" if state[1] == "<" else "|")


class _Array:
    """An array as a pickle makes it: by a call, with unused arguments, and a state."""

    def __init__(self, *arguments: Any) -> None:
        self.array: np.ndarray[Any, Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, data = state
        if not isinstance(kind, _DType):
            raise pickle.UnpicklingError("an array needs a dtype")
        # Python 2 wrote bytes as text. bytes(n) would make n zeros.
        values = data.encode("latin1") if isinstance(data, str) else data
        if not isinstance(values, (bytes, bytearray)):
            raise pickle.UnpicklingError(f"expected an array of bytes, got {type(values).__name__}")
        # A view: many arrays of one text take no more memory than the text.
        self.array = np.frombuffer(values, kind.dtype).reshape(shape, order="F" if by_columns else "C")


_NAMES: dict[str, Any] = {
    **{f"{module}.multiarray._reconstruct": _Array for module in ("numpy.core", "numpy._core")},
    "numpy.ndarray": _Shape,
    "numpy.dtype": _DType,
}


class _Program(io.BytesIO):
    """The bytes of a pickle; its instructions are read byte by byte and charged to a meter."""

    def __init__(self, data: bytes, meter: Meter) -> None:
        super().__init__(data)
        self._meter, self._read = meter, 0

    def read(self, size: int | None = -1, /) -> bytes:
        if size == 1:
            self._read += 1
            if not self._read % _AT_ONCE:
                self._meter.count(_AT_ONCE, "the instructions of the pickle")
                self._meter.spend(_AT_ONCE * _INSTRUCTION_MEMORY, "what the pickle makes")
                self._meter.take(_AT_ONCE * _INSTRUCTION_SECONDS, "running the pickle")
        return super().read(size)


class _Reader(_UNPICKLER):  # type: ignore[misc]
    """An unpickler that finds the names of NumPy's arrays only, as classes of this module.

    It is pure Python: the C version allocates as much memory as the largest number in a damaged file says.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_UNPICKLER.dispatch)

    def __init__(self, data: bytes, meter: Meter) -> None:
        super().__init__(_Program(data, meter), encoding="latin1")
        self.meter = meter

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return self._encoded
        replacement = _NAMES.get(f"{module}.{name}")
        if replacement is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not run")
        return replacement

    def _encoded(self, text: str, encoding: str = "latin1") -> bytes:
        self.meter.spend(len(text), "a text")
        return text.encode("latin1")

    def _build(self) -> None:
        state, value = self.stack[-1], self.stack[-2]
        # Anything else would get attributes, and the classes of this module are among the values.
        if not isinstance(value, (_Array, _DType)):
            raise pickle.UnpicklingError("it sets the state of a value that has none")
        if isinstance(value, _Array) and isinstance(state, tuple) and state and isinstance(state[-1], str):
            self.meter.spend(len(state[-1]), "an array")
        _UNPICKLER.load_build(self)

    def _with_keys(self, load: Callable[[Any], None], keys: Any) -> None:
        # To hash a pair of a pair of ... takes exponential time.
        if not all(isinstance(key, (str, bytes, int, float)) for key in keys):
            raise pickle.UnpicklingError("the keys of a dictionary are texts and numbers")
        load(self)

    def _setitem(self) -> None:
        self._with_keys(_UNPICKLER.load_setitem, self.stack[-2:-1])

    def _setitems(self) -> None:
        self._with_keys(_UNPICKLER.load_setitems, self.stack[::2])

    def _dict(self) -> None:
        self._with_keys(_UNPICKLER.load_dict, self.stack[::2])

    def _frame(self) -> None:
        self.read(8)  # its length: the content of a frame is read from the file itself

    def _refused(self) -> None:
        raise pickle.UnpicklingError("it holds a set")

    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.SETITEM[0]] = _setitem
    dispatch[pickle.SETITEMS[0]] = _setitems
    dispatch[pickle.DICT[0]] = _dict
    dispatch[pickle.FRAME[0]] = _frame
    dispatch[pickle.ADDITEMS[0]] = dispatch[pickle.FROZENSET[0]] = _refused


def _plain(value: Any, meter: Meter, depth: int = 0) -> Any:
    # A list of a list twice of a list twice of ... is exponentially long.
    meter.count(1, "its values")
    meter.check_depth(depth, "its value")
    if isinstance(value, _Array):
        meter.spend(value.array.nbytes, "its arrays")
        return value.array.copy()
    if isinstance(value, dict):
        return {key: _plain(item, meter, depth + 1) for key, item in value.items()}
    return [_plain(item, meter, depth + 1) for item in value] if isinstance(value, list) else value


def read_array_pickle(path: Path, budget: Budget | None = None) -> Any:
    """Returns the value of a pickle of dicts, lists, texts, numbers and arrays; texts of Python 2 are read as latin1.

    Raises:
        ValueError: the file is damaged, or names anything else.
    """
    with opened(path, budget, kind="pickle of arrays") as (file, meter):
        return _plain(_Reader(file.read(), meter).load(), meter)
