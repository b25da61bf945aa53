"""The training runs that are killed: one of the Trainer, and one with ranks of a group."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import Tensor
from netcl.data import DataLoader
from netcl.distributed import DataParallel, convert_sync_batchnorm, destroy_process_group, init_process_group, on_root
from netcl.io import load_checkpoint, save_checkpoint
from netcl.optim import AdamW, CosineAnnealingLR, ModelEMA
from netcl.trainer import ModelCheckpoint, Trainer

EPOCHS = 3
STEPS = 12  # of the run with ranks


def data() -> tuple[Any, Any]:
    """Returns 40 samples of three classes."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 40)
    return rng.normal(0, 1, (40, 8)).astype(np.float32), y


def network() -> nn.Sequential:
    """Returns a model with everything that has a state: running statistics, and dropout."""
    ops.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3))


def digest(*tensors: Any) -> str:
    """Returns a hash of the bits of tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.to_host().tobytes())
    return found.hexdigest()


def train(folder: Path) -> str:
    """Runs, or continues, a run of the Trainer that saves after each step; returns the hash of its end."""
    model = network()
    optimizer = AdamW(model.parameters(), lr=2e-2)
    trainer = Trainer(
        model,
        optimizer,
        scheduler=CosineAnnealingLR(optimizer, EPOCHS),
        ema=ModelEMA(model, 0.9),
        accumulation_steps=2,
        seed=3,
        callbacks=[ModelCheckpoint(folder, "loss", every_n_steps=1)],
    )
    history = trainer.fit(DataLoader(data(), 8, shuffle=True, seed=1), epochs=EPOCHS, log_every=0, resume="auto")
    assert trainer.ema is not None
    states = (*model.state_dict().values(), *trainer.ema.shadow.values())
    return digest(*states) + repr([(row["loss"], row["accuracy"]) for row in history])


def train_rank(folder: Path) -> str:
    """Runs, or continues, one rank: the root saves after each step, and all ranks load that file."""
    group = init_process_group(timeout=20.0)
    path, (x, y) = folder / "last.netcl", data()
    # Without it, each rank would keep the running statistics of its own shards, and the file has the root's.
    model = DataParallel(convert_sync_batchnorm(network()), devices=["cpu"])
    optimizer = AdamW(model.parameters(), lr=2e-2)
    step = 0
    if path.exists():
        step = int(load_checkpoint(path, model.module, optimizer=optimizer)["step"])
    group.barrier()  # the root must not save while another rank reads
    while step < STEPS:
        rows = np.random.default_rng([7, step]).permutation(40)[:16]
        xs, ys = model.shard(x[rows], y[rows])
        ag.cross_entropy(model(Tensor.from_host(xs)), Tensor.from_host(ys)).backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        on_root(partial(save_checkpoint, model.module, path, optimizer=optimizer, step=step))
    found = digest(*model.module.state_dict().values())
    destroy_process_group()
    return found


def as_rank(rank: int, size: int, rendezvous: Path) -> None:
    """Sets the variables of the launcher in this process."""
    given = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "RENDEZVOUS": rendezvous}
    os.environ.update({f"NETCL_{name}": str(value) for name, value in given.items()})
