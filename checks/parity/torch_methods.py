"""The methods of tensors against PyTorch's: values, dtypes, shapes, gradients, and what they do in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import netcl
from netcl.core import Tensor
from netcl.core.tensor import methods
from netcl.core.tensor.absent import ABSENT

RNG = np.random.default_rng(0)
X = RNG.uniform(0.2, 0.8, (3, 4)).astype(np.float32)
Y = RNG.uniform(1.2, 1.8, (3, 4)).astype(np.float32)
SQUARE = (RNG.uniform(0.1, 0.9, (3, 3)) + 2 * np.eye(3)).astype(np.float32)
WHOLE = np.array([[5, -3, 0, 7], [2, 2, -8, 1], [9, 4, 4, -1]], np.int64)
FLAGS = np.array([[True, False, True, False], [False, False, True, True], [True, True, False, False]])
INDEX = np.array([2, 0, 1], np.int64)
GRID = np.array([[0, 1, 2, 0], [2, 0, 1, 1]], np.int64)

LIMITS = np.array([0.0, -1.5, np.nan, np.inf, -np.inf, 1e-42, 3.0], np.float32)
GAPS = np.where(FLAGS, np.float32(np.nan), X)
NAMES = {name for name in dir(torch.Tensor) if not name.startswith("_")}
# The gradient of nextafter is zero here; that of cholesky_inverse is zero in the triangle that is not read.
# PyTorch gives the elements that as_strided_scatter replaces the gradient of those that stay.
OTHER_GRADIENTS = ("nextafter", "cholesky_inverse", "as_strided_scatter")
pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated"),
    *(
        pytest.mark.filterwarnings(f"ignore:torch.{name} is deprecated")
        for name in ("cholesky", "lu", "lu_solve", "qr")
    ),
    pytest.mark.filterwarnings("ignore:index_reduce.. is in beta"),
    pytest.mark.filterwarnings("ignore:Using torch.cross without specifying the dim"),
]


class Operand:
    """An array among the arguments that each library gets as its tensor."""

    def __init__(self, array: Any) -> None:
        self.array = array


def _o(array: Any) -> Operand:
    return Operand(array)


# Factors that methods of tensors take, as PyTorch's functions give them.
_LU, _PIVOTS = (part.numpy() for part in torch.linalg.lu_factor(torch.tensor(SQUARE)))
_QR, _TAU = (part.numpy() for part in torch.geqrf(torch.tensor(SQUARE)))
OTHER, INTEGERS, BOOLS = _o(Y), _o(np.abs(WHOLE) % 4), _o(~FLAGS)
_UNARY = (
    "abs absolute acos arccos arcsin arcsinh arctan arctanh asin asinh atan atanh ceil cos cosh deg2rad digamma erf "
    "erfc erfinv exp exp2 expm1 fix floor frac i0 lgamma log log10 log1p log2 neg negative positive rad2deg reciprocal "
    "relu round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc logit"
)
_BINARY = (
    "add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow atan2 arctan2 hypot "
    "copysign nextafter logaddexp maximum minimum xlogy heaviside eq ne not_equal lt less le less_equal gt "
    "greater ge greater_equal float_power"
)
# (method, the array it is called on, arguments, keyword arguments)
CASES: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    *((name, X, (), {}) for name in _UNARY.split()),
    *((name, Y, (), {}) for name in ("acosh", "arccosh")),
    *((name, X, (OTHER,), {}) for name in _BINARY.split()),
    *((name, X, (0.5,), {}) for name in ["add", "sub", "mul", "div", "pow", "eq", "lt", "remainder"]),
    *(
        (name, WHOLE, (INTEGERS,), {})
        for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
    ),
    *(
        (name, WHOLE, (), {})
        for name in [
            "abs",
            "neg",
            "sign",
            "floor",
            "ceil",
            "round",
            "trunc",
            "bitwise_not",
            "sum",
            "prod",
            "amax",
            "square",
        ]
    ),
    *((name, FLAGS, (BOOLS,), {}) for name in ["logical_and", "logical_or", "logical_xor", "eq"]),
    *((name, FLAGS, (), {}) for name in ["logical_not", "all", "any", "sum", "long", "float", "int"]),
    *(
        (name, X, (), {})
        for name in [
            "sum",
            "mean",
            "prod",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "flatten",
            "ravel",
            "t",
            "clone",
            "double",
            "half",
            "bfloat16",
            "long",
            "int",
            "short",
            "char",
            "byte",
            "bool",
            "float",
            "isnan",
            "isinf",
            "isfinite",
            "count_nonzero",
            "nonzero",
            "argwhere",
            "unique",
            "nansum",
            "nanmean",
            "numel",
            "dim",
            "nelement",
            "ndimension",
            "is_floating_point",
            "is_complex",
            "is_signed",
            "element_size",
            "aminmax",
            "fliplr",
            "flipud",
        ]
    ),
    *(
        (name, X, (), {"dim": 1, "keepdim": True})
        for name in ["sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "logsumexp", "all", "any"]
    ),
    *(
        (name, X, (1,), {})
        for name in [
            "sum",
            "mean",
            "prod",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "logsumexp",
            "cumsum",
            "cumprod",
            "softmax",
            "log_softmax",
            "unbind",
            "argsort",
            "unsqueeze",
        ]
    ),
    ("sum", X, ((0, 1),), {}),
    ("sum", WHOLE, (), {"dtype": "float32"}),
    ("mean", X, (), {"dim": (0, 1)}),
    ("add", X, (OTHER,), {"alpha": 2}),
    ("sub", X, (OTHER,), {"alpha": 0.5}),
    ("div", Y, (OTHER,), {"rounding_mode": "floor"}),
    ("div", WHOLE, (_o(np.array(3)),), {"rounding_mode": "trunc"}),
    ("round", Y, (), {"decimals": 1}),
    ("clamp", X, (0.3, 0.6), {}),
    ("clamp", X, (), {"min": 0.5}),
    ("clip", X, (), {"max": 0.5}),
    ("clamp_min", X, (0.5,), {}),
    ("clamp_max", X, (0.5,), {}),
    ("lerp", X, (OTHER, 0.25), {}),
    ("addcmul", X, (OTHER, OTHER), {"value": 0.5}),
    ("addcdiv", X, (OTHER, OTHER), {"value": 0.5}),
    ("nan_to_num", X, (), {}),
    ("isclose", X, (OTHER,), {}),
    ("allclose", X, (_o(X.copy()),), {}),
    ("equal", X, (_o(X.copy()),), {}),
    ("dist", X, (OTHER,), {}),
    ("norm", X, (), {}),
    ("view", X, (4, 3), {}),
    ("view", X, (-1,), {}),
    ("view", X, ((2, 6),), {}),
    ("view_as", X, (_o(np.zeros((2, 6))),), {}),
    ("reshape", X, (2, -1), {}),
    ("reshape_as", X, (_o(np.zeros((6, 2))),), {}),
    ("expand", X, (2, 3, 4), {}),
    ("expand", X[:, :1], (-1, 5), {}),
    ("expand_as", X[:1], (OTHER,), {}),
    ("broadcast_to", X, ((2, 3, 4),), {}),
    ("repeat", X, (2, 1), {}),
    ("repeat", X, (2, 1, 3), {}),
    ("tile", X, (2,), {}),
    ("repeat_interleave", X, (2,), {}),
    ("repeat_interleave", X, (2, 1), {}),
    ("repeat_interleave", X, (_o(np.array([1, 0, 2])), 0), {}),
    ("permute", X, (1, 0), {}),
    ("transpose", X, (0, 1), {}),
    ("swapaxes", X, (0, 1), {}),
    ("swapdims", X, (-1, 0), {}),
    ("adjoint", X, (), {}),
    ("movedim", X[None], (0, -1), {}),
    ("moveaxis", X[None], ((0, 1), (2, 0)), {}),
    ("unflatten", X, (1, (2, -1)), {}),
    ("flatten", X[None], (0, 1), {}),
    ("squeeze", X[None], (), {}),
    ("squeeze", X[None], (0,), {}),
    ("flip", X, (0,), {}),
    ("flip", X, (0, 1), {}),
    ("flip", X, ((0, 1),), {}),
    ("roll", X, (1,), {}),
    ("roll", X, (1, 0), {}),
    ("roll", X, ((1, 2), (0, 1)), {}),
    ("select", X, (1, -1), {}),
    ("narrow", X, (1, 1, 2), {}),
    ("unfold", X, (1, 2, 1), {}),
    ("chunk", X, (2, 1), {}),
    ("split", X, (2,), {}),
    ("split", X, (2, 1), {}),
    ("split", X, ([1, 3], 1), {}),
    ("tensor_split", X, (2, 1), {}),
    ("hsplit", X, (2,), {}),
    ("vsplit", X, ((1,),), {}),
    ("split_with_sizes", X, ([1, 2],), {}),
    ("diagonal", X, (), {}),
    ("diagonal", X, (1,), {}),
    ("diag", X, (), {}),
    ("diag", X[0], (1,), {}),
    ("diag_embed", X, (), {}),
    ("diag_embed", X, (-1, 0, 2), {}),
    ("tril", X, (), {}),
    ("triu", X, (1,), {}),
    ("trace", SQUARE, (), {}),
    ("rot90", X, (), {}),
    ("diff", X, (), {}),
    ("gather", X, (0, _o(GRID)), {}),
    ("scatter", X, (0, _o(GRID), _o(Y[:2])), {}),
    ("scatter_add", X, (0, _o(GRID), _o(Y[:2])), {}),
    ("index_select", X, (0, _o(INDEX)), {}),
    ("index_add", X, (0, _o(INDEX), OTHER), {}),
    ("index_copy", X, (0, _o(INDEX), OTHER), {}),
    ("index_fill", X, (0, _o(INDEX[:2]), 5.0), {}),
    ("masked_fill", X, (_o(FLAGS), 2.0), {}),
    ("masked_select", X, (_o(FLAGS),), {}),
    ("masked_scatter", X, (_o(FLAGS), OTHER), {}),
    ("take", X, (_o(np.array([[0, 5], [11, 2]])),), {}),
    ("take_along_dim", X, (_o(GRID), 0), {}),
    ("where", X, (_o(FLAGS), OTHER), {}),
    ("bincount", np.array([1, 2, 2, 5]), (), {}),
    ("matmul", X, (_o(Y.T.copy()),), {}),
    ("mm", X, (_o(Y.T.copy()),), {}),
    ("mv", X, (_o(Y[0]),), {}),
    ("dot", X[0], (_o(Y[0]),), {}),
    ("vdot", X[0], (_o(Y[0]),), {}),
    ("inner", X, (OTHER,), {}),
    ("outer", X[0], (_o(Y[1]),), {}),
    ("ger", X[0], (_o(Y[1]),), {}),
    ("bmm", X[None], (_o(Y.T[None].copy()),), {}),
    ("addmm", SQUARE, (_o(X), _o(Y.T.copy())), {"beta": 0.5, "alpha": 2.0}),
    ("kron", X, (OTHER,), {}),
    ("det", SQUARE, (), {}),
    ("inverse", SQUARE, (), {}),
    ("logdet", SQUARE, (), {}),
    ("slogdet", SQUARE, (), {}),
    ("matrix_power", SQUARE, (3,), {}),
    ("cross", X[:, :3], (_o(Y[:, :3].copy()),), {"dim": 1}),
    ("cross", SQUARE, (_o(SQUARE.T.copy()),), {}),
    ("cross", X, (OTHER,), {}),
    ("take_along_dim", X, (_o(GRID),), {}),
    ("nansum", GAPS, (), {"dim": 1, "dtype": "float64"}),
    ("nanmean", GAPS, (), {"dtype": "float64"}),
    ("cov", X, (), {}),
    ("corrcoef", X, (), {}),
    ("histc", X, (4, 0.0, 1.0), {}),
    ("new_zeros", X, (2, 3), {}),
    ("new_ones", X, ((2, 3),), {}),
    ("new_full", X, ((2, 3), 7.0), {}),
    ("new_tensor", X, ([1, 2],), {}),
    ("type_as", X, (_o(WHOLE),), {}),
    ("polygamma", X, (1,), {}),
    ("renorm", X, (2, 0, 1.0), {}),
    ("is_same_size", X, (OTHER,), {}),
    ("logcumsumexp", X, (1,), {}),
    ("unique_consecutive", np.array([1, 1, 2, 1]), (), {}),
    ("std", X, (), {}),
    ("var", X, (1,), {}),
    ("max", X, (), {}),
    ("min", X, (1,), {}),
    ("max", X, (), {"dim": 0, "keepdim": True}),
    ("median", X, (1,), {}),
    ("sort", X, (1,), {}),
    ("sort", X, (), {"dim": 0, "descending": True}),
    ("topk", X, (2,), {}),
    ("kthvalue", X, (2, 1), {}),
    ("cummax", X, (1,), {}),
    ("cummin", X, (0,), {}),
    ("mode", WHOLE, (1,), {}),
    ("signbit", WHOLE, (), {}),
    ("angle", WHOLE, (), {}),
    ("angle", np.array([-1.0, 2.0, np.nan, -np.inf], np.float32), (), {}),
    *((name, X, (), {}) for name in ("conj", "conj_physical", "resolve_conj", "resolve_neg", "isreal", "msort")),
    *((name, LIMITS, (), {}) for name in ("isposinf", "isneginf", "nanmedian", "frexp")),
    *((name, WHOLE, (), {}) for name in ("isposinf", "isneginf", "nanmedian", "dim_order")),
    *((name, LIMITS, (_o(LIMITS[::-1].copy()),), {}) for name in ("fmax", "fmin")),
    *((name, X, (OTHER,), {}) for name in ("fmax", "fmin", "logaddexp2", "ldexp")),
    ("frexp", X, (), {}),
    ("ldexp", X, (_o((np.abs(WHOLE) % 4).astype(np.int32)),), {}),
    *((name, WHOLE, (INTEGERS,), {}) for name in ("gcd", "lcm")),
    ("sum_to_size", X, (1, 4), {}),
    ("sum_to_size", X[None], ((3, 1),), {}),
    ("nanmedian", GAPS, (1,), {}),
    ("nanmedian", GAPS, (), {"dim": 0, "keepdim": True}),
    ("nanmedian", X, (), {}),
    ("nanquantile", GAPS, (0.4,), {"dim": 1}),
    *(
        ("nanquantile", GAPS, (0.4,), {"dim": 1, "interpolation": name})
        for name in ("lower", "higher", "nearest", "midpoint")
    ),
    ("nanquantile", X, (_o(np.array([0.1, 0.75], np.float32)),), {"dim": 0, "keepdim": True}),
    ("nanquantile", X, (0.3,), {}),
    ("addmv", X[:, 0].copy(), (OTHER, _o(Y[0])), {"beta": 0.5, "alpha": 2}),
    ("addr", X, (_o(Y[:, 0].copy()), _o(Y[0])), {"beta": 0.5, "alpha": 2}),
    ("addbmm", SQUARE, (_o(X[None]), _o(Y.T[None].copy())), {"beta": 0.5, "alpha": 2}),
    ("diagflat", X, (1,), {}),
    ("cholesky_inverse", SQUARE, (), {}),
    ("cholesky_inverse", SQUARE, (True,), {}),
    ("cholesky_solve", X, (_o(SQUARE),), {}),
    ("cholesky_solve", X, (_o(SQUARE), True), {}),
    ("triangular_solve", X, (_o(SQUARE),), {}),
    ("triangular_solve", X, (_o(SQUARE), False, True, True), {}),
    ("matrix_exp", SQUARE, (), {}),
    ("matrix_exp", np.stack([SQUARE * 0.7, SQUARE * 0.01]), (), {}),
    ("put", X, (_o(GRID), _o(Y[:2])), {}),
    ("put", X, (_o(np.array([0, 5, 11])), _o(Y[0, :3])), {"accumulate": True}),
    ("nonzero_static", WHOLE, (), {"size": 14}),
    ("nonzero_static", WHOLE, (), {"size": 3, "fill_value": 7}),
    ("select_scatter", X, (_o(Y[0]), 0, 1), {}),
    ("slice_scatter", X, (_o(Y[:2]),), {"start": 1}),
    ("slice_scatter", X, (_o(Y[:, :2].copy()), 1, 0, 4, 2), {}),
    ("diagonal_scatter", X, (_o(Y[0, :3].copy()), 1), {}),
    ("narrow_copy", X, (1, 1, 2), {}),
    ("unsafe_chunk", X, (2, 1), {}),
    ("unsafe_split", X, (2,), {}),
    ("unsafe_split_with_sizes", X, ([1, 3], 1), {}),
    ("unfold", X, (1, 2, 2), {}),
    ("unfold", X, (0, 2, 3), {}),
    ("is_set_to", X, (OTHER,), {}),
    *((name, X, (OTHER,), {}) for name in ("igamma", "igammac")),
    ("as_strided", X, ((2, 2), (1, 2)), {}),
    ("as_strided", X, ((2, 3), (4, 1), 2), {}),
    ("as_strided_scatter", X, (_o(Y[:2, :3].copy()), (2, 3), (4, 1), 2), {}),
    *((name, matrix, (), {}) for name in ("geqrf", "lu") for matrix in (SQUARE, X, X.T.copy())),
    ("lu_solve", X, (_o(_LU), _o(_PIVOTS)), {}),
    ("orgqr", _QR, (_o(_TAU),), {}),
    ("ormqr", _QR, (_o(_TAU), _o(X)), {}),
    ("ormqr", _QR, (_o(_TAU), _o(X.T.copy()), False, True), {}),
    ("baddbmm", SQUARE[None], (_o(X[None]), _o(Y.T[None].copy())), {"beta": 0.5, "alpha": 2}),
    ("cholesky", SQUARE @ SQUARE.T, (), {}),
    ("cholesky", SQUARE @ SQUARE.T, (True,), {}),
    ("dsplit", X[None], (2,), {}),
    ("hardshrink", X, (0.5,), {}),
    ("index_put", X, ((_o(INDEX),), OTHER), {}),
    ("index_put", X, ((_o(INDEX[:2]), _o(INDEX[1:])), _o(Y[0, :2].copy()), True), {}),
    *(("index_reduce", X, (0, _o(INDEX[:2]), _o(Y[:2]), name), {}) for name in ("prod", "mean", "amax", "amin")),
    *(("scatter_reduce", X, (0, _o(GRID), _o(Y[:2]), name), {}) for name in ("sum", "prod", "mean", "amax", "amin")),
    ("is_nonzero", X[:1, :1], (), {}),
    ("mvlgamma", Y, (2,), {}),
    ("pinverse", SQUARE, (), {}),
    ("pinverse", X, (), {}),
    ("prelu", X - np.float32(0.5), (_o(Y[0]),), {}),
    ("quantile", X, (0.4,), {"dim": 1}),
    ("quantile", X, (_o(np.array([0.1, 0.75], np.float32)),), {"dim": 0, "keepdim": True}),
    *((name, X, (), {}) for name in ("is_conj", "is_distributed", "is_inference", "is_neg", "is_pinned", "is_shared")),
]


def _there(values: Any, library: str, grad: bool) -> Any:
    array = np.array(values)
    floating = array.dtype == np.float32
    if library == "torch":
        return torch.tensor(array, requires_grad=grad and floating)
    return Tensor.from_host(array, requires_grad=grad and floating)


def _operand(arg: Any, library: str) -> Any:
    """The argument with a tensor of the library in place of each Operand, in tuples too."""
    if isinstance(arg, tuple):
        return tuple(_operand(part, library) for part in arg)
    return _there(arg.array, library, False) if isinstance(arg, Operand) else arg


def _run(library: str, name: str, array: Any, args: Any, kwargs: Any, grad: bool) -> tuple[Any, Any]:
    x = _there(array, library, grad)
    given = [_operand(arg, library) for arg in args]
    named = {
        key: getattr(torch, value) if library == "torch" and key == "dtype" else value for key, value in kwargs.items()
    }
    return x, getattr(x, name)(*given, **named)


def _flat(result: Any) -> list[Any]:
    return [part for each in result for part in _flat(each)] if isinstance(result, (tuple, list)) else [result]


def _dtype(part: Any) -> str:
    return str(part.dtype).replace("torch.", "")


def _same(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    mine, other = _flat(ours), _flat(theirs)
    assert len(mine) == len(other)
    for a, b in zip(mine, other):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert isinstance(a, Tensor)
        assert tuple(a.shape) == tuple(b.shape)
        assert _dtype(a) == _dtype(b)
        there = b.detach().to(torch.float32) if b.dtype == torch.bfloat16 else b.detach()
        np.testing.assert_allclose(a.numpy(), there.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "array", "args", "kwargs"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_method_gives_what_pytorch_gives(name: str, array: Any, args: Any, kwargs: Any) -> None:
    _, ours = _run("netcl", name, array, args, kwargs, False)
    _, theirs = _run("torch", name, array, args, kwargs, False)
    _same(ours, theirs)


@pytest.mark.parametrize(
    ("name", "array", "args", "kwargs"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_its_gradient_is_pytorchs(name: str, array: Any, args: Any, kwargs: Any) -> None:
    x, ours = _run("netcl", name, array, args, kwargs, True)
    u, theirs = _run("torch", name, array, args, kwargs, True)
    parts = [(a, b) for a, b in zip(_flat(ours), _flat(theirs)) if isinstance(b, torch.Tensor) and b.requires_grad]
    if not parts or not u.requires_grad or name in OTHER_GRADIENTS:
        return
    try:
        sum(((b.double() * b.double()).sum() for _, b in parts), start=parts[0][1].double().sum() * 0).backward()
    except RuntimeError as error:
        assert "not implemented" in str(error)  # of an op that has a gradient here
        return
    # A piecewise constant op is not recorded: its gradient stays None, and PyTorch has zeros.
    losses = [(a.double() * a.double()).sum() for a, _ in parts if a.requires_grad]
    if losses:
        sum(losses[1:], start=losses[0]).backward()
    expected = np.zeros_like(array) if u.grad is None else u.grad.numpy(force=True)
    np.testing.assert_allclose(
        np.zeros_like(array) if x.grad is None else x.grad.numpy(), expected, rtol=1e-4, atol=1e-4
    )


IN_PLACE = [case for case in CASES if case[0] in methods.IN_PLACE and case[0] not in ("float_power",)]


@pytest.mark.parametrize(
    ("name", "array", "args", "kwargs"), IN_PLACE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_in_place_it_writes_what_pytorch_writes_or_both_refuse(name: str, array: Any, args: Any, kwargs: Any) -> None:
    try:
        u, theirs = _run("torch", f"{name}_", array, args, kwargs, False)
    except RuntimeError:
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            _run("netcl", f"{name}_", array, args, kwargs, False)
        return
    x, ours = _run("netcl", f"{name}_", array, args, kwargs, False)
    assert ours is x and theirs is u  # noqa: PT018
    _same(x, u)


# Compared in tests below, or in the file that is named; the elements of new memory are undefined.
_ELSEWHERE = {
    "bernoulli multinomial": "torch_seeds.py, by seeds",
    "histogram": "op_db: its counts are integers, as NumPy's are",
    "qr svd": "the signs of the vectors are free",
    "new new_empty new_empty_strided": "the elements of new memory are undefined",
    "const_data_ptr cuda get_device pin_memory type": "the answer depends on the device and on the library",
    "dense_dim sparse_dim sparse_mask to_dense to_sparse to_sparse_coo to_sparse_csr": "torch_sparse.py",
}


def test_every_method_of_the_table_is_compared() -> None:
    table = {name for name in (*methods.ROWS, *methods._FUNCTIONS) if not name.endswith("_")}
    assert table - {case[0] for case in CASES} == set(" ".join(_ELSEWHERE).split())


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("new", ()),
        ("new", (2, 3)),
        ("new_empty", ((2, 3),)),
        ("new_empty", (2, 3)),
        ("new_empty_strided", ((2, 3), (1, 2))),
    ],
)
def test_new_memory_has_pytorchs_shape_strides_and_dtype(name: str, args: Any) -> None:
    for array in (X, WHOLE):
        _, ours = _run("netcl", name, array, args, {}, False)
        _, theirs = _run("torch", name, array, args, {}, False)
        assert (tuple(ours.shape), tuple(ours.stride())) == (tuple(theirs.shape), theirs.stride())
        assert _dtype(ours) == _dtype(theirs)


def test_each_member_of_pytorchs_tensor_is_here_or_listed_as_absent() -> None:
    missing = {name for name in NAMES if not hasattr(Tensor, name)}
    assert missing - ABSENT.keys() == set()
    assert ABSENT.keys() - missing == set()


def test_the_singular_value_decomposition_is_one() -> None:
    x = Tensor.from_host(X)
    for some in (True, False):
        u, s, v = x.svd(some)
        shapes = [tuple(part.shape) for part in torch.tensor(X).svd(some)]
        assert [part.shape for part in (u, s, v)] == shapes
        np.testing.assert_allclose((u[:, :3] * s @ v[:, :3].T).numpy(), X, atol=1e-5)
    np.testing.assert_allclose(x.svd(compute_uv=False)[1].numpy(), torch.tensor(X).svd(compute_uv=False)[1], atol=1e-5)


@pytest.mark.parametrize("name", ["cauchy_", "log_normal_", "geometric_", "exponential_", "normal_", "uniform_"])
def test_numbers_are_drawn_from_pytorchs_distribution(name: str) -> None:
    given = (0.3,) if name == "geometric_" else ()
    torch.manual_seed(0)
    netcl.manual_seed(0)
    theirs = getattr(torch.empty(40_000), name)(*given).numpy()
    x = Tensor.empty((40_000,))
    assert getattr(x, name)(*given) is x
    shares = [0.1, 0.25, 0.5, 0.75, 0.9]
    spread = np.quantile(theirs, 0.95) - np.quantile(theirs, 0.05)
    np.testing.assert_allclose(np.quantile(x.numpy(), shares), np.quantile(theirs, shares), atol=0.03 * spread)


def _retained(library: Any, make: Any) -> list[Any]:
    """What a program sees of gradients that are kept, in either library."""
    x = make([1.0, 2.0, 3.0]).requires_grad_()
    y = x * 2
    seen: list[Any] = [y.retains_grad, x.retains_grad]
    y.retain_grad()
    y.retain_grad()
    z = (y * y).sum()
    z.backward(retain_graph=True)
    seen += [y.retains_grad, y.grad.tolist()]
    z.backward(retain_graph=True)
    seen += [y.grad.tolist(), x.grad.tolist()]
    x.retain_grad()
    seen.append(x.retains_grad)
    y = x * 2  # a hook that comes later changes what is kept
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    y.sum().backward()
    seen.append(y.grad.tolist())
    for change in (lambda y: y.mul_(3.0), lambda y: y[:2].mul_(3.0)):
        y = x * 2
        y.retain_grad()
        change(y)
        (y * y).sum().backward()
        seen += [y.retains_grad, y.grad.tolist(), y.detach().retains_grad]
    first, last = (x * 1).split([1, 2])
    last.retain_grad()
    (last * last).sum().backward()
    seen += [last.grad.tolist(), first.retains_grad]
    y = x * 2
    y.retain_grad()
    library.autograd.grad((y * y).sum(), [x])
    seen.append(y.grad.tolist())
    with pytest.raises(RuntimeError):
        y.detach().retain_grad()
    return seen


def test_retain_grad_keeps_what_pytorch_keeps() -> None:
    assert _retained(netcl, netcl.tensor) == _retained(torch, torch.tensor)


def _after(make: Any) -> list[Any]:
    x = make([1.0, 2.0]).requires_grad_()
    seen: list[Any] = []
    hook = x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (x * x).sum().backward()
    (x * 3).sum().backward()
    hook.remove()
    (x * 3).sum().backward()
    for wrong in (x * 2, make([1.0])):
        with pytest.raises(RuntimeError):
            wrong.register_post_accumulate_grad_hook(seen.append)
    return seen


def test_hooks_after_accumulation_are_called_as_pytorchs() -> None:
    assert _after(netcl.tensor) == _after(torch.tensor)


def test_the_qr_decomposition_is_one() -> None:
    for matrix in (X, X.T.copy()):
        for some in (True, False):
            q, r = Tensor.from_host(matrix).qr(some)
            assert [part.shape for part in (q, r)] == [tuple(p.shape) for p in torch.tensor(matrix).qr(some)]
            np.testing.assert_allclose((q @ r).numpy(), matrix, atol=1e-5)


def test_functions_take_pytorchs_names_of_parameters() -> None:
    def run(library: Any, make: Any) -> list[Any]:
        x, y, m = make(X.copy()), make(Y.copy()), make(SQUARE.copy())
        made = [
            library.mm(input=m, mat2=x),
            library.add(input=x, other=y, alpha=2),
            library.div(x, other=y, rounding_mode="floor"),
            library.sum(input=x, dim=1, dtype=library.float64),
            library.softmax(x, dim=0, dtype=library.float64),
            library.roll(x, shifts=1, dims=0),
            library.flip(x, dims=(0,)),
            library.split(tensor=x, split_size_or_sections=2)[0],
            library.lerp(input=x, end=y, weight=0.5),
            library.pow(input=x, exponent=2),
            library.addmm(m, mat1=m, mat2=m),
            library.movedim(input=x, source=0, destination=1),
            library.take(x, index=make(INDEX)),
            library.zeros_like(input=x),
            library.prelu(x, weight=make(Y[0, :1].copy())),
        ]
        return [part.tolist() for part in made]

    for ours, theirs in zip(run(netcl, netcl.tensor), run(torch, torch.tensor)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_backward_adds_to_the_inputs_alone() -> None:
    def run(make: Any) -> list[Any]:
        x, y = make([1.0, 2.0]).requires_grad_(), make([3.0, 4.0]).requires_grad_()
        (x * y).backward(gradient=make([1.0, 10.0]), inputs=[y])
        with pytest.raises(RuntimeError):
            (x * y).sum().backward(inputs=[])
        return [x.grad, y.grad.tolist()]

    assert run(netcl.tensor) == run(torch.tensor)
