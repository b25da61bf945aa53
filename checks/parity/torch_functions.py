"""Functions of torch, torch.nn.functional, torch.linalg and torch.special: values, dtypes, gradients."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl as nc
import netcl.nn.functional as nf
from netcl.core.tensor.absent import ABSENT, ABSENT_FUNCTIONS

RNG = np.random.default_rng(18)


def uniform(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    return RNG.uniform(low, high, shape).astype(np.float32)


def distinct(*shape: int) -> Any:
    return RNG.permutation(np.linspace(-2, 2, int(np.prod(shape)))).reshape(shape).astype(np.float32)


# name: (function of (module, *tensors), arrays, True if floating arrays are differentiated)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {}
_MODULES = {
    "nc": (torch, nc),
    "F": (F, nf),
    "linalg": (torch.linalg, nc.linalg),
    "special": (torch.special, nc.special),
}


def case(space: str, name: str, *arrays: Any, grad: bool = True, call: Any = None, **attributes: Any) -> None:
    """A call of ``name`` in a module with the arrays as tensors; ``call(function, *tensors)`` for another form."""
    shown = f"{space}.{name} {len(CASES)}"

    def function(module: Any, *tensors: Any) -> Any:
        found = getattr(module, name)
        return call(found, *tensors) if call is not None else found(*tensors, **attributes)

    function.space = space  # type: ignore[attr-defined]
    CASES[shown] = (function, arrays, grad)


def outputs(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, (tuple, list)):
        return [one for each in result for one in outputs(each)]
    return [result]


def is_floating(x: Any) -> bool:
    return str(x.dtype).removeprefix("torch.") in ("float16", "bfloat16", "float32", "float64")


# -- torch.nn.functional -----------------------------------------------------------------------------------------------

_SAMPLES = RNG.random((2, 3, 2)).astype(np.float32)
case("F", "fractional_max_pool2d", distinct(2, 3, 7, 5), _SAMPLES, call=lambda f, x, s: f(
    x, (2, 3), (3, 2), return_indices=True, _random_samples=s.detach()))  # fmt: skip
case("F", "fractional_max_pool2d", distinct(2, 3, 9, 8), _SAMPLES, call=lambda f, x, s: f(
    x, 2, output_ratio=(0.6, 0.7), _random_samples=s.detach()))  # fmt: skip
_SAMPLES = RNG.random((2, 3, 3)).astype(np.float32)
case("F", "fractional_max_pool3d", distinct(2, 3, 5, 6, 7), _SAMPLES, call=lambda f, x, s: f(
    x, 2, (2, 3, 4), return_indices=True, _random_samples=s.detach()))  # fmt: skip
for _n in (1, 2, 3):
    case("F", f"max_pool{_n}d_with_indices", distinct(2, 3, *(6,) * _n), kernel_size=2)
    case("F", f"adaptive_max_pool{_n}d_with_indices", distinct(2, 3, *(6,) * _n), output_size=4)
    case("F", f"lp_pool{_n}d", uniform(2, 3, *(6,) * _n, low=0.1), norm_type=2.0, kernel_size=2)
    case("F", "local_response_norm", uniform(2, 5, *(3,) * _n), size=3, alpha=0.5, beta=0.6, k=2.0)
    case("F", "local_response_norm", uniform(2, 5, *(3,) * _n), size=4)
    case("F", "channel_shuffle", uniform(2, 6, *(3,) * _n), groups=3)
case("F", "native_channel_shuffle", uniform(2, 6, 3, 3), grad=False, groups=2)
case("F", "upsample_nearest", uniform(2, 3, 4, 5), scale_factor=2)
case("F", "upsample_bilinear", uniform(2, 3, 4, 5), size=(7, 3))
case("F", "rrelu", uniform(4, 5))
case("F", "bilinear", uniform(4, 3), uniform(4, 2), uniform(5, 3, 2), uniform(5))
case("F", "conv_tbc", uniform(6, 2, 3), uniform(3, 3, 4), uniform(4), pad=1)
for _name, _more in (
    ("celu_", (0.7,)), ("elu_", (0.7,)), ("hardtanh_", (-0.5, 0.7)), ("leaky_relu_", (0.3,)), ("relu_", ()),
    ("selu_", ()), ("threshold_", (0.3, 1.0)), ("rrelu_", ()),
):  # fmt: skip
    case("F", _name, uniform(4, 5), call=lambda f, x, more=_more: f(x * 1, *more))
for _name in ("alpha_dropout", "feature_alpha_dropout", "rrelu"):
    case("F", _name, uniform(4, 5, 3), training=False)


_TABLE, _PLACES = uniform(6, 4), np.array([[0, 2, 2], [5, 0, 2]])
for _more in (
    {}, {"padding_idx": 2}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}, {"max_norm": 1.0, "norm_type": 1.0},
):  # fmt: skip
    case("F", "embedding", _PLACES, _TABLE, call=lambda f, i, w, more=_more: f(i, w * 1, **more))
    for _mode in ("sum", "mean"):  # PyTorch counts other rows than those of the gradient
        case("F", "embedding_bag", _PLACES, _TABLE, grad="scale_grad_by_freq" not in _more,
             call=lambda f, i, w, more=_more, mode=_mode: f(i, w * 1, mode=mode, **more))  # fmt: skip
case("F", "embedding_bag", _PLACES.reshape(-1), _TABLE, np.array([0, 2, 2]), mode="max")
case("F", "embedding_bag", _PLACES, _TABLE, uniform(2, 3), call=lambda f, i, w, p: f(
    i, w, None, None, 2.0, False, "sum", False, p))  # fmt: skip

# -- torch -------------------------------------------------------------------------------------------------------------

_X, _Y = uniform(3, 5), uniform(3, 5)
_WHOLE = RNG.integers(-5, 6, (3, 5))


def _several(f: Any, *tensors: Any) -> Any:
    return f(list(tensors))


for _name in ("concat", "concatenate", "row_stack"):
    case("nc", _name, _X, _Y, call=_several)
case("nc", "concat", _X, _Y, call=lambda f, x, y: f((x, y), dim=1))
case("nc", "chain_matmul", uniform(3, 4), uniform(4, 2), uniform(2, 5), uniform(5, 3))
case("nc", "block_diag", uniform(2, 3), uniform(2), uniform(3, 1), uniform())
case("nc", "block_diag", uniform(2, 3), _WHOLE)
case("nc", "broadcast_tensors", uniform(3, 1), uniform(1, 4))
for _name in ("std_mean", "var_mean"):
    case("nc", _name, _X)
    case("nc", _name, _X, dim=1, keepdim=True)
    case("nc", _name, _X, dim=(0, 1), correction=0)
    case("nc", _name, _X, dim=0, unbiased=False)
for _array in (_WHOLE, _WHOLE.astype(np.float32)):
    case("nc", "isin", _array, np.array([1, 3, -2]))
    case("nc", "isin", _array, np.array([[1, 3], [-2, 4]], np.float32), invert=True)
    case("nc", "isin", _array, np.arange(40) * 3)
    case("nc", "isin", _array, call=lambda f, x: f(x, 2))
    case("nc", "isin", _array, call=lambda f, x: f(2.0, x))
for _name in ("trapezoid", "trapz", "cumulative_trapezoid"):
    case("nc", _name, _X)
    case("nc", _name, _X, dx=0.3, dim=0)
    case("nc", _name, _X, uniform(5))
    case("nc", _name, _X, uniform(3), dim=0)
    case("nc", _name, _X, _Y, dim=0)
    case("nc", _name, _WHOLE)
    case("nc", _name, uniform(2, 3, 4), uniform(3, 1), dim=1)
# The derivatives of PyTorch's vander, and of some forms that write in place, fail.
case("nc", "vander", uniform(4), grad=False)
case("nc", "vander", uniform(4), grad=False, N=3, increasing=True)
case("nc", "vander", np.array([1, 2, 5]))
for _given in (
    {}, {"spacing": 0.5}, {"spacing": [0.5, 2.0]}, {"dim": 1, "edge_order": 2}, {"dim": (0,), "spacing": 2.0},
):  # fmt: skip
    case("nc", "gradient", _X, **_given)
_PLACES = (np.array([0.0, 0.5, 2.0], np.float32), np.array([-1, 0, 0.5, 2, 4], np.float32))
case("nc", "gradient", _X, *_PLACES, call=lambda f, x, a, b: f(x, spacing=(a.detach(), b.detach())))
case("nc", "gradient", _X, *_PLACES, call=lambda f, x, a, b: f(x, spacing=(a.detach(), b.detach()), edge_order=2))
case("nc", "gradient", _WHOLE)
case("nc", "unravel_index", RNG.integers(0, 24, (2, 3)), shape=(2, 3, 4))
case("nc", "unravel_index", np.array([3, 5]), shape=7)
case("nc", "fill", _X, value=2.5)
case("nc", "fill", _WHOLE, value=2)
case("nc", "fill", _X, uniform())
case("nc", "rsub", _X, _Y, alpha=2)
case("nc", "rsub", _X, other=3)
case("nc", "rsub", _WHOLE, other=3)
case("nc", "put", _X, np.array([1, 7]), uniform(2))
case("nc", "constant_pad_nd", _X, pad=(1, 2), value=0.5)
case("nc", "frobenius_norm", _X, dim=1, keepdim=True)
case("nc", "frobenius_norm", _X, dim=(0, 1))
case("nc", "nuclear_norm", _X, keepdim=True)
case("nc", "norm_except_dim", uniform(3, 4, 2), pow=2, dim=1)
case("nc", "norm_except_dim", uniform(3, 4, 2), pow=2, dim=-1)
case("nc", "native_channel_shuffle", uniform(2, 6, 3, 3), 3, grad=False, call=lambda f, x, n: f(x, 3))
case("nc", "max_pool1d_with_indices", distinct(2, 3, 8), kernel_size=2)
for _modes in ((0, 0), (1, 1), (2, 2)):
    case("nc", "grid_sampler", uniform(1, 2, 4, 4), uniform(1, 3, 3, 2, low=-0.9, high=0.9),
         grad=_modes[0] != 1, call=lambda f, x, grid, modes=_modes: f(x, grid, *modes, False))  # fmt: skip
case("nc", "affine_grid_generator", uniform(2, 2, 3), call=lambda f, x: f(x, (2, 1, 3, 4), True))
_W, _H = uniform(12, 4), uniform(12, 3)
case("nc", "lstm_cell", uniform(2, 4), uniform(2, 3), uniform(2, 3), _W, _H, uniform(12), uniform(12),
     call=lambda f, x, h, c, *w: f(x, (h, c), *w))  # fmt: skip
case("nc", "gru_cell", uniform(2, 4), uniform(2, 3), _W[:9], _H[:9], uniform(9), uniform(9))
case("nc", "rnn_tanh_cell", uniform(2, 4), uniform(2, 3), _W[:3], _H[:3], uniform(3), uniform(3))
case("nc", "rnn_relu_cell", uniform(2, 4), uniform(2, 3), _W[:3], _H[:3])
for _name, _more in (
    ("alias_copy", ()), ("diagonal_copy", ()), ("expand_copy", ((2, 3, 5),)), ("permute_copy", ((1, 0),)),
    ("select_copy", (1, 2)), ("slice_copy", (1, 1, 4, 2)), ("split_copy", (2,)), ("split_with_sizes_copy", ([1, 2],)),
    ("squeeze_copy", ()), ("t_copy", ()), ("transpose_copy", (0, 1)), ("unbind_copy", ()), ("unfold_copy", (1, 2, 1)),
    ("unsqueeze_copy", (1,)), ("view_copy", ((5, 3),)), ("detach_copy", ()), ("detach", ()),
):  # fmt: skip
    case("nc", _name, _X, grad=_name != "detach_copy", call=lambda f, x, more=_more: f(x, *more))
for _name in ["bartlett_window", "hann_window", "hamming_window", "blackman_window", "kaiser_window"]:  # fmt: skip
    for _periodic in (True, False):
        case("nc", _name, call=lambda f, periodic=_periodic: f(9, periodic))
case("nc", "kaiser_window", call=lambda f: f(7, True, 5.0))
case("nc", "range", call=lambda f: f(1, 4))
case("nc", "range", call=lambda f: f(0.5, 3, 0.75))
case("nc", "scalar_tensor", call=lambda f: f(3))
case("nc", "scalar_tensor", call=lambda f: f(2.5))
case("nc", "asarray", call=lambda f: f([[1, 2], [3, 4]]))
case("nc", "asarray", call=lambda f: f([1.5, 2]))
case("nc", "asarray", call=lambda f: f(np.arange(3, dtype=np.float64)))
case("nc", "frombuffer", call=lambda f: f(bytearray(range(24)), dtype=(
    torch.int16 if f is torch.frombuffer else "int16"), count=3, offset=2))  # fmt: skip
# Each function that writes into its operand, on a result of an op, so that the gradient passes through.
_UNIT = uniform(3, 4, low=0.1, high=0.9)
_SMOOTH = """
abs_ acos_ arccos_ arcsin_ arctan_ asin_ atan_ conj_physical_ cos_ cosh_ deg2rad_ erf_ erfc_ exp2_ exp_ expm1_ frac_ i0_
log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ rsqrt_ selu_ celu_ sigmoid_ sin_
sinc_ sinh_ sqrt_ square_ tan_ tanh_ zero_
"""
_STEPS = "ceil_ fix_ floor_ round_ trunc_ arcsinh_ arctanh_ asinh_ atanh_"  # gradients of steps are None here
for _name in (_SMOOTH + _STEPS).split():
    case("nc", _name, _UNIT, grad=_name not in _STEPS, call=lambda f, x: f(x * 1))
for _name in ("acosh_", "arccosh_"):
    case("nc", _name, _UNIT + 1, grad=False)
case("nc", "clamp_", _UNIT, call=lambda f, x: f(x * 1, 0.3, 0.6))
case("nc", "clip_", _UNIT, call=lambda f, x: f(x * 1, max=0.6))
case("nc", "clamp_min_", _UNIT, call=lambda f, x: f(x * 1, 0.3))
case("nc", "clamp_max_", _UNIT, call=lambda f, x: f(x * 1, 0.3))
case("nc", "fill_", _UNIT, call=lambda f, x: f(x * 1, 2.0))
case("nc", "threshold_", _UNIT, call=lambda f, x: f(x * 1, 0.5, 2.0))
case("nc", "xlogy_", _UNIT, _UNIT + 1, call=lambda f, x, y: f(x * 1, y))
case("nc", "gcd_", np.array([12, 18]), np.array([8, 27]))
case("nc", "lcm_", np.array([12, 18]), np.array([8, 27]))
case("nc", "ldexp_", _UNIT, np.array([1, 2, 3, 4]), call=lambda f, x, y: f(x * 1, y))
case("nc", "addmv_", uniform(3), uniform(3, 4), uniform(4), call=lambda f, x, a, b: f(x * 1, a, b, beta=0.5))
case("nc", "index_put_", _UNIT, np.array([0, 2]), call=lambda f, x, i: f(x * 1, (i,), x[:2] * 0, True))
case("nc", "detach_", _UNIT, grad=False)
case("nc", "as_strided_", _UNIT, call=lambda f, x: f(x * 1, (2, 2), (1, 2)))
case("nc", "as_strided_", uniform(3, 4), call=lambda f, x: f(x * 1, (2, 3), (4, 1), 2))
case("nc", "resize_as_", _UNIT, uniform(2), grad=False)
case("nc", "resize_as_", uniform(3, 4), uniform(2, 5), grad=False)
for _name in ("alpha_dropout_", "dropout_", "feature_alpha_dropout_", "feature_dropout_"):
    case("nc", _name, _UNIT, call=lambda f, x: f(x * 1, 0.5, False))


# -- torch.linalg ------------------------------------------------------------------------------------------------------

_SQUARE = (uniform(2, 4, 4) + 4 * np.eye(4)[::-1]).astype(np.float32)
_POSITIVE = (_SQUARE @ _SQUARE.swapaxes(-1, -2)).astype(np.float32)
_SINGULAR = np.stack([_POSITIVE[0], np.diag([1.0, 2.0, 0.0, 1.0]).astype(np.float32)])
_SIDE = uniform(2, 4, 3)
for _shapes in (((3, 4), (4, 2), (2, 5), (5, 3)), ((4,), (4, 2), (2,)), ((3, 2), (2, 3)), ((5,), (5, 2), (2, 3))):
    case("linalg", "multi_dot", *(uniform(*shape) for shape in _shapes), call=_several)
for _upper in (True, False):
    for _more in ({}, {"unitriangular": True}):
        case("linalg", "solve_triangular", _SQUARE + 9 * np.eye(4, dtype=np.float32), _SIDE, upper=_upper, **_more)
    case("linalg", "solve_triangular", _POSITIVE, uniform(3, 4), upper=_upper, left=False)
    case("linalg", "cholesky_ex", _POSITIVE, upper=_upper)
case("linalg", "cholesky_ex", _SINGULAR, grad=False, call=lambda f, x: (f(x)[0][0], f(x)[1]))
case("linalg", "inv_ex", _SQUARE)
case("linalg", "inv_ex", _SINGULAR, grad=False, call=lambda f, x: (f(x)[0][0], f(x)[1]))
case("linalg", "solve_ex", _SQUARE, _SIDE)
case("linalg", "solve_ex", _SQUARE, uniform(2, 3, 4), left=False)
case("linalg", "solve_ex", _SINGULAR, _SIDE, grad=False, call=lambda f, x, b: (f(x, b)[0][0], f(x, b)[1]))
for _p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
    case("linalg", "cond", _SQUARE, grad=_p in (None, 2, -2), p=_p)  # the others fail in PyTorch
case("linalg", "cond", uniform(4, 3))
case("linalg", "cond", _SINGULAR, grad=False, p=1)
case("linalg", "tensorinv", uniform(2, 3, 6))
case("linalg", "tensorinv", uniform(6, 3, 2), ind=1)
case("linalg", "tensorsolve", uniform(2, 3, 6), uniform(2, 3))
case("linalg", "tensorsolve", uniform(2, 6, 3), uniform(2, 3), dims=(1,))
case("linalg", "vander", uniform(2, 3), grad=False, N=5)
case("linalg", "vander", np.array([1, 2, 3]))
for _name in ("lu", "lu_factor", "lu_factor_ex"):
    case("linalg", _name, _SQUARE)
    case("linalg", _name, _SQUARE[0])
    case("linalg", _name, uniform(5, 3), grad=False)
    case("linalg", _name, uniform(3, 5), grad=False)
case("linalg", "lu_factor_ex", _SINGULAR, grad=False)
_FACTORS = [x.numpy() for x in torch.linalg.lu_factor(torch.tensor(_SQUARE))]
case("linalg", "lu_solve", *_FACTORS, _SIDE)
case("linalg", "lu_solve", *_FACTORS, _SIDE, adjoint=True)
case("linalg", "lu_solve", *_FACTORS, uniform(2, 3, 4), left=False)
case("linalg", "lu_solve", *_FACTORS, uniform(2, 3, 4), left=False, adjoint=True)
case("linalg", "householder_product", uniform(2, 4, 3), uniform(2, 3))
case("linalg", "householder_product", uniform(4, 4), uniform(2))
case("linalg", "matrix_exp", _SQUARE / 4)


_POINTS = ((RNG.integers(0, 40, (60, 2)) + 0.5) / 10).astype(np.float32)
_EDGES = (np.array([0, 0.4, 2, 3], np.float32), np.array([1, 2, 4], np.float32))
case("nc", "histogramdd", _POINTS, grad=False, bins=(4, 5), range=(0.0, 4.0, 1.0, 3.0))
case("nc", "histogramdd", _POINTS, grad=False, bins=4, density=True)
case("nc", "histogramdd", _POINTS, *_EDGES, grad=False, call=lambda f, x, *edges: f(x, edges))
case("nc", "histogramdd", _POINTS, uniform(60), grad=False, call=lambda f, x, w: f(x, [3, 2], weight=w))
for _name in ("lu_factor", "lu"):
    case("nc", "lu", _SQUARE, call=lambda f, x, infos=_name == "lu": f(x, get_infos=infos))
case("nc", "lu_solve", _SIDE, *_FACTORS)
for _given in ({}, {"unpack_data": False}, {"unpack_pivots": False}):
    case("nc", "lu_unpack", *_FACTORS, grad=False, **_given)
case("nc", "real", _X)

# -- torch.special -----------------------------------------------------------------------------------------------------

_ALL = uniform(4, 5, low=-4.0, high=4.0)
_ENDS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 30.0, -30.0], np.float32)
for _dtype in (np.float32, np.float64):
    for _name in (
        "digamma", "erf", "erfc", "erfcx", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e", "log_ndtr",
        "ndtr", "psi", "round", "sinc",
    ):  # fmt: skip
        case("special", _name, _ALL.astype(_dtype), grad=_name != "round")
        case("special", _name, _ENDS.astype(_dtype), grad=False)
    for _name in ("entr", "log1p", "logit", "ndtri"):
        case("special", _name, uniform(4, 5, low=0.05, high=0.95).astype(_dtype))
        case("special", _name, _ENDS.astype(_dtype), grad=False)
    case("special", "erfinv", uniform(4, 5, low=-0.95, high=0.95).astype(_dtype))
    case("special", "ndtri", np.array([1e-30, 1e-10, 1e-4, 0.9999], _dtype), grad=False)
    # The derivative of PyTorch's in float32 is right to 2e-4.
    case("special", "log_ndtr", np.array([-100.0, -20.0, -5.0], _dtype), grad=_dtype is np.float64)
    case("special", "xlogy", _ALL.astype(_dtype), np.abs(_ALL).astype(_dtype))
    case("special", "xlog1py", _ALL.astype(_dtype), np.abs(_ALL).astype(_dtype))
    case("special", "xlog1py", _ENDS.astype(_dtype), _ENDS[::-1].astype(_dtype), grad=False)
    case("special", "zeta", uniform(4, 5, low=1.2, high=8).astype(_dtype), uniform(5, low=0.3, high=9).astype(_dtype),
         grad=False)  # fmt: skip
    case("special", "zeta", np.array([1.0, 0.5, 2.0, 3.0], _dtype), np.array([2.0, 2.0, 0.0, -3.0], _dtype), grad=False)
    case("special", "polygamma", uniform(5, low=0.5, high=4).astype(_dtype), call=lambda f, x: f(2, x))
    case("special", "multigammaln", uniform(5, low=2, high=6).astype(_dtype), p=3)
case("special", "entr", np.array([0, 1, 2]))
_LINE = np.linspace(-40, 40, 161, dtype=np.float64)  # 0 is one of them
for _dtype in (np.float32, np.float64):
    for _name in ("airy_ai", *(name for name in dir(torch.special) if "bessel_" in name and "_i" not in name)):
        case("special", _name, (_LINE if _name != "airy_ai" else _LINE / 10).astype(_dtype), grad=False)
        case("special", _name, np.array([-np.inf, np.inf, np.nan, -0.0, 1e-3, -1e-3], _dtype), grad=False)
    for _name in ("gammainc", "gammaincc"):
        case(
            "special",
            _name,
            uniform(5, low=0.2, high=3).astype(_dtype),
            uniform(4, 5, low=0.1, high=6).astype(_dtype),
            grad=False,
        )
        case("special", _name, *np.meshgrid(*[np.array([-1, 0, 0.5, 2, 40, np.inf, np.nan], _dtype)] * 2), grad=False)
    case("nc", "igamma", uniform(4, 5, low=0.1, high=6).astype(_dtype), call=lambda f, x: f(x.detach() + 0.5, x))
    case("nc", "igammac", uniform(4, 5, low=0.1, high=6).astype(_dtype), call=lambda f, x: f(x.detach() + 0.5, x))
for _name in (name for name in dir(torch.special) if "_polynomial_" in name):
    case(
        "special",
        _name,
        np.array([[-2.0], [-0.7], [0.3], [1.0]], np.float32),
        np.array([-1, 0, 1, 2.5, 9, 20], np.float32),
        grad=False,
    )
    case("special", _name, np.array([0, 1, 2]), np.array([3, 2, 1]), grad=False)
    case("special", _name, np.array([0.5, 2.0]), call=lambda f, x: f(x, 4), grad=False)
for _name in ("softmax", "log_softmax", "logsumexp"):
    case("special", _name, _ALL, dim=1)
for _name in ("modified_bessel_i0", "modified_bessel_i1"):
    case("special", _name, _ALL, grad=False)

# -- losses of torch ---------------------------------------------------------------------------------------------------

_SIGNS = np.sign(uniform(4)).astype(np.float32)
for _reduction in (0, 1, 2):
    case("nc", "kl_div", uniform(4, 3, low=-2, high=0), uniform(4, 3, low=0.1, high=1), reduction=_reduction)
    case("nc", "binary_cross_entropy_with_logits", uniform(4, 3), uniform(4, 3, low=0, high=1), reduction=_reduction)
    case("nc", "hinge_embedding_loss", uniform(4), _SIGNS, reduction=_reduction,
         call=lambda f, x, y, r=_reduction: f(x, y.detach(), 0.7, r))  # fmt: skip
    case("nc", "margin_ranking_loss", uniform(4), uniform(4), _SIGNS,
         call=lambda f, a, b, y, r=_reduction: f(a, b, y.detach(), 0.3, r))  # fmt: skip
    case("nc", "cosine_embedding_loss", uniform(4, 3), uniform(4, 3), _SIGNS,
         call=lambda f, a, b, y, r=_reduction: f(a, b, y.detach(), 0.3, r))  # fmt: skip
    case("nc", "poisson_nll_loss", uniform(4, 3), uniform(4, 3, low=0, high=4),
         call=lambda f, x, y, r=_reduction: f(x, y.detach(), True, False, 1e-8, r))  # fmt: skip
    case("nc", "triplet_margin_loss", uniform(4, 3), uniform(4, 3), uniform(4, 3), reduction=_reduction, swap=True)


# -- the comparison ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_functions_compute_what_pytorch_does(name: str) -> None:
    function, arrays, differentiated = CASES[name]
    modules = _MODULES[function.space]  # type: ignore[attr-defined]
    results, grads = [], []
    for module, make in zip(modules, (torch.tensor, nc.tensor)):
        tensors = [make(array) for array in arrays]
        leaves = [x for x in tensors if differentiated and is_floating(x)]
        for leaf in leaves:
            leaf.requires_grad_(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = outputs(function(module, *tensors))
        results.append(result)
        total = None
        for i, one in enumerate(result):
            if leaves and hasattr(one, "dtype") and is_floating(one) and one.requires_grad:
                weights = np.random.default_rng(i).uniform(-1, 1, tuple(one.shape))
                term = (one * make(weights.astype(str(one.dtype).removeprefix("torch.")))).sum()
                total = term if total is None else total + term
        if total is not None:
            total.backward()
        grads.append([None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves])
    theirs, ours = results
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours):
        if not isinstance(a, torch.Tensor):
            assert str(a).removeprefix("torch.") == str(b)
            continue
        if "pool" not in name or is_floating(a):  # positions within windows are int32
            assert str(a.dtype).removeprefix("torch.") == b.dtype
        assert tuple(a.shape) == b.shape
        np.testing.assert_allclose(b.numpy(), a.detach().numpy(), rtol=2e-5, atol=2e-6)
    for wanted, got in zip(*grads):
        assert (wanted is None) == (got is None)
        if wanted is not None:
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_means_and_deviations_of_alpha_dropout(name: str) -> None:
    x = RNG.standard_normal((4000, 20, 3)).astype(np.float32)
    kept = []
    for module, make in ((F, torch.tensor), (nf, nc.tensor)):
        y = getattr(module, name)(make(x), 0.3, training=True).numpy()
        low = y.min()
        kept.append((y.mean(), y.std(), (y == low).mean()))
    np.testing.assert_allclose(kept[1], kept[0], atol=0.02)


def test_slopes_of_rrelu() -> None:
    y = nf.rrelu(nc.full((100000,), -1.0), training=True).numpy()
    assert -1 / 3 <= y.min() < -0.333
    assert -0.126 < y.max() <= -0.125
    np.testing.assert_allclose(y.mean(), -(1 / 8 + 1 / 3) / 2, atol=1e-3)


def test_dtypes_promote_as_pytorchs() -> None:
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    for a in names:
        for b in names:
            x, y = getattr(torch, a), getattr(torch, b)
            assert str(torch.promote_types(x, y)) == f"torch.{nc.promote_types(a, b)}"
            assert torch.can_cast(x, y) == nc.can_cast(a, b), (a, b)
            for shapes in (((), (2,)), ((2,), ()), ((), ()), ((2,), (2,))):
                ours = nc.result_type(*(nc.zeros(shape, dtype=name) for shape, name in zip(shapes, (a, b))))
                theirs = torch.result_type(*(torch.zeros(shape, dtype=name) for shape, name in zip(shapes, (x, y))))
                assert str(theirs) == f"torch.{ours}"
        for number in (True, 2, 2.5):
            for shape in ((), (2,)):
                ours = nc.result_type(nc.zeros(shape, dtype=a), number)
                assert str(torch.result_type(torch.zeros(shape, dtype=x), number)) == f"torch.{ours}"


def test_every_function_that_writes_into_its_operand_is_compared() -> None:
    """Those of PyTorch that are here; what draws is compared by its statistics."""
    compared = {name.split()[0].removeprefix("nc.") for name in CASES if name.startswith("nc.")}
    written = {name for name in dir(torch) if name.endswith("_") and not name.startswith("_") and hasattr(nc, name)}
    assert written - compared == {"rrelu_"}


# Modules, types of the compiler, and names that PyTorch imports for itself.
_NOT_FUNCTIONS = """
import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema parse_type_comment
prepare_multiprocessing_environment profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 vmap compile get_device_module
"""


@pytest.mark.parametrize("place", ["", "linalg.", "special."])
def test_functions_that_are_absent_are_listed_and_only_those(place: str) -> None:
    theirs, ours = (getattr(one, place[:-1]) if place else one for one in (torch, nc))
    found = set()
    for name in dir(theirs):
        value = getattr(theirs, name)
        kinds = (torch.dtype, torch.layout, torch.qscheme)
        is_function = isinstance(value, kinds) or (callable(value) and not isinstance(value, type))
        if name.startswith("_") or name in _NOT_FUNCTIONS.split() or not is_function:
            continue
        try:
            getattr(ours, name)
        except AttributeError:
            found.add(place + name)
    listed = {name for name in ABSENT_FUNCTIONS if name.startswith(place) and (place or "." not in name)}
    assert found - listed == set(), "not listed"
    gone = {name for name in listed - found if not isinstance(getattr(theirs, name.removeprefix(place), None), type)}
    assert gone == set(), "listed, but there, or not PyTorch's"


def test_what_to_write_exists() -> None:
    for text in [*ABSENT.values(), *ABSENT_FUNCTIONS.values()]:
        for name in re.findall(r"netcl((?:\.\w+)+)", text):
            value: Any = nc
            for part in name[1:].split("."):
                value = getattr(value, part)


def test_draws_of_poisson_and_binomial_have_their_means() -> None:
    rate = np.array([0.5, 3.0, 40.0], np.float32)
    drawn = nc.poisson(nc.tensor(np.tile(rate, (20000, 1)))).numpy()
    np.testing.assert_allclose(drawn.mean(0), rate, rtol=0.05)
    np.testing.assert_allclose(drawn.var(0), rate, rtol=0.08)
    count, prob = np.float32(20), np.array([0.1, 0.5], np.float32)
    drawn = nc.binomial(nc.full((20000, 1), 20.0), nc.tensor(prob)).numpy()
    np.testing.assert_allclose(drawn.mean(0), count * prob, rtol=0.05)
    np.testing.assert_allclose(drawn.var(0), count * prob * (1 - prob), rtol=0.08)
