"""Times single ops in half types against float32, forward and backward in captured steps, by turns, on CPUs.

``python benchmarks/half_ops.py [--devices intel,pocl] [--only linear,conv,...] [--rounds 9] [--first]``. An op's input
is an activation: half already in a half type, as in the middle of a network; with ``--first`` it is float32 and has to
be cast. Weights are float32 parameters, which are cast, and their gradients are cast back; the gradient of the result
has its dtype. Ratios are float32's processor time over the half type's: medians of rounds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from measure import handles

import netcl.autograd as ag
from netcl.amp import autocast, supports_fp16
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.runtime.capture import capture

FAMILIES = ("linear", "conv", "depthwise", "attention", "batch_norm")


class Case(NamedTuple):
    name: str
    work: int  # multiply-adds of the forward pass; elements of batch norm
    function: Callable[..., Tensor]
    activations: tuple[tuple[int, ...], ...]
    parameters: tuple[tuple[int, ...], ...]


def _cases() -> Iterator[Case]:
    for m, k, n in (
        (64, 64, 10), (64, 64, 64), (64, 256, 128), (64, 784, 128), (256, 256, 256), (64, 784, 512), (256, 512, 512),
        (8, 4096, 1024), (1, 1024, 1024), (512, 512, 2048), (1024, 1024, 1024),
    ):  # fmt: skip
        yield Case(f"linear {m}x{k}x{n}", m * k * n, ag.linear, ((m, k),), ((n, k), (n,)))
    for n, c, size, f, taps, stride in (
        (64, 1, 8, 8, 3, 1), (64, 8, 4, 16, 3, 1), (16, 8, 16, 16, 3, 1), (64, 1, 28, 32, 3, 1), (32, 3, 32, 32, 3, 1),
        (64, 16, 14, 32, 3, 1), (32, 64, 16, 64, 3, 1), (8, 64, 56, 64, 3, 1), (8, 64, 56, 128, 3, 2),
        (8, 256, 14, 256, 3, 1), (8, 512, 7, 512, 3, 1), (8, 256, 14, 512, 1, 1), (8, 64, 56, 128, 1, 2),
    ):  # fmt: skip
        side = (size - 1) // stride + 1

        def convolved(x: Tensor, w: Tensor, s: int = stride, p: int = taps // 2) -> Tensor:
            return ag.conv2d(x, w, None, s, p)

        label = f"conv {n}x{c}x{size}^2 {f}x{taps}^2/{stride}"
        yield Case(label, n * f * side * side * c * taps**2, convolved, ((n, c, size, size),), ((f, c, taps, taps),))
    for n, c, size in ((16, 16, 8), (8, 32, 28), (8, 128, 28)):

        def depthwise(x: Tensor, w: Tensor, groups: int = c) -> Tensor:
            return ag.conv2d(x, w, None, 1, 1, 1, groups)

        work = n * c * size**2 * 9
        yield Case(f"depthwise {n}x{c}x{size}^2", work, depthwise, ((n, c, size, size),), ((c, 1, 3, 3),))
    for b, heads, length, width in ((2, 2, 16, 16), (4, 4, 64, 32), (8, 4, 128, 64), (1, 8, 512, 64)):
        shape = (b, heads, length, width)
        work = 2 * b * heads * length**2 * width
        yield Case(f"attention {b}x{heads}x{length}x{width}", work, ag.scaled_dot_product_attention, (shape,) * 3, ())
    for n, c, size in ((64, 8, 8), (16, 16, 16), (64, 32, 28), (8, 64, 56), (32, 64, 56)):

        def normed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            return ag.batch_norm2d(x, w, b)

        yield Case(f"batch_norm {n}x{c}x{size}^2", n * c * size**2, normed, ((n, c, size, size),), ((c,), (c,)))


def captured_op(case: Case, kind: str, first: bool) -> tuple[Any, tuple[Tensor, ...]]:
    """The captured forward and backward pass of a case, and what it is given."""
    rng = np.random.default_rng(0)

    def made(shape: tuple[int, ...], scale: float = 1.0) -> Tensor:
        return Tensor.from_host((rng.standard_normal(shape) * scale).astype(np.float32))

    half = kind != "float32"
    inputs = [made(shape) for shape in case.activations]
    if half and not first:
        inputs = [x.astype(kind) for x in inputs]
    weights = [made(shape, 1 / math.sqrt(math.prod(shape[1:]))).requires_grad_() for shape in case.parameters]
    with autocast(half, kind if half else "bfloat16"):
        shape = case.function(*inputs, *weights).shape
    grad = made(shape)
    if half:
        grad = grad.astype(kind)

    def step(grad: Tensor, *given: Tensor) -> Any:
        leaves = [x.detach().requires_grad_() for x in given]
        with autocast(half, kind if half else "bfloat16"):
            y = case.function(*leaves, *weights)
        return y, ag.grad(y, [*leaves, *weights], grad if y.dtype == grad.dtype else grad.astype(y.dtype))

    step(grad, *inputs)
    return capture(step, grad, *inputs), (grad, *inputs)


def row(handle: DeviceHandle, case: Case, rounds: int, first: bool) -> None:
    """Prints the line of a case."""
    kinds = ["float32", "bfloat16"]
    if supports_fp16(handle):
        kinds.append("float16")
    steps = {kind: captured_op(case, kind, first) for kind in kinds}
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    step, given = steps["float32"]
    begin = time.perf_counter()
    for _ in range(3):
        step.replay(*given)
    handle.queue.finish()
    repeats = max(1, min(100, int(0.01 / ((time.perf_counter() - begin) / 3))))
    for number in range(rounds + 2):
        first_of_round = number % len(kinds)  # no kind follows itself, with its data in the caches
        for kind in (*kinds[first_of_round:], *kinds[:first_of_round]):
            step, given = steps[kind]
            begin = time.process_time()
            for _ in range(repeats):
                step.replay(*given)
            handle.queue.finish()
            if number > 1:
                taken[kind].append((time.process_time() - begin) / repeats * 1e3)
    ratios = [statistics.median(a / b for a, b in zip(taken["float32"], taken[kind])) for kind in kinds[1:]]
    print(
        f"{case.name:30} {handle.platform_name[:8]:9} {case.work:12,} {statistics.median(taken['float32']):9.3f} ms  "
        + "  ".join(f"{kind} {ratio:.3f}" for kind, ratio in zip(kinds[1:], ratios)),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", default=",".join(FAMILIES), help="families, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--first", action="store_true", help="inputs are float32 and cast in the step")
    options = parser.parse_args()
    for case in _cases():
        if case.name.split()[0] in options.only.split(","):
            for handle in handles(options.devices):
                if handle.backend == "cl":
                    with device(handle):
                        row(handle, case, options.rounds, options.first)


if __name__ == "__main__":
    main()
