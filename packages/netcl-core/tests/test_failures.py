"""The failure contract of netcl.core: what is wrong has a name, is said before any work, and leaves the rest usable."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.device import device, manager
from netcl.core.engine.registry import engine_for
from netcl.core.errors import (
    BackendMismatchError,
    DeviceNotFoundError,
    DTypeError,
    KernelBuildError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
)
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.memory import PinnedBufferPool, get_persistent_pool

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")

MIB = 1 << 20


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


@pytest.fixture
def fresh(queue):
    """Yields a queue in a context of its own: what is done to it stays with it."""
    context = cl.Context([queue.device])
    yield cl.CommandQueue(context)


# -- sizes, shapes, dtypes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(2, -1), (-1,), (2.0,), (1, 1.5), 2.5, "ab", None, (True,), ((1, 2),), np.array([1.0])]
)
def test_a_shape_that_is_none(handle: DeviceHandle, shape):
    for make in (Tensor.zeros, Tensor.empty, Tensor.ones, lambda shape: Tensor.from_shape(handle, shape)):
        with pytest.raises(ShapeError, match="whole, non-negative"):
            make(shape)


@pytest.mark.parametrize("shape", [(2**63,), (2**40, 2**40), (2**70, 0), 10**30])
def test_more_elements_than_memory_has_addresses(handle: DeviceHandle, shape):
    with pytest.raises(ShapeError, match="more elements than memory can be addressed"):
        Tensor.zeros(shape)


def test_more_than_the_device_has_is_refused_before_any_allocation(queue, monkeypatch):
    pool = get_persistent_pool(queue)
    Tensor.ones((3,), queue=queue)  # the first use of a device probes it, with buffers
    pool.clear()
    before = pool.get_stats()["bytes_allocated"]
    monkeypatch.setattr(cl, "Buffer", None)  # any use of it raises TypeError
    for shape, dtype in (((2**31 + 1, 8), "float32"), ((2**40,), "uint8"), ((2**20, 2**20), "float16")):
        with pytest.raises(OutOfMemoryError, match="largest single buffer") as caught:
            Tensor.zeros(shape, dtype, queue=queue)
        assert caught.value.requested >= np.prod(shape, dtype=object) * {"float32": 4, "uint8": 1, "float16": 2}[dtype]
    assert pool.get_stats()["bytes_allocated"] <= before  # it may have freed unused memory
    monkeypatch.undo()
    assert (Tensor.ones((3,), queue=queue) + 1).tolist() == [2.0] * 3


def test_out_of_memory_in_an_op_names_the_tensors_that_hold_it(queue):
    with config.override(POOL_BUDGET_FRAC=48 * MIB / queue.device.global_mem_size):
        pool = get_persistent_pool(queue)
        pool.clear()
        tracemalloc.start(12)
        try:
            held = Tensor.zeros((8, MIB), queue=queue)
            with pytest.raises(OutOfMemoryError) as caught:
                ops.add(held, 1.0).to_host(), Tensor.zeros((24, MIB), queue=queue)
        finally:
            tracemalloc.stop()
        assert "float32 tensor of shape (8, 1048576) allocated at" in str(caught.value)
        assert "test_failures.py" in str(caught.value), "the user's line, not netcl's"
        assert isinstance(caught.value, MemoryError)
        assert caught.value.largest == queue.device.max_mem_alloc_size
        assert Tensor.ones((2,), queue=queue).tolist() == [1.0, 1.0], "usable after"
        del held


def test_out_of_memory_of_the_host(monkeypatch):
    with pytest.raises(MemoryError), device("cpu"):
        Tensor.empty((2**50,))
    with device("cpu"):
        assert Tensor.ones((2,)).tolist() == [1.0, 1.0]


def test_pinned_host_memory_that_is_not_used_is_bounded(queue):
    with config.override(PINNED_MAX_MB=1):
        pool = PinnedBufferPool(queue.context)
    allocations = [pool.allocate(256 << 10) for _ in range(12)]
    assert pool.stats.bytes_allocated == 12 * (256 << 10)
    del allocations
    deadline = time.monotonic() + 5
    while pool.stats.bytes_allocated > MIB and time.monotonic() < deadline:
        queue.finish()  # other queues of the context may have to be passed too
    assert pool.stats.bytes_allocated <= MIB


def arrays():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    readonly = base.copy()
    readonly.flags.writeable = False
    yield "strided", base[::2, ::-3]
    yield "transposed", base.T
    yield "fortran", np.asfortranarray(base)
    yield "readonly", readonly
    yield "byte-swapped float", base.astype(">f4")
    yield "byte-swapped int", np.arange(5, dtype=">i4")
    yield "byte-swapped half", np.arange(5, dtype=">f2")
    yield "double", base.astype(np.float64)
    yield "long double", base.astype(np.longdouble)
    yield "int8", np.arange(-3, 3, dtype=np.int8)
    yield "uint16", np.arange(6, dtype=np.uint16)
    yield "uint32", np.array([2**32 - 1], np.uint32)
    yield "empty", np.empty((0, 3), np.float32)
    yield "0-d", np.array(2.5, np.float32)
    yield "0-d byte-swapped", np.array(7, ">i8")
    yield "bool", np.array([True, False])
    yield "masked", np.ma.masked_array([1.0, 2.0])
    yield "matrix of one", np.ones((1, 1, 1))
    yield "broadcast", np.broadcast_to(np.float32(3), (3, 4))


ARRAYS = list(arrays())


@pytest.mark.parametrize(("name", "array"), ARRAYS, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("copy", [True, False])
def test_host_arrays_of_any_layout(handle: DeviceHandle, name, array, copy):
    tensor = Tensor.from_host(handle, array, copy=copy)
    assert tensor.dtype == ("float32" if array.dtype.kind == "f" and array.itemsize > 2 else array.dtype.name)
    assert tensor.shape == array.shape
    read = tensor.to_host()
    assert read.shape == array.shape
    assert np.array_equal(read, np.asarray(array))
    assert read.dtype.isnative
    assert read.flags.writeable
    again = Tensor.zeros(array.shape, tensor.dtype, queue=handle.queue)
    assert np.array_equal(again.from_host(array).to_host(), np.asarray(array))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, [("a", "f4"), ("b", "i4")]),
        np.zeros(2, np.complex64),
        np.array(["a", "b"]),
        np.array([1, None], object),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, "V3"),
    ],
    ids=lambda array: str(array.dtype),
)
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_host_arrays_without_a_counterpart(handle: DeviceHandle, array, dtype):
    with pytest.raises(DTypeError, match="has no counterpart; convert it to one of float32"):
        Tensor.from_host(handle, array, dtype)
    with pytest.raises(DTypeError):
        Tensor.zeros((2,)).write(array)


def test_unknown_dtypes(handle: DeviceHandle):
    for wrong in ("float8", "complex64", "int3", ""):
        with pytest.raises(DTypeError, match="supported are float32"):
            Tensor.zeros((2,), wrong)


def test_float64_where_the_device_has_none(queue, monkeypatch):
    engine = engine_for(queue)
    monkeypatch.setattr(engine, "_has_fp64", False)
    raw = np.zeros(4096 + 64, np.uint8)
    aligned = raw[-raw.ctypes.data % 4096 :][:64].view(np.float64)  # what a device that shares memory takes as it is
    for make in (
        lambda: Tensor.from_host(queue, np.ones(3), "float64"),
        lambda: Tensor.from_host(queue, aligned, "float64", copy=False),
        lambda: engine.from_host(aligned, "float64"),
        lambda: Tensor.zeros((3,), "float64", queue=queue),
        lambda: Tensor.ones((3,), queue=queue).astype("float64"),
        lambda: engine.from_host(np.ones(3), "float64", use_pinned=True),
    ):
        with pytest.raises(DTypeError, match=r"has no float64 \(cl_khr_fp64\); use float32"):
            make()
    assert Tensor.from_host(queue, np.ones(3)).dtype == "float32"


# -- allocations and queues --------------------------------------------------------------------------------------------


def test_use_after_release_and_double_release(queue):
    x, y = Tensor.ones((5,), queue=queue), Tensor.ones((5,), queue=queue)
    kernel = KernelSpec("inc", ["__global float* x"], "x[get_global_id(0)] += 1;").build(queue)
    x.pool_handle.release()
    x.pool_handle.release()
    for use in (
        x.to_host,
        x.to_host_async,
        lambda: x.write(np.zeros(5)),
        lambda: ops.add(x, y),
        lambda: ops.add(y, x),
        lambda: x[1:3],
        lambda: ops.matmul(x.reshape(1, 5), y.reshape(5, 1)),
        lambda: kernel.run(queue, (5,), None, x),
    ):
        with pytest.raises(UnsupportedError, match="released buffer|was released"):
            use()
    allocation = get_persistent_pool(queue).allocate(64)
    allocation.release()
    with pytest.raises(UnsupportedError, match="released buffer|was released"):
        kernel.run(queue, (5,), None, allocation)
    assert (y + 1).tolist() == [2.0] * 5


def test_arguments_of_a_kernel_by_hand(queue, fresh):
    spec = KernelSpec("k", ["__global float* x", "const int n", "__local float* t"], "x[0] = n; t[0] = 1;")
    kernel = spec.build(queue)
    x, local = Tensor.zeros((4,), queue=queue), cl.LocalMemory(4)
    elsewhere = cl.Buffer(fresh.context, cl.mem_flags.READ_WRITE, 64)
    cases = [
        ((x, 1), UnsupportedError, r"expected 3 arguments .*, got 2"),
        ((x, 1, local, 2), UnsupportedError, r"expected 3 arguments .*, got 4"),
        ((elsewhere, 1, local), BackendMismatchError, "belongs to another context"),
        ((local, 1, local), UnsupportedError, "expected a tensor or cl.Buffer, got LocalMemory"),
        ((None, 1, local), UnsupportedError, "expected a tensor or cl.Buffer, got NoneType"),
        ((x, None, local), UnsupportedError, "expected a number, got NoneType"),
        ((x, x, local), UnsupportedError, "expected a number, got Tensor"),
        ((x, 2**31, local), DTypeError, "expected a number that fits int"),
        ((x, 1.5, local), DTypeError, "expected a number that fits int"),
        ((x, 1, x), UnsupportedError, r"expected cl\.LocalMemory\(bytes\), got Tensor"),
        ((x, 1, 4), UnsupportedError, r"expected cl\.LocalMemory\(bytes\), got int"),
        ((Tensor.zeros((4,), "int32", queue=queue), 1, local), DTypeError, "a tensor of int"),
    ]
    for args, error, match in cases:
        with pytest.raises(error, match=match):
            kernel.run(queue, (1,), None, *args)
    kernel.run(queue, 1, None, x, 7, local)
    assert x.to_host()[0] == 7


def test_arguments_of_a_kernel_whose_text_hides_them(queue):
    spec = KernelSpec("m", src="#define K(n) __kernel void n(__global float* x, int a)\nK(m) { x[0] = a; }")
    kernel, x = spec.build(queue), Tensor.zeros((1,), queue=queue)
    kernel.run(queue, (1,), None, x, np.int32(3))
    for args in ((x,), (x, np.int32(1), np.int32(2)), (x, 3), (x, np.float64(3))):
        with pytest.raises(UnsupportedError, match="kernel m"):
            kernel.run(queue, (1,), None, *args)
    assert x.to_host()[0] == 3, "none of them ran with the arguments of the call before"


@pytest.mark.parametrize("size", [(-1,), (2.5,), (), (1, 1, 1, 1), "ab", None])
def test_sizes_of_a_launch(queue, size):
    kernel, x = KernelSpec("f", ["__global float* x"], "x[0] = 1;").build(queue), Tensor.zeros((1,), queue=queue)
    with pytest.raises(ShapeError, match="kernel f: expected one to three"):
        kernel.run(queue, size, None, x)
    if size is not None:
        with pytest.raises(ShapeError, match="kernel f: "):
            kernel.run(queue, (4,), size, x)
    assert x.to_host()[0] == 0


def test_a_kernel_that_does_not_build_says_all(queue):
    with pytest.raises(KernelBuildError) as caught:
        KernelSpec("bad", ["__global float* x"], "x[0] = undeclared;", options=["-DX=1"]).build(queue)
    error, text = caught.value, str(caught.value)
    assert error.options == "-DX=1"
    assert "undeclared" in error.log
    assert "x[0] = undeclared" in error.source
    assert queue.device.name.strip() in text
    assert queue.device.driver_version in error.driver
    assert any(line.startswith(">") and "undeclared" in line for line in text.splitlines()), "the line is marked"


def test_an_unknown_device_lists_those_there_are():
    with pytest.raises(DeviceNotFoundError, match=r"'quantum'; there are\n(.|\n)*NumPy"):
        manager.default("quantum")
