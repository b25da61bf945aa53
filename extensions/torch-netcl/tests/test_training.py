"""Training on the device against the CPU: the same weights and batches for five steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_networks import BATCHES, MODELS, OPTIMIZERS, mlp
from torch import nn


def losses(model: nn.Module, device: str, make: Callable[[Any], torch.optim.Optimizer], batch: Any) -> list[float]:
    model = copy.deepcopy(model).to(device)
    optimizer = make(model.parameters())
    x, y = (part.to(device) for part in batch)
    seen = []
    for _ in range(5):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        seen.append(loss.item())
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_adamw_gives_the_losses_of_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    model, batch = MODELS[name](), BATCHES[name]()
    here, there = (losses(model, device, OPTIMIZERS["adamw"], batch) for device in ("cpu", "ocl"))
    assert here == pytest.approx(there, abs=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_optimizer_gives_the_losses_of_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    model, batch = mlp(), BATCHES["mlp"]()
    here, there = (losses(model, device, OPTIMIZERS[name], batch) for device in ("cpu", "ocl"))
    assert here == pytest.approx(there, abs=1e-4)


def test_training_leaves_the_device_only_for_what_has_no_kernel() -> None:
    from torch_netcl import fallback

    torch.manual_seed(0)
    fallback.calls.clear()
    for name in ("mlp", "cnn", "gpt"):
        losses(MODELS[name](), "ocl", OPTIMIZERS["adamw"], BATCHES[name]())
    assert fallback.calls == {}
