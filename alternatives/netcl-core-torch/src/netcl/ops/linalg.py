"""Products, factorizations, and functions of vectors and matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from netcl.core.errors import DTypeError, SingularMatrixError
from netcl.ops.kernels import HALF, WIDER, T, as_float, axes_of, axis_of, exactly, rows, unified


def _matmul(a: T, b: T, tile: int = 16, *, transpose_a: bool = False, transpose_b: bool = False) -> T:
    if a.dtype != b.dtype:
        a, b = _alike("matmul", a, b)
    a = a.transpose(-1, -2) if transpose_a and a.dim() > 1 else a
    b = b.transpose(-1, -2) if transpose_b and b.dim() > 1 else b
    exactly("matmul", a.dim() > 0 and b.dim() > 0, f"shapes {tuple(a.shape)} and {tuple(b.shape)}: no vector or matrix")
    made = a.dtype
    if made == torch.bool or made in WIDER:
        a, b = a.to(torch.int64), b.to(torch.int64)
    elif not a.is_floating_point() and a.device.type != "cpu":
        a, b = a.to(torch.float64), b.to(torch.float64)
    return torch.matmul(a, b).to(made)


def _linear(x: T, weight: T, bias: T | None = None) -> T:
    return F.linear(*_alike("linear", x, weight, bias))


def _alike(name: str, *tensors: Any) -> list[Any]:
    """Tensors of the widest dtype among them; None stays."""
    dtype = tensors[0].dtype
    for one in tensors[1:]:
        dtype = dtype if one is None else torch.promote_types(dtype, one.dtype)
    return [one if one is None else one.to(dtype) for one in tensors]


def _einsum(equation: str, *operands: T) -> T:
    given = _alike("einsum", *operands)
    made = given[0].dtype
    if made == torch.bool:
        given = [one.to(torch.int64) for one in given]
    return torch.einsum(equation.replace(" ", ""), *given).to(made).clone()


def _square(x: T, name: str) -> T:
    exactly(name, x.dim() >= 2 and x.shape[-1] == x.shape[-2], f"shape {tuple(x.shape)} is no square matrix")
    if not x.is_floating_point():
        raise DTypeError(f"{name} takes floating tensors")
    return x.float() if x.dtype in HALF else x


def _inverse(x: T) -> T:
    value = _square(x, "inverse")
    found, info = torch.linalg.inv_ex(value)
    if bool((info != 0).any()):
        raise SingularMatrixError("inverse: a matrix is singular")
    return found.to(x.dtype)


def _det(x: T) -> T:
    return torch.linalg.det(_square(x, "det")).to(x.dtype)


def _pinverse(x: T, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> T:
    value = x.float() if x.dtype in HALF else x
    return torch.linalg.pinv(value, atol=atol, rtol=rtol, hermitian=hermitian).to(x.dtype)


def _power(x: T, n: int) -> T:
    value = _square(as_float(x), "matrix_power")
    if n < 0:
        value, n = _inverse(value), -n
    return torch.linalg.matrix_power(value, n).to(as_float(x).dtype)


def _gradient(x: T, *, spacing: Any = 1, axis: Any = None, edge_order: int = 1) -> Any:
    x, axes = as_float(x), axes_of(x, axis, "gradient") if not isinstance(axis, (list, tuple)) else tuple(axis)
    for one in axes:
        exactly("gradient", x.shape[one] > edge_order, f"an axis of {x.shape[one]} for edge_order {edge_order}")
    if isinstance(spacing, (list, tuple)):
        spacing = [
            one if isinstance(one, (int, float)) else torch.as_tensor(one, dtype=x.dtype, device=x.device)
            for one in spacing
        ]
        if all(isinstance(one, T) and one.dim() == 0 for one in spacing):
            spacing = [float(one) for one in spacing]
    elif isinstance(spacing, T) or not isinstance(spacing, (int, float)):
        spacing = [torch.as_tensor(spacing, dtype=x.dtype, device=x.device)]
    return torch.gradient(x, spacing=spacing, dim=list(axes), edge_order=edge_order)


def _normalize(x: T, axis: Any = -1, eps: float = 1e-12) -> T:
    x = as_float(x)
    length = torch.linalg.vector_norm(x, 2, axes_of(x, axis, "l2_normalize"), keepdim=True)
    return x / length.clamp(min=eps)


def _cosine(a: T, b: T, axis: int = 1, eps: float = 1e-8) -> T:
    a, b = unified("cosine_similarity", a, b, floating=True)
    a, b = torch.broadcast_tensors(a, b)
    axis = axis_of(a, axis, "cosine_similarity")
    lengths = [torch.linalg.vector_norm(one, 2, axis, keepdim=True) for one in (a, b)]
    clamped = [one + (one.clamp(min=eps) - one).detach() for one in lengths]
    return (a / clamped[0] * (b / clamped[1])).sum(axis)


def _logdet(x: T) -> T:
    sign, value = torch.linalg.slogdet(_square(x, "logdet"))
    return torch.where(sign < 0, torch.nan, value)


rows("half", {
    "matmul(a: Tensor, b: Tensor, tile=16, *, transpose_a=False, transpose_b=False)": _matmul,
    "linear(x: Tensor, weight: Tensor, bias: Tensor | None = None)": _linear,
    "einsum(equation, *operands: Tensor)": _einsum,
})  # fmt: skip
rows("float32", {
    "det(x: Tensor)": _det, "slogdet(x: Tensor)": lambda x: tuple(torch.linalg.slogdet(_square(x, "slogdet"))),
    "inverse(x: Tensor)": _inverse, "pinverse(x: Tensor, *, atol=None, rtol=None, hermitian=False)": _pinverse,
}, dtypes="floating")  # fmt: skip
rows("float32", {
    "logdet(x: Tensor)": _logdet,
    "matrix_power(x: Tensor, n)": _power, "gradient(x: Tensor, *, spacing=1, axis=None, edge_order=1)": _gradient,
    "l2_normalize(x: Tensor, axis=-1, eps=1e-12)": _normalize,
    "cosine_similarity(a: Tensor, b: Tensor, axis=1, eps=1e-08)": _cosine
})  # fmt: skip
