"""Containers."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor


def test_sequential(normal) -> None:
    a, b, c = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)
    model = nn.Sequential(a, b).append(c)
    assert len(model) == 3
    assert list(model) == [a, b, c]
    assert model[-1] is c
    assert isinstance(model[:2], nn.Sequential)
    assert list(model[:2]) == [a, b]
    x = normal(5, 3)
    np.testing.assert_array_equal(model(x).to_host(), c(b(a(x))).to_host())
    model.insert(1, nn.Identity())
    assert [type(m).__name__ for m in model] == ["Linear", "Identity", "ReLU", "Linear"]
    del model[1]
    model[1] = nn.Tanh()
    assert [type(m).__name__ for m in model] == ["Linear", "Tanh", "Linear"]
    assert sorted(model.state_dict()) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    assert nn.Sequential()(x) is x


def test_sequential_with_names(normal) -> None:
    model = nn.Sequential({"first": nn.Linear(3, 2), "second": nn.ReLU()})
    assert sorted(model.state_dict()) == ["first.bias", "first.weight"]
    assert model.first is model[0]
    assert list(dict(model[:1].named_children())) == ["first"]


def test_lists_and_dicts() -> None:
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    layers.extend([nn.ReLU()])
    assert len(layers) == 3
    assert len(list(layers.parameters())) == 4
    named = nn.ModuleDict({"a": nn.Linear(2, 2)})
    named["b"] = nn.ReLU()
    assert list(named) == ["a", "b"] == list(named.keys())
    assert "a" in named
    assert len(named) == 2
    assert dict(named.items())["b"] is named["b"]
    assert list(named.values())[0] is named["a"]
    del named["a"]
    assert list(named.parameters()) == []
    with pytest.raises(TypeError, match="no forward"):
        layers(Tensor.zeros((1,)))


def test_concat(normal) -> None:
    model, x = nn.Concat(nn.Linear(3, 2), nn.Linear(3, 4)), normal(5, 3)
    expected = np.concatenate([model[0](x).to_host(), model[1](x).to_host()], axis=1)
    np.testing.assert_array_equal(model(x).to_host(), expected)
    joined = nn.Concat(axis=0)(x, x)
    assert joined.shape == (10, 3)
    assert model[:1].axis == 1
    assert len(model[:1]) == 1


def test_lists_of_modules_are_joined_and_popped() -> None:
    joined = nn.Sequential(nn.Linear(1, 1)) + nn.Sequential(nn.ReLU(), nn.Tanh())
    assert [type(module) for module in joined] == [nn.Linear, nn.ReLU, nn.Tanh]
    layers = nn.ModuleList([nn.ReLU()])
    layers += [nn.Tanh(), nn.Sigmoid()]
    assert isinstance(layers.pop(0), nn.ReLU)
    assert [name for name, _ in layers.named_children()] == ["0", "1"]
    table = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert isinstance(table.pop("a"), nn.ReLU)
    assert list(table) == ["b"]
    table.clear()
    assert not len(table)
