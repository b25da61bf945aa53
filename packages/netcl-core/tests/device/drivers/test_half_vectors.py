"""Vectors of halves at any address: the replacements of PoCL's, and the kernels that use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core import Tensor
from netcl.core.backend.opencl.queue.programs.declarations import unknown
from netcl.core.device.drivers import half_vectors
from netcl.core.device.drivers.kernel_objects import new_kernel, raw_program

# Each float to half and each half to float at odd addresses; the same by way of local and private memory, and of
# doubles. LANES are 16, or 8 where the product uses no more (then there is nothing of sixteen to replace).
CONVERSIONS = """
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define WIDE(name) JOIN(name, LANES)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void convert(__global const float* x, __global float* out, __global half* halves) {
    const size_t i = get_global_id(0) * LANES;
    __local ushort room[LANES + 1];
    __local half* shared = (__local half*)room + 1;
    ushort own[LANES + 1];
    half* mine = (half*)own + 1;
    halves += 1 + i;
    WIDE_STORE(WIDE(vload)(0, x + i), 0, halves);
    vstore_half8(vload_half8(0, halves), 0, shared);
#if LANES == 16
    vstore_half8_rte(vload_half8(1, halves), 1, shared);
#endif
    for (int e = 0; e < LANES / 4; e++) vstore_half4(vload_half4(e, shared), e, mine);
    STORE(WIDE_LOAD(0, mine), halves);
    WIDE(vstore)(WIDE_LOAD(0, halves), 0, out + i);
}
"""
STORES = ("vstore_half{0}((x), 0, (p))", "vstore_half{0}_rte(convert_double{0}(x), 0, (p))")


@pytest.fixture
def opencl(engine: Any) -> Any:
    """Returns the engine of each OpenCL device in turn."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    return engine


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("standard", ["", "-cl-std=CL1.2", "-cl-std=CL3.0"])
def test_halves_at_odd_addresses_have_the_bits_of_numpy(
    opencl: Any, standard: str, store: str, most_lanes: int
) -> None:
    """In the text itself the replacements are standard OpenCL C, which every driver of a CPU computes right."""
    if opencl.handle.device_type != "cpu":
        pytest.skip("needs a CPU: other drivers are given no replacements, and some know no half without an extension")
    import pyopencl as cl

    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    exact = halves.astype(np.float32)
    with np.errstate(all="ignore"):
        between = np.nextafter(halves, np.float16(np.inf)).astype(np.float32) * 0.5 + exact * 0.5
        values = np.concatenate([exact, between, np.array([65519.9, 65520.0, 1e30, -1e-30] * 4, np.float32)])
        wanted = values.astype(np.float16).astype(np.float32)
    context = opencl.queue.context
    defines = {
        "LANES": most_lanes, "WIDE_LOAD": f"vload_half{most_lanes}", "WIDE_STORE": f"vstore_half{most_lanes}_rte",
        "STORE(x, p)": store.format(most_lanes),
    }  # fmt: skip
    text = half_vectors.unaligned() + "".join(f"#define {name} {value}\n" for name, value in defines.items())
    program = raw_program(context, text + CONVERSIONS)
    program._build(standard.encode(), [opencl.queue.device])
    built = cl.Program(program)
    if "double" in store and not built.get_info(cl.program_info.NUM_KERNELS):
        pytest.skip("needs a processor that PoCL 3.0 knows: of eight doubles it makes no kernel on a Zen 4")
    kernel = new_kernel(built, "convert")
    given = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    out, room = (cl.Buffer(context, cl.mem_flags.READ_WRITE, size) for size in (values.nbytes, values.nbytes // 2 + 2))
    kernel.set_args(given, out, room)
    cl.enqueue_nd_range_kernel(opencl.queue, kernel, (values.size // most_lanes,), (1,))
    found = np.empty_like(values)
    cl.enqueue_copy(opencl.queue, found, out)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("function", ["vload_half4(", "vstore_half8(", "vload_half16(", "vstore_half16_rte("])
def test_versions_that_align_halves_get_the_replacements(function: str) -> None:
    """3.0 makes no aligned moves of vectors of halves, and converts eight in expressions by instructions."""
    for version in ("OpenCL 3.0 PoCL 5.0  Linux", "OpenCL 3.0 PoCL 7.1", "OpenCL 2.0 pocl 1.8"):
        assert half_vectors.half_vectors(function, version) == half_vectors.unaligned()
        assert half_vectors.half_vectors("vload_half(0, in0)", version) == ""
    assert half_vectors.half_vectors(function, "OpenCL 3.0 PoCL 3.0-rc2") == ""
    expression = "#pragma OPENCL FP_CONTRACT OFF\nvload_half8(0, in0)"
    replaced = half_vectors.half_vectors(expression, "OpenCL 3.0 PoCL 3.0-rc2")
    assert "__builtin_convertvector" in replaced
    assert not unknown(replaced + expression)  # with the driver's header functions of floats would have other bits


def test_programs_of_pocl_get_them(opencl: Any) -> None:
    from netcl.core.backend.opencl.queue.programs import program_cache

    text, device = "vstore_half16(x, 0, p);", opencl.queue.device
    pocl = device.platform.name == "Portable Computing Language"
    wanted = half_vectors.half_vectors(text, device.platform.version) + text if pocl else text
    assert program_cache._with_half_vectors(text, device) == wanted


def test_expressions_of_halves_have_the_bits_of_numpy(opencl: Any) -> None:
    values = np.random.default_rng(0).standard_normal(1003).astype(np.float16)
    found = (Tensor.from_host(values, "float16") + 0.1).to_host()
    assert np.array_equal(found, (values.astype(np.float32) + np.float32(0.1)).astype(np.float16))
