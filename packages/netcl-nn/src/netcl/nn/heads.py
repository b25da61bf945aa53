"""Masks and products of multi-head attention, shared by the layer and the function."""

from __future__ import annotations

import math

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, need_weights: bool, dropout: float
) -> tuple[Tensor, Tensor | None]:
    """Returns the results of the heads (N, heads, L, D) and, if requested, the attention weights after dropout.

    ``mask`` broadcasts to (N, heads, L, S): True hides a key, numbers are added to the scores. ``causal``
    is for results without a mask and without weights.
    """
    seen = ag.logical_not(mask) if mask is not None and mask.dtype == "bool" else mask
    if not need_weights:
        return ag.scaled_dot_product_attention(q, k, v, seen, dropout_p=dropout, is_causal=causal), None
    scores = ag.matmul(ag.mul(q, 1 / math.sqrt(q.shape[-1])), k, transpose_b=True)
    weights = ag.attention_weights(scores, seen)
    weights = ag.dropout(weights, dropout) if dropout else weights
    return ag.matmul(weights, v), weights


def check_hint(is_causal: bool, attn_mask: Tensor | None, op: str) -> None:
    """Raises RuntimeError for ``is_causal``, a hint on the mask, without a mask."""
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{op}: is_causal says that attn_mask is causal and needs it; write "
            "attn_mask=nn.Transformer.generate_square_subsequent_mask(length), is_causal=True"
        )


def hidden(attention: Tensor | None, padding: Tensor | None, sizes: tuple[int, ...], op: str) -> Tensor | None:
    """Combines both masks into one that broadcasts to ``sizes`` (N, heads, L, S); True hides a key.

    ``attention`` is (L, S) or (N * heads, L, S); ``padding`` is (N, S), or (S,) if N is 1.
    """
    n, heads, length, keys = sizes
    if attention is not None:
        if attention.shape not in ((length, keys), (n * heads, length, keys)):
            raise ShapeError(
                f"attn_mask has shape {attention.shape}, expected {(length, keys)} or {(n * heads, length, keys)}",
                op=op,
            )
        if attention.ndim == 3:
            attention = ag.reshape(attention, (n, heads, length, keys))
    if padding is not None:
        if padding.shape != (n, keys) and (n > 1 or padding.shape != (keys,)):
            raise ShapeError(f"key_padding_mask has shape {padding.shape}, expected {(n, keys)}", op=op)
        padding = ag.reshape(padding, (n, 1, 1, keys))
    if attention is None or padding is None:
        return padding if attention is None else attention
    return combined(attention, padding)


def combined(first: Tensor, second: Tensor) -> Tensor:
    """Returns a mask that hides a key if either mask does."""
    if first.dtype == second.dtype == "bool":
        return ag.logical_or(first, second)
    first, second = (ag.where(mask, float("-inf"), 0.0) if mask.dtype == "bool" else mask for mask in (first, second))
    return ag.add(first, second)


def with_visible_key(mask: Tensor | None) -> Tensor | None:
    """Returns the mask (..., S) with one key more at the end, which it does not hide; None for None."""
    if mask is None:
        return None
    last = Tensor.zeros((*mask.shape[:-1], 1), mask.dtype, queue=mask.queue)
    return ag.cat((mask, last), mask.ndim - 1)
