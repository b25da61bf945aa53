"""Schedules: each against its formula over 100 epochs, and their state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import optim
from netcl.core import Tensor
from netcl.optim import lr_scheduler

BASE = 0.4


def cosine(high: float, low: float, done: float) -> float:
    return low + (high - low) * (1 + math.cos(math.pi * done)) / 2


def warm_restarts(e: int) -> float:
    length = 10
    while e >= length:
        e, length = e - length, 2 * length
    return cosine(BASE, 0.01, e / length)


def one_cycle(e: int) -> float:
    low, high = 0.5 / 25, 0.5
    return cosine(low, high, e / 29) if e <= 29 else cosine(high, low / 1e4, (e - 29) / 71)


CASES: list[tuple[str, dict[str, Any], Callable[[int], float]]] = [
    ("StepLR", {"step_size": 7, "gamma": 0.5}, lambda e: BASE * 0.5 ** (e // 7)),
    ("MultiStepLR", {"milestones": [30, 5, 80]}, lambda e: BASE * 0.1 ** sum(e >= m for m in (5, 30, 80))),
    ("ExponentialLR", {"gamma": 0.97}, lambda e: BASE * 0.97**e),
    ("ConstantLR", {"factor": 0.5, "total_iters": 4}, lambda e: BASE * (0.5 if e < 4 else 1)),
    ("LinearLR", {"start_factor": 0.1, "total_iters": 20}, lambda e: BASE * (0.1 + 0.9 * min(e, 20) / 20)),
    ("PolynomialLR", {"total_iters": 50, "power": 2.0}, lambda e: BASE * (1 - min(e, 50) / 50) ** 2),
    ("CosineAnnealingLR", {"T_max": 100, "eta_min": 0.02}, lambda e: cosine(BASE, 0.02, e / 100)),
    ("CosineAnnealingWarmRestarts", {"T_0": 10, "T_mult": 2, "eta_min": 0.01}, warm_restarts),
    ("CosineAnnealingWarmRestarts", {"T_0": 8}, lambda e: cosine(BASE, 0.0, e % 8 / 8)),
    (
        "WarmupCosine",
        {"max_epochs": 90, "warmup_epochs": 5, "min_lr": 0.001},
        lambda e: BASE * (e + 1) / 6 if e < 5 else cosine(BASE, 0.001, min(1, (e - 5) / 85)),
    ),
    ("LambdaLR", {"lr_lambda": lambda e: 1 / (e + 1)}, lambda e: BASE / (e + 1)),
    ("MultiplicativeLR", {"lr_lambda": lambda e: 0.95}, lambda e: BASE * 0.95**e),
    ("SWALR", {"swa_lr": 0.05, "anneal_epochs": 8}, lambda e: cosine(BASE, 0.05, min(e, 8) / 8)),
    ("SWALR", {"swa_lr": 0.05, "anneal_strategy": "linear"}, lambda e: BASE + (0.05 - BASE) * min(e, 10) / 10),
    (
        "CyclicLR",
        {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 4, "step_size_down": 6, "cycle_momentum": False},
        lambda e: 0.1 + 0.4 * (e % 10 / 4 if e % 10 < 4 else (10 - e % 10) / 6),
    ),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 101, "cycle_momentum": False, "pct_start": 30 / 101}, one_cycle),
]


@pytest.mark.parametrize(("name", "options", "formula"), CASES)
def test_a_hundred_epochs(name: str, options: dict[str, Any], formula: Callable[[int], float], parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=BASE)
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    for epoch in range(100):
        assert schedule.get_last_lr() == [optimizer.lr] == pytest.approx([formula(epoch)], rel=1e-9, abs=1e-12), epoch
        schedule.step()


@pytest.mark.parametrize(("name", "options", "formula"), CASES)
def test_a_loaded_schedule_goes_on(
    name: str, options: dict[str, Any], formula: Callable[[int], float], parameter
) -> None:
    first = optim.SGD([parameter([1.0])], lr=BASE)
    schedule = getattr(optim, name)(first, **options)
    for _ in range(33):
        schedule.step()
    second = optim.SGD([parameter([1.0])], lr=99.0)
    other = getattr(optim, name)(second, **options)
    other.load_state_dict(schedule.state_dict())
    assert second.lr == first.lr
    schedule.step()
    other.step()
    assert second.lr == first.lr == pytest.approx(formula(34))


def test_warmup_cosine_ends_at_min_lr(parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.WarmupCosine(optimizer, max_epochs=10, warmup_epochs=3, min_lr=0.125)
    rates = []
    for _ in range(12):
        rates.append(optimizer.lr)
        schedule.step()
    assert rates[0] > 0
    assert max(rates) == rates[3] == 1.0
    assert rates[10] == rates[11] == 0.125


def test_one_cycle_moves_the_momentum_the_other_way(parameter) -> None:
    sgd = optim.SGD([parameter([1.0])], lr=0.1, momentum=0.9)
    schedule = optim.OneCycleLR(sgd, max_lr=1.0, total_steps=21, pct_start=11 / 21)
    momenta, rates = [], []
    for _ in range(21):
        momenta.append(sgd.param_groups[0]["momentum"])
        rates.append(sgd.lr)
        schedule.step()
    assert momenta[0] == 0.95
    assert momenta[10] == pytest.approx(0.85)
    assert momenta[20] == pytest.approx(0.95)
    assert np.argmax(rates) == np.argmin(momenta) == 10
    assert rates[20] == pytest.approx(1.0 / 25 / 1e4)
    with pytest.raises(ValueError, match="21 steps"):
        schedule.step()
    adam = optim.Adam([parameter([1.0])])
    optim.OneCycleLR(adam, max_lr=1.0, epochs=2, steps_per_epoch=5)
    assert adam.param_groups[0]["betas"] == (0.95, 0.999)


@pytest.mark.parametrize("three_phase", [False, True])
def test_one_cycle_ends_a_loop_that_steps_after_each_update(three_phase: bool, parameter) -> None:
    sgd = optim.SGD([parameter([1.0])], lr=0.5, momentum=0.9)
    schedule = optim.OneCycleLR(sgd, max_lr=1.0, total_steps=40, anneal_strategy="linear", three_phase=three_phase)
    for _ in range(40):
        assert sgd.lr > 0
        schedule.step()
    assert sgd.lr == 0  # on the line of the last phase it would be below
    with pytest.raises(ValueError, match="was made for 40 steps"):
        schedule.step()


OLDER: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "OneCycleLR",
        {"max_lr": 0.5, "total_steps": 30, "three_phase": True, "anneal_strategy": "linear", "final_div_factor": 10.0},
        {
            "total_steps": 30,
            "anneal_strategy": "linear",
            "final_div_factor": 10.0,
            "three_phase": True,
            "base_momentum": 0.85,
            "max_momentum": 0.95,
            "cycle_momentum": True,
            "ends": [8.0, 16.0, 29.0],
            "max_lrs": [0.5],
            "base_lrs": [0.02],
        },
    ),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 4, "step_size_down": 6, "mode": "exp_range", "gamma": 0.9},
        {
            "max_lrs": [0.5],
            "step_size_up": 4.0,
            "step_size_down": 6.0,
            "mode": "exp_range",
            "gamma": 0.9,
            "scale_mode": "iterations",
            "cycle_momentum": True,
            "base_momentums": [0.8],
            "max_momentums": [0.9],
            "base_lrs": [0.01],
        },
    ),
    ("SWALR", {"swa_lr": 0.05}, {"swa_lrs": [0.05], "anneal_epochs": 10, "anneal_strategy": "cos", "base_lrs": [0.1]}),
]


@pytest.mark.parametrize(("name", "options", "older"), OLDER)
def test_states_under_the_keys_of_an_earlier_netcl_load(name: str, options: Any, older: Any, parameter) -> None:
    made = [optim.SGD([parameter([1.0])], lr=0.1, momentum=0.9) for _ in range(2)]
    schedule = getattr(optim, name)(made[0], **options)
    for _ in range(5):
        schedule.step()
    changed = {key: value * 0.7 for key, value in options.items() if key in ("max_lr", "swa_lr")}
    other = getattr(optim, name)(made[1], **{**options, **changed})
    other.load_state_dict({**older, "last_epoch": 5})
    if name == "SWALR":
        made[1].lr = made[0].lr  # it goes on from the rate of the optimizer's own state
    for _ in range(9):
        ours, theirs = (optimizer.param_groups[0] for optimizer in made)
        assert (ours["lr"], ours["momentum"]) == pytest.approx((theirs["lr"], theirs["momentum"]))
        schedule.step()
        other.step()
    assert set(other.state_dict()) == set(schedule.state_dict())


def test_the_state_of_a_scale_that_is_an_object(parameter) -> None:
    class Falling:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def __call__(self, cycle: float) -> float:
            return self.rate**cycle

    def made(rate: float) -> Any:
        optimizer = optim.SGD([parameter([1.0])], lr=0.1, momentum=0.9)
        return optim.CyclicLR(optimizer, 0.01, 0.5, 3, scale_fn=Falling(rate))

    first, second = made(0.5), made(0.9)
    assert first.state_dict()["_scale_fn_custom"] == {"rate": 0.5}
    for _ in range(4):
        first.step()
    second.load_state_dict(first.state_dict())
    assert second.get_last_lr() == first.get_last_lr()


def test_sequential(parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=BASE)
    warm = optim.LinearLR(optimizer, start_factor=0.25, total_iters=4)
    schedule = optim.SequentialLR(optimizer, [warm, optim.CosineAnnealingLR(optimizer, T_max=10)], milestones=[4])
    for epoch in range(15):
        expected = BASE * (0.25 + 0.75 * epoch / 4) if epoch < 4 else cosine(BASE, 0, (epoch - 4) / 10)
        assert optimizer.lr == pytest.approx(expected), epoch
        state = schedule.state_dict()
        schedule.step()
    schedule.load_state_dict(state)
    assert schedule.last_epoch == 14
    assert optimizer.lr == pytest.approx(0, abs=1e-12)


def test_plateau(parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, threshold=0.1, min_lr=0.2)
    rates = []
    for metric in (10.0, 9.5, 9.2, 9.1, 8.9, 9, 9, 9, 9, 9, 9, 9, 9, 9):
        schedule.step(metric)
        rates.append(optimizer.lr)
    # 9.5 to 9.1 are within a tenth of 10: the third of them reduces; 8.9 is better.
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2]
    other_optimizer = optim.SGD([parameter([1.0])], lr=7.0)
    other = optim.ReduceLROnPlateau(other_optimizer, factor=0.5, patience=2, threshold=0.1, min_lr=0.2)
    other.load_state_dict(schedule.state_dict())
    assert other_optimizer.lr == 0.2
    assert other.best == 8.9


def test_plateau_upwards_with_cooldown(parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.ReduceLROnPlateau(
        optimizer, mode="max", factor=0.5, patience=0, threshold=0.01, threshold_mode="abs", cooldown=2
    )
    rates = []
    for metric in (0.5, 0.505, 0.505, 0.505, 0.505, 0.52):
        schedule.step(metric)
        rates.append(optimizer.lr)
    assert rates == [1.0, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_bad_arguments(parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    with pytest.raises(TypeError, match="Optimizer"):
        optim.StepLR("sgd", 3)
    with pytest.raises(ValueError, match="T_max"):
        optim.CosineAnnealingLR(optimizer, 0)
    with pytest.raises(ValueError, match="warmup_epochs"):
        optim.WarmupCosine(optimizer, 5, 5)
    with pytest.raises(ValueError, match="milestones"):
        optim.SequentialLR(optimizer, [optim.StepLR(optimizer, 3)], [2])
    with pytest.raises(ValueError, match="initial_lr"):
        optim.StepLR(optim.SGD([parameter([1.0])]), 3, last_epoch=4)
    step = optim.StepLR(optimizer, 3)
    with pytest.raises(ValueError, match="StepLR keeps"):
        step.load_state_dict(optim.ExponentialLR(optimizer, 0.9).state_dict())


class Halving(optim.LRScheduler):
    """A schedule as written for PyTorch: its rates come from the optimizer's."""

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [group["lr"] for group in self.optimizer.param_groups]
        return [group["lr"] / 2 for group in self.optimizer.param_groups]


def test_a_schedule_may_define_get_lr() -> None:
    optimizer = optim.SGD([ag.Parameter(Tensor.ones((1,)))], lr=0.4)
    schedule = Halving(optimizer)
    for expected in (0.2, 0.1):
        schedule.step()
        assert schedule.get_last_lr() == [pytest.approx(expected)]
    state = schedule.state_dict()
    schedule.step()
    schedule.load_state_dict(state)
    assert schedule.get_last_lr() == [pytest.approx(0.1)]
    assert optim.StepLR(optimizer, 2).get_lr() == [pytest.approx(0.4)]


def test_a_state_of_pytorchs_schedule_is_loaded() -> None:
    optimizer = optim.SGD([ag.Parameter(Tensor.ones((1,)))], lr=1.0)
    schedule = optim.StepLR(optimizer, 2)
    flags = {"_is_initial": False, "_get_lr_called_within_step": False}
    state = {"step_size": 2, "gamma": 0.1, "base_lrs": [1.0], "last_epoch": 3, "_step_count": 4, "_last_lr": [0.1]}
    schedule.load_state_dict({**state, **flags})
    assert schedule.get_last_lr() == [pytest.approx(0.1)]
    assert set(schedule.state_dict()) == {*state, *flags}
    chain = optim.ChainedScheduler([schedule])
    chain.load_state_dict({"_schedulers": [state], "_last_lr": [0.1]})
    assert chain.get_last_lr() == [pytest.approx(0.1)]
    with pytest.raises(ValueError, match="StepLR keeps"):
        schedule.load_state_dict({"gamma": 0.1, "last_epoch": 3, "base_lrs": [1.0]})


def test_named_parameters_and_decoupled_decay() -> None:
    weights = {name: ag.Parameter(Tensor.ones((2,))) for name in ("a", "b")}
    optimizer = optim.Adam(weights.items(), lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
    other = ag.Parameter(Tensor.ones((2,)))
    reference = optim.AdamW([other], lr=0.1, weight_decay=0.1)
    for p in (*weights.values(), other):
        p.grad = Tensor.ones((2,))
    optimizer.step()
    reference.step()
    assert weights["a"].tolist() == other.tolist()


def test_plateau_takes_pytorchs_order() -> None:
    optimizer = optim.SGD([ag.Parameter(Tensor.ones((1,)))], lr=1.0)
    schedule = optim.ReduceLROnPlateau(optimizer, "min", 0.5, 0, 1e-4, "rel", 0, 0.3, 1e-8)
    for metric in (1.0, 1.0, 1.0, 1.0):
        schedule.step(metric)
    assert schedule.get_last_lr() == [0.3]
