"""Reads and writes of launches: roles that a kernel declares, and memory that buffers share."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.core import DeviceHandle
from netcl.core.backend.opencl.queue.replays.memory_accesses import Accesses, Span, accesses
from netcl.core.expr.kernel_source import Argument, KernelText, Role

cl = pytest.importorskip("pyopencl")

_TEXT = KernelText(
    "__kernel void f(__global const float* x, __global float* out, const long a, const ulong b) { out[0] = x[0]; }",
    {
        "f": (
            Argument(Role.READ, "float", "x"),
            Argument(Role.WRITE, "float", "out"),
            Argument(Role.SCALAR, "long", "a"),
            Argument(Role.SCALAR, "ulong", "b"),
        )
    },
)


@pytest.fixture
def buffers(handle: DeviceHandle) -> list[cl.Buffer]:
    if handle.backend != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no buffers")
    return [cl.Buffer(handle.context, cl.mem_flags.READ_WRITE, 256) for _ in range(2)]


def test_buffers_are_read_and_written_as_declared(buffers: list[cl.Buffer]) -> None:
    x, out = buffers
    found = accesses(_TEXT, "f", [x, out, np.int64(1), np.uint64(2)])
    assert found == Accesses(frozenset((Span(x.int_ptr, 0, 256),)), frozenset((Span(out.int_ptr, 0, 256),)))


@pytest.mark.parametrize("text", [_TEXT, str(_TEXT)])
def test_a_kernel_without_a_declaration_writes_all(buffers: list[cl.Buffer], text: str) -> None:
    found = accesses(text, "f" if text is not _TEXT else "other", buffers)
    assert found == Accesses(frozenset(), frozenset(Span(one.int_ptr, 0, 256) for one in buffers))


def test_buffers_that_share_memory_conflict(handle: DeviceHandle, buffers: list[cl.Buffer]) -> None:
    whole, other = buffers
    align = handle.queue.device.mem_base_addr_align // 8
    whole = cl.Buffer(handle.context, cl.mem_flags.READ_WRITE, 2 * align)
    parts = [whole.get_sub_region(at * align, align) for at in range(2)]
    memory = np.zeros(512, np.uint8)
    shared = [
        cl.Buffer(handle.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=memory[a:b])
        for a, b in ((0, 256), (128, 512), (256, 512))
    ]

    def conflict(a: cl.Buffer, b: cl.Buffer) -> bool:
        first, second = (accesses(_TEXT, "f", [other, one, np.int64(1), np.uint64(2)]) for one in (a, b))
        return first.conflict(second)

    assert conflict(whole, parts[0])
    assert not conflict(*parts)
    assert conflict(shared[0], shared[1])
    assert not conflict(shared[0], shared[2])
    assert not conflict(whole, shared[0])
