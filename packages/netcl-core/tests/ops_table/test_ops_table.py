"""Every row of the op table on every engine, against NumPy in float64."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import netcl.ops
from netcl.core import Tensor, manager
from netcl.core.device import device
from netcl.core.dtypes import is_floating
from netcl.core.engine.registry import engine_for
from netcl.core.errors import OutOfMemoryError, ShapeError
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import Case, assert_close, expected, op_cases, run_case
from netcl.core.testing.conformance import rounded

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


# Written down by hand, as the rows are text: what each elementwise op is in NumPy.
REFERENCES: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_divide": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: x**-0.5,
    "reciprocal": np.reciprocal,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "signbit": np.signbit,
    "isfinite": np.isfinite,
    "clone": np.copy,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "softplus": softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "logsigmoid": lambda x: -softplus(-x),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "threshold": lambda x: np.where(x > 0.1, x, 0.0),
    "prelu": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
}

# Draws are tested for their bits and statistics (test_random_ops), writing in place in test_indexing, the layer of a
# PackedTensor in test_packed.
WITHOUT_CASES = {
    *("rand", "randn", "randint", "randperm", "bernoulli", "dropout", "dropout_mask", "setitem", "packed_linear"),
}
# The way back through a recurrent net is tested as the gradient of recurrence, by differences.
ROWS = sorted(set(TABLE) - WITHOUT_CASES - {"recurrence_back"})


def wanted(name: str, case: Any, dtype: str) -> tuple[Any, ...]:
    if name not in REFERENCES:
        assert TABLE[name].domain.reference is not None, f"the row {name} has no reference and none stands here"
        return expected(name, case, dtype)
    result = REFERENCES[name](*(rounded(operand, dtype) for operand in case.operands))
    return (np.asarray(result),)


def check(name: str, engine: Any, dtype: str, cases: Iterable[Case]) -> None:
    count = 0
    for case in cases:
        shapes = [getattr(operand, "shape", operand) for operand in case.operands]
        with np.errstate(all="ignore"):
            outputs = wanted(name, case, dtype)
        results = run_case(name, case, engine, dtype)
        assert len(results) == len(outputs), f"{name}{shapes}"
        for got, want in zip(results, outputs):
            assert got.engine is engine
            try:
                assert_close(got, want, got.dtype)
            except AssertionError as error:
                raise AssertionError(f"{name}{shapes} {case.attributes}: {error}") from None
        count += 1
    assert count, f"the row {name} has no case"


# Each layout is a kernel to build, which the generator writes from the row's one expression: these rows try them all.
IN_ALL_LAYOUTS = {"add", "argmax", "exp", "softmax", "sum", "var"}


def tells(name: str, case: Case) -> bool:
    """True if a case tests the function of the row, and not one more layout of its operands."""
    if TABLE[name].expression is None or name in IN_ALL_LAYOUTS:
        return True
    shapes = {operand.shape for operand in case.operands if isinstance(operand, np.ndarray)}
    if TABLE[name].domain.cases is None:
        return len(shapes) == 1 and not shapes & {(), (1,)}
    return case.attributes.get("axis", -1) in (-1, len(next(iter(shapes))) - 1)


@pytest.mark.parametrize("name", ROWS)
def test_forward_in_float32(name: str, engine: Any) -> None:
    cases = op_cases(name)
    check(name, engine, "float32", cases if engine.name == "cpu" else (case for case in cases if tells(name, case)))


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in ROWS if not all(tells(name, case) for case in op_cases(name))])
def test_every_layout_in_float32(name: str, engine: Any) -> None:
    check(name, engine, "float32", op_cases(name))


# Storage in half changes the loads and stores of a kernel, not its layouts: a few cases tell, each a kernel to build.
def check_half(name: str, engine: Any) -> None:
    first, last = (0, 3) if TABLE[name].domain.cases is not None else (4, 5)
    check(name, engine, "float16", islice(op_cases(name), first, last))


@pytest.mark.parametrize("name", ROWS)
def test_forward_in_float16_on_numpy(name: str) -> None:
    handle = manager.default("cpu")
    with device(handle):
        check_half(name, engine_for(handle))


@pytest.mark.parametrize("name", ["add", "sum", "softmax", "matmul", "conv2d", "max_pool", "index_select"])
def test_forward_in_float16(name: str, engine: Any) -> None:
    check_half(name, engine)


@pytest.mark.deep
@pytest.mark.parametrize("name", ROWS)
def test_every_forward_in_float16(name: str, engine: Any) -> None:
    check_half(name, engine)


LAYOUTS = [
    ((4,), (2, 3, 4)),
    ((2, 1, 3, 1), (5, 1, 7)),
    ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)),
    ((33, 1), (33, 65)),
    ((1, 65), (33, 65)),
    ((7, 1, 5), (7, 11, 5)),
    ((2, 3), ()),
]


@pytest.mark.parametrize("a, b", [pair for a, b in LAYOUTS for pair in ((a, b), (b, a))])
def test_broadcasting(engine: Any, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, a).astype(np.float32), rng.uniform(-1, 1, b).astype(np.float32)
    assert_close(netcl.ops.sub(Tensor.from_host(x), Tensor.from_host(y)), x - y)


def test_every_row_has_a_case() -> None:
    without = {name for name in TABLE if next(op_cases(name), None) is None}
    assert without == WITHOUT_CASES


ALONG_AN_AXIS = [name for name in netcl.ops.__all__ if "axis" in inspect.signature(getattr(netcl.ops, name)).parameters]


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_an_axis_that_is_not_there(name: str) -> None:
    def tensors(x: Any) -> Any:
        if isinstance(x, (list, tuple)) and x and isinstance(x[0], np.ndarray):
            return [Tensor.from_host(each) for each in x]
        return Tensor.from_host(x) if isinstance(x, np.ndarray) else x

    function = getattr(netcl.ops, name)
    name = function.row.name  # some ops have two names
    case = next(op_cases(name))
    with device("cpu"):
        bound = inspect.signature(function).bind_partial(*map(tensors, case.operands), **case.attributes)
        bound.arguments["axis"] = 7
        with pytest.raises((ShapeError, IndexError), match=rf"^{name}: .*\b7\b"):
            function(*bound.args, **bound.kwargs)


def test_a_result_beyond_memory_names_the_op_and_what_it_was_given(engine: Any) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy lends what the system lends")
    column, row = Tensor.zeros((1 << 20, 1)), Tensor.zeros((1, 1 << 22))
    for call in (netcl.ops.add, netcl.ops.matmul, netcl.ops.outer):
        a, b = (column.reshape(-1), row.reshape(-1)) if call is netcl.ops.outer else (column, row)
        with pytest.raises(
            OutOfMemoryError, match=r"^(add|matmul|mul) of float32 \(1048576,.* and float32 \(.*4194304"
        ):
            call(a, b)


def test_every_row_has_a_docstring_and_a_signature() -> None:
    for name, row in TABLE.items():
        assert row.doc.strip().endswith((".", ")")), name
        assert row.signature.parameters, name


def test_ops_exports_its_names() -> None:
    for name in netcl.ops.__all__:
        assert callable(getattr(netcl.ops, name)), name
    assert sorted(netcl.ops.__all__) == list(netcl.ops.__all__)


def test_float_results_keep_the_dtype(engine: Any) -> None:
    for dtype in ("float16", "bfloat16", "float32"):
        x = Tensor.from_host(np.linspace(0.5, 1.5, 6).reshape(2, 3), dtype)
        others = ("relu", "mean", "var", "l2_normalize", "tril", "flip") if engine.name == "cpu" else ()
        for name in ("exp", "softmax", "sum", *others):
            y = getattr(netcl.ops, name)(x)
            assert y.dtype == dtype, name
        assert netcl.ops.matmul(x, netcl.ops.transpose(x)).dtype == dtype
        assert is_floating(netcl.ops.layer_norm(x, 3).dtype)
