"""Elementwise rows."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import torch
import torch.nn.functional as F

from netcl.core.dtypes import NAMES, TORCH, canonical
from netcl.core.errors import DTypeError
from netcl.core.expr import FUNCTIONS as P
from netcl.core.expr import Load, compute, parse
from netcl.ops.kernels import WIDER, T, as_float, broadcast_shapes, exactly, numbers, pair, rows, unified


def _float(name: str) -> Any:
    function = getattr(torch, name)
    return lambda x: function(as_float(x))


def _whole(name: str) -> Any:
    function = getattr(torch, name)
    return numbers(lambda x: function(x) if x.is_floating_point() else x.clone())


def _bits(function: Any, name: str) -> Any:
    def compute(a: Any, b: Any) -> T:
        a, b = unified(name, a, b)
        if a.is_floating_point():
            raise DTypeError(f"{name} takes integers or bool, not {NAMES[a.dtype]}")
        wider = WIDER.get(a.dtype)
        return function(a, b) if wider is None else function(a.to(wider), b.to(wider)).to(a.dtype)  # type: ignore[no-any-return]

    return compute


def _shift(left: bool) -> Any:
    def compute(a: T, b: T) -> T:
        width = torch.iinfo(a.dtype).bits
        safe = b.clamp(0, width - 1)
        if left:
            return torch.where((b < 0) | (b >= width), torch.zeros_like(a), a << safe)
        return torch.where(b < 0, torch.zeros_like(a), a >> safe)

    return compute


def _where(condition: Any, a: Any, b: Any) -> T:
    if not isinstance(a, T) and not isinstance(b, T):
        zero = torch.zeros((), dtype=torch.int64)
        a, b, _ = unified("where", a, b, zero) if not isinstance(a, bool) or not isinstance(b, bool) else (
            torch.tensor(a), torch.tensor(b), zero)  # fmt: skip
    else:
        a, b = unified("where", a, b)
    condition = condition if isinstance(condition, T) else torch.tensor(condition)
    broadcast_shapes([tuple(one.shape) for one in (condition, a, b)], "where")
    return torch.where(condition if condition.dtype == torch.bool else condition != 0, a, b)


def _limits(x: T, min: Any, max: Any) -> tuple[T, Any, Any]:
    """x with its limits, of the dtype to which they promote."""
    if x.dtype == torch.bool:
        raise DTypeError("clamp takes numbers, not bool")
    limits = [min, max]
    for place, bound in enumerate(limits):
        if isinstance(bound, (int, float)) and not x.is_floating_point():
            if isinstance(bound, float) and bound != bound // 1:
                x = x.to(torch.float32)
            else:
                info = torch.iinfo(x.dtype)
                limits[place] = info.min if bound < info.min else info.max if bound > info.max else int(bound)
    if any(isinstance(one, T) for one in limits):
        given = unified("clamp", x, *(one for one in limits if one is not None))
        x, rest = given[0], iter(given[1:])
        limits = [None if one is None else next(rest) for one in limits]
    return x, limits[0], limits[1]


def _clamp(x: T, min: Any = None, max: Any = None) -> T:
    """The gradient at a limit goes to x, as in PyTorch up to 2.13; from 2.14 on its own clamp has none there."""
    x, low, high = _limits(x, min, max)
    if (low is None and high is None) or not x.is_floating_point():
        return x.clone() if low is None and high is None else torch.clamp(x, low, high)
    least, most = -inf if low is None else low, inf if high is None else high
    above, below = (x > most) | torch.as_tensor(most < least), (x < least) & torch.as_tensor(least < most)
    value = torch.clamp(x, low, high).detach()
    limit = torch.where(above & ~value.isnan(), most, torch.where(below & ~value.isnan(), least, value))
    return torch.where((x >= least) & (x <= most), x, limit)


def _cast(x: T, *, dtype: str = "float32") -> T:
    return x.to(TORCH[canonical(dtype)], copy=True)


def _logit(x: T, eps: Any = None) -> T:
    x = as_float(x)
    return torch.logit(x) if eps is None else torch.logit(x, eps)


def _hard_sigmoid(x: T) -> T:
    """PyTorch's own has no second derivative, and a clamp has a gradient at its limits."""
    return torch.where(x <= -3, 0.0, torch.where(x >= 3, 1.0, x / 6 + 0.5))


def _softplus(x: T, beta: float = 1.0, threshold: float = 20.0) -> T:
    return F.softplus(as_float(x), beta, threshold)


def _nan_to_num(x: T, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> T:
    return torch.nan_to_num(x, nan, posinf, neginf) if x.is_floating_point() else x.clone()


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> T:
    a, b = unified("isclose", a, b)
    if not a.is_floating_point():
        a, b = a.to(torch.float64), b.to(torch.float64)
    return torch.isclose(*torch.broadcast_tensors(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan)


def _nextafter(a: T, b: T) -> T:
    if a.dtype in (torch.float16, torch.bfloat16):
        whole = a.contiguous().view(torch.int16).to(torch.int32)
        ordered = torch.where(whole < 0, -(whole & 0x7FFF), whole)
        step = torch.where(b > a, 1, torch.where(b < a, -1, 0))
        moved = ordered + step
        raw = torch.where(moved < 0, -moved | 0x8000, moved).to(torch.int16).view(a.dtype)
        raw = torch.where(torch.isnan(a) | torch.isnan(b), torch.full_like(a, nan), raw)
        graph = torch.nextafter(a.float(), b.float()).to(a.dtype)  # which has the gradient
        return torch.where(torch.isfinite(graph) & torch.isfinite(raw), graph + (raw - graph).detach(), raw)
    return torch.nextafter(a, b)


def _by_text(text: str, *values: Any) -> T:
    from netcl.ops.table import _engine_of

    given = unified("elementwise", *values)
    node = parse(text, [Load(slot, NAMES[one.dtype]) for slot, one in enumerate(given)])
    (result,) = compute((node,), given, {}, _engine_of(given))
    return result.to(given[0].dtype) if result.dtype != torch.bool else result


rows("widest", {f"{name}(x: Tensor)": _float(name) for name in ["acos", "asin", "atan", "cos", "cosh", "sin", "sinh", "tan", "rsqrt", "reciprocal", "erf", "acosh", "asinh", "atanh", "digamma", "erfc", "erfinv", "lgamma"]})  # fmt: skip
rows(
    "float32",
    {f"{name}(x: Tensor)": _float(name) for name in ["expm1", "log", "log1p", "exp2", "i0", "log10", "log2", "sinc"]},
)
rows("widest", {f"{name}(x: Tensor)": _whole(name) for name in ["ceil", "floor", "round", "trunc"]}, constant=True)
rows("widest", {f"{name}(x: Tensor)": numbers(getattr(torch, name)) for name in ["abs", "square"]})
rows("widest", {"sign(x: Tensor)": numbers(
    lambda x: torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)
)}, constant=True)  # fmt: skip
rows("widest", {f"{name}(x: Tensor)": _float(name) for name in ("sqrt", "tanh", "sigmoid")}, reads="result")
rows("float32", {"exp(x: Tensor)": _float("exp")}, reads="result")
rows(
    "widest",
    {"relu(x: Tensor)": numbers(lambda x: torch.relu(x) if x.dtype != torch.bool else x.clone())},
    reads="result",
)
rows("widest", {
    "neg(x: Tensor)": numbers(torch.neg), "clone(x: Tensor)": lambda x: x.clone(memory_format=torch.contiguous_format),
    "cast(x: Tensor, *, dtype='float32')": _cast,
}, reads="nothing")  # fmt: skip
rows("widest", {
    "clamp(x: Tensor, min=None, max=None)": _clamp,
    "clip(x: Tensor, min=None, max=None)": _clamp,
    "nan_to_num(x: Tensor, nan=0.0, posinf=None, neginf=None)": _nan_to_num,
    "logit(x: Tensor, eps=None)": _logit,
    "softplus(x: Tensor, beta=1.0, threshold=20.0)": _softplus,
    "celu(x: Tensor, alpha=1.0)": lambda x, alpha=1.0: F.celu(as_float(x), alpha),
    "elu(x: Tensor, alpha=1.0)": lambda x, alpha=1.0: F.elu(as_float(x), alpha),
    "gelu(x: Tensor, *, approximate='none')": lambda x, *, approximate="none": F.gelu(as_float(x), approximate=approximate),
    "hard_sigmoid(x: Tensor)": lambda x: _hard_sigmoid(as_float(x)),
    "hard_swish(x: Tensor)": lambda x: as_float(x) * _hard_sigmoid(as_float(x)),
    "hard_tanh(x: Tensor, min_val=-1.0, max_val=1.0)": lambda x, min_val=-1.0, max_val=1.0: F.hardtanh(
        as_float(x), min_val, max_val),
    "hardshrink(x: Tensor, lambd=0.5)": lambda x, lambd=0.5: F.hardshrink(as_float(x), lambd),
    "leaky_relu(x: Tensor, slope=0.01)": lambda x, slope=0.01: F.leaky_relu(as_float(x), slope),
    "logsigmoid(x: Tensor)": lambda x: F.logsigmoid(as_float(x)),
    "mish(x: Tensor)": lambda x: F.mish(as_float(x)),
    "relu6(x: Tensor)": lambda x: F.relu6(x),
    "selu(x: Tensor)": lambda x: F.selu(as_float(x)),
    "silu(x: Tensor)": lambda x: F.silu(as_float(x)),
    "swish(x: Tensor)": lambda x: F.silu(as_float(x)),
    "softshrink(x: Tensor, lambd=0.5)": lambda x, lambd=0.5: F.softshrink(as_float(x), lambd),
    "softsign(x: Tensor)": lambda x: F.softsign(as_float(x)),
    "tanhshrink(x: Tensor)": lambda x: torch.where(
        as_float(x).abs() < 0.05, (v := as_float(x)) ** 3 * (1 / 3 - v * v * (2 / 15 - v * v * 17 / 315)),
        as_float(x) - torch.tanh(as_float(x))),
    "threshold(x: Tensor, threshold=0.1, value=0.0)": lambda x, threshold=0.1, value=0.0: F.threshold(
        as_float(x), threshold, value),
    "elementwise_unary(x: Tensor, expression='')": lambda x, expression="": _by_text(expression, x),
})  # fmt: skip
rows("float32", {
    **{f"{name}(x: Tensor, p)": lambda x, p: (
        exactly("multigammaln", p >= 1, f"p is at least 1, not {p}"), torch.mvlgamma(as_float(x), p))[1]
       for name in ("multigammaln", "mvlgamma")},
    "polygamma(n, x: Tensor)": lambda n, x: torch.polygamma(n, as_float(x)),
})  # fmt: skip
rows("widest", {f"{name}(a: Tensor, b: Tensor)": pair(name, P[name]) for name in ["maximum", "minimum", "mod", "pow"]}, elementwise=True)  # fmt: skip
rows("widest", {f"{name}(a: Tensor, b: Tensor)": pair(name, P[name]) for name in ("add", "sub")}, elementwise=True, reads="nothing")  # fmt: skip
rows("widest", {"mul(a: Tensor, b: Tensor)": pair("mul", P["mul"])}, elementwise=True)
rows("widest", {f"{name}(a: Tensor, b: Tensor)": pair(name, P[name], floating=True) for name in ["div", "atan2", "copysign", "hypot"]}, elementwise=True)  # fmt: skip
rows("float32", {f"{name}(a: Tensor, b: Tensor)": pair(name, getattr(torch, name), floating=True) for name in ["logaddexp", "xlogy"]}, elementwise=True)  # fmt: skip
rows("float32", {f"{name}(a: Tensor, b: Tensor)": pair(name, getattr(torch, name), floating=True) for name in ["igamma", "igammac"]}, elementwise=True, by_all=False)  # fmt: skip
rows("widest", {
    "lerp(a: Tensor, b: Tensor, weight: Tensor)": pair("lerp", torch.lerp, floating=True),
    "prelu(x: Tensor, alpha: Tensor)": pair("prelu", lambda x, alpha: torch.where(x > 0, x, alpha * x), floating=True),
    "elementwise_binary(a: Tensor, b: Tensor, expression='')": lambda a, b, expression="": _by_text(expression, a, b),
    "nextafter(a: Tensor, b: Tensor)": pair("nextafter", _nextafter, floating=True),
}, elementwise=True)  # fmt: skip
rows("widest", {"where(condition: Tensor, a: Tensor, b: Tensor)": _where}, elementwise=True)  # fmt: skip
rows("widest", {
    **{f"{name}(a: Tensor, b: Tensor)": pair(name, P[name], compare=True) for name in ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"]},
    "floor_divide(a: Tensor, b: Tensor)": pair("floor_divide", P["floor_divide"]),
    "heaviside(a: Tensor, b: Tensor)": pair("heaviside", lambda a, b: torch.where(
        a == 0, b, (a > 0).to(a.dtype))),
    "isclose(a: Tensor, b: Tensor, rtol=1e-05, atol=1e-08, equal_nan=False)": _isclose,
    "bitwise_and(a: Tensor, b: Tensor)": _bits(torch.bitwise_and, "bitwise_and"),
    "bitwise_or(a: Tensor, b: Tensor)": _bits(torch.bitwise_or, "bitwise_or"),
    "bitwise_xor(a: Tensor, b: Tensor)": _bits(torch.bitwise_xor, "bitwise_xor"),
    "left_shift(a: Tensor, b: Tensor)": _bits(_shift(True), "left_shift"),
    "right_shift(a: Tensor, b: Tensor)": _bits(_shift(False), "right_shift"),
}, elementwise=True, gradient=False)  # fmt: skip
rows("widest", {
    **{f"{name}(x: Tensor)": numbers(getattr(torch, name)) for name in ["isfinite", "isinf", "isnan", "logical_not", "signbit"]},
    "bitwise_not(x: Tensor)": lambda x: _bits(lambda a, b: torch.bitwise_not(a), "bitwise_not")(x, x),
}, gradient=False)  # fmt: skip
