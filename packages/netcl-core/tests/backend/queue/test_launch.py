"""Launches: arguments, errors, kernels per thread, prepared launches, recordings and their replays."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque

import numpy as np
import pytest

from netcl.core.device import manager
from netcl.core.device.health import forget_launches
from netcl.core.errors import DeviceLostError, DeviceNotFoundError, KernelBuildError, OutOfMemoryError, UnsupportedError

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.queue import event_free, launch  # noqa: E402
from netcl.core.backend.opencl.queue.launch import Launcher, launcher_for  # noqa: E402
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache  # noqa: E402
from netcl.core.engine.recording import Recording  # noqa: E402
from netcl.core.storage.storage import Storage  # noqa: E402

SOURCE = """
__kernel void axpy(__global float* y, __global const float* x, const float a, const uint n) {
    size_t i = get_global_id(0);
    if (i < n) y[i] += a * x[i];
}
__kernel void set(__global float* y, const float value) { y[get_global_id(0)] = value; }
"""
N = 256


class FakeTensor:
    """The part of a tensor that a launch needs: its storage, with buffer and allocation."""

    def __init__(self, handle):
        self._storage = Storage.of(handle.buffer, None, handle)
        self.pool_handle = handle
        self.buffer = handle.buffer


@pytest.fixture(params=["pocl", "intel"])
def launcher(request, tmp_path):
    try:
        queue = manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    return Launcher(queue, ProgramCache(tmp_path))


@pytest.fixture
def arena(launcher):
    return launcher.new_recording().pool


def tensor(pool, launcher, values):
    handle = pool.allocate(4 * N)
    cl.enqueue_copy(launcher.queue, handle.buffer, np.full(N, values, np.float32))
    return FakeTensor(handle)


def read(launcher, item):
    out = np.empty(N, np.float32)
    cl.enqueue_copy(launcher.queue, out, getattr(item, "buffer", item))
    return out


def axpy(launcher, y, x, a, local_size=(64,)):
    args = (y, x, np.float32(a), np.uint32(N))
    launcher.launch(SOURCE, "axpy", (N,), local_size, args)


def test_tensors_buffers_and_scalars(launcher, arena):
    y, x = tensor(arena, launcher, 1), tensor(arena, launcher, 2)
    axpy(launcher, y, x.buffer, 3)
    axpy(launcher, y, x, 0.5, None)
    assert (read(launcher, y) == 8).all()
    assert launcher.programs.stats.builds == 1


def test_launches_on_a_gpu_have_no_event(launcher, arena, monkeypatch):
    """Seen as a GPU, of more sizes than are kept; pyopencl, which makes an event each time, is not asked."""
    monkeypatch.setattr(event_free, "_CPU", 0)
    monkeypatch.setattr(launch, "_SIZES_MAX", 2)
    if event_free._function() is None:
        pytest.skip("needs an OpenCL loader that ctypes can open: Linux")
    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", None)
    y = tensor(arena, launcher, 0)
    for size in (N, N // 2, N // 4, N // 2, N):
        launcher.launch(SOURCE, "axpy", (size,), None, (y, y, np.float32(0), np.uint32(N)))
        launcher.launch(SOURCE, "set", [size], [32], (y, np.float32(size)))
    assert (read(launcher, y) == N).all()


def test_no_work_items_is_no_launch(launcher):
    launcher.launch("this is no OpenCL C", "none", (4, 0), None, ())


def test_local_memory_argument(launcher, arena):
    y = tensor(arena, launcher, 1)
    source = """__kernel void sum(__global float* y, __local float* part) {
        size_t i = get_local_id(0); part[i] = y[i]; barrier(CLK_LOCAL_MEM_FENCE);
        if (i == 0) { float s = 0; for (size_t j = 0; j < get_local_size(0); j++) s += part[j]; y[0] = s; }
    }"""
    launcher.launch(source, "sum", (N,), (N,), (y, cl.LocalMemory(4 * N)))
    assert read(launcher, y)[0] == N


@pytest.mark.parametrize("bad", [None, 3, 2.5, np.zeros(3, np.float32)])
def test_bad_argument_is_named(launcher, arena, bad):
    y = tensor(arena, launcher, 1)
    with pytest.raises(UnsupportedError, match="argument 1 of kernel axpy"):
        launcher.launch(SOURCE, "axpy", (N,), None, (y, bad, np.float32(1), np.uint32(N)))


def test_wrong_number_of_arguments(launcher, arena):
    y = tensor(arena, launcher, 1)
    with pytest.raises(UnsupportedError, match="expected 4 arguments, got 1"):
        launcher.launch(SOURCE, "axpy", (N,), None, (y,))


def test_errors_of_build_and_launch(launcher, arena):
    y = tensor(arena, launcher, 1)
    with pytest.raises(KernelBuildError, match="no kernel 'other'"):
        launcher.launch(SOURCE, "other", (N,), None, (y,))
    with pytest.raises(KernelBuildError):
        launcher.launch("__kernel void broken( {", "broken", (1,), None, ())
    with pytest.raises(RuntimeError, match=r"kernel axpy with global size \(256,\) and local size \(7,\)"):
        axpy(launcher, y, y, 1, (7,))
    axpy(launcher, y, y, 1)
    assert (read(launcher, y) == 2).all()


def inject(monkeypatch, code, kind, times):
    enqueue = cl.enqueue_nd_range_kernel
    calls = []

    def failing(*args):
        calls.append(args)
        if len(calls) <= times:
            raise kind(cl._cl._ErrorRecord(msg="injected", code=code, routine="clEnqueueNDRangeKernel"))
        return enqueue(*args)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", failing)


def test_out_of_memory_at_the_launch_is_tried_again(launcher, arena, monkeypatch):
    y = tensor(arena, launcher, 1)
    axpy(launcher, y, y, 0)
    inject(monkeypatch, -4, cl.MemoryError, 2)  # the launch, and the try that tells what failed
    axpy(launcher, y, y, 1)
    monkeypatch.undo()
    assert (read(launcher, y) == 2).all()


def test_out_of_memory_that_stays(launcher, arena, monkeypatch):
    y = tensor(arena, launcher, 1)
    inject(monkeypatch, -4, cl.MemoryError, 99)
    with pytest.raises(OutOfMemoryError):
        axpy(launcher, y, y, 1)


def test_lost_device_is_refused_at_once(launcher, monkeypatch, tmp_path):
    context = cl.Context([launcher.device])  # of its own: the loss stays with the context
    launcher = Launcher(cl.CommandQueue(context), ProgramCache(tmp_path))
    y = tensor(launcher.new_recording().pool, launcher, 1)
    axpy(launcher, y, y, 0)
    inject(monkeypatch, -2, cl.RuntimeError, 99)
    for _ in range(2):
        with pytest.raises(DeviceLostError, match="is lost since kernel axpy"):
            axpy(launcher, y, y, 1)
    monkeypatch.undo()
    with pytest.raises(DeviceLostError):
        axpy(launcher, y, y, 1)


def test_prepared_launch(launcher, arena):
    y, x = tensor(arena, launcher, 1), tensor(arena, launcher, 2)
    args = (None, None, np.float32(3), np.uint32(N))
    prepared = launcher.prepare(SOURCE, "axpy", (N,), (64,), args)
    prepared(y, x)
    prepared(x.buffer, y.buffer)
    assert (read(launcher, y) == 7).all()
    assert (read(launcher, x) == 23).all()
    with pytest.raises(UnsupportedError, match="expected 2 buffers, got 1"):
        prepared(y)


@pytest.mark.parametrize("prepared", [False, True])
def test_threads_never_share_arguments(launcher, arena, prepared):
    wrong = []
    kernel = launcher.prepare(SOURCE, "axpy", (N,), None, (None, None, np.float32(1), np.uint32(N)))
    sources = [tensor(arena, launcher, value) for value in range(8)]
    targets = [tensor(arena, launcher, 0) for _ in range(8)]
    rounds = 300

    def work(i):
        for _ in range(rounds):
            if prepared:
                kernel(targets[i], sources[i])
            else:
                axpy(launcher, targets[i], sources[i], 1, None)

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
    for i in range(8):
        if not (read(launcher, targets[i]) == rounds * i).all():
            wrong.append(i)
    assert not wrong


def record(launcher):
    launcher.recording = launcher.new_recording()
    return launcher.recording


def test_recording_appends_and_replay_runs(launcher, arena):
    y, x = tensor(arena, launcher, 1), tensor(arena, launcher, 2)
    prepared = launcher.prepare(SOURCE, "axpy", (N,), None, (None, None, np.float32(10), np.uint32(N)))
    recording = record(launcher)
    axpy(launcher, y, x, 1)
    axpy(launcher, y, x, 2)
    prepared(y, x)
    launcher.recording = None
    assert len(recording) == 3
    assert (read(launcher, y) == 1).all(), "nothing ran"
    axpy(launcher, x, x, 1)  # the kept kernels' arguments are not the recorded ones'
    recording.replay()
    recording.replay()
    assert (read(launcher, y) == 1 + 2 * 13 * 4).all()


def test_other_threads_run_while_one_records(launcher, arena):
    y = tensor(arena, launcher, 1)
    recording = record(launcher)
    thread = threading.Thread(target=axpy, args=(launcher, y, y, 1))
    thread.start()
    thread.join()
    launcher.recording = None
    assert len(recording) == 0
    assert (read(launcher, y) == 2).all()


def test_recording_keeps_foreign_leases_and_lends_its_own_again(launcher, arena):
    outside = tensor(arena, launcher, 5)
    buffer = outside.buffer
    recording = record(launcher)
    scratch = FakeTensor(recording.pool.allocate(4 * N))
    mine = scratch.buffer
    axpy(launcher, scratch, outside, 1)
    launcher.recording = None
    del outside, scratch
    gc.collect()
    assert arena.allocate(4 * N).buffer is not buffer, "a replay still reads it"
    assert recording.pool.allocate(4 * N).buffer is mine, "later launches of the recording may use it"


def test_replay_error_is_netcls(launcher, arena, monkeypatch):
    y = tensor(arena, launcher, 1)
    inject(monkeypatch, -4, cl.MemoryError, 99)
    recording = record(launcher)
    axpy(launcher, y, y, 1)
    launcher.recording = None
    with pytest.raises(OutOfMemoryError):
        recording.replay()


def test_recording_of_plain_callables():
    seen = []
    recording = Recording()
    recording.append(lambda: seen.append(1))
    recording.append(lambda: seen.append(2))
    recording.replay()
    recording.replay()
    assert seen == [1, 2, 1, 2]
    assert recording.thread == threading.get_ident()


def test_one_launcher_for_a_queue(launcher):
    assert launcher_for(launcher.queue) is launcher_for(launcher.queue)


def test_two_threads_that_waited_settle_one_log():
    class Interrupted(deque):
        """A log that another thread settles in the middle."""

        def popleft(self):
            value = super().popleft()
            self.clear()
            return value

    log = Interrupted(["first", "second", "third"])
    forget_launches(log, 2)
    assert not log
