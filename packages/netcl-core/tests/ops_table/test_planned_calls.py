"""Calls that are repeated by execution plans: from the second time on they give what the long way gives, in every
state, for expressions and for matrix products.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import BufferPool, Tensor, config
from netcl.core.backend.opencl.contraction import gemm
from netcl.core.backend.opencl.queue import event_free
from netcl.core.device import manager
from netcl.core.engine.interceptors import Interceptor, Layer, interception
from netcl.core.errors import BackendMismatchError, DeviceNotFoundError, ShapeError, UnsupportedError
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.records import call_key
from netcl.core.ops_table.table import TABLE
from netcl.core.storage.size import Shape
from netcl.core.testing import masked
from netcl.ops.norm import batch_norm_training
from netcl.ops.shape import concatenate
from netcl.profiling import profile
from netcl.runtime.capture import capture

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")

VALUES = np.arange(1, 17, dtype=np.float32)
RNG = np.random.default_rng(24)
# Shapes of x, out features, with a bias; one row, few rows, a tile, columns that no vector divides.
LINEAR = [((1, 784), 512, True), ((1, 37), 10, True), ((1, 37), 10, False), ((5,), 3, True), ((3, 70), 9, True),
          ((2, 3, 40), 7, True), ((64, 50), 33, True), ((64, 50), 33, False), ((1, 5), 1, True)]  # fmt: skip
MATMUL = [
    ((1, 40), (40, 33)), ((33,), (33, 7)), ((7, 33), (33,)), ((33,), (33,)), ((20, 31), (31, 40)),
    ((128, 128), (128, 128)), ((3, 20, 16), (3, 16, 8)), ((2, 1, 3, 5), (4, 5, 2)), ((2, 9, 5), (5, 8)),
]  # fmt: skip
SEVERAL = [((600, 500), (500, 40)), ((8, 20000), (20000, 8))]  # packed rows, split-K


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool", "float16", "bfloat16", "float32", "float64"])
def test_an_expression_of_numpy_is_repeated_with_its_bits(numpy_device: Any, dtype: str) -> None:
    """Broadcast operands, 0-d ones, and numbers in place of operands."""
    values = RNG.integers(0, 2 if dtype == "bool" else 100, (3, 4))
    for shapes in [((3, 4), (3, 4)), ((3, 1), (1, 4)), ((4,), ()), ((), ()), ((0, 4), (4,))]:
        x, y = (Tensor.from_host(numpy_device, np.resize(values, shape), dtype) for shape in shapes)
        for row in ("add", "mul", "lt", "maximum", "eq"):
            for args in ((x, y), (x, 3), (x, 0.5)):
                results = [getattr(ops, row)(*args) for _ in range(4)]
                for result in results:
                    assert (result.shape, result.dtype) == (results[0].shape, results[0].dtype)
                    assert result.numpy().tobytes() == results[0].numpy().tobytes()
                    assert result.array.flags.c_contiguous


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tensors_joined_by_numpy_are_joined_again(numpy_device: Any, axis: int) -> None:
    def parts(lengths: list[int]) -> list[np.ndarray[Any, Any]]:
        return [RNG.integers(0, 9, (length, 3) if axis == 0 else (3, length)) for length in lengths]

    for lengths in ([2, 4, 1], [3], [5, 5]):
        for _ in range(4):
            arrays = parts(lengths)
            joined = ops.cat([Tensor.from_host(numpy_device, array) for array in arrays], axis)
            np.testing.assert_array_equal(joined.numpy(), np.concatenate(arrays, axis))
            assert joined.array.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_product_of_numpy_is_repeated_with_its_bits(numpy_device: Any, dtype: str) -> None:
    def operands(*shapes: tuple[int, ...]) -> list[Tensor]:
        return [Tensor.from_host(numpy_device, RNG.standard_normal(shape), dtype) for shape in shapes]

    calls: list[tuple[Callable[..., Any], list[Tensor]]] = [(ops.matmul, operands(*shapes)) for shapes in MATMUL]
    for shape, features, with_bias in LINEAR:
        shapes = [shape, (features, shape[-1]), *[(features,)] * with_bias]
        calls.append((ops.linear, operands(*shapes)))
    for op, args in calls:
        results = [op(*args).numpy() for _ in range(4)]
        assert results[0].shape == results[-1].shape
        assert all(np.array_equal(each, results[0]) for each in results)
        recorded = capture(op, *args)
        assert np.array_equal(recorded.replay(*args).numpy(), results[0])
        with profile(numpy_device.queue) as seen_launches:
            op(*args)
        assert seen_launches.launches


@pytest.fixture(params=["pocl", "intel"])
def queue(request: pytest.FixtureRequest) -> Any:
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


@pytest.fixture(params=["pocl", "intel", "intel as a GPU"])
def seen(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yields the queue of a device, also as one of a GPU."""
    name, *as_gpu = request.param.split(" ", 1)
    try:
        handle = manager.default(name)
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {name} is not installed")
    if not as_gpu:
        yield handle.queue
        return
    with masked(handle, is_cpu=False, compute_units=16) as gpu:
        yield gpu.queue


@pytest.fixture
def x(queue: Any) -> Tensor:
    return Tensor.from_host(queue, VALUES)


@pytest.fixture(autouse=True)
def fresh() -> None:
    dispatch.records.clear()


def planned(op: Any) -> list[Any]:
    """Returns the functions that repeat calls of an op."""
    rest = (dispatch.once, dispatch._never)
    functions = [record.again for key, record in dispatch.records.items() if key[0] is op.row]
    return [again for again in functions if again not in rest]


def values(shape: tuple[int, ...]) -> Any:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def thrice(queue: Any, op: Any, arrays: list[Any], **options: Any) -> tuple[Tensor, Tensor]:
    """Returns the results on equal tensors: of the first run, and by the plan after a run on other values."""
    first = op(*(Tensor.from_host(queue, one) for one in arrays), **options)
    assert not planned(op)
    op(*(Tensor.from_host(queue, one + 1) for one in arrays), **options)
    assert len(planned(op)) == 1
    return first, op(*(Tensor.from_host(queue, one) for one in arrays), **options)


def in_threads(works: list[Callable[[], None]]) -> None:
    """Runs each work in a thread of its own; the threads change often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


# -- expressions -------------------------------------------------------------------------------------------------------


def test_the_plan_gives_the_bits_of_the_first_run(x):
    first, _, second = (ops.add(x, x).to_host() for _ in range(3))
    assert planned(ops.add)
    assert np.array_equal(first, 2 * VALUES)
    assert np.array_equal(second, first)


def test_numbers_and_attributes_are_those_of_the_call(x):
    for number in (2.0, 3, -1.5, 0.0, -0.0, math.inf):
        with np.errstate(divide="ignore"):
            expected = VALUES / np.float32(number)
        assert np.array_equal(ops.div(x, number).to_host(), expected), number
        assert np.array_equal(ops.sub(number, x).to_host(), np.float32(number) - VALUES), number
    square = ops.reshape(x, (4, 4))
    for axis in (0, 1, 0, 1, None, (0, 1)):
        for keepdims in (False, True, 1):
            result = ops.sum(square, axis, keepdims=keepdims)
            expected = VALUES.reshape(4, 4).sum(axis, keepdims=bool(keepdims))
            assert result.shape == expected.shape
            assert np.array_equal(result.to_host(), expected)
    for slope in (0.5, 0.25):
        assert np.array_equal(ops.leaky_relu(ops.neg(x), slope).to_host(), -VALUES * np.float32(slope))


def test_a_negative_zero_is_not_a_zero_on_the_long_way_either(x):
    results = [ops.where(ops.gt(x, 0), ops.mul(x, zero), x).to_host() for zero in (0.0, -0.0)]
    assert [bool(np.signbit(result).any()) for result in results] == [False, True]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "_planned", lambda *args: None)
        patch.setattr(dispatch, "call_key", lambda *args: None)
        patch.setattr(dispatch, "known", lambda *args: None)
        results = [ops.mul(x, zero).to_host() for zero in (0.0, -0.0)]
    assert [bool(np.signbit(result).any()) for result in results] == [False, True]


def test_a_number_too_large_for_the_kernel(queue):
    x = Tensor.from_host(queue, np.arange(3, dtype=np.int32))
    ops.add(x, 1), ops.add(x, 1)
    with pytest.raises(OverflowError):
        ops.add(x, 1 << 40)
    assert ops.add(x, 2).tolist() == [2, 3, 4]


def test_a_number_too_large_for_the_operands(queue):
    x = Tensor.from_host(queue, np.array([1, 255]), "uint8")
    assert ops.add(x, 1).tolist() == ops.add(x, 1).tolist() == [2, 0]
    for number in (300, -1):  # the kernel computes in int, which holds it
        with pytest.raises(OverflowError, match=f"add: {number} does not fit uint8"):
            ops.add(x, number)


def test_shapes_dtypes_and_devices_are_told_apart(x, queue):
    other = Tensor.from_host(queue, np.arange(16, dtype=np.int32))
    for _ in range(2):
        assert ops.add(x, other).dtype == "float32"
        assert ops.add(other, other).dtype == "int32"
        assert ops.add(ops.reshape(x, (4, 4)), ops.reshape(x, (1, 16))[:, :4]).shape == (4, 4)
        with pytest.raises(BackendMismatchError, match="move them together"):
            ops.add(x, x.cpu())


def test_a_released_operand_is_named(x):
    ops.exp(x), ops.exp(x)
    x.pool_handle.release()
    with pytest.raises(UnsupportedError, match="argument 0 of kernel .* released buffer"):
        ops.exp(x)


def test_hooks_see_planned_calls(x):
    ops.neg(x), ops.neg(x)
    seen = []

    def note(next, row, args, kwargs):
        seen.append(row.name)
        return next(row, args, kwargs)

    dispatch.push_hook(note)
    try:
        assert np.array_equal(ops.neg(x).to_host(), -VALUES)
    finally:
        dispatch.pop_hook(note)
    ops.neg(x)
    assert seen == ["neg"]


def test_a_planned_op_is_recorded(x):
    ops.add(ops.neg(x), x), ops.add(ops.neg(x), x)
    step = capture(lambda t: ops.add(ops.neg(t), t), x)
    assert len(step) == 1  # neighbours are one launch
    assert np.array_equal(step.replay(x).to_host(), np.zeros(16))
    assert np.array_equal(ops.add(x, x).to_host(), 2 * VALUES)


def test_a_finaliser_in_the_middle_of_a_call_does_not_change_it(x, monkeypatch):
    """The collector may run between the arguments and the enqueue, and what it collects may call the same op."""
    monkeypatch.setattr(event_free, "_function", lambda: None)  # a GPU's launches go through pyopencl too
    x = Tensor.from_host(x.queue, VALUES[:15])  # of a shape without kernels from other tests
    zero = Tensor.zeros((15,), queue=x.queue)
    ops.add(zero, zero), ops.add(zero, zero)
    enqueue = cl.enqueue_nd_range_kernel
    inner = []

    def interrupted(*args):
        if not inner:
            inner.append(None)
            inner[0] = ops.add(zero, zero)
        return enqueue(*args)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", interrupted)
    result = ops.add(x, x)
    assert np.array_equal(result.to_host(), 2 * VALUES[:15])
    assert not inner[0].to_host().any()


def test_outputs_come_from_the_pool_and_go_back(x):
    pool = x.engine.pool
    ops.add(x, x), ops.add(x, x)
    gc.collect()  # of other tests' tensors
    before = pool.get_stats()
    for _ in range(100):
        result = ops.add(x, x)
    assert result.pool_handle.note == ((16,), "float32")
    assert result.pool_handle.nbytes == 64
    alive = weakref.ref(result.pool_handle)
    del result
    gc.collect()
    after = pool.get_stats()
    assert alive() is None
    assert after["hits"] - before["hits"] >= 99
    assert after["misses"] <= before["misses"] + 1
    assert after["bytes_in_use"] == before["bytes_in_use"]


def test_outputs_come_from_the_pool_of_the_block(x):
    ops.add(x, x), ops.add(x, x)
    pool = BufferPool(x.context)
    with x.engine.allocating_from(pool):
        result = ops.add(x, x)
    assert result.pool_handle.pool is pool
    assert ops.add(x, x).pool_handle.pool is x.engine.pool


def eight_threads(queue, launches):
    """Returns the threads of eight with a wrong sum; each adds up its own number in as many launches together."""
    inputs = [Tensor.from_host(queue, np.full(64, i, np.float32)) for i in range(8)]
    wrong = []

    def work(i):
        x, total = inputs[i], Tensor.zeros((64,), queue=queue)
        for done in range(1, launches // 8 + 1):
            total = ops.add(total, x)
            if done % 500 == 0 and not (total.to_host() == done * i).all():
                wrong.append((i, done))
                return
        if not (total.to_host() == launches // 8 * i).all():
            wrong.append((i, launches // 8))

    ops.add(inputs[0], inputs[1])
    in_threads([lambda i=i: work(i) for i in range(8)])
    return wrong


def test_eight_threads_launch_one_op_a_hundred_thousand_times(queue):
    assert not eight_threads(queue, 100_000)


def test_several_results_are_planned(queue):
    x = Tensor.from_host(queue, np.arange(48, dtype=np.float32).reshape(4, 3, 4))
    runs = [[result.to_host() for result in batch_norm_training(x, None, None, eps=1e-3)] for _ in range(3)]
    assert planned(batch_norm_training)
    for again in runs[1:]:
        assert all(one.tobytes() == other.tobytes() for one, other in zip(runs[0], again))
    assert [result.shape for result in runs[2]] == [(4, 3, 4), (1, 3, 1), (1, 3, 1)]


def test_the_shape_of_a_tensor_is_a_key_by_value(x) -> None:
    key, again, other = (call_key(TABLE["expand"], (x, Shape(sizes)), {}) for sizes in ((3, 16), (3, 16), (4, 16)))
    assert key is not None
    assert key == again != other


def test_attributes_are_keys_by_value_from_the_second_time_on(x):
    square = ops.reshape(x, (4, 4))
    for _ in range(3):
        assert np.array_equal(ops.sum(square, (0, 1), keepdims=True).to_host(), [[136.0]])
    for slope in (0.0, -0.0, math.nan, 0.0625):
        ops.leaky_relu(x, slope)
    keys = [key for key in dispatch.records if key[0] is ops.leaky_relu.row]
    assert len(keys) == 3  # NaN is no key, the zeros are two
    assert not planned(ops.leaky_relu)  # each was seen once
    negative = ops.neg(x)
    for _ in range(3):
        signs = [np.signbit(ops.leaky_relu(negative, slope).to_host()).any() for slope in (0.0, -0.0)]
        assert signs == [True, False]


def test_keywords_are_keys_by_value_and_type(x: Tensor) -> None:
    row = ops.leaky_relu.row
    keys = [call_key(row, (x,), {"slope": slope}) for slope in (0.0, -0.0, 1.0, 1, True, 0.0625)]
    assert len(set(keys)) == 6
    assert None not in keys
    assert call_key(row, (x,), {"slope": math.nan}) is None
    axes = [call_key(ops.permute.row, (x,), {"axes": axes}) for axes in ((0, 1), [0, 1], (1, 0))]
    assert len(set(axes)) == 3
    assert call_key(ops.permute.row, (x,), {"axes": (False, True)}) is None


# -- matrix products ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "features", "biased"), LINEAR)
def test_linear(seen: Any, shape: tuple[int, ...], features: int, biased: bool) -> None:
    arrays = [values(shape), values((features, shape[-1])), *([values((features,))] if biased else [])]
    first, second = thrice(seen, ops.linear, arrays)
    x, weight, *bias = (one.astype(np.float64) for one in arrays)
    expected = x @ weight.T + (bias[0] if biased else 0)
    assert first.shape == second.shape == expected.shape
    assert np.array_equal(first.to_host(), second.to_host())
    np.testing.assert_allclose(second.to_host(), expected, 1e-5, 1e-5)


@pytest.mark.parametrize(("a", "b"), MATMUL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_matmul(seen: Any, a: Any, b: Any, dtype: str) -> None:
    left, right = (Tensor.from_host(seen, values(shape), dtype) for shape in (a, b))
    first = ops.matmul(left, right)
    other = ops.matmul(ops.neg(left), right)
    second = ops.matmul(left, right)
    assert len(planned(ops.matmul)) == 1
    expected = left.to_host().astype(np.float64) @ right.to_host().astype(np.float64)
    assert first.shape == second.shape == expected.shape
    assert np.array_equal(first.to_host(), second.to_host())
    assert np.array_equal(other.to_host(), -second.to_host())
    tolerance = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(second.to_host().astype(np.float64), expected, tolerance, tolerance)


@pytest.mark.parametrize("transposes", [(True, False), (False, True), (True, True)])
def test_transposes_are_told_apart(queue: Any, transposes: tuple[bool, bool]) -> None:
    arrays = [values((30, 30)), values((30, 30))]
    given = [Tensor.from_host(queue, one) for one in arrays]
    ops.matmul(*given), ops.matmul(*given)
    options = dict(zip(("transpose_a", "transpose_b"), transposes))
    results = [ops.matmul(*given, **options).to_host() for _ in range(3)]
    a, b = (one.T if turned else one for one, turned in zip(arrays, transposes))
    assert np.array_equal(results[0], results[2])
    np.testing.assert_allclose(results[0], a @ b, 1e-5, 1e-5)
    assert len(planned(ops.matmul)) == 2


def test_a_product_of_a_matrix_with_itself_is_not_one_of_two(queue: Any) -> None:
    a, b = values((24, 24)), values((24, 24))
    x, y = Tensor.from_host(queue, a), Tensor.from_host(queue, b)
    ops.matmul(x, x), ops.matmul(x, x)
    np.testing.assert_allclose(ops.matmul(x, y).to_host(), a @ b, 1e-5, 1e-5)
    np.testing.assert_allclose(ops.matmul(y, x).to_host(), b @ a, 1e-5, 1e-5)


@pytest.mark.parametrize(("a", "b"), SEVERAL)
def test_products_of_several_launches(seen: Any, a: Any, b: Any) -> None:
    arrays = [values(a), values(b)]
    first, second = thrice(seen, ops.matmul, arrays)
    assert np.array_equal(first.to_host(), second.to_host())
    np.testing.assert_allclose(second.to_host(), arrays[0] @ arrays[1], 1e-3, 1e-3)


def test_threads_have_temporary_tensors_of_their_own(seen: Any) -> None:
    """Products with split-K and sums of long rows share plans in two threads."""
    given = [[Tensor.from_host(seen, one) for one in (values((8, 3000)), values((3000, 8)))] for _ in range(2)]
    wanted = [(ops.matmul(*pair).to_host(), ops.cumsum(pair[0], 1).to_host()) for pair in given]
    assert len(planned(ops.matmul)) == 1
    wrong = []

    def work(number: int) -> None:
        for _ in range(100):
            product, sums = ops.matmul(*given[number]), ops.cumsum(given[number][0], 1)
            found = product.to_host(), sums.to_host()
            if not all(map(np.array_equal, found, wanted[number])):
                wrong.append(number)

    in_threads([lambda: work(0), lambda: work(1)])
    assert not wrong


def test_nothing_is_left_of_what_memory_held_before(seen: Any) -> None:
    """Results and temporary tensors take the memory of tensors of NaN."""
    given = [Tensor.from_host(seen, values(shape)) for shape in ((8, 3000), (3000, 8))]
    wanted = [ops.matmul(*given).to_host() for _ in range(2)][0]
    for _ in range(3):
        nan = [Tensor.from_host(seen, np.full(size, np.nan, np.float32)) for size in (64, 512, 1024, 24000) * 3]
        seen.finish()
        del nan
        assert np.array_equal(ops.matmul(*given).to_host(), wanted)


def test_a_profiler_sees_planned_calls(seen: Any) -> None:
    x, weight = Tensor.from_host(seen, values((8, 3000))), Tensor.from_host(seen, values((3000, 8)))

    def work() -> Any:
        return ops.exp(ops.matmul(x, weight)).to_host()

    before = [work() for _ in range(3)]
    with profile(seen) as found:
        inside = work()
    assert {row.op for row in found.kernels} == {"matmul", "exp"}
    for each in (inside, work(), *before[1:]):
        assert np.array_equal(each, before[0])


def test_a_setting_that_chooses_the_kernel_takes_the_long_way(seen: Any) -> None:
    x, y = (Tensor.from_host(seen, values((40, 40))) for _ in range(2))
    wanted = [ops.matmul(x, y).to_host() for _ in range(2)][0]
    (again,) = planned(ops.matmul)
    with config.override(KERNEL_STRATEGY="portable"):
        assert (again((x, y)) is None) != gemm.traits(x.engine).is_cpu
        np.testing.assert_allclose(ops.matmul(x, y).to_host(), wanted, 1e-5, 1e-5)
    assert np.array_equal(again((x, y)).to_host(), wanted)


def test_converted_dtypes_and_integers_have_none(queue: Any) -> None:
    a, b = Tensor.from_host(queue, values((3, 8))), Tensor.from_host(queue, np.arange(16, dtype=np.int32).reshape(8, 2))
    for _ in range(3):
        assert ops.matmul(a, b).dtype == "float32"
        assert ops.matmul(b, b, transpose_a=True).dtype == "int32"
        assert ops.linear(a, Tensor.from_host(queue, values((3, 8)), "float64")).dtype == "float64"
    assert not planned(ops.matmul)
    assert not planned(ops.linear)


def test_errors_stay(queue: Any) -> None:
    x, weight, bias = (Tensor.from_host(queue, values(shape)) for shape in ((1, 12), (4, 12), (4,)))
    ops.linear(x, weight, bias), ops.linear(x, weight, bias)
    with pytest.raises(ShapeError, match="linear"):
        ops.linear(x, weight, x)
    bias.pool_handle.release()
    with pytest.raises(UnsupportedError, match="argument . of kernel dot_rows .* released buffer"):
        ops.linear(x, weight, bias)


def test_a_measured_kernel_takes_the_long_way(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = Tensor.from_host(queue, values((20, 30))), Tensor.from_host(queue, values((30, 20)))
    ops.matmul(x, weight), ops.matmul(x, weight)
    (again,) = planned(ops.matmul)
    assert again((x, weight)) is not None
    monkeypatch.setattr(gemm, "fastest_kernel", lambda *args: "packed")
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


def test_a_planned_product_is_recorded(queue: Any) -> None:
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


# -- copies ------------------------------------------------------------------------------------------------------------

JOINED = [([(4, 8), (4, 8)], 0), ([(4, 8), (4, 3)], 1), ([(2, 3, 4), (2, 1, 4), (2, 5, 4)], -2), ([(3,), (5,)], 0),
          ([(1, 1), (1, 1)], 1), ([(7, 3)], 0), ([(200, 300), (200, 300)], 1)]  # fmt: skip


@pytest.mark.parametrize(("shapes", "axis"), JOINED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_joining(seen: Any, shapes: list[tuple[int, ...]], axis: int, dtype: str) -> None:
    arrays = [RNG.integers(0, 2 if dtype == "bool" else 100, shape) for shape in shapes]
    several = [[Tensor.from_host(seen, each + (number > 1), dtype) for each in arrays] for number in range(3)]
    results = [concatenate(*tensors, axis=axis) for tensors in several]
    assert len(planned(concatenate)) == 1
    for tensors, result in zip(several, results):
        expected = np.concatenate([each.to_host() for each in tensors], axis)
        assert result.dtype == dtype
        assert result.shape == expected.shape
        assert np.array_equal(result.to_host(), expected)


def test_joining_a_tensor_with_itself_a_view_and_a_pending_result(queue: Any) -> None:
    x, y = (Tensor.from_host(queue, values((4, 6))) for _ in range(2))
    for _ in range(3):
        concatenate(x, y)
        view = ops.transpose(Tensor.from_host(queue, values((6, 4))))
        pairs = [(x, x), (view, view), (ops.getitem(concatenate(y, y), slice(1, 5)), x)]
        for pair in pairs:
            expected = np.concatenate([each.to_host() for each in pair])
            assert np.array_equal(concatenate(*pair).to_host(), expected)
    assert planned(concatenate)


def test_joins_of_several_threads(queue: Any) -> None:
    pairs = [[Tensor.from_host(queue, values((4, 6))) for _ in range(2)] for _ in range(4)]
    expected = [concatenate(*pair).to_host() for pair in pairs]
    assert len(planned(concatenate)) == 1
    wrong: list[int] = []

    def join(number: int) -> None:
        for _ in range(30):
            if not np.array_equal(concatenate(*pairs[number]).to_host(), expected[number]):
                wrong.append(number)

    in_threads([lambda number=number: join(number) for number in range(4)])  # type: ignore[misc]
    assert wrong == []


def test_joining_in_each_state(queue: Any) -> None:
    x, y = (Tensor.from_host(queue, values((4, 6))) for _ in range(2))
    eager = [concatenate(x, y).to_host() for _ in range(3)]
    step = capture(lambda x: concatenate(x, y), x)
    assert np.array_equal(step.replay(x).to_host(), eager[2])
    with profile(queue) as seen_launches:
        concatenate(x, y)
    assert len(seen_launches.launches) == 2
    pool = BufferPool(x.context)
    with x.engine.allocating_from(pool):
        assert concatenate(x, y).pool_handle.pool is pool
    names = []

    class Note(Interceptor):
        layer = Layer.CALL_LOG

        def __call__(self, proceed: Any, engine: Any, name: str, args: Any, kwargs: Any) -> Any:
            names.append(name)
            return proceed(*args, **kwargs)

    with interception(x.engine, Note()):
        inside = concatenate(x, y)
    assert names == ["copy", "copy"]
    assert np.array_equal(inside.to_host(), eager[0])


def test_other_joins_have_no_plan(queue: Any) -> None:
    x, empty = Tensor.from_host(queue, values((4, 6))), Tensor.from_host(queue, values((0, 6)))
    for _ in range(3):
        assert np.array_equal(concatenate(x, empty).to_host(), x.to_host())
        assert concatenate(x, Tensor.from_host(queue, values((1, 6)), "float64")).dtype == "float64"
        with pytest.raises(ShapeError, match="differ beyond axis 0"):
            concatenate(x, Tensor.from_host(queue, values((4, 5))))
    assert not planned(concatenate)
