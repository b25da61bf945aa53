"""Sums a large array over ranks on two hosts and tells the host of each rank."""

from __future__ import annotations

import socket

import numpy as np

import netcl.distributed as dist


def main() -> None:
    group = dist.init_process_group("mpi")
    total = group.all_reduce(np.full(5_000_000, group.rank + 1.0, np.float32))
    assert float(total.min()) == float(total.max()) == sum(range(1, group.size + 1))
    print(f"rank {group.rank}, local rank {group.local_rank}, on {socket.gethostname()}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
