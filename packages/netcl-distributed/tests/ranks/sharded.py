"""Trains parameters with ZeroRedundancyOptimizer in the ranks of the launcher: ``sharded.py STATE [kill]``."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import netcl.autograd as ag
from netcl import distributed as dist
from netcl.core import Tensor
from netcl.distributed.optim import ZeroRedundancyOptimizer
from netcl.optim import AdamW

SHAPES: tuple[tuple[int, ...], ...] = ((7, 5), (5,), (3,), (4, 4), (), (11,))

group = dist.init_process_group()
rng = np.random.default_rng(1)
params = [ag.Parameter(Tensor.from_host(np.asarray(rng.standard_normal(shape), np.float32))) for shape in SHAPES]
optimizer = ZeroRedundancyOptimizer(params, AdamW, lr=0.1)
try:
    for step in range(3):
        for p in params:
            p.grad = Tensor.from_host(np.asarray(rng.standard_normal(p.shape), np.float32))
        if sys.argv[2:] == ["kill"] and step == 1 and group.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
except dist.RankFailedError as error:
    print(f"rank {group.rank}: RankFailedError {error.rank}", flush=True)
    raise
optimizer.consolidate_state_dict(to=1)
if group.rank == 1:
    state = optimizer.state_dict()["state"]
    values = {f"p{at}": p.numpy() for at, p in enumerate(params)}
    np.savez(sys.argv[1], **values, **{f"m{at}": state[at]["exp_avg"].numpy() for at in range(len(params))})
dist.destroy_process_group()
