"""Stable sorting of rows on the host, with positions and without, and the distinct elements of a vector.

NumPy's unstable sorts use SIMD and are several times faster than its stable ones, so that everything here is made of
them: positions are packed with keys into one integer, or equal elements are put in order afterwards. NaN is the
largest, -0 equals 0; equal elements, also zeros of both signs and NaNs of different bits, keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from netcl.core.dtypes import from_bfloat16

Array = np.ndarray[Any, Any]

_LARGEST = 0x7FFFFFFF
_SHORT = ("bool", "int8", "uint8", "int16", "uint16", "float16", "bfloat16")  # NumPy has a radix sort for their keys
_COUNTED = {"bool": 0, "uint8": 0, "int8": 0x80}  # the bits that make bytes of values in order
_FEW = 256  # elements from which a table of 256 counts pays


def sorted_rows(x: Array, dtype: str, descending: bool) -> tuple[Array, Array]:
    """Returns the last axis of ``x``, stored as ``dtype``, in stable order, and the positions, int64."""
    order = _order(x, dtype, descending)
    if x.size == 0:
        return x.copy(), order
    rows, places = x.reshape(-1, x.shape[-1]), order.reshape(-1, x.shape[-1])
    values = np.empty_like(rows)
    for row, place, target in zip(rows, places, values):
        np.take(row, place, out=target, mode="wrap")  # of the modes the fastest; no position is out of range
    return values.reshape(x.shape), order


def sort_values(values: Array, original: Callable[[], Array], dtype: str, descending: bool = False) -> None:
    """Gives ``values`` the values of ``sorted_rows`` in place, in the time of an unstable sort. ``original()`` gives
    the values as they were, which are needed again if there are NaNs or zeros of negative sign.
    """
    if values.size == 0:
        return
    negative_zeros = False  # their bits are the least integer
    if dtype in ("float16", "bfloat16"):
        bits = values.view(np.int16)
        negative_zeros = bool(bits.min() == np.iinfo(np.int16).min)
        _flip_bits(bits)
        bits.sort(axis=-1, kind="stable")
        _flip_bits(bits)
    elif dtype in _SHORT:
        (values.view(np.uint8) if dtype == "bool" else values).sort(axis=-1, kind="stable")
    else:
        if "float" in dtype:
            bits = values.view(f"i{values.itemsize}")
            negative_zeros = bool(bits.min() == np.iinfo(bits.dtype).min)
        values.sort(axis=-1)
    missing = "float" in dtype and bool(_is_nan(values[..., [0, -1]], dtype).any())
    if descending:
        values[...] = values[..., ::-1]
    if negative_zeros or missing:
        _mend(original(), values, dtype, descending)


def unique(x: Array, original: Callable[[], Array], dtype: str, wanted: Sequence[str]) -> list[Array]:
    """Returns the distinct elements of a vector in order, and of ``wanted`` in that order: their ``first`` positions,
    the ``inverse``, which is the place of each element among them, and their ``counts``, int64. Every NaN is distinct.

    ``x`` is overwritten, and ``original()`` gives it as it was.
    """
    if dtype in _COUNTED and x.size >= _FEW and "first" not in wanted:
        return _counted(x, _COUNTED[dtype], wanted)
    order = None
    if "first" in wanted:
        ordered, order = sorted_rows(x, dtype, False)
    elif "inverse" in wanted:
        order = None if dtype in _SHORT or _packs(x, dtype) else np.argsort(x)  # equal elements in any order
        ordered = x if order is None else np.take(x, order, mode="wrap")
        if order is None or x.size and ordered[-1] != ordered[-1]:
            ordered, order = sorted_rows(x, dtype, False)
    else:
        ordered = x
        sort_values(ordered, original, dtype)
    comparable = from_bfloat16(ordered) if dtype == "bfloat16" else ordered
    begins = np.empty(x.shape, bool)
    begins[:1] = True
    np.not_equal(comparable[1:], comparable[:-1], out=begins[1:])
    starts = np.flatnonzero(begins) if "first" in wanted or "counts" in wanted else None
    results = [ordered if begins.all() else ordered[begins]]
    for name in wanted:
        if name == "counts":
            assert starts is not None
            results.append(np.diff(starts, append=x.size))
        elif name == "first":
            assert starts is not None
            assert order is not None
            results.append(order[starts])
        else:
            inverse = np.empty(x.shape, np.int64)
            inverse[order] = np.cumsum(begins) - 1
            results.append(inverse)
    return results


def _counted(x: Array, flip: int, wanted: Sequence[str]) -> list[Array]:
    """Returns ``unique`` of bytes, from the counts of all 256."""
    bits = x.view(np.uint8) ^ np.uint8(flip) if flip else x.view(np.uint8)
    counts = np.bincount(bits, minlength=256)
    present = np.flatnonzero(counts)
    results: list[Array] = [(present.astype(np.uint8) ^ np.uint8(flip)).view(x.dtype)]
    for name in wanted:
        results.append(counts[present] if name == "counts" else np.take(np.cumsum(counts > 0) - 1, bits, mode="wrap"))
    return results


# -- values alone ------------------------------------------------------------------------------------------------------


def _flip_bits(bits: Array) -> None:
    """Makes int16 in the order of floats of their bits, -0 before 0, and the reverse: it undoes itself."""
    bits ^= (bits >> 15) & np.int16(0x7FFF)


def _is_nan(values: Array, dtype: str) -> Array:
    return np.isnan(from_bfloat16(values) if dtype == "bfloat16" else values)


def _mend(x: Array, values: Array, dtype: str, descending: bool) -> None:
    """Puts zeros and NaNs, which an unstable sort mixes or changes, into their order in a row of ``x``."""
    wide = from_bfloat16(x) if dtype == "bfloat16" else x
    rows, results = x.reshape(-1, x.shape[-1]), values.reshape(-1, x.shape[-1])
    for row, comparable, result in zip(rows, wide.reshape(rows.shape), results):
        missing = np.isnan(comparable)
        many = int(missing.sum())
        if many:
            kept = row[~missing]
            rest = kept.copy()
            sort_values(rest, kept.view, dtype, descending)
            head, tail = (row[missing], rest) if descending else (rest, row[missing])
            result[: head.size], result[head.size :] = head, tail
        elif (equal := comparable == 0).any():
            first = int((comparable > 0).sum() if descending else (comparable < 0).sum())
            result[first : first + int(equal.sum())] = row[equal]


# -- with positions ----------------------------------------------------------------------------------------------------


def _order(x: Array, dtype: str, descending: bool) -> Array:
    """Returns the positions, int64, of the last axis in stable order."""
    if x.size == 0:
        return np.empty(x.shape, np.int64)
    if dtype in _SHORT:
        keys = _short_keys(x, dtype)
        order: Array = np.argsort(np.invert(keys) if descending else keys, axis=-1, kind="stable")
        return order
    if x.shape[-1] > _LARGEST:  # its positions do not fit into 32 bits
        return _reversed(x, partial(np.argsort, axis=-1, kind="stable"), descending)
    if not _packs(x, dtype):
        return _reversed(x, _in_runs, descending)
    keys = _keys(x, dtype)
    if descending:
        np.invert(keys, out=keys)
    packed = np.empty(x.shape, np.int64)
    np.left_shift(keys, 32, out=packed, dtype=np.int64)
    packed |= np.arange(x.shape[-1], dtype=np.int64)
    packed.sort(axis=-1)
    packed &= 0xFFFFFFFF
    return packed


def _packs(x: Array, dtype: str) -> bool:
    """True if the keys of ``x`` and their positions fit into 32 bits each."""
    if x.size == 0 or x.shape[-1] > _LARGEST or dtype == "float64":
        return False
    return dtype in ("int32", "float32") or int(x.max()) - int(x.min()) <= _LARGEST


def _short_keys(x: Array, dtype: str) -> Array:
    """Integers of 8 or 16 bits in the order of x: NaN is the largest, -0 equals 0."""
    if dtype == "bool":
        return x.view(np.uint8)
    if dtype not in ("float16", "bfloat16"):
        return x
    bits = x.view(np.int16)
    keys: Array = bits.copy()
    _flip_bits(keys)
    keys += keys == -1  # -0
    largest = 0x7C00 if dtype == "float16" else 0x7F80
    keys[(bits & 0x7FFF) > largest] = 0x7FFF
    return keys


def _keys(x: Array, dtype: str) -> Array:
    """Returns int32 in the order of x: NaN is the largest, -0 equals 0."""
    if dtype == "float32":
        keys: Array = (x + np.float32(0)).view(np.int32)  # -0 + 0 is 0
        missing = x != x
        if missing.any():
            keys[missing] = _LARGEST
        keys ^= (keys >> 31) & _LARGEST
        return keys
    return x.astype(np.int32) if dtype == "int32" else (x - x.min()).astype(np.int32)


def _reversed(x: Array, order_of: Any, descending: bool) -> Array:
    """Returns the order of ``x``; descending it is of reversed rows, reversed: equal elements stay, NaN comes first."""
    if not descending:
        return order_of(x)  # type: ignore[no-any-return]
    return np.ascontiguousarray(x.shape[-1] - 1 - order_of(np.ascontiguousarray(x[..., ::-1]))[..., ::-1])


def _in_runs(x: Array) -> Array:
    """Returns the order by an unstable sort, after which the positions of equal elements are sorted."""
    rows = x.reshape(-1, x.shape[-1])
    order = np.argsort(rows, axis=-1)
    ordered = np.empty_like(rows)
    for row, place, target in zip(rows, order, ordered):
        np.take(row, place, out=target, mode="wrap")
    later, earlier = ordered[:, 1:], ordered[:, :-1]
    changed = later != earlier
    if ordered.dtype.kind == "f":
        changed &= earlier == earlier  # what comes after a NaN is one, and equal to it
    mixed = np.flatnonzero(~changed.all(axis=1))
    if mixed.size:
        runs = np.zeros((mixed.size, rows.shape[1]), np.int64)
        np.cumsum(changed[mixed], axis=1, out=runs[:, 1:])
        runs <<= 32
        runs |= order[mixed]
        runs.sort(axis=1)
        order[mixed] = runs & 0xFFFFFFFF
    result: Array = order.reshape(x.shape)
    return result
