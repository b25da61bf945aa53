"""A differential fuzzer over the op table: random operands on every engine against NumPy, and PyTorch if it is there.

``arithmetic.elements``: elementwise rows on random shapes, broadcasts and values between the extremes of each dtype.
``arithmetic.cases``: every row on its own cases with other random numbers. An engine may refuse by TypeError
if NumPy's engine refuses, too; it may raise nothing else.
"""

from __future__ import annotations

import importlib
import random
import warnings
from typing import Any

import numpy as np
from registry import Run, attack

from arithmetic.engines import engines
from netcl.core.dtypes import is_floating
from netcl.core.engine.registry import cpu_engine
from netcl.core.ops_table.dispatch import TABLE, call_row, row_of
from netcl.core.tensor.tensor import Tensor
from netcl.core.testing import extremes
from netcl.core.testing.conformance import Case, assert_close, expected, op_cases, run_case
from netcl.core.testing.special_values import UNDEFINED

DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")
# Names with the same function in PyTorch for the same dtypes.
OF_TORCH = (
    "add", "sub", "mul", "maximum", "minimum", "neg", "abs", "floor", "ceil", "trunc", "sign", "eq", "ne", "lt", "le",
    "gt", "ge", "isnan", "isinf", "isfinite", "signbit", "logical_and", "logical_or", "logical_xor", "logical_not",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "sqrt", "exp", "log", "sin", "cos", "tanh", "copysign",
    "square", "reciprocal", "atan2", "hypot",
)  # fmt: skip
# No relative error is promised of small results of terms that cancel.
CANCELS = ("lgamma", "logaddexp", "elu", "celu", "selu", "xlog1py", "addcmul", "addcdiv", "lerp", "sub", "add")

try:
    torch: Any = importlib.import_module("torch")
except ImportError:
    torch = None


def drawn_values(rng: random.Random, dtype: str, size: int) -> np.ndarray[Any, Any]:
    """Returns numbers of a dtype: extremes, numbers of all magnitudes, and small whole numbers."""
    special = extremes.extremes(dtype)
    numbers = np.random.default_rng(rng.getrandbits(64))
    picked = special[numbers.integers(0, len(special), size)]
    if dtype == "bool":
        return picked
    if not is_floating(dtype):
        limits = np.iinfo(dtype)
        others = numbers.integers(limits.min, limits.max, size, dtype, endpoint=True)
        small = numbers.integers(0 if limits.min == 0 else -5, 6, size).astype(dtype)
    else:
        others = (numbers.standard_normal(size) * 10.0 ** numbers.uniform(-6, 6, size)).astype(picked.dtype)
        small = numbers.integers(-5, 6, size).astype(picked.dtype)
    which = numbers.integers(0, 3, size)
    return np.where(which == 0, picked, np.where(which == 1, others, small))


def drawn_shapes(rng: random.Random, count: int) -> list[tuple[int, ...]]:
    """Returns shapes that broadcast with each other."""
    full = tuple(rng.choice((0, 1, 2, 3, 7, 16, 33)) for _ in range(rng.randrange(5)))
    shapes = []
    for _ in range(count):
        shape = tuple(1 if rng.random() < 0.2 else size for size in full)
        shapes.append(shape[rng.randrange(len(shape) + 1) :] if rng.random() < 0.2 else shape)
    return shapes


def on_engine(name: str, arrays: list[Any], engine: Any) -> Any:
    """Returns the result of a row as an array, or the type of the error that refuses the operands."""
    try:
        result = call_row(row_of(name), tuple(Tensor.from_host(engine.queue, x) for x in arrays), {}, record=False)
    except TypeError as error:  # DTypeError and UnsupportedError among them
        return type(error)
    return result.to_host(), result.dtype


def difference(name: str, arrays: list[Any], engine: Any) -> tuple[str, int]:
    """Returns how an engine's result differs from the reference's, "" if it does not, and at which flat position."""
    found = on_engine(name, arrays, engine)
    wanted = on_engine(name, arrays, cpu_engine())
    if isinstance(found, type) or isinstance(wanted, type):
        same = isinstance(found, type) == isinstance(wanted, type)
        return "" if same else f"one engine refuses the operands, the other does not: {found}, {wanted}", 0
    cancels = name in CANCELS
    fault = extremes.agree(found[0], wanted[0], found[1], cancels=cancels)
    reference = extremes.REFERENCES.get(name)
    if not fault and reference is not None and arrays[0].dtype.name == found[1] != "float16":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fault = extremes.agree(found[0], np.asarray(reference(*arrays)), found[1], cancels=cancels)
    if not fault and torch is not None and name in OF_TORCH and arrays[0].dtype.name == found[1]:
        other = getattr(torch, name)(*(torch.from_numpy(x.copy()) for x in arrays)).numpy()
        fault = extremes.agree(found[0], other, found[1], cancels=cancels) if other.dtype.name == found[1] else None
    return (f"{fault[1]!r}, not {fault[2]!r}, at {fault[0]}", fault[0]) if fault else ("", 0)


def smallest(name: str, arrays: list[Any], engine: Any, at: int) -> list[Any]:
    """Returns the fewest neighbours of the element ``at`` that still show the difference, or the operands: a driver may
    be right on a scalar and wrong on a vector.
    """
    try:
        flat = [np.ascontiguousarray(x).reshape(-1) for x in np.broadcast_arrays(*arrays)]
    except ValueError:
        return arrays
    for size in (1, 4, 16, 64):
        start = at // size * size
        few = [x[start : start + size] for x in flat]
        if difference(name, few, engine)[0]:
            return few
    return arrays


def elementwise() -> list[str]:
    """Returns the elementwise rows."""
    importlib.import_module("netcl.ops")
    rows = ((name, TABLE[name]) for name in extremes.extreme_ops())
    return sorted(name for name, row in rows if isinstance(row.expression, str) and name not in UNDEFINED)


@attack("arithmetic.elements", weight=3.0, least=4.0)
def elements(run: Run) -> None:
    """Random operands of elementwise rows."""
    names = elementwise()
    for rng in run.cases():
        name, dtype = rng.choice(names), rng.choice(DTYPES)
        operands = row_of(name).operands
        arrays = [
            drawn_values(rng, "bool" if of == "condition" else dtype, int(np.prod(shape))).reshape(shape)
            for of, shape in zip(operands, drawn_shapes(rng, len(operands)))
        ]
        for selector, engine in engines().items():
            run.count(selector)
            try:
                fault, at = difference(name, arrays, engine)
                small = smallest(name, arrays, engine, at) if fault else arrays
            except Exception as error:
                fault, small = f"{type(error).__name__}: {error}", arrays
            if fault:
                values = ", ".join(repr(x.tolist() if x.size < 17 else x.shape) for x in small)
                run.fail(f"{name} of {dtype} on {selector}", reproducer=f"{name}({values}): {fault}")


def check_case(name: str, case: Case, engine: Any, dtype: str) -> None:
    """Raises AssertionError unless each result is close to the expected one, or within the ``sensitivity`` of it."""
    for position, (got, want) in enumerate(zip(run_case(name, case, engine, dtype), expected(name, case, dtype))):
        try:
            assert_close(got, want, got.dtype)
        except AssertionError:
            if not is_floating(got.dtype) or got.shape != want.shape:
                raise
            if not (abs(got.numpy().astype(np.float64) - want) <= sensitivity(name, case, dtype, position)).all():
                raise


def sensitivity(name: str, case: Case, dtype: str, position: int) -> np.ndarray[Any, Any]:
    """Returns the largest change of each element of a result if each operand changes by two units of its last place.

    It is the error of a backward stable computation, and large relative to a result of terms that cancel.
    """
    numbers, unit = np.random.default_rng(0), float(np.finfo(dtype).eps)
    changes = []
    wanted = expected(name, case, dtype)[position]
    for _ in range(8):
        operands = tuple(
            operand * (1 + 2 * unit * numbers.choice((-1, 1), operand.shape))
            if isinstance(operand, np.ndarray) and operand.dtype.kind == "f"
            else operand
            for operand in case.operands
        )
        changes.append(abs(expected(name, Case(operands, case.attributes), dtype)[position] - wanted))
    return np.max(changes, axis=0)


@attack("arithmetic.cases", weight=3.0, least=4.0)
def cases(run: Run) -> None:
    """The rows' own cases with other random numbers."""
    importlib.import_module("netcl.ops")
    names = sorted(name for name, row in TABLE.items() if row.domain.reference is not None)
    for rng in run.cases():
        name, seed = rng.choice(names), rng.getrandbits(30)
        dtype = rng.choice(("float32", "float32", "float64"))
        samples = list(op_cases(name, seed))
        if not samples:
            continue
        number = rng.randrange(len(samples))
        for selector, engine in engines().items():
            run.count(selector)
            try:
                with np.errstate(all="ignore"):
                    check_case(name, samples[number], engine, dtype)
            except TypeError:
                run.count("refused")
            except Exception as error:
                again = f"conformance: op_cases({name!r}, {seed})[{number}] in {dtype} on {selector}"
                run.fail(f"{name} of {dtype} on {selector}", reproducer=f"{again}: {str(error)[:300]}")
