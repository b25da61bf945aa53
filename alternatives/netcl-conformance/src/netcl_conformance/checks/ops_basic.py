"""Level ops-basic: the table, calls, hooks and recorder; special values, broadcasting, integers, axes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError, UnsupportedError
from netcl.core.ops_table.dispatch import (
    TABLE,
    OpRow,
    assign,
    call,
    call_row,
    execute,
    pop_hook,
    push_hook,
    row_of,
    set_recorder,
)
from netcl_conformance.checks.tensor import raises
from netcl_conformance.contract import contract
from netcl_conformance.registry import check
from netcl_conformance.values import tensor

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.4e38, -3.4e38, 1e-38, 1.5, 7.0], np.float32
)
ONE = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "sqrt": np.sqrt, "exp": np.exp,
    "reciprocal": np.reciprocal, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "logical_not": np.logical_not, "relu": lambda x: np.maximum(x, 0), "clone": np.copy,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x.astype(np.float64))),
}  # fmt: skip
TWO = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "atan2": np.arctan2,
}  # fmt: skip
SIGNED_ZERO = ("neg", "add", "sub", "mul", "div", "floor")


def _same(name: str, found: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    values = found.numpy()
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(values, wanted, err_msg=name)
        return
    np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-37, err_msg=name)
    if name in SIGNED_ZERO:
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(values[zero]), np.signbit(wanted[zero]), err_msg=f"zeros of {name}")


@check("ops-basic")
def ops_lists_no_name_outside_the_contract() -> None:
    outside = [name for name in ops.__all__ if f"netcl.ops.{name}" not in contract().names]
    assert not outside, f"the layers above read each name of netcl.ops.__all__; not in the contract: {outside}"


@check("ops-basic")
def special_values_are_those_of_numpy() -> None:
    faults = []
    with np.errstate(all="ignore"):
        grid = np.meshgrid(SPECIAL, SPECIAL)
        for table, arrays in ((ONE, [SPECIAL]), (TWO, [one.reshape(-1) for one in grid])):
            for name, reference in table.items():
                try:
                    wanted = reference(*arrays)
                    _same(name, getattr(ops, name)(*[tensor(one) for one in arrays]), wanted)
                except AssertionError as error:
                    faults.append(f"{name}: {str(error).strip()[:200]}")
    assert not faults, "; ".join(faults)


@check("ops-basic")
def reductions_pass_nan_and_accept_empty_tensors() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 2.0]], np.float32)
    for name in ("sum", "mean", "prod", "amax", "amin"):
        _same(name, getattr(ops, name)(tensor(x), 1), getattr(np, name)(x, 1))
    empty = tensor(np.zeros((0, 3), np.float32))
    assert ops.sum(empty, 0).tolist() == [0, 0, 0]
    assert ops.prod(empty, 0).tolist() == [1, 1, 1]
    assert ops.any(empty).item() is False
    assert ops.all(empty).item() is True
    raises(ShapeError, ops.amax, empty, 0)
    assert ops.add(empty, 1).shape == (0, 3)
    assert ops.matmul(tensor(np.zeros((2, 0))), tensor(np.zeros((0, 3)))).tolist() == [[0, 0, 0], [0, 0, 0]]


@check("ops-basic")
def integers_wrap_divide_by_zero_to_zero_and_keep_their_dtype() -> None:
    i = tensor(np.array([7, -7, 2**31 - 1, -(2**31)], np.int32))
    assert ops.add(i, 1).tolist() == [8, -6, -(2**31), -(2**31) + 1]
    assert ops.floor_divide(i, 2).tolist() == [3, -4, 2**30 - 1, -(2**30)]
    assert ops.mod(i, 3).tolist() == [1, 2, 1, 1]
    zero = tensor(np.zeros(4, np.int32))
    assert ops.floor_divide(i, zero).tolist() == [0, 0, 0, 0]
    assert ops.mod(i, zero).tolist() == [0, 0, 0, 0]
    assert (ops.div(i, 2).dtype, ops.sum(i).dtype, ops.mean(i).dtype, ops.exp(i).dtype) == (
        "float32", "int64", "float32", "float32",
    )  # fmt: skip
    assert (ops.abs(i).dtype, ops.eq(i, i).dtype, ops.argmax(i).dtype, ops.floor(i).dtype) == (
        "int32", "bool", "int64", "int32",
    )  # fmt: skip
    raises(OverflowError, ops.add, i, 2**40)
    raises(DTypeError, ops.sub, tensor([True]), tensor([False]))


@check("ops-basic")
def numbers_and_zero_dimensional_tensors_do_not_raise_a_dtype() -> None:
    i, f = tensor(np.array([1, 2], np.int32)), tensor(np.array([1, 2], np.float32))
    assert (ops.add(i, 2).dtype, ops.add(i, 2.5).dtype, ops.mul(f, 2).dtype) == ("int32", "float32", "float32")
    assert ops.add(i, tensor(np.array(3, np.int64))).dtype == "int32"
    assert ops.add(i, tensor(np.array([3], np.int64))).dtype == "int64"
    assert ops.add(f, np.array([1, 2], np.float32)).tolist() == [2, 4], "arrays are operands"
    raises(TypeError, ops.add, 1, 2)


@check("ops-basic")
def operands_broadcast_and_axes_are_counted_from_the_end() -> None:
    a, b = np.arange(3, dtype=np.float32).reshape(3, 1), np.arange(4, dtype=np.float32)
    assert ops.add(tensor(a), tensor(b)).tolist() == (a + b).tolist()
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (None, 0, -1, (0, 2), (-1, 0), ()):
        np.testing.assert_array_equal(ops.sum(tensor(x), axis).numpy(), x.sum(axis))
        kept = ops.sum(tensor(x), axis, keepdims=True).numpy()
        np.testing.assert_array_equal(kept, x.sum(axis, keepdims=True))
    raises(ShapeError, ops.sum, tensor(x), 3)
    message = raises(ShapeError, ops.matmul, tensor(np.zeros((2, 3))), tensor(np.zeros((4, 5))))
    assert "(2, 3)" in message
    assert "(4, 5)" in message


@check("ops-basic")
def keys_select_and_assign_as_in_numpy() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = tensor(x)
    where = np.array([2, 0, -1])
    mask = x > 11
    for key in (1, (0, -1), (slice(None), slice(1, 3)), (..., 2), (None, 1), (slice(None), slice(None, None, 2)),
                (slice(None), where), (1, where, slice(None)), mask):  # fmt: skip
        np.testing.assert_array_equal(ops.getitem(t, key).numpy(), x[key], err_msg=str(key))
    on_device = tensor(where)
    np.testing.assert_array_equal(t[:, on_device].numpy(), x[:, where])
    for key, value in (((0, slice(None), 1), 5.0), ((slice(None), where), -1.0), (mask, 0.0)):
        t, y = tensor(x), x.copy()
        t[key] = value
        y[key] = value
        np.testing.assert_array_equal(t.numpy(), y, err_msg=str(key))


@check("ops-basic")
def rows_describe_functions() -> None:
    faults = []
    for name in sorted(contract().basic):
        row = getattr(getattr(ops, name), "row", None)
        if not isinstance(row, OpRow) or TABLE.get(name) is not row or row_of(name) is not row:
            faults.append(f"{name} has no row")
        elif row.amp not in ("half", "float32", "widest") or not row.doc or row.name != name:
            faults.append(f"the row of {name} has no name, amp class or doc")
        elif not (row.call or row.composite or row.expression):
            faults.append(f"the row of {name} computes nothing")
    assert not faults, ", ".join(faults)
    assert row_of("matmul").amp == row_of("conv2d").amp == row_of("linear").amp == "half"
    assert row_of("exp").amp == row_of("sum").amp == "float32"
    assert row_of("relu").amp == "widest"
    raises(UnsupportedError, row_of, "no_such_op")


@check("ops-basic")
def calls_pass_hooks_from_the_outermost_and_the_recorder_between() -> None:
    seen: list[str] = []

    def hook(label: str) -> Any:
        def passing(next: Any, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            seen.append(f"{label} {row.name}")
            return next(row, args, kwargs)

        return passing

    x = tensor([1.0, 2.0])
    profiler, autocast = push_hook(hook("profiler")), push_hook(hook("autocast"), "autocast")
    before = set_recorder(hook("recorder"))
    try:
        assert call("mul", x, 2, record=True).tolist() == [2, 4]
        assert seen == ["profiler mul", "autocast mul", "recorder mul"], str(seen)
        seen.clear()
        call_row(row_of("mul"), (x, 3), {}, False)
        assert seen == ["profiler mul", "autocast mul"], str(seen)
        seen.clear()
        assert execute(row_of("mul"), (x, 3), {}).tolist() == [3, 6]
        assert not seen, "execute is the innermost call"
    finally:
        set_recorder(before)
        pop_hook(autocast)
        pop_hook(profiler)
    raises(ValueError, pop_hook, profiler)


@check("ops-basic")
def out_takes_the_result_and_other_spellings_are_accepted() -> None:
    x, out = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor(np.zeros((2, 2), np.float32))
    identity = out.storage_id
    for function, operands, wanted in ((ops.add, (x, x), [[2, 4], [6, 8]]), (ops.matmul, (x, x), [[7, 10], [15, 22]])):
        assert function(*operands, out=out).storage_id == identity
        assert out.tolist() == wanted
    raises(ShapeError, lambda: ops.add(x, x, out=tensor([1.0])))
    assert ops.sum(x, dim=0).tolist() == [4, 6]
    assert ops.sum(input=x, dim=1, keepdim=True).tolist() == [[3], [7]]
    assert ops.add(x, other=1).tolist() == [[2, 3], [4, 5]]
    assert ops.var(x, unbiased=False).item() == 1.25
    assign(out, tensor(np.full((2, 2), 3, np.int32)))
    assert out.tolist() == [[3, 3], [3, 3]]


@check("ops-basic")
def a_call_that_is_not_recorded_warns_if_a_gradient_is_wanted() -> None:
    x = tensor([1.0], requires_grad=True)
    before = set_recorder(lambda next, row, args, kwargs: next(row, args, kwargs))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = ops.mul(x, 2)
        assert not result.requires_grad
        assert any("ForwardOnly" in one.category.__name__ for one in caught), "warns with ForwardOnlyWarning"
    finally:
        set_recorder(before)


@check("ops-basic")
def casts_convert_every_dtype() -> None:
    x = np.array([0.0, 1.0, 2.5, -2.5], np.float32)
    for dtype in ("bool", "int32", "int64", "float32"):
        found = ops.cast(tensor(x), dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), x.astype(dtype))
    assert set(SUPPORTED) >= {"bool", "int32", "int64", "float32"}
    assert isinstance(Tensor.zeros((1,)).engine, object)
    assert issubclass(BackendMismatchError, ValueError)


@check("ops-basic")
def larger_shapes_have_tails() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((67, 129)).astype(np.float32), rng.standard_normal((129, 35)).astype(np.float32)
    np.testing.assert_allclose(ops.matmul(tensor(a), tensor(b)).numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    long = rng.standard_normal(2**16 + 1).astype(np.float32)
    np.testing.assert_allclose(ops.sum(tensor(long)).item(), long.astype(np.float64).sum(), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(ops.cumsum(tensor(long), 0).numpy(), long.astype(np.float64).cumsum(), atol=2e-3)
    np.testing.assert_array_equal(ops.sort(tensor(long))[0].numpy(), np.sort(long))
    x, w = rng.standard_normal((2, 3, 9, 10)), rng.standard_normal((4, 3, 3, 3))
    found = ops.conv2d(tensor(x, "float32"), tensor(w, "float32"), padding=1, stride=2).numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i, j in ((0, 0), (2, 3), (4, 4)):
        window = padded[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        np.testing.assert_allclose(found[:, :, i, j], np.einsum("nchw,fchw->nf", window, w), rtol=1e-4, atol=1e-4)
