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
    "ASGD": [{"lr": 0.05}, {"lambd": 0.1}, {"alpha": 0.5}, {"t0": 7.0}, {"weight_decay": 0.1}],
    "Rprop": [{"lr": 0.05}, {"etas": (0.3, 1.5)}, {"step_sizes": (1e-2, 0.1)}],
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


def test_the_states_of_adagrad_before_the_first_step() -> None:
    def states(library: Any, leaf: Any) -> list[Any]:
        given, added = leaf((2, 3)), leaf((4,))
        options = {"params": [given], "initial_accumulator_value": 0.5}
        optimizer = library.Adagrad([options, {"params": [leaf((1,))]}], initial_accumulator_value=0.25)
        optimizer.add_param_group({"params": [added]})
        found = []
        for _ in range(2):
            state = optimizer.state_dict()["state"]
            found.append({at: (float(one["step"]), np.asarray(one["sum"]).tolist()) for at, one in state.items()})
            given.grad, added.grad = leaf((2, 3)), leaf((4,))
            optimizer.step()
        return found

    ours = states(optim, lambda shape: ag.Parameter(Tensor.full(shape, 2.0)))
    assert ours == states(torch.optim, lambda shape: torch.full(shape, 2.0, requires_grad=True))


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
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.99 if epoch % 7 else 1.02}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 7}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 7, "step_size_down": 4, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 5, "mode": "exp_range", "gamma": 0.98}),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 5, "scale_fn": lambda c: 1 / c, "cycle_momentum": False},
    ),
    (
        "CyclicLR",
        {
            "base_lr": 0.01,
            "max_lr": 0.3,
            "step_size_up": 5,
            "scale_fn": lambda e: 0.9**e,
            "scale_mode": "iterations",
            "base_momentum": 0.5,
            "max_momentum": 0.95,
        },
    ),
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


# Schedules that keep a part of their state in the optimizer's groups, each with options of another one.
CROSSING: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 41}, {"max_lr": 0.9, "total_steps": 60}),
    (
        "OneCycleLR",
        {"max_lr": 0.3, "total_steps": 41, "anneal_strategy": "linear", "three_phase": True, "div_factor": 9.0},
        {"max_lr": 0.3, "total_steps": 41},
    ),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 41, "cycle_momentum": False}, {}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 7}, {"base_momentum": 0.5}),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 5, "step_size_down": 3, "mode": "exp_range", "gamma": 0.98},
        {"base_lr": 0.2, "max_lr": 0.3, "gamma": 0.5},
    ),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 7, "mode": "triangular2", "cycle_momentum": False},
        {},
    ),
    ("SWALR", {"swa_lr": 0.02}, {"swa_lr": 0.7, "anneal_epochs": 2}),
    ("SWALR", {"swa_lr": 0.02, "anneal_epochs": 20, "anneal_strategy": "linear"}, {"anneal_strategy": "cos"}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("from_torch", [False, True])
@pytest.mark.parametrize(("name", "options", "others"), CROSSING)
def test_a_schedule_goes_on_in_the_other_library(
    name: str, options: dict[str, Any], others: dict[str, Any], from_torch: bool
) -> None:
    def made(library: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        parameter = torch.zeros(1, requires_grad=True) if library is torch else ag.Parameter(Tensor.zeros((1,)))
        optimizer = (torch.optim if library is torch else optim).SGD([parameter], lr=0.1, momentum=0.9)
        place = torch.optim.swa_utils if name == "SWALR" else torch.optim.lr_scheduler
        return optimizer, getattr(place if library is torch else optim, name)(optimizer, **options)

    first, second = (torch, optim) if from_torch else (optim, torch)
    begun, reference = made(first, options), made(torch, options)
    for _ in range(11):
        begun[1].step(), reference[1].step()
    states = [one.state_dict() for one in begun]
    assert set(states[1]) == set(reference[1].state_dict())
    going = made(second, {**options, **others})
    for one, state in zip(going, states):
        one.load_state_dict(state)
    for _ in range(29):
        group, expected = going[0].param_groups[0], reference[0].param_groups[0]
        np.testing.assert_allclose((group["lr"], group["momentum"]), (expected["lr"], expected["momentum"]), rtol=1e-7)
        going[1].step(), reference[1].step()


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


CHAINS: list[list[tuple[str, dict[str, Any]]]] = [
    [("ConstantLR", {"factor": 0.1, "total_iters": 20}), ("ExponentialLR", {"gamma": 0.95})],
    [("LinearLR", {"start_factor": 0.2, "total_iters": 9}), ("CosineAnnealingLR", {"T_max": 150, "eta_min": 0.01})],
    [("StepLR", {"step_size": 9, "gamma": 0.7}), ("PolynomialLR", {"total_iters": 120, "power": 0.7})],
    [("MultiStepLR", {"milestones": [3, 40]}), ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.98})],
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("chain", CHAINS)
def test_schedules_of_one_optimizer_combine(chain: list[tuple[str, dict[str, Any]]], chained: bool) -> None:
    pairs = [
        (optim.SGD([ag.Parameter(Tensor.zeros((1,)))], lr=0.1), optim.lr_scheduler),
        (torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1), torch.optim.lr_scheduler),
    ]
    schedules = [[getattr(module, name)(o, **options) for name, options in chain] for o, module in pairs]
    if chained:
        schedules = [[module.ChainedScheduler(made, o)] for made, (o, module) in zip(schedules, pairs)]
    for _ in range(100):
        ours, theirs = (o.param_groups[0]["lr"] for o, _ in pairs)
        assert ours == pytest.approx(theirs, rel=1e-6)
        [schedule.step() for made in schedules for schedule in made]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"anneal_epochs": 3, "anneal_strategy": "linear"}, {"anneal_epochs": 0}])
def test_the_rate_of_a_swa_after_another_schedule(options: dict[str, Any]) -> None:
    pairs = [
        (optim.SGD([ag.Parameter(Tensor.zeros((1,)))], lr=0.1), optim.lr_scheduler, optim.swa_utils),
        (
            torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1),
            torch.optim.lr_scheduler,
            torch.optim.swa_utils,
        ),
    ]
    first = [module.ExponentialLR(o, 0.9) for o, module, _ in pairs]
    last = [swa.SWALR(o, swa_lr=0.02, **options) for o, _, swa in pairs]
    for epoch in range(40):
        ours, theirs = (o.param_groups[0]["lr"] for o, _, _ in pairs)
        assert ours == pytest.approx(theirs, rel=1e-6)
        [schedule.step() for schedule in (first if epoch < 9 else last)]


@pytest.mark.parametrize("name", ["plain", "ema", "average", "buffers"])
def test_averaged_models(name: str) -> None:
    options: dict[str, Any] = {
        "plain": lambda swa: {},
        "ema": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)},
        "average": lambda swa: {"avg_fn": lambda averaged, current, count: averaged * 0.5 + current * 0.25},
        "buffers": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.7), "use_buffers": True},
    }[name]
    made = [library.Sequential(library.Linear(3, 4), library.BatchNorm1d(4)) for library in (nn, torch.nn)]
    averages = [swa.AveragedModel(model, **options(swa))
                for swa, model in zip((optim.swa_utils, torch.optim.swa_utils), made)]  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(5):
        state = {key: rng.standard_normal(tuple(value.shape)).astype(np.float32)
                 for key, value in made[1].state_dict().items() if "num" not in key}  # fmt: skip
        state["1.num_batches_tracked"] = np.asarray(rng.integers(9))
        made[0].load_state_dict(state)
        made[1].load_state_dict({key: torch.tensor(value) for key, value in state.items()})
        [average.update_parameters(model) for average, model in zip(averages, made)]
    ours, theirs = (average.state_dict() for average in averages)
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        if not key.endswith("num_batches_tracked") or name != "buffers":
            np.testing.assert_allclose(ours[key].to_host(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)


def rosenbrock(x: Any) -> Any:
    return ((1 - x[:-1]) ** 2).sum() + 100 * ((x[1:] - x[:-1] ** 2) ** 2).sum()


@pytest.mark.parametrize(
    "options",
    [{"lr": 0.05}, {"lr": 0.05, "max_iter": 7, "history_size": 3}, {"line_search_fn": "strong_wolfe"},
     {"line_search_fn": "strong_wolfe", "max_iter": 5, "history_size": 2, "max_eval": 9}],
)  # fmt: skip
def test_lbfgs(options: dict[str, Any]) -> None:
    start = np.linspace(-1.2, 1.1, 6)
    ours = ag.Parameter(Tensor.from_host(start, dtype="float64"))
    theirs = torch.tensor(start, requires_grad=True)
    pairs: list[tuple[Any, Any]] = [
        (ours, optim.LBFGS([ours], **options)),
        (theirs, torch.optim.LBFGS([theirs], **options)),
    ]
    for step in range(6):
        losses = []
        for x, optimizer in pairs:

            def closure(x: Any = x, optimizer: Any = optimizer) -> Any:
                optimizer.zero_grad()
                loss = rosenbrock(x)
                loss.backward()
                return loss

            losses.append(optimizer.step(closure).item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-10), step
        np.testing.assert_allclose(ours.to_host(), theirs.detach().numpy(), rtol=1e-6, atol=1e-7)
        counts = [optimizer.state[x]["func_evals"] for x, optimizer in pairs]
        assert counts[0] == counts[1], step


@pytest.mark.parametrize("shape", [(6, 6), (3, 8), (9, 4)])
@pytest.mark.parametrize("options", [{}, {"nesterov": False, "lr": 0.02}, {"adjust_lr_fn": "match_rms_adamw"}])
def test_muon(shape: tuple[int, int], options: dict[str, Any]) -> None:
    """PyTorch iterates in bfloat16, so that the directions agree to its digits."""
    rng = np.random.default_rng(3)
    start = rng.standard_normal(shape).astype(np.float32)
    p, q = ag.Parameter(Tensor.from_host(start)), torch.tensor(start, requires_grad=True)
    ours, theirs = optim.Muon([p], **options), torch.optim.Muon([q], **options)
    for _ in range(5):
        grad = rng.standard_normal(shape).astype(np.float32)
        p.grad, q.grad = Tensor.from_host(grad), torch.tensor(grad)
        ours.step()
        theirs.step()
    moved = np.abs(q.detach().numpy() - start).max()
    np.testing.assert_allclose(p.to_host(), q.detach().numpy(), atol=0.05 * moved)
    assert ours.state_dict()["state"][0].keys() == theirs.state_dict()["state"][0].keys()


def test_optimizers_written_for_pytorch_run() -> None:
    """A subclass with a step of its own, which fills ``state[p]``."""

    def made(library: Any) -> Any:
        class Halving(library.Optimizer):  # type: ignore[misc]
            def __init__(self, params: Any, lr: float = 0.1) -> None:
                super().__init__(params, {"lr": lr})

            def step(self, closure: Any = None) -> None:
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if len(state) == 0:
                            state["step"], state["sum"] = 0, p.detach() * 0
                        state["step"] += 1
                        state["sum"] = state["sum"] / 2 + p.grad
                        p.data = p.data - group["lr"] * state["sum"]

        return Halving

    start = np.arange(4.0, dtype=np.float32)
    pairs: list[tuple[Any, Any]] = [(ag.Parameter(Tensor.from_host(start)), made(optim)),
                                    (torch.nn.Parameter(torch.tensor(start)), made(torch.optim))]  # fmt: skip
    optimizers = [kind([p]) for p, kind in pairs]
    calls: list[int] = []
    for at, optimizer in enumerate(optimizers):
        optimizer.register_step_pre_hook(lambda optimizer, args, kwargs, at=at: calls.append(at))
        optimizer.register_step_post_hook(lambda optimizer, args, kwargs, at=at: calls.append(10 + at))
    for turn in range(4):
        for (p, _), optimizer in zip(pairs, optimizers):
            p.grad = (p.detach() + 1) * 0.5
            optimizer.step()
        if turn == 1:
            for at, ((p, kind), optimizer) in enumerate(zip(pairs, optimizers)):
                state = optimizer.state_dict()
                optimizers[at] = kind([p])
                optimizers[at].load_state_dict(state)
    np.testing.assert_allclose(pairs[0][0].to_host(), pairs[1][0].detach().numpy(), rtol=1e-6)
    assert optimizers[0].state_dict()["state"][0]["step"] == 4
    assert calls == [0, 10, 1, 11] * 2


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
