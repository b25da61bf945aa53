"""Products, factorizations, and functions of vectors and matrices."""

from __future__ import annotations

import warnings
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


def _product(name: str, ranks: tuple[int, ...]) -> Any:
    def compute(a: T, b: T) -> T:
        exactly(name, (a.dim(), b.dim()) == ranks, f"shapes {tuple(a.shape)} and {tuple(b.shape)}; ranks are {ranks}")
        exactly(name, a.shape[-1] == b.shape[-2 if b.dim() > 1 else 0] and (a.dim() < 3 or a.shape[0] == b.shape[0]),
                f"shapes {tuple(a.shape)} and {tuple(b.shape)} do not fit")  # fmt: skip
        return _matmul(a, b)

    return compute


def _dot(a: T, b: T) -> T:
    if a.dim() == b.dim() == 1:
        exactly("dot", a.shape == b.shape, f"shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return _matmul(a, b)


def _outer(a: T, b: T) -> T:
    exactly("outer", a.dim() == b.dim() == 1, f"shapes {tuple(a.shape)} and {tuple(b.shape)} are no vectors")
    return torch.outer(*_alike("outer", a, b))


def _addmm(name: str, rank: int) -> Any:
    product = _product(name, (rank, rank))

    def compute(x: T, a: T, b: T, beta: float = 1.0, alpha: float = 1.0) -> T:
        value = product(a, b) * alpha
        exactly(name, torch.broadcast_shapes(x.shape, value.shape) == value.shape, f"x is {tuple(x.shape)}")
        return value + (beta * x if beta else 0)  # type: ignore[no-any-return]

    return compute


def _tensordot(a: T, b: T, axes: Any = 2) -> T:
    a, b = _alike("tensordot", a, b)
    if isinstance(axes, int):
        exactly(
            "tensordot", 0 <= axes <= min(a.dim(), b.dim()), f"{axes} axes of {tuple(a.shape)} and {tuple(b.shape)}"
        )
        return torch.tensordot(a, b, axes)
    return torch.tensordot(a, b, [[one] if isinstance(one, int) else list(one) for one in axes])


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
    value = _square(x, "det")
    if torch.is_grad_enabled() and x.requires_grad and value.shape[-1]:
        # By cofactors of each element, so that the gradient of a singular matrix is exact.
        return _laplace(value).to(x.dtype) if value.shape[-1] <= 4 else torch.linalg.det(value).to(x.dtype)
    return torch.linalg.det(value).to(x.dtype)


def _laplace(x: T) -> T:
    if x.shape[-1] == 1:
        return x[..., 0, 0]
    total: Any = 0
    for column in range(x.shape[-1]):
        minor = torch.cat((x[..., 1:, :column], x[..., 1:, column + 1 :]), -1)
        total = total + (-1) ** column * x[..., 0, column] * _laplace(minor)
    return total  # type: ignore[no-any-return]


def _pinverse(x: T, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> T:
    value = x.float() if x.dtype in HALF else x
    return torch.linalg.pinv(value, atol=atol, rtol=rtol, hermitian=hermitian).to(x.dtype)


def _power(x: T, n: int) -> T:
    value = _square(as_float(x), "matrix_power")
    if n < 0:
        value, n = _inverse(value), -n
    return torch.linalg.matrix_power(value, n).to(as_float(x).dtype)


def _trapezoid(function: Any) -> Any:
    def compute(y: T, x: T | None = None, *, dx: float = 1, axis: int = -1) -> T:
        y = as_float(y)
        axis = axis_of(y, axis, "trapezoid")
        return function(y, dx=dx, dim=axis) if x is None else function(y, x.to(y.dtype), dim=axis)  # type: ignore[no-any-return]

    return compute


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


def _cov(x: T, *, correction: int = 1, fweights: T | None = None, aweights: T | None = None) -> T:
    return torch.cov(as_float(x), correction=correction, fweights=fweights, aweights=aweights)


def _fused(name: str, quotient: bool) -> Any:
    def compute(x: T, a: T, b: T, *, value: float = 1) -> T:
        x, a, b = unified(name, x, a, b)
        if not x.is_floating_point() and (quotient or (isinstance(value, float) and value != int(value))):
            raise DTypeError(f"{name}: {'quotients' if quotient else f'value {value}'} of integers; convert to float32")
        return x + value * (a / b if quotient else a * b)

    return compute


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


def _cdist(a: T, b: T, p: float = 2.0) -> T:
    a, b = unified("cdist", a.unsqueeze(-2), b.unsqueeze(-3), floating=True)
    exactly("cdist", a.shape[-1] == b.shape[-1], f"rows of {a.shape[-1]} and {b.shape[-1]}")
    return torch.linalg.vector_norm(a - b, p, -1)


def _pdist(x: T, p: float = 2.0) -> T:
    exactly("pdist", x.dim() == 2, f"shape {tuple(x.shape)} is no matrix")
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return torch.linalg.vector_norm(as_float(x)[i] - as_float(x)[j], p, -1)


def _pairwise(a: T, b: T, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> T:
    a, b = unified("pairwise_distance", a, b, floating=True)
    return torch.linalg.vector_norm(a - b + eps, p, -1, keepdim=keepdims)


def _renorm(x: T, p: float, axis: int, maxnorm: float) -> T:
    axis = axis_of(x, axis, "renorm")
    others = [one for one in range(x.dim()) if one != axis]
    length = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return torch.where(length > maxnorm, x * (maxnorm / (length + 1e-7)), x)


def _vander(x: T, N: int | None = None, increasing: bool = False) -> T:
    x = as_float(x)
    powers = torch.arange(len(x) if N is None else N, device=x.device)
    return x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))


def _bias_add(x: T, bias: T, axis: int | None = None) -> T:
    axis = (1 if x.dim() in (4, 5) else -1) if axis is None else axis
    axis = axis_of(x, axis, "bias_add")
    exactly(
        "bias_add", bias.dim() == 1 and len(bias) == x.shape[axis], f"bias {tuple(bias.shape)} for {tuple(x.shape)}"
    )
    return x + bias.reshape([-1 if one == axis else 1 for one in range(x.dim())])


def _bilinear(input1: T, input2: T, weight: T, bias: T | None = None) -> T:
    value = torch.einsum("...i,kij,...j->...k", input1, weight, input2)
    return value if bias is None else value + bias


def _logdet(x: T) -> T:
    sign, value = torch.linalg.slogdet(_square(x, "logdet"))
    return torch.where(sign < 0, torch.nan, value)


def _corrcoef(x: T) -> T:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.corrcoef(as_float(x))


rows("half", {
    "matmul(a: Tensor, b: Tensor, tile=16, *, transpose_a=False, transpose_b=False)": _matmul,
}, saves={"a": "b", "b": "a"})  # fmt: skip
rows("half", {
    "linear(x: Tensor, weight: Tensor, bias: Tensor | None = None)": _linear,
}, saves={"x": "weight", "weight": "x", "bias": ""})  # fmt: skip
rows("half", {
    "mm(a: Tensor, b: Tensor)": _product("mm", (2, 2)), "bmm(a: Tensor, b: Tensor)": _product("bmm", (3, 3)),
    "mv(a: Tensor, b: Tensor)": _product("mv", (2, 1)), "dot(a: Tensor, b: Tensor)": _dot,
    "outer(a: Tensor, b: Tensor)": _outer, "kron(a: Tensor, b: Tensor)": lambda a, b: torch.kron(*_alike("kron", a, b)),
    "addmm(x: Tensor, a: Tensor, b: Tensor, beta=1.0, alpha=1.0)": _addmm("addmm", 2),
    "baddbmm(x: Tensor, a: Tensor, b: Tensor, beta=1.0, alpha=1.0)": _addmm("baddbmm", 3),
    "tensordot(a: Tensor, b: Tensor, axes=2)": _tensordot, "einsum(equation, *operands: Tensor)": _einsum,
    "bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None)": _bilinear,
})  # fmt: skip
rows("float32", {
    "det(x: Tensor)": _det, "slogdet(x: Tensor)": lambda x: tuple(torch.linalg.slogdet(_square(x, "slogdet"))),
    "inverse(x: Tensor)": _inverse, "pinverse(x: Tensor, *, atol=None, rtol=None, hermitian=False)": _pinverse,
}, dtypes="floating")  # fmt: skip
rows("float32", {
    "logdet(x: Tensor)": _logdet, "matrix_exp(x: Tensor)": lambda x: torch.linalg.matrix_exp(_square(as_float(x), "matrix_exp")),
    "matrix_power(x: Tensor, n)": _power, "corrcoef(x: Tensor)": _corrcoef,
    "cov(x: Tensor, *, correction=1, fweights: Tensor | None = None, aweights: Tensor | None = None)": _cov,
    "trapezoid(y: Tensor, x: Tensor | None = None, *, dx=1, axis=-1)": _trapezoid(torch.trapezoid),
    "cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx=1, axis=-1)": _trapezoid(torch.cumulative_trapezoid),
    "gradient(x: Tensor, *, spacing=1, axis=None, edge_order=1)": _gradient,
    "l2_normalize(x: Tensor, axis=-1, eps=1e-12)": _normalize,
    "cosine_similarity(a: Tensor, b: Tensor, axis=1, eps=1e-08)": _cosine, "cdist(a: Tensor, b: Tensor, p=2.0)": _cdist,
    "pdist(x: Tensor, p=2.0)": _pdist, "renorm(x: Tensor, p, axis, maxnorm)": _renorm,
    "pairwise_distance(a: Tensor, b: Tensor, p=2.0, eps=1e-06, keepdims=False)": _pairwise,
    "vander(x: Tensor, N=None, increasing=False)": _vander,
})  # fmt: skip
rows("widest", {
    "addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value=1)": _fused("addcdiv", True),
    "addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value=1)": _fused("addcmul", False),
    "bias_add(x: Tensor, bias: Tensor, axis=None)": _bias_add,
}, elementwise=True)  # fmt: skip
