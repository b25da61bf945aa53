"""Faults of long runs: each ends in a named error within seconds and leaves nothing behind."""

from __future__ import annotations

import errno
import importlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netcl import nn
from netcl.core import DeviceHandle
from netcl.core.errors import DeviceLostError
from netcl.data import DataLoader, DataLoaderWorkerError
from netcl.io import CheckpointError, verify
from netcl.optim import SGD
from netcl.trainer import Callback, ModelCheckpoint, Trainer

Make = Callable[..., Any]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails a test that leaves a process or a shared-memory segment behind."""
    yield
    assert multiprocessing.active_children() == []
    assert list(Path("/dev/shm").glob(f"netcl-{os.getpid()}-*")) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("what", "message"),
    [("killed", "exit code -9|SIGKILL|died"), ("raises", "cannot be read"), ("hangs", "timeout|1 s|no batch")],
)
def test_a_worker_that_fails_ends_the_run(
    numpy_device: object,
    nothing_left: None,
    make_network: Make,
    tmp_path: Path,
    monkeypatch: Any,
    what: str,
    message: str,
) -> None:
    # Workers find the module by its name on this path.
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    dataset = importlib.import_module("fragile_data").Fragile(what)
    model = make_network()
    saver = ModelCheckpoint(tmp_path, "loss", every_n_steps=1)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[saver])
    with DataLoader(dataset, 8, num_workers=2, timeout=2 if what == "hangs" else 0) as loader:
        start = time.monotonic()
        with pytest.raises((DataLoaderWorkerError, ValueError), match=f"(?s){message}"):
            trainer.fit(loader, log_every=0)
        assert time.monotonic() - start < 60
    # Batches before the bad one were trained on, and are in the checkpoint.
    assert trainer.step >= 1
    assert verify(saver.last_path)["type"] == "checkpoint"


@pytest.mark.parametrize("policy", ["raise", "warn"])
def test_a_full_disk(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: Any, policy: str
) -> None:
    model = make_network()
    saver = ModelCheckpoint(tmp_path, "loss", save_top_k=0, on_save_error=policy)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[saver])
    trainer.fit(make_loader(), log_every=0)
    whole = saver.last_path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    if policy == "raise":
        with pytest.raises(CheckpointError, match=r"last\.netcl.*(?i:no space)|(?i:no space).*last\.netcl"):
            trainer.fit(make_loader(), log_every=0)
    else:
        with pytest.warns(UserWarning, match="(?i)no space.*training goes on"):
            assert len(trainer.fit(make_loader(), epochs=2, log_every=0)) == 2
    # The old file is whole, and nothing else was left.
    assert saver.last_path.read_bytes() == whole
    assert verify(saver.last_path)["type"] == "checkpoint"
    assert [path.name for path in tmp_path.iterdir()] == ["last.netcl"]


def test_a_device_that_stops_answering(
    handle: DeviceHandle, make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: Any
) -> None:
    """Simulated at the backend: from step 5 on nothing runs. The last checkpoint is whole and goes on elsewhere."""
    lost = DeviceLostError("the device does not answer: CL_DEVICE_NOT_AVAILABLE")

    class Unplug(Callback):
        error: BaseException | None = None

        def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            if trainer.step == 5:

                def gone(*args: Any, **keywords: Any) -> Any:
                    raise lost

                engine = next(trainer.model.parameters()).engine
                for name in ("run", "write", "read", "matmul", "conv2d"):
                    if hasattr(engine, name):
                        monkeypatch.setattr(engine, name, gone, raising=False)

        def on_exception(self, trainer: Trainer, error: BaseException) -> None:
            self.error = error

    model, unplug = make_network(), Unplug()
    saver = ModelCheckpoint(tmp_path, "loss", every_n_steps=2)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[unplug, saver], compile=False, seed=0)
    start = time.monotonic()
    with pytest.raises(DeviceLostError, match="does not answer"):
        trainer.fit(make_loader(), epochs=4, log_every=0)
    assert unplug.error is lost
    assert time.monotonic() - start < 30
    assert verify(saver.last_path)["type"] == "checkpoint"
    monkeypatch.undo()
    again = make_network()
    resumed = Trainer(again, SGD(again.parameters()), compile=False, callbacks=[ModelCheckpoint(tmp_path, "loss")])
    history = resumed.fit(make_loader(), epochs=4, log_every=0, resume="auto")
    other = make_network()
    expected = Trainer(other, SGD(other.parameters()), compile=False, seed=0).fit(make_loader(), epochs=4, log_every=0)
    assert [row["loss"] for row in history] == [row["loss"] for row in expected]


def test_an_error_of_a_callback_passes_through(numpy_device: object, make_loader: Make) -> None:
    class Broken(Callback):
        def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            raise ZeroDivisionError("in a callback")

    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError, match="in a callback"):
        Trainer(model, SGD(model.parameters()), callbacks=[Broken()]).fit(make_loader(), log_every=0)
    assert signal.getsignal(signal.SIGINT) is before
