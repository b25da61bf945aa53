"""Call forms of PyTorch's layers and functions beyond shapes and values: positions, hints and base classes."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.nn.functional as F
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import ShapeError

X = np.array([[1.0, -2.0, 0.5], [4.0, 0.0, -3.0]], np.float32)
W = np.array([[1.0, 2.0, 3.0], [0.5, 0.0, 1.5]], np.float32)


@pytest.fixture
def tensors():
    return [Tensor.from_host(array, requires_grad=True) for array in (X, np.zeros_like(X), W)]


HUBER = np.where(np.abs(X) < 1, X * X / 2, np.abs(X) - 0.5)
LOSSES = [
    (F.mse_loss, "none", X * X * W),
    (F.mse_loss, "sum", (X * X * W).sum()),
    (F.mse_loss, "mean", (X * X * W).sum() / W.sum()),
    (F.l1_loss, "mean", (np.abs(X) * W).sum() / W.sum()),
    (F.huber_loss, "mean", (HUBER * W).mean()),
    (F.huber_loss, "sum", (HUBER * W).sum()),
]


@pytest.mark.parametrize(("loss", "reduction", "expected"), LOSSES)
def test_losses_take_weights(tensors, loss, reduction, expected):
    x, target, weight = tensors
    np.testing.assert_allclose(
        loss(x, target, reduction=reduction, weight=weight.detach()).numpy(), expected, rtol=1e-6
    )


def test_the_weighted_mean_has_gradients_of_both(tensors):
    x, target, weight = tensors
    F.mse_loss(x, target, weight=weight).backward()
    total = W.sum()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X * W / total, rtol=1e-5)
    np.testing.assert_allclose(weight.grad.numpy(), X * X / total - (X * X * W).sum() / total**2, rtol=1e-5)


def test_weights_have_the_shape_of_the_input(tensors):
    x, target, weight = tensors
    with pytest.raises(ShapeError, match="expected a weight of the input's shape"):
        F.l1_loss(x, target, weight=weight[0])
    with pytest.raises(ValueError, match="reduction: expected"):
        F.mse_loss(x, target, reduction="median", weight=weight)


def test_softmin_and_gumbel_softmax_by_position(tensors):
    x = tensors[0].detach()
    exponentials = np.exp(-X.astype(np.float64))
    np.testing.assert_allclose(F.softmin(x, 0, dtype="float32").numpy(), exponentials / exponentials.sum(0), rtol=1e-5)
    assert F.softmin(x, 1, dtype="float16").dtype == "float16"
    drawn = F.gumbel_softmax(x, 0.5, True, 1e-10, 0)
    np.testing.assert_array_equal(drawn.numpy().sum(0), np.ones(3))
    assert F.gumbel_softmax(x, hard=True, axis=0).numpy().sum() == 3


def test_the_hint_is_causal_needs_the_mask():
    x = Tensor.from_host(np.ones((3, 1, 4), np.float32))
    weights = [Tensor.from_host(np.ones(shape, np.float32)) for shape in ((12, 4), (12,), (4, 4), (4,))]

    def attend(**options):
        given = (weights[0], weights[1], None, None, False, 0.0, weights[2], weights[3])
        return F.multi_head_attention_forward(x, x, x, 4, 2, *given, **options)

    with pytest.raises(RuntimeError, match="is_causal says that attn_mask is causal and needs it; write attn_mask="):
        attend(is_causal=True)
    mask = ag.logical_not(ag.causal_mask(3, 3, queue=x.queue))
    _, seen = attend(is_causal=True, attn_mask=mask)
    assert seen.numpy()[0, 0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("extra", [{}, {"add_zero_attn": True}, {"batch_first": True}])
def test_attention_takes_the_hint_with_its_mask_only(extra, weights):
    layer = nn.MultiheadAttention(4, 2, **extra)
    x = Tensor.from_host(np.random.default_rng(0).normal(size=(3, 3, 4)).astype(np.float32))
    with pytest.raises(RuntimeError, match="MultiheadAttention: is_causal says that attn_mask is causal and needs it"):
        layer(x, x, x, is_causal=True, need_weights=weights)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    padding = Tensor.from_host(np.array([[False, False, False], [False, True, False], [False, False, True]]))
    for options in ({}, {"key_padding_mask": padding}):
        hinted = layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=weights, **options)[0]
        expected = layer(x, x, x, attn_mask=mask, need_weights=weights, **options)[0]
        np.testing.assert_allclose(hinted.to_host(), expected.to_host(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda: nn.TransformerEncoderLayer(4, 2, 8), {"is_causal": True}),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1), {"is_causal": True}),
        (lambda: nn.TransformerDecoderLayer(4, 2, 8), {"tgt_is_causal": True}),
        (lambda: nn.TransformerDecoderLayer(4, 2, 8), {"memory_is_causal": True}),
        (lambda: nn.Transformer(4, 2, 1, 1, 8), {"tgt_is_causal": True}),
    ],
)
def test_transformers_take_the_hint_with_its_mask_only(make, options):
    layer, x = make(), Tensor.from_host(np.ones((3, 1, 4), np.float32))
    given = (x,) if "is_causal" in options else (x, x)
    with pytest.raises(RuntimeError, match=r"write attn_mask=nn\.Transformer\.generate_square_subsequent_mask"):
        layer(*given, **options)


def test_recurrent_layers_have_a_base_class():
    layers = [nn.RNN(2, 3), nn.RNN(2, 3, nonlinearity="relu"), nn.LSTM(2, 3, 2, bidirectional=True), nn.GRU(2, 3)]
    assert all(isinstance(layer, nn.RNNBase) for layer in layers)
    assert [layer.mode for layer in layers] == ["RNN_TANH", "RNN_RELU", "LSTM", "GRU"]
    weights = layers[2].all_weights
    assert [len(parts) for parts in weights] == [4] * 4
    assert weights[1][0] is layers[2].weight_ih_l0_reverse
    assert layers[2].flatten_parameters() is None


def test_the_base_class_is_a_layer_of_its_mode():
    layer, same = nn.RNNBase("LSTM", 2, 3), nn.LSTM(2, 3)
    layer.load_state_dict(same.state_dict())
    x = Tensor.from_host(np.ones((4, 1, 2), np.float32))
    np.testing.assert_array_equal(layer(x)[0].to_host(), same(x)[0].to_host())
    with pytest.raises(ValueError, match="expected a mode of RNN_TANH, RNN_RELU, LSTM, GRU, got 'ELMAN'"):
        nn.RNNBase("ELMAN", 2, 3)
    with pytest.raises(ValueError, match="only an LSTM has a projection; proj_size=1"):
        nn.RNNBase("GRU", 2, 3, proj_size=1)


def test_an_uninitialized_buffer_is_a_buffer():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", nn.UninitializedBuffer(dtype="float64"))

    layer = Layer()
    assert isinstance(layer.mean, Tensor)
    assert (layer.mean.dtype, layer.mean.requires_grad) == ("float64", False)
    layer.mean.materialize((2, 3))
    assert layer.mean.shape == (2, 3)
    assert type(layer.mean) is Tensor


@pytest.mark.parametrize("name", ["quantized", "qat", "quantizable", "intrinsic"])
def test_modules_of_quantized_layers_are_absent_with_a_reason(name: str) -> None:
    with pytest.raises(AttributeError, match="no quantized dtypes"):
        getattr(nn, name)
