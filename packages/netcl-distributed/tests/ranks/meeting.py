"""A process without a launcher that joins a group: ``meeting.py RANK SIZE PORT (work | end | kill | mismatch)``."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

import numpy as np

from netcl import distributed as dist
from netcl.core.errors import NetclError

rank, size, port, deed = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
group = dist.init_process_group("gloo", timeout=timedelta(seconds=60), rank=rank, world_size=size)
x = np.full(200_000, float(rank + 1))
group.all_reduce(x)
print(f"rank {rank} of {group.size}: {x[0]:g} {dist.get_backend()}", flush=True)
last = rank == size - 1
try:
    if last and deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if last and deed == "end":
        raise SystemExit(0)
    group.all_reduce(x[: 5 if last and deed == "mismatch" else 4].copy())
except NetclError as error:
    print(f"rank {rank}: {type(error).__name__}: {error}", flush=True)
dist.destroy_process_group()
