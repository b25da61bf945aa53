"""Lost devices and hanging kernels: named errors and warnings, and nothing is killed."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, config
from netcl.core.device import manager
from netcl.core.engine.registry import engine_for
from netcl.core.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    NetclError,
    OutOfMemoryError,
)
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.memory import create_pinned_buffer, get_persistent_pool
from netcl.runtime.capture import capture

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl import interruptible_finish  # noqa: E402
from netcl.core.backend.opencl.queue import shutdown, watchdog  # noqa: E402


@pytest.fixture(params=["pocl", "intel"])
def driver(request):
    try:
        manager.default(request.param)
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    return request.param


@pytest.fixture
def queue(driver):
    return manager.default(driver).queue


@pytest.fixture
def fresh(queue):
    """Yields a queue in a context of its own: what is done to it stays with it."""
    context = cl.Context([queue.device])
    yield cl.CommandQueue(context)


# -- a device that is lost ---------------------------------------------------------------------------------------------


def lost(code=-2, kind=None):
    return (kind or cl.RuntimeError)(cl._cl._ErrorRecord(msg="injected", code=code, routine="injected"))


def refuse(code):
    def refused(*args, **kwargs):
        raise lost(code)

    return refused


def refuse_reads(patch, code):
    for call in ("enqueue_copy", "enqueue_map_buffer"):  # by the driver
        patch.setattr(cl, call, refuse(code))


# -- a fault of a launch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["enqueue_nd_range_kernel", "read", "finish"])
def test_a_fault_is_not_a_lack_of_memory(fresh, monkeypatch, where):
    engine = engine_for(fresh)
    x = Tensor.from_host(fresh, np.arange(6.0))
    engine.finish()
    with monkeypatch.context() as patch:
        if where == "finish":
            patch.setattr(shutdown, "may_block", lambda: False)
            patch.setattr(shutdown, "_soon_complete", lambda event: False)
            patch.setattr(shutdown, "_call_interruptibly", refuse(-5))
        elif where == "read":
            refuse_reads(patch, -5)
        else:
            patch.setattr(cl, where, refuse(-5))
        with pytest.raises(DeviceError, match="reported a fault") as raised:
            ops.exp(x).to_host()
            engine.finish()
    assert issubclass(DeviceLostError, DeviceError)
    assert not isinstance(raised.value, (DeviceLostError, OutOfMemoryError))
    assert "NETCL_SYNC=1" in str(raised.value)
    assert "bytes requested" not in str(raised.value)
    assert "Kernels in flight: " in str(raised.value)
    np.testing.assert_allclose(ops.exp(x).to_host(), np.exp(np.arange(6.0)), rtol=1e-6)


def test_a_lost_device_names_the_kernels_in_flight(fresh, monkeypatch):
    x = Tensor.from_host(fresh, np.arange(6.0, dtype=np.float32))
    spec = KernelSpec("adds_one", ["__global float* x"], "x[get_global_id(0)] += 1.0f;").build(fresh)
    engine_for(fresh).finish()
    spec.run(fresh, (6,), None, x)
    refuse_reads(monkeypatch, -36)
    with pytest.raises(DeviceLostError, match="Kernels in flight: .*adds_one.*NETCL_SYNC=1"):
        x.to_host()


def test_too_much_local_memory(driver, fresh):
    if driver != "intel":
        pytest.skip("needs Intel's runtime: PoCL takes the memory of the host")
    x = Tensor.from_host(fresh, np.zeros(6, np.float32))
    text = (
        "__local float a[1 << 24]; a[get_local_id(0)] = x[0]; barrier(CLK_LOCAL_MEM_FENCE); x[get_global_id(0)] = a[5];"
    )
    spec = KernelSpec("greedy", ["__global float* x"], text).build(fresh)
    with pytest.raises(DeviceError, match="kernel greedy .*more local memory"):
        spec.run(fresh, (6,), None, x)


@pytest.mark.level("capture")
def test_netcl_sync_waits_after_each_launch_and_names_it(queue, monkeypatch):
    with config.override(SYNC=True, BUILD_PROCESSES=0):
        context = cl.Context([queue.device])
        mine = cl.CommandQueue(context)
        engine = engine_for(mine)
    x = Tensor.from_host(mine, np.arange(6.0, dtype=np.float32))
    specs = [
        KernelSpec(name, ["__global float* x"], "x[get_global_id(0)] += 1.0f;").build(mine)
        for name in ("adds", "faults")
    ]
    waits = []
    finish = cl.CommandQueue.finish

    def finish_or_fail(self):
        waits.append(engine.launcher.launched[-1] if engine.launcher.launched else None)
        if waits[-1] == "faults" or "faults" in (waits[-1] or ()):
            raise lost(-5)
        finish(self)

    monkeypatch.setattr(cl.CommandQueue, "finish", finish_or_fail)
    specs[0].run(mine, (6,), None, x)
    assert waits[-1] == "adds"
    with config.override(SYNC=True), pytest.raises(DeviceError, match="kernel faults failed") as raised:
        specs[1].run(mine, (6,), None, x)
    assert "in flight" not in str(raised.value)
    y = x + 1.0
    z = y + 1.0
    count = len(waits)
    z = y + 1.0  # by its plan
    assert len(waits) == count + 1
    np.testing.assert_array_equal(z.to_host(), np.arange(6.0) + 4)
    step = capture(lambda x: (x * 2.0).sum().exp(), x * 0.0)
    count = len(waits)
    step.replay(x)
    assert len(waits) >= count + len(step)


# -- a device that is lost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-2, -36, -9999])
@pytest.mark.parametrize("where", ["enqueue_nd_range_kernel", "read", "Buffer", "wait", "finish"])
def test_a_lost_device(fresh, monkeypatch, where, code):
    engine = engine_for(fresh)
    x = Tensor.from_host(fresh, np.arange(6.0))
    saved, beside = x.to_host(), x.to("cpu")
    with monkeypatch.context() as patch:
        if where in ("wait", "finish"):
            patch.setattr(shutdown, "may_block", lambda: False)
            patch.setattr(shutdown, "_soon_complete", lambda event: False)
            patch.setattr(shutdown, "_call_interruptibly", refuse(code))
        elif where == "read":
            refuse_reads(patch, code)
        else:
            patch.setattr(cl, where, refuse(code))
        get_persistent_pool(fresh).clear()
        with pytest.raises(DeviceLostError, match=rf"is lost since .*injected.*{code}|is lost since .*injected"):
            ops.exp(x).to_host()
            engine.finish()
    # The driver answers again; netcl does not go back to it.
    for use in (
        x.to_host,
        x.to_host_async,
        lambda: ops.exp(x),
        lambda: x.write(np.zeros(6)),
        lambda: Tensor.from_host(fresh, saved),
        lambda: Tensor.zeros((1 << 18,), queue=fresh),
        lambda: create_pinned_buffer(fresh, 10),
        lambda: interruptible_finish(fresh),
        engine.finish,
    ):
        with pytest.raises(DeviceLostError, match="save what the host has copies of"):
            use()
    assert np.array_equal(saved, np.arange(6.0))
    assert (beside * 2).tolist() == [0, 2, 4, 6, 8, 10]
    other = Tensor.from_host(manager.default("cpu"), saved)
    assert np.array_equal(other.to_host(), saved)


def test_the_loss_of_one_context_is_not_that_of_another(queue, fresh, monkeypatch):
    x = Tensor.ones((3,), queue=fresh)
    with monkeypatch.context() as patch:
        refuse_reads(patch, -2)
        with pytest.raises(DeviceLostError):
            x.to_host()
    assert Tensor.ones((3,), queue=queue).tolist() == [1.0] * 3


def test_a_wait_that_fails_otherwise_is_a_named_error(queue, monkeypatch):
    x = Tensor.ones((3,), queue=queue)
    with monkeypatch.context() as patch:
        patch.setattr(shutdown, "may_block", lambda: False)
        patch.setattr(shutdown, "_soon_complete", lambda event: False)
        patch.setattr(shutdown, "_call_interruptibly", refuse(-14))
        with pytest.raises(RuntimeError, match="a wait failed on") as caught:
            x.to_host()
    assert not isinstance(caught.value, (cl.Error, NetclError))
    assert x.tolist() == [1.0] * 3


# -- a kernel that hangs -----------------------------------------------------------------------------------------------

HANG = """
import sys, time
from netcl.core import Tensor
from netcl.core.device import manager
from netcl.core.kernels.primitives import KernelSpec
queue = manager.default(sys.argv[1]).queue
body = '''uint x = out[0] + 1;
for (ulong i = 0; i < rounds; i++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
out[0] = x;'''
spin = KernelSpec("spin", ["__global int* out", "const ulong rounds"], body).build(queue)
x = Tensor.ones((1,), "int32", queue=queue)
y = Tensor.ones((4,), queue=queue)
spin.run(queue, 1, 1, x, 1)
start = time.perf_counter(); spin.run(queue, 1, 1, x, 10**7); x.to_host()
rounds = int(10**7 * 1.6 / (time.perf_counter() - start))
print("long wait", file=sys.stderr, flush=True)
spin.run(queue, 1, 1, x, rounds)
x.to_host()
print("done", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("limit", ["0.2", "0"])
def test_a_kernel_that_hangs_is_named_and_nothing_is_killed(driver, limit, tmp_path):
    environment = {**os.environ, "NETCL_WATCHDOG_S": limit, "NETCL_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", HANG, driver]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = done.stderr.partition("long wait\n")[2].partition("done\n")[0]
    if limit == "0":
        assert said == ""
    else:
        assert said.count("kernel spin hangs, or is very slow. Nothing is ended; NETCL_WATCHDOG_S") == 1
        assert "has taken more than 0.2 s" in said


def test_the_kernels_of_a_wait_are_those_launched_since_the_last(queue):
    x = Tensor.ones((4,), queue=queue)
    captured = capture(lambda x: ops.exp(x), x)
    x.to_host()
    assert "no kernel of netcl" in watchdog.describe(queue, 1)
    KernelSpec("first", ["__global float* x"], "x[0] = 1;").build(queue).run(queue, 1, None, x)
    KernelSpec("second", ["__global float* x"], "x[0] = 1;").build(queue).run(queue, 1, None, x)
    assert "one hangs: first, second. Nothing" in watchdog.describe(queue, 1)
    engine_for(queue).finish()
    captured.replay(x)
    assert "no kernel" not in watchdog.describe(queue, 1)
    assert "hangs" in watchdog.describe(queue, 1)
    x.to_host()
    assert "no kernel of netcl" in watchdog.describe(queue, 1)


def test_a_bad_limit_is_named(queue):
    with pytest.raises(ConfigError, match="WATCHDOG_S"), config.override(WATCHDOG_S="soon"):
        Tensor.ones((2,), queue=queue).to_host()
