"""A rank that trains a model eagerly and then by a captured step, and saves the parameters of both.

captured.py PATH       writes PATH-eager.npz and PATH-captured.npz
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import netcl.distributed as dist
from netcl import nn, ops, optim
from netcl.core import Tensor
from netcl.runtime.capture import capture

STEPS, BATCH = 8, 24


def train(group: Any, captured: bool) -> dict[str, Any]:
    """Trains on this rank's part of each batch; returns the parameters, and the ones to compare."""
    ops.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 1500), nn.ReLU(), nn.Dropout(0.2), nn.Linear(1500, 300), nn.ReLU(), nn.Linear(300, 5)
    )
    whole = model if group is None else dist.DataParallel(model, bucket_mb=0.5)
    # A large eps: gradients near 0 do not turn their rounding into whole steps.
    updates = optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
    rng = np.random.default_rng(0)
    size, rank = (1, 0) if group is None else (group.size, group.rank)
    part = BATCH // size

    def step(x: Tensor, y: Tensor) -> Tensor:
        updates.zero_grad()
        loss: Tensor = nn.functional.cross_entropy(whole(x), y)
        loss.backward()
        updates.step()
        return loss

    replay = None
    for number in range(STEPS):
        x, y = rng.standard_normal((BATCH, 64)).astype(np.float32), rng.integers(0, 5, BATCH)
        given = [Tensor.from_host(values[rank * part : (rank + 1) * part]) for values in (x, y)]
        if captured and number >= 2:
            replay = replay or capture(step, *given).replay
            replay(*given)
        else:
            step(*given)
    return {name: param.numpy() for name, param in model.named_parameters()}


def main() -> None:
    group = dist.init_process_group()
    for kind in ("eager", "captured"):
        found = train(group, kind == "captured")
        if group.rank == 0:
            np.savez(f"{sys.argv[1]}-{kind}.npz", **found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
