"""The last rank of an MPI job dies; the others shrink the group and go on without it."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.distributed import RankFailedError
from netcl.distributed.transports.mpi import MPIGroup


def main() -> None:
    group = dist.init_process_group("mpi")
    assert isinstance(group, MPIGroup)
    group.barrier()
    if group.rank == group.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RankFailedError) as caught:
        for _ in range(1000):
            group.all_reduce(np.ones(1000))
    with pytest.raises(RankFailedError):
        group.barrier()
    smaller = group.shrink()
    total = smaller.all_reduce(np.ones(3))
    print(
        f"rank {caught.value.rank} died, {smaller.size} of {group.size} go on, sum {total.tolist()}\n",
        end="",
        flush=True,
    )
    smaller.close()


if __name__ == "__main__":
    main()
