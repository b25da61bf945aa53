"""torch: functions of netcl with PyTorch's parameters, and results with PyTorch's field names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from string import ascii_letters
from typing import Any, NamedTuple

import netcl as nc
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import takes_out, written
from netcl.torch.parts.functional import rms_norm as rms_norm


def _with_out(function: Any) -> Callable[..., Tensor]:
    """A function that makes a tensor, with ``out=``: the tensor that the values are written into."""

    @wraps(function)
    def call(*args: Any, out: Tensor | None = None, **options: Any) -> Tensor:
        if type(options.get("dtype")) is str:
            dtype = options["dtype"]
            raise TypeError(f"{function.__name__}: expected a torch.dtype, got {dtype!r}; write torch.{dtype}")
        if out is None:
            return function(*args, **options)  # type: ignore[no-any-return]
        made = function(*args, **{"dtype": out.dtype, "device": out.device, **options})
        return written(function.__name__, out, made)  # type: ignore[no-any-return]

    return call


arange: Callable[..., Tensor] = _with_out(nc.arange)
empty: Callable[..., Tensor] = _with_out(nc.empty)
eye: Callable[..., Tensor] = _with_out(nc.eye)
full: Callable[..., Tensor] = _with_out(nc.full)
linspace: Callable[..., Tensor] = _with_out(nc.linspace)
logspace: Callable[..., Tensor] = _with_out(nc.logspace)
normal: Callable[..., Tensor] = _with_out(nc.normal)
ones: Callable[..., Tensor] = _with_out(nc.ones)
rand: Callable[..., Tensor] = _with_out(nc.rand)
randint: Callable[..., Tensor] = _with_out(nc.randint)
randn: Callable[..., Tensor] = _with_out(nc.randn)
randperm: Callable[..., Tensor] = _with_out(nc.randperm)
zeros: Callable[..., Tensor] = _with_out(nc.zeros)


class Extremes(NamedTuple):
    """The least and the largest elements."""

    min: Tensor
    max: Tensor


class Histogram(NamedTuple):
    """Numbers of elements and the limits of the bins."""

    hist: Tensor
    bin_edges: Tensor


class SVD(NamedTuple):
    """Factors of x = U diag(S) V^T."""

    U: Tensor
    S: Tensor
    V: Tensor


class QR(NamedTuple):
    """Factors of x = Q R."""

    Q: Tensor
    R: Tensor


class SignAndLog(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """True if |input - other| <= atol + rtol |other| everywhere."""
    return bool(nc.allclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan))


def equal(input: Tensor, other: Tensor) -> bool:
    """True if the shapes and all elements are equal."""
    return bool(nc.equal(input, other))


@takes_out
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The least and the largest elements, of all or along ``dim``."""
    return Extremes(*nc.aminmax(input, dim=dim, keepdim=keepdim))


def histogram(input: Tensor, bins: Any, **options: Any) -> Histogram:
    """Numbers of elements in bins, in the dtype of ``input``, and the limits of the bins."""
    counts, edges = nc.histogram(input, bins, **options)
    return Histogram(counts.to(input.dtype), edges)


@takes_out
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """U, S and V of x = U diag(S) V^T; ``linalg.svd`` returns the transpose of V."""
    return SVD(*nc.svd(input, some, compute_uv))


@takes_out
def qr(input: Tensor, some: bool = True) -> QR:
    """Q and R of x = Q R."""
    return QR(*nc.qr(input, some))


def slogdet(input: Tensor) -> SignAndLog:
    """The sign of the determinant and the logarithm of its absolute value."""
    return SignAndLog(*nc.linalg.slogdet(input))


@takes_out
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` is true, else ``other``; of the condition alone the positions of true elements."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    given: Any = input
    return nc.where(condition, given, other)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged, as a view."""
    result: Tensor = input.transpose(dim0, dim1)
    return result


def einsum(*args: Any) -> Tensor:
    """The sum of products that an equation names; the operands may be one sequence, or each followed by its axes as
    numbers, and at the end those of the result.
    """
    equation, operands = args[0], args[1:]
    if not isinstance(equation, str):
        operands, axes = args[0 : len(args) - len(args) % 2 : 2], args[1::2]
        equation = ",".join(map(_letters, axes)) + (f"->{_letters(args[-1])}" if len(args) % 2 else "")
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    result: Tensor = nc.einsum(equation, *operands)  # type: ignore[operator, unused-ignore]
    return result


def _letters(axes: Iterable[Any]) -> str:
    return "".join("..." if at is Ellipsis else ascii_letters[at] for at in axes)


@takes_out
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Tensor:
    """``input`` with elements of ``src``, or a number, at the positions of ``index`` along ``dim``."""
    result: Tensor = input.scatter(dim, index, value if src is None else src, reduce=reduce)
    return result


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element several times in a row; of ``repeats`` alone the position of each element, so many times."""
    if repeats is None:
        input, repeats = nc.arange(input.numel()), input
    result: Tensor = input.repeat_interleave(repeats, dim)
    return result


@takes_out
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Positions at which elements keep the order of ``sorted_sequence``, which ``sorter`` orders if given."""
    ordered = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    options: dict[str, Any] = {} if side is None else {"side": side}
    result: Tensor = nc.searchsorted(ordered, input, out_int32=out_int32, right=right, **options)
    return result


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse of a matrix; singular values below ``rcond`` times the largest count as zero."""
    result: Tensor = nc.linalg.pinv(input, rtol=rcond)
    return result


def _spread(name: str) -> Callable[..., Any]:
    """``std`` or the like, of which the first number after the tensor may be ``unbiased``."""
    function = getattr(nc, name)

    def spread(input: Tensor, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dim, bool):
            return function(input, None, *args, unbiased=dim, **kwargs)
        if args:
            kwargs["unbiased"], args = args[0], args[1:]
        if args:
            kwargs["keepdim"] = args[0]
        return function(input, dim, **kwargs)

    spread.__name__ = spread.__qualname__ = name
    spread.__doc__ = f"``netcl.{name}``; after ``dim`` come ``unbiased`` and ``keepdim``."
    return spread


std: Callable[..., Any] = _spread("std")
var: Callable[..., Any] = _spread("var")
std_mean: Callable[..., Any] = _spread("std_mean")
var_mean: Callable[..., Any] = _spread("var_mean")
