"""Times chains of 8 elementwise ops, forward and backward, jitted, eager and in PyTorch, and the host cost of a call.

``python benchmarks/jit.py [--devices pocl,intel] [--elements 16777216] [--rounds 7]``. A round runs each contestant
once, so that what else the machine does meets them alike; medians, with the least and the most in brackets. A chain
must move five arrays: it reads x and writes the result, then reads x and grad and writes the gradient.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bursts import Work
from measure import handles, torch

import netcl.autograd as ag
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device

SMALL_RUNS = 200


def chains(library: Any) -> dict[str, Callable[[Any], Any]]:
    """Eight ops each: of arithmetic alone, and with two elementary functions."""

    def arithmetic(x: Any) -> Any:
        y = library.relu(x * 2.0 + 1.0) * x
        y = library.abs(y - 0.5)
        return y * y / 3.0

    def functions(x: Any) -> Any:
        y = library.tanh(x * 2.0 + 1.0) * x
        return library.sigmoid(library.relu(y) - 0.5) * 3.0

    return {"arithmetic": arithmetic, "functions": functions}


def netcl_step(handle: DeviceHandle, fn: Callable[[Any], Any], values: np.ndarray[Any, Any], times: int) -> Work:
    """`times` calls of `fn` with their backward passes, waited for together."""
    x = Tensor.from_host(handle.queue, values, requires_grad=True)
    start = Tensor.from_host(handle.queue, np.ones_like(values))

    def step() -> None:
        for _ in range(times):
            fn(x).backward(start)
            x.grad = None
        handle.queue.finish()

    return step


def torch_step(fn: Callable[[Any], Any], values: np.ndarray[Any, Any], times: int) -> Work:
    """The same in PyTorch."""
    x, start = torch.tensor(values, requires_grad=True), torch.ones(values.size)

    def step() -> None:
        for _ in range(times):
            fn(x).backward(start)
            x.grad = None

    return step


def measure(contestants: dict[str, Work], rounds: int, scale: float) -> dict[str, str]:
    """Median, least and most of each, in milliseconds (or what `scale` makes of seconds)."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 2):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            if number > 1:  # two to warm up
                times[name].append((time.perf_counter() - start) * scale)
    return {n: f"{statistics.median(t):8.1f} [{min(t):.1f} {max(t):.1f}]" for n, t in times.items()}


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    chosen = [handle for handle in handles(options.devices) if handle.backend == "cl"]
    large = np.random.default_rng(0).standard_normal(options.elements).astype(np.float32)
    for name, plain in chains(ag).items():
        print(f"\n{name}: milliseconds for {options.elements} elements; microseconds for 16")
        for values, times in ((large, 1), (large[:16], SMALL_RUNS)):
            contestants: dict[str, Work] = {}
            for handle in chosen:
                with device(handle):
                    contestants[f"{handle.platform_name} eager"] = netcl_step(handle, plain, values, times)
                    jitted = ag.jit_compile(plain)
                    contestants[f"{handle.platform_name} jitted"] = netcl_step(handle, jitted, values, times)
            if torch is not None:
                contestants["PyTorch eager"] = torch_step(chains(torch)[name], values, times)
            scale = 1e3 if times == 1 else 1e6 / times
            for each, text in measure(contestants, options.rounds, scale).items():
                print(f"  {each:45} {text}")


if __name__ == "__main__":
    main()
