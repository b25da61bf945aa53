"""The programs of examples/pytorch learn under netcl.torch as under PyTorch: the losses of 50 steps from one seed.

PyTorch runs each program three times: in float32 with one and with two threads, and in float64. The largest difference
between these curves is PyTorch's own spread, taken for the first ten steps alone, as differences grow; the curve of
netcl may be three times as far from the one in float64, or ``FLOOR``. This file is also the program that runs a script
under PyTorch: ``python checks/parity/torch_programs.py DTYPE THREADS script.py [arguments]``.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]
PROGRAMS = Path(__file__).resolve().parents[2] / "examples/pytorch"
STEPS = 50
FIRST = 10
FLOOR = 1e-4  # relative; no smaller difference is required
# Arguments that leave the training as it is, and shorten what follows it.
SHORTER = {
    "cnn": ("--samples", "1250"),
    "vae": (),
    "dcgan": ("--samples", "1024"),
    "char_lstm": ("--write", "1"),
    "gpt": ("--test", "500"),
    "vit": ("--samples", "1000"),
    "unet": ("--samples", "256"),
    "gcn": (),
    "actor_critic": (),
    "ddpm": ("--samples", "512"),
    "siamese": (),
    "lbfgs": (),
}
KINDS = (("float32", 1), ("float32", 2), ("float64", 1))


def _curve(command: list[str], program: str, folder: Path, env: dict[str, str]) -> Array:
    """The losses (STEPS, losses of a step) that a program writes."""
    log = folder / "losses.txt"
    options = ["--steps", str(STEPS), "--device", "cpu", "--log", str(log), *SHORTER[program]]
    command = [sys.executable, "-W", "error", *command, str(PROGRAMS / f"{program}.py"), *options]
    # On a busy machine, threads that spin for each other take many times as long.
    env = {**os.environ, "OMP_WAIT_POLICY": "passive", **env}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return np.loadtxt(log, ndmin=2)


@cache
def _of_pytorch(program: str, folder: Path) -> list[Array]:
    """The curves of KINDS."""
    return [_curve([__file__, dtype, str(threads)], program, folder, {}) for dtype, threads in KINDS]


def _scale(curve: Array) -> Array:
    """The size of each loss: its absolute value, or a tenth of the median, for losses that pass zero."""
    return np.maximum(np.abs(curve), 0.1 * np.median(np.abs(curve), axis=0))


def _spread(curves: list[Array]) -> Array:
    """The largest relative difference of the curves (STEPS, 1): of the first steps in these, of all in the others."""
    stacked = np.stack(curves)
    differences = (stacked.max(axis=0) - stacked.min(axis=0)) / _scale(curves[-1])
    return np.where(np.arange(STEPS) < FIRST, differences[:FIRST].max(), differences.max())[:, None]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["cpu", "pocl"])
@pytest.mark.parametrize("program", SHORTER)
def test_curves(program: str, engine: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    theirs = _of_pytorch(program, tmp_path_factory.getbasetemp())
    found = _curve(["-m", "netcl.torch"], program, tmp_path, {"NETCL_DEVICE": engine})
    exact = theirs[-1]
    assert found.shape == exact.shape
    difference = np.abs(found - exact) / _scale(exact)
    spread = _spread(theirs)
    print(f"{program} on {engine}: difference {difference.max():.1e}, spread {spread.max():.1e}")
    allowed = np.maximum(3 * spread, FLOOR)
    assert np.all(difference <= allowed), f"{difference.max(axis=1)}\nallowed {allowed[:, 0]}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", SHORTER)
def test_the_losses_fall_or_the_game_goes_on(program: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Guards the comparison: curves that do not change would agree too."""
    exact = _of_pytorch(program, tmp_path_factory.getbasetemp())[-1]
    assert np.isfinite(exact).all()
    assert np.ptp(exact[:, 0]) > 0.1 * np.median(np.abs(exact[:, 0]))
    assert _spread(_of_pytorch(program, tmp_path_factory.getbasetemp()))[0] < 0.03


def test_every_program_is_compared() -> None:
    # ddp.py needs a launcher, by which tests/test_examples.py runs it.
    assert {path.stem for path in PROGRAMS.glob("*.py")} - {"ddp"} == set(SHORTER)


def _run_under_pytorch(dtype: str, threads: int, script: str) -> None:
    """Runs a script in a default dtype; random numbers are those of float32 in float64 too."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    in_place = {aten.uniform_, aten.normal_}
    factories = {aten.rand, aten.randn}
    of_probabilities = {aten.bernoulli, aten.multinomial}

    class DrawnInFloat32(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs, packet = kwargs or {}, func.overloadpacket
            if packet in in_place and args[0].dtype == torch.float64:
                drawn = func(torch.empty(args[0].shape, dtype=torch.float32), *args[1:], **kwargs)
                return args[0].copy_(drawn)
            if packet in factories and kwargs.get("dtype") in (None, torch.float64):
                return func(*args, **{**kwargs, "dtype": torch.float32}).double()
            if packet in of_probabilities:
                drawn = func(args[0].float(), *args[1:], **kwargs)
                return drawn.to(args[0].dtype) if packet is aten.bernoulli else drawn
            return func(*args, **kwargs)

    torch.set_num_threads(threads)
    torch.set_default_dtype(getattr(torch, dtype))
    with DrawnInFloat32() if dtype == "float64" else nullcontext():
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    _dtype, _threads, *sys.argv = sys.argv[1:]
    sys.path[0] = str(PROGRAMS)
    _run_under_pytorch(_dtype, int(_threads), sys.argv[0])
