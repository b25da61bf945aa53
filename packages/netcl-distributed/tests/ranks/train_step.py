"""A rank that trains by TrainStep, eagerly and captured, on epochs with fewer samples on one rank in the last batch.

train_step.py FILE       rank 0 writes the sums of the parameters, and the number of captures, as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import netcl.distributed as dist
from netcl import nn, ops, optim


def train(group: Any, capture: bool) -> tuple[float, int]:
    """Returns the sum of the sizes of the parameters after four epochs of three batches, and the number of captures."""
    ops.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 40), nn.ReLU(), nn.Linear(40, 5))
    updates = optim.AdamW(model.parameters(), lr=1e-2)
    step = dist.TrainStep(dist.DataParallel(model), nn.functional.cross_entropy, updates, capture=capture)
    rng = np.random.default_rng(group.rank)
    for _ in range(4):
        for size in (8, 8, 3 + group.rank):
            step(rng.standard_normal((size, 16)).astype(np.float32), rng.integers(0, 5, size))
    return sum(float(abs(param).sum()) for param in model.parameters()), step._ranks[0].compiled.captures


def main() -> None:
    group = dist.init_process_group()
    eager, _ = train(group, False)
    replayed, captures = train(group, True)
    if group.rank == 0:
        text = json.dumps({"eager": eager, "replayed": replayed, "captures": captures})
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
