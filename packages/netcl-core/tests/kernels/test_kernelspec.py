"""Hand-written kernels: KernelSpec in both forms, its checks and its tuned size, and the elementwise builders."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc
from netcl.core.device import manager
from netcl.core.errors import BackendMismatchError, DeviceNotFoundError, DTypeError, KernelBuildError, UnsupportedError
from netcl.core.expr import Load, render
from netcl.core.expr.scopes import Layout
from netcl.core.kernels.primitives import (
    PRIMITIVE_PREAMBLE,
    KernelSpec,
    PrimitiveBuilder,
    WorkGroupTuner,
    build_elementwise_kernel,
)
from netcl.core.kernels.signature import parameters_of

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
N = 1024


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


def device_copy(queue, values):
    return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)


def read(queue, buffer, like):
    out = np.empty_like(like)
    cl.enqueue_copy(queue, out, buffer)
    return out


def vec_add():
    return KernelSpec(
        name="vec_add",
        params=[
            "__global const float* a",
            "__global const float* b",
            "__global float* c",
        ],
        preamble=PRIMITIVE_PREAMBLE,
        body="int gid = get_global_id(0); c[gid] = a[gid] + b[gid];",
    )


def test_core_page_vec_add_source_compiles(queue):
    source = vec_add().to_source()
    assert source.startswith("#define LOAD")
    assert source.count("__kernel void vec_add(") == 1
    a, b = np.random.default_rng(0).random((2, N), np.float32)
    buffers = [device_copy(queue, values) for values in (a, b, np.zeros_like(a))]
    vec_add().build(queue.context).run(queue, (N,), None, *buffers)
    assert np.array_equal(read(queue, buffers[2], a), a + b)


def test_core_page_elementwise_spec_is_built(queue):
    builder = PrimitiveBuilder(dtype="float", tuner=WorkGroupTuner())
    spec = builder.elementwise_spec(name="mul_add", arity=2, expression="MUL(ADD(v0, v1), 2.0f)")
    assert isinstance(spec, KernelSpec)
    kernel = builder.build(queue.context, spec)
    assert kernel.function_name == "mul_add"
    assert kernel.num_args == 4


@pytest.mark.parametrize("dtype", ["float", "half", "float16"])
def test_core_page_build_elementwise_kernel(queue, dtype):
    context = queue.context
    spec, kernel = build_elementwise_kernel(
        context, name="mul_add", arity=2,
        expression="MUL(ADD(v0, v1), 2.0f)",
        dtype=dtype,
    )  # fmt: skip
    half = dtype != "float"
    values = (np.arange(N) % 100).astype(np.float16 if half else np.float32)
    buffers = [device_copy(queue, values) for _ in range(3)]
    kernel.set_args(*buffers, np.int32(N))
    cl.enqueue_nd_range_kernel(queue, kernel, (N,), None)
    assert np.array_equal(read(queue, buffers[2], values), values * 4)
    assert ("#pragma OPENCL EXTENSION cl_khr_fp16 : enable" in spec.to_source()) == half
    assert ("-cl-fast-relaxed-math" in spec.options) == half


def test_pyopencl_page_plain_pyopencl_relu(queue):
    ctx = queue.context
    src = """
    __kernel void relu(__global const float* in, __global float* out) {
        int gid = get_global_id(0);
        out[gid] = in[gid] > 0.0f ? in[gid] : 0.0f;
    }
"""
    relu = KernelSpec("relu", src=src).build(ctx).kernel()
    n = 1024
    in_buf = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, n * 4)
    out_buf = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, n * 4)
    host_in = np.random.randn(n).astype(np.float32)
    cl.enqueue_copy(queue, in_buf, host_in)
    relu(queue, (n,), None, in_buf, out_buf)
    host_out = np.empty(n, dtype=np.float32)
    cl.enqueue_copy(queue, host_out, out_buf).wait()
    assert np.array_equal(host_out, np.maximum(host_in, 0))


def scale_by_two():
    return KernelSpec(
        name="scale_by_two",
        src="__kernel void scale_by_two(__global float* x) {"
            "  int gid = get_global_id(0);"
            "  x[gid] *= 2.0f;"
            "}",
    )  # fmt: skip


def test_pyopencl_page_scale_by_two_on_a_buffer(queue):
    values = np.arange(N, dtype=np.float32)
    x = device_copy(queue, values)
    prg = scale_by_two().build(queue)
    prg.run(queue, (N,), None, x)
    assert np.array_equal(read(queue, x, values), values * 2)


def test_pyopencl_page_scale_by_two_on_a_tensor(queue):
    n = 1024
    x = nc.Tensor.from_host(queue, np.arange(n, dtype=np.float32))
    version = x.version
    spec = nc.KernelSpec(
        name="scale_by_two",
        src="__kernel void scale_by_two(__global float* x) {"
            "  int gid = get_global_id(0);"
            "  x[gid] *= 2.0f;"
            "}",
    )  # fmt: skip
    prg = spec.build(queue)
    prg.run(queue, (n,), None, x)
    assert np.array_equal(x.to_host(), np.arange(n) * 2)
    assert x.version == version + 1


def test_a_tensor_of_another_dtype_or_device_is_named(queue):
    kernel = scale_by_two().build(queue)
    with pytest.raises(DTypeError, match=r"got a tensor of int \(int32\)"):
        kernel.run(queue, (4,), None, nc.Tensor.from_host(queue, np.arange(4, dtype=np.int32)))
    on_host = nc.Tensor.from_host(manager.default("cpu"), np.ones(4, np.float32))
    with pytest.raises(BackendMismatchError, match="the tensor is not on"):
        kernel.run(queue, (4,), None, on_host)


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((), UnsupportedError, r"expected 1 arguments \(__global float\* x\), got 0"),
        ((3.0,), UnsupportedError, "expected a tensor or cl.Buffer, got float"),
        ((np.zeros(3, np.float32),), UnsupportedError, "got ndarray; Tensor.from_host"),
    ],
)
def test_wrong_arguments_are_named(queue, args, error, match):
    with pytest.raises(error, match=match):
        scale_by_two().build(queue).run(queue, (N,), None, *args)


def test_numbers_take_the_type_of_the_parameter(queue):
    spec = KernelSpec(
        "put", ["__global double* out", "const int i", "float f", "ulong u"], "out[0] = i + f + (double)(u >> 60);"
    )
    if "cl_khr_fp64" not in queue.device.extensions:
        pytest.skip("cl_khr_fp64 is missing on the device")
    out = device_copy(queue, np.zeros(1))
    kernel = spec.build(queue)
    kernel.run(queue, (1,), None, out, 3, 0.5, 2**63)
    assert read(queue, out, np.zeros(1))[0] == 11.5
    for bad in (2**31, 1.5):
        with pytest.raises(DTypeError, match=r"'const int i': expected a number that fits int"):
            kernel.run(queue, (1,), None, out, bad, 0.5, 0)
    with pytest.raises(UnsupportedError, match="expected a number"):
        kernel.run(queue, (1,), None, out, out, 0.5, 0)


def test_failing_build_is_named(queue):
    with pytest.raises(KernelBuildError, match="nonsense"):
        KernelSpec("bad", [], "nonsense;").build(queue)


def test_a_spec_is_one_form_or_the_other():
    for wrong in ({}, {"src": "x", "body": "y"}, {"src": "x", "params": []}):
        with pytest.raises(UnsupportedError, match="either params and body, or src"):
            KernelSpec("k", **wrong)


def test_tuning_measures_on_copies_and_is_recorded(queue):
    values = np.ones(N, np.float32)
    x = device_copy(queue, values)
    spec = scale_by_two()
    best = spec.tune(queue, (N,), x)
    assert np.array_equal(read(queue, x, values), values), "the argument is untouched"
    assert N % best[0] == 0
    assert spec.build(queue)._local_size(queue, (N,)) == best
    spec.build(queue).run(queue, (N,), None, x)
    assert (read(queue, x, values) == 2).all()


def test_recorded_size_is_clamped_and_must_divide(queue):
    spec = KernelSpec("k", [], "", workgroup_size=1 << 20)
    built = spec.build(queue)
    limit = queue.device.max_work_group_size
    assert built._local_size(queue, (limit * 4,)) == (limit,)
    assert built._local_size(queue, (limit + 1,)) is None
    assert built._local_size(queue, (limit, 2)) is None


def test_work_group_tuner(queue):
    tuner = WorkGroupTuner(max_local=100)
    assert tuner.choose_local_size(queue.device) == 64
    assert tuner.global_local_sizes(1000, queue.device) == ((1024,), (64,))
    assert WorkGroupTuner().global_local_sizes(0) == ((256,), (256,))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("RELU(v0)", lambda x: np.maximum(x, 0)),
        ("MAX(v0, MIN(v0, 1.0f))", lambda x: x),
        ("ABS(SUB(v0, 2.0f))", lambda x: np.abs(x - 2)),
        ("SQRT(ABS(v0))", lambda x: np.sqrt(np.abs(x))),
        ("DIV(EXP(v0), LOG(ABS(v0) + 2.0f))", lambda x: np.exp(x) / np.log(np.abs(x) + 2)),
        ("TANH(v0)", np.tanh),
    ],
)
def test_macros(queue, expression, expected):
    x = np.linspace(-3, 3, 100).astype(np.float32)
    spec = PrimitiveBuilder().elementwise_spec("f", 1, expression)
    source, out = device_copy(queue, x), device_copy(queue, x)
    spec.build(queue).run(queue, (128,), None, source, out, 100)
    assert np.allclose(read(queue, out, x), expected(x), rtol=1e-5, atol=1e-6)


def test_relu_lets_nan_pass(queue):
    x = np.array([np.nan, -1, 2], np.float32)
    source, out = device_copy(queue, x), device_copy(queue, x)
    PrimitiveBuilder().elementwise_spec("f", 1, "RELU(v0)").build(queue).run(queue, (3,), None, source, out, 3)
    assert np.array_equal(read(queue, out, x), [np.nan, 0, 2], equal_nan=True)


def test_no_context_no_kernel():
    spec, kernel = build_elementwise_kernel(None, "f", 1, "v0")
    assert kernel is None
    assert spec.name == "f"
    with pytest.raises(DTypeError, match="complex"):
        PrimitiveBuilder("complex")


def test_signatures():
    source = """
    // __kernel void k(int commented)
    __attribute__((reqd_work_group_size(1, 1, 1)))
    kernel void other(void) {}
    __kernel __attribute__((vec_type_hint(float4)))
    void k(__global const float4 *restrict a, global half* b, __local float* tmp,
           /* scalars */ const unsigned int n, float alpha) { }
    """
    a, b, tmp, n, alpha = parameters_of(source, "k")
    assert (a.space, a.base, a.writes, b.base, b.writes) == ("global", "float4", False, "half", True)
    assert a.takes("float")
    assert not a.takes("half")
    assert b.takes("half")
    assert tmp.space == "local"
    assert (n.scalar, n.name, alpha.scalar) == (np.uint32, "n", np.float32)
    assert parameters_of(source, "other") == ()
    assert parameters_of(source, "missing") is None


def test_a_rendered_kernel_becomes_a_spec_that_runs(queue):
    source = render((Load(0, "float32") + 1.0,), Layout(1, {0: (0,)}, ((0,),), (), width=1))
    spec = KernelSpec.from_source(source)
    assert spec.name == source.name
    assert spec.to_source() == source.to_source()
    values = np.arange(N, dtype=np.float32)
    given, out = device_copy(queue, values), device_copy(queue, np.zeros_like(values))
    spec.build(queue).run(queue, (4,), (1,), given, out, np.uint64(N), np.uint64(N // 4))  # a quarter for each group
    assert np.array_equal(read(queue, out, values), values + 1)


def test_a_kernel_on_numpy_says_where_it_runs():
    """The error showed the whole DeviceHandle, and did not say what to write."""
    with pytest.raises(TypeError, match=r"NumPy's DeviceHandle\('cpu'.*write `with netcl.device\('opencl'\):`"):
        KernelSpec("f", params=["__global float* x"], body="x[0] = 1;").build(manager.default("cpu"))
