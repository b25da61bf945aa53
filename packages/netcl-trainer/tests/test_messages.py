"""Messages of the Trainer about data, callbacks and arguments of other kinds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from netcl import nn
from netcl.optim import SGD
from netcl.trainer import Callback, Trainer

pytestmark = pytest.mark.usefixtures("numpy_device")


def _trainer(**options) -> Trainer:
    model = nn.Linear(3, 2)
    return Trainer(model, SGD(model.parameters(), lr=0.1), **options)


X, Y = np.ones((8, 3), np.float32), np.zeros(8, np.int64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y), r"train_loader .* a tuple of 2 arrays; write DataLoader\(\(x, y\), batch_size=...\)"),
        (X, r"train_loader .* an array of shape \(8, 3\); write DataLoader"),
        (None, r"train_loader must be an iterable of batches"),
        (7, r"train_loader must be an iterable of batches"),
    ],
)
def test_data_that_are_no_loader(data, message) -> None:
    with pytest.raises(TypeError, match=message):
        _trainer().fit(data)


def test_validation_data_that_are_no_loader() -> None:
    with pytest.raises(TypeError, match="val_loader .* a tuple of 2 arrays"):
        _trainer().fit([(X, Y)], (X, Y))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("on_batch_end", r"Mine.on_batch_end is no hook .* write on_step_end\(self, trainer, logs\)"),
        ("on_train_begin", r"write on_fit_start\(self, trainer\)"),
        ("on_anything", r"the hooks are on_fit_start, on_fit_end, on_epoch_start"),
    ],
)
def test_a_hook_that_is_never_called(name, message) -> None:
    with pytest.raises(TypeError, match=message):
        type("Mine", (Callback,), {name: lambda self, trainer: None})


def test_callbacks_of_another_kind() -> None:
    class Counts(Callback):
        steps = 0

        def on_step_end(self, trainer, logs) -> None:
            self.steps += 1

    with pytest.raises(TypeError, match=r"callbacks must be instances of netcl.trainer.Callback, .* write Counts\(\)"):
        _trainer(callbacks=[Counts])
    with pytest.raises(TypeError, match="callbacks must be instances"):
        _trainer(callbacks=[print])
    counts = Counts()
    _trainer(callbacks=counts).fit([(X, Y)], epochs=2, log_every=0)  # one alone
    assert counts.steps == 2


def test_arguments_of_another_kind() -> None:
    model = nn.Linear(3, 2)
    optimizer = SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match="optimizer must be an Optimizer, got 'sgd'"):
        Trainer(model, "sgd")
    with pytest.raises(TypeError, match=r"device_queue must be a queue or DeviceHandle, .* a loss is loss_fn="):
        Trainer(model, optimizer, nn.functional.cross_entropy)
    with pytest.raises(TypeError, match="loss_fn must be a function of output and target, got 'mse'"):
        Trainer(model, optimizer, loss_fn="mse")
    with pytest.raises(TypeError, match="model must be an nn.Module, got function"):
        Trainer(lambda x: x, optimizer)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("nc.tensr", "tensor"),
        ("nc.nn.Conv2D", "Conv2d"),
        ("nc.optim.AdmW", "AdamW"),
        ("nc.autograd.sigmoyd", "sigmoid"),
    ],
)
def test_python_suggests_a_public_name(wrong: str, meant: str) -> None:
    program = f"import netcl as nc, netcl.nn, netcl.optim, netcl.autograd; {wrong}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stderr.rstrip().endswith(f"Did you mean: '{meant}'?"), done.stderr
