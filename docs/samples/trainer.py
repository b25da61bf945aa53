"""Samples of classes of netcl-trainer and the packages that belong to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import netcl as nc
from netcl import nn, optim, trainer
from netcl.data import DataLoader, example_digits

nc.manual_seed(0)
folder = Path(tempfile.mkdtemp())
loader = DataLoader(example_digits(128), 32, seed=0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def fit(*callbacks, epochs=1):
    run = trainer.Trainer(model, optim.SGD(model.parameters(), lr=0.1), callbacks=callbacks)
    return run.fit(loader, epochs=epochs, log_every=0)

# %% netcl.distributed.DataParallel
from netcl.distributed import DataParallel

parts = nc.manager.split(nc.manager.default("cpu"), 2)
DataParallel(nn.Linear(4, 2), devices=parts)(nc.ones(8, 4, device="cpu")).shape

# %% netcl.distributed.MeanLoss
from netcl.distributed import MeanLoss

MeanLoss([nc.tensor(1.0), nc.tensor(4.0)], [2, 1]).item()  # of two samples on one device, and one on another

# %% netcl.distributed.TrainStep
import numpy as np

from netcl.distributed import DataParallel, TrainStep
from netcl.optim import SGD

model = nn.Linear(4, 2).to("cpu")
parallel = DataParallel(model, devices=["cpu", "cpu"])
step = TrainStep(parallel, nn.functional.mse_loss, SGD(model.parameters(), lr=0.1))
for _ in range(4):  # two eager steps, then a captured one
    loss = step(np.ones((6, 4), np.float32), np.ones((6, 2), np.float32))
print(loss.item() > 0)
step.close()

# %% netcl.distributed.DeviceManager
from netcl.distributed import DeviceManager

DeviceManager.__doc__.splitlines()[0]

# %% netcl.distributed.distributed_c10d.GroupMember
from netcl.distributed import run_on_devices
from netcl.distributed.distributed_c10d import GroupMember, new_group


def parts(group):
    return new_group([0]) is GroupMember.NON_GROUP_MEMBER


run_on_devices(parts, ["cpu", "cpu"])

# %% netcl.distributed.distributed_c10d.P2POp
from netcl.distributed import run_on_devices
from netcl.distributed.distributed_c10d import P2POp, batch_isend_irecv, irecv, isend


def swap(group):
    got = np.empty(1)
    for message in batch_isend_irecv(
        [P2POp(isend, np.full(1, float(group.rank)), 1 - group.rank), P2POp(irecv, got, 1 - group.rank)]
    ):
        message.wait()
    return got.tolist()


run_on_devices(swap, ["cpu", "cpu"])

# %% netcl.distributed.distributed_c10d.PendingWork
from netcl.distributed import distributed_c10d as c10d
from netcl.distributed import run_on_devices


def later(group):
    x = nc.ones(2)
    handle = c10d.all_reduce(x, async_op=True)
    return handle.wait(), x.tolist()


run_on_devices(later, ["cpu", "cpu"])

# %% netcl.distributed.distributed_c10d.group
from netcl.distributed.distributed_c10d import group

group.WORLD is None  # before init_process_group

# %% netcl.distributed.optim.DiLoCo
from netcl.distributed.optim import DiLoCo

slow = DiLoCo(optim.AdamW(model.parameters(), lr=0.01), sync_every=50)
model(nc.ones(2, 1, 8, 8)).sum().backward()
slow.step()
slow.local_steps

# %% netcl.distributed.optim.PeriodicModelAverager
from netcl.distributed.optim import PeriodicModelAverager

averager = PeriodicModelAverager(period=4, warmup_steps=100)
averager.average_parameters(model.parameters())
averager.step

# %% netcl.distributed.optim.PostLocalSGDOptimizer
from netcl.distributed.optim import PeriodicModelAverager, PostLocalSGDOptimizer

local = PostLocalSGDOptimizer(optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(period=4))
local.step()
local.state_dict()["step"]

# %% netcl.distributed.optim.ZeroRedundancyOptimizer
from netcl.distributed import run_on_devices
from netcl.distributed.optim import ZeroRedundancyOptimizer


def owned(group):
    sharded = ZeroRedundancyOptimizer(nn.Linear(4, 2).parameters(), optim.Adam, lr=0.01)
    return [p.shape for p in sharded.optim.param_groups[0]["params"]]


run_on_devices(owned, ["cpu", "cpu"])

# %% netcl.distributed.ProcessGroup
from netcl.distributed import run_on_devices

run_on_devices(lambda group: (group.rank, group.size), ["cpu", "cpu"])

# %% netcl.distributed.ReduceOp
from netcl.distributed import ReduceOp, all_reduce

all_reduce(np.ones(2), op=ReduceOp.SUM)

# %% netcl.distributed.SyncBatchNorm
from netcl.distributed import convert_sync_batchnorm

convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3)))

# %% netcl.distributed.Work
from netcl.distributed import run_on_devices


def work(group):
    x = np.ones(2)
    group.all_reduce(x, async_op=True).wait()
    return x.tolist()


run_on_devices(work, ["cpu", "cpu"])

# %% netcl.trainer.CSVLogger
fit(trainer.CSVLogger(folder / "history.csv"))
(folder / "history.csv").read_text().splitlines()[0].split(",")[0]

# %% netcl.trainer.Callback
class Count(trainer.Callback):
    steps = 0

    def on_step_end(self, trainer, logs):
        self.steps += 1


count = Count()
run = trainer.Trainer(model, optim.SGD(model.parameters(), lr=0.1), callbacks=[count])
run.fit(loader, log_every=0)
count.steps

# %% netcl.trainer.EarlyStopping
len(fit(trainer.EarlyStopping("loss", patience=1), epochs=2))

# %% netcl.trainer.History
history = fit(epochs=2)
[row["epoch"] for row in history]

# %% netcl.trainer.LearningRateMonitor
fit(trainer.LearningRateMonitor())[0]["lr"]

# %% netcl.trainer.LearningRates
run = trainer.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
type(run.lr_find(loader, steps=4)).__name__

# %% netcl.trainer.MLflowLogger
trainer.MLflowLogger.__doc__.splitlines()[0]

# %% netcl.trainer.ModelCheckpoint
fit(trainer.ModelCheckpoint(folder, "loss"))
(folder / "last.netcl").is_file()

# %% netcl.trainer.Profiler
trainer.Profiler.__doc__.splitlines()[0]

# %% netcl.trainer.ProgressBar
len(fit(trainer.ProgressBar()))

# %% netcl.trainer.RunView
run = trainer.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
run.epoch, run.step  # a Trainer has all of its attributes

# %% netcl.trainer.TensorBoardLogger
trainer.TensorBoardLogger.__doc__.splitlines()[0]

# %% netcl.trainer.TerminateOnNaN
len(fit(trainer.TerminateOnNaN("skip")))

# %% netcl.trainer.Trainer
run = trainer.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
history = run.fit(loader, epochs=2, log_every=0)
len(history)

# %% netcl.trainer.WandbLogger
trainer.WandbLogger.__doc__.splitlines()[0]
