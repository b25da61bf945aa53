"""Warm calls: an op's second run on arguments of the same description gives what the long way would, in every state."""

from __future__ import annotations

import gc
import math
import sys
import threading
import weakref

import numpy as np
import pytest

from netcl import ops
from netcl.core import BufferPool, Tensor
from netcl.core.backend.opencl.queue import event_free
from netcl.core.device import manager
from netcl.core.errors import BackendMismatchError, DeviceNotFoundError, UnsupportedError
from netcl.core.ops_table import dispatch
from netcl.ops.norm import batch_norm_training
from netcl.runtime.capture import capture

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")

VALUES = np.arange(1, 17, dtype=np.float32)


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


@pytest.fixture
def x(queue):
    return Tensor.from_host(queue, VALUES)


def warm_calls(row):
    """The warm calls that there are of an op's row."""
    return [again for key, again in dispatch.warm_calls.items() if key[0] is row and again is not dispatch._never]


def test_the_second_run_is_warm_and_equal(x):
    first, second = ops.add(x, x).to_host(), ops.add(x, x).to_host()
    assert warm_calls(ops.add.row)
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
        patch.setattr(dispatch, "keep_warm_call", lambda *args: None)
        patch.setattr(dispatch, "call_key", lambda *args: None)
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
    with pytest.raises(UnsupportedError, match="argument 0 of kernel .* was released"):
        ops.exp(x)


def test_hooks_see_warm_calls(x):
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


def test_a_warm_op_is_recorded(x):
    ops.add(ops.neg(x), x), ops.add(ops.neg(x), x)
    step = capture(lambda t: ops.add(ops.neg(t), t), x)
    assert len(step) == 1  # neighbours are one launch
    assert np.array_equal(step.replay(x).to_host(), np.zeros(16))
    assert np.array_equal(ops.add(x, x).to_host(), 2 * VALUES)


def test_a_finaliser_in_the_middle_of_a_call_does_not_change_it(x, monkeypatch):
    """The collector may run between the arguments and the enqueue, and what it collects may call the same op."""
    monkeypatch.setattr(event_free, "_function", lambda: None)  # a GPU's launches go through pyopencl too
    x = Tensor.from_host(x.queue, VALUES[:15])  # of a shape whose kernels no other test has made
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
    """Which of eight threads, each adding up its own number in as many launches together, got a wrong sum."""
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
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return wrong


def test_eight_threads_launch_one_op_a_hundred_thousand_times(queue):
    assert not eight_threads(queue, 100_000)


def test_several_results_are_warm(queue):
    x = Tensor.from_host(queue, np.arange(48, dtype=np.float32).reshape(4, 3, 4))
    runs = [[result.to_host() for result in batch_norm_training(x, None, None, eps=1e-3)] for _ in range(3)]
    assert warm_calls(batch_norm_training.row)
    for again in runs[1:]:
        assert all(one.tobytes() == other.tobytes() for one, other in zip(runs[0], again))
    assert [result.shape for result in runs[2]] == [(4, 3, 4), (1, 3, 1), (1, 3, 1)]


def test_attributes_are_keys_by_value_from_the_second_time_on(x):
    square = ops.reshape(x, (4, 4))
    for _ in range(3):
        assert np.array_equal(ops.sum(square, (0, 1), keepdims=True).to_host(), [[136.0]])
    before = len(warm_calls(ops.leaky_relu.row))
    for slope in (0.0, -0.0, math.nan, 0.0625):
        ops.leaky_relu(x, slope)
    assert len(warm_calls(ops.leaky_relu.row)) == before + 3  # seen once: NaN is no key, the zeros are two
    negative = ops.neg(x)
    for _ in range(3):
        signs = [np.signbit(ops.leaky_relu(negative, slope).to_host()).any() for slope in (0.0, -0.0)]
        assert signs == [True, False]
