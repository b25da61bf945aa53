"""Times matrix products, convolutions, attention and pooling: netcl on each device, NumPy and PyTorch, in turn.

``python benchmarks/contractions.py [--devices intel,pocl] [--only matmul,conv] [--seconds 1] [--json FILE]``.
Contestants take turns in short runs, two threads each (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS). The table has medians
and the middle half, the ratio to the better peer, the kernels that netcl ran, and the share of the multiply-adds that
the machine can do (``--peak``, GFLOP/s), by the operations of the definition: minimal filtering can be above 1.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measure import Work, handles, save, timing, torch
from training import measured

import netcl.autograd as ag
from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.backend.registry import engine_for
from netcl.core.device import device

Shape = tuple[int, ...]
Make = Callable[..., Work]


@dataclass(frozen=True)
class Row:
    """One row: its family, operands, operations, and how each contestant makes its work of the operands."""

    name: str
    family: str
    shapes: tuple[Shape, ...]
    flops: float
    netcl: Make
    torch: Make
    numpy: Make | None = None


def _called(function: Callable[..., object]) -> Make:
    return lambda *inputs: lambda: function(*inputs)


def _matmul(name: str, a: Shape, b: Shape) -> Row:
    work = 2.0 * int(np.prod(a)) * b[-1]
    return Row(
        f"matmul {name}", "matmul", (a, b), work, _called(ops.matmul), _called(_torch("matmul")), _called(np.matmul)
    )


def _torch(name: str) -> Any:
    return None if torch is None else getattr(torch, name)


def _forward_backward(function: Callable[..., Any]) -> Make:
    """The value of ``function`` and, for the last operand as its gradient, those of the others."""

    def make(*inputs: Any) -> Work:
        *given, grad = inputs

        def step() -> None:
            for x in given:
                x.requires_grad = True
                x.grad = None
            function(*given).backward(grad)

        return step

    return make


def _conv(name: str, n: int, ins: int, outs: int, side: int, kernel: int, **options: Any) -> Iterator[Row]:
    stride, groups = options.get("stride", 1), options.get("groups", 1)
    options.setdefault("padding", kernel // 2)
    out = (side + 2 * options["padding"] - kernel) // stride + 1
    x, weight, grad = (n, ins, side, side), (outs, ins // groups, kernel, kernel), (n, outs, out, out)
    flops = 2.0 * n * outs * out * out * (ins // groups) * kernel * kernel

    def ours(library: Any) -> Callable[..., Any]:
        return lambda x, w: library.conv2d(x, w, **options)

    def theirs(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, **options)

    yield Row(f"conv {name}", "conv", (x, weight), flops, _called(ours(ops)), _called(theirs))
    both = _forward_backward(theirs)
    yield Row(f"conv {name}, with gradients", "conv", (x, weight, grad), 3 * flops, _forward_backward(ours(ag)), both)


def _attention(keys: int) -> Row:
    shape = (8, 4, keys, 64)
    flops = 2.0 * 7 * 32 * keys * keys * 64
    peer = _forward_backward(lambda *x: torch.nn.functional.scaled_dot_product_attention(*x))
    ours = _forward_backward(ag.scaled_dot_product_attention)
    return Row(f"attention B8 H4 T{keys} D64, with gradients", "attention", (shape,) * 4, flops, ours, peer)


def _pool() -> Row:
    ours = _forward_backward(lambda x: ag.max_pool2d(x, 2))
    peer = _forward_backward(lambda x: torch.nn.functional.max_pool2d(x, 2))
    return Row("max pool 64 channels 32x32, N 32", "memory", ((32, 64, 32, 32), (32, 64, 16, 16)), 0, ours, peer)


def _norm() -> Row:
    def theirs(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.batch_norm(x, None, None, w, b, training=True)

    def ours(x: Any, w: Any, b: Any) -> Any:
        return ag.batch_norm(x, None, None, w, b, training=True)

    shape = (32, 64, 32, 32)
    made = (_forward_backward(ours), _forward_backward(theirs))
    return Row("batch norm 64 channels 32x32, N 32", "memory", (shape, (64,), (64,), shape), 0, *made)


def rows() -> Iterator[Row]:
    """The rows of the table, in order."""
    for side in (256, 512, 1024, 2048):
        yield _matmul(f"{side}^3", (side, side), (side, side))
    yield _matmul("256x512x512", (256, 512), (512, 512))
    yield _matmul("1024x256x1024", (1024, 256), (256, 1024))
    yield _matmul("64x784x512", (64, 784), (784, 512))
    yield _matmul("128^3", (128, 128), (128, 128))
    yield _matmul("64 of 64^3", (64, 64, 64), (64, 64, 64))
    yield _matmul("4096^2 by a vector", (4096, 4096), (4096, 1))
    for channels, side in ((64, 32), (128, 16), (256, 8), (512, 4)):
        yield from _conv(f"3x3 {channels} channels {side}x{side}, N 32", 32, channels, channels, side, 3)
    yield from _conv("3x3 3 to 64 channels 32x32, N 32", 32, 3, 64, 32, 3)
    yield from _conv("1x1 stride 2, 64 to 128 channels 32x32, N 32", 32, 64, 128, 32, 1, stride=2)
    yield from _conv("3x3 depthwise 64 channels 32x32, N 32", 32, 64, 64, 32, 3, groups=64)
    yield _attention(128)
    yield _attention(1024)
    yield _pool()
    yield _norm()


def _netcl(row: Row, handle: DeviceHandle, arrays: list[np.ndarray[Any, Any]]) -> Work:
    work = row.netcl(*(Tensor.from_host(handle, array) for array in arrays))

    def run() -> None:
        work()
        handle.queue.finish()

    return run


@contextmanager
def _noted(handle: DeviceHandle) -> Iterator[list[str]]:
    """The names of the kernels that run within the block, each once."""
    engine: Any = engine_for(handle)
    names: list[str] = []
    launch = engine.launch

    def note(*args: Any, **kwargs: Any) -> None:
        if args[1] not in names:
            names.append(args[1])
        launch(*args, **kwargs)

    engine.launch = note
    try:
        yield names
    finally:
        engine.launch = launch


def _works(row: Row, devices: list[DeviceHandle]) -> tuple[dict[str, Work], dict[str, list[str]]]:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in row.shapes]
    works: dict[str, Work] = {}
    kernels: dict[str, list[str]] = {}
    for handle in devices:
        name = "Intel" if "Intel" in handle.platform_name else handle.platform_name.split()[0]
        with device(handle):
            works[name] = _netcl(row, handle, arrays)
            with _noted(handle) as kernels[name]:
                works[name]()
    if row.numpy is not None:
        works["NumPy"] = row.numpy(*arrays)
    if torch is not None:
        works["PyTorch"] = row.torch(*(torch.from_numpy(array) for array in arrays))
    return works, kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="intel,pocl", help="selectors, separated by commas")
    parser.add_argument("--only", default="", help="families or parts of rows' names, separated by commas")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row and contestant")
    parser.add_argument("--peak", type=float, default=232.0, help="GFLOP/s of the machine")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    wanted = options.only.split(",")
    collected = []
    print(f"{'':<52}{'':<9}{'ms':>9}{'middle half':>19}{'GFLOP/s':>9}{'of peak':>8}{'to peer':>8}  kernels")
    for row in rows():
        if not any(word == row.family or word in row.name for word in wanted):
            continue
        works, kernels = _works(row, handles(options.devices))
        times = measured(works, options.seconds * len(works))
        best = min((statistics.median(times[peer]) for peer in ("NumPy", "PyTorch") if peer in times), default=None)
        for name, values in times.items():
            one = timing(row.name, name, values)
            rate = row.flops / one.median / 1e6
            line = f"{row.name:<52}{name:<9}{one.median:>9.3f}{f'{one.low:.3f} to {one.high:.3f}':>19}"
            line += f"{rate:>9.1f}{rate / options.peak:>8.2f}" if row.flops else " " * 17
            line += f"{best / one.median:>8.2f}" if best is not None else " " * 8
            print(f"{line}  {' '.join(kernels.get(name, ()))}", flush=True)
            collected.append(one)
    save(options.json, collected)


if __name__ == "__main__":
    main()
