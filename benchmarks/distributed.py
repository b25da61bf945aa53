"""Times netcl.distributed against a C program of the same copies and against MPI, and what overlap and shares save.

``python benchmarks/distributed.py [--only reduce,barrier,overlap,shares,devices,processes,mpi] [--mpi-python FILE]
[--trace FILE] [--picture FILE]``. What is compared is run in turn. ``--mpi-python`` is a Python with netcl, mpi4py and
MPICH, ``mpiexec`` next to it; without it the comparison with MPI is left out. Ranks compute on NumPy with one thread
each. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed_overlap import WAIT_S, draw, hidden, parted, write_trace
from distributed_ranks import BUCKET_MB, LAYERS
from distributed_simulator import Link, Step, predict

import netcl.autograd as ag
import netcl.distributed as dist
from netcl import nn
from netcl.core import Tensor, manager
from netcl.core.device import device

HERE = Path(__file__).resolve().parent
BYTES = 100 << 20
ROUNDS = 10
# Memory that glibc gives back to the system in one step, and takes again in the next, costs up to a third of a step, in
# some processes and not in others: here it is kept.
_MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
_ENVIRONMENT = {**os.environ, **_MALLOC, "NETCL_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

missed: list[str] = []


def report(name: str, value: float, unit: str, target: str = "") -> None:
    """Prints a line; ``target`` such as ``<= 10`` is met by ``value`` or missed."""
    verdict = ""
    if target:
        relation, number = target.split()
        met = value <= float(number) if relation == "<=" else value >= float(number)
        verdict = f"   asked {target}: {'met' if met else 'MISSED'}"
        if not met:
            missed.append(name)
    print(f"{name:60s} {value:10.3f} {unit}{verdict}", flush=True)


class Measurements:
    """The measurements that the options request, in separate processes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.mpi_python: str | None = options.mpi_python
        self.trace: Path | None = options.trace
        self.picture: Path | None = options.picture
        self.cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def ranks(self, size: int, *arguments: object) -> Any:
        """The measurements of rank 0 of ``size`` processes."""
        launcher = [sys.executable, "-m", "netcl.distributed.run", "-n", str(size), str(HERE / "distributed_ranks.py")]
        return json.loads(output([*launcher, *map(str, arguments)]))

    def under_mpi(self, size: int, *arguments: object) -> Any:
        """The measurements of rank 0 of ``size`` ranks of MPI; None without an MPI."""
        if self.mpi_python is None:
            return None
        launcher = [str(Path(self.mpi_python).with_name("mpiexec")), "-n", str(size), self.mpi_python, "-m", "mpi4py"]
        return json.loads(output([*launcher, str(HERE / "distributed_ranks.py"), *map(str, arguments)]))

    def reduce(self) -> None:
        """all_reduce of 100 MiB over two processes."""
        compiler = shutil.which("cc")
        times: dict[str, list[float]] = {"netcl": [], "C": [], "MPI": []}
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder) / "copies")
            if compiler is not None:
                source = str(HERE / "distributed_copies.c")
                subprocess.run([compiler, "-O3", "-march=native", source, "-o", program], check=True)
            for _ in range(3):
                times["netcl"] += self.ranks(2, "reduce", BYTES, 12)[2:]
                if compiler is not None:
                    times["C"] += [float(line) for line in output([program, str(BYTES), "12"]).split()][2:]
                times["MPI"] += (self.under_mpi(2, "raw", BYTES, 12) or [])[2:]
        own = statistics.median(times["netcl"])
        report("all_reduce of 100 MiB, 2 processes", 1e3 * own, "ms")
        if times["C"]:
            report("  C program of the same copies / netcl", statistics.median(times["C"]) / own, "", ">= 0.8")
        if times["MPI"]:
            report("  mpi4py's Allreduce / netcl", statistics.median(times["MPI"]) / own, "", ">= 2")

    def barrier(self) -> None:
        """A barrier of two processes."""
        report("barrier, 2 processes", 1e6 * statistics.median(self.ranks(2, "barrier", 20_000)), "us", "<= 10")

    def overlap(self) -> None:
        """The share of communication hidden by the backward pass, and step times with and without overlap."""
        found = json.loads(output([sys.executable, str(HERE / "distributed_overlap.py"), "10"]))
        backward, buckets = parted(found["spans"])
        report(f"step with {len(buckets)} buckets that take no time", 1e3 * statistics.median(found["at_once"]), "ms")
        report(f"  of {1e3 * WAIT_S:.0f} ms for each, hidden", hidden(found), "", ">= 0.9")
        first = (backward[2] - buckets[0][1]) / (backward[2] - backward[1])
        report("  the first leaves ahead of the end by, of backward", first, "", ">= 0.01")
        runs = [self.ranks(2, "step", 2 * ROUNDS) for _ in range(2)]
        both = [[spent for run in runs for spent in run[mode][2:]] for mode in ("together", "sequential")]
        report(
            "overlapped / sequential step, 2 processes",
            statistics.median(both[0]) / statistics.median(both[1]),
            "",
            "<= 1",
        )
        if self.trace is not None:
            write_trace(found["spans"], self.trace)
        if self.picture is not None:
            waiting = f"{len(buckets)} buckets of 1 MiB, {1e3 * WAIT_S:.0f} ms each"
            real = f"two processes, {LAYERS} buckets of {BUCKET_MB:.1f} MiB through shared memory"
            draw({waiting: found["spans"], real: runs[0]["spans"]}, self.picture)

    def shares(self) -> None:
        """Shares by measured speed against equal ones, with a sub-device that is three times slower."""
        handle = manager.default()
        if handle is None or handle.backend != "cl":
            print("shares: needs an OpenCL device")
            return
        parts = manager.split(handle, 2)
        x = np.random.default_rng(0).standard_normal((512, 768)).astype(np.float32)
        with device(parts[0]):
            models = [dist.DataParallel(Uneven(parts[1].queue), parts, weights=given) for given in ([1, 1], None)]
            steps = [lambda model=model: ag.mean(ag.square(model(Tensor.from_host(x)))).backward() for model in models]
            in_turn(steps, 8)
            equal, measured = in_turn(steps, 10)
        report("step with one device slower, equal shares", 1e3 * equal, "ms")
        print(f"  measured shares {[round(weight, 2) for weight in models[1].weights]}")
        report("  equal / measured shares", equal / measured, "", ">= 1.3")

    def devices(self) -> None:
        """Parts of one OpenCL device in one process."""
        place = os.environ.get("NETCL_DEVICE", "auto")

        def measure(size: int) -> Any:
            command = [sys.executable, str(HERE / "distributed_ranks.py"), "devices", str(size), str(ROUNDS)]
            return json.loads(output(command, NETCL_DEVICE=place))

        self._scaling("sub-devices", measure, (1, 2))

    def processes(self) -> None:
        """Processes of this host."""
        self._scaling("processes", lambda size: self.ranks(size, "step", ROUNDS), (1, 2, 4))

    def mpi(self) -> None:
        """Ranks of MPI on this host."""
        if self.mpi_python is None:
            print("mpi: needs --mpi-python")
            return
        self._scaling("ranks of MPI", lambda size: self.under_mpi(size, "step", ROUNDS), (1, 2, 4))

    def _scaling(self, what: str, measure: Callable[[int], Any], sizes: Sequence[int]) -> None:
        """Measured steps against the simulator's."""
        print(f"weak scaling over {what}, {self.cores} cores, {LAYERS} buckets of {BUCKET_MB:.1f} MiB: ms of a step")
        for size in sizes:
            run = measure(size)
            compute, forward, together, gradients = (
                statistics.median(run[name][2:]) for name in ("compute", "forward", "together", "buckets")
            )
            # Ranks that are more than the cores wait for each other's work, too; replicas get their parameters before.
            worked = run["worked"] * max(1.0, size / self.cores)
            refresh = statistics.median(run["refresh"][2:]) if "refresh" in run else 0.0
            host, work = (gradients / LAYERS,) * LAYERS, (worked / LAYERS,) * LAYERS
            nbytes = (int(BUCKET_MB * 2**20),) * LAYERS
            measured = Step(forward + refresh, compute - forward, nbytes, host, work, size >= self.cores)
            found = predict(measured, size, Link(0.0, float("inf")), per_host=size)
            quartiles = statistics.quantiles(run["own"]["compute"][2:], n=4)
            jitter = (quartiles[2] - quartiles[0]) / 1.35 / compute
            print(f"  {size}: compute {1e3 * compute:.1f}, jitter {100 * jitter:.1f} %, ", end="")
            print(f"gradients {1e3 * gradients:.1f}, ", end="")
            print(f"step {1e3 * together:.1f}, predicted {1e3 * found.seconds:.1f}")
            off = abs(found.seconds / together - 1)
            report(f"  |predicted / measured - 1|, {size} {what}", off, "", "" if what == "sub-devices" else "<= 0.15")


def output(command: Sequence[str], **env: str) -> str:
    """The output of a command, which has to succeed."""
    return subprocess.run(command, env=_ENVIRONMENT | env, stdout=subprocess.PIPE, text=True, check=True).stdout


def in_turn(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The medians of some rounds after two, of works that take turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds + 2):
        for work, spent in zip(works, times):
            begun = time.perf_counter()
            work()
            spent.append(time.perf_counter() - begun)
    return [statistics.median(spent[2:]) for spent in times]


class Uneven(nn.Module):
    """A perceptron that computes everything three times on one device."""

    def __init__(self, slow: Any) -> None:
        super().__init__()
        layers = (layer for _ in range(3) for layer in (nn.Linear(768, 768), nn.ReLU()))
        self.slow, self.inner = slow, nn.Sequential(*layers)

    def __deepcopy__(self, memo: dict[int, Any]) -> Uneven:
        copied = memo[id(self)] = Uneven(self.slow)
        return copied

    def forward(self, x: Tensor) -> Tensor:
        result = self.inner(x)
        for _ in range(2 if x.queue is self.slow else 0):
            result = result + self.inner(x)
        return result  # type: ignore[no-any-return]


def main() -> int:
    """Runs what was asked for; 1 where a target is missed."""
    every = "reduce,barrier,overlap,shares,devices,processes,mpi"
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default=every, help=f"some of {every}")
    parser.add_argument("--mpi-python", metavar="FILE", help="a Python with netcl, mpi4py and MPICH")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the overlapped step for Perfetto")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw overlapped steps")
    options = parser.parse_args()
    measurements = Measurements(options)
    for name in options.only.split(","):
        if name not in every.split(","):
            parser.error(f"--only takes some of {every}, not {name}")
        getattr(measurements, name)()
    if missed:
        print("missed: " + ", ".join(name.strip() for name in missed))
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
