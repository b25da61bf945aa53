"""Samples of classes of netcl-core and the packages that belong to it."""

from __future__ import annotations

import numpy as np

import netcl as nc

nc.manual_seed(0)

# %% netcl.BFloat16Tensor
nc.BFloat16Tensor([1, 2]).dtype

# %% netcl.BoolTensor
nc.BoolTensor([True, False]).dtype

# %% netcl.ByteTensor
nc.ByteTensor([1, 2]).dtype

# %% netcl.CharTensor
nc.CharTensor([1, 2]).dtype

# %% netcl.DoubleTensor
nc.DoubleTensor([1, 2]).dtype

# %% netcl.FloatTensor
nc.FloatTensor([1, 2]).dtype

# %% netcl.Generator
generator = nc.Generator().manual_seed(0)
nc.randn(2, generator=generator)

# %% netcl.GradScaler
w = nc.tensor([1.0], requires_grad=True)
scaler = nc.GradScaler()
scaler.scale((w * w).sum()).backward()
w.grad.item() == 2 * scaler.get_scale()

# %% netcl.HalfTensor
nc.HalfTensor([1, 2]).dtype

# %% netcl.IntTensor
nc.IntTensor([1, 2]).dtype

# %% netcl.KernelSpec
spec = nc.KernelSpec("twice", ["__global float* x"], "x[get_global_id(0)] *= 2.0f;")
print(spec.to_source())

# %% netcl.LongTensor
nc.LongTensor([1, 2]).dtype

# %% netcl.ShortTensor
nc.ShortTensor([1, 2]).dtype

# %% netcl.Size
nc.ones(2, 3).size().numel()

# %% netcl.SparseTensor
nc.tensor([[0.0, 2.0]]).to_sparse().to_dense()

# %% netcl.Tensor
x = nc.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
x.shape, x.dtype, (x @ x.T).tolist()

# %% netcl.array_api.Array
from netcl import array_api as xp

xp.asarray([1.0, 2.0]).dtype

# %% netcl.autocast
with nc.autocast("cpu", dtype=nc.bfloat16):
    print((nc.ones(2, 2).bfloat16() @ nc.ones(2, 2)).dtype)

# %% netcl.autograd.AutogradPrimitive
import netcl.autograd as ag

ag.AutogradPrimitive.__doc__.splitlines()[0]

# %% netcl.autograd.Function
import netcl.autograd as ag


class Square(ag.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


x = nc.tensor([3.0], requires_grad=True)
Square.apply(x).backward()
x.grad

# %% netcl.autograd.Node
w = nc.ones(2, requires_grad=True)
type((w * 2).grad_fn).__name__

# %% netcl.autograd.Parameter
import netcl.autograd as ag

ag.Parameter(nc.ones(2)).requires_grad

# %% netcl.autograd.Tape
import netcl.autograd as ag

w = ag.Parameter(nc.ones(2))
with ag.Tape() as tape:
    loss = ag.sum(w * w)
tape.backward(loss)
w.grad

# %% netcl.autograd.detect_anomaly
import netcl.autograd as ag

w = ag.Parameter(nc.ones(2))
with ag.detect_anomaly():
    (w * w).sum().backward()
w.grad

# %% netcl.autograd.set_detect_anomaly
import netcl.autograd as ag

w = ag.Parameter(nc.ones(2))
with ag.set_detect_anomaly(True):
    (w * w).sum().backward()
w.grad

# %% netcl.core.BufferHandle
type(nc.ones(3).pool_handle).__name__  # None on NumPy

# %% netcl.core.BufferPool
nc.core.BufferPool.__doc__.splitlines()[0]

# %% netcl.core.DeviceHandle
handle = nc.manager.default("cpu")
handle.backend, handle.selector

# %% netcl.core.DeviceManager
[handle.selector for handle in nc.manager.select(requires="fp64")][-1]

# %% netcl.core.kernels.primitives.BuiltKernel
from netcl.core.kernels import primitives

primitives.BuiltKernel.__doc__.splitlines()[0]

# %% netcl.core.kernels.primitives.PrimitiveBuilder
from netcl.core.kernels import primitives

primitives.PrimitiveBuilder.__doc__.splitlines()[0]

# %% netcl.core.kernels.primitives.WorkGroupTuner
from netcl.core.kernels import primitives

primitives.WorkGroupTuner.__doc__.splitlines()[0]

# %% netcl.core.memory.PersistentBufferPool
from netcl.core import memory

memory.PersistentBufferPool.__name__

# %% netcl.core.memory.PinnedBufferPool
from netcl.core import memory

memory.PinnedBufferPool.__name__

# %% netcl.core.memory.PoolStats
from netcl.core import memory

memory.PoolStats.__name__

# %% netcl.core.testing.Case
from netcl.core.testing import op_cases

next(op_cases("softmax")).attributes

# %% netcl.core.testing.Report
from netcl.core.testing import Report

Report.__doc__.splitlines()[0]

# %% netcl.device
with nc.device("cpu"):
    print(nc.ones(2).device.backend)

# %% netcl.enable_grad
w = nc.ones(2, requires_grad=True)
with nc.no_grad(), nc.enable_grad():
    print((w * 2).requires_grad)

# %% netcl.inference_mode
w = nc.ones(2, requires_grad=True)
with nc.inference_mode():
    print((w * 2).requires_grad)

# %% netcl.layout
nc.ones(2).layout

# %% netcl.memory_format
nc.channels_last

# %% netcl.no_grad
w = nc.ones(2, requires_grad=True)
with nc.no_grad():
    print((w * 2).requires_grad)

# %% netcl.ops.table.OpFunction
from netcl.ops.table import elementwise

cube = elementwise("sample_cube", "v0 * v0 * v0", "x to the third power.")
cube(nc.tensor([2.0]))

# %% netcl.profiling.EventTimer
from netcl import profiling

profiling.EventTimer.__doc__.splitlines()[0]

# %% netcl.profiling.WorkGroupTuner
from netcl import profiling

profiling.WorkGroupTuner.__doc__.splitlines()[0]

# %% netcl.profiling.profile
from netcl.profiling import profile

with profile() as p:
    nc.matmul(nc.ones(8, 8), nc.ones(8, 8))
len(p.kernels) > 0

# %% netcl.profiling.region
from netcl.profiling import region

with region("product") as r:
    nc.matmul(nc.ones(8, 8), nc.ones(8, 8))
r.seconds > 0

# %% netcl.profiling.timing.Timing
from netcl.profiling.timing import timing

timing(lambda: nc.ones(8) + 1, warmup=1, runs=3).median > 0

# %% netcl.runtime.cache.ProgramCache
from netcl.runtime import cache

cache.ProgramCache.__name__

# %% netcl.runtime.cache.ProgramStats
from netcl.runtime import cache

cache.ProgramStats.__name__

# %% netcl.runtime.capture.Replay
from netcl.runtime.capture import barrier, capture


def in_parts(x, y):
    total = x.sum()
    barrier(x.engine)  # what comes before can be replayed by itself
    return [total, total * y]


captured = capture(in_parts, nc.ones(3), nc.ones(3))
replay = captured.begin()
replay.bind(0, nc.tensor([1.0, 2.0, 3.0]))
replay.run(0)
print(replay.result(replay.results()[0]).item())  # 6.0, before the second argument is there
replay.bind(1, nc.ones(3))
replay.run(1)
print(replay.result(replay.results()[1]).tolist())  # [6.0, 6.0, 6.0]
replay.end()

# %% netcl.runtime.capture.CapturedStep
from netcl.runtime.capture import capture

step = capture(lambda x: x * 2 + 1, nc.ones(3))
step.replay(nc.full((3,), 2.0))

# %% netcl.runtime.graph.Graph
from netcl.runtime import graph

graph.Graph.__name__

# %% netcl.runtime.graph.GraphExecutor
from netcl.runtime import graph

graph.GraphExecutor.__name__

# %% netcl.runtime.graph.GraphOp
from netcl.runtime import graph

graph.GraphOp.__name__

# %% netcl.runtime.staging.Staging
from netcl.runtime.staging import Staging, mark

x = nc.arange(6.0)
memory = Staging(x.queue, 64)
memory.download(x, 2, 3, at=0, after=[mark(x.queue)]).wait()
print(memory.array[:12].view("float32"))
memory.close()

# %% netcl.runtime.staging.Pending
from netcl.runtime.staging import mark

work = mark(nc.ones(3).queue)
work.wait()
print(work.done())

# %% netcl.runtime.stream.Scheduler
from netcl.runtime import stream

stream.Scheduler.__name__

# %% netcl.runtime.stream.Stream
from netcl.runtime import stream

stream.Stream.__name__

# %% netcl.set_grad_enabled
w = nc.ones(2, requires_grad=True)
with nc.set_grad_enabled(False):
    print((w * 2).requires_grad)
