"""Faults injected at the first, second, third ... call into the driver, until the work succeeds: nothing has leaked
after any of them, and the next work is right."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DeviceError, DeviceNotFoundError, NetclError, OutOfMemoryError
from netcl.core.memory import get_persistent_pool, get_pinned_pool
from netcl.core.memory.out_of_memory import live_allocations
from netcl.runtime.capture import capture

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:compiled kernels and measurements are kept in memory only")

A = np.random.default_rng(0).random((6, 6), np.float32)


@pytest.fixture(scope="module", params=["pocl", "intel"])
def queue(request):
    """Yields a queue in a context of its own, so that what its pools hold is the tests' alone."""
    try:
        device = manager.default(request.param).device
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    context = cl.Context([device])  # held here: a queue of Intel's runtime does not keep its context
    queue = cl.CommandQueue(context)
    for work, _ in JOBS.values():
        work(queue)  # programs, plans and what the engine keeps for good
    gc.collect()
    gc.freeze()  # the collector is asked after every fault: it need not look at the rest of the suite
    yield queue
    gc.unfreeze()


class Fault:
    """Replaces a function of pyopencl; its calls from number ``at`` on fail, ``times`` of them."""

    def __init__(self, name, error, at, times=1):
        self.name, self.error, self.at, self.times = name, error, at, times
        self.real = getattr(cl, name)
        self.calls = self.raised = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.at <= self.calls < self.at + self.times:
            self.raised += 1
            raise self.error()
        return self.real(*args, **kwargs)


def driver_error(code, kind):
    def error():
        return kind(cl._cl._ErrorRecord(msg="injected", code=code, routine="injected"))

    error.__name__ = str(code)
    return error


NO_MEMORY = driver_error(-4, cl.MemoryError)
NO_RESOURCES = driver_error(-5, cl.RuntimeError)
REFUSED = driver_error(-30, cl.LogicError)


def eager(queue):
    x = Tensor.from_host(queue, A)
    y = ops.add(ops.matmul(x, x), x)
    transfer = y.to_host_async()
    return ops.softmax(y).to_host(), ops.sum(y, axis=0).to_host(), transfer.wait()


def eager_expected():
    y = (A @ A + A).astype(np.float64)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), y.sum(0), y


def staged(queue):
    x = Tensor.from_host(queue, A, use_pinned=True)
    y = Tensor.zeros((3, 5), queue=queue).write(np.full((3, 5), 2.0))
    return x.to_host(), y.to_host()


def staged_expected():
    return A, np.full((3, 5), 2.0)


def replayed(queue):
    captured = capture(lambda x: ops.exp(ops.mul(x, 2.0)), Tensor.from_host(queue, A))
    return [captured.replay(Tensor.from_host(queue, A + i)).to_host() for i in range(2)]


def replayed_expected():
    return [np.exp((A + i) * np.float32(2)) for i in range(2)]


def aligned(values):
    raw = np.empty(values.nbytes + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    array = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def shared(queue):
    results = []
    for i in range(3):
        x = Tensor.from_host(queue, aligned(A + i), copy=False)
        results.append(ops.neg(x).to_host())
    return results


def shared_expected():
    return [-(A + i) for i in range(3)]


JOBS = {
    "eager": (eager, eager_expected),
    "staged": (staged, staged_expected),
    "replayed": (replayed, replayed_expected),
    "shared": (shared, shared_expected),
}


class Ledger:
    """The memory that a context holds while nothing is in use."""

    def __init__(self, queue):
        self.queue = queue
        self.pools = [get_persistent_pool(queue), get_pinned_pool(queue)]

    def count(self):
        gc.collect()
        for _ in range(2):  # a marker behind the work on shared memory, and a look at it
            engine_for(self.queue).transfer._shared.drop_passed()
            self.queue.finish()
        for pool in self.pools:
            pool.clear()
        gc.collect()
        buffers = [
            item for item in gc.get_objects() if type(item) is self.Buffer and item.context == self.queue.context
        ]
        held = [
            handle
            for handle in live_allocations()
            if handle.pool is not None and handle.pool.context == self.queue.context
        ]
        stats = [(pool.get_stats()["bytes_in_use"], pool.get_stats()["bytes_allocated"]) for pool in self.pools]
        return len(buffers), len(held), stats, len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else 0

    Buffer = cl.Buffer


FAULTS = [
    ("eager", "Buffer", NO_MEMORY, 1, None),
    ("eager", "Buffer", NO_MEMORY, 2, OutOfMemoryError),
    ("eager", "Buffer", REFUSED, 1, RuntimeError),
    ("eager", "Buffer", KeyboardInterrupt, 1, KeyboardInterrupt),
    ("eager", "enqueue_nd_range_kernel", NO_RESOURCES, 1, None),
    ("eager", "enqueue_nd_range_kernel", NO_MEMORY, 3, OutOfMemoryError),
    ("eager", "enqueue_nd_range_kernel", REFUSED, 2, RuntimeError),
    ("eager", "enqueue_nd_range_kernel", KeyboardInterrupt, 1, KeyboardInterrupt),
    ("eager", "enqueue_copy", NO_MEMORY, 1, None),
    ("eager", "enqueue_copy", NO_MEMORY, 2, OutOfMemoryError),
    ("eager", "enqueue_copy", REFUSED, 1, RuntimeError),
    ("staged", "Buffer", NO_MEMORY, 2, OutOfMemoryError),
    ("staged", "enqueue_map_buffer", NO_MEMORY, 1, None),
    ("staged", "enqueue_map_buffer", REFUSED, 1, RuntimeError),
    ("staged", "enqueue_copy", REFUSED, 1, RuntimeError),
    ("replayed", "Buffer", NO_MEMORY, 2, OutOfMemoryError),
    ("replayed", "enqueue_nd_range_kernel", REFUSED, 2, RuntimeError),
    ("replayed", "enqueue_copy", REFUSED, 1, RuntimeError),
    ("shared", "Buffer", NO_MEMORY, 1, None),
    ("shared", "Buffer", NO_MEMORY, 2, OutOfMemoryError),
    ("shared", "enqueue_marker", NO_RESOURCES, 1, DeviceError),
    ("shared", "enqueue_marker", REFUSED, 1, RuntimeError),
]


@pytest.mark.parametrize(
    ("job", "name", "error", "times", "raised"), FAULTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_fault_at_every_call(queue, monkeypatch, job, name, error, times, raised):
    work, expected = JOBS[job]
    work(queue)
    ledger = Ledger(queue)
    clean = ledger.count()
    at = 0
    while True:
        at += 1
        assert at < 60, "the work never succeeds"
        fault = Fault(name, error, at, times)
        with monkeypatch.context() as patch:
            patch.setattr(cl, name, fault)
            try:
                results = work(queue)
            except (NetclError, RuntimeError, KeyboardInterrupt) as caught:
                assert raised is not None, f"call {at}: {caught!r}"
                assert isinstance(caught, raised), f"call {at}: {caught!r}"
                assert not isinstance(caught, cl.Error), "the driver's errors are netcl's by now"
                results = None
        assert engine_for(queue).recording is None
        if results is not None:
            check(results, expected())
        assert fault.raised == 0 or raised is None or results is None, f"the fault at call {at} went unseen"
        del results
        assert ledger.count() == clean, f"after the fault at call {at}"
        check(work(queue), expected())
        if not fault.raised:
            break
    assert at > 1, "the fault was never met"


def check(results, expected):
    for result, right in zip(results, expected):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)


def test_the_ledger_sees_what_leaks(queue):
    ledger = Ledger(queue)
    clean = ledger.count()
    leaked = Tensor.zeros((3,), queue=queue)
    assert [now - before for now, before in zip(ledger.count()[:2], clean[:2])] == [1, 1]
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)
    assert ledger.count()[0] == clean[0] + 2
    del leaked, buffer
    assert ledger.count() == clean
