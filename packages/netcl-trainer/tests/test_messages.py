"""Messages of the Trainer about data, callbacks and arguments of other kinds."""

from __future__ import annotations

import subprocess
import sys
import traceback

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.data import ArrayDataset, DataLoader
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


@pytest.mark.parametrize(
    ("keyword", "advice"),
    [
        ("max_epochs", r"write trainer.fit\(train_loader, val_loader, epochs=...\)"),
        ("accelerator", r"or model.to\('gpu'\)"),
        ("loss", "write loss_fn=..."),
        ("grad_clp", "write grad_clip=..."),
    ],
)
def test_words_of_other_libraries(keyword, advice) -> None:
    with pytest.raises(TypeError, match=rf"Trainer\(\) got an unexpected keyword argument '{keyword}'; .*{advice}"):
        _trainer(**{keyword: 3})


@pytest.mark.parametrize(
    ("keyword", "advice"),
    [
        ("validation_data", "write val_loader=DataLoader"),
        ("batch_size", "write DataLoader"),
        ("epoch", "write epochs=..."),
    ],
)
def test_words_of_other_libraries_in_fit(keyword, advice) -> None:
    with pytest.raises(TypeError, match=rf"Trainer.fit\(\) got an unexpected keyword argument '{keyword}'; {advice}"):
        _trainer().fit([(X, Y)], **{keyword: 3})


@pytest.mark.parametrize(
    ("word", "dtype"),
    [("bf16-mixed", "bfloat16"), ("16-mixed", "float16"), (16, "float16"), ("32-true", None), (32, None)],
)
def test_precisions_of_lightning(word, dtype) -> None:
    trainer = _trainer(precision=word)
    assert trainer.autocast_dtype == dtype
    assert (trainer.scaler is not None) == (dtype == "float16")


def test_precisions_that_there_are_not() -> None:
    with pytest.raises(
        TypeError, match="precision: expected one of .*'bf16-mixed', got '64-true'; make the model with"
    ):
        _trainer(precision="64-true")
    with pytest.raises(ValueError, match="not both"):
        _trainer(precision="16-mixed", mixed_precision=True)
    assert _trainer(mixed_precision="bf16").autocast_dtype == "bfloat16"


def _frames(error: BaseException) -> list[str]:
    names = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [name for name in names if name != __name__]


@pytest.mark.parametrize("method", ["fit", "evaluate", "lr_find"])
def test_an_error_within_shows_few_frames_of_netcl(method) -> None:
    """There were eleven between the line of the user and the message."""
    with pytest.raises(ValueError, match=r"expected x \(..., 3\), got \(8, 4\)") as caught:
        getattr(_trainer(), method)([(np.ones((8, 4), np.float32), Y)])
    assert len(_frames(caught.value)) <= 3


def test_the_frames_of_the_users_loss_stay() -> None:
    def wrong(output, target):
        return output.no_such_method()

    with pytest.raises(AttributeError) as caught:
        _trainer(loss_fn=wrong).fit([(X, Y)])
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert "wrong" in frames
    assert len(_frames(caught.value)) <= 3


def test_an_error_of_python_within_netcl_keeps_its_frames() -> None:
    trainer = _trainer()
    trainer.metrics_stride = "two"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        trainer.fit([(X, Y)])
    assert len(_frames(caught.value)) > 3


def test_a_trainer_shows_its_settings() -> None:
    trainer = _trainer(precision="bf16-mixed")
    expected = "Trainer(Linear, device=cpu, optimizer=SGD, precision=bfloat16, epochs=0, step=0)"
    assert repr(trainer) == expected
    trainer.fit([(X, Y)], log_every=0)
    assert "<th>model</th><td>Linear, 8 parameters</td>" in trainer._repr_html_()
    assert "<svg" in trainer._repr_html_()


def test_the_default_loss_says_how_to_train_on_classes_of_the_last_axis(numpy_device: object) -> None:
    """A language model's logits (N, T, V) against targets (N, T): as in PyTorch an error, with the call to write."""
    model = nn.Sequential(nn.Embedding(7, 7))
    ids = np.random.default_rng(0).integers(0, 7, (6, 5))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1))
    expected = (
        r"logits \(3, 5, 7\) and target \(3, 5\); .* with the classes on the last axis write "
        r"cross_entropy\(logits.reshape\(-1, 7\), target.reshape\(-1\)\)"
    )
    with pytest.raises(ShapeError, match=expected):
        trainer.fit(DataLoader(ArrayDataset(ids, ids), batch_size=3), log_every=0)

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits.reshape(-1, 7), target.reshape(-1))

    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), loss_fn=loss)
    history = trainer.fit(DataLoader(ArrayDataset(ids, ids), batch_size=3), epochs=3, log_every=0)
    assert history[-1]["loss"] < history[0]["loss"]
