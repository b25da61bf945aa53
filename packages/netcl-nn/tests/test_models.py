"""Whole models: ResNet and MLP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.io import load_model, save_model
from netcl.nn import Tanh, init, resnet, simple

# torchvision's numbers of parameters for 1000 classes.
COUNTS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_torchvisions(name: str) -> None:
    with init.skipped():
        model = getattr(resnet, name)()
    assert sum(p.size for p in model.parameters()) == COUNTS[name]
    assert getattr(resnet, name.replace("resnet", "ResNet")) is getattr(resnet, name)


def test_names_are_torchvisions() -> None:
    with init.skipped():
        state = resnet.resnet50(10).state_dict()
    assert state["layer1.0.downsample.0.weight"].shape == (256, 64, 1, 1)
    assert state["layer4.2.bn3.running_var"].shape == (2048,)
    assert state["conv1.weight"].shape == (64, 3, 7, 7) and state["fc.weight"].shape == (10, 2048)


@pytest.mark.parametrize("block", [resnet.BasicBlock, resnet.Bottleneck])
@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
def test_a_small_one_trains_and_goes_through_a_file(block, stem: str, normal, tmp_path: Path) -> None:
    model, x = resnet.ResNet(block, (1, 1), 3, stem), normal(2, 3, 16, 16)
    assert model.conv1.stride == ((2, 2) if stem == "imagenet" else (1, 1))
    loss = ag.cross_entropy(model(x), Tensor.from_host(np.array([0, 2])))
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    save_model(model, tmp_path / "m.netcl")
    np.testing.assert_array_equal(load_model(tmp_path / "m.netcl")(x).to_host(), model(x).to_host())


def test_first_values() -> None:
    weight = resnet.ResNet(resnet.BasicBlock, (1,), 3).conv1.weight.to_host()
    assert weight.std() == pytest.approx(np.sqrt(2 / (64 * 49)), rel=0.05)
    with pytest.raises(ValueError, match="'small'"):
        resnet.resnet18(stem="small")


def test_mlp(normal, tmp_path: Path) -> None:
    model, x = simple.MLP(4, 8, 2, num_hidden_layers=2, activation=Tanh), normal(5, 4)
    assert [type(layer).__name__ for layer in model.layers] == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
    save_model(model, tmp_path / "m.netcl")
    np.testing.assert_array_equal(load_model(tmp_path / "m.netcl")(x).to_host(), model(x).to_host())
    assert simple.MLP(4, 8, 2, 0)(x).shape == (5, 2)
