"""Regions: memory that buffers of all sizes share, split and merged; the pool of tensors on them."""

from __future__ import annotations

import gc
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError
from netcl.core.memory import PersistentBufferPool
from netcl.core.memory.regions import PAGE, Regions, has_regions
from netcl.runtime.capture import capture

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
MIB = 1 << 20


def _address(array):
    return array.__array_interface__["data"][0]


def _taken(regions, nbytes):
    return regions.take(nbytes, lambda array: array)


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        queue = manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    if not has_regions(queue):
        pytest.skip("needs Linux: elsewhere buffers have no regions")
    return queue


@pytest.fixture
def pool(queue):
    return PersistentBufferPool(queue.context, queue, regions=Regions())


def test_a_request_takes_the_smallest_region_that_fits_and_leaves_the_rest():
    regions = Regions()
    parts = [_taken(regions, pages * PAGE) for pages in (4, 1, 2, 1)]
    places = [_address(part) for part in parts]
    assert places == [places[0] + pages * PAGE for pages in (0, 4, 5, 7)]
    assert (regions.resident, regions.unused) == (8 * PAGE, 0)
    del parts[2], parts[0]
    assert _address(_taken(regions, PAGE)) == places[2], "the region of two pages, and not that of four"
    assert regions.unused == 6 * PAGE, "those that are not held are free again"


def test_neighbours_are_merged_in_any_order():
    regions = Regions()
    for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        parts = {number: _taken(regions, PAGE) for number in range(3)}
        first = min(map(_address, parts.values()))
        for number in order:
            del parts[number]
        whole = _taken(regions, 3 * PAGE)
        assert _address(whole) == first
        assert regions.resident == 3 * PAGE
        del whole


def test_growth_begins_with_the_free_region_at_the_end():
    regions = Regions()
    first, second = _taken(regions, PAGE), _taken(regions, 2 * PAGE)
    end = _address(second)
    del second
    third = _taken(regions, 5 * PAGE)
    assert _address(third) == end
    assert regions.resident == 6 * PAGE
    del first, third
    assert _taken(regions, 300 * MIB).nbytes == 300 * MIB, "a chunk of its own"


def test_trimmed_regions_read_as_zeros_and_count_again_when_they_are_used():
    regions = Regions()
    kept, part = _taken(regions, PAGE), _taken(regions, 2 * PAGE)
    kept[:], part[:] = 1, 2
    del part
    regions.trim()
    regions.trim()
    assert (regions.resident, regions.unused) == (PAGE, 0)
    again = _taken(regions, 2 * PAGE)
    assert not again.any()
    assert kept.all()
    assert (regions.resident, regions.unused) == (3 * PAGE, 0)


def test_an_identity_that_another_buffer_has_is_not_taken_for_the_first():
    regions = Regions()
    part = _taken(regions, PAGE)
    number = id(part)
    place, ref = regions._places[number]
    del part
    assert list(regions._gone) == [(number, place)]
    assert ref() is None
    regions._places[number] = place, ref  # still noted when a plain buffer gets the identity
    with mock.patch("netcl.core.memory.regions.id", lambda _: number, create=True):
        assert not regions.give(object())
    assert regions.unused == PAGE
    assert not regions._places


def test_a_call_within_another_finds_no_room():
    regions = Regions()
    with regions._alone() as alone:
        assert alone
        assert _taken(regions, PAGE) is None
        regions.trim()
    assert _taken(regions, PAGE) is not None


def test_random_use_never_overlaps():
    rng, regions = random.Random(0), Regions()
    used: dict[int, np.ndarray] = {}
    for number in range(1, 3000):
        if used and rng.random() < 0.5:
            key = rng.choice(list(used))
            assert (used[key] == key % 251).all()
            del used[key]
        else:
            used[number] = _taken(regions, rng.choice((1, 2, 3, 7, 20)) * PAGE)
            used[number][:] = number % 251
    taken = sum(part.nbytes for part in used.values())
    assert regions.resident == taken + regions.unused
    assert regions.resident < 4 * max(taken, 1)
    used.clear()
    assert regions.unused == regions.resident
    assert regions._free == [(regions.resident, 0)], "all is one region"


def test_buffers_of_a_pool_share_memory_with_no_other(pool, queue):
    first = pool.allocate(3 * MIB + 5)
    assert first.bucket_size == 3 * MIB + PAGE
    place = _address(first.buffer.get_host_array(1, np.uint8))
    data = np.arange(first.nbytes // 4, dtype=np.float32)
    cl.enqueue_copy(queue, first.buffer, data, is_blocking=True)
    second = pool.allocate(3 * MIB + 5)
    cl.enqueue_fill_buffer(queue, second.buffer, np.float32(7), 0, MIB)
    back = np.empty_like(data)
    cl.enqueue_copy(queue, back, first.buffer, is_blocking=True)
    np.testing.assert_array_equal(back, data)
    first.release()
    again = pool.allocate(3 * MIB)
    assert again.bucket_size == 3 * MIB
    assert _address(again.buffer.get_host_array(1, np.uint8)) in (place, place + 2 * first.bucket_size)


def test_unused_buffers_leave_their_regions_to_others(pool):
    pool.allocate(64 * MIB).release()
    handles = [pool.allocate(4 * MIB) for _ in range(16)]
    assert pool._regions.resident == 64 * MIB, "sixteen of four in the place of one of 64"
    assert pool.get_stats()["peak_bytes"] == 64 * MIB
    del handles[:]
    assert pool.allocate(60 * MIB).bucket_size == 60 * MIB
    assert pool._regions.resident == 64 * MIB


def test_a_step_that_repeats_finds_its_buffers(pool):
    sizes = [270_000, 3 * MIB, 800_000, 2 * MIB, 5 * MIB]
    seen = []
    for _ in range(20):
        step = [pool.allocate(n) for n in sizes]
        seen.append([id(handle.buffer) for handle in step])
        del step
    assert seen[-1] == seen[1]
    assert pool.stats.misses == len(sizes)
    assert pool.stats.hit_rate > 0.9


def test_buffers_that_never_come_back_leave_their_regions(pool):
    for _ in range(50):
        handle = pool.allocate(3 * MIB)
        handle.keep = True
        handle.release()
    assert pool._regions.resident <= 6 * MIB


def test_clear_gives_the_pages_to_the_system(pool, queue):
    def resident():
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) << 10

    held = pool.allocate(MIB)
    handle = pool.allocate(100 * MIB)
    cl.enqueue_fill_buffer(queue, handle.buffer, np.float32(1), 0, 100 * MIB)
    queue.finish()
    before = resident()
    handle.release()
    assert pool.stats.bytes_cached == 100 * MIB
    pool.clear()
    assert (pool.stats.bytes_cached, pool.stats.bytes_allocated) == (0, MIB)
    assert resident() < before - 90 * MIB
    assert held.buffer is not None


def test_the_bound_on_cached_bytes_holds_for_regions_too(queue):
    pool = PersistentBufferPool(queue.context, queue, max_cached_bytes=4 * MIB, regions=Regions())
    for size in (3, 5, 2, 9):
        pool.allocate(size * MIB).release()
    assert pool.stats.bytes_cached <= 4 * MIB


def test_pending_work_ends_on_its_own_contents(pool, queue):
    """A buffer that is given back while kernels use it is used by others only after them."""
    value = np.ones(MIB, np.float32)
    total = np.zeros(MIB, np.float32)
    for number in range(20):
        first = pool.allocate(value.nbytes)
        cl.enqueue_copy(queue, first.buffer, value * number, is_blocking=True)
        second = pool.allocate(value.nbytes)
        cl.enqueue_copy(queue, second.buffer, first.buffer)
        first.release()
        wide = pool.allocate(2 * value.nbytes)  # may be on the region of the first
        cl.enqueue_fill_buffer(queue, wide.buffer, np.float32(-1), 0, 2 * value.nbytes)
        back = np.empty_like(value)
        cl.enqueue_copy(queue, back, second.buffer, is_blocking=True)
        total += back
    np.testing.assert_array_equal(total, np.full_like(total, 190))


def test_the_memory_of_a_captured_step_outlives_its_pending_work(queue):
    def scores(a):
        for _ in range(4):
            a = ops.softmax(ops.matmul(a, a), 1)
        return ops.sum(a, 1)

    a = Tensor.from_host(queue, np.random.default_rng(0).standard_normal((700, 700)).astype(np.float32))
    expected = scores(a).numpy()
    for _ in range(6):
        step = capture(scores, a)
        result = step.replay(a)
        del step  # the arena, of which the queue still uses buffers
        gc.collect()
        np.testing.assert_array_equal(result.numpy(), expected)
    assert not a.engine.launcher.retired


def test_clear_leaves_the_pages_of_an_arena(queue):
    """A replay uses memory that no tensor has, and another thread may clear all pools meanwhile."""
    arena = PersistentBufferPool(queue.context, queue, drops=False, regions=Regions())
    handle = arena.allocate(MIB)
    cl.enqueue_fill_buffer(queue, handle.buffer, np.uint8(7), 0, MIB)
    buffer = handle.buffer
    handle.release()
    arena.clear()
    back = np.empty(MIB, np.uint8)
    cl.enqueue_copy(queue, back, buffer, is_blocking=True)
    assert (back == 7).all()


def test_threads_share_the_pool(pool):
    def work(seed):
        rng = random.Random(seed)
        for _ in range(300):
            handles = [pool.allocate(rng.randrange(270_000, 400_000)) for _ in range(rng.randrange(1, 6))]
            del handles
            if rng.random() < 0.05:
                gc.collect(0)  # a whole collection walks over all that pytest holds

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert pool.stats.bytes_allocated == pool.stats.bytes_cached
