"""Metrics by name and by function: their values over an epoch against definitions in float64, their names, resume."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.data import DataLoader
from netcl.optim import SGD
from netcl.trainer import ModelCheckpoint, Trainer, accuracy
from netcl.trainer.named_metrics import METRICS

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


class Same(nn.Module):
    """Returns its input, times a weight of 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.ones((), np.float32))

    def forward(self, x: Tensor) -> Tensor:
        return ag.mul(x, self.weight)


def measured(outputs: Array, targets: Array, metrics: Any, loss: Any = None) -> dict[str, Any]:
    loader = DataLoader((outputs.astype(np.float32), targets), batch_size=7)
    return Trainer(Same(), metrics=metrics, loss_fn=loss).evaluate(loader)


# -- definitions, sample by sample -------------------------------------------------------------------------------------


def by_class(guess: Array, truth: Array, classes: int) -> list[tuple[float, float, float]]:
    """Returns precision, recall and F1 of each class that appears."""
    rows = []
    for each in range(classes):
        found = sum(1 for g, t in zip(guess, truth) if g == each == t)
        said, true = sum(g == each for g in guess), sum(t == each for t in truth)
        if said + true:
            rows.append((found / said if said else 0.0, found / true if true else 0.0, 2 * found / (said + true)))
    return rows


def area(scores: Array, truth: Array) -> float:
    """Returns the share of pairs in the right order; equal scores count one half."""
    pairs = [(a > b) + (a == b) / 2 for a in scores[truth] for b in scores[~truth]]
    return float(np.mean(pairs))


def test_metrics_of_several_classes(numpy_device: object) -> None:
    logits, truth = RNG.normal(size=(50, 6)).round(1).astype(np.float32), RNG.integers(0, 5, 50)
    row = measured(logits, truth, ["accuracy", "f1", "precision", "recall", "auc", "top5", "confusion"])
    guess = logits.argmax(1)
    expected = np.mean(by_class(guess, truth, 6), axis=0)
    np.testing.assert_allclose([row["precision"], row["recall"], row["f1"]], expected, rtol=1e-12)
    assert row["accuracy"] == pytest.approx((guess == truth).mean())
    five = np.argsort(logits, axis=1)[:, 1:]
    assert row["top5"] == pytest.approx(np.mean([t in best for t, best in zip(truth, five)]), abs=0.03)
    matrix = np.zeros((6, 6), int)
    np.add.at(matrix, (truth, guess), 1)
    assert row["confusion"] == matrix.tolist()
    shares = np.exp(logits.astype(np.float64))
    shares /= shares.sum(1, keepdims=True)
    assert row["auc"] == pytest.approx(np.mean([area(shares[:, k], truth == k) for k in range(5)]), rel=1e-12)


def test_metrics_of_two_classes_are_of_the_second(numpy_device: object) -> None:
    logits, truth = RNG.normal(size=(40, 2)), RNG.integers(0, 2, 40)
    row = measured(logits, truth, ["f1", "precision", "recall", "auc"])
    second = by_class(logits.argmax(1), truth, 2)[1]
    np.testing.assert_allclose([row["precision"], row["recall"], row["f1"]], second, rtol=1e-12)
    score = logits.astype(np.float32).astype(np.float64)
    assert row["auc"] == pytest.approx(area(score[:, 1] - score[:, 0], truth == 1), rel=1e-12)


def test_metrics_of_labels(numpy_device: object) -> None:
    logits, truth = RNG.normal(size=(40, 3)), RNG.integers(0, 2, (40, 3)).astype(np.float32)
    names = ["accuracy", "f1", "auc", "confusion"]
    row = measured(logits, truth, names, ag.binary_cross_entropy_with_logits)
    guess, held = logits > 0, truth > 0.5
    assert row["accuracy"] == pytest.approx((guess == held).mean())
    assert row["f1"] == pytest.approx(np.mean([by_class(guess[:, k], held[:, k], 2)[1][2] for k in range(3)]))
    assert row["auc"] == pytest.approx(np.mean([area(logits[:, k].astype(np.float32), held[:, k]) for k in range(3)]))
    assert row["confusion"][0] == [
        [int((~guess & ~held)[:, 0].sum()), int((guess & ~held)[:, 0].sum())],
        [int((~guess & held)[:, 0].sum()), int((guess & held)[:, 0].sum())],
    ]


def test_metrics_of_numbers(numpy_device: object) -> None:
    outputs = RNG.normal(1e4, 1, (40, 2)).astype(np.float32)
    truth = (outputs + RNG.normal(size=(40, 2))).astype(np.float32)
    row = measured(outputs, truth, ["r2", "mae", "mse", "rmse"], ag.mse_loss)
    apart = truth.astype(np.float64) - outputs
    ratio = (apart**2).sum(0) / ((truth - truth.mean(0, dtype=np.float64)) ** 2).sum(0)
    assert row["r2"] == pytest.approx(np.mean(1 - ratio), rel=1e-9)
    assert row["mae"] == pytest.approx(np.abs(apart).mean(), rel=1e-5)
    assert row["mse"] == pytest.approx((apart**2).mean(), rel=1e-5)
    assert row["rmse"] == pytest.approx(math.sqrt((apart**2).mean()), rel=1e-9)


def test_pixels_are_samples(numpy_device: object) -> None:
    logits, truth = RNG.normal(size=(4, 3, 2, 5)), RNG.integers(0, 3, (4, 2, 5))
    row = measured(logits, truth, ["confusion", "f1", "accuracy"])
    guess = logits.argmax(1)
    matrix = np.zeros((3, 3), int)
    np.add.at(matrix, (truth.ravel(), guess.ravel()), 1)
    assert row["confusion"] == matrix.tolist()
    assert row["accuracy"] == pytest.approx(np.trace(matrix) / matrix.sum())


# -- functions ---------------------------------------------------------------------------------------------------------


def test_a_function_that_returns_a_number_gets_the_arrays_of_the_epoch(numpy_device: object) -> None:
    """As scikit-learn's functions do; a function that returns a tensor stays on the device."""
    seen: list[tuple[int, ...]] = []

    def share_of_zero(outputs: Array, targets: Array) -> float:
        seen.append((np.asarray(outputs).shape[0], len(targets)))
        return float((np.argmax(outputs, axis=1) == 0).mean())

    def largest(outputs: Tensor, targets: Tensor) -> Tensor:
        return ops.mean(outputs)

    logits, truth = RNG.normal(size=(50, 3)), RNG.integers(0, 3, 50)
    row = measured(logits, truth, [share_of_zero, largest, "f1"])
    assert seen[-1] == (50, 50)
    assert row["share_of_zero"] == pytest.approx((logits.argmax(1) == 0).mean())
    assert row["largest"] == pytest.approx(logits.mean(), abs=1e-6)
    assert list(row) == ["loss", "share_of_zero", "largest", "f1"]


def test_a_function_that_returns_neither_is_told(numpy_device: object) -> None:
    logits, truth = np.zeros((4, 3), np.float32), np.zeros(4, np.int64)
    with pytest.raises(TypeError, match="metric 'wrong' gave NoneType for tensors.* a metric returns a Tensor of one"):
        measured(logits, truth, {"wrong": lambda outputs, targets: None})

    def fails(outputs: Any, targets: Any) -> float:
        return float(targets.nothing)

    with pytest.raises((TypeError, AttributeError), match="nothing"):
        measured(logits, truth, [fails])
    with pytest.raises(TypeError, match=r"metric 'wide' gave a tensor of shape \(4, 3\)"):
        measured(logits, truth, {"wide": lambda outputs, targets: outputs})


# -- names -------------------------------------------------------------------------------------------------------------


def test_an_unknown_name_says_what_is_known(numpy_device: object) -> None:
    with pytest.raises(ValueError, match="unknown metric 'accuracx'; did you mean 'accuracy'. known are accuracy, auc"):
        Trainer(Same(), metrics=["accuracx"])
    with pytest.raises(ValueError, match="two metrics have the same name"):
        Trainer(Same(), metrics=["f1", "f1"])
    with pytest.raises(TypeError, match="metrics must be names, functions or a dict of them, got 3"):
        Trainer(Same(), metrics=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="metric 'a' must be a name or a function"):
        Trainer(Same(), metrics={"a": 3})  # type: ignore[dict-item]
    with pytest.raises(ShapeError, match="metric 'r2': expected outputs of the targets' shape"):
        measured(np.zeros((4, 3)), np.zeros(4, np.int64), "r2")


@pytest.mark.level("capture")
@pytest.mark.parametrize("name", METRICS)
def test_every_name_is_a_metric_of_training_and_validation(
    name: str, handle: object, make_network: Callable[..., Any]
) -> None:
    numbers = name in ("mae", "mse", "r2", "rmse")
    x = RNG.normal(size=(20, 1, 4, 4)).astype(np.float32)
    y = RNG.normal(size=(20, 3)).astype(np.float32) if numbers else RNG.integers(0, 3, 20)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.01), metrics=[name], loss_fn=ag.mse_loss if numbers else None)
    loader = DataLoader((x, y), batch_size=5)
    history = trainer.fit(loader, loader, epochs=2, log_every=0)
    assert trainer.captured
    assert name in history[-1]
    # With the weights after the epoch, the same for all batches.
    expected = trainer.evaluate(loader)[name]
    np.testing.assert_allclose(history[-1][f"val_{name}"], expected, rtol=1e-6)


@pytest.mark.level("capture")
def test_the_metric_of_a_captured_epoch_is_that_of_its_batches(
    handle: object, make_network: Callable[..., Any], make_loader: Callable[..., Any]
) -> None:
    """F1 of training, which replays give, equals F1 of the same training op by op."""
    rows = []
    for compiled in (True, False):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters(), lr=0.05), metrics=["f1", "accuracy"], compile=compiled, seed=1)
        history = trainer.fit(make_loader(n=64), epochs=3, log_every=0)
        rows.append([(row["f1"], row["accuracy"]) for row in history])
        assert trainer.captured is compiled
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


def test_the_metric_of_a_resumed_epoch_is_that_of_an_uninterrupted_one(
    handle: object, make_network: Callable[..., Any], make_loader: Callable[..., Any], tmp_path: Path
) -> None:
    def mean_margin(outputs: Array, targets: Array) -> float:
        outputs = np.asarray(outputs)
        return float(outputs[np.arange(len(outputs)), np.asarray(targets)].mean())

    def trainer_in(folder: Path) -> Trainer:
        model = make_network()
        saver = ModelCheckpoint(folder, monitor="loss", every_n_steps=2, save_top_k=0)
        metrics = ["f1", "auc", mean_margin, "confusion", accuracy]
        return Trainer(model, SGD(model.parameters(), lr=0.05), metrics=metrics, callbacks=[saver], seed=1)

    whole = trainer_in(tmp_path / "a").fit(make_loader(n=64), epochs=2, log_every=0)

    class Stop(Exception):
        pass

    interrupted = trainer_in(tmp_path / "b")

    def stop(logs: Any) -> None:
        if interrupted.step == 7:
            raise Stop

    saver = interrupted.callbacks[0]
    saved = saver.on_step_end
    saver.on_step_end = lambda trainer, logs: (saved(trainer, logs), stop(logs))  # type: ignore[method-assign]
    with pytest.raises(Stop):
        interrupted.fit(make_loader(n=64), epochs=2, log_every=0)
    resumed = trainer_in(tmp_path / "b").fit(make_loader(n=64), epochs=2, log_every=0, resume="auto")
    for name in ("f1", "auc", "mean_margin", "confusion", "accuracy", "loss"):
        assert resumed[-1][name] == whole[-1][name], name
