"""Optimizer steps over ResNet-18's 62 tensors: launches, and time against copying the bytes that they read and write.

``python benchmarks/optim.py [--devices intel,pocl] [--only SGD,AdamW,clip] [--rounds 15]``. A round takes the step and
a copy of half of its bytes into other memory (which reads and writes as many as the step) in turn, the queue drained;
medians with the least and the most in brackets, and the ratio of the medians, for which 1.3 is asked.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from measure import handles

from netcl import optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.core.expr import Load
from netcl.core.ops_table.dispatch import evaluate
from netcl.nn.resnet import resnet18

# Reads and writes of four bytes for each element of a parameter.
TOUCHED = {"SGD": 5, "AdamW": 7, "Lion": 5, "clip": 3}


def jobs(params: list[Tensor]) -> dict[str, Callable[[], object]]:
    """The steps by name; clipping is the reduction and the pass that scales."""
    return {
        "SGD": optim.SGD(params, lr=0.0, momentum=0.9).step,
        "AdamW": optim.AdamW(params, lr=0.0).step,
        "Lion": optim.Lion(params, lr=0.0).step,
        "clip": lambda: optim.clip_grad_norm_device(params, 1e9),
    }


def measure(handle: DeviceHandle, wanted: list[str], rounds: int) -> None:
    """Prints a line for each step on a device."""
    params = list(resnet18(10, stem="cifar").parameters())
    for p in params:
        p.grad = Tensor.from_host(np.full(p.shape, 1e-3, np.float32))
    elements = sum(p.size for p in params)
    work = jobs(params)
    for name in wanted:
        source = Tensor.zeros(TOUCHED[name] * elements // 2)
        target = Tensor.zeros(source.shape)
        times: tuple[list[float], list[float]] = ([], [])
        runs = (work[name], lambda a=source, b=target: evaluate((Load(0, "float32"),), (a,), out=(b,)))
        launches = 0
        for turn in range(rounds + 2):
            for run, into in zip(runs, times):
                log = launch_log(handle.queue)
                log.clear()
                start = time.perf_counter()
                run()
                launches = len(log) if run is work[name] else launches
                handle.queue.finish()
                if turn > 1:
                    into.append(1e3 * (time.perf_counter() - start))
        step, copy = (f"{statistics.median(t):6.2f} [{min(t):.2f} {max(t):.2f}] ms" for t in times)
        ratio = statistics.median(times[0]) / statistics.median(times[1])
        print(
            f"{handle.platform_name[:27]:28} {name:6} {launches:3} launches {step}, copy {copy}: {ratio:.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", default=",".join(TOUCHED), help="steps, separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for handle in handles(options.devices):
        if handle.backend == "cl":
            with device(handle):
                measure(handle, options.only.split(","), options.rounds)


if __name__ == "__main__":
    main()
