"""Two runs that save to one folder: the second is refused, and what the first saved is whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netcl.io import CheckpointError, load_checkpoint, verify
from netcl.optim import SGD
from netcl.trainer import Callback, ModelCheckpoint, Trainer, folder_lock

Make = Callable[..., Any]
SCRIPT = Path(__file__).parent / "resumable_run.py"
pytestmark = [
    pytest.mark.usefixtures("numpy_device"),
    pytest.mark.skipif(os.name == "nt", reason="needs POSIX: flock"),
]


class Waits(Callback):
    """Says that the first step is over, and goes on when it is told to."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        self.begun.set()
        assert self.go_on.wait(60)


def trainer_of(make: Make, folder: Path, *callbacks: Callback) -> Trainer:
    model = make()
    savers = [ModelCheckpoint(folder, name) for name in ("loss", "accuracy")]
    return Trainer(model, SGD(model.parameters(), lr=0.01), callbacks=[*callbacks, *savers], seed=0, compile=False)


def test_the_second_of_two_threads_is_refused(
    make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lock, "_PATIENCE_S", 0.1)
    waits, other = Waits(), trainer_of(make_network, tmp_path)
    first = trainer_of(make_network, tmp_path, waits)
    thread = threading.Thread(target=first.fit, args=(make_loader(),), kwargs={"epochs": 2, "log_every": 0})
    thread.start()
    try:
        assert waits.begun.wait(60)
        with pytest.raises(CheckpointError, match="another run saves to this folder"):
            other.fit(make_loader(), epochs=5, log_every=0, resume="auto")
        assert other.step == 0
    finally:
        waits.go_on.set()
        thread.join()
    assert verify(tmp_path / "last.netcl")["type"] == "checkpoint"
    assert load_checkpoint(tmp_path / "last.netcl")["epoch"] == 2
    history = other.fit(make_loader(), epochs=3, log_every=0, resume="auto")
    assert [row["epoch"] for row in history] == [1, 2, 3]


def test_the_second_of_two_processes_is_refused_and_a_killed_one_holds_nothing(
    make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With workers, which are forked while the folder is locked."""
    command = [sys.executable, str(SCRIPT), str(tmp_path), "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)][-1] == "step 3\n"
        with monkeypatch.context() as patched:
            patched.setattr(folder_lock, "_PATIENCE_S", 0.1)
            with pytest.raises(CheckpointError, match="another run saves to this folder"):
                trainer_of(make_network, tmp_path).fit(make_loader(), log_every=0)
        process.kill()
    trainer_of(make_network, tmp_path).fit(make_loader(), log_every=0)
    assert load_checkpoint(tmp_path / "last.netcl")["epoch"] == 1


def test_an_error_gives_the_folder_back(
    make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lock, "_PATIENCE_S", 0.1)

    class Fails(Callback):
        def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            raise RuntimeError("the power went")

    with pytest.raises(RuntimeError, match="the power went"):
        trainer_of(make_network, tmp_path, Fails()).fit(make_loader(), log_every=0)
    assert len(trainer_of(make_network, tmp_path).fit(make_loader(), log_every=0)) == 1
