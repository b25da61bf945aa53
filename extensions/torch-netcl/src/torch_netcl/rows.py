"""The table: aten overloads, the function of netcl that computes each, and the order of its arguments.

``SAME`` lists overloads whose arguments are netcl's in the same order, as ``aten=netcl`` if the names differ. Other
rows are functions that put PyTorch's arguments into netcl's order. In-place and ``out=`` overloads follow from the
functional ones. A row raises NoKernel, or any error of netcl, for arguments that PyTorch shall compute on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, prod
from typing import Any

import torch

import netcl.linalg
import netcl.special
from netcl import ops
from netcl.core.dtypes import is_floating, promote
from netcl.core.ops_table import dispatch
from torch_netcl import expressions, products, words
from torch_netcl.memory import DTYPES, ENGINE, TORCH, NoKernel

TABLE: dict[str, Callable[..., Any]] = {}
SAME = words(
    "abs acos acosh asin asinh atan atan2 atanh bitwise_and.Tensor=bitwise_and bitwise_left_shift.Tensor=left_shift "
    "bitwise_not bitwise_or.Tensor=bitwise_or bitwise_right_shift.Tensor=right_shift bitwise_xor.Tensor=bitwise_xor "
    "ceil copysign.Tensor=copysign cos cosh digamma div.Tensor=div eq.Scalar=eq eq.Tensor=eq erf erfc erfinv exp exp2 "
    "expm1 flip floor ge.Scalar=ge ge.Tensor=ge gelu glu gt.Scalar=gt gt.Tensor=gt hardshrink hardsigmoid=hard_sigmoid "
    "hardswish=hard_swish hardtanh=hard_tanh heaviside hypot i0 igamma igammac isinf isnan le.Scalar=le le.Tensor=le "
    "leaky_relu lgamma log log10 log1p log2 logaddexp logical_and logical_not "
    "logical_or logical_xor lt.Scalar=lt lt.Tensor=lt masked_fill.Scalar=masked_fill "
    "masked_select max=amax maximum min=amin minimum mish mul.Tensor=mul ne.Scalar=ne ne.Tensor=ne neg nextafter "
    "nonzero pixel_shuffle pixel_unshuffle pow.Scalar=pow pow.Tensor_Tensor=pow "
    "_prelu_kernel=prelu reciprocal relu roll round rsqrt sgn=sign sigmoid sign signbit silu sin sinc sinh softplus "
    "softshrink special_bessel_j0=bessel_j0 special_bessel_j1=bessel_j1 special_bessel_y0=bessel_y0 "
    "special_bessel_y1=bessel_y1 special_entr=entr special_erfcx=erfcx special_i0e=i0e special_i1=i1 special_i1e=i1e "
    "special_log_ndtr=log_ndtr special_ndtri=ndtri special_xlog1py=xlog1py special_zeta=zeta sqrt tan tanh threshold "
    "trace tril triu trunc xlogy.Tensor=xlogy special_airy_ai=airy_ai special_modified_bessel_i0=i0 "
    "special_modified_bessel_i1=i1"
) + [
    f"special_{name}={name}"
    for name in words(
        "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 "
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
        "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w"
    )
]


def function(name: str) -> Callable[..., Any]:
    """Returns the function of a row of netcl."""
    dispatch.row_of(name)
    return getattr(ops, name, None) or partial(dispatch.call, name)


TABLE |= {aten: function(name or aten) for aten, _, name in (entry.partition("=") for entry in SAME)}
# Ops whose tensors must have one dtype; indices and masks have another.
ALIKE = {
    *words(
        "addr binary_cross_entropy _embedding_bag heaviside huber_loss index_copy _index_put_impl index_put "
        "index_reduce lerp linalg_cross multi_margin_loss nll_loss2d_forward nll_loss_forward put scatter scatter_add "
        "scatter_reduce _unsafe_index_put"
    )
}


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function of netcl's tensors to the table, for overloads with the same arguments."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return add


def named(dtype: torch.dtype | None) -> Any:
    """Returns netcl's dtype of PyTorch's; raises NoKernel if the device has none."""
    if dtype is not None and dtype not in DTYPES:
        raise NoKernel(str(dtype))
    return dtype and DTYPES[dtype]


def as_type(x: Any, dtype: Any) -> Any:
    """Returns ``x`` in ``dtype``, itself if it has that dtype."""
    return x if x.dtype == dtype else ops.cast(x, dtype=dtype)


def axes(dim: Any) -> Any:
    """Returns ``dim``, of which an empty list is every axis, as netcl's axis."""
    return dim if dim is None or isinstance(dim, int) else tuple(dim) or None


def floats(x: Any) -> Any:
    """Returns ``x``, if it is floating; raises NoKernel if not."""
    return x if is_floating(x.dtype) else refuse(f"{x.dtype}")


def _without_bools(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: function(refuse("bool") if x.dtype == "bool" else x, *args, **kwargs)


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: function(floats(x), *args, **kwargs)


def refuse(why: str) -> Any:
    """Raises NoKernel."""
    raise NoKernel(why)


for _name in words("gelu glu hardshrink hardsigmoid hardswish leaky_relu mish silu softplus softshrink"):
    TABLE[_name] = _of_floats(TABLE[_name])
for _name in words("abs hardtanh relu threshold trace"):
    TABLE[_name] = _without_bools(TABLE[_name])


def ranked(function: Callable[..., Any], *others: int) -> Callable[..., Any]:
    """Returns ``function`` for tensors with axes; the tensors at the positions ``others`` need axes too."""

    def checked(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not x.ndim or not all(args[at].ndim for at in others):
            raise NoKernel("a tensor without axes")
        result = function(x, *args, **kwargs)
        return tuple(result) if isinstance(result, tuple) else result

    return checked


def kind_of(*operands: Any) -> str:
    """Returns the dtype that operands, tensors or numbers, are promoted to."""
    return promote(*[v.dtype if hasattr(v, "dtype") else type(v) for v in operands])


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _with_alpha(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """Returns the row of a sum, or a difference, of a and alpha b."""

    def scaled(a: Any, b: Any, *, alpha: Any = 1) -> Any:
        if alpha == 1 and alpha is not True:
            return function(a, b)
        if not hasattr(b, "dtype"):
            return function(a, b * alpha)
        if hasattr(a, "dtype") and is_floating(a.dtype) and is_floating(b.dtype):
            return expressions.plus_scaled(a, b, sign * float(alpha))
        return function(a, ops.mul(b, alpha))

    return scaled


add = TABLE["add.Tensor"] = _with_alpha(ops.add, 1)
_subtract = _with_alpha(ops.sub, -1)


@row("sub.Tensor")
def sub(a, b, *, alpha=1):
    """Returns a - alpha b; PyTorch refuses bools."""
    if getattr(a, "dtype", None) == "bool" or getattr(b, "dtype", None) == "bool":
        raise NoKernel("bool")
    return _subtract(a, b, alpha=alpha)


@row("div.Tensor_mode")
def div_mode(a, b, *, rounding_mode=None):
    """Returns a / b, rounded."""
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode and not is_floating(kind_of(a, b)):
        raise NoKernel("a quotient of integers that is truncated")
    return ops.trunc(ops.div(a, b)) if rounding_mode else ops.div(a, b)


@row("floor_divide")
def floor_divide(a, b):
    """Returns floor(a / b)."""
    if not is_floating(kind_of(a, b)):
        return ops.floor_divide(a, _divisor(b))
    return dispatch.call("aten_floor_quotient", *[v if hasattr(v, "dtype") else float(v) for v in (a, b)])


TABLE |= {
    **dict.fromkeys(
        ("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"),
        lambda a, b: ops.mod(a, b if is_floating(kind_of(a, b)) else _divisor(b)),
    ),
}


@row("fmod.Tensor", "fmod.Scalar")
def fmod(a, b):
    """Returns what is left of a, with its sign, by a quotient that is truncated."""
    kind, number = kind_of(a, b), not hasattr(b, "dtype")
    if not is_floating(kind):
        left = ops.mod(ops.abs(a), abs(_divisor(b)) if number else ops.abs(_divisor(b)))
        return ops.where(ops.lt(a, 0), ops.neg(left), left)
    by = torch.full((), abs(b), dtype=TORCH[kind]).item() if number else ops.abs(b)  # the CPU rounds it to the dtype
    left = ops.mod(ops.abs(a), by)
    return ops.copysign(left, as_type(a, left.dtype))


def _divisor(b: Any) -> Any:
    """Returns b; raises NoKernel for the integer 0 and for bools. An integer divided by a 0 of a tensor gives 0."""
    return refuse("0 or bools") if getattr(b, "dtype", None) == "bool" or not (hasattr(b, "dtype") or b) else b


@row("clamp", "clamp.Tensor")
def clamp(x, low=None, high=None):
    """Returns x within limits."""
    if x.dtype == "bool" or (low is None and high is None):
        raise NoKernel("clamp")
    if hasattr(low, "dtype") or hasattr(high, "dtype"):
        return dispatch.call("clamp_between", x, low, high)
    return ops.clamp(x, low, high)


@row("elu")
def elu(x, alpha=1, scale=1, input_scale=1):
    """Returns the ELU, also with the scales of the SELU and CELU."""
    if scale == input_scale == 1:
        return ops.elu(floats(x), alpha)
    return dispatch.call("aten_scaled_elu", floats(x), float(alpha), float(scale), float(input_scale))


def _beside_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, function(a, b)))


TABLE |= {
    **dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), lambda a, b, alpha=1: sub(b, a, alpha=alpha)),
    "where.self": lambda on, a, b: ops.where(on if kind_of(on) in ("bool", "uint8") else refuse("no mask"), a, b),
    "masked_fill.Tensor": lambda x, mask, value: ops.masked_fill(
        x, mask, as_type(value, x.dtype) if hasattr(value, "dtype") else value
    ),
    **dict.fromkeys(("lerp.Scalar", "lerp.Tensor"), lambda a, b, weight: ops.lerp(floats(a), b, weight)),
    "addcmul": lambda x, a, b, *, value=1: ops.addcmul(x, a, b, value=value),
    "addcdiv": lambda x, a, b, *, value=1: ops.addcdiv(x, a, b, value=value),
    **dict.fromkeys(("clamp_min", "clamp_min.Tensor"), lambda x, low: clamp(x, low, None)),
    **dict.fromkeys(("clamp_max", "clamp_max.Tensor"), lambda x, high: clamp(x, None, high)),
    "round.decimals": lambda x, *, decimals=0: refuse("decimals") if decimals else ops.round(x),
    "nan_to_num": lambda x, nan=None, high=None, low=None: ops.nan_to_num(x, 0.0 if nan is None else nan, high, low),
    "isneginf": lambda x: ops.eq(floats(x), -inf),
    "isposinf": lambda x: ops.eq(floats(x), inf),
    "fmax": _beside_nan(ops.maximum),
    "fmin": _beside_nan(ops.minimum),
    "logit": lambda x, eps=None: ops.logit(floats(x) if (eps or 0) <= 0.5 else refuse("limits that cross"), eps),
    # Between poles higher derivatives lose digits in float32.
    "polygamma": lambda n, x: ops.polygamma(n, x) if n < 2 else refuse("a higher derivative"),
    "pow.Tensor_Scalar": lambda x, by: ops.pow(x, by) if by >= 0 or is_floating(kind_of(x, by)) else refuse("whole"),
    "frac": lambda x: ops.sub(floats(x), ops.trunc(x)),
    "log_sigmoid_forward": lambda x: (ops.logsigmoid(floats(x)), ENGINE.empty((0,), x.dtype)),
}


# -- reductions ------------------------------------------------------------------------------------------------------


@row("mean.dim")
def mean(x, dim=None, keepdim=False, *, dtype=None):
    """Returns the mean."""
    return ops.mean(floats(x) if dtype is None else x, axes(dim), keepdim, dtype=named(dtype))


TABLE |= {
    "linalg_vector_norm": lambda x, ord=2, dim=None, keepdim=False, *, dtype=None: ops.norm(
        floats(x if dtype is None else as_type(x, named(dtype))), ord, axes(dim), keepdim
    ),
}


def _argument(function: Callable[..., Any]) -> Callable[..., Any]:
    def argument(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if not x.ndim or not x.size:
            raise NoKernel("0-d or empty")
        if dim is None:
            flat = function(ops.reshape(x, (x.size,)), 0, False)
            return ops.reshape(flat, (1,) * x.ndim) if keepdim else flat
        return function(x, dim, keepdim)

    return argument


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    def truth(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim == []:
            raise NoKernel("no axes")
        result = function(x, axes(dim), keepdim)
        return as_type(result, "uint8") if x.dtype == "uint8" else result

    return truth


@row("histc")
def histc(x, bins=100, min=0, max=0):
    """Returns the number of elements in each bin; of integers too, as on CUDA. PyTorch has edges of halves."""
    if x.dtype in ("float16", "bfloat16"):
        raise NoKernel("edges of halves")
    counts = ops.histc(x if is_floating(x.dtype) else as_type(x, "float32"), bins, min, max)
    return as_type(counts, x.dtype)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def spread(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        return function(floats(x), axes(dim), 1 if correction is None else correction, keepdim)

    return spread


def _softmax(function: Callable[..., Any]) -> Callable[..., Any]:
    return ranked(lambda x, dim, wide: refuse("half_to_float") if wide else function(floats(x), dim))


TABLE |= {
    "sum.dim_IntList": lambda x, dim=None, keepdim=False, *, dtype=None: ops.sum(
        x, axes(dim), keepdim, dtype=named(dtype)
    ),
    "sum": lambda x, *, dtype=None: ops.sum(x, dtype=named(dtype)),
    "mean": lambda x, *, dtype=None: mean(x, None, dtype=dtype),
    "prod": lambda x, *, dtype=None: ops.prod(x, dtype=named(dtype)),
    "prod.dim_int": lambda x, dim, keepdim=False, *, dtype=None: ops.prod(x, dim, keepdim, dtype=named(dtype)),
    "amax": lambda x, dim=(), keepdim=False: ops.amax(x, axes(dim), keepdim),
    "amin": lambda x, dim=(), keepdim=False: ops.amin(x, axes(dim), keepdim),
    "max.dim": ranked(lambda x, dim, keepdim=False: ops.max(x, dim, keepdim)),
    "min.dim": ranked(lambda x, dim, keepdim=False: ops.min(x, dim, keepdim)),
    "aminmax": lambda x, *, dim=None, keepdim=False: (ops.amin(x, dim, keepdim), ops.amax(x, dim, keepdim)),
    "argmax": _argument(ops.argmax),
    "argmin": _argument(ops.argmin),
    **dict.fromkeys(("any", "any.dim", "any.dims"), _truth(ops.any)),
    **dict.fromkeys(("all", "all.dim", "all.dims"), _truth(ops.all)),
    "var.correction": _spread(ops.var),
    "std.correction": _spread(ops.std),
    "var_mean.correction": _spread(ops.var_mean),
    "std_mean.correction": _spread(ops.std_mean),
    "logsumexp": lambda x, dim, keepdim=False: ops.logsumexp(floats(x), axes(dim), keepdim),
    "count_nonzero.dim_IntList": lambda x, dim: ops.count_nonzero(x, axes(dim)),
    "count_nonzero": lambda x, dim=None: ops.count_nonzero(x, dim),
    "cumsum": ranked(lambda x, dim, *, dtype=None: ops.cumsum(x, dim, named(dtype))),
    "cumprod": ranked(lambda x, dim, *, dtype=None: ops.cumprod(x, dim, named(dtype))),
    "cummax": ranked(ops.cummax),
    "cummin": ranked(ops.cummin),
    "logcumsumexp": ranked(lambda x, dim: ops.logcumsumexp(floats(x), dim)),
    "linalg_cross": lambda a, b, *, dim=-1: dispatch.call(
        "linalg_cross", a, b if a.ndim == b.ndim else refuse("ranks"), axis=dim
    ),
    "_softmax": _softmax(ops.softmax),
    "_log_softmax": _softmax(ops.log_softmax),
}


TABLE |= {  # with the mask of what is kept
    "native_dropout": lambda x, p, train: ops.dropout(floats(x), p, train is not False, return_mask=True),
    "native_dropout_backward": lambda grad, kept, scale: dispatch.call(
        "dropout_apply", floats(grad), kept if kept.dtype == "bool" else refuse("a mask of numbers"), float(scale)
    ),
}


# -- order -----------------------------------------------------------------------------------------------------------


@row("bincount")
def bincount(x, weights=None, minlength=0):
    """Returns how often each number occurs, or the sums of their weights."""
    if weights is not None and weights.dtype not in ("float32", "float64"):
        weights = as_type(weights, named(torch.float64))
    return ops.bincount(x, weights, minlength)


@row("searchsorted.Tensor")
def searchsorted(ordered, x, *, out_int32=False, right=False, side=None, sorter=None):
    """Returns where elements belong in an order."""
    if sorter is not None or (side is not None and right):
        raise NoKernel("sorter")
    return ops.searchsorted(ordered, x, right, side, out_int32)


@row("_unique2")
def unique(x, sorted=True, return_inverse=False, return_counts=False):
    """Returns the distinct elements in order."""
    if return_inverse or return_counts:
        raise NoKernel("inverse")
    return ops.unique(x), ENGINE.empty((0,), "int64"), ENGINE.empty((0,), "int64")


TABLE |= {
    "sort": ranked(ops.sort),
    "sort.stable": ranked(lambda x, *, stable, dim=-1, descending=False: ops.sort(x, dim, descending)),
    "topk": ranked(ops.topk),
    "kthvalue": ranked(ops.kthvalue),
    "mode": ranked(ops.mode),
    "median": lambda x: ops.median(x) if x.size else refuse("empty"),
    "bucketize.Tensor": lambda x, boundaries, *, out_int32=False, right=False: ops.bucketize(
        x, boundaries, out_int32=out_int32, right=right
    ),
    "isin.Tensor_Tensor": lambda x, other, *, assume_unique=False, invert=False: ops.isin(
        x, other, assume_unique=assume_unique, invert=invert
    ),
}


# -- indexing --------------------------------------------------------------------------------------------------------


def _scattered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a scatter whose source may be larger than the index, as PyTorch's."""

    def scattered(x: Any, dim: int, index: Any, src: Any, *how: Any, **options: Any) -> Any:
        if not x.ndim or not index.ndim or (how and not index.size):
            raise NoKernel("0-d or empty")
        if hasattr(src, "shape") and src.shape != index.shape:
            src = ops.getitem(src, tuple(slice(0, length) for length in index.shape))
        return function(x, dim, index, src, *how, **options)

    return scattered


def _key(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Returns the indices of a tensor of ``shape`` as a key: slices for None, and the positions of the masks."""
    key: list[Any] = []
    for index in indices:
        if index is None:
            key.append(slice(None))
        elif index.dtype in ("bool", "uint8"):
            if not index.ndim or index.shape != shape[len(key) : len(key) + index.ndim]:
                raise NoKernel("a mask of another shape")
            key += ops.nonzero(index, as_tuple=True)
        else:
            key.append(index)
    return tuple(key)


@row("index.Tensor")
def index(x, indices):
    """Returns elements at positions."""
    key = _key(indices, x.shape) if x.ndim else refuse("0-d")
    places = [at for at, entry in enumerate(key) if not isinstance(entry, slice)]
    if len(places) == 1 and key[places[0]].size:  # whole slices
        return ops.index_select(x, places[0], key[places[0]])
    return ops.getitem(x, key)


@row("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(x, indices, values, accumulate=False, unsafe=False):
    """Returns x with values at positions."""
    key = _key(indices, x.shape) if x.ndim else refuse("0-d")
    places = [at for at, entry in enumerate(key) if not isinstance(entry, slice)]
    if len(places) < len(key):  # the indexed axes come to the front
        values = _in_front(x, key, places, values)
        order = places + [axis for axis in range(x.ndim) if axis not in places]
        made = ops.index_put(ops.clone(ops.permute(x, order)), [key[at] for at in places], values, accumulate)
        return ops.permute(made, [order.index(axis) for axis in range(x.ndim)])
    return ops.clone(x) if len(key) == 1 and not key[0].size else ops.index_put(x, key, values, accumulate)


@row("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x, dim, index, value):
    """Returns x with a number, or that of a 0-d tensor, at positions of an axis."""
    if not x.ndim or index.ndim != 1 or index.dtype != "int64" or getattr(value, "ndim", 0):
        raise NoKernel("shapes or dtypes")
    if not hasattr(value, "dtype"):
        number, value = torch.full((), value, dtype=TORCH[x.dtype]).item(), ENGINE.empty((), x.dtype)
        ENGINE.fill(value, number)
    value = as_type(value, x.dtype)
    return index_put(x, [None] * (dim % x.ndim) + [index], value)


def _in_front(x: Any, key: Any, places: list[int], values: Any) -> Any:
    """Returns values with the axes of the indices in front, where they are not if the indices are adjacent."""
    rank, at = max(key[place].ndim for place in places), places[0]
    whole = rank + x.ndim - len(places)
    if places != list(range(at, at + len(places))) or at == 0 or not values.ndim:
        return values
    if values.ndim < whole:
        values = ops.reshape(values, (1,) * (whole - values.ndim) + tuple(values.shape))
    return ops.permute(values, [*range(at, at + rank), *range(at), *range(at + rank, whole)])


@row("embedding_dense_backward")
def embedding_backward(grad, indices, num, padding_idx, scale):
    """Returns the gradient of the table."""
    shape = (num, grad.shape[-1]) if not scale else refuse("scale_grad_by_freq")
    if padding_idx >= 0:
        grad = ops.where(ops.unsqueeze(ops.ne(indices, padding_idx), -1), grad, 0.0)
    if not indices.size:
        return ENGINE.zeros(shape, grad.dtype)
    return dispatch.call("index_select_grad", grad, indices, 0, shape)


TABLE |= {
    "index_select": ranked(lambda x, dim, at: ops.index_select(x, dim, at if at.ndim == 1 else refuse("axes")), 1),
    "gather": ranked(lambda x, dim, index, *, sparse_grad=False: ops.gather(x, dim, index), 1),
    "scatter.src": _scattered(ops.scatter),
    "scatter.value": _scattered(ops.scatter),
    "scatter_add": _scattered(ops.scatter_add),
    "scatter_reduce.two": _scattered(ops.scatter_reduce),
    "index_add": ranked(lambda x, dim, index, src, *, alpha=1: ops.index_add(x, dim, index, src, alpha), 2),
    "index_copy": ranked(ops.index_copy, 2),
    "index_reduce": ranked(
        lambda x, dim, index, source, reduce, *, include_self=True: ops.index_reduce(
            x, dim, index, source, reduce, include_self=include_self
        ),
        2,
    ),
    "put": lambda x, index, source, accumulate=False: ops.reshape(
        index_put(ops.reshape(x, (x.size,)), [ops.reshape(index, (-1,))], ops.reshape(source, (-1,)), accumulate),
        x.shape,
    ),
    "take": lambda x, index: ops.take(x, index) if x.size and index.size else refuse("empty"),
    "embedding": lambda weight, indices, padding_idx=-1, scale=False, sparse=False: ops.take(weight, indices, 0),
}


# -- shapes ----------------------------------------------------------------------------------------------------------


@row("cat")
def cat(tensors, dim=0):
    """Returns tensors behind each other."""
    kept = [x for x in tensors if x.shape != (0,)] or list(tensors)[:1]
    dtype = promote(*[x.dtype for x in tensors])
    return ops.cat([as_type(x, dtype) for x in kept], dim)


def _bordered(mode: str) -> Callable[..., Any]:
    def bordered(x: Any, pad: Any, value: Any = 0) -> Any:
        if (min(pad, default=0) < 0 and mode != "constant") or not x.ndim:
            raise NoKernel("a negative pad")
        return ops.pad(x, list(pad), mode, value)

    return bordered


TABLE |= {
    "constant_pad_nd": _bordered("constant"),
    **dict.fromkeys((f"reflection_pad{rank}d" for rank in (1, 2, 3)), _bordered("reflect")),
    **dict.fromkeys((f"replication_pad{rank}d" for rank in (1, 2, 3)), _bordered("replicate")),
}


# -- products --------------------------------------------------------------------------------------------------------


def _by_vector(function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Returns a product by a vector, of an operand of ``rank`` and its dtype, as PyTorch's."""
    return lambda a, b: (
        function(a, b) if a.dtype is b.dtype and a.ndim == rank and b.ndim == 1 else refuse("operands that differ")
    )


TABLE |= products.TABLE | {"mv": _by_vector(ops.mv, 2), "dot": _by_vector(ops.dot, 1), "vdot": _by_vector(ops.dot, 1)}


# -- convolutions ----------------------------------------------------------------------------------------------------


def _convolution(rank: int, transposed: bool) -> Callable[..., Any]:
    return getattr(ops, f"conv{'_transpose' if transposed else ''}{rank}d")  # type: ignore[no-any-return]


@row("convolution")
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Returns a convolution, or a transposed one."""
    rank = weight.ndim - 2
    if x.ndim != weight.ndim or not x.size or not 1 <= rank <= 3:
        raise NoKernel("shape")
    if len({value.dtype for value in (floats(x), weight, bias) if value is not None}) != 1:
        raise NoKernel("operands of several dtypes")
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
    geometry = stride, padding, dilation, groups
    by_x = by_weight = None
    if output_mask[0] and transposed:
        by_x = _convolution(rank, False)(grad, weight, None, *geometry)
    elif output_mask[0]:
        by_x = getattr(ops, f"conv{rank}d_grad_input")(grad, weight, x.shape, *geometry)
    if output_mask[1]:
        source, by = (grad, x) if transposed else (x, grad)
        by_weight = getattr(ops, f"conv{rank}d_grad_weight")(source, by, weight.shape, *geometry)
    return by_x, by_weight, ops.sum(grad, (0, *range(2, grad.ndim))) if output_mask[2] else None


# -- pools -----------------------------------------------------------------------------------------------------------


def _pools(rank: int) -> dict[str, Callable[..., Any]]:
    """Returns the rows of pools over ``rank`` axes; netcl's gradients take a batch."""

    def batched(x: Any) -> Any:
        return x if x.ndim == rank + 2 else ops.reshape(x, (1, *x.shape))

    def back(name: str, grad: Any, x: Any, *args: Any) -> Any:
        made = dispatch.call(name, batched(grad), *args[:1], batched(x).shape, *args[1:])
        return made if x.ndim == rank + 2 else ops.reshape(made, made.shape[1:])

    def sizes(kernel: Any, stride: Any, *others: Any) -> tuple[Any, ...]:
        return tuple(_wide(value, rank) for value in (kernel, stride or kernel, *others))

    def places(indices: Any) -> Any:
        return as_type(batched(indices), "int32")

    def full(x: Any) -> Any:
        return floats(x) if x.size else refuse("empty")

    def pairs(result: Any) -> Any:
        return result[0], as_type(result[1], "int64")

    def averages_back(grad, x, kernel, stride, padding, *how):
        made = dispatch.call("avg_pool_grad", batched(grad), batched(x).shape, *sizes(kernel, stride, padding), *how)
        return made if x.ndim == rank + 2 else ops.reshape(made, made.shape[1:])

    def sections_back(grad, x):
        made = dispatch.call("adaptive_avg_pool_grad", batched(grad), batched(x).shape)
        return made if x.ndim == rank + 2 else ops.reshape(made, made.shape[1:])

    largest, average, sections, largest_of = (
        getattr(ops, f"{name}_pool{rank}d") for name in ("max", "avg", "adaptive_avg", "adaptive_max")
    )
    return {
        f"max_pool{rank}d_with_indices": lambda x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False: (
            pairs(largest(full(x), *sizes(kernel, stride, padding, dilation), ceil_mode, True))
        ),
        f"max_pool{rank}d_with_indices_backward": lambda grad, x, kernel, stride, padding, dilation, ceil_mode, at: (
            back("max_pool_grad", grad, x, places(at), *sizes(kernel, stride, padding, dilation), ceil_mode)
        ),
        f"avg_pool{rank}d": lambda x, kernel, stride=(), padding=(0,), *how, **options: average(
            full(x), *sizes(kernel, stride, padding), *how, **options
        ),
        f"avg_pool{rank}d_backward": averages_back,
        f"_adaptive_avg_pool{rank}d": lambda x, size: sections(full(x), list(size)),
        f"_adaptive_avg_pool{rank}d_backward": sections_back,
        f"adaptive_max_pool{rank}d": lambda x, size: pairs(largest_of(full(x), list(size), True)),
        f"adaptive_max_pool{rank}d_backward": lambda grad, x, at: back("adaptive_max_pool_grad", grad, x, places(at)),
    }


TABLE |= _pools(2) | _pools(3)


# -- normalizations --------------------------------------------------------------------------------------------------


def _computing(x: Any) -> Any:
    """Returns the dtype of statistics of ``x``: float32 for the halves."""
    return "float32" if x.dtype in ("float16", "bfloat16") else x.dtype


def _scales(x: Any, shape: Any, *parameters: Any) -> None:
    """Raises NoKernel for a weight or a bias of another shape, or of a dtype that PyTorch's norms of ``x`` refuse."""
    floats(x)
    for value in parameters:
        if value is not None and (value.shape != tuple(shape) or value.dtype not in (x.dtype, _computing(x))):
            raise NoKernel("a weight or a bias of another shape or dtype")


@row("native_layer_norm")
def layer_norm(x, shape, weight, bias, eps):
    """Returns the normalized x, the means and the reciprocal deviations."""
    _scales(x, shape, weight, bias)
    over = tuple(range(x.ndim - len(shape), x.ndim))
    if not x.size or tuple(x.shape[-len(shape) :]) != tuple(shape):
        raise NoKernel("shape")
    value, mean, rstd = dispatch.call("aten_layer_norm", x, weight, bias, axes=over, eps=eps)
    return value, mean, rstd


@row("native_layer_norm_backward")
def layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, output_mask):
    """Returns the gradients of a layer norm by x, weight and bias."""
    if not x.size:
        raise NoKernel("empty")
    by_x = None
    if output_mask[0]:
        over = tuple(range(x.ndim - len(shape), x.ndim))
        by_x = dispatch.call("aten_layer_norm_backward", grad, x, mean, rstd, weight, axes=over)
    rows = [ops.reshape(value, (x.size // prod(shape), -1)) for value in (grad, x, mean, rstd)]
    return by_x, *_norm_sums(rows, (0,), tuple(shape), x.dtype if weight is None else weight.dtype, output_mask)


def _norm_sums(operands: Any, over: Any, shape: Any, dtype: Any, output_mask: Any) -> tuple[Any, Any]:
    """Returns the gradients of a norm by its weight and its bias; None if the mask is False."""
    if not (output_mask[1] or output_mask[2]):
        return None, None
    sums = dispatch.call("aten_norm_sums", *operands, axes=over)
    by_weight, by_bias = (
        as_type(ops.reshape(total, shape), dtype) if wanted else None for total, wanted in zip(sums, output_mask[1:])
    )
    return by_weight, by_bias


@row("native_group_norm")
def group_norm(x, weight, bias, n, c, hxw, group, eps):
    """Returns the normalized x, and means and reciprocal deviations of the groups."""
    _scales(x, (c,), weight, bias)
    if not x.size or x.size != n * c * hxw:
        raise NoKernel("empty, or of another size")
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
    by_x, parts = None, (n, group, c // group, hxw)
    if output_mask[0]:
        by_value = grad if weight is None else as_type(ops.mul(grad, _column(weight, x.ndim)), grad.dtype)
        rows = (n, group, x.size // (n * group))
        m, r = (ops.reshape(value, (n, group, 1)) for value in (mean, rstd))
        by_x = dispatch.call(
            "aten_layer_norm_backward", ops.reshape(by_value, rows), ops.reshape(x, rows), m, r, None, axes=(2,)
        )
        by_x = ops.reshape(by_x, x.shape)
    shapes = (parts, parts, (n, group, 1, 1), (n, group, 1, 1))
    operands = [ops.reshape(value, shape) for value, shape in zip((grad, x, mean, rstd), shapes)]
    return by_x, *_norm_sums(operands, (0, 3), (c,), x.dtype if weight is None else weight.dtype, output_mask)


def _column(value: Any, rank: int) -> Any:
    return None if value is None else ops.reshape(value, (value.size,) + (1,) * (rank - 2))


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Returns (y, mean, reciprocal deviation, new running mean, new running variance)."""
    count = x.size // x.shape[1] if x.ndim > 1 and x.shape[1] else 0
    if not count:
        raise NoKernel("empty")
    _scales(x, (x.shape[1],), weight, bias, running_mean, running_var)
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
    by_x = None
    if output_mask[0]:
        if training:
            by_x = dispatch.call("aten_layer_norm_backward", grad, x, m, r, w, axes=over)
        else:
            by_x = as_type(ops.mul(ops.mul(grad, r), 1.0 if w is None else w), x.dtype)
    dtype = x.dtype if weight is None else weight.dtype
    return by_x, *_norm_sums((grad, x, m, r), over, (x.shape[1],), dtype, output_mask)


TABLE |= {
    "_native_batch_norm_legit.no_stats": lambda x, weight, bias, training, momentum, eps: batch_norm(
        x, weight, bias, None, None, training, momentum, eps
    )[:3],
    "_native_batch_norm_legit_no_training": lambda x, weight, bias, mean, var, momentum, eps: batch_norm(
        x, weight, bias, mean, var, False, momentum, eps
    )[:3],
    "_native_batch_norm_legit_functional": batch_norm,
}


# -- attention -------------------------------------------------------------------------------------------------------


@row("_scaled_dot_product_flash_attention_for_cpu")
def attention(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """Returns the attention and the logarithms of what its weights were divided by."""
    if dropout_p or q.ndim != 4 or q.shape[0] != k.shape[0] or q.shape[1] % k.shape[1]:
        raise NoKernel("dropout, or shapes")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return tuple(dispatch.call("tiled_attention", q, k, v, attn_mask, is_causal, scale))


@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(grad, q, k, v, out, lse, dropout_p, is_causal, *, attn_mask=None, scale=None):
    """Returns the gradients by q, k and v; a mask has none here."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    tensors = grad, q, k, v, attn_mask, out, lse
    return tuple(dispatch.call("tiled_attention_gradients", *tensors, is_causal, scale))


@row("_scaled_dot_product_efficient_attention")
def dropped_attention(q, k, v, mask, keeps, p=0.0, is_causal=False, *, scale=None):
    """Returns attention with dropout, and for its gradient the weights, and where they are kept, in the places of
    PyTorch's logarithms and seed.
    """
    if q.ndim != 4 or q.shape[:2] != k.shape[:2] or v.shape[:3] != k.shape[:3]:
        raise NoKernel("shapes")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = ops.matmul(as_type(q, _computing(q)), as_type(k, _computing(q)), transpose_b=True)
    weights = as_type(dispatch.call("attention_weights", scores, mask, causal=is_causal, scale=scale), q.dtype)
    dropped, kept = ops.dropout(weights, p, return_mask=True)
    return ops.matmul(dropped, v), weights, kept, ENGINE.empty((0,), "int64")


@row("_scaled_dot_product_efficient_attention_backward")
def dropped_attention_backward(
    grad, q, k, v, mask, out, weights, kept, offset, p, output_mask, is_causal=False, *, scale=None
):
    """Returns the gradients of attention with dropout by q, k and v; a mask has none here."""
    factors = q.shape[-1] ** -0.5 if scale is None else float(scale), 1 / (1 - p) if p < 1 else 0.0
    by_dropped = ops.matmul(grad, v, transpose_b=True)
    by_scores, dropped = dispatch.call("aten_dropped_weights_backward", by_dropped, weights, kept, *factors)
    by_k, by_v = (ops.matmul(a, b, transpose_a=True) for a, b in ((by_scores, q), (dropped, grad)))
    return ops.matmul(by_scores, k), by_k, by_v, None


# -- decompositions --------------------------------------------------------------------------------------------------


# PyTorch's decompositions of overloads that have no row: they call other kernels of the device.
DECOMPOSED = words(
    "mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward "
    "binary_cross_entropy binary_cross_entropy_backward nll_loss_backward nll_loss2d_backward nll_loss_forward "
    "nll_loss2d_forward embedding_dense_backward "
    "addr logaddexp2 select_backward slice_backward diagonal_backward index_add_ "
    "unfold_backward new_zeros frac triu_indices tril_indices rot90 logit_backward "
    "masked_scatter max_unpool2d max_unpool3d renorm multi_margin_loss channel_shuffle nansum addmv glu_backward"
)


__all__ = ["DECOMPOSED", "TABLE", "netcl"]
