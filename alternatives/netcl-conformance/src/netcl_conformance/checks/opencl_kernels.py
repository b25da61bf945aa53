"""Level opencl-kernels: a kernel of one's own; left out on a device that is no OpenCL device."""

from __future__ import annotations

from netcl.core.device import get_active_device
from netcl.core.engine.registry import is_opencl
from netcl.core.kernels.primitives import KernelSpec
from netcl_conformance.registry import LeftOut, check
from netcl_conformance.values import assert_close, tensor


@check("opencl-kernels")
def a_kernel_of_the_user_runs() -> None:
    x, y = tensor([1.0, 2.0, 3.0]), tensor([0.0, 0.0, 0.0])
    if not is_opencl(x):
        raise LeftOut(f"{x.engine.device_label} is no OpenCL device")
    scale = KernelSpec(
        name="conformance_scale",
        params=["__global const float* x", "__global float* y", "const float factor"],
        body="y[get_global_id(0)] = factor * x[get_global_id(0)];",
    )
    scale.build(get_active_device()).run(x.queue, (3,), None, x, y, 2.5)
    assert_close(y, [2.5, 5.0, 7.5])
