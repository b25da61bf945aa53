"""Two ranks with DistributedDataParallel over gloo: ``python tests/ranks.py cpu ocl`` prints the parameters of each."""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist
from torch import nn


def run(rank: int, device: str, port: int) -> None:
    """Trains three steps, and gathers."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(rank)).to(device)
    for _ in range(3):
        optimizer.zero_grad()
        parallel(x).square().mean().backward()
        optimizer.step()
    total, parts = torch.ones(3, device=device) * (rank + 1), [torch.zeros(2, device=device) for _ in range(2)]
    dist.all_reduce(total)
    dist.all_gather(parts, torch.full((2,), float(rank), device=device))
    if rank == 0:
        sums = [round(p.detach().double().sum().item(), 5) for p in model.parameters()]
        print(sums, total.tolist(), [part.tolist() for part in parts], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for place in sys.argv[1:]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = free.getsockname()[1]
        torch.multiprocessing.spawn(run, (place, number), 2)
