"""Gradient clipping by norm and by value, in place; without a host read except in ``clip_grad_norm``.

Clipping by norm takes three launches for any number of gradients of one dtype: a reduction over all gradients, a small
kernel and a pass that scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netcl.autograd.prediction import changes_gradients
from netcl.core import Tensor
from netcl.core.errors import BackendMismatchError, NonFiniteError, from_here
from netcl.core.expr import Expr, Load, Scalar, apply, cast, reduce
from netcl.core.ops_table.dispatch import evaluate, evaluate_each, reduce_each


def clip_grad_norm(
    params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> float:
    """Scales the gradients so that their norm, taken as one vector, is at most ``max_norm``; returns the norm before
    clipping.

    Gradients are multiplied by min(1, max_norm / (norm + 1e-6)). Reads the norm on the host; ``clip_grad_norm_device``
    does not. Raises NonFiniteError, with the gradients unchanged, if ``error_if_nonfinite`` is set and the norm is NaN
    or infinite.
    """
    if not error_if_nonfinite:
        parameters = [params] if isinstance(params, Tensor) else list(params)
        return float(_clipped(parameters, max_norm, norm_type).item()) if parameters else 0.0
    grads = _grads(params)
    if not grads:
        return 0.0
    norm, factor = norm_and_factor(grads, max_norm, norm_type)
    value = float(norm.item())
    if error_if_nonfinite and not value - value == 0.0:
        raise NonFiniteError(f"the norm of the gradients is {value}", op="clip_grad_norm")
    scale(grads, factor)
    return value


def clip_grad_norm_device(params: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Clips as ``clip_grad_norm`` without a host read; returns the norm before as a 0-d tensor. Takes one device."""
    return _clipped([params] if isinstance(params, Tensor) else list(params), max_norm, norm_type)


@changes_gradients
def _clipped(parameters: list[Tensor], max_norm: float, norm_type: float) -> Tensor:
    norm, factor = clipping(parameters, max_norm, norm_type)
    if factor is not None:
        scale(_grads(parameters), factor)
    return norm


def clipping(params: Sequence[Tensor], max_norm: float, norm_type: float = 2.0) -> tuple[Tensor, Tensor | None]:
    """Returns the norm of the gradients before clipping and the factor that clips them, None without gradients."""
    grads = _grads(params)
    if not grads:
        return Tensor.zeros((), queue=params[0].queue if params else None), None
    return norm_and_factor(grads, max_norm, norm_type)


def clip_grad_value(params: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value]; NaN stays."""
    _limited([params] if isinstance(params, Tensor) else list(params), clip_value)


@changes_gradients
def _limited(parameters: list[Tensor], clip_value: float) -> None:
    for dtype, sets in _by_dtype(_distinct(_grads(parameters))).items():
        limit = Scalar("limit", compute_dtype(dtype))
        clipped = apply("minimum", apply("maximum", cast(Load(0, dtype), limit.dtype), -limit), limit)
        evaluate_each((cast(clipped, dtype),), sets, (), {"limit": float(clip_value)}, out=sets)


def norm_and_factor(grads: Sequence[Tensor], max_norm: float, norm_type: float = 2.0) -> tuple[Tensor, Tensor]:
    """Returns the norm of gradients as one vector, and min(1, max_norm / (norm + 1e-6)): 0-d, float32 or float64."""
    if norm_type <= 0:
        raise ValueError(f"norm_type: expected a positive number or inf, got {norm_type}")
    kind = "max" if norm_type == float("inf") else "sum"
    parts = [reduce_each(kind, _term(dtype, norm_type), sets) for dtype, sets in _by_dtype(grads).items()]
    dtype = "float64" if any(part.dtype == "float64" for part in parts) else "float32"
    if len(parts) > 1:  # of different lengths, so one call for each
        parts = [evaluate((reduce(kind, Load(0, p.dtype), 0),), (p,), shapes=[(1,)])[0] for p in parts]
    total: Expr = cast(reduce(kind, Load(0, parts[0].dtype), 0), dtype)
    for at, part in enumerate(parts[1:], 1):
        other = cast(Load(at, part.dtype), dtype)
        total = total + other if kind == "sum" else apply("maximum", total, other)
    if kind == "sum" and norm_type != 1:
        total = apply("sqrt", total) if norm_type == 2 else apply("pow", total, 1.0 / norm_type)
    factor = apply("minimum", Scalar("max_norm", dtype) / (total + 1e-6), 1.0)
    out = [Tensor.empty((), dtype, queue=parts[0].queue) for _ in range(2)]
    evaluate((total, factor), parts, {"max_norm": float(max_norm)}, shapes=[(1,), (1,)], out=out)
    return out[0], out[1]


def compute_dtype(dtype: str) -> str:
    """Returns the dtype for sums of gradients of ``dtype``."""
    return "float64" if dtype == "float64" else "float32"


def _grads(params: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [params] if isinstance(params, Tensor) else params
    grads = [p.grad for p in parameters if p.grad is not None]
    for grad in grads[1:]:
        if grad.queue is not grads[0].queue:
            raise BackendMismatchError(
                "clipping needs gradients on one device; clip the parameters of each device by themselves"
            )
    return grads


def _distinct(grads: Sequence[Tensor]) -> list[Tensor]:
    """Returns the gradients without duplicates: a gradient that two parameters share is written once."""
    return list({grad.storage_id: grad for grad in grads}.values())


def _by_dtype(grads: Sequence[Tensor]) -> dict[str, list[list[Tensor]]]:
    """Returns the gradients as sets of one tensor, by dtype."""
    groups: dict[str, list[list[Tensor]]] = {}
    for grad in grads:
        groups.setdefault(grad.dtype, []).append([grad])
    return groups


def _term(dtype: str, norm_type: float) -> Expr:
    """Returns |g|^norm_type, or |g| for the maximum norm."""
    g: Expr = cast(Load(0, dtype), compute_dtype(dtype))
    if norm_type == 2:
        return g * g
    size = apply("abs", g)
    return size if norm_type in (1, float("inf")) else apply("pow", size, float(norm_type))


def scale(grads: Sequence[Tensor], factor: Tensor) -> None:
    """Multiplies the gradients in place by a 0-d factor; one that two parameters share once."""
    for dtype, sets in _by_dtype(_distinct(grads)).items():
        scaled = cast(Load(0, dtype), factor.dtype) * Load(1, factor.dtype)
        evaluate_each((cast(scaled, dtype),), sets, (factor,), out=sets)


from_here(globals())
