"""lr_find: a rate that trains, and everything as it was before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle
from netcl.optim import AdamW
from netcl.trainer import LearningRates, Trainer

Make = Callable[..., Any]


def test_it_suggests_a_rate_and_changes_nothing(handle: DeviceHandle, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    optimizer = AdamW(model.parameters(), lr=3e-4)
    trainer, loader = Trainer(model, optimizer, seed=0), make_loader()
    before = {name: tensor.to_host() for name, tensor in model.state_dict().items()}
    position, randomness = loader.state_dict(), ops.get_rng_state()
    found = trainer.lr_find(loader, 1e-6, 10.0, steps=40)
    assert found.lrs == sorted(found.lrs)
    assert 1e-4 < found.suggestion < 1.0
    assert len(found.lrs) == len(found.losses)
    assert optimizer.lr == 3e-4
    assert optimizer.state_dict()["state"] == {}
    assert loader.state_dict() == position
    assert ops.get_rng_state() == randomness
    after = {name: tensor.to_host() for name, tensor in model.state_dict().items()}
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_the_suggestion_is_where_the_loss_falls_fastest(tmp_path: Path) -> None:
    found = LearningRates([1e-4, 1e-3, 1e-2, 1e-1, 1.0], [2.0, 1.9, 1.2, 1.0, 3.0])
    assert found.suggestion == 1e-3 or found.suggestion == 1e-2
    pytest.importorskip("matplotlib", reason="the extra plot (matplotlib) is not installed")
    found.plot(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 1000
    rising = LearningRates([1e-3, 1e-2, 1e-1], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="the loss falls nowhere between the rates 0.001 and 0.1"):
        assert rising.suggestion
    assert rising.plot().axes[0].get_title() == "the loss falls nowhere"


def test_what_is_refused(numpy_device: object, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, AdamW(model.parameters()))
    with pytest.raises(ValueError, match="0 < min_lr < max_lr"):
        trainer.lr_find(make_loader(), 1.0, 0.1)
    with pytest.raises(ValueError, match="the loader gave no batch"):
        trainer.lr_find([])
    with pytest.raises(ValueError, match="lr_find needs an optimizer"):
        Trainer(model).lr_find(make_loader())
