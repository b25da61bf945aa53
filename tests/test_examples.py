"""The examples run and print a result that is within its bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

# name: arguments, pattern of the last line, bounds of its number, optional package
QUICK = {
    "digits_cnn": ("--epochs 2", r"accuracy (\S+) %", (95, 100), ""),
    "gpt_text": ("--steps 30 --length 16 --width 16 --layers 1 --write 20", r"held out loss (\S+)", (2, 4.3), ""),
    "diabetes": ("--epochs 20", r"R2 (\S+)", (0.25, 0.6), "sklearn"),
    "port_pytorch": ("", r"largest difference (\S+)", (0, 1e-5), "torch"),
    "custom_layer": ("--epochs 4", r"accuracy (\S+) %", (90, 100), ""),
}

# Programs of examples/torch: options that make three steps of them small, pattern and bounds of the last line.
PROGRAMS = {
    "cnn": ("--samples 40 --batch-size 8", r"accuracy (\S+) %", (0, 100)),
    "vae": ("--samples 40 --batch-size 8", r"loss (\S+)", (300, 450)),
    "dcgan": ("--samples 40 --batch-size 8 --ngf 4 --ndf 4", r"loss_D (\S+) loss_G \S+", (0.2, 3)),
    "char_lstm": ("--length 8 --write 5", r"loss (\S+)", (2.8, 3.4)),
    "gpt": ("--batch-size 8 --test 20 --layers 1 --width 16", r"accuracy (\S+) %", (0, 5)),
    "vit": ("--samples 40 --batch-size 8 --layers 1", r"accuracy (\S+) %", (0, 100)),
    "unet": ("--samples 32 --batch-size 4 --width 4", r"overlap (\S+)", (0, 1)),
    "gcn": ("--nodes 400", r"accuracy (\S+) %", (25, 90)),
    "actor_critic": ("--longest 10", r"mean length (\S+)", (8, 10)),
    "ddpm": ("--samples 16 --batch-size 4 --width 16 --noise-steps 4", r"loss (\S+)", (0.5, 1.5)),
    "siamese": ("--batch-size 4", r"accuracy (\S+) %", (0, 60)),
    "lbfgs": ("--samples 64 --features 40", r"error (\S+)", (0.05, 1.5)),
}


def run(root: Path, name: str, *arguments: str, timeout: int = 110) -> str:
    command = [sys.executable, "-W", "error", str(root / f"examples/{name}.py"), *arguments]
    # On a busy machine, BLAS threads that spin for each other take ten times as long as one alone.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", QUICK)
def test_quick_runs(name: str, root: Path) -> None:
    arguments, pattern, (low, high), package = QUICK[name]
    if package and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    printed = run(root, name, "--device", "cpu", *arguments.split())
    found = re.fullmatch(pattern, printed.splitlines()[-1])
    assert found is not None, printed
    assert low <= float(found[1]) <= high, printed


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_pytorch_run(name: str, root: Path, tmp_path: Path) -> None:
    options, pattern, (low, high) = PROGRAMS[name]
    program, log = root / f"examples/torch/{name}.py", tmp_path / "losses.txt"
    command = [sys.executable, "-W", "error", "-m", "netcl.torch", str(program), "--steps", "3", "--log", str(log)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NETCL_DEVICE": "cpu"}
    done = subprocess.run([*command, *options.split()], capture_output=True, text=True, timeout=110, env=env)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(pattern, done.stdout.splitlines()[-1])
    assert found is not None, done.stdout
    assert low <= float(found[1]) <= high, done.stdout
    losses = np.loadtxt(log, ndmin=2)
    assert len(losses) == 3
    assert np.isfinite(losses).all()


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_resnet_on_images_of_its_own_and_on_binaries(root: Path, tmp_path: Path) -> None:
    options = ("--epochs", "1", "--samples", "8", "--batch-size", "4")
    printed = run(root, "cifar10_resnet18", *options, timeout=280)
    assert printed.startswith("no --data folder")
    assert re.search(r"accuracy \d+\.\d\d %\n$", printed)
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        records = rng.integers(0, 256, (4, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(tmp_path / name)
    printed = run(root, "cifar10_resnet18", *options, "--data", str(tmp_path), timeout=280)
    assert "synthetic" not in printed
    assert re.search(r"accuracy \d+\.\d\d %\n$", printed)


def test_every_example_is_run_somewhere(root: Path) -> None:
    names = {path.stem for path in (root / "examples").glob("*.py")}
    assert names == {*QUICK, "cifar10_resnet18", "quickstart"}
    page = (root / "examples/README.md").read_text(encoding="utf-8")
    assert all(f"({name}.py)" in page for name in names)
    programs = {path.stem for path in (root / "examples/torch").glob("*.py")}
    assert programs == set(PROGRAMS)
    assert all(f"(torch/{name}.py)" in page for name in programs)
