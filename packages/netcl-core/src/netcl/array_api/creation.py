"""Creation functions of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from netcl.array_api.array import returns_arrays
from netcl.array_api.rows import defined, row
from netcl.core.dtypes import canonical
from netcl.core.tensor import Tensor, factories
from netcl.core.tensor.tensor import queue_of

Shape = int | Sequence[int]


def _default_dtype(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    return "int64" if isinstance(value, (int, np.integer)) else "float32"


@returns_arrays
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns a tensor of a tensor, an array, a number, or nested sequences of numbers.

    A tensor that is already of ``dtype`` and on ``device`` is returned itself unless ``copy`` is True. Arrays keep
    their dtype; Python floats are float32. Raises ValueError if ``copy`` is False and a copy is needed.
    """
    if isinstance(obj, Tensor):
        result = obj if device is None else obj.to(device)
        result = result if dtype is None else result.astype(dtype)
        if copy is False and result is not obj:
            raise ValueError("asarray: another dtype or device needs a copy, which copy=False forbids")
        return result.clone() if copy and result is obj else result
    if copy is False:
        raise ValueError("asarray: host data are copied to a device, which copy=False forbids")
    if dtype is None and hasattr(obj, "dtype") and obj.dtype == np.float64:
        dtype = "float64"
    return Tensor.from_host(queue_of(device), obj, dtype)


@returns_arrays
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns a tensor of an object that has ``__dlpack__``, on its memory if the device works on the host's memory.

    Raises ValueError if ``copy`` is False and a copy is needed, BufferError for memory of other devices.
    """
    return factories.from_dlpack(x, device=device, copy=copy)


@returns_arrays
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Returns the numbers from ``start`` to before ``stop`` by ``step``; with one argument, from 0 to before it."""
    if stop is None:
        start, stop = 0, start
    numbers = np.arange(start, stop, step) if (stop - start) / step > 0 else np.zeros(0, np.int64)
    whole = all(isinstance(value, (int, np.integer)) for value in (start, stop, step))
    return asarray(numbers, dtype=dtype or ("int64" if whole else "float32"), device=device)


@returns_arrays
def full(shape: Shape, fill_value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a tensor of ``shape`` filled with ``fill_value``; the dtype is the number's if ``dtype`` is None."""
    name = _default_dtype(fill_value) if dtype is None else canonical(dtype)
    return Tensor.from_shape(queue_of(device), shape, name, fill=fill_value)


@returns_arrays
def empty(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a tensor of ``shape`` with undefined content, float32 if ``dtype`` is None."""
    return Tensor.from_shape(queue_of(device), shape, dtype or "float32", fill=None)


@returns_arrays
def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns zeros of ``shape``, float32 if ``dtype`` is None."""
    return full(shape, 0, dtype=dtype or "float32", device=device)


@returns_arrays
def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns ones of ``shape``, float32 if ``dtype`` is None."""
    return full(shape, 1, dtype=dtype or "float32", device=device)


@returns_arrays
def full_like(x: Tensor, /, fill_value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a tensor of x's shape, filled with one number; dtype and device are x's unless passed."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=x.device if device is None else device)


@returns_arrays
def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a tensor like ``x`` with undefined content."""
    return empty(x.shape, dtype=dtype or x.dtype, device=x.device if device is None else device)


@returns_arrays
def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns zeros like ``x``."""
    return full_like(x, 0, dtype=dtype, device=device)


@returns_arrays
def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns ones like ``x``."""
    return full_like(x, 1, dtype=dtype, device=device)


@returns_arrays
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns the (n_rows, n_cols) matrix with ones on diagonal ``k``; n_cols None is n_rows."""
    return asarray(np.eye(n_rows, n_cols, k, dtype=np.int8), dtype=dtype or "float32", device=device)


@returns_arrays
def linspace(
    start: float, stop: float, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """Returns ``num`` numbers at equal distances from ``start`` to ``stop``, which is excluded without ``endpoint``."""
    numbers = np.linspace(start, stop, num, endpoint=endpoint)
    return asarray(numbers, dtype=dtype or "float32", device=device)


@returns_arrays
def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Returns the coordinates of a grid over vectors, one tensor for each; "xy" swaps the first two axes.

    Raises ValueError for vectors of different dtypes or another ``indexing``.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid: expected indexing "xy" or "ij", got {indexing!r}')
    if len({array.dtype for array in arrays}) > 1:
        raise ValueError(f"meshgrid: expected vectors of one dtype, got {', '.join(array.dtype for array in arrays)}")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    shape = [0] * len(arrays)
    for axis, array in zip(order, arrays):
        shape[axis] = array.size
    return [
        row("expand")(row("reshape")(array, [-1 if other == axis else 1 for other in range(len(shape))]), shape)
        if array.size
        else empty(tuple(shape), dtype=array.dtype, device=array.device)
        for axis, array in zip(order, arrays)
    ]


@returns_arrays
def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the elements on and below diagonal ``k`` of matrices, and zeros above it."""
    return row("tril")(x, k)  # type: ignore[no-any-return]


@returns_arrays
def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the elements on and above diagonal ``k`` of matrices, and zeros below it."""
    return row("triu")(x, k)  # type: ignore[no-any-return]


__all__ = defined(globals())
