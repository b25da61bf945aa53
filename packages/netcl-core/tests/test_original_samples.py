"""The code samples of the original documents "core", "FAQ" and "Tensor" that concern netcl.core."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

import netcl as nc
from netcl.core import BufferHandle, DeviceHandle, Tensor, config
from netcl.core.engine.registry import engine_for

# The original page "core", "Tensor"; `host_ndarray` is given.
TWO_FACTORIES = """
from netcl.core.tensor import Tensor
from netcl.core.device import manager
q = manager.default("auto").queue
a = Tensor.from_host(q, host_ndarray) # copy host -> device
b = Tensor.from_shape(q, (4, 8), dtype="float32") # zero-filled on device
"""

# The original page "core", "CPUBackend"; `host_arr` is given.
CPU_BACKEND = """
from netcl.core.backend.cpu import CPUBackend
be = CPUBackend()
x = be.from_host(host_arr, dtype="float32")
y = be.from_shape((4, 8), dtype="float32") # zeros
print(be.to_host(x, (4, 8), "float32")) # same ndarray
"""

# The original page "Tensor", "Code Example"; `numpy_array` is given.
TENSOR_LIFE = """
import netcl as nc
from netcl.core.tensor import Tensor

# Allocate a 4 x 1024 fp32 tensor on the active OpenCL device.
ctx, queue = nc.device.manager.default()
t = Tensor.zeros((4, 1024), dtype="float32", context=ctx, queue=queue)
print(t.shape) # (4, 1024)
print(t.requires_grad) # False

# Mark it as a learnable parameter.
t.requires_grad = True

# Move data to the device and back.
t.from_host(numpy_array) # blocking or non-blocking depending on flags
host = t.to_host() # numpy.ndarray on the host

# Free the underlying buffer (normally done by GC).
del t
"""


def run(sample, **names):
    exec(compile(sample, "sample", "exec"), names)
    return names


@pytest.fixture
def chosen(handle: DeviceHandle):
    """Yields each device in turn as the default one."""
    with config.override(DEVICE="cpu" if handle.backend == "cpu" else handle.platform_name):
        yield handle


def test_sample_5_of_the_core_page_two_factories(chosen):
    values = np.random.default_rng(0).random((3, 5), np.float32)
    names = run(TWO_FACTORIES, host_ndarray=values)
    assert names["q"] is chosen.queue
    assert np.array_equal(names["a"].to_host(), values)
    assert names["b"].shape == (4, 8)
    assert not names["b"].to_host().any()


def test_sample_8_of_the_core_page_cpu_backend(capsys):
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    names = run(CPU_BACKEND, host_arr=values)
    assert names["be"].to_host(names["x"], (4, 8), "float32") is names["x"], "the same ndarray"
    assert names["y"].shape == (4, 8)
    assert not names["y"].any()
    assert "31." in capsys.readouterr().out


def test_sample_16_of_the_faq_page_timing(handle):
    x = Tensor.ones((64,), queue=handle.queue)
    start = time.perf_counter()
    nc.relu(x)
    handle.queue.finish()
    assert time.perf_counter() > start


def test_sample_21_of_the_tensor_page_life_of_a_tensor(chosen, capsys):
    values = np.random.default_rng(1).random((4, 1024), np.float32)
    names = run(TENSOR_LIFE, numpy_array=values)
    assert capsys.readouterr().out == "(4, 1024)\nFalse\n"
    assert np.array_equal(names["host"], values)
    assert type(names["host"]) is np.ndarray
    assert names["queue"] is chosen.queue
    assert names["ctx"] is chosen.context
    assert "t" not in names


def test_tensor_page_freed_buffers_go_back_to_the_pool(handle):
    if handle.backend == "cpu":
        tensor = Tensor.zeros((4, 1024), queue=handle.queue)
        assert tensor.pool_handle is None
        assert tensor.buffer is None
        assert tensor.array.shape == (4, 1024)
        return
    pool = engine_for(handle).pool
    tensor = Tensor.zeros((4, 1024), queue=handle.queue)
    address, in_use = tensor.buffer.int_ptr, pool.get_stats()["bytes_in_use"]
    assert isinstance(tensor.pool_handle, BufferHandle)
    del tensor
    assert pool.get_stats()["bytes_in_use"] == in_use - 16384
    assert Tensor.zeros((4, 1024), queue=handle.queue).buffer.int_ptr == address


def test_sample_22_of_the_tensor_page_asynchronous_read_and_persistent_tensors(handle):
    t = Tensor.from_host(handle.queue, np.arange(6.0))
    transfer = t.to_host_async()
    if handle.backend == "cl":
        import pyopencl as cl

        assert isinstance(transfer.event, cl.Event)
        transfer.event.wait()
    assert np.array_equal(transfer.wait(), np.arange(6.0))
    assert transfer.done()
    kept = Tensor.zeros((1000,), queue=handle.queue, persistent=True)
    assert kept.persistent
    if handle.backend == "cl":
        pool = engine_for(handle).pool
        cached = pool.get_stats()["bytes_cached"]
        del kept
        assert pool.get_stats()["bytes_cached"] == cached, "it never enters a free list"


def test_tensor_page_fields_and_dtypes_of_a_tensor(handle):
    fields = "buffer shape dtype context queue pool_handle persistent requires_grad grad grad_fn backend array"
    fields += " pending_event pending_release host_ref"
    assert [field.name for field in dataclasses.fields(Tensor)] == fields.split()
    t = Tensor.zeros((), queue=handle.queue)
    again = Tensor(t.buffer, (), "float", t.context, t.queue, t.pool_handle, array=t.array)
    assert again.shape == ()
    assert again.backend == handle.backend
    assert again.item() == 0.0
    for name in ("float", "float32", "half", "float16", "double", "float64"):
        if name in ("double", "float64") and handle.backend == "cl" and not handle.profile.has_fp64:
            continue
        assert Tensor.ones((2,), name, queue=handle.queue).tolist() == [1.0, 1.0]
    from netcl.core.tensor import _dtype_nbytes, _np_dtype

    assert _np_dtype("half") == np.float16
    assert _dtype_nbytes("double") == 8


def test_core_page_transport_of_the_opencl_backend(handle):
    if handle.backend == "cpu":
        return
    from netcl.core.backend.opencl import OpenCLBackend

    backend = OpenCLBackend(handle.queue)
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    for options in ({}, {"async_copy": False}, {"use_pinned": True}):
        buffer, event, pending_release, host_ref = backend.from_host(values, "float32", **options)
        backend.wait(event)
        assert np.array_equal(backend.to_host(buffer, (4, 6), "float32"), values)
        del pending_release, host_ref
    buffer, lease = backend.from_shape((4, 8), "float32")
    assert not backend.to_host(buffer, (4, 8), "float32").any()
    assert lease.buffer is buffer
    array, event = backend.to_host_async(buffer, (4, 8), "float32")
    backend.wait(event)
    assert not array.any()
    assert backend.reshape(buffer, (8, 4)) is buffer
