"""Training on the device against the CPU: the same weights and batches for five steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_networks import BATCHES, MODELS, OPTIMIZERS, mlp
from torch import nn

from torch_netcl import memory


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


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD"])
def test_a_fused_optimizer_takes_views_and_gradients_with_strides(kind: str) -> None:
    results = []
    for device in ("cpu", "ocl"):
        flat = torch.linspace(-1, 1, 24).to(device)
        leaves = [flat[:12].view(3, 4).detach().requires_grad_(), flat[12:].view(4, 3).t().detach().requires_grad_()]
        # On the CPU PyTorch's fused kernels read such memory in order, whatever its strides.
        optimizer = getattr(torch.optim, kind)(leaves, lr=0.1, fused=device == "ocl")
        for _ in range(3):
            for leaf in leaves:
                leaf.grad = (leaf.detach() * 2 + 1).t().contiguous().t()
            optimizer.step()
        results.append(flat.cpu())
    assert torch.allclose(*results, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "amsgrad": True}, {"maximize": True}])
def test_adam_over_lists_is_one_launch_with_pytorchs_numbers(kind: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))]
    models.append(copy.deepcopy(models[0]).to("ocl"))
    steppers = [kind(model.parameters(), lr=0.01, **options) for model in models]
    for at in range(5):
        x = torch.randn(4, 7)
        for model, stepper, device in zip(models, steppers, ("cpu", "ocl")):
            stepper.zero_grad()
            model(x.to(device)).square().sum().backward()
            if at and device == "ocl" and memory.ENGINE.name == "cl":  # the first step makes the moments
                before = len(memory.ENGINE.launcher.launched)
                stepper.step()
                assert len(memory.ENGINE.launcher.launched) == before + 1
            else:
                stepper.step()
        for here, there in zip(models[0].parameters(), models[1].parameters()):
            torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=2e-7)
    assert {float(state["step"]) for state in steppers[1].state.values()} == {5.0}
