"""The host cost of autograd and captured steps: launches, microseconds, and the memory of steps of ResNet-18 and GPT.

``python benchmarks/autograd.py [--devices intel,pocl] [--only launches,replay,ops,chain,memory] [--rounds 9]``. Medians
with the least and the most in brackets. Memory is the growth of the peak of resident memory over two steps of networks
of models.py from before the first one, each in a fresh process, compared with PyTorch's, plain and checkpointed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import models
import numpy as np
from measure import handles

import netcl.autograd as ag
from netcl import nn, ops, optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.data.readers import example_digits
from netcl.runtime.capture import capture

BATCH, CHAIN, REPLAYED = 32, 10_000, 100


def spread(times: list[float], unit: str) -> str:
    """Median, least and most."""
    return f"{statistics.median(times):8.2f} [{min(times):.2f} {max(times):.2f}] {unit}"


def timed(work: Callable[[], object], rounds: int, finish: Callable[[], object]) -> list[float]:
    """Seconds of each call after two to warm up; the queue is drained outside of what is timed."""
    times = []
    for number in range(rounds + 2):
        start = time.perf_counter()
        work()
        if number > 1:
            times.append(time.perf_counter() - start)
        finish()
    return times


def digits_step() -> tuple[Callable[..., Tensor], tuple[Tensor, Tensor]]:
    """The training step of a small convolutional network with all that changes per step, and a batch."""
    x, y = example_digits()
    first = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*first, *second, nn.Flatten(), nn.Dropout(0.25), nn.Linear(64, 10))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = ag.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, (Tensor.from_host(x[:BATCH]), Tensor.from_host(y[:BATCH]))


def launches(handle: DeviceHandle, rounds: int) -> str:
    """Launches of the digits step, and its time, eager and captured."""
    step, batch = digits_step()
    for _ in range(2):
        step(*batch)
    log = launch_log(handle.queue)
    handle.queue.finish()
    log.clear()
    step(*batch)
    eager = len(log)
    captured = capture(step, *batch)
    assert all(getattr(launch, "args", ()) for launch in captured._recording._launches), "a replay runs Python"
    milliseconds = []
    for work in (lambda: step(*batch), lambda: captured.replay(*batch)):
        times = timed(lambda work=work: (work(), handle.queue.finish()), rounds, lambda: None)
        milliseconds.append(spread([t * 1e3 for t in times], "ms"))
    return f"{eager} eager, {len(captured)} captured: {len(captured) / eager:.2f}; {milliseconds[0]}, {milliseconds[1]}"


def replay(handle: DeviceHandle, rounds: int) -> str:
    """Host time of a replayed launch of a kernel of 16 elements."""
    x = Tensor.from_host(np.ones(16, np.float32))
    engine: Any = x.engine
    recording = engine.recording = engine.new_recording()
    try:
        kept = [ops.neg(x) for _ in range(REPLAYED)]
    finally:
        engine.recording = None
    times = timed(recording.replay, 10 * rounds, handle.queue.finish)
    return spread([t * 1e6 / len(kept) for t in times], "us")


def differentiable(handle: DeviceHandle, rounds: int) -> str:
    """Host time of an op on 16 elements, forward and backward."""
    x = Tensor.from_host(np.ones(16, np.float32), requires_grad=True)
    ones = Tensor.from_host(np.ones(16, np.float32))

    def work() -> None:
        y = x
        for _ in range(50):
            y = ag.tanh(y)
        y.backward(ones)
        x.grad = None

    return spread([t * 1e6 / 50 for t in timed(work, 3 * rounds, handle.queue.finish)], "us per op")


def chain(handle: DeviceHandle, rounds: int) -> str:
    """Host time of the backward pass of a long chain of tiny ops, against its forward pass."""
    x = Tensor.from_host(np.ones(16, np.float32), requires_grad=True)
    ones = Tensor.from_host(np.ones(16, np.float32))
    ratios = []
    for _ in range(max(3, rounds // 3)):
        start = time.perf_counter()
        y = x
        for _ in range(CHAIN):
            y = ag.tanh(y)
        middle = time.perf_counter()
        y.backward(ones)
        ratios.append((time.perf_counter() - middle) / (middle - start))
        x.grad = None
        handle.queue.finish()
    return spread(ratios, "times the forward pass")


def _resident(field: str) -> float:
    """A field of the process's status in MiB: VmRSS, or its peak VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def _grown(step: Callable[[], object]) -> float:
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is reset
    for _ in range(2):
        step()
    return _resident("VmHWM") - before


def grown_by(name: str, selector: str, checkpointed: bool) -> float:
    """The growth of this process's peak memory over two steps of a network, in MiB; ``torch`` for PyTorch's."""
    library: Any = import_module("torch" if selector == "torch" else "netcl")
    with nullcontext() if selector == "torch" else device(selector):
        network = models.model(name, library)
        inputs, wanted = models.batch(name)
        make = library.from_numpy if selector == "torch" else Tensor.from_host
        x, y = tuple(map(make, inputs)), make(wanted)
        updates = models.optimizer(name, library.optim, list(network.parameters()))
        if checkpointed:
            for block in network.modules():
                if type(block).__name__ == "Block":
                    object.__setattr__(block, "forward", _checkpointed(selector, block.forward))

        if selector != "torch":
            x[0].queue.finish()  # weights may still be on their way

        def step() -> None:
            updates.zero_grad()
            models.loss(name, library, network(*x), y).backward()
            updates.step()
            if selector != "torch":
                x[0].queue.finish()

        return _grown(step)


def _checkpointed(selector: str, forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if selector != "torch":
        return lambda x: ag.checkpoint(forward, x)
    from torch.utils.checkpoint import checkpoint

    return lambda x: checkpoint(forward, x, use_reentrant=False)


def memory(handle: DeviceHandle, rounds: int) -> str:
    """Growth of peak memory over steps of ResNet-18 and GPT, plain and with checkpointed blocks, against PyTorch's."""
    parts = []
    for name in ("resnet18", "gpt"):
        grown = []
        for selector, kind in (("torch", "plain"), (handle.selector, "plain"), (handle.selector, "checkpointed")):
            command = [sys.executable, __file__, "--grown", name, selector, kind]
            grown.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        theirs, plain, saved = grown
        parts.append(
            f"{name} {plain:.0f} MiB, {plain / theirs:.2f} of PyTorch's {theirs:.0f}; checkpointed {saved:.0f}, "
            f"{saved / theirs:.2f}"
        )
    return "; ".join(parts)


ROWS: dict[str, Callable[[DeviceHandle, int], str]] = {
    "launches": launches,
    "replay": replay,
    "ops": differentiable,
    "chain": chain,
    "memory": memory,
}


def main() -> None:
    """Prints a line for each row and device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", help="rows, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--grown", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grown:
        print(grown_by(options.grown[0], options.grown[1], options.grown[2] == "checkpointed"))
        return
    for name in options.only.split(",") if options.only else ROWS:
        for handle in handles(options.devices):
            if handle.backend == "cl":
                with device(handle):
                    print(f"{name:9} {handle.platform_name[:27]:28} {ROWS[name](handle, options.rounds)}", flush=True)


if __name__ == "__main__":
    main()
