"""Shapes and products: shared storage, and errors that name shapes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.tensor.memory_format import preserve_format


def ones(*shape, dtype="float32"):
    return Tensor.ones(shape, dtype)


def test_reshapes_share_storage(engine):
    x = Tensor.from_host(np.arange(12, dtype=np.float32))
    for y in (ops.reshape(x, (3, -1)), ops.flatten(ops.reshape(x, (3, 4))), ops.unsqueeze(x, 0), ops.squeeze(x)):
        assert y.storage_id == x.storage_id
    rows = x.reshape(3, 4)
    rows[0] = -1.0
    assert x.tolist()[:5] == [-1, -1, -1, -1, 4]
    assert rows.version == x.version
    assert ops.permute(rows, (0, 1)).storage_id == x.storage_id


def test_views_share_elements_and_all_else_copies(engine):
    x = ones(2, 3)
    for y in (
        ops.roll(x, 0),
        ops.pad(x, 0),
        ops.flip(x, 0),
        x.clone(),
        ops.transpose(x).reshape(6),
        x[[0, 1]],
        ops.tile(x, 1),
    ):
        y[...] = 5
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]
    views = (x[:], ops.expand(x, (2, 3)), ops.transpose(x), ops.split(x, 2)[0], x.reshape(6), x[1, ::2])
    for value, y in enumerate(views, 2):
        y[...] = value
        assert x[1, 2].item() == value or y.size == 4
        assert y.version == x.version
    x[...] = 9
    assert all(y.tolist() == np.full(y.shape, 9).tolist() for y in views)


def test_transpose_forms(engine):
    x = Tensor.from_host(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    values = x.numpy()
    for y, wanted in (
        (x.T, values.T),
        (x.transpose(), values.T),
        (x.transpose(0, 2), np.swapaxes(values, 0, 2)),
        (x.transpose(1, 2, 0), values.transpose(1, 2, 0)),
        (ops.transpose(x, -1, 0), np.swapaxes(values, -1, 0)),
        (ops.transpose(x, (2, 0, 1)), values.transpose(2, 0, 1)),
        (x.permute(2, 1, 0), values.T),
    ):
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_other_dtypes_are_moved_as_they_are(engine):
    for values in (np.array([[True, False], [False, False]]), np.array([[2**40, -1], [0, 7]])):
        x = Tensor.from_host(values)
        np.testing.assert_array_equal(ops.cat([x, x.T], 1).numpy(), np.concatenate([values, values.T], 1))
        np.testing.assert_array_equal(ops.flip(x).numpy(), np.flip(values))
    half = Tensor.from_host(np.array([[1.5, -2.0]]), "bfloat16")
    assert ops.tile(half, 2).tolist() == [[1.5, -2.0, 1.5, -2.0]]
    mixed = ops.cat([Tensor.from_host(np.array([1, 2])), half.reshape(2)])
    assert (mixed.dtype, mixed.tolist()) == ("bfloat16", [1, 2, 1.5, -2])


def test_lists_of_parts(engine):
    x = Tensor.from_host(np.arange(7, dtype=np.float32))
    assert [part.tolist() for part in ops.split(x, [1, 0, 6])] == [[0], [], [1, 2, 3, 4, 5, 6]]
    assert [part.shape for part in ops.chunk(x, 4)] == [(2,), (2,), (2,), (1,)]
    assert [part.item() for part in x] == list(range(7))
    assert [part.shape for part in ops.unbind(ones(2, 3), 1)] == [(2,), (2,), (2,)]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ops.reshape(ones(2, 3), (4, -1)), r"reshape: 6 elements of shape \(2, 3\) do not fit shape \(4, -1\)"),
        (lambda: ones(2, 3).reshape(5), r"6 elements of shape \(2, 3\) do not fit shape \(5,\)"),
        (lambda: ops.permute(ones(2, 3), (0, 0)), r"permute: axes \(0, 0\) name an axis twice"),
        (lambda: ops.permute(ones(2, 3), (0,)), r"has 2 axes, and axes \(0,\) names 1"),
        (lambda: ops.expand(ones(2, 3), (2, 4)), r"shapes \(2, 3\) and \(2, 4\) do not broadcast"),
        (lambda: ops.expand(ones(2, 3), (3,)), r"expand: shape \(2, 3\) does not broadcast to \(3,\)"),
        (lambda: ops.squeeze(ones(2, 3), 2), "squeeze: axis 2 is out of range for 2 dimensions"),
        (lambda: ops.cat([ones(2, 3), ones(3, 2)]), r"cat: shapes \(2, 3\) and \(3, 2\) differ beyond axis 0"),
        (lambda: ops.cat([]), "cat: there is no tensor"),
        (lambda: ops.stack([ones(2), ones(3)]), r"stack: shapes \(2,\) and \(3,\) are not one shape"),
        (lambda: ops.split(ones(5), [2, 2]), r"split: sizes \(2, 2\) do not make up axis 0 of shape \(5,\)"),
        (lambda: ops.pad(ones(3), (1, 2, 3)), r"pad: \(1, 2, 3\) for 1 axes"),
        (lambda: ops.pad(ones(3), 3, "reflect"), r"reflect padding \(3, 3\) is too wide for axis 0"),
        (lambda: ops.tril(ones(3)), "tril: expected a matrix"),
        (lambda: ops.matmul(ones(2, 3), ones(2, 3)), r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit"),
        (lambda: ops.matmul(ones(), ones(2)), r"matmul: shapes \(\) and \(2,\) do not fit"),
        (lambda: ops.matmul(ones(2, 1, 3), ones(3, 3, 1)), r"matmul: shapes \(2,\) and \(3,\) do not broadcast"),
        (lambda: ops.bmm(ones(2, 3), ones(3, 2)), r"bmm: expected shapes \(B, M, K\) and \(B, K, N\)"),
        (lambda: ops.linear(ones(2, 3), ones(4, 2)), r"linear: x \(2, 3\), weight \(4, 2\), bias None; expected"),
        (lambda: ops.linear(ones(2, 3), ones(4, 3), ones(3)), r"bias \(3,\); expected"),
        (lambda: ops.einsum("ij,jk->ik", ones(2, 3), ones(2, 3)), "label 'j' has lengths 3 and 2"),
        (lambda: ops.einsum("ij->ijk", ones(2, 3)), "the output names a label twice or one that no operand has"),
        (lambda: ops.einsum("ijk->i", ones(2, 3)), r"term 'ijk' does not describe shape \(2, 3\)"),
    ],
)
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_products_of_whole_numbers_are_exact(engine):
    a, b = np.array([[2**30, 3], [5, -7]]), np.array([[2**30, 1], [1, 1]])
    x, y = Tensor.from_host(a), Tensor.from_host(b)
    for got, wanted in (
        (x @ y, a @ b),
        (ops.matmul(x, y, transpose_a=True), a.T @ b),
        (ops.matmul(x[0], y, transpose_b=True), a[0] @ b.T),
    ):
        assert got.dtype == "int64"
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_products_promote(engine):
    assert ops.matmul(ones(2, 3, dtype="float16"), ones(3, 2)).dtype == "float32"
    assert ops.linear(ones(2, 3), ones(4, 3, dtype="float16"), ones(4, dtype="float16")).dtype == "float32"
    assert ops.matmul(ones(2, 3, dtype="int32"), ones(3, 2, dtype="float16")).dtype == "float16"
    whole = ops.linear(ones(2, 3, dtype="int32"), ones(4, 3, dtype="int32"))
    assert whole.dtype == "int32"
    assert whole.numpy().tolist() == [[3] * 4] * 2


def test_a_long_half_product_is_summed_in_float(engine):
    found = ops.matmul(ones(1, 8192, dtype="float16"), Tensor.full((8192, 1), 0.25, "float16"))
    assert found.item() == 2048


def test_build_matmul_kernel(handle):
    spec, kernel = ops.build_matmul_kernel(handle.context, tile=8)
    assert "__kernel" in spec.to_source()
    if handle.context is None:
        assert kernel is None
        return
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(19, 13)).astype(np.float32), rng.normal(size=(13, 21)).astype(np.float32)
    x, y, out = Tensor.from_host(a), Tensor.from_host(b), Tensor.zeros((19, 21))
    kernel(handle.queue, (24, 24), (8, 8), x.buffer, y.buffer, out.buffer, *np.array([19, 21, 13], np.int32))
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="expected a positive tile"):
        ops.build_matmul_kernel(handle.context, tile=0)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float32"])
def test_triangles_keep_the_dtype(engine, dtype):
    square = ones(3, 3, dtype=dtype)
    assert ops.tril(square).dtype == ops.triu(square, 1).dtype == dtype
    assert ops.tril(square).tolist() == np.tri(3).tolist()


def test_positions_and_windows_take_a_selector_of_a_device():
    assert ops.tril_indices(2, 2, device="cpu").tolist() == [[0, 1, 1], [0, 0, 1]]
    assert ops.hann_window(4, device="cpu").shape == (4,)


def test_attention_refuses_a_mask_of_integers(engine):
    x = ones(1, 1, 3, 4)
    hidden = ops.tril(ones(3, 3, dtype="bool"))
    causal = ops.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert ops.scaled_dot_product_attention(x, x, x, hidden).tolist() == causal.tolist()
    with pytest.raises(DTypeError, match="expected a bool or floating mask, got int64"):
        ops.scaled_dot_product_attention(x, x, x, ones(3, 3, dtype="int64"))


def test_squeeze_keeps_longer_axes():
    assert ops.squeeze(ones(5, 2), 1).shape == (5, 2)
    assert ops.squeeze(ones(5, 1, 2), (0, 1)).shape == (5, 2)


def test_cat_leaves_an_empty_tensor_of_one_axis_out():
    nothing = Tensor.zeros((0,))
    assert ops.cat([nothing, ones(2, 3)]).tolist() == [[1, 1, 1]] * 2
    assert ops.cat([ones(2, 3), nothing], -2).shape == (2, 3)
    assert ops.cat([Tensor.zeros((0,), "float64"), ones(2, 3)], 1).dtype == "float64"
    assert ops.cat([nothing, nothing]).shape == (0,)


def test_atleast_takes_several_tensors_and_lists():
    for function, shapes in ((ops.atleast_1d, [(1,), (2,)]), (ops.atleast_2d, [(1, 1), (1, 2)])):
        assert [x.shape for x in function([ones(), ones(2)])] == shapes
        assert [x.shape for x in function(ones(), ones(2))] == shapes


def test_a_tensor_without_axes_has_one_of_one_element():
    x = ones()
    for result in (ops.squeeze(x, 0), ops.squeeze(x, -1), ops.flip(x, 0), ops.transpose(x, 0, 0), x.movedim(0, 0)):
        assert result.shape == ()
        assert result.item() == 1
    with pytest.raises(ShapeError, match="flip: axis 1 is out of range for 1 dimension"):
        ops.flip(x, 1)


def test_parts_of_nothing_and_by_a_tensor():
    assert [x.shape for x in Tensor.zeros((0,)).chunk(2)] == [(0,), (0,)]
    two = Tensor.from_host(np.array(2))
    assert [x.shape for x in ones(5).tensor_split(two)] == [(3,), (2,)]
    assert [x.shape for x in ones(5).tensor_split(Tensor.from_host(np.array([1, 2])))] == [(1,), (1,), (3,)]


def test_conversions_take_a_memory_format():
    assert ones(2).bool(memory_format=preserve_format).dtype == "bool"
