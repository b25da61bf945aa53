"""Attention of one new token of each row to keys and values in a cache, which get those of the token."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.errors import DTypeError, ShapeError
from netcl.core.storage.views import flush
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.table import as_dtype, computed, engine_of


def _cases(rng: np.random.Generator) -> Cases:
    heads, kv_heads, places, size = 4, 2, 6, 8
    angles = np.arange(places)[:, None] * 0.5 ** np.arange(size // 2)
    turns = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    for norms, options in ((0, {}), (2, {"window": 3}), (0, {"cap": 0.5})):
        x, tables = (
            rng.uniform(-2, 2, (2, (heads + 2 * kv_heads) * size)),
            rng.uniform(-2, 2, (2, 2, kv_heads, places, size)),
        )
        weights = rng.uniform(0.5, 2, (norms, size))
        yield (x, *tables, np.array([4, 0], np.int32), turns, *weights), {"scale": 0.25, **options}


def _reference(
    x: Any, keys: Any, values: Any, used: Any, turns: Any, *norms: Any, scale: float, window: int = 0, cap: float = 0.0,
    eps: float = 1e-6,
) -> Any:  # fmt: skip
    rows, kv_heads, _, size = keys.shape
    groups, half = x.shape[1] // size // kv_heads - 2, turns.shape[1] // 2
    queries, new_keys, new_values = np.split(x.reshape(rows, -1, size), [groups * kv_heads, (groups + 1) * kv_heads], 1)
    turned, results = [], []
    for part, norm in zip((queries, new_keys), norms or (None, None)):
        if norm is not None:
            part = part / np.sqrt((part * part).mean(-1, keepdims=True) + eps) * norm
        a, b, rest = np.split(part, [half, 2 * half], -1)
        cos, sin = np.split(turns[used.astype(int)][:, None], [half], -1)
        turned.append(np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1))
    for row, last in enumerate(used.astype(int)):
        first = max(0, last + 1 - window) if window else 0
        for head in range(groups * kv_heads):
            at = head // groups
            seen = np.concatenate([keys[row, at, first:last], turned[1][row, at][None]])
            scores = seen @ turned[0][row, head] * scale
            scores = cap * np.tanh(scores / cap) if cap else scores
            weights = np.exp(scores - scores.max())
            results.append(
                weights / weights.sum() @ np.concatenate([values[row, at, first:last], new_values[row, at][None]])
            )
    return np.reshape(results, (rows, -1))


@computed(domain=compared(_cases, _reference, gradient=False), dtypes="floating")
def cached_attention(
    x: Tensor,
    keys: Tensor,
    values: Tensor,
    used: Tensor,
    turns: Tensor,
    *others: Tensor,
    scale: float,
    window: int = 0,
    cap: float = 0.0,
    eps: float = 1e-6,
) -> Tensor:
    """Returns the attention (rows, heads * size) of one new token of each row, without a gradient.

    x (rows, (heads + 2 kv heads) * size) has its queries, keys and values. ``keys`` and ``values`` (rows, kv heads,
    places, size) are the cache: the new ones are written at the places ``used`` (rows,), int32, and older places are
    seen, of the last ``window`` places if given. Queries and keys are turned in pairs (i, i + dim / 2) by ``turns``
    (places, dim), the cosines of each place and then its sines. Scores are multiplied by ``scale``, and with a ``cap``
    they are cap * tanh(score / cap).

    ``others`` begins with the scales of keys and of values if these are int8, a cache in Q8_0: float16 (rows, kv heads,
    places, size / 32), the factors of 32 neighbours. Then come the weights of rms_norm (size,) for queries and for
    keys, or none.
    """
    engine = engine_of("cached_attention", x, keys, values, used, turns, *others)
    tables, norms = [keys, values], list(others)
    if keys.dtype == "int8":
        tables, norms = [*tables, *others[:2]], list(others[2:])
    turns = as_dtype(turns, "float32")
    rows, kv_heads, places, size = keys.shape if keys.ndim == 4 else (0, 0, 0, 0)
    heads = x.shape[1] // size - 2 * kv_heads if size and x.ndim == 2 else 0
    fits = heads > 0 and x.shape == (rows, (heads + 2 * kv_heads) * size) and values.shape == keys.shape
    if not fits or heads % kv_heads or used.shape != (rows,) or size % 8 or not places:
        raise ShapeError(
            f"cached_attention: expected x (rows, (heads + 2 kv heads) * size), keys and values (rows, kv heads, "
            f"places, size), used (rows,) and sizes of whole eights, "
            f"got {x.shape}, {keys.shape}, {values.shape} and {used.shape}"
        )
    turned = turns.ndim == 2 and turns.shape[0] >= places and turns.shape[1] <= size and not turns.shape[1] % 2
    if not turned or len(norms) not in (0, 2) or any(norm.shape != (size,) for norm in norms):
        raise ShapeError(
            f"cached_attention: expected turns of at least {places} places and at most {size} numbers, and two norms "
            f"of {size} numbers or none, got {turns.shape} and {[norm.shape for norm in norms]}"
        )
    dtypes = {norm.dtype for norm in norms} | {x.dtype}
    if keys.dtype == "int8":
        expected = (rows, kv_heads, places, size // 32)
        kinds = [(scales.dtype, scales.shape) for scales in tables[2:]]
        if size % 32 or kinds != [("float16", expected)] * 2:
            raise ShapeError(
                f"cached_attention: expected two scales {expected} in float16 for a cache in int8, and sizes of whole "
                f"32, got {kinds} and size {size}"
            )
    known = keys.dtype == values.dtype and keys.dtype in ("float16", "bfloat16", "float32", "int8")
    if not known or len(dtypes) > 1 or x.dtype == "float64" or used.dtype != "int32":
        raise DTypeError(
            f"cached_attention: expected x and norms of one dtype of at most 32 bits, keys and values of one, and used "
            f"in int32, got {x.dtype}, {keys.dtype}, {values.dtype} and {used.dtype}"
        )
    result = engine.cached_attention(x, tables, used, turns, norms, scale=scale, window=window, cap=cap, eps=eps)
    for table in tables:
        table._storage.written()
    flush(tuple(tables))
    return result
