"""The table: aten overloads, the function of netcl that computes each, and the order of its arguments.

``SAME`` lists overloads whose arguments are netcl's in the same order. Other rows are functions that put PyTorch's
arguments into netcl's order. In-place and ``out=`` overloads follow from the functional ones.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import torch

from netcl import ops
from netcl.core import dispatch
from netcl.core.dtypes import is_floating, promote
from torch_netcl import words
from torch_netcl.memory import DTYPES, ENGINE, NoKernel

TABLE: dict[str, Callable[..., Any]] = {}

# aten overload -> netcl's row, with the same arguments
SAME = {
    name: name
    for name in words(
        "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor i0 isnan "
        "isinf "
        "lgamma log log10 log1p log2 logical_not mish neg reciprocal relu round rsqrt sigmoid sign signbit silu sin "
        "sinc sinh sqrt tan tanh trunc bitwise_not atan2 heaviside hypot logaddexp logical_and "
        "logical_or logical_xor maximum minimum nextafter tril triu"
    )
}
SAME |= {
    "copysign.Tensor": "copysign",
    "mul.Tensor": "mul",
    "div.Tensor": "div",
    "pow.Tensor_Tensor": "pow",
    "pow.Tensor_Scalar": "pow",
    "pow.Scalar": "pow",
    "xlogy.Tensor": "xlogy",
    "special_xlog1py": "xlog1py",
    "special_ndtri": "ndtri",
    "special_log_ndtr": "log_ndtr",
    "special_entr": "entr",
    "special_erfcx": "erfcx",
    "special_i0e": "i0e",
    "special_i1": "i1",
    "special_i1e": "i1e",
    "special_bessel_j0": "bessel_j0",
    "special_bessel_j1": "bessel_j1",
    "special_bessel_y0": "bessel_y0",
    "special_bessel_y1": "bessel_y1",
    "special_zeta": "zeta",
    "igamma": "igamma",
    "igammac": "igammac",
    "where.self": "where",
    "lerp.Scalar": "lerp",
    "lerp.Tensor": "lerp",
    "leaky_relu": "leaky_relu",
    "hardswish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
    "hardtanh": "hard_tanh",
    "hardshrink": "hardshrink",
    "softshrink": "softshrink",
    "softplus": "softplus",
    "threshold": "threshold",
    "_prelu_kernel": "prelu",
    "gelu": "gelu",
    "glu": "glu",
    "masked_fill.Scalar": "masked_fill",
    "masked_select": "masked_select",
    "gather": "take_along_dim",
    "flip": "flip",
    "roll": "roll",
}
for _part in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    SAME |= {f"{_part}.Tensor": _part}
SAME |= {f"{part}.Tensor": part for part in ("eq", "ne", "lt", "le", "gt", "ge")}
SAME |= {f"{part}.Scalar": part for part in ("eq", "ne", "lt", "le", "gt", "ge")}
SAME |= {"bitwise_left_shift.Tensor": "left_shift", "bitwise_right_shift.Tensor": "right_shift"}
del SAME["gather"]


def _function(name: str) -> Callable[..., Any]:
    if hasattr(ops, name):
        return getattr(ops, name)  # type: ignore[no-any-return]
    import netcl.linalg
    import netcl.special  # noqa: F401

    dispatch.row_of(name)
    return lambda *args, **kwargs: dispatch.call(name, *args, **kwargs)


TABLE.update({overload: _function(name) for overload, name in SAME.items()})


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function of netcl's tensors to the table, for overloads with the same arguments."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return add


def named(dtype: torch.dtype | None) -> Any:
    """Returns netcl's dtype of PyTorch's; raises NoKernel if the device has none."""
    if dtype is None:
        return None
    if dtype not in DTYPES:
        raise NoKernel(str(dtype))
    return DTYPES[dtype]


def as_type(x: Any, dtype: Any) -> Any:
    """Returns ``x`` in ``dtype``, itself if it has that dtype."""
    return x if x.dtype == dtype else ops.cast(x, dtype=dtype)


def axes(dim: Any) -> Any:
    """Returns ``dim``, of which an empty list is every axis, as netcl's axis."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def floats(x: Any) -> Any:
    """Returns ``x``, if it is floating; raises NoKernel if not."""
    if not is_floating(x.dtype):
        raise NoKernel(f"{x.dtype}")
    return x


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _no_bools(*values: Any) -> None:
    if all(isinstance(v, bool) or getattr(v, "dtype", None) == "bool" for v in values):
        raise NoKernel("bools")


@row("add.Tensor")
def add(a, b, *, alpha=1):
    """Returns a + alpha b."""
    return ops.add(
        a, b if alpha == 1 and alpha is not True else ops.mul(b, alpha) if hasattr(b, "dtype") else b * alpha
    )


@row("sub.Tensor")
def sub(a, b, *, alpha=1):
    """Returns a - alpha b."""
    _no_bools(a, b) if getattr(a, "dtype", None) == "bool" or getattr(b, "dtype", None) == "bool" else None
    if getattr(a, "dtype", None) == "bool" or getattr(b, "dtype", None) == "bool":
        raise NoKernel("bool")  # PyTorch refuses it
    return ops.sub(a, b if alpha == 1 else ops.mul(b, alpha) if hasattr(b, "dtype") else b * alpha)


TABLE |= {**dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), lambda a, b, alpha=1: sub(b, a, alpha=alpha))}


@row("div.Tensor_mode")
def div_mode(a, b, *, rounding_mode=None):
    """Returns a / b, rounded."""
    if rounding_mode is None:
        return ops.div(a, b)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    kinds = [str(v.dtype) if hasattr(v, "dtype") else type(v) for v in (a, b)]
    if not is_floating(promote(*kinds)):
        raise NoKernel("a quotient of integers that is truncated")
    return ops.trunc(ops.div(a, b))


@row("floor_divide")
def floor_divide(a, b):
    """Returns floor(a / b)."""
    kinds = [str(v.dtype) if hasattr(v, "dtype") else type(v) for v in (a, b)]
    dtype = promote(*kinds)
    if not is_floating(dtype):
        _no_zero(b)
        return ops.floor_divide(a, b)
    return dispatch.call("aten_floor_quotient", *[v if hasattr(v, "dtype") else float(v) for v in (a, b)])


@row("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(a, b):
    """Returns the remainder with the sign of b."""
    kinds = [str(v.dtype) if hasattr(v, "dtype") else type(v) for v in (a, b)]
    if not is_floating(promote(*kinds)):
        _no_zero(b)
    return ops.mod(a, b)


def _no_zero(b: Any) -> None:
    """Raises NoKernel for a division of integers by the number 0, and of bools; by a tensor's zeros it gives zeros."""
    if getattr(b, "dtype", None) == "bool" or not (hasattr(b, "dtype") or b):
        raise NoKernel("a division by zero or of bools")


TABLE |= {
    "addcmul": lambda x, a, b, *, value=1: ops.addcmul(x, a, b, value=value),
    "addcdiv": lambda x, a, b, *, value=1: ops.addcdiv(x, a, b, value=value),
}


@row("clamp", "clamp.Tensor")
def clamp(x, low=None, high=None):
    """Returns x within limits."""
    if x.dtype == "bool" or (low is None and high is None):
        raise NoKernel("clamp")
    if hasattr(low, "dtype") or hasattr(high, "dtype"):
        return dispatch.call("clamp_between", x, low, high)
    return ops.clamp(x, low, high)


TABLE |= {
    **dict.fromkeys(("clamp_min", "clamp_min.Tensor"), lambda x, low: clamp(x, low, None)),
    **dict.fromkeys(("clamp_max", "clamp_max.Tensor"), lambda x, high: clamp(x, None, high)),
}


@row("round.decimals")
def round_decimals(x, *, decimals=0):
    """Returns x rounded to decimals; 0 of them have a kernel."""
    if decimals:
        raise NoKernel("decimals")
    return ops.round(x)


TABLE |= {
    "nan_to_num": lambda x, nan=None, posinf=None, neginf=None: ops.nan_to_num(
        x, 0.0 if nan is None else nan, posinf, neginf
    ),
    "isneginf": lambda x: ops.eq(floats(x), -inf),
    "isposinf": lambda x: ops.eq(floats(x), inf),
    "sgn": lambda x: ops.sign(x),
    "fmax": lambda a, b: ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, ops.maximum(a, b))),
    "fmin": lambda a, b: ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, ops.minimum(a, b))),
    "logit": lambda x, eps=None: ops.logit(floats(x), eps),
    "polygamma": lambda n, x: ops.polygamma(n, x) if n < 2 else _refuse("a higher derivative"),
    "frac": lambda x: ops.sub(floats(x), ops.trunc(x)),
}


@row("elu")
def elu(x, alpha=1, scale=1, input_scale=1):
    """Returns the ELU; scales have no kernel."""
    if scale != 1 or input_scale != 1:
        return dispatch.call("aten_scaled_elu", floats(x), float(alpha), float(scale), float(input_scale))
    return ops.elu(floats(x), alpha)


TABLE |= {
    "log_sigmoid_forward": lambda x: (ops.logsigmoid(floats(x)), ENGINE.empty((0,), x.dtype)),
    "masked_fill.Tensor": lambda x, mask, value: ops.masked_fill(x, mask, value),
}


# -- reductions ------------------------------------------------------------------------------------------------------


TABLE |= {
    "sum.dim_IntList": lambda x, dim=None, keepdim=False, *, dtype=None: ops.sum(
        x, axes(dim), keepdim, dtype=named(dtype)
    ),
    "sum": lambda x, *, dtype=None: ops.sum(x, dtype=named(dtype)),
}


@row("mean.dim")
def mean(x, dim=None, keepdim=False, *, dtype=None):
    """Returns the mean."""
    if dtype is None:
        floats(x)
    return ops.mean(x, axes(dim), keepdim, dtype=named(dtype))


TABLE |= {
    "mean": lambda x, *, dtype=None: mean(x, None, dtype=dtype),
    "prod": lambda x, *, dtype=None: ops.prod(x, dtype=named(dtype)),
    "prod.dim_int": lambda x, dim, keepdim=False, *, dtype=None: ops.prod(x, dim, keepdim, dtype=named(dtype)),
}


for _name in ("amax", "amin"):
    TABLE[_name] = (lambda f: lambda x, dim=(), keepdim=False: f(x, axes(dim), keepdim))(getattr(ops, _name))
for _name, _function_of in (("max", ops.amax), ("min", ops.amin)):
    TABLE[_name] = _function_of


def _extreme(kind: str) -> Callable[..., Any]:
    def extreme(x: Any, dim: int, keepdim: bool = False) -> Any:
        if x.ndim == 0:
            raise NoKernel("0-d")
        return tuple(getattr(ops, kind)(x, dim, keepdim))

    return extreme


TABLE |= {"max.dim": _extreme("max"), "min.dim": _extreme("min")}


TABLE |= {
    "aminmax": lambda x, *, dim=None, keepdim=False: (ops.amin(x, dim, keepdim), ops.amax(x, dim, keepdim)),
    "argmax": lambda x, dim=None, keepdim=False: _argument(ops.argmax, x, dim, keepdim),
}


def _argument(function: Callable[..., Any], x: Any, dim: int | None, keepdim: bool) -> Any:
    if not x.ndim or not x.size:
        raise NoKernel("0-d or empty")
    if dim is None:
        flat = function(ops.reshape(x, (x.size,)), 0, False)
        return ops.reshape(flat, (1,) * x.ndim) if keepdim else flat
    return function(x, dim, keepdim)


TABLE |= {"argmin": lambda x, dim=None, keepdim=False: _argument(ops.argmin, x, dim, keepdim)}


def _truth(kind: str) -> None:
    function = getattr(ops, kind)

    def truth(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        result = function(x, axes(dim), keepdim)
        return as_type(result, "uint8") if x.dtype == "uint8" else result

    TABLE[kind] = TABLE[f"{kind}.dim"] = truth
    TABLE[f"{kind}.dims"] = lambda x, dim=None, keepdim=False: (
        truth(x, dim, keepdim) if dim != [] else _refuse("no axes")
    )


def _refuse(why: str) -> Any:
    raise NoKernel(why)


_truth("any")
_truth("all")


@row("var.correction")
def var(x, dim=None, *, correction=None, keepdim=False):
    """Returns the variance."""
    return ops.var(floats(x), axes(dim), 1 if correction is None else correction, keepdim)


TABLE |= {
    "std.correction": lambda x, dim=None, *, correction=None, keepdim=False: ops.std(
        floats(x), axes(dim), 1 if correction is None else correction, keepdim
    ),
    "var_mean.correction": lambda x, dim=None, *, correction=None, keepdim=False: tuple(
        ops.var_mean(floats(x), axes(dim), 1 if correction is None else correction, keepdim)
    ),
    "std_mean.correction": lambda x, dim=None, *, correction=None, keepdim=False: tuple(
        ops.std_mean(floats(x), axes(dim), 1 if correction is None else correction, keepdim)
    ),
}


@row("linalg_vector_norm")
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """Returns the norm of vectors."""
    if dtype is not None:
        x = as_type(x, named(dtype))
    return ops.norm(floats(x), ord, axes(dim), keepdim)


TABLE |= {
    "logsumexp": lambda x, dim, keepdim=False: ops.logsumexp(floats(x), axes(dim), keepdim),
    "count_nonzero.dim_IntList": lambda x, dim: ops.count_nonzero(x, axes(dim)),
    "count_nonzero": lambda x, dim=None: ops.count_nonzero(x, dim),
    "cumsum": lambda x, dim, *, dtype=None: ops.cumsum(x, dim, named(dtype)) if x.ndim else _refuse("0-d"),
    "cumprod": lambda x, dim, *, dtype=None: ops.cumprod(x, dim, named(dtype)) if x.ndim else _refuse("0-d"),
    "logcumsumexp": lambda x, dim: ops.logcumsumexp(floats(x), dim) if x.ndim else _refuse("0-d"),
    "trace": lambda x: ops.trace(x),
}


@row("nansum")
def nansum(x, dim=None, keepdim=False, *, dtype=None):
    """Returns the sum of what is not NaN."""
    if not is_floating(x.dtype):
        return ops.sum(x, axes(dim), keepdim, dtype=named(dtype))
    return ops.sum(ops.where(ops.isnan(x), 0.0, x), axes(dim), keepdim, dtype=named(dtype))


TABLE |= {
    "linalg_cross": lambda a, b, *, dim=-1: dispatch.call("linalg_cross", a, b, axis=dim),
    "_softmax": lambda x, dim, half_to_float: (
        ops.softmax(floats(x), dim) if x.ndim and (not half_to_float) else _refuse("0-d")
    ),
    "_log_softmax": lambda x, dim, half_to_float: (
        ops.log_softmax(floats(x), dim) if x.ndim and (not half_to_float) else _refuse("0-d")
    ),
}


# -- order -----------------------------------------------------------------------------------------------------------


@row("sort")
def sort(x, dim=-1, descending=False):
    """Returns the elements in order, and their positions."""
    return tuple(ops.sort(x, dim, descending)) if x.ndim else _refuse("0-d")


TABLE |= {
    "sort.stable": lambda x, *, stable, dim=-1, descending=False: sort(x, dim, descending),
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: (
        tuple(ops.topk(x, k, dim, largest, sorted)) if x.ndim else _refuse("0-d")
    ),
    "kthvalue": lambda x, k, dim=-1, keepdim=False: (
        tuple(ops.kthvalue(x, k, dim, keepdim)) if x.ndim else _refuse("0-d")
    ),
}


@row("mode")
def mode(x, dim=-1, keepdim=False):
    """Returns the most frequent element, and its position."""
    return tuple(ops.mode(x, dim, keepdim)) if x.ndim else _refuse("0-d")


TABLE |= {"median": lambda x: ops.median(x) if x.size else _refuse("empty")}


@row("searchsorted.Tensor")
def searchsorted(ordered, x, *, out_int32=False, right=False, side=None, sorter=None):
    """Returns where elements belong in an order."""
    if sorter is not None or (side is not None and right):
        raise NoKernel("sorter")
    return ops.searchsorted(ordered, x, right, side, out_int32)


TABLE |= {
    "bucketize.Tensor": lambda x, boundaries, *, out_int32=False, right=False: ops.bucketize(
        x, boundaries, out_int32=out_int32, right=right
    ),
    "nonzero": lambda x: ops.nonzero(x),
}


@row("bincount")
def bincount(x, weights=None, minlength=0):
    """Returns how often each number occurs."""
    if weights is not None and weights.dtype not in ("float32", "float64"):
        weights = as_type(weights, named(torch.float64))
    return ops.bincount(x, weights, minlength)


TABLE |= {
    "histc": lambda x, bins=100, min=0, max=0: as_type(
        ops.histc(x if is_floating(x.dtype) else as_type(x, "float32"), bins, min, max), x.dtype
    )
}


@row("_unique2")
def unique(x, sorted=True, return_inverse=False, return_counts=False):
    """Returns the distinct elements in order."""
    if return_inverse or return_counts:
        raise NoKernel("inverse")
    return ops.unique(x), ENGINE.empty((0,), "int64"), ENGINE.empty((0,), "int64")


# -- indexing --------------------------------------------------------------------------------------------------------


TABLE |= {
    "index_select": lambda x, dim, index: (
        ops.index_select(x, dim, index) if x.ndim and index.ndim == 1 else _refuse("0-d")
    )
}


@row("gather")
def gather(x, dim, index, *, sparse_grad=False):
    """Returns elements at positions along an axis."""
    if not x.ndim or not index.ndim:
        raise NoKernel("0-d")
    return ops.gather(x, dim, index)


def _scattered(function: Callable[..., Any]) -> Callable[..., Any]:
    def scattered(x: Any, dim: int, index: Any, src: Any) -> Any:
        if not x.ndim or not index.ndim:
            raise NoKernel("0-d")
        if hasattr(src, "shape") and src.shape != index.shape:
            src = ops.getitem(src, tuple(slice(0, length) for length in index.shape))
        return function(x, dim, index, src)

    return scattered


TABLE |= {
    "scatter.src": _scattered(ops.scatter),
    "scatter.value": _scattered(ops.scatter),
    "scatter_add": _scattered(ops.scatter_add),
}


@row("scatter_reduce.two")
def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    """Returns x with elements combined at positions."""
    if not x.ndim or not index.ndim or not index.size:
        raise NoKernel("0-d")
    src = ops.getitem(src, tuple(slice(0, length) for length in index.shape))
    return ops.scatter_reduce(x, dim, index, src, reduce, include_self=include_self)


TABLE |= {
    "index_add": lambda x, dim, index, source, *, alpha=1: (
        ops.index_add(x, dim, index, source, alpha) if x.ndim and source.ndim else _refuse("0-d")
    ),
    "index_copy": lambda x, dim, index, source: (
        ops.index_copy(x, dim, index, source) if x.ndim and source.ndim else _refuse("0-d")
    ),
}


def _key(x: Any, indices: Any) -> tuple[Any, ...]:
    key = [slice(None) if index is None else index for index in indices]
    if any(hasattr(index, "dtype") and index.dtype in ("bool", "uint8") for index in key):
        key = _positions(key)
    return tuple(key)


def _positions(key: list[Any]) -> list[Any]:
    """Returns a key with the positions of the masks in it."""
    plain: list[Any] = []
    for index in key:
        if hasattr(index, "dtype") and index.dtype in ("bool", "uint8"):
            if index.ndim == 0:
                raise NoKernel("a 0-d mask")
            plain += list(ops.nonzero(index, as_tuple=True))
        else:
            plain.append(index)
    return plain


@row("index.Tensor")
def index(x, indices):
    """Returns elements at positions."""
    if not x.ndim:
        raise NoKernel("0-d")
    key = _key(x, indices)
    places = [at for at, entry in enumerate(key) if not isinstance(entry, slice)]
    if len(places) == 1 and key[places[0]].size:  # whole slices
        return ops.index_select(x, places[0], key[places[0]])
    return ops.getitem(x, key)


@row("index_put", "_unsafe_index_put")
def index_put(x, indices, values, accumulate=False):
    """Returns x with values at positions."""
    if not x.ndim:
        raise NoKernel("0-d")
    key = _key(x, indices)
    if any(isinstance(entry, slice) for entry in key):
        key, x, back = _in_front(x, key)
        values = _values_in_front(x, key, values, indices)
        return ops.permute(ops.index_put(x, key, values, accumulate), back)
    if not key[0].size and len(key) == 1:
        return ops.clone(x)
    return ops.index_put(x, key, values, accumulate)


def _in_front(x: Any, key: tuple[Any, ...]) -> Any:
    """Returns the key without slices, x with the indexed axes in front, and the order that takes them back."""
    places = [at for at, entry in enumerate(key) if not isinstance(entry, slice)]
    order = places + [axis for axis in range(x.ndim) if axis not in places]
    back = [order.index(axis) for axis in range(x.ndim)]
    return tuple(key[at] for at in places), ops.clone(ops.permute(x, order)), back


def _values_in_front(x: Any, key: tuple[Any, ...], values: Any, indices: Any) -> Any:
    """Returns values with the axes of the indices in front, as the indexed axes of x are."""
    places = [at for at, entry in enumerate(indices) if entry is not None]
    adjacent = places == list(range(places[0], places[0] + len(places)))
    rank = max(entry.ndim for entry in key)
    whole = rank + x.ndim - len(key)
    if not adjacent or places[0] == 0 or not values.ndim:
        return values
    if values.ndim < whole:
        values = ops.reshape(values, (1,) * (whole - values.ndim) + tuple(values.shape))
    at = places[0]
    order = [*range(at, at + rank), *range(at), *range(at + rank, whole)]
    return ops.permute(values, order)


@row("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x, dim, index, value):
    """Returns x with ``value`` at positions."""
    if not x.ndim or not index.size or index.ndim != 1:
        raise NoKernel("0-d or empty")
    shape = list(x.shape)
    shape[dim] = index.size
    source = ENGINE.empty(tuple(shape), x.dtype)
    if hasattr(value, "dtype"):
        source = ops.clone(ops.expand(as_type(value, x.dtype), tuple(shape)))
    else:
        ENGINE.fill(source, value)
    return ops.index_copy(x, dim, index, source)


TABLE |= {
    "isin.Tensor_Tensor": lambda x, other, *, assume_unique=False, invert=False: ops.isin(
        x, other, assume_unique=assume_unique, invert=invert
    ),
    "embedding": lambda weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False: ops.take(
        weight, indices, 0
    ),
}


@row("embedding_dense_backward")
def embedding_backward(grad, indices, num, padding_idx, scale):
    """Returns the gradient of the table."""
    if scale:
        raise NoKernel("scale_grad_by_freq")
    if padding_idx >= 0:
        kept = ops.unsqueeze(ops.ne(indices, padding_idx), -1)
        grad = ops.where(kept, grad, 0.0)
    if not indices.size:
        return ENGINE.zeros((num, grad.shape[-1]), grad.dtype)
    return dispatch.call("index_select_grad", grad, indices, 0, (num, grad.shape[-1]))


# -- shapes ----------------------------------------------------------------------------------------------------------


@row("cat")
def cat(tensors, dim=0):
    """Returns tensors behind each other."""
    kept = [x for x in tensors if x.shape != (0,)] or list(tensors)[:1]
    dtype = promote(*[x.dtype for x in tensors])
    return ops.cat([as_type(x, dtype) for x in kept], dim)


@row("constant_pad_nd")
def constant_pad(x, pad, value=0):
    """Returns x with a border."""
    if any(width < 0 for width in pad) or not x.ndim:
        raise NoKernel("a negative pad")
    return ops.pad(x, list(pad), "constant", value)


def _bordered(mode: str) -> None:
    for rank in (1, 2, 3):
        TABLE[f"{'reflection' if mode == 'reflect' else 'replication'}_pad{rank}d"] = lambda x, pad: (
            ops.pad(x, list(pad), mode) if min(pad) >= 0 else _refuse("a negative pad")
        )


_bordered("reflect")
_bordered("replicate")


TABLE |= {
    "pixel_shuffle": lambda x, factor: ops.pixel_shuffle(x, factor),
    "pixel_unshuffle": lambda x, factor: ops.pixel_unshuffle(x, factor),
}


# -- products --------------------------------------------------------------------------------------------------------


def _number_times(value: Any, x: Any) -> Any:
    return x if value == 1 else ops.mul(x, value)


def _alike(*tensors: Any) -> None:
    """Raises NoKernel for tensors of several dtypes, which PyTorch refuses."""
    if len({x.dtype for x in tensors if x is not None}) != 1:
        raise NoKernel("operands of several dtypes")


@row("mm")
def mm(a, b):
    """Returns the product of two matrices."""
    if a.dtype is not b.dtype:
        raise NoKernel("operands of several dtypes")
    return ops.mm(a, b)


@row("bmm")
def bmm(a, b):
    """Returns the products of two stacks of matrices."""
    _alike(a, b)
    return ops.bmm(a, b)


@row("mv")
def mv(a, b):
    """Returns the product of a matrix and a vector."""
    _alike(a, b)
    return ops.mv(a, b)


@row("dot")
def dot(a, b):
    """Returns the product of two vectors."""
    _alike(a, b)
    return ops.dot(a, b)


@row("addmm")
def addmm(x, a, b, *, beta=1, alpha=1):
    """Returns beta x + alpha a b."""
    _alike(x, a, b)
    return ops.addmm(x, a, b, beta, alpha)


@row("baddbmm")
def baddbmm(x, a, b, *, beta=1, alpha=1):
    """Returns the same of stacks."""
    _alike(x, a, b)
    return ops.baddbmm(x, a, b, beta, alpha)


@row("addmv")
def addmv(x, a, b, *, beta=1, alpha=1):
    """Returns beta x + alpha a b of a vector b."""
    if not is_floating(a.dtype):
        beta, alpha = int(beta), int(alpha)
    product = _number_times(alpha, ops.mv(a, b))
    return product if beta == 0 else ops.add(_number_times(beta, x), product)


# -- convolutions ----------------------------------------------------------------------------------------------------


def _convolution(rank: int, transposed: bool) -> Callable[..., Any]:
    return getattr(ops, f"conv{'_transpose' if transposed else ''}{rank}d")  # type: ignore[no-any-return]


@row("convolution")
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Returns a convolution, or a transposed one."""
    rank = weight.ndim - 2
    if x.ndim != weight.ndim or not x.size or not 1 <= rank <= 3:
        raise NoKernel("shape")
    _alike(floats(x), weight, bias)
    stride, padding, dilation = (_wide(value, rank) for value in (stride, padding, dilation))
    if transposed:
        return _convolution(rank, True)(x, weight, bias, stride, padding, _wide(output_padding, rank), groups, dilation)
    return _convolution(rank, False)(x, weight, bias, stride, padding, dilation, groups)


def _wide(values: Any, rank: int) -> tuple[int, ...]:
    return tuple(values) * rank if len(values) == 1 else tuple(values)


@row("convolution_backward")
def convolution_backward(
    grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    """Returns the gradients of a convolution by x, weight and bias; None if the mask is False."""
    rank = weight.ndim - 2
    if x.ndim != weight.ndim or not x.size:
        raise NoKernel("shape")
    stride, padding, dilation = (_wide(value, rank) for value in (stride, padding, dilation))
    by_x = by_weight = by_bias = None
    if transposed:
        if output_mask[0]:
            by_x = _convolution(rank, False)(grad, weight, None, stride, padding, dilation, groups)
        if output_mask[1]:
            by_weight = getattr(ops, f"conv{rank}d_grad_weight")(
                grad, x, weight.shape, stride, padding, dilation, groups
            )
    else:
        if output_mask[0]:
            by_x = getattr(ops, f"conv{rank}d_grad_input")(grad, weight, x.shape, stride, padding, dilation, groups)
        if output_mask[1]:
            by_weight = getattr(ops, f"conv{rank}d_grad_weight")(
                x, grad, weight.shape, stride, padding, dilation, groups
            )
    if output_mask[2]:
        by_bias = ops.sum(grad, (0, *range(2, grad.ndim)))
    return by_x, by_weight, by_bias


# -- pools -----------------------------------------------------------------------------------------------------------


def _batched(x: Any, rank: int) -> Any:
    """Returns x with a batch of one, if it has none."""
    return x if x.ndim == rank + 2 else ops.reshape(x, (1, *x.shape))


def _unbatched(x: Any, like: Any, rank: int) -> Any:
    return x if like.ndim == rank + 2 else ops.reshape(x, x.shape[1:])


def _pools(rank: int) -> None:
    def max_pool(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        sizes = _wide(kernel, rank), _wide(stride or kernel, rank), _wide(padding, rank), _wide(dilation, rank)
        if not floats(x).size:
            raise NoKernel("empty")
        values, indices = getattr(ops, f"max_pool{rank}d")(x, *sizes, ceil_mode, True)
        return values, as_type(indices, "int64")

    def max_pool_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
        sizes = _wide(kernel, rank), _wide(stride or kernel, rank), _wide(padding, rank), _wide(dilation, rank)
        whole, places = _batched(grad, rank), as_type(_batched(indices, rank), "int32")
        made = dispatch.call("max_pool_grad", whole, places, _batched(x, rank).shape, *sizes, ceil_mode)
        return _unbatched(made, x, rank)

    def avg_pool(x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        if not floats(x).size:
            raise NoKernel("empty")
        sizes = _wide(kernel, rank), _wide(stride or kernel, rank), _wide(padding, rank)
        return getattr(ops, f"avg_pool{rank}d")(x, *sizes, ceil_mode, count_include_pad, divisor_override)

    def avg_pool_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        sizes = _wide(kernel, rank), _wide(stride or kernel, rank), _wide(padding, rank)
        made = dispatch.call(
            "avg_pool_grad",
            _batched(grad, rank),
            _batched(x, rank).shape,
            *sizes,
            ceil_mode,
            count_include_pad,
            divisor_override,
        )
        return _unbatched(made, x, rank)

    def adaptive_avg(x, size):
        return getattr(ops, f"adaptive_avg_pool{rank}d")(floats(x), list(size)) if x.size else _refuse("empty")

    def adaptive_avg_backward(grad, x):
        made = dispatch.call("adaptive_avg_pool_grad", _batched(grad, rank), _batched(x, rank).shape)
        return _unbatched(made, x, rank)

    def adaptive_max(x, size):
        if not floats(x).size:
            raise NoKernel("empty")
        values, indices = getattr(ops, f"adaptive_max_pool{rank}d")(x, list(size), True)
        return values, as_type(indices, "int64")

    def adaptive_max_backward(grad, x, indices):
        places = as_type(_batched(indices, rank), "int32")
        made = dispatch.call("adaptive_max_pool_grad", _batched(grad, rank), places, _batched(x, rank).shape)
        return _unbatched(made, x, rank)

    TABLE.update(
        {
            f"max_pool{rank}d_with_indices": max_pool,
            f"max_pool{rank}d_with_indices_backward": max_pool_backward,
            f"avg_pool{rank}d": avg_pool,
            f"avg_pool{rank}d_backward": avg_pool_backward,
            f"_adaptive_avg_pool{rank}d": adaptive_avg,
            f"_adaptive_avg_pool{rank}d_backward": adaptive_avg_backward,
            f"adaptive_max_pool{rank}d": adaptive_max,
            f"adaptive_max_pool{rank}d_backward": adaptive_max_backward,
        }
    )


_pools(2)
_pools(3)


# -- normalizations --------------------------------------------------------------------------------------------------


def _computing(x: Any) -> Any:
    """Returns the dtype of statistics of ``x``: float32 for the halves."""
    return "float32" if x.dtype in ("float16", "bfloat16") else x.dtype


@row("native_layer_norm")
def layer_norm(x, shape, weight, bias, eps):
    """Returns the normalized x, the means and the reciprocal deviations."""
    floats(x)
    over = tuple(range(x.ndim - len(shape), x.ndim))
    if not x.size:
        raise NoKernel("empty")
    value, mean, rstd = dispatch.call("aten_layer_norm", x, weight, bias, axes=over, eps=eps)
    return value, mean, rstd


@row("native_layer_norm_backward")
def layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, output_mask):
    """Returns the gradients of a layer norm by x, weight and bias."""
    if not x.size:
        raise NoKernel("empty")
    over = tuple(range(x.ndim - len(shape), x.ndim))
    outer = tuple(range(x.ndim - len(shape)))
    by_x = by_weight = by_bias = None
    if output_mask[0]:
        by_x = dispatch.call("aten_layer_norm_backward", grad, x, mean, rstd, weight, axes=over)
    if output_mask[1] and weight is not None:
        products = dispatch.call("aten_normalized_times", grad, x, mean, rstd)
        by_weight = as_type(ops.sum(products, outer) if outer else products, weight.dtype)
    if output_mask[2] and bias is not None:
        by_bias = ops.sum(grad, outer) if outer else ops.clone(grad)
    return by_x, by_weight, by_bias


@row("native_group_norm")
def group_norm(x, weight, bias, n, c, hxw, group, eps):
    """Returns the normalized x, and means and reciprocal deviations of the groups."""
    if not floats(x).size:
        raise NoKernel("empty")
    rows = ops.reshape(x, (n, group, x.size // (n * group)))
    value, mean, rstd = dispatch.call("aten_layer_norm", rows, None, None, axes=(2,), eps=eps)
    value = ops.reshape(value, x.shape)
    if weight is not None:
        value = ops.mul(value, _column(weight, x.ndim))
    if bias is not None:
        value = ops.add(value, _column(bias, x.ndim))
    return as_type(value, x.dtype), ops.reshape(mean, (n, group)), ops.reshape(rstd, (n, group))


@row("native_group_norm_backward")
def group_norm_backward(grad, x, mean, rstd, weight, n, c, hxw, group, output_mask):
    """Returns the gradients of a group norm by x, weight and bias."""
    if not x.size:
        raise NoKernel("empty")
    by_x = by_weight = by_bias = None
    parts = (n, group, c // group, hxw)
    if output_mask[0]:
        by_value = grad if weight is None else as_type(ops.mul(grad, _column(weight, x.ndim)), grad.dtype)
        rows = (n, group, x.size // (n * group))
        m, r = (ops.reshape(value, (n, group, 1)) for value in (mean, rstd))
        by_x = dispatch.call(
            "aten_layer_norm_backward", ops.reshape(by_value, rows), ops.reshape(x, rows), m, r, None, axes=(2,)
        )
        by_x = ops.reshape(by_x, x.shape)
    if output_mask[1] and weight is not None:
        m, r = (ops.reshape(value, (n, group, 1, 1)) for value in (mean, rstd))
        products = dispatch.call("aten_normalized_times", ops.reshape(grad, parts), ops.reshape(x, parts), m, r)
        by_weight = as_type(ops.reshape(ops.sum(products, (0, 3)), (c,)), weight.dtype)
    if output_mask[2]:
        by_bias = ops.reshape(ops.sum(ops.reshape(grad, parts), (0, 3)), (c,))
    return by_x, by_weight, by_bias


def _column(value: Any, rank: int) -> Any:
    return None if value is None else ops.reshape(value, (value.size,) + (1,) * (rank - 2))


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Returns (y, mean, reciprocal deviation, new running mean, new running variance)."""
    floats(x)
    count = x.size // x.shape[1] if x.ndim > 1 and x.shape[1] else 0
    if not count:
        raise NoKernel("empty")
    w, b = _column(weight, x.ndim), _column(bias, x.ndim)
    if not training:
        if running_mean is None:
            raise NoKernel("no running statistics")
        m, v = (_column(value, x.ndim) for value in (running_mean, running_var))
        y = dispatch.call("batch_norm_inference", x, m, v, w, b, eps=eps)
        empty = ENGINE.empty((0,), _computing(x))
        return y, empty, ENGINE.empty((0,), _computing(x)), running_mean, running_var
    if count == 1:
        raise NoKernel("one value per channel, which PyTorch refuses")
    y, mean, var = dispatch.call("batch_norm_training", x, w, b, eps=eps)
    mean, var = (ops.reshape(value, (x.shape[1],)) for value in (mean, var))
    if running_mean is not None:
        running_mean = as_type(
            ops.add(ops.mul(running_mean, 1 - momentum), ops.mul(mean, momentum)), running_mean.dtype
        )
        unbiased = ops.mul(var, momentum * count / (count - 1))
        running_var = as_type(ops.add(ops.mul(running_var, 1 - momentum), unbiased), running_var.dtype)
    rstd = ops.rsqrt(ops.add(var, eps))
    return y, as_type(mean, _computing(x)), as_type(rstd, _computing(x)), running_mean, running_var


@row("native_batch_norm_backward")
def batch_norm_backward(grad, x, weight, running_mean, running_var, mean, rstd, training, eps, output_mask):
    """Returns the gradients of a batch norm by x, weight and bias."""
    if not x.size:
        raise NoKernel("empty")
    over = (0, *range(2, x.ndim))
    if not training:
        mean, rstd = running_mean, ops.rsqrt(ops.add(running_var, eps))
    m, r, w = (_column(value, x.ndim) for value in (mean, rstd, weight))
    by_x = by_weight = by_bias = None
    if output_mask[0]:
        if training:
            by_x = dispatch.call("aten_batch_norm_backward", grad, x, m, r, w)
        else:
            by_x = as_type(ops.mul(ops.mul(grad, r), 1.0 if w is None else w), x.dtype)
    if output_mask[1]:
        products = dispatch.call("aten_normalized_times", grad, x, m, r)
        by_weight = as_type(ops.sum(products, over), x.dtype if weight is None else weight.dtype)
    if output_mask[2]:
        by_bias = as_type(ops.sum(as_type(grad, _computing(x)), over), x.dtype if weight is None else weight.dtype)
    return by_x, by_weight, by_bias


# -- attention -------------------------------------------------------------------------------------------------------


def add_decompositions(implement: Callable[..., Any], registered: list[str]) -> None:
    """Registers PyTorch's decompositions of overloads that have no row: they call other kernels of the device."""
    from torch._decomp import get_decompositions

    present = set(registered)
    for name in DECOMPOSED:
        op = getattr(getattr(torch.ops.aten, name.partition(".")[0]), name.partition(".")[2] or "default")
        decomposition = get_decompositions([op]).get(op)
        if decomposition is not None and name not in present:
            implement(name, decomposition)


DECOMPOSED = words(
    "mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward "
    "binary_cross_entropy binary_cross_entropy_backward nll_loss_backward nll_loss2d_backward nll_loss_forward "
    "nll_loss2d_forward embedding_dense_backward native_dropout_backward "
    "addr logaddexp2 select_backward slice_backward diagonal_backward index_add_ "
    "unfold_backward new_zeros frac triu_indices tril_indices rot90 logit_backward "
    "masked_scatter upsample_nearest2d upsample_bilinear2d upsample_nearest1d"
)


__all__ = ["DECOMPOSED", "TABLE", "add_decompositions", "inf", "prod"]
