"""CLBlast, through its C interface and pyopencl's buffers: matrix products."""

from __future__ import annotations

import os
from ctypes import CDLL, POINTER, byref, c_float, c_int, c_size_t, c_void_p
from ctypes.util import find_library
from typing import Any

import numpy as np
import pyopencl as cl
from bursts import Work
from rows import Row, operands

ROW_MAJOR, AS_IT_LIES = 101, 111


def _library() -> Any:
    name = find_library("clblast")
    assert name is not None
    library = CDLL(name)
    sizes, matrix = [c_size_t] * 3, [c_void_p, c_size_t, c_size_t]
    ends: list[Any] = [POINTER(c_void_p), c_void_p]
    head: list[Any] = [c_int, c_int, c_int, *sizes, c_float]
    library.CLBlastSgemm.argtypes = [*head, *matrix, *matrix, c_float, *matrix, *ends]
    batched = [*matrix, c_size_t]
    library.CLBlastSgemmStridedBatched.argtypes = [*head, *batched, *batched, c_float, *batched, c_size_t, *ends]
    return library


def row(row: Row) -> Work | None:
    """The work of a row; None for all but products."""
    if row.op != "matmul":
        return None
    library = _library()
    platform = next(each for each in cl.get_platforms() if each.name == os.environ["PEERS_PLATFORM"])
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    a, b = operands(row)
    m, k, n = *a.shape[-2:], b.shape[-1]
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=each) for each in (a, b)]
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * a.size // k * n)
    handle = c_void_p(queue.int_ptr)
    head = (ROW_MAJOR, AS_IT_LIES, AS_IT_LIES, m, n, k, 1.0)

    def product() -> None:
        first, second, third = (each.int_ptr for each in (*buffers, out))  # here, so that the buffers live as long
        if a.ndim == 2:
            code = library.CLBlastSgemm(*head, first, 0, k, second, 0, n, 0.0, third, 0, n, byref(handle), None)
        else:
            operands_of = (first, 0, k, m * k, second, 0, n, k * n, 0.0, third, 0, n, m * n)
            code = library.CLBlastSgemmStridedBatched(*head, *operands_of, len(a), byref(handle), None)
        assert code == 0, f"CLBlast's status {code}"
        queue.finish()

    product()
    found = np.empty((*a.shape[:-1], n), np.float32)
    cl.enqueue_copy(queue, found, out)
    np.testing.assert_allclose(found, a @ b, rtol=1e-3, atol=1e-3)
    return product
