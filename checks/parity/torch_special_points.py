"""Values, first and second derivatives at zeros, ties, bounds, infinities and NaN against PyTorch, in float64.

``DIFFERENT`` are those that differ on purpose; they are on the page of differences. ``v`` is the value, ``g`` the first
derivative by each operand, ``h`` the second.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netcl.torch as ours
from netcl.core.device import device

INF, NAN = float("inf"), float("nan")
LINE = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    6.0,
    25.0,
    -20.0,
    100.0,
    -100.0,
    1e3,
    -1e3,
    INF,
    -INF,
    NAN,
]
ROWS = [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [2.0, -2.0, 2.0], [0.0, 3.0, -3.0], [1.0, 2.0, 3.0]]
ROWS_AT_INFINITY = [[INF, 0.0, 1.0], [-INF, 1.0, -INF], [NAN, 1.0, 2.0], [INF, INF, 1.0], [NAN, NAN, 0.0]]
PAIRS = np.meshgrid(*[[0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, INF, -INF, NAN]] * 2)
PROBABILITIES = np.meshgrid(*[[0.0, 1.0, 0.5, 0.25]] * 2)

Function = Callable[..., Any]  # of the module, ``torch`` or ours, and operands


def _of(path: str, names: str) -> dict[str, Function]:
    """The functions of a module by their names."""

    def call(name: str) -> Function:
        def function(t: Any, *operands: Any) -> Any:
            module = t
            for part in path.split(".")[:-1]:
                module = getattr(module, part)
            return getattr(module, name)(*operands)

        return function

    return {name: call(name) for name in names.split()}


UNARY: dict[str, Function] = {
    **_of("", "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac i0 "
              "lgamma log log10 log1p log2 logit neg reciprocal round rsqrt sigmoid sign sin sinc sinh sqrt square tan "
              "tanh trunc nan_to_num"),
    **_of("special.", "entr erfcx i0e i1 i1e log_ndtr ndtr ndtri"),
    **_of("nn.functional.", "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu "
                            "relu6 selu silu softplus softshrink softsign tanhshrink"),
    "gelu of tanh": lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.5, 7.0),
    "clamp": lambda t, x: t.clamp(x, -1.0, 2.0),
    "polygamma": lambda t, x: t.special.polygamma(1, x),
    "cumprod": lambda t, x: t.cumprod(t.stack([x, x, t.zeros_like(x) + 2.0]), 0).reshape(-1),
    "cummax": lambda t, x: t.cummax(t.stack([x, x, -x]), 0)[0].reshape(-1),
    **{f"power {p}": lambda t, x, p=p: t.pow(x, p) for p in (0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 1.5, 2.5)},
    **{f"{base} ** x": lambda t, x, base=base: t.pow(base, x) for base in (0.0, 1.0, 2.0, 0.5)},
}  # fmt: skip
ALONG: dict[str, Function] = {
    **{name: lambda t, x, name=name: getattr(t, name)(x, 1)
       for name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp", "nansum", "softmax",
                    "log_softmax")},
    "max": lambda t, x: t.max(x, 1)[0],
    "median": lambda t, x: t.median(x, 1)[0],
    "median of all": lambda t, x: t.stack([t.median(row) for row in x.unbind(0)]),
    "max of all": lambda t, x: t.stack([t.max(row) for row in x.unbind(0)]),
    "topk": lambda t, x: t.topk(x, 2, 1)[0],
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (3,)),
    "cosine_similarity": lambda t, x: t.nn.functional.cosine_similarity(x, t.ones_like(x), 1),
    "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x[None], 2, 1),
    **{f"norm {p}": lambda t, x, p=p: t.linalg.vector_norm(x, p, 1)
       for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF, -INF, -1.0, -0.5)},
    **{f"normalize {p}": lambda t, x, p=p: t.nn.functional.normalize(x, p) for p in (0.5, 1.0, 2.0, 3.0)},
    **{f"cdist {p}": lambda t, x, p=p: t.cdist(x, t.zeros_like(x), p) for p in (0.0, 1.0, 1.5, 2.0, INF)},
}  # fmt: skip
OF_TWO: dict[str, Function] = {
    **_of("", "add sub mul div pow atan2 hypot maximum minimum fmax fmin logaddexp xlogy copysign fmod remainder"),
    "xlog1py": lambda t, a, b: t.special.xlog1py(a, b),
    "lerp": lambda t, a, b: t.lerp(a, b, 0.25),
    "where": lambda t, a, b: t.where(a > b, a, b),
    "clamp by tensors": lambda t, a, b: t.clamp(a, min=b, max=b + 1),
    **{name: lambda t, a, b, name=name: getattr(t.nn.functional, name)(a, b, reduction="none")
       for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss")},
    "gaussian_nll_loss": lambda t, a, b: t.nn.functional.gaussian_nll_loss(a, b, b.abs().detach(), reduction="none"),
    "hinge_embedding_loss": lambda t, a, b: t.nn.functional.hinge_embedding_loss(
        a, t.ones_like(b).detach() * -1, reduction="none"),
    "margin_ranking_loss": lambda t, a, b: t.nn.functional.margin_ranking_loss(
        a, b, t.ones_like(a).detach(), reduction="none"),
}  # fmt: skip
LOSSES: dict[str, Function] = {
    "binary_cross_entropy": lambda t, a, b: t.nn.functional.binary_cross_entropy(a, b, reduction="none"),
}

TABLE: dict[str, tuple[Function, tuple[Any, ...]]] = {
    **{name: (function, (LINE,)) for name, function in UNARY.items()},
    **{f"{name}, rows": (function, (ROWS,)) for name, function in ALONG.items()},
    **{f"{name}, rows at infinity": (function, (ROWS_AT_INFINITY,)) for name, function in ALONG.items()},
    **{f"{name} of two": (function, tuple(PAIRS)) for name, function in OF_TWO.items()},
    **{name: (function, tuple(PROBABILITIES)) for name, function in LOSSES.items()},
}

DIFFERENT: dict[str, str] = {
    "abs": "g0",
    "digamma": "g0 h00",
    "i0": "h00",
    "lgamma": "h00",
    "rsqrt": "g0",
    "sign": "v",
    "sinc": "h00",
    "erfcx": "h00",
    "i1": "g0 h00",
    "i1e": "g0 h00",
    "log_ndtr": "h00",
    "celu": "g0 h00",
    "elu": "g0 h00",
    "hardsigmoid": "g0",
    "hardswish": "v",
    "mish": "h00",
    "selu": "g0 h00",
    "softshrink": "g0",
    "polygamma": "v g0 h00",
    "power 1.5": "h00",
    "cosine_similarity, rows": "h00",
    "norm 0.5, rows": "h00",
    "norm 2.0, rows": "h00",
    "norm -1.0, rows": "h00",
    "norm -0.5, rows": "h00",
    "normalize 0.5, rows": "h00",
    "normalize 2.0, rows": "h00",
    "cdist inf, rows": "g0",
    "prod, rows at infinity": "g0 h00",
    "var, rows at infinity": "g0",
    "median, rows at infinity": "g0",
    "median of all, rows at infinity": "g0",
    "max of all, rows at infinity": "g0",
    "max_pool1d, rows at infinity": "g0",
    "norm 0.5, rows at infinity": "g0 h00",
    "norm 1.0, rows at infinity": "g0",
    "norm 3.0, rows at infinity": "g0 h00",
    "norm inf, rows at infinity": "g0",
    "norm -inf, rows at infinity": "g0",
    "norm -1.0, rows at infinity": "g0 h00",
    "norm -0.5, rows at infinity": "g0 h00",
    "normalize 0.5, rows at infinity": "g0",
    "normalize 3.0, rows at infinity": "g0",
    "cdist 0.0, rows at infinity": "v",
    "cdist 1.5, rows at infinity": "g0",
    "cdist inf, rows at infinity": "v g0",
    "div of two": "h00 h01 h11",
    "pow of two": "h00 h01",
    "atan2 of two": "h00 h01 h10 h11",
    "logaddexp of two": "h00 h01 h10 h11",
    "xlogy of two": "g0 h01 g1 h10 h11",
    "fmod of two": "g1",
    "xlog1py of two": "g0 h01 g1 h10 h11",
    "l1_loss of two": "g0 g1",
    "kl_div of two": "g1 h11",
    "hinge_embedding_loss of two": "g0",
    "margin_ranking_loss of two": "g0 g1",
    "binary_cross_entropy": "g0 h00 g1 h10",
}


def derivatives(t: Any, function: Function, values: tuple[Any, ...]) -> dict[str, Any]:
    """The value and both derivatives; what PyTorch does not differentiate is missing."""

    def array(x: Any, like: Any) -> Any:
        return np.zeros(like.shape) if x is None else (x.detach() + 0.0).numpy()

    operands = [t.tensor(np.array(value).tolist(), dtype=t.float64, requires_grad=True) for value in values]
    result = function(t, *operands)
    found = {"v": array(result, result)}
    if not result.requires_grad:
        return found
    weights = t.tensor(np.linspace(1.0, 1.5, found["v"].size).reshape(found["v"].shape).tolist(), dtype=t.float64)
    first = t.autograd.grad(result, operands, weights, create_graph=True, allow_unused=True)
    for i, (by, operand) in enumerate(zip(first, operands)):
        found[f"g{i}"] = array(by, operand)
        if by is None or not by.requires_grad:
            continue
        try:
            second = t.autograd.grad(by.sum(), operands, retain_graph=True, allow_unused=True)
        except (RuntimeError, NotImplementedError):
            continue
        found.update({f"h{i}{j}": array(each, other) for j, (each, other) in enumerate(zip(second, operands))})
    return found


def differing(name: str) -> str:
    """The parts in which ours differ from PyTorch's, separated by spaces."""
    function, values = TABLE[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"), device("cpu"):
        warnings.simplefilter("ignore")
        theirs, own = derivatives(torch, function, values), derivatives(ours, function, values)
        return " ".join(
            part
            for part in theirs
            if part in own and not np.allclose(own[part], theirs[part], rtol=1e-6, atol=1e-9, equal_nan=True)
        )


@pytest.mark.parametrize("name", TABLE)
def test_special_points(name: str) -> None:
    assert differing(name) == DIFFERENT.get(name, "")


def test_every_difference_is_one_of_the_table() -> None:
    assert not DIFFERENT.keys() - TABLE.keys()
