"""Copies between host and device, fills, and memory that both share."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

from netcl.core import config
from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError, OutOfMemoryError
from netcl.core.memory import PersistentBufferPool, get_pinned_pool

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.queue import transfer as transfer_module  # noqa: E402
from netcl.core.backend.opencl.queue.launch import Launcher  # noqa: E402
from netcl.core.backend.opencl.queue.transfer import Transfer  # noqa: E402

MIB = 1 << 20


@pytest.fixture(params=["pocl", "intel"])
def transfer(request):
    try:
        queue = manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    return Transfer(Launcher(queue))


@pytest.fixture
def pool(transfer):
    return PersistentBufferPool(transfer.launcher.context, transfer.queue)


def round_trip(transfer, pool, array, **how):
    handle = pool.allocate(array.nbytes)
    event, pending, host_ref = transfer.upload(handle.buffer, array, **how)
    out = np.empty(array.shape, array.dtype)
    transfer.download(handle.buffer, out)
    assert np.array_equal(out, array)
    return event, pending, host_ref


WAYS = [
    {},
    {"private": True},
    {"async_copy": False},
    {"use_pinned": True},
    {"use_pinned": True, "async_copy": False},
]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("n", [0, 1, 3, 1000, 300_001])
def test_round_trip(transfer, pool, n, how):
    event, _, _ = round_trip(transfer, pool, np.arange(n, dtype=np.float32), **how)
    if how.get("async_copy") is False or n == 0:
        assert event is None


@pytest.mark.parametrize("how", WAYS)
def test_layouts(transfer, pool, how):
    base = np.arange(600, dtype=np.int32).reshape(20, 30)
    readonly = base.copy()
    readonly.flags.writeable = False
    arrays = [base.T, base[::2, ::-3], np.asfortranarray(base), readonly, np.array(7, np.int64), np.empty((0, 3))]
    for array in arrays:
        round_trip(transfer, pool, array, **how)


@pytest.mark.parametrize("n", [100, 2_000_000])
@pytest.mark.parametrize("pinned", [False, True])
def test_value_is_that_at_the_call(transfer, pool, n, pinned):
    array = np.ones(n, np.float32)
    handle = pool.allocate(array.nbytes)
    gate = cl.UserEvent(transfer.launcher.context)
    if array.nbytes <= 1 << 20 and not pinned:
        cl.enqueue_marker(transfer.queue, wait_for=[gate])  # the copy cannot have run when the array changes
    transfer.upload(handle.buffer, array, use_pinned=pinned)
    array[:] = 2
    gate.set_status(cl.command_execution_status.COMPLETE)
    out = np.empty_like(array)
    transfer.download(handle.buffer, out)
    assert (out == 1).all()


def test_staging_in_several_pieces_is_bounded(transfer, pool, monkeypatch):
    monkeypatch.setattr(transfer_module, "_STAGE", 4096)
    monkeypatch.setattr(transfer_module, "_BYTES_IN_FLIGHT", 4 * 4096)
    before = get_pinned_pool(transfer.queue).stats.bytes_allocated
    round_trip(transfer, pool, np.random.default_rng(0).integers(0, 255, 100_000, dtype=np.uint8), use_pinned=True)
    assert get_pinned_pool(transfer.queue).stats.bytes_allocated - before <= 8 * 4096


def test_no_events_are_kept(transfer, pool):
    for _ in range(50):
        round_trip(transfer, pool, np.ones(100, np.float32))
    transfer.queue.finish()
    round_trip(transfer, pool, np.ones(100, np.float32))
    assert len(transfer._in_flight) <= 2


def open_when_stalled(gate, progress):
    """Opens ``gate`` in a thread, once ``progress()`` has not changed for a second: on a loaded machine one upload of
    8 MiB takes tenths of it.
    """

    def watch():
        last = None
        while (now := progress()) != last:
            last = now
            time.sleep(1.0)
        gate.set_status(cl.command_execution_status.COMPLETE)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize(("n", "count"), [(100, 256), (150_000, 110)])
def test_copies_under_way_are_bounded(transfer, pool, n, count):
    """A host faster than the device waits for it, instead of piling up copies of its arrays."""
    handle = pool.allocate(4 * n)
    gate = cl.UserEvent(transfer.launcher.context)
    cl.enqueue_barrier(transfer.queue, wait_for=[gate])
    most = done = 0
    opener = open_when_stalled(gate, lambda: done)
    for i in range(300):
        transfer.upload(handle.buffer, np.full(n, i, np.float32))
        most = max(most, len(transfer._in_flight))
        done = i
    opener.join()
    out = np.empty(n, np.float32)
    transfer.download(handle.buffer, out)
    assert (out == 299).all()
    assert count - 10 < most <= count + 2


def test_staging_buffers_under_way_are_bounded(transfer, pool):
    """A host faster than the device does not fill the memory with page-locked buffers."""
    handle = pool.allocate(8 * MIB)
    pinned = get_pinned_pool(transfer.queue)
    pinned.clear()
    before = pinned.stats.bytes_allocated
    gate = cl.UserEvent(transfer.launcher.context)
    cl.enqueue_barrier(transfer.queue, wait_for=[gate])
    most = done = 0
    opener = open_when_stalled(gate, lambda: done)
    for i in range(40):
        transfer.upload(handle.buffer, np.full(2 * MIB, i, np.float32), use_pinned=True)
        most = max(most, pinned.stats.bytes_allocated - before)
        done = i
    opener.join()
    out = np.empty(2 * MIB, np.float32)
    transfer.download(handle.buffer, out)
    assert (out == 39).all()
    assert 64 * MIB <= most <= 80 * MIB


@pytest.mark.parametrize("cap", [0, 4, 16])
def test_page_locked_memory_has_a_cap(transfer, pool, cap):
    pinned = get_pinned_pool(transfer.queue)
    pinned.clear()
    with config.override(PINNED_MAX_MB=cap):
        for n in (1000, 5 * MIB):
            round_trip(transfer, pool, np.arange(n, dtype=np.float32), use_pinned=True)
        assert pinned.stats.bytes_allocated <= cap * MIB
        with pytest.raises(OutOfMemoryError):
            pinned.allocate(cap * MIB + 1)
    pinned.clear()


def test_async_download(transfer, pool):
    handle = pool.allocate(4000)
    transfer.upload(handle.buffer, np.full(1000, 5, np.float32))
    out = np.zeros(1000, np.float32)
    event = transfer.download_async(handle.buffer, out)
    event.wait()
    assert (out == 5).all()
    assert transfer.download_async(handle.buffer, np.empty(0, np.float32)) is None


@pytest.mark.parametrize(
    "value", [np.uint8(7), np.float16(1.5), np.float32(-2), np.float64(3.25), np.int64(-9), np.bool_(1)]
)
@pytest.mark.parametrize("n", [0, 1, 7, 64, 65, 1000])
@pytest.mark.parametrize("whole_allocation", [False, True])
def test_fill(transfer, pool, value, n, whole_allocation):
    handle = pool.allocate(n * value.itemsize)
    guard = np.full(handle.bucket_size, 0xAA, np.uint8)
    transfer.upload(handle.buffer, guard, async_copy=False)
    transfer.fill(handle.buffer, n * value.itemsize, value, handle.bucket_size if whole_allocation else 0)
    out = np.empty(handle.bucket_size, np.uint8)
    transfer.download(handle.buffer, out)
    assert (out[: n * value.itemsize].view(value.dtype) == value).all()
    if not whole_allocation:
        assert (out[n * value.itemsize :] == 0xAA).all(), "not a byte further"


def test_fill_is_recorded(transfer, pool):
    handle = pool.allocate(100)
    transfer.upload(handle.buffer, np.zeros(25, np.float32))
    launcher = transfer.launcher
    recording = launcher.recording = launcher.new_recording()
    transfer.fill(handle.buffer, 100, np.float32(4))
    launcher.recording = None
    out = np.empty(25, np.float32)
    transfer.download(handle.buffer, out)
    assert (out == 0).all()
    assert len(recording) == 2
    recording.replay()
    transfer.download(handle.buffer, out)
    assert (out == 4).all()


def aligned(n):
    raw = np.zeros(n + 1024, np.float32)
    start = -raw.ctypes.data % 1024 // 4
    return raw[start : start + n]


def test_zero_copy_works_on_the_array_itself(transfer):
    array = aligned(4096)
    buffer, kept = transfer.zero_copy(array)
    assert kept is array
    transfer.fill(buffer, array.nbytes, np.float32(3))
    transfer.queue.finish()
    assert (array == 3).all()


def test_zero_copy_is_refused_where_it_cannot_be(transfer):
    readonly = aligned(64)
    readonly.flags.writeable = False
    for array in (aligned(65)[1:], aligned(64)[::2], readonly, np.empty(0, np.float32)):
        assert transfer.zero_copy(array) is None


def test_out_of_memory_in_a_copy(transfer, pool, monkeypatch):
    handle = pool.allocate(400)
    calls = []

    def failing(*args, **kwargs):
        calls.append(args)
        raise cl.MemoryError(cl._cl._ErrorRecord(msg="injected", code=-4, routine="clEnqueueWriteBuffer"))

    monkeypatch.setattr(cl, "enqueue_copy", failing)
    with pytest.raises(OutOfMemoryError) as caught:
        transfer.upload(handle.buffer, np.zeros(100, np.float32))
    monkeypatch.undo()
    assert len(calls) == 2
    assert caught.value.requested == 400
    round_trip(transfer, pool, np.ones(100, np.float32))


def test_many_copies_leave_nothing(transfer, pool):
    array = np.ones(100, np.float32)
    for _ in range(20):
        round_trip(transfer, pool, array)
    gc.collect()
    held = pool.get_stats()
    for _ in range(500):
        round_trip(transfer, pool, array)
    gc.collect()
    assert pool.get_stats()["bytes_allocated"] == held["bytes_allocated"]
    assert held["bytes_in_use"] == 0
