"""Callbacks: the order of their calls, and the behaviour of netcl's own callbacks."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import nn
from netcl.data import DataLoader
from netcl.io import load_checkpoint, load_model
from netcl.optim import SGD, AdamW, ExponentialLR, ModelEMA
from netcl.trainer import (
    Callback,
    CSVLogger,
    EarlyStopping,
    History,
    LearningRateMonitor,
    ModelCheckpoint,
    Trainer,
)

Make = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("numpy_device")


class Recorder(Callback):
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.read: list[dict[str, float]] = []

    def on_fit_start(self, trainer: Trainer) -> None:
        self.calls.append("fit start")

    def on_fit_end(self, trainer: Trainer) -> None:
        self.calls.append("fit end")

    def on_epoch_start(self, trainer: Trainer) -> None:
        self.calls.append(f"epoch {trainer.epoch} start")

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
        logs["extra"] = trainer.epoch * 10
        self.calls.append(f"epoch {trainer.epoch} end")

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        self.calls.append(f"step {trainer.step}")
        self.read.append(dict(logs))

    def on_exception(self, trainer: Trainer, error: BaseException) -> None:
        self.calls.append(f"exception {type(error).__name__}")


class Script(Callback):
    """Gives the epochs values of one's choice."""

    def __init__(self, name: str, values: list[float]) -> None:
        self.name, self.values = name, values

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
        logs[self.name] = self.values[trainer.epoch - 1]


def test_the_order_of_calls(make_network: Make, make_loader: Make) -> None:
    model, recorder = make_network(), Recorder()
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[recorder], metrics_stride=2)
    history = trainer.fit(make_loader(), epochs=2, log_every=0)
    first = ["fit start", "epoch 1 start", "step 1", "step 2", "step 3", "epoch 1 end"]
    assert recorder.calls == [*first, "epoch 2 start", "step 4", "step 5", "step 6", "epoch 2 end", "fit end"]
    assert [sorted(logs) for logs in recorder.read[:3]] == [[], ["accuracy", "loss"], ["accuracy", "loss"]]
    assert recorder.read[2]["loss"] == history[0]["loss"]
    assert [row["extra"] for row in history] == [10, 20]


def test_an_error_reaches_callbacks_and_caller(make_network: Make) -> None:
    def batches() -> Any:
        yield np.zeros((4, 1, 4, 4), np.float32), np.zeros(4, np.int64)
        raise KeyboardInterrupt

    model, recorder = make_network(), Recorder()
    with pytest.raises(KeyboardInterrupt):
        Trainer(model, SGD(model.parameters()), callbacks=[recorder]).fit(batches(), log_every=0)
    assert recorder.calls == ["fit start", "epoch 1 start", "step 1", "exception KeyboardInterrupt"]


def test_early_stopping(make_network: Make, make_loader: Make) -> None:
    values = [3.0, 2.0, math.nan, 2.5, 1.0, 0.5]
    for mode, stopped, best in ((None, 4, 2), ("max", 3, 1)):
        model = make_network()
        early = EarlyStopping("score_of_errors", patience=2, mode=mode)
        weights: list[np.ndarray[Any, Any]] = []

        class Keep(Callback):
            def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any], weights: Any = weights) -> None:
                weights.append(trainer.model[6].weight.to_host())

        callbacks = [Script("score_of_errors", values), Keep(), early]
        trainer = Trainer(model, SGD(model.parameters(), lr=0.1), callbacks=callbacks)
        history = trainer.fit(make_loader(), epochs=6, log_every=0)
        assert len(history) == early.stopped_epoch == stopped
        assert early.best_epoch == best
        assert early.best == values[best - 1]
        assert np.array_equal(model[6].weight.to_host(), weights[best - 1])
        assert not np.array_equal(weights[-1], weights[best - 1])


def test_early_stopping_says_why(make_network: Make, make_loader: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A run ended after epoch 4 of 6 without a word, with weights that were not the best."""
    for restored, has in ((True, "the model has its weights"), (False, "the model has the weights of the last")):
        model = make_network()
        early = EarlyStopping("errors", patience=2, restore_best=restored)
        callbacks = [Script("errors", [3.0, 2.0, 2.5, 2.25]), early]
        Trainer(model, SGD(model.parameters(), lr=0.1), callbacks=callbacks).fit(make_loader(), epochs=6)
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2:] == [
            "stopped after epoch 4 of 6: errors did not improve for 2 epochs",
            f"the best epoch is 2, errors 2: {has}",
        ]


def test_a_callback_that_stops_a_run_is_named(
    make_network: Make, make_loader: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    class Enough(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
            trainer.should_stop = trainer.epoch == 2

    model = make_network()
    Trainer(model, SGD(model.parameters()), callbacks=[Enough()]).fit(make_loader(), epochs=5)
    assert "stopped after epoch 2 of 5 by Enough" in capsys.readouterr().out


def test_early_stopping_restores_averages(make_network: Make, make_loader: Make) -> None:
    model = make_network()
    ema, shadows = ModelEMA(model, 0.9), []

    class Keep(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
            shadows.append(trainer.ema.shadow["6.weight"].to_host())

    callbacks = [Script("errors", [3.0, 2.0, 2.5]), Keep(), EarlyStopping("errors", patience=1)]
    Trainer(model, SGD(model.parameters(), lr=0.1), ema=ema, callbacks=callbacks).fit(
        make_loader(), epochs=3, log_every=0
    )
    assert np.array_equal(ema.shadow["6.weight"].to_host(), shadows[1])
    assert not np.array_equal(shadows[1], shadows[2])


@pytest.mark.parametrize("monitor", ["val_loss", "val_los", "accuracy_"])
def test_a_monitor_is_checked_before_the_first_epoch(
    monitor: str, make_network: Make, make_loader: Make, tmp_path: Path
) -> None:
    for callback in (EarlyStopping(monitor), ModelCheckpoint(tmp_path, monitor)):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters()), callbacks=[callback])
        with pytest.raises(KeyError, match=f"monitors {monitor!r}, but"):
            trainer.fit(make_loader(), log_every=0)
        assert trainer.step == 0


def test_early_stopping_names_what_there_is(make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[EarlyStopping()])
    with pytest.raises(KeyError, match="monitors 'val_loss', but an epoch has epoch, .*loss.*give fit a val_loader"):
        trainer.fit(make_loader(), log_every=0)
    with pytest.raises(ValueError, match="patience must be at least 1"):
        EarlyStopping(patience=0)


def test_learning_rates_are_those_of_the_epoch(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    model = make_network()
    groups = [{"params": model[0].parameters(), "lr": 1.0}, {"params": model[6].parameters(), "lr": 0.1}]
    optimizer = SGD(groups)
    callbacks = [LearningRateMonitor(), CSVLogger(tmp_path / "logs" / "run.csv")]
    trainer = Trainer(model, optimizer, scheduler=ExponentialLR(optimizer, 0.5), callbacks=callbacks)
    history = trainer.fit(make_loader(), epochs=2, log_every=0)
    assert history.column("lr_0") == [1.0, 0.5]
    assert history.column("lr_1") == [0.1, 0.05]
    with (tmp_path / "logs" / "run.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [{name: float(value) for name, value in row.items()} for row in rows] == list(history)


def test_without_that_callback_nan_is_in_the_history() -> None:
    model = nn.Linear(4, 2)
    loader = DataLoader((np.full((8, 4), np.nan, np.float32), np.zeros(8, np.int64)), batch_size=8)
    history = Trainer(model, SGD(model.parameters())).fit(loader, epochs=2, log_every=0)
    assert all(math.isnan(row["loss"]) for row in history)


def test_checkpoints_keep_the_best_and_the_last(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    model = make_network()
    saver = ModelCheckpoint(tmp_path / "runs", "score", save_top_k=2)
    callbacks = [Script("score", [0.5, 0.7, math.nan, 0.6, 0.4]), saver]
    trainer = Trainer(model, AdamW(model.parameters()), callbacks=callbacks)
    trainer.fit(make_loader(), epochs=5, log_every=0)
    assert sorted(path.name for path in saver.folder.iterdir()) == ["epoch_002.netcl", "epoch_004.netcl", "last.netcl"]
    assert saver.best_path == saver.folder / "epoch_002.netcl"
    assert saver.best_path is not None
    assert load_model(saver.best_path).state_dict().keys() == model.state_dict().keys()
    again = make_network(1)
    assert load_checkpoint(saver.last_path, again)["epoch"] == 5
    expected = trainer.predict(make_loader(shuffle=False))
    assert np.array_equal(Trainer(again).predict(make_loader(shuffle=False)), expected)


def test_a_folder_is_not_replaced_in_silence(
    make_network: Make, make_loader: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for resume, said in ((None, False), ("auto", False), (None, True)):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters()), callbacks=[ModelCheckpoint(tmp_path, "loss")])
        trainer.fit(make_loader(), epochs=1, resume=resume)
        assert (f"the run in {tmp_path} is replaced" in capsys.readouterr().out) == said


def test_checkpoints_between_epochs_and_of_averages(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    model = make_network()
    average = ModelEMA(model, 0.9)
    saver = ModelCheckpoint(tmp_path, "loss", save_last=False, every_n_steps=2)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.5), ema=average, callbacks=[saver])
    trainer.fit(make_loader(n=32), epochs=2, log_every=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch_002.netcl", "last.netcl"]
    saved = load_model(tmp_path / "epoch_002.netcl")[6].weight.to_host()
    assert np.array_equal(saved, average.shadow["6.weight"].to_host())
    last = load_checkpoint(saver.last_path)
    assert np.array_equal(last["model"]["6.weight"], model[6].weight.to_host())
    assert np.array_equal(last["ema"]["shadow"]["6.weight"], saved)


def test_a_checkpoint_that_cannot_be_written(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    for policy in ("warn", "raise"):
        model = make_network()
        folder = tmp_path / policy
        saver = ModelCheckpoint(folder, "loss", on_save_error=policy)
        (folder / "last.netcl").mkdir(parents=True)
        trainer = Trainer(model, SGD(model.parameters()), callbacks=[saver])
        if policy == "warn":
            with pytest.warns(UserWarning, match=r"last\.netcl.*training goes on"):
                assert len(trainer.fit(make_loader(), epochs=1, log_every=0)) == 1
            assert saver.best_path is not None
            assert saver.best_path.is_file()
        else:
            with pytest.raises((OSError, RuntimeError), match=r"last\.netcl"):
                trainer.fit(make_loader(), epochs=1, log_every=0)
    with pytest.raises(ValueError, match="on_save_error must be 'raise' or 'warn'"):
        ModelCheckpoint(tmp_path, "loss", on_save_error="ignore")


def test_the_history_is_the_trainers(make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters()))
    assert isinstance(trainer.fit(make_loader(), epochs=0), History)
    assert trainer.history == []
