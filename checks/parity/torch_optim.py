"""Every optimizer at every option over 50 steps against PyTorch in float64, every schedule over 100 steps, and states
and files that go both ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
from netcl import nn, optim
from netcl.core import Tensor
from netcl.io import load_torch, save_torch

# Per optimizer, its options one by one; all of a list together make the last case where they go together.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.05}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3}, {"weight_decay": 0.1},
            {"momentum": 0.9, "nesterov": True}],
    "Adam": [{"lr": 0.01}, {"betas": (0.8, 0.95)}, {"eps": 1e-4}, {"weight_decay": 0.1}, {"amsgrad": True}],
    "AdamW": [{"lr": 0.01}, {"betas": (0.8, 0.95)}, {"eps": 1e-4}, {"weight_decay": 0.2}, {"amsgrad": True}],
    "RMSprop": [{"lr": 0.02}, {"alpha": 0.9}, {"eps": 1e-4}, {"weight_decay": 0.1}, {"momentum": 0.9},
                {"centered": True}],
    "NAdam": [{"lr": 0.01}, {"betas": (0.8, 0.95)}, {"eps": 1e-4}, {"weight_decay": 0.1}, {"momentum_decay": 0.02},
              {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{"lr": 0.01}, {"betas": (0.8, 0.95)}, {"eps": 1e-4}, {"weight_decay": 0.1},
              {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "Adamax": [{"lr": 0.01}, {"betas": (0.8, 0.95)}, {"eps": 1e-4}, {"weight_decay": 0.1}],
    "Adagrad": [{"lr": 0.1}, {"lr_decay": 0.01}, {"weight_decay": 0.1}, {"initial_accumulator_value": 0.2},
                {"eps": 1e-4}],
    "Adadelta": [{"lr": 0.5}, {"rho": 0.8}, {"eps": 1e-4}, {"weight_decay": 0.1}],
    "Adafactor": [{"lr": 0.1}, {"beta2_decay": -0.5}, {"eps": (1e-6, 1e-2)}, {"d": 2.0}, {"weight_decay": 0.1}],
}  # fmt: skip


def cases() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, options in OPTIONS.items():
        together = {key: value for option in options for key, value in option.items() if key != "dampening"}
        # SGD's default rate is netcl's own, as its documents have it.
        rate = {"lr": 0.01} if name == "SGD" else {}
        found += [(name, {**rate, **option}) for option in [{}, *options, {"maximize": True}, together]]
    return found


def steps(name: str, options: dict[str, Any], seed: int = 5) -> tuple[Any, Any, np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((7, 5)).astype(np.float32)
    ours = ag.Parameter(Tensor.from_host(start))
    return (
        ours,
        getattr(optim, name)([ours], **options),
        start,
        list(rng.standard_normal((50, 7, 5)).astype(np.float32)),
    )


@pytest.mark.parametrize(("name", "options"), cases())
def test_fifty_steps(name: str, options: dict[str, Any]) -> None:
    p, optimizer, start, grads = steps(name, options)
    theirs = dict(options)
    if name == "Adafactor" and "eps" not in theirs:
        theirs["eps"] = (2.0**-23, 1e-3)  # the spacing of float32, which is what PyTorch takes for float32
    q = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    expected = getattr(torch.optim, name)([q], **theirs)
    for grad in grads:
        p.grad, q.grad = Tensor.from_host(grad), torch.tensor(grad, dtype=torch.float64)
        optimizer.step()
        expected.step()
    np.testing.assert_allclose(p.to_host(), q.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", OPTIONS)
def test_states_go_both_ways_through_files(name: str, tmp_path: Path) -> None:
    """25 steps here and 25 there, or the other way round, end where 50 there do."""
    options = {"lr": 0.01} if name == "SGD" else {}
    p, optimizer, start, grads = steps(name, options)
    whole = torch.tensor(start, requires_grad=True)
    q = torch.tensor(start, requires_grad=True)
    expected, theirs = (getattr(torch.optim, name)([one], **options) for one in (whole, q))
    for grad in grads[:25]:
        p.grad, q.grad, whole.grad = Tensor.from_host(grad), torch.tensor(grad), torch.tensor(grad)
        optimizer.step(), theirs.step(), expected.step()
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    save_torch(optimizer.state_dict(), tmp_path / "ours.pt")
    optimizer.load_state_dict(load_torch(tmp_path / "theirs.pt"))
    theirs.load_state_dict(torch.load(tmp_path / "ours.pt", weights_only=True))
    for grad in grads[25:]:
        p.grad, q.grad, whole.grad = Tensor.from_host(grad), torch.tensor(grad), torch.tensor(grad)
        optimizer.step(), theirs.step(), expected.step()
    np.testing.assert_allclose(p.to_host(), whole.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(q.detach().numpy(), whole.detach().numpy(), rtol=1e-4, atol=1e-6)


SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 7}),
    ("StepLR", {"step_size": 7, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [5, 30, 30, 80], "gamma": 0.3}),
    ("ExponentialLR", {"gamma": 0.97}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 11}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.8, "total_iters": 40}),
    ("PolynomialLR", {"total_iters": 60, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 100}),
    ("CosineAnnealingLR", {"T_max": 30, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7, "T_mult": 2, "eta_min": 0.001}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 101}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 101, "anneal_strategy": "linear", "three_phase": True}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9**epoch + 0.1}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_a_hundred_steps_of_a_schedule(name: str, options: dict[str, Any]) -> None:
    ours = optim.SGD([ag.Parameter(Tensor.zeros((1,)))], lr=0.1, momentum=0.9)
    theirs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    schedule, expected = (
        getattr(optim, name)(ours, **options),
        getattr(torch.optim.lr_scheduler, name)(theirs, **options),
    )
    for _ in range(100):
        for group, other in zip(ours.param_groups, theirs.param_groups):
            np.testing.assert_allclose((group["lr"], group["momentum"]), (other["lr"], other["momentum"]), rtol=1e-7)
        schedule.step()
        expected.step()


@pytest.mark.filterwarnings("ignore")
def test_a_hundred_steps_of_schedules_in_turn_and_of_a_plateau() -> None:
    ours = optim.SGD([ag.Parameter(Tensor.zeros((1,)))], lr=0.1)
    theirs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    there = torch.optim.lr_scheduler
    pairs = [(optim, ours), (there, theirs)]
    chains = [
        module.SequentialLR(o, [module.LinearLR(o, total_iters=10), module.ExponentialLR(o, 0.95)], milestones=[10])
        for module, o in pairs
    ]
    for _ in range(100):
        assert ours.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-7)
        [chain.step() for chain in chains]
    for options in ({}, {"mode": "max", "factor": 0.5, "patience": 3, "cooldown": 2, "min_lr": 1e-3}):
        for o in (ours, theirs):
            o.param_groups[0]["lr"] = 0.1
        plateaus = [module.ReduceLROnPlateau(o, **options) for module, o in pairs]
        for metric in np.random.default_rng(1).uniform(0, 1, 100):
            [plateau.step(float(metric)) for plateau in plateaus]
            assert ours.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-7)


@pytest.mark.parametrize("new", [True, False])
def test_models_go_both_ways_through_files(new: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten()).eval()
    ours = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten()).eval()
    torch.save(theirs.state_dict(), tmp_path / "m.pt", _use_new_zipfile_serialization=new)
    load_torch(tmp_path / "m.pt", ours)
    x = np.random.default_rng(0).standard_normal((2, 2, 5, 5)).astype(np.float32)
    expected = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(Tensor.from_host(x)).to_host(), expected, rtol=1e-5, atol=1e-6)
    save_torch(ours, tmp_path / "back.pt")
    for options in ({"weights_only": True}, {"weights_only": False}, {"mmap": True}):
        back = torch.load(tmp_path / "back.pt", **options)
        for name, tensor in theirs.state_dict().items():
            assert torch.equal(tensor, back[name])
            assert tensor.dtype == back[name].dtype
