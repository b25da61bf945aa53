"""Gradient clipping, by norm and by value, in place and without a host read where none is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netcl.core import Tensor
from netcl.core.dispatch import evaluate
from netcl.core.errors import BackendMismatchError, NonFiniteError
from netcl.core.expr import Expr, Load, Scalar, apply, cast, reduce
from netcl.optim.fused import compute_dtype

_AT_ONCE = 16


def clip_grad_norm(
    params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> float:
    """Scales the gradients so that their norm, taken as one vector, is at most ``max_norm``; gives the norm before.

    Gradients are multiplied by min(1, max_norm / (norm + 1e-6)). Reads the norm on the host;
    ``clip_grad_norm_device`` does not. NonFiniteError, with the gradients as they were, where ``error_if_nonfinite``
    and the norm is NaN or infinite.
    """
    grads = _grads(params)
    norm = grad_norm(grads, norm_type)
    if norm is None:
        return 0.0
    value = float(norm.item())
    if error_if_nonfinite and not value - value == 0.0:
        raise NonFiniteError(f"the norm of the gradients is {value}", op="clip_grad_norm")
    _scale(grads, norm, max_norm)
    return value


def clip_grad_norm_device(params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """``clip_grad_norm`` without a host read: the norm before clipping as a 0-d tensor. All gradients lie on one
    device.
    """
    given = [params] if isinstance(params, Tensor) else list(params)
    grads = _grads(given)
    norm = grad_norm(grads, norm_type)
    if norm is None:
        return Tensor.zeros((), queue=given[0].queue if given else None)
    _scale(grads, norm, max_norm)
    return norm


def clip_grad_value(params: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value]; NaN stays."""
    for grad in _grads(params):
        dtype = compute_dtype(grad.dtype)
        g, limit = cast(Load(0, grad.dtype), dtype), Scalar("limit", dtype)
        clipped = apply("minimum", apply("maximum", g, -limit), limit)
        evaluate((cast(clipped, grad.dtype),), (grad,), {"limit": float(clip_value)}, out=(grad,))


def grad_norm(grads: Sequence[Tensor], norm_type: float = 2.0) -> Tensor | None:
    """The norm of all gradients as one vector: a 0-d tensor in float32 (float64 for float64); None for no gradients."""
    if not grads:
        return None
    if norm_type <= 0:
        raise ValueError(f"norm_type is a positive number or inf, not {norm_type}")
    kind = "max" if norm_type == float("inf") else "sum"
    partial = [_reduced(grad, kind, norm_type) for grad in grads]
    while len(partial) > 1:
        partial = [_combined(partial[at : at + _AT_ONCE], kind) for at in range(0, len(partial), _AT_ONCE)]
    total = Load(0, partial[0].dtype)
    if kind == "max":
        return partial[0]
    root = apply("sqrt", total) if norm_type == 2 else apply("pow", total, 1.0 / norm_type)
    norm: Tensor = evaluate((root,), partial)[0]
    return norm


def _grads(params: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [params] if isinstance(params, Tensor) else params
    grads = [p.grad for p in given if p.grad is not None]
    for grad in grads[1:]:
        if grad.queue is not grads[0].queue:
            raise BackendMismatchError(
                "clipping needs gradients on one device; clip the parameters of each device by themselves"
            )
    return grads


def _reduced(grad: Tensor, kind: str, norm_type: float) -> Tensor:
    """The sum of |g|^norm_type, or the largest |g|, as a 0-d tensor."""
    flat = grad.detach().reshape(-1)
    g: Expr = cast(Load(0, flat.dtype), compute_dtype(flat.dtype))
    size = apply("abs", g)
    term = (
        size if kind == "max" or norm_type == 1 else g * g if norm_type == 2 else apply("pow", size, float(norm_type))
    )
    if flat.size == 0:
        return Tensor.zeros((), compute_dtype(flat.dtype), queue=flat.queue)
    partial: Tensor = evaluate((reduce(kind, term, 0),), (flat,), shapes=[(1,)])[0]
    return partial.reshape(())


def _combined(parts: Sequence[Tensor], kind: str) -> Tensor:
    total: Expr = Load(0, parts[0].dtype)
    for at, part in enumerate(parts[1:], 1):
        other = Load(at, part.dtype)
        total = total + other if kind == "sum" else apply("maximum", total, other)
    combined: Tensor = evaluate((total,), parts)[0]
    return combined


def _scale(grads: Sequence[Tensor], norm: Tensor, max_norm: float) -> None:
    share = apply("minimum", Scalar("max_norm", norm.dtype) / (Load(0, norm.dtype) + 1e-6), 1.0)
    factor = evaluate((share,), (norm,), {"max_norm": float(max_norm)})[0]
    for grad in grads:
        scaled = cast(Load(0, grad.dtype), factor.dtype) * Load(1, factor.dtype)
        evaluate((cast(scaled, grad.dtype),), (grad, factor), out=(grad,))
