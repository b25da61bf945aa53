"""Bags of embeddings, normalised parameters, unpooling, running statistics of instances, functions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.io import load_model, save_model

F = nn.functional


def test_rows_are_scaled_in_place_to_a_norm() -> None:
    weight = Tensor.from_host(np.array([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], np.float32))
    F.embedding(np.array([0, 1, 0]), weight, max_norm=1.0)
    np.testing.assert_allclose(weight.numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)
    with pytest.raises(ValueError, match="expected a max_norm of at least 0, got -1"):
        F.embedding(np.array([0]), weight, max_norm=-1.0)
    with pytest.raises(ValueError, match="scale_grad_by_freq goes with the modes sum and mean"):
        F.embedding_bag(np.array([[0]]), weight, mode="max", scale_grad_by_freq=True)


def test_gradients_of_bags_are_divided_by_the_number_of_occurrences() -> None:
    weight = ag.Parameter(Tensor.ones((4, 2)))
    F.embedding_bag(np.array([[0, 2, 2], [3, 0, 2]]), weight, mode="sum", scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(weight.grad.to_host(), [[1, 1], [0, 0], [1, 1], [1, 1]], rtol=1e-6)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_layers_scale_the_rows_that_they_read(kind: Any) -> None:
    layer = kind.from_pretrained(Tensor.from_host(np.array([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], np.float32)))
    assert not layer.weight.requires_grad
    layer.max_norm = 1.0
    layer(np.array([[0, 1]]))
    np.testing.assert_allclose(layer.weight.numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)
    with pytest.raises(ValueError, match="expected a max_norm of at least 0, got -1"):
        kind(3, 2, max_norm=-1)
    with pytest.raises(TypeError, match="max_norm: expected a number or None, got 'sum'"):
        kind(3, 2, max_norm="sum")
    with pytest.raises(ShapeError, match=r"\(num, dim\), got \(4,\)"):
        kind.from_pretrained(Tensor.zeros((4,)))


def test_layers_divide_gradients_by_the_number_of_occurrences() -> None:
    table = Tensor.ones((4, 2))
    layer = nn.Embedding.from_pretrained(table, freeze=False, scale_grad_by_freq=True, padding_idx=1)
    layer(np.array([[0, 2, 2], [1, 0, 3]])).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.to_host(), [[1, 1], [0, 0], [1, 1], [1, 1]], rtol=1e-6)
    with pytest.raises(ValueError, match="scale_grad_by_freq goes with the modes sum and mean"):
        nn.EmbeddingBag(4, 2, mode="max", scale_grad_by_freq=True)
    with pytest.raises(ShapeError, match=r"_weight: expected shape \(5, 2\), got \(4, 2\)"):
        nn.Embedding(5, 2, _weight=table)


def test_tables_are_saved_with_their_options(tmp_path: Path) -> None:
    for layer in (
        nn.Embedding(5, 2, 1, max_norm=2, norm_type=1, scale_grad_by_freq=True, sparse=True),
        nn.EmbeddingBag(5, 2, 2.0, mode="sum", include_last_offset=True, padding_idx=0),
        nn.BatchNorm2d(3, bias=False),
    ):
        save_model(layer, tmp_path / "layer.netcl")
        again = load_model(tmp_path / "layer.netcl")
        assert repr(again) == repr(layer)
        np.testing.assert_array_equal(again.weight.numpy(), layer.weight.numpy())


def test_norms_without_a_bias(rng: np.random.Generator) -> None:
    x = Tensor.from_host(rng.standard_normal((2, 4, 3, 3)).astype(np.float32))
    for make in (
        lambda bias: nn.BatchNorm2d(4, bias=bias),
        lambda bias: nn.GroupNorm(2, 4, bias=bias),
        lambda bias: nn.InstanceNorm2d(4, affine=True, bias=bias),
        lambda bias: nn.SyncBatchNorm(4, bias=bias),
    ):
        plain, shifted = make(False), make(True)
        assert plain.bias is None
        np.testing.assert_array_equal(plain(x).numpy(), shifted(x).numpy())
    lazy = nn.LazyBatchNorm2d(bias=False)
    lazy(x)
    assert list(lazy.state_dict()) == ["weight", "running_mean", "running_var", "num_batches_tracked"]
    assert nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(4, bias=False)).bias is None


@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.InstanceNorm2d(3),
        lambda: nn.InstanceNorm2d(3, affine=True),
        lambda: nn.BatchNorm2d(3, affine=False),
        lambda: nn.GroupNorm(3, 3, affine=False),
        lambda: nn.LayerNorm(4, elementwise_affine=False),
    ],
)
def test_an_activation_overwrites_the_result_of_a_norm(norm: Callable[[], Any], normal: Callable[..., Tensor]) -> None:
    data = normal(2, 3, 5, 4).numpy()
    gradients = []
    for inplace in (True, False):
        x = Tensor.from_host(data).requires_grad_()
        (nn.ReLU(inplace=inplace)(norm()(x)) * Tensor.from_host(data)).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(*gradients, rtol=1e-6)
    assert np.abs(gradients[0]).max() > 0.01


def test_pools_with_a_divisor_or_positions(rng: np.random.Generator) -> None:
    image = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    blocks = image.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(1, 2, 2, 2, 4)
    x = Tensor.from_host(image)
    np.testing.assert_allclose(nn.AvgPool2d(2, divisor_override=3)(x).numpy(), blocks.sum(-1) / 3, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="whole number other than 0 as divisor_override, got 0"):
        nn.AvgPool3d(2, divisor_override=0)(Tensor.zeros((1, 1, 2, 2, 2)))
    largest, positions = nn.AdaptiveMaxPool2d(2, return_indices=True)(x)
    assert positions.dtype == nn.functional.adaptive_max_pool2d(x, 2, return_indices=True)[1].dtype == "int64"
    np.testing.assert_array_equal(largest.numpy(), blocks.max(-1))
    flat = np.take_along_axis(image.reshape(1, 2, 16), positions.numpy().reshape(1, 2, 4), axis=2)
    np.testing.assert_array_equal(flat.reshape(1, 2, 2, 2), blocks.max(-1))


@pytest.mark.parametrize("kind", [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d])
def test_transposed_convolutions_pad_with_zeros_only(kind: Any) -> None:
    assert kind(2, 3, 3, padding_mode="zeros").padding_mode == "zeros"
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for ConvTranspose'):
        kind(2, 3, 3, padding_mode="reflect")
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for LazyConvTranspose'):
        getattr(nn, f"Lazy{kind.__name__}")(3, 3, padding_mode="circular")


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, rng: np.random.Generator) -> None:
    bag = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=2)
    ids, offsets = np.array([1, 5, 2, 0, 2, 4, 4]), np.array([0, 3, 3, 4, 5])
    table = bag.weight.to_host()
    function: Any = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    expected = np.zeros((5, 3), np.float32)
    for at, part in enumerate(np.split(ids, offsets[1:])):
        kept = part[part != 2]
        if len(kept):
            expected[at] = function(table[kept], axis=0)
    for given in (offsets, Tensor.from_host(offsets)):
        np.testing.assert_allclose(bag(Tensor.from_host(ids), given).to_host(), expected, rtol=1e-5, atol=1e-6)
    ag.sum(bag(ids, offsets)).backward()
    assert not bag.weight.grad.to_host()[2].any()
    assert bag.weight.grad.to_host()[0].any()
    table = np.delete(table, 2, axis=0)
    square = np.array([[0, 1], [3, 3]])
    moved = bag(np.where(square >= 2, square + 1, square))
    np.testing.assert_allclose(moved.to_host(), function(table[square], axis=1), rtol=1e-5)
    last = nn.EmbeddingBag(6, 3, mode=mode, include_last_offset=True)
    assert last(ids, np.array([0, 3, 7])).shape == (2, 3)


def test_bags_that_are_wrong() -> None:
    bag, ids = nn.EmbeddingBag(6, 3), np.arange(4)
    with pytest.raises(ShapeError, match=r"\(4,\) without offsets"):
        bag(ids)
    with pytest.raises(ValueError, match=r"offsets \[1, 2\] do not part 4"):
        bag(ids, [1, 2])
    with pytest.raises(ValueError, match="expected mode='sum' with per_sample_weights"):
        bag(ids, [0, 2], Tensor.ones((4,)))
    with pytest.raises(DTypeError, match="whole numbers, got float"):
        bag(np.ones((2, 2)))
    with pytest.raises(ValueError, match="'median'"):
        nn.EmbeddingBag(6, 3, mode="median")


def test_weight_norm(normal: Callable[..., Tensor], tmp_path: Path) -> None:
    layer, x = nn.Linear(3, 4), normal(2, 3)
    before = layer(x).to_host()
    assert nn.weight_norm(layer) is layer
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.shape == (4, 1)
    np.testing.assert_allclose(layer(x).to_host(), before, rtol=1e-5, atol=1e-6)
    layer.weight_g.write(2 * layer.weight_g.to_host())
    ag.sum(ag.square(layer(x))).backward()
    v, bias = layer.weight_v.to_host(), layer.bias.to_host()
    np.testing.assert_allclose(layer(x).to_host() - bias, 2 * (before - bias), rtol=1e-4, atol=1e-5)
    # A longer v changes nothing: its gradient is at right angles to it.
    np.testing.assert_allclose((v * layer.weight_v.grad.to_host()).sum(1), 0, atol=1e-4)
    save_model(layer, tmp_path / "m.netcl")
    for other in (copy.deepcopy(layer), load_model(tmp_path / "m.netcl"), nn.remove_weight_norm(copy.deepcopy(layer))):
        np.testing.assert_allclose(other(x).to_host(), layer(x).to_host(), rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="Linear has no parameter 'weight'"):
        nn.weight_norm(layer)
    with pytest.raises(ValueError, match="'weight' of Linear is not normalised"):
        nn.remove_weight_norm(nn.Linear(2, 2))


def test_spectral_norm(normal: Callable[..., Tensor], tmp_path: Path) -> None:
    layer, x = nn.spectral_norm(nn.Conv2d(3, 4, 3)), normal(2, 3, 5, 5)
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    for _ in range(20):
        ag.sum(ag.square(layer(x))).backward()
    assert np.linalg.norm(layer.weight.to_host().reshape(4, -1), 2) == pytest.approx(1, rel=1e-3)
    u = layer.weight_u.to_host()
    layer.eval()(x)
    np.testing.assert_array_equal(layer.weight_u.to_host(), u)
    save_model(layer, tmp_path / "m.netcl")
    for other in (load_model(tmp_path / "m.netcl"), nn.remove_spectral_norm(copy.deepcopy(layer))):
        np.testing.assert_allclose(other(x).to_host(), layer(x).to_host(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_puts_back_what_pooling_took(rank: int, normal: Callable[..., Tensor]) -> None:
    x = normal(2, 3, *(4, 6, 2)[:rank])
    pooled, places = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{rank}d")(2)(pooled, places).to_host()
    taken = back != 0
    np.testing.assert_array_equal(back[taken], x.to_host()[taken])
    assert taken.sum() == pooled.size


def test_instances_with_running_statistics(normal: Callable[..., Tensor]) -> None:
    layer, x = nn.InstanceNorm1d(3, momentum=0.5, track_running_stats=True), normal(2, 3, 8)
    out, data = layer(x).to_host(), x.to_host().astype(np.float64)
    mean, var = data.mean(2), data.var(2, ddof=1)
    np.testing.assert_allclose(out, nn.InstanceNorm1d(3)(x).to_host(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.to_host(), 0.5 * mean.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.to_host(), 0.5 + 0.5 * var.mean(0), rtol=1e-4)
    fixed = (data - 0.5 * mean.mean(0)[:, None]) / np.sqrt(0.5 + 0.5 * var.mean(0)[:, None] + 1e-5)
    np.testing.assert_allclose(layer.eval()(x).to_host(), fixed, rtol=1e-4, atol=1e-5)


def test_functions(normal: Callable[..., Tensor]) -> None:
    x, y = normal(3, 4), normal(3, 4)
    a, b = (t.to_host().astype(np.float64) for t in (x, y))
    exp = np.exp(-a) / np.exp(-a).sum(0)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    weight = normal(2, 4, 4)
    pairs = [
        (F.relu(ag.clone(x), inplace=True), np.maximum(a, 0)),
        (F.leaky_relu(x, 0.2), np.where(a > 0, a, 0.2 * a)),
        (F.softmin(x, dim=0), exp),
        (F.normalize(x, dim=0), a / np.linalg.norm(a, axis=0)),
        (F.cosine_similarity(x, y), (a * b).sum(1) / lengths),
        (F.pairwise_distance(x, y), np.linalg.norm(a - b + 1e-6, axis=1)),
        (F.pad(x, (1, 2), value=3.0), np.pad(a, [(0, 0), (1, 2)], constant_values=3.0)),
        (F.max_pool1d(ag.reshape(x, (1, 3, 4)), 2, ceil_mode=True), a.reshape(1, 3, 2, 2).max(-1)),
        (F.bilinear(x, y, weight), np.einsum("ni,kij,nj->nk", a, weight.to_host(), b)),
        (F.embedding_bag(np.array([[0, 2]]), x, mode="sum"), a[[0]] + a[[2]]),
        (F.one_hot(np.array([1, 0]), -1), np.array([[0, 1], [1, 0]])),
        (F.dropout2d(ag.reshape(x, (1, 3, 2, 2)), training=False), a.reshape(1, 3, 2, 2)),
        (F.triplet_margin_loss(x, x, y, margin=0.5), np.maximum(0, 0.5 - np.linalg.norm(a - b, axis=1)).mean()),
        (F.layer_norm(x, (4,)), (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)),
    ]
    for got, expected in pairs:
        np.testing.assert_allclose(got.to_host(), expected, rtol=1e-4, atol=1e-5)
    hard = F.gumbel_softmax(x, hard=True).to_host()
    np.testing.assert_allclose(np.sort(hard, 1), np.sort(np.eye(4)[[0] * 3], 1), atol=1e-6)
    dropped = F.dropout1d(Tensor.ones((4, 50, 3)), 0.5).to_host()
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert (dropped == dropped[..., :1]).all()
    mask = Tensor.from_host(np.tri(3, dtype=bool))
    q = ag.reshape(x, (1, 3, 4))
    np.testing.assert_allclose(
        F.scaled_dot_product_attention(q, q, q, attn_mask=mask).to_host(),
        F.scaled_dot_product_attention(q, q, q, is_causal=True).to_host(),
        rtol=1e-5,
    )
    with pytest.raises(AttributeError, match="no_such_function"):
        _ = F.no_such_function


def test_both_names_of_an_axis() -> None:
    for layer in (nn.Softmax(0), nn.Softmax(axis=0), nn.Softmax(dim=0)):
        assert layer.axis == layer.dim == 0
        assert repr(layer) == "Softmax(dim=0)"
    assert repr(nn.LeakyReLU(0.2, inplace=True)) == "LeakyReLU(negative_slope=0.2, inplace=True)"


def test_instance_norm_without_a_batch_and_of_other_channels():
    x = Tensor.from_host(np.random.default_rng(5).normal(size=(3, 4, 5)).astype(np.float32))
    for layer in (nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm2d(3, track_running_stats=True).eval()):
        np.testing.assert_allclose(layer(x).to_host(), layer(x.unsqueeze(0)).to_host()[0], rtol=1e-6)
    with pytest.warns(UserWarning, match="other than num_features channels"):
        found = nn.InstanceNorm2d(2)(x)
    np.testing.assert_allclose(found.to_host(), nn.InstanceNorm2d(3)(x).to_host(), rtol=1e-6)
    with pytest.raises(ShapeError, match="InstanceNorm2d"):
        nn.InstanceNorm2d(2, affine=True)(x)
