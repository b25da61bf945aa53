"""The code samples of the original documents "architecture" and "PyOpenCL", as they are printed there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import open_device, selectors
from netcl.data import DataLoader
from netcl.data.readers import example_digits
from netcl.io import load_model
from netcl.optim import SGD

# The original page "architecture", "a concrete code outline that matches the picture". It expects the names model, opt,
# loader, queue, replicas, and netcl's Tensor and sync_grads.
TRAINING_STEP = """
import netcl.autograd as ag
from netcl.io import save_model

# 1. DataLoader yields a NumPy batch
for x, y in loader:                       # data API

    # 2. Tensor factory copies to device
    x_t = Tensor.from_host(queue, x)      # core API
    y_t = Tensor.from_host(queue, y)

    # 3. nn.Module forward — differentiable, recorded by the Tape
    with ag.Tape() as tape:
        logits = model(x_t)               # nn API
        loss = ag.cross_entropy(logits, y_t)  # autograd API

    # 4. Tape backward
    tape.backward(loss)                   # autograd API

    # 5. Optimizer step
    opt.step()                            # optim API
    opt.zero_grad()

    # 6. Checkpoint / sync
    save_model(model, "ckpt.netcl")       # io API
    sync_grads(replicas)                  # distributed API
"""

# The original page "PyOpenCL": "a typical PyOpenCL pattern in netcl". `ctx` and `queue` are of the tested device;
# the page has `cl.create_some_context()`, which asks on a terminal.
PYOPENCL_RELU = '''
# Build a kernel.
src = """
    __kernel void relu(__global const float* in, __global float* out) {
        int gid = get_global_id(0);
        out[gid] = in[gid] > 0.0f ? in[gid] : 0.0f;
    }
"""
prg = cl.Program(ctx, src).build()
relu = prg.relu

# Allocate device buffers.
n = 1024
in_buf  = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, n * 4)
out_buf = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, n * 4)

# Copy input.
import numpy as np
host_in = np.random.randn(n).astype(np.float32)
cl.enqueue_copy(queue, in_buf, host_in)

# Launch.
relu(queue, (n,), None, in_buf, out_buf)

# Copy back.
host_out = np.empty(n, dtype=np.float32)
cl.enqueue_copy(queue, host_out, out_buf).wait()
'''

# The original page "PyOpenCL", "netcl's equivalent".
NETCL_RELU = """
import netcl as nc
x = nc.Tensor.from_host(host_in)
y = nc.relu(x)
host_out = y.to_host()
"""

# The original page "PyOpenCL", "Code Example": KernelSpec.
KERNEL_SPEC = """
import netcl as nc

spec = nc.KernelSpec(
    name="scale_by_two",
    src="__kernel void scale_by_two(__global float* x) {"
        "  int gid = get_global_id(0);"
        "  x[gid] *= 2.0f;"
        "}",
)
prg = spec.build(queue)
prg.run(queue, (n,), None, x)
"""


@pytest.fixture(params=[name for name in selectors() if name != "cpu"])
def opencl(request: pytest.FixtureRequest) -> Iterator[DeviceHandle]:
    """Yields each OpenCL device in turn, active for the duration of the test."""
    with device(open_device(request.param)) as found:
        yield found


def run(sample: str, names: dict[str, Any]) -> dict[str, Any]:
    """Returns the names after a sample has run with these."""
    exec(compile(sample, "sample", "exec"), names)
    return names


def test_architecture_page_training_step(handle: DeviceHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.distributed import sync_grads

    monkeypatch.chdir(tmp_path)
    x, y = example_digits(320)
    ops.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )
    names = {
        "model": model,
        "opt": SGD(model.parameters(), lr=0.1, momentum=0.9),
        "loader": DataLoader((x, y), batch_size=32, shuffle=True, seed=0),
        "queue": handle.queue,
        "replicas": [list(model.parameters())],
        "Tensor": Tensor,
        "sync_grads": sync_grads,
    }
    losses = [float(run(TRAINING_STEP, names)["loss"].item()) for _ in range(3)]
    assert losses[2] < losses[0]
    again = load_model("ckpt.netcl")
    for name, tensor in model.state_dict().items():
        assert np.array_equal(again.state_dict()[name].to_host(), tensor.to_host()), name


def test_architecture_page_step_over_two_replicas(handle: DeviceHandle) -> None:
    """The same step with the gradients of two replicas synchronised before the optimizers' steps."""
    import netcl.autograd as ag
    from netcl.distributed import shard_batch, sync_grads

    x, y = example_digits(64)
    models, optimizers = [], []
    for _ in range(2):
        ops.manual_seed(0)
        models.append(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
        optimizers.append(SGD(models[-1].parameters(), lr=0.1))
    for _ in range(3):
        for model, xb, yb in zip(models, shard_batch(x, 2), shard_batch(y, 2)):
            ag.cross_entropy(model(Tensor.from_host(handle.queue, xb)), Tensor.from_host(handle.queue, yb)).backward()
        sync_grads([list(model.parameters()) for model in models])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    first, second = ([p.to_host() for p in model.parameters()] for model in models)
    assert all(np.array_equal(a, b) for a, b in zip(first, second))


# PyOpenCL warns of what Intel's compiler says when all is well.
@pytest.mark.filterwarnings("ignore:.*compiler output")
def test_pyopencl_page_relu_in_plain_pyopencl_and_in_netcl(opencl: DeviceHandle) -> None:
    import pyopencl as cl

    ctx, queue = opencl
    names = run(PYOPENCL_RELU, {"cl": cl, "ctx": ctx, "queue": queue})
    plain = names["host_out"].copy()
    assert np.array_equal(plain, np.maximum(names["host_in"], 0))
    assert np.array_equal(run(NETCL_RELU, names)["host_out"], plain)


def test_pyopencl_page_relu_in_netcl(handle: DeviceHandle) -> None:
    host_in = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    assert np.array_equal(run(NETCL_RELU, {"host_in": host_in})["host_out"], np.maximum(host_in, 0))


def test_pyopencl_page_kernel_spec(opencl: DeviceHandle) -> None:
    values = np.arange(1000, dtype=np.float32)
    x = Tensor.from_host(opencl.queue, values)
    run(KERNEL_SPEC, {"queue": opencl.queue, "n": 1000, "x": x})
    assert np.array_equal(x.to_host(), 2 * values)


def test_pyopencl_page_without_pyopencl(run_python: Callable[..., CompletedProcess[str]]) -> None:
    """`import netcl` succeeds, and every call that needs the GPU raises `ImportError: pyopencl required`."""
    code = (
        "import sys; sys.modules['pyopencl'] = None\n"
        "import netcl as nc\n"
        "calls = [lambda: nc.device('gpu').__enter__(), lambda: nc.device('pocl').__enter__(),\n"
        "         lambda: nc.KernelSpec('f', src='__kernel void f() {}').build(None)]\n"
        "for call in calls:\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "    else: print('no error')"
    )
    lines = run_python(code).stdout.strip().splitlines()
    assert len(re.findall("pyopencl required", "\n".join(lines))) == 3, lines
