"""The array API namespace: names, signatures, the standard's meaning where netcl's own differs, and users of it."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import numpy as np
import pytest

import netcl as nc
import netcl.array_api as xp
from netcl.core import Tensor
from netcl.core.errors import DTypeError, UnsupportedError

# Functions of the standard of 2024.12 by their parameters (of NumPy 2, which follows it).
ELEMENTWISE = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]
OTHERS = {
    "arange": "(start, /, stop=None, step=1, *, dtype=None, device=None)",
    "asarray": "(obj, /, *, dtype=None, device=None, copy=None)",
    "astype": "(x, dtype, /, *, copy=True, device=None)",
    "concat": "(arrays, /, *, axis=0)",
    "cumulative_sum": "(x, /, *, axis=None, dtype=None, include_initial=False)",
    "diff": "(x, /, *, axis=-1, n=1, prepend=None, append=None)",
    "eye": "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)",
    "full": "(shape, fill_value, *, dtype=None, device=None)",
    "linspace": "(start, stop, /, num, *, dtype=None, device=None, endpoint=True)",
    "max": "(x, /, *, axis=None, keepdims=False)",
    "repeat": "(x, repeats, /, *, axis=None)",
    "reshape": "(x, /, shape, *, copy=None)",
    "searchsorted": "(x1, x2, /, *, side='left', sorter=None)",
    "std": "(x, /, *, axis=None, correction=0.0, keepdims=False)",
    "sum": "(x, /, *, axis=None, dtype=None, keepdims=False)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "unstack": "(x, /, *, axis=0)",
    "vecdot": "(x1, x2, /, *, axis=-1)",
}


def bare(function):
    signature = inspect.signature(function)
    free = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(free))


def same(found, wanted):
    assert found.shape == np.shape(wanted)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_take_what_the_standard_says(name):
    parameters = list(inspect.signature(getattr(xp, name)).parameters.values())
    assert parameters[0].kind is inspect.Parameter.POSITIONAL_ONLY
    assert [p.name for p in parameters] in (["x"], ["x1", "x2"], ["x", "min", "max"])
    assert getattr(xp, name).__name__ == name
    assert getattr(xp, name).__doc__


@pytest.mark.parametrize("name", OTHERS)
def test_signatures_are_the_standards(name):
    assert bare(getattr(xp, name)) == OTHERS[name]


def test_every_public_name_exists_and_the_extension_is_there():
    for name in xp.__all__:
        assert getattr(xp, name) is not None or name == "newaxis"
    assert xp.__array_api_version__ == "2024.12"
    assert not hasattr(xp, "fft")
    assert not hasattr(xp, "complex64")


def test_a_tensor_names_its_namespace(engine):
    x = xp.ones((2, 3))
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match=r"2024\.12, not '1999\.01'"):
        x.__array_namespace__(api_version="1999.01")
    assert x.to_device(x.device) is x
    with pytest.raises(ValueError, match="takes no stream"):
        x.to_device(x.device, stream=1)


def test_dtypes_are_objects_equal_to_the_dtype_of_tensors(engine):
    for name in ("bool", "int8", "uint16", "uint64", "float32"):
        dtype = getattr(xp, name)
        x = xp.zeros((2,), dtype=dtype)
        assert x.dtype == dtype
        assert {dtype: 1}[x.dtype] == 1
        assert np.dtype(dtype) == np.dtype(name)
        assert repr(dtype) == f"netcl.array_api.{name}"
    assert xp.int8 != xp.int16
    assert xp.int8 != 8


def test_inspection_says_that_there_are_no_complex_dtypes(handle):
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="complex floating") == {}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8", "uint16", "uint32", "uint64"}
    assert set(info.default_dtypes()) == {"real floating", "integral", "indexing"}
    assert info.default_device() == handle
    assert any(device.backend == "cpu" for device in info.devices())
    assert info.capabilities()["data-dependent shapes"] is True
    with pytest.raises(ValueError, match="unknown kind 'real'"):
        info.dtypes(kind="real")


def test_limits_and_kinds():
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps
    assert xp.finfo(xp.ones((1,), dtype=xp.float64)).bits == 64
    assert (xp.iinfo(xp.uint64).max, xp.iinfo("int8").min) == (2**64 - 1, -128)
    with pytest.raises(DTypeError, match="finfo: expected a floating dtype, got int8"):
        xp.finfo(xp.int8)
    assert xp.isdtype(xp.uint8, ("bool", "integral"))
    assert not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(xp.float64, xp.float64)
    with pytest.raises(ValueError, match="'whole' is no dtype"):
        xp.isdtype(xp.uint8, "whole")
    assert xp.can_cast(xp.uint8, xp.int16)
    assert not xp.can_cast(xp.int64, xp.float64)
    assert not xp.can_cast(xp.uint64, xp.int64)


def test_zero_dimensional_tensors_promote_like_others(engine):
    """PyTorch's, and netcl's own ops, let the longer tensor decide within a kind."""
    x, number = xp.ones((2,), dtype=xp.int16), xp.asarray(3, dtype=xp.int32)
    assert xp.add(x, number).dtype == xp.int32 == xp.result_type(x, number)
    assert (x + number).dtype == (number + x).dtype == "int32"
    assert (x + 3).dtype == "int16"
    assert xp.where(xp.asarray([True, False]), x, number).dtype == "int32"
    assert xp.concat([x, xp.reshape(number, (1,))]).dtype == "int32"
    assert xp.result_type(xp.float32, 1, 2.5) == xp.float32
    with pytest.raises(ValueError, match="needs a tensor or a dtype"):
        xp.result_type(1, 2)


def test_statistics_have_the_standards_meaning(engine):
    data = np.array([[1.0, 2.0, 4.0], [3.0, -1.0, 5.0]], np.float32)
    x = xp.asarray(data)
    np.testing.assert_allclose(xp.std(x).numpy(), data.std(), rtol=1e-6)
    np.testing.assert_allclose(xp.var(x, axis=1, correction=1.5).numpy(), data.var(1) * 3 / 1.5, rtol=1e-6)
    same(xp.max(x, axis=1), data.max(1))
    assert xp.sum(xp.ones((3,), dtype=xp.uint8)).dtype == "uint64"
    assert xp.sum(xp.ones((3,), dtype=xp.int8), axis=()).dtype == "int64"
    assert xp.prod(xp.ones((3,), dtype=xp.int8), dtype=xp.int8).dtype == "int8"
    assert xp.sum(xp.asarray([2**63, 5], dtype=xp.uint64)).item() == 2**63 + 5
    same(xp.cumulative_sum(x, axis=1, include_initial=True), np.cumsum(np.pad(data, ((0, 0), (1, 0))), 1))
    same(xp.diff(x, axis=1, n=2), np.diff(data, 2, 1))


def test_floor_divide_has_the_standards_special_cases(engine):
    top = xp.asarray([math.inf, -math.inf, 1.0, -1.0, 7.0], dtype=xp.float32)
    bottom = xp.asarray([2.0, 2.0, -math.inf, math.inf, -2.0], dtype=xp.float32)
    found = xp.floor_divide(top, bottom).numpy()
    np.testing.assert_array_equal(found, [math.inf, -math.inf, -0.0, -1.0 * 0.0 - 0.0, -4.0])
    assert np.signbit(found[2:4]).all()
    same(top // bottom, found)
    same(top // math.inf, xp.floor_divide(top, xp.asarray(math.inf)).numpy())
    same(5.0 // bottom, [2.0, 2.0, -0.0, 0.0, -3.0])
    top //= bottom
    same(top, found)
    tensor = nc.tensor([math.inf, -1.0])  # elsewhere as in PyTorch
    same(tensor // nc.tensor([2.0, math.inf]), [math.nan, -1.0])
    # 0.1 is a little more than a tenth; the rounded quotient would be 10.
    assert xp.floor_divide(xp.asarray(1.0, dtype=xp.float64), 0.1).item() == 9


def test_floor_divide_refuses_a_gradient_as_pytorch_does(engine):
    autograd = pytest.importorskip("netcl.autograd", reason="netcl-autograd is not installed")
    x = xp.asarray([1.0, 5.0, math.inf], dtype=xp.float32)
    x.requires_grad = True
    with autograd.Tape():
        total = xp.sum(xp.floor_divide(x, xp.asarray([0.0, 2.0, 2.0], dtype=xp.float32)))
    with pytest.raises(UnsupportedError, match="floor_divide has no gradient"):
        total.backward()


OF_ARRAYS = {
    "abs": lambda x: abs(x),
    "add": lambda x: 1 + x,
    "floordiv": lambda x: x // 2,
    "compare": lambda x: x < 2,
    "equal": lambda x: x == 2,
    "getitem": lambda x: x[0],
    "iterate": lambda x: next(iter(x)),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "matmul": lambda x: x @ x,
    "to_device": lambda x: x.to_device(x.device),
}
OF_THE_NAMESPACE = {
    "reshape": lambda x: xp.reshape(x, (4,)),
    "unstack": lambda x: xp.unstack(x)[1],
    "meshgrid": lambda x: xp.meshgrid(x[0], x[1])[0],
    "qr": lambda x: xp.linalg.qr(x).Q,
    "unique": lambda x: xp.unique_all(x).counts,
    "zeros": lambda x: xp.zeros_like(x),
    "from_dlpack": lambda x: xp.from_dlpack(x),
    "concat": lambda x: xp.concat([x]),
}


@pytest.mark.parametrize("case", [*OF_ARRAYS, *OF_THE_NAMESPACE])
def test_results_from_arrays_are_arrays(case, engine):
    found = (OF_ARRAYS | OF_THE_NAMESPACE)[case](xp.asarray([[1.0, 2.0], [3.0, 5.0]]))
    assert type(found) is xp.Array


@pytest.mark.parametrize("case", OF_THE_NAMESPACE)
def test_functions_give_arrays_of_tensors_too(case, engine):
    x = nc.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert type(OF_THE_NAMESPACE[case](x)) is xp.Array
    assert type(x) is Tensor


@pytest.mark.parametrize("case", OF_ARRAYS)
def test_operators_of_tensors_give_tensors(case, engine):
    assert type(OF_ARRAYS[case](nc.tensor([[1.0, 2.0], [3.0, 5.0]]))) is Tensor


def test_a_tensor_given_to_the_namespace_stays_one(engine):
    """An argument that comes back unchanged comes back as a view of itself, of the namespace's class."""
    x = nc.tensor([1.0, 2.0])
    for view in (xp.asarray(x), xp.astype(x, xp.float32, copy=False), xp.broadcast_arrays(x)[0], xp.concat([x])):
        assert type(x) is Tensor
        assert type(view) is xp.Array
    view = xp.asarray(x)
    view += 1
    same(x, [2.0, 3.0])
    assert type(nc.from_dlpack(x)) is Tensor


def test_arrays_mixed_with_tensors_have_the_standards_operators(engine):
    """Python prefers the reflected operator of a subclass."""
    array, tensor = xp.asarray(3, dtype=xp.int32), nc.tensor([1, 2], dtype="int16")
    assert (tensor + array).dtype == (array + tensor).dtype == "int32"
    assert (tensor + nc.tensor(3, dtype="int32")).dtype == "int16"
    same(tensor < array, [True, True])


def test_arrays_are_copied_and_pickled_as_arrays(engine):
    x = xp.asarray([1.0, math.inf])
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is xp.Array
        same(other // 2, [0.0, math.inf])


def test_rounding_keeps_integers(engine):
    x = xp.asarray([2**53 + 1, -5], dtype=xp.int64)
    for function in (xp.floor, xp.ceil, xp.round, xp.trunc):
        assert function(x).dtype == "int64"
        same(function(x), x.numpy())


def test_clip_takes_bounds_out_of_range_and_tensors(engine):
    x = xp.asarray([0, 100, 255], dtype=xp.uint8)
    same(xp.clip(x, -5, 300), x.numpy())
    same(xp.clip(x, 3, 200), [3, 100, 200])
    same(xp.clip(x, xp.asarray([1, 2, 3], dtype=xp.uint8), None), [1, 100, 255])
    with pytest.raises(DTypeError, match=r"expected a bound in the range of uint8, got 2\.5"):
        xp.clip(x, 2.5)


def test_each_nan_is_distinct(engine):
    x = xp.asarray([math.nan, 1.0, math.nan, 1.0])
    values, indices, inverse, counts = xp.unique_all(x)
    same(values, [1.0, math.nan, math.nan])
    same(counts, [2, 1, 1])
    assert indices.numpy()[0] == 1
    same(inverse, [1, 0, 2, 0])
    assert xp.unique_counts(x)._fields == ("values", "counts")


def test_manipulation(engine):
    data = np.arange(6, dtype=np.int16).reshape(2, 3)
    x = xp.asarray(data)
    same(xp.moveaxis(x, 0, 1), data.T)
    same(xp.repeat(x, xp.asarray([2, 0, 1]), axis=1), np.repeat(data, [2, 0, 1], 1))
    same(xp.repeat(x, 2), np.repeat(data, 2))
    same(xp.tile(x, (2, 1)), np.tile(data, (2, 1)))
    same(xp.unstack(x, axis=1)[2], data[:, 2])
    same(xp.take_along_axis(x, xp.asarray([[2], [0]]), axis=1), [[2], [3]])
    same(xp.meshgrid(xp.arange(2), xp.arange(3))[0], np.meshgrid(np.arange(2), np.arange(3))[0])
    with pytest.raises(ValueError, match=r"expected length 1 of axis .*, got 3"):
        xp.squeeze(x, 1)
    with pytest.raises(IndexError, match="axis 4"):
        xp.expand_dims(x, 4)
    same(xp.searchsorted(xp.asarray([3, 1, 2]), xp.asarray([2]), sorter=xp.asarray([1, 2, 0])), [1])


def test_copies(engine):
    x = xp.ones((2,))
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=True) is not x
    assert xp.astype(x, xp.float32, copy=False) is x
    with pytest.raises(ValueError, match="copy=False forbids"):
        xp.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="copy=False forbids"):
        xp.asarray(x, dtype=xp.int8, copy=False)
    same(xp.from_dlpack(np.arange(3)), [0, 1, 2])
    assert xp.asarray(np.ones(2)).dtype == "float64"
    assert xp.asarray([1.5]).dtype == "float32"


def test_linear_algebra(engine):
    data = np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)
    x = xp.asarray(data)
    np.testing.assert_allclose(xp.linalg.cholesky(x).numpy(), np.linalg.cholesky(data), rtol=1e-5)
    sign, logarithm = xp.linalg.slogdet(x)
    np.testing.assert_allclose((sign * xp.exp(logarithm)).numpy(), 11, rtol=1e-5)
    assert xp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    np.testing.assert_allclose(xp.linalg.trace(x).numpy(), 7)
    ones = xp.ones((2, 2), dtype=xp.int8)
    assert xp.matmul(ones, ones).dtype == xp.tensordot(ones, ones, axes=1).dtype == "int8"
    assert xp.vecdot(ones, ones).dtype == "int8"


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint64"])
def test_products_of_integers_keep_their_dtype(dtype, engine):
    a = (np.arange(12).reshape(3, 4) * 31 % 253).astype(dtype)
    x = xp.asarray(a)
    for found, wanted in ((x @ x.T, a @ a.T), (xp.tensordot(x, x, axes=2), np.tensordot(a, a, 2))):
        assert found.dtype == dtype
        same(found, wanted)


@pytest.mark.parametrize("made", [xp.asarray, Tensor.from_host])
def test_einops_takes_tensors(made, engine):
    einops = pytest.importorskip("einops", reason="einops is not installed")
    from einops import array_api

    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = made(data)
    assert isinstance(array_api.rearrange(x, "a b c -> (a b) c"), Tensor)
    same(array_api.rearrange(x, "a b c -> c (a b)"), einops.rearrange(data, "a b c -> c (a b)"))
    same(array_api.reduce(x, "a b c -> a c", "max"), data.max(1))
    same(array_api.reduce(x, "a (b d) c -> a b", "mean", d=3), einops.reduce(data, "a (b d) c -> a b", "mean", d=3))
    same(array_api.repeat(x, "a b c -> a b c d", d=2), einops.repeat(data, "a b c -> a b c d", d=2))
    packed, shapes = array_api.pack([x, made(data[..., 0])], "a b *")
    expected, _ = einops.pack([data, data[..., 0]], "a b *")
    same(packed, expected)
    same(array_api.unpack(packed, shapes, "a b *")[0], data)


def test_einops_keeps_the_gradient(engine):
    pytest.importorskip("einops", reason="einops is not installed")
    autograd = pytest.importorskip("netcl.autograd", reason="netcl-autograd is not installed")
    from einops import array_api

    x = Tensor.from_host(np.arange(6, dtype=np.float32).reshape(2, 3))
    x.requires_grad = True
    with autograd.Tape():
        total = (array_api.rearrange(x, "a b -> b a")[0] * 3).sum()
    total.backward()
    same(x.grad, [[3, 0, 0], [3, 0, 0]])


@pytest.mark.parametrize("made", [xp.asarray, Tensor.from_host])
@pytest.mark.parametrize("expression", ["ij,jk,kl->il", "ij,jk->", "ij,kj->ik", "ij,ij->ij"])
def test_opt_einsum_takes_tensors(expression, made, engine):
    import opt_einsum

    rng = np.random.default_rng(0)
    lengths = dict(zip("ijkl", (3, 4, 5, 2)))
    shapes = [tuple(lengths[label] for label in term) for term in expression.split("->")[0].split(",")]
    arrays = [rng.random(shape).astype(np.float32) for shape in shapes]
    found = opt_einsum.contract(expression, *map(made, arrays))
    assert isinstance(found, Tensor)
    np.testing.assert_allclose(found.numpy(), np.einsum(expression, *arrays), rtol=1e-5)


def test_a_mask_with_axes_of_length_zero_selects_nothing():
    x = xp.ones((3, 2))
    for shape, found in (((0,), (0, 2)), ((0, 2), (0,)), ((3, 0), (0,)), ((0, 0), (0,))):
        assert x[xp.zeros(shape, dtype=xp.bool)].shape == found == np.ones((3, 2))[np.zeros(shape, bool)].shape
    with pytest.raises(IndexError, match=r"a mask of shape \(1, 0\)"):
        x[xp.zeros((1, 0), dtype=xp.bool)]
