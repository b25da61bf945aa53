"""A run that ends anywhere and is resumed has the numbers of an unbroken run, to the last bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor
from netcl.data import DataLoader
from netcl.io import CheckpointError, load_checkpoint, save_checkpoint, verify
from netcl.optim import SGD, AdamW, CosineAnnealingLR, ModelEMA, OneCycleLR
from netcl.trainer import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint, Trainer

Make = Callable[..., Any]
SCRIPT = Path(__file__).parent / "resumable_run.py"
TIMING = ("seconds", "samples_per_second")


class StopAt(Callback):
    """Ends the run by an error after a step."""

    def __init__(self, step: int | None) -> None:
        self.step = step

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if trainer.step == self.step:
            raise RuntimeError("the power went")


def make_trainer(make: Make, folder: Path, stop: int | None = None, **keywords: Any) -> Trainer:
    model = make()
    optimizer = AdamW(model.parameters(), lr=2e-2)
    saver = ModelCheckpoint(folder, "val_loss", every_n_steps=1)
    options: dict[str, Any] = {
        "scheduler": OneCycleLR(optimizer, 0.02, total_steps=15, cycle_momentum=False),
        "ema": ModelEMA(model, 0.9),
        "metrics_stride": 4,
        "grad_clip": 1.0,
        "seed": 3,
        "callbacks": [LearningRateMonitor(), EarlyStopping(patience=50, restore_best=True), StopAt(stop), saver],
    }
    return Trainer(model, optimizer, **(options | keywords))


def state(trainer: Trainer) -> dict[str, bytes]:
    found = {name: tensor.to_host().tobytes() for name, tensor in trainer.model.state_dict().items()}
    if trainer.ema is not None:
        found |= {f"average {name}": t.to_host().tobytes() for name, t in trainer.ema.shadow.items()}
    for index, states in trainer.optimizer.state_dict()["state"].items():
        found |= {
            f"{index} {name}": (value.to_host() if isinstance(value, Tensor) else np.asarray(value)).tobytes()
            for name, value in states.items()
        }
    return found


def measured(history: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMING} for row in history]


def test_a_loss_that_mixes_widths_resumes_to_the_same_bits(handle: DeviceHandle, tmp_path: Path) -> None:
    """Whole targets weigh a regression: the resumed runs begin op by op where the unbroken one replays."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((100, 24)).astype(np.float32), rng.integers(0, 9, 100)

    def loss(out: Tensor, target: Tensor) -> Tensor:
        away = out[:, 0] - target.to("float32") * 0.3
        return away.abs().mean().sqrt() + (out * out).mean()

    def fit(folder: str, *epochs: int) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
        for last in epochs:
            ops.manual_seed(0)
            model = nn.Sequential(nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 3))
            saver = ModelCheckpoint(tmp_path / folder, "loss", every_n_steps=2)
            trainer = Trainer(model, SGD(model.parameters(), lr=0.05), loss_fn=loss, callbacks=[saver])
            loader = DataLoader(data, 33, shuffle=True, seed=0)
            history = trainer.fit(loader, epochs=last, resume="auto", log_every=0)
        return state(trainer), measured(history)

    assert fit("whole", 4) == fit("resumed", 2, 4)


def test_every_place_resumes_to_the_same_bits(
    handle: DeviceHandle, make_network: Make, make_loader: Make, tmp_path: Path
) -> None:
    """Three steps to an epoch: broken in the middle of one, after its last step, and at its very beginning."""
    unbroken = make_trainer(make_network, tmp_path / "whole")
    expected = measured(unbroken.fit(make_loader(), make_loader(), epochs=5, log_every=0))
    for stop in (7,) if handle.backend == "cl" else (2, 3, 4, 7, 14):
        folder = tmp_path / str(stop)
        broken = make_trainer(make_network, folder, stop)
        with pytest.raises(RuntimeError, match="the power went"):
            broken.fit(make_loader(), make_loader(), epochs=5, log_every=0)
        # StopAt comes before the checkpoint of its step: this resumes one step earlier.
        resumed = make_trainer(make_network, folder)
        history = resumed.fit(make_loader(), make_loader(), epochs=5, log_every=0, resume="auto")
        assert measured(history) == expected, stop
        assert state(resumed) == state(unbroken), stop


@pytest.mark.parametrize("precision", [False, True])
def test_accumulation_scale_and_a_plain_loader_resume(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path, precision: bool
) -> None:
    batches = list(make_loader(n=80, batch_size=8))

    def fit(stop: int | None, resume: str | None = None) -> Trainer:
        keywords = {"accumulation_steps": 3, "mixed_precision": precision, "scheduler": None}
        trainer = make_trainer(make_network, tmp_path, stop, **keywords)
        # A list has no position of its own: it is read again up to the saved position.
        if stop is None:
            trainer.fit(batches, make_loader(), epochs=3, log_every=0, resume=resume)
        else:
            with pytest.raises(RuntimeError, match="the power went"):
                trainer.fit(batches, make_loader(), epochs=3, log_every=0)
        return trainer

    unbroken = fit(None)
    shutil.rmtree(tmp_path)
    for stop in (6, 8):
        fit(stop)
        resumed = fit(None, "auto")
        assert state(resumed) == state(unbroken)
        assert measured(resumed.history) == measured(unbroken.history)
        shutil.rmtree(tmp_path)


class SavesAndStops(Callback):
    """Ends the run by an error right after a save."""

    def __init__(self, step: int, path: Path) -> None:
        self.step, self.path = step, path

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if trainer.step == self.step:
            trainer.save_checkpoint(self.path)
            raise RuntimeError("the power went")


@pytest.mark.parametrize("plain", [False, True])
def test_a_save_after_the_incomplete_group_of_an_epoch_resumes(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path, plain: bool
) -> None:
    """Ten batches in groups of three: the fourth update of an epoch has one batch."""

    def loader() -> Any:
        made = make_loader(n=80, batch_size=8)
        return list(made) if plain else made

    def fit(*callbacks: Callback, resume: Path | None = None) -> Trainer:
        options = {"accumulation_steps": 3, "scheduler": None, "callbacks": list(callbacks)}
        trainer = make_trainer(make_network, tmp_path, **options)
        trainer.fit(loader(), epochs=3, log_every=0, resume=resume)
        return trainer

    unbroken = fit()
    for step in (4, 8, 12):
        path = tmp_path / f"{step}.netcl"
        with pytest.raises(RuntimeError, match="the power went"):
            fit(SavesAndStops(step, path))
        resumed = fit(resume=path)
        assert measured(resumed.history) == measured(unbroken.history), step
        assert state(resumed) == state(unbroken), step


def test_an_epoch_schedule_resumes(numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    runs = []
    for epochs in ((4,), (2, 4)):
        folder = tmp_path / str(len(epochs))
        for until in epochs:
            model = make_network()
            optimizer = SGD(model.parameters(), lr=0.1)
            trainer = Trainer(
                model,
                optimizer,
                scheduler=CosineAnnealingLR(optimizer, 4),
                callbacks=[LearningRateMonitor(), ModelCheckpoint(folder, "loss")],
                seed=1,
            )
            trainer.fit(make_loader(), epochs=until, log_every=0, resume="auto")
        runs.append(trainer)
    assert measured(runs[0].history) == measured(runs[1].history)
    assert runs[1].history[-1]["lr"] < runs[1].history[0]["lr"]
    assert state(runs[0]) == state(runs[1])
    # A run that is over stays as it is.
    weights = state(runs[1])
    assert len(runs[1].fit(make_loader(), epochs=4, log_every=0, resume=tmp_path / "2")) == 4
    assert state(runs[1]) == weights


def test_what_cannot_be_resumed(numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters()))
    with pytest.raises(ValueError, match="looks into the folder of a ModelCheckpoint, and the Trainer has none"):
        trainer.fit(make_loader(), log_every=0, resume="auto")
    with pytest.raises(CheckpointError, match="no whole checkpoint"):
        trainer.fit(make_loader(), log_every=0, resume=tmp_path)
    with pytest.raises((CheckpointError, FileNotFoundError), match="none.netcl"):
        trainer.fit(make_loader(), log_every=0, resume=tmp_path / "none.netcl")
    save_checkpoint(model, tmp_path / "weights.netcl", optimizer=trainer.optimizer, loader=make_loader())
    with pytest.raises(CheckpointError, match="no run of a Trainer to resume"):
        trainer.fit(make_loader(), log_every=0, resume=tmp_path / "weights.netcl")
    other = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    saver = ModelCheckpoint(tmp_path / "run", "loss")
    trainer.callbacks = [saver]
    trainer.fit(make_loader(), log_every=0)
    before = [p.to_host() for p in other.parameters()]
    with pytest.raises(CheckpointError, match="does not fit"):
        Trainer(other, SGD(other.parameters())).fit(make_loader(), log_every=0, resume=saver.last_path)
    assert all(np.array_equal(a, p.to_host()) for a, p in zip(before, other.parameters()))


# -- processes -----------------------------------------------------------------------------------------------------


def start(folder: Path, workers: int, selector: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(folder), str(workers), selector]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[None]:
    """Leaves no process and no pipe behind, whatever happens."""
    try:
        yield
    finally:
        process.kill()
        process.communicate(timeout=60)


def finished(process: subprocess.Popen[str]) -> str:
    with killed(process):
        out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return "".join(line for line in out.splitlines(True) if not line.startswith("step "))


def kill_and_resume(tmp_path: Path, workers: Sequence[int], selector: str) -> None:
    """Kills a run of 36 steps once for each number of workers in turn; ``workers`` do not change a number."""
    rng = random.Random(f"{selector} {workers}")
    whole = finished(start(tmp_path / "whole", 0, selector))
    folder = tmp_path / "broken"
    for count, step in zip(workers, sorted(rng.sample(range(1, 31), len(workers)))):
        process = start(folder, count, selector)
        with killed(process):
            assert process.stdout is not None
            done = 0  # the last kill may have come after the save of this step
            while done < step:
                line = process.stdout.readline()
                assert line.startswith("step "), (line, process.communicate(timeout=60))
                done = int(line.split()[1])
            # At any moment from there on: in a step, between two, while a file is written.
            time.sleep(rng.uniform(0, 0.05))
        assert process.returncode == -signal.SIGKILL
        last = folder / "last.netcl"
        assert not last.exists() or verify(last)["type"] == "checkpoint"
        wait_until_nothing_is_left_of(process.pid)
    assert finished(start(folder, workers[-1], selector)) == whole
    assert whole.splitlines()[-1].startswith("digest ")
    assert list(folder.glob(".*.tmp")) == []


def wait_until_nothing_is_left_of(pid: int) -> None:
    """Waits until the workers and the memory shared with them are gone by themselves."""
    end = time.monotonic() + 20
    left = ["?"]
    while left and time.monotonic() < end:
        left = [path.name for path in Path("/dev/shm").glob(f"netcl-{pid}-*")]
        time.sleep(0.1)
    assert left == []


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_kill_and_resume(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, (0, 2), "cpu")


@pytest.mark.deep
@pytest.mark.timeout(2400)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("workers", [0, 2])
def test_ten_kills_and_resumes(handle: DeviceHandle, tmp_path: Path, workers: int) -> None:
    kill_and_resume(tmp_path, [workers] * 10, handle.selector)


def test_the_file_is_whole_in_the_end(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path
) -> None:
    trainer = make_trainer(make_network, tmp_path)
    loader: DataLoader = make_loader()
    trainer.fit(loader, loader, epochs=1, log_every=0)
    rest = load_checkpoint(tmp_path / "last.netcl")
    assert rest["epoch"] == 1
    assert rest["step"] == 3
    assert rest["extra"]["history"] == list(trainer.history)
    with pytest.raises(RuntimeError, match="has not trained yet"):
        Trainer(make_network()).save_checkpoint(tmp_path / "none.netcl")
