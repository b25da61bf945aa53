"""Times matrix products, convolutions, attention and pooling: netcl on each device and its peers, in turn.

``python benchmarks/contractions.py [--devices intel,pocl] [--peers pytorch,tinygrad] [--only matmul]
[--seconds 1] [--json FILE]``. Contestants take turns in short runs, two threads each (OMP_NUM_THREADS,
OPENBLAS_NUM_THREADS). The table has medians and the middle half, the ratio to the better of NumPy and PyTorch, the
kernels that netcl ran, and the share of the multiply-adds that the machine can do (``--peak``, GFLOP/s), by the
operations of the definition: minimal filtering can be above 1.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bursts import Burst, Work, by_turns, here
from measure import handles, save, timing
from peer_processes import PEERS, Peer, driver_of, peers
from rows import Row, operands, rows

import netcl.autograd as ag
from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.ops_table.dispatch import records

# By op: without gradients, and on the tape
OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "matmul": (ops.matmul, ag.matmul),
    "conv2d": (ops.conv2d, ag.conv2d),
    "attention": (ops.scaled_dot_product_attention, ag.scaled_dot_product_attention),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 2), lambda x: ag.max_pool2d(x, 2)),
    "batch_norm": (
        lambda x, w, b: ops.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: ag.batch_norm(x, None, None, w, b, training=True),
    ),
}


def netcl_row(row: Row, handle: DeviceHandle) -> Work:
    """The work of a row on a device."""
    plain, taped = OPS[row.op]
    given = [Tensor.from_host(handle, array) for array in operands(row)]

    def forward() -> None:
        plain(*given, **row.options)
        handle.queue.finish()

    def forth_and_back() -> None:
        *inputs, grad = given
        for x in inputs:
            x.requires_grad = True
            x.grad = None
        taped(*inputs, **row.options).backward(grad)
        handle.queue.finish()

    return forth_and_back if row.gradients else forward


@contextmanager
def _noted(handle: DeviceHandle) -> Iterator[list[str]]:
    """The names of the kernels that run within the block, each once; none on NumPy."""
    engine: Any = engine_for(handle)
    names: list[str] = []
    if handle.backend != "cl":
        yield names
        return
    launch = engine.launch

    def note(*args: Any, **kwargs: Any) -> None:
        if args[1] not in names:
            names.append(args[1])
        launch(*args, **kwargs)

    records.clear()  # warm calls do not pass by launch
    engine.launch = note
    try:
        yield names
    finally:
        engine.launch = launch


def _contestants(
    row: Row, devices: list[DeviceHandle], others: dict[str, Peer]
) -> tuple[dict[str, Burst], dict[str, list[str]]]:
    """The contestants of a row, and the names of netcl's kernels."""
    bursts: dict[str, Burst] = {}
    kernels: dict[str, list[str]] = {}
    for handle in devices:
        name = f"netcl, {'NumPy' if handle.backend == 'cpu' else driver_of(handle)}"
        with device(handle):
            work = netcl_row(row, handle)
            with _noted(handle) as kernels[name]:
                work()
            bursts[name] = here(work)
    return bursts | {name: peer.burst for name, peer in others.items() if peer.takes(row)}, kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all devices when left out")
    parser.add_argument("--peers", default=",".join(name.strip("_") for name in PEERS), help="of those installed")
    parser.add_argument("--only", default="", help="families or parts of rows' names, separated by commas")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row and contestant")
    parser.add_argument("--peak", type=float, default=232.0, help="GFLOP/s of the machine")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    wanted = options.only.split(",")
    devices = handles(options.devices)
    collected = []
    print(f"{'':<52}{'':<17}{'ms':>9}{'middle half':>19}{'GFLOP/s':>9}{'of peak':>8}{'to peer':>8}  kernels")
    with peers(options.peers, devices) as others:
        for row in rows():
            if not any(word == row.family or word in row.name for word in wanted):
                continue
            bursts, kernels = _contestants(row, devices, others)
            times = by_turns(bursts, options.seconds * len(bursts))
            best = min((statistics.median(times[name]) for name in ("NumPy", "PyTorch") if name in times), default=None)
            for name, values in times.items():
                one = timing(row.name, name, values)
                rate = row.flops / one.median / 1e6
                line = f"{row.name:<52}{name:<17}{one.median:>9.3f}{f'{one.low:.3f} to {one.high:.3f}':>19}"
                line += f"{rate:>9.1f}{rate / options.peak:>8.2f}" if row.flops else " " * 17
                line += f"{best / one.median:>8.2f}" if best is not None else " " * 8
                print(f"{line}  {' '.join(kernels.get(name, ()))}", flush=True)
                collected.append(one)
    save(options.json, collected)


if __name__ == "__main__":
    main()
