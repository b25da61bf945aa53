"""Batch norms, which write running statistics, and attention; they take PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_netcl import fallback, rows
from torch_netcl.memory import NoKernel, give, put, take

TABLE: dict[str, Callable[..., Any]] = {}


def native_batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    """Returns (y, mean, reciprocal deviation) and moves the running statistics."""
    try:
        own = [None if value is None else take(value) for value in (x, weight, bias, mean, var)]
        y, saved_mean, saved_rstd, new_mean, new_var = rows.batch_norm(*own, training, momentum, eps)  # type: ignore[call-arg]
    except (NoKernel, ValueError, TypeError) as error:
        op = torch.ops.aten.native_batch_norm.default
        return fallback.after(error, op, (x, weight, bias, mean, var, training, momentum, eps), {})
    if training and mean is not None:
        put(mean, new_mean)
        put(var, new_var)
    return give(y), give(saved_mean), give(saved_rstd)


_formula = torch.ops.aten.scaled_dot_product_attention.default._op_dk
_COMPOSED = torch._C.DispatchKey.CompositeImplicitAutograd


def attend(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Returns attention by one op, with its gradient, for plain shapes, else by PyTorch's formula."""
    alike = q.dtype == k.dtype == v.dtype and q.dtype in (torch.float32, torch.float16, torch.bfloat16)
    shapes = q.dim() == k.dim() == v.dim() == 4 and k.shape[:3] == v.shape[:3] and q.shape[0] == k.shape[0]
    mask = attn_mask
    masked = mask is None or (not mask.requires_grad and mask.shape[-1] == k.shape[-2] and not is_causal)
    if alike and shapes and masked and q.numel() and k.numel() and v.numel():
        heads, shared = q.shape[1], k.shape[1]
        if dropout_p and heads == shared:
            others = mask, True, dropout_p, is_causal
            return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, *others, scale=scale)[0]
        if not dropout_p and (heads == shared or (enable_gqa and not heads % shared)):
            options = {"attn_mask": mask, "scale": scale}
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal, **options)[0]
    return _formula(_COMPOSED, q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


TABLE |= {"native_batch_norm": native_batch_norm, "_native_batch_norm_legit": native_batch_norm}
FORMULAS = {"scaled_dot_product_attention": attend}  # which autograd sees
