"""fit, evaluate and predict: what they compute, what they leave alone, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.errors import BackendMismatchError, ShapeError
from netcl.data import DataLoader
from netcl.optim import SGD, AdamW, ReduceLROnPlateau, StepLR
from netcl.trainer import Trainer

Make = Callable[..., Any]


def softmax_loss(logits: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """Returns mean cross entropy in float64."""
    z = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]))


def test_it_learns_and_the_history_says_how(handle: DeviceHandle, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, AdamW(model.parameters(), lr=2e-2), seed=0)
    history = trainer.fit(make_loader(n=200), make_loader(n=90, shuffle=False), epochs=8, log_every=0)
    assert trainer.history is history
    assert len(history) == 8
    assert list(history[0]) == [
        "epoch",
        "step",
        "loss",
        "accuracy",
        "val_loss",
        "val_accuracy",
        "seconds",
        "samples_per_second",
    ]
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [row["step"] for row in history] == [13 * epoch for epoch in range(1, 9)]
    assert history[-1]["val_accuracy"] > 0.9
    assert history[-1]["val_loss"] < history[0]["val_loss"]
    for row in history:
        assert row["samples_per_second"] * row["seconds"] == pytest.approx(200)


def test_evaluate_and_predict_agree_with_numpy(handle: DeviceHandle, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.05))
    trainer.fit(make_loader(), epochs=2, log_every=0)
    loader = make_loader(n=50, shuffle=False)
    logits, labels = trainer.predict(loader), np.concatenate([y for _, y in loader])
    assert logits.shape == (50, 3)
    assert logits.dtype == np.float32
    result = trainer.evaluate(loader)
    assert list(result) == ["loss", "accuracy"]
    # Batches of 16, 16, 16 and 2: a mean of the batches' means would be another number.
    assert result["loss"] == pytest.approx(softmax_loss(logits, labels), rel=1e-5)
    assert result["accuracy"] == pytest.approx((logits.argmax(axis=1) == labels).mean(), rel=1e-6)
    images = DataLoader(np.concatenate([x for x, _ in loader]), batch_size=7)
    assert np.allclose(trainer.predict(images), logits, rtol=1e-5, atol=1e-6)


def test_training_means_are_weighted_by_samples(numpy_device: object, make_loader: Make) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    loader = make_loader(n=50)
    before = Trainer(model).evaluate(loader)
    for stride in (1, 3, 100):
        trainer = Trainer(model, SGD(model.parameters(), lr=0.0), metrics_stride=stride)
        row = trainer.fit(loader, epochs=1, log_every=0)[0]
        assert row["loss"] == pytest.approx(before["loss"], rel=1e-6)
        assert row["accuracy"] == pytest.approx(before["accuracy"], rel=1e-6)


class Spy(nn.Module):
    """Notes the mode of each forward pass, and whether its result is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.seen: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor) -> Any:
        result = self.linear(ag.flatten(x, 1))
        self.seen.append((self.training, result.requires_grad))
        return result


def test_evaluate_and_predict_run_in_eval_mode_without_a_tape(numpy_device: object, make_loader: Make) -> None:
    model = nn.Sequential(Spy(), nn.Dropout(0.5), nn.Identity())
    model[2].eval()
    trainer = Trainer(model, SGD(model.parameters()))
    trainer.evaluate(make_loader())
    trainer.predict(make_loader())
    assert set(model[0].seen) == {(False, False)}
    assert [module.training for module in model] == [True, True, False]
    assert model.training
    assert model[0].linear.training
    assert ag.is_grad_enabled()
    model[0].seen.clear()
    trainer.fit(make_loader(), make_loader(), epochs=1, log_every=0)
    assert set(model[0].seen) == {(True, True), (False, False)}


def test_modes_come_back_after_an_error_in_evaluate(numpy_device: object, make_loader: Make) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(15, 3))
    with pytest.raises(ShapeError):
        Trainer(model).evaluate(make_loader())
    assert model.training
    assert ag.is_grad_enabled()


def test_other_losses_and_metrics(handle: DeviceHandle) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 2)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0]], np.float32) + 0.5
    ops.manual_seed(0)
    model = nn.Linear(2, 1)

    def largest_error(output: Tensor, target: Tensor) -> Tensor:
        return ops.max(ops.abs(ops.sub(output, target)))

    trainer = Trainer(
        model, SGD(model.parameters(), lr=0.2), loss_fn=ag.mse_loss, metrics={"largest_error": largest_error}
    )
    history = trainer.fit(DataLoader((x, y), batch_size=64), epochs=40, log_every=0)
    assert history[-1]["loss"] < 1e-4 < history[0]["loss"]
    assert np.allclose(model.weight.to_host(), [[1.0, -2.0]], atol=0.02)
    result = trainer.evaluate(DataLoader((x, y), batch_size=64))
    error = np.abs(trainer.predict(DataLoader(x, batch_size=64)) - y)
    assert result["largest_error"] == pytest.approx(error.max(), rel=1e-4)
    assert "accuracy" not in result
    other = trainer.evaluate(DataLoader((x, y), batch_size=64), loss_fn=ag.l1_loss)
    assert other["loss"] == pytest.approx(error.mean(), rel=1e-4)


def test_several_inputs(numpy_device: object) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, a: Tensor, b: Tensor) -> Any:
            return self.linear(ag.add(a, b))

    a = np.arange(30, dtype=np.float32).reshape(10, 3) / 30
    loader = DataLoader((a, -a, np.arange(10) % 2), batch_size=4)
    model = Sum()
    trainer = Trainer(model, SGD(model.parameters()))
    assert trainer.fit(loader, epochs=3, log_every=0)[-1]["step"] == 9
    assert np.allclose(trainer.predict(loader), model.linear.bias.to_host())


def test_schedulers_are_stepped_at_the_end_of_an_epoch(
    numpy_device: object, make_network: Make, make_loader: Make
) -> None:
    model = make_network()
    optimizer = SGD(model.parameters(), lr=1.0)
    Trainer(model, optimizer, scheduler=StepLR(optimizer, 1, gamma=0.5)).fit(make_loader(), epochs=3, log_every=0)
    assert optimizer.lr == 0.125
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    optimizer = SGD(model.parameters(), lr=0.0)
    plateau = ReduceLROnPlateau(optimizer, "max", patience=1)
    Trainer(model, optimizer, scheduler=plateau).fit(make_loader(), make_loader(), epochs=3, log_every=0)
    # The weights never change, so neither does the validation: two epochs without progress, and the rate is reduced.
    assert plateau.num_bad_epochs == 0
    assert plateau.best == Trainer(model).evaluate(make_loader())["accuracy"]


def test_the_seed_fixes_dropout(numpy_device: object, make_network: Make, make_loader: Make) -> None:
    losses = []
    for seed in (1, 1, 2):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters(), lr=0.1), seed=seed)
        losses.append(trainer.fit(make_loader(), epochs=2, log_every=0)[-1]["loss"])
    assert losses[0] == losses[1] != losses[2]


# -- what is refused -----------------------------------------------------------------------------------------------


def test_an_empty_loader_is_named(numpy_device: object, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters()))
    short = make_loader(n=10, drop_last=True)
    with pytest.raises(ValueError, match="fit: the training loader gave no batch"):
        trainer.fit(short, log_every=0)
    with pytest.raises(ValueError, match="evaluate: the validation loader gave no batch"):
        trainer.fit(make_loader(), [], log_every=0)
    with pytest.raises(ValueError, match="evaluate: the loader gave no batch"):
        trainer.evaluate(short)
    with pytest.raises(ValueError, match="predict: the loader gave no batch"):
        trainer.predict(iter(()))


def test_batches_that_are_none_are_named(numpy_device: object, make_network: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters()))
    x = np.zeros((4, 1, 4, 4), np.float32)
    loader: Any
    for loader, error in [
        ([x], "inputs alone"),
        ([{"x": x, "y": x}], "got a dict of x, y"),
        ([(x, np.array(["a"] * 4))], "arrays of numbers"),
        ([(x, 3)], "0-d"),
        (x, "train_loader must give batches"),
        (Tensor.from_host(x), "train_loader must give batches"),
    ]:
        with pytest.raises(TypeError, match=error):
            trainer.fit(loader, log_every=0)


def test_labels_out_of_range_are_an_index_error(handle: DeviceHandle, make_network: Make) -> None:
    model = make_network()
    loader = DataLoader((np.zeros((8, 1, 4, 4), np.float32), np.full(8, 7)), batch_size=4)
    with pytest.raises(IndexError, match="cross_entropy"):
        Trainer(model, SGD(model.parameters())).fit(loader, log_every=0)


def test_arguments_that_do_not_fit(numpy_device: object, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    optimizer = SGD(model.parameters())
    with pytest.raises(ValueError, match="steps no parameter of this model"):
        Trainer(make_network(), optimizer)
    with pytest.raises(ValueError, match="grad_clip must be a positive number"):
        Trainer(model, optimizer, grad_clip=0.0)
    with pytest.raises(ValueError, match="metrics_stride and accumulation_steps must be at least 1"):
        Trainer(model, optimizer, metrics_stride=0)
    with pytest.raises(ValueError, match="fit needs an optimizer"):
        Trainer(model).fit(make_loader())
    with pytest.raises(ValueError, match="names loss are the Trainer's own"):
        Trainer(model, optimizer, metrics={"loss": lambda output, target: output}).fit(make_loader())
    with pytest.raises(TypeError, match="metric 'none' gave NoneType"):
        Trainer(model, optimizer, metrics={"none": lambda output, target: None}).fit(make_loader(), log_every=0)
    with pytest.raises(ShapeError, match="one number.*reduction='mean'"):
        Trainer(model, optimizer).fit(make_loader(), loss_fn=lambda output, target: output, log_every=0)
    with pytest.raises(TypeError, match="predict: expected one Tensor from the model, got tuple"):

        class Pair(nn.Module):
            def forward(self, x: Tensor) -> Any:
                return x, x

        Trainer(Pair()).predict(make_loader())


def test_another_device_is_refused(handle: DeviceHandle, make_network: Make) -> None:
    if handle.backend == "cpu":
        other = manager.split(handle, 2)[1]
    else:
        found = manager.default("cpu")
        assert found is not None
        other = found
    model = make_network()
    with pytest.raises(BackendMismatchError, match="device_queue is another"):
        Trainer(model, SGD(model.parameters()), other)
    assert Trainer(model, SGD(model.parameters()), handle.queue).queue is handle.queue
