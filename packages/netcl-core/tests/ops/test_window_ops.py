"""Convolution, pooling and normalisation: arguments, what they refuse, and statistics kept in place."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.testing import assert_close


def ones(*shape, dtype="float32"):
    return Tensor.ones(shape, dtype)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: ops.conv2d(ones(1, 3, 8, 8), ones(4, 2, 3, 3)),
            r"conv2d: x \(1, 3, 8, 8\), weight \(4, 2, 3, 3\), groups 1; expected x \(N, C, H, W\) or without N",
        ),
        (lambda: ops.conv2d(ones(8, 8), ones(4, 3, 3, 3)), r"conv2d: x \(8, 8\)"),
        (lambda: ops.conv2d(ones(1, 4, 8, 8), ones(3, 2, 3, 3), groups=2), "F a multiple of groups"),
        (lambda: ops.conv2d(ones(1, 3, 8, 8), ones(4, 3, 3, 3), ones(3)), r"bias \(3,\)"),
        (lambda: ops.conv2d(ones(1, 1, 2, 8), ones(1, 1, 3, 3)), r"a window of \(3, 3\) .* does not fit spatial sizes"),
        (
            lambda: ops.conv2d(ones(1, 1, 8, 8), ones(1, 1, 3, 3), stride=0),
            "expected a number from 1 or 2 of them as stride, got 0",
        ),
        (lambda: ops.conv2d(ones(1, 1, 8, 8), ones(1, 1, 3, 3), padding=(1, 2, 3)), "expected a number from 0 or 2"),
        (
            lambda: ops.conv2d(ones(1, 1, 8, 8), ones(1, 1, 3, 3), stride=2, padding="same"),
            "expected stride 1 with padding 'same'",
        ),
        (lambda: ops.conv2d_grad_weight(ones(1, 1, 8, 8), ones(1, 1, 5, 5), (1, 1, 3, 3)), r"expected \(1, 1, 6, 6\)"),
        (
            lambda: ops.conv_transpose2d(ones(1, 2, 4, 4), ones(3, 2, 3, 3)),
            r"expected x \(N, C, H, W\) or without N, weight \(C, F",
        ),
        (lambda: ops.conv_transpose1d(ones(1, 1, 4), ones(1, 1, 3), output_padding=1), "below stride or dilation"),
        (lambda: ops.max_pool2d(ones(1, 4), 2), r"max_pool2d: x \(1, 4\); expected \(N, C, H, W\) or \(C, H, W\)"),
        (lambda: ops.max_pool2d(ones(1, 1, 4, 4), 2, padding=2), "padding 2 is more than half of kernel_size"),
        (lambda: ops.avg_pool1d(ones(1, 1, 4), 5), r"a window of \(5,\)"),
        (
            lambda: ops.adaptive_avg_pool2d(ones(1, 1, 4, 4), (1, 2, 3)),
            "expected a number from 1 or 2 of them as output_size",
        ),
        (lambda: ops.im2col(ones(3, 3), 2), r"im2col: x \(3, 3\); expected \(N, C, spatial"),
        (
            lambda: ops.batch_norm(ones(2, 3), weight=ones(2), training=True),
            r"weight \(2,\) for x \(2, 3\); expected \(3,\)",
        ),
        (lambda: ops.batch_norm(ones(1, 3), training=True), "one element per channel; training needs more"),
        (lambda: ops.layer_norm(ones(2, 3), 4), r"layer_norm: x \(2, 3\) for normalized_shape \(4,\)"),
        (lambda: ops.layer_norm(ones(2, 3), 3, ones(2)), r"layer_norm: weight \(2,\) for normalized_shape \(3,\)"),
        (lambda: ops.group_norm(ones(2, 3), 2), r"group_norm: x \(2, 3\), num_groups 2"),
        (lambda: ops.upsample(ones(1, 1, 2, 2)), "upsample: expected either size or scale_factor"),
    ],
)
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_values_that_do_not_fit():
    with pytest.raises(ValueError, match="expected one of naive, im2col, .* as algo, got 'fft'"):
        ops.conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), algo="fft")
    with pytest.raises(ValueError, match="'same' or 'valid' as padding, got 'full'"):
        ops.conv2d(ones(1, 1, 3, 3), ones(1, 1, 3, 3), padding="full")
    with pytest.raises(DTypeError, match="conv2d: expected floating dtypes, got int64 and int64"):
        ops.conv2d(ones(1, 1, 3, 3, dtype="int64"), ones(1, 1, 3, 3, dtype="int64"))
    with pytest.raises(ValueError, match="running_mean and running_var are needed unless training"):
        ops.batch_norm(ones(2, 3))


def test_every_algorithm_and_spelling_gives_the_same(engine):
    rng = np.random.default_rng(0)
    x, w = (Tensor.from_host(rng.normal(size=shape), "float32") for shape in ((2, 3, 7, 7), (4, 3, 3, 3)))
    wanted = ops.conv2d(x, w, padding=1).numpy()
    for padding in ((1, 1), ((1, 1), (1, 1)), "same"):
        np.testing.assert_array_equal(ops.conv2d(x, w, padding=padding).numpy(), wanted)
    for algo in ("naive", "im2col", "implicit_gemm", "winograd", "tiled_local"):
        assert_close(ops.conv2d(x, w, padding=1, algo=algo), wanted)
    unfolded = ops.matmul(ops.im2col(x, 3, padding=1), w.reshape(4, 27), transpose_b=True)
    assert_close(ops.permute(unfolded.reshape(2, 7, 7, 4), (0, 3, 1, 2)).numpy(), wanted, "float16")


def test_batch_norm_moves_the_running_statistics_as_pytorch_does(engine):
    values = np.random.default_rng(1).normal(2, 3, (4, 3, 5, 5))
    x = Tensor.from_host(values, "float32")
    mean, var = Tensor.zeros(3), Tensor.ones(3)
    y = ops.batch_norm(x, mean, var, training=True, momentum=0.2)
    batch, spread = values.mean((0, 2, 3)), values.var((0, 2, 3), ddof=1)
    assert_close(mean, 0.2 * batch)
    assert_close(var, 0.8 + 0.2 * spread)
    np.testing.assert_allclose(y.numpy().mean((0, 2, 3)), 0, atol=1e-6)
    shifted = ops.batch_norm(x, mean, var).numpy()
    column = (3, 1, 1)
    wanted = (values - (0.2 * batch).reshape(column)) / np.sqrt((0.8 + 0.2 * spread).reshape(column) + 1e-5)
    np.testing.assert_allclose(shifted, wanted, rtol=1e-5, atol=1e-5)


def test_statistics_of_half_are_kept_in_float(engine):
    x = Tensor.from_host(np.random.default_rng(2).normal(300, 2, (64, 2, 8, 8)), "float16")
    mean, var = Tensor.zeros(2), Tensor.zeros(2)
    y = ops.batch_norm(x, mean, var, training=True, momentum=1.0)
    stored = x.numpy().astype(np.float64)
    assert y.dtype == "float16"
    assert mean.dtype == "float32"
    np.testing.assert_allclose(mean.numpy(), stored.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(var.numpy(), stored.var((0, 2, 3), ddof=1), rtol=1e-4)


def test_fold_bn_params(engine):
    rng = np.random.default_rng(3)
    x, weight = (Tensor.from_host(rng.normal(size=shape), "float32") for shape in ((2, 3, 6, 6), (4, 3, 3, 3)))
    bias, mean, gamma, beta = (Tensor.from_host(rng.normal(size=4), "float32") for _ in range(4))
    var = Tensor.from_host(rng.uniform(0.5, 2, 4), "float32")
    apart = ops.batch_norm(ops.conv2d(x, weight, bias), mean, var, gamma, beta)
    folded = ops.fold_bn_params(weight, bias, mean, var, gamma, beta)
    np.testing.assert_allclose(ops.conv2d(x, *folded).numpy(), apart.numpy(), rtol=1e-4, atol=1e-5)
    plain = ops.batch_norm(ops.conv2d(x, weight), mean, var)
    np.testing.assert_allclose(
        ops.conv2d(x, *ops.fold_bn_params(weight, None, mean, var)).numpy(), plain.numpy(), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(ShapeError, match=r"running_var \(3,\) for weight \(4, 3, 3, 3\)"):
        ops.fold_bn_params(weight, bias, mean, ones(3))


def test_the_positions_of_maxima(engine):
    x = Tensor.from_host(np.array([[[[1, 5, 2], [7, np.nan, 0], [3, 3, 3]]]]), "float32")
    y, positions = ops.max_pool2d(x, 2, stride=1, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), np.full((1, 1, 2, 2), np.nan))
    assert positions.dtype == "int32"
    assert positions.tolist() == [[[[4, 4], [4, 4]]]]


@pytest.mark.parametrize("stride", [None, (), [], 2, (2, 2), np.array([2, 2])], ids=repr)
def test_a_stride_of_nothing_is_the_kernel(stride):
    x = Tensor.from_host(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    assert ops.max_pool2d(x, 2, stride=stride).tolist() == [[[[5, 7], [13, 15]]]]
