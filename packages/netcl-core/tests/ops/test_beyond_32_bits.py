"""Tensors of more elements than 31 and 32 bits count, on devices with the memory for them.

Element i of the input is i % 251. No power of two has this period, so a position that wraps gives another value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.memory.queue_pools import empty_cache
from netcl.core.tensor.factories import arange

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]

NEEDED = 60 * 2**30  # bytes of memory
PERIOD = 251
COLUMNS = 4099
ROWS = 523_905  # 2**31 + 3,447 elements in all
COUNTS = {"2^31": ROWS * COLUMNS, "2^32": 2 * ROWS * COLUMNS}
FAR_ROWS = np.array([0, 1, ROWS // 2, ROWS - 2, ROWS - 1])


@pytest.fixture(autouse=True)
def roomy(handle: DeviceHandle) -> Iterator[None]:
    """Skips devices without the memory; gives it back after the test."""
    if handle.backend == "cpu":
        pytest.skip("NumPy has no kernels")
    if handle.queue.device.global_mem_size < NEEDED:
        pytest.skip("needs a device with 60 GB of memory")
    yield
    empty_cache(handle.queue)


def _host(count: int) -> np.ndarray[Any, Any]:
    return np.resize(np.arange(PERIOD, dtype=np.uint8), count)


def _rows(columns: int = COLUMNS, rows: int = ROWS) -> Tensor:
    return Tensor.from_host(_host(rows * columns).reshape(rows, columns))


def _row(row: int, columns: int = COLUMNS) -> np.ndarray[Any, Any]:
    return (np.arange(columns, dtype=np.int64) + row * columns) % PERIOD


def _far(count: int) -> np.ndarray[Any, Any]:
    """Positions on both sides of the powers of two, the last ones, and some at random."""
    near = [base + d for base in (0, 2**31, 2**32, count) for d in range(-40, 40)]
    drawn = np.random.default_rng(0).integers(0, count, 4000)
    return np.unique([at for at in (*near, *drawn) if 0 <= at < count])


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_elementwise_and_copies(count: int) -> None:
    host = _host(count)
    x = Tensor.from_host(host)
    assert (x.numpy() == host).all()
    y = x + 3
    at = _far(count)
    wanted = ((at % PERIOD) + 3).astype(np.uint8)
    assert (y.numpy()[at] == wanted).all()
    assert (ops.take(y, Tensor.from_host(at)).numpy() == wanted).all()
    assert (ops.flip(x).numpy()[at] == ((count - 1 - at) % PERIOD)).all()
    assert int(ops.sum(y != 3)) == count - -(-count // PERIOD)


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_reductions_and_searches(count: int) -> None:
    host = _host(count)
    top, low = count - 77, count - 1000
    host[top], host[low] = 255, 0
    x = Tensor.from_host(host)
    assert int(ops.sum(x)) == int(host.sum(dtype=np.int64))
    assert int(ops.argmax(x)) == top
    assert int(ops.amax(x)) == 255
    assert ops.nonzero(x > 254).numpy().ravel().tolist() == [top]
    found = ops.topk(x, 1)
    assert (int(found.values), int(found.indices)) == (255, top)
    if count < 2**32:  # the positions of more are larger than a buffer may be
        assert ops.unique(x).numpy().tolist() == [*range(PERIOD), 255]
    assert np.isclose(float(ops.mean(x.to("float16"), dtype="float32")), host.mean(), rtol=1e-6)


def test_positions() -> None:
    count = COUNTS["2^31"]
    at = _far(count)
    assert (ops.take(arange(count, dtype="int64"), Tensor.from_host(at)).numpy() == at).all()


def test_sums_along_axes() -> None:
    x, host = _rows(), _host(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    assert (ops.sum(x, axis=1).numpy() == host.sum(axis=1, dtype=np.int64)).all()
    assert (ops.sum(x, axis=0).numpy() == host.sum(axis=0, dtype=np.int64)).all()


def test_transposes_and_joins() -> None:
    x = _rows()
    turned = ops.transpose(x).contiguous().numpy()
    joined = ops.cat([x, x[:7]]).numpy()
    for row in FAR_ROWS:
        assert (turned[:, row] == _row(row)).all()
        assert (joined[row] == _row(row)).all()
    assert (joined[ROWS:] == joined[:7]).all()


def test_indices_and_scatters() -> None:
    x = _rows()
    index = Tensor.from_host(FAR_ROWS)
    wanted = np.stack([_row(row) for row in FAR_ROWS])
    assert (ops.index_select(x, 0, index).numpy() == wanted).all()
    assert (ops.embedding(index, x).numpy() == wanted).all()
    added = ops.index_add(x, 0, index, Tensor.from_host(np.full((5, COLUMNS), 2, np.uint8))).numpy()
    assert (added[FAR_ROWS] == wanted + 2).all()
    assert (added[ROWS - 3] == _row(ROWS - 3)).all()
    columns = Tensor.from_host(np.full((ROWS, 1), COLUMNS - 1))
    last = ops.gather(x, 1, columns).numpy().ravel()
    assert (last == (np.arange(ROWS) * COLUMNS + COLUMNS - 1) % PERIOD).all()


def test_prefix_sums() -> None:
    count = COUNTS["2^31"]
    x = Tensor.from_host(_host(count))
    sums = ops.cumsum(x, 0).numpy()
    at = _far(count)
    whole, rest = np.divmod(at + 1, PERIOD)
    assert (sums[at] == whole * (PERIOD * (PERIOD - 1) // 2) + rest * (rest - 1) // 2).all()


def test_a_sort_of_all_and_of_rows() -> None:
    count = COUNTS["2^31"]
    x = Tensor.from_host(_host(count))
    found = ops.sort(x)
    values, indices = found.values.numpy(), found.indices.numpy()
    at = _far(count)
    assert (values[:-1] <= values[1:]).all()
    assert (indices[at] % PERIOD == values[at]).all()
    of_rows = ops.sort(x.reshape(ROWS, COLUMNS), axis=1).values.numpy()
    for row in FAR_ROWS:
        assert (of_rows[row] == np.sort(_row(row))).all()


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _normal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    ("op", "reference"),
    [
        (lambda x: ops.softmax(x), _softmax),
        (lambda x: ops.log_softmax(x), lambda x: np.log(_softmax(x))),
        (lambda x: ops.layer_norm(x, (COLUMNS,)), _normal),
        (lambda x: ops.gelu(x), None),
    ],
    ids=["softmax", "log_softmax", "layer_norm", "gelu"],
)
def test_rows(op: Callable[[Tensor], Tensor], reference: Callable[[Any], Any] | None) -> None:
    x = _rows().to("float16") / 64
    found = op(x).numpy()
    few = Tensor.from_host(np.stack([_row(row) for row in FAR_ROWS]).astype(np.float16)) / 64
    assert (found[FAR_ROWS] == op(few).numpy()).all()
    if reference is not None:
        wanted = reference(few.numpy().astype(np.float64))
        assert np.allclose(found[FAR_ROWS], wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_products_with_a_large_operand(dtype: str) -> None:
    weight = np.random.default_rng(0).integers(-2, 3, (64, 40))
    rows = 2**25 + 51
    x = _rows(64, rows).to(dtype)
    found = ops.matmul(x, Tensor.from_host(weight.astype(np.float32)).to(dtype)).to("float32").numpy()
    for row in (0, 1, rows // 2, 2**25 - 1, 2**25, rows - 1):
        assert np.allclose(found[row], _row(row, 64) @ weight, rtol=2e-2 if dtype == "bfloat16" else 2e-3, atol=1)
    back = (
        ops.matmul(ops.transpose(x), Tensor.from_host(np.ones((rows, 1), np.float32)).to(dtype)).to("float32").numpy()
    )
    sums = _host(rows * 64).reshape(rows, 64).sum(axis=0, dtype=np.int64)
    assert dtype == "float16" or np.allclose(back.ravel(), sums, rtol=1e-2)  # the sums are beyond float16


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_products_with_a_large_result(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (65_536, 32)), rng.integers(-3, 4, (32, 32_801))
    one, other = (Tensor.from_host(each.astype(np.float32)).to(dtype) for each in (a, b))
    found = ops.matmul(one, other)
    for row in (0, 1, 32_768, 65_471, 65_472, 65_535):
        assert (found[row].to("float32").numpy() == a[row] @ b).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_convolutions_of_many_images(dtype: str) -> None:
    images, channels, size = 2051, 64, 128
    pixels = channels * size * size
    x = (_rows(pixels, images).to(dtype) / 128).reshape(images, channels, size, size)
    weight = Tensor.from_host(np.random.default_rng(0).standard_normal((8, channels, 3, 3)).astype(np.float32)).to(
        dtype
    )
    found = ops.conv2d(x, weight, padding=1)
    few = np.array([0, images // 2, images - 1])
    slopes = np.zeros((images, 8, size, size), np.float32)
    slopes[few] = np.random.default_rng(1).standard_normal((3, 8, size, size))
    slope = Tensor.from_host(slopes).to(dtype)
    to_weight = ops.conv2d_grad_weight(x, slope, tuple(weight.shape), padding=1)
    to_input = ops.conv2d_grad_input(slope, weight, tuple(x.shape), padding=1)

    one = (np.stack([_row(image, pixels) for image in few]) / 128).astype(np.float32).reshape(3, channels, size, size)
    some, plain, given = Tensor.from_host(one), weight.to("float32"), Tensor.from_host(slopes[few])
    index = Tensor.from_host(few)
    for result, wanted in (
        (ops.index_select(found, 0, index), ops.conv2d(some, plain, padding=1)),
        (ops.index_select(to_input, 0, index), ops.conv2d_grad_input(given, plain, tuple(some.shape), padding=1)),
        (to_weight, ops.conv2d_grad_weight(some, given, tuple(weight.shape), padding=1)),
    ):
        right = wanted.numpy()
        assert np.abs(result.to("float32").numpy() - right).max() <= np.abs(right).max() * 2e-2


def test_pooling_and_normalization_of_many_images() -> None:
    images, channels, size = 2051, 64, 128
    pixels = channels * size * size
    x = (_rows(pixels, images).to("float16") / 128).reshape(images, channels, size, size)
    largest, mean = ops.max_pool2d(x, 2), ops.avg_pool2d(x, 2)
    normal = ops.batch_norm(x, training=True)
    normal = normal[0] if isinstance(normal, tuple) else normal
    for image in (0, images // 2, images - 1):
        one = (_row(image, pixels) / 128).reshape(channels, size // 2, 2, size // 2, 2)
        assert np.allclose(largest[image].numpy(), one.max(axis=(2, 4)), rtol=1e-3)
        assert np.allclose(mean[image].numpy(), one.mean(axis=(2, 4)), rtol=2e-3)
        standard = (one - 125 / 128) / np.sqrt((PERIOD**2 - 1) / 12 / 128**2 + 1e-5)
        assert np.allclose(normal[image].numpy(), standard.reshape(channels, size, size), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_of_many_heads(dtype: str) -> None:
    batch, heads, length, width = 257, 64, 2048, 64
    count = batch * heads * length
    x = (_rows(width, count).to(dtype) / 64 - 2).reshape(batch, heads, length, width)
    found = ops.scaled_dot_product_attention(x, x, x, is_causal=True)
    for entry in (0, batch - 1):
        few = x[entry : entry + 1, heads - 1 :].to("float32").numpy().astype(np.float64)[0, 0]
        first = (np.arange(width * length) + (entry * heads + heads - 1) * length * width) % PERIOD / 64 - 2
        assert np.allclose(few.ravel(), first, atol=2e-2)
        scores = few @ few.T / np.sqrt(width)
        scores[np.triu_indices(length, 1)] = -np.inf
        assert np.allclose(found[entry, heads - 1].to("float32").numpy(), _softmax(scores) @ few, atol=3e-2)


def test_random_numbers() -> None:
    count = COUNTS["2^32"]
    drawn = ops.rand(count, dtype="float16")
    for part in (drawn[: 2**20], drawn[2**31 - 2**19 : 2**31 + 2**19], drawn[count - 2**20 :]):
        numbers = part.numpy().astype(np.float64)
        assert 0.498 < numbers.mean() < 0.502
        assert 0.0825 < numbers.var() < 0.0842
    first, last = drawn[: 2**20].numpy(), drawn[2**32 : 2**32 + 2**12].numpy()
    assert (first[: 2**12] != last).mean() > 0.99
