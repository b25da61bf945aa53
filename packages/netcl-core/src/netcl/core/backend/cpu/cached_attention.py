"""Attention of one new token of each row to the keys of a cache, with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.storage.data import TensorT


def _turned(x: Array, norm: Array | None, turns: Array, eps: float) -> Array:
    """Returns heads (heads, size) normalized and turned by the cosines and sines of their place."""
    if norm is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * norm
    half = turns.size // 2
    cosine, sine = turns[:half], turns[half:]
    first, second = x[:, :half], x[:, half : 2 * half]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine, x[:, 2 * half :]], -1)


def _write(table: Array, scales: Array | None, at: Any, numbers: Array, dtype: str) -> None:
    """Rounds numbers (heads, size) into places of a table; of a table in Q8_0 32 neighbours have a scale."""
    if scales is None:
        store(table[at], numbers, dtype)
        return
    blocks = numbers.reshape(*scales[at].shape, 32)
    largest = np.abs(blocks).max(-1, keepdims=True)
    scaled = blocks * np.divide(127, largest, out=np.zeros_like(largest), where=largest > 0)
    table[at] = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).reshape(table[at].shape)
    store(scales[at], largest[..., 0] / 127, "float16")


def _read(table: Array, scales: Array | None, at: Any, dtype: str) -> Array:
    numbers = widened(table[at], dtype)
    return numbers if scales is None else numbers * np.repeat(scales[at].astype(np.float32), 32, -1)


def _attend(
    operands: Sequence[Array], tables: Sequence[Array], norms: Sequence[Array], out: Array, dtypes: Any, options: Any
) -> None:
    (x, used, turns), (keys, values, *rest) = operands, tables
    both = tuple(zip((keys, values), rest or (None, None)))
    scale, window, cap, eps = options
    _, kv_heads, places, size = keys.shape
    heads = x.shape[1] // size - 2 * kv_heads
    q_norm, k_norm = (widened(norm, dtypes[0]) for norm in norms) if norms else (None, None)
    for n, row in enumerate(widened(x, dtypes[0]).reshape(len(x), -1, size)):
        at = min(int(used[n]), places - 1)
        new = _turned(row[heads:-kv_heads], k_norm, turns[at], eps), row[-kv_heads:]
        for (table, scales), numbers in zip(both, new):
            _write(table, scales, np.s_[n, :, at], numbers, dtypes[1])
        oldest = max(0, at - window + 1) if window else 0
        k, v = (_read(table, scales, np.s_[n, :, oldest : at + 1], dtypes[1]) for table, scales in both)
        k[:, -1], v[:, -1] = new  # this token has seen no rounded ones of itself
        q = _turned(row[:heads], q_norm, turns[at], eps).reshape(kv_heads, -1, size)
        scores = q @ k.swapaxes(1, 2) * np.float32(scale)
        scores = cap * np.tanh(scores / cap) if cap else scores
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        store(out[n], (weights / weights.sum(-1, keepdims=True) @ v).reshape(-1), dtypes[0])


def cached_attention(
    engine: Any,
    x: TensorT,
    tables: Sequence[TensorT],
    used: TensorT,
    turns: TensorT,
    norms: Sequence[TensorT],
    *,
    scale: float,
    window: int,
    cap: float,
    eps: float,
) -> TensorT:
    """Returns the attention of one new token of each row, whose key and value it writes to the cache. ``tables`` has
    keys and values, and the scales of both for a cache in Q8_0.
    """
    out: TensorT = engine.empty((x.shape[0], x.shape[1] - 2 * tables[0].shape[1] * tables[0].shape[3]), x.dtype)
    arrays = [[operand.array for operand in each] for each in ((x, used, turns), tables, norms)]
    engine.launch(_attend, *arrays, out.array, (x.dtype, tables[0].dtype), (scale, window, cap, eps))
    return out
