"""Cold starts: short trainings in a fresh process with empty caches have the bits of the same with full ones.

``training.cold.pocl``, ``.intel`` and ``.gpu``; programs are built as by default, in child processes. A run trains one
network of four in turn, and takes about ten seconds: ``python tests/attack --only training.cold.pocl --minutes 20``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from arithmetic.engines import engines
from registry import Run, attack

# Nothing is read before the last step, so that launches may wait for their programs.
SCRIPT = """
import hashlib, sys
import numpy as np
import netcl as nc
from netcl import nn, optim
from netcl.autograd.training_compiler import compile_training_step
from netcl.core.device import device
F = nn.functional

def networks():
    yield "mlp", nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)), (8, 20), optim.AdamW
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    yield "convolutions", nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(8 * 16, 5)), (4, 3, 8, 8), optim.SGD
    yield "recurrent", nn.ModuleList([nn.GRU(6, 16, batch_first=True), nn.Linear(16, 5)]), (4, 7, 6), optim.RMSprop
    yield "transformer", nn.gpt.GPT(40, 12, 2, 2, 16), (3, 12), optim.Adam

def trained(name, net, shape, rule, compiled):
    rng = np.random.default_rng(1)
    optimizer = rule(net.parameters(), lr=0.01)
    def step(x, y):
        optimizer.zero_grad()
        if name == "recurrent":
            out = net[1](net[0](x)[0][:, -1])
        else:
            out = net(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y)
        loss.backward()
        optimizer.step()
        return loss
    call, losses = compile_training_step(step) if compiled else step, []
    for _ in range(5):
        if name == "transformer":
            x = nc.tensor(rng.integers(0, 40, shape))
            y = nc.tensor(rng.integers(0, 40, shape[0] * shape[1]))
        else:
            x, y = nc.tensor(rng.standard_normal(shape).astype("float32")), nc.tensor(rng.integers(0, 5, shape[0]))
        losses.append(call(x, y))
    return [*losses, *net.parameters(), *net.buffers()]

with device(sys.argv[1]):
    for compiled in (False, True):
        nc.manual_seed(0)
        for name, net, shape, rule in networks():
            if name != sys.argv[2]:
                continue
            digest = hashlib.sha256()
            kept = [tensor.detach().numpy() for tensor in trained(name, net, shape, rule, compiled)]
            for values in kept:
                digest.update(np.ascontiguousarray(values).tobytes())
            print(name, "captured" if compiled else "eager", float(kept[4]), digest.hexdigest(), flush=True)
"""
NETWORKS = ("mlp", "convolutions", "recurrent", "transformer")


def _trained(driver: str, network: str, folder: Path) -> str:
    """Returns the output of a run with its caches in ``folder``, and the tail of its errors if it failed."""
    environment = {**os.environ, "NETCL_CACHE_DIR": str(folder / "netcl"), "POCL_CACHE_DIR": str(folder / "pocl")}
    environment.pop("NETCL_BUILD_PROCESSES", None)
    command = [sys.executable, "-c", SCRIPT, driver, network]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return "did not end within 600 s"
    return done.stdout if done.returncode == 0 else f"{done.stdout}exit code {done.returncode}: {done.stderr[-600:]}"


def cold(run: Run, driver: str) -> None:
    """Compares runs with empty caches with runs on the caches that the first of each network filled."""
    warm: dict[str, str] = {}
    longest = 0.0
    for _ in run.cases():
        if time.monotonic() + longest > run.deadline and run.case > 0:
            break  # the next one would end long after it
        started = time.monotonic()
        network = NETWORKS[run.case % len(NETWORKS)]
        folder = run.folder / f"caches-{run.case}"
        folder.mkdir()
        cold_output = _trained(driver, network, folder)
        if network not in warm:
            warm[network] = _trained(driver, network, folder)
            run.count("warm runs")
        longest = max(longest, time.monotonic() - started)
        shutil.rmtree(folder, ignore_errors=True)
        run.count("cold runs")
        if cold_output != warm[network]:
            pairs = zip(cold_output.splitlines(), warm[network].splitlines())
            last = (cold_output[-600:], warm[network][-600:])
            first = next((pair for pair in pairs if pair[0] != pair[1]), last)
            run.fail(f"a cold run differs on {driver}", reproducer="cold {}\n    warm {}".format(*first))


def _needs(driver: str) -> Callable[[], str]:
    return lambda: "" if driver in engines() else f"the OpenCL driver {driver}"


@attack("training.cold.pocl", weight=1.0, least=60.0, needs=_needs("pocl"))
def on_pocl(run: Run) -> None:
    """Cold runs on PoCL."""
    cold(run, "pocl")


@attack("training.cold.intel", weight=1.0, least=60.0, needs=_needs("intel"))
def on_intel(run: Run) -> None:
    """Cold runs on Intel's runtime."""
    cold(run, "intel")


@attack("training.cold.gpu", weight=1.0, least=60.0, needs=_needs("gpu"))
def on_gpu(run: Run) -> None:
    """Cold runs on a GPU."""
    cold(run, "gpu")
