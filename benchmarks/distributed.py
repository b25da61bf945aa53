"""Times netcl.distributed against a C program of the same copies and against MPI, and what overlap and shares save.

``python benchmarks/distributed.py [--only reduce,barrier,overlap,shares,scaling] [--mpi-python FILE] [--trace FILE]``.
What is compared is run in turn. ``--mpi-python`` is a Python with mpi4py and MPICH, ``mpiexec`` beside it; without it
the comparison with MPI is left out. Ranks compute on NumPy with one thread each. Exits with 1 where a target is missed.
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
from distributed_ranks import BUCKET_MB
from distributed_simulator import Link, Step, predict

import netcl.autograd as ag
import netcl.distributed as dist
from netcl import nn
from netcl.core import Tensor, manager
from netcl.core.device import device
from netcl.distributed.folding import Array
from netcl.distributed.group import ProcessGroup, Signature

HERE = Path(__file__).resolve().parent
BYTES = 100 << 20
WAIT_S = 0.02
_ENVIRONMENT = {**os.environ, "NETCL_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

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


def output(command: Sequence[str]) -> str:
    """What a command prints; it has to succeed."""
    return subprocess.run(command, env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True).stdout


def ranks(size: int, *arguments: object) -> Any:
    """What rank 0 of ``size`` processes measured."""
    launcher = [sys.executable, "-m", "netcl.distributed.run", "-n", str(size), str(HERE / "distributed_ranks.py")]
    return json.loads(output([*launcher, *map(str, arguments)]))


def time_reduce(mpi_python: str | None) -> None:
    """all_reduce of 100 MiB over two processes."""
    compiler = shutil.which("cc")
    times: dict[str, list[float]] = {"netcl": [], "C": [], "MPI": []}
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "copies")
        if compiler is not None:
            source = str(HERE / "distributed_copies.c")
            subprocess.run([compiler, "-O3", "-march=native", source, "-o", program], check=True)
        for _ in range(3):
            times["netcl"] += ranks(2, "reduce", BYTES, 12)[2:]
            if compiler is not None:
                times["C"] += [float(line) for line in output([program, str(BYTES), "12"]).split()][2:]
            if mpi_python is not None:
                mpi = [str(Path(mpi_python).with_name("mpiexec")), "-n", "2", mpi_python, "-m", "mpi4py"]
                times["MPI"] += json.loads(output([*mpi, str(HERE / "distributed_ranks.py"), "raw", str(BYTES), "12"]))[
                    2:
                ]
    own = statistics.median(times["netcl"])
    report("all_reduce of 100 MiB, 2 processes", 1e3 * own, "ms")
    if times["C"]:
        report("  C program of the same copies / netcl", statistics.median(times["C"]) / own, "", ">= 0.8")
    if times["MPI"]:
        report("  mpi4py's Allreduce / netcl", statistics.median(times["MPI"]) / own, "", ">= 2")


def time_barrier() -> None:
    """A barrier of two processes."""
    report("barrier, 2 processes", 1e6 * statistics.median(ranks(2, "barrier", 20_000)), "us", "<= 10")


class Waiting(ProcessGroup):
    """Two ranks, of which the other is never there: a bucket takes WAIT_S and comes back as it was."""

    def __init__(self, seconds: float) -> None:
        super().__init__(0, 2, 30.0)
        self._seconds = seconds

    def _announce(self, signature: Signature) -> None:
        self._signature = signature

    def _meet(self) -> None:
        self._signature = Signature(0, "barrier")

    def _fold(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        if source.dtype == np.float32:
            time.sleep(self._seconds)

    def _collect(self, own: Array, counts: Sequence[int]) -> Array:
        return np.concatenate([own, own])

    def _spread(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        self._signature = Signature(0, "broadcast")

    def _send(self, values: Array, to: int, text: str) -> None:
        raise ConnectionError("nobody is there")

    def _recv(self, out: Array, source: int, text: str) -> None:
        raise ConnectionError("nobody is there")


def layers(count: int, width: int) -> nn.Sequential:
    """A perceptron."""
    return nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(width, width), nn.ReLU())))


def in_turn(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The medians of some rounds after two, of works that take turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds + 2):
        for work, spent in zip(works, times):
            begun = time.perf_counter()
            work()
            spent.append(time.perf_counter() - begun)
    return [statistics.median(spent[2:]) for spent in times]


def time_overlap(trace: Path | None) -> None:
    """How much of the buckets' way the backward pass hides."""
    with device("cpu"):
        module = layers(24, 512)
        x = Tensor.from_host(np.random.default_rng(0).standard_normal((2048, 512)).astype(np.float32))
        models = [
            dist.DataParallel(module, bucket_mb=1.1, group=Waiting(wait), weights=[1, 1]) for wait in (0.0, WAIT_S)
        ]
        steps = [lambda model=model: ag.mean(ag.square(model(x))).backward() for model in models]
        at_once, waiting = in_turn(steps, 6)
        model = models[1]
        spans = [span for span in model.spans if span.name != "backward"]
        backward = next(span for span in model.spans if span.name == "backward")
        hidden = 1 - (waiting - at_once) / (len(spans) * WAIT_S)
        report(f"step with {len(spans)} buckets that take no time", 1e3 * at_once, "ms")
        report(f"  of {1e3 * WAIT_S:.0f} ms for each, hidden", hidden, "", ">= 0.9")
        first = (backward.ended - spans[0].begun) / (backward.ended - backward.begun)
        report("  the first leaves ahead of the end by, of backward", first, "", ">= 0.01")
    both: dict[str, list[float]] = {"together": [], "sequential": []}
    for _ in range(3):
        for mode, times in both.items():
            times += ranks(2, "step", mode, 12)["seconds"][2:]
    ratio = statistics.median(both["together"]) / statistics.median(both["sequential"])
    report("overlapped / sequential step, 2 processes", ratio, "", "<= 1.03")
    if trace is not None:
        begun = min(span.begun for span in model.spans)
        events = [
            {
                "name": name,
                "ph": "X",
                "pid": 0,
                "tid": int(name != "backward"),
                "ts": 1e6 * (a - begun),
                "dur": 1e6 * (b - a),
            }
            for name, a, b in model.spans
        ]
        trace.write_text(json.dumps({"traceEvents": events}))


class Uneven(nn.Module):
    """A perceptron that computes everything three times on one device."""

    def __init__(self, slow: Any) -> None:
        super().__init__()
        self.slow, self.inner = slow, layers(3, 768)

    def __deepcopy__(self, memo: dict[int, Any]) -> Uneven:
        copied = memo[id(self)] = Uneven(self.slow)
        return copied

    def forward(self, x: Tensor) -> Tensor:
        result = self.inner(x)
        for _ in range(2 if x.queue is self.slow else 0):
            result = result + self.inner(x)
        return result  # type: ignore[no-any-return]


def time_shares() -> None:
    """Shares by measured speed against equal ones, with a sub-device that is three times slower."""
    handle = manager.default()
    if handle is None or handle.backend != "cl":
        print("shares: needs an OpenCL device")
        return
    parts = manager.split(handle, 2)
    x = np.random.default_rng(0).standard_normal((512, 768)).astype(np.float32)
    with device(parts[0]):
        models = [dist.DataParallel(Uneven(parts[1].queue), devices=parts, weights=given) for given in ([1, 1], None)]
        steps = [lambda model=model: ag.mean(ag.square(model(Tensor.from_host(x)))).backward() for model in models]
        in_turn(steps, 8)
        equal, measured = in_turn(steps, 10)
        report("step with one device slower, equal shares", 1e3 * equal, "ms")
        print(f"  measured shares {[round(weight, 2) for weight in models[1].weights]}")
        report("  equal / measured shares", equal / measured, "", ">= 1.3")


def time_scaling() -> None:
    """Measured steps of 1, 2 and 4 processes on this host's cores against the simulator's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"weak scaling, {cores} cores, 4 buckets of {BUCKET_MB} MiB: ms of a step")
    for size in (1, 2, 4):
        runs = [{mode: ranks(size, "step", mode, 10) for mode in ("compute", "buckets", "together")} for _ in range(2)]
        median = {
            mode: statistics.median([spent for run in runs for spent in run[mode]["seconds"][2:]]) for mode in runs[0]
        }
        forward = statistics.median([spent for run in runs for spent in run["compute"]["forward"][2:]])
        worked = statistics.mean(run["buckets"]["worked"] for run in runs)
        host, work = (median["buckets"] / 4,) * 4, (worked / 4,) * 4
        nbytes = (sum(runs[0]["buckets"]["bytes"]) // 4,) * 4
        busy = size >= cores
        measured = Step(forward, median["compute"] - forward, nbytes, host, work, busy)
        found = predict(measured, size, Link(0.0, float("inf")), per_host=size)
        print(f"  {size} ranks: compute {1e3 * median['compute']:.1f}, gradients {1e3 * median['buckets']:.1f}")
        print(f"           step {1e3 * median['together']:.1f}, predicted {1e3 * found.seconds:.1f}")
        report(
            f"  |predicted / measured - 1|, {size} ranks", abs(found.seconds / median["together"] - 1), "", "<= 0.15"
        )


def main() -> int:
    """Runs what was asked for; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="reduce,barrier,overlap,shares,scaling")
    parser.add_argument("--mpi-python", metavar="FILE", help="a Python with mpi4py and MPICH")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the overlapped step for Perfetto")
    options = parser.parse_args()
    works: dict[str, Callable[[], None]] = {
        "reduce": lambda: time_reduce(options.mpi_python),
        "barrier": time_barrier,
        "overlap": lambda: time_overlap(options.trace),
        "shares": time_shares,
        "scaling": time_scaling,
    }
    for name in options.only.split(","):
        works[name]()
    if missed:
        print("missed: " + ", ".join(name.strip() for name in missed))
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
