"""Accumulated gradients and mixed precision: a group counts as one batch, and half precision trains as float32 does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import nn, ops
from netcl.core import DeviceHandle
from netcl.core.errors import DTypeError
from netcl.data import DataLoader
from netcl.optim import SGD, AdamW
from netcl.trainer import Trainer

Make = Callable[..., Any]


def data(n: int = 40) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 3, n)


def trained(batch_size: int, group: int, **keywords: Any) -> Trainer:
    ops.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.2), accumulation_steps=group, **keywords)
    trainer.fit(DataLoader(data(), batch_size), epochs=4, log_every=0)
    return trainer


def weights(trainer: Trainer) -> list[np.ndarray[Any, Any]]:
    return [p.to_host() for p in trainer.model.parameters()]


def test_a_group_counts_as_one_batch(handle: DeviceHandle) -> None:
    """40 samples: batches of 8 in groups of 2 are batches of 16, 16 and 8, the last of them a partial group; batches of
    7 in groups of 3 are 21 and 19, with a last batch of 5.
    """
    for small, group, whole in ((8, 2, 16), (7, 3, 21)):
        a, b = trained(small, group, grad_clip=0.5), trained(whole, 1, grad_clip=0.5)
        assert a.step == b.step == 4 * -(-40 // whole)
        for mine, theirs in zip(weights(a), weights(b)):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)
        # Losses within a group are of the same weights.
        for mine_row, their_row in zip(a.history, b.history):
            assert mine_row["loss"] == pytest.approx(their_row["loss"], rel=1e-5)
            assert mine_row["step"] == their_row["step"]


@pytest.mark.level("capture")
def test_groups_are_captured_to_the_bit(handle: DeviceHandle) -> None:
    captured, eager = trained(8, 2), trained(8, 2, compile=False)
    assert captured.captured
    assert all(np.array_equal(a, b) for a, b in zip(weights(captured), weights(eager)))


def test_callbacks_hear_of_updates(numpy_device: object) -> None:
    trainer = trained(8, 2)
    assert trainer.steps_per_epoch == 3
    with pytest.raises(ValueError, match="accumulation_steps must be at least 1, got 10 and 0"):
        trained(8, 0)


@pytest.mark.parametrize("precision", [True, "bfloat16"])
@pytest.mark.level("half", "capture")
def test_mixed_precision_learns(
    handle: DeviceHandle, make_network: Make, make_loader: Make, precision: bool | str, recwarn: Any
) -> None:
    model = make_network()
    optimizer = AdamW(model.parameters(), lr=2e-2)
    trainer = Trainer(model, optimizer, None, precision, grad_clip=1.0, seed=0)
    history = trainer.fit(make_loader(n=64), make_loader(n=90), epochs=8, log_every=0)
    assert all(p.dtype == "float32" for p in model.parameters())
    assert history[-1]["val_accuracy"] > 0.9
    assert history[-1]["loss"] < history[0]["loss"]
    assert trainer._step is not None
    assert trainer._step.replays > 20
    assert (trainer.scaler is None) == (precision == "bfloat16")
    # A device without half arithmetic says so, and nothing else warns.
    assert all("has no cl_khr_fp16" in str(warning.message) for warning in recwarn)


@pytest.mark.level("half")
def test_an_overflow_is_skipped_and_the_scale_falls(numpy_device: object, recwarn: Any) -> None:
    ops.manual_seed(0)
    model = nn.Linear(4, 2)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), mixed_precision=True)
    assert trainer.scaler is not None
    before = model.weight.to_host()
    x = np.full((4, 4), 1e4, np.float32)
    x[0, 0] = np.inf
    trainer.fit([(x, np.zeros(4, np.int64))], epochs=4, log_every=0)
    assert np.array_equal(model.weight.to_host(), before)
    assert trainer.scaler.get_scale() == 2.0**12


def test_other_precisions_are_refused(numpy_device: object) -> None:
    model = nn.Linear(4, 2)
    with pytest.raises(DTypeError, match="mixed_precision must be False, True, 'float16' or 'bfloat16', got 'float32'"):
        Trainer(model, mixed_precision="float32")
