"""The process of one rank in ``distributed.py``: times the work that its arguments name; rank 0 prints JSON.

reduce BYTES ROUNDS | raw BYTES ROUNDS (mpi4py itself) | barrier ROUNDS | step ROUNDS | devices COUNT ROUNDS
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
from netcl.core import Tensor, manager
from netcl.core.device import device
from netcl.distributed import ProcessGroup
from netcl.distributed.training.buckets import Buckets
from netcl.optim import SGD

WIDTH, SAMPLES, LAYERS = 1024, 256, 4
# A layer's weight and bias, and no room for the next bias, for which the bucket would have to wait.
BUCKET_MB = 4 * WIDTH * (WIDTH + 1) / 2**20


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that ``work()`` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def timed(work: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> list[float]:
    """Seconds of each round; ``before`` runs ahead of each and is not counted."""
    times = []
    for _ in range(rounds):
        before()
        times.append(seconds_of(work))
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


class Stepper:
    """Steps of a perceptron of LAYERS layers, 4 MiB of gradients each, on SAMPLES samples for each device."""

    def __init__(self, wrap: Callable[[Any], Any] = lambda module: module, shards: int = 1) -> None:
        ops.manual_seed(0)
        self.module = nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
        self.model = wrap(self.module)
        self.optimizer = SGD(self.module.parameters(), lr=1e-3)
        x = np.random.default_rng(0).standard_normal((shards * SAMPLES, WIDTH)).astype(np.float32)
        self.x = Tensor.from_host(x)
        self.forward: list[float] = []

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        begun = time.perf_counter()
        loss = ag.mean(ag.square(self.model(self.x)))
        loss.item()
        self.forward.append(time.perf_counter() - begun)
        loss.backward()
        self.optimizer.step()
        next(iter(self.module.parameters())).to_host()


class Exchange:
    """The path of all gradients of a model through the group and back to the device, with nothing else running."""

    def __init__(self, module: Any, group: ProcessGroup, local: bool) -> None:
        self.params = list(module.parameters())
        self.grads = [ops.clone(param.detach()) for param in self.params]
        outer, inner = (None, group) if local else (group, None)
        self.buckets = Buckets(self.params, inner, outer, int(BUCKET_MB * 2**20), None)

    def __call__(self) -> None:
        self.buckets.begin()
        for place in range(len(self.params) - 1, -1, -1):
            self.buckets.add(place, self.grads[place])
        for param, total in zip(self.params, self.buckets.finish()):
            if total is not None:
                Tensor.from_host(param.queue, total)


def measured(group: ProcessGroup, works: dict[str, Callable[[], object]], rounds: int) -> dict[str, Any]:
    """Seconds of each work in each round, all ranks at the same time; the order changes from round to round.

    They are those of the slowest rank, for which the others wait; "own" has those of this rank.
    """
    own: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds):
        for name in list(works)[:: 1 if turn % 2 else -1]:
            group.barrier()
            own[name].append(seconds_of(works[name]))
    return {name: group.all_reduce(np.array(times), "max").tolist() for name, times in own.items()} | {"own": own}


def step(rounds: int) -> dict[str, Any]:
    """Seconds of steps of a rank: the computation alone, the gradients' way alone, and both, overlapped and one after
    the other; and when the backward pass and the buckets of the last overlapped step began and ended.
    """
    group = dist.init_process_group()
    even = [1.0] * group.size
    alone = Stepper()
    together = Stepper(lambda module: dist.DataParallel(module, bucket_mb=BUCKET_MB, weights=even))
    sequential = Stepper(lambda module: dist.DataParallel(module, bucket_mb=1e3, weights=even))
    exchange = Exchange(alone.module, group, False)
    times = measured(
        group, {"compute": alone, "buckets": exchange, "together": together, "sequential": sequential}, rounds
    )
    # The processor's part: a rank that waits for another sleeps.
    before = time.process_time()
    timed(exchange, 3, group.barrier)
    worked = (time.process_time() - before) / 3
    return {**times, "forward": alone.forward, "worked": worked, "spans": together.model.spans}


def devices(count: int, rounds: int) -> dict[str, Any]:
    """As ``step``, of ``count`` parts of the default device in this process."""
    handle = manager.default()
    if handle is None or handle.backend != "cl":
        raise SystemExit("devices: needs an OpenCL device to cut into parts")
    parts = manager.split(handle, max(count, 2))[:count]
    modules: dict[int, Any] = {}

    def rank(group: ProcessGroup) -> dict[str, Any]:
        alone = Stepper()
        modules[group.rank] = alone.module

        def refresh() -> None:
            """The time to copy the parameters of the first device to the others."""
            if group.rank:
                for ours, theirs in zip(alone.module.parameters(), modules[0].parameters()):
                    ours.write(theirs.to_host())

        works = {"compute": alone, "buckets": Exchange(alone.module, group, True), "refresh": refresh}
        times: dict[str, Any] = measured(group, works, rounds)
        before = time.process_time()
        timed(works["buckets"], 3, group.barrier)
        times["worked"] = (time.process_time() - before) / (3 * count)
        return {**times, "forward": alone.forward}

    found = dist.run_on_devices(rank, parts)[0]
    with device(parts[0]):
        stepper = Stepper(lambda module: dist.DataParallel(module, parts, BUCKET_MB, weights=[1.0] * count), count)
        found["together"] = timed(stepper, rounds)
    return found


def main() -> None:
    """Runs what the arguments name."""
    name, *arguments = sys.argv[1:]
    works: dict[str, Callable[..., Any]] = {
        "raw": raw,
        "reduce": reduce,
        "barrier": barrier,
        "step": step,
        "devices": devices,
    }
    result = works[name](*map(int, arguments))
    if dist.get_rank() == 0 and (name != "raw" or _first_of_mpi()):
        print(json.dumps(result), flush=True)


def _first_of_mpi() -> bool:
    from mpi4py import MPI

    return bool(MPI.COMM_WORLD.Get_rank() == 0)


if __name__ == "__main__":
    main()
