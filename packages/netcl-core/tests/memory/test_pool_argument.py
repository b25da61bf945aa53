"""The argument ``pool=`` that every op takes: where the memory of its result comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import BufferPool, Tensor
from netcl.core.errors import BackendMismatchError

CALLS: dict[str, Any] = {
    "an expression": lambda x, **more: ops.relu(x, **more),
    "a reduction": lambda x, **more: ops.sum(x, axis=1, **more),
    "a computed op": lambda x, **more: ops.matmul(x, x, transpose_b=True, **more),
    "a composite": lambda x, **more: ops.interpolate(ops.reshape(x, (1, 1, 6, 50)), scale_factor=2, **more),
    "a list of operands": lambda x, **more: ops.cat([x, x], **more),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_come_from_the_pool_that_is_given(engine: Any, name: str) -> None:
    x = Tensor.from_host(np.linspace(-1, 1, 300, dtype=np.float32).reshape(6, 50))
    plain = [CALLS[name](x) for _ in range(3)][-1]  # what a warm call keeps does not matter
    if engine.name == "cpu":
        np.testing.assert_array_equal(CALLS[name](x, pool=None).numpy(), plain.numpy())
        return
    pool = BufferPool(engine.context)
    found = CALLS[name](x, pool=pool)
    assert found.pool_handle.pool is pool
    assert plain.pool_handle.pool is engine.pool
    np.testing.assert_array_equal(found.numpy(), plain.numpy())
    assert CALLS[name](x).pool_handle.pool is engine.pool
    del found
    assert pool.stats.bytes_allocated > 0


def test_what_is_no_pool_of_the_device_is_refused(engine: Any) -> None:
    if engine.name == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no pools")
    x = Tensor.ones((2, 3))
    with pytest.raises(TypeError, match="expected pool to be a BufferPool or a PersistentBufferPool, got int"):
        ops.relu(x, pool=3)
    import pyopencl as cl

    with pytest.raises(BackendMismatchError, match="belongs to another queue or context"):
        ops.relu(x, pool=BufferPool(cl.Context([engine.queue.device])))
    assert ops.relu(x).pool_handle.pool is engine.pool
