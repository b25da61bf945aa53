"""Samples of classes of netcl-optim and the packages that belong to it."""

from __future__ import annotations

import netcl as nc
from netcl import nn, optim

nc.manual_seed(0)
model = nn.Linear(4, 2)


def train(optimizer, steps=3):
    x, y = nc.ones(8, 4), nc.zeros(8, 2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return round(loss.item(), 4)

# %% netcl.optim.ASGD
train(optim.ASGD(model.parameters(), lr=0.01))

# %% netcl.optim.Adadelta
train(optim.Adadelta(model.parameters(), lr=0.01))

# %% netcl.optim.Adafactor
train(optim.Adafactor(model.parameters(), lr=0.01))

# %% netcl.optim.Adagrad
train(optim.Adagrad(model.parameters(), lr=0.01))

# %% netcl.optim.Adam
train(optim.Adam(model.parameters(), lr=0.01))

# %% netcl.optim.AdamW
train(optim.AdamW(model.parameters(), lr=0.01))

# %% netcl.optim.Adamax
train(optim.Adamax(model.parameters(), lr=0.01))

# %% netcl.optim.ChainedScheduler
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.ChainedScheduler([optim.ExponentialLR(optimizer, 0.5), optim.ConstantLR(optimizer, 0.5, 2)])
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.ConstantLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.ConstantLR(optimizer, factor=0.5, total_iters=2)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.CosineAnnealingLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.CosineAnnealingLR(optimizer, T_max=4)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.CosineAnnealingWarmRestarts
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.CosineAnnealingWarmRestarts(optimizer, T_0=2)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.CyclicLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.CyclicLR(optimizer, base_lr=0.01, max_lr=0.1, step_size_up=2)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.ExponentialLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.ExponentialLR(optimizer, gamma=0.5)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.LAMB
train(optim.LAMB(model.parameters(), lr=0.01))

# %% netcl.optim.LBFGS
optimizer = optim.LBFGS(model.parameters(), lr=0.1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(nc.ones(8, 4)), nc.zeros(8, 2))
    loss.backward()
    return loss


round(optimizer.step(closure).item(), 3)

# %% netcl.optim.LRScheduler
optimizer = optim.SGD(model.parameters(), lr=0.1)
isinstance(optim.StepLR(optimizer, 1), optim.LRScheduler)

# %% netcl.optim.LambdaLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.LambdaLR(optimizer, lr_lambda=lambda epoch: 0.5**epoch)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.LinearLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.LinearLR(optimizer, total_iters=4)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.Lion
train(optim.Lion(model.parameters(), lr=0.01))

# %% netcl.optim.ModelEMA
ema = optim.ModelEMA(model, decay=0.9)
train(optim.SGD(model.parameters(), lr=0.1))
ema.update(model)
with ema.averaged():
    print(model(nc.ones(1, 4)).shape)

# %% netcl.optim.Momentum
train(optim.Momentum(model.parameters(), lr=0.01))

# %% netcl.optim.MultiStepLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.MultiStepLR(optimizer, milestones=[2], gamma=0.1)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.MultiplicativeLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.MultiplicativeLR(optimizer, lr_lambda=lambda epoch: 0.9)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.Muon
train(optim.Muon([model.weight], lr=0.01))

# %% netcl.optim.NAdam
train(optim.NAdam(model.parameters(), lr=0.01))

# %% netcl.optim.OneCycleLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.Optimizer
optimizer = optim.SGD(model.parameters(), lr=0.1)
isinstance(optimizer, optim.Optimizer), optimizer.param_groups[0]["lr"]

# %% netcl.optim.PolynomialLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.PolynomialLR(optimizer, total_iters=4)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.RAdam
train(optim.RAdam(model.parameters(), lr=0.01))

# %% netcl.optim.RMSProp
train(optim.RMSProp(model.parameters(), lr=0.01))

# %% netcl.optim.ReduceLROnPlateau
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.ReduceLROnPlateau(optimizer, patience=0)
for loss in (1.0, 1.0, 1.0):
    schedule.step(loss)
optimizer.param_groups[0]["lr"]

# %% netcl.optim.Rprop
train(optim.Rprop(model.parameters(), lr=0.01))

# %% netcl.optim.Rule
optim.SGD(model.parameters(), lr=0.1).__class__.__mro__[1].__name__

# %% netcl.optim.SGD
train(optim.SGD(model.parameters(), lr=0.01))

# %% netcl.optim.SWA
average = optim.SWA(model)
train(optim.SGD(model.parameters(), lr=0.1))
average.update(model)
with average.averaged():
    print(model(nc.ones(1, 4)).shape)

# %% netcl.optim.SWALR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.SWALR(optimizer, swa_lr=0.05)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.SequentialLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.SequentialLR(optimizer, [optim.ConstantLR(optimizer, 0.5, 2), optim.ExponentialLR(optimizer, 0.5)], milestones=[2])
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.SparseAdam
try:
    optim.SparseAdam(model.parameters())
except Exception as error:
    print(error)

# %% netcl.optim.StepLR
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.StepLR(optimizer, step_size=2, gamma=0.1)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.WarmupCosine
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = optim.WarmupCosine(optimizer, max_epochs=4, warmup_epochs=2)
rates = []
for _ in range(4):
    train(optimizer, steps=1)
    schedule.step()
    rates.append(round(optimizer.param_groups[0]["lr"], 4))
rates

# %% netcl.optim.swa_utils.AveragedModel
average = optim.swa_utils.AveragedModel(model)
average.update_parameters(model)
average(nc.ones(1, 4)).shape
