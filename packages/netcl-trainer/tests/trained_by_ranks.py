"""A rank that trains by the Trainer on its part of the data, eagerly and compiled; rank 0 writes what it found as JSON.

trained_by_ranks.py FILE (whole | divided)      divided: the state of the optimizer is divided among the ranks
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import netcl.distributed as dist
from netcl import nn, ops
from netcl.data import ArrayDataset, DataLoader
from netcl.distributed.optim import ZeroRedundancyOptimizer
from netcl.optim import AdamW
from netcl.trainer import Trainer


def train(group: Any, compiled: bool) -> tuple[float, bool]:
    """Returns the sum of the sizes of the parameters, and True if steps were replayed; the last batches of the ranks
    have different numbers of samples.
    """
    ops.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 60), nn.ReLU(), nn.Linear(60, 5))
    rng = np.random.default_rng(group.rank)
    count = 40 + 3 * group.rank
    data = ArrayDataset(rng.standard_normal((count, 16)).astype(np.float32), rng.integers(0, 5, count))
    params = list(model.parameters())
    divided = sys.argv[2] == "divided"
    optimizer: Any = ZeroRedundancyOptimizer(params, AdamW, lr=1e-2) if divided else AdamW(params, lr=1e-2)
    trainer = Trainer(dist.DataParallel(model), optimizer, compile=compiled, seed=0)
    trainer.fit(DataLoader(data, batch_size=16), epochs=5)
    return sum(float(abs(param).sum()) for param in model.parameters()), bool(
        trainer._step is not None and trainer._step.replays
    )


def main() -> None:
    group = dist.init_process_group()
    eager, _ = train(group, False)
    replayed, was_replayed = train(group, True)
    if group.rank == 0:
        text = json.dumps({"eager": eager, "compiled": replayed, "replayed": was_replayed})
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
