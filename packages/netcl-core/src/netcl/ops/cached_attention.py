"""Attention of one new token of each row to keys and values in a cache, which get those of the token."""

from __future__ import annotations

from netcl.core.errors import DTypeError, ShapeError
from netcl.core.ops_table.dispatch import Domain
from netcl.core.storage.views import flush
from netcl.core.tensor import Tensor
from netcl.ops.table import computed, engine_of


@computed(domain=Domain(gradient=False), dtypes="floating")
def cached_attention(
    x: Tensor,
    keys: Tensor,
    values: Tensor,
    used: Tensor,
    turns: Tensor,
    *norms: Tensor,
    scale: float,
    window: int = 0,
    cap: float = 0.0,
    eps: float = 1e-6,
) -> Tensor:
    """Returns the attention (rows, heads * size) of one new token of each row, without a gradient.

    x (rows, (heads + 2 kv heads) * size) has its queries, keys and values. ``keys`` and ``values`` (rows, kv heads,
    places, size) are the cache: the new ones are written at the places ``used`` (rows,), int32, and older places are
    seen, of the last ``window`` places if given. Queries and keys are turned in pairs (i, i + dim / 2) by ``turns``
    (places, dim), float32, the cosines of each place and then its sines; before that ``norms``, none or those of
    queries and of keys (size,), normalize them as rms_norm. Scores are multiplied by ``scale``, and with a ``cap``
    they are cap * tanh(score / cap).
    """
    engine = engine_of("cached_attention", x, keys, values, used, turns, *norms)
    rows, kv_heads, places, size = keys.shape if keys.ndim == 4 else (0, 0, 0, 0)
    heads = x.shape[1] // size - 2 * kv_heads if size and x.ndim == 2 else 0
    fits = heads > 0 and x.shape == (rows, (heads + 2 * kv_heads) * size) and values.shape == keys.shape
    if not fits or heads % kv_heads or used.shape != (rows,) or size % 8 or not places:
        raise ShapeError(
            f"cached_attention: expected x (rows, (heads + 2 kv heads) * size), keys and values (rows, kv heads, "
            f"places, size), used (rows,) and sizes of whole eights, "
            f"got {x.shape}, {keys.shape}, {values.shape} and {used.shape}",
            op="cached_attention",
        )
    turned = turns.ndim == 2 and turns.shape[0] >= places and turns.shape[1] <= size and not turns.shape[1] % 2
    if not turned or len(norms) not in (0, 2) or any(norm.shape != (size,) for norm in norms):
        raise ShapeError(
            f"cached_attention: expected turns of at least {places} places and at most {size} numbers, and two norms "
            f"of {size} numbers or none, got {turns.shape} and {[norm.shape for norm in norms]}",
            op="cached_attention",
        )
    dtypes = {norm.dtype for norm in norms} | {x.dtype}
    known = keys.dtype == values.dtype and keys.dtype in ("float16", "bfloat16", "float32")
    if not known or len(dtypes) > 1 or x.dtype == "float64" or (used.dtype, turns.dtype) != ("int32", "float32"):
        raise DTypeError(
            f"cached_attention: expected x and norms of one dtype of at most 32 bits, keys and values of one, used in "
            f"int32 and turns in float32, got {x.dtype}, {keys.dtype}, {values.dtype}, {used.dtype} and {turns.dtype}",
            op="cached_attention",
        )
    result = engine.cached_attention(x, keys, values, used, turns, norms, scale=scale, window=window, cap=cap, eps=eps)
    for table in (keys, values):
        table._storage.written()
    flush((keys, values))
    return result
