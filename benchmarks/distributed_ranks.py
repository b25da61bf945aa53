"""What one rank does in ``distributed.py``: it times the work that its arguments name, and rank 0 prints it as JSON.

reduce BYTES ROUNDS | raw BYTES ROUNDS (mpi4py itself) | barrier ROUNDS
step MODE ROUNDS                 MODE: compute (no group), together (a step of DataParallel), buckets (gradients alone)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl.autograd as ag
import netcl.distributed as dist
from netcl import nn, ops
from netcl.core import Tensor
from netcl.distributed import ProcessGroup
from netcl.distributed.buckets import Buckets
from netcl.optim import SGD

WIDTH, SAMPLES, LAYERS = 1024, 256, 4
BUCKET_MB = 4.5  # a layer's weight and bias


def timed(work: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> list[float]:
    """Seconds of each round; ``before`` runs ahead of each and is not counted."""
    times = []
    for _ in range(rounds):
        before()
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return times


def raw(nbytes: int, rounds: int) -> list[float]:
    """Seconds of mpi4py's own Allreduce, in place."""
    from mpi4py import MPI

    x = np.ones(nbytes // 4, np.float32)
    return timed(lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, x), rounds, MPI.COMM_WORLD.Barrier)


def reduce(nbytes: int, rounds: int) -> list[float]:
    """Seconds of all_reduce of an array, in place."""
    group = dist.init_process_group()
    x = np.ones(nbytes // 4, np.float32)
    return timed(lambda: group.all_reduce(x), rounds, group.barrier)


def barrier(rounds: int) -> list[float]:
    """Seconds of one barrier."""
    return timed(dist.init_process_group().barrier, rounds)


def make() -> Any:
    """A perceptron of WIDTH and LAYERS: 4 MiB of gradients per layer."""
    ops.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def step(mode: str, rounds: int) -> dict[str, Any]:
    """Seconds of steps, and of the parts of the last: when its backward pass and its buckets began and ended."""
    group = dist.init_process_group()
    module = make()
    bucket_mb = 1e3 if mode == "sequential" else BUCKET_MB
    even = [1.0] * group.size
    model = module if mode == "compute" else dist.DataParallel(module, bucket_mb=bucket_mb, weights=even)
    optimizer = SGD(module.parameters(), lr=1e-3)
    x = Tensor.from_host(np.random.default_rng(group.rank).standard_normal((SAMPLES, WIDTH)).astype(np.float32))
    halves: list[float] = []

    def work() -> None:
        optimizer.zero_grad()
        begun = time.perf_counter()
        loss = ag.mean(ag.square(model(x)))
        loss.item()
        halves.append(time.perf_counter() - begun)
        loss.backward()
        optimizer.step()
        next(iter(module.parameters())).to_host()

    if mode == "buckets":
        return exchanged(module, group, rounds)
    times = timed(work, rounds, group.barrier)
    spans = model.spans if isinstance(model, dist.DataParallel) else []
    return {"seconds": times, "forward": halves, "spans": [tuple(span) for span in spans]}


def exchanged(module: Any, group: ProcessGroup, rounds: int) -> dict[str, Any]:
    """Seconds of the way of all gradients through the group and back to the device, with nothing beside it."""
    params = list(module.parameters())
    grads = [ops.clone(param) for param in params]
    buckets = Buckets(params, None, group, int(BUCKET_MB * 2**20), None)

    def work() -> None:
        buckets.begin()
        for place in range(len(params) - 1, -1, -1):
            buckets.give(place, grads[place])
        for param, total in zip(params, buckets.finish()):
            Tensor.from_host(param.queue, total)

    before = time.process_time()
    times = timed(work, rounds, group.barrier)
    # The processor's part: a rank that waits for another sleeps.
    worked = (time.process_time() - before) / rounds
    return {"seconds": times, "worked": worked, "bytes": [p.nbytes for p in params]}


def main() -> None:
    """Runs what the arguments name."""
    name, *arguments = sys.argv[1:]
    works: dict[str, Callable[..., Any]] = {"raw": raw, "reduce": reduce, "barrier": barrier, "step": step}
    result = works[name](*(int(word) if word.isdigit() else word for word in arguments))
    if dist.get_rank() == 0 and (name != "raw" or _first_of_mpi()):
        print(json.dumps(result), flush=True)


def _first_of_mpi() -> bool:
    from mpi4py import MPI

    return bool(MPI.COMM_WORLD.Get_rank() == 0)


if __name__ == "__main__":
    main()
