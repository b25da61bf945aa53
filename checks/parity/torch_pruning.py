"""nn.utils.prune against PyTorch: masks, values, names and gradients for one seed; run by `nox -s parity`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.utils.prune

import netcl.torch as ours
from netcl.core.tensor.generator import default_generator

Made = Callable[[Any], Any]  # a pruned module of the module torch or netcl.torch


def every_second(t: Any) -> Any:
    class EverySecond(t.nn.utils.prune.BasePruningMethod):  # type: ignore[misc]
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, x: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    return EverySecond


def twice(t: Any, first: str, second: str, *options: Any) -> Any:
    layer = t.nn.Conv2d(3, 4, 2)
    getattr(t.nn.utils.prune, first)(layer, "weight", *options[0])
    return getattr(t.nn.utils.prune, second)(layer, "weight", *options[1])


def together(t: Any, method: str, **options: Any) -> Any:
    model = t.nn.Sequential(t.nn.Linear(5, 4), t.nn.ReLU(), t.nn.Linear(4, 3))
    pairs = [(model[0], "weight"), (model[2], "weight"), (model[0], "bias")]
    t.nn.utils.prune.global_unstructured(pairs, getattr(t.nn.utils.prune, method), amount=0.4)
    t.nn.utils.prune.global_unstructured(pairs, getattr(t.nn.utils.prune, method), **options)
    return model


CASES: dict[str, Made] = {
    "identity": lambda t: t.nn.utils.prune.identity(t.nn.Linear(5, 4), "bias"),
    "random elements": lambda t: t.nn.utils.prune.random_unstructured(t.nn.Conv2d(1, 6, 3), "weight", 0.3),
    "smallest elements": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.GRU(3, 4), "weight_hh_l0", amount=7),
    "random rows": lambda t: t.nn.utils.prune.random_structured(t.nn.Linear(5, 4), "weight", 2, 0),
    "random columns": lambda t: t.nn.utils.prune.random_structured(t.nn.Linear(5, 4), "weight", 0.5, dim=-1),
    "norm 1": lambda t: t.nn.utils.prune.ln_structured(t.nn.Conv2d(3, 4, 2), "weight", 0.5, 1, 0),
    "norm 2": lambda t: t.nn.utils.prune.ln_structured(t.nn.Conv2d(3, 4, 2), "weight", 1, n=2, dim=-3),
    "norm inf": lambda t: t.nn.utils.prune.ln_structured(t.nn.Conv2d(3, 4, 2), "weight", 1, float("inf"), 1),
    "Frobenius": lambda t: t.nn.utils.prune.ln_structured(t.nn.Linear(5, 4), "weight", 2, 2.0, 0),
    "a mask": lambda t: t.nn.utils.prune.custom_from_mask(t.nn.Linear(2, 3), "bias", mask=t.tensor([0.0, 1.0, 1.0])),
    "elements, then slices": lambda t: twice(t, "random_unstructured", "ln_structured", (0.3,), (1, 2, 0)),
    "slices, then elements": lambda t: twice(t, "random_structured", "l1_unstructured", (1, 1), (0.5,)),
    "slices, then slices": lambda t: twice(t, "ln_structured", "random_structured", (1, 1, 0), (1, 0)),
    "a mask, then elements": lambda t: twice(
        t, "custom_from_mask", "random_unstructured", ((t.ones(4, 3, 2, 2) - t.eye(2)),), (9,)
    ),
    "own method": lambda t: every_second(t).apply(t.nn.Linear(5, 4), "weight") and t.nn.Linear(2, 2),
    "all of a model": lambda t: together(t, "L1Unstructured", amount=5),
    "random of a model": lambda t: together(t, "RandomUnstructured", amount=0.25),
}


def seen(t: Any, made: Made) -> dict[str, Any]:
    t.manual_seed(5)
    module = made(t)
    found: dict[str, Any] = {name: value.tolist() for name, value in module.state_dict().items()}
    found["parameters"] = [name for name, _ in module.named_parameters()]
    found["buffers"] = [name for name, _ in module.named_buffers()]
    found["pruned"] = t.nn.utils.prune.is_pruned(module)
    for layer in module.modules():
        for name in [name.removesuffix("_mask") for name, _ in layer.named_buffers(recurse=False)]:
            value = getattr(layer, name)
            (value * value).sum().backward()
            found[f"gradient of {name}"] = getattr(layer, f"{name}_orig").grad.tolist()
            found[f"value of {name}"] = value.tolist()
            t.nn.utils.prune.remove(layer, name)
            assert isinstance(getattr(layer, name), t.nn.Parameter)
            found[f"{name} without a mask"] = getattr(layer, name).tolist()
    return found


@pytest.mark.parametrize("name", CASES)
def test_pruned_modules(name: str) -> None:
    before, default_generator.numbers = default_generator.numbers, "mt19937"
    try:
        mine = seen(ours, CASES[name])
    finally:
        default_generator.numbers = before
    assert mine == seen(torch, CASES[name])


def test_every_name_is_there() -> None:
    names = [name for name, value in vars(torch.nn.utils.prune).items() if hasattr(value, "__module__")]
    own = [n for n in names if getattr(torch.nn.utils.prune, n).__module__ == torch.nn.utils.prune.__name__]
    public = [name for name in own if not name.startswith("_")]
    assert len(public) == 17
    assert all(hasattr(ours.nn.utils.prune, name) for name in public)
