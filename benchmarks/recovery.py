"""Injects each fault of a long run into a short one; prints the messages, their times, and the lost steps."""

from __future__ import annotations

import argparse
import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from netcl import nn, ops
from netcl.core.device import device
from netcl.core.errors import DeviceLostError
from netcl.data import DataLoader, Dataset
from netcl.io import load_checkpoint
from netcl.optim import SGD
from netcl.trainer import Callback, ModelCheckpoint, TerminateOnNaN, Trainer

FAULTS = {
    "a worker is killed": "worker killed",
    "a worker raises": "worker raises",
    "a worker hangs (timeout=2)": "worker hangs",
    "no shared memory left": "memory",
    "disk full, on_save_error='raise'": "disk raise",
    "disk full, on_save_error='warn'": "disk warn",
    "NaN in a batch, no policy": "nan",
    "NaN in a batch, 'raise'": "nan raise",
    "NaN in a batch, 'skip'": "nan skip",
    "NaN in a batch, 'rollback'": "nan rollback",
    "SIGINT": "SIGINT 1",
    "SIGINT twice": "SIGINT 2",
    "SIGTERM": "SIGTERM 1",
    "SIGTERM twice": "SIGTERM 2",
    "SIGKILL": "SIGKILL 1",
    "the device is lost": "device",
}
BAD_SAMPLE, BAD_STEP = 70, 9  # sample 70 is in the ninth batch of eight


def now() -> None:
    """Notes when the fault came."""
    print("fault", time.time(), flush=True)


def no_space(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Samples(Dataset[Any]):
    """Noise, with a bad sample where the fault is one of the data."""

    def __init__(self, kind: str, how: str) -> None:
        self.kind, self.how = kind, how

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        x = np.random.normal(0, 1, (1, 8, 8)).astype(np.float32)
        if index == BAD_SAMPLE and self.kind == "worker":
            now()
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "raises":
                raise ValueError(f"sample {index} cannot be read")
            time.sleep(600)
        if index == BAD_SAMPLE and self.kind == "nan":
            x[0, 0, 0] = np.nan
        return x, index % 3


class Fault(Callback):
    """Says which steps are done, and does what the fault is after the ninth."""

    def __init__(self, kind: str, how: str) -> None:
        self.kind, self.how = kind, how

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        print("step", trainer.step, flush=True)
        if trainer.step == BAD_STEP - 1 and self.kind == "nan":
            now()
        if trainer.step != BAD_STEP or self.kind in ("worker", "memory", "nan"):
            return
        now()
        if self.kind == "disk":
            os.fsync = no_space
        elif self.kind == "device":
            self._unplug(next(trainer.model.parameters()).engine)
        else:
            for _ in range(int(self.how)):
                os.kill(os.getpid(), getattr(signal, self.kind))
                time.sleep(0.2)

    @staticmethod
    def _unplug(engine: Any) -> None:
        def gone(*_: Any, **__: Any) -> None:
            raise DeviceLostError("the device does not answer")

        for name in ("run", "write", "read", "matmul"):
            setattr(engine, name, gone)


def run(fault: str, folder: str, selector: str) -> None:
    """The short run: 24 steps, a checkpoint at every second."""
    kind, _, how = fault.partition(" ")
    with device(selector):
        ops.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
        saver = ModelCheckpoint(folder, "loss", every_n_steps=2, on_save_error=how if kind == "disk" else "raise")
        policy = [TerminateOnNaN(how)] if kind == "nan" and how else []
        trainer = Trainer(
            model,
            SGD(model.parameters(), lr=0.01),
            callbacks=[Fault(kind, how), *policy, saver],
            metrics_stride=2,
            compile=kind != "device",  # a captured step would not pass where the device is taken away
        )
        if kind == "memory":
            os.posix_fallocate = no_space
            now()
        workers = 2 if kind in ("worker", "memory") else 0
        with DataLoader(Samples(kind, how), 8, seed=0, num_workers=workers, timeout=2 * (how == "hangs")) as loader:
            history = trainer.fit(loader, epochs=2, log_every=0)
    print("done, last loss", history[-1]["loss"], flush=True)


def report(name: str, fault: str, folder: Path, selector: str) -> None:
    """Runs it in a process of its own and prints its row."""
    command = [sys.executable, __file__, "--run", fault, str(folder), selector]
    # Into files: the ends of a pipe that workers hold would keep us waiting after the run has ended.
    with open(folder / "out", "w+") as out_file, open(folder / "errors", "w+") as error_file:
        process = subprocess.Popen(command, stdout=out_file, stderr=error_file)
        process.wait(timeout=300)
        ended = time.time()
    out, errors = (Path(file.name).read_text(encoding="utf-8") for file in (out_file, error_file))
    began = float(re.findall(r"^fault ([\d.]+)$", out, re.M)[0])
    told = re.findall(r"^(?:.*?\b(\w*(?:Error|Warning): .*|KeyboardInterrupt)|netcl: (.*))$", errors, re.M)
    seen = next((first or second for first, second in reversed(told)), "")
    steps = [int(number) for number in re.findall(r"^step (\d+)$", out, re.M)]
    last = folder / "last.netcl"
    saved = int(load_checkpoint(last, rng=False)["step"]) if last.is_file() else 0
    done = out.splitlines()[-1] if out.splitlines()[-1].startswith("done") else ""
    lost = done or f"{(steps[-1] if steps else 0) - saved} of {steps[-1] if steps else 0} steps"
    left = left_behind(process.pid)
    print(f"| {name} | {seen} | {process.returncode} | {ended - began:.1f} | {lost} | {left} |", flush=True)


def left_behind(pid: int) -> str:
    """Shared memory of a process that has ended and processes that it started, if any are there after ten seconds."""
    end = time.monotonic() + 10
    while True:
        left = [path.name for path in Path("/dev/shm").glob(f"netcl-{pid}-*")]
        if not left or time.monotonic() > end:
            return ", ".join(left) or "nothing"
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="a selector")
    parser.add_argument("--only", help="faults whose name holds this text")
    parser.add_argument("--run", nargs=3, metavar=("FAULT", "FOLDER", "DEVICE"), help="used inside")
    options = parser.parse_args()
    if options.run:
        run(*options.run)
        return
    print("| fault | what the user sees | exit code | seconds | lost work | left behind |\n|-|-|-|-|-|-|")
    for name, fault in FAULTS.items():
        if options.only is None or options.only in name:
            with tempfile.TemporaryDirectory() as folder:
                report(name, fault, Path(folder), options.device)


if __name__ == "__main__":
    main()
