"""The examples run and print a result that is within its bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.machinery import PathFinder
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

# Programs of examples/jobs with --quick on NumPy: pattern of the last line, first number the result and second a
# baseline's, and the bounds of their quotient, which is below 1 for an error.
JOBS = {
    "unet": (r"overlap (\S+), brightness alone (\S+), \S+ s", (1.5, 2.9)),
    "ddpm": (r"written as asked (\S+) %, at random (\S+) %, \S+ s", (1.4, 2)),
    "forecast_lstm": (r"error (\S+) MW, of the day before (\S+) MW, \S+ s", (0.4, 0.9)),
    "dqn": (r"mean length (\S+), with random pushes (\S+), \S+ s", (2, 25)),
    "graph_network": (r"told right (\S+) %, by words alone (\S+) %, \S+ s", (2.5, 5)),
    "fine_tune": (r"fine-tuned (\S+) %, from random weights (\S+) %, \S+ s", (1.15, 4)),
}

# Programs of examples/pytorch: options that make three steps of them small, pattern and bounds of the last line.
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
    if package and PathFinder.find_spec(package) is None:  # a test may have netcl.torch loaded as torch
        pytest.skip(f"{package} is not installed")
    printed = run(root, name, "--device", "cpu", *arguments.split())
    found = re.fullmatch(pattern, printed.splitlines()[-1])
    assert found is not None, printed
    assert low <= float(found[1]) <= high, printed


@pytest.mark.parametrize("name", JOBS)
def test_jobs_learn_more_than_their_baseline(name: str, root: Path) -> None:
    pattern, (low, high) = JOBS[name]
    printed = run(root, f"jobs/{name}", "--device", "cpu", "--quick")
    found = re.fullmatch(pattern, printed.splitlines()[-1])
    assert found is not None, printed
    assert low <= float(found[1]) / float(found[2]) <= high, printed


def test_two_devices_compute_what_one_does(root: Path) -> None:
    printed = run(root, "jobs/two_devices", "--device", "cpu", "--quick")
    pattern = r"two devices (\S+) %, one device (\S+) %, losses differ by (\S+), \S+ s"
    found = re.fullmatch(pattern, printed.splitlines()[-1])
    assert found is not None, printed
    assert float(found[1]) > 60  # guessing is right in 10 %
    assert abs(float(found[1]) - float(found[2])) < 1
    assert float(found[3]) < 1e-3


def test_a_picture_of_a_job_is_drawn(root: Path, tmp_path: Path) -> None:
    if PathFinder.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    run(root, "jobs/graph_network", "--device", "cpu", "--quick", "--steps", "1", "--picture", str(tmp_path / "it.png"))
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_pytorch_run(name: str, root: Path, tmp_path: Path) -> None:
    options, pattern, (low, high) = PROGRAMS[name]
    program, log = root / f"examples/pytorch/{name}.py", tmp_path / "losses.txt"
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


@pytest.mark.timeout(300)
def test_a_program_for_torchrun_has_the_losses_of_one_process(root: Path, tmp_path: Path) -> None:
    launcher = ("-m", "netcl.distributed.run")
    program = str(root / "examples/pytorch/ddp.py")
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NETCL_DEVICE": "cpu"}
    losses = {}
    for name, command in {
        "alone": ("-m", "netcl.torch"),
        "one": (*launcher, "-n", "1", "-m", "netcl.torch"),
        "two": (*launcher, "-n", "2", "-m", "netcl.torch"),
        "three": (*launcher, "--standalone", "--nproc_per_node=3", "-m", "netcl.torch"),
    }.items():
        options = ("--steps", "60", "--samples", "768", "--losses", str(tmp_path / name))
        line = [sys.executable, "-W", "error", *command, program, *options]
        done = subprocess.run(line, capture_output=True, text=True, timeout=110, env=env)
        assert done.returncode == 0, done.stderr
        found = re.fullmatch(r"step 50: loss \S+\naccuracy (\S+) %\n", done.stdout)
        assert found is not None, done.stdout
        assert float(found[1]) > 60  # guessing is right in 33 %
        losses[name] = np.loadtxt(tmp_path / name)
    assert losses["one"].tolist() == losses["alone"].tolist()
    for name in ("two", "three"):
        np.testing.assert_allclose(losses[name], losses["alone"], rtol=1e-3)
        assert losses[name].tolist() != losses["alone"].tolist()


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
    jobs = {path.stem for path in (root / "examples/jobs").glob("*.py")}
    assert jobs == {*JOBS, "two_devices"}
    assert all(f"(jobs/{name}.py)" in page for name in jobs)
    programs = {path.stem for path in (root / "examples/pytorch").glob("*.py")}
    assert programs == {*PROGRAMS, "ddp"}
    assert all(f"(pytorch/{name}.py)" in page for name in programs)
