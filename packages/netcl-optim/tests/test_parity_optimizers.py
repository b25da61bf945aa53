"""Optimizers and schedules against PyTorch over 50 and 100 steps, and its checkpoints loaded here and ours there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import optim
from netcl.core import Tensor

torch: Any = pytest.importorskip("torch", reason="PyTorch, to compare with, is not installed")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "maximize": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.2, "amsgrad": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.01}),
    ("RAdam", {}),
    ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.2}),
    ("Adadelta", {"rho": 0.8, "weight_decay": 0.1}),
    ("Adafactor", {"weight_decay": 0.1}),
]


def pair(name: str, options: dict[str, Any], start: np.ndarray, parameter: Any) -> tuple[Any, Any, Any, Any]:
    ours, theirs = parameter(start), torch.tensor(start, requires_grad=True)
    return ours, getattr(optim, name)([ours], **options), theirs, getattr(torch.optim, name)([theirs], **options)


def both_step(p: Any, optimizer: Any, q: Any, expected: Any, grad: np.ndarray) -> None:
    p.grad, q.grad = Tensor.from_host(grad), torch.tensor(grad)
    optimizer.step()
    expected.step()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_fifty_steps(name: str, options: dict[str, Any], rng, parameter) -> None:
    p, optimizer, q, expected = pair(name, options, rng.standard_normal((7, 5)).astype(np.float32), parameter)
    for _ in range(50):
        both_step(p, optimizer, q, expected, rng.standard_normal((7, 5)).astype(np.float32))
    np.testing.assert_allclose(p.to_host(), q.detach().numpy(), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_states_go_both_ways(name: str, options: dict[str, Any], rng, parameter) -> None:
    start = rng.standard_normal((3, 4)).astype(np.float32)
    grads = rng.standard_normal((12, 3, 4)).astype(np.float32)
    p, optimizer, q, expected = pair(name, options, start, parameter)
    for grad in grads[:6]:
        both_step(p, optimizer, q, expected, grad)
    fresh, loaded, fresh_q, loaded_q = pair(name, options, q.detach().numpy().copy(), parameter)
    loaded.load_state_dict(expected.state_dict())
    state = optimizer.state_dict()
    for entry in state["state"].values():
        entry.update({k: torch.tensor(v.to_host() if isinstance(v, Tensor) else v) for k, v in entry.items()})
    loaded_q.load_state_dict({**expected.state_dict(), "state": state["state"]})
    for grad in grads[6:]:
        both_step(fresh, loaded, fresh_q, loaded_q, grad)
        q.grad = torch.tensor(grad)
        expected.step()
    np.testing.assert_allclose(fresh.to_host(), q.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fresh_q.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-6)


SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 7, "gamma": 0.7}),
    ("MultiStepLR", {"milestones": [10, 55]}),
    ("ExponentialLR", {"gamma": 0.96}),
    ("ConstantLR", {}),
    ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 30}),
    ("PolynomialLR", {"total_iters": 60, "power": 1.5}),
    ("CosineAnnealingLR", {"T_max": 100, "eta_min": 0.01}),
    ("CosineAnnealingLR", {"T_max": 30}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7, "T_mult": 2}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 100}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 100, "three_phase": True, "anneal_strategy": "linear"}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9**epoch}),
]


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_schedules(name: str, options: dict[str, Any], parameter) -> None:
    ours = optim.SGD([parameter([1.0])], lr=0.5, momentum=0.9)
    theirs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5, momentum=0.9)
    schedule = getattr(optim, name)(ours, **options)
    expected = getattr(torch.optim.lr_scheduler, name)(theirs, **options)
    for _ in range(100):
        for key in ("lr", "momentum"):
            assert ours.param_groups[0][key] == pytest.approx(theirs.param_groups[0][key], rel=1e-6, abs=1e-12)
        schedule.step()
        expected.step()


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "max", "factor": 0.5, "patience": 1, "cooldown": 2}, {"threshold_mode": "abs", "patience": 3}],
)
def test_plateau(options: dict[str, Any], rng, parameter) -> None:
    ours = optim.SGD([parameter([1.0])], lr=0.5)
    theirs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = optim.ReduceLROnPlateau(ours, **options)
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for metric in rng.uniform(0, 1, 100):
        schedule.step(metric)
        expected.step(metric)
        assert ours.lr == pytest.approx(theirs.param_groups[0]["lr"])


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_clipping(norm_type: float, rng, parameter) -> None:
    grads = [rng.standard_normal(shape).astype(np.float32) for shape in [(3, 4), (5,), ()]]
    ours = [parameter(np.zeros(g.shape), g) for g in grads]
    theirs = [torch.zeros(g.shape, requires_grad=True) for g in grads]
    for q, g in zip(theirs, grads):
        q.grad = torch.tensor(g)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type)
    assert optim.clip_grad_norm(ours, 0.7, norm_type) == pytest.approx(float(expected), rel=1e-5)
    for p, q in zip(ours, theirs):
        np.testing.assert_allclose(p.grad.to_host(), q.grad.numpy(), rtol=1e-5)
