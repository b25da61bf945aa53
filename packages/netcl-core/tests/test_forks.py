"""Forks of a process with tensors, transfers and captures: the parent goes on unharmed, the child is told, and ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError

pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX systems")

SCRIPT = """
import gc, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
import numpy as np
from netcl import ops
from netcl.core import Tensor
from netcl.core.backend.opencl import interruptible_finish
from netcl.core.device import manager
from netcl.core.errors import ForkedProcessError
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.memory import create_pinned_buffer, create_zero_copy_buffer, empty_cache, get_persistent_pool
from netcl.runtime.capture import capture
queue = manager.default(sys.argv[1]).queue
values = np.arange(1000, dtype=np.float32)
x = Tensor.from_host(queue, values)
kernel = KernelSpec("inc", ["__global float* x"], "x[get_global_id(0)] += 1;").build(queue)
kernel.run(queue, 1000, None, x)
captured = capture(lambda x: ops.exp(x), Tensor.from_host(queue, np.zeros(1000)))
raw = np.zeros(2048, np.float32)
shared = Tensor.from_host(queue, raw[-raw.ctypes.data % 1024 // 4:][:1024], copy=False)
pending = [Tensor.from_host(queue, values + i) for i in range(20)]  # copies under way, their events kept
transfer = x.to_host_async()
Tensor.zeros((1000,), queue=queue)  # a free buffer in the pool

def use_all():
    uses = dict(
        read=x.to_host,
        start=x.to_host_async,
        wait=transfer.wait,
        write=lambda: x.write(values),
        op=lambda: ops.add(x, x),
        cached=lambda: Tensor.zeros((1000,), queue=queue),
        new=lambda: Tensor.zeros((1 << 20,), queue=queue),
        upload=lambda: Tensor.from_host(queue, values),
        alias=lambda: Tensor.from_host(queue, raw[16:], copy=False),
        kernel=lambda: kernel.run(queue, 1000, None, x),
        replay=lambda: captured.replay(x),
        finish=x.engine.finish,
        patient=lambda: interruptible_finish(queue),
        pinned=lambda: create_pinned_buffer(queue, 64),
        shared=lambda: create_zero_copy_buffer(queue, raw),
        random=lambda: ops.rand(4, queue=queue),
    )
    missed = []
    for name, use in uses.items():
        try:
            use()
            missed.append(name)
        except ForkedProcessError:
            pass
    return missed

child = os.fork()
if child == 0:
    missed = use_all()
    host = Tensor.from_host(manager.default("cpu"), values)
    fine = (host + 1).sum().item() == values.sum() + 1000
    del x, pending, transfer, shared, captured, kernel
    empty_cache()
    gc.collect()  # no destructor may call the driver
    print("child", fine, *missed, flush=True)
    sys.exit(7)  # neither may the end of the interpreter
_, status = os.waitpid(child, 0)
assert np.array_equal(x.to_host(), values + 1) and np.array_equal(transfer.wait(), values + 1)
assert np.array_equal(ops.add(x, pending[3]).to_host(), 2 * values + 4)
assert np.array_equal(shared.to_host(), raw[-raw.ctypes.data % 1024 // 4:][:1024])
print("parent", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("driver", ["pocl", "intel"])
def test_a_fork_in_the_middle_of_work(driver):
    try:
        manager.default(driver)
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {driver} is not installed")
    done = subprocess.run([sys.executable, "-c", SCRIPT, driver], capture_output=True, text=True, timeout=60)
    assert done.stdout == "child True\nparent 7\n", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
