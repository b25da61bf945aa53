"""Times the ops of the op table that memory bounds: every device, NumPy and PyTorch in turn, effective GB/s and ratios.

``python benchmarks/ops.py [--devices pocl,intel] [--only sum] [--json FILE]``. A round runs each contestant a few
times, so that what else the machine does meets them alike; the table has medians over all runs and the middle half as
spread. GB/s counts the bytes that the operation must read and write once; the copy is what they are held against.
Threads of one contestant go on spinning into the runs of the next: ``--no-peers`` with one device has it alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bursts import Work
from measure import Timing, handles, save, torch

import netcl.autograd as ag
from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.expr import Load, parse
from netcl.core.ops_table.program import evaluate

BURST = 3  # timed runs in a round: threads of the contestant before may go on spinning for a while
CHAIN = "tanh(v0 * 0.5f + v1) * exp(-abs(v0)) - v1 * 0.25f"  # eight operations with an intermediate result each


@dataclass(frozen=True)
class Job:
    """One row: its inputs, the bytes it must move, and how netcl, NumPy and PyTorch do it (None: not compared)."""

    name: str
    inputs: Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], ...]]
    moved: int
    netcl: Callable[..., Work]
    numpy: Callable[..., object] | None
    torch: Callable[..., Work] | None


def _floats(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], ...]]:
    return lambda rng: tuple(rng.uniform(-2, 2, shape).astype(np.float32) for shape in shapes)


def _called(function: Callable[..., object]) -> Callable[..., Work]:
    return lambda *inputs: lambda: function(*inputs)


def _numpy_chain(x: Any, y: Any) -> Any:
    return np.tanh(x * np.float32(0.5) + y) * np.exp(-np.abs(x)) - y * np.float32(0.25)


def _numpy_softmax(x: Any) -> Any:
    weight = np.exp(x - x.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True)


def _numpy_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + np.float32(1e-5)) * weight + bias


def _numpy_cross_entropy(x: Any, labels: Any) -> Any:
    weight = np.exp(x - x.max(1, keepdims=True))
    total = weight.sum(1, keepdims=True)
    places = np.arange(len(x))
    loss = -np.log(weight[places, labels] / total[:, 0]).mean()
    weight /= total
    weight[places, labels] -= 1
    weight /= len(x)
    return loss, weight


def _scatter_add(indices: Any, grad: Any) -> Any:
    result = np.zeros((50_000, 256), np.float32)
    np.add.at(result, indices, grad)
    return result


def _fused_chain(x: Tensor, y: Tensor) -> Work:
    expression = parse(CHAIN, [Load(0, "float32"), Load(1, "float32")])
    return lambda: evaluate((expression,), (x, y))


def _netcl_cross_entropy(x: Tensor, labels: Tensor) -> Work:
    x.requires_grad = True

    def step() -> None:
        x.grad = None
        ag.cross_entropy(x, labels).backward()

    return step


def _torch_cross_entropy(x: Any, labels: Any) -> Work:
    x.requires_grad_(True)

    def step() -> None:
        x.grad = None
        torch.nn.functional.cross_entropy(x, labels).backward()

    return step


def _netcl_embedding(table: Tensor, indices: Tensor, grad: Tensor) -> Work:
    table.requires_grad = True

    def step() -> None:
        table.grad = None
        ag.embedding(indices, table).backward(grad)

    return step


def _torch_embedding(table: Any, indices: Any, grad: Any) -> Work:
    table.requires_grad_(True)

    def step() -> None:
        table.grad = None
        torch.nn.functional.embedding(indices, table).backward(grad)

    return step


def jobs() -> Iterator[Job]:
    """The rows of the table, in order."""
    n = 16 << 20
    yield Job("copy 16M", _floats((n,)), 8 * n, _called(ops.clone), np.copy, _called(_torch("clone")))
    for millions in (1, 16):
        n = millions << 20
        yield Job(f"add {millions}M", _floats((n,), (n,)), 12 * n, _called(ops.add), np.add, _called(_torch("add")))
    for millions in (1, 16):
        n = millions << 20
        yield Job(f"chain of 8, {millions}M", _floats((n,), (n,)), 12 * n, _fused_chain, _numpy_chain, _torch_chain)
    for rows in (1024, 16384):
        n, shape = rows * 1024, (rows, 1024)
        peer = _called(lambda x: torch.softmax(x, 1))
        yield Job(f"softmax {rows}x1024", _floats(shape), 8 * n, _called(ops.softmax), _numpy_softmax, peer)
    for rows in (1024, 16384):
        n, shape = rows * 1024, (rows, 1024)
        inputs = _floats(shape, (1024,), (1024,))
        peer = _called(lambda x, w, b: torch.nn.functional.layer_norm(x, (1024,), w, b))
        ours = _called(lambda x, w, b: ops.layer_norm(x, 1024, w, b))
        yield Job(f"layer norm {rows}x1024", inputs, 8 * n, ours, _numpy_layer_norm, peer)
    rows, classes = 8192, 1000
    yield Job(
        f"cross entropy and gradient {rows}x{classes}",
        lambda rng: (rng.normal(size=(rows, classes)).astype(np.float32), rng.integers(0, classes, rows)),
        12 * rows * classes,
        _netcl_cross_entropy,
        _numpy_cross_entropy,
        _torch_cross_entropy,
    )
    n = 16 << 20
    yield Job("sum of 16M", _floats((n,)), 4 * n, _called(ops.sum), np.sum, _called(_torch("sum")))
    for axis, name in ((1, "row"), (0, "column")):
        ours = _called(lambda x, axis=axis: ops.sum(x, axis=axis))
        peer = _called(lambda x, axis=axis: torch.sum(x, axis))
        theirs = lambda x, axis=axis: np.sum(x, axis)  # noqa: E731
        yield Job(f"{name} sums 16384x1024", _floats((16384, 1024)), 4 * n, ours, theirs, peer)
    yield Job(
        "transpose 4096x4096",
        _floats((4096, 4096)),
        8 << 24,
        _called(ops.transpose),
        lambda x: np.ascontiguousarray(x.T),
        _called(lambda x: x.t().contiguous()),
    )
    ids = 8192
    yield Job(
        f"embedding and gradient 50000x256, {ids} ids",
        lambda rng: (
            rng.uniform(-2, 2, (50_000, 256)).astype(np.float32),
            rng.integers(0, 50_000, ids),
            rng.uniform(-2, 2, (ids, 256)).astype(np.float32),
        ),
        4 * 256 * (4 * ids + 50_000),
        _netcl_embedding,
        lambda table, indices, grad: (table[indices], _scatter_add(indices, grad)),
        _torch_embedding,
    )


def _torch(name: str) -> Callable[..., object]:
    return lambda *inputs: getattr(torch, name)(*inputs)


def _torch_chain(x: Any, y: Any) -> Work:
    return lambda: torch.tanh(x * 0.5 + y) * torch.exp(-torch.abs(x)) - y * 0.25


def contestants(job: Job, devices: list[DeviceHandle], peers: bool) -> dict[str, Work]:
    """The contestants of one row, by name: NumPy, PyTorch and netcl on each device, on the same data."""
    inputs = job.inputs(np.random.default_rng(0))
    found: dict[str, Work] = {}
    if peers and job.numpy is not None:
        found["NumPy"] = lambda: job.numpy(*inputs)
    if peers and torch is not None and job.torch is not None:
        found["PyTorch"] = job.torch(*(torch.from_numpy(array.copy()) for array in inputs))
    for handle in devices:
        with device(handle.selector):
            work = job.netcl(*(Tensor.from_host(array, array.dtype.name) for array in inputs))
        label = (
            "netcl on NumPy" if handle.backend == "cpu" else f"netcl on {handle.platform_name.split('(')[0].strip()}"
        )
        found[label] = _finished(work, handle)
    return found


def _finished(work: Work, handle: DeviceHandle) -> Work:
    def run() -> None:
        with device(handle.selector):
            result = work()
            handle.queue.finish()
        del result

    return run


def measure(works: dict[str, Work], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each contestant, a burst of each per round, until ``seconds`` are over."""
    for work in works.values():
        for _ in range(3):
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    until = time.perf_counter() + seconds
    rounds = 0
    while rounds < 4 or (time.perf_counter() < until and rounds < 400):
        rounds += 1
        for name, work in works.items():
            for timed in [False] * 2 + [True] * BURST:  # caches of another contestant are behind the first runs
                start = time.perf_counter()
                work()
                if timed:
                    times[name].append(1e3 * (time.perf_counter() - start))
    return times


def summary(times: dict[str, list[float]], moved: int) -> dict[str, dict[str, float]]:
    """Median, quartiles, GB/s (of the median, and of the best run) and the ratio to PyTorch (or else NumPy)."""
    medians = {name: statistics.median(values) for name, values in times.items()}
    peer = medians.get("PyTorch", medians.get("NumPy"))
    result = {}
    for name, values in times.items():
        low, _, high = statistics.quantiles(values, n=4)
        result[name] = {
            "ms": medians[name],
            "low": low,
            "high": high,
            "gbs": moved / medians[name] / 1e6,
            "best": moved / min(values) / 1e6,
            "rounds": len(values),
        }
        if peer is not None:
            result[name]["ratio"] = peer / medians[name]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all devices when left out")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=5.0, help="per row")
    parser.add_argument("--no-peers", action="store_true", help="leave NumPy and PyTorch out")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    devices = handles(options.devices)
    collected = []
    for job in jobs():
        if options.only not in job.name:
            continue
        rows = summary(measure(contestants(job, devices, not options.no_peers), options.seconds), job.moved)
        collected += [Timing(job.name, name, row["ms"], row["low"], row["high"]) for name, row in rows.items()]
        print(f"\n{job.name:<34}{'ms':>10}{'middle half':>20}{'GB/s':>9}{'best':>9}{'ratio':>8}")
        for name, row in rows.items():
            spread = f"{row['low']:.3f} to {row['high']:.3f}"
            ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
            print(
                f"  {name:<32}{row['ms']:>10.3f}{spread:>20}{row['gbs']:>9.1f}{row['best']:>9.1f}{ratio:>8}", flush=True
            )
    save(options.json, collected)


if __name__ == "__main__":
    main()
