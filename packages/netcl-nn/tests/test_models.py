"""Whole models: ResNet, MLP, GPT and models of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.io import load_model, save_model
from netcl.nn import GPT, KeyValueCache, Tanh, init, resnet, simple, vision
from netcl.ops import manual_seed

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
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["fc.weight"].shape == (10, 2048)


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


def test_gpt_continues_by_its_cache_as_without(tmp_path: Path) -> None:
    manual_seed(1)
    model = GPT(11, block_size=8, n_layer=2, n_head=2, n_embd=8, dropout=0.5)
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    out = model.generate(ids, 7, temperature=0)
    assert model.training
    assert out.shape == (2, 10)
    assert out.dtype == "int64"
    model.eval()
    expected = ids
    for _ in range(7):  # the last two are beyond the block
        logits = model(Tensor.from_host(expected[:, -8:])).to_host()[:, -1]
        expected = np.concatenate([expected, logits.argmax(-1)[:, None]], 1)
    np.testing.assert_array_equal(out.to_host(), expected)
    cache = KeyValueCache(8)
    with ag.no_grad():
        parts = [model(Tensor.from_host(ids[:, part]), cache).to_host() for part in (slice(0, 2), slice(2, 3))]
    np.testing.assert_allclose(np.concatenate(parts, 1), model(Tensor.from_host(ids)).to_host(), rtol=1e-4, atol=1e-6)
    save_model(model, tmp_path / "m.netcl")
    again = load_model(tmp_path / "m.netcl")
    assert again.lm_head.weight is again.wte.weight
    np.testing.assert_array_equal(again.generate(ids, 3, temperature=0).to_host(), out.to_host()[:, :6])


def test_gpt_draws() -> None:
    model = GPT(11, block_size=8, n_layer=1, n_head=2, n_embd=8)
    model.wte.weight.write(20 * model.wte.weight.to_host())
    ids = np.tile([[1, 2]], (200, 1))
    logits = model(Tensor.from_host(ids)).to_host()[0, -1].astype(np.float64)
    manual_seed(5)
    drawn = model.generate(ids, 1, temperature=2.0, top_k=3).to_host()[:, -1]
    best = np.argsort(-logits)[:3]
    assert set(drawn) <= set(best)
    share = np.exp(logits[best] / 2) / np.exp(logits[best] / 2).sum()
    assert np.abs((drawn[:, None] == best).mean(0) - share).max() < 0.15
    manual_seed(5)
    np.testing.assert_array_equal(model.generate(ids, 1, temperature=2.0, top_k=3).to_host()[:, -1], drawn)
    assert model.generate(ids, 0).shape == (200, 2)
    with pytest.raises(ShapeError, match=r"block_size=8, got \(1, 9\)"):
        model(Tensor.zeros((1, 9), "int64"))
    with pytest.raises(ValueError, match="top_k=0"):
        model.generate(ids, 1, top_k=0)


def test_gpt_begins_small() -> None:
    model = GPT(20, block_size=8, n_layer=2, n_head=2, n_embd=16)
    ids, after = (Tensor.from_host(rows) for rows in np.random.default_rng(0).integers(0, 20, (2, 4, 8)))
    loss = ag.cross_entropy(model(ids).reshape(32, 20), after.reshape(32))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(20), rel=0.05)
    assert all(p.grad is not None for p in model.parameters())
    assert sum(p.size for p in model.parameters()) == 20 * 16 + 8 * 16 + 2 * (12 * 16**2 + 13 * 16) + 32
    assert model.h[0].attn.c_proj.weight.to_host().std() == pytest.approx(0.01, rel=0.2)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: vision.SmallVGG(7), (2, 3, 16, 16)),
        (lambda: vision.VisionTransformer(8, 4, 7, dim=12, depth=2), (2, 3, 8, 8)),
    ],
    ids=["SmallVGG", "VisionTransformer"],
)
def test_vision(make, shape: tuple[int, ...], normal, tmp_path: Path) -> None:
    model, x = make(), normal(*shape)
    out = model(x)
    assert out.shape == (2, 7)
    ag.sum(ag.square(out)).backward()
    assert all(p.grad is not None for p in model.parameters())
    save_model(model.eval(), tmp_path / "m.netcl")
    np.testing.assert_array_equal(load_model(tmp_path / "m.netcl")(x).to_host(), model(x).to_host())
    layers = getattr(getattr(model, "encoder", None), "layers", None)
    assert layers is None or (layers[0].linear1.weight.to_host() != layers[1].linear1.weight.to_host()).any()


def test_the_rows_of_a_table_may_have_embeddings() -> None:
    manual_seed(0)
    model = simple.TableMLP(3, 2, hidden=[5], embeddings=[(4, 2), (3, 1)], dropout=0.5)
    numbers = Tensor.from_host(np.ones((6, 3), np.float32))
    ids = Tensor.from_host(np.array([[0, 2], [3, 0]] * 3))
    model.eval()
    out = model(numbers, ids)
    vectors = [embedding.weight.to_host() for embedding in model.vectors]
    joined = np.concatenate([np.ones((2, 3)), vectors[0][[0, 3]], vectors[1][[2, 0]]], axis=1)
    first, last = model.layers[0], model.layers[-1]
    hidden = np.maximum(joined @ first.weight.to_host().T + first.bias.to_host(), 0)
    expected = hidden @ last.weight.to_host().T + last.bias.to_host()
    np.testing.assert_allclose(out.to_host()[:2], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match=r"TableMLP with 2 embeddings takes ids \(N, 2\) after the numbers"):
        model(numbers)
    with pytest.raises(ShapeError, match="TableMLP with 0 embeddings takes no ids"):
        simple.TableMLP(3, 2)(numbers, ids)
