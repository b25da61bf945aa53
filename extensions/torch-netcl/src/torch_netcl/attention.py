"""Batch norms, which write running statistics, and scaled dot-product attention; they take PyTorch's tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from netcl import ops
from netcl.core import dispatch
from torch_netcl import fallback, memory, rows
from torch_netcl.memory import ENGINE, NoKernel, give, put, take

TABLE: dict[str, Callable[..., Any]] = {}
_MATH, _OVERRIDEABLE = 0, 4  # numbers of sdp::SDPBackend


def _optional(x: torch.Tensor | None) -> Any:
    return None if x is None else take(x)


def _batch_norm(op, x, weight, bias, mean, var, training, momentum, eps):
    try:
        if momentum is None:
            raise NoKernel("momentum")
        tensors = [_optional(value) for value in (x, weight, bias, mean, var)]
        y, saved_mean, saved_rstd, new_mean, new_var = rows.batch_norm(*tensors, training, momentum, eps)
    except (NoKernel, ValueError, TypeError):
        return None
    if training and mean is not None:
        put(mean, new_mean)
        put(var, new_var)
    return give(y), give(saved_mean), give(saved_rstd)


def native_batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    """Returns (y, mean, reciprocal deviation) and moves the running statistics."""
    op = torch.ops.aten.native_batch_norm.default
    made = _batch_norm(op, x, weight, bias, mean, var, training, momentum, eps)
    return fallback.call(op, x, weight, bias, mean, var, training, momentum, eps) if made is None else made


def legit_no_stats(x, weight, bias, training, momentum, eps):
    """Returns the same without running statistics."""
    return native_batch_norm(x, weight, bias, None, None, training, momentum, eps)


TABLE |= {
    "native_batch_norm": native_batch_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "_native_batch_norm_legit.no_stats": legit_no_stats,
}


# -- scaled dot-product attention --------------------------------------------------------------------------------------


def _plain(q: Any, k: Any, v: Any, mask: Any, dropout_p: float) -> bool:
    alike = q.dtype == k.dtype == v.dtype and q.dtype in (torch.float32, torch.float16, torch.bfloat16)
    shapes = q.dim() == k.dim() == v.dim() == 4 and k.shape[:3] == v.shape[:3] and q.shape[:2] == k.shape[:2]
    masked = mask is None or (not mask.requires_grad and mask.shape[-1] == k.shape[-2])
    return bool(alike and shapes and masked and not dropout_p and q.numel() and k.numel() and v.numel())


def choice(q, k, v, mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Returns the number of PyTorch's way: netcl's kernel for plain shapes, else a product and a softmax."""
    if not _plain(q, k, v, mask, dropout_p) or enable_gqa or (is_causal and mask is not None):
        return _MATH
    return _OVERRIDEABLE


def _scale(q: Any, scale: float | None) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)


def forward(q, k, v, mask=None, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    """Returns the attention and the logarithms of what its weights were divided by."""
    values = [take(x) for x in (q, k, v)]
    out, lse = dispatch.call("tiled_attention", *values, _optional(mask), is_causal, _scale(q, scale))
    none = [memory.new((0,), torch.int64) for _ in range(4)]
    sizes = q.shape[-2], k.shape[-2]
    return (give(out), give(lse), none[0], none[1], *sizes, none[2], none[3], memory.new((0,), q.dtype))


def backward(
    grad, q, k, v, mask, wanted, out, lse, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None
):
    """Returns the gradients by q, k and v; a mask has none here."""
    tensors = [take(x) for x in (grad, q, k, v)]
    grads = dispatch.call(
        "tiled_attention_gradients", *tensors, _optional(mask), take(out), take(lse), is_causal, _scale(q, scale)
    )
    return (*[give(one) for one in grads], None)


TABLE |= {
    "_fused_sdp_choice": choice,
    "_scaled_dot_product_fused_attention_overrideable": forward,
    "_scaled_dot_product_fused_attention_overrideable_backward": backward,
}
__all__ = ["ENGINE", "TABLE", "ops"]
