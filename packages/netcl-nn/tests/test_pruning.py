"""nn.utils.prune: masks, the order of methods, what remains after remove, and errors."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.io import load_model, save_model
from netcl.nn.utils import prune


def layer(weight: Any) -> nn.Linear:
    values = np.array(weight, np.float32)
    made = nn.Linear(values.shape[1], values.shape[0])
    made.weight.write(values)
    return made


WEIGHT = [[1.0, -2.0, 3.0], [-0.5, 6.0, -4.0]]


def mask_of(module: nn.Module, name: str = "weight") -> Any:
    return getattr(module, f"{name}_mask").tolist()


def test_the_smallest_elements_are_pruned_and_get_no_gradient() -> None:
    model = layer(WEIGHT)
    before = model.weight
    assert prune.l1_unstructured(model, "weight", amount=0.5) is model
    assert mask_of(model) == [[0, 0, 1], [0, 1, 1]]
    assert model.weight.tolist() == [[0, 0, 3], [0, 6, -4]]
    assert model.weight_orig is before
    assert list(model.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert [name for name, _ in model.named_parameters()] == ["bias", "weight_orig"]
    ag.sum(model(Tensor.ones((1, 3)))).backward()
    assert before.grad.tolist() == [[0, 0, 1], [0, 1, 1]]
    before.data = Tensor.ones((2, 3))
    model(Tensor.ones((1, 3)))  # the forward pass masks the parameter again
    assert model.weight.tolist() == [[0, 0, 1], [0, 1, 1]]


def test_methods_prune_what_is_left_in_their_order() -> None:
    model = layer(WEIGHT)
    prune.l1_unstructured(model, "weight", amount=1)
    prune.ln_structured(model, "weight", amount=1, n=1, dim=1)  # norms 1, 8, 7
    assert mask_of(model) == [[0, 1, 1], [0, 1, 1]]
    prune.l1_unstructured(model, "weight", amount=0.5)  # of the four that are left
    assert mask_of(model) == [[0, 0, 0], [0, 1, 1]]
    (hook,) = model._forward_pre_hooks.values()
    assert [type(method) for method in hook] == [prune.L1Unstructured, prune.LnStructured, prune.L1Unstructured]
    assert len(hook) == 3
    assert hook[1].dim == 1
    prune.custom_from_mask(model, "weight", Tensor.from_host(np.eye(2, 3, 1, dtype=np.float32)))
    assert mask_of(model) == [[0, 0, 0], [0, 0, 1]]


def test_remove_keeps_the_values_and_the_parameter() -> None:
    model, x = layer(WEIGHT), Tensor.ones((2, 3))
    before = model.weight
    prune.l1_unstructured(model, "weight", amount=2)
    expected = model(x).to_host()
    assert prune.is_pruned(nn.Sequential(model))
    assert prune.remove(model, "weight") is model
    assert not prune.is_pruned(model)
    assert model.weight is before
    assert list(model.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(model(x).to_host(), expected)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(model, "weight")


@pytest.mark.parametrize(("amount", "count"), [(3, 3), (0.25, 5), (1.0, 20), (0, 0)])
def test_random_methods_prune_their_amount(amount: float, count: int) -> None:
    model = nn.Linear(5, 4)
    prune.random_unstructured(model, "weight", amount=amount)
    assert int((model.weight_mask.to_host() == 0).sum()) == count
    model = nn.Linear(5, 4)
    prune.random_structured(model, "weight", amount=0.5, dim=-2)
    rows = model.weight_mask.to_host()
    assert sorted(rows.sum(1).tolist()) == [0, 0, 5, 5]


def test_elements_of_several_tensors_are_compared() -> None:
    one, two = layer(WEIGHT), layer([[0.1, -0.2, 5.0]])
    pairs = [(one, "weight"), (two, "weight")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=3)
    assert (mask_of(one), mask_of(two)) == ([[1, 1, 1], [0, 1, 1]], [[0, 0, 1]])
    scores = {(one, "weight"): Tensor.from_host(np.array([[9, 9, 0.3], [9, 9, 9]], np.float32))}
    prune.global_unstructured(pairs, prune.L1Unstructured, scores, amount=1)
    assert (mask_of(one), mask_of(two)) == ([[1, 1, 0], [0, 1, 1]], [[0, 0, 1]])
    with pytest.raises(TypeError, match="LnStructured is not one"):
        prune.global_unstructured(pairs, prune.LnStructured, amount=1, n=1, dim=0)


def test_a_method_of_a_program() -> None:
    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    model = layer(WEIGHT)
    EverySecond.apply(model, "weight")
    assert mask_of(model) == [[0, 1, 0], [1, 0, 1]]
    EverySecond.apply(model, "weight")
    assert mask_of(model) == [[0, 0, 0], [1, 0, 0]]
    prune.identity(model, "bias")
    assert mask_of(model, "bias") == [1, 1]


def test_scores_in_place_of_the_tensor() -> None:
    values = Tensor.from_host(np.array([3.0, -1.0, 2.0], np.float32))
    method = prune.L1Unstructured(1)
    assert method.prune(values).tolist() == [3, 0, 2]
    assert method.prune(values, importance_scores=Tensor.from_host(np.array([1, 2, 3], np.float32))).tolist() == [
        0,
        -1,
        2,
    ]
    model = layer(WEIGHT)
    prune.l1_unstructured(
        model, "weight", 1, importance_scores=Tensor.from_host(np.array([[3, 2, 1], [4, 5, 6]], np.float32))
    )
    assert mask_of(model) == [[1, 1, 0], [1, 1, 1]]


def test_a_copy_and_a_state_of_a_pruned_module() -> None:
    model = layer(WEIGHT)
    prune.l1_unstructured(model, "weight", amount=4)
    other = copy.deepcopy(model)
    prune.remove(model, "weight")
    assert mask_of(other) == [[0, 0, 0], [0, 1, 1]]
    third = layer(np.zeros((2, 3)))
    prune.identity(third, "weight")
    third.load_state_dict(other.state_dict())
    x = Tensor.ones((1, 3))
    np.testing.assert_array_equal(third(x).to_host(), other(x).to_host())


@pytest.mark.level("programs")
def test_a_file_of_a_pruned_model(tmp_path: Path) -> None:
    model = nn.Sequential(layer(WEIGHT), nn.ReLU(), nn.Linear(2, 2))
    prune.l1_unstructured(model[0], "weight", amount=4)
    save_model(model, tmp_path / "model")
    other = load_model(tmp_path / "model")
    assert mask_of(other[0]) == [[0, 0, 0], [0, 1, 1]]
    assert prune.is_pruned(other)
    x = Tensor.ones((1, 3))
    np.testing.assert_array_equal(other(x).to_host(), model(x).to_host())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", amount=7), ValueError, "amount=7 is more than the 6"),
        (lambda m: prune.l1_unstructured(m, "weight", amount=1.5), ValueError, "got 1.5"),
        (lambda m: prune.l1_unstructured(m, "weight", amount=-1), ValueError, "got -1"),
        (lambda m: prune.l1_unstructured(m, "weight", amount="a"), TypeError, "expected a number, got 'a'"),
        (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "at least two axes"),
        (lambda m: prune.random_structured(m, "weight", 1, 2), IndexError, "no axis 2"),
        (lambda m: prune.l1_unstructured(m, "weight", 1, Tensor.ones((3,))), ValueError, "importance_scores have"),
        (lambda m: prune.custom_from_mask(m, "weight", Tensor.ones((3,))), ValueError, "the mask has the shape"),
        (lambda m: prune.identity(m, "other"), AttributeError, "Linear has no parameter 'other'"),
        (lambda m: prune.PruningContainer(m), TypeError, "expected a BasePruningMethod, got Linear"),
    ],
)
def test_errors_leave_the_module_as_it_was(call: Any, error: type[Exception], words: str) -> None:
    model = layer(WEIGHT)
    before = dict(model.named_parameters())
    with pytest.raises(error, match=words):
        call(model)
    assert dict(model.named_parameters()) == before
    assert not prune.is_pruned(model)
