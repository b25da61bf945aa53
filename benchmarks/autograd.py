"""The host cost of autograd and captured steps: launches, microseconds, and the memory of a ResNet-18 step.

``python benchmarks/autograd.py [--devices intel,pocl] [--only launches,replay,ops,chain,memory] [--rounds 9]``. Medians
with the least and the most in brackets. Memory is the growth of the peak of resident memory over two steps (CIFAR stem,
batch 32, SGD with momentum) from before the first one, each in a fresh process, compared with PyTorch's.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import handles

import netcl.autograd as ag
from netcl import nn, ops, optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.data.readers import example_digits
from netcl.nn.resnet import resnet18
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


def resnet(selector: str, checkpointed: bool) -> float:
    """The growth of this process's peak memory over two steps, in MiB; ``torch`` for PyTorch's."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, 3, 32, 32)).astype(np.float32)
    y = rng.integers(0, 10, BATCH)
    if selector == "torch":
        import torch
        from models import resnet18 as plain_resnet18

        theirs = plain_resnet18(torch)
        sgd = torch.optim.SGD(theirs.parameters(), lr=0.01, momentum=0.9)
        inputs, labels = torch.tensor(x), torch.tensor(y)

        def torch_step() -> None:
            sgd.zero_grad()
            torch.nn.functional.cross_entropy(theirs(inputs), labels).backward()
            sgd.step()

        return _grown(torch_step)
    with device(selector):
        model = resnet18(10, stem="cifar")
        optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        images, classes = Tensor.from_host(x), Tensor.from_host(y)
        if checkpointed:
            for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
                for block in stage:
                    object.__setattr__(block, "forward", _checkpointed(block.forward))

        def step() -> None:
            optimizer.zero_grad()
            ag.cross_entropy(model(images), classes).backward()
            optimizer.step()
            images.queue.finish()

        return _grown(step)


def _checkpointed(forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ag.checkpoint(forward, x)


def memory(handle: DeviceHandle, rounds: int) -> str:
    """Growth of peak memory over ResNet-18 steps, plain and with checkpointed blocks, against PyTorch's."""
    grown = []
    for selector, kind in (("torch", "plain"), (handle.selector, "plain"), (handle.selector, "checkpointed")):
        command = [sys.executable, __file__, "--resnet", selector, kind]
        grown.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    theirs, plain, saved = grown
    return (
        f"{plain:.0f} MiB, {plain / theirs:.2f} of PyTorch's {theirs:.0f}; checkpointed {saved:.0f}, "
        f"{saved / theirs:.2f}"
    )


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
    parser.add_argument("--resnet", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.resnet:
        print(resnet(options.resnet[0], options.resnet[1] == "checkpointed"))
        return
    for name in options.only.split(",") if options.only else ROWS:
        for handle in handles(options.devices):
            if handle.backend == "cl":
                with device(handle):
                    print(f"{name:9} {handle.platform_name[:27]:28} {ROWS[name](handle, options.rounds)}", flush=True)


if __name__ == "__main__":
    main()
