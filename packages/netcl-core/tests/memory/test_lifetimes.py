"""Buffers, host arrays and events live as long as work needs them and no longer: over queues, threads and long runs."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
from netcl.core.errors import BackendMismatchError, DeviceNotFoundError
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.memory import BufferPool, get_persistent_pool

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.queue.launch import launcher_for  # noqa: E402

N = 4096


@pytest.fixture(scope="module", params=["pocl", "intel"])
def queues(request):
    """Yields two queues of one context that netcl works on."""
    try:
        device = manager.default(request.param).device
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    context = cl.Context([device])
    pair = [cl.CommandQueue(context), cl.CommandQueue(context)]
    for queue in pair:
        launcher_for(queue)
    yield pair


class Gate:
    """Holds all later work of a queue back until it is opened."""

    def __init__(self, queue):
        self.event = cl.UserEvent(queue.context)
        cl.enqueue_barrier(queue, wait_for=[self.event])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.open()

    def open(self):
        if self.event.command_execution_status > 0:
            self.event.set_status(cl.command_execution_status.COMPLETE)


def test_a_buffer_in_use_on_one_queue_is_not_lent_to_another(queues):
    first, second = queues
    pool = BufferPool(first.context)
    values = Tensor.from_host(first, np.ones(N, np.float32))
    first.finish()
    with Gate(first) as gate:
        allocation = pool.allocate(4 * N)
        address = allocation.buffer.int_ptr
        cl.enqueue_copy(first, allocation.buffer, values.buffer)
        allocation.release()
        other = pool.allocate(4 * N)
        assert other.buffer.int_ptr != address, "the copy on the first queue has not run yet"
        gate.open()
    for queue in queues:
        queue.finish()
    again = pool.allocate(4 * N)
    assert again.buffer.int_ptr == address, "it comes back when both queues have passed it"
    assert pool.get_stats()["bytes_in_use"] == 2 * 4 * N


def test_without_markers_a_buffer_comes_back_when_the_queues_are_done(queues, monkeypatch):
    """A driver that has no room for a marker must not make a pool lend what a kernel still uses."""
    pool = BufferPool(queues[0].context)
    allocation = pool.allocate(4 * N)
    address = allocation.buffer.int_ptr

    def refused(*args):
        raise cl.RuntimeError(cl._cl._ErrorRecord(msg="injected", code=-5, routine="clEnqueueMarkerWithWaitList"))

    monkeypatch.setattr(cl, "enqueue_marker", refused)
    gate = Gate(queues[0])
    cl.enqueue_copy(queues[0], allocation.buffer, Tensor.zeros((N,), queue=queues[0]).buffer)
    allocation.release()
    opening = threading.Event()

    def open_gate():
        opening.set()
        gate.open()

    opener = threading.Timer(0.2, open_gate)
    opener.start()
    other = pool.allocate(4 * N)
    assert other.buffer.int_ptr == address
    assert opening.is_set(), "it has waited for the copy"
    opener.join()


def test_tensors_of_a_shared_pool_on_two_queues(queues):
    """Two queues take turns with one BufferPool; a buffer handed over too early would give wrong sums."""
    pool = BufferPool(queues[0].context)
    wrong = 0
    for i in range(200):
        queue = queues[i % 2]
        x = Tensor.from_shape(queue, (N,), pool=pool, fill=i)
        y = ops.sum(x)
        del x
        if i % 7 == 0:
            wrong += y.item() != i * N
    assert wrong == 0


def test_the_queues_own_pools_are_apart(queues):
    first, second = queues
    with Gate(first):
        lent = Tensor.from_shape(first, (N,), fill=1)
        address = lent.buffer.int_ptr
        del lent
        others = [Tensor.from_shape(second, (N,), fill=2) for _ in range(3)]
        assert address not in [tensor.buffer.int_ptr for tensor in others]
        assert all((tensor.to_host() == 2).all() for tensor in others)
    assert get_persistent_pool(first) is not get_persistent_pool(second)


@pytest.mark.parametrize("driver", ["pocl", "intel"])
def test_the_parts_of_a_split_device_share_nothing(driver):
    try:
        handle = manager.default(driver)
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {driver} is not installed")
    if handle.device.max_compute_units < 2:
        pytest.skip("the device has one compute unit")
    parts = manager.split(handle, 2)
    tensors = [Tensor.from_host(part.queue, np.full(N, i, np.float32)) for i, part in enumerate(parts)]
    with pytest.raises(BackendMismatchError, match="move them together"):
        ops.add(*tensors)
    assert ops.add(tensors[0], tensors[1].to(parts[0])).to_host()[0] == 1
    assert get_persistent_pool(parts[0]) is not get_persistent_pool(parts[1])


def test_a_pool_of_elsewhere_is_refused(queues):
    first, second = queues
    with pytest.raises(BackendMismatchError, match="another queue or context"):
        Tensor.from_shape(first, (4,), pool=get_persistent_pool(second))
    context = cl.Context([first.device])
    with pytest.raises(BackendMismatchError, match="another queue or context"):
        Tensor.from_shape(first, (4,), pool=BufferPool(context))


def test_a_kernel_by_hand_wants_tensors_of_its_queue(queues):
    first, second = queues
    kernel = KernelSpec("inc", ["__global float* x"], "x[get_global_id(0)] += 1;").build(first)
    x = Tensor.zeros((4,), queue=second)
    with pytest.raises(BackendMismatchError, match="another queue of"):
        kernel.run(first, (4,), None, x)
    kernel.run(second, (4,), None, x)
    assert x.to_host().tolist() == [1.0] * 4


class Watched(np.ndarray):
    """An array that weak references can watch."""


def shared_array(device):
    align = max(64, device.mem_base_addr_align // 8)
    raw = np.zeros(4 * N + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + 4 * N].view(np.float32)


def test_shared_host_memory_outlives_the_work_on_it(queues):
    queue = queues[0]
    array = shared_array(queue.device).view(Watched)
    array[:] = 3
    ops.neg(Tensor.zeros((N,), queue=queue)).to_host()
    with Gate(queue):
        x = Tensor.from_host(queue, np.asarray(array), copy=False)
        assert x.host_ref is not None, "the device works on the array itself"
        alive = weakref.ref(x.host_ref)
        y = ops.neg(x)
        del x, array
        gc.collect()
        assert alive() is not None, "the kernel that reads it has not run"
    assert (y.to_host() == -3).all()
    Tensor.from_host(queue, shared_array(queue.device), copy=False)  # a later one lets go of what has passed
    y.to_host()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("n", [16, 1 << 20])
def test_no_host_array_is_kept_once_its_copy_is_over(queues, n):
    values = np.ones(n, np.float32).view(Watched)
    given = weakref.ref(values)
    x = Tensor.from_host(queues[0], np.asarray(values))
    taken = [x.to_host(), x.to_host_async().wait()]
    alive = [weakref.ref(array) for array in taken]
    del values, taken
    x.wait()
    gc.collect()
    assert given() is None
    assert [ref() for ref in alive] == [None, None]


def events():
    """Returns the number of cl.Events held by Python objects; the collector tracks not events, but their holders."""
    gc.collect()
    return len({id(item) for item in gc.get_referents(*gc.get_objects()) if isinstance(item, cl.Event)})


def resident():
    """Bytes of the process in memory, 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def test_ten_thousand_launches_and_copies_leave_nothing(queues):
    queue = queues[0]
    x = Tensor.from_host(queue, np.ones(16, np.float32))
    one = Tensor.from_host(queue, np.ones(16, np.float32))

    def rounds(count):
        nonlocal x
        for i in range(count):
            x = ops.add(x, one)
            if i % 10 == 0:
                Tensor.from_host(queue, np.ones(16, np.float32))
            if i % 100 == 0:
                x.to_host()
        x.to_host()

    rounds(3000)
    before = events(), threading.active_count(), get_persistent_pool(queue).get_stats()["bytes_allocated"]
    growth = []
    for _ in range(4):
        start = resident()
        rounds(2500)
        growth.append(resident() - start)
    after = events(), threading.active_count(), get_persistent_pool(queue).get_stats()["bytes_allocated"]
    assert x.to_host()[0] == 13_001
    assert max(before[0], after[0]) < 40, "events are kept"
    # A leak first fills memory that earlier work left free in the heap, and then grows each time; now and then the
    # process takes memory for something else.
    assert min(growth[-2:]) < 1 << 20, f"memory grows by {growth} bytes"
    assert after[1] <= before[1], "threads are kept"  # a driver may end its own meanwhile
    assert after[2] == before[2]


def test_a_pool_that_is_cleared_drops_what_waits_for_its_markers(queues):
    pool = BufferPool(queues[0].context)
    with Gate(queues[0]):
        pool.allocate(1000).release()
        assert pool.stats.bytes_cached == 0
        assert pool.stats.bytes_allocated == 1024
        pool.clear()
        assert pool.stats.bytes_allocated == 0
