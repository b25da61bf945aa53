"""Attention of one new token of each row to the keys of a cache, with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorT


def _turned(x: Array, norm: Array | None, turns: Array, eps: float) -> Array:
    """Returns heads (heads, size) normalized and turned by the cosines and sines of their place."""
    if norm is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * norm
    half = turns.size // 2
    cosine, sine = turns[:half], turns[half:]
    first, second = x[:, :half], x[:, half : 2 * half]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine, x[:, 2 * half :]], -1)


def _attend(operands: Sequence[Array], norms: Sequence[Array], out: Array, dtypes: Any, options: Any) -> None:
    x, keys, values, used, turns = operands
    scale, window, cap, eps = options
    _, kv_heads, places, size = keys.shape
    heads = x.shape[1] // size - 2 * kv_heads
    q_norm, k_norm = (widened(norm, dtypes[0]) for norm in norms) if norms else (None, None)
    for n, row in enumerate(widened(x, dtypes[0]).reshape(len(x), -1, size)):
        at = min(int(used[n]), places - 1)
        store(keys[n, :, at], _turned(row[heads:-kv_heads], k_norm, turns[at], eps), dtypes[1])
        store(values[n, :, at], row[-kv_heads:], dtypes[1])
        oldest = max(0, at - window + 1) if window else 0
        k, v = (widened(table[n, :, oldest : at + 1], dtypes[1]) for table in (keys, values))
        q = _turned(row[:heads], q_norm, turns[at], eps).reshape(kv_heads, -1, size)
        scores = q @ k.swapaxes(1, 2) * np.float32(scale)
        scores = cap * np.tanh(scores / cap) if cap else scores
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        store(out[n], (weights / weights.sum(-1, keepdims=True) @ v).reshape(-1), dtypes[0])


def cached_attention(
    engine: Any,
    x: TensorT,
    keys: TensorT,
    values: TensorT,
    used: TensorT,
    turns: TensorT,
    norms: Sequence[TensorT],
    *,
    scale: float,
    window: int,
    cap: float,
    eps: float,
) -> TensorT:
    """Returns the attention of one new token of each row, whose key and value it writes at the place ``used``."""
    out: TensorT = engine.empty((x.shape[0], x.shape[1] - 2 * keys.shape[1] * keys.shape[3]), x.dtype)
    operands = [operand.array for operand in (x, keys, values, used, turns)]
    dtypes = x.dtype, keys.dtype
    engine.launch(_attend, operands, [norm.array for norm in norms], out.array, dtypes, (scale, window, cap, eps))
    return out
