"""The pools: allocations, buckets, bounds, statistics, out of memory, threads, the collector; shared memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from netcl.core import config
from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError, OutOfMemoryError, ShapeError, UnsupportedError
from netcl.core.memory import (
    BufferHandle,
    BufferPool,
    PersistentBufferPool,
    PinnedBufferPool,
    PoolStats,
    create_pinned_buffer,
    create_zero_copy_buffer,
    empty_cache,
    get_persistent_pool,
    get_pinned_pool,
    has_svm_support,
    huge_pages,
    is_integrated_gpu,
    memory_summary,
)

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
MIB = 1 << 20


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


def _selector(queue):
    return "pocl" if queue.device.platform.name == "Portable Computing Language" else "intel"


@pytest.fixture
def context(queue):
    """Returns a context that has no other queue: a pool of the process's context takes a returned buffer back only
    after the work on all its queues, some of other tests.
    """
    return cl.Context([queue.device])


@pytest.fixture
def pool(queue):
    return PersistentBufferPool(queue.context, queue)


def test_core_page_pool_sample(context):
    nbytes = 1000
    pool = BufferPool(context)
    h = pool.allocate(nbytes)
    h.release()
    assert (pool.stats.hits, pool.stats.misses, pool.stats.bytes_cached) == (0, 1, 1024)
    again = pool.allocate(nbytes)
    assert (pool.stats.hits, pool.stats.bytes_cached) == (1, 0)
    assert again.nbytes == nbytes
    assert again.bucket_size == 1024
    assert again.buffer.size == 1024
    assert again.pool is pool


def test_core_page_persistent_pool_sample(queue):
    pool = get_persistent_pool(queue)
    stats = pool.get_stats()
    assert {"hits", "misses", "hit_rate", "bytes_allocated", "bytes_cached", "buckets"} <= set(stats)
    assert pool is get_persistent_pool(queue)
    assert isinstance(pool, PersistentBufferPool)


def test_core_page_pinned_pool_and_shared_memory(queue):
    pool = get_pinned_pool(queue)
    assert isinstance(pool, PinnedBufferPool)
    assert pool is get_pinned_pool(queue)
    assert pool.allocate(100).buffer.flags & cl.mem_flags.ALLOC_HOST_PTR
    assert is_integrated_gpu(queue), "an OpenCL CPU device shares memory with the host"
    assert is_integrated_gpu(manager.default("cpu"))
    assert has_svm_support(queue) == bool(queue.device.svm_capabilities)


def test_release_is_once_and_ends_the_allocation(pool):
    handle = pool.allocate(10)
    handle.release()
    handle.release()
    pool.release(handle)
    assert handle.released
    assert handle.buffer is None
    assert pool.get_stats()["buckets"] == {1024: 1}


def test_collected_handle_returns_its_buffer(pool):
    handle = pool.allocate(10)
    buffer = handle.buffer
    del handle
    assert pool.allocate(20).buffer is buffer


def test_kept_handle_never_enters_a_free_list(pool):
    handle = pool.allocate(10)
    handle.keep = True
    handle.release()
    assert pool.stats == PoolStats(0, 1, 0, 0)


_DROPPED_IN_CYCLES = """
import gc
from itertools import chain

from netcl.core import Tensor

cycles = []
for _ in range(3000):
    tensor = Tensor.from_host([1.0])
    tensor.numpy()
    cycles.append([tensor])
    cycles[-1].append(cycles[-1])
del tensor
gc.collect()
cycles.clear()
# Lists made in C make a collection due; it must not begin within the one that ends the tensors.
collected = [*chain(map(list, [()] * 3000), map(gc.collect, [2]))][-1]
print(collected >= 3000)
"""


def test_handles_in_cycles_end_by_a_collection_without_another_in_it(queue):
    done = subprocess.run(
        [sys.executable, "-c", _DROPPED_IN_CYCLES],
        env={**os.environ, "NETCL_DEVICE": _selector(queue)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


def test_the_end_of_a_handle_makes_no_object(pool):
    handles = [pool.allocate(10) for _ in range(100)]
    gc.collect()
    gc.disable()
    try:
        others = [[] for _ in range(1000)]  # the counter does not go below zero
        before = gc.get_count()[0]
        handles.clear()
        after = gc.get_count()[0]
    finally:
        gc.enable()
    assert len(others) == 1000
    assert after <= before - 99


def test_handle_without_a_pool_drops_its_buffer(queue):
    handle = BufferHandle(cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64), 64)
    handle.release()
    assert handle.released


def test_power_of_two_buckets(queue):
    pool = BufferPool(queue.context)
    assert [pool.bucket_for(n) for n in (0, 1, 64, 65, 4096, 4097)] == [64, 64, 64, 128, 4096, 8192]


@pytest.mark.parametrize(
    ("nbytes", "bucket"),
    [(0, 1024), (1, 1024), (1025, 4096), (MIB, MIB), (MIB + 1, MIB + MIB // 8), (3 * MIB, 3 * MIB)]
    + [(5 * MIB + 1, 5 * MIB + MIB // 2), (256 * MIB, 256 * MIB), (257 * MIB, 288 * MIB)],
)
def test_persistent_buckets(pool, nbytes, bucket):
    assert pool.bucket_for(nbytes) == bucket
    assert pool.BUCKETS[0] == 1024
    assert pool.BUCKETS[-1] == 256 * MIB
    assert len(pool.BUCKETS) == 10


def test_rounding_wastes_at_most_an_eighth(pool):
    for nbytes in np.random.default_rng(0).integers(MIB + 1, 1 << 34, 1000):
        assert nbytes <= pool.bucket_for(int(nbytes)) <= nbytes * 1.125 + 1


def test_zero_bytes_get_a_buffer(pool):
    handle = pool.allocate(0)
    assert handle.nbytes == 0
    assert handle.buffer.size == 1024


def test_bad_sizes_are_named(pool):
    with pytest.raises(ShapeError, match="at least 0, got -1"):
        pool.allocate(-1)
    with pytest.raises(TypeError, match=r"got 1\.5"):
        pool.allocate(1.5)
    assert pool.allocate(np.int64(10)).bucket_size == 1024


def test_buffers_of_other_flags_have_lists_of_their_own(context):
    pool = BufferPool(context)
    reading = pool.allocate(100, cl.mem_flags.READ_ONLY)
    buffer = reading.buffer
    assert buffer.flags & cl.mem_flags.READ_ONLY
    reading.release()
    assert pool.allocate(100).buffer is not buffer
    assert pool.allocate(100, cl.mem_flags.READ_ONLY).buffer is buffer


def test_bound_on_cached_bytes_drops_the_least_recently_used(queue):
    pool = PersistentBufferPool(queue.context, queue, max_cached_bytes=3 * 4096)
    handles = [pool.allocate(4096) for _ in range(4)]
    buffers = [handle.buffer for handle in handles]
    for handle in handles:
        handle.release()
    assert pool.stats.bytes_cached == pool.stats.bytes_allocated == 3 * 4096
    left = [pool.allocate(4096) for _ in range(3)]
    assert {id(handle.buffer) for handle in left} == {id(buffer) for buffer in buffers[1:]}


def test_bound_comes_from_the_variable(queue):
    with config.override(MAX_CACHED_GB=4096 / 2**30):
        pool = PersistentBufferPool(queue.context, queue)
        del (handles := [pool.allocate(4096) for _ in range(3)])[:]
        assert pool.stats.bytes_cached == 4096
        assert handles == []


def test_number_of_large_buffers_is_bounded(queue):
    pool = PersistentBufferPool(queue.context, queue, max_buffers_per_bucket=2, large_bucket_bytes=4096)
    for size, kept in ((1024, 5), (4096, 2)):
        del (handles := [pool.allocate(size) for _ in range(5)])[:]
        assert pool.get_stats()["buckets"][size] == kept
        assert not handles


def test_training_loop_hits_above_99_percent(pool):
    sizes = [64, 3000, 40_000, 700_000, 2 * MIB] * 60
    for _ in range(150):
        step = [pool.allocate(n) for n in sizes]
        del step
    assert pool.stats.hit_rate > 0.99


def test_statistics(pool):
    assert pool.stats.hit_rate == 0.0
    first, second = pool.allocate(1000), pool.allocate(5000)
    first.release()
    stats = pool.get_stats()
    assert (stats["bytes_in_use"], stats["bytes_cached"], stats["peak_bytes"]) == (16384, 1024, 17408)
    assert stats["bytes_allocated"] == 17408
    assert stats["buckets"] == {1024: 1}
    pool.clear()
    assert pool.stats.bytes_allocated == 16384
    assert second.buffer is not None


def test_buffer_waits_for_its_event(context):
    pool = BufferPool(context)
    gate = cl.UserEvent(context)
    handle = pool.allocate(100)
    buffer = handle.buffer
    handle.release_after(gate)
    assert pool.allocate(100).buffer is not buffer
    gate.set_status(cl.command_execution_status.COMPLETE)
    found = [pool.allocate(100) for _ in range(2)]
    assert buffer in [handle.buffer for handle in found]


def test_budget_names_the_holders(queue):
    share = 8 * MIB / queue.device.global_mem_size
    with config.override(POOL_BUDGET_FRAC=share):
        pool = PersistentBufferPool(queue.context, queue)
        held = pool.allocate(7 * MIB, note=((3, MIB // 2), "float32"))
        with pytest.raises(OutOfMemoryError, match=r"float32 tensor of shape \(3, 524288\)") as caught:
            pool.allocate(2 * MIB)
        assert caught.value.requested == 2 * MIB
        assert caught.value.free < 2 * MIB
        assert caught.value.largest == queue.device.max_mem_alloc_size
        held.release()
        assert pool.allocate(2 * MIB).buffer.size == 2 * MIB, "usable after"


def test_cached_buffers_make_room_before_an_error(queue):
    with config.override(POOL_BUDGET_FRAC=8 * MIB / queue.device.global_mem_size):
        pool = PersistentBufferPool(queue.context, queue)
        pool.allocate(7 * MIB).release()
        assert pool.allocate(2 * MIB).bucket_size == 2 * MIB
        assert pool.stats.bytes_allocated == 2 * MIB


def test_a_larger_buffer_is_lent_the_smallest_that_fits(queue):
    pool = PersistentBufferPool(queue.context, queue)
    small, medium, large = (pool.allocate(n * MIB) for n in (1, 5, 12))
    buffers = medium.buffer, large.buffer
    for handle in (small, medium, large):
        handle.release()
    two, four = pool.allocate(2 * MIB), pool.allocate(4 * MIB)
    assert (two.buffer, four.buffer) == buffers
    assert (two.nbytes, two.bucket_size, four.bucket_size) == (2 * MIB, 5 * MIB, 12 * MIB)
    assert pool.get_stats()["bytes_in_use"] == 17 * MIB
    assert pool.stats.misses == 3
    four.release()
    assert pool.allocate(1000).bucket_size == 1024, "small buckets are served by their own"
    assert pool.allocate(3 * MIB).bucket_size == 3 * MIB, "twelve are more than three times three"
    two.release()
    assert pool.get_stats()["buckets"] == {1024: 1, **{n * MIB: 1 for n in (1, 3, 5, 12)}}


@pytest.mark.parametrize("drops", [True, False])
def test_unused_buffers_are_dropped_before_new_ones_are_made(queue, drops):
    pool = PersistentBufferPool(queue.context, queue, drops=drops)
    for handle in [pool.allocate(n * MIB) for n in (40, 30, 20, 1)]:
        handle.release()
    assert pool.stats.bytes_cached == 91 * MIB
    held = pool.allocate(48 * MIB)
    # The least recently used first, until 48 are gone or no more than 32 left; none below the sizes that are lent.
    assert list(pool.get_stats()["buckets"]) == [n * MIB for n in ((1, 20) if drops else (1, 20, 30, 40))]
    other = pool.allocate(4 * MIB)
    assert pool.get_stats()["peak_bytes"] == 91 * MIB
    assert pool.stats.bytes_allocated == sum(size * n for size, n in pool.get_stats()["buckets"].items()) + 52 * MIB
    assert held.bucket_size == 48 * MIB
    assert other.bucket_size == 4 * MIB


def test_more_than_the_device_grants(pool, queue):
    with pytest.raises(OutOfMemoryError, match="largest single buffer"):
        pool.allocate(1 << 50)
    assert pool.stats.bytes_allocated == 0


def test_driver_out_of_memory_empties_all_pools_and_tries_once_more(context, monkeypatch):
    other = BufferPool(context)
    other.allocate(4096).release()
    calls = []
    make = cl.Buffer

    def failing(*args, **kwargs):
        calls.append(other.stats.bytes_cached)
        if len(calls) == 1:
            raise cl.MemoryError(cl._cl._ErrorRecord(msg="injected", code=-4, routine="clCreateBuffer"))
        return make(*args, **kwargs)

    monkeypatch.setattr(cl, "Buffer", failing)
    handle = PersistentBufferPool(context, cl.CommandQueue(context)).allocate(100)
    assert handle.buffer is not None
    assert calls == [4096, 0]


def test_holders_say_where_they_were_allocated_while_tracing(queue):
    with config.override(POOL_BUDGET_FRAC=8 * MIB / queue.device.global_mem_size):
        pool = PersistentBufferPool(queue.context, queue)
        tracemalloc.start(10)
        try:
            held = pool.allocate(6 * MIB)
            with pytest.raises(OutOfMemoryError, match=r"allocated at .*\.py:\d+"):
                pool.allocate(4 * MIB)
        finally:
            tracemalloc.stop()
        assert not held.released


def test_release_from_the_collector_in_the_middle_of_pool_code(pool):
    class Cycle:
        def __init__(self):
            self.handle = pool.allocate(100)
            self.me = self

    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(2000):
            Cycle()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    stats = pool.get_stats()
    assert stats["bytes_in_use"] == 0
    assert stats["hits"] + stats["misses"] == 2000


def test_threads_share_a_pool_without_sharing_buffers(pool):
    owners: dict[int, int] = {}
    clashes = []

    def work(me):
        for _ in range(3000):
            handle = pool.allocate(100)
            key = handle.buffer.int_ptr
            if owners.setdefault(key, me) != me:
                clashes.append(key)
            owners.pop(key, None)
            handle.release()

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
    stats = pool.get_stats()
    assert not clashes
    assert stats["bytes_in_use"] == 0
    assert stats["hits"] + stats["misses"] == 24000


def test_two_threads_release_one_handle_once(pool):
    for _ in range(300):
        handle = pool.allocate(100)
        threads = [threading.Thread(target=handle.release) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert pool.get_stats()["buckets"] == {1024: 1}


def test_pinned_buffer_is_mapped(queue):
    buffer, array = create_pinned_buffer(queue, 100)
    assert array.nbytes == 100
    assert array.dtype == np.uint8
    assert buffer.size == 100
    array[:] = 7
    assert (array == 7).all()
    with pytest.raises(ShapeError):
        create_pinned_buffer(queue, 0)


def test_zero_copy_buffer_lies_on_the_array(queue):
    aligned = np.zeros(4096 + 512, np.float32)
    start = -aligned.ctypes.data % 512 // 4
    aligned = aligned[start : start + 4096]
    buffer, kept = create_zero_copy_buffer(queue, aligned)
    assert kept is aligned
    aligned[:] = np.arange(4096)
    out = np.empty_like(aligned)
    cl.enqueue_copy(queue, out, buffer)
    assert np.array_equal(out, aligned)


def test_zero_copy_of_an_array_that_cannot_be_shared_is_a_copy(queue):
    strided = np.arange(100, dtype=np.float32)[::2]
    buffer, kept = create_zero_copy_buffer(queue, strided)
    out = np.empty(50, np.float32)
    cl.enqueue_copy(queue, out, buffer)
    assert kept is not strided
    assert np.array_equal(out, strided)
    with pytest.raises(ShapeError, match="empty"):
        create_zero_copy_buffer(queue, np.empty(0))


def test_numpy_device_has_no_pools():
    with pytest.raises(UnsupportedError, match="OpenCL queue"):
        get_persistent_pool(manager.default("cpu"))


def test_summary_and_empty_cache(queue):
    pool = get_persistent_pool(queue)
    pool.allocate(1000).release()
    assert "PersistentBufferPool" in memory_summary(queue)
    empty_cache(queue)
    assert pool.stats.bytes_cached == 0


def test_large_buffers_of_a_cpu_are_advised_to_large_pages(queue, monkeypatch):
    if not huge_pages.has_huge_pages(queue.context):
        pytest.skip("needs Linux: other systems have no large pages for the asking")
    advised = []
    monkeypatch.setattr(huge_pages, "_advise", lambda address, nbytes: advised.append((address, nbytes)) or 0)
    pool = PersistentBufferPool(queue.context, queue)
    pool.allocate(MIB)
    assert not advised
    allocation = pool.allocate(8 * MIB + 5)
    ((address, nbytes),) = advised
    assert address % 4096 == nbytes % 4096 == 0
    assert allocation.bucket_size - 8192 <= nbytes <= allocation.bucket_size
    allocation.release()
    pool.allocate(8 * MIB + 5)
    assert len(advised) == 1  # what is lent again is advised already


def test_a_buffer_that_cannot_be_mapped_is_still_one(queue, monkeypatch):
    def refuse(*args, **kwargs):
        raise cl.RuntimeError("clEnqueueMapBuffer", cl.status_code.MAP_FAILURE, "refused")

    monkeypatch.setattr(huge_pages.cl, "enqueue_map_buffer", refuse)
    assert PersistentBufferPool(queue.context, queue).allocate(8 * MIB).buffer.size >= 8 * MIB


FULL_ADDRESS_SPACE = """
import resource
import numpy as np
from netcl import ops
from netcl.core.errors import OutOfMemoryError
from netcl.core.tensor.factories import arange, zeros
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
for size in {sizes}:
    held = []
    try:
        while True:
            held.append(zeros(size))
    except (OutOfMemoryError, MemoryError) as error:
        print(type(error).__name__)
    del held
    x = arange(1000.0)
    print(ops.add(x, x).to_host().sum(), zeros(size).to_host().sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: other systems do not limit the address space")
@pytest.mark.parametrize("sizes", [[3_000_000], [100_000, 3_000_000]])
def test_a_full_address_space_is_an_error_and_the_process_goes_on(queue, sizes):
    """PoCL allocates a buffer at its first use, and ends the process with SIGSEGV if it cannot."""
    selector = _selector(queue)
    # PoCL starts a thread for each processor, with a stack and an arena of its own.
    limit = (1500 << 20) + (100 << 20) * (os.cpu_count() or 1)
    script = FULL_ADDRESS_SPACE.format(limit=limit, sizes=sizes)
    environment = {**os.environ, "NETCL_DEVICE": selector, "NETCL_BUILD_PROCESSES": "0", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    expected = ["OutOfMemoryError", "999000.0 0.0"] * len(sizes)
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr[-2000:]
