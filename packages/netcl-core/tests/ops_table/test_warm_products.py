"""Warm calls of matrix products: the second run gives the bits of the first, in every state, and NumPy's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import BufferPool, Tensor
from netcl.core.backend.interceptors import Interceptor, Layer, interception
from netcl.core.backend.opencl.contraction.cpu import warm_product
from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError, ShapeError, UnsupportedError
from netcl.core.ops_table import dispatch
from netcl.runtime.capture import capture

pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")

RNG = np.random.default_rng(24)
# Shapes of x, out features, with a bias; one row, few rows, a tile, columns that no vector divides.
LINEAR = [((1, 784), 512, True), ((1, 37), 10, True), ((1, 37), 10, False), ((5,), 3, True), ((3, 70), 9, True),
          ((2, 3, 40), 7, True), ((64, 50), 33, True), ((64, 50), 33, False), ((1, 5), 1, True)]  # fmt: skip
# Shapes, and True for products whose kernel reads 16 bits in place: of few rows or columns, and small ones.
MATMUL = [
    ((1, 40), (40, 33), True), ((33,), (33, 7), True), ((7, 33), (33,), True), ((33,), (33,), True),
    ((20, 31), (31, 40), True), ((128, 128), (128, 128), False), ((3, 20, 16), (3, 16, 8), True),
    ((2, 1, 3, 5), (4, 5, 2), True), ((2, 9, 5), (5, 8), True),
]  # fmt: skip
SEVERAL = [((600, 500), (500, 40)), ((8, 20000), (20000, 8))]  # packed rows, split-K


@pytest.fixture(params=["pocl", "intel"])
def queue(request: pytest.FixtureRequest) -> Any:
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


@pytest.fixture(autouse=True)
def none_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Any, Any]]:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(dispatch, "warm_calls", kept)
    yield kept


def values(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def warm(kept: dict[Any, Any], op: Any) -> list[Any]:
    return [again for key, again in kept.items() if key[0] is op.row and again is not dispatch._never]


def twice(queue: Any, kept: dict[Any, Any], op: Any, arrays: list[Any], **options: Any) -> tuple[Tensor, Tensor]:
    """The results on tensors of the same values: of the first run, and of its warm call on other values in between."""
    first = op(*(Tensor.from_host(queue, one) for one in arrays), **options)
    assert len(warm(kept, op)) == 1
    op(*(Tensor.from_host(queue, one + 1) for one in arrays), **options)
    return first, op(*(Tensor.from_host(queue, one) for one in arrays), **options)


@pytest.mark.parametrize(("shape", "features", "biased"), LINEAR)
def test_linear(queue: Any, none_kept: dict[Any, Any], shape: tuple[int, ...], features: int, biased: bool) -> None:
    arrays = [values(shape), values((features, shape[-1])), *([values((features,))] if biased else [])]
    first, second = twice(queue, none_kept, ops.linear, arrays)
    x, weight, *bias = (one.astype(np.float64) for one in arrays)
    expected = x @ weight.T + (bias[0] if biased else 0)
    assert first.shape == second.shape == expected.shape
    assert np.array_equal(first.to_host(), second.to_host())
    np.testing.assert_allclose(second.to_host(), expected, 1e-5, 1e-5)


@pytest.mark.parametrize(("a", "b", "in_place"), MATMUL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_matmul(queue: Any, none_kept: dict[Any, Any], a: Any, b: Any, in_place: bool, dtype: str) -> None:
    left, right = (Tensor.from_host(queue, values(shape), dtype) for shape in (a, b))
    first = ops.matmul(left, right)
    other = ops.matmul(ops.neg(left), right)
    second = ops.matmul(left, right)
    assert len(warm(none_kept, ops.matmul)) == (in_place or dtype != "bfloat16")
    expected = left.to_host().astype(np.float64) @ right.to_host().astype(np.float64)
    assert first.shape == second.shape == expected.shape
    assert np.array_equal(first.to_host(), second.to_host())
    assert np.array_equal(other.to_host(), -second.to_host())
    tolerance = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(second.to_host().astype(np.float64), expected, tolerance, tolerance)


@pytest.mark.parametrize("transposes", [(True, False), (False, True), (True, True)])
def test_transposes_are_told_apart(queue: Any, none_kept: dict[Any, Any], transposes: tuple[bool, bool]) -> None:
    arrays = [values((30, 30)), values((30, 30))]
    given = [Tensor.from_host(queue, one) for one in arrays]
    ops.matmul(*given), ops.matmul(*given)
    options = dict(zip(("transpose_a", "transpose_b"), transposes))
    results = [ops.matmul(*given, **options).to_host() for _ in range(2)]
    a, b = (one.T if turned else one for one, turned in zip(arrays, transposes))
    assert np.array_equal(*results)
    np.testing.assert_allclose(results[1], a @ b, 1e-5, 1e-5)
    assert len(warm(none_kept, ops.matmul)) == 2


def test_a_product_of_a_matrix_with_itself_is_not_one_of_two(queue: Any) -> None:
    a, b = values((24, 24)), values((24, 24))
    x, y = Tensor.from_host(queue, a), Tensor.from_host(queue, b)
    ops.matmul(x, x), ops.matmul(x, x)
    np.testing.assert_allclose(ops.matmul(x, y).to_host(), a @ b, 1e-5, 1e-5)
    np.testing.assert_allclose(ops.matmul(y, x).to_host(), b @ a, 1e-5, 1e-5)


@pytest.mark.parametrize(("a", "b"), SEVERAL)
def test_products_of_several_launches_have_none(queue: Any, none_kept: dict[Any, Any], a: Any, b: Any) -> None:
    arrays = values(a), values(b)
    given = [Tensor.from_host(queue, one) for one in arrays]
    results = [ops.matmul(*given).to_host() for _ in range(2)]
    assert not warm(none_kept, ops.matmul)
    assert none_kept  # it is known that there is none
    assert np.array_equal(*results)
    np.testing.assert_allclose(results[0], arrays[0] @ arrays[1], 1e-3, 1e-3)


def test_converted_dtypes_and_integers_have_none(queue: Any, none_kept: dict[Any, Any]) -> None:
    a, b = Tensor.from_host(queue, values((3, 8))), Tensor.from_host(queue, np.arange(16, dtype=np.int32).reshape(8, 2))
    for _ in range(2):
        assert ops.matmul(a, b).dtype == "float32"
        assert ops.matmul(b, b, transpose_a=True).dtype == "int32"
        assert ops.linear(a, Tensor.from_host(queue, values((3, 8)), "float64")).dtype == "float64"
    assert not warm(none_kept, ops.matmul)
    assert not warm(none_kept, ops.linear)


def test_errors_stay(queue: Any) -> None:
    x, weight, bias = (Tensor.from_host(queue, values(shape)) for shape in ((1, 12), (4, 12), (4,)))
    ops.linear(x, weight, bias), ops.linear(x, weight, bias)
    with pytest.raises(ShapeError, match="linear"):
        ops.linear(x, weight, x)
    bias.pool_handle.release()
    with pytest.raises(UnsupportedError, match="argument . of kernel dot_rows .* was released"):
        ops.linear(x, weight, bias)


def test_a_measured_kernel_takes_the_long_way(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = Tensor.from_host(queue, values((20, 30))), Tensor.from_host(queue, values((30, 20)))
    ops.matmul(x, weight), ops.matmul(x, weight)
    (again,) = dispatch.warm_calls.values()
    assert again((x, weight)) is not None
    monkeypatch.setattr(warm_product, "fastest_kernel", lambda *args: "packed")
    assert again((x, weight)) is None


def test_interceptors_see_products(queue: Any) -> None:
    x, weight = Tensor.from_host(queue, values((1, 30))), Tensor.from_host(queue, values((20, 30)))
    before = [ops.linear(x, weight).to_host() for _ in range(2)]
    seen = []

    class Note(Interceptor):
        layer = Layer.CALL_LOG

        def __call__(self, proceed: Any, engine: Any, name: str, args: Any, kwargs: Any) -> Any:
            seen.append(name)
            return proceed(*args, **kwargs)

    with interception(x.engine, Note()):
        inside = ops.linear(x, weight)
    assert seen == ["matmul"]
    assert np.array_equal(inside.to_host(), before[1])


def test_a_warm_product_is_recorded(queue: Any) -> None:
    x, weight, bias = (Tensor.from_host(queue, values(shape)) for shape in ((1, 60), (40, 60), (40,)))
    eager = [ops.relu(ops.linear(x, weight, bias)).to_host() for _ in range(2)]
    step = capture(lambda x: ops.relu(ops.linear(x, weight, bias)), x)
    assert len(step) == 1
    assert np.array_equal(step.replay(x).to_host(), eager[1])
    assert np.array_equal(ops.relu(ops.linear(x, weight, bias)).to_host(), eager[0])


def test_results_come_from_the_pool_of_the_block(queue: Any) -> None:
    x, weight = Tensor.from_host(queue, values((1, 30))), Tensor.from_host(queue, values((20, 30)))
    ops.linear(x, weight), ops.linear(x, weight)
    pool = BufferPool(x.context)
    with x.engine.allocating_from(pool):
        inside = ops.linear(x, weight)
    assert inside.pool_handle.pool is pool
    assert ops.linear(x, weight, pool=pool).pool_handle.pool is pool
    assert ops.linear(x, weight).pool_handle.pool is x.engine.pool
