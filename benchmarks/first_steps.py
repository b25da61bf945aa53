"""Times first training steps in empty caches: with child processes that build programs, without them, and once more.

``python benchmarks/first_steps.py [--devices intel,pocl] [--only cnn,gpt] [--processes 0,1] [--turns 3] [--json
FILE]``. Each first step is made by a process of its own, with caches of its own, by turns (at least two) for each
number of NETCL_BUILD_PROCESSES; ``warm`` is the first step of another process on the caches of the last. A step is
forward, backward and optimizer, of two samples, until the loss is read. NVIDIA's driver keeps programs in ``~/.nv``:
the processes have a home folder of their own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from measure import handles, save, timing
from models import JOBS, batch, loss, model, optimizer

import netcl
from netcl.core import DeviceHandle, Tensor

_TIMEOUT_S = 300


def first_step(name: str) -> float:
    """The seconds of the first step of a job on the default device, in this process."""
    network = model(name, netcl)
    inputs, wanted = batch(name, 2)
    given = [Tensor.from_host(array) for array in (*inputs, wanted)]
    updates = optimizer(name, netcl.optim, list(network.parameters()))
    began = perf_counter()
    updates.zero_grad()
    found = loss(name, netcl, network(*given[:-1]), given[-1])
    found.backward()
    updates.step()
    found.item()
    return perf_counter() - began


def in_a_process(name: str, handle: DeviceHandle, processes: str, folder: Path) -> float:
    """The seconds of the first step of a process that finds its caches in ``folder``."""
    environment = {**os.environ, "NETCL_DEVICE": handle.selector, "NETCL_BUILD_PROCESSES": processes, "NETCL_SEED": "0"}
    environment |= dict.fromkeys(("HOME", "NETCL_CACHE_DIR", "POCL_CACHE_DIR"), str(folder))
    command = [sys.executable, __file__, "--first-step", name]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT_S, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices")
    parser.add_argument("--only", default="mlp,cnn,gpt,unet")
    parser.add_argument("--processes", default=f"0,{max(1, (os.cpu_count() or 2) - 1)}")
    parser.add_argument("--turns", type=int, default=3, choices=range(2, 100), metavar="N")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--first-step", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_step:
        print(first_step(options.first_step))
        return
    found = []
    for name in options.only.split(","):
        for handle in handles(options.devices):
            if handle.backend == "cpu":  # NumPy builds nothing
                continue
            seconds: dict[str, list[float]] = {}
            for _ in range(options.turns):
                for processes in options.processes.split(","):
                    with tempfile.TemporaryDirectory() as folder:
                        for how in (f"{processes} processes", "warm"):
                            taken = in_a_process(name, handle, processes, Path(folder))
                            seconds.setdefault(how, []).append(taken)
            for how, values in seconds.items():
                found.append(timing(name, f"{handle.device_name}, {how}", values, "s"))
                print(
                    f"{name:10} {handle.selector:12} {how:12} " + " ".join(f"{value:6.2f}" for value in values),
                    flush=True,
                )
    save(options.json, found)


if __name__ == "__main__":
    main()
