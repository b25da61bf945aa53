"""The functions that are defined in place of PoCL's: bounds against float64, special values, and PoCL's own bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from netcl.core.backend.opencl.queue.programs.declarations import WITHOUT_HEADER, declared
from netcl.core.device import manager
from netcl.core.device.drivers.llvm_processor import multiplies_and_adds
from netcl.core.errors import DeviceNotFoundError

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")

SPECIAL = np.array(
    [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, 0.5, 88.9, -103.9], np.float32
)
WIDTHS = ("", "4", "8")


@pytest.fixture(scope="module")
def queue():
    try:
        queue = manager.default("pocl").queue
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")
    if "PoCL 3.0" not in queue.device.platform.version or not multiplies_and_adds(queue.device):
        pytest.skip("needs PoCL 3.0 on a processor that multiplies and adds in one instruction")
    return queue


def evaluate(queue, value, width, *arrays, defined=True):
    """Returns ``value``, a text of a, b and c, of the arrays; by PoCL's own functions unless ``defined``."""
    kind, arrays = f"float{width}", [np.resize(array, -(-len(array) // 16) * 16) for array in arrays]
    parameters = "".join(f"__global const {kind}* p{name}, " for name, _ in zip("abc", arrays))
    values = "".join(f"{kind} {name} = p{name}[i]; " for name, _ in zip("abc", arrays))
    source = "#pragma OPENCL FP_CONTRACT OFF\n"
    body = f"size_t i = get_global_id(0); {values}out[i] = {value};"
    source += f"__kernel void f({parameters}__global {kind}* out) {{ {body} }}"
    if defined:
        program = cl.Program(queue.context, declared(source, True)).build([WITHOUT_HEADER])
    else:
        program = cl.Program(queue.context, source).build()
    buffers = [cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in arrays]
    out, result = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, arrays[0].nbytes), np.empty_like(arrays[0])
    cl.Kernel(program, "f")(queue, (len(result) // int(width or 1),), None, *buffers, out)
    cl.enqueue_copy(queue, result, out)
    return result


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "value", ["fabs(a)", "copysign(a, b)", "fmax(a, b)", "fmin(a, b)", "max(a, b)", "min(a, b)", "fma(a, b, c)"]
)
def test_bits_are_those_of_pocl(queue, value, width):
    random = np.random.default_rng(0).integers(0, 2**32, 3 * 4096, np.uint32).view(np.float32)
    arrays = [np.concatenate([np.array(special), part]).astype(np.float32) for special, part in zip(
        zip(*itertools.product(SPECIAL, repeat=3)), random.reshape(3, -1)
    )]  # fmt: skip
    taken = arrays[: 1 + value.count(",")]
    ours = evaluate(queue, value, width, *taken)
    own = evaluate(queue, value, width, *taken, defined=False)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(own))
    there = ~np.isnan(own)
    np.testing.assert_array_equal(ours[there].view(np.uint32), own[there].view(np.uint32))


def inputs():
    random = np.random.default_rng(1)
    patterns = random.integers(0, 2**32, 1 << 20, np.uint32).view(np.float32)
    near = np.concatenate([random.uniform(-limit, limit, 1 << 19) for limit in (1e-3, 0.6, 1.5, 20, 104)])
    return np.concatenate([SPECIAL, patterns, near.astype(np.float32)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "bound"), [("exp", 1.1), ("expm1", 1.6), ("tanh", 1.6), ("log", 1.6), ("log1p", 1.6)]
)  # fmt: skip
def test_elementary_functions_are_within_their_bounds(queue, name, bound, width):
    x = inputs()
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(np.resize(x, -(-len(x) // 16) * 16).astype(np.float64))
        rounded = wanted.astype(np.float32)
    y = evaluate(queue, f"{name}(a)", width, x)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(rounded))
    there = np.isfinite(rounded) & np.isfinite(y)
    same = ~there & ~np.isnan(y)
    np.testing.assert_array_equal(y[same], rounded[same])  # infinities
    unit = np.spacing(np.abs(rounded[there])).astype(np.float64)
    errors = np.abs(y[there] - wanted[there]) / unit
    worst = errors.argmax()
    assert errors[worst] <= bound, (x[: len(there)][there[: len(x)]][worst], y[there][worst], wanted[there][worst])
    zeros = np.resize(x, len(y)) == 0
    if name not in ("exp", "log"):
        np.testing.assert_array_equal(np.signbit(y[zeros]), np.signbit(np.resize(x, len(y))[zeros]))
